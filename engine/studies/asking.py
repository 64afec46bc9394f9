"""A run's calls word for word, and the same calls asked of a judge anew, without the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from engine.attacks.registry import make_attack
from engine.core.errors import InputError, shown
from engine.core.schema import ITEMS, NONE, RESPONSES, Order, Protocol, Task
from engine.core.settings import Settings
from engine.data.comparisons import load_comparisons
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.registry import defend
from engine.defenses.writing import TUTOR
from engine.judges.base import Checkpoint, Judge, Request, no_checkpoint, verdict_id, verdict_table
from engine.judges.cards import Card
from engine.judges.registry import make_judge
from engine.runs.drift import Answers
from engine.runs.folder import versions
from engine.studies.anchors import sources_for
from engine.studies.running import about_judge, build_requests, offset, with_attack

_ASKABLE = (Protocol.POINTWISE.value, Protocol.PAIRWISE.value, Protocol.VERIFIER.value)
_FIELDS = (
    "item_id", "response_id", "task", "context", "response", "reference", "protocol", "response_b_id", "response_b",
    "order", "variant", "attack", "defense",
)  # fmt: skip


def calls_word_for_word(
    manifest: Mapping[str, Any], verdicts: pd.DataFrame, items: Collection[str], settings: Settings
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What a run asked about some items, as records for a frozen set.

    Returns:
        One record a call with its `verdict_id`, and reason -> calls whose words cannot be made again.
    """
    own = verdicts[verdicts["item_id"].astype(str).isin(list(items))].drop_duplicates("verdict_id")
    try:
        texts = _texts(manifest, settings)
    except InputError as error:
        return [], {f"the data are not on this machine ({error})": len(own)}
    attack_text = str(manifest.get("config", {}).get("own_text") or "")
    made: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    for row in own.to_dict("records"):
        try:
            request = _request(row, texts, attack_text)
        except InputError as error:
            left_out[str(error)] += 1
            continue
        if verdict_id(request) != row["verdict_id"]:
            left_out["its study asks in a way of its own"] += 1
            continue
        record = {name: getattr(request, name) for name in _FIELDS}
        made.append({"verdict_id": row["verdict_id"], **{name: value for name, value in record.items() if value}})
    return made, dict(left_out)


def _texts(manifest: Mapping[str, Any], settings: Settings) -> dict[str, Request]:
    """A plain request for each response of the run's data."""
    name = str(manifest.get("data", {}).get("dataset_id") or manifest.get("config", {}).get("data") or "")
    if not name:
        raise InputError("its verdicts came without texts")
    try:
        data: Any = load_dataset(name, settings.datasets)
    except InputError:
        data = load_comparisons(name, settings.comparisons)
        if not data.has_texts:
            raise InputError("its verdicts came without texts") from None
    return {r.response_id: r for r in build_requests(data)}


def _request(row: Mapping[Any, Any], texts: Mapping[str, Request], attack_text: str) -> Request:
    """The request behind a row of the table `verdicts`.

    Raises:
        InputError: its words are not known.
    """
    protocol, attack, other = str(row["protocol"]), str(row["attack"]), row["response_b"]
    if protocol not in _ASKABLE or isinstance(row["reference_id"], str):
        raise InputError("its study asks in a way of its own")
    plain = texts.get(str(row["response_id"]))
    if plain is None or plain.item_id != row["item_id"]:
        raise InputError("its response is not in the data")
    request = replace(plain, protocol=Protocol(protocol), defense=str(row["defense"]))
    if isinstance(row["variant"], str):
        request = replace(request, variant=row["variant"])
    if protocol == Protocol.PAIRWISE:
        second = texts.get(str(other))
        if second is None or attack != NONE or not isinstance(row["order"], str):
            raise InputError("its study asks in a way of its own")
        request = replace(
            request, response_b_id=second.response_id, response_b=second.response, order=Order(row["order"])
        )
    return with_attack(request, make_attack(attack, attack_text)) if attack != NONE else request


