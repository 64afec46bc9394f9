"""Recorded: verdicts that somebody already has, and every number that needs no judge."""

from __future__ import annotations

from typing import Any

from engine.runs.folder import RunFolder
from engine.studies.study import Context, Study, StudyConfig, Summary


class RecordedConfig(StudyConfig):
    """Settings of a run.

    Attributes:
        judge: `recorded:FILE?...`, see `engine.judges.recorded`.
        seed: of the bootstrap.
    """

    judge: str
    seed: int = 0


class Recorded(Study):
    """Recorded verdicts as the registry knows them."""

    kind = "recorded"
    names = ("recorded",)
    title = "Recorded verdicts"
    config = RecordedConfig
    resumable = False

    def stored(self, config: RecordedConfig) -> dict[str, Any]:
        """The settings that decide the numbers."""
        return config.model_dump(exclude={"run_id"})

    def run(self, config: RecordedConfig, context: Context, folder: RunFolder) -> None:
        """Read the file; write its verdicts, arms as recorded, and their metrics."""
        from engine.studies.recorded.run import run_recorded

        run_recorded(config, folder, context.settings.model_roots)

    def summary(self, config: RecordedConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """Calls read and left out, every metric with its interval, and remarks on what ratings rest on."""
        from engine.studies.recorded.metrics import recorded_remarks

        about, metrics = folder.manifest()["recording"], folder.table("metrics")
        calls = f"{about['n_calls']:,} calls, {about['n_read']:,} read"
        lines = [f"{about['n_records']:,} records, layout {about['layout']}: {calls}."]
        for kind in ("unread", "left_out"):
            lines += [f"{kind.replace('_', ' ')}: {n:,} ({reason})" for reason, n in about[kind].items()]
        if passed := about.get("pass"):
            lines.append("pass beside the scores: " + ", ".join(f"{word} {n:,}" for word, n in passed.items()))
        lines += about.get("warnings", [])
        for row in metrics.itertuples():
            value = f"{row.value:7.3f} [{row.lower:.3f}, {row.upper:.3f}]"
            name = f"{row.metric!s} {row.group!s}".removesuffix(" nan")
            lines.append(f"{row.attack:<12} {row.defense:<12} {name:<32} {value:<26} n {row.n}, unread {row.n_unread}")
        remarks = recorded_remarks(folder.table("verdicts"))
        record = {"recording": about, "metrics": metrics.to_dict("records"), "remarks": remarks}
        return Summary("\n".join([*lines, *remarks]), record)


STUDY = Recorded()
