"""Frozen sets: the prompts and verdicts of a run kept in one JSON file, against which a judge is held later.

The file holds what was asked word for word, what was answered with its probabilities, the judge (spec, fingerprint,
prompts with their digests, device), the data's digest and a digest of the whole. It is written sorted and indented, so
that it can live in a repository.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.core.errors import InputError, shown
from engine.core.files import make_folder, read_file, write_atomically
from engine.core.json import check_depth, plain
from engine.core.schema import VERDICTS
from engine.core.settings import Settings
from engine.runs.compare import same_responses
from engine.runs.drift import Answers
from engine.runs.folder import now

FORMAT = "judgescope-frozen-1"
FILE_NAME = "frozen.json"
ITEMS = 200
"""Items of a frozen set unless another number is given: a change of 5 points of 100 is seen there as a rule."""
STRATA = ("none", "score", "group")
"""Ways to draw the items: all alike, by thirds of the judge's own mean number, by the data's groups."""
_MANIFEST = ("run_id", "study", "kind", "config", "data", "judge", "versions")
_NEEDED = {"verdict_id", "item_id", "response_id", "protocol", "task"}


def draw_items(
    verdicts: pd.DataFrame, n: int, *, by: str = "none", groups: Mapping[str, str] | None = None, seed: int = 0
) -> list[str]:
    """Items of a frozen set, in their order in the table.

    Strata get their share of the n items by largest remainders, so that every item has the same chance as near as whole
    numbers allow and means need no weights.

    Args:
        verdicts: table `verdicts` of the run.
        n: how many; all where there are fewer.
        by: one of `STRATA`.
        groups: item to its group, for `group`.
        seed: of the draw.

    Raises:
        InputError: n below 2, an unknown way, or items without a group.
    """
    if n < 2:
        raise InputError(f"--items {n}: a frozen set needs at least 2 items, since items are what intervals rest on.")
    if by not in STRATA:
        raise InputError(f"--by {shown(by)}: allowed are {', '.join(STRATA)}.")
    items = [str(i) for i in dict.fromkeys(verdicts["item_id"])]
    if len(items) <= n:
        return items
    rng = np.random.default_rng(seed)
    strata = _strata(verdicts, items, by, groups or {})
    names = sorted(set(strata))
    sizes = np.array([strata.count(name) for name in names])
    exact = n * sizes / len(items)
    take = np.floor(exact).astype(int)
    for k in np.argsort(-(exact - take), kind="stable")[: n - int(take.sum())]:
        take[k] += 1
    chosen: set[str] = set()
    for name, count in zip(names, take, strict=True):
        own = [item for item, stratum in zip(items, strata, strict=True) if stratum == name]
        chosen |= {own[i] for i in rng.choice(len(own), size=int(count), replace=False)}
    return [item for item in items if item in chosen]


def _strata(verdicts: pd.DataFrame, items: Sequence[str], by: str, groups: Mapping[str, str]) -> list[str]:
    if by == "group":
        if missing := [item for item in items if not groups.get(item)]:
            raise InputError(f"--by group: {len(missing)} items have no group, {shown(missing[0])} first. Take score.")
        return [groups[item] for item in items]
    if by == "score":
        number = verdicts["score"].fillna(verdicts["p_a"]).fillna(verdicts["p_yes"])
        means = number.groupby(verdicts["item_id"].astype(str)).mean().reindex(list(items))
        thirds = np.digitize(means, np.nanquantile(means, [1 / 3, 2 / 3])) if means.notna().any() else [0] * len(items)
        return ["unread" if pd.isna(m) else str(t) for m, t in zip(means, thirds, strict=True)]
    return [""] * len(items)


def frozen(
    name: str,
    manifest: Mapping[str, Any],
    verdicts: pd.DataFrame,
    items: Collection[str],
    *,
    requests: Sequence[dict[str, Any]] = (),
    again: Sequence[pd.DataFrame] = (),
    sample: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Content of a frozen set, ready for `write_frozen`.

    Args:
        name: for people.
        manifest: of the run.
        verdicts: table `verdicts` of the run; rows of other items are left out.
        items: ids of the items that are kept.
        requests: calls word for word, each with its `verdict_id`.
        again: tables of the same calls, asked anew.
        sample: how the items were drawn.
    """
    own = set(items)
    about = {key: manifest[key] for key in _MANIFEST if key in manifest}
    body = {
        "format": FORMAT, "name": name, "made": now(), "sample": dict(sample or {}), "manifest": about,
        "requests": [r for r in requests if r["item_id"] in own],
        "verdicts": _records(verdicts, own), "again": [_records(table, own) for table in again],
    }  # fmt: skip
    body = plain(body)
    return {**body, "digest": digest_of(body)}


