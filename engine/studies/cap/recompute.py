"""Metrics of a finished CAP run computed again from its stored tables; no model is asked.

`python -m engine.studies.cap.recompute FOLDER` mends a run of an earlier version, in which a reply that was withheld
from the judge counted as one of no tokens, and adds what that version did not count: distances from the undefended
clean score, and the gap of human-rated anchors. Every other row stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from engine.core.schema import METRICS, NONE
from engine.core.settings import Settings, get_settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.anchors import Anchors
from engine.runs.folder import RunFolder, open_run
from engine.stats.shifts import from_undefended
from engine.studies.anchors import sources_for
from engine.studies.cap.arms import AnchorSets
from engine.studies.cap.contexts import divide
from engine.studies.cap.metrics import cost_rows, diagnosis_rows
from engine.studies.cap.study import ANCHORED, EXCHANGED, HUMAN, CapConfig

KEY = ["metric", "attack", "defense"]
TOKENS = ("tokens_alone", "tokens_shared")


def recompute(run: RunFolder, dataset: Dataset, settings: Settings) -> pd.DataFrame:
    """The run's table `metrics` with these rows in place of its earlier ones.

    Tokens of an arm are counted again where a reply was withheld, for arms whose cost its tables hold: those with
    anchors (what both took is stored as two halves, so to one token).

    Args:
        run: a finished run; it is not changed.
        dataset: the data it judged.
        settings: where the data's ratings are.

    Raises:
        InputError: the run's settings or data are not those of this version.
    """
    config = CapConfig.model_validate(run.manifest()["config"])
    contexts = divide(config, dataset)
    verdicts, metrics, table = (run.table(name) for name in ("verdicts", "metrics", "cap_anchors"))
    new: list[dict[str, object]] = []
    for arm in (name for name in ANCHORED if (verdicts["defense"] == name).any()):
        of_arm = verdicts[verdicts["defense"] == arm]
        if of_arm["unread_reason"].notna().any():
            new += [r for r in cost_rows(of_arm, _made(table, arm), {}, config) if r["metric"] in TOKENS]
    if (verdicts["defense"] == HUMAN).any():
        rated = sources_for([HUMAN], dataset, settings)[HUMAN].anchors(contexts.responses)
        by_response = {r.response_id: a for r, a in zip(contexts.responses, rated, strict=True)}
        anchors = AnchorSets({}, {HUMAN: by_response}, table)
        rows = diagnosis_rows(verdicts[verdicts["attack"] == NONE], anchors, contexts, config)
        new += [r for r in rows if (r["metric"], r["defense"]) == ("anchor_gap", HUMAN)]
    compared = verdicts[~verdicts["defense"].str.endswith(EXCHANGED)]
    distances = from_undefended(compared, level=config.level, seed=config.seed)
    fresh = pd.concat([METRICS.conform(pd.DataFrame(new)) if new else METRICS.empty(), distances])
    return METRICS.conform(_merged(metrics, fresh))


def _made(table: pd.DataFrame, arm: str) -> Mapping[str, Anchors]:
    sums = table[table["arm"] == arm].groupby("item_id")["tokens"].sum()
    return {str(item): Anchors(tokens=int(n)) for item, n in sums.items()}


def _merged(metrics: pd.DataFrame, fresh: pd.DataFrame) -> pd.DataFrame:
    """The old rows in their order, each replaced where there is a new one of its arm; the others behind them."""
    old, new = metrics.set_index(KEY), fresh.set_index(KEY)
    both = pd.concat([old[~old.index.isin(new.index)], new])
    order = [*old.index, *(k for k in new.index if k not in old.index)]
    return both.loc[order].reset_index()


def main() -> None:
    """Compute the run in the folder given again, and print the rows that changed."""
    folder = Path(sys.argv[1]).resolve()
    settings = get_settings()
    run = open_run(folder.parent, folder.name)
    before = run.table("metrics")
    after = recompute(run, load_dataset(str(run.manifest()["config"]["data"]), settings.datasets), settings)
    run.write_table("metrics", after)
    both = after.merge(before, on=KEY, how="left", suffixes=("", "_before"))
    for row in both[both["level_before"].isna() | (both["value"] != both["value_before"])].to_dict("records"):
        old = "new" if pd.isna(row["level_before"]) else f"{row['value_before']:.4g}, n {row['n_before']:.0f}"
        print(
            f"{row['metric']:<16} {row['attack']:<9} {row['defense']:<14} {old} -> {row['value']:.4g} "
            f"[{row['lower']:.4g}, {row['upper']:.4g}], n {row['n']}, unread {row['n_unread']}"
        )


if __name__ == "__main__":
    main()
