"""The documentation against the code: every name that can be chosen has its line."""

import re
from pathlib import Path

import pytest

from engine.catalog import ATTACKS, DEFENSES
from engine.core.schema import NONE

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("names", [ATTACKS, DEFENSES], ids=["attacks", "defenses"])
def test_every_attack_and_defense_is_documented(names):
    text = (DOCS / "attacks-and-defenses.md").read_text(encoding="utf-8")
    told = {re.split(r"[?:]", name)[0] for name in re.findall(r"`([a-z-]+[^`]*)`", text)}
    assert sorted({name.partition("?")[0] for name in names} - told - {NONE}) == []
