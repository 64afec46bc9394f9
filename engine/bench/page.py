"""`judgescope bench page`: what a visitor waits for in a real browser, idle and while a job runs.

The mass slider moves the audit of 500 x 2000 planted pairs; the γ slider and the Attack lab read the recorded runs.
With `--first-live` only a new server is timed: until it answers, until its judge is ready, and from the first click in
the Attack lab until the judge's live answer is drawn.
Times count from the release of the pointer to the last change of a figure, as the page itself sees them.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from scipy.stats import binom

from engine.core.errors import InputError
from engine.core.settings import Settings, child_environment, get_settings
from engine.data.comparisons import Comparisons, read_comparisons, save_comparisons
from engine.judges.base import no_checkpoint
from engine.studies.transport_audit.run import run_transport_audit
from engine.studies.transport_audit.study import IN_DATA, STUDY, AuditConfig

# Planted pairs and an audit of them for the page bench: of the size that the page must stay quick at.

POSITIVES, UNLABELLED = 500, 2000
RIGHT = 0.7
"""Share of planted verdicts that are right."""
_GOOD = ("evidence", "shows", "because", "measured", "data", "agree", "therefore", "sources", "confirm", "holds")
_BAD = ("trust", "friend", "honestly", "everybody", "knows", "surely", "nobody", "doubts", "obviously", "believe")
_COMMON = ("the", "of", "and", "to", "in", "that", "it", "with", "as", "for", "this", "from", "are", "on", "by", "at")
_TYPES = ("advice", "coding", "facts", "maths", "other", "writing")


def planted_pairs(positives: int = POSITIVES, unlabelled: int = UNLABELLED, seed: int = 0) -> Comparisons:
    """Pairs of a sound and an empty response in random words, with a verdict that is right for `RIGHT` of them.

    Args:
        positives: pairs with a human preference; it is always for the sound response.
        unlabelled: pairs without one.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    out = io.StringIO(newline="")
    table = csv.writer(out)
    table.writerow(["id", "prompt", "response_a", "response_b", "human", "verdict", "type"])
    for i in range(positives + unlabelled):
        good, bad = (
            " ".join(rng.permutation([*rng.choice(own, 6), *rng.choice(_COMMON, 10)])) for own in (_GOOD, _BAD)
        )
        first, right = bool(rng.integers(2)), rng.random() < RIGHT
        human = ("a" if first else "b") if i < positives else ""
        a, b = (good, bad) if first else (bad, good)
        table.writerow([f"p{i}", f"Question {i}?", a, b, human, "a" if first == right else "b", _TYPES[i % 6]])
    return read_comparisons("planted.csv", out.getvalue().encode())


def planted_run(
    settings: Settings, positives: int = POSITIVES, unlabelled: int = UNLABELLED, *, bootstraps: int = 20
) -> str:
    """Save planted pairs with a finished audit of them, nothing denoised; returns the set's id."""
    found = planted_pairs(positives, unlabelled)
    save_comparisons(found, settings.comparisons)
    config = AuditConfig(
        judge=IN_DATA,
        data=found.set_id,
        encoders=("words",),
        alpha1=1,
        alpha2=1,
        umap=False,
        p_ratios=(),
        bootstraps=bootstraps,
    )
    folder = STUDY.begin(config, settings.runs)
    run_transport_audit(config, found, None, folder, settings, no_checkpoint)
    return found.set_id


# A dashboard of its own and a real browser, for benchmarks: what a visitor waits for, timed inside the page.

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
START_S = 90.0
SETTLED_MS = 90_000
QUIET_MS = 700
"""A page is at rest when its script has ended and no figure has changed for so long [ms]."""

WATCH = """addEventListener('DOMContentLoaded', () => {
  const seen = window.__seen = {start: 0, plots: new Map(), text: 0, last: 0};
  const begin = () => { seen.start = performance.now(); seen.last = 0; seen.text = 0; seen.plots.clear(); };
  for (const kind of ['pointerup', 'keydown']) addEventListener(kind, begin, true);
  new MutationObserver(records => {
    const now = performance.now();
    for (const record of records) {
      const node = record.target.nodeType === 1 ? record.target : record.target.parentElement;
      const plot = node && node.closest('.js-plotly-plot');
      const words = n => n.nodeType === 1 && (n.closest('.js-finding') || n.querySelector('.js-finding'));
      if (plot) { seen.plots.set(plot, now); seen.last = now; }
      else if (node && (node.closest('.js-finding') || [...record.addedNodes].some(words))) {
        seen.text = now; seen.last = now;
      }
    }
  }).observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
})"""
"""Notes when each figure changed last since the page was asked for, or since a pointer or key was let go [ms]."""

