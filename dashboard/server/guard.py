"""Guard before every request, the websocket included: allowed hosts and origins, the shared token, the headers.

Plain ASGI, so that static files, uploads, downloads and the websocket pass through the same door as the pages.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import streamlit
import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from engine.core.errors import InputError

LOGIN = "/login"
COOKIE = "judgescope_login"
COOKIE_SECONDS = 7 * 24 * 3600
MIN_TOKEN = 16
"""Shortest token that is taken [characters]; with `secrets.token_urlsafe` that is 96 bits."""
MAX_FORM = 4_096
"""Longest body of the login form [bytes]."""
FREE_TRIES = 5
"""Wrong tokens of one client that meet no delay."""
MOST_WAIT_S = 8.0
"""Longest time for which a client's tokens are not looked at after a wrong one [s]."""
FORGOTTEN_S = 900.0
"""Wrong tokens count no more when the last one is so long ago [s]."""
MOST_CLIENTS = 4096
"""Clients whose wrong tokens are counted; the one heard of longest ago leaves first."""
_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_BESIDE_THE_PAGE = ("/_stcore/upload_file", "/media")
_LOGIN_PAGE = Path(__file__).with_name("login.html")


def is_loopback(address: str) -> bool:
    """True where only this machine can reach the address: 127.0.0.0/8, ::1 or localhost."""
    bare = address.strip().strip("[]").lower()
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def check_exposure(address: str, token: str, *, login: bool) -> None:
    """Refuse to be reached from elsewhere without knowing who asks.

    Args:
        address: the address that the server binds to; empty means every interface.
        token: the shared token, or empty.
        login: true where an OIDC provider is configured.

    Raises:
        InputError: the token is blank or too short, or the address needs one and there is none.
    """
    if token and not token.strip():
        raise InputError(
            "JUDGESCOPE_TOKEN holds blanks alone, so nobody would be asked for it. Unset it, or make one with "
            '`python -c "import secrets; print(secrets.token_urlsafe(24))"`.'
        )
    if token and len(token) < MIN_TOKEN:
        raise InputError(
            f"JUDGESCOPE_TOKEN has {len(token)} characters; at least {MIN_TOKEN} are needed. "
            'Make one with `python -c "import secrets; print(secrets.token_urlsafe(24))"`.'
        )
    if not (is_loopback(address) or token or login):
        raise InputError(
            f"The address {address or 'every interface'!r} can be reached from other machines, and nothing would ask "
            f"who is there. Set JUDGESCOPE_TOKEN (at least {MIN_TOKEN} characters), or configure [auth] in "
            ".streamlit/secrets.toml, or stay on 127.0.0.1 and reach it through an SSH tunnel."
        )


def content_policy() -> str:
    """The Content-Security-Policy; the one inline script it allows is Streamlit's own, by its digest."""
    index = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    digests = [
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in _SCRIPT.findall(index)
    ]
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(["script-src 'self'", *digests]),
            "worker-src 'self' blob:",
            "style-src 'self' 'unsafe-inline'",  # Streamlit's styles are made in the browser
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self' blob: data:",
            "frame-ancestors 'none'",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
        )
    )


def host_allowed(host: str, allowed: Iterable[str]) -> bool:
    """True where a Host header names one of the allowed hosts; `*.example.org` allows what stands before the dot."""
    name = _name_and_port(host)[0]
    patterns = [p.strip().strip("[]").lower().rstrip(".") for p in allowed]
    return any(name == p or (p.startswith("*.") and name.endswith(p[1:])) for p in patterns if p) and bool(name)


def _name_and_port(host: str, scheme: str = "http") -> tuple[str, int]:
    """A Host header's name and port, the scheme's own port where it names none; no name where it is no host."""
    if not host or any(c in host for c in "/?#@\\ \t"):
        return "", 0
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port  # a port that is no number raises
    except ValueError:
        return "", 0
    usual = 443 if scheme in ("https", "wss") else 80
    return (name or "").lower().rstrip("."), usual if port is None else port


def origin_allowed(origin: str, host: str, allowed: Iterable[str]) -> bool:
    """True where the page that opens a websocket is one of ours.

    It is where its origin is the very host it asks, port included: another port of this machine is another program,
    though it gets our cookie. Where a proxy of this machine has put a loopback name in the Host header, the origin
    may also be a host that is allowed by name.

    Args:
        origin: the Origin header, for example `https://lab.example.org`.
        host: the Host header.
        allowed: the hosts that are served.
    """
    scheme, mark, rest = origin.partition("://")
    page = _name_and_port(rest, scheme)
    if not mark or scheme not in ("http", "https") or not page[0]:
        return False  # "null" among them, which a sandboxed frame sends
    if page == _name_and_port(host, scheme):
        return True
    behind_proxy = is_loopback(_name_and_port(host)[0]) and not is_loopback(page[0])
    return behind_proxy and host_allowed(rest, allowed)


