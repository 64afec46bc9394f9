"""Which judge calls of study `protocols` gave no usable answer, arm by arm, and whether arms differ in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.readout.arena import Arena


@dataclass(frozen=True)
class Calls:
    """Judge calls of one kind in one arm.

    Attributes:
        kind: pairwise, pointwise or ranking; `copies` for comparisons of a response with itself or its rewriting.
        arm: the rewriting, or `none`.
        asked: all of them.
        unread: those without a usable answer.
    """

    kind: str
    arm: str
    asked: int
    unread: int

    @property
    def share(self) -> float:
        """Share without a usable answer, in [0, 1]."""
        return self.unread / self.asked


def calls_by_arm(arena: Arena) -> list[Calls]:
    """Every kind and arm that was asked, in the order of the run."""
    return [Calls(kind, arm, n, unread_in(arena, (kind,), (arm,))) for (kind, arm), n in arena.asked.items()]


def unread_in(arena: Arena, kinds: Collection[str], arms: Collection[str]) -> int:
    """Calls of these kinds and arms without a usable answer."""
    return sum(n for (kind, arm, _), n in arena.unread.items() if kind in kinds and arm in arms)


def unread_warning(found: Collection[Calls]) -> str:
    """A warning where the arms of one kind lost different shares of their calls; empty where none does."""
    said = []
    for kind in dict.fromkeys(one.kind for one in found):
        own = sorted((one for one in found if one.kind == kind), key=lambda one: one.share)
        if own[0].share != own[-1].share:
            said.append(f"{kind} lost {_lost(own[-1])}, {_lost(own[0])}")
    return (
        f"Arms differ in unread verdicts: {'; '.join(said)}. Their numbers are of different responses." if said else ""
    )


def _lost(one: Calls) -> str:
    return f"{100 * one.share:.3g} % in the arm {one.arm} ({one.unread:,} of {one.asked:,})"
