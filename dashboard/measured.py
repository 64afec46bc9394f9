"""One number of a study as Start and the lessons show it: found in the newest run's own table, never typed in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings
from dashboard.run_view import first_readable, version_of
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.plots.glance import GlanceRow
from engine.plots.text import plural
from engine.runs import folder as runs


@dataclass(frozen=True)
class Measure:
    """One row of a study's table, and the way it is read.

    Attributes:
        name: title of the number, for a row of a figure; {attack} stands for the attack found.
        studies: names of the study in manifests.
        pick: column and value; an empty value for one that is not set.
        unit: `points`; `%` or `pp` (percentage points) for shares, which are stored as fractions.
        low, high: ends of the axis, in the unit.
        null, null_name: where no effect would stand.
        page: where it is explored.
        meaning: colour by meaning.
        choose: rule for several rows: `last`, or `largest` by size.
        table: of the run.
    """

    name: str
    studies: tuple[str, ...]
    pick: Mapping[str, str]
    unit: str
    low: float
    high: float
    null: float
    null_name: str
    page: str
    meaning: str = "attacked"
    choose: str = "last"
    table: str = "metrics"


@dataclass(frozen=True)
class Measured:
    """A number with its run.

    Attributes:
        row: the number, ready for the figure.
        manifest: of its run.
    """

    row: GlanceRow
    manifest: dict[str, Any]

    @property
    def recorded(self) -> bool:
        """True where it shipped with the project."""
        return bool(self.manifest.get("recorded", False))

    @property
    def origin(self) -> str:
        """Recorded or run here, when, and on which data."""
        return f"{findings.origin(self.manifest, recorded=self.recorded)}, {self.data}"

    @property
    def data(self) -> str:
        """The data's name."""
        return str(self.manifest.get("data", {}).get("name") or self.manifest.get("config", {}).get("data", ""))

    @property
    def sizes(self) -> str:
        """Its n, items and unread verdicts."""
        unread = f", {self.row.n_unread:,} left out as unread" if self.row.n_unread else ""
        items = f" of {plural(self.row.n_clusters, 'item')}" if self.row.n_clusters else ""
        return f"n = {self.row.n:,}{items}{unread}"

    @property
    def side(self) -> int:
        """1 where the whole interval is above the null, -1 where it is below, 0 where it reaches it."""
        if not (math.isfinite(self.row.lower) and math.isfinite(self.row.upper)):
            return 0
        return int(self.row.lower > self.row.null) - int(self.row.upper < self.row.null)


def shift(attack: str, name: str) -> Measure:
    """The undefended shift of the mean score under one attack."""
    return Measure(
        f"Score shift, {name}", ("score", "grid"), {"metric": "shift", "attack": attack, "defense": NONE},
        "points", -1, 1, 0, "no change", "pages/attack_lab/page.py",
    )  # fmt: skip


def behind(attack: str, defense: str, name: str) -> Measure:
    """The shift of the mean score under one attack behind one defense."""
    bare = shift(attack, name)
    return replace(bare, pick={**bare.pick, "defense": defense}, meaning="defended")


STRONGEST = replace(
    shift("", "{attack}"), pick={"metric": "shift", "defense": NONE}, choose="largest", name="Score shift, {attack}"
)
FIRST_SLOT = Measure(
    "First slot wins", ("protocols",), {"metric": "first_slot_rate", "protocol": "pairwise"},
    "%", 0, 100, 50, "neither slot", "pages/protocols/page.py", "clean",
)  # fmt: skip
KEYS = Measure(
    "Master keys accepted", ("refswap",), {"metric": "fpr", "attack": NONE, "defense": NONE, "group": "test"},
    "%", 0, 50, 0, "none", "pages/reference_swap/page.py",
)  # fmt: skip
LEARNED = Measure(
    "Score shift, learned phrase", ("suffix",), {"metric": "shift"},
    "points", -1, 1, 0, "no change", "pages/attack_lab/page.py",
)  # fmt: skip
GAIN = Measure(
    "Agreement gained by the audit", ("puaudit",), {"metric": "gain", "attack": NONE, "group": ""},
    "pp", -50, 50, 0, "no change", "pages/transport_audit/page.py", "defended",
)  # fmt: skip


def passed(estimate: str, name: str, meaning: str) -> Measure:
    """The share that passes by one estimate of the study `trust`, beside LLMBar's half."""
    return Measure(
        name, ("trust",), {"estimate": estimate, "scope": "all"},
        "%", 0, 100, 50, "the true share", "pages/trust/page.py", meaning, table="trust",
    )  # fmt: skip


PASSED_ATTACKED = Measure(
    "Corrected, under attack", ("trust",), {"case": "after", "estimate": "corrected"},
    "%", 0, 100, 50, "the true share", "pages/trust/page.py", table="trust_attacked",
)  # fmt: skip
"""The last row is that of all rows without a label."""
AGREED = Measure(
    "Verdicts on which people agree", ("trust",), {"metric": "agreement", "group": ""},
    "%", 0, 100, 50, "a coin", "pages/trust/page.py", "clean",
)  # fmt: skip


