"""Several visitors at once, each with a job, while the worker and the server are killed at random; not in the suite.

`python tests/bench/load.py --minutes 30`: at first everything is left alone and memory is watched, then come the kills.
At the end every run that was finished before a kill must be there unchanged, and the rest is resumed to its end.
Prints what it saw and one JSON line; exit code 1 where something was lost or a bar was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
from playwright.async_api import Error as BrowserError
from playwright.async_api import Page, async_playwright

from engine.bench.page import (
    AT_REST,
    FLAGS,
    READ,
    WATCH,
    chromium,
    free_port,
    median,
    own_home,
    planted_run,
    start_server,
)
from engine.core.errors import EngineError
from engine.core.settings import Settings, get_settings
from engine.jobs.manager import JobManager
from engine.runs.folder import open_run
from engine.studies.transport_audit.study import IN_DATA

CALLS = 432
"""Verdicts of one run: 48 responses, three attack arms, three defenses."""
STEADY = 0.6
"""Share of the time before the first kill."""
WARM = 0.4
"""Share of the steady part that is warm-up."""
MOST_GROWTH, MOST_MEDIAN_MS = 0.20, 600.0


@dataclass
class World:
    """The server, what is known of it, and what was seen."""

    settings: Settings
    port: int
    pairs: str
    end: float
    server: Any = None
    down: bool = False
    memory: list[tuple[float, float]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    finished: dict[str, str] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def address(self, path: str, **query: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}?{urlencode(query)}"


async def visit(world: World, number: int, browser: Any, seed: int) -> None:
    """One visitor: keep a job going, and use the pages meanwhile."""
    rng = random.Random(seed)
    page = await (await browser.new_context(viewport={"width": 1280, "height": 900})).new_page()
    page.set_default_timeout(30_000)
    await page.add_init_script(WATCH)
    while time.monotonic() < world.end:
        try:
            await _job(world, page, number)
            for _ in range(3):
                await rng.choice((_slide_mass, _slide_gamma, _next, _look))(world, page, rng)
        except BrowserError as error:
            world.counts["interrupted" if world.down else "failed"] += 1
            if not world.down:
                world.troubles.append(str(error).splitlines()[0][:160])
            await asyncio.sleep(1)  # as somebody would who sees that the server is away


async def _open(world: World, page: Page, path: str, **query: str) -> None:
    await page.goto(world.address(path, **query))
    await _rest(page)
    world.counts["pages opened"] += 1


async def _rest(page: Page) -> None:
    await page.wait_for_function(AT_REST, arg=500)


async def _timed(world: World, page: Page) -> None:
    await _rest(page)
    found = await page.evaluate(READ)
    seen = [*found["inside"], *([found["text"]] if found["text"] else [])]
    if seen:
        world.times.append(max(seen))
    world.counts["interactions"] += 1


async def _job(world: World, page: Page, number: int) -> None:
    """Start a run where none of this visitor's is going; resume one that was cut off."""
    await _open(world, page, "attack-lab", judge=f"planted:injection?delay={20 + number}", tab="Whole set")
    for name, what in (("Resume", "resumed"), ("Run", "runs started")):
        button = page.get_by_role("button", name=name, exact=True)
        if await button.count() and await button.first.is_enabled():
            await button.first.click()
            world.counts[what] += 1
            await page.locator(".st-key-job").wait_for()
            return


async def _slide_mass(world: World, page: Page, rng: random.Random) -> None:
    await _open(world, page, "transport-audit", data=world.pairs, audit_judge=IN_DATA)
    await _press(world, page, "Mass m", rng)


async def _slide_gamma(world: World, page: Page, rng: random.Random) -> None:
    await _open(world, page, "reference-swap", data="demo-verification")
    await page.get_by_text("by hand").click()
    await _rest(page)
    await _press(world, page, "γ", rng)


async def _press(world: World, page: Page, name: str, rng: random.Random) -> None:
    slider = page.get_by_role("slider", name=name).first
    await slider.focus()
    for _ in range(3):
        await slider.press(rng.choice(("PageUp", "PageDown")))
        await _timed(world, page)


async def _next(world: World, page: Page, rng: random.Random) -> None:
    await _open(world, page, "attack-lab", judge="planted:injection")
    for _ in range(3):
        await page.get_by_role("button", name="Next").click()
        await _timed(world, page)


async def _look(world: World, page: Page, rng: random.Random) -> None:
    await _open(world, page, rng.choice(("", "data", "protocols", "steering-and-anchors")))


async def watch_memory(world: World) -> None:
    """Resident memory of the server and its worker [bytes], every two seconds of the steady part."""
    while time.monotonic() < world.end and not world.counts["kills"]:
        try:
            own = psutil.Process(world.server.pid)
            total = sum(p.memory_info().rss for p in [own, *own.children(recursive=True)])
            world.memory.append((time.monotonic(), float(total)))
        except psutil.Error:
            pass
        await asyncio.sleep(2)


