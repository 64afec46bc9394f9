"""Steering and anchors on a run written by hand, without a model; every number on the page is one of its tables'."""

import json
import re
import shutil
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.json import dumps
from engine.core.schema import METRICS
from engine.data.dataset import build_dataset
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.store import load_dataset, save_dataset
from engine.jobs import manager as jobs
from engine.judges.base import Verdict, verdict_table
from engine.judges.planted import make_planted
from engine.runs import folder as runs
from engine.stats.shifts import defense_gains, from_undefended, shift_metrics
from engine.studies.cap.run import AlphaConfig, SweepConfig
from engine.studies.cap.study import STUDY, CapConfig
from engine.studies.figure import cap_name
from engine.studies.running import build_requests
from engine.studies.study import Context
from tests.dashboard.helpers import MARKUP, PLANTED, file_bytes
from tests.engine.conftest import save_tiny

PAGE = "pages/steering_and_anchors/page.py"
TABS = {"Layers": 1, "Map": 1, "Attacks": 3, "Cost": 5}
"""Figures of each tab, the one above them left out."""


def html_of(at) -> str:
    return "\n".join(e.proto.body for e in at.get("html"))


def words_of(at) -> str:
    """The page's text without the marks of explained words."""
    return re.sub(r"</?abbr[^>]*>", "", html_of(at))


def go(app, *opened: str, **query: str):
    """The page with some drawers open."""
    for key in opened:
        app.session_state[key] = True
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
    at = go(app, "cap_more", "cap_diagnosis", "cap_cost_more", judge=PLANTED, part=part)
    charts = at.get("plotly_chart")
    assert len(charts) == 1 + TABS[part]
    assert all(chart.proto.alt for chart in charts)


def test_the_headline_says_what_the_attack_does_without_and_behind_cap(app, run):
    at = go(app, "measured_cap", judge=PLANTED)
    shown = words_of(at)
    headline = re.search(r"js-headline[^>]*>([^<]*)<", shown)[1]
    assert headline.startswith("CAP weakens the strongest attack but does not stop it: DSI raises scores by 0.61")
    assert "by 0.20" in headline
    assert len(headline.split()) <= 25
    assert "DSI without a defense: 0.61" in shown  # the drawer has the intervals


def test_the_diagnosis_names_the_weak_links(app, run):
    at = go(app, "cap_diagnosis", judge=PLANTED)
    badges = " ".join(m.value for m in at.markdown).replace("\\", "")
    shown = words_of(at)
    assert "Does the tutor tell high texts from low ones?" in badges
    assert "hardly" in badges  # both: alpha of the paper's size, and reading the anchors
    assert "size, changes an activation by 1.50" in shown
    assert "Spearman with the ratings: 0.600 [0.500, 0.700]" in shown
    assert "high 3.75 [3.5" in shown  # a mean of four contexts has its interval beside the standard it was to reach
    assert "] for 4.10" in shown


def test_percentiles_are_read_out_anew(app, run):
    at = go(app, "cap_scores_open", judge=PLANTED)
    assert "8 of 40 new texts are retained as low, 8 as high" in html_of(at)
    at.get_by_key("cap_percentiles").set_value((10, 95)).run()
    assert not at.exception
    after = html_of(at)
    assert "4 of 40 new texts are retained as low, 2 as high" in after
    assert "A side needs 8 texts" in after


@pytest.fixture
def asked(monkeypatch):
    """What the page asks the worker at once; every ask is answered with a score of 3.5 for each text."""
    found = []

    def begin(self, kind, params):
        found.append((kind, params))
        rows = [
            {"side": side, "alpha": params["alpha"], "item_id": "d01", "text": f"{side} {MARKUP}", "score": 3.5,
             "relative_edit": 0.1}
            for side in ("high", "low")
        ]  # fmt: skip
        ask = jobs.Ask(result={"rows": rows})
        ask.event.set()
        return ask

    monkeypatch.setattr(jobs.JobManager, "begin", begin)
    return found


def test_a_stored_alpha_is_read_out_without_asking_anybody(app, run, asked):
    at = go(app, judge=PLANTED)
    assert "high 60.0 d" in html_of(at)
    at.slider(key="alpha").set_value(0.0).run()
    shown = html_of(at)
    assert "high 0.0 d" in shown
    assert "low 0.0 d" in shown
    assert "score 3" in words_of(at)
    assert at.query_params["alpha"] in ("0", ["0"])
    assert not asked


def test_any_other_alpha_is_asked_and_stands_as_a_hollow_point(app, run, asked):
    at = go(app, judge=PLANTED, alpha="30")
    assert [(kind, p["study_id"], p["alpha"]) for kind, p in asked] == [("cap_alpha", run.run_id, 30.0)]
    AlphaConfig.model_validate(asked[0][1])  # what the worker takes
    at.run()
    traces = json.loads(at.get("plotly_chart")[0].proto.spec)["data"]
    hollow = [trace for trace in traces if str(trace.get("name", "")).endswith("just now")]
    assert [(trace["x"], trace["y"]) for trace in hollow] == [([30.0], [3.5])] * 2
    stored = [trace for trace in traces if trace.get("name") == "steered high"]
    assert stored[0]["x"] == [0.0, 3.0, 60.0]  # its neighbours stay
    assert "3.50 (just now, n = 1)" in words_of(at)
    assert len(asked) == 1
    assert "<script" not in html_of(at)


