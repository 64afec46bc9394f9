"""A real server with a token: every road into it, a file that is too large, and what its log says."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import resource
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest
import uvicorn
from streamlit import config
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dashboard.server.asgi import raise_file_limit
from dashboard.server.guard import Guard
from engine.bench.page import free_port, own_home, start_server, stop_server
from engine.cli.main import main
from engine.core.settings import get_settings

TOKEN = "only-" + secrets.token_urlsafe(18)
MB = 1 << 20


@dataclass
class Running:
    port: int
    cookie: str
    pid: int
    log: object

    def ask(self, path: str, method: str = "GET", body=None, cookie: str | None = None, **headers: str):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = self.cookie if cookie is None else cookie
        headers = {k.replace("_", "-"): v for k, v in headers.items()} | ({"Cookie": given} if given else {})
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            line.close()

    def socket(self, cookie: str | None = None, host: str = "127.0.0.1", origin: str | None = None):
        return connect(
            f"ws://{host}:{self.port}/_stcore/stream",
            sock=socket.create_connection(("127.0.0.1", self.port), timeout=60),
            subprotocols=["streamlit"],
            origin=origin,
            additional_headers={"Cookie": self.cookie if cookie is None else cookie},
            max_size=None,
        )


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with own_home(get_settings()) as settings:
        port = free_port()
        server = start_server(settings, port, TOKEN)
        found = Running(port, "", server.pid, settings.data_dir / "server.log")
        try:
            status, headers, _ = found.ask(f"/?token={TOKEN}")
            assert status == 303
            found.cookie = headers["set-cookie"].partition(";")[0]
            yield found
        finally:
            stop_server(server)


def asset(running: Running) -> str:
    return "/" + re.search(rb"static/js/index\.[\w-]+\.js", running.ask("/")[2])[0].decode()


def session(ws) -> str:
    """The id of the session that this websocket has opened, once its first script run is over."""
    ws.send(BackMsg(rerun_script={"query_string": ""}).SerializeToString())
    found = ""
    while True:
        message = ForwardMsg()
        message.ParseFromString(ws.recv(timeout=60))
        if message.HasField("new_session"):
            found = message.new_session.initialize.session_id
        if message.HasField("script_finished") and found:
            return found


def upload(running: Running, path: str, body, **headers: str):
    """A file as the page's uploader sends it, with the token against forged requests."""
    _, given, _ = running.ask("/_stcore/host-config")
    xsrf = re.search(
        r"_streamlit_xsrf=([^;]+)", given.get("set-cookie", running.ask("/_stcore/health")[1]["set-cookie"])
    )[1]
    cookie = f"{running.cookie}; _streamlit_xsrf={xsrf}"
    kind = "multipart/form-data; boundary=b"
    return running.ask(path, "PUT", body, cookie, X_Xsrftoken=xsrf, Content_Type=kind, **headers)


def form(content: bytes) -> bytes:
    head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f.csv"\r\nContent-Type: text/csv\r\n\r\n'
    return head + content + b"\r\n--b--\r\n"


def test_every_road_is_closed_without_the_token_and_open_with_it(running):
    roads = ["/", "/data", asset(running), "/_stcore/host-config", "/_stcore/health", "/_stcore/metrics"]
    for road in roads:
        assert running.ask(road, cookie="none=1")[0] == 401, road
        assert running.ask(road, cookie="", Authorization=f"Bearer {TOKEN}")[0] == 200, road
        assert running.ask(road)[0] == 200, road
    for road in ("/media/0123.csv", "/_stcore/upload_file/session/file"):
        assert running.ask(road, cookie="none=1")[0] == 401, road
        assert running.ask(road, "PUT", b"x", cookie="none=1")[0] == 401, road


def test_the_websocket_is_closed_without_the_token_and_to_foreign_hosts(running):
    for cookie, host in (("none=1", "127.0.0.1"), (running.cookie, "evil.example")):
        with pytest.raises(InvalidStatus) as refused, running.socket(cookie, host):
            pass
        assert refused.value.response.status_code == 403
    with running.socket() as ws:
        assert session(ws)


def test_the_websocket_opens_for_the_page_itself_alone(running):
    for origin in ("http://evil.example", f"http://127.0.0.1:{running.port + 1}", "null"):
        with pytest.raises(InvalidStatus) as refused, running.socket(origin=origin):
            pass
        assert refused.value.response.status_code == 403
    with running.socket(origin=f"http://127.0.0.1:{running.port}") as ws:
        assert session(ws)


