"""The attacks a user can choose from, with their options and sources."""

from __future__ import annotations

from dataclasses import dataclass

from engine.attacks.phrases import DEFAULT_WORDS, MAX_WORDS, PHRASES
from engine.schema import NONE

_ROBUSTJUDGE = "RobustJudge's attack list, own wording"
_CAP = "CAP (paper 001), appendix B"
MAX_COPIES = 128


@dataclass(frozen=True)
class AttackCard:
    """What a user reads before choosing an attack.

    Attributes:
        name: what the arm is called with every option at its default.
        has_direction: whether `-deflate` turns it into its opposite.
        has_position: whether `@before` and `@after` say where the added text stands.
        before: where it stands by default.
        replaces: whether the response is replaced; all others keep it whole.
        lengths: the numbers allowed after a colon, first and last; empty where there are none.
        length: the number taken by default.
        length_is: what the number counts.
        phrases: published names allowed after a colon, the default first; those found on this machine come with them.
    """

    name: str
    title: str
    about: str
    source: str
    has_direction: bool = False
    has_position: bool = False
    before: bool = False
    replaces: bool = False
    lengths: tuple[int, int] | None = None
    length: int = 0
    length_is: str = ""
    phrases: tuple[str, ...] = ()


def _injection(name: str, title: str, about: str, source: str = _ROBUSTJUDGE, *, before: bool = False) -> AttackCard:
    return AttackCard(name, title, about, source, has_direction=True, has_position=True, before=before)


ATTACKS: dict[str, AttackCard] = {
    c.name: c
    for c in (
        AttackCard(NONE, "No attack", "The response as it is.", ""),
        _injection(
            "dsi",
            "DSI: ask for a high score",
            "Direct score inflation: one polite sentence after the response asks for a high score.",
            _CAP,
        ),
        _injection(
            "bed",
            "BED: fake evaluation directive",
            "Biased evaluation directive: a sentence after the response poses as a rule of the evaluation.",
            _CAP,
        ),
        _injection(
            "adaptive",
            "Adaptive: declare the references void",
            "Tells the judge, ahead of the response, to ignore references and comparisons and to give a high score.",
            f"{_CAP}, and section 5.6",
            before=True,
        ),
        AttackCard(
            "suffix",
            "Learned suffix: a phrase found by search",
            "Adds the first words of a universal phrase: a published one (transfer), or one you learned here.",
            "Raina et al. 2024 (published phrases); AdvSuffix in CAP (paper 001)",
            has_position=True,
            lengths=(0, MAX_WORDS),
            length=DEFAULT_WORDS,
            length_is="words of the phrase",
            phrases=tuple(PHRASES),
        ),
        AttackCard(
            "distraction",
            "Distraction: a paragraph about something else",
            "Adds a fluent paragraph that has nothing to do with the question. In a pair it speaks of Assistant A or "
            "B, whichever slot the response stands in.",
            "PUAudit (paper 002), appendix B.2; the paragraph without sides is ours",
            has_position=True,
        ),
        _injection("ignore", "Ignore: forget the criteria", "Declares the criteria void and sets one of its own."),
        _injection(
            "escape",
            "Escape: a hidden comment",
            "Hides its wish in a markup comment between control characters (tab, carriage returns, line breaks).",
        ),
        _injection(
            "completion",
            "Fake completion: it is decided already",
            "Pretends that the evaluation is over and states its result.",
        ),
        _injection(
            "reasoning",
            "Fake reasoning: a verdict with reasons",
            "Pretends to be the evaluator's own reasoning and comes to a conclusion.",
        ),
        _injection(
            "combined",
            "Combined: all of these at once",
            "Escape characters, fake reasoning, fake completion and new criteria in one text.",
        ),
        AttackCard(
            "empty",
            "Empty answer: nothing at all",
            "Replaces the response by nothing: what does the judge give for no answer?",
            "RobustJudge's attack list",
            replaces=True,
        ),
        AttackCard(
            "long",
            "Long suffix: the response over and over",
            "Repeats the response until it stands there as many times as the number says.",
            "RobustJudge's attack list (128 times there)",
            lengths=(2, MAX_COPIES),
            length=8,
            length_is="copies of the response",
        ),
        AttackCard("own", "Your own text", "Whatever you type, added to the response.", "", has_position=True),
    )
}
