"""The result of an audit: one sentence, the mass slider, and everything that follows from it, from stored arrays."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels import audit_figures as draw
from dashboard.panels.audit_data import AuditRun
from dashboard.panels.audit_setup import ATTACKS
from dashboard.panels.findings import judge_name, provenance
from dashboard.panels.marked import show_verbatim
from dashboard.panels.run_table import run_table
from engine.data.comparisons import Comparisons
from engine.figures.puaudit_curves import mass_words
from engine.figures.text import plural
from engine.gallery.puaudit import ALL_TYPES, cuts, masses, mean_mass, rows_at, study_mass, table_at
from engine.metrics.puaudit import Audit, best_control
from engine.schema import NONE

ATTACK, TYPE, MASS = "audit_attack", "audit_type", "mass"
_CLEAN = "No attack"
_WIDTHS = {"pair": 60, "type": 110, "verdict": 60, "audited": 60, "entry mass": 80}
"""Of the columns beside the map [px]; the file has more of them."""


def results(run: AuditRun, found: Comparisons) -> None:
    """Badge, answer, dials and figures of one run."""
    st.badge(provenance(run.manifest, recorded=run.recorded), icon=":material/history:", color="gray")
    st.fragment(_dialled)(run, found)
    draw.attacks(run)  # these two follow no dial, so they are not made anew with each
    draw.tables(run)


def _dialled(run: AuditRun, found: Comparisons) -> None:
    attacks = list(run.audits)
    state.seed(ATTACK, attacks, NONE)
    answer = st.container(gap="small")  # above the dials that it follows
    with st.container(border=True, key="dials_audit"):
        left, middle, right = st.columns([2, 3, 2], gap="medium")
        with left:
            attack = ui.pick("Attack", attacks, key=ATTACK, title=lambda a: ATTACKS.get(a, _CLEAN))
            state.publish(ATTACK, attack, NONE)
        audit = run.audits[attack]
        with middle:
            mass = _mass(run, attack)
        with right:
            kinds = [ALL_TYPES, *sorted(audit.pairs["type"].unique())]
            state.seed(TYPE, kinds, ALL_TYPES)
            kind = ui.pick("Question type", kinds, key=TYPE, title=ui.plain)
            state.publish(TYPE, kind, ALL_TYPES)
    table, rows = table_at(run.source, attack, mass), rows_at(run.source, attack, mass)
    shown = rows if kind == ALL_TYPES else rows[rows["type"] == kind]
    with answer:
        _say(run, audit, table, rows, mass)
    _overview(run, attack, mass, kind)
    _look(run, found, shown, attack, mass, kind)
    _more(run, audit, mass)


def _mass(run: AuditRun, attack: str) -> float | None:
    """The mass of the slider; None where the study put it, so that the page shows the study's own numbers."""
    start, key = mean_mass(run.source, attack), f"mass_{run.run_id}_{attack}"
    own, given = masses(run.source, attack), study_mass(run.source)
    state.seed_number(key, 0.01, 1.0, start, param=MASS)
    apart = f" At the start each question type has its own: {mass_words(list(own.values()))}." if len(own) > 1 else ""
    value = float(
        st.slider(
            f"Transported mass m ({'estimated' if given is None else 'set to'} {start:.2f})",
            0.01,
            1.0,
            step=0.01,
            key=key,
            help="The share of verdicts that is kept: an input, by construction. The estimate is how often the judge "
            "agrees with people on the positives (PUAudit, section 5.1); at the start each seeded split takes its own."
            f"{apart} Moved, one mass is set for all.",
        )
    )
    state.publish(MASS, f"{value:g}", f"{start:g}")
    return None if abs(value - start) < 1e-9 else value


def _at(run: AuditRun, attack: str, mass: float | None) -> str:
    """The mass in words: where the study put it each question type may have its own."""
    own = cuts(run.source, attack, mass)
    return f"mass {own[0]:.2f}" if len(own) == 1 else f"masses of {mass_words(own)} by question type"


def _say(run: AuditRun, audit: Audit, table: pd.DataFrame, rows: pd.DataFrame, mass: float | None) -> None:
    flips = int(rows["flip"].sum())
    n = int((rows["role"] == "unlabelled").sum())
    start = f"At {_at(run, audit.attack, mass)} the audit flips {flips} of {plural(n, 'verdict')} of {_judge(run)}"
    overall = table[table["group"].isna()].set_index("metric") if len(table) else table
    if not len(table) or overall["value"].isna().all():
        ui.finding(f"{start}. No labelled pair was held back, so it cannot be said whether that helps.")
        return
    ui.finding(f"{start}, {helps(overall, best_control(table))}")
    own = masses(run.source, audit.attack, mass)
    fractional = max(s.path.fractional(own[s.part]) for s in audit.shown)
    extra = f" Here {fractional:.0%} of the pairs are used in part, so it can differ." if fractional > 0.02 else ""
    ui.note(
        f"The kept share equals the mass by construction: it is set, not found.{extra} Checked on "
        f"{plural(len({s.number for s in audit.splits}), 'seeded split')} of the labelled pairs; items are resampled. "
        "The best control is chosen on these same pairs, which favours it."
    )


