"""Log-likelihoods of a text's tokens under a model behind a server that echoes its prompt (vLLM, SGLang)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError
from engine.inference.abilities import note_server
from engine.inference.completions import NO_ECHO, EchoQuestion, Way
from engine.inference.in_flight import Job, run_all
from engine.inference.served import ApiClient, CallError

Row = NDArray[np.float64]


def prompt_nlls(client: ApiClient, model: str, texts: Sequence[str], keep: Callable[[int, Row | str], None]) -> None:
    """Negative log-likelihoods of the tokens of each text but the first [nats], as `token_nlls` has them.

    Args:
        client: the server.
        model: its name there.
        texts: not empty; each is one call.
        keep: told each text's place and its numbers (T - 1,), or why it has none; may raise to stop.

    Raises:
        ModelError: the server gives no log-probabilities of a prompt, or takes no call at all.
        OutOfCalls: the cap on calls or cost is reached.
    """

    async def asked(place: int, stop: asyncio.Event) -> Row | str:
        try:
            question = EchoQuestion("", texts[place], labels=True, max_tokens=1)
            reply = await client.ask(model, question, Way(), stop)
        except CallError as error:
            if str(error) == NO_ECHO:
                raise ModelError(f"{client.settings.host}: {NO_ECHO}, so {model} reads no perplexity.") from None
            return str(error)
        return np.array(reply.nlls)

    def ask(places: Sequence[int]) -> None:
        def told(batch: list[tuple[int, Row | str]]) -> None:
            for i, got in batch:
                keep(places[i], got)

        jobs: list[Job[Row | str]] = [partial(asked, place) for place in places]
        run_all(jobs, client.settings.concurrency, told, lambda: None)

    ask([0])  # alone: a server that cannot is asked once
    note_server(client.settings.host, model, {"prompt_logprobs": True})
    ask(range(1, len(texts)))
