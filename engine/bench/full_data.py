"""The public data of the full-size studies, in the shape the studies take, test side and trained-on sides apart.

The judge's adapter was trained on two sides of `engine.training.heldout`, the training side and, once the recipe was
frozen, the tuning side (`sides` in assets/training/judge.toml). So held out is the test side alone, and only that is
judged here, except MT-bench (all 80 questions are judged; those that were in the training are told from the clean ones)
and LLMBar's own pairs, which were never trained on. A prompt that a training prompt resembles (`near_duplicates`) is
left out; the counts stand in the names. Licences: see `engine.training.sources`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.json import dumps
from engine.core.schema import ITEMS, RESPONSES, Task
from engine.data.comparisons import Comparisons, read_comparisons
from engine.data.dataset import Dataset, build_dataset, content_digest
from engine.data.reading import read_table
from engine.inference.chat import render_ids
from engine.inference.generation import generate
from engine.inference.loading import LoadedModel
from engine.studies.cap.study import EVALUATION, TRAINING
from engine.training.heldout import Side, near_duplicates, side_of_prompt
from engine.training.material import trained_prompts
from engine.training.rules import RuleTask, build_response, usable, with_simple_rules
from engine.training.sources import Rated, RulePrompt, read_lines, related_dialogues

CAP_CONTEXTS, CAP_TRIED, CAP_PER_DOCUMENT = 16, 4, 8
"""Training contexts of `cap` at most, and at least in a try (fewer give too few texts for its thresholds); responses
judged of each SummEval document."""
SIX = ("gpt-4", "gpt-3.5-turbo", "vicuna-13b-v1.3", "alpaca-13b", "llama-13b", "claude-v1")
LADDER_PROMPTS, LADDER_TOKENS, LADDER_RULES = 100, 96, 3
"""IFEval prompts on the ladder, tokens of a draft, rules of a prompt."""
LLMBAR, PANDALM = "llmbar/pairs.jsonl", "pandalm/pairs.jsonl"
TRAINED_ON = (Side.TRAIN, Side.TUNE)


def seen_in_training(prompts: Iterable[str], data: Path) -> frozenset[str]:
    """The prompts that the judge was trained on, or that one it was trained on resembles.

    Raises:
        InputError: a data file is missing.
    """
    return near_duplicates(prompts, trained_prompts(data, TRAINED_ON))


def cap_data(
    name: str, task: Task, rated: Sequence[Rated], per_context: int | None, limit: int | None, learned_on: int = 1
) -> Dataset:
    """Contexts for `cap`: the test side is judged, contexts of the tuning side train the tutor's standards.

    The judge was trained on the tuning side too, but no verdict on it is measured: of a training context one response
    is kept, since only the context is used, or as many as a phrase is to be learned on.

    Args:
        name: of the set.
        task: of the contexts.
        rated: all responses of the public set.
        per_context: responses judged of a context, in the file's order; None takes all.
        limit: contexts of each side, and responses judged of each, for a try; at least `CAP_TRIED` train.
        learned_on: responses kept of a training context.
    """
    training = CAP_CONTEXTS if limit is None else min(max(limit, CAP_TRIED), CAP_CONTEXTS)
    judged = min((n for n in (per_context, limit) if n is not None), default=None)
    kept = list(_sides(rated, Side.TUNE, (training, learned_on), (limit, judged)))
    return _two_sided(name, task, kept)


def suffix_data(rated: Sequence[Rated], limit: int | None) -> Dataset:
    """TopicalChat for `suffix` and `detection`: a phrase is learned on the training side, measured on the test side."""
    kept = list(_sides(rated, Side.TRAIN, (limit, limit), (limit, limit)))
    return _two_sided("TopicalChat", Task.DIALOGUE, kept)


def _sides(
    rated: Iterable[Rated], training: Side, train: tuple[int | None, int | None], test: tuple[int | None, int | None]
) -> Iterator[tuple[Rated, str]]:
    """Responses with their group, in the file's order; a side is bounded by (contexts, responses of each)."""
    rated = list(rated)
    most = {training: (TRAINING, *train), Side.TEST: (EVALUATION, *test)}
    seen: dict[Side, Counter[str]] = {side: Counter() for side in most}
    apart = _apart(rated)
    for one in rated:
        if one.side not in most or (one.side is training and one.cluster not in apart):
            continue
        group, contexts, responses = most[one.side]
        counted = seen[one.side]
        if one.cluster not in counted and contexts is not None and len(counted) >= contexts:
            continue
        counted[one.cluster] += 1
        if responses is None or counted[one.cluster] <= responses:
            yield one, group


