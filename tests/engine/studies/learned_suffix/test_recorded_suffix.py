"""The recorded search that ships with the project is what the bundled judge gives today."""

from __future__ import annotations

import pytest

from engine.core.schema import NONE
from engine.data.store import load_dataset
from engine.judges.registry import make_judge
from engine.runs.folder import open_run
from engine.studies.running import build_requests
from engine.studies.suffix_targets import suffixed


@pytest.fixture
def recorded(settings):
    return open_run(settings.assets / "demo" / "suffix", "dialogue")


def test_it_is_whole(recorded):
    manifest, search = recorded.manifest(), recorded.table("suffix_search")
    assert manifest["recorded"] is True
    assert manifest["state"] == "done"
    words = manifest["phrase"]["words"]
    assert search.loc[search["chosen"] == 1, "word"].fillna("").tolist() == ["", *words]
    assert recorded.table("verdicts")["attack"].nunique() == 1 + len(words)
    assert not set(manifest["split"]["train_items"]) & set(recorded.table("verdicts")["item_id"])


@pytest.mark.weights
def test_rows_recomputed_agree(recorded, settings, weights):
    judge = make_judge("bundled:judge", settings)
    manifest, dataset = recorded.manifest(), load_dataset("demo-dialogue", settings.datasets)
    model = judge.fingerprint.rpartition("-")[0]
    assert manifest["judge"]["fingerprint"].startswith(model), "record the search anew: judgescope study suffix"
    verdicts = recorded.table("verdicts")
    rows = verdicts[verdicts["response_id"] == verdicts["response_id"].iloc[0]]
    [request] = build_requests(dataset, response_ids=[rows["response_id"].iloc[0]])
    words = manifest["phrase"]["words"]
    for row in rows.itertuples():
        k = 0 if row.attack == NONE else int(row.attack.split(":")[2]) if row.attack.count(":") == 2 else len(words)
        [verdict] = judge.judge([suffixed(request, words[:k])])
        assert verdict.score == pytest.approx(row.score, abs=1e-3)
