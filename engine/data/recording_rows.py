"""Records of a verdict file -> judge calls: what was judged, what was answered, and why some are unread.

A row that does not say what was judged is left out, with a reason. A row that says it and holds no usable
verdict becomes an unread verdict, with a reason, so that it is counted beside the mean of its arm.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.core.errors import InputError
from engine.core.schema import NONE, Order, Outcome, Protocol
from engine.data.mapping import parse_number
from engine.data.raw import Problem, place
from engine.data.recording_rules import Layout, normalised, probability, read_as

NO_VERDICT = "no verdict recorded"
WHOLE_FILE = "the file"
"""Where a problem is that no row has alone."""
YES_FROM = 0.5
"""p_yes from which a verifier's verdict is yes."""
_ROWS_LISTED = 200
"""Most problems listed by row; the counts by reason are complete."""

_ORDERS = {order.value: order for order in Order}
_IDS = ("response_id", "response_a", "first")
"""Fields that name responses; without them their names are made of item and system, or of the pair."""
Cells = Mapping[str, str]
Rule = Mapping[str, Outcome]


class _LeftOutError(Exception):
    """The record does not say what was judged; its text is the reason."""


@dataclass(slots=True)
class Answer:
    """Answer of the judge, in the pair's own names; missing numbers are None, so that answers compare."""

    score: float | None = None
    p_a: float | None = None
    p_tie: float | None = None
    p_yes: float | None = None
    outcome: Outcome | None = None
    unread_reason: str = ""


@dataclass(slots=True)
class RecordedRow:
    """One judge call of the file.

    Attributes:
        row: 1-based record number.
        judge: as the file names it; empty where it does not.
        scope: the item that the ids count within, as the file names it; empty where it names none.
        system, system_b: what wrote the responses; empty where the file does not say.
        response_b: empty unless a pair.
        order: None unless a pair.
    """

    row: int
    judge: str
    protocol: Protocol
    attack: str
    defense: str
    scope: str
    system: str
    system_b: str
    item_id: str
    response_id: str
    response_b: str
    order: Order | None
    answer: Answer
    raw_text: str

    @property
    def unread_reason(self) -> str:
        """Why there is no usable verdict; empty where there is one."""
        return self.answer.unread_reason

    @property
    def call(self) -> tuple[str, ...]:
        """Key of this call, equal for equal calls: judge, arm, item, and the responses as they were shown."""
        shown = (self.response_id, self.response_b)
        ids = shown[::-1] if self.order is Order.BA else shown
        return (self.judge, self.attack, self.defense, self.scope, *ids)

    def as_verdict(self, unnamed: str) -> dict[str, object]:
        """A row of the `verdicts` table; `unnamed` stands in for a missing judge."""
        a = self.answer
        return {
            "verdict_id": f"row-{self.row}" + (f"-{self.order}" if self.order else ""),
            "judge": self.judge or unnamed,
            "protocol": self.protocol.value,
            "attack": self.attack,
            "defense": self.defense,
            "item_id": self.item_id,
            "response_id": self.response_id,
            "response_b": self.response_b or None,
            "order": self.order.value if self.order else None,
            "score": a.score,
            "p_a": a.p_a,
            "p_tie": a.p_tie,
            "p_yes": a.p_yes,
            "outcome": a.outcome.value if a.outcome else None,
            "unread_reason": a.unread_reason or None,
            "raw_text": self.raw_text or None,
        }


