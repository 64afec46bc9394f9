"""What study `protocols` says beside its numbers: unread calls, systems that never met, the rule a number is under."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from engine.cli.main import main
from engine.core.schema import NONE, VARIANTS, VERDICTS, Protocol
from engine.judges.base import Verdict, no_checkpoint
from engine.judges.planted import make_planted
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.stats.arena import build_arena
from engine.studies.protocols.leaderboard import board_problems, choice_sets
from engine.studies.protocols.metrics import View, calls_by_arm, unread_warning
from engine.studies.protocols.rows import boards_of, metrics_of
from engine.studies.protocols.run import run_protocols
from engine.studies.protocols.study import ProtocolsConfig
from engine.studies.protocols.summary import NET, RAW, as_json
from tests.engine.studies.protocols.test_protocols import made, ran, row
from tests.engine.studies.protocols.test_protocols_api import SPEC, ranked_by
from tests.engine.studies.protocols.test_protocols_api import made as ranked_data
from tests.engine.studies.scripted import serving

VIEW = View()


def command(judge, path, response):
    """The study with one distractor on a file of one's own."""
    data = ["--data", str(path), "--map", f"response={response}", "--task", "instruction"]
    return ["study", "protocols", "--judge", judge, *data, "--set", 'distractors=["assertiveness"]']


class Silent:
    """A planted judge that has no answer where a prolix text is judged alone, and to every third clean comparison."""

    def __init__(self):
        self.inner, self.clean = make_planted("planted:assertiveness"), 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def judge(self, requests, checkpoint=no_checkpoint):
        return [
            Verdict(unread_reason="no grade in the reply") if self.silent(r) else v
            for r, v in zip(requests, self.inner.judge(requests, checkpoint), strict=True)
        ]

    def silent(self, r):
        if r.protocol is Protocol.POINTWISE:
            return r.attack == "prolixity"
        if r.attack != NONE or r.response_id == r.response_b_id:
            return False
        self.clean += 1
        return self.clean % 3 == 0


def test_unread_calls_are_counted_by_protocol_and_arm_and_warned_of(settings):
    _, metrics, arena = ran(settings, Silent(), distractors=("assertiveness", "prolixity"))
    calls = {(one.kind, one.arm): (one.unread, one.asked) for one in calls_by_arm(arena)}
    assert calls["pointwise", "prolixity"] == (40, 40)
    assert calls["pointwise", "assertiveness"] == (0, 40)
    assert calls["pairwise", NONE] == (40, 120)
    assert calls["copies", NONE] == (0, 80)
    assert row(metrics, "tie_rate", protocol="pairwise", group="clean pairs").n_unread == 40
    assert row(metrics, "tie_rate", protocol="pairwise", group="identical texts").n_unread == 0
    at = {"group": "equal modal score", "protocol": "pointwise"}
    assert row(metrics, "flip_rate", attack="prolixity", **at).n_unread == 40
    assert row(metrics, "flip_rate", attack="assertiveness", **at).n_unread == 0
    assert row(metrics, "flip_rate", attack="all distractors", **at).n_unread == 40
    assert row(metrics, "flip_difference", attack="prolixity", group="equal modal score").n_unread == 80
    assert metrics[metrics["metric"] != "rewritings_left_out"]["n_unread"].notna().all()
    found = as_json(arena, VIEW, (), 1, 16.0)
    told = {(e["protocol"], e["distractor"]): e["unread"] for e in found["unread"]}
    assert told == {key: unread for key, (unread, _) in calls.items()}
    assert (
        "pointwise lost 100 % in the arm prolixity (40 of 40), 0 % in the arm none (0 of 40)" in found["unread_warning"]
    )
    assert "copies" not in found["unread_warning"]


def test_where_all_is_read_there_is_no_warning(settings):
    _, metrics, arena = ran(settings, "planted:assertiveness", made(2), distractors=("assertiveness",))
    assert unread_warning(calls_by_arm(arena)) == ""
    assert set(metrics[metrics["metric"] == "flip_rate"]["n_unread"]) == {0}


def test_the_command_prints_unread_calls(capsys, settings, monkeypatch):
    """A server that gives no grade to one in five prompts."""
    asked = []

    def says(prompt):
        asked.append(prompt)
        return "I cannot rate this." if len(asked) % 5 == 0 else {"A": 0.7, "B": 0.3} if "Response B" in prompt else "3"

    path = settings.data_dir / "replies.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    made(4).responses.assign(context="Say it.").to_csv(path, index=False)
    with serving(says, monkeypatch):
        code = main([*command(SPEC, path, "text"), "--set", "boards=[]", "--json"])
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert code == 0
    assert sum(one["unread"] for one in found["unread"]) > 0
    assert "unread: " in out
    assert ("Arms differ in unread verdicts" in out) == bool(found["unread_warning"])


