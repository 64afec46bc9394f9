"""Bytes of a file -> text, and never by a silent guess.

Strict UTF-8 and a byte order mark are certain: other encodings hardly ever pass for either. What remains is a
guess among a short fixed list, shown with the lines that tell the candidates apart, for the user to decide.
No detector is used: on the few telling bytes of a short file a detector is often wrong (one took a Latin-1 file for
cp1250), and its guess would have to be confirmed in the same way. The list holds what Excel, Windows and old
scripts write; anything else has to be saved as UTF-8 first.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.core.errors import InputError, shown

TITLES = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8 with byte order mark",
    "utf-16-le": "UTF-16 (little endian)",
    "utf-16-be": "UTF-16 (big endian)",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
"""The encodings that are read, and their names for people."""

CHOICES = tuple(name for name in TITLES if name != "utf-8-sig")
"""Encodings that a user can ask for; a byte order mark is taken off whatever is asked."""

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARKS_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CODECS = {"iso8859-1": "latin-1"}
_NO_TEXT = bytes(4)
"""Two NUL characters of UTF-16, four of the others."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SAMPLE_LINES = 4
_SAMPLE_WIDTH = 140


@dataclass(frozen=True)
class Candidate:
    """One encoding that could be meant.

    Attributes:
        encoding: a key of `TITLES`.
        lines: line number and text of the first lines that hold other characters than ASCII, decoded by it and
            cut around the first of them; of any lines where it makes everything ASCII.
        same: other encodings that read this file to the same text.
    """

    encoding: str
    lines: list[tuple[int, str]]
    same: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name, and those of the encodings that make no difference here."""
        return " or ".join(TITLES[name] for name in (self.encoding, *self.same))


@dataclass(frozen=True)
class Decoded:
    """A file's text.

    Attributes:
        text: without byte order mark.
        encoding: a key of `TITLES`.
        candidates: empty where the encoding is certain or was asked for; else the guess comes first.
        doubt: why it is a guess, for the user.
    """

    text: str
    encoding: str
    candidates: list[Candidate] = field(default_factory=list)
    doubt: str = ""


def encoding_name(spelled: str) -> str:
    """Our name of an encoding, from any spelling that Python knows (`windows-1252`, `latin1`, `UTF16-LE`).

    Raises:
        InputError: it is not among those that are read.
    """
    try:
        name = codecs.lookup(spelled.strip()).name
    except (LookupError, ValueError):
        name = ""
    name = _CODECS.get(name, name)
    if name not in TITLES:
        hint = " (say utf-16-le or utf-16-be)" if name == "utf-16" else ""
        raise InputError(
            f"The encoding {shown(spelled)} is not read{hint}; allowed: {', '.join(CHOICES)}. "
            "Save a file in another encoding as UTF-8 first."
        )
    return name


def decode(filename: str, content: bytes, encoding: str | None = None) -> Decoded:
    """The text of a file.

    Args:
        filename: for messages.
        content: all its bytes.
        encoding: what the user says it is; None looks for what is certain, and else guesses and says so.

    Raises:
        InputError: a byte cannot be read in an encoding that is certain or asked for; the message has its line
            and offset. Or the bytes are no text.
    """
    if (start := content.find(_NO_TEXT)) >= 0:
        raise InputError(
            f"{filename!r} holds NUL bytes one after the other from offset {start}, which are text in no encoding. "
            "Was it cut short while it was saved? Save the file again as UTF-8."
        )
    mark = next((m for m in _MARKS if content.startswith(m)), b"")
    if content.startswith(_MARKS_UTF32):
        raise InputError(f"{filename!r} is UTF-32, which is not read. Save the file again as UTF-8.")
    if encoding:
        name = _meant(encoding, mark)
        return Decoded(_strict(filename, content, name, len(mark) if name == _MARKS.get(mark) else 0), name)
    if mark:
        return Decoded(_strict(filename, content, _MARKS[mark], len(mark)), _MARKS[mark])
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        doubt = (
            f"It is not UTF-8: byte {content[error.start]:#04x} at offset {error.start} "
            f"(line {_line(content, error.start, 'utf-8')}) cannot be read as UTF-8."
        )
    else:
        if "\x00" not in text:
            return Decoded(text, "utf-8")
        doubt = "Every other byte is NUL, as in UTF-16, and no byte order mark says which kind."
    return _guess(filename, content, doubt)


def _meant(encoding: str, mark: bytes) -> str:
    """The asked encoding as it is used for a file that starts with this byte order mark."""
    marked = _MARKS.get(mark, "")
    if encoding.strip().lower().replace("_", "-") in ("utf-16", "utf16") and marked.startswith("utf-16"):
        return marked
    name = encoding_name(encoding)
    return "utf-8-sig" if name == "utf-8" and marked == "utf-8-sig" else name


def _strict(filename: str, content: bytes, encoding: str, skip: int) -> str:
    try:
        text = content[skip:].decode("utf-8" if encoding == "utf-8-sig" else encoding)
    except UnicodeDecodeError as error:
        offset = error.start + skip
        raise InputError(
            f"{filename!r} is not {TITLES[encoding]}: byte {content[offset]:#04x} at offset {offset} (line "
            f"{_line(content, offset, encoding)}) cannot be read. Choose another encoding, or save the file again "
            "as UTF-8 (in a spreadsheet: CSV UTF-8)."
        ) from None
    if "\x00" in text:
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise InputError(
            f"{filename!r} holds a NUL byte on line {line} when it is read as {TITLES[encoding]}, so it is no text in "
            "that encoding (UTF-16 looks like this). Choose another encoding, or save the file again as UTF-8."
        )
    return text


def _line(content: bytes, offset: int, encoding: str) -> int:
    """1-based line of a byte; the bytes before it can be decoded."""
    if encoding.startswith("utf-16"):
        return content[:offset].decode(encoding, "replace").count("\n") + 1
    return content.count(b"\n", 0, offset) + 1


def _guess(filename: str, content: bytes, doubt: str) -> Decoded:
    texts: dict[str, str] = {}
    same: dict[str, list[str]] = {}
    for encoding in _possible(content):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        # NUL is no text, and a table in the right kind of UTF-16 has a line break or a bracket
        if "\x00" in text or (encoding.startswith("utf-16") and not re.search(r"[\r\n{\[]", text)):
            continue
        twin = next((name for name, other in texts.items() if other == text), "")
        if twin:
            same.setdefault(twin, []).append(encoding)
        else:
            texts[encoding] = text
    if not texts:
        line = content.count(b"\n", 0, max(content.find(b"\x00"), 0)) + 1
        raise InputError(
            f"{filename!r} holds a NUL byte on line {line}, so it is no text in an encoding that is read "
            f"({', '.join(TITLES[c] for c in CHOICES)}). Save the file again as UTF-8."
        )
    candidates = [Candidate(e, list(_sample(t)), tuple(same.get(e, ()))) for e, t in texts.items()]
    first = candidates[0].encoding
    return Decoded(texts[first], first, candidates, doubt)


def _possible(content: bytes) -> tuple[str, ...]:
    """Encodings to try, likeliest first; NUL bytes are half of UTF-16 and no part of the others."""
    if b"\x00" not in content:
        return "cp1252", "latin-1"
    little = content[1::2].count(0) >= content[::2].count(0)
    return ("utf-16-le", "utf-16-be") if little else ("utf-16-be", "utf-16-le")


def _sample(text: str) -> Iterator[tuple[int, str]]:
    """The first lines with something other than ASCII; the first lines of all where there is none."""
    position, line, found = 0, 1, 0
    while found < _SAMPLE_LINES and (match := _NOT_ASCII.search(text, position)):
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line += text.count("\n", position, start)
        yield line, _shown(text[max(start, match.start() - _SAMPLE_WIDTH // 2) : end])
        found += 1
        position = end
    if not found:
        for number, whole in enumerate(text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES], start=1):
            if whole.strip():
                yield number, _shown(whole)


def _shown(line: str) -> str:
    """The line, short, with control characters visible: those are how a wrong encoding shows."""
    text = line.rstrip("\r")
    text = text[:_SAMPLE_WIDTH] + ("…" if len(text) > _SAMPLE_WIDTH else "")
    return "".join(c if c.isprintable() or c == " " else f"\\x{ord(c):02x}" if ord(c) < 256 else c for c in text)
