"""The table of audits of recorded verdicts, on a few pairs written here and two judges whose agreement is known."""

from __future__ import annotations

import csv
import json

import pandas as pd
import pytest

from engine.bench.audit import MAIN_PROMPT, PER_TYPE, POOLED, all_cases
from engine.cli.main import main
from engine.core.errors import InputError

RIGHT, WRONG = "measured evidence shows {} because the data agree", "trust me {} friend nobody doubts it"


def write(folder) -> None:
    """LLMBar-like pairs with a judge that is right on 3 of 4 under one prompt and on 1 of 4 under another."""
    pairs, verdicts, panda = [], [], []
    for i in range(40):
        first = i % 2 == 0
        a, b = (RIGHT, WRONG) if first else (WRONG, RIGHT)
        label, other = ("a", "b") if first else ("b", "a")
        pairs.append({
            "id": f"p{i}", "prompt": f"q{i}", "response_a": a.format(i), "response_b": b.format(i), "label": label,
            "subset": "AB"[i % 3 == 0],
        })  # fmt: skip
        for prompt, right in ((MAIN_PROMPT, i % 4 != 0), ("CoT", i % 4 == 0)):
            side = label if right else other
            verdicts.append({
                "id": f"p{i}", "judge": "J", "prompt": prompt, "winner_order_ab": side, "winner_order_ba": side,
            })  # fmt: skip
        panda.append({k: v for k, v in pairs[-1].items() if k != "subset"} | {
            "prompt": f"q{i}", "input": "", "gpt35_judge": label if i % 4 else other, "pandalm7b_judge": other,
        })  # fmt: skip
    for name, rows in (("llmbar", pairs), ("pandalm", panda)):
        (folder / name).mkdir()
        (folder / name / "pairs.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    pd.DataFrame(verdicts).to_csv(folder / "llmbar" / "recorded_verdicts.csv", index=False)


@pytest.fixture
def arguments(tmp_path, settings):
    write(tmp_path)
    out = tmp_path / "table.csv"
    return ["bench", "audit", "--data", str(tmp_path), "--encoder", "words", "--splits", "2", "--out", str(out)], out


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_judge_and_prompt_has_its_rows_and_its_planted_agreement(arguments):
    command, out = arguments
    assert main(command) == 0
    rows = rows_of(out)
    assert [(r["judge"], r["prompt"], r["transport"]) for r in rows] == [
        ("gpt35", "", POOLED), ("pandalm7b", "", POOLED),
        ("J", MAIN_PROMPT, POOLED), ("J", MAIN_PROMPT, PER_TYPE), ("J", "CoT", POOLED), ("J", "CoT", PER_TYPE),
    ]  # fmt: skip
    agreement = {(r["judge"], r["prompt"]): float(r["cons_orig"]) for r in rows}
    assert agreement["J", MAIN_PROMPT] == pytest.approx(0.75, abs=0.06)
    assert agreement["J", "CoT"] == pytest.approx(0.25, abs=0.06)
    assert agreement["pandalm7b", ""] == 0
    assert all(float(r["gain"]) == pytest.approx(float(r["cons_adj"]) - float(r["cons_orig"]), abs=1e-5) for r in rows)


def test_a_table_begun_goes_on_behind_its_rows(arguments):
    command, out = arguments
    assert main([*command, "--prompt", MAIN_PROMPT]) == 0
    first = rows_of(out)
    assert len(first) == 4
    assert main(command) == 0
    assert rows_of(out)[:4] == first
    assert len(rows_of(out)) == 6


def test_wrong_prompts_files_and_tables_are_named(arguments, tmp_path, capsys):
    command, out = arguments
    assert main([*command, "--prompt", "Shout"]) == 2
    assert "CoT, Vanilla" in capsys.readouterr().err
    out.write_text("a,b\n1,2\n")
    assert main(command) == 2
    assert "no table of this command" in capsys.readouterr().err
    assert main(["bench", "audit", "--data", str(tmp_path / "nowhere")]) == 2
    assert "Name --data DIR" in capsys.readouterr().err


def test_only_the_main_prompt_has_every_encoder():
    recordings = pd.DataFrame({"judge": ["J", "J"], "prompt": [MAIN_PROMPT, "CoT"]})
    cases = [c for c in all_cases(recordings, ["one", "two"]) if c.data == "LLMBar"]
    assert {(c.prompt, c.encoder) for c in cases} == {(MAIN_PROMPT, "one"), (MAIN_PROMPT, "two"), ("CoT", "one")}
    with pytest.raises(InputError, match="Shout"):
        all_cases(recordings, ["one"], ["Shout"])
