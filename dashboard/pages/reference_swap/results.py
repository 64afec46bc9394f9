"""The results of the Reference swap page, re-read at the slider's gamma: distributions, counts, and the tabs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.linked_run import judges, shown
from dashboard.pages.reference_swap.data import (
    ARMS,
    SwapRun,
    by_answer_type,
    false_positives,
    headline,
    measured,
    percent,
    swapped_of,
    swaps,
)
from dashboard.pages.reference_swap.setup import OPEN, actions, setup
from dashboard.progress import newest_job, progress
from engine import catalog
from engine.core.schema import Protocol
from engine.data.dataset import Dataset
from engine.plots.text import fixed, interval_text, label, three_digits
from engine.stats.intervals import Interval
from engine.studies.refswap.drawings import scale_of
from engine.studies.refswap.figures import summary_at
from engine.studies.refswap.metrics import Summary

# Settings: the arm, K, delta and gamma; all in the URL.

FIRST = "verifier"
"""Names the verifier in the Attack lab's view and in links of earlier versions."""
ARM, K, DELTA, GAMMA, LEAST_YES = "swap_arm", "swap_k", "swap_delta", "swap_gamma", "swap_yes"
MOVED = "swap_gamma_moved"
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
    named = [str(st.session_state.get(key) or st.query_params.get(key, "")) for key in (FIRST, state.JUDGE)]
    more = [spec for spec in named if spec.startswith("planted:verifier") and spec not in REGIMES]
    return list(dict.fromkeys([*listed, *REGIMES, *more, *judges()]))


def verifier_title(spec: str) -> str:
    """Title of a verifier in the list."""
    return REGIMES.get(spec) or catalog.describe_judge(spec).title


def pick_setting(run: SwapRun) -> Setting:
    """Everything but gamma, folded: nothing here asks a judge."""
    arms = tuple(arm for arm in ARMS if arm in run.arms) or ("other",)
    k_max = run.tables[arms[0]].samples.k_max or 1
    with st.popover("Settings", icon=":material/tune:", key="dials_swap"):
        arm = _segments("Swapped references are of", ARM, list(arms), arms[0], lambda a: SHORT[a])
        k = _slider("K, references for each check", K, 1, k_max, min(5, k_max)) if k_max > 1 else 1
        delta = _delta()
        threshold = _threshold(run.threshold)
    return Setting(arm, k, delta, None, threshold)


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
        help="γ is the largest threshold that keeps the accuracy on the calibration items within δ. The paper "
        "reports 0.5, 2 and 5 points.",
        persist_state="session",
    )
    state.publish(DELTA, f"{value:g}", "2")
    return float(value)


def _gamma(options: list[float], calibrated: float) -> float:
    """The slider of gamma: it starts at the calibrated value and keeps what is set by hand."""
    if GAMMA in st.query_params and MOVED not in st.session_state:
        st.session_state[MOVED] = True
    try:
        wanted = float(st.session_state.get(GAMMA, st.query_params.get(GAMMA, calibrated)))
    except (TypeError, ValueError):
        wanted = calibrated
    moved = bool(st.session_state.get(MOVED))
    if moved and 0 <= wanted <= 1:
        options = sorted({*options, wanted})  # the axis follows K; what was set by hand stays
    state.put(GAMMA, min(options, key=lambda g: abs(g - (wanted if moved else calibrated))))
    value = float(
        st.select_slider(
            "γ, the least max_p_cf that keeps a YES", options, key=GAMMA, format_func=lambda g: f"{g:.3g}",
            persist_state="session", on_change=lambda: state.put(MOVED, value=True),
            help="It starts at the largest threshold that keeps the accuracy on the calibration part within δ "
            "(equation 5 of the RefSwap paper).",
        )
    )  # fmt: skip
    state.publish(GAMMA, f"{value:g}" if st.session_state.get(MOVED) else "")
    return value


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


TABS = ("By key", "Trade-off", "One sample")


def swap_page(judge: str, dataset: Dataset, frame: ui.Frame) -> None:
    """The newest run of this verifier on these data, the controls for a new one, and what is going on."""
    job = newest_job(SwapRun.kind, judge=judge, data=dataset.dataset_id)
    going = job if job and (job.active or job.state != "done") else None
    run = shown(SwapRun, judge, dataset.dataset_id, going)
    with frame.actions:
        ui.compare_judge(key="swap")
        actions(judge, dataset, run, job)
    with frame.top:
        if run:
            frame.headline(headline(run, _first_summary(run)))
        else:
            frame.headline("A master key is an answer without content. Which ones does your verifier accept?")
        if going:
            progress(going)
        if run is None or st.session_state.get(OPEN):
            setup(judge, dataset, job, verifiers())
    if run is None:
        return
    with frame.hero:
        results(run, dataset)


def _first_summary(run: SwapRun) -> Summary:
    """The summary at the run's own setting."""
    k = min(int(run.config.get("k", 5)), run.tables[run.arms[0]].samples.k_max or 1)
    return summary_at(run.source, asdict(Setting(run.arms[0], k, float(run.config["delta"]), None, run.threshold)))


