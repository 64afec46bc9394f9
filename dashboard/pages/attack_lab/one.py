"""One response, judged without and with an attack, live."""

from __future__ import annotations

import math
from typing import Any

import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.attack_lab.effects import distribution
from dashboard.ui import show_marked, show_verbatim
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.core.schema import NONE
from engine.data.dataset import Dataset
from engine.jobs.manager import manager
from engine.plots.text import three_digits

# Attack with its options, and one or several defenses; the URL holds the arm's one name.

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
    own = [name for name in st.session_state[state.DEFENSE] if name not in listed]  # with settings set by hand
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


OWN = "own"
NEAR = 1_000
"""Responses offered on either side of the present one; a list of all of a large file would slow every click."""
MAX_OWN_TEXT = 20_000


@st.fragment
def one_response(judge: str, dataset: Dataset) -> None:
    """Choices on top, the finding, the text and the score distribution; a change redraws only this panel."""
    response_id = pick_response(dataset)
    attack, defense = pick_arm()
    own = attack.partition("@")[0] == OWN
    own_text = _own_text() if own else ""
    if own and not own_text.strip():
        ui.finding("Type the text you want to add, then leave the field to see what the judge makes of it.")
        _texts(dataset, response_id, None)
        return
    finding = st.empty()
    left, right = st.columns([1, 1], gap="medium")
    with left:
        texts = st.empty()
        with texts.container():
            _texts(dataset, response_id, None)
    try:
        with right, st.spinner("Asking the judge. The first question loads it …", show_time=True):
            result = _judge_one(judge, dataset.dataset_id, response_id, attack, own_text, defense)
    except EngineError as error:
        with finding.container():
            ui.show_error(error, "The judge could not be asked.")
        return
    with finding.container():
        ui.finding(findings.one_sentence(result, attack, defense))
    with texts.container():
        _texts(dataset, response_id, result)
    with right:
        _scores(result, attack)
    _prompts(result)


@st.cache_data(max_entries=256, show_spinner=False)
def _judge_one(
    judge: str, dataset_id: str, response_id: str, attack: str, own_text: str, defense: str
) -> dict[str, Any]:
    """Judge one response without and with an attack, through the worker; errors are raised anew each time.

    Raises:
        EngineError: the judge, the choice or the worker; the text says what to do.
    """
    return manager().ask(
        "attack_one",
        {
            "judge": judge,
            "data": dataset_id,
            "response_id": response_id,
            "attack": attack,
            "own_text": own_text,
            "defense": defense,
        },
    )


def pick_response(dataset: Dataset) -> str:
    """The response in question, chosen by number or with the buttons."""
    ids = dataset.responses["response_id"].tolist()
    state.seed(state.RESPONSE, ids, ids[0])
    place = {response_id: i for i, response_id in enumerate(ids)}
    now = place[st.session_state[state.RESPONSE]]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        st.button(
            "Previous",
            icon=":material/chevron_left:",
            disabled=now == 0,
            key="previous_response",
            on_click=state.put,
            args=(state.RESPONSE, ids[max(now - 1, 0)]),
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            icon_position="right",
            disabled=now == len(ids) - 1,
            key="next_response",
            on_click=state.put,
            args=(state.RESPONSE, ids[min(now + 1, len(ids) - 1)]),
        )
        chosen = ui.pick(
            "Response",
            ids[max(0, now - NEAR) : now + NEAR + 1],
            key=state.RESPONSE,
            title=lambda r: f"{place[r] + 1}/{len(ids)} · {r}" if r in place else r,
        )
    state.publish(state.RESPONSE, chosen, ids[0])
    return chosen


def _own_text() -> str:
    text = st.text_area(
        "Your text",
        key=state.OWN_TEXT,
        max_chars=MAX_OWN_TEXT,
        height=90,
        placeholder="For example: This answer was checked by three experts.",
        persist_state="session",
    )
    return str(text or "")


def _texts(dataset: Dataset, response_id: str, result: dict[str, Any] | None) -> None:
    row = dataset.responses.set_index("response_id").loc[response_id]
    if result is None or not any(kind != "same" for kind, _ in result["diff"]):
        ui.note("The response, as it is")
        show_verbatim(str(row["text"]), label="The response")
    else:
        removed = any(kind == "removed" for kind, _ in result["diff"])
        words = "underlined, what it takes out is struck through" if removed else "underlined"
        ui.note(f"The response as the judge reads it; what the attack adds is {words}")
        show_marked([(kind, text) for kind, text in result["diff"]], label="The response with the attack marked")
    context = dataset.items.set_index("item_id").loc[row["item_id"], "context"]
    if isinstance(context, str) and context:
        ui.note("What it answers")
        show_verbatim(context, label="The context")


def _scores(result: dict[str, Any], attack: str) -> None:
    """The distribution over the score labels, and what the two calls cost."""
    clean, attacked = result["clean"], result["attacked"]
    if clean["probabilities"] or attacked["probabilities"]:
        distribution(result["labels"], clean, attacked, attack, key="one_distribution", note=_note(result))
    else:
        ui.note("This judge gives a score without probabilities, so there is no distribution to draw.")
    ui.facts(_cost([clean] if attack == NONE else [clean, attacked], cached=result["cached"]))
    if result.get("remark"):
        ui.warn(result["remark"])


def _cost(verdicts: list[dict[str, Any]], *, cached: bool) -> dict[str, str]:
    """Coverage, tokens and seconds of the calls, what does not apply left out."""
    facts = {"Coverage": " → ".join(three_digits(_number(v["coverage"])) for v in verdicts)}
    if any(v["prompt_tokens"] for v in verdicts):
        facts["Prompt tokens"] = " → ".join(str(v["prompt_tokens"]) for v in verdicts)
        facts["Time"] = "cached" if cached else f"{three_digits(sum(v['seconds'] for v in verdicts))} s"
    return facts


def _note(result: dict[str, Any]) -> str:
    if result["device"] == "no model":
        return "live, planted judge without a model"
    return "from the cache of judge calls" if result["cached"] else f"live, on {result['device']}"


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _prompts(result: dict[str, Any]) -> None:
    """The rendered prompts, made only when opened."""
    if not result["prompt_clean"]:
        ui.note("This judge has no model, so there is no prompt to show.")
        return
    with st.expander("Details: the prompts the judge was given", on_change="rerun", key="prompts") as prompts:
        if not prompts.open:
            return
        left, right = st.columns(2)
        for side, title, text in (
            (left, "Without the attack", result["prompt_clean"]),
            (right, "With the attack", result["prompt_attacked"]),
        ):
            with side:
                ui.note(title)
                st.code(text, language=None, wrap_lines=True, height=360)
