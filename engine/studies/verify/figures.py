"""The figure of a run that asked a verifier about right and wrong responses."""

from __future__ import annotations

from functools import partial

from engine.plots.dots import plot_dots, prepare_dots
from engine.studies.figure import FigureData, FigureSpec, Source, Values, has_table

STUDY = "verify"
RATES = {
    "accuracy": "right verdicts",
    "yes_rate_right": "YES to right ones",
    "yes_rate_wrong": "YES to wrong ones",
}
_SERIES = "share"


def _rates(source: Source, _: Values) -> FigureData:
    rows = source.table("metrics")
    rates = rows[rows["metric"].isin(list(RATES))].assign(what=lambda r: r["metric"].map(RATES))
    made = prepare_dots(rates, dict.fromkeys(RATES, _SERIES), by="what", order=list(RATES.values()))
    return FigureData(made)


ENTRIES = (
    FigureSpec(
        STUDY, "rates", "How often is the verifier right?", _rates,
        partial(
            plot_dots, title="How often is the verifier right?", axis="share of responses", colours={_SERIES: "clean"},
            positive=True,
        ),
        (), has_table("metrics", "it holds no numbers yet."),
    ),
)  # fmt: skip
