"""The study on a tiny random tutor and a judge whose answers are known in closed form."""

from __future__ import annotations

import dataclasses
import json
import shutil
import types

import numpy as np
import pandas as pd
import pytest

from engine.cli import main as cli
from engine.core.errors import Cancelled, InputError
from engine.core.json import dumps
from engine.core.schema import Protocol, Task
from engine.core.settings import get_settings
from engine.data.dataset import build_dataset
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.store import DEMO_DIALOGUE, load_dataset, save_dataset
from engine.defenses.cards import parse_defense
from engine.judges.base import Request, Verdict
from engine.judges.registry import make_judge
from engine.runs.folder import open_run
from engine.stats.projection import pca
from engine.steering.separability import by_layer
from engine.studies.anchors import sources_for, without_anchors
from engine.studies.cap import run as cap_run
from engine.studies.cap import tutor as cap_tutor
from engine.studies.cap.arms import comparative_rows, pairs_of
from engine.studies.cap.contexts import divide
from engine.studies.cap.run import (
    AlphaConfig,
    SweepConfig,
    alpha_job,
    plan_cap,
    run_cap,
    sweep_job,
    to_the_data,
    with_deflation,
)
from engine.studies.cap.study import STUDY, CapConfig
from engine.studies.cap.summary import as_record, report
from engine.studies.cap.tutor import DEGRADED, PLAIN, RECIPE, _written_only, load_tutor
from engine.studies.running import answers_as
from tests.dashboard.helpers import file_bytes

CARD = {"name": "n", "protocol": Protocol.POINTWISE, "mode": "text", "labels": ("1", "2"), "system": "", "user": ""}
STRENGTH = 0.7
JUDGE = f"planted:injection?strength={STRENGTH}&noise=0"


@pytest.fixture(scope="module", autouse=True)
def quick_map():
    """UMAP compiles for seconds, and has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cap_tutor, "umap_map", lambda x, **_: pca(x).points)
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Settings that the module's tests share, so that one run serves them all."""
    folder = tmp_path_factory.mktemp("cap")
    return dataclasses.replace(
        get_settings(), data_dir=folder / "home", cache_dir=folder / "cache", device="cpu", model_roots=()
    )


@pytest.fixture(scope="module")
def dataset(home):
    rows = [
        {
            "item_id": f"q{i}",
            "context": f"A: topic {i}?",
            "response": f"Reply {k} about topic {i}.",
            "human_score": str(1 + k),
            "system": f"s{k}",
        }
        for i in range(8)
        for k in range(4)
    ]
    raw = read_table("mine.csv", file_bytes(rows))
    made = build_dataset(raw, suggest_mapping(raw.frame), task="dialogue", name="mine")
    save_dataset(made, home.datasets)
    return made


def config_of(dataset, tutor, **changes) -> CapConfig:
    base = {
        "judge": JUDGE, "data": dataset.dataset_id, "tutor": f"path:{tutor}", "attacks": ("dsi",), "suffix_words": (),
        "defenses": ("human-anchors", "wcap", "cap"), "candidates": 16, "new_tokens": 6, "reach": (0, 0.3),
        "alphas": (),
    }  # fmt: skip
    return CapConfig(**(base | changes))


@pytest.fixture(scope="module")
def tutor(tmp_path_factory, save):
    return save(tmp_path_factory.mktemp("tutor"), "llama", max_position_embeddings=2048)


@pytest.fixture(scope="module")
def finished(dataset, tutor, home):
    steps = []
    run, found = ran(config_of(dataset, tutor), dataset, home, "one", lambda done, total: steps.append((done, total)))
    return run, found, steps


def ran(config, dataset, home, run_id, checkpoint=lambda *_: None):
    run = STUDY.begin(config.model_copy(update={"run_id": run_id}), home.runs)
    judge, tutor = make_judge(JUDGE, home), load_tutor(config.tutor, home)
    run_cap(config, dataset, judge, tutor, run, home, checkpoint)
    return run, as_record(run)


def test_every_arm_has_the_planted_shift_and_the_diagnosis_sees_that_anchors_are_not_read(finished, dataset):
    run, found, _ = finished
    assert {arm["defense"] for arm in found["arms"]} == {"none", "human-anchors", "wcap", "cap"}
    for arm in found["arms"]:
        assert arm["shift"] == pytest.approx(STRENGTH)
        assert arm["n"] + arm["n_unread"] == 16
    assert all(value == pytest.approx(0) for value in found["anchor_effect"].values())
    metrics = run.table("metrics").set_index(["metric", "defense"])
    assert metrics.loc[("anchor_lift", "cap"), "value"] == pytest.approx(0)
    assert run.manifest()["kind"] == "cap"
    assert dumps(found) == dumps({k: v for k, v in STUDY.summary(None, run).record.items() if k != "tutor"})


