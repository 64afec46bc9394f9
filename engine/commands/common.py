"""What several commands share: exit codes, common options, progress."""

from __future__ import annotations

import argparse
import sys

OK, OUR_FAULT, USER_INPUT, INCONCLUSIVE, THRESHOLD_FAILED, STOPPED = 0, 1, 2, 3, 4, 130


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that makes the last line one strict JSON object."""
    parser.add_argument("--json", action="store_true", help="last line is one JSON object")


def show_progress(done: int, total: int) -> None:
    """One line that counts up, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{done} of {total} judge calls", end="\n" if done == total else "", file=sys.stderr, flush=True)
