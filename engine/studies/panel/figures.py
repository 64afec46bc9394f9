"""Figures of a panel: judges beside people, beside each other, under each other's attacks, on their own family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine import catalog
from engine.plots.dots import COLUMNS as DOTS
from engine.plots.dots import plot_dots
from engine.plots.grid import plot_grid, prepare_grid
from engine.plots.rows import span
from engine.plots.text import fixed, interval_text, label, level_text
from engine.plots.theme import MEANING, PALETTE, ROLES, SMALL_SIZE, Mode, frame, heat_scale, whiskers
from engine.stats.panel import RULES
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, attack_name
from engine.studies.panel.metrics import AS_PANEL, PEOPLE, number

STUDY = "panel"
SINGLE, TOGETHER = "one judge", "the panel"
_PANEL_COLOUR = 9
_ROW = 34
"""Height of a row [px]."""
ROWS = ["group", "name", "kind", "value", "lower", "upper", "level", "method", "n", "n_clusters", "n_unread"]


def judge_titles(source: Source) -> dict[str, str]:
    """Judge's name in the panel -> its name in figures and sentences, in the panel's order."""
    judges = source.table("panel_judges")
    cards = {s: catalog.JUDGES.get(s) for s in judges["spec"]}
    alone = {s for s, n in judges["spec"].value_counts().items() if n == 1}
    return {
        str(name): card.title if (card := cards[spec]) and spec in alone else str(name)
        for name, spec in zip(judges["judge"], judges["spec"], strict=True)
    }


def table(source: Source, *metrics: str) -> pd.DataFrame:
    """Rows of the table `panel` with these metrics."""
    rows = source.table("panel")
    return rows[rows["metric"].isin(metrics)].reset_index(drop=True)


def about(source: Source) -> dict[str, Any]:
    """What the manifest says of the panel: protocol, unit, numbers of judges and subjects."""
    return dict(source.manifest.get("panel") or {})


def _has(metric: str, why: str) -> Any:
    return lambda source: "" if len(table(source, metric)) else why


# Judges and panel beside people.


def _beside(source: Source, _: Values) -> FigureData:
    titles, rows = judge_titles(source), table(source, "people")
    rows["kind"] = np.where(rows["other"] == AS_PANEL, TOGETHER, SINGLE)
    rows["name"] = [titles.get(str(j), f"Panel: {j}") for j in rows["judge"]]
    rows = rows.sort_values(["kind", "value"], ascending=[True, False], kind="stable").reset_index(drop=True)
    share = about(source)["protocol"] != "pointwise"
    extras = {
        "title": "Who agrees with people?",
        "axis": "agreement with people (%), ties half" if share else "Spearman correlation with people's scores",
        "colours": {SINGLE: "clean", TOGETHER: _PANEL_COLOUR},
        "factor": 100.0 if share else 1.0,
        "line": 0.5 if share else 0.0,
        "note": "dashed: guessing" if share else "dashed: no relation",
        "subjects": about(source)["subjects"],
    }
    return FigureData(rows.assign(group="")[ROWS], extras)


def plot_rows(
    prepared: pd.DataFrame,
    *,
    title: str,
    axis: str,
    colours: dict[str, str | int],
    factor: float,
    line: float,
    note: str,
    subjects: str,
    mode: Mode = "light",
) -> go.Figure:
    """A row for each number with its interval; groups stand under their name.

    Args:
        prepared: group, name, kind, value and its interval, in the order drawn.
        title: the question on top.
        axis: title of the number axis, with its unit.
        colours: kind -> a meaning of the palette or a place in it; also the order of the legend.
        factor: to the shown unit.
        line: place of the dashed line, before the factor.
        note: meaning of that line.
        subjects: what was judged, in the plural.
        mode: light, dark or print.
    """
    fig = go.Figure()
    at, ticks = _places(prepared)
    for kind, named in colours.items():
        own = prepared["kind"] == kind
        rows = prepared[own]
        colour = MEANING[mode][named] if isinstance(named, str) else PALETTE[mode][named]
        value, lower, upper = (factor * rows[c].to_numpy(dtype=float) for c in ("value", "lower", "upper"))
        fig.add_trace(
            go.Scatter(
                x=value.tolist(),
                y=[y for y, mine in zip(at, own, strict=True) if mine],
                mode="markers",
                name=kind,
                marker={"size": 11, "symbol": ("circle", "square")[len(fig.data) % 2], "color": colour},
                error_x=whiskers(value, lower, upper, colour),
                customdata=[[label(r["name"], 40), _said(r, factor)] for _, r in rows.iterrows()],
                hovertemplate="%{customdata[0]}: %{customdata[1]}<extra></extra>",
            )
        )
    dashed = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    x = factor * line
    fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", layer="below", line=dashed)
    n = len(ticks)
    fig.update_yaxes(
        tickvals=list(range(n)), ticktext=ticks, range=[n - 0.4, -0.6], showgrid=False, fixedrange=True
    )  # fmt: skip
    fig.update_xaxes(title=axis, fixedrange=True, nticks=7)
    said = (f"{r['group']} {r['name']}".strip() + f" {_said(r, factor)}" for _, r in prepared.iterrows())
    alt = f"{title} " + "; ".join(said)
    notes = (*_notes(prepared, subjects), note)
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=_ROW * max(n, 2) + 16, legend=True)


def _places(prepared: pd.DataFrame) -> tuple[list[int], list[str]]:
    """Number of each row, and the words beside all rows; a group's name takes a row of its own."""
    at, ticks, before = [], [], ""
    for group, name in zip(prepared["group"], prepared["name"], strict=True):
        if group and group != before:
            ticks.append(f"<b>{label(group, 22)}</b>")
            before = group
        at.append(len(ticks))
        ticks.append(label(name, 22))
    return at, ticks


