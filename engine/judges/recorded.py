"""Recorded judges: verdicts somebody already has answer requests by lookup; no model at all.

A spec reads `recorded:FILE?key=value&...`. A key is `map.FIELD` (which column holds a field), `label.SPELLING`
(what a spelling of the file stands for), `layout`, `format` (a known format), `read.encoding`, `read.delimiter`,
`read.sheet`, or a column of the file whose value selects its rows. FILE may be the id of verdicts that were imported
before (`import-...`):

    recorded:verdicts.csv
    recorded:verdicts.csv?judge=GPT-4&prompt=CoT&map.comparison_id=id

A request is answered by its item and the ids of its responses as they were shown, its attack and its defense. Where
the recording does not know the item, the ids alone answer, unless one of its ids stands under several items. The
texts are not compared: the recording is taken to be about the responses of these ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import user_path
from engine.core.schema import Order, Outcome, Protocol
from engine.data.recording import READING, Recording, Selection, in_spec, read_recording
from engine.data.recordings import recording_file
from engine.judges.base import Checkpoint, Cost, Request, Verdict, no_checkpoint

RECORDED = "recorded:"
NOT_RECORDED = "not in the recording"
NO_SWAP = "a recording holds verdicts under the true reference alone"
NO_ORDER = "the recording does not say which response was shown first"

Call = tuple[str, str, str, str, str]
"""Item, attack, defense, and the responses in the order shown (the second empty unless a pair).

The item is empty where the recording names none, and a second time where no id stands under two of its items.
"""


@dataclass(frozen=True)
class RecordedJudge:
    """Answers from a recording; see the module.

    Attributes:
        spec: as the user wrote it.
        recording: content of the file, with its counts.
        threshold: p_yes from which a verifier's outcome is YES, where the file has no verdicts of its own.
    """

    spec: str
    recording: Recording
    threshold: float

    @cached_property
    def items(self) -> frozenset[str]:
        """The items that the recording names; empty where it names none."""
        named = "item_id" in self.recording.fields
        return frozenset(self.recording.verdicts["item_id"]) if named else frozenset()

    @cached_property
    def answers(self) -> Mapping[Call, Verdict]:
        """Verdict of each recorded call, in the names of the order shown (a is the first)."""
        asked = None if _decided(self.recording) else self.threshold
        return _answers(self.recording.verdicts, asked, bool(self.items))

    @property
    def fingerprint(self) -> str:
        """Digest of the file's content and of how it is read; where it lies does not matter."""
        asked = "" if self.threshold == 0.5 else f"-{self.threshold:g}"
        return f"recorded-2-{self.recording.digest[:32]}{asked}"

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocol of the file."""
        return frozenset({self.recording.protocol})

    def labels(self, request: Request) -> tuple[str, ...]:
        """Empty: a recording holds answers, not the labels that were offered.

        Raises:
            InputError: the recording is of another protocol.
        """
        self._check(request)
        return ()

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """The recorded verdicts; a call that was not recorded is unread.

        Raises:
            InputError: the recording is of another protocol.
        """
        for request in requests:
            self._check(request)
        verdicts = [self._answer(r) for r in requests]
        checkpoint(len(verdicts), len(requests))
        return verdicts

    def prompt(self, request: Request) -> str:  # noqa: ARG002 - the protocol's signature
        """Empty: what the recorded judge was shown is not known."""
        return ""

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Nothing: the answers are in the file."""
        return Cost(0, 0, len(requests))

    def _check(self, request: Request) -> None:
        held = self.recording.protocol
        if request.protocol is not held:
            raise InputError(
                f"The recording holds {held.value} verdicts, and this request is {request.protocol.value}. "
                f"Choose a study of {held.value} judges, or another judge."
            )

    def _answer(self, request: Request) -> Verdict:
        if request.reference_id:
            return Verdict(unread_reason=NO_SWAP)
        reverse = request.order is Order.BA
        paired = request.protocol is Protocol.PAIRWISE
        for a, b in _names(request):
            shown = (b, a) if reverse else (a, b)
            item = request.item_id if request.item_id in self.items else ""
            arms = [(item, request.attack, defense, *shown) for defense in _orders(request.defense)]
            tries = [self.answers.get(arm) for arm in arms]
            found = next(filter(None, tries), None)
            if found and not (paired and request.order is None):
                return exchanged(found) if reverse else found
        unordered = self.recording.layout.name == "pairwise-unordered"
        return Verdict(unread_reason=NO_ORDER if unordered else NOT_RECORDED)


def open_recording(spec: str, *, roots: Sequence[Path] = ()) -> tuple[str, Recording]:
    """The recording a spec names, with every judge that it holds; and the name of its file.

    Args:
        spec: `recorded:FILE?key=value&...`, as the module says.
        roots: folders that the file must lie in; empty allows any.

    Raises:
        InputError: the file is outside the roots, unreadable, or fits no layout.
    """
    name, selection = read_spec(spec)
    imported = recording_file(name)
    path = imported or user_path(name)
    if roots and not imported and not any(path.resolve().is_relative_to(root.resolve()) for root in roots):
        raise InputError(
            f"The recording {path.name!r} lies outside the folders that are open to judges. Move it there."
        )
    return path.name, read_recording(path, selection)


