"""Study `checkup`: every probe on one judge and one set of data, each held against a threshold; and its summary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from engine.attacks.cards import parse_attack
from engine.attacks.master_keys import checked_keys
from engine.core.errors import INCONCLUSIVE, OK, THRESHOLD_FAILED, InputError
from engine.core.gate import FAILED, PASSED, UNKNOWN, Check
from engine.judges.base import Checkpoint, Judge, Request
from engine.judges.cards import Card
from engine.runs.folder import RunFolder, now
from engine.stats.intervals import with_ends
from engine.studies.checkup.material import STYLES, WORDIER, Material, Subject, make_subject, with_cards
from engine.studies.checkup.metrics import (
    FAILS,
    HOLDS,
    NOT_ASKED,
    UNDERPOWERED,
    Decision,
    as_record,
    decide,
    interval_words,
    summary,
)
from engine.studies.checkup.probes import (
    PARAPHRASE,
    REVERSAL,
    Agreement,
    Consistency,
    Empty,
    Injections,
    MasterKeys,
    OrderBias,
    Probe,
    Rewritings,
    Ties,
    Wording,
    rows_of,
)
from engine.studies.checkup.readings import Readings
from engine.studies.checkup.study import CHECKUP, CheckupConfig
from engine.studies.running import (
    WAVES,
    KeptJudge,
    Plan,
    VerdictLog,
    about_data,
    about_judge,
    ending,
    in_flight,
    keeping,
    make_plan,
    within,
)
from engine.studies.study import Summary

CALLS_PER_CHUNK = 96
"""Judge calls between two looks at the results, at least: every probe of a few items, asked together."""


def run_checkup(
    config: CheckupConfig, material: Material, judge: Judge, run: RunFolder, checkpoint: Checkpoint
) -> list[Decision]:
    """Ask every probe's questions item by item, writing partial tables; returns the verdicts.

    Raises:
        InputError: an unknown probe, attack or key, or the judge can be asked nothing of these data.
        Cancelled: from the checkpoint; what is done is kept and the run is marked stopped.
    """
    probes = probes_of(config)
    subject = make_subject(judge, material, config.size)
    checkpoint = within(config.budget_seconds, checkpoint)
    answering = with_cards(judge, _cards(probes, subject))
    requests = _requests(probes, subject)
    _describe(run, material, answering, subject, requests)
    run.update_manifest(judge=run.manifest()["judge"] | {"fingerprint": judge.fingerprint})
    known = keeping(judge, run)
    if isinstance(known, KeptJudge):  # a retry: what was read under the reworded cards is kept, too
        answering = KeptJudge(answering, run.table("verdicts"))
    session = _Session(config, probes, subject, run, known)
    with ending(run, lambda: session.finish("stopped")):
        done = 0
        for chunk in _chunks(requests, subject.items, max(CALLS_PER_CHUNK, WAVES * in_flight(judge))):

            def progress(part: int, _: int, before: int = done) -> None:
                checkpoint(before + part, len(requests))

            session.log.add(judge, chunk, answering.judge(chunk, progress))
            session.log.write_when_due()
            done += len(chunk)
    return session.finish("done")


def plan_checkup(config: CheckupConfig, material: Material, judge: Judge) -> Plan:
    """Cost of the study; a few requests are asked to measure the pace, and their answers kept."""
    probes = probes_of(config)
    subject = make_subject(judge, material, config.size)
    return make_plan([(with_cards(judge, _cards(probes, subject)), _requests(probes, subject))])


def probes_of(config: CheckupConfig) -> list[Probe]:
    """The probes asked for, in the order of the page.

    Raises:
        InputError: there is no such probe, attack or key.
    """
    made: dict[str, Probe] = {
        "order": OrderBias(),
        "length": Rewritings("length", (WORDIER,)),
        "injections": Injections(tuple(dict.fromkeys(parse_attack(name).name for name in config.attacks))),
        "keys": MasterKeys(checked_keys(config.keys)),
        "distractors": Rewritings("distractors", STYLES),
        "ties": Ties(),
        "consistency": Consistency(),
        "empty": Empty(),
        "paraphrase": PARAPHRASE,
        "reversal": REVERSAL,
        "agreement": Agreement(),
    }
    if unknown := [name for name in config.probes if name not in made]:
        raise InputError(f"There is no probe {unknown[0]!r}. There are: {', '.join(made)}.")
    if not config.probes:
        raise InputError(f"No probe is chosen. There are: {', '.join(made)}.")
    return [probe for name, probe in made.items() if name in config.probes]


def measured(
    probes: Sequence[Probe], subject: Subject, verdicts: pd.DataFrame, level: float, seed: int
) -> pd.DataFrame:
    """Table `checkup` of the verdicts so far."""
    seen = Readings(verdicts, subject.low, subject.high)
    rows = [row for probe in probes for row in rows_of(probe, subject, seen, level=level, seed=seed)]
    return CHECKUP.conform(pd.DataFrame(rows))


class _Session:
    """Keeps what was answered on disk, and the probes' numbers beside it."""

    def __init__(
        self, config: CheckupConfig, probes: Sequence[Probe], subject: Subject, run: RunFolder, known: Judge
    ) -> None:
        self._config, self._probes, self._subject, self._run = config, probes, subject, run
        self.log = VerdictLog(run, known, self._write)

    def finish(self, state: str) -> list[Decision]:
        """Write everything and mark the run."""
        decisions = self._write(self.log.with_earlier())
        records = [as_record(d) for d in decisions]
        self._run.update_manifest(state=state, finished=now(), summary=summary(decisions), probes=records)
        return decisions

    def _write(self, verdicts: pd.DataFrame) -> list[Decision]:
        table = measured(self._probes, self._subject, verdicts, self._config.level, self._config.seed)
        self._run.write_table("verdicts", verdicts)
        self._run.write_table("checkup", table)
        return decide(table, self._config.thresholds)


