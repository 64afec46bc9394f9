"""Check-ups as the page reads them, and what can be checked; no model is asked here."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.linked_run import runs_of
from dashboard.run_view import RunView, Stored, first_readable, load
from engine.core.errors import EngineError
from engine.runs.library import is_recorded
from engine.studies.checkup.metrics import CARDS, ProbeCard, as_record, check_thresholds, decide, summary


class CheckupRun(RunView):
    """A check-up."""

    kind = "checkup"
    table = Stored("checkup")

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds stored with it."""
        return {str(k): float(v) for k, v in self.config.get("thresholds", {}).items()}


def any_recorded(judge: str) -> CheckupRun | None:
    """A recorded check-up, of this judge where there is one; None where this copy has none."""
    for spec in (judge, state.DEFAULT_JUDGE, ""):
        recorded = filter(is_recorded, runs_of(CheckupRun.kind, spec, ""))
        if found := first_readable(recorded, lambda run_id: load(CheckupRun, run_id)):
            return found
    return None


def keep_thresholds(run: CheckupRun, thresholds: dict[str, float]) -> None:
    """Store thresholds and what they decide with a run of the user's own.

    Raises:
        EngineError: the run is gone.
    """
    decisions = decide(run.table, thresholds)
    run.folder.update_manifest(
        config=run.config | {"thresholds": thresholds},
        summary=summary(decisions),
        probes=[as_record(d) for d in decisions],
    )


# The thresholds as sliders: in the address, with the run's own as defaults, kept with the run when asked to.

PREFIX = "limit_"
SHOWN = "limits_shown"
"""The thresholds of the run that the sliders were drawn for last."""


def key_of(card: ProbeCard) -> str:
    """The slider's key, which is also its name in the address."""
    return PREFIX + card.name


def chosen(run: CheckupRun | None) -> dict[str, float]:
    """The thresholds as set now, without drawing anything: the session's, else the address's, else the run's."""
    defaults = _defaults(run)
    return {card.name: _value(card, defaults[card.name]) for card in CARDS}


def pick(run: CheckupRun | None) -> dict[str, float]:
    """One slider a probe; nothing here asks the judge."""
    defaults = _defaults(run)
    thresholds: dict[str, float] = {}
    columns = st.columns(3, gap="medium")
    for i, card in enumerate(CARDS):
        with columns[i % 3]:
            thresholds[card.name] = _slider(card, defaults[card.name])
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        changed = any(abs(thresholds[name] - value) > 1e-9 for name, value in defaults.items())
        st.button("Back to the run's own", key="limits_reset", disabled=not changed, on_click=_reset)
        if run and run.editable:
            kept = st.button("Keep with this run", key="limits_keep", disabled=not changed, icon=":material/save:")
            if kept:
                _keep(run, thresholds)
        ui.note("Changing a threshold decides anew from what was measured; the judge is not asked.")
    return thresholds


def _defaults(run: CheckupRun | None) -> dict[str, float]:
    """The run's own thresholds; sliders that stood at the last run's follow, those that were moved stay."""
    defaults = check_thresholds(run.thresholds if run else {})
    before = st.session_state.get(SHOWN)
    if isinstance(before, dict) and before != defaults:
        for card in CARDS:
            if st.session_state.get(key_of(card)) == _shown(card, before[card.name]):
                st.session_state.pop(key_of(card))
    state.put(SHOWN, defaults)
    return defaults


def _slider(card: ProbeCard, default: float) -> float:
    key, agreement = key_of(card), card.side == "at least"
    state.put(key, _shown(card, _value(card, default)))
    if agreement:
        value = float(st.slider(f"{card.title}, at least", 0.05, card.highest, step=0.05, key=key))
        threshold = value
    else:
        words = "either way at most" if card.side == "within" else "at most"
        most = 100 * card.highest
        value = float(st.slider(f"{card.title}, {words}", 1.0, most, step=1.0, key=key, format="%.0f %%"))
        threshold = value / 100
    state.publish(key, f"{value:g}", f"{_shown(card, default):g}")
    return round(threshold, 6)


def _value(card: ProbeCard, default: float) -> float:
    """A threshold as a share, kept within the slider's range."""
    key = key_of(card)
    try:
        raw = float(st.session_state.get(key, st.query_params.get(key, _shown(card, default))))
    except ValueError:
        raw = _shown(card, default)
    low, high = (0.05, card.highest) if card.side == "at least" else (1.0, 100 * card.highest)
    raw = min(max(raw, low), high)
    return round(raw if card.side == "at least" else raw / 100, 6)


def _shown(card: ProbeCard, threshold: float) -> float:
    return round(threshold if card.side == "at least" else 100 * threshold, 4)


def _reset() -> None:
    for card in CARDS:
        st.session_state.pop(key_of(card), None)
        st.query_params.pop(key_of(card), None)


def _keep(run: CheckupRun, thresholds: dict[str, float]) -> None:
    try:
        keep_thresholds(run, thresholds)
    except EngineError as error:
        ui.show_error(error, "The thresholds could not be kept.")
        return
    state.say_after_rerun("The thresholds are kept with the run.")
    st.rerun()
