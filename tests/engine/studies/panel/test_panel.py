"""Panels of planted judges whose numbers are known, of recorded ones by a second way, and of runs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from engine.cli.main import main
from engine.core.errors import InputError
from engine.core.schema import VERDICTS
from engine.core.settings import get_settings
from engine.data.families import family_of
from engine.runs.folder import RunFolder, create_run, open_run
from engine.stats.shifts import paired_shifts
from engine.studies.panel.metrics import number
from engine.studies.panel.run import run_panel
from engine.studies.panel.study import STUDY, PanelConfig
from engine.studies.study import Context

DEMO = get_settings().assets / "demo"
SYSTEMS = ("gpt-4o", "claude-3", "qwen-7b", "some-model")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """What is tested here does not hang on the number of resamples of ranks."""
    monkeypatch.setattr("engine.stats.panel.RESAMPLES", 200)


def panel(settings, **config) -> RunFolder:
    """A panel run of these settings."""
    made = PanelConfig(**config)
    folder = STUDY.begin(made, settings.runs)
    run_panel(made, Context(settings, local_files=True), folder)
    return folder


def recording(path, favour: dict[str, float], items: int = 32, seed: int = 0):
    """Judges on every two of four systems, both orders: right by the better answer with 0.8, but for its favour.

    Args:
        path: of the csv.
        favour: judge -> share of pairs with a GPT system in which that one is preferred whatever the answers are.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(items):
        better = dict(zip(SYSTEMS, rng.random(len(SYSTEMS)), strict=True))
        for a, b in ((a, b) for k, a in enumerate(SYSTEMS) for b in SYSTEMS[k + 1 :]):
            for judge, share in favour.items():
                first = (better[a] > better[b]) == (rng.random() < 0.8)
                if "gpt" in a + b and rng.random() < share:
                    first = "gpt" in a
                for x, y, verdict in ((a, b, "A" if first else "B"), (b, a, "B" if first else "A")):
                    rows.append((judge, f"q{i}", x, y, verdict))
    columns = ["judge", "item_id", "system_first", "system_second", "slot_verdict"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return f"recorded:{path}"


def test_self_preference_is_found_where_it_was_planted_and_nowhere_else(settings, tmp_path):
    spec = recording(tmp_path / "v.csv", {"gpt-5": 0.5, "claude-4": 0.0, "qwen-max": 0.0})
    table = panel(settings, judges=(spec,)).table("panel")
    found = number(table, "self_preference", "gpt-5")
    # half of the pairs go to GPT in place of a side that is even on average
    assert found["lower"] <= 0.25 <= found["upper"]
    assert found["lower"] > 0.1
    for judge in ("claude-4", "qwen-max"):
        honest = number(table, "self_preference", judge)
        assert honest["lower"] <= 0.1 <= honest["upper"] + 0.12  # its reference holds the judge that favours GPT
    apart = table[(table["metric"] == "other_family") & (table["judge"] == "gpt-5")]
    assert set(apart["about"]) == {"Claude", "Qwen"}
    assert 0 < number(table, "alpha")["value"] < 1
    assert (apart["value"] < found["lower"]).all()
    honest_only = recording(tmp_path / "honest.csv", {"gpt-5": 0.0, "claude-4": 0.0}, seed=7)
    fair = panel(settings, judges=(honest_only,)).table("panel")
    for judge in ("gpt-5", "claude-4"):
        row = number(fair, "self_preference", judge)
        assert row["lower"] <= 0 <= row["upper"]


def test_no_claim_on_families_where_no_system_is_of_one(settings, tmp_path):
    spec = recording(tmp_path / "v.csv", {"somebody": 0.5, "another": 0.0}, items=8)
    table = panel(settings, judges=(spec,)).table("panel")
    assert not table["metric"].isin(["self_preference", "other_family", "own_share"]).any()


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("GPT-4", "GPT"),
        ("ChatGPT-0301", "GPT"),
        ("gpt4all-13b-snoozy", ""),
        ("gpt2", ""),
        ("api:gpt-4o-mini", "GPT"),
        ("hf:Qwen/Qwen2.5-7B-Instruct", "Qwen"),
        ("hf:mistralai/Mixtral-8x7B", "Mistral"),
        ("PaLM2", "PaLM and Gemini"),
        ("palm-2-chat-bison-001", "PaLM and Gemini"),
        ("vicuna-13b-v1.3", ""),
        ("LLaMA2", "Llama"),
        ("meta-llama/Llama-3-8B", "Llama"),
        ("bundled:judge", "SmolLM"),
        ("planted:noisy", ""),
        ("", ""),
    ],
)
def test_a_family_is_told_by_the_beginning_of_a_name(name, family):
    assert family_of(name) == family


