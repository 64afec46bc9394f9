"""Study `score`: every response under every attack and defense, with the shift of each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict

from engine.attacks.base import word_diff
from engine.attacks.cards import parse_attack
from engine.attacks.registry import make_attack
from engine.core.beside import Beside
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.core.settings import Settings, get_settings
from engine.core.stages import stage
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.base import judge_together, prepare_together
from engine.defenses.cards import defense_name
from engine.defenses.registry import defend
from engine.judges.base import Checkpoint, Judge, Request, Verdict, device_of, innermost, remark_of, verdict_id
from engine.judges.registry import make_judge
from engine.runs.folder import RunFolder, now
from engine.stats.shifts import SHIFTS_NEED, defense_gains, shift_metrics
from engine.studies.anchors import sources_for
from engine.studies.attack_grid.study import ScoreConfig
from engine.studies.running import (
    KeptJudge,
    Plan,
    Requests,
    VerdictLog,
    about_data,
    about_judge,
    build_requests,
    ending,
    in_chunks,
    in_flight,
    keeping,
    make_plan,
    offset,
    with_attack,
    within,
)

CALLS_PER_CHUNK = 24
"""Judge calls between two looks at the results: all arms of a few responses, asked together so that their prompts
share what they have in common."""
MAX_VERDICTS = 2_000_000
"""Most verdicts of one run: the columns that its metrics need are held in memory."""


def run_score(
    config: ScoreConfig, dataset: Dataset, judge: Judge, run: RunFolder, checkpoint: Checkpoint
) -> pd.DataFrame:
    """Judge all arms, writing partial tables; returns the metrics table.

    Responses are taken a few at a time with all their arms, so that a stopped run is still paired.

    Raises:
        Cancelled: from the checkpoint; what is done is kept and the run is marked stopped.
    """
    checkpoint = within(config.budget_seconds, checkpoint)
    requests = _requests(config, dataset)
    attacks = [make_attack(name, config.own_text) for name in _arms(config.attacks)]
    judges = _defended(config, dataset, judge)
    _describe(run, dataset, judge, requests)
    known = keeping(judge, run)
    if isinstance(known, KeptJudge):
        judges = {name: KeptJudge(defended, run.table("verdicts")) for name, defended in judges.items()}
    per_response = len(attacks) * len(judges)
    log = VerdictLog(run, known)
    here = hasattr(innermost(judge), "prepare")

    def attacked(part: tuple[int, Sequence[Request]]) -> tuple[int, list[Request]]:
        chunk = [with_attack(r, a) for r in part[1] for a in attacks]
        if here and known is judge:
            prepare_together(list(judges.values()), chunk)
        return part[0], chunk

    def keep(chunk: Sequence[Request], answers: list[list[Verdict]]) -> None:
        with stage("tables"):
            for (name, defended), verdicts in zip(judges.items(), answers, strict=True):
                log.add(defended, [_named(r, name) for r in chunk], verdicts)
            log.write_when_due()

    elsewhere = in_flight(judge) > 1  # processes or a server answer while this one makes ready and writes
    with ending(run, lambda: _finish(run, log, config, "stopped")), Beside(on=here or elsewhere) as beside:
        parts = in_chunks(requests, judge, CALLS_PER_CHUNK, per_response)
        for start, chunk in beside.ahead(parts, attacked):
            progress = offset(checkpoint, start * per_response, len(requests) * per_response)
            beside.later(partial(keep, chunk, _answers(judges, chunk, progress)))
    return _finish(run, log, config, "done")


def plan_score(config: ScoreConfig, dataset: Dataset, judge: Judge) -> Plan:
    """The cost of the study; a few requests are asked to measure the pace, and their answers kept."""
    attacks = [make_attack(name, config.own_text) for name in _arms(config.attacks)]
    asked = [with_attack(r, a) for r in _requests(config, dataset) for a in attacks]
    return make_plan([(defended, asked) for defended in _defended(config, dataset, judge).values()])


def _defended(config: ScoreConfig, dataset: Dataset, judge: Judge) -> dict[str, Judge]:
    """The judge behind each defense, by the defense's one name."""
    names = _defenses(config.defenses)
    sources = sources_for(names, dataset, get_settings(), config.tutor)
    return {name: defend(judge, name, sources=sources) for name in names}


def _requests(config: ScoreConfig, dataset: Dataset) -> Requests:
    requests = Requests(dataset, limit=config.limit)
    if not requests:
        raise InputError(f"The data {dataset.name} has no response to judge. Load a file on the Data page.")
    check_size(len(requests), config)
    return requests


