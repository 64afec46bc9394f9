"""`judgescope bench results`: writes docs/results.md from the stored results; nothing is typed in."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.bench.judge_card import read_figures
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.judges.card_files import DEFAULT_MODEL
from engine.report.methods import benches
from engine.runs.folder import RunFolder
from engine.studies.claims.figures import PAPERS, SETS, frozen_claims, stored_claims

SCORED = ("dialogue", "summary", "instruction")
"""Demo sets with recorded runs of the bundled judges as scorers."""
DEMO_RUNS = (("careful", "run"), ("naive", "naive"))
"""Judge and id of its recorded run of each demo set."""
CARDS = (("careful", "judge"), ("naive", "naive"))
"""Judge and folder of its adapter in assets."""
STRONG = (
    ("first slot wins", "first slot"), ("orders differ", "orders differ"), ("agreement", "agreement with labels"),
    ("audit: gain", "audit: gain"), ("audit: over random flips", "audit: gain over random flips"),
)  # fmt: skip
"""Columns of the strong judges on LLMBar: title and claim."""
STRONG_MT = (("first slot wins", "first slot"), ("orders differ", "orders differ"), ("ties", "ties"))
CARD = (
    ("summeval_spearman", "SummEval, Spearman with the mean expert rating"),
    ("anchored_summeval_spearman", "SummEval with anchors, Spearman"),
    ("topicalchat_spearman", "TopicalChat, Spearman with the overall rating"),
    ("anchored_topicalchat_spearman", "TopicalChat with anchors, Spearman"),
    ("pair_accuracy", "Human-labelled pairs, accuracy over both orders"),
    ("first_slot_rate", "Pairs, first-slot rate"),
    ("order_agreement", "Pairs, both orders agree"),
    ("verification_accuracy", "GSM8K solutions against the reference, accuracy"),
    ("llmbar_adversarial_accuracy", "LLMBar adversarial pairs, accuracy"),
    ("topicalchat_dsi_shift", "TopicalChat, shift by DSI, points"),
    ("topicalchat_bed_shift", "TopicalChat, shift by BED, points"),
)
"""Figures of the bundled judges' model cards."""


