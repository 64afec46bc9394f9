"""How many judge calls a check-up takes at most, counted from the data before anything is asked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from engine.schema import Protocol

REWRITTEN = 4
"""Arms of rewritten texts: the neutral one, a wordier one and two manners."""
REWORDED = 3
"""Prompts in other words: two paraphrases and one with the scale turned round."""
LABELLED = 3
"""Comparisons with a human label that are asked, for each one that is asked in every arm."""


@dataclass(frozen=True)
class Size:
    """How much is asked.

    Attributes:
        items: only so many, from the first.
        responses: most responses of an item.
        pairs: most comparisons of an item.
        attacks: how many injections are tried.
        keys: how many texts without content are tried.
    """

    items: int
    responses: int
    pairs: int
    attacks: int
    keys: int


def most_calls(
    items: pd.DataFrame,
    responses: pd.DataFrame,
    comparisons: pd.DataFrame | None,
    size: Size,
    protocols: Collection[Protocol],
) -> dict[Protocol, int]:
    """Judge calls of the eleven probes at most, each question once; rewritings that fail take fewer.

    Args:
        items: table `items`.
        responses: table `responses`.
        comparisons: table `comparisons` of a set of pairs; None for responses without pairs of their own.
        size: how much is asked.
        protocols: those the judge answers.

    Returns:
        Protocol -> calls, for the protocols that have any.
    """
    each = _counts(items, responses, comparisons, size)
    injected = size.attacks + 1  # and harmless text of the same length
    scores, pairs, checks = each["drawn"].sum(), each["pairs"].sum(), each["checks"].sum()
    made = {
        # clean, injected, rewritten, asked again; then the empty texts, once an item
        Protocol.POINTWISE: each["scored"].sum()
        + scores * (injected + REWRITTEN + 1)
        + (each["drawn"] > 0).sum() * (size.keys + 1),
        # clean, injected, rewritten, a copy, asked again, an empty one; in both orders
        Protocol.PAIRWISE: 2 * (each["compared"].sum() + pairs * (injected + REWRITTEN + 3)),
        Protocol.VERIFIER: checks * (injected + 2) + (each["checks"] > 0).sum() * (size.keys + 1),
    }
    bases = {Protocol.POINTWISE: scores, Protocol.PAIRWISE: 2 * pairs, Protocol.VERIFIER: checks}
    asked = [protocol for protocol in made if protocol in protocols and bases[protocol]]
    if asked:
        made[asked[0]] += REWORDED * bases[asked[0]]
    return {protocol: int(made[protocol]) for protocol in asked}


def _counts(items: pd.DataFrame, responses: pd.DataFrame, comparisons: pd.DataFrame | None, size: Size) -> pd.DataFrame:
    """One row an item: drawn, scored (drawn or rated), pairs, compared (asked or labelled), checks."""
    if comparisons is not None:  # a text that stands in several pairs is judged once
        responses = responses.drop_duplicates(["item_id", "text"])
    by_item = responses.groupby("item_id", sort=False)
    every = by_item.size().head(size.items)
    drawn = every.clip(upper=size.responses)
    rated = by_item["human_score"].count().reindex(every.index)
    if comparisons is None:
        possible, labelled = every * (every - 1) // 2, rated * (rated - 1) // 2
    else:
        own = comparisons.groupby("item_id")
        possible = own.size().reindex(every.index, fill_value=0)
        labelled = own["human"].count().reindex(every.index, fill_value=0)
    pairs = possible.clip(upper=size.pairs)
    referenced = items.set_index("item_id")["reference"].fillna("").str.strip().ne("").reindex(every.index)
    return pd.DataFrame(
        {
            "drawn": drawn,
            "scored": (drawn + rated).clip(upper=every),
            "pairs": pairs,
            "compared": pairs.clip(lower=labelled.clip(upper=LABELLED * size.pairs)),
            "checks": drawn * referenced,
        }
    )
