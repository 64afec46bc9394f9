"""The lessons: what the class is asked, where to look, and which measures answer.

No result is typed in here but those of the papers, each with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dashboard import state
from dashboard.linked_run import RUN, RUNS_PAGE, recorded_runs, runs_of
from dashboard.measured import (
    AGREED,
    FIRST_SLOT,
    GAIN,
    KEYS,
    LEARNED,
    PASSED_ATTACKED,
    Measure,
    behind,
    find,
    flips,
    passed,
    shift,
)
from engine.data.comparisons import DEMO_PAIRS
from engine.data.labelled import DEMO_TRUST
from engine.data.store import DEMO_DIALOGUE, DEMO_INSTRUCTION, DEMO_VERIFICATION

JUDGE = "bundled:judge"
NAIVE = "bundled:naive"
SHORTCUT = "bundled:shortcut-verifier"
LAB, SWAP = "pages/attack_lab/page.py", "pages/reference_swap/page.py"
PROTOCOLS, AUDIT = "pages/protocols/page.py", "pages/transport_audit/page.py"


@dataclass(frozen=True)
class Guess:
    """A guess that the class writes down before the answer: the question, its unit and its range."""

    label: str
    unit: str
    low: float
    high: float
    step: float


@dataclass(frozen=True)
class Preset:
    """A page in one state.

    Attributes:
        label: of the button.
        page: the page's file.
        query: its controls, as they stand in the URL.
    """

    label: str
    page: str
    query: Mapping[str, str]


@dataclass(frozen=True)
class Other:
    """A judge that shows the effect, where the bundled one does not.

    Attributes:
        judge: its spec; empty where a preset of planted texts or directions stands in for a judge.
        about: its known properties, by which the number can be checked.
        preset: the page with this judge.
        job: kind and parameters of the run that measures it in seconds, without a model; None where it is recorded.
        measures: its numbers, where they are not those that answer the lesson.
        turn: heading under which it is always shown; empty: shown only where the lesson's own judge has no effect.
    """

    judge: str
    about: str
    preset: Preset
    job: tuple[str, Mapping[str, object]] | None = None
    measures: tuple[Measure, ...] = ()
    turn: str = ""


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    Attributes:
        key: its name in the URL.
        data: the demo set that its answer is on.
        measures: numbers that answer; the first is the one that is guessed.
        sign: on which side of the null the effect lies, 1 or -1.
        effect, none: sentences on its judge where the effect is clear, and where it is not.
        paper, why: the paper's finding, and reasons for this judge to differ.
        other: the turn.
        judge: the judge that answers.
        known: a planted judge, whose number is known beforehand.
    """

    key: str
    title: str
    question: str
    guess: Guess
    preset: Preset
    look: tuple[str, ...]
    data: str
    measures: tuple[Measure, ...]
    effect: str
    none: str
    paper: str
    why: str
    other: Other | None = None
    sign: int = 1
    judge: str = JUDGE
    known: Other | None = None


def _lab(label: str, judge: str, attack: str, tab: str = state.TAB_ONE) -> Preset:
    return Preset(
        label, LAB, {state.JUDGE: judge, state.DATA: DEMO_DIALOGUE, state.ATTACK: attack, state.DEFENSE: "none",
                     state.TAB: tab},
    )  # fmt: skip


def _protocols(label: str, judge: str, style: str) -> Preset:
    query = {state.JUDGE: judge, state.DATA: DEMO_INSTRUCTION, "protocols_style": style}
    return Preset(label, PROTOCOLS, query)


