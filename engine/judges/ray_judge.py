"""A judge whose calls are spread over the machines of a Ray cluster: each actor holds the judge, the driver the tables.

The driver loads no model. It asks an actor for what a study wants to know of the judge (fingerprint, prompts, tokens)
and keeps each verdict by its content in its own cache of calls as a shard comes back: whatever dies, what is finished
is there. The actors keep no cache: their machines may share a home folder by network, where SQLite is not safe.

Ray moves objects by pickle and trusts everybody whom it lets in; see docs/security.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from engine import __version__
from engine.core.cache import CallCache, call_cache
from engine.core.errors import InputError
from engine.core.schema import NONE, Outcome
from engine.core.settings import Settings, get_settings
from engine.judges.api_spec import SERVED
from engine.judges.base import NO_MODEL, Checkpoint, Cost, Judge, Request, Verdict, no_checkpoint
from engine.judges.card_files import chosen_card
from engine.judges.cards import Card
from engine.judges.ray_actors import Actors
from engine.judges.registry import make_judge
from engine.judges.remote import About, RemoteCards, RemoteJudge, described
from engine.judges.shards import judge_in_shards, lost, shard_size

SHARD_CPU, SHARD_FAST = 16, 256
"""Requests of a shard where a model runs on a CPU, and on a GPU or where there is no model."""


def stays_here(spec: str) -> str:
    """Why this judge's calls are not spread over a cluster; empty where they are."""
    if spec.startswith(SERVED):
        return (
            "its server takes many calls at once, and the cap on calls is exact in one process alone; for more speed "
            "raise JUDGESCOPE_API_CONCURRENCY"
        )
    return "its verdicts are here already" if spec.startswith("recorded:") else ""


# In an actor.


class Holder:
    """The judge on a machine of the cluster; Ray makes an actor of it.

    Args:
        spec: the judge's.
        card: the card given beside it.
        gpu: true where Ray lent this actor a GPU.
        options: further ones of `make_judge`.
    """

    def __init__(self, spec: str, card: Card | None, gpu: bool, options: Mapping[str, Any]) -> None:
        self._spec, self._card, self._gpu, self._options = spec, card, gpu, dict(options)
        self._judges: dict[tuple[str, ...], Judge] = {}

    def open(self, cards: tuple[Card, ...] = ()) -> About:
        """Load the judge, where it is not loaded, and describe it."""
        return described(self._with(cards))

    def judge(self, requests: Sequence[Request], cards: tuple[Card, ...] = ()) -> list[Verdict]:
        """Answer a shard."""
        return self._with(cards).judge(requests)

    def ask(self, method: str, argument: Any, cards: tuple[Card, ...] = ()) -> Any:
        """Another method of the judge."""
        return getattr(self._with(cards), method)(argument)

    def _with(self, cards: tuple[Card, ...]) -> Judge:
        """The judge, asked through these cards as well."""
        key = tuple(card.digest for card in cards)
        if key not in self._judges:
            if cards:
                plain: Any = self._with(())
                self._judges[key] = plain.with_cards(cards)
            else:
                device = "cuda" if self._gpu else "cpu"
                own = replace(get_settings(), device=device)
                self._judges[key] = make_judge(self._spec, own, card=self._card, cache=False, **self._options)
        return self._judges[key]


# In the driver.


