"""Steering and anchors: where in the tutor does quality live, what does alpha do, do anchors hold the score?"""

from __future__ import annotations

import streamlit as st

from dashboard import state
from dashboard.datasets import chosen_dataset
from dashboard.pages.steering_and_anchors.results import cap_page

st.title("Steering and anchors", anchor=False)
if dataset := chosen_dataset():
    cap_page(state.text(state.JUDGE), dataset)
