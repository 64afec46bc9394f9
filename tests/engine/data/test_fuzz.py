"""Small valid files of every kind, damaged at random: read as the command line reads them, nothing but a clear error.

One child process reads all of them, so that a file that takes too long, fills the memory or ends the process is named.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from engine.cli.convert import opened
from engine.core.errors import EngineError
from engine.core.files import read_file
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons, read_comparisons
from engine.data.embeddings import read_embeddings
from engine.data.formats.conversion import table_file, write_as
from engine.data.recording import read_recording
from engine.judges.cards import read_card
from engine.runs.archive import export_run, import_run
from engine.runs.folder import create_run
from engine.studies.registry import read_study

SEED = 20_261_128
EACH = 10
"""Damaged files of each valid one."""
SECONDS, MEMORY = 20, 2_000_000_000
"""Most time for one file, and most memory beyond what the libraries take."""

RESPONSES = pd.DataFrame(
    {
        "response_id": ["r1", "r2", "r3"],
        "item_id": ["i1", "i1", "i2"],
        "context": ["Déjà vu?", "Déjà vu?", "שלום, עולם"],
        "response": ['say "hi"; a, b\tc', "two\nlines", "- bullet 👩‍👩‍👧"],
        "human_score": [1.5, 2.0, None],
    }
)
PAIRS = pd.DataFrame(
    {
        "comparison_id": ["p1", "p2"],
        "prompt": ["a?", "b?"],
        "response_a": ["x", "naïve"],
        "response_b": ["y", "z"],
        "human": ["a", "tie"],
    }
)
VERDICTS = pd.DataFrame({"judge": ["j", "j"], "response_id": ["r1", "r2"], "item_id": ["i", "i"], "score": [1.0, 2.5]})
VECTORS = pd.DataFrame(
    {"response_id": ["p1:a", "p1:b", "p2:a", "p2:b"], "embedding": ["[1, 2]", "[2, 1]", "[0.5, 1]", "[3, 1e3]"]}
)
CARD = b"""name = "mine"
tasks = ["dialogue"]
labels = ["1", "2"]
values = [1, 2.5]
spellings = [["one"], []]
user = '''
{context} {response}
'''
"""
STUDY = b"""study = "score"
judge = "planted:injection"
data = "demo-dialogue"
attacks = ["dsi", "bed"]
limit = 3
"""


def seeds(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each valid file."""
    tables = {"responses": RESPONSES, "pairs": PAIRS, "verdicts": VERDICTS, "vectors": VECTORS}
    for ending in (".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet"):
        for name, table in tables.items():
            yield name + ending, table_file(table, ending)
    array = io.BytesIO()
    np.save(array, np.arange(8.0).reshape(4, 2))
    yield "vectors.npy", array.getvalue()
    yield "card.toml", CARD
    yield "study.toml", STUDY
    run = create_run(folder, "score", {"data": "x"}, "mine", kind="attack_grid")
    run.update_manifest(state="done")
    yield "run.zip", export_run(run)


def read(path: Path, pairs: Comparisons, folder: Path) -> None:
    """As the commands read it, each reader that may be given such a file."""
    args = argparse.Namespace(
        file=str(path), format=None, companions=[], encoding=None, delimiter=None, sheet=None, task="dialogue", map=[]
    )
    readers: list[Callable[[], object]] = {
        ".npy": [lambda: read_embeddings(path.name, read_file(path), pairs)],
        ".toml": [lambda: read_card(path), lambda: read_study(str(path), get_settings().assets / "studies", {})],
        ".zip": [lambda: import_run(folder, read_file(path))],
    }.get(
        path.suffix,
        [
            lambda: write_as(opened(args), "responses"),
            lambda: read_comparisons(path.name, read_file(path)),
            lambda: read_recording(path),
            lambda: read_embeddings(path.name, read_file(path), pairs),
        ],
    )
    for reader in readers:
        with suppress(EngineError), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            signal.alarm(SECONDS)
            try:
                reader()
            finally:
                signal.alarm(0)


# Damage


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def flipped(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 3, 20))):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def duplicated(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.sample(range(len(content) + 1), 2))
    return content[:end] + content[start:end] * rng.choice((1, 50, 2_000)) + content[end:]


