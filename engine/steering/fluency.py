"""Whether a text still reads like one: perplexity under the unsteered tutor, and repetition.

Strong steering breaks text, and a judge's score alone does not show it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.models.loader import LoadedModel
from engine.models.perplexity import reduced, text_ids, token_nlls
from engine.steering.vectors import Floats

RUN = 3


def repetition(text: str) -> float:
    """Share of a text's runs of three words that stood in it before, in [0, 1]; NaN below three words."""
    words = text.lower().split()
    runs = [tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else float("nan")


def text_perplexities(loaded: LoadedModel, texts: Sequence[str]) -> Floats:
    """Perplexity of each text alone (n,), each distinct text once; NaN where there is nothing to predict."""
    distinct = list(dict.fromkeys(texts))
    rows = [text_ids(loaded, text)[: loaded.max_tokens] for text in distinct]
    values = dict(zip(distinct, (reduced(row, None) for row in token_nlls(loaded, rows)), strict=True))
    return np.array([values[text] for text in texts])
