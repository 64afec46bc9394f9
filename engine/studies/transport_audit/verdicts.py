"""Phase 1 and 2 of paper 002 (algorithm 2): judge the pairs, attack the losing responses, judge again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pandas as pd

from engine.attacks.audit_styles import AUDIT_ATTACKS, audit_style
from engine.attacks.base import Attack
from engine.attacks.registry import make_attack
from engine.attacks.rewriting import Rewriter
from engine.core.errors import InputError
from engine.core.schema import NONE, VERDICTS, Order, Protocol, Task
from engine.data.comparisons import Comparisons
from engine.judges.base import Checkpoint, Cost, Judge, Request, verdict_table
from engine.judges.recorded import NOT_RECORDED, RecordedJudge
from engine.stats.agreement import combine_orders
from engine.studies.transport_audit.study import IN_DATA

STRICT = ("a", "b")


@dataclass(frozen=True)
class Judged:
    """One arm.

    Attributes:
        verdicts: table `verdicts`, both orders of every pair asked.
        side: comparison id -> side preferred; only pairs with a strict verdict.
        texts: comparison id -> text of side a and of side b as judged (with a first).
        left_out: reason -> pairs without a strict verdict.
    """

    attack: str
    verdicts: pd.DataFrame
    side: dict[str, str]
    texts: dict[str, tuple[str, str]]
    left_out: Counter[str]


def requests_of(data: Comparisons, limit: int | None = None) -> dict[str, Request]:
    """A pairwise request, its order open, for each pair, by comparison id."""
    items = data.items.set_index("item_id")["context"].to_dict()
    responses = data.responses.set_index("response_id")
    texts, systems = responses["text"].to_dict(), responses["system"].fillna("").to_dict()
    pairs = data.comparisons.iloc[:limit]
    columns = (pairs[name].astype(str) for name in ("comparison_id", "item_id", "response_a", "response_b"))
    return {
        pair: Request(
            item_id=item,
            response_id=a,
            task=Task.INSTRUCTION,
            context=items[item],
            response=texts[a],
            protocol=Protocol.PAIRWISE,
            response_b_id=b,
            response_b=texts[b],
            system=systems[a],
            system_b=systems[b],
        )
        for pair, item, a, b in zip(*columns, strict=True)
    }


def plan_pairs(judge: Judge, data: Comparisons, limit: int | None = None) -> Cost:
    """Cost of the clean arm; nobody is asked."""
    return judge.cost(clean_requests(data, limit))


def clean_requests(data: Comparisons, limit: int | None = None) -> list[Request]:
    """Both orders of every pair."""
    return [replace(r, order=order) for r in requests_of(data, limit).values() for order in Order]


def judge_pairs(judge: Judge, requests: dict[str, Request], checkpoint: Checkpoint) -> Judged:
    """The clean arm: both orders of every pair, averaged; orders that disagree are a tie and leave the audit."""
    asked = [replace(r, order=order) for r in requests.values() for order in Order]
    verdicts = verdict_table(judge, asked, judge.judge(asked, checkpoint))
    return _read(NONE, verdicts, requests, {c: (r.response, r.response_b) for c, r in requests.items()})


def judged_in_data(data: Comparisons, requests: dict[str, Request]) -> Judged:
    """The verdicts that came with the pairs; where only one order did, that one is the verdict.

    Raises:
        InputError: the pairs have none.
    """
    if not data.has_verdicts:
        raise InputError(
            f"The pairs {data.name!r} came without verdicts (no column verdict). Name a judge, or say which column "
            "holds them with --map verdict=COLUMN."
        )
    table = data.comparisons.set_index("comparison_id")
    rows = []
    for pair, request in requests.items():
        for order, column in ((Order.AB, "verdict"), (Order.BA, "verdict_ba")):
            label = table.loc[pair, column]
            if order is Order.BA and table["verdict_ba"].isna().all():
                continue
            known = isinstance(label, str)
            rows.append(
                {
                    "verdict_id": f"{pair}-{order}",
                    "judge": IN_DATA,
                    "protocol": Protocol.PAIRWISE.value,
                    "attack": NONE,
                    "defense": NONE,
                    "item_id": request.item_id,
                    "response_id": request.response_id,
                    "response_b": request.response_b_id,
                    "order": order.value,
                    "outcome": label if known else None,
                    "unread_reason": None if known else "no verdict recorded",
                }
            )
    texts = {c: (r.response, r.response_b) for c, r in requests.items()}
    return _read(NONE, VERDICTS.conform(pd.DataFrame(rows)), requests, texts)


def attack_and_judge(
    judge: Judge,
    clean: Judged,
    requests: dict[str, Request],
    attack: str,
    rewriter: Rewriter,
    *,
    emotion: str,
    seed: int,
    checkpoint: Checkpoint,
) -> tuple[Judged, list[dict[str, object]]]:
    """Attack the losing response of every pair with a strict clean verdict and ask the judge again.

    Returns:
        The attacked arm, and a row of the table `variants` for each rewritten response. A rewriting that lost
        content is not judged; its pair is left out and counted.

    Raises:
        InputError: unknown attack, or a recording without verdicts under it.
    """
    if attack not in AUDIT_ATTACKS:
        raise InputError(f"Unknown attack {attack!r}. Available: {', '.join((NONE, *AUDIT_ATTACKS))}.")
    losers = {pair: "b" if side == "a" else "a" for pair, side in clean.side.items()}
    asked, variants, lost = (
        _rewritten(requests, losers, attack, rewriter, emotion, seed)
        if AUDIT_ATTACKS[attack].rewrites
        else _distracted(requests, losers)
    )
    ordered = [r for pair in asked.values() for r in pair]
    verdicts = verdict_table(judge, ordered, judge.judge(ordered, checkpoint))
    if isinstance(judge, RecordedJudge) and (verdicts["unread_reason"] == NOT_RECORDED).all():
        raise InputError(f"{judge.spec} holds no verdicts under the attack {attack}. Leave the attack out.")
    kept = {pair: requests[pair] for pair in asked}
    texts = {pair: (ab.response, ab.response_b) for pair, (ab, _) in asked.items()}
    judged = _read(attack, verdicts, kept, texts)
    judged.left_out.update(lost)
    return judged, variants


Both = tuple[Request, Request]
"""The request with a first, and with b first."""


def _rewritten(
    requests: dict[str, Request], losers: dict[str, str], attack: str, rewriter: Rewriter, emotion: str, seed: int
) -> tuple[dict[str, Both], list[dict[str, object]], Counter[str]]:
    texts = [_side_text(requests[pair], side) for pair, side in losers.items()]
    made = rewriter.rewrite(texts, audit_style(attack, emotion), strength=1.0, seed=seed)
    asked: dict[str, Both] = {}
    variants: list[dict[str, object]] = []
    lost: Counter[str] = Counter()
    for (pair, side), old, new in zip(losers.items(), texts, made, strict=True):
        request, reasons = requests[pair], [*new.report.reasons, *(["unchanged"] if new.text == old else [])]
        variants.append(
            {
                "response_id": request.response_id if side == "a" else request.response_b_id,
                "item_id": request.item_id,
                "style": attack,
                "strength": 1.0,
                "rewriter": rewriter.name,
                "text": new.text,
                "kept": int(not reasons),
                "reasons": "; ".join(reasons) or None,
                "length_ratio": new.report.length_ratio,
            }
        )
        if reasons:
            lost[f"{attack}: content not kept"] += 1
        else:
            changed = replace(_with_side(request, side, new.text), attack=attack)
            asked[pair] = (replace(changed, order=Order.AB), replace(changed, order=Order.BA))
    return asked, variants, lost


def _distracted(
    requests: dict[str, Request], losers: dict[str, str]
) -> tuple[dict[str, Both], list[dict[str, object]], Counter[str]]:
    attack = make_attack("distraction")
    asked = {
        pair: (_append(requests[pair], side, attack, Order.AB), _append(requests[pair], side, attack, Order.BA))
        for pair, side in losers.items()
    }
    return asked, [], Counter()


def _append(request: Request, side: str, attack: Attack, order: Order) -> Request:
    """The paragraph names the slot in which the attacked side stands, so it is made anew for each order."""
    stands_first = (side == "a") == (order is Order.AB)
    as_first = replace(
        request, response=_side_text(request, side), order=Order.AB if stands_first else Order.BA, attack=attack.name
    )
    changed = _with_side(request, side, attack.apply(as_first))
    return replace(changed, order=order, attack=attack.name)


def _side_text(request: Request, side: str) -> str:
    return request.response if side == "a" else request.response_b


def _with_side(request: Request, side: str, text: str) -> Request:
    return replace(request, response=text) if side == "a" else replace(request, response_b=text)


def _read(
    attack: str, verdicts: pd.DataFrame, requests: dict[str, Request], texts: dict[str, tuple[str, str]]
) -> Judged:
    """The strict verdict of each pair, and why others have none."""
    one_order = verdicts["order"].nunique() == 1
    pairs = verdicts if one_order else combine_orders(verdicts)
    names = {(r.item_id, r.response_id, r.response_b_id): pair for pair, r in requests.items()}
    side: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    for row in pairs.to_dict("records"):
        pair = names[str(row["item_id"]), str(row["response_id"]), str(row["response_b"])]
        outcome, reason = row["outcome"], row["unread_reason"]
        if not one_order and row["disagree"] == 1:  # whatever their average prefers
            left_out["tie: the orders disagree"] += 1
        elif outcome in STRICT:
            side[pair] = str(outcome)
        else:
            left_out["tie" if outcome == "tie" else f"unread: {_short(reason)}"] += 1
    return Judged(attack, verdicts, side, texts, left_out)


def _short(reason: object) -> str:
    return str(reason).split(";")[0].removeprefix("order ab: ").removeprefix("order ba: ")
