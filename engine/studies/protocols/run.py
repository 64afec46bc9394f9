"""Study `protocols`: the same responses judged pairwise and pointwise, clean and distracted (paper 004)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.base import word_diff
from engine.attacks.distractors import DISTRACTORS, PLACEBO, style_of
from engine.attacks.rewriting import Rewrite
from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE, VERDICTS, Order, Protocol
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.judges.base import Checkpoint, Judge, Request, Verdict, device_of, verdict_table
from engine.judges.kinds import both_orders
from engine.judges.registry import make_judge
from engine.runs.folder import RunFolder, create_run, now, open_run
from engine.stats.arena import COPIES as COPY_CALLS
from engine.stats.arena import Arena, build_arena, label_values
from engine.stats.intervals import Interval, cluster_rate
from engine.stats.paired import PairedTest, benjamini_hochberg
from engine.stats.shifts import interval_columns
from engine.studies.pair_requests import Asker, Needs, able
from engine.studies.protocols.leaderboard import Board, ChosenBy, board, choice_sets, contradictions
from engine.studies.protocols.metrics import (
    PROTOCOLS,
    FlipComparison,
    TieRule,
    View,
    clean_tie_rate,
    copy_rates,
    first_slot,
    flips,
    ladder,
    margin_like_pairwise,
    order_disagreement,
    preference_strength,
    unread_in,
)
from engine.studies.rewrites import check_reused, make_rewriter, parse_arm, variant_table
from engine.studies.running import (
    Plan,
    about_data,
    about_judge,
    build_requests,
    ending,
    keeping,
    left_over,
    make_plan,
    within,
)

# One comparison, one distractor: the judge calls behind the live view of the page Protocols and leaderboard.


class DistractOne(BaseModel):
    """Two responses to one item, and which of them is rewritten how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_a: str
    response_b: str
    side: Literal["a", "b"] = "b"
    distractor: str = "assertiveness"
    strength: float = Field(default=1.0, ge=0, le=1)
    rewriter: str = "rules"
    seed: int = 0


