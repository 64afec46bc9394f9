"""Attack lab, "Learn a phrase": a universal phrase searched on a white-box judge, live, and what it does elsewhere."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.linked_run import shown
from dashboard.progress import newest_job, progress, start_job
from dashboard.run_view import RunView, Stored
from engine import catalog
from engine.core.errors import InputError
from engine.core.schema import NONE, Protocol, Task
from engine.data.dataset import Dataset
from engine.jobs.manager import manager
from engine.plots.text import interval_text, plural, three_digits
from engine.studies.learned_suffix.study import STUDY


class SuffixRun(RunView):
    """A search for a phrase."""

    kind = "learned_suffix"
    search = Stored("suffix_search")
    metrics = Stored("metrics")


# Settings of a search for a phrase: protocol, aim, length, effort, the defense it is learned through.

WORDS, CANDIDATES, PROMPTS = "suffix_words", "suffix_candidates", "suffix_prompts"
PROTOCOL, AIM, DEFENSE, NAME = "suffix_protocol", "suffix_aim", "suffix_defense", "suffix_name"
POINTWISE, PAIRWISE = "Score of one response", "Preference in a pair"
RAISE, LOWER = "Raise it", "Lower it"
_PAIRED_TASKS = (Task.INSTRUCTION, Task.QUESTION)
"""The tasks that the built-in pairwise prompt is written for."""


def white_box(judge: str) -> bool:
    """True where gradients of this judge can be read here."""
    return judge.partition(":")[0] in ("bundled", "hf", "path")


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
    return f"{tried}, about {findings.duration(seconds)} on two processor cores with a bundled judge."


POLL_S = 2.0


def suffix_search(judge: str, dataset: Dataset) -> None:
    """The choices, the search as it goes, its result, and the phrases kept on this machine."""
    if not white_box(judge):
        ui.nothing_yet(
            "A phrase is learned from a judge's gradients, and this judge has no model here. Choose a bundled judge."
        )
        return
    params = {"judge": judge, "data": dataset.dataset_id}
    job = newest_job(STUDY.names[0], **params)
    setup(judge, dataset, busy=bool(job and job.active))
    if job:
        progress(job)
    active = bool(job and job.active)
    st.fragment(_result, run_every=POLL_S if active else None)(params, job.job_id if job else "")
    if not active:
        _kept()


def _result(params: dict[str, str], job_id: str) -> None:
    job = manager().get(job_id) if job_id else None
    view = shown(SuffixRun, params["judge"], params["data"], job)
    if view is None:
        if job and job.active:
            ui.note("The first words appear here after the first round.")
        elif job is None:
            ui.nothing_yet("No phrase has been learned on this judge and these data here yet. Choose, then Search.")
        return
    _show(view, active=bool(job and job.active))


def _show(view: SuffixRun, *, active: bool) -> None:
    search, metrics = view.search, view.metrics
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
    """Effect of the whole phrase on responses of other items, in a sentence."""
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
    """The phrases kept on this machine."""
    phrases = catalog.saved_phrases()
    if not phrases:
        return
    with st.expander(f"Phrases learned here ({len(phrases)})", key="suffix_kept"):
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
            for p in phrases.values()
        ]
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key="suffix_phrases",
            alt="Phrases learned on this machine",
            column_config={n: st.column_config.NumberColumn(format="%.2f") for n in ("Without", "With")},
        )
        ui.note("They are options of the attack “Learned suffix” in both other tabs; one file each in the home folder.")
