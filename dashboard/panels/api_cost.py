"""What a run would send to an API judge and cost, beside the button that starts it."""

from __future__ import annotations

from engine import catalog
from engine.data.dataset import Dataset
from engine.errors import InputError


def api_cost(judge: str, dataset: Dataset, calls: int) -> str:
    """A sentence, or nothing for a judge that runs here.

    Args:
        judge: the judge's spec, with or without a card.
        dataset: whose texts stand in the prompts.
        calls: verdicts of the run.
    """
    spec = catalog.split_spec(judge).model
    if not spec.startswith("api:") or not len(dataset.responses):
        return ""
    contexts = dataset.items.set_index("item_id")["context"].fillna("")
    texts = dataset.responses["item_id"].map(contexts).fillna("") + dataset.responses["text"].fillna("")
    try:
        expense = catalog.rough_expense(spec, calls, float(texts.str.encode("utf-8", "replace").str.len().mean()))
    except InputError as error:
        return str(error)
    return f"At most {expense.sentence()} Kept answers are not sent again."
