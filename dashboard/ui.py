"""Small parts every page uses. Text of users and models never reaches a Markdown or HTML parser unescaped."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
import plotly.graph_objects as go
import plotly.io
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import findings, report_picks, state
from dashboard.glossary import explained
from dashboard.report_picks import Pick
from dashboard.run_view import RunView, version_of
from engine.core.errors import EngineError
from engine.core.files import safe_csv
from engine.plots import export
from engine.plots.theme import Mode
from engine.studies.figure import Source, upper_first
from engine.studies.registry import entry_of, name_of

Draw = Callable[[Mode], go.Figure]
"""Draws one figure for a screen theme or for print."""

plotly.io.templates.default = None  # importing streamlit set its own, which every new figure would copy for nothing
_STYLE = Path(__file__).with_name("style.css")
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def apply_style() -> None:
    """Put the style sheet into the page.

    Streamlit sets the colour scheme on its own root only; a drawer stands outside it and needs the page's.
    """
    st.html(f"<style>:root {{ color-scheme: {mode()}; }}\n{_STYLE.read_text(encoding='utf-8')}</style>")


def mode() -> Mode:
    """The theme the viewer sees now."""
    return "dark" if st.context.theme.type == "dark" else "light"


def plain(text: str) -> str:
    """The text for a Markdown place (a label, a toast), with everything that could act as markup escaped."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))


def _safe(text: str) -> str:
    return html.escape(text, quote=True)


def finding(sentence: str) -> None:
    """The sentence a page opens with: what is seen for the present choice."""
    st.html(f'<p class="js-finding">{_safe(sentence)}</p>')


def note(text: str) -> None:
    """A quiet line: n, method, whether recorded or live, what a choice means. An empty text draws nothing."""
    if text:
        st.html(f'<p class="js-note">{_safe(text)}</p>')


def bullets(lines: Sequence[str]) -> None:
    """A short list of sentences."""
    st.html(f"<ul class='js-list'>{''.join(f'<li>{_safe(line)}</li>' for line in lines)}</ul>")


def facts(pairs: Mapping[str, str]) -> None:
    """A row of short named values that wraps on a narrow screen."""
    cells = "".join(f"<div><dt>{explained(k)}</dt><dd>{_safe(v)}</dd></div>" for k, v in pairs.items())
    st.html(f'<dl class="js-facts">{cells}</dl>')


# The frame of a page: title and actions, banner, headline, hero figure, facts, the rest, and how it was measured.

MOST_FACTS = 4


@dataclass(frozen=True)
class Frame:
    """The places of a page, from top to bottom; they may be filled in any order.

    Attributes:
        actions: beside the title, for Run and the like.
        banner: what must be seen before anything else.
        top: the headline, and the one control that matters.
        hero: the figure that reacts to that control.
        facts_row: at most four short values.
        body: tabs and tables; what is drawn last on a page that uses none of the places stands here too.
        drawer: the closed drawer at the end.
    """

    actions: DeltaGenerator
    banner: DeltaGenerator
    top: DeltaGenerator
    hero: DeltaGenerator
    facts_row: DeltaGenerator
    body: DeltaGenerator
    drawer: DeltaGenerator

    def headline(self, sentence: str) -> None:
        """The one sentence of the page, with the number that matters: plain, at most 25 words."""
        with self.top:
            headline(sentence)

    def facts(self, pairs: Mapping[str, str]) -> None:
        """At most four short values."""
        with self.facts_row:
            facts(dict(list(pairs.items())[:MOST_FACTS]))

    def measured(self, lines: Sequence[str], draw: Callable[[], None] | None = None, *, key: str) -> None:
        """The drawer "How this was measured": n, intervals, what is left out, settings, source.

        Args:
            lines: sentences.
            draw: what else stands in it, called when the drawer is opened.
            key: of the drawer.
        """
        with self.drawer:
            measured(lines, draw, key=key)


def measured(lines: Sequence[str], draw: Callable[[], None] | None = None, *, key: str) -> None:
    """As `Frame.measured`, at this place: a fragment may draw no button in a container from outside."""
    with st.expander("How this was measured", key=f"measured_{key}", on_change="rerun") as opened:
        if opened.open:
            items = "".join(f"<li>{explained(line)}</li>" for line in lines if line)
            st.html(f"<ul class='js-list'>{items}</ul>")
            if draw:
                draw()


