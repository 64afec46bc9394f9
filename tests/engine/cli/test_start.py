"""Start-up, counted in imported modules: a command loads what it needs and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numba", "numpy", "pandas", "plotly", "pydantic", "scipy", "sklearn", "streamlit", "torch", "transformers"}
LIST = """
import sys
from engine.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
"""


def loaded(*command: str) -> set[str]:
    """Modules that a fresh Python has loaded once the command is over."""
    done = subprocess.run([sys.executable, "-c", LIST, *command], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines())


@pytest.mark.parametrize("command", ["--help", "--version"])
def test_help_loads_nothing_but_the_parser(command: str) -> None:
    modules = loaded(command)
    assert not modules & HEAVY
    assert len([name for name in modules if name.startswith("engine")]) <= 6
    assert len(modules) <= 150  # 90 of them are Python's own


@pytest.mark.parametrize(
    ("command", "without"),
    [
        (["doctor"], {"numba", "pandas", "scipy", "streamlit", "transformers"}),
        (["runs", "--help"], {"numba", "streamlit", "torch", "transformers"}),
        (["study", "--help"], {"numba", "streamlit", "torch", "transformers"}),
        (["score", "--help"], {"numba", "streamlit", "torch", "transformers"}),
    ],
)
def test_a_command_loads_no_model_library_before_it_needs_one(command: list[str], without: set[str]) -> None:
    modules = loaded(*command)
    assert not modules & without
    assert not [name for name in modules if name.startswith(("engine.bench.", "engine.training."))]
