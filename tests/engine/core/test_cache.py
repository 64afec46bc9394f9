"""The call cache: content-keyed, exact, safe across threads and processes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from engine.core.cache import CallCache, call_key, reply_key


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
