"""List, titles, tags, the trash, and runs as zips: what comes back is what went, and nothing foreign gets in."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.core.errors import RunError, WriteError
from engine.core.settings import get_settings
from engine.data.store import load_dataset, save_dataset
from engine.runs import archive as runs_zip
from engine.runs import library as runs_kept
from engine.runs.archive import export_run, import_run
from engine.runs.folder import RunFolder, create_run, open_run
from engine.runs.library import RECORDED, all_runs, delete, rename, restore, select, set_tags

DEMO = get_settings().assets / "demo"
METRIC = pd.DataFrame([{"metric": "shift", "value": 0.5, "n": 3, "attack": "dsi"}])


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "runs"


def made(root: Path, name: str, judge: str = "planted:noisy", study: str = "score", **changes):
    run = create_run(root, study, {"judge": judge, "data": "demo-dialogue"}, name)
    run.write_table("metrics", METRIC)
    run.update_manifest(state="done", **changes)
    return run


def files_of(folder: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in folder.iterdir()}


def zipped(files: dict[str, bytes | str], **entry_changes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            for key, value in entry_changes.get(name.replace(".", "_"), {}).items():
                setattr(entry, key, value)
            archive.writestr(entry, data)
    return out.getvalue()


# --- list, title, tags


def test_filters_are_joined_and_text_looks_everywhere(root):
    made(root, "one")
    made(root, "two", judge="planted:injection")
    made(root, "three", study="refswap")
    create_run(root, "score", {"judge": "planted:noisy"}, "four").update_manifest(state="stopped")
    runs_kept.rename(root, "two", "  The Friday\n run ")
    runs_kept.set_tags(root, "three", add=["paper", "keep"])
    rows = all_runs(root)

    def ids(**filters) -> set[str]:
        return {r.run_id for r in select(rows, **filters)}

    assert ids() == {"one", "two", "three", "four"}
    assert ids(study="score") == {"one", "two", "four"}
    assert ids(study="score", judge="planted:noisy", state="done") == {"one"}
    assert ids(tag="paper") == {"three"}
    assert ids(tag="pap") == set()
    assert ids(text="friday RUN") == {"two"}
    assert ids(text="keep") == {"three"}
    assert ids(state="stopped") == {"four"}
    assert ids(data="demo-dialogue") == {"one", "two", "three"}
    with pytest.raises(RunError, match="'ended' is no state of a run; allowed: running, done"):
        select(rows, state="ended")


def test_a_title_leaves_id_and_results_alone(root):
    before = files_of(made(root, "one").path)
    runs_kept.rename(root, "one", "Named")
    assert all_runs(root)[0].name == "Named"
    assert {k: v for k, v in files_of(root / "one").items() if k != "notes.json"} == before
    runs_kept.rename(root, "one", "")
    assert all_runs(root)[0].name == "one"
    with pytest.raises(RunError, match="at most 120 characters, this one 121"):
        runs_kept.rename(root, "one", "x" * 121)


def test_tags_are_added_and_taken_away(root):
    made(root, "one")
    assert runs_kept.set_tags(root, "one", add=["b", " a  c ", "b"]) == ("a c", "b")
    assert runs_kept.set_tags(root, "one", add=["d"], remove=["b", "never"]) == ("a c", "d")
    for bad in ("", "x" * 41, "a,b"):
        with pytest.raises(RunError, match="no tag"):
            runs_kept.set_tags(root, "one", add=[bad])
    with pytest.raises(RunError, match="at most 20 tags; this would make 32"):
        runs_kept.set_tags(root, "one", add=[str(k) for k in range(30)])
    assert all_runs(root)[0].tags == ("a c", "d")


def test_recorded_runs_are_listed_and_opened_but_not_changed(root):
    rows = [r for r in all_runs(root, DEMO) if r.recorded]
    assert len(rows) >= 6
    for row in rows:
        assert runs_kept.find_run(root, DEMO, row.run_id).manifest()["study"] == row.study
        for change in (
            lambda i: runs_kept.rename(root, i, "x"),
            lambda i: runs_kept.set_tags(root, i, add=["x"]),
            lambda i: runs_kept.delete(root, i),
        ):
            with pytest.raises(RunError, match="ships with the project and cannot be changed"):
                change(row.run_id)
    for bad in (f"{RECORDED}../runs/x", f"{RECORDED}/etc", f"{RECORDED}..", RECORDED, f"{RECORDED}dialogue/../x"):
        with pytest.raises(RunError):
            runs_kept.find_run(root, DEMO, bad)


def test_a_folder_that_was_copied_is_a_run_of_its_own(root):
    run = made(root, "one")
    (root / "copy").mkdir()
    for name, data in files_of(run.path).items():
        (root / "copy" / name).write_bytes(data)
    assert {r.run_id for r in all_runs(root)} == {"one", "copy"}


def test_two_thousand_runs_are_read_once_and_listed_whole(root, monkeypatch):
    manifest = made(root, "run-0").manifest()
    for k in range(1, 2000):
        (root / f"run-{k}").mkdir()
        (root / f"run-{k}" / "manifest.json").write_text(json.dumps({**manifest, "run_id": f"run-{k}"}))
    assert len(all_runs(root)) == 2000
    monkeypatch.setattr("engine.runs.folder.RunFolder.manifest", lambda self: pytest.fail("read again"))
    assert len(select(all_runs(root), text="run-1999")) == 1


# --- trash


def test_a_deleted_run_comes_back_as_it_was(root):
    before = files_of(made(root, "one").path)
    entry = runs_kept.delete(root, "one")
    assert all_runs(root) == []
    assert [t.run_id for t in runs_kept.trash(root)] == ["one"]
    assert runs_kept.restore(root, entry.entry) == "one"
    assert files_of(root / "one") == before
    assert runs_kept.trash(root) == []
    with pytest.raises(RunError, match="The trash has no run 'one'"):
        runs_kept.restore(root, "one")


def test_a_run_comes_back_beside_one_that_took_its_id(root):
    made(root, "one", remark="first")
    runs_kept.delete(root, "one")
    made(root, "one", remark="second")
    assert runs_kept.restore(root, "one") == "one-2"
    assert open_run(root, "one-2").manifest()["run_id"] == "one-2"
    assert [open_run(root, i).manifest()["remark"] for i in ("one", "one-2")] == ["second", "first"]


def test_a_running_run_stays_and_an_interrupted_or_broken_one_goes(root):
    create_run(root, "score", {}, "going")
    with pytest.raises(RunError, match=r"is going. Stop it first"):
        runs_kept.delete(root, "going")
    open_run(root, "going").update_manifest(writer="99999999:0")
    runs_kept.delete(root, "going")
    (root / "broken").mkdir()
    runs_kept.delete(root, "broken")
    assert all_runs(root) == []
    for bad in ("..", ".trash", "a/b", "nothing"):
        with pytest.raises(RunError):
            runs_kept.delete(root, bad)


def test_the_trash_is_emptied_after_its_days_or_by_hand(root):
    for name in ("old", "new"):
        made(root, name)
        runs_kept.delete(root, name)
    old = next(t for t in runs_kept.trash(root) if t.run_id == "old")
    (root / ".trash" / old.entry).rename(root / ".trash" / f"old~20250101000000-{'a' * 6}")
    assert runs_kept.empty_trash(root, days=runs_kept.TRASH_DAYS) == 1
    assert [t.run_id for t in runs_kept.trash(root)] == ["new"]
    assert runs_kept.empty_trash(root) == 1
    assert list((root / ".trash").iterdir()) == []


# --- zip


def test_a_run_goes_out_and_comes_back_the_same(root, tmp_path):
    run = made(root, "one")
    runs_kept.rename(root, "one", "Mine")
    runs_kept.set_tags(root, "one", add=["kept"])
    content = export_run(run)
    assert content == export_run(run)
    came = import_run(tmp_path / "elsewhere", content)
    assert (came.run_id, came.skipped) == ("one", False)
    there, here = files_of(tmp_path / "elsewhere" / "one"), files_of(run.path)
    assert {k: v for k, v in there.items() if k != "notes.json"} == {k: v for k, v in here.items() if k != "notes.json"}
    row = all_runs(tmp_path / "elsewhere")[0]
    assert (row.title, row.tags) == ("Mine", ("kept",))


def test_the_same_run_is_skipped_and_another_of_its_id_gets_a_new_one(root):
    first = export_run(made(root, "one"))
    assert import_run(root, first) == runs_zip.Imported("one", "one", skipped=True)
    runs_kept.rename(root, "one", "a title changes no result")
    assert import_run(root, first).skipped
    made(root, "one", remark="another")
    assert import_run(root, first) == runs_zip.Imported("one-2", "one", skipped=False)
    assert open_run(root, "one-2").manifest()["run_id"] == "one-2"
    assert import_run(root, first) == runs_zip.Imported("one-2", "one", skipped=True)


@pytest.mark.parametrize("row", [r.run_id for r in runs_kept.recorded_runs(DEMO)])
def test_every_recorded_run_travels(root, row):
    content = export_run(runs_kept.find_run(root, DEMO, row))
    came = import_run(root, content)
    assert all_runs(root)[0].study
    assert export_run(open_run(root, came.run_id)) != b""
    assert import_run(root, content).skipped


def test_one_folder_around_the_files_is_taken(root, tmp_path):
    files = files_of(made(root, "one").path)
    assert import_run(tmp_path / "x", zipped({f"one/{n}": d for n, d in files.items()})).run_id == "one"
    mixed = {n if n == "manifest.json" else f"one/{n}": d for n, d in files.items()}
    with pytest.raises(RunError, match="more than one folder"):
        import_run(tmp_path / "y", zipped(mixed))


EVIL = {
    "up": "../manifest.json",
    "up-inside": "one/../../manifest.json",
    "absolute": "/manifest.json",
    "drive": "C:manifest.json",
    "backslash": "..\\manifest.json",
    "foreign": "setup.py",
    "deep": "a/b/manifest.json",
    "unknown-table": "secrets.parquet",
    "hidden": ".bashrc",
}


@pytest.mark.parametrize("name", EVIL.values(), ids=EVIL)
def test_names_that_lead_elsewhere_or_belong_to_no_run_are_refused(root, tmp_path, name):
    files = files_of(made(tmp_path / "from", "one").path)
    with pytest.raises(RunError, match=r"leads out of|no part of a run"):
        import_run(root, zipped({**files, name: b"x"}))
    assert not root.exists() or list(root.iterdir()) == []
    assert {p.name for p in tmp_path.iterdir()} <= {"from", "runs", "cache", "home"}


def test_links_devices_passwords_and_doubles_are_refused(root, tmp_path):
    files = files_of(made(tmp_path / "from", "one").path)
    for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR):
        bad = zipped(files, metrics_parquet={"external_attr": (kind | 0o777) << 16})
        with pytest.raises(RunError, match="a link or a device"):
            import_run(root, bad)
    locked = bytearray(zipped(files))
    at = locked.index(b"PK\x01\x02") + 8
    locked[at : at + 2] = struct.pack("<H", 1)
    with pytest.raises(RunError, match="encrypted"):
        import_run(root, bytes(locked))
    out = io.BytesIO(zipped(files))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("manifest.json", b"{}")
    with pytest.raises(RunError, match="twice"):
        import_run(root, out.getvalue())
    assert not root.exists() or list(root.iterdir()) == []


def test_bombs_are_refused_before_they_unpack(root, tmp_path, monkeypatch):
    files = files_of(made(tmp_path / "from", "one").path)
    monkeypatch.setattr(runs_zip, "MAX_UNPACKED", 2**20)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("verdicts.parquet", bytes(4 * 2**20))
    with pytest.raises(RunError, match="unpacks to"):
        import_run(root, out.getvalue())
    lying = bytearray(out.getvalue())  # the same, but its directory says the file is small
    at = lying.rindex(b"PK\x01\x02")
    lying[at + 24 : at + 28] = struct.pack("<I", 1000)
    with pytest.raises(RunError, match=r"larger than a run's file|no readable zip"):
        import_run(root, bytes(lying))
    monkeypatch.setattr(runs_zip, "MAX_ZIP", 100)
    with pytest.raises(RunError, match="a run's zip has at most"):
        import_run(root, out.getvalue())
    monkeypatch.setattr(runs_zip, "MAX_ZIP", 2**20)
    with pytest.raises(RunError, match="65 files; a run has at most 64"):
        import_run(root, zipped({f"{k}.parquet": b"" for k in range(65)}))
    assert not root.exists() or list(root.iterdir()) == []


def test_tables_that_grow_when_read_are_refused(root, tmp_path, monkeypatch):
    run = made(tmp_path / "from", "one")
    files = files_of(run.path)

    def with_table(name: str, table: pa.Table) -> bytes:
        out = io.BytesIO()
        pq.write_table(table, out)
        return zipped({**files, f"{name}.parquet": out.getvalue()})

    text = pa.array(["x" * 10_000] * 2_000)  # 20 MB in 10 kB
    numbers = pa.array([[0.0] * 5_000] * 10)
    monkeypatch.setattr(runs_zip, "MAX_TEXT", 10**6)
    monkeypatch.setattr(runs_zip, "MAX_CELLS", 10**4)
    with pytest.raises(RunError, match="more text than"):
        import_run(root, with_table("verdicts", pa.table({"raw_text": text})))
    with pytest.raises(RunError, match="too many"):
        import_run(root, with_table("verdicts", pa.table({"probabilities": numbers})))
    monkeypatch.setattr(runs_zip, "MAX_ROWS", 5)
    with pytest.raises(RunError, match="10 rows"):
        import_run(root, with_table("verdicts", pa.table({"p": list(range(10))})))
    for bad in (b"", b"PAR1", b"no parquet at all", files["metrics.parquet"][:-20]):
        with pytest.raises(RunError, match="no table of a run"):
            import_run(root, zipped({**files, "verdicts.parquet": bad}))
    with pytest.raises(RunError, match="no column"):
        import_run(root, with_table("verdicts", pa.table({"a": [1]})))
    assert not root.exists() or list(root.iterdir()) == []


MANIFESTS = {
    "no JSON": (b"{", "no JSON"),
    "a list": (b"[]", "no JSON object"),
    "deep": (b'{"a":' * 50_000, "no JSON"),
    "empty": (b"{}", "no usable 'run_id'"),
    "newer": ({"format": 2}, "format 2; this version reads up to 1"),
    "format a word": ({"format": "new"}, "format 'new'"),
    "an id that is a path": ({"run_id": "../x"}, "no run id"),
    "a study that is markup": ({"study": "<b>"}, "names no study"),
    "config a list": ({"config": []}, "no usable 'config'"),
}


@pytest.mark.parametrize("case", MANIFESTS.values(), ids=MANIFESTS)
def test_wrong_and_newer_manifests_are_refused(root, tmp_path, case):
    change, why = case
    run = made(tmp_path / "from", "one")
    data = change if isinstance(change, bytes) else json.dumps(run.manifest() | change).encode()
    with pytest.raises(RunError, match=why):
        import_run(root, zipped({**files_of(run.path), "manifest.json": data}))


def test_what_is_no_zip_or_no_run_says_so(root, tmp_path):
    good = export_run(made(tmp_path / "from", "one"))
    for bad in (b"", b"not a zip", good[:-30], good[: len(good) // 2]):
        with pytest.raises(RunError, match="no readable zip"):
            import_run(root, bad)
    with pytest.raises(RunError, match=r"no manifest.json"):
        import_run(root, zipped({"metrics.parquet": b""}))
    flipped = bytearray(good)
    flipped[120] ^= 0xFF
    with pytest.raises(RunError):
        import_run(root, bytes(flipped))
    for notes in (b"[]", b'{"title": 3}', json.dumps({"tags": ["x" * 99]}).encode()):
        files = files_of(tmp_path / "from" / "one")
        with pytest.raises(RunError, match=r"notes.json"):
            import_run(root, zipped({**files, "notes.json": notes}))


# --- a disk that takes nothing


def everything(root: Path) -> dict[str, bytes]:
    return {str(f.relative_to(root)): f.read_bytes() for f in sorted(root.rglob("*")) if f.is_file()}


ACTIONS = {
    "create": lambda root: create_run(root, "score", {}, "new"),
    "go on": lambda root: create_run(root, "score", {"judge": "planted:noisy", "data": "demo-dialogue"}, "one"),
    "table": lambda root: open_run(root, "one").write_table("metrics", METRIC),
    "manifest": lambda root: open_run(root, "one").update_manifest(state="failed"),
    "rename": lambda root: rename(root, "one", "a title"),
    "tag": lambda root: set_tags(root, "one", add=["a"]),
    "delete": lambda root: delete(root, "one"),
    "restore": lambda root: restore(root, "gone"),
    "import": lambda root: import_run(root, export_run(RunFolder(DEMO / "dialogue" / "run"))),
    "data set": lambda root: save_dataset(replace(load_dataset("demo-dialogue", root), dataset_id="0" * 16), root),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("name", ACTIONS)
def test_what_cannot_be_written_is_named_and_nothing_is_lost(name, code, root, monkeypatch):
    def refuses(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    made(root, "one")
    made(root, "gone")
    delete(root, "gone")
    before = everything(root)
    for writes in ("tempfile.mkstemp", "tempfile.mkdtemp", "pathlib.Path.mkdir", "pathlib.Path.rename"):
        monkeypatch.setattr(writes, refuses)
    with pytest.raises(WriteError, match=str(root)) as refused:
        ACTIONS[name](root)
    monkeypatch.undo()
    assert os.strerror(code) in str(refused.value)
    assert everything(root) == before
    assert [row.run_id for row in all_runs(root)] == ["one"]


@pytest.mark.parametrize("name", ["manifest", "table", "rename", "import", "data set"])
def test_a_disk_that_fills_up_in_the_middle_keeps_what_was_there(name, root, monkeypatch):
    real = os.fdopen

    def fills_up(handle, *args, **kwargs):
        out = real(handle, *args, **kwargs)

        class Full(io.RawIOBase):
            def write(self, data):
                out.write(bytes(data)[:3])
                out.flush()
                raise OSError(errno.ENOSPC, "No space left on device")

            def close(self):
                out.close()

        return Full()

    def no_room(self, *_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    made(root, "one")
    before = everything(root)
    monkeypatch.setattr("os.fdopen", fills_up)
    monkeypatch.setattr("pathlib.Path.write_bytes", no_room)
    monkeypatch.setattr("pandas.DataFrame.to_parquet", lambda self, path=None, **_: no_room(path) if path else b"PAR1")
    with pytest.raises(WriteError, match=str(root)):
        ACTIONS[name](root)
    monkeypatch.undo()
    assert everything(root) == before


@pytest.mark.parametrize("name", ["create", "import", "data set"])
def test_a_file_where_the_folder_should_be_is_named(name, tmp_path):
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(WriteError, match="file"):
            ACTIONS[name](root)
    assert (tmp_path / "file").read_text() == "mine"