EVEN = 2
"""An outcome of `played`: every other item for the first, the rest for the second."""


def played(outcomes, systems):
    """An arena of 20 items, on each of which the named pairs of systems met; 1: the first won."""
    kept = [
        {"response_id": f"{s}{i}", "item_id": f"i{i}", "system": s, "style": arm, "strength": 1.0, "rewriter": "rules",
         "text": "x", "kept": 1}
        for arm in (NONE, "assertiveness") for i in range(20) for s in systems
    ]  # fmt: skip
    rows = [
        {"verdict_id": f"{a}{b}{i}{order}", "judge": "j", "protocol": "pairwise", "item_id": f"i{i}", "order": order,
         "response_id": f"{a}{i}", "response_b": f"{b}{i}", "attack": NONE, "defense": NONE, "outcome": "a",
         "p_tie": 0.0, "p_a": float(i % 2 if won == EVEN else won)}
        for (a, b), won in outcomes.items() for i in range(20) for order in ("ab", "ba")
    ]  # fmt: skip
    return build_arena(VERDICTS.conform(pd.DataFrame(rows)), VARIANTS.conform(pd.DataFrame(kept)))


def test_ratings_held_finite_by_added_ties_say_so():
    """A and B beat C and D always, and are even among themselves: nobody is without a loss, and yet none is finite."""
    outcomes = {("A", "B"): EVEN, ("C", "D"): EVEN} | {(a, b): 1 for a in "AB" for b in "CD"}
    arena = played(outcomes, "ABCD")
    [found] = boards_of(arena, VIEW, ("assertiveness",), 0, 16.0)
    assert found.before.connections.degenerate == ()
    said = board_problems(found, arena.systems)
    assert [
        s.startswith(f"{when} the rewriting some systems won all")
        for s, when in zip(said, ("before", "after"), strict=True)
    ]
    told = as_json(arena, VIEW, ("assertiveness",), 0, 16.0)["connections"]
    assert told[0]["before"]["finite_without_added_ties"] is False
    assert told[0]["problems"] == said


def test_systems_that_never_met_and_absent_ones_are_named():
    arena = played({("A", "B"): EVEN, ("C", "D"): EVEN}, "ABCDE")
    [found] = boards_of(arena, VIEW, ("assertiveness",), 0, 16.0)
    said = " ".join(board_problems(found, arena.systems))
    assert "E took part in no comparison" in said
    assert "2 groups of systems never met (A, B | C, D)" in said
    [told] = as_json(arena, VIEW, ("assertiveness",), 0, 16.0)["connections"]
    assert told["groups"] == [["A", "B"], ["C", "D"]]
    assert told["absent"] == ["E"]


def test_a_system_that_never_lost_is_named_before_and_after():
    arena = played({("A", "B"): 1, ("A", "C"): 1, ("B", "C"): EVEN}, "ABC")
    [found] = boards_of(arena, VIEW, ("assertiveness",), 0, 16.0)
    said = board_problems(found, arena.systems)
    assert [s.split(" never lost")[0] for s in said] == ["before the rewriting A", "after the rewriting A"]


def test_the_command_says_why_there_is_no_rank_and_no_interval(capsys, settings):
    """Two pairs of systems on items of their own; the judge that always says A makes all items alike."""
    path = settings.data_dir / "islands.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"item_id": f"{pair}{i}", "system": s, "context": "Say it.", "response": f"The answer of {s} to {i} is long."}
        for pair in ("ab", "cd") for s in pair for i in range(4)
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(path, index=False)
    code = main([*command("planted:position?strength=1", path, "response"), "--json"])
    out = capsys.readouterr().out
    assert code == 0
    assert "rank none -> none" in out
    assert "2 groups of systems never met (a, b | c, d), so there are no ranks at all." in out
    assert "nan" not in "".join(line for line in out.splitlines()[:-1]).lower()
    assert "first slot 1.000 [" in out


def test_a_rate_without_an_interval_says_why(capsys, settings):
    """Every comparison in both orders gives the first slot exactly half, item by item."""
    path = settings.data_dir / "alike.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    made(6).responses.assign(context="Say it.").to_csv(path, index=False)
    code = main(command("planted:assertiveness", path, "text"))
    out = capsys.readouterr().out
    assert code == 0
    assert "first slot 0.500 (no interval: one item, or all items alike) n 72" in out
    assert "if every comparison were a coin toss" in out


