"""Lessons: six effects to guess, try and look up, for a class or for oneself."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.pages.lessons.texts import BY_KEY, LESSONS
from dashboard.pages.lessons.view import LESSON, answered, lesson, publish_answered

st.title("Lessons", anchor=False)
keys = [one.key for one in LESSONS]
state.seed(LESSON, keys, keys[0])
done = answered()
publish_answered()
ui.note(
    "Guess, try it, then look at what was measured on a bundled judge. "
    f"{len(done)} of {len(LESSONS)} answers looked at; the address of this page keeps that."
)
chosen = st.pills(
    "Lesson",
    keys,
    key=LESSON,
    required=True,
    format_func=lambda key: f"{'✓ ' if key in done else ''}{keys.index(key) + 1}. {BY_KEY[key].title}",
    persist_state="session",
    wrap=True,
    label_visibility="collapsed",
)
state.publish(LESSON, str(chosen), keys[0])
lesson(BY_KEY[str(chosen)])
