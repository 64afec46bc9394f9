"""Tables of the study `puaudit` alone, in the terms of `engine.core.schema`."""

from __future__ import annotations

from engine.core.schema import Column, Table

AUDIT = Table(
    "audit",
    (
        Column("split", "int", "-1: every labelled pair is a positive; from 0: seeded split of the labelled pairs"),
        Column("attack", "str", "attack on the losing response, or none"),
        Column("part", "str", "question type that has a transport of its own; missing where all share one", False),
        Column("comparison_id", "str", "the pair"),
        Column("item_id", "str", "the item both answer"),
        Column("type", "str", "question type"),
        Column("role", "str", "side of the transport", True, ("positive", "denoised", "unlabelled")),
        Column("place", "int", "place among the positives that stayed, or among the unlabelled; -1: denoised away"),
        Column("verdict", "str", "side the judge prefers; of an unlabelled pair, under the attack", False, ("a", "b")),
        Column("human", "str", "human preference; of an unlabelled pair, hidden from the audit", False, ("a", "b")),
        Column("agrees_clean", "float", "1 where the clean verdict is the human's, else 0 (NaN: unknown)", False),
        Column("agrees", "float", "the same of the verdict under this attack", False),
        Column("entry_mass", "float", "transported mass at which the pair enters, in [0, 1]", False),
        Column("entry_price", "float", "cost of a unit of mass there, 1 - cos", False),
        Column("centroid", "float", "cosine to the mean positive, in [-1, 1]", False),
        Column("nearest", "float", "cosine to the nearest positive, in [-1, 1]", False),
        Column("top10", "float", "mean cosine to the ten nearest positives, in [-1, 1]", False),
        Column("pca_x", "float", "first principal component of the difference embeddings", False),
        Column("pca_y", "float", "second principal component", False),
        Column("umap_x", "float", "UMAP of the difference embeddings, first axis", False),
        Column("umap_y", "float", "UMAP, second axis", False),
        Column("resampled", "list", "entry mass under each bootstrap of the positives", False),
    ),
)

TRANSPORT = Table(
    "transport",
    (
        Column("split", "int", "as in the table audit"),
        Column("attack", "str", "as in the table audit"),
        Column("part", "str", "as in the table audit", False),
        Column("sent", "int", "units of mass moved after this event; all are lcm(n_P, n_U)"),
        Column("unlabelled", "int", "place of the unlabelled pair it adds to"),
        Column("positive", "int", "place of the positive it draws from"),
        Column("price", "float", "cost of a unit of its mass, never falling"),
    ),
)
