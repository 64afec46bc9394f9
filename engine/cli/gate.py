"""Options of the commands that end as a gate, and the files that others' CI reads."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core.errors import InputError, shown
from engine.core.files import is_file, write_atomically
from engine.core.gate import Gate
from engine.report.gate import as_junit, as_markdown, as_sarif

OUTPUTS = {
    "markdown": "the outcome for a comment or a job summary",
    "junit": "the outcome as JUnit XML: a test case for each check",
    "sarif": "the outcome as SARIF 2.1.0",
}
"""Option -> what its file holds."""


def add_gate_options(parser: argparse.ArgumentParser, only: str = "") -> None:
    """An option for each kind of file.

    Args:
        parser: of the command.
        only: which of its studies have an outcome, at the head of the help.
    """
    for name, holds in OUTPUTS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=only + holds)


def outputs_asked(args: argparse.Namespace) -> dict[str, Path]:
    """Option -> its file, of the options that were given.

    Raises:
        InputError: the folder of one is not there; better said before a judge is asked than after.
    """
    asked: dict[str, Path] = {
        name: getattr(args, name).expanduser().resolve() for name in OUTPUTS if getattr(args, name)
    }
    for name, path in asked.items():
        if not path.parent.is_dir():
            raise InputError(f"--{name} {path.name}: its folder {shown(path.parent.name)} is not there. Make it first.")
    return asked


def write_gates(args: argparse.Namespace, gates: Sequence[Gate]) -> None:
    """Write the files that were asked for; none where there is no gate, as in a dry run.

    Raises:
        WriteError: one cannot be written.
    """
    if not gates:
        return
    makers: dict[str, Callable[[Sequence[Gate]], str | bytes]] = {
        "markdown": as_markdown,
        "junit": as_junit,
        "sarif": as_sarif,
    }
    for name, path in outputs_asked(args).items():
        made = makers[name](gates)
        write_atomically(path, made if isinstance(made, bytes) else made.encode())


def file_named(name: str) -> str:
    """The file below the present folder that a command names, relative to it; empty where it names none there."""
    here, path = Path.cwd(), Path(name).expanduser().resolve()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) and is_file(path) else ""
