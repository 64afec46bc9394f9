"""The study with a verifier behind a server: a scripted one that shows probabilities, and one that only writes."""

from __future__ import annotations

import hashlib

import pytest

from engine.cli.main import main
from engine.core.errors import InputError
from engine.data.store import DEMO_VERIFICATION, load_dataset
from engine.judges.base import no_checkpoint
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.studies.refswap.metrics import sample_table, summarise
from engine.studies.refswap.run import pool_of, run_refswap
from engine.studies.refswap.scores import max_p_cf
from engine.studies.refswap.study import RefSwapConfig
from tests.engine.studies.scripted import serving

SPEC = "api:scripted"


def p_yes(prompt: str) -> float:
    """What the scripted server says: high under most prompts, a different number for each."""
    return 0.4 + 0.59 * int(hashlib.sha256(prompt.encode()).hexdigest()[:8], 16) / 16**8


def shows(prompt: str) -> dict[str, float]:
    return {"Yes": p_yes(prompt), "No": 1 - p_yes(prompt)}


def test_a_server_with_probabilities_is_checked_as_a_local_verifier_is(settings, monkeypatch):
    dataset = load_dataset(DEMO_VERIFICATION, settings.datasets)
    config = RefSwapConfig(judge=SPEC, data=dataset.dataset_id, limit=8, k=2, k_max=2, keys=(":", " "))
    folder = create_run(settings.runs, "refswap", config.model_dump())
    with serving(shows, monkeypatch):
        judge = make_judge(SPEC, settings)
        run_refswap(config, dataset, judge, folder, no_checkpoint, pool_of("data", dataset, settings))
    table = sample_table(folder.table("verdicts"), folder.table("samples"))
    assert len(table.samples.p) == 8 + 4 * 2
    base = folder.table("verdicts")
    base = base[base["reference_id"].isna()]
    assert base["p_yes"].between(0.4, 0.99).all()
    assert base["p_yes"].nunique() == len(base)
    lens = max_p_cf(table.samples, 2)[table.samples.yes(0.5) == 1]
    assert ((lens > 0.4) & (lens < 1)).all()
    found = summarise(table.samples, k=2, delta=0.02)
    assert found.cost_clean.passes == pytest.approx(1 + 2 * float((table.samples.yes(0.5)[table.samples.clean]).mean()))
    assert folder.manifest()["judge"]["spec"] == SPEC


def test_a_server_that_only_writes_is_refused_with_the_remedy(settings, capsys, monkeypatch):
    dataset = load_dataset(DEMO_VERIFICATION, settings.datasets)
    config = RefSwapConfig(judge=SPEC, data=dataset.dataset_id, limit=4, k=1, k_max=1, keys=(":",))
    folder = create_run(settings.runs, "refswap", config.model_dump())
    with serving(lambda prompt: "Yes", monkeypatch):
        judge = make_judge(SPEC, settings)
        with pytest.raises(InputError, match="needs a judge that shows them"):
            run_refswap(config, dataset, judge, folder, no_checkpoint, pool_of("data", dataset, settings))
        assert main(["study", "refswap", "--judge", SPEC, "--limit", "4"]) == 2
    assert "samples=10" in capsys.readouterr().err


def test_refswap_is_no_arm_of_score_and_says_where_it_is(settings, capsys):
    for name in ("refswap", "refswap?k=3", "delimiters+refswap"):
        assert main(["score", "demo-dialogue", "--judge", "planted:injection", "--defense", name]) == 2
        assert "judgescope study refswap" in capsys.readouterr().err