@st.fragment
def results(run: SwapRun, dataset: Dataset) -> None:
    """The slider with its counts on top, the distributions, then the tabs; a slider redraws only this panel."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        places = st.container(width="stretch"), st.container(width="content")
    with places[1]:
        setting = pick_setting(run)
    calibrated = summary_at(run.source, asdict(setting)).gamma
    scores = swaps(run, setting.arm, setting.k, setting.threshold)["max_p_cf"]
    with places[0]:
        gamma = _gamma(sorted({*scale_of(scores).gammas, calibrated}), calibrated)
    if gamma != calibrated:
        setting = replace(setting, gamma=gamma)
        st.button(
            f"Back to {three_digits(calibrated)}, {'calibrated' if run.judged else 'as in the paper'}",
            key="swap_back", type="tertiary", icon=":material/undo:", on_click=lambda: state.put(MOVED, value=False),
        )  # fmt: skip
    summary = summary_at(run.source, asdict(setting))
    ui.facts(_counts(summary))
    _figure(run, "max_p_cf", setting, key="swap_max_p_cf")
    draws: dict[str, Callable[[SwapRun, Summary, Setting, Dataset], None]] = {
        TABS[0]: _keys, TABS[1]: _points, TABS[2]: _one_sample,
    }  # fmt: skip
    for tab, draw in zip(
        st.tabs(TABS, key="swap_tab", on_change="rerun", bind="query-params"), draws.values(), strict=True
    ):
        if tab.open:
            with tab:
                draw(run, summary, setting, dataset)
    ui.measured(measured(run, setting.arm, summary), key="swap")


def _counts(summary: Summary) -> dict[str, str]:
    """At most four numbers that move with gamma: without the check, and behind it."""
    right = "Correct accepted" if summary.judged else "Responses accepted"
    found = {
        "Keys accepted": f"{summary.n_fooled} → {summary.kept_fooled}",
        right: f"{summary.n_right} → {summary.kept_right}",
        "Key rate": f"{_percent(summary.before.fpr.value)} → {_percent(summary.after.fpr.value)}",
    }
    if summary.judged:
        before, after = summary.before.accuracy.value, summary.after.accuracy.value
        found["Accuracy"] = f"{_percent(before)} → {_percent(after)}"
    return found


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 0)} %" if share == share else "–"


def _text(one: Interval) -> str:
    return interval_text(one.value, one.lower, one.upper)


def _figure(run: SwapRun, name: str, setting: Setting, *, key: str, caption: str = "") -> None:
    ui.show_entry(run.source, name, key=key, caption=caption, **asdict(setting))


def _keys(run: SwapRun, summary: Summary, setting: Setting, _: Dataset) -> None:
    if not summary.n_fooled:
        ui.note(f"No key was accepted anywhere: {percent(summary.before.fpr)} on the test part.")
        return
    _figure(run, "keys", setting, key="swap_keys", caption=by_answer_type(run, setting.threshold))


def _points(run: SwapRun, summary: Summary, setting: Setting, _: Dataset) -> None:
    if not summary.judged:
        ui.note("The data do not say which responses are correct, so there is no accuracy to trade against keys.")
        return
    if not summary.n_fooled or not summary.n_right:
        ui.note("A trade-off needs accepted keys and accepted correct responses; one of the two is missing here.")
        return
    _figure(run, "frontier", setting, key="swap_frontier")
    with st.expander("Other defenses, and both rates against γ", on_change="rerun", key="swap_more") as opened:
        if opened.open:
            _baselines(run, summary, setting)
            for name in ("passing", "roc"):
                _figure(run, name, setting, key=f"swap_{name}")


def _baselines(run: SwapRun, summary: Summary, setting: Setting) -> None:
    """The defenses that RefSwap is compared with, all calibrated on the same items with the same δ."""
    key = "swap"
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
        f"Rates of the test part. On the calibration part, where γ was set, accuracy is {dev}. The s-score is p(YES) "
        f"under the true reference minus p(YES) under one other; its AUC is {_text(summary.s_auc)}, and that "
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


def _one_sample(run: SwapRun, summary: Summary, setting: Setting, dataset: Dataset) -> None:
    """One accepted key or wrong response with every reference it was checked under; all of them in a fold."""
    table = false_positives(run, setting.arm, summary, dataset.items)
    if not len(table):
        ui.note("No key and no wrong response is accepted at this setting.")
        return
    names = [f"{row.Response}: {label(str(row.Question), 60)}" for row in table[["Response", "Question"]].itertuples()]
    at = int(ui.pick(
        "Accepted, the most robust first", [str(i) for i in range(len(names))], key=f"swap_sample_{len(names)}",
        default="0", title=lambda i: names[int(i)],
    ))  # fmt: skip
    row = table.iloc[at]
    ui.facts({
        "p(YES), true reference": three_digits(float(row["p(YES)"])), "max_p_cf": three_digits(float(row["max_p_cf"])),
        "Behind RefSwap": str(row["Behind RefSwap"]), "True reference": label(str(row["Reference"]), 40),
    })  # fmt: skip
    asked = swapped_of(run, setting.arm, setting.k, int(row["sample"]))
    st.dataframe(asked, hide_index=True, key="swap_asked", column_config=_numbers("p(YES)"))
    with st.expander(
        f"All {len(table):,} accepted keys and wrong responses", on_change="rerun", key="swap_all"
    ) as fold:
        if fold.open:
            _false_positives(run, table.drop(columns=["sample"]), setting)


def _numbers(*names: str) -> dict[str, object]:
    return {name: st.column_config.NumberColumn(name, format="%.3g") for name in names}


def _false_positives(run: SwapRun, table: pd.DataFrame, setting: Setting) -> None:
    st.dataframe(
        table,
        hide_index=True,
        height=360 if len(table) > 8 else "auto",
        key="swap_false",
        column_config=_numbers("p(YES)", "max_p_cf")
        | {"Question": st.column_config.TextColumn("Question", width="medium")},
    )
    ui.run_table(
        run, table, title=f"Accepted keys and wrong responses, {verifier_title(run.judge)}", key="swap_false_kept",
        said=f"{_said(setting)}.", file="false_positives.csv",
    )  # fmt: skip