def _said(row: Any, factor: float = 1.0) -> str:
    value, lower, upper = (factor * float(row[c]) for c in ("value", "lower", "upper"))
    clusters = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    return interval_text(
        value, lower, upper, unit="%" if factor == 100 else "", method=str(row["method"]), n_clusters=clusters
    )


def _notes(rows: pd.DataFrame, subjects: str) -> tuple[str, ...]:
    """Level and method of the intervals, n, unread."""
    methods = [m for m in rows["method"].dropna().unique() if not m.startswith("no ")]
    level = rows["level"].dropna()
    said = f"{level_text(float(level.iloc[0]))} intervals ({label('; '.join(methods), 60)})" if methods else ""
    counted = f"n = {span(rows['n'])} {label(subjects, 20)}" if len(rows) else ""
    return said, counted, f"{int(rows['n_unread'].fillna(0).max() if len(rows) else 0)} unread"


# Each two judges.


def _between(source: Source, _: Values) -> FigureData:
    titles, rows = judge_titles(source), table(source, "between")
    for side in ("judge", "other"):
        rows[side] = rows[side].map(titles)
    kept = rows[["judge", "other", "value", "lower", "upper", "level", "method", "n", "n_clusters", "n_unread"]]
    held = about(source)
    extras = {"judges": list(titles.values()), "measure": held["between"], "subjects": held["subjects"]}
    alpha = number(source.table("panel"), "alpha")
    return FigureData(kept, extras, (f"Krippendorff's alpha of all: {_said(alpha)}",))


def plot_between(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    judges: list[str] | None = None,
    measure: str = "Cohen's kappa",
    subjects: str = "pairs",
) -> go.Figure:
    """A cell for each two judges with their agreement; 1 is full agreement, 0 chance.

    Args:
        prepared: judge, other, value and its interval.
        mode: light, dark or print.
        judges: in the order they are drawn.
        measure: name of the agreement.
        subjects: what was judged, in the plural.
    """
    names = judges or []
    at = {name: i for i, name in enumerate(names)}
    z = np.full((len(names), len(names)), np.nan)
    words = np.full((len(names), len(names)), "", dtype=object)
    for row in prepared.to_dict("records"):
        for i, j in ((at[row["judge"]], at[row["other"]]), (at[row["other"]], at[row["judge"]])):
            z[i, j] = row["value"]
            words[i, j] = f"{label(row['judge'], 40)} and {label(row['other'], 40)}: {_said(row)}"
    fig = go.Figure(
        go.Heatmap(
            z=[[None if math.isnan(v) else v for v in line] for line in z],
            x=list(range(len(names))),
            y=list(range(len(names))),
            zmin=-1,
            zmax=1,
            colorscale=heat_scale(mode),
            showscale=False,
            text=[["" if math.isnan(v) else fixed(v, 2) for v in line] for line in z],
            texttemplate="%{text}",
            textfont={"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
            customdata=words.tolist(),
            hovertemplate="%{customdata}<extra></extra>",
            hoverongaps=False,
            xgap=2,
            ygap=2,
        )
    )
    ticks: dict[str, Any] = {"tickmode": "array", "tickvals": list(range(len(names))), "fixedrange": True}
    fig.update_xaxes(side="bottom", showgrid=False, tickangle=-35, ticktext=[label(n, 14) for n in names], **ticks)
    fig.update_yaxes(autorange="reversed", showgrid=False, ticktext=[label(n, 16) for n in names], **ticks)
    title = "Do the judges agree with each other?"
    alt = f"{title} " + "; ".join(f"{r['judge']} and {r['other']} {_said(r)}" for _, r in prepared.iterrows())
    notes = (f"{measure}, 1 is full agreement, 0 none", *_notes(prepared, subjects))
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=42 * max(len(names), 2) + 30, below=84)


