"""Figures of an audit by partial transport, at any mass, from the stored path.

A mass of None is the study's: the one it was set to, else each split's own estimate, and each question type's own where
types have a transport of their own. The figures then show the study's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from engine.core.schema import NONE
from engine.data.comparisons import DEMO_PAIRS
from engine.plots.text import count, label, level_text, plural
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, with_note
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table
from engine.studies.transport_audit import drawings
from engine.studies.transport_audit.drawings import TRUTHS, truth_colour, truth_of
from engine.studies.transport_audit.metrics import (
    Audit,
    consistency,
    decide,
    per_pair,
    random_curve,
    read_audit,
    stability,
)

STUDY = "transport_audit"
ATTACKS = {
    "length": "Length",
    "sentiment": "Sentiment",
    "distraction": "Distraction",
    "neutral": "Placebo: neutral paraphrase",
    NONE: "no attack",
}
CONTROLS = ("cons_adj", "cons_orig", "cons_all", "cons_random", "cons_centroid", "cons_nearest", "cons_top10")
AUCS = ("auc_entry_mass", "auc_centroid", "auc_nearest", "auc_top10")
ALL_TYPES = "all types"


# An audit read from a run, at a mass.


def attacks(source: Source) -> tuple[str, ...]:
    """Attacks audited, the clean arm first."""
    return source.memo("attacks", lambda: tuple(str(a) for a in source.table("audit")["attack"].unique()))


def kinds(source: Source) -> tuple[str, ...]:
    """The name of all question types together, then the types."""
    return source.memo("kinds", lambda: (ALL_TYPES, *sorted(source.table("audit")["type"].unique())))


def audit(source: Source, attack: str) -> Audit:
    """The audit of one attack."""
    return source.memo(
        ("audit", attack),
        lambda: read_audit(source.table("audit"), source.table("transport"), attack, seed=source.seed),
    )


def labelled(source: Source) -> bool:
    """False where no pair has a person's choice: then there is a map of the verdicts and nothing to transport."""
    return source.memo("labelled", lambda: bool(len(source.table("transport"))))


def study_mass(source: Source) -> float | None:
    """The mass that the study was set to; None where it estimated."""
    mass = source.config.get("mass")
    return None if mass is None else float(mass)


def masses(source: Source, attack: str, mass: float | None = None, kind: str = "") -> dict[str, float]:
    """The mass of each part of the split shown, by question type; all parts share one where a mass is given.

    Args:
        source: a run.
        attack: one of `attacks`.
        mass: in (0, 1]; None takes the study's.
        kind: a question type; only its part then, where it has one.
    """
    shown = audit(source, attack).shown
    parts = [s for s in shown if s.part == kind] or list(shown)
    return {s.part: s.mass(study_mass(source) if mass is None else mass) for s in parts}


def mean_mass(source: Source, attack: str) -> float:
    """The study's mass of the split shown, mean over the pairs, to two digits: where a slider starts."""
    by_part = masses(source, attack)
    sizes = [s.path.n_unlabelled for s in audit(source, attack).shown]
    return float(np.clip(round(float(np.average(list(by_part.values()), weights=sizes)), 2), 0.01, 1))


def cuts(source: Source, attack: str, mass: float | None = None, kind: str = ALL_TYPES) -> list[float]:
    """Where the masses cut, ascending: one, or each question type's own."""
    return sorted(set(masses(source, attack, mass, "" if kind == ALL_TYPES else kind).values()))


def table_at(source: Source, attack: str, mass: float | None = None) -> pd.DataFrame:
    """Consistency before and after at a mass, its controls and its cells."""
    used, least = study_mass(source) if mass is None else mass, int(source.config.get("min_cell", 10))
    return source.memo(
        ("consistency", attack, used),
        lambda: consistency(audit(source, attack), used, eta=_eta(source), level=source.level, min_cell=least),
    )


def rows_at(source: Source, attack: str, mass: float | None = None) -> pd.DataFrame:
    """The rows of the split shown, decided at a mass: `flip`, and the share of bootstraps that keep each pair."""
    used = study_mass(source) if mass is None else mass
    return source.memo(("rows", attack, used), lambda: _decided(source, audit(source, attack), used))


