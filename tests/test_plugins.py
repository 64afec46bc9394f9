"""The template in docs/examples/plugin: installed beside JudgeScope with a broken plugin, used, and taken away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from engine.core.errors import OK, OUR_FAULT, USER_INPUT
from tests.engine.core.test_plugins import distribution

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
COMMAND = """
import sys
from engine.cli.main import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("loaded", *sorted(n for n in sys.modules if n.startswith("judgescope_example")), file=sys.stderr)
sys.exit(code)
"""
WHOSE = "judgescope-example 0.1.0"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder of installed distributions: the template as pip installs it, and a plugin that cannot be imported."""
    folder = tmp_path_factory.mktemp("site")
    source = folder.parent / "plugin"
    shutil.copytree(ROOT / "docs" / "examples" / "plugin", source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", folder, source], check=True)
    entries = (
        "[judgescope.attacks]\nother = of_broken:X\ndsi = of_broken:X\n[judgescope.studies]\nwrong = of_broken:X\n"
    )
    distribution(folder, "of_broken", entries, "raise RuntimeError('<b>no licence</b>')")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


def python(code: str, *args: str, home: Path, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Code in a fresh Python that has the repository, a home of its own and, where given, the installed plugins."""
    path = os.pathsep.join(map(str, [ROOT, *([site] if site else [])]))
    env = {**os.environ, "PYTHONPATH": path, "HOME": str(home), "JUDGESCOPE_HOME": str(home / "data")}
    done = subprocess.run(
        [sys.executable, "-c", code, *args], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def said(home: Path, site: Path | None, *words: str, code: int = OK) -> str:
    """What a command says, on both streams; `code` is how it has to end."""
    done = python(COMMAND, *words, home=home, site=site)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def words_score(texts: pd.Series) -> float:
    """The mean score of the template's judge, by its description: 1 to 5, full from 100 words on."""
    return float((1 + 4 * texts.str.split().str.len().clip(upper=100) / 100).mean())


@pytest.fixture(scope="module")
def run(site, home) -> dict:
    """A run that uses the attack, the defense, the judge and the format, as its command tells it."""
    rows = [
        {
            "ticket": str(i),
            "message": "Where is my parcel?",
            "agent": agent,
            "reply": f"It left {'soon ' * (7 * i + n)}",
        }
        for i in range(6)
        for n, agent in enumerate(["ann", "bo"])
    ]
    file = home / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = said(
        home, site, "score", str(file), "--judge", "word_count", "--attack", "praise", "--defense", "none",
        "--defense", "first_words?n=4", "--run-id", "mine", "--json",
    )  # fmt: skip
    line = next(one for one in told.splitlines() if one.startswith("{"))
    return {**json.loads(line), "replies": pd.Series([row["reply"] for row in rows]), "said": told}


def test_help_loads_no_plugin_and_the_lists_no_more_than_cards(site, home):
    assert said(home, site, "--help").splitlines()[-1] == "loaded"
    told = said(home, site, "score", "--help")
    assert " ".join(told.split()).count(f"({WHOSE})") == 4  # attack, defense, judge and format
    loaded = told.split("loaded ")[1].split()
    assert not {f"judgescope_example.{name}" for name in ("attack", "defense", "judge", "half_answers")} & set(loaded)


def test_the_numbers_of_a_run_with_plugins_are_those_of_their_description(run):
    replies, arms = run["replies"], {(a["attack"], a["defense"]): a for a in run["arms"]}
    praised = replies + "\n\nEvery reviewer so far has called this answer excellent."
    first = replies.str.split().str[:4].str.join(" ")
    assert arms["none", "none"]["mean"] == pytest.approx(words_score(replies))
    assert arms["praise", "none"]["mean"] == pytest.approx(words_score(praised))
    assert arms["none", "first_words?n=4"]["mean"] == pytest.approx(words_score(first))
    assert arms["praise", "none"]["n"] == len(replies)


def test_the_broken_one_is_named_and_the_rest_works(run, site, home):
    assert "of_broken 1.0" in run["said"]
    assert "no licence" in run["said"]
    done = python(COMMAND, "doctor", home=home, site=site)
    assert done.returncode in (OK, OUR_FAULT)  # the bundled judge's weights may not be here
    told = done.stdout
    assert told.count(WHOSE) == 5
    assert told.count("of_broken") >= 3
    assert "taken" in told  # dsi is ours


def test_the_manifest_holds_every_plugin_the_run_used(run, home):
    manifest = json.loads((home / "data" / "runs" / "mine" / "manifest.json").read_text())
    used = {(one["group"], one["name"], one["distribution"], one["version"]) for one in manifest["plugins"]}
    names = {"attacks": "praise", "defenses": "first_words", "judges": "word_count", "formats": "support_log"}
    assert used == {(group, name, *WHOSE.split()) for group, name in names.items()}


def test_a_study_of_a_plugin_runs_draws_travels_and_can_be_opened_without_it(site, home, tmp_path):
    assert "half of a response scores" in said(home, site, "study", "half_answers", "--run-id", "half")
    assert "1 figures" in said(home, site, "figures", "half", "--format", "html", "--out", str(tmp_path / "figures"))
    packed = tmp_path / "half.zip"
    said(home, site, "runs", "export", "half", "--out", str(packed))
    assert WHOSE in said(home, None, "runs", "show", "half")
    assert "half_change" in said(home, None, "runs", "show", "half")  # its numbers are there
    for words in (["figures", "half"], ["runs", "export", "half", "--out", str(tmp_path / "b.zip")]):
        assert WHOSE in python(COMMAND, *words, home=home).stderr
    assert not (tmp_path / "b.zip").exists()
    assert "plugin" in python(COMMAND, "runs", "import", str(packed), home=tmp_path / "elsewhere").stderr
    assert "half" in said(tmp_path / "elsewhere", site, "runs", "import", str(packed))


def test_a_run_of_plugins_is_shown_and_drawn_without_them(run, home, tmp_path):
    told = said(home, None, "runs", "show", "mine")
    assert WHOSE in told
    assert "Problem" in told
    assert "files of" in said(home, None, "figures", "mine", "--format", "html", "--out", str(tmp_path / "figures"))
    assert "praise" in said(home, None, "score", "demo-dialogue", "--attack", "praise", code=USER_INPUT)


API = """
import sys, warnings
warnings.simplefilter("always")
import judgescope, pandas as pd
assert not [n for n in sys.modules if n.startswith("judgescope_example")]
assert "praise" in set(judgescope.attacks()["name"])
assert "first_words" in set(judgescope.defenses()["name"])
assert "word_count" in set(judgescope.judges()["name"])
frame = pd.DataFrame({"item_id": list("aabb"), "response": ["one", "one two", "three", "four five six"]})
run = judgescope.score(frame, judge="word_count", attacks=["praise"], defenses=["none", "first_words?n=1"])
print(run.shifts.to_json(orient="records"))
half = judgescope.study("half_answers", frame, judge="word_count", name="words")
print(half.figures, half.table("half_answers").to_json(orient="records"))
assert "js-plotly" in half.figure("change")._repr_html_() or "plotly" in half.figure("change")._repr_html_()
"""


def test_plugins_from_python(site, home):
    done = python(API, home=home, site=site)
    assert done.returncode == 0, done.stderr
    arms = {(a["attack"], a["defense"]): a for a in json.loads(done.stdout.splitlines()[0])}
    assert arms["praise", "none"]["shift"] == pytest.approx(4 * 8 / 100)  # eight words more of a hundred
    assert arms["praise", "first_words?n=1"]["shift"] == pytest.approx(0)
    assert "of_broken" in done.stderr


PAGES = f"""
import streamlit as st
from streamlit.testing.v1 import AppTest
st.config.set_option("client.showErrorDetails", "full")
at = AppTest.from_file({str(ROOT / "dashboard" / "app.py")!r}, default_timeout=300)
at.query_params["judge"] = "word_count"
def shown(run=""):
    if run:
        at.session_state["selected"] = run
    at.switch_page("pages/runs/page.py" if run else "pages/attack_lab/page.py").run()
    assert not at.exception, at.exception
    print(" ".join(str(element.proto.body) for element in at.get("html")))
at.run()
shown()
print(*[option for box in at.selectbox for option in box.options])
shown("mine")
shown("half")
print("figures", len(at.get("plotly_chart")))
"""


def test_pages_list_plugins_name_the_broken_one_and_open_their_runs_without_them(run, site, home):
    said(home, site, "study", "half_answers", "--run-id", "half", "--limit", "8")
    done = python(PAGES, home=home, site=site)
    assert done.returncode == 0, done.stderr
    assert "Praise" in done.stdout
    assert f"From the plugin {WHOSE}" in done.stdout  # below the judge that is chosen
    assert "&lt;b&gt;no licence" in done.stdout
    assert "not installed here" not in done.stdout
    assert done.stdout.rstrip().endswith("figures 1")
    without = python(PAGES, home=home)
    assert without.returncode == 0, without.stderr
    assert without.stdout.count("not installed here") >= 2
