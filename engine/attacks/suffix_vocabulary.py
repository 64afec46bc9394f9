"""The words a phrase may be made of: those that are one token of the judge after a space."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.errors import ModelError
from engine.models.chat import encode_text, encode_texts

_SPACES = "Ġ▁"
_WORD = re.compile(r"[A-Za-z][a-z]{2,}")
_PROBE = "x"


class Vocabulary(NamedTuple):
    """V words and the token of each; a phrase is written with single spaces."""

    words: tuple[str, ...]
    tokens: tuple[int, ...]


def vocabulary_of(tokenizer: Any, only: Sequence[str] = ()) -> Vocabulary:
    """Words of at least three Latin letters (the first may be a capital) that the tokenizer writes as one token.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        only: take these words alone, in place of all; those of several tokens are left out.

    Raises:
        ModelError: there are none.
    """
    if only:
        candidates = list(dict.fromkeys(only))
    else:
        pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        candidates = [p[1:] for p in pieces if p and p[0] in _SPACES and _WORD.fullmatch(p[1:])]
    # Encoded behind another word: some tokenizers treat the beginning of a text differently.
    before = encode_text(tokenizer, _PROBE)
    rows = zip(candidates, encode_texts(tokenizer, [f"{_PROBE} {word}" for word in candidates]), strict=True)
    found = {word: row[-1] for word, row in rows if row[:-1] == before and len(row) == len(before) + 1}
    if not found:
        raise ModelError(
            "The judge's tokenizer writes no usable word as a single token after a space, and a phrase is searched "
            "word by word among such tokens. Use a judge with a subword tokenizer."
        )
    return Vocabulary(tuple(found), tuple(found.values()))
