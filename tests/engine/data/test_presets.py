"""Presets: kept, found again by their columns, renamed, deleted and put back."""

import json
import threading

import pytest

from engine.core.errors import InputError
from engine.data.presets import Preset, best_preset, delete_preset, list_presets, rename_preset, save_preset

WIDE = Preset("wide", {"response": "antwort", "context": "frage"}, "question", ";", "cp1252")
SMALL = Preset("small", {"response": "antwort"}, "dialogue")


def test_round_trip_rename_delete_and_undo(tmp_path):
    home = tmp_path / "new"
    assert list_presets(home) == []
    save_preset(home, WIDE)
    save_preset(home, SMALL)
    assert list_presets(home) == [WIDE, SMALL]
    rename_preset(home, "wide", "  our\n arena ")
    assert [p.name for p in list_presets(home)] == ["our arena", "small"]
    gone, at = delete_preset(home, "our arena")
    assert (gone.mapping, at) == (WIDE.mapping, 0)
    save_preset(home, gone, at=at)
    assert [p.name for p in list_presets(home)] == ["our arena", "small"]
    save_preset(home, Preset("small", {"response": "other"}))
    assert [p.mapping["response"] for p in list_presets(home)] == ["antwort", "other"]
    assert sorted(p.name for p in home.iterdir()) == ["presets.json", "presets.json.lock"]


def test_the_preset_that_names_most_columns_wins():
    assert best_preset([WIDE, SMALL], ["frage", "antwort", "x"]) == WIDE
    assert best_preset([WIDE, SMALL], ["antwort"]) == SMALL
    assert best_preset([WIDE, SMALL], ["Antwort"]) is None
    later = Preset("later", SMALL.mapping)
    assert best_preset([SMALL, later], ["antwort"]) == later


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        (Preset(" ", {"response": "a"}), "1 to 80 characters"),
        (Preset("x" * 81, {"response": "a"}), "has 81"),
        (Preset("x", {"context": "a"}), "names no column for the response"),
        (Preset("x", {"response": "a", "colour": "b"}), "'colour', which is no field"),
        (Preset("x", {"response": "a"}, task="poem"), "task 'poem'"),
        (Preset("x", {"response": "a"}, delimiter="|"), "delimiter '|'"),
        (Preset("x", {"response": "a"}, encoding="cp1251"), "encoding 'cp1251'"),
    ],
)
def test_refused(tmp_path, preset, message):
    with pytest.raises(InputError, match=message.replace("|", r"\|")):
        save_preset(tmp_path, preset)
    assert list_presets(tmp_path) == []


def test_names_are_unique_and_absent_ones_are_named(tmp_path):
    save_preset(tmp_path, WIDE)
    save_preset(tmp_path, SMALL)
    with pytest.raises(InputError, match="'small' already"):
        rename_preset(tmp_path, "wide", "small")
    for change in (lambda: rename_preset(tmp_path, "no", "x"), lambda: delete_preset(tmp_path, "no")):
        with pytest.raises(InputError, match=r"no preset 'no'. There are: wide, small"):
            change()
    rename_preset(tmp_path, "wide", "wide")


@pytest.mark.parametrize("text", ["{", "[]", '{"presets": 3}', '{"presets": [{"name": "x"}]}', '{"presets": ["x"]}'])
def test_a_damaged_file_is_named_and_never_written_over(tmp_path, text):
    (tmp_path / "presets.json").write_text(text)
    for touch in (lambda: list_presets(tmp_path), lambda: save_preset(tmp_path, SMALL)):
        with pytest.raises(InputError, match=r"presets\.json\) cannot be read"):
            touch()
    assert (tmp_path / "presets.json").read_text() == text


def test_two_visitors_lose_nothing(tmp_path):
    threads = [
        threading.Thread(target=save_preset, args=(tmp_path, Preset(f"p{i}", {"response": "a"}))) for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {p.name for p in list_presets(tmp_path)} == {f"p{i}" for i in range(12)}
    json.loads((tmp_path / "presets.json").read_text())
