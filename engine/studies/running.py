"""Parts that the runs of all studies share: manifest, requests, plan and budget, and verdicts kept in a retry."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload
from weakref import WeakValueDictionary

import pandas as pd

from engine.attacks.base import Attack
from engine.core import plugins
from engine.core.errors import Cancelled, EngineError, InputError, OutOfCalls, RunError
from engine.core.schema import Outcome, Task
from engine.core.settings import api_settings
from engine.data.dataset import Dataset, content_digest
from engine.data.raw import cells_of
from engine.inference.abilities import noted_server
from engine.judges.base import (
    NO_MODEL,
    Checkpoint,
    Cost,
    Expense,
    Judge,
    JudgeWrapper,
    Paid,
    Request,
    Verdict,
    device_of,
    innermost,
    no_checkpoint,
    verdict_id,
    verdict_rows,
)
from engine.runs.folder import PLUGINS, RETRY, RunFolder, now, versions
from engine.runs.library import READ_COLUMNS, answers_read
from engine.runs.parts import TableParts

if TYPE_CHECKING:
    from engine.studies.study import Context, Study

SECONDS_BETWEEN_WRITES = 2.0
WRITING_SHARE = 0.1
"""Most time that writing partial results may take, as a share of the time between two writes."""
MANY_CALLS = 2048
"""Judge calls between two looks at the results where a call takes well below a millisecond."""
WAVES = 4
"""Times that a server's calls in flight are replaced within one part."""
PART_ROWS = 8192
"""Verdicts that are held in memory before they go to disk."""
SOON = 0.3
"""Below so many seconds the next part of a run without a model is twice as long."""


def about_data(dataset: Dataset, n_items: int, n_responses: int) -> dict[str, Any]:
    """The manifest's `data`: which set, the digest of its content, and how much of it is judged."""
    for plugin in plugins.read_records([dataset.source.get("plugin")]):  # that read its file
        plugins.note(plugin)
    return {
        "dataset_id": dataset.dataset_id,
        "name": dataset.name,
        "digest": content_digest(dataset.items, dataset.responses),
        "n_items": n_items,
        "n_responses": n_responses,
    }


def about_judge(judge: Judge, labels: Sequence[str], asked: Iterable[Request] = ()) -> dict[str, Any]:
    """The manifest's `judge`: which one, in which revision, the answers it was offered, where it ran, its prompts.

    Args:
        judge: behind its defenses or not.
        labels: the answers it was offered.
        asked: requests of each kind that the study makes; the card of each is written down whole.
    """
    about: dict[str, Any] = {"spec": judge.spec, "fingerprint": judge.fingerprint, "labels": labels}
    about["device"] = device_of(judge)
    inner = innermost(judge)
    about |= getattr(inner, "origin", {})
    if prompts := _prompts(inner, asked):
        about["prompts"] = prompts
    if reader := api_settings().perplexity_model:
        about["perplexity_model"] = f"api:{reader}"
    return about | ({"api": inner.about()} if hasattr(inner, "about") else {})


def _prompts(judge: Any, asked: Iterable[Request]) -> list[dict[str, Any]]:
    """The cards behind the requests, each once; empty for a judge without cards."""
    found: dict[str, dict[str, Any]] = {}
    seen = set()
    for request in asked if hasattr(judge, "card") else ():
        kind = (request.protocol, request.task, request.anchored, request.variant)
        if kind in seen:
            continue
        seen.add(kind)
        try:
            card = judge.card(request)
        except InputError:
            continue  # it has no card for this kind, which the study says where it matters
        found[card.digest] = {
            "name": card.name,
            "digest": card.digest[:16],
            "protocol": card.protocol.value,
            "mode": card.mode,
            "labels": list(card.labels),
            "system": card.system,
            "user": card.user,
        }
    return list(found.values())


def answers_as(about: Mapping[str, Any], judge: Judge, asked: Sequence[Request]) -> bool:
    """A manifest's judge would answer these requests as the one that is here does.

    The fingerprint covers every prompt of a judge; one that these requests do not use may be another by now.

    Args:
        about: from `about_judge`, of this version or an older one.
        judge: the one here.
        asked: requests of the kinds that the study makes.
    """
    was, now = str(about.get("fingerprint", judge.fingerprint)), judge.fingerprint
    held = {one["digest"] for one in about.get("prompts", [])}
    used = {one["digest"] for one in _prompts(innermost(judge), asked)}
    return was == now or (was.rpartition("-")[0] == now.rpartition("-")[0] and (not held or used <= held))


