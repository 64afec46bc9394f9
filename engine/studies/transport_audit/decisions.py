"""What an audit by partial transport says at a mass, beside its controls; numpy only, from stored arrays.

A split has labelled pairs as positives and others as unlabelled; of the unlabelled ones the truth is known where a
human preference is held back. Agreement is 1 where a verdict is the human's, 0 where it is not, NaN where unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError
from engine.transport.readout import TransportPath, kept

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

GEOMETRY = ("centroid", "nearest", "top10")
"""Scores that need no transport; higher looks more like a verified preference."""
NO_ESTIMATE = (
    "The transported mass cannot be estimated, since no pair has both a human preference and a verdict of the judge. "
    "Set the share of verdicts to keep: mass, for example 0.8 (--set mass=0.8)."
)
CONTROLS = ("nothing", "all", "random", *GEOMETRY)
"""What the audit is held against, at the same number of flips."""


@dataclass(frozen=True)
class Split:
    """One division of the pairs, with its transport path.

    Attributes:
        number: -1 where every labelled pair is a positive, else the seeded split's number.
        part: the question type it is about; empty where all types share one transport.
        pair: code of each unlabelled pair (n_U,), the same in every split of an audit.
        agrees: agreement of each unlabelled pair's verdict (n_U,), as above.
        scores: the baselines of `GEOMETRY`, each (n_U,).
        estimate: agreement of the clean verdicts with the people on the positives: the mass of paper 002, 5.1.
        estimate_attacked: the same of the attacked verdicts; NaN without an attack.
        n_estimate: positives that the estimate rests on.
    """

    number: int
    part: str
    path: TransportPath
    pair: Ints
    agrees: Floats
    scores: dict[str, Floats]
    estimate: float
    estimate_attacked: float
    n_estimate: int

    @property
    def oracle(self) -> float:
        """Agreement of the unlabelled verdicts themselves; NaN where no truth is known. Hidden from the audit."""
        known = self.agrees[~np.isnan(self.agrees)]
        return float(known.mean()) if len(known) else float("nan")

    def mass(self, wanted: float | None = None) -> float:
        """The mass asked for, else the estimate; at least one unit, so that a judge that is never right has one.

        Raises:
            InputError: none was asked for, and no positive has a verdict to estimate it from.
        """
        if wanted is not None:
            return wanted
        if np.isnan(self.estimate):
            raise InputError(NO_ESTIMATE)
        return float(np.clip(self.estimate, 1 / self.path.n_unlabelled, 1.0))


@dataclass(frozen=True)
class Decision:
    """The audit of one split at one mass.

    Attributes:
        mass: transported.
        flips: whether each unlabelled verdict is flipped (n_U,): s_bar < eta.
        after: agreement after the flips (n_U,).
        controls: expected agreement under each control of `CONTROLS`, at as many flips (n_U,).
    """

    mass: float
    flips: Bools
    after: Floats
    controls: dict[str, Floats]


def decide(split: Split, mass: float | None = None, eta: float = 0.5) -> Decision:
    """Flip what the plan of a mass does not reach (paper 002, algorithm 1), and what the controls would do.

    Args:
        split: with its path.
        mass: in (0, 1]; None takes the split's own estimate.
        eta: in (0, 1]; items are used in whole or not at all but for a few, so it hardly acts.

    Raises:
        InputError: mass or eta outside its range.
    """
    used = split.mass(mass)
    flips = ~kept(split.path.scores(used), eta)
    return Decision(used, flips, flipped(split.agrees, flips), controls(split, int(flips.sum())))


def flipped(agrees: Floats, flips: Bools) -> Floats:
    """Agreement after some verdicts on pairs without ties are turned round; unknown stays unknown."""
    return np.where(flips, 1 - agrees, agrees)


def controls(split: Split, n_flips: int) -> dict[str, Floats]:
    """Expected agreement of each pair when as many verdicts are flipped without transport.

    nothing: none is flipped; all: all are; random: any, with closed form a (1 - q) + (1 - a) q at a share q; the others
    flip those with the lowest score, ties by position.
    """
    agrees, n = split.agrees, len(split.agrees)
    share = n_flips / n
    made = {"nothing": agrees, "all": 1 - agrees, "random": agrees * (1 - share) + (1 - agrees) * share}
    for name in GEOMETRY:
        chosen = np.zeros(n, dtype=bool)
        chosen[np.argsort(split.scores[name], kind="stable")[:n_flips]] = True
        made[name] = flipped(agrees, chosen)
    return made


def random_band(splits: Sequence[Split], n_flips: Sequence[int], z: float = 1.96) -> tuple[float, float, float]:
    """Consistency when so many verdicts of each split, drawn at random, are flipped: expectation, and a band's ends.

    A pair's agreement is its mean over the splits that have it unlabelled, as in `per_pair`, so in one split a flip
    changes consistency by (1 - 2 a) / (N c): a its agreement, c the splits that have it, N all pairs. The flipped ones
    are drawn without replacement, and splits apart from one another. For one split this is the hypergeometric
    a + (k - 2 X) / n, X being the flipped verdicts that agreed.

    Args:
        splits: with their agreement.
        n_flips: verdicts flipped in each (as many as splits).
        z: half width in standard deviations.

    Returns:
        NaN where no truth is known.
    """
    n_pairs = max((int(split.pair.max()) + 1 for split in splits), default=0)
    counts = np.zeros(n_pairs)
    for split in splits:
        np.add.at(counts, split.pair[~np.isnan(split.agrees)], 1.0)
    known = int((counts > 0).sum())
    if not known:
        return (float("nan"),) * 3
    expected = variance = 0.0
    for split, k in zip(splits, n_flips, strict=True):
        n, truth = len(split.agrees), ~np.isnan(split.agrees)
        share = np.divide(1.0, known * counts[split.pair], out=np.zeros(n), where=truth)
        agrees = np.nan_to_num(split.agrees)
        change = share * (1 - 2 * agrees)
        expected += float(share @ agrees) + k * float(change.mean())
        variance += k * float(change.var()) * (n - k) / (n - 1) if n > 1 else 0.0
    half = z * float(np.sqrt(variance))
    return expected, expected - half, expected + half


def per_pair(splits: Sequence[Split], values: Sequence[Floats], n_pairs: int) -> Floats:
    """Mean of a value over the splits that had a pair unlabelled (n_pairs,); NaN where none had, or it is unknown."""
    total, count = np.zeros(n_pairs), np.zeros(n_pairs)
    for split, value in zip(splits, values, strict=True):
        known = ~np.isnan(value)
        np.add.at(total, split.pair[known], value[known])
        np.add.at(count, split.pair[known], 1.0)
    means: Floats = np.divide(total, count, out=np.full(n_pairs, np.nan), where=count > 0)
    return means


def stability(resampled: Floats, mass: float) -> Floats:
    """Share of the bootstraps of the positives in which each unlabelled pair is kept at this mass (n_U,).

    Args:
        resampled: entry mass of each pair under each bootstrap (n_U, B).
        mass: in (0, 1].
    """
    share: Floats = (resampled < mass - 1e-12).mean(axis=1)
    return share
