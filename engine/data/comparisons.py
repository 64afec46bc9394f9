"""Pairs of responses with a human preference or without one: read, checked, kept on disk; and the demo pairs.

Columns and labels follow visible rules (`ALIASES`, `recording_rules.PAIR_RULE`). What they do not cover is named and
refused, never guessed: a preference read the wrong way round would turn every result.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.schema import COMPARISONS, ITEMS, RESPONSES, Task
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.data.raw import RawTable
from engine.data.reading import read_table
from engine.data.recording_rules import A_SPELLINGS, B_SPELLINGS, PAIR_RULE, TIE_SPELLINGS, normalised

DEMO_PAIRS = "demo-pairs"
"""Pairs written by hand, human preference on a part; lies in assets/demo/pairs."""
DEMO_LLMBAR = "demo-llmbar"
"""LLMBar's pairs with their objective labels and without their texts, for recorded judges; in assets/demo/llmbar."""
DEMO_SETS = (DEMO_PAIRS, DEMO_LLMBAR)
"""The bundled sets of pairs."""

ALIASES: dict[str, tuple[str, ...]] = {
    "comparison_id": ("comparison_id", "pair_id", "id"),
    "item_id": ("item_id", "question_id", "prompt_id"),
    "prompt": ("prompt", "question", "instruction", "context", "query"),
    "response_a": ("response_a", "answer_a", "output_a", "output_1"),
    "response_b": ("response_b", "answer_b", "output_b", "output_2"),
    "human": ("human", "label", "winner", "preference", "human_label"),
    "type": ("type", "question_type", "group", "subset", "category"),
    "system_a": ("system_a", "model_a"),
    "system_b": ("system_b", "model_b"),
    "verdict": ("verdict", "judge_verdict"),
    "verdict_ba": ("verdict_ba", "judge_verdict_ba"),
}
"""Field -> column names that are understood, the first that the file has; `prompt+input` joins two by a blank line."""
REQUIRED = ("prompt", "response_a", "response_b")
ONE_TYPE = "all"
"""The question type of a file that names none."""
_TABLES = {"items": ITEMS, "responses": RESPONSES, "comparisons": COMPARISONS}


@dataclass(frozen=True)
class Comparisons:
    """Pairs to be judged.

    Attributes:
        set_id: 16 hex digits of the content's SHA-256, or one of `DEMO_SETS`.
        items: table `items`; `context` holds the prompt, `group` the question type.
        responses: table `responses`, two for each pair.
        comparisons: table `comparisons`; `human` is missing where nobody was asked.
        left_out: reason -> rows of the file that are not in the tables.
        spellings: label as the file spells it -> how it was read.
        has_texts: false where a bundled set ships without its texts: each text then only says where it stands.
    """

    set_id: str
    name: str
    items: pd.DataFrame
    responses: pd.DataFrame
    comparisons: pd.DataFrame
    left_out: dict[str, int]
    spellings: dict[str, str]
    has_texts: bool = True

    @property
    def has_verdicts(self) -> bool:
        """True where a judge's verdicts came with the pairs."""
        return bool(self.comparisons["verdict"].notna().any())

    def counts(self) -> str:
        """The set in one line: "96 pairs, 32 items, 64 with a human preference, 6 question types"."""
        n, labelled = len(self.comparisons), int(self.comparisons["human"].notna().sum())
        types = self.items["group"].nunique()
        return (
            f"{n:,} pairs, {len(self.items):,} items, {labelled:,} with a human preference, "
            f"{types} question {'type' if types == 1 else 'types'}"
        )


