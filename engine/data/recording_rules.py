"""A file of recorded verdicts: layouts, other names of columns, spellings of labels, and records as judge calls.

Everything here is shown to the user as it is: a spelling that is not in the rule is never taken for a verdict.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from engine.core.errors import InputError, shown
from engine.core.schema import NONE, Order, Outcome, Protocol
from engine.data.mapping import parse_number
from engine.data.raw import Problem, place

Alternatives = tuple[tuple[str, ...], ...]
"""Sets of columns of which one must be there as a whole."""


@dataclass(frozen=True)
class Layout:
    """One column set.

    Attributes:
        name: what `layout=` calls it.
        protocol: of the verdicts it holds.
        about: one sentence for the user.
        ids: how a row says what was judged; the first set that the file has is used.
        verdict: how it says what the judge answered.
        more: further columns that must be there.
        without: columns that must not be there.
    """

    name: str
    protocol: Protocol
    about: str
    ids: Alternatives
    verdict: Alternatives
    more: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def missing(self, fields: Mapping[str, str]) -> str:
        """Columns that the file lacks for this layout, in words; empty where there is none."""
        if there := [name for name in self.without if name in fields]:
            return f"nothing, but has {', '.join(there)}"
        lacks = [m for m in self.more if m not in fields]
        for sets in (self.ids, self.verdict):
            if not any(all(f in fields for f in s) for s in sets):
                lacks.append(" or ".join("+".join(s) for s in sets))
        return ", ".join(lacks)


_RESPONSE: Alternatives = (("response_id",), ("item_id", "system"))
_PAIR: Alternatives = (("response_a", "response_b"), ("item_id", "system_a", "system_b"), ("comparison_id",))
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("pointwise", Protocol.POINTWISE, "A score for each response.", _RESPONSE, (("score",),)),
        Layout("verifier", Protocol.VERIFIER, "Yes or no for each response.", _RESPONSE, (("verdict",), ("p_yes",))),
        Layout(
            "pairwise",
            Protocol.PAIRWISE,
            "One row a call; the verdict names the pair's own a and b, whatever the order shown.",
            _PAIR,
            (("outcome",), ("p_a",)),
            ("order",),
        ),
        Layout(
            "pairwise-unordered",
            Protocol.PAIRWISE,
            "One row a pair; which response was shown first is not recorded, so nothing about order can be measured.",
            _PAIR,
            (("outcome",), ("p_a",)),
            without=("order", "outcome_ab", "slot_verdict"),
        ),
        Layout(
            "pairwise-slots",
            Protocol.PAIRWISE,
            "One row a call; the verdict names the slot: A was shown first. The pair's a is the id that sorts first.",
            (("first", "second"), ("item_id", "system_first", "system_second")),
            (("slot_verdict",),),
        ),
        Layout(
            "pairwise-both",
            Protocol.PAIRWISE,
            "One row a pair with both orders; the verdicts name the pair's own a and b.",
            _PAIR,
            (("outcome_ab", "outcome_ba"),),
        ),
    )
}
"""The column sets, by name. Each may also have the columns of `OPTIONAL`."""

OPTIONAL = ("judge", "item_id", "attack", "defense", "unread_reason", "raw_text", "p_tie", "pass")
"""Columns that any layout may have; attack and defense are `none` where absent or blank, pass stands beside a score."""

ALIASES: dict[str, str] = {
    "question_id": "item_id",
    "prompt_id": "item_id",
    "judge_model": "judge",
    "model": "system",
    "pair_id": "comparison_id",
    "response_a_id": "response_a",
    "response_b_id": "response_b",
    "model_a": "system_a",
    "model_b": "system_b",
    "response_first": "first",
    "response_second": "second",
    "model_shown_first": "system_first",
    "model_shown_second": "system_second",
    "winner": "outcome",
    "winner_order_ab": "outcome_ab",
    "winner_order_ba": "outcome_ba",
}
"""Other column names that are understood; a field's own name wins."""

