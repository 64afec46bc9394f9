"""The tabs "Learn a phrase" and "Perplexity threshold", driven in-process over runs that lie on disk."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from dashboard.pages.attack_lab.suffix import best_sentence, held_out_sentence, white_box
from engine.attacks.cards import SavedPhrase, save_phrase
from engine.core.schema import VERDICTS
from engine.runs.folder import create_run
from engine.stats.detection import fitted
from engine.studies.learned_suffix.metrics import length_metrics
from engine.studies.learned_suffix.study import SUFFIX_SEARCH
from engine.studies.perplexity_threshold.study import READINGS

CONFIG = {"judge": "bundled:judge", "data": "demo-dialogue", "protocol": "pointwise", "words": 2, "lower": False}
PHRASE = {"name": "found-x", "words": ["river", "seven"], "values": [2.0, 2.5, 2.75], "queries": 40}


def search_rows() -> pd.DataFrame:
    rows = [(0, "", 2.0, 8, 1), (1, "river", 2.5, 24, 1), (1, "tree", 2.1, 24, 0), (2, "seven", 2.75, 40, 1)]
    names = ["step", "word", "value", "queries", "chosen"]
    return SUFFIX_SEARCH.conform(pd.DataFrame(rows, columns=names).assign(n_unread=0))


def verdicts() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            "verdict_id": f"{a}{i}{k}", "judge": "bundled:judge", "protocol": "pointwise", "attack": a,
            "defense": "none", "item_id": f"i{i}", "response_id": f"r{i}{k}",
            "score": 3 + 0.2 * n + rng.normal(0, 0.05),
        }
        for i in range(6) for k in range(2) for n, a in enumerate(("none", "suffix:found-x:1", "suffix:found-x"))
    ]  # fmt: skip
    return VERDICTS.conform(pd.DataFrame(rows))


def saved_run(settings, *, measured: bool = True):
    run = create_run(settings.runs, "suffix", CONFIG, "learned")
    run.write_table("suffix_search", search_rows())
    if measured:
        run.write_table("metrics", length_metrics(verdicts()))
    run.update_manifest(state="done", phrase=PHRASE, judge={"spec": "bundled:judge", "device": "cpu"})
    save_phrase(
        SavedPhrase("found-x", ("river", "seven"), (2.0, 2.5, 2.75), "bundled:judge", "f", "pointwise", "none", "d",
                    "2026-01-01T00:00:00+00:00", "learned")
    )  # fmt: skip
    return run


def saved_readings(settings) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = [
        (f"r{i}", f"i{i}", attack, family, "train" if i % 2 else "test", float(np.exp(rng.normal(at, 0.5))))
        for i in range(12)
        for attack, family, at in (("none", "none", 4), ("suffix", "suffix", 6), ("dsi", "prompt", 4))
    ]
    names = ["response_id", "item_id", "attack", "family", "split", "value"]
    frame = READINGS.conform(pd.DataFrame(rows, columns=names).assign(screen="perplexity"))
    run = create_run(settings.runs, "detection", {"data": "demo-dialogue"}, "read")
    run.write_table("readings", frame)
    run.update_manifest(state="done")
    return frame


def open_tab(app, name: str, **query: str):
    app.query_params["tab"] = name
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page("pages/attack_lab/page.py").run()
    assert not app.exception, app.exception
    return app


def text_of(app) -> str:
    return " ".join(h.proto.body for h in app.get("html"))


def figures_of(app) -> list[dict]:
    return [json.loads(c.proto.spec) for c in app.get("plotly_chart")]


def test_a_finished_search_is_shown_with_its_intervals(app, settings):
    saved_run(settings)
    open_tab(app, "Learn a phrase", judge="bundled:judge")
    shown = text_of(app)
    assert "Learned: “river seven” takes the mean score on the training prompts from 2.00 to 2.75" in shown
    assert "On 12 responses of 6 items it was not learned on, its 2 words move the careful judge by +0.4" in shown
    steps, lengths = figures_of(app)
    assert steps["layout"]["title"]["text"] == "Which word raises the objective most?"
    assert lengths["layout"]["title"]["text"] == "What does the phrase do on other items?"
    assert "found-x" in str(app.dataframe[0].value.to_dict())


def test_before_a_search_of_one_s_own_the_recorded_one_is_shown_and_said_to_be_it(app, settings):
    open_tab(app, "Learn a phrase")
    assert "recorded on 20" in str([m.value for m in app.markdown]) + text_of(app) + str(figures_of(app))
    assert "it was not learned on" in text_of(app)
    assert not [b for b in app.button if b.key == "suffix_use"]  # its phrase is not on this machine


def test_a_judge_without_a_model_is_told_so(app, settings):
    open_tab(app, "Learn a phrase", judge="planted:injection")
    assert "this judge has no model here" in text_of(app)
    assert not [b for b in app.button if b.key == "suffix_run"]


def test_a_name_that_cannot_be_is_said_before_the_search(app, settings):
    open_tab(app, "Learn a phrase")
    app.text_input(key="suffix_name").set_value("No Good").run()
    assert "cannot name a phrase" in text_of(app)
    assert app.button(key="suffix_run").disabled


def test_the_threshold_starts_at_the_best_f1_and_follows_the_slider(app, settings):
    frame = saved_readings(settings)
    f1, threshold = fitted(frame, "suffix")
    open_tab(app, "Perplexity threshold", judge="planted:injection")
    assert f"best F1 on the fitting side, {f1:.2f}" in text_of(app) or "best F1 on the fitting side, 1" in text_of(app)
    [figure] = figures_of(app)
    assert len(figure["data"]) == 4
    slider = app.slider(key="screen_threshold_read_suffix")
    assert slider.value == pytest.approx(np.log10(threshold), abs=0.01)
    slider.set_value(slider.max).run()
    assert "set by hand" in text_of(app)
    assert "Perplexity above" in text_of(app)


def test_a_dialled_defense_and_a_learned_phrase_come_from_a_link(app, settings):
    saved_run(settings)
    defense = "delimiters+retokenise?rate=0.3"
    open_tab(app, "One response", judge="planted:constant", attack="suffix:found-x:1", defense=defense)
    assert app.selectbox(key="attack_phrase_suffix").value == "found-x"
    assert app.get_by_key("defense").value == ["delimiters", "retokenise?rate=0.3"]


@pytest.mark.parametrize(
    ("spec", "able"), [("bundled:judge", True), ("hf:a/b", True), ("planted:noisy", False), ("recorded:x", False)]
)
def test_white_boxes(spec, able):
    assert white_box(spec) is able


def test_sentences_of_a_search_that_is_going():
    going = search_rows().assign(chosen=[1, 1, 0, 0])
    sentence = best_sentence(going, {"words": ["river"]}, CONFIG)
    assert sentence == "Best so far: “river seven” takes the mean score on the training prompts from 2.00 to 2.75."
    start = best_sentence(going.iloc[:1], {"words": []}, CONFIG)
    assert start == "Without a phrase the mean score on the training prompts is 2.00."
    none = length_metrics(verdicts()[lambda v: v["attack"] == "none"])
    assert "not been measured" in held_out_sentence(none, PHRASE, {"judge": {}})
