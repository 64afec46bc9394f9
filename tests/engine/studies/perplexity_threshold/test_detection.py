"""Study `detection`: the threshold is fitted on one side and measured on the other, each family alone."""

from __future__ import annotations

import json

import pytest

from engine.cli import main as cli
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.data.store import load_dataset
from engine.defenses.guard import Reading
from engine.judges.base import no_checkpoint
from engine.runs.folder import create_run
from engine.stats.detection import detection_metrics, fitted, side_of
from engine.studies.perplexity_threshold.run import plan_detection, run_detection
from engine.studies.perplexity_threshold.study import DetectionConfig

CONFIG = DetectionConfig(data="demo-dialogue", suffixes=("suffix:2",), prompts=("dsi",))


class Guard:
    """Reads 100 and up for texts with the phrase, 10 and up for others: prompts cannot be told from clean texts."""

    def perplexities(self, texts, window, after_batch):
        after_batch()
        return [Reading((100.0 if "outstandingly" in t else 10.0) + len(t) % 7) for t in texts]


@pytest.fixture
def demo(settings):
    return load_dataset("demo-dialogue", settings.datasets)


def value(metrics, metric, family, attack=NONE):
    rows = metrics[(metrics["metric"] == metric) & (metrics["group"] == family) & (metrics["attack"] == attack)]
    return rows["value"].iloc[0]


def test_a_planted_gap_is_found_and_a_planted_likeness_is_not(demo, settings):
    run = create_run(settings.runs, "detection", {}, "d")
    metrics = run_detection(CONFIG, demo, Guard(), run, no_checkpoint)
    assert 16 <= value(metrics, "threshold", "suffix") < 100
    assert value(metrics, "f1", "suffix") == value(metrics, "recall", "suffix", "suffix:2") == 1.0
    assert value(metrics, "false_alarms", "suffix") == 0.0
    assert value(metrics, "f1", "prompt") < 0.8
    assert run.manifest()["state"] == "done"


def test_sides_share_no_item_and_families_share_the_clean_texts(demo, settings):
    run = create_run(settings.runs, "detection", {}, "d")
    run_detection(CONFIG, demo, Guard(), run, no_checkpoint)
    readings = run.table("readings")
    assert "d01-broken" not in set(readings["response_id"])
    sides = {s: set(readings.loc[readings["split"] == s, "item_id"]) for s in ("train", "test")}
    assert not sides["train"] & sides["test"]
    assert len(sides["train"]) == len(sides["test"]) == 6
    for family in ("suffix", "prompt"):
        side = side_of(readings, family, "train")
        assert set(side["family"]) == {NONE, family}
        assert (side["attack"] == NONE).sum() == 18
        f1, threshold = fitted(readings, family)
        flagged, attacked = side["value"] > threshold, side["attack"] != NONE
        assert f1 == pytest.approx(2 * (flagged & attacked).sum() / (flagged.sum() + attacked.sum()))


def test_the_texts_it_is_measured_on_have_no_part_in_the_threshold(demo, settings):
    run = create_run(settings.runs, "detection", {}, "d")
    before = run_detection(CONFIG, demo, Guard(), run, no_checkpoint)
    readings = run.table("readings")
    other = readings["value"].where(readings["split"] == "train", 1e6 / readings["value"])
    after = detection_metrics(readings.assign(value=other))
    for family in ("suffix", "prompt"):
        assert value(after, "threshold", family) == value(before, "threshold", family)
        assert value(after, "train_f1", family) == value(before, "train_f1", family)
    assert value(after, "false_alarms", "suffix") > value(before, "false_alarms", "suffix")


def test_one_item_is_too_few(demo, settings):
    with pytest.raises(InputError, match="at least two"):
        run_detection(
            CONFIG.model_copy(update={"limit": 2}), demo, Guard(), create_run(settings.runs, "detection", {}, "d"),
            no_checkpoint,
        )  # fmt: skip


def test_the_plan_counts_the_texts_that_are_then_read(demo, settings):
    read = set()

    class Counting(Guard):
        def perplexities(self, texts, window, after_batch):
            read.update(texts)
            return super().perplexities(texts, window, after_batch)

    run_detection(CONFIG, demo, Counting(), create_run(settings.runs, "detection", {}, "d"), no_checkpoint)
    assert plan_detection(CONFIG, demo) == {"texts": len(read), "tokens": sum(1 + len(t) // 4 for t in read)}


def test_the_command_line_says_it_and_makes_no_run(capsys, settings):
    assert cli.main(["study", "detection", "--dry-run", "--json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1])["texts"] > 48
    assert "texts are read once each" in out
    assert not settings.runs.exists()