def cut_out(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.sample(range(len(content) + 1), 2))
    return content[:start] + content[end:]


def nested(content: bytes, rng: random.Random) -> bytes:
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}"), (b"<a>", b"</a>"), (b'"', b'"')))
    depth, at = rng.choice((50, 300, 950, 1_000, 50_000)), rng.randrange(len(content))
    return content[:at] + opening * depth + b"1" + closing * depth + content[at:]


def long_number(content: bytes, rng: random.Random) -> bytes:
    digits = [i for i, byte in enumerate(content) if 48 <= byte <= 57] or [0]
    at = rng.choice(digits)
    return content[:at] + rng.choice((b"9" * 5_000, b"1e999", b"-", b"1" * 400, b"NaN")) + content[at + 1 :]


def other_encoding(content: bytes, rng: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    encoding = rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "latin-1", "utf-8-sig", "utf-7"))
    return text.encode(encoding, "replace")


def with_odd_bytes(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    odd = (b"\x00", bytes(5_000), b"\xff\xfe", b"\xed\xa0\x80", b"\r", '\u2028"'.encode(), b"\\ud800", b"\\u0000")
    return content[:at] + rng.choice(odd) + content[at:]


GENERAL = (truncated, flipped, duplicated, cut_out, nested, long_number, other_encoding, with_odd_bytes)


def repacked(content: bytes, rng: random.Random) -> bytes:
    """The archive with one member damaged, or blown up by a piece of it that stands there many times."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        members = old.infolist()
        chosen = rng.choice(members)
        for member in members:
            data = old.read(member)
            if member is chosen and data:
                data = blown_up(data, rng) if rng.random() < 0.4 else rng.choice(GENERAL)(data, rng)
            new.writestr(member.filename, data)
    return out.getvalue()


def blown_up(content: bytes, rng: random.Random) -> bytes:
    tags = [i for i, byte in enumerate(content) if byte in b"<,{"] or [0]
    start = rng.choice(tags)
    end = min((i for i in tags if i > start), default=len(content))
    return content[:end] + content[start:end] * (rng.choice((2_000_000, 30_000_000)) // (end - start)) + content[end:]


def damaged() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file, the same each time."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in seeds(Path(folder)):
            rng = random.Random(f"{SEED} {name}")
            yield name, content
            packed = name.endswith((".xlsx", ".zip"))
            for number in range(EACH):
                change = repacked if packed and number % 3 else rng.choice(GENERAL)
                yield f"{number}-{change.__name__}-{name}", change(content, rng)


def child(folder: Path) -> None:
    """Reads every file; a line of JSON for each that is not read as it should be, and the name of each before it."""
    pairs = read_comparisons("pairs.csv", table_file(PAIRS, ".csv"))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))

    def too_long(*_: object) -> None:
        raise SystemExit(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, too_long)
    count = 0
    for name, content in damaged():
        path = folder / name
        path.write_bytes(content)
        print(json.dumps({"name": name}), flush=True)
        try:
            read(path, pairs, folder)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is what this test is about
            said = "".join(traceback.format_exception(error)[-3:])[-600:]
            print(
                json.dumps({"name": name, "wrong": f"{type(error).__name__}: {str(error)[:200]}\n{said}"}), flush=True
            )
        path.unlink()
        count += 1
    print(json.dumps({"count": count}), flush=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded as Linux does it")
def test_no_damaged_file_gives_anything_but_a_clear_error(tmp_path):
    root = Path(__file__).resolve().parents[3]
    own = {
        "PYTHONPATH": str(root),
        "JUDGESCOPE_HOME": str(tmp_path / "home"),
        "JUDGESCOPE_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env=os.environ | own,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [SimpleNamespace(**{"wrong": "", "count": 0} | json.loads(line)) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{said[-1].name if said else ''}: {done.stderr[-2_000:]}"
    wrong = [f"{one.name}: {one.wrong}" for one in said if one.wrong]
    assert not wrong, f"{len(wrong)} files:\n" + "\n".join(wrong[:20])
    assert said[-1].count >= 300


if __name__ == "__main__":
    child(Path(sys.argv[1]))
