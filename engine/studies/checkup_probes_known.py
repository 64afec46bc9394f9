"""Probes with a known right verdict: texts without content, and responses that people have judged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from engine.attacks.injections import EmptyAnswer
from engine.attacks.master_keys import MASTER_KEYS, MasterKeyAttack, key_name
from engine.judges.base import Request
from engine.metrics.checkup_effects import Effect, kappa_effect, spearman_effect
from engine.metrics.kappa import cluster_kappa
from engine.metrics.pairs import combine_orders
from engine.schema import NONE, Outcome, Protocol
from engine.studies.checkup_material import PROTOCOLS, Subject, in_both_orders
from engine.studies.checkup_probes import DETAIL, Finding, asked_in, rate_of
from engine.studies.checkup_readings import Differences, Readings, accepted, preferred, wins
from engine.studies.requests import with_attack

_ONE_BY_ONE = (Protocol.POINTWISE, Protocol.VERIFIER)
EMPTY = EmptyAnswer()


@dataclass(frozen=True)
class MasterKeys:
    """Texts without content in place of a response: the best of them for each question, as an attacker would choose."""

    keys: tuple[str, ...] = tuple(key.text for key in MASTER_KEYS)
    name: str = "keys"

    def missing(self, subject: Subject) -> str:
        """A verifier and references, or scores."""
        return subject.why_not(*_ONE_BY_ONE)

    def asks(self, subject: Subject) -> list[Request]:
        """Every key once a question, and the clean responses that it is held against."""
        attacks = [MasterKeyAttack(text) for text in self.keys]
        questions = [r for p in asked_in(subject, _ONE_BY_ONE) for r in _one_an_item(subject, p, "key")]
        return [*subject.scores, *(with_attack(r, a) for r in questions for a in attacks)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """A verifier: at least one key accepted. Scores: the best key against each real response of the item."""
        found: list[Finding] = []
        for protocol in asked_in(subject, _ONE_BY_ONE):
            arms = [seen.arm(protocol, key_name(text)) for text in self.keys]
            every, clean = pd.concat(arms, ignore_index=True), seen.arm(Protocol.POINTWISE)
            d = accepted(every) if protocol is Protocol.VERIFIER else wins(every, clean)
            against = "" if protocol is Protocol.VERIFIER else "real responses"
            first = key_name(self.keys[0])
            found.append(Finding(protocol, rate_of(d), d.n_unread, "the best key", against, first))
            for text, arm in zip(self.keys, arms, strict=True):
                d = accepted(arm) if protocol is Protocol.VERIFIER else wins(arm, clean)
                name = key_name(text)
                found.append(Finding(protocol, rate_of(d), d.n_unread, name, against, name, role=DETAIL))
        return found


@dataclass(frozen=True)
class Empty:
    """No answer at all in place of a response."""

    name: str = "empty"

    def missing(self, subject: Subject) -> str:
        """Any protocol will do."""
        return subject.why_not(*PROTOCOLS)

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
        found: list[Finding] = []
        for protocol in asked_in(subject):
            rows = seen.arm(protocol, EMPTY.name)
            if protocol is Protocol.POINTWISE:
                d = wins(rows, seen.arm(protocol))
            else:
                d = accepted(rows) if protocol is Protocol.VERIFIER else preferred(rows)
            against = "" if protocol is Protocol.VERIFIER else "real responses"
            found.append(Finding(protocol, rate_of(d), d.n_unread, against=against, attack=EMPTY.name))
        return found


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
        found: list[Finding] = []
        if subject.rated:
            found.append(_scores(subject, seen))
        if subject.labelled:
            found.append(_pairs(subject, seen))
        if subject.checks and subject.right:
            found.append(_checks(subject, seen))
        return found


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
    own = seen.verdicts
    own = own[(own["protocol"] == Protocol.PAIRWISE.value) & (own["attack"] == NONE) & own["variant"].isna()]
    pairs = combine_orders(own)
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
