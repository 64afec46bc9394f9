"""RewardBench 1 (one chosen and one rejected response) and 2 (lists of them)."""

from __future__ import annotations

import json

from engine.data.formats.base import Format, HubSet, Imported, RowError, Source
from engine.data.formats.building import Builder, Row, comparison_row, pair_rows
from engine.data.formats.writing import Lookup, decided_only, json_lines, need, number_or_text, rows_of
from engine.data.raw import MAX_ROWS
from engine.schema import Outcome, Task

A = Outcome.A.value


def _lists(source: Source) -> bool | None:
    """Whether chosen holds lists of responses (version 2) and not one response; None where rows differ.

    A response of version 1 may look like a list, so columns that only one version has decide first.
    """
    one, two = "chosen_model" in source.columns, bool({"num_correct", "total_completions"} & source.columns)
    if one != two:
        return two
    kinds = {_is_texts(cell) for cell in source.some("chosen", MAX_ROWS)}
    return None if len(kinds) == 2 else kinds == {True}


def _is_texts(cell: str) -> bool:
    if not cell.startswith("["):
        return False
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, list) and all(isinstance(t, str) for t in found)


_MIXED = "chosen holds lists in some rows and single responses in others: split versions 1 and 2"


def _against_1(source: Source) -> str:
    lists = _lists(source)
    return _MIXED if lists is None else "chosen holds lists, as in version 2" if lists else ""


def _against_2(source: Source) -> str:
    lists = _lists(source)
    return _MIXED if lists is None else "" if lists else "chosen holds single responses, as in version 1"


