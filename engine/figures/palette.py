"""Colours as values: ten categorical ones, the meaning of seven of them, and the roles of everything else.

The ten were found by a search that maximised the smallest pairwise OKLab distance in normal vision and under
simulated deuteranopia, protanopia and tritanopia (Machado, Oliveira and Fernandes 2009, severity 1), with
hue and lightness held near the names below and a contrast of 3:1 or more against the page. A test repeats the
check. Greyscale is served by shape: before is hollow, after is solid.
"""

from __future__ import annotations

from typing import Literal

Mode = Literal["light", "dark", "print"]
MODES: tuple[Mode, ...] = ("light", "dark", "print")

MEANINGS = ("clean", "attacked", "defended", "human", "unread", "high", "low")
"""Blue, vermilion, teal, gold, grey, purple, brown: the first seven of the palette, one meaning each."""

_ON_LIGHT = (
    "#2c5ac5",
    "#cf4800",
    "#11a295",
    "#c4860c",
    "#63686a",
    "#633498",
    "#54361a",
    "#f7598a",
    "#518753",
    "#0c4b54",
)
_ON_DARK = (
    "#4da2f6",
    "#f26429",
    "#49d8d1",
    "#febc14",
    "#9ba2a5",
    "#8f5ae2",
    "#8b5e2e",
    "#bd5876",
    "#bdeeb0",
    "#188aa8",
)
PALETTE: dict[Mode, tuple[str, ...]] = {"light": _ON_LIGHT, "dark": _ON_DARK, "print": _ON_LIGHT}

MEANING: dict[Mode, dict[str, str]] = {mode: dict(zip(MEANINGS, PALETTE[mode], strict=False)) for mode in MODES}

ROLES: dict[Mode, dict[str, str]] = {
    "light": {
        "background": "#ffffff",
        "ink": "#1b1e27",
        "muted": "#5a6170",
        "line": "#8b92a0",
        "grid": "#e8eaee",
        "faint": "#dce6f9",
        "blank": "#f1f2f4",
        "below": "#9dbbee",
        "zero": "#fbfaf8",
        "above": "#f3a57c",
    },
    "dark": {
        "background": "#0e1117",
        "ink": "#eceef3",
        "muted": "#a8b0be",
        "line": "#6d7686",
        "grid": "#252b37",
        "faint": "#142843",
        "blank": "#171c26",
        "below": "#1d4f91",
        "zero": "#1c2230",
        "above": "#a2420f",
    },
    "print": {
        "background": "#ffffff",
        "ink": "#000000",
        "muted": "#3a3a3a",
        "line": "#6b6b6b",
        "grid": "#e2e2e2",
        "faint": "#f2f5fc",
        "blank": "#f4f4f4",
        "below": "#b5ccf3",
        "zero": "#fffffe",
        "above": "#f6b896",
    },
}
"""Colours that are no data: page, text, rules, the pale fill of "before", empty cells, ends of the heat scale."""


def swap_table(target: Mode) -> dict[str, str]:
    """Every colour of the other modes (lower case) to its counterpart in the target mode."""
    table: dict[str, str] = {}
    for mode in MODES:
        table.update(dict(zip(PALETTE[mode], PALETTE[target], strict=True)))
        table.update({ROLES[mode][role]: ROLES[target][role] for role in ROLES[mode]})
    return table
