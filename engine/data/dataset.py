"""A data set: items and responses, a name, a task, the problems found, and an id made from its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import Any

import pandas as pd

from engine.core.errors import InputError, shown
from engine.core.schema import ITEMS, RESPONSES, Table, Task
from engine.data.mapping import SPELLINGS, check_mapping, parse_number, says_correct
from engine.data.raw import Problem, RawTable, Severity, cells_of, place

# Mapped records -> rows of the items and responses tables, with every problem found on the way.

CELLS_COMPARED = ("text", "item_id", "system", "human_score", "quality")
"""Columns that must agree when two rows carry the same response id."""


@dataclass
class Record:
    """One row of the user's file, by our field names.

    Attributes:
        row: 1-based record number.
        line: 1-based line of the file.
        text: the response, verbatim.
        cells: the other mapped fields; missing, empty and whitespace-only ones are None.
        item_id: the item it belongs to, once that is known.
    """

    row: int
    line: int
    text: str
    cells: dict[str, str | None]
    item_id: str = ""

    @property
    def place(self) -> str:
        """The row and line, for messages."""
        return place(self.row, self.line)


class Rows:
    """Collects the records of a file into table rows and problems.

    Attributes:
        problems: everything found, in the order of the steps. Where answers are `verified` against a reference, a
            quality that says neither correct nor incorrect is one.
        items: rows of the items table, without the task.
        responses: rows of the responses table.
    """

    def __init__(
        self, raw: RawTable, columns: Mapping[str, str], left_out: Collection[int] = (), *, verified: bool = False
    ) -> None:
        self._columns, self._verified = columns, verified
        # what is wrong with a row that the user leaves out is of no consequence any more
        self.problems: list[Problem] = [p for p in raw.problems if p.row not in left_out]
        self.items: list[dict[str, str | None]] = []
        self.responses: list[dict[str, str | float | None]] = []
        records = self._records(raw, left_out)
        if "item_id" in columns:
            records = [r for r in records if self._has_item(r)]
        _name_items(records, "item_id" in columns)
        self._collect_items(records)
        self._collect_responses(records)

    def _report(self, severity: Severity, record: Record, field: str, what: str, fix: str) -> None:
        column = self._columns.get(field, "")
        self.problems.append(Problem(severity, place(record.row, record.line, column), what, fix, record.row))

    def _records(self, raw: RawTable, left_out: Collection[int]) -> list[Record]:
        """The records that can enter, exact repeats once."""
        excluded = {p.row for p in raw.problems if p.severity == "excluded"} | set(left_out)
        seen: dict[tuple[str | None, ...], int] = {}
        out: list[Record] = []
        names = list(raw.frame.columns)
        positions = {field: names.index(column) for field, column in self._columns.items()}
        for row, cells in enumerate(zip(*(cells_of(raw.frame[c]) for c in names), strict=True), start=1):
            if row in excluded:
                continue
            mapped = {field: cells[i] for field, i in positions.items()}
            text = mapped.pop("response")
            kept = {f: v if v and v.strip() else None for f, v in mapped.items()}
            record = Record(row, raw.lines[row - 1], text or "", kept)
            if cells in seen:
                self._report(
                    "warning",
                    record,
                    "",
                    f"The row repeats row {seen[cells]} in every cell; it is kept once.",
                    "Remove it, or give each of the two its own response id if both are meant.",
                )
                continue
            seen[cells] = row
            if self._has_text(record, text):
                out.append(record)
        return out

    def _has_text(self, record: Record, text: str | None) -> bool:
        if text is None:
            self._report("excluded", record, "response", "The response is missing.", "Fill it in, or remove the row.")
            return False
        if not text.strip():
            what = "empty" if not text else "only white space"
            self._report(
                "warning",
                record,
                "response",
                f"The response is {what}; it is kept and judged as it stands.",
                "Nothing, if the system answered so; otherwise fill it in or remove the row.",
            )
        return True

    def _has_item(self, record: Record) -> bool:
        if record.cells.get("item_id") is None:
            self._report(
                "excluded",
                record,
                "item_id",
                "The item id is missing, so the response belongs to no item.",
                "Fill it in, or map no item id: then responses with the same context form an item.",
            )
            return False
        return True

    def _collect_items(self, records: list[Record]) -> None:
        """One row per item: the first value given for each field; a second, different one is a problem."""
        items: dict[str, dict[str, str | None]] = {}
        given: dict[tuple[str, str], Record] = {}
        for record in records:
            item = items.setdefault(record.item_id, {"item_id": record.item_id})
            for name in ("context", "reference", "group", "rules"):
                value = record.cells.get(name)
                if value is None:
                    continue
                if (record.item_id, name) not in given:
                    given[record.item_id, name] = record
                    item[name] = value
                elif item[name] != value:
                    self._report_two_values(record, given[record.item_id, name], name)
        self.items = list(items.values())
        if "context" in self._columns:
            for record in records:
                if "context" not in items[record.item_id]:
                    self._report(
                        "warning",
                        record,
                        "context",
                        "The context is empty; the judge sees the response alone.",
                        "Fill it in, or remove the row.",
                    )

    def _report_two_values(self, record: Record, first: Record, field: str) -> None:
        column = self._columns[field]
        named = f"item id {shown(record.item_id)}" if "item_id" in self._columns else "the same context"
        what = f"Row {first.row} and row {record.row} have {named} and a different {field} (column {column})."
        if field == "group":
            self._report("warning", record, field, f"{what} The first is used.", "Give both the same group.")
            return
        self._report(
            "error",
            record,
            field,
            what,
            f"Give the two rows different item ids, or make their {field} the same to the last character.",
        )

    def _collect_responses(self, records: list[Record]) -> None:
        kept: dict[str, tuple[Record, dict[str, str | float | None]]] = {}
        new_id = _numbered("r", {r.cells.get("response_id") for r in records})
        for record in records:
            response_id = record.cells.get("response_id")
            if response_id is None:
                response_id = new_id(record.row)
                if "response_id" in self._columns:
                    self._report(
                        "warning",
                        record,
                        "response_id",
                        f"The response id is missing; the row is called {response_id}.",
                        "Fill it in if you want to find the row under your own id.",
                    )
            row: dict[str, str | float | None] = {
                "response_id": response_id,
                "item_id": record.item_id,
                "system": record.cells.get("system"),
                "text": record.text,
                "human_score": self._human_score(record),
                "quality": self._quality(record),
            }
            if response_id in kept:
                self._report_same_id(record, row, *kept[response_id])
                continue
            kept[response_id] = (record, row)
        self.responses = [row for _, row in kept.values()]

    def _report_same_id(
        self,
        record: Record,
        row: dict[str, str | float | None],
        first: Record,
        first_row: dict[str, str | float | None],
    ) -> None:
        response_id = row["response_id"]
        differ = [c for c in CELLS_COMPARED if row[c] != first_row[c]]
        if not differ:
            self._report(
                "warning",
                record,
                "response_id",
                f"Row {first.row} has the same response id {shown(response_id)} and content; it is kept once.",
                "Remove one of the two.",
            )
            return
        self._report(
            "error",
            record,
            "response_id",
            f"Row {first.row} (response id {shown(response_id)}, item {shown(first.item_id)}) and row {record.row} "
            f"(response id {shown(response_id)}, item {shown(record.item_id)}) have one id and a different "
            f"{', '.join(differ)}.",
            "Give the two rows different response ids, or remove one; or map no response id, then rows are numbered.",
        )

    def _human_score(self, record: Record) -> float | None:
        text = record.cells.get("human_score")
        if text is None:
            return None
        number = parse_number(text)
        if number is None:
            self._report(
                "warning",
                record,
                "human_score",
                f"{shown(text)} is not a number; the response is kept without a human score.",
                "Write a number with a point, such as 4 or 3.5, or leave the cell empty.",
            )
        return number

    def _quality(self, record: Record) -> str | None:
        text = record.cells.get("quality")
        if self._verified and text is not None and says_correct(text) is None:
            self._report(
                "error",
                record,
                "quality",
                f"{shown(text)} says neither correct nor incorrect.",
                f"Read are {SPELLINGS}. Write one of these, leave the cell empty, or choose no column as Quality.",
            )
        return text


def _name_items(records: list[Record], mapped: bool) -> None:
    """Set each record's item id: the user's, else one per context; a record without one is its own item."""
    by_context: dict[str, str] = {}
    count = 0
    for record in records:
        context = record.cells.get("context")
        if mapped:
            record.item_id = record.cells.get("item_id") or ""
        elif context is not None and context in by_context:
            record.item_id = by_context[context]
        else:
            count += 1
            record.item_id = f"i{count:04d}"
            if context is not None:
                by_context[context] = record.item_id


def _numbered(prefix: str, taken: set[str | None]) -> Callable[[int], str]:
    """A maker of ids such as r0001 that steps around those the user has given."""
    used = set(taken)

    def make(number: int) -> str:
        name = f"{prefix}{number:04d}"
        while name in used:
            name += "x"
        used.add(name)
        return name

    return make


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
        raise InputError(f"The task {shown(task)} is not known; allowed: {', '.join(Task)}.")
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


_ROWS_AT_ONCE = 8192
"""Rows whose cells are plain texts at the same time."""


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
    for start in range(0, len(frame), _ROWS_AT_ONCE):
        part = frame.iloc[start : start + _ROWS_AT_ONCE]
        for values in zip(*(map(_as_json, cells_of(part[name])) for name in names), strict=True):
            yield f"[{', '.join(values)}]"


def _as_json(value: object) -> str:
    """As `json.dumps` writes it, which for texts is much slower."""
    if value is None:
        return "null"
    return encode_basestring_ascii(value) if isinstance(value, str) else json.dumps(value)


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
