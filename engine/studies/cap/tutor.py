"""The tutor of a CAP run: its prompts and texts, the standards made of them, and the texts steered to those."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.core.cache import CallCache, reply_key
from engine.core.errors import InputError, LocalError
from engine.core.schema import Task
from engine.core.settings import Settings
from engine.defenses.anchors import anchor_prompt, new_tokens_of
from engine.defenses.base import AfterBatch
from engine.defenses.guard import base_loader
from engine.defenses.writing import TUTOR
from engine.defenses.writing import Written as Reply
from engine.inference.chat import encode_text
from engine.inference.llama import Row
from engine.inference.loading import LoadedModel, load_model
from engine.judges.api_spec import PREFIX as API
from engine.judges.base import Checkpoint, Cost, Judge, Request
from engine.runs.folder import RunFolder
from engine.stats.projection import pca, umap_map
from engine.steering.activations import blocks, last_activations
from engine.steering.decode import decode, prompt_ids, repetition, text_perplexities
from engine.steering.references import Thresholds, anchor_key, degraded, retained, thresholds_of
from engine.steering.separability import Bools, LayerSeparability, by_layer, halves
from engine.steering.vectors import (
    LEAST_TEXTS,
    SIDES,
    Edit,
    Floats,
    Side,
    Standards,
    alphas_reaching,
    edit_of,
    standards_of,
)
from engine.studies.cap.contexts import Progress, with_text
from engine.studies.cap.study import CapConfig

_WHAT: Mapping[Task, tuple[str, str, str]] = {
    Task.SUMMARY: ("article", "summary of it", "two or three sentences"),
    Task.DIALOGUE: ("conversation", "next reply", "one or two sentences"),
}
_OTHER = ("request", "answer to it", "a few sentences")


def plain_prompt(request: Request) -> str:
    """The request for a candidate, without a word on quality; the prompt that steered anchors answer too."""
    source, what, length = _WHAT.get(request.task, _OTHER)
    return (
        f"Here is the {source}:\n\n{request.context}\n\nWrite the {what}. Write {length} and nothing else: no comment, "
        "no title, no quotes."
    )


def prompt_of(request: Request, source: str) -> str:
    """The prompt of a way of asking: plain, good or poor (W-CAP's two)."""
    if source in {"good", "poor"}:
        return anchor_prompt(request, "high" if source == "good" else "low")
    return plain_prompt(request)


@dataclass(frozen=True)
class Ask:
    """One text to be written.

    Attributes:
        ids: the prompt.
        row: temperature and seed; its prompt number is set when the batch is made.
        key: of the cache.
    """

    ids: tuple[int, ...]
    row: Row
    key: str


@dataclass(frozen=True)
class Draft:
    """A text of the tutor and its cost this time.

    Attributes:
        relative_edit: mean over its tokens; 0 where it was not steered.
        tokens: prompt and written tokens, whether or not it was known.
        seconds: its share of the batch [s]; 0 where it was known.
    """

    text: str
    relative_edit: float
    tokens: int
    seconds: float


class Tutor:
    """A causal language model that writes candidates and anchors, steered or not; texts are kept by content.

    Attributes:
        loaded: the model.
        cache: where texts are kept between runs; None keeps none.
    """

    def __init__(self, loaded: LoadedModel, cache: CallCache | None) -> None:
        self.loaded, self.cache = loaded, cache

    def ids(self, prompt: str) -> tuple[int, ...]:
        """Token ids of a prompt."""
        return tuple(prompt_ids(self.loaded, prompt))

    def drawn(self, prompt: str, temperature: float, seed: int, limit: int) -> Ask:
        """An unsteered text at a temperature."""
        ids = self.ids(prompt)
        key = reply_key(f"{self.loaded.fingerprint}-draw-{temperature:g}-{seed}", ids, limit)
        return Ask(ids, Row(0, temperature, seed), key)

    def write(self, asks: Sequence[Ask], limit: int, edit: Edit | None, checkpoint: Checkpoint) -> list[Draft]:
        """Write the texts that are not known yet; `edit` has one row for each ask.

        Raises:
            InputError: a prompt does not fit the tutor's window.
            ModelError: the tutor gave NaN.
        """
        known = self._known([ask.key for ask in asks])
        todo = list({ask.key: k for k, ask in enumerate(asks) if ask.key not in known}.values())
        prompts = list(dict.fromkeys(asks[k].ids for k in todo))
        place = {ids: i for i, ids in enumerate(prompts)}
        rows = [Row(place[asks[k].ids], asks[k].row.temperature, asks[k].row.seed) for k in todo]
        clock = time.perf_counter()
        total = len(asks)
        written = decode(
            self.loaded,
            prompts,
            rows,
            limit,
            edit.rows(todo) if edit else None,
            after_batch=lambda done: checkpoint(total - len(todo) + done, total),
        )
        share = (time.perf_counter() - clock) / max(1, len(todo))
        fresh = {asks[k].key: w for k, w in zip(todo, written, strict=True)}
        if self.cache:
            self.cache.put_replies(
                (key, (json.dumps({"text": w.text, "edit": w.relative_edit}), len(w.ids))) for key, w in fresh.items()
            )
        out, charged = [], set()
        for ask in asks:
            if ask.key in fresh:
                w = fresh[ask.key]
                text, edit_size, n = w.text, w.relative_edit, len(w.ids)
            else:
                text, edit_size, n = known[ask.key]
            seconds = share if ask.key in fresh and ask.key not in charged else 0.0
            charged.add(ask.key)
            out.append(Draft(text, edit_size, len(ask.ids) + n, seconds))
        checkpoint(total, total)
        return out

    def unknown(self, asks: Sequence[Ask]) -> list[Ask]:
        """Those that are not kept yet, each once."""
        known = self._known([ask.key for ask in asks])
        return list({ask.key: ask for ask in asks if ask.key not in known}.values())

    def _known(self, keys: Sequence[str]) -> dict[str, tuple[str, float, int]]:
        if not self.cache:
            return {}
        known = {}
        for key, (packed, n) in self.cache.get_replies(list(dict.fromkeys(keys))).items():
            held = json.loads(packed)
            known[key] = (str(held["text"]), float(held["edit"]), n)
        return known


class TutorWriter:
    """The tutor as the writer of reasoning and prompted anchors: greedily, in the batched decode loop.

    Attributes:
        tokens: of each prompt written to so far, prompt and text together, known or not.
    """

    def __init__(self, tutor: Tutor) -> None:
        self._tutor = tutor
        self.tokens: dict[str, int] = {}

    def write(self, prompts: Sequence[str], new_tokens: int, after_batch: AfterBatch) -> list[Reply]:
        """The tutor's text to each prompt; of equal prompts the first has the cost, known or not."""
        asks = [self._tutor.drawn(prompt, 0.0, 0, new_tokens) for prompt in prompts]
        drafts = self._tutor.write(asks, new_tokens, None, lambda _done, _total: after_batch())
        charged: set[str] = set()
        out = []
        for prompt, ask, draft in zip(prompts, asks, drafts, strict=True):
            first = prompt not in charged
            fresh = first and draft.seconds > 0
            charged.add(prompt)
            self.tokens[prompt] = draft.tokens
            passes = float(max(1, draft.tokens - len(ask.ids)))
            cost = (draft.tokens if first else 0, passes if fresh else 0.0, draft.seconds if fresh else 0.0)
            out.append(
                Reply(draft.text, *cost, unread="" if draft.text else f"{self._tutor.loaded.spec} wrote nothing")
            )
        return out

    def cost(self, prompts: Sequence[str], new_tokens: int) -> Cost:
        """Distinct prompts with the longest texts they may get, known or not."""
        ids = {self._tutor.ids(prompt) for prompt in prompts}
        return Cost(len(ids), sum(len(one) + new_tokens for one in ids), 0)


def limit_of(task: Task, wanted: int | None) -> int:
    """Longest text in tokens: the study's setting, or the task's (dialogue 64, summary 128)."""
    return wanted or new_tokens_of(task)


def load_tutor(spec: str, settings: Settings, *, cache: bool = True) -> Tutor:
    """The tutor a spec names; `bundled:base` is shared with the defenses that ask it.

    Raises:
        InputError: the spec names no model, one behind a server, or one without a chat template.
        ModelError: it is no causal language model, or its layers are in no known place.
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


# Standards: pools, thresholds, activations, separability, layer, vectors.

RECIPE: tuple[tuple[str, float], ...] = (
    ("plain", 0.7), ("plain", 1.0), ("good", 0.7), ("poor", 1.0), ("plain", 1.4), ("degraded", 0.7),
)  # fmt: skip
"""Prompts and temperatures of a context's candidates, repeated: a pool of one temperature alone has little contrast."""
PLAIN: tuple[tuple[str, float], ...] = (("plain", 0.7), ("plain", 1.0))
"""As paper 001 asks: no word on quality, nothing degraded."""
DEGRADED = "degraded"
WRITTEN = "pca-written"
"""Space of the separability after PCA of the texts that the tutor wrote, those degraded by a rule left out."""


NEARER = (0.0, 0.25, 0.5, 0.75, 0.9)
"""Parts of the way to the median that both percentiles move, one after the other, while a side has too few texts."""


@dataclass(frozen=True)
class Sides:
    """The second pool divided by thresholds of the first.

    Attributes:
        thresholds: scores of both standards.
        high, low: candidates of each side (n,).
        high_percentile, low_percentile: those used; nearer to 50 than the study's where it would have too few texts.
        whole_contexts: contexts, and not single texts, are dealt to the fitting and the evaluated half.
    """

    thresholds: Thresholds
    high: NDArray[np.bool_]
    low: NDArray[np.bool_]
    high_percentile: float
    low_percentile: float
    whole_contexts: bool


def sides_of(first: Floats, second: Floats, contexts: NDArray[Any], config: CapConfig) -> Sides:
    """Divide the second pool by the first one's percentiles, moved towards the median while a side is too small.

    Args:
        first: scores of the first pool, NaN unread.
        second: scores of the second pool (n,).
        contexts: of the second pool (n,).
        config: percentiles and seed.

    Raises:
        InputError: too little contrast, or too few texts of a side at every percentile; with the remedy.
    """
    by_texts: Sides | None = None
    found: list[Sides] = []
    for part in NEARER:
        high_at, low_at = (p + part * (50 - p) for p in (config.high_percentile, config.low_percentile))
        try:
            thresholds = thresholds_of(first, high_at, low_at)
        except InputError:
            if not found:
                raise
            break
        high, low = retained(second, thresholds)
        found.append(Sides(thresholds, high, low, high_at, low_at, True))
        if min(int(high.sum()), int(low.sum())) < LEAST_TEXTS:
            continue
        kept = high | low
        try:
            halves(contexts[kept], high[kept], config.seed)
        except InputError:  # a judge that likes one context's texts leaves contexts with one side alone
            by_texts = by_texts or replace(found[-1], whole_contexts=False)
            continue
        return found[-1]
    if by_texts:
        return by_texts
    _require_enough(int(found[-1].high.sum()), int(found[-1].low.sum()), len(second))
    raise AssertionError("unreachable: a side has too few texts")


@dataclass(frozen=True)
class Trained:
    """Thresholds, vectors and layer, from the training contexts alone.

    Attributes:
        texts: table `cap_texts`.
        thresholds: from the first pool.
        standard: how the second pool was divided.
        layers: table `cap_layers`.
        points: table `cap_points`.
        standards: of the chosen layer.
        prompts_end: activations of the chosen layer at the end of each training prompt (n, d), where edits begin.
        best_layer: highest separability after PCA on the fitting half.
        separated: the chosen layer's value on the other half exceeds its permutation null.
    """

    texts: pd.DataFrame
    thresholds: Thresholds
    standard: Sides
    layers: pd.DataFrame
    points: pd.DataFrame
    standards: Standards
    prompts_end: Floats
    best_layer: int
    separated: bool


def find_standards(
    config: CapConfig, contexts: Sequence[Request], tutor: Tutor, judge: Judge, progress: Progress
) -> Trained:
    """Everything up to the standard vectors, from training contexts alone.

    Raises:
        InputError: too little contrast, too few retained texts, or contexts that do not fit; each with the remedy.
    """
    first = _pool(config, contexts, 1, tutor, judge, progress)
    thresholds_of(first["score"].to_numpy(), config.high_percentile, config.low_percentile)
    second = _pool(config, contexts, 2, tutor, judge, progress)
    sides = sides_of(first["score"].to_numpy(), second["score"].to_numpy(), second["item_id"].to_numpy(), config)
    second["side"] = [("high" if h else "low" if lo else None) for h, lo in zip(sides.high, sides.low, strict=True)]
    by_item = {r.item_id: tutor.ids(prompt_of(r, "plain")) for r in contexts}
    kept = second[second["side"].notna()].reset_index(drop=True)
    rows = [
        (*by_item[item], *encode_text(tutor.loaded.tokenizer, text))
        for item, text in zip(kept["item_id"], kept["text"], strict=True)
    ]
    activations = last_activations(tutor.loaded, rows)
    ends = last_activations(tutor.loaded, list(by_item.values()))
    is_high, groups = (kept["side"] == "high").to_numpy(), kept["item_id"].to_numpy()
    fit = halves(groups if sides.whole_contexts else np.arange(len(kept)), is_high, config.seed)
    spaces = by_layer(
        activations, is_high, groups, components=config.components, seed=config.seed, level=config.level, fit=fit
    )
    best = int(np.nanargmax(spaces["pca"].fitted)) + 1
    written = _written_only(config, activations, is_high, groups, fit, (kept["source"] != DEGRADED).to_numpy())
    layer = config.layer or best
    standards = standards_of(activations[layer - 1], is_high, layer)
    kept["half"] = np.where(fit, "fitted", "evaluated")
    kept = _with_map(kept, activations[layer - 1], config.seed)
    texts = pd.concat([first, second[second["side"].isna()], kept], ignore_index=True)
    chosen = spaces["pca"]
    return Trained(
        texts=texts,
        thresholds=sides.thresholds,
        standard=sides,
        layers=_layer_table([*spaces.values(), *written]),
        points=_points(kept, activations),
        standards=standards,
        prompts_end=ends[layer - 1].astype(np.float64),
        best_layer=best,
        separated=bool(chosen.value[layer - 1] > chosen.null_high[layer - 1]),
    )


def _written_only(
    config: CapConfig,
    activations: NDArray[np.floating[Any]],
    is_high: Bools,
    groups: NDArray[Any],
    fit: Bools,
    written: Bools,
) -> list[LayerSeparability]:
    """Separability without the degraded texts, which differ from the others by corruption and not by standard.

    The halves stay. Empty where no text was degraded, or where too few are left.
    """
    sides = [(half & side & written).sum() for half in (fit, ~fit) for side in (is_high, ~is_high)]
    if written.all() or min(sides) < 2:
        return []
    try:
        found = by_layer(
            activations[:, written], is_high[written], groups[written], components=config.components,
            seed=config.seed, level=config.level, fit=fit[written],
        )  # fmt: skip
    except InputError:
        return []
    return [replace(found["pca"], space=WRITTEN)]


def _pool(
    config: CapConfig, contexts: Sequence[Request], pool: int, tutor: Tutor, judge: Judge, progress: Progress
) -> pd.DataFrame:
    """One pool: candidates of every context, and the undefended judge's scores of them."""
    limit = limit_of(contexts[0].task, config.new_tokens)
    wanted, seeds, asks = pool_asks(config, contexts, pool, tutor)
    step = f"The tutor writes candidates, pool {pool} of 2"
    drafts = [d.text for d in tutor.write(asks, limit, None, progress.part(len(asks), step))]
    texts = [
        degraded(text, drafts[(i + config.candidates) % len(drafts)], seed) if source == DEGRADED else text
        for i, (text, seed, (_, _, source, _)) in enumerate(zip(drafts, seeds, wanted, strict=True))
    ]
    requests = [replace(q, defense="none") for q in with_text([r for r, *_ in wanted], texts)]
    read = [bool(text) for text in texts]
    part = progress.part(len(requests), f"The judge scores candidates, pool {pool} of 2")
    verdicts = iter(judge.judge([q for q, ok in zip(requests, read, strict=True) if ok], part))
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


def pool_asks(
    config: CapConfig, contexts: Sequence[Request], pool: int, tutor: Tutor
) -> tuple[list[tuple[Request, int, str, float]], list[int], list[Ask]]:
    """The candidates of a pool: context, number, way of asking and temperature; seeds; what the tutor is asked."""
    limit = limit_of(contexts[0].task, config.new_tokens)
    recipe = RECIPE if config.pool == "contrast" else PLAIN
    wanted = [(r, k, *recipe[k % len(recipe)]) for r in contexts for k in range(config.candidates)]
    seeds = [_seed(config.seed, pool, r.item_id, k) for r, k, _, _ in wanted]
    asks = [
        tutor.drawn(prompt_of(r, "plain" if source == DEGRADED else source), heat, seed, limit)
        for (r, _, source, heat), seed in zip(wanted, seeds, strict=True)
    ]
    return wanted, seeds, asks


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


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
    for space in spaces:
        columns = {
            name: getattr(space, name)
            for name in ("fitted", "value", "lower", "upper", "null_mean", "null_high", "p_value")
        }
        part = pd.DataFrame(columns)
        part.insert(0, "layer", np.arange(1, len(part) + 1))
        parts.append(part.assign(space=space.space, n_high=space.n_high, n_low=space.n_low))
    return pd.concat(parts, ignore_index=True)


def _points(kept: pd.DataFrame, activations: np.ndarray) -> pd.DataFrame:
    parts = []
    for layer, x in enumerate(activations, start=1):
        points = pca(x, 2).points
        parts.append(pd.DataFrame({"text_id": kept["text_id"], "layer": layer, "x": points[:, 0], "y": points[:, 1]}))
    return pd.concat(parts, ignore_index=True)


def _with_map(kept: pd.DataFrame, x: np.ndarray, seed: int) -> pd.DataFrame:
    try:
        points = umap_map(x, seed=seed, neighbours=min(15, len(x) - 1))
    except LocalError:  # the page then shows PCA alone
        points = np.full((len(x), 2), np.nan)
    return kept.assign(umap_x=points[:, 0], umap_y=points[:, 1])


# Steered texts: alphas x directions x training contexts, and the anchors of every context.


def alphas_of(config: CapConfig, standards: Standards, prompts_end: np.ndarray) -> dict[Side, list[float]]:
    """The strengths to try on each side: 0, those named, and those that reach the wanted relative edits.

    Args:
        config: the study.
        standards: of the chosen layer.
        prompts_end: activations (n, d) where edits begin, which decide how large an edit an alpha makes.
    """
    return {
        side: sorted({0.0, *config.alphas, *alphas_reaching(prompts_end, standards, side, config.reach, config.form)})
        for side in SIDES
    }


def steered_texts(
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    rows: Sequence[tuple[Request, Side, float]],
    config: CapConfig,
    checkpoint: Checkpoint,
) -> list[Draft]:
    """A steered text for each row, all in batches of one decode; known ones come from the cache."""
    limit = limit_of(rows[0][0].task, config.new_tokens)
    asks = []
    for request, side, alpha in rows:
        ids = tutor.ids(plain_prompt(request))
        key = anchor_key(
            tutor.loaded.fingerprint, judge.fingerprint, ids, side, standards, alpha, config.form, config.seed, limit
        )
        asks.append(Ask(ids, Row(0), key))
    edit = edit_of(standards, [(side, alpha) for _, side, alpha in rows], config.form)
    return tutor.write(asks, limit, edit, checkpoint)


def sweep(
    config: CapConfig,
    contexts: Sequence[Request],
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    alphas: dict[Side, list[float]],
    progress: Progress,
) -> pd.DataFrame:
    """The sweep as a table `cap_sweep`: every text with the undefended judge's score and the fluency meters."""
    rows = [(r, side, alpha) for side, tried in alphas.items() for alpha in tried for r in contexts]
    part = progress.part(len(rows), "The tutor is steered: texts at every alpha")
    drafts = steered_texts(tutor, judge, standards, rows, config, part)
    texts = [draft.text for draft in drafts]
    asked = [k for k, text in enumerate(texts) if text]
    requests = with_text([r for r, *_ in rows], texts)
    part = progress.part(len(rows), "The judge scores the steered texts")
    verdicts = dict(zip(asked, judge.judge([requests[k] for k in asked], part), strict=True))
    perplexity = text_perplexities(tutor.loaded, texts)
    return pd.DataFrame(
        [
            {
                "side": side,
                "form": config.form,
                "layer": standards.layer,
                "alpha": alpha,
                "item_id": request.item_id,
                "text": draft.text,
                "score": verdicts[k].score if k in verdicts else np.nan,
                "unread_reason": (verdicts[k].unread_reason or None) if k in verdicts else "the tutor wrote nothing",
                "relative_edit": draft.relative_edit,
                "perplexity": perplexity[k],
                "repetition": repetition(draft.text),
                "words": len(draft.text.split()),
            }
            for k, ((request, side, alpha), draft) in enumerate(zip(rows, drafts, strict=True))
        ]
    )


def stored_standards(run: RunFolder) -> Standards:
    """The standard vectors of a run.

    Raises:
        InputError: it has none.
    """
    table = run.table("cap_vectors")
    if table.empty:
        raise InputError(f"The run {run.run_id} has no standard vectors. Run the study again.")
    row = table.iloc[0]
    return Standards(int(row["layer"]), np.array(row["high"]), np.array(row["low"]), float(row["mean_norm"]))
