"""Uses of a file of a known format: a data set, a set of pairs, a recorded judge."""

from __future__ import annotations

import math
from collections import Counter

import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import COMPARISONS, Order, Protocol
from engine.data.comparisons import ONE_TYPE, Comparisons, pairs_digest
from engine.data.dataset import MAX_NAME, Dataset, content_digest
from engine.data.formats.base import Imported
from engine.data.raw import Problem
from engine.data.recording_rules import LAYOUTS, Layout

_HALF = {"a": 1.0, "tie": 0.5, "b": 0.0}


def as_dataset(found: Imported, name: str = "") -> Dataset:
    """The responses with their items, to be judged one at a time.

    Raises:
        InputError: the file holds no texts.
    """
    responses = found.responses[found.responses["text"].notna()].reset_index(drop=True)
    if responses.empty:
        raise InputError(
            f"{found.name!r} holds verdicts without the texts they are about, so no judge can be asked. Give the files "
            "with the answers and questions too (--with FILE), or use it as a recorded judge."
        )
    items = found.items[found.items["item_id"].isin(set(responses["item_id"]))].reset_index(drop=True)
    problems = list(found.problems)
    if without := len(found.responses) - len(responses):
        what = f"{without:,} responses have no text and are not in the data set."
        problems.append(Problem("warning", "the file", what, "Give the files with their answers."))
    if items["context"].isna().all():
        what = "No item has a context; the judge sees each response alone."
        problems.append(Problem("warning", "the file", what, "Give the file with the questions."))
    title = " ".join((name or found.name).split())[:MAX_NAME]
    source = {**found.source, "n_records": found.n_records, "mapping": {}, "left_out": [], "known_format": found.format}
    return Dataset(content_digest(items, responses), title, found.task, items, responses, problems, source)


def as_comparisons(found: Imported, name: str = "") -> Comparisons:
    """The pairs, one for every two responses that were compared; several votes become the sign of their mean.

    Args:
        found: the import; verdicts of its judge come along where it has one judge.
        name: what the set is called.

    Raises:
        InputError: the file holds no pairs with texts.
    """
    if not len(found.comparisons):
        raise InputError(f"{found.name!r} ({found.format}) holds no pairs. It holds {found.counts()}.")
    votes: dict[tuple[str, str, str], list[tuple[str, str | None]]] = {}
    for row in _oriented(found.comparisons).itertuples():
        key = (str(row.item_id), str(row.response_a), str(row.response_b))
        votes.setdefault(key, []).append((str(row.comparison_id), row.human if isinstance(row.human, str) else None))
    verdicts = _verdicts_of(found)
    texts = dict(zip(found.responses["response_id"], found.responses["text"], strict=True))
    left_out: Counter[str] = Counter()
    rows: list[dict[str, object]] = []
    for (item, a, b), own in votes.items():
        if reason := _unfit(texts.get(a), texts.get(b)):
            left_out[reason] += len(own)
            continue
        rows.append(
            {
                "comparison_id": own[0][0],
                "item_id": item,
                "response_a": a,
                "response_b": b,
                "human": _majority([human for _, human in own]),
                **verdicts.get((a, b), {}),
            }
        )
    if not rows:
        raise InputError(f"{found.name!r} holds no pair that can be judged: {dict(left_out)}.")
    comparisons = COMPARISONS.conform(pd.DataFrame(rows))
    used = set(comparisons["response_a"]) | set(comparisons["response_b"])
    items = found.items[found.items["item_id"].isin(set(comparisons["item_id"]))].reset_index(drop=True)
    items = items.assign(context=items["context"].fillna(""), group=items["group"].fillna(ONE_TYPE))
    responses = found.responses[found.responses["response_id"].isin(used)].reset_index(drop=True)
    return Comparisons(
        pairs_digest([items, responses, comparisons]),
        name or found.name,
        items,
        responses,
        comparisons,
        dict(left_out),
        dict(found.labels),
    )


def _oriented(votes: pd.DataFrame) -> pd.DataFrame:
    """The votes with every pair under the names of whichever vote came first."""
    names: dict[tuple[str, str], tuple[str, str]] = {}
    firsts: list[str] = []
    seconds: list[str] = []
    sides: list[str | None] = []
    turned = {"a": "b", "b": "a"}
    for a, b, human in zip(votes["response_a"], votes["response_b"], votes["human"], strict=True):
        first, second = names.setdefault((min(a, b), max(a, b)), (a, b))
        side = human if isinstance(human, str) else None
        firsts.append(first)
        seconds.append(second)
        sides.append(side if first == a or side is None else turned.get(side, side))
    return votes.assign(response_a=firsts, response_b=seconds, human=pd.Series(sides, index=votes.index, dtype=object))


