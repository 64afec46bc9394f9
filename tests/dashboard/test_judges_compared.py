"""Compare judges through the entry file: the recorded panels, every tab, a panel of one's own runs, links."""

from __future__ import annotations

import pytest

from dashboard import linked_run, state
from dashboard.pages.judges_compared.results import headline, own_sentences
from dashboard.pages.judges_compared.setup import STRONG, SYSTEMS, UNDER_ATTACK
from engine.core.settings import get_settings
from engine.jobs import manager as jobs
from engine.runs.folder import open_run
from engine.studies.panel.metrics import number
from tests.dashboard.test_pages import go, html_of, wait_for

PAGE = "pages/judges_compared/page.py"
TWO = ("planted:verbosity", "planted:injection")


def recorded(name: str):
    place, run_id = name.removeprefix("recorded:").split("/")
    return open_run(get_settings().assets / "demo" / place, run_id)


def test_the_page_opens_on_the_recorded_strong_judges_and_asks_none(app):
    at = go(app, PAGE)
    assert at.session_state[state.PANEL] == STRONG
    table = recorded(STRONG).table("panel")
    best, panel = number(table, "people", "GPT-4"), number(table, "people", "majority")
    page = html_of(at)
    assert f"GPT-4 alone agrees with people better than the majority of the panel, {100 * best['value']:.0f} %" in page
    assert f"{100 * panel['value']:.0f} %" in page
    assert not jobs.manager().recent()


@pytest.mark.parametrize(
    ("panel", "tab", "chart"),
    [
        (STRONG, "Each other", "panel_between"),
        (STRONG, "Panel and judge", "panel_difference"),
        (STRONG, "Cost", "panel_cost"),
        (UNDER_ATTACK, "Attacks", "panel_transfer"),
        (SYSTEMS, "Own family", "panel_own_family"),
    ],
)
def test_a_tab_shows_its_figure_with_the_ways_to_keep_it(app, panel, tab, chart):
    at = go(app, PAGE, panel=panel, panel_tab=tab)
    assert len(at.get("plotly_chart")) == 2
    assert at.button(key=f"{chart}_add")


def test_what_a_panel_lacks_is_said_and_a_button_shows_one_that_has_it(app):
    at = go(app, PAGE, panel_tab="Attacks")
    assert "no two of its judges were attacked" in html_of(at)
    at.button(key="panel_to_transfer").click().run()
    assert not at.exception, at.exception
    assert at.session_state[state.PANEL] == UNDER_ATTACK


@pytest.mark.parametrize("name", [STRONG, UNDER_ATTACK, SYSTEMS])
def test_a_headline_is_short(name):
    run = recorded(name)
    titles = {judge: judge for judge in run.table("panel_judges")["judge"]}
    assert len(headline(run.manifest()["panel"], run.table("panel"), titles).split()) <= 25


def test_a_preference_for_ones_own_is_claimed_only_beyond_other_families():
    table = recorded(SYSTEMS).table("panel")
    titles = {judge: judge for judge in table["judge"].dropna()}
    assert not any("favours its own" in line for line in own_sentences(table, titles))  # Claude is liked as much
    alone = table[(table["metric"] != "other_family") | (table["value"] < 0.05)]
    [first, *_] = own_sentences(alone, titles)
    assert "favours its own" in first


@pytest.mark.slow
def test_runs_of_ones_own_become_a_panel_and_a_link_to_it_opens(app):
    ids = []
    for judge in TWO:
        params = {"judge": judge, "data": "demo-dialogue", "attacks": ["dsi"], "limit": 6}
        job = jobs.manager().submit("attack_grid", params)
        wait_for(job, ("done",))
        ids.append(jobs.manager().get(job).params["run_id"])
    at = go(app, PAGE, data="demo-dialogue")
    assert at.session_state[state.PANEL] == UNDER_ATTACK  # the recorded one on these data
    assert set(at.multiselect(key="panel_runs_demo-dialogue").value) >= set(ids)
    at.multiselect(key="panel_runs_demo-dialogue").set_value(ids).run()
    at.button(key="panel_run").click().run()
    assert not at.exception, at.exception
    [job] = [j for j in jobs.manager().recent() if j.kind == "panel"]
    wait_for(job.job_id, ("done",))
    at.run()
    assert at.session_state[state.PANEL] == job.params["run_id"]
    assert "2 judges are worth" in html_of(at)
    assert linked_run.place_of(linked_run.read(job.params["run_id"])).page == PAGE
