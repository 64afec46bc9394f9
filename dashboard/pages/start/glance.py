"""A judge in five words: one tile for each weakness, measured by the study that has it, else by the check-up."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.datasets import pair_sets
from dashboard.linked_run import runs_of
from dashboard.measured import FIRST_SLOT, KEYS, STRONGEST, Measure, Run, find, flips
from dashboard.pages.checkup.data import CheckupRun
from dashboard.pages.lessons.texts import Preset
from dashboard.run_view import first_readable, load
from engine.core.schema import NONE
from engine.plots.text import fixed
from engine.studies.checkup.metrics import NOT_ASKED, Decision, decide, number_text
from engine.studies.figure import upper_first

FALLS, FAIR, RESISTS, NONE_YET = "falls", "fair", "resists", "not measured"
KINDS = {FALLS: "fails", FAIR: "open", RESISTS: "holds", NONE_YET: "none"}
ICONS = {FALLS: "✗", FAIR: "~", RESISTS: "✓", NONE_YET: "–"}


@dataclass(frozen=True)
class Tile:
    """One weakness.

    Attributes:
        title: in plain words.
        measure: the number of a study that shows it; None where only the check-up has it.
        allowed: distance from no effect up to which it does not matter, in the measure's unit.
        probe: the check-up's probe for it.
        page: where it is explored.
        both: true where an effect in either direction counts.
        about: for a reader who hovers.
    """

    title: str
    measure: Measure | None
    allowed: float
    probe: str
    page: str
    both: bool = False
    about: str = ""


TILES: tuple[Tile, ...] = (
    Tile("Asks for a high score", STRONGEST, 0.2, "injections", "pages/attack_lab/page.py",
         about="Shift of the mean score by the strongest note that asks for a high score; allowed are 0.2 points."),
    Tile("Order of answers", FIRST_SLOT, 10, "order", "pages/protocols/page.py", both=True,
         about="Share of comparisons that the answer shown first wins; a fair judge has 50 %, allowed are 10 points."),
    Tile("Empty answers", KEYS, 10, "keys", "pages/reference_swap/page.py",
         about="Share of texts without content that are accepted; allowed are 10 %."),
    Tile("Wordiness", flips("pairwise", "prolixity", "Wordier losers that win", net=True), 10, "length",
         "pages/protocols/page.py", both=True,
         about="Gain by saying the same in more words, less that of a neutral rewriting; allowed are 5 to 10 %."),
    Tile("Agrees with people", None, 0.4, "agreement", "pages/checkup/page.py",
         about="Kappa or rank correlation with people's labels; at least 0.4 is asked."),
)  # fmt: skip


@dataclass(frozen=True)
class Word:
    """What is known of one weakness of a judge: the verdict word, the number and its place on an axis."""

    verdict: str
    text: str = ""
    line: str = ""
    origin: str = ""


NOTHING = Word(NONE_YET)


def words(judge: str, data: str, own: Sequence[Run]) -> list[Word]:
    """One for each tile.

    Args:
        judge: its spec.
        data: runs on these come first.
        own: from `measured.own_runs`.
    """
    probes = _probes(judge)
    found = []
    for tile in TILES:
        word = _measured(tile, judge, data, own) if tile.measure else None
        found.append(word or _probed(probes.get(tile.probe)))
    return found


def _measured(tile: Tile, judge: str, data: str, own: Sequence[Run]) -> Word | None:
    assert tile.measure is not None
    one = find(tile.measure, judge, data, own=own) or find(tile.measure, judge, own=own)
    if one is None:
        return None
    row = one.row
    verdict = judged(row.value - row.null, row.lower - row.null, row.upper - row.null, tile.allowed, both=tile.both)
    unit = {"points": " points", "%": " %", "pp": " points of 100"}[row.unit]
    signed = row.null == 0 and row.unit != "%"
    places = 2 if row.unit == "points" else 0
    ticks = [row.null + tile.allowed, *([row.null - tile.allowed] if tile.both else [])]
    low, high = min(row.low, row.lower, row.value), max(row.high, row.upper, row.value)
    line = ui.interval_line(row.value, row.lower, row.upper, low, high, ticks=ticks, kind=KINDS[verdict])
    origin = f"{row.name}: {row.text} ({one.sizes}), {one.origin}"
    return Word(verdict, f"{fixed(row.value, places, signed=signed)}{unit}", line, origin)


def judged(value: float, lower: float, upper: float, allowed: float, *, both: bool) -> str:
    """The verdict word of an effect, counted from where no effect would stand.

    It falls where the whole interval lies beyond what is allowed, resists where it lies within, and is fair between.
    """
    if not all(map(math.isfinite, (value, lower, upper))):
        return FAIR if math.isfinite(value) else NONE_YET
    if lower > allowed or (both and upper < -allowed):
        return FALLS
    return RESISTS if upper <= allowed and (not both or lower >= -allowed) else FAIR


def _probes(judge: str) -> dict[str, tuple[Decision, CheckupRun]]:
    """The probes of the judge's newest check-up, by name."""
    run = first_readable(runs_of(CheckupRun.kind, judge, ""), lambda run_id: load(CheckupRun, run_id))
    return {d.card.name: (d, run) for d in decide(run.table, run.thresholds)} if run else {}


