"""One response, judged without and with an attack, live."""

from __future__ import annotations

import math
import time
from typing import Any

import streamlit as st

from dashboard import findings, state, ui
from dashboard.datasets import lacking, lacking_note
from dashboard.linked_run import latest
from dashboard.pages.attack_lab.effects import GridRun, distribution, one_response_moves
from dashboard.ui import show_marked, show_verbatim
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.core.json import dumps
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.jobs.manager import Ask, manager
from engine.plots.text import three_digits
from engine.studies.figure import upper_first

# Attack with its options, and one or several defenses; the URL holds the arm's one name.

RAISE, LOWER = "Raise", "Lower"
AFTER, BEFORE = "After", "Before"


def pick_arm(dataset_id: str) -> tuple[str, str]:
    """The names of the attack and of the defense."""
    left, right = st.columns(2)
    with left:
        attack = _attack()
    with right:
        defense = _defense(dataset_id)
    return attack, defense


def _attack() -> str:
    _seed_attack()
    base = str(
        st.pills(
            "Attack", list(catalog.ATTACKS), key=state.ATTACK, format_func=findings.attack_name, required=True,
            persist_state="session", wrap=True,
        )
    )  # fmt: skip
    card = catalog.ATTACKS[base]
    ui.note(card.about)
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


def _defense(dataset_id: str) -> str:
    _seed_defense()
    missing = lacking(dataset_id)
    state.put(state.DEFENSE, [name for name in st.session_state[state.DEFENSE] if name not in missing])
    listed = [name for name in catalog.DEFENSES if name not in (NONE, *missing)]
    own = [name for name in st.session_state[state.DEFENSE] if name not in listed]  # with settings set by hand
    chosen = st.pills(
        "Defenses, in the order in which they are pressed",
        [*listed, *own],
        selection_mode="multi",
        key=state.DEFENSE,
        format_func=lambda d: catalog.describe_defense(d).title,
        persist_state="session",
        wrap=True,
        help="Several stand around the response one after the other, the first one nearest to it.",
    )
    name = "+".join(chosen) or NONE
    ui.note(lacking_note(dataset_id) if name == NONE else catalog.describe_defense(name).about)
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


OWN = "own"
NEAR = 1_000
"""Responses offered on either side of the present one; a list of all of a large file would slow every click."""
MAX_OWN_TEXT = 20_000
PATIENCE_S = 1.0
"""A page waits so long for an answer before it is drawn with the recorded or the old one [s]."""
POLL_S = 0.4
LONGEST_S = 300.0
"""A judge that says nothing for so long, while it loads or answers, is given up [s]."""
_ASKED, _SHOWN = "lab_asked", "lab_shown"
_MOST_KEPT = 64
_TITLE = 60
"""Characters of a response in the list."""

Row = dict[str, Any]
"""A row of the figure, with its result and where that comes from."""


@st.fragment
def one_response(judge: str, dataset: Dataset) -> None:
    """Choices on top, the headline, the four markers, the text and the score distribution.

    A change redraws only this panel. The recorded answer, or the one before, stands until the live one is there.
    """
    _open_on_an_effect(judge, dataset)
    response_id = pick_response(dataset)
    attack, defense = pick_arm(dataset.dataset_id)
    own_text = _own_text() if attack.partition("@")[0] == OWN else ""
    if attack.partition("@")[0] == OWN and not own_text.strip():
        ui.headline("Type the text you want to add, then leave the field to see what the judge makes of it.")
        _texts(dataset, response_id, None)
        return
    params = {"judge": judge, "data": dataset.dataset_id, "response_id": response_id, "attack": attack}
    params |= {"own_text": own_text}
    defenses = list(dict.fromkeys((NONE, defense)))
    silent = _only_recorded(judge)
    asks = {} if silent else _ask({name: params | {"defense": name} for name in defenses})
    live: dict[str, dict[str, Any]] = {}
    try:
        live = {name: ask.answer() for name, ask in asks.items() if ask.answered}
    except EngineError as error:
        st.session_state.pop(_ASKED, None)
        ui.show_error(error, "The judge could not be asked.")
        asks = {}
    rows = _rows(judge, dataset, params, defenses, live)
    if rows:
        st.session_state[_SHOWN] = (judge, dataset.dataset_id, rows)
    before = [] if silent else [r | {"waiting": True} for r in _before(judge, dataset.dataset_id)]
    if rows or (before and asks):
        _answer(dataset, response_id, attack, defense, rows or before)
    else:
        ui.headline("The judge is being asked for the first time." if asks else "There is no answer to this here.")
        _texts(dataset, response_id, None)
    if len(live) < len(asks):
        st.fragment(_waiting, run_every=POLL_S)(asks)


