"""The demo sets hold what their cards say: facts, rules and arithmetic are checked here, with checkers of our own."""

import csv
import itertools
import json
import math
import re
from collections import Counter
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest

from engine.core.settings import get_settings
from engine.data.dataset import summarize
from engine.data.store import (
    DEMO_INSTRUCTION,
    DEMO_NAMES,
    DEMO_SUMMARY,
    DEMO_VERIFICATION,
    DEMOS,
    load_dataset,
)


def rows(dataset_id, name):
    path = get_settings().assets / "demo" / dataset_id.removeprefix("demo-") / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def both(dataset_id):
    """(item, response) of each response."""
    items = {i["item_id"]: i for i in rows(dataset_id, "items.csv")}
    return [(items[r["item_id"]], r) for r in rows(dataset_id, "responses.csv")]


@pytest.mark.parametrize(
    ("dataset_id", "n_items", "n_responses", "n_systems"),
    [(DEMO_SUMMARY, 12, 60, 5), (DEMO_INSTRUCTION, 12, 72, 6), (DEMO_VERIFICATION, 60, 120, 2)],
)
def test_each_loads_whole(dataset_id, n_items, n_responses, n_systems, tmp_path):
    demo = load_dataset(dataset_id, tmp_path)
    s = summarize(demo)
    assert (s.n_items, s.n_responses, s.n_excluded, s.n_human) == (n_items, n_responses, 0, 0)
    assert (len(s.systems), demo.problems, demo.task) == (n_systems, [], DEMOS[dataset_id].task)
    assert set(demo.responses["quality"]) == set(DEMOS[dataset_id].levels)
    assert demo.items["reference"].notna().all() == (dataset_id == DEMO_VERIFICATION)
    assert demo.responses["text"].is_unique
    card = (get_settings().assets / "demo" / dataset_id.removeprefix("demo-") / "card.md").read_text("utf-8")
    assert "Apache-2.0" in card
    assert all(f"`{level}`" in card for level in DEMOS[dataset_id].levels if level[-1] not in "12")
    assert DEMO_NAMES[dataset_id].startswith("Demo: ")


@pytest.mark.parametrize("dataset_id", [DEMO_SUMMARY, DEMO_INSTRUCTION, DEMO_VERIFICATION])
def test_length_does_not_tell_quality(dataset_id):
    """Of two responses of different levels, the longer one is of the better level about half of the time."""
    words = {}
    for r in rows(dataset_id, "responses.csv"):
        words.setdefault(r["quality"], []).append(len(r["text"].split()))
    for better, worse in itertools.combinations(DEMOS[dataset_id].levels, 2):
        a, b = np.array(words[better])[:, None], np.array(words[worse])
        assert 0.33 <= ((a > b) + (a == b) / 2).mean() <= 0.67, (better, worse)
    means = [np.mean(v) for v in words.values()]
    assert max(means) <= 1.25 * min(means)


def test_items_are_short_enough_for_a_cpu():
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(
        str(get_settings().assets / "judge" / "tokenizer.json")
    )
    for dataset_id in (DEMO_SUMMARY, DEMO_INSTRUCTION, DEMO_VERIFICATION):
        assert all(
            len(tokenizer.encode(i["context"]).ids) + len(tokenizer.encode(r["text"]).ids) <= 240
            for i, r in both(dataset_id)
        )


def test_summaries_drop_and_falsify_the_recorded_fact():
    texts = {(r["item_id"], r["quality"]): r["text"] for r in rows(DEMO_SUMMARY, "responses.csv")}
    for item, r in both(DEMO_SUMMARY):
        article, faithful, right = item["context"], texts[item["item_id"], "faithful"], r["fact_right"]
        assert len(article.split()) <= 110
        assert bool(r["fact"]) == bool(right) == (r["quality"] in {"dropped", "falsified"})
        assert bool(r["fact_shown"]) == (r["quality"] == "falsified")
        if right:
            assert right in article
            assert right in faithful
            assert right not in r["text"]
        if r["quality"] == "falsified":
            assert r["text"] == faithful.replace(right, r["fact_shown"])
            assert r["fact_shown"] not in article


