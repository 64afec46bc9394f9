"""Plugins: attacks, defenses, judges, formats and studies of other distributions, found by their entry points.

A group is `judgescope.attacks` and so on; an entry point's name is the name of the thing it points to. A registry loads
its group at the first look and not before; what cannot be loaded is remembered with its reason, and the rest works.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from engine.core.errors import InputError, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {"attacks": "attack", "defenses": "defense", "judges": "judge", "formats": "format", "studies": "study"}
"""Group -> one of its things, in words."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_LONGEST = 300
"""Characters of a foreign error that are shown."""


@dataclass(frozen=True, order=True)
class Plugin:
    """An entry point of an installed distribution.

    Attributes:
        group: a key of `GROUPS`.
        name: of the thing it adds.
        distribution: that holds it.
        version: of the distribution.
    """

    group: str
    name: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{GROUPS.get(self.group, 'plugin')} {self.name} of {self.distribution} {self.version}"

    def record(self) -> dict[str, str]:
        """Itself for a manifest."""
        return asdict(self)


_REASONS: dict[Plugin, str] = {}


def broken() -> dict[Plugin, str]:
    """Plugins that could not be loaded so far, each with its reason."""
    return dict(sorted(_REASONS.items()))


def complaints() -> list[str]:
    """A line for each plugin that could not be loaded so far."""
    return [f"Plugin left out: {plugin}: {why}." for plugin, why in broken().items()]


@cache
def found() -> Mapping[Plugin, EntryPoint]:
    """Every entry point of our groups, nothing of it loaded; read once in a process (about 10 ms)."""
    from importlib.metadata import entry_points

    points = entry_points()
    held = [(group, point) for group in GROUPS for point in points.select(group=f"judgescope.{group}")]
    return dict(sorted(((_plugin(group, point), point) for group, point in held), key=lambda pair: pair[0]))


def of(group: str, name: str) -> Plugin | None:
    """The plugin of this name in a group, loaded or not yet; None where there is none, or it could not be loaded."""
    return next((p for p in found() if (p.group, p.name) == (group, name) and p not in _REASONS), None)


def _plugin(group: str, point: EntryPoint) -> Plugin:
    from importlib.metadata import PackageNotFoundError

    try:
        held: Any = point.dist.metadata if point.dist else {}
        told = str(held["Name"] or "unknown"), str(held["Version"] or "unknown")
    except (KeyError, OSError, UnicodeError, PackageNotFoundError):
        told = "unknown", "unknown"
    return Plugin(group, point.name, *told)


