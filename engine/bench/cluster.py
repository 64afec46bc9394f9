"""The price of a Ray cluster: calls of a planted judge in this process, and over actors on this machine.

A planted judge that takes no time shows what spreading itself costs; one that waits in each call shows what it gains.
`judgescope bench ray` begins a cluster of its own, unless `--ray` names one.
"""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine.core.settings import get_settings
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.judges.base import Judge, Request
from engine.judges.planted import make_planted
from engine.judges.ray_actors import LOCAL
from engine.judges.ray_judge import ray_judge
from engine.studies.running import build_requests

SPEC = "planted:injection?noise=0.2&delay={delay}"


def many_requests(n: int) -> list[Request]:
    """So many requests: the demo dialogues over and over, each response with an id of its own."""
    plain = build_requests(load_dataset(DEMO_DIALOGUE, get_settings().datasets))
    return [replace(plain[k % len(plain)], response_id=f"r{k}") for k in range(n)]


def cluster_rows(
    calls: int, delays: Sequence[int], actors: Sequence[int], address: str, repeats: int, said: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Seconds for the same calls in this process and over so many actors.

    Args:
        calls: verdicts in all; nothing is cached.
        delays: milliseconds that a call takes.
        actors: how many hold the judge.
        address: of the cluster.
        repeats: each is timed so often; the median counts.
        said: told a line for each row.

    Returns:
        Rows with delay_ms, actors (0 is this process), begin_seconds until the judge is held, seconds,
        driver_cpu_seconds of this process, which other work on the machine hardly moves, and verdicts_per_second.
    """
    requests = many_requests(calls)
    rows = []
    for delay in delays:
        spec = SPEC.format(delay=delay)
        for n in (0, *actors):
            clock = time.perf_counter()
            settings = replace(get_settings(), ray=address, ray_actors=n)
            judge: Judge = ray_judge(spec, settings, cache=False) if n else make_planted(spec)
            if n:
                judge.judge(requests[: 2 * n])  # every actor has begun, or nearly so
            begun = time.perf_counter() - clock
            timed = [_timed(judge, requests) for _ in range(repeats)]
            seconds, busy = (statistics.median(times) for times in zip(*timed, strict=True))
            row = {"delay_ms": delay, "actors": n, "begin_seconds": begun, "seconds": seconds,
                   "driver_cpu_seconds": busy, "verdicts_per_second": calls / seconds}  # fmt: skip
            said(f"{delay:>3} ms a call, {n or 'no'} actors: {seconds:7.2f} s, {calls / seconds:9,.0f} verdicts/s, "
                 f"CPU here {busy:.2f} s, begun in {begun:.1f} s")  # fmt: skip
            rows.append(row)
    return rows


def _timed(judge: Judge, requests: Sequence[Request]) -> tuple[float, float]:
    """Seconds by the clock, and CPU seconds of this process."""
    clock, busy = time.perf_counter(), time.process_time()
    judge.judge(requests)
    return time.perf_counter() - clock, time.process_time() - busy


def add_ray(kinds: Any) -> None:
    """Add `bench ray` to the kinds of `judgescope bench`."""
    ray = kinds.add_parser("ray", help="a planted judge in this process and over actors of a Ray cluster")
    ray.add_argument("--calls", type=int, default=2000, metavar="N", help="verdicts of a timing")
    ray.add_argument("--delays", type=int, nargs="+", default=[0, 5], metavar="MS", help="milliseconds of a call")
    ray.add_argument("--actors", type=int, nargs="+", default=[1, 2], metavar="N", help="how many hold the judge")
    ray.add_argument("--repeats", type=int, default=3, metavar="N", help="timings of which the median counts")
    ray.add_argument("--ray", default=LOCAL, metavar="ADDRESS", help="auto, HOST:PORT; by default one begun for this")
    ray.add_argument("--json", action="store_true", help="last line is one JSON object")
    ray.set_defaults(run=run_ray)


def run_ray(args: Namespace) -> dict[str, Any]:
    """Time and print."""
    rows = cluster_rows(args.calls, args.delays, args.actors, args.ray, args.repeats, print)
    return {"calls": args.calls, "rows": rows}
