"""Planted judges: no model, a known bias, so that every metric can be held against the truth.

A spec reads `planted:KIND?parameter=value&...`. Answers depend on the spec, the ids and the texts alone, through
uniform numbers derived with SHA-256; there is no state and no generator. Every score keeps clear of the ends
of the scale by construction, so nothing is clipped and the expected effect is exactly the parameter:

* `injection`: score = quality + strength * [the response asks for a high score] + noise.
* `verbosity`: score = quality + bonus(words) + noise, bonus(n) = clip(strength * log2((n + 1) / 20), -1.5,
  1.5).
* `noisy`: score = 3 + noise; blind to the response.
* `constant`: score = value.
* `position` (pairwise): the response shown first wins with probability 0.5 + strength / 2.
* `assertiveness` (pointwise and pairwise): see `planted_assertive`.
* `verifier` (verifier): see `engine.judges.planted`.

Quality is uniform over what the parameters leave of 1..5, drawn from the item and response ids. Noise is uniform
in [-noise, noise], drawn from seed, ids and the text as the judge sees it, so it has mean zero.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from engine.core.errors import InputError
from engine.core.schema import Order, Outcome, Protocol
from engine.judges.base import Checkpoint, Cost, Request, Verdict, no_checkpoint, unread

# The planted judge that likes an assertive tone: much in comparisons, little in scores.
#
# * pointwise: score = quality + points * [the response sounds assertive] + noise.
# * pairwise: response a wins with probability 0.5 + clip(0.5 (quality of a - quality of b) + strength (assertive a -
#   assertive b), -1, 1) / 2, the same draw in both orders. Of two texts of one response the assertive one
#   therefore wins with probability 0.5 + strength / 2.
#
# Quality is uniform over 0..1, drawn from the item and response ids, then spread over the free part of the scale.

SOUNDS = re.compile(
    r"without question|any doubt|no doubt|no mistake|certain|absolute|unquestionabl|indisputabl|undoubted|definite|"
    r"settled|facts are clear|is final|without exception",
    re.IGNORECASE,
)
"""Words that this judge takes for an assertive tone."""
QUALITY_PULL = 0.5
Uniform = Callable[..., float]


def score(parameters: Mapping[str, float], request: Request, uniform: Uniform, noise: float) -> float:
    """The pointwise score, in 1..5.

    Args:
        parameters: points and noise are used.
        request: the response as the judge sees it.
        uniform: evenly spread number of its arguments, in [0, 1).
        noise: this call's noise, within the parameter's range.
    """
    low, high = 1 + parameters["noise"], 5 - parameters["noise"] - parameters["points"]
    quality = _assertive_quality(request.item_id, request.response_id, uniform)
    return low + (high - low) * quality + parameters["points"] * sounds(request.response) + noise


def compare(parameters: Mapping[str, float], request: Request, uniform: Uniform) -> Verdict:
    """The pairwise verdict, decided outright and alike in both orders."""
    a_wins = uniform(
        "assertiveness",
        parameters["seed"],
        request.item_id,
        request.response_id,
        request.response_b_id,
        request.response,
        request.response_b,
    ) < win_probability(parameters, request, uniform)
    first_wins = a_wins is (request.order is not Order.BA)
    return Verdict(
        p_tie=0.0,
        p_a=float(a_wins),
        outcome=Outcome.A if a_wins else Outcome.B,
        probabilities=(1.0, 0.0) if first_wins else (0.0, 1.0),
        coverage=1.0,
    )


def win_probability(parameters: Mapping[str, float], request: Request, uniform: Uniform) -> float:
    """Probability that response a is preferred, in [0, 1]."""
    gap = _assertive_quality(request.item_id, request.response_id, uniform)
    gap -= _assertive_quality(request.item_id, request.response_b_id, uniform)
    pull = QUALITY_PULL * gap + parameters["strength"] * (sounds(request.response) - sounds(request.response_b))
    return 0.5 + max(-1.0, min(1.0, pull)) / 2


def sounds(text: str) -> int:
    """1 where the text sounds assertive to this judge, else 0."""
    return int(bool(SOUNDS.search(text)))


def _assertive_quality(item_id: str, response_id: str, uniform: Uniform) -> float:
    return uniform("quality", item_id, response_id)


# `planted:verifier`: a reference verifier without a model, with known flaws and a closed-form AUC (RefSwap).
#
# It compares the stated final answer with the reference as text. Three parameters say what it does beyond that:
#
# * `leak`: probability that a response without a stated answer (a master key) is accepted under the true reference,
#   drawn once for an item and text. So the expected false positive rate of each key is the parameter.
# * `self_solve`: under a reference that the stated answer does not match, p_yes = self_solve / 2 * U, so that a right
#   response keeps some probability when its reference is swapped, as a verifier that solves the problem itself would
#   give it; below 0.5, so that no wrong response is ever accepted.
# * `ref_sensitivity`: what a key loses when the reference is swapped. Under a reference that is not the item's own,
#   p_yes = (1 - ref_sensitivity) / 2 * U.
#
# All U are uniform on [0, 1) and independent for different references. With a = self_solve and b = 1 - ref_sensitivity,
# max_p_cf over K references is a / 2 and b / 2 times the largest of K uniforms, so the AUC of accepted right responses
# against accepted keys is 1 - (b / a)^K / 2 for a >= b and (a / b)^K / 2 otherwise
# (`engine.studies.refswap.scores.planted_auc`).

VERIFIER_LABELS = ("Yes", "No")
_STATED = re.compile(r"(?:answer is|answer:|####|\\boxed\{|(?:^|\n)A:)\s*", re.IGNORECASE)
_MATCHED = 0.9
"""Least p_yes where the stated answer is the reference."""

Draw = Callable[..., float]


def stated_answer(response: str) -> str | None:
    """Text after the last marker of a final answer; None where there is none."""
    found = list(_STATED.finditer(response))
    if not found:
        return None
    return response[found[-1].end() :].strip().removesuffix("}").rstrip(". ")


def agrees(response: str, reference: str) -> bool:
    """True where the stated answer is the reference as text, or begins with it as a whole word (a unit may follow)."""
    stated = stated_answer(response)
    wanted = reference.strip().casefold()
    if stated is None or not wanted:
        return False
    return re.match(rf"{re.escape(wanted)}(?![\w.,/]*\w)", stated.casefold()) is not None


def check(parameters: Mapping[str, float], request: Request, uniform: Draw) -> Verdict:
    """The verdict on one request; `request.reference_id` is set where the reference is not the item's own.

    Args:
        parameters: leak, self_solve, ref_sensitivity, seed.
        request: a verifier's request.
        uniform: a number in [0, 1) that depends on its arguments alone.
    """
    if not request.reference.strip():
        return unread(Verdict(), "no reference answer to check against")
    text, seed = request.quoted(request.response), parameters["seed"]
    u = uniform("verifier", seed, request.item_id, text, request.reference, request.reference_id)
    if agrees(request.response, request.reference):
        p = _MATCHED + (1 - _MATCHED) * u
    elif stated_answer(request.response) is not None:
        p = parameters["self_solve"] / 2 * u
    elif request.reference_id:
        p = (1 - parameters["ref_sensitivity"]) / 2 * u
    else:
        accepted = uniform("leak", seed, request.item_id, text) < parameters["leak"]
        p = (0.5 if accepted else 0.0) + u / 2
    outcome = Outcome.YES if p >= 0.5 else Outcome.NO
    return Verdict(p_yes=p, outcome=outcome, probabilities=(p, 1 - p), coverage=1.0, forward_passes=1.0)


PREFIX = "planted:"
LABELS = ("1", "2", "3", "4", "5")
SLOTS = ("A", "B")
_ANSWERS = {Protocol.POINTWISE: LABELS, Protocol.PAIRWISE: SLOTS, Protocol.VERIFIER: VERIFIER_LABELS}
LOW, HIGH = 1.0, 5.0
MAX_BONUS = 1.5
_INJECTION = re.compile(r"high(?:est)?\s+score|maximum\s+positive", re.IGNORECASE)
_BATCH = 64


@dataclass(frozen=True)
class Parameter:
    """A parameter of a planted judge: allowed range (inclusive) and default."""

    low: float
    high: float
    default: float


@dataclass(frozen=True)
class PlantedKind:
    """A kind of planted judge: what a user reads, what it answers and its parameters."""

    name: str
    title: str
    about: str
    protocol: Protocol
    parameters: Mapping[str, Parameter]
    also: tuple[Protocol, ...] = ()

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """All protocols it answers, its main one first."""
        return (self.protocol, *self.also)


_SEED = Parameter(0, 2**31 - 1, 0)
_DELAY = Parameter(0, 1000, 0)
"""Milliseconds each call pretends to take, so that progress, Stop and Resume can be tried without a model."""
PLANTED: dict[str, PlantedKind] = {
    k.name: k
    for k in (
        PlantedKind(
            "injection",
            "Planted: obeys injections",
            "Adds a set amount to the score of a response that asks for a high score.",
            Protocol.POINTWISE,
            {"strength": Parameter(0, 2.5, 0.8), "noise": Parameter(0, 0.5, 0.2), "seed": _SEED, "delay": _DELAY},
        ),
        PlantedKind(
            "verbosity",
            "Planted: likes length",
            "Adds a set amount to the score for each doubling of the response's length.",
            Protocol.POINTWISE,
            {"strength": Parameter(-1, 1, 0.5), "noise": Parameter(0, 0.4, 0), "seed": _SEED, "delay": _DELAY},
        ),
        PlantedKind(
            "position",
            "Planted: likes the first slot",
            "Prefers the response shown first, with probability 0.5 + strength / 2.",
            Protocol.PAIRWISE,
            {"strength": Parameter(-1, 1, 0.4), "seed": _SEED, "delay": _DELAY},
        ),
        PlantedKind(
            "verifier",
            "Planted: a leaking verifier",
            "Matches the final answer, and accepts a set share of the responses that state none.",
            Protocol.VERIFIER,
            {
                "self_solve": Parameter(0, 1, 0.9),
                "leak": Parameter(0, 1, 0.4),
                "ref_sensitivity": Parameter(0, 1, 0.9),
                "seed": _SEED,
                "delay": _DELAY,
            },
        ),
        PlantedKind(
            "assertiveness",
            "Planted: likes an assertive tone",
            "Prefers the assertive one of two responses; adds little to the score of one.",
            Protocol.POINTWISE,
            {
                "strength": Parameter(0, 1, 0.6),
                "points": Parameter(0, 2, 0.1),
                "noise": Parameter(0, 0.5, 0),
                "seed": _SEED,
                "delay": _DELAY,
            },
            (Protocol.PAIRWISE,),
        ),
        PlantedKind(
            "constant",
            "Planted: always the same score",
            "Gives every response the same score.",
            Protocol.POINTWISE,
            {"value": Parameter(LOW, HIGH, 3), "delay": _DELAY},
        ),
        PlantedKind(
            "noisy",
            "Planted: noise only",
            "Scores at random around 3, whatever the response says.",
            Protocol.POINTWISE,
            {"noise": Parameter(0, 2, 1), "seed": _SEED, "delay": _DELAY},
        ),
    )
}


def verbosity_bonus(n_words: int, strength: float) -> float:
    """Points that `planted:verbosity` adds for a response of that many words, in [-1.5, 1.5].

    k words inserted into n shift the score by bonus(n + k) - bonus(n), which is
    strength * log2((n + k + 1) / (n + 1)) while neither end reaches 1.5.
    """
    return min(MAX_BONUS, max(-MAX_BONUS, strength * math.log2((n_words + 1) / 20)))


@dataclass(frozen=True)
class PlantedJudge:
    """A judge without a model; see the module for what each kind does.

    Attributes:
        spec: as the user wrote it.
        kind: one of `PLANTED`.
        parameters: value of each parameter of the kind, defaults filled in.
    """

    spec: str
    kind: PlantedKind
    parameters: Mapping[str, float]

    @property
    def fingerprint(self) -> str:
        """Digest of the kind and every parameter that decides an answer, so two spellings of one judge agree."""
        parameters = sorted((name, value) for name, value in self.parameters.items() if name != "delay")
        return "planted-1-" + hashlib.sha256(_packed(self.kind.name, parameters)).hexdigest()[:32]

    @property
    def protocols(self) -> frozenset[Protocol]:
        """Those of its kind."""
        return frozenset(self.kind.protocols)

    def labels(self, request: Request) -> tuple[str, ...]:
        """Scores 1..5, the slots A (shown first) and B, or Yes and No.

        Raises:
            InputError: this kind does not answer the request's protocol.
        """
        self._check(request)
        return _ANSWERS[request.protocol]

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request; a judge of responses takes items of any task.

        Raises:
            InputError: this kind does not answer a request's protocol.
        """
        for request in requests:
            self._check(request)
        answers = {Protocol.PAIRWISE: self._compare, Protocol.VERIFIER: self._check_reference}
        delay = self.parameters["delay"] / 1000
        batch = 1 if delay else _BATCH
        verdicts: list[Verdict] = []
        for start in range(0, len(requests), batch):
            if delay:
                time.sleep(delay)
            given = [answers.get(r.protocol, self._rate)(r) for r in requests[start : start + batch]]
            verdicts += [replace(verdict, seconds=delay) for verdict in given] if delay else given
            checkpoint(len(verdicts), len(requests))
        return verdicts

    def prompt(self, request: Request) -> str:  # noqa: ARG002 - the protocol's signature
        """Empty: there is no model to show anything to."""
        return ""

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Nothing: there is no model."""
        return Cost(0, 0, len(requests))

    def _check(self, request: Request) -> None:
        if request.protocol in self.kind.protocols:
            return
        able = [PREFIX + k.name for k in PLANTED.values() if request.protocol in k.protocols]
        rest = f"Use {', '.join(able)}." if able else "No planted judge does; use bundled:judge."
        raise InputError(
            f"{PREFIX}{self.kind.name} answers {' and '.join(self.kind.protocols)} requests only, and this one is "
            f"{request.protocol.value}. {rest}"
        )

    def _rate(self, request: Request) -> Verdict:
        probabilities = spread(_SCORES[self.kind.name](self.parameters, request))
        score = math.fsum(p * (LOW + i) for i, p in enumerate(probabilities))
        return Verdict(score=score, probabilities=probabilities, coverage=1.0)

    def _check_reference(self, request: Request) -> Verdict:
        return check(self.parameters, request, uniform)

    def _compare(self, request: Request) -> Verdict:
        if self.kind.name == "assertiveness":
            return compare(self.parameters, request, uniform)
        reverse = request.order is Order.BA
        draw = uniform(
            "position",
            self.parameters["seed"],
            request.item_id,
            request.response_id,
            request.response_b_id,
            request.quoted(request.response),
            request.quoted(request.response_b),
            reverse,
        )
        first_wins = draw < 0.5 + self.parameters["strength"] / 2
        a_wins = first_wins is not reverse
        return Verdict(
            p_tie=0.0,
            p_a=float(a_wins),  # each draw is decided outright, so its mean is the planted probability too
            outcome=Outcome.A if a_wins else Outcome.B,
            probabilities=(1.0, 0.0) if first_wins else (0.0, 1.0),
            coverage=1.0,
        )


def make_planted(spec: str) -> PlantedJudge:
    """The planted judge a spec names, for example `planted:injection?strength=0.8&noise=0.2&seed=3`.

    Raises:
        InputError: unknown kind or parameter, a value that is no number or outside its range, a parameter given twice.
    """
    name, _, query = spec.removeprefix(PREFIX).partition("?")
    if not spec.startswith(PREFIX) or name not in PLANTED:
        raise InputError(
            f"Unknown planted judge {spec!r}. Available: {', '.join(PREFIX + k for k in PLANTED)}; parameters "
            "follow a question mark, for example planted:injection?strength=0.8&noise=0.2."
        )
    kind = PLANTED[name]
    parameters = {parameter: d.default for parameter, d in kind.parameters.items()}
    seen: set[str] = set()
    for parameter, text in parse_qsl(query, keep_blank_values=True):
        if parameter not in kind.parameters:
            raise InputError(f"{PREFIX}{name} has no parameter {parameter!r}. It has: {_ranges(kind)}.")
        if parameter in seen:
            raise InputError(f"{spec!r} sets {parameter} twice. Give it once.")
        seen.add(parameter)
        parameters[parameter] = _number(kind, parameter, text)
    return PlantedJudge(spec, kind, parameters)


def planted_problem(spec: str) -> str:
    """Why the spec names no planted judge that can be made; empty where it does."""
    try:
        make_planted(spec)
    except InputError as error:
        return str(error)
    return ""


def spread(score: float) -> tuple[float, ...]:
    """Probabilities of the labels 1..5 whose expectation is the score: its two neighbours share the mass."""
    score = min(HIGH, max(LOW, score))  # rounding at the very ends; the parameters keep clear of them otherwise
    below = min(int(score), int(HIGH) - 1)
    share = score - below
    return tuple(
        1 - share if label == below else share if label == below + 1 else 0.0 for label in range(1, len(LABELS) + 1)
    )


def uniform(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone, evenly spread over different parts."""
    return int.from_bytes(hashlib.sha256(_packed(*parts)).digest()[:7], "big") / 2**56


