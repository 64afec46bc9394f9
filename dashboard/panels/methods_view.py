"""The three parts of the Methods page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pandas as pd
import streamlit as st

from dashboard import ui
from engine.figures.text import interval_text
from engine.methods import Formula
from engine.spreadsheet import safe_csv

SIGNS = {
    "holds": ":material/check_circle: holds here",
    "not seen": ":material/radio_button_unchecked: not seen here",
    "the other way": ":material/undo: the other way here",
}
PAPERS = {"CAP": "CAP", "PUAudit": "PUAudit", "RefSwap": "RefSwap", "Protocols": "Pairwise or Pointwise"}


def show_findings(found: pd.DataFrame) -> None:
    """Every published finding with what the bundled judges show, its interval, n and command."""
    ui.note(
        "Numbers come from the committed result tables; the sign says on which side of the null the whole 95 % "
        "interval lies. They speak of small judges of 135 million parameters, not of the papers' models."
    )
    for paper, rows in found.groupby("paper", sort=False):
        st.subheader(PAPERS[str(paper)], anchor=False)
        for row in rows.to_dict("records"):
            _finding(row)
    ui.download("Data (CSV)", lambda: safe_csv(found), "findings.csv", "text/csv", key="findings_csv")


def _finding(row: dict[str, object]) -> None:
    unit = "" if row["unit"] in {"share", "of 1"} else str(row["unit"])
    with st.container(border=True):
        head, sign = st.columns([4, 1], vertical_alignment="center")
        with head:
            ui.finding(str(row["claim"]))
        sign.markdown(SIGNS[str(row["seen"])])
        ui.facts(
            {
                "Published": str(row["published"]),
                "Here": f"{interval_text(*(float(str(row[k])) for k in ('value', 'lower', 'upper')))} {unit}".strip(),
                "n": f"{row['n']:,}",
                "Null": f"{row['bound']:g}",
            }
        )
        ui.note(f"{row['data']}. {row['remark']}")
        ui.note(f"{row['command']} ({row['device']})")


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
                    f"app_pages/{one.page.replace('-', '_')}.py", label="Explore it", icon=":material/arrow_forward:"
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
    ui.download("Data (CSV)", lambda: safe_csv(speed), "benchmarks.csv", "text/csv", key="benches_csv")


def _with_unit(value: float, unit: str) -> str:
    return "" if pd.isna(value) else f"{value:.3g} {unit}"


def _bar(bar: str, met: bool | None) -> str:
    return f"{bar}: {'met' if met else 'missed'}" if bar else ""
