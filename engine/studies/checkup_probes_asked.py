"""Probes of what a judge owes to the way it is asked: order, ties, asking again, and the wording of its prompt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.errors import InputError
from engine.judges.base import Request
from engine.judges.cards import Card
from engine.metrics.checkup_effects import shifted
from engine.schema import NONE, Protocol
from engine.studies.checkup_material import PROTOCOLS, Subject, in_both_orders
from engine.studies.checkup_probes import Finding, asked_in, rate_of
from engine.studies.checkup_readings import Differences, Readings, first_wins
from engine.studies.checkup_wording import REVERSED, REWORDED, card_of, reversed_card, reworded_cards

COPY, AGAIN = "copy", "again"
BREAK = "\n"


@dataclass(frozen=True)
class OrderBias:
    """The share of clean verdicts that the response shown first wins, less one half."""

    name: str = "order"

    def missing(self, subject: Subject) -> str:
        """Comparisons."""
        return subject.why_not(Protocol.PAIRWISE)

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
        return subject.why_not(Protocol.PAIRWISE)

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
        return subject.why_not(*PROTOCOLS)

    def asks(self, subject: Subject) -> list[Request]:
        """Everything clean, and again."""
        clean = [r for p in asked_in(subject) for r in in_both_orders(subject.base(p))]
        return [*clean, *(_again(r) for r in clean)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """The mean absolute change."""
        found: list[Finding] = []
        for protocol in asked_in(subject):
            d = seen.change(protocol, AGAIN, NONE).size()
            found.append(Finding(protocol, rate_of(d), d.n_unread, against="clean", attack=AGAIN))
        return found


@dataclass(frozen=True)
class Wording:
    """The judge's own prompt in other words, or turned round; asked in the first protocol that works."""

    name: str
    variants: tuple[str, ...]

    def missing(self, subject: Subject) -> str:
        """A judge card that can be reworded."""
        if why := subject.why_not(*PROTOCOLS):
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
        own = card_of(subject.judge, base[0])
        clean = [r for r in in_both_orders(base) if card_of(subject.judge, r) == own]
        return [*clean, *(replace(r, variant=v) for v in self.variants for r in clean)]

    def measure(self, subject: Subject, seen: Readings) -> list[Finding]:
        """The mean absolute change of the verdict against the plain prompt."""
        protocol = self._protocol(subject)
        found: list[Finding] = []
        for variant in self.variants:
            d = seen.change(protocol, NONE, NONE, variant).size()
            arm = variant if len(self.variants) > 1 else ""
            found.append(Finding(protocol, rate_of(d), d.n_unread, arm, "plain prompt", variant=variant))
        return found

    def _protocol(self, subject: Subject) -> Protocol:
        return asked_in(subject)[0]


PARAPHRASE = Wording("paraphrase", REWORDED)
REVERSAL = Wording("reversal", (REVERSED,))


def _again(request: Request) -> Request:
    second = request.response_b + BREAK if request.protocol is Protocol.PAIRWISE else request.response_b
    return replace(request, response=request.response + BREAK, response_b=second, attack=AGAIN)