async def kill_at_random(world: World, kills: int, begin: float, seed: int) -> None:
    """Kill the worker and the server in turn at random moments; the server is started again at once."""
    rng = random.Random(seed)
    moments = sorted(rng.uniform(begin, world.end) for _ in range(kills))
    for i, moment in enumerate(moments):
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        remember(world)
        world.counts["kills"] += 1
        if i % 2 == 0:
            for child in psutil.Process(world.server.pid).children():
                if "engine.jobs.worker" in " ".join(child.cmdline()):
                    child.kill()
                    world.counts["worker killed"] += 1
            continue
        world.down = True
        world.server.kill()
        world.server.wait()
        world.server = await asyncio.to_thread(start_server, world.settings, world.port)
        world.down = False
        world.counts["server killed"] += 1


def jobs_on_disk(world: World) -> list[dict[str, Any]]:
    """Every job's file."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in world.settings.jobs.glob("*.json")]


def remember(world: World) -> None:
    """Take down a digest of every finished run, to compare at the end."""
    for job in jobs_on_disk(world):
        if job["state"] == "done":
            run = job["params"]["run_id"]
            world.finished.setdefault(run, digest(world, run))


def digest(world: World, run: str) -> str:
    """What a run's verdicts say, whatever the order of rows; a damaged one says so."""
    try:
        table = open_run(world.settings.runs, run).table("verdicts")
    except EngineError as error:
        return f"unreadable: {error}"
    columns = ["response_id", "attack", "defense", "score"]
    return f"{len(table)} {hash(tuple(map(tuple, table[columns].sort_values(columns[:3]).to_numpy().tolist())))}"


def finish(world: World) -> dict[str, int]:
    """Resume by the manager what did not end, wait for it, and check every run.

    Returns:
        lost or changed runs, runs that could not be finished, runs that hold something else than their verdicts.
    """
    os.environ["JUDGESCOPE_HOME"], os.environ["JUDGESCOPE_CACHE"] = (
        str(world.settings.data_dir),
        str(world.settings.cache_dir),
    )
    changed = sum(digest(world, run) != before for run, before in world.finished.items())
    manager = JobManager(world.settings)
    waiting = [job for job in manager.recent(1000) if job.resumable]
    for job in waiting:
        manager.resume(job.job_id)
        while (now := manager.get(job.job_id)) is not None and now.active:
            time.sleep(0.1)
    world.counts["resumed at the end"] = len(waiting)
    done = [manager.get(job["job_id"]) for job in jobs_on_disk(world)]
    manager.close()
    unfinished = sum(job is None or job.state != "done" for job in done)
    runs = [str(job.params["run_id"]) for job in done if job]
    wrong = sum(digest(world, run).split()[0] != str(CALLS) for run in runs)
    return {"runs": len(runs), "changed": changed, "unfinished": unfinished, "wrong": wrong}


def growth(world: World) -> float:
    """Median memory of the last fifth of the steady part against that of a fifth right after warm-up, minus 1."""
    if len(world.memory) < 10:
        return math.nan
    values = [m for _, m in world.memory]
    start, fifth = int(WARM * len(values)), max(2, len(values) // 5)
    return float(median(values[-fifth:])["median"] / median(values[start : start + fifth])["median"] - 1)


async def run(world: World, visitors: int, kills: int, seed: int) -> None:
    """Everything at once until the time is over."""
    begin = time.monotonic() + STEADY * (world.end - time.monotonic())
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        await asyncio.gather(
            *(visit(world, i, browser, seed + i) for i in range(visitors)),
            watch_memory(world),
            kill_at_random(world, kills, begin, seed),
        )
        await browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--visitors", type=int, default=4)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with own_home(get_settings()) as settings:
        pairs = planted_run(settings)
        world = World(settings, free_port(), pairs, 0.0)
        world.server = start_server(settings, world.port)
        world.end = time.monotonic() + 60 * args.minutes
        load = os.getloadavg()[0]
        try:
            asyncio.run(run(world, args.visitors, args.kills, args.seed))
            remember(world)
        finally:
            world.server.kill()
            world.server.wait()
        ended = finish(world)
        log = Path(settings.data_dir / "server.log").read_text(encoding="utf-8", errors="replace")
    found = {
        "minutes": args.minutes, "visitors": args.visitors, "load": [load, os.getloadavg()[0]], **world.counts, **ended,
        "finished_before_a_kill": len(world.finished), "interaction_ms": median(world.times),
        "memory_growth": growth(world), "tracebacks": log.count("Traceback"), "troubles": world.troubles[:10],
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    good = not (ended["changed"] or ended["unfinished"] or ended["wrong"])
    bars = growth(world) <= MOST_GROWTH and found["interaction_ms"]["median"] <= MOST_MEDIAN_MS
    print("nothing was lost" if good else "SOMETHING WAS LOST", "| bars met" if bars else "| a bar was missed")
    return 0 if good and bars else 1


if __name__ == "__main__":
    sys.exit(main())
