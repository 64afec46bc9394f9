"""AlpacaEval: outputs of one system, and annotations of pairs."""

from __future__ import annotations

import hashlib

from engine.core.errors import shown
from engine.core.schema import Task
from engine.data.formats.base import Builder, Format, HubSet, Record, Row, RowError, Source, pair_verdict
from engine.data.mapping import parse_number

TIE = 1.5
"""Preference of a tie; 0 is another spelling of it in old files."""


def instruction_id(instruction: str) -> str:
    """An id made of the instruction, the same in every file that has it."""
    return "alpaca-" + hashlib.sha256(instruction.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _item(record: Record) -> Row:
    text = record.needed("instruction")
    return {"item_id": instruction_id(text), "context": text, "group": record.get("dataset") or None}


def read_outputs(source: Source, builder: Builder) -> None:
    """A response for each instruction."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item, system = _item(record), record.needed("generator")
            response = {"response_id": f"{item['item_id']}:{system}", "item_id": item["item_id"], "system": system,
                        "text": record.text("output")}  # fmt: skip
            builder.add(record, [item], [response])
    builder.notes.append("Items are named by their instruction, so outputs of several systems meet.")


def read_annotations(source: Source, builder: Builder) -> None:
    """A verdict for each pair; the preference is p(output_2) + 1, and which was shown first is not recorded."""
    for record in builder.records():
        with builder.row(record):
            item, judge = _item(record), record.get("annotator") or "alpacaeval annotator"
            named = [record.get(f"generator_{i}") or f"output {i}" for i in (1, 2)]
            responses = [
                {"response_id": f"{item['item_id']}:{system}", "item_id": item["item_id"], "system": system,
                 "text": record.text(f"output_{i}")}
                for i, system in enumerate(named, start=1)
            ]  # fmt: skip
            ids = [str(r["response_id"]) for r in responses]
            verdict = _verdict(record, judge, str(item["item_id"]), *ids)
            pair = {"comparison_id": f"{item['item_id']}:{named[0]}:{named[1]}:{judge}", "item_id": item["item_id"],
                    "response_a": ids[0], "response_b": ids[1], "verdict": verdict["outcome"]}  # fmt: skip
            builder.add(record, [item], responses, [pair], [verdict])
    builder.notes.append(
        "output_1 is response a. AlpacaEval shows the outputs in a random order that the file does not record: order "
        "effects cannot be measured from it. 1.5 and 0 are ties, null is unread."
    )
    if source.companions:
        builder.notes.append("Further files are not needed: the annotations hold the outputs.")


def _verdict(record: Record, judge: str, item: str, a: str, b: str) -> Row:
    text = record.get("preference")
    number = parse_number(text) if text else None
    if text and (number is None or not (number == 0 or 1 <= number <= 2)):
        raise RowError(
            f"preference {shown(text, 40)} is in no rule.", "Known: 1 to 2; 1.5 or 0 is a tie.", "preference"
        )
    raw = record.get("raw_completion")
    if number is None:
        return pair_verdict(judge, item, a, b, None, None, "the annotator gave no preference", raw)
    if number in (0, TIE):
        return pair_verdict(judge, item, a, b, None, "tie", raw=raw)
    made = pair_verdict(judge, item, a, b, None, "a" if number < TIE else "b", raw=raw)
    return made | {"p_a": 2 - number, "p_tie": 0.0}


ALPACA: tuple[Format, ...] = (
    Format(
        "alpacaeval-outputs",
        "AlpacaEval outputs",
        "Outputs of a system for a set of instructions.",
        (("instruction", "output", "generator"),),
        read_outputs,
        Task.INSTRUCTION.value,
        telling=("instruction", "output", "generator"),
        hub=(HubSet("tatsu-lab/alpaca_eval", ("eval",), file="alpaca_eval_gpt4_baseline.json"),),
    ),
    Format(
        "alpacaeval-annotations",
        "AlpacaEval annotations",
        "Preferences of an automatic annotator between two outputs.",
        (("instruction", "output_1", "output_2", "preference"),),
        read_annotations,
        Task.INSTRUCTION.value,
        telling=("instruction", "output_1", "output_2", "generator_1", "generator_2", "annotator", "preference"),
    ),
)
