"""Models by name, with the real huggingface_hub against a small server of our own; and where nothing answers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import huggingface_hub.file_download
import pytest

from engine.core.errors import Cancelled, InputError, ModelError
from engine.inference import hub_models
from engine.inference.hub_models import (
    HubFetch,
    fetch_job,
    fetch_model,
    is_complete,
    local_model,
    look_up,
    no_progress,
)
from engine.inference.loading import load_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """The two routes a download needs. A file named in `breaks` is cut there once, as a lost connection is."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes] = {}  # noqa: RUF012 - a handler is made anew for each request
    breaks: dict[str, int] = {}  # noqa: RUF012
    ranges: list[tuple[str, int]] = []  # noqa: RUF012
    wrong = ""

    def do_GET(self):
        path = unquote(self.path.partition("?")[0]).strip("/")
        if path.startswith("api/models/"):
            name, _, revision = path.removeprefix("api/models/").partition("/revision/")
            if name != "some/model" or revision not in ("", "main", COMMIT):
                return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
            return self._send(200, json.dumps(self._about()).encode(), {"Content-Type": "application/json"})
        file = path.partition(f"/resolve/{COMMIT}/")[2]
        content = self.files[file]
        begin = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range", "")) or ["0"])[0])
        self.ranges.append((file, begin))
        return self._send(206 if begin else 200, content[begin:], cut=self.breaks.pop(file, None))

    def _about(self):
        siblings = []
        for name, content in self.files.items():
            one = {"rfilename": name, "size": len(content)}
            sha256 = hashlib.sha256(b"x" if name == self.wrong else content).hexdigest()
            if name.endswith(".safetensors"):
                one["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 1}
            one["blobId"] = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
            siblings.append(one)
        return {"id": "some/model", "sha": COMMIT, "tags": ["license:mit"], "siblings": siblings}

    def _send(self, status, content, headers=None, cut=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(tiny_folders, monkeypatch, settings):
    folder = tiny_folders("qwen2")
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}
    extra = {"evil.py": b"raise SystemExit", "pytorch_model.bin": b"pickle", "README.md": b"#", "../out.json": b"{}"}
    monkeypatch.setattr(Hub, "files", files | extra)
    for name, value in (("breaks", {}), ("ranges", []), ("wrong", "")):
        monkeypatch.setattr(Hub, name, value)
    monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 4_096)  # what a break costs at most
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_size_licence_and_commit_are_known_before_anything_is_fetched(hub, settings):
    found = look_up("some/model", endpoint=hub)
    assert (found.revision, found.licence) == (COMMIT, "mit")
    paths = [file.path for file in found.files]
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(paths)
    assert not {"evil.py", "pytorch_model.bin", "README.md", "../out.json"} & set(paths)
    assert paths[-1] == "model.safetensors"  # so that a folder with weights is whole
    assert found.size == sum(len(Hub.files[path]) for path in paths)
    assert "mit" in found.sentence()
    assert not Hub.ranges
    assert local_model("some/model", settings) is None


def test_a_break_in_the_middle_is_resumed_and_what_came_is_the_model(hub, settings, tiny):
    found = look_up("some/model", endpoint=hub)
    Hub.breaks["model.safetensors"] = 5_000
    seen: list[tuple[int, int]] = []
    folder = fetch_model(found, settings, lambda done, total: seen.append((done, total)), endpoint=hub)
    begun = [begin for file, begin in Hub.ranges if file == "model.safetensors"]
    assert begun[0] == 0
    assert begun[1] > 0
    assert len(begun) == 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (found.size, found.size)
    assert (folder / "model.safetensors").read_bytes() == Hub.files["model.safetensors"]
    assert not (settings.models / "out.json").exists()
    assert local_model("some/model", settings) == (folder, COMMIT)  # pinned, and nothing is contacted from here on
    loaded = load_model("hf:some/model", dataclasses.replace(settings, device="cpu"))
    assert loaded.spec == "hf:some/model"
    assert loaded.max_tokens == tiny("qwen2").max_tokens


def test_a_download_that_was_stopped_goes_on_in_the_next_one(hub, settings):
    found = look_up("some/model", endpoint=hub)
    weights = len(Hub.files["model.safetensors"])

    def stop(done, total):
        if done > total - weights + 10_000:
            raise Cancelled

    with pytest.raises(Cancelled):
        fetch_model(found, settings, stop, endpoint=hub)
    assert local_model("some/model", settings) is None
    Hub.ranges.clear()
    folder = fetch_model(found, settings, endpoint=hub)
    assert [file for file, _ in Hub.ranges] == ["model.safetensors"]
    assert Hub.ranges[0][1] > 0
    assert is_complete(folder)
    assert (folder / "model.safetensors").read_bytes() == Hub.files["model.safetensors"]


def test_a_file_with_another_checksum_is_not_kept(hub, settings, monkeypatch):
    monkeypatch.setattr(Hub, "wrong", "model.safetensors")
    with pytest.raises(ModelError, match="checksum"):
        fetch_model(look_up("some/model", endpoint=hub), settings, endpoint=hub)
    assert not list(settings.models.glob("**/*.safetensors*"))
    assert local_model("some/model", settings) is None


def test_what_cannot_be_had_says_the_next_step(hub, settings):
    with pytest.raises(ModelError, match="no such model"):
        look_up("some/other", endpoint=hub)
    del Hub.files["model.safetensors"]
    Hub.files["model-Q4.gguf"] = b""
    with pytest.raises(ModelError, match=r"no safetensors weights.*model-Q4\.gguf.*path:"):
        look_up("some/model", endpoint=hub)
    with pytest.raises(InputError, match="hf:OWNER/NAME"):
        look_up("no-owner")
    with pytest.raises(ModelError, match=r"not on this machine.*cannot be reached.*doctor --fetch hf:some/model"):
        look_up("some/model", endpoint="http://127.0.0.1:9")


def test_a_judge_by_name_is_looked_for_here_first_and_then_asked_for(settings, monkeypatch):
    asked = []

    def look(name):
        asked.append(name)
        raise ModelError("no network here")

    monkeypatch.setattr(hub_models, "look_up", look)
    with pytest.raises(ModelError, match="no network here"):
        load_model("hf:some/model@v1", dataclasses.replace(settings, device="cpu"))
    assert asked == ["some/model@v1"]


def test_the_worker_fetches_the_commit_that_was_shown_and_a_question_fetches_nothing(hub, settings, monkeypatch):
    asked = []
    monkeypatch.setattr(hub_models, "look_up", lambda name: asked.append(name) or look_up(name, endpoint=hub))
    monkeypatch.setattr(hub_models, "fetch_model", partial(fetch_model, endpoint=hub))
    with pytest.raises(ModelError, match=r"not on this machine.*page Judge.*doctor --fetch hf:some/model"):
        load_model("hf:some/model", dataclasses.replace(settings, device="cpu", fetch_models=False))
    assert asked == []
    done = fetch_job(HubFetch(name="some/model", revision=COMMIT), settings, no_progress)
    assert asked == [f"some/model@{COMMIT}"]
    assert (done["revision"], done["licence"]) == (COMMIT, "mit")
    assert local_model("some/model", settings) is not None
    assert local_model(f"some/model@{'f' * 40}", settings) is None
