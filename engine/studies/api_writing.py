"""A model behind an OpenAI-compatible server that writes: anchors on request and rewritings, kept like judge calls."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from engine.core.cache import CallCache
from engine.core.settings import Settings, api_key, api_settings
from engine.defenses.base import AfterBatch
from engine.defenses.writing import Written
from engine.inference.served import ApiClient, Question, estimate
from engine.judges.api import ApiAsker, ApiCall, Got
from engine.judges.api_spec import parse_api
from engine.judges.base import Cost


class ApiWriter:
    """Answers prompts through a server, at temperature 0.

    Args:
        spec: `api:MODEL`.
        client: the server.
        cache: where replies are kept between runs; None keeps none.

    Raises:
        InputError: the spec names no model.
    """

    def __init__(self, spec: str, client: ApiClient, cache: CallCache | None) -> None:
        model = parse_api(spec).model
        identity = hashlib.sha256(json.dumps([client.settings.host, model]).encode()).hexdigest()[:16]
        self.spec = spec
        self._asker = ApiAsker(client, model, f"api-{identity}", "text", cache)

    def write(self, prompts: Sequence[str], new_tokens: int, after_batch: AfterBatch) -> list[Written]:
        """Texts of the model for each prompt; equal prompts are asked once.

        Raises:
            ModelError: the server takes no call at all, or stopped answering.
            OutOfCalls: the cap on calls or cost is reached.
        """
        if not prompts:
            return []
        calls = [_call(prompt, new_tokens) for prompt in prompts]
        if self._asker.way("text") is None:
            self._asker.find_way(calls, after_batch, must=False)
        answers = self._asker.ask(calls, lambda _: after_batch())
        charged: set[str] = set()
        out = []
        for prompt, got in zip(prompts, answers, strict=True):
            out.append(_written(got, fresh=got.seconds > 0 and prompt not in charged))
            charged.add(prompt)
        return out

    def cost(self, prompts: Sequence[str], new_tokens: int) -> Cost:
        """Distinct prompts that are not in the cache; nothing is sent."""
        todo = self._asker.missing([_call(prompt, new_tokens) for prompt in prompts])
        prompt, answer = estimate([call.question for call in todo])
        return Cost(len(todo), prompt + answer, 0)


def api_writer(spec: str, settings: Settings) -> ApiWriter:
    """The writer behind a spec, with server and key from the settings; replies are kept with the judge calls.

    Raises:
        InputError: no server is set up, or the spec names no model.
    """
    return ApiWriter(spec, ApiClient(api_settings(settings), api_key(settings)), CallCache(settings.calls))


def _call(prompt: str, new_tokens: int) -> ApiCall:
    return ApiCall(Question("", prompt, labels=False, max_tokens=new_tokens))


def _written(got: Got, *, fresh: bool) -> Written:
    text = got.text.strip()
    if got.failed or not text:
        return Written("", unread=got.failed or "the server wrote nothing")
    if not fresh:
        return Written(text)
    tokens = max(0, got.prompt_tokens) + max(0, got.answer_tokens)
    return Written(text, tokens, float(max(1, got.answer_tokens)), got.seconds)
