"""The data sets and sets of pairs on this machine, opened once; what is cached is shared and never edited in place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import streamlit as st

from dashboard import state, ui
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_SETS, Comparisons, list_comparisons, load_comparisons
from engine.data.dataset import Dataset, summarize
from engine.data.store import DEMO_NAMES, list_datasets, load_dataset, save_dataset
from engine.plots.text import plural


def digest(content: bytes) -> str:
    """Names a file's content in cache keys and widget keys."""
    return hashlib.sha256(content).hexdigest()[:16]


def save(dataset: Dataset) -> None:
    """Keep a data set on disk."""
    save_dataset(dataset, get_settings().datasets)


@st.cache_resource(max_entries=4, show_spinner=False)
def _dataset(dataset_id: str, root: str) -> Dataset:
    del root  # part of the cache key only
    return load_dataset(dataset_id, get_settings().datasets)


def dataset(dataset_id: str) -> Dataset:
    """A saved or bundled data set.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    return _dataset(dataset_id, str(get_settings().datasets))


def dataset_titles() -> dict[str, str]:
    """Every data set's id and title, the bundled ones first; titles differ from one another."""
    titles = dict(DEMO_NAMES)
    for manifest in list_datasets(get_settings().datasets):
        title = str(manifest["name"])
        if title in titles.values():
            title = f"{title} ({str(manifest['dataset_id'])[:6]})"
        titles[str(manifest["dataset_id"])] = title
    return titles


@st.cache_data(max_entries=64, show_spinner=False)
def count_line(dataset_id: str) -> str:
    """The data set in one line for the rail; empty where it cannot be opened, which the page itself reports."""
    try:
        return counts(dataset(dataset_id))
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
    """The data set of the rail; None, with the reason on the page, where it cannot be opened."""
    try:
        return dataset(state.text(state.DATA))
    except EngineError as error:
        ui.show_error(error, "The chosen data cannot be opened.")
        ui.nothing_yet("Choose other data on the left, or upload the file again.", "pages/data/page.py", "Data")
        return None


def suitable_dataset(suits: Callable[[Dataset], bool], demo: str, *, said: str, label: str, key: str) -> Dataset | None:
    """The data set of the rail where it suits the page, else a demo set with a button to choose it; None as above.

    Args:
        suits: true for data that the page can use.
        demo: id of the demo set.
        said: why the demo set is shown.
        label: of the button.
        key: of the button.
    """
    chosen = chosen_dataset()
    if chosen is None or suits(chosen):
        return chosen
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note(said)
        st.button(label, key=key, on_click=state.choose_data, args=(demo,))
    return dataset(demo)


def pair_sets() -> dict[str, str]:
    """Id and title of every set of pairs, the bundled ones first."""
    return {demo: pairs(demo).name for demo in DEMO_SETS} | list_comparisons(get_settings().comparisons)


@st.cache_resource(max_entries=4, show_spinner=False)
def _pairs(set_id: str, root: str) -> Comparisons:
    del root  # part of the cache key only
    return load_comparisons(set_id, get_settings().comparisons)


def pairs(set_id: str) -> Comparisons:
    """A set of pairs.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    return _pairs(set_id, str(get_settings().comparisons))
