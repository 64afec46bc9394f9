"""Question types A to F of paper 002 (appendix B.3, figure 10), read from a capable model's label probabilities."""

from __future__ import annotations

from collections.abc import Mapping

from engine.cache import CallCache
from engine.errors import InputError
from engine.judges.asking import ask, ready
from engine.judges.base import Checkpoint
from engine.models.chat import render_ids
from engine.models.labels import label_tokens
from engine.models.loader import LoadedModel

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
    listed = "\n".join(f"{letter}: {about}" for letter, about in TYPES.items())
    tokens = label_tokens(loaded.tokenizer, list(TYPES))
    calls = []
    for prompt in questions.values():
        asked = f"Categories:\n{listed}\n\n[User Question]\n{prompt}\n\nWhich category fits best? Its letter:"
        call = ready(loaded, render_ids(loaded.tokenizer, _SYSTEM, asked), tokens, 0)
        calls.append(call if call.length <= loaded.max_tokens else None)
    found: dict[str, str] = {}
    for item, answer in zip(questions, ask(loaded, calls, cache, checkpoint), strict=True):
        p = None if answer is None else answer.probabilities
        if p is None or p.sum() < _MIN_COVERAGE:
            found[item] = UNREAD
        else:
            letter = list(TYPES)[int(p.argmax())]
            found[item] = f"{letter}: {TYPES[letter].split(' (')[0].split(',')[0]}"
    return found
