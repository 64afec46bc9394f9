"""Labels in what a server shows of an answer's first token: their spellings, probabilities, and token ids.

vLLM's `/tokenize` gives ids and token strings; its `logprob_token_ids` then gives the probability of each of these
tokens, whatever its rank. (`allowed_token_ids` and `logit_bias` would also bring a label to the top, but they change
the distribution that is read.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.inference.completions import plain_token
from engine.inference.served import ApiClient

Forms = tuple[tuple[str, ...], ...]
"""For each of L labels the texts that write it."""
AMBIGUOUS = 0.01
"""Share of the answer's probability that may stand on a token which begins another label too."""
MOST_IDS = 128
"""Tokens asked for at once; vLLM's own limit."""


def label_forms(labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> Forms:
    """Spellings of each label, by the rule of local judges: as given, with a leading space, and the card's own.

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


def label_ids(client: ApiClient, model: str, forms: Sequence[Sequence[str]]) -> tuple[tuple[int, str], ...]:
    """Each token that is a label, with the label's spelling.

    A spelling is encoded alone and behind a line break, since some tokenizers put a space before whatever they encode.

    Args:
        client: the server.
        model: its name there.
        forms: for each of L labels the texts that write it.

    Returns:
        Ids without repetition; empty where the server tells none, a label has no token of its own, or two share one.
    """
    found: dict[int, tuple[int, str]] = {}
    for i, of_label in enumerate(forms):
        own = [(token, form) for form in of_label for token in _tokens(client, model, form)]
        if not own or any(found.get(token, (i, ""))[0] != i for token, _ in own):
            return ()
        for token, form in own:
            found.setdefault(token, (i, form))
    return tuple((token, form) for token, (_, form) in found.items()) if len(found) <= MOST_IDS else ()


def _tokens(client: ApiClient, model: str, form: str) -> list[int]:
    """Single tokens that write this spelling."""
    alone, behind = (_encoded(client, model, text) for text in (form, f"\n{form}"))
    found = [alone[0][0]] if len(alone) == 1 else []
    return [*found, *(token for token, piece in behind[-1:] if piece == form)]


def _encoded(client: ApiClient, model: str, text: str) -> list[tuple[int, str]]:
    """Ids and token strings; empty where the server tells none."""
    asked = {"model": model, "prompt": text, "add_special_tokens": False, "return_token_strs": True}
    body: Any = client.raw("tokenize", asked)
    try:
        pieces = body.get("token_strs") or [""] * len(body["tokens"])
        return [(int(token), plain_token(str(piece))) for token, piece in zip(body["tokens"], pieces, strict=True)]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []
