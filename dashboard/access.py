"""What the guard asks Streamlit: is an OIDC login configured, is somebody logged in, does the guard stand in front?"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME


def login_configured() -> bool:
    """Whether an OIDC provider is configured, in `[auth]` of `.streamlit/secrets.toml`."""
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def signed_in(cookies: Mapping[str, str]) -> bool:
    """Whether the cookies hold a login that Streamlit signed; the name and age of it are checked by the signature."""
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
    """Whether the guard stands in front of this process's pages."""
    return bool(_GUARDED)
