"""docs/results.md against the stored results, by running the command that makes it."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from engine.cli.main import main

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_what_the_command_writes(tmp_path, capsys):
    assert main(["bench", "results", "--check", "--out", str(ROOT / "docs/results.md")]) == 0
    (tmp_path / "other.md").write_text("# Results\n", encoding="utf-8")
    assert main(["bench", "results", "--check", "--out", str(tmp_path / "other.md")]) == 2
    assert "judgescope bench results" in capsys.readouterr().err


@pytest.mark.parametrize(("judge", "run"), [("careful", "run"), ("naive", "naive")])
def test_a_row_of_the_page_is_a_row_of_the_recorded_run(judge, run):
    text = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    [row] = [line for line in text.splitlines() if line.startswith(f"| {judge} | dialogue | dsi | none |")]
    metrics = pd.read_parquet(ROOT / "assets/demo/dialogue" / run / "metrics.parquet")
    own = metrics[(metrics.metric == "shift") & (metrics.attack == "dsi") & (metrics.defense == "none")].iloc[0]
    numbers = [float(x) for x in re.findall(r"[+-]?\d+\.\d+", row.replace("−", "-"))]
    assert numbers[1:4] == pytest.approx([own.value, own.lower, own.upper], abs=0.005)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 8192