def page_frame(title: str) -> Frame:
    """The places of a page under its title."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="page_top"):
        st.title(title, anchor=False)
        actions = st.container(horizontal=True, gap="small", width="content", key="page_actions")
    places = [st.container() for _ in range(6)]
    return Frame(actions, *places)


def headline(sentence: str) -> None:
    """The sentence a page opens with; words of the field show their meaning under the pointer."""
    st.html(f'<p class="js-finding js-headline">{explained(sentence)}</p>')


def interval_line(
    value: float, lower: float, upper: float, low: float, high: float, *, ticks: Sequence[float] = (), kind: str = ""
) -> str:
    """HTML of a number on its own small axis: the interval as a bar, the value as a dot, ticks for thresholds.

    Args:
        value: the number; what is not finite is left out.
        lower: lower end of its interval.
        upper: upper end of its interval.
        low: lower end of the axis; what lies beyond stands at the end.
        high: upper end of the axis.
        ticks: places that are marked.
        kind: colour by verdict: `holds`, `fails` or `open`.
    """

    def at(x: float) -> float:
        return 100 * min(1.0, max(0.0, (x - low) / (high - low))) if high > low else 50.0

    parts = [f'<u style="left:{at(t):.1f}%"></u>' for t in ticks]
    if math.isfinite(lower) and math.isfinite(upper):
        parts.append(f'<i style="left:{at(lower):.1f}%;width:{max(1.0, at(upper) - at(lower)):.1f}%"></i>')
    if math.isfinite(value):
        parts.append(f'<b style="left:{at(value):.1f}%"></b>')
    return f'<span class="js-line {kind}" aria-hidden="true">{"".join(parts)}</span>'


@dataclass(frozen=True)
class Mend:
    """A button that provides what is missing; `act` is called in the script, so that it may open a dialog."""

    label: str
    act: Callable[[], None]


def banner(message: str, mends: Sequence[Mend] = (), *, key: str) -> None:
    """What nobody may miss: the page shows something else than what was chosen, why, and the buttons that change it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"banner_{key}"):
        st.html(f'<p class="js-banner" role="status">{_safe(message)}</p>')
        _mends(mends, key)


@dataclass(frozen=True)
class Need:
    """One thing that a page needs of the data or the judge.

    Attributes:
        what: in a few words.
        met: it is there.
        there: what is there, for example "48 of 48 responses".
        without: what is left out where it is missing; empty for what the page cannot do without.
        mends: buttons that provide it.
    """

    what: str
    met: bool
    there: str = ""
    without: str = ""
    mends: tuple[Mend, ...] = ()


def needs(found: Sequence[Need], *, key: str) -> bool:
    """What a page needs, what is there, and a button for what is missing; returns true where a run can start."""
    missing = [need for need in found if not need.met]
    there = "; ".join(f"{n.what.lower()} ({n.there})" if n.there else n.what.lower() for n in found if n.met)
    note(f"What is needed is there: {there}." if not missing else f"There: {there}." if there else "")
    for i, need in enumerate(missing):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"need_{key}_{i}"):
            mark, kind = ("–", "open") if need.without else ("✗", "fails")
            left_out = f" Without it: {need.without}." if need.without else " It is needed."
            so_far = f" ({need.there})" if need.there else ""
            st.html(
                f'<p class="js-need {kind}"><span aria-hidden="true">{mark}</span> '
                f"<strong>Missing: {_safe(need.what)}</strong>{_safe(so_far)}.{_safe(left_out)}</p>"
            )
            _mends(need.mends, f"{key}_{i}")
    return all(need.met or need.without for need in found)


def _mends(mends: Sequence[Mend], key: str) -> None:
    for i, mend in enumerate(mends):
        if st.button(mend.label, key=f"mend_{key}_{i}", type="primary" if i == 0 else "secondary"):
            mend.act()


