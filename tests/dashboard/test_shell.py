"""The shell: one judge and one data set for all pages, a banner where a page shows something else, needs with mends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dashboard import findings, linked_run, state
from dashboard.datasets import add_scores, change_task, dataset
from dashboard.glossary import TERMS, explained
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.comparisons import read_comparisons, save_comparisons
from engine.data.store import load_dataset
from engine.runs import folder as runs
from tests.dashboard.test_pages import go, html_of

START, LAB = "pages/start/page.py", "pages/attack_lab/page.py"


def test_every_page_is_in_one_group_and_its_address_is_its_own():
    files = [file for group in linked_run.GROUPS.values() for file in group]
    assert sorted(files) == sorted(linked_run.PAGES)
    addresses = [url for _, _, url in linked_run.PAGES.values()]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("page", [file for file in linked_run.PAGES if linked_run.defaults(file)[1]])
def test_a_page_opens_on_a_judge_and_data_that_are_recorded_for_it(page):
    judge, data = linked_run.defaults(page)
    places = linked_run._pages("", "").items()
    kinds = [kind for kind, place in places if place.page == page and kind != "trust"]  # its data are not of the rail
    recorded = linked_run.recorded_runs()
    if any(kind in kinds for kind, _, _ in recorded):
        # a panel is of several judges and takes any choice
        assert (judge, data) in {(j or judge, d) for kind, j, d in recorded if kind in kinds}
        if {"transport_audit", "protocols"} & set(kinds):  # these open on published verdicts where a run has some
            published = any(kind in kinds and j.startswith("recorded:") for kind, j, _ in recorded)
            assert judge.startswith("recorded:") == published
        elif "refswap" in kinds:
            assert judge == "bundled:shortcut-verifier"
        elif any(kind in kinds and j == state.DEFAULT_JUDGE for kind, j, _ in recorded):
            assert judge == state.DEFAULT_JUDGE


def test_a_choice_that_was_made_stays_on_every_page_and_one_that_was_not_follows_the_page(app):
    at = go(app, START)
    at.switch_page("pages/reference_swap/page.py").run()
    assert at.session_state[state.DATA] == linked_run.defaults("pages/reference_swap/page.py")[1]
    at.switch_page(LAB).run()
    assert at.session_state[state.DATA] == state.DEFAULT_DATA
    at.selectbox(key=state.DATA).select("demo-summary").run()
    at.switch_page(START).run()
    assert at.session_state[state.DATA] == "demo-summary"


def test_pairs_where_responses_are_needed_are_told_in_a_banner_that_leads_on(app):
    at = go(app, LAB, judge="planted:injection", data="demo-pairs")
    assert "You see the demo, not" in html_of(at)
    assert 'role="status"' in html_of(at)
    at.button(key="mend_demo_demo-dialogue_0").click().run()
    assert at.session_state[state.DATA] == "demo-dialogue"
    assert "You see the demo" not in html_of(at)


def test_responses_and_pairs_of_one_name_are_told_apart_by_what_the_browser_sends_back(app, saved, settings):
    lines = "id,prompt,response_a,response_b,human\n" + "".join(
        f"p{i},question {i},one {i},two {i},a\n" for i in range(4)
    )
    save_comparisons(replace(read_comparisons("pairs.csv", lines.encode()), name=saved.name), settings.comparisons)
    app.query_params[state.DATA] = saved.dataset_id
    at = go(app, "pages/data/page.py")
    box = at.sidebar.selectbox(key=state.DATA)
    assert len(set(box.options)) == len(box.options)
    assert sum(saved.name in shown for shown in box.options) == 2
    assert at.session_state[state.DATA] == saved.dataset_id


def test_another_task_is_another_data_set_and_the_old_one_stays(saved, settings):
    made = change_task(saved, Task.QUESTION)
    assert made != saved.dataset_id
    assert load_dataset(made, settings.datasets).task == Task.QUESTION
    assert dataset(saved.dataset_id).task == Task.DIALOGUE
    assert set(dataset(made).items["task"]) == {"question"}


def test_scores_given_here_are_human_scores_of_a_data_set_of_its_own(saved, settings):
    given = {one: float(1 + i % 5) for i, one in enumerate(saved.responses["response_id"][:4])}
    made = load_dataset(add_scores(saved, given), settings.datasets)
    scores = made.responses.set_index("response_id")["human_score"].dropna()
    assert scores.to_dict() == given
    assert dataset(saved.dataset_id).responses["human_score"].isna().all()


def test_a_term_is_explained_once_and_no_text_becomes_markup():
    found = explained('BED and BED: a <script>"defense"</script>, bedroom')
    assert found.count("<abbr") == 2
    assert "<script" not in found
    assert all("<" not in about and '"' not in about for about in TERMS.values())


@pytest.mark.parametrize(
    ("on", "said"), [(0.2, "takes 80 % of it"), (1.5, "makes it stronger"), (-0.4, "turns it round")]
)
def test_what_a_defense_takes_is_its_share_of_the_undefended_change(on, said):
    def result(shift: float) -> dict:
        pair = {"clean": 2.0, "attacked": 2.0 + shift}
        return {"labels": list("12345")} | {k: {"score": v, "unread_reason": ""} for k, v in pair.items()}

    assert said in findings.compared_sentence(result(1.0), result(on), "dsi", "sandwich")


def test_the_recorded_answer_stands_until_the_live_one_is_there(app, monkeypatch):
    from dashboard.pages.attack_lab import one
    from engine.jobs.manager import Ask, JobManager

    ask = Ask(step="Loading the judge")
    monkeypatch.setattr(one, "PATIENCE_S", 0.0)
    monkeypatch.setattr(JobManager, "begin", lambda *_: ask)
    at = go(app, LAB, defense="delimiters")
    verdicts = runs.open_run(get_settings().assets / "demo" / "dialogue", "naive").table("verdicts")
    scores = verdicts.pivot(index="response_id", columns=["attack", "defense"], values="score")
    own = scores.loc[(scores["bed", "none"] - scores["none", "none"]).abs().idxmax()]  # BED moves the mean most
    page = html_of(at)
    assert f"from {own['none', 'none']:.2f} to {own['bed', 'none']:.2f}" in page
    assert f"{own['bed', 'delimiters'] - own['none', 'delimiters']:+.2f}" in page
    assert "Loading the judge" in page
    ask.error = "The worker process ended."
    ask.event.set()
    at.run()
    assert "could not be asked" in html_of(at)
    assert f"from {own['none', 'none']:.2f}" in html_of(at)
    assert math.isfinite(own["bed", "none"])


@pytest.mark.parametrize(("seconds", "said"), [(30.0, "about 30 s"), (None, "about unknown until it runs")])
def test_what_a_run_takes_is_told_also_where_a_server_is_not_asked_for_its_pace(seconds, said):
    from dashboard import minutes

    plan = {"calls": 5, "known": 2, "seconds": seconds}
    assert minutes._in_words(plan).startswith("5 judge calls, 2 known already")
    assert said in minutes._in_words(plan)
