"""The results of a check-up: one table with a row a probe, what to do next, and the rest in drawers."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.datasets import pair_sets
from dashboard.pages.checkup.data import CheckupRun, pick
from dashboard.pages.lessons.texts import Preset
from dashboard.pages.lessons.view import open_preset
from dashboard.pages.protocols.data import STYLE
from dashboard.pages.transport_audit.setup import JUDGE as AUDIT_JUDGE
from dashboard.run_view import load_or_none
from engine import catalog
from engine.core.json import dumps
from engine.core.schema import NONE, Protocol
from engine.plots.text import listed, plural
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
    """The page behind a probe, on the same judge and data, set to the arm that decides it.

    Args:
        probe: its name.
        row: the deciding row; empty where nothing could be measured.
        judge: the judge's spec.
        data_id: the data of the check-up.
    """
    arm = row.get("arm")
    about = {state.JUDGE: judge} | ({} if data_id in pair_sets() else {state.DATA: data_id})
    if probe in ("order", "ties", *_STYLES):
        style = arm.partition(":")[0] if isinstance(arm, str) else _STYLES.get(probe, "assertiveness")
        query = about | {STYLE: style}
        return Preset("Open in Protocols and leaderboard", PROTOCOLS, query)
    if probe == "keys" and row.get("protocol") != Protocol.POINTWISE.value:
        return Preset("Open in Reference swap", SWAP, about)
    if probe in ("injections", "keys", "empty", "consistency"):
        attack = {"injections": str(arm) if isinstance(arm, str) else "dsi", "consistency": "own"}.get(probe, "empty")
        query = about | {state.ATTACK: attack, state.DEFENSE: NONE, state.TAB: state.TAB_ONE}
        return Preset("Open in the Attack lab", LAB, query)
    if probe == "agreement" and data_id in pair_sets():
        return Preset("Open in Transport audit", AUDIT, about | {state.DATA: data_id, AUDIT_JUDGE: judge})
    if probe == "agreement":
        return Preset("Look at the responses in the Attack lab", LAB, about | {state.TAB: state.TAB_SET})
    return Preset("Look at the prompt on Judge", CARD, about)


POLL_S = 4.0
WORDS = {HOLDS: "✓ holds", FAILS: "✗ fails", UNDERPOWERED: "? undecided", NOT_ASKED: "– not asked"}
KINDS = {HOLDS: "holds", FAILS: "fails", UNDERPOWERED: "open", NOT_ASKED: "none"}
ORDER = (FAILS, UNDERPOWERED, HOLDS, NOT_ASKED)
MOST_STEPS = 3


@st.fragment
def results(run: CheckupRun) -> None:
    """Everything below the headline; a threshold's slider redraws only this panel."""
    table, following = st.container(), st.container()
    with st.expander("Thresholds: what is allowed", key="check_limits"):
        thresholds = pick(run)
    decisions = decide(run.table, thresholds)
    with table:
        ui.headline(headline(decisions, findings.judge_name(run.judge)))
        ui.facts(_facts(run))
        probe_table(decisions, run)
    with following:
        _next_steps(run, decisions)
    _export(run, decisions)
    ui.measured(
        (
            f"{upper_first(findings.provenance(run.manifest, recorded=run.recorded))}.",
            _about(run),
            "An effect is held against its threshold: the probe holds where the whole interval lies within it, fails "
            "where the whole interval lies beyond, and is undecided otherwise or where such an effect could not show.",
            "Where several attacks or texts are tried, the one that decides is shown and their intervals are wider.",
        ),
        lambda: _measured(run, decisions, thresholds),
        key="checkup",
    )


def so_far(run_id: str) -> None:
    """Results so far of a check-up that is going, drawn anew every few seconds."""
    st.fragment(_so_far, run_every=POLL_S)(run_id)


def _so_far(run_id: str) -> None:
    run = load_or_none(CheckupRun, run_id)
    if run is None:
        ui.note("The first numbers stand here in a few seconds.")
        return
    decisions = decide(run.table, run.thresholds)
    ui.headline(headline(decisions, findings.judge_name(run.judge)))
    probe_table(decisions)


