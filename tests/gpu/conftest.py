"""The tiny models of the engine's tests."""

from tests.engine.conftest import tiny, tiny_folders  # noqa: F401
