"""Catalogue of the user's choices: names, titles and sources of attacks, defenses and judges; nothing is loaded.

The dashboard and the command line read this; it is the one module besides `studies` that knows several stages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from engine.attacks.base import word_diff
from engine.attacks.cards import (
    ATTACKS,
    AttackCard,
    AttackName,
    SavedPhrase,
    check_name,
    known_phrases,
    longest,
    parse_attack,
    saved_phrases,
)
from engine.attacks.distractors import DISTRACTORS, PLACEBO, PLACEBOS
from engine.attacks.master_keys import KEY_TEXTS, key_name, key_text
from engine.attacks.master_keys import shown as shown_key
from engine.attacks.registry import describe_attack
from engine.core.errors import INSTALL_LOCAL, MODELS, lacking
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.defenses.cards import DEFENSES, DefenseCard
from engine.defenses.registry import describe_defense
from engine.inference.hub_models import HubModel, is_here, look_up, megabytes
from engine.inference.local_servers import LocalServer, local_servers
from engine.inference.weights import base_record
from engine.judges import registry
from engine.judges.api_spec import forget_model, is_served, known_models, parse_api, remember_model, rough_expense
from engine.judges.card_files import (
    DEFAULT_MODEL,
    PROMPTED,
    Notice,
    broken_cards,
    card_notices,
    card_spec,
    card_toml,
    check_card_name,
    delete_card,
    prompt_notices,
    rename_card,
    save_card,
    saved_cards,
    split_spec,
    upload_card,
)
from engine.judges.cards import MAX_PROMPT, PLACEHOLDERS, Card, make_card, read_cards
from engine.judges.own_models import EVERYDAY, check_own, forget_own, own_models, remember_own
from engine.judges.planted import planted_problem
from engine.judges.registry import JUDGES, JudgeCard
from engine.transport.encoders import ENCODERS, EncoderCard

__all__ = [
    "ATTACKS",
    "DEFAULT_MODEL",
    "DEFENSES",
    "DISTRACTORS",
    "ENCODERS",
    "EVERYDAY",
    "JUDGES",
    "KEY_TEXTS",
    "MAX_PROMPT",
    "PLACEBO",
    "PLACEBOS",
    "PLACEHOLDERS",
    "AttackCard",
    "AttackName",
    "Card",
    "DefenseCard",
    "EncoderCard",
    "GalleryEntry",
    "HubModel",
    "JudgeCard",
    "LocalServer",
    "Notice",
    "SavedPhrase",
    "broken_cards",
    "built_in_cards",
    "card_models",
    "card_notices",
    "card_spec",
    "card_toml",
    "check_card_name",
    "check_name",
    "check_own",
    "delete_card",
    "describe_attack",
    "describe_defense",
    "describe_judge",
    "describe_judges",
    "forget_model",
    "forget_own",
    "gallery",
    "is_here",
    "is_served",
    "judges_for",
    "key_name",
    "key_text",
    "known_models",
    "known_phrases",
    "local_servers",
    "longest",
    "look_up",
    "make_card",
    "megabytes",
    "own_models",
    "parse_api",
    "parse_attack",
    "planted_problem",
    "prompt_notices",
    "remember_model",
    "remember_own",
    "rename_card",
    "rough_expense",
    "save_card",
    "saved_cards",
    "saved_judges",
    "saved_phrases",
    "shown_key",
    "split_spec",
    "upload_card",
    "word_diff",
]


def judges_for(protocol: Protocol) -> dict[str, JudgeCard]:
    """The judges to list where this protocol is asked, by spec; the user's saved cards come last."""
    saved = {spec: card for spec, card in saved_judges().items() if protocol in card.protocols}
    return registry.judges_for(protocol) | saved


def saved_judges() -> dict[str, JudgeCard]:
    """The user's saved judge cards as judges, by spec; a card that names no model is asked of the bundled judge."""
    found = {}
    for name, card in saved_cards(get_settings().cards).items():
        model = card.spec or DEFAULT_MODEL
        if model.partition(":")[0] in PROMPTED:
            found[card_spec(model, card)] = _saved_judge(card_spec(model, card), name, (card.protocol,))
    return found


def card_models() -> dict[str, JudgeCard]:
    """The listed judges that read a prompt, so that a card can be asked of them."""
    listed = {found: card for protocol in Protocol for found, card in registry.judges_for(protocol).items()}
    return {spec: card for spec, card in listed.items() if spec.partition(":")[0] in PROMPTED}


