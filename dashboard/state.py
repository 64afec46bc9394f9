"""Memory of a session and its address: every key in one place, with typed access.

Choices are linked to the URL by hand and not with `bind="query-params"`: a bound selectbox writes its label
into the URL, so renaming a label would break every shared link; here the URL has the value (`?attack=dsi`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from engine.core.schema import NONE
from engine.data.presets import Preset

# Rows the user leaves out, with undo and redo. A value: every change gives a new one.

Rows = tuple[tuple[int, str], ...]
"""(row, reason), in the order of the rows."""

_STEPS = 100
_RANGE = re.compile(r"(\d{1,7})(?:\s*[-–]\s*(\d{1,7}))?")


@dataclass(frozen=True)
class History:
    """Rows left out now, and the states before and after.

    Attributes:
        now: rows (1-based) and why each is left out.
        past: earlier states, the last one first to come back.
        future: states that were undone, the last one first to come back.
    """

    now: Rows = ()
    past: tuple[Rows, ...] = ()
    future: tuple[Rows, ...] = ()

    @property
    def rows(self) -> list[int]:
        """The rows left out now."""
        return [row for row, _ in self.now]

    def leave_out(self, rows: Iterable[int], reason: str) -> History:
        """Leave rows out as well; one that is out already keeps its reason."""
        return self._to({**dict.fromkeys(rows, reason), **dict(self.now)})

    def put_back(self, rows: Iterable[int]) -> History:
        """Take rows in again."""
        back = set(rows)
        return self._to({row: why for row, why in self.now if row not in back})

    def undo(self) -> History:
        """The state before the last change; this one where there is none."""
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (*self.future, self.now))

    def redo(self) -> History:
        """The state that was undone last; this one where there is none."""
        if not self.future:
            return self
        return History(self.future[-1], (*self.past, self.now), self.future[:-1])

    def _to(self, chosen: dict[int, str]) -> History:
        now = tuple(sorted(chosen.items()))
        if now == self.now:
            return self
        return replace(self, now=now, past=(*self.past, self.now)[-_STEPS:], future=())


def parse_rows(text: str, n_rows: int) -> list[int]:
    """Rows as people write them: "3, 7-9".

    Raises:
        ValueError: a part is no row number or range, or there is no such row; the text says which and what is allowed.
    """
    out: set[int] = set()
    for part in filter(None, (p.strip() for p in re.split(r"[,;]", text))):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= n_rows:
            raise ValueError(f"“{part[:40]}” is no row of this file. Write numbers from 1 to {n_rows}, such as 3, 7-9.")
        out.update(range(first, last + 1))
    return sorted(out)


JUDGE = "judge"
DATA = "data"
ATTACK = "attack"
DEFENSE = "defense"
RESPONSE = "response"
TAB = "tab"
JOB = "job"
OWN_TEXT = "own_text"
SET_ATTACKS = "set_attacks"
SET_DEFENSES = "set_defenses"
SET_LIMIT = "set_limit"
ARM = "arm"
PANEL = "panel"
TRUST = "trust"
TRUST_BOX, TRUST_SESSION = "trust_setup", "trust_session"
"""The open box of the page Trust, and the labelling session it takes labels from."""

TAB_ONE = "One response"
TAB_SET = "Whole set"
TAB_SUFFIX = "Learn a phrase"
TAB_SCREEN = "Perplexity threshold"

DEFAULT_JUDGE = "bundled:naive"
CAREFUL_JUDGE = "bundled:judge"
"""The two judges of one base: pages open on the first where it has a recorded run, and lead to the second."""
DEFAULT_DATA = "demo-dialogue"
DEFAULT_ATTACK = "dsi"
DEFAULT_DEFENSE = NONE

_UNKNOWN = "unknown_"
_CHOSEN = "chosen_"
_DEFAULTED = "defaulted_"
_UPLOAD = "upload_held"
_PENDING = "pending"
_UPLOAD_ROUND = "upload_round"
_LEFT_OUT = "left_out_"
_PRESET = "preset_of_"
_DELETED_PRESET = "preset_deleted"
_MESSAGE = "message_once"
_RECORD = "record_open"
_TABLE_ROUND = "table_round"


def seed(key: str, options: Sequence[str], default: str) -> None:
    """Give the widget `key` its value before it is made: the session's, else the URL's, else the default.

    A URL value that is not among the options is kept for `unknown`, so that the page can say so.
    """
    if key in st.session_state:
        if st.session_state[key] not in options:
            st.session_state[key] = _valid(default, options)
        return
    wanted = st.query_params.get(key, "")
    if wanted and wanted not in options:
        st.session_state[_UNKNOWN + key] = wanted
    st.session_state[key] = wanted if wanted in options else _valid(default, options)


def follow_default(key: str, default: str) -> None:
    """Let a choice that nobody made, here or in a link, follow the default of the page that is open."""
    if key in st.query_params:
        st.session_state[_CHOSEN + key] = True
    left_alone = st.session_state.get(key, default) == st.session_state.get(_DEFAULTED + key, default)
    if left_alone and not st.session_state.get(_CHOSEN + key):
        st.session_state[key] = default
        st.session_state[_DEFAULTED + key] = default


def choose(key: str, value: str) -> None:
    """Make a choice for the user, on every page; from a callback, or before the widget is made."""
    st.session_state[key] = value
    st.session_state[_CHOSEN + key] = True
    forget_unknown(key)


def chosen(key: str) -> None:
    """The user made this choice by hand: it stays on every page."""
    st.session_state[_CHOSEN + key] = True
    forget_unknown(key)


def _valid(default: str, options: Sequence[str]) -> str:
    return default if default in options else options[0]


def seed_number(key: str, low: float, high: float, default: float, *, param: str = "") -> None:
    """Give a slider its value before it is made: the session's, else the URL's, else the default, kept in its range.

    Args:
        key: of the widget.
        low: least value.
        high: largest value.
        default: of the type the slider has.
        param: the URL's name for it, where that is not the key.
    """
    kind = type(default)
    try:
        wanted = kind(st.session_state.get(key, st.query_params.get(param or key, default)))
    except (TypeError, ValueError, OverflowError):
        wanted = default
    st.session_state[key] = kind(min(max(default if wanted != wanted else wanted, low), high))


def publish(key: str, value: str, default: str = "") -> None:
    """Write a value into the URL; the default is left out, so that the plain address stays plain."""
    if value == default or not value:
        if key in st.query_params:
            del st.query_params[key]
    elif st.query_params.get(key) != value:
        st.query_params[key] = value


def unknown(key: str) -> str:
    """The value a link asked for and this machine does not have; empty if there is none."""
    return str(st.session_state.get(_UNKNOWN + key, ""))


def forget_unknown(key: str) -> None:
    """Drop the note about a link's unknown value, once the user has chosen."""
    st.session_state.pop(_UNKNOWN + key, None)


