"""SummEval in its three published shapes: annotated summaries, G-Eval's, and one row a document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from engine.core.schema import Task
from engine.data.formats.base import Builder, Format, HubSet, Record, Row, RowError, Source

ASPECTS = ("coherence", "consistency", "fluency", "relevance")
LOWEST, HIGHEST = 1, 5
"""The scale of the human scores."""
MEAN = "mean"
"""The default: the mean of the four aspects."""


def rating(scores: Mapping[str, Any], aspect: str, column: str) -> float | None:
    """The human score, from 1 to 5; None where nobody rated.

    Raises:
        RowError: a score is no number.
    """
    wanted = ASPECTS if aspect in ("", MEAN) else (aspect,)
    values = [scores.get(name) for name in wanted]
    if all(v is None for v in values):
        return None
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in values):
        raise RowError(f"{column} lacks a number for one of {', '.join(wanted)}.", "Complete the scores.", column)
    off = next((v for v in values if v is not None and not LOWEST <= v <= HIGHEST), None)
    if off is not None:
        raise RowError(f"{column} holds {off:g}, which is not on the scale of 1 to 5.", "Correct it.", column)
    return statistics.fmean(float(v) for v in values if v is not None)


def _say(builder: Builder) -> None:
    what = f"the aspect {builder.aspect}" if builder.aspect not in ("", MEAN) else "the mean of the four aspects"
    builder.notes.append(
        f"The human score is {what}, as experts rated it from 1 to 5. --format NAME:ASPECT chooses another: "
        f"{', '.join((MEAN, *ASPECTS))}."
    )


def read_annotated(source: Source, builder: Builder) -> None:
    """The original file: experts' ratings of each summary; the article stands there once it was paired."""
    for record in builder.records():
        with builder.row(record):
            item, system = record.needed("id"), record.needed("model_id")
            experts = record.json("expert_annotations")
            if not isinstance(experts, list) or not all(isinstance(e, dict) for e in experts):
                raise RowError("expert_annotations is no list of objects.", "Complete it.", "expert_annotations")
            given = [rating(e, builder.aspect, "expert_annotations") for e in experts]
            known = [v for v in given if v is not None]
            references = record.json("references")
            reference = references[0] if isinstance(references, list) and references else None
            article = record.get("text") or None
            score = statistics.fmean(known) if known else None
            _add(record, builder, item, system, article, record.text("decoded"), reference, score)
    if "text" not in source.columns:
        builder.notes.append(
            "The file has no articles (column text): pair it with them as its authors describe, or the judge sees each "
            "summary alone."
        )
    _say(builder)


def read_geval(source: Source, builder: Builder) -> None:
    """G-Eval's file: one object a summary, scores averaged over experts."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            scores = record.json("scores")
            if not isinstance(scores, dict):
                raise RowError("scores is no object.", "Write {coherence, consistency, fluency, relevance}.", "scores")
            system = record.get("system_id") or f"system {record.row}"
            reference, score = record.get("reference") or None, rating(scores, builder.aspect, "scores")
            _add(record, builder, record.needed("doc_id"), system, record.text("source"), record.text("system_output"),
                 reference, score)  # fmt: skip
    _say(builder)


def read_documents(source: Source, builder: Builder) -> None:
    """One row a document, with lists of summaries and of their scores."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item = record.get("id") or f"doc-{record.row}"
            texts = record.json("machine_summaries")
            if not isinstance(texts, list) or not texts:
                raise RowError("machine_summaries is no list of texts.", "Complete it.", "machine_summaries")
            scores = {name: record.json(name) for name in ASPECTS}
            if any(not isinstance(v, list) or len(v) != len(texts) for v in scores.values()):
                raise RowError("The lists of scores are not as long as machine_summaries.", "Complete them.")
            references = record.json("human_summaries")
            row = {"item_id": item, "context": record.text("text"),
                   "reference": references[0] if isinstance(references, list) and references else None}  # fmt: skip
            responses: list[Row] = [
                {
                    "response_id": f"{item}:{i + 1}",
                    "item_id": item,
                    "system": f"system {i + 1}",
                    "text": str(text),
                    "human_score": rating({n: v[i] for n, v in scores.items()}, builder.aspect, "scores"),
                }
                for i, text in enumerate(texts)
            ]
            builder.add(record, [row], responses)
    builder.notes.append("The systems are not named; they are numbered by their place in the list.")
    _say(builder)


def _add(
    record: Record,
    builder: Builder,
    item: str,
    system: str,
    article: str | None,
    summary: str,
    reference: str | None,
    score: float | None,
) -> None:
    response: Row = {"response_id": f"{item}:{system}", "item_id": item, "system": system, "text": summary,
                "human_score": score}  # fmt: skip
    builder.add(record, [{"item_id": item, "context": article, "reference": reference}], [response])


SUMMEVAL: tuple[Format, ...] = (
    Format(
        "summeval",
        "SummEval annotations",
        "Summaries with the ratings of experts.",
        (("id", "decoded", "expert_annotations", "model_id"),),
        read_annotated,
        Task.SUMMARY.value,
        telling=("decoded", "expert_annotations", "turker_annotations", "model_id"),
        aspects=(MEAN, *ASPECTS),
    ),
    Format(
        "summeval-geval",
        "SummEval (G-Eval)",
        "Summaries with one score for each aspect.",
        (("doc_id", "source", "system_output", "scores"),),
        read_geval,
        Task.SUMMARY.value,
        telling=("doc_id", "source", "system_output", "scores"),
        aspects=(MEAN, *ASPECTS),
    ),
    Format(
        "summeval-documents",
        "SummEval (one row a document)",
        "Articles with lists of summaries and scores.",
        (("text", "machine_summaries", *ASPECTS),),
        read_documents,
        Task.SUMMARY.value,
        telling=("machine_summaries", "human_summaries"),
        aspects=(MEAN, *ASPECTS),
        hub=(HubSet("mteb/summeval", ("test",)),),
    ),
)