def read_comparisons(
    filename: str,
    content: bytes,
    columns: Mapping[str, str] | None = None,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
) -> Comparisons:
    """Read pairs from a file of any format of `reading.EXTENSIONS`.

    Args:
        filename: decides the format; it is not opened.
        content: its bytes.
        columns: field of `ALIASES` -> column of the file, in place of the aliases.
        encoding: as `read_table` takes it.
        delimiter: as `read_table` takes it.
        sheet: as `read_table` takes it.

    Raises:
        InputError: a column is missing, a label is in no rule, or no pair is left.
    """
    raw = read_table(filename, content, encoding=encoding, delimiter=delimiter, sheet=sheet)
    return comparisons_of(filename, raw, columns or {})


def comparisons_of(filename: str, raw: RawTable, columns: Mapping[str, str]) -> Comparisons:
    """The pairs of a table that is read.

    Args:
        filename: what the set is called.
        raw: its cells.
        columns: as `read_comparisons` takes them.

    Raises:
        InputError: as `read_comparisons`, or the encoding is not certain.
    """
    raw.require_certain(filename, "Say which with --encoding NAME, or save the file again as UTF-8.")
    fields = _fields(list(map(str, raw.frame.columns)), columns)
    cells = {field: _cells(raw, column) for field, column in fields.items()}
    spellings: dict[str, str] = {}
    left_out: dict[str, int] = {}
    rows: list[dict[str, str]] = []
    for i in range(len(raw.frame)):
        row = {field: column[i] for field, column in cells.items()}
        blank = next((f for f in REQUIRED if not row[f].strip()), "")
        if blank:
            reason = f"no {blank}"
        elif row["response_a"] == row["response_b"]:
            reason = "both responses are the same"
        else:
            rows.append(row | {f: _side(row.get(f, ""), f, i, raw, spellings) for f in _SIDES})
            continue
        left_out[reason] = left_out.get(reason, 0) + 1
    if not rows:
        raise InputError(f"{filename!r} holds no pair that can be used: {left_out}.")
    return _built(filename, rows, left_out, spellings)


_SIDES = ("human", "verdict", "verdict_ba")


