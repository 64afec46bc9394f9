"""Attack lab: what does this attack do to this response, now? And over the whole set?"""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.datasets import chosen_dataset
from dashboard.pages.attack_lab.one import one_response
from dashboard.pages.attack_lab.suffix import suffix_search
from dashboard.pages.attack_lab.threshold import screen_threshold
from dashboard.pages.attack_lab.verifier import verify_one
from dashboard.pages.attack_lab.whole_set import whole_set
from engine import catalog
from engine.core.schema import Protocol, Task
from engine.data.dataset import Dataset

frame = ui.page_frame("Attack lab")


def _answers(judge: str, protocol: Protocol, what: str) -> bool:
    """True where the judge answers this kind of question; else the page says so and offers one that does."""
    protocols = catalog.describe_judge(judge).protocols
    use = ui.Mend("Use the naive judge", lambda: state.use_judge(state.DEFAULT_JUDGE))
    return (
        ui.needs([ui.Need(what, False, mends=(use,))], key="lab") if protocols and protocol not in protocols else True
    )


def _scored(judge: str, dataset: Dataset) -> None:
    """Responses that get a score: one of them, the whole set, a phrase of one's own, a screen."""
    names = [state.TAB_ONE, state.TAB_SET, state.TAB_SUFFIX, state.TAB_SCREEN]
    one, whole, learn, screen = st.tabs(names, key=state.TAB, bind="query-params", on_change="rerun")
    if one.open:
        with one:
            one_response(judge, dataset)
    if whole.open:
        with whole:
            whole_set(judge, dataset)
    if learn.open:
        with learn:
            suffix_search(judge, dataset)
    if screen.open:
        with screen:
            screen_threshold(dataset)


with frame.actions:
    ui.compare_judge(key="lab")
with frame.banner:
    dataset = chosen_dataset()
if dataset:
    with frame.body:
        judge = state.text(state.JUDGE)
        if dataset.task != Task.VERIFICATION:
            if _answers(judge, Protocol.POINTWISE, "a judge that scores one response"):
                _scored(judge, dataset)
        elif _answers(judge, Protocol.VERIFIER, "a judge that checks an answer against a reference"):
            verify_one(dataset)
            ui.nothing_yet("All questions under all master keys:", "pages/reference_swap/page.py", "Reference swap")