def distract_one(config: DistractOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Judge a pair before and after one side is rewritten, in both protocols where the judge can.

    Returns:
        JSON-ready: the rewritten text with its diff and content report; by protocol `before` and `after`; and why a
        protocol is missing.

    Raises:
        InputError: unknown data, response, distractor or judge, two responses to different items, or the judge answers
            neither protocol.
    """
    dataset = load_dataset(config.data, settings.datasets)
    a, b = (_request(dataset, name) for name in (config.response_a, config.response_b))
    if a.item_id != b.item_id or a.response_id == b.response_id:
        raise InputError("Two different responses to one item are compared. Choose another second response.")
    judge = make_judge(config.judge, settings)
    loser = a if config.side == "a" else b
    rewriter = make_rewriter(config.rewriter, settings)
    [made] = rewriter.rewrite([loser.response], style_of(config.distractor), strength=config.strength, seed=config.seed)
    after = replace(loser, response=made.text, attack=config.distractor)
    changed = (after, b) if config.side == "a" else (a, after)
    out: dict[str, Any] = {"text": _text(loser, made), "pairwise": None, "pointwise": None, "missing": {}}
    pairs = [*_pair(a, b), *_pair(*changed)]
    for protocol, requests, shown in (
        (Protocol.POINTWISE, [a, b, after], _scores),
        (Protocol.PAIRWISE, pairs, _pairs),
    ):
        if reason := able(judge.labels, requests):
            out["missing"][protocol.value] = reason
            continue
        out[protocol.value] = shown(judge, requests, judge.judge(requests, checkpoint), config.side)
    if len(out["missing"]) == 2:
        raise InputError(f"{config.judge} can be asked in neither protocol. {' '.join(out['missing'].values())}")
    return out


def _request(dataset: Dataset, response_id: str) -> Request:
    found = build_requests(dataset, response_ids=[response_id])
    if not found:
        raise InputError(f"The data {dataset.name} has no response {response_id!r}. Choose one from the list.")
    return found[0]


def _pair(a: Request, b: Request) -> list[Request]:
    attack = a.attack if a.attack != NONE else b.attack
    joined = replace(a, protocol=Protocol.PAIRWISE, response_b_id=b.response_id, response_b=b.response, attack=attack)
    return both_orders([joined])


def _text(original: Request, made: Rewrite) -> dict[str, Any]:
    return {
        "rewritten": made.text,
        "diff": [list(piece) for piece in word_diff(original.response, made.text)],
        "reasons": list(made.report.reasons),
        "length_ratio": made.report.length_ratio,
        "changed": made.text != original.response,
    }


def _scores(judge: Judge, requests: list[Request], verdicts: list[Verdict], side: str) -> dict[str, Any]:
    a, b, after = ({"score": v.score, "probabilities": v.probabilities, "unread": v.unread_reason} for v in verdicts)
    changed = {"a": after, "b": b} if side == "a" else {"a": a, "b": after}
    return {"labels": list(judge.labels(requests[0])), "before": {"a": a, "b": b}, "after": changed}


def _pairs(judge: Judge, requests: list[Request], verdicts: list[Verdict], side: str) -> dict[str, Any]:  # noqa: ARG001 - one signature
    shown = [
        {"order": (r.order or Order.AB).value, "p_a": v.p_a, "p_tie": v.p_tie, "unread": v.unread_reason}
        for r, v in zip(requests, verdicts, strict=True)
    ]
    return {"before": shown[:2], "after": shown[2:]}


# The numbers of study `protocols` as its table `metrics`; `protocols_json` says the same for the command line.

ALL = "all distractors"
IDENTICAL, COPIES, CLEAN = "identical texts", "original and rewriting", "clean pairs"
MODAL, MATCHED, EXPECTED = "equal modal score", "margin matched to pairwise ties", "expected scores, no margin"
CHECKS, RULES = "content checks", "rules broken or mended"
SAME_SYSTEMS = "_same_systems"
"""Behind the name of a rating's metric: pointwise, with the systems rewritten that are lowest pairwise."""
Row = dict[str, Any]


def whole_arms(arena: Arena) -> list[str]:
    """The distractors at full strength, the placebo left out; all strengths where none is at full strength."""
    distractors = [arm for arm in arena.arms if arm != PLACEBO]
    return [arm for arm in distractors if ":" not in arm] or distractors


def tie_rules(arena: Arena, view: View) -> dict[str, View]:
    """The tie rules that flips are shown under; the chosen one last, under its own words, where it is none of them."""
    rules = {MODAL: TieRule(None), EXPECTED: TieRule(0.0)}
    margin = margin_like_pairwise(arena, view)
    if not np.isnan(margin):
        rules[MATCHED] = TieRule(margin)
    if view.rule not in rules.values():
        rules[view.rule.words] = view.rule
    return {name: View(rule, view.average, view.level, view.seed) for name, rule in rules.items()}


def flips_by_arm(arena: Arena, view: View) -> dict[str, FlipComparison]:
    """Flips of every distractor and of all at full strength together, against the placebo."""
    distractors = [arm for arm in arena.arms if arm != PLACEBO]
    found = {arm: flips(arena, [arm], PLACEBO, view) for arm in distractors}
    if PLACEBO in arena.arms:
        found[PLACEBO] = flips(arena, [PLACEBO], PLACEBO, view)
    return {ALL: flips(arena, whole_arms(arena), PLACEBO, view), **found} if found else {}


def metrics_of(arena: Arena, view: View, boards: Sequence[str], lowest: int, elo_k: float) -> pd.DataFrame:
    """Table `metrics` of everything the readouts say under one view; `n_unread` counts judge calls.

    Pointwise rows under another rule than equal modal scores name it in their group.
    """
    rows = [*_flip_rows(arena, view), *_tie_rows(arena, view), *_ladder_rows(arena, view), *_left_out_rows(arena, view)]
    rows += [*_order_rows(arena, view), *_board_rows(arena, view, boards, lowest, elo_k)]
    table = METRICS.conform(pd.DataFrame(rows)) if rows else METRICS.empty()
    return table.assign(q_value=benjamini_hochberg(table["p_value"])) if len(table) else table


def _row(metric: str, interval: Interval, **more: Any) -> Row:
    return {"metric": metric, "attack": NONE} | interval_columns(interval) | more


def _tested(metric: str, test: PairedTest, **more: Any) -> Row:
    return _row(metric, test.interval, p_value=test.p_value, **more)


def _lost(arena: Arena, kinds: Collection[str], *arms: str) -> dict[str, int]:
    """The calls without an answer among those a row rests on: the clean ones and the arms named."""
    return {"n_unread": unread_in(arena, kinds, {NONE, *arms})}


def _under(group: str, protocol: Protocol, view: View) -> str:
    """The group, with the tie rule where that is not the default one and decides the number."""
    asked = protocol is Protocol.POINTWISE and view.rule.margin is not None
    return f"{group}, ties: {view.rule.words}" if asked else group


def _flip_rows(arena: Arena, view: View) -> Iterator[Row]:
    one, two = (p.value for p in PROTOCOLS)
    for name, under in tie_rules(arena, view).items():
        for arm, found in flips_by_arm(arena, under).items():
            where = {"attack": arm, "group": name}
            arms = tuple(whole_arms(arena)) if arm == ALL else (arm,)
            net = (*arms, PLACEBO)
            if name == MODAL:
                own = {"protocol": one, "attack": arm}
                yield _row("flip_rate", found.pairwise, **own, **_lost(arena, {one}, *arms))
                yield _row("flip_rate_net", found.pairwise_net, **own, **_lost(arena, {one}, *net))
            yield _row("flip_rate", found.pointwise, protocol=two, **where, **_lost(arena, {two}, *arms))
            yield _row("flip_rate_net", found.pointwise_net, protocol=two, **where, **_lost(arena, {two}, *net))
            yield _tested("flip_difference", found.test, **where, **_lost(arena, {one, two}, *arms))
            yield _tested("flip_difference_net", found.net_test, **where, **_lost(arena, {one, two}, *net))


def _tie_rows(arena: Arena, view: View) -> Iterator[Row]:
    for protocol in PROTOCOLS:
        asked = {"protocol": protocol.value}
        copied = COPY_CALLS if protocol is Protocol.PAIRWISE else protocol.value
        clean = _under(CLEAN, protocol, view)
        yield _row(
            "tie_rate", clean_tie_rate(arena, protocol, view), group=clean, **asked, **_lost(arena, {protocol.value})
        )
        if protocol is Protocol.PAIRWISE:  # pointwise one text has one score: a tie by construction
            tied = copy_rates(arena, protocol, [NONE], view).tied
            yield _row("tie_rate", tied, group=IDENTICAL, **asked, **_lost(arena, {COPY_CALLS}))
        for arm in arena.arms:
            rates = copy_rates(arena, protocol, [arm], view)
            lost = unread_in(arena, {copied}, {arm} if protocol is Protocol.PAIRWISE else {NONE, arm})
            of = {"attack": arm, "n_unread": lost} | asked
            rule = _under("", protocol, view).removeprefix(", ") or None
            yield _row("tie_rate", rates.tied, group=_under(COPIES, protocol, view), **of)
            yield _row("preferred_distracted", rates.preferred, group=rule, **of)
            yield _row("preferred_distracted_half", rates.half, group=rule, **of)


def _ladder_rows(arena: Arena, view: View) -> Iterator[Row]:
    for rung in ladder(arena, arena.arms, view):
        group = _under(f"severity {rung.severity}", rung.protocol, view)
        where: Row = {"protocol": rung.protocol.value, "attack": rung.arm, "group": group}
        where |= _lost(arena, {rung.protocol.value}, rung.arm)
        yield _row("accuracy", rung.strict, **where)
        yield _row("accuracy_half", rung.half, **where)
        if rung.arm != NONE:
            yield _tested("accuracy_change", rung.change, **where)


def _left_out_rows(arena: Arena, view: View) -> Iterator[Row]:
    """The share of rewritings that no number rests on, by why."""
    there = arena.responses != ""
    item = np.repeat(np.arange(len(arena.items)), len(arena.systems)).reshape(there.shape)[there]
    for arm in arena.arms:
        kept, usable = arena.kept[arm][there], arena.usable(arm)[there]
        for group, out in ((CHECKS, ~kept), (RULES, kept & ~usable)):
            share = cluster_rate(out.astype(float), item, level=view.level, seed=view.seed)
            yield _row("rewritings_left_out", share, attack=arm, group=group)


def _order_rows(arena: Arena, view: View) -> Iterator[Row]:
    if not arena.has_pairwise:
        return
    asked = {"protocol": Protocol.PAIRWISE.value} | _lost(arena, {Protocol.PAIRWISE.value})
    yield _row("first_slot_rate", first_slot(arena, view), **asked)
    yield _row("order_disagreement", order_disagreement(arena, view), **asked)
    yield _row("preference_strength", preference_strength(arena, view), **asked)
    for averaged, name in ((True, "both orders averaged"), (False, "one order")):
        found = contradictions(arena, view, averaged=averaged)
        yield _row("intransitivity", found.intransitive, group=name, **asked)
        yield _row("cycles", found.cyclic, group=name, **asked)
    for sets in choice_sets(arena, level=view.level):
        ranked = {"protocol": Protocol.RANKING.value} | _lost(arena, {Protocol.RANKING.value})
        yield _row("choice_set_sensitivity", sets.averaged, group=f"{sets.layout}, both orders averaged", **ranked)
        yield _row("choice_set_sensitivity", sets.single, group=f"{sets.layout}, one order", **ranked)


def boards_of(
    arena: Arena, view: View, arms: Sequence[str], lowest: int, elo_k: float, *, chosen_by: ChosenBy = "own"
) -> list[Board]:
    """The leaderboard under every protocol that was judged, for every arm that was asked for it.

    With `chosen_by="pairwise"` only the pointwise one, with the systems rewritten that are lowest pairwise: then both
    protocols are about the same systems.
    """
    judged = {Protocol.PAIRWISE: arena.has_pairwise, Protocol.POINTWISE: arena.has_pointwise}
    wanted = [p for p in PROTOCOLS if judged[p]]
    if chosen_by == "pairwise":
        wanted = [Protocol.POINTWISE] if all(judged.values()) else []
    there = [arm for arm in arms if arm in arena.kept]
    return [board(arena, p, arm, lowest, view, chosen_by=chosen_by, elo_k=elo_k) for arm in there for p in wanted]


def _board_rows(arena: Arena, view: View, arms: Sequence[str], lowest: int, elo_k: float) -> Iterator[Row]:
    choices: tuple[tuple[ChosenBy, str], ...] = (("own", ""), ("pairwise", SAME_SYSTEMS))
    for chosen_by, suffix in choices:
        for found in boards_of(arena, view, arms, lowest, elo_k, chosen_by=chosen_by):
            for row in _ratings(arena, found, view):
                yield row | {"metric": f"{row['metric']}{suffix}"}


def _ratings(arena: Arena, found: Board, view: View) -> Iterator[Row]:
    shared: Row = {"protocol": found.protocol.value, "attack": found.arm, "level": view.level}
    shared |= {"method": "bootstrap of items"} | _lost(arena, {found.protocol.value}, found.arm)
    for i, system in enumerate(arena.systems):
        where = shared | {"group": _under(system, found.protocol, view)}
        for when, rating in (("before", found.before), ("after", found.after)):
            counts = {"n": int(rating.battles[i]), "n_clusters": rating.n_items}
            ends = {"value": rating.rating[i], "lower": rating.lower[i], "upper": rating.upper[i]}
            yield {"metric": f"rating_{when}"} | ends | counts | where
            ranks = {"value": rating.rank[i], "lower": rating.rank_lower[i], "upper": rating.rank_upper[i]}
            yield {"metric": f"rank_{when}"} | ranks | counts | where
        moved = {"value": found.shift[i], "lower": found.shift_lower[i], "upper": found.shift_upper[i]}
        counts = {"n": int(found.after.battles[i]), "n_clusters": found.after.n_items}
        yield {"metric": "rating_shift"} | moved | counts | where


CHUNK, CHUNK_ON_GPU = 48, 384
SECONDS_BETWEEN_WRITES = 2.0
CRITERIA: dict[str, dict[Protocol, str]] = {
    "overall": {},
    "overall, 1-7": {Protocol.POINTWISE: "overall 1-7"},
    "instruction following": {
        Protocol.POINTWISE: "instruction following",
        Protocol.PAIRWISE: "instruction following",
        Protocol.RANKING: "instruction following",
    },
}
"""The primary criterion the judge is told, and the variant of the prompt that tells it.

No built-in card ranks by instruction following, so that rankings are then skipped with the reason: rankings by another
criterion would stand beside numbers they do not belong to.
"""


class ProtocolsConfig(BaseModel):
    """What to run; the run's manifest holds it.

    Attributes:
        distractors: styles, each with its strength where that is not 1, for example `assertiveness:0.5`.
        placebo: whether the neutral paraphrase is judged too.
        rewriter: `rules`, or the spec of a model that rewrites.
        boards: distractors that the leaderboard is measured with.
        lowest: how many systems, from the lowest, are rewritten for it.
        criterion: what the judge is told to judge by; a key of `CRITERIA`.
        copies: whether every response is compared with itself and with its rewritings.
        rankings: whether n-wise rankings are asked for choice sets.
        tie_margin: largest difference of expected scores that is a tie; None: equal modal score.
        average: what of the two orders is averaged.
        elo_k: K of the online Elo.
        variants_of: run whose texts are taken in place of new rewritings.
        systems: only these; by default all.
        limit: only so many items.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    distractors: tuple[str, ...] = DISTRACTORS
    placebo: bool = True
    rewriter: str = "rules"
    boards: tuple[str, ...] = ("assertiveness",)
    lowest: int = Field(default=3, ge=1)
    criterion: Literal["overall", "overall, 1-7", "instruction following"] = "overall"
    copies: bool = True
    rankings: bool = False
    tie_margin: float | None = Field(default=None, ge=0)
    average: Literal["probability", "logit"] = "probability"
    elo_k: float = Field(default=16.0, gt=0)
    variants_of: str | None = None
    systems: tuple[str, ...] | None = None
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)

    @property
    def arms(self) -> list[str]:
        """Every arm with rewritten texts, the placebo last."""
        placebo = (PLACEBO,) if self.placebo else ()
        return list(dict.fromkeys((*self.distractors, *self.boards, *placebo)))

    @property
    def view(self) -> View:
        """How its verdicts are read."""
        return View(TieRule(self.tie_margin), self.average, self.level, self.seed)


def protocols_job(config: ProtocolsConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """The study as a job of the worker."""
    dataset = load_dataset(config.data, settings.datasets)
    run = create_run(settings.runs, "protocols", config.model_dump(), config.run_id)
    run_protocols(config, dataset, make_judge(config.judge, settings), run, settings, checkpoint)
    return {"run_id": run.run_id}


def run_protocols(
    config: ProtocolsConfig,
    dataset: Dataset,
    judge: Judge,
    run: RunFolder,
    settings: Settings,
    checkpoint: Checkpoint,
) -> pd.DataFrame:
    """Rewrite, judge in both protocols, write verdicts, variants and metrics; returns the metrics table.

    Raises:
        InputError: the data have no systems, or the judge answers neither protocol on them.
        Cancelled: from the checkpoint; finished calls are in the cache and the run is marked stopped.
    """
    dataset = _part(config, dataset)
    for arm in config.arms:
        parse_arm(arm)
    variants = _variants(config, dataset, settings)
    run.write_table("variants", variants)
    asker = Asker(dataset, variants, CRITERIA[config.criterion])
    _describe(run, config, dataset, judge, asker)
    session = _Session(keeping(judge, run), run, variants, within(config.budget_seconds, checkpoint))
    with ending(run, lambda: _finish(session, config, "stopped")):
        _ask_all(config, asker, session)
    return _finish(session, config, "done")


def plan_protocols(config: ProtocolsConfig, dataset: Dataset, judge: Judge, settings: Settings) -> Plan:
    """What the study would cost; which side of a pair is rewritten is not known yet, so that part is an estimate."""
    dataset = _part(config, dataset)
    asker = Asker(dataset, _variants(config, dataset, settings), CRITERIA[config.criterion])
    asked = [(asker.scores(), ()), (asker.clean_pairs(), (*(asker.copies() if config.copies else ()), *asker.likely()))]
    return make_plan([(judge, [*first, *more]) for first, more in asked if not able(judge.labels, first)])


class _Session:
    """Asks in chunks and keeps what was answered on disk."""

    def __init__(self, judge: Judge, run: RunFolder, variants: pd.DataFrame, checkpoint: Checkpoint) -> None:
        self.run, self.variants, self.skipped = run, variants, dict[str, str]()
        self._judge, self._checkpoint = judge, checkpoint
        self._tables: list[pd.DataFrame] = []
        self._done, self.expected, self._written = 0, 0, time.monotonic()

    def ask(self, requests: Sequence[Request]) -> None:
        """Judge all of them; what is finished stays when the checkpoint raises."""
        size = CHUNK_ON_GPU if device_of(self._judge).startswith("cuda") else CHUNK
        for start in range(0, len(requests), size):
            chunk = requests[start : start + size]
            verdicts = self._judge.judge(chunk, self._told)
            self._tables.append(verdict_table(self._judge, chunk, verdicts))
            self._done += len(chunk)
            if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
                self.run.write_table("verdicts", self.kept(self.verdicts()))
                self._written = time.monotonic()

    def able(self, protocol: Protocol, requests: Sequence[Request]) -> bool:
        """Whether the judge can be asked; if not, the reason is kept."""
        reason = able(self._judge.labels, requests)
        if reason:
            self.skipped[protocol.value] = reason
        return not reason

    def verdicts(self) -> pd.DataFrame:
        """All rows so far."""
        return pd.concat(self._tables, ignore_index=True) if self._tables else VERDICTS.empty()

    def kept(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """The rows so far, and behind them those of a retry that it has not come to."""
        return left_over(verdicts, self._judge, self.run)

    def arena(self) -> Arena:
        """The verdicts so far as arrays."""
        return build_arena(self.verdicts(), self.variants, label_values(self.run.manifest()["judge"]))

    def _told(self, done: int, _: int) -> None:
        self._checkpoint(self._done + done, max(self.expected, self._done + done))


def _ask_all(config: ProtocolsConfig, asker: Asker, session: _Session) -> None:
    scores, pairs, copies = asker.scores(), asker.clean_pairs(), asker.copies() if config.copies else []
    pointwise, pairwise = session.able(Protocol.POINTWISE, scores), session.able(Protocol.PAIRWISE, pairs)
    if not (pointwise or pairwise):
        raise InputError(f"{config.judge} can be asked in neither protocol. {' '.join(session.skipped.values())}")
    # the comparisons with a rewritten side are known only once the clean ones are judged; about one side each
    guess = len(pairs) * (len(asker.arms) + len(config.boards))
    session.expected = pointwise * len(scores) + pairwise * (len(pairs) + len(copies) + guess)
    if pointwise:
        session.ask(scores)
    if pairwise:
        session.ask(pairs)
        session.ask(copies)
        needs = Needs(config.lowest, frozenset(config.boards))
        distracted = asker.distracted(session.arena(), needs, config.view)
        session.expected += len(distracted) - guess
        session.ask(distracted)
    if config.rankings:
        _ask_rankings(config, asker, session)


def _ask_rankings(config: ProtocolsConfig, asker: Asker, session: _Session) -> None:
    """Rankings, if the judge can write them: the first item is tried, and nothing more where it gave none."""
    requests = asker.rankings(config.seed)
    if not session.able(Protocol.RANKING, requests):
        return
    first = [r for r in requests if r.item_id == requests[0].item_id]
    session.ask(first)
    told = session.verdicts().tail(len(first))
    if told["unread_reason"].notna().all():
        reason = Counter(told["unread_reason"]).most_common(1)[0][0]
        session.skipped[Protocol.RANKING.value] = f"no ranking of the first item could be read: {reason}"
        return
    session.ask(requests[len(first) :])


def _part(config: ProtocolsConfig, dataset: Dataset) -> Dataset:
    """The items and systems asked for."""
    responses = dataset.responses
    if config.systems:
        unknown = sorted(set(config.systems) - set(responses["system"].dropna()))
        if unknown:
            there = ", ".join(sorted(set(responses["system"].dropna())))
            raise InputError(f"The data {dataset.name} have no system {unknown[0]!r}. There are: {there}.")
        responses = responses[responses["system"].isin(config.systems)]
    if config.limit:
        responses = responses[responses["item_id"].isin(list(dict.fromkeys(responses["item_id"]))[: config.limit])]
    items = dataset.items[dataset.items["item_id"].isin(responses["item_id"])]
    return replace(dataset, items=items.reset_index(drop=True), responses=responses.reset_index(drop=True))


def _variants(config: ProtocolsConfig, dataset: Dataset, settings: Settings) -> pd.DataFrame:
    if config.variants_of:
        return check_reused(open_run(settings.runs, config.variants_of).table("variants"), dataset, config.arms)
    return variant_table(dataset, config.arms, make_rewriter(config.rewriter, settings), seed=config.seed)


def _describe(run: RunFolder, config: ProtocolsConfig, dataset: Dataset, judge: Judge, asker: Asker) -> None:
    scores = asker.scores()
    labels = [] if able(judge.labels, scores) else list(judge.labels(scores[0]))
    run.update_manifest(
        data=about_data(dataset, len(dataset.items), len(dataset.responses))
        | {"systems": sorted(set(dataset.responses["system"]))},
        judge=about_judge(judge, labels, [*scores[:1], *asker.clean_pairs()[:1]])
        | {"values": _values(judge, scores[0]) if labels else []},
        criterion=config.criterion,
    )


def _values(judge: Judge, request: Request) -> list[float]:
    """The score of each label that a judge with cards offers; empty for a judge without, whose labels are numbers."""
    inner: Any = judge
    while hasattr(inner, "inner"):
        inner = inner.inner
    return list(inner.card(request).values) if hasattr(inner, "card") else []


def _finish(session: _Session, config: ProtocolsConfig, state: str) -> pd.DataFrame:
    verdicts = session.verdicts()
    metrics = METRICS.empty()
    if len(verdicts):
        session.run.write_table("verdicts", session.kept(verdicts) if state == "stopped" else verdicts)
        metrics = metrics_of(session.arena(), config.view, config.boards, config.lowest, config.elo_k)
        session.run.write_table("metrics", metrics)
    session.run.update_manifest(state=state, finished=now(), skipped=session.skipped)
    return metrics
