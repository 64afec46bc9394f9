"""Check-ups as the page reads them, and what can be checked; no model is asked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.watching import RECORDED, first_readable, named_runs, open_named, version_of
from engine import catalog, runs
from engine.data.comparisons import DEMO_PAIRS, list_comparisons, load_comparisons
from engine.errors import RunError
from engine.gallery import Source
from engine.metrics.checkup import Decision, as_record, decide, summary
from engine.schema import Protocol
from engine.settings import get_settings

STUDY = "checkup"


@dataclass(frozen=True)
class CheckupRun:
    """A check-up at one moment.

    Attributes:
        table: table `checkup`: what each probe measured.
        source: the run folder as the gallery reads it.
    """

    run_id: str
    version: str
    manifest: dict[str, Any]
    table: pd.DataFrame
    source: Source

    @property
    def recorded(self) -> bool:
        """Whether these numbers shipped with the project."""
        return bool(self.manifest.get("recorded", False))

    @property
    def own(self) -> bool:
        """Whether the run lies among the user's own, so that thresholds can be kept with it."""
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
    return first_readable(named_runs(STUDY, judge, data_id), lambda found: load(found[0], version_of(found[1])))


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
    """What a run has measured so far; None where it has written nothing."""
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
