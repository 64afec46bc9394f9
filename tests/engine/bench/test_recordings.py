"""The list of recordings names every run that ships, each once, with the command that its manifest was made by."""

from __future__ import annotations

import json

import pytest

from engine.bench.recordings import LIST, Entry, chosen, read_list
from engine.cli.main import main
from engine.core.errors import InputError
from engine.core.settings import get_settings
from engine.runs.library import RECORDED, recorded_runs

ASSETS = get_settings().assets
ENTRIES = read_list(ASSETS / "studies" / LIST)
RUNS = {row.run_id.removeprefix(RECORDED): row for row in recorded_runs(ASSETS / "demo")}


def test_every_run_that_ships_is_in_the_list_and_no_other():
    assert sorted(entry.place for entry in ENTRIES if entry.place) == sorted(RUNS)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.place], ids=lambda e: e.name)
def test_a_command_names_the_judge_and_the_data_of_its_run(entry):
    config = json.loads((ASSETS / "demo" / entry.place / "manifest.json").read_text(encoding="utf-8"))["config"]
    words = entry.words(ASSETS, ASSETS)
    assert words[words.index("--run-id") + 1] == entry.place.rpartition("/")[2]
    if words[0] == "recorded":
        assert config["judge"] == f"recorded:{words[1]}"
        return
    from engine.cli import main as cli

    args = cli.parser_of(words).parse_args(words)
    found = args.config_of(args)[-1].model_dump(mode="json")
    apart = {"run_id", "budget_seconds", "systems"}  # of this one run; a run may name the systems that are all there
    differ = {key: (found[key], config[key]) for key in set(found) & set(config) - apart if found[key] != config[key]}
    assert differ == {}


def test_a_beginning_names_several_and_an_unknown_name_lists_all():
    found = [Entry(name, "x") for name in ("naive-a", "naive-b", "naively")]
    assert [e.name for e in chosen(found, ["naive"])] == ["naive-a", "naive-b"]
    assert [e.name for e in chosen(found, ["naively", "naive-a"])] == ["naive-a", "naively"]
    with pytest.raises(InputError, match="naive-b"):
        chosen(found, ["careful"])


def test_a_place_that_is_named_twice_is_refused(tmp_path):
    path = tmp_path / "list.toml"
    path.write_text('[[recording]]\nname = "a"\nplace = "p/r"\ncommand = "c"\n' * 2)
    with pytest.raises(InputError, match="twice"):
        read_list(path)


def test_a_dry_run_prints_and_changes_nothing(tmp_path, capsys):
    assert (
        main(["bench", "recordings", "--only", "careful", "--dry-run", "--out", str(tmp_path / "out"), "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["recordings"]
    assert [one["name"] for one in told] == [e.name for e in ENTRIES if e.name.startswith("careful-")]
    assert not (tmp_path / "out").exists()


def test_a_run_takes_the_place_of_the_old_one_only_when_it_is_done(tmp_path, monkeypatch):
    shown = '[[recording]]\nname = "{0}"\nplace = "set/{0}"\ncommand = "{1}"\n'
    good = "score demo-dialogue --judge planted:constant --limit 4"
    text = shown.format("good", good) + shown.format("bad", "score demo-dialogue --judge planted:nothing")
    (tmp_path / LIST).write_text(text, encoding="utf-8")
    monkeypatch.setattr("engine.bench.recordings.read_list", lambda path: read_list(tmp_path / LIST))
    old = tmp_path / "out" / "set" / "bad"
    old.mkdir(parents=True)
    (old / "kept").write_text("")
    assert main(["bench", "recordings", "--only", "good", "--out", str(tmp_path / "out")]) == 0
    manifest = json.loads((tmp_path / "out" / "set" / "good" / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["state"], manifest["recorded"], manifest["run_id"]) == ("done", True, "good")
    assert main(["bench", "recordings", "--only", "bad", "--out", str(tmp_path / "out")]) == 2
    assert (old / "kept").is_file()