def test_the_recorded_panel_agrees_with_a_count_of_the_shipped_verdicts():
    votes = pd.read_parquet(DEMO / "llmbar" / "verdicts.parquet").query("prompt == 'Vanilla'")
    people = pd.read_parquet(DEMO / "llmbar" / "pairs.parquet").set_index("comparison_id")["human"]
    side = votes[["outcome_ab", "outcome_ba"]].apply(lambda c: c.map({"a": 1.0, "b": 0.0})).mean(axis=1, skipna=False)
    wide = votes.assign(side=side).pivot(index="comparison_id", columns="judge", values="side")
    told = people.map({"a": 1.0, "b": 0.0}).reindex(wide.index)
    kept = wide.dropna()
    table = open_run(DEMO / "llmbar", "panel").table("panel")
    for judge in wide:
        wanted = (1 - (kept[judge] - told[kept.index]).abs()).mean()
        assert number(table, "people", judge)["value"] == pytest.approx(wanted)
    majority = 0.5 + 0.5 * np.sign((kept - 0.5).sum(axis=1))
    assert number(table, "people", "majority")["value"] == pytest.approx(
        (1 - (majority - told[kept.index]).abs()).mean()
    )
    rho = kept.sub(told[kept.index], axis=0).abs().corr().to_numpy()[np.triu_indices(6, 1)].mean()
    assert number(table, "effective_votes")["value"] == pytest.approx(6 / (1 + 5 * rho))


def grid(settings, name: str, moves: dict[str, float], data: str = "d", items: int = 12) -> str:
    """A run of the attack grid with shifts that are known: each attack moves each response by so much."""
    rng = np.random.default_rng(len(name))
    rows = []
    for i in range(items):
        clean = float(rng.uniform(2, 3))
        for attack, move in {"none": 0.0, **moves}.items():
            rows.append(
                {
                    "verdict_id": f"{i}-{attack}", "judge": name, "protocol": "pointwise", "attack": attack,
                    "defense": "none", "item_id": f"i{i}", "response_id": f"r{i}",
                    "score": clean + move + float(rng.normal(0, 0.01)), "prompt_tokens": 100,
                }
            )  # fmt: skip
    run = create_run(settings.runs, "score", {"judge": name, "data": data}, name.replace(":", "-"), kind="attack_grid")
    run.write_table("verdicts", VERDICTS.conform(pd.DataFrame(rows)))
    run.update_manifest(state="done", judge={"spec": name, "values": [1, 2, 3, 4, 5]})
    run.release()
    return run.run_id


def test_an_attack_found_on_one_judge_is_measured_on_the_other(settings):
    runs = [grid(settings, "x:a", {"dsi": 1.0, "bed": 0.2}), grid(settings, "x:b", {"dsi": 0.1, "bed": 0.6})]
    table = panel(settings, runs=tuple(runs)).table("panel")
    wanted = {("x:a", "x:a"): 1.0, ("x:a", "x:b"): 0.1, ("x:b", "x:b"): 0.6, ("x:b", "x:a"): 0.2}
    for (found_on, run_on), shift in wanted.items():
        row = number(table, "transfer", found_on, run_on)
        assert row["value"] == pytest.approx(shift, abs=0.02)
        assert row["lower"] < row["value"] < row["upper"]
        assert row["about"] == {"x:a": "dsi", "x:b": "bed"}[found_on]
        assert row["n"] == 12