def _unfit(first: object, second: object) -> str:
    """Why a pair cannot be judged; empty where it can."""
    if not (isinstance(first, str) and isinstance(second, str)):
        return "no text"
    if not first.strip() or not second.strip():
        return "a response is blank"
    return "both responses are the same" if first == second else ""


def _majority(votes: list[str | None]) -> str | None:
    """Above one half a, below b, exactly one half a tie; None where nobody voted."""
    values = [_HALF[v] for v in votes if v is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return "tie" if mean == 0.5 else "a" if mean > 0.5 else "b"


def _verdicts_of(found: Imported) -> dict[tuple[str, str], dict[str, str | None]]:
    """Verdict columns by pair, under the names of `_oriented`; empty where several judges could be meant."""
    pairwise = found.verdicts[found.verdicts["protocol"] == Protocol.PAIRWISE.value]
    if pairwise["judge"].nunique() != 1:
        return {}
    out: dict[tuple[str, str], dict[str, str | None]] = {}
    turned = {"a": "b", "b": "a"}
    columns = (pairwise[name] for name in ("response_id", "response_b", "order", "outcome"))
    for a, b, order, outcome in zip(*columns, strict=True):
        side = outcome if isinstance(outcome, str) else None
        first = order != Order.BA.value
        out.setdefault((a, b), {})["verdict" if first else "verdict_ba"] = side
        out.setdefault((b, a), {})["verdict_ba" if first else "verdict"] = turned.get(side or "", side)
    # a tie of both orders together has no calls that say so
    for row in found.comparisons.itertuples():
        held = out.get((str(row.response_a), str(row.response_b)))
        if held and row.verdict == "tie" and not any(held.values()):
            held |= {"verdict": "tie", "verdict_ba": "tie"}
    return out


def as_recording(found: Imported) -> tuple[pd.DataFrame, Layout]:
    """The verdicts as a table of text in a layout of `recording_rules`, ready for a recorded judge.

    Raises:
        InputError: the file holds no verdicts, or verdicts of several kinds.
    """
    verdicts = found.verdicts
    if verdicts.empty:
        votes = int(found.comparisons["human"].notna().sum())
        instead = (
            " Its votes are people's preferences between two responses, not a judge's verdicts: use the file as pairs "
            "(judgescope study puaudit --data FILE, or the Data page); --format table reads its columns as they are."
        )
        raise InputError(
            f"{found.name!r} ({found.format}) holds no verdicts. It holds {found.counts()}.{instead if votes else ''}"
        )
    protocols = list(verdicts["protocol"].unique())
    if len(protocols) > 1:
        raise InputError(f"{found.name!r} holds verdicts of several kinds: {', '.join(protocols)}. Split the file.")
    common = {"judge": verdicts["judge"], "item_id": verdicts["item_id"]}
    told = {"unread_reason": verdicts["unread_reason"], "raw_text": verdicts["raw_text"]}
    passed = [found.origin.get(name, {}).get("pass") for name in verdicts["verdict_id"]]
    if any(isinstance(p, bool) for p in passed):
        words = [str(p).lower() if isinstance(p, bool) else None for p in passed]
        told["pass"] = pd.Series(words, index=verdicts.index, dtype=object)
    if protocols[0] == Protocol.POINTWISE.value:
        cells = {**common, "response_id": verdicts["response_id"], "score": _numbers(verdicts["score"]), **told}
        return _as_text(cells), LAYOUTS["pointwise"]
    if protocols[0] != Protocol.PAIRWISE.value:
        raise InputError(f"{found.name!r}: {protocols[0]} verdicts of a known format are not read yet.")
    pair = {
        **common,
        "response_a": verdicts["response_id"],
        "response_b": verdicts["response_b"],
        "order": verdicts["order"],
        "outcome": verdicts["outcome"],
        "p_a": _numbers(verdicts["p_a"]),
        "p_tie": _numbers(verdicts["p_tie"]),
        **told,
    }
    ordered = verdicts["order"].notna()
    if ordered.all():
        return _as_text(pair), LAYOUTS["pairwise"]
    if ordered.any():
        raise InputError(f"{found.name!r} says the order shown for some pairs only. Split the file.")
    del pair["order"]
    return _as_text(pair), LAYOUTS["pairwise-unordered"]


def _numbers(values: pd.Series) -> pd.Series:
    return values.map(lambda v: None if v is None or math.isnan(v) else repr(float(v))).astype(object)


def _as_text(cells: dict[str, pd.Series]) -> pd.DataFrame:
    return pd.DataFrame({name: column.astype("str") for name, column in cells.items()}).reset_index(drop=True)
