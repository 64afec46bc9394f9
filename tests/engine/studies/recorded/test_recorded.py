"""Recorded verdicts through the studies: by lookup for a data set, and as a run of their own."""

import pandas as pd
import pytest

from engine.data.store import load_dataset
from engine.judges.base import no_checkpoint
from engine.judges.registry import make_judge
from engine.runs.folder import create_run, open_run
from engine.studies.attack_grid.run import run_score
from engine.studies.attack_grid.study import ScoreConfig
from engine.studies.recorded.study import STUDY, RecordedConfig
from engine.studies.study import Context


def recorded_run(path, settings, run_id):
    STUDY.job(RecordedConfig(judge=f"recorded:{path}", run_id=run_id), Context(settings), settings.runs)
    return open_run(settings.runs, run_id)


@pytest.fixture
def demo_scores(tmp_path, settings):
    """Every demo reply clean and under dsi (+0.5; +0.25 behind the sandwich), one arm's verdict missing."""
    responses = load_dataset("demo-dialogue", settings.datasets).responses
    arms = [("none", "none", 0.0), ("dsi", "none", 0.5), ("none", "sandwich", 0.0), ("dsi", "sandwich", 0.25)]
    rows = [
        {"response_id": r, "item_id": i, "attack": a, "defense": d, "score": 2 + n % 3 * 0.5 + up}
        for n, (r, i) in enumerate(zip(responses["response_id"], responses["item_id"], strict=True))
        for a, d, up in arms
    ]
    path = tmp_path / "scores.csv"
    pd.DataFrame(rows[:-1]).to_csv(path, index=False)
    return path


def test_study_score_over_recorded_arms(demo_scores, settings):
    config = ScoreConfig(
        judge=f"recorded:{demo_scores}", data="demo-dialogue", attacks=("dsi",), defenses=("none", "sandwich")
    )
    run = create_run(settings.runs, "score", config.model_dump(), "r")
    data = load_dataset(config.data, settings.datasets)
    got = run_score(config, data, make_judge(config.judge, settings), run, no_checkpoint)
    shift = got[got["metric"] == "shift"].set_index("defense")
    assert shift["value"].to_dict() == {"none": 0.5, "sandwich": 0.25}
    assert shift["n_unread"].to_dict() == {"none": 0, "sandwich": 1}
    assert run.manifest()["judge"]["fingerprint"].startswith("recorded-2-")


def test_a_recording_is_a_run(demo_scores, settings):
    run = recorded_run(demo_scores, settings, "mine")
    manifest = run.manifest()
    assert (manifest["state"], manifest["recorded"]) == ("done", True)
    data = manifest["data"]
    assert data.pop("digest") == manifest["judge"]["fingerprint"]
    assert data == {"dataset_id": "", "name": "scores.csv", "n_items": 12, "n_responses": 48}
    assert manifest["recording"]["n_calls"] == manifest["recording"]["n_read"] == 48 * 4 - 1
    metrics = run.table("metrics")
    assert metrics.loc[metrics["metric"] == "shift", "value"].tolist() == [0.5, 0.25]
    assert len(run.table("verdicts")) == 191


def test_pairs_and_verifiers_have_their_rates(tmp_path, settings):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("comparison_id,attack,outcome_ab,outcome_ba\np,none,a,a\nq,none,a,b\np,length,a,\n")
    got = recorded_run(pairs, settings, "p").table("metrics")
    rows = got.set_index(["metric", "attack"])
    assert rows.loc[("first_slot", "none"), "value"] == 0.75
    assert rows.loc[("order_agreement", "none"), "value"] == 0.5
    assert rows.loc[("first_slot", "length"), "n_unread"] == 1
    assert rows.loc[("order_agreement", "length"), "n"] == 0
    verdicts = tmp_path / "v.csv"
    verdicts.write_text("response_id,item_id,verdict\na,q,yes\nb,r,no\nc,s,no\nd,t,?\n")
    rate = recorded_run(verdicts, settings, "v").table("metrics").iloc[0]
    assert (rate["metric"], rate["value"], rate["n"], rate["n_unread"]) == ("yes_rate", pytest.approx(1 / 3), 3, 1)
    assert rate["method"] == "Wilson"


def test_local_ids_are_counted_within_their_items(tmp_path, settings):
    """The given inputs: 30 first and 10 second responses; 20 pairs in both orders; 20 verdicts."""
    scores = [f"q{i},first,5" for i in range(30)] + [f"q{i},second,1" for i in range(10)]
    pairs = [f"q{i},A,B,{order},a" for i in range(20) for order in ("ab", "ba")]
    files = {
        "scores": ["item_id,response_id,score", *scores],
        "pairs": ["item_id,response_a,response_b,order,outcome", *pairs],
        "verdicts": ["item_id,response_id,verdict", *(f"q{i},r1,yes" for i in range(20))],
    }
    rows = {}
    for name, lines in files.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(lines))
        run = recorded_run(path, settings, name)
        assert run.manifest()["recording"]["left_out"] == {}
        rows[name] = run.table("metrics").iloc[0]
    assert (rows["scores"]["value"], rows["scores"]["n"]) == (4.0, 40)
    assert (rows["pairs"]["value"], rows["pairs"]["n"]) == (0.5, 40)
    assert (rows["verdicts"]["value"], rows["verdicts"]["n"]) == (1.0, 20)
