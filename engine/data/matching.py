"""Which responses of two data sets are the same text under the same id, so that verdicts on them can be paired."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from engine.data.comparisons import load_comparisons
from engine.data.store import load_dataset
from engine.errors import InputError


def same_responses(first: str, second: str, *, datasets: Path, comparisons: Path) -> set[str] | None:
    """Ids of the responses that two data sets share, item and text alike; None where both are one set.

    Args:
        first: id of a saved or bundled data set, or of a set of pairs.
        second: the same of the other run.
        datasets: where data sets are saved (`settings.datasets`).
        comparisons: where sets of pairs are saved (`settings.comparisons`).

    Returns:
        An empty set where one of them is not on this machine any more.
    """
    if first and first == second:
        return None
    try:
        a, b = (_texts(one, datasets, comparisons) for one in (first, second))
    except InputError:
        return set()
    both = a.merge(b, on=["response_id", "item_id", "text", "context"], how="inner")
    return set(both["response_id"])


def _texts(data_id: str, datasets: Path, comparisons: Path) -> pd.DataFrame:
    try:
        found = load_dataset(data_id, datasets)
        items, responses = found.items, found.responses
    except InputError:
        pairs = load_comparisons(data_id, comparisons)
        items, responses = pairs.items, pairs.responses
    own = responses[["response_id", "item_id", "text"]].merge(items[["item_id", "context"]], on="item_id")
    return own.fillna({"text": "", "context": ""})
