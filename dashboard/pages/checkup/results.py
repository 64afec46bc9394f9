"""The results of a check-up: a sentence and a row of verdicts, the forest, a card a probe, and every arm in a table."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.datasets import pair_sets
from dashboard.pages.checkup.data import CheckupRun, pick
from dashboard.pages.lessons.texts import Preset
from dashboard.pages.lessons.view import open_preset
from dashboard.pages.protocols.data import STYLE
from dashboard.pages.reference_swap.results import FIRST
from dashboard.pages.transport_audit.setup import JUDGE as AUDIT_JUDGE
from dashboard.pages.transport_audit.setup import PAIRS
from dashboard.run_view import load_or_none
from engine import catalog
from engine.core.json import dumps
from engine.core.schema import NONE, Protocol
from engine.plots.text import plural
from engine.studies.checkup.metrics import (
    FAILS,
    HOLDS,
    NOT_ASKED,
    UNDERPOWERED,
    Decision,
    as_record,
    decide,
    interval_words,
    number_text,
    summary,
)
from engine.studies.figure import upper_first

# From a probe to the page that explores it, with that page's controls set through its address.

LAB, PROTOCOLS, SWAP = "pages/attack_lab/page.py", "pages/protocols/page.py", "pages/reference_swap/page.py"
AUDIT, CARD = "pages/transport_audit/page.py", "pages/judge_card/page.py"
_STYLES = {"length": "prolixity", "distractors": "assertiveness"}


def link_of(probe: str, row: Mapping[str, object], judge: str, data_id: str) -> Preset:
    """The page for a probe.

    Args:
        probe: its name.
        row: the deciding row; empty where it was not asked.
        judge: spec of the judge that was checked.
        data_id: data of the check-up.
    """
    about = {state.JUDGE: judge} | ({} if data_id in pair_sets() else {state.DATA: data_id})
    arm = row.get("arm")
    if probe in ("order", "ties", *_STYLES):
        style = arm.partition(":")[0] if isinstance(arm, str) else _STYLES.get(probe, "assertiveness")
        query = about | {STYLE: style}
        return Preset("Open in Protocols and leaderboard", PROTOCOLS, query)
    if probe == "keys" and row.get("protocol") != Protocol.POINTWISE.value:
        return Preset("Open in Reference swap", SWAP, {FIRST: judge} | about)
    if probe in ("injections", "keys", "empty", "consistency"):
        attack = {"injections": str(arm) if isinstance(arm, str) else "dsi", "consistency": "own"}.get(probe, "empty")
        query = about | {state.ATTACK: attack, state.DEFENSE: NONE, state.TAB: state.TAB_ONE}
        return Preset("Open in the Attack lab", LAB, query)
    if probe == "agreement" and data_id in pair_sets():
        return Preset("Open in Transport audit", AUDIT, {PAIRS: data_id, AUDIT_JUDGE: judge})
    if probe == "agreement":
        return Preset("Look at the responses in the Attack lab", LAB, about | {state.TAB: state.TAB_SET})
    return Preset("Look at the prompt in Judge card", CARD, about)


POLL_S = 4.0
MARKS = {HOLDS: "✓", FAILS: "✗", UNDERPOWERED: "?", NOT_ASKED: "–"}
CLASSES = {HOLDS: "holds", FAILS: "fails", UNDERPOWERED: "open", NOT_ASKED: "none"}


@st.fragment
def results(run: CheckupRun) -> None:
    """A slider redraws only this panel."""
    top = st.container()
    with st.expander("Thresholds: what is allowed", key="check_limits"):
        thresholds = pick(run)
    decisions = decide(run.table, thresholds)
    with top:
        st.badge(findings.provenance(run.manifest, recorded=run.recorded), icon=":material/history:", color="gray")
        ui.finding(summary(decisions, name_undecided=False))
        verdict_row(decisions)
        ui.note(_about(run))
    _figure(run, thresholds)
    _cards(run, decisions)
    _table(run, decisions)


def so_far(run_id: str) -> None:
    """Results so far of a check-up that is going, drawn anew every few seconds."""
    st.fragment(_so_far, run_every=POLL_S)(run_id)


def _so_far(run_id: str) -> None:
    run = load_or_none(CheckupRun, run_id)
    if run is None:
        ui.note("The first numbers stand here in a few seconds.")
        return
    decisions = decide(run.table, run.thresholds)
    ui.finding(summary(decisions, name_undecided=False))
    verdict_row(decisions)
    ui.note(_about(run))
    _figure(run, run.thresholds, "checkup_so_far")


def verdict_row(decisions: Sequence[Decision]) -> None:
    """Every probe with its verdict, as words and a mark, so that nothing rests on colour."""
    cells = "".join(
        f'<li class="{CLASSES[d.verdict]}"><span aria-hidden="true">{MARKS[d.verdict]}</span>'
        f"{html.escape(d.card.title)}<small>{html.escape(d.verdict)}</small></li>"
        for d in decisions
    )
    st.html(f'<ul class="js-verdicts">{cells}</ul>')


def _about(run: CheckupRun) -> str:
    about = run.manifest.get("data", {})
    size = f"{plural(int(about.get('n_items', 0)), 'item')}, {plural(int(about.get('n_responses', 0)), 'response')}"
    pairs = int(about.get("n_pairs", 0))
    state = {"running": " So far; the check-up is going on.", "stopped": " It was stopped; this is what was done."}
    more = f", {plural(pairs, 'comparison')} in both orders" if pairs else ""
    return f"{upper_first(findings.judge_name(run.judge))}, {about.get('name', 'data')}: {size}{more}." + state.get(
        str(run.manifest.get("state")), ""
    )


def _figure(run: CheckupRun, thresholds: dict[str, float], key: str = "checkup_forest") -> None:
    ui.show_entry(run.source, "probes", key=key, **thresholds)


def _cards(run: CheckupRun, decisions: Sequence[Decision]) -> None:
    st.header("Probe by probe", anchor=False)
    for start in range(0, len(decisions), 2):
        for column, decision in zip(st.columns(2, gap="medium"), decisions[start : start + 2], strict=False):
            with column, st.container(border=True, key=f"probe_{decision.card.name}", height="stretch"):
                _card(run, decision)


def _card(run: CheckupRun, decision: Decision) -> None:
    card, row = decision.card, decision.row
    title = f"{html.escape(card.title)} <small>{MARKS[decision.verdict]} {html.escape(decision.verdict)}</small>"
    st.html(f'<h3 class="js-probe {CLASSES[decision.verdict]}">{title}</h3>')
    ui.note(card.question)
    if decision.verdict == NOT_ASKED:
        ui.warn(decision.reason)
    else:
        ui.finding(interval_words(card, row))
        ui.note(f"{card.effect[:1].upper()}{card.effect[1:]}{_arm(decision)}.")
        ui.facts(_facts(decision))
        ui.note(decision.reason)
    preset = link_of(card.name, row, run.judge, str(run.config["data"]))
    if st.button(preset.label, key=f"probe_open_{card.name}", type="tertiary", icon=":material/arrow_forward:"):
        open_preset(preset)


def _arm(decision: Decision) -> str:
    row = decision.row
    deciding = [r for r in decision.rows if r["role"] == "decides"]
    named = [_arm_title(row[c]) for c in ("arm", "protocol") if isinstance(row[c], str)]
    what = f" ({', '.join(named)})" if named else ""
    return what if len(deciding) < 2 else f"{what}; of {len(deciding)} arms the one that decides"


def _arm_title(arm: object) -> str:
    """An attack by its title; every other arm by the probe's own word for it."""
    return findings.attack_name(arm) if isinstance(arm, str) and arm in catalog.ATTACKS else str(arm or "")


