"""What to run over the whole set: attacks, defenses, how many responses, what it will cost."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import data, state, ui
from dashboard.panels import findings
from dashboard.panels.api_cost import api_cost, pace
from engine import catalog, jobs
from engine.data.dataset import Dataset
from engine.errors import EngineError, InputError
from engine.figures.text import plural
from engine.schema import NONE

DEFAULT_ATTACKS = ("dsi", "bed")
DEFAULT_DEFENSES = (NONE, "delimiters", "sandwich")


def setup(judge: str, dataset: Dataset, *, busy: bool) -> None:
    """The choices and the Run button; while a run is going the button is off and says why."""
    with st.container(border=True, key="setup"):
        left, right = st.columns(2, gap="medium")
        with left:
            attacks = _attacks()
            own_text = _own_text() if _has_own(attacks) else ""
            limit = _limit(len(dataset.responses))
        with right:
            defenses = _defenses()
        calls = limit * (1 + len(attacks)) * len(defenses)
        missing = _missing(attacks, defenses, own_text)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            run = st.button(
                "Run", type="primary", icon=":material/play_arrow:", key="run", disabled=busy or bool(missing)
            )
            ui.note(missing or _cost(judge, dataset.dataset_id, limit, attacks, defenses, calls, busy=busy))
        ui.note(api_cost(judge, dataset, calls))
    if run:
        params = {
            "judge": judge,
            "data": dataset.dataset_id,
            "attacks": attacks,
            "defenses": defenses,
            "own_text": own_text,
            "limit": limit,
        }
        _start(params)


def _start(params: dict[str, object]) -> None:
    try:
        state.watch_job(jobs.manager().submit("score", params))
    except EngineError as error:
        ui.show_error(error, "The run could not be started.")
        return
    st.rerun()


def _attacks() -> list[str]:
    names = [name for name in catalog.ATTACKS if name != NONE]
    if (shown := _shown_in_one_response()) not in (NONE, *names):
        names.append(shown)
    return list(
        st.pills(
            "Attacks",
            names,
            selection_mode="multi",
            default=[n for n in DEFAULT_ATTACKS if n in names],
            format_func=findings.attack_name,
            key=state.SET_ATTACKS,
            help=_abouts([catalog.describe_attack(n) for n in names]),
            persist_state="session",
            wrap=True,
        )
    )


def _shown_in_one_response() -> str:
    """The attack with its options as it is set beside; so it can be run over the whole set too."""
    try:
        return catalog.parse_attack(st.query_params.get(state.ATTACK, NONE)).name
    except InputError:
        return NONE


def _defenses() -> list[str]:
    names = list(catalog.DEFENSES)
    if (shown := _defense_in_one_response()) not in names:
        names.append(shown)
    return list(
        st.pills(
            "Defenses",
            names,
            selection_mode="multi",
            default=[d for d in DEFAULT_DEFENSES if d in catalog.DEFENSES],
            format_func=lambda d: catalog.describe_defense(d).title,
            key=state.SET_DEFENSES,
            help=_abouts([catalog.describe_defense(n) for n in names]),
            persist_state="session",
            wrap=True,
        )
    )


def _defense_in_one_response() -> str:
    """The defenses as they are set beside, so that they can be run over the whole set too."""
    try:
        return catalog.describe_defense(st.query_params.get(state.DEFENSE, NONE)).name
    except InputError:
        return NONE


def _abouts(cards: Sequence[catalog.AttackCard | catalog.DefenseCard]) -> str:
    """What each choice means, as a list for the question mark beside the label."""
    return "\n".join(f"- **{ui.plain(card.title.partition(':')[0])}** {ui.plain(card.about)}" for card in cards)


def _own_text() -> str:
    return str(st.text_area("Your text", key="set_own_text", height=80, persist_state="session") or "")


def _has_own(attacks: list[str]) -> bool:
    return any(name.partition("@")[0] == "own" for name in attacks)


def _limit(n: int) -> int:
    if n < 2:
        return n
    key = f"{state.SET_LIMIT}_{state.text(state.DATA)}"
    return int(st.slider("Responses, from the top of the file", 1, n, value=n, key=key, persist_state="session"))


def _missing(attacks: list[str], defenses: list[str], own_text: str) -> str:
    if not attacks:
        return "Choose at least one attack."
    if not defenses:
        return "Choose at least one defense; “No defense” is the judge's own prompt."
    if _has_own(attacks) and not own_text.strip():
        return "Type the text of your own attack, or take that attack out."
    return ""


def _cost(
    judge: str,
    dataset_id: str,
    limit: int,
    attacks: list[str],
    defenses: list[str],
    calls: int,
    *,
    busy: bool,
) -> str:
    if busy:
        return "A run is going; stop it or let it finish before you start another."
    arms = (1 + len(attacks)) * len(defenses)
    text = f"{plural(limit, 'response')} × {arms} arms = {calls:,} judge calls"
    per_call = _pace(judge, dataset_id)
    return f"{text}, about {findings.duration(calls * per_call)} at the last pace." if per_call else f"{text}."


def _pace(judge: str, dataset_id: str) -> float:
    """Seconds a call took in the last run made on this machine; 0 if there is none."""
    last = data.latest_run(judge, dataset_id)
    if last is None or last.recorded:
        return 0.0
    return pace(last.verdicts)
