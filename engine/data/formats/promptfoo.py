"""promptfoo's results (`promptfoo eval -o results.json`), versions 2 to 4 of its result object; 3 is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.core.errors import InputError, shown
from engine.core.json import dumps
from engine.core.schema import Protocol, Task
from engine.data.formats.base import Builder, Format, Imported, Record, Row, RowError, Source, score_verdict
from engine.data.formats.writing import Lookup, need, rows_of

VERSIONS = (2, 3, 4)
"""Versions of the result object whose `results` is a list of graded outputs."""
MODEL_GRADED = (
    "llm-rubric", "g-eval", "factuality", "model-graded-closedqa", "model-graded-factuality", "answer-relevance",
    "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance", "pi", "select-best",
)  # fmt: skip
"""Assertions that a model grades; each is a judge of its own."""
WHOLE = "promptfoo"
"""The judge whose verdict is the score of all assertions; before an error it marks an unread verdict."""
GRADER = "the grader failed: "
"""Before what promptfoo says of a grader that gave no grade."""
OFF_SCALE = "the grader's score is not on promptfoo's scale of 0 to 1"
_NO_USE = (GRADER, OFF_SCALE)
_FAILED = re.compile(
    r"Could not extract JSON from |.{0,40}\bproduced (a )?malformed response|LLM-proposed evaluation |"
    r"LLM does not propose any evaluation|Invalid category value: |Factuality checker output did not match|"
    r"Error parsing output: |API (call |response )?error: |(No output|No embedding)$"
)
"""Wording by promptfoo of a grader's failure; newer versions also mark it with `graderError`."""
_PART = re.compile(rf"{WHOLE}/(.+?)(?: \d+)?")
_TEST = re.compile(r"(\d+):(\d+)")