def test_thresholds_come_from_the_first_pool_and_retention_from_the_second(finished):
    run, found, _ = finished
    texts = run.table("cap_texts")
    first, second = texts[texts["pool"] == 1], texts[texts["pool"] == 2]
    assert found["standard_high"] == pytest.approx(np.nanpercentile(first["score"], 80))
    assert first["side"].isna().all()
    assert (second.loc[second["side"] == "high", "score"] >= found["standard_high"]).all()
    assert (second.loc[second["side"] == "low", "score"] <= found["standard_low"]).all()


def test_separability_without_degraded_texts_is_blind_to_corruption():
    """Degraded texts lie far off and are all low; what is left lies together, whatever its side."""
    rng = np.random.default_rng(1)
    contexts, sources = np.repeat(np.arange(8), 12), np.tile(["plain", "good", "degraded"], 32)
    high = np.where(sources == "degraded", False, rng.random(96) < 0.7)
    x = rng.normal(size=(2, 96, 5)) + 20.0 * (sources == "degraded")[None, :, None]
    config = CapConfig(judge="j", data="d")
    written, fit = sources != "degraded", contexts < 4
    [found] = _written_only(config, x, high, contexts, fit, written)
    every = by_layer(x, high, contexts)["pca"]
    assert found.space == "pca-written"
    assert (every.value > every.null_high).all()
    assert (found.value < every.value / 2).all()
    assert _written_only(config, x, high, contexts, fit, np.ones(96, dtype=bool)) == []
    few = np.zeros(96, dtype=bool)
    few[:3] = True
    assert _written_only(config, x, high, contexts, fit, few) == []


def test_the_plain_pool_asks_plainly():
    assert {source for source, _ in PLAIN} == {"plain"}
    assert DEGRADED in {source for source, _ in RECIPE}


def test_training_contexts_and_judged_ones_do_not_meet(finished):
    run, _, _ = finished
    training = set(run.table("cap_texts")["item_id"]) | set(run.table("cap_sweep")["item_id"])
    assert not training & set(run.table("verdicts")["item_id"])


def test_the_alphas_are_the_nearest_of_the_sweep(finished):
    run, found, _ = finished
    swept = run.table("cap_sweep")
    for side in ("high", "low"):
        own = swept[swept["side"] == side].groupby("alpha")["score"]
        read = own.count() >= 0.8 * own.size()
        means = own.mean()[read] if read.any() else own.mean()
        distance = (means - found[f"standard_{side}"]).abs()
        assert distance[found[f"alpha_{side}"]] == pytest.approx(distance.min())
        said, n = found["alphas"][side], own.count()[found[f"alpha_{side}"]]
        assert (said["n"], said["n"] + said["n_unread"], said["enough_read"]) == (n, 4, n >= 0.8 * 4)
        assert said["sd"] == pytest.approx(own.std(ddof=1)[found[f"alpha_{side}"]], nan_ok=True)
        assert run.manifest()["cap"]["chosen"][side] == {"n": n, "of": 4, "enough": n >= 0.8 * 4}


def test_all_of_a_stages_progress_is_counted_and_never_runs_back(finished):
    _, _, steps = finished
    done = [d for d, _ in steps]
    assert done == sorted(done)
    assert done[-1] > 0.5 * steps[-1][1]


def test_the_sweep_is_extended_by_what_is_asked_and_nothing_else(finished, home):
    run, _, _ = finished
    shutil.copytree(run.path, home.runs / "longer")
    before = run.table("cap_sweep")
    sweep_job(SweepConfig(study_id="longer", judge=JUDGE, data="x", high=(77.0,)), home, lambda *_: None)
    after = open_run(home.runs, "longer").table("cap_sweep")
    shutil.rmtree(home.runs / "longer")
    assert len(after) == len(before) + 4
    assert set(after.loc[after["alpha"] == 77, "side"]) == {"high"}
    assert after[after["alpha"] != 77].reset_index(drop=True).equals(before)


