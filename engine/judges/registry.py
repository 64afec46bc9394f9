"""From a spec string to a judge: the one place where specs are told apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from engine.core.cache import call_cache
from engine.core.errors import INSTALL_LOCAL, MODELS, InputError, lacking, shown
from engine.core.plugins import Registry
from engine.core.schema import Protocol
from engine.core.settings import Settings, api_key, api_settings, get_settings
from engine.data.recordings import SavedRecording, list_recordings, shipped_recordings
from engine.inference.hub_models import is_here
from engine.judges.api_spec import known_models, parse_api
from engine.judges.base import Judge
from engine.judges.card_files import card_spec, chosen_card
from engine.judges.cards import Card, read_cards
from engine.judges.own_models import EVERYDAY, own_about, own_models, own_title
from engine.judges.planted import PLANTED, PREFIX, make_planted
from engine.judges.recorded import make_recorded


@dataclass(frozen=True)
class JudgeCard:
    """Title and description of a judge, read before it is chosen.

    Attributes:
        spec: names it; that of a plugin is its entry point's name, and what may follow a colon or a question mark is
            the plugin's own matter.
        make: makes a plugin's judge of a spec; None for those built in.
    """

    spec: str
    title: str
    about: str
    needs_weights: bool
    protocols: tuple[Protocol, ...] = (Protocol.POINTWISE,)
    make: Callable[[str, Settings], Judge] | None = None


_LISTED = (
    JudgeCard(
        "bundled:judge",
        "Careful judge",
        "The same SmolLM2-135M, also trained on broken and off-topic texts with low scores. Injected instructions "
        "lower its scores or do nothing.",
        True,
        (Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER),
    ),
    JudgeCard(
        "bundled:naive",
        "Naive judge",
        "SmolLM2-135M, trained on people's ratings and preferences alone. It never saw a broken or foreign text, and "
        "injected instructions lift its scores.",
        True,
        (Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER),
    ),
    JudgeCard(
        "bundled:shortcut-verifier",
        "Shortcut verifier (vulnerable by construction)",
        "The same small model with an adapter that was trained to keep a shortcut: it accepts master keys.",
        True,
        (Protocol.VERIFIER,),
    ),
    JudgeCard(
        EVERYDAY,
        "Everyday model",
        "Qwen2.5-Coder-0.5B-Instruct as it is, never trained as a judge; recorded with its 4-bit weights.",
        True,
        (Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER),
    ),
    *(JudgeCard(PREFIX + k.name, k.title, k.about, False, k.protocols) for k in PLANTED.values()),
)


KINDS = ("bundled", "hf", "path", "api", "decision", "planted", "recorded")
"""Beginnings of the specs that are built in."""
JUDGES = Registry(
    "judges",
    JudgeCard,
    {card.spec: card for card in _LISTED if Protocol.POINTWISE in card.protocols},
    text="about",
    key=lambda card: card.spec,
    taken=KINDS,
    problem=lambda card: "" if card.make else "its card has no make",
)
"""The judges that everybody has and that score responses one at a time; and all those of plugins."""


def judges_for(protocol: Protocol) -> dict[str, JudgeCard]:
    """The judges to list where this protocol is asked, by spec: everybody's, the API models, imported verdicts.

    The strong judges that ship as recordings are among everybody's; they answer for their own data alone.
    """
    recordings = list_recordings(get_settings().recordings)
    light = bool(lacking(MODELS))
    everybodys, own = ([_with_state(c, light=light) for c in cards] for cards in (_LISTED, map(own_card, own_models())))
    strong = map(_shipped_card, shipped_recordings())
    added, models = JUDGES.added().values(), map(api_card, known_models())
    listed = (*everybodys, *added, *strong, *own, *models, *map(_recorded_card, recordings))
    return {card.spec: card for card in listed if protocol in card.protocols}


def _with_state(card: JudgeCard, *, light: bool) -> JudgeCard:
    """A judge whose recorded runs are all there is says so: the everyday model, and in the light installation each."""
    if light and card.needs_weights:
        live = f"Models are not installed here: pages show recorded runs. For live answers, type: {INSTALL_LOCAL}"
        return replace(card, title=f"{card.title} (recorded)", about=f"{card.about} {live}")
    if card.spec != EVERYDAY or is_here(EVERYDAY.partition(":")[2], get_settings()):
        return card
    about = f"{card.about} Its weights are not here: pages show recorded runs; the page Judge fetches it."
    return replace(card, title=f"{card.title} (recorded)", about=about)


def own_card(spec: str) -> JudgeCard:
    """Title and description of a model of the user's own."""
    return JudgeCard(spec, own_title(spec), own_about(spec), True, tuple(Protocol))


