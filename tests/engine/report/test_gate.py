"""Files for others' CI: hostile words stay words, and each format is what its readers take."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from itertools import product

import jsonschema
import pytest
from markdown_it import MarkdownIt

from engine.core.gate import FAILED, PASSED, UNKNOWN, Check, Gate
from engine.report.gate import MOST_BYTES, as_junit, as_markdown, as_sarif

HOSTILE = (
    "@team please merge",
    "see #12, GH-3, own/repo#4 and a1b2c3d4e5f60718293a4b5c6d7e8f9012345678",
    "<img src=x onerror=alert(1)><script>alert(1)</script> <!-- hidden",
    "[click](https://evil.example) ![p](https://evil.example/p.png) https://evil.example www.evil.example",
    "`code` ends ``here`` ```and``` here` @team",
    "cell | next | cell\n\n# heading\n- list\n> quote\r\n/close\u2028@team",
    "back\\`slash \\| @team \\",
    "\x1b[31mred\x00\x07 \u202eright to left\u202c ]]> &amp; &#64;team {0} {{",
    "::set-output name=x::y\n::add-mask::z",
    " ",
    "",
    "漢字 — ½ 🙂",
)
MARKDOWN = MarkdownIt("commonmark").enable("table")
# The parts of SARIF 2.1.0 that are used, as the standard's chapters 3.13 to 3.27 demand them.
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
KINDS = [
    {"kind": {"const": "fail"}, "level": {"const": "error"}},
    {"kind": {"const": "open"}, "level": {"const": "none"}},
]
SARIF = {
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "properties": {
                            "driver": {
                                "required": ["name", "version", "rules"],
                                "properties": {
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "properties": {"shortDescription": MESSAGE, "fullDescription": MESSAGE},
                                        },
                                    }
                                },
                            }
                        }
                    },
                    "results": {
                        "items": {
                            "required": ["ruleId", "ruleIndex", "message", "locations"],
                            "oneOf": [{"properties": kinds} for kinds in KINDS],
                            "properties": {
                                "message": MESSAGE,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "locations": {"type": "array", "minItems": 1},
                            },
                        }
                    },
                },
            },
        },
    },
}


def hostile_gate(name: str = "drift", words: tuple[str, ...] = HOSTILE) -> Gate:
    checks = [
        Check(f"{k}/{text}", text, status, text, text, text, value=0.5 if k % 2 else float("nan"))
        for k, (text, status) in enumerate(product(words, (PASSED, FAILED, UNKNOWN)))
    ]
    about = {"judge": words[0], "base": words[2], "new": words[4]}
    return Gate(name, name, tuple(checks), 4, about, words, "data/my file#1.csv")


def spans(text: str):
    """Every inline token of the markdown as a reader takes it, and the kinds of its blocks."""
    tokens = MARKDOWN.parse(text)
    return [child for token in tokens for child in token.children or ()], {token.type for token in tokens}


def test_words_of_others_are_never_markdown():
    text = as_markdown([hostile_gate()])
    inline, blocks = spans(text)
    assert {t.type for t in inline} <= {"text", "code_inline", "softbreak"}
    assert not {t for t in blocks if "html" in t or "quote" in t or "fence" in t or "code_block" in t}
    outside = " ".join(t.content for t in inline if t.type == "text")
    assert not re.search(r"@|#\d|https?:|www\.|<|\[|evil|::|\\", outside), outside
    assert "漢字 — ½ 🙂" in {t.content for t in inline if t.type == "code_inline"}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2028\u2066-\u2069]", text)


def test_each_check_is_one_row_of_four_cells():
    gate = hostile_gate()
    tokens = MARKDOWN.parse(as_markdown([gate]))
    rows = sum(token.type == "tr_open" for token in tokens)
    cells = sum(token.type in ("td_open", "th_open") for token in tokens)
    assert (rows, cells) == (len(gate.checks) + 1, 4 * (len(gate.checks) + 1))


def test_what_failed_comes_first_and_what_passed_last():
    lines = [
        line for line in as_markdown([hostile_gate()]).splitlines() if line.startswith("| ") and "result" not in line
    ]
    order = [("failed" in line, "cannot tell" in line) for line in (line.split("|")[1] for line in lines)]
    assert order == sorted(order, reverse=True)
    assert len(order) == 3 * len(HOSTILE)


@pytest.mark.parametrize("gates", [1, 7])
def test_the_markdown_fits_into_a_comment_and_every_gate_is_in_it(gates):
    many = hostile_gate(words=tuple(f"{k} 漢{'字' * 400}" for k in range(200)))
    text = as_markdown([many] * gates)
    assert len(text.encode()) <= MOST_BYTES
    assert text.count("## JudgeScope") == gates
    assert text.count("more lines are left out") == gates


def test_junit_has_what_both_schemas_ask_for_in_their_order():
    gates = [hostile_gate(), Gate("trust", "trust", (Check("kappa>=0.6", "kappa", PASSED, ""),), 0)]
    root = ET.fromstring(as_junit(gates, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))
    assert root.tag == "testsuites"
    for k, (suite, gate) in enumerate(zip(root, gates, strict=True)):
        assert suite.attrib["timestamp"] == "2026-01-02T03:04:05"
        assert {"name", "package", "id", "hostname", "time"} <= suite.attrib.keys()
        assert suite.attrib["id"] == str(k)
        cases = suite.findall("testcase")
        assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
        assert all({"name", "classname", "time"} == case.attrib.keys() and len(case) <= 1 for case in cases)
        found = [next((child.tag for child in case), "passed") for case in cases]
        said = {PASSED: "passed", FAILED: "failure", UNKNOWN: "skipped"}
        assert found == [said[check.status] for check in gate.checks]
        for kind, tag in (("failures", "failure"), ("skipped", "skipped"), ("tests", None)):
            assert int(suite.attrib[kind]) == (len(cases) if tag is None else found.count(tag))
    assert all(f.attrib["type"] for f in root.iter("failure"))
    texts = "".join(root.itertext()) + "".join(v for e in root.iter() for v in e.attrib.values())
    assert "<script>" in texts  # as data: it was parsed from entities
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", texts)


def test_sarif_holds_failures_and_what_cannot_tell():
    gate = hostile_gate()
    log = json.loads(as_sarif([gate, hostile_gate("trust", ("a", "b", "c", "d", "e"))]))
    jsonschema.validate(log, SARIF)
    run = log["runs"][0]
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert len(rules) == len(gate.checks)
    assert [r["kind"] for r in results] == [
        "fail" if c.status == FAILED else "open" for c in gate.checks if c.status != PASSED
    ]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in results)
    assert {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results} == {
        "data/my%20file%231.csv"
    }
    marks = [r["partialFingerprints"]["judgescope/v1"] for r in results]
    assert len(set(marks)) == len(marks)
    messages = " ".join(r["message"]["text"] for r in results)
    assert not re.search(r"\]\(", messages)  # a link, in SARIF's plain text
    assert not re.search(r"(?<!\{)\{(\{\{)*(?!\{)", messages)  # a placeholder
    ids = [run["automationDetails"]["id"] for run in log["runs"]]
    assert len(set(ids)) == 2