# A rule of the panel less each judge.

RULE = Setting(
    "rule", "rule", "choice", lambda s: _rules(s)[0], choices=lambda s: _rules(s),
)  # fmt: skip


def _rules(source: Source) -> tuple[str, ...]:
    held = set(table(source, "difference")["judge"])
    return tuple(rule for rule in RULES if rule in held) or RULES


def _difference(source: Source, at: Values) -> FigureData:
    rows = table(source, "difference")
    rows = rows[rows["judge"] == at["rule"]].reset_index(drop=True)
    share = about(source)["protocol"] != "pointwise"
    made = rows.assign(name=rows["other"].map(judge_titles(source)), series="panel − judge")
    for column in ("value", "lower", "upper"):
        made[column] = (100.0 if share else 1.0) * made[column]
    unit = "points of 100" if share else "Spearman"
    axis = f"agreement with people, panel − judge ({unit})"
    return FigureData(
        made[DOTS], {"title": "Does the panel beat each judge?", "axis": axis, "colours": {"panel − judge": "clean"}}
    )


# Attacks carried over from one judge to the other.


def _transfer(source: Source, _: Values) -> FigureData:
    titles, rows = judge_titles(source), table(source, "transfer", "transfer_learned")
    found = [
        f"{titles.get(str(r['judge']), str(r['judge']))} "
        + ("(learned on)" if r["metric"] == "transfer_learned" else f"({_attacks(str(r['about']))})")
        for r in rows.to_dict("records")
    ]
    cells = rows.assign(metric="shift", attack=found, defense=rows["other"].map(titles))
    facts = (
        "row: the attack that moves this judge most, chosen on the other half of the items; column: its shift there",
    )
    return FigureData(prepare_grid(cells), {"title": "Does an attack carry over?"}, facts)


def _attacks(names: str) -> str:
    return " or ".join(attack_name(name) for name in names.split(" or "))


# Own family.

OWN, OTHER = "own family", "another family"


def _own(source: Source, _: Values) -> FigureData:
    titles, rows = judge_titles(source), table(source, "self_preference", "other_family")
    made = rows.assign(
        kind=np.where(rows["metric"] == "self_preference", OWN, OTHER),
        group=[
            f"{titles[str(r['judge'])]}" + (", people" if r["other"] == PEOPLE else "") for r in rows.to_dict("records")
        ],
        name=rows["about"],
    )
    extras = {
        "title": "Does a judge favour its own family?",
        "axis": "preference beyond the reference's (points of 100)",
        "colours": {OWN: "attacked", OTHER: "unread"},
        "factor": 100.0,
        "line": 0.0,
        "note": "dashed: as the reference",
        "subjects": "pairs",
    }
    facts = ("reference: the judges of other families, or people where it says so, on the same pairs",)
    return FigureData(made.sort_values("group", key=_order, kind="stable")[ROWS], extras, facts)


def _order(groups: pd.Series) -> pd.Series:
    """Groups in the order in which they first come."""
    return groups.map({group: i for i, group in enumerate(dict.fromkeys(groups))})


# Agreement at equal cost.

COST_COLUMNS = ["name", "kind", "calls", "prompt_tokens", "value", "lower", "upper", "level", "method", "n",
                "n_clusters", "n_unread"]  # fmt: skip


def _cost(source: Source, _: Values) -> FigureData:
    judges, titles = source.table("panel_judges").set_index("judge"), judge_titles(source)
    rows = table(source, "people", "panel_of")
    rows = rows[(rows["metric"] == "panel_of") | rows["other"].isna()].reset_index(drop=True)
    panel = rows["metric"] == "panel_of"
    rows["kind"] = np.where(panel, TOGETHER, SINGLE)
    rows["name"] = [
        f"any {r['judge']} of {len(judges)}" if r["kind"] == TOGETHER else titles[str(r["judge"])]
        for r in rows.to_dict("records")
    ]
    for column in ("calls", "prompt_tokens"):
        mean = float(judges[column].mean(skipna=False))
        rows[column] = [
            mean * int(r["judge"]) if r["kind"] == TOGETHER else float(judges.loc[r["judge"], column])
            for r in rows.to_dict("records")
        ]
    counted = bool((rows["prompt_tokens"] > 0).all())
    share = about(source)["protocol"] != "pointwise"
    return FigureData(rows[COST_COLUMNS], {"tokens": counted, "share": share, "subjects": about(source)["subjects"]})


