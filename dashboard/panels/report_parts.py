"""The parts of the report in order: captions, notes, how each is shown, up, down, out and back."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard import picking, ui
from engine.errors import EngineError
from engine.report.basket import MOST_LINE, MOST_TEXT, Piece, Report
from engine.report.filled import Filled, fill_one, numbered

SHOWN = {"figure": "Figure", "table": "Table", "both": "Both"}
TITLE, AUTHORS = "report_title", "report_authors"


def change(step: Callable[[Report], Report]) -> None:
    """Change the report in a callback; what is refused is said."""
    try:
        picking.change(step)
    except EngineError as error:
        st.toast(ui.plain(str(error)), icon=":material/error:", duration="long")


def put_back(report: Report) -> None:
    """The undo of the last removal, while there is one."""
    if not report.removed:
        return
    last = report.removed[-1].piece
    name = last.title or last.text or "an empty note"
    st.button(
        f"Put back: {ui.plain(name[:60])}",
        key="report_put_back",
        icon=":material/undo:",
        on_click=change,
        args=(Report.with_last_back,),
    )


def head(report: Report) -> None:
    """Title and authors."""
    left, right = st.columns(2, gap="medium")
    with left:
        st.text_input("Title", report.title, key=TITLE, max_chars=MOST_LINE, on_change=_set_head, placeholder="Report")
    with right:
        st.text_input("Authors", report.authors, key=AUTHORS, max_chars=MOST_LINE, on_change=_set_head)


def _set_head() -> None:
    title, authors = (str(st.session_state.get(key) or "") for key in (TITLE, AUTHORS))
    change(lambda r: r.headed(title, authors))


def parts(report: Report) -> None:
    """A box for each part, then a button for one more note."""
    for place, (piece, number) in enumerate(numbered(report)):
        with st.container(border=True, key=f"report_part_{place}"):
            made = filled(piece, number)
            _buttons(piece, made.label, place, len(report.pieces))
            if piece.kind == "note":
                _text("Text", piece, piece.text, "")
            else:
                _figure(made)
    st.button(
        "Add a note",
        key="report_add_note",
        icon=":material/note_add:",
        on_click=change,
        args=(lambda r: r.added(Piece(kind="note")),),
    )


def _buttons(piece: Piece, name: str, place: int, count: int) -> None:
    """Name, up, down and out; each button says what it moves, for those who hear the page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key=f"report_order_{place}"):
        st.markdown(f"**{ui.plain(name)}**", width="content")
        for label, icon, step, off in (
            ("Up", "arrow_upward", lambda r: r.moved(piece.piece_id, -1), place == 0),
            ("Down", "arrow_downward", lambda r: r.moved(piece.piece_id, 1), place == count - 1),
            ("Remove", "delete", lambda r: r.without(piece.piece_id), False),
        ):
            st.button(
                label,
                key=f"report_{label.lower()}_{piece.piece_id}",
                icon=f":material/{icon}:",
                type="tertiary",
                disabled=off,
                help=f"{label}: {name}",
                on_click=change,
                args=(step,),
            )


def _figure(made: Filled) -> None:
    piece = made.piece
    if made.problem:
        ui.show_error(made.problem, f"“{piece.title}” cannot be made now.")
    else:
        ui.finding(made.title)
    _text("Caption", piece, made.caption, made.own_caption)
    if piece.kind == "figure":
        key = f"report_show_{piece.piece_id}"
        st.segmented_control(
            "Shown as",
            list(SHOWN),
            default=piece.show,
            key=key,
            format_func=SHOWN.__getitem__,
            required=True,
            on_change=_set_show,
            args=(key, piece.piece_id),
        )
    ui.note(made.where)
    if made.figure is not None or made.table is not None:
        with st.expander("Look at it", key=f"report_look_{piece.piece_id}", on_change="rerun") as look:
            if look.open:
                draw_piece(filled(piece, made.number, ui.mode()), key=f"report_seen_{piece.piece_id}")
    if made.script:
        with st.expander(
            "Script that makes it again", key=f"report_script_{piece.piece_id}", on_change="rerun"
        ) as code:
            if code.open:
                st.code(made.script, language="python")


def _text(label: str, piece: Piece, shown: str, own: str) -> None:
    """A text of the user's; the figure's own caption to begin with, which stays live until it is edited."""
    key = f"report_text_{piece.piece_id}"
    st.text_area(
        label,
        shown,
        key=key,
        max_chars=MOST_TEXT,
        height="content",
        on_change=_set_text,
        args=(key, piece.piece_id, own),
    )


def _set_text(key: str, piece_id: str, own: str) -> None:
    text = str(st.session_state.get(key) or "")
    change(lambda r: r.changed(piece_id, text="" if text.strip() == own.strip() else text))


def _set_show(key: str, piece_id: str) -> None:
    show = str(st.session_state[key])
    change(lambda r: r.changed(piece_id, show=show))


def draw_piece(made: Filled, *, key: str) -> None:
    """The figure and its table, as the part is shown."""
    if made.shows_figure and made.figure is not None:
        alt = str((made.figure.layout.meta or {}).get("alt", ""))
        st.plotly_chart(made.figure, theme=None, width="stretch", key=key, alt=alt, config={"displaylogo": False})
    if made.shows_table and made.table is not None:
        rows = len(made.table)
        st.dataframe(
            made.table,
            hide_index=True,
            key=f"{key}_table",
            height=min(360, 40 + 35 * max(rows, 1)),
            alt=f"Data of {made.title}",
        )


def filled(piece: Piece, number: int, mode: str = "light") -> Filled:
    """A part with its figure, made once while neither it nor its run changes."""
    try:
        version = "" if piece.drawn else picking.version(piece.run)
    except EngineError as error:
        version = str(error)
    return _filled(piece.model_dump_json(), number, mode, version)


@st.cache_resource(max_entries=128, show_spinner=False)
def _filled(piece: str, number: int, mode: str, version: str) -> Filled:
    del version  # part of the cache key only
    return fill_one(Piece.model_validate_json(piece), number, picking.source_of, mode)
