"""Shared by all tests: every test has its own home, and only the weights of the real cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.models.weights import base_record
from engine.settings import Settings, get_settings

REAL = get_settings()


def _use_home(folder: Path, patch: pytest.MonkeyPatch) -> Settings:
    patch.setenv("JUDGESCOPE_HOME", str(folder / "home"))
    patch.setenv("JUDGESCOPE_CACHE", str(folder / "cache"))
    patch.setenv("JUDGESCOPE_DEVICE", os.environ.get("JUDGESCOPE_DEVICE", "cpu"))
    (folder / "cache").mkdir(exist_ok=True)
    link = folder / "cache" / "weights"
    if REAL.weights.is_dir() and not link.exists():
        link.symlink_to(REAL.weights)
    return get_settings()


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The test's own settings; nothing it does reaches the user's data or calls."""
    return _use_home(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def weights() -> None:
    """Skip where the bundled weights were not fetched (`make test` fetches them)."""
    record = base_record(REAL.assets / "judge")
    if not (REAL.gguf or (REAL.weights / record.gguf_name).is_file()):
        pytest.skip("the bundled judge's weights are absent; run `judgescope doctor --fetch`")


@pytest.fixture(scope="session")
def bundled(weights: None):
    """The bundled judge's model, loaded once for the session."""
    from engine.models.loader import load_model

    return load_model("bundled:judge", REAL)
