"""JudgeScope from Python: from a data frame to shifts with intervals, and to figures.

    run = judgescope.score(replies, judge="api:my-model", attacks=["dsi"])
    run.shifts           # a row for each attack and defense: n, mean, shift and its interval
    run.figure("grid")   # drawn in a notebook; `.plotly` is the plotly figure

The names in `__all__` are stable. Importing this loads none of the libraries; a run loads what it needs. Runs are kept
in the user's data folder, where the command line and the dashboard find them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import __version__
from engine.core.errors import EngineError, InputError

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from engine.data.raw import RawTable
    from engine.runs.folder import RunFolder
    from engine.studies.study import Context, Study

__all__ = [
    "EngineError", "Figure", "InputError", "Run", "__version__", "attacks", "defenses", "judges", "open_run", "score",
    "study",
]  # fmt: skip

FRAME = "data frame"
"""What a data frame is called in runs and on pages, unless it is given a name."""
MOST_ROWS = 40
"""Rows of a run that a notebook shows; the first and the last of more."""


def score(
    data: pd.DataFrame | str,
    judge: str,
    attacks: Sequence[str] = ("dsi", "bed"),
    defenses: Sequence[str] = ("none",),
    **settings: Any,
) -> Run:
    """Score responses as they are and under attacks, without and with defenses.

    Args:
        data: a data frame with a row for each response, or the id of saved data such as `demo-dialogue`.
        judge: a judge's spec: `bundled:naive`, `hf:OWNER/NAME`, `path:FOLDER`, `api:MODEL`, `planted:NAME`, or that of
            a plugin.
        attacks: names, see `attacks()`.
        defenses: names, see `defenses()`; several in one joined by +.
        settings: `columns`, `task` and `name` as in `study`; `limit`, `seed`, `level`, `run_id` and others of the
            attack grid.

    Raises:
        InputError: the data, a name or a setting cannot be used; the message says what is allowed.
    """
    about = {key: settings.pop(key, None) for key in ("columns", "task", "name")}
    given = {"judge": judge, "attacks": tuple(attacks), "defenses": tuple(defenses), **settings}
    from engine.studies.attack_grid.study import STUDY
    from engine.studies.registry import settings_of

    context, named = _context(data, **about)
    return _run(STUDY, settings_of(STUDY.config, {**given, "data": named}, "judgescope.score"), context, "score")


def study(
    kind: str,
    data: pd.DataFrame | str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    task: str | None = None,
    name: str | None = None,
    **settings: Any,
) -> Run:
    """Run a study by its name: `grid`, `checkup`, `protocols`, `puaudit`, `refswap`, `cap` and others.

    Args:
        kind: a name as in `judgescope study NAME`, or the path of a TOML file.
        data: a data frame, or the id of saved data; by default the study's own.
        columns: field -> column, for example `{"response": "answer"}`, where a column's name does not say it.
        task: of the responses: dialogue, summary, instruction or verification; by default told from the columns.
        name: of the data, in runs and on pages.
        settings: any of the study's, in place of its file's.

    Raises:
        InputError: as `score`.
    """
    from engine.core.settings import get_settings
    from engine.studies.registry import read_study

    context, named = _context(data, columns, task, name)
    changes = settings if data is None else {**settings, "data": named}
    called, found, config = read_study(kind, get_settings().assets / "studies", changes)
    return _run(found, config, context, called)


def open_run(name: str | Path) -> Run:
    """A run by its id, by `recorded:PLACE` where it ships with the project, or by the path of its folder.

    Raises:
        EngineError: there is none.
    """
    from engine.studies.registry import run_at

    return Run(run_at(str(name)))


def judges() -> pd.DataFrame:
    """Judges that can be named without more ado: spec, title, about."""
    from engine.catalog import judges_for
    from engine.core.schema import Protocol

    return _listing({spec: card for protocol in Protocol for spec, card in judges_for(protocol).items()})


def attacks() -> pd.DataFrame:
    """Attacks: name, title, about."""
    from engine.catalog import ATTACKS

    return _listing(ATTACKS)


def defenses() -> pd.DataFrame:
    """Defenses: name, title, about."""
    from engine.catalog import DEFENSES

    return _listing(DEFENSES)


def _warn() -> None:
    """Name the plugins that could not be loaded, each once."""
    import warnings

    from engine.core.plugins import complaints

    for line in complaints():
        warnings.warn(line, stacklevel=4)


def _listing(cards: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    _warn()
    rows = [(name, card.title, card.about) for name, card in cards.items()]
    return pd.DataFrame(rows, columns=["name", "title", "about"])


@dataclass(frozen=True)
class Run:
    """A run and its tables; in a notebook its shifts, or its metrics.

    Attributes:
        folder: where its tables and its manifest lie.
    """

    folder: RunFolder

    @property
    def run_id(self) -> str:
        """Its name, for `open_run`, the command line and links."""
        return self.folder.run_id

    @property
    def manifest(self) -> dict[str, Any]:
        """Settings, data, judge, versions and state."""
        return self.folder.manifest()

    def table(self, name: str) -> pd.DataFrame:
        """A table of the run by its name: `verdicts`, `metrics` and those of its study.

        Raises:
            EngineError: it has no such table.
        """
        return self.folder.table(name)

    @property
    def metrics(self) -> pd.DataFrame:
        """Every number with n, unread and interval."""
        return self.table("metrics")

    @property
    def verdicts(self) -> pd.DataFrame:
        """Every verdict, with why it is unread where it is."""
        return self.table("verdicts")

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """A row for each attack and defense: n, n_unread, mean, shift against clean, shift_lower, shift_upper.

        Raises:
            InputError: it is no run of attacks on scores.
        """
        import pandas as pd

        from engine.studies.attack_grid.study import arms_of

        metrics = self.metrics
        if not {"attack", "defense"} <= set(metrics) or "shift" not in set(metrics["metric"]):
            raise InputError(f"The run {self.run_id} has no shifts: it attacked no scores. Look at its metrics.")
        return pd.DataFrame(arms_of(metrics))

    @property
    def figures(self) -> dict[str, str]:
        """The figures it can draw: name -> the question each answers."""
        from engine.studies.registry import entries

        return {entry.name: entry.title for entry in entries(self.folder)}

    def figure(self, name: str, **settings: Any) -> Figure:
        """One of its figures.

        Raises:
            InputError: it has no such figure, or a setting is not allowed.
        """
        from engine.studies.figure import Source
        from engine.studies.registry import entry_of

        source = Source(self.folder)
        entry = entry_of(source, name)
        table = entry.prepare(source, **settings)
        return Figure(name, entry.plot(table), table, entry.caption(table))

    def __repr__(self) -> str:
        held = self.manifest
        judge, data = held.get("judge") or {}, held.get("data") or {}
        return f"Run {self.run_id} ({held.get('state')}): judge {judge.get('spec')}, data {data.get('name')}"

    def _repr_html_(self) -> str:
        try:
            shown = self.shifts
        except InputError:
            shown = self.metrics
        table = shown.to_html(index=False, na_rep="", float_format="{:.3f}".format, max_rows=MOST_ROWS)
        return f"<p>{escape(repr(self))}</p>{table}"


@dataclass(frozen=True, repr=False)
class Figure:
    """A figure as it stands in a report; in a notebook it is drawn, with its caption, and loads nothing from outside.

    Attributes:
        name: among those of its run.
        plotly: the plotly figure.
        table: the numbers it is drawn from.
        caption: title, n, unread, interval method, judge and data, as plain text.
    """

    name: str
    plotly: go.Figure
    table: pd.DataFrame
    caption: str

    def __repr__(self) -> str:
        return f"Figure {self.name}: {self.caption}"

    def _repr_html_(self) -> str:
        drawn = self.plotly.to_html(full_html=False, include_plotlyjs=True)
        return f"{drawn}<p>{escape(self.caption)}</p>"


def _run(found: Study, config: Any, context: Context, name: str) -> Run:
    """Carry a study out; stopped by its budget it is a run all the same, whose manifest says so."""
    from engine.core.errors import OutOfCalls
    from engine.studies.running import carry_out

    _warn()
    config = found.prepare(config, context)
    folder = found.begin(config, context.settings.runs, name)
    with suppress(OutOfCalls):
        carry_out(found, config, context, folder)
    return Run(folder)


def _context(
    data: pd.DataFrame | str | None,
    columns: Mapping[str, str] | None = None,
    task: str | None = None,
    name: str | None = None,
) -> tuple[Context, str]:
    """Context of a run, and the name under which it opens the data."""
    from engine.core.settings import get_settings
    from engine.studies.study import Context

    settings = get_settings()
    if data is None or isinstance(data, str):
        if columns or task or name:
            raise InputError("columns, task and name describe a data frame; saved data has its own.")
        return Context(settings, local_files=True), str(data)
    called = name or FRAME
    return Context(settings, opener=_frame_opener(data, dict(columns or {}), task, called), local_files=True), called


def _frame_opener(frame: pd.DataFrame, columns: dict[str, str], task: str | None, name: str) -> Any:
    """Opens this data frame by its name, and all else as the worker does; what is opened is saved, as from a file."""
    from engine.core.settings import get_settings
    from engine.data.comparisons import ALIASES, Comparisons, comparisons_of, save_comparisons
    from engine.data.dataset import Dataset, build_dataset
    from engine.data.guessing import guess_task
    from engine.data.store import save_dataset
    from engine.studies.study import SavedData

    settings, raw = get_settings(), _cells(frame, name)

    class Frame(SavedData):
        """The data frame and the saved data."""

        def dataset(self, wanted: str) -> Dataset:
            if wanted != name:
                return super().dataset(wanted)
            mapping = _mapping(raw.frame, columns)
            made = build_dataset(raw, mapping, task=task or guess_task(raw.frame, mapping)[0], name=name)
            save_dataset(made, settings.datasets)
            return made

        def comparisons(self, wanted: str) -> Comparisons:
            if wanted != name:
                return super().comparisons(wanted)
            made = comparisons_of(name, raw, columns)
            save_comparisons(made, settings.comparisons)
            return made

        def holds_pairs(self, wanted: str) -> bool:
            if wanted != name:
                return super().holds_pairs(wanted)
            names = {columns.get(side, side) for side in ("response_a", "response_b")}
            found = set(map(str, raw.frame.columns))
            return names <= found or all(found & set(ALIASES[side]) for side in ("response_a", "response_b"))

    return Frame(settings)


def _cells(frame: pd.DataFrame, name: str) -> RawTable:
    """The data frame as the reader of files sees it, so that one has the same rows and ids as the other."""
    from engine.data.reading import read_table

    if not hasattr(frame, "to_csv"):
        raise InputError(f"The data is a {type(frame).__name__}; give a pandas data frame, or the id of saved data.")
    try:
        content = frame.to_csv(index=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("A cell of the data frame holds half of a character (a lone surrogate). Mend it.") from None
    return read_table(f"{name}.csv", content, delimiter=",", encoding="utf-8")


def _mapping(frame: pd.DataFrame, columns: dict[str, str]) -> dict[str, str]:
    """Columns as they were given, and those whose name says for certain what they hold.

    Raises:
        InputError: a column that is given is not there, or none holds the responses.
    """
    from engine.core.errors import listed
    from engine.data.guessing import guess_columns

    if missing := [column for column in columns.values() if column not in frame.columns]:
        raise InputError(f"There is no column {listed(missing)}; the columns are {listed(frame.columns)}.")
    sure = {field: one.column for field, one in guess_columns(frame).columns.items() if one.sure == "sure"}
    open_ones = {f: column for f, column in sure.items() if f not in columns and column not in columns.values()}
    if "response" not in (mapping := open_ones | columns):
        raise InputError(
            f"No column's name says that it holds the responses; the columns are {listed(frame.columns)}. Say which: "
            'columns={"response": "..."}.'
        )
    return mapping
