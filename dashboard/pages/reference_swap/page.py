"""Reference swap: which empty answers does my verifier accept, and does max_p_cf tell them apart?"""

from __future__ import annotations

from dashboard import state, ui
from dashboard.datasets import map_mend, suitable_dataset
from dashboard.pages.reference_swap.results import swap_page
from engine.data.store import DEMO_VERIFICATION

frame = ui.page_frame("Reference swap")
with frame.banner:
    dataset = suitable_dataset(
        lambda held: bool(held.items["reference"].notna().any()),
        DEMO_VERIFICATION,
        said="no column of it holds reference answers. Choose the column, then come back.",
        mends=(map_mend("Reference"),),
    )
if dataset:
    swap_page(state.text(state.JUDGE), dataset, frame)
