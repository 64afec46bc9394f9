"""Check-ups as the page reads them, and what can be checked; no model is asked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.run_view import RECORDED, first_readable, named_runs, open_named, version_of
from engine import catalog
from engine.core.errors import EngineError, RunError
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_PAIRS, list_comparisons, load_comparisons
from engine.runs import folder as runs
from engine.studies.checkup.metrics import CARDS, Decision, ProbeCard, as_record, check_thresholds, decide, summary
from engine.studies.figure import Source

STUDY = "checkup"


@dataclass(frozen=True)
class CheckupRun:
    """A check-up at one moment.

    Attributes:
        table: table `checkup`: what each probe measured.
        source: the run folder as figures read it.
    """

    run_id: str
    version: str
    manifest: dict[str, Any]
    table: pd.DataFrame
    source: Source

    @property
    def recorded(self) -> bool:
        """True where these numbers shipped with the project."""
        return bool(self.manifest.get("recorded", False))

    @property
    def editable(self) -> bool:
        """True for a run of the user's, with which thresholds can be kept."""
        return not self.run_id.startswith(RECORDED)

    @property
    def config(self) -> dict[str, Any]:
        """The settings it ran with."""
        return dict(self.manifest["config"])

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds stored with it."""
        return {str(k): float(v) for k, v in self.config.get("thresholds", {}).items()}

    @property
    def judge(self) -> str:
        """The judge's spec."""
        return str(self.config["judge"])


def pair_sets() -> dict[str, str]:
    """Id and title of every set of pairs, the bundled one first."""
    root = get_settings().comparisons
    return {DEMO_PAIRS: load_comparisons(DEMO_PAIRS, root).name, **list_comparisons(root)}


def judges() -> list[str]:
    """Every judge that is listed for some protocol."""
    return list(dict.fromkeys(spec for protocol in Protocol for spec in catalog.judges_for(protocol)))


def latest(judge: str, data_id: str) -> CheckupRun | None:
    """The newest check-up of this judge on these data; else the recorded one, if it fits."""
    return first_readable(named_runs(STUDY, judge, data_id), lambda named: load(named[0], version_of(named[1])))


def any_recorded() -> CheckupRun | None:
    """A recorded check-up, whatever it is about; None where this copy has none."""
    root = get_settings().assets / "demo" / STUDY
    listed = [m for m in runs.list_runs(root) if m.get("state") == "done"]
    return first_readable(listed, lambda m: load(RECORDED + str(m["run_id"]), version_of(m)))


def load(run_id: str, version: str) -> CheckupRun | None:
    """A run, or None where it has measured nothing yet.

    Raises:
        EngineError: there is no such run, or it is damaged.
    """
    return _load(run_id, version, str(get_settings().data_dir))


def while_running(run_id: str) -> CheckupRun | None:
    """Results of a run so far; None where it has written nothing."""
    try:
        return _read(run_id, "")
    except RunError:
        return None


@st.cache_resource(max_entries=16, show_spinner=False)
def _load(run_id: str, version: str, root: str) -> CheckupRun | None:
    del root  # part of the cache key only
    return _read(run_id, version)


def _read(run_id: str, version: str) -> CheckupRun | None:
    folder = open_named(STUDY, run_id)
    table = folder.table("checkup")
    return CheckupRun(run_id, version, folder.manifest(), table, Source(folder)) if len(table) else None


def keep_thresholds(run: CheckupRun, thresholds: dict[str, float]) -> None:
    """Store thresholds and what they decide with a run of the user's own.

    Raises:
        EngineError: the run is gone.
    """
    folder = open_named(STUDY, run.run_id)
    decisions = decide(run.table, thresholds)
    folder.update_manifest(
        config=run.config | {"thresholds": thresholds},
        summary=summary(decisions),
        probes=[as_record(d) for d in decisions],
    )
    _load.clear()


def decisions(run: CheckupRun, thresholds: dict[str, float]) -> list[Decision]:
    """The verdicts at these thresholds, from stored numbers."""
    return decide(run.table, thresholds)


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
