"""Figures of a run of CAP: standards, layers, the alpha sweep, attacks behind anchors, costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine import catalog
from engine.core.schema import NONE
from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.grid import plot_grid, prepare_grid
from engine.plots.text import label, plural
from engine.plots.theme import MEANING, ROLES, Mode, frame, say
from engine.stats.intervals import cluster_mean
from engine.steering.references import Chosen, nearest
from engine.studies.cap import drawings as cap_layers
from engine.studies.cap import drawings as cap_lengths
from engine.studies.cap import drawings as cap_scores
from engine.studies.cap import drawings as cap_sweep
from engine.studies.cap.metrics import standard_at
from engine.studies.figure import Dial, Entry, Shown, Source, Values, cap_titles, has_table

# The retained texts as points: activations of one layer on a plane, coloured by side or by score.

MAP_COLUMNS = ["text_id", "side", "half", "score", "text", "x", "y"]


def prepare_cap_map(texts: pd.DataFrame, points: pd.DataFrame, layer: int) -> pd.DataFrame:
    """One row per retained text.

    Args:
        texts: table `cap_texts`.
        points: table `cap_points`.
        layer: whose components are drawn; 0 takes the UMAP of the chosen layer.
    """
    own = texts[texts["side"].notna()]
    if layer:
        places = points[points["layer"] == layer][["text_id", "x", "y"]]
        return own.merge(places, on="text_id").reset_index(drop=True)[MAP_COLUMNS]
    return own.rename(columns={"umap_x": "x", "umap_y": "y"}).dropna(subset=["x"]).reset_index(drop=True)[MAP_COLUMNS]


def plot_cap_map(
    prepared: pd.DataFrame, *, by_score: bool, method: str, layer: int, mode: Mode = "light", note: str = ""
) -> go.Figure:
    """A scatter; each point carries its text.

    Args:
        prepared: from `prepare_cap_map`.
        by_score: colour by the judge's score, else by side.
        method: PCA or UMAP, for the axis titles.
        layer: of the activations.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    for side, symbol in (("high", "triangle-up"), ("low", "triangle-down")):
        own = prepared[prepared["side"] == side]
        if own.empty:
            continue
        colour: dict[str, object] = {"color": meaning[side]}
        if by_score:
            colour = {
                "color": own["score"].tolist(),
                "colorscale": [[0, meaning["low"]], [0.5, role["zero"]], [1, meaning["high"]]],
                "cmin": float(prepared["score"].min()),
                "cmax": float(prepared["score"].max()),
                "showscale": side == "high",
                "colorbar": {"title": {"text": "score"}, "thickness": 12},
            }
        fig.add_trace(
            go.Scatter(
                x=own["x"].tolist(),
                y=own["y"].tolist(),
                mode="markers",
                name=f"{side} standard ({len(own)})",
                marker={"size": 10, "symbol": symbol, "line": {"width": 1, "color": role["line"]}, **colour},
                customdata=[
                    [i, label(t, 70), s] for i, t, s in zip(own["text_id"], own["text"], own["score"], strict=True)
                ],
                hovertemplate="%{customdata[2]:.2f}: %{customdata[1]}<extra></extra>",
            )
        )
    axis = {"PCA": "principal component", "UMAP": "UMAP coordinate"}[method]
    fig.update_xaxes(title=f"{axis} 1", fixedrange=True)
    fig.update_yaxes(title=f"{axis} 2", fixedrange=True)
    title = "Do the two sides lie apart?"
    if prepared.empty:
        say(fig, "no map of this layer was stored", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No points.", body=330)
    high = int((prepared["side"] == "high").sum())
    alt = f"{method} of {len(prepared)} retained texts at layer {layer}, {high} of them high."
    notes = (plural(len(prepared), "retained text"), f"layer {layer}", label(note, 80) if note else "")
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=330, legend=True)


STUDY = "cap"
SIDES = ("high", "low")
UNITS = {
    "shift": "Points",
    "relative_shift": "% of the clean mean",
    "from_undefended": "Points from the undefended clean score",
}
BY_SIDE, BY_SCORE = "side", "score"
_ALONE, _SHARED = "one response, alone", "16 responses × 4 attacks share the anchors"


