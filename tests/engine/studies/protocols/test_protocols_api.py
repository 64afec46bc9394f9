"""Rewriters, rankings and anchors from a model behind a server, whose every answer the test decides."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import ITEMS, NONE, RESPONSES
from engine.data.dataset import Dataset
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.defenses.registry import defend
from engine.judges.base import no_checkpoint
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.stats.arena import build_arena
from engine.studies.anchors import sources_for
from engine.studies.protocols.leaderboard import choice_sets
from engine.studies.protocols.metrics import content_checks
from engine.studies.protocols.requests import variant_table
from engine.studies.protocols.run import run_protocols
from engine.studies.protocols.study import ProtocolsConfig
from engine.studies.rewrites import make_rewriter
from engine.studies.running import build_requests
from tests.engine.studies.scripted import serving

SPEC = "api:scripted"
SYSTEMS = "wxyz"


def made(n_items: int = 3) -> Dataset:
    items = pd.DataFrame({"item_id": [f"i{i}" for i in range(n_items)], "task": "instruction", "context": "Say it."})
    rows = [
        {"response_id": f"{s}-{i}", "item_id": f"i{i}", "system": s, "text": f"Quality {q} says {i + 3} of Berlin."}
        for i in range(n_items)
        for q, s in enumerate(SYSTEMS, 1)
    ]
    return Dataset("0" * 16, "made", "instruction", ITEMS.conform(items), RESPONSES.conform(pd.DataFrame(rows)))


def qualities(prompt: str) -> list[int]:
    return [int(q) for q in re.findall(r"Quality (\d)", prompt.partition("Ranking:")[0])]


def ranked_by(key):
    """Answers a ranking prompt by a rule over the qualities shown; anything else with the middle score."""

    def says(prompt: str):
        if "Rank the responses" not in prompt:
            return {"3": 0.9, "4": 0.1} if "Score" in prompt or "score" in prompt else {"A": 0.6, "B": 0.4}
        shown = qualities(prompt)
        order = sorted(range(len(shown)), key=lambda i: key(shown, i))
        return " > ".join("ABCD"[i] for i in order)

    return says


@pytest.mark.parametrize(
    ("key", "reversals"),
    [(lambda shown, i: -shown[i], 0.0), (lambda shown, i: -shown[i] if sum(shown) % 2 else shown[i], None)],
    ids=["by quality", "by what else is shown"],
)
def test_any_server_that_writes_can_rank_choice_sets(settings, monkeypatch, key, reversals):
    config = ProtocolsConfig(
        judge=SPEC, data="x", rankings=True, distractors=("assertiveness",), boards=(), placebo=False, copies=False
    )
    run = create_run(settings.runs, "protocols", config.model_dump(mode="json"))
    with serving(ranked_by(key), monkeypatch):
        run_protocols(config, made(), make_judge(SPEC, settings), run, settings, no_checkpoint)
    arena = build_arena(run.table("verdicts"), run.table("variants"))
    found = choice_sets(arena)
    assert [one.layout for one in found] == ["{A, B, (C, D)}", "{(C, D), A, B}"]
    expected = reversals
    if expected is None:  # by hand: A and B turn round where the two sums differ in their last bit
        quality = {f"{s}-{i}": q for i in range(3) for q, s in enumerate(SYSTEMS, 1)}
        sets: dict[int, set[int]] = {}
        for item, shown, _ in arena.rankings:
            sets.setdefault(item, set()).add(sum(quality[r] for r in shown) % 2)
        expected = sum(len(parities) == 2 for parities in sets.values()) / len(sets)
    assert all(one.averaged.value == pytest.approx(expected) for one in found)
    assert run.manifest()["skipped"] == {}


def test_a_server_rewrites_and_its_texts_pass_the_same_checks(settings, monkeypatch):
    def says(prompt: str) -> str:
        text = re.search(r"Response:\n(.*)\n\nRewritten response:", prompt, re.DOTALL).group(1)
        return text.replace("Berlin", "Rome") if "says 3" in text else f"Surely, {text[0].lower()}{text[1:]}"

    with serving(says, monkeypatch) as seen:
        made_by = make_rewriter(SPEC, settings)
        table = variant_table(made(2), ["assertiveness"], made_by)
        assert len(seen) == 8
        again = variant_table(made(2), ["assertiveness"], make_rewriter(SPEC, settings))
        assert len(seen) == 8  # kept from before
    assert again["text"].tolist() == table["text"].tolist()
    new = table[table["style"] != NONE]
    assert new["rewriter"].unique().tolist() == [SPEC]
    assert new.loc[new["text"].str.contains("Rome"), "kept"].eq(0).all()
    assert new.loc[new["text"].str.startswith("Surely"), "kept"].eq(1).all()
    [checks] = content_checks(table).to_dict("records")
    assert (checks["n"], checks["kept"], checks["left_out"]) == (8, 4, "names lost: 4")


def test_names_that_are_no_rewriter_are_refused(settings):
    with pytest.raises(InputError, match="api:MODEL"):
        make_rewriter("openai:x", settings)
    with pytest.raises(InputError, match="BASE_URL"):
        make_rewriter(SPEC, settings)


def test_wcap_with_an_api_judge_and_an_api_tutor(settings, monkeypatch):
    dataset = load_dataset(DEMO_DIALOGUE, settings.datasets)
    request = build_requests(dataset)[0]

    def says(prompt: str):
        if "Poor reply of the tutor" in prompt:  # the judge sees both anchors
            return {"2": 0.5, "4": 0.5}
        if "poor" in prompt.lower() and "good" not in prompt.lower():
            return "Poor reply of the tutor."
        return "Good reply of the tutor."

    with serving(says, monkeypatch) as seen:
        sources = sources_for(["wcap"], dataset, settings, SPEC)
        judge = defend(make_judge(SPEC, settings), "wcap", sources=sources)
        [verdict] = judge.judge([request])
    assert verdict.score == pytest.approx(3.0)
    shown = next(prompt for prompt in seen if "Poor reply of the tutor." in prompt)
    assert "Good reply of the tutor." in shown
    assert request.response in shown
    assert len(seen) == 3
