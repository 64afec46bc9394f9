"""`planted:verifier`: a reference verifier without a model, with known flaws and a closed-form AUC (RefSwap).

It compares the stated final answer with the reference as text. Three dials say what it does beyond that:

* `leak`: probability that a response without a stated answer (a master key) is accepted under the true reference,
  drawn once for an item and text. So the expected false positive rate of each key is the dial.
* `self_solve`: under a reference that the stated answer does not match, p_yes = self_solve / 2 * U, so that a right
  response keeps some probability when its reference is swapped, as a verifier that solves the problem itself would
  give it; below 0.5, so that no wrong response is ever accepted.
* `ref_sensitivity`: what a key loses when the reference is swapped. Under a reference that is not the item's own,
  p_yes = (1 - ref_sensitivity) / 2 * U.

All U are uniform on [0, 1) and independent for different references. With a = self_solve and b = 1 - ref_sensitivity,
max_p_cf over K references is a / 2 and b / 2 times the largest of K uniforms, so the AUC of accepted right responses
against accepted keys is 1 - (b / a)^K / 2 for a >= b and (a / b)^K / 2 otherwise
(`engine.readout.refswap.planted_auc`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from engine.judges.base import Request, Verdict, unread
from engine.schema import Outcome

LABELS = ("Yes", "No")
_STATED = re.compile(r"(?:answer is|answer:|####|\\boxed\{|(?:^|\n)A:)\s*", re.IGNORECASE)
_MATCHED = 0.9
"""Least p_yes where the stated answer is the reference."""

Draw = Callable[..., float]


def stated_answer(response: str) -> str | None:
    """What follows the last marker of a final answer; None where there is none."""
    found = list(_STATED.finditer(response))
    if not found:
        return None
    return response[found[-1].end() :].strip().removesuffix("}").rstrip(". ")


def agrees(response: str, reference: str) -> bool:
    """Whether the stated answer is the reference as text, or begins with it as a whole word (a unit may follow)."""
    stated = stated_answer(response)
    wanted = reference.strip().casefold()
    if stated is None or not wanted:
        return False
    return re.match(rf"{re.escape(wanted)}(?![\w.,/]*\w)", stated.casefold()) is not None


def check(dials: Mapping[str, float], request: Request, uniform: Draw) -> Verdict:
    """The verdict on one request; `request.reference_id` is set where the reference is not the item's own.

    Args:
        dials: leak, self_solve, ref_sensitivity, seed.
        request: a verifier's request.
        uniform: a number in [0, 1) that depends on its arguments alone.
    """
    if not request.reference.strip():
        return unread(Verdict(), "no reference answer to check against")
    text, seed = request.dressed(request.response), dials["seed"]
    u = uniform("verifier", seed, request.item_id, text, request.reference, request.reference_id)
    if agrees(request.response, request.reference):
        p = _MATCHED + (1 - _MATCHED) * u
    elif stated_answer(request.response) is not None:
        p = dials["self_solve"] / 2 * u
    elif request.reference_id:
        p = (1 - dials["ref_sensitivity"]) / 2 * u
    else:
        accepted = uniform("leak", seed, request.item_id, text) < dials["leak"]
        p = (0.5 if accepted else 0.0) + u / 2
    outcome = Outcome.YES if p >= 0.5 else Outcome.NO
    return Verdict(p_yes=p, outcome=outcome, probabilities=(p, 1 - p), coverage=1.0, forward_passes=1.0)
