"""Tables of a panel."""

from __future__ import annotations

from engine.core.schema import Column, Table

VOTES = Table(
    "panel_votes",
    (
        Column("judge", "str", "the judge's name in the panel"),
        Column("item_id", "str", "the item judged"),
        Column("response_id", "str", "the response judged; of a pair the one whose id comes first"),
        Column("response_b", "str", "second response of a pair", required=False),
        Column("system", "str", "what generated the response", required=False),
        Column("system_b", "str", "what generated the second response", required=False),
        Column("vote", "float", "score; of a pair the probability of the first, ties half; or of YES", required=False),
        Column("side", "float", "1 the first or YES, 0 the second or NO, 0.5 a tie; NaN: unread", required=False),
        Column("human", "float", "people's score, or their side as above", required=False),
    ),
)
JUDGES = Table(
    "panel_judges",
    (
        Column("judge", "str", "the judge's name in the panel"),
        Column("spec", "str", "its spec"),
        Column("run", "str", "the run or the recording that its verdicts are from"),
        Column("family", "str", "family of its model, as far as its name tells", required=False),
        Column("n_calls", "int", "clean calls that the panel rests on"),
        Column("n_unread", "int", "subjects without a usable verdict"),
        Column("calls", "float", "calls a verdict: two where both orders of a pair were asked"),
        Column("prompt_tokens", "float", "prompt tokens a verdict (NaN: not recorded)", required=False),
        Column("seconds", "float", "wall time a verdict [s] (NaN: not recorded)", required=False),
    ),
    key="judge",
)
PANEL = Table(
    "panel",
    (
        Column("metric", "str", "what is measured, see engine.studies.panel.metrics"),
        Column("judge", "str", "the judge, or the rule of the panel", required=False),
        Column("other", "str", "the judge or the people it is compared with", required=False),
        Column("about", "str", "attack of a transfer, or family of systems", required=False),
        Column("value", "float", "point estimate (NaN: undefined)", required=False),
        Column("lower", "float", "lower end of the interval", required=False),
        Column("upper", "float", "upper end of the interval", required=False),
        Column("level", "float", "confidence level in (0, 1)", required=False),
        Column("method", "str", "how the interval was made", required=False),
        Column("n", "int", "subjects that entered"),
        Column("n_clusters", "int", "items that entered", required=False),
        Column("n_unread", "int", "subjects left out since a verdict was unread", required=False),
    ),
)