def test_the_choice_of_an_attack_does_not_flatter_it(settings):
    """Two attacks that do nothing: the larger of two noises, measured on the same items, would be above zero."""
    diagonal = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        shifts = pd.DataFrame(
            [
                {"item_id": f"i{i}", "response_id": f"r{i}", "attack": attack, "shift": rng.normal()}
                for i in range(40)
                for attack in ("dsi", "bed", "adaptive", "ignore")
            ]
        )
        from engine.studies.panel.metrics import transfer_rows

        rows = list(transfer_rows({"a": shifts, "b": shifts}, {}, 0.95, seed))
        diagonal.append(rows[0]["value"])
    assert abs(np.mean(diagonal)) < 3 / np.sqrt(40 * 12)


def test_a_phrase_learned_on_one_judge_stands_apart(settings):
    learned = create_run(settings.runs, "suffix", {"judge": "x:a", "data": "d"}, "learned", kind="learned_suffix")
    arms = {"suffix:mine:1": 0.2, "suffix:mine:2": 0.9}
    base = open_run(settings.runs, grid(settings, "x:a", arms)).table("verdicts")
    learned.write_table("verdicts", base)
    learned.update_manifest(state="done", judge={"spec": "x:a"}, phrase={"name": "mine", "words": ["b", "c"]})
    learned.release()
    other = grid(settings, "x:b", {"suffix:mine": 0.3})
    table = panel(settings, runs=("learned", other)).table("panel")
    own, carried = (number(table, "transfer_learned", "x:a", judge) for judge in ("x:a", "x:b"))
    assert (own["value"], carried["value"]) == pytest.approx((0.9, 0.3), abs=0.02)
    assert own["about"] == carried["about"] == "suffix:mine"


def test_scores_beside_peoples_are_rank_correlations(settings):
    """The demo's constructed quality has no human scores, so labels come from a data set of its own."""
    from engine.data.dataset import build_dataset
    from engine.data.reading import read_table
    from engine.data.store import save_dataset

    people = [1 + i % 5 for i in range(12)]
    raw = read_table("d.csv", pd.DataFrame({
        "response_id": [f"r{i}" for i in range(12)], "item_id": [f"i{i}" for i in range(12)],
        "response": [f"text {i}" for i in range(12)], "human_score": people,
    }).to_csv(index=False).encode())  # fmt: skip
    mapping = {"response": "response", "response_id": "response_id", "item_id": "item_id", "human_score": "human_score"}
    dataset = build_dataset(raw, mapping, task="question", name="d.csv")
    save_dataset(dataset, settings.datasets)
    runs = [grid(settings, name, {}, dataset.dataset_id) for name in ("x:a", "x:bb")]
    folder = panel(settings, runs=tuple(runs))
    table, votes = folder.table("panel"), folder.table("panel_votes")
    for judge in ("x:a", "x:bb"):
        own = votes[votes["judge"] == judge]
        wanted = own["vote"].corr(own["human"], method="spearman")
        assert number(table, "people", judge)["value"] == pytest.approx(wanted)
    assert folder.manifest()["panel"]["n_labelled"] == 12
    assert number(table, "effective_votes")["other"] == "errors"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "2 to 20 judges"),
        ({"judges": ("bundled:judge",)}, "asks no judge"),
        ({"runs": ("no-such-run",)}, "no run 'no-such-run'"),
    ],
)
def test_what_is_no_panel_is_told_with_what_would_be_one(settings, config, says):
    with pytest.raises(Exception, match=says):
        panel(settings, **config)


