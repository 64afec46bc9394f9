"""A run over the whole set, and its figures."""

from __future__ import annotations

from functools import cached_property

import pandas as pd

from dashboard import findings, ui
from dashboard.run_view import RunView, Stored
from engine.core.schema import NONE
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
