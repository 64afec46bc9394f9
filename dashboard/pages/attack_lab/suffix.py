"""Attack lab, "Learn a phrase": a universal phrase searched on a white-box judge, live, and what it does elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard import linked_run as pinned
from dashboard.progress import progress, start_job
from dashboard.run_view import newest_job, version_of
from engine import catalog
from engine.core.errors import EngineError, InputError, RunError
from engine.core.schema import NONE, Protocol, Task
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.jobs import manager as jobs
from engine.jobs.manager import Job
from engine.plots.text import interval_text, plural, three_digits
from engine.runs import folder as runs
from engine.studies.figure import Source
from engine.studies.learned_suffix.study import STUDY
from engine.studies.registry import study_of_manifest
from engine.studies.study import Study

# Runs of a kind that a panel watches: the job that is going or went last, and the run's tables.


@dataclass(frozen=True)
class StudyView:
    """A run at one moment: its manifest and some tables by name; shared between sessions, never edited."""

    run_id: str
    manifest: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    source: Source

    @property
    def recorded(self) -> bool:
        """Whether these numbers shipped with the project and were not made on this machine."""
        return bool(self.manifest.get("recorded", False))


def view_of(job: Job | None, study: Study, params: dict[str, str], tables: tuple[str, ...]) -> StudyView | None:
    """The job's run; without a job the newest finished run of the study with these settings, else a recorded one.

    Returns:
        None where there is none, or the job has written nothing yet.

    Raises:
        EngineError: the job's run is unreadable.
    """
    own = get_settings().runs
    if asked := pinned.about(study.kind, params.get("judge", ""), params.get("data", "")):
        return _read(str(asked.folder.path.parent), asked.folder.run_id, version_of(asked.manifest), tables)
    if job:
        try:
            return _read(str(own), str(job.params.get("run_id", "")), f"{job.state} {job.done} {job.finished}", tables)
        except RunError:
            return None
    for root in (own, get_settings().assets / "demo" / study.names[0]):
        for manifest in runs.list_runs(root):
            config = manifest.get("config", {})
            same = study_of_manifest(manifest) is study and all(config.get(k) == v for k, v in params.items())
            if same and manifest.get("state") == "done":
                try:
                    return _read(str(root), str(manifest["run_id"]), str(manifest.get("finished")), tables)
                except EngineError:
                    continue  # a damaged run must not hide an older good one
    return None


@st.cache_resource(max_entries=8, show_spinner=False)
def _read(root: str, run_id: str, version: str, tables: tuple[str, ...]) -> StudyView:
    del version  # part of the cache key only
    source = Source(runs.open_run(Path(root), run_id))
    return StudyView(run_id, source.manifest, {name: source.table(name) for name in tables}, source)


# What a search for a phrase is asked for: protocol, aim, length, effort, the defense it is learned through.

WORDS, CANDIDATES, PROMPTS = "suffix_words", "suffix_candidates", "suffix_prompts"
PROTOCOL, AIM, DEFENSE, NAME = "suffix_protocol", "suffix_aim", "suffix_defense", "suffix_name"
POINTWISE, PAIRWISE = "Score of one response", "Preference in a pair"
RAISE, LOWER = "Raise it", "Lower it"
_PAIRED_TASKS = (Task.INSTRUCTION, Task.QUESTION)
"""The tasks that the built-in pairwise prompt is written for."""


def white_box(judge: str) -> bool:
    """Whether gradients of this judge can be read here."""
    return not judge.startswith(("planted:", "recorded:", "api:"))


def setup(judge: str, dataset: Dataset, *, busy: bool) -> None:
    """The choices and the Search button."""
    with st.container(border=True, key="suffix_setup"):
        left, right = st.columns(2, gap="medium")
        with left:
            words = int(st.slider("Words of the phrase", 1, 5, 3, key=WORDS, persist_state="session"))
            candidates = int(
                st.slider(
                    "Words tried at each step",
                    4,
                    128,
                    32,
                    4,
                    key=CANDIDATES,
                    help="Gradients rank the judge's whole vocabulary; so many of the best are tried.",
                    persist_state="session",
                )
            )
            prompts = int(
                st.slider(
                    "Responses to learn on",
                    1,
                    16,
                    min(8, len(dataset.responses)),
                    key=PROMPTS,
                    help="Taken from half of the items; the other half measures the phrase.",
                    persist_state="session",
                )
            )
        with right:
            params = _right(judge, dataset)
        params |= {"words": words, "candidates": candidates, "prompts": prompts}
        problem = _problem(params)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            go = st.button(
                "Search", type="primary", icon=":material/search:", key="suffix_run", disabled=busy or bool(problem)
            )
            ui.note(problem or _effort(words, candidates, prompts, busy=busy))
    if go:
        start_job(STUDY.names[0], params, "The search could not be started.")


def _right(judge: str, dataset: Dataset) -> dict[str, Any]:
    able = Protocol.PAIRWISE in catalog.describe_judge(judge).protocols and dataset.task in _PAIRED_TASKS
    protocol = POINTWISE
    if able:
        protocol = _choice("What is attacked", (POINTWISE, PAIRWISE), PROTOCOL)
    lower = _choice("Aim", (RAISE, LOWER), AIM) == LOWER
    defenses = [NONE, *(name for name, card in catalog.DEFENSES.items() if card.anchored)]
    state.seed(DEFENSE, defenses, NONE)
    defense = ui.pick(
        "Learned on the judge behind",
        defenses,
        key=DEFENSE,
        title=lambda d: catalog.DEFENSES[d].title,
        help="Through a defense the attacker knows it too, which is a stronger attack. Defenses whose prompt follows "
        "the response's text cannot be searched through.",
    )
    name = st.text_input(
        "Name of the phrase", key=NAME, max_chars=40, placeholder="made from the run", persist_state="session"
    )
    params: dict[str, Any] = {"judge": judge, "data": dataset.dataset_id, "lower": lower, "defense": defense}
    params["protocol"] = "pairwise" if protocol == PAIRWISE else "pointwise"
    return params | ({"name": name.strip()} if name and name.strip() else {})


def _choice(label: str, options: tuple[str, str], key: str) -> str:
    state.seed(key, options, options[0])
    return str(st.segmented_control(label, options, key=key, required=True, persist_state="session"))


def _problem(params: dict[str, Any]) -> str:
    try:
        if "name" in params:
            catalog.check_name(str(params["name"]))
    except InputError as error:
        return str(error)
    return ""


def _effort(words: int, candidates: int, prompts: int, *, busy: bool) -> str:
    if busy:
        return "A search is going; stop it or let it finish before you start another."
    tried = f"{plural(words, 'word')} × {candidates} candidates × {plural(prompts, 'response')}"
    seconds = words * prompts * (1.0 + candidates * 0.035)  # measured on two cores with the bundled judge
    return f"{tried}, about {findings.duration(seconds)} on two processor cores with the bundled judge."


POLL_S = 2.0
_TABLES = ("suffix_search", "metrics")


def suffix_search(judge: str, dataset: Dataset) -> None:
    """The choices, the search as it goes, its result, and the phrases kept on this machine."""
    if not white_box(judge):
        ui.nothing_yet(
            "A phrase is learned from a judge's gradients, and this judge has no model here. Choose the bundled judge."
        )
        return
    params = {"judge": judge, "data": dataset.dataset_id}
    job = newest_job(STUDY.names[0], among=50, **params)
    setup(judge, dataset, busy=bool(job and job.active))
    if job:
        progress(job)
    active = bool(job and job.active)
    st.fragment(_result, run_every=POLL_S if active else None)(params, job.job_id if job else "")
    if not active:
        _kept()


def _result(params: dict[str, str], job_id: str) -> None:
    job = jobs.manager().get(job_id) if job_id else None
    try:
        view = view_of(job, STUDY, params, _TABLES)
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
