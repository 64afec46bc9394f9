"""Common parts of the writers: JSON lines, ids as numbers where they are, responses and contexts by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from engine.core.errors import InputError
from engine.core.json import dumps, plain
from engine.data.formats.base import Imported


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """One object a line."""
    return "".join(dumps(row) + "\n" for row in rows).encode("utf-8")


def number_or_text(value: str) -> int | str:
    """An id as the number it is, where writing the number gives the same text."""
    return int(value) if value.isascii() and value.isdigit() and str(int(value)) == value else value


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows with None for what is missing."""
    found: list[dict[str, Any]] = [plain(row) for row in frame.to_dict("records")]
    return found


def texts_of(found: Imported) -> list[dict[str, Any]]:
    """The responses that have a text, as `rows_of`; one that failed is never written as an empty one."""
    return rows_of(found.responses[found.responses["text"].notna()])


class Lookup:
    """Items and responses of an import, by id."""

    def __init__(self, found: Imported) -> None:
        self.items = {str(r["item_id"]): r for r in rows_of(found.items)}
        self.responses = {str(r["response_id"]): r for r in rows_of(found.responses)}
        self.origin = found.origin

    def text(self, response_id: str) -> str:
        """The response; blank where its text is missing."""
        return str((self.responses.get(response_id) or {}).get("text") or "")

    def system(self, response_id: str) -> str:
        """Its generator; its id where nothing says."""
        return str((self.responses.get(response_id) or {}).get("system") or response_id)

    def of_item(self, item_id: str, name: str) -> str:
        """A field of an item; blank where it is missing."""
        return str((self.items.get(item_id) or {}).get(name) or "")

    def more(self, key: str) -> dict[str, Any]:
        """Content of the file beyond the tables."""
        return self.origin.get(key, {})


def need(found: Imported, what: str, to: str) -> None:
    """Check that an import holds what a format is about.

    Args:
        found: the import.
        what: `comparisons`, `verdicts` or `texts`.
        to: name of the format that is written.

    Raises:
        InputError: it does not; the message says what it holds.
    """
    there = found.has_texts if what == "texts" else len(getattr(found, what)) > 0
    if not there:
        named = {"comparisons": "pairs", "verdicts": "verdicts", "texts": "texts of responses"}[what]
        raise InputError(f"{found.name!r} holds no {named}, which {to} is about. It holds {found.counts()}.")


def one_system(found: Imported, to: str, file: str) -> str:
    """The system that all responses are of; empty where none is named.

    Args:
        found: the import.
        to: name of the format that is written.
        file: what a file of it is called, such as "a log".

    Raises:
        InputError: there are several.
    """
    systems = [str(s) for s in found.responses["system"].dropna().unique()]
    if len(systems) > 1:
        raise InputError(
            f"{found.name!r} holds responses of {len(systems)} systems, and {file} of {to} is of one. Keep the rows of "
            f"one system, such as {systems[0]}."
        )
    return "".join(systems)