@dataclass
class RecordedRows:
    """Everything read from the records, and what was not."""

    rows: list[RecordedRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    spellings: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read_rows(
    cells: Mapping[str, Sequence[str]],
    places: Sequence[tuple[int, int]],
    chosen: Sequence[int],
    faulty: Collection[int | None],
    layout: Layout,
    rule: Rule,
) -> RecordedRows:
    """Read the chosen records.

    Args:
        cells: field -> its cells over all records, stripped, blank where missing.
        places: number and line of each record in the file; a record of a known format may stand for several here.
        chosen: 0-based numbers of the records to read.
        faulty: 1-based numbers of records the reader could not read.
        layout: how a record says what was judged and answered.
        rule: normalised label -> verdict.
    """
    out = RecordedRows()
    if "item_id" not in cells and "comparison_id" not in cells:
        what = f"No column item_id: each {'pair' if 'pair' in layout.name else 'response'} counts as its own item."
        fix = "Add the item where several answer one prompt, or the intervals will be too narrow."
        out.problems.append(Problem("warning", WHOLE_FILE, what, fix))
    reader = _READERS[layout.name]
    calls = 2 if layout.name == "pairwise-both" else 1
    for index in chosen:
        row = index + 1
        record = {name: column[index] for name, column in cells.items()}
        try:
            if row in faulty:
                raise _LeftOutError("record cannot be read")
            out.rows += reader(row, record, layout, rule)
        except _LeftOutError as reason:
            out.left_out[str(reason)] += calls
            if len(out.problems) < _ROWS_LISTED:
                where, what = place(*places[index]), f"Left out: {reason}."
                out.problems.append(Problem("excluded", where, what, "Fill it in.", places[index][0]))
            continue
        for label in _labels(record):
            if label not in out.spellings:
                out.spellings[label] = read_as(label, layout, rule)
    out.rows = _named_alike(_named_apart(out) if any(name in cells for name in _IDS) else out.rows)
    return out


def _labels(record: Cells) -> list[str]:
    names = ("outcome", "outcome_ab", "outcome_ba", "slot_verdict", "verdict")
    return [record[n] for n in names if record.get(n)]


def _pointwise(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:  # noqa: ARG001
    text = record["score"]
    score = parse_number(text)
    if reason := record.get("unread_reason"):
        answer = Answer(unread_reason=reason)
    elif not text:
        answer = Answer(unread_reason=NO_VERDICT)
    elif score is None:
        answer = Answer(unread_reason=f"score {text[:40]!r} is no number")
    else:
        answer = Answer(score=score)
    return [_row(row, record, layout, *_response(record), answer=answer, raw=text if score is None else "")]


def _verifier(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:
    label, number = record.get("verdict", ""), record.get("p_yes", "")
    p = probability(number)
    outcome = rule.get(normalised(label)) if label else None
    if reason := record.get("unread_reason"):
        answer = Answer(unread_reason=reason)
    elif not label and not number:
        answer = Answer(unread_reason=NO_VERDICT)
    elif label and outcome is None:
        answer = Answer(unread_reason=_unknown(label))
    elif number and math.isnan(p):
        answer = Answer(unread_reason=f"p_yes {number[:40]!r} is not in 0 to 1")
    elif outcome and number and (p >= YES_FROM) != (outcome is Outcome.YES):
        answer = Answer(unread_reason="verdict and p_yes disagree")
    else:
        yes = p if number else float(outcome is Outcome.YES)
        answer = Answer(p_yes=yes, outcome=outcome or (Outcome.YES if p >= YES_FROM else Outcome.NO))
    return [_row(row, record, layout, *_response(record), answer=answer, raw=label)]


def _pair(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:
    order = record["order"].casefold()
    if order not in _ORDERS:
        raise _LeftOutError("no order" if not order else f"order {order[:20]!r} is neither ab nor ba")
    answer = _pair_answer(record.get("outcome", ""), record, rule)
    ids = _pair_ids(record)
    return [_row(row, record, layout, *ids, order=_ORDERS[order], answer=answer, raw=record.get("outcome", ""))]


def _unordered(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:
    answer = _pair_answer(record.get("outcome", ""), record, rule)
    return [_row(row, record, layout, *_pair_ids(record), answer=answer, raw=record.get("outcome", ""))]


def _both(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:
    ids = _pair_ids(record)
    plain = {k: v for k, v in record.items() if k not in ("p_a", "p_tie")}  # one number cannot be of both orders
    return [
        _row(row, record, layout, *ids, order=order, answer=_pair_answer(label, plain, rule), raw=label)
        for order, label in ((Order.AB, record["outcome_ab"]), (Order.BA, record["outcome_ba"]))
    ]


def _slots(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:
    item = record.get("item_id", "")
    if record.get("first") and record.get("second"):
        first, second = record["first"], record["second"]
    elif item and record.get("system_first") and record.get("system_second"):
        first, second = f"{item}:{record['system_first']}", f"{item}:{record['system_second']}"
    else:
        raise _LeftOutError("does not say which responses were compared")
    shown = [(first, record.get("system_first", "")), (second, record.get("system_second", ""))]
    _check_differ(*shown)
    (a, system_a), (b, system_b) = sorted(shown)
    order = Order.AB if shown[0] == (a, system_a) else Order.BA
    label = record["slot_verdict"]
    record = {**record, "system_a": system_a, "system_b": system_b}
    answer = _pair_answer(label, {k: v for k, v in record.items() if k not in ("p_a", "p_tie")}, rule)
    if order is Order.BA:
        answer = _exchanged(answer)
    return [_row(row, record, layout, item or _pair_name(a, b), a, b, order=order, answer=answer, raw=label)]


_READERS: dict[str, Callable[[int, Cells, Layout, Rule], list[RecordedRow]]] = {
    "pointwise": _pointwise,
    "verifier": _verifier,
    "pairwise": _pair,
    "pairwise-unordered": _unordered,
    "pairwise-slots": _slots,
    "pairwise-both": _both,
}


def _response(record: Cells) -> tuple[str, str]:
    """Item and response; a response without an id is `item:system`, one without an item is its own."""
    item, response = record.get("item_id", ""), record.get("response_id", "")
    if not response and item and record.get("system"):
        response = f"{item}:{record['system']}"
    if not response:
        raise _LeftOutError("does not say which response was judged")
    if "item_id" in record and not item:
        raise _LeftOutError("no item_id")
    return item or response, response


def _pair_ids(record: Cells) -> tuple[str, str, str]:
    item, pair = record.get("item_id", ""), record.get("comparison_id", "")
    a, b = record.get("response_a", ""), record.get("response_b", "")
    if not (a and b) and item and record.get("system_a") and record.get("system_b"):
        a, b = f"{item}:{record['system_a']}", f"{item}:{record['system_b']}"
    if not (a and b) and pair:
        a, b = f"{pair}:a", f"{pair}:b"
    if not (a and b):
        raise _LeftOutError("does not say which responses were compared")
    _check_differ((a, record.get("system_a", "")), (b, record.get("system_b", "")))
    if "item_id" in record and not item:
        raise _LeftOutError("no item_id")
    return item or pair or _pair_name(a, b), a, b


def _pair_name(a: str, b: str) -> str:
    """The item of a pair that names none; two pairs never share one."""
    return "|".join(re.sub(r"([\\|])", r"\\\1", name) for name in sorted((a, b)))


def _check_differ(first: tuple[str, str], second: tuple[str, str]) -> None:
    """Two responses are told apart by their ids, and by their systems where both are named."""
    if first[0] == second[0] and (first[1] == second[1] or not (first[1] and second[1])):
        raise _LeftOutError("compares a response with itself")


def _pair_answer(label: str, record: Cells, rule: Rule) -> Answer:
    number, tie_number = record.get("p_a", ""), record.get("p_tie", "")
    p, p_tie = probability(number), probability(tie_number) if tie_number else 0.0
    outcome = rule.get(normalised(label)) if label else None
    if reason := record.get("unread_reason"):
        return Answer(unread_reason=reason)
    if not label and not number:
        return Answer(unread_reason=NO_VERDICT)
    if label and outcome is None:
        return Answer(unread_reason=_unknown(label))
    if not number:
        return Answer(p_a=float(outcome is Outcome.A), p_tie=float(outcome is Outcome.TIE), outcome=outcome)
    if math.isnan(p + p_tie) or p + p_tie > 1 + 1e-9:
        return Answer(unread_reason="p_a and p_tie are not probabilities")
    likely = _largest(p, max(0.0, 1 - p - p_tie), p_tie)
    if outcome and outcome is not likely:
        return Answer(unread_reason="outcome and p_a disagree")
    return Answer(p_a=p, p_tie=p_tie, outcome=likely)


def _largest(p_a: float, p_b: float, p_tie: float) -> Outcome:
    if math.isclose(p_a, p_b, abs_tol=1e-9) or p_tie >= max(p_a, p_b):
        return Outcome.TIE
    return Outcome.A if p_a > p_b else Outcome.B


def _named_apart(read: RecordedRows) -> list[RecordedRow]:
    """The rows, response ids that several systems share within an item made `ID:SYSTEM`."""
    systems: dict[tuple[str, str], set[str]] = {}
    for row in read.rows:
        for response, system in ((row.response_id, row.system), (row.response_b, row.system_b)):
            if system:
                systems.setdefault((row.scope, response), set()).add(system)
    shared = {key for key, names in systems.items() if len(names) > 1}
    if not shared:
        return read.rows
    example = min(shared)[1]
    what = f"{len(shared):,} response ids, for example {example[:40]!r}, stand for several systems of one item."
    fix = "Each is named ID:SYSTEM. Give the responses ids of their own to name them yourself."
    read.problems.append(Problem("warning", WHOLE_FILE, what, fix))
    given = {(row.scope, name): name for row in read.rows for name in (row.response_id, row.response_b)}

    def named(row: RecordedRow, response: str, system: str) -> str:
        if (row.scope, response) not in shared or not system:
            return response
        made = f"{response}:{system}"
        if given.setdefault((row.scope, made), response) != response:
            raise InputError(
                f"Row {row.row}: the response {response[:40]!r} of {system[:40]!r} would be called {made[:80]!r}, and "
                "another response of its item is. Give the responses ids that differ."
            )
        return made

    return [
        replace(
            row,
            response_id=named(row, row.response_id, row.system),
            response_b=named(row, row.response_b, row.system_b),
        )
        for row in read.rows
    ]


def _named_alike(rows: list[RecordedRow]) -> list[RecordedRow]:
    """Pairs (x, y) and (y, x) under the names of whichever came first, so that their two orders meet."""
    names: dict[tuple[str, str, str], tuple[str, str]] = {}
    out = []
    for row in rows:
        pair = (row.response_id, row.response_b)
        if row.order and names.setdefault((row.scope, min(pair), max(pair)), pair) != pair:
            order = Order.BA if row.order is Order.AB else Order.AB
            a, b = pair[::-1]
            row = replace(row, response_id=a, response_b=b, order=order, answer=_exchanged(row.answer))
        out.append(row)
    return out


def _exchanged(answer: Answer) -> Answer:
    """The answer with a and b changing places."""
    if answer.unread_reason or answer.p_a is None or answer.p_tie is None:
        return answer
    swapped = {Outcome.A: Outcome.B, Outcome.B: Outcome.A}
    outcome = swapped.get(answer.outcome, answer.outcome) if answer.outcome else None
    return Answer(p_a=round(1 - answer.p_a - answer.p_tie, 12), p_tie=answer.p_tie, outcome=outcome)


def _unknown(label: str) -> str:
    return f"label {label[:40]!r} is not in the rule"


def _row(
    row: int,
    record: Cells,
    layout: Layout,
    item_id: str,
    response_id: str,
    response_b: str = "",
    *,
    answer: Answer,
    order: Order | None = None,
    raw: str = "",
) -> RecordedRow:
    return RecordedRow(
        row=row,
        judge=record.get("judge", ""),
        protocol=layout.protocol,
        attack=record.get("attack") or NONE,
        defense=record.get("defense") or NONE,
        scope=record.get("item_id", ""),
        system=record.get("system") or record.get("system_a") or "",
        system_b=record.get("system_b", ""),
        item_id=item_id,
        response_id=response_id,
        response_b=response_b,
        order=order,
        answer=answer,
        raw_text=record.get("raw_text") or raw,
    )
