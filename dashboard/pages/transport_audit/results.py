"""The result of an audit: one sentence, the mass slider, and everything that follows from it, from stored arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.findings import provenance
from dashboard.pages.transport_audit.data import AuditRun
from dashboard.pages.transport_audit.setup import ATTACKS, short_title
from dashboard.ui import show_verbatim
from engine.core.schema import NONE
from engine.data.comparisons import Comparisons
from engine.plots.text import interval_text, plural
from engine.studies.figure import judge_name
from engine.studies.transport_audit.drawings import COLOURS, MAPS
from engine.studies.transport_audit.figures import (
    ALL_TYPES,
    cuts,
    mass_words,
    masses,
    mean_mass,
    rows_at,
    study_mass,
    table_at,
)
from engine.studies.transport_audit.metrics import Audit, best_control

# The figures of an audit, each drawn from the table it is saved with.

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
    """A figure of a study at the page's attack and mass; None is the study's."""
    ui.show_entry(run.source, name, key=f"audit_{name}", caption=caption, attack=attack, mass=mass, **settings)


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
    state.seed(MAP, MAPS if has_umap else MAPS[:1], "PCA")
    state.seed(COLOUR, COLOURS, COLOURS[0])
    one, two = st.columns(2, gap="small")
    with one:
        chosen = ui.pick("Map", list(MAPS if has_umap else MAPS[:1]), key=MAP, title=str)
        state.publish(MAP, chosen, "PCA")
    with two:
        colour = ui.pick("Colour", list(COLOURS), key=COLOUR, title=str.capitalize)
        state.publish(COLOUR, colour, COLOURS[0])
    at = {"attack": attack, "mass": mass, "type": kind, "map": chosen, "colour": colour}
    prepared, draw, pick = ui.figure_parts(run.source, "map", **at)
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
        ui.run_table(run, encoders, title="Encoders compared", key="audit_encoders_kept", file="audit_encoders.csv",
                  said="Without an attack, each at its estimated mass (PUAudit, table 3).")  # fmt: skip
    ratios = _wide(run.metrics, "p_ratio_", ("cons_orig", "cons_adj", "gain"))
    if len(ratios):
        ui.note("Share of labelled pairs used as positives (PUAudit, table 6)")
        ratios = ratios.rename(columns={"Encoder": "Share"})
        st.dataframe(ratios, hide_index=True, key="audit_ratio_table", alt="Shares of positives compared")
        ui.run_table(run, ratios, title="Share of labelled pairs used as positives", key="audit_ratios_kept",
                  said="Without an attack (PUAudit, table 6).", file="audit_shares.csv")  # fmt: skip


_SHORT = {
    "cons_orig": "Original", "cons_adj": "Adjusted", "gain": "Gain", "gain_over_best": "Over best control",
    "auc_entry_mass": "AUC", "flips": "Flips", "seconds": "Encoding [s]", "path_seconds": "Path [s]",
    "memory_gib": "Weights [GiB]",
}  # fmt: skip


def _wide(metrics: pd.DataFrame, prefix: str, bounded: tuple[str, ...]) -> pd.DataFrame:
    wanted = metrics[metrics["metric"].str.startswith(prefix)]
    lines: list[dict[str, str]] = []
    for group, rows in wanted.groupby("group", sort=False):
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
        lines.append(line)
    return pd.DataFrame(lines)


def interval_of(row: Mapping[Hashable, Any], *, signed: bool = False) -> str:
    """A row of the table `metrics` as value and interval, or why it has none."""
    n_items = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    ends = (row["value"], row["lower"], row["upper"])
    return interval_text(*ends, signed=signed, method=str(row["method"]), n_clusters=n_items)


def method(run: AuditRun, audit: Audit) -> None:
    """The pairs left out, and the meaning of each number."""
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


ATTACK, TYPE, MASS = "audit_attack", "audit_type", "mass"
_CLEAN = "No attack"
_WIDTHS = {"pair": 60, "type": 110, "verdict": 60, "audited": 60, "entry mass": 80}
"""Of the columns beside the map [px]; the file has more of them."""


def results(run: AuditRun, pairs: Comparisons) -> None:
    """Badge, answer, settings and figures of one run."""
    st.badge(provenance(run.manifest, recorded=run.recorded), icon=":material/history:", color="gray")
    st.fragment(_with_settings)(run, pairs)
    attacks(run)  # these two follow no setting, so they are not made anew with each
    tables(run)


def _with_settings(run: AuditRun, pairs: Comparisons) -> None:
    attacks = list(run.audits)
    state.seed(ATTACK, attacks, NONE)
    answer = st.container(gap="small")  # above the settings that it follows
    with st.container(border=True, key="dials_audit"):
        left, middle, right = st.columns([2, 3, 2], gap="medium")
        with left:
            attack = ui.pick("Attack", attacks, key=ATTACK, title=lambda a: ATTACKS.get(a, _CLEAN))
            state.publish(ATTACK, attack, NONE)
        audit = run.audits[attack]
        with middle:
            mass = _mass(run, attack)
        with right:
            kinds = [ALL_TYPES, *sorted(audit.pairs["type"].unique())]
            kind = ui.pick("Question type", kinds, key=TYPE, default=ALL_TYPES, publish=True, title=ui.plain)
    table, rows = table_at(run.source, attack, mass), rows_at(run.source, attack, mass)
    shown = rows if kind == ALL_TYPES else rows[rows["type"] == kind]
    with answer:
        _say(run, audit, table, rows, mass)
    _overview(run, attack, mass, kind)
    _look(run, pairs, shown, attack, mass, kind)
    _more(run, audit, mass)


def _mass(run: AuditRun, attack: str) -> float | None:
    """The mass of the slider; None where the study put it, so that the page shows the study's own numbers."""
    start, key = mean_mass(run.source, attack), f"mass_{run.run_id}_{attack}"
    by_type, given = masses(run.source, attack), study_mass(run.source)
    state.seed_number(key, 0.01, 1.0, start, param=MASS)
    apart = (
        f" At the start each question type has its own: {mass_words(list(by_type.values()))}."
        if len(by_type) > 1
        else ""
    )
    value = float(
        st.slider(
            f"Transported mass m ({'estimated' if given is None else 'set to'} {start:.2f})",
            0.01,
            1.0,
            step=0.01,
            key=key,
            help="The share of verdicts that is kept: an input, by construction. The estimate is how often the judge "
            "agrees with people on the positives (PUAudit, section 5.1); at the start each seeded split takes its own."
            f"{apart} Moved, one mass is set for all.",
        )
    )
    state.publish(MASS, f"{value:g}", f"{start:g}")
    return None if abs(value - start) < 1e-9 else value


