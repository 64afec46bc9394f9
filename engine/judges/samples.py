"""The verdict of one text, or of several that a server wrote to the same prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.judges.base import Request, Verdict, unread
from engine.judges.cards import Card
from engine.judges.labelled import Reader

if TYPE_CHECKING:
    from engine.judges.api import Got


def from_texts(
    reader: Reader, request: Request, card: Card, answers: Sequence[Got], seen: Verdict, least: float
) -> Verdict:
    """The verdict of one text, or the mean over the readable ones of several."""
    read = [
        unread(seen, got.failed) if got.failed else reader.from_text(request, card, got.text, seen, cut=got.cut)
        for got in answers
    ]
    texts = [got.text or got.failed for got in answers]
    if len(read) == 1:
        return replace(read[0], raw_text=answers[0].text)
    shown = "\n".join(f"[{i} of {len(texts)}] {text}" for i, text in enumerate(texts, 1))
    good = [verdict for verdict in read if verdict.read]
    seen = replace(seen, raw_text=shown, coverage=len(good) / len(read))
    if not good or seen.coverage < least:
        first = next(verdict.unread_reason for verdict in read if not verdict.read)
        return unread(seen, f"{len(good)} of {len(read)} answers could be read, below {least:g}; the first: {first}")
    marks = [verdict.probabilities for verdict in good if verdict.probabilities is not None]
    if len(marks) == len(good):
        shares = tuple(float(p) for p in np.mean(marks, axis=0))
        return reader.from_probabilities(request, card, shares, replace(seen, probabilities=shares))
    return replace(seen, score=float(np.mean([verdict.score for verdict in good])))  # scores between two labels