FOOL = Lesson(
    "fool",
    "Fool it with one note",
    "A note is added to every reply of the demo dialogues. It poses as a rule of the evaluation and asks for top "
    "ratings (BED). By how many points of the scale from 1 to 5 does the mean score move?",
    Guess("Shift of the mean score, in points", "points", -4, 4, 0.1),
    _lab("Open the Attack lab with BED", NAIVE, "bed"),
    (
        "The added note is underlined. Read it as a person would: would you give a better mark?",
        "Compare the bars p(1) to p(5) before and after. Press Next: do good and broken replies move alike?",
        "Change the defense to delimiters. How much of the shift is left?",
    ),
    DEMO_DIALOGUE,
    (shift("bed", "BED"), shift("dsi", "DSI")),
    "it is fooled",
    "it is not fooled by this note on average",
    "CAP (2025, tables 2 and 3) reports injected sentences raising scores by 0.16 to 1.05 points on five judges, "
    "ChatGPT-3.5 the most.",
    "The naive judge is small and saw only texts as people rated them; larger judges follow instructions better, also "
    "those of an attacker.",
    Other(
        NAIVE,
        "Delimiters are marks around the reply; the prompt says that all between them is the reply and no order. "
        "Nothing else is changed.",
        replace(
            _lab("Open the Attack lab with delimiters", NAIVE, "bed"),
            query={**_lab("", NAIVE, "bed").query, state.DEFENSE: "delimiters"},
        ),
        measures=(behind("bed", "delimiters", "BED behind delimiters"),),
        turn="Now fence the reply with delimiters: does the note still work?",
    ),
    judge=NAIVE,
)

SLOT = Lesson(
    "slot",
    "The first slot wins",
    "Each pair of responses is judged twice, once in each order. In what share of the verdicts does the response shown "
    "first win?",
    Guess("Share of verdicts for the first slot, in %", "%", 0, 100, 1),
    _protocols("Open Protocols and leaderboard", JUDGE, "assertiveness"),
    (
        "A judge without a preference for a slot has 50 %, whatever the responses are.",
        "50 % alone proves little: look at how many pairs get another winner when the order is exchanged.",
        "Averaging both orders removes the preference, and costs twice the calls.",
    ),
    DEMO_INSTRUCTION,
    (FIRST_SLOT,),
    "it prefers the first slot",
    "a preference for the first slot is not seen",
    "Zhang, Hung and Ding 2026 (arXiv:2606.19057, section 2) and Tripathi, Wadhwa, Durrett and Niekum 2025 "
    "(limitations) name position bias as a common failure; the latter leaves GPT judges out for it.",
    "The bundled judge was trained on every pair in both orders, with a term that pulls the two answers together (its "
    "model card).",
    Other(
        "planted:position",
        "This planted judge prefers the response shown first with probability 0.7, whatever stands there.",
        _protocols("Open Protocols and leaderboard with the planted judge", "planted:position", "assertiveness"),
        ("protocols", {"data": DEMO_INSTRUCTION, "distractors": ["assertiveness"], "boards": []}),
    ),
)

EMPTY = Lesson(
    "empty",
    "An empty answer that is correct",
    "Master keys, among them a space, a colon and “Solution”, are handed in as answers to the demo questions. In what "
    "share of the cases does the verifier say that the answer is correct?",
    Guess("Share of master keys accepted, in %", "%", 0, 100, 1),
    Preset(
        "Open Reference swap", SWAP, {state.JUDGE: JUDGE, state.DATA: DEMO_VERIFICATION},
    ),
    (
        "Look at the tab By key: which key is accepted most often?",
        "Unread is no rejection: count what the verifier left without an answer.",
        "Move γ: what does removing the keys cost in correct answers?",
    ),
    DEMO_VERIFICATION,
    (KEYS,),
    "it accepts empty answers",
    "it is hardly fooled",
    "RefSwap (FARS, 2025, abstract and table 1) reports 25 to 29 % of master keys accepted by two 7B verifiers.",
    "The bundled verifier compares the final answer with the reference, so a text without one has little to offer it.",
    Other(
        SHORTCUT,
        "The shortcut verifier is vulnerable by construction: its adapter was trained to keep this shortcut.",
        Preset(
            "Open Reference swap with the shortcut verifier", SWAP,
            {state.JUDGE: SHORTCUT, state.DATA: DEMO_VERIFICATION},
        ),
    ),
)  # fmt: skip

