"""From a probe to the page that explores it, with that page's controls set through its address."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard import state
from dashboard.panels.audit_setup import JUDGE as AUDIT_JUDGE
from dashboard.panels.audit_setup import PAIRS
from dashboard.panels.checkup_data import pair_sets
from dashboard.panels.lesson_texts import Preset
from dashboard.panels.protocols_choose import STYLE
from dashboard.panels.refswap_choose import FIRST
from engine.schema import NONE, Protocol

LAB, PROTOCOLS, SWAP = "app_pages/attack_lab.py", "app_pages/protocols.py", "app_pages/reference_swap.py"
AUDIT, CARD = "app_pages/transport_audit.py", "app_pages/judge_card.py"
_STYLES = {"length": "prolixity", "distractors": "assertiveness"}


def link_of(probe: str, row: Mapping[str, object], judge: str, data_id: str) -> Preset:
    """The page for a probe.

    Args:
        probe: its name.
        row: the deciding row; empty where it was not asked.
        judge: spec of the judge that was checked.
        data_id: what it was checked on.
    """
    about = {state.JUDGE: judge} | ({} if data_id in pair_sets() else {state.DATA: data_id})
    arm = row.get("arm")
    if probe in ("order", "ties", *_STYLES):
        style = arm.partition(":")[0] if isinstance(arm, str) else _STYLES.get(probe, "assertiveness")
        query = about | {"protocols_part": "Whole set", STYLE: style}
        return Preset("Open in Protocols and leaderboard", PROTOCOLS, query)
    if probe == "keys" and row.get("protocol") != Protocol.POINTWISE.value:
        return Preset("Open in Reference swap", SWAP, {FIRST: judge} | about)
    if probe in ("injections", "keys", "empty", "consistency"):
        attack = {"injections": str(arm) if isinstance(arm, str) else "dsi", "consistency": "own"}.get(probe, "empty")
        query = about | {state.ATTACK: attack, state.DEFENSE: NONE, state.TAB: state.TAB_ONE}
        return Preset("Open in the Attack lab", LAB, query)
    if probe == "agreement" and data_id in pair_sets():
        return Preset("Open in Transport audit", AUDIT, {PAIRS: data_id, AUDIT_JUDGE: judge})
    if probe == "agreement":
        return Preset("Look at the responses in the Attack lab", LAB, about | {state.TAB: state.TAB_SET})
    return Preset("Look at the prompt in Judge card", CARD, about)
