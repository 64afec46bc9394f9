"""The tables that stages hand to one another: column names, dtypes, units, allowed values, validation.

Every table is a pandas DataFrame. `Table.conform` puts columns in order, fills absent optional ones with the
missing value of their kind and refuses what would silently become wrong numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.core.errors import InputError

Kind = Literal["str", "float", "int", "list"]


class Task(StrEnum):
    """Task of an item for the system whose response is judged."""

    SUMMARY = "summary"
    DIALOGUE = "dialogue"
    QUESTION = "question"
    VERIFICATION = "verification"
    INSTRUCTION = "instruction"


class Protocol(StrEnum):
    """Form of the question to the judge."""

    POINTWISE = "pointwise"
    PAIRWISE = "pairwise"
    VERIFIER = "verifier"
    RANKING = "ranking"


class Order(StrEnum):
    """The response of a pair that stands first in the prompt."""

    AB = "ab"
    BA = "ba"


class Outcome(StrEnum):
    """A verdict on a pair, in the pair's own names (not slot positions), or of a verifier."""

    A = "a"
    B = "b"
    TIE = "tie"
    YES = "yes"
    NO = "no"


NONE = "none"
"""Name of the arm without attack or without defense."""


@dataclass(frozen=True)
class Column:
    """One column: its name, kind, what it holds (with unit), whether it must be there, allowed values."""

    name: str
    kind: Kind
    about: str
    required: bool = True
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A named set of columns, and the column whose values identify a row."""

    name: str
    columns: tuple[Column, ...]
    key: str = ""

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [c.name for c in self.columns]

    def only(self, names: Collection[str]) -> Table:
        """The table cut to these columns, in its own order; its key only where that is among them."""
        return Table(
            self.name, tuple(c for c in self.columns if c.name in names), self.key if self.key in names else ""
        )

    def empty(self) -> pd.DataFrame:
        """A table with no rows and the right dtypes."""
        return self.conform(pd.DataFrame({c.name: [] for c in self.columns}))

    def conform(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the same rows with this table's columns in order and dtypes set.

        Raises:
            InputError: a required column is absent, a value is outside the allowed ones, a number cannot be
                read, or the key repeats; the message names column, row and value.
        """
        missing = [c.name for c in self.columns if c.required and c.name not in frame.columns]
        if missing:
            found = ", ".join(map(str, frame.columns))
            raise InputError(f"The {self.name} table has no column {', '.join(missing)}. It has: {found}.")
        plain = frame.reset_index(drop=True)
        out = pd.DataFrame({c.name: _coerce(plain, c, self.name) for c in self.columns}, index=plain.index)
        if self.key and out[self.key].duplicated().any():
            repeated = out.loc[out[self.key].duplicated(), self.key].iloc[0]
            raise InputError(f"{self.key} {repeated!r} stands twice in the {self.name} table; ids must differ.")
        return out


_DTYPES: dict[Kind, Any] = {"list": object, "str": "str", "float": "float64", "int": "Int64"}


def _coerce(frame: pd.DataFrame, column: Column, table: str) -> pd.Series:
    if column.name not in frame.columns:
        return pd.Series([None] * len(frame), dtype=_DTYPES[column.kind])
    values = frame[column.name]
    if column.kind == "list":
        return pd.Series([_as_list(v) for v in values], dtype=object)
    if column.kind == "str":
        done = values.dtype == "str"  # most tables have been through here before
        text = values if done else values.astype("str").where(values.notna(), np.nan).astype("str")
        return _check_allowed(text, column, table)
    try:
        numbers = pd.to_numeric(values, errors="raise")
    except (ValueError, TypeError):
        bad = next(i for i, v in enumerate(values) if v is not None and not _is_number(v))
        raise InputError(
            f"Row {bad + 1} of the {table} table has {values.iloc[bad]!r} in {column.name}; a number is expected."
        ) from None
    return numbers.astype(_DTYPES[column.kind])


def _as_list(value: object) -> list[float] | None:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if type(value) is list and all(type(v) is float for v in value):
        return value
    if isinstance(value, (list, tuple, np.ndarray)):
        return [float(v) for v in value]
    raise InputError(f"{value!r} is not a list of numbers.")


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _check_allowed(text: pd.Series, column: Column, table: str) -> pd.Series:
    if column.required and text.isna().any():
        row = int(np.flatnonzero(text.isna())[0]) + 1
        raise InputError(f"Row {row} of the {table} table has no {column.name}.")
    if column.allowed:
        bad = text.notna() & ~text.isin(column.allowed)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"Row {row + 1} of the {table} table has {column.name} {text.iloc[row]!r}; "
                f"allowed: {', '.join(column.allowed)}."
            )
    return text


