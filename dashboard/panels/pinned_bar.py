"""Above a page that shows the run a link asked for: which one it is, and the way back to the newest."""

from __future__ import annotations

import streamlit as st

from dashboard import pinned, state, ui


def pinned_bar(page: str) -> None:
    """Nothing where the page shows its newest run.

    Args:
        page: title of the page that is open.
    """
    if reason := pinned.missing():
        ui.show_error(reason, "The link's run cannot be shown.")
    found = pinned.pin()
    if found is None or page == pinned.TITLES[pinned.RUNS_PAGE] or pinned.TITLES[pinned.place_of(found).page] != page:
        return
    state.publish(pinned.RUN, found.run_id)
    when = str(found.manifest.get("created", ""))[:16].replace("T", " ")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pinned_run"):
        ui.note(f"Shown is the run {found.title or found.run_id}, begun {when} UTC.")
        st.button("Show the newest instead", key="unpin", on_click=pinned.drop)
        if st.button("All runs", key="to_runs", icon=":material/list:"):
            state.put(pinned.SELECTED, found.run_id)
            st.switch_page(pinned.RUNS_PAGE)
