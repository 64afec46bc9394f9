"""The results of a panel: who agrees with people, and in tabs each other, the rules, attacks, own family and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.judges_compared.setup import STRONG, SYSTEMS, UNDER_ATTACK, PanelRun
from engine.plots.text import fixed, interval_text, listed
from engine.stats.panel import RULES
from engine.studies.figure import upper_first
from engine.studies.panel.metrics import OTHERS, PEOPLE, best_judge, number
from engine.studies.registry import entry_of

EACH, RULED, ATTACKED, OWN, COST = "Each other", "Panel and judge", "Attacks", "Own family", "Cost"


def results(run: PanelRun, frame: ui.Frame) -> None:
    """Headline, the main figure, facts, and the tabs, of which only the open one is drawn."""
    with_people = bool(best_judge(run.table))
    frame.headline(headline(run.about, run.table, run.titles))
    with frame.hero:
        ui.show_entry(run.source, "people" if with_people else "between", key="panel_main")
    frame.facts(_facts(run))
    tabs = [EACH, RULED, ATTACKED, OWN, COST] if with_people else [ATTACKED, OWN, COST]
    with frame.body:
        for name, tab in zip(tabs, st.tabs(tabs, key="panel_tab", on_change="rerun", bind="query-params"), strict=True):
            if tab.open:
                with tab:
                    _SHOW[name](run)
    frame.measured(_measured(run), key="panel")


def headline(about: Mapping[str, Any], table: pd.DataFrame, titles: Mapping[str, str]) -> str:
    """The best judge beside the panel, and what the panel is worth."""
    n, worth = int(about["n_judges"]), number(table, "effective_votes")
    votes = fixed(float(worth["value"]), 1) if worth["value"] == worth["value"] else ""
    worth_words = f" {n} judges are worth {votes} effective votes." if votes else ""
    best = best_judge(table)
    if not best:
        return f"{worth_words.strip()} No people's labels say which of them is right.".strip()
    name, rule = titles[str(best["judge"])], RULES[0] if about["protocol"] != "pointwise" else RULES[1]
    panel, gap = number(table, "people", rule), number(table, "difference", rule, str(best["judge"]))
    numbers = f"{_amount(about, best)} against {_amount(about, panel)}"
    if gap["upper"] < 0:
        return f"{name} alone agrees with people better than the {rule} of the panel, {numbers}.{worth_words}"
    if gap["lower"] > 0:
        numbers = f"{_amount(about, panel)} against {_amount(about, best)}"
        return f"The {rule} of the panel agrees with people better than {name} alone, {numbers}.{worth_words}"
    return f"The {rule} of the panel and {name} alone agree with people about equally, {numbers}.{worth_words}"


def _amount(about: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    value = float(row["value"])
    return fixed(value, 2) if about["protocol"] == "pointwise" else f"{fixed(100 * value, 0)} %"


def _facts(run: PanelRun) -> dict[str, str]:
    about, worth = run.about, number(run.table, "effective_votes")
    votes = interval_text(worth["value"], worth["lower"], worth["upper"], method=str(worth["method"]))
    subjects = upper_first(str(about["subjects"]))
    return {
        "Judges": str(about["n_judges"]),
        subjects: f"{about['n_subjects']:,}, {about['n_labelled']:,} labelled",
        "Effective votes": f"{votes} of {about['n_judges']}",
        "Numbers": findings.origin(run.manifest, recorded=run.recorded),
    }


# The tabs.


def _figure(run: PanelRun, name: str, elsewhere: str = "", label: str = "", **settings: object) -> bool:
    """A figure of the panel; where it has none, why, and the button to a recorded panel that has one."""
    why = entry_of(run.source, name).missing(run.source)
    if not why:
        ui.show_entry(run.source, name, key=f"panel_{name}", **settings)
        return True
    ui.note(f"This panel has no such figure: {why}")
    if elsewhere and st.button(label, key=f"panel_to_{name}", icon=":material/arrow_forward:"):
        state.after_rerun({state.PANEL: elsewhere})
        st.rerun()
    return False


def _each(run: PanelRun) -> None:
    _figure(run, "between")


def _ruled(run: PanelRun) -> None:
    held = set(run.table.loc[run.table["metric"] == "difference", "judge"])
    rules = [rule for rule in RULES if rule in held]
    rule = ui.pick("Rule", rules, key="panel_rule", title=upper_first, default=rules[0], publish=True)
    _figure(run, "difference", rule=rule)


def _attacked(run: PanelRun) -> None:
    if _figure(run, "transfer", UNDER_ATTACK, "Show three judges under attack"):
        ui.note(
            "A row's attack is the one that moves its judge most, chosen on one half of the items and measured on the "
            "other; a column is the judge whose scores it then moves."
        )


def _own(run: PanelRun) -> None:
    if _figure(run, "own_family", SYSTEMS, "Show judges of named systems"):
        ui.bullets(own_sentences(run.table, run.titles))


def own_sentences(table: pd.DataFrame, titles: Mapping[str, str]) -> list[str]:
    """For each judge that saw its own family: whether it favours it beyond what it does for others."""
    found = []
    for row in table[table["metric"] == "self_preference"].to_dict("records"):
        judge, other = str(row["judge"]), str(row["other"])
        rest = table[(table["metric"] == "other_family") & (table["judge"] == judge) & (table["other"] == other)]
        by = {PEOPLE: "people", OTHERS: "the other judges"}[other]
        amount = interval_text(
            *(100 * row[c] for c in ("value", "lower", "upper")), signed=True, method=str(row["method"])
        )
        begin = f"{titles[judge]} takes {row['about']}'s side {amount} points of 100 beyond {by}"
        if not row["lower"] > 0:
            found.append(f"{begin}: no preference for its own shows.")
        elif len(rest) and (most := rest.loc[rest["value"].idxmax()])["value"] >= row["lower"]:
            gap = fixed(100 * float(most["value"]), 0, signed=True)
            found.append(f"{begin}, and {most['about']}'s {gap}: it may tell good answers better, not favour its own.")
        elif len(rest):
            found.append(f"{begin}, and no other family's as much: it favours its own.")
        else:
            found.append(f"{begin}; no other family is there to compare with.")
    return found


def _cost(run: PanelRun) -> None:
    _figure(run, "cost", STRONG, "Show judges with people's labels")
    table = costs(run)
    st.dataframe(table, hide_index=True, width="stretch", key="panel_costs")
    ui.run_table(run, table, title="What the judges cost", key="panel_cost_table", file="judges.csv")


def costs(run: PanelRun) -> pd.DataFrame:
    """A row a judge: what a verdict costs beside its agreement with people and the shift under its worst attack."""
    rows = []
    for judge in run.judges.to_dict("records"):
        name = str(judge["judge"])
        told, moved = number(run.table, "people", name), number(run.table, "transfer", name, name)
        rows.append(
            {
                "Judge": run.titles[name],
                "Calls a verdict": judge["calls"],
                "Prompt tokens a verdict": judge["prompt_tokens"],
                "Seconds a verdict": judge["seconds"],
                f"Agreement with people ({run.about['unit']})": told.get("value"),
                "Shift under its worst attack": moved.get("value"),
                "No usable verdict": judge["n_unread"],
            }
        )
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


_SHOW = {EACH: _each, RULED: _ruled, ATTACKED: _attacked, OWN: _own, COST: _cost}


def _measured(run: PanelRun) -> Sequence[str]:
    about = run.about
    worth = number(run.table, "effective_votes")
    alpha = number(run.table, "alpha")
    all_agree = interval_text(alpha["value"], alpha["lower"], alpha["upper"], method=str(alpha["method"]))
    basis = "their errors against people" if worth["other"] == "errors" else "their verdicts, as no labels are known"
    pairs, halves = about["protocol"] == "pairwise", "" if about["protocol"] == "pointwise" else ", ties half"
    return (
        f"{upper_first(findings.provenance(run.manifest, recorded=run.recorded))}.",
        f"Judges: {listed(list(run.titles.values()))}.",
        f"Agreement with people is the {about['unit']}{halves}, on what every judge read. Of two judges it is "
        f"{about['between']}. Krippendorff's alpha of all judges is {all_agree}.",
        "Both orders of a pair count as one verdict; where they disagree it is a tie." if pairs else "",
        f"Effective votes are n / (1 + (n - 1) r), r the mean correlation of {basis} (Kish 1965; arXiv 2605.29800).",
        "The trimmed mean leaves the highest and the lowest vote out." if about["n_judges"] > 2 else "",
        "Scores are standardised, since the judges use different scales." if about["standardised"] else "",
        "Own family: how much more often a judge takes the side of systems of its maker than the reference does.",
        "Intervals resample items; those of shares are beta intervals with the effective number of items.",
        *about.get("notes", []),
    )
