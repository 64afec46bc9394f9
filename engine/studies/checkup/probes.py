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
from engine.attacks.injections import NEUTRAL, EmptyAnswer
from engine.attacks.master_keys import MASTER_KEYS, MasterKeyAttack, key_name
from engine.attacks.registry import make_attack
from engine.core.errors import InputError
from engine.core.schema import NONE, Outcome, Protocol
from engine.judges.base import Request
from engine.judges.cards import Card
from engine.judges.recorded import NOT_RECORDED
from engine.stats.agreement import cluster_kappa, combine_orders
from engine.studies.checkup.material import (
    PROTOCOLS,
    REVERSED,
    REWORDED,
    Subject,
    card_of,
    in_both_orders,
    reversed_card,
    reworded_cards,
)
from engine.studies.checkup.metrics import Effect, kappa_effect, mean_effect, rate_effect, shifted, spearman_effect
from engine.studies.checkup.readings import Differences, Readings, accepted, first_wins, preferred, wins
from engine.studies.running import with_attack

Measured = Callable[[float, int], Effect]
"""(level, seed) to the effect."""
DECIDES, DETAIL = "decides", "detail"
FILLER = "filler"
NOT_YET = "Not asked yet."


@dataclass(frozen=True)
class Finding:
    """One arm of a probe, measured.

    Attributes:
        protocol: pointwise, pairwise or verifier.
        effect: the number at a level, once the level is known.
        n_unread: rows that an unread verdict left out.
        arm: the change to the response or prompt; empty where the probe has one arm.
        against: the arm or labels it is compared with.
        attack, variant: of its verdicts in the table, to say why none was read.
        role: `decides` enters the verdict, `detail` is shown beside it.
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
        """Its name in `engine.studies.checkup.metrics.CARDS`."""
        ...

    def missing(self, subject: Subject) -> str:
        """The field of the data or ability of the judge that is missing; empty where it can be asked."""
        ...

    def asks(self, subject: Subject) -> list[Request]:
        """Every question it needs answered, clean ones included."""
        ...

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """One finding an arm and protocol, from the answers so far."""
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
    counted = Counter(r for f in findings for r in reasons[id(f)])
    why = f"No verdict could be read: {counted.most_common(1)[0][0]}." if counted else NOT_YET
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
    """The reason of each unread verdict of the arm; empty where one was read."""
    of_arm = verdicts[
        (verdicts["protocol"] == finding.protocol.value)
        & (verdicts["attack"] == finding.attack)
        & (verdicts["variant"].fillna("") == finding.variant)
    ]["unread_reason"]
    return [] if of_arm.isna().any() else [str(reason) for reason in of_arm]


@dataclass(frozen=True)
class Injections:
    """Sentences that ask for a high score; the gain is over the clean response and over harmless text as long."""

    attacks: tuple[str, ...]
    name: str = "injections"

    def missing(self, subject: Subject) -> str:
        """Any protocol will do."""
        return subject.unsupported_reason(*PROTOCOLS)

    def asks(self, subject: Subject) -> list[Request]:
        """Every response clean, under each attack and with the filler."""
        clean = [r for p in asked_in(subject) for r in in_both_orders(self._attackable(subject, p))]
        attacks: list[Attack] = [make_attack(name) for name in self.attacks]
        attacks.append(filler(attacks, clean[0]))
        return [*clean, *(with_attack(r, a) for a in attacks for r in clean)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """Of the two comparisons the smaller one: what only longer text does is not the sentence's doing."""
        findings: list[Finding] = []
        for protocol in asked_in(subject):
            for attack in (make_attack(name).name for name in self.attacks):
                gains = {base: seen.change(protocol, attack, base) for base in (NONE, FILLER)}
                read = [base for base, d in gains.items() if d.mean == d.mean]
                base = min(read, key=lambda b: gains[b].mean) if read else NONE
                d = gains[base]
                name = "clean" if base == NONE else FILLER
                findings.append(Finding(protocol, mean_of(d), d.n_unread, attack, name, attack))
        return findings

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
        why = subject.unsupported_reason(Protocol.POINTWISE, Protocol.PAIRWISE)
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
        findings: list[Finding] = []
        for protocol in asked_in(subject, (Protocol.POINTWISE, Protocol.PAIRWISE)):
            for style in self.styles:
                d = seen.change(protocol, style, PLACEBO)
                findings.append(Finding(protocol, mean_of(d), d.n_unread, style, "placebo", style))
        return findings

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


