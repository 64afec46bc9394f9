"""lm-eval's samples (`--log_samples`): one line for a document and a filter."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from engine.core.errors import shown
from engine.core.schema import Protocol, Task
from engine.data.formats.base import Builder, Format, Imported, Record, Row, RowError, Source, score_verdict
from engine.data.formats.writing import Lookup, json_lines, need, number_or_text, one_system, rows_of, texts_of
from engine.data.mapping import parse_number

_KNOWN = frozenset(
    {
        "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
        "prompt_hash", "target_hash",
    }
)  # fmt: skip
_KEPT = ("doc", "arguments", "filtered_resps")
"""Fields without a column in the tables, kept to be written again."""
_JUDGE = re.compile(r"lm-eval/(.+)/([^/]+)", re.DOTALL)
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
        unread = "" if number is not None else f"{name} {shown(text, 40)} is no number" if text else "no score recorded"
        out.append(score_verdict(f"lm-eval/{name}/{chosen}", item, response, number, unread))
    if out:
        out[0]["origin"] = {name: record.get(name) for name in _KEPT}
    return out


def write_samples(found: Imported) -> bytes:
    """A line for each response and filter, with its metrics; a score of another judge is a metric of that name.

    Several responses to one item are the repeats of one line, whose metrics would be of all of them together: their
    scores have no place.

    Raises:
        InputError: the responses are of several systems.
    """
    need(found, "texts", "lm-eval")
    one_system(found, "lm-eval", "a file")
    return json_lines(_samples(found))


def _samples(found: Imported) -> Iterator[Row]:
    look = Lookup(found)
    texts: dict[str, list[str]] = {}
    for row in texts_of(found):
        texts.setdefault(str(row["item_id"]), []).append(str(row["text"]))
    scored: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows_of(found.verdicts[found.verdicts["protocol"] == Protocol.POINTWISE.value]):
        known = _JUDGE.fullmatch(str(row["judge"]))
        metric, chosen = (known[1], known[2]) if known else (str(row["judge"]), "none")
        item = str(row["item_id"])
        if len(texts.get(item, [])) == 1 and look.text(str(row["response_id"])) == texts[item][0]:
            metric = f"{metric} score" if metric in _KNOWN else metric
            scored.setdefault((item, chosen), {}).setdefault(metric, row)
    for (item, chosen), metrics in scored.items():
        yield _sample(look, item, texts[item], chosen, metrics)
    judged = {item for item, _ in scored}
    for item, said in texts.items():
        if item not in judged:
            yield _sample(look, item, said, "none", {})


def _sample(look: Lookup, item: str, said: list[str], chosen: str, metrics: dict[str, Row]) -> Row:
    prompt, target = look.of_item(item, "context"), look.of_item(item, "reference")
    kept = [look.more(str(row["verdict_id"])) for row in metrics.values()]
    more = {name: json.loads(text) for one in kept for name, text in one.items() if name in _KEPT and text}
    doc = more.get("doc", {"question": prompt, "answer": target})
    told = json.dumps(doc, indent=2, ensure_ascii=False)
    hashed = {"doc_hash": told, "prompt_hash": prompt, "target_hash": target}
    return {
        "doc_id": number_or_text(item),
        "doc": doc,
        "target": target,
        "arguments": more.get("arguments", {"gen_args_0": {"arg_0": prompt, "arg_1": {}}}),
        "resps": [said],
        "filtered_resps": more.get("filtered_resps", said),
        "filter": chosen,
        "metrics": list(metrics),
        **{name: hashlib.sha256(text.encode("utf-8")).hexdigest() for name, text in hashed.items()},
        **{name: row["score"] for name, row in metrics.items()},
    }


LM_EVAL: Format = Format(
    "lm-eval",
    "lm-eval samples",
    "Generations of a model with the harness's metrics, one line a document and filter.",
    (("doc_id", "doc", "target", "arguments", "resps", "filtered_resps"),),
    read_samples,
    Task.QUESTION.value,
    write=write_samples,
    telling=("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "doc_hash"),
)
