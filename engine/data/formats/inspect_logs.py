"""Inspect's logs (.eval and .json), through its own reader and writer, since their layout may change.

Only the recognition looks into the file itself.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from engine.core.errors import InputError, shown
from engine.core.schema import Protocol, Task
from engine.data.formats.base import Builder, Format, Imported, Record, Row, RowError, Source, score_verdict
from engine.data.formats.turns import join_turns
from engine.data.formats.writing import Lookup, need, number_or_text, one_system, rows_of, texts_of
from engine.data.raw import MAX_UNPACKED, check_unpacked, unwritable

EXTRA = "inspect"
"""The extra of this package that installs the reader."""
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grades: correct, partially correct, incorrect, no answer."""
KEYS = ("version", "status", "eval")
"""Keys of a log in JSON."""
Read = Any
"""An EvalLog; the library is optional, so its types are not known here."""


def looks_like_log(content: bytes) -> bool:
    """True where the bytes are an archive with Inspect's header or journal."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    return "header.json" in names or any(n.startswith("_journal/") for n in names)


def read_log(source: Source, builder: Builder) -> None:
    """A response for each sample and epoch; each scorer is a judge.

    Raises:
        InputError: inspect_ai is not installed, or it cannot read the file, or the log has no samples.
    """
    log = _open(source)
    if not log.samples:
        raise InputError(
            f"{source.filename!r} holds no samples (status {log.status}). Run the evaluation with log_samples on."
        )
    builder.n_records = len(log.samples)
    system = str(log.eval.model)
    for row, sample in enumerate(log.samples, start=1):
        record = Record(row, row, {})
        with builder.row(record):
            item = str(sample.id)
            name = f"{item}:{sample.epoch}"
            text = _text(sample)
            context = _input(sample.input)
            target = sample.target if isinstance(sample.target, str) else "; ".join(sample.target)
            error = f"Inspect: {sample.error.message[:200]}" if sample.error else ""
            builder.add(
                record,
                [{"item_id": item, "context": context, "reference": target or None, "group": str(log.eval.task)}],
                [{"response_id": name, "item_id": item, "system": system, "text": text}],
                verdicts=list(_verdicts(sample.scores or {}, item, name, error)),
            )
    builder.notes.append(
        "A response is the output of a sample in an epoch. Each scorer is a judge: C is 1, P is 0.5, I and N are 0; "
        "NaN and any other word is unread."
    )


def _library() -> Any:
    try:
        return importlib.import_module("inspect_ai.log")
    except ImportError:
        raise InputError(
            "Inspect logs are read and written by Inspect's own library, and inspect_ai is not installed. Install it "
            f"with: pip install 'judgescope[{EXTRA}]'"
        ) from None


def _open(source: Source) -> Read:
    library = _library()
    content = source.log or b""
    kind = "eval" if content.startswith(b"PK") else "json"
    if kind == "eval":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_unpacked(source.filename, min(sum(i.file_size for i in archive.infolist()), MAX_UNPACKED + 1))
    try:
        return library.read_eval_log(io.BytesIO(content), resolve_attachments=True, format=kind)
    except Exception as error:  # noqa: BLE001 - the client raises errors of several libraries
        raise InputError(
            f"Inspect cannot read {source.filename!r}: {type(error).__name__}: {str(error)[:300]}. Was it written by a "
            "newer version? Then upgrade inspect_ai."
        ) from None


def _text(sample: Read) -> str | None:
    text = sample.output.completion if sample.output and sample.output.choices else None
    if text is None and not sample.error:
        raise RowError("The sample has no output.", "Run it again, or leave it out.")
    if text is not None and unwritable(text):
        raise RowError("The output holds a NUL character or half of a surrogate pair.", "Leave the sample out.")
    return None if text is None else str(text)


def _input(given: Any) -> str:
    if isinstance(given, str):
        return given
    texts: list[str] = []
    for message in given:
        parts = [] if isinstance(message.content, str) else [p for p in message.content if p.type != "text"]
        if parts:
            raise RowError(
                f"The input holds a part of the kind {parts[0].type!r}; a text judge cannot see it.", "Leave it out."
            )
        texts.append(message.text if message.role == "user" else f"[{message.role}]\n{message.text}")
    return texts[0] if len(texts) == 1 else join_turns(texts)


def _verdicts(scores: Mapping[str, Any], item: str, response: str, error: str) -> Iterator[Row]:
    if not scores and error:
        yield score_verdict("inspect", item, response, None, error)
    for name, score in scores.items():
        raw = str(score.explanation or score.answer or "")
        values = score.value if isinstance(score.value, Mapping) else {"": score.value}
        for key, value in values.items():
            judge = f"inspect/{name}" + (f"/{key}" if key else "")
            number, unread = _value(value)
            reason = str(getattr(score, "reason", "") or "")
            yield score_verdict(judge, item, response, number, error or reason or unread, raw)


def _value(value: Any) -> tuple[float | None, str]:
    """A score as a number, or why it is none."""
    if isinstance(value, bool) or (isinstance(value, (int, float)) and math.isfinite(value)):
        return float(value), ""
    if isinstance(value, str) and value in LETTERS:
        return LETTERS[value], ""
    if value is None or isinstance(value, float):
        return None, "Inspect left it unscored"
    return None, f"value {shown(value, 40)} is in no rule"


def write_log(found: Imported) -> bytes:
    """An archive with a sample for each response; each judge of single responses is a scorer.

    Raises:
        InputError: inspect_ai is not installed, or the responses are of several systems.
    """
    need(found, "texts", "inspect")
    library, system = _library(), one_system(found, "inspect", "a log")
    tasks = list(found.items["group"].dropna().unique())
    header = {
        "created": "1970-01-01T00:00:00+00:00",  # nothing says when; two files of one content are to be alike
        "task": str(tasks[0]) if len(tasks) == 1 else PurePath(found.name).stem,
        "dataset": {},
        "model": system or "none/none",  # Inspect's own name for no model
        "config": {},
    }
    log = {"version": 2, "status": "success", "eval": header, "samples": list(_samples(found, header["model"]))}
    # Inspect writes NaN for what is unscored, which is no JSON elsewhere
    read = library.read_eval_log(io.BytesIO(json.dumps(log).encode("utf-8")), format="json")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.eval"
        library.write_eval_log(read, str(path))
        return path.read_bytes()


def _samples(found: Imported, model: object) -> Iterator[Row]:
    look = Lookup(found)
    scores: dict[str, list[Row]] = {}
    for row in rows_of(found.verdicts[found.verdicts["protocol"] == Protocol.POINTWISE.value]):
        scores.setdefault(str(row["response_id"]), []).append(row)
    failed = [r for r in rows_of(found.responses[found.responses["text"].isna()])
              if any(_error(v) for v in scores.get(str(r["response_id"]), []))]  # fmt: skip
    epochs: dict[str, int] = {}
    place = {str(name): i for i, name in enumerate(found.responses["response_id"])}
    for row in sorted((*texts_of(found), *failed), key=lambda r: place[str(r["response_id"])]):
        item, own = str(row["item_id"]), scores.get(str(row["response_id"]), [])
        epochs[item] = epochs.get(item, 0) + 1
        error = next((e for v in own if (e := _error(v))), "")
        said = {"message": {"role": "assistant", "content": row["text"]}, "stop_reason": "stop"}
        yield {
            "id": number_or_text(item),
            "epoch": epochs[item],
            "input": look.of_item(item, "context"),
            "target": look.of_item(item, "reference"),
            "output": {"model": model, "choices": [] if row["text"] is None else [said]},
            "scores": _scores(own),
            "error": {"message": error, "traceback": "", "traceback_ansi": ""} if error else None,
        }


def _error(verdict: Row) -> str:
    """The error of the sample, where that is why the verdict is unread."""
    reason = str(verdict["unread_reason"] or "")
    return reason.removeprefix("Inspect: ") if reason.startswith("Inspect: ") else ""


def _scores(verdicts: list[Row]) -> dict[str, Row]:
    """By scorer; values that Inspect's scorers give by name are put together again."""
    out: dict[str, Row] = {}
    for row in verdicts:
        if row["judge"] == "inspect":
            continue  # the error of a sample without scores
        ours = str(row["judge"]).startswith("inspect/")
        name, _, key = str(row["judge"]).removeprefix("inspect/").partition("/" if ours else "\0")
        value = math.nan if row["score"] is None else row["score"]
        made = out.setdefault(name, {"value": {} if key else value, "explanation": row["raw_text"]})
        if row["unread_reason"] and not _error(row):
            made["reason"] = row["unread_reason"]
        if key and isinstance(made["value"], dict):
            made["value"][key] = value
    return out


INSPECT: Format = Format(
    "inspect",
    "Inspect log",
    "Samples of an evaluation with the scores of its scorers.",
    ((),),
    read_log,
    Task.QUESTION.value,
    write=write_log,
    ending=".eval",
    shape="log",
)
