"""Retokenisation cuts words and nothing else, always alike."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from engine.core.errors import WeightsError
from engine.core.schema import Order, Protocol, Task
from engine.core.settings import get_settings
from engine.defenses.prompting import read_merges, retokenised
from engine.defenses.registry import defend
from engine.judges.base import Candidate, Request, Verdict

MERGES = read_merges(get_settings().assets / "judge" / "tokenizer.json")


@profile(deadline=None)  # two cores are often shared
@given(st.text(), st.sampled_from([0.0, 0.1, 1.0]), st.integers(0, 5))
def test_only_spaces_are_added_and_only_inside_words(text, rate, seed):
    cut = retokenised(text, MERGES, rate, seed)
    assert cut.replace(" ", "") == text.replace(" ", "")
    assert re.sub(r"(?<=[^\W\d_]) (?=[^\W\d_])", "", cut) == re.sub(r"(?<=[^\W\d_]) (?=[^\W\d_])", "", text)
    assert retokenised(text, MERGES, rate, seed) == cut


def test_rates_at_both_ends():
    assert retokenised("We sat by the window at 10:45.", MERGES, 0.0) == "We sat by the window at 10:45."
    assert retokenised("to 12.50 café", MERGES, 1.0) == "t o 12.50 c a f é"


def test_a_higher_rate_cuts_more_and_another_seed_elsewhere():
    text = "Most evenings we talked about the garden and the weather of the week before. " * 5
    counts = [len(retokenised(text, MERGES, rate).split()) for rate in (0.0, 0.1, 0.5, 1.0)]
    assert counts == sorted(set(counts))
    assert retokenised(text, MERGES, 0.1, 0) != retokenised(text, MERGES, 0.1, 1)


def test_plain_bpe_gives_the_tokenizer_s_own_pieces():
    from tokenizers import Tokenizer

    own = Tokenizer.from_file(str(get_settings().assets / "judge" / "tokenizer.json"))
    for word in ("evening", "superexcellently", "projournalistic", "uncontradictedly", "congruity"):
        cut = retokenised(f"a {word}", MERGES, 0.0).split()[1:]
        assert cut == [t.removeprefix("Ġ") for t in own.encode(f" {word}", add_special_tokens=False).tokens]


def test_one_word_of_the_longest_cell_is_cut():
    """Its time must grow with its length alone: with its square, this test would take many minutes."""
    cut = retokenised("a" * 50_000, MERGES, 0.1)
    assert cut.replace(" ", "") == "a" * 50_000


def test_every_candidate_is_cut_and_nothing_else():
    class Seen:
        def judge(self, requests, checkpoint=None):
            self.requests = requests
            return [Verdict() for _ in requests]

    judge = Seen()
    pair = Request(
        "i", "r", Task.DIALOGUE, "some context", "first text", reference="the reference",
        protocol=Protocol.PAIRWISE, response_b_id="s", response_b="second text", order=Order.AB,
    )  # fmt: skip
    ranking = replace(pair, protocol=Protocol.RANKING, others=(Candidate("t", "third text"),))
    defend(judge, "retokenise?rate=1").judge([pair, ranking])
    one, many = judge.requests
    assert (one.response, one.response_b) == ("f i r s t t e x t", "s e c o n d t e x t")
    assert (one.context, one.reference) == ("some context", "the reference")
    assert many.others == (Candidate("t", "t h i r d t e x t"),)


def test_a_missing_tokenizer_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"tokenizer\.json cannot be read"):
        read_merges(tmp_path / "tokenizer.json")
