"""CAP run as a whole: its cost beforehand, standards, alphas, anchors, learned phrases, and every arm judged.

Also further alphas for a finished run, as its page asks for them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.cards import MAX_NAME, SavedPhrase, parse_attack, save_phrase
from engine.attacks.registry import make_attack
from engine.attacks.suffix_search import BEST_PROBES, PROBES, SearchSettings, SuffixSearch, vocabulary_of
from engine.attacks.suffix_search import Progress as Phrase
from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.anchors import PROMPTED, UNKNOWN_TEXT, AnchoredJudge, Anchors, GivenAnchors, anchor_prompt
from engine.defenses.writing import TUTOR
from engine.judges.base import Checkpoint, Cost, Judge, Paid, Request, no_checkpoint
from engine.judges.registry import make_judge
from engine.runs.folder import LEARNED, RunFolder, now, open_run
from engine.runs.library import find_run
from engine.steering.activations import blocks
from engine.steering.references import Chosen, nearest_alpha
from engine.steering.vectors import SIDES, Side, alphas_reaching
from engine.studies.anchors import sources_for
from engine.studies.cap.arms import (
    AnchorSets,
    arms_of,
    asked_by_arm,
    comparative_rows,
    guard_of,
    judge_arms,
    make_anchors,
    pair_requests,
    pairs_of,
    reasoner_of,
    screening_work,
    tokens_apart,
    training_texts,
    with_fitted,
)
from engine.studies.cap.contexts import Contexts, Progress, check_pool, divide, expected_work, with_text
from engine.studies.cap.metrics import arm_metrics
from engine.studies.cap.study import ANCHORED, CAP, HUMAN, CapConfig, least_candidates
from engine.studies.cap.tutor import (
    Trained,
    Tutor,
    alphas_of,
    find_standards,
    limit_of,
    load_tutor,
    plain_prompt,
    pool_asks,
    stored_standards,
    sweep,
)
from engine.studies.running import (
    about_data,
    about_judge,
    add_up,
    answers_as,
    as_json,
    build_requests,
    ending,
    expense_of,
    unsupported_reason,
    within,
)
from engine.studies.suffix_targets import PromptCutter, inner_judge, spread_over_items

# Suffixes learned on the judge (AdvSuffix, paper 001, section 5.1), as attacks of the run.
#
# A phrase is learned on responses of the training contexts, on the undefended judge and, as a second, stronger arm,
# through CAP; it is judged on the evaluation contexts as every other attack. It is saved as one of the user's phrases.
# Each word is noted in the run as soon as it is known, so that a stopped run goes on behind it.


def with_deflation(attacks: Sequence[str]) -> tuple[str, ...]:
    """The attacks, and for each that has a direction the one that lowers a score: a rival's, under attack."""
    out: dict[str, None] = {}
    for name in attacks:
        out[name] = None
        base, at, place = name.partition("@")
        lowered = f"{base}-deflate{at}{place}"
        try:
            out[parse_attack(lowered).name] = None
        except InputError:
            continue  # it has no direction, or is the deflating one already
    return tuple(out)


def learning_work(config: CapConfig) -> int:
    """Prompts that the searches compute, which `Progress` counts."""
    searches = bool(config.learned_words) * (1 + (config.learned_through_cap and CAP in config.defenses))
    each = 1 + config.learned_words * (config.learned_candidates + PROBES + BEST_PROBES)
    return searches * each * config.learned_prompts


def learn_suffixes(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    judge: Judge,
    anchors: Mapping[str, Mapping[str, Anchors]],
    run: RunFolder,
    progress: Progress,
) -> tuple[str, ...]:
    """Search, save and note each phrase; returns the names of the attacks.

    Args:
        config: numbers of words, candidates and training prompts; 0 words learns nothing.
        contexts: whose training side is learned on.
        dataset: has the responses of the training contexts.
        judge: undefended.
        anchors: by arm and item, for the phrase learned through CAP.
        run: its manifest gets the phrases under `learned`, and holds the words of a stopped run.
        progress: counts every prompt computed.

    Raises:
        InputError: the judge is no white box, or the training contexts have no response, or none has anchors that a
            phrase could be learned through.
    """
    if not config.learned_words:
        return ()
    training = {r.item_id for r in contexts.training}
    responses = [r for r in build_requests(dataset) if r.item_id in training]
    judges: dict[str, Judge] = {NONE: judge}
    asked = {NONE: spread_over_items(responses, config.learned_prompts)}
    if config.learned_through_cap and CAP in config.defenses:
        free = {item: one._replace(tokens=0, passes=0.0, seconds=0.0) for item, one in anchors[CAP].items()}
        judges[CAP] = AnchoredJudge(judge, CAP, GivenAnchors(CAP, free))
        # where the tutor wrote no steered text there is no prompt to learn on
        read = [r for r in responses if r.item_id in free and not free[r.item_id].unread]
        if not read:
            raise InputError(
                f"None of the {len(training)} training contexts has both steered anchors, so no phrase can be learned "
                "through CAP. Leave learned_through_cap out, or use more training contexts."
            )
        asked[CAP] = spread_over_items(read, config.learned_prompts)
    part = learning_work(config) // len(judges)
    notes = _Notes(run, inner_judge(judge).fingerprint)
    for arm, defended in judges.items():
        phrase = _search(config, defended, asked[arm], progress.part(part), part, notes, arm)
        name = phrase_of(run.run_id, arm)
        inner = inner_judge(defended)
        save_phrase(
            SavedPhrase(
                name, phrase.words, phrase.values, inner.spec, inner.fingerprint, "pointwise", arm, dataset.name, now(),
                run.run_id,
            )
        )  # fmt: skip
        notes.write(arm, phrase, attack=parse_attack(f"suffix:{name}:{len(phrase.words)}").name)
    return tuple(str(one["attack"]) for one in run.manifest()[LEARNED])


class _Notes:
    """The phrases in the run's manifest, by arm; those of another judge are dropped."""

    def __init__(self, run: RunFolder, fingerprint: str) -> None:
        self._run, self._fingerprint = run, fingerprint
        before = run.manifest().get(LEARNED, [])
        self._phrases = {one["defense"]: one for one in before if one.get("fingerprint") == fingerprint}
        self._queries = {arm: int(one["queries"]) for arm, one in self._phrases.items()}

    def words(self, arm: str) -> list[str]:
        """The words that a stopped run had so far."""
        return [str(word) for word in self._phrases.get(arm, {}).get("words", [])]

    def write(self, arm: str, phrase: Phrase, attack: str = "") -> None:
        """Note the phrase so far; without the attack's name it is unfinished."""
        queries = phrase.queries + self._queries.get(arm, 0)
        self._phrases[arm] = {
            "attack": attack, "defense": arm, "words": list(phrase.words), "values": [float(v) for v in phrase.values],
            "queries": queries, "fingerprint": self._fingerprint,
        }  # fmt: skip
        self._run.update_manifest(**{LEARNED: list(self._phrases.values())})


def phrase_of(run_id: str, arm: str) -> str:
    """The name of a phrase of a run."""
    tail = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    tail = re.sub(r"^cap-\d{8}-\d{6}-", "", tail)  # of an id that was made here the random part is enough
    return f"cap-{'through-' if arm == CAP else ''}{tail}"[:MAX_NAME].rstrip("-")


def _search(
    config: CapConfig,
    judge: Judge,
    asked: Sequence[Request],
    look: Callable[[int, int], None],
    total: int,
    notes: _Notes,
    arm: str,
) -> Phrase:
    """One phrase, noted word by word."""
    loaded = inner_judge(judge).loaded
    vocabulary = vocabulary_of(loaded.tokenizer)
    cutter = PromptCutter(judge, asked, vocabulary)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done = min(done + more, total)
        look(done, total)

    def progress(phrase: Phrase) -> None:
        if phrase.chosen and phrase.words:
            notes.write(arm, phrase)

    search = SuffixSearch(loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits)
    settings = SearchSettings(config.learned_words, config.learned_candidates, seed=config.seed)
    return search.run(settings, progress, count, notes.words(arm))


