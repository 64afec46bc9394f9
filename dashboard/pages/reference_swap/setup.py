"""Setup of a new run of the Reference swap page: what it needs, the quick run, and all settings."""

from __future__ import annotations

import json

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.datasets import demo_mend, map_mend
from dashboard.minutes import measure
from dashboard.pages.reference_swap.data import SwapRun
from dashboard.progress import BUSY, api_cost, start_job
from engine import catalog
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.data.store import DEMO_VERIFICATION
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.studies.refswap.references import K_MAX as K_LIMIT
from engine.studies.refswap.references import (
    MAX_MB,
    ReferencePool,
    list_pools,
    load_pool,
    make_pool,
    pool_of_lines,
    save_pool,
)

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


@st.dialog("References of your own")
def _bring() -> None:
    """The same file, asked for where the study has nothing to swap in."""
    _upload("needed")


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
    return bool(held.items["reference"].notna().any())


KEYS, OWN, FORM, K_MAX, BOTH, OPEN = "swap_keys", "swap_own", "swap_form", "swap_k_max", "swap_both", "swap_open"
MOST_K = 5
FORMS = {
    "reference last": "Question, response, reference last",
    "plain": "Question, reference, response",
    "no question": "Without the question",
}
"""Forms of the verifier's prompt; all but the plain one are variants by name."""


def variant(form: str) -> str:
    """The card's variant behind a form."""
    return "" if form == "plain" else form


def actions(judge: str, dataset: Dataset, run: SwapRun | None, job: Job | None) -> None:
    """Beside the title: the full run behind a quick one, and the panel of all settings."""
    busy = bool(job and job.active)
    quick = run is not None and not run.recorded and run.config.get("quick") and run.manifest["state"] == "done"
    if quick and st.button("Refine: full run", type="primary", icon=":material/play_arrow:", key="swap_full",
                           disabled=busy):  # fmt: skip
        _start(_full(judge, dataset))
    if run:
        st.toggle("Run anew", key=OPEN, help="Choose keys and settings, and ask this verifier about the data here.")


def _full(judge: str, dataset: Dataset) -> dict[str, object]:
    """The full run without choosing anything: all keys, as many references as the data have."""
    k = max(1, usable(dataset.dataset_id, str(st.session_state.get(POOL) or OWN_POOL), MOST_K))
    return {
        "judge": judge, "data": dataset.dataset_id, "variant": variant("reference last"), "k": k, "k_max": k,
        "pool": str(st.session_state.get(POOL) or OWN_POOL),
    }  # fmt: skip


def setup(judge: str, dataset: Dataset, job: Job | None, verifiers: list[str]) -> None:
    """What the study needs of verifier and data, the quick run, and all settings behind a fold."""
    busy = bool(job and job.active)
    with st.container(border=True, key="swap_setup"):
        ready = ui.needs(_needs(judge, dataset, verifiers), key="swap")
        full = _full(judge, dataset)
        quick = full | {"quick": True}
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            pressed = st.button(
                "Quick run", type="primary", icon=":material/bolt:", key="swap_quick", disabled=busy or not ready,
                help="Up to 24 responses and three keys. Every part of the page is there; intervals are wide.",
            )  # fmt: skip
            if ready:
                measure(SwapRun.kind, {"quick form": quick, "full run": full})
        if pressed:
            _start(quick)
        _all_settings(judge, dataset, ready=ready, busy=busy)