def _at(run: AuditRun, attack: str, mass: float | None) -> str:
    """The mass in words: where the study put it each question type may have its own."""
    where = cuts(run.source, attack, mass)
    return f"mass {where[0]:.2f}" if len(where) == 1 else f"masses of {mass_words(where)} by question type"


def _say(run: AuditRun, audit: Audit, table: pd.DataFrame, rows: pd.DataFrame, mass: float | None) -> None:
    flips = int(rows["flip"].sum())
    n = int((rows["role"] == "unlabelled").sum())
    start = f"At {_at(run, audit.attack, mass)} the audit flips {flips} of {plural(n, 'verdict')} of {_judge(run)}"
    overall = table[table["group"].isna()].set_index("metric") if len(table) else table
    if not len(table) or overall["value"].isna().all():
        ui.finding(f"{start}. No labelled pair was held back, so it cannot be said whether that helps.")
        return
    ui.finding(f"{start}, {helps(overall, best_control(table))}")
    by_type = masses(run.source, audit.attack, mass)
    fractional = max(s.path.fractional(by_type[s.part]) for s in audit.shown)
    extra = f" Here {fractional:.0%} of the pairs are used in part, so it can differ." if fractional > 0.02 else ""
    ui.note(
        f"The kept share equals the mass by construction: it is set, not found.{extra} Checked on "
        f"{plural(len({s.number for s in audit.splits}), 'seeded split')} of the labelled pairs; items are resampled. "
        "The best control is chosen on these same pairs, which favours it."
    )


def helps(overall: pd.DataFrame, best: str) -> str:
    """A sentence on whether flipping helps, as far as the intervals of the two gains say so.

    Args:
        overall: rows of all types together by metric, with value, lower and upper.
        best: name of the best control.
    """
    gain, over = (_number(overall, name) for name in ("gain", "gain_over_best"))
    sides = [_side(overall, name) for name in ("gain", "gain_over_best")]
    seen = {1: "which helps", -1: "which hurts", 0: "with no measurable gain or harm"}[sides[0]]
    text = f"{seen}: on labelled pairs held back, agreement with people changes by {gain}."
    if best == "nothing":
        return f"{text} No simpler way to flip did better than leaving them."
    against = {1: "better than", -1: "worse than", 0: "not measurably better or worse than"}[sides[1]]
    return f"{text} It is {against} {CONTROL_WORDS.get(best, best)}, the best control ({over})."


def _side(overall: pd.DataFrame, name: str) -> int:
    """1 or -1 where the whole interval is above or below zero."""
    lower, upper = (float(overall.loc[name, end]) for end in ("lower", "upper"))
    return int(lower > 0) - int(upper < 0)