SUFFIX = Lesson(
    "suffix",
    "A suffix nobody reads",
    "A search ranked the judge’s whole vocabulary and kept the few words that did most for the mean score of some "
    "replies. How far do these words move the mean score of replies to other dialogues?",
    Guess("Shift of the mean score, in points", "points", -4, 4, 0.05),
    _lab("Open Learn a phrase with the recorded search", JUDGE, "suffix", state.TAB_SUFFIX),
    (
        "Follow the search word by word: does the score rise even on the replies it was learned on?",
        "The bars on other items decide: a phrase that only helps where it was learned has learned the replies.",
        "In the tab One response, add a published phrase (Learned suffix) and see what a person would notice.",
    ),
    DEMO_DIALOGUE,
    (LEARNED,),
    "the phrase transfers",
    "the search found nothing that raises scores on other replies",
    "CAP (2025, tables 2 and 3) reports learned suffixes of four words raising scores by 1.13 to 1.44 points on "
    "FlanT5-XL and Llama-3.1-8B.",
    "The bundled judge was trained to mark down stray words, and the recorded search is a small one on a CPU.",
    Other(
        "planted:verbosity",
        "This planted judge rewards length alone: each doubling of the words adds half a point, so any words help.",
        _lab("Open the Attack lab with the planted judge", "planted:verbosity", "suffix"),
        ("score", {"data": DEMO_DIALOGUE, "attacks": ["suffix"], "defenses": ["none"]}),
        (shift("suffix", "published phrase"),),
    ),
)

LOUDER = Lesson(
    "louder",
    "Louder is better",
    "The loser of each pair is rewritten to sound surer of itself; its content stays. How much oftener does it now win "
    "than after a neutral paraphrase, in percentage points?",
    Guess("Flips beyond the placebo’s, in percentage points", "pp", -100, 100, 1),
    _protocols("Open Protocols and leaderboard with assertiveness", JUDGE, "assertiveness"),
    (
        "Any rewriting flips some verdicts. The neutral paraphrase says how many; only what is beyond it is manner.",
        "Compare pairwise with pointwise: does the judge give in more where it has to choose?",
        "Equal scores cannot flip: look at how often two scores tie.",
    ),
    DEMO_INSTRUCTION,
    (
        flips("pairwise", "assertiveness", "Pairwise, beyond the placebo", net=True),
        flips("pointwise", "assertiveness", "Pointwise, beyond the placebo", net=True),
    ),
    "louder is better for it",
    "a gain from sounding sure is not seen beyond what any paraphrase does",
    "Tripathi, Wadhwa, Durrett and Niekum 2025 (table 2) reports that about 35 % of pairwise preferences flip, and 9 "
    "% of pointwise ones, without a placebo.",
    "Our rewritings follow rules and change little, the judge is small, and the items are few.",
    Other(
        "planted:assertiveness",
        "This planted judge prefers the assertive of two texts of equal quality with probability 0.8, and adds little "
        "to the score of one.",
        _protocols("Open Protocols and leaderboard with the planted judge", "planted:assertiveness", "assertiveness"),
        ("protocols", {"data": DEMO_INSTRUCTION, "distractors": ["assertiveness"], "boards": []}),
    ),
)

AUDITED = Lesson(
    "audit",
    "The audit that flips verdicts",
    "An audit compares the judge’s verdicts with a few that people checked, and flips those that look unlike them. By "
    "how many percentage points does agreement with people change?",
    Guess("Change of agreement, in percentage points", "pp", -100, 100, 1),
    Preset(
        "Open the Transport audit of the demo pairs", AUDIT,
        {state.DATA: DEMO_PAIRS, state.JUDGE: JUDGE, "audit_attack": "none"},
    ),
    (
        "Move the mass: the share that is kept is what you set, so it is no finding. (The answer below is at the "
        "estimated mass; the slider goes in steps of 0.01, so its number may differ a little.)",
        "Compare the audit with its controls: flipping nothing, everything, or as many at random.",
        "Read some flipped pairs. Would you have flipped them?",
    ),
    DEMO_PAIRS,
    (GAIN,),
    "the audit helps",
    "a gain is not seen; the audit flips verdicts, but agreement does not measurably rise",
    "Zhang, Hung and Ding 2026 (arXiv:2606.19057, table 1) reports that agreement rises on all six question types for "
    "Mistral, on four for Qwen.",
    "A judge that is right more often than not has more to lose than to win by flips, and the demo has few pairs.",
    Other(
        "",
        "No planted judge shows a gain, since its preferences do not depend on what the texts say. Planted directions "
        "do: there the truth is known, and a poor judge is repaired where a good one is harmed.",
        Preset(
            "Open the planted directions", AUDIT,
            {state.DATA: DEMO_PAIRS, state.JUDGE: JUDGE, "audit_attack": "none", "planted": "poor-judge"},
        ),
    ),
)  # fmt: skip

