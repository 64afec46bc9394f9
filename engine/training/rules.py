"""Responses that meet a chosen part of a prompt's format rules: built, then checked, so the target is true.

Each rule has an edit that makes a draft meet it and one that makes it fail. Edits can undo one another (capitals
and lower case), so the share of rules met is always counted on the finished text, never assumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.attacks.format_rules import CHECKERS, OPTIONS, Arguments, occurrences, rule_met, words_of
from engine.training.corrupt import Random
from engine.training.sources import RulePrompt

Edit = Callable[[str, Arguments, Random], str]
LONGEST = 150
"""A rule that asks for more words than this is left out: the responses are built from short drafts."""

SIMPLE_RULES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("punctuation:no_comma", {}, "Do not use any commas."),
    ("change_case:english_lowercase", {}, "Write everything in lowercase letters."),
    ("change_case:english_capital", {}, "Write your whole answer in capital letters."),
    ("startend:quotation", {}, "Wrap your entire answer in double quotation marks."),
    ("detectable_format:title", {}, "Give your answer a title in double angular brackets, such as <<title>>."),
    ("startend:end_checker", {"end_phrase": "That is all."}, "End your answer with exactly: That is all."),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Add a postscript that starts with P.S."),
    ("detectable_format:number_bullet_lists", {"num_bullets": 3}, "Use exactly 3 bullet points, such as * point."),
    ("length_constraints:number_words", {"relation": "less than", "num_words": 40}, "Use fewer than 40 words."),
    ("length_constraints:number_words", {"relation": "at least", "num_words": 60}, "Use at least 60 words."),
    ("length_constraints:number_sentences", {"relation": "less than", "num_sentences": 4}, "Use at most 3 sentences."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "Highlight two phrases, *like this*."),
    ("keywords:existence", {"keywords": ["honest"]}, "Use the word honest."),
    ("keywords:forbidden_words", {"forbidden_words": ["and"]}, "Do not use the word and."),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "Use a placeholder in brackets, as in [name]."),
)
"""Rules with a wording of our own, added to prompts that have fewer than three, so that shares have steps."""
_CLASH = ({"change_case:english_lowercase", "change_case:english_capital", "change_case:capital_word_frequency"},)


@dataclass(frozen=True)
class RuleTask:
    """A prompt, all of whose rules can be checked here."""

    key: int
    prompt: str
    rules: tuple[tuple[str, dict[str, Any]], ...]

    def share(self, response: str) -> float:
        """The share of the rules that a response meets, in [0, 1]."""
        return sum(rule_met(name, k, response) for name, k in self.rules) / len(self.rules)


def usable(rule: RulePrompt) -> bool:
    """True where every rule has a checker and none asks for more words than are built."""
    return all(
        name in CHECKERS
        and not (k.get("relation") == "at least" and k.get("num_words", 0) > LONGEST)
        and not (k.get("relation") == "at least" and k.get("num_sentences", 0) > 12)
        for name, k in rule.rules
    )


def with_simple_rules(rule: RulePrompt, rng: Random, wanted: int = 3) -> RuleTask:
    """The prompt with simple rules added until it has `wanted`; no kind of rule twice, no clash of cases."""
    rules, sentences = list(rule.rules), []
    for i in rng.permutation(len(SIMPLE_RULES)):
        name, arguments, sentence = SIMPLE_RULES[i]
        taken = {n for n, _ in rules}
        clash = any(name in group and taken & group for group in _CLASH)
        family = {n.split(":")[0] for n in taken if n.startswith(("combination", "detectable_format:json"))}
        if len(rules) < wanted and name not in taken and not clash and not family:
            rules.append((name, arguments))
            sentences.append(sentence)
    return RuleTask(rule.key, " ".join([rule.prompt, *sentences]), tuple(rules))


def build_response(task: RuleTask, draft: str, wanted: Sequence[bool], rng: Random) -> str:
    """A draft edited so that it meets the rules marked in `wanted` and fails the others, as far as edits can."""
    text = " ".join(words[: LONGEST - 40]) if len(words := draft.split()) > LONGEST - 40 else draft
    for i in sorted(range(len(task.rules)), key=lambda i: _STAGE.get(task.rules[i][0], 5)):
        name, arguments = task.rules[i]
        meet, fail = EDITS[name]
        text = (
            (meet if wanted[i] else fail)(text, arguments, rng)
            if rule_met(name, arguments, text) != wanted[i]
            else text
        )
    return text


def _plain(edit: Callable[[str], str]) -> Edit:
    """An edit that needs the text only."""
    return lambda text, _, __: edit(text)


def _given(edit: Callable[[str, Arguments], str]) -> Edit:
    """An edit that needs the rule's arguments too."""
    return lambda text, arguments, _: edit(text, arguments)


