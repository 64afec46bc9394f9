"""Data sets on disk, one folder each (parquet tables and a manifest, named by content); and the demo."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import make_folder, writing
from engine.core.schema import ITEMS, RESPONSES, Task
from engine.core.settings import get_settings
from engine.data.dataset import Dataset, build_dataset, content_digest, summarize
from engine.data.raw import Problem, RawTable
from engine.data.reading import read_table

DEMO_DIALOGUE = "demo-dialogue"
"""12 dialogues with four responses each."""
DEMO_SUMMARY = "demo-summary"
"""12 articles with five summaries each, facts dropped or falsified in some."""
DEMO_INSTRUCTION = "demo-instruction"
"""12 instructions with three checkable format rules each, answered by six systems."""
DEMO_VERIFICATION = "demo-verification"
"""60 questions with a reference, over four answer types, each with a right and a wrong response."""


@dataclass(frozen=True)
class Demo:
    """A bundled data set, of quality made to differ.

    Attributes:
        name: what it is called.
        task: what its items ask for.
        levels: constructed levels (column quality), best first; its card says which pairs are ordered.
    """

    name: str
    task: Task
    levels: tuple[str, ...]


DEMOS: dict[str, Demo] = {
    DEMO_DIALOGUE: Demo(
        "Demo: 12 dialogues, four quality levels", Task.DIALOGUE, ("good", "generic", "off_topic", "broken")
    ),
    DEMO_SUMMARY: Demo(
        "Demo: 12 articles, five kinds of summary",
        Task.SUMMARY,
        ("faithful", "dropped", "falsified", "vague", "offtopic"),
    ),
    DEMO_INSTRUCTION: Demo(
        "Demo: 12 instructions, zero to three rules met",
        Task.INSTRUCTION,
        ("rules_3", "rules_2", "rules_1", "rules_0"),
    ),
    DEMO_VERIFICATION: Demo(
        "Demo: 60 questions, right and wrong solutions", Task.VERIFICATION, ("correct", "incorrect")
    ),
}
"""The bundled data sets; `demo-X` lies in assets/demo/X."""

DEMO_NAMES = {dataset_id: demo.name for dataset_id, demo in DEMOS.items()}
"""The bundled data sets and what they are called."""

_DEMO_FIELDS = ("item_id", "response_id", "context", "reference", "group", "system", "quality", "rules")

_ID = re.compile(r"[0-9a-f]{16}")
_TABLES = {"items": ITEMS, "responses": RESPONSES}
_MANIFEST = "manifest.json"
_MOST_ERRORS = 20
"""Errors that are named one by one."""


def save_dataset(dataset: Dataset, root: Path) -> Path:
    """Write a data set under `root`, whole or not at all; saving the same content again renames it.

    Returns:
        Its folder, `root/<dataset_id>`.

    Raises:
        InputError: it has problems of severity `error`, or it is a bundled one.
        WriteError: it cannot be written.
    """
    if dataset.errors:
        errors = "\n".join(f"- {p.where}: {p.what} {p.fix}" for p in dataset.errors[:_MOST_ERRORS])
        if (more := len(dataset.errors) - _MOST_ERRORS) > 0:
            errors += f"\n- and {more:,} more"
        raise InputError(f"The data set {dataset.name!r} cannot be saved as long as it has errors:\n{errors}")
    target = _folder(dataset.dataset_id, root)
    make_folder(root)
    with writing(target):
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
        try:
            dataset.items.to_parquet(made / "items.parquet", index=False)
            dataset.responses.to_parquet(made / "responses.parquet", index=False)
            (made / _MANIFEST).write_text(json.dumps(_manifest(dataset), indent=1), encoding="utf-8")
            _move(made, target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return target


def load_dataset(dataset_id: str, root: Path) -> Dataset:
    """Read a saved data set, or a bundled one.

    Args:
        dataset_id: as in `list_datasets`, or a key of `DEMOS`.
        root: the folder of saved data sets (`settings.datasets`).

    Raises:
        InputError: there is no such data set, or its files are damaged.
    """
    if dataset_id in DEMO_NAMES:
        demo = _demo(dataset_id)
        # the cached frames are shared by every caller, who may add columns to theirs
        return replace(demo, items=demo.items.copy(), responses=demo.responses.copy())
    folder = _folder(dataset_id, root)
    if not (folder / _MANIFEST).is_file():
        known = [*DEMO_NAMES, *(m["dataset_id"] for m in list_datasets(root))]
        raise InputError(
            f"There is no data set {shown(dataset_id)}. There are: {listed(known)}. Upload the file again."
        )
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        items, responses = (
            table.conform(pd.read_parquet(folder / f"{name}.parquet")) for name, table in _TABLES.items()
        )
        problems = [Problem(**p) for p in manifest["problems"]]
        dataset = Dataset(
            dataset_id, manifest["name"], manifest["task"], items, responses, problems, manifest["source"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The data set {dataset_id!r} is damaged ({error}). Delete its folder and upload the file again."
        ) from error
    if content_digest(items, responses) != dataset_id:
        raise InputError(
            f"The tables of data set {dataset_id!r} were changed after it was saved, so results under this "
            "id would not be about them. Upload the changed file as a data set of its own."
        )
    return dataset


def list_datasets(root: Path) -> list[dict[str, Any]]:
    """The manifests of the saved data sets, newest first; the bundled ones (`DEMO_NAMES`) are not among them.

    Keys: dataset_id, name, task, created (ISO 8601, UTC), summary (see `dataset.Summary`), problems, source.
    """
    return sorted(_manifests(root), key=lambda m: str(m["created"]), reverse=True)


def _manifests(root: Path) -> Iterator[dict[str, Any]]:
    for path in root.glob(f"*/{_MANIFEST}") if root.is_dir() else ():
        if not _ID.fullmatch(path.parent.name):
            continue
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # a damaged folder must not hide the others; loading it by name says what is wrong
        if isinstance(manifest, dict) and {"dataset_id", "name", "created"} <= manifest.keys():
            yield manifest


def _manifest(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset_id": dataset.dataset_id,
        "name": dataset.name,
        "task": dataset.task,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
        "summary": asdict(summarize(dataset)),
        "problems": [p.as_dict() for p in dataset.problems],
        "source": dataset.source,
    }


def _folder(dataset_id: str, root: Path) -> Path:
    """The folder of an id; only 16 hex digits pass, so that no id can name a place outside `root`."""
    if not _ID.fullmatch(dataset_id):
        raise InputError(
            f"{shown(dataset_id)} is not the id of a data set: 16 hex digits, or one of {', '.join(DEMO_NAMES)}."
        )
    return root / dataset_id


def _move(made: Path, target: Path) -> None:
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        # The same content is there already: put each file in its place, which also mends a damaged one.
        for path in made.iterdir():
            path.replace(target / path.name)


@lru_cache(maxsize=len(DEMOS))
def _demo(dataset_id: str) -> Dataset:
    folder = get_settings().assets / "demo" / dataset_id.removeprefix("demo-")
    items, responses = (read_table(name, (folder / name).read_bytes()) for name in ("items.csv", "responses.csv"))
    raw = _joined(responses, items)
    mapping = {"response": "text", **{f: f for f in _DEMO_FIELDS if f in raw.frame.columns}}
    dataset = build_dataset(raw, mapping, task=DEMOS[dataset_id].task, name=DEMOS[dataset_id].name)
    return replace(dataset, dataset_id=dataset_id)


def _joined(responses: RawTable, items: RawTable) -> RawTable:
    """The responses with their item's columns, as one file would hold them."""
    frame = responses.frame.merge(items.frame, on="item_id", how="left", validate="many_to_one")
    return replace(responses, frame=frame, problems=[*responses.problems, *items.problems])
