"""Study refswap end to end: the four regimes of the planted verifier, a tiny real model, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.cli import main
from engine.data.store import DEMO_DIALOGUE, DEMO_VERIFICATION, load_dataset
from engine.errors import Cancelled, InputError
from engine.judges.base import no_checkpoint
from engine.judges.registry import make_judge
from engine.metrics.refswap import sample_table, summarise
from engine.readout.refswap import planted_auc
from engine.runs import create_run
from engine.studies.refswap import pool_of, prepare, run_refswap
from engine.studies.refswap_config import RefSwapConfig
from engine.studies.refswap_one import VerifyOne, verify_one


def demo():
    from engine.settings import get_settings

    return load_dataset(DEMO_VERIFICATION, get_settings().datasets)


def run(settings, spec, dataset=None, judge=None, checkpoint=no_checkpoint, **changes):
    dataset = dataset or demo()
    config = RefSwapConfig(judge=spec, data=dataset.dataset_id, **changes)
    folder = create_run(settings.runs, "refswap", config.model_dump())
    pool = pool_of(config.pool, dataset, settings)
    run_refswap(config, dataset, judge or make_judge(spec, settings), folder, checkpoint, pool)
    return folder


@pytest.mark.parametrize(("solve", "sensitive"), [(0.9, 0.3), (0.3, 0.1), (0.8, 0.2)], ids=["solves", "blind", "both"])
def test_a_fooled_verifier_has_its_closed_form_auc(settings, solve, sensitive):
    spec = f"planted:verifier?self_solve={solve}&leak=0.5&ref_sensitivity={sensitive}"
    folder = run(settings, spec, k_max=5)
    table = sample_table(folder.table("verdicts"), folder.table("samples"))
    found = summarise(table.samples, k=5, delta=0.02)
    truth = planted_auc(solve, sensitive, 5)
    assert found.n_fooled > 200
    assert found.auc.value == pytest.approx(truth, abs=0.12)
    assert found.auc.lower - 0.03 <= truth <= found.auc.upper + 0.03
    assert found.before.fpr.value == pytest.approx(0.5, abs=0.1)


def test_a_verifier_that_is_not_fooled(settings):
    folder = run(settings, "planted:verifier?leak=0", k_max=2, k=2)
    metrics = folder.table("metrics").set_index(["metric", "group", "defense", "attack"])
    fpr = metrics.loc[("fpr", "test", "none", "none")]
    assert fpr["value"] == 0
    assert fpr["n_clusters"] == 48
    assert 0 < fpr["upper"] < 0.08
    assert np.isnan(metrics.loc[("auc", "all", "none", "none"), "value"])


def test_every_sample_and_reference_is_there_once(settings):
    folder = run(settings, "planted:verifier", arms=("other", "same"), k_max=3, k=3, limit=20, keys=(" ", "my key"))
    verdicts, samples, references = (folder.table(n) for n in ("verdicts", "samples", "references"))
    assert len(samples) == 20 + 10 * 2
    assert set(samples["attack"]) == {"none", "key:space", 'key:"my key"'}
    assert not verdicts["verdict_id"].duplicated().any()
    base = verdicts[verdicts["reference_id"].isna()]
    assert len(base) == len(samples)
    yes = base[base["outcome"] == "yes"]
    checked = verdicts[verdicts["reference_id"].notna()]
    assert set(zip(checked["response_id"], checked["attack"], strict=True)) == set(
        zip(yes["response_id"], yes["attack"], strict=True)
    )
    assert references.groupby("item_id").size().eq(1 + 3 + 3).all()
    assert samples.groupby("item_id")["dev"].nunique().eq(1).all()
    assert folder.manifest()["state"] == "done"


def test_a_stopped_run_keeps_whole_items(settings):
    def stop(done, total):
        if done > 200:
            raise Cancelled

    dataset = demo()
    with pytest.raises(Cancelled):
        run(settings, "planted:verifier", dataset, checkpoint=stop, run_id="part")
    folder = next(f for f in settings.runs.iterdir())
    from engine.runs import RunFolder

    kept = RunFolder(folder)
    assert kept.manifest()["state"] == "stopped"
    samples = kept.table("samples")
    assert 0 < samples["item_id"].nunique() < 60
    assert samples.groupby("item_id").size().eq(2 + 10).all()


def test_a_real_model_shares_what_stands_before_the_reference(settings, tiny_folders):
    judge = make_judge(f"path:{tiny_folders('llama')}", settings, cache=False, threshold=0.0001)
    judge._loaded = replace(judge._loaded, max_tokens=4000)
    judge._min_coverage = 0.0
    found = {}
    for variant in ("", "reference last"):
        folder = run(settings, judge.spec, judge=judge, variant=variant, limit=2, k=2, k_max=2, keys=(":",))
        table = sample_table(folder.table("verdicts"), folder.table("samples"))
        assert not np.isnan(table.samples.fresh[table.samples.asked]).any()
        found[variant] = summarise(table.samples, k=2, delta=0.02, threshold=0.0001).cost_clean
    assert found["reference last"].passes == 3
    assert 1 < found["reference last"].tokens_ratio < found[""].tokens_ratio


def test_bad_data_is_named(settings):
    with pytest.raises(InputError, match="no item with a reference"):
        run(settings, "planted:verifier", load_dataset(DEMO_DIALOGUE, settings.datasets), pool="demo-verification")
    dataset = demo()
    bare = replace(dataset, responses=dataset.responses.assign(quality=None))
    with pytest.raises(InputError, match="no column quality"):
        run(settings, "planted:verifier", bare)
    numbers = replace(dataset, items=dataset.items.assign(reference="12"))
    with pytest.raises(InputError, match="has 0 usable counterfactual references for '12'"):
        run(settings, "planted:verifier", numbers)
    with pytest.raises(InputError, match="cannot be read"):
        pool_of("absent.txt", dataset, settings)


def test_missing_references_are_left_out_and_counted(settings):
    dataset = demo()
    items = dataset.items.copy()
    items.loc[items.index[:3], "reference"] = ["", "  ", "\u200b"]
    folder = run(settings, "planted:verifier", replace(dataset, items=items), k_max=1, k=1)
    assert folder.manifest()["data"]["n_without_reference"] == 3
    assert folder.table("samples")["item_id"].nunique() == 57


def test_a_question_cannot_name_a_slot_and_long_responses_are_taken(settings, tiny_folders):
    dataset = demo()
    items = dataset.items.assign(context="What is {reference}? {response}")
    responses = dataset.responses.assign(text="x" * 20_000)
    odd = replace(dataset, items=items, responses=responses)
    config = RefSwapConfig(judge="j", data="d", limit=2)
    material = prepare(config, odd, pool_of("data", odd, settings))
    judge = make_judge(f"path:{tiny_folders('llama')}", settings, cache=False)
    first = next(iter(material.requests.values()))
    assert "What is {reference}? {response}" in judge.prompt(first[-1])
    verdict = judge.judge(first[:1])[0]
    assert "nothing was cut" in verdict.unread_reason  # this tiny model's window is short: unread, not a guess
    folder = run(settings, "planted:verifier", odd, limit=4, k=1, k_max=1)
    assert folder.table("samples")["length"].max() == 20_000


def test_a_pool_from_a_file(settings, tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("Tuesday\nx + 1\n(B)\ngreen\ny^2\n", encoding="utf-8")
    folder = run(settings, "planted:verifier", pool=str(path), k=1, k_max=1, limit=4)
    swapped = folder.table("references")
    assert set(swapped.loc[swapped["arm"] == "other", "reference"]) <= {"Tuesday", "x + 1", "(B)", "green", "y^2"}


def test_the_command_line_gives_the_promised_keys(settings, capsys):
    assert main(["study", "refswap", "--judge", "planted:verifier", "--limit", "20", "--json"]) == 0
    out = capsys.readouterr().out.splitlines()
    record = json.loads(out[-1])
    assert {
        *("judge", "n_clean", "n_keys", "accuracy_before", "accuracy_after", "fpr_before", "fpr_after"),
        *("fpr_worst_before", "fpr_worst_after", "auc", "s_auc", "cohens_d", "gamma", "delta", "k", "per_key"),
        *("forward_passes_per_sample", "tokens_ratio"),
    } <= set(record)
    assert record["n_clean"] == 20
    assert record["n_keys"] == 100
    assert record["per_key"][0]["key"] == " "
    assert record["tokens_ratio"] == {"clean": None, "key": None}  # no model, no tokens
    assert any("(space)" in line for line in out)


def test_one_text_in_both_stages(settings):
    spec = "planted:verifier?self_solve=0.9&leak=1&ref_sensitivity=1"
    base = {"judge": spec, "data": DEMO_VERIFICATION, "response_id": "v01-1", "defended": True, "gamma": 0.05}
    right = verify_one(VerifyOne(**base), settings, no_checkpoint)
    key = verify_one(VerifyOne(**base, key=" "), settings, no_checkpoint)
    assert (right["base"]["outcome"], right["final"]["outcome"]) == ("yes", "yes")
    assert (key["text"], key["base"]["outcome"], key["final"]["outcome"]) == (" ", "yes", "no")
    assert key["max_p_cf"] == 0
    assert len(right["references"]) == 5
    assert all(one["answer_type"] != "numeric" for one in right["references"])
    alone = verify_one(VerifyOne(**{**base, "defended": False}), settings, no_checkpoint)
    assert alone["references"] == []
    assert alone["max_p_cf"] is None
    with pytest.raises(InputError, match="no response"):
        verify_one(VerifyOne(**{**base, "response_id": "zz"}), settings, no_checkpoint)
