"""`judgescope bench strong`: recorded verdicts of strong judges: what ships of them, and the claims they can answer.

    judgescope bench strong --data DIR --ship                         assets/demo/llmbar, assets/demo/mtbench
    judgescope bench strong --out assets/results/strong.csv           the claims, from what ships; no judge is asked

LLMBar (Zeng et al. 2023, MIT): six judges, 65 ways of asking, both orders, objective labels. MT-bench (Zheng et al.
2023, Apache-2.0; verdicts of later judges MIT): three judges on 31 systems against one, nine judges asked three times,
and majority votes of people. Facts ship, texts do not: see the cards beside the data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.bench.verifier import write_rows
from engine.core.errors import InputError
from engine.core.settings import Settings, get_settings
from engine.data.comparisons import DEMO_LLMBAR, load_comparisons, read_comparisons
from engine.data.embeddings import SPEC, packed
from engine.judges.base import no_checkpoint
from engine.judges.recorded import make_recorded
from engine.runs.folder import RunFolder
from engine.stats.intervals import Interval, cluster_rate
from engine.stats.paired import difference_of_rates
from engine.studies.transport_audit.metrics import decisions, metric_of_pairs, per_pair, read_audit
from engine.studies.transport_audit.run import run_transport_audit
from engine.studies.transport_audit.study import STUDY, AuditConfig
from engine.training.sources import DEFAULT_DATA, read_lines
from engine.transport.encoders import Text, make_encoder

Floats = npt.NDArray[np.float64]
LLMBAR_FILE = "llmbar/recorded_verdicts.csv"
MTBENCH_FILES = ("mtbench/recorded_verdicts_both_orders.csv", "mtbench/recorded_verdicts_repetition.csv")
LLMBAR_JUDGES = {
    "GPT-4": "GPT-4", "ChatGPT": "ChatGPT", "ChatGPT-0301": "ChatGPT (March 2023)", "PaLM2": "PaLM 2",
    "LLaMA2": "LLaMA 2 70B", "Falcon": "Falcon 180B",
}  # fmt: skip
MTBENCH_JUDGES = {
    "gpt-4-0613": "GPT-4 (0613)", "gpt-3.5-turbo-1106": "GPT-3.5 Turbo (1106)", "gemini-pro": "Gemini Pro",
}  # fmt: skip
MAIN, RATED = "Vanilla", "Rating"
"""LLMBar's plain pairwise and plain pointwise way of asking."""
COMMON = "vicuna-13b-v1.3"
"""The system that every other one was compared with in MT-bench's verdicts in both orders."""
ENCODER = "bundled:minilm"
NATURAL = "Natural"


def add_strong(kinds: Any) -> None:
    """Add `bench strong` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("strong", help="strong judges' recorded verdicts: ship them, and what they answer")
    one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets, for --ship")
    one.add_argument("--ship", action="store_true", help="write what ships of them to assets/demo")
    one.add_argument("--out", type=Path, metavar="FILE", help="write the claims there, as CSV")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Ship the data, or print the claims and write them.

    Raises:
        InputError: a data file is missing, or what ships is not there yet.
    """
    settings = get_settings()
    if args.ship:
        files = [*ship_llmbar(args.data, settings), *ship_mtbench(args.data, settings)]
        for path in files:
            print(f"{path.relative_to(settings.assets)}: {path.stat().st_size:,} bytes")
        return {"files": [path.name for path in files]}
    rows = claims(settings)
    for row in rows:
        print(_line(row))
    if args.out:
        write_rows(args.out, rows)
    return {"rows": rows}


# What ships.


