"""Benchmarks of pairs: JudgeBench, LLMBar, PandaLM."""

from __future__ import annotations

from collections import Counter

from engine.data.formats.base import Format, HubSet, Imported, Record, RowError, Source
from engine.data.formats.building import Builder, Row, comparison_row, pair_rows, pair_verdict
from engine.data.formats.writing import Lookup, decided_only, json_lines, json_list, need, number_or_text, rows_of
from engine.schema import Order, Outcome, Task

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


BENCHES = (
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
