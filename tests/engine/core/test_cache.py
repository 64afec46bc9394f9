"""The call cache: content-keyed, exact, safe across threads and processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from engine.core.cache import CallCache, call_key, reply_key
from engine.core.errors import WriteError


def test_what_is_put_is_got_bit_for_bit(tmp_path):
    cache = CallCache(tmp_path / "deep" / "calls.sqlite")
    rows = {f"k{i}": np.random.default_rng(i).random(5) for i in range(1200)}  # more than one query's bound values
    cache.put_many(rows.items())
    got = cache.get_many([*rows, "absent"])
    assert set(got) == set(rows)
    assert all(np.array_equal(got[k], v) for k, v in rows.items())


def test_the_key_tells_apart_all_that_decides_an_answer():
    base = call_key("f", [1, 2, 3], [[5], [6]])
    others = [
        call_key("g", [1, 2, 3], [[5], [6]]),
        call_key("f", [1, 2], [[5], [6]]),
        call_key("f", [1, 23], [[5], [6]]),
        call_key("f", [1, 2, 3], [[5, 6]]),
        call_key("f", [1, 2, 3], [[6], [5]]),
    ]
    assert len({base, *others}) == 6


def test_threads_and_a_second_process_share_it(tmp_path):
    path = tmp_path / "calls.sqlite"
    cache = CallCache(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: cache.put_many([(f"t{i}", np.array([i, 0.5]))]), range(64)))
    code = (
        "import sys, numpy as np; from pathlib import Path; from engine.core.cache import CallCache\n"
        "c = CallCache(Path(sys.argv[1])); c.put_many([('other', np.array([7.0]))])\n"
        "print(len(c.get_many([f't{i}' for i in range(64)])))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "64"
    assert cache.get_many(["other"])["other"].tolist() == [7.0]


def test_replies_are_kept_beside_the_probabilities(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    cache.put_replies([("a", ("Score: 4\u200b", 5)), ("b", ("", 1))])
    cache.put_replies([("a", ("another", 9))])
    assert cache.get_replies(["a", "b", "c"]) == {"a": ("Score: 4\u200b", 5), "b": ("", 1)}
    assert cache.get_many(["a"]) == {}
    assert (
        len(
            {reply_key("f", [1, 2], 8), reply_key("f", [1, 2], 9), reply_key("g", [1, 2], 8), call_key("f", [1, 2], [])}
        )
        == 4
    )


def filled(path):
    """A cache with many pages, closed."""
    cache = CallCache(path)
    cache.put_many((f"k{i}", np.full(50, float(i))) for i in range(400))
    cache.put_replies((f"r{i}", ("Score: 4" * 40, 5)) for i in range(400))
    cache.close()
    return path.read_bytes()


def altered(*statements: str):
    def change(path, data):
        db = sqlite3.connect(path)
        for statement in statements:
            db.execute(statement)
        db.commit()
        db.close()

    return change


def as_folder(path, data):
    path.unlink()
    path.mkdir()
    (path / "a.txt").write_text("x")


DAMAGE = {
    "text": lambda path, data: path.write_text("this is no database, though it is as long as one has to be" * 20),
    "header": lambda path, data: path.write_bytes(b"\xff" * 100 + data[100:]),
    "first page": lambda path, data: path.write_bytes(data[:100] + b"\xff" * 3996 + data[4096:]),
    "pages": lambda path, data: path.write_bytes(data[:8192] + b"\xa5" * (len(data) - 8192)),
    "cut off": lambda path, data: path.write_bytes(data[: len(data) // 3]),
    "another table": altered("DROP TABLE calls", "CREATE TABLE calls (a, b, c)"),
    "another column": altered("ALTER TABLE replies RENAME COLUMN text TO words"),
    "rows that are no numbers": altered("UPDATE calls SET probabilities = x'010203'"),
    "texts for numbers": altered("UPDATE calls SET probabilities = 'x'", "UPDATE replies SET text = x'ff'"),
    "no UTF-8": altered("UPDATE replies SET text = CAST(x'ff' AS TEXT)"),
    "a folder": as_folder,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_cache_is_set_aside_and_a_new_one_begun(name, tmp_path, capsys):
    path = tmp_path / "calls.sqlite"
    DAMAGE[name](path, filled(path))
    cache = CallCache(path)
    cache.get_many([f"k{i}" for i in range(400)])
    cache.get_replies([f"r{i}" for i in range(400)])
    cache.put_many([("new", np.array([0.25, 0.75]))])
    assert cache.get_many(["new"])["new"].tolist() == [0.25, 0.75]
    aside = [p for p in tmp_path.iterdir() if "damaged" in p.name and p.suffix == ".sqlite"]
    assert len(aside) == 1
    message = capsys.readouterr().err
    assert aside[0].name in message
    assert str(path) in message
    cache.close()
    assert CallCache(path).get_many(["new"])["new"].tolist() == [0.25, 0.75]


def test_an_empty_file_and_one_that_is_whole_are_used_as_they_are(tmp_path, capsys):
    (tmp_path / "empty.sqlite").touch()
    CallCache(tmp_path / "empty.sqlite").put_many([("a", np.array([1.0]))])
    filled(tmp_path / "calls.sqlite")
    assert len(CallCache(tmp_path / "calls.sqlite").get_many([f"k{i}" for i in range(400)])) == 400
    assert capsys.readouterr().err == ""


def test_a_second_user_of_a_damaged_cache_takes_the_new_one(tmp_path, capsys):
    path = tmp_path / "calls.sqlite"
    filled(path)
    one, two = CallCache(path), CallCache(path)
    altered("DROP TABLE calls", "CREATE TABLE calls (a, b, c)")(path, b"")
    one.put_many([("new", np.array([1.0]))])
    two.put_many([("other", np.array([2.0]))])
    assert set(one.get_many(["new", "other"])) == {"new", "other"}
    assert capsys.readouterr().err.count("set aside") == 1


def test_a_cache_that_cannot_be_written_says_where_and_keeps_what_it_has(tmp_path):
    path = tmp_path / "calls.sqlite"
    filled(path)
    cache = CallCache(path)
    pages = cache._db.execute("PRAGMA page_count").fetchone()[0]
    cache._db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then says that the disk is full
    with pytest.raises(WriteError, match=str(path)):
        cache.put_many((f"more{i}", np.zeros(1000)) for i in range(100))
    assert len(cache.get_many([f"k{i}" for i in range(400)])) == 400
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="file"):
        CallCache(tmp_path / "file" / "calls.sqlite")
