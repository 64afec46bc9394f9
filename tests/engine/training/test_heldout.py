"""The held-out rule: nothing of the test side, and nothing of LLMBar, reaches training."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.training.config import read_config
from engine.training.heldout import (
    Side,
    near_duplicates,
    same_text,
    side_of_number,
    side_of_prompt,
    side_of_question,
)
from engine.training.material import load_material
from engine.training.sources import (
    Pair,
    llmbar_prompts,
    read_dialogues,
    read_pairs,
    read_recorded_pairs,
    read_solutions,
    read_written,
    related_dialogues,
    without_straddlers,
)

from .conftest import ASSETS  # noqa: TID252 - test helpers of this folder


@pytest.mark.parametrize(
    ("number", "side"),
    [
        (0, Side.TEST),
        (5, Side.TEST),
        (95, Side.TEST),
        (1, Side.TUNE),
        (56, Side.TUNE),
        (2, Side.TRAIN),
        (99, Side.TRAIN),
    ],
)
def test_numbers_are_split_by_their_residue(number, side):
    assert side_of_number(number) is side


@pytest.mark.parametrize(
    ("number", "side"), [(1000, Side.TEST), (1318, Side.TEST), (1001, Side.TEST), (1, Side.TUNE), (0, Side.TRAIN)]
)
def test_questions_from_1000_on_are_the_test_side(number, side):
    assert side_of_question(number) is side


def test_prompts_are_split_by_md5():
    for prompt in ("", "Name a river.", "Größe"):
        residue = int(hashlib.md5(prompt.encode()).hexdigest(), 16) % 5
        assert side_of_prompt(prompt) is side_of_number(residue)


def pair(prompt: str, side: Side, material: str = "") -> Pair:
    return Pair("1", "s", side, prompt, material, "x", "y", (1.0, 0.0, 0.0), "a")


def test_a_prompt_that_stands_on_two_sides_is_left_out():
    train, test = pair("Name a river.", Side.TRAIN), pair("name  a RIVER.", Side.TEST)
    other = pair("Explain tides.", Side.TRAIN)
    assert without_straddlers([train, other], [train, other, test], frozenset()) == [other]


def test_shared_material_and_forbidden_prompts_are_left_out():
    train, test = pair("Shorten.", Side.TRAIN, "A long text."), pair("Translate.", Side.TEST, "a long text.")
    other = pair("Explain tides.", Side.TRAIN)
    every = [train, test, other]
    assert without_straddlers([train, other], every, frozenset({same_text("Explain tides.")})) == []


def test_the_recipe_refuses_the_test_side(tmp_path):
    text = (ASSETS / "training" / "judge.toml").read_text(encoding="utf-8")
    bad = tmp_path / "bad.toml"
    bad.write_text(text.replace('sides = ["train"', 'sides = ["test", "train"'), encoding="utf-8")
    with pytest.raises(InputError, match="test side"):
        read_config(bad)


@pytest.mark.parametrize("sides", [(Side.TRAIN,), (Side.TRAIN, Side.TUNE)], ids=["tuning", "final"])
def test_nothing_held_out_is_in_the_material(data, sides):
    material = load_material(data, ASSETS, sides)
    rated = [*material.summaries, *material.dialogues]
    numbers = {int(r.cluster.split(":")[1]) for r in rated}
    assert {n % 5 for n in numbers}.isdisjoint({0} if Side.TUNE in sides else {0, 1})
    records = [*rated, *material.pairs, *material.recorded, *material.rules, *material.solutions, *material.written]
    assert {r.side for r in records} == set(sides)
    assert all(s.number < 1000 for s in material.solutions)
    held = {
        same_text(p.prompt)
        for p in [*read_pairs(data), *read_recorded_pairs(data, "gpt-4-0613")]
        if p.side not in sides
    }
    assert not held & {same_text(p.prompt) for p in [*material.pairs, *material.recorded]}
    assert len(material.summaries) == (1280 if Side.TUNE in sides else 960)


def test_llmbar_is_absent_from_the_material(data):
    material = load_material(data, ASSETS, (Side.TRAIN, Side.TUNE))
    prompts = {same_text(p.prompt) for p in [*material.pairs, *material.recorded]}
    assert not prompts & llmbar_prompts(data)
    assert {p.subset for p in material.pairs} == {"PandaLM", "FairEval", "LLMEval^2", "MT-Bench"}


def test_two_points_of_one_conversation_do_not_straddle(data):
    dialogues = read_dialogues(data)
    openings = {d.cluster: same_text(d.context.split("\n")[0]) for d in dialogues}
    trained = {d.cluster for d in load_material(data, ASSETS, (Side.TRAIN,)).dialogues}
    held = {openings[d.cluster] for d in dialogues if d.side is not Side.TRAIN}
    assert trained
    assert not {openings[c] for c in trained} & held
    assert related_dialogues(dialogues)["topicalchat:57"] == {Side.TEST, Side.TRAIN}


def test_the_data_have_the_sizes_the_model_card_names(data):
    assert len([s for s in read_solutions(data) if s.side is Side.TEST]) == 1276
    pairs = [p for p in read_pairs(data) if p.side is Side.TEST]
    assert (len(pairs), sum(p.human == "tie" for p in pairs)) == (255, 17)


def test_written_dialogues_are_not_the_demo_dialogues():
    demo = (ASSETS / "demo" / "dialogue" / "items.csv").read_text(encoding="utf-8")
    for one in read_written(ASSETS / "training" / "dialogues.jsonl"):
        assert not any(turn in demo for turn in one.turns)


def test_a_near_duplicate_shares_most_of_its_words():
    trained = ["Summarize the following content about the football match in Rome", "Name a river"]
    held = [
        "summarize the following content, about the football match in Paris!",  # 9 of 11 words
        "Summarize the content of this letter to the mayor",
        "name a  RIVER",
        "",
    ]
    assert near_duplicates(held, trained) == {held[0], held[2]}
    assert near_duplicates(held, trained, 1.0) == {held[2]}
    assert near_duplicates(held, []) == frozenset()


@given(st.lists(st.text("ab c", max_size=8), max_size=6), st.lists(st.text("ab c", max_size=8), max_size=6))
def test_near_duplicates_are_those_that_brute_force_finds(held, trained):
    def jaccard(a, b):
        one, two = set(a.split()), set(b.split())
        return len(one & two) / len(one | two) if one | two else 0.0

    found = {t for t in held if t.strip() and any(b.strip() and jaccard(t, b) >= 0.7 for b in trained)}
    assert near_duplicates(held, trained) == found
