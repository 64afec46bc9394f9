"""The result of an audit: headline, hero figure, mass slider, and what follows from it, from stored arrays."""

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
from engine.studies.transport_audit.drawings import COLOURS, MAPS
from engine.studies.transport_audit.figures import (
    ALL_TYPES,
    ENDS,
    cuts,
    mass_words,
    masses,
    mean_mass,
    rows_at,
    table_at,
)
from engine.studies.transport_audit.metrics import CONDITIONAL, Audit, best_control

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
    """Encoders (PUAudit, table 3) and shares of verified positives (table 6)."""
    encoders = _wide(run.metrics, "encoder_", ("cons_orig", "cons_adj", "gain", "gain_over_best", "auc_entry_mass"))
    if len(encoders):
        ui.note("Without an attack, each encoder at its own estimated mass")
        encoders["Encoder"] = [short_title(e) for e in encoders["Encoder"]]
        st.dataframe(encoders, hide_index=True, key="audit_encoder_table", alt="Encoders compared")
        ui.run_table(run, encoders, title="Encoders compared", key="audit_encoders_kept", file="audit_encoders.csv",
                  said="Without an attack, each at its estimated mass (PUAudit, table 3).")  # fmt: skip
    ratios = _wide(run.metrics, "p_ratio_", ("cons_orig", "cons_adj", "gain"))
    if len(ratios):
        ui.note("Share of people's pairs used as positives")
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


def method(run: AuditRun, audit: Audit | None) -> list[str]:
    """The drawer: what was left out, what is set and what is found, and whose method it is."""
    excluded = run.manifest.get("excluded", {})
    lines = [
        provenance(run.manifest, recorded=run.recorded).capitalize() + ".",
        f"Pairs left out: {', '.join(f'{n} {reason}' for reason, n in excluded.items()) or 'none'}.",
    ]
    for attack, why in run.manifest.get("excluded_under_attack", {}).items():
        if why:
            lines.append(f"Left out under {attack}: {', '.join(f'{n} {reason}' for reason, n in why.items())}.")
    if run.config.get("quick"):
        lines.append("A quick audit: fewer pairs, splits and resamples, and no UMAP; the full one refines it.")
    if audit is None:
        return lines
    kept, given = audit.shown[0].path.n_positive, int((audit.rows(run.rows)["role"] != "unlabelled").sum())
    how = run.config
    return [
        *lines,
        f"{plural(given, 'pair')} that people decided stand for what a human preference looks like, {kept} after the "
        f"filter (α₁ = {how.get('alpha1')}, α₂ = {how.get('alpha2')}, within each type). Cost: 1 − cosine of the "
        "differences of the two embeddings.",
        "The mass is set, not found: chosen beforehand as the share of people's choices that the judge shares on the "
        "positives. Any other mass on the slider is exploratory, chosen with the answer in view, and proves nothing.",
        f"Checked on {plural(len({s.number for s in audit.splits}), 'seeded split')} of the pairs that people decided; "
        "items are resampled. The band of random flips is that of the random choice itself, these pairs given.",
        "The best simpler way is chosen on these same pairs, which favours it. A type with few pairs is grey and takes "
        f"part in no claim. η = {how.get('eta')} hardly acts, since a pair is used whole or not at all but for a few.",
        "Method: partial optimal transport of PUAudit, sections 4 and 5 and appendix A.4; its figure 2 uses a score "
        "that it does not define, so entry mass stands here.",
    ]


ATTACK, TYPE, MASS = "audit_attack", "audit_type", "mass"
_CLEAN = "No attack"
_WIDTHS = {"pair": 100, "type": 90, "verdict": 60, "audited": 60, "entry mass": 80}
"""Of the columns of the pairs [px]; the file has more of them."""


TABS = ("Map", "Types", "Rows flipped", "Encoders", "Simpler ways")
TAB = "audit_tab"


def results(frame: ui.Frame, run: AuditRun, pairs: Comparisons) -> None:
    """Headline, hero figure with the mass slider, facts and tabs of one run."""
    if not run.labelled:
        _unlabelled(frame, run)
        return
    with frame.body:
        st.fragment(_with_settings)(run, pairs)
    frame.measured(method(run, run.audits[NONE]), key="audit")


def _unlabelled(frame: ui.Frame, run: AuditRun) -> None:
    """A run that nobody can check, for want of people's choices or of verdicts: what needs neither."""
    both = run.kept_choices
    seen = (
        f"swapping the order leaves {both[0]} of {plural(both[1], 'choice')} as they are"
        if both else f"{plural(len(run.rows), 'verdict')} can be seen"
    )  # fmt: skip
    people = int(run.manifest.get("data", {}).get("n_labelled", 0)) > 1
    start = (
        "Too few pairs have both a person's choice and a verdict for an audit"
        if people else "Nobody decided these pairs, so agreement, flips and types are left out"
    )  # fmt: skip
    frame.headline(f"{start}; {seen}.")
    shown = (["orders"] if both else []) + (["map"] if len(run.rows) else [])
    with frame.hero:
        for place, name in zip(st.columns(max(1, len(shown)), gap="large"), shown, strict=False):
            with place:
                ui.show_entry(run.source, name, key=f"audit_{name}_alone")
    found = run.metrics.set_index(["metric", "attack"])
    frame.facts(
        {
            _UNLABELLED[str(metric)] + ("" if attack == NONE else f", {ATTACKS.get(str(attack), attack)}"): interval_of(
                row.to_dict()
            )
            for (metric, attack), row in found.iterrows()
            if metric in _UNLABELLED
        }
    )
    frame.measured(method(run, None), key="audit")


