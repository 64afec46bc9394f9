"""A run over the whole set, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pandas as pd

from dashboard import findings, ui
from dashboard.run_view import RunView, Stored
from engine.core.schema import NONE
from engine.plots.moves import plot_moves, prepare_moves
from engine.plots.shifts import plot_distribution, prepare_distribution
from engine.studies.attack_grid import figures
from engine.studies.attack_grid.figures import ALL


class GridRun(RunView):
    """A run of attacks by defenses."""

    kind = "attack_grid"
    verdicts = Stored("verdicts")

    @cached_property
    def shifts(self) -> pd.DataFrame:
        """One row per response and attacked arm, from `paired_shifts`."""
        return figures.shifts(self.source)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The table `metrics`, computed from exactly these verdicts."""
        return figures.metrics(self.source)

    @property
    def labels(self) -> list[str]:
        """The answers the judge was offered."""
        return [str(label) for label in self.manifest.get("judge", {}).get("labels", [])]

    def verdict(self, response_id: str, attack: str, defense: str) -> dict[str, Any]:
        """A row of its verdicts as the live view has it; what was not run has no usable verdict."""
        rows = self.verdicts
        at = (rows["response_id"] == response_id) & (rows["attack"] == attack) & (rows["defense"] == defense)
        found = rows[at]
        if not len(found):
            return {**_NOT_JUDGED}
        row = found.iloc[0]
        tokens = row["prompt_tokens"]
        return {
            "score": float(row["score"]),
            "coverage": float(row["coverage"]),
            "probabilities": row["probabilities"] if isinstance(row["probabilities"], list) else None,
            "unread_reason": row["unread_reason"] if isinstance(row["unread_reason"], str) else "",
            "prompt_tokens": 0 if pd.isna(tokens) else int(tokens),
            "seconds": float(row["seconds"]),
        }

    def pair(self, response_id: str, attack: str, defense: str) -> dict[str, Any] | None:
        """A response without and with the attack, as a live answer has it; None where the run has not both."""
        clean, attacked = (self.verdict(response_id, name, defense) for name in (NONE, attack))
        if NOT_YET in (clean["unread_reason"], attacked["unread_reason"]):
            return None
        return {"labels": self.labels, "clean": clean, "attacked": attacked}


NOT_YET = "not judged yet"
_NOT_JUDGED: dict[str, Any] = {
    "score": None, "coverage": None, "probabilities": None, "unread_reason": NOT_YET, "prompt_tokens": 0,
    "seconds": 0.0,
}  # fmt: skip


def moves(view: GridRun, attack: str, *, key: str) -> None:
    """Mean scores without and with each attack, off and behind each defense."""
    ui.show_entry(view.source, "moves", key=key, attack=attack)


def one_response_moves(rows: Sequence[Mapping[str, Any]], labels: list[str], *, key: str, note: str) -> None:
    """One response: without and with the attack, defense off and on, on one axis."""
    prepared = prepare_moves(rows)
    seen = prepared[["clean", "attacked"]].stack().tolist()
    values = findings.label_values(labels) or [*seen, 1.0, 5.0]
    scale = (min(values), max(values))
    title = "How far does the attack move this response?"
    ui.show_figure(lambda mode: plot_moves(prepared, mode=mode, scale=scale, title=title, note=note), prepared, key=key)


def forest(view: GridRun, *, key: str, defense: str = ALL) -> None:
    """Each arm's shift with its interval; of one defense only, if it is named."""
    ui.show_entry(view.source, "forest", key=key, defense=defense)


def grid(view: GridRun, *, key: str) -> None:
    """Attack by defense."""
    ui.show_entry(view.source, "grid", key=key)


def dumbbells(view: GridRun, attack: str, defense: str, *, key: str, most: int) -> None:
    """Before and after of the most moved responses of one arm."""
    ui.show_entry(view.source, "dumbbells", key=key, attack=attack, defense=defense, most=most)


def distribution(
    labels: list[str], clean: dict[str, object], attacked: dict[str, object], attack: str, *, key: str, note: str
) -> None:
    """Where the judge's probability lies on the score labels, before and after."""
    values = findings.label_values(labels)
    shown = None if attack == NONE else attacked
    prepared: pd.DataFrame = prepare_distribution(labels, values, clean, shown)
    title = "How sure is the judge?" if shown is None else "How does the attack move this score?"
    ui.show_figure(lambda mode: plot_distribution(prepared, mode=mode, title=title, note=note), prepared, key=key)
