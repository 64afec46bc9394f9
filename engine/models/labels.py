"""The answers offered to a judge and the token sequences that write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import ModelError
from engine.models.chat import ENCODING

Spelling = tuple[int, ...]
"""Token ids that write one answer."""


@dataclass(frozen=True)
class LabelTokens:
    """The answers offered and how each may be written.

    Attributes:
        labels: the answers, L of them.
        ids: for each label, the ids of its one-token spellings.
        sequences: for each label, all its spellings as token sequences, where one label at least has no
            one-token spelling; empty otherwise.
    """

    labels: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    sequences: tuple[tuple[Spelling, ...], ...] = ()

    @property
    def spellings(self) -> tuple[tuple[Spelling, ...], ...]:
        """For each label, the token sequences that count as that answer."""
        return self.sequences or tuple(tuple((i,) for i in ids) for ids in self.ids)

    @property
    def beginnings(self) -> tuple[Spelling, ...]:
        """What must stand after the prompt when the model is asked: nothing, then each proper prefix."""
        found = {s[:k] for spellings in self.spellings for s in spellings for k in range(len(s))}
        return tuple(sorted(found, key=lambda s: (len(s), s)))

    @property
    def reach(self) -> int:
        """Tokens that scoring may put after a prompt."""
        return len(self.beginnings[-1])


def label_tokens(tokenizer: object, labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> LabelTokens:
    """Collect the spellings of each label: as given, with a leading space, and the card's own.

    Where every label has a one-token spelling, only those count (a single pass reads them all).

    Args:
        tokenizer: anything with a Hugging Face `encode`.
        labels: the answers, for example 1 to 5.
        spellings: further spellings per label (`Yes` for `YES`), aligned with `labels`; empty for none.

    Raises:
        ModelError: two labels are written alike, or a label cannot be written at all.
    """
    encode = tokenizer.encode  # type: ignore[attr-defined]
    unknown = getattr(tokenizer, "unk_token_id", None)
    single: list[tuple[int, ...]] = []
    whole: list[tuple[Spelling, ...]] = []
    for i, label in enumerate(labels):
        forms = [label, f" {label}", *(spellings[i] if spellings else ())]
        with ENCODING:
            ids = [tuple(encode(form, add_special_tokens=False)) for form in forms]
        ids = [one for one in ids if unknown not in one]
        whole.append(tuple(dict.fromkeys(one for one in ids if one)))
        ones = [one[0] for one in ids if len(one) == 1] or _pieces(tokenizer, label)
        single.append(tuple(dict.fromkeys(ones)))
    by_sequence = not all(single)
    made = LabelTokens(tuple(labels), tuple(single), tuple(whole) if by_sequence else ())
    if empty := [label for label, of_label in zip(labels, made.spellings, strict=True) if not of_label]:
        raise ModelError(f"The judge's vocabulary cannot write the label {empty[0]!r}. Choose other labels.")
    flat = [spelling for of_label in made.spellings for spelling in of_label]
    if len(flat) != len(set(flat)):
        what = "spelling" if by_sequence else "token"
        raise ModelError(f"Two of the labels {', '.join(labels)} share a {what}; they cannot be told apart.")
    return made


def _pieces(tokenizer: object, label: str) -> list[int]:
    """Vocabulary entries that are the label itself, for tokenizers that put a space before whatever they encode."""
    look_up, back = (getattr(tokenizer, n, None) for n in ("convert_tokens_to_ids", "convert_ids_to_tokens"))
    if not look_up or not back:
        return []
    found = [(piece, look_up(piece)) for piece in (label, f"▁{label}")]
    return [i for piece, i in found if i is not None and back(i) == piece]
