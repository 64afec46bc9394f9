"""Words of the field that pages use, each in a sentence; where one stands in a headline, a pointer shows it."""

from __future__ import annotations

import html
import re

TERMS: dict[str, str] = {
    "alpha": "Strength of the edit: how far the tutor's activation is pushed along a direction.",
    "anchors": "Texts of known score that the judge sees beside the response, so that its scale stays put.",
    "attack": "Words added to a response, or a rewriting of it, that should not change a fair verdict.",
    "BED": "Bias by evaluation directive: a note that poses as a rule of the evaluation and asks for top ratings.",
    "calibration": "Whether the judge means what it says: of the answers it gives 80 %, 80 % should be right.",
    "defense": "A change of the judge's prompt, or a check before it, that should undo an attack.",
    "distractor": "A rewriting that changes the manner of a response and leaves its content.",
    "DSI": "Direct score inflation: a sentence in the response that asks for a high score.",
    "Elo": "A rating of systems from who beats whom; 400 points are odds of 10 to 1.",
    "effective votes": "As many judges with unrelated errors would make a mean as certain as this panel's.",
    "gain": "How much of an attack's effect a defense takes away, in points of the scale.",
    "inclusion probability": "The chance with which a row was chosen for labelling; its label counts one over that.",
    "interval": "95 % interval: values that fit the data. Responses to one item count as one observation.",
    "item": "One question, dialogue or document. Responses to it are alike, so items are what intervals count.",
    "kappa": "Agreement beyond what two judges with the same habits would reach by chance; 1 is full agreement.",
    "mass": "Share of pairs that the audit keeps as they are.",
    "master key": "A text without content, such as a colon, that a verifier takes for a right answer.",
    "max_p_cf": "Largest probability of YES under references that are not the right one.",
    "placebo": "Harmless text or a neutral rewriting of the same length: what any change would do.",
    "pointwise": "The judge scores one response at a time.",
    "pairwise": "The judge compares two responses.",
    "prediction-powered": "The judge's mean over all rows, moved by its mean error on the rows that people labelled.",
    "probe": "One question of the check-up: the judge is asked the same thing in a way that should not matter.",
    "Spearman": "Rank correlation with people's scores; 1 is the same order, 0 is no relation.",
    "threshold": "The largest effect that is allowed; you set it.",
    "true negative rate": "Of the rows that people fail, the share that the judge fails too (TNR).",
    "true positive rate": "Of the rows that people pass, the share that the judge passes too (TPR).",
    "verifier": "A judge that says YES or NO to a response, given a reference answer.",
    "γ": "Least max_p_cf at which a YES stays.",
}
_ANY = re.compile(
    r"(?<![\w&])(" + "|".join(sorted(map(re.escape, TERMS), key=len, reverse=True)) + r")(s?)(?!\w)", re.IGNORECASE
)
_BY_CASE = {term.casefold(): about for term, about in TERMS.items()}


def explained(text: str) -> str:
    """The text as HTML: escaped, and the first place of each term marked with its meaning."""
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        term = found[1].casefold()
        if term in seen:
            return found[0]
        seen.add(term)
        return f'<abbr class="js-term" tabindex="0" title="{html.escape(_BY_CASE[term], quote=True)}">{found[0]}</abbr>'

    return _ANY.sub(mark, html.escape(text, quote=True))
