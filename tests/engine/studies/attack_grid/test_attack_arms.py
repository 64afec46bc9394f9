"""The studies take every name of an arm; an attack that does not fit the window is unread, never cut."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.attacks.registry import make_attack
from engine.bench.screening import screening_table
from engine.data.dataset import build_dataset
from engine.data.reading import read_table
from engine.data.store import load_dataset
from engine.defenses.guard import Reading
from engine.judges.base import no_checkpoint
from engine.judges.cards import built_in_cards
from engine.judges.kinds import PointwiseJudge
from engine.judges.planted import make_planted
from engine.runs.folder import create_run, open_run
from engine.studies.attack_grid.run import AttackOne, attack_one, run_score
from engine.studies.attack_grid.study import STUDY, ScoreConfig
from engine.studies.study import Context

INJECTION = "planted:injection?strength=0.8&noise=0"


def dataset_of(*texts: str):
    content = pd.DataFrame({"response": texts}).to_csv(index=False).encode()
    return build_dataset(read_table("made.csv", content), {"response": "response"}, task="dialogue", name="made")


@pytest.mark.slow
@pytest.mark.weights
def test_an_attack_beyond_the_window_is_a_flagged_exclusion(bundled, settings):
    """128 copies of a hundred words do not fit 8,192 tokens; those of two words do."""
    data = dataset_of("Yes, gladly.", "A reply that goes on for rather longer than it should. " * 10)
    judge = PointwiseJudge(bundled, built_in_cards(settings.assets / "cards"))
    config = ScoreConfig(judge=judge.spec, data=data.dataset_id, attacks=("long:128",))
    run = create_run(settings.runs, "score", config.model_dump(), None)
    metrics = run_score(config, data, judge, run, no_checkpoint)
    attacked = run.table("verdicts").query("attack == 'long:128'")
    short, long = attacked.iloc[0], attacked.iloc[1]
    assert pd.isna(short["unread_reason"])
    assert long["unread_reason"].startswith(f"prompt of {int(long['prompt_tokens']):,} tokens")
    assert long["prompt_tokens"] > 8192
    assert pd.isna(long["score"])
    row = metrics.query("metric == 'shift' and attack == 'long:128'").iloc[0]
    assert (row["n"], row["n_unread"]) == (1, 1)


def test_score_takes_options_and_knows_spellings_of_one_arm(settings):
    data = load_dataset("demo-dialogue", settings.datasets)
    config = ScoreConfig(
        judge=INJECTION,
        data=data.dataset_id,
        attacks=("dsi-deflate", "suffix:4", "suffix", "bed@before", "empty", "distraction"),
        defenses=("retokenise?rate=0.10", "preprompt+sandwich"),
        limit=4,
    )
    run = create_run(settings.runs, "score", config.model_dump(), None)
    metrics = run_score(config, data, make_planted(INJECTION), run, no_checkpoint)
    verdicts = run.table("verdicts")
    assert set(verdicts["attack"]) == {"none", "dsi-deflate", "suffix", "bed@before", "empty", "distraction"}
    assert set(verdicts["defense"]) == {"retokenise", "preprompt+sandwich"}
    assert len(verdicts) == 4 * 6 * 2
    sandwiched = metrics.query("metric == 'shift' and defense == 'preprompt+sandwich'").set_index("attack")["value"]
    assert sandwiched["bed@before"] == pytest.approx(0.8)
    assert sandwiched["dsi-deflate"] == 0


@pytest.mark.parametrize(
    ("name", "study"), [("", "score"), ("score", "score"), ("grid", "grid"), ("attack_grid", "score")]
)
def test_a_run_keeps_the_name_it_was_started_by_and_says_its_kind(settings, name, study):
    config = ScoreConfig(judge=INJECTION, data="demo-dialogue", limit=2, run_id="named")
    STUDY.job(config, Context(settings), settings.runs, name)
    manifest = open_run(settings.runs, "named").manifest()
    assert (manifest["study"], manifest["kind"]) == (study, "attack_grid")


def test_one_response_under_options(settings):
    made = AttackOne(
        judge=INJECTION, data="demo-dialogue", response_id="d01-good", attack="dsi@before", defense="preprompt+sandwich"
    )
    result = attack_one(made, settings, no_checkpoint)
    assert [kind for kind, _ in result["diff"]] == ["added", "same"]
    assert result["attacked"]["score"] - result["clean"]["score"] == pytest.approx(0.8)
    assert result["device"] == "no model"
    empty = attack_one(made.model_copy(update={"attack": "empty"}), settings, no_checkpoint)
    assert [kind for kind, _ in empty["diff"]] == ["removed"]
    own = attack_one(made.model_copy(update={"attack": "own@before", "own_text": "hi"}), settings, no_checkpoint)
    assert own["attacked_text"].startswith("hi\n")


class Lengths:
    """A guard whose readings are known: texts with the first word of the phrase read 500 higher."""

    def perplexities(self, texts, window, after_batch):
        return [Reading(float(window + i) + 500 * ("outstandingly" in t)) for i, t in enumerate(texts)]

    def suspicions(self, texts, after_batch):
        return [Reading(0.25) for _ in texts]


def test_the_screening_table_counts_what_lies_above(settings):
    data = load_dataset("demo-dialogue", settings.datasets)
    table = screening_table(data, Lengths(), ("suffix", "dsi"), (0, 8)).set_index(["screen", "attack"])
    assert list(table["n"].unique()) == [36]  # the twelve scrambled replies are left out
    caught = table.loc[("perplexity", "suffix")]
    assert (caught["auc"], caught["hits"], caught["alarms"], caught["best_f1"]) == (1, 1, 0, 1)
    assert table.loc[("perplexity?window=8", "dsi"), "auc"] == pytest.approx(0.5)
    assert table.loc[("detector", "dsi"), "auc"] == pytest.approx(0.5)
    assert caught["suggested"] == pytest.approx(31.5)
    assert make_attack("suffix").name == "suffix"