@contextmanager
def ending(run: RunFolder, stopped: Callable[[], object] | None = None) -> Iterator[None]:
    """Mark a run whose study does not come to its end, and write down which plugins it uses; the exception goes on.

    Args:
        run: the run.
        stopped: keeps what is done and marks the run, when the study is cancelled; by default it is only marked.
    """

    def used(plugin: plugins.Plugin) -> None:
        held = run.manifest().get(PLUGINS, [])
        if plugin.record() not in held:
            run.update_manifest(**{PLUGINS: [*held, plugin.record()]})

    try:
        with plugins.noting(used):
            if own := plugins.of("studies", str(run.manifest().get("kind"))):
                used(own)
            yield
    except (Cancelled, KeyboardInterrupt) as stop:
        if stopped:
            stopped()
        else:
            run.update_manifest(state="stopped", finished=now())
        if isinstance(stop, OutOfCalls):
            run.update_manifest(error=str(stop))
        raise
    except BaseException as error:
        # the text of an error that is not ours may hold anything, a key among it
        why = str(error) if isinstance(error, EngineError) else type(error).__name__
        run.update_manifest(state="failed", finished=now(), error=why)
        raise
    finally:
        _note_answers(run)


def _note_answers(run: RunFolder) -> None:
    """Write into the manifest how a server's answers were read, how many each address gave, and what it showed."""
    with suppress(RunError, OSError):  # a run that cannot be read says so elsewhere
        judge = run.manifest().get("judge") or {}
        if not (api := judge.get("api")):
            return
        read_as, asked = answers_read(run.manifest(), run.table("verdicts", READ_COLUMNS)), _ASKED.get(run.path)
        found = noted_server(str(api.get("host")), str(api.get("model")))
        more = ({"read_as": read_as} if read_as else {}) | ({"answered": asked.answered} if asked else {})
        if more := more | ({"server": found} if found else {}):
            run.update_manifest(judge={**judge, "api": {**api, **more}})


_ASKED: WeakValueDictionary[Path, Any] = WeakValueDictionary()
"""The judge behind a server that a run asks, for as long as somebody holds it."""


# From a dataset to requests, and from a request to an attacked one.


class Requests(Sequence[Request]):
    """One pointwise request per response, in the data's order, made when it is read: only the tables are held.

    Missing texts were excluded on reading.

    Args:
        dataset: items and responses.
        response_ids: those that are asked about; None for all.
        limit: at most so many of them, from the first on.
    """

    def __init__(
        self, dataset: Dataset, *, response_ids: Collection[str] | None = None, limit: int | None = None
    ) -> None:
        wanted = dataset.responses
        if response_ids is not None:
            wanted = wanted[wanted["response_id"].isin(list(response_ids))]
        self._rows, self._items = wanted[:limit], dataset.items
        self._places = pd.Index(dataset.items["item_id"])

    @property
    def n_items(self) -> int:
        """Items that the responses answer."""
        return int(self._rows["item_id"].nunique())

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Request: ...

    @overload
    def __getitem__(self, index: slice) -> list[Request]: ...

    def __getitem__(self, index: int | slice) -> Request | list[Request]:
        if isinstance(index, slice):
            return self._made(self._rows[index])
        place = range(len(self))[index]
        return self._made(self._rows[place : place + 1])[0]

    def __iter__(self) -> Iterator[Request]:
        for start in range(0, len(self), MANY_CALLS):
            yield from self._made(self._rows[start : start + MANY_CALLS])

    def _made(self, rows: pd.DataFrame) -> list[Request]:
        ids, response_ids, texts, systems = (
            cells_of(rows[c].fillna("")) for c in ("item_id", "response_id", "text", "system")
        )
        once = list(dict.fromkeys(ids))
        items = self._items.iloc[self._places.get_indexer(pd.Index(once, dtype=self._places.dtype))]
        tasks, contexts, references = (cells_of(items[c].fillna("")) for c in ("task", "context", "reference"))
        about = dict(zip(once, zip(map(Task, tasks), contexts, references, strict=True), strict=True))
        return [
            Request(
                item_id=item,
                response_id=response,
                task=about[item][0],
                context=about[item][1],
                response=text,
                reference=about[item][2],
                system=system,
            )
            for response, item, text, system in zip(response_ids, ids, texts, systems, strict=True)
        ]


def build_requests(
    dataset: Dataset, *, response_ids: Collection[str] | None = None, limit: int | None = None
) -> list[Request]:
    """All of `Requests` at once."""
    return list(Requests(dataset, response_ids=response_ids, limit=limit))


