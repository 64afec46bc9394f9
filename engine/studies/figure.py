"""A figure of a study: its name, settings, the table it is drawn from, and its caption.

A `FigureSpec` turns a run folder into a table and the table into a figure. The table carries what the drawing needs
besides its rows (thresholds, names, where it comes from) in `attrs`, so that `plot` needs nothing else.
"""

from __future__ import annotations

import html
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import pandas as pd
import plotly.graph_objects as go

from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.core.schema import NONE
from engine.plots.text import three_digits
from engine.plots.theme import Mode, with_note
from engine.runs.folder import RunFolder
from engine.runs.library import text_read

# Names of attacks, defenses, judges and runs in a figure and in a sentence.

CAP_TITLES = {
    "cot": "Chain of thought",
    "perplexity": "Perplexity",
    "score-anchors": "Given score",
    "human-anchors": "Human-rated",
    "wcap": "W-CAP",
    "cap": "CAP",
    NONE: "No defense",
}
"""Short names of the defenses of the study cap."""


def attack_name(name: str) -> str:
    """The attack as it stands in a sentence: "DSI"."""
    try:
        return catalog.describe_attack(name).title.partition(":")[0]
    except InputError:
        return name  # an arm of another version's run


def defense_name(name: str) -> str:
    """The defense as it stands in a sentence: "delimiters"."""
    try:
        return " + ".join(lower_first(part) for part in catalog.describe_defense(name).title.split(" + "))
    except InputError:
        return name


def arm_name(attack: str, defense: str) -> str:
    """An arm in words: "DSI behind delimiters"."""
    return attack_name(attack) if defense == NONE else f"{attack_name(attack)} behind {defense_name(defense)}"


def judge_name(spec: str) -> str:
    """The judge as it stands in a sentence: "the bundled judge", "the judge planted:noisy?noise=0.1"."""
    card = catalog.JUDGES.get(spec)
    if card is None:
        return f"the judge {spec}"
    title = card.title.replace("Planted: ", "planted judge that ")
    return f"the {title[:1].lower()}{title[1:]}"


def short_titles(metrics: pd.DataFrame) -> dict[str, str]:
    """Attack and defense names of a run as figures show them; the absence of each has a name of its own there."""
    attacks = {name: attack_name(name) for name in metrics["attack"].unique() if name != NONE}
    defenses = {name: upper_first(defense_name(name)) for name in metrics["defense"].unique() if name != NONE}
    return attacks | defenses


def cap_name(defense: str) -> str:
    """A defense of the study cap as it stands in a figure."""
    base, _, option = defense.partition("?threshold=")
    if base == "perplexity" and option.replace(".", "", 1).isdigit():  # the fitted ones differ in this alone
        return f"Perplexity > {float(option):g}"
    return CAP_TITLES.get(defense) or upper_first(defense_name(defense))


def cap_titles(metrics: pd.DataFrame) -> dict[str, str]:
    """Attacks and defenses of a run of the study cap as figures show them."""
    attacks = {a: attack_name(a) for a in metrics["attack"].dropna().unique() if a != NONE}
    return attacks | {d: cap_name(d) for d in metrics["defense"].dropna().unique() if d != NONE}


def lower_first(text: str) -> str:
    """For the middle of a sentence; an abbreviation stays in capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def upper_first(text: str) -> str:
    """For the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def strongest_arm(metrics: pd.DataFrame) -> tuple[str, str]:
    """Attack and defense of the arm to look at first: the largest shift, undefended where there is one."""
    pool = shifts_by_size(metrics)
    return (str(pool["attack"].iloc[0]), str(pool["defense"].iloc[0])) if len(pool) else (NONE, NONE)


def shifts_by_size(metrics: pd.DataFrame) -> pd.DataFrame:
    """Rows `shift`, the largest change first; the undefended ones alone where there are any."""
    shifts = metrics[(metrics["metric"] == "shift") & metrics["value"].notna()]
    shifts = shifts.sort_values("value", key=abs, ascending=False, kind="stable")
    bare = shifts[shifts["defense"] == NONE]
    return bare if len(bare) else shifts


def label_values(labels: list[str]) -> list[float]:
    """The number each label stands for, for labels that are numbers."""
    try:
        return [float(label) for label in labels]
    except ValueError:
        return []


def origin(manifest: dict[str, Any], *, recorded: bool | None = None) -> str:
    """Recorded or run here, and when; short enough for a figure's small print."""
    shipped = bool(manifest.get("recorded", False)) if recorded is None else recorded
    when = str(manifest.get("finished") or manifest.get("created") or "")[:10]
    partial = "" if manifest.get("state") == "done" else f", {manifest.get('state')}, partial"
    return f"{'recorded' if shipped else 'run here'} on {when}{partial}"