def _results(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result object: under `results` in a file written by `-o`, the document itself from the library."""
    found = document.get("results")
    return found if isinstance(found, Mapping) else document


def _against(source: Source) -> str:
    document = source.document or {}
    inner = _results(document)
    listed = inner.get("results")
    if not isinstance(listed, list):
        return "results has no list results" + (" (only outputs)" if "outputs" in inner else "")
    first = next((r for r in listed if isinstance(r, dict)), {})
    lacking = [k for k in ("prompt", "provider", "success") if k not in first]
    return f"its results have no {', '.join(lacking)}" if listed and lacking else ""


def read_promptfoo(source: Source, builder: Builder) -> None:
    """A response for each output; promptfoo's score, and that of each model-graded assertion, is a judge's verdict.

    Raises:
        InputError: a version that is not known.
    """
    inner = _results(source.document or {})
    version = inner.get("version", VERSIONS[0])
    if version not in VERSIONS:
        raise InputError(
            f"{source.filename!r} has results of version {version!r}; read are {', '.join(map(str, VERSIONS))}. Export "
            "it with one of these versions of promptfoo, or as CSV."
        )
    prompts: dict[tuple[str, str], int] = {}
    for record in builder.elements(inner.get("results"), "results"):
        with builder.row(record):
            _read(record, builder, prompts)
    builder.notes.append(
        "A response is the output of a provider for a prompt. The judge “promptfoo” is the score of all assertions, "
        "“promptfoo/KIND” that of one kind a model grades; an error, a grader that failed and a score off 0 to 1 are "
        "unread. `pass` stands beside the score, as a threshold can fail a high one."
    )


def _read(record: Record, builder: Builder, prompts: dict[tuple[str, str], int]) -> None:
    prompt, provider = record.cells.get("prompt"), record.cells.get("provider")
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    if not isinstance(raw, str) or not raw.strip():
        raise RowError("prompt.raw is missing.", "Export the results with their prompts.", "prompt")
    label = provider.get("label") or provider.get("id") if isinstance(provider, Mapping) else provider
    system = str(label or "unnamed provider")
    test = record.cells.get("testIdx")
    item = f"{test}:{record.cells.get('promptIdx', 0)}" if test is not None else f"p{_number(prompts, raw)}"
    response = record.cells.get("response")
    output = response.get("output") if isinstance(response, Mapping) else response
    text = output if isinstance(output, str) or output is None else dumps(output)
    name = f"{item}:{system}"
    if builder.has(name):  # repeats of one test
        name = f"{name}#{record.row}"
    error = str(record.cells.get("error") or "") if record.cells.get("failureReason", 0) == 2 or text is None else ""
    if text is None and not error:
        raise RowError("response.output is missing.", "Fill it in, or remove the row.", "response")
    test_case = record.cells.get("testCase")
    about = test_case.get("description") if isinstance(test_case, Mapping) else None
    builder.add(
        record,
        [{"item_id": item, "context": raw, "group": about}],
        [{"response_id": name, "item_id": item, "system": system, "text": text}],
        verdicts=_verdicts(record, item, name, error),
    )


def _number(prompts: dict[tuple[str, str], int], raw: str) -> int:
    return prompts.setdefault(("", raw), len(prompts) + 1)


def _verdicts(record: Record, item: str, response: str, error: str) -> list[Row]:
    graded = record.cells.get("gradingResult")
    graded = graded if isinstance(graded, Mapping) else {}
    if not error and "score" not in graded and "score" not in record.cells:
        return []  # graded by nothing
    parts = list(_parts(graded, item, response, f"{WHOLE}: {error[:200]}" if error else ""))
    own = {"pass": record.cells.get("success"), "score": graded.get("score", record.cells.get("score"))}
    own["reason"] = str(graded.get("reason") or "")
    said = str(record.cells.get("error") or "")
    failed = next((p["unread_reason"] for p in parts if str(p["unread_reason"] or "").startswith(_NO_USE)), "")
    failed = failed or _failure(own) or _failure(own | {"reason": said})
    unread = f"{WHOLE}: {error[:200]}" if error else failed
    raw = said if unread == f"{GRADER}{said[:200]}" else str(own["reason"])
    whole = score_verdict(WHOLE, item, response, None if unread else _score(own["score"]), unread, raw)
    return [whole | {"origin": {"pass": own["pass"]}}, *parts]


def _parts(graded: Mapping[str, Any], item: str, response: str, error: str) -> Iterator[Row]:
    """The verdict of each assertion that a model graded."""
    seen: dict[str, int] = {}
    for part in graded.get("componentResults") or []:
        assertion = part.get("assertion") if isinstance(part, Mapping) else None
        kind = assertion.get("type") if isinstance(assertion, Mapping) else None
        bare = str(kind or "").removeprefix("not-")
        if bare not in MODEL_GRADED:
            continue
        seen[str(kind)] = count = seen.get(str(kind), 0) + 1
        judge = f"{WHOLE}/{kind}" + (f" {count}" if count > 1 else "")
        score = _score(part.get("score"))
        unread = error or _failure(part)
        if not unread and score is not None and not 0 <= score <= 1:
            unread = f"{OFF_SCALE}: {score:g}"
        verdict = score_verdict(judge, item, response, None if unread else score, unread, str(part.get("reason") or ""))
        yield verdict | {"origin": {"pass": part.get("pass")}}


def _failure(graded: Mapping[str, Any]) -> str:
    """Why a grade is no verdict but the failure of its grader, which promptfoo writes as a score of 0; else empty."""
    about, reason = graded.get("metadata"), str(graded.get("reason") or "")
    marked = isinstance(about, Mapping) and about.get("graderError") is True
    worded = not graded.get("score") and not graded.get("pass") and _FAILED.match(reason)
    return f"{GRADER}{reason[:200]}" if marked or worded else ""


def _score(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None if value is None else float(value)
    if isinstance(value, (int, float)):
        return float(value)
    raise RowError(f"score {shown(value, 40)} is no number.", "Export the results again.", "score")


def write_promptfoo(found: Imported) -> bytes:
    """One result object with an output for each response; the scores of one other judge are those of all assertions.

    Raises:
        InputError: there are scores of several other judges.
    """
    need(found, "texts", "promptfoo")
    scores = found.verdicts[found.verdicts["protocol"] == Protocol.POINTWISE.value]
    judges = [str(j) for j in scores["judge"].unique()]
    others = [j for j in judges if j != WHOLE and not _PART.fullmatch(j)]
    if len(others) > 1 or (others and len(judges) > 1):
        raise InputError(
            f"{found.name!r} holds scores of {len(judges)} judges, and promptfoo has one score for an output. Keep the "
            f"rows of one judge, such as {judges[0]}."
        )
    by_response: dict[str, list[Row]] = {}
    for row in rows_of(scores):
        by_response.setdefault(str(row["response_id"]), []).append(row)
    results = list(_written(found, by_response, {*others, WHOLE}))
    errors, passed = (sum(bool(r[k]) for r in results) for k in ("error", "success"))
    stats = {"successes": passed, "failures": len(results) - passed - errors, "errors": errors}
    document = {"evalId": None, "results": {"version": 3, "prompts": [], "results": results, "stats": stats},
                "config": {}, "shareableUrl": None}  # fmt: skip
    return dumps(document, indent=1).encode("utf-8")


def _written(found: Imported, by_response: Mapping[str, list[Row]], whole: set[str]) -> Iterator[Row]:
    look = Lookup(found)
    places = _places([str(i) for i in found.items["item_id"]])
    for row in rows_of(found.responses):
        name, item = str(row["response_id"]), str(row["item_id"])
        own = by_response.get(name, [])
        main = next((v for v in own if v["judge"] in whole), None)
        reason = str((main or {}).get("unread_reason") or "")
        error = reason.removeprefix(f"{WHOLE}: ") if reason.startswith(f"{WHOLE}: ") else None
        if row["text"] is None and not error:
            continue
        graded = None if main is None else {
            **_graded(main, look),
            "componentResults": [
                _graded(v, look) | {"assertion": {"type": kind[1]}}
                for v in own
                if (kind := _PART.fullmatch(str(v["judge"])))
            ],
        }  # fmt: skip
        yield {
            **places.get(item, {}),
            "testCase": {"description": look.of_item(item, "group") or None, "vars": {}},
            "provider": {"id": look.system(name), "label": ""},
            "prompt": {"raw": look.of_item(item, "context"), "label": ""},
            "vars": {},
            "response": {} if row["text"] is None else {"output": row["text"]},
            "error": error,
            "failureReason": 2 if error else 0 if graded is None or graded["pass"] else 1,
            "success": not error and (graded is None or graded["pass"]),
            **({} if graded is None else {"score": graded["score"]}),
            "gradingResult": graded,
        }


def _graded(verdict: Row, look: Lookup) -> Row:
    score = verdict["score"]
    passed = look.more(str(verdict["verdict_id"])).get("pass")
    if not isinstance(passed, bool):
        passed = score is not None and score > 0
    failed = str(verdict["unread_reason"] or "").startswith(GRADER)
    marked = {"metadata": {"graderError": True}} if failed else {}
    return {"pass": passed, "score": score, "reason": verdict["raw_text"] or "", **marked}


def _places(items: list[str]) -> dict[str, Row]:
    """Test and prompt of each item by its id, or its number; none where prompts were numbered as they came."""
    tests = [_TEST.fullmatch(item) for item in items]
    if all(tests):
        return {t[0]: {"testIdx": int(t[1]), "promptIdx": int(t[2])} for t in tests if t}
    if items == [f"p{i}" for i in range(1, len(items) + 1)]:
        return {}
    return {item: {"testIdx": i, "promptIdx": 0} for i, item in enumerate(items)}


PROMPTFOO: Format = Format(
    "promptfoo",
    "promptfoo results",
    "Outputs of providers for prompts, with the scores of their assertions.",
    (("results",),),
    read_promptfoo,
    Task.INSTRUCTION.value,
    write=write_promptfoo,
    against=_against,
    ending=".json",
    shape="document",
    telling=("evalId", "results", "config", "shareableUrl"),
)