_FIELDS = frozenset(
    f for layout in LAYOUTS.values() for s in (*layout.ids, *layout.verdict, layout.more) for f in s
) | frozenset(OPTIONAL)

A_SPELLINGS = ("a", "response_a", "model_a", "assistant_a")
B_SPELLINGS = ("b", "response_b", "model_b", "assistant_b")
TIE_SPELLINGS = ("tie", "c", "draw", "equal", "tie_(bothbad)")
YES_SPELLINGS = ("yes", "y", "true", "correct", "1")
NO_SPELLINGS = ("no", "n", "false", "incorrect", "0")

PAIR_RULE: dict[str, Outcome] = {
    **dict.fromkeys(A_SPELLINGS, Outcome.A),
    **dict.fromkeys(B_SPELLINGS, Outcome.B),
    **dict.fromkeys(TIE_SPELLINGS, Outcome.TIE),
}
"""Spelling -> verdict in the pair's own names. In the layout `pairwise-slots` a stands for the first slot."""
SLOT_RULE: dict[str, Outcome] = {**PAIR_RULE, "first": Outcome.A, "second": Outcome.B}
VERIFIER_RULE: dict[str, Outcome] = {
    **dict.fromkeys(YES_SPELLINGS, Outcome.YES),
    **dict.fromkeys(NO_SPELLINGS, Outcome.NO),
}


def rule_of(layout: Layout, extra: Mapping[str, str]) -> dict[str, Outcome]:
    """Spelling -> verdict for a layout, with the user's own spellings added.

    Args:
        layout: whose verdicts are spelled.
        extra: the user's spelling -> a, b, tie, yes or no (first and second in `pairwise-slots`).

    Raises:
        InputError: a target the layout does not know, or a spelling the rule reads otherwise.
    """
    rule = dict(
        VERIFIER_RULE
        if layout.protocol is Protocol.VERIFIER
        else SLOT_RULE
        if layout.name == "pairwise-slots"
        else PAIR_RULE
    )
    for spelling, target in extra.items():
        if normalised(target) not in rule:
            raise InputError(f"label.{spelling}={target}: {layout.name} verdicts are {', '.join(rule)}.")
        if rule.get(normalised(spelling), rule[normalised(target)]) != rule[normalised(target)]:
            raise InputError(f"label.{spelling}={target} contradicts the rule, which reads {spelling!r} otherwise.")
        rule[normalised(spelling)] = rule[normalised(target)]
    return rule


def read_as(label: str, layout: Layout, rule: Mapping[str, Outcome]) -> str:
    """Meaning of a label of the file, in words; empty where the rule does not know it."""
    outcome = rule.get(normalised(label))
    if layout.name == "pairwise-slots":
        return {Outcome.A: "first slot", Outcome.B: "second slot"}.get(outcome, str(outcome or "")) if outcome else ""
    return str(outcome or "")


@lru_cache(maxsize=4096)
def normalised(label: str) -> str:
    """Case, outer spaces and the brackets of [[A]] do not matter; an inner space is an underscore."""
    return re.sub(r"\s+", "_", label.strip().removeprefix("[[").removesuffix("]]").strip()).casefold()


