"""Figures of a run of reference swaps, at any K, delta or gamma, from the stored probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine import catalog
from engine.core.schema import NONE
from engine.plots.text import count, interval_text, plural
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table
from engine.studies.refswap import drawings
from engine.studies.refswap.metrics import Summary, Table, sample_table, summarise
from engine.studies.refswap.scores import Frontier, frontier, max_p_cf

STUDY = "refswap"
ARMS = {"other": "of another answer type", "same": "of the same answer type"}


def arms(source: Source) -> tuple[str, ...]:
    """Arms of counterfactual references that the run holds."""
    return tuple(source.config.get("arms", ("other",)))


def threshold(source: Source) -> float:
    """p_yes from which the run checked a YES; a lower one would need checks that were not made."""
    return float(source.config.get("threshold", 0.5))


def table(source: Source, arm: str) -> Table:
    """The arrays of one arm."""
    return source.memo(("refswap", arm), lambda: sample_table(source.table("verdicts"), source.table("samples"), arm))


def swaps(table: Table, k: int, least_yes: float) -> pd.DataFrame:
    """Accepted correct responses (all, where none is known) and accepted keys: group, item_id, name, max_p_cf."""
    s = table.samples
    taken = (s.yes(least_yes) == 1) & (~s.clean | s.meant)
    frame = table.frame[taken]
    keyed = frame["attack"] != NONE
    names = np.where(keyed, frame["attack"], frame["response_id"])
    group = np.where(keyed, drawings.KEY, drawings.CORRECT if s.judged else drawings.RESPONSE)
    score = max_p_cf(s, k)[taken]
    return pd.DataFrame({"group": group, "item_id": frame["item_id"].to_numpy(), "name": names, "max_p_cf": score})


def points(table: Table, k: int, least_yes: float) -> Frontier:
    """Every operating point of a run, over all its items."""
    s = table.samples
    return frontier(s, max_p_cf(s, k), s.yes(least_yes))


def key_title(name: str) -> str:
    """A key for a reader, by the name of its arm."""
    return catalog.shown_key(catalog.key_text(name))


def key_rows(table: Table, found: Summary) -> pd.DataFrame:
    """Share of each key that is accepted, before and behind RefSwap."""
    pairs = zip(table.keys, found.before.per_key, found.after.per_key, strict=True)
    return drawings.prepare_keys(
        [(key_title(name), b.n, b.value, b.lower, b.upper, a.value, a.lower, a.upper) for name, b, a in pairs]
    )


def unread_note(own: Table, found: Summary) -> str:
    """Unread and left out verdicts in a sentence, since a key that leaves the verifier without an answer is no NO.

    Keys of which half or more is unread are named, the worst first: their shares rest on what little was read.
    """
    s = own.samples
    lost = np.isnan(s.p)
    checks = int(np.isnan(max_p_cf(s, found.k))[s.yes(found.threshold) == 1].sum())
    parts = [
        f"{count(int(lost[part].sum()))} of {count(int(part.sum()))} verdicts on {what}"
        for part, what in ((s.clean, "responses"), (~s.clean, "keys"))
        if lost[part].any()
    ]
    if checks:
        parts.append(f"the checks of {plural(checks, 'accepted sample')}")
    if not parts:
        return ""
    by_key = [(int(lost[s.key == i].sum()), int((s.key == i).sum()), name) for i, name in enumerate(own.keys)]
    worst = sorted((row for row in by_key if 2 * row[0] >= row[1]), key=lambda row: -row[0] / row[1])
    said = ", ".join(f"“{key_title(name)}” {count(n)} of {count(of)}" for n, of, name in worst)
    return f"Unread and left out: {', '.join(parts)}{f'; most of {said}' if said else ''}."


def fewer_note(found: Summary) -> str:
    """Number of samples checked against fewer than K references, in a sentence."""
    if not found.n_fewer:
        return ""
    of = plural(found.n_right + found.n_fooled, "accepted sample")
    return (
        f"{count(found.n_fewer)} of {of} had fewer than {found.k} references to swap in, since the pool has no more of "
        "that answer type: their max_p_cf is over those there are."
    )


def _k_max(source: Source) -> int:
    return table(source, arms(source)[0]).samples.k_max or 1


ARM = Setting("arm", "swapped references", "choice", lambda s: arms(s)[0], choices=arms, words=ARMS)
K = Setting("k", "K", "whole", lambda s: min(int(s.config.get("k", 5)), _k_max(s)), lambda _: 1, _k_max)
DELTA = Setting("delta", "δ (points)", "number", lambda s: float(s.config.get("delta", 2.0)), high=lambda _: 100.0,
             acts=lambda at: at["gamma"] is None)  # fmt: skip
GAMMA = Setting("gamma", "γ", "number", lambda _: None, words={None: "from δ by eq. 5"}, none_was=-1.0)
LEAST_YES = Setting("threshold", "YES from p(YES)", "number", threshold, threshold)
DIALS = (ARM, K, DELTA, GAMMA, LEAST_YES)


def summary_at(source: Source, at: Values) -> Summary:
    """The summary of a run at a setting: delta in points of 100, gamma in [0, 1] or None for eq. 5's."""
    own = table(source, str(at["arm"]))
    gamma = None if at["gamma"] is None else float(at["gamma"])
    k, delta, least_yes = int(at["k"]), float(at["delta"]) / 100, float(at["threshold"])
    return source.memo(
        ("summary", at["arm"], k, delta, gamma, least_yes),
        lambda: summarise(own.samples, k=k, delta=delta, gamma=gamma, threshold=least_yes),
    )