# Checks and cost, before anything is written or asked.


def to_the_data(
    config: CapConfig, dataset: Dataset, judge: Judge, settings: Settings
) -> tuple[CapConfig, dict[str, str]]:
    """The settings without what data or judge cannot give, and the reason for each part left out, by its name.

    The quick form gets as many candidates as few contexts need.
    """
    contexts = divide(config, dataset)
    if config.quick:
        least = least_candidates(len(contexts.training))
        config = config.model_copy(update={"candidates": max(config.candidates, least)})
    left_out: dict[str, str] = {}
    anchored = [name for name in config.defenses if name in ANCHORED]
    if anchored and (why := unsupported_reason(judge.labels, _with_anchors(contexts.responses[:1]))):
        left_out |= dict.fromkeys(anchored, why)
    elif HUMAN in anchored:
        try:
            sources_for([HUMAN], dataset, settings)
        except InputError as error:
            left_out[HUMAN] = str(error)
    kept = tuple(name for name in config.defenses if name not in left_out)
    return config.model_copy(update={"defenses": kept}), left_out


def _with_anchors(requests: Sequence[Request]) -> list[Request]:
    return [replace(r, anchor_low="low", anchor_high="high") for r in requests]


def check_settings(config: CapConfig, dataset: Dataset, judge: Judge, tutor: Tutor) -> None:
    """Refuse what would fail only after the tutor has written for minutes.

    Raises:
        InputError: an attack that is not known, a layer the tutor does not have, a suffix to be learned on a judge that
            is no white box, too few candidates, or a judge that has no prompt for these responses.
    """
    for name in config.attacks:
        make_attack(name)
    if config.layer and config.layer > len(blocks(tutor.loaded)):
        raise InputError(
            f"{tutor.loaded.spec} has no layer {config.layer}; its layers are 1 to {len(blocks(tutor.loaded))}."
        )
    if config.learned_words:
        inner_judge(judge)
    contexts = divide(config, dataset)
    check_pool(config, contexts)
    judge.labels(contexts.responses[0])


