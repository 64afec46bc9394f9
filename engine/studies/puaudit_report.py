"""What the study `puaudit` reports: its table of metrics, and the summary that the command line prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from engine.metrics.intervals import cluster_rate
from engine.metrics.puaudit import (
    Audit,
    best_control,
    consistency,
    masses_and_flips,
    ranking_quality,
    read_audit,
    sensitivity,
)
from engine.readout.puaudit import Split, decide
from engine.schema import METRICS, NONE
from engine.studies.puaudit_tables import Frames, Vectors
from engine.studies.puaudit_verdicts import Judged

if TYPE_CHECKING:
    from engine.studies.puaudit import AuditConfig

MASSES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Masses of the sensitivity (paper 002, table 7, in even steps)."""


def audit_metrics(
    audit: pd.DataFrame, events: pd.DataFrame, config: AuditConfig, arms: Sequence[Judged]
) -> pd.DataFrame:
    """Consistency, controls, AUC, masses and flips of every arm, and the sensitivity to the mass."""
    tables = []
    for arm in arms:
        own = read_audit(audit, events, arm.attack, seed=config.seed)
        tables += [
            consistency(own, config.mass, eta=config.eta, level=config.level, min_cell=config.min_cell),
            ranking_quality(own, level=config.level),
            sensitivity(own, MASSES, eta=config.eta, level=config.level),
            masses_and_flips(own, audit, config.mass, eta=config.eta, level=config.level),
        ]
        if arm.attack != NONE:
            tables.append(METRICS.conform(pd.DataFrame(_flip_rows(own, arms[0], arm, config))))
    return pd.concat([t for t in tables if len(t)], ignore_index=True)


def _plain(metric: str, attack: str, group: str | None, value: float, n: int, method: str) -> dict[str, Any]:
    own = {"metric": metric, "attack": attack, "defense": NONE, "group": group, "value": value}
    return own | {"method": method, "n": n}


def flip_rate(clean: Judged, arm: Judged) -> dict[str, int]:
    """Pairs whose strict verdict the attack turned, of those with a strict one in both."""
    both = [pair for pair in arm.side if pair in clean.side]
    return {"flipped": sum(arm.side[p] != clean.side[p] for p in both), "n": len(both)}


def _flip_rows(own: Audit, clean: Judged, arm: Judged, config: AuditConfig) -> list[dict[str, Any]]:
    """verdict_flips: strict verdicts turned by the attack; verdict_undecided: those that became a tie or unread."""
    pairs = [str(pair) for pair in own.pairs["comparison_id"]]
    turned = [float(arm.side[p] != clean.side[p]) if p in arm.side and p in clean.side else np.nan for p in pairs]
    undecided = [float(p not in arm.side) if p in arm.texts and p in clean.side else np.nan for p in pairs]
    rows = []
    for metric, values in (("verdict_flips", turned), ("verdict_undecided", undecided)):
        rate = cluster_rate(values, own.boot.codes, level=config.level, seed=config.seed)
        row = _plain(metric, own.attack, None, rate.value, rate.n, rate.method)
        rows.append(
            row | {"lower": rate.lower, "upper": rate.upper, "level": rate.level, "n_clusters": rate.n_clusters}
        )
    return rows


def ratio_rows(found: Mapping[float, Frames], config: AuditConfig) -> pd.DataFrame:
    """cons_orig, cons_adj and gain at other shares of verified positives (paper 002, table 6; `group` is the share)."""
    tables = []
    for ratio, tables_of in found.items():
        own = read_audit(tables_of.audit, tables_of.events, seed=config.seed)
        table = consistency(own, config.mass, eta=config.eta, level=config.level, min_cell=0)
        chosen = table[table["group"].isna() & table["metric"].isin(["cons_orig", "cons_adj", "gain"])]
        tables.append(chosen.assign(metric="p_ratio_" + chosen["metric"], group=f"{ratio:g}"))
    return METRICS.conform(pd.concat(tables)) if tables else METRICS.empty()


