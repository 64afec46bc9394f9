"""Runs of the study protocols as the page reads them; no model is asked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.watching import first_readable, named_runs, open_named, version_of
from engine import catalog
from engine.gallery import Source
from engine.gallery import protocols as gallery
from engine.metrics.flips import FlipComparison
from engine.metrics.leaderboard import Board, ChosenBy
from engine.metrics.protocol_advice import Evidence
from engine.metrics.protocols import (
    LadderRow,
    View,
    clean_tie_rate,
    copy_rates,
    order_disagreement,
    preference_strength,
)
from engine.readout.arena import Arena, arm_parts
from engine.schema import NONE, Protocol
from engine.settings import get_settings

STUDY = "protocols"
MODAL, LIKE, MARGIN = gallery.MODAL, gallery.LIKE, gallery.MARGIN
RULES = {MODAL: "Equal modal score", LIKE: "As often as pairwise", MARGIN: "Within a margin"}
"""The page's words for the tie rules."""


@dataclass(frozen=True)
class ProtocolRun:
    """A run's tables, as arrays.

    Attributes:
        texts: by (arm, response id), the text that was judged.
        source: the run as the gallery of figures reads it.
    """

    run_id: str
    version: str
    manifest: dict[str, Any]
    arena: Arena
    variants: pd.DataFrame
    texts: dict[tuple[str, str], str]
    source: Source

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
        return gallery.lowest_of(self.source)


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
    source = Source(folder)
    verdicts, variants = source.table("verdicts"), source.table("variants")
    if not len(verdicts) or not len(variants):
        return None
    texts = dict(zip(zip(variants["style"], variants["response_id"], strict=True), variants["text"], strict=True))
    return ProtocolRun(run_id, version, source.manifest, gallery.arena(source), variants, texts, source)


def view(run: ProtocolRun, rule: str, margin: float) -> View:
    """How verdicts are read under the page's tie rule."""
    return gallery.view_of(run.arena, rule, margin, str(run.config.get("average", "probability")))


def flips_of(run: ProtocolRun, arms: tuple[str, ...], seen: View) -> FlipComparison:
    """Flips of the arms together."""
    return gallery.flips_of(run.source, arms, seen)


def board_of(
    run: ProtocolRun, protocol: Protocol, arm: str, k: int, seen: View, chosen: ChosenBy, elo_k: float
) -> Board:
    """The leaderboard before and after."""
    return gallery.board_of(run.source, protocol, arm, k, seen, chosen, elo_k)


def ladder_of(run: ProtocolRun, arm: str, seen: View) -> list[LadderRow]:
    """Accuracy by severity, clean and under one arm."""
    return gallery.ladder_of(run.source, arm, seen)


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
    return gallery.whole(run.distractors)
