"""What every study's manifest says in the same words: the data, the judge, and how the run ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.data.dataset import Dataset
from engine.errors import Cancelled
from engine.judges.base import Judge
from engine.runs import RunFolder, now
from engine.studies.attack_one import device_of


def about_data(dataset: Dataset, n_items: int, n_responses: int) -> dict[str, Any]:
    """The manifest's `data`: which set, and how much of it is judged."""
    return {
        "dataset_id": dataset.dataset_id,
        "name": dataset.name,
        "n_items": n_items,
        "n_responses": n_responses,
    }


def about_judge(judge: Judge, labels: Sequence[str]) -> dict[str, Any]:
    """The manifest's `judge`: which one, the answers it was offered, and where it ran."""
    about = {"spec": judge.spec, "fingerprint": judge.fingerprint, "labels": labels, "device": device_of(judge)}
    inner: Any = judge
    while hasattr(inner, "inner"):
        inner = inner.inner
    return about | ({"api": inner.about()} if hasattr(inner, "about") else {})


@contextmanager
def ending(run: RunFolder, stopped: Callable[[], object] | None = None) -> Iterator[None]:
    """Mark a run whose study does not come to its end; the exception goes on.

    Args:
        run: the run.
        stopped: keeps what is done and marks the run, when the study is cancelled; by default it is only marked.
    """
    try:
        yield
    except Cancelled:
        if stopped:
            stopped()
        else:
            run.update_manifest(state="stopped", finished=now())
        raise
    except BaseException:
        run.update_manifest(state="failed", finished=now())
        raise
