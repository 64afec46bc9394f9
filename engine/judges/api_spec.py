"""The specs of served judges: `api:MODEL?name=value`, `decision:MODEL`, and the models chosen on this machine."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

from engine.core.errors import InputError, shown
from engine.core.files import write_atomically
from engine.core.settings import Settings, api_settings, get_settings, offered_models
from engine.inference.completions import BYTES_PER_TOKEN, CHOICE_TOKENS, FRAME_TOKENS, REASONING_TOKENS, TOKEN_RULE
from engine.judges.base import Expense

PREFIX = "api:"
DECISION = "decision:"
SERVED = (PREFIX, DECISION)
"""Beginnings of the specs of judges behind a server."""
Answers = Literal["auto", "probabilities", "choice", "text"]
Thinking = Literal["auto", "on", "off"]
THINKING: tuple[Thinking, ...] = ("auto", "on", "off")
EFFORTS = ("", "none", "minimal", "low", "medium", "high")
ANSWERS: tuple[Answers, ...] = ("auto", "probabilities", "choice", "text")
MAX_SAMPLES = 50
MAX_MODELS = 50
MAX_SEED = 1_000_000
CARD_BYTES, TEXT_TOKENS = 250, CHOICE_TOKENS
"""A built-in card's own words [bytes], and the longest answer of a card that says nothing of it [tokens]."""
_MODEL = re.compile(r"[A-Za-z0-9][\w./:@+~-]{0,199}")
_DIALS: Mapping[str, str] = {
    "answers": "auto, probabilities, choice or text",
    "samples": f"a whole number from 1 to {MAX_SAMPLES}",
    "temperature": "a number from 0 to 2",
    "thinking": "auto, on or off: reasoning before the answer",
    "effort": "none, minimal, low, medium or high: the server's reasoning_effort",
    "seed": f"a whole number from 0 to {MAX_SEED}: of the samples",
}


@dataclass(frozen=True)
class ApiSpec:
    """The parts of a spec.

    Attributes:
        model: the model's name at the server.
        answers: read token probabilities, a text that the server holds to the labels (`choice`), a free text, or
            (`auto`) the first of these that the server offers.
        samples: answers to each prompt where text is read.
        temperature: of text answers; 0 by default for one answer, 1 for several.
        thinking: `off` asks the chat template to leave reasoning out, `on` has it written and reads the text after it,
            `auto` leaves it out where the model reasons by itself and the server can.
        effort: `reasoning_effort` of the server; empty sends none.
        seed: of the samples of one prompt; another draws others.
        kind: a chat model, or a model asked through the server's decision API.
    """

    model: str
    answers: Answers = "auto"
    samples: int = 1
    temperature: float = 0.0
    thinking: Thinking = "auto"
    effort: str = ""
    seed: int = 0
    kind: Literal["api", "decision"] = "api"

    @property
    def may_be_probabilities(self) -> bool:
        """True where the server decides: probabilities if it offers them."""
        return self.answers == "auto" and self.thinking != "on"

    @property
    def may_be_choice(self) -> bool:
        """True where the server is asked to hold a text answer to the labels: never where it reasons first."""
        return self.answers in {"auto", "choice"} and self.thinking != "on"

    @property
    def reasoning(self) -> list[str]:
        """What is asked of reasoning, for keys; empty where nothing is."""
        return [*([] if self.thinking == "auto" else [f"thinking-{self.thinking}"]), *filter(None, [self.effort])]


def parse_api(spec: str) -> ApiSpec:
    """Read `api:MODEL[?samples=5&temperature=1&answers=text]`, or `decision:MODEL`.

    Raises:
        InputError: no model, an unknown parameter or value, or several answers that would all be alike.
    """
    if spec.startswith(DECISION):
        return _decision(spec)
    name, _, query = spec.removeprefix(PREFIX).partition("?")
    if not spec.startswith(PREFIX) or not _MODEL.fullmatch(name):
        raise InputError(
            f"{shown(spec, 120)} names no API model. Write api:MODEL with the model's name at the server, for example "
            "api:gpt-4o-mini; parameters follow a question mark, for example api:gpt-4o-mini?samples=5."
        )
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(parameters) - set(_DIALS)):
        known = "; ".join(f"{parameter} ({values})" for parameter, values in _DIALS.items())
        raise InputError(f"{PREFIX}{name} has no parameter {unknown[0]!r}. It has: {known}.")
    answers = next((a for a in ANSWERS if a == parameters.get("answers", "auto")), None)
    samples = _number(name, "samples", parameters.get("samples", "1"), 1, MAX_SAMPLES)
    default = "1" if samples > 1 else "0"
    temperature = _number(name, "temperature", parameters.get("temperature", default), 0, 2)
    if answers is None or samples != int(samples):
        parameter = "answers" if answers is None else "samples"
        raise InputError(_not_taken(name, parameter, parameters[parameter]))
    thinking = next((t for t in THINKING if t == parameters.get("thinking", "auto")), None)
    effort = parameters.get("effort", "")
    for parameter, good in (("thinking", thinking is not None), ("effort", effort in EFFORTS)):
        if not good:
            raise InputError(_not_taken(name, parameter, parameters[parameter]))
    if thinking == "on" and answers == "probabilities":
        raise InputError(
            f"{PREFIX}{name}: with thinking=on the first token is no answer, so there are no probabilities to read. "
            "Leave one of the two out."
        )
    if thinking == "on" and answers == "choice":
        raise InputError(
            f"{PREFIX}{name}: with thinking=on the reply begins with reasoning, so it cannot be held to the answers. "
            "Leave one of the two out."
        )
    seed = _number(name, "seed", parameters.get("seed", "0"), 0, MAX_SEED)
    if seed != int(seed):
        raise InputError(_not_taken(name, "seed", parameters["seed"]))
    if samples > 1 and temperature == 0:
        raise InputError(
            f"{PREFIX}{name}: {samples:g} samples at temperature 0 would all be alike. Raise one of the two."
        )
    return ApiSpec(name, answers, int(samples), temperature, thinking or "auto", effort, int(seed))


