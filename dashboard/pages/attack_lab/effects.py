"""The figures of a run, each drawn from the table it is saved with."""

from __future__ import annotations

import pandas as pd

from dashboard import findings, ui
from dashboard.run_view import RunView
from engine.core.schema import NONE
from engine.plots.shifts import plot_distribution, prepare_distribution
from engine.studies.attack_grid.figures import ALL


def forest(view: RunView, *, key: str, defense: str = ALL) -> None:
    """Each arm's shift with its interval; of one defense only, if it is named."""
    ui.show_entry(view.source, "forest", key=key, defense=defense)


def grid(view: RunView, *, key: str) -> None:
    """Attack by defense."""
    ui.show_entry(view.source, "grid", key=key)


def dumbbells(view: RunView, attack: str, defense: str, *, key: str, most: int) -> None:
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