@dataclass(frozen=True)
class Rows:
    """One figure of rows: metrics and what they are called, title, axis, colours, and whether they are amounts."""

    series: Mapping[str, str]
    title: str
    axis: str
    colours: Mapping[str, str]
    positive: bool = False


ROWS = {
    "spearman": Rows(
        {"spearman": "Spearman"}, "Do clean scores still agree with ratings?", "Spearman with the ratings",
        {"Spearman": "human"},
    ),
    "gap": Rows(
        {"anchor_gap": "high − low anchor"}, "Are the anchors apart for the judge?",
        "undefended score, high − low (points)", {"high − low anchor": "high"},
    ),
    "tokens": Rows(
        {"tokens_alone": _ALONE, "tokens_shared": _SHARED}, "How many tokens does a verdict take?",
        "tokens per verdict", {_ALONE: "attacked", _SHARED: "defended"}, True,
    ),
    "effect": Rows(
        {"anchor_effect": "anchors exchanged", "anchor_lift": "anchors shown"}, "Does the judge read its anchors?",
        "change of the clean score (points)", {"anchors exchanged": "defended", "anchors shown": "clean"},
    ),
    "seconds": Rows(
        {"seconds_alone": _ALONE, "seconds_shared": _SHARED}, "How long does a verdict take?", "seconds per verdict",
        {_ALONE: "attacked", _SHARED: "defended"}, True,
    ),
    "comparative": Rows(
        {"absolute_shift_sd": "score, absolute", "comparative_shift_sd": "preference, comparative"},
        "Is comparing more robust than scoring?", "shift, in clean standard deviations",
        {"score, absolute": "attacked", "preference, comparative": "clean"},
    ),
}  # fmt: skip
"""Figures with a row for each defense (for each attack: comparative)."""


def by_alpha(sweep: pd.DataFrame) -> pd.DataFrame:
    """One row per side and alpha: mean score with its interval over contexts, spread, edit size and fluency."""
    rows = []
    for (side, value), own in sweep.groupby(["side", "alpha"], sort=True):
        scores = own["score"].to_numpy(dtype=float)
        interval = cluster_mean(scores, own["item_id"].to_numpy())
        rows.append(
            {
                "side": side,
                "alpha": value,
                "mean": interval.value,
                "lower": interval.lower,
                "upper": interval.upper,
                "sd": float(pd.Series(scores).std(ddof=1)),
                "n": interval.n,
                "n_unread": len(own) - interval.n,
                "relative_edit": float(own["relative_edit"].mean()),
                "perplexity": float(own["perplexity"].median()),
                "repetition": float(own["repetition"].mean()),
            }
        )
    return pd.DataFrame(rows, columns=cap_sweep.SWEEP_COLUMNS)


def nearest_in(rows: pd.DataFrame, side: str, standard: float) -> float:
    """The alpha of a sweep (`by_alpha`) that comes nearest to a standard, by the rule that chooses it; NaN for none."""
    read = rows[(rows["side"] == side) & rows["mean"].notna()]
    if read.empty or math.isnan(standard):
        return math.nan
    columns = zip(read["alpha"], read["mean"], read["n"], read["n"] + read["n_unread"], strict=True)
    return nearest([Chosen(float(a), float(mean), standard, int(n), int(of)) for a, mean, n, of in columns]).alpha


def units_of(metrics: pd.DataFrame) -> tuple[str, ...]:
    """The units that a run's shifts are known in; runs of earlier versions have no distances."""
    return tuple(unit for unit in UNITS if unit == "shift" or (metrics["metric"] == unit).any())


def main_attacks(metrics: pd.DataFrame) -> pd.DataFrame:
    """Attacks that every defense met; suffixes of other lengths have a figure of their own."""
    shifts = metrics[metrics["metric"] == "shift"]
    met = shifts.groupby("attack")["defense"].nunique()
    return metrics[metrics["attack"].isin(met[met == met.max()].index) | (metrics["attack"] == NONE)]


