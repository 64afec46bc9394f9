"""Numbers and names as they stand in a figure: three significant digits, true minus signs, inert labels."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence

NO_VARIATION, ONE_CLUSTER = "no variation", "no interval: one item"
"""Methods of the metrics table that stand for a missing interval (a test holds them to engine.metrics)."""
MINUS = "\N{MINUS SIGN}"
THIN = "\N{NARROW NO-BREAK SPACE}"
MISSING = "\N{EN DASH}"
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LINE = 60
"""Characters of small print that fit into a figure 390 px wide."""


def three_digits(x: float, *, signed: bool = False) -> str:
    """The number to three significant digits; `signed` puts a plus before positive ones.

    0.5 is "0.500", 1234 is "1 230" with a thin space, 0.0000123 is "1.23 × 10⁻⁵", NaN is a dash.
    """
    if not math.isfinite(x):
        return MISSING
    if x == 0:
        return "0"
    mantissa, exponent = f"{abs(x):.2e}".split("e")
    power = int(exponent)
    if -4 <= power < 6:
        return fixed(float(f"{x:.2e}"), max(0, 2 - power), signed=signed)
    body = f"{mantissa}{THIN}×{THIN}10{str(power).translate(_SUPERSCRIPTS)}"
    return _sign(x, signed) + body


def fixed(x: float, decimals: int, *, signed: bool = False) -> str:
    """The number with that many decimals, a true minus sign and thin spaces between thousands."""
    if not math.isfinite(x):
        return MISSING
    body = f"{abs(x):,.{decimals}f}".replace(",", THIN)
    return (_sign(x, signed) if body.strip("0.") else "") + body


def count(n: int) -> str:
    """A whole number in full, thousands set apart by thin spaces."""
    return fixed(n, 0)


def decimals_for(*numbers: float) -> int:
    """Decimals that give the largest of the numbers three significant digits; the others follow it.

    Three decimals at most while the largest reaches 0.01: a fourth says nothing about a score.
    """
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    if largest < 1e-6:
        return 2
    return min(3 if largest >= 0.01 else 6, max(0, 2 - int(f"{largest:.2e}".split("e")[1])))


def interval_text(
    value: float,
    lower: float,
    upper: float,
    *,
    signed: bool = False,
    unit: str = "",
    method: str = "",
    n_clusters: int = 0,
) -> str:
    """Value and interval with the same decimals throughout: 0.512 [0.382, 0.661].

    A unit stands after the value. Without bounds it says why instead, as far as `method` tells:
    "0 (no variation in 12 items)".
    """
    if not math.isfinite(value):
        return MISSING
    after = f"{THIN}{unit}" if unit else ""
    if math.isnan(lower) or math.isnan(upper):
        why = why_no_interval(method, n_clusters)
        return three_digits(value, signed=signed) + after + (f" ({why})" if why else "")
    places = decimals_for(value, lower, upper)
    return f"{fixed(value, places, signed=signed)}{after} {bounds_text(lower, upper, places)}"


def bounds_text(lower: float, upper: float, decimals: int) -> str:
    """An interval alone: [0.38, 0.66]."""
    return f"[{fixed(lower, decimals)}, {fixed(upper, decimals)}]"


def why_no_interval(method: str, n_clusters: int) -> str:
    """The reason that stands in place of an interval; empty where there is none to give."""
    if method == NO_VARIATION:
        return f"no variation in {plural(n_clusters, 'item')}"
    if method == ONE_CLUSTER:
        return "one item, no interval"
    return ""


def level_text(level: float) -> str:
    """A confidence level in percent, with a thin space."""
    return f"{100 * level:g}{THIN}%"


def listed(parts: Sequence[str]) -> str:
    """Several things in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def plural(n: int, noun: str) -> str:
    """A count and its noun: 1 item, 12 items."""
    return f"{count(n)} {noun}{'' if n == 1 else 's'}"


def escape(text: str) -> str:
    """Text that Plotly shows as it is: its labels are pseudo-HTML, so `<` and `&` would act."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def label(text: object, limit: int = 24) -> str:
    """A user's text as one short inert line: control characters out, spaces collapsed, cut with an ellipsis."""
    if text is None or (isinstance(text, float) and math.isnan(text)):
        return MISSING
    plain = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in str(text))
    plain = " ".join(plain.split()) or MISSING
    return escape(plain if len(plain) <= limit else plain[: limit - 1].rstrip() + ELLIPSIS)


def small_print(*parts: str, line: int = _LINE) -> list[str]:
    """Parts of a caption joined by middle dots, in lines that fit a phone, or a width of so many characters.

    The parts must be inert already.
    """
    lines: list[str] = []
    for part in filter(None, parts):
        if lines and len(lines[-1]) + 3 + len(part) <= line:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, line, break_long_words=False, break_on_hyphens=False)
    return lines


def _sign(x: float, signed: bool) -> str:
    return MINUS if x < 0 else "+" if signed and x > 0 else ""