def test_one_judge_is_no_panel_nor_are_verdicts_of_another_protocol(settings, tmp_path):
    spec = recording(tmp_path / "v.csv", {"a": 0.0, "b": 0.0}, items=2)
    with pytest.raises(InputError, match="hold 1"):
        panel(settings, judges=(f"{spec}?judge=a",))
    with pytest.raises(InputError, match="same responses"):
        panel(settings, judges=(spec,), protocol="pointwise")


def test_judges_of_different_data_are_no_panel(settings):
    runs = [grid(settings, "x:a", {}), grid(settings, "x:b", {})]
    other = open_run(settings.runs, runs[1])
    other.write_table("verdicts", other.table("verdicts").assign(item_id="elsewhere"))
    with pytest.raises(InputError, match="same study on the same data"):
        panel(settings, runs=tuple(runs))


def said(capsys, *args: str):
    code = main([*args, "--json"])
    out = capsys.readouterr().out.splitlines()
    return code, json.loads(out[-1]), out


SCORE = ("score", "demo-dialogue", "--limit", "4", "--attack", "dsi")
TWO = ("--judge", "planted:verbosity", "--judge", "planted:injection")


def test_a_judge_repeated_runs_each_and_a_panel_and_goes_on_under_the_same_id(capsys, settings):
    code, told, out = said(capsys, *SCORE, *TWO, "--run-id", "mine")
    assert code == 0
    ids = ["mine-planted-verbosity", "mine-planted-injection", "mine-panel"]
    assert [run["run_id"] for run in told["runs"]] + [told["panel"]["run_id"]] == ids
    assert out[0].startswith("planted:verbosity: 8 verdicts")  # the cost of all comes before any result
    assert out[2].startswith("Together: ")
    alone = said(capsys, *SCORE, "--judge", TWO[1], "--run-id", "alone")[1]
    together = open_run(settings.runs, ids[0]).table("verdicts")["score"]
    assert open_run(settings.runs, "alone").table("verdicts")["score"].tolist() == together.tolist()
    assert alone | {"run_id": ids[0]} == told["runs"][0]  # one judge gives what it always gave
    moved = open_run(settings.runs, ids[1])
    row = number(
        open_run(settings.runs, "mine-panel").table("panel"), "transfer", "planted:injection", "planted:injection"
    )
    assert row["value"] == pytest.approx(paired_shifts(moved.table("verdicts"))["shift"].mean())
    again = said(capsys, *SCORE, *TWO, "--run-id", "mine")[1]
    assert open_run(settings.runs, again["runs"][0]["run_id"]).manifest()["resumed"]


def test_a_dry_run_adds_the_judges_up_and_leaves_nothing(capsys, settings):
    told = said(capsys, *SCORE, *TWO, "--dry-run")[1]
    assert told["verdicts"] == sum(one["verdicts"] for one in told["judges"]) == 16
    assert [one["judge"] for one in told["judges"]] == list(TWO[1::2])
    assert not settings.runs.is_dir() or not list(settings.runs.iterdir())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*SCORE, "--judge", "planted:constant", "--judge", "planted:constant"), "twice"),
        ((*SCORE, "--judge", "planted:constant", "--judge", "planted:nobody"), "nobody"),
        (("study", "checkup", *TWO, "--redecide", "x"), "--redecide"),
    ],
)
def test_judges_that_cannot_be_asked_stop_it_before_any_runs(capsys, settings, args, says):
    assert main(list(args)) == 2
    assert says in capsys.readouterr().err
    assert not settings.runs.is_dir() or not list(settings.runs.iterdir())


def test_a_study_of_several_judges_is_one_run_of_them(capsys, tmp_path):
    spec = recording(tmp_path / "v.csv", {"a": 0.0, "b": 0.0, "c": 0.0}, items=3)
    code, told, _ = said(capsys, "study", "panel", "--judge", f"{spec}?judge=a", "--judge", f"{spec}?judge=c")
    assert code == 0
    assert [one["judge"] for one in told["judges"]] == ["a", "c"]
