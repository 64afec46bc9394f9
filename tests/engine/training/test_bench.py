"""`bench judge` on a toy copy of the data: every key is there, and its numbers are the judges' own."""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pytest

from engine.bench import judge as judge_bench
from engine.bench.base import Bench
from engine.bench.judge import PairRows, measure_judge
from engine.core.cache import CallCache
from engine.core.errors import InputError
from engine.core.json import dumps
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.judges.base import Request
from engine.judges.cards import built_in_cards
from engine.judges.kinds import PointwiseJudge
from engine.stats.agreement import cluster_spearman, spearman
from engine.stats.intervals import Interval
from engine.training.examples import load_asker
from engine.training.heldout import Side
from engine.training.sources import Pair

NAMED = (
    "summeval_spearman",
    "topicalchat_spearman",
    "pair_accuracy",
    "first_slot_rate",
    "order_agreement",
    "verification_accuracy",
    "anchored_summeval_spearman",
    "anchored_topicalchat_spearman",
)


@pytest.fixture
def bench(tiny, toy_data, monkeypatch):
    monkeypatch.setattr("engine.bench.base.MIN_COVERAGE", 0.0)  # a random model puts little on the labels
    return Bench(tiny, load_asker(get_settings().assets / "cards"), toy_data)


@pytest.mark.slow
def test_every_figure_is_measured(bench):
    figures = measure_judge(bench)
    assert set(NAMED) <= set(figures)
    assert figures["summeval_spearman"].n == 6
    assert figures["verification_accuracy"].n == 4
    assert (figures["pair_accuracy"].n, figures["pair_human_ties"].value) == (2, pytest.approx(1 / 3))
    assert {"llmbar_natural_accuracy", "llmbar_adversarial_accuracy"} <= set(figures)
    assert all(isinstance(f, Interval) for f in figures.values())
    assert bench.unread == 0


def test_the_tuning_side_reads_neither_llmbar_nor_the_test_side(bench):
    bench.side = Side.TUNE
    figures = measure_judge(bench)
    assert not any(name.startswith("llmbar") for name in figures)
    assert figures["summeval_spearman"].n == 0


def test_the_limit_takes_whole_documents(bench):
    bench.limit = 1
    assert measure_judge(bench)["summeval_spearman"].n == 3


def test_scores_are_those_of_the_pointwise_judge(bench):
    judge = PointwiseJudge(bench.loaded, built_in_cards(get_settings().assets / "cards"), min_coverage=0.0)
    verdict = judge.judge([Request("i", "r", Task.DIALOGUE, "A: Hi.", "Hello.")])[0]
    own = bench.scores("x", "dialogue", [{"context": "A: Hi.", "response": "Hello."}])
    assert own[0] == pytest.approx(verdict.score, abs=1e-6)


@pytest.mark.slow
def test_a_second_measurement_comes_from_the_cache(bench, tmp_path, monkeypatch):
    bench.cache = CallCache(tmp_path / "calls.sqlite")
    first = {k: f.value for k, f in measure_judge(bench).items()}
    monkeypatch.setattr("engine.bench.base.label_probabilities", None)
    again = measure_judge(replace(bench, figures={}))
    assert {k: f.value for k, f in again.items()} == pytest.approx(first, nan_ok=True)


def test_low_coverage_is_unread_and_leaves_the_figures(bench, monkeypatch):
    monkeypatch.setattr("engine.bench.base.MIN_COVERAGE", 0.9)
    assert np.isnan(bench.scores("x", "dialogue", [{"context": "a", "response": "b"}])).all()
    assert bench.unread == 1


def pair(human: str) -> Pair:
    return Pair(human, "s", Side.TEST, human, "", "x y", "z", (0.0, 0.0, 0.0), human)


def test_pair_figures_follow_their_definitions():
    both = np.array(
        [
            [[0.9, 0.1, 0.0], [0.6, 0.4, 0.0]],  # a in both orders
            [[0.8, 0.2, 0.0], [0.1, 0.9, 0.0]],  # first slot in both orders; averaged: b
            [[0.2, 0.1, 0.7], [0.2, 0.1, 0.7]],  # tie
        ]
    )
    rows = PairRows([pair("a"), pair("a"), pair("b")], both)
    assert rows.right().tolist() == [1.0, 0.0, 0.5]
    assert rows.right_each_order().tolist() == [1.0, 0.5, 0.5]
    verdicts = rows.verdicts()
    assert verdicts["outcome"].tolist() == ["a", "a", "a", "b", "tie", "tie"]
    assert judge_bench_rate(verdicts) == pytest.approx((1 + 0 + 1 + 1 + 0.5 + 0.5) / 6)


def judge_bench_rate(verdicts):
    from engine.stats.agreement import first_slot_rate

    return first_slot_rate(verdicts).value


def test_the_table_shows_the_card_beside_the_new_number():
    figure = Interval(0.5, 0.4, 0.6, 0.95, "m", 10, 5)
    card = {"x": judge_bench.as_record(replace(figure, value=0.55)), "gone": judge_bench.as_record(figure)}
    text = judge_bench.table({"x": figure, "new": replace(figure, lower=float("nan"))}, card)
    assert "0.500 [0.400, 0.600]" in text
    assert "0.550 [0.400, 0.600]" in text
    assert "new" in text
    assert dumps(judge_bench.as_record(replace(figure, lower=float("nan")))).count("null") == 1


@pytest.mark.slow
def test_the_command_line(toy_data, bench, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(judge_bench, "load_exact", lambda settings, adapter: bench.loaded)
    parser = argparse.ArgumentParser()
    judge_bench.add_judge(parser.add_subparsers())
    out = tmp_path / "figures.json"
    args = parser.parse_args(["judge", "--data", str(toy_data), "--no-cache", "--out", str(out), "--json"])
    result = args.run(args)
    assert {"value", "lower", "upper", "n"} <= set(result["summeval_spearman"])
    assert "summeval_spearman" in capsys.readouterr().out
    assert out.read_text(encoding="utf-8").startswith("{")
    args.limit = 0
    with pytest.raises(InputError, match="--limit"):
        args.run(args)


def test_missing_data_name_the_option(bench, tmp_path):
    bench.data = tmp_path / "nowhere"
    with pytest.raises(InputError, match="--data DIR"):
        measure_judge(bench)


def test_spearman_matches_scipy_and_its_interval_holds_it():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 60).astype(float)
    y = x + rng.normal(0, 2, 60)
    assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic)
    found = cluster_spearman(x, y, np.repeat(np.arange(12), 5))
    assert found.lower < found.value < found.upper
    assert found.n_clusters == 12
    assert np.isnan(cluster_spearman([1.0, 1.0], [1.0, 2.0], ["a", "b"]).value)
    with pytest.raises(InputError, match="one a row"):
        cluster_spearman([1.0], [1.0, 2.0], [1])
