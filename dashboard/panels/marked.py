"""A text of the user's with the attack's words marked; nothing in the text can act as markup."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

_TAGS = {"same": "span", "added": "ins", "removed": "del"}
_MAY_SCROLL = 600
"""Texts longer than this [characters] may not fit their box."""


def marked_html(pieces: Sequence[tuple[str, str]], label: str) -> str:
    """HTML in which every piece went through `html.escape`; the style sheet keeps the whitespace.

    `dir=auto` and the isolating style keep a right-to-left text, or one with direction marks, inside its box.
    """
    spans = "".join(
        f'<{_TAGS[kind]} class="js-{kind}">{html.escape(text, quote=True)}</{_TAGS[kind]}>'
        for kind, text in pieces
        if text
    )
    name = html.escape(label, quote=True)
    # A text that scrolls must be reachable by keyboard; a short one need not stop the Tab key.
    focus = ' tabindex="0"' if sum(len(text) for _, text in pieces) > _MAY_SCROLL else ""
    return f'<div class="js-text" dir="auto" role="group" aria-label="{name}"{focus}>{spans}</div>'


def show_marked(pieces: Sequence[tuple[str, str]], *, label: str) -> None:
    """Draw the text; inserted words are underlined on vermilion, removed ones struck through."""
    if not any(text for _, text in pieces):
        st.text("(empty text)")
        return
    st.html(marked_html(pieces, label))


def show_verbatim(text: str, *, label: str) -> None:
    """Draw a text exactly as it is."""
    show_marked([("same", text)], label=label)
