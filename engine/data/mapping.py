"""The user's columns -> our fields: what each field means, and a first guess from names and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from engine.core.errors import InputError, listed, shown

if TYPE_CHECKING:
    from engine.data.dataset import Dataset


# Which responses are correct: the one rule for what the column `quality` of verification data may say.
#
# The studies of verifiers, the check-up, the file formats and the guess of columns all read labels here.

# which reads files by the mapping, which asks here

RIGHT, WRONG = "correct", "incorrect"
"""Labels that our own files and imports write."""
SPELLINGS = "correct or incorrect, true or false, yes or no, right or wrong, 1 or 0"
_YES = frozenset({RIGHT, "true", "yes", "right", "1", "1.0"})
_NO = frozenset({WRONG, "false", "no", "wrong", "0", "0.0"})
"""1.0 and 0.0 are what a spreadsheet or pandas makes of 1 and 0 where cells are missing."""


def says_correct(label: object) -> bool | None:
    """Meaning of a label for its response, in any case; None where it says neither."""
    text = str(label).strip().casefold()
    return True if text in _YES else False if text in _NO else None


def all_say_correctness(labels: Iterable[object]) -> bool:
    """True where there are labels and each says correct or incorrect; missing and blank ones are passed over."""
    filled = [label for label in labels if isinstance(label, str) and label.strip()]
    return bool(filled) and all(says_correct(label) is not None for label in filled)


def known_right(dataset: Dataset) -> dict[str, bool]:
    """Response id -> whether the response is correct, for those whose quality says anything.

    Raises:
        InputError: a quality says neither; it is named with its response, and no label is guessed.
    """
    found: dict[str, bool] = {}
    known = dataset.responses.dropna(subset=["quality"])
    for response, label in zip(known["response_id"], known["quality"], strict=True):
        right = says_correct(label)
        if right is None:
            raise InputError(
                f"The data {dataset.name} have the quality {shown(label)} for the response {shown(response)}, "
                f"which says neither correct nor incorrect. Read are {SPELLINGS}. Write one of these, or leave the "
                "cell empty: then the response is not asked about."
            )
        found[str(response)] = right
    return found


def needed_right(dataset: Dataset) -> dict[str, bool]:
    """As `known_right`, where a study rests on it.

    Raises:
        InputError: the data say it of no response, or as `known_right`.
    """
    if dataset.responses["quality"].isna().all():
        raise InputError(
            f"Nothing in the data {dataset.name} says which responses are correct. Choose the column that does as "
            f"Quality: --map quality=COLUMN, or on the page Data. Read are {SPELLINGS}. A VerifyBench file (question, "
            "answer, completion, gold_correct) needs no choice."
        )
    return known_right(dataset)


@dataclass(frozen=True)
class Field:
    """One thing a column can hold.

    Attributes:
        name: its name in our tables.
        label: its name on the page.
        hint: one sentence on what it is used for.
        required: true where no data set can be made without it.
        aliases: other names it goes by, normalised, most telling first.
    """

    name: str
    label: str
    hint: str
    required: bool = False
    aliases: tuple[str, ...] = ()


FIELDS: tuple[Field, ...] = (
    Field(
        "response",
        "Response",
        "The text that is judged, taken as it stands.",
        True,
        (
            "output",
            "completion",
            "model_output",
            "generation",
            "generated_text",
            "system_output",
            "response_text",
            "prediction",
            "candidate",
            "hypothesis",
            "reply",
            "summary",
            "answer",
            "solution",
            "text",
        ),
    ),
    Field(
        "context",
        "Context",
        "What the response answers: source text, dialogue so far, question or instruction.",
        aliases=(
            "prompt",
            "question",
            "instruction",
            "dialog_history",
            "dialogue_history",
            "dialogue",
            "dialog",
            "conversation",
            "history",
            "source",
            "article",
            "document",
            "input",
            "query",
            "passage",
            "source_text",
            "text",
        ),
    ),
    Field(
        "item_id",
        "Item id",
        "Responses with the same id answer the same context; intervals treat an item as one cluster.",
        aliases=(
            "item",
            "prompt_id",
            "question_id",
            "context_id",
            "source_id",
            "doc_id",
            "document_id",
            "dialog_id",
            "dialogue_id",
            "instruction_id",
            "article_id",
            "example_id",
            "query_id",
            "task_id",
            "id",
        ),
    ),
    Field(
        "response_id",
        "Response id",
        "Names one response; rows are numbered where there is none.",
        aliases=("answer_id", "output_id", "sample_id", "completion_id", "summary_id", "uid", "uuid", "id"),
    ),
    Field(
        "system",
        "System",
        "What generated the response.",
        aliases=(
            "model",
            "generator",
            "system_id",
            "model_id",
            "model_name",
            "system_name",
            "engine",
            "assistant",
        ),
    ),
    Field(
        "human_score",
        "Human score",
        "A human rating of the response, a number; its scale is yours.",
        aliases=(
            "score",
            "rating",
            "overall",
            "human_rating",
            "human",
            "human_score_overall",
            "annotation",
            "label",
            "grade",
            "mos",
            "quality",
        ),
    ),
    Field(
        "reference",
        "Reference",
        "A reference answer for the item.",
        aliases=(
            "reference_answer",
            "gold",
            "gold_answer",
            "ground_truth",
            "target",
            "expected",
            "ideal",
            "reference_text",
            "references",
            "answer",
            "solution",
        ),
    ),
    Field(
        "group",
        "Group",
        "Question type or topic of the item, to compare parts of the data.",
        aliases=("topic", "category", "question_type", "subset", "domain", "type"),
    ),
)
"""Fields that a user can map; only the response is required."""

QUALITY = Field(
    "quality",
    "Quality",
    "For answers checked against a reference: whether the response is correct, as correct or incorrect, true or false, "
    "1 or 0. For other tasks a level that is true by construction.",
    aliases=("correct", "is_correct", "correctness", "gold_correct", "is_right"),
)
"""Suggested only beside a reference and where every cell says correct or incorrect: in most other files a column of
this name is a human rating."""

OFFERED = (*FIELDS, QUALITY)
"""Fields that the page offers to map."""

RULES = Field("rules", "Rules", "Format rules of the item that a program checks, as a JSON list of {rule, arguments}.")
"""Accepted by `check_mapping`, never suggested."""

_KNOWN = {f.name: f for f in (*OFFERED, RULES)}
_TAIL = re.compile(r"(_(\d+|text|content|body|string|value))+$")
"""Allowed ends of a column's name after its telling word: a scale, or that it is text."""
_TOO_COMMON = frozenset({"id", "text", "input", "label", "type", "human", "quality", "annotation", "overall"})
"""Aliases that say too little at the end of a longer name."""
_REFERENCES = frozenset({"reference", "gold", "golden", "expected", "ideal", "correct", "truth", "target"})
"""Words of columns that hold a reference, whatever they end in."""
_MACHINES = frozenset({"judge", "llm", "gpt", "model", "auto", "bot", "metric"})
"""Words of columns whose numbers no person gave."""
_NEVER_BY_LAST_WORD = frozenset({"item_id", "response_id", "reference"})


