"""What the bundled judge can do, measured on one side of the public data: the figures of its model card.

Every number comes from prompts made with the project's cards and read as label probabilities, as the judges do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.registry import make_attack
from engine.judges.base import Request
from engine.metrics.agreement import cluster_spearman
from engine.metrics.intervals import Interval, cluster_mean, cluster_rate
from engine.metrics.order import first_slot_rate, order_agreement
from engine.schema import NONE, Order, Outcome, Protocol, Task
from engine.studies.bench_base import Bench, Figures, Floats
from engine.studies.judge_range import measure_range
from engine.training.examples import capped, nearest_anchors
from engine.training.heldout import Side
from engine.training.pools_base import ANCHOR_WORDS, by_cluster
from engine.training.sources import (
    Pair,
    Rated,
    read_dialogues,
    read_lines,
    read_pairs,
    read_solutions,
    read_summaries,
)

ATTACKS = ("dsi", "bed")
SETS: dict[Task, str] = {Task.SUMMARY: "summeval", Task.DIALOGUE: "topicalchat"}


def measure_judge(bench: Bench) -> Figures:
    """Every figure of the model card, on the bench's side of the data.

    LLMBar's own pairs have no sides (they are never trained on); all of them are read, and only for the test side.

    Raises:
        InputError: a data file is missing.
    """
    for task, rated in ((Task.SUMMARY, read_summaries(bench.data)), (Task.DIALOGUE, read_dialogues(bench.data))):
        own = [r for r in rated if r.side is bench.side]
        names = bench.taken(r.cluster for r in own)
        _measure_rated(bench, task, [r for r in own if r.cluster in names])
    pairs = [p for p in read_pairs(bench.data) if p.side is bench.side]
    names = bench.taken(p.prompt for p in pairs)
    _measure_pairs(bench, [p for p in pairs if p.prompt in names])
    if bench.side is Side.TEST:
        _measure_llmbar(bench)
    _measure_verifier(bench)
    measure_range(bench)
    return bench.figures


def _slots(one: Rated, text: str | None = None) -> dict[str, str]:
    return {"context": one.context, "response": one.response if text is None else text}


def _measure_rated(bench: Bench, task: Task, rated: Sequence[Rated]) -> None:
    """Agreement with people, plain and anchored; shifts under injections; correlation with length."""
    name, clusters = SETS[task], [r.cluster for r in rated]
    truth = [r.rating for r in rated]
    options: dict[str, Any] = {"level": bench.level, "seed": bench.seed}
    plain = bench.scores(name, task.value, [_slots(r) for r in rated])
    bench.figures[f"{name}_spearman"] = cluster_spearman(plain, truth, clusters, **options)
    bench.figures[f"{name}_mean"] = cluster_mean(plain, clusters, **options)
    groups = by_cluster(rated)
    prompts, rows = [], []
    for i, one in enumerate(rated):
        found = nearest_anchors([(o.response, o.rating) for o in groups[one.cluster] if o is not one])
        if found:
            low, high = (capped(a, ANCHOR_WORDS[task]) for a in found)
            prompts.append({**_slots(one), "anchor_low": low, "anchor_high": high})
            rows.append(i)
    anchored = np.full(len(rated), np.nan)
    anchored[rows] = bench.scores(f"{name} anchored", f"{task.value}-anchored", prompts)
    bench.figures[f"anchored_{name}_spearman"] = cluster_spearman(anchored, truth, clusters, **options)
    for attack_name in ATTACKS:
        attack = make_attack(attack_name)
        requests = [Request(r.cluster, "", task, r.context, r.response) for r in rated]
        texts = [attack.apply(request) for request in requests]
        attacked = bench.scores(
            f"{name} {attack_name}", task.value, [_slots(r, t) for r, t in zip(rated, texts, strict=True)]
        )
        bench.figures[f"{name}_{attack_name}_shift"] = cluster_mean(attacked - plain, clusters, **options)
    words = [len(r.response.split()) for r in rated]
    bench.figures[f"{name}_length_correlation"] = cluster_spearman(plain, words, clusters, **options)
    bench.figures[f"{name}_human_length_correlation"] = cluster_spearman(truth, words, clusters, **options)


@dataclass(frozen=True)
class PairRows:
    """Answers to pairs in both orders, order undone: probabilities (N, 2 orders, a b tie)."""

    pairs: list[Pair]
    probabilities: Floats

    def verdicts(self) -> pd.DataFrame:
        """The columns of the `verdicts` table that the order metrics read."""
        outcomes = np.array([Outcome.A.value, Outcome.B.value, Outcome.TIE.value], dtype=object)
        rows = []
        for pair, both in zip(self.pairs, self.probabilities, strict=True):
            for order, p in zip((Order.AB, Order.BA), both, strict=True):
                rows.append(
                    {
                        "protocol": Protocol.PAIRWISE.value,
                        "item_id": cluster_of(pair),
                        "response_id": f"{pair.pair_id}:a",
                        "response_b": f"{pair.pair_id}:b",
                        "attack": NONE,
                        "defense": NONE,
                        "order": order.value,
                        "outcome": None if np.isnan(p).any() else outcomes[int(p.argmax())],
                    }
                )
        columns = ["protocol", "item_id", "response_id", "response_b", "attack", "defense", "order", "outcome"]
        return pd.DataFrame(rows, columns=columns)

    def right(self) -> Floats:
        """1, 0, or one half for a tie, of the verdict on the probabilities averaged over both orders."""
        return np.array(
            [_right(p.mean(axis=0), pair.human) for pair, p in zip(self.pairs, self.probabilities, strict=True)]
        )

    def right_each_order(self) -> Floats:
        """The same for each order on its own, averaged over the two."""
        each = [[_right(o, pair.human) for o in p] for pair, p in zip(self.pairs, self.probabilities, strict=True)]
        both: Floats = np.array(each, dtype=np.float64).reshape(-1, 2)
        return (both[:, 0] + both[:, 1]) / 2


def cluster_of(pair: Pair) -> str:
    """A short name of the pair's prompt, its cluster."""
    return hashlib.sha256(pair.prompt.encode()).hexdigest()[:16]