class RayJudge(RemoteJudge):
    """A judge without a model, spread over actors.

    Args:
        actors: who holds it.
        about: from one of them.
        cache: where verdicts are kept; None keeps none.
        options: that decide a verdict besides the fingerprint, in words.
        size: requests of a shard; 0 leaves it to what the actors run on.
        cards: further cards it is asked through.
    """

    def __init__(
        self,
        actors: Actors,
        about: About,
        cache: CallCache | None,
        options: str = "",
        size: int = 0,
        cards: tuple[Card, ...] = (),
    ) -> None:
        super().__init__(about, {"ray_actors": str(actors.count)})
        self._actors, self._cache, self._options, self._cards = actors, cache, options, cards
        self._size = size or (SHARD_FAST if about.device == NO_MODEL or about.device.startswith("cuda") else SHARD_CPU)

    @property
    def concurrency(self) -> int:
        """Requests under way at once."""
        return self._size * self._actors.room

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The cost of those that are not known here; nothing is asked."""
        known = self._known([self._key(r) for r in requests])
        fresh = [r for r in requests if self._key(r) not in known]
        cost: Cost = self._ask("cost", fresh) if fresh else Cost(0, 0, 0)
        return cost._replace(known=cost.known + len(requests) - len(fresh))

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request, in order, wherever and whenever its shard was answered; equal ones are asked once.

        A request on which the judge's process was lost twice is unread, with the loss as its reason.

        Raises:
            InputError: the judge cannot be asked a request.
            ModelError: no actor can hold the judge, or all of them fail.
        """
        keys = [self._key(request) for request in requests]
        known = self._known(keys)
        fresh = {key: request for key, request in zip(keys, requests, strict=True) if key not in known}
        names, total, held = list(fresh), len(requests), len(requests) - len(fresh)
        checkpoint(held, total)

        def keep(places: Sequence[int], verdicts: Sequence[Verdict]) -> None:
            found = {names[i]: verdict for i, verdict in zip(places, verdicts, strict=True)}
            if self._cache:
                self._cache.put_replies((key, (packed(verdict), 0)) for key, verdict in found.items())
            known.update(found)

        def give_up(place: int, why: str) -> None:
            known[names[place]] = lost(why)

        with self._actors.asked(self._cards):
            judge_in_shards(
                list(fresh.values()),
                self._actors,
                shard_size(len(fresh), self._actors.count, self._size),
                keep,
                give_up,
                lambda done, _: checkpoint(held + done, total),
            )
        return [known[key] for key in keys]

    def _known(self, keys: Sequence[str]) -> dict[str, Verdict]:
        """Verdicts that are here, by key; like every answer of the cache they took no time."""
        if not self._cache:
            return {}
        rows = self._cache.get_replies(list(dict.fromkeys(keys)))
        return {key: replace(unpacked(text), seconds=0.0) for key, (text, _) in rows.items()}

    def _key(self, request: Request) -> str:
        """Digest of all that decides a verdict: the judge, this version's reading, and what the judge may see."""
        seen = replace(request, attack=NONE, defense=NONE, system="", system_b="")
        return hashlib.sha256(f"{self.fingerprint} {__version__} {self._options} {seen!r}".encode()).hexdigest()

    def _ask(self, method: str, argument: Any) -> Any:
        return self._actors.ask("ask", method, argument, self._cards)


class RayCardJudge(RemoteCards, RayJudge):
    """A language model with its cards, spread over actors."""

    over, option = "a Ray cluster", "--ray"

    def with_cards(self, cards: Iterable[Card]) -> RayCardJudge:
        """The same actors asked through further cards too."""
        every = (*self._cards, *cards)
        about: About = self._actors.ask("open", every)
        return RayCardJudge(self._actors, about, self._cache, self._options, self._size, every)


_last: dict[tuple[object, ...], tuple[Actors, About]] = {}


def ray_judge(spec: str, settings: Settings, *, card: Any = None, cache: bool = True, **options: Any) -> Judge:
    """The judge a spec names, held by the actors of the cluster that the settings name.

    Actors stay until another judge is asked for, or the process ends.

    Args:
        spec: the judge's.
        settings: `ray` names the cluster; `ray_actors` and `ray_shard` bound actors and shards.
        card: a judge card, its file or its saved name.
        cache: true where verdicts are kept on disk.
        **options: further ones of `make_judge`.

    Raises:
        InputError: Ray is not installed, no cluster answers, or the judge cannot be made there.
        ModelError: no actor can hold the judge.
    """
    model, own = chosen_card(spec, card, settings.cards)
    words = " ".join(f"{name}={value}" for name, value in sorted(options.items()))
    on_gpu = settings.device != "cpu" and not spec.startswith("planted:")
    key = (settings.ray, settings.ray_actors, model, own.digest if own else "", on_gpu, words)
    if key not in _last:
        for actors, _ in _last.values():
            actors.close()
        _last.clear()
        actors = Actors(Holder, settings.ray, settings.ray_actors, on_gpu, (model, own), options)
        _last[key] = (actors, _same_version(actors.ask("open")))
    actors, about = _last[key]
    kept = call_cache(settings.calls) if cache else None
    kind = RayCardJudge if about.prompted else RayJudge
    return kind(actors, about, kept, words, settings.ray_shard)


def _same_version(about: About) -> About:
    if about.version != __version__:
        raise InputError(
            f"The cluster's machines have JudgeScope {about.version}, and this is {__version__}: numbers of both would "
            "stand in one table. Install one version on all."
        )
    return about


# A verdict as text; floats come back as they were.


def packed(verdict: Verdict) -> str:
    """The verdict as JSON."""
    return json.dumps(asdict(verdict))


def unpacked(text: str) -> Verdict:
    """The verdict that was packed."""
    held = json.loads(text)
    shares, places, outcome = held["probabilities"], held["ranking"], held["outcome"]
    return Verdict(
        **held
        | {
            "outcome": None if outcome is None else Outcome(outcome),
            "probabilities": None if shares is None else tuple(shares),
            "ranking": None if places is None else tuple(places),
        }
    )