def flips(protocol: str, attack: str, name: str, *, net: bool = False) -> Measure:
    """Share of distracted losers that now win; net of the placebo's share where asked for."""
    group = "equal modal score" if protocol == "pointwise" else ""
    low = -50 if net else 0
    return Measure(
        name, ("protocols",),
        {"metric": "flip_rate_net" if net else "flip_rate", "attack": attack, "protocol": protocol, "group": group},
        "pp" if net else "%", low, 50, 0, "as the placebo" if net else "none", "pages/protocols/page.py",
    )  # fmt: skip


Run = tuple[Path, dict[str, Any]]
"""The folder a run lies in, and its manifest."""


def own_runs() -> list[Run]:
    """The user's runs, newest first; listed once for several measures."""
    mine = get_settings().runs
    return [(mine, manifest) for manifest in runs.list_runs(mine)]


def find(
    measure: Measure, judge: str, data: str = "", *, recorded_only: bool = False, own: Sequence[Run] | None = None
) -> Measured | None:
    """The measure in the newest finished run of a judge that has it; the recorded runs come after the user's own.

    Args:
        measure: the number to look for.
        judge: the judge's spec.
        data: the data it should be on; empty takes any.
        recorded_only: true where only runs that ship with the project count.
        own: from `own_runs`, where several measures are looked for.
    """

    def read(found: Run) -> Measured | None:
        root, manifest = found
        metrics = _table(str(root), str(manifest["run_id"]), version_of(manifest), measure.table)
        row = _row(measure, metrics)
        return None if row is None else Measured(row, manifest)

    mine = [] if recorded_only else own_runs() if own is None else own
    return first_readable(_candidates(measure.studies, judge, data, mine), read)


def _candidates(studies: tuple[str, ...], judge: str, data: str, own: Sequence[Run]) -> Iterator[Run]:
    for root, manifest in [*own, *_recorded(str(get_settings().assets))]:
        config = manifest.get("config", {})
        fits = manifest.get("study") in studies and manifest.get("state") == "done"
        fits = fits and config.get("judge", judge) == judge  # a study of verdicts that are there names no judge
        if fits and data in ("", config.get("data")):
            yield root, manifest


@st.cache_resource(max_entries=1, show_spinner=False)
def _recorded(assets: str) -> list[Run]:
    """Every run that ships with the project, with the folder it lies in."""
    folders = [f for f in sorted((Path(assets) / "demo").iterdir()) if f.is_dir()]
    return [(folder, m) for folder in folders for m in runs.list_runs(folder) if "config" in m]


@st.cache_resource(max_entries=64, show_spinner=False)
def _table(root: str, run_id: str, version: str, name: str) -> pd.DataFrame:
    del version  # part of the cache key only
    return runs.open_run(Path(root), run_id).table(name)


def _row(measure: Measure, metrics: pd.DataFrame) -> GlanceRow | None:
    chosen = metrics
    for column, value in measure.pick.items():
        held = chosen[column].fillna("") if column in chosen else pd.Series("", index=chosen.index)
        chosen = chosen[held == value]
    chosen = chosen[chosen["value"].notna()]
    if not len(chosen):
        return None
    at = chosen["value"].abs().idxmax() if measure.choose == "largest" else chosen.index[-1]
    found = chosen.loc[at]
    factor = 1.0 if measure.unit == "points" else 100.0
    value, lower, upper = (factor * float(found[k]) for k in ("value", "lower", "upper"))
    items = found.get("n_clusters", found.get("n_items"))
    held = {"n": found["n"], "n_clusters": items, "n_unread": found.get("n_unread")}
    whole = {k: 0 if pd.isna(x) else int(x) for k, x in held.items()}
    return GlanceRow(
        measure.name.format(attack=findings.attack_name(str(found.get("attack", NONE)))), value, lower, upper,
        measure.unit, measure.low, measure.high, measure.null, measure.null_name,
        level=float(found["level"]), method=str(found["method"]), meaning=measure.meaning, **whole,
    )  # fmt: skip


def elsewhere() -> list[GlanceRow]:
    """Gains of the audit where it helps most and least, of other judges' verdicts; from the shipped table of results.

    The name says in brackets how often the judge agreed with people before.
    """
    try:
        table = pd.read_csv(get_settings().assets / "results" / "puaudit.csv")
    except (OSError, ValueError):
        return []
    table = table[table["gain"].notna() & table["gain_lower"].notna()]
    if not len(table):
        return []
    return [_gained(table.loc[i]) for i in (table["gain"].idxmax(), table["gain"].idxmin())]


def _gained(found: pd.Series) -> GlanceRow:
    value, lower, upper = (100 * float(found[k]) for k in ("gain", "gain_lower", "gain_upper"))
    name = f"{found['judge']} on {found['data']} ({100 * float(found['cons_orig']):.0f} %)"
    return GlanceRow(
        name, value, lower, upper, GAIN.unit, GAIN.low, GAIN.high, GAIN.null, GAIN.null_name,
        method="bootstrap of items", n=int(found["n_pairs"]), meaning="low",
    )  # fmt: skip