@pytest.mark.slow
def test_the_same_run_again_takes_every_text_from_the_cache(finished, dataset, tutor, home, monkeypatch):
    asked = []
    real = cap_tutor.decode
    monkeypatch.setattr(cap_tutor, "decode", lambda *a, **k: (asked.append(len(a[2])), real(*a, **k))[1])
    _, again = ran(config_of(dataset, tutor), dataset, home, "two")
    assert sum(asked) == 0
    leave = ("run_id", "cost")  # seconds are of what was asked this time
    assert dumps({k: v for k, v in again.items() if k not in leave}) == dumps(
        {k: v for k, v in finished[1].items() if k not in leave}
    )


def test_the_anchors_of_a_run_serve_the_defense_cap_elsewhere(finished, dataset, home):
    run, _, _ = finished
    contexts = divide(config_of(dataset, "x"), dataset).responses
    found = sources_for(["cap"], dataset, home)["cap"].anchors(contexts)
    table = run.table("cap_anchors")
    own = table[table["arm"] == "cap"].set_index(["item_id", "side"])["text"]
    assert [a.low for a in found if not a.unread] == [
        own[r.item_id, "low"] for r, a in zip(contexts, found, strict=True) if not a.unread
    ]
    assert any(not a.unread for a in found)


def test_the_defense_cap_without_a_run_names_the_study(dataset, settings):
    with pytest.raises(InputError, match="judgescope study cap"):
        sources_for(["cap"], dataset, settings)


@pytest.mark.slow
def test_deflating_arms_stand_beside_the_others_and_a_judge_that_obeys_only_praise_ignores_them(dataset, tutor, home):
    config = config_of(dataset, tutor, attacks=("dsi", "suffix"), deflate=True, defenses=("human-anchors",))
    run, found = ran(config, dataset, home, "lower")
    shifts = {(a["attack"], a["defense"]): a["shift"] for a in found["arms"]}
    assert {attack for attack, _ in shifts} == {"dsi", "dsi-deflate", "suffix"}  # a suffix has no direction
    assert shifts["dsi", "none"] == pytest.approx(STRENGTH)
    assert shifts["dsi-deflate", "none"] == pytest.approx(0)
    assert run.manifest()["config"]["attacks"] == ["dsi", "suffix"]


def test_what_can_be_turned_is_turned_once():
    assert with_deflation(["dsi@before", "suffix:3", "bed-deflate"]) == (
        "dsi@before", "dsi-deflate@before", "suffix:3", "bed-deflate",
    )  # fmt: skip


def test_tutors_that_cannot_be_asked_or_steered_say_what_to_do(home, tmp_path, save):
    bare = save(tmp_path / "bare", "llama", template="")
    with pytest.raises(InputError, match=r"no chat template.*trained to follow instructions, for example bundled:base"):
        load_tutor(f"path:{bare}", home)
    with pytest.raises(InputError, match=r"cannot be steered.*judgescope study grid .* --tutor api:some"):
        load_tutor("api:some", home)


def test_a_judge_without_a_model_cannot_have_a_suffix_learned_on_it(dataset, tutor, home):
    with pytest.raises(InputError, match="white-box judge"):
        ran(config_of(dataset, tutor, learned_words=1, defenses=("human-anchors",)), dataset, home, "learn")


def test_too_few_candidates_are_refused_with_the_remedy_and_mark_the_run(dataset, tutor, home, monkeypatch):
    monkeypatch.setattr(cap_tutor, "decode", lambda *_, **__: pytest.fail("the tutor wrote"))
    with pytest.raises(InputError, match=r"at least 24 are needed\. Raise the candidates per context to 6"):
        ran(config_of(dataset, tutor, candidates=5), dataset, home, "few")
    assert open_run(home.runs, "few").manifest()["state"] == "failed"


def test_a_stopped_run_has_the_numbers_of_the_arms_that_are_done(finished, dataset, tutor, home):
    def stop(_done, _total):
        if (home.runs / "stopped" / "metrics.parquet").is_file():
            raise Cancelled

    with pytest.raises(Cancelled):
        ran(config_of(dataset, tutor), dataset, home, "stopped", stop)
    run = open_run(home.runs, "stopped")
    assert run.manifest()["state"] == "stopped"
    assert set(run.table("metrics")["defense"]) == {"none", "wcap", "cap"}  # shifts of one arm, gaps of the anchors
    assert set(run.table("verdicts")["defense"]) == {"none"}
    shifts = run.table("metrics").query("metric == 'shift'")
    assert shifts["value"].tolist() == [pytest.approx(STRENGTH)]


