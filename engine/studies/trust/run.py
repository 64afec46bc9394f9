"""A run of the study `trust`: verdicts and labels opened, from a table or from a run, and every table written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import InputError, listed
from engine.core.schema import LABELLED, NONE, Order, Protocol
from engine.data.comparisons import is_pairs, load_comparisons
from engine.data.labelled import Kind, Labelled
from engine.data.mapping import known_right
from engine.data.store import load_dataset
from engine.runs.folder import RunFolder, now
from engine.runs.library import find_run, is_recorded
from engine.stats.agreement import combine_orders
from engine.stats.corrected import labels_only
from engine.stats.selective import order_confidence
from engine.studies.study import Context
from engine.studies.trust.metrics import (
    NO_CONFIDENCE,
    Floats,
    Rows,
    calibration_table,
    confusion_table,
    estimates_table,
    needed_table,
    quality_table,
    recalibrations,
    rows_of,
    select,
    selection_table,
)
from engine.studies.trust.requirements import held
from engine.studies.trust.study import TrustConfig
from engine.studies.trust.under_attack import (
    attacked_by,
    attacked_table,
    least_share,
    notice,
    noticed_table,
    planted,
)

FEWEST = 2
"""Labelled rows without which nothing can be said."""
_OUTCOMES = {"a": 1.0, "b": 0.0, "tie": 0.5, "yes": 1.0, "no": 0.0}


def run_trust(config: TrustConfig, context: Context, folder: RunFolder) -> None:
    """Correct, calibrate, select, count; write every table. Without labels there is the raw number, and labels needed.

    Raises:
        InputError: the data cannot be used.
    """
    context.checkpoint(0, 1)
    data = opened(config, context)
    rows = rows_of(data.rows, data.kind, level=config.level, seed=config.seed)
    _same_unit(data)
    recalibrated = recalibrations(rows)
    under = verdicts_under_attack(rows, config, context)
    selection = select(rows, config.bound, config.delta, config.off_by)
    tables = {
        "labelled": data.rows,
        "trust": estimates_table(rows),
        "metrics": quality_table(rows, recalibrated),
        "trust_confusion": confusion_table(rows),
        "trust_calibration": calibration_table(rows, recalibrated, config.bins),
        "trust_selection": selection_table(selection),
        "trust_needed": needed_table(rows, config.half, config.agreement),
        "trust_attacked": attacked_table(rows, under),
        "trust_noticed": noticed_table(rows, under),
    }
    held(config.require, tables["trust"], tables["metrics"])  # refuses a group that is not there
    for name, table in tables.items():
        folder.write_table(name, table)
    context.checkpoint(1, 1)
    now_apart = notice(rows)
    folder.update_manifest(
        state="done",
        finished=now(),
        data=_about(data),
        judge={"spec": "", "fingerprint": "", "labels": [], "device": "no model"},
        noticed={"least_share": least_share(rows, under), "p_value": now_apart.p_value, "apart": now_apart.value},
        selective={"reason": NO_CONFIDENCE if selection is None else selection.reason},
    )


def verdicts_under_attack(rows: Rows, config: TrustConfig, context: Context) -> Floats:
    """The verdict of each row were it attacked: from another file or run, or under the strongest attack.

    Raises:
        InputError: no such data, or none of its rows is one of these.
    """
    if not config.attacked:
        return planted(rows)
    run = _run_named(config.attacked, context)
    data = of_run(run, context, config.attack or _first_attack(run)) if run else context.data.labelled(config.attacked)
    if config.pass_at is not None and data.kind == "scale":
        data = passing(data, config.pass_at)
    under, missing = attacked_by(rows, data.rows)
    if missing == len(under):
        raise InputError(
            f"{data.name} has none of the rows of {config.data}: their ids differ. Give the same responses, attacked."
        )
    return under


def _first_attack(run: RunFolder) -> str:
    found = [str(a) for a in dict.fromkeys(run.table("verdicts")["attack"]) if a != NONE]
    if not found:
        raise InputError(f"The run {run.run_id} has no attacked verdicts. Name one that was run with --attack.")
    return found[0]


def _same_unit(data: Labelled) -> None:
    """Refuse scores beside labels of pass and fail, whose means cannot be compared."""
    labels = data.rows["label"].dropna()
    if data.kind == "scale" and len(labels) and labels.isin([0.0, 1.0]).all() and float(data.rows["verdict"].max()) > 1:
        raise InputError(
            f"{data.name} has scores up to {float(data.rows['verdict'].max()):g} and labels of 0 and 1. Say from which "
            "score on the judge passes a row, for example --set pass_at=4."
        )


def _about(data: Labelled) -> dict[str, Any]:
    truth = np.array([data.truth.get(row, np.nan) for row in data.rows["row_id"]])
    known = truth[~np.isnan(truth)]
    whole = (
        labels_only(np.ones(len(known)), known, data.rows["item_id"].to_numpy()[~np.isnan(truth)])
        if len(known)
        else None
    )
    return {
        "dataset_id": data.set_id,
        "name": data.name,
        "kind": data.kind,
        "n_items": int(data.rows["item_id"].nunique()),
        "n_responses": len(data.rows),
        "n_labels": int(data.rows["label"].notna().sum()),
        "n_unread": int(data.rows["verdict"].isna().sum()),
        "spellings": data.spellings,
        "truth": None if whole is None else {"value": whole.value, "n": len(known)},
    }


# Opening the data.


def data_named(name: str, context: Context) -> str:
    """The id of a table of verdicts and labels, which is saved; a run's name or folder as it is."""
    return name if _run_named(name, context) else context.data.labelled(name).set_id


