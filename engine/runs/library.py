"""The runs a user has: a list that filters, titles and tags, a trash folder; and the recorded ones, to look at only."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core import plugins
from engine.core.errors import RunError, shown
from engine.core.files import make_folder, writing
from engine.runs.folder import PLUGINS, RETRY, RunFolder, begun, list_runs, open_run, state_of

RECORDED = "recorded:"
"""Prefix of the id of a run that ships with the project."""
STATES = ("running", "done", "stopped", "failed", "interrupted", "unreadable")
TRASH_DAYS = 30
"""Time for which a deleted run can be brought back [days]."""
MAX_TITLE, MAX_TAG, MAX_TAGS = 120, 40, 20
_TRASH = ".trash"
_TRASHED = re.compile(r"(.+)~(\d{14})-[0-9a-f]{6}")
_WHEN = "%Y%m%d%H%M%S"


@dataclass(frozen=True)
class RunRow:
    """One run as a list shows it.

    Attributes:
        run_id: its folder, or `recorded:` and its place among the recorded ones.
        study: which question it answers.
        title: what the user calls it; empty where nobody has named it.
        tags: words of the user's, sorted.
        judge: the judge's spec.
        data: what the data are called.
        data_id: id of the data set.
        state: one of `STATES`.
        begun: when it was begun or last taken up (ISO 8601, UTC).
        finished: when it ended; empty while it runs.
        recorded: true where it ships with the project.
        error: why it is unreadable.
    """

    run_id: str
    study: str
    title: str
    tags: tuple[str, ...]
    judge: str
    data: str
    data_id: str
    state: str
    begun: str
    finished: str
    recorded: bool = False
    error: str = ""

    @property
    def name(self) -> str:
        """The title, or the id where there is none."""
        return self.title or self.run_id


def all_runs(root: Path, demo: Path | None = None) -> list[RunRow]:
    """Every run under `root`, newest first, then the recorded ones under `demo`."""
    own = [_row(m, str(m.get("run_id", "")), _notes_of(root / str(m.get("run_id", "")))) for m in list_runs(root)]
    return own + (recorded_runs(demo) if demo else [])


def recorded_runs(demo: Path) -> list[RunRow]:
    """The runs that ship with the project, by name."""
    found = []
    for file in sorted(demo.rglob("manifest.json")):
        try:
            manifest = RunFolder(file.parent).manifest()
        except RunError:
            continue  # a damaged one is no user's to mend
        if "study" in manifest:
            found.append(_row(manifest, RECORDED + file.parent.relative_to(demo).as_posix(), {}, recorded=True))
    return found


def select(
    rows: Iterable[RunRow],
    *,
    study: str = "",
    judge: str = "",
    data: str = "",
    tag: str = "",
    state: str = "",
    text: str = "",
) -> list[RunRow]:
    """The rows that fit every filter that is not empty, in their order.

    Args:
        rows: from `all_runs`.
        study: exactly this study.
        judge: exactly this spec.
        data: exactly this name or id.
        tag: one of its tags.
        state: exactly this state.
        text: stands in its id, title, judge, data or a tag, in any case.

    Raises:
        RunError: no such state.
    """
    if state and state not in STATES:
        raise RunError(f"{state!r} is no state of a run; allowed: {', '.join(STATES)}.")
    wanted = text.casefold().strip()
    return [
        r
        for r in rows
        if (not study or r.study == study)
        and (not judge or r.judge == judge)
        and (not data or data in (r.data, r.data_id))
        and (not tag or tag in r.tags)
        and (not state or r.state == state)
        and (not wanted or any(wanted in part.casefold() for part in (r.run_id, r.title, r.judge, r.data, *r.tags)))
    ]


def is_recorded(run_id: str) -> bool:
    """True where the id is of a run that ships with the project."""
    return run_id.startswith(RECORDED)


def find_run(root: Path, demo: Path, run_id: str) -> RunFolder:
    """A run of the user's or a recorded one, by its id in `all_runs`.

    Raises:
        RunError: there is none of that id.
    """
    if not is_recorded(run_id):
        return open_run(root, run_id)
    parts = run_id.removeprefix(RECORDED).split("/")
    return open_run(demo.joinpath(*(_plain(part) for part in parts[:-1])), parts[-1])


def rename(root: Path, run_id: str, title: str) -> None:
    """Give a run a title; its id stays. An empty title takes it away.

    Raises:
        RunError: there is no such run, it is recorded, or the title is too long.
    """
    run = _own(root, run_id)
    words = _clean(title)
    if len(words) > MAX_TITLE:
        raise RunError(f"A title has at most {MAX_TITLE} characters, this one {len(words)}. Shorten it.")
    run.write_notes({**run.notes(), "title": words})


def set_tags(root: Path, run_id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
    """Add and take away tags; returns what the run has now, sorted.

    Raises:
        RunError: there is no such run, it is recorded, or a tag is empty, too long or one too many.
    """
    run = _own(root, run_id)
    notes = run.notes()
    tags = set(_tags(notes)) - {_clean(t) for t in remove}
    for tag in map(_clean, add):
        if not tag or len(tag) > MAX_TAG or "," in tag:
            raise RunError(f"{shown(tag)} is no tag: 1 to {MAX_TAG} characters without a comma.")
        tags.add(tag)
    if len(tags) > MAX_TAGS:
        raise RunError(f"A run has at most {MAX_TAGS} tags; this would make {len(tags)}.")
    run.write_notes({**notes, "tags": sorted(tags)})
    return tuple(sorted(tags))


@dataclass(frozen=True)
class Trashed:
    """A deleted run that can be brought back.

    Attributes:
        entry: its folder in the trash.
        run_id: what it was called.
        title: its title.
        deleted: when (ISO 8601, UTC).
        gone: when it is removed for good (ISO 8601, UTC).
    """

    entry: str
    run_id: str
    title: str
    deleted: str
    gone: str


def delete(root: Path, run_id: str) -> Trashed:
    """Move a run into the trash, from where `restore` brings it back for `TRASH_DAYS` days.

    Raises:
        RunError: there is no such run, it is recorded, or it is running.
    """
    run = _own(root, run_id, readable=False)
    try:
        running = state_of(run.manifest()) == "running"
    except RunError:
        running = False  # nothing can be read, but it can be thrown away
    if running:
        raise RunError(f"The run {run_id} is going. Stop it first; what is done stays.")
    empty_trash(root, days=TRASH_DAYS)
    bin_ = root / _TRASH
    make_folder(bin_)
    entry = f"{run_id}~{datetime.now(UTC):{_WHEN}}-{secrets.token_hex(3)}"
    with writing(bin_ / entry):
        run.path.rename(bin_ / entry)
    return next(t for t in trash(root) if t.entry == entry)


def trash(root: Path) -> list[Trashed]:
    """Runs in the trash, deleted last first."""
    found = []
    for folder in (root / _TRASH).iterdir() if (root / _TRASH).is_dir() else ():
        match = _TRASHED.fullmatch(folder.name)
        if not match:
            continue
        when = datetime.strptime(match[2], _WHEN).replace(tzinfo=UTC)
        title = str(_notes_of(folder).get("title") or "")
        gone = when + timedelta(days=TRASH_DAYS)
        found.append(Trashed(folder.name, match[1], title, when.isoformat(), gone.isoformat()))
    return sorted(found, key=lambda t: t.deleted, reverse=True)


def restore(root: Path, name: str) -> str:
    """Bring a deleted run back; returns its id, a new one where its own is taken by now.

    Args:
        root: where runs live.
        name: its id, which takes the one deleted last, or its entry in the trash.

    Raises:
        RunError: the trash has none of that name.
    """
    found = next((t for t in trash(root) if name in (t.entry, t.run_id)), None)
    if found is None:
        raise RunError(f"The trash has no run {name!r}. It keeps what was deleted for {TRASH_DAYS} days.")
    run_id = free_id(root, found.run_id)
    with writing(root / run_id):
        (root / _TRASH / found.entry).rename(root / run_id)
    if run_id != found.run_id:
        back = RunFolder(root / run_id)
        with contextlib.suppress(RunError):  # it was unreadable when it was deleted, too
            back.update_manifest(run_id=run_id)
    return run_id


def empty_trash(root: Path, *, days: float = 0.0) -> int:
    """Remove for good what was deleted at least `days` days ago; returns how many runs that were."""
    limit = datetime.now(UTC) - timedelta(days=days)
    old = [t for t in trash(root) if datetime.fromisoformat(t.deleted) <= limit]
    for one in old:
        shutil.rmtree(root / _TRASH / one.entry, ignore_errors=True)
    return len(old)


def free_id(root: Path, run_id: str) -> str:
    """The id, or with -2, -3 and so on behind it where it is taken."""
    taken, k = run_id, 1
    while (root / taken).exists():
        k += 1
        taken = numbered(run_id, k)
    return taken


def numbered(run_id: str, k: int) -> str:
    """The id of the k-th run of that name, at most 80 characters."""
    return f"{run_id[: 80 - len(f'-{k}')]}-{k}"


def _own(root: Path, run_id: str, *, readable: bool = True) -> RunFolder:
    """A run that may be changed.

    Raises:
        RunError: it is recorded, or there is none.
    """
    if is_recorded(run_id):
        raise RunError(f"{run_id} ships with the project and cannot be changed. Export it and import the copy.")
    if not readable and (root / _plain(run_id)).is_dir():
        return RunFolder(root / run_id)
    return open_run(root, run_id)


def _plain(part: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", part):
        raise RunError(f"{part!r} is no run id: letters, digits, dot, dash and underscore, at most 80.")
    return part


def _clean(text: str) -> str:
    """One line without control characters."""
    return " ".join("".join(" " if unicodedata.category(c)[0] == "C" else c for c in text).split())


def _row(manifest: dict[str, Any], run_id: str, notes: dict[str, Any], *, recorded: bool = False) -> RunRow:
    config, data, judge = (_dict(manifest.get(k)) for k in ("config", "data", "judge"))
    return RunRow(
        run_id=run_id,
        study=str(manifest.get("study") or ""),
        title=str(notes.get("title") or ""),
        tags=_tags(notes),
        judge=str(judge.get("spec") or config.get("judge") or ""),
        data=str(data.get("name") or config.get("data") or ""),
        data_id=str(data.get("dataset_id") or config.get("data") or ""),
        state=state_of(manifest),
        begun=begun(manifest),
        finished=str(manifest.get("finished") or ""),
        recorded=recorded,
        error=str(manifest.get("error") or ""),
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tags(notes: dict[str, Any]) -> tuple[str, ...]:
    tags = notes.get("tags")
    return tuple(sorted(str(t) for t in tags)) if isinstance(tags, list) else ()


def _notes_of(folder: Path) -> dict[str, Any]:
    """The notes, read again only when they have changed; not to be edited."""
    try:
        stat = (folder / "notes.json").stat()
    except OSError:
        return {}
    return _notes_at(str(folder), stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=8192)
def _notes_at(folder: str, changed: int, size: int, inode: int) -> dict[str, Any]:
    del changed, size, inode  # part of the cache key only
    return RunFolder(Path(folder)).notes()


# What a run says of itself: facts for a reader, and its problems with what to do about each.

CAN_GO_ON = frozenset({"stopped", "failed", "interrupted"})
"""States from which a run is resumed."""
_MOST_REASONS = 5
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class Unread:
    """The calls of a run without a usable answer.

    Attributes:
        total: how many.
        calls: of how many.
        reasons: reason -> how many, most first; reasons that differ in numbers alone stand under the commonest one.
        by_arm: "attack, defense" -> unread and all calls of that arm.
    """

    total: int
    calls: int
    reasons: dict[str, int]
    by_arm: dict[str, tuple[int, int]]


UNREAD_COLUMNS = ("verdict_id", "protocol", "attack", "defense", "unread_reason")
"""What `unread_of` and `outage` look at."""


def unread_of(verdicts: pd.DataFrame) -> Unread:
    """Count a table's unread calls by reason and by arm."""
    once = verdicts.drop_duplicates("verdict_id")
    bad = once["unread_reason"].notna()
    kinds: dict[str, Counter[str]] = {}
    for reason in once.loc[bad, "unread_reason"].astype(str):
        kinds.setdefault(_NUMBER.sub("#", reason), Counter())[reason] += 1
    reasons = Counter({own.most_common(1)[0][0]: own.total() for own in kinds.values()})
    arms = once["attack"].astype(str) + ", " + once["defense"].astype(str)
    by_arm = {str(arm): (int(own.sum()), len(own)) for arm, own in bad.groupby(arms, sort=False)}
    return Unread(int(bad.sum()), len(once), dict(reasons.most_common()), by_arm)


