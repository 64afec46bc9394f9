"""Third part of the study `cap`: anchors, and judging under every attack and defense."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.attacks.registry import make_attack, parse_attack
from engine.data.dataset import Dataset
from engine.defenses.anchor_sources import PROMPTED, PromptedAnchors
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.defenses.guard import Guard, reasons
from engine.defenses.names import parse_defense
from engine.defenses.reasoning import ReasoningJudge
from engine.defenses.registry import defend
from engine.judges.base import Judge, Request, verdict_table
from engine.schema import NONE
from engine.settings import Settings
from engine.steering.references import Chosen
from engine.steering.vectors import Side, Standards
from engine.studies.anchoring import sources_for
from engine.studies.cap_config import (
    ANCHORED,
    CAP,
    COT,
    EXCHANGED,
    HUMAN,
    CapConfig,
    Contexts,
    Progress,
    base_of,
    with_text,
)  # fmt: skip
from engine.studies.cap_sweep import SIDES, steered_texts
from engine.studies.cap_tutor import Tutor, TutorWriter
from engine.studies.requests import with_attack


@dataclass(frozen=True)
class AnchorSets:
    """Anchors of every anchored arm.

    Attributes:
        by_item: arm to anchors by item; what they cost is in them.
        by_response: the human-rated arm's, which leave out the judged response.
        table: `cap_anchors`.
    """

    by_item: Mapping[str, Mapping[str, Anchors]]
    by_response: Mapping[str, Mapping[str, Anchors]]
    table: pd.DataFrame


def make_anchors(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    chosen: Mapping[Side, Chosen],
    settings: Settings,
    progress: Progress,
) -> AnchorSets:
    """Anchors for every context, with the undefended judge's score of each text alone."""
    by_item: dict[str, dict[str, Anchors]] = {}
    by_response: dict[str, Mapping[str, Anchors]] = {}
    writer = TutorWriter(tutor)
    for arm in (a for a in config.defenses if a in PROMPTED):
        prompted = PromptedAnchors(arm, writer, PROMPTED[arm])
        found = prompted.anchors(contexts.every, progress.part(2 * len(contexts.every)))
        by_item[arm] = {r.item_id: a for r, a in zip(contexts.every, found, strict=True)}
    if CAP in config.defenses:
        by_item[CAP] = _steered(config, contexts, tutor, judge, standards, chosen, progress)
    if HUMAN in config.defenses:
        source = sources_for([HUMAN], dataset, settings)[HUMAN]
        found = source.anchors(contexts.responses)
        by_response[HUMAN] = {r.response_id: a for r, a in zip(contexts.responses, found, strict=True)}
    table = _anchor_table(by_item, contexts, judge, chosen, progress)
    return AnchorSets(by_item, by_response, table)


def _steered(
    config: CapConfig,
    contexts: Contexts,
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    chosen: Mapping[Side, Chosen],
    progress: Progress,
) -> dict[str, Anchors]:
    rows = [(r, side, chosen[side].alpha) for r in contexts.every for side in SIDES]
    drafts = steered_texts(tutor, judge, standards, rows, config, progress.part(len(rows)))
    out = {}
    for k, request in enumerate(contexts.every):
        high, low = drafts[2 * k], drafts[2 * k + 1]
        empty = [side for side, draft in zip(SIDES, (high, low), strict=True) if not draft.text]
        out[request.item_id] = Anchors(
            low=low.text,
            high=high.text,
            tokens=high.tokens + low.tokens,
            seconds=high.seconds + low.seconds,
            unread=f"cap: the tutor wrote no {empty[0]} anchor" if empty else "",
        )
    return out


def _anchor_table(
    by_item: Mapping[str, Mapping[str, Anchors]],
    contexts: Contexts,
    judge: Judge,
    chosen: Mapping[Side, Chosen],
    progress: Progress,
) -> pd.DataFrame:
    rows = [
        {
            "arm": arm,
            "item_id": request.item_id,
            "side": side,
            "text": getattr(anchors[request.item_id], side),
            "alpha": chosen[side].alpha if arm == CAP else np.nan,
            "tokens": anchors[request.item_id].tokens // 2,
        }
        for arm, anchors in by_item.items()
        for request in contexts.every
        for side in SIDES
    ]
    first = {r.item_id: r for r in contexts.every}
    asked = [k for k, row in enumerate(rows) if row["text"]]
    requests = with_text([first[str(row["item_id"])] for row in rows], [str(row["text"]) for row in rows])
    verdicts = dict(zip(asked, judge.judge([requests[k] for k in asked], progress.part(len(rows))), strict=True))
    for k, row in enumerate(rows):
        row["score"] = verdicts[k].score if k in verdicts else np.nan
    return pd.DataFrame(rows, columns=["arm", "item_id", "side", "text", "score", "alpha", "tokens"])


