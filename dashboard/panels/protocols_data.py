"""Runs of the study protocols as the page reads them; no model is asked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.watching import first_readable, named_runs, open_named, version_of
from engine import catalog
from engine.metrics.flips import FlipComparison, TieRule
from engine.metrics.leaderboard import Board, ChosenBy, board
from engine.metrics.protocol_advice import Evidence
from engine.metrics.protocols import (
    LadderRow,
    View,
    clean_tie_rate,
    copy_rates,
    flips,
    ladder,
    margin_like_pairwise,
    order_disagreement,
    preference_strength,
)
from engine.readout.arena import Arena, arm_parts, build_arena
from engine.schema import NONE, Protocol
from engine.settings import get_settings

STUDY = "protocols"
MODAL, LIKE, MARGIN = "Equal modal score", "As often as pairwise", "Within a margin"
TITLES = {
    "assertiveness": "Assertiveness",
    "prolixity": "Prolixity",
    "sycophancy": "Sycophancy",
    "neutral": "Neutral paraphrase (placebo)",
    NONE: "Identical texts",
}


@dataclass(frozen=True)
class ProtocolRun:
    """A run's tables, as arrays.

    Attributes:
        texts: by (arm, response id), the text that was judged.
    """

    run_id: str
    version: str
    manifest: dict[str, Any]
    arena: Arena
    variants: pd.DataFrame
    texts: dict[tuple[str, str], str]

    @property
    def recorded(self) -> bool:
        """Whether these numbers shipped with the project."""
        return bool(self.manifest.get("recorded", False))

    @property
    def config(self) -> dict[str, Any]:
        """The settings it ran with."""
        return dict(self.manifest["config"])

    @property
    def judge(self) -> str:
        """The judge's spec."""
        return str(self.config["judge"])

    @property
    def distractors(self) -> list[str]:
        """Arms with rewritten texts, the placebo left out."""
        return [arm for arm in self.arena.arms if arm != catalog.PLACEBO]

    @property
    def styles(self) -> list[str]:
        """The distractors, whatever their strength."""
        return list(dict.fromkeys(arm_parts(arm)[0] for arm in self.distractors))

    def strengths(self, style: str) -> list[float]:
        """The strengths a style was judged at, ascending."""
        return sorted(arm_parts(arm)[1] for arm in self.distractors if arm_parts(arm)[0] == style)

    @property
    def boards(self) -> list[str]:
        """Arms the leaderboard was measured with."""
        return [arm for arm in self.config.get("boards", ()) if arm in self.arena.kept]

    @property
    def lowest(self) -> int:
        """Most systems that the run rewrote for it."""
        return max(1, min(int(self.config.get("lowest", 3)), len(self.arena.systems) - 1))


def title(arm: str) -> str:
    """An arm for a reader."""
    style, strength = arm_parts(arm)
    name = TITLES.get(style, style)
    return name if strength == 1 else f"{name}, strength {strength:g}"


def latest(judge: str, dataset_id: str) -> ProtocolRun | None:
    """The newest run of this judge on these data; else the recorded one, if it fits."""
    return first_readable(named_runs(STUDY, judge, dataset_id), lambda found: load(found[0], version_of(found[1])))


def load(run_id: str, version: str) -> ProtocolRun | None:
    """A run at one moment, or None where it has judged nothing yet.

    Raises:
        EngineError: there is no such run, or it is damaged.
    """
    return _load(run_id, version, str(get_settings().data_dir))


@st.cache_resource(max_entries=8, show_spinner=False)
def _load(run_id: str, version: str, root: str) -> ProtocolRun | None:
    del root  # part of the cache key only
    folder = open_named(STUDY, run_id)
    verdicts, variants = folder.table("verdicts"), folder.table("variants")
    if not len(verdicts) or not len(variants):
        return None
    texts = dict(zip(zip(variants["style"], variants["response_id"], strict=True), variants["text"], strict=True))
    return ProtocolRun(run_id, version, folder.manifest(), build_arena(verdicts, variants), variants, texts)


def view(run: ProtocolRun, rule: str, margin: float) -> View:
    """How verdicts are read under the page's tie rule."""
    average = run.config.get("average", "probability")
    if rule == MODAL:
        return View(TieRule(None), average)
    if rule == LIKE:
        found = margin_like_pairwise(run.arena, View(average=average))
        return View(TieRule(found if found == found else 0.0), average)
    return View(TieRule(margin), average)


# Every cache below is keyed by run, its state and the choices; the arrays themselves are left out of the key.


@st.cache_data(max_entries=256, show_spinner=False)
def _flips(run_id: str, version: str, arms: tuple[str, ...], seen: View, _arena: Arena) -> FlipComparison:
    del run_id, version
    return flips(_arena, arms, catalog.PLACEBO, seen)


def flips_of(run: ProtocolRun, arms: tuple[str, ...], seen: View) -> FlipComparison:
    """Flips of the arms together."""
    return _flips(run.run_id, run.version, arms, seen, run.arena)


@st.cache_data(max_entries=128, show_spinner=False)
def _board(
    run_id: str,
    version: str,
    protocol: str,
    arm: str,
    k: int,
    seen: View,
    chosen: ChosenBy,
    elo_k: float,
    _arena: Arena,
) -> Board:
    del run_id, version
    return board(_arena, Protocol(protocol), arm, k, seen, chosen_by=chosen, elo_k=elo_k)


def board_of(
    run: ProtocolRun, protocol: Protocol, arm: str, k: int, seen: View, chosen: ChosenBy, elo_k: float
) -> Board:
    """The leaderboard before and after."""
    return _board(run.run_id, run.version, protocol.value, arm, k, seen, chosen, elo_k, run.arena)


@st.cache_data(max_entries=64, show_spinner=False)
def _ladder(run_id: str, version: str, arm: str, seen: View, _arena: Arena) -> list[LadderRow]:
    del run_id, version
    return ladder(_arena, [arm], seen)


def ladder_of(run: ProtocolRun, arm: str, seen: View) -> list[LadderRow]:
    """Accuracy by severity, clean and under one arm."""
    return _ladder(run.run_id, run.version, arm, seen, run.arena)


def evidence(run: ProtocolRun, seen: View) -> Evidence:
    """What the advice rests on."""
    arena, arm = run.arena, whole(run)
    return Evidence(
        flips_of(run, tuple(arm), seen),
        clean_tie_rate(arena, Protocol.PAIRWISE, seen),
        clean_tie_rate(arena, Protocol.POINTWISE, seen),
        copy_rates(arena, Protocol.PAIRWISE, [NONE], seen).tied,
        order_disagreement(arena, seen),
        preference_strength(arena, seen),
        tuple(ladder_of(run, arm[0], seen)) if arm else (),
    )


def whole(run: ProtocolRun) -> list[str]:
    """The distractors at full strength; all of them where none is."""
    return [arm for arm in run.distractors if ":" not in arm] or run.distractors