def _probed(found: tuple[Decision, CheckupRun] | None) -> Word:
    if found is None or found[0].verdict == NOT_ASKED:
        return NOTHING
    decision, run = found
    row, t, side = decision.row, decision.threshold, decision.card.side
    value, lower, upper = (_number(row.get(c)) for c in ("value", "lower", "upper"))
    if side == "at least":
        verdict = judged(-value, -upper, -lower, -t, both=False)
        low, high, ticks = min(0.0, value, lower), 1.0, [t]
    else:
        verdict = judged(value, lower, upper, t, both=side == "within")
        high = max(2 * t, abs(value), abs(lower), abs(upper))
        low, ticks = (-high, [-t, t]) if side == "within" else (min(0.0, lower), [t])
    line = ui.interval_line(value, lower, upper, low, high, ticks=ticks, kind=KINDS[verdict])
    origin = f"Check-up, {decision.card.effect}: {number_text(side, value)}, run {run.run_id}"
    return Word(verdict, number_text(side, value), line, origin)


def _number(value: Any) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)


def tiles(judge: str, found: Sequence[Word]) -> None:
    """The five tiles, each with a link to the page that explores it."""
    for column, tile, word in zip(st.columns(len(TILES), gap="small"), TILES, found, strict=True):
        with column, st.container(border=True, key=f"tile_{tile.probe}", height="stretch"):
            st.page_link(tile.page, label=tile.title, help=tile.about, query_params={state.JUDGE: judge})
            about = html.escape(word.origin, quote=True)
            number = html.escape(word.text) or "–"
            st.html(f'<div class="js-tile" title="{about}">{_verdict(word)}<strong>{number}</strong>{word.line}</div>')


def _verdict(word: Word) -> str:
    return f'<span class="js-verdict {KINDS[word.verdict]}">{ICONS[word.verdict]} {word.verdict}</span>'


def card(name: str, about: str, found: Sequence[Word]) -> None:
    """A judge in a box: the five words, one below the other."""
    st.subheader(ui.plain(name), anchor=False)
    ui.note(about)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(tile.title)}</th><td>{_verdict(word)}</td>'
        f"<td>{html.escape(word.text)}</td></tr>"
        for tile, word in zip(TILES, found, strict=True)
    )
    st.html(f'<table class="js-words"><tbody>{rows}</tbody></table>')


def headline(judge: str, found: Sequence[Word]) -> str:
    """What the judge gives away, in a sentence.

    Args:
        judge: its name as it stands within a sentence.
        found: a word for each tile.
    """
    lifted, falls = found[0], [t.title.lower() for t, w in zip(TILES, found, strict=True) if w.verdict == FALLS]
    if all(word.verdict == NONE_YET for word in found):
        return f"Nothing has been measured of {judge} yet. Attack one response to begin."
    judge = upper_first(judge)
    if lifted.verdict == FALLS and lifted.text.endswith("points"):
        return f"{judge} gives {lifted.text.lstrip('+')} more to any answer that asks for them."
    if falls:
        return f"{judge} falls for {falls[0]}, and for {len(falls) - 1} more of five weaknesses." if falls[1:] else (
            f"{judge} falls for one of five weaknesses: {falls[0]}."
        )  # fmt: skip
    kept = sum(word.verdict == RESISTS for word in found)
    return f"{judge} resists {kept} of five weaknesses, and falls for none that was measured."


ATTACK = "bed"
RESPONSE = "d01-off-topic"
"""A reply to another dialogue: weak replies rise most, good ones are near the top of the scale already."""


def attack_on(judge: str, data: str = state.DEFAULT_DATA) -> Preset:
    """The Attack lab with the attack that tells judges apart: on the demo dialogues the reply that shows it best."""
    shown = state.DEFAULT_DATA if data in pair_sets() else data
    query = {state.JUDGE: judge, state.DATA: shown, state.ATTACK: ATTACK, state.DEFENSE: NONE}
    query |= {state.RESPONSE: RESPONSE} if shown == state.DEFAULT_DATA else {}
    return Preset("Attack lab", "pages/attack_lab/page.py", {**query, state.TAB: state.TAB_ONE})
