"""`judgescope bench page`: what a visitor waits for in a real browser, idle and while a job runs.

The mass slider moves the audit of 500 x 2000 planted pairs; the γ slider and the Attack lab read the recorded runs.
Times count from the release of the pointer to the last change of a figure, as the page itself sees them.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from scipy.stats import binom

from engine.errors import InputError
from engine.settings import Settings, get_settings
from engine.studies.bench_browser import (
    Seen,
    browser,
    chromium,
    drag,
    free_port,
    new_page,
    opened,
    own_home,
    read,
    start_server,
    stop_server,
    until,
)
from engine.studies.bench_page_data import POSITIVES, UNLABELLED, planted_run
from engine.studies.puaudit_verdicts import IN_DATA

LEAST = 6
"""Fewest repeats; with fewer no two order statistics bound the median at 95 %."""
PLACES = (0.3, 0.6, 0.45, 0.8, 0.25, 0.55, 0.7, 0.4, 0.9, 0.5)
"""Where the sliders are let go, as shares of the track, again from the start when they are through."""
BARS = {"first": 400.0, "visible": 900.0}
"""Longest median for the mass slider [ms]."""
FAST, SLOW = "planted:injection", "planted:injection?delay=60"
_ATTACK_LAB, _SWAP = "attack-lab", "reference-swap"


@dataclass
class Measured:
    """Repeats of one interaction under one condition.

    Attributes:
        what: the interaction.
        job: what the worker was doing; empty for nothing.
        seen: one a repeat.
        load: 1-minute load average of the machine, before and after.
    """

    what: str
    job: str
    seen: list[Seen] = field(default_factory=list)
    load: tuple[float, float] = (math.nan, math.nan)


def add_page(kinds: Any) -> None:
    """Add `bench page` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("page", help="first page, sliders and a job in a real browser")
    one.add_argument("--repeats", type=int, default=12, metavar="N", help=f"of each interaction, at least {LEAST}")
    one.add_argument("--job", metavar="SPEC", help="judge of the job that runs beside (the bundled one if it is here)")
    one.add_argument(
        "--size", default=f"{POSITIVES}x{UNLABELLED}", metavar="PxU", help="planted positives x unlabelled"
    )
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_page)


