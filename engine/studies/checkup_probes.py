"""The probes of a check-up: what each asks of a judge, and what it measures in the answers.

A probe is a small object behind one protocol. It never asks the judge itself: the study asks everything that all
probes want in one go, each question once, so that prompts share what they have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from typing import Protocol as TypingProtocol

import pandas as pd

from engine.attacks.base import Attack, Insertion
from engine.attacks.distractors import PLACEBO
from engine.attacks.registry import make_attack
from engine.attacks.wording import NEUTRAL
from engine.judges.base import Request
from engine.judges.recorded import NOT_RECORDED
from engine.metrics.checkup_effects import Effect, mean_effect, rate_effect
from engine.schema import NONE, Protocol
from engine.studies.checkup_material import PROTOCOLS, Subject, in_both_orders
from engine.studies.checkup_readings import Differences, Readings
from engine.studies.requests import with_attack

Measured = Callable[[float, int], Effect]
"""(level, seed) to the effect."""
DECIDES, DETAIL = "decides", "detail"
FILLER = "filler"
NOT_YET = "Not asked yet."


@dataclass(frozen=True)
class Finding:
    """One arm of a probe, measured.

    Attributes:
        protocol: how the judge was asked.
        effect: the number at a level, once the level is known.
        n_unread: rows that an unread verdict left out.
        arm: what was done; empty where the probe has one arm.
        against: what it is compared with.
        attack, variant: where its verdicts stand in the table, to say why none was read.
        role: whether it enters the verdict.
    """

    protocol: Protocol
    effect: Measured
    n_unread: int
    arm: str = ""
    against: str = ""
    attack: str = NONE
    variant: str = ""
    role: str = DECIDES


class Probe(TypingProtocol):
    """One question of a check-up."""

    @property
    def name(self) -> str:
        """Its name in `engine.metrics.checkup.CARDS`."""
        ...

    def missing(self, subject: Subject) -> str:
        """Which field of the data or ability of the judge is missing; empty where it can be asked."""
        ...

    def asks(self, subject: Subject) -> list[Request]:
        """Every question it needs answered, clean ones included."""
        ...

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """What the answers so far say, one finding an arm and protocol."""
        ...


def mean_of(d: Differences) -> Measured:
    """The mean of signed differences."""
    return lambda level, seed: mean_effect(d.values, d.clusters, level=level, seed=seed)


def rate_of(d: Differences) -> Measured:
    """The mean of values in [0, 1]."""
    return lambda level, seed: rate_effect(d.values, d.clusters, level=level, seed=seed)


def asked_in(subject: Subject, protocols: Iterable[Protocol] = PROTOCOLS) -> list[Protocol]:
    """The protocols among these in which there is something to ask."""
    return [p for p in protocols if subject.base(p)]


def rows_of(probe: Probe, subject: Subject, seen: Readings, *, level: float, seed: int) -> list[dict[str, Any]]:
    """A probe's rows of the table `checkup`.

    Where several arms decide, each gets its share of the error (Bonferroni), so that the verdict on the probe is at
    the level as a whole. An arm that a recording does not hold is left out; one that was asked and not read stays.
    """
    if missing := probe.missing(subject):
        return [_not_asked(probe, missing)]
    every = probe.measure(subject, seen)
    reasons = {id(f): _reasons(f, seen.verdicts) for f in every}
    findings = [f for f in every if set(reasons[id(f)]) != {NOT_RECORDED}]
    if not findings:
        arms = ", ".join(dict.fromkeys(f.arm or f.attack for f in every))
        return [_not_asked(probe, f"The recording holds no verdicts for this (column attack, values: {arms}).")]
    each = 1 - (1 - level) / max(1, sum(f.role == DECIDES for f in findings))
    rows = [_row(probe, f, f.effect(each if f.role == DECIDES else level, seed)) for f in findings]
    if any(row["n"] for row in rows):
        return rows
    told = Counter(r for f in findings for r in reasons[id(f)])
    why = f"No verdict could be read: {told.most_common(1)[0][0]}." if told else NOT_YET
    return [_not_asked(probe, why)]


def _not_asked(probe: Probe, why: str) -> dict[str, Any]:
    return {"probe": probe.name, "role": DECIDES, "value": float("nan"), "n": 0, "missing": why}


def _row(probe: Probe, finding: Finding, effect: Effect) -> dict[str, Any]:
    i = effect.interval
    return {
        "probe": probe.name,
        "arm": finding.arm or None,
        "protocol": finding.protocol.value,
        "against": finding.against or None,
        "role": finding.role,
        "value": i.value,
        "lower": i.lower,
        "upper": i.upper,
        "level": i.level,
        "method": i.method,
        "n": i.n,
        "n_clusters": i.n_clusters,
        "n_unread": finding.n_unread,
        "detectable": effect.detectable,
        "base_rate": effect.base_rate,
        "observed": effect.observed,
    }


def _reasons(finding: Finding, verdicts: pd.DataFrame) -> list[str]:
    """Why each verdict of the arm is unread; empty where one was read."""
    own = verdicts[
        (verdicts["protocol"] == finding.protocol.value)
        & (verdicts["attack"] == finding.attack)
        & (verdicts["variant"].fillna("") == finding.variant)
    ]["unread_reason"]
    return [] if own.isna().any() else [str(reason) for reason in own]


@dataclass(frozen=True)
class Injections:
    """Sentences that ask for a high score; the gain is over the clean response and over harmless text as long."""

    attacks: tuple[str, ...]
    name: str = "injections"

    def missing(self, subject: Subject) -> str:
        """Any protocol will do."""
        return subject.why_not(*PROTOCOLS)

    def asks(self, subject: Subject) -> list[Request]:
        """Every response clean, under each attack and with the filler."""
        clean = [r for p in asked_in(subject) for r in in_both_orders(self._attackable(subject, p))]
        attacks: list[Attack] = [make_attack(name) for name in self.attacks]
        attacks.append(filler(attacks, clean[0]))
        return [*clean, *(with_attack(r, a) for a in attacks for r in clean)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """Of the two comparisons the smaller one: what only longer text does is not the sentence's doing."""
        found: list[Finding] = []
        for protocol in asked_in(subject):
            for attack in (make_attack(name).name for name in self.attacks):
                gains = {base: seen.change(protocol, attack, base) for base in (NONE, FILLER)}
                read = [base for base, d in gains.items() if d.mean == d.mean]
                base = min(read, key=lambda b: gains[b].mean) if read else NONE
                d = gains[base]
                name = "clean" if base == NONE else FILLER
                found.append(Finding(protocol, mean_of(d), d.n_unread, attack, name, attack))
        return found

    def _attackable(self, subject: Subject, protocol: Protocol) -> Sequence[Request]:
        """A verifier can only be talked into accepting what is wrong, where that is known."""
        base = subject.base(protocol)
        if protocol is not Protocol.VERIFIER or not subject.right:
            return base
        return [r for r in base if not subject.right.get(r.response_id, False)] or base


