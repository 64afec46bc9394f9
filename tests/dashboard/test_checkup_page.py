"""The Check-up page through the entry file: recorded numbers, a run of one's own, thresholds, links, markup."""

from __future__ import annotations

from dashboard import state
from dashboard.pages.checkup.results import link_of
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_PAIRS
from engine.jobs import manager as jobs
from engine.runs.folder import open_run
from engine.studies.checkup.metrics import BY_NAME, FAILS, decide
from tests.dashboard.helpers import MARKUP
from tests.dashboard.test_pages import go, html_of, wait_for

PAGE = "pages/checkup/page.py"
JUDGE = "planted:position?strength=1"


def run(judge: str = JUDGE, data: str = DEMO_PAIRS, **changes) -> jobs.Job:
    params = {"judge": judge, "data": data, "responses": 1, "pairs": 1, **changes}
    job = jobs.manager().submit("checkup", params)
    wait_for(job, ("done",))
    return jobs.manager().get(job)


def page(app, **query):
    return go(app, PAGE, judge=JUDGE, data=DEMO_PAIRS, **query)


def test_the_page_opens_on_the_recorded_check_up(app):
    at = go(app, PAGE)
    html = html_of(at)
    decisions = decide(open_run(get_settings().assets / "demo" / "checkup", "naive").table("checkup"))
    failed = sum(one.verdict == FAILS for one in decisions)
    assert f"fails {failed} of" in html
    assert html.count("✗ fails") == failed
    assert "recorded on 20" in html
    assert all(card.title in html for card in BY_NAME.values())
    assert not jobs.manager().recent()


def test_a_judge_that_was_not_checked_is_told_apart_from_the_recorded_one(app):
    html = html_of(go(app, PAGE, judge="planted:constant"))
    assert "You see a recorded check-up of the naive judge" in html
    assert "The naive judge fails" in html


def test_one_button_checks_a_judge_up(app):
    at = page(app)
    at.number_input(key="check_pairs").set_value(1).run()
    at.number_input(key="check_items").set_value(4).run()
    at.button(key="run_checkup").click().run()
    assert not at.exception, at.exception
    [job] = [j for j in jobs.manager().recent() if j.kind == "checkup"]
    wait_for(job.job_id, ("done",))
    assert (job.params["judge"], job.params["data"], job.params["limit"]) == (JUDGE, DEMO_PAIRS, 4)
    assert set(job.params["thresholds"]) == set(BY_NAME)
    at.run()
    assert "<dt>Data</dt>" in html_of(at)
    assert "run here on" in html_of(at)


def test_the_calls_and_the_price_of_a_check_up_stand_beside_its_button(app, server):
    at = go(app, PAGE, judge="api:named", data="demo-dialogue")
    html = html_of(at)
    assert "48 responses, 12 items, 4 systems: at most 1,428 judge calls" in html
    assert "At most 1,428 calls to 127.0.0.1:9: about " in html
    at.number_input(key="check_items").set_value(1).run()
    assert "at most 119 judge calls" in html_of(at)


def test_a_threshold_decides_anew_and_can_be_kept_with_the_run(app, settings):
    job = run(probes=["order"])
    at = page(app, limit_order="20")
    assert at.slider(key="limit_order").value == 20.0  # from the address
    assert "fails 1 of 1" in html_of(at)
    at.slider(key="limit_order").set_value(50.0).run()
    assert not at.exception, at.exception
    assert "holds on 1 of 1" in html_of(at)
    assert at.query_params["limit_order"] in ("50", ["50"])
    assert len(jobs.manager().recent()) == 1
    kept = open_run(settings.runs, job.params["run_id"])
    assert kept.manifest()["config"]["thresholds"]["order"] == 0.1
    at.button(key="limits_keep").click().run()
    assert not at.exception, at.exception
    manifest = kept.manifest()
    assert manifest["config"]["thresholds"]["order"] == 0.5
    assert manifest["probes"][0]["verdict"] == "holds"


def test_a_row_opens_its_details_which_say_what_is_missing_and_lead_on(app):
    run()
    at = page(app)
    assert html_of(at).count("– not asked") == 3
    at.button(key="probe_more_paraphrase").click().run()
    assert "no judge card" in html_of(at)
    at = page(app)
    at.button(key="probe_more_injections").click().run()
    assert not at.exception, at.exception
    assert at.button(key="probe_open_injections")


def test_every_probe_leads_to_a_page_with_its_controls():
    for name in BY_NAME:
        for data in (DEMO_PAIRS, "demo-dialogue"):
            preset = link_of(name, {"arm": "bed", "protocol": "pointwise"}, "bundled:judge", data)
            assert preset.page.startswith("pages/")
            assert "bundled:judge" in preset.query.values()
    assert link_of("injections", {"arm": "bed"}, "j", "d").query[state.ATTACK] == "bed"
    assert link_of("keys", {"protocol": "verifier"}, "j", "d").query[state.JUDGE] == "j"
    assert link_of("agreement", {}, "j", DEMO_PAIRS).query[state.DATA] == DEMO_PAIRS


def test_text_of_the_user_reaches_no_parser(app, saved):
    run("planted:constant", saved.dataset_id, probes=["injections", "agreement"])
    at = go(app, PAGE, judge="planted:constant", data=saved.dataset_id)
    assert not at.exception, at.exception
    assert "<script" not in html_of(at)
    for element in (*at.markdown, *at.caption):
        assert "onerror" not in element.value
    assert MARKUP not in html_of(at)
