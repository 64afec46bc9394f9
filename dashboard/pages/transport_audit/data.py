"""Sets of pairs and runs of audits, read once and shared; what is cached is never edited in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.run_view import RECORDED, first_readable, runs_about
from engine.core.errors import RunError
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_PAIRS, Comparisons, list_comparisons, load_comparisons
from engine.runs import folder as runs
from engine.studies.figure import Source
from engine.studies.transport_audit import figures
from engine.studies.transport_audit.metrics import Audit
from engine.studies.transport_audit.study import STUDY


@dataclass(frozen=True)
class AuditRun:
    """A finished audit as the page reads it.

    Attributes:
        rows: table `audit`.
        audits: by attack, the clean arm first.
        variants: rewritten responses, table `variants`.
        source: the run as figures read it.
    """

    run_id: str
    manifest: dict[str, Any]
    rows: pd.DataFrame
    metrics: pd.DataFrame
    audits: dict[str, Audit]
    variants: pd.DataFrame
    source: Source

    def attacked_text(self, attack: str, response_ids: Sequence[str]) -> str:
        """The rewritten losing response of a pair; empty where the attack rewrites nothing."""
        table = self.variants
        texts = table.loc[(table["style"] == attack) & table["response_id"].isin(list(response_ids)), "text"]
        return str(texts.iloc[0]) if len(texts) else ""

    @property
    def recorded(self) -> bool:
        """True for numbers that shipped with the project."""
        return bool(self.manifest.get("recorded", False))

    @property
    def config(self) -> dict[str, Any]:
        """The study's settings."""
        return dict(self.manifest.get("config", {}))


def pair_sets() -> dict[str, str]:
    """Id and title of every set of pairs, the bundled one first."""
    root = get_settings().comparisons
    return {DEMO_PAIRS: load_comparisons(DEMO_PAIRS, root).name, **list_comparisons(root)}


@st.cache_resource(max_entries=4, show_spinner=False)
def _pairs(set_id: str, root: str) -> Comparisons:
    del root  # part of the cache key only
    return load_comparisons(set_id, get_settings().comparisons)


def pairs(set_id: str) -> Comparisons:
    """A set of pairs.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    return _pairs(set_id, str(get_settings().comparisons))


@st.cache_resource(max_entries=6, show_spinner=False)
def _run(run_id: str, version: str, root: str) -> AuditRun:
    del version, root  # part of the cache key only
    recorded = run_id.startswith(RECORDED)
    folder = runs.demo_run(run_id.removeprefix(RECORDED)) if recorded else runs.open_run(get_settings().runs, run_id)
    source = Source(folder)
    rows = source.table("audit")
    if rows.empty:
        raise RunError(f"The run {folder.run_id} holds no audit yet.")
    audits = {attack: figures.audit(source, attack) for attack in figures.attacks(source)}
    return AuditRun(run_id, source.manifest, rows, source.table("metrics"), audits, source.table("variants"), source)


def read_run(run_id: str, version: str) -> AuditRun:
    """One run.

    Raises:
        EngineError: there is none, or it holds no audit.
    """
    return _run(run_id, version, str(get_settings().runs))


def latest(judge: str, set_id: str) -> AuditRun | None:
    """The newest finished audit of this judge on these pairs; else the recorded one, if it fits."""
    finished = (m for m in runs_about(judge, set_id) if m.get("study") in STUDY.names and m.get("state") == "done")
    if run := first_readable(finished, lambda m: read_run(str(m["run_id"]), str(m.get("finished")))):
        return run
    if set_id != DEMO_PAIRS:
        return None
    try:
        demo = read_run(RECORDED + DEMO_PAIRS, "recorded")
    except RunError:
        return None
    return demo if demo.config.get("judge") == judge else None