def test_an_imported_run_asks_no_judge(app, run, asked):
    run.write_notes({"imported": "a file"})
    at = go(app, judge=PLANTED, alpha="30")
    assert not asked
    assert "its judge is not asked" in html_of(at)


def test_the_button_asks_the_worker_for_this_alpha_of_every_context(app, run, asked, monkeypatch):
    queued = []
    monkeypatch.setattr(jobs.JobManager, "submit", lambda self, kind, params: queued.append((kind, params)) or "0" * 12)
    at = go(app, judge=PLANTED, alpha="30")
    at.run()
    at.button(key="cap_extend").click().run()
    assert not at.exception
    more = {"study_id": run.run_id, "judge": PLANTED, "data": "demo-dialogue", "high": [30.0], "low": [30.0]}
    assert queued == [("cap_sweep", more)]
    SweepConfig.model_validate(more)  # what the worker takes


def test_an_alpha_chosen_from_the_contexts_that_still_had_a_text_is_said_to_be(app, run):
    sweep = run.table("cap_sweep")
    broken = (sweep["side"] == "high") & (sweep["alpha"] == 60) & (sweep["item_id"] == sweep["item_id"].iloc[0])
    run.write_table("cap_sweep", sweep.assign(score=sweep["score"].mask(broken)))
    shown = words_of(go(app, "measured_cap", "cap_diagnosis", judge=PLANTED))
    assert "with 60.0, 3 of 4 contexts had a text that could be scored" in shown
    assert "of which 7 of 8 could be scored" in shown


def test_what_the_data_lacked_is_said_by_name(app, run):
    run.update_manifest(left_out={"human-anchors": "No response is rated."})
    shown = words_of(go(app, "measured_cap", judge=PLANTED))
    assert f"Left out: {cap_name('human-anchors')}. No response is rated." in shown


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


def test_a_link_brings_the_alpha(app, run, asked):
    at = go(app, judge=PLANTED, alpha="2.9")
    assert "low 3.0 d" in html_of(at)  # the stop of the slider that is nearest to it
    assert not asked


def test_a_link_brings_the_layer_and_the_percentiles(app, run):
    at = go(app, "cap_scores_open", judge=PLANTED, percentiles="10-95")
    assert "4 of 40 new texts are retained as low, 2 as high" in html_of(at)
    at = go(app, judge=PLANTED, part="Map", cap_layer="1")
    assert at.slider(key="cap_layer").value == 1
    at.slider(key="cap_layer").set_value(2).run()
    assert at.query_params["cap_layer"] in ("2", ["2"])


def test_anchors_stand_under_their_labels_and_are_shown_verbatim(app, run):
    at = go(app, "cap_anchors_open", judge=PLANTED, part="Attacks")
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
        go(app, "cap_two", judge=PLANTED, part="Cost")
    )
    shutil.copytree(run.path, settings.runs / "other")
    other = runs.open_run(settings.runs, "other")
    metrics = other.table("metrics")
    behind = (metrics["metric"] == "shift") & (metrics["defense"] == "cap") & (metrics["attack"] == "dsi")
    other.write_table("metrics", metrics.assign(value=metrics["value"].where(~behind, 0.05)))
    other.update_manifest(run_id="other", tutor={"spec": "hf:some/tutor", "layers": 9}, created="2000-01-01T00:00:00")
    at = go(app, "cap_two", judge=PLANTED, part="Cost")
    chart = at.get("plotly_chart")[-1]
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


def test_a_judge_without_a_run_says_what_is_needed_and_starts_the_quick_form(app, monkeypatch):
    queued = []
    monkeypatch.setattr(jobs.JobManager, "submit", lambda self, kind, params: queued.append((kind, params)) or "0" * 12)
    at = go(app, judge=PLANTED)
    assert not at.get("plotly_chart")
    at.button(key="cap_quick").click().run()
    assert not at.exception
    assert queued == [("cap", {"judge": PLANTED, "data": "demo-dialogue", "quick": True})]
    assert CapConfig.model_validate(queued[0][1]).defenses == ("none", "cap")


@pytest.mark.parametrize(("n", "enough"), [(4, True), (3, False)])
def test_own_data_without_ratings_can_run_and_too_few_contexts_cannot(app, settings, n, enough):
    rows = [{"item_id": f"q{i}", "context": f"Question {i}", "response": f"Answer {i}"} for i in range(n)]
    raw = read_table("mine.csv", file_bytes(rows))
    made = build_dataset(raw, suggest_mapping(raw.frame), task="dialogue", name="mine")
    save_dataset(made, settings.datasets)
    at = go(app, "cap_settings", judge=PLANTED, data=made.dataset_id)
    assert at.button(key="cap_quick").disabled == (not enough)
    assert "Missing: Scores by people" in html_of(at)
    sliders = [s for s in at.slider if str(s.key).startswith("cap_candidates")]
    assert [2 * s.min >= 24 for s in sliders] == [True] * enough


def test_text_of_the_user_reaches_no_parser(app, saved):
    at = go(app, judge=PLANTED, data=saved.dataset_id)
    assert "<script" not in html_of(at)


@pytest.mark.parametrize("judge", ["bundled:naive", "bundled:judge"])
def test_the_recorded_runs_are_shown_as_recorded(app, judge):
    at = go(app, "measured_cap", judge=judge)
    assert "recorded on 20" in html_of(at).lower()
    assert "recorded on 20" in str(json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]["title"])
