"""The guard in front of the dashboard, asked directly: hosts, token, headers, and what is refused at the start."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
import streamlit
from hypothesis import given
from hypothesis import strategies as st

from dashboard.server.guard import (
    COOKIE,
    FORGOTTEN_S,
    FREE_TRIES,
    MIN_TOKEN,
    MOST_CLIENTS,
    MOST_WAIT_S,
    Guard,
    Throttle,
    check_exposure,
    content_policy,
    cookie_valid,
    host_allowed,
    is_loopback,
    login_cookie,
    origin_allowed,
)
from engine.core.errors import InputError
from engine.core.settings import get_settings

TOKEN = "a-token-of-some-length"
HOSTS = ("127.0.0.1", "localhost", "lab.example.org")
HTML = {"accept": "text/html"}


def ask(
    *,
    token: str = TOKEN,
    path: str = "/",
    query: str = "",
    method: str = "GET",
    body: bytes = b"",
    kind: str = "http",
    server: str = "127.0.0.1",
    signed_in=None,
    client: str = "127.0.0.1",
    throttle: Throttle | None = None,
    **headers: str,
):
    """(status, headers, body, scope) of one request through a guard whose app answers "inside"."""
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in {"host": "localhost:1", **headers}.items()],
        "server": (server, 8501),
        "client": (client, 40_000),
        "scheme": "http",
    }
    sent: list[dict] = []

    async def inside(scope, receive, send):
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"inside"})

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    guarded = Guard(inside, lambda: HOSTS, token, signed_in, throttle)(scope, receive, send)
    with ThreadPoolExecutor(1) as other:  # a browser of another test may keep a loop running in this thread
        other.submit(asyncio.run, guarded).result()
    first = sent[0]
    if kind == "websocket":
        return first["type"], {}, b"", scope
    found = {k.decode(): v.decode() for k, v in first["headers"]}
    return first["status"], found, b"".join(m.get("body", b"") for m in sent[1:]), scope


def cookie_of(headers: dict[str, str]) -> str:
    return headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8501", "127.0.0.1:80", "lab.example.org.", "a.b.org"])
def test_own_names_are_served(host):
    assert host_allowed(host, (*HOSTS, "*.b.org"))


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "evil@localhost", "localhost/x", "localhost:port", "b.org", "::1"],
)
def test_foreign_names_are_refused(host):
    assert not host_allowed(host, (*HOSTS, "*.b.org"))
    status, _, body, _ = ask(token="", host=host)
    assert status == 403
    assert b"inside" not in body
    assert ask(token="", host=host, kind="websocket")[0] == "websocket.close"


@given(st.text(max_size=40))
def test_no_odd_host_passes_by_accident(host):
    if host_allowed(host, HOSTS):
        assert re.fullmatch(r"(127\.0\.0\.1|localhost|lab\.example\.org)\.?(:\d*)?", host.lower())


def test_ipv6_literals_are_compared_without_their_brackets():
    assert host_allowed("[::1]:8501", ("::1",))
    assert not host_allowed("[::2]:8501", ("::1",))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.3", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_token(address):
    assert is_loopback(address)
    check_exposure(address, "", login=False)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "192.168.1.7", "lab.example.org", "127.0.0.1.example.org"])
def test_another_address_needs_a_token_or_a_login(address):
    with pytest.raises(InputError, match="JUDGESCOPE_TOKEN"):
        check_exposure(address, "", login=False)
    check_exposure(address, TOKEN, login=False)
    check_exposure(address, "", login=True)


def test_a_short_token_is_refused_everywhere():
    with pytest.raises(InputError, match=f"at least {MIN_TOKEN}"):
        check_exposure("127.0.0.1", "x" * (MIN_TOKEN - 1), login=False)


@pytest.mark.parametrize("blanks", [" " * 16, " ", "\t\n " * 8])
def test_a_token_of_blanks_is_refused_with_a_message(blanks, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_TOKEN", blanks)
    for login in (True, False):
        with pytest.raises(InputError, match="JUDGESCOPE_TOKEN"):
            check_exposure("127.0.0.1", get_settings().token, login=login)
    monkeypatch.setenv("JUDGESCOPE_TOKEN", f" {TOKEN}\n")
    assert get_settings().token == TOKEN


SAME = [
    ("http://localhost:1", "localhost:1"),
    ("http://LOCALHOST:1", "localhost:1"),
    ("http://localhost", "localhost:80"),
    ("https://lab.example.org", "lab.example.org"),
    ("https://lab.example.org", "lab.example.org:443"),
    ("https://lab.example.org", "127.0.0.1:8501"),  # a proxy here put its own Host header
]
FOREIGN = [
    ("http://evil.example", "localhost:1"),
    ("http://localhost:2", "localhost:1"),
    ("http://127.0.0.1:1", "localhost:1"),
    ("http://127.0.0.1:2", "127.0.0.1:1"),
    ("http://lab.example.org:9", "lab.example.org"),
    ("https://lab.example.org", "lab.example.org:80"),
    ("http://localhost.evil.example:1", "localhost:1"),
    ("http://localhost:1@evil.example", "localhost:1"),
    ("http://localhost:1/x", "localhost:1"),
    ("localhost:1", "localhost:1"),
    ("file://localhost:1", "localhost:1"),
    ("null", "localhost:1"),
    ("", "localhost:1"),
    ("http://", "localhost:1"),
    ("http://localhost:port", "localhost:1"),
]


@pytest.mark.parametrize(("origin", "host"), SAME)
def test_a_page_of_ours_opens_a_websocket_and_streamlit_has_nothing_left_to_judge(origin, host):
    assert origin_allowed(origin, host, HOSTS)
    answer = ask(token="", kind="websocket", host=host, origin=origin)
    assert answer[0] == "websocket.accept"
    assert b"origin" not in dict(answer[3]["headers"])


@pytest.mark.parametrize(("origin", "host"), FOREIGN)
def test_another_page_opens_no_websocket_not_even_with_the_login(origin, host):
    assert not origin_allowed(origin, host, HOSTS)
    cookie = f"{COOKIE}={login_cookie(TOKEN, 2**40)}"
    assert ask(kind="websocket", host=host, cookie=cookie)[0] == "websocket.accept"  # a program sends no origin
    assert ask(kind="websocket", host=host, cookie=cookie, origin=origin)[0] == "websocket.close"
    assert ask(token="", kind="websocket", host=host, origin=origin)[0] == "websocket.close"


def login(throttle: Throttle, given: str, client: str = "10.0.0.1") -> int:
    body = urlencode({"token": given}).encode()
    return ask(path="/login", method="POST", body=body, client=client, throttle=throttle)[0]


def test_wrong_tokens_are_slowed_down_and_the_right_one_waits_no_longer_than_said():
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    assert [login(throttle, "wrong") for _ in range(FREE_TRIES)] == [401] * FREE_TRIES
    waits = []
    for _ in range(12):
        status, headers, _, _ = ask(query=f"token={TOKEN}", client="10.0.0.1", throttle=throttle)
        assert status == 429  # looked at, it would tell who guesses
        waits.append(int(headers["retry-after"]))
        assert ask(authorization=f"Bearer {TOKEN}", client="10.0.0.1", throttle=throttle)[0] == 429
        assert login(throttle, TOKEN, client="10.0.0.2") == 303  # somebody else
        cookie = f"{COOKIE}={login_cookie(TOKEN, 2**40)}"
        assert ask(cookie=cookie, client="10.0.0.1", throttle=throttle)[0] == 200  # who is in stays in
        now[0] += waits[-1]
        assert login(throttle, "wrong") == 401
    assert waits == sorted(waits)
    assert waits[0] < waits[-1] <= MOST_WAIT_S
    now[0] += MOST_WAIT_S
    assert login(throttle, TOKEN) == 303


def test_a_held_back_client_leaves_no_token_in_the_log_either():
    throttle = Throttle()
    for _ in range(FREE_TRIES):
        throttle.wrong("10.0.0.1")
    scope = ask(query=f"a=1&token={TOKEN}", client="10.0.0.1", throttle=throttle)[3]
    assert scope["query_string"] == b"a=1"


def test_wrong_tokens_are_forgotten_and_take_bounded_memory():
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for k in range(2 * MOST_CLIENTS):
        throttle.wrong(f"10.{k >> 16}.{k >> 8 & 255}.{k & 255}")
    assert len(throttle) == MOST_CLIENTS
    for _ in range(FREE_TRIES):
        throttle.wrong("2001:db8::1")
    assert throttle.wait("2001:db8::2") > 0  # the same network, whose addresses are one client's to choose
    assert throttle.wait("2001:db8:0:1::1") == 0
    now[0] += FORGOTTEN_S + 1
    throttle.wrong("2001:db8::1")
    assert throttle.wait("2001:db8::1") == 0


def test_an_address_the_start_never_saw_is_refused_at_the_request():
    assert ask(token="", server="192.168.1.7")[0] == 403
    assert ask(token="", server="192.168.1.7", kind="websocket")[0] == "websocket.close"
    assert ask(token="")[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "/_stcore/stream", "/_stcore/upload_file/s/f", "/media/x.csv", "/static/js/a.js"]
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD"])
def test_without_the_token_nothing_is_reached(path, method):
    status, _, body, _ = ask(path=path, method=method)
    assert status == 401
    assert b"inside" not in body
    assert ask(path=path, kind="websocket")[0] == "websocket.close"


def test_the_form_lets_in_and_what_the_browser_keeps_is_not_the_token():
    form = urlencode({"token": TOKEN, "next": "/data?attack=dsi"}).encode()
    status, headers, _, _ = ask(path="/login", method="POST", body=form)
    assert (status, headers["location"]) == (303, "/data?attack=dsi")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=lax" in headers["set-cookie"]
    assert TOKEN not in str(headers)
    kept = cookie_of(headers)
    assert ask(cookie=kept)[0] == 200
    assert ask(cookie=kept, kind="websocket")[0] == "websocket.accept"
    assert ask(cookie=kept, token="another-token-of-length")[0] == 401
    assert ask(authorization=f"Bearer {TOKEN}")[0] == 200
    assert ask(authorization="Bearer nothing")[0] == 401


@pytest.mark.parametrize("given", ["", "wrong", TOKEN[:-1], TOKEN + "x", "é", "\x00"])
def test_a_wrong_token_gets_the_form_again(given):
    status, headers, body, _ = ask(path="/login", method="POST", body=urlencode({"token": given}).encode())
    assert status == 401
    assert "set-cookie" not in headers
    assert b"This is not the token" in body


def test_a_link_with_the_token_is_answered_by_one_without_it():
    status, headers, _, scope = ask(path="/attack-lab", query=f"attack=dsi&token={TOKEN}&tab=Whole+set")
    assert (status, headers["location"]) == (303, "/attack-lab?attack=dsi&tab=Whole+set")
    assert headers["referrer-policy"] == "no-referrer"
    assert TOKEN not in str(headers)
    assert TOKEN.encode() not in scope["query_string"]  # what the server logs afterwards
    again = ask(path="/", query=f"token={TOKEN}", cookie=cookie_of(headers))
    assert (again[0], again[1]["location"]) == (303, "/")


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/%2f/e"]
)
def test_the_way_back_never_leads_elsewhere(target):
    form = urlencode({"token": TOKEN, "next": target}).encode()
    assert ask(path="/login", method="POST", body=form)[1]["location"] == "/"
    assert ask(path="//evil.example", query=f"token={TOKEN}")[1]["location"] == "/evil.example"


def test_the_form_holds_no_markup_of_the_address():
    _, _, body, _ = ask(path='/"><script>x</script>', query="a=<img src=x>", **HTML)
    assert b"<script" not in body
    assert b"<img" not in body


def test_a_body_that_is_no_form_is_not_read_to_its_end():
    assert ask(path="/login", method="POST", body=b"x" * 5_000 + b"&token=" + TOKEN.encode())[0] == 401


def test_a_login_runs_out_and_cannot_be_made_longer():
    value = login_cookie(TOKEN, 1_000)
    assert cookie_valid(value, TOKEN, now=999)
    assert not cookie_valid(value, TOKEN, now=1_001)
    assert not cookie_valid("9" + value, TOKEN, now=1_001)


@given(st.text(max_size=60))
def test_no_invented_cookie_is_valid(value):
    assert not cookie_valid(value, TOKEN, now=0)
    assert COOKIE not in value or not cookie_valid(value.partition("=")[2], TOKEN, now=0)


def test_with_an_oidc_login_uploads_and_files_wait_for_it():
    anybody, nobody = (lambda cookies: True), (lambda cookies: False)
    for path in ("/_stcore/upload_file/s/f", "/media/x.csv"):
        assert ask(token="", path=path, signed_in=nobody, method="PUT")[0] == 401
        assert ask(token="", path=path, signed_in=anybody, method="PUT")[0] == 200
    assert ask(token="", path="/", signed_in=nobody, server="192.168.1.7")[0] == 200  # the page shows the login


def test_every_answer_carries_the_headers():
    for answer in (ask(token=""), ask(), ask(host="evil.example"), ask(query=f"token={TOKEN}")):
        headers = answer[1]
        assert headers["content-security-policy"] == content_policy()
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"


def test_the_policy_allows_exactly_streamlits_own_inline_script():
    index = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    inline = re.findall(r"<script>(.*?)</script>", index, re.DOTALL)
    assert len(inline) == 1  # more would be something new to look at
    digest = base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()
    scripts = next(p for p in content_policy().split("; ") if p.startswith("script-src"))
    assert scripts == f"script-src 'self' 'sha256-{digest}'"
    assert "unsafe-eval" not in content_policy()
    assert not re.search(r"https?:|\*", content_policy())


def test_the_token_is_not_in_the_settings_text(monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_TOKEN", TOKEN)
    assert get_settings().token == TOKEN
    assert TOKEN not in repr(get_settings())
