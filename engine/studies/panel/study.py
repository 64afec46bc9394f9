"""Panel: several judges of the same data, side by side and as one; no judge is asked."""

from __future__ import annotations

from typing import Any, Literal

from engine.runs.folder import RunFolder
from engine.studies.panel.tables import JUDGES, PANEL, VOTES
from engine.studies.study import Context, Study, StudyConfig, Summary

MOST_JUDGES = 20


class PanelConfig(StudyConfig):
    """Settings of a panel; its manifest holds them.

    Attributes:
        runs: names of runs that hold verdicts of one judge each, on the same data.
        judges: recordings, `recorded:FILE?...`; every judge that a recording holds joins the panel.
        data: responses or pairs with people's labels; by default those that the first run was made on.
        protocol: of the verdicts that are compared; by default the one with most verdicts that all judges share.
        seed: of the bootstrap, and of the halves in which attacks are chosen.
    """

    runs: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    data: str = ""
    protocol: Literal["", "pairwise", "pointwise", "verifier"] = ""
    seed: int = 0


class Panel(Study):
    """The panel as the registry knows it."""

    kind = "panel"
    names = ("panel",)
    title = "Panel of judges"
    config = PanelConfig
    tables = (VOTES, JUDGES, PANEL)
    table_shown = "panel"
    shown_when_done = True
    resumable = False
    several = True

    def prepare(self, config: PanelConfig, context: Context) -> PanelConfig:  # noqa: ARG002 - data may not be there
        """The settings as they are: runs and recordings are opened when it runs."""
        return config

    def run(self, config: PanelConfig, context: Context, folder: RunFolder) -> None:
        """Read the verdicts, compare the judges, write the tables."""
        from engine.studies.panel.run import run_panel

        run_panel(config, context, folder)

    def plan(self, config: PanelConfig, context: Context) -> tuple[dict[str, Any], str]:  # noqa: ARG002 - a hook
        """Nothing: every verdict is there already."""
        nothing = {"verdicts": 0, "calls": 0, "tokens": 0, "known": 0, "seconds": 0.0}
        return nothing, "No call: a panel reads verdicts that are there already."

    def summary(self, config: PanelConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """Judges and panel beside people, effective votes, transfer and self-preference."""
        from engine.studies.panel.metrics import panel_lines

        about, table = folder.manifest()["panel"], folder.table("panel")
        judges = folder.table("panel_judges").to_dict("records")
        record = {"panel": about, "judges": judges, "numbers": table.to_dict("records")}
        return Summary("\n".join(panel_lines(about, table)), record)


STUDY = Panel()
