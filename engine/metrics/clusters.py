"""What a cluster is: the one place that decides which rows of a table may depend on one another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.errors import InputError


def cluster_codes(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The cluster of each row as a code 0..G-1, in order of first appearance.

    Rows of one item share its context, its difficulty and often its topic, so the item is the cluster, also
    where a number averages over attacks, keys or orders.

    Raises:
        InputError: the table has no `item_id`, or a row lacks one.
    """
    if "item_id" not in frame.columns:
        raise InputError("The table has no column item_id; intervals need it, since items are the clusters.")
    codes = pd.factorize(frame["item_id"])[0].astype(np.int64)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0]) + 1
        raise InputError(
            f"Row {row} has no item_id; intervals need it, since items are the clusters. Give each row "
            "the id of its item (its own id where it is alone)."
        )
    return codes
