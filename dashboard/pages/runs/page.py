"""Runs: what has been run, what each rests on, how two of them differ; titles, tags, trash, zips."""

from __future__ import annotations

from dashboard import ui
from dashboard.pages.runs.comparison import comparison
from dashboard.pages.runs.one import one_run
from dashboard.pages.runs.overview import bring_in, choose, trash

frame = ui.page_frame("Runs")
with frame.actions:
    bring_in()
chosen = choose(frame)
if len(chosen) == 1:
    one_run(chosen[0])
elif len(chosen) == 2:
    comparison(*chosen)
trash()
