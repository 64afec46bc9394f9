"""The bench of known formats on small files: nothing is lost but the line that was cut."""

import pytest

from engine.bench.formats import COMMANDS, FILES, measure, measure_table, table, table_of_tables
from engine.cli.main import main


@pytest.mark.parametrize("name", FILES)
def test_every_record_is_counted(name):
    filename, make = FILES[name]
    content = make(200_000)
    row = measure(name, filename, content)
    assert 0.9 < row["megabytes"] / 0.2 < 1.2
    assert row["excluded"] == (1 if name == "rewardbench" else 0)
    responses = {"rewardbench": 2, "promptfoo": 1}[name] * (row["records"] - row["excluded"])
    assert row["responses"] == responses
    assert f"| {name} | 0 | {row['records']:,} | {row['excluded']} |" in table([row])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_the_whole_table(name, tmp_path):
    row = measure_table(name, 400, tmp_path)
    assert len((tmp_path / f"{name}.csv").read_text().splitlines()) == 401
    assert row["ratio"] > 0
    assert f"| {name} | 400 |" in table_of_tables([row])


def test_sizes_out_of_bounds_are_refused(capsys):
    assert main(["bench", "formats", "--megabytes", "900"]) == 2
    assert "from 0.01 to 100" in capsys.readouterr().err
    assert main(["bench", "formats", "--rows", "3"]) == 2
    assert "from 100" in capsys.readouterr().err
