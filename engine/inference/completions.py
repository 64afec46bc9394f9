"""Requests to OpenAI-compatible servers: chat completions and their forms, and the reading of an answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

TOP_FEW = 5
"""Alternatives asked for where a server refuses more."""
FRAME_TOKENS = 8
BYTES_PER_TOKEN = 4
TOKEN_RULE = f"UTF-8 bytes of the messages / {BYTES_PER_TOKEN}, rounded up, + {FRAME_TOKENS} for the chat format"
"""Rule for counting prompt tokens before a call, since the server's tokenizer is not known."""
SEEDS_APART = 1000
"""Between the seeds of two runs; more than the samples one prompt may have."""
CHOICE_TOKENS = 64
"""Least room for an answer that is held to the labels, inside JSON at some servers [tokens]."""
REASONING_TOKENS = 4096
"""Room for the reasoning of a model that cannot leave it out [tokens]."""
_SLACK = 1e-3
_AT_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens", "max_length", "model_length"})
"""Servers' words for the end of an answer at its longest length, or at the end of the model's window."""
_MARKS = {"▁": " ", "Ġ": " ", "Ċ": "\n"}
"""Spellings of the space or line break a token begins with, at some servers: SentencePiece and byte-level BPE."""
_BY_ID = "token_id:"
"""How vLLM writes a token that is asked for by its id."""
_HIGHEST = 20
"""Alternatives that OpenAI and vLLM show at most, unless vLLM was started with another `--max-logprobs`."""
CHOICES = ("structured_outputs", "response_format")
"""Fields that hold an answer to a list: of vLLM, and the JSON schema that most servers take."""
_ANSWER = "answer"
"""The one property of that schema; OpenAI takes no schema that is not an object."""


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
        ids: true where the labels' tokens are asked for by id (`logprob_token_ids`: vLLM), whatever their rank.
        choice: field of `CHOICES` that holds a text answer to the labels; empty where none does.
        route: path of decision requests (`decisions`, `systemone`); empty elsewhere.
    """

    top: int = 20
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True
    seed: bool = True
    plain: bool = False
    room: int = 0
    effort: str = ""
    ids: bool = False
    choice: str = ""
    route: str = ""

    def after(self, complaint: str) -> Way | None:
        """The next way to try when the server refuses a field; None where its complaint is about none of them."""
        text = complaint.lower()
        if self.plain and ("chat_template" in text or "enable_thinking" in text):
            return replace(self, plain=False)
        if self.choice and any(word in text for word in (*CHOICES, "schema", "structured", "grammar")):
            return self.next_choice()
        if self.ids and any(word in text for word in ("token_id", "token id", "tokens_as_token", "vocab")):
            return replace(self, ids=False)
        if "logprob" in text and self.top:
            if self.ids:
                return replace(self, ids=False)
            fewer = "top_logprobs" in text or "max allowed" in text
            return replace(self, top=next((n for n in (_HIGHEST, TOP_FEW) if fewer and n < self.top), 0))
        if "max_completion_tokens" in text or "max_tokens" in text:
            return replace(self, limit="max_completion_tokens") if self.limit == "max_tokens" else None
        if "temperature" in text and self.temperature:
            return replace(self, temperature=False)
        if "seed" in text and self.seed:
            return replace(self, seed=False)
        return None

    def next_choice(self) -> Way:
        """With the next field of `CHOICES`, or none after the last."""
        return replace(self, choice=(*CHOICES, "")[CHOICES.index(self.choice) + 1])

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
        labels: true where numbers are read, here the probabilities of the answer's first token, and no text.
        max_tokens: longest answer; with `labels` it is 1 whatever this says.
        temperature: of a text answer; probabilities are always asked for at 1, where no server rescales them.
        sample: number of this answer among several to one prompt; with `seed` the seed sent with it.
        seed: of the run.
        choices: what a text answer may be, where the server can be held to it; empty leaves it free.
        ids: for each token that writes a label its id and its text, where the server takes ids.
    """

    system: str
    user: str
    labels: bool
    max_tokens: int
    temperature: float = 0.0
    sample: int = 0
    seed: int = 0
    choices: tuple[str, ...] = ()
    ids: tuple[tuple[int, str], ...] = ()

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

    @property
    def group(self) -> str:
        """Questions of one group are asked in one way, which is found out on the first."""
        return "labels" if self.labels else "choice" if self.choices else "text"

    def path(self, way: Way) -> str:  # noqa: ARG002 - other requests have paths that depend on it
        """Path of the request, behind the base URL."""
        return "chat/completions"

    def reply(self, content: bytes, way: Way) -> ApiReply:
        """The answer in the bytes that came back.

        Raises:
            AnswerError: there is none; the text says what is wrong.
        """
        found = read_reply(content)
        if self.labels and way.ids:
            return replace(found, top=_named(found.top, self.ids))
        if self.choices and way.choice == "response_format":
            return _unwrapped(found)
        return found

    def body(self, model: str, way: Way) -> dict[str, Any]:
        """The request's JSON."""
        made: dict[str, Any] = {"model": model, "messages": self.messages, way.limit: self.answer_tokens}
        if way.temperature:
            made["temperature"] = 1.0 if self.labels else self.temperature
        if self.labels:
            made |= {"logprobs": True, "top_logprobs": way.top}
            if way.ids:
                made |= {"logprob_token_ids": [i for i, _ in self.ids], "return_tokens_as_token_ids": True}
        elif way.seed and self.temperature > 0:
            made["seed"] = (self.seed * SEEDS_APART + self.sample) % 2**31
        if self.choices and way.choice:
            made[way.choice] = _held(way.choice, self.choices)
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
        system: the server's name for its own state (`system_fingerprint`): weights, version, configuration.
        nlls: negative log-likelihoods of the prompt's own tokens but the first, where they were asked for.
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
    system: str = ""
    nlls: tuple[float, ...] = ()


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
    usage = _usage(body)
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
        system=str(body.get("system_fingerprint") or ""),
        reasons=_reasons(message, usage, [text, *([max(top, key=lambda one: one[1])[0]] if top else [])]),
    )


