"""Study `protocols` with judges whose truth is known: parameters come back, and bad data say what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from engine.attacks.distractors import DISTRACTORS
from engine.attacks.format_rules import CHECKERS, failed_rules
from engine.attacks.rewriting import RuleRewriter
from engine.cli.main import main
from engine.core.errors import Cancelled, InputError
from engine.core.schema import ITEMS, NONE, RESPONSES, Outcome, Protocol
from engine.data.dataset import Dataset
from engine.data.store import DEMO_INSTRUCTION, load_dataset
from engine.judges.base import Cost, Verdict, no_checkpoint
from engine.judges.planted import make_planted, sounds, verbosity_bonus
from engine.runs.folder import create_run
from engine.stats.arena import build_arena
from engine.studies.protocols.leaderboard import board, choice_sets, win_table
from engine.studies.protocols.metrics import (
    TieRule,
    View,
    calls_by_arm,
    copy_rates,
    first_slot,
    flips,
    ladder,
    order_disagreement,
    outcomes,
)
from engine.studies.protocols.requests import severity_by_name, variant_table
from engine.studies.protocols.run import DistractOne, as_task, distract_one, run_protocols
from engine.studies.protocols.study import QUICK_CALLS, QUICK_ITEMS, ProtocolsConfig, quick_items
from engine.studies.protocols.summary import as_json
from engine.studies.rewrites import parse_arm

VIEW = View()


def made(
    n_items=10, systems=("s1", "s2", "s3", "s4"), text="The answer of {s} to question {i} is here and it is long."
):
    """Data of our own: every system answers every item."""
    items = pd.DataFrame(
        {"item_id": [f"i{i:03d}" for i in range(n_items)], "task": "instruction", "context": "Say it."}
    )
    rows = [
        {"response_id": f"{s}-{i}", "item_id": f"i{i:03d}", "system": s, "text": text.format(s=s, i=i)}
        for i in range(n_items)
        for s in systems
    ]
    return Dataset("0" * 16, "made", "instruction", ITEMS.conform(items), RESPONSES.conform(pd.DataFrame(rows)))


def ran(settings, judge, data=None, **changes):
    judge = make_planted(judge) if isinstance(judge, str) else judge
    config = ProtocolsConfig(judge=judge.spec, data=DEMO_INSTRUCTION, **changes)
    run = create_run(settings.runs, "protocols", config.model_dump(mode="json"))
    metrics = run_protocols(config, data or made(), judge, run, settings, no_checkpoint)
    return run, metrics, build_arena(run.table("verdicts"), run.table("variants"))


def row(metrics, metric, **where):
    found = metrics[metrics["metric"] == metric]
    for column, value in where.items():
        found = found[found[column] == value]
    assert len(found) == 1, f"{metric} {where}: {len(found)} rows"
    return found.iloc[0]


def test_a_quick_run_makes_few_calls_and_holds_its_settings(settings):
    wide, narrow = made(50, [f"s{i}" for i in range(6)]), made(50, ["s0", "s1"])
    assert QUICK_ITEMS <= quick_items(wide) < quick_items(narrow) == 50
    config = ProtocolsConfig(judge="x", data="y", quick=True, distractors=("prolixity", "sycophancy"), rankings=True)
    assert (config.distractors, config.boards, config.placebo) == (("prolixity",), ("prolixity",), False)
    assert ProtocolsConfig.model_validate(config.model_dump()) == config  # a run that goes on is the same run
    _, metrics, arena = ran(settings, "planted:assertiveness", wide, quick=True, limit=quick_items(wide))
    assert len(arena.items) == quick_items(wide)
    assert int((metrics["metric"] == "rating_shift").sum()) == 2 * 6  # both protocols, every system
    calls = sum(one.asked for one in calls_by_arm(arena))
    assert calls <= QUICK_CALLS


def test_responses_of_another_task_are_judged_as_an_instruction(settings):
    data = made(2)
    dialogue = replace(data, items=data.items.assign(task="dialogue"), task="dialogue")
    judge = make_planted("planted:assertiveness")
    assert as_task(dialogue.items, "instruction").equals(data.items)
    assert as_task(dialogue.items, "").equals(dialogue.items)
    _, metrics, _ = ran(settings, judge, dialogue, quick=True, task="instruction")
    assert (metrics["metric"] == "rating_shift").any()


def test_each_placebo_is_netted_beside_the_raw_flips(settings):
    """A judge that scores by length alone: assertive and neutral texts are longer, the other placebos are not."""
    text = "The small answer of {s} to question {i} is easy, because many use it. It's long enough for {s}."
    systems, strict = ("one", "one two", "one two three"), View(TieRule(0.0))
    _, metrics, arena = ran(
        settings, "planted:verbosity?noise=0", made(6, systems, text), distractors=("assertiveness",),
        placebos=("trivial", "reworded"), copies=False, boards=(),
    )  # fmt: skip
    assert arena.arms == ["assertiveness", "neutral", "trivial", "reworded"]
    found = {one["placebo"]: one for one in as_json(arena, strict, (), 1, 16.0)["flips_by_placebo"]}
    assert list(found) == ["neutral", "trivial", "reworded"]
    of = {"attack": "all distractors", "protocol": "pointwise"}
    raw = row(metrics, "flip_rate", **of, group="expected scores, no margin")["value"]
    assert raw > 0
    for name in ("trivial", "reworded"):
        own, net = (found[name][which]["pointwise"]["value"] for which in ("its_own", "net"))
        assert own == 0
        assert net == pytest.approx(raw)
        told = row(metrics, "flip_rate_net", **of, group=f"expected scores, no margin, less {name}")
        assert told["value"] == pytest.approx(net)
    assert found["neutral"]["its_own"]["pointwise"]["value"] > 0
    assert found["neutral"]["net"]["pointwise"]["value"] < raw
    with pytest.raises(ValidationError, match="trivial, reworded"):
        ProtocolsConfig(judge="j", data="d", placebos=("neutral",))


@pytest.mark.parametrize("points", [0.0, 0.4])
def test_its_points_reach_the_scores_and_nothing_else(settings, points):
    _, _, arena = ran(settings, f"planted:assertiveness?points={points}", distractors=("assertiveness", "prolixity"))
    moved = arena.expected["assertiveness"] - arena.expected[NONE]
    assert np.nanmean(moved) == pytest.approx(points, abs=1e-9)
    assert np.nanmean(arena.expected["neutral"] - arena.expected[NONE]) == pytest.approx(0, abs=1e-9)


def test_the_verbose_judge_pays_for_prolixity_by_its_formula(settings):
    run, _, arena = ran(settings, "planted:verbosity?strength=0.3", distractors=("prolixity",))
    variants = run.table("variants")
    words = {(r.style, r.response_id): len(r.text.split()) for r in variants.itertuples()}
    for i, item in enumerate(arena.responses):
        for s, response in enumerate(item):
            gain = verbosity_bonus(words["prolixity", response], 0.3) - verbosity_bonus(words[NONE, response], 0.3)
            assert arena.expected["prolixity"][i, s] - arena.expected[NONE][i, s] == pytest.approx(gain)
    assert "pairwise" in run.manifest()["skipped"]


def test_a_judge_that_always_says_a(settings):
    """First slot 1.0, half of the comparisons for everybody, one rank shared by all."""
    _, metrics, arena = ran(settings, "planted:position?strength=1")
    assert row(metrics, "first_slot_rate").value == 1.0
    assert order_disagreement(arena, VIEW).value == 1.0
    shares = win_table(arena, Protocol.PAIRWISE, VIEW).shares
    assert np.allclose(shares[~np.eye(4, dtype=bool)], 0.5)
    found = board(arena, Protocol.PAIRWISE, "assertiveness", 3, VIEW)
    assert np.allclose(found.before.rating, 1000)
    assert set(found.before.rank) == {2.5}
    assert flips(arena, ["assertiveness"], "neutral", VIEW).pairwise.n == 0  # ties have no loser


@pytest.mark.parametrize("strength", [-0.6, 0.0, 0.5])
def test_the_position_judge_gives_its_dial_back(settings, strength):
    _, _, arena = ran(
        settings, f"planted:position?strength={strength}", made(40), distractors=(), boards=(), placebo=False
    )
    found = first_slot(arena, VIEW)
    assert found.lower <= 0.5 + strength / 2 <= found.upper
    assert found.n == 40 * 6 * 2


class Ideal:
    """Prefers what fails fewer rules; with `loves` it prefers an assertive text whatever the rules."""

    spec = fingerprint = "ideal"
    protocols = frozenset(Protocol)

    def __init__(self, rules, loves=False, ranks=True):
        self.rules, self.loves, self.ranks = rules, loves, ranks

    def labels(self, request):
        return ("1", "2", "3", "4")

    def prompt(self, request):
        return ""

    def cost(self, requests):
        return Cost(0, 0, len(requests))

    def worth(self, item, text, compared):
        worth = 4.0 - len(failed_rules(self.rules[item], text))
        return worth + 10 * (compared and self.loves and sounds(text))

    def judge(self, requests, checkpoint=no_checkpoint):
        checkpoint(len(requests), len(requests))
        return [self.answer(r) for r in requests]

    def answer(self, r):
        if r.protocol is Protocol.POINTWISE:
            worth = self.worth(r.item_id, r.response, False)
            return Verdict(score=worth, probabilities=tuple(float(worth == k) for k in (1, 2, 3, 4)), coverage=1.0)
        if r.protocol is Protocol.RANKING:
            if not self.ranks:
                return Verdict(unread_reason="no letters in the reply", raw_text="well")
            worths = [(-len(c.text), c.response_id) for c in r.candidates]
            return Verdict(ranking=tuple(1 + sorted(worths).index(w) for w in worths), raw_text="x")
        a, b = self.worth(r.item_id, r.response, True), self.worth(r.item_id, r.response_b, True)
        outcome = Outcome.TIE if a == b else Outcome.A if a > b else Outcome.B
        return Verdict(p_a=float(a > b), p_tie=float(a == b), outcome=outcome, coverage=1.0)


@pytest.fixture
def demo(settings):
    return load_dataset(DEMO_INSTRUCTION, settings.datasets)


def rules_of(data):
    return dict(zip(data.items["item_id"], data.items["rules"], strict=True))


def test_a_perfect_judge_is_right_at_every_severity(settings, demo):
    _, _, arena = ran(settings, Ideal(rules_of(demo)), demo)
    rungs = ladder(arena, arena.arms, VIEW)
    assert {(r.severity, r.protocol) for r in rungs} == {(s, p) for s in (1, 2, 3) for p in ("pairwise", "pointwise")}
    assert all(r.strict.value == 1.0 for r in rungs if r.strict.n)
    found = flips(arena, list(DISTRACTORS), "neutral", VIEW)
    # rewritings that break or mend a rule would turn its verdicts, rightly; what may enter fails the same rules
    assert (found.pairwise.value, found.pointwise.value) == (0, 0)
    assert found.pairwise.n > 100
    assert found.test.p_value == 1
    assert board(arena, Protocol.PAIRWISE, "assertiveness", 2, VIEW).before.rank[1] == 1  # system-2 keeps all rules


@pytest.mark.slow
def test_a_judge_that_falls_for_assertiveness_in_pairs_alone(settings, demo):
    _, metrics, arena = ran(settings, Ideal(rules_of(demo), loves=True), demo)
    before = {
        r.severity: r for r in ladder(arena, ["assertiveness"], VIEW) if r.arm == NONE and r.protocol == "pairwise"
    }
    after = [r for r in ladder(arena, ["assertiveness"], VIEW) if r.arm == "assertiveness"]
    for rung in after:
        if rung.protocol is Protocol.POINTWISE:
            assert rung.strict.value == 1.0
        else:
            assert rung.strict.value < before[rung.severity].strict.value
            assert rung.strict.value == 0.0  # the draws are outright: the assertive text always wins
            assert rung.change.p_value < 0.001
    found = board(arena, Protocol.PAIRWISE, "assertiveness", 3, VIEW)
    steady = board(arena, Protocol.POINTWISE, "assertiveness", 3, VIEW)
    lowest = list(found.distracted)
    assert (found.shift[lowest] > 50).all()
    assert np.abs(steady.shift).max() < np.abs(found.shift).max() / 2
    assert row(metrics, "flip_difference", attack="assertiveness", group="equal modal score").p_value < 0.05


def test_pairs_whose_rules_change_leave_the_ladder_and_are_counted(settings, demo):
    run, _, arena = ran(settings, Ideal(rules_of(demo)), demo)
    variants = run.table("variants")
    changed = variants[(variants["style"] == "sycophancy") & (variants["severity"] != variants["severity_after"])]
    assert len(changed)
    rungs = [r for r in ladder(arena, ["sycophancy"], VIEW) if r.arm == "sycophancy" and r.protocol == "pairwise"]
    assert sum(r.excluded for r in rungs) > 0
    for r in rungs:
        whole = next(o for o in ladder(arena, [], VIEW) if o.severity == r.severity and o.protocol == "pairwise")
        assert r.strict.n + r.excluded == whole.strict.n


def test_severity_is_what_the_demo_was_made_with(demo):
    rules = rules_of(demo)
    for r in demo.responses.itertuples():
        assert len(failed_rules(rules[r.item_id], r.text)) == severity_by_name(r.quality), r.response_id


def test_rules_that_cannot_be_read_are_named():
    with pytest.raises(InputError, match="cannot be read"):
        failed_rules("no commas", "x")
    with pytest.raises(InputError, match="no checker for the rule 'made:up'"):
        failed_rules('[{"rule": "made:up", "arguments": {}}]', "x")
    assert failed_rules(None, "x") is None
    assert severity_by_name("good") is None
    assert "keywords:forbidden_words" in CHECKERS


def test_choice_sets_of_a_judge_that_sorts_are_never_reversed(settings, demo):
    _, _, arena = ran(settings, Ideal(rules_of(demo)), demo, rankings=True, distractors=("assertiveness",))
    sets = choice_sets(arena)
    assert [s.layout for s in sets] == ["{A, B, (C, D)}", "{(C, D), A, B}"]
    for s in sets:
        assert (s.single.value, s.single.n) == (0.0, 12)
        assert s.averaged.n == 12


def test_a_judge_that_cannot_rank_is_asked_once_and_the_reason_kept(settings, demo):
    run, _, arena = ran(
        settings, Ideal(rules_of(demo), ranks=False), demo, rankings=True, distractors=("assertiveness",)
    )
    assert choice_sets(arena) == [] or np.isnan(choice_sets(arena)[0].single.value)
    assert "no letters in the reply" in run.manifest()["skipped"]["ranking"]
    assert len(arena.rankings) == 8


def test_identical_responses_tie_pointwise_and_cost_nothing_more(settings):
    data = made(6, text="The same answer from everybody is here.")
    _, metrics, arena = ran(settings, "planted:assertiveness", data)
    assert (outcomes(arena, Protocol.POINTWISE, View(TieRule(4.0))) == 0).all()
    assert row(metrics, "tie_rate", protocol="pairwise", group="identical texts").n == 24


def test_one_item_gives_numbers_without_intervals(settings):
    _, metrics, _ = ran(settings, "planted:assertiveness", made(1))
    before = metrics[metrics["metric"] == "rating_before"]
    assert before["value"].notna().all()
    assert before["lower"].isna().all()


def test_missing_systems_leave_gaps_and_no_lies(settings):
    data = made(6)
    some = data.responses[~((data.responses["system"] == "s4") & (data.responses["item_id"] != "i000"))]
    _, _, arena = ran(settings, "planted:assertiveness", replace(data, responses=some.reset_index(drop=True)))
    found = board(arena, Protocol.PAIRWISE, "assertiveness", 1, VIEW)
    assert found.before.battles[3] == 3
    assert np.isnan(arena.expected[NONE][1:, 3]).all()
    assert np.isfinite(found.before.rating).all()
    assert sorted(found.before.rank) == [1, 2, 3, 4]  # it met the others on one item, so it has a place among them


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.assign(system="s1"), "at least two systems"),
        (lambda r: r.assign(system=[None, *r["system"][1:]]), "'s1-0' names none"),
        (lambda r: r.assign(system=["s1"] * 2 + list(r["system"][2:])), "two responses of the system 's1'"),
    ],
)
def test_data_without_systems_are_refused(settings, change, message):
    data = made(4)
    with pytest.raises(InputError, match=message):
        ran(settings, "planted:assertiveness", replace(data, responses=RESPONSES.conform(change(data.responses))))


@pytest.mark.parametrize("arm", ["assertiveness:2", "assertiveness:x", "assertiveness:0", "loud"])
def test_arms_that_cannot_be_read_are_refused(arm):
    with pytest.raises(InputError, match=r"strength above 0|Unknown distractor"):
        parse_arm(arm)


def test_a_stopped_run_keeps_what_is_done_and_goes_on(settings):
    judge, seen = make_planted("planted:assertiveness"), []

    def stop(done, total):
        seen.append((done, total))
        if done > 150:
            raise Cancelled

    config = ProtocolsConfig(judge=judge.spec, data=DEMO_INSTRUCTION)
    run = create_run(settings.runs, "protocols", {}, "one")
    with pytest.raises(Cancelled):
        run_protocols(config, made(), judge, run, settings, stop)
    assert run.manifest()["state"] == "stopped"
    kept = len(run.table("verdicts"))
    assert 0 < kept <= 160
    assert all(done <= total for done, total in seen)
    run_protocols(config, made(), judge, run, settings, no_checkpoint)
    assert len(run.table("verdicts")) > kept


def test_a_run_can_take_the_texts_of_an_earlier_one(settings):
    first, _, _ = ran(settings, "planted:assertiveness", distractors=("assertiveness",))
    again, _, _ = ran(
        settings, "planted:assertiveness", variants_of=first.run_id, distractors=("assertiveness",), seed=7
    )
    assert again.table("variants").equals(first.table("variants"))
    with pytest.raises(InputError, match="has no texts for prolixity"):
        ran(settings, "planted:assertiveness", variants_of=first.run_id, distractors=("prolixity",))
    with pytest.raises(InputError, match="differs"):
        ran(settings, "planted:assertiveness", made(text="Other words {s} {i} here."), variants_of=first.run_id)


def test_variants_do_not_depend_on_row_order(settings):
    data = made(5)
    turned = replace(data, responses=data.responses.iloc[::-1].reset_index(drop=True))
    tables = [
        variant_table(d, ["prolixity"], RuleRewriter()).set_index(["style", "response_id"]) for d in (data, turned)
    ]
    assert tables[0]["text"].to_dict() == tables[1]["text"].to_dict()


def test_copies_keep_apart_ties_and_preferences(settings):
    _, _, arena = ran(settings, "planted:assertiveness?strength=1", distractors=("assertiveness",))
    rates = copy_rates(arena, Protocol.PAIRWISE, ["assertiveness"], VIEW)
    assert (rates.preferred.value, rates.tied.value, rates.half.value) == (1.0, 0.0, 1.0)


def test_one_comparison_live(settings, monkeypatch):
    config = DistractOne(
        judge="planted:assertiveness?strength=1", data=DEMO_INSTRUCTION, response_a="i01-1", response_b="i01-4"
    )
    found = distract_one(config, settings, no_checkpoint)
    assert found["text"]["changed"]
    assert "".join(t for kind, t in found["text"]["diff"] if kind != "removed") == found["text"]["rewritten"]
    assert [p["order"] for p in found["pairwise"]["after"]] == ["ab", "ba"]
    assert found["pairwise"]["after"][0]["p_a"] == 0.0
    same = distract_one(config.model_copy(update={"strength": 0.0}), settings, no_checkpoint)
    assert same["pairwise"]["before"] == same["pairwise"]["after"]
    with pytest.raises(InputError, match="one item"):
        distract_one(config.model_copy(update={"response_b": "i02-1"}), settings, no_checkpoint)


@pytest.mark.slow
def test_from_the_command_line(capsys, settings):
    code = main(["study", "protocols", "--judge", "planted:assertiveness", "--limit", "5", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0
    for key in (
        "flip_rate", "p_value", "tie_rate", "preferred_distracted", "severity", "ratings", "first_slot_rate",
        "intransitivity", "choice_set_sensitivity",
    ):  # fmt: skip
        assert key in found
    assert set(found["flip_rate"]["pairwise"]) == {"value", "lower", "upper", "n"}
    assert {"severity", "distractor", "protocol", "accuracy", "lower", "upper", "n"} <= set(found["severity"][0])
    wanted = {"system", "protocol", "before", "after", "lower", "upper", "rank_before", "rank_after"}
    assert all(wanted <= set(entry) for entry in found["ratings"])
    assert len({(e["system"], e["protocol"], e["distractor"]) for e in found["ratings"]}) == len(found["ratings"])


def test_a_dry_run_asks_nothing(capsys, settings):
    code = main(["study", "protocols", "--judge", "planted:assertiveness", "--limit", "3", "--dry-run", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, found["calls"]) == (0, 0)
    assert found["verdicts"] > 300


def test_json_and_metrics_agree(settings):
    _, metrics, arena = ran(settings, "planted:assertiveness")
    found = as_json(arena, VIEW, ("assertiveness",), 3, 16.0)
    own = row(metrics, "flip_rate", protocol="pairwise", attack="all distractors")
    assert found["flip_rate"]["pairwise"]["value"] == own.value
    for entry in found["ratings"]:
        same = row(metrics, "rating_after", protocol=entry["protocol"], group=entry["system"])
        assert same.value == pytest.approx(entry["after"])
