"""LLM Comparator's JSON: pairs of two models with the ratings of an automatic judge."""

from __future__ import annotations

from typing import Any

from engine.core.errors import InputError, shown
from engine.core.json import dumps
from engine.core.schema import Order, Task
from engine.data.formats.base import Builder, Format, Imported, Record, Row, RowError, Source, pair_verdict
from engine.data.formats.writing import Lookup, need, rows_of

JUDGE = "llm-comparator"
_SIGN = {1: "a", -1: "b", 0: "tie"}


def _against(source: Source) -> str:
    examples = (source.document or {}).get("examples")
    first = next((e for e in examples if isinstance(e, dict)), None) if isinstance(examples, list) else None
    if first is None:
        return "examples is no list of objects"
    lacking = [k for k in ("input_text", "output_text_a", "output_text_b") if k not in first]
    return f"its examples have no {', '.join(lacking)}" if lacking else ""


def read_comparator(source: Source, builder: Builder) -> None:
    """A pair for each example; ratings are verdicts, is_flipped says that output b was shown first.

    Raises:
        InputError: it does not name two models.
    """
    document = source.document or {}
    models = [m.get("name") for m in document.get("models", []) if isinstance(m, dict)]
    if len(models) != 2 or not all(isinstance(m, str) and m for m in models) or models[0] == models[1]:
        raise InputError(f"{source.filename!r}: models must name two different models, as [{{name}}, {{name}}].")
    a, b = map(str, models)
    examples = list(builder.elements(document.get("examples"), "examples"))
    rated = any(isinstance(e.cells.get("individual_rater_scores"), list) and e.cells["individual_rater_scores"]
                for e in examples)  # fmt: skip
    for record in examples:
        with builder.row(record):
            item = str(record.row)
            tags = record.cells.get("tags") or []
            group = "; ".join(map(str, tags)) if isinstance(tags, list) else str(tags)
            responses = [
                {"response_id": f"{item}:{system}", "item_id": item, "system": system,
                 "text": record.text(f"output_text_{side}")}
                for side, system in (("a", a), ("b", b))
            ]  # fmt: skip
            score = _score(record.cells.get("score"), "score")
            verdicts = _ratings(record, item, a, b) if rated else [_whole(item, a, b, score)]
            pair: Row = {
                "comparison_id": item,
                "item_id": item,
                "response_a": f"{item}:{a}",
                "response_b": f"{item}:{b}",
                "verdict": None if score is None else _SIGN[(score > 0) - (score < 0)],
                "origin": {"score": score, "tags": tags, "custom_fields": record.cells.get("custom_fields") or {}},
            }
            context = {"item_id": item, "context": record.text("input_text"), "group": group or None}
            builder.add(record, [context], responses, [pair], verdicts)
            if rated and not verdicts:
                builder.report("warning", record, "No rater's score: the pair has no verdict.", "Nothing, if none was.")
    builder.notes.append(f"Output a is of {a}, output b of {b}. A score above 0 prefers a, below 0 b, 0 is a tie.")
    builder.notes.append(
        "Each repetition of the judge is a judge of its own, with one call in each order."
        if rated
        else "The file holds mean scores only: the order shown is not recorded."
    )


def _score(value: Any, column: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RowError(f"{column} {shown(value, 40)} is no number.", "Write a number, above 0 for a.", column)
    return float(value)


def _whole(item: str, a: str, b: str, score: float | None) -> Row:
    outcome = None if score is None else _SIGN[(score > 0) - (score < 0)]
    return pair_verdict(JUDGE, item, f"{item}:{a}", f"{item}:{b}", None, outcome)


def _ratings(record: Record, item: str, a: str, b: str) -> list[Row]:
    """The k-th rating in each order is of repetition k."""
    out: list[Row] = []
    seen = {Order.AB: 0, Order.BA: 0}
    ratings = record.cells.get("individual_rater_scores") or []
    if not isinstance(ratings, list) or not all(isinstance(rating, dict) for rating in ratings):
        raise RowError("individual_rater_scores is no list of objects.", "Export the file again.")
    for rating in ratings:
        order = Order.BA if rating.get("is_flipped") else Order.AB
        seen[order] += 1
        score = _score(rating.get("score"), "individual_rater_scores")
        outcome = None if score is None else _SIGN[(score > 0) - (score < 0)]
        verdict = pair_verdict(
            f"{JUDGE} {seen[order]}", item, f"{item}:{a}", f"{item}:{b}", order, outcome,
            raw=str(rating.get("rationale") or ""),
        )  # fmt: skip
        verdict["origin"] = {"score": score, "rating_label": rating.get("rating_label")}
        out.append(verdict)
    return out


def write_comparator(found: Imported) -> bytes:
    """One object; only pairs of one and the same two systems can be written.

    Raises:
        InputError: there are more than two systems.
    """
    need(found, "comparisons", "llm-comparator")
    need(found, "texts", "llm-comparator")
    look = Lookup(found)
    rows = rows_of(found.comparisons)
    models = list(dict.fromkeys((look.system(str(r["response_a"])), look.system(str(r["response_b"]))) for r in rows))
    if len(models) != 1:
        raise InputError(
            f"{found.name!r} compares {len(models)} pairs of systems, and an LLM Comparator file holds one. Keep the "
            f"rows of one pair, such as {' and '.join(models[0])}."
        )
    verdicts = found.verdicts[found.verdicts["response_b"].notna()]
    by_pair = {tuple(map(str, k)): rows_of(g) for k, g in verdicts.groupby(["response_id", "response_b"])}
    # one judge's calls stand once, with the first vote on their pair that is a judge's
    rows_told = {i: by_pair.pop((r["response_a"], r["response_b"]), []) for i, r in enumerate(rows) if r["verdict"]}
    rows_told |= {
        i: by_pair.pop((r["response_a"], r["response_b"]), []) for i, r in enumerate(rows) if i not in rows_told
    }
    examples = [_example(row, rows_told[i], look) for i, row in enumerate(rows)]
    document = {
        "metadata": {"source_path": found.name, "custom_fields_schema": []},
        "models": [{"name": name} for name in models[0]],
        "examples": examples,
    }
    return dumps(document, indent=1).encode("utf-8")


def _example(row: Row, verdicts: list[Row], look: Lookup) -> Row:
    more = look.more(str(row["comparison_id"]))
    value = {"a": 1.0, "b": -1.0, "tie": 0.0}
    ratings = [
        {
            "is_flipped": v["order"] == "ba",
            "score": look.more(str(v["verdict_id"])).get("score", value.get(str(v["outcome"]))),
            "rating_label": look.more(str(v["verdict_id"])).get("rating_label"),
            "rationale": v["raw_text"] or "",
        }
        for v in verdicts
        if v["order"]
    ]
    group = look.of_item(str(row["item_id"]), "group")
    return {
        "input_text": look.of_item(str(row["item_id"]), "context"),
        "tags": more.get("tags", [group] if group else []),
        "output_text_a": look.text(str(row["response_a"])),
        "output_text_b": look.text(str(row["response_b"])),
        "score": more.get("score", value.get(str(row["verdict"] or row["human"]))),
        "individual_rater_scores": ratings,
        "custom_fields": more.get("custom_fields", {}),
    }


COMPARATOR: Format = Format(
    "llm-comparator",
    "LLM Comparator JSON",
    "Pairs of two models, with the ratings of a judge in both orders.",
    (("models", "examples"),),
    read_comparator,
    Task.INSTRUCTION.value,
    write=write_comparator,
    against=_against,
    ending=".json",
    shape="document",
    telling=("metadata", "models", "examples"),
)