def _apart(rated: Sequence[Rated]) -> frozenset[str]:
    """The contexts, by cluster, that no context of the test side resembles or shares its conversation with.

    Those that do are no training contexts, so that the test side stays whole.
    """
    tested = [one.context for one in rated if one.side is Side.TEST]
    near = near_duplicates((one.context for one in rated if one.side is not Side.TEST), tested)
    sides = related_dialogues(rated)
    return frozenset(
        one.cluster for one in rated if one.context not in near and not {one.side, Side.TEST} <= sides[one.cluster]
    )


def _two_sided(name: str, task: Task, kept: Sequence[tuple[Rated, str]]) -> Dataset:
    """The data set a user would get of the same rows in a file, so that its texts pass the same checks."""
    rows = [
        {
            "response_id": f"{r.cluster}-{i}",
            "item_id": r.cluster,
            "context": r.context,
            "response": r.response,
            "system": r.system,
            "human_score": r.rating,
            "group": group,
        }
        for i, (r, group) in enumerate(kept)
    ]
    frame = pd.DataFrame(rows)
    raw = read_table("data.csv", frame.to_csv(index=False).encode(), delimiter=",", encoding="utf-8")
    return build_dataset(raw, {column: column for column in map(str, frame.columns)}, task=task.value, name=name)


def evaluation_side(dataset: Dataset) -> Dataset:
    """The part of a set that is measured on."""
    items = dataset.items[dataset.items["group"] == EVALUATION].reset_index(drop=True)
    responses = dataset.responses[dataset.responses["item_id"].isin(items["item_id"])].reset_index(drop=True)
    digest = content_digest(items, responses)
    return Dataset(digest, dataset.name, dataset.task, items, responses, dataset.problems, dataset.source)


def llmbar_audited(data: Path) -> Comparisons:
    """LLMBar's pairs for `puaudit`; the subset is the question type.

    Raises:
        InputError: a file is missing.
    """
    return read_comparisons("LLMBar.jsonl", _jsonl(_llmbar(data)))


def _llmbar(data: Path) -> list[dict[str, Any]]:
    rows = list(read_lines(data, LLMBAR))
    seen = seen_in_training((row["prompt"] for row in rows), data)
    return [row for row in rows if row["prompt"] not in seen]


def _pandalm(data: Path) -> list[dict[str, Any]]:
    """The pairs of the test side's prompts that no trained one resembles."""
    rows = [row for row in read_lines(data, PANDALM) if side_of_prompt(row["prompt"]) is Side.TEST]
    seen = seen_in_training((row["prompt"] for row in rows), data)
    return [row for row in rows if row["prompt"] not in seen]


def pandalm_audited(data: Path) -> Comparisons:
    """PandaLM's pairs for `puaudit`, of the prompts that the judge was not trained on only.

    Raises:
        InputError: the file is missing.
    """
    return read_comparisons("PandaLM.jsonl", _jsonl(_pandalm(data)), {"prompt": "prompt+input"})


def _jsonl(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def mtbench_judged(data: Path, limit: int | None, *, clean: bool = False) -> Dataset:
    """MT-bench's questions, the first turn's answers of six systems.

    Args:
        data: folder of the public data sets.
        limit: only so many questions.
        clean: only the questions that the judge was not trained on.

    Raises:
        InputError: a file is missing.
    """
    questions = list(read_lines(data, "mtbench/questions.jsonl"))
    seen = seen_in_training((q["turn1"] for q in questions), data) if clean else frozenset()
    items = [
        {"item_id": f"q{q['question_id']}", "context": q["turn1"], "group": q["category"]}
        for q in questions
        if q["turn1"] not in seen
    ][:limit]
    responses = [
        _response(f"{r['model']}-{r['question_id']}", f"q{r['question_id']}", r["model"], r["answer1"])
        for r in read_lines(data, "mtbench/answers_31models.jsonl")
        if r["model"] in SIX and r["answer1"]
    ]
    which = "questions that were not in the training" if clean else "questions"
    return _instructions(f"MT-bench, {len(items)} {which}, six systems", items, responses)


def llmbar_judged(data: Path, limit: int | None) -> Dataset:
    """LLMBar's pairs for `protocols`: "systems" are the better and the worse side, as people said.

    Raises:
        InputError: the file is missing.
    """
    items, responses = [], []
    for row in _llmbar(data)[:limit]:
        items.append({"item_id": row["id"], "context": row["prompt"], "group": row["subset"]})
        for side in ("a", "b"):
            better = row["label"] == side
            one = _response(f"{row['id']}-{side}", row["id"], "better" if better else "worse", row[f"response_{side}"])
            responses.append(one | {"quality": "severity_0" if better else "severity_1"})
    return _instructions(f"LLMBar, {len(items)} pairs", items, responses)


def pandalm_judged(data: Path, limit: int | None) -> Dataset:
    """PandaLM's five systems on the prompts that the judge was not trained on.

    Raises:
        InputError: the file is missing.
    """
    rows = _pandalm(data)
    items: dict[tuple[str, str], dict[str, str]] = {}
    texts: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row["prompt"], row["input"])
        if limit and len(items) >= limit and key not in items:
            continue
        item = items.setdefault(key, {"item_id": f"p{len(items):03d}", "context": "\n\n".join(filter(None, key))})
        for side in ("a", "b"):
            texts.setdefault((item["item_id"], row[f"model_{side}"]), str(row[f"response_{side}"]))
    every = len({(row["prompt"], row["input"]) for row in read_lines(data, PANDALM)})
    responses = [_response(f"{item}-{model}", item, model, text) for (item, model), text in texts.items() if text]
    return _instructions(
        f"PandaLM, {len(items)} held-out prompts of {every}, five systems", list(items.values()), responses
    )


