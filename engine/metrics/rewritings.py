"""What the content checks say of a run's rewritings: how many are kept, and why the others are not."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from engine.readout.arena import same_rules
from engine.schema import NONE

COLUMNS = ("style", "rewriter", "n", "kept", "length_ratio", "left_out", "rules_changed")


def content_checks(variants: pd.DataFrame) -> pd.DataFrame:
    """One row for each style of the table `variants`, originals left out.

    Returns:
        style, rewriter, n (rewritings), kept (those whose text changed and lost nothing), length_ratio (median of new
        over old words), left_out ("numbers changed: 3; the text did not change: 1", most frequent first), rules_changed
        (kept ones that fail other format rules than their original, so that no number rests on them).
    """
    rows = []
    made = variants[variants["style"] != NONE]
    for (style, rewriter), own in made.groupby(["style", "rewriter"], sort=False):
        why: Counter[str] = Counter()
        for reasons in own.loc[own["kept"] == 0, "reasons"].fillna("no reason given"):
            why.update({part.split(":")[0].strip() for part in str(reasons).split(";")})
        rows.append(
            {
                "style": str(style),
                "rewriter": str(rewriter),
                "n": len(own),
                "kept": int(own["kept"].sum()),
                "length_ratio": float(own["length_ratio"].median()),
                "left_out": "; ".join(f"{reason}: {n}" for reason, n in why.most_common()),
                "rules_changed": sum(row.kept == 1 and not same_rules(row) for row in own.itertuples(index=False)),
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))