def headline(decisions: Sequence[Decision], judge: str) -> str:
    """How many probes the judge fails, and the worst of them."""
    by = {verdict: [d for d in decisions if d.verdict == verdict] for verdict in ORDER}
    asked = len(decisions) - len(by[NOT_ASKED])
    if not asked:
        return f"{upper_first(judge)} could not be asked any of the probes."
    if not by[FAILS]:
        rest = f"; {len(by[UNDERPOWERED])} undecided with so few items" if by[UNDERPOWERED] else ""
        return f"{upper_first(judge)} holds on {len(by[HOLDS])} of {plural(asked, 'probe')}{rest}."
    worst = sorted(by[FAILS], key=lambda d: -abs(d.in_thresholds("value")))[:2]
    named = listed([f"{d.card.title.lower()} ({number_text(d.card.side, float(d.row['value']))})" for d in worst])
    of = f"{len(by[FAILS])} of {plural(asked, 'probe')}"
    return f"{upper_first(judge)} fails {of}{', worst ' if len(by[FAILS]) > len(worst) else ': '}{named}."


def _facts(run: CheckupRun) -> dict[str, str]:
    about = run.manifest.get("data", {})
    found = {"Data": str(about.get("name", "data")), "Items": f"{int(about.get('n_items', 0)):,}"}
    if pairs := int(about.get("n_pairs", 0)):
        found["Pairs"] = f"{pairs:,}, both orders"
    return found | {"Numbers": findings.origin(run.manifest, recorded=run.recorded)}


def probe_table(decisions: Sequence[Decision], run: CheckupRun | None = None) -> None:
    """One row a probe, failures first; with a run each has a button for its details."""
    cells = "".join(f"<span>{word}</span>" for word in ("Probe", "Verdict", "Effect and what is allowed", "", "Items"))
    st.columns([11, 1], gap="small")[0].html(f'<div class="js-row head">{cells}</div>')
    for decision in sorted(decisions, key=lambda d: ORDER.index(d.verdict)):
        with st.container(key=f"probe_row_{decision.card.name}"):
            row, more = st.columns([11, 1], vertical_alignment="center", gap="small")
            row.html(_row(decision))
            if run and more.button("Details", key=f"probe_more_{decision.card.name}", type="tertiary"):
                st.dialog(ui.plain(decision.card.title), width="medium", position="right")(_details)(run, decision)


def _row(decision: Decision) -> str:
    card, row, kind = decision.card, decision.row, KINDS[decision.verdict]
    words = f'<span class="js-verdict {kind}">{WORDS[decision.verdict]}</span>'
    title = f"<strong>{html.escape(card.title)}</strong>"
    if decision.verdict == NOT_ASKED:
        return f'<div class="js-row">{title}{words}<span></span><span></span><span></span></div>'
    value, lower, upper = (_number(row.get(c)) for c in ("value", "lower", "upper"))
    low, high, ticks = _axis(decision, value, lower, upper)
    line = ui.interval_line(value, lower, upper, low, high, ticks=ticks, kind=kind)
    number = html.escape(interval_words(card, row))
    items = int(row["n_clusters"] or 0)
    return f'<div class="js-row">{title}{words}{line}<span>{number}</span><span>{items:,}</span></div>'


def _axis(decision: Decision, *numbers: float) -> tuple[float, float, list[float]]:
    """Ends of a row's axis and its ticks, in the unit of the effect."""
    t, seen = decision.threshold, [x for x in numbers if math.isfinite(x)]
    if decision.card.side == "at least":
        return min(0.0, *seen), 1.0, [t]
    most = 1.1 * max(2 * t, *(abs(x) for x in seen))
    if decision.card.side == "within":
        return -most, most, [-t, t]
    return min(0.0, *seen), most, [t]


def _number(value: Any) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)


def _details(run: CheckupRun, decision: Decision) -> None:
    """What was asked, against what, every text that was tried, and the page that explores it."""
    card, row = decision.card, decision.row
    ui.finding(card.question)
    if decision.verdict == NOT_ASKED:
        ui.warn(decision.reason)
    else:
        ui.note(f"{upper_first(card.effect)}{_arm(decision)}: {interval_words(card, row)}.")
        ui.facts(_detail_facts(decision))
        ui.note(decision.reason)
        st.dataframe(_arms([decision]).drop(columns="Probe"), hide_index=True, key=f"probe_arms_{card.name}")
    preset = link_of(card.name, row, run.judge, str(run.config["data"]))
    if st.button(preset.label, key=f"probe_open_{card.name}", icon=":material/arrow_forward:"):
        open_preset(preset)


def _arm(decision: Decision) -> str:
    row = decision.row
    deciding = [r for r in decision.rows if r["role"] == "decides"]
    named = [_arm_title(row[c]) for c in ("arm", "protocol") if isinstance(row[c], str)]
    what = f" ({', '.join(named)})" if named else ""
    return what if len(deciding) < 2 else f"{what}; of {len(deciding)} that were tried the one that decides"


def _arm_title(arm: object) -> str:
    """An attack by its title; everything else by the probe's own word for it."""
    return findings.attack_name(arm) if isinstance(arm, str) and arm in catalog.ATTACKS else str(arm or "")


