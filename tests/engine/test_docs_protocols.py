"""The tables of docs/papers.md on pairwise and pointwise judgement say what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
MODAL, EXPECTED, MATCHED = "equal modal score", "expected scores, no margin", "margin matched to pairwise ties"
DEMO = "demo-instruction, six systems"


@pytest.fixture(scope="module")
def table():
    return pd.read_csv(ROOT / "assets" / "results" / "protocols.csv").fillna({"protocol": "", "group": ""})


@pytest.fixture(scope="module")
def docs():
    whole = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    return whole[whole.index("## Pairwise or pointwise, and who climbs") :]


def one(table, data, metric, protocol="", group="", attack="all distractors"):
    at = {"data": data, "metric": metric, "protocol": protocol, "group": group, "attack": attack}
    found = table[(table[list(at)] == pd.Series(at)).all(axis=1)]
    assert len(found) == 1, at
    return found.iloc[0]


def said(row, *, signed=False, p=False):
    how = "+.1f" if signed else ".1f"
    value, lower, upper = (f"{100 * row[k]:{how}}" for k in ("value", "lower", "upper"))
    tested = ("< 0.001" if row["p_value"] < 0.001 else f"= {row['p_value']:.2g}") if p else ""
    test = f", p {tested}" if p else ""
    return f"{value} [{lower}, {upper}]{test}, n {int(row['n']):,}".replace("-", "−")


def full_size(table):
    names = [name for name in dict.fromkeys(table["data"]) if name != DEMO]
    for data in names:
        cells = [
            said(one(table, data, "flip_rate", "pairwise")),
            said(one(table, data, "flip_rate_net", "pairwise"), signed=True),
            said(one(table, data, "flip_rate", "pointwise", MODAL)),
            said(one(table, data, "flip_rate", "pointwise", EXPECTED)),
        ]
        yield f"| {data} | {' | '.join(cells)} |"
    for data in names:
        cells = []
        for group in (MODAL, EXPECTED, MATCHED):
            cells.append(said(one(table, data, "flip_difference_net", group=group), signed=True, p=True))
            cells.append(said(one(table, data, "flip_difference", group=group), signed=True))
        yield f"| {data} | {' | '.join(cells)} |"


def test_the_full_size_tables_are_the_committed_results(table, docs):
    rows = list(full_size(table))
    assert len(rows) == 8
    for row in rows:
        assert row in docs


@pytest.mark.parametrize(
    ("metric", "protocol", "group", "shown"),
    [
        ("flip_rate", "pairwise", "", "7.4 % [3.8, 11.0]"),
        ("flip_rate", "pointwise", MODAL, "4.9 % [0, 14.4]"),
        ("flip_rate", "pointwise", EXPECTED, "7.9 % [4.3, 11.5]"),
        ("flip_rate_net", "pairwise", "", "−6.9 points [−19.8, 5.9]"),
        ("flip_rate_net", "pointwise", MODAL, "+4.9 [−4.5, 14.4]"),
        ("flip_rate_net", "pointwise", EXPECTED, "+3.9 [0.6, 7.2]"),
        ("flip_difference_net", "", MODAL, "−8.9 points [−19.8, 1.9], p = 0.090, n = 123"),
        ("flip_difference_net", "", EXPECTED, "−9.3 [−20.8, 2.2], p = 0.10, n = 345"),
        ("flip_difference", "", MODAL, "+1.6 [−1.3, 4.5], p = 0.50, n = 123"),
        ("flip_difference", "", EXPECTED, "0.0 [−4.6, 4.6], p = 1.0, n = 359"),
    ],
)
def test_the_demo_table_is_the_recorded_run(table, docs, metric, protocol, group, shown):
    assert f" {shown} |" in docs
    row = one(table, DEMO, metric, protocol, group)
    numbers = [
        float(part.strip("+[],").replace("−", "-")) for part in shown.split() if part.strip("+−[],")[:1].isdigit()
    ]
    for k, number in zip(("value", "lower", "upper"), numbers, strict=False):
        assert 100 * row[k] == pytest.approx(number, abs=0.0501)
    if "p =" in shown:
        assert row["p_value"] == pytest.approx(numbers[3], abs=0.0051)
        assert row["n"] == numbers[4]
