"""The figures of an audit, each drawn from the table it is saved with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels.audit_data import AuditRun
from dashboard.panels.audit_embeddings import short_title
from dashboard.panels.audit_setup import ATTACKS
from dashboard.panels.findings import origin
from engine.data.comparisons import DEMO_PAIRS
from engine.figures import puaudit_curves as curves
from engine.figures import puaudit_map as maps
from engine.figures import puaudit_rows as rows_of
from engine.figures.text import interval_text, plural
from engine.metrics.puaudit import Audit
from engine.readout.puaudit import per_pair, random_band
from engine.schema import NONE

CONTROL_WORDS = {
    "nothing": "flipping nothing",
    "all": "flipping everything",
    "random": "flipping at random",
    "centroid": "flipping by the cosine to the mean positive",
    "nearest": "flipping by the nearest positive",
    "top10": "flipping by the ten nearest positives",
}
CONTROLS = ("cons_adj", "cons_orig", "cons_all", "cons_random", "cons_centroid", "cons_nearest", "cons_top10")
_AUCS = ("auc_entry_mass", "auc_centroid", "auc_nearest", "auc_top10")
MAP, COLOUR = "audit_map", "audit_colour"


def note_of(run: AuditRun) -> str:
    """Recorded or live, and what stands in for people on the demo."""
    stands = ", preferences by construction" if run.manifest.get("data", {}).get("dataset_id") == DEMO_PAIRS else ""
    return origin(run.manifest, recorded=run.recorded) + stands


def controls(run: AuditRun, table: pd.DataFrame) -> None:
    """Transport beside its controls at this mass."""
    prepared = rows_of.prepare_controls(table, CONTROLS) if len(table) else rows_of.prepare_controls(run.metrics, ())
    title, note = "Does transport beat simpler ways to flip?", note_of(run)
    ui.show_figure(
        lambda mode: rows_of.plot_controls(prepared, rows_of.CONSISTENCY, mode=mode, title=title, note=note),
        prepared, key="audit_controls", caption="All flip as many verdicts as the audit does at this mass.",
    )  # fmt: skip


def types(run: AuditRun, table: pd.DataFrame) -> None:
    """Before and after by question type, at this mass."""
    prepared = rows_of.prepare_types(table)
    note = note_of(run)
    ui.show_figure(lambda mode: rows_of.plot_types(prepared, mode=mode, note=note), prepared, key="audit_types")


def attacks(run: AuditRun) -> None:
    """Before and after by question type under every attack, each at its own estimated mass."""
    if len(run.audits) < 2:
        return
    own = run.metrics[run.metrics["group"].notna()]
    prepared = rows_of.prepare_types(own, {**ATTACKS, NONE: "no attack"})
    title, note = "And under attack?", f"each at its estimated mass; {note_of(run)}"
    with st.expander("Question types under every attack"):
        ui.show_figure(
            lambda mode: rows_of.plot_types(prepared, mode=mode, title=title, note=note),
            prepared,
            key="audit_attacks_fig",
        )


def density(run: AuditRun, audit: Audit, mass: float) -> None:
    """Entry masses of verdicts that agree and of those that do not."""
    splits = audit.splits or audit.shown
    n = len(audit.pairs)
    entry = per_pair(splits, [s.path.entry_mass for s in splits], n)
    agrees = per_pair(splits, [s.agrees for s in splits], n)
    prepared = curves.prepare_density(entry, agrees)
    note = f"mean over the splits; {note_of(run)}" if audit.splits else note_of(run)
    ui.show_figure(
        lambda mode: curves.plot_density(prepared, mass, mode=mode, note=note), prepared, key="audit_density"
    )


def items(run: AuditRun, shown: pd.DataFrame, mass: float) -> None:
    """The price curve with its items, cut and bootstraps."""
    prepared = curves.prepare_items(shown)
    note = note_of(run)
    ui.show_figure(lambda mode: curves.plot_items(prepared, mass, mode=mode, note=note), prepared, key="audit_items")


def lasso_map(run: AuditRun, shown: pd.DataFrame) -> list[str]:
    """The map with its lasso; the ids of the pairs inside it."""
    has_umap = bool(shown["umap_x"].notna().any())
    state.seed(MAP, maps.MAPS if has_umap else maps.MAPS[:1], "PCA")
    state.seed(COLOUR, maps.COLOURS, maps.COLOURS[0])
    one, two = st.columns(2, gap="small")
    with one:
        kind = ui.pick("Map", list(maps.MAPS if has_umap else maps.MAPS[:1]), key=MAP, title=str)
    with two:
        colour = ui.pick("Colour", list(maps.COLOURS), key=COLOUR, title=str.capitalize)
    prepared, note = maps.prepare_map(shown, kind), note_of(run)

    def draw(mode: ui.Mode):  # noqa: ANN202
        return maps.plot_map(prepared, colour, kind=kind, mode=mode, note=note)

    figure = draw(ui.mode())
    event = st.plotly_chart(
        figure, theme=None, width="stretch", key="audit_map_chart", on_select="rerun", selection_mode=["lasso", "box"],
        alt=str((figure.layout.meta or {}).get("alt", "")), config={"displaylogo": False},
    )  # fmt: skip
    ui.save_bar(draw, prepared, key="audit_map_chart")
    points = (event or {}).get("selection", {}).get("points", [])
    return [str(_id(p)) for p in points if _id(p)]


def _id(point: dict[str, object]) -> object:
    held = point.get("customdata")
    return held[0] if isinstance(held, (list, tuple)) and held else held


def sensitivity(run: AuditRun, audit: Audit, mass: float) -> None:
    """Consistency against the mass, with random flips and the estimates of the mass."""
    own = run.metrics[run.metrics["attack"] == audit.attack]
    masses = np.linspace(0.05, 1, 20)
    agrees = per_pair(audit.splits, [s.agrees for s in audit.splits], len(audit.pairs)) if audit.splits else np.zeros(0)
    n = int((~np.isnan(agrees)).sum())
    random = [random_band(agrees, round((1 - m) * len(agrees)))[0] for m in masses] if n else [np.nan] * 20
    prepared = curves.prepare_sensitivity(own, list(masses), random)
    names = {"mass_clean": "estimated", "mass_attacked": "from attacked labels", "mass_oracle": "true share"}
    at = own[own["group"].isna()].drop_duplicates("metric").set_index("metric")["value"]
    marks = {title: float(at[name]) for name, title in names.items() if name in at.index and np.isfinite(at[name])}
    note = note_of(run)
    ui.show_figure(
        lambda mode: curves.plot_sensitivity(prepared, mass, marks, mode=mode, note=note),
        prepared, key="audit_sensitivity", caption="The true share is known only where labels were held back.",
    )  # fmt: skip


def ranking(run: AuditRun, attack: str) -> None:
    """How well entry mass and the baselines rank agreeing verdicts first."""
    prepared = rows_of.prepare_controls(run.metrics[run.metrics["attack"] == attack], _AUCS)
    title, note = "Which score finds wrong verdicts?", note_of(run)
    ui.show_figure(
        lambda mode: rows_of.plot_controls(prepared, rows_of.AUC, mode=mode, title=title, note=note),
        prepared, key="audit_auc",
    )  # fmt: skip


def tables(run: AuditRun) -> None:
    """Encoders (paper 002, table 3) and shares of verified positives (table 6)."""
    left, right = st.columns(2, gap="large")
    with left:
        encoders = _wide(run.metrics, "encoder_", ("cons_orig", "cons_adj", "gain", "gain_over_best", "auc_entry_mass"))
        if len(encoders):
            ui.note("Encoders, without an attack, each at its estimated mass (PUAudit, table 3).")
            encoders["Encoder"] = [short_title(e) for e in encoders["Encoder"]]
            st.dataframe(encoders, hide_index=True, key="audit_encoder_table", alt="Encoders compared")
    with right:
        ratios = _wide(run.metrics, "p_ratio_", ("cons_orig", "cons_adj", "gain"))
        if len(ratios):
            ui.note("Share of labelled pairs used as positives (PUAudit, table 6).")
            ratios = ratios.rename(columns={"Encoder": "Share"})
            st.dataframe(ratios, hide_index=True, key="audit_ratio_table", alt="Shares of positives compared")


_SHORT = {
    "cons_orig": "Original", "cons_adj": "Adjusted", "gain": "Gain", "gain_over_best": "Over best control",
    "auc_entry_mass": "AUC", "flips": "Flips", "seconds": "Encoding [s]", "path_seconds": "Path [s]",
    "memory_gib": "Memory [GiB]",
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
                interval_text(row["value"], row["lower"], row["upper"], signed=signed, method=str(row["method"]))
                if name in bounded
                else (f"{row['value']:.3g}" if np.isfinite(row["value"]) else "known before")
            )
            line[_SHORT.get(name, name)] = value
        made.append(line)
    return pd.DataFrame(made)


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
        f"{run.config.get('eta')} hardly acts, since a pair is used whole or not at all but for a few. The paper's "
        "figure 2 uses a score that it does not define, so entry mass stands here. A type with few pairs is grey and "
        "takes part in no claim."
    )
