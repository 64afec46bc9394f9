"""The known formats, by name; opening a file, telling which one it has, and reading it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from engine.core.errors import InputError, listed, shown
from engine.core.json import check_depth
from engine.core.plugins import Registry
from engine.data.encodings import TITLES, decode
from engine.data.formats.alpaca import ALPACA
from engine.data.formats.arena import ARENA
from engine.data.formats.base import Builder, Format, Imported, Source
from engine.data.formats.benches import BENCHES, REWARDBENCH, VERIFYBENCH
from engine.data.formats.comparator import COMPARATOR
from engine.data.formats.fastchat import FASTCHAT
from engine.data.formats.inspect_logs import INSPECT, KEYS, looks_like_log
from engine.data.formats.lm_eval import LM_EVAL
from engine.data.formats.promptfoo import PROMPTFOO
from engine.data.formats.summeval import SUMMEVAL
from engine.data.raw import unwritable
from engine.data.reading import read_table

LOG_ENDING = ".eval"
File = tuple[str, bytes]
"""Name and content."""


def open_source(
    filename: str,
    content: bytes,
    *,
    companions: Sequence[File] = (),
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
) -> Source:
    """Read a file as far as its format need not be known.

    Args:
        filename: its ending decides; it is not opened.
        content: its bytes.
        companions: files that belong to it.
        encoding: as `read_table` takes it.
        delimiter: as `read_table` takes it.
        sheet: as `read_table` takes it.

    Raises:
        InputError: it cannot be read, or its encoding would be a guess in a JSON object.
    """
    others = tuple(open_source(name, data, encoding=encoding) for name, data in companions)
    ending = PurePath(filename).suffix.lower()
    if ending == LOG_ENDING:
        if not looks_like_log(content):
            raise InputError(f"{filename!r} ends in {LOG_ENDING} and is no Inspect archive. Export the log again.")
        return Source(filename, log=content, companions=others)
    if ending == ".json" and sheet is None:
        document, used = _document(filename, content, encoding)
        if document is not None and set(KEYS) <= document.keys() and ("samples" in document or "plan" in document):
            return Source(filename, log=content, companions=others, encoding=used)
        if document is not None:
            return Source(filename, document=document, companions=others, encoding=used)
    table = read_table(filename, content, encoding=encoding, delimiter=delimiter, sheet=sheet)
    return Source(filename, table=table, companions=others, encoding=table.encoding)


def _document(filename: str, content: bytes, encoding: str | None) -> tuple[dict[str, Any] | None, str]:
    """The file as one JSON object and its encoding; None where it is a list or JSON lines."""
    if content[:4] == b"PK\x03\x04" or not content.strip():
        return None, ""
    decoded = decode(filename, content, encoding)
    text = decoded.text.lstrip("\ufeff \t\r\n")
    if not text.startswith("{") or decoded.candidates:
        return None, ""
    try:
        found = json.loads(text, parse_constant=_constant, parse_float=_finite)
        check_depth(found)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return None, ""  # JSON lines under another name
        raise InputError(
            f"{filename!r} is not valid JSON: {error.msg} at line {error.lineno}, character {error.colno}. Correct it "
            "there, or write it again."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{filename!r} holds a number or nesting beyond bounds. Write simpler JSON.") from None
    return _clean(found), decoded.encoding


def _constant(name: str) -> None:
    """NaN and infinities are no JSON and mean that nothing was measured."""
    del name


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _clean(value: Any) -> Any:
    """The value without what no text file can hold (NUL, half of a surrogate pair), shown as U+FFFD."""
    if isinstance(value, str):
        return "".join("\ufffd" if unwritable(c) else c for c in value) if unwritable(value) else value
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return {k: _clean(v) for k, v in value.items()} if isinstance(value, dict) else value


_BUILT_IN = (
    *ARENA, *FASTCHAT, *ALPACA, COMPARATOR, PROMPTFOO, LM_EVAL, INSPECT, VERIFYBENCH, *REWARDBENCH, *BENCHES, *SUMMEVAL,
)  # fmt: skip
TABLE = "table"
"""The name that takes a file as a plain table, whatever it looks like."""
FORMATS = Registry(
    "formats", Format, {form.name: form for form in _BUILT_IN}, text="holds", key=lambda form: form.name,
    taken=(TABLE, "responses", "pairs", "verdicts"),  # the last three are layouts that are written
)  # fmt: skip
"""Every known format."""

_NEAR = 0.6
"""Share of a format's telling columns from which a file that lacks others is called a near miss."""


