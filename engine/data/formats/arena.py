"""Votes on two conversations: MT-Bench human judgments, Arena battles with old and new columns, battles in 55k form."""

from __future__ import annotations

import re

from engine.core.errors import shown
from engine.core.schema import Order, Outcome, Task
from engine.data.formats.base import Builder, Format, HubSet, Record, Row, RowError, Source, pair_verdict
from engine.data.formats.turns import conversation, join_turns, turn_item
from engine.data.recording_rules import PAIR_RULE

WINNER_RULE: dict[str, Outcome] = {
    **PAIR_RULE,
    "both_bad": Outcome.TIE,
    "bothbad": Outcome.TIE,
    "tie_(inconsistent)": Outcome.TIE,
}
"""Spellings of a winner; `tie (bothbad)` and `both_bad` are ties, as in the leaderboards made of these files."""
_PERSON = re.compile(r"(expert|author|arena_user|human|crowd)", re.IGNORECASE)
_BATTLE_COLUMNS = (
    "anony", "language", "tstamp", "timestamp", "evaluation_session_id", "evaluation_order", "category_tag",
)  # fmt: skip
INCONSISTENT = "the two orders disagree, and the file does not say which said what"
USERS = "arena users"


def _is_person(judge: str) -> bool:
    return _PERSON.match(judge) is not None


def _judge(record: Record) -> str:
    """Who voted; FastChat writes [model, prompt] for a model."""
    name = record.get("judge")
    named = record.json("judge") if name.startswith("[") else [name]
    if not isinstance(named, list) or not named:
        raise RowError("judge names nobody.", "FastChat writes [model, prompt] for a model.", "judge")
    return str(named[0])


def _turn(record: Record) -> int:
    text = record.get("turn") or "1"
    if text not in ("1", "2", "3", "4", "5", "6", "7", "8", "9"):
        raise RowError(f"turn {shown(text, 20)} is no number from 1 to 9.", "Correct it.", "turn")
    return int(text)


def _rows(item: str, context: str, group: str, texts: dict[str, str | None]) -> tuple[Row, list[Row]]:
    """The item, and a response for each system."""
    made = [
        {"response_id": f"{item}:{system}", "item_id": item, "system": system, "text": text}
        for system, text in texts.items()
    ]
    return {"item_id": item, "context": context or None, "group": group or None}, made


def _same_questions(record: Record, turns: int | None) -> tuple[str, str, str]:
    """Context and both responses of a battle.

    Raises:
        RowError: the two conversations are about different questions.
    """
    user_a, model_a = conversation(record, "conversation_a", turns)
    user_b, model_b = conversation(record, "conversation_b", turns)
    if user_a != user_b:
        raise RowError(
            "conversation_a and conversation_b ask different questions.",
            "Only answers to the same questions can be compared; correct or remove the row.",
            "conversation_b",
        )
    return join_turns(user_a), join_turns(model_a), join_turns(model_b)


# --- MT-Bench ---


def _against_mtbench(source: Source) -> str:
    judges = source.some("judge")
    if judges and all(j.startswith("arena_user") for j in judges):
        return "the judges are Arena users"
    if not any(_is_person(j) or "gpt" in j for j in judges) and {"tstamp", "language", "anony"} & source.columns:
        return "the judges are neither experts nor authors"
    return ""


