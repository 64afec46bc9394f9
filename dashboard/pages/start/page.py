"""Start: what can this judge be trusted with, in five tiles; two judges of one base side by side; where to begin."""

from __future__ import annotations

import streamlit as st

from dashboard import findings, state, ui
from dashboard.measured import own_runs
from dashboard.pages.lessons.view import open_preset
from dashboard.pages.start.api import api_judges
from dashboard.pages.start.glance import attack_on, card, headline, tiles, words
from engine import catalog

judge, data = state.text(state.JUDGE), state.text(state.DATA)
frame = ui.page_frame("Start")
own = own_runs()
found = words(judge, data, own)
name = catalog.split_spec(judge).name
frame.headline(headline(f"your judge card “{name}”" if name else findings.judge_name(judge), found))
with frame.hero:
    tiles(judge, found)
with frame.facts_row, st.container(horizontal=True, gap="small"):
    if st.button("Attack a response", type="primary", icon=":material/bolt:", key="go_attack"):
        open_preset(attack_on(judge, data))
    if st.button("Use my responses", icon=":material/upload_file:", key="go_data"):
        st.switch_page("pages/data/page.py")
    if st.button("Use my judge", icon=":material/gavel:", key="go_card"):
        st.switch_page("pages/judge_card/page.py")
    if st.button("Correct a number by labels", icon=":material/verified:", key="go_trust"):
        st.switch_page("pages/trust/page.py")
with frame.body:
    st.header("Same base model, two recipes: which would you deploy?", anchor=False)
    about = {
        state.DEFAULT_JUDGE: "Trained on people's ratings alone.",
        state.CAREFUL_JUDGE: "Also trained on broken and foreign texts with low scores.",
    }
    cards = catalog.describe_judges(about)
    for column, (spec, said) in zip(st.columns(2, gap="medium"), about.items(), strict=True):
        with column, st.container(border=True, key=f"judge_{spec.partition(':')[2]}"):
            card(cards[spec].title, said, found if spec == judge else words(spec, data, own))
            if st.button("Attack this judge", icon=":material/bolt:", key=f"attack_{spec.partition(':')[2]}"):
                open_preset(attack_on(spec, data))
    api_judges()
frame.measured(
    [
        *(word.origin + "." for word in found if word.origin),
        "It falls where the whole interval lies beyond what is allowed, resists where it lies within, and is fair "
        "between; the tick on each line is what is allowed.",
        "Runs of yours come before the recorded ones; runs on the chosen data come first.",
    ],
    key="start",
)
