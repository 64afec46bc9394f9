"""What every study's manifest says in the same words: the data, the judge, and how the run ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.data.dataset import Dataset, content_digest
from engine.errors import Cancelled, EngineError, InputError, OutOfCalls
from engine.judges.base import Judge, Request
from engine.runs import RunFolder, now
from engine.studies.attack_one import device_of


def about_data(dataset: Dataset, n_items: int, n_responses: int) -> dict[str, Any]:
    """The manifest's `data`: which set, the digest of its content, and how much of it is judged."""
    return {
        "dataset_id": dataset.dataset_id,
        "name": dataset.name,
        "digest": content_digest(dataset.items, dataset.responses),
        "n_items": n_items,
        "n_responses": n_responses,
    }


def about_judge(judge: Judge, labels: Sequence[str], asked: Iterable[Request] = ()) -> dict[str, Any]:
    """The manifest's `judge`: which one, in which revision, the answers it was offered, where it ran, its prompts.

    Args:
        judge: behind its defenses or not.
        labels: the answers it was offered.
        asked: requests of each kind that the study makes; the card of each is written down whole.
    """
    about: dict[str, Any] = {"spec": judge.spec, "fingerprint": judge.fingerprint, "labels": labels}
    about["device"] = device_of(judge)
    inner: Any = judge
    while hasattr(inner, "inner"):
        inner = inner.inner
    loaded = getattr(inner, "loaded", None)
    if loaded is not None:  # a model of a hub has a commit; the fingerprint covers the bundled weights
        commit = getattr(getattr(loaded.model, "config", None), "_commit_hash", None)
        about |= {"revision": commit or "", "precision": loaded.dtype}
    if prompts := _prompts(inner, asked):
        about["prompts"] = prompts
    return about | ({"api": inner.about()} if hasattr(inner, "about") else {})


def _prompts(judge: Any, asked: Iterable[Request]) -> list[dict[str, Any]]:
    """The cards behind the requests, each once; empty for a judge without cards."""
    found: dict[str, dict[str, Any]] = {}
    seen = set()
    for request in asked if hasattr(judge, "card") else ():
        kind = (request.protocol, request.task, request.anchored, request.variant)
        if kind in seen:
            continue
        seen.add(kind)
        try:
            card = judge.card(request)
        except InputError:
            continue  # it has no card for this kind, which the study says where it matters
        found[card.digest] = {
            "name": card.name,
            "digest": card.digest[:16],
            "protocol": card.protocol.value,
            "mode": card.mode,
            "labels": list(card.labels),
            "system": card.system,
            "user": card.user,
        }
    return list(found.values())


@contextmanager
def ending(run: RunFolder, stopped: Callable[[], object] | None = None) -> Iterator[None]:
    """Mark a run whose study does not come to its end; the exception goes on.

    Args:
        run: the run.
        stopped: keeps what is done and marks the run, when the study is cancelled; by default it is only marked.
    """
    try:
        yield
    except (Cancelled, KeyboardInterrupt) as stop:
        if stopped:
            stopped()
        else:
            run.update_manifest(state="stopped", finished=now())
        if isinstance(stop, OutOfCalls):
            run.update_manifest(error=str(stop))
        raise
    except BaseException as error:
        # the text of an error that is not ours may hold anything, a key among it
        why = str(error) if isinstance(error, EngineError) else type(error).__name__
        run.update_manifest(state="failed", finished=now(), error=why)
        raise
