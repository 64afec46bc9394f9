"""The results of the Reference swap page: one or two verifiers side by side, re-read at the sliders' setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.linked_run import judges
from dashboard.pages.reference_swap.data import (
    ARMS,
    SwapRun,
    by_answer_type,
    false_positives,
    headline,
    left_out_note,
    mechanism,
    percent,
)
from engine import catalog
from engine.core.schema import Protocol
from engine.data.dataset import Dataset
from engine.plots.text import fixed, interval_text, three_digits
from engine.stats.intervals import Interval
from engine.studies.refswap.figures import fewer_note, summary_at, unread_note
from engine.studies.refswap.metrics import Summary

# Settings of the Reference swap page: two verifiers, the arm, K, gamma or delta; all in the URL.

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
    """The sliders, named as the settings of the study's figures.

    Attributes:
        arm: kind of the counterfactual references.
        k: number of them.
        delta: loss of accuracy that eq. 5 accepts when it sets gamma [points of 100].
        gamma: least max_p_cf that keeps a YES, in [0, 1]; None where eq. 5 sets it.
        threshold: p_yes from which a verdict is YES, in [0, 1].
    """

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
    return list(dict.fromkeys([*listed, *REGIMES, *more, *judges()]))


def verifier_title(spec: str) -> str:
    """Title of a verifier in the list."""
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
    return ui.pick(name, options, key=key, default=DEFAULTS[key], publish=True, title=verifier_title, help=about)


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


TABS = ("Swapped references", "Keys", "Operating points", "Baselines", "False positives")


@st.fragment
def results(runs: Sequence[SwapRun], dataset: Dataset) -> None:
    """Sliders on top, then a column for each verifier; a slider redraws only this panel."""
    answer = st.container()  # above the sliders that it follows
    arms = tuple(arm for arm in ARMS if all(arm in run.arms for run in runs)) or ("other",)
    k_max = min(run.tables[arms[0]].samples.k_max or 1 for run in runs)
    setting = pick_setting(arms, k_max, max(run.threshold for run in runs))
    summaries = [summary_at(run.source, asdict(setting)) for run in runs]
    for column, run, one in zip(answer.columns(len(runs), gap="large"), runs, summaries, strict=True):
        with column:
            _heading(run, one, setting)
    draws: dict[str, Callable[[SwapRun, Summary, Setting, str], None]] = {
        TABS[0]: _distribution,
        TABS[1]: _keys,
        TABS[2]: _points,
    }
    wide = {TABS[3]: _baselines, TABS[4]: _false_positives}
    tabs = st.tabs(TABS, key="swap_tab", on_change="rerun", bind="query-params")
    for name, tab in zip(TABS, tabs, strict=True):
        if not tab.open:
            continue
        with tab:
            if name in wide:
                for i, (run, one) in enumerate(zip(runs, summaries, strict=True)):
                    ui.note(verifier_title(run.judge))
                    wide[name](run, one, setting, dataset, f"swap_{i}")
                continue
            parts = st.columns(len(runs), gap="large")
            for i, (part, run, one) in enumerate(zip(parts, runs, summaries, strict=True)):
                with part:
                    draws[name](run, one, setting, f"swap_{i}")


def _heading(run: SwapRun, summary: Summary, setting: Setting) -> None:
    st.subheader(ui.plain(verifier_title(run.judge)), anchor=False)
    st.badge(findings.provenance(run.manifest, recorded=run.recorded), icon=":material/history:", color="gray")
    ui.finding(headline(run, summary))
    if unread := unread_note(run.tables[setting.arm], summary):
        ui.warn(unread)
    for note in (fewer_note(summary), left_out_note(run)):
        if note:
            ui.note(note)
    with st.expander("Why, and what it costs"):
        ui.note(mechanism(run, setting.arm, summary, setting.threshold))
        ui.facts(_facts(summary, run))
        ui.note(catalog.describe_judge(run.judge.partition("?")[0]).about)
        ui.note(str(run.manifest.get("judge", {}).get("remark") or ""))


def _facts(summary: Summary, run: SwapRun) -> dict[str, str]:
    clean, key = summary.cost_clean, summary.cost_key
    facts = {
        "Swapped references": str(run.manifest.get("pool", {}).get("name", "")).removeprefix("of "),
        "γ in use": three_digits(summary.gamma),
        "Reach it, correct / keys": f"{_percent(summary.pass_right.value)} / {_percent(summary.pass_fooled.value)}",
        "AUC (signed)": _text(summary.auc),
        "Cohen's d": _text(summary.cohens_d),
        "γ* (eq. 5)": f"{three_digits(summary.cut.value)} from {summary.cut.n} responses",
        "Forward passes, clean / key": f"{fixed(clean.passes, 2)} / {fixed(key.passes, 2)}",
    }
    if clean.tokens_ratio == clean.tokens_ratio:
        facts["Tokens, clean / key"] = f"×{fixed(clean.tokens_ratio, 2)} / ×{fixed(key.tokens_ratio, 2)}"
    return facts


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 0)} %" if share == share else "–"


def _text(one: Interval) -> str:
    return interval_text(one.value, one.lower, one.upper)


def _figure(run: SwapRun, name: str, setting: Setting, *, key: str, caption: str = "") -> None:
    ui.show_entry(run.source, name, key=key, caption=caption, **asdict(setting))


def _distribution(run: SwapRun, summary: Summary, setting: Setting, key: str) -> None:
    if not summary.n_fooled:
        ui.note("No key was accepted, so there is only the distribution of correct responses to draw.")
    _figure(run, "max_p_cf", setting, key=f"{key}_max_p_cf")


def _keys(run: SwapRun, summary: Summary, setting: Setting, key: str) -> None:
    if not summary.n_fooled:
        ui.note(f"No key was accepted anywhere: {percent(summary.before.fpr)} on the test part.")
        return
    _figure(run, "keys", setting, key=f"{key}_keys", caption=by_answer_type(run, setting.threshold))


def _points(run: SwapRun, summary: Summary, setting: Setting, key: str) -> None:
    if not summary.n_fooled or not summary.n_right:
        ui.note("A trade-off needs accepted keys and accepted correct responses; one of the two is missing here.")
        return
    for name in ("frontier", "passing", "roc"):
        _figure(run, name, setting, key=f"{key}_{name}")


def _baselines(run: SwapRun, summary: Summary, setting: Setting, __: Dataset, key: str) -> None:
    """The defenses that RefSwap is compared with, all calibrated on the same items with the same δ."""
    cuts = {
        "Undefended": ("", summary.before),
        f"RefSwap, K = {setting.k}": (f"max_p_cf ≥ {three_digits(summary.gamma)}", summary.after),
        "max_p_cf, K = 1": (f"max_p_cf ≥ {three_digits(summary.k_one.cut.value)}", summary.k_one.after),
        "s-score, K = 1": (f"s ≥ {three_digits(summary.s_score.cut.value)}", summary.s_score.after),
        "Length filter": (f"at least {fixed(summary.length.cut.value, 0)} characters", summary.length.after),
    }
    rows = [
        {
            "Defense": name,
            "Keeps a YES if": cut,
            "Accuracy": percent(rates.accuracy),
            "Keys accepted, mean": percent(rates.fpr),
            "Worst key": percent(rates.fpr_worst),
            "Unread": rates.n_unread,
        }
        for name, (cut, rates) in cuts.items()
    ]
    table = pd.DataFrame(rows)
    st.dataframe(table, hide_index=True, key=f"{key}_baselines")
    before, after = (percent(part.accuracy) for part in (summary.dev_before, summary.dev_after))
    dev = f"{before} before, {after} behind RefSwap"
    ui.note(
        f"Rates of the test part. On the calibration part, where eq. 5 holds, accuracy is {dev}. The s-score is p(YES) "
        f"under the true reference minus p(YES) under one other (eq. 3); its AUC is {_text(summary.s_auc)}, and that "
        f"of max_p_cf from the same one reference {_text(summary.one_auc)}. A length "
        "filter knows nothing of content: any key longer than its threshold passes."
    )
    ui.run_table(
        run, table, title=f"RefSwap beside its baselines, {verifier_title(run.judge)}", key=f"{key}_baselines_kept",
        said=f"Rates of the test part, {_said(setting)}.", file="baselines.csv",
    )  # fmt: skip


def _said(setting: Setting) -> str:
    """The setting of the sliders in words."""
    gamma = f"δ = {setting.delta:g} points" if setting.gamma is None else f"γ = {setting.gamma:g}"
    return f"K = {setting.k}, {gamma}, references of {ARMS[setting.arm]}, accepted from {setting.threshold:g}"


def _false_positives(run: SwapRun, summary: Summary, setting: Setting, dataset: Dataset, key: str) -> None:
    table = false_positives(run, setting.arm, summary, dataset.items)
    ui.note(f"{len(table):,} accepted keys and wrong responses, the most robust first.")
    if not len(table):
        return
    numbers = {name: st.column_config.NumberColumn(name, format="%.3g") for name in ("p(YES)", "max_p_cf")}
    st.dataframe(
        table,
        hide_index=True,
        height=360 if len(table) > 8 else "auto",
        key=f"{key}_false",
        column_config=numbers | {"Question": st.column_config.TextColumn("Question", width="medium")},
    )
    ui.run_table(
        run, table, title=f"Accepted keys and wrong responses, {verifier_title(run.judge)}", key=f"{key}_false_kept",
        said=f"{_said(setting)}.", file="false_positives.csv",
    )  # fmt: skip