LEAST_READ = 0.5
"""Share of the calls of each protocol that must be read; below it a run says nothing, whatever its numbers are."""


def outage(run: RunFolder) -> str:
    """Why a run's verdicts are too few for any conclusion; empty where enough were read, or it holds no verdicts.

    Raises:
        RunError: the table is unreadable.
    """
    verdicts = run.table("verdicts", UNREAD_COLUMNS)
    for protocol, asked in verdicts.groupby("protocol", sort=False):
        unread = unread_of(asked)
        if unread.calls - unread.total < LEAST_READ * unread.calls:
            reason = next(iter(unread.reasons))
            return (
                f"Inconclusive: {unread.calls - unread.total:,} of {unread.calls:,} {protocol} calls were read, fewer "
                f"than {LEAST_READ:.0%}. Most often: {reason}. Mend the cause and ask again."
            )
    return ""


TEXT_READ = "The server gave no token probabilities, so verdicts are read from its text: scores are whole grades."


READ_COLUMNS = ("protocol", "unread_reason", "raw_text")
"""What `answers_read` looks at."""


def answers_read(manifest: Mapping[str, Any], verdicts: pd.DataFrame) -> str:
    """Reading of a server's answers to prompts for label probabilities: `probabilities`, `text`, `both`, or empty.

    Args:
        manifest: of the run.
        verdicts: its table; a verdict read from text holds that text, one read from probabilities does not.
    """
    judge = _mapping(manifest.get("judge"))
    prompts = [p for p in judge.get("prompts") or [] if isinstance(p, dict)]
    protocols = {p.get("protocol") for p in prompts if p.get("mode") == "label probabilities"}
    protocols -= {p.get("protocol") for p in prompts if p.get("mode") != "label probabilities"}
    if not judge.get("api") or not protocols:
        return ""
    rows = verdicts[verdicts["unread_reason"].isna() & verdicts["protocol"].isin(protocols)]
    from_text = rows["raw_text"].notna()
    return "both" if from_text.any() and not from_text.all() else "text" if from_text.any() else "probabilities"


