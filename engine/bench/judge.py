"""`judgescope bench judge`: every figure of the model card, measured again, beside the card's own numbers."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.registry import make_attack
from engine.bench.base import Bench, Figures, Floats, note
from engine.core.cache import CallCache
from engine.core.errors import InputError
from engine.core.json import dumps
from engine.core.schema import NONE, Order, Outcome, Protocol, Task
from engine.core.settings import Settings, get_settings
from engine.inference.loading import LoadedModel, load_model, pick_device
from engine.judges.base import Request
from engine.stats.agreement import cluster_spearman, first_slot_rate, order_agreement
from engine.stats.intervals import Interval, cluster_mean, cluster_rate
from engine.training.corrupt import Random, part_scrambled, repeated, scrambled, truncated
from engine.training.drafts import read_drafts
from engine.training.examples import capped, load_asker, nearest_anchors
from engine.training.heldout import Side, near_duplicates
from engine.training.material import known_names, trained_prompts
from engine.training.pools import ANCHOR_WORDS, GENERIC_SUMMARIES, by_cluster, pick
from engine.training.rules import build_response, usable, with_simple_rules
from engine.training.sources import (
    DEFAULT_DATA,
    Pair,
    Rated,
    read_dialogues,
    read_lines,
    read_pairs,
    read_rule_prompts,
    read_solutions,
    read_summaries,
    read_written,
)
from engine.training.style import Dress, dressed, dressed_dialogue, glued, recased

# Does the judge use its scale? Constructed texts of known low quality on contexts it was not trained on.

GOOD_FROM = 3.75
"""A response rated at least this is taken as a good one."""
BROKEN_LEVELS = ("scrambled", "part scrambled", "repeated", "cut off", "nothing")
Row = tuple[str, str, str, str]
"""Cluster, context, level, text."""


def measure_range(bench: Bench) -> None:
    """Mean scores by constructed level and, where the base model's drafts are at hand, how format rules are scored."""
    assets = get_settings().assets / "training"
    generic = (assets / "generic_replies.txt").read_text(encoding="utf-8").splitlines()
    summaries = [r for r in read_summaries(bench.data) if r.side is bench.side]
    names = known_names([s.context for s in summaries])
    dialogues = [r for r in read_dialogues(bench.data) if r.side is bench.side]
    _levels(bench, "summary", Task.SUMMARY, list(_summary_rows(_best(bench, summaries), names)))
    best = _best(bench, dialogues)
    for dress in (Dress.TOKENISED, Dress.MARKED):
        _levels(bench, f"dialogue_{dress}", Task.DIALOGUE, list(_dialogue_rows(best, dress, names, generic)))
    _levels(bench, "dialogue_written", Task.DIALOGUE, list(_written_rows(bench, assets / "dialogues.jsonl", generic)))
    if (assets / "drafts.jsonl").is_file():  # sampled, not part of the project; without them this figure is left out
        _rules(bench, read_drafts(assets / "drafts.jsonl"))


def _best(bench: Bench, rated: Sequence[Rated]) -> list[Rated]:
    """The best rated response of each context that has a good one."""
    groups = by_cluster(rated)
    top = [max(groups[name], key=lambda r: r.rating) for name in groups if name in bench.taken(groups)]
    return [r for r in top if r.rating >= GOOD_FROM]


def _random(name: str) -> Random:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _broken(text: str, rng: Random) -> Iterator[tuple[str, str]]:
    yield "scrambled", scrambled(text, rng)
    yield "part scrambled", part_scrambled(text, rng)
    yield "repeated", repeated(text, rng)
    yield "cut off", truncated(text, rng)[0]
    yield "nothing", ""


def _summary_rows(best: Sequence[Rated], names: dict[str, str]) -> Iterator[Row]:
    for i, one in enumerate(best):
        rng = _random(one.cluster)
        text = recased(glued(one.cased), names)
        other = best[(i + 1) % len(best)]
        levels = [("good", text), ("off topic", recased(glued(other.cased), names)), *_broken(text, rng)]
        for level, made in [*levels, ("generic", pick(GENERIC_SUMMARIES, rng))]:
            yield one.cluster, one.context, level, made


