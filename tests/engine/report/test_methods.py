"""The Methods page's words and numbers: each finding has its row, each verdict follows its interval."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from engine.core.errors import EngineError
from engine.report import methods

ROOT = Path(__file__).resolve().parents[3]
ASSETS = ROOT / "assets"


def test_every_finding_has_exactly_one_row_and_its_interval_holds_its_value():
    found = methods.findings(ASSETS)
    assert set(found["paper"]) == {"CAP", "PUAudit", "RefSwap", "Protocols"}
    assert (found["lower"] <= found["value"]).all()
    assert (found["value"] <= found["upper"]).all()
    assert (found["n"] > 0).all()
    assert found["claim"].is_unique


@pytest.mark.parametrize(
    ("lower", "upper", "expects", "verdict"),
    [
        (0.1, 0.2, "above", "holds"),
        (-0.2, -0.1, "above", "the other way"),
        (-0.1, 0.1, "above", "not seen"),
        (0.1, 0.2, "below", "the other way"),
        (-0.2, -0.1, "below", "holds"),
        (0.0, 0.2, "above", "not seen"),
    ],
)
def test_the_verdict_is_the_side_of_the_whole_interval(lower, upper, expects, verdict):
    assert methods.seen(lower, upper, expects, 0.0) == verdict


def test_every_formula_leads_to_a_page_that_exists():
    for one in methods.formulas(ASSETS):
        assert (ROOT / "dashboard" / "pages" / one.page.replace("-", "_") / "page.py").is_file(), one.name
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


def test_a_row_that_is_missing_or_twice_there_is_named(tmp_path):
    shutil.copytree(ASSETS / "methods", tmp_path / "methods")
    shutil.copytree(ASSETS / "results", tmp_path / "results")
    table = pd.read_csv(tmp_path / "results" / "suffix.csv")
    pd.concat([table, table]).to_csv(tmp_path / "results" / "suffix.csv", index=False)
    with pytest.raises(EngineError, match="2 rows for 'A short universal phrase"):
        methods.findings(tmp_path)
    (tmp_path / "methods" / "findings.toml").write_text("finding = 3", encoding="utf-8")
    with pytest.raises(EngineError, match=r"findings.toml cannot be used"):
        methods.findings(tmp_path)
