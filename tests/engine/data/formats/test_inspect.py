"""Inspect logs: recognised without the library, read through it, and a clear error where it is absent."""

import io
import json
import math
import zipfile

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.formats.conversion import write_as
from engine.data.formats.registry import open_source, read_known, recognise
from tests.engine.data.formats.examples import FILES

LOG = {
    "version": 2,
    "status": "success",
    "eval": {
        "created": "2026-01-01T00:00:00+00:00",
        "task": "greet",
        "dataset": {},
        "model": "mockllm/model",
        "config": {},
    },
    "plan": {},
    "results": None,
    "stats": {},
    "samples": [
        {
            "id": 1,
            "epoch": epoch,
            "input": "Say hi.",
            "target": ["hi", "hello"],
            "messages": [],
            "output": {
                "model": "mockllm/model",
                "choices": [{"message": {"role": "assistant", "content": f"hi {epoch}"}, "stop_reason": "stop"}],
            },
            "scores": {
                "grade": {"value": grade, "answer": "hi", "explanation": "GRADE: C"},
                "parts": {"value": {"tone": 1, "length": 0.5}},
            },
            "metadata": {},
        }
        for epoch, grade in ((1, "C"), (2, "P"), (3, "maybe"))
    ],
}


def archive(names: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in names.items():
            made.writestr(name, text)
    return out.getvalue()


def test_logs_are_recognised_without_the_library():
    assert recognise(open_source("log.json", json.dumps(LOG).encode())).certain == "inspect"
    assert recognise(open_source("log.eval", archive({"header.json": "{}"}))).certain == "inspect"
    with pytest.raises(InputError, match="is no Inspect archive"):
        open_source("log.eval", archive({"word/document.xml": ""}))
    with pytest.raises(InputError, match="is no Inspect archive"):
        open_source("log.eval", b"PK\x03\x04 cut")


@pytest.mark.parametrize("name", ["log.json", "log.eval"])
def test_the_extra_is_named_where_the_library_is_absent(name, monkeypatch):
    def absent(module: str):
        raise ImportError(module)

    monkeypatch.setattr("engine.data.formats.inspect_logs.importlib.import_module", absent)
    content = json.dumps(LOG).encode() if name.endswith("json") else archive({"header.json": "{}"})
    with pytest.raises(InputError, match=r"pip install 'judgescope\[inspect\]'"):
        read_known(name, content, "inspect")
    with pytest.raises(InputError, match=r"pip install 'judgescope\[inspect\]'"):
        write_as(read_known(*FILES["lm-eval"], "lm-eval"), "inspect")


@pytest.fixture
def library():
    return pytest.importorskip("inspect_ai.log", reason="inspect_ai is an extra: pip install 'judgescope[inspect]'")


def test_samples_epochs_and_scores(library):
    found = read_known("log.json", json.dumps(LOG).encode(), "inspect")
    assert found.items["reference"].tolist() == ["hi; hello"]
    assert found.responses["response_id"].tolist() == ["1:1", "1:2", "1:3"]
    assert found.responses["text"].tolist() == ["hi 1", "hi 2", "hi 3"]
    grades = found.verdicts[found.verdicts["judge"] == "inspect/grade"]
    assert grades["score"].tolist()[:2] == [1.0, 0.5]
    assert math.isnan(grades["score"].iloc[2])
    assert grades["unread_reason"].iloc[2] == "value 'maybe' is in no rule"
    assert found.judges == ["inspect/grade", "inspect/parts/tone", "inspect/parts/length"]


def test_an_archive_that_the_library_wrote_is_the_same(library, tmp_path):
    path = tmp_path / "x.eval"
    log = library.read_eval_log(io.BytesIO(json.dumps(LOG).encode()), format="json")
    log.samples[2].scores["grade"].value = float("nan")
    library.write_eval_log(log, str(path))
    found = read_known("x.eval", path.read_bytes(), "inspect")
    assert found.responses["text"].tolist() == ["hi 1", "hi 2", "hi 3"]
    grades = found.verdicts[found.verdicts["judge"] == "inspect/grade"]
    assert grades["unread_reason"].iloc[2] == "Inspect left it unscored"


def test_a_log_written_by_the_library_comes_back_as_the_same_tables(library):
    broken = {**LOG["samples"][0], "epoch": 4, "output": {}, "scores": {}}
    broken["error"] = {"message": "503", "traceback": "", "traceback_ansi": ""}
    log = {**LOG, "samples": [*LOG["samples"], broken]}
    found = read_known("log.json", json.dumps(log).encode(), "inspect")
    made = write_as(found, "inspect")
    assert made.left_out == []
    for table in ("items", "responses", "comparisons", "verdicts"):
        pd.testing.assert_frame_equal(getattr(found, table), getattr(made.holds, table))
    assert made.holds.verdicts["unread_reason"].dropna().tolist() == ["value 'maybe' is in no rule", "Inspect: 503"]


def test_scores_of_another_judge_are_a_scorer(library):
    found = read_known(*FILES["lm-eval"], "lm-eval")
    made = write_as(found, "inspect").holds
    assert made.judges == [f"inspect/{judge}" for judge in found.judges]
    assert sorted(made.verdicts["score"]) == [0, 0, 1, 1]
    assert made.items["group"].tolist() == ["gsm8k", "gsm8k"]
    with pytest.raises(InputError, match="a log of inspect is of one"):
        write_as(read_known(*FILES["rewardbench"], "rewardbench"), "inspect")


def test_what_the_library_cannot_read_or_a_text_judge_cannot_see(library):
    with pytest.raises(InputError, match="Inspect cannot read"):
        read_known("log.eval", archive({"header.json": "{"}), "inspect")
    with pytest.raises(InputError, match="holds no samples"):
        read_known("log.json", json.dumps({**LOG, "samples": None}).encode(), "inspect")
    image = {"role": "user", "content": [{"type": "image", "image": "x.png"}]}
    mixed = [{**LOG["samples"][0], "input": [image]}, LOG["samples"][1]]
    found = read_known("log.json", json.dumps({**LOG, "samples": mixed}).encode(), "inspect")
    assert [(p.severity, p.row) for p in found.problems] == [("excluded", 1)]
    assert "'image'" in found.problems[0].what
