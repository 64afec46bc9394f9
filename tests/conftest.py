"""Shared by all tests: every test has its own home, and only the weights of the real cache."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import hypothesis
import pytest

from engine.core.settings import Settings, get_settings
from engine.inference import loading as loader
from engine.inference.weights import base_record

os.environ.setdefault("JUDGESCOPE_WARM", "0")  # a server of a test loads no judge before it is asked
REAL = get_settings()
# The same examples in every run, and no limit of time: a busy machine is slow, not wrong.
hypothesis.settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("suite"), max_examples=40)


def pytest_configure(config: pytest.Config) -> None:
    """Fewer examples where the slow tests are left out, too."""
    hypothesis.settings.load_profile("quick" if config.option.markexpr == "not slow" else "suite")


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that of several workers (a file stays in one) none is left alone with one of them."""
    long = {i.path for i in items if i.get_closest_marker("slow") or "weights" in getattr(i, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def weights():
    """Skip where the bundled weights were not fetched (`make test` fetches them); each is loaded once."""
    record = base_record(REAL.assets / "judge")
    if not (REAL.gguf or (REAL.weights / record.gguf_name).is_file()):
        pytest.skip("the bundled judge's weights are absent; run `judgescope doctor --fetch`")
    load = lru_cache(maxsize=2)(lambda adapter: _LOAD(REAL, adapter))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "_load_bundled", lambda settings, adapter: load(adapter))
        yield


_LOAD = loader._load_bundled


@pytest.fixture(scope="session")
def bundled(weights: None):
    """The bundled judge's model, loaded once for the session."""
    from engine.inference.loading import load_model

    return load_model("bundled:judge", REAL)
