"""The bench of served models: its servers answer, and every call is counted."""

from engine.bench.served import measure, stub_servers, table
from engine.cli.main import main


def test_the_calls_of_a_row_are_answered_by_all_addresses():
    with stub_servers(2, 0.0) as urls:
        row = measure(urls, 8, 2.0)
    assert (row["addresses"], row["in_flight"], row["calls"]) == (2, 8, 40)
    assert row["per_second"] > 0
    assert "| 2 | 8 | 40 |" in table([row])


def test_more_in_flight_than_the_setting_allows_is_refused(capsys):
    assert main(["bench", "served", "--in-flight", "513"]) == 2
    assert "takes 1 to 512" in capsys.readouterr().err
