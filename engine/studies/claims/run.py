"""The runs that claims are decided from: which they are, what they cost, and the verdicts after each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel

from engine.core.errors import Cancelled, EngineError, InputError
from engine.core.schema import Protocol
from engine.judges.base import Checkpoint
from engine.judges.registry import judges_for
from engine.runs.folder import RunFolder, now
from engine.studies.claims.metrics import Estimate, decide, estimate, row_of
from engine.studies.claims.study import RECORDED, Claim, ClaimsConfig, SubRun, Where
from engine.studies.registry import settings_of, study_named
from engine.studies.running import ending, within
from engine.studies.study import Context, Study

NO_JUDGE = "none"
"""In the column judge of a claim for which nobody is asked."""
_ASKED = {
    "scorer": {Protocol.POINTWISE, Protocol.PAIRWISE},
    "pairwise": {Protocol.PAIRWISE},
    "live-pairwise": {Protocol.PAIRWISE},
    "verifier": {Protocol.VERIFIER},
}
"""Protocols of which a judge must know one."""
_STEPS = 1000


@dataclass(frozen=True)
class Part:
    """One run that claims read.

    Attributes:
        name: in the frozen runs.
        on: the frozen name of its data set.
        data: id of the data; empty for a study without.
        judge: spec; empty where nobody is asked.
    """

    name: str
    on: str
    data: str
    judge: str

    def key(self, config: ClaimsConfig) -> tuple[str, str, str, str]:
        """Equal for parts that are the same run: data that stand for two sets are run once."""
        return self.name, json.dumps(settings_for(self, config), sort_keys=True), self.data, self.judge


def settings_for(part: Part, config: ClaimsConfig) -> dict[str, Any]:
    """The settings of a part, the frozen ones last."""
    frozen: SubRun = config.runs[part.name]
    fields = study_named(frozen.study).config.model_fields
    given: dict[str, Any] = {"seed": config.seed, "level": config.level, "limit": config.limit}
    given = {name: value for name, value in given.items() if name in fields and value is not None}
    given |= config.settings.get(part.name, {}) | frozen.settings | frozen.on.get(part.on, {})
    if config.shipped and "encoders" in fields:
        given["encoders"] = [f"given:{config.shipped}"]  # the texts do not ship, their vectors by the same encoder do
    elif not config.data and not config.shipped:
        given |= frozen.demo
    if part.judge.startswith(RECORDED) and "attacks" in fields:
        given["attacks"] = []  # nobody can be asked about an attacked text
    held = {"judge": part.judge, "data": part.data}
    return given | {name: value for name, value in held.items() if value and name in fields}


def where_of(claim: Claim, config: ClaimsConfig) -> list[Where]:
    """The addresses of all rows a claim reads."""
    if config.judge.startswith(RECORDED) and claim.recorded:
        return [claim.recorded]
    return [where for where in (claim.read, claim.less, claim.over) if where is not None]


def part_of(claim: Claim, where: Where, on: str, config: ClaimsConfig) -> Part:
    """The run in which a row stands."""
    name = str(where.get("run") or claim.run)
    study = study_named(config.runs[name].study)
    judge = "" if claim.judges == "none" else str(where.get("judge") or config.judge)
    data = config.data_of(claim, study.inputs).get(on, "") if "data" in study.config.model_fields else ""
    return Part(name, on, data, judge if "judge" in study.config.model_fields else "")


def asked_of(config: ClaimsConfig) -> Iterator[tuple[Claim, str]]:
    """Every claim that this judge can be asked about, with each set it is decided on."""
    spec = config.judge
    known = {p for p in Protocol if spec.partition("?")[0] in judges_for(p) or spec in judges_for(p)}
    for claim in config.wanted:
        needed = _ASKED.get(claim.judges, set())
        if spec.startswith(RECORDED) and claim.judges != "pairwise":
            continue
        if needed and known and not needed & known:
            continue
        if any(where.get("judge") == spec for where in where_of(claim, config)):
            continue  # a judge beside itself
        study = study_named(config.runs[str(where_of(claim, config)[0].get("run") or claim.run)].study)
        own = config.data_of(claim, study.inputs)
        sets = own if config.shipped or "data" in study.config.model_fields else claim.data
        for on in sets:
            if not config.data or on in config.data:
                yield claim, on


def parts_of(config: ClaimsConfig) -> list[Part]:
    """Every run that is needed, each once."""
    found: dict[Any, Part] = {}
    for claim, on in asked_of(config):
        for where in where_of(claim, config):
            part = part_of(claim, where, on, config)
            found.setdefault(part.key(config), part)
    return list(found.values())


# Running.


def run_claims(config: ClaimsConfig, context: Context, folder: RunFolder) -> None:
    """Run what is not there yet, one study after the other; the table is written anew after each.

    A run that cannot be made (the judge cannot be asked so, or the data do not fit) leaves its claims undecided with
    the reason.

    Raises:
        InputError: the judge or the data fit no claim.
        Cancelled: from the checkpoint; finished runs are kept and the same run id goes on behind them.
    """
    parts = parts_of(config)
    if not parts:
        sets = ", ".join(config.data) or "the bundled ones"
        raise InputError(f"No claim can be put to {config.judge} on the data {sets}. Choose other claims or data.")
    folder.update_manifest(data={"name": _named(config), "dataset_id": "", "n_items": 0, "n_responses": 0},
                           judge={"spec": config.judge, "labels": []})  # fmt: skip
    checkpoint = within(config.budget_seconds, context.checkpoint)
    shared = replace(context, opener=context.data)
    runs: dict[Any, RunFolder | str] = {}
    with ending(folder, lambda: folder.update_manifest(state="stopped", finished=now())):
        for i, part in enumerate(parts):
            looked = replace(shared, checkpoint=_step(checkpoint, i, len(parts)))
            runs[part.key(config)] = _run_part(part, config, looked, folder)
            folder.write_table("claims", decided(config, runs))
            folder.update_manifest(parts={part_id(p, folder): _state(runs.get(p.key(config))) for p in parts})
    devices = [d for run in runs.values() if isinstance(run, RunFolder) and (d := _device(run))]
    judge = {"spec": config.judge, "labels": [], "device": devices[0] if devices else "no model"}
    folder.update_manifest(state="done", finished=now(), judge=judge)


def _named(config: ClaimsConfig) -> str:
    return ", ".join(config.data) or config.shipped or "bundled demo data"


def _step(checkpoint: Checkpoint, i: int, of: int) -> Checkpoint:
    """Progress of one part among all."""

    def look(done: int, total: int) -> None:
        share = done / total if total else 1.0
        checkpoint(min(int(_STEPS * (i + share)), _STEPS * of - 1), _STEPS * of)

    return look


def part_id(part: Part, folder: RunFolder) -> str:
    """Name of a part's run: that of the run it belongs to, with the part behind it."""
    spec = hashlib.sha256(part.judge.encode()).hexdigest()[:6]
    name = f"{folder.run_id}-{part.name}-{part.on}-{spec}"
    return name if len(name) <= 80 else f"claims-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _run_part(part: Part, config: ClaimsConfig, context: Context, folder: RunFolder) -> RunFolder | str:
    """The finished run of a part, found or made; why there is none otherwise."""
    study = study_named(config.runs[part.name].study)
    try:
        own = study.prepare(settings_of(study.config, settings_for(part, config), f"The run {part.name}"), context)
        roots = [folder.path.parent / part_id(part, folder)]
        if config.source:
            roots += sorted(path.parent for path in Path(config.source).glob("*/manifest.json"))
        for path in roots:
            if found := _finished(path, study, own):
                return found
        return _made(study, own.model_copy(update={"run_id": part_id(part, folder)}), context, folder.path.parent)
    except Cancelled:
        raise
    except EngineError as error:
        return str(error)