def plan_cap(config: CapConfig, dataset: Dataset, judge: Judge, tutor: Tutor, settings: Settings) -> dict[str, Any]:
    """Texts, calls and tokens of the study; nothing is written or asked.

    Texts that are not written yet count at their longest; anchors in a judge's prompt count about 50 tokens each.

    Returns:
        JSON-ready. texts and tutor_tokens: of the tutor, prompts and longest texts together, known ones too.
        calls, tokens, known: of the judge and of those who help it, as in `Cost`. learned_prompts: computed by the
        searches for suffixes, at most. steps: the total of the progress. expense: of a judge behind a server.
        left_out: parts that the data cannot give, with the reason.

    Raises:
        InputError: as `check_settings`, or too few contexts.
    """
    if config.deflate:
        config = config.model_copy(update={"attacks": with_deflation(config.attacks)})
    config, left_out = to_the_data(config, dataset, judge, settings)
    check_settings(config, dataset, judge, tutor)
    contexts = divide(config, dataset)
    texts, written, scored = _tutor_part(config, contexts, judge, tutor)
    total = add_up([scored, *_arm_costs(config, contexts, judge, tutor)])
    expense = expense_of(judge, total)
    read = [1 + len(r.response) // 4 for r in training_texts(config, contexts, dataset)]  # as the screens count
    ways = 1 + len(config.attacks)
    return {
        "texts": texts,
        "tutor_tokens": written,
        "calls": total.calls + ways * len(read),
        "tokens": total.tokens + ways * sum(read),
        "known": total.known,
        "learned_prompts": learning_work(config),
        "steps": expected_work(config, contexts) + learning_work(config) + ways * len(read),
        "expense": as_json(expense) if expense else None,
        "left_out": left_out,
    }


PROBE = 8
"""Candidates really written to measure the pace; they are kept, so the run does not write them again."""


def seconds_of(config: CapConfig, dataset: Dataset, judge: Judge, tutor: Tutor, plan: dict[str, Any]) -> float:
    """Seconds that the study takes, from the pace of a few of its own texts and verdicts.

    Texts count at their longest, so this is an upper estimate. NaN for a judge behind a server, which is not asked.

    Args:
        config: the study.
        dataset: its data.
        judge: undefended.
        tutor: it writes `PROBE` candidates.
        plan: from `plan_cap`.
    """
    if plan["expense"]:
        return math.nan
    contexts = divide(config, dataset).training
    asks = [ask for pool in (1, 2) for ask in pool_asks(config, contexts, pool, tutor)[2]]
    fresh, limit = tutor.unknown(asks)[: 1 + PROBE], limit_of(contexts[0].task, config.new_tokens)
    tutor.write(fresh[:1], limit, None, no_checkpoint)  # weights are prepared here, which is no pace
    clock = time.perf_counter()
    tutor.write(fresh[1:], limit, None, no_checkpoint)
    each = (time.perf_counter() - clock) / (len(fresh) - 1) if len(fresh) > 1 else 0.0
    texts = plan["texts"] - len(asks) + len(tutor.unknown(asks))
    one, *probe = build_requests(dataset, limit=1 + PROBE)
    judge.judge([one])
    tokens = judge.cost(probe).tokens
    clock = time.perf_counter()
    judge.judge(probe)
    pace = (time.perf_counter() - clock) / tokens if tokens else 0.0
    return float(each * texts + pace * plan["tokens"])


def _tutor_part(config: CapConfig, contexts: Contexts, judge: Judge, tutor: Tutor) -> tuple[int, int, Cost]:
    """Texts of the pools, the sweep and the anchors, their tokens, and what scoring each of them alone takes."""
    limit = limit_of(contexts.training[0].task, config.new_tokens)
    alphas = len({0.0, *config.alphas}) + sum(size > 0 for size in config.reach)
    training = {r.item_id for r in contexts.training}
    prompted = [arm for arm in config.defenses if arm in PROMPTED]
    texts = tokens = 0
    costs = []
    for request in contexts.every:
        plain = 2 * (CAP in config.defenses) + (2 * (config.candidates + alphas) if request.item_id in training else 0)
        asks = [(plain_prompt(request), plain)]
        asks += [(anchor_prompt(request, side, PROMPTED[arm]), 1) for arm in prompted for side in ("low", "high")]
        written = sum(n for _, n in asks)
        texts += written
        tokens += sum(n * (len(tutor.ids(prompt)) + limit) for prompt, n in asks)
        one = judge.cost(with_text([request], ["word " * limit]))
        paid = Paid(*(written * part for part in one.paid))
        costs.append(Cost(written * one.calls, written * one.tokens, written * one.known, paid))
    return texts, tokens, add_up(costs)


def _arm_costs(config: CapConfig, contexts: Contexts, judge: Judge, tutor: Tutor) -> list[Cost]:
    """The cost of judging every arm, and of the comparative form."""
    shown = {r.item_id: Anchors(UNKNOWN_TEXT, UNKNOWN_TEXT) for r in contexts.every}
    anchors = AnchorSets(dict.fromkeys(ANCHORED, shown), {}, pd.DataFrame())
    writer = reasoner_of(config, judge, lambda: tutor)  # whoever writes the reasoning, its length is the same at most
    arms = arms_of(config, judge, anchors, writer, guard_of(tutor, judge))
    asked = asked_by_arm(config, contexts.responses, arms.judges)
    costs = [arms.judges[name].cost(requests) for name, requests in asked]
    if pairs := pairs_of(contexts.responses, judge):
        costs.append(judge.cost(pair_requests(config, pairs)))
    return costs


def run_cap(
    config: CapConfig,
    dataset: Dataset,
    judge: Judge,
    tutor: Tutor,
    run: RunFolder,
    settings: Settings,
    checkpoint: Checkpoint,
) -> None:
    """Run all parts, writing each part's tables as it ends.

    Raises:
        InputError: a setting that judge, tutor or data cannot have, too few contexts, too little contrast, or too few
            retained texts; each with the remedy.
        Cancelled: from the checkpoint; finished parts are kept and the run is marked stopped.
    """
    checkpoint = within(config.budget_seconds, checkpoint)
    if config.deflate:
        config = config.model_copy(update={"attacks": with_deflation(config.attacks)})
    config, left_out = to_the_data(config, dataset, judge, settings)
    contexts = divide(config, dataset)
    _describe(run, dataset, judge, tutor, contexts, left_out)
    work = expected_work(config, contexts) + learning_work(config) + screening_work(config, contexts, dataset)
    progress = Progress(checkpoint, work, lambda step: run.update_manifest(step=step))
    with ending(run):
        check_settings(config, dataset, judge, tutor)
        anchors = _steer(config, contexts, dataset, judge, tutor, run, settings, progress)
        learned = learn_suffixes(config, contexts, dataset, judge, anchors.by_item, run, progress)
        config = config.model_copy(update={"attacks": (*config.attacks, *learned)})
        _judge(config, contexts, dataset, judge, tutor, run, anchors, settings, progress)
    run.update_manifest(state="done", finished=now())


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
    trained = find_standards(config, contexts.training, tutor, judge, progress)
    _write_standards(run, trained)
    alphas = alphas_of(config, trained.standards, trained.prompts_end)
    swept = sweep(config, contexts.training, tutor, judge, trained.standards, alphas, progress)
    run.write_table("cap_sweep", swept)
    chosen = {side: _choose(swept, side, getattr(trained.thresholds, side)) for side in SIDES}
    _note(run, trained, chosen)
    anchors = make_anchors(config, contexts, dataset, tutor, judge, trained.standards, chosen, settings, progress)
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
    texts = swept[swept["side"] == side]
    return nearest_alpha(texts["alpha"].to_numpy(), texts["score"].to_numpy(dtype=float), standard, side)


def _describe(
    run: RunFolder, dataset: Dataset, judge: Judge, tutor: Tutor, contexts: Contexts, left_out: dict[str, str]
) -> None:
    run.update_manifest(
        left_out=left_out,
        data=about_data(dataset, len(contexts.evaluation), len(contexts.responses))
        | {"n_training_items": len(contexts.training)},
        judge=about_judge(judge, judge.labels(contexts.responses[0]), contexts.responses[:1]),
        tutor={"spec": tutor.loaded.spec, "fingerprint": tutor.loaded.fingerprint, "layers": len(blocks(tutor.loaded))},
    )


def _write_standards(run: RunFolder, trained: Trained) -> None:
    run.write_table("cap_texts", trained.texts)
    run.write_table("cap_layers", trained.layers)
    run.write_table("cap_points", trained.points)
    vectors = {
        "layer": [trained.standards.layer],
        "high": [trained.standards.high.tolist()],
        "low": [trained.standards.low.tolist()],
        "mean_norm": [trained.standards.mean_norm],
    }
    run.write_table("cap_vectors", pd.DataFrame(vectors))
    _note(run, trained)


def _note(run: RunFolder, trained: Trained, chosen: dict[Side, Chosen] | None = None) -> None:
    run.update_manifest(
        cap={
            "layer": trained.standards.layer,
            "best_layer": trained.best_layer,
            "separated": trained.separated,
            "standard_high": trained.thresholds.high,
            "standard_low": trained.thresholds.low,
            "percentiles": [trained.standard.high_percentile, trained.standard.low_percentile],
            "halves": "contexts" if trained.standard.whole_contexts else "texts",
            **{f"alpha_{side}": chosen[side].alpha if chosen else None for side in SIDES},
            "chosen": {s: {"n": one.n, "of": one.of, "enough": one.enough} for s, one in (chosen or {}).items()},
            "mean_norm": trained.standards.mean_norm,
            "common_cosine": _cosine(trained.standards.high, trained.standards.low),
            "prompts_end": np.round(trained.prompts_end, 4).tolist(),
        }
    )


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


# More alphas for a finished run, as its page asks for them.


class SweepConfig(BaseModel):
    """Further alphas for a finished study."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study_id: str
    judge: str
    data: str
    high: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    reach: float | None = Field(default=None, gt=0, lt=1)
    run_id: str | None = None


def sweep_job(config: SweepConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, object]:
    """Extend the sweep of a run: named alphas, or those that reach one relative edit on both sides.

    Raises:
        RunError: there is no such run.
        InputError: the run has no vectors, or no alpha is named.
    """
    run = open_run(settings.runs, config.study_id)
    study = CapConfig.model_validate(run.manifest()["config"])
    standards, prompts_end = stored_standards(run), np.array(run.manifest()["cap"]["prompts_end"])
    wanted: dict[Side, list[float]] = {"high": list(config.high), "low": list(config.low)}
    if config.reach:
        for side in SIDES:
            wanted[side] += alphas_reaching(prompts_end, standards, side, [config.reach], study.form)
    if not any(wanted.values()):
        raise InputError("Name at least one alpha, or a relative edit to reach.")
    contexts = divide(study, load_dataset(study.data, settings.datasets)).training
    total = 2 * len(contexts) * sum(map(len, wanted.values()))
    judge, tutor = make_judge(study.judge, settings), load_tutor(study.tutor, settings)
    more = sweep(study, contexts, tutor, judge, standards, wanted, Progress(checkpoint, total))
    table = pd.concat([run.table("cap_sweep"), more], ignore_index=True)
    run.write_table("cap_sweep", table.drop_duplicates(["side", "form", "alpha", "item_id"], keep="last"))
    return {"run_id": run.run_id}


class AlphaConfig(BaseModel):
    """One alpha of a run's directions, tried at once on a few contexts.

    Attributes:
        study_id: the run, of this machine or recorded.
        alpha: strength, 0 or more.
        sides: directions to write in.
        contexts: training contexts that are written for, the first of the run's sweep.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    study_id: str
    alpha: float = Field(ge=0, lt=1e9)
    sides: tuple[Side, ...] = Field(default=SIDES, min_length=1)
    contexts: int = Field(default=3, ge=1, le=12)


def alpha_job(config: AlphaConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Texts steered with an alpha that the run's sweep does not hold, and the judge's scores; nothing is stored.

    Returns:
        rows: side, alpha, item_id, text, score (None: unread) and relative_edit of each text.

    Raises:
        RunError: there is no such run.
        InputError: the run has no vectors, or its judge or tutor is not the one that is here now.
    """
    run = find_run(settings.runs, settings.assets / "demo", config.study_id)
    manifest = run.manifest()
    study = CapConfig.model_validate(manifest["config"])
    standards = stored_standards(run)
    items = list(dict.fromkeys(run.table("cap_sweep")["item_id"]))[: config.contexts]
    first = {r.item_id: r for r in divide(study, load_dataset(study.data, settings.datasets)).training}
    contexts = [first[item] for item in items if item in first]
    judge, tutor = make_judge(study.judge, settings), load_tutor(study.tutor, settings)
    written_by = manifest.get("tutor", {}).get("fingerprint", tutor.loaded.fingerprint) == tutor.loaded.fingerprint
    for name, same in (("judge", answers_as(manifest.get("judge", {}), judge, contexts[:1])), ("tutor", written_by)):
        if not same:
            raise InputError(
                f"The {name} of this run is another version than the one here, so a new text would not fit its curve. "
                "Run the study again."
            )
    total = 2 * len(contexts) * len(config.sides)
    wanted: dict[Side, list[float]] = {side: [config.alpha] for side in config.sides}
    swept = sweep(study, contexts, tutor, judge, standards, wanted, Progress(checkpoint, total))
    rows = swept[["side", "alpha", "item_id", "text", "score", "relative_edit"]].astype(object)
    return {"rows": rows.where(rows.notna(), None).to_dict("records")}
