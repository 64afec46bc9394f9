"""Runs from elsewhere, and deleted ones: import, trash, restore."""

from __future__ import annotations

import streamlit as st

from dashboard import pinned, state, ui
from engine import runs_kept
from engine.errors import EngineError
from engine.figures.text import plural
from engine.runs_zip import MAX_ZIP, import_run
from engine.settings import get_settings

_ROUND = "import_round"


def bring_in() -> None:
    """A zip that Export made, checked before anything of it is written."""
    with st.expander("Import a run", icon=":material/upload:", key="runs_import"):
        held = st.file_uploader(
            "A run's zip",
            type=["zip"],
            key=f"run_zip_{st.session_state.get(_ROUND, 0)}",
            max_upload_size=MAX_ZIP // 2**20,
            help="Only what Export writes: a manifest and tables. Nothing in it is run; its data set does not travel.",
        )
        if held is None:
            return
        try:
            came = import_run(get_settings().runs, held.getvalue())
        except EngineError as error:
            ui.show_error(error, "The file was not imported.")
            return
    new = "" if came.run_id == came.was else f"; its id {came.was} was taken"
    done = f"{came.run_id} is here already." if came.skipped else f"Imported as {came.run_id}{new}."
    state.put(_ROUND, int(st.session_state.get(_ROUND, 0)) + 1)
    state.after_rerun({pinned.SELECTED: came.run_id, "with": ""})
    state.say_after_rerun(done)
    st.rerun()


def trash() -> None:
    """What was deleted, until it is gone."""
    deleted = runs_kept.trash(get_settings().runs)
    if not deleted:
        return
    with st.expander(f"Trash: {plural(len(deleted), 'run')}", icon=":material/delete:", key="runs_trash"):
        names = {t.entry: f"{t.title or t.run_id}, deleted {t.deleted[:10]}, gone on {t.gone[:10]}" for t in deleted}
        state.seed("trash_entry", list(names), next(iter(names)))
        entry = ui.pick("Deleted run", list(names), key="trash_entry", title=lambda e: names.get(e, e))
        with st.container(horizontal=True, gap="small"):
            if st.button("Restore", icon=":material/undo:", key="restore_run"):
                _restore(entry)
            with st.popover("Empty the trash", icon=":material/delete_forever:"):
                ui.warn(f"{plural(len(deleted), 'run')} will be gone for good.")
                if st.button("Remove all", key="empty_trash"):
                    runs_kept.empty_trash(get_settings().runs)
                    st.rerun()


def _restore(entry: str) -> None:
    try:
        run_id = runs_kept.restore(get_settings().runs, entry)
    except EngineError as error:
        ui.show_error(error, "It was not restored.")
        return
    state.after_rerun({pinned.SELECTED: run_id, "with": ""})
    state.say_after_rerun(f"{run_id} is back.")
    st.rerun()
