"""Lessons: effects to guess, try and look up, for a class or for oneself."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.pages.lessons.texts import lessons
from dashboard.pages.lessons.view import LESSON, answered, lesson, publish_answered

st.title("Lessons", anchor=False)
told = lessons()
by_key = {one.key: one for one in told}
keys = list(by_key)
state.seed(LESSON, keys, keys[0])
done = answered()
publish_answered()
ui.note(
    "Guess, try it, then look at what was measured. "
    f"{sum(key in by_key for key in done)} of {len(told)} answers looked at; the address of this page keeps that."
)
chosen = st.pills(
    "Lesson",
    keys,
    key=LESSON,
    required=True,
    format_func=lambda key: f"{'✓ ' if key in done else ''}{keys.index(key) + 1}. {by_key[key].title}",
    persist_state="session",
    wrap=True,
    label_visibility="collapsed",
)
state.publish(LESSON, str(chosen), keys[0])
lesson(by_key[str(chosen)], told)