def with_attack(request: Request, attack: Attack) -> Request:
    """The request with its response attacked and the arm named."""
    response = attack.apply(request)
    same = response == request.response and attack.name == request.attack
    return request if same else replace(request, response=response, attack=attack.name)


def unsupported_reason(ask: Callable[[Request], object], requests: Iterable[Request]) -> str:
    """Why the judge cannot be asked this; empty where it can. The first request stands for all."""
    for request in requests:
        try:
            ask(request)
        except InputError as error:
            return str(error)
        return ""
    return "there is nothing to ask"


# Cost of a study before it runs, and its stop at a budget with everything done kept.


class OutOfBudget(Cancelled):
    """The study's seconds are spent; what is done is kept and the run can be resumed."""


class Plan(NamedTuple):
    """Plan of a study.

    Attributes:
        verdicts: rows of the result.
        calls: distinct model calls not in the cache.
        tokens: prompt tokens of those calls.
        known: verdicts that cost nothing.
        tokens_per_second: measured on `measured_on` tokens of this study; NaN where no call is left or no model is.
        seconds: estimated wall time, the model's loading left out; NaN for a judge behind a server, which is not asked
            before the run.
        expense: for such a judge, its calls, tokens and cost, and the cap they meet.
    """

    verdicts: int
    calls: int
    tokens: int
    known: int
    tokens_per_second: float
    measured_on: int
    seconds: float
    expense: dict[str, Any] | None = None


def plan_text(plan: Plan) -> str:
    """A plan in words."""
    lines = [
        f"{plan.verdicts:,} verdicts: {plan.known:,} known already, {plan.calls:,} calls of {plan.tokens:,} tokens."
    ]
    if plan.expense:
        lines += [plan.expense["sentence"], f"Prompt tokens are {plan.expense['rule']}; nothing was sent."]
    elif plan.calls:
        pace = f"{plan.tokens_per_second:,.0f} tokens/s, measured on {plan.measured_on:,} tokens of it"
        lines.append(f"About {plan.seconds:,.0f} s at {pace}. Screening defenses are counted roughly.")
    return "\n".join(lines)


def metric_lines(metrics: pd.DataFrame) -> list[str]:
    """Metrics for the command line: one line each with its attack, interval, n and how many are unread."""
    lines = []
    for row in metrics.to_dict("records"):
        bounds = "" if pd.isna(row["lower"]) else f" [{row['lower']:.3f}, {row['upper']:.3f}]"
        attack = "" if pd.isna(row["attack"]) else row["attack"]
        value = f"{row['value']:7.3f}{bounds}"
        lines.append(f"  {row['metric']:<13} {attack:<34} {value}  n {row['n']}, unread {row['n_unread']}")
    return lines


PROBE_REQUESTS = 4
"""Requests really asked to measure the pace; their answers are kept, so nothing is wasted."""


def make_plan(arms: Sequence[tuple[Judge, Sequence[Request]]]) -> Plan:
    """Add up the cost of all arms and measure the pace on a few requests of the dearest one.

    Args:
        arms: each defended judge with the requests it will be asked.
    """
    costs = [judge.cost(requests) for judge, requests in arms]
    total = add_up(costs)
    verdicts = sum(len(requests) for _, requests in arms)
    if not total.calls:
        return Plan(verdicts, 0, 0, total.known, float("nan"), 0, 0.0)
    if expense := expense_of(arms[0][0], total):
        return Plan(verdicts, total.calls, total.tokens, total.known, math.nan, 0, math.nan, as_json(expense))
    dearest = max(range(len(arms)), key=lambda i: costs[i].tokens)
    judge, requests = arms[dearest]
    probe = list(islice((r for r in requests if judge.cost([r]).calls), PROBE_REQUESTS))
    tokens = judge.cost(probe).tokens
    clock = time.perf_counter()
    judge.judge(probe)
    pace = tokens / (time.perf_counter() - clock)
    return Plan(verdicts, total.calls, total.tokens, total.known, pace, tokens, total.tokens / pace)


def add_up(costs: Sequence[Cost]) -> Cost:
    """The cost of several things together."""
    paid = Paid(*(sum(part) for part in zip(*(c.paid for c in costs), strict=True))) if costs else Paid()
    return Cost(sum(c.calls for c in costs), sum(c.tokens for c in costs), sum(c.known for c in costs), paid)