def opened(config: TrustConfig, context: Context) -> Labelled:
    """The rows that the settings ask for.

    Raises:
        InputError: no such data, or a run without people's scores.
    """
    run = _run_named(config.data, context)
    data = of_run(run, context) if run else context.data.labelled(config.data)
    if config.pass_at is not None:
        data = passing(data, config.pass_at)
    return data if config.keep_labels is None else hiding(data, config.keep_labels, config.seed)


def _run_named(name: str, context: Context) -> RunFolder | None:
    if context.local_files and (Path(name) / "manifest.json").is_file():
        return RunFolder(Path(name).resolve())
    if is_recorded(name) or (context.settings.runs / name / "manifest.json").is_file():
        return find_run(context.settings.runs, context.settings.assets / "demo", name)
    return None


def passing(data: Labelled, least: float) -> Labelled:
    """Scores as pass or fail.

    Raises:
        InputError: the verdicts are no scores.
    """
    if data.kind != "scale":
        raise InputError("pass_at takes scores apart into pass and fail; these verdicts are no scores. Leave it out.")
    rows = data.rows.copy()
    distance = (rows["verdict"] - least).abs()
    rows["verdict"] = (rows["verdict"] >= least).astype(float).where(rows["verdict"].notna())
    if not rows["label"].dropna().isin([0.0, 1.0]).all():
        rows["label"] = (rows["label"] >= least).astype(float).where(rows["label"].notna())
    rows["confidence"] = rows["confidence"].where(rows["confidence"].notna(), distance)
    return replace(data, rows=LABELLED.conform(rows), kind="pass")


def hiding(data: Labelled, keep: int, seed: int) -> Labelled:
    """All labels but `keep` hidden; what they were is kept as the truth."""
    known = np.flatnonzero(data.rows["label"].notna())
    if keep >= len(known):
        raise InputError(f"keep_labels is {keep}; {data.name} has {len(known)} labels. Give a smaller number.")
    shown = np.random.default_rng(seed).choice(known, keep, replace=False)
    labels = data.rows["label"].to_numpy(dtype=float)
    truth = data.truth or {str(data.rows["row_id"].iloc[i]): float(labels[i]) for i in known}
    hidden = np.full(len(labels), np.nan)
    hidden[shown] = labels[shown]
    return replace(data, rows=data.rows.assign(label=hidden, chance=np.nan), truth=truth)


