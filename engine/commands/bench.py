"""`judgescope bench WHAT`: measure again what the project claims."""

from __future__ import annotations

from typing import Any

from engine.studies.bench_scoring import add_scoring
from engine.studies.judge_bench import add_bench


def add(commands: Any) -> None:
    """Add `bench` and what it measures."""
    kinds = add_bench(commands)
    add_scoring(kinds)
