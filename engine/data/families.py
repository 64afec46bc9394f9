"""Families of models, told by name: a judge and a system of one family may favour their own.

A name counts by its beginning, behind a maker's name (`Qwen/`) and a kind of judge (`hf:`). Models that others tuned
from a family's weights under a name of their own (vicuna, alpaca) are in none, since whose manner they write in is
not known.
"""

from __future__ import annotations

import re

FAMILIES: dict[str, str] = {
    "GPT": r"(chat)?gpt(?!4all|-?2\b|-?j\b|-?neo)|(text-)?davinci|o[134]\b",
    "Claude": r"claude",
    "PaLM and Gemini": r"palm|gemini|gemma|bard|bison",
    "Llama": r"(meta-?)?llama",
    "Qwen": r"qwen|qwq",
    "Mistral": r"(open-)?mi[sx]tral|ministral|magistral|codestral",
    "Falcon": r"falcon",
    "DeepSeek": r"deepseek",
    "Command": r"(c4ai-)?command|c4ai",
    "Phi": r"phi-?\d",
    "GLM": r"(chat)?glm",
    "Yi": r"yi-",
    "SmolLM": r"smollm|bundled:",
}
"""Family -> how its models' names begin."""


def family_of(name: str) -> str:
    """The family of a model or a judge's spec; empty where its name tells none."""
    plain = name.strip().casefold()
    tail = re.split(r"[:/]", plain.partition("?")[0])[-1]
    return next((f for f, begin in FAMILIES.items() if re.match(begin, tail) or re.match(begin, plain)), "")
