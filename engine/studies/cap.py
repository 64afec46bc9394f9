"""Study `cap`: steer a tutor to texts of a high and a low standard, show them to the judge, attack it (paper 001)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.cache import CallCache
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.guard import base_loader
from engine.defenses.writing import TUTOR
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge
from engine.judges.registry import make_judge
from engine.metrics.gains import FROM_UNDEFENDED
from engine.models.loader import load_model
from engine.runs import RunFolder, create_run, now
from engine.schema import METRICS, NONE
from engine.settings import Settings
from engine.steering.layers import blocks
from engine.steering.references import LEAST_READ, Chosen, nearest_alpha
from engine.steering.vectors import Side
from engine.studies.api_writing import API
from engine.studies.cap_arms import AnchorSets, arms_of, judge_arms, make_anchors, reasoner_of
from engine.studies.cap_config import CapConfig, Contexts, Progress, divide, expected_work
from engine.studies.cap_learned import learn_suffixes, learning_work, with_deflation
from engine.studies.cap_metrics import COSTS, arm_metrics, tokens_apart
from engine.studies.cap_pairs import comparative_rows, pairs_of
from engine.studies.cap_plan import check_settings
from engine.studies.cap_screen import guard_of, screening_work, with_fitted
from engine.studies.cap_standards import Found, find_standards
from engine.studies.cap_sweep import SIDES, alphas_of, sweep
from engine.studies.cap_tutor import Tutor
from engine.studies.manifest import about_data, about_judge, ending
from engine.studies.plan import within


def load_tutor(spec: str, settings: Settings, *, cache: bool = True) -> Tutor:
    """The tutor a spec names; `bundled:base` is shared with the defenses that ask it.

    Raises:
        InputError: the spec names no model, one behind a server, or one without a chat template.
        ModelError: it is no causal language model with layers that can be found.
    """
    if spec.startswith(API):
        raise InputError(
            f"The tutor {spec} is behind a server and shows no activations, so it cannot be steered. It can write the "
            f"anchors of W-CAP: judgescope study grid --defense none --defense wcap --tutor {spec}."
        )
    loaded = base_loader(settings)() if spec == TUTOR else load_model(spec, settings)
    blocks(loaded)
    if not getattr(loaded.tokenizer, "chat_template", None):
        raise InputError(
            f"The tutor {spec} has no chat template, so it cannot be asked for a text of good or poor quality. Choose "
            f"a model that was trained to follow instructions, for example {TUTOR}."
        )
    return Tutor(loaded, CallCache(settings.calls) if cache else None)


def cap_job(config: CapConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """The study as a job of the worker."""
    dataset = load_dataset(config.data, settings.datasets)
    run = create_run(settings.runs, "cap", config.model_dump(), config.run_id)
    run_cap(
        config,
        dataset,
        make_judge(config.judge, settings),
        load_tutor(config.tutor, settings),
        run,
        settings,
        checkpoint,
    )
    return {"run_id": run.run_id}


def run_cap(
    config: CapConfig,
    dataset: Dataset,
    judge: Judge,
    tutor: Tutor,
    run: RunFolder,
    settings: Settings,
    checkpoint: Checkpoint,
) -> dict[str, Any]:
    """Run all parts, writing each part's tables as it ends; returns the summary that `--json` prints.

    Raises:
        InputError: a setting that judge, tutor or data cannot have, too few contexts, too little contrast, or too few
            retained texts; each with the remedy.
        Cancelled: from the checkpoint; finished parts are kept and the run is marked stopped.
    """
    checkpoint = within(config.budget_seconds, checkpoint)
    if config.deflate:
        config = config.model_copy(update={"attacks": with_deflation(config.attacks)})
    contexts = divide(config, dataset)
    _describe(run, dataset, judge, tutor, contexts)
    work = expected_work(config, contexts) + learning_work(config) + screening_work(config, contexts, dataset)
    progress = Progress(checkpoint, work)
    with ending(run):
        check_settings(config, dataset, judge, tutor, settings)
        anchors = _steer(config, contexts, dataset, judge, tutor, run, settings, progress)
        learned = learn_suffixes(config, contexts, dataset, judge, anchors.by_item, run, progress)
        config = config.model_copy(update={"attacks": (*config.attacks, *learned)})
        _judge(config, contexts, dataset, judge, tutor, run, anchors, settings, progress)
    run.update_manifest(state="done", finished=now())
    return summary(run)


def _steer(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    judge: Judge,
    tutor: Tutor,
    run: RunFolder,
    settings: Settings,
    progress: Progress,
) -> AnchorSets:
    """From the pools to the anchors; each table is written as it is known."""
    found = find_standards(config, contexts.training, tutor, judge, progress)
    _write_standards(run, found)
    alphas = alphas_of(config, found.standards, found.prompts_end)
    swept = sweep(config, contexts.training, tutor, judge, found.standards, alphas, progress)
    run.write_table("cap_sweep", swept)
    standard: dict[Side, float] = {"high": found.thresholds.high, "low": found.thresholds.low}
    chosen = {side: _choose(swept, side, standard[side]) for side in SIDES}
    _note(run, found, chosen)
    anchors = make_anchors(config, contexts, dataset, tutor, judge, found.standards, chosen, settings, progress)
    run.write_table("cap_anchors", anchors.table)
    return anchors


def _judge(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    judge: Judge,
    tutor: Tutor,
    run: RunFolder,
    anchors: AnchorSets,
    settings: Settings,
    progress: Progress,
) -> None:
    """Every arm; verdicts and metrics are written after each defense, so that a stopped run has what is done."""
    guard = guard_of(tutor, judge)
    part = progress.part(screening_work(config, contexts, dataset))
    defenses, fitted = with_fitted(config, contexts, dataset, guard, part)
    run.update_manifest(perplexity={"guard": tutor.loaded.spec, "fitted": fitted})
    config = config.model_copy(update={"defenses": defenses})
    writer = reasoner_of(config, judge, lambda: _base(config, tutor, settings))
    arms = arms_of(config, judge, anchors, writer, guard)
    verdicts = metrics = pd.DataFrame()
    apart: dict[str, dict[str, float]] = {}
    for verdicts in judge_arms(config, contexts.responses, arms.judges, progress):
        run.write_table("verdicts", verdicts)
        name = str(verdicts["defense"].iloc[-1])
        apart[name] = tokens_apart(name, arms, verdicts[verdicts["defense"] == name], contexts.responses, tutor)
        metrics = arm_metrics(config, verdicts, dataset, anchors, contexts, apart)
        run.write_table("metrics", metrics)
    pairs = pairs_of(contexts.responses, judge)
    part = progress.part(2 * (1 + len(config.attacks)) * len(pairs))
    beside = pd.DataFrame(comparative_rows(config, pairs, judge, verdicts, part))
    if len(beside):
        run.write_table("metrics", METRICS.conform(pd.concat([metrics, beside], ignore_index=True)))


def _base(config: CapConfig, tutor: Tutor, settings: Settings) -> Tutor:
    """The bundled base model, which is the bundled judge with its adapter off; kept or not as the tutor's texts are."""
    return tutor if config.tutor == TUTOR else load_tutor(TUTOR, settings, cache=tutor.cache is not None)


