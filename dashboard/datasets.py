"""The data sets and sets of pairs on this machine, opened once; what is cached is shared and never edited in place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import TypeVar

import streamlit as st

from dashboard import state, ui
from engine import catalog
from engine.core.errors import EngineError
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.comparisons import (
    DEMO_PAIRS,
    DEMO_SETS,
    Comparisons,
    list_comparisons,
    load_comparisons,
    pairs_digest,
    save_comparisons,
)
from engine.data.dataset import Dataset, content_digest, summarize
from engine.data.raw import Problem
from engine.data.store import DEMO_DIALOGUE, DEMO_NAMES, list_datasets, load_dataset, save_dataset
from engine.plots.text import plural
from engine.studies.registry import lacking_anchors

DEMO_TITLES = frozenset({*DEMO_NAMES, *DEMO_SETS})
"""Ids of the data that ship with the project."""


def digest(content: bytes) -> str:
    """Names a file's content in cache keys and widget keys."""
    return hashlib.sha256(content).hexdigest()[:16]


def save(dataset: Dataset) -> None:
    """Keep a data set on disk."""
    save_dataset(dataset, get_settings().datasets)


Opened = TypeVar("Opened", Dataset, Comparisons)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs={FunctionType: attrgetter("__name__")})
def _opened(load: Callable[[str, Path], Opened], data_id: str, root: Path) -> Opened:
    return load(data_id, root)


def dataset(dataset_id: str) -> Dataset:
    """A saved or bundled data set.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    return _opened(load_dataset, dataset_id, get_settings().datasets)


def dataset_titles() -> dict[str, str]:
    """Every data set's id and title, the bundled ones first; titles differ from one another."""
    titles = dict(DEMO_NAMES)
    for manifest in list_datasets(get_settings().datasets):
        title = str(manifest["name"])
        if title in titles.values():
            title = f"{title} ({str(manifest['dataset_id'])[:6]})"
        titles[str(manifest["dataset_id"])] = title
    return titles


def titles() -> dict[str, str]:
    """Id and title of everything the rail offers: sets of responses, then sets of pairs."""
    return dataset_titles() | pair_sets()


def count_line(data_id: str) -> str:
    """The data in one line for the rail; empty where they cannot be opened, which the page itself reports."""
    return _count_line(data_id, data_id in pair_sets())


@st.cache_data(max_entries=64, show_spinner=False)
def _count_line(data_id: str, paired: bool) -> str:
    try:
        return pairs(data_id).counts() if paired else counts(dataset(data_id))
    except EngineError:
        return ""


def counts(dataset: Dataset) -> str:
    """The data set in one line: "48 responses, 12 items, 4 systems"."""
    summary = summarize(dataset)
    parts = [plural(summary.n_responses, "response"), plural(summary.n_items, "item")]
    if summary.systems:
        parts.append(plural(len(summary.systems), "system"))
    if summary.n_human and summary.human_low is not None and summary.human_high is not None:
        low, high = f"{summary.human_low:g}", f"{summary.human_high:g}"
        parts.append(f"{plural(summary.n_human, 'human score')} from {low} to {high}")
    if summary.n_excluded:
        parts.append(f"{plural(summary.n_excluded, 'row')} left out")
    return ", ".join(parts)


def chosen_dataset() -> Dataset | None:
    """The data set of the rail; the demo under a banner where pairs are chosen.

    None, with the reason on the page, where it cannot be opened.
    """
    chosen = state.text(state.DATA)
    if chosen in pair_sets():
        demo_banner(DEMO_DIALOGUE, "these are pairs, and this page takes single responses.")
        return dataset(DEMO_DIALOGUE)
    try:
        return dataset(chosen)
    except EngineError as error:
        ui.show_error(error, "The chosen data cannot be opened.")
        ui.nothing_yet("Choose other data on the left, or upload the file again.", "pages/data/page.py", "Data")
        return None


def chosen_pairs() -> Comparisons | None:
    """The pairs of the rail; the demo pairs, said in a banner, where responses are chosen; None as above."""
    chosen = state.text(state.DATA)
    if chosen not in pair_sets():
        demo_banner(DEMO_PAIRS, "this page takes pairs of responses, some with a person's choice.")
        chosen = DEMO_PAIRS
    try:
        return pairs(chosen)
    except EngineError as error:
        ui.show_error(error, "These pairs cannot be opened.")
        return None


def suitable_dataset(
    suits: Callable[[Dataset], bool], demo: str, *, said: str, mends: Sequence[ui.Mend] = ()
) -> Dataset | None:
    """The data set of the rail where it suits the page, else a demo set under a banner; None as above.

    Args:
        suits: true for data that the page can use.
        demo: id of the demo set.
        said: why the chosen data do not suit: the end of a sentence.
        mends: what makes them suit; by default the page Data.
    """
    chosen = state.text(state.DATA)
    if chosen not in pair_sets():
        held = chosen_dataset()
        if held is None or suits(held):
            return held
    demo_banner(demo, said, mends)
    return dataset(demo)


