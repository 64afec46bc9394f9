"""Study verify: rates on responses known to be right or wrong, with a verifier that can be read off."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import Outcome, Protocol
from engine.data.store import DEMO_DIALOGUE, DEMO_VERIFICATION, load_dataset
from engine.judges.base import Verdict, no_checkpoint, unread
from engine.runs.folder import create_run
from engine.studies.verify.run import run_verify
from engine.studies.verify.study import VerifyConfig


class Matcher:
    """Says YES where the reference stands in the response; leaves one response unread."""

    spec, fingerprint, protocols = "planted:matcher", "matcher", frozenset({Protocol.VERIFIER})

    def labels(self, request):
        return ("Yes", "No")

    def judge(self, requests, checkpoint=no_checkpoint):
        assert all(r.protocol is Protocol.VERIFIER for r in requests)
        found = [Verdict(p_yes=float(r.reference in r.response)) for r in requests]
        verdicts = [Verdict(p_yes=v.p_yes, outcome=Outcome.YES if v.p_yes else Outcome.NO) for v in found]
        return [unread(verdicts[0], "lost"), *verdicts[1:]]


def test_rates_are_those_of_the_verdicts(settings):
    dataset = load_dataset(DEMO_VERIFICATION, settings.datasets)
    run = create_run(settings.runs, "verify", {})
    config = VerifyConfig(judge="planted:matcher", data=DEMO_VERIFICATION)
    metrics = run_verify(config, dataset, Matcher(), run, no_checkpoint).set_index("metric")
    verdicts = run.table("verdicts")
    truth = dataset.responses.set_index("response_id")["quality"] == "correct"
    read = verdicts[verdicts["unread_reason"].isna()]
    said = read["outcome"].eq("yes").to_numpy()
    right = read["response_id"].map(truth).to_numpy()
    assert metrics.loc["accuracy", "value"] == pytest.approx((said == right).mean())
    assert metrics.loc["yes_rate_wrong", "value"] == pytest.approx(said[~right].mean())
    assert metrics.loc["accuracy", "n_unread"] == 1
    assert metrics.loc["yes_rate_right", "n"] + metrics.loc["yes_rate_wrong", "n"] == 119
    assert run.manifest()["state"] == "done"


def test_data_without_known_answers_are_refused(settings):
    dataset = load_dataset(DEMO_DIALOGUE, settings.datasets)
    bare = type(dataset)(**{**dataset.__dict__, "responses": dataset.responses.assign(quality=None)})
    config = VerifyConfig(judge="planted:matcher", data=DEMO_DIALOGUE)
    with pytest.raises(InputError, match="--map quality=COLUMN"):
        run_verify(config, bare, Matcher(), create_run(settings.runs, "verify", {}), no_checkpoint)


@pytest.mark.parametrize(("yes", "no"), [("Correct", "INCORRECT"), ("1", "0"), ("True", "false"), ("yes", "No")])
def test_every_spelling_of_correct_gives_the_same_numbers(settings, yes, no):
    dataset = load_dataset(DEMO_VERIFICATION, settings.datasets)
    spelt = replace(dataset, responses=dataset.responses.replace({"quality": {"correct": yes, "incorrect": no}}))
    config = VerifyConfig(judge="planted:matcher", data=DEMO_VERIFICATION)
    first, second = (
        run_verify(config, data, Matcher(), create_run(settings.runs, "verify", {}, name), no_checkpoint)
        for name, data in (("plain", dataset), ("spelt", spelt))
    )
    assert first["value"].iloc[0] > 0.6
    pd.testing.assert_frame_equal(first, second)


def test_a_level_that_is_neither_is_named(settings):
    config = VerifyConfig(judge="planted:matcher", data=DEMO_DIALOGUE)
    dataset = load_dataset(DEMO_DIALOGUE, settings.datasets)
    with pytest.raises(InputError, match=r"quality 'good' for the response .* neither correct nor incorrect"):
        run_verify(config, dataset, Matcher(), create_run(settings.runs, "verify", {}), no_checkpoint)
