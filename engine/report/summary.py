"""The sentences a report opens with: what was tested, what moved, what to do; from the stored metrics of its runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from pydantic import ValidationError

from engine.core.errors import EngineError
from engine.core.schema import NONE
from engine.plots.text import interval_text, listed, plural
from engine.report.basket import Report
from engine.studies.figure import Source, arm_name, judge_name, upper_first
from engine.studies.registry import study_of_manifest

Find = Callable[[str], Source]


@dataclass(frozen=True)
class Effect:
    """A metric that a summary speaks of.

    Attributes:
        says: what a clear value of it means; "{what}" is its attack, or the system it is about, "{by}" the number.
        todo: what follows from a clear rise, and from a clear fall; empty where nothing does.
        factor: from the stored number to the one that is said.
        unit: of that number.
    """

    says: str
    todo: tuple[str, str]
    factor: float = 1.0
    unit: str = "points"


_DEFEND = "Put a defense before the judge (Attack lab, attack by defense) and check that it takes the effect away."
EFFECTS: dict[str, Effect] = {
    "shift": Effect("{what} moves the mean score by {by}", (_DEFEND, "")),
    "gain": Effect(
        "flipping the verdicts unlike people's choices changes agreement with people by {by}",
        ("Flip at the mass chosen beforehand.", "Leave the verdicts as they are: flipping makes them worse."),
        100.0,
    ),
    "rating_shift": Effect(
        "with {what}, {group} moves by {by} on the leaderboard",
        ("Do not rank systems by this judge alone: a change of manner moves them.", ""),
        unit="Elo points",
    ),
    "key_fpr": Effect(
        "the empty answer {what} is accepted in {by}",
        ("Turn on RefSwap at a gamma that keeps right answers, or refuse empty answers before the verifier.", ""),
        100.0,
        "%",
    ),
    "orders_disagree": Effect(
        "swapping the order turns its choice on {by} of the pairs",
        ("Ask in both orders, and take a choice that turns as a tie.", ""),
        100.0,
        "%",
    ),
}
"""Metrics by name, the one that a summary speaks of first."""


def summary(report: Report, find: Find) -> list[str]:
    """Sentences on the runs behind the figures: tested, moved, to do; empty where no figure comes from a run.

    Args:
        report: whose figures they are.
        find: the name of a run to the run; one that cannot be read is left out.
    """
    sources = _sources(report, find)
    if not sources:
        return []
    tested = listed([_tested(source) for source in sources])
    told = [_moved(source) for source in sources]
    moved = [said for said, _ in told if said]
    todo = list(dict.fromkeys(step for _, step in told if step))
    return [
        f"Tested: {tested}.",
        f"What moved: {'; '.join(moved)}." if moved else "What moved: nothing that these runs measured.",
        "What to do: "
        + (" ".join(todo) if todo else "nothing follows from these numbers alone; more items would narrow them."),
    ]


def _sources(report: Report, find: Find) -> list[Source]:
    found = []
    for run in dict.fromkeys(piece.run for piece in report.pieces if piece.run):
        try:
            found.append(find(run))
        except EngineError:
            continue  # its figure says on its own why it cannot be made
    return found


def _tested(source: Source) -> str:
    manifest = source.manifest
    study = study_of_manifest(manifest)
    data = manifest.get("data", {})
    n = f", {plural(int(data['n_items']), 'item')}" if data.get("n_items") else ""
    judge = judge_name(str(manifest.get("judge", {}).get("spec") or source.config.get("judge", "")))
    return (
        f"{judge} on {data.get('name') or source.config.get('data', 'its data')}{n} ({study.title if study else 'run'})"
    )


def _moved(source: Source) -> tuple[str, str]:
    """The clearest effect of a run in words, and what follows from it; empty where it has none to tell."""
    metrics = source.table("metrics")
    for name, effect in EFFECTS.items():
        rows = metrics[(metrics["metric"] == name) & metrics["value"].notna()]
        rows = rows[rows["defense"].fillna(NONE) == NONE]
        rows = rows[rows["group"].isna()] if name == "gain" else rows
        if len(rows):
            return _told(source, effect, rows)
    return _own_words(source), ""


def _own_words(source: Source) -> str:
    """The sentence that the study's own summary opens with; empty where it opens with a table."""
    study = study_of_manifest(source.manifest)
    if study is None:
        return ""
    try:
        config = study.config.model_validate(source.config)
        said = study.summary(config, source.folder).text.strip().splitlines()
    except (EngineError, ValidationError):
        return ""
    judge = upper_first(judge_name(str(source.config.get("judge", ""))))
    return f"{judge}: {said[0].strip().rstrip('.')}" if said and said[0].strip().endswith(".") else ""


def _told(source: Source, effect: Effect, rows: pd.DataFrame) -> tuple[str, str]:
    clear = rows[(rows["lower"] > 0) | (rows["upper"] < 0)]
    pool = clear if len(clear) else rows
    row = pool.iloc[int(pool["value"].abs().to_numpy().argmax())]
    by = interval_text(
        *(effect.factor * float(row[end]) for end in ("value", "lower", "upper")), unit=effect.unit,
        signed=effect.unit != "%",
    )  # fmt: skip
    attack = str(row["attack"]).removeprefix("key:")
    what = arm_name(attack, NONE) if attack not in (NONE, "nan") else "the judge"
    said = effect.says.format(what=what, group=row["group"], by=by)
    judge = upper_first(judge_name(str(source.config.get("judge", ""))))
    unclear = "" if len(clear) else ", not measurable"
    step = "" if not len(clear) else effect.todo[0 if row["value"] > 0 else 1]
    return f"{judge}: {said}{unclear}", step
