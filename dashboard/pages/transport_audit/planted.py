"""A lesson on planted directions: truth and best mass are known, so it can be seen when auditing helps and when not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.pages.transport_audit.results import CONTROL_WORDS, interval_of
from engine.core.errors import EngineError
from engine.jobs.manager import manager
from engine.plots.text import three_digits
from engine.studies.transport_audit.drawings import CONSISTENCY, plot_controls, prepare_controls
from engine.studies.transport_audit.figures import (
    CONTROLS,
    plot_density,
    plot_sensitivity,
    prepare_density,
    prepare_sensitivity,
)
from engine.studies.transport_audit.metrics import (
    Audit,
    best_control,
    consistency,
    decisions,
    planted,
    random_curve,
    sensitivity,
)

LESSON = "planted"
CLEAR = "poor-judge"
PRESETS: dict[str, tuple[str, dict[str, float]]] = {
    CLEAR: ("A poor judge, clear directions", {"alpha": 0.4}),
    "good-judge": ("A good judge, clear directions", {"alpha": 0.9}),
    "nuisance": ("A bias that all verdicts share", {"alpha": 0.6, "nuisance": 1.0}),
    "another-kind": ("A good judge, another kind of right answer", {"alpha": 0.9, "contrary": 0.3}),
    "wrong-labels": ("A good judge, wrong human labels", {"alpha": 0.9, "mislabelled": 0.3}),
}
"""Lessons, by their name in the URL."""
SLIDERS: dict[str, tuple[str, float, float, float, float, str]] = {
    "alpha": ("Share of verdicts that are right, α", 0.05, 1.0, 0.05, 0.4, "The prior of theorem 4.3."),
    "tau": ("Tightness of right answers, τ", 0.1, 0.95, 0.05, 0.8, "Smallest cosine of a right verdict to their axis."),
    "delta": ("Margin to wrong ones, δ", 0.05, 0.95, 0.05, 0.5, "A wrong verdict's cosine is below τ − δ."),
    "nuisance": ("Shared bias, λ", 0.0, 5.0, 0.1, 0.0, "Added to every verdict; theorem 4.5 bounds what it changes."),
    "contrary": ("Right answers of a kind no positive shows", 0.0, 1.0, 0.05, 0.0, "Their axis: at cosine −0.5."),
    "mislabelled": ("Positives with the wrong label", 0.0, 0.9, 0.05, 0.0, "Verified preferences that are none."),
}  # fmt: skip
MASSES = [round(m / 50, 2) for m in range(1, 51)]


@st.fragment
def lesson() -> None:
    """The choice of a lesson, its settings, the mass, and the audit there."""
    name = ui.pick("Lesson", list(PRESETS), key=LESSON, default=CLEAR, publish=True, title=lambda n: PRESETS[n][0])
    left, right = st.columns([1, 2], gap="large")
    with left:
        settings = _sliders(name)
    try:
        with st.spinner("Drawing directions and solving for every mass …", show_time=True):
            answer = _solved(tuple(settings.items()))
    except EngineError as error:
        ui.show_error(error, "These directions cannot be drawn.")
        return
    audit = _audit(tuple(settings.items()), answer)
    with right:
        mass = st.slider(
            "Transported mass m in this lesson", 0.02, 1.0, round(settings["alpha"], 2), 0.02,
            key=f"planted_mass_{name}_{settings['alpha']}",
        )  # fmt: skip
        _results(audit, answer, settings, float(mass))


def _sliders(name: str) -> dict[str, float]:
    preset = PRESETS[name][1]
    return {
        key: st.slider(
            title, low, high, preset.get(key, default), step, key=f"planted_{key}_{name}", help=help,
            persist_state="session",
        )
        for key, (title, low, high, step, default, help) in SLIDERS.items()
    }  # fmt: skip


@st.cache_resource(max_entries=20, show_spinner=False)
def _solved(settings: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    return manager().ask("planted_audit", dict(settings))


@st.cache_resource(max_entries=20, show_spinner=False)
def _audit(settings: tuple[tuple[str, float], ...], _answer: dict[str, Any]) -> Audit:
    return planted(_answer, dict(settings)["alpha"])


@st.cache_resource(max_entries=20, show_spinner=False)
def _curve(settings: tuple[tuple[str, float], ...], _audit: Audit) -> pd.DataFrame:
    del settings  # part of the cache key only
    return sensitivity(_audit, MASSES)


def _results(audit: Audit, answer: dict[str, Any], settings: dict[str, float], mass: float) -> None:
    table = consistency(audit, mass)
    at = table[table["group"].isna()].set_index("metric")
    curve = _curve(tuple(settings.items()), audit)
    best = curve.loc[curve["value"].idxmax()]
    flips = int(decisions(audit, mass)[0].flips.sum())
    gain, control = at.loc["gain"], best_control(table)
    ui.finding(
        f"At mass {mass:.2f} the audit flips {flips} of {len(audit.pairs)} planted verdicts: agreement with the truth "
        f"goes from {three_digits(at.loc['cons_orig', 'value'])} to {three_digits(at.loc['cons_adj', 'value'])}, "
        f"{interval_of(gain.to_dict(), signed=True)}."
    )
    holds = (
        "The assumptions of theorem 4.3 hold, so the best mass is α."
        if answer["assumption"]
        else "The assumptions of theorem 4.3 do not hold here, so α need not be the best mass."
    )
    ui.note(
        f"{holds} The best of {len(MASSES)} masses is {float(best['group']):.2f} (agreement "
        f"{three_digits(best['value'])}). Best control at as many flips: {CONTROL_WORDS.get(control, control)}, "
        f"{three_digits(at.loc[f'cons_{control}', 'value'])}."
    )
    note = f"planted, {answer['n_positive']} positives, no judge"
    bars = prepare_controls(table, CONTROLS)
    title = "Does transport beat simpler ways to flip?"
    ui.show_figure(
        lambda mode: plot_controls(bars, CONSISTENCY, mode=mode, title=title, note=note),
        bars, key="planted_controls",
    )  # fmt: skip
    line = prepare_sensitivity(curve, random_curve(audit, MASSES))
    marks = {"α": settings["alpha"], "best": float(best["group"])}
    ui.show_figure(lambda mode: plot_sensitivity(line, mass, marks, mode=mode, note=note), line, key="planted_masses")
    split = audit.splits[0]
    density = prepare_density(np.asarray(split.path.entry_mass), split.agrees)
    ui.show_figure(lambda mode: plot_density(density, mass, mode=mode, note=note), density, key="planted_density")
