"""Runs of the study refswap as the pages read them, and sentences about them; no model is asked here."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from dashboard.run_view import RunView, Stored
from engine import catalog
from engine.core.schema import NONE
from engine.plots.text import THIN, count, interval_text, plural, three_digits
from engine.stats.intervals import Interval
from engine.studies.refswap.figures import arms as arms_of
from engine.studies.refswap.figures import key_title
from engine.studies.refswap.figures import swaps as swapped
from engine.studies.refswap.figures import table as table_of
from engine.studies.refswap.metrics import Summary, Table
from engine.studies.refswap.scores import max_p_cf

ARMS = {"other": "another answer type", "same": "the same answer type"}


class SwapRun(RunView):
    """A run of the study refswap."""

    kind = "refswap"
    verdicts = Stored("verdicts")
    references = Stored("references")

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Arms of counterfactual references that the run holds."""
        return arms_of(self.source)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The arrays of each arm."""
        return {arm: table_of(self.source, arm) for arm in self.arms}

    @property
    def threshold(self) -> float:
        """p_yes from which the run checked a YES; a lower one would need checks that were not made."""
        return float(self.config.get("threshold", 0.5))


def swaps(run: SwapRun, arm: str, k: int, threshold: float) -> pd.DataFrame:
    """Accepted correct responses and accepted keys with their max_p_cf: group, item_id, name, max_p_cf."""
    return swapped(run.tables[arm], k, threshold)


def percent(one: Interval) -> str:
    """A rate and its interval in percent; for no event the count and the bound."""
    if np.isnan(one.value):
        return "undefined"
    if one.value == 0 and np.isfinite(one.upper):
        return f"0 of {count(one.n)}, at most {100 * one.upper:.3g}{THIN}%"
    return interval_text(100 * one.value, 100 * one.lower, 100 * one.upper, unit="%")


def headline(run: SwapRun, summary: Summary) -> str:
    """The run's result at this setting, in one or two sentences."""
    name = "This planted verifier" if run.judge.startswith("planted:") else f"The {_title(run.judge)}"
    before = summary.before.fpr
    if np.isnan(before.value):
        return f"{name}: no key has been read yet."
    if not summary.n_fooled:
        return f"{name} is not fooled: master keys accepted {percent(before)} (test part). There is nothing to remove."
    fooled = f"{name} accepts master keys on {percent(before)} of {plural(before.n_clusters, 'question')}"
    if not summary.n_right:
        return f"{fooled}, and no correct response at all, so nothing can be told apart."
    if summary.auc.lower <= 0.5 <= summary.auc.upper:
        return f"{fooled}, and RefSwap does not measurably tell these from correct answers ({_auc(summary)})."
    if summary.auc.value < 0.5:
        return f"{fooled}. RefSwap would remove correct answers first ({_auc(summary)})."
    return (
        f"{fooled}; behind RefSwap on {percent(summary.after.fpr)}, and accuracy on responses goes from "
        f"{_share(summary.before.accuracy)} to {_share(summary.after.accuracy)} ({_auc(summary)})."
    )


def by_answer_type(run: SwapRun, threshold: float) -> str:
    """Where keys are accepted: shares by the answer type of the true reference."""
    table = run.tables[run.arms[0]]
    true = run.references[run.references["arm"] == "true"].set_index("item_id")["answer_type"]
    yes = table.samples.yes(threshold)
    part = ~table.samples.clean & ~np.isnan(yes)
    frame = pd.DataFrame({"kind": table.frame.loc[part, "item_id"].map(true), "yes": yes[part]})
    shares = frame.groupby("kind")["yes"].agg(["sum", "count"]).sort_values("sum", ascending=False)
    words = [f"{kind.replace('_', ' ')} {int(row['sum'])} of {int(row['count'])}" for kind, row in shares.iterrows()]
    return (
        f"Keys accepted by the true reference's answer type, all items: {', '.join(words)}." if len(words) > 1 else ""
    )


