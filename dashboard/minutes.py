"""Minutes of a study before it starts: a few of its own texts and verdicts are made, and kept, to measure the pace."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dashboard import findings, ui
from dashboard.progress import POLL_S
from engine.core.errors import EngineError
from engine.jobs.manager import Ask, manager
from engine.plots.text import plural

_ASKED = "minutes_asked"


def measure(kind: str, forms: Mapping[str, Mapping[str, object]]) -> None:
    """A button that measures what each form of a study takes; the answer takes its place and stays.

    Args:
        kind: of a study with a quick job `KIND_plan`, whose answer has `seconds`.
        forms: name of each form to its settings.
    """
    held: dict[str, dict[str, Ask]] = st.session_state.setdefault(_ASKED, {})
    key = f"{kind} {sorted((name, sorted(map(str, p.items()))) for name, p in forms.items())}"
    if key not in held:
        if not st.button("How many minutes?", key=f"minutes_{kind}", type="tertiary", icon=":material/timer:"):
            return
        held[key] = {name: manager().begin(f"{kind}_plan", dict(params)) for name, params in forms.items()}
    asks = held[key]
    st.fragment(_said, run_every=None if all(ask.answered for ask in asks.values()) else POLL_S)(asks)


def how_long(kind: str, params: Mapping[str, object], also: str = "") -> None:
    """A button that asks a few of a run's calls and says what the run takes; asked once for the same settings.

    Args:
        kind: of a study with a quick job `KIND_plan`.
        params: its settings.
        also: end of the sentence.
    """
    if st.button("How long?", key=f"minutes_{kind}", type="tertiary", icon=":material/timer:"):
        with st.spinner("Asking the judge a few of these calls …", show_time=True):
            try:
                ui.note(_in_words(_planned(f"{kind}_plan", dict(params))) + also + ".")
            except EngineError as error:
                ui.note(str(error))


@st.cache_data(max_entries=64, show_spinner=False, ttl=600)
def _planned(job: str, params: dict[str, object]) -> dict[str, float | None]:
    """Calls and seconds, measured on a few calls of the judge."""
    return dict(manager().ask(job, params))


def _in_words(plan: Mapping[str, float | None]) -> str:
    calls, known, seconds = (plan[name] for name in ("calls", "known", "seconds"))
    told = f", {known:,} known already" if known else ""
    about = "unknown until it runs" if seconds is None else findings.duration(seconds)
    return f"{plural(int(calls or 0), 'judge call')}{told}: about {about}, measured just now"


def _said(asks: Mapping[str, Ask]) -> None:
    """The minutes of each form, or what is going on until they are known."""
    waiting = [ask for ask in asks.values() if not ask.answered]
    if waiting:
        ui.note(f"{waiting[0].step}: a few texts are made to measure the pace …")
        return
    parts = []
    try:
        for name, ask in asks.items():
            seconds = ask.answer().get("seconds")
            parts.append(f"{name} about {findings.duration(seconds)}" if seconds else f"{name}: not known")
    except EngineError as error:
        ui.show_error(error, "The pace could not be measured.")
        return
    ui.note(f"Measured here: {', '.join(parts)}.")