class Throttle:
    """The wait of a client after wrong tokens: none after the first few, then twice as long after each.

    Attributes:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        """Clients that are counted."""
        return len(self._wrong)

    def wait(self, client: str) -> float:
        """Seconds until this client's next token is looked at; 0 for now."""
        count, last = self._wrong.get(_network(client), (0, 0.0))
        if count < FREE_TRIES:
            return 0.0
        pause: float = min(MOST_WAIT_S, 2.0 ** min(count - FREE_TRIES, 10))
        return max(0.0, last + pause - self.clock())

    def wrong(self, client: str) -> None:
        """Count a wrong token."""
        who, now = _network(client), self.clock()
        count, last = self._wrong.pop(who, (0, now))
        self._wrong[who] = (1 if now - last > FORGOTTEN_S else count + 1, now)
        while len(self._wrong) > MOST_CLIENTS:
            self._wrong.popitem(last=False)


def _network(client: str) -> str:
    """The client's address; of IPv6 the first 64 bits, since the rest is the client's to choose."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client[:64]
    return str(ipaddress.ip_network(f"{client.partition('%')[0]}/64", strict=False)) if address.version == 6 else client


def login_cookie(token: str, expires: int) -> str:
    """Cookie of a browser after login: a seal that only the token's holder can make, never the token itself."""
    seal = hmac.new(token.encode(), f"login until {expires}".encode(), hashlib.sha256).hexdigest()
    return f"{expires}.{seal}"


def cookie_valid(value: str, token: str, now: float) -> bool:
    """True where a cookie was made by `login_cookie` with this token and has not run out."""
    expires, _, _ = value.partition(".")
    if not (expires.isascii() and expires.isdigit() and len(expires) < 16):
        return False
    return hmac.compare_digest(value.encode(), login_cookie(token, int(expires)).encode()) and int(expires) > now


class _HeldBack(Exception):  # noqa: N818 - an answer, not an error
    """A client has to wait before its next token is looked at.

    Attributes:
        seconds: so long.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def answer(self) -> Response:
        """Answer to the client."""
        text = f"Too many wrong tokens came from this address. Wait {self.seconds} s, then try again."
        return PlainTextResponse(text, 429, {"Retry-After": str(self.seconds), "Cache-Control": "no-store"})


class Guard:
    """ASGI middleware in front of the dashboard.

    Attributes:
        allowed: gives the hosts that are served; asked at each request, since Streamlit's settings are read late.
        token: the shared token; empty lets everybody in who comes from this machine.
        signed_in: where an OIDC provider is configured, tells from the cookies whether somebody is logged in. The
            page itself shows the login; what passes by the page (uploads, files made for download) is kept here.
        throttle: holds back who shows wrong tokens.
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed: Callable[[], Iterable[str]],
        token: str = "",
        signed_in: Callable[[Mapping[str, str]], bool] | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._app, self._allowed, self._token, self._signed_in = app, allowed, token, signed_in
        self._throttle = Throttle() if throttle is None else throttle
        self._headers = {
            "Content-Security-Policy": content_policy(),
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        sealed = self._sealed(send)
        refused = self._refusal(scope)
        if refused is None and self._token:
            try:
                refused = await self._login_step(scope, receive)
            except _HeldBack as held:
                refused = held.answer()
        if refused is None:
            await self._app(scope, receive, sealed)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        else:
            await refused(scope, receive, sealed)

    def _sealed(self, send: Send) -> Send:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
            await send(message)

        return with_headers

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, allowed = headers.get("host", ""), list(self._allowed())
        if not host_allowed(host, allowed):
            return PlainTextResponse(
                "This host name is not served here. Start JudgeScope with --allow-host NAME to allow it.", 403
            )
        if scope["type"] == "websocket" and "origin" in headers:
            if not all(origin_allowed(o, host, allowed) for o in headers.getlist("origin")):
                return Response(status_code=403)
            # settled here: Streamlit would ask a server elsewhere for this machine's address to judge it
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name.lower() != b"origin"]
        server = (scope.get("server") or ("", 0))[0]
        if not (self._token or self._signed_in or is_loopback(server)):
            # an ASGI server that was told to bind elsewhere; `check_exposure` never saw that address
            return PlainTextResponse("Reached from elsewhere, JudgeScope needs a token: set JUDGESCOPE_TOKEN.", 403)
        if self._signed_in and not self._token and scope["path"].startswith(_BESIDE_THE_PAGE):
            return None if self._signed_in(_cookies(scope)) else PlainTextResponse("Log in first.", 401)
        return None

    def _known(self, scope: Scope) -> bool:
        if cookie_valid(_cookies(scope).get(COOKIE, ""), self._token, time.time()):
            return True
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._is_token(given.strip(), scope)

    def _is_token(self, given: str, scope: Scope) -> bool:
        """True where this is the token; a wrong one is counted.

        Raises:
            _HeldBack: it is not looked at, neither a wrong one nor the right one: else guessing would go on.
        """
        client = (scope.get("client") or ("",))[0]
        if wait := self._throttle.wait(client):
            raise _HeldBack(math.ceil(wait))
        right = hmac.compare_digest(given.encode(), self._token.encode())
        if not right:
            self._throttle.wrong(client)
        return right

    async def _login_step(self, scope: Scope, receive: Receive) -> Response | None:
        """None for somebody who has shown the token; else a form, or the way back with a cookie."""
        if scope["type"] == "websocket":
            return None if self._known(scope) else Response(status_code=403)
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in asked if name == "token"), None)
        path = "/" + scope["path"].lstrip("/\\")
        if given is not None:
            # out of the address bar, and out of the server's own log, which is written from the scope
            kept = urlencode([(name, value) for name, value in asked if name != "token"])
            scope["query_string"] = kept.encode("latin-1")
            return self._let_in(f"{path}?{kept}" if kept else path, given, scope)
        if self._known(scope):
            return None
        if scope["method"] == "POST" and path == LOGIN:
            form = dict(parse_qsl(await _body(receive)))
            return self._let_in(_local(form.get("next", "/")), form.get("token", ""), scope)
        if scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", ""):
            return _form(f"{path}?{urlencode(asked)}" if asked else path)
        return PlainTextResponse("Log in first.", 401)

    def _let_in(self, to: str, given: str, scope: Scope) -> Response:
        if not self._is_token(given, scope):
            return _form(to, "This is not the token.")
        answer = RedirectResponse(to, 303, {"Cache-Control": "no-store"})
        value = login_cookie(self._token, int(time.time()) + COOKIE_SECONDS)
        secure = scope.get("scheme") == "https"
        answer.set_cookie(COOKIE, value, COOKIE_SECONDS, httponly=True, samesite="lax", secure=secure)
        return answer


