"""Steering and anchors: where in the tutor does quality live, what does alpha do, do anchors hold the score?"""

from __future__ import annotations

from dashboard import state, ui
from dashboard.datasets import chosen_dataset
from dashboard.pages.steering_and_anchors.results import cap_page

frame = ui.page_frame("Steering and anchors")
with frame.banner:
    dataset = chosen_dataset()
if dataset:
    cap_page(state.text(state.JUDGE), dataset, frame)