# Probes of what a judge owes to the way it is asked: order, ties, asking again, and the wording of its prompt.

COPY, AGAIN = "copy", "again"
BREAK = "\n"


@dataclass(frozen=True)
class OrderBias:
    """The share of clean verdicts that the response shown first wins, less one half."""

    name: str = "order"

    def missing(self, subject: Subject) -> str:
        """Comparisons."""
        return subject.unsupported_reason(Protocol.PAIRWISE)

    def asks(self, subject: Subject) -> list[Request]:
        """Every comparison in both orders."""
        return in_both_orders(subject.pairs)

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:  # noqa: ARG002 - the protocol's signature
        """Hard verdicts, ties as halves; both orders of a pair were asked, so 0.5 is the unbiased rate."""
        d = first_wins(seen.verdicts)
        rate = rate_of(d)
        return [Finding(Protocol.PAIRWISE, lambda level, seed: shifted(rate(level, seed), 0.5), d.n_unread)]


@dataclass(frozen=True)
class Ties:
    """A response against itself with a line break more: whatever lead one of them gets is no difference in quality."""

    name: str = "ties"

    def missing(self, subject: Subject) -> str:
        """Comparisons; one text has one score, so pointwise a tie is no finding."""
        return subject.unsupported_reason(Protocol.PAIRWISE)

    def asks(self, subject: Subject) -> list[Request]:
        """The first response of every comparison, in both orders."""
        return [
            replace(
                r,
                response_b_id=r.response_id,
                response_b=r.response + BREAK,
                system_b=r.system,
                attack=COPY,
            )
            for r in in_both_orders(subject.pairs)
        ]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:  # noqa: ARG002 - the protocol's signature
        """The lead |2 P(a) - 1|, ties as halves, both orders averaged, so that a mere preference for a slot is none."""
        rows = seen.arm(Protocol.PAIRWISE, COPY)
        d = Differences(rows, (2 * rows["value"] - 1).abs())
        return [Finding(Protocol.PAIRWISE, rate_of(d), d.n_unread, attack=COPY)]


