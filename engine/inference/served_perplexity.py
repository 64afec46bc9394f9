"""Log-likelihoods of a text's tokens under a model behind a server that echoes its prompt (vLLM, SGLang)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError
from engine.inference.abilities import note_server
from engine.inference.completions import NO_ECHO, EchoQuestion, Way
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
    stop = threading.Event()

    def asked(text: str) -> Row | str:
        try:
            reply = client.ask(model, EchoQuestion("", text, labels=True, max_tokens=1), Way(), stop)
        except CallError as error:
            if str(error) == NO_ECHO:
                raise ModelError(f"{client.settings.host}: {NO_ECHO}, so {model} reads no perplexity.") from None
            return str(error)
        return np.array(reply.nlls)

    keep(0, asked(texts[0]))  # alone: a server that cannot is asked once
    note_server(client.settings.host, model, {"prompt_logprobs": True})
    pool = ThreadPoolExecutor(client.settings.concurrency)
    try:
        places = {pool.submit(asked, text): i for i, text in enumerate(texts[1:], 1)}
        for done in as_completed(places):
            keep(places[done], done.result())
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
