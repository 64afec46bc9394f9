"""Label: people judge responses or pairs themselves, blind to who wrote them and to what a judge says."""

from __future__ import annotations

from dashboard import state, ui
from dashboard.pages.labelling.answering import labelling
from dashboard.pages.labelling.files import actions
from dashboard.pages.labelling.setup import annotator, chosen_session, opened, setup

frame = ui.page_frame("Label")
with frame.top:
    data = opened(state.text(state.DATA))
    session = chosen_session(data.id) if data else None
if data and session:
    who = annotator()
    with frame.actions:
        actions(session, who)
    with frame.body:
        labelling(session, who, data)
elif data:
    with frame.body:
        setup(data)