def _choose(swept: pd.DataFrame, side: Side, standard: float) -> Chosen:
    own = swept[swept["side"] == side]
    return nearest_alpha(own["alpha"].to_numpy(), own["score"].to_numpy(dtype=float), standard, side)


def _describe(run: RunFolder, dataset: Dataset, judge: Judge, tutor: Tutor, contexts: Contexts) -> None:
    run.update_manifest(
        data=about_data(dataset, len(contexts.evaluation), len(contexts.responses))
        | {"n_training_items": len(contexts.training)},
        judge=about_judge(judge, judge.labels(contexts.responses[0]), contexts.responses[:1]),
        tutor={"spec": tutor.loaded.spec, "fingerprint": tutor.loaded.fingerprint, "layers": len(blocks(tutor.loaded))},
    )


def _write_standards(run: RunFolder, found: Found) -> None:
    run.write_table("cap_texts", found.texts)
    run.write_table("cap_layers", found.layers)
    run.write_table("cap_points", found.points)
    vectors = {
        "layer": [found.standards.layer],
        "high": [found.standards.high.tolist()],
        "low": [found.standards.low.tolist()],
        "mean_norm": [found.standards.mean_norm],
    }
    run.write_table("cap_vectors", pd.DataFrame(vectors))
    _note(run, found)