def run_page(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: too few repeats, a size that is none, or no browser.
    """
    if args.repeats < LEAST:
        raise InputError(f"--repeats {args.repeats}: at least {LEAST}, or the median has no 95 % interval.")
    p, cross, u = args.size.partition("x")
    if not (cross and p.isdigit() and u.isdigit() and int(p) >= 20 and int(u) >= 20):
        raise InputError(f"--size {args.size}: write PxU, each at least 20, for example 500x2000.")
    chromium()
    user = get_settings()
    with own_home(user) as settings:
        job = args.job or ("bundled:judge" if (settings.weights.is_dir() and any(settings.weights.iterdir())) else SLOW)
        print(f"planting {args.size} pairs ...", file=sys.stderr)
        pairs = planted_run(settings, int(p), int(u))
        rows = [summary(m) for m in measure(settings, pairs, args.repeats, job)]
    print(table(rows))
    slow = [r for r in rows if r["what"] == "mass slider" and any(r[k]["median"] > bar for k, bar in BARS.items())]
    return {"cores": os.cpu_count(), "size": args.size, "bars_ms": BARS, "within_bars": not slow, "rows": rows}


def measure(settings: Settings, pairs: str, repeats: int, job: str) -> list[Measured]:
    """Every interaction, first with an idle worker and then beside a job of that judge."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = start_server(settings, port)
    try:
        with browser() as found:
            done = [_first_page(found, url, repeats)]
            for beside in ("", job):
                with _job_running(found, url, beside):
                    done += [
                        _mass_slider(found, url, pairs, repeats, beside),
                        _gamma_slider(found, url, repeats, beside),
                        _next_response(found, url, repeats, beside),
                    ]
            return [*done, _job(found, url, repeats)]
    finally:
        stop_server(server)


def _repeat(what: str, job: str, repeats: int, once: Callable[[int], Seen]) -> Measured:
    print(f"{what}{f' beside a job of {job}' if job else ''} ...", file=sys.stderr)
    before = os.getloadavg()[0]
    found = Measured(what, job, [once(i) for i in range(repeats)])
    found.load = (before, os.getloadavg()[0])
    print(table([summary(found)]).splitlines()[2], file=sys.stderr)
    return found


def _first_page(found: Any, url: str, repeats: int) -> Measured:
    def once(_: int) -> Seen:
        page = new_page(found)
        seen = opened(page, url)
        page.context.close()
        return seen

    once(0)  # the server's own caches are warm from here on; a visitor's browser never is
    return _repeat("first page, empty browser", "", repeats, once)


def _mass_slider(found: Any, url: str, pairs: str, repeats: int, job: str) -> Measured:
    page = new_page(found)
    opened(page, f"{url}/transport-audit?{urlencode({'pairs': pairs, 'audit_judge': IN_DATA})}")
    measured = _repeat("mass slider", job, repeats, _sliding(page, "Transported mass"))
    page.context.close()
    return measured


def _gamma_slider(found: Any, url: str, repeats: int, job: str) -> Measured:
    page = new_page(found)
    opened(page, f"{url}/{_SWAP}?{urlencode({'data': 'demo-verification'})}")
    page.get_by_text("by hand").click()
    read(page)
    measured = _repeat("γ slider", job, repeats, _sliding(page, "γ"))
    page.context.close()
    return measured


def _sliding(page: Any, name: str) -> Callable[[int], Seen]:
    slider = page.get_by_role("slider", name=name).first
    drag(page, slider, PLACES[-1])
    read(page)

    def once(i: int) -> Seen:
        drag(page, slider, PLACES[i % len(PLACES)])
        return read(page)

    return once


def _next_response(found: Any, url: str, repeats: int, job: str) -> Measured:
    page = new_page(found)
    opened(page, f"{url}/{_ATTACK_LAB}?{urlencode({'judge': FAST})}")

    def once(_: int) -> Seen:
        page.get_by_role("button", name="Next").click()
        return read(page)

    measured = _repeat("Attack lab, next response", job, repeats, once)
    page.context.close()
    return measured


@contextmanager
def _job_running(found: Any, url: str, judge: str) -> Iterator[None]:
    """A job over the whole demo set; it must still run when the measurement ends, or it measured nothing."""
    if not judge:
        yield
        return
    page = new_page(found)
    opened(page, f"{url}/{_ATTACK_LAB}?{urlencode({'judge': judge, 'tab': 'Whole set'})}")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("judge calls, about").wait_for()
    held = page.url
    page.goto("about:blank")
    yield
    page.goto(held)
    stop = page.get_by_role("button", name="Stop")
    stop.or_(page.get_by_text("The run is done")).first.wait_for()
    if not stop.is_visible():
        raise InputError(
            f"The job of {judge} ended before the measurement did. Name a slower --job, or fewer --repeats."
        )
    stop.click()
    page.get_by_text("What is done is kept").first.wait_for()
    page.context.close()


def _job(found: Any, url: str, repeats: int) -> Measured:
    """From Run until the page shows the job, and until it says that 432 planted calls are done."""
    page = new_page(found)

    def once(_: int) -> Seen:
        opened(page, f"{url}/{_ATTACK_LAB}?{urlencode({'judge': FAST, 'tab': 'Whole set'})}")
        page.get_by_role("button", name="Run", exact=True).click()
        taken = until(page, ".st-key-job")
        page.get_by_text("The run is done").or_(page.get_by_text("The run ended early")).first.wait_for()
        if not page.get_by_text("The run is done").count():
            raise InputError(f"The job of {FAST} failed: {page.locator('.st-key-job').inner_text()[:300]}")
        done = read(page)
        return Seen(first=taken, visible=done.visible, everything=done.everything, text=done.text)

    measured = _repeat("job: shown, then done and drawn", "", repeats, once)
    page.context.close()
    return measured


def summary(measured: Measured) -> dict[str, Any]:
    """Medians with their 95 % intervals, JSON-ready [ms]."""
    row: dict[str, Any] = {"what": measured.what, "job": measured.job, "load": list(measured.load)}
    for name in ("first", "visible", "everything", "text"):
        row[name] = median([getattr(seen, name) for seen in measured.seen])
    return row


def median(values: Sequence[float]) -> dict[str, float]:
    """The median of the values that are there, with the order statistics that bound it at 95 % or more.

    Returns:
        median, lower, upper (NaN below six values) and n.
    """
    known = sorted(v for v in values if not math.isnan(v))
    n = len(known)
    found = {"median": statistics.median(known) if n else math.nan, "lower": math.nan, "upper": math.nan, "n": n}
    if n >= LEAST:
        below = max(b for b in range(n // 2) if 2 * binom.cdf(b, n, 0.5) <= 0.05)
        found |= {"lower": known[below], "upper": known[n - 1 - below]}
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown, one row an interaction."""
    lines = [
        "| interaction | beside | first figure [ms] | all visible [ms] | all [ms] | sentence [ms] | n | load average |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [_cell(row[name]) for name in ("first", "visible", "everything", "text")]
        load = " to ".join(f"{x:.1f}" for x in row["load"])
        n = max(row[name]["n"] for name in ("first", "visible", "text"))
        lines.append(f"| {row['what']} | {row['job'] or 'nothing'} | {' | '.join(cells)} | {n} | {load} |")
    return "\n".join([*lines, "", "Medians with 95 % intervals from order statistics."])


def _cell(one: dict[str, float]) -> str:
    if math.isnan(one["median"]):
        return "none"
    return f"{one['median']:.0f} [{one['lower']:.0f}, {one['upper']:.0f}]"
