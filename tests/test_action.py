"""The composite action and the workflow to copy: their shell steps are run, and no input is ever part of a script."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from engine.cli import drift, study

ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
WORKFLOW = ROOT / "docs" / "examples" / "judge-gates.yml"
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
PYTHON = f"""#!/bin/sh
PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} "$@"
"""
OURS = """#!/bin/sh
exec "${0%/*}/python" -m engine.cli.main "$@"
"""
ENDING = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --markdown|--junit|--sarif) [ "$ENDS" = 2 ] || echo "a file" > "$2" ;; esac
  shift
done
echo "::add-mask::words of a judge"
echo '{"gate": 1}'
exit "$ENDS"
"""
ECHO = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word" >> "$RUNNER_TEMP/words"; done
"""
VENV = """#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/judgescope"; fi
for word in "$@"; do printf '%s\\n' "$word" >> "$RUNNER_TEMP/words"; done
"""


def parsed(words: list[str]) -> argparse.Namespace:
    """The options of a command that ends as a gate."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    study.add(commands)
    drift.add(commands)
    return parser.parse_args(words)


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def step(tmp_path):
    """`step(name, VARIABLE=...)` runs a step as a runner does; (finished process, outputs, summary)."""
    temp, output, summary = tmp_path / "temp", tmp_path / "output", tmp_path / "summary"
    binaries = temp / "judgescope" / "bin"
    binaries.mkdir(parents=True)
    program(binaries / "python", PYTHON)
    program(binaries / "judgescope", OURS)
    work = tmp_path / "work"
    work.mkdir()

    def run(name: str, **variables: str):
        output.write_text("")
        summary.write_text("")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("JUDGESCOPE_")}
        env = kept | {"HOME": str(tmp_path), "RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": str(output)}
        env |= {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTION_PATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]],
            env=env | variables, cwd=work, capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = output.read_text().splitlines()
        return done, dict(line.split("=", 1) for line in lines), summary.read_text()

    return run


def gate(step, name: str, arguments: str, folder: str = "out"):
    return step("Run the gate", GATE=name, ARGUMENTS=arguments, FOLDER=folder)


@pytest.mark.parametrize(("code", "status"), [(0, "passed"), (3, "unknown"), (4, "failed")])
def test_the_gate_sets_its_outputs_and_the_summary(step, tmp_path, code, status):
    program(tmp_path / "temp" / "judgescope" / "bin" / "judgescope", ENDING.replace("$ENDS", str(code)))
    done, outputs, summary = gate(step, "checkup", "", "my out")
    assert done.returncode == 0, done.stderr
    assert (outputs["exit-code"], outputs["status"]) == (str(code), status)
    assert set(outputs) == set(ACTION["outputs"])
    files = {key: tmp_path / "work" / outputs[key] for key in ("markdown", "junit", "sarif", "json")}
    assert summary == files["markdown"].read_text() == "a file\n"
    assert json.loads(files["json"].read_text()) == {"gate": 1}
    lines = done.stdout.splitlines()
    stop = lines[0].removeprefix("::stop-commands::")
    assert (len(stop), lines[-1]) == (32, f"::{stop}::")  # what the judge said stands between

    program(tmp_path / "temp" / "judgescope" / "bin" / "judgescope", ENDING.replace("$ENDS", "2"))
    done, outputs, summary = gate(step, "checkup", "", "my out")  # no outcome of the earlier run is left
    assert (done.returncode, outputs) == (0, {"exit-code": "2", "status": "error"})
    assert "exit code 2" in summary


@pytest.mark.slow
def test_a_real_gate_by_the_action(step, tmp_path):
    rules = "--require kappa>=0.1\n\n  --require   raw:response A<=0.5  "
    done, outputs, summary = gate(step, "trust", rules)
    assert done.returncode == 0, done.stderr
    assert (outputs["exit-code"], outputs["status"]) == ("4", "failed")
    assert "| ❌ failed | `raw, response A` |" in summary
    told = json.loads((tmp_path / "work" / outputs["json"]).read_text())
    assert [check["status"] for check in told["gate"]["checks"]] == ["passed", "passed", "failed"]


