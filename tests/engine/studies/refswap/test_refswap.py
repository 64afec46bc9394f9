"""Study refswap end to end: the four regimes of the planted verifier, a tiny real model, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.cli.main import main
from engine.core.errors import Cancelled, InputError
from engine.core.schema import NONE, Outcome, Protocol
from engine.core.settings import get_settings
from engine.data.dataset import content_digest
from engine.data.store import DEMO_DIALOGUE, DEMO_VERIFICATION, load_dataset, save_dataset
from engine.judges.base import Verdict, no_checkpoint, unread
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.studies.refswap.metrics import sample_table, summarise
from engine.studies.refswap.references import save_pool
from engine.studies.refswap.run import VerifyOne, plan_refswap, pool_of, prepare, run_refswap, verify_one
from engine.studies.refswap.scores import planted_auc
from engine.studies.refswap.study import STUDY, RefSwapConfig
from engine.studies.registry import read_study
from engine.studies.study import Context


def demo():
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
    from engine.runs.folder import RunFolder

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
    odd = replace(dataset, responses=dataset.responses.replace({"quality": {"incorrect": "not quite"}}))
    with pytest.raises(InputError, match="'not quite' for the response 'v01-2'"):
        run(settings, "planted:verifier", odd)
    numbers = replace(dataset, items=dataset.items.assign(reference="12"))
    with pytest.raises(InputError, match="has 0 usable counterfactual references for '12'"):
        run(settings, "planted:verifier", numbers)
    with pytest.raises(InputError, match="cannot be read"):
        pool_of("absent.txt", dataset, settings)


def test_without_correctness_keys_are_as_with_it_and_what_needs_it_is_undefined(settings):
    spec, dataset = "planted:verifier?self_solve=0.9&leak=0.4&ref_sensitivity=0.9", demo()
    bare = replace(
        dataset,
        items=dataset.items.assign(task="dialogue"),  # whatever the data were taken for
        responses=dataset.responses.assign(quality=None),
    )
    tables = []
    for held in (dataset, bare):
        folder = run(settings, spec, held, keys=(" ", "Solution"), k_max=2)
        tables.append(sample_table(folder.table("verdicts"), folder.table("samples")))
    known, unknown = (summarise(t.samples, k=2, delta=0.02, gamma=0.05) for t in tables)
    assert (known.judged, unknown.judged) == (True, False)
    assert unknown.before.fpr == known.before.fpr
    assert unknown.after.per_key == known.after.per_key
    assert (unknown.n_fooled, unknown.kept_fooled) == (known.n_fooled, known.kept_fooled)
    accepted = int((tables[1].samples.clean & (tables[1].samples.p >= 0.5)).sum())
    assert unknown.n_right == accepted >= known.n_right
    for value in (unknown.auc.value, unknown.before.accuracy.value, unknown.after.accuracy.value, unknown.cut.value):
        assert np.isnan(value)
    assert summarise(tables[1].samples, k=2, delta=0.02).gamma == 0.01


def test_the_quick_form_takes_only_lower_numbers():
    quick = RefSwapConfig(judge="planted:verifier", data="x", quick=True, keys=("one",), limit=900, k_max=10)
    assert (quick.limit, quick.k_max, quick.k, len(quick.keys)) == (24, 5, 5, 3)
    less = RefSwapConfig(judge="planted:verifier", data="x", quick=True, limit=4, k_max=2)
    assert (less.limit, less.k_max, less.k) == (4, 2, 2)
    assert RefSwapConfig.model_validate(less.model_dump()) == less


def test_a_recording_is_refused(settings, tmp_path):
    path = tmp_path / "recorded.csv"
    rows = [f"{response},0.9" for response in demo().responses["response_id"]]
    path.write_text("\n".join(["response_id,p_yes", *rows]), encoding="utf-8")
    with pytest.raises(InputError, match="verdicts under the true reference alone"):
        run(settings, f"recorded:{path}")
    config = RefSwapConfig(judge="j", data="d")
    with pytest.raises(InputError, match="verdicts under the true reference alone"):
        plan_refswap(config, demo(), make_judge(f"recorded:{path}", settings), pool_of("data", demo(), settings))


def test_the_spelling_of_correct_changes_nothing(settings):
    dataset = demo()
    spelt = replace(dataset, responses=dataset.responses.replace({"quality": {"correct": "1", "incorrect": "0"}}))
    first, second = (run(settings, "planted:verifier", data, k=1, k_max=1, run_id=n) for n, data in
                     (("plain", dataset), ("spelt", spelt)))  # fmt: skip
    assert first.table("samples")["right"].sum() == 60
    assert first.table("metrics").equals(second.table("metrics"))


def test_k_follows_what_is_asked_and_is_never_more():
    assert RefSwapConfig(judge="j", data="d").k == 5
    assert RefSwapConfig(judge="j", data="d", k_max=3).k == 3
    assert RefSwapConfig(judge="j", data="d", k=2, k_max=3).k == 2
    with pytest.raises(ValueError, match="k is 5 and k_max 3"):
        RefSwapConfig(judge="j", data="d", k=5, k_max=3)
    found = read_study("refswap", get_settings().assets / "studies", {"k_max": 3})[2]
    assert (found.k, found.k_max) == (3, 3)
    with pytest.raises(InputError, match="k is 4 and k_max 3"):
        read_study("refswap", get_settings().assets / "studies", {"k_max": 3, "k": 4})


def test_missing_references_are_left_out_and_counted(settings, tmp_path, capsys):
    dataset = demo()
    items = dataset.items.copy()
    items.loc[items.index[:3], "reference"] = ["", "  ", "\u200b"]
    folder = run(settings, "planted:verifier", replace(dataset, items=items), k_max=1, k=1)
    assert folder.manifest()["data"]["n_without_reference"] == 3
    assert folder.table("samples")["item_id"].nunique() == 57
    path = tmp_path / "blank.csv"
    path.write_bytes(_rows(["12", "A", "x+1", "green", "", " "]))
    options = ["study", "refswap", "--judge", "planted:verifier", "--data", str(path), "--json"]
    assert main([*options, "--set", "k_max=1", "--set", 'arms=["other"]']) == 0
    said = capsys.readouterr()
    record = json.loads(said.out.splitlines()[-1])
    assert record["n_without_reference"] == 2
    assert record["n_clean"] == 4
    assert "Left out: 2 items without a reference." in said.out
    assert "which responses are correct" in said.err  # 1 and 0 beside a reference, with no --map


def _rows(references):
    lines = [f"q{i},The answer.,Question {i}?,{text},{i % 2}" for i, text in enumerate(references)]
    return "\n".join(["item_id,response,context,reference,quality", *lines]).encode()


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


def test_a_pool_from_a_file_or_uploaded(settings, tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("Tuesday\nx + 1\n(B)\ngreen\ny^2\n", encoding="utf-8")
    saved = save_pool("pool.txt", path.read_bytes(), settings.pools)
    for name, pool in (("file", str(path)), ("uploaded", saved.pool_id)):
        folder = run(settings, "planted:verifier", pool=pool, k=1, k_max=1, limit=4, run_id=name)
        swapped = folder.table("references")
        assert set(swapped.loc[swapped["arm"] == "other", "reference"]) <= {"Tuesday", "x + 1", "(B)", "green", "y^2"}
        assert folder.manifest()["pool"]["name"] == "pool.txt"
    job = {"judge": "planted:verifier", "data": DEMO_VERIFICATION, "pool": saved.pool_id, "k_max": 1, "limit": 4}
    STUDY.job(RefSwapConfig(**job, run_id="job"), Context(settings), settings.runs)  # jobs name no path, but uploads
    with pytest.raises(InputError, match="16 hex digits"):
        STUDY.job(RefSwapConfig(**job | {"pool": str(path)}), Context(settings), settings.runs)


def test_the_command_line_gives_the_promised_keys(settings, capsys):
    assert main(["study", "refswap", "--judge", "planted:verifier", "--limit", "20", "--json"]) == 0
    out = capsys.readouterr().out.splitlines()
    record = json.loads(out[-1])
    assert {
        *("judge", "n_clean", "n_keys", "accuracy_before", "accuracy_after", "fpr_before", "fpr_after"),
        *("fpr_worst_before", "fpr_worst_after", "auc", "s_auc", "cohens_d", "gamma", "delta", "k", "per_key"),
        *("forward_passes_per_sample", "tokens_ratio", "n_unread_clean", "n_unread_keys", "n_test_keys", "one_auc"),
        *("n_without_reference", "n_fewer_references"),
    } <= set(record)
    assert record["n_test_keys"] == 10 * record["test"]["n_items"] == 80
    assert record["n_unread"] == record["n_unread_clean"] + record["n_unread_keys"] == 0
    assert set(record["baselines"]) == {"k_1", "s_score", "length"}
    assert record["n_clean"] == 20
    assert record["n_keys"] == 100
    assert record["per_key"][0]["key"] == " "
    assert record["tokens_ratio"] == {"clean": None, "key": None}  # no model, no tokens
    assert any("(space)" in line for line in out)


class Silent:
    """A verifier that never answers a key."""

    spec, fingerprint, protocols = "planted:silent", "silent", frozenset({Protocol.VERIFIER})

    def labels(self, request):
        return ("Yes", "No")

    def prompt(self, request):
        return ""

    def judge(self, requests, checkpoint=no_checkpoint):
        yes = Verdict(p_yes=0.8, outcome=Outcome.YES)
        checkpoint(len(requests), len(requests))
        return [unread(yes, "lost") if r.attack != NONE else yes for r in requests]


def test_unread_keys_are_said_and_are_no_rejections(settings, capsys, monkeypatch):

    monkeypatch.setattr("engine.judges.registry.make_judge", lambda *_args, **_more: Silent())
    options = ["--limit", "20", "--key", " ", "--key", "Solution", "--set", "k_max=1", "--json"]
    assert main(["study", "refswap", "--judge", "planted:verifier", *options]) == 0
    out = capsys.readouterr().out
    record = json.loads(out.splitlines()[-1])
    assert "No key was read" in out
    assert "nan%" not in out
    assert "is nothing to remove" not in out
    assert "20 of 20 verdicts on keys; most of “(space)” 10 of 10, “Solution” 10 of 10." in out
    assert (record["n_unread_clean"], record["n_unread_keys"], record["n_test_keys"]) == (0, 20, 0)
    assert [one["n_unread"] for one in record["per_key"]] == [8, 8]  # of the test part, as n is
    same = record["arms"]["same"]
    assert same["n_fewer_references"] == 0


def test_an_undefined_auc_has_no_sign(settings, capsys):
    spec = "planted:verifier?leak=1"
    dataset = demo()
    wrong = replace(dataset, responses=dataset.responses.assign(quality="incorrect"))
    wrong = replace(wrong, dataset_id=content_digest(wrong.items, wrong.responses))
    save_dataset(wrong, settings.datasets)
    assert main(["study", "refswap", "--judge", spec, "--data", wrong.dataset_id, "--set", "k_max=1"]) == 0
    out = capsys.readouterr().out
    assert "AUC undefined\n" in out
    assert "undefined, signed" not in out


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
