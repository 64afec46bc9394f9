"""Benchmarks of pairs: JudgeBench, LLMBar, PandaLM."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from engine.core.schema import Order, Outcome, Task
from engine.data.formats.base import (
    Builder,
    Format,
    HubSet,
    Imported,
    Record,
    Row,
    RowError,
    Source,
    comparison_row,
    pair_rows,
    pair_verdict,
)
from engine.data.formats.writing import (
    Lookup,
    decided_only,
    json_lines,
    json_list,
    need,
    number_or_text,
    rows_of,
    texts_of,
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
                raise RowError(f"label {label[:40]!r} is in no rule.", "Known: A>B, B>A.", "label")
            builder.labels.setdefault(label, _JUDGEBENCH[label])
            model = record.get("response_model")
            row, responses = pair_rows(
                item, record.needed("question"), record.get("source"),
                (record.text("response_A"), record.text("response_B")), (model, model),
            )  # fmt: skip
            verdicts = _decisions(record, item)
            sides = dict(zip(("verdict", "verdict_ba"), (v["outcome"] for v in verdicts), strict=False))
            pair = comparison_row(item, _JUDGEBENCH[label], origin={"original_id": record.get("original_id")}, **sides)
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
            raise RowError(f"decision {str(decision)[:40]!r} is in no rule.", "Known: A>B, B>A, A=B.", "judgments")
        outcome = _DECISIONS[decision] if decision is not None else None
        if order is Order.BA:  # A is then the slot that response_B stands in
            outcome = {A: B, B: A}.get(outcome or "", outcome)
        answer = judgment.get("judgment") if isinstance(judgment, dict) else None
        raw = answer.get("response") if isinstance(answer, dict) else answer
        out.append(pair_verdict(judge, item, f"{item}:a", f"{item}:b", order, outcome, "the judge gave no decision",
                                raw if isinstance(raw, str) else ""))  # fmt: skip
    return out


def write_judgebench(found: Imported) -> bytes:
    """One pair with a preference a line, with one judge's decisions where there are any."""
    need(found, "comparisons", "judgebench")
    look, judged = Lookup(found), _by_pair(found)
    return json_lines(
        {
            "pair_id": row["comparison_id"],
            "original_id": look.more(str(row["comparison_id"])).get("original_id", ""),
            "source": look.of_item(str(row["item_id"]), "group"),
            "question": look.of_item(str(row["item_id"]), "context"),
            "response_model": look.responses[str(row["response_a"])].get("system") or "",
            "response_A": look.text(str(row["response_a"])),
            "response_B": look.text(str(row["response_b"])),
            "label": "A>B" if row["human"] == A else "B>A",
            **_judgments(judged.get((str(row["response_a"]), str(row["response_b"])), [])),
        }
        for row in rows_of(found.comparisons)
    )


def _by_pair(found: Imported) -> dict[tuple[str, str], list[Row]]:
    """Verdicts of the first judge, by the pair they are about."""
    own = found.verdicts[found.verdicts["response_b"].notna() & found.verdicts["judge"].isin(found.judges[:1])]
    out: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of(own):
        out.setdefault((str(row["response_id"]), str(row["response_b"])), []).append(row)
    return out


def _judgments(verdicts: list[Row]) -> Row:
    """The two columns that JudgeBench adds for a judge; none where it judged nothing."""
    by_order = {v["order"]: v for v in verdicts if v["order"]}
    if Order.AB.value not in by_order:
        return {}
    spelled, out = {v: k for k, v in _DECISIONS.items()}, []
    for order in Order:
        if order.value in by_order:
            verdict = by_order[order.value]
            side = verdict["outcome"]
            slot = {A: B, B: A}.get(side, side) if order is Order.BA else side
            out.append({"judgment": {"response": verdict["raw_text"] or ""}, "decision": spelled.get(slot)})
    return {"judge_name": verdicts[0]["judge"], "judgments": out}


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


