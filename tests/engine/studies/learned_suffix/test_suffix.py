"""Study `suffix` from a data set to a saved phrase that is measured on items it was not learned on."""

from __future__ import annotations

import shutil

import pytest

from engine.attacks.cards import saved_phrases
from engine.attacks.registry import make_attack
from engine.core.errors import Cancelled, InputError
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.data.store import load_dataset
from engine.judges.base import no_checkpoint
from engine.judges.planted import make_planted
from engine.runs.folder import open_run
from engine.stats.shifts import paired_shifts
from engine.studies.learned_suffix.run import plan_suffix, run_suffix
from engine.studies.learned_suffix.study import STUDY, SuffixConfig, phrase_name
from engine.studies.running import build_requests, with_attack
from engine.studies.study import Context
from engine.studies.suffix_targets import split_requests, suffixed
from tests.engine.attacks.conftest import any_coverage, wordy, wordy_judge  # noqa: F401

CONFIG = SuffixConfig(
    judge="path:wordy", data="demo-dialogue", words=2, candidates=4, prompts=3, limit=4, name="found-here"
)


@pytest.fixture
def demo(settings):
    return load_dataset("demo-dialogue", settings.datasets)


@pytest.fixture(scope="module")
def searched(tmp_path_factory, wordy_judge):  # noqa: F811
    """A home with one finished search, and its metrics."""
    home = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.attacks.suffix_search.MIN_COVERAGE", 0.0)
        patch.setenv("JUDGESCOPE_HOME", str(home))
        own = get_settings()
        run = STUDY.begin(CONFIG, own.runs)
        return (
            home,
            run.run_id,
            run_suffix(CONFIG, load_dataset(CONFIG.data, own.datasets), wordy_judge, run, no_checkpoint),
        )


@pytest.fixture
def done(searched, settings):
    """The finished search in the test's own home."""
    home, run_id, metrics = searched
    shutil.copytree(home, settings.data_dir, dirs_exist_ok=True)
    return open_run(settings.runs, run_id), metrics


def test_the_phrase_is_saved_and_measured_on_other_items(done, demo):
    run, metrics = done
    manifest, tried, verdicts = run.manifest(), run.table("suffix_search"), run.table("verdicts")
    phrase = saved_phrases()["found-here"]
    assert list(phrase.words) == manifest["phrase"]["words"]
    assert manifest["state"] == "done"
    split = manifest["split"]
    assert not set(split["train_items"]) & set(split["test_items"])
    assert set(verdicts["item_id"]) == set(split["test_items"])
    assert set(verdicts["attack"]) == {"none", "suffix:found-here:1", "suffix:found-here"}
    assert len(verdicts) == 4 * 3
    chosen = tried[tried["chosen"] == 1]
    assert chosen["word"].fillna("").tolist() == ["", *phrase.words]
    assert (tried[tried["step"] > 0].groupby("step")["word"].nunique() == 4).all()
    best = tried[tried["step"] > 0].groupby("step")["value"].max().tolist()
    assert best == chosen["value"].tolist()[1:] == list(phrase.values[1:])
    shift = metrics[(metrics["metric"] == "shift") & (metrics["attack"] == "suffix:found-here")]["value"].iloc[0]
    own = paired_shifts(verdicts)
    assert shift == pytest.approx(own.loc[own["attack"] == "suffix:found-here", "shift"].mean())


def test_the_plan_is_what_the_run_then_takes_at_most(done, demo, wordy_judge):  # noqa: F811
    run, _ = done
    plan = plan_suffix(CONFIG, demo, wordy_judge)
    assert plan["verdicts"] == len(run.table("verdicts"))
    queries = run.manifest()["phrase"]["queries"]  # a differentiated prompt counts three
    assert plan["search_prompts"] <= queries <= 3 * plan["search_prompts"]
    assert plan["tokens"] > run.table("verdicts").query("attack == 'none'")["prompt_tokens"].sum()


def test_the_saved_attack_writes_what_was_searched(done, demo):
    phrase = saved_phrases()["found-here"]
    for request in build_requests(demo)[:5]:
        attacked = with_attack(request, make_attack("suffix:found-here"))
        assert attacked.response == suffixed(request, phrase.words).response