Value = float | int | str | None
Values = dict[str, Any]
Made = TypeVar("Made")
_HELD = 160
"""Intermediate results that one run keeps."""
ATTRS = "figure"


class Source:
    """A run folder, its tables read once, and what was computed from them; safe to share between threads."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._held: OrderedDict[object, Any] = OrderedDict()
        self._lock = threading.RLock()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Settings, data, judge and state of the run."""
        return self.folder.manifest()

    @property
    def config(self) -> dict[str, Any]:
        """The settings it ran with."""
        return dict(self.manifest.get("config") or {})

    @property
    def origin(self) -> str:
        """Recorded or run here, and when."""
        return origin(self.manifest)

    @property
    def level(self) -> float:
        """Confidence level of its intervals."""
        return float(self.config.get("level", 0.95))

    @property
    def seed(self) -> int:
        """Seed of its bootstraps."""
        return int(self.config.get("seed", 0))

    def table(self, name: str) -> pd.DataFrame:
        """A table of the run; shared, never edited in place."""
        return self.memo(("table", name), lambda: self.folder.table(name))

    def memo(self, key: object, make: Callable[[], Made]) -> Made:
        """The result of `make`, computed once for each key while it is among the latest."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            else:
                self._held[key] = make()
                while len(self._held) > _HELD:
                    self._held.popitem(last=False)
            found: Made = self._held[key]
            return found


Of = Callable[[Source], Any]


@dataclass(frozen=True)
class Setting:
    """One setting of a figure.

    Attributes:
        name: keyword of `FigureSpec.prepare`.
        title: in words, with its unit.
        kind: a number, a whole number, one of the listed numbers, or a choice of words.
        default: its value where none is given, from the run; None where a number may be left open.
        low, high: ends of a number's range.
        choices: allowed values of a choice, from the run.
        words: names of some values in a caption.
        acts: true where it does anything beside the other settings; a caption leaves it out otherwise.
        none_was: number that earlier versions wrote in place of None.
    """

    name: str
    title: str
    kind: Literal["number", "whole", "listed", "choice"]
    default: Of
    low: Of = lambda _: 0.0
    high: Of = lambda _: 1.0
    choices: Of = lambda _: ()
    words: Mapping[Any, str] = field(default_factory=dict)
    acts: Callable[[Mapping[str, object]], bool] = lambda _: True
    none_was: float | None = None

    def read(self, source: Source, given: object) -> Value:
        """The value, checked against what the run allows; the default where it is None.

        Raises:
            InputError: another kind of value, or one outside the range; says what is allowed.
        """
        if given is None or given == self.none_was:
            given = self.default(source)
            if given is None:
                return None
        if self.kind == "choice":
            allowed = [str(c) for c in self.choices(source)]
            if str(given) not in allowed:
                raise InputError(f"{self.name} is {given!r}; this run allows {', '.join(map(repr, allowed))}.")
            return str(given)
        if self.kind == "listed":
            return self._listed(source, given)
        low, high = float(self.low(source)), float(self.high(source))
        try:
            number = float(str(given))
        except ValueError:
            number = float("nan")
        if not low <= number <= high or (self.kind == "whole" and number != int(number)):
            what = "a whole number" if self.kind == "whole" else "a number"
            raise InputError(f"{self.name} is {given!r}; this run allows {what} from {low:g} to {high:g}.")
        return int(number) if self.kind == "whole" else number

    def word(self, value: object) -> str:
        """A value in a caption; a listed number whole, since it names one of the run's."""
        if self.kind == "listed":
            return f"{value:g}"
        return three_digits(value) if isinstance(value, float) else str(value)

    def _listed(self, source: Source, given: object) -> float:
        """The listed number that was given, within rounding."""
        known = [float(one) for one in self.choices(source)]
        try:
            number = float(str(given))
        except ValueError:
            number = float("nan")
        near = [one for one in known if abs(one - number) <= 1e-9 * max(1.0, abs(one))]
        if not near and (known or number == number):
            raise InputError(f"{self.name} is {given!r}; this run allows {', '.join(map(repr, known)) or 'none'}.")
        return near[0] if near else number


