"""Modal scores are scores on the card's scale, whatever the order and spacing of its labels."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import NONE, VARIANTS, VERDICTS, Protocol
from engine.stats.arena import build_arena, label_values
from engine.studies.protocols.metrics import TieRule, View, outcomes

MODAL, EXPECTED = View(), View(TieRule(0.0))


def variants(n_items, systems="ab"):
    rows = [
        {"response_id": f"{s}{i}", "item_id": f"i{i}", "system": s, "style": NONE, "strength": 0.0, "rewriter": "rules",
         "text": "x", "kept": 1}
        for i in range(n_items)
        for s in systems
    ]  # fmt: skip
    return VARIANTS.conform(pd.DataFrame(rows))


def scored(answers):
    """One row of `verdicts` for each response: its score, and the probabilities of the labels or None."""
    rows = [
        {"verdict_id": f"v{k}", "judge": "j", "protocol": "pointwise", "item_id": f"i{name[1:]}", "response_id": name,
         "attack": NONE, "defense": NONE, "score": score, "probabilities": p}
        for k, (name, (score, p)) in enumerate(answers.items())
    ]  # fmt: skip
    return VERDICTS.conform(pd.DataFrame(rows))


def one_hot(place, n=5):
    return [0.9 if k == place else 0.1 / (n - 1) for k in range(n)]


def test_labels_listed_best_first_do_not_turn_the_outcomes_round():
    """A card with the labels 5, 4, 3, 2, 1: a is rated 5, b is rated 1."""
    answers = {"a0": (4.75, one_hot(0)), "b0": (1.25, one_hot(4)), "a1": (3.9, one_hot(1)), "b1": (4.1, one_hot(1))}
    arena = build_arena(scored(answers), variants(2), (5, 4, 3, 2, 1))
    assert outcomes(arena, Protocol.POINTWISE, MODAL)[:, 0].tolist() == [1, 0]
    assert outcomes(arena, Protocol.POINTWISE, EXPECTED)[:, 0].tolist() == [1, -1]


def test_a_score_between_labels_is_compared_on_the_scale():
    """A card that takes decimals: "4" has probabilities, "3.5" has none."""
    answers = {"a0": (4.0, one_hot(3)), "b0": (3.5, None), "a1": (2.5, None), "b1": (3.0, one_hot(2))}
    arena = build_arena(scored(answers), variants(2), (1, 2, 3, 4, 5))
    assert arena.modal[NONE].tolist() == [[4.0, 3.5], [2.5, 3.0]]
    assert outcomes(arena, Protocol.POINTWISE, MODAL)[:, 0].tolist() == [1, -1]


def test_uneven_values_and_ties_of_two_labels():
    answers = {"a0": (7.0, [0.1, 0.2, 0.7]), "b0": (5.0, [0.4, 0.4, 0.2])}
    arena = build_arena(scored(answers), variants(1), (10, 0, 3))
    assert arena.modal[NONE].tolist() == [[3.0, 0.0]]  # of two alike the lower one, wherever it is listed


@pytest.mark.parametrize(
    ("judge", "values"),
    [
        ({"labels": ["1", "2", "3"]}, (1, 2, 3)),  # a run made before the values were written down
        ({"labels": ["bad", "good"], "values": [0, 10]}, (0, 10)),
        ({"labels": ["bad", "good"]}, ()),
        ({}, ()),
    ],
)
def test_values_come_from_the_manifest(judge, values):
    assert label_values(judge) == values


def test_a_winner_that_is_none_of_the_three_is_refused():
    rows = pd.DataFrame(
        {"verdict_id": ["v"], "judge": ["j"], "protocol": ["pairwise"], "item_id": ["i0"], "response_id": ["a0"],
         "response_b": ["b0"], "order": ["ab"], "attack": [NONE], "defense": [NONE], "outcome": ["left"]}
    )  # fmt: skip
    with pytest.raises(InputError, match=r"outcome 'left'; allowed: a, b, tie"):
        VERDICTS.conform(rows)