def helps(overall: pd.DataFrame, best: str) -> str:
    """Whether flipping helps, as far as the intervals of the two gains say so.

    Args:
        overall: rows of all types together by metric, with value, lower and upper.
        best: name of the best control.
    """
    gain, over = (_number(overall, name) for name in ("gain", "gain_over_best"))
    sides = [_side(overall, name) for name in ("gain", "gain_over_best")]
    seen = {1: "which helps", -1: "which hurts", 0: "with no measurable gain or harm"}[sides[0]]
    text = f"{seen}: on labelled pairs held back, agreement with people changes by {gain}."
    if best == "nothing":
        return f"{text} No simpler way to flip did better than leaving them."
    against = {1: "better than", -1: "worse than", 0: "not measurably better or worse than"}[sides[1]]
    return f"{text} It is {against} {draw.CONTROL_WORDS.get(best, best)}, the best control ({over})."


def _side(overall: pd.DataFrame, name: str) -> int:
    """1 or -1 where the whole interval is above or below zero."""
    lower, upper = (float(overall.loc[name, end]) for end in ("lower", "upper"))
    return int(lower > 0) - int(upper < 0)


def _judge(run: AuditRun) -> str:
    spec = str(run.manifest.get("judge", {}).get("spec", ""))
    return "the recorded judge" if spec.startswith("recorded:") else judge_name(spec)


def _number(overall: pd.DataFrame, name: str) -> str:
    return draw.interval_of(overall.loc[name].to_dict(), signed=True)


def _overview(run: AuditRun, attack: str, mass: float | None, kind: str) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        draw.at_mass(run, "controls", attack, mass, caption="All flip as many verdicts as the audit does at this mass.")
        draw.at_mass(run, "density", attack, mass)
    with right:
        draw.at_mass(run, "types", attack, mass)
        draw.at_mass(run, "items", attack, mass, type=kind)


def _look(run: AuditRun, found: Comparisons, shown: pd.DataFrame, attack: str, mass: float | None, kind: str) -> None:
    st.subheader("The pairs themselves", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        chosen = draw.lasso_map(run, shown, attack, mass, kind)
    with right:
        of_type = "" if kind == ALL_TYPES else f", type {kind}"
        pair = _reader(run, shown, chosen, f"{ATTACKS.get(attack, _CLEAN)}, {_at(run, attack, mass)}{of_type}.")
        if pair:
            _read(run, found, pair, attack)


def _reader(run: AuditRun, shown: pd.DataFrame, chosen: list[str], said: str) -> str:
    """The pairs in a table; returns the one to be read."""
    flipped = shown[shown["flip"]].sort_values("entry_mass", ascending=False)
    wanted = shown[shown["comparison_id"].isin(chosen)] if chosen else flipped
    what = f"{plural(len(chosen), 'pair')} in the lasso" if chosen else f"{plural(len(flipped), 'flipped verdict')}"
    ui.note(f"{what}; select a row to read the pair. Draw a lasso on the map to read others.")
    table = flipped_table(wanted)
    event = st.dataframe(
        table,
        key=f"audit_pairs_{len(chosen)}",
        hide_index=True,
        column_order=["pair", "type", "verdict", "audited", "entry mass"],
        column_config={name: st.column_config.Column(width=w) for name, w in _WIDTHS.items()},
        height=min(300, 40 + 35 * len(table)),
        on_select="rerun",
        selection_mode="single-row",
        placeholder="",
        alt="Pairs, those that enter last first",
    )
    run_table(
        run, flipped_table(flipped), title="Flipped verdicts", key="flipped", said=said,
        label="Flipped verdicts (CSV)", file="flipped_verdicts.csv",
    )  # fmt: skip
    picked = event["selection"]["rows"]
    if table.empty:
        return ""
    return str(table["pair"].iloc[picked[0] if picked and picked[0] < len(table) else 0])


def flipped_table(rows: pd.DataFrame) -> pd.DataFrame:
    """What the export holds: the verdict, what the audit makes of it, and how firmly."""
    turned = rows["verdict"].map({"a": "b", "b": "a"})
    return pd.DataFrame(
        {
            "pair": rows["comparison_id"],
            "type": rows["type"],
            "verdict": rows["verdict"],
            "audited": turned.where(rows["flip"], rows["verdict"]),
            "human": rows["human"],
            "entry mass": rows["entry_mass"].round(3),
            "price": rows["entry_price"].round(3),
            "kept when resampled": rows["stability"].round(2),
        }
    ).reset_index(drop=True)


def _read(run: AuditRun, found: Comparisons, pair: str, attack: str) -> None:
    row = found.comparisons.set_index("comparison_id").loc[pair]
    texts = found.responses.set_index("response_id")["text"]
    prompt = found.items.set_index("item_id").loc[row["item_id"], "context"]
    for name, text in (
        (f"Prompt of {pair}", prompt),
        ("Response A", texts[row["response_a"]]),
        ("Response B", texts[row["response_b"]]),
        ("The losing response as attacked", run.attacked_text(attack, [row["response_a"], row["response_b"]])),
    ):
        if not text:
            continue
        ui.note(name)
        show_verbatim(str(text), label=name)


def _more(run: AuditRun, audit: Audit, mass: float | None) -> None:
    st.subheader("How far the method carries here", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        draw.at_mass(
            run, "sensitivity", audit.attack, mass,
            caption="The true share is known only where labels were held back.",
        )  # fmt: skip
    with right:
        ui.show_entry(run.source, "ranking", key="audit_ranking", attack=audit.attack)
    with st.expander(
        "Details: what was left out, and how this is computed", on_change="rerun", key="audit_details"
    ) as details:
        if details.open:
            draw.method(run, audit)
