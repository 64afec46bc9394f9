"""JSON that every parser accepts: NaN and infinities become null, numpy numbers become plain ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def plain(value: Any) -> Any:
    """The value with only JSON's own types; what is undefined (NaN, infinity, missing) is None."""
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
