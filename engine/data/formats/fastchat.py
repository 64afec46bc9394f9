"""FastChat's own files: single and pair judgments, the answers they are about, and the questions."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from engine.core.errors import InputError, shown
from engine.core.schema import Order, Task
from engine.data.formats.base import (
    Builder,
    Format,
    Record,
    Row,
    RowError,
    Source,
    pair_verdict,
    score_verdict,
)
from engine.data.formats.turns import join_turns, turn_item
from engine.data.mapping import parse_number

_QUESTION = ("question_id", "turns")
_ANSWER = ("question_id", "model_id", "choices")
_COMPANIONS = "model_answer/*.jsonl and question.jsonl give the texts"
_JUDGE_FIX = "FastChat writes [model, prompt]."
_SCALE = (1.0, 10.0)
"""Scale of FastChat's prompts; its parser also takes numbers that are off it."""


class _Texts:
    """Content of the companions: questions and answers by id, turn by turn."""

    def __init__(self, source: Source, builder: Builder) -> None:
        self.questions: dict[str, Row] = {}
        self.answers: dict[tuple[str, str], list[str]] = {}
        for companion in source.companions:
            held = companion.columns
            kind = "question" if set(_QUESTION) <= held else "answer" if set(_ANSWER) <= held else ""
            if not kind:
                raise InputError(
                    f"{companion.filename!r} holds neither FastChat's answers ({', '.join(_ANSWER)}) nor its questions "
                    f"({', '.join(_QUESTION)}). It has: {', '.join(sorted(held)) or 'no columns'}."
                )
            for record in builder.records(companion):
                with builder.row(record, companion.filename):
                    if kind == "question":
                        self.questions[record.needed("question_id")] = _question(record)
                    else:
                        self.answers[record.needed("question_id"), record.needed("model_id")] = _answers(record)

    def item(self, question: str, turn: int) -> Row:
        """The item of a question's turn; without its text where no companion has it."""
        known = self.questions.get(question, {})
        turns = known.get("turns", [])[:turn]
        return {
            "item_id": turn_item(question, turn),
            "context": join_turns(turns) if len(turns) == turn else None,
            "group": known.get("group"),
            "reference": known["references"][turn - 1] if len(known.get("references", ())) >= turn else None,
        }

    def response(self, question: str, turn: int, model: str) -> Row:
        """A system's answer; without its text where no companion has it."""
        item = turn_item(question, turn)
        said = self.answers.get((question, model), [])[:turn]
        text = join_turns(said) if len(said) == turn else None
        return {"response_id": f"{item}:{model}", "item_id": item, "system": model, "text": text}

    def say(self, builder: Builder) -> None:
        """Tell what is missing."""
        if not self.answers:
            builder.notes.append(
                "The file holds verdicts without the texts they are about: they work as a recorded judge. Add "
                "model_answer files and question.jsonl to ask another judge."
            )
        builder.notes.append("Turn 2 is an item of its own, with both questions and both answers of a system.")


def _question(record: Record) -> Row:
    turns, references = record.json("turns"), record.json("reference")
    if not _texts(turns):
        raise RowError("turns is no list of texts.", "Write the questions of each turn.", "turns")
    return {
        "turns": turns,
        "group": record.get("category") or None,
        "references": references if _texts(references) else [],
    }


def _texts(found: Any) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(t, str) for t in found)


