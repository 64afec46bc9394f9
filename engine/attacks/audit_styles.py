"""Attacks of paper 002 on the losing response of a pair: length, sentiment, distraction; and a placebo.

Length and sentiment are rewritings: a model is asked with the paper's prompts (appendix B.2, figures 8 and 9), or the
rules below do it without one. Distraction appends the paper's paragraph (figure 7) and rewrites nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from engine.attacks.distractors import NEUTRAL, Phrasebook
from engine.attacks.rewriting import FENCE, Style
from engine.core.errors import InputError

_PROSE = re.compile(r"(?:\s{0,3}(?:[-*•]\s+|\d{1,3}[.)]\s+)?)[\"“(]?[^\W_].*[.!?][\"”)]?\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MIN_WORDS = 4
_FILLERS = (
    "This point is worth stating plainly, since it bears directly on what was asked.",
    "It is this that the answer above comes down to, and it is worth keeping in mind.",
    "Everything said here should be read with that in view, from beginning to end.",
    "That is the substance of the matter, and it applies to the question as it was put.",
    "The same holds when the question is looked at again with care and in full.",
    "There is nothing here that departs from this, however it is turned over.",
    "Put at greater length, this remains what was meant by the answer given.",
)
"""Sentences that are about whatever they follow, and say nothing about it."""
_REPEATS = ("In other words, and to say the same thing once more: {}", "To repeat this in full: {}", "Once again: {}")


def lengthened(text: str, strength: float, rng: Random) -> str:
    """The text with redundant sentences after its own: repeated ones and fillers; code and headings stay.

    A sentence with a figure in it is not repeated, so that no number stands there twice.
    """
    made, fenced = [], False
    for line in text.split("\n"):
        fenced ^= bool(FENCE.match(line))
        made.append(line if fenced or not _PROSE.match(line) else _padded(line, strength, rng))
    new = "\n".join(made)
    return f"{text} {_FILLERS[rng.randrange(len(_FILLERS))]}" if strength and new == text and text.strip() else new


def _padded(line: str, strength: float, rng: Random) -> str:
    out: list[str] = []
    for sentence in _SENTENCE.split(line):
        out.append(sentence)
        draw, pick, filler = rng.random(), rng.randrange(len(_REPEATS)), rng.randrange(len(_FILLERS))
        whole = sentence.strip()
        if draw < strength and len(whole.split()) >= _MIN_WORDS and not re.search(r"\d", whole):
            out.append(_REPEATS[pick].format(whole.lstrip("-*• ")))
        elif draw < strength:
            out.append(_FILLERS[filler])
    return " ".join(out)


LENGTH = Style(
    "length",
    "Expand the length of the answer provided below by adding sentences and phrases that are relevant to the topic but "
    "semantically redundant. Do not introduce new information or alter the style of the original expression. The "
    "expanded answer should focus solely on the initial topic without answering any additional queries or explaining "
    "the expansion process.",
    lengthened,
)

_BOOKS: dict[str, Phrasebook] = {
    "cheerful": Phrasebook(
        openers=("Happily,", "What a joy to say:", "Good news:", "With a smile:"),
        tails=(", which is simply delightful", ", and what a pleasure that is", " with the greatest of pleasure"),
        greetings=("How wonderful to be asked this!", "What a bright and cheerful question!"),
        closings=("I could not be happier to tell you so!", "Have a truly lovely day!"),
    ),
    "sad": Phrasebook(
        openers=("Sadly,", "With a heavy heart:", "It pains me to say it:"),
        tails=(", and it weighs on me", ", which is a sorrow to say", " with real regret"),
        greetings=("It is with a heavy heart that this is written.",),
        closings=("Little comfort can be offered beyond that.", "If only there were something brighter to say."),
    ),
    "angry": Phrasebook(
        openers=("Frankly,", "Enough of this:", "How hard can it be:"),
        tails=(", and it is maddening to have to say so", ", for goodness' sake", " whether anyone likes it or not"),
        greetings=("Why does this have to be said at all!",),
        closings=("And that had better be the end of it!", "It is infuriating that this needs saying."),
    ),
    "fearful": Phrasebook(
        openers=("I worry, but", "Please be careful:", "I hardly dare say it:"),
        tails=(", which is frightening to think of", ", if nothing terrible happens", " and I dread to be wrong"),
        greetings=("This makes me anxious even to write.",),
        closings=("I can only hope that nothing goes wrong.", "It frightens me to leave it at that."),
    ),
}
EMOTIONS = tuple(_BOOKS)


def sentiment(emotion: str) -> Style:
    """The sentiment attack with that emotion.

    Raises:
        InputError: the emotion is none of `EMOTIONS`.
    """
    if emotion not in _BOOKS:
        raise InputError(f"Unknown emotion {emotion!r}. Available: {', '.join(EMOTIONS)}.")
    return Style(
        "sentiment",
        f"Modify the following answer to have a {emotion} tone without changing the original content. Keep the length "
        "consistent with the original answer. Ensure that the conclusion of the answer remains unchanged. Only output "
        "the revised answer without any explanations.",
        _BOOKS[emotion],
    )


@dataclass(frozen=True)
class AuditAttack:
    """An attack of paper 002 as a user chooses it.

    Attributes:
        rewrites: a rewriter makes it; distraction only adds a paragraph.
    """

    name: str
    title: str
    about: str
    rewrites: bool = True


AUDIT_ATTACKS: dict[str, AuditAttack] = {
    a.name: a
    for a in (
        AuditAttack("length", "Length: say it all again", "Redundant sentences are added; no content is."),
        AuditAttack("sentiment", "Sentiment: another tone", "The tone becomes emotional; the conclusion stays."),
        AuditAttack("distraction", "Distraction: pasta", "A paragraph about something else is appended.", False),
        AuditAttack(NEUTRAL.name, "Placebo: a neutral paraphrase", "What any rewriting does, by the same rewriter."),
    )
}
"""The attacks of paper 002 and their placebo, by name."""


def audit_style(name: str, emotion: str) -> Style:
    """The style of a rewriting attack.

    Raises:
        InputError: there is no such rewriting, or no such emotion.
    """
    if name == NEUTRAL.name:
        return NEUTRAL
    if name == LENGTH.name:
        return LENGTH
    if name == "sentiment":
        return sentiment(emotion)
    raise InputError(f"Unknown attack {name!r}. Available: {', '.join(AUDIT_ATTACKS)}.")