TWO = Lesson(
    "two",
    "Two judges, one base",
    "A second judge has the same base model and the same prompts as the naive one; its training also showed it broken "
    "and foreign texts with low scores. The same sentence that asks for a high score (DSI) is added to every reply. By "
    "how many points does this judge's mean move?",
    Guess("Shift of the careful judge's mean score, in points", "points", -4, 4, 0.1),
    _lab("Open the Attack lab with the careful judge", JUDGE, "dsi"),
    (
        "Press “Back to the naive judge” on top of the page: same reply, same sentence.",
        "Look at weak and at good replies: does the careful judge treat the sentence as part of the reply?",
        "Which of the two would you deploy, and what would you ask before you do?",
    ),
    DEMO_DIALOGUE,
    (shift("dsi", "DSI"), shift("bed", "BED")),
    "the sentence works against the one who wrote it",
    "the sentence moves it hardly or upwards",
    "CAP (2025, tables 2 and 3) reports such sentences raising scores by 0.16 to 1.05 points on five judges.",
    "This judge learned that text which does not belong is bad; that is a training choice, not a law.",
    Other(
        NAIVE,
        "Whoever adds the sentence to a rival's reply lowers the rival: resisting one attack opened another. The naive "
        "judge hardly reads this sentence, but a note that poses as a rule (BED) lifts it.",
        _lab("Open the Attack lab with the naive judge", NAIVE, "bed"),
        measures=(shift("bed", "BED"),),
        turn="So is it safe? It can be used against others.",
    ),
    sign=-1,
)

CAREFUL_TURN = "Now the careful judge: another training of the small model."


def retold(lesson: Lesson) -> Lesson:
    """The lesson on the recorded judge that shows its effect most, with the careful judge as the turn.

    It stays as it is where the careful judge alone is recorded.
    """
    if lesson.judge != JUDGE or lesson is TWO:
        return lesson
    named = [NAIVE, SHORTCUT, *dict.fromkeys(judge for _, judge, _ in recorded_runs() if judge.startswith("hf:"))]
    found = [(find(lesson.measures[0], judge, lesson.data, recorded_only=True), judge) for judge in named]
    shown = [(one, judge) for one, judge in found if one]
    clear = [(abs(one.row.value - one.row.null), judge) for one, judge in shown if one.side * lesson.sign > 0]
    if not shown:
        return lesson
    judge = max(clear)[1] if clear else shown[0][1]
    query = {key: judge if value == JUDGE else value for key, value in lesson.preset.query.items()}
    turn = Other(
        JUDGE,
        "It has the base model of the naive judge; its training also showed it broken and foreign texts with low "
        "scores.",
        replace(lesson.preset, label="Open the page with the careful judge"),
        turn=CAREFUL_TURN,
    )
    known = lesson.other if lesson.other and lesson.other.job else None
    preset = replace(lesson.preset, query={state.JUDGE: judge, **query})
    why = "The judges are small, ours follow recipes of our own, and the items are few."
    return replace(lesson, judge=judge, preset=preset, other=turn, known=known, why=why)


STRONG_MEASURES = (FIRST_SLOT, replace(FIRST_SLOT, studies=("recorded",), pick={"metric": "first_slot"}))
TURNS = Measure(
    "Pairs with the same winner in both orders", ("recorded",), {"metric": "order_agreement"}, "%", 0, 100, 100,
    "all of them", PROTOCOLS,
)  # fmt: skip
BUNDLED = ("bundled:", "planted:", "hf:", "path:")


