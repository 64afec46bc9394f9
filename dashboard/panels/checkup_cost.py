"""What a check-up will take, before its button is pressed: judge calls, time, and an API judge's tokens and price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard import data
from dashboard.panels import findings
from dashboard.panels.api_cost import cost_sentence, mean_bytes, pace
from dashboard.panels.checkup_data import CheckupRun, pair_sets
from engine import catalog
from engine.data.comparisons import load_comparisons
from engine.metrics.checkup_calls import Size, most_calls
from engine.schema import Protocol
from engine.settings import get_settings


def cost(judge: str, data_id: str, params: Mapping[str, Any], last: CheckupRun | None) -> tuple[str, str]:
    """What is asked, in how many calls and for how long; and what an API judge would be sent and cost.

    Args:
        judge: the judge's spec.
        data_id: a data set or a set of pairs.
        params: the settings of the run.
        last: the newest check-up of this judge on these data, for its pace.

    Raises:
        EngineError: the data cannot be opened.
    """
    if data_id in pair_sets():
        pairs = load_comparisons(data_id, get_settings().comparisons)
        items, responses, comparisons, said = pairs.items, pairs.responses, pairs.comparisons, pairs.counts()
    else:
        held = data.dataset(data_id)
        items, responses, comparisons, said = held.items, held.responses, None, data.counts(held)
    size = Size(params["limit"], params["responses"], params["pairs"], len(params["attacks"]), len(catalog.KEY_TEXTS))
    calls = most_calls(items, responses, comparisons, size, _protocols(judge))
    total = sum(calls.values())
    if not total:
        return f"Eleven probes on {said}.", ""
    per_call = pace(last.source.table("verdicts")) if last and last.own else 0.0
    time = f", about {findings.duration(total * per_call)} at the last pace" if per_call else ""
    sentence = f"Eleven probes on {said}: at most {total:,} judge calls{time}."
    compared = calls.get(Protocol.PAIRWISE, 0)  # both responses stand in the prompt
    text = mean_bytes(responses["text"]) * (1 + compared / total)
    return sentence, cost_sentence(judge, total, mean_bytes(items["context"]) + text)


def _protocols(judge: str) -> list[Protocol]:
    """How the judge can be asked, as far as the lists say; every way where they do not know it."""
    names = {judge, judge.partition("?")[0] if judge.startswith("planted:") else judge}
    return [p for p in Protocol if names & catalog.judges_for(p).keys()] or list(Protocol)
