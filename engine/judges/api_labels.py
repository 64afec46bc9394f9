"""Label probabilities out of the alternatives that a server shows for the first token of its answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

AMBIGUOUS = 0.01
"""Share of the answer's probability that may stand on a token which begins another label too."""


def label_forms(labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> tuple[tuple[str, ...], ...]:
    """How each label may be written, by the rule of local judges: as given, with a leading space, and the card's own.

    Args:
        labels: the answers offered.
        spellings: further spellings of each, aligned with `labels`; empty for none.
    """
    return tuple(
        tuple(dict.fromkeys((label, f" {label}", *(spellings[i] if spellings else ()))))
        for i, label in enumerate(labels)
    )


def label_row(top: Sequence[tuple[str, float]], forms: Sequence[Sequence[str]]) -> tuple[NDArray[np.float64], str]:
    """Probability of each label, its variants merged; what the server does not show counts as nothing.

    Args:
        top: tokens and their probabilities.
        forms: for each of L labels the texts that write it.

    Returns:
        Raw probabilities (L,), whose sum is the coverage (a lower bound of it), and why they cannot be used: a
        token that is one label but also begins another, which the server shows no token for ("1" and "10").
    """
    found: dict[str, float] = {}
    for token, p in top:
        found[token] = found.get(token, 0.0) + p
    row = np.array([sum(found.get(form, 0.0) for form in of_label) for of_label in forms])
    for i, of_label in enumerate(forms):
        for form in of_label:
            longer = [
                other
                for j, others in enumerate(forms)
                for other in others
                if j != i and other.startswith(form) and other not in found
            ]
            if longer and found.get(form, 0.0) > AMBIGUOUS * float(row.sum()):
                reason = (
                    f"the token {form!r} may be the beginning of {longer[0]!r}, for which the server shows no token"
                )
                return row, reason
    return row, ""
