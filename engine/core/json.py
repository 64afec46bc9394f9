"""JSON that every parser accepts: NaN and infinities become null, numpy numbers become plain ones.

And the bounds of what is read, JSON or TOML: nested no deeper than any code that walks through it can bear.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MAX_DEPTH = 100
"""Most levels of lists and objects inside one another in what is read."""


def check_depth(value: Any) -> None:
    """Raises ValueError where lists and objects stand inside one another more than `MAX_DEPTH` levels deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def read_toml(content: bytes | str) -> dict[str, Any]:
    """A TOML file.

    Raises:
        ValueError: it is not UTF-8 or no TOML, or a number or its nesting is beyond bounds; the text says which.
    """
    try:
        found = tomllib.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise ValueError("a number has too many digits") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep") from None
    check_depth(found)
    return found


def plain(value: Any) -> Any:
    """The value with only JSON's own types; what is undefined (NaN, infinity, missing) is None."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        return [plain(v) for v in value]
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, str):
        return str(value)  # an enum's plain value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Path):
        return value.name  # an absolute path would carry a user's name into a shared file
    return None if value != value else str(value)


def dumps(value: Any, *, indent: int | None = None) -> str:
    """One strict JSON document."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
