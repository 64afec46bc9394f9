"""The figures of the Attack lab, in one place: each is a `prepare_*` and a `plot_*`."""

from engine.figures.distribution import plot_distribution, prepare_distribution
from engine.figures.dumbbells import plot_dumbbells, prepare_dumbbells
from engine.figures.forest import plot_forest, prepare_forest
from engine.figures.grid import plot_grid, prepare_grid

__all__ = [
    "plot_distribution",
    "plot_dumbbells",
    "plot_forest",
    "plot_grid",
    "prepare_distribution",
    "prepare_dumbbells",
    "prepare_forest",
    "prepare_grid",
]