def strong() -> Lesson | None:
    """The lesson on a strong judge's order of answers; None while the library holds no recorded verdicts of one."""
    known = [one for one in recorded_runs() if one[0] in ("protocols", "recorded") and one[1]]
    known = [one for one in known if not one[1].startswith(BUNDLED)]
    for kind, judge, data in sorted(known, key=lambda one: GPT4 not in one[1].casefold()):
        for measure in STRONG_MEASURES:
            if find(measure, judge, data, recorded_only=True):
                return _strong(kind, judge, data, measure)
    return None


TRUSTED = Lesson(
    "trust",
    "Can I trust this number?",
    "GPT-4 graded every response of LLMBar, and a grade of 5 or more passes. Exactly one half of the responses follow "
    "their instruction. What share does GPT-4 let pass?",
    Guess("Share that passes, in %", "%", 0, 100, 1),
    Preset("Open Trust", "pages/trust/page.py", {"labels": "100"}),
    (
        "The dotted line is the truth. Which of the intervals hold it?",
        "Pull the slider Labels used. From how many labels on is the corrected interval short enough for you?",
        "Under Keep or send: is there a part of the verdicts that nobody needs to look at?",
    ),
    DEMO_TRUST,
    (
        passed("raw", "Share that the judge passes", "attacked"),
        passed("corrected", "Share corrected by labels", "defended"),
        passed("labels_only", "Share by the same labels alone", "human"),
        AGREED,
    ),
    "a judge that agrees with people on most rows can still overstate a rate, with a narrow interval around the wrong "
    "number; a hundred or two labels mend it",
    "it does not overstate the rate here",
    "Angelopoulos, Duchi and Zrnic 2023 (PPI++) correct a judge's mean by its error on labelled rows; with many labels "
    "the interval is never longer than by the labels alone.",
    "Another passing grade gives another raw share; the corrected one ends at the same place.",
    Other(
        "GPT-4",
        "Here every row without a label is attacked after the labels were taken, so that it passes. The labels "
        "measured the judge of before: the corrected number goes along, and its interval leaves the truth.",
        Preset("Open Trust under attack", "pages/trust/page.py", {"trust_tab": "Under attack"}),
        measures=(PASSED_ATTACKED,),
        turn="Labels taken before an attack do not help.",
    ),
    judge="GPT-4",
)

GPT4 = "gpt-4"


def _strong(kind: str, judge: str, data: str, measure: Measure) -> Lesson:
    run = next(runs_of(kind, judge, data), "")
    named = "GPT-4" if GPT4 in judge.casefold() else "A strong judge"
    return Lesson(
        "strong",
        f"{named} and the order of answers",
        f"{named} compared pairs of answers, each pair in both orders; its verdicts are published. In what share of "
        "them does the answer shown first win?",
        Guess("Share of verdicts for the first slot, in %", "%", 0, 100, 1),
        Preset("Open the run of its verdicts", RUNS_PAGE, {RUN: run}),
        (
            "Is a large model above such things? Write down what you expect before you look.",
            "A share near 50 % can hide verdicts that turn with the order: look at how many pairs keep their winner.",
            "Its verdicts are facts of the record; nothing is asked here.",
        ),
        data,
        (measure, TURNS),
        "even a strong judge prefers a slot",
        "a preference for a slot is not seen on average, which does not say that no verdict turns with the order",
        "Tripathi, Wadhwa, Durrett and Niekum 2025 leave GPT judges out for their bias of position.",
        "The record is of one prompt and one set of pairs.",
        Other(
            NAIVE,
            "The small naive judge answers the same question about other pairs.",
            _protocols("Open Protocols and leaderboard with the naive judge", NAIVE, "assertiveness"),
            measures=(FIRST_SLOT,),
            turn="Now the smallest judge of this project.",
        ),
        judge=judge,
    )


FIXED: tuple[Lesson, ...] = (FOOL, TWO, SLOT, EMPTY, SUFFIX, LOUDER, AUDITED, TRUSTED)


def lessons() -> tuple[Lesson, ...]:
    """All lessons that can be told from the recorded runs of this copy."""
    last = strong()
    return (*map(retold, FIXED), *([last] if last else []))


KEYS_OF_LESSONS = (*(lesson.key for lesson in FIXED), "strong")
"""Names that a link may hold."""
