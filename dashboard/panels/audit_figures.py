"""The figures of an audit, each drawn from the table it is saved with."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels.audit_data import AuditRun
from dashboard.panels.audit_embeddings import short_title
from dashboard.panels.run_table import run_table
from engine.figures import puaudit_map as maps
from engine.figures.text import interval_text, plural
from engine.metrics.puaudit import Audit

CONTROL_WORDS = {
    "nothing": "flipping nothing",
    "all": "flipping everything",
    "random": "flipping at random",
    "centroid": "flipping by the cosine to the mean positive",
    "nearest": "flipping by the nearest positive",
    "top10": "flipping by the ten nearest positives",
}
MAP, COLOUR = "audit_map", "audit_colour"


def at_mass(
    run: AuditRun, name: str, attack: str, mass: float | None, *, caption: str = "", **settings: object
) -> None:
    """A figure of the gallery at the page's attack and mass; None is the study's."""
    ui.show_entry(run.source, name, key=f"audit_{name}", caption=caption, attack=attack, mass=mass or 0.0, **settings)


def attacks(run: AuditRun) -> None:
    """Before and after by question type under every attack, each at its own estimated mass."""
    if len(run.audits) < 2:
        return
    with st.expander("Question types under every attack", on_change="rerun", key="audit_every_attack") as every:
        if every.open:
            ui.show_entry(run.source, "attacks", key="audit_attacks_fig")


def lasso_map(run: AuditRun, shown: pd.DataFrame, attack: str, mass: float | None, kind: str) -> list[str]:
    """The map with its lasso; the ids of the pairs inside it."""
    has_umap = bool(shown["umap_x"].notna().any())
    state.seed(MAP, maps.MAPS if has_umap else maps.MAPS[:1], "PCA")
    state.seed(COLOUR, maps.COLOURS, maps.COLOURS[0])
    one, two = st.columns(2, gap="small")
    with one:
        chosen = ui.pick("Map", list(maps.MAPS if has_umap else maps.MAPS[:1]), key=MAP, title=str)
        state.publish(MAP, chosen, "PCA")
    with two:
        colour = ui.pick("Colour", list(maps.COLOURS), key=COLOUR, title=str.capitalize)
        state.publish(COLOUR, colour, maps.COLOURS[0])
    at = {"attack": attack, "mass": mass or 0.0, "type": kind, "map": chosen, "colour": colour}
    prepared, draw, pick = ui.from_gallery(run.source, "map", **at)
    figure = draw(ui.mode())
    event = st.plotly_chart(
        figure, theme=None, width="stretch", key="audit_map_chart", on_select="rerun", selection_mode=["lasso", "box"],
        alt=str((figure.layout.meta or {}).get("alt", "")), config={"displaylogo": False},
    )  # fmt: skip
    ui.save_bar(draw, prepared, key="audit_map_chart", pick=pick)
    points = (event or {}).get("selection", {}).get("points", [])
    return [str(_id(p)) for p in points if _id(p)]


def _id(point: dict[str, object]) -> object:
    held = point.get("customdata")
    return held[0] if isinstance(held, (list, tuple)) and held else held


def tables(run: AuditRun) -> None:
    """Encoders (paper 002, table 3) and shares of verified positives (table 6)."""
    encoders = _wide(run.metrics, "encoder_", ("cons_orig", "cons_adj", "gain", "gain_over_best", "auc_entry_mass"))
    if len(encoders):
        ui.note("Encoders, without an attack, each at its estimated mass (PUAudit, table 3)")
        encoders["Encoder"] = [short_title(e) for e in encoders["Encoder"]]
        st.dataframe(encoders, hide_index=True, key="audit_encoder_table", alt="Encoders compared")
        run_table(run, encoders, title="Encoders compared", key="audit_encoders_kept", file="audit_encoders.csv",
                  said="Without an attack, each at its estimated mass (PUAudit, table 3).")  # fmt: skip
    ratios = _wide(run.metrics, "p_ratio_", ("cons_orig", "cons_adj", "gain"))
    if len(ratios):
        ui.note("Share of labelled pairs used as positives (PUAudit, table 6)")
        ratios = ratios.rename(columns={"Encoder": "Share"})
        st.dataframe(ratios, hide_index=True, key="audit_ratio_table", alt="Shares of positives compared")
        run_table(run, ratios, title="Share of labelled pairs used as positives", key="audit_ratios_kept",
                  said="Without an attack (PUAudit, table 6).", file="audit_shares.csv")  # fmt: skip


_SHORT = {
    "cons_orig": "Original", "cons_adj": "Adjusted", "gain": "Gain", "gain_over_best": "Over best control",
    "auc_entry_mass": "AUC", "flips": "Flips", "seconds": "Encoding [s]", "path_seconds": "Path [s]",
    "memory_gib": "Weights [GiB]",
}  # fmt: skip


def _wide(metrics: pd.DataFrame, prefix: str, bounded: tuple[str, ...]) -> pd.DataFrame:
    own = metrics[metrics["metric"].str.startswith(prefix)]
    made: list[dict[str, str]] = []
    for group, rows in own.groupby("group", sort=False):
        line = {"Encoder": str(group)}
        for row in rows.to_dict("records"):
            name = str(row["metric"]).removeprefix(prefix)
            signed = name.startswith("gain")
            value = (
                interval_of(row, signed=signed)
                if name in bounded
                else (f"{row['value']:.3g}" if np.isfinite(row["value"]) else "known before")
            )
            line[_SHORT.get(name, name)] = value
        made.append(line)
    return pd.DataFrame(made)


def interval_of(row: Mapping[Hashable, Any], *, signed: bool = False) -> str:
    """A row of the table `metrics` as value and interval, or why it has none."""
    n_items = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    ends = (row["value"], row["lower"], row["upper"])
    return interval_text(*ends, signed=signed, method=str(row["method"]), n_clusters=n_items)


def method(run: AuditRun, audit: Audit) -> None:
    """What was excluded and what each number means."""
    excluded = run.manifest.get("excluded", {})
    out = ", ".join(f"{n} {reason}" for reason, n in excluded.items()) or "none"
    ui.note(f"Pairs left out: {out}.")
    for attack, why in run.manifest.get("excluded_under_attack", {}).items():
        if why:
            ui.note(f"Left out under {attack}: {', '.join(f'{n} {reason}' for reason, n in why.items())}.")
    kept, given = audit.shown[0].path.n_positive, int((audit.rows(run.rows)["role"] != "unlabelled").sum())
    ui.note(
        f"{plural(given, 'positive')}, {kept} after denoising (α₁ = {run.config.get('alpha1')}, α₂ = "
        f"{run.config.get('alpha2')}, floors within each type; PUAudit, A.4). Cost 1 − cos of difference embeddings "
        "(equation 1). The path is exact for every mass; its dual bound is checked in the tests. η = "
        f"{run.config.get('eta')} hardly acts, since a pair is used whole or not at all but for a few; with exact "
        "plans the kept share differs from m by no more than these, so nothing warns of it. The best control is chosen "
        "on the same pairs that it is measured on, which favours it; the band of random flips is that of the random "
        "choice, these pairs given. The paper's figure 2 uses a score that it does not define, so entry mass stands "
        "here. A type with few pairs is grey and takes part in no claim."
    )