def left_out_note(run: SwapRun) -> str:
    """Number of items that could not be asked about, in a sentence."""
    n = int(run.manifest.get("data", {}).get("n_without_reference", 0))
    return f"Left out: {plural(n, 'item')} without a reference." if n else ""


def _title(spec: str) -> str:
    """The judge's title inside a sentence, without what stands in brackets."""
    title = catalog.describe_judge(spec).title.partition(" (")[0]
    return title[:1].lower() + title[1:]


def mechanism(run: SwapRun, arm: str, summary: Summary, threshold: float) -> str:
    """Why, from the stored probabilities: the medians under swapped references."""
    table = swaps(run, arm, summary.k, threshold)
    medians = table.groupby("group")["max_p_cf"].median()
    if not {"correct", "key"} <= set(medians.index):
        return ""
    right, key = float(medians["correct"]), float(medians["key"])
    text = (
        f"Under {plural(summary.k, 'reference')} of {ARMS[arm]}, the largest p(YES) has a median of "
        f"{three_digits(right)} for accepted correct responses and {three_digits(key)} for accepted keys."
    )
    if summary.auc.lower <= 0.5 <= summary.auc.upper:
        kept = f"{percent(summary.pass_right)} of accepted correct responses and {percent(summary.pass_fooled)} of keys"
        return f"{text} Neither survives a swap measurably better, so γ removes both: {kept} keep their YES."
    if right < 0.05 and key < 0.05:
        return f"{text} This verifier follows the reference for both, so a swap leaves neither: it does not self-solve."
    if right < key:
        return f"{text} Keys keep more of their YES: the verifier does not read the reference where no answer stands."
    return f"{text} Correct responses keep more of their YES, which is what RefSwap rests on (self-solving)."


def _auc(summary: Summary) -> str:
    one = summary.auc
    sizes = f"{plural(summary.n_right, 'correct response')} and {plural(summary.n_fooled, 'key')}"
    return f"AUC {interval_text(one.value, one.lower, one.upper)} of {sizes} accepted"


def _share(one: Interval) -> str:
    return interval_text(100 * one.value, 100 * one.lower, 100 * one.upper, unit="%")


def false_positives(run: SwapRun, arm: str, summary: Summary, dataset_items: pd.DataFrame) -> pd.DataFrame:
    """Every accepted key or wrong response, with its references and probabilities, the worst first."""
    table = run.tables[arm]
    s = table.samples
    score = max_p_cf(s, summary.k)
    rows = np.flatnonzero((s.yes(summary.threshold) == 1) & ~s.right)
    texts = run.references.set_index(["item_id", "reference_id"])["reference"].to_dict()
    context = dict(zip(dataset_items["item_id"], dataset_items["context"].fillna(""), strict=True))
    out = []
    for i in rows.tolist():
        item, name, attack = table.frame.iloc[i][["item_id", "response_id", "attack"]]
        asked = [
            f"{texts.get((item, f'{arm}-{j + 1}'), '?')}: {three_digits(float(s.cf[i, j]))}"
            for j in range(min(summary.k, s.cf.shape[1]))
            if s.asked[i, j]
        ]
        passes = "unread" if np.isnan(score[i]) else "kept" if score[i] >= summary.gamma else "removed"
        out.append(
            {
                "Question": context.get(item, item),
                "Reference": texts.get((item, "true"), ""),
                "Response": key_title(attack) if attack != NONE else f"response {name}",
                "p(YES)": s.p[i],
                "max_p_cf": score[i],
                "Behind RefSwap": passes,
                "Swapped references and p(YES)": "   ".join(asked),
            }
        )
    columns = ["Question", "Reference", "Response", "p(YES)", "max_p_cf", "Behind RefSwap"]
    frame = pd.DataFrame(out, columns=[*columns, "Swapped references and p(YES)"])
    return frame.sort_values("max_p_cf", ascending=False, kind="stable").reset_index(drop=True)
