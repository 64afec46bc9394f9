"""Models of the user's own on the list of judges, the gallery, and model servers on this machine."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine import catalog
from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.core.settings import api_settings, use_local_server
from engine.inference.local_servers import local_servers
from engine.judges.own_models import EVERYDAY, forget_own, own_models, remember_own


def test_a_chosen_model_is_listed_for_every_protocol_until_it_is_taken_off(settings, tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    spec = f"path:{tmp_path / 'm.gguf'}"
    assert remember_own(f" {spec} ") == spec
    remember_own("hf:some/model")
    remember_own(spec)
    assert own_models() == (spec, "hf:some/model")
    for protocol in (Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER):
        assert {spec, "hf:some/model"} <= set(catalog.judges_for(protocol))
    assert catalog.describe_judge(spec).title.startswith("m.gguf")
    assert catalog.describe_judge("hf:some/model").needs_weights
    forget_own(spec)
    assert own_models() == ("hf:some/model",)


@pytest.mark.parametrize("spec", ["", "hf:", "hf:name", "hf:../x/y", "api:x", "path:", "path:a\0b", "bundled:judge"])
def test_what_names_no_model_is_refused_in_words(spec, settings):
    with pytest.raises(InputError, match="Write hf:OWNER/NAME"):
        remember_own(spec)
    assert own_models() == ()


def test_a_path_must_be_there_and_allowed(settings, tmp_path):
    with pytest.raises(InputError, match=r"config\.json"):
        remember_own(f"path:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    remember_own(f"path:{tmp_path}")
    with pytest.raises(InputError, match="JUDGESCOPE_MODEL_ROOTS"):
        remember_own(f"path:{tmp_path}", replace(settings, model_roots=(tmp_path / "other",)))


def test_a_damaged_list_counts_as_none(settings):
    settings.data_dir.mkdir(parents=True)
    for text in ("{", "3", '["hf:a/b", "evil:x", 3]'):
        settings.own_models.write_text(text)
        assert set(own_models()) <= {"hf:a/b"}


def test_the_everyday_model_is_listed_without_its_weights_and_says_so(settings):
    card = catalog.judges_for(Protocol.POINTWISE)[EVERYDAY]
    assert "recorded" in card.title
    assert "not here" in card.about


def test_the_gallery_names_size_licence_and_state_and_contacts_nobody(settings, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("something was contacted"))
    entries = {entry.key: entry for entry in catalog.gallery()}
    assert {"naive", "careful", "verifier", "everyday", "hub", "folder", "server", "api"} == set(entries)
    for entry in entries.values():
        assert bool(entry.spec) == bool(entry.licence) == bool(entry.size)
        assert entry.spec in {"", *(s for p in Protocol for s in catalog.judges_for(p))}
    assert entries["everyday"].state == "recorded"
    assert {entries[key].state for key in ("naive", "careful", "verifier")} <= {"here", "to download"}


class Server(BaseHTTPRequestHandler):
    """What answers at a port: by path of the test's own choosing."""

    body: bytes = b""
    status = 200
    asked: list[str] = []  # noqa: RUF012 - a handler is made anew for each request

    def do_GET(self):
        self.asked.append(self.path)
        self.send_response(self.status)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args):
        pass


@pytest.mark.parametrize(
    ("status", "body", "models", "problem"),
    [
        (200, json.dumps({"object": "list", "data": [{"id": "qwen"}, {"id": "llama:8b"}]}), ("qwen", "llama:8b"), ""),
        (200, '{"object": "list", "data": null}', (), "no model"),
        (200, "<html>", (), "no model server"),
        (200, "[1]", (), "no model server"),
        (404, "", (), "404"),
        (302, "", (), "302"),
    ],
)
def test_servers_of_this_machine_list_their_models(status, body, models, problem, monkeypatch):
    monkeypatch.setattr(Server, "status", status)
    monkeypatch.setattr(Server, "body", body.encode())
    monkeypatch.setattr(Server, "asked", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        [found] = local_servers({"Ollama": server.server_address[1]})
        server.shutdown()
    assert (found.name, found.models, found.found) == ("Ollama", models, bool(models))
    assert problem in found.problem
    assert Server.asked == ["/v1/models"]


def test_a_port_where_nobody_listens_is_no_error():
    assert [s.problem for s in local_servers({"vLLM": 9})] == ["nothing answers"]


def test_a_local_server_is_set_only_where_none_is_and_only_on_this_machine(settings, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="no server of this machine"):
        use_local_server("http://example.org/v1")
    use_local_server("http://127.0.0.1:11434/v1")
    assert api_settings().base_url == "http://127.0.0.1:11434/v1"
    with pytest.raises(InputError, match="set already"):
        use_local_server("http://127.0.0.1:8000/v1")