def compare_judge(*, key: str) -> None:
    """One click from the naive judge to the careful one of the same base, and back; nothing for other judges."""
    judge = state.text(state.JUDGE)
    if judge == state.DEFAULT_JUDGE:
        label, other = "Compare with the careful judge", state.CAREFUL_JUDGE
    elif judge == state.CAREFUL_JUDGE:
        label, other = "Back to the naive judge", state.DEFAULT_JUDGE
    else:
        return
    # what redraws the whole page: a callback in a fragment would redraw the fragment alone
    if st.button(label, key=f"compare_{key}", icon=":material/compare_arrows:"):
        state.use_judge(other)


def show_error(error: EngineError | str, what: str = "This did not work.") -> None:
    """An error: one line on what failed, then the engine's text: the thing, the value, the next step."""
    st.html(f'<div class="js-error" role="alert"><strong>{_safe(what)}</strong>{_safe(str(error))}</div>')


def show_problem(where: str, what: str, fix: str, *, is_error: bool) -> None:
    """One problem of a file: where it is, what it is, what to do."""
    kind = " error" if is_error else ""
    place = f'<span class="where">{_safe(where)}</span>'
    st.html(f'<p class="js-problem{kind}">{place}: {_safe(what)}<br>{_safe(fix)}</p>')


def nothing_yet(message: str, page: str = "", label: str = "") -> None:
    """An empty state: one sentence on what to do, and the page where it is done."""
    with st.container(border=True):
        finding(message)
        if page:
            st.page_link(page, label=label, icon=":material/arrow_forward:")


def file_lines(lines: Sequence[tuple[int, str]]) -> None:
    """Lines of a file with their numbers, verbatim."""
    rows = "".join(f'<li value="{number}"><span dir="auto">{_safe(text)}</span></li>' for number, text in lines)
    st.html(f'<ol class="js-lines">{rows}</ol>')


def warn(text: str) -> None:
    """Something a reader must know before trusting the numbers below."""
    st.html(f'<p class="js-problem" role="note">{_safe(text)}</p>')


def show_entry(source: Source, name: str, *, key: str, caption: str = "", **settings: object) -> None:
    """A figure of a study, at these settings; the report can make it again from the run.

    Raises:
        EngineError: the run has nothing for this figure, or a setting is not allowed.
    """
    prepared, draw, pick = figure_parts(source, name, **settings)
    show_figure(_once(draw, pick), prepared, key=key, caption=caption, pick=pick)


def _once(draw: Draw, pick: Pick) -> Draw:
    """Draw a figure of a finished run once for each theme; what is shown is never edited."""
    source = pick.source
    if source.manifest.get("state") != "done":
        return draw
    named = (str(source.folder.path), version_of(source.manifest), pick.entry.study, pick.entry.name)
    settings = tuple(sorted(pick.settings.items()))
    return lambda mode: draw(mode) if mode == "print" else _drawn(named, settings, mode, draw)


@st.cache_resource(max_entries=96, show_spinner=False)
def _drawn(
    named: tuple[str, ...], settings: tuple[tuple[str, float | int | str | None], ...], mode: Mode, _draw: Draw
) -> go.Figure:
    del named, settings  # the cache key, with the theme
    return _draw(mode)


def figure_parts(source: Source, name: str, **settings: object) -> tuple[pd.DataFrame, Draw, Pick]:
    """A figure of a study in its parts, for a page that draws it in a way of its own.

    Raises:
        EngineError: as `show_entry`.
    """
    entry = entry_of(source, name)
    chosen = entry.values(source, settings)
    prepared = entry.prepare(source, **chosen)
    return prepared, lambda mode: entry.plot(prepared, mode), Pick(source, entry, chosen)


