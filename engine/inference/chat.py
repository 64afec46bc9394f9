"""Chat messages to token ids, so that no text of a user can become a special token.

The chat template is rendered around markers; its own pieces may hold special tokens, the messages may not:
they are encoded with `split_special_tokens`, which spells `<|im_end|>` out as ordinary characters.

A fast tokenizer keeps that switch as its own state from call to call, so two threads that encode at the same time
can swap their switches, and a user's `<|im_end|>` would end the message. All encoding holds `ENCODING`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.core.errors import ModelError

_MARK = "judgescope-message-{}-marker"
_FIND = re.compile(r"judgescope-message-(\d+)-marker")
ENCODING = threading.Lock()
"""Held by whoever encodes, in any module."""


class Message(NamedTuple):
    """One turn of a conversation: `system`, `user` or `assistant`, and its text, verbatim."""

    role: str
    content: str


def render_ids(tokenizer: Any, system: str, user: str) -> list[int]:
    """Token ids of one judge prompt, ready for the first answer token.

    Args:
        tokenizer: a fast tokenizer with a chat template.
        system: system message; empty leaves the template's default in place.
        user: the whole user message, verbatim.

    Returns:
        Token ids; exactly one BOS where the tokenizer or its template uses one.

    Raises:
        ModelError: the tokenizer has no chat template, or the template does not keep the message.
    """
    return render_many(tokenizer, system, [user])[0]


def render_many(tokenizer: Any, system: str, users: Sequence[str]) -> list[list[int]]:
    """`render_ids` of prompts that differ in the user message alone: their frame is rendered and encoded once.

    The messages are encoded in one call, outside Python and on several cores.

    Raises:
        ModelError: as `render_ids`.
    """
    frame = _frame(tokenizer, ["system", "user"] if system else ["user"], answer_next=True)
    if frame is None:  # a template without a system role takes it as the head of the user message
        users, system = [f"{system}\n\n{user}" for user in users], ""
        frame = _frame(tokenizer, ["user"], answer_next=True) or []
    place, said = int(bool(system)), encode_text(tokenizer, system) if system else []
    start = _start(tokenizer)
    return [_with_one_bos(_filled(frame, place, ids, said), *start) for ids in encode_texts(tokenizer, users)]


def _filled(frame: list[list[int] | int], place: int, own: list[int], said: list[int]) -> list[int]:
    out: list[int] = []
    for part in frame:
        out += part if isinstance(part, list) else own if part == place else said
    return out


def chat_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a finished conversation, with one BOS where the model uses one.

    Raises:
        ModelError: the tokenizer has no chat template, or the template does not keep a message.
    """
    return _ids(tokenizer, messages)


def plain_ids(tokenizer: Any, system: str, user: str, *, keep_end: bool = False) -> list[int]:
    """Token ids of a prompt without chat template: system, blank line, user.

    Args:
        tokenizer: any Hugging Face tokenizer.
        system: put ahead of the user message; may be empty.
        user: the whole user message, verbatim.
        keep_end: true where an end token that the tokenizer adds stays (an encoder expects it; a causal model
            would take it for the end of the text).
    """
    return plain_many(tokenizer, system, [user], keep_end=keep_end)[0]


def plain_many(tokenizer: Any, system: str, users: Sequence[str], *, keep_end: bool = False) -> list[list[int]]:
    """`plain_ids` of prompts that differ in the user message alone, in one call."""
    made = _encode_all(tokenizer, [f"{system}\n\n{user}" if system else user for user in users], add=True)
    ends = {tokenizer.eos_token_id, getattr(tokenizer, "sep_token_id", None)} - {None}
    for ids in made:
        while not keep_end and len(ids) > 1 and ids[-1] in ends:
            ids.pop()
    return made


def encode_text(tokenizer: Any, text: str) -> list[int]:
    """Ids of ordinary text; no special token can come out, whatever the text says."""
    return encode(tokenizer, text, split=True)


def encode_texts(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """`encode_text` of each text, in one call."""
    return _encode_all(tokenizer, texts, add=False)


def _encode_all(tokenizer: Any, texts: Sequence[str], *, add: bool) -> list[list[int]]:
    if not texts:
        return []
    with ENCODING:
        made = tokenizer(
            list(texts),
            add_special_tokens=add,
            split_special_tokens=True,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
    return list(made["input_ids"])


def adds_bos(tokenizer: Any) -> bool:
    """True where the tokenizer puts a BOS ahead of a text by itself."""
    bos = tokenizer.bos_token_id
    return bos is not None and encode(tokenizer, "x", add=True)[:1] == [bos]


def encode(tokenizer: Any, text: str, *, split: bool = False, add: bool = False) -> list[int]:
    """Token ids of a text; may be called from any thread.

    Args:
        tokenizer: any Hugging Face tokenizer.
        text: the text to encode.
        split: true where a special token's name in the text is spelled out; a text from outside needs it.
        add: true where the tokenizer adds its own special tokens around the text.
    """
    with ENCODING:
        return list(tokenizer(text, add_special_tokens=add, split_special_tokens=split)["input_ids"])


def _ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    frame = _frame(tokenizer, [m.role for m in messages], answer_next=False)
    if frame is None:  # a template without a system role takes it as the head of the user message
        system, user, *rest = messages
        messages = [Message("user", f"{system.content}\n\n{user.content}"), *rest]
        frame = _frame(tokenizer, [m.role for m in messages], answer_next=False) or []
    ids = [i for p in frame for i in (p if isinstance(p, list) else encode_text(tokenizer, messages[p].content))]
    return _with_one_bos(ids, *_start(tokenizer))


def _frame(tokenizer: Any, roles: Sequence[str], *, answer_next: bool) -> list[list[int] | int] | None:
    """Ids of the template's own pieces, the numbers of the messages between them; None where it refuses a system."""
    rendered = _render(tokenizer, roles, answer_next=answer_next)
    if rendered is None:
        return None
    pieces = _FIND.split(rendered)
    if sorted(pieces[1::2]) != [str(i) for i in range(len(roles))]:
        raise ModelError("The tokenizer's chat template does not repeat each message once; it cannot be used.")
    return [int(piece) if k % 2 else encode(tokenizer, piece) for k, piece in enumerate(pieces)]


def _render(tokenizer: Any, roles: Sequence[str], *, answer_next: bool) -> str | None:
    """The chat text with a marker for each message; None where the template refuses a system message."""
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            "The model's tokenizer has no chat template, so its prompt format is unknown. Use an instruction-tuned "
            "model, add a chat_template.jinja to its folder, or pass a judge card with `chat = false`, which sends "
            "the prompt as plain text."
        )
    messages = [{"role": role, "content": _MARK.format(i)} for i, role in enumerate(roles)]
    try:
        # Templates that open a thinking block by default (Qwen3) take this switch; all others ignore it. The
        # answer is read at the first token, so thinking would leave every verdict unread.
        return str(
            tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=answer_next, enable_thinking=False
            )
        )
    except Exception as error:
        if roles[0] == "system" and len(roles) > 1:
            return None
        raise ModelError(f"The tokenizer's chat template failed: {error}") from error


def _start(tokenizer: Any) -> tuple[int | None, bool]:
    """The model's BOS, and whether the tokenizer puts one ahead of a text by itself."""
    return tokenizer.bos_token_id, adds_bos(tokenizer)


def _with_one_bos(ids: list[int], bos: int | None, adds: bool) -> list[int]:
    while bos is not None and len(ids) > 1 and ids[0] == bos and ids[1] == bos:
        ids = ids[1:]
    return [bos, *ids] if bos is not None and adds and ids[0] != bos else ids