def read_mtbench(source: Source, builder: Builder) -> None:
    """A vote of a person is a human preference; one of a model is its verdict in both orders."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            turn = _turn(record)
            item = turn_item(record.needed("question_id"), turn)
            context, text_a, text_b = _same_questions(record, turn)
            a, b = record.needed("model_a"), record.needed("model_b")
            row, responses = _rows(item, context, "", {a: text_a, b: text_b})
            judge = _judge(record)
            pair: Row = {
                "comparison_id": f"{item}:{a}:{b}:{judge}",
                "item_id": item,
                "response_a": f"{item}:{a}",
                "response_b": f"{item}:{b}",
            }
            outcome = builder.side(record, "winner", WINNER_RULE)
            verdicts: list[Row] = []
            if _is_person(judge):
                pair["human"] = outcome
            elif outcome:
                pair |= {"verdict": outcome, "verdict_ba": outcome}
                known = None if "inconsistent" in record.get("winner") else outcome
                verdicts = [
                    pair_verdict(judge, item, pair["response_a"], pair["response_b"], order, known, INCONSISTENT)
                    for order in Order
                ]
            builder.add(record, [row], responses, [pair], verdicts)
    builder.notes.append(
        "Each vote is a pair; turn 2 is an item of its own, with both questions and both answers of a system."
    )
    builder.notes.append(
        "A model's winner holds for both orders, as its two games agreed; 'tie (inconsistent)' is a tie of the pair, "
        "and its two calls are unread."
    )


# --- Arena ---


def _against_arena(source: Source) -> str:
    told = [c for c in _BATTLE_COLUMNS if c in source.columns]
    users = any(j.startswith("arena_user") for j in source.some("judge"))
    if not told and not users:
        return f"no {', '.join(_BATTLE_COLUMNS[:4])} and no judge arena_user_..."
    if {"conversation_a", "conversation_b"} & source.columns and not {
        "conversation_a",
        "conversation_b",
    } <= source.columns:
        return "only one of conversation_a and conversation_b"
    if {"response_a", "response_b"} & source.columns:
        return "response_a or response_b in place of conversations"
    return ""


def read_arena(source: Source, builder: Builder) -> None:
    """A battle is a pair with a human preference; without conversations its vote is a verdict, model_a shown first."""
    bare = "conversation_a" not in source.columns
    for record in builder.records():
        with builder.row(record):
            item = record.get("question_id") or record.get("id") or f"battle-{record.row}"
            a, b = record.needed("model_a"), record.needed("model_b")
            context, text_a, text_b = ("", None, None) if bare else _same_questions(record, None)
            row, responses = _rows(item, context, record.get("language"), {a: text_a, b: text_b})
            outcome = builder.side(record, "winner", WINNER_RULE)
            pair: Row = {
                "comparison_id": f"{item}:{a}:{b}",
                "item_id": item,
                "response_a": f"{item}:{a}",
                "response_b": f"{item}:{b}",
                "human": outcome,
            }
            votes = [pair_verdict(USERS, item, pair["response_a"], pair["response_b"], Order.AB, outcome)]
            builder.add(record, [row], responses, [pair], votes if bare else [])
    if bare:
        builder.notes.append(
            "The file holds results without conversations: its votes are verdicts of the judge “arena users” with "
            "model_a shown first; no judge can be asked again."
        )
    else:
        builder.notes.append("A response is the whole conversation of a system; tie (bothbad) and both_bad are ties.")


# --- 55k: one column a result ---

_RESULTS = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}


def read_arena_55k(source: Source, builder: Builder) -> None:
    """Battles with lists of prompts and answers and one column for each result."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item, a, b = record.needed("id"), record.needed("model_a"), record.needed("model_b")
            turns = {name: record.json(name) for name in ("prompt", "response_a", "response_b")}
            for name, found in turns.items():
                if not isinstance(found, list) or not found or not all(isinstance(t, str) for t in found):
                    raise RowError(f"{name} is no list of texts.", "Export it as a JSON list; null has no text.", name)
            if len({len(found) for found in turns.values()}) != 1:
                raise RowError("prompt, response_a and response_b have different numbers of turns.", "Correct the row.")
            won = [side for column, side in _RESULTS.items() if record.get(column) in ("1", "1.0", "true")]
            if len(won) != 1:
                raise RowError(f"{len(won)} of {', '.join(_RESULTS)} are 1; one must be.", "Correct the row.")
            texts: dict[str, str | None] = {a: join_turns(turns["response_a"]), b: join_turns(turns["response_b"])}
            row, responses = _rows(item, join_turns(turns["prompt"]), "", texts)
            pair = {"comparison_id": item, "item_id": item, "response_a": f"{item}:{a}", "response_b": f"{item}:{b}",
                    "human": won[0]}  # fmt: skip
            builder.add(record, [row], responses, [pair])
    builder.notes.append("A response is the whole conversation of a system.")


ARENA: tuple[Format, ...] = (
    Format(
        "mt-bench-human",
        "MT-Bench human judgments",
        "Votes of experts, authors or GPT-4 on two conversations, turn by turn.",
        (("question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn"),),
        read_mtbench,
        Task.INSTRUCTION.value,
        against=_against_mtbench,
        telling=("question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "turn"),
        hub=(HubSet("lmsys/mt_bench_human_judgments", ("human", "gpt4_pair")),),
    ),
    Format(
        "arena",
        "Arena battles",
        "Votes of visitors on two conversations; also results without conversations.",
        (("model_a", "model_b", "winner"),),
        read_arena,
        Task.INSTRUCTION.value,
        against=_against_arena,
        telling=("model_a", "model_b", "winner", "conversation_a", "conversation_b", "anony", "tstamp"),
        hub=(
            HubSet("lmsys/chatbot_arena_conversations"),
            HubSet("lmarena-ai/arena-human-preference-100k"),
            HubSet("lmarena-ai/arena-human-preference-140k"),
        ),
    ),
    Format(
        "arena-55k",
        "Arena battles (55k columns)",
        "Votes of visitors, lists of prompts and answers.",
        (("id", "model_a", "model_b", "prompt", "response_a", "response_b", *_RESULTS),),
        read_arena_55k,
        Task.INSTRUCTION.value,
        telling=("model_a", "model_b", *_RESULTS),
        hub=(HubSet("lmarena-ai/arena-human-preference-55k"),),
    ),
)