def _detail_facts(decision: Decision) -> dict[str, str]:
    row, card = decision.row, decision.card
    facts = {
        "Allowed": card.allowed(decision.threshold),
        "n": f"{row['n']} ({plural(int(row['n_clusters'] or 0), 'item')})",
    }
    if row["n_unread"]:
        facts["No usable verdict"] = str(row["n_unread"])
    if row["detectable"] == row["detectable"]:
        facts["Smallest effect that would show"] = number_text(card.side, float(row["detectable"]), signed=False)
    if row["base_rate"] == row["base_rate"]:
        facts["Base rate"] = f"{100 * row['base_rate']:.0f} %"
        facts["Agree"] = f"{100 * row['observed']:.0f} %"
    return facts


def _next_steps(run: CheckupRun, decisions: Sequence[Decision]) -> None:
    """At most three things to do: look at the worst failures, bring more items where few decide nothing."""
    failed = sorted((d for d in decisions if d.verdict == FAILS), key=lambda d: -abs(d.in_thresholds("value")))
    open_ones = [d for d in decisions if d.verdict == UNDERPOWERED]
    needed = [d.items_needed for d in open_ones if d.items_needed]
    st.subheader("What to do next", anchor=False)
    for decision in failed[: MOST_STEPS - bool(open_ones)]:
        preset = link_of(decision.card.name, decision.row, run.judge, str(run.config["data"]))
        if st.button(
            f"{decision.card.title}: {preset.label[:1].lower()}{preset.label[1:]}",
            key=f"next_{decision.card.name}", icon=":material/arrow_forward:",
        ):  # fmt: skip
            open_preset(preset)
    if open_ones:
        at = f" About {min(needed):,} items decide the first." if needed else ""
        ui.note(f"{plural(len(open_ones), 'probe')} cannot be decided with so few items: check more of them.{at}")
    if not failed and not open_ones:
        ui.note("Nothing fails at these thresholds. Keep the run as the reference for the next version of the judge.")


def _about(run: CheckupRun) -> str:
    about = run.manifest.get("data", {})
    size = f"{plural(int(about.get('n_items', 0)), 'item')}, {plural(int(about.get('n_responses', 0)), 'response')}"
    pairs = int(about.get("n_pairs", 0))
    state = {"running": " So far; the check-up is going on.", "stopped": " It was stopped; this is what was done."}
    more = f", {plural(pairs, 'comparison')} in both orders" if pairs else ""
    return f"{upper_first(findings.judge_name(run.judge))}, {about.get('name', 'data')}: {size}{more}." + state.get(
        str(run.manifest.get("state")), ""
    )


def _measured(run: CheckupRun, decisions: Sequence[Decision], thresholds: dict[str, float]) -> None:
    ui.show_entry(run.source, "probes", key="checkup_forest", **thresholds)
    shown = _arms(decisions)
    st.dataframe(shown, hide_index=True, width="stretch", key="checkup_arms")
    ui.table_bar(
        run.table, title="Everything the check-up tried", about=f"{_about(run)} Run {run.run_id}.",
        key="checkup_table", shown=shown, label="Table (CSV)", file="checkup.csv",
    )  # fmt: skip


def _arms(decisions: Sequence[Decision]) -> pd.DataFrame:
    """Every text and attack that was tried, a row each."""
    rows = []
    for d in decisions:
        for r in d.rows:
            missing = isinstance(r["missing"], str)
            level = "" if missing or pd.isna(r["level"]) else f"{100 * r['level']:.4g} %"
            rows.append(
                {
                    "Probe": d.card.title,
                    "Tried": "" if missing else _arm_title(r["arm"]),
                    "Asked": r["protocol"] if isinstance(r["protocol"], str) else "",
                    "Against": r["against"] if isinstance(r["against"], str) else "",
                    "Effect [interval]": r["missing"] if missing else interval_words(d.card, r),
                    "n": r["n"],
                    "No verdict": r["n_unread"],
                    "Level": level,
                    "Interval by": r["method"] if isinstance(r["method"], str) else "",
                    "Enters the verdict": "yes" if r["role"] == "decides" and not missing else "no",
                }
            )
    return pd.DataFrame(rows)


def _export(run: CheckupRun, decisions: Sequence[Decision]) -> None:
    record = {
        "run_id": run.manifest["run_id"],
        "summary": summary(decisions),
        "probes": [as_record(d) for d in decisions],
    }
    ui.download(
        "Verdicts (JSON)", lambda: dumps(record, indent=1).encode(), "checkup.json", "application/json",
        key="checkup_json",
    )  # fmt: skip
