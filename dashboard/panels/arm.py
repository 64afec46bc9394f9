"""Attack with its options, and one or several defenses; the URL holds the arm's one name."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from engine import catalog
from engine.errors import InputError
from engine.schema import NONE

RAISE, LOWER = "Raise", "Lower"
AFTER, BEFORE = "After", "Before"


def pick_arm() -> tuple[str, str]:
    """The names of the attack and of the defense."""
    left, right = st.columns(2)
    with left:
        attack = _attack()
    with right:
        defense = _defense()
    return attack, defense


def _attack() -> str:
    _seed_attack()
    base = ui.pick("Attack", list(catalog.ATTACKS), key=state.ATTACK, title=lambda a: catalog.ATTACKS[a].title)
    card = catalog.ATTACKS[base]
    ui.note(_about(card))
    name = _options(card)
    state.publish(state.ATTACK, name, state.DEFAULT_ATTACK)
    return name


def _seed_attack() -> None:
    """Take the attack and its options from the URL once; a name that cannot be read is left for the note."""
    if state.ATTACK in st.session_state:
        return
    try:
        wanted = catalog.parse_attack(st.query_params.get(state.ATTACK, state.DEFAULT_ATTACK))
    except InputError:
        wanted = catalog.parse_attack(state.DEFAULT_ATTACK)
        ui.note("The link names an attack that is not known here; DSI is shown instead.")
    state.put(state.ATTACK, wanted.base)
    state.put(_key("direction", wanted.base), LOWER if wanted.deflate else RAISE)
    state.put(_key("position", wanted.base), BEFORE if wanted.before else AFTER)
    if wanted.card.phrases:
        state.put(_key("phrase", wanted.base), wanted.phrase)
    if wanted.card.lengths:
        state.put(_key("length", wanted.base), wanted.length)


def _key(option: str, base: str) -> str:
    return f"attack_{option}_{base}"


def _options(card: catalog.AttackCard) -> str:
    """The options this attack has, drawn; returns the arm's name."""
    chosen = catalog.parse_attack(card.name)
    deflate, before, phrase, length = chosen.deflate, chosen.before, chosen.phrase, chosen.length
    with st.container(horizontal=True, gap="medium", key="attack_options"):
        if card.has_direction:
            deflate = _choice("Aim", (RAISE, LOWER), _key("direction", card.name), RAISE) == LOWER
        if card.has_position:
            at = BEFORE if card.before else AFTER
            before = _choice("Place by the response", (AFTER, BEFORE), _key("position", card.name), at) == BEFORE
    if card.phrases:
        key, phrases = _key("phrase", card.name), catalog.known_phrases()
        state.seed(key, phrases, phrases[0])
        phrase = ui.pick(
            "Phrase",
            phrases,
            key=key,
            title=lambda p: p,
            help="The published ones were learned on the judge they are named for; those you learned here follow.",
        )
    if card.lengths:
        length = _length(card, phrase)
    return catalog.AttackName(card.name, deflate, before, length, phrase).name


def _length(card: catalog.AttackCard, phrase: str) -> int:
    assert card.lengths is not None
    low, high = card.lengths
    high = min(high, catalog.longest(phrase)) if phrase else high
    key = _key("length", card.name)
    now = int(st.session_state.get(key, card.length))
    state.put(key, min(max(now, low), high))
    return int(st.slider(card.length_is.capitalize(), low, high, key=key, persist_state="session"))


def _choice(label: str, options: tuple[str, str], key: str, default: str) -> str:
    state.seed(key, options, default)
    return str(st.segmented_control(label, options, key=key, required=True, persist_state="session"))


def _defense() -> str:
    _seed_defense()
    listed = [name for name in catalog.DEFENSES if name != NONE]
    own = [name for name in st.session_state[state.DEFENSE] if name not in listed]  # with dials set by hand
    chosen = st.multiselect(
        "Defenses, the first nearest to the response",
        [*listed, *own],
        key=state.DEFENSE,
        format_func=lambda d: catalog.describe_defense(d).title,
        placeholder="No defense",
        persist_state="session",
    )
    name = "+".join(chosen) or NONE
    ui.note(_about(catalog.describe_defense(name)))
    state.publish(state.DEFENSE, name, state.DEFAULT_DEFENSE)
    return name


def _seed_defense() -> None:
    """Take the defenses from the URL once; one that cannot be read is left out."""
    if state.DEFENSE in st.session_state:
        return
    wanted = dict.fromkeys(st.query_params.get(state.DEFENSE, NONE).split("+"))
    state.put(state.DEFENSE, [name for name in map(_readable_defense, wanted) if name != NONE])


def _readable_defense(name: str) -> str:
    try:
        return catalog.describe_defense(name).name
    except InputError:
        return NONE


def _about(card: catalog.AttackCard | catalog.DefenseCard) -> str:
    return f"{card.about} Source: {card.source}." if card.source else card.about
