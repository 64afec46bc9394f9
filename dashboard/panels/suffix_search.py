"""Attack lab, "Learn a phrase": a universal phrase searched on a white-box judge, live, and what it does elsewhere."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels import findings, suffix_setup
from dashboard.panels.progress import progress
from dashboard.panels.suffix_data import StudyView, view_of
from dashboard.watching import newest_job
from engine import catalog, jobs
from engine.data.dataset import Dataset
from engine.errors import EngineError
from engine.figures.text import interval_text, plural, three_digits
from engine.schema import NONE

POLL_S = 2.0
_TABLES = ("suffix_search", "metrics")


def suffix_search(judge: str, dataset: Dataset) -> None:
    """The choices, the search as it goes, its result, and the phrases kept on this machine."""
    if not suffix_setup.white_box(judge):
        ui.nothing_yet(
            "A phrase is learned from a judge's gradients, and this judge has no model here. Choose the bundled judge."
        )
        return
    params = {"judge": judge, "data": dataset.dataset_id}
    job = newest_job(suffix_setup.KIND, among=50, **params)
    suffix_setup.setup(judge, dataset, busy=bool(job and job.active))
    if job:
        progress(job)
    active = bool(job and job.active)
    st.fragment(_result, run_every=POLL_S if active else None)(params, job.job_id if job else "")
    if not active:
        _kept()


def _result(params: dict[str, str], job_id: str) -> None:
    job = jobs.manager().get(job_id) if job_id else None
    try:
        view = view_of(job, suffix_setup.KIND, params, _TABLES)
    except EngineError as error:
        ui.show_error(error, "The search cannot be read.")
        return
    if view is None or view.tables["suffix_search"].empty:
        if job and job.active:
            ui.note("The first words appear here after the first round.")
        elif job is None:
            ui.nothing_yet("No phrase has been learned on this judge and these data here yet. Choose, then Search.")
        return
    _show(view, active=bool(job and job.active))


def _show(view: StudyView, *, active: bool) -> None:
    search, metrics = view.tables["suffix_search"], view.tables["metrics"]
    config, phrase = view.manifest["config"], view.manifest.get("phrase", {})
    st.badge(findings.provenance(view.manifest, recorded=view.recorded), color="gray")
    ui.finding(best_sentence(search, phrase, config))
    if len(metrics):
        ui.finding(held_out_sentence(metrics, phrase, view.manifest))
    left, right = st.columns(2, gap="large")
    with left:
        ui.show_entry(view.source, "steps", key="suffix_steps")
    with right:
        if len(metrics):
            ui.show_entry(view.source, "lengths", key="suffix_lengths")
            if phrase["name"] in catalog.known_phrases():
                _offer(str(phrase["name"]))
        else:
            ui.note(
                "When the search is done, the phrase is measured on the other items, word by word."
                if active
                else "The search ended before its phrase was measured on other items."
            )


def _offer(name: str) -> None:
    used = st.button(
        "Attack one response with it", icon=":material/bolt:", key="suffix_use", on_click=use_phrase, args=(name,)
    )
    if used:
        st.rerun()  # the whole page, which a click inside a fragment does not redraw


def use_phrase(name: str) -> None:
    """Set the attack and go to the tab of one response; called before the page is drawn."""
    phrase = catalog.parse_attack(f"suffix:{name}")
    state.put(state.ATTACK, "suffix")
    state.put("attack_phrase_suffix", name)
    state.put("attack_length_suffix", phrase.length)
    state.put(state.TAB, state.TAB_ONE)


def best_sentence(search: pd.DataFrame, phrase: dict[str, Any], config: dict[str, Any]) -> str:
    """The best so far on the training prompts."""
    words = list(phrase.get("words", []))
    start = search.loc[search["step"] == 0, "value"].iloc[0]
    step = int(search["step"].max())
    own = search[search["step"] == step]
    lower = bool(config.get("lower"))
    if step > len(words) and own["value"].notna().any():
        value = own["value"].min() if lower else own["value"].max()
        words.append(str(own.loc[own["value"] == value, "word"].iloc[0]))
        so_far = "Best so far"
    else:
        value = search.loc[(search["chosen"] == 1) & (search["step"] == len(words)), "value"].iloc[0]
        so_far = "Learned"
    what = "mean score" if config["protocol"] == "pointwise" else "mean preference"
    if not words:
        return f"Without a phrase the {what} on the training prompts is {three_digits(float(start))}."
    if so_far == "Learned" and (value >= start if lower else value <= start):
        so_far = f"Nothing found {'lowers' if lower else 'raises'} the {what}"
    levels = f"from {three_digits(float(start))} to {three_digits(float(value))}"
    return f"{so_far}: “{' '.join(words)}” takes the {what} on the training prompts {levels}."


def held_out_sentence(metrics: pd.DataFrame, phrase: dict[str, Any], manifest: dict[str, Any]) -> str:
    """What the whole phrase does to responses of other items."""
    shifts = metrics[(metrics["metric"] == "shift") & (metrics["attack"] != NONE)]
    if shifts.empty:
        return "The phrase has not been measured on other items."
    row = shifts.iloc[-1]
    interval = interval_text(
        row["value"],
        row["lower"],
        row["upper"],
        signed=True,
        method=str(row["method"]),
        n_clusters=int(row["n_clusters"]),
    )
    n, items = plural(int(row["n"]), "response"), plural(int(row["n_clusters"]), "item")
    judge = findings.judge_name(str(manifest["judge"].get("spec", "")))
    unread = f" ({int(row['n_unread'])} left out as unread)" if row["n_unread"] else ""
    words = plural(len(phrase.get("words", [])), "word")
    return f"On {n} of {items} it was not learned on, its {words} move {judge} by {interval}{unread}."


def _kept() -> None:
    """The phrases found on this machine."""
    found = catalog.saved_phrases()
    if not found:
        return
    with st.expander(f"Phrases learned here ({len(found)})", key="suffix_kept"):
        rows = [
            {
                "Attack": f"suffix:{p.name}",
                "Phrase": " ".join(p.words),
                "Judge": p.judge,
                "Protocol": p.protocol,
                "Behind": p.defense,
                "Data": p.data,
                "Without": p.values[0] if p.values else None,
                "With": p.values[-1] if p.values else None,
                "Found": p.created[:10],
            }
            for p in found.values()
        ]
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key="suffix_phrases",
            alt="Phrases learned on this machine",
            column_config={n: st.column_config.NumberColumn(format="%.2f") for n in ("Without", "With")},
        )
        ui.note("They are options of the attack “Learned suffix” in both other tabs; one file each in the home folder.")
