"""Entry points of installed distributions: loaded at the first look, and named where they fail."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from engine.attacks.cards import ATTACKS
from engine.core import plugins
from engine.core.plugins import Plugin, Registry
from engine.data.formats.conversion import OWN
from engine.data.formats.registry import FORMATS


@dataclass(frozen=True)
class Thing:
    """What the registry of these tests holds."""

    name: str
    about: str = ""


def distribution(site, name: str, entries: str, code: str = "", version: str = "1.0") -> None:
    """What an installer leaves of a distribution: its metadata, its entry points and a module."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text(entries)
    (site / f"{name}.py").write_text(code)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "_REASONS", {})
    plugins.found.cache_clear()
    yield tmp_path
    plugins.found.cache_clear()
    for name in [n for n in sys.modules if n.startswith("of_")]:
        del sys.modules[name]


def registry(**more) -> Registry[Thing]:
    return Registry(
        "attacks", Thing, {"old": Thing("old")}, text="about", key=lambda thing: thing.name, **more
    )  # fmt: skip


THING = "from tests.engine.core.test_plugins import Thing\n"


def test_without_plugins_there_is_what_is_built_in(site):
    things = registry()
    assert dict(things) == {"old": Thing("old")}
    assert (things.use("old"), things.plugin_of("old"), things.added()) == (None, None, {})
    assert plugins.complaints() == []


def test_a_plugin_is_loaded_at_the_first_look_and_says_whose_it_is(site):
    distribution(site, "of_good", "[judgescope.attacks]\nnew = of_good:NEW\n", THING + 'NEW = Thing("new", "Fresh.")')
    things = registry()
    assert plugins.of("attacks", "new") == Plugin("attacks", "new", "of_good", "1.0")
    assert "of_good" not in sys.modules
    assert list(things) == ["old", "new"]
    assert "of_good" in sys.modules
    assert "of_good 1.0" in things["new"].about
    assert things["new"].about.startswith("Fresh.")
    assert things.in_words() == "old, new (of_good 1.0)"


FAULTS = {
    "raises": ("fault = of_bad:X", "raise OSError('no\\nlicence')", "OSError: no licence"),
    "leaves": ("fault = of_bad:X", "raise SystemExit('bye')", "bye"),
    "lacks": ("fault = of_bad:X", "", "X"),
    "is another class": ("fault = of_bad:X", "X = 3", "int"),
    "has another name": ("fault = of_bad:X", THING + "X = Thing('other')", "'other'"),
    "takes a built-in's name": ("old = of_bad:X", THING + "X = Thing('old')", "taken"),
    "takes a name kept back": ("kept = of_bad:X", THING + "X = Thing('kept')", "taken"),
    "takes another plugin's name": ("new = of_bad:X", THING + "X = Thing('new')", "of_a_good_one 1.0"),
    "has markup for a name": ("<b>x</b> = of_bad:X", THING + "X = Thing('<b>x</b>')", "small letters"),
    "has what the registry refuses": ("fault = of_bad:X", THING + "X = Thing('fault', 'refuse')", "for a reason"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plugin_that_fails_is_named_with_its_reason_and_the_rest_is_there(site, fault):
    entry, code, why = FAULTS[fault]
    distribution(site, "of_bad", f"[judgescope.attacks]\n{entry}\n", code)
    distribution(site, "of_a_good_one", "[judgescope.attacks]\nnew = of_a_good_one:N\n", THING + "N = Thing('new')")
    things = registry(taken=["kept"], problem=lambda thing: "for a reason" if thing.about == "refuse" else "")
    assert list(things) == ["old", "new"]
    assert things["old"] == Thing("old")
    [(plugin, reason)] = plugins.broken().items()
    assert (plugin.distribution, plugin.version) == ("of_bad", "1.0")
    assert why in reason
    [line] = plugins.complaints()
    assert "of_bad" in line
    assert "\n" not in line
    assert plugin not in {plugins.of("attacks", name) for name in things}


def test_a_plugin_that_looks_at_the_registry_while_it_is_loaded_sees_what_is_built_in(site):
    code = THING + "from tests.engine.core.test_plugins import LOOKED\nNEW = Thing('new', str(list(LOOKED[0])))"
    distribution(site, "of_good", "[judgescope.attacks]\nnew = of_good:NEW\n", code)
    LOOKED[:] = [registry()]
    assert LOOKED[0]["new"].about.startswith("['old']")


LOOKED: list[Registry[Thing]] = []


def test_use_is_told_to_whoever_listens_and_to_nobody_else(site):
    distribution(site, "of_good", "[judgescope.attacks]\nnew = of_good:NEW\n", THING + "NEW = Thing('new')")
    things, told, outer = registry(), [], []
    with plugins.noting(outer.append):
        with plugins.noting(told.append):
            things.use("old")
            made = things.use("new")
        assert outer == []
    things.use("new")
    assert made == things["new"]
    assert told == [Plugin("attacks", "new", "of_good", "1.0")]


def test_a_manifest_names_what_is_missing_broken_or_of_another_version(site):
    distribution(site, "of_good", "[judgescope.attacks]\nnew = of_good:NEW\n", THING + "NEW = Thing('new')")
    distribution(site, "of_bad", "[judgescope.attacks]\nfault = of_bad:X\n", "raise OSError('no licence')")
    list(registry())
    here, broken = (plugins.of("attacks", "new").record(), next(iter(plugins.broken())).record())
    gone = Plugin("judges", "clever", "of_gone", "2.1").record()
    assert (plugins.absent([here]), plugins.changed([here])) == ("", False)
    assert plugins.absent([here | {"version": "0.9"}]) == ""  # it can be opened, and not be gone on with
    assert plugins.changed([here | {"version": "0.9"}])
    said = plugins.absent([here, broken, gone])
    assert "judge clever of of_gone 2.1, which is not installed here" in said
    assert "no licence" in said
    assert "of_good" not in said


@pytest.mark.parametrize("records", [None, "text", {}, [3, None, {"group": "attacks"}], [[]]])
def test_a_damaged_record_names_nothing(site, records):
    assert plugins.read_records(records) == []
    assert plugins.absent(records) == ""


def test_names_that_no_plugin_may_have(site):
    entries = "".join(f"{name} = of_bad:X\n" for name in OWN)
    distribution(site, "of_bad", f"[judgescope.formats]\n{entries}[judgescope.attacks]\ndsi = of_bad:X\n")
    fresh = [
        Registry(r._group, r._kind, r._built_in, text=r._text, key=r._key, taken=r._taken) for r in (FORMATS, ATTACKS)
    ]
    assert [dict(r) == r._built_in for r in fresh] == [True, True]
    assert all("taken" in why for why in plugins.broken().values())
    assert len(plugins.broken()) == len(OWN) + 1