def write_llmbar(found: Imported) -> bytes:
    """One list of pairs with a preference."""
    need(found, "comparisons", "llmbar")
    look = Lookup(found)
    return json_list(
        {
            "input": look.of_item(str(row["item_id"]), "context"),
            "output_1": look.text(str(row["response_a"])),
            "output_2": look.text(str(row["response_b"])),
            "label": 1 if row["human"] == A else 2,
        }
        for row in rows_of(found.comparisons)
    )


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
            origin = {"votes": votes, "instruction": record.get("instruction"), "input": record.get("input")}
            builder.add(record, [row], responses, [comparison_row(item, human, origin=origin, **more)], verdicts)
    builder.notes.append("response1 is response a; cmp_key names both systems; 0 is a tie.")
    if judges:
        builder.notes.append("A judge's result is in the order of the file; “garbage” is unread, never a tie.")


def _vote(record: Record, column: str, builder: Builder) -> str | None:
    label = record.get(column)
    if not label.strip():
        return None
    if label not in _PANDALM:
        raise RowError(f"{column} {label[:40]!r} is in no rule.", "Known: 0 (tie), 1, 2.", column)
    builder.labels.setdefault(label, _PANDALM[label])
    return _PANDALM[label]


def _result(record: Record, column: str, item: str) -> Row:
    label = record.get(column).strip()
    rule: dict[str, str | None] = {**_PANDALM, "tie": TIE, "garbage": None, "": None}
    if label.casefold() not in rule:
        raise RowError(f"{column} {label[:40]!r} is in no rule.", "Known: 1, 2, Tie, garbage.", column)
    outcome = rule[label.casefold()]
    reason = "the reply was garbage" if label else ""
    return pair_verdict(_PANDALM_JUDGES[column], item, f"{item}:a", f"{item}:b", Order.AB, outcome, reason, label)


def _results(found: Imported) -> dict[str, Row]:
    """What the judges said, by response a, in the words of the files that its authors published."""
    column = {judge: name for name, judge in _PANDALM_JUDGES.items()}
    spelled = {A: "1", B: "2", TIE: "Tie"}
    out: dict[str, Row] = {}
    for row in rows_of(found.verdicts[found.verdicts["judge"].isin(list(column))]):
        said = spelled.get(row["outcome"], row["raw_text"] or "")
        out.setdefault(str(row["response_id"]), {})[column[row["judge"]]] = said
    return out


def write_pandalm(found: Imported) -> bytes:
    """One list; the three annotators are those of the file, or all agree with the preference."""
    need(found, "comparisons", "pandalm")
    look, judged = Lookup(found), _results(found)
    value = {A: 1, B: 2, TIE: 0}
    out = []
    for row in rows_of(found.comparisons):
        more = look.more(str(row["comparison_id"]))
        votes = more.get("votes") or [row["human"]] * len(_ANNOTATORS)
        out.append(
            {
                "idx": number_or_text(str(row["comparison_id"])),
                "motivation_app": look.of_item(str(row["item_id"]), "group"),
                "cmp_key": "_".join(look.system(str(row[s])) for s in ("response_a", "response_b")),
                "instruction": more.get("instruction") or look.of_item(str(row["item_id"]), "context"),
                "input": more.get("input", ""),
                "response1": look.text(str(row["response_a"])),
                "response2": look.text(str(row["response_b"])),
                **{c: value.get(v) for c, v in zip(_ANNOTATORS, votes, strict=False)},
                **judged.get(str(row["response_a"]), {}),
            }
        )
    return json_list(out)


BENCHES: tuple[Format, ...] = (
    Format(
        "judgebench",
        "JudgeBench",
        "Pairs of one model's responses, one right and one wrong; with a judge's decisions where they were added.",
        (("pair_id", "question", "response_A", "response_B", "label"),),
        read_judgebench,
        Task.QUESTION.value,
        write=write_judgebench,
        telling=("pair_id", "original_id", "response_model", "response_A", "response_B"),
        hub=(HubSet("ScalerLab/JudgeBench", ("gpt", "claude")),),
        no_place=decided_only,
    ),
    Format(
        "llmbar",
        "LLMBar",
        "Pairs of outputs for an instruction, one objectively better.",
        (("input", "output_1", "output_2", "label"),),
        read_llmbar,
        Task.INSTRUCTION.value,
        write=write_llmbar,
        ending=".json",
        telling=("input", "output_1", "output_2", "label"),
        hub=(HubSet("princeton-nlp/LLMBar", ("Natural",), "LLMBar"),),
        no_place=decided_only,
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
        write=write_pandalm,
        ending=".json",
        telling=("cmp_key", "motivation_app", "response1", "response2", "annotator1"),
    ),
)


