"""The chosen judge at a glance: one row from each study that has a run of it, and where the missing ones are made."""

from __future__ import annotations

import streamlit as st

from dashboard import findings, ui
from dashboard.measured import FIRST_SLOT, KEYS, STRONGEST, Measure, Measured, find, flips, missing, own_runs
from dashboard.pages.lessons.texts import LESSONS
from dashboard.pages.lessons.view import LESSON, answered
from engine import catalog
from engine.plots.glance import plot_glance, prepare_glance

ROWS: tuple[Measure, ...] = (
    STRONGEST,
    FIRST_SLOT,
    KEYS,
    flips("pairwise", "all distractors", "Distracted losers that win, pairwise"),
    flips("pointwise", "all distractors", "Distracted losers that win, pointwise"),
)
HINT = (
    "DSI and BED are sentences that ask for a high score; a master key is a text without content, such as a colon; a "
    "distracted loser is the worse response, rewritten to sound sure, wordy or flattering."
)
PAGES = {
    "pages/attack_lab/page.py": ("Attack lab", "how far attacks move its scores"),
    "pages/protocols/page.py": ("Protocols and leaderboard", "the first slot, and what manner turns"),
    "pages/reference_swap/page.py": ("Reference swap", "which empty answers it accepts"),
}


def at_a_glance(judge: str, data: str) -> None:
    """The figure, where its numbers come from, and links to what has not been run.

    Args:
        judge: the judge of the rail.
        data: the data of the rail; runs on others are shown where there is none on these.
    """
    own = own_runs()
    found = [find(measure, judge, data, own=own) or find(measure, judge, own=own) for measure in ROWS]
    known = [one for one in found if one]
    card = catalog.split_spec(judge).name
    name = f"your judge card “{card}”" if card else findings.judge_name(judge)
    if not known:
        ui.finding(f"Nothing has been measured of {name} yet.")
    else:
        kind = "recorded" if all(one.recorded for one in known) else "recorded and run here"
        kind = kind if any(one.recorded for one in known) else "run here"
        rows = [one.row if one else missing(m) for one, m in zip(found, ROWS, strict=True)]
        prepared = prepare_glance(rows)
        ui.show_figure(
            lambda mode: plot_glance(prepared, mode=mode, title="How far is this judge moved?", note=kind),
            prepared, key="start_glance", caption=_words(found),
        )  # fmt: skip
    _where_missing([m.page for m, one in zip(ROWS, found, strict=True) if one is None])


def _words(found: list[Measured | None]) -> str:
    """Where the rows come from, each origin once."""
    origins: dict[str, dict[str, None]] = {}
    for one in filter(None, found):
        when = findings.origin(one.manifest, recorded=one.recorded)
        origins.setdefault(f"{when[:1].upper()}{when[1:]}", {})[one.data] = None
    parts = [f"{when}: {'; '.join(data)}." for when, data in origins.items()]
    return " ".join(["The dotted line is where no effect would stand.", HINT, *parts])


def _where_missing(pages: list[str]) -> None:
    if not pages:
        return
    ui.note("Not run yet; each page does it with one button:")
    with st.container(horizontal=True, gap="small"):
        for page in dict.fromkeys(pages):
            title, about = PAGES[page]
            st.page_link(page, label=f"{title}: {about}", icon=":material/play_arrow:")


def lessons() -> None:
    """Six buttons, one for each lesson."""
    done = answered()
    with st.container(horizontal=True, gap="small"):
        for one in LESSONS:
            icon = ":material/check:" if one.key in done else ":material/school:"
            if st.button(one.title, icon=icon, key=f"lesson_{one.key}"):
                st.session_state[LESSON] = one.key
                st.switch_page("pages/lessons/page.py", query_params={LESSON: one.key})


def next_step(judge: str, data: str) -> None:
    """The one thing to do next, for the present choice."""
    if data.startswith("demo-"):
        text, page, label = (
            "These are demo data. The numbers that matter are those on your own responses.",
            "pages/data/page.py",
            "Bring your own responses",
        )
    elif "?card=" not in judge:
        text, page, label = (
            "Your data, our prompt: a judge is a model and its prompt, so try yours.",
            "pages/judge_card/page.py",
            "Write your judge's prompt",
        )
    else:
        text, page, label = (
            "Your data, your prompt: attack the whole set.",
            "pages/attack_lab/page.py",
            "Attack lab",
        )
    ui.nothing_yet(text, page, label)
