"""The tutor of the study `cap`: what it is asked, what it writes, and what is kept of it between runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.cache import CallCache, reply_key
from engine.defenses.anchor_sources import anchor_prompt, new_tokens_of
from engine.defenses.writing import AfterBatch
from engine.defenses.writing import Written as Reply
from engine.judges.base import Checkpoint, Cost, Request
from engine.models.loader import LoadedModel
from engine.schema import Task
from engine.steering.decode import Row, decode, prompt_ids
from engine.steering.vectors import Edit

_WHAT: Mapping[Task, tuple[str, str, str]] = {
    Task.SUMMARY: ("article", "summary of it", "two or three sentences"),
    Task.DIALOGUE: ("conversation", "next reply", "one or two sentences"),
}
_OTHER = ("request", "answer to it", "a few sentences")


def plain_prompt(request: Request) -> str:
    """The request for a candidate, without a word on quality; the prompt that steered anchors answer too."""
    source, what, length = _WHAT.get(request.task, _OTHER)
    return (
        f"Here is the {source}:\n\n{request.context}\n\nWrite the {what}. Write {length} and nothing else: no comment, "
        "no title, no quotes."
    )


def prompt_of(request: Request, source: str) -> str:
    """The prompt of a way of asking: plain, good or poor (W-CAP's two)."""
    if source in {"good", "poor"}:
        return anchor_prompt(request, "high" if source == "good" else "low")
    return plain_prompt(request)


@dataclass(frozen=True)
class Ask:
    """One text to be written.

    Attributes:
        ids: the prompt.
        row: temperature and seed; its prompt number is set when the batch is made.
        key: what it is kept under.
    """

    ids: tuple[int, ...]
    row: Row
    key: str


@dataclass(frozen=True)
class Draft:
    """A text of the tutor and what it took this time.

    Attributes:
        relative_edit: mean over its tokens; 0 where it was not steered.
        tokens: prompt and written tokens, whether or not it was known.
        seconds: its share of the batch [s]; 0 where it was known.
    """

    text: str
    relative_edit: float
    tokens: int
    seconds: float


class Tutor:
    """A causal language model that writes candidates and anchors, steered or not; texts are kept by content.

    Attributes:
        loaded: the model.
        cache: where texts are kept between runs; None keeps none.
    """

    def __init__(self, loaded: LoadedModel, cache: CallCache | None) -> None:
        self.loaded, self.cache = loaded, cache

    def ids(self, prompt: str) -> tuple[int, ...]:
        """Token ids of a prompt."""
        return tuple(prompt_ids(self.loaded, prompt))

    def drawn(self, prompt: str, temperature: float, seed: int, limit: int) -> Ask:
        """An unsteered text at a temperature."""
        ids = self.ids(prompt)
        key = reply_key(f"{self.loaded.fingerprint}-draw-{temperature:g}-{seed}", ids, limit)
        return Ask(ids, Row(0, temperature, seed), key)

    def write(self, asks: Sequence[Ask], limit: int, edit: Edit | None, checkpoint: Checkpoint) -> list[Draft]:
        """Write what is not known yet; `edit` has one row for each ask.

        Raises:
            InputError: a prompt does not fit the tutor's window.
            ModelError: the tutor gave NaN.
        """
        known = self._known([ask.key for ask in asks])
        todo = list({ask.key: k for k, ask in enumerate(asks) if ask.key not in known}.values())
        prompts = list(dict.fromkeys(asks[k].ids for k in todo))
        place = {ids: i for i, ids in enumerate(prompts)}
        rows = [Row(place[asks[k].ids], asks[k].row.temperature, asks[k].row.seed) for k in todo]
        clock = time.perf_counter()
        total = len(asks)
        written = decode(
            self.loaded,
            prompts,
            rows,
            limit,
            edit.rows(todo) if edit else None,
            after_batch=lambda done: checkpoint(total - len(todo) + done, total),
        )
        share = (time.perf_counter() - clock) / max(1, len(todo))
        fresh = {asks[k].key: w for k, w in zip(todo, written, strict=True)}
        if self.cache:
            self.cache.put_replies(
                (key, (json.dumps({"text": w.text, "edit": w.relative_edit}), len(w.ids))) for key, w in fresh.items()
            )
        out, charged = [], set()
        for ask in asks:
            if ask.key in fresh:
                w = fresh[ask.key]
                text, edit_size, n = w.text, w.relative_edit, len(w.ids)
            else:
                text, edit_size, n = known[ask.key]
            seconds = share if ask.key in fresh and ask.key not in charged else 0.0
            charged.add(ask.key)
            out.append(Draft(text, edit_size, len(ask.ids) + n, seconds))
        checkpoint(total, total)
        return out

    def _known(self, keys: Sequence[str]) -> dict[str, tuple[str, float, int]]:
        if not self.cache:
            return {}
        found = {}
        for key, (packed, n) in self.cache.get_replies(list(dict.fromkeys(keys))).items():
            held = json.loads(packed)
            found[key] = (str(held["text"]), float(held["edit"]), n)
        return found


class TutorWriter:
    """The tutor as what writes reasoning and prompted anchors: greedily, in the batched decode loop.

    Attributes:
        tokens: of each prompt written to so far, prompt and text together, known or not.
    """

    def __init__(self, tutor: Tutor) -> None:
        self._tutor = tutor
        self.tokens: dict[str, int] = {}

    def write(self, prompts: Sequence[str], new_tokens: int, after_batch: AfterBatch) -> list[Reply]:
        """What the tutor writes to each prompt; of equal prompts the first has the cost, known or not."""
        asks = [self._tutor.drawn(prompt, 0.0, 0, new_tokens) for prompt in prompts]
        drafts = self._tutor.write(asks, new_tokens, None, lambda _done, _total: after_batch())
        charged: set[str] = set()
        out = []
        for prompt, ask, draft in zip(prompts, asks, drafts, strict=True):
            first = prompt not in charged
            fresh = first and draft.seconds > 0
            charged.add(prompt)
            self.tokens[prompt] = draft.tokens
            passes = float(max(1, draft.tokens - len(ask.ids)))
            cost = (draft.tokens if first else 0, passes if fresh else 0.0, draft.seconds if fresh else 0.0)
            out.append(
                Reply(draft.text, *cost, unread="" if draft.text else f"{self._tutor.loaded.spec} wrote nothing")
            )
        return out

    def cost(self, prompts: Sequence[str], new_tokens: int) -> Cost:
        """Distinct prompts with the longest texts they may get, known or not."""
        ids = {self._tutor.ids(prompt) for prompt in prompts}
        return Cost(len(ids), sum(len(one) + new_tokens for one in ids), 0)


def limit_of(task: Task, wanted: int | None) -> int:
    """Longest text in tokens: the study's own setting, or the task's (dialogue 64, summary 128)."""
    return wanted or new_tokens_of(task)
