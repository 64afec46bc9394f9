"""Each planted bias fails its probe and only it; an unbiased judge holds given enough items; few decide nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.errors import Cancelled, InputError
from engine.core.schema import Protocol
from engine.data.comparisons import DEMO_PAIRS, load_comparisons
from engine.judges.registry import make_judge
from engine.runs.folder import create_run, open_run
from engine.stats import agreement
from engine.studies.checkup import run as checkup
from engine.studies.checkup.material import make_subject, of_dataset, of_pairs
from engine.studies.checkup.metrics import BY_NAME, FAILS, HOLDS, NOT_ASKED, UNDERPOWERED, Size, decide
from engine.studies.checkup.run import redecide, run_checkup
from engine.studies.checkup.study import STUDY, CheckupConfig
from engine.studies.running import OutOfBudget
from tests.engine.studies.checkup_judges import Sighted, made_data

POINTWISE, PAIRWISE, VERIFIER = Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER
BOTH = (POINTWISE, PAIRWISE)


@pytest.fixture(autouse=True)
def large_chunks(request, monkeypatch):
    if "stop" not in request.node.name:  # building a table for every chunk is what takes the time here
        monkeypatch.setattr(checkup, "CALLS_PER_CHUNK", 5000)
    monkeypatch.setattr(agreement, "RESAMPLES", 300)


@pytest.fixture(scope="module")
def many():
    return made_data(52)


@pytest.fixture(scope="module")
def solved():
    return made_data(80, task="verification")


def checked(judge, dataset, root, run_id="run", checkpoint=lambda done, total: None, **changes):
    config = CheckupConfig(judge=judge.spec, data=dataset.dataset_id, responses=2, pairs=1, **changes)
    run = create_run(root, "checkup", STUDY.stored(config), run_id)
    return run, run_checkup(config, of_dataset(dataset), judge, run, checkpoint)


def verdicts(decisions):
    return {d.card.name: d.verdict for d in decisions}


def having(decisions, verdict):
    return {name for name, found in verdicts(decisions).items() if found == verdict}


@pytest.mark.parametrize(
    ("bias", "fails", "protocols"),
    [
        ("", set(), BOTH),
        ("position", {"order"}, BOTH),
        ("verbosity", {"length"}, BOTH),
        ("injection", {"injections"}, BOTH),
        ("keys", {"keys"}, BOTH),
        ("assertiveness", {"distractors"}, BOTH),
        ("noise", {"consistency"}, (POINTWISE,)),
        ("wording", {"paraphrase"}, BOTH),
        ("deaf to the rubric", {"reversal"}, BOTH),
        ("other taste", {"agreement"}, BOTH),
        ("constant", {"keys", "empty", "agreement"}, BOTH),
    ],
)
def test_a_planted_bias_fails_its_probe_and_only_it(bias, fails, protocols, many, tmp_path):
    dataset, quality = many
    _, decisions = checked(Sighted(quality, bias, protocols), dataset, tmp_path)
    assert having(decisions, FAILS) == fails, verdicts(decisions)
    if bias != "constant":  # a judge that nothing moves leaves no spread to learn from: the Wilson bound decides
        assert having(decisions, UNDERPOWERED) == set(), [(d.card.name, d.reason) for d in decisions]
    asked = {"order", "ties"} if PAIRWISE not in protocols else set()
    assert having(decisions, NOT_ASKED) == asked


def test_a_judge_of_chance_fails_what_needs_sight(many, tmp_path):
    dataset, quality = many
    _, decisions = checked(Sighted(quality, "random", BOTH), dataset, tmp_path)
    assert having(decisions, FAILS) >= {"keys", "ties", "consistency", "empty", "agreement"}
    assert "order" not in having(decisions, FAILS)
    assert not having(decisions, FAILS) & {"length", "injections", "distractors"}


@pytest.mark.parametrize(("bias", "fails"), [("", set()), ("keys", {"keys"}), ("injection", {"injections"})])
def test_a_verifier_is_checked_too(bias, fails, solved, tmp_path):
    dataset, quality = solved
    _, decisions = checked(
        Sighted(quality, bias, (VERIFIER,)),
        dataset,
        tmp_path,
        probes=("injections", "keys", "empty", "agreement", "order"),
    )
    assert having(decisions, FAILS) == fails
    assert having(decisions, UNDERPOWERED) == set()
    assert having(decisions, NOT_ASKED) == {"order"}
    agreed = next(d for d in decisions if d.card.name == "agreement")
    assert agreed.row["base_rate"] == pytest.approx(0.5)
    assert agreed.row["value"] == pytest.approx(1.0)


def test_few_items_decide_little(tmp_path):
    dataset, quality = made_data(5)
    _, decisions = checked(Sighted(quality, "", BOTH), dataset, tmp_path)
    assert having(decisions, FAILS) == set()
    assert having(decisions, UNDERPOWERED) >= {"order", "keys", "empty"}
    order = next(d for d in decisions if d.card.name == "order")
    assert "could be found" in order.reason or "reaches over" in order.reason


def test_the_planted_size_is_measured(many, tmp_path):
    dataset, quality = many
    _, decisions = checked(Sighted(quality, "wording", BOTH), dataset, tmp_path, probes=("paraphrase",))
    [found] = decisions
    assert found.row["lower"] <= 0.2 <= found.row["upper"] + 1e-9
    assert found.row["n"] == len(dataset.responses)
    assert found.row["n_clusters"] == len(dataset.items)
    assert found.row["level"] == pytest.approx(0.975)  # two wordings share the error


def test_a_changed_threshold_decides_anew_without_a_judge(many, tmp_path):
    dataset, quality = many
    run, decisions = checked(Sighted(quality, "wording", BOTH), dataset, tmp_path, probes=("paraphrase", "order"))
    assert verdicts(decisions)["paraphrase"] == FAILS
    assert run.manifest()["config"]["thresholds"]["paraphrase"] == BY_NAME["paraphrase"].threshold
    assert verdicts(redecide(run, {"paraphrase": 0.3}))["paraphrase"] == HOLDS
    assert verdicts(redecide(run, {}))["paraphrase"] == FAILS
    with pytest.raises(InputError, match="no probe 'colour'"):
        redecide(run, {"colour": 0.1})


@pytest.mark.slow
def test_a_stopped_run_keeps_what_is_done_and_goes_on(tmp_path):
    dataset, quality = made_data(24)
    judge = Sighted(quality, "", BOTH)

    def stop(done, total):
        if done > total / 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        checked(judge, dataset, tmp_path, checkpoint=stop)
    stopped = open_run(tmp_path, "run")
    assert stopped.manifest()["state"] == "stopped"
    part = stopped.table("checkup")
    assert 0 < part["n_clusters"].max() < len(dataset.items)
    assert set(part["probe"]) == set(BY_NAME)
    run, whole = checked(judge, dataset, tmp_path)
    assert run.manifest()["state"] == "done"
    assert run.table("checkup")["n_clusters"].max() == len(dataset.items)
    assert verdicts(decide(run.table("checkup"))) == verdicts(whole)


def test_a_run_stopped_by_its_budget_keeps_what_is_done(tmp_path):
    dataset, quality = made_data(24)
    with pytest.raises(OutOfBudget):
        checked(Sighted(quality, "", BOTH), dataset, tmp_path, budget_seconds=1e-9)
    assert open_run(tmp_path, "run").manifest()["state"] == "stopped"


def test_what_cannot_be_asked_says_what_is_missing(settings, tmp_path):
    dataset, _ = made_data(6)
    judge = make_judge("planted:verbosity", settings)
    _, decisions = checked(judge, dataset, tmp_path)
    found = {d.card.name: d for d in decisions}
    assert found["order"].verdict == NOT_ASKED
    assert "pairwise" in found["order"].reason
    assert found["paraphrase"].verdict == NOT_ASKED
    assert "judge card" in found["paraphrase"].reason
    bare = dataset.responses.assign(human_score=None)
    _, decisions = checked(judge, replace(dataset, responses=bare), tmp_path)
    agreed = next(d for d in decisions if d.card.name == "agreement")
    assert agreed.verdict == NOT_ASKED
    assert "human_score" in agreed.reason
    assert HOLDS not in {d.verdict for d in decisions if not d.row}


@pytest.mark.parametrize(
    ("spec", "fails"), [("planted:position?strength=1", "order"), ("planted:noisy", "consistency")]
)
def test_the_listed_planted_judges_fail_their_probe(spec, fails, settings, tmp_path):
    dataset, _ = made_data(40)
    _, decisions = checked(make_judge(spec, settings), dataset, tmp_path)
    assert fails in having(decisions, FAILS)


def test_pairs_with_human_preferences(settings, tmp_path):
    material = of_pairs(load_comparisons(DEMO_PAIRS, settings.comparisons))
    assert not material.dataset.responses.duplicated(["item_id", "text"]).any()
    judge = make_judge("planted:position?strength=1", settings)
    config = CheckupConfig(judge=judge.spec, data=DEMO_PAIRS, pairs=1, responses=2)
    run = create_run(tmp_path, "checkup", STUDY.stored(config), "pairs")
    decisions = run_checkup(config, material, judge, run, lambda done, total: None)
    agreed = next(d for d in decisions if d.card.name == "agreement")
    assert agreed.verdict == FAILS  # it says the same whatever the pair, so kappa is zero
    assert agreed.row["value"] == pytest.approx(0.0)
    human = load_comparisons(DEMO_PAIRS, settings.comparisons).comparisons["human"].value_counts()
    assert agreed.row["base_rate"] <= 1
    assert agreed.row["n"] <= int(human.sum())


def test_correct_is_read_by_the_one_rule(solved, many):
    dataset, quality = solved
    judge = Sighted(quality, "", (VERIFIER,))

    def known(**labels):
        changed = dataset.responses.replace({"quality": labels})
        return make_subject(judge, of_dataset(replace(dataset, responses=changed)), Size()).right

    plain = known()
    assert set(plain.values()) == {True, False}
    assert known(correct="1", incorrect="0") == plain
    assert known(correct="Yes", incorrect="No") == plain
    with pytest.raises(InputError, match="'half right' for the response"):
        known(incorrect="half right")
    others, quality = many  # levels of another task are no labels
    leveled = replace(others, responses=others.responses.assign(quality="faithful"))
    assert make_subject(Sighted(quality, "", BOTH), of_dataset(leveled), Size()).right == {}
