"""Figures of an audit by partial transport, at any mass, from the stored path.

A mass of None is what the study takes: the one it was set to, else each split's own estimate, and each question type's
own where types have a transport of their own. The figures then show the study's numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.core.schema import NONE
from engine.data.comparisons import DEMO_PAIRS
from engine.plots.theme import Mode
from engine.studies.figure import Dial, Entry, Shown, Source, Values, has_table
from engine.studies.transport_audit import curves
from engine.studies.transport_audit import curves as maps
from engine.studies.transport_audit import rows as rows_of
from engine.studies.transport_audit.decisions import decide, per_pair, stability
from engine.studies.transport_audit.metrics import Audit, consistency, random_curve, read_audit

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
    return source.memo(
        ("audit", attack),
        lambda: read_audit(source.table("audit"), source.table("transport"), attack, seed=source.seed),
    )


def study_mass(source: Source) -> float | None:
    """The mass that the study was set to; None where it estimated."""
    held = source.config.get("mass")
    return None if held is None else float(held)


def masses(source: Source, attack: str, mass: float | None = None, kind: str = "") -> dict[str, float]:
    """The mass of each part of the split shown, by question type; all parts share one where a mass is given.

    Args:
        source: a run.
        attack: one of `attacks`.
        mass: in (0, 1]; None takes the study's.
        kind: a question type; only its part then, where it has one.
    """
    shown = audit(source, attack).shown
    own = [s for s in shown if s.part == kind] or list(shown)
    return {s.part: s.mass(study_mass(source) if mass is None else mass) for s in own}


def mean_mass(source: Source, attack: str) -> float:
    """The study's mass of the split shown, mean over the pairs, to two digits: where a slider starts."""
    own = masses(source, attack)
    sizes = [s.path.n_unlabelled for s in audit(source, attack).shown]
    return float(np.clip(round(float(np.average(list(own.values()), weights=sizes)), 2), 0.01, 1))


def shown_rows(found: Audit, table: pd.DataFrame, mass: float | None = None, eta: float = 0.5) -> pd.DataFrame:
    """The rows of the split shown, with what the audit decides and the share of bootstraps that keep each pair."""
    rows = found.rows(table).reset_index(drop=True)
    held = rows["resampled"].map(lambda v: isinstance(v, list)).to_numpy(dtype=bool)
    share, flip = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
    for split in found.shown:
        own = ((rows["role"] == "unlabelled") & (rows["part"].fillna("") == split.part)).to_numpy()
        decided = decide(split, mass, eta)
        flip[own] = decided.flips[rows.loc[own, "place"].to_numpy(dtype=np.int64)]
        if (own & held).any():
            share[own & held] = stability(np.array(rows.loc[own & held, "resampled"].tolist()), decided.mass)
    return rows.assign(stability=share, flip=flip)


def density(found: Audit) -> pd.DataFrame:
    """Entry masses of verdicts that agree and of those that do not, means over the splits."""
    splits, n = found.splits or found.shown, len(found.pairs)
    entry = per_pair(splits, [s.path.entry_mass for s in splits], n)
    return curves.prepare_density(entry, per_pair(splits, [s.agrees for s in splits], n))


def sensitivity(found: Audit, metrics: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
    """Consistency against the mass with random flips, and the named masses."""
    own = metrics[metrics["attack"] == found.attack]
    rows = own[own["metric"] == "sensitivity_cons_adj"]
    level = float(rows["level"].iloc[0]) if len(rows) else 0.95
    at_masses = sorted({float(group) for group in rows["group"]})
    prepared = curves.prepare_sensitivity(own, random_curve(found, at_masses, level))
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


def _wanted(at: Values) -> float | None:
    """The mass asked for; None for the study's."""
    return float(at["mass"]) or None


def _eta(source: Source) -> float:
    return float(source.config.get("eta", 0.5))


def table_at(source: Source, attack: str, mass: float | None = None) -> pd.DataFrame:
    """Consistency before and after at a mass, its controls and its cells; at None the study's own numbers."""
    found, least = audit(source, attack), int(source.config.get("min_cell", 10))
    used = study_mass(source) if mass is None else mass
    return source.memo(
        ("consistency", attack, mass),
        lambda: consistency(found, used, eta=_eta(source), level=source.level, min_cell=least),
    )


def rows_at(source: Source, attack: str, mass: float | None = None) -> pd.DataFrame:
    """The rows of the split shown, decided at a mass; at None the study's."""
    found, used = audit(source, attack), study_mass(source) if mass is None else mass
    return source.memo(("rows", attack, mass), lambda: shown_rows(found, source.table("audit"), used, _eta(source)))


def cuts(source: Source, attack: str, mass: float | None = None, kind: str = ALL_TYPES) -> list[float]:
    """Where the masses cut, ascending: one, or each question type's own."""
    own = masses(source, attack, mass, "" if kind == ALL_TYPES else kind)
    return sorted(set(own.values()))


def _table(source: Source, at: Values) -> pd.DataFrame:
    return table_at(source, str(at["attack"]), _wanted(at))


def _cuts(source: Source, at: Values) -> list[float]:
    return cuts(source, str(at["attack"]), _wanted(at), str(at.get("type", ALL_TYPES)))


def _rows(source: Source, at: Values) -> pd.DataFrame:
    rows = rows_at(source, str(at["attack"]), _wanted(at))
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
    return Shown(made, {"mass": _cuts(source, at), "note": note}, facts)


def _items(source: Source, at: Values) -> Shown:
    made = curves.prepare_items(_rows(source, at))
    facts = (f"n = {len(made)} pairs", "single pairs, so no interval", _left_out(source))
    return Shown(made, {"mass": _cuts(source, at), "note": _note(source)}, facts)


def _map(source: Source, at: Values) -> Shown:
    made = maps.prepare_map(_rows(source, at), str(at["map"]))
    more = {"kind": str(at["map"]), "colour": str(at["colour"]), "note": _note(source)}
    return Shown(made, more, (f"n = {len(made)} pairs", "single pairs, so no interval", _left_out(source)))


def _sensitivity(source: Source, at: Values) -> Shown:
    made, marks = sensitivity(audit(source, str(at["attack"])), source.table("metrics"))
    own = _cuts(source, at)
    apart = "curve: one mass for all types" if len(own) > 1 else ""
    return Shown(made, {"mass": own, "marks": marks, "note": _note(source)}, (apart, _left_out(source)))


def _at_mass(source: Source, at: Values) -> str:
    said = curves.mass_words(_cuts(source, at))
    if _wanted(at) is not None or study_mass(source) is not None:
        return f"at mass {said}"
    return f"at the estimated mass ({said} in the split shown; each split has its own)"


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
