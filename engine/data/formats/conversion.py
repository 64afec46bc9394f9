"""One format into another: what is written, what reading it again gives, and what has no place in it."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

import pandas as pd

from engine.core.errors import InputError
from engine.core.json import dumps
from engine.core.schema import COMPARISONS, ITEMS, RESPONSES, VERDICTS
from engine.data.comparisons import Comparisons, read_comparisons
from engine.data.dataset import Dataset, build_dataset
from engine.data.formats.base import Imported, plural
from engine.data.formats.registry import FORMATS, read_known
from engine.data.formats.use import as_comparisons, as_dataset, as_recording
from engine.data.formats.writing import json_lines, rows_of
from engine.data.mapping import suggest_mapping
from engine.data.reading import EXTENSIONS, read_table
from engine.data.recording import parse_recording
from engine.data.workbook import write_workbook

# The project's own plain layouts, so that any file can be turned into them and back: responses, pairs, verdicts.


def responses_table(found: Imported) -> pd.DataFrame:
    """One response a row, as the Data page reads it."""
    data = as_dataset(found)
    items = data.items[["item_id", "context", "reference", "group"]]
    table = data.responses.merge(items, on="item_id", how="left").rename(columns={"text": "response"})
    named = ["response_id", "item_id", "context", "response", "system", "human_score", "quality", "reference", "group"]
    return table[[c for c in named if table[c].notna().any()]]


def pairs_table(found: Imported) -> pd.DataFrame:
    """One pair a row, as the Transport audit reads it."""
    pairs = as_comparisons(found)
    responses = pairs.responses.set_index("response_id")
    items = pairs.items.set_index("item_id")
    rows = pairs.comparisons
    table = pd.DataFrame(
        {
            "comparison_id": rows["comparison_id"],
            "item_id": rows["item_id"],
            "prompt": rows["item_id"].map(items["context"]),
            "response_a": rows["response_a"].map(responses["text"]),
            "response_b": rows["response_b"].map(responses["text"]),
            "system_a": rows["response_a"].map(responses["system"]),
            "system_b": rows["response_b"].map(responses["system"]),
            "type": rows["item_id"].map(items["group"]),
            "human": rows["human"],
            "verdict": rows["verdict"],
            "verdict_ba": rows["verdict_ba"],
        }
    )
    return table[[c for c in table.columns if table[c].notna().any()]]


def verdicts_table(found: Imported) -> pd.DataFrame:
    """One judge call a row, as a recorded judge reads it."""
    frame, _ = as_recording(found)
    return frame[[c for c in frame.columns if frame[c].notna().any()]]


def table_file(table: pd.DataFrame, ending: str) -> bytes:
    """A table as a file that `read_table` gives back text for text.

    Args:
        table: texts and numbers; what is missing is None or NaN.
        ending: a value of `reading.EXTENSIONS`.

    Raises:
        InputError: a text is longer than a cell of a workbook.
    """
    if ending == ".xlsx":
        return write_workbook(table)
    if ending == ".parquet":
        return table.to_parquet(index=False)
    if ending in (".json", ".jsonl"):
        rows = [{k: v for k, v in row.items() if v is not None} for row in rows_of(table)]
        return json_lines(rows) if ending == ".jsonl" else dumps(rows, indent=1).encode("utf-8")
    # every text in quotes: a lone carriage return would end the record; the mark tells spreadsheets the encoding
    separator = "\t" if ending == ".tsv" else ","
    text = table.to_csv(index=False, sep=separator, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return text.encode("utf-8-sig")


OWN: dict[str, Callable[[Imported], pd.DataFrame]] = {
    "responses": responses_table,
    "pairs": pairs_table,
    "verdicts": verdicts_table,
}
"""Layouts that are written beside the known formats, as any kind of table."""


def writers() -> dict[str, tuple[str, ...]]:
    """Every name that can be written, with the endings of its files, the usual one first."""
    return {name: (form.ending,) for name, form in FORMATS.items() if form.write} | dict.fromkeys(OWN, EXTENSIONS)


def of_dataset(data: Dataset) -> Imported:
    """A data set of any origin as an import, so that it can be written."""
    return Imported("responses", data.name, data.task, data.items, data.responses, COMPARISONS.empty(),
                    VERDICTS.empty(), problems=data.problems, n_records=len(data.responses))  # fmt: skip


def of_comparisons(data: Comparisons) -> Imported:
    """A set of pairs of any origin as an import; its verdicts, if any, stay with the pairs."""
    task = str(data.items["task"].iloc[0])
    tables = (ITEMS.conform(data.items), RESPONSES.conform(data.responses), COMPARISONS.conform(data.comparisons))
    return Imported("pairs", data.name, task, *tables, VERDICTS.empty(), n_records=len(data.comparisons))


def read_own(name: str, filename: str, content: bytes, task: str) -> Imported:
    """A file of one of our own layouts as an import.

    Args:
        name: a key of `OWN`.
        filename: its ending says which kind of table it is.
        content: bytes that `table_file` made.
        task: what the items ask for.

    Raises:
        InputError: it cannot be read.
    """
    if name == "pairs":
        return of_comparisons(read_comparisons(filename, content))
    if name == "verdicts":
        verdicts = parse_recording(filename, content).verdicts
        return Imported(name, filename, task, ITEMS.empty(), RESPONSES.empty(), COMPARISONS.empty(), verdicts)
    raw = read_table(filename, content)
    return of_dataset(build_dataset(raw, suggest_mapping(raw.frame), task=task, name=filename))


@dataclass(frozen=True)
class LeftOut:
    """Content that a file of the other format does not hold.

    Attributes:
        n: how many.
        what: of what, in the singular.
        why: the reason.
    """

    n: int
    what: str
    why: str

    def in_words(self) -> str:
        """Such as "3 pairs (a tie)"."""
        return f"{plural(self.n, self.what)} ({self.why})"


@dataclass(frozen=True)
class Written:
    """A file in another format.

    Attributes:
        content: its bytes.
        holds: what reading it again gives.
        left_out: what was read and is not in it.
    """

    content: bytes
    holds: Imported
    left_out: list[LeftOut]

    def in_words(self) -> str:
        """Missing content, in a sentence; empty where there is none."""
        return f"Left out: {'; '.join(one.in_words() for one in self.left_out)}." if self.left_out else ""


def write_as(found: Imported, name: str, ending: str = "") -> Written:
    """Write an import in a format, and read the file again to count what it holds.

    Args:
        found: the import.
        name: a key of `writers`.
        ending: of the file, one that `writers` lists; empty for the usual one.

    Raises:
        InputError: it is not written, or not under this ending; the import lacks what it is about; or the file could
            not be read again.
    """
    able = writers()
    if name not in able:
        why = "is read, not written" if name in FORMATS else "is not known"
        raise InputError(f"The format {name!r} {why}. Written are: {', '.join(able)}.")
    ending = ending or able[name][0]
    if ending not in able[name]:
        raise InputError(f"A file of {name} ends in {' or '.join(able[name])}, not in {ending!r}. Rename --out.")
    kept, left_out = _one_vote_each(found) if name == "pairs" else (found, [])
    write = FORMATS[name].write if name in FORMATS else None
    content = write(kept) if write else table_file(OWN[name](found), ending)
    if not content.strip() or content == b"[]":
        raise InputError(f"{found.name!r} holds nothing that {name} has a place for: {found.counts()}.")
    filename = PurePath(found.name).stem + ending
    try:
        holds = read_own(name, filename, content, found.task) if name in OWN else read_known(filename, content, name)
    except InputError as error:
        raise InputError(f"{found.name!r} written as {name} could not be read again: {error}") from None
    return Written(content, holds, left_out + list(_lost(kept, holds, name)))


def _one_vote_each(found: Imported) -> tuple[Imported, list[LeftOut]]:
    """The import with each pair once, and why the others are not in our table of pairs."""
    one_each = as_comparisons(found)
    reasons = Counter(one_each.left_out)
    if further := len(found.comparisons) - len(one_each.comparisons) - reasons.total():
        reasons["further votes on a pair, whose majority is written"] = further
    with_verdicts = one_each.comparisons[["verdict", "verdict_ba"]].notna().any(axis=None)
    unread = found.verdicts["unread_reason"].notna()  # what was read stands beside the pairs
    kept = replace(
        found, comparisons=one_each.comparisons, verdicts=found.verdicts[unread if with_verdicts else slice(None)]
    )
    return kept, [LeftOut(n, "pair", reason) for reason, n in reasons.items()]


def _lost(kept: Imported, holds: Imported, name: str) -> Iterator[LeftOut]:
    """Parts of an import that reading the file again does not give."""
    damaged = next((p.what for p in holds.problems if p.severity == "excluded"), "")
    no_place = f"no place in {name}"
    why = f"cannot be read again as {name}: {damaged}" if damaged else no_place
    used = pd.concat([kept.comparisons["response_a"], kept.comparisons["response_b"]])
    items = kept.comparisons["item_id"]
    for what, table, column, paired in (
        ("response text", "responses", "text", used),
        ("context", "items", "context", items),
    ):
        rows: pd.DataFrame = getattr(kept, table)
        there = rows[rows[column].fillna("").str.strip() != ""]
        gone = there[~there[column].isin(set(getattr(holds, table)[column].dropna()))]
        alone = ~gone.iloc[:, 0].isin(set(paired)) if len(holds.comparisons) else pd.Series(False, index=gone.index)
        for n, reason in ((int(alone.sum()), "in no pair that is written"), (int((~alone).sum()), why)):
            if n:
                yield LeftOut(n, what, reason)
    if unnamed := len(set(kept.responses["system"].dropna()) - set(holds.responses["system"].dropna())):
        yield LeftOut(unnamed, "system name", no_place)
    counted: tuple[tuple[str, Callable[[Imported], int]], ...] = (
        ("pair", lambda one: len(one.comparisons)),
        ("human preference", lambda one: _there(one.comparisons["human"])),
        ("textless response", lambda one: len(one.responses) - _there(one.responses["text"])),
        ("human score", lambda one: _there(one.responses["human_score"])),
        ("quality label", lambda one: _there(one.responses["quality"])),
        ("reference", lambda one: _there(one.items["reference"])),
        ("read verdict", lambda one: len(one.verdicts) - _there(one.verdicts["unread_reason"])),
        ("unread verdict", lambda one: _there(one.verdicts["unread_reason"])),
    )
    for what, count in counted:
        if (n := count(kept) - count(holds)) > 0:
            yield LeftOut(n, what, no_place)


def _there(values: pd.Series) -> int:
    return int(values.notna().sum())
