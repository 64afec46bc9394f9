"""The command line."""

from __future__ import annotations

import argparse


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that makes the last line one strict JSON object."""
    parser.add_argument("--json", action="store_true", help="last line is one JSON object")
