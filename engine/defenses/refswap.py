"""RefSwap as a judge around a verifier (paper 003, section 3.4): a base verdict, and a check of every YES.

Stage 1 asks under the true reference. Stage 2, for a YES alone, asks under K counterfactual references and keeps the
YES only if the largest of their probabilities reaches gamma (eq. 4). A NO costs one call, a YES K more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.defenses.base import OuterJudge
from engine.defenses.names import REFSWAP
from engine.errors import InputError
from engine.judges.base import Checkpoint, Cost, Judge, Request, Verdict, no_checkpoint, unread
from engine.schema import Outcome, Protocol

K, GAMMA = 5, 0.01
"""The paper's K, and its gamma at delta = 2 points on its own verifier; calibrate gamma on your own."""

References = Callable[[Request], Sequence[str]]
"""The counterfactual references of a request, at least K of them, in the order of the nested draw."""


@dataclass(frozen=True)
class Checked:
    """One request in both stages.

    Attributes:
        base: the verdict under the true reference.
        references: the counterfactual references asked; empty where the base verdict was no YES.
        swapped: the verdicts under those.
        verdict: what the defended judge says.
    """

    base: Verdict
    references: tuple[str, ...]
    swapped: tuple[Verdict, ...]
    verdict: Verdict

    @property
    def max_p_cf(self) -> float:
        """Eq. 4; NaN where nothing was asked or one answer is unread."""
        p = [v.p_yes for v in self.swapped]
        return max(p) if p and all(v.read for v in self.swapped) else float("nan")


class RefSwapJudge(OuterJudge):
    """A verifier behind RefSwap.

    Args:
        inner: any verifier, defended or not.
        references: where counterfactual references come from.
        k: how many are asked for a YES, from 1 on.
        gamma: least max_p_cf that keeps a YES, in [0, 1]; ties pass.

    Raises:
        InputError: k or gamma is out of its range.
    """

    def __init__(self, inner: Judge, references: References, k: int = K, gamma: float = GAMMA) -> None:
        if k < 1:
            raise InputError(f"RefSwap's K is {k}; give a whole number of at least 1.")
        if not 0 <= gamma <= 1:
            raise InputError(f"RefSwap's gamma is {gamma:g}; it is a probability, from 0 to 1.")
        super().__init__(inner, f"{REFSWAP}?k={k}&gamma={gamma:g}")
        self.k, self.gamma = k, gamma
        self._references = references

    @property
    def protocols(self) -> frozenset[Protocol]:
        """A verifier only."""
        return frozenset({Protocol.VERIFIER}) & self.inner.protocols

    def prompt(self, request: Request) -> str:
        """The prompt of the first stage."""
        return self.inner.prompt(self._named(request))

    def cost(self, requests: Sequence[Request]) -> Cost:
        """What both stages would take if every verdict were YES: an upper bound."""
        return self.inner.cost([r for one in requests for r in (self._named(one), *self._swapped(one))])

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """The verdict of both stages; p_yes and probabilities stay those of the first.

        Raises:
            InputError: a request is for no verifier, or has too few counterfactual references.
        """
        return [one.verdict for one in self.check(requests, checkpoint)]

    def check(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Checked]:
        """Both stages in full, for whoever wants to see why a YES fell."""
        if wrong := next((r for r in requests if r.protocol is not Protocol.VERIFIER), None):
            raise InputError(f"RefSwap defends a verifier; the request for {wrong.response_id} is {wrong.protocol}.")
        base = self.inner.judge([self._named(r) for r in requests], checkpoint)
        asked = [
            self._swapped(r) if v.read and v.outcome is Outcome.YES else [] for r, v in zip(requests, base, strict=True)
        ]
        total = len(requests) + sum(map(len, asked))
        flat = [r for one in asked for r in one]
        answers = iter(self.inner.judge(flat, lambda done, _: checkpoint(len(requests) + done, total)))
        return [
            self._settled(v, [r.reference for r in own], [next(answers) for _ in own])
            for v, own in zip(base, asked, strict=True)
        ]

    def _swapped(self, request: Request) -> list[Request]:
        references = self._references(request)[: self.k]
        if len(references) < self.k:
            raise InputError(
                f"There are {len(references)} counterfactual references for {request.item_id}, and K is {self.k}. "
                "Choose a smaller K or a larger pool."
            )
        return [
            replace(self._named(request), reference=text, reference_id=f"other-{i}")
            for i, text in enumerate(references, start=1)
        ]

    def _settled(self, base: Verdict, references: Sequence[str], swapped: Sequence[Verdict]) -> Checked:
        cost = replace(
            base,
            forward_passes=base.forward_passes + sum(v.forward_passes for v in swapped),
            seconds=base.seconds + sum(v.seconds for v in swapped),
        )
        if not swapped:
            verdict = cost
        elif lost := [v for v in swapped if not v.read]:
            verdict = unread(
                cost, f"{len(lost)} of {len(swapped)} counterfactual checks unread: {lost[0].unread_reason}"
            )
        else:
            passed = max(v.p_yes for v in swapped) >= self.gamma
            verdict = cost if passed else replace(cost, outcome=Outcome.NO)
        return Checked(base, tuple(references), tuple(swapped), verdict)
