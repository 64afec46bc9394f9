"""What a defense gains: its shifts against those of the undefended judge, response by response."""

from __future__ import annotations

import pandas as pd

from engine.metrics.clusters import cluster_codes
from engine.metrics.multiplicity import benjamini_hochberg
from engine.metrics.paired import paired_test
from engine.metrics.power import detectable_effect
from engine.metrics.shifts import metric_row, paired_shifts
from engine.schema import METRICS, NONE

SHIFT_CHANGE = "shift_change"


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