def demo_banner(demo: str, reason: str, mends: Sequence[ui.Mend] = ()) -> None:
    """The banner of a page that shows a demo set in place of the data chosen on the left.

    Args:
        demo: id of the set that is shown.
        reason: why: the end of a sentence.
        mends: ways to the user's own data; by default the page Data.
    """
    chosen = state.text(state.DATA)
    name = titles().get(chosen, chosen)
    use_demo = ui.Mend("Use the demo", lambda: _use(demo))
    own = () if chosen in DEMO_TITLES else (*mends, *(() if mends else (ui.Mend("Use my data", open_data_page),)))
    ui.banner(f"You see the demo, not “{name}”: {reason}", (*own, use_demo), key=f"demo_{demo}")


def _use(data_id: str) -> None:
    state.choose_data(data_id)
    st.rerun()


def open_data_page() -> None:
    """Go to the page Data."""
    st.switch_page("pages/data/page.py")


# What a data set lacks for a page, and the buttons that mend it.

TASKS = {
    Task.DIALOGUE: "Dialogue: the next reply",
    Task.SUMMARY: "Summary of a text",
    Task.QUESTION: "Answer to a question",
    Task.INSTRUCTION: "Following an instruction",
    Task.VERIFICATION: "Answer checked against a reference",
}
"""What the responses were asked to be."""


def map_mend(field: str) -> ui.Mend:
    """A button to the page Data, where the column that holds a field is chosen."""
    return ui.Mend(f"Choose the column: {field}", open_data_page)


def task_mend(held: Dataset, task: Task) -> ui.Mend:
    """A button that makes the data's task another one."""
    return ui.Mend(f"Take it as: {TASKS[task].lower()}", lambda: _use(change_task(held, task)))


@st.cache_data(max_entries=32, ttl=20, show_spinner=False)
def lacking(dataset_id: str) -> dict[str, str]:
    """The defenses that need anchors which the data do not have, and what is missing; a steering run brings its own."""
    return lacking_anchors(dataset(dataset_id))


def lacking_note(dataset_id: str) -> str:
    """A sentence on the defenses that are not offered; empty where all are."""
    parts = [f"{catalog.describe_defense(name).title} ({what} missing)" for name, what in lacking(dataset_id).items()]
    return f"Not offered with these data: {'; '.join(parts)}." if parts else ""


def demo_mend(demo: str, label: str = "Use the demo") -> ui.Mend:
    """A button that chooses a demo set."""
    return ui.Mend(label, lambda: _use(demo))


def label_mend(data_id: str) -> ui.Mend:
    """A button to the page Label, where people score these data."""
    return ui.Mend("Label responses", lambda: _label(data_id))


def _label(data_id: str) -> None:
    state.choose_data(data_id)
    state.after_rerun({"label_kind": "rating"})
    st.switch_page("pages/labelling/page.py")


def change_task(held: Dataset, task: Task) -> str:
    """Save the data under another task; returns the id, which is another one since verdicts differ by task."""
    items = held.items.assign(task=str(task))
    made = replace(
        held, items=items, task=str(task), dataset_id=content_digest(items, held.responses), problems=_no_errors(held)
    )
    save(made)
    return made.dataset_id


def _no_errors(held: Dataset) -> list[Problem]:
    return [problem for problem in held.problems if problem.severity != "error"]


def task_box(dataset_id: str) -> None:
    """Choice of the task of the user's own data, for the rail."""
    try:
        held = dataset(dataset_id)
    except EngineError:
        return
    key = f"task_of_{dataset_id}"
    state.seed(key, list(TASKS), held.task)
    chosen = Task(ui.pick("The responses are", list(TASKS), key=key, title=lambda task: TASKS[Task(task)]))
    if chosen != held.task:
        _use(change_task(held, chosen))


def add_scores(held: Dataset, given: Mapping[str, float]) -> str:
    """Save the data with scores of a person, by response id, beside those that were there; returns the id."""
    responses = held.responses.copy()
    own = responses["response_id"].map(dict(given))
    responses["human_score"] = own.fillna(responses["human_score"])
    made = replace(
        held, responses=responses, dataset_id=content_digest(held.items, responses), problems=_no_errors(held)
    )
    save(made)
    return made.dataset_id


def add_choices(held: Comparisons, given: Mapping[str, str]) -> str:
    """Save the pairs with a person's choices (a, b or tie), by comparison id, beside those there; returns the id."""
    own = held.comparisons["comparison_id"].map(dict(given))
    comparisons = held.comparisons.assign(human=own.fillna(held.comparisons["human"]).astype("str"))
    set_id = pairs_digest([held.items, held.responses, comparisons])
    save_comparisons(replace(held, comparisons=comparisons, set_id=set_id), get_settings().comparisons)
    return set_id


def pair_sets() -> dict[str, str]:
    """Id and title of every set of pairs, the bundled ones first."""
    return {demo: pairs(demo).name for demo in DEMO_SETS} | list_comparisons(get_settings().comparisons)


def pairs(set_id: str) -> Comparisons:
    """A set of pairs.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    return _opened(load_comparisons, set_id, get_settings().comparisons)
