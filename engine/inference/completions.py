"""Chat completions of OpenAI-compatible servers: the form of a request, and the reading of an answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

TOP_FEW = 5
"""Alternatives asked for where a server refuses more."""
FRAME_TOKENS = 8
BYTES_PER_TOKEN = 4
TOKEN_RULE = f"UTF-8 bytes of the messages / {BYTES_PER_TOKEN}, rounded up, + {FRAME_TOKENS} for the chat format"
"""Rule for counting prompt tokens before a call, since the server's tokenizer is not known."""
REASONING_TOKENS = 4096
"""Room for the reasoning of a model that cannot leave it out [tokens]."""
_SLACK = 1e-3
_AT_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens", "max_length", "model_length"})
"""Servers' words for the end of an answer at its longest length, or at the end of the model's window."""
_MARKS = {"▁": " ", "Ġ": " ", "Ċ": "\n"}
"""Spellings of the space or line break a token begins with, at some servers: SentencePiece and byte-level BPE."""


class AnswerError(Exception):
    """The server's answer cannot be read as a chat completion; its text says why."""


class NoProbabilitiesError(AnswerError):
    """The server's log-probabilities are none."""


@dataclass(frozen=True)
class Way:
    """Form in which a server takes its questions, found out on the first call.

    Attributes:
        top: alternatives asked for at the first token of the answer; 0 asks for text.
        limit: the server's name for the longest answer.
        temperature, seed: true where it takes these fields.
        plain: true where the chat template is asked to leave out reasoning (`enable_thinking`: Qwen3, GLM, DeepSeek).
        room: tokens for reasoning before a text answer.
        effort: sent as `reasoning_effort`; empty sends none.
    """

    top: int = 20
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    seed: bool = True
    plain: bool = False
    room: int = 0
    effort: str = ""

    def after(self, complaint: str) -> Way | None:
        """The next way to try when the server refuses a field; None where its complaint is about none of them."""
        text = complaint.lower()
        if self.plain and ("chat_template" in text or "enable_thinking" in text):
            return replace(self, plain=False)
        if "logprob" in text and self.top:
            return replace(self, top=TOP_FEW if "top_logprobs" in text and self.top > TOP_FEW else 0)
        if "max_completion_tokens" in text or "max_tokens" in text:
            return replace(self, limit="max_completion_tokens") if self.limit == "max_tokens" else None
        if "temperature" in text and self.temperature:
            return replace(self, temperature=False)
        if "seed" in text and self.seed:
            return replace(self, seed=False)
        return None

    @property
    def reasoning(self) -> str:
        """Part of the key of an answer; empty where nothing is said of reasoning, as before it could be."""
        said = [f"effort-{self.effort}"] if self.effort else []
        said += ["plain"] if self.plain else []
        return "-".join(["", *said, *([f"room-{self.room}"] if self.room and not self.top else [])])

    def packed(self) -> str:
        """As text for the call cache."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def unpacked(cls, text: str) -> Way:
        """Inverse of `packed`."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Question:
    """One question to the server.

    Attributes:
        system, user: the messages, verbatim; an empty system message is not sent.
        labels: true where the answer is read from the probabilities of its first token.
        max_tokens: longest answer; with `labels` it is 1 whatever this says.
        temperature: of a text answer; probabilities are always asked for at 1, where no server rescales them.
        sample: number of this answer among several to one prompt; the seed sent with it.
    """

    system: str
    user: str
    labels: bool
    max_tokens: int
    temperature: float = 0.0
    sample: int = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        """As the server takes them."""
        head = [{"role": "system", "content": self.system}] if self.system else []
        return [*head, {"role": "user", "content": self.user}]

    @property
    def prompt_tokens(self) -> int:
        """Counted by `TOKEN_RULE`."""
        size = len(f"{self.system}{self.user}".encode("utf-8", "replace"))
        return math.ceil(size / BYTES_PER_TOKEN) + FRAME_TOKENS

    @property
    def answer_tokens(self) -> int:
        """The most the answer may have."""
        return 1 if self.labels else self.max_tokens

    def body(self, model: str, way: Way) -> dict[str, Any]:
        """The request's JSON."""
        made: dict[str, Any] = {"model": model, "messages": self.messages, way.limit: self.answer_tokens}
        if way.temperature:
            made["temperature"] = 1.0 if self.labels else self.temperature
        if self.labels:
            made |= {"logprobs": True, "top_logprobs": way.top}
        elif way.seed and self.temperature > 0:
            made["seed"] = self.sample
        if way.plain:
            made["chat_template_kwargs"] = {"enable_thinking": False}
        if way.effort:
            made["reasoning_effort"] = way.effort
        return made