@dataclass(frozen=True)
class FigureData:
    """The table and extras a figure is drawn from.

    Attributes:
        frame: the table; a reader may download it.
        extras: further arguments of the drawing, in JSON's types.
        facts: parts of the caption that the figure's small print does not have.
        note: last part of the small print; by default where the run comes from.
    """

    frame: pd.DataFrame
    extras: dict[str, Any] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """A figure of a study.

    Attributes:
        study: the kind of study.
        name: unique within the study; letters, digits, dash and underscore.
        title: the question it answers.
        settings: that a reader may set.
        make: source and settings to what is drawn.
        draw: the table to the figure; takes `mode` and the extras by name.
        missing: why this run cannot have it; empty where it can.
    """

    study: str
    name: str
    title: str
    make: Callable[[Source, Values], FigureData]
    draw: Callable[..., go.Figure]
    settings: tuple[Setting, ...] = ()
    missing: Callable[[Source], str] = lambda _: ""

    def values(self, run: RunFolder | Source, given: Mapping[str, object] | None = None) -> Values:
        """Every setting of this run: what was given, else its default.

        Raises:
            InputError: an unknown name, or a value this run does not allow.
        """
        source = as_source(run)
        wanted = dict(given or {})
        out: Values = {}
        for setting in self.settings:
            out[setting.name] = setting.read(source, wanted.pop(setting.name, None))
        if wanted:
            known = ", ".join(d.name for d in self.settings) or "none"
            raise InputError(f"The figure {self.name} has no setting {', '.join(wanted)}; it has: {known}.")
        return out

    def prepare(self, run: RunFolder | Source, **settings: object) -> pd.DataFrame:
        """The table this figure is drawn from, at these settings.

        Args:
            run: a run folder of the study.
            settings: by name; those left out take the run's default.

        Raises:
            InputError: a setting is unknown or not allowed, or the run has nothing for this figure.
            RunError: a table of the run is unreadable.
        """
        source = as_source(run)
        if why := self.missing(source):
            raise InputError(f"The figure {self.name} cannot be made from the run {source.folder.run_id}: {why}")
        chosen = self.values(source, settings)
        shown = self.make(source, chosen)
        frame = shown.frame.copy(deep=False)
        frame.attrs[ATTRS] = {
            "run": source.folder.run_id,
            "study": self.study,
            "entry": self.name,
            "settings": chosen,
            "facts": list(shown.facts),
            "about": _about(source),
            "extras": shown.extras,
            "note": shown.note or source.origin,
        }
        return frame

    def plot(self, prepared: pd.DataFrame, mode: Mode = "light") -> go.Figure:
        """The figure, from what `prepare` gave.

        Raises:
            InputError: the table is not one of `prepare`, or was made for another figure.
        """
        held = prepared.attrs.get(ATTRS, {})
        if held.get("entry") != self.name or held.get("study") != self.study:
            raise InputError(f"Draw the figure {self.name} from a table of its own prepare(); this one is another's.")
        return with_note(self.draw(prepared, mode=mode, **held["extras"]), held["note"])

    def caption(self, prepared: pd.DataFrame) -> str:
        """Title, n, unread, interval method, recorded or live, judge, data and settings, as plain text."""
        held = prepared.attrs[ATTRS]
        figure = self.plot(prepared, "print")
        said = [html.unescape(str(p)) for p in (figure.layout.meta or {}).get("notes", ()) if p]
        parts = [*said, *(f for f in held["facts"] if f)]
        if held["about"]["origin"] not in " ".join(parts):
            parts.append(held["about"]["origin"])
        sentences = [_sentence(parts), held["about"]["judge"], held["about"]["data"], self.set_to(held["settings"])]
        return f"{html.unescape(str(figure.layout.title.text))} " + " ".join(f"{s}." for s in sentences if s)

    def set_to(self, settings: Mapping[str, Any]) -> str:
        """The settings in words; empty where there are none."""
        said = [
            f"{setting.title}: {setting.words.get(settings[setting.name], setting.word(settings[setting.name]))}"
            for setting in self.settings
            if setting.name in settings and settings[setting.name] != "" and setting.acts(settings)
        ]
        return f"Settings: {', '.join(said)}" if said else ""


def as_source(run: RunFolder | Source) -> Source:
    """The run with its tables kept."""
    return run if isinstance(run, Source) else Source(run)


def _sentence(parts: list[str]) -> str:
    """Parts of a caption in one sentence; a symbol at its beginning stays small."""
    said = "; ".join(part.rstrip(".") for part in parts)
    return said if said[1:2] in {" ", "="} else said[:1].upper() + said[1:]


def _about(source: Source) -> dict[str, str]:
    judge = source.manifest.get("judge") or {}
    data = source.manifest.get("data") or {}
    spec = str(judge.get("spec") or source.config.get("judge") or "not named")
    mark = str(judge.get("fingerprint") or "")[:8]
    return {
        "judge": f"Judge: {spec}"
        + (f" ({mark})" if mark else "")
        + (", read from text" if text_read(source.manifest) else ""),
        "data": f"Data: {data.get('name') or source.config.get('data') or 'not named'}",
        "origin": source.origin,
    }


def has_table(name: str, why: str) -> Callable[[Source], str]:
    """A check that a table of the run has rows; `why` says what is missing."""

    def missing(source: Source) -> str:
        try:
            return "" if len(source.table(name)) else why
        except EngineError as error:
            return str(error)

    return missing
