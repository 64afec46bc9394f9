"""Chat messages to token ids, so that no text of a user can become a special token.

The chat template is rendered around markers; its own pieces may hold special tokens, the messages may not:
they are encoded with `split_special_tokens`, which spells `<|im_end|>` out as ordinary characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from engine.errors import ModelError

_MARK = "judgescope-message-{}-marker"
_FIND = re.compile(r"judgescope-message-(\d+)-marker")


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
    contents = [system, user] if system else [user]
    rendered = _render(tokenizer, with_system=bool(system))
    if rendered is None:  # a template without a system role takes it as the head of the user message
        contents = [f"{system}\n\n{user}"]
        rendered = _render(tokenizer, with_system=False)
    ids: list[int] = []
    pieces = _FIND.split(rendered or "")
    if sorted(pieces[1::2]) != [str(i) for i in range(len(contents))]:
        raise ModelError("The tokenizer's chat template does not repeat each message once; it cannot be used.")
    for i, piece in enumerate(pieces):
        if i % 2:
            ids += encode_text(tokenizer, contents[int(piece)])
        else:
            ids += tokenizer.encode(piece, add_special_tokens=False)
    return _with_one_bos(tokenizer, ids)


def encode_text(tokenizer: Any, text: str) -> list[int]:
    """Ids of ordinary text; no special token can come out, whatever the text says."""
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])


def _render(tokenizer: Any, *, with_system: bool) -> str | None:
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            "The model's tokenizer has no chat template, so its prompt format is unknown. Use an instruction-tuned "
            "model, or add a chat_template.jinja to its folder."
        )
    roles: Sequence[str] = ("system", "user") if with_system else ("user",)
    messages = [{"role": role, "content": _MARK.format(i)} for i, role in enumerate(roles)]
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception as error:
        if with_system:
            return None
        raise ModelError(f"The tokenizer's chat template failed: {error}") from error


def _with_one_bos(tokenizer: Any, ids: list[int]) -> list[int]:
    bos = tokenizer.bos_token_id
    if bos is None:
        return ids
    while len(ids) > 1 and ids[0] == bos and ids[1] == bos:
        ids = ids[1:]
    adds_bos = tokenizer("x")["input_ids"][:1] == [bos]
    return [bos, *ids] if adds_bos and ids[0] != bos else ids
