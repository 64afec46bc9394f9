"""First part of the study `cap`: pools, thresholds, activations, separability, layer, standard vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.errors import InputError
from engine.judges.base import Judge, Request
from engine.models.chat import encode_text
from engine.projection import pca, umap_map
from engine.steering.activations import last_activations
from engine.steering.references import Thresholds, degraded, retained, thresholds_of
from engine.steering.separability import LayerSeparability, by_layer, halves
from engine.steering.vectors import LEAST_TEXTS, Floats, Standards, standards_of
from engine.studies.cap_config import CapConfig, Progress, with_text
from engine.studies.cap_tutor import Tutor, limit_of, prompt_of

RECIPE: tuple[tuple[str, float], ...] = (
    ("plain", 0.7), ("plain", 1.0), ("good", 0.7), ("poor", 1.0), ("plain", 1.4), ("degraded", 0.7),
)  # fmt: skip
"""How the candidates of a context are asked for, over and over: a pool of one temperature alone has little contrast."""


@dataclass(frozen=True)
class Found:
    """What the training contexts gave.

    Attributes:
        texts: table `cap_texts`.
        thresholds: from the first pool.
        layers: table `cap_layers`.
        points: table `cap_points`.
        standards: of the chosen layer.
        prompts_end: activations of the chosen layer at the end of each training prompt (n, d), where edits begin.
        best_layer: highest separability after PCA on the fitting half.
        separated: whether the chosen layer's value on the other half exceeds its permutation null.
    """

    texts: pd.DataFrame
    thresholds: Thresholds
    layers: pd.DataFrame
    points: pd.DataFrame
    standards: Standards
    prompts_end: Floats
    best_layer: int
    separated: bool


def find_standards(
    config: CapConfig, contexts: Sequence[Request], tutor: Tutor, judge: Judge, progress: Progress
) -> Found:
    """Everything up to the standard vectors, from training contexts alone.

    Raises:
        InputError: too little contrast, too few retained texts, or contexts that do not fit; each with the remedy.
    """
    first = _pool(config, contexts, 1, tutor, judge, progress)
    thresholds = thresholds_of(first["score"].to_numpy(), config.high_percentile, config.low_percentile)
    second = _pool(config, contexts, 2, tutor, judge, progress)
    high, low = retained(second["score"].to_numpy(), thresholds)
    second["side"] = [("high" if h else "low" if lo else None) for h, lo in zip(high, low, strict=True)]
    _require_enough(int(high.sum()), int(low.sum()), len(second))
    by_item = {r.item_id: tutor.ids(prompt_of(r, "plain")) for r in contexts}
    own = second[second["side"].notna()].reset_index(drop=True)
    rows = [(*by_item[item], *_text_ids(tutor, text)) for item, text in zip(own["item_id"], own["text"], strict=True)]
    activations = last_activations(tutor.loaded, rows)
    ends = last_activations(tutor.loaded, list(by_item.values()))
    is_high, groups = (own["side"] == "high").to_numpy(), own["item_id"].to_numpy()
    spaces = by_layer(activations, is_high, groups, components=config.components, seed=config.seed, level=config.level)
    best = int(np.nanargmax(spaces["pca"].fitted)) + 1
    layer = config.layer or best
    standards = standards_of(activations[layer - 1], is_high, layer)
    fit = halves(groups, is_high, config.seed)
    own["half"] = np.where(fit, "fitted", "evaluated")
    own = _with_map(own, activations[layer - 1], config.seed)
    texts = pd.concat([first, second[second["side"].isna()], own], ignore_index=True)
    chosen = spaces["pca"]
    return Found(
        texts=texts,
        thresholds=thresholds,
        layers=_layer_table(list(spaces.values())),
        points=_points(own, activations),
        standards=standards,
        prompts_end=ends[layer - 1].astype(np.float64),
        best_layer=best,
        separated=bool(chosen.value[layer - 1] > chosen.null_high[layer - 1]),
    )


def _pool(
    config: CapConfig, contexts: Sequence[Request], pool: int, tutor: Tutor, judge: Judge, progress: Progress
) -> pd.DataFrame:
    """One pool: candidates of every context, and the undefended judge's scores of them."""
    limit = limit_of(contexts[0].task, config.new_tokens)
    wanted = [(r, k, *RECIPE[k % len(RECIPE)]) for r in contexts for k in range(config.candidates)]
    seeds = [_seed(config.seed, pool, r.item_id, k) for r, k, _, _ in wanted]
    asks = [
        tutor.drawn(prompt_of(r, "plain" if source == "degraded" else source), heat, seed, limit)
        for (r, _, source, heat), seed in zip(wanted, seeds, strict=True)
    ]
    drafts = [d.text for d in tutor.write(asks, limit, None, progress.part(len(asks)))]
    texts = [
        degraded(text, drafts[(i + config.candidates) % len(drafts)], seed) if source == "degraded" else text
        for i, (text, seed, (_, _, source, _)) in enumerate(zip(drafts, seeds, wanted, strict=True))
    ]
    requests = [replace(q, defense="none") for q in with_text([r for r, *_ in wanted], texts)]
    read = [bool(text) for text in texts]
    verdicts = iter(judge.judge([q for q, ok in zip(requests, read, strict=True) if ok], progress.part(len(requests))))
    rows = []
    for (request, k, source, heat), text, ok in zip(wanted, texts, read, strict=True):
        verdict = next(verdicts) if ok else None
        rows.append(
            {
                "text_id": f"p{pool}-{request.item_id}-{k}",
                "pool": pool,
                "item_id": request.item_id,
                "source": source,
                "temperature": heat,
                "text": text,
                "score": verdict.score if verdict else np.nan,
                "unread_reason": (verdict.unread_reason or None) if verdict else "the tutor wrote nothing",
            }
        )
    return pd.DataFrame(rows)


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def _text_ids(tutor: Tutor, text: str) -> list[int]:
    return encode_text(tutor.loaded.tokenizer, text)