def suggest_mapping(frame: pd.DataFrame, *, by_last_word: bool = False) -> dict[str, str]:
    """Guess which column holds which field.

    A field's own name beats an alias, an earlier alias a later one, and no column is used twice. A column
    is a human score only if most of its cells are numbers; a column called `id` names responses if its
    values all differ, otherwise items. A column is the quality only beside a reference, and only if it says correct or
    incorrect throughout.

    Args:
        frame: the user's table, cells as text.
        by_last_word: also take a column that ends in an alias ("bot answer"), where it is the only one that does;
            for places where the guess is shown before it counts.

    Returns:
        Field name -> the user's column name, for the fields that were recognised.
    """
    by_name: dict[str, str] = {}
    for column in map(str, frame.columns):
        by_name.setdefault(_normalised(column), column)
    out: dict[str, str] = {}
    for field in FIELDS:
        if field.name in by_name:
            out[field.name] = by_name[field.name]
    for field in FIELDS:
        if field.name in out:
            continue
        for alias in field.aliases:
            column = by_name.get(alias, "")
            if column and column not in out.values() and _fits(field.name, alias, frame[column]):
                out[field.name] = column
                break
    out = _with_last_words(frame, by_name, out) if by_last_word else out
    return _with_quality(frame, by_name, out)


