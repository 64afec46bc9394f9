"""What people answer under a labelling plan: kept on disk, undone, compared, settled, exported and imported.

Answers are lines of JSON that are only ever added (one writer at a time, each line on the disk before the next): undo
is a line, too. A line that a crash tore is skipped when reading and counted.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import make_folder, writing
from engine.core.json import dumps
from engine.data.label_plan import PLANNED, Kind, Plan, Scale, now

# Plans and answers on disk.

_ID = re.compile(r"[0-9a-f]{16}")
_PLAN, _ROWS, _ANSWERS = "plan.json", "rows.parquet", "answers.jsonl"
MOST_ANNOTATORS = 2
"""People who label the same rows, each blind to the other."""
_MOST_NAME, _MOST_REASON, _MOST_TOLD = 60, 200, 20


def save_plan(plan: Plan, root: Path) -> Session:
    """Write a plan under `root/<plan_id>`, whole or not at all; one that is there already is opened with its answers.

    Raises:
        WriteError: it cannot be written.
    """
    target = root / plan.plan_id
    if not (target / _PLAN).is_file():
        make_folder(root)
        with writing(target):
            made = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
            try:
                plan.rows.to_parquet(made / _ROWS, index=False)
                about = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name != "rows"}
                about["scale"] = asdict(plan.scale)
                (made / _PLAN).write_text(dumps(about, indent=1), encoding="utf-8")
                (made / _ANSWERS).touch()
                made.rename(target)
            except OSError:
                if not (target / _PLAN).is_file():  # else another process made the same plan meanwhile
                    raise
            finally:
                shutil.rmtree(made, ignore_errors=True)
    return open_session(plan.plan_id, root)


def open_session(plan_id: str, root: Path) -> Session:
    """A plan with its answers.

    Raises:
        InputError: there is none of that id, or its files are damaged.
    """
    folder = root / plan_id
    if not (_ID.fullmatch(plan_id) and (folder / _PLAN).is_file()):
        known = listed(about["plan_id"] for about in list_plans(root)) or "none yet"
        raise InputError(
            f"There is no labelling session {shown(plan_id)}. There are: {known}. Make one on the page Label."
        )
    try:
        about = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
        scale = about.pop("scale")
        rows = PLANNED.conform(pd.read_parquet(folder / _ROWS))
        about |= {name: tuple(about[name]) for name in ("by", "runs")}
        plan = Plan(**about, scale=Scale(Kind(scale["kind"]), scale["low"], scale["high"]), rows=rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"The labelling session {plan_id} is damaged ({error}). Its answers lie in {_ANSWERS}."
        ) from None
    return Session(plan, folder)


def list_plans(root: Path, data: str = "") -> list[dict[str, Any]]:
    """What every plan's file says, newest first: the fields of `Plan` but its rows.

    Args:
        root: `settings.labels`.
        data: only those of these data.
    """
    found = []
    for path in root.glob(f"*/{_PLAN}") if root.is_dir() else ():
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # a damaged folder must not hide the others; opening it by name says what is wrong
        if _ID.fullmatch(path.parent.name) and isinstance(about, dict) and data in ("", about.get("data")):
            found.append(about)
    return sorted(found, key=lambda about: str(about.get("created")), reverse=True)


@dataclass(frozen=True)
class Answer:
    """What one person said of one row: a label, or why there is none."""

    row: str
    annotator: str
    label: str = ""
    skipped: str = ""


@dataclass
class Answers:
    """Everything said so far, undone answers left out.

    Attributes:
        given: annotator -> row -> answer, in the order in which they were given.
        settled: row -> the label on which people settled, and who did.
        unreadable: lines that could not be read: torn by a crash.
    """

    given: dict[str, dict[str, Answer]] = field(default_factory=dict)
    settled: dict[str, Answer] = field(default_factory=dict)
    unreadable: int = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one line; one that is not whole counts as unreadable."""
        try:
            who, row = str(event["annotator"]), str(event["row"])
            if "settled" in event:
                self.settled[row] = Answer(row, who, str(event["settled"]))
            elif event.get("undo"):
                self.given.get(who, {}).pop(row, None)
                if not self.given.get(who, True):
                    del self.given[who]
            else:
                label, skipped = str(event.get("label", "")), str(event.get("skipped", ""))
                self.given.setdefault(who, {})[row] = Answer(row, who, label, skipped)
        except (KeyError, TypeError, AttributeError):
            self.unreadable += 1

    def of(self, annotator: str) -> dict[str, Answer]:
        """One person's answers by row."""
        return self.given.get(annotator, {})

    @property
    def annotators(self) -> list[str]:
        """Everybody who has begun."""
        return list(self.given)


