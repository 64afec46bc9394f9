"""The parts of the page What holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.linked_run import FILES
from engine.plots.claims import plot_claims
from engine.plots.text import plural
from engine.report.methods import Formula
from engine.studies.claims.figures import PAPERS, SETS, forest_rows
from engine.studies.claims.metrics import CANNOT_TELL, CONSTRUCTED, counts
from engine.studies.claims.study import ClaimsConfig

COMMITTED = "From the result tables that ship with the project; each row names its command."
RULES = (
    ("holds at the stated effect", "more than the least relevant effect, and the published one is inside the interval"),
    ("weaker than published", "there, but the whole interval is below the published effect"),
    ("not seen", "an effect of the least relevant size is excluded"),
    ("the other way", "the whole interval is on the other side"),
    ("cannot tell", "the interval is too wide, or what the claim rests on is not there"),
    ("by construction", "the judge was trained or chosen for it; never counted"),
)
"""Each verdict in plain words; the exact rule stands at the head of the frozen file."""
COUNTED = {
    "holds at the stated effect": ("holds at the stated effect", "hold at the stated effect"),
    "weaker than published": ("is weaker than published", "are weaker than published"),
    "not seen": ("is not seen", "are not seen"),
    "the other way": ("goes the other way", "go the other way"),
    "cannot tell": ("cannot be decided", "cannot be decided"),
}
"""Each verdict behind a count of one, and of several."""


def choose_judge(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the judge chosen, and beside them those of the same paper for which nobody is asked."""
    judges = [str(j) for j in dict.fromkeys(table["judge"]) if j != "none"]
    if not judges:
        return table
    chosen = st.selectbox("Judge", judges, format_func=judge_title, key="holds_judge", bind="query-params")
    own = table["judge"] == chosen
    beside = (table["judge"] == "none") & table["paper"].isin(table.loc[own, "paper"].unique())
    return table[own | beside].reset_index(drop=True)


def judge_title(spec: str) -> str:
    """A judge as the list names it: of a recording the judge and where its verdicts come from."""
    if not spec.startswith("recorded:"):
        return {"bundled:judge": "Careful judge (bundled)", "bundled:naive": "Naive judge (bundled)"}.get(spec, spec)
    place, _, choice = spec.removeprefix("recorded:").partition("?")
    named = dict(part.partition("=")[::2] for part in choice.split("&"))
    source = {"llmbar": "LLMBar", "mtbench": "MT-bench"}.get(place.removeprefix("demo-"), place)
    return f"{named.get('judge', place)} (recorded, {source})"


def counted(own: pd.DataFrame) -> str:
    """The headline: how many rows have which verdict."""
    if own.empty:
        return "No claim was decided yet: judgescope study claims --judge SPEC decides them on any judge."
    found = counts([str(v) for v in own["verdict"]])
    total = sum(found.values())
    said = ", ".join(f"{n} {COUNTED[verdict][n > 1]}" for verdict, n in found.items() if n)
    made = int((own["verdict"] == CONSTRUCTED).sum())
    return f"{plural(total, 'test')} of published claims: {said}" + (f"; {made} more by construction." if made else ".")


def show_paper(own: pd.DataFrame, frozen: ClaimsConfig, paper: str) -> None:
    """The forest of one paper, with the rows that cannot be decided on request."""
    rows = own[own["paper"] == paper]
    open_ones = int((rows["verdict"] == CANNOT_TELL).sum())
    every = open_ones == len(rows) or (
        open_ones > 0 and st.toggle(f"Also the {open_ones} that cannot be decided", key=f"holds_all_{paper}")
    )
    shown = forest_rows(rows if every else rows[rows["verdict"] != CANNOT_TELL], frozen, paper)
    if shown.empty:
        ui.note("No claim of this paper can be put to this judge.")
        return
    ui.show_figure(lambda mode: plot_claims(shown, mode=mode, title=PAPERS[paper]), shown, key=f"holds_{paper.lower()}")
    with st.expander("Rows, reasons and commands"):
        table = rows.assign(set=[SETS.get(str(s), str(s)) for s in rows["set"]])
        numbers = ["value", "lower", "upper", "n_items", "q_value"]
        columns = ["claim", "set", "verdict", *numbers, "reason", "device", "commit", "command"]
        st.dataframe(table[columns], hide_index=True, width="stretch")
        ui.table_bar(table, title=f"Claims: {PAPERS[paper]}", about=COMMITTED, key=f"claims_{paper.lower()}",
                     shown=table[columns])  # fmt: skip


def show_rules(frozen: ClaimsConfig) -> None:
    """The verdicts in plain words, when the claims were frozen, and what was changed since."""
    ui.note(f"{plural(len(frozen.claim), 'claim')}, frozen on {frozen.frozen} before any of them was run.")
    ui.facts(dict(RULES))
    for change in frozen.changes:
        ui.note(
            f"Changed on {change.date}{f', {change.claim}' if change.claim else ''}: {change.what}: {change.reason}."
        )
    ui.note(
        "Rows are one claim on one data set and one judge. Intervals are 95 % with items as clusters; q is Benjamini "
        "and Hochberg's over a judge's rows. Decide them on your own judge: judgescope study claims --judge SPEC."
    )


def show_formulas(explained: Sequence[Formula]) -> None:
    """Formulas by topic, each with its source, its limits and a link to the page that explores it."""
    for topic, group in groupby(explained, key=lambda one: one.topic):
        st.subheader(topic, anchor=False)
        for one in group:
            with st.expander(one.name):
                st.latex(one.tex)
                ui.note(one.text)
                ui.facts({"Unit": one.unit, "Source": one.source})
                ui.note(f"Limits: {one.limits}")
                st.page_link(FILES[one.page], label="Explore it", icon=":material/arrow_forward:")


def show_benches(speed: pd.DataFrame) -> None:
    """Benchmarks beside the plain way, in one run each, with the bar they were built for."""
    missed = speed[speed["met"].eq(False)]
    ui.finding(
        f"{int(speed['met'].eq(True).sum())} of {int(speed['met'].notna().sum())} bars are met"
        + (f"; missed: {', '.join(missed['what'])}." if len(missed) else ".")
    )
    shown = pd.DataFrame(
        {
            "What": speed["what"],
            "Ours": [_with_unit(v, u) for v, u in zip(speed["value"], speed["unit"], strict=True)],
            "Plain way": [_with_unit(v, u) for v, u in zip(speed["plain"], speed["unit"], strict=True)],
            "Plain way is": speed["plain_is"],
            "Gain": ["" if pd.isna(ratio) else f"{ratio:.3g}×" for ratio in speed["ratio"]],
            "Floor": [
                "" if pd.isna(v) else _with_unit(v, u) for v, u in zip(speed["floor"], speed["unit"], strict=True)
            ],
            "Bar": [_bar(bar, met) for bar, met in zip(speed["bar"], speed["met"], strict=True)],
            "Device": speed["device"],
            "Command": speed["command"],
        }
    )
    st.dataframe(shown, hide_index=True, width="stretch")
    ui.note("Each gain is of two times in one run on one machine; the floor is what must be read or computed.")
    ui.table_bar(speed, title="Benchmarks", about=COMMITTED, key="benches", shown=shown, file="benchmarks.csv")


def _with_unit(value: float, unit: str) -> str:
    return "" if pd.isna(value) else f"{value:.3g} {unit}"


def _bar(bar: str, met: bool | None) -> str:
    return f"{bar}: {'met' if met else 'missed'}" if bar else ""
