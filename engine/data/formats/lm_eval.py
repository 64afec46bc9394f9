"""lm-eval's samples (`--log_samples`): one line for a document and a filter."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from engine.data.formats.base import Format, Record, RowError, Source
from engine.data.formats.building import Builder, Row, score_verdict
from engine.data.mapping import parse_number
from engine.schema import Task

_KNOWN = frozenset(
    {
        "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
        "prompt_hash", "target_hash",
    }
)  # fmt: skip
_NAME = re.compile(r"samples_(.+?)_\d{4}-\d{2}-\d{2}T.*")


def read_samples(source: Source, builder: Builder) -> None:
    """A response for each generation; each metric, for each filter, is a judge's score."""
    named = _NAME.fullmatch(PurePath(source.filename).stem)
    group = named[1] if named else None
    for record in builder.records():
        with builder.row(record):
            item = record.needed("doc_id")
            texts = _responses(record)
            names = [item + (f":{i}" if len(texts) > 1 else "") for i in range(1, len(texts) + 1)]
            responses = [{"response_id": n, "item_id": item, "text": t} for n, t in zip(names, texts, strict=True)]
            target = record.get("target")
            row = {"item_id": item, "context": _prompt(record), "reference": target or None, "group": group}
            verdicts = _verdicts(record, item, names[0]) if len(texts) == 1 else []
            builder.add(record, [row], responses, verdicts=verdicts)
            if len(texts) > 1:
                builder.report(
                    "warning", record, "The metrics are of several responses together and are not read as verdicts.",
                    "Run with one repeat where a score for each response is wanted.",
                )  # fmt: skip
    builder.notes.append(
        "A response is what the model wrote, before any filter; the judge “lm-eval/METRIC/FILTER” is the harness's own "
        "score of it."
    )


def _responses(record: Record) -> list[str]:
    found = record.json("resps")
    if isinstance(found, list) and found and isinstance(found[0], list):
        found = found[0] if len(found) == 1 else found
    if not isinstance(found, list) or not found:
        raise RowError("resps holds no response.", "Log the samples of a task that generates text.", "resps")
    if not all(isinstance(text, str) for text in found):
        raise RowError(
            "resps holds likelihoods of given choices, not text that a judge could read.",
            "Use a task that generates text (output_type: generate_until).",
            "resps",
        )
    texts: list[str] = found
    return texts


def _prompt(record: Record) -> str:
    arguments = record.json("arguments")
    first: Any = None
    if isinstance(arguments, dict):
        first = next(iter(arguments.values()), None)
        first = first.get("arg_0") if isinstance(first, dict) else first
    elif isinstance(arguments, list) and arguments:
        first = arguments[0]
    if isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, str):
        raise RowError("arguments holds no prompt.", "lm-eval writes {gen_args_0: {arg_0: ...}}.", "arguments")
    return first


def _verdicts(record: Record, item: str, response: str) -> list[Row]:
    listed = record.json("metrics")
    names = listed if isinstance(listed, list) else [c for c in record.cells if c not in _KNOWN]
    chosen = record.get("filter") or "none"
    out: list[Row] = []
    for name in map(str, names):
        text = record.get(name)
        number = {"true": 1.0, "false": 0.0}.get(text, parse_number(text))
        unread = "" if number is not None else f"{name} {text[:40]!r} is no number" if text else "no score recorded"
        out.append(score_verdict(f"lm-eval/{name}/{chosen}", item, response, number, unread))
    return out


LM_EVAL = Format(
    "lm-eval",
    "lm-eval samples",
    "Generations of a model with the harness's metrics, one line a document and filter.",
    (("doc_id", "doc", "target", "arguments", "resps", "filtered_resps"),),
    read_samples,
    Task.QUESTION.value,
    telling=("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "doc_hash"),
)
