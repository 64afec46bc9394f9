"""The recipe for millions of calls, with a stub in place of the model: our tables out, its answers back, and read."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import VERDICTS
from engine.core.settings import child_environment
from engine.judges.ray_actors import LOCAL, connect

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'judgescope[ray]'")
ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = ["demo-dialogue", "--model", "stub/model", "--attack", "dsi", "--part", "40"]


@pytest.fixture(scope="module")
def recipe():
    spec = importlib.util.spec_from_file_location("ray_batch", ROOT / "docs" / "examples" / "ray_batch.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def grade(verdict_id: str) -> int:
    """The stub's grade of a call, from its id alone."""
    return 1 + sum(map(ord, verdict_id)) % 5


def answer(row: dict) -> dict:
    """What a model might write: a grade in words, for one response nothing that can be read, for one a fault."""
    text = f"Score: {grade(row['verdict_id'])}"
    fault = ""
    if row["response_id"] == "d01-good":
        text = "I would rather not say."
    if row["response_id"] == "d02-good":
        text, fault = "", "the engine was out of memory"
    return {**row, "generated_text": text, "num_input_tokens": len(row["user"]) // 4, "num_generated_tokens": 3,
            "__inference_error__": fault}  # fmt: skip


class Frame:
    """A Ray data set's part that the recipe uses, over a plain data frame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def to_pandas(self) -> pd.DataFrame:
        return self.frame


def shuffled(seen: list[int]):
    """A stage that answers in another order, and loses one row."""

    def stage(calls) -> Frame:
        frame = calls.to_pandas()
        seen.append(len(frame))
        rows = pd.DataFrame([answer(row) for row in frame.to_dict("records")])
        return Frame(rows[rows["response_id"] != "d03-good"].sample(frac=1, random_state=0))

    return stage


@pytest.fixture
def without_a_cluster(monkeypatch):
    """Ray Data's reader in this process: what it does with a file is Ray's matter."""
    monkeypatch.setattr(ray.data, "read_parquet", lambda path: Frame(pd.read_parquet(path)))


def test_answers_come_back_as_verdicts_and_only_missing_parts_are_asked(recipe, tmp_path, without_a_cluster):
    seen: list[int] = []
    file = recipe.main([*ARGUMENTS, "--out", str(tmp_path)], shuffled(seen))
    assert seen == [40, 40, 16]
    table = VERDICTS.conform(pd.read_parquet(file))
    assert len(table) == 96
    assert table["verdict_id"].is_unique
    silent = table["response_id"].isin(["d01-good", "d02-good", "d03-good"])
    assert (table["unread_reason"].notna() == silent).all()
    reasons = dict(zip(table["response_id"], table["unread_reason"], strict=True))
    assert reasons["d02-good"] == "the engine was out of memory"
    assert reasons["d03-good"] == "no answer came back"
    read = table[~silent]
    assert read["score"].tolist() == [grade(one) for one in read["verdict_id"]]
    (tmp_path / "answers" / "00001.parquet").unlink()
    again = recipe.main([*ARGUMENTS, "--out", str(tmp_path)], shuffled(seen))
    assert seen == [40, 40, 16, 40]
    assert pd.read_parquet(again).equals(pd.read_parquet(file))


def test_prompts_are_those_of_the_card(recipe, settings):
    from engine.data.store import load_dataset

    cards = recipe.built_in_cards(settings.assets / "cards")
    dataset = load_dataset("demo-dialogue", settings.datasets)
    rows = list(recipe.calls_of(dataset, ["dsi"], cards))
    text = dataset.responses.set_index("response_id")["text"]
    assert all(text[row["response_id"]] in row["user"] for row in rows)
    assert len({row["user"] for row in rows}) == len(rows)


def test_score_reads_the_file_that_the_recipe_wrote(recipe, settings, tmp_path, without_a_cluster):
    file = recipe.main([*ARGUMENTS, "--out", str(tmp_path)], shuffled([]))
    done = subprocess.run(
        [sys.executable, "-m", "engine.cli.main", "score", "demo-dialogue", "--judge",
         f"recorded:{file}?layout=pointwise", "--attack", "dsi", "--json"],
        env=child_environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    arms = json.loads(done.stdout.splitlines()[-1])["arms"]
    table = pd.read_parquet(file)
    for arm in arms:
        own = table[table["attack"] == arm["attack"]]
        assert (arm["n"] + arm["n_unread"], arm["n_unread"]) == (48, 3)
        assert arm["mean"] == pytest.approx(np.nanmean(own["score"]))


@pytest.mark.slow
def test_ray_data_carries_calls_and_answers(recipe, tmp_path):
    try:
        connect(LOCAL)
    except InputError as error:  # Ray's own limit of 30 s for the start of a node, tried three times
        pytest.skip(str(error))
    try:
        file = recipe.main([*ARGUMENTS, "--out", str(tmp_path)], lambda calls: calls.map(answer))
    finally:
        ray.shutdown()
    table = pd.read_parquet(file)
    read = table[table["unread_reason"].isna()]
    assert len(table) == 96
    assert read["score"].tolist() == [grade(one) for one in read["verdict_id"]]