def add_results(kinds: Any) -> None:
    """Add `bench results`."""
    one = kinds.add_parser("results", help="write docs/results.md from the stored results")
    one.add_argument(
        "--out", type=Path, default=Path("docs/results.md"), metavar="FILE", help="by default docs/results.md"
    )
    one.add_argument("--check", action="store_true", help="only say whether the file is what would be written")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Write the page, or compare it with the one that is there.

    Raises:
        InputError: with --check, where the file differs.
    """
    text = page(get_settings().assets)
    if args.check:
        if not args.out.is_file() or args.out.read_text(encoding="utf-8") != text:
            raise InputError(f"{args.out} is not what the stored results give. Run `judgescope bench results`.")
    else:
        args.out.write_text(text, encoding="utf-8")
    print(f"{args.out}: {text.count(chr(10))} lines from assets/results, assets/demo and the judges' figures.")
    return {"file": args.out.name, "lines": text.count("\n")}


def page(assets: Path) -> str:
    """The page as Markdown."""
    parts = [
        "# Results\n",
        "Made by `judgescope bench results` from `assets/results`, `assets/demo` and the `figures.json` of each judge. "
        "Every row names the command that measured it. Intervals are 95 %, with items as clusters.\n",
        "## What holds\n",
        f"The claims of the four papers, frozen on {frozen_claims(assets).frozen} in `assets/studies/claims.toml` with "
        "estimand, least relevant effect and test, and decided by `judgescope bench claims` on public data. Values are "
        "on each claim's own scale, positive where it goes the published way. Details: [papers](papers.md).\n",
        *_claim_parts(assets),
        "## Strong judges, from their recordings\n",
        "Nobody was asked: verdicts that others published, as they ship (`assets/demo/llmbar`, `assets/demo/mtbench`); "
        "`judgescope bench strong`, all rows in `assets/results/strong.csv`. Agreement is with LLMBar's objective "
        "labels; an audit (PUAudit, one transport) stands beside as many random flips.\n",
        _markdown(("judge", *(title for title, _ in STRONG)), _strong_rows(assets, "LLMBar", STRONG)),
        _markdown(("judge on MT-bench", *(t for t, _ in STRONG_MT)), _strong_rows(assets, "MT-bench", STRONG_MT)),
        "## Two bundled judges on the demo sets\n",
        "Same base model, two recipes. Recorded on a CPU in float32. Remake a row with the command of its judge and "
        "data set:\n",
        *(f"- {judge}, {name}: `{_command(_run(assets, name, run))}`" for judge, run in DEMO_RUNS for name in SCORED),
        "",
        _markdown(("judge", "data", "attack", "defense", "n", "clean", "shift [95 %]", "q"), _demo_rows(assets)),
        "## How good the bundled judges are\n",
        "Held-out figures of the shipped adapters and of a second seed of each recipe, from `judgescope bench judge "
        "--data DIR`. The model cards have the bars, the recipes and the limits.\n",
        _markdown(("judge", "figure", "shipped", "second seed", "n"), _card_rows(assets)),
        "## Speed\n",
        "Details, floors and what is not fast: [speed](speed.md).\n",
        _markdown(("what", "ours", "plain way", "gain", "device", "command"), _bench_rows(assets)),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _strong_rows(assets: Path, data: str, columns: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """A row a judge: the claims named, over all pairs, under the plain prompt with one transport."""
    table = pd.read_csv(assets / "results" / "strong.csv", keep_default_na=False, na_values=[""])
    plain = ~table["prompt"].fillna("").str.contains("Rating|each type")
    whole = table[(table["data"] == data) & table["group"].isna() & plain]
    rows = []
    for judge, own in whole.groupby("judge", sort=False):
        found = own.set_index("claim")
        cells = found.loc[[claim for _, claim in columns], ["value", "lower", "upper"]].to_numpy(dtype=float)
        rows.append((str(judge), *(_interval(*cell) for cell in cells)))
    return rows


def _named(table: pd.DataFrame) -> Iterator[Any]:
    """The rows with their columns as attributes."""
    return iter(table.itertuples())


def _claim_parts(assets: Path) -> Iterator[str]:
    """A table for each judge, and the commands they were made by."""
    table, frozen = stored_claims(assets), frozen_claims(assets)
    by_id = {one.id: one for one in frozen.claim}
    head = ("paper", "claim", "published", "data", "here", "items", "verdict")
    for judge, own in table.groupby("judge", sort=False):
        counted = own["verdict"].value_counts()
        said = ", ".join(f"{verdict} {n}" for verdict, n in counted.items())
        made = own[["device", "commit", "date"]].fillna("").drop_duplicates().itertuples(index=False)
        places = "; ".join(f"{device}, commit {commit}, {date}" for device, commit, date in made if device)
        yield f"### {judge}\n"
        yield f"{said}. {places}.\n"
        rows: list[tuple[str, ...]] = [
            (
                PAPERS[str(row.paper)],
                by_id[str(row.claim)].statement,
                by_id[str(row.claim)].published,
                SETS.get(str(row.set), str(row.set)),
                _interval(row.value, row.lower, row.upper) if row.value == row.value else "",
                "" if pd.isna(row.n_items) else str(row.n_items),
                f"**{row.verdict}**" + (f": {row.reason}" if isinstance(row.reason, str) else ""),
            )
            for row in _named(own)
        ]
        yield _markdown(head, rows)
        yield "\n".join(f"- `{command}`" for command in dict.fromkeys(own["command"])) + "\n"
    if table.empty:
        yield "None was decided at full size yet.\n"


def _run(assets: Path, name: str, run: str) -> RunFolder:
    return RunFolder(assets / "demo" / name / run)


def _command(run: RunFolder) -> str:
    """The command that records a demo run anew, from its manifest."""
    config = run.manifest()["config"]
    arms = [f"--attack {name}" for name in config["attacks"]] + [f"--defense {name}" for name in config["defenses"]]
    place = f"assets/demo/{run.path.parent.name}"
    judge = f"--judge {config['judge']} " if config["judge"] != DEFAULT_MODEL else ""
    return f"judgescope score {config['data']} {judge}{' '.join(arms)} --out {place} --run-id {run.run_id} --recorded"


def _demo_rows(assets: Path) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for judge, name, run in ((judge, name, run) for name in SCORED for judge, run in DEMO_RUNS):
        metrics = _run(assets, name, run).table("metrics")
        means = metrics[(metrics["metric"] == "mean") & (metrics["attack"] == NONE)].set_index("defense")["value"]
        for row in _named(metrics[metrics["metric"] == "shift"]):
            clean, shift = f"{means[row.defense]:.2f}", _interval(row.value, row.lower, row.upper)
            rows.append((judge, name, str(row.attack), str(row.defense), str(row.n), clean, shift, _p(row.q_value)))
    return rows


def _card_rows(assets: Path) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    found = {name: read_figures(assets / folder / "figures.json") for name, folder in CARDS}
    for name, figures, (key, title) in ((name, figures, one) for name, figures in found.items() for one in CARD):
        first, second = figures["shipped"][key], figures["second"][key]
        values = [f"{one['value']:.3f} [{one['lower']:.3f}, {one['upper']:.3f}]" for one in (first, second)]
        rows.append((name, title, *values, f"{first['n']:,}"))
    return rows


def _bench_rows(assets: Path) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for row in benches(assets).to_dict("records"):
        bar = f" (bar {row['bar']}{'' if row['met'] else ', missed'})" if row["bar"] else ""
        plain = "" if math.isnan(row["plain"]) else f"{row['plain']:.3g} {row['unit']} ({row['plain_is']})"
        gain = "" if math.isnan(row["ratio"]) else f"{row['ratio']:.3g}x"
        ours = f"{row['value']:.3g} {row['unit']}"
        rows.append((f"{row['what']}{bar}", ours, plain, gain, str(row["device"]), f"`{row['command']}`"))
    return rows


def _interval(value: float, lower: float, upper: float) -> str:
    return f"{value:+.2f} [{lower:+.2f}, {upper:+.2f}]".replace("-", "−")


def _p(value: float) -> str:
    return "" if pd.isna(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
