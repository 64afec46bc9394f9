"""What a search for a phrase is asked for: protocol, aim, length, effort, the defense it is learned through."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import state, ui
from dashboard.panels import findings
from engine import catalog, jobs
from engine.data.dataset import Dataset
from engine.errors import EngineError, InputError
from engine.figures.text import plural
from engine.schema import NONE, Protocol, Task

KIND = "suffix"
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
        _start(params)


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


def _start(params: dict[str, Any]) -> None:
    try:
        jobs.manager().submit(KIND, params)
    except EngineError as error:
        ui.show_error(error, "The search could not be started.")
        return
    st.rerun()
