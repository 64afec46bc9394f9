"""A real server and a real browser; skipped by name where Chromium is not found."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.core.settings import Settings, get_settings
from tests.e2e.steps import settle

ROOT = Path(__file__).parents[2]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_chromium() -> str:
    """The browser's path, or an empty text."""
    fixed = "/usr/bin/chromium"
    return fixed if Path(fixed).is_file() else next((p for p in map(shutil.which, NAMES) if p), "")


def pytest_collection_modifyitems(items):
    """Mark every journey, and skip it with a reason where there is no browser."""
    missing = not find_chromium()
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)
            if missing:
                item.add_marker(
                    pytest.mark.skip(reason="Chromium is not installed (looked for /usr/bin/chromium and PATH)")
                )


@dataclass(frozen=True)
class Server:
    """A running dashboard with a home of its own."""

    url: str
    settings: Settings


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    """The dashboard that the journeys of a process share."""
    with _serve(tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def fresh_server(tmp_path_factory) -> Iterator[Server]:
    """A dashboard that nobody has visited yet."""
    with _serve(tmp_path_factory.mktemp("fresh")) as served:
        yield served


@contextmanager
def _serve(folder: Path) -> Iterator[Server]:
    """The dashboard on a free port; only the weights come from the user's cache."""
    weights = get_settings().weights
    (folder / "cache").mkdir()
    if weights.is_dir():
        (folder / "cache" / "weights").symlink_to(weights)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **os.environ,
        "JUDGESCOPE_HOME": str(folder / "home"),
        "JUDGESCOPE_CACHE": str(folder / "cache"),
        "JUDGESCOPE_DEVICE": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    log = (folder / "server.log").open("w")
    command = [sys.executable, "-m", "dashboard.server.asgi", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, folder / "server.log")
        with pytest.MonkeyPatch.context() as patch:
            for name in ("JUDGESCOPE_HOME", "JUDGESCOPE_CACHE"):
                patch.setenv(name, env[name])
            settings = get_settings()
        yield Server(url, settings)
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


def _wait(url: str, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"The dashboard ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("The dashboard did not answer within three minutes.")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser with a fresh profile; a request that leaves the machine fails the test that caused it."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)  # a busy machine is slow, not wrong
    with sync_playwright() as play:
        context = play.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=find_chromium(),
            args=FLAGS,
            viewport={"width": 1280, "height": 900},
        )
        context.set_default_timeout(60_000)
        yield context
        context.close()


@pytest.fixture(scope="session", autouse=True)
def acts_on_a_page_at_rest() -> Iterator[None]:
    """Press and type as a person does, on a drawn page: while it is drawn anew a button moves under the mouse."""
    from playwright.sync_api import Locator

    with pytest.MonkeyPatch.context() as patch:
        for name in ("click", "fill", "press"):
            patch.setattr(Locator, name, _at_rest(getattr(Locator, name)))
        yield


def _at_rest(own):
    def act(locator, *args, **options):
        if locator.page.get_by_test_id("stApp").count():
            settle(locator.page)
        return own(locator, *args, **options)

    return act


@pytest.fixture
def page(browser, server):
    """A new tab that must neither call out nor need anything that the content policy forbids."""
    tab = browser.new_page()
    outside: list[str] = []
    blocked: list[str] = []
    tab.on("request", lambda r: outside.append(r.url) if _leaves(r.url, server.url) else None)
    tab.on("console", lambda m: blocked.append(m.text) if "Content Security Policy" in m.text else None)
    yield tab
    tab.close()
    assert not outside, f"the page called out: {outside}"
    assert not blocked, f"the content policy blocked: {blocked}"


def _leaves(url: str, home: str) -> bool:
    return not url.startswith((home, home.replace("http", "ws"), "data:", "blob:", "about:", "file:"))
