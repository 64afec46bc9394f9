"""One lesson on the page: the question, the class's guess, the page to try it on, and then what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from dashboard import findings, state, ui
from dashboard.measured import Measured, elsewhere, find
from dashboard.pages.lessons.texts import KEYS_OF_LESSONS, Lesson, Other, Preset
from dashboard.progress import newest_job, progress, start_job
from engine.plots.glance import GlanceRow, plot_glance, prepare_glance, same_axis
from engine.plots.text import MINUS, fixed

LESSON, ANSWERED = "lesson", "answered"
_UNITS = {"points": " points", "%": " %", "pp": " percentage points"}


def open_preset(preset: Preset) -> None:
    """Go to a page with its controls set; the values also stand in its address."""
    own = {key: value for key, value in preset.query.items() if key not in (state.ATTACK, state.DEFENSE)}
    for key in (state.ATTACK, state.DEFENSE, state.RESPONSE):
        st.session_state.pop(key, None)  # read from the URL anew, with all their options
    state.after_rerun(own)
    st.switch_page(preset.page, query_params=dict(preset.query))


def answered() -> dict[str, float]:
    """The lessons whose answer was looked at, with the guess (NaN for none); from the session, else from the URL."""
    if ANSWERED not in st.session_state:
        found = {}
        for part in st.query_params.get(ANSWERED, "").split(","):
            key, _, guess = part.partition(":")
            if key in KEYS_OF_LESSONS:
                found[key] = _number(guess)
        st.session_state[ANSWERED] = found
    held = st.session_state[ANSWERED]
    return dict(held) if isinstance(held, dict) else {}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def publish_answered() -> None:
    """Keep the progress in the address, so that a reload or a link has it."""
    parts = [key if math.isnan(guess) else f"{key}:{guess:g}" for key, guess in answered().items()]
    state.publish(ANSWERED, ",".join(parts))


def _reveal(key: str) -> None:
    guess = st.session_state.get(f"guess_{key}")
    st.session_state[ANSWERED] = answered() | {key: math.nan if guess is None else float(guess)}


def _again(key: str) -> None:
    st.session_state[ANSWERED] = {k: g for k, g in answered().items() if k != key}
    st.session_state[f"guess_{key}"] = None


def _go_to(key: str) -> None:
    state.put(LESSON, key)


def lesson(chosen: Lesson, all_of_them: Sequence[Lesson]) -> None:
    """The lesson from its question to its answer; `all_of_them` in the order of the page."""
    st.header(ui.plain(chosen.title), anchor=False)
    ui.finding(chosen.question)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Guess first", anchor=False)
        _guess(chosen)
    with right:
        st.subheader("Then try it", anchor=False)
        if st.button(chosen.preset.label, icon=":material/open_in_new:", key=f"open_{chosen.key}"):
            open_preset(chosen.preset)
        ui.bullets(chosen.look)
    if chosen.key in answered():
        st.subheader("What was measured", anchor=False)
        _answer(chosen, answered()[chosen.key])
    _neighbours(chosen, all_of_them)


def _guess(chosen: Lesson) -> None:
    asked, key = chosen.guess, f"guess_{chosen.key}"
    done = chosen.key in answered()
    if done and key not in st.session_state:
        held = answered()[chosen.key]
        st.session_state[key] = None if math.isnan(held) else min(max(held, asked.low), asked.high)
    value = st.number_input(
        asked.label, float(asked.low), float(asked.high), None, float(asked.step), "%g", key=key,
        placeholder="write it down before you look", persist_state="session", disabled=done,
    )  # fmt: skip
    with st.container(horizontal=True, gap="small"):
        if done:
            st.button("Start this lesson over", key=f"again_{chosen.key}", on_click=_again, args=(chosen.key,))
            return
        st.button(
            "Show the answer", type="primary", key=f"reveal_{chosen.key}", disabled=value is None,
            on_click=_reveal, args=(chosen.key,),
        )  # fmt: skip
        if value is None:
            st.button(
                "Show it without a guess", type="tertiary", key=f"peek_{chosen.key}",
                on_click=_reveal, args=(chosen.key,),
            )  # fmt: skip


def _answer(chosen: Lesson, guess: float) -> None:
    found = [
        one for measure in chosen.measures if (one := find(measure, chosen.judge, chosen.data, recorded_only=True))
    ]
    if not found:
        ui.nothing_yet("The recorded run of this lesson is missing from this copy of the project.")
        return
    first = found[0]
    st.badge(ui.plain(first.origin), icon=":material/history:", color="gray")
    ui.finding(verdict(chosen, first))
    if not math.isnan(guess):
        ui.note(about_guess(guess, first))
    other = _other(chosen, chosen.other)
    rows = [one.row for one in found]
    rows[0] = _with_guess(rows[0], guess)
    rows += [_named(one.row, chosen.other.judge) for one in other if chosen.other]
    far = elsewhere() if chosen.key == "audit" else []
    prepared = prepare_glance(same_axis([*rows, *far]))
    about = (
        "The last two rows are the most gained and the most lost, of other judges' verdicts recorded elsewhere; in "
        "brackets, how often each agreed with people before."
    )
    title = "How far off was the guess?" if not math.isnan(guess) else "What was measured?"
    note = first.origin + (f"; {other[0].origin}" if other else "")
    ui.show_figure(
        lambda mode: plot_glance(prepared, mode=mode, title=title, note=note), prepared, key=f"lesson_{chosen.key}",
        caption=about if far else "",
    )  # fmt: skip
    ui.bullets((f"The paper: {chosen.paper}", f"Why ours may differ: {chosen.why}"))
    if chosen.other and (chosen.other.turn or first.side * chosen.sign <= 0):
        _offer(chosen, chosen.other, other, "other")
    if chosen.known:
        _offer(chosen, chosen.known, _other(chosen, chosen.known), "known")


def verdict(chosen: Lesson, found: Measured) -> str:
    """The honest answer in one or two sentences."""
    row = found.row
    unit = " points" if row.unit == "points" else ""
    what = f"{row.name[:1].lower()}{row.name[1:]} {row.text}{unit} ({found.sizes})"
    start = f"On {findings.judge_name(chosen.judge)}: {what}."
    side = found.side * chosen.sign
    if side > 0:
        return f"{start} So {chosen.effect}."
    if side < 0:
        return f"{start} So {chosen.none}: there is a clear effect, and it goes the other way."
    return f"{start} So {chosen.none} (the interval reaches “{row.null_name}”; a small effect is not ruled out)."


def about_guess(guess: float, found: Measured) -> str:
    """Distance of the guess from the measurement, in a sentence."""
    row = found.row
    off = abs(guess - row.value)
    inside = row.lower <= guess <= row.upper
    shown = f"{guess:g}".replace("-", MINUS)
    where = "inside" if inside else "outside"
    return f"The guess was {shown}{_UNITS[row.unit]}: off by {fixed(off, 2)}, {where} the interval."


def _with_guess(row: GlanceRow, guess: float) -> GlanceRow:
    return GlanceRow(**{**row.__dict__, "guess": guess})


def _named(row: GlanceRow, judge: str) -> GlanceRow:
    short = findings.judge_name(judge).removeprefix("the ").partition(" (")[0]
    return GlanceRow(**{**row.__dict__, "name": f"{row.name}: {short}", "meaning": "low"})


def _other(chosen: Lesson, other: Other | None) -> list[Measured]:
    if other is None or not other.judge:
        return []
    measures = other.measures or chosen.measures
    data = chosen.data if chosen.key != "strong" else ""
    return [one for measure in measures if (one := find(measure, other.judge, data))]


def _offer(chosen: Lesson, other: Other, found: Sequence[Measured], place: str) -> None:
    """Another judge on the same question: measured now if it was not yet, and its page.

    Args:
        chosen: the lesson.
        other: the judge.
        found: its numbers.
        place: `other` for the turn, `known` for a planted judge.
    """
    unseen = "Here the truth is known:" if place == "known" else "Not seen here? This shows it."
    with st.container(border=True, key=f"{place}_{chosen.key}"):
        ui.finding(other.turn or unseen)
        ui.note(other.about)
        if found:
            row = found[0].row
            ui.note(f"Measured: {row.name[:1].lower()}{row.name[1:]} {row.text} ({found[0].sizes}), {found[0].origin}.")
        job = newest_job(other.job[0], judge=other.judge, data=chosen.data) if other.job and not found else None
        with st.container(horizontal=True, gap="small"):
            if other.job and not found and st.button(
                "Measure it now", icon=":material/play_arrow:", key=f"measure_{chosen.key}",
                disabled=bool(job and job.active), help="No model is asked; it takes some seconds.",
            ):  # fmt: skip
                _measure(other)
            if st.button(other.preset.label, icon=":material/open_in_new:", key=f"{place}_open_{chosen.key}"):
                open_preset(other.preset)
        if job:
            progress(job)


def _measure(other: Other) -> None:
    assert other.job is not None
    kind, params = other.job
    start_job(kind, {"judge": other.judge, **params}, "The run could not be started.")


def _neighbours(chosen: Lesson, all_of_them: Sequence[Lesson]) -> None:
    at = [one.key for one in all_of_them].index(chosen.key)
    st.divider()
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
        if at:
            before = all_of_them[at - 1]
            st.button(f"Previous: {before.title}", icon=":material/chevron_left:", key="lesson_back",
                      on_click=_go_to, args=(before.key,))  # fmt: skip
        if at + 1 < len(all_of_them):
            after = all_of_them[at + 1]
            st.button(f"Next: {after.title}", icon=":material/chevron_right:", icon_position="right",
                      key="lesson_next", on_click=_go_to, args=(after.key,))  # fmt: skip