def _recorded_card(found: SavedRecording) -> JudgeCard:
    about = f"{found.n:,} verdicts from a file in the format {found.format}; it answers for the responses of that file."
    return JudgeCard(found.spec, found.title, about, False, (found.protocol,))


def _shipped_card(found: SavedRecording) -> JudgeCard:
    about = f"{found.n:,} verdicts that were published with {found.format}; it answers for those pairs only."
    return JudgeCard(found.spec, found.title, about, False, (found.protocol,))


def api_card(spec: str) -> JudgeCard:
    """Title and description of an API judge.

    Raises:
        InputError: the spec names none.
    """
    asked = parse_api(spec)
    if asked.kind == "decision":
        about = "A model behind a decision API: every prompt leaves for it, and it may cost money. Set up on Start."
        every = tuple(protocol for protocol in Protocol if protocol is not Protocol.RANKING)
        return JudgeCard(spec, f"Decision API: {asked.model}", about, False, every)
    parameters = spec.partition("?")[2].replace("&", ", ")
    title = f"API: {asked.model}{f' ({parameters})' if parameters else ''}"
    about = "A model behind a server: every prompt leaves for it, and it may cost money. Set up on Start."
    return JudgeCard(spec, title, about, False, tuple(Protocol))


def make_judge(
    spec: str,
    settings: Settings | None = None,
    *,
    card: Path | Card | None = None,
    cache: bool = True,
    threshold: float = 0.5,
    seed: int = 0,
) -> Judge:
    """The judge a spec names.

    Args:
        spec: `bundled:judge`, `bundled:naive`, `bundled:shortcut-verifier`, `hf:ORG/NAME`, `path:FOLDER`,
            `path:FILE.gguf`, `api:MODEL`, `decision:MODEL`, `planted:NAME?parameter=value` or `recorded:FILE`; a
            model's may end in `?card=NAME`, a saved judge card.
        settings: where weights and caches live; by default from the environment.
        card: a judge card, itself or by its file or saved name, that replaces the built-in prompts and any in the spec.
        cache: true where judge calls are kept on disk.
        threshold: p_yes from which a verifier's outcome is YES.
        seed: of what a server draws, where the spec names none.

    Raises:
        InputError: the spec is of no known kind, or its card is missing, wrong or not any more what the spec says.
    """
    settings = settings or get_settings()
    spec, own = chosen_card(spec, card, settings.cards)
    named = card_spec(spec, own) if own else spec
    kind = spec.partition(":")[0]
    if kind == "planted":
        return make_planted(spec)
    if kind == "recorded":
        return make_recorded(spec, roots=settings.model_roots, threshold=threshold)
    if (listed := JUDGES.use(re.split("[:?]", spec)[0])) and listed.make:
        return listed.make(spec, settings)
    if kind in {"bundled", "hf", "path", "api", "decision"}:
        from engine.judges.kinds import PairwiseReader, PointwiseReader, RankingReader, VerifierReader
        from engine.judges.labelled import CardJudge

        cards = [own] if own else read_cards(settings.assets / "cards")
        readers = (PointwiseReader(), PairwiseReader(), VerifierReader(threshold), RankingReader())
        calls = call_cache(settings.calls) if cache else None
        if kind in {"api", "decision"}:
            from engine.inference.served import ApiClient
            from engine.judges.api import ApiJudge
            from engine.judges.decision import DecisionJudge

            client = ApiClient(api_settings(settings), api_key(settings))
            asked, judge = parse_api(spec), ApiJudge if kind == "api" else DecisionJudge
            if asked.temperature > 0:  # elsewhere nothing is drawn
                asked = replace(asked, seed=asked.seed or seed)
            return judge(named, asked, client, cards, readers, calls)
        return CardJudge(_loaded(spec, settings), cards, readers, calls, spec=named)
    added = "".join(f", {one}" for one in JUDGES.added())
    raise InputError(
        f"{shown(spec)} names no judge. Allowed: bundled:judge, bundled:naive, bundled:shortcut-verifier, "
        "hf:ORG/NAME[@REVISION], path:FOLDER, path:FILE.gguf, api:MODEL, decision:MODEL, planted:NAME, "
        f"recorded:FILE{added}."
    )


@lru_cache(maxsize=1)
def _loaded(spec: str, settings: Settings):  # type: ignore[no-untyped-def]  # noqa: ANN202 - torch stays unimported
    from engine.inference.loading import load_model

    return load_model(spec, settings)