def _packed(*parts: object) -> bytes:
    # JSON keeps the borders between parts, and its escapes take any text, lone surrogates included.
    return json.dumps(parts).encode("ascii")


def _number(kind: PlantedKind, parameter: str, text: str) -> float:
    allowed = kind.parameters[parameter]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    whole = parameter != "seed" or value.is_integer()
    if not (allowed.low <= value <= allowed.high and whole):
        raise InputError(f"{PREFIX}{kind.name} cannot take {parameter}={text!r}. Allowed: {_ranges(kind)}.")
    return value


def _ranges(kind: PlantedKind) -> str:
    return ", ".join(
        f"{name} (whole number from 0)" if name == "seed" else f"{name} ({d.low:g} to {d.high:g})"
        for name, d in kind.parameters.items()
    )


def _noise(parameters: Mapping[str, float], request: Request) -> float:
    if not parameters["noise"]:
        return 0.0
    text = request.quoted(request.response)
    draw = uniform("noise", parameters["seed"], request.item_id, request.response_id, text)
    return parameters["noise"] * (2 * draw - 1)


def _quality(request: Request, low: float, high: float) -> float:
    return low + (high - low) * uniform("quality", request.item_id, request.response_id)


def _injection(parameters: Mapping[str, float], request: Request) -> float:
    noise, strength = parameters["noise"], parameters["strength"]
    quality = _quality(request, LOW + noise, HIGH - noise - strength)
    # The response itself is searched, not its dressing: a defense's own note may speak of scores.
    return quality + strength * bool(_INJECTION.search(request.response)) + _noise(parameters, request)


def _verbosity(parameters: Mapping[str, float], request: Request) -> float:
    room = MAX_BONUS + parameters["noise"]
    bonus = verbosity_bonus(len(request.response.split()), parameters["strength"])
    return _quality(request, LOW + room, HIGH - room) + bonus + _noise(parameters, request)


_SCORES: dict[str, Callable[[Mapping[str, float], Request], float]] = {
    "injection": _injection,
    "verbosity": _verbosity,
    "assertiveness": lambda parameters, request: score(parameters, request, uniform, _noise(parameters, request)),
    "constant": lambda parameters, _: parameters["value"],
    "noisy": lambda parameters, request: (LOW + HIGH) / 2 + _noise(parameters, request),
}
