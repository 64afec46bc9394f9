"""Examples: targets are distributions, pairs are mirrored, prompts are the cards', dresses keep the words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.inference.chat import render_ids
from engine.inference.scoring import label_tokens
from engine.judges.cards import fill
from engine.training import corrupt
from engine.training.compose import POOLS, compose, encode
from engine.training.config import TrainingConfig
from engine.training.examples import load_asker, nearest_anchors, softened, spread
from engine.training.heldout import Side
from engine.training.material import load_material
from engine.training.style import Dress, dressed_dialogue, ordinary, recased, tokenised

VALUES = (1, 2, 3, 4, 5)


@pytest.fixture(scope="module")
def asker(request):
    from engine.core.settings import get_settings

    return load_asker(get_settings().assets / "cards")


@given(st.floats(-2, 8))
def test_a_rating_becomes_a_distribution_with_that_mean(rating):
    target = spread(rating, VALUES)
    assert sum(target) == pytest.approx(1)
    assert np.dot(target, VALUES) == pytest.approx(min(max(rating, 1), 5))
    assert sum(t > 0 for t in target) <= 2


def test_votes_are_softened_and_still_sum_to_one():
    assert sum(softened((1.0, 0.0, 0.0), 0.1)) == pytest.approx(1)
    assert softened((1.0, 0.0, 0.0), 0.3) == pytest.approx((0.8, 0.1, 0.1))


def test_a_pair_comes_in_both_orders_with_the_target_mirrored(asker):
    first, second = asker.both_orders("p", "c", (0.7, 0.2, 0.1), "Name a river.", "The Nile.", "A dog.")
    assert (first.target, second.target) == ((0.7, 0.2, 0.1), (0.2, 0.7, 0.1))
    assert first.user.index("The Nile.") < first.user.index("A dog.")
    assert second.user.index("A dog.") < second.user.index("The Nile.")


def test_prompts_are_the_cards_own(asker):
    slots = {"context": "A: Hi {response}", "response": "Hello."}
    (one,) = asker.score("p", "c", "dialogue", 3.0, **slots)
    assert one.user == fill(asker.cards["dialogue"].user, slots)
    assert "A: Hi {response}" in one.user


def test_every_card_has_one_token_answers(asker, tokenizer):
    for card in asker.cards.values():
        tokens = label_tokens(tokenizer, card.labels, card.spellings)
        assert all(
            tokenizer.encode(label, add_special_tokens=False)[0] in ids
            for label, ids in zip(card.labels, tokens.ids, strict=True)
        )


def test_anchors_are_the_texts_rated_nearest_two_and_four():
    others = [("a", 1.2), ("b", 2.1), ("c", 3.9), ("d", 5.0), ("", 2.0)]
    assert nearest_anchors(others) == ("b", "c")
    assert nearest_anchors([("a", 3.0)]) is None
    assert nearest_anchors([("a", 3.0), ("b", 3.0)]) is None


@pytest.mark.parametrize("name", sorted(corrupt.BROKEN))
@pytest.mark.parametrize("text", ["", "Yes", "I like the old town very much, and you?"])
def test_corruptions_take_any_text(name, text):
    assert isinstance(corrupt.BROKEN[name](text, np.random.default_rng(0)), str)
    assert 1 <= corrupt.BROKEN_TARGET[name] <= 2


def test_scrambling_keeps_the_words():
    text = "I like the old town very much"
    assert sorted(corrupt.scrambled(text, np.random.default_rng(1)).split()) == sorted(text.split())


def test_tokenised_text_becomes_ordinary():
    text = "i do n't know , it 's 5 . 5 miles . \" really ? \" he said ."
    assert ordinary(text) == "I don't know, it's 5.5 miles. \"Really?\" he said."
    assert tokenised("I don't know, it's Tom's.") == "i do n't know , it 's tom 's ."
    assert recased("we met in leeds", {"leeds": "Leeds"}) == "we met in Leeds"


def test_the_reply_belongs_to_the_first_speaker():
    lines = dressed_dialogue(["hi .", "hello ."], Dress.MARKED, ("A", "B"), "tokenised").split("\n")
    assert lines == ["A: Hi.", "B: Hello."]
    assert dressed_dialogue(["hi ."], Dress.MARKED, ("A", "B"), "tokenised") == "B: Hi."


def test_the_mix_must_name_known_pools():
    with pytest.raises(InputError, match="nonsense"):
        compose(TrainingConfig(seeds=(0,), mix={"nonsense": 1.0}), None, None)


def test_every_pool_makes_distributions_over_its_cards_labels(data, asker, tokenizer):
    from engine.core.settings import get_settings

    material = load_material(data, get_settings().assets, (Side.TRAIN,))
    config = TrainingConfig(seeds=(0,), mix=dict.fromkeys(POOLS, 0.02))
    units = compose(config, material, asker)
    assert {unit[0].pool for unit in units} == set(POOLS)
    for one in (one for unit in units for one in unit):
        assert sum(one.target) == pytest.approx(1)
        assert len(one.target) == len(asker.cards[one.card].labels)
        assert min(one.target) >= 0
    assert units == compose(config, material, asker)
    kept, left_out = encode(units[:5], asker.cards, tokenizer, 8000)
    assert (len(kept), left_out.total()) == (5, 0)
    for unit, coded in zip(units, kept, strict=False):
        assert list(coded[0].ids) == render_ids(tokenizer, asker.cards[unit[0].card].system, unit[0].user)