def of_run(run: RunFolder, context: Context, attack: str = NONE) -> Labelled:
    """The undefended verdicts of a run under one attack, by default none, with people's scores of its data.

    Raises:
        InputError: the run has no such verdicts, or its data no such labels.
    """
    verdicts = run.table("verdicts")
    clean = verdicts[(verdicts["attack"] == attack) & (verdicts["defense"] == NONE)]
    clean = clean[clean["protocol"] != Protocol.RANKING.value]
    if clean.empty:
        raise InputError(
            f"The run {run.run_id} has no verdicts without defense under the attack {attack}, so there is nothing to "
            f"take. It has the attacks {listed(dict.fromkeys(verdicts['attack']))}."
        )
    asked = set(clean["protocol"])
    data_id = str((run.manifest().get("data") or {}).get("dataset_id") or run.manifest()["config"].get("data") or "")
    wanted = next(p for p in (Protocol.PAIRWISE, Protocol.VERIFIER, Protocol.POINTWISE) if p.value in asked)
    clean = clean[clean["protocol"] == wanted.value]
    if wanted is Protocol.PAIRWISE and is_pairs(data_id, context.settings.comparisons):
        rows, kind = _pairs(clean, data_id, context)
    else:
        rows, kind = _responses(clean, data_id, context)
    if rows["label"].notna().sum() < FEWEST:
        raise InputError(
            f"The data of the run {run.run_id} hold no human scores or preferences. Export its verdicts, add a column "
            "label, and give that file."
        )
    return Labelled(run.run_id, f"run {run.run_id}", LABELLED.conform(rows), kind)


def _pairs(clean: pd.DataFrame, data_id: str, context: Context) -> tuple[pd.DataFrame, Kind]:
    found = load_comparisons(data_id, context.settings.comparisons)
    key = ["response_id", "response_b"]
    pairs = combine_orders(clean)
    known = found.comparisons.rename(columns={"response_a": "response_id"})[[*key, "comparison_id", "human"]]
    rows = pairs.merge(known, on=key, how="inner")
    orders = {
        order: clean[clean["order"] == order.value].drop_duplicates(key).set_index(key)["p_a"].reindex(
            pd.MultiIndex.from_frame(rows[key])
        ).to_numpy(dtype=float)
        for order in Order
    }  # fmt: skip
    both, confidence = order_confidence(orders[Order.AB], orders[Order.BA])
    agree = np.where(rows["disagree"].isna(), np.nan, np.where(rows["disagree"].fillna(0) == 1, 0.5, 1.0))
    outright = np.isnan(both).all() or bool(np.isin(both[~np.isnan(both)], (0.0, 0.5, 1.0)).all())
    systems = found.responses.set_index("response_id")["system"]
    frame = pd.DataFrame(
        {
            "row_id": rows["comparison_id"],
            "item_id": rows["item_id"],
            "system": rows["response_id"].map(systems),
            "system_b": rows["response_b"].map(systems),
            "group": rows["item_id"].map(found.items.set_index("item_id")["group"]),
            "verdict": rows["outcome"].map(_OUTCOMES),
            "label": rows["human"].map(_OUTCOMES),
            "probability": np.nan if outright else both,
            "confidence": agree if outright else confidence,
        }
    )
    return frame, "pair"


def _responses(clean: pd.DataFrame, data_id: str, context: Context) -> tuple[pd.DataFrame, Kind]:
    dataset = load_dataset(data_id, context.settings.datasets)
    verifier = bool((clean["protocol"] == Protocol.VERIFIER.value).all())
    responses = dataset.responses.set_index("response_id")
    clean = clean.drop_duplicates("response_id")
    ids = clean["response_id"]
    scored = ids.map(responses["human_score"])
    right = ids.map(known_right(dataset) if verifier or scored.isna().all() else {}).astype(float)
    label = right if verifier or scored.isna().all() else scored
    frame = pd.DataFrame(
        {
            "row_id": ids,
            "item_id": clean["item_id"],
            "system": ids.map(responses["system"]),
            "group": clean["item_id"].map(dataset.items.set_index("item_id")["group"]),
            "verdict": clean["outcome"].map(_OUTCOMES) if verifier else clean["score"],
            "label": label,
            "probability": clean["p_yes"] if verifier else np.nan,
        }
    )
    frame["confidence"] = np.maximum(frame["probability"], 1 - frame["probability"])
    return frame, "pass" if verifier else "scale"
