"""Perplexity under a model behind a server, where it gives the log-probabilities of a prompt (vLLM, SGLang)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from engine.core.cache import CallCache
from engine.defenses.base import AfterBatch
from engine.defenses.guard import ModelGuard, Reading
from engine.inference.completions import EchoQuestion
from engine.inference.perplexity import reduced
from engine.inference.served import ApiClient
from engine.judges.api import ApiAsker, ApiCall
from engine.judges.api_spec import PREFIX, parse_api

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
        self.spec = f"{PREFIX}{model}"
        self._client = client
        self._asker = ApiAsker(client, parse_api(self.spec), cache)

    @property
    def about(self) -> dict[str, Any]:
        """Record in a manifest."""
        host = self._client.settings.host
        return {"spec": self.spec, "labels": [], "device": f"server {host}", "api": {"host": host}}

    def perplexities(self, texts: Sequence[str], window: int, after_batch: AfterBatch) -> list[Reading]:
        """Perplexity under the server's model, each text once.

        Raises:
            ModelError: the server gives no log-probabilities of a prompt, or takes no call at all.
            OutOfCalls: the cap on calls or cost is reached.
        """
        asked = {
            text: ApiCall(EchoQuestion("", text, labels=True, max_tokens=1)) for text in dict.fromkeys(texts) if text
        }
        calls = list(asked.values())
        if calls and self._asker.way("echo") is None:
            self._asker.find_way(calls, after_batch, must=True)
        found = dict(zip(asked, self._asker.ask(calls, lambda _: after_batch()), strict=True))
        readings = {
            text: Reading(float("nan"), got.seconds, got.failed or "no answer")
            if got.row is None
            else Reading(reduced(got.row, window or None), got.seconds)
            for text, got in found.items()
        }
        return [readings.get(text, Reading(float("nan"))) for text in texts]