def show_figure(
    draw: Draw, prepared: pd.DataFrame, *, key: str, caption: str = "", alt: str = "", pick: Pick | None = None
) -> None:
    """A figure, and below it what it was drawn from and the exports.

    Title, n, unread, interval method and provenance stand in the figure itself, so that a saved one has them too.

    Args:
        draw: called with the screen's theme now, and with `print` when a file is asked for.
        prepared: exactly the table the figure draws; it becomes the CSV.
        key: names the element and the files.
        caption: hint for reading it, where the figure gives none.
        alt: description of the figure; by default the figure's own.
        pick: run, figure and settings from which a report makes it again; without it a report keeps it as drawn.
    """
    figure = draw(mode())
    described = alt or str((figure.layout.meta or {}).get("alt", ""))
    st.plotly_chart(figure, theme=None, width="stretch", key=key, alt=described, config=_plot_config(key))
    if caption:
        st.html(f'<p class="js-note js-caption">{_safe(caption)}</p>')
    save_bar(draw, prepared, key=key, pick=pick)


def save_bar(draw: Draw, prepared: pd.DataFrame, *, key: str, pick: Pick | None = None) -> None:
    """The buttons below a figure. Files are made on click, so that an untouched page costs nothing."""
    with st.container(horizontal=True, gap="xsmall", key=f"{key}_bar"):
        _report_button(draw, prepared, key, pick)
        download("Data (CSV)", lambda: safe_csv(prepared), f"{key}.csv", "text/csv", key=f"{key}_csv")
        if not _can_render():
            note("No Chrome was found for SVG and PNG files: use the camera in the figure's own toolbar.")
            return
        for kind, mime in (("svg", "image/svg+xml"), ("png", "image/png")):
            download(kind.upper(), _renderer(draw, kind), f"{key}.{kind}", mime, key=f"{key}_{kind}")


def table_bar(
    table: pd.DataFrame,
    *,
    title: str,
    about: str,
    key: str,
    shown: pd.DataFrame | None = None,
    label: str = "Data (CSV)",
    file: str = "",
) -> DeltaGenerator:
    """The buttons below a table that belongs to no figure: into the report, and as a file; returns their row.

    Args:
        table: all its rows, for the file.
        title: its name in the report.
        about: of which run, what it leaves out: the rest of its caption.
        key: names the buttons.
        shown: the rows that the report keeps, where that is not the whole table.
        label: of the download.
        file: its name; by default from the key.
    """
    row = st.container(horizontal=True, gap="xsmall", key=f"{key}_table")
    with row:
        st.button(
            "Add to report",
            key=f"{key}_add",
            type="tertiary",
            icon=":material/playlist_add:",
            help="Kept as it is now.",
            on_click=_add_table,
            args=(title, table if shown is None else shown, about, key),
        )
        if said := report_picks.take_word(key):
            st.toast(plain(said), icon=":material/description:", duration="long")
        download(label, lambda: safe_csv(table), file or f"{key}.csv", "text/csv", key=f"{key}_csv")
    return row


MOST = 200
"""Rows of a run's table that the report keeps; the file has them all."""


def run_table(
    run: RunView,
    table: pd.DataFrame,
    *,
    title: str,
    key: str,
    said: str = "",
    label: str = "Data (CSV)",
    file: str = "",
) -> None:
    """As `table_bar`, for a table of a run: its caption says where the numbers come from.

    Args:
        run: whose table it is.
        table: all its rows.
        title: as there.
        key: as there.
        said: the rest of its caption: settings, what is left out; a sentence.
        label: as there.
        file: as there.
    """
    origin = upper_first(findings.provenance(run.manifest, recorded=run.recorded))
    first = f" The first {MOST} of {len(table):,} rows." if len(table) > MOST else ""
    about = f"{said} {origin}. Run {name_of(run.source.folder)}.{first}".strip()
    table_bar(table, title=title, about=about, key=key, shown=table.head(MOST), label=label, file=file)


def _add_table(title: str, table: pd.DataFrame, about: str, key: str) -> None:
    try:
        report_picks.keep_word(key, f"Added to the report: {report_picks.add_table(title, table, about)}")
    except EngineError as error:
        report_picks.keep_word(key, str(error))


def _report_button(draw: Draw, prepared: pd.DataFrame, key: str, pick: Pick | None) -> None:
    try:
        held = pick is not None and report_picks.holds(pick)
    except EngineError:
        held = False  # a damaged report says so where something is added to it
    about = pick.said if pick else "Kept as it is drawn now."
    st.button(
        "In the report" if held else "Add to report",
        key=f"{key}_add",
        type="tertiary",
        icon=":material/playlist_add_check:" if held else ":material/playlist_add:",
        help=plain(about),
        disabled=held,
        on_click=_add_to_report,
        args=(draw, prepared, key, pick),
    )
    if said := report_picks.take_word(key):
        st.toast(plain(said), icon=":material/description:", duration="long")