def _right(p: Floats, human: str) -> float:
    if np.isnan(p).any():
        return float("nan")
    outcome = ("a", "b", "tie")[int(p.argmax())]
    return 0.5 if outcome == "tie" else float(outcome == human)


def judge_pairs(bench: Bench, what: str, pairs: Sequence[Pair]) -> PairRows:
    """Both orders of each pair."""
    card = bench.asker.cards["pairwise"]
    ab = [{"context": p.context, "response_a": p.response_a, "response_b": p.response_b} for p in pairs]
    ba = [{"context": p.context, "response_a": p.response_b, "response_b": p.response_a} for p in pairs]
    rows = bench.ask(what, card, [*ab, *ba])
    first, second = rows[: len(pairs)], rows[len(pairs) :]
    return PairRows(list(pairs), np.stack([first, second[:, [1, 0, 2]]], axis=1))


def _measure_pairs(bench: Bench, pairs: Sequence[Pair]) -> None:
    """Human-labelled pairs: ties of the humans are left out of accuracy and order figures, and counted."""
    decided = judge_pairs(bench, "pairs", [p for p in pairs if p.human != "tie"])
    clusters = [cluster_of(p) for p in decided.pairs]
    options: dict[str, Any] = {"level": bench.level, "seed": bench.seed}
    bench.figures["pair_accuracy"] = cluster_rate(decided.right(), clusters, **options)
    bench.figures["pair_accuracy_each_order"] = cluster_rate(decided.right_each_order(), clusters, **options)
    bench.figures["pair_human_ties"] = _count(sum(p.human == "tie" for p in pairs), len(pairs))
    for subset in ("PandaLM", "other"):
        chosen = [i for i, p in enumerate(decided.pairs) if (p.subset == "PandaLM") is (subset == "PandaLM")]
        bench.figures[f"pair_accuracy_{subset.lower()}"] = cluster_rate(
            decided.right()[chosen], [clusters[i] for i in chosen], **options
        )
    verdicts = decided.verdicts()
    bench.figures["first_slot_rate"] = first_slot_rate(verdicts, **options)
    bench.figures["order_agreement"] = order_agreement(verdicts, **options)
    ties = (verdicts["outcome"] == Outcome.TIE.value).to_numpy(dtype=float)
    bench.figures["judge_tie_rate"] = cluster_rate(ties, verdicts["item_id"].to_numpy(), **options)
    sizes = np.array([[len(p.response_a.split()), len(p.response_b.split())] for p in decided.pairs]).reshape(-1, 2)
    b_longer = np.where(sizes[:, 0] == sizes[:, 1], np.nan, sizes[:, 1] > sizes[:, 0])
    mean = decided.probabilities.mean(axis=1)
    judge_b = np.where(np.isnan(mean[:, 0]), np.nan, mean[:, 1] > mean[:, 0])
    human_b = np.array([float(p.human == "b") for p in decided.pairs])
    for key, chosen_b in (("pair_prefers_longer", judge_b), ("pair_humans_prefer_longer", human_b)):
        same = np.where(np.isnan(b_longer) | np.isnan(chosen_b), np.nan, chosen_b == b_longer)
        bench.figures[key] = cluster_rate(same, clusters, **options)


