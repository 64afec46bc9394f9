"""What attacks, defenses, judges and runs are called in a figure and in a sentence."""

from __future__ import annotations

from typing import Any

import pandas as pd

from engine import catalog
from engine.errors import InputError
from engine.schema import NONE

CAP_TITLES = {
    "cot": "Chain of thought",
    "perplexity": "Perplexity",
    "score-anchors": "Given score",
    "human-anchors": "Human-rated",
    "wcap": "W-CAP",
    "cap": "CAP",
    NONE: "No defense",
}
"""Short names of the defenses of the study cap."""


def attack_name(name: str) -> str:
    """The attack as it stands in a sentence: "DSI"."""
    try:
        return catalog.describe_attack(name).title.partition(":")[0]
    except InputError:
        return name  # an arm of another version's run


def defense_name(name: str) -> str:
    """The defense as it stands in a sentence: "delimiters"."""
    try:
        return " + ".join(lower_first(part) for part in catalog.describe_defense(name).title.split(" + "))
    except InputError:
        return name


def arm_name(attack: str, defense: str) -> str:
    """An arm in words: "DSI behind delimiters"."""
    return attack_name(attack) if defense == NONE else f"{attack_name(attack)} behind {defense_name(defense)}"


def judge_name(spec: str) -> str:
    """The judge as it stands in a sentence: "the bundled judge", "the judge planted:noisy?noise=0.1"."""
    card = catalog.JUDGES.get(spec)
    if card is None:
        return f"the judge {spec}"
    title = card.title.replace("Planted: ", "planted judge that ")
    return f"the {title[:1].lower()}{title[1:]}"


def short_titles(metrics: pd.DataFrame) -> dict[str, str]:
    """Attack and defense names of a run as figures show them; the absence of each has a name of its own there."""
    attacks = {name: attack_name(name) for name in metrics["attack"].unique() if name != NONE}
    defenses = {name: upper_first(defense_name(name)) for name in metrics["defense"].unique() if name != NONE}
    return attacks | defenses


def cap_name(defense: str) -> str:
    """A defense of the study cap as it stands in a figure."""
    return CAP_TITLES.get(defense) or upper_first(defense_name(defense))


def cap_titles(metrics: pd.DataFrame) -> dict[str, str]:
    """Attacks and defenses of a run of the study cap as figures show them."""
    attacks = {a: attack_name(a) for a in metrics["attack"].dropna().unique() if a != NONE}
    return attacks | {d: cap_name(d) for d in metrics["defense"].dropna().unique() if d != NONE}


def lower_first(text: str) -> str:
    """For the middle of a sentence; an abbreviation stays in capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def upper_first(text: str) -> str:
    """For the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def strongest_arm(metrics: pd.DataFrame) -> tuple[str, str]:
    """Attack and defense of the arm to look at first: the largest shift, undefended where there is one."""
    pool = shifts_by_size(metrics)
    return (str(pool["attack"].iloc[0]), str(pool["defense"].iloc[0])) if len(pool) else (NONE, NONE)


def shifts_by_size(metrics: pd.DataFrame) -> pd.DataFrame:
    """Rows `shift`, the largest change first; the undefended ones alone where there are any."""
    shifts = metrics[(metrics["metric"] == "shift") & metrics["value"].notna()]
    shifts = shifts.sort_values("value", key=abs, ascending=False, kind="stable")
    bare = shifts[shifts["defense"] == NONE]
    return bare if len(bare) else shifts


def label_values(labels: list[str]) -> list[float]:
    """The number each label stands for, for labels that are numbers."""
    try:
        return [float(label) for label in labels]
    except ValueError:
        return []


def origin(manifest: dict[str, Any], *, recorded: bool | None = None) -> str:
    """Recorded or run here, and when; short enough for a figure's small print."""
    shipped = bool(manifest.get("recorded", False)) if recorded is None else recorded
    when = str(manifest.get("finished") or manifest.get("created") or "")[:10]
    partial = "" if manifest.get("state") == "done" else f", {manifest.get('state')}, partial"
    return f"{'recorded' if shipped else 'run here'} on {when}{partial}"
