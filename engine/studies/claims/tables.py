"""The table of the study `claims`: a row for each claim and data set."""

from __future__ import annotations

from engine.core.schema import Column, Table

HOLDS, WEAKER, NOT_SEEN = "holds at the stated effect", "weaker than published", "not seen"
OTHER_WAY, CANNOT_TELL, CONSTRUCTED = "the other way", "cannot tell", "by construction"
VERDICTS = (HOLDS, WEAKER, NOT_SEEN, OTHER_WAY, CANNOT_TELL, CONSTRUCTED)
"""What may be said of a claim; the rule is in `assets/studies/claims.toml` and `engine.studies.claims.metrics`."""

CLAIMS = Table(
    "claims",
    (
        Column("claim", "str", "id of the claim"),
        Column("paper", "str", "whose claim it is"),
        Column("set", "str", "the frozen name of the data set"),
        Column("data", "str", "the data that were read", required=False),
        Column("judge", "str", "the judge's spec"),
        Column("value", "float", "the estimand, positive where the claim says so, null taken off (NaN: none)"),
        Column("lower", "float", "lower end of its 95 % interval"),
        Column("upper", "float", "upper end"),
        Column("method", "str", "how the interval was made", required=False),
        Column("n", "int", "rows that entered", required=False),
        Column("n_items", "int", "items that entered", required=False),
        Column("least", "float", "least relevant effect, or the margin of non-inferiority"),
        Column("stated", "float", "published effect on this scale (NaN: non-inferiority)", required=False),
        Column("p_value", "float", "two-sided, of the test of no effect, or of a loss of the margin", required=False),
        Column("q_value", "float", "Benjamini-Hochberg over the judge's rows that are not by construction", False),
        Column("detectable", "float", "true effect found with 80 % power", required=False),
        Column("verdict", "str", "what is said of it", allowed=VERDICTS),
        Column("reason", "str", "why nothing can be told", required=False),
        Column("run", "str", "the run whose table was read", required=False),
        Column("device", "str", "where the judge ran", required=False),
    ),
)