def _decision(spec: str) -> ApiSpec:
    name = spec.removeprefix(DECISION)
    if not _MODEL.fullmatch(name):
        raise InputError(
            f"{shown(spec, 120)} names no decision model. Write decision:MODEL with the model's name at the server; "
            "it takes no parameters, since nothing is drawn."
        )
    return ApiSpec(name, "probabilities", kind="decision")


def _not_taken(name: str, parameter: str, value: str) -> str:
    return f"{PREFIX}{name} cannot take {parameter}={shown(value, 40)}. Allowed: {_DIALS[parameter]}."


def _number(name: str, parameter: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InputError(_not_taken(name, parameter, text))
    return value


def is_served(spec: str) -> bool:
    """True where the judge is behind a server."""
    return spec.startswith(SERVED)


def rough_expense(spec: str, calls: int, prompt_bytes: float) -> Expense:
    """Upper bound on the cost of so many verdicts, without making a prompt; `ApiJudge.expense` counts each.

    Args:
        spec: of an API judge.
        calls: verdicts; where text is read each may take several answers.
        prompt_bytes: of the texts in a prompt on average; a card's own words are added.

    Raises:
        InputError: the spec or the settings are wrong.
    """
    asked, found = parse_api(spec), api_settings()
    text = (
        asked.answers in {"choice", "text"} or asked.thinking == "on" or (asked.answers == "auto" and asked.samples > 1)
    )
    sent = calls * (asked.samples if text else 1)
    prompt = sent * (math.ceil((prompt_bytes + CARD_BYTES) / BYTES_PER_TOKEN) + FRAME_TOKENS)
    answer = sent * (TEXT_TOKENS + REASONING_TOKENS * (asked.thinking == "on") if text else 1)
    money = found.money(prompt, answer) if found.priced else math.nan
    cap = found.max_cost or None
    return Expense(found.hosts, sent, prompt, answer, money, found.currency, found.max_calls, cap, TOKEN_RULE)


def known_models(settings: Settings | None = None) -> tuple[str, ...]:
    """Specs of the API models to offer: those of the settings, then those chosen on this machine."""
    settings = settings or get_settings()
    named = [model if is_served(model) else PREFIX + model for model in offered_models(settings)]
    return tuple(spec for spec in dict.fromkeys([*named, *_chosen(settings.api_models)]) if _valid(spec))


def remember_model(spec: str, settings: Settings | None = None) -> None:
    """Offer an API model from now on.

    Raises:
        InputError: the spec is none, or there are too many.
    """
    parse_api(spec)
    path = (settings or get_settings()).api_models
    chosen = _chosen(path)
    if spec in chosen:
        return
    if len(chosen) >= MAX_MODELS:
        raise InputError(f"{MAX_MODELS} API models are listed already. Remove one that is not needed.")
    _write(path, [*chosen, spec])


def forget_model(spec: str, settings: Settings | None = None) -> None:
    """Offer an API model no longer, unless the settings name it."""
    path = (settings or get_settings()).api_models
    _write(path, [one for one in _chosen(path) if one != spec])


def _chosen(path: Path) -> list[str]:
    try:
        seen = path.stat()
        return list(_read_at(path, seen.st_mtime_ns, seen.st_size))
    except (OSError, ValueError):
        return []


@lru_cache(maxsize=8)
def _read_at(path: Path, changed: int, size: int) -> tuple[str, ...]:
    """The list as its file is now: every page asks for it."""
    del changed, size
    found = json.loads(path.read_text(encoding="utf-8"))
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def _valid(spec: str) -> bool:
    try:
        parse_api(spec)
    except InputError:
        return False
    return True


def _write(path: Path, specs: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(specs, indent=1).encode())