@dataclass(frozen=True)
class Recognition:
    """Formats whose signature a file has.

    Attributes:
        fits: names of the formats, all of them; one is certain, several are the user's to tell apart.
        near: name -> what the file lacks of a format that it has most of.
    """

    fits: tuple[str, ...] = ()
    near: tuple[tuple[str, str], ...] = ()

    @property
    def certain(self) -> str:
        """The one format it has; empty where it has none or several."""
        return self.fits[0] if len(self.fits) == 1 else ""

    def in_words(self) -> str:
        """The format recognised, or almost recognised, in words; empty where there is none."""
        if len(self.fits) > 1:
            names = " and ".join(f"{FORMATS[n].title} ({n})" for n in self.fits)
            return f"The file has the columns of {names}, and nothing tells them apart. Say which it is."
        if self.fits:
            return f"The file is recognised as {FORMATS[self.fits[0]].title} ({self.fits[0]})."
        lines = [f"It looks like {FORMATS[n].title} ({n}), but {lacks}." for n, lacks in self.near]
        return " ".join(lines)


def recognise(source: Source) -> Recognition:
    """Compare a file with the signature of every format."""
    lacks = {name: form.lacks(source) for name, form in FORMATS.items() if form.shape == source.shape}
    fits = tuple(name for name, what in lacks.items() if not what)
    near = () if fits else tuple((name, what) for name, what in lacks.items() if _is_near(FORMATS[name], source))
    return Recognition(fits, near)


def _is_near(form: Format, source: Source) -> bool:
    shared = sum(column in source.columns for column in form.telling)
    return shared >= 2 and shared >= _NEAR * len(form.telling)


def format_named(name: str) -> tuple[Format, str]:
    """A format and the aspect its name chooses.

    Raises:
        InputError: there is no such format or aspect.
    """
    base, colon, aspect = name.partition(":")
    form = FORMATS.get(base)
    if form is None:
        raise InputError(
            f"There is no format {shown(name)}. Formats: {', '.join(FORMATS)}; or {TABLE} for a plain table."
        )
    if colon and aspect not in form.aspects:
        offered = f"Aspects: {', '.join(form.aspects)}." if form.aspects else "It has no aspects."
        raise InputError(f"The format {base} has no aspect {shown(aspect)}. {offered}")
    return form, aspect


def read_known(
    filename: str,
    content: bytes,
    name: str,
    *,
    companions: Sequence[File] = (),
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
) -> Imported:
    """Read a file in a format that the user or `recognise` has named.

    Args:
        filename: of the file; not opened.
        content: its bytes.
        name: of the format, with an aspect where it has some, such as `summeval:coherence`.
        companions: files that belong to it.
        encoding: as `reading.read_table` takes it.
        delimiter: as `reading.read_table` takes it.
        sheet: as `reading.read_table` takes it.

    Raises:
        InputError: unknown format, a file without what the format needs, or nothing in it that can be used.
    """
    form, _ = format_named(name)
    source = open_source(filename, content, companions=companions, encoding=encoding, delimiter=delimiter, sheet=sheet)
    if source.table is None and source.document is not None and form.shape == "table":
        # an object around a list of records is read as that list
        source = open_source(filename, content, companions=companions, encoding=encoding, sheet=_only_list(source))
    return read_source(source, name)


def _only_list(source: Source) -> str:
    """The key of the one list of objects in a document.

    Raises:
        InputError: there is none, or there are several.
    """
    keys = [k for k, v in (source.document or {}).items() if isinstance(v, list) and v and isinstance(v[0], dict)]
    if len(keys) != 1:
        raise InputError(
            f"{source.filename!r} is one JSON object with {len(keys)} lists of objects ({listed(keys) or 'none'}), "
            "and the format has one. Name the list with --sheet KEY."
        )
    return keys[0]


def read_source(source: Source, name: str) -> Imported:
    """As `read_known`, of a file that is open."""
    form, aspect = format_named(name)
    if lacks := form.lacks(source):
        raise InputError(
            f"{source.filename!r} cannot be read as {form.title} ({form.name}): {lacks}. It has: "
            f"{listed(sorted(source.columns)) or 'no columns'}. Choose another format, or {TABLE} for a plain "
            "table."
        )
    if source.table:
        source.table.require_certain(source.filename, "Say which with --encoding NAME.")
    builder = Builder(form, source, aspect)
    form.read(source, builder)
    table = source.table
    where: dict[str, Any] = {
        "format": table.format if table else source.shape,
        "encoding": source.encoding,
        "delimiter": table.delimiter if table else "",
        "part": table.part if table else "",
    }
    how = table.how_read() if table else f"Read as {TITLES.get(source.encoding, 'an archive')}, one JSON object."
    if plugin := FORMATS.plugin_of(form.name):
        where["plugin"] = plugin.record()
    return replace(builder.finish(), how_read=how, source=where)
