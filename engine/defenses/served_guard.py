"""Perplexity under a model behind a server, where it gives the log-probabilities of a prompt (vLLM, SGLang)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.core.cache import CallCache, call_key
from engine.defenses.base import AfterBatch
from engine.defenses.guard import ModelGuard, Reading
from engine.inference.perplexity import reduced
from engine.inference.served import ApiClient
from engine.inference.served_perplexity import prompt_nlls

if TYPE_CHECKING:
    from engine.inference.loading import LoadedModel


class ServedGuard(ModelGuard):
    """A guard whose perplexities come from a server; questions about instructions stay with a model that runs here.

    A text's tokens are predicted as `perplexities` predicts them: every one but the first, and the first too where the
    server's tokenizer puts a BOS ahead of it.

    Args:
        client: the server; a judge's own where the judge is behind one, so that both draw on one cap.
        model: its name there.
        asked: gives the model that is asked about instructions.
        cache: keeps answers between runs; None keeps none.
    """

    paid = True
    """Each look is a call that may cost money."""

    def __init__(
        self, client: ApiClient, model: str, asked: Callable[[], LoadedModel], cache: CallCache | None
    ) -> None:
        super().__init__(asked, asked, cache)
        self._client, self._model = client, model

    @property
    def about(self) -> dict[str, Any]:
        """Record in a manifest."""
        host = self._client.settings.host
        spec = f"api:{self._model}"
        return {"spec": spec, "labels": [], "device": f"server {host}", "api": {"host": host, "model": self._model}}

    def perplexities(self, texts: Sequence[str], window: int, after_batch: AfterBatch) -> list[Reading]:
        """Perplexity under the server's model, each text once.

        Raises:
            ModelError: the server gives no log-probabilities of a prompt, or takes no call at all.
            OutOfCalls: the cap on calls or cost is reached.
        """
        name = f"nll-api-{self._client.settings.host}-{self._model}"
        keys = {
            text: call_key(name, list(text.encode("utf-8", "replace")), ()) for text in dict.fromkeys(texts) if text
        }
        unread: dict[str, str] = {}

        def compute(todo: list[str], keep: Callable[[list[int], list[NDArray[np.float64]]], None]) -> None:
            def kept(place: int, found: NDArray[np.float64] | str) -> None:
                if isinstance(found, str):
                    unread[todo[place]] = found
                else:
                    keep([place], [found])

            prompt_nlls(self._client, self._model, todo, kept)

        seconds = self._answer(keys, compute, after_batch)
        none = np.zeros(0)
        return [
            Reading(float("nan"), 0.0, unread[t])
            if t in unread
            else Reading(reduced(self._known[keys[t]] if t in keys else none, window or None), seconds.get(t, 0.0))
            for t in texts
        ]
