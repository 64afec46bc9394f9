"""Content of the Methods page: formulas with source and limits, published findings beside ours, and benchmarks.

Words stand in assets/methods, numbers in assets/results, as the committed studies and benchmarks wrote them: a
finding names its table and row, so no number is written twice.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.errors import EngineError

Seen = Literal["holds", "the other way", "not seen"]
Model = TypeVar("Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Formula(_Strict):
    """One formula: KaTeX, what it means, where it comes from, what it cannot do, and the page that shows it."""

    topic: str
    name: str
    tex: str
    text: str
    source: str
    limits: str
    page: str


class Finding(_Strict):
    """A published finding, and the row of a result table that speaks to it.

    Attributes:
        where: column to value; an empty value means the column is empty there.
        value: columns of the estimate, its interval and its n.
        expects: on which side of `bound` the whole interval lies if the finding holds.
        beside: differences in `where` for a second row that is shown and decides nothing; empty where there is none.
        beside_is: name of that second row.
    """

    paper: str
    claim: str
    published: str
    table: str
    where: dict[str, str | float]
    data: str
    unit: str
    expects: Literal["above", "below"]
    bound: float
    remark: str
    command: str
    value: str = "value"
    lower: str = "lower"
    upper: str = "upper"
    count: str = "n"
    beside: dict[str, str | float] = {}
    beside_is: str = ""


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


def findings(assets: Path) -> pd.DataFrame:
    """Every finding with its row: the words of `Finding`, value, lower, upper, n, p_value, seen and device.

    `p_value` is NaN where the table has no test for the row. `beside_value`, `beside_lower`, `beside_upper`, `beside_n`
    and `beside_p` are of the second row, NaN where there is none.

    Raises:
        EngineError: a file is missing or wrong, or a finding fits no row or several.
    """
    rows = []
    for one in _read(assets / "methods" / "findings.toml", "finding", Finding):
        row = _row(assets / "results" / one.table, one, one.where)
        value, lower, upper = (float(row[name]) for name in (one.value, one.lower, one.upper))
        beside: Any = _row(assets / "results" / one.table, one, one.where | one.beside) if one.beside else {}
        rows.append(
            {
                "paper": one.paper,
                "claim": one.claim,
                "published": one.published,
                "data": one.data,
                "value": value,
                "lower": lower,
                "upper": upper,
                "n": int(row[one.count]),
                "p_value": float(row.get("p_value", float("nan"))),
                "unit": one.unit,
                "bound": one.bound,
                "seen": seen(lower, upper, one.expects, one.bound),
                "remark": one.remark,
                "command": one.command,
                "device": str(row["device"]),
                "beside_is": one.beside_is,
                **{
                    f"beside_{name}": float(beside.get(column, float("nan")))
                    for name, column in (
                        ("value", one.value),
                        ("lower", one.lower),
                        ("upper", one.upper),
                        ("n", one.count),
                        ("p", "p_value"),
                    )
                },
            }
        )
    return pd.DataFrame(rows)


def seen(lower: float, upper: float, expects: Literal["above", "below"], bound: float) -> Seen:
    """True where an interval lies on the side that a finding expects."""
    sides: tuple[Seen, Seen] = ("holds", "the other way") if expects == "above" else ("the other way", "holds")
    if lower > bound:
        return sides[0]
    return sides[1] if upper < bound else "not seen"


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


def _row(path: Path, finding: Finding, where: dict[str, str | float]) -> pd.Series[Any]:
    table = pd.read_csv(path)
    fits = pd.Series(data=True, index=table.index)
    for column, wanted in where.items():
        fits &= table[column].isna() if wanted == "" else table[column].eq(wanted)
    if fits.sum() != 1:
        raise EngineError(f"{path.name} has {fits.sum()} rows for {finding.claim!r}; exactly one is needed.")
    return table[fits].iloc[0]


def _at(found: Any, path: str) -> float:
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return float(found)
