"""Which responses are correct: the one rule for what the column `quality` of verification data may say.

The studies of verifiers, the check-up, the file formats and the guess of columns all read labels here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import InputError

if TYPE_CHECKING:
    from engine.data.dataset import Dataset  # which reads files by the mapping, which asks here

RIGHT, WRONG = "correct", "incorrect"
"""What our own files and imports write."""
SPELLINGS = "correct or incorrect, true or false, yes or no, right or wrong, 1 or 0"
_YES = frozenset({RIGHT, "true", "yes", "right", "1", "1.0"})
_NO = frozenset({WRONG, "false", "no", "wrong", "0", "0.0"})
"""1.0 and 0.0 are what a spreadsheet or pandas makes of 1 and 0 where cells are missing."""


def says_correct(label: object) -> bool | None:
    """What a label says of its response, in any case; None where it says neither."""
    text = str(label).strip().casefold()
    return True if text in _YES else False if text in _NO else None


def all_say_correctness(labels: Iterable[object]) -> bool:
    """Whether there are labels and each says correct or incorrect; missing and blank ones are passed over."""
    filled = [label for label in labels if isinstance(label, str) and label.strip()]
    return bool(filled) and all(says_correct(label) is not None for label in filled)


def known_right(dataset: Dataset) -> dict[str, bool]:
    """Response id -> whether the response is correct, for those whose quality says anything.

    Raises:
        InputError: a quality says neither; it is named with its response, and no label is guessed.
    """
    found: dict[str, bool] = {}
    known = dataset.responses.dropna(subset=["quality"])
    for response, label in zip(known["response_id"], known["quality"], strict=True):
        right = says_correct(label)
        if right is None:
            raise InputError(
                f"The data {dataset.name} have the quality {str(label)[:40]!r} for the response {str(response)!r}, "
                f"which says neither correct nor incorrect. Read are {SPELLINGS}. Write one of these, or leave the "
                "cell empty: then the response is not asked about."
            )
        found[str(response)] = right
    return found


def needed_right(dataset: Dataset) -> dict[str, bool]:
    """As `known_right`, where a study rests on it.

    Raises:
        InputError: the data say it of no response, or as `known_right`.
    """
    if dataset.responses["quality"].isna().all():
        raise InputError(
            f"Nothing in the data {dataset.name} says which responses are correct. Choose the column that does as "
            f"Quality: --map quality=COLUMN, or on the page Data. Read are {SPELLINGS}. A VerifyBench file (question, "
            "answer, completion, gold_correct) needs no choice."
        )
    return known_right(dataset)