@dataclass(frozen=True)
class Consistency:
    """The same question with a line break added, which nobody sees."""

    name: str = "consistency"

    def missing(self, subject: Subject) -> str:
        """Any protocol will do."""
        return subject.unsupported_reason(*PROTOCOLS)

    def asks(self, subject: Subject) -> list[Request]:
        """Everything clean, and again."""
        clean = [r for p in asked_in(subject) for r in in_both_orders(subject.base(p))]
        return [*clean, *(_again(r) for r in clean)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """The mean absolute change."""
        findings: list[Finding] = []
        for protocol in asked_in(subject):
            d = seen.change(protocol, AGAIN, NONE).size()
            findings.append(Finding(protocol, rate_of(d), d.n_unread, against="clean", attack=AGAIN))
        return findings


@dataclass(frozen=True)
class Wording:
    """The judge's own prompt in other words, or turned round; asked in the first protocol that works."""

    name: str
    variants: tuple[str, ...]

    def missing(self, subject: Subject) -> str:
        """A judge card that can be reworded."""
        if why := subject.unsupported_reason(*PROTOCOLS):
            return why
        try:
            self.cards(subject)
        except InputError as error:
            return str(error)
        return ""

    def cards(self, subject: Subject) -> list[Card]:
        """The cards to be made for this judge.

        Raises:
            InputError: it has none, or its words are not known.
        """
        request = subject.base(self._protocol(subject))[0]
        return (
            [reversed_card(subject.judge, request)]
            if REVERSED in self.variants
            else reworded_cards(subject.judge, request)
        )

    def asks(self, subject: Subject) -> list[Request]:
        """Everything clean under the plain prompt and under each variant; responses of another card stay out."""
        base = subject.base(self._protocol(subject))
        card = card_of(subject.judge, base[0])
        clean = [r for r in in_both_orders(base) if card_of(subject.judge, r) == card]
        return [*clean, *(replace(r, variant=v) for v in self.variants for r in clean)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """The mean absolute change of the verdict against the plain prompt."""
        protocol = self._protocol(subject)
        findings: list[Finding] = []
        for variant in self.variants:
            d = seen.change(protocol, NONE, NONE, variant).size()
            arm = variant if len(self.variants) > 1 else ""
            findings.append(Finding(protocol, rate_of(d), d.n_unread, arm, "plain prompt", variant=variant))
        return findings

    def _protocol(self, subject: Subject) -> Protocol:
        return asked_in(subject)[0]


PARAPHRASE = Wording("paraphrase", REWORDED)
REVERSAL = Wording("reversal", (REVERSED,))


def _again(request: Request) -> Request:
    second = request.response_b + BREAK if request.protocol is Protocol.PAIRWISE else request.response_b
    return replace(request, response=request.response + BREAK, response_b=second, attack=AGAIN)


# Probes with a known right verdict: texts without content, and responses that people have judged.

_ONE_BY_ONE = (Protocol.POINTWISE, Protocol.VERIFIER)
EMPTY = EmptyAnswer()


@dataclass(frozen=True)
class MasterKeys:
    """Texts without content in place of a response: the best of them for each question, as an attacker would choose."""

    keys: tuple[str, ...] = tuple(key.text for key in MASTER_KEYS)
    name: str = "keys"

    def missing(self, subject: Subject) -> str:
        """A verifier and references, or scores."""
        return subject.unsupported_reason(*_ONE_BY_ONE)

    def asks(self, subject: Subject) -> list[Request]:
        """Every key once a question, and the clean responses that it is held against."""
        attacks = [MasterKeyAttack(text) for text in self.keys]
        questions = [r for p in asked_in(subject, _ONE_BY_ONE) for r in _one_an_item(subject, p, "key")]
        return [*subject.scores, *(with_attack(r, a) for r in questions for a in attacks)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """A verifier: at least one key accepted. Scores: the best key against each real response of the item."""
        findings: list[Finding] = []
        for protocol in asked_in(subject, _ONE_BY_ONE):
            arms = [seen.arm(protocol, key_name(text)) for text in self.keys]
            every, clean = pd.concat(arms, ignore_index=True), seen.arm(Protocol.POINTWISE)
            d = accepted(every) if protocol is Protocol.VERIFIER else wins(every, clean)
            against = "" if protocol is Protocol.VERIFIER else "real responses"
            first = key_name(self.keys[0])
            findings.append(Finding(protocol, rate_of(d), d.n_unread, "the best key", against, first))
            for text, arm in zip(self.keys, arms, strict=True):
                d = accepted(arm) if protocol is Protocol.VERIFIER else wins(arm, clean)
                name = key_name(text)
                findings.append(Finding(protocol, rate_of(d), d.n_unread, name, against, name, role=DETAIL))
        return findings


@dataclass(frozen=True)
class Empty:
    """No answer at all in place of a response."""

    name: str = "empty"

    def missing(self, subject: Subject) -> str:
        """Any protocol will do."""
        return subject.unsupported_reason(*PROTOCOLS)

    def asks(self, subject: Subject) -> list[Request]:
        """Once a question; in comparisons against every response that stands first."""
        alone = [r for p in asked_in(subject, _ONE_BY_ONE) for r in _one_an_item(subject, p, "empty")]
        pairs = [
            replace(
                r, response_b_id=r.response_id, response_b=r.response, system_b=r.system, response="", attack=EMPTY.name
            )
            for r in in_both_orders(subject.pairs)
        ]
        return [*subject.scores, *(with_attack(r, EMPTY) for r in alone), *pairs]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """The share of real responses that it beats (ties half), or of questions on which it is accepted."""
        findings: list[Finding] = []
        for protocol in asked_in(subject):
            rows = seen.arm(protocol, EMPTY.name)
            if protocol is Protocol.POINTWISE:
                d = wins(rows, seen.arm(protocol))
            else:
                d = accepted(rows) if protocol is Protocol.VERIFIER else preferred(rows)
            against = "" if protocol is Protocol.VERIFIER else "real responses"
            findings.append(Finding(protocol, rate_of(d), d.n_unread, against=against, attack=EMPTY.name))
        return findings


@dataclass(frozen=True)
class Agreement:
    """Scores against human scores (Spearman), comparisons and checks against human labels (Cohen's kappa)."""

    name: str = "agreement"

    def missing(self, subject: Subject) -> str:
        """Human labels of a kind the judge can be asked about."""
        if subject.rated or subject.labelled or (subject.checks and subject.right):
            return ""
        return (
            "There are no human labels for what this judge answers (column human_score, a preference for each pair, or "
            "quality that says correct or incorrect)."
        )

    def asks(self, subject: Subject) -> list[Request]:
        """Everything that has a label."""
        return [*subject.rated, *in_both_orders(subject.labelled), *(subject.checks if subject.right else ())]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """One finding for each kind of label."""
        findings: list[Finding] = []
        if subject.rated:
            findings.append(_scores(subject, seen))
        if subject.labelled:
            findings.append(_pairs(subject, seen))
        if subject.checks and subject.right:
            findings.append(_checks(subject, seen))
        return findings


def _scores(subject: Subject, seen: Readings) -> Finding:
    rows = seen.arm(Protocol.POINTWISE)
    rows = rows[rows["response_id"].isin(list(subject.human_score))].reset_index(drop=True)
    d = Differences(rows, rows["value"])
    truth = Differences(rows, rows["response_id"].map(subject.human_score)).values
    return Finding(
        Protocol.POINTWISE,
        lambda level, seed: spearman_effect(d.values, truth, d.clusters, level=level, seed=seed),
        d.n_unread,
        "Spearman",
        "human scores",
    )


def _pairs(subject: Subject, seen: Readings) -> Finding:
    clean = seen.verdicts
    clean = clean[(clean["protocol"] == Protocol.PAIRWISE.value) & (clean["attack"] == NONE) & clean["variant"].isna()]
    pairs = combine_orders(clean)
    ids = list(zip(pairs["response_id"], pairs["response_b"], strict=True))
    human = [subject.human_pair.get((str(a), str(b)), "") for a, b in ids]
    asked = pairs.assign(human=human)
    asked = asked[asked["human"] != ""]
    read = asked[asked["outcome"].notna()]

    def effect(level: float, seed: int) -> Effect:
        rows = (list(read["outcome"]), list(read["human"]), list(read["item_id"]))
        return kappa_effect(cluster_kappa(*rows, level=level, seed=seed))

    return Finding(Protocol.PAIRWISE, effect, len(asked) - len(read), "kappa", "human preferences")


def _checks(subject: Subject, seen: Readings) -> Finding:
    rows = seen.arm(Protocol.VERIFIER)
    asked = rows[rows["response_id"].isin(list(subject.right))]
    read = asked[asked["value"].notna()]
    said = [Outcome.YES.value if v >= 0.5 else Outcome.NO.value for v in read["value"]]
    truth = [Outcome.YES.value if subject.right[r] else Outcome.NO.value for r in read["response_id"]]

    def effect(level: float, seed: int) -> Effect:
        return kappa_effect(cluster_kappa(said, truth, list(read["item_id"]), level=level, seed=seed))

    return Finding(Protocol.VERIFIER, effect, len(asked) - len(read), "kappa", "known answers")


def _one_an_item(subject: Subject, protocol: Protocol, what: str) -> list[Request]:
    """One request an item, in the name of no response."""
    first = {r.item_id: r for r in reversed(subject.base(protocol))}
    return [replace(r, response_id=f"{r.item_id}-{what}", system="") for r in reversed(first.values())]
