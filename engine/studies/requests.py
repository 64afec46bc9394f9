"""From a dataset to requests, and from a request to an attacked one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from engine.attacks.base import Attack
from engine.data.dataset import Dataset
from engine.judges.base import Request
from engine.schema import Task


def build_requests(dataset: Dataset, *, response_ids: Collection[str] | None = None) -> list[Request]:
    """One pointwise request per response, in the data's order; missing texts were excluded on reading."""
    items = dataset.items.set_index("item_id")
    wanted = dataset.responses
    if response_ids is not None:
        wanted = wanted[wanted["response_id"].isin(list(response_ids))]
    contexts = items["context"].fillna("").to_dict()
    references = items["reference"].fillna("").to_dict()
    tasks = items["task"].to_dict()
    return [
        Request(
            item_id=item,
            response_id=response,
            task=Task(tasks[item]),
            context=contexts[item],
            response=text,
            reference=references[item],
            system=system,
        )
        for response, item, text, system in zip(
            wanted["response_id"], wanted["item_id"], wanted["text"], wanted["system"].fillna(""), strict=True
        )
    ]


def with_attack(request: Request, attack: Attack) -> Request:
    """The request with its response attacked and the arm named."""
    return replace(request, response=attack.apply(request), attack=attack.name)