AT_REST = """quiet => {
  const app = document.querySelector('[data-testid="stApp"]'), seen = window.__seen, now = performance.now();
  const charts = [...document.querySelectorAll('[data-testid="stPlotlyChart"]')];
  const drawn = charts.every(chart => chart.querySelector('.main-svg'));
  const still = app && app.dataset.testScriptState === 'notRunning' && drawn;
  return still && seen && seen.last > seen.start && now - seen.last > quiet;
}"""

READ = """() => {
  const seen = window.__seen, inside = [], all = [];
  for (const [plot, at] of seen.plots) {
    const box = plot.getBoundingClientRect();
    all.push(at - seen.start);
    if (box.height > 0 && box.bottom > 0 && box.top < innerHeight) inside.push(at - seen.start);
  }
  return {inside, all, text: seen.text ? seen.text - seen.start : null};
}"""


@dataclass(frozen=True)
class Seen:
    """Time of one interaction, from the release of the pointer [ms].

    Attributes:
        first: until the first figure on the screen had its last change; NaN where none changed.
        visible: until all figures on the screen had.
        everything: until all figures of the page had, those below the fold too.
        text: until the page's own sentence stood.
    """

    first: float
    visible: float
    everything: float
    text: float


def chromium() -> str:
    """Path of an installed Chrome or Chromium.

    Raises:
        InputError: none was found, or Playwright is not installed.
    """
    try:
        import playwright  # noqa: F401
    except ImportError:
        raise InputError(
            'This benchmark drives a browser: install Playwright with `pip install -e ".[test]"`.'
        ) from None
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if not found:
        raise InputError(f"No Chrome was found on the PATH ({', '.join(NAMES)}). Install Chromium.")
    return found


@contextmanager
def own_home(settings: Settings) -> Iterator[Settings]:
    """A home and a call cache of the benchmark's own, with the weights of the user's."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        cache.mkdir()
        if settings.weights.is_dir():
            (cache / "weights").symlink_to(settings.weights)
        yield replace(settings, data_dir=Path(folder) / "home", cache_dir=cache)


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_server(settings: Settings, port: int, token: str = "") -> subprocess.Popen[bytes]:
    """The dashboard over these settings, once it answers.

    Raises:
        InputError: it ended, or did not answer in time.
    """
    env = child_environment(
        JUDGESCOPE_HOME=str(settings.data_dir), JUDGESCOPE_CACHE=str(settings.cache_dir), JUDGESCOPE_TOKEN=token
    )
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    root = Path(__file__).resolve().parents[2]
    with (settings.data_dir / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine.cli.main", "dashboard", "--port", str(port)],
            cwd=root,
            env=env,
            stdout=log,
            stderr=log,
        )
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                return process
        except urllib.error.HTTPError:  # it asks for the token, so it is there
            return process
        except OSError:
            time.sleep(0.1)
    stop_server(process)
    raise InputError(f"The dashboard did not start: {(settings.data_dir / 'server.log').read_text()[-800:]}")


def stop_server(process: subprocess.Popen[bytes]) -> None:
    """End a server, by force where it does not end by itself."""
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def browser() -> Iterator[Any]:
    """A headless browser with a fresh profile; gives Playwright's browser."""
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