def _records(verdicts: pd.DataFrame, items: Collection[str]) -> list[dict[str, Any]]:
    rows = plain(verdicts[verdicts["item_id"].astype(str).isin(items)].to_dict("records"))
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of a frozen set without its own digest, of sorted JSON."""
    body = {key: value for key, value in content.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_frozen(content: Mapping[str, Any], out: Path) -> Path:
    """Write a frozen set to a file, or as `frozen.json` into a folder; returns where it lies.

    Raises:
        WriteError: it cannot be written.
    """
    path = out if out.suffix == ".json" and not out.is_dir() else out / FILE_NAME
    make_folder(path.parent)
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, indent=1)
    write_atomically(path, text.encode("ascii") + b"\n")
    return path


def is_frozen(path: Path) -> bool:
    """A file or folder that looks like a frozen set."""
    return (path.is_file() and path.suffix == ".json") or (path / FILE_NAME).is_file()


def read_frozen(path: Path) -> Answers:
    """A frozen set from its file or folder.

    Raises:
        InputError: it is no frozen set, of a newer format, damaged, or changed since it was made.
    """
    file = path / FILE_NAME if path.is_dir() else path
    try:
        content = json.loads(read_file(file).decode("utf-8"))
        check_depth(content)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{shown(file.name)} is no frozen set: {str(error)[:120]}. Make one with drift freeze."
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        has = shown(content.get("format")) if isinstance(content, dict) else "no object"
        raise InputError(f"{shown(file.name)} is no frozen set of this version: its format is {has}, not {FORMAT}.")
    if content.get("digest") != digest_of(content):
        raise InputError(
            f"The frozen set {shown(file.name)} was changed since it was made: its digest does not fit its content. "
            "Take the file as it was, or freeze the run again."
        )
    try:
        tables = [_table(rows) for rows in (content["verdicts"], *content["again"])]
        name, manifest = f"{content['name']} (frozen {content['made'][:10]})", dict(content["manifest"])
        requests = tuple(dict(r) for r in content["requests"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"The frozen set {shown(file.name)} is damaged: {error}. Freeze the run again.") from None
    if any(not set(r) >= _NEEDED for r in requests):
        raise InputError(
            f"The frozen set {shown(file.name)} is damaged: a request is incomplete. Freeze the run again."
        )
    manifest["frozen"] = {"digest": content["digest"], "sample": content["sample"]}
    return Answers(name, manifest, tables[0], tuple(tables[1:]), requests)


def _table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    names = [column.name for column in VERDICTS.columns]
    return VERDICTS.conform(pd.DataFrame([{name: row.get(name) for name in names} for row in rows], columns=names))


def same_texts(base: Answers, new: Answers, settings: Settings) -> set[str] | None:
    """Ids of the responses that are the same text on both sides; None where both rest on one data set.

    Texts come from the frozen requests, else from the data sets on this machine. Where a side has neither (a recording
    without texts) ids are all there is, and they are believed.
    """
    ids = [str(a.manifest.get("data", {}).get("dataset_id") or "") for a in (base, new)]
    digests = [str(a.manifest.get("data", {}).get("digest") or "") for a in (base, new)]
    if ids[0] == ids[1] and (digests[0] == digests[1] or not all(digests)):
        return None
    if base.requests and new.requests:
        texts = [
            {_called(r): tuple(r.get(k, "") for k in ("context", "response", "response_b")) for r in a.requests}
            for a in (base, new)
        ]
        shared = [r for r in base.requests if texts[1].get(_called(r)) == texts[0][_called(r)]]
        return {i for r in shared for i in (r["response_id"], r.get("response_b_id", "")) if i}
    if not all(ids):
        return None
    return same_responses(*ids, datasets=settings.datasets, comparisons=settings.comparisons)


def _called(request: Mapping[str, Any]) -> str:
    return str(request["verdict_id"])