def _fields(names: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    for field, column in chosen.items():
        if field not in ALIASES:
            raise InputError(f"{shown(f'{field}={column}')}: there is no such field. Fields: {', '.join(ALIASES)}.")
        absent = [part for part in _parts(column, names) if part not in names]
        if absent:
            raise InputError(
                f"{field}={listed([column])}: the file has no column {shown(absent[0])}. It has: {listed(names)}."
            )
    taken = {part for column in chosen.values() for part in _parts(column, names)}
    found = dict(chosen)
    for field, aliases in ALIASES.items():
        match = next((a for a in aliases if a in names and a not in taken), "")
        if field not in found and match:
            found[field] = match
    lacking = [f"{field} (understood: {', '.join(ALIASES[field])})" for field in REQUIRED if field not in found]
    if lacking:
        raise InputError(
            f"The file is no file of pairs as it stands: no column for {'; '.join(lacking)}. It has: "
            f"{listed(names)}. Rename columns, or say which holds what with --map FIELD=COLUMN."
        )
    return found


def _parts(column: str, names: Sequence[str]) -> list[str]:
    return [column] if column in names else column.split("+")


def _cells(raw: RawTable, column: str) -> list[str]:
    parts = [raw.frame[name].fillna("") for name in _parts(column, list(map(str, raw.frame.columns)))]
    return ["\n\n".join(p for p in cells if p.strip()) for cells in zip(*parts, strict=True)]


def _side(label: str, field: str, row: int, raw: RawTable, spellings: dict[str, str]) -> str:
    if not label.strip():
        return ""
    side = PAIR_RULE.get(normalised(label))
    if side is None:
        raise InputError(
            f"Row {row + 1} (line {raw.lines[row]}): {field} {shown(label)} is in no rule. "
            f"a: {', '.join(A_SPELLINGS)}; b: {', '.join(B_SPELLINGS)}; tie: {', '.join(TIE_SPELLINGS)}; blank where "
            "nobody was asked. Rename the labels."
        )
    spellings.setdefault(label, str(side.value))
    return str(side.value)


def _built(
    name: str, rows: Sequence[Mapping[str, str]], left_out: dict[str, int], spellings: dict[str, str]
) -> Comparisons:
    items: dict[str, dict[str, str]] = {}
    by_prompt: dict[tuple[str, str], str] = {}
    responses, pairs = [], []
    for number, row in enumerate(rows, 1):
        pair = row.get("comparison_id") or str(number)
        group = row.get("type") or ONE_TYPE
        item = row.get("item_id") or by_prompt.setdefault((row["prompt"], group), pair)
        first = items.setdefault(
            item, {"item_id": item, "task": Task.INSTRUCTION.value, "context": row["prompt"], "group": group}
        )
        if first["context"] != row["prompt"] or first["group"] != group:
            raise InputError(f"Item {shown(item)} stands there with two different prompts or types; ids must differ.")
        for side in ("a", "b"):
            responses.append(
                {
                    "response_id": f"{pair}:{side}",
                    "item_id": item,
                    "system": row.get(f"system_{side}") or None,
                    "text": row[f"response_{side}"],
                }
            )
        sides = {field: row.get(field) or None for field in _SIDES}
        ids: dict[str, str | None] = {
            "comparison_id": pair,
            "item_id": item,
            "response_a": f"{pair}:a",
            "response_b": f"{pair}:b",
        }
        pairs.append(ids | sides)
    tables = (
        ITEMS.conform(pd.DataFrame(list(items.values()))),
        RESPONSES.conform(pd.DataFrame(responses)),
        COMPARISONS.conform(pd.DataFrame(pairs)),
    )
    return Comparisons(pairs_digest(list(tables)), name, *tables, left_out=left_out, spellings=spellings)


MOST_OF_ITEM = 10
"""Pairs of one item at most that are made of single responses."""


def pairs_of(dataset: Dataset) -> Comparisons:
    """Pairs of single responses to one item, the higher human score preferred where both have one.

    Raises:
        InputError: no item has two different responses.
    """
    contexts = dataset.items.set_index("item_id")["context"].fillna("").to_dict()
    rows: list[dict[str, str]] = []
    for item, group in dataset.responses.groupby("item_id", sort=False):
        both = combinations(group.to_dict("records"), 2)
        different = ((a, b) for a, b in both if a["text"] != b["text"])
        for a, b in islice(different, MOST_OF_ITEM):
            systems = {f"system_{k}": str(r["system"]) for k, r in (("a", a), ("b", b)) if isinstance(r["system"], str)}
            texts = {"response_a": str(a["text"]), "response_b": str(b["text"])}
            ids = {"comparison_id": f"{a['response_id']}-{b['response_id']}", "item_id": str(item)}
            more = {"prompt": contexts[str(item)], "human": _higher(a, b)}
            rows.append(ids | texts | systems | more)
    if not rows:
        raise InputError(
            f"No two different responses of {dataset.name!r} answer one item, so there are no pairs. Say on the page "
            "Data which column is the same for responses to one question, or upload a file of pairs."
        )
    return _built(f"{dataset.name}, in pairs", rows, {}, {})


def _higher(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> str:
    """The side that people scored higher; tie for equal scores, empty where one has none."""
    first, second = a["human_score"], b["human_score"]
    if pd.isna(first) or pd.isna(second):
        return ""
    return "tie" if first == second else "a" if first > second else "b"


def pairs_digest(tables: Sequence[pd.DataFrame]) -> str:
    """The id of a set of pairs: 16 hex digits of the SHA-256 over items, responses and comparisons."""
    digest = hashlib.sha256()
    for frame in tables:
        digest.update(frame.to_csv(index=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def save_comparisons(found: Comparisons, root: Path) -> Path:
    """Write the set under `root/<set_id>`, whole or not at all.

    Raises:
        InputError: it is a bundled one.
    """
    if found.set_id in DEMO_SETS:
        raise InputError(f"{found.set_id} ships with the project and is not saved again.")
    root.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
    try:
        for name in _TABLES:
            getattr(found, name).to_parquet(made / f"{name}.parquet", index=False)
        about = {"name": found.name, "left_out": found.left_out, "spellings": found.spellings}
        (made / "pairs.json").write_text(json.dumps(about), encoding="utf-8")
        target = root / found.set_id
        shutil.rmtree(target, ignore_errors=True)  # the same content, by its name
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def load_comparisons(set_id: str, root: Path) -> Comparisons:
    """A saved set, or a bundled one.

    Raises:
        InputError: there is none of that id, or its files are damaged.
    """
    if set_id in DEMO_SETS:
        return _demo() if set_id == DEMO_PAIRS else _llmbar()
    folder = root / set_id
    if not (set_id.isalnum() and (folder / "pairs.json").is_file()):
        known = listed([*DEMO_SETS, *list_comparisons(root)])
        raise InputError(f"There is no set of pairs {shown(set_id)}. There are: {known}. Upload the file again.")
    try:
        about: dict[str, Any] = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
        items, responses, pairs = (t.conform(pd.read_parquet(folder / f"{n}.parquet")) for n, t in _TABLES.items())
        return Comparisons(set_id, about["name"], items, responses, pairs, about["left_out"], about["spellings"])
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"The pairs {set_id!r} are damaged ({error}). Upload the file again.") from None


def list_comparisons(root: Path) -> dict[str, str]:
    """Id and name of every saved set; the bundled ones (`DEMO_SETS`) are not among them."""
    found: dict[str, str] = {}
    for path in sorted(root.glob("*/pairs.json")) if root.is_dir() else ():
        try:
            found[path.parent.name] = str(json.loads(path.read_text(encoding="utf-8"))["name"])
        except (OSError, ValueError, KeyError):
            continue  # a damaged folder must not hide the others
    return found


def is_pairs(name: str, root: Path) -> bool:
    """True for the id of a bundled or saved set of pairs."""
    return name in DEMO_SETS or name in list_comparisons(root)


def require_texts(found: Comparisons, what: str) -> None:
    """Refuse what reads texts on a set that ships without them.

    Args:
        found: the pairs.
        what: reads texts, for the message.

    Raises:
        InputError: the set has none.
    """
    if not found.has_texts:
        raise InputError(
            f"{what} reads texts, and the pairs {found.set_id} ship without theirs. Use its recorded judges "
            f"(recorded:{found.set_id}?judge=GPT-4&prompt=Vanilla) with the encoder given:{found.set_id} and no "
            "attack; or bring the original file as pairs of your own."
        )


@lru_cache(maxsize=1)
def _llmbar() -> Comparisons:
    """Objective labels by id; a text's place stands where the text would, so that no two texts are alike."""
    table = pd.read_parquet(get_settings().assets / "demo" / "llmbar" / "pairs.parquet")
    rows = [
        {
            "comparison_id": pair,
            "type": kind,
            "human": human,
            "prompt": f"LLMBar {pair}, the prompt. LLMBar's texts do not ship with this project.",
            **{f"response_{side}": f"LLMBar {pair}, response {side}. Not shipped." for side in ("a", "b")},
            "verdict": "",
            "verdict_ba": "",
        }
        for pair, kind, human in table[["comparison_id", "type", "human"]].itertuples(index=False, name=None)
    ]
    built = _built(f"LLMBar: {len(rows)} pairs with objective labels, recorded judges", rows, {}, {})
    return replace(built, set_id=DEMO_LLMBAR, has_texts=False)


@lru_cache(maxsize=1)
def _demo() -> Comparisons:
    content = (get_settings().assets / "demo" / "pairs" / "pairs.csv").read_bytes()
    read = read_comparisons("pairs.csv", content)
    name = f"Demo: {len(read.comparisons)} pairs in six question types"
    return Comparisons(DEMO_PAIRS, name, read.items, read.responses, read.comparisons, read.left_out, read.spellings)