def text(key: str, default: str = "") -> str:
    """A remembered string."""
    return str(st.session_state.get(key, default) or default)


def put(key: str, value: object) -> None:
    """Set a remembered value; for a widget's key, only from a callback or before the widget is made."""
    st.session_state[key] = value


def job_id() -> str:
    """The job this session watches: the session's, else the URL's; empty if there is none."""
    if JOB not in st.session_state:
        st.session_state[JOB] = st.query_params.get(JOB, "")
    return text(JOB)


def watch_job(job: str) -> None:
    """Watch a job from now on, also after a reload."""
    st.session_state[JOB] = job
    publish(JOB, job)


def after_rerun(values: dict[str, object]) -> None:
    """Set widgets' values in the next run, before they are made; in this one they exist already."""
    st.session_state[_PENDING] = {**st.session_state.get(_PENDING, {}), **values}


def apply_pending() -> None:
    """Called first in every full run."""
    for key, value in st.session_state.pop(_PENDING, {}).items():
        st.session_state[key] = value
        st.session_state[_CHOSEN + key] = True


def use_judge(spec: str) -> None:
    """Make a judge the current one and draw the page anew; not for callbacks."""
    after_rerun({JUDGE: spec})
    st.rerun()


def choose_data(dataset_id: str) -> None:
    """Make a dataset the current one from the next run on."""
    after_rerun({DATA: dataset_id})
    st.session_state.pop(RESPONSE, None)


def held_upload() -> tuple[str, bytes] | None:
    """The last uploaded file of this session; it outlives a page switch, which empties the uploader."""
    held = st.session_state.get(_UPLOAD)
    return held if isinstance(held, tuple) else None


def hold_upload(name: str, content: bytes) -> None:
    """Keep an uploaded file until another replaces it."""
    st.session_state[_UPLOAD] = (name, content)


def drop_upload() -> None:
    """Forget the uploaded file, and give the page a fresh, empty uploader."""
    st.session_state.pop(_UPLOAD, None)
    st.session_state[_UPLOAD_ROUND] = upload_round() + 1


def upload_round() -> int:
    """Counts the uploads that are over; part of the uploader's key, which code cannot empty otherwise."""
    return int(st.session_state.get(_UPLOAD_ROUND, 0))


def left_out(reading_id: str) -> History:
    """The rows of an uploaded file that the user leaves out."""
    held = st.session_state.get(_LEFT_OUT + reading_id)
    return held if isinstance(held, History) else History()


def set_left_out(reading_id: str, history: History) -> None:
    """Remember which rows are left out."""
    st.session_state[_LEFT_OUT + reading_id] = history


def wanted_preset(file_digest: str) -> str | None:
    """The preset chosen for an uploaded file; empty for none, None while the user has not chosen."""
    chosen = st.session_state.get(_PRESET + file_digest)
    return None if chosen is None else str(chosen)


def want_preset(file_digest: str, name: str | None) -> None:
    """Choose a preset for an uploaded file."""
    st.session_state[_PRESET + file_digest] = name


def deleted_preset() -> tuple[Preset, int] | None:
    """The preset deleted last in this session and its position, until something else is done with presets."""
    held = st.session_state.get(_DELETED_PRESET)
    return held if isinstance(held, tuple) else None


def remember_deleted_preset(deleted: tuple[Preset, int] | None) -> None:
    """Keep a deleted preset for undo; None forgets it."""
    st.session_state[_DELETED_PRESET] = deleted


def say_after_rerun(message: str) -> None:
    """A short message to show once, after the page has been drawn anew."""
    st.session_state[_MESSAGE] = message


def take_message() -> str:
    """The message of `say_after_rerun`, once."""
    return str(st.session_state.pop(_MESSAGE, ""))


def open_record(response_id: str) -> None:
    """Ask for the drawer of one record in this run."""
    st.session_state[_RECORD] = response_id


def take_record() -> str:
    """The record whose drawer is to be opened, once."""
    return str(st.session_state.pop(_RECORD, ""))


def table_round() -> int:
    """Counts closed drawers; part of the table's key, so that closing one clears the selected row."""
    return int(st.session_state.get(_TABLE_ROUND, 0))


def close_record() -> None:
    """The drawer was closed."""
    st.session_state[_TABLE_ROUND] = table_round() + 1
