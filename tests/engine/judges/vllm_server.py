"""A stub that takes and refuses requests as vLLM's OpenAI server does, with a planted distribution behind it.

Written after the request models of vLLM 0.32 (chat completions, completions, tokenize, systemone) and 0.33 (decisions):
an unknown field of a chat request is passed over, one of a decision request is refused; errors have vLLM's body.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.engine.judges.api_server import Response, Script, ok, serving

MAX_LOGPROBS, MAX_IDS = 20, 128
CHAT = frozenset(
    {"messages", "model", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens", "seed", "temperature"}
    | {"reasoning_effort", "prompt_logprobs", "logprob_token_ids", "structured_outputs", "chat_template_kwargs"}
    | {"response_format", "return_tokens_as_token_ids"}
)
"""Fields of a chat request that it knows, of those that a judge may send."""


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The request is answered with 400."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass
class Vllm:
    """A model that gives its next token the same distribution after every prompt.

    Attributes:
        next_token: token and probability; the place in it is the token's id.
        text: what it writes where nothing holds it.
        nlls: of the tokens that `echo` shows, by text; for each the negative log-likelihoods behind its first token.
        by_id: true where `logprob_token_ids` is known; an older server passes over it.
        structured: true where `structured_outputs` is known, as from 0.12.
        routes: the decision APIs it has.
        marks: how the vocabulary writes a leading space.
        passed_over: names of fields that it did not know.
    """

    next_token: Mapping[str, float]
    text: str = "well, four"
    nlls: Mapping[str, Sequence[float]] = field(default_factory=dict)
    by_id: bool = True
    structured: bool = True
    routes: tuple[str, ...] = ("decisions", "systemone")
    marks: str = "Ġ"
    passed_over: list[str] = field(default_factory=list)

    def serve(self) -> serving:
        """The server, to be used in a `with` statement."""
        scripts = {"/tokenize": self.tokenize, "/v1/completions": self.echo, "/version": self.version}
        scripts |= {f"/v1/{route}": getattr(self, route) for route in self.routes}
        return serving(_checked(self.chat), others={path: _checked(script) for path, script in scripts.items()})

    def version(self, _: int, __: dict[str, Any]) -> Response:
        return ok({"version": "0.32.0"})

    def tokenize(self, _: int, body: dict[str, Any]) -> Response:
        """Greedy by the longest token; what no token writes is id 9999 for each character."""
        ids, rest, known = [], body["prompt"], sorted(self.next_token, key=len, reverse=True)
        while rest:
            token = next((t for t in known if rest.startswith(t)), None)
            ids.append(list(self.next_token).index(token) if token else 9999)
            rest = rest[len(token or rest[0]) :]
        names = [list(self.next_token)[i] if i != 9999 else "<unk>" for i in ids]
        strings = [self.marks + n[1:] if n.startswith(" ") else n for n in names]
        found = {"count": len(ids), "max_model_len": 2048, "tokens": ids}
        return ok(found | ({"token_strs": strings} if body.get("return_token_strs") else {"token_strs": None}))

    def chat(self, _: int, body: dict[str, Any]) -> Response:
        self.passed_over += sorted(set(body) - CHAT)
        for name in ("top_logprobs", "prompt_logprobs"):
            if body.get(name) is not None and not isinstance(body[name], int):
                raise Refused(f"`{name}` must be an integer.", name)
        for name in ("logprob_token_ids",) if self.by_id else ():
            if body.get(name) and not body.get("logprobs"):
                raise Refused(f"when using `{name}`, `logprobs` must be set to true.", name)
        choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": self._written(body)}}
        choice |= {"logprobs": self._logprobs(body) if body.get("logprobs") else None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 50, "completion_tokens": 1, "total_tokens": 51}
        return ok({"model": "m", "choices": [choice], "usage": usage, "system_fingerprint": "vllm-0.32.0-tp1"})

    def _written(self, body: dict[str, Any]) -> str:
        held = body.get("structured_outputs")
        if held is None or not self.structured:
            return self.text
        if not isinstance(held, dict) or sum(held.get(k) is not None for k in ("json", "regex", "choice")) != 1:
            raise Refused("You must use one kind of structured outputs constraint")
        if not held["choice"]:
            raise Refused("Choice must not be empty", "structured_outputs")
        return str(held["choice"][-1])

    def _logprobs(self, body: dict[str, Any]) -> dict[str, Any]:
        ids, top = body.get("logprob_token_ids") or [], body.get("top_logprobs", 0)
        if self.by_id and len(ids) > MAX_IDS:
            wrong = f"Requested logprob_token_ids of length {len(ids)}, which is greater than max allowed: {MAX_IDS}"
            raise Refused(wrong, "logprob_token_ids")
        if not (ids and self.by_id) and top > MAX_LOGPROBS:
            wrong = f"Requested sample logprobs of {top}, which is greater than max allowed: {MAX_LOGPROBS}"
            raise Refused(wrong, "logprobs")
        ranked = sorted(enumerate(self.next_token), key=lambda one: -self.next_token[one[1]])
        shown = [(i, t) for i, t in enumerate(self.next_token) if i in ids] if ids and self.by_id else ranked[:top]
        named = body.get("return_tokens_as_token_ids")
        entries = [
            {
                "token": f"token_id:{i}" if named else t,
                "logprob": math.log(self.next_token[t]),
                "bytes": list(t.encode()),
            }
            for i, t in [ranked[0], *[one for one in shown if one != ranked[0]]]
        ]
        return {"content": [{**entries[0], "top_logprobs": entries}]}

    def echo(self, _: int, body: dict[str, Any]) -> Response:
        prompt = body["prompt"]
        if not body.get("echo") or body.get("logprobs") is None:
            raise Refused("this stub answers echo requests alone")
        if len(prompt) > 100:
            raise Refused("This model's maximum context length is 100 tokens.", "input_tokens")
        values = [None, *(-nll for nll in self.nlls[prompt])]
        logprobs = {"token_logprobs": [*values, -9.0], "tokens": [*("t" for _ in values), "!"], "text_offset": []}
        usage = {"prompt_tokens": len(values), "completion_tokens": 1, "total_tokens": len(values) + 1}
        choice = {"index": 0, "text": f"{prompt}!", "logprobs": logprobs, "finish_reason": "length"}
        return ok({"object": "text_completion", "model": "m", "choices": [choice], "usage": usage})

    def _shares(self, choices: Sequence[str]) -> tuple[list[float], float]:
        """Probabilities among the choices, and their mass."""
        found = [self.next_token.get(choice, 0.0) for choice in choices]
        return [p / sum(found) for p in found], sum(found)

    def decisions(self, _: int, body: dict[str, Any]) -> Response:
        (question,) = body["questions"]
        extra = set(body) - {"model", "input", "questions", "safety_identifier"}
        extra |= set(question) - {"type", "name", "instructions", "choices"}
        if extra or not isinstance(body["input"], str) or question["type"] != "choice":
            raise Refused(f"Extra inputs are not permitted: {sorted(extra)}")
        choices = [choice["value"] for choice in question["choices"]]
        if len(set(choices)) != len(choices) or len(choices) < 2:
            raise Refused("choice values must be distinct")
        p, mass = self._shares(choices)
        best = max(range(len(p)), key=p.__getitem__)
        answer = {"type": "choice", "name": question["name"], "choice": choices[best], "confidence": p[best] * mass}
        answer["probabilities"] = [{"value": c, "probability": one} for c, one in zip(choices, p, strict=True)]
        usage = {"input_tokens": 40, "output_tokens": 1, "total_tokens": 41}
        return ok({"model": "m", "answers": [answer], "usage": usage})

    def systemone(self, _: int, body: dict[str, Any]) -> Response:
        ((name, question),) = body["questions"].items()
        if question["type"] != "choice" or not isinstance(question["criteria"], dict):
            raise Refused(f"question {name!r}: choice criteria must map option names to a description or null")
        p, mass = self._shares(list(question["criteria"]))
        answer = {"type": "choice", "probabilities": dict(zip(question["criteria"], p, strict=True))}
        found = {"model": "m", "answers": {name: answer}, "usage": {"input_tokens": 40, "output_tokens": 1}}
        return ok(found | {"diagnostics": {name: {"label_mass": mass, "argmax_is_label": True}}})


def _checked(script: Script) -> Script:
    """The script, with refusals as vLLM writes them."""

    def answer(n: int, body: dict[str, Any]) -> Response:
        try:
            return script(n, body)
        except Refused as error:
            wrong = {"message": str(error), "type": "BadRequestError", "param": error.param, "code": 400}
            return 400, {}, ok({"error": wrong})[2]

    return answer