def load(group: str, accept: Callable[[str, Any], Any], taken: Iterable[str] = ()) -> dict[Plugin, Any]:
    """Load the plugins of a group; those that fail are in `broken` with their reason.

    Args:
        group: a key of `GROUPS`.
        accept: gets the name and what the entry point holds; returns the thing, or raises where it is none.
        taken: names that belong to what is built in.
    """
    loaded: dict[Plugin, Any] = {}
    owners = dict.fromkeys(taken, "JudgeScope itself")
    for plugin, point in found().items():
        if plugin.group != group:
            continue
        try:
            if not _NAME.fullmatch(plugin.name):
                raise InputError("its name is not made of small letters, digits and underscores (at most 40)")
            if plugin.name in owners:
                raise InputError(f"its name is taken by {owners[plugin.name]}; its author has to choose another")
            loaded[plugin] = accept(plugin.name, point.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code fails in any way it likes
            why = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            _REASONS[plugin] = " ".join(why.split())[:_LONGEST].rstrip(".")
        else:
            owners[plugin.name] = f"{plugin.distribution} {plugin.version}"
    return loaded


T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Things by name: those built in, then those of plugins, which are loaded at the first look.

    Args:
        group: a key of `GROUPS`.
        kind: class of the things.
        built_in: what every installation has.
        text: field in words to which a plugin's distribution and version are added.
        key: of a thing in this mapping.
        name: of a thing's entry point; by default its key.
        taken: further names that no plugin may have.
        problem: the fault of a plugin's thing in words; empty where it has none.
    """

    def __init__(
        self,
        group: str,
        kind: type[T],
        built_in: Mapping[str, T],
        *,
        text: str,
        key: Callable[[T], str],
        name: Callable[[T], str] | None = None,
        taken: Iterable[str] = (),
        problem: Callable[[T], str] = lambda _: "",
    ) -> None:
        self._group, self._kind, self._text, self._problem = group, kind, text, problem
        self._key, self._name = key, name or key
        self._built_in, self._taken = dict(built_in), frozenset(taken)
        self._plugins: dict[str, tuple[Plugin, T]] = {}
        self._things: dict[str, T] | None = None
        self._lock = threading.RLock()

    def __getitem__(self, key: str) -> T:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def added(self) -> dict[str, T]:
        """What plugins add, by key."""
        self._all()
        return {self._key(thing): thing for _, thing in self._plugins.values()}

    def use(self, name: str) -> T | None:
        """What a plugin has under this entry point's name, its use noted; None where no plugin has one."""
        self._all()
        if name not in self._plugins:
            return None
        plugin, thing = self._plugins[name]
        note(plugin)
        return thing

    def plugin_of(self, name: str) -> Plugin | None:
        """The plugin of this entry point's name."""
        self._all()
        return self._plugins[name][0] if name in self._plugins else None

    def in_words(self) -> str:
        """The keys in a line of help, those of plugins with their distribution and version."""
        keys = list(self._all())
        owners = {self._key(thing): plugin for plugin, thing in self._plugins.values()}
        return ", ".join(f"{k} ({owners[k].distribution} {owners[k].version})" if k in owners else k for k in keys)

    def _all(self) -> dict[str, T]:
        if self._things is not None:
            return self._things
        with self._lock:
            if self._things is not None:
                return self._things
            self._things = dict(self._built_in)  # what a plugin sees that looks here while it is loaded
            taken = {*map(self._name, self._built_in.values()), *self._built_in, *self._taken}
            made = load(self._group, self._accept, taken)
            self._plugins = {plugin.name: (plugin, self._told(plugin, thing)) for plugin, thing in made.items()}
            self._things = self._built_in | {self._key(thing): thing for _, thing in self._plugins.values()}
            return self._things

    def _accept(self, name: str, thing: Any) -> T:
        if not isinstance(thing, self._kind):
            raise InputError(f"it holds a {type(thing).__name__}, not a {self._kind.__name__}")
        if self._name(thing) != name:
            raise InputError(f"what it holds is named {shown(self._name(thing))}, not {name!r} as its entry point")
        if problem := self._problem(thing):
            raise InputError(problem)
        return thing

    def _told(self, plugin: Plugin, thing: Any) -> T:
        words = f"{getattr(thing, self._text)} From the plugin {plugin.distribution} {plugin.version}."
        made: T = replace(thing, **{self._text: words.lstrip()})
        return made


# Use of plugins by a run, and what a stored run says of it.

_TOLD: ContextVar[Callable[[Plugin], object] | None] = ContextVar("told", default=None)


@contextmanager
def noting(tell: Callable[[Plugin], object]) -> Iterator[None]:
    """Tell which plugins are used in here; the same one may be told several times."""
    token = _TOLD.set(tell)
    try:
        yield
    finally:
        _TOLD.reset(token)


def note(plugin: Plugin) -> None:
    """A plugin is used."""
    if tell := _TOLD.get():
        tell(plugin)


def read_records(records: object) -> list[Plugin]:
    """The plugins of a manifest; what is no record of one is left out."""
    names = Plugin.__dataclass_fields__
    return [
        Plugin(**{name: str(one[name])[:100] for name in names})
        for one in (records if isinstance(records, list) else [])
        if isinstance(one, dict) and names.keys() <= one.keys()
    ]


def changed(records: object) -> bool:
    """True where a plugin of a manifest is missing here, or is another version."""
    return not set(read_records(records)) <= found().keys() - _REASONS.keys()


def absent(records: object) -> str:
    """What a run was made with and this installation lacks, in a sentence; empty where it lacks nothing."""
    here = {(plugin.group, plugin.name): plugin for plugin in found()}
    lacks: dict[tuple[str, str], list[str]] = {}
    for plugin in read_records(records):
        now = here.get((plugin.group, plugin.name))
        if now is None or now in _REASONS:
            why = "is not installed here" if now is None else f"cannot be loaded here ({_REASONS[now]})"
            what = f"the {GROUPS.get(plugin.group, 'plugin')} {plugin.name}"
            lacks.setdefault((f"{plugin.distribution} {plugin.version}", why), []).append(what)
    parts = [f"{' and '.join(things)} of {whose}, which {why}" for (whose, why), things in lacks.items()]
    return f"The run was made with {'; '.join(parts)}." if parts else ""