def plot_cost(
    prepared: pd.DataFrame, *, mode: Mode = "light", tokens: bool = False, share: bool = True, subjects: str = "pairs"
) -> go.Figure:
    """Agreement with people over what a verdict costs: each judge a point, panels of one, two and so on a line.

    Args:
        prepared: name, kind, calls, prompt_tokens, value and its interval.
        mode: light, dark or print.
        tokens: the cost is prompt tokens; else calls.
        share: the agreement is a share, drawn in percent.
        subjects: what was judged, in the plural.
    """
    factor, column = (100.0 if share else 1.0), "prompt_tokens" if tokens else "calls"
    fig = go.Figure()
    for kind, symbol, colour in (
        (TOGETHER, "square", PALETTE[mode][_PANEL_COLOUR]),
        (SINGLE, "circle", MEANING[mode]["clean"]),
    ):
        own = prepared[prepared["kind"] == kind]
        value, lower, upper = (factor * own[c].to_numpy(dtype=float) for c in ("value", "lower", "upper"))
        fig.add_trace(
            go.Scatter(
                x=own[column].tolist(),
                y=value.tolist(),
                mode="lines+markers" if kind == TOGETHER else "markers",
                name="panels, the mean of all of a size" if kind == TOGETHER else kind,
                line={"color": colour, "width": 2},
                marker={"size": 9, "symbol": symbol, "color": colour},
                error_y=whiskers(value, lower, upper, colour) if kind == TOGETHER else None,
                customdata=[[label(r["name"], 40), _said(r, factor)] for _, r in own.iterrows()],
                hovertemplate="%{customdata[0]}: %{customdata[1]}<extra></extra>",
            )
        )
    singles = prepared[prepared["kind"] == SINGLE]
    fig.update_layout(annotations=_beside_points(singles, column, factor, mode))
    most = float(prepared[column].max()) if len(prepared) else 1.0
    unit = "prompt tokens" if tokens else "calls"
    fig.update_xaxes(title=f"{unit} a verdict", range=[0, 1.12 * most], fixedrange=True, nticks=7)
    fig.update_yaxes(title="agreement with people (%)" if share else "Spearman with people", fixedrange=True, nticks=7)
    title = "What does a better verdict cost?"
    alt = f"{title} " + "; ".join(
        f"{r['name']} {fixed(float(r[column]), 0)} {unit}, {_said(r, factor)}" for _, r in prepared.iterrows()
    )
    return frame(fig, mode, title=title, notes=_notes(prepared, subjects), alt=alt, body=330, legend=True)


def _beside_points(singles: pd.DataFrame, column: str, factor: float, mode: Mode) -> list[dict[str, Any]]:
    """Each judge's name right of its point; names that would cover another move down."""
    rows = singles.dropna(subset="value").sort_values("value", ascending=False, kind="stable").to_dict("records")
    if not rows:
        return []
    high, low = factor * float(rows[0]["value"]), factor * float(rows[-1]["value"])
    apart = 0.055 * max(high - low, 1e-9)
    words, before = [], math.inf
    for row in rows:
        y = min(factor * float(row["value"]), before - apart)
        before = y
        words.append(
            {
                "x": float(row[column]), "y": y, "xshift": 9, "xanchor": "left", "showarrow": False,
                "text": label(row["name"], 18), "bgcolor": ROLES[mode]["background"],
                "font": {"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
            }
        )  # fmt: skip
    return words


_NO_LABELS = "no people's labels are known for these data."

ENTRIES = (
    FigureSpec(STUDY, "people", "Who agrees with people?", _beside, plot_rows, (), _has("people", _NO_LABELS)),
    FigureSpec(
        STUDY, "between", "Do the judges agree with each other?", _between, plot_between, (),
        _has("between", "it holds no two judges."),
    ),
    FigureSpec(
        STUDY, "difference", "Does the panel beat each judge?", _difference, plot_dots, (RULE,),
        _has("difference", _NO_LABELS),
    ),
    FigureSpec(
        STUDY, "transfer", "Does an attack carry over?", _transfer, plot_grid, (),
        _has("transfer", "no two of its judges were attacked."),
    ),
    FigureSpec(
        STUDY, "own_family", "Does a judge favour its own family?", _own, plot_rows, (),
        _has("self_preference", "no pair has a system of a judge's own family."),
    ),
    FigureSpec(STUDY, "cost", "What does a better verdict cost?", _cost, plot_cost, (), _has("people", _NO_LABELS)),
)  # fmt: skip
