"""The suffix search against brute force through the judge's own verdicts, and the phrase in the judge's own prompt."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from engine.attacks.suffix_search import SearchSettings, SuffixSearch, Vocabulary, vocabulary_of
from engine.core.errors import InputError, ModelError
from engine.core.schema import Protocol, Task
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.defenses.registry import defend
from engine.inference.gradients import vocabulary_scores
from engine.judges.base import Request
from engine.judges.kinds import both_orders
from engine.judges.planted import make_planted
from engine.studies.suffix_targets import PromptCutter, spread_over_items, suffixed

WORDS = ["garden", "river", "excellent", "Number", "window", "green", "purely", "seven"]
REQUESTS = [
    Request("i1", "r1", Task.DIALOGUE, "A: Hello there.", "Good day to you."),
    Request("i2", "r2", Task.DIALOGUE, "A: It rains.\nB: Again?", "Water the plants, then; or not!"),
    Request("i3", "r3", Task.DIALOGUE, "A: Why?", "Because 12 is even "),
]
PAIRS = [
    replace(r, task=Task.INSTRUCTION, protocol=Protocol.PAIRWISE, response_b_id="b", response_b=f"Other {k}.")
    for k, r in enumerate(REQUESTS)
]


@pytest.fixture
def vocabulary(wordy):
    return vocabulary_of(wordy.tokenizer, WORDS)


def make(judge, requests, vocabulary):
    cutter = PromptCutter(judge, requests, vocabulary)
    loaded = judge.loaded if hasattr(judge, "loaded") else judge.inner.loaded
    return cutter, SuffixSearch(loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits)


def mean_score(judge, words):
    return np.mean([v.score for v in judge.judge([suffixed(r, words) for r in REQUESTS])])


def mean_preference(judge, words):
    verdicts = judge.judge([suffixed(r, words) for r in both_orders(PAIRS)])
    return np.mean([v.p_a + v.p_tie / 2 for v in verdicts])


def greedy(value, words, sign=1):
    """The phrase by trying every word at every step."""
    phrase, values = [], [value([])]
    for _ in range(words):
        found = [value([*phrase, w]) for w in WORDS]
        best = int(np.argmax(sign * np.array(found)))
        phrase.append(WORDS[best])
        values.append(found[best])
    return phrase, values


@pytest.mark.parametrize("lower", [False, True])
def test_with_every_word_tried_it_is_the_greedy_search_through_the_judge(wordy_judge, vocabulary, any_coverage, lower):
    _, search = make(wordy_judge, REQUESTS, vocabulary)
    found = search.run(SearchSettings(3, len(WORDS), lower), lambda _: None)
    phrase, values = greedy(lambda words: mean_score(wordy_judge, words), 3, -1 if lower else 1)
    assert list(found.words) == phrase
    np.testing.assert_allclose(found.values, values, atol=1e-4)


def test_pairwise_it_raises_the_preference_averaged_over_orders(wordy_judge, vocabulary, any_coverage):
    cutter, search = make(wordy_judge, PAIRS, vocabulary)
    assert len(cutter.targets) == 2 * len(PAIRS)
    found = search.run(SearchSettings(2, len(WORDS)), lambda _: None)
    phrase, values = greedy(lambda words: mean_preference(wordy_judge, words), 2)
    assert list(found.words) == phrase
    np.testing.assert_allclose(found.values, values, atol=1e-4)


def test_the_phrase_is_read_as_its_own_tokens_inside_every_prompt(wordy_judge, vocabulary):
    cutter, _ = make(wordy_judge, REQUESTS, vocabulary)
    phrase = ["river", "Number", "seven"]
    assert cutter.fits(phrase)
    own = [vocabulary.tokens[vocabulary.words.index(w)] for w in phrase]
    for request, target in zip(REQUESTS, cutter.targets, strict=True):
        written = wordy_judge.token_ids(suffixed(request, phrase))
        assert written == [*target.head, *own, *target.tail]


def test_a_phrase_that_is_read_as_other_tokens_is_not_taken(wordy, wordy_judge, vocabulary, any_coverage):
    _, search = make(wordy_judge, REQUESTS, vocabulary)
    whole = search.run(SearchSettings(1, len(WORDS)), lambda _: None)
    search._fits = lambda words: words[-1] != whole.words[0]
    second = search.run(SearchSettings(1, len(WORDS)), lambda _: None)
    assert second.words != whole.words
    broken = Vocabulary(("river", "seven"), (vocabulary.tokens[0], vocabulary.tokens[1]))
    with pytest.raises(InputError, match="more of this judge's prompt"):
        PromptCutter(wordy_judge, REQUESTS, broken)


def test_candidates_are_those_with_the_largest_first_order_gain(wordy, wordy_judge, any_coverage):
    vocabulary = vocabulary_of(wordy.tokenizer)
    _, search = make(wordy_judge, REQUESTS[:2], vocabulary)
    probes = list(vocabulary.words[:5])
    gains = vocabulary_scores(wordy, search.gradients([], probes).mean(axis=0), vocabulary.tokens)
    chosen = search._candidates(
        [], probes, 7, {vocabulary.words[int(np.argmax(gains))]}, SearchSettings(1, 14), lambda _: None
    )
    order = np.argsort(-gains)[1:8]
    assert chosen == [vocabulary.words[i] for i in order]


def test_the_control_draws_its_candidates(wordy, wordy_judge, any_coverage):
    vocabulary = vocabulary_of(wordy.tokenizer)
    _, search = make(wordy_judge, REQUESTS[:2], vocabulary)
    before = search.queries
    first, again, other = (
        search._candidates([], [], 6, set(), SearchSettings(1, 12, guided=False, seed=k), lambda _: None)
        for k in (0, 0, 1)
    )
    assert first == again != other
    assert search.queries == before
    assert not set(first) & set(
        search._candidates([], [], 6, set(first), SearchSettings(1, 12, guided=False), lambda _: None)
    )


def test_progress_tells_the_best_so_far_and_can_stop_it(wordy_judge, vocabulary, any_coverage):
    cutter, search = make(wordy_judge, REQUESTS, vocabulary)
    told = []
    search.run(SearchSettings(2, 6), told.append)
    assert [(len(p.words), p.chosen) for p in told] == [(0, True), (0, False), (1, True), (1, False), (2, True)]
    assert all(a.queries < b.queries for a, b in pairwise(told))
    tried = [t for p in told for t in p.tried if t.step == 1]
    assert len({t.word for t in tried}) == 6
    assert told[2].values[-1] == max(t.value for t in tried)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SuffixSearch(wordy_judge.loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits).run(
            SearchSettings(1, 2), lambda _: None, stop
        )


def test_a_search_that_stopped_goes_on_behind_its_words(wordy_judge, vocabulary, any_coverage):
    _, search = make(wordy_judge, REQUESTS, vocabulary)
    whole = search.run(SearchSettings(3, len(WORDS)), lambda _: None)
    later = search.run(SearchSettings(3, len(WORDS)), lambda _: None, start=whole.words[:2])
    assert later.words == whole.words
    np.testing.assert_allclose(later.values, whole.values, atol=1e-6)


def test_prompts_without_an_answer_are_no_gain(wordy_judge, vocabulary):
    _, search = make(wordy_judge, REQUESTS, vocabulary)
    values, unread = search.evaluate([["river"]])
    assert np.isnan(values[0])
    assert unread[0] == len(REQUESTS)
    with pytest.raises(ModelError, match="leaves a training prompt unread"):
        search.run(SearchSettings(1, 4), lambda _: None)


def test_through_anchors_the_phrase_stands_behind_the_response_only(wordy_judge, vocabulary, any_coverage):
    source = GivenAnchors("given", {r.item_id: Anchors("low", "high") for r in REQUESTS})
    judge = AnchoredJudge(wordy_judge, "given", source)
    cutter, search = make(judge, REQUESTS, vocabulary)
    value = np.mean([v.score for v in judge.judge([suffixed(r, ["river"]) for r in REQUESTS])])
    assert search.evaluate([["river"]])[0][0] == pytest.approx(value, abs=1e-4)
    assert cutter.fits(["river", "seven"])


def test_a_defense_that_follows_the_text_is_refused(wordy_judge, vocabulary):
    with pytest.raises(InputError, match="delimiters"):
        PromptCutter(defend(wordy_judge, "delimiters"), REQUESTS, vocabulary)


def test_a_judge_without_a_model_is_refused(vocabulary):
    with pytest.raises(InputError, match="white-box"):
        PromptCutter(make_planted("planted:constant"), REQUESTS, vocabulary)


def test_a_card_that_reads_text_is_refused(wordy_judge, vocabulary):
    with pytest.raises(InputError, match="label probabilities"):
        PromptCutter(wordy_judge, [replace(r, variant="cot") for r in REQUESTS], vocabulary)


def test_prompts_longer_than_the_window_are_left_out(wordy_judge, vocabulary):
    long = replace(REQUESTS[0], context="word " * 1100)
    cutter = PromptCutter(wordy_judge, [long, REQUESTS[1]], vocabulary)
    assert [r.response_id for r in cutter.requests] == ["r2"]
    with pytest.raises(InputError, match="window"):
        PromptCutter(wordy_judge, [long], vocabulary)


def test_the_vocabulary_is_words_of_one_token(wordy, tiny):
    found = vocabulary_of(wordy.tokenizer)
    assert len(found.words) == len(set(found.words)) == len(found.tokens) > 10_000
    for word, token in list(zip(*found, strict=True))[::3000]:
        assert wordy.tokenizer.encode(f"The {word}", add_special_tokens=False)[1:] == [token]
    with pytest.raises(ModelError, match="subword"):
        vocabulary_of(tiny("llama").tokenizer)


def test_a_limit_takes_every_item_in_turn():
    rows = [replace(REQUESTS[0], item_id=i, response_id=f"{i}{k}") for i in "abc" for k in range(3)]
    assert [r.response_id for r in spread_over_items(rows, 4)] == ["a0", "a1", "b0", "c0"]
    assert spread_over_items(rows, None) == rows
