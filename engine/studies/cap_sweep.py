"""Second part of the study `cap`: alphas x directions x training contexts, and the choice of alphas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from engine.data.store import load_dataset
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request
from engine.judges.registry import make_judge
from engine.runs import RunFolder, open_run
from engine.settings import Settings
from engine.steering.decode import Row
from engine.steering.fluency import repetition, text_perplexities
from engine.steering.references import anchor_key
from engine.steering.vectors import Side, Standards, alphas_reaching, edit_of
from engine.studies.cap_config import CapConfig, Progress, divide, with_text
from engine.studies.cap_tutor import Ask, Draft, Tutor, limit_of, plain_prompt

SIDES: tuple[Side, ...] = ("high", "low")


def alphas_of(config: CapConfig, standards: Standards, prompts_end: np.ndarray) -> dict[Side, list[float]]:
    """The strengths to try on each side: 0, those named, and those that reach the wanted relative edits.

    Args:
        config: the study.
        standards: of the chosen layer.
        prompts_end: activations (n, d) where edits begin, which decide how large an edit an alpha makes.
    """
    return {
        side: sorted({0.0, *config.alphas, *alphas_reaching(prompts_end, standards, side, config.reach, config.form)})
        for side in SIDES
    }


def steered_texts(
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    rows: Sequence[tuple[Request, Side, float]],
    config: CapConfig,
    checkpoint: Checkpoint,
) -> list[Draft]:
    """A steered text for each row, all in batches of one decode; known ones come from the cache."""
    limit = limit_of(rows[0][0].task, config.new_tokens)
    asks = []
    for request, side, alpha in rows:
        ids = tutor.ids(plain_prompt(request))
        key = anchor_key(
            tutor.loaded.fingerprint, judge.fingerprint, ids, side, standards, alpha, config.form, config.seed, limit
        )
        asks.append(Ask(ids, Row(0), key))
    edit = edit_of(standards, [(side, alpha) for _, side, alpha in rows], config.form)
    return tutor.write(asks, limit, edit, checkpoint)


def sweep(
    config: CapConfig,
    contexts: Sequence[Request],
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    alphas: dict[Side, list[float]],
    progress: Progress,
) -> pd.DataFrame:
    """The sweep as a table `cap_sweep`: every text with the undefended judge's score and the fluency meters."""
    rows = [(r, side, alpha) for side, own in alphas.items() for alpha in own for r in contexts]
    drafts = steered_texts(tutor, judge, standards, rows, config, progress.part(len(rows)))
    texts = [draft.text for draft in drafts]
    asked = [k for k, text in enumerate(texts) if text]
    requests = with_text([r for r, *_ in rows], texts)
    verdicts = dict(zip(asked, judge.judge([requests[k] for k in asked], progress.part(len(rows))), strict=True))
    perplexity = text_perplexities(tutor.loaded, texts)
    return pd.DataFrame(
        [
            {
                "side": side,
                "form": config.form,
                "layer": standards.layer,
                "alpha": alpha,
                "item_id": request.item_id,
                "text": draft.text,
                "score": verdicts[k].score if k in verdicts else np.nan,
                "unread_reason": (verdicts[k].unread_reason or None) if k in verdicts else "the tutor wrote nothing",
                "relative_edit": draft.relative_edit,
                "perplexity": perplexity[k],
                "repetition": repetition(draft.text),
                "words": len(draft.text.split()),
            }
            for k, ((request, side, alpha), draft) in enumerate(zip(rows, drafts, strict=True))
        ]
    )


class SweepConfig(BaseModel):
    """Further alphas for a finished study."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study_id: str
    judge: str
    data: str
    high: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    reach: float | None = Field(default=None, gt=0, lt=1)
    run_id: str | None = None


def sweep_job(config: SweepConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, object]:
    """Extend the sweep of a run: named alphas, or those that reach one relative edit on both sides.

    Raises:
        RunError: there is no such run.
        InputError: the run has no vectors, or no alpha is named.
    """
    from engine.studies.cap import load_tutor

    run = open_run(settings.runs, config.study_id)
    study = CapConfig.model_validate(run.manifest()["config"])
    standards, prompts_end = stored_standards(run), np.array(run.manifest()["cap"]["prompts_end"])
    wanted: dict[Side, list[float]] = {"high": list(config.high), "low": list(config.low)}
    if config.reach:
        for side in SIDES:
            wanted[side] += alphas_reaching(prompts_end, standards, side, [config.reach], study.form)
    if not any(wanted.values()):
        raise InputError("Name at least one alpha, or a relative edit to reach.")
    contexts = divide(study, load_dataset(study.data, settings.datasets)).training
    total = 2 * len(contexts) * sum(map(len, wanted.values()))
    judge, tutor = make_judge(study.judge, settings), load_tutor(study.tutor, settings)
    more = sweep(study, contexts, tutor, judge, standards, wanted, Progress(checkpoint, total))
    table = pd.concat([run.table("cap_sweep"), more], ignore_index=True)
    run.write_table("cap_sweep", table.drop_duplicates(["side", "form", "alpha", "item_id"], keep="last"))
    return {"run_id": run.run_id}


def stored_standards(run: RunFolder) -> Standards:
    """The standard vectors of a run.

    Raises:
        InputError: it has none.
    """
    table = run.table("cap_vectors")
    if table.empty:
        raise InputError(f"The run {run.run_id} has no standard vectors. Run the study again.")
    row = table.iloc[0]
    return Standards(int(row["layer"]), np.array(row["high"]), np.array(row["low"]), float(row["mean_norm"]))
