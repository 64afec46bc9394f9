"""The figures that can be made from a run folder alone: by name, with settings, caption, data and drawing.

run = RunFolder(Path("folder"))
figure = entry_of(run, "forest")
table = figure.prepare(run, metric="shift")
figure.plot(table, "light").write_html("forest.html")
"""

from engine.gallery.base import Dial, Entry, Source
from engine.gallery.registry import (
    STUDIES,
    entries,
    entry_of,
    find_run,
    name_of,
    recorded_runs,
    run_at,
    study_of,
)
from engine.runs import RunFolder
from engine.runs_kept import RECORDED

__all__ = [
    "RECORDED",
    "STUDIES",
    "Dial",
    "Entry",
    "RunFolder",
    "Source",
    "entries",
    "entry_of",
    "find_run",
    "name_of",
    "recorded_runs",
    "run_at",
    "study_of",
]
