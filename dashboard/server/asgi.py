"""The dashboard as an ASGI application behind its guard; `python -m dashboard.server.asgi` serves it.

Its settings are in `.streamlit/config.toml`: in the repository's folder, from which it must be started, and beside
`app.py` in a wheel. Under an ASGI server of one's own: `uvicorn dashboard.server.asgi:app`.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from streamlit import config
from streamlit.runtime.pages_manager import PagesManager

from dashboard.server.guard import Guard, check_exposure, is_loopback, login_configured, mark_guarded, signed_in
from dashboard.state import DEFAULT_JUDGE
from engine.core.errors import MODELS, InputError, lacking
from engine.core.settings import get_settings
from engine.jobs.manager import manager

LOCAL = ("127.0.0.1", "localhost", "::1")
ENTRY = Path(__file__).parents[1] / "app.py"
config._main_script_path = str(ENTRY)  # before anything asks for a setting: a wheel's lie beside it
MOST_FILES = 8192
"""Open files that the server asks the system for; each visitor's session takes three."""


def allowed_hosts() -> Iterable[str]:
    """The host names that are served: Streamlit's own setting, and this machine's where it is empty."""
    return config.get_option("server.allowedHosts") or LOCAL


def raise_file_limit(wanted: int = MOST_FILES) -> int:
    """Raise this process's soft limit of open files as far as the hard one lets; returns what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft  # a system with a limit of its own below the hard one
    return most


def _end_with_the_terminal() -> None:
    """A hang-up ends the server as a request to stop does, unless it was started to outlive its terminal (nohup)."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


@asynccontextmanager
async def _lifespan(_app: st.App) -> AsyncIterator[dict[str, Any] | None]:
    """Nobody is served at an address that `check_exposure` refuses, and many visitors find room."""
    raise_file_limit()
    check_exposure(config.get_option("server.address") or "", get_settings().token, login=login_configured())
    mark_guarded()
    # Else Streamlit takes the folder `pages` for its own old kind, and the first visitor's deep link for no page.
    PagesManager.uses_pages_directory = False
    if get_settings().warm and not lacking(MODELS):
        manager().warm(DEFAULT_JUDGE)
    yield None


app = st.App(
    ENTRY,
    lifespan=_lifespan,
    middleware=[
        Middleware(
            Guard,
            allowed=allowed_hosts,
            token=get_settings().token,
            signed_in=signed_in if login_configured() else None,
        )
    ],
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until stopped; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m dashboard.server.asgi", description="Serve the dashboard.")
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME")
    args = parser.parse_args(argv)
    try:
        check_exposure(args.address, get_settings().token, login=login_configured())
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    _end_with_the_terminal()
    wild = args.address in ("0.0.0.0", "::", "")
    named = [*args.allow_host, *([] if wild or is_loopback(args.address) else [args.address])]
    sys.argv[0] = str(ENTRY)  # else a wheel's settings are looked for beside this module
    app.run(
        config={
            "server.port": args.port,
            "server.address": args.address,
            "server.allowedHosts": [*LOCAL, *named],
            # otherwise Streamlit asks a server elsewhere for this machine's address, to print it
            "browser.serverAddress": next(iter(named), "localhost" if wild else args.address),
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
