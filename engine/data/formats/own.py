"""The project's own plain layouts, so that any file can be turned into them and back: responses, pairs, verdicts."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from engine.data.comparisons import Comparisons, read_comparisons
from engine.data.dataset import Dataset, build_dataset
from engine.data.formats.base import Imported
from engine.data.formats.registry import FORMATS
from engine.data.formats.use import as_comparisons, as_dataset, as_recording
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.recording import parse_recording
from engine.schema import COMPARISONS, ITEMS, RESPONSES, VERDICTS


def write_responses(found: Imported) -> bytes:
    """A CSV with one response a row, as the Data page reads it."""
    data = as_dataset(found)
    items = data.items[["item_id", "context", "reference", "group"]]
    table = data.responses.merge(items, on="item_id", how="left").rename(columns={"text": "response"})
    named = ["response_id", "item_id", "context", "response", "system", "human_score", "quality", "reference", "group"]
    return _csv(table[[c for c in named if table[c].notna().any()]])


def write_pairs(found: Imported) -> bytes:
    """A CSV with one pair a row, as the Transport audit reads it."""
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
    return _csv(table[[c for c in table.columns if table[c].notna().any()]])


def write_verdicts(found: Imported) -> bytes:
    """A CSV with one judge call a row, as a recorded judge reads it."""
    frame, _ = as_recording(found)
    return _csv(frame[[c for c in frame.columns if frame[c].notna().any()]])


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, lineterminator="\n").encode("utf-8")


Write = Callable[[Imported], bytes]
OWN: dict[str, tuple[str, Write]] = {
    "responses": (".csv", write_responses),
    "pairs": (".csv", write_pairs),
    "verdicts": (".csv", write_verdicts),
}
"""Layouts that are written beside the known formats, with their ending."""


def writers() -> dict[str, tuple[str, Write]]:
    """Every name that can be written, with the ending of its files."""
    return {name: (form.ending, form.write) for name, form in FORMATS.items()} | OWN


def of_dataset(data: Dataset) -> Imported:
    """A data set of any origin as an import, so that it can be written."""
    return Imported("responses", data.name, data.task, data.items, data.responses, COMPARISONS.empty(),
                    VERDICTS.empty(), problems=data.problems, n_records=len(data.responses))  # fmt: skip


def of_comparisons(data: Comparisons) -> Imported:
    """A set of pairs of any origin as an import; its verdicts, if any, stay with the pairs."""
    task = str(data.items["task"].iloc[0])
    tables = (ITEMS.conform(data.items), RESPONSES.conform(data.responses), COMPARISONS.conform(data.comparisons))
    return Imported("pairs", data.name, task, *tables, VERDICTS.empty(), n_records=len(data.comparisons))


def read_own(name: str, content: bytes, task: str) -> Imported:
    """A file of one of our own layouts as an import.

    Args:
        name: a key of `OWN`.
        content: bytes that its writer made.
        task: what the items ask for.

    Raises:
        InputError: it cannot be read.
    """
    filename = name + OWN[name][0]
    if name == "pairs":
        return of_comparisons(read_comparisons(filename, content))
    if name == "verdicts":
        verdicts = parse_recording(filename, content).verdicts
        return Imported(name, filename, task, ITEMS.empty(), RESPONSES.empty(), COMPARISONS.empty(), verdicts)
    raw = read_table(filename, content)
    return of_dataset(build_dataset(raw, suggest_mapping(raw.frame), task=task, name=filename))
