"""Figures of the study `claims`: a forest for each paper; and the results that ship with the project."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd

from engine.core.errors import EngineError
from engine.core.json import read_toml
from engine.plots.claims import COLUMNS, plot_claims
from engine.studies.claims.study import ClaimsConfig
from engine.studies.claims.tables import CLAIMS
from engine.studies.figure import FigureData, FigureSpec, Source, Values

PAPERS = {
    "CAP": "Steering and anchors (CAP)",
    "PUAudit": "Transport audit (PUAudit)",
    "RefSwap": "Reference swap (RefSwap)",
    "Protocols": "Pairwise or pointwise",
}
"""Papers of the claims and what they are called."""
SETS = {
    "topicalchat": "TopicalChat", "summeval": "SummEval", "llmbar": "LLMBar", "pandalm": "PandaLM",
    "mtbench": "MT-bench", "mtbench-clean": "MT-bench, clean", "ifeval": "IFEval ladder", "gsm8k": "GSM8K",
    "math": "MATH", "verifybench_hard": "VerifyBench-hard",
}  # fmt: skip


def frozen_claims(assets: Path) -> ClaimsConfig:
    """The claims that ship with the project.

    Raises:
        EngineError: the file is missing or wrong.
    """
    path = assets / "studies" / "claims.toml"
    try:
        held = read_toml(path.read_bytes())
        held.pop("study", None)
        return ClaimsConfig.model_validate(held)
    except (OSError, ValueError) as error:
        raise EngineError(f"{path.name} cannot be used: {error}. Restore it from the project.") from None


def stored_claims(assets: Path) -> pd.DataFrame:
    """The decided claims that ship with the project: table `claims` with commit, date and command.

    Recordings of strong judges come first; empty where none was decided.

    Raises:
        EngineError: the file cannot be read.
    """
    path = assets / "results" / "claims.csv"
    if not path.is_file():
        return CLAIMS.empty().assign(commit="", date="", command="")
    try:
        table = pd.read_csv(path)
        out = CLAIMS.conform(table)
    except (OSError, ValueError, EngineError) as error:
        raise EngineError(f"{path.name} cannot be used: {error}. Restore it from the project.") from None
    for column in ("commit", "date", "command"):
        out[column] = table[column].fillna("").astype(str)
    recorded = out["judge"].str.startswith("recorded:")
    return pd.concat([out[recorded], out[~recorded]], ignore_index=True)


def forest_rows(table: pd.DataFrame, config: ClaimsConfig, paper: str) -> pd.DataFrame:
    """The rows of one paper as `plot_claims` takes them, in the order of the frozen file.

    Args:
        table: `claims`, of one judge.
        config: with the frozen claims.
        paper: one of `PAPERS`.
    """
    by_id = {one.id: one for one in config.claim}
    order = {one.id: i for i, one in enumerate(config.claim)}
    rows = table[(table["paper"] == paper) & table["claim"].isin(list(by_id))]
    rows = rows.iloc[rows["claim"].map(order).argsort(kind="stable")] if len(rows) else rows
    frame = rows.assign(
        statement=[by_id[c].statement for c in rows["claim"]],
        published=[f"{by_id[c].published} ({by_id[c].place})" for c in rows["claim"]],
        test=[by_id[c].test for c in rows["claim"]],
        unit=[by_id[c].unit for c in rows["claim"]],
        where=[SETS.get(str(s), str(s)) for s in rows["set"]],
    )
    return frame[list(COLUMNS)].reset_index(drop=True)


def _make(paper: str, source: Source, _: Values) -> FigureData:
    config = ClaimsConfig.model_validate(source.config)
    rows = forest_rows(source.table("claims"), config, paper)
    demo = "" if config.data or config.shipped else "bundled demo data: no result of the claims"
    return FigureData(rows, {"title": PAPERS[paper]}, (demo,) if demo else ())


def _missing(paper: str, source: Source) -> str:
    try:
        table = source.table("claims")
    except EngineError as error:
        return str(error)
    return "" if (table["paper"] == paper).any() else f"no claim of {paper} was decided."


ENTRIES = tuple(
    FigureSpec(
        "claims", f"forest-{paper.lower()}", f"Which claims hold? {title}", partial(_make, paper),
        plot_claims, (), partial(_missing, paper),
    )
    for paper, title in PAPERS.items()
)  # fmt: skip
