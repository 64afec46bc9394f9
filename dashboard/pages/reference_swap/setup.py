"""Setup of a new run of the Reference swap page: keys, pool, form of the prompt; and the run while it goes."""

from __future__ import annotations

import json

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.pages.reference_swap.data import SwapRun
from dashboard.progress import BUSY, api_cost, progress, start_job
from engine import catalog
from engine.core.errors import EngineError
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.studies.refswap.references import MAX_MB, list_pools, pool_of_lines, save_pool

# Where a run's counterfactual references come from: these data, other data, or a file of the user's own.

POOL = "swap_pool"
OWN_POOL = "data"


def pick_pool() -> str:
    """The pool chosen, by the name a job knows it by; below it a file can be added to the list."""
    titles = {OWN_POOL: "The references of these data"} | {
        name: title for name, title in datasets.dataset_titles().items() if _has_references(name)
    }
    titles |= {p.pool_id: f"Your file {p.name} ({plural(p.n, 'reference')})" for p in list_pools(get_settings().pools)}
    chosen = ui.pick(
        "Counterfactual references from", list(titles), key=POOL, default=OWN_POOL, title=lambda p: titles[p]
    )
    # another key where another pool is chosen: a panel that did its work closes
    add = f"swap_pool_add_{chosen}"
    with st.popover("References of your own", type="tertiary", icon=":material/upload_file:", key=add):
        _upload(chosen)
    return chosen


def _upload(chosen: str) -> None:
    """A text file with one reference a line; it is used once it was read and the user says so."""
    held = st.file_uploader(
        "A text file, one reference a line", type=["txt"], max_upload_size=MAX_MB, key=f"pool_file_{chosen}"
    )
    if held is None:
        ui.note("For answers that fit no other data: each line a final answer, of several kinds if you can.")
        return
    try:
        kinds = pool_of_lines(held.name, held.getvalue()).counts
    except EngineError as error:
        ui.show_error(error, "These references cannot be used as they are.")
        return
    ui.note(", ".join(f"{n} {kind.value.replace('_', ' ')}" for kind, n in kinds.items()))
    if st.button("Use these references", type="primary", key="use_pool"):
        saved = save_pool(held.name, held.getvalue(), get_settings().pools)
        state.after_rerun({POOL: saved.pool_id})
        st.rerun()


@st.cache_data(max_entries=64, show_spinner=False)
def _has_references(dataset_id: str) -> bool:
    try:
        held = datasets.dataset(dataset_id)
    except EngineError:
        return False
    return held.task == Task.VERIFICATION and bool(held.items["reference"].notna().any())


KEYS, OWN, FORM, K_MAX, BOTH = "swap_keys", "swap_own", "swap_form", "swap_k_max", "swap_both"
RUN = "Run this verifier here"
FORMS = {
    "reference last": "Question, response, reference last",
    "plain": "Question, reference, response",
    "no question": "Without the question",
}
"""Forms of the verifier's prompt; all but the plain one are variants by name."""


def variant(form: str) -> str:
    """The card's variant behind a form."""
    return "" if form == "plain" else form


def setup(judge: str, dataset: Dataset, job: Job | None) -> None:
    """The choices for a run and its button, folded; the progress of a run below."""
    busy = bool(job and job.active)
    with st.expander(RUN, expanded=False, key="swap_setup", icon=":material/tune:"):
        left, right = st.columns(2, gap="medium")
        with left:
            keys = _keys()
        with right:
            form = _choice("Form of the prompt", FORM, list(FORMS), lambda f: FORMS[f])
            pool = pick_pool()
            k_max = int(st.slider("References asked for each YES", 1, 10, 5, key=K_MAX, persist_state="session"))
            both = st.toggle(
                "Also references of the same answer type", key=BOTH, help="The harder arm.", persist_state="session"
            )
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            go = st.button(
                "Run", type="primary", icon=":material/play_arrow:", key="swap_run", disabled=busy or not keys
            )
            checks = k_max * (2 if both else 1)
            calls = len(dataset.responses) + len(keys) * len(dataset.items)
            ui.note(_cost(calls, len(keys), checks, busy=busy))
        ui.note("" if busy or not keys else api_cost(judge, dataset, calls * (1 + checks)))
    if go:
        _start(judge, dataset, keys, form, pool, k_max, both=both)
    if job:
        progress(job)


def _keys() -> list[str]:
    chosen = st.pills(
        "Master keys",
        catalog.KEY_TEXTS,
        selection_mode="multi",
        default=catalog.KEY_TEXTS,
        format_func=catalog.shown_key,
        key=KEYS,
        help="Each stands in place of a response to every question; a space is one of them.",
        persist_state="session",
        wrap=True,
    )
    typed = st.text_area(
        "Your own keys, one a line",
        key=OWN,
        height=80,
        placeholder='For example: As shown above.\n"  " (in quotes where spaces matter)',
        persist_state="session",
    )
    return list(dict.fromkeys([*(chosen or []), *own_keys(str(typed or ""))]))


def own_keys(typed: str) -> list[str]:
    """The keys of a text, one a line and unchanged; a line in double quotes is read as a JSON string."""
    keys = []
    for line in typed.split("\n"):
        text: object = line
        if len(line) > 1 and line[0] == line[-1] == '"':
            try:
                text = json.loads(line)
            except ValueError:
                text = line
        if line.strip():
            keys.append(str(text))
    return [key for key in keys if key]


def _choice(name: str, key: str, options: list[str], title) -> str:  # noqa: ANN001
    return ui.pick(name, options, key=key, default=options[0], title=title)


def _cost(calls: int, keys: int, checks: int, *, busy: bool) -> str:
    if busy:
        return BUSY
    if not keys:
        return "Choose at least one key, or type one."
    return f"{plural(calls, 'judge call')}, and {checks} more for each YES, which share most of their tokens."


def _start(judge: str, dataset: Dataset, keys: list[str], form: str, pool: str, k_max: int, *, both: bool) -> None:
    params = {
        "judge": judge,
        "data": dataset.dataset_id,
        "keys": keys,
        "variant": variant(form),
        "pool": pool,
        "k": min(5, k_max),
        "k_max": k_max,
        "arms": ["other", "same"] if both else ["other"],
    }
    start_job(SwapRun.kind, params, "The run could not be started.")
