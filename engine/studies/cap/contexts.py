"""Contexts of a CAP run, divided into those that train and those that are judged; progress of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.core.errors import InputError
from engine.data.dataset import Dataset
from engine.judges.base import Checkpoint, Request
from engine.studies.cap.study import EVALUATION, LEAST_POOL, TRAINING, CapConfig, least_candidates, steps_of
from engine.studies.running import build_requests


@dataclass(frozen=True)
class Contexts:
    """One request for each context, its response left empty, and the responses that are judged.

    Attributes:
        training: contexts that thresholds, vectors, layer and alphas come from.
        evaluation: the others.
        responses: of the evaluation contexts.
    """

    training: tuple[Request, ...]
    evaluation: tuple[Request, ...]
    responses: tuple[Request, ...]

    @property
    def every(self) -> tuple[Request, ...]:
        """All contexts."""
        return (*self.training, *self.evaluation)


def divide(config: CapConfig, dataset: Dataset) -> Contexts:
    """Contexts into a training and an evaluation side, by chance or as the data's column `group` says.

    Raises:
        InputError: fewer than four contexts, or a group column that does not name both sides.
    """
    requests = build_requests(dataset)
    first: dict[str, Request] = {}
    for request in requests:
        first.setdefault(request.item_id, request)
    items = list(first)
    if config.split == "group":
        groups = dataset.items.set_index("item_id")["group"].to_dict()
        train = [i for i in items if groups.get(i) == TRAINING]
        evaluated = [i for i in items if groups.get(i) == EVALUATION]
    else:
        order = np.random.default_rng(config.seed).permutation(len(items))
        half = len(items) // 2
        chosen = {items[k] for k in order[:half]}
        train, evaluated = [i for i in items if i in chosen], [i for i in items if i not in chosen]
    if min(len(train), len(evaluated)) < 2:
        raise InputError(
            f"The data {dataset.name} has {len(train)} training and {len(evaluated)} evaluation contexts; at least two "
            "each are needed. Use data with more items"
            + (f", or set the column group to {TRAINING} or {EVALUATION}." if config.split == "group" else ".")
        )
    train = train[: config.contexts]
    chosen = set(evaluated)
    judged = tuple(r for r in requests if r.item_id in chosen)[: config.limit]
    kept = dict.fromkeys(r.item_id for r in judged)
    return Contexts(tuple(first[i] for i in train), tuple(first[i] for i in kept), judged)


def check_pool(config: CapConfig, contexts: Contexts) -> None:
    """Refuse pools that cannot hold enough texts of both standards; the quick form fits its own.

    Raises:
        InputError: fewer than `LEAST_POOL` candidates.
    """
    n = len(contexts.training)
    if not config.quick and n * config.candidates < LEAST_POOL:
        raise InputError(
            f"{config.candidates} candidates of each of {n} training contexts are {n * config.candidates}; at least "
            f"{LEAST_POOL} are needed. Raise the candidates per context to {least_candidates(n)}, or use more contexts."
        )


class Progress:
    """Counts texts written and responses judged over the whole study.

    Args:
        checkpoint: told how far the study is.
        total: of all parts.
        say: told the name of a step that begins.
    """

    def __init__(self, checkpoint: Checkpoint, total: int, say: Callable[[str], object] = lambda _: None) -> None:
        self._checkpoint, self._total, self._done, self._say = checkpoint, total, 0, say

    def part(self, size: int, step: str = "") -> Checkpoint:
        """A checkpoint for the next part; parts must be taken one after the other.

        Args:
            size: of the part.
            step: its name for a reader; empty where the step before goes on.
        """
        if step:
            self._say(step)
        before = self._done
        self._done += size

        def look(done: int, total: int) -> None:
            self._checkpoint(before + round(size * done / max(total, 1)), self._total)

        return look


def expected_work(config: CapConfig, contexts: Contexts) -> int:
    """Texts written and judge calls, roughly; the unit of `Progress`."""
    return steps_of(config, len(contexts.training), len(contexts.every), len(contexts.responses))


def with_text(requests: Sequence[Request], texts: Sequence[str]) -> list[Request]:
    """The contexts with these texts as the responses under judgement."""
    return [
        replace(request, response=text, response_id=f"{request.item_id}-text-{k}")
        for k, (request, text) in enumerate(zip(requests, texts, strict=True))
    ]