def _facts(decision: Decision) -> dict[str, str]:
    row, card = decision.row, decision.card
    facts = {
        "Allowed": card.allowed(decision.threshold),
        "n": f"{row['n']} ({plural(int(row['n_clusters'] or 0), 'item')})",
    }
    if row["n_unread"]:
        facts["Unread"] = str(row["n_unread"])
    if row["detectable"] == row["detectable"]:
        facts["Detectable"] = number_text(card.side, float(row["detectable"]), signed=False)
    if row["base_rate"] == row["base_rate"]:
        facts["Base rate"] = f"{100 * row['base_rate']:.0f} %"
        facts["Agree"] = f"{100 * row['observed']:.0f} %"
    return facts


def _table(run: CheckupRun, decisions: Sequence[Decision]) -> None:
    st.header("Every arm", anchor=False)
    rows = []
    for d in decisions:
        for r in d.rows:
            missing = isinstance(r["missing"], str)
            level = "" if missing or pd.isna(r["level"]) else f"{100 * r['level']:.4g} %"
            rows.append(
                {
                    "Probe": d.card.title,
                    "Arm": "" if missing else _arm_title(r["arm"]),
                    "Asked": r["protocol"] if isinstance(r["protocol"], str) else "",
                    "Against": r["against"] if isinstance(r["against"], str) else "",
                    "Effect [interval]": r["missing"] if missing else interval_words(d.card, r),
                    "n": r["n"],
                    "Unread": r["n_unread"],
                    "Level": level,
                    "Interval by": r["method"] if isinstance(r["method"], str) else "",
                    "Enters the verdict": "yes" if r["role"] == "decides" and not missing else "no",
                }
            )
    shown = pd.DataFrame(rows)
    st.dataframe(shown, hide_index=True, width="stretch", key="checkup_arms")
    row = ui.table_bar(
        run.table, title="Every arm of the check-up", about=f"{_about(run)} Run {run.run_id}.", key="checkup_table",
        shown=shown, label="Table (CSV)", file="checkup.csv",
    )  # fmt: skip
    with row:
        record = {
            "run_id": run.manifest["run_id"],
            "summary": summary(decisions),
            "probes": [as_record(d) for d in decisions],
        }
        ui.download(
            "Verdicts (JSON)",
            lambda: dumps(record, indent=1).encode(),
            "checkup.json",
            "application/json",
            key="checkup_json",
        )
