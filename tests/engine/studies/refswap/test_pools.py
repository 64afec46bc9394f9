"""Uploaded references: kept once, listed, loaded by their id alone, refused with the reason."""

from __future__ import annotations

import pytest

from engine.core.errors import InputError
from engine.studies.refswap import references as pools
from engine.studies.refswap.references import list_pools, load_pool, pool_of_lines, save_pool


def test_a_pool_is_kept_once_and_comes_back(tmp_path):
    tmp_path = tmp_path / "pools"
    first = save_pool("a.txt", "\ufeffTuesday\n\n12\n12\n\\boxed{x+1}\n".encode(), tmp_path)
    again = save_pool("b.txt", b"12\nTuesday\nx+1", tmp_path)
    assert first.pool_id == again.pool_id
    assert [(p.pool_id, p.name, p.n) for p in list_pools(tmp_path)] == [(first.pool_id, "b.txt", 3)]
    pool = load_pool(first.pool_id, tmp_path)
    assert pool == pool_of_lines("b.txt", b"12\nTuesday\nx+1")
    assert list(tmp_path.iterdir()) == [tmp_path / f"{first.pool_id}.json"]


@pytest.mark.parametrize("name", ["data", "demo-verification", "../pool-0123456789abcdef", "pool-xyz"])
def test_other_names_are_no_pools(name, tmp_path):
    assert load_pool(name, tmp_path) is None


def test_what_cannot_be_used_is_named(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"pool a.txt cannot be read as UTF-8"):
        save_pool("a.txt", b"\xff\xfe\x00", tmp_path)
    with pytest.raises(InputError, match="holds no reference"):
        save_pool("a.txt", b"\n \n", tmp_path)
    monkeypatch.setattr(pools, "MAX_LINES", 2)
    with pytest.raises(InputError, match="has 3 lines; at most 2"):
        save_pool("a.txt", b"1\n2\n3", tmp_path)
    with pytest.raises(InputError, match="Upload the file again"):
        load_pool("pool-0123456789abcdef", tmp_path)
    (tmp_path / "pool-0123456789abcdef.json").write_text("[]", encoding="utf-8")
    assert list_pools(tmp_path) == []
