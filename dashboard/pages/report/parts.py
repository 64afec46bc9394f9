"""The parts of the report in order: captions, notes, how each is shown, up, down, out and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import streamlit as st

from dashboard import report_picks, ui
from dashboard.report_picks import Pick
from dashboard.run_view import read, version_of
from dashboard.ui import show_verbatim
from engine import catalog
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.plots.export import can_render
from engine.plots.text import plural
from engine.report import export
from engine.report.basket import MOST_LINE, MOST_TEXT, Piece, Report
from engine.report.content import Filled, fill_one, numbered
from engine.report.export import report_html
from engine.report.summary import summary
from engine.runs.library import RunRow, all_runs
from engine.studies.registry import all_studies, entries, entry_of, study_title

SHOWN = {"figure": "Figure", "table": "Table", "both": "Both"}
TITLE, AUTHORS = "report_title", "report_authors"


def change(step: Callable[[Report], Report]) -> None:
    """Change the report in a callback; what is refused is said."""
    try:
        report_picks.change(step)
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


def opening(report: Report) -> list[str]:
    """The sentences that the report opens with."""
    return summary(report, lambda run: read(run).source)


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
        version = "" if piece.drawn else version_of(read(piece.run).manifest)
    except EngineError as error:
        version = str(error)
    return _filled(piece.model_dump_json(), number, mode, version)


@st.cache_resource(max_entries=128, show_spinner=False)
def _filled(piece: str, number: int, mode: str, version: str) -> Filled:
    del version  # part of the cache key only
    return fill_one(Piece.model_validate_json(piece), number, lambda run: read(run).source, mode)


# Figures of any run, taken into the report without opening its page.

RUN, FIGURES = "report_run", "report_figures"


def take_from_run(report: Report) -> None:
    """A run, its figures, and the button that takes them."""
    with st.expander("Take figures from a run", key="report_take", expanded=not report.pieces):
        settings = get_settings()
        rows = {row.run_id: row for row in all_runs(settings.runs, settings.assets / "demo")}
        if not rows:
            ui.nothing_yet("There is no run yet. Run something in the Attack lab first.")
            return
        cards = catalog.describe_judges({row.judge for row in rows.values() if row.judge})
        run = ui.pick("Run", list(rows), key=RUN, title=lambda r: _title(rows[r], cards))
        try:
            source = read(run).source
            found = entries(source)
        except EngineError as error:
            ui.show_error(error, "This run cannot be read.")
            return
        if not found:
            known = ", ".join(study.title for study in all_studies() if study.figures())
            ui.note(f"There is no figure of this run yet: it has written nothing, or its study is none of {known}.")
            return
        titles = {entry.name: entry.title for entry in found}
        chosen = st.multiselect(
            "Figures",
            list(titles),
            key=f"{FIGURES}_{run}",
            format_func=titles.__getitem__,
            placeholder="Choose figures",
            help="Each at the settings the run was made with; pages add them at the settings of their sliders.",
        )
        st.button(
            f"Add {plural(len(chosen), 'figure')}" if chosen else "Add",
            key="report_take_add",
            icon=":material/playlist_add:",
            disabled=not chosen,
            on_click=_take,
            args=(run, tuple(chosen)),
        )


def _take(run: str, names: tuple[str, ...]) -> None:
    try:
        source = read(run).source
        picks = [Pick(source, entry, entry.values(source)) for entry in (entry_of(source, name) for name in names)]
        pieces = [pick.piece for pick in picks]

        def with_all(report: Report) -> Report:
            for piece in pieces:
                report = report.added(piece)
            return report

        report_picks.change(with_all)
    except EngineError as error:
        st.toast(ui.plain(str(error)), icon=":material/error:", duration="long")
    else:
        st.session_state[f"{FIGURES}_{run}"] = []


def _title(row: RunRow, cards: Mapping[str, catalog.JudgeCard]) -> str:
    when = (row.finished or row.begun)[:10]
    kept = "recorded" if row.recorded else row.state
    name = f"{row.title}, " if row.title else ""
    judge = cards[row.judge].title if row.judge else "no judge"
    return f"{name}{study_title(row.study)}: {judge} on {row.data or row.data_id} ({kept}, {when})"


# The report as a reader will see it; text is shown verbatim.


def preview(report: Report) -> None:
    """Title, authors, then every part with its caption."""
    ui.finding(report.title.strip() or "Report")
    ui.note(report.authors)
    ui.bullets(opening(report))
    for place, (piece, number) in enumerate(numbered(report)):
        if piece.kind == "note":
            if piece.text.strip():
                show_verbatim(piece.text, label=f"Note {place + 1}")
            continue
        made = filled(piece, number, ui.mode())
        if made.problem:
            ui.show_error(made.problem, f"{made.label} cannot be made now.")
            continue
        draw_piece(made, key=f"report_preview_{piece.piece_id}")
        ui.note(f"{made.label}. {made.caption}")
        st.divider()


# The report as one page and as files, made when they are wanted.

FORMAT, COLUMNS = "report_format", "report_columns"
WIDTHS = {"single": "One column, 85 mm", "double": "Two columns, 170 mm"}
ZIP = "application/zip"


def one_page() -> None:
    """The report for a reader, in one press wherever one is on the page."""
    ui.download("One HTML page", _page, "report.html", "text/html", key="report_html", type="primary")


def downloads(report: Report) -> None:
    """One button for each kind of file for a paper."""
    missing = [made for made in made_of(report) if made.problem]
    for made in missing:
        ui.warn(f"{made.label}, “{made.piece.title}”, is left out: {made.problem}")
    with st.container(horizontal=True, gap="medium"):
        fmt = st.segmented_control(
            "Figures as", list(export.FORMATS), default="pdf", format_func=str.upper, key=FORMAT, required=True,
            persist_state="session",
        )  # fmt: skip
        columns = st.segmented_control(
            "Width on paper", list(WIDTHS), default="single", format_func=WIDTHS.__getitem__, key=COLUMNS,
            required=True, persist_state="session",
        )  # fmt: skip
    if not can_render():
        ui.note(
            "No Chrome was found, so figures cannot be drawn as files. The page has a camera on each figure that saves "
            "it as SVG; the zip of everything holds all the rest."
        )
    given = (str(fmt), str(columns))
    with st.container(horizontal=True, gap="small"):
        if can_render():
            _zip("Figures (zip)", "figures", lambda made: export.figure_files(made, *given))
        _zip("Data (zip)", "data", export.data_files)
        _zip("Scripts (zip)", "scripts", export.script_files)
        ui.download("Everything (zip)", lambda: _everything(*given), "report.zip", ZIP, key="report_everything")
    ui.note(
        "Figures keep type of 7 pt or more at that width and can be told apart in grey; a PDF carries its fonts. Data "
        "are CSV that is safe to open in a spreadsheet, and strict JSON. A script makes its figure again from the run "
        "folder."
    )


def made_of(report: Report) -> list[Filled]:
    """Every part with its figure, in light colours."""
    return [filled(piece, number) for piece, number in numbered(report)]


def _zip(label: str, name: str, of: Callable[[list[Filled]], Iterator[export.File]]) -> None:
    def make() -> bytes:
        made = made_of(report_picks.report())
        try:
            return export.zipped(iter([*of(made), export.caption_file(made)]))
        except EngineError as error:
            return export.zipped(iter([("not-made.txt", f"{error}\n".encode()), export.caption_file(made)]))

    ui.download(label, make, f"report-{name}.zip", ZIP, key=f"report_{name}")


def _page() -> bytes:
    report = report_picks.report()
    return report_html(report, made_of(report), opening(report)).encode("utf-8")


def _everything(fmt: str, columns: str) -> bytes:
    report = report_picks.report()
    return export.zipped(export.everything(report, made_of(report), fmt, columns, opening(report)))