def read_rewardbench(source: Source, builder: Builder) -> None:
    """The chosen response is a, the rejected one b."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item = record.needed("id")
            texts = (record.text("chosen"), record.text("rejected"))
            models = (record.get("chosen_model"), record.get("rejected_model"))
            row, responses = pair_rows(item, record.needed("prompt"), record.get("subset"), texts, models)
            builder.add(record, [row], responses, [comparison_row(item, A)])
    builder.notes.append(
        "The chosen response is a everywhere: ask in both orders, or a judge that prefers a looks right."
    )


def write_rewardbench(found: Imported) -> bytes:
    """One pair with a preference a line."""
    need(found, "comparisons", "rewardbench")
    look = Lookup(found)
    out = []
    for row in rows_of(found.comparisons):
        item = str(row["item_id"])
        ids = dict(zip(("chosen", "rejected"), _better_first(row), strict=True))
        out.append(
            {
                "prompt": look.of_item(item, "context"),
                **{k: look.text(v) for k, v in ids.items()},
                **{f"{k}_model": (look.responses[v].get("system") or "") for k, v in ids.items()},
                "subset": look.of_item(item, "group"),
                "id": number_or_text(str(row["comparison_id"])),
            }
        )
    return json_lines(out)


def read_rewardbench2(source: Source, builder: Builder) -> None:
    """Every chosen response against every rejected one."""
    del source  # the records are the builder's
    for record in builder.records():
        with builder.row(record):
            item, texts = record.needed("id"), {}
            for column in ("chosen", "rejected"):
                texts[column] = record.json(column)
                if not isinstance(texts[column], list) or not all(isinstance(t, str) for t in texts[column]):
                    raise RowError(f"{column} is no list of texts.", "Version 2 writes lists.", column)
                if not texts[column]:
                    raise RowError(f"{column} is empty.", "Fill it in, or remove the row.", column)
            models = record.json("models") if "models" in record.cells else None
            flat = [*texts["chosen"], *texts["rejected"]]
            named = models if isinstance(models, list) and len(models) == len(flat) else [None] * len(flat)
            names = [f"{item}:{kind}{i}" for kind, column in (("c", "chosen"), ("r", "rejected"))
                     for i in range(1, len(texts[column]) + 1)]  # fmt: skip
            responses = [
                {"response_id": n, "item_id": item, "system": m, "text": t}
                for n, m, t in zip(names, named, flat, strict=True)
            ]
            good = len(texts["chosen"])
            pairs = [
                {"comparison_id": f"{item}:{i + 1}-{j + 1}", "item_id": item, "response_a": c, "response_b": r,
                 "human": A}
                for i, c in enumerate(names[:good])
                for j, r in enumerate(names[good:])
            ]  # fmt: skip
            context = {"item_id": item, "context": record.needed("prompt"), "group": record.get("subset") or None}
            builder.add(record, [context], responses, pairs)
    builder.notes.append(
        "Each chosen response is compared with each rejected one and is a everywhere: ask in both orders. Several "
        "chosen ones (subset Ties) are not compared with one another."
    )


def write_rewardbench2(found: Imported) -> bytes:
    """One item a line, with lists of chosen and rejected responses."""
    need(found, "comparisons", "rewardbench-2")
    look = Lookup(found)
    by_item: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in rows_of(found.comparisons):
        chosen, rejected = by_item.setdefault(str(row["item_id"]), ({}, {}))
        good, bad = _better_first(row)
        chosen[good] = rejected[bad] = None
    return json_lines(
        {
            "id": item,
            "prompt": look.of_item(item, "context"),
            "chosen": [look.text(r) for r in chosen],
            "rejected": [look.text(r) for r in rejected],
            "num_correct": len(chosen),
            "num_incorrect": len(rejected),
            "total_completions": len(chosen) + len(rejected),
            "models": [look.responses[r].get("system") for r in (*chosen, *rejected)],
            "subset": look.of_item(item, "group"),
        }
        for item, (chosen, rejected) in by_item.items()
    )


def _better_first(row: Row) -> tuple[str, str]:
    """The ids of a decided pair, the preferred response first."""
    a, b = str(row["response_a"]), str(row["response_b"])
    return (a, b) if row["human"] == A else (b, a)


def _no_place_2(found: Imported) -> list[str]:
    """Ties, further votes, and pairs of items that are not every chosen against every rejected response."""
    reasons, rows = decided_only(found), rows_of(found.comparisons)
    pairs: dict[str, set[tuple[str, str]]] = {}
    for i, row in enumerate(rows):
        if not reasons[i]:
            held = pairs.setdefault(str(row["item_id"]), set())
            reasons[i] = "a further vote on its pair" if _better_first(row) in held else ""
            held.add(_better_first(row))
    uneven = {item for item, held in pairs.items() if not _crossed(held)}
    return [
        reason or ("its item lacks some chosen against some rejected response" if row["item_id"] in uneven else "")
        for reason, row in zip(reasons, rows, strict=True)
    ]


def _crossed(pairs: set[tuple[str, str]]) -> bool:
    chosen, rejected = {a for a, _ in pairs}, {b for _, b in pairs}
    return not chosen & rejected and len(pairs) == len(chosen) * len(rejected)


REWARDBENCH = (
    Format(
        "rewardbench",
        "RewardBench",
        "Pairs of a chosen and a rejected response.",
        (("id", "prompt", "chosen", "rejected"),),
        read_rewardbench,
        Task.INSTRUCTION.value,
        write_rewardbench,
        _against_1,
        telling=("prompt", "chosen", "rejected", "chosen_model", "rejected_model", "subset"),
        hub=(HubSet("allenai/reward-bench", ("filtered", "raw")),),
        no_place=decided_only,
    ),
    Format(
        "rewardbench-2",
        "RewardBench 2",
        "Lists of chosen and rejected responses.",
        (("id", "prompt", "chosen", "rejected"),),
        read_rewardbench2,
        Task.INSTRUCTION.value,
        write_rewardbench2,
        _against_2,
        telling=("prompt", "chosen", "rejected", "num_correct", "total_completions", "subset"),
        hub=(HubSet("allenai/reward-bench-2", ("test",)),),
        no_place=_no_place_2,
    ),
)