def _named(top: Sequence[tuple[str, float]] | None, ids: Sequence[tuple[int, str]]) -> Any:
    """The tokens asked for by id, under their texts; None where the server leaves one out, and so knows no such ids."""
    shown = dict(top or ())
    found = [(text, shown.get(f"{_BY_ID}{i}")) for i, text in ids]
    return tuple(found) if found and all(p is not None for _, p in found) else None


def _held(name: str, choices: Sequence[str]) -> Any:
    """Value of a field of `CHOICES`."""
    if name == "structured_outputs":
        return {"choice": list(choices)}
    schema = {
        "type": "object",
        "properties": {_ANSWER: {"type": "string", "enum": list(choices)}},
        "required": [_ANSWER],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


_WRAPPED = re.compile(rf'\{{\s*"{_ANSWER}"\s*:\s*("(?:[^"\\]|\\.)*")')
"""Small models fill the JSON with line breaks (llama.cpp), so that it may be cut off behind the answer."""


def _unwrapped(reply: ApiReply) -> ApiReply:
    """With the answer out of the JSON that was asked for; as it is where the answer is not whole, or not JSON."""
    if found := _WRAPPED.match(reply.text.strip()):
        with suppress(ValueError):
            return replace(reply, text=str(json.loads(found[1])), cut=False)
    return reply


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


def _usage(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The server's counts; empty where it gives none."""
    usage = body.get("usage")
    return usage if isinstance(usage, dict) else {}


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
    return plain_token(token), min(1.0, math.exp(value))


def plain_token(token: str) -> str:
    """A token's text, where a server shows the mark of its space or line break."""
    return _MARKS.get(token[:1], token[:1]) + token[1:]


NO_ECHO = "the server gives no log-probabilities of a prompt (/completions with echo)"


@dataclass(frozen=True)
class EchoQuestion(Question):
    """A text whose own tokens' log-probabilities are asked for, by a plain completion that echoes its prompt.

    `user` is the text; no chat template is put around it, and the server adds a BOS where its tokenizer does.
    """

    @property
    def group(self) -> str:
        """Apart from questions to a chat."""
        return "echo"

    def path(self, way: Way) -> str:  # noqa: ARG002
        """Of plain completions."""
        return "completions"

    def body(self, model: str, way: Way) -> dict[str, Any]:  # noqa: ARG002
        """One token is written beside, since not every server takes none."""
        asked = {"max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
        return {"model": model, "prompt": self.user, **asked}

    def reply(self, content: bytes, way: Way) -> ApiReply:  # noqa: ARG002
        """The prompt's log-probabilities.

        Raises:
            AnswerError: there are none, as at a server that does not know `echo`.
        """
        body = _parsed(content)
        try:
            choice = body["choices"][0]
            values = choice["logprobs"]["token_logprobs"]
            prompt_tokens = _count(body["usage"], "prompt_tokens")
            echoed = str(choice["text"]).startswith(self.user) and 0 <= prompt_tokens <= len(values)
            nlls = tuple(-float(value) for value in values[1:prompt_tokens]) if echoed else ()
        except (KeyError, IndexError, TypeError, ValueError):
            echoed, nlls, prompt_tokens = False, (), -1
        if not echoed or not all(math.isfinite(nll) and nll >= -_SLACK for nll in nlls):
            raise NoProbabilitiesError(NO_ECHO)
        return ApiReply("", None, prompt_tokens, 1, model=str(body.get("model") or ""), nlls=nlls)


ROUTES = ("decisions", "systemone")
"""Paths of decision requests: of OpenAI's Decisions API and vLLM from 0.33, and of System One servers."""
_NAME = "verdict"


@dataclass(frozen=True)
class DecisionQuestion(Question):
    """A choice that the server answers with a probability for each of `choices`, without writing.

    `user` is the evidence and `system` the instructions of the question.
    """

    @property
    def group(self) -> str:
        """Apart from questions to a chat."""
        return "decision"

    def path(self, way: Way) -> str:
        """Of the decision API that the server has."""
        return way.route

    def body(self, model: str, way: Way) -> dict[str, Any]:
        """In the form of the route."""
        if way.route == "systemone":
            asked = {"type": "choice", "instructions": self.system, "criteria": dict.fromkeys(self.choices)}
            return {"model": model, "state": self.user, "questions": {_NAME: asked}}
        choices = [{"value": choice} for choice in self.choices]
        question = {"type": "choice", "name": _NAME, "instructions": self.system, "choices": choices}
        return {"model": model, "input": self.user, "questions": [question]}

    def reply(self, content: bytes, way: Way) -> ApiReply:
        """Probabilities as `top`, one for each choice.

        vLLM's System One names the mass that the labels had among all tokens, and the probabilities are multiplied by
        it; elsewhere they sum to 1.

        Raises:
            AnswerError: it is no answer, or one without these choices.
        """
        body = _parsed(content)
        usage = _usage(body)
        seen = ApiReply(
            "", None, _count(usage, "input_tokens"), _count(usage, "output_tokens"), model=str(body.get("model") or "")
        )
        try:
            answer = body["answers"][_NAME] if way.route == "systemone" else body["answers"][0]
            if answer.get("type") == "refusal":
                return replace(seen, withheld="the server gave a refusal in place of an answer")
            given = answer["probabilities"]
            given = given if isinstance(given, dict) else {one["value"]: one["probability"] for one in given}
            mass = float(((body.get("diagnostics") or {}).get(_NAME) or {}).get("label_mass", 1.0))
            found = [(choice, float(given[choice]) * mass) for choice in self.choices]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise AnswerError("the server's answer holds no decision") from None
        if not all(0 <= p <= 1 + _SLACK for _, p in found) or sum(p for _, p in found) > 1 + _SLACK:
            raise NoProbabilitiesError("the server's probabilities of the choices are none")
        return replace(seen, top=tuple(found))


def estimate(questions: Sequence[Question]) -> tuple[int, int]:
    """Prompt tokens by `TOKEN_RULE`, and the most that the answers may have."""
    return sum(q.prompt_tokens for q in questions), sum(q.answer_tokens for q in questions)
