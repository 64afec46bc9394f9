"""Taking a run up again: an interrupted one goes on, and of a finished one only the unread calls are asked anew."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.core.errors import InputError, RunError
from engine.core.plugins import absent
from engine.core.settings import Settings
from engine.judges.base import Checkpoint
from engine.runs.folder import PLUGINS, RETRY, RunFolder, now, open_run, state_of, versions
from engine.runs.library import unread_of
from engine.studies.registry import study_of_manifest
from engine.studies.study import Context
from engine.studies.transport_audit.study import IN_DATA


class RetryConfig(BaseModel):
    """The run whose unread calls are asked again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str


def resume_run(run_id: str, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Go on with a run that did not come to its end; what was answered comes from the cache.

    Raises:
        RunError: there is no such run, or it is going.
        InputError: it is done, or its study cannot be run from here.
    """
    run = open_run(settings.runs, run_id)
    state = state_of(run.manifest())
    if state == "running":
        raise RunError(f"The run {run_id} is going already.")
    if state == "done":
        raise InputError(f"The run {run_id} is done. `judgescope runs retry {run_id}` asks its unread calls again.")
    _require_same_judge(run, settings)
    return _again(run, settings, checkpoint)


def retry_job(config: RetryConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Ask a finished run's unread calls again, keeping every read one; then its metrics are made anew.

    Returns:
        run_id, unread_before, unread_after and the reasons that are left.

    Raises:
        RunError: there is no such run, it is going, or was made by another judge or version.
        InputError: nothing is unread, or its study cannot be run from here.
    """
    run = open_run(settings.runs, config.run_id)
    manifest = run.manifest()
    state = state_of(manifest)
    if state == "running":
        raise RunError(f"The run {config.run_id} is going already.")
    before = unread_of(run.table("verdicts"))
    if not before.total:
        raise InputError(f"Every one of the {before.calls:,} calls of the run {config.run_id} was read.")
    about = {
        "since": now(),
        "fingerprint": manifest.get("judge", {}).get("fingerprint", ""),
        "version": manifest.get("versions", {}).get("judgescope", ""),
    }
    if about["version"] != versions()["judgescope"]:
        raise RunError(
            f"The run was made by version {about['version']} and this is {versions()['judgescope']}: numbers of both "
            "would stand in one table. Start the study anew."
        )
    _require_same_judge(run, settings)
    run = run.claimed()
    try:
        run.update_manifest(**{RETRY: about})
        try:
            _again(run, settings, checkpoint)
        finally:
            _without_mark(run)
    finally:
        run.release()
    after = unread_of(run.table("verdicts"))
    return {
        "run_id": config.run_id,
        "unread_before": before.total,
        "unread_after": after.total,
        "reasons": after.reasons,
    }


def _again(run: RunFolder, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    manifest = run.manifest()
    study = study_of_manifest(manifest)
    if study is None or not study.resumable:
        lacks = absent(manifest.get(PLUGINS)).rstrip(".")
        why = "its study asks no judge" if study else lacks or "no such study is known here"
        raise InputError(f"A run of {manifest.get('study')!r} cannot be taken up again: {why}.")
    settled = {k: v for k, v in dict(manifest.get("config", {})).items() if k != "budget_seconds"}
    try:
        config = study.config.model_validate({**settled, "run_id": run.run_id})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"The run {run.run_id} has a setting that this version does not know: "
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}. Start the study anew."
        ) from None
    return study.job(config, Context(settings, checkpoint), run.path.parent, str(manifest.get("study")))


def _require_same_judge(run: RunFolder, settings: Settings) -> None:
    """Refuse where another judge would answer than the one the run was made with.

    Raises:
        RunError: its weights, prompts or card are others by now.
    """
    manifest = run.manifest()
    spec = str(manifest.get("config", {}).get("judge") or "")
    was = manifest.get("judge", {}).get("fingerprint", "")
    if not spec or spec == IN_DATA or not was:
        return
    if Context(settings).judge(spec).fingerprint != was:
        raise RunError(
            f"{spec} is not the judge this run was made with any more: its weights, its prompts or a card given with "
            f"--judge-card differ. Run the study's own command with --run-id {run.run_id} and that card, or start anew."
        )


def _without_mark(run: RunFolder) -> None:
    manifest = run.manifest()
    manifest.pop(RETRY, None)
    run.write_manifest(manifest)
