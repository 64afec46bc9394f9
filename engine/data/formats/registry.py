"""The known formats, by name; which one a file has; and reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.core.errors import InputError, listed, shown
from engine.data.encodings import TITLES
from engine.data.formats.alpaca import ALPACA
from engine.data.formats.arena import ARENA
from engine.data.formats.base import Builder, Format, Imported, Source
from engine.data.formats.benches import BENCHES, REWARDBENCH, VERIFYBENCH
from engine.data.formats.comparator import COMPARATOR
from engine.data.formats.fastchat import FASTCHAT
from engine.data.formats.inspect_logs import INSPECT
from engine.data.formats.lm_eval import LM_EVAL
from engine.data.formats.opening import File, open_source
from engine.data.formats.promptfoo import PROMPTFOO
from engine.data.formats.summeval import SUMMEVAL

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *ARENA, *FASTCHAT, *ALPACA, COMPARATOR, PROMPTFOO, LM_EVAL, INSPECT, VERIFYBENCH, *REWARDBENCH, *BENCHES,
        *SUMMEVAL,
    )
}  # fmt: skip
"""Every known format."""

TABLE = "table"
"""The name that takes a file as a plain table, whatever it looks like."""

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
    where = {
        "format": table.format if table else source.shape,
        "encoding": source.encoding,
        "delimiter": table.delimiter if table else "",
        "part": table.part if table else "",
    }
    how = table.how_read() if table else f"Read as {TITLES.get(source.encoding, 'an archive')}, one JSON object."
    return replace(builder.finish(), how_read=how, source=where)
