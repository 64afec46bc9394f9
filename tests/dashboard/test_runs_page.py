"""The page Runs, and a run opened by its link on the page of its study."""

from __future__ import annotations

import pandas as pd
import pytest

from dashboard import linked_run
from dashboard.pages.runs import one as runs_one
from dashboard.run_view import read
from engine.core.schema import VERDICTS
from engine.core.settings import get_settings
from engine.jobs import manager as jobs
from engine.jobs.worker import job_of
from engine.judges.base import no_checkpoint
from engine.runs import library
from engine.runs.archive import export_run, import_run
from engine.runs.folder import create_run, open_run
from tests.dashboard.helpers import MARKUP

SCORE = {"data": "demo-dialogue", "attacks": ["dsi"], "limit": 8}


def scored(settings, run_id: str, judge: str = "planted:injection", **options) -> None:
    model, job = job_of("score")
    job(model.model_validate({**SCORE, "judge": judge, "run_id": run_id, **options}), settings, no_checkpoint)


def texts(app) -> str:
    return " ".join(str(e.proto.body) for e in app.get("html")) + " ".join(h.value for h in app.subheader)


def on_runs(app, **session):
    for key, value in session.items():
        app.session_state[key] = value
    app.switch_page("pages/runs/page.py").run()
    assert not app.exception, app.exception
    return app


def at(app, run_id: str):
    app.query_params["run"] = run_id
    app.run()
    assert not app.exception, app.exception
    return app


def test_without_runs_the_page_says_what_there_is(app):
    on_runs(app)
    assert "0 runs made here" in texts(app)
    assert "recorded ones" in texts(app)


def test_one_run_shows_facts_and_markup_stays_text(app, settings):
    scored(settings, "one")
    library.rename(settings.runs, "one", MARKUP[:120])
    library.set_tags(settings.runs, "one", add=["<b>tag</b>"])
    on_runs(app, selected="one")
    shown = texts(app)
    for fact in ("planted:injection", "12 dialogues", "8 responses"):
        assert fact in shown
    assert "<script>" not in shown
    assert "<b>tag" not in shown


def test_title_and_tags_are_saved(app, settings):
    scored(settings, "one")
    on_runs(app, selected="one")
    title, tags = (next(t for t in app.text_input if t.label.startswith(name)) for name in ("Title", "Tags"))
    title.input("Friday")
    tags.input("a, b ,a")
    next(b for b in app.button if b.label == "Save").click().run()
    row = library.all_runs(settings.runs)[0]
    assert (row.title, row.tags) == ("Friday", ("a", "b"))


def test_a_deleted_run_is_restored_from_the_page(app, settings):
    scored(settings, "one")
    on_runs(app, selected="one")
    app.button(key="delete_run").click().run()
    assert not app.exception
    assert library.all_runs(settings.runs) == []
    app.button(key="restore_run").click().run()
    assert [r.run_id for r in library.all_runs(settings.runs)] == ["one"]
    assert app.session_state["selected"] == "one"


def test_recorded_runs_offer_no_change(app):
    on_runs(app, selected="recorded:dialogue/run")
    assert "can be shown, compared and exported, not changed" in texts(app)
    keys = {b.key for b in app.button}
    assert "open_run" in keys
    assert not keys & {"delete_run", "resume_run", "retry_run"}
    assert not [t for t in app.text_input if t.label == "Title"]


def test_two_runs_are_compared_and_what_differs_is_named(app, settings):
    scored(settings, "one")
    scored(settings, "two", "planted:injection?strength=0.1")
    on_runs(app, selected="one", **{"with": "two"})
    shown = texts(app)
    assert "16 judge calls made by both; 0 calls only in the first, 0 only in the second" in shown
    assert "paired difference" in shown
    assert len(app.get("plotly_chart")) == 1
    tables = [d.value for d in app.dataframe]
    assert any({"Setting", "First", "Second"} <= set(t.columns) and "judge" in set(t["Setting"]) for t in tables)


