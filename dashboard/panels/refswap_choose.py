"""What the Reference swap page is set to: two verifiers, the arm, K, gamma or delta; all in the URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from dashboard import pinned, state, ui
from engine import catalog
from engine.schema import Protocol

FIRST, SECOND = "verifier", "verifier_b"
ARM, MODE, K, DELTA, GAMMA, LEAST_YES = "swap_arm", "swap_mode", "swap_k", "swap_delta", "swap_gamma", "swap_yes"
NOBODY = "nobody"
CALIBRATED, BY_HAND = "from δ (eq. 5)", "by hand"
DEFAULTS = {FIRST: "bundled:shortcut-verifier", SECOND: "bundled:judge"}
SHORT = {"other": "Another type", "same": "Same type"}
REGIMES = {
    "planted:verifier?self_solve=0.9&leak=0.4&ref_sensitivity=0.9": "Planted: fooled, and solves the question itself",
    "planted:verifier?self_solve=0.05&leak=0.4&ref_sensitivity=0.5": "Planted: fooled, and only matches text",
    "planted:verifier?self_solve=0.9&leak=0&ref_sensitivity=0.9": "Planted: not fooled, and solves itself",
    "planted:verifier?self_solve=0.05&leak=0&ref_sensitivity=0.5": "Planted: not fooled, and only matches text",
}
"""The four regimes: fooled by keys or not, self-solving or not."""
GAMMAS = [0.0, *(round(m * 10.0**e, 9) for e in range(-5, 0) for m in (1, 1.5, 2, 3, 4, 5, 6, 8)), 1.0]


@dataclass(frozen=True)
class Setting:
    """The sliders: gamma is None where eq. 5 sets it; delta in points; threshold is the verdict's."""

    arm: str
    k: int
    delta: float
    gamma: float | None
    threshold: float


def verifiers() -> list[str]:
    """Specs to choose from, the regimes of the planted verifier among them."""
    listed = [spec for spec in catalog.judges_for(Protocol.VERIFIER) if spec != "planted:verifier"]
    named = [str(st.session_state.get(key) or st.query_params.get(key, "")) for key in (FIRST, SECOND)]
    more = [spec for spec in named if spec.startswith("planted:verifier") and spec not in REGIMES]
    return list(dict.fromkeys([*listed, *REGIMES, *more, *pinned.judges()]))


def verifier_title(spec: str) -> str:
    """What a verifier is called in the list."""
    return "None" if spec == NOBODY else REGIMES.get(spec) or catalog.describe_judge(spec).title


def pick_judges() -> tuple[str, str]:
    """The verifier in question and the one beside it; the second may be nobody."""
    left, right = st.columns(2, gap="medium")
    options = verifiers()
    with left:
        first = _pick("Verifier", FIRST, options, "Whose verdicts are put to the test.")
    with right:
        second = _pick("Beside it", SECOND, [*options, NOBODY], "RefSwap depends on the verifier: compare two.")
    return first, second


def _pick(name: str, key: str, options: list[str], about: str) -> str:
    state.seed(key, options, DEFAULTS[key])
    chosen = ui.pick(name, options, key=key, title=verifier_title, help=about)
    state.publish(key, chosen, DEFAULTS[key])
    return chosen


def pick_setting(arms: tuple[str, ...], k_max: int, floor: float) -> Setting:
    """Sliders over what is stored: nothing here asks a judge.

    Args:
        arms: arms of counterfactual references that the runs shown hold.
        k_max: most references that were asked.
        floor: p_yes from which a YES was checked.
    """
    with st.container(border=True, key="dials_swap"):
        left, middle, right = st.columns(3, gap="medium")
        with left:
            arm = _segments("Swapped references are of", ARM, list(arms), arms[0], lambda a: SHORT[a])
            k = _slider("K, references for each check", K, 1, k_max, min(5, k_max)) if k_max > 1 else 1
        with middle:
            mode = _segments("γ, the least max_p_cf that keeps a YES", MODE, [CALIBRATED, BY_HAND], CALIBRATED, str)
            delta, gamma = (_delta(), None) if mode == CALIBRATED else (2.0, _gamma())
        with right:
            threshold = _threshold(floor)
    return Setting(arm, k, delta, gamma, threshold)


def _segments(name: str, key: str, options: list[str], default: str, title: Callable[[str], str]) -> str:
    state.seed(key, options, default)
    chosen = st.segmented_control(name, options, key=key, required=True, format_func=title, persist_state="session")
    state.publish(key, str(chosen), default)
    return str(chosen)


def _slider(name: str, key: str, low: int, high: int, default: int) -> int:
    state.seed_number(key, low, high, default)
    chosen = int(st.slider(name, low, high, key=key, persist_state="session"))
    state.publish(key, str(chosen), str(default))
    return chosen


def _delta() -> float:
    state.seed_number(DELTA, 0.0, 10.0, 2.0)
    value = st.slider(
        "δ, accuracy given up at most (points)",
        0.0,
        10.0,
        step=0.5,
        key=DELTA,
        help="γ is the largest threshold that keeps the accuracy on the calibration items within δ (eq. 5). The paper "
        "reports 0.5, 2 and 5 points.",
        persist_state="session",
    )
    state.publish(DELTA, f"{value:g}", "2")
    return float(value)


def _gamma() -> float:
    try:
        wanted = float(st.session_state.get(GAMMA, st.query_params.get(GAMMA, 0.01)))
    except ValueError:
        wanted = 0.01
    state.put(GAMMA, min(GAMMAS, key=lambda g: abs(g - wanted)))
    value = st.select_slider("γ", GAMMAS, key=GAMMA, format_func=lambda g: f"{g:g}", persist_state="session")
    state.publish(GAMMA, f"{value:g}", "0.01")
    return float(value)


def _threshold(floor: float) -> float:
    state.seed_number(LEAST_YES, floor, 0.99, floor)
    value = st.slider(
        "A response is accepted from p(YES)",
        floor,
        0.99,
        key=LEAST_YES,
        step=0.01,
        help="The baseline verdict. Only a YES is checked, so a lower threshold than the run's would need new calls.",
        persist_state="session",
    )
    state.publish(LEAST_YES, f"{value:g}", f"{floor:g}")
    return float(value)
