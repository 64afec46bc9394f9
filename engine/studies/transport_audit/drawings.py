"""Drawings of an audit besides the figures over the mass: rows with intervals, and the map of the pairs.

Rows are types before and after, controls, and how well scores rank.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from engine.core.schema import NONE
from engine.plots.text import count, interval_text, label, level_text, plural
from engine.plots.theme import MEANING, PALETTE, ROLES, SMALL_SIZE, Mode, frame, say, whiskers, with_note
from engine.stats.agreement import combine_orders
from engine.stats.intervals import cluster_rate

CONTROL_TITLES: dict[str, str] = {
    "cons_adj": "transport (entry mass)",
    "cons_orig": "the judge as it is",
    "cons_all": "flip all verdicts",
    "cons_random": "random flips",
    "cons_centroid": "cosine to the mean positive",
    "cons_nearest": "nearest positive",
    "cons_top10": "mean of the ten nearest",
    "auc_entry_mass": "transport (entry mass)",
    "auc_centroid": "cosine to the mean positive",
    "auc_nearest": "nearest positive",
    "auc_top10": "mean of the ten nearest",
}
"""Name of each metric's row."""
_ROW, _NAME_ROOM = 46, 19


@dataclass(frozen=True)
class Rows:
    """The axis of a figure of rows.

    Attributes:
        axis: axis title.
        null: where nothing would be gained; drawn as a dashed line, NaN draws none.
        span: range of the axis.
    """

    axis: str
    null: float
    span: tuple[float, float]


CONSISTENCY = Rows("agreement with people", 0.5, (0.0, 1.0))
ORDERS = Rows("share of the pairs", math.nan, (0.0, 1.0))
AUC = Rows("AUC: chance that an agreeing verdict scores higher", 0.5, (0.0, 1.0))


