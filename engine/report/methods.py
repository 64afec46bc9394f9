"""Formulas with source and limits, and benchmarks, for the page What holds.

Words stand in assets/methods, numbers in assets/results, as the committed benchmarks wrote them.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.errors import EngineError

Model = TypeVar("Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Formula(_Strict):
    """One formula: KaTeX, unit, what it means, where it comes from, what it cannot do, and the page that shows it."""

    topic: str
    name: str
    tex: str
    unit: str
    text: str
    source: str
    limits: str
    page: str


class Bench(_Strict):
    """One number of a benchmark, beside the plain way and the bar it was built for (paths into its JSON, dotted)."""

    command: str
    what: str
    value: str
    unit: str
    plain: str = ""
    plain_is: str = ""
    floor: str = ""
    at_most: float | None = None
    least_ratio: float | None = None


def formulas(assets: Path) -> list[Formula]:
    """All formulas, in order.

    Raises:
        EngineError: the file is missing or wrong.
    """
    return _read(assets / "methods" / "formulas.toml", "formula", Formula)


def benches(assets: Path) -> pd.DataFrame:
    """Every benchmark number: value, plain, ratio (above 1 beats the plain way), floor, bar, met, device.

    Raises:
        EngineError: a file is missing or wrong, or holds no such number.
    """
    lines = (assets / "results" / "bench.jsonl").read_text(encoding="utf-8").splitlines()
    results = {one["command"]: one for one in map(json.loads, lines)}
    rows = []
    for bench in _read(assets / "methods" / "benches.toml", "bench", Bench):
        if bench.command not in results:
            raise EngineError(f"bench.jsonl has no line of {bench.command!r}.")
        found = results[bench.command]
        value = _at(found, bench.value)
        plain = _at(found, bench.plain) if bench.plain else float("nan")
        ratio = value / plain if bench.unit == "1/s" else plain / value
        bar = f"at most {bench.at_most:g} {bench.unit}" if bench.at_most is not None else ""
        met: bool | None = value <= bench.at_most if bench.at_most is not None else None
        if bench.least_ratio is not None:
            bar, met = f"at least {bench.least_ratio:g}x", ratio >= bench.least_ratio
        rows.append(
            {
                "what": bench.what,
                "value": value,
                "unit": bench.unit,
                "plain": plain,
                "plain_is": bench.plain_is,
                "ratio": ratio,
                "floor": _at(found, bench.floor) if bench.floor else float("nan"),
                "bar": bar,
                "met": met,
                "device": found["device"],
                "date": found["date"],
                "command": bench.command.removesuffix(" --json"),
            }
        )
    return pd.DataFrame(rows)


def _read(path: Path, name: str, model: type[Model]) -> list[Model]:
    try:
        return [model.model_validate(one) for one in tomllib.loads(path.read_text(encoding="utf-8"))[name]]
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise EngineError(f"{path.name} cannot be used: {error}. Restore it from the project.") from None


def _at(found: Any, path: str) -> float:
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return float(found)