@pytest.mark.slow
def test_a_stopped_search_goes_on_behind_the_words_it_found(demo, settings, wordy_judge, any_coverage, done):  # noqa: F811
    whole = saved_phrases()["found-here"]
    config = CONFIG.model_copy(update={"run_id": "again", "name": "again"})

    class Stop:
        def __init__(self, run):
            self.run = run

        def __call__(self, at, total):
            assert at <= total
            if self.run.manifest()["phrase"]["words"]:
                raise Cancelled

    run = STUDY.begin(config, settings.runs)
    with pytest.raises(Cancelled):
        run_suffix(config, demo, wordy_judge, run, Stop(run))
    assert run.manifest()["state"] == "stopped"
    assert run.manifest()["phrase"]["words"] == [whole.words[0]]
    assert "again" not in saved_phrases()
    resumed = STUDY.begin(config, settings.runs)
    assert resumed.manifest()["phrase"]["words"] == [whole.words[0]]
    told = []
    run_suffix(config, demo, wordy_judge, resumed, lambda at, total: told.append((at, total)))
    assert saved_phrases()["again"].words == whole.words
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    renamed = STUDY.begin(config.model_copy(update={"name": "other"}), settings.runs)
    assert renamed.manifest()["phrase"]["words"] == list(whole.words)
    assert renamed.manifest()["phrase"]["name"] == "other"
    changed = STUDY.begin(config.model_copy(update={"candidates": 5}), settings.runs)
    assert changed.manifest()["phrase"]["words"] == []


def test_pairs_are_measured_in_both_orders(settings, wordy_judge, any_coverage):  # noqa: F811
    data = load_dataset("demo-instruction", settings.datasets)
    config = CONFIG.model_copy(update={"data": "demo-instruction", "protocol": "pairwise", "words": 1, "name": "p"})
    run = STUDY.begin(config, settings.runs)
    metrics = run_suffix(config, data, wordy_judge, run, no_checkpoint)
    verdicts, pairs = run.table("verdicts"), run.table("pairs")
    assert len(verdicts) == 2 * len(pairs) == 2 * 4 * 2
    preference = (pairs["p_a"] + pairs["p_tie"] / 2)[pairs["attack"] == "none"].mean()
    assert metrics.loc[metrics["attack"] == "none", "value"].iloc[0] == pytest.approx(preference)


def test_the_split_is_by_item_and_takes_every_training_item_in_turn(demo):
    split = split_requests(demo, Protocol.POINTWISE, 8, 0.5, 0)
    train = [r.item_id for r in split.train]
    assert len(train) == 8
    assert len(set(train[:6])) == 6
    assert not set(train) & {r.item_id for r in split.test}
    assert len(split.test) == 24
    again = split_requests(demo, Protocol.POINTWISE, 8, 0.5, 0)
    assert [r.response_id for r in again.train] == [r.response_id for r in split.train]
    assert train != [r.item_id for r in split_requests(demo, Protocol.POINTWISE, 8, 0.5, 1).train]


def test_the_data_s_own_groups_may_split_it(demo):
    from dataclasses import replace

    groups = ["train" if i < 3 else "eval" for i in range(len(demo.items))]
    grouped = replace(demo, items=demo.items.assign(group=groups))
    split = split_requests(grouped, Protocol.POINTWISE, 8, 0.5, 0, by_group=True)
    assert {r.item_id for r in split.train} == {"d01", "d02", "d03"}
    assert {r.item_id for r in split.test} == set(demo.items["item_id"]) - {"d01", "d02", "d03"}
    with pytest.raises(InputError, match="group 'train'"):
        split_requests(demo, Protocol.POINTWISE, 8, 0.5, 0, by_group=True)


def test_one_item_cannot_be_split(demo):
    from dataclasses import replace

    one = replace(demo, responses=demo.responses[demo.responses["item_id"] == "d01"])
    with pytest.raises(InputError, match="at least two"):
        split_requests(one, Protocol.POINTWISE, 8, 0.5, 0)


def test_a_planted_judge_is_refused_and_the_run_is_marked(demo, settings):
    config = CONFIG.model_copy(update={"judge": "planted:injection"})
    run = STUDY.begin(config, settings.runs)
    with pytest.raises(InputError, match="white-box"):
        run_suffix(config, demo, make_planted("planted:injection"), run, no_checkpoint)
    assert run.manifest()["state"] == "failed"


def test_a_job_tells_the_phrase(settings, wordy_judge, any_coverage):  # noqa: F811
    context = type("Prepared", (Context,), {"judge": lambda self, spec, **_: wordy_judge})(settings)
    config = CONFIG.model_copy(update={"words": 1, "limit": 0, "run_id": "j"})
    told = STUDY.job(config, context, settings.runs)
    assert told["run_id"] == "j"
    assert told["phrase"]["words"] == list(saved_phrases()["found-here"].words)
    found = STUDY.summary(config, open_run(settings.runs, "j"))
    assert found.text.endswith("The phrase is saved: attack suffix:found-here.")
    assert found.record["phrase"] == told["phrase"]


def test_a_phrase_is_called_after_its_run():
    free = CONFIG.model_copy(update={"name": None})
    assert phrase_name(free, "suffix-20261128-030711-0a0e71") == "found-0a0e71"
    assert phrase_name(free, "My.Run") == "found-my-run"
    assert len(phrase_name(free, "x" * 80)) == 40
