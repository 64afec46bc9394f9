"""How fast llama.cpp's server writes: tokens per second of one row and of many at once, from the base's 4-bit file.

Each slot holds its prompt already, so that only the last prompt token is computed again and what is timed is writing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from engine.core.errors import ModelError
from engine.core.settings import Settings
from engine.inference.weights import base_record, find_gguf
from engine.studies.llama_server import ANSWER_S, complete, llama_server, version_of

WRITING = {"ignore_eos": True, "n_probs": 0}


def beside_llama_cpp(
    path: Path, steps: Sequence[dict[str, Any]], prompts: Sequence[Sequence[int]], tokens: int, settings: Settings
) -> list[dict[str, Any]]:
    """llama.cpp's speed for each of our steps' numbers of rows, and how many times as fast ours was (`ratio`).

    Raises:
        InputError: no such program.
        ModelError: the server cannot be used.
    """
    import torch

    gguf, threads = find_gguf(settings, base_record(settings.assets / "judge")), torch.get_num_threads()
    found = [decode_speed(path, gguf, prompts, rows=s["rows"], tokens=tokens, threads=threads) for s in steps]
    pairs = zip(found, steps, strict=True)
    return [one | {"ratio": own["tokens_per_second"] / one["tokens_per_second"]} for one, own in pairs]


def decode_speed(
    path: Path, gguf: Path, prompts: Sequence[Sequence[int]], *, rows: int, tokens: int, threads: int, turns: int = 3
) -> dict[str, Any]:
    """Tokens per second of so many rows written at once, without an adapter.

    Args:
        path: the interpreter of an environment with xllamacpp, or a llama-server.
        gguf: the weights.
        prompts: token ids; row k continues prompt k, and the prompts begin again where there are more rows.
        rows: slots of the server, all of which write.
        tokens: tokens of each row, whatever the text.
        threads: of the server.
        turns: times it writes; the best counts.

    Returns:
        JSON-ready: version, rows, tokens_per_second (all rows together), all_turns, ms_per_step, peak_bytes.

    Raises:
        InputError: no such program.
        ModelError: the server cannot be used, or stopped early.
    """
    version = version_of(path)
    chosen = [prompts[k % len(prompts)] for k in range(rows)]
    context = -(-(max(map(len, chosen)) + tokens + 8) // 256) * 256
    rates = []
    with llama_server(path, gguf, threads=threads, slots=rows, context=context) as server:
        with ThreadPoolExecutor(rows) as pool, httpx.Client(timeout=ANSWER_S, limits=_room(rows)) as client:

            def ask(count: int) -> float:
                clock = time.perf_counter()
                answers = pool.map(
                    lambda k: complete(client, server.url, chosen[k], n_predict=count, id_slot=k, **WRITING),
                    range(rows),
                )
                _require_all(list(answers), count)
                return time.perf_counter() - clock

            for _ in range(turns):
                ask(1)  # the prompts are in the slots' caches now
                rates.append(rows * tokens / ask(tokens))
        peak = server.peak_bytes()
    return {
        "version": version,
        "rows": rows,
        "threads": threads,
        "tokens_per_second": float(np.max(rates)),
        "all_turns": rates,
        "ms_per_step": 1000 * rows / float(np.max(rates)),
        "peak_bytes": peak,
    }


def _room(rows: int) -> httpx.Limits:
    return httpx.Limits(max_connections=rows, max_keepalive_connections=rows)


def _require_all(answers: Sequence[dict[str, Any]], count: int) -> None:
    if short := [a for a in answers if a.get("tokens_predicted") != count]:
        raise ModelError(
            f"llama.cpp's server wrote {short[0].get('tokens_predicted')} of {count} tokens, so its speed cannot be "
            "told. Use another version of it."
        )
