"""Equations 4 and 5: written out a second time in numpy, and the identities they must keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.steering.vectors import Editor, Standards, alphas_reaching, edit_of, relative_edits, standards_of

RNG = np.random.default_rng(3)
S = RNG.normal(size=(7, 32)) + 2


def by_hand(s: np.ndarray, standards: Standards, side: str, alpha: float, centre: np.ndarray) -> np.ndarray:
    target = {"high": standards.high, "low": standards.low}[side] - centre
    u = (standards.high - standards.low) / np.linalg.norm(standards.high - standards.low)
    cosine = (s - centre) @ target / np.linalg.norm(s - centre) / np.linalg.norm(target)
    moved = s + {"high": 1, "low": -1}[side] * alpha * (1 - cosine) * u
    return moved * np.linalg.norm(s) / np.linalg.norm(moved)


def edited(rows, standards, form="paper", s=S, dtype=torch.float32):
    hidden = torch.tensor(s, dtype=dtype)
    out, size = Editor(edit_of(standards, rows, form), "cpu").apply(hidden)
    return out, size.numpy()


@pytest.mark.parametrize("form", ["paper", "centred"])
@pytest.mark.parametrize("side", ["high", "low"])
def test_the_edit_is_the_equation_of_its_side(standards, side, form):
    centre = (standards.high + standards.low) / 2 if form == "centred" else np.zeros(32)
    out, size = edited([(side, 3.0)] * 7, standards, form)
    for row, s, relative in zip(out.numpy(), S, size, strict=True):
        wanted = by_hand(s, standards, side, 3.0, centre)
        np.testing.assert_allclose(row, wanted, atol=2e-5)
        assert relative == pytest.approx(np.linalg.norm(wanted - s) / np.linalg.norm(s), abs=1e-5)


@settings(max_examples=30)
@given(alpha=st.floats(0, 1e4), seed=st.integers(0, 999))
def test_length_is_kept_at_any_strength(alpha, seed):
    rng = np.random.default_rng(seed)
    given_standards = Standards(1, *rng.normal(size=(2, 32)), 6.0)
    out, _ = edited([("high", alpha), ("low", alpha)], given_standards, s=S[:2])
    np.testing.assert_allclose(out.norm(dim=1).numpy(), np.linalg.norm(S[:2], axis=1), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_alpha_zero_changes_not_one_bit(standards, dtype):
    out, size = edited([("high", 0.0), ("low", 0.0)], standards, s=S[:2], dtype=dtype)
    assert torch.equal(out, torch.tensor(S[:2], dtype=dtype))
    assert (size == 0).all()


def test_steering_high_with_exchanged_standards_is_steering_low(standards):
    exchanged = Standards(1, standards.low, standards.high, standards.mean_norm)
    for form in ("paper", "centred"):
        np.testing.assert_allclose(
            edited([("high", 5.0)] * 7, standards, form)[0], edited([("low", 5.0)] * 7, exchanged, form)[0], atol=1e-5
        )


def test_a_low_precision_activation_is_edited_in_float32(standards):
    s = torch.tensor(S, dtype=torch.bfloat16)
    out, _ = Editor(edit_of(standards, [("high", 2.0)] * 7), "cpu").apply(s)
    exact, _ = Editor(edit_of(standards, [("high", 2.0)] * 7), "cpu").apply(s.float())
    assert torch.equal(out, exact.bfloat16())


def test_a_common_part_cancels_the_papers_form_and_not_the_centred_one(standards):
    common = 300 * np.ones(32)
    far = Standards(1, standards.high + common, standards.low + common, 1700.0)
    s = S + common
    paper = relative_edits(s, far, "high", [4.0], "paper")[0]
    centred = relative_edits(s, far, "high", [4.0], "centred")[0]
    assert paper < centred / 50


@pytest.mark.parametrize("form", ["paper", "centred"])
def test_the_alpha_for_a_wanted_relative_edit_gives_it(standards, form):
    alphas = alphas_reaching(S, standards, "high", [0.0, 0.1, 0.3], form)
    assert alphas[0] == 0
    np.testing.assert_allclose(relative_edits(S, standards, "high", alphas, form), [0, 0.1, 0.3], rtol=2e-3)


def test_too_few_texts_on_a_side_name_the_side_and_the_remedy():
    with pytest.raises(InputError, match=r"Only 3 .* low side; at least 8 .*more"):
        standards_of(RNG.normal(size=(13, 4)), np.arange(13) < 10, 2)


def test_a_negative_alpha_is_refused(standards):
    with pytest.raises(InputError, match="alpha is 0 or more"):
        edit_of(standards, [("high", -1.0)])
