"""The exact partial-transport path read at any transported mass; numpy only, from its stored events.

Notation of paper 002: a = 1/n_P and b = 1/n_U are the weights of positives and unlabelled items, m the transported
mass. The path is a list of events in order of m; each moves some units of mass onto one unlabelled item.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class NothingToAuditError(InputError):
    """Too few pairs have both a person's choice and a verdict."""


@dataclass(frozen=True)
class TransportPath:
    """The optimal plans of every mass, as the events of one run of successive shortest paths.

    Attributes:
        n_positive, n_unlabelled: items of each side.
        sent: units moved after each event (N,), ascending; all mass is `units`.
        unlabelled: the unlabelled item an event adds to (N,).
        positive: the positive an event draws from (N,).
        price: cost of one unit of mass moved by the event (N,), never falling: the slope lambda(m) of the cost.
    """

    n_positive: int
    n_unlabelled: int
    sent: Ints
    unlabelled: Ints
    positive: Ints
    price: Floats

    @property
    def units(self) -> int:
        """Units that make up a mass of 1: the least common multiple of both sides."""
        return math.lcm(self.n_positive, self.n_unlabelled)

    @property
    def reach(self) -> float:
        """Largest mass the run went to, in (0, 1]."""
        return int(self.sent[-1]) / self.units

    @cached_property
    def moved(self) -> Ints:
        """Units of each event (N,)."""
        return np.diff(self.sent, prepend=0)

    @cached_property
    def entry_mass(self) -> Floats:
        """Mass at which each unlabelled item begins to be used (n_U,); infinite where it never is."""
        return self._first((self.sent - self.moved) / self.units)

    @cached_property
    def entry_price(self) -> Floats:
        """Price lambda at which each unlabelled item begins to be used (n_U,), in units of the cost."""
        return self._first(self.price)

    def _first(self, values: Floats) -> Floats:
        first = np.full(self.n_unlabelled, np.inf)
        np.minimum.at(first, self.unlabelled, values)
        return first

    def amounts(self, mass: float) -> Floats:
        """Units of each event that belong to the plan of this mass (N,); the last one partly.

        Raises:
            InputError: the mass lies outside (0, reach].
        """
        units = checked_mass(mass, self.reach) * self.units
        return np.clip(units - (self.sent - self.moved), 0, self.moved)

    def used(self, mass: float) -> Floats:
        """Share of each unlabelled item's mass that is transported (n_U,), in [0, 1]."""
        return self._share(self.unlabelled, self.n_unlabelled, mass)

    def positives_used(self, mass: float) -> Floats:
        """Share of each positive's mass that is transported (n_P,), in [0, 1]."""
        return self._share(self.positive, self.n_positive, mass)

    def _share(self, items: Ints, n: int, mass: float) -> Floats:
        units = np.zeros(n)
        np.add.at(units, items, self.amounts(mass))
        return units * (n / self.units)

    def scores(self, mass: float) -> Floats:
        """s_bar of paper 002, section 3.3: transported mass of each unlabelled item over the largest (n_U,)."""
        used = self.used(mass)
        scores: Floats = used / used.max()
        return scores

    def cost(self, mass: float) -> float:
        """Cost of the optimal plan of this mass, <C, G>."""
        return float(self.amounts(mass) @ self.price) / self.units

    def price_at(self, mass: float) -> float:
        """lambda(m): cost of the last unit of mass."""
        units = checked_mass(mass, self.reach) * self.units
        event = int(np.searchsorted(self.sent, units))
        return float(self.price[min(event, len(self.sent) - 1)])

    def fractional(self, mass: float) -> float:
        """Share of unlabelled items that are used in part, in [0, 1]: how far the kept share can be from m."""
        used = self.used(mass)
        return float(((used > 1e-9) & (used < 1 - 1e-9)).mean())


def checked_mass(mass: float, most: float = 1.0) -> float:
    """The mass, if it is one.

    Raises:
        InputError: it is no number in (0, most].
    """
    if not 0 < mass <= most * (1 + 1e-12):  # NaN fails both
        raise InputError(f"The transported mass is {mass}; it must lie above 0 and at most {most:g}.")
    return min(float(mass), most)


def kept(scores: Floats, eta: float = 0.5) -> npt.NDArray[np.bool_]:
    """Verdicts that stay as they are: s_bar >= eta (paper 002, algorithm 1, where the test is called tau).

    Raises:
        InputError: eta outside (0, 1].
    """
    if not 0 < eta <= 1:
        raise InputError(f"eta is {eta}; it must lie above 0 and at most 1 (the paper's 0.5).")
    return scores >= eta