def _made(study: Study, own: BaseModel, context: Context, root: Path) -> RunFolder:
    run = study.begin(own, root)
    try:
        with ending(run):
            study.run(own, context, run)
    except InputError:
        run.discard_if_bare()
        raise
    finally:
        run.release()
    return run


def _finished(path: Path, study: Study, own: BaseModel) -> RunFolder | None:
    """The run in a folder if it is a finished one of this study with these settings."""
    run = RunFolder(path)
    try:
        manifest = run.manifest()
    except EngineError:
        return None
    named = manifest.get("kind") or manifest.get("study")
    if manifest.get("state") != "done" or named not in {study.kind, *study.names}:
        return None
    free = {"run_id", "budget_seconds", *study.free}
    held, wanted = (json.loads(json.dumps(c, default=str)) for c in (manifest.get("config") or {}, study.stored(own)))
    return run if all(held.get(name) == value for name, value in wanted.items() if name not in free) else None


def _state(run: RunFolder | str | None) -> str:
    return "not run yet" if run is None else "done" if isinstance(run, RunFolder) else run


def _device(run: RunFolder) -> str:
    return str((run.manifest().get("judge") or {}).get("device") or "")


def decided(config: ClaimsConfig, runs: dict[Any, RunFolder | str]) -> pd.DataFrame:
    """The table `claims`, from the runs that are there.

    Args:
        config: the study.
        runs: by `Part.key`, a finished run or why there is none.
    """
    cache: dict[tuple[str, str], pd.DataFrame] = {}
    rows = []
    for claim, on in asked_of(config):
        parts = [part_of(claim, where, on, config) for where in where_of(claim, config)]
        held = [runs.get(part.key(config), "not run yet") for part in parts]
        missing = next((run for run in held if isinstance(run, str)), "")
        about: dict[str, Any] = {"data": parts[0].data or parts[0].on}
        if missing:
            found = Estimate(reason=missing)
        else:
            found = estimate(claim, _tables(claim, on, config, runs, cache), config.judge.startswith(RECORDED))
            first = held[0]
            assert isinstance(first, RunFolder)
            about |= {"run": first.run_id, "device": _device(first)}
        judge = NO_JUDGE if claim.judges == "none" else config.judge
        rows.append(row_of(claim, on, judge, found, **about))
    return decide(pd.DataFrame(rows), config)