def test_a_foreign_host_gets_no_page_even_with_the_token(running):
    status, _, body = running.ask("/", Host="evil.example")
    assert status == 403
    assert b"root" not in body


def test_an_upload_of_300_mb_is_refused_cleanly(running):
    process = psutil.Process(running.pid)
    with running.socket() as ws:
        path = f"/_stcore/upload_file/{session(ws)}/{secrets.token_hex(8)}"
        assert upload(running, path, form(b"a;b\n1;2\n"))[0] == 204
        before = process.memory_info().rss
        assert upload(running, path, b"", Content_Length=str(300 * MB))[0] == 413
        assert streamed(running, path) == 413
        assert process.memory_info().rss - before < 100 * MB
        assert upload(running, path, form(b"a;b\n1;2\n"))[0] == 204
    assert running.ask("/_stcore/health")[0] == 200


def streamed(running: Running, path: str) -> int:
    """The answer to a body of 300 MB whose length is not said before; sent until the server answers."""
    xsrf = re.search(r"_streamlit_xsrf=([^;]+)", running.ask("/_stcore/health")[1]["set-cookie"])[1]
    head = (
        f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {running.cookie}; _streamlit_xsrf={xsrf}\r\n"
        f"X-Xsrftoken: {xsrf}\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    start = form(b"").partition(b"\r\n--b--")[0]
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as line:
        line.sendall(head.encode() + b"%x\r\n%s\r\n" % (len(start), start))
        block = b"%x\r\n%s\r\n" % (MB, b"x" * MB)
        try:
            for _ in range(300):
                line.sendall(block)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the end, which is what is wanted
        return int(line.recv(64).split()[1])


def test_the_server_log_and_its_files_do_not_hold_the_token(running):
    running.ask(f"/attack-lab?token={TOKEN}&attack=dsi")
    running.ask("/login", "POST", f"token={TOKEN}&next=/", cookie="")
    for file in running.log.parent.rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes(), file


def test_an_access_log_shows_the_address_without_the_token(caplog):
    async def inside(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    port = free_port()
    config = uvicorn.Config(Guard(inside, lambda: ["127.0.0.1"], TOKEN), port=port, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    with caplog.at_level(logging.INFO, logger="uvicorn.access"):
        thread.start()
        found = Running(port, "", 0, None)
        while not server.started:
            thread.join(timeout=0.01)
            assert thread.is_alive()
        assert found.ask(f"/data?token={TOKEN}&attack=dsi")[0] == 303
        server.should_exit = True
        thread.join(timeout=30)
    lines = "\n".join(r.getMessage() for r in caplog.records if r.name == "uvicorn.access")
    assert "/data?attack=dsi" in lines
    assert TOKEN not in json.dumps(lines)


LOW = 96


@pytest.fixture
def low_limit() -> Iterator[None]:
    """A soft limit of open files as a small system sets it, for what this test starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_open_files_is_raised_and_never_lowered(low_limit):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 200 if hard == resource.RLIM_INFINITY else min(200, hard)
    assert raise_file_limit(200) == wanted
    assert raise_file_limit(10) == wanted
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, hard)


def test_a_session_without_a_visitor_is_let_go_after_two_minutes():
    assert config.get_option("server.disconnectedSessionTTL") <= 120  # it holds three open files until then


@pytest.mark.slow
def test_visitors_who_left_do_not_use_up_the_open_files(low_limit):
    with own_home(get_settings()) as settings:
        port = free_port()
        server = start_server(settings, port)
        found = Running(port, "", server.pid, None)
        try:
            for _ in range(LOW // 2):  # each leaves three files open for a while
                with found.socket() as ws:
                    assert session(ws)
            assert psutil.Process(server.pid).num_fds() > LOW
            assert found.ask("/_stcore/health")[0] == 200
        finally:
            stop_server(server)
        assert "Traceback" not in (settings.data_dir / "server.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_what_ends_the_command_ends_the_server(name, settings):
    port = free_port()
    ours = signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
    try:
        server = start_server(settings, port)  # by the command; a signal that we ignore it would ignore, too
    finally:
        signal.signal(getattr(signal, name), ours)
    try:
        with Running(port, "", server.pid, None).socket() as visitor:
            session(visitor)
            os.kill(server.pid, getattr(signal, name))
            server.wait(timeout=60)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    finally:
        stop_server(server)


def test_a_setting_that_cannot_be_used_is_named_before_the_server_starts(monkeypatch, capsys):
    monkeypatch.setenv("JUDGESCOPE_THREADS", "abc")
    assert main(["dashboard"]) == 2
    assert "JUDGESCOPE_THREADS" in capsys.readouterr().err