def _note(run: RunFolder, found: Found, chosen: dict[Side, Chosen] | None = None) -> None:
    run.update_manifest(
        cap={
            "layer": found.standards.layer,
            "best_layer": found.best_layer,
            "separated": found.separated,
            "standard_high": found.thresholds.high,
            "standard_low": found.thresholds.low,
            **{f"alpha_{side}": chosen[side].alpha if chosen else None for side in SIDES},
            "chosen": {s: {"n": one.n, "of": one.of, "enough": one.enough} for s, one in (chosen or {}).items()},
            "mean_norm": found.standards.mean_norm,
            "common_cosine": _cosine(found.standards.high, found.standards.low),
            "prompts_end": np.round(found.prompts_end, 4).tolist(),
        }
    )


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def summary(run: RunFolder) -> dict[str, Any]:
    """What `judgescope study cap --json` prints, read back from the run's tables."""
    cap, metrics = run.manifest()["cap"], run.table("metrics")
    layers = run.table("cap_layers")
    pca = layers[layers["space"] == "pca"].sort_values("layer")
    relative, distance = (
        {(r["attack"], r["defense"]): r["value"] for r in _rows(metrics, metric)}
        for metric in ("relative_shift", FROM_UNDEFENDED)
    )
    arms = [
        {
            "attack": r["attack"],
            "defense": r["defense"],
            "n": int(r["n"]),
            "n_unread": int(r["n_unread"]),
            "shift": r["value"],
            "shift_lower": r["lower"],
            "shift_upper": r["upper"],
            "relative_shift": relative.get((r["attack"], r["defense"])),
            "from_undefended": distance.get((r["attack"], r["defense"])),
        }
        for r in _rows(metrics, "shift")
    ]

    def per_defense(metric: str) -> dict[str, float]:
        return {r["defense"]: float(r["value"]) for r in _rows(metrics, metric) if r["attack"] == NONE}

    def cost_of(name: str) -> dict[str, float | None]:
        found = {metric: per_defense(metric).get(name) for metric in COSTS}
        return {"tokens": found["tokens_alone"], "seconds": found["seconds_alone"], **found}

    return {
        "run_id": run.run_id,
        **{k: cap[k] for k in ("best_layer", "layer", "separated", "alpha_high", "alpha_low")},
        **{k: cap[k] for k in ("standard_high", "standard_low")},
        "alphas": {side: _alpha_read(run.table("cap_sweep"), side, cap[f"alpha_{side}"]) for side in SIDES},
        "perplexity": run.manifest().get("perplexity"),
        "learned": run.manifest().get("learned", []),
        "separability": pca["value"].tolist(),
        "arms": arms,
        "spearman": per_defense("spearman"),
        "cost": {name: cost_of(name) for name in per_defense("tokens_alone")},
        "anchor_gap": per_defense("anchor_gap"),
        "anchor_effect": per_defense("anchor_effect"),
        "comparative": [_comparative(metrics, r["attack"]) for r in _rows(metrics, "comparative_shift")],
    }


def _alpha_read(swept: pd.DataFrame, side: Side, alpha: float) -> dict[str, Any]:
    """The chosen alpha of a side: its texts' mean score and standard deviation, and how many were read."""
    scores = swept.loc[(swept["side"] == side) & (swept["alpha"] == alpha), "score"]
    n = int(scores.notna().sum())
    enough = n >= LEAST_READ * len(scores)
    counts = {"n": n, "n_unread": len(scores) - n, "enough_read": enough}
    return {"alpha": alpha, "mean": float(scores.mean()), "sd": float(scores.std(ddof=1)), **counts}


def _comparative(metrics: pd.DataFrame, attack: str) -> dict[str, Any]:
    """One attack's shift of a preference and of a score, each in units of its clean standard deviation."""
    own = metrics[(metrics["attack"] == attack) & (metrics["defense"] == NONE)].set_index("metric")["value"]
    names = ("comparative_shift", "comparative_shift_sd", "absolute_shift_sd")
    return {"attack": attack, **{name: float(own[name]) for name in names}}


def _rows(metrics: pd.DataFrame, metric: str) -> list[dict[str, Any]]:
    own = metrics[metrics["metric"] == metric]
    return [{str(k): v for k, v in row.items()} for row in own.to_dict("records")]