def _judge(run: AuditRun) -> str:
    spec = str(run.manifest.get("judge", {}).get("spec", ""))
    return "the recorded judge" if spec.startswith("recorded:") else judge_name(spec)


def _number(overall: pd.DataFrame, name: str) -> str:
    return interval_of(overall.loc[name].to_dict(), signed=True)


def _overview(run: AuditRun, attack: str, mass: float | None, kind: str) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        at_mass(run, "controls", attack, mass, caption="All flip as many verdicts as the audit does at this mass.")
        at_mass(run, "density", attack, mass)
    with right:
        at_mass(run, "types", attack, mass)
        at_mass(run, "items", attack, mass, type=kind)


def _look(run: AuditRun, pairs: Comparisons, shown: pd.DataFrame, attack: str, mass: float | None, kind: str) -> None:
    st.subheader("The pairs themselves", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        chosen = lasso_map(run, shown, attack, mass, kind)
    with right:
        of_type = "" if kind == ALL_TYPES else f", type {kind}"
        pair = _reader(run, shown, chosen, f"{ATTACKS.get(attack, _CLEAN)}, {_at(run, attack, mass)}{of_type}.")
        if pair:
            _read(run, pairs, pair, attack)


def _reader(run: AuditRun, shown: pd.DataFrame, chosen: list[str], said: str) -> str:
    """The pairs in a table; returns the one to be read."""
    flipped = shown[shown["flip"]].sort_values("entry_mass", ascending=False)
    wanted = shown[shown["comparison_id"].isin(chosen)] if chosen else flipped
    what = f"{plural(len(chosen), 'pair')} in the lasso" if chosen else f"{plural(len(flipped), 'flipped verdict')}"
    ui.note(f"{what}; select a row to read the pair. Draw a lasso on the map to read others.")
    table = flipped_table(wanted)
    event = st.dataframe(
        table,
        key=f"audit_pairs_{len(chosen)}",
        hide_index=True,
        column_order=["pair", "type", "verdict", "audited", "entry mass"],
        column_config={name: st.column_config.Column(width=w) for name, w in _WIDTHS.items()},
        height=min(300, 40 + 35 * len(table)),
        on_select="rerun",
        selection_mode="single-row",
        placeholder="",
        alt="Pairs, those that enter last first",
    )
    ui.run_table(
        run, flipped_table(flipped), title="Flipped verdicts", key="flipped", said=said,
        label="Flipped verdicts (CSV)", file="flipped_verdicts.csv",
    )  # fmt: skip
    picked = event["selection"]["rows"]
    if table.empty:
        return ""
    return str(table["pair"].iloc[picked[0] if picked and picked[0] < len(table) else 0])


def flipped_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Verdicts as the export holds them, with the audited side and how firmly it stands."""
    turned = rows["verdict"].map({"a": "b", "b": "a"})
    return pd.DataFrame(
        {
            "pair": rows["comparison_id"],
            "type": rows["type"],
            "verdict": rows["verdict"],
            "audited": turned.where(rows["flip"], rows["verdict"]),
            "human": rows["human"],
            "entry mass": rows["entry_mass"].round(3),
            "price": rows["entry_price"].round(3),
            "kept when resampled": rows["stability"].round(2),
        }
    ).reset_index(drop=True)


def _read(run: AuditRun, pairs: Comparisons, pair: str, attack: str) -> None:
    row = pairs.comparisons.set_index("comparison_id").loc[pair]
    texts = pairs.responses.set_index("response_id")["text"]
    prompt = pairs.items.set_index("item_id").loc[row["item_id"], "context"]
    for name, text in (
        (f"Prompt of {pair}", prompt),
        ("Response A", texts[row["response_a"]]),
        ("Response B", texts[row["response_b"]]),
        ("The losing response as attacked", run.attacked_text(attack, [row["response_a"], row["response_b"]])),
    ):
        if not text:
            continue
        ui.note(name)
        show_verbatim(str(text), label=name)


def _more(run: AuditRun, audit: Audit, mass: float | None) -> None:
    st.subheader("How far the method carries here", anchor=False)
    left, right = st.columns(2, gap="large")
    with left:
        at_mass(
            run, "sensitivity", audit.attack, mass,
            caption="The true share is known only where labels were held back.",
        )  # fmt: skip
    with right:
        ui.show_entry(run.source, "ranking", key="audit_ranking", attack=audit.attack)
    with st.expander(
        "Details: what was left out, and how this is computed", on_change="rerun", key="audit_details"
    ) as details:
        if details.open:
            method(run, audit)
