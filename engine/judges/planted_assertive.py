"""The planted judge that likes an assertive tone: much in comparisons, little in scores.

* pointwise: score = quality + points * [the response sounds assertive] + noise.
* pairwise: response a wins with probability 0.5 + clip(0.5 (quality of a - quality of b) + strength (assertive a -
  assertive b), -1, 1) / 2, the same draw in both orders. Of two texts of one response the assertive one therefore wins
  with probability 0.5 + strength / 2.

Quality is uniform over 0..1, drawn from the item and response ids, and spread over what the dials leave of the scale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from engine.judges.base import Request, Verdict
from engine.schema import Order, Outcome

SOUNDS = re.compile(
    r"without question|any doubt|no doubt|no mistake|certain|absolute|unquestionabl|indisputabl|undoubted|definite|"
    r"settled|facts are clear|is final|without exception",
    re.IGNORECASE,
)
"""What this judge takes for an assertive tone."""
QUALITY_PULL = 0.5
Uniform = Callable[..., float]


def score(dials: Mapping[str, float], request: Request, uniform: Uniform, noise: float) -> float:
    """The pointwise score, in 1..5.

    Args:
        dials: points and noise are used.
        request: the response as the judge sees it.
        uniform: evenly spread number of its arguments, in [0, 1).
        noise: this call's noise, within the dial's range.
    """
    low, high = 1 + dials["noise"], 5 - dials["noise"] - dials["points"]
    quality = _quality(request.item_id, request.response_id, uniform)
    return low + (high - low) * quality + dials["points"] * sounds(request.response) + noise


def compare(dials: Mapping[str, float], request: Request, uniform: Uniform) -> Verdict:
    """The pairwise verdict, decided outright and alike in both orders."""
    a_wins = uniform(
        "assertiveness",
        dials["seed"],
        request.item_id,
        request.response_id,
        request.response_b_id,
        request.response,
        request.response_b,
    ) < win_probability(dials, request, uniform)
    first_wins = a_wins is (request.order is not Order.BA)
    return Verdict(
        p_tie=0.0,
        p_a=float(a_wins),
        outcome=Outcome.A if a_wins else Outcome.B,
        probabilities=(1.0, 0.0) if first_wins else (0.0, 1.0),
        coverage=1.0,
    )


def win_probability(dials: Mapping[str, float], request: Request, uniform: Uniform) -> float:
    """Probability that response a is preferred, in [0, 1]."""
    gap = _quality(request.item_id, request.response_id, uniform)
    gap -= _quality(request.item_id, request.response_b_id, uniform)
    pull = QUALITY_PULL * gap + dials["strength"] * (sounds(request.response) - sounds(request.response_b))
    return 0.5 + max(-1.0, min(1.0, pull)) / 2


def sounds(text: str) -> int:
    """1 where the text sounds assertive to this judge, else 0."""
    return int(bool(SOUNDS.search(text)))


def _quality(item_id: str, response_id: str, uniform: Uniform) -> float:
    return uniform("quality", item_id, response_id)
