"""What a defense gains: its shifts and scores against those of the undefended judge, response by response."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.metrics.clusters import cluster_codes
from engine.metrics.intervals import cluster_mean
from engine.metrics.multiplicity import benjamini_hochberg
from engine.metrics.paired import paired_test
from engine.metrics.power import detectable_effect
from engine.metrics.shifts import metric_row, paired_shifts
from engine.schema import METRICS, NONE, Protocol

SHIFT_CHANGE = "shift_change"
FROM_UNDEFENDED = "from_undefended"


def defense_gains(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Mean of (shift under the defense) minus (shift without one), paired by response.

    Two intervals that overlap do not say that two shifts are the same; this difference does, since what is
    particular to a response cancels. Negative where the defense makes the attack raise scores less.

    Args:
        verdicts: table `verdicts` of one judge; only pointwise rows are used.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Returns:
        Table `metrics`, metric `shift_change`, one row per attack and defense that both have verdicts; n_unread
        counts responses of the defended arm without a shift in both.

    Raises:
        InputError: as `paired_shifts`.
    """
    shifts = paired_shifts(verdicts)
    out: list[dict[str, object]] = []
    for attack in shifts["attack"].unique():
        arm = shifts[shifts["attack"] == attack]
        plain = arm[arm["defense"] == NONE].set_index("response_id")["shift"]
        for defense in arm["defense"].unique():
            if defense == NONE or plain.empty:
                continue
            own = arm[arm["defense"] == defense]
            change = own["shift"].to_numpy(dtype=float) - own["response_id"].map(plain).to_numpy(dtype=float)
            clusters = cluster_codes(own)
            test = paired_test(change.round(12), clusters, level=level, seed=seed)
            row = metric_row(SHIFT_CHANGE, attack, defense, test.interval, len(own))
            row["p_value"] = test.p_value
            row["detectable"] = detectable_effect(change.round(12), clusters, level=level)
            out.append(row)
    if not out:
        return METRICS.empty()
    table = METRICS.conform(pd.DataFrame(out))
    return table.assign(q_value=benjamini_hochberg(table["p_value"]))


def from_undefended(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Mean of (attacked score behind the defense) minus (clean score without one), paired by response.

    A shift under a defense is taken from that defense's own clean score. Where the defense itself moves clean scores,
    a shift near zero may still end far from what the undefended judge says of the clean response; this is how far.
    Without a defense it is the shift.

    Args:
        verdicts: table `verdicts` of one judge; only pointwise rows are used.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Returns:
        Table `metrics`, metric `from_undefended`, one row per attack and defense, where there are clean verdicts
        without a defense.

    Raises:
        InputError: as `paired_shifts`.
    """
    shifts = paired_shifts(verdicts)
    rows = verdicts[verdicts["protocol"] == Protocol.POINTWISE.value]
    bare = rows[(rows["attack"] == NONE) & (rows["defense"] == NONE)].set_index("response_id")["score"]
    if bare.empty or shifts.empty:
        return METRICS.empty()
    out: list[dict[str, object]] = []
    for (attack, defense), own in shifts.groupby(["attack", "defense"], sort=False):
        away = own["attacked"].to_numpy(dtype=float) - own["response_id"].map(bare).to_numpy(dtype=float)
        found = cluster_mean(np.round(away, 12), cluster_codes(own), level=level, seed=seed)
        out.append(metric_row(FROM_UNDEFENDED, str(attack), str(defense), found, len(own)))
    return METRICS.conform(pd.DataFrame(out))