_UNLABELLED = {
    "decided": "Pairs it decides",
    "orders_disagree": "Orders disagree",
    "verdict_flips": "Verdicts turned by the attack",
}


def _with_settings(run: AuditRun, pairs: Comparisons) -> None:
    attacks = list(run.audits)
    state.seed(ATTACK, attacks, NONE)
    answer, hero, below, settings = (st.container(gap="small") for _ in range(4))
    with settings:
        attack, kind = _pick(run, attacks)
    audit = run.audits[attack]
    with below:
        mass = _mass(run, attack)
        numbers = st.container()
    table, rows = table_at(run.source, attack, mass), rows_at(run.source, attack, mass)
    shown = rows if kind == ALL_TYPES else rows[rows["type"] == kind]
    with answer:
        _say(run, audit, table, rows, mass)
    with hero:
        at_mass(run, "sensitivity", attack, mass)
    with numbers:
        _facts(table, rows)
    tabs = st.tabs(TABS, key=TAB, on_change="rerun", bind="query-params")
    draw = (
        lambda: _look(run, pairs, shown, attack, mass, kind, on_map=True),
        lambda: _types(run, attack, mass),
        lambda: _look(run, pairs, shown, attack, mass, kind, on_map=False),
        lambda: _encoders(run, attack),
        lambda: _simpler(run, attack, mass, kind),
    )
    for tab, one in zip(tabs, draw, strict=True):
        if tab.open:
            with tab:
                one()


def _pick(run: AuditRun, attacks: list[str]) -> tuple[str, str]:
    """Attack and question type, for what stands below them."""
    left, right = st.columns(2, gap="medium")
    with left:
        attack = ui.pick("Attack", attacks, key=ATTACK, title=lambda a: ATTACKS.get(a, _CLEAN))
        state.publish(ATTACK, attack, NONE)
    with right:
        kinds = [ALL_TYPES, *sorted(run.audits[attack].pairs["type"].unique())]
        kind = ui.pick("Question type in the tabs", kinds, key=TYPE, default=ALL_TYPES, publish=True, title=ui.plain)
    return attack, kind


def _mass(run: AuditRun, attack: str) -> float | None:
    """The mass of the slider; None where the study put it, so that the page shows the study's own numbers."""
    start, key = mean_mass(run.source, attack), f"mass_{run.run_id}_{attack}"
    by_type = masses(run.source, attack)
    state.seed_number(key, 0.01, 1.0, start, param=MASS)
    apart = f" There each question type has its own: {mass_words(list(by_type.values()))}." if len(by_type) > 1 else ""
    with st.container(key="audit_mass"):  # the style sheet gives it the margins of the figure's plot above
        value = float(
            st.slider(
                "Mass m", ENDS[0], ENDS[1], step=0.01, key=key,
                help=f"The share of verdicts that is kept. {start:.2f} was chosen beforehand; every other mass is "
                f"exploratory.{apart}",
            )
        )  # fmt: skip
    state.publish(MASS, f"{value:g}", f"{start:g}")
    return None if abs(value - start) < 1e-9 else value


def _facts(table: pd.DataFrame, rows: pd.DataFrame) -> None:
    n, flips = int((rows["role"] == "unlabelled").sum()), int(rows["flip"].sum())
    values = {"Flips": f"{flips} of {n}"}
    if len(table):
        overall = table[table["group"].isna()].set_index("metric")
        best = best_control(table)
        values |= {
            "Judge as it is": interval_of(overall.loc["cons_orig"].to_dict()),
            "After the flips": interval_of(overall.loc["cons_adj"].to_dict()),
            f"Best simpler way: {CONTROL_WORDS.get(best, best)}": interval_of(overall.loc[f"cons_{best}"].to_dict()),
        }
    ui.facts(values)
    if len(table):
        ui.note(CONDITIONAL)


def _at(run: AuditRun, attack: str, mass: float | None) -> str:
    """The mass in words: where the study put it each question type may have its own."""
    where = cuts(run.source, attack, mass)
    return f"mass {where[0]:.2f}" if len(where) == 1 else f"masses of {mass_words(where)} by question type"