def ladder_judged(
    prompts: Sequence[RulePrompt], base: LoadedModel, limit: int | None, seen: frozenset[str] = frozenset()
) -> Dataset:
    """IFEval prompts of the test side with three checkable rules; drafts edited to fail 0 to 3 of them.

    Args:
        prompts: as `engine.training.sources.read_rule_prompts` gives them.
        base: writes the drafts, greedily.
        limit: only so many prompts, with shorter drafts.
        seen: prompts that a trained one resembles, which are left out.
    """
    rng = np.random.default_rng(0)
    few = [p for p in prompts if p.side is Side.TEST and len(p.rules) <= LADDER_RULES and usable(p)]
    few = [p for p in few if p.prompt not in seen]
    tasks = [t for t in (with_simple_rules(p, rng) for p in few) if len(t.rules) == LADDER_RULES]
    wanted = min(limit or LADDER_PROMPTS, LADDER_PROMPTS)
    # a draft cannot always be edited to every level, so more are written than are needed
    tasks = tasks[: 2 * LADDER_PROMPTS if limit is None else 3 * limit]
    asked = [render_ids(base.tokenizer, "", task.prompt) for task in tasks]
    drafts = generate(base, asked, LADDER_TOKENS if limit is None else LADDER_TOKENS // 4)
    items: list[dict[str, str]] = []
    responses: list[dict[str, str]] = []
    for task, draft in zip(tasks, drafts, strict=True):
        made = _rungs(task, draft.text or "Yes.", rng)
        if len(made) == LADDER_RULES + 1 and len(items) < wanted:
            rules = dumps([{"rule": name, "arguments": arguments} for name, arguments in task.rules])
            items.append({"item_id": f"k{task.key}", "context": task.prompt, "rules": rules})
            responses += made
    return _instructions(f"IFEval ladder, {len(items)} held-out prompts", items, responses)


def _rungs(task: RuleTask, draft: str, rng: np.random.Generator) -> list[dict[str, str]]:
    """The draft failing 0 to 3 rules, where counting the rules on the finished text says that it does."""
    order = rng.permutation(LADDER_RULES)
    made = []
    for severity in range(LADDER_RULES + 1):
        text = build_response(task, draft, [i not in order[:severity] for i in range(LADDER_RULES)], rng)
        if round(LADDER_RULES * (1 - task.share(text))) == severity:
            made.append(_response(f"{task.key}-{severity}", f"k{task.key}", f"fails {severity}", text))
    return made


def _response(response_id: str, item: str, system: str, text: str) -> dict[str, str]:
    return {"response_id": response_id, "item_id": item, "system": system, "text": text}


def _instructions(name: str, items: Sequence[dict[str, str]], responses: Sequence[dict[str, str]]) -> Dataset:
    task = Task.INSTRUCTION.value
    known = {item["item_id"] for item in items}
    tables = (
        ITEMS.conform(pd.DataFrame([item | {"task": task} for item in items])),
        RESPONSES.conform(pd.DataFrame([r for r in responses if r["item_id"] in known])),
    )
    return Dataset(content_digest(*tables), name, task, *tables)