def _require_enough(high: int, low: int, n: int) -> None:
    for side, count in (("high", high), ("low", low)):
        if count < LEAST_TEXTS:
            raise InputError(
                f"Of {n} new candidates the judge puts {count} on the {side} side of the thresholds; at least "
                f"{LEAST_TEXTS} are needed. Raise the candidates per context, use more training contexts, or move the "
                "percentiles nearer to 50."
            )


def _layer_table(spaces: Sequence[LayerSeparability]) -> pd.DataFrame:
    parts = []
    for found in spaces:
        columns = {
            name: getattr(found, name)
            for name in ("fitted", "value", "lower", "upper", "null_mean", "null_high", "p_value")
        }
        part = pd.DataFrame(columns)
        part.insert(0, "layer", np.arange(1, len(part) + 1))
        parts.append(part.assign(space=found.space, n_high=found.n_high, n_low=found.n_low))
    return pd.concat(parts, ignore_index=True)


def _points(own: pd.DataFrame, activations: np.ndarray) -> pd.DataFrame:
    parts = []
    for layer, x in enumerate(activations, start=1):
        points = pca(x, 2).points
        parts.append(pd.DataFrame({"text_id": own["text_id"], "layer": layer, "x": points[:, 0], "y": points[:, 1]}))
    return pd.concat(parts, ignore_index=True)


def _with_map(own: pd.DataFrame, x: np.ndarray, seed: int) -> pd.DataFrame:
    try:
        points = umap_map(x, seed=seed, neighbours=min(15, len(x) - 1))
    except ImportError:  # a machine that only computes may lack umap-learn; the page then shows PCA alone
        points = np.full((len(x), 2), np.nan)
    return own.assign(umap_x=points[:, 0], umap_y=points[:, 1])
