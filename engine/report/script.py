"""The short script that makes one figure again from its run folder."""

from __future__ import annotations

from collections.abc import Mapping

from engine.gallery import Entry
from engine.runs import versions

_SCRIPT = """\
# {title}
# Makes the figure again from its run folder:  python {name}.py [RUN] [OUT]
# RUN is the run folder or its name; OUT is where the files go. Needs JudgeScope {version}.
import sys
from pathlib import Path

from engine.gallery import entry_of, run_at
from engine.spreadsheet import safe_csv

RUN = sys.argv[1] if len(sys.argv) > 1 else {run!r}
OUT = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
SETTINGS = {settings}

run = run_at(RUN)
figure = entry_of(run, {entry!r})
table = figure.prepare(run, **SETTINGS)
drawn = figure.plot(table, "light")

OUT.mkdir(parents=True, exist_ok=True)
(OUT / "{name}.csv").write_bytes(safe_csv(table))
drawn.write_json(OUT / "{name}.json")
drawn.write_html(OUT / "{name}.html")
print(figure.caption(table))
"""


def remake_script(entry: Entry, run: str, settings: Mapping[str, object], name: str = "") -> str:
    """Python source that draws `entry` of `run` at these settings and writes its table, JSON and HTML.

    Args:
        entry: a figure of the gallery; its title and name are ours, so they can stand in the source.
        run: name of the run, from `engine.gallery.name_of`; used where no other is given.
        settings: plain numbers and text; written as Python literals, so that no text of a user can act.
        name: of the files; letters, digits, dash and underscore.
    """
    lines = [f"    {key!r}: {value!r}," for key, value in settings.items()]
    literal = "{\n" + "\n".join(lines) + "\n}" if lines else "{}"
    return _SCRIPT.format(
        title=entry.title,
        name=name or entry.name,
        version=versions()["judgescope"],
        run=run,
        settings=literal,
        entry=entry.name,
    )
