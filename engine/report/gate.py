"""A gate's outcome for others' CI: markdown for a comment or a job summary, JUnit XML, SARIF 2.1.0.

Names and reasons may hold words of users and models. In markdown they stand in code spans, where neither a mention nor
a link nor HTML is read; in XML and JSON they are data.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine import __version__
from engine.core.gate import FAILED, PASSED, STATUSES, UNKNOWN, Check, Gate
from engine.core.json import dumps, plain

MOST_BYTES = 60_000
"""Of the markdown in UTF-8; a comment on GitHub may have 65,536 characters."""
MOST_LETTERS = 300
"""Of one name or reason in the markdown."""
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_MARKS = {PASSED: "✅ passed", FAILED: "❌ failed", UNKNOWN: "❔ cannot tell"}


def _line(text: str) -> str:
    """Text as one line without control characters, marks that turn the direction of writing, or lone surrogates."""
    line = " ".join(text.split())
    return "".join(c for c in line if not unicodedata.category(c).startswith("C"))


# Markdown.


def as_markdown(gates: Sequence[Gate]) -> str:
    """All gates, what failed first; cut to `MOST_BYTES` by whole lines, each gate with its share."""
    share = MOST_BYTES // max(len(gates), 1)
    return "\n".join(_capped(list(_markdown(gate)), share) for gate in gates)


def _markdown(gate: Gate) -> Iterator[str]:
    yield from (f"## JudgeScope {gate.title}: {_MARKS[gate.status]}", "", gate.sentence(), "")
    if gate.about:
        about = ", ".join(f"{what} {_code(name)}" for what, name in gate.about.items())
        yield from (f"{about[:1].upper()}{about[1:]}.", "")
    yield from ("| result | check | measured | allowed |", "|---|---|---|---|")
    checks = sorted(gate.checks, key=lambda c: STATUSES.index(c.status))
    for check in checks:
        yield f"| {_MARKS[check.status]} | {_code(check.title)} | {_code(check.measured)} | {_code(check.allowed)} |"
    yield ""
    yield from (f"- {_code(c.title)}: {_code(c.message)}" for c in checks if c.status != PASSED and c.message)
    yield from (f"- {_code(note)}" for note in gate.notes)
    yield ""


def _code(text: str) -> str:
    line = _line(text).replace("`", "'").replace("|", "¦")
    line = line if len(line) <= MOST_LETTERS else f"{line[:MOST_LETTERS]}…"
    return f"`{line}`" if line else "–"


def _capped(lines: Sequence[str], most: int) -> str:
    """Lines joined, as many as go into `most` bytes, and a count of the others."""
    most -= 60  # for that count
    size = 0
    for k, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > most:
            return "\n".join([*lines[:k], "", f"{len(lines) - k:,} more lines are left out.", ""])
    return "\n".join(lines)


# JUnit.


def as_junit(gates: Sequence[Gate], moment: datetime | None = None) -> bytes:
    """A test suite for each gate, a test case for each check; what cannot tell is a skipped one.

    Elements and attributes are those that both JUnit schemas in use ask for (Ant's and Jenkins').

    Args:
        gates: at least one.
        moment: time of the run; now by default.
    """
    at = (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    root = ET.Element("testsuites")
    for k, gate in enumerate(gates):
        by = gate.counts()
        name = _line(f"judgescope.{gate.name}")
        suite = ET.SubElement(
            root, "testsuite", name=name, package="judgescope", id=str(k), timestamp=at, hostname="localhost",
            tests=str(len(gate.checks)), failures=str(by[FAILED]), errors="0", skipped=str(by[UNKNOWN]), time="0",
        )  # fmt: skip
        properties = ET.SubElement(suite, "properties")
        for key, value in {**gate.about, "exit_code": str(gate.exit_code), "status": gate.status}.items():
            ET.SubElement(properties, "property", name=_line(key), value=_line(value))
        for check in gate.checks:
            case = ET.SubElement(suite, "testcase", name=_line(check.name), classname=name, time="0")
            if check.status == FAILED:
                ET.SubElement(case, "failure", type="threshold", message=_line(check.message)).text = _detail(check)
            elif check.status == UNKNOWN:
                ET.SubElement(case, "skipped", message=_line(check.message)).text = _detail(check)
        ET.SubElement(suite, "system-out").text = "\n".join(map(_line, (gate.sentence(), *gate.notes)))
        ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _detail(check: Check) -> str:
    limit = f"; allowed: {check.allowed}" if check.allowed else ""
    return _line(f"{check.title}; measured: {check.measured or 'no number'}{limit}")


# SARIF.


def as_sarif(gates: Sequence[Gate]) -> str:
    """A run for each gate: every check is a rule, and what failed or cannot tell is a result.

    A failure has the level `error`; what cannot tell has the kind `open` and so, as the standard demands, no level.
    What passed is no result, since code scanning would show it as an alert.
    """
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [_sarif_run(gate, k) for k, gate in enumerate(gates)]}
    return json.dumps(plain(log), ensure_ascii=False, allow_nan=False, indent=1)


def _sarif_run(gate: Gate, index: int) -> dict[str, Any]:
    names = [f"{gate.name}/{_line(check.name)}" for check in gate.checks]
    judge = re.sub(r"[^A-Za-z0-9.]+", "-", gate.about.get("judge", "")).strip("-.")
    rules = [
        {"id": name, "name": re.sub(r"[^A-Za-z0-9]", "", name.title()) or "Check",
         "shortDescription": _message(check.title), "fullDescription": _message(check.allowed or check.title)}
        for name, check in zip(names, gate.checks, strict=True)
    ]  # fmt: skip
    return {
        "tool": {"driver": {"name": "JudgeScope", "version": __version__, "rules": rules}},
        "automationDetails": {"id": f"judgescope/{gate.name}/{judge or index}/"},
        "invocations": [{"executionSuccessful": True, "exitCode": gate.exit_code}],
        "results": [_result(gate, check, k, names[k]) for k, check in enumerate(gate.checks) if check.status != PASSED],
        "properties": {"status": gate.status, "about": dict(gate.about), "notes": list(gate.notes)},
        "columnKind": "unicodeCodePoints",
    }


def _result(gate: Gate, check: Check, index: int, rule: str) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"name": gate.name, "fullyQualifiedName": rule}]}
    if gate.file:
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(Path(gate.file).as_posix())}}
    failed = check.status == FAILED
    mark = hashlib.sha256(dumps([rule, gate.about.get("judge"), gate.file]).encode()).hexdigest()
    numbers = {name: getattr(check, name) for name in ("value", "lower", "upper", "threshold")}
    return {
        "ruleId": rule,
        "ruleIndex": index,
        "kind": "fail" if failed else "open",
        "level": "error" if failed else "none",
        "message": _message(": ".join(filter(None, (check.title, check.measured, check.message)))),
        "locations": [location],
        "partialFingerprints": {"judgescope/v1": mark[:32]},
        "properties": {name: value for name, value in plain(numbers).items() if value is not None},
    }


def _message(text: str) -> dict[str, str]:
    """Plain text of SARIF, in which braces are doubled and `[words](address)` would be a link."""
    return {"text": _line(text).replace("{", "{{").replace("}", "}}").replace("](", "] (") or "–"}
