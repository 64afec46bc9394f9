"""Millions of pointwise calls of a model of 7 B and up, offline, with Ray Data LLM (vLLM) between our tables.

    pip install 'judgescope[ray]' 'ray[llm]'
    python ray_batch.py demo-dialogue --model Qwen/Qwen2.5-7B-Instruct --attack dsi --out judged --engines 8
    judgescope score demo-dialogue --judge 'recorded:judged/verdicts.parquet?layout=pointwise' --attack dsi

`judged/calls` holds the prompts in parts and `judged/answers` one file for each part that is answered: the same command
goes on with the parts that are missing. An answer that cannot be read is an unread verdict with its reason.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from engine.attacks.registry import make_attack
from engine.core.schema import NONE, Task
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.judges.base import Request, Verdict, unread, verdict_id, verdict_table
from engine.judges.cards import Card, built_in_cards
from engine.judges.kinds import PointwiseReader
from engine.judges.labelled import user_message
from engine.studies.running import build_requests, with_attack

PART = 50_000
"""Calls of a part: what is done again, at most, after a fault."""
IDS = ("item_id", "response_id", "task", "attack")
READER = PointwiseReader()
NO_ANSWER = {
    "generated_text": "", "num_input_tokens": 0, "num_generated_tokens": 0, "__inference_error__": "no answer came back"
}  # fmt: skip
Stage = Callable[[Any], Any]
"""From a Ray data set of calls to one that has `generated_text` as well."""


class Named:
    """The judge as the table `verdicts` names it."""

    def __init__(self, spec: str) -> None:
        self.spec = spec


def calls_of(dataset: Dataset, attacks: Sequence[str], cards: dict[Task, Card]) -> Iterator[dict[str, Any]]:
    """A row for each call: its id, what it is about, and the messages of its prompt."""
    for name in dict.fromkeys((NONE, *attacks)):
        attack = make_attack(name)
        for plain in build_requests(dataset):
            request = with_attack(plain, attack)
            card = cards[request.task]
            yield {
                "verdict_id": verdict_id(request),
                **{field: str(getattr(request, field)) for field in IDS},
                "system": card.system,
                "user": user_message(request, card, READER),
                "max_tokens": card.max_new_tokens,
            }


def write_calls(rows: Iterator[dict[str, Any]], folder: Path, part: int = PART) -> list[Path]:
    """The calls in files of `part` rows; memory holds one part."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    held: list[dict[str, Any]] = []

    def write() -> None:
        if held:
            files.append(folder / f"{len(files):05d}.parquet")
            pq.write_table(pa.Table.from_pylist(held), files[-1])
            held.clear()

    for row in rows:
        held.append(row)
        if len(held) == part:
            write()
    write()
    return files


def verdicts_of(answered: pd.DataFrame, spec: str, cards: dict[Task, Card]) -> pd.DataFrame:
    """Answers as rows of the table `verdicts`.

    Args:
        answered: calls with `generated_text`, and where the stage gives them `num_input_tokens`,
            `num_generated_tokens` and `__inference_error__`.
        spec: the judge's name in the table.
        cards: as `calls_of`.
    """
    requests, verdicts = [], []
    for row in answered.to_dict("records"):
        request = Request(row["item_id"], row["response_id"], Task(row["task"]), "", "", attack=row["attack"])
        written = int(row.get("num_generated_tokens") or 0)
        text, failed = row["generated_text"], row.get("__inference_error__")
        seen = Verdict(
            raw_text=text,
            prompt_tokens=int(row.get("num_input_tokens") or 0),
            forward_passes=float(max(1, written)),
        )
        requests.append(request)
        verdicts.append(
            unread(seen, failed)
            if failed
            else READER.from_text(request, cards[request.task], text, seen, cut=0 < row["max_tokens"] <= written)
        )
    return verdict_table(Named(spec), requests, verdicts)


def judge_parts(calls: Sequence[Path], answers: Path, stage: Stage, spec: str, cards: dict[Task, Card]) -> None:
    """Answer the parts that have no file of answers yet; a file is there once it is whole."""
    import ray

    answers.mkdir(parents=True, exist_ok=True)
    for part in calls:
        if (done := answers / part.name).exists():
            continue
        answered = stage(ray.data.read_parquet(str(part))).to_pandas()
        wanted = pq.read_table(part, columns=["verdict_id", *IDS, "max_tokens"]).to_pandas()
        missing = wanted[~wanted["verdict_id"].isin(answered["verdict_id"])].assign(**NO_ANSWER)
        whole = pd.concat([answered, missing], ignore_index=True) if len(missing) else answered
        by_id = whole.set_index("verdict_id").loc[wanted["verdict_id"]].reset_index()  # blocks come back in any order
        unfinished = done.with_suffix(".tmp")
        verdicts_of(by_id, spec, cards).to_parquet(unfinished, index=False)
        unfinished.rename(done)


def join(answers: Path, file: Path) -> int:
    """All answers as one file that `recorded:` reads; its rows."""
    rows = 0
    with pq.ParquetWriter(file, pq.read_schema(sorted(answers.glob("*.parquet"))[0])) as writer:
        for part in sorted(answers.glob("*.parquet")):
            table = pq.read_table(part).cast(writer.schema)
            writer.write_table(table)
            rows += table.num_rows
    return rows


def vllm_stage(model: str, engines: int, tensor_parallel: int) -> Stage:
    """The model in vLLM, one engine a group of GPUs; greedy, prefixes cached."""
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    config = vLLMEngineProcessorConfig(
        model_source=model,
        engine_kwargs={"enable_prefix_caching": True, "tensor_parallel_size": tensor_parallel},
        concurrency=engines,
        batch_size=256,
        should_continue_on_error=True,
    )
    return build_processor(
        config,
        preprocess=lambda row: {
            **row,
            "messages": [
                *([{"role": "system", "content": row["system"]}] if row["system"] else []),
                {"role": "user", "content": row["user"]},
            ],
            "sampling_params": {"temperature": 0.0, "max_tokens": max(1, row["max_tokens"])},
        },
        postprocess=lambda row: row,
    )


def main(argv: Sequence[str] | None = None, stage: Stage | None = None) -> Path:
    """Write the calls, answer them, join the answers; the file of verdicts.

    Args:
        argv: the command line's.
        stage: in place of vLLM, for a test.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="id of a saved data set, such as demo-dialogue")
    parser.add_argument("--model", required=True, help="a name of the Hub, or a folder that every machine has")
    parser.add_argument("--attack", action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engines", type=int, default=1, help="copies of the model")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="GPUs of a copy")
    parser.add_argument("--part", type=int, default=PART, help="calls of a part")
    args = parser.parse_args(argv)
    settings = get_settings()
    cards = built_in_cards(settings.assets / "cards")
    rows = calls_of(load_dataset(args.data, settings.datasets), args.attack, cards)
    calls = write_calls(rows, args.out / "calls", args.part)
    made = stage or vllm_stage(args.model, args.engines, args.tensor_parallel)
    judge_parts(calls, args.out / "answers", made, f"vllm:{args.model}", cards)
    file = args.out / "verdicts.parquet"
    print(f"{join(args.out / 'answers', file):,} verdicts in {file.name}.")
    return file


if __name__ == "__main__":
    main()