def make_recorded(spec: str, *, roots: Sequence[Path] = (), threshold: float = 0.5) -> RecordedJudge:
    """The recorded judge a spec names.

    Args:
        spec: `recorded:FILE?key=value&...`, as the module says.
        roots: folders that the file must lie in; empty allows any.
        threshold: p_yes from which a verifier's outcome is YES, where the file has no verdicts of its own.

    Raises:
        InputError: the file is outside the roots, unreadable, fits no layout, or holds several judges.
    """
    filename, recording = open_recording(spec, roots=roots)
    table = recording.verdicts
    judges = table["judge"].unique()
    if len(judges) > 1:
        raise InputError(
            f"{filename!r} holds verdicts of {len(judges)} judges: {listed(judges)}. Choose one by its "
            f"column, for example {RECORDED}{filename}?{in_spec(*recording.first_judge)}."
        )
    return RecordedJudge(spec, recording, 0.5 if _decided(recording) else threshold)


def _decided(recording: Recording) -> bool:
    """True where the file holds outcomes, so that no threshold makes them."""
    return recording.protocol is not Protocol.VERIFIER or "verdict" in recording.fields


def read_spec(spec: str) -> tuple[str, Selection]:
    """File and selection of a spec.

    Raises:
        InputError: no file, a part without `=`, or a key given twice.
    """
    name, _, query = spec.removeprefix(RECORDED).partition("?")
    if not spec.startswith(RECORDED) or not name:
        raise InputError(f"{shown(spec)} names no recording. Write recorded:FILE, for example recorded:verdicts.csv.")
    parts: dict[str, dict[str, str]] = {"map": {}, "label": {}, "read": {}, "layout": {}, "format": {}, "where": {}}
    for piece in filter(None, query.split("&")):  # parse_qsl would turn the + of judge+prompt into a space
        key, equals, value = piece.partition("=")
        kind, _, rest = unquote(key).partition(".")
        if kind not in ("map", "label", "read") or not rest:
            rest = unquote(key)
            kind = rest if rest in ("layout", "format") else "where"
        if not equals or rest in parts[kind]:
            raise InputError(f"{shown(piece)} in {shown(spec)}: write each key once, as key=value.")
        if kind == "read" and rest not in READING:
            raise InputError(f"{shown(piece)} in {shown(spec)}: read.{shown(rest)} is none of {listed(READING)}.")
        parts[kind][rest] = unquote(value)
    layout, form = (parts[kind].get(kind, "") for kind in ("layout", "format"))
    return name, Selection(parts["where"], parts["map"], parts["label"], layout, form, parts["read"])


def exchanged(verdict: Verdict) -> Verdict:
    """A pair's verdict with a and b changing places."""
    if verdict.outcome is None:
        return verdict
    outcome = {Outcome.A: Outcome.B, Outcome.B: Outcome.A}.get(verdict.outcome, verdict.outcome)
    return replace(verdict, p_a=1 - verdict.p_a - verdict.p_tie, outcome=outcome)


def _orders(defense: str) -> tuple[str, ...]:
    """The defense's name, and with its parts turned round: nested judges name the outermost first."""
    turned = "+".join(reversed(defense.split("+")))
    return (defense,) if turned == defense else (defense, turned)


def _names(request: Request) -> list[tuple[str, str]]:
    """The response ids, the `item:system` names of a recording without any, and `id:system` where systems share ids."""
    a, b = request.response_id, request.response_b_id
    names = [(a, b)]
    if request.system:
        second = f"{request.item_id}:{request.system_b}" if request.system_b else ""
        names.append((f"{request.item_id}:{request.system}", second))
        named_b = f"{b}:{request.system_b}" if request.system_b else b
        names += dict.fromkeys([(f"{a}:{request.system}", named_b), (f"{a}:{request.system}", b), (a, named_b)])
    return names


def _answers(table: pd.DataFrame, threshold: float | None, of_items: bool) -> dict[Call, Verdict]:
    columns = ["item_id", "attack", "defense", "response_id", "response_b", "order"]
    columns += ["score", "p_a", "p_tie", "p_yes", "outcome"]
    texts = table[["unread_reason", "raw_text"]].fillna("")
    out: dict[Call, Verdict] = {}
    bare: dict[Call, Verdict] = {}
    for row, reason, raw in zip(
        table[columns].itertuples(index=False, name=None), texts["unread_reason"], texts["raw_text"], strict=True
    ):
        item, attack, defense, a, b, order, score, p_a, p_tie, p_yes, outcome = row
        verdict = Verdict(
            score=score,
            p_a=p_a,
            p_tie=p_tie,
            p_yes=p_yes,
            outcome=Outcome(outcome) if isinstance(outcome, str) else None,
            unread_reason=reason,
            raw_text=raw,
        )
        if threshold is not None and verdict.read:
            verdict = replace(verdict, outcome=Outcome.YES if p_yes >= threshold else Outcome.NO)
        second = b if isinstance(b, str) else ""
        if second and not isinstance(order, str):
            continue  # no request can say that it means this call
        shown, verdict = ((second, a), exchanged(verdict)) if order == Order.BA.value else ((a, second), verdict)
        out[item, attack, defense, *shown] = verdict
        bare["", attack, defense, *shown] = verdict
    return bare if not of_items else out if len(bare) < len(out) else out | bare
