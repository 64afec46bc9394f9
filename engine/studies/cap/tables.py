"""The tables of the study `cap`: separability by layer, the tutor's texts, the alpha sweep, anchors, vectors."""

from __future__ import annotations

from engine.core.schema import Column, Table

CAP_LAYERS = Table(
    "cap_layers",
    (
        Column(
            "space",
            "str",
            "where eq. 3 was taken; pca-written leaves degraded texts out",
            allowed=("pca", "raw", "pca-written"),
        ),
        Column("layer", "int", "output of this block, counted from 1"),
        Column("fitted", "float", "separability on the half that chose components and layer"),
        Column("value", "float", "separability on the other half"),
        Column("lower", "float", "lower end of its bootstrap interval over contexts"),
        Column("upper", "float", "upper end"),
        Column("null_mean", "float", "mean with the sides shuffled within contexts"),
        Column("null_high", "float", "upper 95 % point with the sides shuffled within contexts"),
        Column("p_value", "float", "share of shuffles that reach the value, in (0, 1]"),
        Column("n_high", "int", "texts of the high side in the other half"),
        Column("n_low", "int", "texts of the low side in the other half"),
    ),
)
CAP_TEXTS = Table(
    "cap_texts",
    (
        Column("text_id", "str", "identifies the candidate"),
        Column("pool", "int", "1 sets the thresholds, 2 is retained against them"),
        Column("item_id", "str", "its context"),
        Column("source", "str", "how the tutor was asked, or that a rule degraded a draft"),
        Column("temperature", "float", "of the draw"),
        Column("text", "str", "verbatim", required=False),
        Column("score", "float", "the undefended judge's score (NaN: unread)", required=False),
        Column("unread_reason", "str", "why there is no score", required=False),
        Column("side", "str", "which standard it was retained for", required=False, allowed=("high", "low")),
        Column("half", "str", "half of the contexts it fell into", required=False, allowed=("fitted", "evaluated")),
        Column("umap_x", "float", "UMAP of the chosen layer", required=False),
        Column("umap_y", "float", "UMAP of the chosen layer", required=False),
    ),
    key="text_id",
)
CAP_POINTS = Table(
    "cap_points",
    (
        Column("text_id", "str", "a retained candidate"),
        Column("layer", "int", "counted from 1"),
        Column("x", "float", "first principal component of that layer"),
        Column("y", "float", "second principal component"),
    ),
)
CAP_SWEEP = Table(
    "cap_sweep",
    (
        Column("side", "str", "direction steered to", allowed=("high", "low")),
        Column("form", "str", "cosine as in the paper, or centred", allowed=("paper", "centred")),
        Column("layer", "int", "where it was steered"),
        Column("alpha", "float", "steering strength (eqs. 4, 5)"),
        Column("item_id", "str", "training context"),
        Column("text", "str", "what the tutor wrote, verbatim", required=False),
        Column("score", "float", "the undefended judge's score (NaN: unread)", required=False),
        Column("unread_reason", "str", "why there is no score", required=False),
        Column("relative_edit", "float", "mean |s' - s| / |s| over its tokens"),
        Column("perplexity", "float", "under the unsteered tutor, of the text alone", required=False),
        Column("repetition", "float", "share of its 3-word runs that it had before, in [0, 1]", required=False),
        Column("words", "int", "words written"),
    ),
)
CAP_ANCHORS = Table(
    "cap_anchors",
    (
        Column("arm", "str", "the defense they serve"),
        Column("item_id", "str", "the context"),
        Column("side", "str", "which slot of the prompt", allowed=("high", "low")),
        Column("text", "str", "verbatim", required=False),
        Column("score", "float", "the undefended judge's score of the anchor alone", required=False),
        Column("alpha", "float", "steering strength, where it was steered", required=False),
        Column("tokens", "int", "prompt and written tokens it cost", required=False),
    ),
)
CAP_VECTORS = Table(
    "cap_vectors",
    (
        Column("layer", "int", "counted from 1"),
        Column("high", "list", "high standard hv"),
        Column("low", "list", "low standard lv"),
        Column("mean_norm", "float", "mean length of the activations behind them"),
    ),
)
CAP_TABLES = (CAP_LAYERS, CAP_TEXTS, CAP_POINTS, CAP_SWEEP, CAP_ANCHORS, CAP_VECTORS)
"""Every table that only this study writes."""
