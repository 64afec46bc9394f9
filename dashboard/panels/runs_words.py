"""What the columns of the pages Runs and Report are called: studies and metrics by the names the pages have."""

from __future__ import annotations

import pandas as pd

STUDIES = {
    "score": "Attacks",
    "grid": "Attacks, whole grid",
    "verify": "Verifier",
    "refswap": "Reference swap",
    "protocols": "Protocols",
    "puaudit": "Transport audit",
    "suffix": "Learned phrase",
    "detection": "Perplexity threshold",
    "cap": "Steering and anchors",
    "checkup": "Check-up",
}
_COLUMNS = {
    "n": "n",
    "n_clusters": "Items",
    "n_unread": "Unread",
    "p_value": "p",
    "q_value": "q",
    "lower": "Lower",
    "upper": "Upper",
}


def study_title(study: str) -> str:
    """A study by its page; one of another version by its own name."""
    return STUDIES.get(study, study)


def with_titles(metrics: pd.DataFrame) -> pd.DataFrame:
    """The table with columns a reader knows; what is in them stays as the run has it."""
    return metrics.rename(columns=lambda c: _COLUMNS.get(c, str(c).replace("_", " ").capitalize()))
