"""Suffixes learned inside the study `cap`, against the scores that the judge itself gives."""

from __future__ import annotations

import numpy as np
import pytest

from engine.attacks.cards import saved_phrases
from engine.attacks.registry import make_attack
from engine.core.errors import Cancelled, InputError
from engine.data.store import load_dataset
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.runs.folder import create_run, open_run
from engine.studies.cap.contexts import Progress, divide
from engine.studies.cap.run import learn_suffixes, learning_work
from engine.studies.cap.study import CapConfig
from engine.studies.running import build_requests, with_attack
from engine.studies.suffix_targets import spread_over_items
from tests.engine.attacks.conftest import any_coverage, wordy, wordy_judge  # noqa: F401

CONFIG = CapConfig(
    judge="path:wordy", data="demo-dialogue", learned_words=2, learned_candidates=4, learned_prompts=3,
    learned_through_cap=True,
)  # fmt: skip


def test_phrases_are_learned_on_training_contexts_and_worth_what_they_claim(
    settings,
    wordy_judge,  # noqa: F811
    any_coverage,  # noqa: F811
):
    dataset = load_dataset("demo-dialogue", settings.datasets)
    contexts = divide(CONFIG, dataset)
    anchors = {"cap": {r.item_id: Anchors("I do not know.", "Try the red one.") for r in contexts.every}}
    run = create_run(settings.runs, "cap", CONFIG.model_dump(), "cap-20260101-000000-abc")
    told: list[tuple[int, int]] = []
    progress = Progress(lambda done, total: told.append((done, total)), learning_work(CONFIG))
    names = learn_suffixes(CONFIG, contexts, dataset, wordy_judge, anchors, run, progress)

    plain, through = run.manifest()["learned"]
    assert [plain["defense"], through["defense"]] == ["none", "cap"]
    assert names == (plain["attack"], through["attack"]) == ("suffix:cap-abc", "suffix:cap-through-abc")
    assert told[-1][0] <= told[-1][1] == learning_work(CONFIG)
    training = {r.item_id for r in contexts.training}
    asked = spread_over_items([r for r in build_requests(dataset) if r.item_id in training], 3)
    behind = {"none": wordy_judge, "cap": AnchoredJudge(wordy_judge, "cap", GivenAnchors("cap", anchors["cap"]))}
    for one in (plain, through):
        phrase = saved_phrases()[one["attack"].removeprefix("suffix:")]
        assert list(phrase.words) == one["words"]
        assert phrase.defense == one["defense"]
        for words, value in ((0, one["values"][0]), (2, one["values"][-1])):
            attack = make_attack(f"{one['attack']}:{words}" if words < 2 else one["attack"]) if words else None
            requests = [with_attack(r, attack) for r in asked] if attack else asked
            scores = [v.score for v in behind[one["defense"]].judge(requests)]
            assert np.mean(scores) == pytest.approx(value, abs=1e-3)


@pytest.mark.slow
def test_a_stopped_search_goes_on_behind_its_words(
    settings,
    wordy_judge,  # noqa: F811
    any_coverage,  # noqa: F811
):
    config = CONFIG.model_copy(update={"learned_through_cap": False})
    dataset = load_dataset("demo-dialogue", settings.datasets)
    contexts = divide(config, dataset)

    def learned(run_id: str, look):
        run = create_run(settings.runs, "cap", config.model_dump(), run_id)
        progress = Progress(look, learning_work(config))
        try:
            learn_suffixes(config, contexts, dataset, wordy_judge, {}, run, progress)
        finally:
            found = run.manifest()["learned"][0]
        return found

    whole = learned("cap-whole", lambda *_: None)
    made: list[int] = []

    def stop(done: int, total: int) -> None:
        made.append(done)
        if open_run(settings.runs, "cap-stopped").manifest().get("learned"):
            raise Cancelled

    with pytest.raises(Cancelled):
        learned("cap-stopped", stop)
    before = open_run(settings.runs, "cap-stopped").manifest()["learned"][0]
    assert before["words"] == whole["words"][:1]
    assert not before["attack"]
    first = len(made)
    after = learned("cap-stopped", lambda done, _: made.append(done))
    assert (after["words"], after["values"]) == (whole["words"], pytest.approx(whole["values"], abs=1e-6))
    assert after["attack"] == "suffix:cap-cap-stopped"
    assert after["queries"] > before["queries"]
    assert max(made[first:]) < learning_work(config), "the first word was searched again"


def test_contexts_without_steered_anchors_are_left_out_of_the_search_through_cap(
    settings,
    wordy_judge,  # noqa: F811
    any_coverage,  # noqa: F811
):
    config = CONFIG.model_copy(update={"learned_words": 1})
    dataset = load_dataset("demo-dialogue", settings.datasets)
    contexts = divide(config, dataset)
    given = {r.item_id: Anchors("I do not know.", "Try the red one.") for r in contexts.every}
    written, *missing = (r.item_id for r in contexts.training)
    given |= {item: Anchors(low="I do not know.", unread="cap: the tutor wrote no high anchor") for item in missing}
    run = create_run(settings.runs, "cap", config.model_dump(), "cap-gaps")
    progress = Progress(lambda *_: None, learning_work(config))
    learn_suffixes(config, contexts, dataset, wordy_judge, {"cap": given}, run, progress)
    through = run.manifest()["learned"][1]
    own = [r for r in build_requests(dataset) if r.item_id == written]
    behind = AnchoredJudge(wordy_judge, "cap", GivenAnchors("cap", given))
    clean = [v.score for v in behind.judge(spread_over_items(own, 3))]
    assert through["values"][0] == pytest.approx(np.mean(clean), abs=1e-3)

    nobody = dict.fromkeys(given, Anchors(unread="cap: the tutor wrote no high anchor"))
    with pytest.raises(InputError, match="None of the 6 training contexts has both steered anchors"):
        learn_suffixes(config, contexts, dataset, wordy_judge, {"cap": nobody}, run, progress)


def test_nothing_is_learned_unless_asked(settings):
    assert learning_work(CapConfig(judge="j", data="d")) == 0
    assert learning_work(CONFIG.model_copy(update={"learned_through_cap": False})) * 2 == learning_work(CONFIG)