def _at(source: Source, at: Values) -> tuple[Table, Summary]:
    return table(source, str(at["arm"])), summary_at(source, at)


def _sizes(found: Summary) -> str:
    return f"n = {found.n_right} correct responses and {found.n_fooled} keys accepted"


def _auc(found: Summary) -> str:
    one = found.auc
    bounds = interval_text(one.value, one.lower, one.upper, method=one.method, n_clusters=one.n_clusters)
    return f"AUC {bounds}, 95 % interval ({one.method})" if one.n else "no AUC, so no interval"


def _unread(own: Table, k: int, least_yes: float) -> str:
    s = own.samples
    lost = int(np.isnan(s.p).sum()) + int(np.isnan(max_p_cf(s, k))[s.yes(least_yes) == 1].sum())
    return f"{lost} unread"


def _max_p_cf(source: Source, at: Values) -> FigureData:
    own, found = _at(source, at)
    made = swaps(own, int(at["k"]), float(at["threshold"]))
    return FigureData(made, {"gamma": found.gamma}, (_sizes(found), _auc(found)))


def _keys(source: Source, at: Values) -> FigureData:
    own, found = _at(source, at)
    facts = (_unread(own, found.k, found.threshold), f"γ in use {found.gamma:.3g}")
    return FigureData(key_rows(own, found), {}, facts, f"test part, {source.origin}")


def _curve(source: Source, at: Values, kind: str) -> FigureData:
    own, found = _at(source, at)
    k, least = int(at["k"]), float(at["threshold"])
    more: dict[str, Any] = {"gamma": found.gamma}
    if kind == "frontier":
        line = points(own, k, least)
        made = drawings.prepare_frontier(
            *(c.tolist() for c in (line.cut, line.accuracy, line.fpr, line.worst, line.best))
        )
    else:
        made = drawings.prepare_passing(swaps(own, k, least))
    if kind == "roc":
        more["auc"] = interval_text(found.auc.value, found.auc.lower, found.auc.upper)
    facts = (_sizes(found), _unread(own, k, least), _auc(found))
    return FigureData(made, more, facts, f"all items, {source.origin}")


_EMPTY = has_table("samples", "it holds no samples yet.")


def _no_trade_off(source: Source) -> str:
    if why := _EMPTY(source):
        return why
    found = _at(source, {d.name: d.default(source) for d in DIALS})[1]
    enough = found.judged and found.n_fooled and found.n_right
    return "" if enough else "it needs accepted keys and accepted correct responses."


ENTRIES = (
    FigureSpec(
        STUDY, "max_p_cf", "What survives a swap of the reference?", _max_p_cf, drawings.plot_swaps,
        DIALS, _EMPTY,
    ),
    FigureSpec(
        STUDY, "keys", "Which keys are accepted?", _keys, drawings.plot_keys, DIALS, _EMPTY,
    ),
    FigureSpec(
        STUDY, "frontier", "What does robustness cost?", lambda s, at: _curve(s, at, "frontier"),
        drawings.plot_frontier, DIALS, _no_trade_off,
    ),
    FigureSpec(
        STUDY, "passing", "Who keeps the YES at which γ?", lambda s, at: _curve(s, at, "passing"),
        drawings.plot_passing, DIALS, _no_trade_off,
    ),
    FigureSpec(
        STUDY, "roc", "Does max_p_cf tell them apart?", lambda s, at: _curve(s, at, "roc"),
        drawings.plot_roc, DIALS, _no_trade_off,
    ),
)  # fmt: skip
