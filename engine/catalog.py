"""Catalogue of the user's choices: names, titles and sources of attacks, defenses and judges; nothing is loaded.

The dashboard and the command line read this; it is the one module besides `studies` that knows several stages.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.defenses.cards import DEFENSES, DefenseCard
from engine.defenses.registry import describe_defense
from engine.judges import registry
from engine.judges.api_spec import forget_model, known_models, parse_api, remember_model, rough_expense
from engine.judges.card_files import (
    DEFAULT_MODEL,
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
from engine.judges.planted import planted_problem
from engine.judges.registry import JUDGES, JudgeCard
from engine.transport.encoders import ENCODERS, EncoderCard

__all__ = [
    "ATTACKS",
    "DEFAULT_MODEL",
    "DEFENSES",
    "DISTRACTORS",
    "ENCODERS",
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
    "JudgeCard",
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
    "delete_card",
    "describe_attack",
    "describe_defense",
    "describe_judge",
    "describe_judges",
    "forget_model",
    "judges_for",
    "key_name",
    "key_text",
    "known_models",
    "known_phrases",
    "longest",
    "make_card",
    "parse_api",
    "parse_attack",
    "planted_problem",
    "prompt_notices",
    "remember_model",
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
        if model.partition(":")[0] not in ("planted", "recorded"):
            found[card_spec(model, card)] = _saved_judge(card_spec(model, card), name, (card.protocol,))
    return found


def card_models() -> dict[str, JudgeCard]:
    """The listed judges that read a prompt, so that a card can be asked of them."""
    listed = {found: card for protocol in Protocol for found, card in registry.judges_for(protocol).items()}
    return {spec: card for spec, card in listed.items() if not spec.startswith(("planted:", "recorded:"))}


def built_in_cards() -> dict[str, Card]:
    """The cards that ship with the project, by name."""
    return {card.name: card for card in read_cards(get_settings().assets / "cards")}


def describe_judges(specs: Iterable[str]) -> dict[str, JudgeCard]:
    """By spec: the card of a listed judge, or a plain one for any other; the lists are read once for all."""
    listed = {found: card for protocol in Protocol for found, card in registry.judges_for(protocol).items()}

    def describe(spec: str) -> JudgeCard:
        if spec in listed:
            return listed[spec]
        if name := split_spec(spec).name:
            return _saved_judge(spec, name, ())
        return JudgeCard(spec, spec, "A judge named by its spec.", not spec.startswith("planted:"))

    return {spec: describe(spec) for spec in specs}


def describe_judge(spec: str) -> JudgeCard:
    """The card of a listed judge, or a plain one for any other spec."""
    return describe_judges([spec])[spec]


def _saved_judge(spec: str, name: str, protocols: tuple[Protocol, ...]) -> JudgeCard:
    model = describe_judge(split_spec(spec).model)
    about = f"Your judge card “{name}”, asked of: {model.title.partition(' (')[0]}."
    return JudgeCard(spec, f"{name} (your card)", about, model.needs_weights, protocols)
