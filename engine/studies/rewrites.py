"""Models that write for a study: one behind a server, rewriters by name, and arms of rewritten texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from engine.attacks.distractors import style_of
from engine.attacks.rewriting import ModelRewriter, Rewriter, RuleRewriter
from engine.core.cache import CallCache
from engine.core.errors import InputError
from engine.core.settings import Settings, api_key, api_settings
from engine.defenses.base import AfterBatch
from engine.defenses.writing import Writer, Written, writer_for
from engine.inference.completions import Question, estimate
from engine.inference.loading import LoadedModel, load_model
from engine.inference.served import ApiClient
from engine.judges.api import ApiAsker, ApiCall, Got
from engine.judges.api_spec import parse_api
from engine.judges.base import Cost
from engine.stats.arena import arm_parts


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
        self.spec = spec
        self._asker = ApiAsker(client, replace(parse_api(spec), answers="text"), cache)

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


RULES = "rules"


def parse_arm(arm: str) -> tuple[str, float]:
    """Style and strength of an arm.

    Raises:
        InputError: no such style, or the strength is no number above 0 and up to 1.
    """
    try:
        name, strength = arm_parts(arm)
    except ValueError:
        name, strength = arm.partition(":")[0], 0.0
    style_of(name)
    if not 0 < strength <= 1:
        raise InputError(f"The arm {arm!r} needs a strength above 0 and up to 1, for example {name}:0.5.")
    return name, strength


def make_rewriter(name: str, settings: Settings) -> Rewriter:
    """The rewriter of that name: `rules`, or a model's spec such as `bundled:base` or `api:MODEL`.

    Raises:
        InputError: the spec names no model.
    """
    if name == RULES:
        return RuleRewriter()
    kind = name.partition(":")[0]
    if kind not in {"bundled", "hf", "path", "api"}:
        raise InputError(
            f"{name!r} names no rewriter. Allowed: rules, bundled:base, hf:ORG/NAME, path:FOLDER, api:MODEL."
        )
    made = api_writer(name, settings) if kind == "api" else writer_for(lambda: _loaded(name, settings), settings.calls)
    writer: Writer = made

    def write(prompts: Sequence[tuple[str, str]], rooms: Sequence[int]) -> list[str]:
        """Prompts with room for replies of about one length are written together."""
        out = [""] * len(prompts)
        for room in sorted({_round_up(r) for r in rooms}):
            chosen = [i for i, r in enumerate(rooms) if _round_up(r) == room]
            found = writer.write([prompts[i][1] for i in chosen], room, lambda: None)
            for i, written in zip(chosen, found, strict=True):
                out[i] = written.text
        return out

    return ModelRewriter(write, name)


@lru_cache(maxsize=1)
def _loaded(name: str, settings: Settings) -> LoadedModel:
    return load_model(name, settings)


def _round_up(room: int) -> int:
    """To a multiple of 64, so that prompts of similar length share a batch."""
    return -(-room // 64) * 64
