"""The results of the Reference swap page: one or two verifiers side by side, re-read at the sliders' setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.panels import findings
from dashboard.panels import refswap_data as swaps
from dashboard.panels.refswap_choose import Setting, pick_setting, verifier_title
from dashboard.panels.refswap_data import SwapRun
from dashboard.panels.run_table import run_table
from engine import catalog
from engine.data.dataset import Dataset
from engine.figures.text import fixed, interval_text, three_digits
from engine.gallery.refswap import fewer_note, unread_note
from engine.metrics.intervals import Interval
from engine.metrics.refswap import Summary

TABS = ("Swapped references", "Keys", "Operating points", "Baselines", "False positives")


@st.fragment
def results(runs: Sequence[SwapRun], dataset: Dataset) -> None:
    """Sliders on top, then a column for each verifier; a slider redraws only this panel."""
    answer = st.container()  # above the sliders that it follows
    arms = tuple(arm for arm in swaps.ARMS if all(arm in run.arms for run in runs)) or ("other",)
    k_max = min(run.tables[arms[0]].samples.k_max or 1 for run in runs)
    setting = pick_setting(arms, k_max, max(run.threshold for run in runs))
    found = [
        swaps.summary(run, setting.arm, setting.k, setting.delta, setting.gamma, setting.threshold) for run in runs
    ]
    for column, run, one in zip(answer.columns(len(runs), gap="large"), runs, found, strict=True):
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
                for i, (run, one) in enumerate(zip(runs, found, strict=True)):
                    ui.note(verifier_title(run.judge))
                    wide[name](run, one, setting, dataset, f"swap_{i}")
                continue
            parts = st.columns(len(runs), gap="large")
            for i, (part, run, one) in enumerate(zip(parts, runs, found, strict=True)):
                with part:
                    draws[name](run, one, setting, f"swap_{i}")


def _heading(run: SwapRun, found: Summary, setting: Setting) -> None:
    st.subheader(ui.plain(verifier_title(run.judge)), anchor=False)
    st.badge(findings.provenance(run.manifest, recorded=run.recorded), icon=":material/history:", color="gray")
    ui.finding(swaps.headline(run, found))
    if unread := unread_note(run.tables[setting.arm], found):
        ui.warn(unread)
    for note in (fewer_note(found), swaps.left_out_note(run)):
        if note:
            ui.note(note)
    with st.expander("Why, and what it costs"):
        ui.note(swaps.mechanism(run, setting.arm, found, setting.threshold))
        ui.facts(_facts(found, run))
        ui.note(catalog.describe_judge(run.judge.partition("?")[0]).about)
        ui.note(str(run.manifest.get("judge", {}).get("remark") or ""))


def _facts(found: Summary, run: SwapRun) -> dict[str, str]:
    clean, key = found.cost_clean, found.cost_key
    facts = {
        "Swapped references": str(run.manifest.get("pool", {}).get("name", "")).removeprefix("of "),
        "γ in use": three_digits(found.gamma),
        "Reach it, correct / keys": f"{_percent(found.pass_right.value)} / {_percent(found.pass_fooled.value)}",
        "AUC (signed)": _text(found.auc),
        "Cohen's d": _text(found.cohens_d),
        "γ* (eq. 5)": f"{three_digits(found.cut.value)} from {found.cut.n} responses",
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
    at = swaps.setting_of(setting.arm, setting.k, setting.delta, setting.gamma, setting.threshold)
    ui.show_entry(run.source, name, key=key, caption=caption, **at)


def _distribution(run: SwapRun, found: Summary, setting: Setting, key: str) -> None:
    if not found.n_fooled:
        ui.note("No key was accepted, so there is only the distribution of correct responses to draw.")
    _figure(run, "max_p_cf", setting, key=f"{key}_max_p_cf")


def _keys(run: SwapRun, found: Summary, setting: Setting, key: str) -> None:
    if not found.n_fooled:
        ui.note(f"No key was accepted anywhere: {swaps.percent(found.before.fpr)} on the test part.")
        return
    _figure(run, "keys", setting, key=f"{key}_keys", caption=swaps.by_answer_type(run, setting.threshold))


def _points(run: SwapRun, found: Summary, setting: Setting, key: str) -> None:
    if not found.n_fooled or not found.n_right:
        ui.note("A trade-off needs accepted keys and accepted correct responses; one of the two is missing here.")
        return
    for name in ("frontier", "passing", "roc"):
        _figure(run, name, setting, key=f"{key}_{name}")


def _baselines(run: SwapRun, found: Summary, setting: Setting, __: Dataset, key: str) -> None:
    """The defenses that RefSwap is compared with, all calibrated on the same items with the same δ."""
    cuts = {
        "Undefended": ("", found.before),
        f"RefSwap, K = {setting.k}": (f"max_p_cf ≥ {three_digits(found.gamma)}", found.after),
        "max_p_cf, K = 1": (f"max_p_cf ≥ {three_digits(found.k_one.cut.value)}", found.k_one.after),
        "s-score, K = 1": (f"s ≥ {three_digits(found.s_score.cut.value)}", found.s_score.after),
        "Length filter": (f"at least {fixed(found.length.cut.value, 0)} characters", found.length.after),
    }
    rows = [
        {
            "Defense": name,
            "Keeps a YES if": cut,
            "Accuracy": swaps.percent(rates.accuracy),
            "Keys accepted, mean": swaps.percent(rates.fpr),
            "Worst key": swaps.percent(rates.fpr_worst),
            "Unread": rates.n_unread,
        }
        for name, (cut, rates) in cuts.items()
    ]
    table = pd.DataFrame(rows)
    st.dataframe(table, hide_index=True, key=f"{key}_baselines")
    dev = f"{swaps.percent(found.dev_before.accuracy)} before, {swaps.percent(found.dev_after.accuracy)} behind RefSwap"
    ui.note(
        f"Rates of the test part. On the calibration part, where eq. 5 holds, accuracy is {dev}. The s-score is p(YES) "
        f"under the true reference minus p(YES) under one other (eq. 3); its AUC is {_text(found.s_auc)}, and that of "
        f"max_p_cf from the same one reference {_text(found.one_auc)}. A length "
        "filter knows nothing of content: any key longer than its threshold passes."
    )
    run_table(
        run, table, title=f"RefSwap beside its baselines, {verifier_title(run.judge)}", key=f"{key}_baselines_kept",
        said=f"Rates of the test part, {_said(setting)}.", file="baselines.csv",
    )  # fmt: skip


def _said(setting: Setting) -> str:
    """The setting of the sliders in words."""
    gamma = f"δ = {setting.delta:g} points" if setting.gamma is None else f"γ = {setting.gamma:g}"
    return f"K = {setting.k}, {gamma}, references of {swaps.ARMS[setting.arm]}, accepted from {setting.threshold:g}"


def _false_positives(run: SwapRun, found: Summary, setting: Setting, dataset: Dataset, key: str) -> None:
    table = swaps.false_positives(run, setting.arm, found, dataset.items)
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
    run_table(
        run, table, title=f"Accepted keys and wrong responses, {verifier_title(run.judge)}", key=f"{key}_false_kept",
        said=f"{_said(setting)}.", file="false_positives.csv",
    )  # fmt: skip
