"""The audit where every item weighs the same, whatever the number of its pairs: weights that are not uniform.

The exact path needs uniform weights, so each split is solved anew at its one mass, by the POT library
(`engine.transport.weighted`). The numbers stand beside those of the exact path and show what the weighting changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.metrics.puaudit import Audit, metric_of_pairs
from engine.readout.puaudit import Split, flipped, per_pair
from engine.readout.transport import kept
from engine.schema import METRICS
from engine.studies.puaudit_tables import Divided, Pool
from engine.transport.path import cosine_costs
from engine.transport.weighted import weighted_use

Floats = npt.NDArray[np.float64]
ITEMS = "items"
"""Each item weighs the same; the other choice, `pairs`, is the paper's uniform weights."""


def item_weights(items: Sequence[str]) -> Floats:
    """1 / (number of items * pairs of the item) for each pair (n,); sums to 1."""
    pairs = Counter(items)
    return np.array([1.0 / (len(pairs) * pairs[item]) for item in items])


def weighted_rows(
    own: Audit, made: Sequence[Divided], pool: Pool, *, mass: float | None, eta: float, level: float
) -> pd.DataFrame:
    """cons_adj_items and gain_items: consistency after the audit, and its gain, where items weigh the same.

    Args:
        own: the seeded splits of an arm, as read from its tables.
        made: the same splits with their directions.
        pool: knows the item of each pair.
        mass: transported, in (0, 1]; None takes each split's own estimate.
        eta: least share of its weight that a pair must have transported to be kept.
        level: confidence level.
    """
    divided = {(one.number, one.part): one for one in made}
    after = [_after(split, divided[split.number, split.part], pool, mass, eta) for split in own.splits]
    n = len(own.pairs)
    adjusted = per_pair(own.splits, after, n)
    original = per_pair(own.splits, [split.agrees for split in own.splits], n)
    rows = [
        metric_of_pairs(own, "cons_adj_items", adjusted, level),
        metric_of_pairs(own, "gain_items", adjusted - original, level),
    ]
    return METRICS.conform(pd.DataFrame(rows))


def _after(split: Split, one: Divided, pool: Pool, mass: float | None, eta: float) -> Floats:
    stays = one.audited.stays
    positives = [pool.item[pair] for pair, stay in zip(one.positives, stays, strict=True) if stay]
    costs = cosine_costs(one.z_positive[stays], one.z_unlabelled)
    unlabelled = [pool.item[pair] for pair in one.unlabelled]
    used = weighted_use(costs, item_weights(positives), item_weights(unlabelled), [split.mass(mass)])[0]
    return flipped(split.agrees, ~kept(used, eta))