def _add_to_report(draw: Draw, prepared: pd.DataFrame, key: str, pick: Pick | None) -> None:
    """Called before the page is drawn; a toast from here would take the place of the style sheet in a fragment."""
    try:
        report_picks.keep_word(key, f"Added to the report: {report_picks.add(pick, lambda: draw('light'), prepared)}")
    except EngineError as error:
        report_picks.keep_word(key, str(error))


@st.cache_data(ttl=300, show_spinner=False)
def _can_render() -> bool:
    return export.can_render()


def _renderer(draw: Draw, kind: str) -> Callable[[], bytes]:
    return lambda: export.render(draw("print"), kind)


def download(
    label: str,
    data: Callable[[], bytes],
    file_name: str,
    mime: str,
    *,
    key: str,
    type: Literal["primary", "tertiary"] = "tertiary",
) -> None:
    """A download button, by default quiet, that neither reruns the page nor makes its file before it is wanted."""
    st.download_button(label, data, file_name, mime, key=key, on_click="ignore", type=type, icon=":material/download:")


def _plot_config(key: str) -> dict[str, object]:
    return {
        "displaylogo": False,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
        "toImageButtonOptions": {"format": "svg", "filename": key},
    }


def pick(
    label: str,
    options: Sequence[str],
    *,
    key: str,
    title: Callable[[str], str],
    default: str | None = None,
    publish: bool = False,
    help: str | None = None,
    on_change: Callable[[], None] | None = None,
) -> str:
    """A selectbox over stable values shown by their titles.

    The browser sends the title back, so two values of one title get their values behind it.

    Args:
        label: above it.
        options: the values.
        key: of the widget.
        title: of a value.
        default: seeds the value as `state.seed` does; None for a box that is seeded already.
        publish: true for a choice that the address names where it is not the default.
        help: behind the question mark.
        on_change: called when the user chooses.
    """
    if default is not None:
        state.seed(key, options, default)
    shown = {value: title(value) for value in options}
    often = Counter(shown.values())
    chosen = str(
        st.selectbox(
            label, options, key=key, help=help, on_change=on_change, persist_state="session",
            format_func=lambda value: f"{shown[value]} ({value})" if often[shown[value]] > 1 else shown[value],
        )
    )  # fmt: skip
    if publish:
        state.publish(key, chosen, default or "")
    return chosen


# A text of the user's with the attack's words marked; nothing in the text can act as markup.

_TAGS = {"same": "span", "added": "ins", "removed": "del"}
_MAY_SCROLL = 600
"""Texts longer than this [characters] may not fit their box."""


def marked_html(pieces: Sequence[tuple[str, str]], label: str) -> str:
    """HTML in which every piece went through `html.escape`; the style sheet keeps the whitespace.

    `dir=auto` and the isolating style keep a right-to-left text, or one with direction marks, inside its box.
    """
    spans = "".join(
        f'<{_TAGS[kind]} class="js-{kind}">{html.escape(text, quote=True)}</{_TAGS[kind]}>'
        for kind, text in pieces
        if text
    )
    name = html.escape(label, quote=True)
    # A text that scrolls must be reachable by keyboard; a short one need not stop the Tab key.
    focus = ' tabindex="0"' if sum(len(text) for _, text in pieces) > _MAY_SCROLL else ""
    return f'<div class="js-text" dir="auto" role="group" aria-label="{name}"{focus}>{spans}</div>'


def show_marked(pieces: Sequence[tuple[str, str]], *, label: str) -> None:
    """Draw the text; inserted words are underlined on vermilion, removed ones struck through."""
    if not any(text for _, text in pieces):
        st.text("(empty text)")
        return
    st.html(marked_html(pieces, label))


def show_verbatim(text: str, *, label: str) -> None:
    """Draw a text exactly as it is."""
    show_marked([("same", text)], label=label)