def ship_llmbar(data: Path, settings: Settings) -> list[Path]:
    """Ids, types, labels, verdicts and ratings of LLMBar, and the vectors of its texts; no text.

    Raises:
        InputError: a file is missing.
    """
    folder = _folder(settings, "llmbar")
    read_lines_of = list(read_lines(data, "llmbar/pairs.jsonl"))
    pairs = pd.DataFrame(read_lines_of)[["id", "subset", "label"]].set_axis(["comparison_id", "type", "human"], axis=1)
    held = _csv(data, LLMBAR_FILE)
    verdicts = held[["judge", "prompt", "id", "winner_order_ab", "winner_order_ba"]]
    verdicts = verdicts.set_axis(["judge", "prompt", "comparison_id", "outcome_ab", "outcome_ba"], axis=1)
    ratings = held[["judge", "prompt", "id", "score_a", "score_b"]].dropna(subset=["score_a", "score_b"], how="all")
    ratings = ratings.rename(columns={"id": "comparison_id"}).astype({"score_a": float, "score_b": float})
    tables = {"pairs": pairs, "verdicts": verdicts, "ratings": ratings, "embeddings": packed(_vectors(data, settings))}
    listed = [
        {"title": title, "where": {"judge": judge, "prompt": MAIN}, "n": 2 * len(pairs)}
        for judge, title in LLMBAR_JUDGES.items()
    ]
    return _write(folder, tables, {"name": "LLMBar", "judges": listed})


def _vectors(data: Path, settings: Settings) -> dict[str, Floats]:
    """Vectors of every response that fits the encoder's window, by response id."""
    content = (data / "llmbar" / "pairs.jsonl").read_bytes()
    found = read_comparisons("pairs.jsonl", content)
    prompts = found.items.set_index("item_id")["context"]
    columns = found.responses[["item_id", "response_id", "text"]].itertuples(index=False, name=None)
    texts = [Text(str(prompts[item]), text, response) for item, response, text in columns]
    encoded = make_encoder(ENCODER, settings, found).encode(texts, no_checkpoint)
    return {t.response_id: encoded.vectors[i] for i, t in enumerate(texts) if i not in encoded.left_out}


def ship_mtbench(data: Path, settings: Settings) -> list[Path]:
    """Verdicts of MT-bench's judges by question and systems, and people's majority votes; no text.

    Raises:
        InputError: a file is missing.
    """
    names = {"question_id": "item_id", "model_shown_first": "system_first", "model_shown_second": "system_second"}
    verdicts, repeats = (_csv(data, name).rename(columns=names) for name in MTBENCH_FILES)
    for table in (verdicts, repeats):
        table["item_id"] = "q" + table["item_id"]
        table["slot_verdict"] = table.pop("verdict")
    tables = {"verdicts": verdicts.drop(columns="output_chars"), "repeats": repeats, "votes": _votes(data)}
    counts = verdicts["judge"].value_counts()
    listed = [{"title": t, "where": {"judge": judge}, "n": int(counts[judge])} for judge, t in MTBENCH_JUDGES.items()]
    return _write(_folder(settings, "mtbench"), tables, {"name": "MT-bench", "judges": listed})


def _votes(data: Path) -> pd.DataFrame:
    """People's majority votes on two systems' answers, found by their texts: item_id, system_a, system_b, human.

    LLMBar's authors kept 200 without ties and without naming the systems. An answer that two systems gave, or none
    of the 31, names none; that pair is left out.
    """
    questions = {_plain(q["turn1"]): q["question_id"] for q in read_lines(data, "mtbench/questions.jsonl")}
    systems: dict[tuple[int, str], set[str]] = {}
    for row in read_lines(data, "mtbench/answers_31models.jsonl"):
        systems.setdefault((row["question_id"], _plain(row["answer1"] or "")), set()).add(row["model"])
    rows = []
    for pair in read_lines(data, "llmbar/processed_other_sets.jsonl"):
        question = questions.get(_plain(pair["prompt"]))
        if pair["subset"] != "MT-Bench" or question is None:
            continue
        a, b = (systems.get((question, _plain(pair[f"response_{side}"])), set()) for side in ("a", "b"))
        if len(a) == len(b) == 1:
            rows.append((f"q{question}", next(iter(a)), next(iter(b)), pair["label"]))
    return pd.DataFrame(rows, columns=["item_id", "system_a", "system_b", "human"])