def _values(enum: type[StrEnum]) -> tuple[str, ...]:
    return tuple(e.value for e in enum)


ITEMS = Table(
    "items",
    (
        Column("item_id", "str", "identifies the item"),
        Column("task", "str", "what the item asks for", allowed=_values(Task)),
        Column("context", "str", "source text, dialogue so far, question or instruction", required=False),
        Column("reference", "str", "reference answer, where there is one", required=False),
        Column("group", "str", "question type or topic", required=False),
        Column(
            "rules", "str", "format rules that a program checks, as a JSON list of {rule, arguments}", required=False
        ),
    ),
    key="item_id",
)

RESPONSES = Table(
    "responses",
    (
        Column("response_id", "str", "identifies the response"),
        Column("item_id", "str", "the item it answers"),
        Column("system", "str", "what generated it", required=False),
        Column("text", "str", "the response, verbatim", required=False),
        Column("human_score", "float", "human rating, on the scale the manifest names", required=False),
        Column("quality", "str", "constructed quality level, where it is true by construction", required=False),
    ),
    key="response_id",
)

COMPARISONS = Table(
    "comparisons",
    (
        Column("comparison_id", "str", "identifies the comparison"),
        Column("item_id", "str", "the item both answer"),
        Column("response_a", "str", "response id"),
        Column("response_b", "str", "response id"),
        Column("human", "str", "human preference", required=False, allowed=("a", "b", "tie")),
        Column(
            "verdict", "str", "a judge's verdict that came along, a first", required=False, allowed=("a", "b", "tie")
        ),
        Column("verdict_ba", "str", "the same with b first", required=False, allowed=("a", "b", "tie")),
    ),
    key="comparison_id",
)

VERDICTS = Table(
    "verdicts",
    (
        Column("verdict_id", "str", "identifies the judge call"),
        Column("judge", "str", "the judge's spec"),
        Column("protocol", "str", "how it was asked", allowed=_values(Protocol)),
        Column("attack", "str", "attack on the response, or none"),
        Column("defense", "str", "defense of the judge, or none"),
        Column("item_id", "str", "the item judged"),
        Column("response_id", "str", "the response judged (the first of a pair)"),
        Column("response_b", "str", "second response of a pair", required=False),
        Column("order", "str", "order shown", required=False, allowed=_values(Order)),
        Column("variant", "str", "variant of the prompt, where the card has a name for it", required=False),
        Column(
            "reference_id",
            "str",
            "reference it was checked against, where not the item's own (RefSwap)",
            required=False,
        ),
        Column("candidates", "str", "response ids of a ranking as shown, as a JSON list", required=False),
        Column("score", "float", "expected score, on the card's scale (NaN: unread)", required=False),
        Column("p_a", "float", "probability that response a is preferred, order undone, in [0, 1]", required=False),
        Column(
            "p_tie", "float", "probability of a tie, in [0, 1]; p_b is what p_a and p_tie leave of 1", required=False
        ),
        Column("p_yes", "float", "probability of YES among the answers, in [0, 1]", required=False),
        Column("outcome", "str", "verdict in the pair's own names", required=False, allowed=_values(Outcome)),
        Column("coverage", "float", "probability held by all answer tokens, in [0, 1]", required=False),
        Column(
            "probabilities",
            "list",
            "probability of each label of the card, summing to 1; of a pair, the slots as shown (first, second, tie)",
            required=False,
        ),
        Column("ranking", "list", "place of each candidate as shown, 1 = best", required=False),
        Column("unread_reason", "str", "why there is no usable verdict", required=False),
        Column("raw_text", "str", "the judge's reply, where it generates one", required=False),
        Column("prompt_tokens", "int", "tokens of the rendered prompt", required=False),
        Column(
            "shared_tokens", "int", "of those, what an earlier prompt of the same response holds too", required=False
        ),
        Column("forward_passes", "float", "forward passes this verdict cost", required=False),
        Column("seconds", "float", "wall time of this verdict, its share of the batch [s]", required=False),
    ),
    key="verdict_id",
)