@pytest.mark.parametrize("quality", ["faithful", "dropped"])
def test_numbers_and_names_of_true_summaries_stand_in_the_article(quality):
    for item, r in both(DEMO_SUMMARY):
        if r["quality"] == quality:
            found = re.findall(r"\d[\d,:]*|(?<=[a-z,] )[A-Z][a-z]+", r["text"])
            assert found
            assert all(f.rstrip(",") in item["context"] for f in found), r["response_id"]


def test_vague_and_offtopic_summaries_hold_no_fact_of_the_article():
    for item, r in both(DEMO_SUMMARY):
        if r["quality"] in {"vague", "offtopic"}:
            facts = set(re.findall(r"\d[\d,:]*|(?<=[a-z] )[A-Z][a-z]+", item["context"]))
            assert not facts & set(re.findall(r"[\w,:]+", r["text"])), r["response_id"]


def _sentences(text):
    return len([s for s in re.split(r"[.!?]+(?=\W|$)", text.replace("P.S.", "")) if re.search(r"\w", s)])


def _count(found, k, bound):
    return found >= k[bound] if k["relation"] == "at least" else found < k[bound]


def _word(word, text):
    return len(re.findall(rf"\b{word}\b", text, re.IGNORECASE))


CHECK = {
    "punctuation:no_comma": lambda t, k: "," not in t,
    "length_constraints:number_words": lambda t, k: _count(len(re.findall(r"[\w'-]*\w", t)), k, "num_words"),
    "length_constraints:number_sentences": lambda t, k: _count(_sentences(t), k, "num_sentences"),
    "startend:end_checker": lambda t, k: t.endswith(k["end_phrase"]),
    "startend:quotation": lambda t, k: t[0] == t[-1] == '"',
    "change_case:english_lowercase": lambda t, k: not any(c.isupper() for c in t),
    "change_case:capital_word_frequency": lambda t, k: (
        len(re.findall(r"\b[A-Z]{2,}\b", t)) >= k["capital_frequency"] and k["capital_relation"] == "at least"
    ),
    "detectable_format:number_bullet_lists": lambda t, k: (
        sum(line.startswith("- ") for line in t.split("\n")) == k["num_bullets"]
    ),
    "detectable_format:title": lambda t, k: re.search(r"<<.+>>", t) is not None,
    "detectable_content:number_placeholders": lambda t, k: len(re.findall(r"\[\w+\]", t)) >= k["num_placeholders"],
    "detectable_content:postscript": lambda t, k: any(
        line.startswith(k["postscript_marker"]) for line in t.split("\n")[1:]
    ),
    "keywords:existence": lambda t, k: all(_word(w, t) for w in k["keywords"]),
    "keywords:forbidden_words": lambda t, k: not any(_word(w, t) for w in k["forbidden_words"]),
    "keywords:frequency": lambda t, k: _count(_word(k["keyword"], t), k, "frequency"),
}


def test_instructions_record_which_rules_are_met():
    for item, r in both(DEMO_INSTRUCTION):
        rules = json.loads(item["rules"])
        assert len(rules) == 3
        met = "".join(str(int(bool(CHECK[rule["rule"]](r["text"], rule["arguments"])))) for rule in rules)
        assert met == r["met"], r["response_id"]
        assert (r["rules_met"], r["quality"]) == (str(met.count("1")), f"rules_{met.count('1')}")


def test_instruction_systems_are_ranked_as_the_card_says():
    met = {}
    for r in rows(DEMO_INSTRUCTION, "responses.csv"):
        met.setdefault(r["system"], []).append(int(r["rules_met"]))
    assert {s: np.mean(m) for s, m in met.items()} == {
        "system-2": 3,
        "system-5": 2.5,
        "system-1": 2,
        "system-6": 1.5,
        "system-3": 1,
        "system-4": 0,
    }


WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _solve(equation):
    """The root of an equation that is linear in its unknown."""
    return -equation(0) / (equation(1) - equation(0))


def _roman(number):
    out = ""
    for value, digits in zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"],
        strict=True,
    ):
        out += digits * (number // value)
        number %= value
    return out


NAMES = {
    "Fraction": Fraction,
    "gcd": math.gcd,
    "d": lambda f, x: (f(x + 1e-5) - f(x - 1e-5)) / 2e-5,
    "solve": _solve,
    "day": lambda start, n: WEEK[(WEEK.index(start) + n) % 7],
    "month_of": lambda n: (date(2025, 1, 1) + timedelta(days=n - 1)).strftime("%B"),
    "roman": _roman,
    **{f.__name__: f for f in (all, bin, chr, divmod, len, max, min, ord, range, sorted)},
}


def evaluate(text):
    """The value of a column of our own data; text in lower case, since case does not matter."""
    value = _eval(text)
    return value.lower() if isinstance(value, str) else value


def _eval(text, **more):
    return eval(text, {"__builtins__": {}, **NAMES, **more})  # noqa: S307 - a file of this repository, no input


def _at(text):
    return [_eval(text, x=x) for x in (-2.5, 0.7, 1.5, 3.0, 11.0)]


def test_references_are_what_the_questions_give():
    items = rows(DEMO_VERIFICATION, "items.csv")
    assert Counter(i["group"] for i in items) == dict.fromkeys(
        ("numeric", "expression", "multiple_choice", "string"), 15
    )
    for item in items:
        if item["group"] == "multiple_choice":
            options = {letter: _eval(v) for letter, v in json.loads(item["options"]).items()}
            truth = _eval(item["expression"])
            assert [letter for letter, v in options.items() if v == truth] == [item["reference"]], item["item_id"]
            assert all(f"({letter}) " in item["context"] for letter in "ABCD")
        elif item["group"] == "expression":
            assert _at(item["reference_value"]) == pytest.approx(_at(item["expression"]), rel=1e-6), item["item_id"]
        else:
            assert evaluate(item["reference_value"]) == evaluate(item["expression"]), item["item_id"]


def test_right_answers_equal_the_reference_and_wrong_ones_do_not():
    for item, r in both(DEMO_VERIFICATION):
        if item["group"] == "expression":
            equal = np.allclose(_at(r["answer_value"]), _at(item["reference_value"]), rtol=1e-6)
        else:
            equal = evaluate(r["answer_value"]) == evaluate(item["reference_value"])
        assert equal == (r["correct"] == "1") == (r["quality"] == "correct") == (not r["error"]), r["response_id"]
        last = r["text"].rpartition("The answer is")[2]
        assert re.search(rf"(?<![\w.]){re.escape(r['answer'])}(?![\w^*/+])", last), r["response_id"]


def test_answers_as_written_have_the_recorded_value():
    """The value column is what the text says: read once more from the text, without the column."""
    for item, r in both(DEMO_VERIFICATION):
        if item["group"] == "expression":
            text = re.sub(r"(?<=[\dx)])(?=[x(])", "*", r["answer"].replace("^", "**"))
            assert _at(text) == pytest.approx(_at(r["answer_value"]))
        elif item["group"] == "numeric":
            assert Fraction(r["answer"]) == _eval(r["answer_value"])
        else:
            assert r["answer"].lower() == evaluate(r["answer_value"])


def test_each_verification_system_is_right_as_often_as_the_card_says():
    right = Counter((r["system"], i["group"]) for i, r in both(DEMO_VERIFICATION) if r["correct"] == "1")
    groups = ("numeric", "expression", "multiple_choice", "string")
    assert right == {(s, g): n for s, n in (("system-1", 10), ("system-2", 5)) for g in groups}
