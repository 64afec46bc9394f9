"""`judgescope bench WHAT`: measure again what the project claims."""

from __future__ import annotations

from typing import Any

from engine.bench.audit import add_audit
from engine.bench.cap import add_cap
from engine.bench.formats import add_formats
from engine.bench.full_size import add_full
from engine.bench.judge import add_bench
from engine.bench.page import add_page
from engine.bench.refswap import add_refswap
from engine.bench.scoring import add_scoring
from engine.bench.steering import add_steering
from engine.bench.suffix import add_suffix
from engine.bench.transport import add_transport
from engine.bench.verifier import add_verifier


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
