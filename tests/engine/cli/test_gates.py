"""Check-up, trust and drift as gates of a pipeline: exit codes and the files that others' CI reads agree."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from engine.cli.main import main
from engine.core.gate import FAILED, PASSED, UNKNOWN

ORDER = ("study", "checkup", "--limit", "12", "--set", "pairs=1", "--set", "responses=2", "--set", 'probes=["order"]')
TRUST = ("study", "trust")
DRIFT = ("drift", "recorded:dialogue/run")


@pytest.fixture
def gate(settings, tmp_path, capsys):
    """`gate("drift", ...)`: exit code, its JSON, the markdown, the JUnit suites and the SARIF runs."""

    def run(*words: str):
        files = {name: tmp_path / f"gate.{name}" for name in ("markdown", "junit", "sarif")}
        code = main([*words, *(w for name, file in files.items() for w in (f"--{name}", str(file))), "--json"])
        out, _ = capsys.readouterr()
        told = json.loads(out.splitlines()[-1])
        suites = list(ET.parse(files["junit"]).getroot())
        return code, told, files["markdown"].read_text(), suites, json.loads(files["sarif"].read_text())["runs"]

    return run


@pytest.mark.parametrize(
    ("words", "code", "counts"),
    [
        ((*ORDER, "--judge", "planted:position?strength=1"), 4, {FAILED: 1}),
        ((*ORDER, "--judge", "planted:position?strength=0"), 0, {UNKNOWN: 1}),  # undecided, and not strict
        ((*ORDER, "--judge", "planted:position?strength=0", "--set", "strict=true"), 3, {UNKNOWN: 1}),
        (TRUST, 0, {PASSED: 1}),
        ((*TRUST, "--require", "kappa>=0.1", "--require", "corrected<=0.9"), 0, {PASSED: 3}),
        ((*TRUST, "--require", "kappa>=0.5"), 3, {PASSED: 1, UNKNOWN: 1}),
        ((*TRUST, "--require", "kappa>=0.5", "--require", "kappa>=0.9"), 4, {PASSED: 1, UNKNOWN: 1, FAILED: 1}),
        ((*DRIFT, "recorded:dialogue/run"), 0, {PASSED: 18}),
        ((*DRIFT, "recorded:dialogue/naive"), 4, {FAILED: 18}),
    ],
)
def test_exit_code_and_files_say_the_same(gate, words, code, counts):
    found, told, markdown, [suite], [run] = gate(*words)
    checks = told["gate"]["checks"]
    assert (found, told["gate"]["exit_code"]) == (code, code)
    assert Counter(check["status"] for check in checks) == counts
    assert [case.attrib["name"] for case in suite.findall("testcase")] == [check["name"] for check in checks]
    assert int(suite.attrib["failures"]) == counts.get(FAILED, 0)
    assert int(suite.attrib["skipped"]) == counts.get(UNKNOWN, 0)
    assert sum(r["level"] == "error" for r in run["results"]) == counts.get(FAILED, 0)
    assert run["invocations"][0]["exitCode"] == code
    assert markdown.count("| ❌ failed |") == counts.get(FAILED, 0)
    assert f"Exit code {code}." in markdown


def test_a_rule_is_kept_with_the_run_and_may_stand_in_its_settings(gate):
    rules = ["kappa>=0.1", "raw:response A<=0.9"]
    by_option = gate(*TRUST, "--require", rules[0], "--require", rules[1])[1]
    by_setting = gate(*TRUST, "--set", f"require={json.dumps(rules)}")[1]
    assert by_option["gate"]["checks"] == by_setting["gate"]["checks"]
    assert [check["name"] for check in by_option["gate"]["checks"][1:]] == rules


def test_several_judges_are_one_file_with_a_part_for_each(gate):
    judges = ("planted:position?strength=1", "planted:position?strength=0")
    code, _, markdown, suites, runs = gate(*ORDER, "--judge", judges[0], "--judge", judges[1])
    assert code == 4
    assert [suite.attrib["failures"] for suite in suites] == ["1", "0"]
    assert len({run["automationDetails"]["id"] for run in runs}) == 2
    assert all(f"`{judge}`" in markdown for judge in judges)


def test_a_stopped_run_fails_nothing(gate):
    whole = ("study", "checkup", "--judge", "planted:position?strength=1")
    code, told, *_ = gate(*whole, "--budget-seconds", "0.000001")
    assert code == 3
    assert {check["status"] for check in told["gate"]["checks"]} == {UNKNOWN}
    assert told["gate"]["checks"][-1]["name"] == "finished"


def test_the_file_that_was_judged_is_the_place_of_a_result(gate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judge").mkdir()
    assert main(["drift", "freeze", "recorded:dialogue/run", "--out", "judge/frozen.json"]) == 0
    *_, [run] = gate("drift", "judge/frozen.json", "recorded:dialogue/naive")
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "judge/frozen.json"}


def test_only_a_gate_takes_the_options_and_a_plan_writes_nothing(settings, tmp_path, capsys):
    file = tmp_path / "out.md"
    assert main(["study", "grid", "--markdown", str(file)]) == 2
    assert "checkup, trust" in capsys.readouterr().err
    assert main(["study", "trust", "--dry-run", "--markdown", str(file)]) == 0
    assert main([*TRUST, "--require", "kappa:nobody>=0.1", "--markdown", str(file)]) == 2
    assert main([*TRUST, "--require", "kapa>=0.1", "--markdown", str(file)]) == 2
    assert not file.exists()
    assert main([*TRUST, "--markdown", str(tmp_path / "no" / "out.md")]) == 2
