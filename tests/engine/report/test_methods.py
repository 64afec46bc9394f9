"""Words and numbers of the page What holds: formulas lead to pages, benchmark numbers stand in their lines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dashboard.linked_run import FILES
from engine.core.errors import EngineError
from engine.report import methods

ROOT = Path(__file__).resolve().parents[3]
ASSETS = ROOT / "assets"


def test_every_formula_leads_to_a_page_that_exists():
    for one in methods.formulas(ASSETS):
        assert (ROOT / "dashboard" / FILES[one.page]).is_file(), one.name
        assert one.unit
        assert one.source
        assert one.limits


def test_every_benchmark_number_is_in_its_line_and_the_bar_follows_it():
    table = methods.benches(ASSETS)
    lines = [json.loads(x) for x in (ASSETS / "results" / "bench.jsonl").read_text().splitlines()]
    assert set(table["command"] + " --json") <= {one["command"] for one in lines}
    step = table[table["what"].str.contains("one text")].iloc[0]
    own = next(one for one in lines if "steering" in one["command"])
    assert step["value"] == own["steps"][0]["ms_per_step"]
    assert step["met"] == (step["value"] <= 1.0)
    assert step["ratio"] == pytest.approx(own["steps"][0]["ratio"])


def test_a_file_that_is_damaged_is_named(tmp_path):
    shutil.copytree(ASSETS / "methods", tmp_path / "methods")
    (tmp_path / "methods" / "formulas.toml").write_text("formula = 3", encoding="utf-8")
    with pytest.raises(EngineError, match=r"formulas.toml cannot be used"):
        methods.formulas(tmp_path)