PAIRS = Table(
    "pairs",
    (
        Column("judge", "str", "the judge's spec"),
        Column("attack", "str", "attack on the responses, or none"),
        Column("defense", "str", "defense of the judge, or none"),
        Column("item_id", "str", "the item both answer"),
        Column("response_id", "str", "response a"),
        Column("response_b", "str", "response b"),
        Column("p_a", "float", "probability of a, averaged over both orders, in [0, 1] (NaN: unread)"),
        Column("p_b", "float", "probability of b, averaged over both orders, in [0, 1]"),
        Column("p_tie", "float", "probability of a tie, averaged over both orders, in [0, 1]"),
        Column("outcome", "str", "the largest of the three", required=False, allowed=("a", "b", "tie")),
        Column("outcome_ab", "str", "verdict with a shown first", required=False, allowed=("a", "b", "tie")),
        Column("outcome_ba", "str", "verdict with b shown first", required=False, allowed=("a", "b", "tie")),
        Column("disagree", "int", "1 where the two orders give different outcomes, else 0", required=False),
        Column("unread_reason", "str", "why there is no usable verdict on the pair", required=False),
    ),
)

METRICS = Table(
    "metrics",
    (
        Column("metric", "str", "what is measured"),
        Column("attack", "str", "attack of the arm", required=False),
        Column("defense", "str", "defense of the arm", required=False),
        Column("protocol", "str", "how the judge was asked, where a study asks in several ways", required=False),
        Column("group", "str", "what the row is about: a system, a level of severity, ...", required=False),
        Column("value", "float", "point estimate (NaN: undefined)"),
        Column("lower", "float", "lower end of the interval", required=False),
        Column("upper", "float", "upper end of the interval", required=False),
        Column("level", "float", "confidence level in (0, 1)", required=False),
        Column("method", "str", "how the interval was made", required=False),
        Column("n", "int", "responses that entered"),
        Column("n_clusters", "int", "items that entered", required=False),
        Column("n_unread", "int", "responses left out since a verdict was unread", required=False),
        Column("p_value", "float", "two-sided p of the test that the true value is zero, in [0, 1]", required=False),
        Column("q_value", "float", "Benjamini-Hochberg over this table's tests, in [0, 1]", required=False),
        Column("detectable", "float", "true value found with 80 % power at this level, unit of value", required=False),
    ),
)

VARIANTS = Table(
    "variants",
    (
        Column("response_id", "str", "the response that was rewritten"),
        Column("item_id", "str", "the item it answers"),
        Column("system", "str", "what generated it", required=False),
        Column("style", "str", "manner it was rewritten in, with the strength where that is not 1; none: the original"),
        Column("strength", "float", "how much of the manner, in [0, 1]"),
        Column("rewriter", "str", "what rewrote it: rules, or the spec of a model"),
        Column("text", "str", "the rewritten response, verbatim", required=False),
        Column("kept", "int", "1 where the text changed and the content checks found nothing lost, else 0"),
        Column("reasons", "str", "why it is not kept", required=False),
        Column("length_ratio", "float", "words after over words before (NaN: none before)", required=False),
        Column("severity", "int", "format rules that the original fails", required=False),
        Column("severity_after", "int", "format rules that the rewriting fails", required=False),
        Column("failed", "str", "which rules the original fails: number in the item's list and name", required=False),
        Column("failed_after", "str", "which rules the rewriting fails", required=False),
    ),
)

LABELLED = Table(
    "labelled",
    (
        Column("row_id", "str", "identifies the row"),
        Column("item_id", "str", "the item it is about; rows of one item may depend on one another"),
        Column("system", "str", "what generated it; of a pair, side a", required=False),
        Column("system_b", "str", "of a pair, side b", required=False),
        Column("group", "str", "question type or topic", required=False),
        Column("verdict", "float", "the judge's: 1 pass or a, 0 fail or b, 0.5 a tie, or a score (NaN: unread)"),
        Column("label", "float", "people's, likewise (NaN: nobody labelled it)", required=False),
        Column("chance", "float", "with which it was chosen for labelling, in (0, 1] (NaN: the same for all)", False),
        Column("probability", "float", "the judge's, of pass or of a, in [0, 1]", required=False),
        Column("confidence", "float", "of the verdict, larger is surer", required=False),
    ),
    key="row_id",
)

TABLES: dict[str, Table] = {
    t.name: t for t in (ITEMS, RESPONSES, COMPARISONS, VERDICTS, PAIRS, METRICS, VARIANTS, LABELLED)
}
"""Tables that several studies or the data have; those of one study stand in its folder."""
