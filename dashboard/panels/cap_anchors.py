"""The anchors of one context side by side: which texts does the judge see as low and as high?"""

from __future__ import annotations

import math

import streamlit as st

from dashboard import ui
from dashboard.panels.cap_view import CapView
from dashboard.panels.marked import show_verbatim
from engine.data.dataset import Dataset
from engine.figures.text import three_digits
from engine.gallery.words import cap_name


@st.fragment
def anchors(view: CapView, dataset: Dataset) -> None:
    """A context, and for every anchored arm its low and its high anchor."""
    items = view.evaluated
    item = st.selectbox("Context", items, key="cap_item", persist_state="session")
    contexts = dataset.items.set_index("item_id")["context"]
    if item in contexts.index and isinstance(contexts[item], str):
        show_verbatim(contexts[item], label="The context")
    own = view.anchors[view.anchors["item_id"] == item]
    if own.empty:
        ui.note("No anchors were written for this context.")
    for arm in dict.fromkeys(own["arm"]):
        st.subheader(cap_name(str(arm)), anchor=False)
        for side, column in zip(("low", "high"), st.columns(2, gap="large"), strict=True):
            row = own[(own["arm"] == arm) & (own["side"] == side)].iloc[0]
            with column:
                score, strength = float(row["score"]), float(row["alpha"])
                steered = "" if math.isnan(strength) else f", alpha {three_digits(strength)}"
                ui.note(f"Shown to the judge as the {side} one: scored {three_digits(score)} alone{steered}")
                show_verbatim(str(row["text"]) if isinstance(row["text"], str) else "", label=f"{arm}, {side}")
    ui.note("Scores are the undefended judge's, of each anchor as if it were the response.")
