"""`judgescope figures`, from the command line."""

import json

import pytest

from engine.cli.main import main
from engine.plots import export
from engine.runs.folder import RunFolder
from engine.studies.registry import find_run

chrome = pytest.mark.skipif(not export.can_render(), reason="no Chrome or Chromium is installed")


def last_json(capsys) -> dict:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_the_figures_of_a_run_are_listed_with_their_settings(capsys):
    assert main(["figures", "recorded:refswap/judge", "--list", "--json"]) == 0
    found = {f["name"]: f["settings"] for f in last_json(capsys)["figures"]}
    assert found["keys"]["k"] == 5
    assert list(found) == ["max_p_cf", "keys", "frontier", "passing", "roc"]


def test_html_holds_every_figure_and_the_data_lie_beside_it(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["figures", "recorded:refswap/judge", "--format", "html", "--out", str(out), "--set", "k=3"]) == 0
    assert "17 files of 5 figures" in capsys.readouterr().out
    assert (out / "figures.html").read_text(encoding="utf-8").count('class="plot"') == 5
    assert json.loads((out / "02-keys.json").read_text(encoding="utf-8"))["settings"]["k"] == 3
    assert "K: 3" in (out / "captions.txt").read_text(encoding="utf-8")


@chrome
def test_svg_of_one_figure(tmp_path, capsys):
    folder = str(find_run("recorded:dialogue/run").path)
    given = ["figures", folder, "--figure", "grid", "--columns", "double", "--out", str(tmp_path), "--json"]
    assert main(given) == 0
    assert last_json(capsys)["files"][0] == "01-grid.svg"
    assert 'width="170.00mm"' in (tmp_path / "01-grid.svg").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nosuch"], "no run 'nosuch'"),
        (["recorded:no/such"], "no run"),
        (["recorded:refswap/judge", "--figure", "pie"], "max_p_cf, keys"),
        (["recorded:refswap/judge", "--set", "mass=1"], "none of these figures has this setting"),
        (["recorded:refswap/judge", "--set", "k=99"], "from 1 to 10"),
    ],
)
def test_a_wrong_choice_is_the_users_and_says_what_there_is(given, said, tmp_path, capsys):
    assert main(["figures", *given, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_chrome_the_next_step_is_said(monkeypatch, tmp_path, capsys):
    export.stop()
    monkeypatch.setattr(export, "can_render", lambda: False)
    assert main(["figures", "recorded:dialogue/run", "--figure", "grid", "--out", str(tmp_path)]) == 1
    assert "as HTML" in capsys.readouterr().err


def test_a_run_with_nothing_yet_says_so(tmp_path, capsys):
    RunFolder(tmp_path).write_manifest({"study": "score", "state": "running", "config": {}})
    assert main(["figures", str(tmp_path)]) == 2
    assert "has no figures yet" in capsys.readouterr().err
