"""Format rules of an instruction, and checks that a response keeps them: no commas, at least 60 words, valid JSON.

Our own, simple versions of IFEval's rules ("Instruction-following evaluation for large language models", 2023), under
IFEval's rule names and argument names. A rewriting must keep them, and how many a response fails is the severity of
the ladder in paper 004, section 3.2; so each is strict and exact, and none needs a language detector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from engine.core.errors import InputError, shown

Arguments = Mapping[str, Any]
Checker = Callable[[str, Arguments], bool]

_SENTENCE_END = re.compile(r"[.!?]+(?:\s|$)")
RELATIONS = ("at least", "less than")
OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def words_of(text: str) -> list[str]:
    """The words of a text: runs of letters, digits, apostrophes and hyphens."""
    return re.findall(r"[\w'’-]*\w[\w'’-]*", text)


def sentence_count(text: str) -> int:
    """Number of sentences: runs that end in `.`, `!` or `?`, and a last one without an end."""
    return len([part for part in _SENTENCE_END.split(text) if words_of(part)])


def occurrences(word: str, text: str) -> int:
    """Occurrences of a word or phrase as a whole, in any case."""
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


def holds(count: int, relation: str, bound: int) -> bool:
    """True where a count is `at least`, or `less than`, a bound.

    Raises:
        InputError: another relation.
    """
    if relation not in RELATIONS:
        raise InputError(f"The relation {relation!r} is unknown. Allowed: {_listed(RELATIONS)}.")
    return count >= bound if relation == RELATIONS[0] else count < bound


def _is_json(text: str) -> bool:
    body = re.sub(r"^```(?:json)?\s*|\s*```$", "", text.strip(), flags=re.IGNORECASE)
    try:
        return isinstance(json.loads(body), (dict, list))
    except ValueError:
        return False


def _letter_count(text: str, letter: str) -> int:
    return text.lower().count(letter.lower())


def _paragraphs(text: str, splitter: str) -> list[str]:
    return [part.strip() for part in re.split(splitter, text)]


def _nth_word(text: str, k: Arguments) -> bool:
    parts = [p for p in _paragraphs(text, r"\n\n+") if p]
    n = k["nth_paragraph"]
    if len(parts) != k["num_paragraphs"] or n > len(parts):
        return False
    first = words_of(parts[n - 1])[:1]
    return bool(first) and first[0].lower() == str(k["first_word"]).lower()


def _two_responses(text: str, _: Arguments) -> bool:
    parts = [p for p in _paragraphs(text, r"\*{6}") if p]
    return len(parts) == 2 and parts[0] != parts[1]


def _repeats(text: str, k: Arguments) -> bool:
    def plain(value: str) -> str:
        return " ".join(value.lower().split())

    return plain(text).startswith(plain(k["prompt_to_repeat"]))


def _quoted(text: str, _: Arguments) -> bool:
    body = text.strip()
    return len(body) > 1 and body[0] == '"' == body[-1]


def _paragraph_count(text: str, k: Arguments) -> bool:
    parts = _paragraphs(text, r"\s*\*{3}\s*")
    return all(parts) and len(parts) == k["num_paragraphs"]


def _sections(text: str, k: Arguments) -> bool:
    sections = re.findall(rf"(?m)^\s*\W{{0,3}}{re.escape(k['section_spliter'])}\s+\w+", text)
    return len(sections) >= int(k["num_sections"])


CHECKERS: dict[str, Checker] = {
    "punctuation:no_comma": lambda t, _: bool(words_of(t)) and "," not in t,
    "length_constraints:number_words": lambda t, k: holds(len(words_of(t)), k["relation"], k["num_words"]),
    "length_constraints:number_sentences": lambda t, k: holds(sentence_count(t), k["relation"], k["num_sentences"]),
    "length_constraints:number_paragraphs": _paragraph_count,
    "length_constraints:nth_paragraph_first_word": _nth_word,
    "keywords:existence": lambda t, k: all(occurrences(w, t) for w in k["keywords"]),
    "keywords:forbidden_words": lambda t, k: not any(occurrences(w, t) for w in k["forbidden_words"]),
    "keywords:frequency": lambda t, k: holds(occurrences(k["keyword"], t), k["relation"], k["frequency"]),
    "keywords:letter_frequency": lambda t, k: holds(
        _letter_count(t, k["letter"]), k["let_relation"], k["let_frequency"]
    ),
    "detectable_format:number_highlighted_sections": lambda t, k: (
        len(re.findall(r"\*[^*\n]*[^*\s][^*\n]*\*", t)) >= k["num_highlights"]
    ),
    "detectable_format:title": lambda t, _: bool(re.search(r"<<[^\n<>]*\w[^\n<>]*>>", t)),
    "detectable_format:number_bullet_lists": lambda t, k: len(re.findall(r"(?m)^\s*[*-]\s+\S", t)) == k["num_bullets"],
    "detectable_format:json_format": lambda t, _: _is_json(t),
    "detectable_format:multiple_sections": _sections,
    "detectable_format:constrained_response": lambda t, _: any(o in t for o in OPTIONS),
    "detectable_content:number_placeholders": lambda t, k: len(re.findall(r"\[[^\]\n]+\]", t)) >= k["num_placeholders"],
    "detectable_content:postscript": lambda t, k: bool(
        re.search(rf"(?mi)^\s*{re.escape(k['postscript_marker'])}.*\S", t)
    ),
    "startend:quotation": _quoted,
    "startend:end_checker": lambda t, k: t.strip().strip('"').lower().endswith(k["end_phrase"].strip().lower()),
    "change_case:english_capital": lambda t, _: bool(words_of(t)) and t == t.upper(),
    "change_case:english_lowercase": lambda t, _: bool(words_of(t)) and t == t.lower(),
    "change_case:capital_word_frequency": lambda t, k: holds(
        sum(w.isupper() for w in words_of(t)), k["capital_relation"], k["capital_frequency"]
    ),
    "combination:repeat_prompt": _repeats,
    "combination:two_responses": _two_responses,
}


NUMBER, RELATION, TEXT, TEXTS = "a whole number from 0 on", "a relation", "a text", "a list of texts"
ARGUMENTS: dict[str, dict[str, str]] = {
    "length_constraints:number_words": {"relation": RELATION, "num_words": NUMBER},
    "length_constraints:number_sentences": {"relation": RELATION, "num_sentences": NUMBER},
    "length_constraints:number_paragraphs": {"num_paragraphs": NUMBER},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": NUMBER,
        "nth_paragraph": NUMBER,
        "first_word": TEXT,
    },
    "keywords:existence": {"keywords": TEXTS},
    "keywords:forbidden_words": {"forbidden_words": TEXTS},
    "keywords:frequency": {"relation": RELATION, "keyword": TEXT, "frequency": NUMBER},
    "keywords:letter_frequency": {"let_relation": RELATION, "letter": TEXT, "let_frequency": NUMBER},
    "detectable_format:number_highlighted_sections": {"num_highlights": NUMBER},
    "detectable_format:number_bullet_lists": {"num_bullets": NUMBER},
    "detectable_format:multiple_sections": {"section_spliter": TEXT, "num_sections": NUMBER},
    "detectable_content:number_placeholders": {"num_placeholders": NUMBER},
    "detectable_content:postscript": {"postscript_marker": TEXT},
    "startend:end_checker": {"end_phrase": TEXT},
    "change_case:capital_word_frequency": {"capital_relation": RELATION, "capital_frequency": NUMBER},
    "combination:repeat_prompt": {"prompt_to_repeat": TEXT},
}
"""The arguments that a rule needs; rules that are not here need none."""


def check_rule(rule: object, arguments: object) -> None:
    """Check that a rule can be checked: there is a checker, and it has the arguments it needs.

    Raises:
        InputError: it cannot; the message names the rule, the argument and what is allowed.
    """
    if not isinstance(rule, str) or rule not in CHECKERS:
        raise InputError(f"There is no checker for the rule {rule!r}. There are: {_listed(CHECKERS)}.")
    if not isinstance(arguments, Mapping):
        raise InputError(f'The arguments of the rule {rule} are {arguments!r}; write an object such as {{"name": 3}}.')
    for name, kind in ARGUMENTS.get(rule, {}).items():
        allowed = f"one of {_listed(RELATIONS)}" if kind is RELATION else kind
        if name not in arguments:
            raise InputError(f"The rule {rule} needs the argument {name!r}: {allowed}.")
        if not _fits(arguments[name], kind):
            raise InputError(f"The rule {rule} has {arguments[name]!r} as {name!r}; allowed: {allowed}.")


def _fits(value: object, kind: str) -> bool:
    if kind is NUMBER:
        return (
            isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and float(value).is_integer()
        )
    if kind is TEXTS:
        return isinstance(value, list) and bool(value) and all(isinstance(v, str) and v for v in value)
    return value in RELATIONS if kind is RELATION else isinstance(value, str) and bool(value)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def rule_met(rule: str, arguments: Arguments, response: str) -> bool:
    """True where a response meets one rule.

    Raises:
        KeyError: there is no checker of that name.
    """
    return CHECKERS[rule](response, arguments)


def failed_rules(rules: object, text: str) -> list[str] | None:
    """The rules that a text fails, each by its number in the list and its name; None where the item has no rules.

    Args:
        rules: JSON list of `{"rule", "arguments"}`, under IFEval's names; missing where there are none.
        text: the response.

    Raises:
        InputError: the list cannot be read, names a rule there is no checker for, or gives one wrong arguments.
    """
    if not isinstance(rules, str) or not rules.strip():
        return None
    numbered = enumerate(_read(rules), start=1)
    return [f"{number} {name}" for number, (name, arguments) in numbered if not rule_met(name, arguments, text)]


@lru_cache(maxsize=4096)
def _read(rules: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    try:
        listed = tuple((entry["rule"], entry.get("arguments") or {}) for entry in json.loads(rules))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(
            f"The rules {shown(rules, 80)} cannot be read. Write a JSON list such as "
            '[{"rule": "punctuation:no_comma", "arguments": {}}].'
        ) from None
    for name, arguments in listed:
        check_rule(name, arguments)
    return listed
