"""A data set: items and responses, a name, a task, the problems found, and an id made from its content."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from engine.data.mapping import check_mapping
from engine.data.problems import Problem
from engine.data.raw import RawTable
from engine.data.rows import Rows
from engine.errors import InputError
from engine.schema import ITEMS, RESPONSES, Table, Task

MAX_NAME = 200
"""Longest name of a data set [characters]; the rest is cut."""


@dataclass(frozen=True)
class Dataset:
    """Items and their responses.

    Attributes:
        dataset_id: 16 hex digits of the tables' SHA-256, or `demo-...` for a bundled set.
        name: what the user calls it.
        task: what the items ask for (a value of `schema.Task`).
        items: the `schema.ITEMS` table, in the order of the file.
        responses: the `schema.RESPONSES` table, in the order of the file.
        problems: what was found on the way in; any of severity `error` blocks saving.
        source: how it was read: format, encoding, delimiter, part, n_records, mapping; and `left_out`, the rows
            that the user left out: a list of row, line, reason.
    """

    dataset_id: str
    name: str
    task: str
    items: pd.DataFrame
    responses: pd.DataFrame
    problems: list[Problem] = field(default_factory=list)
    source: dict[str, Any] = field(default_factory=dict)

    @property
    def errors(self) -> list[Problem]:
        """The problems that must be solved before the set can be saved."""
        return [p for p in self.problems if p.severity == "error"]


@dataclass(frozen=True)
class Summary:
    """A data set in numbers.

    Attributes:
        n_responses: responses that are judged.
        n_items: items they answer, the clusters of every interval.
        n_excluded: rows of the file that were left out, by us or by the user.
        n_left_out: those of them that the user left out.
        systems: the systems named, sorted.
        n_human: responses with a human score.
        human_low: lowest human score, None where there is none.
        human_high: highest human score, None where there is none.
    """

    n_responses: int
    n_items: int
    n_excluded: int
    n_left_out: int
    systems: list[str]
    n_human: int
    human_low: float | None
    human_high: float | None


def build_dataset(
    raw: RawTable,
    mapping: Mapping[str, str | None],
    *,
    task: str,
    name: str,
    left_out: Mapping[int, str] | None = None,
) -> Dataset:
    """Make a data set of the rows that can be used, and list what is wrong with the others.

    Args:
        raw: the file as read by `reading.read_table`.
        mapping: field name -> the file's column; empty or None where the file has none.
        task: a value of `schema.Task`.
        name: what the user calls the set.
        left_out: rows (1-based) that the user leaves out, each with the reason; they take no part in anything.

    Raises:
        InputError: the task is unknown, such a row does not exist, or the mapping does not fit the file. What is
            wrong with a row is no exception but a `Problem` of the result.
    """
    if task not in list(Task):
        raise InputError(f"The task {str(task)!r} is not known; allowed: {', '.join(Task)}.")
    columns = check_mapping(raw.frame, mapping)
    left_out = dict(sorted((left_out or {}).items()))
    for row in left_out:
        if not 1 <= row <= len(raw.lines):
            raise InputError(f"There is no row {row} to leave out; the file has rows 1 to {len(raw.lines)}.")
    rows = Rows(raw, columns, left_out, verified=task == Task.VERIFICATION)
    problems = sorted(rows.problems, key=lambda p: p.row or 0)
    if not rows.responses:
        problems.insert(0, Problem("error", "the file", "No row is left to judge.", "Solve the problems by row."))
    if "context" not in columns:
        what = "No column holds the context; the judge sees each response alone."
        problems.insert(0, Problem("warning", "the file", what, "Choose a column for the context if there is one."))
    items = ITEMS.conform(pd.DataFrame([{**item, "task": str(task)} for item in rows.items], columns=ITEMS.names))
    responses = RESPONSES.conform(pd.DataFrame(rows.responses, columns=RESPONSES.names))
    source = {
        "format": raw.format,
        "encoding": raw.encoding,
        "delimiter": raw.delimiter,
        "part": raw.part,
        "n_records": len(raw.frame),
        "mapping": columns,
        "left_out": [{"row": row, "line": raw.lines[row - 1], "reason": why} for row, why in left_out.items()],
    }
    title = " ".join(name.split())[:MAX_NAME] or "Untitled"
    return Dataset(content_digest(items, responses), title, str(task), items, responses, problems, source)


def content_digest(items: pd.DataFrame, responses: pd.DataFrame) -> str:
    """First 16 hex digits of the SHA-256 over both tables, cell by cell.

    It depends on nothing but the cells: not on the file's name, the pandas version or the parquet writer.
    """
    digest = hashlib.sha256()
    for table, frame in ((ITEMS, items), (RESPONSES, responses)):
        for line in _lines(table, frame):
            digest.update(line.encode("utf-8") + b"\n")
    return digest.hexdigest()[:16]


def _lines(table: Table, frame: pd.DataFrame) -> Iterator[str]:
    # ids of sets that were saved before there were rules stay valid
    names = [name for name in table.names if name != "rules" or frame[name].notna().any()]
    yield json.dumps([table.name, *names])
    for values in frame[names].itertuples(index=False, name=None):
        yield json.dumps([None if isinstance(v, float) and math.isnan(v) else v for v in values])


def summarize(dataset: Dataset) -> Summary:
    """Count responses, items and systems, and give the range of the human scores."""
    scores = dataset.responses["human_score"].dropna()
    left_out = {entry["row"] for entry in dataset.source.get("left_out", [])}
    return Summary(
        n_responses=len(dataset.responses),
        n_items=len(dataset.items),
        n_excluded=len(left_out | {p.row for p in dataset.problems if p.severity == "excluded"}),
        n_left_out=len(left_out),
        systems=sorted(dataset.responses["system"].dropna().unique().tolist()),
        n_human=len(scores),
        human_low=float(scores.min()) if len(scores) else None,
        human_high=float(scores.max()) if len(scores) else None,
    )
