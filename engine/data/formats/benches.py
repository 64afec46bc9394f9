"""Benchmarks of pairs: JudgeBench, LLMBar, PandaLM."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from engine.core.errors import shown
from engine.core.schema import Order, Outcome, Task
from engine.data.formats.base import (
    Builder,
    Format,
    HubSet,
    Record,
    Row,
    RowError,
    Source,
    comparison_row,
    pair_rows,
    pair_verdict,
)
from engine.data.mapping import RIGHT, SPELLINGS, WRONG, says_correct
from engine.data.raw import MAX_ROWS

A, B, TIE = Outcome.A.value, Outcome.B.value, Outcome.TIE.value

# --- JudgeBench ---

_JUDGEBENCH = {"A>B": A, "B>A": B}
_DECISIONS: dict[str, str | None] = {**_JUDGEBENCH, "A=B": TIE}


def read_judgebench(source: Source, builder: Builder) -> None:
    """Pairs of one model's responses; a judge's decisions on both orders where they were added."""
    for record in builder.records():
        with builder.row(record):
            item, label = record.needed("pair_id"), record.needed("label")
            if label not in _JUDGEBENCH:
                raise RowError(f"label {shown(label, 40)} is in no rule.", "Known: A>B, B>A.", "label")
            builder.labels.setdefault(label, _JUDGEBENCH[label])
            model = record.get("response_model")
            row, responses = pair_rows(
                item, record.needed("question"), record.get("source"),
                (record.text("response_A"), record.text("response_B")), (model, model),
            )  # fmt: skip
            verdicts = _decisions(record, item)
            sides = dict(zip(("verdict", "verdict_ba"), (v["outcome"] for v in verdicts), strict=False))
            pair = comparison_row(item, _JUDGEBENCH[label], **sides)
            builder.add(record, [row], responses, [pair], verdicts)
    if "judgments" in source.columns:
        builder.notes.append("The first judgment is of response_A shown first, the second of response_B shown first.")


def _decisions(record: Record, item: str) -> list[Row]:
    judgments = record.json("judgments")
    if judgments is None:
        return []
    if not isinstance(judgments, list) or len(judgments) > 2:
        raise RowError("judgments is no list of one or two.", "JudgeBench writes one for each order.", "judgments")
    judge, out = record.get("judge_name") or "judgebench judge", []
    for order, judgment in zip(Order, judgments, strict=False):
        decision = judgment.get("decision") if isinstance(judgment, dict) else None
        if decision is not None and decision not in _DECISIONS:
            raise RowError(f"decision {shown(decision, 40)} is in no rule.", "Known: A>B, B>A, A=B.", "judgments")
        outcome = _DECISIONS[decision] if decision is not None else None
        if order is Order.BA:  # A is then the slot that response_B stands in
            outcome = {A: B, B: A}.get(outcome or "", outcome)
        answer = judgment.get("judgment") if isinstance(judgment, dict) else None
        raw = answer.get("response") if isinstance(answer, dict) else answer
        out.append(pair_verdict(judge, item, f"{item}:a", f"{item}:b", order, outcome, "the judge gave no decision",
                                raw if isinstance(raw, str) else ""))  # fmt: skip
    return out


# --- LLMBar ---

_LLMBAR = {"1": Outcome.A, "2": Outcome.B}


def read_llmbar(source: Source, builder: Builder) -> None:
    """Pairs with an objective preference; they have no ids and are numbered."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item = str(record.row)
            human = builder.side(record, "label", _LLMBAR)
            texts = (record.text("output_1"), record.text("output_2"))
            row, responses = pair_rows(item, record.needed("input"), "", texts, ("", ""))
            builder.add(record, [row], responses, [comparison_row(item, human)])
    builder.notes.append("output_1 is response a; the pairs are numbered, as the file gives no ids.")


# --- PandaLM ---

_ANNOTATORS = ("annotator1", "annotator2", "annotator3")
_PANDALM = {"0": TIE, "1": A, "2": B}
_PANDALM_JUDGES = {"gpt_result": "gpt-3.5-turbo", "pandalm_result": "pandalm-7b"}