def prepare_controls(metrics: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """One row per metric of `names`, in that order, overall rows only.

    Args:
        metrics: table `metrics` of one attack, from `engine.studies.transport_audit.metrics`.
        names: keys of `CONTROL_TITLES`.

    Returns:
        name, metric, value, lower, upper, level, method, n, n_clusters.
    """
    overall = metrics[metrics["group"].isna()].drop_duplicates("metric").set_index("metric")
    have = [name for name in names if name in overall.index]
    rows = overall.loc[have].reset_index()
    rows["name"] = [CONTROL_TITLES.get(name, name) for name in have]
    return rows[["name", "metric", "value", "lower", "upper", "level", "method", "n", "n_clusters"]]


ORDER_ROWS = {
    "same": "the same response in both orders",
    "first": "whichever is shown first",
    "second": "whichever is shown second",
    "tie": "a tie in one order or both",
    "unread": "no answer that can be read",
}
"""Name of each way in which a judge answers a pair in its two orders."""
_CHOICES = {("a", "a"): "same", ("b", "b"): "same", ("a", "b"): "first", ("b", "a"): "second"}


def choices(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The table `pairs` of the clean verdicts, and in `choice` a key of `ORDER_ROWS`."""
    both = combine_orders(verdicts[verdicts["attack"] == NONE])
    named = [
        "unread" if pd.isna(apart) else _CHOICES.get((str(ab), str(ba)), "tie")
        for ab, ba, apart in both[["outcome_ab", "outcome_ba", "disagree"]].itertuples(index=False, name=None)
    ]
    return both.assign(choice=named)


def prepare_orders(verdicts: pd.DataFrame, *, level: float, seed: int) -> pd.DataFrame:
    """Share of all pairs by what the judge chooses when their order is swapped; columns as in `prepare_controls`.

    The shares add up to 1, and a way that never happens and need not be told (unread) has no row.

    Args:
        verdicts: table `verdicts`, both orders.
        level: of the intervals.
        seed: of the intervals.
    """
    both = choices(verdicts)
    rows: list[dict[str, Any]] = []
    for key, name in ORDER_ROWS.items():
        chosen = (both["choice"] == key).to_numpy(dtype=np.float64)
        if key == "unread" and not chosen.any():
            continue
        rate = cluster_rate(chosen, both["item_id"].to_numpy(), level=level, seed=seed)
        ends = {"value": rate.value, "lower": rate.lower, "upper": rate.upper, "level": rate.level}
        rows.append({"name": name, "metric": f"orders_{key}", **ends, "method": rate.method, "n": rate.n,
                     "n_clusters": rate.n_clusters})  # fmt: skip
    return pd.DataFrame(rows)


def plot_controls(prepared: pd.DataFrame, rows: Rows, *, mode: Mode = "light", title: str, note: str = "") -> go.Figure:
    """A row per way of deciding: its name and numbers on one line, point and interval below.

    Args:
        prepared: from `prepare_controls`.
        rows: `CONSISTENCY` or `AUC`.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig, words, texts = go.Figure(), [], []
    for i, row in enumerate(prepared.to_dict("records")):
        text = _numbers(row)
        texts.append(f"{row['name']} {text}")
        if math.isfinite(row["value"]):
            fig.add_trace(_point(row, i, _colour(str(row["metric"]), mode), text, mode))
        words += _line(str(row["name"]), f"<b>{text}</b>", i, mode)
    _axes(fig, rows, len(prepared), words, mode)
    if prepared.empty:
        say(fig, "no labelled pair was held back, so nothing can be checked", mode)
    notes = (_said(prepared),)
    alt, body = f"{title} " + "; ".join(texts), _ROW * max(len(prepared), 1) + 16
    return with_note(frame(fig, mode, title=title, notes=notes, alt=alt, body=body), note)


def prepare_types(metrics: pd.DataFrame, titles: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One row per attack and question type, consistency before and after the audit.

    Returns:
        attack, type, name, orig, orig_lower, orig_upper, adj, adj_lower, adj_upper, gain, level, n, n_clusters, enough
        (whether the cell takes part in claims).
    """
    by_type = metrics[metrics["group"].notna() & metrics["metric"].isin(["cons_orig", "cons_adj", "gain"])]
    rows: list[dict[str, Any]] = []
    cells: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in by_type.to_dict("records"):
        cells.setdefault((row["attack"], row["group"]), {})[str(row["metric"])] = row
    alone = len({attack for attack, _ in cells}) == 1
    for (attack, kind), by in cells.items():
        if len(by) < 3:
            continue
        orig, adj = by["cons_orig"], by["cons_adj"]
        called = (titles or {}).get(str(attack), str(attack))
        rows.append(
            {
                "attack": str(attack),
                "type": str(kind),
                "name": str(kind) if alone else f"{kind}, {called}",
                "orig": orig["value"], "orig_lower": orig["lower"], "orig_upper": orig["upper"],
                "adj": adj["value"], "adj_lower": adj["lower"], "adj_upper": adj["upper"],
                "gain": by["gain"]["value"], "level": orig["level"], "n": int(orig["n"]),
                "n_clusters": int(orig["n_clusters"]), "enough": not str(orig["method"]).startswith("fewer"),
            }
        )  # fmt: skip
    return pd.DataFrame(rows, columns=_TYPE_COLUMNS).sort_values(["type"], kind="stable").reset_index(drop=True)


_TYPE_COLUMNS = [
    "attack", "type", "name", "orig", "orig_lower", "orig_upper", "adj", "adj_lower", "adj_upper", "gain", "level", "n",
    "n_clusters", "enough",
]  # fmt: skip


def plot_types(
    prepared: pd.DataFrame, *, mode: Mode = "light", title: str = "Where does the audit help or hurt?"
) -> go.Figure:
    """Dumbbells: consistency before (hollow) and after (solid) for each question type, intervals as thin lines."""
    fig, words, texts = go.Figure(), [], []
    for i, row in enumerate(prepared.to_dict("records")):
        known = math.isfinite(row["orig"]) and math.isfinite(row["adj"])
        numbers = f"{row['orig']:.2f} → {row['adj']:.2f}" if known else "unknown"
        text = f"{numbers}, n = {count(row['n'])}" + ("" if row["enough"] else " (too few)")
        texts.append(f"{row['name']} {text}")
        before = MEANING[mode]["clean" if row["attack"] == "none" else "attacked"]
        after = MEANING[mode]["defended"] if row["enough"] else MEANING[mode]["unread"]
        if known:
            for trace in _dumbbell(row, i, before if row["enough"] else MEANING[mode]["unread"], after, mode):
                fig.add_trace(trace)
        words += _line(str(row["name"]), f"<b>{text}</b>", i, mode)
    _axes(fig, CONSISTENCY, len(prepared), words, mode)
    if prepared.empty:
        say(fig, "no labelled pair was held back, so nothing can be checked", mode)
    level = (
        f"{level_text(float(prepared['level'].iloc[0]))} intervals (bootstrap of items, or Wilson)"
        if len(prepared)
        else ""
    )
    few = "grey: too few pairs, no claim" if len(prepared) and not prepared["enough"].all() else ""
    notes = ("hollow: before, solid: after the audit", level, few)
    return frame(
        fig, mode, title=title, notes=notes, alt="; ".join([title, *texts]), body=_ROW * max(len(prepared), 1) + 16
    )


def _dumbbell(row: Mapping[Hashable, Any], y: int, before: str, after: str, mode: Mode) -> list[go.Scatter]:
    ends = ((row["orig_lower"], row["orig_upper"], before, -0.07), (row["adj_lower"], row["adj_upper"], after, 0.07))
    traces = [
        go.Scatter(x=[low, high], y=[y + shift] * 2, mode="lines", line={"color": c, "width": 1.5}, hoverinfo="skip")
        for low, high, c, shift in ends
        if math.isfinite(low)
    ]
    traces.append(
        go.Scatter(
            x=[row["orig"], row["adj"]],
            y=[y - 0.07, y + 0.07],
            mode="lines+markers",
            line={"color": ROLES[mode]["line"], "width": 1},
            marker={
                "size": 11,
                "color": [ROLES[mode]["background"], after],
                "line": {"color": [before, after], "width": 2},
            },
            customdata=[["before"], ["after"]],
            hovertemplate=f"{label(row['name'], 40)}<br>%{{customdata[0]}} %{{x:.3f}}<extra></extra>",
        )
    )
    return traces


def _colour(metric: str, mode: Mode) -> str:
    if metric in ("cons_adj", "auc_entry_mass"):
        return MEANING[mode]["defended"]
    if metric in ("orders_first", "orders_second"):
        return MEANING[mode]["attacked"]
    return MEANING[mode]["clean" if metric in ("cons_orig", "orders_same") else "unread"]


def _point(row: Mapping[Hashable, Any], y: int, colour: str, text: str, mode: Mode) -> go.Scatter:
    bounded = math.isfinite(row["lower"]) and math.isfinite(row["upper"])
    return go.Scatter(
        x=[row["value"]],
        y=[y],
        mode="markers",
        marker={
            "size": 11,
            "color": colour if bounded else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_x=whiskers(row["value"], row["lower"], row["upper"], colour, thickness=2.5, width=5),
        customdata=[[label(row["name"], 60), text]],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    )


def _numbers(row: Mapping[Hashable, Any]) -> str:
    n_items = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    return interval_text(row["value"], row["lower"], row["upper"], method=str(row["method"]), n_clusters=n_items)


def _line(name: str, numbers: str, y: int, mode: Mode) -> list[dict[str, Any]]:
    both = ((0, label(name, 34), "left"), (1, numbers, "right"))
    return [
        {
            "x": x, "xref": "paper", "y": y, "yshift": _NAME_ROOM, "text": text, "xanchor": anchor, "showarrow": False,
            "bgcolor": ROLES[mode]["background"], "borderpad": 1,
            "font": {"size": SMALL_SIZE + 1, "color": ROLES[mode]["ink"]},
        }
        for x, text, anchor in both
    ]  # fmt: skip


def _axes(fig: go.Figure, rows: Rows, n: int, words: list[dict[str, Any]], mode: Mode) -> None:
    fig.update_xaxes(range=[rows.span[0] - 0.01, rows.span[1] + 0.01], title=rows.axis, fixedrange=True, nticks=6)
    fig.update_yaxes(range=[max(n, 1) - 0.45, -0.8], visible=False, fixedrange=True)
    dashed = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    if math.isfinite(rows.null):
        fig.add_shape(type="line", x0=rows.null, x1=rows.null, y0=0, y1=1, yref="paper", line=dashed, layer="below")
    fig.update_layout(annotations=words)


def _said(prepared: pd.DataFrame) -> str:
    if prepared.empty:
        return ""
    row = prepared.iloc[0]
    n, items = plural(int(row["n"]), "pair"), plural(int(row["n_clusters"]), "item")
    level, bounded = row["level"], prepared[prepared["lower"].notna()]
    ways = "; ".join(label(way, 70) for way in dict.fromkeys(bounded["method"]))
    how = f"{level_text(float(level))} intervals ({ways}), " if pd.notna(level) and ways else ""
    return f"{how}n = {n} of {items}"


# The map of difference embeddings: which comparisons lie where, and what the audit makes of them.

COLOURS = ("entry mass", "decision", "truth")
MAPS = ("PCA", "UMAP")
POSITIVE = "verified positive"

TRUTHS = ("agrees", "disagrees", "unknown")
"""Agreement of a verdict with the human's, in words."""
MOST_DRAWN = 5000
"""Pairs drawn on the map."""


def truth_colour(truth: str, mode: Mode) -> str:
    """Gold where a verdict is the human's, pink where it is not, grey where nobody knows."""
    return {"agrees": MEANING[mode]["human"], "disagrees": PALETTE[mode][7]}.get(truth, MEANING[mode]["unread"])


def truth_of(agrees: npt.ArrayLike) -> list[str]:
    """The words for agreement 1, 0 and NaN."""
    return ["unknown" if np.isnan(a) else TRUTHS[int(a < 0.5)] for a in np.asarray(agrees, dtype=np.float64)]


def thinned(rows: pd.DataFrame, by: str | list[str], most: int = MOST_DRAWN) -> pd.DataFrame:
    """About so many rows at most: every value of `by` has its share and one at least, spread evenly over the order."""
    if len(rows) <= most:
        return rows
    parts = []
    for _, group in rows.groupby(by, sort=False):
        n = max(1, int(most * len(group) / len(rows)))
        parts.append(group.iloc[np.linspace(0, len(group) - 1, n).round().astype(int)])
    return pd.concat(parts)


def prepare_map(rows: pd.DataFrame, kind: str = "PCA") -> pd.DataFrame:
    """Every pair of the split shown that has coordinates, at most 5,000, every role and type with its share.

    Args:
        rows: rows of the table `audit` of the split shown, with `flip`: what the audit decides.
        kind: PCA or UMAP.

    Returns:
        comparison_id, type, role, x, y, entry_mass, truth, decision (kept | flipped | a positive's role).
    """
    prefix = "umap" if kind == "UMAP" else "pca"
    placed = rows[rows[f"{prefix}_x"].notna()]
    unlabelled = (placed["role"] == "unlabelled").to_numpy()
    decision = np.where(
        unlabelled, np.where(placed["flip"].to_numpy(dtype=bool), "flipped", "kept"), placed["role"].to_numpy()
    )
    pairs = pd.DataFrame(
        {
            "comparison_id": placed["comparison_id"].to_numpy(),
            "type": placed["type"].to_numpy(),
            "role": placed["role"].to_numpy(),
            "x": placed[f"{prefix}_x"].to_numpy(),
            "y": placed[f"{prefix}_y"].to_numpy(),
            "entry_mass": placed["entry_mass"].to_numpy(),
            "truth": np.where(unlabelled, truth_of(placed["agrees"].to_numpy()), POSITIVE),
            "decision": decision,
        }
    )
    return thinned(pairs, ["role", "type"])


def plot_map(
    prepared: pd.DataFrame, colour: str = "entry mass", *, kind: str = "PCA", mode: Mode = "light"
) -> go.Figure:
    """Positives as small gold diamonds, unlabelled pairs by the chosen colour; ids are in `customdata`."""
    fig = go.Figure()
    for role, name in (("positive", POSITIVE), ("denoised", "positive, filtered out")):
        part = prepared[prepared["role"] == role]
        if len(part):
            filled = {"color": MEANING[mode]["human"]} if role == "positive" else {"color": ROLES[mode]["background"]}
            marker = {"size": 8, "symbol": "diamond", "line": {"color": MEANING[mode]["human"], "width": 1.5}, **filled}
            fig.add_trace(_dots(part, f"{name} ({count(len(part))})", marker))
    unlabelled = prepared[prepared["role"] == "unlabelled"]
    if len(unlabelled) and unlabelled["entry_mass"].isna().all():
        colour = "truth"  # nobody labelled anything: every pair is of unknown truth
    for name, part, marker in _parts(unlabelled, colour, mode):
        fig.add_trace(_dots(part, f"{name} ({count(len(part))})", marker))
    equal = {"scaleanchor": "x"} if kind == "PCA" else {}
    axis = {"showticklabels": False, "zeroline": False}
    fig.update_xaxes(title=f"{kind} 1", **axis)
    fig.update_yaxes(title=f"{kind} 2", **axis, **equal)
    fig.update_layout(dragmode="lasso", coloraxis=_scale(mode, colour))
    if prepared.empty:
        say(fig, f"this run has no {kind} map", mode)
    far = "distances between far groups mean nothing" if kind == "UMAP" else ""
    notes = (f"{plural(len(prepared), 'pair')}; draw a lasso to read some", far)
    alt = f"{kind} map of {len(prepared)} difference embeddings coloured by {colour}."
    told = len(fig.data) > 1  # pairs of one kind need no legend
    return frame(
        fig, mode, title="Which comparisons look alike?", notes=notes, alt=alt, body=380, legend=told, above=22
    )


def _parts(rows: pd.DataFrame, colour: str, mode: Mode) -> list[tuple[str, pd.DataFrame, dict[str, Any]]]:
    line = {"color": ROLES[mode]["background"], "width": 0.5}
    if colour == "entry mass":
        marker = {"size": 9, "color": rows["entry_mass"].to_numpy(), "coloraxis": "coloraxis", "line": line}
        return [("unlabelled", rows, marker)] if len(rows) else []
    if colour == "decision":
        looks = {"kept": (MEANING[mode]["clean"], "circle"), "flipped": (MEANING[mode]["defended"], "square")}
    else:
        looks = {t: (truth_colour(t, mode), "x" if t == "disagrees" else "circle") for t in TRUTHS}
    parts = []
    for value, (shade, symbol) in looks.items():
        part = rows[rows[colour] == value]
        if len(part):
            parts.append((value, part, {"size": 9, "color": shade, "symbol": symbol, "line": line}))
    return parts


def _dots(pairs: pd.DataFrame, name: str, marker: dict[str, Any]) -> go.Scatter:
    """One kind of pair; where a colour bar says what the colours mean, the legend need not.

    Drawn as SVG: Plotly's WebGL traces compile code in the page, which the dashboard's content policy forbids.
    """
    return go.Scatter(
        x=pairs["x"].to_numpy(dtype=np.float32),
        y=pairs["y"].to_numpy(dtype=np.float32),
        mode="markers",
        name=name,
        showlegend="coloraxis" not in marker,
        marker=marker,
        customdata=pairs["comparison_id"].to_numpy(),
        hovertemplate="%{customdata}<extra></extra>",
    )


def _scale(mode: Mode, colour: str) -> dict[str, Any]:
    """Early entry in blue, late in vermilion, one lightness rising: no rainbow."""
    role = ROLES[mode]
    bar = {"title": {"text": "entry mass", "font": {"size": SMALL_SIZE}}, "thickness": 10, "len": 0.8}
    return {
        "colorscale": [[0.0, MEANING[mode]["clean"]], [0.5, role["grid"]], [1.0, MEANING[mode]["attacked"]]],
        "cmin": 0,
        "cmax": 1,
        "colorbar": bar,
        "showscale": colour == "entry mass",
    }
