"""From a spec string to a judge: the one place where specs are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.cache import CallCache
from engine.errors import InputError
from engine.judges.base import Judge
from engine.judges.cards import built_in_cards, read_card
from engine.judges.planted import PLANTED, PREFIX, make_planted
from engine.schema import Protocol
from engine.settings import Settings, get_settings


@dataclass(frozen=True)
class JudgeCard:
    """What a user reads before choosing a judge."""

    spec: str
    title: str
    about: str
    needs_weights: bool


JUDGES: dict[str, JudgeCard] = {
    c.spec: c
    for c in (
        JudgeCard(
            "bundled:judge",
            "Bundled judge",
            "SmolLM2-135M with our adapter: a small real language model that runs anywhere.",
            True,
        ),
        *(
            JudgeCard(PREFIX + k.name, k.title, k.about, False)
            for k in PLANTED.values()
            if k.protocol is Protocol.POINTWISE
        ),
    )
}


def make_judge(spec: str, settings: Settings | None = None, *, card: Path | None = None, cache: bool = True) -> Judge:
    """The judge a spec names.

    Args:
        spec: `bundled:judge`, `hf:ORG/NAME`, `path:FOLDER` or `planted:NAME?dial=value`.
        settings: where weights and caches live; by default from the environment.
        card: a judge card that replaces the built-in prompts.
        cache: whether judge calls are kept on disk.

    Raises:
        InputError: the spec is of no known kind.
    """
    settings = settings or get_settings()
    kind = spec.partition(":")[0]
    if kind == "planted":
        return make_planted(spec)
    if kind in {"bundled", "hf", "path"}:
        from engine.judges.pointwise import PointwiseJudge

        cards = built_in_cards(settings.assets / "cards")
        if card:
            own = read_card(card)
            cards = dict.fromkeys(own.tasks, own)
        return PointwiseJudge(_loaded(spec, settings), cards, _calls(settings.calls) if cache else None)
    raise InputError(
        f"{spec!r} names no judge. Allowed: bundled:judge, hf:ORG/NAME[@REVISION], path:FOLDER, planted:NAME."
    )


@lru_cache(maxsize=1)
def _loaded(spec: str, settings: Settings):  # type: ignore[no-untyped-def]  # noqa: ANN202 - torch stays unimported
    from engine.models.loader import load_model

    return load_model(spec, settings)


@lru_cache(maxsize=4)
def _calls(path: Path) -> CallCache:
    return CallCache(path)