def test_a_group_column_can_name_the_sides(dataset, tutor):
    config = config_of(dataset, tutor, split="group")
    with pytest.raises(InputError, match="set the column group to train or eval"):
        divide(config, dataset)
    items = dataset.items.assign(group=["train"] * 3 + ["eval"] * 5)
    found = divide(config, dataclasses.replace(dataset, items=items))
    assert (len(found.training), len(found.evaluation), len(found.responses)) == (3, 5, 20)


@pytest.mark.slow
def test_the_command_line_prints_one_strict_object(dataset, tutor, settings, tmp_path, capsys):
    save_dataset(dataset, settings.datasets)
    file = tmp_path / "mine.toml"
    file.write_text(
        f'study = "cap"\njudge = "{JUDGE}"\ndata = "{dataset.dataset_id}"\ntutor = "path:{tutor}"\nattacks = ["dsi"]\n'
        'suffix_words = []\ndefenses = ["cap"]\ncandidates = 16\nnew_tokens = 6\nreach = [0, 0.3]\nalphas = []\n'
    )
    assert cli.main(["study", str(file), "--json"]) == 0
    out = capsys.readouterr().out
    last = json.loads(out.strip().splitlines()[-1])
    assert {"best_layer", "separability", "alpha_high", "alpha_low", "standard_high", "standard_low"} <= set(last)
    assert {
        "attack", "defense", "n", "n_unread", "shift", "shift_lower", "shift_upper", "relative_shift",
        "from_undefended",
    } == set(last["arms"][0])  # fmt: skip
    assert set(last["spearman"]) == set(last["cost"]) == {"none", "cap"}
    for cost in last["cost"].values():
        assert {"tokens", "seconds", "tokens_alone", "tokens_shared", "seconds_alone", "seconds_shared"} == set(cost)
        assert (cost["tokens"], cost["seconds"]) == (cost["tokens_alone"], cost["seconds_alone"])
    assert set(last["alphas"]["high"]) == {"alpha", "mean", "sd", "n", "n_unread", "enough_read"}
    assert "gap: score of the high anchor" in out
    assert f"{last['alphas']['low']['n']} of 4 texts read" in out
    assert "nan" not in out.splitlines()[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attacks": ("nosuch",)}, "Unknown attack 'nosuch'"),
        ({"attacks": ("own",)}, "needs a text"),
        ({"layer": 99}, "has no layer 99; its layers are 1 to"),
        ({"learned_words": 1}, "white-box judge"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_written(dataset, tutor, home, monkeypatch, changes, message):
    monkeypatch.setattr(cap_tutor, "decode", lambda *_, **__: pytest.fail("the tutor wrote"))
    config = config_of(dataset, tutor, **changes)
    with pytest.raises(InputError, match=message):
        ran(config, dataset, home, "refused")
    with pytest.raises(InputError, match=message):
        plan_cap(config, dataset, make_judge(JUDGE, home), load_tutor(config.tutor, home), home)


def test_without_ratings_the_rated_anchors_are_left_out_by_name_and_the_rest_runs(dataset, tutor, home):
    unrated = dataclasses.replace(dataset, responses=dataset.responses.assign(human_score=np.nan))
    run, found = ran(config_of(dataset, tutor), unrated, home, "unrated")
    assert {arm["defense"] for arm in found["arms"]} == {"none", "wcap", "cap"}
    assert list(run.manifest()["left_out"]) == ["human-anchors"]
    assert "rated" in run.manifest()["left_out"]["human-anchors"]
    assert not found["spearman"]
    assert run.manifest()["state"] == "done"


def test_one_alpha_at_once_is_what_the_sweep_would_hold(finished, home):
    run, _, _ = finished
    shutil.copytree(run.path, home.runs / "beside")
    rows = alpha_job(AlphaConfig(study_id="beside", alpha=33.0, contexts=2), home, lambda *_: None)["rows"]
    sweep_job(SweepConfig(study_id="beside", judge=JUDGE, data="x", high=(33.0,), low=(33.0,)), home, lambda *_: None)
    table = open_run(home.runs, "beside").table("cap_sweep")
    shutil.rmtree(home.runs / "beside")
    kept = table[table["alpha"] == 33.0].set_index(["side", "item_id"])
    assert len(rows) == 4
    for row in rows:
        own = kept.loc[(row["side"], row["item_id"])]
        assert (row["text"] or "") == (own["text"] or "")  # the planted judge's score hangs on the text's id
        assert row["relative_edit"] == pytest.approx(own["relative_edit"])


CONFIG = CapConfig(judge="x", data="y", candidates=12)


@pytest.mark.parametrize(("n", "spread"), [(24, 1.0), (36, 0.3), (200, 1.0)])
def test_percentiles_move_to_the_middle_only_while_a_side_is_too_small(n, spread):
    rng = np.random.default_rng(n)
    first, second = rng.normal(3, 1, n), rng.normal(3, spread, n)
    contexts = np.arange(n) % 4
    found = cap_tutor.sides_of(first, second, contexts, CONFIG)
    assert min(found.high.sum(), found.low.sum()) >= 8
    assert not (found.high & found.low).any()
    assert found.thresholds.high == pytest.approx(np.percentile(first, found.high_percentile))
    moved = found.high_percentile != 80
    at_first = np.percentile(first, [80, 20])
    assert moved == (min((second >= at_first[0]).sum(), (second <= at_first[1]).sum()) < 8)
    assert found.whole_contexts


def test_where_contexts_hold_one_side_alone_texts_are_dealt_to_the_halves():
    scores = np.concatenate([np.linspace(1, 2, 12), np.linspace(4, 5, 12)])
    found = cap_tutor.sides_of(scores, scores, np.repeat([0, 1], 12), CONFIG)
    assert not found.whole_contexts
    assert found.low[:12].any()
    assert not found.low[12:].any()


def test_the_quick_form_has_enough_candidates_of_few_contexts(dataset, home):
    config = CapConfig(judge="x", data="y", quick=True)
    few = dataset.responses[dataset.responses["item_id"].isin(["q0", "q1", "q2", "q3"])]
    held = dataclasses.replace(dataset, responses=few)
    fitted, left_out = to_the_data(config, held, make_judge(JUDGE, home), home)
    assert fitted.candidates * len(divide(fitted, held).training) >= 24
    assert not left_out
    assert CapConfig.model_validate(config.model_dump()) == config


def test_what_a_judge_has_no_prompt_for_is_left_out_by_name(dataset, home):
    def labels(request):  # as a saved card mostly is: its own prompt shows no anchors
        if request.anchored:
            raise InputError("no anchored prompt")
        return ("1", "5")

    judge = types.SimpleNamespace(labels=labels)
    config = CapConfig(judge="x", data="y", defenses=("none", "cot", "human-anchors", "wcap", "cap"))
    fitted, left_out = to_the_data(config, dataset, judge, home)
    assert fitted.defenses == ("none", "cot")
    assert set(left_out) == {"human-anchors", "wcap", "cap"}


def test_defenses_whose_anchors_the_data_cannot_give_are_named(dataset, home):
    assert without_anchors(load_dataset(DEMO_DIALOGUE, home.datasets), home) == {}
    plain = dataset.responses.assign(human_score=np.nan, quality=None).groupby("item_id").head(2)
    held = dataclasses.replace(dataset, responses=plain, dataset_id="without-a-run")
    assert set(without_anchors(held, home)) == {"human-anchors", "random-anchors", "cap"}
    rated = dataclasses.replace(held, responses=plain.assign(human_score=[1.0, 5.0] * (len(plain) // 2)))
    assert "two more responses" in without_anchors(rated, home)["human-anchors"]  # not: scores by people


def test_a_judge_with_a_prompt_more_still_answers_as_the_run_was_made():
    asked = [Request("i", "r", Task.DIALOGUE, "context", "text")]
    card = {"digest": "0123456789abcdef"}
    judge = types.SimpleNamespace(
        fingerprint="model-float32-new", card=lambda _: types.SimpleNamespace(**CARD, digest=card["digest"] * 4)
    )
    about = {"fingerprint": "model-float32-old", "prompts": [card]}
    assert answers_as(about, judge, asked)
    assert not answers_as(about | {"prompts": [{"digest": "another"}]}, judge, asked)
    assert not answers_as(about | {"fingerprint": "other-float32-old"}, judge, asked)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alphas": (-1.0,)}, "alpha -1 is not allowed"),
        ({"high_percentile": 10}, "out of order"),
        ({"defenses": ("sandwich",)}, "no arm of this study"),
        ({"defenses": ("perplexity?threshold=0",)}, "threshold cannot be"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(dataset, changes, message):
    with pytest.raises(ValueError, match=message):
        config_of(dataset, "x", **changes)


@pytest.mark.slow
def test_perplexity_is_read_by_the_tutor_at_fitted_thresholds_and_reasoning_is_written_once(
    dataset, tutor, home, monkeypatch
):
    loaded = load_tutor(f"path:{tutor}", home, cache=False)
    written = []
    write = loaded.write
    monkeypatch.setattr(loaded, "write", lambda asks, *rest: (written.append(len(asks)), write(asks, *rest))[1])
    monkeypatch.setattr(
        cap_run, "_base", lambda *_: loaded
    )  # stands for the bundled base model, which writes for others
    config = config_of(dataset, tutor, attacks=("dsi", "suffix"), defenses=("perplexity", "cot?tokens=8", "cap"))
    run = STUDY.begin(config.model_copy(update={"run_id": "screens"}), home.runs)
    run_cap(config, dataset, make_judge(JUDGE, home), loaded, run, home, lambda *_: None)
    found = as_record(run)
    fitted = found["perplexity"]["fitted"]
    assert found["perplexity"]["guard"] == loaded.loaded.spec
    assert [(one["against"], one["attacks"]) for one in fitted] == [("suffix", ["suffix"]), ("prompt", ["dsi"])]
    assert all((one["n_clean"], one["n_attacked"]) == (16, 16) for one in fitted)
    names = {parse_defense(f"perplexity?threshold={one['threshold']}").name for one in fitted}
    assert set(found["cost"]) == {"none", *names, "cot?tokens=8", "cap"}
    assert written[-1] == 16 * 3, "the reasoning is written for the arm and never again"
    own = run.table("verdicts").query("attack == 'none' and defense == 'cot?tokens=8'")
    assert found["cost"]["cot?tokens=8"]["tokens"] > 20 + own["prompt_tokens"].mean()
    assert "of best F1" in report(found)


def test_the_plan_counts_what_a_run_then_writes(finished, dataset, tutor, home):
    run, _, _ = finished
    config = config_of(dataset, tutor)
    plan = plan_cap(config, dataset, make_judge(JUDGE, home), load_tutor(config.tutor, home), home)
    anchors = run.table("cap_anchors")
    assert plan["texts"] == len(run.table("cap_texts")) + len(run.table("cap_sweep")) + len(anchors)
    assert plan["tutor_tokens"] >= anchors["tokens"].sum()
    assert (plan["calls"], plan["tokens"]) == (0, 0)  # a planted judge has no model


class Comparing:
    """A judge that prefers whatever the attack touched by a set amount, and says nothing else."""

    spec = "stub"
    protocols = frozenset({Protocol.PAIRWISE})

    def labels(self, request):
        if request.task is not Task.INSTRUCTION:
            raise InputError("no prompt")
        return ("A", "B")

    def judge(self, requests, checkpoint=None):
        lift = {"none": 0.0, "dsi": 0.2}
        first = {"0": 0.4, "1": 0.5, "2": 0.6, "3": 0.5}
        return [Verdict(p_a=first[r.response[6]] + lift[r.attack], p_tie=0.0) for r in requests]


def test_a_comparative_shift_is_given_in_its_own_unit_and_in_clean_deviations(dataset):
    config = config_of(dataset, "x")
    responses = divide(config, dataset).responses
    judge = Comparing()
    pairs = pairs_of(responses, judge)
    assert len(pairs) == 16
    assert all(p.task is Task.INSTRUCTION and p.response_b_id != p.response_id for p in pairs)
    scores = pd.DataFrame(
        [
            {"response_id": r.response_id, "attack": a, "defense": "none",
             "score": 1 + int(r.response[6]) + 2 * (a == "dsi")}
            for r in responses for a in ("none", "dsi")
        ]
    )  # fmt: skip
    rows = {r["metric"]: r for r in comparative_rows(config, pairs, judge, scores, None)}
    clean = np.array([{"0": 0.4, "1": 0.5, "2": 0.6, "3": 0.5}[r.response[6]] for r in responses])
    assert rows["comparative_shift"]["value"] == pytest.approx(0.2)
    assert rows["comparative_shift_sd"]["value"] == pytest.approx(0.2 / clean.std(ddof=1))
    levels = np.array([1.0 + int(r.response[6]) for r in responses])
    assert rows["absolute_shift_sd"]["value"] == pytest.approx(2 / levels.std(ddof=1))
