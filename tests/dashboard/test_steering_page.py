"""Steering and anchors on a run written by hand, without a model; every number on the page is one of its tables'."""

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.json import dumps
from engine.core.schema import METRICS
from engine.core.settings import get_settings
from engine.data.store import load_dataset
from engine.jobs import manager as jobs
from engine.judges.base import Verdict, verdict_table
from engine.judges.planted import make_planted
from engine.runs import folder as runs
from engine.stats.shifts import defense_gains, from_undefended, shift_metrics
from engine.studies.cap.run import SweepConfig
from engine.studies.cap.study import STUDY, CapConfig
from engine.studies.running import build_requests
from engine.studies.study import Context
from tests.dashboard.helpers import MARKUP, PLANTED
from tests.engine.conftest import save_tiny

PAGE = "pages/steering_and_anchors/page.py"
TABS = {"Standards": 3, "Alpha": 1, "Anchors": 0, "Attacks": 2, "Cost and agreement": 5, "Two tutors": 0}


def html_of(at) -> str:
    return "\n".join(e.proto.body for e in at.get("html"))


def go(app, **query: str):
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page(PAGE).run()
    assert not app.exception, app.exception
    return app


def metric(name, defense, value, attack="none", half=0.1):
    return {
        "metric": name, "attack": attack, "defense": defense, "value": value, "lower": value - half,
        "upper": value + half, "level": 0.95, "method": "t, clustered by item", "n": 24, "n_clusters": 6, "n_unread": 0,
    }  # fmt: skip