def expense_of(judge: Judge, cost: Cost) -> Expense | None:
    """The server's part of a cost; None for a judge that runs here."""
    inner = innermost(judge)
    made: Expense | None = inner.expense(cost.paid) if hasattr(inner, "expense") else None
    return made


def as_json(expense: Expense) -> dict[str, Any]:
    """The expense with its sentence, for a command's last line or a page."""
    return {**expense._asdict(), "beyond_cap": expense.beyond, "sentence": expense.sentence()}


def within(seconds: float | None, checkpoint: Checkpoint = no_checkpoint) -> Checkpoint:
    """A checkpoint that raises `OutOfBudget` once the seconds are spent; None sets no limit."""
    if seconds is None:
        return checkpoint
    end = time.monotonic() + seconds

    def look(done: int, total: int) -> None:
        checkpoint(done, total)
        if time.monotonic() >= end and done < total:
            raise OutOfBudget

    return look


# Asking a run's unread calls again, and nothing else: what was read is taken from the run's own table.


class KeptJudge(JudgeWrapper):
    """A judge that answers what is known from a table of verdicts, and asks the inner judge the rest.

    Everything else (its device, token ids, cards) is the inner judge's.

    Attributes:
        inner: the judge that is asked.
        asked: calls that went to it.
    """

    def __init__(self, inner: Judge, verdicts: pd.DataFrame) -> None:
        super().__init__(inner)
        self.asked = 0
        read = verdicts[verdicts["unread_reason"].isna()].drop_duplicates("verdict_id")
        self._known = {str(r["verdict_id"]): _verdict(r) for r in read.to_dict("records")}

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet: a copy under way
            raise AttributeError(name)
        return getattr(self.inner, name)

    def prompt(self, request: Request) -> str:
        """The inner judge's."""
        return self.inner.prompt(request)

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Cost of the unknown ones."""
        fresh = [r for r in requests if verdict_id(r) not in self._known]
        cost = self.inner.cost(fresh)
        return cost._replace(known=cost.known + len(requests) - len(fresh))

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request, the known ones as they were."""
        return self.judge_as(requests, [verdict_id(r) for r in requests], checkpoint)

    def judge_as(
        self, requests: Sequence[Request], ids: Sequence[str], checkpoint: Checkpoint = no_checkpoint
    ) -> list[Verdict]:
        """As `judge`, for requests that stand in the table under other ids."""
        fresh = [r for r, name in zip(requests, ids, strict=True) if name not in self._known]
        held = len(requests) - len(fresh)
        checkpoint(held, len(requests))
        self.asked += len(fresh)
        told = iter(self.inner.judge(fresh, lambda done, _: checkpoint(held + done, len(requests))) if fresh else ())
        return [self._known[name] if name in self._known else next(told) for name in ids]


def keeping(judge: Judge, run: RunFolder) -> Judge:
    """The judge, or during a retry one that keeps what the run has read.

    Nothing is kept where another judge, prompt or version would answer: numbers of two kinds must not stand in one
    table.
    """
    if hasattr(inner := innermost(judge), "answered"):
        _ASKED[run.path] = inner
    manifest = run.manifest()
    about = manifest.get(RETRY)
    if not isinstance(about, dict):
        return judge
    fits = about.get("fingerprint") == judge.fingerprint and about.get("version") == versions()["judgescope"]
    fits = fits and not plugins.changed(manifest.get(PLUGINS))
    return KeptJudge(judge, run.table("verdicts")) if fits else judge


