"""Standard references (CAP, paper 001, sections 4.2 and 4.3): two pools, thresholds, alphas, and the anchors' key.

The first pool fixes the thresholds; candidates of a *second* pool are retained against them, since one pool for both
would be circular. Alphas are chosen on training contexts only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InputError
from engine.steering.vectors import LEAST_TEXTS, Floats, Form, Side, Standards


@dataclass(frozen=True)
class Thresholds:
    """The scores that stand for the high and the low standard, on the judge's scale."""

    high: float
    low: float


def thresholds_of(scores: Floats, high_percentile: float = 80.0, low_percentile: float = 20.0) -> Thresholds:
    """Percentiles of the first pool's scores; unread ones (NaN) are left out.

    Raises:
        InputError: percentiles out of order, too few read scores, or a judge that gives every text one score.
    """
    if not 0 <= low_percentile < high_percentile <= 100:
        raise InputError(
            f"The percentiles {low_percentile:g} and {high_percentile:g} are out of order: 0 <= low < high <= 100."
        )
    read = scores[~np.isnan(scores)]
    if len(read) < 2 * LEAST_TEXTS:
        raise InputError(
            f"The judge read {len(read)} of the {len(scores)} candidates of the first pool; at least "
            f"{2 * LEAST_TEXTS} are needed for thresholds. Generate more candidates, or use more training contexts."
        )
    high, low = np.percentile(read, [high_percentile, low_percentile])
    if not high > low:
        raise InputError(
            f"Both percentiles of the judge's scores are {high:.3g}: it tells no candidate from another, so there are "
            "no standards. Give the pool more contrast, or use another judge."
        )
    return Thresholds(float(high), float(low))


def retained(scores: Floats, thresholds: Thresholds) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Candidates of the second pool that are of the high side, and those of the low one; unread ones are of none."""
    return scores >= thresholds.high, scores <= thresholds.low


def degraded(text: str, other: str, seed: int) -> str:
    """A draft made worse by a rule: cut short, its words shuffled in part, or replaced by another context's draft."""
    rng = Random(seed)
    words = text.split()
    way = rng.randrange(3)
    if way == 0 or len(words) < 4:
        return other
    if way == 1:
        return " ".join(words[: max(2, len(words) // 3)])
    start = rng.randrange(max(1, len(words) // 3))
    part = words[start:]
    rng.shuffle(part)
    return " ".join([*words[:start], *part])


LEAST_READ = 0.8
"""Share of an alpha's texts that the judge must have read for the alpha to be chosen."""


@dataclass(frozen=True)
class Chosen:
    """The alpha of one side and how near it comes.

    Attributes:
        alpha: of the sweep.
        mean: mean score of its texts.
        standard: the score it should have.
        n: texts with a score.
        of: texts asked for.
    """

    alpha: float
    mean: float
    standard: float
    n: int
    of: int

    @property
    def enough(self) -> bool:
        """At least `LEAST_READ` of the texts were read; if not, no alpha of the sweep had so many."""
        return self.n >= LEAST_READ * self.of


def nearest_alpha(alphas: Floats, scores: Floats, standard: float, side: str) -> Chosen:
    """The alpha whose texts have the mean score nearest to the standard; of equally near ones the smallest.

    Strong steering breaks a text: some contexts then have none, and a mean over the others says little about the
    alpha. So only alphas with at least `LEAST_READ` of their texts read count, unless there are none.

    Args:
        alphas: of each text of the sweep (n,).
        scores: the judge's score of each text (n,), NaN where unread.
        standard: the score to reach.
        side: named in the message.

    Raises:
        InputError: no text of the sweep was read.
    """
    tried = []
    for alpha in np.unique(alphas):
        every = scores[alphas == alpha]
        read = every[~np.isnan(every)]
        if len(read):
            tried.append(Chosen(float(alpha), float(read.mean()), standard, len(read), len(every)))
    if not tried:
        raise InputError(f"The judge read none of the texts steered {side}, so no alpha can be chosen.")
    return nearest(tried)


def nearest(candidates: Sequence[Chosen]) -> Chosen:
    """The candidate whose mean is nearest to its standard; of equally near ones the one of the smallest alpha.

    Args:
        candidates: at least one; those with enough texts read go first.
    """
    enough = [one for one in candidates if one.enough] or candidates
    return min(enough, key=lambda one: (round(abs(one.mean - one.standard), 9), one.alpha))


def vector_digest(standards: Standards) -> str:
    """Digest of both standards in the float32 that steers."""
    digest = hashlib.sha256()
    for vector in (standards.high, standards.low):
        digest.update(np.asarray(vector, dtype="<f4").tobytes())
    return digest.hexdigest()


def anchor_key(
    tutor: str,
    judge: str,
    prompt: Sequence[int],
    side: Side,
    standards: Standards,
    alpha: float,
    form: Form,
    seed: int,
    limit: int,
) -> str:
    """Cache key of a steered anchor.

    Args:
        tutor: fingerprint of the tutor.
        judge: fingerprint of the judge: thresholds and vectors come from its scores.
        prompt: token ids, which hold the context.
        side: high or low.
        standards: layer and vectors.
        alpha: strength.
        form: of the cosine.
        seed: of the study.
        limit: longest anchor in tokens.
    """
    parts: tuple[Any, ...] = (
        tutor, judge, side, vector_digest(standards), standards.layer, f"{alpha:.9g}", form, seed, limit,
    )  # fmt: skip
    digest = hashlib.sha256(repr(parts).encode())
    digest.update(np.asarray(prompt, dtype="<u4").tobytes())
    return f"anchor-{digest.hexdigest()}"