def _dialogue_rows(best: Sequence[Rated], dress: Dress, names: dict[str, str], generic: Sequence[str]) -> Iterator[Row]:
    known = names if dress is not Dress.TOKENISED else {}

    def worn(text: str) -> str:
        return recased(dressed(text, dress, "tokenised"), known)

    for i, one in enumerate(best):
        rng = _random(one.cluster)
        turns = one.context.split("\n")[-4:] if dress is Dress.MARKED else one.context.split("\n")
        context = recased(dressed_dialogue(turns, dress, ("A", "B"), "tokenised"), known)
        levels = [("good", one.response), ("off topic", best[(i + 1) % len(best)].response)]
        for level, text in [*levels, *_broken(one.response, rng)]:
            yield one.cluster, context, level, worn(text)
        yield one.cluster, context, "generic", dressed(pick(generic, rng), dress, "ordinary")


def _written_rows(bench: Bench, path: Path, generic: Sequence[str]) -> Iterator[Row]:
    own = [w for w in read_written(path) if w.side is bench.side][: bench.limit]
    for i, one in enumerate(own):
        rng = _random(one.cluster)
        context = dressed_dialogue(one.turns, Dress.MARKED, ("A", "B"), "ordinary")
        levels = [("good", text) for text in one.good] + [("weak", text) for text in one.weak]
        levels += [("off topic", text) for text in own[(i + 1) % len(own)].good]
        levels += [("generic", pick(generic, rng)), ("generic", pick(generic, rng))]
        for level, text in [*levels, *_broken(one.good[0], rng)]:
            yield one.cluster, context, level, text


def _levels(bench: Bench, name: str, task: Task, rows: Sequence[Row]) -> None:
    """The mean score of each level, and the mean gap between good and broken within a context."""
    options: dict[str, Any] = {"level": bench.level, "seed": bench.seed}
    found = bench.scores(f"range {name}", task.value, [{"context": c, "response": t} for _, c, _, t in rows])
    by_level: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (cluster, _, level, _), score in zip(rows, found.tolist(), strict=True):
        by_level[level].append((cluster, score))
        if level in BROKEN_LEVELS:
            by_level["broken"].append((cluster, score))
    for level, pairs in by_level.items():
        clusters, scores = zip(*pairs, strict=True)
        bench.figures[f"range_{name}_{level.replace(' ', '_')}"] = cluster_mean(scores, clusters, **options)
    good = {c: float(np.mean([s for own, s in by_level["good"] if own == c])) for c, _ in by_level["good"]}
    for level in ("broken", "off topic", "generic"):
        gaps = [(c, good[c] - s) for c, s in by_level[level]]
        clusters, values = zip(*gaps, strict=True) if gaps else ((), ())
        key = f"range_{name}_good_minus_{level.replace(' ', '_')}"
        bench.figures[key] = cluster_mean(values, clusters, **options)


def _rules(bench: Bench, drafts: dict[str, str]) -> None:
    """Spearman between the score and the share of format rules met, on constructed responses."""
    rules = [r for r in read_rule_prompts(bench.data) if r.side is bench.side and usable(r)][: bench.limit]
    prompts, shares, clusters = [], [], []
    for rule in rules:
        rng = _random(f"ifeval:{rule.key}")
        task = with_simple_rules(rule, rng)
        for count in range(len(task.rules) + 1):
            order = rng.permutation(len(task.rules))
            wanted = [bool(order[i] < count) for i in range(len(task.rules))]
            text = build_response(task, drafts[f"ifeval:{rule.key}"], wanted, rng)
            prompts.append({"context": task.prompt, "response": text})
            shares.append(task.share(text))
            clusters.append(rule.key)
    scores = bench.scores("format rules", "instruction", prompts)
    bench.figures["instruction_rules_spearman"] = cluster_spearman(
        scores, shares, clusters, level=bench.level, seed=bench.seed
    )


# Abilities of the bundled judge, measured on one side of the public data: the figures of its model card.
#
# Every number comes from prompts made with the project's cards and read as label probabilities, as the judges do.

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
    own_pairs = [p for p in read_pairs(bench.data) if p.side is bench.side]
    trained = trained_prompts(bench.data, frozenset(Side) - {Side.TEST, bench.side})
    near = near_duplicates((p.prompt for p in own_pairs), trained)
    pairs = [p for p in own_pairs if p.prompt not in near]
    bench.figures["pair_near_duplicates"] = _count(len(own_pairs) - len(pairs), len(own_pairs))
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
    every = list(read_lines(bench.data, "llmbar/pairs.jsonl"))
    near = near_duplicates((row["prompt"] for row in every), trained_prompts(bench.data, (Side.TRAIN, Side.TUNE)))
    rows = [row for row in every if row["prompt"] not in near]
    bench.figures["llmbar_near_duplicates"] = _count(len(every) - len(rows), len(every))
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


CARD_FIGURES = "figures.json"
"""Beside the adapter: what the model card prints, as `bench judge` wrote it."""


