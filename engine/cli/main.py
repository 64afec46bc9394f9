"""The command line: the same engine as the dashboard, for scripts, CI and clusters.

Exit codes: 0 done, 1 our fault, 2 the user's input, 3 stopped at the budget or at the cap of an
API judge, 4 a check-up's threshold failed, 130 stopped by hand (3 and 130 go on with the same run id).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from engine import __version__
from engine.cli import bench, convert, dashboard, doctor, figures, recorded, runs, score, study
from engine.core.errors import (
    INCONCLUSIVE,
    OK,
    OUR_FAULT,
    STOPPED,
    USER_INPUT,
    Cancelled,
    EngineError,
    InputError,
    OutOfCalls,
)
from engine.core.json import dumps


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="judgescope", description="Probe, attack and defend an LLM judge.")
    parser.add_argument("--version", action="version", version=f"judgescope {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (doctor, score, study, figures, runs, recorded, convert, bench, dashboard):
        command.add(commands)
    args = parser.parse_args(argv)
    run: Callable[[argparse.Namespace], dict[str, Any]] = args.run
    try:
        result = run(args)
    except InputError as error:
        return _fail(str(error), USER_INPUT)
    except OutOfCalls as error:
        return _fail(str(error), INCONCLUSIVE)
    except EngineError as error:
        return _fail(str(error), OUR_FAULT)
    except (Cancelled, KeyboardInterrupt):
        return _fail("Stopped. What was done is kept: the same command with its run id goes on from there.", STOPPED)
    except BrokenPipeError:  # the reader had enough (`| head`); what is left to say goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    code = int(result.pop("exit_code", OK))
    if args.json:
        print(dumps(result))
    return code


def _fail(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
