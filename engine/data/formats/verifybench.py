"""VerifyBench: completions checked against a reference answer, and whether people found them correct."""

from __future__ import annotations

import hashlib

from engine.data.correctness import RIGHT, SPELLINGS, WRONG, says_correct
from engine.data.formats.base import Format, HubSet, Imported, RowError, Source
from engine.data.formats.building import Builder, Row
from engine.data.formats.writing import Lookup, json_lines, need, texts_of
from engine.schema import Task


def read_verifybench(source: Source, builder: Builder) -> None:
    """A response for each completion; question and reference make the item."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            question, answer = record.needed("question"), record.needed("answer")
            label = record.get("gold_correct")
            right = says_correct(label)
            if label and right is None:
                raise RowError(f"gold_correct {label[:40]!r} is in no rule.", f"Read are {SPELLINGS}.", "gold_correct")
            quality = None if right is None else RIGHT if right else WRONG
            if label:
                builder.labels.setdefault(label, quality or "")
            item = record.get("question_id") or _item_id(question, answer)
            name = record.get("completion_id") or f"{item}:{record.row}"
            kind = record.get("answer_type")
            row: Row = {"item_id": item, "context": question, "reference": answer, "group": kind or None}
            response = {"response_id": name, "item_id": item, "system": record.get("completion_model") or None,
                        "text": record.text("completion"), "quality": quality}  # fmt: skip
            builder.add(record, [row], [response])
    builder.notes.append("The answer is the reference; gold_correct says which completions are right (column quality).")


def _item_id(question: str, answer: str) -> str:
    return "q-" + hashlib.sha256(f"{question}\0{answer}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def write_verifybench(found: Imported) -> bytes:
    """One completion a line."""
    need(found, "texts", "verifybench")
    look = Lookup(found)
    return json_lines(
        {
            "question_id": row["item_id"],
            "completion_id": row["response_id"],
            "question": look.of_item(str(row["item_id"]), "context"),
            "answer": look.of_item(str(row["item_id"]), "reference"),
            "completion": row["text"],
            "gold_correct": says_correct(row["quality"]),
            "completion_model": row["system"] or "",
            "answer_type": look.of_item(str(row["item_id"]), "group"),
        }
        for row in texts_of(found)
    )


VERIFYBENCH = Format(
    "verifybench",
    "VerifyBench",
    "Completions with a reference answer, and whether they are correct.",
    (("question", "answer", "completion", "gold_correct"),),
    read_verifybench,
    Task.VERIFICATION.value,
    write=write_verifybench,
    telling=("completion", "gold_correct", "answer_type", "answer_subtype"),
    hub=(HubSet("ZJU-REAL/VerifyBench", ("VerifyBench", "VerifyBenchHard"), file="verify_bench.jsonl"),),
)