def encoder_rows(
    spec: str, audit: pd.DataFrame, events: pd.DataFrame, vectors: Vectors, path: float, config: AuditConfig
) -> pd.DataFrame:
    """One encoder, as a row of paper 002, table 3, with the AUC of entry mass beside it (`group` names the encoder).

    Its memory is that of its weights: what the process holds says more about the judge and the libraries.
    """
    own = read_audit(audit, events, seed=config.seed)
    table = consistency(own, config.mass, eta=config.eta, level=config.level, min_cell=0)
    names = ["cons_orig", "cons_adj", "gain", "gain_over_best"]
    rows = table[table["group"].isna() & table["metric"].isin(names)]
    quality = ranking_quality(own, level=config.level)
    flips = masses_and_flips(own, audit, config.mass, eta=config.eta, level=config.level)
    flips = flips[flips["metric"] == "flip_share"].assign(metric="flips")
    both = pd.concat([rows, quality[quality["metric"] == "auc_entry_mass"], flips])
    both = both.assign(metric="encoder_" + both["metric"], group=spec)
    weights = vectors.encoder.weights_bytes / 2**30
    n_paths = len({(s.number, s.part) for s in (own.splits or own.itself)})
    more = [
        _plain("encoder_seconds", NONE, spec, vectors.seconds, vectors.n, "one measurement; none where vectors known"),
        _plain("encoder_path_seconds", NONE, spec, path, n_paths, "mean over the splits"),
        _plain("encoder_memory_gib", NONE, spec, weights, 1, "bytes of its weights"),
    ]
    return METRICS.conform(pd.concat([both, METRICS.conform(pd.DataFrame(more))]))


def summary(
    own: Audit, audit: pd.DataFrame, metrics: pd.DataFrame, config: AuditConfig, seconds: float, n_excluded: int
) -> dict[str, Any]:
    """What `--json` prints, from the clean arm."""
    rows, shown = own.rows(audit), own.shown
    clean = metrics[(metrics["attack"] == NONE)]
    overall = clean[clean["group"].isna()].drop_duplicates("metric").set_index("metric")
    n_estimate = sum(s.n_estimate for s in shown)
    types = [str(t) for t in dict.fromkeys(own.pairs["type"])]
    return {
        "n_positive": int((rows["role"] != "unlabelled").sum()),
        "n_positive_kept": sum(s.path.n_positive for s in shown),
        "n_unlabelled": sum(s.path.n_unlabelled for s in shown),
        "n_excluded": n_excluded,
        "n_splits": len({s.number for s in own.splits}),
        "encoder": config.encoders[0],
        "mass": _mean_mass(shown, config.mass),
        "mass_source": "set" if config.mass is not None else f"consistency on {n_estimate} positives",
        "cons_orig": _interval(overall, "cons_orig"),
        "cons_adj": _interval(overall, "cons_adj"),
        "gain": _interval(overall, "gain"),
        "cons_random": _interval(overall, "cons_random"),
        "best_control": best_control(clean),
        "best_control_chosen": "on the same pairs, which favours it",
        "gain_over_best": _interval(overall, "gain_over_best"),
        "n_flipped": sum(int(decide(s, config.mass, config.eta).flips.sum()) for s in shown),
        "auc": {name: _interval(overall, f"auc_{name}") for name in ("entry_mass", "centroid", "nearest", "top10")},
        "path_seconds": seconds,
        "by_type": [_of_type(clean, name, config.min_cell) for name in types],
        "sensitivity": {
            str(row.group): row.value for row in clean[clean["metric"] == "sensitivity_cons_adj"].itertuples()
        },
    }


def _mean_mass(shown: Sequence[Split], wanted: float | None) -> float:
    """The mass, averaged over the pairs where each question type has its own."""
    sizes = [s.path.n_unlabelled for s in shown]
    return float(np.average([s.mass(wanted) for s in shown], weights=sizes))


def _interval(table: pd.DataFrame, metric: str) -> dict[str, Any] | None:
    if metric not in table.index:
        return None
    row = dict(zip(table.columns, table.loc[[metric]].iloc[0].tolist(), strict=True))
    return {name: row[name] for name in ("value", "lower", "upper", "method")} | {"n": int(row["n"])}


def _of_type(clean: pd.DataFrame, name: str, min_cell: int) -> dict[str, Any]:
    own = clean[(clean["group"] == name) & clean["metric"].isin(["cons_orig", "cons_adj", "gain"])].set_index("metric")
    n = int(own["n"].max()) if len(own) else 0
    found = {metric: _interval(own, metric) for metric in ("cons_orig", "cons_adj", "gain")}
    return {"type": name, "n": n, "enough": n >= min_cell} | found
