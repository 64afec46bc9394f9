"""One mask for every number: a rewriting enters where it was kept and fails the rules that its original fails."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.attacks.format_rules import failed_rules
from engine.attacks.rewriting import ContentReport, Rewrite
from engine.cli.main import main
from engine.core.errors import InputError
from engine.core.schema import ITEMS, NONE, RESPONSES, Protocol
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.judges.base import no_checkpoint
from engine.runs.folder import create_run, open_run
from engine.stats.arena import build_arena
from engine.studies.protocols.leaderboard import board
from engine.studies.protocols.metrics import (
    View,
    content_checks,
    copy_outcomes,
    flips,
    ladder,
    losers_left_out,
    outcomes,
)
from engine.studies.protocols.requests import variant_table
from engine.studies.protocols.rows import metrics_of
from engine.studies.protocols.run import run_protocols
from engine.studies.protocols.study import ProtocolsConfig
from engine.studies.protocols.summary import as_json
from tests.engine.studies.protocols.test_protocols import Ideal

VIEW = View()
RULES = [
    {"rule": "punctuation:no_comma", "arguments": {}},
    {"rule": "change_case:english_lowercase", "arguments": {}},
    {"rule": "startend:end_checker", "arguments": {"end_phrase": "the end"}},
]
BEST, ONE, SWAPPED, MENDED = (
    "it is late the end",
    "it is late, the end",
    "It is late the end",
    "it is late, the end now",
)


def made(n_items=6):
    """Four systems: one keeps every rule, two break the first, one the first and the last."""
    items = pd.DataFrame({"item_id": [f"i{i}" for i in range(n_items)], "task": "instruction", "context": "Say it."})
    texts = {"best": BEST, "one": ONE, "swapped": ONE + " ", "mended": MENDED}
    rows = [
        {"response_id": f"{s}-{i}", "item_id": f"i{i}", "system": s, "text": text}
        for i in range(n_items)
        for s, text in texts.items()
    ]
    data = Dataset("0" * 16, "made", "instruction", ITEMS.conform(items), RESPONSES.conform(pd.DataFrame(rows)))
    return replace(data, items=data.items.assign(rules=json.dumps(RULES)))


NEW = {BEST: "it is so late the end", ONE: "it is so late, the end", ONE + " ": SWAPPED, MENDED: "it is late the end"}


class Changes:
    """Rewrites by a table; keeps the rules of the first two, trades one fault for another, or mends them."""

    name = "rules"

    def rewrite(self, texts, style, *, strength=1.0, seed=0):
        return [Rewrite(NEW[t], ContentReport((), (), True, 1.0)) for t in texts]


@pytest.fixture
def mixed(settings, monkeypatch):
    """A run of a judge that prefers what fails fewer rules."""
    monkeypatch.setattr("engine.studies.protocols.run.make_rewriter", lambda *_: Changes())
    data = made()
    judge = Ideal(dict(zip(data.items["item_id"], data.items["rules"], strict=True)))
    config = ProtocolsConfig(judge="ideal", data="made", distractors=("assertiveness",), lowest=2)
    run = create_run(settings.runs, "protocols", config.model_dump(mode="json"))
    metrics = run_protocols(config, data, judge, run, settings, no_checkpoint)
    return run, metrics, build_arena(run.table("verdicts"), run.table("variants"))


def test_which_rules_counts_and_not_only_how_many(mixed):
    run, _, arena = mixed
    variants = run.table("variants")
    own = variants[(variants["style"] == "assertiveness") & (variants["item_id"] == "i0")].set_index("system")
    assert own.loc["swapped", ["severity", "severity_after"]].tolist() == [1, 1]
    assert own.loc["swapped", "failed"] == "1 punctuation:no_comma"
    assert own.loc["swapped", "failed_after"] == "2 change_case:english_lowercase"
    usable = dict(zip(arena.systems, arena.usable("assertiveness")[0], strict=True))
    assert usable == {"best": True, "one": True, "swapped": False, "mended": False}
    assert arena.usable(NONE).all()


def test_flips_copies_boards_and_the_ladder_take_the_same_mask(mixed):
    _, _, arena = mixed
    out = [arena.systems.index(name) for name in ("mended", "swapped")]
    touched = np.isin(arena.pairs, out).any(axis=1)
    for protocol in Protocol.PAIRWISE, Protocol.POINTWISE:
        both = outcomes(arena, protocol, VIEW, "assertiveness", "ab")
        assert np.isnan(both[:, touched]).all()
        assert np.isnan(copy_outcomes(arena, protocol, "assertiveness", VIEW)[:, out]).all()
        assert np.isfinite(copy_outcomes(arena, protocol, "assertiveness", VIEW)).sum() == 2 * 6
        for r in ladder(arena, ["assertiveness"], VIEW):
            assert (
                r.strict.n
                == {(1, NONE): 12, (1, "assertiveness"): 6, (2, NONE): 6, (2, "assertiveness"): 0}[r.severity, r.arm]
            )
            assert r.excluded == (0 if r.arm == NONE else 6)  # best against swapped, best against mended
    found = flips(arena, ["assertiveness"], "neutral", VIEW)
    assert found.pairwise.value == 0  # a mended loser would win, and be right to
    # losers: one and swapped against best, mended against all three; of each item four take no part
    assert found.pairwise.n == 6
    assert losers_left_out(arena, Protocol.PAIRWISE, ["assertiveness"], VIEW) == 6 * 4
    table = board(arena, Protocol.POINTWISE, "assertiveness", 2, VIEW)
    assert set(table.distracted) == {arena.systems.index("mended"), arena.systems.index("one")}
    assert table.left_out == 6 * 3


def test_what_is_left_out_is_counted(mixed):
    run, metrics, arena = mixed
    share = metrics[metrics["metric"] == "rewritings_left_out"].set_index(["attack", "group"])["value"]
    assert share["assertiveness", "rules broken or mended"] == 0.5
    assert share["assertiveness", "content checks"] == 0.0
    checks = content_checks(run.table("variants")).set_index("style")
    assert checks.loc["assertiveness", ["kept", "rules_changed"]].tolist() == [24, 12]
    entry = next(
        e for e in as_json(arena, VIEW, (), 1, 16.0)["flips_by_distractor"] if e["distractor"] == "assertiveness"
    )
    assert entry["losers_left_out"] == {"pairwise": 24, "pointwise": 24}


def test_an_older_run_is_masked_by_the_number_of_failed_rules(mixed):
    run, _, _ = mixed
    older = run.table("variants").assign(failed=None, failed_after=None)
    arena = build_arena(run.table("verdicts"), older)
    usable = dict(zip(arena.systems, arena.usable("assertiveness")[0], strict=True))
    assert usable == {"best": True, "one": True, "swapped": True, "mended": False}


def test_the_recorded_run_leaves_out_what_changed_a_rule():
    run = open_run(get_settings().assets / "demo" / "protocols", "instruction")
    variants = run.table("variants")
    config = ProtocolsConfig.model_validate(run.manifest()["config"])
    changed = (variants["severity"] != variants["severity_after"]) & (variants["kept"] == 1)
    counts = variants[changed]["style"].value_counts().to_dict()
    assert counts == content_checks(variants).set_index("style")["rules_changed"].replace(0, pd.NA).dropna().to_dict()
    metrics = metrics_of(build_arena(run.table("verdicts"), variants), config.view, (), 1, 16.0)
    share = metrics[(metrics["metric"] == "rewritings_left_out") & metrics["group"].str.startswith("rules")]
    assert dict(zip(share["attack"], (share["value"] * share["n"]).round(), strict=True)) == counts


@pytest.mark.parametrize(
    ("rule", "arguments", "message"),
    [
        (
            "length_constraints:number_words",
            {"num_words": 20},
            r"number_words needs the argument 'relation': one of at",
        ),
        (
            "length_constraints:number_words",
            {"relation": "at most", "num_words": 3},
            r"'at most' as 'relation'; allowed",
        ),
        ("length_constraints:number_words", {"relation": "at least", "num_words": "many"}, r"'many' as 'num_words'"),
        ("length_constraints:number_words", {"relation": "at least", "num_words": float("inf")}, r"a whole number"),
        ("length_constraints:number_words", {"relation": "at least", "num_words": True}, r"a whole number"),
        ("keywords:existence", {"keywords": "sea"}, r"'sea' as 'keywords'; allowed: a list of texts"),
        ("startend:end_checker", {"end_phrase": 3}, r"3 as 'end_phrase'; allowed: a text"),
        ("punctuation:no_comma", [1], r"arguments of the rule punctuation:no_comma are \[1\]"),
        (["x"], {}, r"no checker for the rule \['x'\]"),
    ],
)
def test_a_rule_with_wrong_arguments_names_rule_argument_and_what_is_allowed(rule, arguments, message):
    with pytest.raises(InputError, match=message):
        failed_rules(json.dumps([{"rule": rule, "arguments": arguments}]), "some text")


def test_wrong_arguments_end_the_command_with_two(tmp_path, capsys, settings):
    rules = json.dumps([{"rule": "length_constraints:number_words", "arguments": {"num_words": 20}}])
    rows = [{"item_id": f"i{i}", "system": s, "context": "Say it.", "response": f"{s} {i} is said", "rules": rules}
            for i in range(3) for s in "ab"]  # fmt: skip
    path = tmp_path / "rules.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    code = main(["study", "protocols", "--judge", "planted:assertiveness", "--data", str(path), "--map", "rules=rules"])
    assert code == 2
    assert "needs the argument 'relation': one of at least, less than" in capsys.readouterr().err


def test_every_rule_of_the_variants_is_checked_before_a_judge_is_asked(settings):
    data = made(2)
    wrong = replace(data, items=data.items.assign(rules='[{"rule": "keywords:frequency"}]'))
    with pytest.raises(InputError, match="keywords:frequency needs the argument 'relation'"):
        variant_table(wrong, ["assertiveness"], Changes())