def verdicts(dataset) -> pd.DataFrame:
    """DSI adds 0.6 without a defense and 0.2 behind CAP; one word of suffix adds 0.1, four add 0.4."""
    judge = make_planted(PLANTED)
    lifts = {("none", d): 0.0 for d in ("none", "cap")} | {("dsi", "none"): 0.6, ("dsi", "cap"): 0.2}
    lifts |= {("suffix:1", d): 0.1 for d in ("none", "cap")} | {("suffix", d): 0.4 for d in ("none", "cap")}
    parts = []
    for (attack, defense), lift in lifts.items():
        asked = [replace(r, attack=attack, defense=defense) for r in build_requests(dataset)]
        answers = [Verdict(score=2.0 + 0.1 * (k % 7) + lift * (1 + 0.01 * (k % 5))) for k in range(len(asked))]
        parts.append(verdict_table(judge, asked, answers))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def run(settings):
    """A finished run of the planted judge on the demo dialogues."""
    dataset = load_dataset("demo-dialogue", settings.datasets)
    config = {"judge": PLANTED, "data": "demo-dialogue", "high_percentile": 80, "low_percentile": 20, "form": "paper"}
    folder = runs.create_run(settings.runs, "cap", config, "by-hand")
    items = list(dataset.items["item_id"])
    rng = np.random.default_rng(0)
    texts = pd.DataFrame(
        [
            {"text_id": f"p{pool}-{k}", "pool": pool, "item_id": items[k % 4], "source": "plain", "temperature": 1.0,
             "text": MARKUP, "score": 1 + 0.1 * k, "side": None if pool == 1 else ("high" if k > 30 else "low"),
             "half": "fitted", "umap_x": k, "umap_y": -k}
            for pool in (1, 2) for k in range(40)
        ]
    )  # fmt: skip
    layers = pd.DataFrame(
        [
            {"space": space, "layer": layer, "fitted": 0.5, "value": 0.1 * layer, "lower": 0.05, "upper": 0.9,
             "null_mean": 0.1, "null_high": 0.25, "p_value": 0.02, "n_high": 9, "n_low": 8}
            for space in ("pca", "raw") for layer in (1, 2, 3)
        ]
    )  # fmt: skip
    points = [
        {"text_id": t, "layer": layer, "x": rng.normal(), "y": rng.normal()}
        for t in texts.loc[texts["pool"] == 2, "text_id"]
        for layer in (1, 2, 3)
    ]
    sweep = [
        {"side": side, "form": "paper", "layer": 3, "alpha": alpha, "item_id": item, "text": f"{side} {alpha} {item}",
         "score": 3 + sign * alpha / 100 + 0.1 * k, "relative_edit": alpha / 200, "perplexity": 9.0, "repetition": 0.1,
         "words": 3}
        for side, sign in (("high", 1), ("low", -1)) for alpha in (0.0, 3.0, 60.0) for k, item in enumerate(items[:4])
    ]  # fmt: skip
    anchors = [
        {"arm": arm, "item_id": item, "side": side, "text": f"{arm} {side} {item} {MARKUP}", "score": score,
         "alpha": 60.0 if arm == "cap" else np.nan, "tokens": 90}
        for arm in ("wcap", "cap") for item in items for side, score in (("high", 3.7), ("low", 2.1))
    ]  # fmt: skip
    judged = verdicts(dataset)
    rows = [metric(name, d, v) for name, values in {
        "spearman": {"none": 0.6, "cap": 0.4}, "tokens_alone": {"none": 150.0, "cap": 600.0},
        "tokens_shared": {"none": 150.0, "cap": 250.0}, "seconds_alone": {"none": 0.1}, "anchor_gap": {"cap": 1.6},
        "anchor_effect": {"cap": 0.05}, "anchor_lift": {"cap": -0.2},
    }.items() for d, v in values.items()]  # fmt: skip
    rows += [metric(m, "none", v, "dsi") for m, v in (("comparative_shift_sd", 0.3), ("absolute_shift_sd", 1.2))]
    tables = {
        "cap_texts": texts, "cap_layers": layers, "cap_points": pd.DataFrame(points), "cap_sweep": pd.DataFrame(sweep),
        "cap_anchors": pd.DataFrame(anchors), "verdicts": judged,
        "metrics": METRICS.conform(pd.concat([shift_metrics(judged), defense_gains(judged), pd.DataFrame(rows)])),
    }  # fmt: skip
    for name, table in tables.items():
        folder.write_table(name, table)
    cap = {"layer": 3, "best_layer": 3, "separated": True,
           "standard_high": 4.1, "standard_low": 1.8, "alpha_high": 60.0,
           "alpha_low": 60.0, "mean_norm": 290.0, "common_cosine": 0.99, "prompts_end": [[0.0]]}  # fmt: skip
    folder.update_manifest(
        state="done", finished=runs.now(), cap=cap, data={"dataset_id": "demo-dialogue", "name": "demo"},
        judge={"spec": PLANTED, "fingerprint": "planted-1", "labels": ["1", "2", "3", "4", "5"], "device": "no model"},
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("part", TABS)
def test_every_part_draws_its_figures(app, run, part):
    at = go(app, judge=PLANTED, part=part)
    charts = at.get("plotly_chart")
    assert len(charts) == TABS[part] + (part == "Attacks")
    assert all(chart.proto.alt for chart in charts)


def test_the_finding_says_what_the_attack_does_without_and_behind_cap(app, run):
    shown = html_of(go(app, judge=PLANTED))
    assert "DSI raises the mean score by 0.61" in shown
    assert "behind CAP the shift is 0.20" in shown
    assert "CAP weakens the strongest attack but does not stop it: DSI" in shown


def test_the_diagnosis_names_the_weak_links(app, run):
    at = go(app, judge=PLANTED)
    badges = " ".join(m.value for m in at.markdown).replace("\\", "")
    shown = html_of(at)
    assert "Does the tutor tell high texts from low ones?" in badges
    assert "hardly" in badges  # both: alpha of the paper's size, and reading the anchors
    assert "size, changes an activation by 1.50" in shown
    assert "Spearman with the ratings: 0.600 [0.500, 0.700]" in shown
    assert "high 3.75 [3.5" in shown  # a mean of four contexts has its interval beside the standard it was to reach
    assert "] for 4.10" in shown


def test_percentiles_are_read_out_anew(app, run):
    at = go(app, judge=PLANTED)
    assert "8 of 40 new texts are retained as low, 8 as high" in html_of(at)
    at.get_by_key("cap_percentiles").set_value((10, 95)).run()
    assert not at.exception
    after = html_of(at)
    assert "4 of 40 new texts are retained as low, 2 as high" in after
    assert "A side needs 8 texts" in after


def test_the_sweep_is_read_out_at_any_computed_alpha(app, run):
    at = go(app, judge=PLANTED, part="Alpha")
    assert "Steered high with alpha 60.0 (30.0 % of the activation), the texts score 3.75 [3.5" in html_of(at)
    assert "on 4 contexts (standard 4.10)" in html_of(at)
    at.get_by_key("cap_alpha_high_3").set_value(0.0).run()
    assert "Steered high with alpha 0 (0 % of the activation), the texts score 3.15" in html_of(at)
    assert "high 0.0 d" in html_of(at)
    assert at.query_params["alpha_high"] in ("0.0", ["0.0"])


def test_the_button_asks_the_worker_for_more_alphas_of_this_run(app, run, monkeypatch):
    asked = []
    monkeypatch.setattr(jobs.JobManager, "submit", lambda self, kind, params: asked.append((kind, params)) or "0" * 12)
    at = go(app, judge=PLANTED, part="Alpha")
    at.number_input(key="cap_extend_size").set_value(85.0).run()
    at.button(key="cap_extend").click().run()
    assert not at.exception
    more = {"study_id": run.run_id, "judge": PLANTED, "data": "demo-dialogue", "reach": 0.85}
    assert asked == [("cap_sweep", more)]
    SweepConfig.model_validate(more)  # what the worker takes


def test_an_alpha_chosen_from_the_contexts_that_still_had_a_text_is_said_to_be(app, run):
    sweep = run.table("cap_sweep")
    broken = (sweep["side"] == "high") & (sweep["alpha"] == 60) & (sweep["item_id"] == sweep["item_id"].iloc[0])
    run.write_table("cap_sweep", sweep.assign(score=sweep["score"].mask(broken)))
    shown = html_of(go(app, judge=PLANTED, part="Alpha"))
    assert "with 60.0, 3 of 4 contexts had a text that could be scored" in shown
    assert "of which 7 of 8 could be scored" in html_of(go(app, judge=PLANTED))


def test_shifts_can_be_read_as_distances_from_the_undefended_clean_score(app, run):
    at = go(app, judge=PLANTED, part="Attacks")
    assert at.segmented_control(key="cap_unit").options == ["Points", "% of the clean mean"]  # of an earlier version
    metrics = run.table("metrics")
    run.write_table("metrics", METRICS.conform(pd.concat([metrics, from_undefended(run.table("verdicts"))])))
    run.update_manifest(finished="2001-01-01T00:00:00+00:00")
    at = go(app, judge=PLANTED, part="Attacks")
    at.segmented_control(key="cap_unit").set_value("from_undefended").run()
    assert not at.exception
    specs = [json.dumps(json.loads(c.proto.spec), ensure_ascii=False) for c in at.get("plotly_chart")]
    assert any("attacked score − undefended clean score" in spec for spec in specs)
    assert "Attacked score behind the defense minus the clean score without one" in html_of(at)


def test_a_link_brings_the_alphas(app, run):
    at = go(app, judge=PLANTED, part="Alpha", alpha_low="2.9")
    assert "steered low with alpha 3.00" in html_of(at)  # the nearest of the grid


def test_a_link_brings_the_layer_and_the_percentiles(app, run):
    at = go(app, judge=PLANTED, percentiles="10-95", cap_layer="1")
    assert at.slider(key="cap_layer").value == 1
    assert "4 of 40 new texts are retained as low, 2 as high" in html_of(at)
    at.slider(key="cap_layer").set_value(2).run()
    assert at.query_params["cap_layer"] in ("2", ["2"])


def test_anchors_stand_under_their_labels_and_are_shown_verbatim(app, run):
    at = go(app, judge=PLANTED, part="Anchors")
    shown = html_of(at)
    before = shown[: shown.index(">cap low d")]
    assert before.rindex("as the low one") > before.rindex("as the high one")  # W-CAP's two stand ahead of CAP's
    between = shown[shown.index(">cap low d") : shown.index(">cap high d")]
    assert "as the high one" in between
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


def test_one_tutor_alone_says_how_to_get_the_other_and_two_stand_side_by_side(app, run, settings):
    run.update_manifest(tutor={"spec": "bundled:base", "layers": 3})
    assert "Every run of this judge on these data is by the tutor bundled:base" in html_of(
        go(app, judge=PLANTED, part="Two tutors")
    )
    shutil.copytree(run.path, settings.runs / "other")
    other = runs.open_run(settings.runs, "other")
    metrics = other.table("metrics")
    behind = (metrics["metric"] == "shift") & (metrics["defense"] == "cap") & (metrics["attack"] == "dsi")
    other.write_table("metrics", metrics.assign(value=metrics["value"].where(~behind, 0.05)))
    other.update_manifest(run_id="other", tutor={"spec": "hf:some/tutor", "layers": 9}, created="2000-01-01T00:00:00")
    at = go(app, judge=PLANTED, part="Two tutors")
    [chart] = at.get("plotly_chart")
    names = [trace["name"] for trace in json.loads(chart.proto.spec)["data"]]
    assert names == ["no defense", "CAP by bundled:base", "CAP by hf:some/tutor"] or names == [
        "no defense", "CAP by hf:some/tutor", "CAP by bundled:base",
    ]  # fmt: skip
    facts = at.dataframe[0].value.set_index("")
    assert facts.loc["Layers of the tutor"].tolist() in (["3", "9"], ["9", "3"])
    assert "1.60" in facts.loc["High anchor above low one"].iloc[0]


def test_a_tutor_without_a_chat_template_is_named_on_the_page(app, settings, tmp_path):
    bare = save_tiny(tmp_path / "bare", "llama", template="")
    params = {"judge": PLANTED, "data": "demo-dialogue", "tutor": f"path:{bare}", "attacks": ["dsi"]}
    with pytest.raises(InputError) as refused:
        STUDY.job(CapConfig(**params), Context(settings), settings.runs)
    failed = jobs.Job("a-job", "cap", params, state="failed", error=str(refused.value), created=1.0)
    settings.jobs.mkdir(parents=True, exist_ok=True)
    (settings.jobs / "a-job.json").write_text(dumps(asdict(failed)))
    at = go(app, judge=PLANTED, cap_job="a-job")
    assert "has no chat template, so it cannot be asked" in html_of(at)


def test_a_judge_without_a_run_says_what_to_do(app):
    at = go(app, judge=PLANTED)
    assert "has not been run with this judge on this data yet" in html_of(at)
    assert not at.get("plotly_chart")


def test_text_of_the_user_reaches_no_parser(app, saved):
    at = go(app, judge=PLANTED, data=saved.dataset_id)
    assert "<script" not in html_of(at)


def test_the_recorded_run_is_shown_as_recorded(app):
    folder = get_settings().assets / "demo" / "dialogue" / "cap"
    if not (folder / "metrics.parquet").is_file():
        pytest.skip("the recorded run of the study is absent; judgescope study cap makes one")
    at = go(app)
    assert "recorded on 20" in " ".join(m.value for m in at.markdown)
    assert "without a defense" in html_of(at)
