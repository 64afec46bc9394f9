"""What a page shows to a visitor who must log in, or who came around the guard."""

import pytest
import streamlit as st
from streamlit.runtime.secrets import secrets_singleton

from dashboard import rail as login
from dashboard.server import guard as access


@pytest.fixture
def address():
    """Sets the server's address for one test."""
    before = st.config.get_option("server.address")
    yield lambda name: st.config.set_option("server.address", name)
    st.config.set_option("server.address", before)


def titles(at) -> list[str]:
    return [t.value for t in at.title]


def test_without_a_login_the_page_is_only_the_button(app, monkeypatch):
    monkeypatch.setattr(login, "login_configured", lambda: True)
    at = app.run()
    assert not at.exception
    assert titles(at) == ["JudgeScope"]
    assert [b.label for b in at.button] == ["Log in"]


def test_an_open_address_around_the_guard_shows_nothing(app, address, monkeypatch):
    monkeypatch.setattr(access, "_GUARDED", [])
    address("0.0.0.0")
    at = app.run()
    assert titles(at) == []
    assert any("can be reached from other machines" in e.proto.body for e in at.get("html"))


def test_an_open_address_behind_the_guard_shows_the_page(app, address, monkeypatch):
    monkeypatch.setattr(access, "_GUARDED", [True])
    address("0.0.0.0")
    assert titles(app.run()) == ["Start"]


def test_a_login_is_configured_by_the_secrets_file_alone(tmp_path, monkeypatch):
    assert not access.login_configured()
    file = tmp_path / "secrets.toml"
    file.write_text('[auth]\ncookie_secret = "x"\n', encoding="utf-8")
    before = st.config.get_option("secrets.files")
    st.config.set_option("secrets.files", [str(file)])
    secrets_singleton._reset()
    try:
        assert access.login_configured()
        assert not access.signed_in({"_streamlit_user": "made up"})
        assert not access.signed_in({})
    finally:
        st.config.set_option("secrets.files", before)
        secrets_singleton._reset()
