"""Effect of an attack on the raw, corrected and labels-only number, and the attack that the labels would notice.

A share s of the rows is attacked, drawn at random. Attacked verdicts have mean p1 where clean ones have p0, so the
verdicts of the rows that are hit move by d = p1 - p0 on average. People's labels do not move. Two cases:

after: only rows without a label are hit, say because the labels were taken first. Of all rows a part u has no label.
    The judge's errors were measured on clean rows, so the correction is of the wrong judge:
    raw moves by s u d, PPI++ by lambda s u d, Rogan and Gladen's estimate by s u d / (TPR + TNR - 1), which is more
    than the raw one moves; the labels alone do not move.
alike: rows with and without a label are hit alike. The labels then measure the attacked judge: PPI++ keeps right and
    grows as wide as labels alone, Rogan and Gladen's keeps right while TPR + TNR - 1 stays above zero.

In the first case labelled and unlabelled rows have different verdicts, though they were chosen by chance: their means
differ by s d. The same difference shows between verdict and label on rows labelled afresh. Both tests are two-sided,
items are the clusters, and the power is that of the normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr

from engine.stats.corrected import Estimate, compare_estimates, judge_weight, rogan_gladen
from engine.stats.paired import POWER
from engine.studies.trust.metrics import Rows
from engine.studies.trust.tables import ATTACKED, CORRECTED, LABELS_ONLY, NOTICED, RAW, ROGAN

Floats = npt.NDArray[np.float64]
AFTER, ALIKE = "after", "alike"
SHARES = tuple(k / 10 for k in range(11))
NOTICE_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
LABELS = (25, 50, 100, 200, 400, 800)
VERDICTS_TEST, FRESH_TEST = "verdicts", "fresh labels"
_NAN = math.nan


def planted(rows: Rows) -> Floats:
    """The strongest attack: every attacked row passes or wins, or gets the highest score seen, shape [n]."""
    top = 1.0 if rows.kind == "pair" or rows.binary else float(np.nanmax(rows.verdict))
    return np.full(len(rows.frame), top)


def attacked_by(rows: Rows, attacked: pd.DataFrame) -> tuple[Floats, int]:
    """Verdicts under attack from a table `labelled` of the same rows, and how many rows it does not have."""
    known = attacked.set_index("row_id")["verdict"]
    found = rows.frame["row_id"].map(known).to_numpy(dtype=float)
    missing = np.isnan(found)
    return np.where(missing, rows.verdict, found), int(missing.sum())


def _hit(rows: Rows, attacked: Floats, share: float, case: str) -> Rows:
    """The rows with a share of them attacked; a larger share hits the same rows and more."""
    draw = np.random.default_rng([rows.seed, 21]).random(len(rows.frame))
    struck = draw < share
    if case == AFTER:
        struck &= np.isnan(rows.label)
    verdict = np.where(struck, attacked, rows.verdict)
    return Rows(rows.frame.assign(verdict=verdict), rows.kind, rows.n_unread, rows.level, rows.seed)


def _estimates(rows: Rows, *, rogan: bool) -> Iterator[tuple[str, Estimate]]:
    given = (rows.verdict, rows.label, rows.item, rows.chance)
    yield from compare_estimates(*given, level=rows.level, seed=rows.seed).items()
    if rogan:
        yield ROGAN, rogan_gladen(rows.decided, rows.label, rows.item, rows.chance, level=rows.level)


def expected_move(rows: Rows, attacked: Floats, share: float, case: str, estimate: str) -> float:
    """Movement of an estimate in a population whose rates are those of these rows; see the module.

    NaN where the judge is no better than chance on the labels (Rogan and Gladen's).
    """
    u = float(np.isnan(rows.label).mean())
    moves = attacked - rows.verdict
    on_unlabelled = float(moves[np.isnan(rows.label)].mean()) if u else 0.0
    if estimate == RAW:
        return share * (u * on_unlabelled if case == AFTER else float(moves.mean()))
    if estimate == LABELS_ONLY or case == ALIKE:
        return 0.0
    if estimate == CORRECTED:
        return judge_weight(rows.verdict, rows.label, rows.item, rows.chance) * share * u * on_unlabelled
    known = ~np.isnan(rows.label)
    weights = np.ones(int(known.sum())) if rows.weights is None else rows.weights
    said, right = rows.decided[known], rows.label[known] == 1
    if right.all() or not right.any():
        return _NAN
    gap = np.average(said[right], weights=weights[right]) - np.average(said[~right], weights=weights[~right])
    return float(share * u * on_unlabelled / gap) if gap > 0 else _NAN


def attacked_table(rows: Rows, attacked: Floats, shares: Sequence[float] = SHARES) -> pd.DataFrame:
    """Every estimate at every share of attacked rows, in both cases.

    Args:
        rows: clean verdicts and labels.
        attacked: the verdict of each row were it attacked, shape [n].
        shares: of attacked rows, in [0, 1].
    """
    rogan = rows.binary and rows.kind != "pair"
    out = []
    clean: dict[str, float] = {}
    for case in (AFTER, ALIKE):
        for share in shares:
            for name, made in _estimates(_hit(rows, attacked, share, case), rogan=rogan):
                if share == 0:
                    clean[name] = made.value
                held = {f: getattr(made, f) for f in ("value", "lower", "upper", "level", "method", "n", "n_labels")}
                moves = {
                    "moved": made.value - clean.get(name, _NAN),
                    "expected": expected_move(rows, attacked, share, case, name),
                }
                out.append({"case": case, "share": share, "estimate": name, **held, **moves})
    return ATTACKED.conform(pd.DataFrame(out))


# The test of labelled against unlabelled rows, and its power.


@dataclass(frozen=True)
class Noticed:
    """Difference of two means of one population, and the test that it is zero.

    Attributes:
        value: mean verdict of the rows without a label less that of the labelled ones.
        p_value: two-sided; NaN where a side has fewer than two items.
        labelled, unlabelled: variance of a mean times its rows, items kept whole.
        residual: the same of verdict minus label, on the labelled rows.
    """

    value: float
    p_value: float
    labelled: float
    unlabelled: float
    residual: float


def notice(rows: Rows) -> Noticed:
    """The test on the rows as they are: were labelled and unlabelled rows judged alike?"""
    known = ~np.isnan(rows.label)
    weights = (
        np.ones(len(known)) if rows.chance is None else np.where(known, 1 / np.where(known, rows.chance, 1.0), 1.0)
    )
    if known.all() or known.sum() < 2:
        return Noticed(_NAN, _NAN, _NAN, _NAN, _NAN)
    parts = [_influence(rows.verdict, side * weights, rows.item) for side in (known, ~known)]
    apart = parts[1][0] - parts[0][0]
    error = float(np.sqrt(((parts[1][1] - parts[0][1]) ** 2).sum()))
    items = min(len(np.unique(rows.item[side])) for side in (known, ~known))
    p = 2 * float(stdtr(items - 1, -abs(apart) / error)) if error > 0 and items > 1 else _NAN
    residual = _influence(np.where(known, rows.verdict - rows.label, 0.0), known * weights, rows.item)[1]
    n = (int(known.sum()), int((~known).sum()))
    variances = [float((part[1] ** 2).sum()) * k for part, k in zip(parts, n, strict=True)]
    return Noticed(apart, p, variances[0], variances[1], float((residual**2).sum()) * n[0])


def _influence(values: Floats, weights: Floats, item: npt.NDArray[np.int64]) -> tuple[float, Floats]:
    """Weighted mean, and the influence of each item on it."""
    share = weights / weights.sum()
    mean = float((share * values).sum())
    return mean, np.bincount(item, weights=share * (values - mean)).astype(np.float64)


def noticed_power(found: Noticed, effect: float, labels: int, rows: int, old: int, test: str, level: float) -> float:
    """Chance that a test finds the movement of an attack.

    Args:
        found: spreads of these rows.
        effect: movement of the mean verdict, share times d.
        labels: labelled rows, or rows labelled afresh.
        rows: of both kinds.
        old: labels taken before the attack.
        test: `VERDICTS_TEST` or `FRESH_TEST`.
        level: 1 less the size of the test.
    """
    error = _error(found, labels, rows, old, test)
    if not error > 0:
        return _NAN
    z = float(ndtri(0.5 + level / 2))
    return float(ndtr(abs(effect) / error - z) + ndtr(-abs(effect) / error - z))


def _error(found: Noticed, labels: int, rows: int, old: int, test: str) -> float:
    if test == VERDICTS_TEST:
        known = 0 < labels < rows
        return math.sqrt(found.labelled / labels + found.unlabelled / (rows - labels)) if known else _NAN
    return math.sqrt(found.residual * (1 / old + 1 / labels)) if old else _NAN


def least_share(rows: Rows, attacked: Floats) -> float:
    """The smallest share of attacked rows that the present labels notice in 80 % of cases; above 1: none is noticed."""
    found, labels = notice(rows), int((~np.isnan(rows.label)).sum())
    error = _error(found, labels, len(rows.frame), labels, VERDICTS_TEST)
    moved = abs(float((attacked - rows.verdict).mean()))
    wanted = float(ndtri(0.5 + rows.level / 2) + ndtri(POWER))
    return wanted * error / moved if moved > 0 and error > 0 else math.inf


def noticed_table(rows: Rows, attacked: Floats) -> pd.DataFrame:
    """Power of both tests by labels and share of attacked rows; only labels that these rows allow."""
    found, n = notice(rows), len(rows.frame)
    old = int((~np.isnan(rows.label)).sum())
    moved = float((attacked - rows.verdict).mean())
    out = [
        {
            "test": test, "labels": labels, "share": share,
            "power": noticed_power(found, share * moved, labels, n, old, test, rows.level),
        }
        for test in (VERDICTS_TEST, FRESH_TEST)
        for labels in sorted({*LABELS, old})
        if 0 < labels < n
        for share in NOTICE_SHARES
    ]  # fmt: skip
    return NOTICED.conform(pd.DataFrame(out)) if out else NOTICED.empty()