def _decided(source: Source, audited: Audit, mass: float | None) -> pd.DataFrame:
    rows = audited.rows(source.table("audit")).reset_index(drop=True)
    held = rows["resampled"].map(lambda v: isinstance(v, list)).to_numpy(dtype=bool)
    share, flip = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=bool)
    for split in audited.shown:
        here = ((rows["role"] == "unlabelled") & (rows["part"].fillna("") == split.part)).to_numpy()
        decided = decide(split, mass, _eta(source))
        flip[here] = decided.flips[rows.loc[here, "place"].to_numpy(dtype=np.int64)]
        if (here & held).any():
            share[here & held] = stability(np.array(rows.loc[here & held, "resampled"].tolist()), decided.mass)
    return rows.assign(stability=share, flip=flip)


def _eta(source: Source) -> float:
    return float(source.config.get("eta", 0.5))


# Figures over the mass: the price curve with its items, entry masses by truth, consistency.

_SYMBOLS = {"agrees": "circle", "disagrees": "x-thin", "unknown": "circle-open"}
FEW = 200
"""Pairs below which every one is drawn."""
MOST_MARKS = 300
"""Marks on the price curve, and bars below it; every one is an element of the page and is drawn anew at each mass."""
_BINS = 20


def prepare_items(rows: pd.DataFrame) -> pd.DataFrame:
    """The unlabelled pairs in the order in which they enter.

    Args:
        rows: rows of the table `audit` of the split shown, with `flip` (what the audit decides at the mass) and
            `stability` (share of bootstraps that keep the pair; NaN where there are none).

    Returns:
        comparison_id, type, entry_mass, entry_price, truth, kept, stability (NaN without bootstraps).
    """
    unlabelled = rows[rows["role"] == "unlabelled"]
    items = pd.DataFrame(
        {
            "comparison_id": unlabelled["comparison_id"].to_numpy(),
            "type": unlabelled["type"].to_numpy(),
            "entry_mass": unlabelled["entry_mass"].to_numpy(),
            "entry_price": unlabelled["entry_price"].to_numpy(),
            "truth": truth_of(unlabelled["agrees"].to_numpy()),
            "kept": ~unlabelled["flip"].to_numpy(dtype=bool),
            "stability": unlabelled["stability"].to_numpy(dtype=np.float64),
        }
    )
    return items.sort_values("entry_mass", kind="stable").reset_index(drop=True)


Cuts = float | Sequence[float]
"""The mass, or those of the question types where each has its own."""


def mass_words(mass: Cuts) -> str:
    """A mass as text: "0.59", or "0.03 to 0.97" where types have their own."""
    cut = _masses(mass)
    return f"{cut[0]:.2f}" if len(cut) == 1 else f"{cut[0]:.2f} to {cut[-1]:.2f}"


def _masses(mass: Cuts) -> list[float]:
    return sorted(mass) if isinstance(mass, Sequence) else [float(mass)]


def plot_items(prepared: pd.DataFrame, mass: Cuts, *, mode: Mode = "light") -> go.Figure:
    """The price curve lambda(m), each pair a mark where it enters, the cut at the mass, bootstraps below."""
    fig = go.Figure()
    if prepared.empty:
        say(fig, "nothing to audit", mode)
    drawn = drawings.thinned(prepared, "truth", MOST_MARKS)
    if len(drawn) < len(prepared):
        fig.add_trace(_curve(prepared, mode))
    for truth in [t for t in TRUTHS if (drawn["truth"] == t).any()]:
        part = drawn[drawn["truth"] == truth]
        colour = truth_colour(truth, mode)
        fig.add_trace(
            go.Scatter(
                x=part["entry_mass"].to_numpy(),
                y=part["entry_price"].to_numpy(),
                mode="markers",
                name=f"{truth} ({count(int((prepared['truth'] == truth).sum()))})",
                marker={"size": 8, "symbol": _SYMBOLS[truth], "color": colour, "line": {"color": colour, "width": 2}},
                customdata=part["comparison_id"].to_numpy(),
                hovertemplate="%{customdata}<br>mass %{x:.3f}, price %{y:.3f}<extra></extra>",
            )
        )
    known = prepared["stability"].notna().any()
    if known:
        _kept_bars(fig, prepared, mode)
    _cut(fig, mass, mode)
    fig.update_xaxes(
        title="entry mass (in order of entry)", range=[-0.01, 1.01], fixedrange=True, anchor="y2" if known else "y"
    )
    price = {"title": {"text": "price λ(m), 1 − cos"}, "rangemode": "tozero", "fixedrange": True}
    fig.update_layout(yaxis={**price, "domain": [0.34 if known else 0, 1]})  # the bars below have an axis of their own
    kept = int(prepared["kept"].sum())
    cut = "the cut" if len(_masses(mass)) == 1 else "the cut of their type"
    notes = (
        f"{count(kept)} of {plural(len(prepared), 'pair')} left of {cut}: an input, not a finding",
        "below: share of bootstraps of the positives that keep a pair" if known else "",
        f"{count(len(drawn))} of them drawn as marks" if len(drawn) < len(prepared) else "",
    )
    alt = f"Price of transported mass against mass; {cut} at {mass_words(mass)} keeps {kept} of {len(prepared)} pairs."
    return frame(
        fig, mode, title="In which order do verdicts enter?", notes=notes, alt=alt, body=330, legend=True, above=16
    )