def _plain(text: str) -> str:
    return " ".join(text.split())


def _csv(data: Path, name: str) -> pd.DataFrame:
    try:
        return pd.read_csv(data / name, dtype=str)
    except OSError as error:
        raise InputError(f"The data file {name} cannot be read ({error.strerror}). Pass --data DIR.") from None


def _folder(settings: Settings, name: str) -> Path:
    folder = settings.assets / "demo" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(folder: Path, tables: dict[str, pd.DataFrame], about: dict[str, Any]) -> list[Path]:
    paths = []
    for name, table in tables.items():
        paths.append(folder / f"{name}.parquet")
        table.to_parquet(paths[-1], index=False, compression="zstd")
    (folder / "judges.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return [*paths, folder / "judges.json"]


# The claims that recordings can answer: order bias, flips between orders, ties, agreement, and audits.

Row = dict[str, Any]


def claims(settings: Settings) -> list[Row]:
    """Every row of `assets/results/strong.csv`, from what ships."""
    rows: list[Row] = []
    for judge in LLMBAR_JUDGES:
        rows += _orders_and_labels(judge)
    rows += _protocols(settings)
    for judge in MTBENCH_JUDGES:
        rows += _mtbench(judge, settings)
    rows += _repeated(settings)
    for judge in LLMBAR_JUDGES:
        rows += _audited(judge, settings)
    return [row | {"command": "judgescope bench strong"} for row in rows]


def _row(claim: str, data: str, judge: str, found: Interval, group: str = "", prompt: str = "") -> Row:
    return {
        "claim": claim, "data": data, "judge": judge, "prompt": prompt, "group": group, "value": found.value,
        "lower": found.lower, "upper": found.upper, "n": found.n, "n_items": found.n_clusters, "method": found.method,
    }  # fmt: skip


def _both(spec: str) -> pd.DataFrame:
    """One row a pair with the outcome of either order, from a shipped recording; NaN where one was not read.

    Columns: comparison (id), item, first (share of its orders that prefer the one shown first, ties half), differ
    (1 where the orders differ), tie (share of its orders that are ties), a (mean preference for side a).
    """
    verdicts = make_recorded(f"recorded:{spec}").recording.verdicts
    value = verdicts["outcome"].map({"a": 1.0, "b": 0.0, "tie": 0.5}).to_numpy(dtype=float)
    held = verdicts.assign(value=value)
    keys = ["item_id", "response_id", "response_b", "order"]
    wide = held.set_index(keys)["value"].unstack("order").reset_index()
    ab, ba = (wide[order].to_numpy(dtype=float) for order in ("ab", "ba"))
    both = ~np.isnan(ab + ba)
    return pd.DataFrame(
        {
            "comparison": wide["response_id"].astype(str).str.removesuffix(":a"),
            "item": wide["item_id"].astype(str),
            "first": (ab + 1 - ba) / 2,
            "differ": np.where(both, ab != ba, np.nan),
            "tie": np.where(both, ((ab == 0.5) * 1.0 + (ba == 0.5)) / 2, np.nan),
            "a": (ab + ba) / 2,
        }
    )


def _llmbar(judge: str, prompt: str = MAIN) -> pd.DataFrame:
    """As `_both`, with the type of each pair and whether the judge is right, ties half."""
    found = _both(f"{DEMO_LLMBAR}?judge={judge}&prompt={prompt}")
    labels = pd.read_parquet(get_settings().assets / "demo" / "llmbar" / "pairs.parquet").set_index("comparison_id")
    label = labels.loc[found["comparison"]]
    right = np.where(label["human"].to_numpy() == "a", found["a"], 1 - found["a"])
    return found.assign(type=label["type"].to_numpy(), human=label["human"].to_numpy(), right=right)


def _groups(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    natural = table["type"] == NATURAL
    yield from (("", table), ("Natural", table[natural]), ("Adversarial", table[~natural]))


def _rate(values: pd.Series, clusters: pd.Series) -> Interval:
    return cluster_rate(values.to_numpy(dtype=float), clusters.to_numpy())


def _orders_and_labels(judge: str) -> Iterator[Row]:
    for group, table in _groups(_llmbar(judge)):
        for claim, column in (("first slot", "first"), ("orders differ", "differ"), ("agreement with labels", "right")):
            found = _rate(table[column], table["comparison"])
            yield _row(claim, "LLMBar", judge, found, group, MAIN)


def _protocols(settings: Settings) -> Iterator[Row]:
    """Pairwise against pointwise agreement, and pointwise ties, of the judges that were asked both ways."""
    ratings = pd.read_parquet(settings.assets / "demo" / "llmbar" / "ratings.parquet")
    ratings = ratings[ratings["prompt"] == RATED]
    for judge, rated in ratings.groupby("judge", sort=False):
        own = _llmbar(str(judge))
        scores = rated.set_index("comparison_id").reindex(own["comparison"])
        gap = (scores["score_a"] - scores["score_b"]).to_numpy(dtype=float)
        prefers_a = np.where(np.isnan(gap), np.nan, (np.sign(gap) + 1) / 2)
        scored = np.where(own["human"] == "a", prefers_a, 1 - prefers_a)
        table = own.assign(scored=scored, tied=np.where(np.isnan(gap), np.nan, gap == 0))
        for group, part in _groups(table):
            yield _row("pointwise ties", "LLMBar", str(judge), _rate(part["tied"], part["comparison"]), group, RATED)
            pointwise = _rate(part["scored"], part["comparison"])
            yield _row("agreement with labels", "LLMBar", str(judge), pointwise, group, RATED)
            change = difference_of_rates((part["right"] - part["scored"]).to_numpy(), part["comparison"].to_numpy())
            yield _row("pairwise minus pointwise agreement", "LLMBar", str(judge), change, group, f"{MAIN}, {RATED}")


def _mtbench(judge: str, settings: Settings) -> Iterator[Row]:
    table = _both(f"demo-mtbench?judge={judge}")
    for claim, column in (("first slot", "first"), ("orders differ", "differ"), ("ties", "tie")):
        yield _row(claim, "MT-bench", judge, _rate(table[column], table["item"]))
    agreed = _with_people(judge, settings)
    found = _rate(agreed["agrees"], agreed["item_id"])
    yield _row(f"agreement with people, each answer judged against {COMMON}", "MT-bench", judge, found)


def _with_people(judge: str, settings: Settings) -> pd.DataFrame:
    """Votes of people on two systems, and whether the judge likes the same one better against a common third.

    Columns item_id and agrees: 1, 0, or 0.5 where the judge likes both as well.
    """
    folder = settings.assets / "demo" / "mtbench"
    held, votes = (pd.read_parquet(folder / f"{name}.parquet") for name in ("verdicts", "votes"))
    held = held[held["judge"] == judge].dropna(subset=["slot_verdict"])
    first = held["slot_verdict"].map({"A": 1.0, "B": 0.0, "C": 0.5})
    own = held["system_first"] != COMMON
    liked = (
        pd.DataFrame(
            {
                "item": held["item_id"],
                "system": held["system_first"].where(own, held["system_second"]),
                "liked": first.where(own, 1 - first),
            }
        )
        .groupby(["item", "system"])["liked"]
        .mean()
    )
    known = dict(liked.items()) | {(item, COMMON): 0.5 for item in set(held["item_id"])}
    rows = []
    for item, a, b, human in votes.itertuples(index=False, name=None):
        gap = known.get((item, a), np.nan) - known.get((item, b), np.nan)
        prefers_a = np.nan if np.isnan(gap) else (np.sign(gap) + 1) / 2
        rows.append((item, prefers_a if human == "a" else 1 - prefers_a))
    return pd.DataFrame(rows, columns=["item_id", "agrees"])


def _repeated(settings: Settings) -> Iterator[Row]:
    """Verdicts that change when the same judge is asked the same comparison again, and its order effects."""
    table = pd.read_parquet(settings.assets / "demo" / "mtbench" / "repeats.parquet")
    table["value"] = table["slot_verdict"].map({"A": 1.0, "B": 0.0, "C": 0.5})
    call = ["item_id", "system_first", "system_second"]
    for judge, held in table.groupby("judge", sort=False):
        wide = held.set_index([*call, "repetition"])["value"].unstack("repetition").reset_index()
        one, two, three = (wide[n].to_numpy(dtype=float) for n in sorted(set(held["repetition"])))
        whole = ~np.isnan(one + two + three)
        changed = np.where(whole, ((one != two) * 1.0 + (one != three) + (two != three)) / 3, np.nan)
        found = cluster_rate(changed, wide["item_id"].to_numpy())
        yield _row("another verdict when asked again", "MT-bench, 24 questions", str(judge), found)
        slots = _rate(held["value"], held["item_id"])
        yield _row("first slot", "MT-bench, 24 questions", str(judge), slots)
        turned = held.set_index([*call, "repetition"])["value"]
        swapped = turned.rename_axis(["item_id", "system_second", "system_first", "repetition"])
        differ = (turned + swapped.reorder_levels([0, 2, 1, 3]) - 1).abs()
        both = differ[differ.index.get_level_values("system_first") < differ.index.get_level_values("system_second")]
        values = np.where(both.isna(), np.nan, both > 0)
        orders = cluster_rate(values, both.index.get_level_values("item_id").to_numpy())
        yield _row("orders differ", "MT-bench, 24 questions", str(judge), orders)


def _audited(judge: str, settings: Settings) -> Iterator[Row]:
    """The audit of a judge's verdicts, over all pairs and by type, with random flips at the same rate beside it."""
    found = load_comparisons(DEMO_LLMBAR, settings.comparisons)
    made = make_recorded(f"recorded:{DEMO_LLMBAR}?judge={judge}&prompt={MAIN}")
    for within_type in (False, True):
        config = AuditConfig(
            judge=made.spec, data=DEMO_LLMBAR, encoders=(SPEC + DEMO_LLMBAR,), bootstraps=0, umap=False, p_ratios=(),
            within_type=within_type,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            run = STUDY.begin(config, Path(folder))
            run_transport_audit(config, found, made, run, settings, no_checkpoint)
            yield from _audit_rows(run, judge, "a transport for each type" if within_type else "one transport")


def _audit_rows(run: RunFolder, judge: str, transport: str) -> Iterator[Row]:
    audit = read_audit(run.table("audit"), run.table("transport"))
    decided, n = decisions(audit), len(audit.pairs)
    values = {
        "agreement before": per_pair(audit.splits, [split.agrees for split in audit.splits], n),
        "agreement after": per_pair(audit.splits, [d.after for d in decided], n),
        "agreement after random flips": per_pair(audit.splits, [d.controls["random"] for d in decided], n),
    }
    before, after, chance = values.values()
    values |= {"gain": after - before, "gain over random flips": after - chance}
    kinds = audit.pairs["type"].to_numpy(dtype=object)
    for kind in ("", *dict.fromkeys(kinds)):
        inside = np.ones(n, dtype=bool) if not kind else kinds == kind
        for claim, each in values.items():
            name = "gain" if claim.startswith("gain") else "cons"
            made = metric_of_pairs(audit, name, np.where(inside, each, np.nan), 0.95)
            yield {
                "claim": f"audit: {claim}", "data": "LLMBar", "judge": judge, "prompt": f"{MAIN}, {transport}",
                "group": kind, **{key: made[key] for key in ("value", "lower", "upper", "n")},
                "n_items": made["n_clusters"], "method": made["method"],
            }  # fmt: skip


def _line(row: Row) -> str:
    return (
        f"{row['claim']:<40} {row['data']:<24} {row['judge']:<26} {row['prompt']:<36} {row['group']:<12} "
        f"{row['value']:+.3f} [{row['lower']:+.3f}, {row['upper']:+.3f}] n {row['n']}"
    )