def row_figure(name: str, metrics: pd.DataFrame) -> pd.DataFrame:
    """The table of a figure of `ROWS`."""
    own = ROWS[name]
    if name == "comparative":
        return prepare_dots(metrics, own.series, by="attack", titles=cap_titles(metrics))
    rows = metrics[(metrics["attack"] == NONE) & metrics["value"].notna()]
    return prepare_dots(rows, own.series, titles={NONE: "No defense", **cap_titles(rows)})


def _cap(source: Source) -> dict[str, Any]:
    return dict(source.manifest.get("cap") or {})


def _alphas(side: str) -> Any:
    def of(source: Source) -> tuple[float, ...]:
        sweep = source.table("cap_sweep")
        return tuple(sorted(map(float, sweep.loc[sweep["side"] == side, "alpha"].unique())))

    return of


def _chosen_alpha(side: str) -> Any:
    def of(source: Source) -> float:
        known = _alphas(side)(source)
        wrote = float(_cap(source).get(f"alpha_{side}") or 0)
        return wrote if wrote in known else next(iter(known), math.nan)

    return of


LOW = Dial("low", "low percentile", "whole", lambda s: int(s.config["low_percentile"]), lambda _: 0, lambda _: 100)
HIGH = Dial("high", "high percentile", "whole", lambda s: int(s.config["high_percentile"]), lambda _: 0, lambda _: 100)
SPACE = Dial("space", "separability in the space", "choice", lambda _: "pca", choices=lambda _: ("pca", "raw"))
LAYER = Dial(
    "layer", "layer", "whole", lambda s: int(_cap(s).get("layer", 1)), lambda _: 1,
    lambda s: int(s.table("cap_layers")["layer"].max()),
)  # fmt: skip
METHOD = Dial("method", "map", "choice", lambda _: "PCA", choices=lambda _: ("PCA", "UMAP"))
COLOUR = Dial("colour", "colour", "choice", lambda _: BY_SIDE, choices=lambda _: (BY_SIDE, BY_SCORE))
ALPHA_HIGH = Dial("alpha_high", "alpha steered high", "listed", _chosen_alpha("high"), choices=_alphas("high"))
ALPHA_LOW = Dial("alpha_low", "alpha steered low", "listed", _chosen_alpha("low"), choices=_alphas("low"))
METRIC = Dial(
    "metric", "shift in", "choice", lambda _: "shift", choices=lambda s: units_of(s.table("metrics")), words=UNITS
)


def _scores(source: Source, at: Values) -> Shown:
    texts = source.table("cap_texts")
    first, second = (texts.loc[texts["pool"] == k, "score"].to_numpy(dtype=float) for k in (1, 2))
    found = standard_at(first, second, float(at["high"]), float(at["low"]))
    made = cap_scores.prepare_cap_scores(texts, found.high, found.low)
    facts = (f"n = {len(made)} texts read", "single texts, so no interval")
    return Shown(made, {"note": source.origin}, facts)


def _layers(source: Source, at: Values) -> Shown:
    made = cap_layers.prepare_cap_layers(source.table("cap_layers"), str(at["space"]))
    unread = int(source.table("cap_texts")["score"].isna().sum())
    return Shown(made, {"chosen": int(_cap(source)["layer"]), "note": source.origin}, (f"{unread} texts unread",))


def _map(source: Source, at: Values) -> Shown:
    by_pca = at["method"] == "PCA"
    layer = int(at["layer"]) if by_pca else int(_cap(source)["layer"])
    texts = source.table("cap_texts")
    made = prepare_cap_map(texts, source.table("cap_points"), layer if by_pca else 0)
    more = {"by_score": at["colour"] == BY_SCORE, "method": str(at["method"]), "layer": layer, "note": source.origin}
    unread = int(texts["score"].isna().sum())
    return Shown(made, more, (f"n = {len(made)} texts, {unread} unread", "single texts, so no interval"))


def _sweep(source: Source, at: Values) -> Shown:
    made = cap_sweep.prepare_cap_sweep(by_alpha(source.table("cap_sweep")))
    cap = _cap(source)
    marked = [float(at[f"alpha_{side}"]) for side in SIDES]
    standards = [float(cap["standard_high"]), float(cap["standard_low"])]
    return Shown(made, {"standards": standards, "marked": marked, "note": source.origin})