@dataclass(frozen=True)
class ApiReply:
    """A server's answer.

    Attributes:
        text: the message; may be empty.
        top: tokens at the first place of the answer and their probabilities; None where the server gives none.
        prompt_tokens, answer_tokens: as the server counts them; -1 where it does not say.
        cut: true where the answer ended at the longest length; None where the server does not say how it ended.
        withheld: why the server holds the answer back (a content filter, a refusal); empty otherwise.
        reasons: true where the model reasons before it answers: at the beginning of the message, in a field apart, or
            unseen, by the server's count.
        model: the server's name for the model that answered.
        seconds: time of this answer [s].
    """

    text: str
    top: tuple[tuple[str, float], ...] | None
    prompt_tokens: int = -1
    answer_tokens: int = -1
    cut: bool | None = False
    withheld: str = ""
    model: str = ""
    seconds: float = 0.0
    reasons: bool = False


def read_reply(content: bytes) -> ApiReply:
    """A chat completion from the bytes of an answer.

    Raises:
        AnswerError: it is none; the text says what is wrong.
    """
    body = _parsed(content)
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = message.get("content") or ""
        if not isinstance(text, str):
            raise TypeError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise AnswerError("the server's answer holds no message") from None
    usage: Any = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    finish = choice.get("finish_reason")
    withheld = "a content filter of the server held the answer back" if finish == "content_filter" else ""
    if message.get("refusal"):
        withheld = "the server gave a refusal in place of an answer"
    top = _top(choice.get("logprobs"))
    return ApiReply(
        text=text,
        top=top,
        prompt_tokens=_count(usage, "prompt_tokens"),
        answer_tokens=_count(usage, "completion_tokens"),
        cut=str(finish).lower() in _AT_LIMIT if finish else None,
        withheld=withheld,
        model=str(body.get("model") or ""),
        reasons=_reasons(message, usage, [text, *([max(top, key=lambda one: one[1])[0]] if top else [])]),
    )


_THOUGHT = re.compile(r"\s*(?:<(?:\w+:)?think(?:ing)?>|◁think▷|\[think\]|<\|channel\|>)", re.IGNORECASE)
"""Beginning of an answer that reasons first, as Qwen3, DeepSeek-R1, Seed-OSS, Kimi, Magistral and gpt-oss write it."""


def _reasons(message: Mapping[str, Any], usage: Mapping[str, Any], beginnings: Sequence[str]) -> bool:
    apart = message.get("reasoning_content") or message.get("reasoning")
    details = usage.get("completion_tokens_details")
    unseen = _count(details, "reasoning_tokens") if isinstance(details, Mapping) else 0
    return bool(apart) or unseen > 0 or any(_THOUGHT.match(text) for text in beginnings)


def complaint_of(content: bytes) -> str:
    """The server's text in an answer with an error status, and the field it names; empty where it says nothing."""
    try:
        body = _parsed(content)
    except AnswerError:
        return content[:400].decode("utf-8", "replace") if b"<" not in content[:400] else ""
    found: Any = body.get("error", body.get("detail", body.get("message", "")))
    if isinstance(found, Mapping):
        parts = [found.get("message"), found.get("param"), found.get("code")]
        return " ".join(str(p) for p in parts if p)
    return found if isinstance(found, str) else json.dumps(found)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError("the server's answer is no JSON, or broke off") from None
    if not isinstance(body, dict):
        raise AnswerError("the server's answer is no JSON object")
    return body


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1


def _top(logprobs: Any) -> tuple[tuple[str, float], ...] | None:
    """Probabilities of the tokens at the first place; None where the server gives none.

    Raises:
        NoProbabilitiesError: its probabilities are none.
    """
    places = logprobs.get("content") if isinstance(logprobs, dict) else None
    first = places[0] if isinstance(places, list) and places else None
    if not isinstance(first, dict) or not isinstance(first.get("top_logprobs"), list) or not first["top_logprobs"]:
        return None
    entries = list(first["top_logprobs"])
    if "token" in first and all(isinstance(e, dict) and e.get("token") != first["token"] for e in entries):
        entries.append(first)  # the token that was drawn, where it is not among the likeliest
    found = [_token(entry) for entry in entries]
    if sum(p for _, p in found) > 1 + _SLACK:
        raise NoProbabilitiesError("the server's token probabilities sum to more than 1")
    return tuple(found)


def _token(entry: Any) -> tuple[str, float]:
    try:
        token, value = str(entry["token"]), float(entry["logprob"])
    except (KeyError, TypeError, ValueError):
        token, value = "", math.nan
    if math.isnan(value) or value > _SLACK:
        raise NoProbabilitiesError("the server's token probabilities are no log-probabilities")
    return _MARKS.get(token[:1], token[:1]) + token[1:], min(1.0, math.exp(value))


def estimate(questions: Sequence[Question]) -> tuple[int, int]:
    """Prompt tokens by `TOKEN_RULE`, and the most that the answers may have."""
    return sum(q.prompt_tokens for q in questions), sum(q.answer_tokens for q in questions)
