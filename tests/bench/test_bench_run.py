"""The bench of whole runs: every verdict is counted, and growth is the exponent it says."""

import pytest

from engine.bench.whole_run import ARMS, engine_alone, engine_line, growth, measure, responses_file, table
from engine.cli.main import main
from tests.engine.conftest import save_tiny


@pytest.mark.slow
def test_a_run_judges_every_response_in_every_arm(tmp_path):
    row = measure("planted:injection", 24, tmp_path)
    assert row["verdicts"] == 24 * ARMS
    assert f"| 24 | {24 * ARMS} |" in table([row])


@pytest.mark.slow
def test_the_engine_alone_is_asked_for_every_prompt_of_the_run(tmp_path):
    model = save_tiny(tmp_path / "model", "llama", max_position_embeddings=8192)
    responses_file(8, tmp_path / "8.csv")
    found = engine_alone(f"path:{model}", {"responses": 8}, tmp_path)
    assert found["calls"] == 8 * ARMS
    assert found["seconds"] > 0


def test_the_share_of_the_engine_leaves_the_start_out_where_a_smaller_run_was_measured():
    rows = [{"verdicts": 100, "seconds": 11.0}, {"verdicts": 1100, "seconds": 21.0}]
    said = engine_line(rows, {"calls": 1100, "seconds": 5.5})  # 200 a second
    assert "reached 0.26 of that, 0.50 beyond the smallest run" in said


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