Event = dict[str, Any]


@dataclass(frozen=True)
class Session:
    """A plan and the file of its answers.

    Attributes:
        plan: what is labelled.
        folder: where plan and answers lie.
    """

    plan: Plan
    folder: Path

    def answers(self) -> Answers:
        """What the file holds now."""
        try:
            content = (self.folder / _ANSWERS).read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise InputError(f"The answers of {self.plan.plan_id} cannot be read: {error.strerror}.") from None
        return _read(content)

    def name_of(self, annotator: str, held: Answers) -> str:
        """The annotator's name, as it is written in this session already where only its case differs.

        Raises:
            InputError: it is empty or too long, or two others label here already.
        """
        name = " ".join(annotator.split())
        if not 0 < len(name) <= _MOST_NAME:
            raise InputError(f"{shown(annotator)} is no name of an annotator: 1 to {_MOST_NAME} characters. Write one.")
        for known in held.annotators:
            if known.casefold() == name.casefold():
                return known
        if len(held.annotators) >= MOST_ANNOTATORS:
            raise InputError(
                f"{' and '.join(held.annotators)} label in this session already, and {name!r} would be a third. Use "
                "one of the two names, or make a session of its own with another seed."
            )
        return name

    def next_row(self, annotator: str, held: Answers | None = None) -> str | None:
        """The first row in the plan's order that this person has not answered; None when all are."""
        own = (held or self.answers()).of(annotator)
        return next((row for row in self.plan.order if row not in own), None)

    def compared(self, held: Answers | None = None) -> bool:
        """True once two people have answered every row: then their answers stand, and may be shown to each other."""
        held = held or self.answers()
        done = [who for who in held.annotators if self.next_row(who, held) is None]
        return len(done) == MOST_ANNOTATORS

    def answer(self, annotator: str, row: str, label: str) -> None:
        """Label a row.

        Raises:
            InputError: no such row or label, or this person has answered the row already.
        """
        if label not in self.plan.scale.labels:
            raise InputError(f"{shown(label)} is no label here; allowed: {', '.join(self.plan.scale.labels)}.")
        self._give(annotator, row, {"label": label})

    def skip(self, annotator: str, row: str, reason: str) -> None:
        """Pass over a row, with the reason.

        Raises:
            InputError: as `answer`, or no reason is given.
        """
        why = " ".join(reason.split())[:_MOST_REASON]
        if not why:
            raise InputError("A row is skipped with a reason. Say why it cannot be labelled, in a few words.")
        self._give(annotator, row, {"skipped": why})

    def _give(self, annotator: str, row: str, said: Event) -> None:
        if row not in set(self.plan.order):
            raise InputError(f"{shown(row)} is no row of this plan, which has {self.plan.n:,}. Label one of its rows.")

        def check(held: Answers) -> list[Event]:
            who = self.name_of(annotator, held)
            if row in held.of(who):
                raise InputError(f"{who} has answered {shown(row)} already, perhaps in another window. Undo it first.")
            return [{"annotator": who, "row": row, **said}]

        self._append(check)

    def undo(self, annotator: str) -> str | None:
        """Take back this person's last answer that still stands; returns its row, None where there is none.

        Raises:
            InputError: both people have finished, so that their answers are compared.
        """
        taken: list[str] = []

        def check(held: Answers) -> list[Event]:
            who = self.name_of(annotator, held)
            if not held.of(who):
                return []
            if self.compared(held):
                raise InputError("Both have answered every row, so the answers stand as given. Settle the row instead.")
            taken.append(list(held.of(who))[-1])
            return [{"annotator": who, "row": taken[0], "undo": True}]

        self._append(check)
        return taken[0] if taken else None

    def disagreements(self, held: Answers | None = None) -> list[str]:
        """Rows that two people labelled differently, in the plan's order, settled or not."""
        held = held or self.answers()
        labels = [{row: a.label for row, a in held.of(who).items() if a.label} for who in held.annotators]
        if len(labels) < MOST_ANNOTATORS:
            return []
        one, two = labels
        return [row for row in self.plan.order if row in one and row in two and one[row] != two[row]]

    def settle(self, annotator: str, row: str, label: str) -> None:
        """Write down the label that people agreed on; their own answers stay.

        Raises:
            InputError: no such label, or the row is no disagreement of two people who have finished.
        """
        if label not in self.plan.scale.labels:
            raise InputError(f"{shown(label)} is no label here; allowed: {', '.join(self.plan.scale.labels)}.")

        def check(held: Answers) -> list[Event]:
            if not self.compared(held) or row not in self.disagreements(held):
                raise InputError(
                    f"Nothing is to be settled on {shown(row)}: two people who finished must differ on it."
                )
            return [{"annotator": self.name_of(annotator, held), "row": row, "settled": label}]

        self._append(check)

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        """The file of answers, this writer's alone; another one waits for the moment that a line takes."""
        path = self.folder / _ANSWERS
        with writing(path), path.open("a+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield stream

    def _append(self, check: Callable[[Answers], list[Event]]) -> None:
        """Add the lines that `check` makes of what the file holds at that moment; it may refuse."""
        with self._locked() as stream:
            stream.seek(0)
            content = stream.read()
            events = check(_read(content))
            if not events:
                return
            lines = "".join(dumps({"at": now(), **event}) + "\n" for event in events).encode("utf-8", "surrogatepass")
            # a line that a crash tore is closed, so that it spoils no other
            stream.write(lines if not content or content.endswith(b"\n") else b"\n" + lines)
            stream.flush()
            os.fsync(stream.fileno())


def _read(content: bytes) -> Answers:
    held = Answers()
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            held.unreadable += 1
            continue
        held.add(event if isinstance(event, dict) else {})
    return held


# Out and in.

SEVERAL = "not settled"
"""Reason of a row without a label on which two people differ."""


def final_answers(session: Session, held: Answers | None = None) -> dict[str, Answer]:
    """One answer a row: that of the one person who labelled it, what both say, or what was settled."""
    held = held or session.answers()
    differ = set(session.disagreements(held))
    found: dict[str, Answer] = {}
    for row in session.plan.order:
        own = [held.of(who)[row] for who in held.annotators if row in held.of(who)]
        labels = [one for one in own if one.label] or own
        if not labels:
            continue
        who = " and ".join(one.annotator for one in labels)
        if row in differ:
            found[row] = held.settled.get(row, Answer(row, who, skipped=SEVERAL))
        else:
            found[row] = Answer(row, who, labels[0].label, labels[0].skipped)
    return found


COLUMNS = (
    "id", "item", "system", "system_b", "group", "verdict", "probability", "label", "annotator", "skipped_reason",
    "inclusion",
)  # fmt: skip
_OPTIONAL = ("system_b", "group", "probability")


def export_table(session: Session, annotator: str = "") -> pd.DataFrame:
    """Every row of the data with its verdict, its label where it has one, and the probability that it was chosen.

    Args:
        session: whose answers.
        annotator: whose; by default the final ones of `final_answers`.

    Returns:
        Columns `COLUMNS`, of which `system_b`, `group` and `probability` are left out where they hold nothing. The
        probability is that of pass, or of a; a rating has none.
        `inclusion` is that of `Plan.inclusion` for the rows that have a label.
    """
    plan, held = session.plan, session.answers()
    answers = held.of(annotator) if annotator else final_answers(session, held)
    table = plan.rows.copy()
    for column, part in (("label", "label"), ("annotator", "annotator"), ("skipped_reason", "skipped")):
        table[column] = [getattr(answers[row], part) or None if row in answers else None for row in table["id"]]
    table["inclusion"] = plan.inclusion([row for row, one in answers.items() if one.label])
    left_out = {name for name in _OPTIONAL if table[name].isna().all()}
    if plan.scale.kind == Kind.RATING:
        left_out.add("probability")  # of a score above the middle, which no rating is
    return table[[name for name in COLUMNS if name not in left_out]]


def answers_table(session: Session) -> pd.DataFrame:
    """Each person's own answers below one another, in the columns of `export_table`; drawn rows alone."""
    tables = [export_table(session, who) for who in session.answers().annotators] or [export_table(session)]
    drawn = set(session.plan.order)
    return pd.concat(
        [table[table["id"].isin(drawn) & table["annotator"].notna()] for table in tables], ignore_index=True
    )


_ALIASES = {
    "id": ("id", "response_id", "comparison_id"), "label": ("label", "human", "human_label"),
    "annotator": ("annotator", "annotator_id"), "skipped": ("skipped_reason", "skipped"),
}  # fmt: skip


def import_answers(session: Session, frame: pd.DataFrame, annotator: str = "") -> int:
    """Take in labels that were given elsewhere: all of them, or none where anything is wrong.

    Args:
        session: where they belong.
        frame: text cells; columns id, label, and where there are several people annotator; skipped_reason may be there.
        annotator: who gave them, where the file does not say.

    Returns:
        Answers that are new; the same answer of the same person again changes nothing.

    Raises:
        InputError: a column is missing; or, row by row, an unknown id, a label that is none of the scale, or two
            different answers of one person, in the file or beside what is here.
    """
    columns = {name: next((a for a in aliases if a in frame.columns), "") for name, aliases in _ALIASES.items()}
    if not (columns["id"] and columns["label"]):
        raise InputError(
            f"The file has no column id and label; it has: {listed(frame.columns)}. Export this session for an example."
        )
    cells = {
        name: frame[column].fillna("").astype(str).str.strip().tolist() if column else [""] * len(frame)
        for name, column in columns.items()
    }
    added: list[Event] = []

    def check(held: Answers) -> list[Event]:
        added.extend(_new_answers(session, held, cells, annotator))
        return added

    session._append(check)
    return len(added)


def _new_answers(session: Session, held: Answers, cells: Mapping[str, Sequence[str]], annotator: str) -> list[Event]:
    drawn, data = set(session.plan.order), set(session.plan.rows["id"])
    said = {(who, row): one for who, own in held.given.items() for row, one in own.items()}
    new: list[Event] = []
    wrong: list[str] = []
    seen = Answers(given=dict(held.given))
    for i, (row, label, who, why) in enumerate(
        zip(cells["id"], cells["label"], cells["annotator"], cells["skipped"], strict=True), start=1
    ):
        if not label and not why:
            continue
        try:
            name = session.name_of(who or annotator, seen)
        except InputError as error:
            wrong.append(f"Row {i}: {error}")
            continue
        seen.given.setdefault(name, {})
        read = session.plan.scale.read(label) if label else ""
        answer = Answer(row, name, read or "", "" if label else why[:_MOST_REASON])
        before = said.get((name, row))
        if row not in drawn:
            what = (
                "was not drawn by this plan, so no probability belongs to it"
                if row in data
                else "is no row of the data"
            )
            wrong.append(f"Row {i}: id {shown(row)} {what}.")
        elif read is None:
            wrong.append(f"Row {i}: label {shown(label)} is none of {session.plan.scale.spelled}.")
        elif before is not None and before != answer:
            told = [one.label or f"skipped ({one.skipped})" for one in (before, answer)]
            wrong.append(f"Row {i}: {name} has two answers on {shown(row)}: {told[0]} and {told[1]}.")
        elif before is None:
            said[name, row] = answer
            new.append({"annotator": name, "row": row, **({"label": read} if label else {"skipped": answer.skipped})})
    if wrong:
        more = f"\n- and {len(wrong) - _MOST_TOLD:,} more" if len(wrong) > _MOST_TOLD else ""
        lines = "\n".join(f"- {line}" for line in wrong[:_MOST_TOLD])
        raise InputError(f"Nothing was imported. Mend these rows and import the file again:\n{lines}{more}")
    return new
