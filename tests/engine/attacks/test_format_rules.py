"""Format rules on literal cases: each rule with a text that meets it and one that does not."""

from __future__ import annotations

import pytest

from engine.attacks.format_rules import ARGUMENTS, CHECKERS, check_rule, holds, rule_met, sentence_count, words_of
from engine.core.errors import InputError

CASES = [
    ("punctuation:no_comma", {}, "One two.", "One, two."),
    ("length_constraints:number_words", {"relation": "at least", "num_words": 3}, "a b c", "a b"),
    ("length_constraints:number_words", {"relation": "less than", "num_words": 3}, "a b", "a b c"),
    ("length_constraints:number_sentences", {"relation": "less than", "num_sentences": 2}, "One. ", "One. Two."),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One.\n***\nTwo.", "One.\n\nTwo."),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        "First.\n\nThen second.",
        "Then first.\n\nSecond.",
    ),
    ("keywords:existence", {"keywords": ["mom", "sea"]}, "Mom by the sea", "Mom by the seaside"),
    ("keywords:forbidden_words", {"forbidden_words": ["rock"]}, "a rocket", "a Rock."),
    ("keywords:frequency", {"relation": "at least", "keyword": "war", "frequency": 2}, "War and war", "War and warm"),
    ("keywords:letter_frequency", {"let_relation": "less than", "letter": "t", "let_frequency": 2}, "a T", "at it"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a b* and *c*", "*a b* and c"),
    ("detectable_format:title", {}, "<<My title>>\nText", "My title\nText"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n* b", "* a\n* b\n* c"),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "SECTION", "num_sections": 2},
        "SECTION 1\na\nSECTION 2\nb",
        "SECTION 1\na",
    ),
    ("detectable_format:constrained_response", {}, "My answer is maybe.", "Maybe."),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "Dear [name],", "Dear name,"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\nP.S. Write.", "Bye. Write."),
    ("startend:quotation", {}, '"All of it."', '"Some" of it.'),
    ("startend:end_checker", {"end_phrase": "That is all."}, "Yes. That is all.", "That is all. Yes."),
    ("change_case:english_capital", {}, "LOUD 1!", "LOUD i"),
    ("change_case:english_lowercase", {}, "quiet 1!", "Quiet"),
    (
        "change_case:capital_word_frequency",
        {"capital_relation": "at least", "capital_frequency": 2},
        "AN IDEA here",
        "An IDEA here",
    ),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi."}, "Say  hi.\n\nHi!", "Hi! Say hi."),
    ("combination:two_responses", {}, "One.\n******\nTwo.", "One.\n******\nOne."),
]


@pytest.mark.parametrize(("rule", "arguments", "good", "bad"), CASES)
def test_each_rule_tells_a_good_from_a_bad_case(rule, arguments, good, bad):
    assert rule_met(rule, arguments, good)
    assert not rule_met(rule, arguments, bad)


def test_every_checker_has_a_case():
    assert {c[0] for c in CASES} == set(CHECKERS)


@pytest.mark.parametrize(("rule", "arguments"), [c[:2] for c in CASES])
def test_each_argument_that_a_case_gives_is_needed(rule, arguments):
    check_rule(rule, arguments)
    assert set(ARGUMENTS.get(rule, {})) == set(arguments)
    for name in arguments:
        with pytest.raises(InputError, match=f"{rule} needs the argument '{name}'"):
            check_rule(rule, {k: v for k, v in arguments.items() if k != name})


def test_a_relation_is_one_of_two():
    assert (holds(3, "at least", 3), holds(3, "less than", 3)) == (True, False)
    with pytest.raises(InputError, match=r"'at most' is unknown\. Allowed: at least, less than"):
        holds(2, "at most", 3)


@pytest.mark.parametrize("rule", sorted(CHECKERS))
def test_no_rule_fails_on_an_empty_text(rule):
    arguments = next(c[1] for c in CASES if c[0] == rule)
    assert rule_met(rule, arguments, "") in {True, False}


def test_words_and_sentences():
    assert words_of("It's a well-known fact, isn't it?") == ["It's", "a", "well-known", "fact", "isn't", "it"]
    assert (sentence_count("One. Two! Three"), sentence_count("v1.5 is out."), sentence_count("")) == (3, 1, 0)
