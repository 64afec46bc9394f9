"""One name per arm: what is written is read back, options at their defaults are left out."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.attacks.cards import ATTACKS, PHRASES, AttackName, longest, parse_attack
from engine.core.errors import InputError


@st.composite
def attack_names(draw):
    card = draw(st.sampled_from(list(ATTACKS.values())))
    phrase = draw(st.sampled_from(card.phrases)) if card.phrases else ""
    length = 0
    if card.lengths:
        length = draw(st.integers(card.lengths[0], longest(phrase) if phrase else card.lengths[1]))
    deflate = card.has_direction and draw(st.booleans())
    before = draw(st.booleans()) if card.has_position else card.before
    return AttackName(card.name, deflate, before, length, phrase)


@given(attack_names())
def test_a_name_is_read_back(name):
    assert parse_attack(name.name) == name


def test_different_arms_have_different_names():
    made = [AttackName("suffix", False, b, n, p) for b in (False, True) for p in PHRASES for n in range(longest(p) + 1)]
    assert len({a.name for a in made}) == len(made)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("dsi@after", "dsi"),
        ("dsi-deflate@before", "dsi-deflate@before"),
        ("adaptive@before", "adaptive"),
        ("adaptive@after", "adaptive@after"),
        ("suffix:4", "suffix"),
        ("suffix:0", "suffix:0"),
        ("suffix:greedy-absolute-flant5xl:4", "suffix"),
        ("suffix:topic-greedy-absolute-flant5xl", "suffix:topic-greedy-absolute-flant5xl"),
        ("suffix:greedy-comparative-asym-flant5xl:3", "suffix:greedy-comparative-asym-flant5xl"),
        ("long:8", "long"),
        ("long:128", "long:128"),
    ],
)
def test_spellings_of_one_arm_agree(written, name):
    assert parse_attack(written).name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "Unknown attack ''"),
        ("dsi:3", "'3' is no option of dsi. dsi may be followed by -deflate, then @before"),
        ("suffix:6", "words of the phrase must be 0 to 5"),
        ("suffix:greedy-comparative-asym-flant5xl:4", "must be 0 to 3. greedy-comparative-asym-flant5xl has 3"),
        ("suffix:other:2", "'other' is no option of suffix"),
        ("suffix-deflate", "suffix has no opposite"),
        ("empty@before", "empty has no position. Nothing may follow empty"),
        ("long:1", "copies of the response must be 2 to 128"),
        ("long:129", "must be 2 to 128"),
        ("dsi@middle", "cannot be read. dsi may be followed by"),
        ("DSI", "Unknown attack 'DSI'"),
        ("dsi@before-deflate", "cannot be read"),
    ],
)
def test_a_wrong_name_is_refused_with_what_is_allowed(name, says):
    with pytest.raises(InputError) as error:
        parse_attack(name)
    assert says in str(error.value)


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_a_clear_refusal(text):
    with contextlib.suppress(InputError):
        assert parse_attack(parse_attack(text).name) == parse_attack(text)
