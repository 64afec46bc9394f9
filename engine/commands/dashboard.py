"""`judgescope dashboard`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command."""
    dashboard = commands.add_parser("dashboard", help="open the dashboard on 127.0.0.1")
    dashboard.add_argument("--port", type=int, default=8501)
    dashboard.set_defaults(run=run, json=False)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Start the server and wait for it."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", "--server.port", str(args.port)]
    print(f"JudgeScope opens on http://127.0.0.1:{args.port} (Ctrl-C stops it).")
    return {"exit_code": subprocess.run(command, cwd=root, check=False).returncode}
