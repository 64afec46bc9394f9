"""Verdicts of a judge with people's labels on a part of them: read from a table, kept on disk; and the demo.

Verdict and label are of one kind: pass or fail, a, b or tie, or numbers. Spellings follow the visible rules below;
what is in none of them is named with its row, never guessed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import make_folder, writing
from engine.core.schema import LABELLED
from engine.core.settings import get_settings
from engine.data.mapping import parse_number
from engine.data.raw import RawTable
from engine.data.reading import read_table
from engine.data.recording_rules import NO_SPELLINGS, PAIR_RULE, YES_SPELLINGS, normalised

DEMO_TRUST = "demo-trust"
"""GPT-4's grades of LLMBar's 838 responses, of which one half is right; from assets/demo/llmbar."""
Kind = Literal["pass", "pair", "scale"]
KINDS: dict[Kind, str] = {"pass": "pass or fail", "pair": "a, b or tie", "scale": "numbers"}
PASS_AT = 5.0
"""Least grade of the demo that counts as a pass; grades run from 0 to 9."""
DEMO_LABELS = 200
_DEMO_SEED = 20

ALIASES: dict[str, tuple[str, ...]] = {
    "verdict": ("verdict", "judge_verdict", "judge_score", "judge", "prediction", "outcome", "score"),
    "label": ("label", "human", "human_label", "human_score", "gold", "truth", "rating"),
    "id": ("id", "row_id", "response_id", "comparison_id", "pair_id"),
    "item": ("item", "item_id", "question_id", "prompt_id"),
    "system": ("system", "system_a", "model", "model_a"),
    "system_b": ("system_b", "model_b"),
    "group": ("group", "type", "question_type", "category", "subset"),
    "weight": ("weight", "inclusion_probability", "inclusion", "chance"),
    "probability": ("probability", "p", "p_yes", "p_a", "p_pass"),
    "verdict_ba": ("verdict_ba", "judge_verdict_ba"),
    "p_ab": ("p_ab", "p_a_ab", "probability_ab"),
    "p_ba": ("p_ba", "p_a_ba", "probability_ba"),
}
"""Field -> column names that are understood, the first that the file has."""
REQUIRED = ("verdict", "label")
_SHARES = ("probability", "p_ab", "p_ba")

_PASS = {
    **dict.fromkeys((*YES_SPELLINGS, "pass", "passed", "good", "accept"), 1.0),
    **dict.fromkeys((*NO_SPELLINGS, "fail", "failed", "bad", "reject"), 0.0),
}
_PAIR = {spelling: {"a": 1.0, "b": 0.0, "tie": 0.5}[str(side.value)] for spelling, side in PAIR_RULE.items()}
_ALLOWED = (
    f"pass or fail ({', '.join(_PASS)}); a pair ({', '.join(_PAIR)}); or numbers. A label that nobody gave stays empty"
)


@dataclass(frozen=True)
class Labelled:
    """Rows with a verdict, some with a label.

    Attributes:
        set_id: 16 hex digits of the content's SHA-256, or `DEMO_TRUST`.
        name: the file's.
        rows: table `labelled`.
        kind: of verdicts and labels.
        spellings: as the file spells it -> how it was read, for words.
        truth: every label by row id, where the set knows more than it shows; empty otherwise.
    """

    set_id: str
    name: str
    rows: pd.DataFrame
    kind: Kind
    spellings: dict[str, str] = field(default_factory=dict)
    truth: dict[str, float] = field(default_factory=dict)

    def counts(self) -> str:
        """The set in one line: "838 rows of 419 items, 200 with a label; pass or fail"."""
        labels = int(self.rows["label"].notna().sum())
        items = self.rows["item_id"].nunique()
        return f"{len(self.rows):,} rows of {items:,} items, {labels:,} with a label; {KINDS[self.kind]}"


def read_labelled(
    filename: str,
    content: bytes,
    columns: Mapping[str, str] | None = None,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
) -> Labelled:
    """Read verdicts and labels from a file of any format of `reading.EXTENSIONS`.

    Args:
        filename: decides the format; it is not opened.
        content: its bytes.
        columns: field of `ALIASES` -> column of the file, in place of the aliases.
        encoding: as `read_table` takes it.
        delimiter: as `read_table` takes it.
        sheet: as `read_table` takes it.

    Raises:
        InputError: a column is missing, or a cell cannot be read; the message names the row.
    """
    raw = read_table(filename, content, encoding=encoding, delimiter=delimiter, sheet=sheet)
    return labelled_of(filename, raw, columns or {})


def labelled_of(filename: str, raw: RawTable, columns: Mapping[str, str]) -> Labelled:
    """The verdicts and labels of a table that is read.

    Args:
        filename: what the set is called.
        raw: its cells.
        columns: as `read_labelled` takes them.

    Raises:
        InputError: as `read_labelled`, or the encoding is not certain.
    """
    raw.require_certain(filename, "Say which with --encoding NAME, or save the file again as UTF-8.")
    cells = _cells(raw, columns)
    kind = _kind(cells)
    spellings: dict[str, str] = {}
    numbers: dict[str, npt.NDArray[np.float64]] = {
        name: _values(cells[name], kind, name, raw, spellings)
        for name in ("verdict", "label", "verdict_ba")
        if name in cells
    }
    shares = {name: _shares(cells[name], name, raw) for name in (*_SHARES, "weight") if name in cells}
    n = len(raw.frame)
    ids = _filled(cells.get("id"), [str(i + 1) for i in range(n)])
    rows = pd.DataFrame(
        {
            "row_id": ids,
            "item_id": _filled(cells.get("item"), ids),
            **{name: _blank_is_missing(cells.get(name), n) for name in ("system", "system_b", "group")},
            "label": numbers["label"],
            "chance": shares.get("weight", np.full(n, np.nan)),
        }
    )
    rows = rows.assign(**_judged(numbers, shares, kind))
    if (twice := rows["row_id"].duplicated()).any():
        place = int(np.flatnonzero(twice)[0])
        raise InputError(
            f"Row {place + 1} (line {raw.lines[place]}): id {shown(ids[place])} stands twice; ids must differ."
        )
    labelled, chances = rows["label"].notna(), rows["chance"].notna()
    if chances.any() and (lacking := labelled & ~chances).any():
        place = int(np.flatnonzero(lacking)[0])
        raise InputError(
            f"Row {place + 1} (line {raw.lines[place]}) has a label and no weight; give each labelled row one."
        )
    made = LABELLED.conform(rows)
    return Labelled(_digest(made), filename, made, kind, spellings)


def _cells(raw: RawTable, columns: Mapping[str, str]) -> dict[str, list[str]]:
    names = list(map(str, raw.frame.columns))
    lower = {name.strip().casefold(): name for name in reversed(names)}
    found: dict[str, str] = {}
    for name, column in columns.items():
        if name not in ALIASES:
            raise InputError(f"{shown(f'{name}={column}')}: there is no such field. Fields: {', '.join(ALIASES)}.")
        if column not in names:
            raise InputError(f"{name}={column}: the file has no such column. It has: {listed(names)}.")
        found[name] = column
    for name, aliases in ALIASES.items():
        match = next((lower[a] for a in aliases if a in lower and lower[a] not in found.values()), "")
        if name not in found and match:
            found[name] = match
    if lacking := [f"{name} (understood: {', '.join(ALIASES[name])})" for name in REQUIRED if name not in found]:
        raise InputError(
            f"The file has no column for {'; '.join(lacking)}. It has: {listed(names)}. Rename columns, or say which "
            "holds what with --map FIELD=COLUMN."
        )
    return {name: [str(c).strip() for c in raw.frame[column].fillna("")] for name, column in found.items()}


def _kind(cells: Mapping[str, Sequence[str]]) -> Kind:
    """The kind that reads the most cells of verdict and label; where two read as many, the first of `KINDS`."""
    filled = [normalised(c) for name in ("verdict", "label", "verdict_ba") for c in cells.get(name, ()) if c]
    if not filled:
        raise InputError("The columns verdict and label are empty; give the judge's verdict on each row.")
    reads = {
        "pass": sum(c in _PASS for c in filled),
        "pair": sum(c in _PAIR for c in filled),
        "scale": sum(parse_number(c) is not None for c in filled),
    }
    return max(KINDS, key=lambda kind: reads[kind])


def _values(
    cells: Sequence[str], kind: Kind, name: str, raw: RawTable, spellings: dict[str, str]
) -> npt.NDArray[np.float64]:
    """The cells as numbers, NaN where empty.

    Raises:
        InputError: a cell is of another kind; the row is named.
    """
    rule: Mapping[str, float] = {"pass": _PASS, "pair": _PAIR, "scale": {}}[kind]
    said = {1.0: "a", 0.0: "b", 0.5: "tie"} if kind == "pair" else {1.0: "pass", 0.0: "fail"}
    out = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        if not cell:
            continue
        value = parse_number(cell) if kind == "scale" else rule.get(normalised(cell))
        if value is None:
            raise InputError(
                f"Row {i + 1} (line {raw.lines[i]}): {name} {shown(cell)} cannot be read; the other rows hold "
                f"{KINDS[kind]}. Understood are: {_ALLOWED}."
            )
        out[i] = value
        if kind != "scale":
            spellings.setdefault(cell, said[value])
    return out


def _shares(cells: Sequence[str], name: str, raw: RawTable) -> npt.NDArray[np.float64]:
    out = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        value = parse_number(cell) if cell else None
        if cell and (value is None or not 0 <= value <= 1 or (name == "weight" and value == 0)):
            what = "the chance to be labelled, above 0 and at most 1" if name == "weight" else "a number from 0 to 1"
            raise InputError(f"Row {i + 1} (line {raw.lines[i]}): {name} is {shown(cell)}; allowed is {what}.")
        out[i] = np.nan if value is None else value
    return out


def _judged(
    numbers: Mapping[str, npt.NDArray[np.float64]], shares: Mapping[str, npt.NDArray[np.float64]], kind: Kind
) -> dict[str, npt.NDArray[np.float64]]:
    """Verdict, probability and confidence: of both orders where both are there, a tie where they disagree."""
    verdict, missing = numbers["verdict"], np.full(len(numbers["verdict"]), np.nan)
    probability = shares.get("probability", missing)
    if "p_ab" in shares and "p_ba" in shares:
        probability = (shares["p_ab"] + shares["p_ba"]) / 2
    confidence = np.maximum(probability, 1 - probability)
    if "verdict_ba" in numbers:
        other = numbers["verdict_ba"]
        same = verdict == other
        if np.isnan(probability).all():
            confidence = np.where(np.isnan(verdict + other), np.nan, np.where(same, 1.0, 0.5))
        verdict = np.where(np.isnan(other) | same, verdict, 0.5 if kind == "pair" else (verdict + other) / 2)
    return {"verdict": verdict, "probability": probability, "confidence": confidence}


def _filled(cells: Sequence[str] | None, instead: Sequence[str]) -> list[str]:
    return [cell or other for cell, other in zip(cells or instead, instead, strict=True)]


def _blank_is_missing(cells: Sequence[str] | None, n: int) -> list[str | None]:
    return [cell or None for cell in cells] if cells else [None] * n


def _digest(rows: pd.DataFrame) -> str:
    return sha256(rows.to_csv(index=False).encode("utf-8", "surrogatepass")).hexdigest()[:16]


# On disk, and the demo.


def save_labelled(found: Labelled, root: Path) -> Path:
    """Write the set under `root/<set_id>`, whole or not at all.

    Raises:
        InputError: it is the bundled one.
        WriteError: it cannot be written.
    """
    if found.set_id == DEMO_TRUST:
        raise InputError(f"{DEMO_TRUST} ships with the project and is not saved again.")
    target = root / found.set_id
    make_folder(root)
    with writing(target):
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
        try:
            found.rows.to_parquet(made / "labelled.parquet", index=False)
            about = {"name": found.name, "kind": found.kind, "spellings": found.spellings}
            (made / "labelled.json").write_text(json.dumps(about), encoding="utf-8")
            shutil.rmtree(target, ignore_errors=True)  # the same content, by its name
            made.rename(target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target


def load_labelled(set_id: str, root: Path) -> Labelled:
    """A saved set, or the bundled one.

    Raises:
        InputError: there is none of that id, or its files are damaged.
    """
    if set_id == DEMO_TRUST:
        return _demo()
    folder = root / set_id
    if not (set_id.isalnum() and (folder / "labelled.json").is_file()):
        known = listed([DEMO_TRUST, *list_labelled(root)])
        raise InputError(
            f"There are no verdicts with labels {shown(set_id)}. There are: {known}. Upload the file again."
        )
    try:
        about = json.loads((folder / "labelled.json").read_text(encoding="utf-8"))
        rows = LABELLED.conform(pd.read_parquet(folder / "labelled.parquet"))
        return Labelled(set_id, str(about["name"]), rows, about["kind"], dict(about["spellings"]))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"The verdicts {set_id!r} are damaged ({error}). Upload the file again.") from None


def list_labelled(root: Path) -> dict[str, str]:
    """Id and name of every saved set; the bundled one is not among them."""
    found: dict[str, str] = {}
    for path in sorted(root.glob("*/labelled.json")) if root.is_dir() else ():
        try:
            found[path.parent.name] = str(json.loads(path.read_text(encoding="utf-8"))["name"])
        except (OSError, ValueError, KeyError):
            continue  # a damaged folder must not hide the others
    return found


@lru_cache(maxsize=1)
def _demo() -> Labelled:
    """GPT-4's grades of LLMBar's responses as pass or fail, labels shown on 200 drawn at random.

    One of the two responses to each prompt follows the instruction, so that the true rate is 50 %.
    """
    folder = get_settings().assets / "demo" / "llmbar"
    pairs = pd.read_parquet(folder / "pairs.parquet")
    grades = pd.read_parquet(folder / "ratings.parquet")
    grades = grades[(grades["judge"] == "GPT-4") & (grades["prompt"] == "Rating")].merge(pairs, on="comparison_id")
    sides = [
        pd.DataFrame(
            {
                "row_id": grades["comparison_id"] + f":{side}",
                "item_id": grades["comparison_id"],
                "system": f"response {side.upper()}",
                "group": grades["type"],
                "grade": grades[f"score_{side}"],
                "right": (grades["human"] == side).astype(float),
            }
        )
        for side in ("a", "b")
    ]
    rows = pd.concat(sides).sort_values("row_id", kind="stable").reset_index(drop=True)
    read = rows["grade"].notna()
    rows["verdict"] = (rows["grade"] >= PASS_AT).astype(float).where(read)
    rows["probability"] = rows["grade"] / 9
    rows["confidence"] = (rows["grade"] - (PASS_AT - 0.5)).abs() / PASS_AT
    chosen = np.random.default_rng(_DEMO_SEED).choice(len(rows), DEMO_LABELS, replace=False)
    rows["label"] = rows["right"].where(rows.index.isin(chosen))
    truth = dict(zip(rows["row_id"], rows["right"], strict=True))
    name = "Demo: GPT-4's grades of 838 responses, 200 labels"
    return Labelled(DEMO_TRUST, name, LABELLED.conform(rows), "pass", truth=truth)