def _cookies(scope: Scope) -> Mapping[str, str]:
    return Request({**scope, "type": "http"}).cookies


async def _body(receive: Receive) -> str:
    """The form's body; what is longer than a form can be is not read."""
    found, more = b"", True
    while more and len(found) <= MAX_FORM:
        message: dict[str, Any] = dict(await receive())
        found += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
    return found.decode("latin-1") if len(found) <= MAX_FORM else ""


def _local(target: str) -> str:
    """A path on this server; anything that could lead elsewhere becomes the start page."""
    clean = unquote(target)
    odd = any(c in clean for c in "\\\r\n\t") or not target.startswith("/") or clean.startswith("//")
    return "/" if odd or urlsplit(target).netloc else target


def _form(target: str, problem: str = "") -> Response:
    quoted = {"%NEXT%": _local(target), "%PROBLEM%": problem}
    page = _LOGIN_PAGE.read_text(encoding="utf-8")
    for mark, text in quoted.items():
        page = page.replace(mark, _escaped(text))
    return HTMLResponse(page, 401, {"Cache-Control": "no-store"})


def _escaped(text: str) -> str:
    return re.sub(r"[&<>\"']", lambda m: f"&#{ord(m[0])};", text)


# Questions of the guard to Streamlit: is an OIDC login configured, is somebody logged in, is the guard in front?


def login_configured() -> bool:
    """True where an OIDC provider is configured, in `[auth]` of `.streamlit/secrets.toml`."""
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def signed_in(cookies: Mapping[str, str]) -> bool:
    """True where the cookies hold a login that Streamlit signed; its name and age are checked by the signature."""
    secret = get_cookie_secret()

    def opened(name: str) -> bytes | None:
        value = cookies.get(name)
        return decode_signed_value(secret, name, value.encode("latin-1")) if value and secret else None

    return get_cookie_with_chunks(opened, USER_COOKIE_NAME) is not None


_GUARDED: list[bool] = []


def mark_guarded() -> None:
    """Said once by the ASGI application, which has the guard in front."""
    _GUARDED.append(True)


def guarded() -> bool:
    """True where the guard stands in front of this process's pages."""
    return bool(_GUARDED)
