"""What a run says of itself: facts for a reader, and its problems with what to do about each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from engine.errors import RunError
from engine.runs import RETRY, RunFolder, state_of

CAN_GO_ON = frozenset({"stopped", "failed", "interrupted"})
"""States from which a run is resumed."""
_MOST_REASONS = 5
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class Unread:
    """The calls of a run without a usable answer.

    Attributes:
        total: how many.
        calls: of how many.
        reasons: reason -> how many, most first; reasons that differ in numbers alone stand under the commonest one.
        by_arm: "attack, defense" -> unread and all calls of that arm.
    """

    total: int
    calls: int
    reasons: dict[str, int]
    by_arm: dict[str, tuple[int, int]]


def unread_of(verdicts: pd.DataFrame) -> Unread:
    """Count a table's unread calls by reason and by arm."""
    once = verdicts.drop_duplicates("verdict_id")
    bad = once["unread_reason"].notna()
    kinds: dict[str, Counter[str]] = {}
    for reason in once.loc[bad, "unread_reason"].astype(str):
        kinds.setdefault(_NUMBER.sub("#", reason), Counter())[reason] += 1
    reasons = Counter({own.most_common(1)[0][0]: own.total() for own in kinds.values()})
    arms = once["attack"].astype(str) + ", " + once["defense"].astype(str)
    by_arm = {str(arm): (int(own.sum()), len(own)) for arm, own in bad.groupby(arms, sort=False)}
    return Unread(int(bad.sum()), len(once), dict(reasons.most_common()), by_arm)


def facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The manifest's main facts, each a short text; what it does not say is left out."""
    data, judge, versions = (_dict(manifest.get(k)) for k in ("data", "judge", "versions"))
    config = _dict(manifest.get("config"))
    counts = [f"{data[f'n_{k}']} {k}" for k in ("items", "responses", "pairs") if data.get(f"n_{k}") is not None]
    prompts = [p for p in judge.get("prompts") or [] if isinstance(p, dict)]
    resumed = manifest.get("resumed") or []
    found = {
        "Study": manifest.get("study"),
        "State": state_of(dict(manifest)),
        "Begun": _moment(manifest.get("created")),
        "Resumed": ", ".join(_moment(t) for t in resumed[-3:]) if isinstance(resumed, list) else "",
        "Ended": _moment(manifest.get("finished")),
        "Judge": judge.get("spec") or config.get("judge"),
        "Fingerprint": judge.get("fingerprint"),
        "Revision": judge.get("revision"),
        "Device": " ".join(str(judge[k]) for k in ("device", "precision") if judge.get(k)),
        "Prompts": ", ".join(f"{p.get('name')} ({p.get('digest')})" for p in prompts),
        "Data": data.get("name") or config.get("data"),
        "Data digest": data.get("digest") or data.get("dataset_id"),
        "Counts": ", ".join(counts),
        "Seed": config.get("seed"),
        "Level": config.get("level"),
        "Versions": ", ".join(f"{k} {v}" for k, v in versions.items()),
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def problems(run: RunFolder) -> list[tuple[str, str]]:
    """What a reader must know before trusting the run's numbers: what is wrong, and what to do.

    Raises:
        RunError: the manifest is unreadable.
    """
    manifest = run.manifest()
    state = state_of(manifest)
    found: list[tuple[str, str]] = []
    if error := manifest.get("error"):
        found.append((f"It ended early: {error}", "Mend the cause, then resume it; what is done is kept."))
    elif state in CAN_GO_ON:
        found.append((f"It is {state}: its numbers hold what was done.", "Resume it; what is done is kept."))
    if manifest.get(RETRY):
        found.append(("A retry of its unread calls did not come to its end.", "Retry again; what is read is kept."))
    try:
        unread = unread_of(run.table("verdicts"))
    except RunError as error:
        return [*found, (str(error), "Import the run again from a zip, or run the study anew.")]
    if unread.total:
        most = "; ".join(f"{n:,}: {reason}" for reason, n in list(unread.reasons.items())[:_MOST_REASONS])
        found.append(
            (
                f"{unread.total:,} of {unread.calls:,} calls are unread. {most}",
                "They enter no mean. Retry asks them again, alone; what lies in the prompt or the window stays unread.",
            )
        )
    shares = {arm: bad / n for arm, (bad, n) in unread.by_arm.items() if n}
    if shares and max(shares.values()) - min(shares.values()) > 0.1:
        worst = max(shares, key=lambda arm: shares[arm])
        found.append(
            (
                f"Arms differ in what is unread: from {min(shares.values()):.0%} to {shares[worst]:.0%} ({worst}).",
                "Compare only responses read in both arms; where the reading depends on the attack, say so.",
            )
        )
    return found


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _moment(value: object) -> str:
    """2026-11-28T03:59:41+00:00 as a reader takes it: 2026-11-28 03:59 UTC."""
    text = str(value or "")
    return f"{text[:10]} {text[11:16]} UTC" if len(text) >= 16 and text[10] == "T" else text
