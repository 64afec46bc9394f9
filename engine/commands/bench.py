"""`judgescope bench WHAT`: measure again what the project claims."""

from __future__ import annotations

from typing import Any

from engine.studies.bench_audit import add_audit
from engine.studies.bench_cap import add_cap
from engine.studies.bench_formats import add_formats
from engine.studies.bench_page import add_page
from engine.studies.bench_refswap import add_refswap
from engine.studies.bench_scoring import add_scoring
from engine.studies.bench_steering import add_steering
from engine.studies.bench_suffix import add_suffix
from engine.studies.bench_transport import add_transport
from engine.studies.bench_verifier import add_verifier
from engine.studies.full_size import add_full
from engine.studies.judge_bench import add_bench


def add(commands: Any) -> None:
    """Add `bench` and what it measures."""
    kinds = add_bench(commands)
    add_scoring(kinds)
    add_refswap(kinds)
    add_verifier(kinds)
    add_steering(kinds)
    add_suffix(kinds)
    add_cap(kinds)
    add_transport(kinds)
    add_audit(kinds)
    add_page(kinds)
    add_formats(kinds)
    add_full(kinds)
