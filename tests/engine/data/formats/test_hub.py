"""Hub names, against a small server of our own that speaks the Hub's two calls; and offline."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from engine.core.errors import InputError
from engine.data.formats.hub import MADE_BY_HUB, fetch, known_sets, read_hub_name
from engine.data.formats.registry import FORMATS, read_known
from tests.engine.data.formats.examples import MT_BENCH, REWARD, lines

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SETS: dict[str, dict[str, dict[str, bytes]]] = {
    "allenai/reward-bench": {
        "main": {
            "data/filtered-00000-of-00001.jsonl": lines(REWARD),
            "data/raw-00000-of-00001.jsonl": lines(REWARD[:1]),
        }
    },
    "lmsys/mt_bench_human_judgments": {
        "main": {"README.md": b"#", "script.py": b"raise SystemExit('remote code')"},
        MADE_BY_HUB: {"default/human/0000.jsonl": lines(MT_BENCH), "default/gpt4_pair/0000.jsonl": lines(MT_BENCH[3:])},
    },
    "some/two-files": {"main": {"a.jsonl": b"{}", "b.jsonl": b"{}"}},
    "some/no-files": {"main": {"README.md": b""}},
}


class Hub(BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - a handler is made anew for each request

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(self.path.partition("?")[0])
        Hub.asked.append(path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "datasets"]:
            name, revision = "/".join(parts[2:4]), "/".join(parts[5:]) or "main"
            if name == "some/gated":
                return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"}, body=body)
            files = SETS.get(name, {}).get(revision)
            if files is None:
                code = "RepoNotFound" if name not in SETS else "RevisionNotFound"
                return self._send(404, b"{}", {"X-Error-Code": code}, body=body)
            siblings = [{"rfilename": f, "size": len(c)} for f, c in files.items()]
            info = {"id": name, "sha": COMMIT if revision == "main" else "f" * 40, "siblings": siblings}
            return self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"}, body=body)
        name, file = "/".join(parts[1:3]), "/".join(parts[5:])
        content = next((held[file] for held in SETS[name].values() if file in held), None)
        if content is None:
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body=body)
        tag = hashlib.sha256(content).hexdigest()
        return self._send(200, content, {"ETag": f'"{tag}"', "X-Repo-Commit": parts[4]}, body=body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_listed_set_comes_with_its_format_and_its_usual_split(endpoint, tmp_path):
    found = fetch("hub:allenai/reward-bench", endpoint=endpoint, cache=tmp_path)
    assert (found.format, found.revision) == ("rewardbench", COMMIT)
    assert found.content == lines(REWARD)
    assert len(read_known(found.filename, found.content, found.format).comparisons) == 2
    other = fetch("hub:allenai/reward-bench?split=raw", endpoint=endpoint, cache=tmp_path)
    assert other.content == lines(REWARD[:1])


def test_a_set_made_by_a_script_is_taken_from_the_hub_s_own_tables_and_the_script_never_fetched(endpoint, tmp_path):
    Hub.asked.clear()
    found = fetch("hub:lmsys/mt_bench_human_judgments?split=gpt4_pair", endpoint=endpoint, cache=tmp_path)
    assert found.content == lines(MT_BENCH[3:])
    assert found.revision == "f" * 40
    assert not [path for path in Hub.asked if path.endswith(".py")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hub:some/two-files", r"several files that could be meant: a\.jsonl, b\.jsonl"),
        ("hub:some/no-files", "has no data file for this choice"),
        ("hub:allenai/reward-bench?split=train", "Known splits: filtered, raw"),
        ("hub:some/absent", "no such data set, file or revision"),
        ("hub:some/two-files?file=c.jsonl", "has no data file"),
        ("hub:some/two-files@v9", "no such data set, file or revision"),
        ("hub:some/gated", "accepted its terms"),
        ("hub:../etc", "is no data set id"),
        ("hub:a/..", "is no data set id"),
        ("hub:https://x/y", "is no data set id"),
        ("hub:a/b?code=1", "write key=value with one of split"),
    ],
)
def test_what_is_wrong_is_named(endpoint, tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        fetch(name, endpoint=endpoint, cache=tmp_path)


def test_without_a_network_it_says_so_and_what_to_do(tmp_path):
    with pytest.raises(InputError, match=r"(?s)the Hub cannot be reached from here .*download the file"):
        fetch("hub:allenai/reward-bench", endpoint="http://127.0.0.1:9", cache=tmp_path)


def test_the_library_may_be_absent(monkeypatch):
    def absent(module: str):
        raise ImportError(module)

    monkeypatch.setattr("engine.data.formats.hub.importlib.import_module", absent)
    with pytest.raises(InputError, match="pip install huggingface_hub"):
        fetch("hub:allenai/reward-bench")


def test_known_sets_and_names():
    assert {form for form, _ in known_sets().values()} <= set(FORMATS)
    found = read_hub_name("hub:a/b@rev?split=x&file=p%2Fq.csv&config=c")
    assert (found.dataset_id, found.revision, found.split, found.file, found.config) == (
        "a/b",
        "rev",
        "x",
        "p/q.csv",
        "c",
    )