def _tables(
    claim: Claim, on: str, config: ClaimsConfig, runs: dict[Any, RunFolder | str], cache: dict[Any, pd.DataFrame]
) -> Callable[[Where], Callable[[str], pd.DataFrame]]:
    def of(where: Where) -> Callable[[str], pd.DataFrame]:
        run = runs[part_of(claim, where, on, config).key(config)]
        assert isinstance(run, RunFolder)
        folder = run

        def table(name: str) -> pd.DataFrame:
            key = (folder.run_id, name)
            if key not in cache:
                cache[key] = folder.table(name)
            return cache[key]

        return table

    return of


# Cost beforehand.


def plan_claims(config: ClaimsConfig, context: Context) -> tuple[dict[str, Any], str]:
    """The plans of all runs that are not finished: the JSON object, and the same in words.

    Raises:
        InputError: no claim fits the judge and the data.
    """
    parts = parts_of(config)
    if not parts:
        raise InputError(f"No claim can be put to {config.judge} on these data. Choose other claims or data.")
    shared, lines, plans = replace(context, opener=context.data), [], []
    for part in parts:
        study = study_named(config.runs[part.name].study)
        try:
            own = study.prepare(settings_of(study.config, settings_for(part, config), f"The run {part.name}"), shared)
            plan, words = study.plan(own, shared)
        except EngineError as error:
            plan, words = {}, str(error)
        plans.append({"run": part.name, "set": part.on, "judge": part.judge, "study": study.names[0], **plan})
        lines.append(f"{part.name} on {part.on}: {words.splitlines()[0] if words else ''}")
    calls, tokens = (int(sum(p.get(name) or 0 for p in plans)) for name in ("calls", "tokens"))
    n = len({claim.id for claim, _ in asked_of(config)})
    head = f"{n} claims from {len(parts)} runs: at least {calls:,} calls of {tokens:,} tokens that are not known yet."
    return {"dry_run": True, "runs": plans, "claims": n, "calls": calls, "tokens": tokens}, "\n".join([head, *lines])