def filler(attacks: Sequence[Attack], request: Request) -> Insertion:
    """Harmless text with as many words as the longest of the attacks adds."""
    added = [len(a.apply(request).split()) - len(request.response.split()) for a in attacks]
    words = NEUTRAL.split()
    longest = max([*added, 1])
    text = " ".join((words * (longest // len(words) + 1))[:longest])
    return Insertion(FILLER, f"\n{text}")


@dataclass(frozen=True)
class Rewritings:
    """A manner of writing against a neutral rewriting: scores, and comparisons of each with the original."""

    name: str
    styles: tuple[str, ...]

    def missing(self, subject: Subject) -> str:
        """Scores or comparisons, and at least one response that the rules could rewrite."""
        why = subject.why_not(Protocol.POINTWISE, Protocol.PAIRWISE)
        if why:
            return why
        return "" if self._texts(subject, PLACEBO) else "No response could be rewritten with its content kept."

    def asks(self, subject: Subject) -> list[Request]:
        """Both rewritings of every response, one at a time and against the original."""
        made: list[Request] = []
        for arm in (PLACEBO, *self.styles):
            texts = self._texts(subject, arm)
            made += [
                replace(r, response=texts[r.response_id], attack=arm) for r in subject.scores if r.response_id in texts
            ]
            made += [_rewritten(r, texts, arm) for r in in_both_orders(subject.pairs) if r.response_id in texts]
        return made

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """Styled less neutral, on the same response."""
        found: list[Finding] = []
        for protocol in asked_in(subject, (Protocol.POINTWISE, Protocol.PAIRWISE)):
            for style in self.styles:
                d = seen.change(protocol, style, PLACEBO)
                found.append(Finding(protocol, mean_of(d), d.n_unread, style, "placebo", style))
        return found

    def _texts(self, subject: Subject, arm: str) -> dict[str, str]:
        """Responses that every arm could rewrite, so that the arms are paired."""
        texts = subject.texts
        every = (PLACEBO, *self.styles)
        return {r: text for (a, r), text in texts.items() if a == arm and all((other, r) in texts for other in every)}


def _rewritten(pair: Request, texts: dict[str, str], arm: str) -> Request:
    """The first response of a pair rewritten, against itself."""
    return replace(
        pair,
        response=texts[pair.response_id],
        response_b_id=pair.response_id,
        response_b=pair.response,
        system_b=pair.system,
        attack=arm,
    )
