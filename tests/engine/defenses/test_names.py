"""Names of defended arms: options are read once, spellings agree, refusals name the range."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.defenses.cards import DEFENSES, defense_name, parse_defense
from engine.defenses.registry import describe_defense


@given(
    st.one_of(
        st.sampled_from(list(DEFENSES)),
        st.builds("perplexity?threshold={:f}&window={}".format, st.floats(1, 1e9), st.integers(0, 4096)),
        st.builds("retokenise?rate={:.3f}&seed={}".format, st.floats(0, 1), st.integers(0, 2**31 - 1)),
        st.builds("detector?threshold={:.4f}".format, st.floats(0, 1)),
    )
)
def test_a_name_is_read_back(written):
    parsed = parse_defense(written)
    assert parse_defense(parsed.name) == parsed


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("none", "none"),
        ("none+delimiters", "delimiters"),
        ("perplexity?window=0", "perplexity"),
        ("perplexity?window=16&threshold=120", "perplexity?threshold=120&window=16"),
        ("perplexity?threshold=360", "perplexity"),
        ("perplexity?threshold=1800&window=8", "perplexity?window=8"),
        ("retokenise?rate=0.10+detector?threshold=0.43", "retokenise+detector"),
        ("perplexity?threshold=1000000000.0", "perplexity?threshold=1000000000"),
        ("retokenise?seed=2147483647", "retokenise?seed=2147483647"),
    ],
)
def test_spellings_of_one_arm_agree(written, name):
    assert defense_name(written) == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("shield", "Unknown defense 'shield'. Available: none, delimiters, sandwich"),
        ("delimiters?x=1", "has no option 'x'. Nothing may follow delimiters"),
        ("perplexity?threshold=0", "threshold (1 to 1,000,000,000, default 360)"),
        ("perplexity?threshold=nan", "threshold cannot be 'nan'"),
        ("perplexity?threshold=9&window=2.5", "window (whole number 0 to 4,096, default 0)"),
        ("perplexity?window=12", "measured for the windows 0, 8, 16 only"),
        ("perplexity?threshold=9&threshold=8", "sets threshold twice"),
        ("perplexity?", "sets no option after the question mark"),
        ("perplexity?abc", "has no option 'abc'"),
        ("retokenise?rate=1.5", "rate (0 to 1, default 0.1)"),
        ("sandwich+sandwich", "has sandwich twice"),
        ("sandwich+", "Unknown defense ''"),
    ],
)
def test_a_wrong_name_is_refused_with_what_is_allowed(name, says):
    with pytest.raises(InputError) as error:
        defense_name(name)
    assert says in str(error.value)


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_a_clear_refusal(text):
    with contextlib.suppress(InputError):
        assert defense_name(defense_name(text)) == defense_name(text)


def test_a_described_arm_names_its_options():
    assert describe_defense("delimiters") is DEFENSES["delimiters"]
    assert describe_defense("perplexity?window=8").title == "Windowed perplexity"
    assert describe_defense("perplexity?threshold=99").title == "Perplexity (threshold 99)"
    joined = describe_defense("retokenise+perplexity")
    assert joined.title == "Retokenisation + Perplexity"
    assert joined.needs_weights


@pytest.mark.parametrize("card", list(DEFENSES.values())[1:], ids=lambda c: c.name)
def test_each_defense_has_a_source_and_its_own_name(card):
    assert card.source
    assert defense_name(card.name) == card.name
