"""Embeddings that somebody brings: read, matched to the pairs by a visible rule, checked, kept on disk.

A row of a table says whose vector it is; rows of a NumPy file have no ids, so their order and number must fit the pairs
exactly. Whatever does not fit is refused by name and never guessed: a vector at the wrong response turns every result.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import write_atomically
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_LLMBAR, Comparisons
from engine.data.reading import EXTENSIONS, read_table
from engine.data.recording_rules import PAIR_RULE, normalised

Floats = npt.NDArray[np.float64]

KINDS = (".npy", *EXTENSIONS)
"""File name endings that are read."""
RULES = {
    "csv, parquet and other tables": (
        "a column response_id (the pair's id, a colon, a or b, such as 7:a), or the columns comparison_id and side; "
        "then one column embedding that holds a list, or one column for each dimension"
    ),
    "npy": (
        "an array of numbers without ids: two rows a pair in the order of the pairs (a of the first, b of the first, a "
        "of the second ...), or of shape (pairs, 2, dimensions)"
    ),
}
"""Rules for matching rows to responses, in words for the user."""
EMBEDDING = "embedding"
_LEVELS = 127
SPEC = "given:"
"""Prefix of an encoder's spec that names embeddings kept on disk."""
MAX_NPY = 2 << 30
"""Most bytes of a NumPy file, and of its array as float64."""


_BROKEN = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    EOFError,
    OverflowError,
    MemoryError,
    RecursionError,
    TokenError,
)
"""Errors of NumPy on a header that is none: it is Python, and parsed as such."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of the responses of a set of pairs.

    Attributes:
        name: of the file they came in.
        set_id: the pairs they were matched to.
        ids: response ids (n,).
        vectors: one row per id (n, d), finite.
        rule: how rows were matched, in words.
        unknown: rows of the file whose id none of the pairs has.
        n_pairs: pairs with a vector on both sides.
        n_missing: pairs without.
        n_same: pairs whose two vectors are equal and have no direction.
    """

    name: str
    set_id: str
    ids: tuple[str, ...]
    vectors: Floats
    rule: str
    unknown: int
    n_pairs: int
    n_missing: int
    n_same: int

    @property
    def digest(self) -> str:
        """Of the pairs' id, ids and vectors, 16 hex digits."""
        found = hashlib.sha256("\x00".join((self.set_id, *self.ids)).encode("utf-8", "surrogatepass"))
        found.update(np.ascontiguousarray(self.vectors).tobytes())
        return found.hexdigest()[:16]

    @property
    def spec(self) -> str:
        """Names them as an encoder, once they are saved."""
        return f"{SPEC}{self.digest}"

    def counts(self) -> str:
        """Matches in one line."""
        parts = [
            f"{len(self.ids):,} vectors of {self.vectors.shape[1]:,} dimensions, matched by {self.rule}",
            f"{self.n_pairs:,} of {self.n_pairs + self.n_missing:,} pairs have both",
        ]
        if self.n_same:
            parts.append(f"{self.n_same:,} have two equal vectors, so no direction, and stay out of the audit")
        if self.unknown:
            parts.append(f"{self.unknown:,} rows belong to no response of these pairs")
        return "; ".join(parts) + "."


def read_embeddings(filename: str, content: bytes, found: Comparisons) -> Embeddings:
    """Read vectors and match them to the responses of a set of pairs.

    Args:
        filename: decides the format; it is not opened.
        content: its bytes.
        found: the pairs; texts that are equal under one prompt must have equal vectors.

    Raises:
        InputError: a format, id or entry that does not fit, named; or no pair with a direction is left.
    """
    ending = Path(filename).suffix.lower()
    if ending not in KINDS:
        raise InputError(f"{filename!r} is no file of embeddings. Allowed: {', '.join(KINDS)}.")
    if ending == ".npy":
        ids, vectors, rule = *_of_array(filename, content, found), "position"
    else:
        ids, vectors, rule = _of_table(filename, content)
    return _matched(filename, ids, vectors, rule, found)


def _of_array(name: str, content: bytes, found: Comparisons) -> tuple[list[str], Floats]:
    array = _array(name, content)
    n = len(found.comparisons)
    if found.left_out:
        raise InputError(
            f"{name!r} has no ids, and {sum(found.left_out.values())} rows of {found.name!r} were left out when the "
            f"pairs were read ({found.left_out}), so its rows cannot be matched by position. Save a table with ids."
        )
    if array.ndim == 3 and array.shape[1] == 2:
        array = array.reshape(2 * len(array), -1)
    if array.ndim != 2 or len(array) != 2 * n:
        raise InputError(
            f"{name!r} has the shape {array.shape}; {n:,} pairs need ({2 * n:,}, dimensions) with a and b of each pair "
            f"in turn, or ({n:,}, 2, dimensions)."
        )
    ids = [str(v) for row in found.comparisons[["response_a", "response_b"]].to_numpy() for v in row]
    _require_finite(name, ids, array)
    return ids, array


