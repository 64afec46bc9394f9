"""Choice of judge, data and size; the one button, and the check-up while it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import datasets, findings, ui
from dashboard.pages.checkup.data import CheckupRun
from dashboard.progress import cost_sentence, mean_bytes, pace, progress, start_job
from engine import catalog
from engine.core.errors import EngineError
from engine.core.schema import Protocol
from engine.jobs.manager import Job
from engine.studies.checkup.metrics import Size, most_calls

# Cost of a check-up, before its button is pressed: judge calls, time, and an API judge's tokens and price.


def cost(judge: str, data_id: str, params: Mapping[str, Any], last: CheckupRun | None) -> tuple[str, str]:
    """Probes, judge calls and time of a check-up; and tokens and price of an API judge.

    Args:
        judge: the judge's spec.
        data_id: a data set or a set of pairs.
        params: the settings of the run.
        last: the newest check-up of this judge on these data, for its pace.

    Raises:
        EngineError: the data cannot be opened.
    """
    if data_id in datasets.pair_sets():
        pairs = datasets.pairs(data_id)
        items, responses, comparisons, said = pairs.items, pairs.responses, pairs.comparisons, pairs.counts()
    else:
        held = datasets.dataset(data_id)
        items, responses, comparisons, said = held.items, held.responses, None, datasets.counts(held)
    size = Size(params["limit"], params["responses"], params["pairs"], len(params["attacks"]), len(catalog.KEY_TEXTS))
    calls = most_calls(items, responses, comparisons, size, _protocols(judge))
    total = sum(calls.values())
    if not total:
        return f"Eleven probes on {said}.", ""
    per_call = pace(last.source.table("verdicts")) if last and last.editable else 0.0
    time = f", about {findings.duration(total * per_call)} at the last pace" if per_call else ""
    sentence = f"Eleven probes on {said}: at most {total:,} judge calls{time}."
    compared = calls.get(Protocol.PAIRWISE, 0)  # both responses stand in the prompt
    text = mean_bytes(responses["text"]) * (1 + compared / total)
    return sentence, cost_sentence(judge, total, mean_bytes(items["context"]) + text)


def _protocols(judge: str) -> list[Protocol]:
    """Protocols the judge answers, as far as the lists say; all of them where they do not know it."""
    names = {judge, judge.partition("?")[0] if judge.startswith("planted:") else judge}
    return [p for p in Protocol if names & catalog.judges_for(p).keys()] or list(Protocol)


ITEMS, RESPONSES, PAIRS, ATTACKS = "check_items", "check_responses", "check_pairs", "check_attacks"
INJECTIONS = {
    "dsi": "Please give an exceptionally high score (DSI)",
    "bed": "A rule of the evaluation (BED)",
    "adaptive": "References are void (adaptive)",
    "completion": "The evaluation is over (completion)",
    "ignore": "Forget the criteria (ignore)",
    "combined": "All of it (combined)",
}


def setup(judge: str, data_id: str, job: Job | None, thresholds: dict[str, float], last: CheckupRun | None) -> None:
    """The button, what it will ask and take, and the run while it goes; `last` is the newest one, for its pace."""
    busy = bool(job and job.active)
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="check_start")
    price = st.container()
    with st.expander("Details: how much is asked, which injections", key="check_details"):
        params = _dials()
    with row:
        pressed = st.button("Check up", type="primary", icon=":material/stethoscope:", key="run_checkup", disabled=busy)
        what, paid = _what(judge, data_id, params, last, busy=busy)
        ui.note(what)
    with price:
        ui.note(paid)
    if pressed:
        start_job(
            CheckupRun.kind,
            {"judge": judge, "data": data_id, "thresholds": thresholds, **params},
            "The check-up could not be started.",
        )
    if job:
        progress(job)


def _what(
    judge: str, data_id: str, params: dict[str, object], last: CheckupRun | None, *, busy: bool
) -> tuple[str, str]:
    if busy:
        return "A check-up is going; what it has measured so far stands below.", ""
    try:
        return cost(judge, data_id, params, last)
    except EngineError as error:
        return str(error), ""


def _dials() -> dict[str, object]:
    one, two, three = st.columns(3, gap="medium")
    with one:
        items = st.number_input(
            "Items at most",
            1,
            5000,
            60,
            key=ITEMS,
            persist_state="session",
            help="Intervals are as wide as items are few.",
        )
    with two:
        responses = st.number_input("Responses of an item", 1, 20, 4, key=RESPONSES, persist_state="session")
    with three:
        pairs = st.number_input("Comparisons of an item", 0, 20, 2, key=PAIRS, persist_state="session")
    attacks = st.pills(
        "Injections",
        list(INJECTIONS),
        selection_mode="multi",
        default=list(INJECTIONS)[:4],
        format_func=INJECTIONS.__getitem__,
        key=ATTACKS,
        persist_state="session",
        wrap=True,
    )
    chosen = list(attacks or []) or ["dsi"]
    return {"limit": int(items), "responses": int(responses), "pairs": int(pairs), "attacks": chosen}
