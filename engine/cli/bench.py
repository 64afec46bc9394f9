"""`judgescope bench WHAT`: measure again what the project claims."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from engine.core.errors import InputError

BENCHES = {
    "judge": ("judge", "the figures of the bundled judge's model card"),
    "scoring": ("scoring", "shared prefixes against padded batches and single prompts"),
    "refswap": ("refswap", "tokens and time of RefSwap against the undefended verifier"),
    "verifier": ("verifier", "both bundled verifiers on GSM8K, MATH and VerifyBench-hard, with RefSwap"),
    "steering": ("steering", "a batched steering sweep against the library's generate with a hook"),
    "screening": ("screening", "readings of clean and attacked replies, and where a threshold stands"),
    "suffix": ("suffix", "candidates of a suffix search behind shared beginnings and one by one"),
    "cap": ("cap", "seconds behind CAP, anchors written anew, against the undefended judge"),
    "transport": ("transport", "the exact transport path against POT, mass by mass"),
    "coverage": ("coverage", "how often the intervals hold the truth, simulated"),
    "trust": ("trust", "corrected intervals on simulated judges: coverage and width"),
    "audit": ("audit", "transport audits of recorded verdicts: LLMBar's prompts and PandaLM"),
    "strong": ("strong", "strong judges' recorded verdicts: ship them, and the claims they can answer"),
    "recordings": ("recordings", "make the recorded runs of assets/demo anew, by name"),
    "pictures": ("pictures", "pictures of the README and the documentation, in a real browser"),
    "page": ("page", "first page, sliders and a job in a real browser"),
    "run": ("whole_run", "whole runs of score: verdicts a second, CPU, memory, growth"),
    "served": ("served", "an API judge's verdicts a second and CPU, by calls in flight and addresses"),
    "ray": ("cluster", "a planted judge in this process and over actors of a Ray cluster"),
    "formats": ("formats", "reading large files: known formats, recordings, data sets"),
    "results": ("results", "write docs/results.md from the stored results"),
    "claims": ("claims", "the frozen claims of the four papers on the public data: claims.csv"),
    "full": ("full_size", "the studies of the four papers at full size: the tables of assets/results"),
}
"""Each benchmark: its module in `engine.bench`, and what it measures."""


def add(commands: Any, argv: Sequence[str] = ()) -> None:
    """Add `bench`; only the benchmark that `argv` names is imported.

    Raises:
        InputError: one is named, and this is an installed wheel, which has none.
    """
    if any(name in argv for name in BENCHES) and importlib.util.find_spec("engine.bench") is None:
        raise InputError(
            "Benchmarks and training are not part of an installed judgescope: they need the data, recipes and tests of "
            "its repository. Clone it, run `make setup` there, and this command again with .venv/bin/judgescope."
        )
    kinds = commands.add_parser("bench", help="measure again what the project claims").add_subparsers(
        required=True, metavar="WHAT"
    )
    for name, (module, about) in BENCHES.items():
        if name in argv:
            getattr(importlib.import_module(f"engine.bench.{module}"), f"add_{name}")(kinds)
        else:
            kinds.add_parser(name, help=about)