def _needs(judge: str, dataset: Dataset, verifiers: list[str]) -> list[ui.Need]:
    """What the study needs; correctness is welcome."""
    with_reference = int(dataset.items["reference"].notna().sum())
    known = int(dataset.responses["quality"].notna().sum())
    suits = judge in verifiers or judge.startswith(("hf:", "path:", "api:", "decision:"))
    pool = str(st.session_state.get(POOL) or OWN_POOL)
    k = usable(dataset.dataset_id, pool, MOST_K)
    swap_in = ui.Mend("Swap in the demo's references", lambda: _use_pool(DEMO_VERIFICATION))
    return [
        ui.Need(
            "A judge that says YES or NO", suits,
            mends=(ui.Mend("Use the shortcut verifier", lambda: state.use_judge("bundled:shortcut-verifier")),),
        ),
        ui.Need(
            "Reference answers", with_reference > 0, f"{with_reference} of {len(dataset.items)} items",
            mends=(map_mend("Reference"), demo_mend(DEMO_VERIFICATION)),
        ),
        ui.Need(
            "References of other answer types to swap in", k > 0, f"{k} for each answer" if k else "",
            mends=(swap_in, ui.Mend("Bring references of my own", _bring)),
        ),
        ui.Need(
            "Which responses are correct", known > 0, f"{known} of {len(dataset.responses)}",
            without="no accuracy and no AUC; keys and max_p_cf are there", mends=(map_mend("Quality"),),
        ),
    ]  # fmt: skip


@st.cache_data(max_entries=64, show_spinner=False)
def usable(dataset_id: str, pool_id: str, most: int) -> int:
    """Counterfactual references of another answer type that every item of a data set has, at most so many."""
    try:
        held = datasets.dataset(dataset_id)
        pool = _pool(pool_id, held)
        true = {str(i): r for i, r in held.items.set_index("item_id")["reference"].dropna().items() if str(r).strip()}
    except EngineError:
        return 0
    for k in range(most, 0, -1):
        try:
            for item, reference in true.items():
                pool.draw(str(reference), k, key=item)
        except EngineError:
            continue
        return k if true else 0
    return 0


def _pool(pool_id: str, held: Dataset) -> ReferencePool:
    if pool_id == OWN_POOL:
        return make_pool(held.items["reference"].dropna(), held.name)
    return load_pool(pool_id, get_settings().pools) or make_pool(
        datasets.dataset(pool_id).items["reference"].dropna(), pool_id
    )


def _use_pool(pool_id: str) -> None:
    state.after_rerun({POOL: pool_id})
    st.rerun()


def _all_settings(judge: str, dataset: Dataset, *, ready: bool, busy: bool) -> None:
    """Every choice of a full run, folded away until it is wanted."""
    with st.expander("Full run, all settings", on_change="rerun", key="swap_settings", icon=":material/tune:") as fold:
        if not fold.open:
            return
        left, right = st.columns(2, gap="medium")
        with left:
            keys = _keys()
        with right:
            form = _choice("Form of the prompt", FORM, list(FORMS), lambda f: FORMS[f])
            pool = pick_pool()
            most = max(1, usable(dataset.dataset_id, pool, K_LIMIT))
            k_max = 1
            if most > 1:
                key = f"{K_MAX}_{most}"
                state.seed_number(key, 1, most, min(MOST_K, most))
                k_max = int(st.slider("References asked for each YES", 1, most, key=key, persist_state="session"))
            both = st.toggle(
                "Also references of the same answer type", key=BOTH, help="The harder arm.", persist_state="session"
            )
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            go = st.button("Run", icon=":material/play_arrow:", key="swap_run",
                           disabled=busy or not keys or not ready)  # fmt: skip
            checks = k_max * (2 if both else 1)
            calls = len(dataset.responses) + len(keys) * len(dataset.items)
            ui.note(_cost(calls, len(keys), checks, busy=busy) if ready else "First what is missing above.")
        ui.note("" if busy or not keys else api_cost(judge, dataset, calls * (1 + checks)))
    if go:
        base = {"judge": judge, "data": dataset.dataset_id, "keys": keys, "variant": variant(form), "pool": pool}
        _start(base | {"k": min(5, k_max), "k_max": k_max, "arms": ["other", "same"] if both else ["other"]})


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


def _start(params: dict[str, object]) -> None:
    start_job(SwapRun.kind, params, "The run could not be started.")
