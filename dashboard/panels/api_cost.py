"""What a run would take, beside the button that starts it: its pace, and what an API judge would be sent and cost."""

from __future__ import annotations

import math

import pandas as pd

from engine import catalog
from engine.data.dataset import Dataset
from engine.errors import InputError


def api_cost(judge: str, dataset: Dataset, calls: int, *, texts: int = 1) -> str:
    """A sentence, or nothing for a judge that runs here.

    Args:
        judge: the judge's spec, with or without a card.
        dataset: whose texts stand in the prompts.
        calls: verdicts of the run.
        texts: responses, or texts as long as one, that stand in a prompt beside the context.
    """
    if not _is_api(judge) or not len(dataset.responses):
        return ""
    contexts = dataset.responses["item_id"].map(dataset.items.set_index("item_id")["context"])
    return cost_sentence(judge, calls, mean_bytes(contexts) + texts * mean_bytes(dataset.responses["text"]))


def mean_bytes(texts: pd.Series) -> float:
    """How long texts are on average [bytes of UTF-8]; 0 where there is none."""
    sizes = texts.fillna("").str.encode("utf-8", "replace").str.len()
    return float(sizes.mean()) if len(sizes) else 0.0


def cost_sentence(judge: str, calls: int, prompt_bytes: float) -> str:
    """As `api_cost`, for texts of so many bytes in a prompt on average."""
    if not _is_api(judge):
        return ""
    try:
        expense = catalog.rough_expense(catalog.split_spec(judge).model, calls, prompt_bytes)
    except InputError as error:
        return str(error)
    return f"At most {expense.sentence()} Kept answers are not sent again."


def _is_api(judge: str) -> bool:
    return catalog.split_spec(judge).model.startswith("api:")


def pace(verdicts: pd.DataFrame) -> float:
    """Seconds a call of these verdicts took on average; 0 where none was asked anew."""
    seconds = verdicts["seconds"]
    mean = float(seconds[seconds > 0].mean())  # a call from the cache took no time
    return 0.0 if math.isnan(mean) else mean