def test_runs_without_anything_in_common_say_so(app, settings):
    create_run(settings.runs, "score", {"judge": "j", "data": "x"}, "empty").update_manifest(
        state="failed", error="no data"
    )
    on_runs(app, selected="empty", **{"with": "recorded:dialogue/run"})
    assert "nothing to subtract" in texts(app)


def test_a_broken_run_can_still_be_thrown_away(app, settings):
    scored(settings, "one")
    (settings.runs / "one" / "manifest.json").write_text("{")
    on_runs(app, selected="one")
    assert "no readable manifest" in texts(app)
    app.button(key="delete_run").click().run()
    assert library.all_runs(settings.runs) == []


def test_problems_and_the_retry_are_offered_and_start_a_job(app, settings, monkeypatch):
    scored(settings, "one")
    run = open_run(settings.runs, "one")
    table = run.table("verdicts")
    table.loc[[0, 3], "unread_reason"] = "503 from the server"
    run.write_table("verdicts", table)
    asked = []
    monkeypatch.setattr(jobs.JobManager, "submit", lambda self, kind, params: asked.append((kind, params)) or "x")
    on_runs(app, selected="one")
    assert "2 of 16 calls are unread" in texts(app)
    app.button(key="retry_run").click().run()
    run.update_manifest(state="stopped")
    app.run()
    app.button(key="resume_run").click().run()
    assert asked[0] == ("retry", {"run_id": "one"})
    kind, params = asked[1]
    assert kind == "score"
    assert params["run_id"] == "one"
    job_of(kind)[0].model_validate(params)


# --- links

RECORDED = {
    "recorded:dialogue/run": ("Attack lab", {"tab": "Whole set"}),
    "recorded:suffix/dialogue": ("Attack lab", {"tab": "Learn a phrase"}),
    "recorded:detection/dialogue": ("Attack lab", {"tab": "Perplexity threshold"}),
    "recorded:dialogue/cap": ("Steering and anchors", {"data": "demo-dialogue"}),
    "recorded:protocols/instruction": ("Protocols and leaderboard", {"data": "demo-instruction"}),
    "recorded:refswap/judge": ("Reference swap", {"verifier": "bundled:judge"}),
    "recorded:pairs/run": ("Transport audit", {"data": "demo-pairs"}),
    "recorded:verification/run": ("Runs", {"selected": "recorded:verification/run"}),
}


@pytest.mark.parametrize("run_id", RECORDED)
def test_a_link_leads_to_the_page_of_its_study(app, run_id):
    page, chosen = RECORDED[run_id]
    at(app, run_id)
    assert page in [t.value for t in app.title]
    for key, value in chosen.items():
        assert app.session_state[key] == value
    if page != "Runs":
        assert f"Shown is the run {run_id}" in texts(app)


def test_every_recorded_run_has_a_page():
    for row in library.recorded_runs(get_settings().assets / "demo"):
        place = linked_run.place_of(read(row.run_id))
        assert place.page in linked_run.TITLES
        assert not place.why


def test_an_older_run_is_shown_rather_than_the_newest_until_one_asks_for_that(app, settings):
    scored(settings, "old", limit=8)
    scored(settings, "new", limit=4)
    open_run(settings.runs, "old").update_manifest(created="2026-01-01T00:00:00+00:00")
    at(app, "old")
    assert "8 responses" in texts(app)
    assert "Shown is the run old" in texts(app)
    app.button(key="unpin").click().run()
    assert "Shown is the run" not in texts(app)
    assert "4 responses" in texts(app)