def name_fields(names: list[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Field -> column of the file (or several joined by `+`): what the user says, then own names, then aliases.

    Raises:
        InputError: an unknown field, or a column the file does not have.
    """
    for known, column in columns.items():
        if known not in _FIELDS:
            raise InputError(f"map.{known}: there is no such field. Fields: {', '.join(sorted(_FIELDS))}.")
        absent = [c for c in column_parts(column, names) if c not in names]
        if absent:
            raise InputError(f"map.{known}={column}: the file has no column {absent[0]!r}. It has: {', '.join(names)}.")
    fields = dict(columns)
    taken = {c for column in columns.values() for c in column_parts(column, names)}
    for name in names:
        if name in _FIELDS and name not in fields and name not in taken:
            fields[name] = name
    for name in names:
        known = ALIASES.get(name, "")
        if known and known not in fields and name not in taken:
            fields[known] = name
    # MT-bench calls the verdict on two slots just "verdict"; a verifier's has no slots beside it.
    if "verdict" in fields and ({"first", "second"} <= fields.keys() or "system_first" in fields):
        fields.setdefault("slot_verdict", fields.pop("verdict"))
    return fields


def column_parts(column: str, names: list[str]) -> list[str]:
    """The columns that `a+b` joins; a column that is really called so is one column."""
    return [column] if column in names else column.split("+")


def choose_layout(fields: Mapping[str, str], wanted: str = "") -> Layout:
    """The layout a file has.

    Raises:
        InputError: none fits (each is listed with what it lacks), several do, or the one wanted does not.
    """
    if wanted and wanted not in LAYOUTS:
        raise InputError(f"layout={wanted}: there is no such layout. Layouts: {', '.join(LAYOUTS)}.")
    able = [lay for lay in LAYOUTS.values() if (not wanted or lay.name == wanted) and not lay.missing(fields)]
    if len(able) == 1:
        return able[0]
    if able:
        raise InputError(
            f"The file fits {' and '.join(lay.name for lay in able)}. Say which is meant with layout=NAME."
        )
    listed = "\n".join(
        f"- {lay.name}: lacks {lay.missing(fields)}" for lay in LAYOUTS.values() if not wanted or lay.name == wanted
    )
    raise InputError(
        f"The file is no recording of verdicts as it stands (columns understood: {', '.join(fields) or 'none'}).\n"
        f"{listed}\nRename the file's columns; a judge's spec can also say which holds what: map.FIELD=COLUMN."
    )


def probability(text: str) -> float:
    """A number in [0, 1], else NaN."""
    number = parse_number(text)
    return number if number is not None and 0 <= number <= 1 else math.nan


# Records -> judge calls. One that does not say what was judged is left out, with a reason. One that says it and holds
# no usable verdict is an unread verdict, with a reason, so that it is counted beside the mean of its arm.

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
        answer = Answer(unread_reason=f"score {shown(text, 40)} is no number")
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
        answer = Answer(unread_reason=f"p_yes {shown(number, 40)} is not in 0 to 1")
    elif outcome and number and (p >= YES_FROM) != (outcome is Outcome.YES):
        answer = Answer(unread_reason="verdict and p_yes disagree")
    else:
        yes = p if number else float(outcome is Outcome.YES)
        answer = Answer(p_yes=yes, outcome=outcome or (Outcome.YES if p >= YES_FROM else Outcome.NO))
    return [_row(row, record, layout, *_response(record), answer=answer, raw=label)]


def _pair(row: int, record: Cells, layout: Layout, rule: Rule) -> list[RecordedRow]:
    order = record["order"].casefold()
    if order not in _ORDERS:
        raise _LeftOutError("no order" if not order else f"order {shown(order, 20)} is neither ab nor ba")
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
    what = f"{len(shared):,} response ids, for example {shown(example, 40)}, stand for several systems of one item."
    fix = "Each is named ID:SYSTEM. Give the responses ids of their own to name them yourself."
    read.problems.append(Problem("warning", WHOLE_FILE, what, fix))
    given = {(row.scope, name): name for row in read.rows for name in (row.response_id, row.response_b)}

    def named(row: RecordedRow, response: str, system: str) -> str:
        if (row.scope, response) not in shared or not system:
            return response
        made = f"{response}:{system}"
        if given.setdefault((row.scope, made), response) != response:
            raise InputError(
                f"Row {row.row}: the response {shown(response, 40)} of {shown(system, 40)} would be called "
                f"{shown(made, 80)}, and another response of its item is. Give the responses ids that differ."
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
    return f"label {shown(label, 40)} is not in the rule"


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
