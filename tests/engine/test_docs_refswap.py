"""What docs/papers.md says of RefSwap is what the committed tables hold, number by number."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.core.schema import METRICS
from engine.runs.folder import RunFolder
from engine.studies.figure import Source
from engine.studies.refswap.figures import table
from engine.studies.refswap.metrics import summarise, summary_rows

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## Reference swap") : TEXT.index("## Transport audit")]
ARMS = {"another type": "other", "the same type": "same"}
KEYS = 10
DEMO = ROOT / "assets" / "demo" / "refswap"


def rows() -> list[dict[str, str]]:
    with (ROOT / "assets" / "results" / "refswap.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def row(data: str, judge: str, arm: str, delta: str = "2.0") -> dict[str, str]:
    found = [r for r in rows() if (r["data"], r["judge"], r["arm"], r["delta"]) == (data, judge, arm, delta)]
    assert len(found) == 1
    return found[0]


SHORTCUT = row("gsm8k", "bundled:shortcut-verifier", "other")
SAME = row("gsm8k", "bundled:shortcut-verifier", "same")


def three(value: str) -> str:
    return f"{float(value):.3f}" if value else "undefined"


def between(one: dict[str, str], name: str) -> str:
    value = three(one[name])
    return value if value == "undefined" else f"{value} [{three(one[f'{name}_lower'])}, {three(one[f'{name}_upper'])}]"


LINES = re.findall(r"^\| (\w+) \| (shortcut-verifier|judge) \| ([\w ]+) \| (.+) \|$", SECTION, re.MULTILINE)


def test_the_table_has_every_row_of_the_papers_tolerance():
    assert len(LINES) == len([r for r in rows() if r["delta"] == "2.0"]) == 8


@pytest.mark.parametrize(("data", "judge", "kind", "cells"), LINES, ids=lambda x: x if len(x) < 20 else "")
def test_each_row_is_that_of_the_table(data, judge, kind, cells):
    one = row(data, f"bundled:{judge}", ARMS[kind])
    n, unread, accuracy, fpr, worst, auc = cells.split(" | ")
    asked = int(n) * KEYS
    lost = asked - int(one["n_keys"])
    responses = int(one["n_clean"]) + int(one["n_unread"]) - lost
    parts = ((responses - int(one["n_clean"]), responses), (lost, asked))
    assert n == one["items"]
    assert unread == " / ".join(f"{k} of {of:,}" if k else "0" for k, of in parts)
    assert accuracy == f"{three(one['accuracy_before'])} → {between(one, 'accuracy_after')}"
    assert fpr == f"{three(one['fpr_before'])} → {between(one, 'fpr_after')}"
    assert worst == f"{three(one['fpr_worst_before'])} → {three(one['fpr_worst_after'])}"
    assert auc == between(one, "auc")


def two(value: str) -> str:
    return f"{float(value):.2f}"


@pytest.mark.parametrize(
    "said",
    [
        f"median max_p_cf {two(SHORTCUT['median_correct'])} for correct responses, {two(SHORTCUT['median_key'])} for",
        f"delta = 2 cost {100 * (float(SHORTCUT['accuracy_before']) - float(SHORTCUT['accuracy_after'])):.1f} points",
        f"and {100 * float(SHORTCUT['fpr_after']):.0f} % of the keys still pass (delta = 5: "
        f"{100 * float(row('gsm8k', 'bundled:shortcut-verifier', 'other', '5.0')['fpr_after']):.0f} %)",
        f"as plausible as the right one ({two(SAME['median_key'])}), while a correct response loses its YES "
        f"({two(SAME['median_correct'])})",
        f"the s-score at K = 1 separates (AUC {three(SAME['s_auc'])})",
        f"({SHORTCUT['length_cut']} characters)",
        f"on GSM8K 255 questions, {int(SHORTCUT['n_test_keys']):,} keys",
        f"responses took {two(SHORTCUT['accepted_tokens_ratio_clean'])} and keys "
        f"{two(SHORTCUT['accepted_tokens_ratio_key'])}",
    ],
)
def test_the_sentences_hold_the_numbers_of_the_table(said):
    assert said in " ".join(SECTION.split())


def test_the_number_of_test_keys_is_what_the_shares_are_fractions_of():
    for one in rows():
        whole = int(one["n_keys"]) == int(one["items"]) * KEYS
        assert bool(one["n_test_keys"]) == whole  # where keys are unread it cannot be derived
        if whole:
            for name in ("fpr_before", "fpr_after"):
                hits = float(one[name]) * int(one["n_test_keys"])
                assert hits == pytest.approx(round(hits), abs=0.01)


def test_the_demo_numbers_are_those_of_the_recorded_runs():
    text = " ".join(SECTION.split())
    metrics = RunFolder(DEMO / "shortcut-verifier").table("metrics")
    own = metrics[metrics["defense"] == "none"].set_index(["metric", "group"])

    def said(metric: str, group: str) -> str:
        one = own.loc[(metric, group)]
        return f"{one['value']:.3f} [{one['lower']:.3f}, {one['upper']:.3f}]"

    assert f"accuracy {said('accuracy', 'test')}, keys accepted {said('fpr', 'test')}" in text
    assert f"AUC {said('auc', 'all')}: gamma removes" in text
    assert f"from one reference has AUC {said('one_auc', 'all')}" in text
    assert f"the s-score from the same one {said('s_auc', 'all')}" in text
    s = table(Source(RunFolder(DEMO / "judge")), "other")
    lost = np.isnan(s.samples.p) & ~s.samples.clean
    by_key = pd.Series([s.keys[k] for k in s.samples.key[lost]]).value_counts()
    assert f"leaves {lost.sum()} of {(~s.samples.clean).sum()} key verdicts unread" in text
    assert f"period {by_key['key:period']} of 60, comma {by_key['key:comma']}, colon {by_key['key:colon']}" in text
    assert f"{by_key.iloc[:3].sum()} of them on three keys" in text


@pytest.mark.parametrize("name", ["judge", "shortcut-verifier"])
def test_the_recorded_metrics_are_what_the_recorded_verdicts_give(name):
    run = RunFolder(DEMO / name)
    config = run.manifest()["config"]
    own = table(Source(run), config["arms"][0])
    found = summarise(own.samples, k=config["k"], delta=config["delta"] / 100)
    pd.testing.assert_frame_equal(run.table("metrics"), METRICS.conform(summary_rows(found, own.keys)))
