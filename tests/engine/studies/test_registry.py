"""The registry: one study defined here is known everywhere at once, and the built-in ones are told apart."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from pydantic import BaseModel, ConfigDict
from streamlit.testing.v1 import AppTest

from engine.cli.main import main
from engine.core.errors import Cancelled
from engine.core.schema import METRICS, NONE, Column, Table
from engine.core.settings import get_settings
from engine.jobs import manager as jobs
from engine.plots.dots import plot_dots, prepare_dots
from engine.runs import library
from engine.runs.archive import export_run, import_run
from engine.runs.folder import open_run, state_of
from engine.stats.intervals import cluster_mean
from engine.stats.shifts import metric_row
from engine.studies import registry
from engine.studies.attack_grid.study import STUDY as GRID
from engine.studies.attack_grid.study import ScoreConfig
from engine.studies.figure import FigureData, FigureSpec, Setting, has_table
from engine.studies.registry import (
    BUILT_IN,
    all_studies,
    find_study,
    read_study,
    recorded_runs,
    study_of,
    study_of_manifest,
    study_title,
)
from engine.studies.retry import resume_run
from engine.studies.running import about_data
from engine.studies.study import Context, Study
from tests.dashboard.conftest import APP
from tests.dashboard.near_worker import NearWorker

LETTERS = Table(
    "letters",
    (
        Column("response_id", "str", "the response"),
        Column("item_id", "str", "the item it answers"),
        Column("share", "float", "of its letters, how many are sought ones, in [0, 1]"),
    ),
    key="response_id",
)


class LettersConfig(BaseModel):
    """Which letters are sought in which data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    sought: str = "aeiou"
    limit: int | None = None
    seed: int = 0
    level: float = 0.95
    run_id: str | None = None


def _bars(source, at):
    rows = source.table("metrics").assign(what=f"{source.config['sought']}, {at['scale']}")
    made = prepare_dots(rows, {"mean": "share"}, by="what")
    return FigureData(made)


class Letters(Study):
    """A study that asks no judge: how often some letters stand in the responses."""

    kind = "letter_count"
    names = ("letters", "letter_count")
    title = "Letters in responses"
    config = LettersConfig
    tables = (LETTERS,)
    marks = frozenset({"sought"})
    table_shown = "letters"

    def run(self, config, context, folder):
        """Count, response by response; what is in the table already is not counted again."""
        dataset = context.data.dataset(config.data)
        rows = dataset.responses.head(config.limit or len(dataset.responses))
        about = about_data(dataset, rows["item_id"].nunique(), len(rows))
        folder.update_manifest(data=about, judge={"spec": "none", "labels": [], "device": "cpu"})
        done = folder.table("letters").to_dict("records")
        for row in rows.iloc[len(done) :].to_dict("records"):
            text = [c for c in row["text"].lower() if c.isalpha()]
            share = sum(c in config.sought for c in text) / len(text)
            done.append({"response_id": row["response_id"], "item_id": row["item_id"], "share": share})
            folder.write_table("letters", pd.DataFrame(done))
            context.checkpoint(len(done), len(rows))
        table = folder.table("letters")
        mean = cluster_mean(table["share"], table["item_id"], level=config.level, seed=config.seed)
        metrics = METRICS.conform(pd.DataFrame([metric_row("mean", NONE, NONE, mean, len(table))]))
        folder.write_table("metrics", metrics)
        folder.update_manifest(state="done")

    def figures(self):
        """One figure with a setting."""
        scale = Setting("scale", "scale", "choice", lambda _: "share", choices=lambda _: ("share", "percent"))
        return (
            FigureSpec(
                self.kind, "mean", "How often do the letters stand there?", _bars,
                partial(
                    plot_dots, title="How often do the letters stand there?", axis="share of letters",
                    colours={"share": "clean"}, positive=True,
                ),
                (scale,), has_table("metrics", "nothing has been counted yet."),
            ),
        )  # fmt: skip


@pytest.fixture
def letters():
    study = registry.register(Letters())
    yield study
    registry.unregister(study.kind)


def last_json(capsys) -> dict:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def stop_after(n: int):
    def look(done: int, total: int) -> None:
        if done >= n:
            raise Cancelled

    return look


# --- one registration