def _curve(prepared: pd.DataFrame, mode: Mode) -> go.Scatter:
    """The price at every entry, as a thin line behind the marks."""
    return go.Scatter(
        x=prepared["entry_mass"].to_numpy(),
        y=prepared["entry_price"].to_numpy(),
        mode="lines",
        line={"color": ROLES[mode]["line"], "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
    )


def _kept_bars(fig: go.Figure, prepared: pd.DataFrame, mode: Mode) -> None:
    """The share of bootstraps that keep each pair, below the curve; means of neighbours where there are many pairs."""
    known = prepared[["comparison_id", "entry_mass", "stability"]].dropna()
    together = max(1, math.ceil(len(known) / MOST_MARKS))
    groups = known.groupby(np.arange(len(known)) // together)
    many = f"mean of {together} pairs from " if together > 1 else ""
    fig.add_trace(
        go.Bar(
            x=groups["entry_mass"].mean().to_numpy(),
            y=groups["stability"].mean().to_numpy(),
            yaxis="y2",
            name="kept when resampled",
            marker={"color": MEANING[mode]["defended"], "line": {"width": 0}},
            width=0.9 * together / max(len(prepared), 1),
            customdata=groups["comparison_id"].first().to_numpy(),
            hovertemplate=f"{many}%{{customdata}}<br>kept in %{{y:.0%}} of the bootstraps<extra></extra>",
        )
    )
    axis = {"domain": [0, 0.24], "range": [0, 1], "tickformat": ".0%", "fixedrange": True, "nticks": 3}
    fig.update_layout(yaxis2={**axis, "title": {"text": "kept"}})


def prepare_density(entry: npt.ArrayLike, agrees: npt.ArrayLike) -> pd.DataFrame:
    """FigureSpec masses of verdicts that agree and of those that do not.

    Args:
        entry: mean entry mass of each pair over the splits (n,).
        agrees: 1, 0 or NaN (n,).

    Returns:
        truth, entry_mass; one row per pair that was ever unlabelled, truths in the order of `TRUTHS`.
    """
    pairs = pd.DataFrame({"truth": truth_of(agrees), "entry_mass": np.asarray(entry, dtype=np.float64)})
    pairs = pairs[np.isfinite(pairs["entry_mass"])]
    return pairs.sort_values("truth", key=lambda t: t.map(TRUTHS.index), kind="stable").reset_index(drop=True)


def plot_density(prepared: pd.DataFrame, mass: Cuts, *, mode: Mode = "light", note: str = "") -> go.Figure:
    """Strips with boxes for fewer than 200 pairs, outlines of shares above; the cut at the mass."""
    fig, few = go.Figure(), len(prepared) < FEW
    for truth in [t for t in TRUTHS if (prepared["truth"] == t).any()]:
        entry = prepared.loc[prepared["truth"] == truth, "entry_mass"].to_numpy()
        fig.add_trace((_strip if few else _outline)(entry, truth, mode))
    _cut(fig, mass, mode)
    fig.update_xaxes(title="entry mass", range=[-0.01, 1.01], fixedrange=True)
    if few:
        fig.update_yaxes(showticklabels=True, fixedrange=True, tickfont={"color": ROLES[mode]["ink"]})
    else:
        fig.update_yaxes(title="share of pairs", tickformat=".0%", rangemode="tozero", fixedrange=True)
    if prepared.empty:
        say(fig, "nothing to audit", mode)
    notes = ("verdicts that disagree should enter late, right of the cut",)
    alt = "Distribution of entry masses by whether the verdict is the human's."
    title = "Do wrong verdicts enter later?"
    framed = frame(fig, mode, title=title, notes=notes, alt=alt, body=240, legend=not few, above=16)
    return with_note(framed, note)


def _strip(entry: npt.NDArray[np.float64], truth: str, mode: Mode) -> go.Box:
    colour = truth_colour(truth, mode)
    return go.Box(
        x=entry,
        name=f"{truth} (n = {count(len(entry))})",
        boxpoints="all",
        jitter=0.5,
        pointpos=0,
        marker={"color": colour, "size": 7, "opacity": 0.75},
        line={"color": colour, "width": 1.5},
        fillcolor="rgba(0,0,0,0)",
        hovertemplate="%{x:.3f}<extra></extra>",
    )


def _outline(entry: npt.NDArray[np.float64], truth: str, mode: Mode) -> go.Scatter:
    counts, edges = np.histogram(entry, np.linspace(0, 1, _BINS + 1))
    share = counts / len(entry)
    dash = "dot" if truth == "disagrees" else "solid"
    return go.Scatter(
        x=edges,
        y=[*share, share[-1]],
        mode="lines",
        line={"shape": "hv", "width": 2.5, "color": truth_colour(truth, mode), "dash": dash},
        name=f"{truth} (n = {count(len(entry))})",
        hovertemplate="%{x:.2f}: %{y:.0%}<extra></extra>",
    )


def prepare_sensitivity(metrics: pd.DataFrame, random: pd.DataFrame) -> pd.DataFrame:
    """Consistency after the audit at each mass, and what random flips would give there.

    Args:
        metrics: rows `sensitivity_cons_adj` of one attack, `group` holding the mass.
        random: mass, random, random_lower, random_upper at the same masses (`metrics.random_curve`).

    Returns:
        mass, value, lower, upper, random, random_lower, random_upper, level, n.
    """
    rows = metrics[metrics["metric"] == "sensitivity_cons_adj"]
    curve = rows.assign(mass=rows["group"].astype(float))[["mass", "value", "lower", "upper", "level", "n"]]
    names = ["mass", "random", "random_lower", "random_upper"]
    return curve.merge(random[names], on="mass", how="left").sort_values("mass").reset_index(drop=True)


def plot_sensitivity(
    prepared: pd.DataFrame,
    mass: Cuts,
    marks: dict[str, float],
    *,
    chosen: tuple[float, float] | None = None,
    mode: Mode = "light",
    note: str = "",
) -> go.Figure:
    """Agreement against the mass, with its interval; random flips dashed in their band; named masses as ticks.

    Args:
        prepared: from `prepare_sensitivity`.
        mass: the cut.
        marks: name -> mass, such as the true share of a lesson.
        chosen: mass that was chosen beforehand and the agreement there; drawn as a diamond.
        mode: light, dark or print.
        note: a last part of the small print.
    """
    fig = go.Figure()
    colour, grey = MEANING[mode]["defended"], MEANING[mode]["unread"]
    fig.add_trace(_band(prepared, "lower", "upper", colour, 0.18))
    fig.add_trace(_band(prepared, "random_lower", "random_upper", grey, 0.2))
    x = prepared["mass"].to_numpy()
    for name, y, dash, shade in (
        ("the audit's flips", prepared["value"], "solid", colour),
        ("as many random flips", prepared["random"], "dash", grey),
    ):
        fig.add_trace(
            go.Scatter(
                x=x,
                y=y.to_numpy(),
                mode="lines+markers",
                name=name,
                line={"color": shade, "dash": dash, "width": 2.5},
                marker={"size": 7},
                hovertemplate="mass %{x:.2f}: %{y:.3f}<extra></extra>",
            )
        )
    if chosen:
        fig.add_trace(_diamond(*chosen, mode))
    _cut(fig, mass, mode)
    _marks(fig, marks, mode)
    fig.update_xaxes(title="mass m: share of verdicts that are kept", range=list(ENDS), fixedrange=True)
    fig.update_yaxes(title="agreement with people", range=_reach(prepared), fixedrange=True, automargin=False)
    level = prepared["level"].dropna()
    how = f"bands: {level_text(float(level.iloc[0]))}, items resampled; where random flips land" if len(level) else ""
    n = f"n = {plural(int(prepared['n'].max()), 'pair')}" if len(prepared) else ""
    notes = (how, n)
    alt = "Agreement with people after the audit against the mass, with random flips beside it."
    framed = with_note(frame(fig, mode, title=HERO, notes=notes, alt=alt, body=230, legend=True, above=24), note)
    return framed.update_layout(margin={"l": LEFT, "r": RIGHT})


HERO = "Does flipping raise agreement with people?"
ENDS = (0.01, 1.0)
"""Ends of the mass axis, and of the slider below it."""
LEFT, RIGHT = 64, 24
"""Margins of the figure [px], which the slider below it has too."""


def _reach(prepared: pd.DataFrame) -> list[float]:
    """The axis of agreement: as far as curves and bands go."""
    columns = ["value", "lower", "upper", "random", "random_lower", "random_upper"]
    seen = prepared[columns].to_numpy(dtype=np.float64).ravel()
    seen = seen[np.isfinite(seen)]
    if not len(seen):
        return [0.0, 1.0]
    pad = max(0.03, 0.08 * float(np.ptp(seen)))
    return [max(0.0, float(seen.min()) - pad), min(1.0, float(seen.max()) + pad)]


def _diamond(mass: float, value: float, mode: Mode) -> go.Scatter:
    """The mass chosen beforehand, on the curve."""
    return go.Scatter(
        x=[mass],
        y=[value],
        mode="markers",
        name=f"chosen beforehand: m = {mass:.2f}",
        marker={
            "size": 15, "symbol": "diamond", "color": MEANING[mode]["human"],
            "line": {"color": ROLES[mode]["ink"], "width": 1.5},
        },
        hovertemplate="chosen beforehand<br>mass %{x:.2f}: %{y:.3f}<extra></extra>",
    )  # fmt: skip


def _band(prepared: pd.DataFrame, lower: str, upper: str, colour: str, opacity: float) -> go.Scatter:
    """The area between two columns, where both are known."""
    known = prepared.dropna(subset=[lower, upper])
    return go.Scatter(
        x=np.concatenate([known["mass"], known["mass"][::-1]]),
        y=np.concatenate([known[upper], known[lower][::-1]]),
        fill="toself",
        mode="none",
        fillcolor=colour,
        opacity=opacity,
        hoverinfo="skip",
        showlegend=False,
    )


def _cut(fig: go.Figure, mass: Cuts, mode: Mode) -> None:
    """The mass as a line, named inside the plot, where no legend is; thin lines under one name where there are more."""
    where = _masses(mass)
    line = {"color": ROLES[mode]["ink"], "width": 1.5 if len(where) == 1 else 1, "dash": "dash"}
    for at in where:
        fig.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", line=line)
    left = where[0] > 0.8 or (len(where) > 1 and where[0] > 0.5)
    fig.add_annotation(
        x=where[0],
        y=1,
        yref="paper",
        yanchor="top",
        xanchor="right" if left else "left",
        xshift=-4 if left else 4,
        text=f"m = {mass_words(mass)}" + (" by type" if len(where) > 1 else ""),
        showarrow=False,
        bgcolor=ROLES[mode]["background"],
        font={"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
    )


def _marks(fig: go.Figure, marks: dict[str, float], mode: Mode) -> None:
    """Named masses as ticks at the foot of the plot."""
    for i, (name, at) in enumerate(marks.items()):
        fig.add_annotation(
            x=at,
            y=0.02 + 0.075 * i,
            text=f"{label(name, 30)} {at:.2f} ",
            xanchor="right" if at > 0.5 else "left",
            showarrow=False,
            font={"size": SMALL_SIZE, "color": ROLES[mode]["muted"]},
            bgcolor=ROLES[mode]["background"],
        )
        fig.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=0.05 + 0.075 * i, line={"color": ROLES[mode]["line"], "width": 2}
        )


# The settings, and every figure from a run at its settings.

ATTACK = Setting("attack", "attack", "choice", lambda s: attacks(s)[0], choices=attacks, words=ATTACKS)
MASS = Setting("mass", "mass", "number", study_mass, words={None: "estimated"}, none_was=0.0)
KIND = Setting("type", "question type", "choice", lambda _: ALL_TYPES, choices=kinds)
MAP = Setting("map", "map", "choice", lambda _: "PCA", choices=lambda s: drawings.MAPS if _has_umap(s) else ("PCA",))
COLOUR = Setting("colour", "colour", "choice", lambda _: drawings.COLOURS[0], choices=lambda _: drawings.COLOURS)
AT = (ATTACK, MASS)


def _has_umap(source: Source) -> bool:
    return source.memo("has_umap", lambda: bool(source.table("audit")["umap_x"].notna().any()))


def _cuts(source: Source, at: Values) -> list[float]:
    return cuts(source, at["attack"], at["mass"], at.get("type", ALL_TYPES))


def _rows(source: Source, at: Values) -> pd.DataFrame:
    given = labelled(source)
    rows = rows_at(source, at["attack"], at["mass"]) if given else source.table("audit").assign(flip=False)
    return rows if at["type"] == ALL_TYPES else rows[rows["type"] == at["type"]]


def _left_out(source: Source) -> str:
    out = source.manifest.get("excluded", {})
    return f"{sum(out.values())} pairs left out as unread or tied" if out else "0 pairs left out"


def _note(source: Source) -> str:
    """Recorded or live, and what stands in for people on the demo."""
    demo = source.manifest.get("data", {}).get("dataset_id") == DEMO_PAIRS
    return f"{source.origin}, preferences by construction" if demo else source.origin


def _at_mass(source: Source, at: Values) -> str:
    said = mass_words(_cuts(source, at))
    if at["mass"] is not None:
        return f"at mass {said}"
    return f"at the estimated mass ({said} in the split shown; each split has its own)"


def _controls(source: Source, at: Values) -> FigureData:
    table = table_at(source, at["attack"], at["mass"])
    prepared = drawings.prepare_controls(table, CONTROLS if len(table) else ())
    more = {"title": "Does transport beat simpler ways to flip?", "rows": "consistency"}
    return FigureData(prepared, more, (_at_mass(source, at), _left_out(source)), _note(source))


def _ranking(source: Source, at: Values) -> FigureData:
    metrics = source.table("metrics")
    prepared = drawings.prepare_controls(metrics[metrics["attack"] == at["attack"]], AUCS)
    more = {"title": "Which score finds wrong verdicts?", "rows": "auc"}
    return FigureData(prepared, more, (_left_out(source),), _note(source))


def _draw_controls(prepared: pd.DataFrame, *, rows: str, title: str, mode: Mode) -> go.Figure:
    drawn = {"consistency": drawings.CONSISTENCY, "auc": drawings.AUC, "orders": drawings.ORDERS}[rows]
    return drawings.plot_controls(prepared, drawn, mode=mode, title=title)


def _orders(source: Source, _: Values) -> FigureData:
    prepared = drawings.prepare_orders(source.table("verdicts"), level=source.level, seed=source.seed)
    unread = prepared.loc[prepared["metric"] == "orders_unread", "value"].sum() * prepared["n"].max()
    facts = (f"{plural(round(unread), 'pair')} unread",)
    return FigureData(prepared, {"title": ORDERS, "rows": "orders"}, facts, _note(source))


ORDERS = "Does its choice survive a swap of order?"


def _types(source: Source, at: Values) -> FigureData:
    prepared = drawings.prepare_types(table_at(source, at["attack"], at["mass"]))
    facts = (f"n = {int(prepared['n'].sum())} pairs", _at_mass(source, at), _left_out(source))
    return FigureData(prepared, {}, facts, _note(source))


def _attacks(source: Source, _: Values) -> FigureData:
    metrics = source.table("metrics")
    prepared = drawings.prepare_types(metrics[metrics["group"].notna()], ATTACKS)
    note = f"each at its estimated mass; {_note(source)}"
    least = int(prepared["n"].min()) if len(prepared) else 0
    facts = (f"n = {least} pairs a row or more", _left_out(source))
    return FigureData(prepared, {"title": "And under attack?"}, facts, note)


def _density(source: Source, at: Values) -> FigureData:
    audited = audit(source, at["attack"])
    splits, n = audited.splits or audited.shown, len(audited.pairs)
    entry = per_pair(splits, [s.path.entry_mass for s in splits], n)
    prepared = prepare_density(entry, per_pair(splits, [s.agrees for s in splits], n))
    note = f"mean over the splits; {_note(source)}" if audited.splits else _note(source)
    facts = (f"n = {len(prepared)} pairs", "single pairs, so no interval", _left_out(source))
    return FigureData(prepared, {"mass": _cuts(source, at)}, facts, note)


def _items(source: Source, at: Values) -> FigureData:
    prepared = prepare_items(_rows(source, at))
    facts = (f"n = {len(prepared)} pairs", "single pairs, so no interval", _left_out(source))
    return FigureData(prepared, {"mass": _cuts(source, at)}, facts, _note(source))


def _map(source: Source, at: Values) -> FigureData:
    prepared = drawings.prepare_map(_rows(source, at), at["map"])
    facts = (f"n = {len(prepared)} pairs", "single pairs, so no interval", _left_out(source))
    return FigureData(prepared, {"kind": at["map"], "colour": at["colour"]}, facts, _note(source))


def _sensitivity(source: Source, at: Values) -> FigureData:
    """Agreement against the mass with random flips, and the mass chosen beforehand."""
    metrics = source.table("metrics")
    metrics = metrics[metrics["attack"] == at["attack"]]
    rows = metrics[metrics["metric"] == "sensitivity_cons_adj"]
    level = float(rows["level"].iloc[0]) if len(rows) else 0.95
    at_masses = sorted({float(group) for group in rows["group"]})
    prepared = prepare_sensitivity(metrics, random_curve(audit(source, at["attack"]), at_masses, level))
    table = table_at(source, at["attack"])
    before = table[table["group"].isna() & (table["metric"] == "cons_adj")]["value"]
    chosen = (mean_mass(source, at["attack"]), float(before.iloc[0])) if len(before) and before.notna().all() else None
    where = _cuts(source, at)
    apart = "curve: one mass for all types" if len(where) > 1 else ""
    more: dict[str, object] = {"mass": where, "marks": {}, "chosen": chosen}
    return FigureData(prepared, more, (apart, _left_out(source)), _note(source))


_EMPTY = has_table("audit", "it holds no audit yet.")


def _unlabelled(source: Source) -> str:
    return _EMPTY(source) or ("" if labelled(source) else "none of its pairs has a person's choice.")


def _one_attack(source: Source) -> str:
    return _unlabelled(source) or ("" if len(attacks(source)) > 1 else "it audited no attack.")


def _one_order(source: Source) -> str:
    missing = has_table("verdicts", "it holds no verdicts yet.")(source)
    return missing or ("" if source.table("verdicts")["order"].nunique() > 1 else "its verdicts are of one order.")


ENTRIES = (
    FigureSpec(
        STUDY, "controls", "Does transport beat simpler ways to flip?", _controls, _draw_controls, AT, _unlabelled,
    ),
    FigureSpec(
        STUDY, "types", "Where does the audit help or hurt?", _types, drawings.plot_types, AT, _unlabelled,
    ),
    FigureSpec(
        STUDY, "attacks", "And under attack?", _attacks, drawings.plot_types, (), _one_attack,
    ),
    FigureSpec(
        STUDY, "density", "Do wrong verdicts enter later?", _density, plot_density, AT, _unlabelled,
    ),
    FigureSpec(
        STUDY, "items", "In which order do verdicts enter?", _items, plot_items,
        (*AT, KIND), _unlabelled,
    ),
    FigureSpec(
        STUDY, "map", "Which comparisons look alike?", _map, drawings.plot_map,
        (*AT, KIND, MAP, COLOUR), _EMPTY,
    ),
    FigureSpec(
        STUDY, "sensitivity", HERO, _sensitivity,
        plot_sensitivity, AT, _unlabelled,
    ),
    FigureSpec(STUDY, "orders", ORDERS, _orders, _draw_controls, (), _one_order),
    FigureSpec(
        STUDY, "ranking", "Which score finds wrong verdicts?", _ranking, _draw_controls, (ATTACK,), _unlabelled,
    ),
)  # fmt: skip