def add_judge(kinds: Any) -> None:
    """Add `bench judge`."""
    judge = kinds.add_parser("judge", help="the figures of the bundled judge's model card")
    judge.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    judge.add_argument("--adapter", type=Path, metavar="DIR", help="another adapter than the bundled one")
    judge.add_argument("--side", default=Side.TEST.value, choices=[Side.TEST.value, Side.TUNE.value])
    judge.add_argument("--limit", type=int, metavar="N", help="only the first N documents, dialogues, prompts, ...")
    judge.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    judge.add_argument("--out", type=Path, metavar="FILE", help="also write the figures there, as JSON")
    judge.add_argument("--no-cache", action="store_true", help="ask again even where an answer is kept")
    judge.add_argument("--json", action="store_true", help="last line is one JSON object")
    judge.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return the figures by name.

    Raises:
        InputError: a data file is missing, or the limit is not positive.
    """
    settings = get_settings()
    if args.limit is not None and args.limit < 1:
        raise InputError(f"--limit is {args.limit}; give at least 1.")
    started = time.monotonic()
    bench = Bench(
        loaded=load_exact(settings, args.adapter),
        asker=load_asker(settings.assets / "cards"),
        data=args.data,
        side=Side(args.side),
        limit=args.limit,
        seed=args.seed,
        cache=None if args.no_cache else CallCache(settings.calls),
        note=note,
    )
    figures = measure_judge(bench)
    result: dict[str, Any] = {name: as_record(f) for name, f in figures.items()}
    result["measurement"] = {
        "side": bench.side.value,
        "limit": args.limit,
        "judge_calls": bench.calls,
        "unread": bench.unread,
        "lowest_coverage": bench.lowest_coverage,
        "fingerprint": bench.loaded.fingerprint,
        "device": bench.loaded.device,
        "seconds": time.monotonic() - started,
    }
    print(table(figures, card_figures(settings.assets / "judge" / CARD_FIGURES)))
    print(f"{bench.calls:,} judge calls, {bench.unread} unread, lowest coverage {bench.lowest_coverage:.3f}.")
    if args.out:
        args.out.write_text(dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def load_exact(settings: Settings, adapter: Path | None = None) -> LoadedModel:
    """The bundled judge in float32 on whatever device there is, so that the card's numbers do not depend on it.

    Args:
        settings: where the weights are.
        adapter: a folder with another adapter in peft's format; None for the bundled one.
    """
    device = pick_device(settings.device)
    on_cpu = replace(settings, device="cpu")
    loaded = load_model("bundled:base" if adapter else "bundled:judge", on_cpu)
    if adapter:
        from peft import PeftModel

        from engine.inference.weights import sha256_of

        model: Any = PeftModel.from_pretrained(loaded.model, str(adapter)).merge_and_unload().eval()
        digest = sha256_of(adapter / "adapter_model.safetensors")
        loaded = replace(loaded, model=model, fingerprint=f"{loaded.fingerprint}-{digest[:16]}")
    return replace(loaded, model=loaded.model.to(device), device=device)


def as_record(figure: Interval) -> dict[str, Any]:
    """One figure as the JSON names it."""
    return {
        "value": figure.value,
        "lower": figure.lower,
        "upper": figure.upper,
        "n": figure.n,
        "n_clusters": figure.n_clusters,
        "method": figure.method,
    }


def card_figures(path: Path) -> dict[str, dict[str, Any]]:
    """The model card's figures of the shipped adapter; empty where the card has none yet."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["shipped"])
    except OSError:
        return {}
    except (ValueError, KeyError) as error:
        raise InputError(f"{path.name} beside the adapter is damaged ({error}). Restore it from the project.") from None


def table(figures: Mapping[str, Interval], card: Mapping[str, Mapping[str, Any]]) -> str:
    """Each figure with its interval and, beside it, the card's."""
    head = f"{'figure':<44} {'measured now':<26} {'n':>5}  card"
    lines = [head, "-" * len(head)]
    for name, f in figures.items():
        own = card.get(name)
        claimed = _number(own["value"], own["lower"], own["upper"]) if own else ""
        lines.append(f"{name:<44} {_number(f.value, f.lower, f.upper):<26} {f.n:>5}  {claimed}".rstrip())
    return "\n".join(lines)


def _number(value: float | None, lower: float | None, upper: float | None) -> str:
    if value is None:
        return "undefined"
    if lower is None or upper is None or lower != lower or upper != upper:
        return f"{value:.3f}"
    return f"{value:.3f} [{lower:.3f}, {upper:.3f}]"