# RewardBench 1 (one chosen and one rejected response) and 2 (lists of them).

REWARDBENCH_A = Outcome.A.value


def _lists(source: Source) -> bool | None:
    """Whether chosen holds lists of responses (version 2) and not one response; None where rows differ.

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


def write_rewardbench(found: Imported) -> bytes:
    """One pair with a preference a line."""
    need(found, "comparisons", "rewardbench")
    look = Lookup(found)
    out = []
    for row in rows_of(found.comparisons):
        item = str(row["item_id"])
        ids = dict(zip(("chosen", "rejected"), _better_first(row), strict=True))
        out.append(
            {
                "prompt": look.of_item(item, "context"),
                **{k: look.text(v) for k, v in ids.items()},
                **{f"{k}_model": (look.responses[v].get("system") or "") for k, v in ids.items()},
                "subset": look.of_item(item, "group"),
                "id": number_or_text(str(row["comparison_id"])),
            }
        )
    return json_lines(out)


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


def write_rewardbench2(found: Imported) -> bytes:
    """One item a line, with lists of chosen and rejected responses."""
    need(found, "comparisons", "rewardbench-2")
    look = Lookup(found)
    by_item: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in rows_of(found.comparisons):
        chosen, rejected = by_item.setdefault(str(row["item_id"]), ({}, {}))
        good, bad = _better_first(row)
        chosen[good] = rejected[bad] = None
    return json_lines(
        {
            "id": item,
            "prompt": look.of_item(item, "context"),
            "chosen": [look.text(r) for r in chosen],
            "rejected": [look.text(r) for r in rejected],
            "num_correct": len(chosen),
            "num_incorrect": len(rejected),
            "total_completions": len(chosen) + len(rejected),
            "models": [look.responses[r].get("system") for r in (*chosen, *rejected)],
            "subset": look.of_item(item, "group"),
        }
        for item, (chosen, rejected) in by_item.items()
    )


def _better_first(row: Row) -> tuple[str, str]:
    """The ids of a decided pair, the preferred response first."""
    a, b = str(row["response_a"]), str(row["response_b"])
    return (a, b) if row["human"] == REWARDBENCH_A else (b, a)


def _no_place_2(found: Imported) -> list[str]:
    """Ties, further votes, and pairs of items that are not every chosen against every rejected response."""
    reasons, rows = decided_only(found), rows_of(found.comparisons)
    pairs: dict[str, set[tuple[str, str]]] = {}
    for i, row in enumerate(rows):
        if not reasons[i]:
            held = pairs.setdefault(str(row["item_id"]), set())
            reasons[i] = "a further vote on its pair" if _better_first(row) in held else ""
            held.add(_better_first(row))
    uneven = {item for item, held in pairs.items() if not _crossed(held)}
    return [
        reason or ("its item lacks some chosen against some rejected response" if row["item_id"] in uneven else "")
        for reason, row in zip(reasons, rows, strict=True)
    ]


def _crossed(pairs: set[tuple[str, str]]) -> bool:
    chosen, rejected = {a for a, _ in pairs}, {b for _, b in pairs}
    return not chosen & rejected and len(pairs) == len(chosen) * len(rejected)


REWARDBENCH: tuple[Format, ...] = (
    Format(
        "rewardbench",
        "RewardBench",
        "Pairs of a chosen and a rejected response.",
        (("id", "prompt", "chosen", "rejected"),),
        read_rewardbench,
        Task.INSTRUCTION.value,
        write_rewardbench,
        _against_1,
        telling=("prompt", "chosen", "rejected", "chosen_model", "rejected_model", "subset"),
        hub=(HubSet("allenai/reward-bench", ("filtered", "raw")),),
        no_place=decided_only,
    ),
    Format(
        "rewardbench-2",
        "RewardBench 2",
        "Lists of chosen and rejected responses.",
        (("id", "prompt", "chosen", "rejected"),),
        read_rewardbench2,
        Task.INSTRUCTION.value,
        write_rewardbench2,
        _against_2,
        telling=("prompt", "chosen", "rejected", "num_correct", "total_completions", "subset"),
        hub=(HubSet("allenai/reward-bench-2", ("test",)),),
        no_place=_no_place_2,
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


VERIFYBENCH: Format = Format(
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
