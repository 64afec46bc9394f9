"""Figures of an audit by partial transport, at any mass, from the stored path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.data.comparisons import DEMO_PAIRS
from engine.figures import puaudit_curves as curves
from engine.figures import puaudit_map as maps
from engine.figures import puaudit_rows as rows_of
from engine.figures.palette import Mode
from engine.gallery.base import Dial, Entry, Shown, Source, Values, has_table
from engine.metrics.puaudit import Audit, consistency, read_audit
from engine.readout.puaudit import decide, per_pair, random_band, stability
from engine.schema import NONE

STUDY = "puaudit"
ATTACKS = {
    "length": "Length",
    "sentiment": "Sentiment",
    "distraction": "Distraction",
    "neutral": "Placebo: neutral paraphrase",
    NONE: "no attack",
}
CONTROLS = ("cons_adj", "cons_orig", "cons_all", "cons_random", "cons_centroid", "cons_nearest", "cons_top10")
AUCS = ("auc_entry_mass", "auc_centroid", "auc_nearest", "auc_top10")
ALL_TYPES = "all types"
_MARKS = {"mass_clean": "estimated", "mass_attacked": "from attacked labels", "mass_oracle": "true share"}


def attacks(source: Source) -> tuple[str, ...]:
    """Attacks audited, the clean arm first."""
    return source.memo("attacks", lambda: tuple(str(a) for a in source.table("audit")["attack"].unique()))


def kinds(source: Source) -> tuple[str, ...]:
    """What stands for all question types together, then the types."""
    return source.memo("kinds", lambda: (ALL_TYPES, *sorted(source.table("audit")["type"].unique())))


def audit(source: Source, attack: str) -> Audit:
    """The audit of one attack."""
    return source.memo(("audit", attack), lambda: read_audit(source.table("audit"), source.table("transport"), attack))


def estimate(found: Audit) -> float:
    """The estimated mass of the split shown, to two digits."""
    masses = [s.mass() for s in found.shown]
    return float(
        np.clip(round(float(np.average(masses, weights=[s.path.n_unlabelled for s in found.shown])), 2), 0.01, 1)
    )


def shown_rows(found: Audit, table: pd.DataFrame, mass: float) -> pd.DataFrame:
    """The rows of the split shown, with what the audit decides and the share of bootstraps that keep each pair."""
    rows = found.rows(table).reset_index(drop=True)
    held = rows["resampled"].map(lambda v: isinstance(v, list))
    share = np.full(len(rows), np.nan)
    if held.any():
        share[held.to_numpy()] = stability(np.array(rows.loc[held, "resampled"].tolist()), mass)
    flip = np.zeros(len(rows), dtype=bool)
    for split in found.shown:
        own = (rows["role"] == "unlabelled") & (rows["part"].fillna("") == split.part)
        places = rows.loc[own, "place"].to_numpy(dtype=np.int64)
        flip[own.to_numpy()] = decide(split, mass).flips[places]
    return rows.assign(stability=share, flip=flip)


def density(found: Audit) -> pd.DataFrame:
    """Entry masses of verdicts that agree and of those that do not, means over the splits."""
    splits, n = found.splits or found.shown, len(found.pairs)
    entry = per_pair(splits, [s.path.entry_mass for s in splits], n)
    return curves.prepare_density(entry, per_pair(splits, [s.agrees for s in splits], n))


def sensitivity(found: Audit, metrics: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
    """Consistency against the mass with random flips, and the named masses."""
    own = metrics[metrics["attack"] == found.attack]
    masses = np.linspace(0.05, 1, 20)
    splits = found.splits
    agrees = per_pair(splits, [s.agrees for s in splits], len(found.pairs)) if splits else np.zeros(0)
    n = int((~np.isnan(agrees)).sum())
    random = [random_band(agrees, round((1 - m) * len(agrees)))[0] for m in masses] if n else [np.nan] * 20
    prepared = curves.prepare_sensitivity(own, list(masses), random)
    at = own[own["group"].isna()].drop_duplicates("metric").set_index("metric")["value"]
    marks = {title: float(at[name]) for name, title in _MARKS.items() if name in at.index and np.isfinite(at[name])}
    return prepared, marks


def note_of(manifest: dict[str, Any], origin: str) -> str:
    """Recorded or live, and what stands in for people on the demo."""
    demo = manifest.get("data", {}).get("dataset_id") == DEMO_PAIRS
    return f"{origin}, preferences by construction" if demo else origin


ATTACK = Dial("attack", "attack", "choice", lambda s: attacks(s)[0], choices=attacks, words=ATTACKS)
MASS = Dial("mass", "mass", "number", lambda _: 0.0, words={0.0: "estimated"})
KIND = Dial(
    "type", "question type", "choice", lambda _: ALL_TYPES,
    choices=kinds,
)  # fmt: skip
MAP = Dial("map", "map", "choice", lambda _: "PCA", choices=lambda s: maps.MAPS if _has_umap(s) else maps.MAPS[:1])
COLOUR = Dial("colour", "colour", "choice", lambda _: maps.COLOURS[0], choices=lambda _: maps.COLOURS)
AT = (ATTACK, MASS)


def _has_umap(source: Source) -> bool:
    return source.memo("has_umap", lambda: bool(source.table("audit")["umap_x"].notna().any()))


def _mass(source: Source, at: Values) -> float:
    return float(at["mass"]) or estimate(audit(source, str(at["attack"])))


def table_at(source: Source, attack: str, mass: float) -> pd.DataFrame:
    """Consistency before and after at a mass, its controls and its cells."""
    found, least = audit(source, attack), int(source.config.get("min_cell", 10))
    return source.memo(("consistency", attack, mass), lambda: consistency(found, mass, min_cell=least))


def rows_at(source: Source, attack: str, mass: float) -> pd.DataFrame:
    """The rows of the split shown, decided at a mass."""
    found = audit(source, attack)
    return source.memo(("rows", attack, mass), lambda: shown_rows(found, source.table("audit"), mass))


def _table(source: Source, at: Values) -> pd.DataFrame:
    return table_at(source, str(at["attack"]), _mass(source, at))


def _rows(source: Source, at: Values) -> pd.DataFrame:
    rows = rows_at(source, str(at["attack"]), _mass(source, at))
    return rows if at.get("type", ALL_TYPES) == ALL_TYPES else rows[rows["type"] == at["type"]]


def _left_out(source: Source) -> str:
    out = source.manifest.get("excluded", {})
    return f"{sum(out.values())} pairs left out as unread or tied" if out else "0 pairs left out"


def _note(source: Source) -> str:
    return note_of(source.manifest, source.origin)


def _controls(source: Source, at: Values) -> Shown:
    table = _table(source, at)
    made = rows_of.prepare_controls(table, CONTROLS if len(table) else ())
    more = {"title": "Does transport beat simpler ways to flip?", "note": _note(source), "rows": "consistency"}
    return Shown(made, more, (_at_mass(source, at), _left_out(source)))


def _ranking(source: Source, at: Values) -> Shown:
    own = source.table("metrics")
    made = rows_of.prepare_controls(own[own["attack"] == at["attack"]], AUCS)
    more = {"title": "Which score finds wrong verdicts?", "note": _note(source), "rows": "auc"}
    return Shown(made, more, (_left_out(source),))


def _draw_controls(prepared: pd.DataFrame, more: dict[str, Any], mode: Mode) -> Any:
    rows = rows_of.CONSISTENCY if more["rows"] == "consistency" else rows_of.AUC
    return rows_of.plot_controls(prepared, rows, mode=mode, title=more["title"], note=more["note"])


def _types(source: Source, at: Values) -> Shown:
    made = rows_of.prepare_types(_table(source, at))
    more = {"title": "Where does the audit help or hurt?", "note": _note(source)}
    return Shown(made, more, (f"n = {int(made['n'].sum())} pairs", _at_mass(source, at), _left_out(source)))


def _attacks(source: Source, _: Values) -> Shown:
    own = source.table("metrics")
    made = rows_of.prepare_types(own[own["group"].notna()], ATTACKS)
    more = {"title": "And under attack?", "note": f"each at its estimated mass; {_note(source)}"}
    return Shown(made, more, (f"n = {int(made['n'].min()) if len(made) else 0} pairs a row or more", _left_out(source)))


def _density(source: Source, at: Values) -> Shown:
    found = audit(source, str(at["attack"]))
    made = density(found)
    note = f"mean over the splits; {_note(source)}" if found.splits else _note(source)
    facts = (f"n = {len(made)} pairs", "single pairs, so no interval", _left_out(source))
    return Shown(made, {"mass": _mass(source, at), "note": note}, facts)


def _items(source: Source, at: Values) -> Shown:
    made = curves.prepare_items(_rows(source, at))
    facts = (f"n = {len(made)} pairs", "single pairs, so no interval", _left_out(source))
    return Shown(made, {"mass": _mass(source, at), "note": _note(source)}, facts)


def _map(source: Source, at: Values) -> Shown:
    made = maps.prepare_map(_rows(source, at), str(at["map"]))
    more = {"kind": str(at["map"]), "colour": str(at["colour"]), "note": _note(source)}
    return Shown(made, more, (f"n = {len(made)} pairs", "single pairs, so no interval", _left_out(source)))


def _sensitivity(source: Source, at: Values) -> Shown:
    made, marks = sensitivity(audit(source, str(at["attack"])), source.table("metrics"))
    return Shown(made, {"mass": _mass(source, at), "marks": marks, "note": _note(source)}, (_left_out(source),))


def _at_mass(source: Source, at: Values) -> str:
    return f"at mass {_mass(source, at):.2f}"


_EMPTY = has_table("audit", "it holds no audit yet.")


def _one_attack(source: Source) -> str:
    return _EMPTY(source) or ("" if len(attacks(source)) > 1 else "it audited no attack.")


ENTRIES = (
    Entry(
        STUDY, "controls", "Does transport beat simpler ways to flip?", _controls, _draw_controls, AT, _EMPTY,
    ),
    Entry(
        STUDY, "types", "Where does the audit help or hurt?", _types,
        lambda p, more, mode: rows_of.plot_types(p, mode=mode, title=more["title"], note=more["note"]), AT, _EMPTY,
    ),
    Entry(
        STUDY, "attacks", "And under attack?", _attacks,
        lambda p, more, mode: rows_of.plot_types(p, mode=mode, title=more["title"], note=more["note"]), (), _one_attack,
    ),
    Entry(
        STUDY, "density", "Do wrong verdicts enter later?", _density,
        lambda p, more, mode: curves.plot_density(p, more["mass"], mode=mode, note=more["note"]), AT, _EMPTY,
    ),
    Entry(
        STUDY, "items", "In which order do verdicts enter?", _items,
        lambda p, more, mode: curves.plot_items(p, more["mass"], mode=mode, note=more["note"]), (*AT, KIND), _EMPTY,
    ),
    Entry(
        STUDY, "map", "Which comparisons look alike?", _map,
        lambda p, more, mode: maps.plot_map(p, more["colour"], kind=more["kind"], mode=mode, note=more["note"]),
        (*AT, KIND, MAP, COLOUR), _EMPTY,
    ),
    Entry(
        STUDY, "sensitivity", "Which mass would have been right?", _sensitivity,
        lambda p, more, mode: curves.plot_sensitivity(p, more["mass"], more["marks"], mode=mode, note=more["note"]),
        AT, _EMPTY,
    ),
    Entry(
        STUDY, "ranking", "Which score finds wrong verdicts?", _ranking, _draw_controls, (ATTACK,), _EMPTY,
    ),
)  # fmt: skip