def test_rankings_of_another_criterion_are_not_asked(settings, monkeypatch):
    """No built-in card ranks by instruction following."""
    config = ProtocolsConfig(
        judge=SPEC, data="x", rankings=True, distractors=("assertiveness",), boards=(), placebo=False, copies=False,
        criterion="instruction following",
    )  # fmt: skip
    run = create_run(settings.runs, "protocols", config.model_dump(mode="json"))
    with serving(ranked_by(lambda shown, i: -shown[i]), monkeypatch) as seen:
        run_protocols(config, ranked_data(), make_judge(SPEC, settings), run, settings, no_checkpoint)
    assert not any("Rank the responses" in prompt for prompt in seen)
    assert "no ranking prompt of the variant instruction following" in run.manifest()["skipped"]["ranking"]
    assert choice_sets(build_arena(run.table("verdicts"), run.table("variants"))) == []


def test_the_chosen_margin_is_in_the_table_and_named(settings):
    _, metrics, arena = ran(settings, "planted:assertiveness", distractors=("assertiveness",), tie_margin=0.3)
    words = "expected scores within 0.3"
    own = row(metrics, "flip_rate", protocol="pointwise", attack="assertiveness", group=words)
    view = ProtocolsConfig(judge="j", data="d", tie_margin=0.3).view
    told = as_json(arena, view, ("assertiveness",), 3, 16.0)
    assert own.value == told["flips_by_distractor"][1]["flip_rate"]["pointwise"]["value"]
    assert row(metrics, "tie_rate", protocol="pointwise", group=f"clean pairs, ties: {words}").n == 60
    assert len(metrics[(metrics["metric"] == "rating_after") & (metrics["group"] == f"s1, ties: {words}")]) == 1
    assert row(metrics, "rating_after", protocol="pairwise", group="s1").n > 0
    plain = metrics_of(arena, VIEW, (), 1, 16.0)
    assert not plain["group"].fillna("").str.contains("within").any()


def test_the_same_systems_are_rewritten_for_both_protocols(settings):
    _, metrics, arena = ran(settings, "planted:assertiveness?strength=0.5&points=0.5", made(12), lowest=1)
    found = as_json(arena, VIEW, ("assertiveness",), 1, 16.0)
    pairwise = [e["system"] for e in found["ratings"] if e["distracted"] and e["protocol"] == "pairwise"]
    same = found["ratings_same_systems"]
    assert {e["protocol"] for e in same} == {"pointwise"}
    assert [e["system"] for e in same if e["distracted"]] == pairwise
    for entry in same:
        own = row(metrics, "rating_shift_same_systems", protocol="pointwise", group=entry["system"])
        assert own.value == pytest.approx(entry["shift"])
    assert (
        as_json(ran(settings, "planted:verbosity")[2], VIEW, ("assertiveness",), 1, 16.0)["ratings_same_systems"] == []
    )


def test_the_headline_of_the_command_is_less_the_placebo(settings, capsys):
    _, _, arena = ran(settings, "planted:assertiveness", made(12), distractors=("assertiveness",))
    found = as_json(arena, VIEW, (), 1, 16.0)
    assert found["p_value_of"] == NET
    assert found["p_value"] == found["difference_minus_placebo"]["p_value"]
    by_arm = {e["distractor"]: e for e in found["flips_by_distractor"]}
    assert by_arm["neutral"]["p_value_of"] == RAW  # less itself it would be zero by construction
    assert by_arm["neutral"]["difference_minus_placebo"] is None
    bare = ran(settings, "planted:assertiveness", made(4), distractors=("assertiveness",), placebo=False)[2]
    alone = as_json(bare, VIEW, (), 1, 16.0)
    assert (alone["p_value_of"], alone["p_value"]) == (RAW, alone["difference"]["p_value"])
    assert alone["difference_minus_placebo"] is None


def test_what_each_label_stands_for_is_in_the_manifest(settings, monkeypatch):
    """A judge with cards writes down what each label stands for; one without has numbers for labels."""
    with serving(lambda prompt: {"3": 0.9, "4": 0.1} if "core" in prompt else {"A": 0.6, "B": 0.4}, monkeypatch):
        config = ProtocolsConfig(judge=SPEC, data="x", distractors=(), boards=(), placebo=False, copies=False)
        run = create_run(settings.runs, "protocols", config.model_dump(mode="json"))
        run_protocols(config, ranked_data(), make_judge(SPEC, settings), run, settings, no_checkpoint)
    assert run.manifest()["judge"]["values"] == [1, 2, 3, 4, 5]
    assert ran(settings, "planted:assertiveness", made(2))[0].manifest()["judge"]["values"] == []
