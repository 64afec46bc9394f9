"""Protocols and leaderboard: pairwise or pointwise for my data, and who gains if a weak system sounds more sure?"""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.datasets import suitable_dataset
from dashboard.linked_run import latest
from dashboard.pages.protocols.data import ProtocolRun
from dashboard.pages.protocols.live import one_comparison
from dashboard.pages.protocols.results import results
from dashboard.pages.protocols.setup import actions, mends, needed, pick_task
from dashboard.progress import newest_job, progress
from engine.data.store import DEMO_INSTRUCTION

frame = ui.page_frame("Protocols and leaderboard")
with frame.banner:
    dataset = suitable_dataset(
        lambda held: held.responses["system"].nunique() > 1,
        DEMO_INSTRUCTION,
        said="a leaderboard needs responses of at least two systems to each question.",
        mends=mends(),
    )
if dataset:
    judge = state.text(state.JUDGE)
    run = latest(ProtocolRun, judge, dataset.dataset_id)
    if run is None and dataset.dataset_id != state.text(state.DATA):
        run = latest(ProtocolRun, "", dataset.dataset_id)  # the demo under its banner, whoever judged it
    shown = run if run and run.distractors else None
    job = newest_job(ProtocolRun.kind, judge=judge, data=dataset.dataset_id)
    with frame.banner:
        task = pick_task(dataset)
        if shown is None:
            needed(dataset)
        if job:
            progress(job)
    with frame.actions:
        actions(judge, dataset, task, job, quick=bool(shown and shown.config.get("quick")))
    with frame.body:
        if shown:
            results(frame, shown, dataset, task)
        else:
            frame.headline("This judge has not been run on these data yet. “Quick run” takes at most two minutes.")
            live = st.expander("One comparison, live", key="protocols_live", on_change="rerun")
            with live:
                if live.open:
                    one_comparison(judge, dataset, task)
