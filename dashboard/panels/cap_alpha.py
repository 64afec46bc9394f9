"""What alpha does: the curve from the computed grid, the texts at two alphas, and a button that extends the grid."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels import cap_findings
from dashboard.panels.cap_view import CapView
from dashboard.panels.marked import show_verbatim
from engine import jobs
from engine.errors import EngineError
from engine.figures.text import three_digits
from engine.gallery.cap import SIDES, by_alpha
from engine.jobs import Job
from engine.readout.cap import nearest

EXTEND = "cap_sweep"


def alpha(view: CapView, job: Job | None) -> None:
    """Sliders over the alphas of the grid; the button asks the worker for more of them."""
    _curve(view)
    _extend(view, job)


@st.fragment
def _curve(view: CapView) -> None:
    rows = by_alpha(view.sweep)
    chosen: dict[str, float] = {}
    for side, column in zip(SIDES, st.columns(2, gap="large"), strict=True):
        own = [float(a) for a in rows.loc[rows["side"] == side, "alpha"]]
        with column:
            wrote = float(view.cap.get(f"alpha_{side}") or own[0])
            start, key, param = wrote if wrote in own else own[0], f"cap_alpha_{side}_{len(own)}", f"alpha_{side}"
            state.seed_number(key, min(own), max(own), start, param=param)
            state.put(key, min(own, key=lambda a, key=key: abs(a - float(st.session_state[key]))))
            chosen[side] = float(
                st.select_slider(
                    f"alpha, steered {side}",
                    own,
                    format_func=three_digits,
                    key=key,
                    help="Eqs. 4 and 5 of paper 001. The slider starts at the alpha nearest to the standard; every "
                    "stop is computed already.",
                )
            )
            state.publish(param, repr(chosen[side]), repr(start))
    ui.finding(cap_findings.sweep_sentence(view, rows, chosen))
    standards = (float(view.cap["standard_high"]), float(view.cap["standard_low"]))
    spread = "; ".join(_spread(rows, side, chosen[side]) for side in SIDES)
    ui.note(f"Mean ± standard deviation: {spread}. {_nearest(view, rows, standards)}")
    at = {f"alpha_{side}": repr(chosen[side]) for side in SIDES}
    ui.show_entry(view.source, "sweep", key="cap_sweep", **at)
    _texts(view, chosen)


def _nearest(view: CapView, rows: pd.DataFrame, standards: tuple[float, float]) -> str:
    """Which alphas of the grid come nearest to the standards, and which ones wrote the anchors."""
    found = []
    for side, standard in zip(SIDES, standards, strict=True):
        own = rows[rows["side"] == side]
        best = nearest(own["alpha"].to_numpy(dtype=float), own["mean"].to_numpy(dtype=float), standard)
        wrote = view.cap.get(f"alpha_{side}")
        other = "" if wrote is None or wrote == best else f" (the anchors were written with {three_digits(wrote)})"
        other += _few_read(own, wrote)
        found.append(f"{side} {three_digits(best)}{other}")
    return f"Nearest to the standards in this grid: {'; '.join(found)}."


def _few_read(own: pd.DataFrame, wrote: float | None) -> str:
    """That the alpha of the anchors was chosen from the contexts that still had a text, where some had none."""
    row = own[own["alpha"] == wrote]
    if not len(row) or not int(row["n_unread"].iloc[0]):
        return ""
    n, of = int(row["n"].iloc[0]), int(row["n"].iloc[0] + row["n_unread"].iloc[0])
    return f" (with {three_digits(float(wrote or 0))}, {n} of {of} contexts had a text that could be scored)"


def _spread(rows: pd.DataFrame, side: str, value: float) -> str:
    own = rows[(rows["side"] == side) & (rows["alpha"] == value)]
    if not len(own) or math.isnan(float(own["mean"].iloc[0])):
        return f"{side} unread"
    return f"{side} {three_digits(float(own['mean'].iloc[0]))} ± {three_digits(float(own['sd'].iloc[0]))}"


def _texts(view: CapView, chosen: dict[str, float]) -> None:
    items = list(dict.fromkeys(view.sweep["item_id"]))
    item = st.selectbox("Training context", items, key="cap_sweep_item", persist_state="session")
    for side, column in zip(SIDES, st.columns(2, gap="large"), strict=True):
        own = view.sweep[
            (view.sweep["side"] == side) & (view.sweep["alpha"] == chosen[side]) & (view.sweep["item_id"] == item)
        ]
        with column:
            if len(own):
                row = own.iloc[0]
                ui.note(f"Steered {side}: score {three_digits(float(row['score']))}")
                show_verbatim(str(row["text"]) if isinstance(row["text"], str) else "", label=f"Steered {side}")


def _extend(view: CapView, job: Job | None) -> None:
    """More alphas for a run of this machine."""
    if view.recorded:
        ui.note("This run is a recording; run the study on this machine to add alphas to its sweep.")
        return
    busy = bool(job and job.active)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        size = st.number_input(
            "Relative edit to reach, in %", 1.0, 95.0, 75.0, 5.0, key="cap_extend_size",
            help="The alpha that changes the activations by this share is worked out and tried on both sides.",
        )  # fmt: skip
        if st.button("Extend the sweep", icon=":material/add:", key="cap_extend", disabled=busy):
            _submit(view, float(size) / 100)


def _submit(view: CapView, reach: float) -> None:
    config = view.manifest["config"]
    params = {"study_id": view.run_id, "judge": config["judge"], "data": config["data"], "reach": reach}
    try:
        st.session_state[EXTEND] = jobs.manager().submit(EXTEND, params)
    except EngineError as error:
        ui.show_error(error, "The sweep could not be extended.")
        return
    st.rerun()
