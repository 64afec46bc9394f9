"""What the study `cap` will take, and whether its settings can be had, said before anything is written or asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from engine.attacks.registry import make_attack
from engine.data.dataset import Dataset
from engine.defenses.anchor_sources import PROMPTED, anchor_prompt
from engine.defenses.anchors import UNKNOWN_TEXT, Anchors
from engine.errors import InputError
from engine.judges.base import Cost, Judge, Paid
from engine.settings import Settings
from engine.steering.layers import blocks
from engine.studies.anchoring import sources_for
from engine.studies.cap_arms import AnchorSets, arms_of, asked_by_arm, reasoner_of
from engine.studies.cap_config import ANCHORED, CAP, HUMAN, CapConfig, Contexts, divide, expected_work, with_text
from engine.studies.cap_learned import learning_work, with_deflation
from engine.studies.cap_pairs import pair_requests, pairs_of
from engine.studies.cap_screen import guard_of, training_texts
from engine.studies.cap_tutor import Tutor, limit_of, plain_prompt
from engine.studies.plan import add_up, as_json, expense_of
from engine.studies.suffix_targets import inner_judge


def check_settings(config: CapConfig, dataset: Dataset, judge: Judge, tutor: Tutor, settings: Settings) -> None:
    """Refuse what would fail only after the tutor has written for minutes.

    Raises:
        InputError: an attack that is not known, a layer the tutor does not have, a suffix to be learned on a judge that
            is no white box, anchors by ratings without ratings, or a judge without a prompt that shows anchors.
    """
    for name in config.attacks:
        make_attack(name)
    if config.layer and config.layer > len(blocks(tutor.loaded)):
        raise InputError(
            f"{tutor.loaded.spec} has no layer {config.layer}; its layers are 1 to {len(blocks(tutor.loaded))}."
        )
    if config.learned_words:
        inner_judge(judge)
    if HUMAN in config.defenses:
        sources_for([HUMAN], dataset, settings)
    if any(name in ANCHORED for name in config.defenses):
        judge.labels(replace(divide(config, dataset).responses[0], anchor_low="low", anchor_high="high"))


def plan_cap(config: CapConfig, dataset: Dataset, judge: Judge, tutor: Tutor, settings: Settings) -> dict[str, Any]:
    """Texts, calls and tokens of the study; nothing is written or asked.

    What is not written yet counts at its longest; anchors in a judge's prompt count about 50 tokens each.

    Returns:
        JSON-ready. texts and tutor_tokens: what the tutor writes, prompts and longest texts together, known ones too.
        calls, tokens, known: of the judge and of those who help it, as in `Cost`. learned_prompts: computed by the
        searches for suffixes, at most. steps: what the progress counts. expense: of a judge behind a server.

    Raises:
        InputError: as `check_settings`, or too few contexts.
    """
    if config.deflate:
        config = config.model_copy(update={"attacks": with_deflation(config.attacks)})
    check_settings(config, dataset, judge, tutor, settings)
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
    }


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
        own = sum(n for _, n in asks)
        texts += own
        tokens += sum(n * (len(tutor.ids(prompt)) + limit) for prompt, n in asks)
        one = judge.cost(with_text([request], ["word " * limit]))
        paid = Paid(*(own * part for part in one.paid))
        costs.append(Cost(own * one.calls, own * one.tokens, own * one.known, paid))
    return texts, tokens, add_up(costs)


def _arm_costs(config: CapConfig, contexts: Contexts, judge: Judge, tutor: Tutor) -> list[Cost]:
    """What judging every arm takes, and the comparative form."""
    shown = {r.item_id: Anchors(UNKNOWN_TEXT, UNKNOWN_TEXT) for r in contexts.every}
    anchors = AnchorSets(dict.fromkeys(ANCHORED, shown), {}, pd.DataFrame())
    writer = reasoner_of(config, judge, lambda: tutor)  # whoever writes the reasoning, its length is the same at most
    arms = arms_of(config, judge, anchors, writer, guard_of(tutor, judge))
    asked = asked_by_arm(config, contexts.responses, arms.judges)
    costs = [arms.judges[name].cost(requests) for name, requests in asked]
    if pairs := pairs_of(contexts.responses, judge):
        costs.append(judge.cost(pair_requests(config, pairs)))
    return costs
