"""Choice of judge, data and size; the one button, and the check-up while it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import datasets, findings, ui
from dashboard.pages.checkup.data import CheckupRun
from dashboard.progress import cost_sentence, mean_bytes, pace, start_job
from engine import catalog
from engine.core.errors import EngineError
from engine.core.schema import Protocol
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
    bundled = judge.startswith("bundled:")
    time = f", about {findings.duration(total * per_call)} at the last pace" if per_call else ""
    time = time or (f", about {findings.duration(total * PACE)} on two cores" if bundled else "")
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


QUICK = {"limit": 6, "responses": 2, "pairs": 1, "attacks": ["dsi", "bed"]}
"""Size of the quick check-up: it finds large effects; most probes stay undecided."""
PACE = 0.13
"""Seconds a call of a bundled judge takes on two cores, before one was timed here."""


def setup(
    judge: str,
    data_id: str,
    thresholds: dict[str, float],
    last: CheckupRun | None,
    actions: DeltaGenerator,
    *,
    busy: bool,
) -> None:
    """The buttons of the quick and the full check-up, and what each asks and takes.

    Args:
        judge: the judge's spec.
        data_id: a data set or a set of pairs.
        thresholds: that a run is started with.
        last: the newest one of this judge on these data, for its pace.
        actions: where the buttons stand.
        busy: one is going.
    """
    with actions:
        ui.compare_judge(key="checkup")
        with st.popover("How much is asked", icon=":material/tune:", key="check_details"):
            full = _dials()
        quick = st.button("Quick check", icon=":material/bolt:", key="quick_checkup", disabled=busy)
        whole = st.button(
            "Full check-up", type="primary", icon=":material/stethoscope:", key="run_checkup", disabled=busy
        )
    if busy:
        ui.note("A check-up is going; what it has measured so far stands below.")
        return
    _costs(judge, data_id, full, last)
    if quick or whole:
        params = full if whole else QUICK
        start_job(
            CheckupRun.kind,
            {"judge": judge, "data": data_id, "thresholds": thresholds, **params},
            "The check-up could not be started.",
        )


def _costs(judge: str, data_id: str, full: dict[str, object], last: CheckupRun | None) -> None:
    try:
        short = cost(judge, data_id, QUICK, last)[0].partition(": ")[2]
        what, paid = cost(judge, data_id, full, last)
    except EngineError as error:
        ui.note(str(error))
        return
    ui.note(f"{what} Quick: {short}")
    ui.note(paid)


def needed(data_id: str) -> list[ui.Need]:
    """What the probes need of the data; none of it stops a check-up."""
    try:
        if data_id in datasets.pair_sets():
            pairs = datasets.pairs(data_id)
            n, people = len(pairs.comparisons), int(pairs.comparisons["human"].notna().sum())
            return [
                ui.Need("pairs", True, f"{n:,}"),
                ui.Need("people's choices", people > 0, f"{people:,} of {n:,}", "agreement with people is left out"),
            ]
        held = datasets.dataset(data_id)
    except EngineError:
        return []
    n, items = len(held.responses), len(held.items)
    rated, checked = int(held.responses["human_score"].notna().sum()), int(held.items["reference"].notna().sum())
    several = bool((held.responses.groupby("item_id").size() > 1).any())
    return [
        ui.Need("responses", True, f"{n:,}"),
        ui.Need(
            "several responses to an item", several, "", "order, ties and comparisons are left out",
            (datasets.map_mend("item id or context"),),
        ),
        ui.Need(
            "people's scores", rated > 0, f"{rated:,} of {n:,}", "agreement with people is left out",
            (datasets.map_mend("human score"), datasets.label_mend(data_id)),
        ),
        ui.Need(
            "reference answers", checked > 0, f"{checked:,} of {items:,} items",
            "master keys are tried as answers that are scored", (datasets.map_mend("reference"),),
        ),
    ]  # fmt: skip


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