def text_read(manifest: Mapping[str, Any]) -> bool:
    """True where a server's text was read where the prompt is for label probabilities."""
    return _mapping(_mapping(manifest.get("judge")).get("api")).get("read_as") in {"text", "both"}


def facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The manifest's main facts, each a short text; what it does not say is left out."""
    data, judge, versions = (_mapping(manifest.get(k)) for k in ("data", "judge", "versions"))
    config = _mapping(manifest.get("config"))
    counts = [f"{data[f'n_{k}']} {k}" for k in ("items", "responses", "pairs") if data.get(f"n_{k}") is not None]
    prompts = [p for p in judge.get("prompts") or [] if isinstance(p, dict)]
    resumed = manifest.get("resumed") or []
    answered = _mapping(_mapping(judge.get("api")).get("answered"))
    found = {
        "Study": manifest.get("study"),
        "State": state_of(dict(manifest)),
        "Begun": _moment(manifest.get("created")),
        "Resumed": ", ".join(_moment(t) for t in resumed[-3:]) if isinstance(resumed, list) else "",
        "Ended": _moment(manifest.get("finished")),
        "Judge": judge.get("spec") or config.get("judge"),
        "Fingerprint": judge.get("fingerprint"),
        "Revision": judge.get("revision"),
        "Device": " ".join(str(judge[k]) for k in ("device", "precision") if judge.get(k)),
        "Answers": "read from text, no token probabilities" if text_read(manifest) else "",
        "Answers by address": ", ".join(f"{host} {n}" for host, n in answered.items()) if len(answered) > 1 else "",
        "Prompts": ", ".join(f"{p.get('name')} ({p.get('digest')})" for p in prompts),
        "Data": data.get("name") or config.get("data"),
        "Data digest": data.get("digest") or data.get("dataset_id"),
        "Counts": ", ".join(counts),
        "Seed": config.get("seed"),
        "Level": config.get("level"),
        "Plugins": ", ".join(map(str, plugins.read_records(manifest.get(PLUGINS)))),
        "Versions": ", ".join(f"{k} {v}" for k, v in versions.items()),
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def problems(run: RunFolder) -> list[tuple[str, str]]:
    """Cautions before trusting the run's numbers: the fault, and the remedy.

    Raises:
        RunError: the manifest is unreadable.
    """
    manifest = run.manifest()
    state = state_of(manifest)
    found: list[tuple[str, str]] = []
    if error := manifest.get("error"):
        found.append((f"It ended early: {error}", "Mend the cause, then resume it; what is done is kept."))
    elif state in CAN_GO_ON:
        found.append((f"It is {state}: its numbers hold what was done.", "Resume it; what is done is kept."))
    if lacks := plugins.absent(manifest.get(PLUGINS)):
        found.append((lacks, "Install it to run or draw this again; what the run has stored is shown without it."))
    if manifest.get(RETRY):
        found.append(("A retry of its unread calls did not come to its end.", "Retry again; what is read is kept."))
    try:
        unread = unread_of(run.table("verdicts", UNREAD_COLUMNS))
    except RunError as error:
        return [*found, (str(error), "Import the run again from a zip, or run the study anew.")]
    if text_read(manifest):
        found.append(
            (TEXT_READ, "Ask for several answers (samples=5) or a server with probabilities for finer scores.")
        )
    if unread.total:
        most = "; ".join(f"{n:,}: {reason}" for reason, n in list(unread.reasons.items())[:_MOST_REASONS])
        found.append(
            (
                f"{unread.total:,} of {unread.calls:,} calls are unread. {most}",
                "They enter no mean. Retry asks them again, alone; what lies in the prompt or the window stays unread.",
            )
        )
    shares = {arm: bad / n for arm, (bad, n) in unread.by_arm.items() if n}
    if shares and max(shares.values()) - min(shares.values()) > 0.1:
        worst = max(shares, key=lambda arm: shares[arm])
        found.append(
            (
                f"Arms differ in what is unread: from {min(shares.values()):.0%} to {shares[worst]:.0%} ({worst}).",
                "Compare only responses read in both arms; where the reading depends on the attack, say so.",
            )
        )
    return found


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _moment(value: object) -> str:
    """2026-11-28T03:59:41+00:00 as a reader takes it: 2026-11-28 03:59 UTC."""
    text = str(value or "")
    return f"{text[:10]} {text[11:16]} UTC" if len(text) >= 16 and text[10] == "T" else text
