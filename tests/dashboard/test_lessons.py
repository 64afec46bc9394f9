"""Lessons and the glance on Start: numbers come from the runs' tables, presets set their pages, progress is kept."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from dashboard import findings, state
from dashboard.measured import FIRST_SLOT, STRONGEST, Measured, elsewhere, find, shift
from dashboard.pages.lessons import texts
from dashboard.pages.lessons.texts import JUDGE, LAB, NAIVE, lessons
from dashboard.pages.lessons.view import about_guess, verdict
from dashboard.pages.start.glance import judged
from engine.cli.main import main
from engine.core.schema import METRICS, NONE
from engine.core.settings import get_settings
from engine.plots.glance import GlanceRow
from engine.plots.text import MINUS
from engine.runs import folder as runs
from engine.stats.shifts import metric_row
from tests.dashboard.test_pages import go, html_of

LESSONS = lessons()
BY_KEY = {lesson.key: lesson for lesson in LESSONS}
START, PAGE = "pages/start/page.py", "pages/lessons/page.py"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda one: one.key)
def test_every_lesson_is_answered_by_a_recorded_run(lesson):
    for measure in lesson.measures:
        found = find(measure, lesson.judge, lesson.data, recorded_only=True)
        assert found
        assert found.recorded
        assert found.row.n > 0
        assert math.isfinite(found.row.value)


def test_the_answer_is_what_the_recorded_verdicts_say():
    folder = runs.demo_run("demo-dialogue")
    verdicts = folder.table("verdicts")
    scores = verdicts[verdicts["defense"] == NONE].pivot(index="response_id", columns="attack", values="score")
    found = find(shift("dsi", "DSI"), JUDGE, "demo-dialogue", recorded_only=True)
    assert found.row.value == pytest.approx(float((scores["dsi"] - scores[NONE]).mean()))
    assert found.row.n == scores[["dsi", NONE]].dropna().shape[0]


def test_a_planted_judge_shows_the_effect_that_was_planted():
    assert main(["score", "demo-dialogue", "--judge", "planted:injection", "--attack", "dsi"]) == 0
    found = find(shift("dsi", "DSI"), "planted:injection", "demo-dialogue")
    assert not found.recorded
    assert found.row.lower <= 0.8 + 0.05
    assert found.row.upper >= 0.8 - 0.05
    assert "So it is fooled." in verdict(BY_KEY["fool"], found)


def made(value: float, lower: float, upper: float, null: float = 0) -> Measured:
    row = GlanceRow("Shift", value, lower, upper, "points", -1, 1, null, "no change", n=9, n_clusters=3)
    return Measured(row, {"state": "done"})


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        pytest.param((0.3, 0.1, 0.5), "So it is fooled.", id="seen"),
        pytest.param((0.3, -0.1, 0.5), "the interval reaches “no change”", id="not clear"),
        pytest.param((-0.3, -0.5, -0.1), "it goes the other way", id="opposite"),
        pytest.param((0.3, math.nan, math.nan), "the interval reaches", id="no interval is no effect"),
    ],
)
def test_the_verdict_follows_the_interval_and_not_the_estimate(ends, says):
    assert says in verdict(BY_KEY["fool"], made(*ends))


@pytest.mark.parametrize(("guess", "says"), [(0.4, "inside"), (-0.4, "outside"), (0.5, "off by 0.20")])
def test_a_guess_is_held_against_the_interval(guess, says):
    assert says in about_guess(guess, made(0.3, 0.1, 0.5))


def own_run(run_id: str, value: float, data: str, state_: str = "done", metric: str = "shift") -> None:
    from engine.stats.intervals import Interval

    run = runs.create_run(get_settings().runs, "score", {"judge": JUDGE, "data": data}, run_id)
    interval = Interval(value, value - 0.1, value + 0.1, 0.95, "t", 8, 4)
    rows = [
        metric_row(metric, attack, NONE, replace(interval, value=v), 8) for attack, v in (("dsi", value), ("bed", 0.01))
    ]
    run.write_table("metrics", METRICS.conform(pd.DataFrame(rows)))
    run.update_manifest(state=state_)


def test_the_users_own_run_comes_first_and_the_largest_shift_is_named():
    own_run("mine", 0.7, "my-data")
    found = find(STRONGEST, JUDGE, "my-data")
    assert (found.row.value, found.row.name) == (0.7, "Score shift, DSI")
    assert not found.recorded
    assert find(STRONGEST, JUDGE, "demo-dialogue").recorded
    assert find(FIRST_SLOT, "planted:noisy") is None


def test_a_run_that_has_not_ended_is_not_shown():
    own_run("going", 0.7, "my-data", state_="running")
    assert find(STRONGEST, JUDGE, "my-data") is None


def test_other_judges_gains_come_from_the_shipped_table(settings):
    table = pd.read_csv(settings.assets / "results" / "puaudit.csv")
    most, least = elsewhere()
    assert most.value == pytest.approx(100 * table["gain"].max())
    assert least.value == pytest.approx(100 * table["gain"].min())


def test_progress_and_guesses_come_from_the_address(app):
    at = go(app, PAGE, lesson="fool", answered="fool:0.5,slot,nonsense:3,audit:x")
    assert f"3 of {len(LESSONS)} answers" in html_of(at)
    assert at.number_input(key="guess_fool").value == 0.5
    assert "The guess was 0.5 points" in html_of(at)
    assert at.get("plotly_chart")[0].proto.alt


def test_no_answer_is_on_the_page_before_it_is_asked_for(app):
    at = go(app, PAGE, lesson="empty")
    told = f"On {findings.judge_name(BY_KEY['empty'].judge)}"
    assert told not in html_of(at)
    assert not at.get("plotly_chart")
    at.number_input(key="guess_empty").set_value(30.0).run()
    at.button(key="reveal_empty").click().run()
    assert f"{told}: master keys accepted" in html_of(at)
    assert "The guess was 30" in html_of(at)
    assert at.query_params["answered"] == "empty:30"
    at.button(key="again_empty").click().run()
    assert "answered" not in at.query_params
    assert told not in html_of(at)


@pytest.mark.parametrize("lesson", [one for one in LESSONS if one.preset.page != LAB], ids=lambda one: one.key)
def test_a_preset_is_taken_by_its_page(app, lesson):
    at = go(app, lesson.preset.page, **lesson.preset.query)
    assert "not on this machine" not in html_of(at)
    for key in {state.JUDGE, state.DATA} & set(lesson.preset.query):
        assert at.session_state[key] == lesson.preset.query[key]


def test_start_shows_five_words_of_both_judges_and_attacks_either(app):
    at = go(app, START)
    for spec, name in ((NAIVE, "naive"), (JUDGE, "run")):
        verdicts = runs.open_run(get_settings().assets / "demo" / "dialogue", name).table("verdicts")
        scores = verdicts.query("defense == 'none'").pivot(index="response_id", columns="attack", values="score")
        shifts = scores.drop(columns="none").sub(scores["none"], axis=0).mean()
        largest = shifts[shifts.abs().idxmax()]
        assert f"{largest:+.2f} points".replace("-", MINUS) in html_of(at), spec
    assert "falls" in html_of(at)
    assert "resists" in html_of(at)
    at.button(key="attack_naive").click().run()
    assert at.session_state[state.JUDGE] == NAIVE
    assert at.session_state[state.RESPONSE] == "d01-off-topic"


@pytest.mark.parametrize(
    ("ends", "both", "word"),
    [
        ((3.0, 2.1, 4.0), False, "falls"),
        ((3.0, 1.0, 5.0), False, "fair"),
        ((0.5, -1.0, 1.5), False, "resists"),
        ((-3.0, -4.0, -2.5), False, "resists"),
        ((-3.0, -4.0, -2.5), True, "falls"),
        ((0.0, -2.5, 1.0), True, "fair"),
        ((math.nan, math.nan, math.nan), True, "not measured"),
    ],
)
def test_the_verdict_word_follows_the_interval(ends, both, word):
    assert judged(*ends, 2.0, both=both) == word


def test_a_lesson_is_told_on_a_judge_that_shows_its_effect_with_the_careful_one_as_the_turn():
    for before, lesson in zip(texts.FIXED, LESSONS, strict=False):
        if before.judge == lesson.judge:
            continue
        found = {j: find(lesson.measures[0], j, lesson.data, recorded_only=True) for j in (JUDGE, NAIVE, lesson.judge)}
        assert lesson.other.judge == JUDGE
        assert lesson.preset.query[state.JUDGE] == lesson.judge
        if found[NAIVE] and found[NAIVE].side * lesson.sign > 0:
            row = found[lesson.judge].row
            assert abs(row.value - row.null) >= abs(found[NAIVE].row.value - found[NAIVE].row.null)


def test_a_strong_judge_s_lesson_is_there_once_its_verdicts_are(monkeypatch):
    monkeypatch.setattr(texts, "recorded_runs", lambda: [("protocols", JUDGE, "demo-instruction")])
    assert texts.strong() is None
    monkeypatch.setattr(texts, "BUNDLED", ())
    assert texts.strong().measures[0].unit == "%"


def test_start_says_what_a_judge_without_runs_lacks(app):
    at = go(app, START, judge="planted:noisy")
    assert "Nothing has been measured" in html_of(at)
    assert at.session_state[state.JUDGE] == "planted:noisy"