def _open_on_an_effect(judge: str, dataset: Dataset) -> None:
    """Where neither a link nor the session says what is shown: the attack and the response that a run moved most."""
    named = (state.ATTACK, state.RESPONSE)
    if any(key in st.session_state or key in st.query_params for key in named):
        return
    run = latest(GridRun, judge, dataset.dataset_id)
    attack = findings.strongest_arm(run.metrics)[0] if run else NONE
    if run is None or attack == NONE or attack.partition("@")[0] == OWN:
        return
    own = run.shifts[(run.shifts["attack"] == attack) & (run.shifts["defense"] == NONE)].dropna(subset=["shift"])
    ids = set(dataset.responses["response_id"])
    moved = own[own["response_id"].isin(ids)].sort_values("shift", key=abs, kind="stable")
    if len(moved):
        st.query_params[state.ATTACK] = attack
        state.put(state.RESPONSE, str(moved["response_id"].iloc[-1]))


def _only_recorded(judge: str) -> bool:
    """True for a model of the hub that is not on this machine: its recorded answers are shown, nobody is contacted."""
    kind, _, name = judge.partition(":")
    if kind != "hf" or catalog.is_here(name, get_settings()):
        return False
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note("This judge's answers are recorded; what was not recorded needs the model itself.")
        st.page_link("pages/judge_card/page.py", label="Get it on the page Judge", icon=":material/download:")
    return True


def _before(judge: str, data_id: str) -> list[Row]:
    """The rows that were shown last in this session, of this judge and data."""
    held = st.session_state.get(_SHOWN)
    return list(held[2]) if isinstance(held, tuple) and held[:2] == (judge, data_id) else []


def _ask(wanted: dict[str, dict[str, Any]]) -> dict[str, Ask]:
    """The ask of each defense: one that is known, else a new one; those that nobody waits for any more are stopped."""
    known: dict[str, Ask] = st.session_state.setdefault(_ASKED, {})
    keys = {name: dumps(params) for name, params in wanted.items()}
    for key, ask in list(known.items()):
        if not ask.answered and key not in keys.values():
            manager().give_up(known.pop(key))
    for name, key in keys.items():
        if key not in known:
            known[key] = manager().begin("attack_one", wanted[name])
    while len(known) > _MOST_KEPT:
        known.pop(next(iter(known)))
    end = time.monotonic() + PATIENCE_S
    asks = {name: known[key] for name, key in keys.items()}
    for ask in asks.values():
        ask.event.wait(max(0.0, end - time.monotonic()))
    return asks


def _waiting(asks: dict[str, Ask]) -> None:
    """What the worker is doing; when all answers are there the page is drawn with them."""
    waiting = [ask for ask in asks.values() if not ask.answered]
    for ask in waiting:
        if time.monotonic() - ask.heard > LONGEST_S:
            manager().give_up(ask, f"The judge said nothing for {LONGEST_S:.0f} s. Choose a smaller judge.")
    if not waiting:
        st.rerun()
    ui.note(f"{waiting[0].step} … until then the answer above stands.")


def _rows(judge: str, dataset: Dataset, params: dict[str, Any], defenses: list[str], live: dict[str, Row]) -> list[Row]:
    """A row for each defense whose answer is known: live, else recorded; none where the undefended one is missing."""
    run = None if len(live) == len(defenses) else latest(GridRun, judge, dataset.dataset_id)
    rows = []
    for name in defenses:
        attack = str(params["attack"])
        result = live.get(name) or (run and attack != OWN and run.pair(params["response_id"], attack, name))
        if not result:
            if name == NONE:
                return []
            continue
        clean, attacked = (_number(result[k]["score"]) for k in ("clean", "attacked"))
        origin = _note(result) if name in live else findings.origin(run.manifest, recorded=run.recorded) if run else ""
        title = "No defense" if name == NONE else upper_first(findings.defense_name(name))
        rows.append(
            {"name": title, "defense": name, "clean": clean, "attacked": attacked, "result": result, "origin": origin}
        )
    return rows


