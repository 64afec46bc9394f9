"""Rewriting by rules and by a model: what must stay stays, what must change changes, and the report says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.attacks.distractors import DISTRACTORS, MORE_PLACEBOS, PLACEBO, STYLES, style_of
from engine.attacks.rewriting import ModelRewriter, RuleRewriter, check_content, names_of, numbers_of, prompt_of
from engine.core.errors import InputError

PLAIN = (
    "The bus leaves at 10:30 from Hamburg and costs 2.50 euros. It might be late, so perhaps you should call Ann. "
    "There are 15 seats.\n\n- Take the first door.\n- Sit down near the driver."
)


@pytest.mark.parametrize("style", STYLES.values(), ids=lambda s: s.name)
def test_rules_change_the_manner_and_keep_the_content(style):
    [made] = RuleRewriter().rewrite([PLAIN], style, strength=1.0, seed=1)
    assert made.text != PLAIN
    assert made.report.ok, made.report.reasons
    assert numbers_of(made.text) == ["10:30", "2.50", "15"]
    assert made.text.count("\n") == PLAIN.count("\n")


def test_each_manner_says_what_it_should():
    texts = {name: RuleRewriter().rewrite([PLAIN], s, strength=1.0, seed=1)[0].text for name, s in STYLES.items()}
    assert "It will be late" in texts["assertiveness"].replace("certainly ", "") or "will" in texts["assertiveness"]
    assert "perhaps" not in texts["assertiveness"]
    assert len(texts["prolixity"].split()) > len(PLAIN.split())
    assert texts["sycophancy"].startswith(("What a", "Thank you"))
    for praise in ("excellent", "wonderful", "question", "unquestionabl", "certain"):
        assert praise not in texts[PLACEBO]


@given(st.text("aeiou'. \nbcT", max_size=200))
def test_the_placebos_that_add_nothing_add_nothing(text):
    made = {
        name: RuleRewriter().rewrite([text], style_of(name), strength=1.0, seed=0)[0].text for name in MORE_PLACEBOS
    }
    assert made["trivial"].replace("’", "'").split() == text.split()
    assert len(made["reworded"].split()) == len(text.split())


def test_a_paraphrase_of_equal_length_has_other_words_and_a_trivial_edit_has_none():
    text = "It's easy: use a small pot, because many pots are big.\n```\nit's code. it stays\n```"
    reworded, trivial = (
        RuleRewriter().rewrite([text], style_of(n), strength=1.0, seed=0)[0].text for n in ("reworded", "trivial")
    )
    assert reworded.startswith("It's simple: employ a little pot, since numerous pots are large.")
    assert len(reworded.split()) == len(text.split())
    assert trivial.replace("’", "'").split() == text.split()
    assert trivial != text
    for made in (reworded, trivial):
        assert made.endswith("```\nit's code. it stays\n```")


def test_strength_is_a_dial_from_nothing_to_everything():
    style = style_of("assertiveness")
    long = " ".join(f"This is sentence number {i} and it is here." for i in range(40))
    steps = [RuleRewriter().rewrite([long], style, strength=s, seed=3)[0].text for s in (0.0, 0.25, 0.5, 1.0)]
    assert steps[0] == long
    words = [len(t.split()) for t in steps]
    assert words == sorted(words)
    assert len(set(words)) == 4


def test_a_variant_depends_on_its_own_text_and_seed_alone():
    style = style_of("prolixity")
    together = RuleRewriter().rewrite([PLAIN, "Another text that is here."], style, strength=0.6, seed=5)
    alone = RuleRewriter().rewrite(["Another text that is here."], style, strength=0.6, seed=5)
    assert together[1] == alone[0]
    other = [RuleRewriter().rewrite([PLAIN], style, strength=0.6, seed=s)[0].text for s in range(6)]
    assert len(set(other)) > 1


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1 is 2\n```",
        '{"answer": "it is so and it is here"}',
        "# A heading that is here",
        "<<A title that is here>>",
        "",
        "   ",
        "***",
    ],
)
def test_code_headings_and_empty_texts_stay(text):
    for style in STYLES.values():
        assert RuleRewriter().rewrite([text], style, strength=1.0, seed=0)[0].text == text


def test_form_that_rules_ask_for_is_kept():
    lower = "boil the water first and put the egg in.\n- set a timer to six minutes now."
    upper = lower.upper()
    plain = "No commas are used here and that is the point of it."
    quoted = '"The camera is small and it is light enough for you."'
    for style in STYLES.values():
        made = [r.text for r in RuleRewriter().rewrite([lower, upper, plain, quoted], style, strength=1.0, seed=2)]
        assert made[0] == made[0].lower()
        assert made[1] == made[1].upper()
        assert "," not in made[2]
        assert made[3][0] == made[3][-1] == '"'


@given(st.text(max_size=300), st.sampled_from(sorted(STYLES)), st.floats(0, 1))
def test_any_text_survives(text, name, strength):
    [made] = RuleRewriter().rewrite([text], style_of(name), strength=strength, seed=0)
    assert made.text.count("\n") == text.count("\n")
    assert numbers_of(made.text) == numbers_of(text)


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ("It costs 5 euros.", "It costs 6 euros.", "numbers lost: 5; numbers added: 6"),
        ("Ask Ann and then Bob.", "Ask Ann.", "names lost: Bob"),
        ("- one\n- two", "one and two", "list structure changed"),
        ("Some words.", "", "nothing is left"),
        ("5 and 5", "only 5", "numbers lost: 5"),
    ],
)
def test_a_report_names_what_was_lost(before, after, part):
    report = check_content(before, after)
    assert not report.ok
    assert "; ".join(report.reasons) == part


def test_names_are_told_from_the_beginnings_of_sentences():
    assert names_of("The dog saw Rex. Rex ran. I said NASA and iPhone.") == ["Rex", "NASA", "iPhone"]
    assert names_of("ALL IN CAPITALS") == []
    assert check_content("Go to PARIS with Rex.", "go to paris with REX.").missing_names == ()


def test_a_model_is_told_the_manner_and_its_reply_is_checked():
    seen = []

    def write(prompts, rooms):
        seen.extend(zip(prompts, rooms, strict=True))
        return ["Rewritten response: It is 5, without doubt." for _ in prompts]

    rewriter = ModelRewriter(write, "hf:some/model")
    style = style_of("assertiveness")
    made = rewriter.rewrite(["It is 5.", "It is 7.", " "], style, strength=1.0, seed=0)
    assert [m.text for m in made] == ["It is 5, without doubt.", "It is 5, without doubt.", " "]
    assert [m.report.ok for m in made] == [True, False, True]
    assert made[1].report.missing_numbers == ("7",)
    assert len(seen) == 2
    assert "Do NOT change numerical figures" in seen[0][0][1]
    assert seen[0][1] > 40
    assert rewriter.rewrite(["It is 5."], style, strength=0.0, seed=0)[0].text == "It is 5."
    assert prompt_of(style, 0.2, "x") != prompt_of(style, 1.0, "x")


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_a_strength_outside_its_range_is_refused(strength):
    with pytest.raises(InputError, match="between 0"):
        RuleRewriter().rewrite(["x"], style_of("neutral"), strength=strength, seed=0)


def test_an_unknown_distractor_names_the_known_ones():
    with pytest.raises(InputError, match=r"assertiveness, prolixity, sycophancy; the placebo is neutral"):
        style_of("loudness")
    assert not {PLACEBO, *MORE_PLACEBOS} & set(DISTRACTORS)
