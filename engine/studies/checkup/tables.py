"""The table of the study `checkup`, what each probe measured, before any verdict."""

from __future__ import annotations

from engine.core.schema import Column, Table

CHECKUP = Table(
    "checkup",
    (
        Column("probe", "str", "name of the probe"),
        Column("arm", "str", "what was done to the response or the prompt; missing where the probe has one arm", False),
        Column("protocol", "str", "how the judge was asked; missing where it cannot be asked", required=False),
        Column("against", "str", "what it is compared with: clean, filler, placebo, human", required=False),
        Column("role", "str", "decides enters the verdict, detail is shown beside it", allowed=("decides", "detail")),
        Column("value", "float", "the effect, as a share of the scale, of pairs or of questions (NaN: undefined)"),
        Column("lower", "float", "lower end of the interval", required=False),
        Column("upper", "float", "upper end of the interval", required=False),
        Column("level", "float", "confidence level of this row in (0, 1): shared among the arms of a probe", False),
        Column("method", "str", "how the interval was made", required=False),
        Column("n", "int", "responses, comparisons or questions that entered"),
        Column("n_clusters", "int", "items that entered", required=False),
        Column("n_unread", "int", "left out since a verdict was unread", required=False),
        Column("detectable", "float", "true effect found with 80 % power, same unit as value", required=False),
        Column("base_rate", "float", "share of the most frequent human label (agreement alone)", required=False),
        Column("observed", "float", "share of verdicts equal to the human label (agreement alone)", required=False),
        Column("missing", "str", "which field or ability is missing; the probe cannot be asked", required=False),
    ),
)
