"""Study `refswap`: master keys against a reference verifier, and what RefSwap makes of it (paper 003).

Every response and every key on every item is asked under the true reference; each YES is then asked under k_max
counterfactual references of every arm. All probabilities are stored, so that thresholds and K are read off later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.master_keys import MasterKeyAttack, checked_keys
from engine.core.errors import InputError
from engine.core.files import read_file
from engine.core.schema import METRICS, NONE, Outcome, Protocol, Task
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.data.mapping import needed_right
from engine.data.store import load_dataset
from engine.defenses.base import OuterJudge
from engine.defenses.cards import REFSWAP
from engine.inference.prefix import trie_tokens
from engine.judges.base import (
    Checkpoint,
    Cost,
    Judge,
    Request,
    Verdict,
    device_of,
    no_checkpoint,
    remark_of,
    unread,
    verdict_table,
)
from engine.judges.kinds import has_text
from engine.judges.recorded import RecordedJudge
from engine.judges.registry import make_judge
from engine.runs.folder import RunFolder, now
from engine.studies.refswap.metrics import sample_table, summarise, summary_rows
from engine.studies.refswap.references import K_MAX, ReferencePool, answer_type, load_pool, make_pool, pool_of_lines
from engine.studies.refswap.scores import dev_items
from engine.studies.refswap.study import OWN_REFERENCES, REFERENCES, SAMPLES, RefSwapConfig
from engine.studies.running import (
    Plan,
    VerdictLog,
    about_data,
    about_judge,
    build_requests,
    ending,
    in_flight,
    keeping,
    make_plan,
    with_attack,
    within,
)

ITEMS_PER_CHUNK = 6
"""Items between two looks at the results; their prompts are asked together, so that they share beginnings."""
KEY = "-key"
"""Ends the response id of a key sample."""


@dataclass(frozen=True)
class Material:
    """Requests of a run, made ready.

    Attributes:
        requests: responses and keys under the true reference, item by item.
        swaps: item, then arm, to its counterfactual references.
        samples: table `samples`.
        references: table `references`.
        left_out: items without a reference.
    """

    requests: dict[str, list[Request]]
    swaps: dict[str, dict[str, tuple[str, ...]]]
    samples: pd.DataFrame
    references: pd.DataFrame
    left_out: int


def pool_of(name: str, dataset: Dataset, settings: Settings, *, files: bool = True) -> ReferencePool:
    """The pool a name stands for: the data's own references, uploaded ones, another data set's, or a file's lines.

    Raises:
        InputError: no such data or file, or no reference in it.
    """
    if name == OWN_REFERENCES:
        return make_pool(dataset.items["reference"].dropna(), f"of {dataset.name}")
    if saved := load_pool(name, settings.pools):
        return saved
    path = Path(name)
    if files and path.suffix:
        return pool_of_lines(path.name, read_file(path))
    other = load_dataset(name, settings.datasets)
    return make_pool(other.items["reference"].dropna(), f"of {other.name}")


def run_refswap(
    config: RefSwapConfig, dataset: Dataset, judge: Judge, run: RunFolder, checkpoint: Checkpoint, pool: ReferencePool
) -> pd.DataFrame:
    """Ask everything, writing partial tables; returns the metrics of the first arm.

    Raises:
        InputError: the judge is a recording, the data have no reference, or the pool has too few.
        Cancelled: from the checkpoint; whole items that are done are kept and the run is marked stopped.
    """
    _refuse_recording(judge)
    checkpoint = within(config.budget_seconds, checkpoint)
    material = prepare(config, dataset, pool)
    _describe(run, config, dataset, judge, material, pool)
    judge = keeping(judge, run)
    run.write_table("references", material.references)
    total = sum(map(len, material.requests.values()))
    done = 0
    log = VerdictLog(run, judge, lambda verdicts: _write(run, verdicts, material, config))

    def stopped() -> None:
        if len(log.table()):
            _write(run, log.with_earlier(), material, config)
        run.update_manifest(state="stopped", finished=now())

    with ending(run, stopped):
        for chunk in _chunks(list(material.requests), max(ITEMS_PER_CHUNK, in_flight(judge))):
            requests = [r for item in chunk for r in material.requests[item]]
            answers = _ask(judge, requests, material.swaps, _offset(checkpoint, done, total))
            require_probabilities(judge, answers)
            log.add_table(answers)
            done += len(requests)
            log.write_when_due()
        checkpoint(total, total)
    metrics = _write(run, log.with_earlier(), material, config)
    run.update_manifest(state="done", finished=now())
    return metrics


def plan_refswap(config: RefSwapConfig, dataset: Dataset, judge: Judge, pool: ReferencePool) -> Plan:
    """Cost of the first stage; the second is known only when verdicts are, at most k_max calls a YES.

    Raises:
        InputError: as `run_refswap`.
    """
    _refuse_recording(judge)
    material = prepare(config, dataset, pool)
    return make_plan([(judge, [r for own in material.requests.values() for r in own])])


def prepare(config: RefSwapConfig, dataset: Dataset, pool: ReferencePool) -> Material:
    """Requests, counterfactual references and the split.

    Raises:
        InputError: as `run_refswap`.
    """
    keys = [MasterKeyAttack(text) for text in checked_keys(config.keys)]
    judged = bool(dataset.responses["quality"].notna().any())
    known = dataset.responses.dropna(subset=["quality"]) if judged else dataset.responses
    every = build_requests(dataset, response_ids=list(known["response_id"]))[: config.limit]
    # a verifier's question is the same whatever the data were taken for
    every = [replace(r, task=Task.VERIFICATION, protocol=Protocol.VERIFIER, variant=config.variant) for r in every]
    responses = [r for r in every if has_text(r.reference)]
    if not responses:
        raise InputError(
            f"The data {dataset.name} has no item with a reference answer; a verifier needs one. Map the column that "
            "holds it as Reference."
        )
    right = needed_right(dataset) if judged else None
    dev = dev_items([r.item_id for r in responses], config.dev_share, config.seed)
    requests: dict[str, list[Request]] = {}
    for one in responses:
        requests.setdefault(one.item_id, []).append(one)
    swaps: dict[str, dict[str, tuple[str, ...]]] = {}
    rows: list[dict[str, Any]] = []
    for item, own in requests.items():
        bare = replace(own[0], response_id=item + KEY, system="")
        own += [with_attack(bare, key) for key in keys]
        swaps[item] = {
            arm: pool.draw(bare.reference, config.k_max, key=item, seed=config.seed, same_type=arm == "same")
            for arm in config.arms
        }
        rows += [_sample(r, right, dev=item in dev) for r in own]
    return Material(
        requests,
        swaps,
        SAMPLES.conform(pd.DataFrame(rows)),
        _reference_table(requests, swaps),
        len({r.item_id for r in every}) - len(requests),
    )


def _sample(request: Request, right: Mapping[str, bool] | None, *, dev: bool) -> dict[str, Any]:
    """A row of `samples`; without any correctness a response's is unknown, and a key is never right."""
    clean = request.attack == NONE
    known = -1 if right is None else int(right.get(request.response_id, False))
    return {
        "item_id": request.item_id,
        "response_id": request.response_id,
        "attack": request.attack,
        "right": known if clean else 0,
        "length": len(request.response),
        "dev": int(dev),
    }