def _with_quality(frame: pd.DataFrame, by_name: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Column that says correct or incorrect, where there is a reference; a guess that it is a rating gives way."""
    column = next((by_name[name] for name in (QUALITY.name, *QUALITY.aliases) if name in by_name), "")
    taken = any(c == column and field != "human_score" for field, c in found.items())
    if "reference" not in found or not column or taken or not all_say_correctness(frame[column]):
        return dict(found)
    return {field: c for field, c in found.items() if c != column} | {QUALITY.name: column}


def _with_last_words(frame: pd.DataFrame, by_name: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Remaining fields, by the last words of a column's name: "customer question", "agent rating (1-5)"."""
    out = dict(found)
    for field in FIELDS:
        if field.name in out or field.name in _NEVER_BY_LAST_WORD:
            continue
        others = _REFERENCES | _MACHINES if field.name == "human_score" else _REFERENCES
        free = {name: column for name, column in by_name.items() if not others & set(name.split("_"))}
        for alias in (field.name, *field.aliases):
            tails = [column for name, column in free.items() if ("_" + _TAIL.sub("", name)).endswith(f"_{alias}")]
            if alias in _TOO_COMMON or len(tails) != 1 or tails[0] in out.values():
                continue  # two such columns: only the user knows which
            if _fits(field.name, alias, frame[tails[0]]):
                out[field.name] = tails[0]
                break
    return out


def check_mapping(frame: pd.DataFrame, mapping: Mapping[str, str | None]) -> dict[str, str]:
    """The mapping without its empty entries.

    Raises:
        InputError: an unknown field, a column the file does not have, a column used twice, or no response.
    """
    chosen = {name: column for name, column in mapping.items() if column}
    columns = list(map(str, frame.columns))
    for name, column in chosen.items():
        if name not in _KNOWN:
            raise InputError(f"There is no field {shown(name)}; fields: {', '.join(_KNOWN)}.")
        if column not in columns:
            raise InputError(
                f"The file has no column {shown(column)} for the field {name}. Its columns: {listed(columns)}."
            )
    if "response" not in chosen:
        raise InputError(
            "No column is chosen for the response, the text that is judged. "
            f"Choose one of the file's columns: {listed(columns)}."
        )
    for name, column in chosen.items():
        others = [n for n, c in chosen.items() if c == column and n != name]
        if others:
            raise InputError(
                f"Column {shown(column)} is chosen for both {name} and {others[0]}. Choose another column for one "
                "of them."
            )
    return chosen


def _normalised(column: str) -> str:
    """`humanScore`, `Human Score` and ` human-score ` are all `human_score`."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"\W+", "_", split).strip("_").casefold()


def _fits(field: str, alias: str, values: pd.Series) -> bool:
    filled = [v for v in values if isinstance(v, str) and v.strip()]
    if field == "human_score":
        numbers = sum(parse_number(v) is not None for v in filled)
        return bool(filled) and numbers >= len(filled) / 2
    if alias == "id":
        differ = len(set(filled)) == len(values)
        return differ if field == "response_id" else not differ
    return True


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def parse_number(text: str) -> float | None:
    """A finite decimal number such as 4, -0.5 or 1e3, spaces around it allowed; None for anything else.

    `float` alone would also take `nan`, `inf` and `1_000`.
    """
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        return None
    number = float(stripped)
    return number if abs(number) < float("inf") else None
