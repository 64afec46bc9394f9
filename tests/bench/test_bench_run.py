"""The bench of whole runs: every verdict is counted, and growth is the exponent it says."""

import pytest

from engine.bench.whole_run import ARMS, growth, measure, table
from engine.cli.main import main


@pytest.mark.slow
def test_a_run_judges_every_response_in_every_arm(tmp_path):
    row = measure("planted:injection", 24, tmp_path)
    assert row["verdicts"] == 24 * ARMS
    assert f"| 24 | {24 * ARMS} |" in table([row])


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_growth_finds_the_power_it_was_made_with(power):
    rows = [
        {
            "responses": n, "verdicts": 3 * n, "seconds": 1.0, "megabytes": 1.0, "stages": {"write": 0.25},
            "cpu_seconds": 4 + (n - 10) ** power / 99,
        }
        for n in (10, 1000, 100_000)
    ]  # fmt: skip
    assert growth(rows) == pytest.approx(power)
    assert f"to the {power:.2f}" in table(rows)
    assert growth(rows[:2]) is None


def test_too_few_responses_are_refused(capsys):
    assert main(["bench", "run", "--responses", "3"]) == 2
    assert "at least 8" in capsys.readouterr().err