def _answers(record: Record) -> list[str]:
    """The answers of the turns, up to the first that has none."""
    choices = record.json("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    turns = first.get("turns") if isinstance(first, dict) else None
    found = list(takewhile(lambda turn: isinstance(turn, str), turns if isinstance(turns, list) else []))
    if not found:
        raise RowError("choices has no turns of text.", "FastChat writes [{index, turns: [...]}].", "choices")
    return found


def _judge(record: Record) -> str:
    """Name of the judge."""
    named = record.json("judge") if record.get("judge").startswith("[") else [record.needed("judge")]
    if not isinstance(named, list) or not named:
        raise RowError("judge names nobody.", _JUDGE_FIX, "judge")
    return str(named[0])


def _turn(record: Record) -> int:
    text = record.get("turn") or "1"
    if text not in ("1", "2"):
        raise RowError(f"turn {shown(text, 20)} is neither 1 nor 2.", "Correct it.", "turn")
    return int(text)


def read_single(source: Source, builder: Builder) -> None:
    """Scores from 1 to 10; -1 is FastChat's mark of a reply it could not read, any other number is unread."""
    texts = _Texts(source, builder)
    for record in builder.records():
        with builder.row(record):
            question, turn, model = record.needed("question_id"), _turn(record), record.needed("model")
            judge = _judge(record)
            response = texts.response(question, turn, model)
            number = parse_number(record.get("score"))
            if number is None and record.get("score"):
                raise RowError(f"score {shown(record.get('score'), 40)} is no number.", "Correct it.", "score")
            off = number is not None and number != -1 and not _SCALE[0] <= number <= _SCALE[1]
            score = None if off or number == -1 else number
            unread = f"{number:g} is not on FastChat's scale (1 to 10)" if off else "the judge's reply has no score"
            raw = record.get("judgment")
            verdict = score_verdict(judge, response["item_id"], response["response_id"], score, unread, raw)
            builder.add(record, [texts.item(question, turn)], [response], verdicts=[verdict])
    texts.say(builder)


def read_pair(source: Source, builder: Builder) -> None:
    """Two games a pair: model_1 is shown first in game 1 and second in game 2; winners name the model."""
    texts = _Texts(source, builder)
    for record in builder.records():
        with builder.row(record):
            question, turn = record.needed("question_id"), _turn(record)
            judge = _judge(record)
            a, b = (texts.response(question, turn, record.needed(f"model_{i}")) for i in (1, 2))
            verdicts = []
            for game, order in ((1, Order.AB), (2, Order.BA)):
                winner = record.needed(f"g{game}_winner")
                outcome = {"model_1": "a", "model_2": "b", "tie": "tie", "error": None}.get(winner, "?")
                if outcome == "?":
                    raise RowError(
                        f"g{game}_winner {shown(winner, 40)} is in no rule.", "Known: model_1, model_2, tie, error.",
                        f"g{game}_winner",
                    )  # fmt: skip
                builder.labels.setdefault(winner, outcome or "unread")
                verdicts.append(
                    pair_verdict(
                        judge,
                        a["item_id"],
                        a["response_id"],
                        b["response_id"],
                        order,
                        outcome,
                        "FastChat could not read the reply",
                        record.get(f"g{game}_judgment"),
                    )
                )
            pair = {
                "comparison_id": f"{a['item_id']}:{a['system']}:{b['system']}:{judge}",
                "item_id": a["item_id"],
                "response_a": a["response_id"],
                "response_b": b["response_id"],
                "verdict": verdicts[0]["outcome"],
                "verdict_ba": verdicts[1]["outcome"],
            }
            builder.add(record, [texts.item(question, turn)], [a, b], [pair], verdicts)
    texts.say(builder)


def read_answers(source: Source, builder: Builder) -> None:
    """Answers of systems; turn 2 holds both answers."""
    texts = _Texts(source, builder)
    for record in builder.records():
        with builder.row(record):
            question, model = record.needed("question_id"), record.needed("model_id")
            texts.answers[question, model] = turns = _answers(record)
            if len(turns) < 2 <= len(texts.questions.get(question, {}).get("turns", [])):
                builder.report("warning", record, "The second turn has no answer.", "Nothing, if there was none.")
            items = [texts.item(question, t) for t in range(1, len(turns) + 1)]
            responses = [texts.response(question, t, model) for t in range(1, len(turns) + 1)]
            builder.add(record, items, responses)
    if not texts.questions:
        builder.notes.append("The questions are missing: add question.jsonl, or the judge sees each answer alone.")
    texts.say(builder)


FASTCHAT: tuple[Format, ...] = (
    Format(
        "fastchat-single",
        "FastChat single judgments",
        "Scores of one judge for answers to MT-Bench questions; -1 is unread.",
        (("question_id", "model", "judge", "judgment", "score", "turn"),),
        read_single,
        Task.INSTRUCTION.value,
        telling=("question_id", "model", "judge", "user_prompt", "judgment", "score"),
        companions=_COMPANIONS,
    ),
    Format(
        "fastchat-pair",
        "FastChat pair judgments",
        "Verdicts of one judge on pairs, in both orders; error is unread.",
        (("question_id", "model_1", "model_2", "g1_winner", "g2_winner", "judge", "turn"),),
        read_pair,
        Task.INSTRUCTION.value,
        telling=("model_1", "model_2", "g1_winner", "g2_winner"),
        calls=2,
        companions=_COMPANIONS,
    ),
    Format(
        "fastchat-answers",
        "FastChat model answers",
        "Answers of one system, turn by turn.",
        (("question_id", "answer_id", "model_id", "choices"),),
        read_answers,
        Task.INSTRUCTION.value,
        telling=("answer_id", "model_id", "choices"),
        companions="further model_answer files, and question.jsonl for the questions",
    ),
)
