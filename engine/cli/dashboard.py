"""`judgescope dashboard`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from engine.core.settings import get_settings


def add(commands: Any) -> None:
    """Add the command."""
    dashboard = commands.add_parser("dashboard", help="open the dashboard, by default on 127.0.0.1 only")
    dashboard.add_argument("--port", type=int, default=8501)
    dashboard.add_argument("--address", default="127.0.0.1", help="another one needs JUDGESCOPE_TOKEN or an OIDC login")
    dashboard.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a host name under which it may be reached"
    )
    dashboard.set_defaults(run=run, json=False)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Become the server: it has this process's id, so that whatever ends the command ends the server.

    Raises:
        InputError: the environment has a setting that cannot be used.
    """
    get_settings()
    root = Path(__file__).resolve().parents[2]
    checkout = (root / ".streamlit").is_dir()
    if checkout:
        os.chdir(root)
    command = [sys.executable, *([] if checkout else ["-P"])]  # a folder `dashboard` where it was started is not ours
    command += ["-m", "dashboard.server.asgi", "--port", str(args.port), "--address", args.address]
    for name in args.allow_host:
        command += ["--allow-host", name]
    sys.stdout.flush()
    os.execv(sys.executable, command)