@dataclass(frozen=True)
class Arms:
    """The judge behind each defense, and who helps it.

    Attributes:
        judges: by arm, the controls with exchanged anchors last.
        writer: writes the reasoning for a judge that cannot; None where nobody must.
        guard: reads perplexities.
    """

    judges: Mapping[str, Judge]
    writer: TutorWriter | None
    guard: Guard


def reasoner_of(config: CapConfig, judge: Judge, base: Callable[[], Tutor]) -> TutorWriter | None:
    """What writes the chain of thought: the bundled base model for a judge that cannot, whatever the tutor.

    Args:
        config: whether there is such an arm at all.
        judge: undefended.
        base: gives the bundled base model; called where it is needed only.
    """
    asked = any(base_of(name) == COT for name in config.defenses)
    return TutorWriter(base()) if asked and not reasons(judge) else None


def arms_of(config: CapConfig, judge: Judge, anchors: AnchorSets, writer: TutorWriter | None, guard: Guard) -> Arms:
    """The judge behind each defense of the study.

    Args:
        config: names the defenses.
        judge: undefended.
        anchors: of the anchored arms.
        writer: from `reasoner_of`.
        guard: from `engine.studies.cap_screen.guard_of`.
    """
    found: dict[str, Judge] = {}
    for name in config.defenses:
        if name in ANCHORED:
            found[name] = AnchoredJudge(judge, name, _given(name, anchors))
        elif base_of(name) == COT:
            found[name] = ReasoningJudge(judge, name, writer, int(parse_defense(name).dials["tokens"]))
        else:
            found[name] = defend(judge, name, guard)
    for name in (n for n in config.defenses if n in ANCHORED):
        found[name + EXCHANGED] = AnchoredJudge(judge, name + EXCHANGED, _given(name, anchors, exchanged=True))
    return Arms(found, writer, guard)


def _given(name: str, anchors: AnchorSets, *, exchanged: bool = False) -> GivenAnchors:
    def turned(sets: Mapping[str, Anchors]) -> dict[str, Anchors]:
        swap = {k: a._replace(low=a.high, high=a.low) if exchanged else a for k, a in sets.items()}
        return {k: a._replace(tokens=0, passes=0.0, seconds=0.0) for k, a in swap.items()}

    return GivenAnchors(name, turned(anchors.by_item.get(name, {})), turned(anchors.by_response.get(name, {})))


def judge_arms(
    config: CapConfig, responses: Sequence[Request], judges: Mapping[str, Judge], progress: Progress
) -> Iterator[pd.DataFrame]:
    """Verdicts of all defenses so far, after each of them."""
    tables: list[pd.DataFrame] = []
    for name, asked in asked_by_arm(config, responses, judges):
        verdicts = judges[name].judge(asked, progress.part(len(asked)))
        tables.append(verdict_table(judges[name], [replace(r, defense=name) for r in asked], verdicts))
        yield pd.concat(tables, ignore_index=True)


def asked_by_arm(
    config: CapConfig, responses: Sequence[Request], names: Iterable[str]
) -> Iterator[tuple[str, list[Request]]]:
    """What each arm is asked.

    Suffixes of other lengths are judged undefended and behind CAP only (figures 6 and 7), exchanged anchors on clean
    responses only.
    """
    main = list(dict.fromkeys((NONE, *(parse_attack(name).name for name in config.attacks))))
    lengths = [parse_attack(f"suffix:{n}").name for n in config.suffix_words] if "suffix" in config.attacks else []
    for name in names:
        if name.endswith(EXCHANGED):
            attacks = [NONE]
        else:
            attacks = [*main, *(a for a in lengths if a not in main and name in (NONE, CAP))]
        yield name, [with_attack(r, make_attack(a)) for r in responses for a in attacks]
