"""`judgescope label`: plan, import, status, export, with exit codes and JSON."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from engine.cli.main import main
from engine.data.labels import open_session


def told(capsys, *command: str) -> dict:
    assert main(["label", *command, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_plan_is_labelled_from_a_file_and_exported(capsys, settings, tmp_path):
    plan = told(
        capsys, "plan", "demo-dialogue", "--n", "12", "--run", "recorded:dialogue/naive", "--by", "uncertainty"
    )  # fmt: skip
    order = open_session(plan["id"], settings.labels).plan.order
    assert sum(row["drawn"] for row in plan["strata"]) == 12
    labels = tmp_path / "labels.csv"
    labels.write_text("id,label\n" + "".join(f"{row},{'yes' if i % 2 else 'no'}\n" for i, row in enumerate(order)))
    assert told(capsys, "import", plan["id"], str(labels), "--annotator", "Ann")["new"] == 12
    [status] = told(capsys, "status", plan["id"])["sessions"]
    assert status["done"] == {"Ann": 12}
    assert status["corrected"]["n_labels"] == 12
    out = tmp_path / "out.csv"
    assert told(capsys, "export", plan["id"], "--out", str(out))["labels"] == 12
    table = pd.read_csv(out)
    labelled = table[table["label"].notna()]
    assert (1 / labelled["inclusion"]).sum() == pytest.approx(len(table))
    mean = ((labelled["label"] == "pass") / labelled["inclusion"]).sum() / len(table)
    assert status["labels_only"]["value"] == pytest.approx(mean)


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "demo-dialogue", "--n", "1000"),
        ("plan", "demo-dialogue", "--n", "10", "--scale", "great"),
        ("plan", "demo-pairs", "--n", "10", "--scale", "1-5"),
        ("plan", "demo-llmbar", "--n", "10"),
        ("plan", "demo-dialogue", "--n", "10", "--run", "nothing"),
        ("status", "0123456789abcdef"),
    ],
)
def test_wrong_input_has_its_exit_code(command):
    assert main(["label", *command]) == 2