class VerdictLog:
    """The verdicts of a run while it goes: gathered as they come, checked, kept on disk and published now and then.

    Publishing takes at most a tenth of the time, so the cost of a verdict does not grow with the verdicts before it,
    and memory holds `PART_ROWS` of them at most.
    """

    def __init__(
        self, run: RunFolder, judge: Judge | None, write: Callable[[pd.DataFrame], object] | None = None
    ) -> None:
        """An empty log.

        Args:
            run: where the verdicts are written.
            judge: as `keeping` gave it; in a retry the verdicts that it has not come to stay in the table.
            write: writes the table and what is computed from it; by default the table alone, a part at a time.
        """
        self._run, self._judge, self._write = run, judge, write
        self._parts = TableParts(run, "verdicts")
        self._rows: list[dict[str, Any]] = []
        self._due = time.monotonic() + SECONDS_BETWEEN_WRITES

    def add(self, judge: Judge, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> None:
        """Keep the answers of one judge."""
        self._rows += verdict_rows(judge, requests, verdicts)
        if len(self._rows) >= PART_ROWS:
            self._settle()

    def add_table(self, verdicts: pd.DataFrame) -> None:
        """Keep answers that are a table already."""
        self._settle()
        self._parts.append(verdicts)

    def add_earlier(self) -> None:
        """Keep the verdicts of a retry, stopped early, that it has not come to."""
        earlier = self._earlier()
        if earlier is not None:
            self.add_table(earlier)

    def table(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """All verdicts so far, in the order they came; all columns, or those named."""
        self._settle()
        return self._parts.frame(columns)

    def with_earlier(self) -> pd.DataFrame:
        """All verdicts so far, and behind them those of a retry that it has not come to."""
        earlier = self._earlier()
        return self.table() if earlier is None else pd.concat([self.table(), earlier], ignore_index=True)

    def publish(self) -> None:
        """Write the run's table: what this log holds."""
        self._settle()
        self._parts.publish()

    def write_when_due(self) -> None:
        """Write, where the last time is long enough ago."""
        began = time.monotonic()
        if began < self._due:
            return
        if self._write:
            self._write(self.with_earlier())
        else:
            self._settle()
            self._parts.publish(self._earlier())
        ended = time.monotonic()
        self._due = ended + max(SECONDS_BETWEEN_WRITES, (ended - began) / WRITING_SHARE)

    def _settle(self) -> None:
        if self._rows:
            self._parts.append(pd.DataFrame(self._rows))
            self._rows = []

    def _earlier(self) -> pd.DataFrame | None:
        if not isinstance(self._judge, KeptJudge):
            return None
        before = self._run.table("verdicts")
        return before[~before["verdict_id"].isin(self.table(["verdict_id"])["verdict_id"])]


def in_flight(judge: Judge) -> int:
    """Calls that a server, a cluster or several devices answer at once; 1 for a judge in this process."""
    return int(getattr(innermost(judge), "concurrency", 1))


def in_chunks(
    requests: Sequence[Request], judge: Judge, few: int, arms: int = 1
) -> Iterator[tuple[int, Sequence[Request]]]:
    """Start and requests of each part that is asked between two looks at the results.

    A model's parts have one size, so that its batches, and with them the last digits of its numbers, are the same in
    each run. Where no model is asked they grow while one takes well below a second.

    Args:
        requests: all of them.
        judge: who is asked; a GPU takes `MANY_CALLS` at once.
        few: judge calls of a part elsewhere, and of the first one; more for a server that takes many at a time.
        arms: calls for each request.
    """
    device = device_of(judge)
    calls = max(MANY_CALLS if device.startswith("cuda") else few, WAVES * in_flight(judge))
    start = 0
    while start < len(requests):
        size = max(1, calls // arms)
        began = time.monotonic()
        yield start, requests[start : start + size]
        start += size
        if device == NO_MODEL and time.monotonic() - began < SOON:
            calls = min(2 * calls, MANY_CALLS)


def offset(checkpoint: Checkpoint, before: int, total: int) -> Checkpoint:
    """The study's checkpoint for one call of the judge: calls before it are added."""
    return lambda done, _: checkpoint(before + done, total)


def carry_out(study: Study, config: Any, context: Context, folder: RunFolder) -> bool:
    """Carry out a run that is begun; false where its budget stopped it. A refused setting leaves no folder."""
    try:
        with ending(folder):
            study.run(config, context.seeded(config), folder)
    except OutOfBudget:
        return False
    except InputError:
        folder.discard_if_bare()
        raise
    finally:
        folder.release()
    return True


def _verdict(row: dict[Any, Any]) -> Verdict:
    """A row of the table `verdicts` as the judge gave it."""

    def number(name: str) -> float:
        return float("nan") if pd.isna(row[name]) else float(row[name])

    outcome, places = row["outcome"], row["ranking"]
    shares = row["probabilities"]
    verdict = Verdict(
        score=number("score"),
        p_a=number("p_a"),
        p_tie=number("p_tie"),
        p_yes=number("p_yes"),
        outcome=Outcome(outcome) if isinstance(outcome, str) else None,
        probabilities=None if shares is None else tuple(map(float, shares)),
        ranking=None if places is None else tuple(int(p) for p in places),
        coverage=number("coverage"),
        raw_text=row["raw_text"] if isinstance(row["raw_text"], str) else "",
    )
    passes, seconds, tokens = (
        0.0 if pd.isna(row[name]) else float(row[name]) for name in ("forward_passes", "seconds", "prompt_tokens")
    )
    return replace(verdict, prompt_tokens=int(tokens), forward_passes=passes, seconds=seconds)