def new_page(browser: Any) -> Any:
    """A page of a visitor of its own (no cache, no cookie), which is timed from its first request on."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(SETTLED_MS)
    page.add_init_script(WATCH)
    return page


def opened(page: Any, url: str) -> Seen:
    """Open an address and wait for what it shows."""
    page.goto(url)
    return read(page)


def read(page: Any) -> Seen:
    """Time of the last interaction, once nothing moves any more."""
    page.wait_for_function(AT_REST, arg=QUIET_MS, timeout=SETTLED_MS)
    found = page.evaluate(READ)
    nan = float("nan")
    inside, every = found["inside"], found["all"]
    return Seen(
        first=min(inside, default=nan),
        visible=max(inside, default=nan),
        everything=max(every, default=nan),
        text=nan if found["text"] is None else float(found["text"]),
    )


def until(page: Any, selector: str) -> float:
    """Time from the last release of the pointer until something stands on the page [ms]."""
    script = "selector => document.querySelector(selector) ? performance.now() - window.__seen.start : 0"
    return float(page.wait_for_function(script, arg=selector, timeout=SETTLED_MS).json_value())


def drag(page: Any, slider: Any, share: float) -> None:
    """Drag a slider's thumb to a share of its track and let go.

    Args:
        page: Playwright's page.
        slider: locator of the `<input type=range>`.
        share: in [0, 1].
    """
    box = slider.evaluate(
        """input => {
            input.closest('[data-testid="stSlider"]').scrollIntoView({block: 'start'});
            const of = e => { const b = e.getBoundingClientRect(); return {x: b.x, y: b.y, w: b.width, h: b.height}; };
            let thumb = input.parentElement;
            while (thumb.getBoundingClientRect().width < 4) thumb = thumb.parentElement;
            const track = thumb.parentElement;
            return {thumb: of(thumb), track: of(track)};
        }"""
    )
    thumb, track = box["thumb"], box["track"]
    y = thumb["y"] + thumb["h"] / 2
    page.mouse.move(thumb["x"] + thumb["w"] / 2, y)
    page.mouse.down()
    page.mouse.move(track["x"] + share * track["w"], y, steps=5)
    page.mouse.up()


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
        job: the worker's job at that time; empty for none.
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
    one.add_argument("--first-live", action="store_true", help="only the first live answer of a new server")
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
    if args.first_live:
        return _first_live(user, args.repeats)
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


# The first live answer: what somebody waits for who starts the dashboard and clicks once.

LIVE_BAR = 5_000.0
"""Longest median from the first click to the live answer [ms]."""
_STEPS = ("server", "page", "judge ready", "click to live", "judge's own")
READY = "() => [...document.querySelectorAll('.js-facts')].some(facts => facts.innerText.includes('ready'))"
"""The Attack lab says that its judge is loaded."""
_ANSWERED = "() => !document.body.innerText.includes('until then the answer above stands')"
_UNRECORDED = "Adaptive"
"""An attack that no recorded run of the first judge has, so that only a live answer names it in the headline."""
_NAMED = "name => (document.querySelector('.js-headline')?.innerText ?? '').includes(name)"
_COST = re.compile(r"Time\s*([\d.]+) (ms|s)\b")


def _first_live(user: Settings, repeats: int) -> dict[str, Any]:
    """A new server with an empty cache each time; from its start until a first click is answered by the judge."""
    load, seen = os.getloadavg()[0], []
    for i in range(repeats):
        with own_home(user) as settings:
            seen.append(_once_live(settings))
        print(f"{i + 1}: " + ", ".join(f"{k} {v:.0f} ms" for k, v in seen[-1].items()), file=sys.stderr)
    steps = {name: median([one[name] for one in seen]) for name in _STEPS}
    print("| step | median [ms] |\n|---|---|")
    print("\n".join(f"| {name} | {_cell(found)} |" for name, found in steps.items()))
    within = steps["click to live"]["median"] <= LIVE_BAR
    loads = [load, os.getloadavg()[0]]
    return {"cores": os.cpu_count(), "load": loads, "bar_ms": LIVE_BAR, "within_bar": within, "steps": steps}


def _once_live(settings: Settings) -> dict[str, float]:
    """Milliseconds of each of `_STEPS`; the first three count from the start of the server, judge's own is its work."""
    begun, port = time.monotonic(), free_port()
    server = start_server(settings, port)
    found = {"server": 1e3 * (time.monotonic() - begun)}
    try:
        with browser() as one:
            page = new_page(one)
            opened(page, f"http://127.0.0.1:{port}/{_ATTACK_LAB}")
            found["page"] = 1e3 * (time.monotonic() - begun)
            page.wait_for_function(READY, timeout=SETTLED_MS)
            found["judge ready"] = 1e3 * (time.monotonic() - begun)
            page.wait_for_function(_ANSWERED, timeout=SETTLED_MS)
            read(page)
            page.locator(".st-key-attack").get_by_text(_UNRECORDED, exact=True).click()
            page.wait_for_function(_NAMED, arg=_UNRECORDED, timeout=SETTLED_MS)
            found["click to live"] = read(page).visible
            cost = _COST.search(page.locator("body").inner_text())
            found["judge's own"] = float(cost[1]) * (1e3 if cost[2] == "s" else 1) if cost else math.nan
            return found
    finally:
        stop_server(server)


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
