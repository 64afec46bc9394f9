"""A run of the study `trust` on the page, and the same rows with more or fewer labels: computed here, not run anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dashboard.run_view import RunView, Stored
from engine.core.settings import get_settings
from engine.data.labelled import DEMO_TRUST, load_labelled
from engine.studies.figure import Source
from engine.studies.trust.metrics import Rows, estimates_table, quality_table, rows_of

FEWEST = 20
"""Least labels of the slider."""
_STOPS = 40
_ONE_NUMBER = ("system", "system_b", "group")


class TrustRun(RunView):
    """A run of the study `trust`."""

    kind = "trust"
    table = Stored("trust")
    metrics = Stored("metrics")
    labelled = Stored("labelled")

    @property
    def about(self) -> dict[str, Any]:
        """Name, kind and sizes of its data."""
        return dict(self.manifest.get("data") or {})

    @property
    def is_share(self) -> bool:
        """Verdicts are pass or fail, or wins; else they are scores."""
        return self.about.get("kind") != "scale"

    @property
    def n_labels(self) -> int:
        """Labels that it has on rows with a verdict."""
        return int(self.labelled[["label", "verdict"]].notna().all(axis=1).sum())

    @property
    def truth(self) -> float:
        """The number by all labels; NaN where nobody knows it."""
        return float((self.about.get("truth") or {}).get("value", np.nan))

    @property
    def rows(self) -> Rows:
        """Its rows as the estimators take them."""
        return self.source.memo("trust_rows", lambda: self._rows(self.labelled))

    def _rows(self, labelled: pd.DataFrame) -> Rows:
        return rows_of(labelled, str(self.about["kind"]), level=self.source.level, seed=self.source.seed)

    @cached_property
    def stock(self) -> Stock:
        """Its labels in the order in which the slider takes them."""
        return stock_of(self)

    def with_labels(self, k: int) -> Live:
        """Numbers of all rows by the first `k` labels of the stock."""
        return self.source.memo(("trust_labels", k), lambda: self._live(k))

    def _live(self, k: int) -> Live:
        taken = self.stock.first(self.labelled, k)
        rows = self._rows(taken.assign(**dict.fromkeys(_ONE_NUMBER)))
        return Live(self.source, {"trust": estimates_table(rows), "metrics": quality_table(rows, [])})


@dataclass(frozen=True)
class Stock:
    """Labels that can be used.

    Attributes:
        values: of every row, NaN where there is no verdict or no label is known, shape [rows].
        order: places of rows with a label: those that the run shows in random order, then the others that are known.
        shown: labels that the run shows.
    """

    values: npt.NDArray[np.float64]
    order: npt.NDArray[np.intp]
    shown: int

    def first(self, labelled: pd.DataFrame, k: int) -> pd.DataFrame:
        """The rows with the first `k` labels; chances to be labelled shrink or grow alike."""
        label = np.full(len(self.values), np.nan)
        label[self.order[:k]] = self.values[self.order[:k]]
        chance = labelled["chance"] * min(1.0, k / max(self.shown, 1))
        return labelled.assign(label=label, chance=chance)

    @property
    def stops(self) -> list[int]:
        """Numbers of labels that the slider offers, the run's own among them; one alone where there are too few."""
        most = len(self.order)
        if most <= FEWEST:
            return [self.shown]
        step = max(1, round(most / _STOPS, -1) if most > 10 * _STOPS else most // _STOPS)
        return sorted({*range(FEWEST, most + 1, int(step)), self.shown, most})


def stock_of(run: TrustRun) -> Stock:
    """The labels of a run: of the demo those of all rows, of other data those that it shows."""
    read = run.labelled["verdict"].notna()
    shown = run.labelled["label"].where(read).to_numpy(dtype=float)
    values = shown
    if run.data == DEMO_TRUST and not run.config.get("keep_labels"):
        truth = load_labelled(DEMO_TRUST, get_settings().labelled).truth
        values = np.array([truth.get(str(name), np.nan) for name in run.labelled["row_id"]])
        values = np.where(read, values, np.nan)
    rng = np.random.default_rng(run.source.seed)
    first = rng.permutation(np.flatnonzero(~np.isnan(shown)))
    rest = rng.permutation(np.flatnonzero(np.isnan(shown) & ~np.isnan(values)))
    return Stock(values, np.concatenate([first, rest]), len(first))


class Live(Source):
    """A run with some tables and settings in place of its stored ones, for the study's own figures."""

    def __init__(
        self, source: Source, tables: Mapping[str, pd.DataFrame], config: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(source.folder)
        self._tables, self._config = dict(tables), dict(config or {})

    @property
    def config(self) -> dict[str, Any]:
        """The settings, the changed ones included."""
        return super().config | self._config

    def table(self, name: str) -> pd.DataFrame:
        """The table put in, or the run's."""
        return self._tables[name] if name in self._tables else super().table(name)