def check_size(responses: int, config: ScoreConfig) -> None:
    """Refuse a grid whose metrics would not fit in memory.

    Raises:
        InputError: responses x attacks x defenses are more than `MAX_VERDICTS`.
    """
    arms = len(_arms(config.attacks)) * len(_defenses(config.defenses))
    if responses * arms > MAX_VERDICTS:
        raise InputError(
            f"{responses:,} responses in {arms:,} arms are {responses * arms:,} verdicts; a run has at most "
            f"{MAX_VERDICTS:,}. Take fewer with --limit, or split the attacks and defenses over several runs."
        )


def _arms(attacks: Sequence[str]) -> list[str]:
    """The attacks asked for, each by its one name, always with the clean arm they are compared with, first."""
    return list(dict.fromkeys((NONE, *(parse_attack(name).name for name in attacks))))


def _defenses(defenses: Sequence[str]) -> list[str]:
    """The defenses asked for, each by its one name."""
    return list(dict.fromkeys(defense_name(name) for name in defenses or (NONE,)))


def _named(request: Request, defense: str) -> Request:
    return request if request.defense == defense else replace(request, defense=defense)


def _describe(run: RunFolder, dataset: Dataset, judge: Judge, requests: Requests) -> None:
    run.update_manifest(
        data=about_data(dataset, requests.n_items, len(requests)),
        judge=about_judge(judge, judge.labels(requests[0]), requests[:1]),
    )


def _answers(judges: dict[str, Judge], chunk: Sequence[Request], progress: Checkpoint) -> list[list[Verdict]]:
    """Each judge's verdicts; in a retry each arm is asked alone, and only what it has not read."""
    kept = [(name, judge) for name, judge in judges.items() if isinstance(judge, KeptJudge)]
    if not kept:
        return judge_together(list(judges.values()), chunk, progress)
    size = len(chunk)
    return [
        judge.judge_as(
            chunk, [verdict_id(_named(r, name)) for r in chunk], offset(progress, k * size, len(kept) * size)
        )
        for k, (name, judge) in enumerate(kept)
    ]


def _finish(run: RunFolder, log: VerdictLog, config: ScoreConfig, state: str) -> pd.DataFrame:
    """Write both tables; the metrics are computed from the columns that they need, all else stays on disk."""
    if state == "stopped":
        log.add_earlier()
    metrics = pd.DataFrame()
    with stage("metrics"):
        verdicts = log.table(SHIFTS_NEED)
        if len(verdicts):
            shifts = shift_metrics(verdicts, level=config.level, seed=config.seed)
            gains = defense_gains(verdicts, level=config.level, seed=config.seed)
            metrics = pd.concat([t for t in (shifts, gains) if len(t)], ignore_index=True)
    if len(verdicts):
        with stage("tables"):
            log.publish()
            run.write_table("metrics", metrics)
    run.update_manifest(state=state, finished=now())
    return metrics


# One response, one attack, one defense: the two judge calls behind the Attack lab's live view.


class AttackOne(BaseModel):
    """A response and the attack on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_id: str
    attack: str = NONE
    own_text: str = ""
    defense: str = NONE


def attack_one(config: AttackOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Judge a response without and with the attack, both under the defense.

    Returns:
        JSON-ready: labels, values of neither arm invented, both verdicts, the diff and both prompts.

    Raises:
        InputError: unknown judge, data, response, attack or defense.
    """
    dataset = load_dataset(config.data, settings.datasets)
    sources = sources_for([config.defense], dataset, settings)
    judge = defend(make_judge(config.judge, settings), config.defense, sources=sources)
    clean = _request(dataset, config.response_id)
    attack = make_attack(config.attack, config.own_text)
    attacked = with_attack(clean, attack)
    pair = [clean] if attacked.response == clean.response else [clean, attacked]
    verdicts = judge.judge(pair, checkpoint)
    return {
        "labels": list(judge.labels(clean)),
        "clean": _shown(verdicts[0]),
        "attacked": _shown(verdicts[-1]),
        "attacked_text": attacked.response,
        "diff": [list(piece) for piece in word_diff(clean.response, attacked.response)],
        "prompt_clean": judge.prompt(clean),
        "prompt_attacked": judge.prompt(attacked),
        "device": device_of(judge),
        "remark": remark_of(judge, clean),
        "cached": all(v.seconds == 0 for v in verdicts),
    }


def _request(dataset: Dataset, response_id: str) -> Request:
    requests = build_requests(dataset, response_ids=[response_id])
    if not requests:
        raise InputError(f"The data {dataset.name} has no response {response_id!r}. Choose one from the list.")
    return requests[0]


def _shown(verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "coverage": verdict.coverage,
        "probabilities": verdict.probabilities,
        "unread_reason": verdict.unread_reason,
        "prompt_tokens": verdict.prompt_tokens,
        "seconds": verdict.seconds,
    }
