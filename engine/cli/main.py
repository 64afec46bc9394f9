"""The command line: the same engine as the dashboard, for scripts, CI and clusters.

Exit codes: 0 done, 1 our fault, 2 the user's input, 3 stopped at the budget or at the cap of an
API judge, or too few calls read to conclude anything, 4 a gate failed (check-up, trust, `drift`), 130 stopped by hand
(after a stop the same run id goes on).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from engine import __version__
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
from engine.core.plugins import complaints

COMMANDS = {
    "doctor": "check that everything a judge needs is there",
    "score": "score responses under attacks and defenses",
    "study": "run a study by its name, or from a TOML file",
    "figures": "save the figures of a run for a paper or as one HTML page",
    "runs": "list, compare, name, delete, export, import, resume and retry runs",
    "drift": "freeze a run's prompts and verdicts, and hold a judge against them later",
    "label": "plan, export and import people's labels",
    "recorded": "analyse verdicts you already have",
    "convert": "read a file of a known format and write it in another",
    "bench": "measure again what the project claims",
    "dashboard": "open the dashboard, by default on 127.0.0.1 only",
}
"""Each command is the module of its name beside this one; only the one that is asked for is imported."""


def parser_of(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of the one that `argv` begins with alone."""
    parser = argparse.ArgumentParser(prog="judgescope", description="Probe, attack and defend an LLM judge.")
    parser.add_argument("--version", action="version", version=f"judgescope {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    chosen = next((word for word in argv if not word.startswith("-")), "")
    for name, about in COMMANDS.items():
        if name != chosen:
            commands.add_parser(name, help=about)
        elif name == "bench":
            importlib.import_module("engine.cli.bench").add(commands, argv)
        else:
            importlib.import_module(f"engine.cli.{name}").add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, print; returns the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        args = parser_of(argv).parse_args(argv)
        run: Callable[[argparse.Namespace], dict[str, Any]] = args.run
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
    finally:
        for line in complaints() if "doctor" not in argv else ():  # which lists all of them
            print(line, file=sys.stderr)
    code = int(result.pop("exit_code", OK))
    if args.json:
        from engine.core.json import dumps

        print(dumps(result))
    return code


def _fail(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