def _say(run: AuditRun, audit: Audit, table: pd.DataFrame, rows: pd.DataFrame, mass: float | None) -> None:
    """The headline: at the mass chosen beforehand with a verdict, at any other the numbers alone."""
    flips = int(rows["flip"].sum())
    n = int((rows["role"] == "unlabelled").sum())
    start = f"At {_at(run, audit.attack, mass)} the audit flips {flips} of {plural(n, 'verdict')}"
    overall = table[table["group"].isna()].set_index("metric") if len(table) else table
    if not len(table) or overall["value"].isna().all():
        ui.headline(f"{start}; nobody decided pairs that could be held back, so nothing can be said of the gain.")
    elif mass is None:
        ui.headline(f"{start}: {helps(overall)}.")
    else:
        ui.headline(f"{start}. Exploratory: not the mass chosen beforehand.")


def helps(overall: pd.DataFrame) -> str:
    """Whether flipping helps, as far as the interval of the gain says so.

    Args:
        overall: rows of all types together by metric, with value, lower and upper.
    """
    side = _side(overall, "gain")
    if side == 0:
        return f"agreement with people changes by {_number(overall, 'gain')}, not measurably better or worse"
    row = overall.loc["gain"].to_dict()
    if side > 0:
        return f"agreement with people rises by {interval_of(row)}"
    turned = row | {"value": -row["value"], "lower": -row["upper"], "upper": -row["lower"]}
    return f"agreement with people falls by {interval_of(turned)}"


def beats(overall: pd.DataFrame, best: str) -> str:
    """A sentence on whether transport did better than the best simpler way to flip as many.

    Args:
        overall: as above.
        best: name of the best control.
    """
    if best == "nothing":
        return "No simpler way to flip did better than leaving the verdicts as they are."
    words = {1: "better than", -1: "worse than", 0: "not measurably better or worse than"}
    against = words[_side(overall, "gain_over_best")]
    over = _number(overall, "gain_over_best")
    return f"Transport is {against} {CONTROL_WORDS.get(best, best)}, the best simpler way ({over})."


def _side(overall: pd.DataFrame, name: str) -> int:
    """1 or -1 where the whole interval is above or below zero."""
    lower, upper = (float(overall.loc[name, end]) for end in ("lower", "upper"))
    return int(lower > 0) - int(upper < 0)


def _number(overall: pd.DataFrame, name: str) -> str:
    return interval_of(overall.loc[name].to_dict(), signed=True)


def _types(run: AuditRun, attack: str, mass: float | None) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        at_mass(run, "types", attack, mass)
    with right:
        if len(run.audits) > 1:
            ui.show_entry(run.source, "attacks", key="audit_attacks_fig")


def _encoders(run: AuditRun, attack: str) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        tables(run)
    with right:
        ui.show_entry(run.source, "ranking", key="audit_ranking", attack=attack)


def _simpler(run: AuditRun, attack: str, mass: float | None, kind: str) -> None:
    """The same number of flips without transport, and the order in which verdicts enter."""
    left, right = st.columns(2, gap="large")
    table = table_at(run.source, attack, mass)
    with left:
        at_mass(run, "controls", attack, mass)
        if mass is None and len(table):
            ui.note(beats(table[table["group"].isna()].set_index("metric"), best_control(table)))
    with right:
        at_mass(run, "density", attack, mass)
        at_mass(run, "items", attack, mass, type=kind)


def _look(
    run: AuditRun, pairs: Comparisons, shown: pd.DataFrame, attack: str, mass: float | None, kind: str, *, on_map: bool
) -> None:
    """The map, whose lasso chooses pairs, or the flipped ones; beside it the pair that is read."""
    left, right = st.columns(2, gap="large")
    chosen: list[str] = []
    if on_map:
        with left:
            chosen = lasso_map(run, shown, attack, mass, kind)
    of_type = "" if kind == ALL_TYPES else f", type {kind}"
    said = f"{ATTACKS.get(attack, _CLEAN)}, {_at(run, attack, mass)}{of_type}."
    with right if on_map else left:
        pair = _reader(run, shown, chosen, said, key="map" if on_map else "rows")
    if pair and not on_map:
        with right:
            _read(run, pairs, pair, attack)
    elif pair and chosen:
        with right, st.expander(f"Read pair {ui.plain(pair)}", key="audit_read"):
            _read(run, pairs, pair, attack)


def _reader(run: AuditRun, shown: pd.DataFrame, chosen: list[str], said: str, *, key: str) -> str:
    """The pairs in a table; returns the one to be read."""
    flipped = shown[shown["flip"]].sort_values("entry_mass", ascending=False)
    wanted = shown[shown["comparison_id"].isin(chosen)] if chosen else flipped
    what = f"{plural(len(chosen), 'pair')} in the lasso" if chosen else f"{plural(len(flipped), 'flipped verdict')}"
    ui.note(f"{what}; select a row to read the pair.")
    table = flipped_table(wanted)
    event = st.dataframe(
        table,
        key=f"audit_pairs_{key}_{len(chosen)}",
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
        run, flipped_table(flipped), title="Flipped verdicts", key=f"flipped_{key}", said=said,
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
        if not text or pd.isna(text):
            continue  # published verdicts may come without their texts
        ui.note(name)
        show_verbatim(str(text), label=name)