def test_a_recorded_run_is_shown_although_an_own_one_is_newer(app, settings):
    model, job = job_of("refswap")
    judge = "planted:verifier?leak=0.9"
    options = {"judge": judge, "data": "demo-verification", "keys": ["Solution"], "k": 2, "k_max": 2, "run_id": "mine"}
    job(model.model_validate({**options, "limit": 12}), settings, no_checkpoint)
    run = open_run(settings.runs, "mine")
    manifest = run.manifest()
    run.write_manifest(manifest | {"config": manifest["config"] | {"judge": "bundled:judge"}})
    at(app, "recorded:refswap/judge")
    assert "Shown is the run recorded:refswap/judge" in texts(app)
    assert "recorded on 20" in app.get("plotly_chart")[0].proto.spec  # the figure says so itself


def test_choosing_another_judge_lets_the_pin_go(app, settings):
    scored(settings, "old")
    at(app, "old")
    app.selectbox(key="judge").set_value("bundled:judge").run()
    assert "Shown is the run" not in texts(app)


def test_a_link_to_nothing_says_so(app):
    at(app, "no-such-run")
    assert "There is no run" in texts(app)
    app.query_params["run"] = "../../etc/passwd"
    app.run()
    assert not app.exception


def test_an_imported_run_names_no_judge_that_this_machine_would_load(settings):
    scored(settings, "one")
    run = open_run(settings.runs, "one")
    manifest = run.manifest()
    run.write_manifest(manifest | {"config": manifest["config"] | {"judge": "hf:somebody/model"}})
    content = export_run(run)
    library.delete(settings.runs, "one")
    import_run(settings.runs, content)
    place = linked_run.place_of(read("one"))
    assert place.page == linked_run.RUNS_PAGE
    assert "imported" in place.why


def test_a_run_whose_data_are_gone_stays_on_the_page_runs(settings):
    scored(settings, "one")
    run = open_run(settings.runs, "one")
    manifest = run.manifest()
    run.write_manifest(manifest | {"config": manifest["config"] | {"data": "0123456789abcdef"}})
    assert "not on this machine" in linked_run.place_of(read("one")).why
    run.write_table("verdicts", VERDICTS.conform(pd.DataFrame(columns=VERDICTS.names)))
    (run.path / "verdicts.parquet").unlink()
    assert "resume it first" in linked_run.place_of(read("one")).why


def test_studies_judges_and_metrics_are_called_what_the_pages_call_them(app):
    on_runs(app, selected="recorded:pairs/run")
    listed = app.dataframe[0].value
    assert {"Attacks", "Check-up", "Transport audit"} <= set(listed["Study"])
    assert "Careful judge" in set(listed["Judge"])
    assert "Transport audit" in texts(app)
    metrics = app.dataframe[1].value
    assert {"Metric", "Value", "Items"} <= set(metrics.columns)
    assert not [c for c in metrics.columns if "_" in c]


def test_a_job_that_ends_while_the_page_is_drawn_does_not_leave_an_old_state_on_it(app, settings, monkeypatch):
    scored(settings, "one")
    folder = open_run(settings.runs, "one")
    folder.update_manifest(state="running", writer="99999999:0")
    asked = runs_one.job_of

    def ends_now(run_id: str):
        folder.update_manifest(state="done")
        return asked(run_id)

    monkeypatch.setattr(runs_one, "job_of", ends_now)
    on_runs(app, selected="one")
    assert "<dt>State</dt><dd>done</dd>" in texts(app)


def test_two_runs_are_held_against_each_other_as_a_drift_gate(app, settings):
    scored(settings, "one")
    scored(settings, "two", "planted:injection?strength=1.6")
    scored(settings, "other")
    app.query_params["compare_tab"] = "Drift"
    on_runs(app, selected="one", **{"with": "two"})
    shown = texts(app)
    assert "Drift: " in shown
    assert "judgescope drift freeze one --out frozen.json" in " ".join(c.value for c in app.code)
    assert len(app.get("plotly_chart")) == 1
    app.selectbox(key="drift_retest").select("other").run()
    assert "Flip when asked again" in texts(app)
    app.number_input(key="drift_shift").set_value(4.0)
    app.number_input(key="drift_flips").set_value(100.0).run()
    assert "No drift seen" in texts(app)
