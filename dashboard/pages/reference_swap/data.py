"""Runs of the study refswap as the pages read them, and sentences about them; no model is asked here."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from dashboard import findings
from dashboard.run_view import RunView, Stored
from engine import catalog
from engine.core.schema import NONE
from engine.plots.text import THIN, count, fixed, interval_text, plural, three_digits
from engine.stats.intervals import Interval
from engine.studies.figure import upper_first
from engine.studies.refswap.figures import arms as arms_of
from engine.studies.refswap.figures import fewer_note, key_title, unread_note
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
    def judged(self) -> bool:
        """The data say which responses are correct."""
        return self.tables[self.arms[0]].samples.judged

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
    """The run's result at its own setting, in at most 25 words; intervals stand in the drawer."""
    name = "This planted verifier" if run.judge.startswith("planted:") else f"The {_title(run.judge)}"
    before = summary.before.fpr
    if np.isnan(before.value):
        return f"{name}: no key has been read yet."
    if not summary.n_fooled:
        return f"{name} accepts no master key: nothing to remove."
    fooled = f"{name} accepts master keys on {_whole(before.value)} of questions"
    if not summary.judged:
        return f"{fooled}; behind the swap {summary.kept_fooled} of {plural(summary.n_fooled, 'key')} keep their YES."
    if not summary.n_right:
        return f"{fooled}, and no correct response at all: nothing can be told apart."
    if summary.auc.lower <= 0.5 <= summary.auc.upper:
        return f"{fooled}. Swapping references does not measurably tell them from correct answers."
    if summary.auc.value < 0.5:
        return f"{fooled}. Swapping references would remove correct answers first."
    return (
        f"{fooled}, behind RefSwap on {_whole(summary.after.fpr.value)}; accuracy goes from "
        f"{_whole(summary.before.accuracy.value)} to {_whole(summary.after.accuracy.value)}."
    )


def _whole(share: float) -> str:
    return f"{fixed(100 * share, 0 if share >= 0.1 else 1)}{THIN}%"


def measured(run: SwapRun, arm: str, summary: Summary) -> list[str]:
    """The lines of the drawer, at the setting shown: intervals, mechanism, cost, what is left out, source."""
    clean, key = summary.cost_clean, summary.cost_key
    before, after = summary.before, summary.after
    lines = [
        f"Master keys accepted: {percent(before.fpr)}, behind RefSwap {percent(after.fpr)}, on items that γ was not "
        f"calibrated on ({before.fpr.n_clusters} questions). Intervals: 95 %, questions as clusters."
    ]
    if summary.judged:
        lines += [
            f"Accuracy on responses: {percent(before.accuracy)}, behind RefSwap {percent(after.accuracy)}.",
            f"{_auc(summary)}; Cohen's d {_text(summary.cohens_d)}. γ from δ: {three_digits(summary.cut.value)}, "
            f"calibrated on {plural(summary.cut.n, 'response')}; in use {three_digits(summary.gamma)}.",
            f"Of those accepted, {percent(summary.pass_right)} of correct ones and {percent(summary.pass_fooled)} of "
            "keys reach γ.",
        ]
    else:
        lines.append(
            "Left out: accuracy, AUC and the calibration of γ, since the data do not say which responses are correct."
        )
    tokens = "" if np.isnan(clean.tokens_ratio) else (
        f" Tokens: ×{fixed(clean.tokens_ratio, 2)} for a response, ×{fixed(key.tokens_ratio, 2)} for a key."
    )  # fmt: skip
    lines += [
        mechanism(run, arm, summary, summary.threshold),
        f"Forward passes: {fixed(clean.passes, 2)} for a response, {fixed(key.passes, 2)} for a key.{tokens}",
        unread_note(run.tables[arm], summary),
        fewer_note(summary),
        left_out_note(run),
        "Quick form: 24 responses and three keys at most." if run.config.get("quick") else "",
        f"Swapped references: {str(run.manifest.get('pool', {}).get('name', '')).removeprefix('of ')}. "
        f"{upper_first(findings.provenance(run.manifest, recorded=run.recorded))}.",
        str(run.manifest.get("judge", {}).get("remark") or ""),
        "Method: Zhang et al., RefSwap; master keys of Zhao et al. (2025).",
    ]
    return [line for line in lines if line]


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


def _text(one: Interval) -> str:
    return interval_text(one.value, one.lower, one.upper)


def swapped_of(run: SwapRun, arm: str, k: int, sample: int) -> pd.DataFrame:
    """The references that one sample was asked under, with answer type and p(YES); the true one first.

    Args:
        run: the run.
        arm: of the counterfactual references.
        k: number of them.
        sample: its number, as in `false_positives`.
    """
    table = run.tables[arm]
    s, item = table.samples, table.frame["item_id"].iloc[sample]
    known = run.references[run.references["item_id"] == item].set_index("reference_id")
    asked = {"true": float(s.p[sample])}
    asked |= {f"{arm}-{j + 1}": float(s.cf[sample, j]) for j in range(min(k, s.cf.shape[1])) if s.asked[sample, j]}
    rows = [
        {
            "Asked under": "the true reference" if name == "true" else "another one",
            "Reference": str(known["reference"].get(name, "?")),
            "Answer type": str(known["answer_type"].get(name, "")).replace("_", " "),
            "p(YES)": p,
        }
        for name, p in asked.items()
    ]
    return pd.DataFrame(rows)


def false_positives(run: SwapRun, arm: str, summary: Summary, dataset_items: pd.DataFrame) -> pd.DataFrame:
    """Every accepted key or wrong response, with its references and probabilities, the worst first.

    Its column `sample` is the number in the arrays of the arm.
    """
    table = run.tables[arm]
    s = table.samples
    score = max_p_cf(s, summary.k)
    rows = np.flatnonzero((s.yes(summary.threshold) == 1) & ~s.right & s.known)
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
                "sample": i,
            }
        )
    columns = ["Question", "Reference", "Response", "p(YES)", "max_p_cf", "Behind RefSwap"]
    frame = pd.DataFrame(out, columns=[*columns, "Swapped references and p(YES)", "sample"])
    return frame.sort_values("max_p_cf", ascending=False, kind="stable").reset_index(drop=True)
