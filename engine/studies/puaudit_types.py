"""Question types A to F of paper 002 (appendix B.3, figure 10), as a capable model sorts the questions.

A model that runs here is read by its label probabilities, one behind an API by the letter it writes at temperature 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from engine.cache import CallCache
from engine.errors import InputError
from engine.judges.asking import ask, ready
from engine.judges.base import Checkpoint
from engine.models.chat import render_ids
from engine.models.labels import label_tokens
from engine.models.loader import LoadedModel
from engine.settings import Settings
from engine.studies.api_writing import API, api_writer

__all__ = ["API", "TYPES", "UNREAD", "classify", "classify_by_api"]

TYPES: dict[str, str] = {
    "A": "Programming (coding, debugging, devops, software engineering)",
    "B": "Math or logical reasoning",
    "C": "Factual or knowledge-based question",
    "D": "Writing, translation, summarization, or creative generation",
    "E": "Advice, recommendation, or planning",
    "F": "Other, meta-level, or unclear questions",
}
"""The paper's categories, in its own words."""
UNREAD = "unread"
_MIN_COVERAGE = 0.5
_SYSTEM = "Classify the user's question. Reply with one letter."
_LETTER = re.compile(rf"[\W_]*([{''.join(TYPES)}])(?:[\W_]*|[.:)*].*)", re.DOTALL)
"""A letter alone, or with a mark after it and what it stands for; "A question about" is none."""
_ANSWER_TOKENS = 16


def classify(
    questions: Mapping[str, str], loaded: LoadedModel, cache: CallCache | None, checkpoint: Checkpoint
) -> dict[str, str]:
    """The type of each question by item id, as "A: Programming"; `unread` below half the probability on the letters.

    Args:
        questions: item id -> prompt.
        loaded: a model that answers prompts; how well it classifies is its own matter.
        cache: where answers are kept.
        checkpoint: told after each batch; may raise to stop.

    Raises:
        InputError: the model does not answer prompts.
    """
    if loaded.kind not in {"causal", "encoder-decoder"}:
        raise InputError(f"{loaded.spec} answers no prompts, so it cannot classify questions. Name another model.")
    tokens = label_tokens(loaded.tokenizer, list(TYPES))
    calls = []
    for prompt in questions.values():
        call = ready(loaded, render_ids(loaded.tokenizer, _SYSTEM, _asked(prompt)), tokens, 0)
        calls.append(call if call.length <= loaded.max_tokens else None)
    found: dict[str, str] = {}
    for item, answer in zip(questions, ask(loaded, calls, cache, checkpoint), strict=True):
        p = None if answer is None else answer.probabilities
        if p is None or p.sum() < _MIN_COVERAGE:
            found[item] = UNREAD
        else:
            found[item] = _named(list(TYPES)[int(p.argmax())])
    return found


def classify_by_api(
    questions: Mapping[str, str], spec: str, settings: Settings, checkpoint: Checkpoint
) -> dict[str, str]:
    """As `classify`, by a model behind a server; an answer that is no letter of a type is `unread`.

    Args:
        questions: item id -> prompt.
        spec: `api:MODEL`; server and key are those of the API judges, and answers are kept with theirs.
        settings: where they are set.
        checkpoint: told after each batch; may raise to stop.

    Raises:
        InputError: no server is set up, or the spec names no model.
        ModelError: the server takes no call at all, or stopped answering.
    """
    prompts = [f"{_SYSTEM}\n\n{_asked(prompt)}" for prompt in questions.values()]
    written = api_writer(spec, settings).write(prompts, _ANSWER_TOKENS, lambda: checkpoint(0, len(prompts)))
    found: dict[str, str] = {}
    for item, answer in zip(questions, written, strict=True):
        letter = _LETTER.fullmatch(answer.text)
        found[item] = _named(letter[1]) if letter and not answer.unread else UNREAD
    return found


def _asked(prompt: str) -> str:
    listed = "\n".join(f"{letter}: {about}" for letter, about in TYPES.items())
    return f"Categories:\n{listed}\n\n[User Question]\n{prompt}\n\nWhich category fits best? Its letter:"


def _named(letter: str) -> str:
    return f"{letter}: {TYPES[letter].split(' (')[0].split(',')[0]}"