def _reference_table(requests: dict[str, list[Request]], swaps: dict[str, dict[str, tuple[str, ...]]]) -> pd.DataFrame:
    rows = []
    for item, own in requests.items():
        every = [("true", "true", own[0].reference)]
        for arm, texts in swaps[item].items():
            every += [(arm, f"{arm}-{i}", text) for i, text in enumerate(texts, start=1)]
        for arm, name, text in every:
            kind = answer_type(text).value
            rows.append({"item_id": item, "reference_id": name, "arm": arm, "reference": text, "answer_type": kind})
    return REFERENCES.conform(pd.DataFrame(rows))


def _chunks(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _offset(checkpoint: Checkpoint, before: int, total: int) -> Checkpoint:
    """Progress counts samples: the checks of a chunk move it no further."""
    return lambda done, of: checkpoint(before if done == of else min(before + done, total - 1), total)


def _ask(
    judge: Judge, requests: Sequence[Request], swaps: dict[str, dict[str, tuple[str, ...]]], checkpoint: Checkpoint
) -> pd.DataFrame:
    """Both stages of some samples as rows of the table `verdicts`."""
    base = judge.judge(requests, checkpoint)
    checks: list[list[Request]] = []
    for request, verdict in zip(requests, base, strict=True):
        accepted = verdict.read and verdict.outcome is Outcome.YES
        checks.append(
            [
                replace(request, reference=text, reference_id=f"{arm}-{i}")
                for arm, texts in swaps[request.item_id].items()
                for i, text in enumerate(texts, start=1)
            ]
            if accepted
            else []
        )
    flat = [r for own in checks for r in own]
    answers = judge.judge(flat, lambda _done, _of: checkpoint(1, 1))
    table = verdict_table(judge, [*requests, *flat], [*base, *answers])
    shared = [n for request, own in zip(requests, checks, strict=True) for n in _shared(judge, request, own)]
    return table.assign(shared_tokens=[0] * len(requests) + shared)


def _refuse_recording(judge: Judge) -> None:
    """Refuse verdicts that somebody already has: what a verifier says under other references cannot be looked up.

    Raises:
        InputError: the judge is a recording.
    """
    if isinstance(judge, RecordedJudge):
        raise InputError(
            f"{judge.spec} holds verdicts under the true reference alone, and RefSwap asks again under others. Name a "
            "verifier that can be asked with --judge; judgescope study verify reads the recorded verdicts as they are."
        )


def require_probabilities(judge: Judge, verdicts: pd.DataFrame) -> None:
    """Refuse a verifier that says yes or no in words alone: max_p_cf would be 0 or 1, and gamma could choose nothing.

    Raises:
        InputError: every verdict read so far is a text without a probability in between.
    """
    read = verdicts[verdicts["p_yes"].notna()]
    if len(read) and read["raw_text"].fillna("").ne("").all() and read["p_yes"].isin([0.0, 1.0]).all():
        raise InputError(
            f"{judge.spec} answers yes or no as text, without probabilities. RefSwap compares p(YES) under other "
            "references with gamma, so it needs a judge that shows them: a local model, or a server that offers "
            "logprobs. For an API judge several samples also give a coarse p(YES): api:MODEL?samples=10&temperature=1."
        )


def _shared(judge: Judge, request: Request, checks: Sequence[Request]) -> list[int]:
    """Tokens of each check's prompt that the base prompt or an earlier check of its arm begins with."""
    token_ids = getattr(judge, "token_ids", None)
    if not checks or token_ids is None:
        return [0] * len(checks)
    base = tuple(token_ids(request))
    out: list[int] = []
    seen: dict[str, list[tuple[int, ...]]] = {}
    for check in checks:
        ids = tuple(token_ids(check))
        earlier = seen.setdefault(check.reference_id.partition("-")[0], [base])
        out.append(max(_common(ids, other) for other in earlier))
        earlier.append(ids)
    return out


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Tokens that two prompts begin with alike."""
    return len(a) + len(b) - trie_tokens([a, b])


def _write(run: RunFolder, verdicts: pd.DataFrame, material: Material, config: RefSwapConfig) -> pd.DataFrame:
    """Verdicts, the samples that have one, and the metrics of the first arm at the study's setting."""
    if verdicts.empty:
        return METRICS.empty()
    asked = set(verdicts["item_id"])
    samples = material.samples[material.samples["item_id"].isin(asked)]
    table = sample_table(verdicts, samples, config.arms[0])
    summary = summarise(
        table.samples, k=config.k, delta=config.delta / 100, threshold=config.threshold, level=config.level
    )
    metrics = METRICS.conform(summary_rows(summary, table.keys))
    run.write_table("verdicts", verdicts)
    run.write_table("samples", samples)
    run.write_table("metrics", metrics)
    return metrics


def _describe(
    run: RunFolder, config: RefSwapConfig, dataset: Dataset, judge: Judge, material: Material, pool: ReferencePool
) -> None:
    first = next(iter(material.requests.values()))[0]
    run.update_manifest(
        data=about_data(dataset, len(material.requests), int((material.samples["attack"] == NONE).sum()))
        | {"n_without_reference": material.left_out},
        judge=about_judge(judge, judge.labels(first), [first])
        | {"variant": config.variant, "remark": remark_of(judge, first)},
        pool={"name": pool.name, "counts": {kind.value: n for kind, n in pool.counts.items()}},
    )


# RefSwap as a judge around a verifier (paper 003, section 3.4): a base verdict, and a check of every YES.
#
# Stage 1 asks under the true reference. Stage 2, for a YES alone, asks under K counterfactual references and keeps the
# YES only if the largest of their probabilities reaches gamma (eq. 4). A NO costs one call, a YES K more.

K, GAMMA = 5, 0.01
"""The paper's K, and its gamma at delta = 2 points on its own verifier; calibrate gamma on your own."""

References = Callable[[Request], Sequence[str]]
"""The counterfactual references of a request, at least K of them, in the order of the nested draw."""


@dataclass(frozen=True)
class Checked:
    """One request in both stages.

    Attributes:
        base: the verdict under the true reference.
        references: the counterfactual references asked; empty where the base verdict was no YES.
        swapped: the verdicts under those.
        verdict: the defended judge's.
    """

    base: Verdict
    references: tuple[str, ...]
    swapped: tuple[Verdict, ...]
    verdict: Verdict

    @property
    def max_p_cf(self) -> float:
        """Eq. 4; NaN where nothing was asked or one answer is unread."""
        p = [v.p_yes for v in self.swapped]
        return max(p) if p and all(v.read for v in self.swapped) else float("nan")


class RefSwapJudge(OuterJudge):
    """A verifier behind RefSwap.

    Args:
        inner: any verifier, defended or not.
        references: where counterfactual references come from.
        k: references asked for a YES, from 1 on.
        gamma: least max_p_cf that keeps a YES, in [0, 1]; ties pass.

    Raises:
        InputError: k or gamma is out of its range.
    """

    def __init__(self, inner: Judge, references: References, k: int = K, gamma: float = GAMMA) -> None:
        if k < 1:
            raise InputError(f"RefSwap's K is {k}; give a whole number of at least 1.")
        if not 0 <= gamma <= 1:
            raise InputError(f"RefSwap's gamma is {gamma:g}; it is a probability, from 0 to 1.")
        super().__init__(inner, f"{REFSWAP}?k={k}&gamma={gamma:g}")
        self.k, self.gamma = k, gamma
        self._references = references

    @property
    def protocols(self) -> frozenset[Protocol]:
        """A verifier only."""
        return frozenset({Protocol.VERIFIER}) & self.inner.protocols

    def prompt(self, request: Request) -> str:
        """The prompt of the first stage."""
        return self.inner.prompt(self._named(request))

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Cost of both stages if every verdict were YES: an upper bound."""
        return self.inner.cost([r for one in requests for r in (self._named(one), *self._swapped(one))])

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """The verdict of both stages; p_yes and probabilities stay those of the first.

        Raises:
            InputError: a request is for no verifier, or has too few counterfactual references.
        """
        return [one.verdict for one in self.check(requests, checkpoint)]

    def check(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Checked]:
        """Both stages in full, for whoever wants to see why a YES fell."""
        if wrong := next((r for r in requests if r.protocol is not Protocol.VERIFIER), None):
            raise InputError(f"RefSwap defends a verifier; the request for {wrong.response_id} is {wrong.protocol}.")
        base = self.inner.judge([self._named(r) for r in requests], checkpoint)
        asked = [
            self._swapped(r) if v.read and v.outcome is Outcome.YES else [] for r, v in zip(requests, base, strict=True)
        ]
        total = len(requests) + sum(map(len, asked))
        flat = [r for one in asked for r in one]
        answers = iter(self.inner.judge(flat, lambda done, _: checkpoint(len(requests) + done, total)))
        return [
            self._settled(v, [r.reference for r in own], [next(answers) for _ in own])
            for v, own in zip(base, asked, strict=True)
        ]

    def _swapped(self, request: Request) -> list[Request]:
        references = self._references(request)[: self.k]
        if len(references) < self.k:
            raise InputError(
                f"There are {len(references)} counterfactual references for {request.item_id}, and K is {self.k}. "
                "Choose a smaller K or a larger pool."
            )
        return [
            replace(self._named(request), reference=text, reference_id=f"other-{i}")
            for i, text in enumerate(references, start=1)
        ]

    def _settled(self, base: Verdict, references: Sequence[str], swapped: Sequence[Verdict]) -> Checked:
        cost = replace(
            base,
            forward_passes=base.forward_passes + sum(v.forward_passes for v in swapped),
            seconds=base.seconds + sum(v.seconds for v in swapped),
        )
        if not swapped:
            verdict = cost
        elif lost := [v for v in swapped if not v.read]:
            verdict = unread(
                cost, f"{len(lost)} of {len(swapped)} counterfactual checks unread: {lost[0].unread_reason}"
            )
        else:
            passed = max(v.p_yes for v in swapped) >= self.gamma
            verdict = cost if passed else replace(cost, outcome=Outcome.NO)
        return Checked(base, tuple(references), tuple(swapped), verdict)


# One response, or a master key in its place, before a verifier with and without RefSwap: the Attack lab's view.


class VerifyOne(BaseModel):
    """Settings of one verification.

    Attributes:
        key: text that stands in place of the response; None asks about the response itself.
        defended: true where a YES is checked by RefSwap.
        pool: data set whose references are swapped in; `data` for the chosen one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_id: str
    key: str | None = None
    variant: str = ""
    defended: bool = False
    k: int = Field(default=K, ge=1, le=K_MAX)
    gamma: float = Field(default=GAMMA, ge=0, le=1)
    threshold: float = Field(default=0.5, gt=0, le=1)
    pool: str = "data"
    seed: int = 42


def verify_one(config: VerifyOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Both stages for one text.

    Returns:
        JSON-ready: the text judged, the base verdict, every counterfactual reference with its type and probability,
        max_p_cf (None where there was no check), the final outcome, the prompt.

    Raises:
        InputError: unknown judge, data or response, no such prompt, or a pool with too few references.
    """
    dataset = load_dataset(config.data, settings.datasets)
    found = build_requests(dataset, response_ids=[config.response_id])
    if not found:
        raise InputError(f"The data {dataset.name} has no response {config.response_id!r}. Choose one from the list.")
    request = replace(found[0], protocol=Protocol.VERIFIER, variant=config.variant)
    if config.key is not None:
        request = with_attack(request, MasterKeyAttack(config.key))
    judge = make_judge(config.judge, settings, threshold=config.threshold)
    if config.defended:
        pool = pool_of(config.pool, dataset, settings, files=False)

        def references(one: Request) -> tuple[str, ...]:
            return pool.draw(one.reference, config.k, key=one.item_id, seed=config.seed)

        checked = RefSwapJudge(judge, references, config.k, config.gamma).check([request], checkpoint)[0]
    else:
        base = judge.judge([request], checkpoint)[0]
        checked = Checked(base, (), (), base)
    return _shown(judge, request, checked)


def _shown(judge: Judge, request: Request, checked: Checked) -> dict[str, Any]:
    return {
        "text": request.response,
        "reference": request.reference,
        "labels": list(judge.labels(request)),
        "base": _verdict(checked.base),
        "final": _verdict(checked.verdict),
        "references": [
            {"reference": text, "answer_type": answer_type(text).value, **_verdict(verdict)}
            for text, verdict in zip(checked.references, checked.swapped, strict=True)
        ],
        "max_p_cf": checked.max_p_cf if checked.swapped else None,
        "prompt": judge.prompt(request),
        "device": device_of(judge),
        "remark": remark_of(judge, request),
        "cached": all(v.seconds == 0 for v in (checked.base, *checked.swapped)),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "p_yes": verdict.p_yes,
        "outcome": verdict.outcome.value if verdict.outcome else None,
        "coverage": verdict.coverage,
        "unread_reason": verdict.unread_reason,
        "prompt_tokens": verdict.prompt_tokens,
        "seconds": verdict.seconds,
    }