def built_in_cards() -> dict[str, Card]:
    """The cards that ship with the project, by name."""
    return {card.name: card for card in read_cards(get_settings().assets / "cards")}


def describe_judges(specs: Iterable[str]) -> dict[str, JudgeCard]:
    """By spec: the card of a listed judge, or a plain one for any other; the lists are read once for all.

    A plain card names no protocols where it is not known what the judge answers.
    """
    listed = {found: card for protocol in Protocol for found, card in registry.judges_for(protocol).items()}

    def describe(spec: str) -> JudgeCard:
        if spec in listed:
            return listed[spec]
        if name := split_spec(spec).name:
            return _saved_judge(spec, name, ())
        planted = spec.startswith("planted:")
        kind = listed.get(spec.partition("?")[0]) if planted else None
        return JudgeCard(spec, spec, "A judge named by its spec.", not planted, kind.protocols if kind else ())

    return {spec: describe(spec) for spec in specs}


def describe_judge(spec: str) -> JudgeCard:
    """The card of a listed judge, or a plain one for any other spec."""
    return describe_judges([spec])[spec]


def can_answer(spec: str, protocol: Protocol) -> bool:
    """False for a judge that is known not to answer this protocol: a button that asks it would fail."""
    saved = saved_judges().get(spec)
    known = (saved or describe_judge(spec)).protocols
    return not known or protocol in known


@dataclass(frozen=True)
class GalleryEntry:
    """A judge of the gallery, or a way to bring one.

    Attributes:
        key: short name.
        title: of its card.
        about: one sentence.
        size: of its download, in words; empty where it has none.
        licence: of its weights; empty where it is the user's own matter.
        state: "here", "recorded", "to download" or "yours".
        spec: of the judge; empty where the user names it.
    """

    key: str
    title: str
    about: str
    size: str = ""
    licence: str = ""
    state: Literal["here", "recorded", "to download", "yours"] = "yours"
    spec: str = ""


def gallery() -> list[GalleryEntry]:
    """The judges to choose from: those that ship, an everyday model, and ways to bring one. Nothing is contacted."""
    settings = get_settings()
    listed = {card.spec: card for protocol in Protocol for card in registry.judges_for(protocol).values()}
    gguf = settings.gguf or settings.weights / base_record(settings.assets / "judge").gguf_name
    light = bool(lacking(MODELS))
    bundled: Any = "recorded" if light else "here" if gguf.is_file() else "to download"
    shipped = (
        ("naive", "bundled:naive", "A high score for whoever asks: trained on people's ratings alone."),
        ("careful", "bundled:judge", "The same small model, also shown broken texts: mostly resists."),
        ("verifier", "bundled:shortcut-verifier", "Checks answers against a reference, and accepts empty ones."),
    )
    entries = [
        GalleryEntry(
            key, listed[spec].title.partition(" (")[0], about,
            f"live with {INSTALL_LOCAL}" if light else "95 MB with the base", "Apache-2.0", bundled, spec,
        )
        for key, spec, about in shipped
    ]  # fmt: skip
    recorded = any((settings.assets / "demo").glob("*/everyday"))
    here = is_here(EVERYDAY.partition(":")[2], settings) and not light
    entries.append(
        GalleryEntry(
            "everyday", "Everyday model", "Qwen2.5-Coder-0.5B-Instruct, never trained to judge.",
            "about 1 GB", "Apache-2.0",
            "here" if here else "recorded" if recorded else "to download", EVERYDAY,
        )
    )  # fmt: skip
    return [
        *entries,
        GalleryEntry("hub", "A model of the Hub", "Any causal model with safetensors weights, by its name."),
        GalleryEntry("folder", "A folder or a .gguf file", "A model that is on this machine."),
        GalleryEntry("server", "A local server", "Ollama, vLLM or llama.cpp on this machine."),
        GalleryEntry("api", "An API", "Any OpenAI-compatible server; prompts leave this machine."),
    ]


def _saved_judge(spec: str, name: str, protocols: tuple[Protocol, ...]) -> JudgeCard:
    model = describe_judge(split_spec(spec).model)
    about = f"Your judge card “{name}”, asked of: {model.title.partition(' (')[0]}."
    return JudgeCard(spec, f"{name} (your card)", about, model.needs_weights, protocols)