def _array(name: str, content: bytes) -> Floats:
    """The array of a NumPy file; its header must fit its size before anything is set aside for it."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    except _BROKEN as error:
        raise _no_array(name, error) from None
    if dtype.hasobject or dtype.kind not in "fiu":
        raise InputError(
            f"{name!r} holds {dtype}, not numbers. Files with Python objects (pickle) are never opened: save an array "
            "of floats."
        )
    entries = math.prod(shape)
    size = entries * dtype.itemsize
    if min(shape, default=0) < 0 or entries * 8 > MAX_NPY or size != len(content) - stream.tell():
        raise InputError(
            f"{name!r} says it holds an array of shape {shape}, which is {size:,} bytes; "
            f"{len(content) - stream.tell():,} are there, and at most {MAX_NPY:,} are read. The file is cut "
            "short or damaged: save it again."
        )
    stream.seek(0)
    try:
        return np.asarray(np.load(stream, allow_pickle=False), dtype=np.float64)
    except _BROKEN as error:
        raise _no_array(name, error) from None


def _no_array(name: str, error: Exception) -> InputError:
    return InputError(
        f"{name!r} is no readable NumPy file ({type(error).__name__}: {str(error)[:120]}). Save it with numpy.save."
    )


def _of_table(name: str, content: bytes) -> tuple[list[str], Floats, str]:
    raw = read_table(name, content)
    raw.require_certain(name, "Save the file again as UTF-8.")
    ids, rest, rule = _ids(name, raw.frame)
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise InputError(f"{name!r} has two vectors for response_id {shown(twice)}. Keep one.")
    if not ids:
        raise InputError(f"{name!r} holds no row.")
    vectors = _lists(name, ids, rest[EMBEDDING]) if EMBEDDING in rest.columns else _columns(name, ids, rest)
    return ids, vectors, rule


def _ids(name: str, frame: pd.DataFrame) -> tuple[list[str], pd.DataFrame, str]:
    """Response id of each row, the columns of the vectors, and the rule."""
    if "response_id" in frame.columns:
        return [str(v) for v in frame["response_id"]], frame.drop(columns="response_id"), "response_id"
    if not {"comparison_id", "side"} <= set(frame.columns):
        raise InputError(
            f"{name!r} does not say whose vectors it holds. It needs {RULES['csv, parquet and other tables']}. It has: "
            f"{listed(frame.columns)}."
        )
    ids = []
    for row, (pair, side) in enumerate(zip(frame["comparison_id"], frame["side"], strict=True), 1):
        read = PAIR_RULE.get(normalised(str(side)))
        if read is None or read.value not in ("a", "b"):
            raise InputError(f"{name!r}, row {row}: side is {shown(side)}; allowed: a, b.")
        ids.append(f"{pair}:{read.value}")
    return ids, frame.drop(columns=["comparison_id", "side"]), "comparison_id and side"


def _columns(name: str, ids: Sequence[str], frame: pd.DataFrame) -> Floats:
    if not len(frame.columns):
        raise InputError(f"{name!r} has ids but no vectors: a column {EMBEDDING}, or one for each dimension.")
    values: Floats = frame.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{name!r}: the vector of {shown(ids[row])} has {shown(frame.iloc[row, column])} in column "
            f"{shown(frame.columns[column])}; every entry must be a finite number."
        )
    return values


def _lists(name: str, ids: Sequence[str], cells: pd.Series) -> Floats:
    rows: list[Any] = []
    for response, cell in zip(ids, cells, strict=True):
        try:
            vector = json.loads(str(cell))
            rows.append([float(v) for v in vector])
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise InputError(
                f"{name!r}: the embedding of {shown(response)} is {shown(cell)}; it must be a list of numbers such as "
                "[0.1, -0.2]."
            ) from None
        if len(rows[-1]) != len(rows[0]) or not rows[0]:
            raise InputError(
                f"{name!r}: the vector of {shown(response)} has {len(rows[-1])} entries, that of {shown(ids[0])} has "
                f"{len(rows[0])}; all must have the same number, at least one."
            )
    made = np.array(rows, dtype=np.float64)
    _require_finite(name, ids, made)
    return made


def _require_finite(name: str, ids: Sequence[str], vectors: Floats) -> None:
    bad = np.argwhere(~np.isfinite(vectors))
    if len(bad):
        row, entry = bad[0]
        raise InputError(
            f"{name!r}: the vector of {shown(ids[row])} has {vectors[row, entry]} at entry {entry + 1}; every entry "
            "must be a finite number."
        )


def _matched(name: str, ids: Sequence[str], vectors: Floats, rule: str, found: Comparisons) -> Embeddings:
    """Keep what belongs to the pairs, give equal texts equal vectors, count what has no direction."""
    known = [str(v) for v in found.responses["response_id"]]
    at = {response: row for row, response in enumerate(ids)}
    rows = {response: at[response] for response in known if response in at}
    if not rows:
        raise InputError(
            f"None of the {len(ids):,} ids of {name!r} belongs to these pairs. The file has {listed(ids, 3)}; "
            f"the pairs have {listed(known, 3)}."
        )
    _share_twins(name, rows, vectors, found)
    sides = found.comparisons[["response_a", "response_b"]].astype(str).to_numpy().tolist()
    both = [(a, b) for a, b in sides if a in rows and b in rows]
    same = sum(bool(np.array_equal(vectors[rows[a]], vectors[rows[b]])) for a, b in both)
    if len(both) - same < 2:
        raise InputError(
            f"{name!r} gives {len(both)} of {len(sides)} pairs two vectors, {same} of them equal ones. A pair needs "
            "two different vectors, and an audit at least two such pairs."
        )
    kept = list(rows)
    unknown = len(set(ids) - set(known))
    return Embeddings(
        name, found.set_id, tuple(kept), vectors[[rows[r] for r in kept]], rule, unknown, len(both),
        len(sides) - len(both), same,
    )  # fmt: skip


def _share_twins(name: str, rows: dict[str, int], vectors: Floats, found: Comparisons) -> None:
    """Equal responses to one prompt share a vector: a twin without one takes it, twins that differ are refused."""
    first: dict[tuple[str, str], str] = {}
    texts = found.responses[["response_id", "item_id", "text"]].astype(str).to_numpy().tolist()
    for response, item, text in texts:
        if response not in rows:
            continue
        twin = first.setdefault((item, text), response)
        if not np.array_equal(vectors[rows[twin]], vectors[rows[response]]):
            raise InputError(
                f"{name!r}: {shown(twin)} and {shown(response)} are the same text under one prompt and have different "
                "vectors. One of them is at the wrong place."
            )
    for response, item, text in texts:
        if response not in rows and (item, text) in first:
            rows[response] = rows[first[item, text]]


def save_embeddings(found: Embeddings, root: Path) -> str:
    """Write them under `root`, by their digest; returns the spec of the encoder that reads them."""
    root.mkdir(parents=True, exist_ok=True)
    target = root / f"{found.digest}.parquet"
    about = {"name": found.name, "set_id": found.set_id}
    frame = pd.DataFrame({"response_id": list(found.ids), EMBEDDING: list(found.vectors)})
    table = frame.to_parquet(index=False)
    write_atomically(root / f"{found.digest}.json", json.dumps(about).encode())
    write_atomically(target, table)
    return found.spec


def load_embeddings(spec: str, root: Path) -> dict[str, Floats]:
    """Response id -> vector of saved embeddings, or of those that ship with pairs (`given:demo-llmbar`).

    Raises:
        InputError: there are none of that name, or they are damaged.
    """
    digest = spec.removeprefix(SPEC)
    if digest == DEMO_LLMBAR:
        return _unpacked(pd.read_parquet(get_settings().assets / "demo" / "llmbar" / "embeddings.parquet"))
    path = root / f"{digest}.parquet"
    if not (digest.isalnum() and path.is_file()):
        raise InputError(f"There are no embeddings {shown(spec)} on this machine. Give the file again.")
    try:
        frame = pd.read_parquet(path)
        vectors = np.stack(frame[EMBEDDING].to_list()).astype(np.float64)
        return dict(zip(frame["response_id"].astype(str), vectors, strict=True))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"The embeddings {spec!r} are damaged ({error}). Give the file again.") from None


def packed(vectors: dict[str, Floats]) -> pd.DataFrame:
    """Vectors in 8 bits a number, with the step of each: columns response_id, step, vector (bytes of int8)."""
    rows = []
    for response, vector in vectors.items():
        step = np.float32(np.abs(vector).max() / _LEVELS)
        rows.append({"response_id": response, "step": step, "vector": np.rint(vector / step).astype(np.int8).tobytes()})
    return pd.DataFrame(rows)


def _unpacked(table: pd.DataFrame) -> dict[str, Floats]:
    """The vectors of `packed`, each number within half a step."""
    columns = table[["response_id", "step", "vector"]].itertuples(index=False, name=None)
    return {str(r): np.frombuffer(held, dtype=np.int8).astype(np.float64) * float(step) for r, step, held in columns}


def list_embeddings(root: Path, set_id: str) -> dict[str, str]:
    """Spec and file name of the saved embeddings of a set of pairs, those that ship with it first."""
    found: dict[str, str] = {SPEC + set_id: "MiniLM, shipped with these pairs"} if set_id == DEMO_LLMBAR else {}
    for path in sorted(root.glob("*.json")) if root.is_dir() else ():
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            if about["set_id"] == set_id and path.with_suffix(".parquet").is_file():
                found[f"{SPEC}{path.stem}"] = str(about["name"])
        except (OSError, ValueError, KeyError):
            continue  # a damaged note must not hide the others
    return found