def test_a_registered_study_runs_from_the_command_line_and_draws_its_figure(letters, settings, tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text('study = "letter_count"\ndata = "demo-dialogue"\nlimit = 8\n')
    assert main(["study", str(file), "--set", "sought=e", "--run-id", "mine", "--json"]) == 0
    told = last_json(capsys)
    assert (told["run_id"], told["kind"], told["state"]) == ("mine", "letter_count", "done")
    run = open_run(settings.runs, "mine")
    [metric] = told["metrics"]
    assert metric["value"] == pytest.approx(run.table("letters")["share"].mean())
    manifest = run.manifest()
    assert (manifest["study"], manifest["kind"]) == ("letters", "letter_count")
    assert study_of(run) is letters
    [row] = library.all_runs(settings.runs)
    assert study_title(row.study) == "Letters in responses"
    assert main(["figures", "mine", "--format", "html", "--set", "scale=percent", "--out", str(tmp_path / "out")]) == 0
    assert "e, percent" in (tmp_path / "out" / "01-mean.csv").read_text(encoding="utf-8")
    assert main(["study", str(file), "--attack", "dsi"]) == 2  # no such setting
    assert "attacks" in capsys.readouterr().err
    assert main(["study", str(file), "--dry-run"]) == 2
    assert "letters cannot say what it will take" in capsys.readouterr().err


def test_its_run_travels_with_its_table(letters, settings):
    config = LettersConfig(data="demo-dialogue", limit=4, run_id="a")
    letters.job(config, Context(settings), settings.runs)
    run = open_run(settings.runs, "a")
    before, packed = run.table("letters"), export_run(run)
    library.delete(settings.runs, "a")
    assert import_run(settings.runs, packed).run_id == "a"
    pd.testing.assert_frame_equal(run.table("letters"), before)


def test_its_run_goes_on_where_it_was_stopped(letters, settings, capsys):
    config = LettersConfig(data="demo-dialogue", limit=6, run_id="cut")
    with pytest.raises(Cancelled):
        letters.job(config, Context(settings, stop_after(2)), settings.runs)
    run = open_run(settings.runs, "cut")
    half = run.table("letters")
    assert (len(half), run.manifest()["state"]) == (2, "stopped")
    assert main(["runs", "resume", "cut"]) == 0
    assert run.manifest()["state"] == "done"
    assert len(run.manifest()["resumed"]) == 1
    pd.testing.assert_frame_equal(run.table("letters").head(2), half)
    assert len(run.table("letters")) == 6


@pytest.fixture
def app(monkeypatch):
    """The dashboard, its worker a real one that reads and writes text streams."""
    monkeypatch.setattr(jobs, "_start", NearWorker)
    st.cache_data.clear()
    st.cache_resource.clear()
    yield AppTest.from_file(str(APP), default_timeout=300)
    jobs.manager().close()
    jobs._manager_of.cache_clear()


def ended(job_id: str) -> jobs.Job:
    """The job once it is no longer going."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        job = jobs.manager().get(job_id)
        assert job is not None
        if not job.active:
            return job
        time.sleep(0.02)
    raise AssertionError(f"still {job}")


def shown(app) -> str:
    return " ".join(str(e.proto.body) for e in app.get("html"))


def on_runs(app, run_id: str):
    app.session_state["selected"] = run_id
    app.run()
    app.switch_page("pages/runs/page.py").run()
    assert not app.exception, app.exception
    return app


def test_the_worker_runs_it_and_the_page_runs_shows_it(letters, settings, app):
    job = ended(jobs.manager().submit("letters", {"data": "demo-dialogue", "limit": 5}))
    assert (job.state, job.done, job.total) == ("done", 5, 5), job.error
    run_id = job.result["run_id"]
    assert run_id.startswith("letters-")
    on_runs(app, run_id)
    assert "Letters in responses" in shown(app)
    assert "Letters in responses" in set(app.dataframe[0].value["Study"])
    [figure] = app.get("plotly_chart")
    assert "How often do the letters stand there?" in figure.proto.spec
    app.query_params["run"] = run_id  # a link leads to the page Runs, since the study has no page of its own
    app.run()
    assert app.title[0].value == "Runs"


def test_the_page_runs_takes_it_up_again(letters, settings, app):
    config = LettersConfig(data="demo-dialogue", limit=4, run_id="cut")
    with pytest.raises(Cancelled):
        letters.job(config, Context(settings, stop_after(1)), settings.runs)
    on_runs(app, "cut")
    app.button(key="resume_run").click().run()
    [job] = jobs.manager().recent()
    assert (job.kind, job.params["run_id"]) == ("letters", "cut")
    assert ended(job.job_id).state == "done"
    assert len(open_run(settings.runs, "cut").table("letters")) == 4


def test_a_job_nobody_registered_is_refused(app):
    assert "no job 'letters'" in ended(jobs.manager().submit("letters", {"data": "demo-dialogue"})).error


def test_a_name_belongs_to_one_study(letters):
    class Other(Letters):
        kind = "other"
        names = ("letters",)

    with pytest.raises(ValueError, match="'letters' is taken by letter_count"):
        registry.register(Other())
    assert find_study("other") is None


# --- the built-in studies


def test_every_folder_is_a_study_and_names_are_unique():
    folders = {file.parent.name for file in Path(registry.__file__).parent.glob("*/study.py")}
    assert folders == set(BUILT_IN)
    built_in = [study for study in all_studies() if study.kind in BUILT_IN]
    assert [study.kind for study in built_in] == list(BUILT_IN)
    names = [name for study in built_in for name in {study.kind, *study.names}]
    assert len(names) == len(set(names))
    titles = [study.title for study in built_in]
    assert len(titles) == len(set(titles))


def test_marks_tell_one_study_each():
    for study in all_studies():
        assert study.marks <= set(study.config.model_fields)
        others = [other for other in all_studies() if other is not study and other.marks]
        assert not [other.kind for other in others if other.marks <= set(study.config.model_fields)]


def test_every_table_is_one_study_s():
    names = [table.name for study in all_studies() for table in study.tables]
    assert len(names) == len(set(names))


FILES = sorted((get_settings().assets / "studies").glob("*.toml"))


@pytest.mark.parametrize("file", [f for f in FILES if not f.stem.startswith("bench_")], ids=lambda f: f.stem)
def test_a_study_file_names_a_study_and_has_settings_it_knows(file):
    named, study, config = read_study(file.stem, file.parent, {})
    assert named in study.names
    assert isinstance(config, study.config)


@pytest.mark.parametrize("place", [run.path for run in recorded_runs()], ids=lambda p: "/".join(p.parts[-2:]))
def test_a_shipped_run_is_told_by_kind_by_name_and_by_marks(place):
    manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
    study = study_of_manifest(manifest)
    assert study is not None
    bare = {key: value for key, value in manifest.items() if key != "kind"}
    assert study_of_manifest({**bare, "study": "", "kind": study.kind}) is study
    assert study_of_manifest({**bare, "study": study.kind}) is study
    assert study_of_manifest(bare) is study
    if study.marks:
        assert study_of_manifest({**bare, "study": ""}) is study


def test_a_manifest_of_no_known_study_is_nobody_s():
    assert study_of_manifest({}) is None
    assert study_of_manifest({"study": "novel", "config": {"judge": "planted:constant"}}) is None
    assert study_of_manifest({"study": "novel", "config": "damaged"}) is None


def test_a_run_of_a_version_without_kinds_goes_on(settings):
    config = ScoreConfig(judge="planted:injection", data="demo-dialogue", attacks=("dsi",), limit=6, run_id="old")
    with pytest.raises(Cancelled):
        GRID.job(config, Context(settings, stop_after(5)), settings.runs, "grid")
    run = open_run(settings.runs, "old")
    before = run.manifest()
    run.write_manifest({key: value for key, value in before.items() if key != "kind"})
    resume_run("old", settings, lambda done, total: None)
    after = run.manifest()
    assert state_of(after) == "done"
    assert (after["study"], after["kind"], after["created"]) == ("grid", "attack_grid", before["created"])
    assert len(after["resumed"]) == 1


@pytest.mark.parametrize("quick", [True, "true"])
@pytest.mark.parametrize(("kind", "given"), [
    ("protocols", {"judge": "planted:assertiveness", "data": "demo-instruction"}),
    ("refswap", {"judge": "planted:verifier", "data": "demo-verification"}),
    ("transport_audit", {"judge": "planted:position", "data": "demo-pairs", "encoders": ["words"]}),
])  # fmt: skip
def test_a_quick_run_is_asked_for_by_one_word_and_takes_fewer_calls(settings, kind, given, quick):
    from engine.jobs.worker import job_of

    model, plan = job_of(f"{kind}_plan")
    whole, short = (plan(model(**given, **more), settings, lambda done, total: None) for more in ({}, {"quick": quick}))
    assert 0 < short["calls"] + short["known"] <= whole["calls"] + whole["known"]
    assert short["verdicts"] < whole["verdicts"]