def read_pandalm(source: Source, builder: Builder) -> None:
    """The preference is the majority of the three annotators; results of judges are verdicts, response1 first."""
    people = [c for c in _ANNOTATORS if c in source.columns]
    judges = [c for c in _PANDALM_JUDGES if c in source.columns]
    for record in builder.records():
        with builder.row(record):
            item = record.get("idx") or record.needed("index")
            asked = "\n\n".join(t for t in (record.get("instruction"), record.get("input")) if t.strip())
            if not asked:
                raise RowError("instruction and input are missing.", "Fill one in, or remove the row.", "instruction")
            named = record.get("cmp_key").split("_")
            systems = (named[0], named[1]) if len(named) == 2 else ("", "")
            texts = (record.text("response1"), record.text("response2"))
            row, responses = pair_rows(item, asked, record.get("motivation_app"), texts, systems)
            votes = [_vote(record, column, builder) for column in people]
            counted = Counter(v for v in votes if v)
            most = max(counted, key=lambda v: counted[v], default=None)
            human = most if most and counted[most] > len(votes) / 2 else None
            if votes and human is None:
                builder.report("warning", record, f"The annotators have no majority ({', '.join(map(str, votes))}).",
                               "The pair is kept without a human preference.")  # fmt: skip
            verdicts = [_result(record, column, item) for column in judges]
            more = {"verdict": verdicts[0]["outcome"]} if len(verdicts) == 1 else {}
            builder.add(record, [row], responses, [comparison_row(item, human, **more)], verdicts)
    builder.notes.append("response1 is response a; cmp_key names both systems; 0 is a tie.")
    if judges:
        builder.notes.append("A judge's result is in the order of the file; “garbage” is unread, never a tie.")


def _vote(record: Record, column: str, builder: Builder) -> str | None:
    label = record.get(column)
    if not label.strip():
        return None
    if label not in _PANDALM:
        raise RowError(f"{column} {shown(label, 40)} is in no rule.", "Known: 0 (tie), 1, 2.", column)
    builder.labels.setdefault(label, _PANDALM[label])
    return _PANDALM[label]


def _result(record: Record, column: str, item: str) -> Row:
    label = record.get(column).strip()
    rule: dict[str, str | None] = {**_PANDALM, "tie": TIE, "garbage": None, "": None}
    if label.casefold() not in rule:
        raise RowError(f"{column} {shown(label, 40)} is in no rule.", "Known: 1, 2, Tie, garbage.", column)
    outcome = rule[label.casefold()]
    reason = "the reply was garbage" if label else ""
    return pair_verdict(_PANDALM_JUDGES[column], item, f"{item}:a", f"{item}:b", Order.AB, outcome, reason, label)


BENCHES: tuple[Format, ...] = (
    Format(
        "judgebench",
        "JudgeBench",
        "Pairs of one model's responses, one right and one wrong; with a judge's decisions where they were added.",
        (("pair_id", "question", "response_A", "response_B", "label"),),
        read_judgebench,
        Task.QUESTION.value,
        telling=("pair_id", "original_id", "response_model", "response_A", "response_B"),
        hub=(HubSet("ScalerLab/JudgeBench", ("gpt", "claude")),),
    ),
    Format(
        "llmbar",
        "LLMBar",
        "Pairs of outputs for an instruction, one objectively better.",
        (("input", "output_1", "output_2", "label"),),
        read_llmbar,
        Task.INSTRUCTION.value,
        telling=("input", "output_1", "output_2", "label"),
        hub=(HubSet("princeton-nlp/LLMBar", ("Natural",), "LLMBar"),),
    ),
    Format(
        "pandalm",
        "PandaLM test set",
        "Pairs of responses with the preferences of three people; with a judge's results where they were added.",
        (
            ("cmp_key", "instruction", "response1", "response2", *_ANNOTATORS),
            ("cmp_key", "instruction", "response1", "response2", "gpt_result"),
            ("cmp_key", "instruction", "response1", "response2", "pandalm_result"),
        ),
        read_pandalm,
        Task.INSTRUCTION.value,
        telling=("cmp_key", "motivation_app", "response1", "response2", "annotator1"),
    ),
)


# RewardBench 1 (one chosen and one rejected response) and 2 (lists of them).

REWARDBENCH_A = Outcome.A.value


def _lists(source: Source) -> bool | None:
    """True where chosen holds lists of responses (version 2) and not one response; None where rows differ.

    A response of version 1 may look like a list, so columns that only one version has decide first.
    """
    one, two = "chosen_model" in source.columns, bool({"num_correct", "total_completions"} & source.columns)
    if one != two:
        return two
    kinds = {_is_texts(cell) for cell in source.some("chosen", MAX_ROWS)}
    return None if len(kinds) == 2 else kinds == {True}


def _is_texts(cell: str) -> bool:
    if not cell.startswith("["):
        return False
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, list) and all(isinstance(t, str) for t in found)


_MIXED = "chosen holds lists in some rows and single responses in others: split versions 1 and 2"