def _requests(probes: Sequence[Probe], subject: Subject) -> list[Request]:
    """Every question that some probe asks, once."""
    return list(dict.fromkeys(r for p in probes if not p.missing(subject) for r in p.asks(subject)))


def _cards(probes: Sequence[Probe], subject: Subject) -> list[Card]:
    wording = [p for p in probes if isinstance(p, Wording) and not p.missing(subject)]
    return [card for probe in wording for card in probe.cards(subject)]


def _chunks(requests: Sequence[Request], items: Sequence[str], least: int) -> Iterator[list[Request]]:
    """At least so many calls of whole items, so that a stopped run is still paired."""
    by_item: dict[str, list[Request]] = {item: [] for item in items}
    for request in requests:
        by_item[request.item_id].append(request)
    chunk: list[Request] = []
    for of_item in by_item.values():
        chunk += of_item
        if len(chunk) >= least:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _describe(run: RunFolder, material: Material, judge: Judge, subject: Subject, requests: Sequence[Request]) -> None:
    """Data and judge in the manifest; the cards are written down whole, the reworded ones among them."""
    every = {r.response_id for r in (*subject.scores, *subject.pairs, *subject.checks)}
    every |= {r.response_b_id for r in subject.pairs}
    asked = (*subject.scores, *subject.pairs, *subject.checks)[0]
    labels = judge.labels(asked)
    run.update_manifest(
        data=about_data(material.dataset, len(subject.items), len(every)) | {"n_pairs": len(subject.pairs)},
        judge=about_judge(judge, labels, requests),
        scale=[subject.low, subject.high],
        unable={protocol.value: why for protocol, why in subject.unable.items()},
    )


def redecide(run: RunFolder, thresholds: dict[str, float]) -> list[Decision]:
    """Hold a run's stored numbers against other thresholds; no judge is asked.

    Args:
        run: a run of this study.
        thresholds: by probe; the run's own where one is absent.

    Raises:
        InputError: the run is of another study, has no numbers yet, or a threshold is wrong.
    """
    manifest = run.manifest()
    table = run.table("checkup")
    if manifest.get("study") != "checkup" or not len(table):
        raise InputError(f"The run {run.run_id} holds no check-up. Name a run of `judgescope study checkup`.")
    kept = manifest["config"].get("thresholds") or {}
    return decide(table, {**kept, **thresholds})


def summary_of(folder: RunFolder, *, strict: bool) -> Summary:
    """The verdicts of a run by its own thresholds; a stopped one is inconclusive."""
    return _summary(redecide(folder, {}), {}, strict=strict, stopped=folder.manifest()["state"] != "done")


def decided_anew(folder: RunFolder, thresholds: dict[str, float], *, strict: bool) -> Summary:
    """The stored numbers of a run held against other thresholds.

    Raises:
        InputError: the run is of another study, has no numbers yet, or a threshold is wrong.
    """
    decisions = redecide(folder, thresholds)
    about = folder.manifest()
    done = {"run_id": folder.run_id, "judge": about["judge"]["spec"], "state": about["state"], "calls": 0}
    return _summary(decisions, done, strict=strict, stopped=False)


def _summary(decisions: Sequence[Decision], done: dict[str, Any], *, strict: bool, stopped: bool) -> Summary:
    verdicts = [d.verdict for d in decisions]
    code = OK
    if stopped or (strict and UNDERPOWERED in verdicts):
        code = INCONCLUSIVE
    if not set(verdicts) - {NOT_ASKED}:  # nothing was checked, which is no pass
        code = THRESHOLD_FAILED if strict and not stopped else INCONCLUSIVE
    if FAILS in verdicts and not stopped:
        code = THRESHOLD_FAILED
    counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    record = {"summary": summary(decisions), "verdicts": counts, "probes": [as_record(d) for d in decisions]}
    checks = tuple(_check(d, stopped=stopped) for d in decisions)
    return Summary("\n".join(_lines(decisions)), {**done, **record}, code, checks)


def _check(decision: Decision, *, stopped: bool) -> Check:
    """A probe as a check of a gate; that of a stopped run fails nothing, since more calls are to come."""
    status = {HOLDS: PASSED, FAILS: UNKNOWN if stopped else FAILED}.get(decision.verdict, UNKNOWN)
    card, threshold = decision.card, decision.threshold
    known = {c: float(v) for c in ("value", "lower", "upper") if not pd.isna(v := decision.row.get(c))}
    measured = interval_words(card, decision.row) if known else ""
    return Check(
        card.name, card.title, status, decision.reason, measured, card.allowed(threshold), threshold=threshold, **known
    )


def _lines(decisions: Sequence[Decision]) -> list[str]:
    lines = [summary(decisions)]
    lines.append(f"{'probe':<28} {'verdict':<16} {'effect [interval]':<30} {'n':>5} {'items':>5}  allowed")
    for d in decisions:
        if d.verdict == NOT_ASKED:
            lines.append(f"{d.card.title:<28} {d.verdict:<16} {d.reason}")
            continue
        row = d.row
        items = "" if row["n_clusters"] is None else f"{row['n_clusters']}"
        where = ", ".join(str(row[c]) for c in ("arm", "protocol") if isinstance(row[c], str))
        lines.append(
            f"{d.card.title:<28} {d.verdict:<16} {_effect(row):<30} {row['n']:>5} {items:>5}  "
            f"{d.card.allowed(d.threshold)} ({where})"
        )
    return lines


def _effect(row: Any) -> str:
    if math.isnan(row["value"]):
        return "undefined"
    return with_ends(row["value"], row["lower"], row["upper"], "+.3f")
