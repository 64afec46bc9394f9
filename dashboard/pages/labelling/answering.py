"""One row after the other: texts, keys, undo and skip; then what the labels say, and what two people differ on."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard import state, ui
from dashboard.pages.labelling.files import after
from dashboard.pages.labelling.setup import ANNOTATOR, PROBLEM, Shown, choices, leave
from engine.core.errors import EngineError
from engine.data.label_plan import Kind
from engine.data.labels import Answers, Session
from engine.plots.text import plural
from engine.runs.labelling import worth_so_far

_SKIPPING = "label_skipping"
REASONS = ("I cannot tell", "The text is broken", "Not my field", "The question does not fit")
"""Reasons to skip a row, one key each."""


def labelling(session: Session, who: str, data: Shown) -> None:
    """Everything below the title; a key press draws this part alone anew."""
    if not who:
        _ask_name()
        return
    st.fragment(_labelling)(session, who, data)


def _ask_name() -> None:
    name = st.text_input("Your name", key="label_name_again", max_chars=60)
    if st.button("Start labelling", type="primary", key="label_named") and name.strip():
        state.after_rerun({ANNOTATOR: name})
        st.rerun()


def _labelling(session: Session, who: str, data: Shown) -> None:
    try:
        held = session.answers()
        who = session.name_of(who, held)
    except EngineError as error:
        ui.show_error(error, "Labelling cannot go on.")
        st.button("Choose another session", key="label_leave", on_click=leave)
        return
    if problem := str(st.session_state.pop(PROBLEM, "")):
        ui.show_error(problem)
    if held.unreadable:
        ui.warn(f"{plural(held.unreadable, 'line')} of the stored answers could not be read and are left out.")
    row = session.next_row(who, held)
    _progress(session, who, held)
    if row is None:
        after(session, who, held, data, _undo_button)
    else:
        _row(session, who, row, held, data)
    if held.of(who):
        with st.expander("What the labels say so far", key="label_worth", on_change="rerun") as opened_now:
            if opened_now.open:
                ui.bullets(worth_lines(session, who, final=row is None))


def _progress(session: Session, who: str, held: Answers) -> None:
    n, done = session.plan.n, len(held.of(who))
    skipped = sum(bool(one.skipped) for one in held.of(who).values())
    more = f", {skipped} skipped" if skipped else ""
    st.progress(done / n, f"{ui.plain(who)}: {done} of {n} done{more}, {n - done} left")


def _row(session: Session, who: str, row: str, held: Answers, data: Shown) -> None:
    plan, place = session.plan, len(held.of(who))
    try:
        context, texts = data.texts(row)
    except KeyError:
        ui.show_error(f"The data hold no row {row!r} any more.")
        return
    ui.finding(plan.question)
    if context:
        ui.show_verbatim(context, label="The context")
    if plan.scale.kind == Kind.PAIRS:
        shown_texts = texts[::-1] if plan.swapped(row) else texts
        for column, name, text in zip(st.columns(2, gap="medium"), ("First", "Second"), shown_texts, strict=True):
            with column:
                ui.note(f"{name} response")
                ui.show_verbatim(text, label=f"{name} response")
    else:
        ui.note("The response")
        ui.show_verbatim(texts[0], label="The response")
    if st.session_state.get(_SKIPPING) == row:
        _reasons(session, who, row)
        return

    def give(label: str) -> None:
        _try(lambda: session.answer(who, row, label), session, who, row)

    with st.container(horizontal=True, gap="small", key="label_buttons"):
        for label, name, key in choices(plan, row):
            st.button(name, key=f"label_{place}_{label}", shortcut=key, on_click=give, args=(label,))
    with st.container(horizontal=True, gap="small", key="label_more"):
        _undo_button(session, who, held)
        st.button("Skip", key=f"label_{place}_skip", shortcut="s", type="tertiary", on_click=state.put,
                  args=(_SKIPPING, row))  # fmt: skip


def _undo_button(session: Session, who: str, held: Answers) -> None:
    done = len(held.of(who))

    def undo() -> None:
        state.put(_SKIPPING, "")
        try:
            session.undo(who)
        except EngineError as error:
            state.put(PROBLEM, str(error))

    st.button("Undo", key=f"label_undo_{done}", shortcut="backspace", type="tertiary", icon=":material/undo:",
              on_click=undo, disabled=not done or session.compared(held))  # fmt: skip


def _reasons(session: Session, who: str, row: str) -> None:
    def skip(reason: str) -> None:
        if not reason.strip():
            return
        _try(lambda: session.skip(who, row, reason), session, who, row)
        state.put(_SKIPPING, "")

    ui.note("Why can this row not be labelled?")
    with st.container(horizontal=True, gap="small", key="label_reasons"):
        for i, reason in enumerate(REASONS, start=1):
            st.button(reason, key=f"label_skip_{i}", shortcut=str(i), on_click=skip, args=(reason,))
        st.button("Back", key="label_skip_back", shortcut="esc", type="tertiary", on_click=state.put,
                  args=(_SKIPPING, ""))  # fmt: skip
    own = f"label_skip_own_{row}"
    st.text_input("Or another reason", key=own, max_chars=200, on_change=lambda: skip(state.text(own)))


def _try(act: Callable[[], None], session: Session, who: str, row: str) -> None:
    """Do it if the row is still the open one: a key that was pressed twice must not label what nobody has seen."""
    try:
        if session.next_row(who) == row:
            act()
    except EngineError as error:
        state.put(PROBLEM, str(error))


_MEANS = {Kind.PASS: "pass", Kind.RATING: "mean rating", Kind.PAIRS: "first response of the data better (ties half)"}
_SAID = {
    "labels_only": "By the labels alone",
    "raw": "By the judge alone",
    "corrected": "Judge corrected by the labels",
}


def worth_lines(session: Session, who: str, *, final: bool) -> list[str]:
    """What the labels say of all rows of the data, with intervals; one line where they say nothing yet.

    Args:
        session: whose labels.
        who: labels.
        final: this person has finished, and may see what the judge says.
    """
    found = worth_so_far(session, "" if session.compared() else who)
    if not final:
        found.pop("raw", None)
    kind = session.plan.scale.kind
    lines = []
    for name in _SAID:
        if name not in found:
            continue
        one = found[name]
        number = f"{one.value:.2f}" if kind == Kind.RATING else f"{one.value:.0%}"
        ends = [f"{end:.2f}" if kind == Kind.RATING else f"{end:.0%}" for end in (one.lower, one.upper)]
        if one.value != one.value:
            lines.append(f"{_SAID[name]}: no number ({one.method}).")
        elif one.lower != one.lower:
            lines.append(f"{_SAID[name]}: {_MEANS[kind]} {number}, no interval ({one.method}).")
        else:
            lines.append(f"{_SAID[name]}: {_MEANS[kind]} {number}, 95 % interval {ends[0]} to {ends[1]}.")
    return lines or ["Every stratum needs a label before the labels speak for all rows."]
