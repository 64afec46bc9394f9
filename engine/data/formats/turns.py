"""Conversations as one text: turns stand under a heading, a single turn stands as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from engine.core.errors import shown
from engine.data.formats.base import Record, RowError

_LIKE_A_TURN = re.compile(r":\d+$")
_FIX = "Export the conversation as a list of {role, content} with text content."


def join_turns(turns: Sequence[str]) -> str:
    """One text of several turns; a single one stays verbatim."""
    if len(turns) == 1:
        return turns[0]
    return "\n\n".join(f"[Turn {i}]\n{text}" for i, text in enumerate(turns, start=1))


def conversation(record: Record, column: str, turns: int | None = None) -> tuple[list[str], list[str]]:
    """Texts of the user and of the model, turn by turn.

    Args:
        record: of the file.
        column: a list of messages {role, content}; content is a text or a list of text parts.
        turns: how many turns to take; None takes all.

    Raises:
        RowError: it is no such list, a message holds something that is no text, or turns are missing.
    """
    messages = record.json(column)
    if not isinstance(messages, list) or not messages:
        raise RowError(f"{column} is no list of messages.", _FIX, column)
    user: list[str] = []
    model: list[str] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "human", "assistant", "gpt", "system"):
            raise RowError(f"{column} holds a message of the role {shown(role, 40)}.", _FIX, column)
        text = content_text(message.get("content"), column)
        if role == "system":
            continue
        (user if role in ("user", "human") else model).append(text)
    wanted = turns if turns is not None else len(model)
    if not wanted or len(user) < wanted or len(model) < wanted:
        raise RowError(
            f"{column} has {len(user)} questions and {len(model)} answers; {wanted or 1} of each are needed.",
            "Complete the conversation, or correct the turn.",
            column,
        )
    return user[:wanted], model[:wanted]


def content_text(content: Any, column: str) -> str:
    """The text of a message: a text, or a list of parts that are all text.

    Raises:
        RowError: a part is no text, such as an image.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part, column) for part in content)
    raise RowError(f"{column} holds a message without text.", "Fill it in, or remove the row.", column)


def _part(part: Any, column: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, dict) else "?"
    text = part.get("text") if isinstance(part, dict) else None
    others = [k for k in ("image", "image_url") if isinstance(part, dict) and part.get(k)]
    if kind != "text" or others or not isinstance(text, str):
        named = others[0] if others else str(kind)
        raise RowError(
            f"{column} holds a part of the kind {shown(named, 40)}; a text judge cannot see it.",
            "Remove the row, or replace the part by a text.",
            column,
        )
    return text


def turn_item(question: str, turn: int) -> str:
    """Item id of a question's turn: the question's own for the first, `question:2` for the second.

    A question whose own id looks like that of a turn has `:1` behind it, so that no two turns share an id.
    """
    return question if turn <= 1 and not _LIKE_A_TURN.search(question) else f"{question}:{turn}"
