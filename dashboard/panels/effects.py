"""The figures of a run, each drawn from the table it is saved with."""

from __future__ import annotations

import pandas as pd

from dashboard import ui
from dashboard.data import RunView
from dashboard.panels import findings
from engine.figures import attack as figures
from engine.schema import NONE


def forest(view: RunView, *, key: str, defense: str = "") -> None:
    """Each arm's shift with its interval; of one defense only, if it is named."""
    metrics = view.metrics[view.metrics["defense"] == defense] if defense else view.metrics
    prepared = figures.prepare_forest(metrics, titles=findings.short_titles(metrics))
    note = findings.origin(view.manifest, recorded=view.recorded)
    ui.show_figure(lambda mode: figures.plot_forest(prepared, mode=mode, note=note), prepared, key=key)


def grid(view: RunView, *, key: str) -> None:
    """Attack by defense."""
    prepared = figures.prepare_grid(view.metrics, titles=findings.short_titles(view.metrics))
    note = findings.origin(view.manifest, recorded=view.recorded)
    ui.show_figure(lambda mode: figures.plot_grid(prepared, mode=mode, note=note), prepared, key=key)


def dumbbells(view: RunView, attack: str, defense: str, *, key: str, most: int) -> None:
    """Before and after of the most moved responses of one arm."""
    prepared = figures.prepare_dumbbells(view.shifts, attack=attack, defense=defense, most=most)
    arm = findings.arm_name(attack, defense)
    note = findings.origin(view.manifest, recorded=view.recorded)
    scale = view.scale

    def draw(mode: ui.Mode):  # noqa: ANN202
        title = f"Which responses does {arm} move?"
        return figures.plot_dumbbells(prepared, mode=mode, scale=scale, title=title, note=note)

    ui.show_figure(draw, prepared, key=key)


def distribution(
    labels: list[str], clean: dict[str, object], attacked: dict[str, object], attack: str, *, key: str, note: str
) -> None:
    """Where the judge's probability lies on the score labels, before and after."""
    values = findings.label_values(labels)
    shown = None if attack == NONE else attacked
    prepared: pd.DataFrame = figures.prepare_distribution(labels, values, clean, shown)
    title = "How sure is the judge?" if shown is None else "How does the attack move this score?"
    ui.show_figure(
        lambda mode: figures.plot_distribution(prepared, mode=mode, title=title, note=note), prepared, key=key
    )
