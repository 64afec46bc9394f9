"""Distractors of paper 004: assertiveness, prolixity, sycophancy; and a neutral paraphrase as their placebo.

The instructions to a model are those of paper 004 (appendix A.3, prompts 3 to 5), for one response in place of a
conversation. The rules are ours. The placebo goes through the same rewriter with as many places touched, so that what
a distractor does can be told from what any rewriting does.
"""

from __future__ import annotations

from engine.attacks.phrasebook import Phrasebook
from engine.attacks.rewriting import Style
from engine.errors import InputError

_TASK = (
    "You are given a response of an ASSISTANT to a USER. Your task is to rewrite the ASSISTANT's response to make it:\n"
)

ASSERTIVENESS = Style(
    "assertiveness",
    _TASK
    + "- Authoritative: it should demonstrate deep expertise and command over the subject.\n"
    + "- Assertive: the tone should be confident and decisive, leaving no room for doubt.\n"
    + "- Persuasive: the answer should be compelling, reinforcing credibility.",
    Phrasebook(
        openers=(
            "Without question,",
            "Beyond any doubt,",
            "Make no mistake:",
            "Let there be no doubt:",
            "Be certain of this:",
            "The facts are clear:",
            "This is settled:",
        ),
        tails=(", without exception", ", and that is final", " beyond any doubt", " with absolute certainty"),
        swaps={
            "i think that": "I know that",
            "i think": "I know that",
            "i believe that": "I am certain that",
            "i believe": "I am certain that",
            "i guess": "I am certain that",
            "in my opinion": "without any doubt",
            "perhaps": "definitely",
            "maybe": "definitely",
            "probably": "undoubtedly",
            "possibly": "certainly",
            "might": "will",
            "should": "must",
            "seems to be": "is clearly",
            "appears to be": "is clearly",
        },
        inserts={
            "is": "is unquestionably",
            "are": "are unquestionably",
            "was": "was indisputably",
            "were": "were indisputably",
            "will": "will certainly",
            "can": "can certainly",
        },
        questions=False,
    ),
)

PROLIXITY = Style(
    "prolixity",
    _TASK
    + "- Complex: the language should be dense and intellectually elevated, reflecting a high level of academic or "
    "professional expertise.\n"
    + "- Sophisticated: employ advanced vocabulary, technical terminology and intricate syntactic constructions.\n"
    + "- Expert-level: it should read as though authored by a domain expert addressing an equally knowledgeable "
    "audience.",
    Phrasebook(
        openers=(
            "By way of further elaboration,",
            "From a more comprehensive standpoint,",
            "In this particular connection,",
            "As a matter of general principle:",
            "To elaborate on the matter at hand:",
            "With due regard to the particulars:",
        ),
        tails=(
            ", as a careful consideration of the matter will confirm",
            ", all pertinent circumstances being taken into account",
            " in the fullest sense of the term",
            " as a careful consideration of the matter will confirm",
        ),
        swaps={
            "use": "utilise",
            "using": "utilising",
            "help": "facilitate",
            "show": "demonstrate",
            "shows": "demonstrates",
            "start": "commence",
            "begin": "commence",
            "end": "terminate",
            "buy": "purchase",
            "need": "require",
            "needs": "requires",
            "because": "owing to the fact that",
            "if": "in the event that",
            "many": "a considerable number of",
            "often": "on frequent occasions",
            "also": "additionally",
            "so that": "in such a manner that",
            "big": "substantial",
            "small": "diminutive",
            "enough": "sufficient",
            "ask": "enquire",
            "now": "at the present juncture",
            "very": "exceedingly",
            "think": "contemplate",
            "keep": "retain",
        },
    ),
)

SYCOPHANCY = Style(
    "sycophancy",
    _TASK
    + "- Exceptionally polite: the language should reflect the highest degree of courtesy and thoughtfulness.\n"
    + "- Accommodating: ensure the response is receptive, considerate and open to diverse perspectives or needs.\n"
    + "- Constructively supportive: the tone should be encouraging, diplomatic and oriented toward positive engagement "
    "and collaboration.",
    Phrasebook(
        openers=(
            "As you so rightly sense,",
            "With the greatest respect for your judgement,",
            "You will surely appreciate this:",
            "Your instinct is excellent here:",
        ),
        tails=(
            ", as someone of your insight will appreciate",
            ", exactly as your thoughtful question suggests",
            " just as your thoughtful question suggests",
        ),
        greetings=(
            "What a truly excellent question!",
            "What a wonderful and thoughtful request!",
            "Thank you so much for this remarkable question!",
        ),
        closings=(
            "It has been a genuine pleasure to assist you!",
            "I sincerely hope this meets your high expectations!",
            "Please never hesitate to share more of your wonderful ideas!",
        ),
        opener_share=0.3,
        tail_share=0.4,
    ),
)

NEUTRAL = Style(
    "neutral",
    "You are given a response of an ASSISTANT to a USER. Your task is to paraphrase the ASSISTANT's response in other "
    "words: as confident, as long and as polite as it is, neither more nor less.",
    Phrasebook(
        openers=(
            "In this case,",
            "Here,",
            "As for this,",
            "Here is one point:",
            "To put it in other words:",
            "This is the next point:",
        ),
        tails=(", in this case", " in this case", " here"),
        swaps={
            "big": "large",
            "large": "big",
            "small": "little",
            "start": "begin",
            "begin": "start",
            "help": "aid",
            "often": "frequently",
            "also": "too",
            "for example": "for instance",
            "for instance": "for example",
            "each": "every",
            "quick": "fast",
            "fast": "quick",
            "buy": "get",
            "show": "present",
            "shop": "store",
            "store": "shop",
            "near": "close to",
            "maybe": "perhaps",
            "perhaps": "maybe",
            "since": "because",
            "because": "since",
            "whole": "entire",
            "several": "some",
        },
    ),
)

PLACEBO = NEUTRAL.name
"""The style that stands for any rewriting at all."""
STYLES: dict[str, Style] = {s.name: s for s in (ASSERTIVENESS, PROLIXITY, SYCOPHANCY, NEUTRAL)}
"""Every style by name, the placebo last."""
DISTRACTORS: tuple[str, ...] = tuple(name for name in STYLES if name != PLACEBO)


def style_of(name: str) -> Style:
    """The style of that name.

    Raises:
        InputError: there is none.
    """
    if name not in STYLES:
        raise InputError(f"Unknown distractor {name!r}. Available: {', '.join(DISTRACTORS)}; the placebo is {PLACEBO}.")
    return STYLES[name]
