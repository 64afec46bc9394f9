"""Where in the tutor quality lives: thresholds of the pools, separability by layer, the map of one layer."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels.cap_view import CapView
from dashboard.panels.marked import show_verbatim
from dashboard.panels.run_table import run_table
from engine.figures.text import plural, three_digits
from engine.readout.cap import standard_at

PCA, UMAP = "PCA", "UMAP"
BY_SIDE, BY_SCORE = "Side", "Score"
SPACES = {"pca": "After PCA", "raw": "Raw"}
LAYER, PERCENTILES = "cap_layer", "cap_percentiles"
_LEAST = 8


def standards(view: CapView) -> None:
    """The three figures of the first half of the method."""
    _scores(view)
    left, right = st.columns(2, gap="large")
    with left:
        _layers(view)
    with right:
        _map(view)


@st.fragment
def _scores(view: CapView) -> None:
    config = view.manifest["config"]
    chosen = (int(config["low_percentile"]), int(config["high_percentile"]))
    if PERCENTILES not in st.session_state:
        state.put(PERCENTILES, _from_url(chosen))
    low, high = st.slider(
        "Percentiles of the first pool that set the standards",
        0,
        100,
        key=PERCENTILES,
        persist_state="session",
        help="The judge's scores of the first pool set the thresholds; texts of a second pool are retained at or "
        "beyond them (paper 001, section 4.2). The run used the percentiles the slider starts with.",
    )
    first, second = (view.texts.loc[view.texts["pool"] == k, "score"].to_numpy(dtype=float) for k in (1, 2))
    state.publish("percentiles", f"{low}-{high}", f"{chosen[0]}-{chosen[1]}")
    found = standard_at(first, second, float(high), float(low))
    ui.finding(
        f"Standards {three_digits(found.low)} and {three_digits(found.high)}: {found.n_low} of {found.n} new texts are "
        f"retained as low, {found.n_high} as high."
    )
    if min(found.n_high, found.n_low) < _LEAST:
        ui.warn(f"A side needs {_LEAST} texts for a standard vector. Move the percentiles nearer to each other.")
    elif (low, high) != chosen:
        ui.note("The figures and anchors below belong to the percentiles of the run; a new run takes others.")
    ui.show_entry(view.source, "scores", key="cap_scores", low=low, high=high)


def _from_url(default: tuple[int, int]) -> tuple[int, int]:
    """The percentiles of a link such as `?percentiles=10-90`; the run's where there are none that can be read."""
    low, _, high = st.query_params.get("percentiles", "").partition("-")
    if low.isdecimal() and high.isdecimal() and int(low) <= int(high) <= 100:
        return int(low), int(high)
    return default


@st.fragment
def _layers(view: CapView) -> None:
    space = st.segmented_control(
        "Separability (eq. 3)",
        list(SPACES),
        default="pca",
        format_func=SPACES.get,
        key="cap_space",
        required=True,
        help="Distance of the two means over the mean distances within the sides. The paper takes it after PCA; raw "
        "values depend on the number of texts, so look at the shuffled sides beside them.",
    )
    ui.show_entry(view.source, "layers", key="cap_layers", space=str(space))


@st.fragment
def _map(view: CapView) -> None:
    count = int(view.points["layer"].max()) if len(view.points) else 1
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        method = st.segmented_control("Map", [PCA, UMAP], default=PCA, key="cap_method", required=True)
        colour = st.segmented_control("Colour", [BY_SIDE, BY_SCORE], default=BY_SIDE, key="cap_colour", required=True)
    layer = int(view.cap["layer"])
    if method == PCA and count > 1:
        chosen = layer
        state.seed_number(LAYER, 1, count, chosen)
        layer = int(st.slider("Layer", 1, count, key=LAYER, persist_state="session"))
        state.publish(LAYER, str(layer), str(chosen))
    elif method == UMAP:
        ui.note(f"UMAP was computed for the chosen layer {layer}; distances between far groups mean nothing in it.")
    at = {"layer": layer, "method": str(method), "colour": str(colour).lower()}
    prepared, draw, pick = ui.from_gallery(view.source, "map", **at)
    ui.show_figure(draw, prepared, key="cap_map", pick=pick)
    _texts(view, prepared)


def _texts(view: CapView, prepared: pd.DataFrame) -> None:
    """The texts behind the points, highest score first."""
    with st.expander(f"The {plural(len(prepared), 'retained text')}", on_change="rerun", key="cap_texts") as texts:
        if not texts.open:
            return
        table = prepared.sort_values("score", ascending=False)[["side", "score", "text", "text_id"]]
        st.dataframe(
            table,
            hide_index=True,
            key="cap_texts_table",
            alt="Retained texts with their side and score",
            column_config={"score": st.column_config.NumberColumn(format="%.2f", width="small")},
        )
        if len(table):
            run_table(view, table, title="Retained texts", key="cap_texts_kept", file="retained_texts.csv")
            ui.note("The highest and the lowest one")
            for which in (0, -1):
                show_verbatim(str(table["text"].iloc[which]), label=f"Retained text {table['text_id'].iloc[which]}")
