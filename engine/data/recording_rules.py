"""Layouts of a file of recorded verdicts: its columns, their other names, and the spelling of labels.

Everything here is shown to the user as it is: a spelling that is not in the rule is never taken for a verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from engine.core.errors import InputError
from engine.core.schema import Outcome, Protocol
from engine.data.mapping import parse_number

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
    for field, column in columns.items():
        if field not in _FIELDS:
            raise InputError(f"map.{field}: there is no such field. Fields: {', '.join(sorted(_FIELDS))}.")
        absent = [c for c in column_parts(column, names) if c not in names]
        if absent:
            raise InputError(f"map.{field}={column}: the file has no column {absent[0]!r}. It has: {', '.join(names)}.")
    fields = dict(columns)
    taken = {c for column in columns.values() for c in column_parts(column, names)}
    for name in names:
        if name in _FIELDS and name not in fields and name not in taken:
            fields[name] = name
    for name in names:
        field = ALIASES.get(name, "")
        if field and field not in fields and name not in taken:
            fields[field] = name
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