def _against_1(source: Source) -> str:
    lists = _lists(source)
    return _MIXED if lists is None else "chosen holds lists, as in version 2" if lists else ""


def _against_2(source: Source) -> str:
    lists = _lists(source)
    return _MIXED if lists is None else "" if lists else "chosen holds single responses, as in version 1"


def read_rewardbench(source: Source, builder: Builder) -> None:
    """The chosen response is a, the rejected one b."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item = record.needed("id")
            texts = (record.text("chosen"), record.text("rejected"))
            models = (record.get("chosen_model"), record.get("rejected_model"))
            row, responses = pair_rows(item, record.needed("prompt"), record.get("subset"), texts, models)
            builder.add(record, [row], responses, [comparison_row(item, REWARDBENCH_A)])
    builder.notes.append(
        "The chosen response is a everywhere: ask in both orders, or a judge that prefers a looks right."
    )


def read_rewardbench2(source: Source, builder: Builder) -> None:
    """Every chosen response against every rejected one."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item, texts = record.needed("id"), {}
            for column in ("chosen", "rejected"):
                texts[column] = record.json(column)
                if not isinstance(texts[column], list) or not all(isinstance(t, str) for t in texts[column]):
                    raise RowError(f"{column} is no list of texts.", "Version 2 writes lists.", column)
                if not texts[column]:
                    raise RowError(f"{column} is empty.", "Fill it in, or remove the row.", column)
            models = record.json("models") if "models" in record.cells else None
            flat = [*texts["chosen"], *texts["rejected"]]
            named = models if isinstance(models, list) and len(models) == len(flat) else [None] * len(flat)
            names = [f"{item}:{kind}{i}" for kind, column in (("c", "chosen"), ("r", "rejected"))
                     for i in range(1, len(texts[column]) + 1)]  # fmt: skip
            responses = [
                {"response_id": n, "item_id": item, "system": m, "text": t}
                for n, m, t in zip(names, named, flat, strict=True)
            ]
            good = len(texts["chosen"])
            pairs = [
                {"comparison_id": f"{item}:{i + 1}-{j + 1}", "item_id": item, "response_a": c, "response_b": r,
                 "human": REWARDBENCH_A}
                for i, c in enumerate(names[:good])
                for j, r in enumerate(names[good:])
            ]  # fmt: skip
            context = {"item_id": item, "context": record.needed("prompt"), "group": record.get("subset") or None}
            builder.add(record, [context], responses, pairs)
    builder.notes.append(
        "Each chosen response is compared with each rejected one and is a everywhere: ask in both orders. Several "
        "chosen ones (subset Ties) are not compared with one another."
    )


REWARDBENCH: tuple[Format, ...] = (
    Format(
        "rewardbench",
        "RewardBench",
        "Pairs of a chosen and a rejected response.",
        (("id", "prompt", "chosen", "rejected"),),
        read_rewardbench,
        Task.INSTRUCTION.value,
        against=_against_1,
        telling=("prompt", "chosen", "rejected", "chosen_model", "rejected_model", "subset"),
        hub=(HubSet("allenai/reward-bench", ("filtered", "raw")),),
    ),
    Format(
        "rewardbench-2",
        "RewardBench 2",
        "Lists of chosen and rejected responses.",
        (("id", "prompt", "chosen", "rejected"),),
        read_rewardbench2,
        Task.INSTRUCTION.value,
        against=_against_2,
        telling=("prompt", "chosen", "rejected", "num_correct", "total_completions", "subset"),
        hub=(HubSet("allenai/reward-bench-2", ("test",)),),
    ),
)


# VerifyBench: completions checked against a reference answer, and whether people found them correct.


def read_verifybench(source: Source, builder: Builder) -> None:
    """A response for each completion; question and reference make the item."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            question, answer = record.needed("question"), record.needed("answer")
            label = record.get("gold_correct")
            right = says_correct(label)
            if label and right is None:
                raise RowError(
                    f"gold_correct {shown(label, 40)} is in no rule.", f"Read are {SPELLINGS}.", "gold_correct"
                )
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


VERIFYBENCH: Format = Format(
    "verifybench",
    "VerifyBench",
    "Completions with a reference answer, and whether they are correct.",
    (("question", "answer", "completion", "gold_correct"),),
    read_verifybench,
    Task.VERIFICATION.value,
    telling=("completion", "gold_correct", "answer_type", "answer_subtype"),
    hub=(HubSet("ZJU-REAL/VerifyBench", ("VerifyBench", "VerifyBenchHard"), file="verify_bench.jsonl"),),
)