def _answer(dataset: Dataset, response_id: str, attack: str, defense: str, rows: list[Row]) -> None:
    """The headline, the markers, the text beside the bars, and the prompts."""
    old = bool(rows[0].get("waiting"))
    off, on = rows[0]["result"], rows[1]["result"] if len(rows) > 1 else None
    if old:
        ui.headline("The judge is being asked; the picture below is the last answer.")
    else:
        ui.headline(findings.compared_sentence(off, on, attack, defense))
    last = on or off
    origins = "; ".join(dict.fromkeys(str(r["origin"]) for r in rows))
    one_response_moves(rows, last["labels"], key="one_moves", note=origins)
    left, right = st.columns([1, 1], gap="medium")
    with left:
        _texts(dataset, response_id, None if old else last)
    with right:
        if not old:
            _scores(last, attack, str(rows[-1]["origin"]))
    if not old:
        _prompts(last)


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
        texts = dataset.responses["text"]
        chosen = ui.pick(
            "Response",
            ids[max(0, now - NEAR) : now + NEAR + 1],
            key=state.RESPONSE,
            title=lambda r: f"{place[r] + 1}/{len(ids)} · {_short(texts.iloc[place[r]])}" if r in place else r,
        )
    state.publish(state.RESPONSE, chosen, ids[0])
    return chosen


def _short(text: str) -> str:
    line = " ".join(str(text).split())
    return f"{line[:_TITLE]}…" if len(line) > _TITLE else line or "(empty)"


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
    if result is None or not any(kind != "same" for kind, _ in result.get("diff", ())):
        ui.note("The response, as it is")
        show_verbatim(str(row["text"]), label="The response")
    else:
        removed = any(kind == "removed" for kind, _ in result["diff"])
        words = "underlined, what it takes out is struck through" if removed else "underlined"
        ui.note(f"The response as the judge reads it; what the attack adds is {words}")
        show_marked([(kind, text) for kind, text in result["diff"]], label="The response with the attack marked")
        added = "".join(text for kind, text in result["diff"] if kind == "added").strip()
        if added and not removed and st.button("Edit the added words", icon=":material/edit:", key="edit_added"):
            state.after_rerun({state.ATTACK: OWN, state.OWN_TEXT: added})
            st.rerun()
    context = dataset.items.set_index("item_id").loc[row["item_id"], "context"]
    if isinstance(context, str) and context:
        ui.note("What it answers")
        show_verbatim(context, label="The context")


def _scores(result: dict[str, Any], attack: str, origin: str) -> None:
    """The distribution over the score labels, and what the two calls cost."""
    clean, attacked = result["clean"], result["attacked"]
    if clean["probabilities"] is not None or attacked["probabilities"] is not None:
        distribution(result["labels"], clean, attacked, attack, key="one_distribution", note=origin)
    else:
        ui.note("This judge gives a score without probabilities, so there is no distribution to draw.")
    ui.facts(_cost([clean] if attack == NONE else [clean, attacked], cached=bool(result.get("cached", True))))
    if result.get("remark"):
        ui.warn(result["remark"])


def _cost(verdicts: list[dict[str, Any]], *, cached: bool) -> dict[str, str]:
    """Probability on the answers that were offered, tokens and seconds of the calls, where they apply."""
    facts = {"On the scale": " → ".join(three_digits(_number(v["coverage"])) for v in verdicts)}
    if any(v["prompt_tokens"] for v in verdicts):
        facts["Prompt tokens"] = " → ".join(str(v["prompt_tokens"]) for v in verdicts)
        facts["Time"] = "kept answer" if cached else f"{three_digits(sum(v['seconds'] for v in verdicts))} s"
    return facts


def _note(result: dict[str, Any]) -> str:
    if result["device"] == "no model":
        return "live, planted judge without a model"
    return "kept answer" if result["cached"] else f"live, on {result['device']}"


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _prompts(result: dict[str, Any]) -> None:
    """The rendered prompts, made only when opened."""
    if "prompt_clean" not in result:
        return
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