def _draw_sweep(prepared: pd.DataFrame, more: dict[str, Any], mode: Mode) -> Any:
    standards, marked = more["standards"], more["marked"]
    return cap_sweep.plot_cap_sweep(
        prepared, standards=(standards[0], standards[1]), marked=(marked[0], marked[1]), mode=mode, note=more["note"]
    )


def _grid(source: Source, at: Values) -> Shown:
    rows = source.table("metrics")
    made = prepare_grid(main_attacks(rows), metric=str(at["metric"]), titles=cap_titles(rows))
    return Shown(made, {"note": source.origin})


def lengths(metrics: pd.DataFrame) -> pd.DataFrame:
    """Mean scores by words of the suffix."""
    return cap_lengths.prepare_cap_lengths(metrics, catalog.parse_attack("suffix").length)


def _lengths(source: Source, _: Values) -> Shown:
    rows = source.table("metrics")
    return Shown(lengths(rows), {"titles": {NONE: "No defense", **cap_titles(rows)}, "note": source.origin})


def _row_entry(name: str) -> Entry:
    own = ROWS[name]

    def make(source: Source, _: Values) -> Shown:
        made = row_figure(name, source.table("metrics"))
        known = made["lower"].notna().any()
        return Shown(made, {"note": source.origin}, () if known else ("sums of one run, so no interval",))

    def draw(prepared: pd.DataFrame, more: dict[str, Any], mode: Mode) -> Any:
        return plot_dots(
            prepared, title=own.title, axis=own.axis, colours=own.colours, positive=own.positive, mode=mode,
            note=more["note"],
        )  # fmt: skip

    def missing(source: Source) -> str:
        if why := _NO_ATTACKS(source):
            return why
        return "" if len(row_figure(name, source.table("metrics"))) else "it did not measure this."

    return Entry(STUDY, name, own.title, make, draw, (), missing)


_NO_TEXTS = has_table("cap_texts", "the tutor has written nothing yet.")
_NO_LAYERS = has_table("cap_layers", "the standards are not found yet.")
_NO_SWEEP = has_table("cap_sweep", "no alpha has been tried yet.")
_NO_ATTACKS = has_table("metrics", "the attacks have not been run yet.")


def _no_lengths(source: Source) -> str:
    return _NO_ATTACKS(source) or ("" if len(lengths(source.table("metrics"))) else "no suffix of several lengths.")


ENTRIES = (
    Entry(
        STUDY, "scores", "Where do the standards lie?", _scores,
        lambda p, more, mode: cap_scores.plot_cap_scores(p, mode=mode, note=more["note"]), (LOW, HIGH), _NO_TEXTS,
    ),
    Entry(
        STUDY, "layers", "At which layer do the standards part?", _layers,
        lambda p, more, mode: cap_layers.plot_cap_layers(p, chosen=more["chosen"], mode=mode, note=more["note"]),
        (SPACE,), _NO_LAYERS,
    ),
    Entry(
        STUDY, "map", "Do the two sides lie apart?", _map,
        lambda p, more, mode: plot_cap_map(
            p, by_score=more["by_score"], method=more["method"], layer=more["layer"], mode=mode, note=more["note"]
        ),
        (LAYER, METHOD, COLOUR), _NO_LAYERS,
    ),
    Entry(
        STUDY, "sweep", "What does steering do to the text?", _sweep, _draw_sweep, (ALPHA_HIGH, ALPHA_LOW), _NO_SWEEP
    ),
    Entry(
        STUDY, "grid", "Do anchors hold the score?", _grid,
        lambda p, more, mode: plot_grid(
            p, mode=mode, title="Do anchors hold the score?", note=more["note"]
        ),
        (METRIC,), _NO_ATTACKS,
    ),
    Entry(
        STUDY, "lengths", "How long a suffix does it withstand?", _lengths,
        lambda p, more, mode: cap_lengths.plot_cap_lengths(p, titles=more["titles"], mode=mode, note=more["note"]),
        (), _no_lengths,
    ),
    *(_row_entry(name) for name in ROWS),
)  # fmt: skip