@pytest.mark.parametrize(("name", "folder"), [("study; ls", "out"), ("", "out"), ("trust", ""), ("trust", "a\nb=c")])
def test_what_is_no_gate_or_folder_is_refused(step, name, folder):
    done, outputs, _ = gate(step, name, "", folder)
    assert (done.returncode, outputs) == (2, {})
    assert done.stdout.startswith("::error::")


def test_arguments_reach_the_command_as_they_are_written(step, tmp_path):
    """Nothing is expanded, split or run, whatever stands in a line."""
    program(tmp_path / "temp" / "judgescope" / "bin" / "judgescope", ECHO)
    lines = [
        "--data my file.csv",
        "--set a=$(touch hacked) `touch hacked` ; touch hacked",
        "*",
        "--flag",
        "--x  'q' \"r\"",
    ]
    gate(step, "checkup", "\n".join(lines))
    words = (tmp_path / "temp" / "words").read_text().splitlines()
    given = ["--data", "my file.csv", "--set", "a=$(touch hacked) `touch hacked` ; touch hacked", "*", "--flag"]
    assert words[: len(given) + 4] == ["study", "checkup", *given, "--x", "'q' \"r\""]
    assert not (tmp_path / "work" / "hacked").exists()


@pytest.mark.parametrize(
    ("version", "local", "asked"),
    [
        ("", "false", ["--constraint", str(ROOT / "constraints.txt"), str(ROOT)]),
        ("", "true", ["--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[local]"]),
        ("0.2.0", "true", ["judgescope[local]==0.2.0"]),
        ("dist/judgescope-0.2.0-py3-none-any.whl", "false", ["dist/judgescope-0.2.0-py3-none-any.whl"]),
    ],
)
def test_what_is_installed(step, tmp_path, version, local, asked):
    program(tmp_path / "python", VENV)
    done, *_ = step("Install", VERSION=version, LOCAL=local, PYTHON=str(tmp_path / "python"))
    assert done.returncode == 0, done.stderr
    words = (tmp_path / "temp" / "words").read_text().splitlines()
    start = words.index("install")
    assert [w for w in words[start + 1 : -1] if w not in ("--quiet", "--disable-pip-version-check")] == asked
    assert step("Install", VERSION="0.2; ls", LOCAL="", PYTHON=str(tmp_path / "python"))[0].returncode == 2


@pytest.mark.parametrize(
    ("code", "unknown", "ends"),
    [("0", "fail", 0), ("3", "warn", 0), ("3", "fail", 3), ("4", "warn", 4), ("1", "warn", 1), ("2", "warn", 2)],
)
def test_the_job_ends_by_the_exit_code(step, code, unknown, ends):
    done, *_ = step("End by the exit code", CODE=code, ON_UNKNOWN=unknown)
    assert done.returncode == ends


def test_inputs_go_through_the_environment_and_actions_are_pinned():
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in (*steps, *STEPS.values()) if "uses" in step]
    assert all(len(name.partition("@")[2]) == 40 for name in used)
    assert not any("run" in step for step in steps)


def test_the_workflow_gives_the_action_what_it_takes():
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    given = [step["with"] for job in jobs.values() for step in job["steps"] if "judgescope" in step["uses"]]
    assert all(set(one) <= set(ACTION["inputs"]) for one in given)
    gates = [given[0], *jobs["judge"]["strategy"]["matrix"]["include"]]
    assert [one["gate"] for one in gates] == ["trust", "checkup", "drift"]
    for one in gates:
        command = ["drift"] if one["gate"] == "drift" else ["study", one["gate"]]
        words = [word for line in one["arguments"].splitlines() for word in line.split(" ", 1)]
        assert parsed([*command, *words]).json is False
    comments = [line for line in WORKFLOW.read_text().splitlines() if line.startswith("#") and "judgescope " in line]
    (words,) = [shlex.split(line[line.index("judgescope ") :])[1:] for line in comments]
    assert parsed(words).what == ["freeze", "RUN"]


@pytest.mark.parametrize(
    "command",
    [
        ("zizmor", "--offline", "--persona", "auditor", "action.yml"),
        ("hadolint", "Dockerfile"),
        ("cffconvert", "--validate"),
    ],
    ids=lambda command: command[0],
)
def test_linters_find_nothing(command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
