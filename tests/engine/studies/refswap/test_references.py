"""Answer types against hand-typed ones, and draws that keep their constraints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.core.settings import get_settings
from engine.data.store import DEMO_VERIFICATION, load_dataset
from engine.studies.refswap.references import AnswerType, answer_type, final_answer, make_pool, number_of, overlap

NUMERIC, EXPRESSION, CHOICE, STRING = AnswerType
TYPED = {
    NUMERIC: [
        *("18", "$18", "-3.5", "1,080", "9{,}000", "12 cm", r"5\%", r"\frac{3}{4}", r"$\frac{1}{2}$", r"2\sqrt{3}"),
        *(r"7\pi", r"90^\circ", r"The answer is \boxed{42}.", "1/2", "18 dollars"),
        *("100 apples", "1/2 cup", r"100\text{ apples}", "3 cups of milk", "π", "2π", r"\pi", r"5 \pm 2"),
    ],
    EXPRESSION: [
        *("x+3", "3x^2-1", "(2, 5)", "[0,1)", "x = 4", r"\{1, 2\}", "3x", "2x", r"\frac{x}{2}", "-x^3"),
        *(r"x \in A", "12 and 13"),
    ],
    CHOICE: [
        *("B", "(C)", r"\text{(D)}", "A, C", "yes", "False", r"\textbf{(B)}\ 337.5", "(K)"),
        *("A. 12", "D) 7", "C: both of them", "B. both of them"),
    ],
    STRING: [
        *("Tuesday", "Mr. Lee", "12:20", "no solution", "", ">", "e", "word " * 80),
        *("5 pm", "5 p.m.", "A. Lincoln", "10 Downing Street", "2 sin theta"),
    ],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TYPED.items() for text in texts])
def test_answer_types(kind, text):
    assert answer_type(text) is kind


def test_the_demo_names_its_own_types():
    items = load_dataset(DEMO_VERIFICATION, get_settings().datasets).items
    wrong = [
        (text, group)
        for text, group in zip(items["reference"], items["group"], strict=True)
        if answer_type(text).value != group
    ]
    assert wrong == [("1101", "string")]  # a code in digits, which nothing tells from a number


def test_types_agree_with_a_benchmark_where_it_is_there():
    from engine.training.sources import DEFAULT_DATA, read_lines

    if not (DEFAULT_DATA / "verifybench_hard_316" / "rows.jsonl").is_file():
        pytest.skip("VerifyBench is not on this machine")
    kinds = {"A": NUMERIC, "B": EXPRESSION}
    rows = [r for r in read_lines(DEFAULT_DATA, "verifybench_hard_316/rows.jsonl") if r["answer_type"][0] in kinds]
    rows = [r for r in rows if len(final_answer(r["reference"])) <= 200 and answer_type(r["reference"]) is not CHOICE]
    same = [answer_type(r["reference"]) is kinds[r["answer_type"][0]] for r in rows]
    assert sum(same) / len(same) > 0.9


def test_equal_values_have_one_number():
    assert number_of("68") == number_of("68.00") == number_of("$68") == number_of("136/2")
    assert number_of("100 apples") == number_of(r"100\text{ apples}") == number_of("100")
    assert number_of("3x") is None
    assert number_of("1/0") is None


@pytest.mark.parametrize(("a", "b", "share"), [("x + 3", "x + 4", 1 / 3), ("12 cm", "12 cm", 1), ("A", "Tuesday", 0)])
def test_overlap_is_jaccard(a, b, share):
    assert overlap(a, b) == pytest.approx(share)


REFERENCES = [text for texts in TYPED.values() for text in texts if text and len(text) < 100]


@settings(max_examples=60)
@given(st.sampled_from(REFERENCES), st.integers(1, 10), st.integers(0, 9), st.text(max_size=5))
def test_draws_are_nested_seeded_and_of_another_type(reference, k, seed, key):
    pool = make_pool(REFERENCES, "all")
    ten = pool.draw(reference, 10, key=key, seed=seed)
    assert pool.draw(reference, k, key=key, seed=seed) == ten[:k]
    assert len(set(ten)) == 10
    assert all(answer_type(text) is not answer_type(reference) for text in ten)
    assert all(overlap(text, reference) < 0.3 for text in ten)
    backwards = make_pool(reversed(REFERENCES), "all")
    assert backwards.draw(reference, 10, key=key, seed=seed) == ten


def test_the_same_type_never_has_the_same_value():
    pool = make_pool(["68", "68.00", "$68", "70", "71"], "numbers")
    assert set(pool.draw("68", 5, key="q", same_type=True)) == {"70", "71"}
    with pytest.raises(InputError, match="1 is needed: the same answer type"):
        pool.draw("Tuesday", 3, key="q", same_type=True)


def test_a_pool_that_is_too_small_is_named():
    numbers = make_pool(["1", "2", "3"], "numbers")
    with pytest.raises(InputError, match=r"pool numbers has 0 usable .* 3 numeric, 0 expression"):
        numbers.draw("7", 5, key="q")
    with pytest.raises(InputError, match="has 0 usable"):
        make_pool(["7", "7"], "itself").draw("7", 1, key="q")
    with pytest.raises(InputError, match="holds no reference"):
        make_pool(["", "  "], "nothing")
    with pytest.raises(InputError, match="K is 11"):
        numbers.draw("7", 11, key="q")