def _count(k: int, n: int) -> Interval:
    """A plain share of the data, without an interval: it is counted, not estimated."""
    return Interval(k / n if n else float("nan"), float("nan"), float("nan"), 0.95, "counted", n, n)


def _measure_llmbar(bench: Bench) -> None:
    """LLMBar by subset: how far the judge falls for an answer that only looks better."""
    rows = list(read_lines(bench.data, "llmbar/pairs.jsonl"))
    subsets = list(dict.fromkeys(row["subset"] for row in rows))
    pairs = []
    for subset in subsets:
        own = [row for row in rows if row["subset"] == subset][: bench.limit]
        pairs += [
            Pair(
                r["id"],
                subset,
                Side.TEST,
                r["prompt"],
                "",
                r["response_a"],
                r["response_b"],
                (0.0, 0.0, 0.0),
                r["label"],
            )
            for r in own
        ]
    judged = judge_pairs(bench, "LLMBar", pairs)
    right, clusters = judged.right(), np.array([cluster_of(p) for p in pairs])
    options: dict[str, Any] = {"level": bench.level, "seed": bench.seed}
    of = np.array([p.subset for p in pairs])
    for subset in subsets:
        key = f"llmbar_{subset.lower()}_accuracy"
        bench.figures[key] = cluster_rate(right[of == subset], clusters[of == subset], **options)
    hard = of != "Natural"
    bench.figures["llmbar_adversarial_accuracy"] = cluster_rate(right[hard], clusters[hard], **options)


def _measure_verifier(bench: Bench) -> None:
    """GSM8K solutions against the reference, the more probable of Yes and No."""
    solutions = [s for s in read_solutions(bench.data) if s.side is bench.side]
    names = bench.taken(str(s.number) for s in solutions)
    solutions = [s for s in solutions if str(s.number) in names]
    prompts = [{"context": s.question, "reference": s.reference, "response": s.response} for s in solutions]
    card = bench.asker.cards["verifier"]
    p_yes = bench.ask("verification", card, prompts) @ np.asarray(card.values, dtype=np.float64)
    right = np.where(np.isnan(p_yes), np.nan, (p_yes > 0.5) == np.array([s.correct for s in solutions]))
    clusters = [s.number for s in solutions]
    options: dict[str, Any] = {"level": bench.level, "seed": bench.seed}
    bench.figures["verification_accuracy"] = cluster_rate(right, clusters, **options)