def ask_again(
    base: Answers,
    settings: Settings,
    *,
    spec: str = "",
    times: int = 1,
    card: Path | Card | None = None,
    checkpoint: Checkpoint = no_checkpoint,
) -> tuple[Answers, dict[str, int]]:
    """The frozen calls asked of a judge now, each time without the cache.

    Args:
        base: a frozen set with its calls word for word.
        settings: folders, device, limits.
        spec: the judge; by default the frozen one's.
        times: askings; all but the first give the retest noise.
        card: a judge card in place of the judge's prompts.
        checkpoint: told the progress.

    Returns:
        The new answers, and reason -> calls that could not be asked.

    Raises:
        InputError: no words to ask, or no such judge.
    """
    if not base.requests:
        raise InputError(
            f"{base.name} holds verdicts without their prompts, so nothing can be asked again. Give the new verdicts "
            "as a run or a recording, or freeze a run whose data are on this machine."
        )
    if times < 1:
        raise InputError(f"{times} askings: ask at least once.")
    frozen_judge = base.manifest.get("judge", {})
    judge = make_judge(spec or str(frozen_judge.get("spec", "")), settings, card=card, cache=False)
    requests = [_from_record(record) for record in base.requests]
    arms: dict[str, list[Request]] = {}
    for request in requests:
        arms.setdefault(request.defense, []).append(request)
    tutor = str(base.manifest.get("config", {}).get("tutor") or TUTOR)
    left_out: Counter[str] = Counter()
    rounds: list[list[pd.DataFrame]] = [[] for _ in range(times)]
    done = 0
    for defense, own in arms.items():
        try:
            defended = _defended(judge, defense, own, settings, tutor)
            for k in range(times):
                verdicts = defended.judge(own, offset(checkpoint, done, times * len(requests)))
                rounds[k].append(verdict_table(defended, own, verdicts))
                done += len(own)
        except InputError as error:
            left_out[f"{defense}: {error}" if defense != NONE else str(error)] += len(own)
    tables = [pd.concat(parts, ignore_index=True) for parts in rounds if parts]
    if not tables:
        raise InputError(f"No frozen call could be asked: {'; '.join(left_out)}")
    about = {**base.manifest, "judge": about_judge(judge, judge.labels(requests[0]), requests), "versions": versions()}
    return Answers(f"{judge.spec}, asked now", about, tables[0], tuple(tables[1:]), base.requests), dict(left_out)


def _defended(judge: Judge, defense: str, own: Sequence[Request], settings: Settings, tutor: str) -> Judge:
    if defense == NONE:
        return judge
    return defend(judge, defense, sources=sources_for([defense], _as_dataset(own), settings, tutor))


def _as_dataset(requests: Sequence[Request]) -> Dataset:
    """The frozen items and responses as a data set, for defenses that look at the other responses of an item."""
    items = {r.item_id: {"item_id": r.item_id, "task": r.task.value, "context": r.context} for r in requests}
    clean = {r.response_id: r for r in requests if r.attack == NONE}
    responses = [{"response_id": r.response_id, "item_id": r.item_id, "text": r.response} for r in clean.values()]
    return Dataset(
        dataset_id="frozen", name="frozen set", task=requests[0].task,
        items=ITEMS.conform(pd.DataFrame(list(items.values()))), responses=RESPONSES.conform(pd.DataFrame(responses)),
    )  # fmt: skip


def _from_record(record: Mapping[str, Any]) -> Request:
    """A request from a frozen set.

    Raises:
        InputError: a value that no request has.
    """
    try:
        given = {name: str(record[name]) for name in _FIELDS if record.get(name)}
        order = Order(given.pop("order")) if "order" in given else None
        task, protocol = Task(given.pop("task")), Protocol(given.pop("protocol"))
        texts = {name: given.get(name, "") for name in ("context", "response", "item_id", "response_id")}
        plain: dict[str, Any] = {**given, **texts}
        return Request(**plain, task=task, protocol=protocol, order=order)
    except ValueError as error:
        raise InputError(f"A call of the frozen set cannot be read: {shown(error)}. Freeze the run again.") from None


def groups_of(manifest: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Item to its group, of the run's data; empty where the data are not on this machine."""
    name = str(manifest.get("data", {}).get("dataset_id") or "")
    try:
        data: Any = load_dataset(name, settings.datasets)
    except InputError:
        try:
            data = load_comparisons(name, settings.comparisons)
        except InputError:
            return {}
    known = data.items[data.items["group"].notna()]
    return dict(zip(known["item_id"].astype(str), known["group"].astype(str), strict=True))
