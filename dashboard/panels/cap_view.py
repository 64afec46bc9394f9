"""A run of the study `cap` as its page reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.watching import RECORDED, first_readable, runs_about, version_of
from engine import runs
from engine.data.store import DEMO_NAMES
from engine.errors import RunError
from engine.gallery import Source
from engine.settings import get_settings

CAP = "cap"


@dataclass(frozen=True)
class CapView:
    """The tables of one run at one moment; a run in progress may have some of them empty."""

    run_id: str
    manifest: dict[str, Any]
    layers: pd.DataFrame
    texts: pd.DataFrame
    points: pd.DataFrame
    sweep: pd.DataFrame
    anchors: pd.DataFrame
    verdicts: pd.DataFrame
    metrics: pd.DataFrame
    source: Source

    @property
    def recorded(self) -> bool:
        """Whether these numbers shipped with the project."""
        return bool(self.manifest.get("recorded", False))

    @property
    def cap(self) -> dict[str, Any]:
        """Chosen layer, standards and alphas; empty while they are not known."""
        return dict(self.manifest.get("cap") or {})

    @property
    def evaluated(self) -> list[str]:
        """Contexts whose responses were judged, the others' anchors last."""
        judged = list(dict.fromkeys(self.verdicts["item_id"]))
        return [*judged, *(i for i in dict.fromkeys(self.anchors["item_id"]) if i not in judged)]


@st.cache_resource(max_entries=8, show_spinner=False)
def _load(run_id: str, version: str, root: str) -> CapView:
    del version, root  # part of the cache key only
    demo = run_id.removeprefix(RECORDED)
    if demo != run_id:
        folder = runs.open_run(get_settings().assets / "demo" / demo.removeprefix("demo-"), CAP)
    else:
        folder = runs.open_run(get_settings().runs, run_id)
    names = ("cap_layers", "cap_texts", "cap_points", "cap_sweep", "cap_anchors", "verdicts", "metrics")
    source = Source(folder)
    return CapView(run_id, source.manifest, *(source.table(name) for name in names), source)


def view_of(run_id: str, version: str) -> CapView | None:
    """A run's tables, or None where it has written nothing yet.

    Args:
        run_id: the run's folder, or `recorded:` and the id of a demo set.
        version: changes whenever the tables may have; part of the cache key.
    """
    try:
        return _load(run_id, version, str(get_settings().runs))
    except RunError:
        return None


def latest(judge: str, dataset_id: str) -> CapView | None:
    """The newest run of this judge on this data that found its standards; else the recorded one, if it fits."""

    def read(manifest: dict[str, Any]) -> CapView | None:
        view = view_of(str(manifest["run_id"]), f"{version_of(manifest)} {extended(manifest)}")
        return view if view and len(view.layers) else None

    own = (m for m in runs_about(judge, dataset_id) if m.get("study") == CAP)
    if view := first_readable(own, read):
        return view
    demo = view_of(RECORDED + dataset_id, "recorded") if dataset_id in DEMO_NAMES else None
    return demo if demo and demo.manifest.get("judge", {}).get("spec") == judge else None


def extended(manifest: dict[str, Any]) -> float:
    """When the run's sweep was written last, since that table grows after the run has ended."""
    file = get_settings().runs / str(manifest.get("run_id", "")) / "cap_sweep.parquet"
    return file.stat().st_mtime if file.is_file() else 0.0
