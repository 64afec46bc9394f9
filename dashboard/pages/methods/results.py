"""The three parts of the Methods page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pandas as pd
import streamlit as st

from dashboard import ui
from engine.plots.text import interval_text
from engine.report.methods import Formula

SIGNS = {
    "holds": ("holds here", ":material/check_circle:", "green"),
    "not seen": ("not seen here", ":material/radio_button_unchecked:", "gray"),
    "the other way": ("the other way here", ":material/undo:", "orange"),
}
"""Verdict on a finding: word, sign and colour."""
COMMITTED = "From the result tables that ship with the project; each row names its command."
PAPERS = {"CAP": "CAP", "PUAudit": "PUAudit", "RefSwap": "RefSwap", "Protocols": "Pairwise or Pointwise"}


def show_findings(found: pd.DataFrame) -> None:
    """Every published finding with what the bundled judges show, its interval, n and command."""
    ui.note(
        "Numbers come from the committed result tables; the sign says on which side of the null the whole 95 % "
        "interval lies. They speak of small judges of 135 million parameters, not of the papers' models."
    )
    for paper, rows in found.groupby("paper", sort=False):
        held = int((rows["seen"] == "holds").sum())
        st.subheader(f"{PAPERS[str(paper)]}: {held} of {len(rows)} hold", anchor=False)
        with st.container(border=True, gap="large"):
            for row in rows.to_dict("records"):
                with st.container(gap="xsmall"):
                    _finding(row)
    ui.table_bar(found, title="Published findings on the bundled judges", about=COMMITTED, key="findings")


def _finding(row: dict[str, object]) -> None:
    unit = "" if row["unit"] in {"share", "of 1"} else str(row["unit"])
    said, icon, colour = SIGNS[str(row["seen"])]
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="small"):
        ui.finding(str(row["claim"]))
        st.badge(said, icon=icon, color=colour)
    facts = {
        "Here": f"{interval_text(*_ends(row, ''))} {unit}".strip(),
        "No effect at": f"{row['bound']:g}",
        "n": f"{row['n']:,}",
    }
    if pd.notna(p := float(str(row["p_value"]))):
        facts["p"] = _p(p).removeprefix("= ")
    if row["beside_is"]:
        tested = "" if pd.isna(p := float(str(row["beside_p"]))) else f", p {_p(p)}"
        n = f"n = {int(float(str(row['beside_n']))):,}"
        facts[str(row["beside_is"])] = f"{interval_text(*_ends(row, 'beside_'))} {unit}".strip() + f"{tested}, {n}"
    ui.facts(facts | {"Published": str(row["published"])})
    ui.note(f"{row['data']}. {row['remark']} Made by {row['command']} ({row['device']}).")


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _ends(row: dict[str, object], of: str) -> tuple[float, float, float]:
    """Value and bounds of the row, or of the one beside it."""
    value, lower, upper = (float(str(row[f"{of}{name}"])) for name in ("value", "lower", "upper"))
    return value, lower, upper


def show_formulas(explained: Sequence[Formula]) -> None:
    """Formulas by topic, each with its source, its limits and a link to the page that explores it."""
    for topic, group in groupby(explained, key=lambda one: one.topic):
        st.subheader(topic, anchor=False)
        for one in group:
            with st.expander(one.name):
                st.latex(one.tex)
                ui.note(one.text)
                ui.facts({"Source": one.source})
                ui.note(f"Limits: {one.limits}")
                st.page_link(
                    f"pages/{one.page.replace('-', '_')}/page.py", label="Explore it", icon=":material/arrow_forward:"
                )


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
