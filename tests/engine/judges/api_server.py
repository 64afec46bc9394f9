"""Servers for tests of API judges: a scripted one, and one that scores with a model of ours."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Response = tuple[int, dict[str, str], bytes]
CUT: Response = (0, {}, b"")
"""No answer: the connection ends."""
Script = Callable[[int, dict[str, Any]], Response]
"""From how many requests came before and the request's body to status, headers and body."""


def completion(text: str = "", top: dict[str, float] | None = None, **more: Any) -> Response:
    """A chat completion; `top` holds the tokens at its first place and their probabilities."""
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    if top is not None:
        listed = [{"token": t, "logprob": math.log(p), "bytes": list(t.encode())} for t, p in top.items()]
        choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
    choice |= more.pop("choice", {})
    usage = {"prompt_tokens": 50, "completion_tokens": 1, "total_tokens": 51}
    return ok({"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage} | more)


def ok(body: Any) -> Response:
    return 200, {}, json.dumps(body).encode()


def fault(status: int, message: str = "", **headers: str) -> Response:
    """An error as OpenAI-compatible servers write it."""
    error = {"error": {"message": message, "type": "x", "param": None, "code": None}}
    return status, {k.replace("_", "-"): v for k, v in headers.items()}, json.dumps(error).encode()


@dataclass
class FakeServer:
    """A running server; `seen` holds every request's body, `keys` every authorization header."""

    url: str
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    """A script that is to answer too late waits for this; it is set when the test ends."""
    health: int = 200
    looks: list[str] = field(default_factory=list)
    dead: bool = False
    """True ends every connection at its next request, and nobody can connect."""
    kill: Callable[[], None] = lambda: None

    @property
    def host(self) -> str:
        return self.url.split("/")[2]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):  # a client that was stopped
            super().handle_error(request, client_address)


class serving:  # noqa: N801 - used as a statement
    """`with serving(script) as server:` on a free port of this machine.

    Args:
        script: answers chat completions.
        models: offered.
        others: scripts of further paths, such as `/v1/decisions`; elsewhere is nothing, as at most servers.
        port: by default a free one.
    """

    def __init__(
        self,
        script: Script,
        models: tuple[str, ...] = ("m",),
        others: Mapping[str, Script] | None = None,
        port: int = 0,
    ) -> None:
        self._script, self._models, self._port = script, models, port
        self._others = others or {}

    def __enter__(self) -> FakeServer:
        models, lock = self._models, threading.Lock()
        scripts = {"/v1/chat/completions": self._script, **self._others}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                fake.looks.append(self.path)
                if self.path == "/health":
                    return self.reply((fake.health, {}, b""))
                listed = ok({"object": "list", "data": [{"id": m} for m in models]})
                return self.reply(scripts[self.path](0, {}) if self.path in scripts else listed)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path not in scripts:
                    self.reply(fault(404, "Not Found"))
                    return
                with lock:
                    before = len(fake.seen)
                    if self.path.startswith("/v1/"):  # not the tokenizer
                        fake.seen.append(body)
                        fake.keys.append(self.headers.get("authorization"))
                self.reply(scripts[self.path](before, body))

            def reply(self, response: Response):
                status, headers, content = response
                if fake.dead or response is CUT:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                if "content-length" not in headers:
                    self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                if "x-hold" in headers:
                    fake.gate.wait(60)
                if headers.get("content-length", str(len(content))) != str(len(content)):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self._server = _Server(("127.0.0.1", self._port), Handler)
        fake = self._fake = FakeServer(f"http://127.0.0.1:{self._server.server_port}/v1", kill=self._kill)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return fake

    def _kill(self) -> None:
        self._fake.dead = True
        self._server.shutdown()
        self._server.server_close()

    def __exit__(self, *_):
        self._fake.gate.set()
        if not self._fake.dead:
            self._server.shutdown()
            self._server.server_close()


def model_script(loaded: Any, *, most: int) -> Script:
    """Answers as a server around this model would: its chat template, its next-token distribution, greedy text."""
    import torch

    from engine.inference.chat import render_ids
    from engine.inference.generation import generate

    lock = threading.Lock()  # one forward pass at a time, like a small server's single slot

    def answer(_: int, body: dict[str, Any]) -> Response:
        said = {m["role"]: m["content"] for m in body["messages"]}
        ids = render_ids(loaded.tokenizer, said.get("system", ""), said["user"])
        with lock, torch.inference_mode():
            if not body.get("logprobs"):
                reply = generate(loaded, [ids], body["max_tokens"])[0]
                usage = {"prompt_tokens": len(ids), "completion_tokens": reply.tokens}
                ended = {"finish_reason": "length" if reply.cut else "stop"}
                return completion(reply.text, choice=ended, usage=usage)
            logits = loaded.model(input_ids=torch.tensor([ids], device=loaded.device)).logits[0, -1].float()
        best = logits.log_softmax(-1).topk(min(body["top_logprobs"], most, len(logits)))
        listed = [
            {"token": loaded.tokenizer.decode([i]), "logprob": p}
            for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        choice = {"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}}
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        return completion(listed[0]["token"], choice=choice, usage=usage)

    return answer