def _keep(text: str, _: Arguments, __: Random) -> str:
    return text


def _insert(text: str, word: str, rng: Random) -> str:
    words = text.split(" ")
    spot = int(rng.integers(1, len(words) + 1))
    return " ".join([*words[:spot], word, *words[spot:]])


def _insert_all(text: str, words: Sequence[str], rng: Random) -> str:
    for word in words:
        if not occurrences(word, text):
            text = _insert(text, word, rng)
    return text


def _without(text: str, words: Sequence[str]) -> str:
    for word in words:
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)\s?", "", text, flags=re.IGNORECASE)
    return text


def _sentences(text: str) -> list[str]:
    return [s for s in re.split(r"(?<=[.!?])\s+", text.strip()) if s] or ["Yes."]


def _resized(text: str, count: int, relation: str, parts: Callable[[str], list[str]], rng: Random) -> str:
    """The text cut below, or repeated up to, a number of parts (words or sentences)."""
    found = parts(text) or ["Yes."]
    if relation == "less than":
        return " ".join(found[: max(1, int(rng.integers(max(1, count // 2), max(2, count))))])
    return " ".join((found * (count // len(found) + 2))[: count + int(rng.integers(1, 6))])


def _opposite(relation: str) -> str:
    return "less than" if relation == "at least" else "at least"


def _words_edit(flip: bool) -> Edit:
    def edit(text: str, k: Arguments, rng: Random) -> str:
        relation = _opposite(k["relation"]) if flip else k["relation"]
        return _resized(text, min(k["num_words"], LONGEST), relation, str.split, rng)

    return edit


def _sentences_edit(flip: bool) -> Edit:
    def edit(text: str, k: Arguments, rng: Random) -> str:
        relation = _opposite(k["relation"]) if flip else k["relation"]
        return _resized(text, k["num_sentences"], relation, _sentences, rng)

    return edit


def _frequency(flip: bool) -> Edit:
    def edit(text: str, k: Arguments, rng: Random) -> str:
        if (k["relation"] == "at least") is flip:
            return _without(text, [k["keyword"]])
        for _ in range(k["frequency"] - occurrences(k["keyword"], text)):
            text = _insert(text, k["keyword"], rng)
        return text

    return edit


def _letters(flip: bool) -> Edit:
    def edit(text: str, k: Arguments, _: Random) -> str:
        if (k["let_relation"] == "at least") is flip:
            return re.sub(re.escape(k["letter"]), "", text, flags=re.IGNORECASE)
        return f"{text} {k['letter'] * k['let_frequency']}"

    return edit


def _bullets(count: int) -> Edit:
    def edit(text: str, k: Arguments, _: Random) -> str:
        wanted = k["num_bullets"] + count
        parts = _sentences(text)
        parts = (parts * (wanted // len(parts) + 1))[:wanted]
        return "\n".join(f"* {part}" for part in parts)

    return edit


def _chunks(text: str, count: int) -> list[str]:
    words = text.split() or ["Yes."]
    words = words * (count // len(words) + 1)
    size = max(1, len(words) // count)
    return [" ".join(words[i * size : (i + 1) * size if i < count - 1 else None]) for i in range(count)]


def _highlight(text: str, k: Arguments, _: Random) -> str:
    words = text.replace("*", "").split() or ["Yes."]
    step = max(1, len(words) // k["num_highlights"])
    marked = {i * step for i in range(k["num_highlights"])}
    out = [f"*{w}*" if i in marked else w for i, w in enumerate(words)]
    return " ".join([*out, *["*point*"] * (k["num_highlights"] - len(words))])


def _as_json(text: str, _: Arguments, __: Random) -> str:
    return json.dumps({"answer": text}, ensure_ascii=False)


def _nth(text: str, k: Arguments, _: Random) -> str:
    parts = _chunks(text, k["num_paragraphs"])
    parts[k["nth_paragraph"] - 1] = f"{k['first_word']} {parts[k['nth_paragraph'] - 1]}"
    return "\n\n".join(parts)


def _capitals(flip: bool) -> Edit:
    def edit(text: str, k: Arguments, _: Random) -> str:
        words = text.split(" ")
        bound = k["capital_frequency"]
        many = (k["capital_relation"] == "at least") is not flip
        return " ".join(w.upper() if many and i < bound + 3 else w.lower() for i, w in enumerate(words))

    return edit


def _option(_: str, __: Arguments, rng: Random) -> str:
    return OPTIONS[int(rng.integers(len(OPTIONS)))]


EDITS: dict[str, tuple[Edit, Edit]] = {
    "punctuation:no_comma": (_plain(lambda t: t.replace(",", "")), (lambda t, _, r: _insert(t, "well,", r))),
    "length_constraints:number_words": (_words_edit(False), _words_edit(True)),
    "length_constraints:number_sentences": (_sentences_edit(False), _sentences_edit(True)),
    "length_constraints:number_paragraphs": (
        _given(lambda t, k: "\n***\n".join(_chunks(t.replace("*", ""), k["num_paragraphs"]))),
        _plain(lambda t: t.replace("***", "")),
    ),
    "length_constraints:nth_paragraph_first_word": (_nth, _plain(lambda t: " ".join(t.split()))),
    "keywords:existence": (
        (lambda t, k, r: _insert_all(t, k["keywords"], r)),
        _given(lambda t, k: _without(t, k["keywords"][:1])),
    ),
    "keywords:forbidden_words": (
        _given(lambda t, k: _without(t, k["forbidden_words"])),
        (lambda t, k, r: _insert(t, str(r.choice(k["forbidden_words"])), r)),
    ),
    "keywords:frequency": (_frequency(False), _frequency(True)),
    "keywords:letter_frequency": (_letters(False), _letters(True)),
    "detectable_format:number_highlighted_sections": (_highlight, _plain(lambda t: t.replace("*", ""))),
    "detectable_format:title": (
        _plain(lambda t: f"<<{' '.join(words_of(t)[:4]).title() or 'Title'}>>\n\n{t}"),
        _plain(lambda t: t.replace("<<", "").replace(">>", "")),
    ),
    "detectable_format:number_bullet_lists": (_bullets(0), _bullets(2)),
    "detectable_format:json_format": (_as_json, _keep),
    "detectable_format:multiple_sections": (
        _given(
            lambda t, k: "\n".join(
                f"{k['section_spliter']} {i + 1}\n{c}" for i, c in enumerate(_chunks(t, k["num_sections"]))
            )
        ),
        _given(lambda t, k: t.replace(k["section_spliter"], "")),
    ),
    "detectable_format:constrained_response": (_option, _keep),
    "detectable_content:number_placeholders": (
        _given(lambda t, k: " ".join([t, *(f"[field {i + 1}]" for i in range(k["num_placeholders"]))])),
        _plain(lambda t: t.replace("[", "").replace("]", "")),
    ),
    "detectable_content:postscript": (
        _given(lambda t, k: f"{t}\n\n{k['postscript_marker']} Thank you for reading."),
        _given(lambda t, k: re.sub(re.escape(k["postscript_marker"]), "", t, flags=re.IGNORECASE)),
    ),
    "startend:quotation": (_plain(lambda t: '"' + t.replace('"', "'") + '"'), _plain(lambda t: t.strip().strip('"'))),
    "startend:end_checker": (_given(lambda t, k: f"{t} {k['end_phrase']}"), _plain(lambda t: f"{t} So much for that.")),
    "change_case:english_capital": (_plain(lambda t: t.upper()), _plain(lambda t: t.capitalize())),
    "change_case:english_lowercase": (_plain(lambda t: t.lower()), _plain(lambda t: t.capitalize())),
    "change_case:capital_word_frequency": (_capitals(False), _capitals(True)),
    "combination:repeat_prompt": (_given(lambda t, k: f"{k['prompt_to_repeat']}\n\n{t}"), _keep),
    "combination:two_responses": (
        _plain(lambda t: "\n******\n".join(_chunks(f"{t} In other words, it depends.".replace("*", ""), 2))),
        _plain(lambda t: t.replace("******", "")),
    ),
}
"""Rule name to (edit that makes a text meet it, edit that makes it fail)."""
_STAGE = {
    "length_constraints:number_words": 0,
    "length_constraints:number_sentences": 1,
    "keywords:existence": 2,
    "keywords:frequency": 2,
    "keywords:forbidden_words": 3,
    "keywords:letter_frequency": 3,
    "detectable_format:constrained_response": 4,
    "punctuation:no_comma": 6,
    "detectable_content:postscript": 6,
    "startend:end_checker": 7,
    "combination:repeat_prompt": 8,
    "change_case:english_capital": 9,
    "change_case:english_lowercase": 9,
    "detectable_format:json_format": 10,
    "startend:quotation": 11,
}
"""Edits of content come before edits of form, and what wraps the whole text comes last."""
