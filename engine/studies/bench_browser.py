"""A dashboard of its own and a real browser, for benchmarks: what a visitor waits for, timed inside the page."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.settings import Settings, child_environment

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
    """What one interaction took, from the release of the pointer [ms].

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
            [sys.executable, "-m", "dashboard.asgi", "--port", str(port)], cwd=root, env=env, stdout=log, stderr=log
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
    """What the last interaction took, once nothing moves any more."""
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
