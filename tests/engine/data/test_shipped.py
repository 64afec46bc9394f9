"""What ships of strong judges: facts without texts, each against the counts and numbers that were published."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_LLMBAR, DEMO_PAIRS, load_comparisons, require_texts
from engine.data.embeddings import SPEC, _unpacked, list_embeddings, load_embeddings, packed
from engine.data.recordings import recording_file, shipped_recordings
from engine.judges.base import no_checkpoint
from engine.judges.recorded import make_recorded, read_spec
from engine.judges.registry import judges_for, make_judge
from engine.runs.folder import create_run
from engine.stats.agreement import first_slot_rate, order_agreement
from engine.studies.checkup.material import load_material
from engine.studies.transport_audit.run import run_transport_audit
from engine.studies.transport_audit.study import AuditConfig

GPT4 = f"recorded:{DEMO_LLMBAR}?judge=GPT-4&prompt=Vanilla"
MTBENCH = get_settings().assets / "demo" / "mtbench"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return load_comparisons(DEMO_LLMBAR, tmp_path_factory.mktemp("none"))


def test_llmbar_has_its_pairs_types_and_labels_and_none_of_its_texts(pairs):
    counts = pairs.items["group"].value_counts().to_dict()
    assert counts == {"Neighbor": 134, "Natural": 100, "GPTInst": 92, "GPTOut": 47, "Manual": 46}  # as published
    assert set(pairs.comparisons["human"]) == {"a", "b"}
    assert not pairs.has_texts
    assert pairs.responses["text"].is_unique
    assert all(
        i.partition(":")[0] in t for i, t in zip(pairs.responses["response_id"], pairs.responses["text"], strict=True)
    )


@lru_cache
def verdicts_of(spec):
    """Read once: the file has the verdicts of all judges."""
    return make_recorded(spec).recording.verdicts


def test_the_listed_judges_are_in_the_files_with_as_many_verdicts_as_they_say():
    listed = judges_for(Protocol.PAIRWISE)
    for found in shipped_recordings():
        assert listed[found.spec].title == found.title
        assert found.spec not in judges_for(Protocol.POINTWISE)
        name, chosen = read_spec(found.spec)
        table = pd.read_parquet(recording_file(name))
        for column, value in chosen.where.items():
            table = table[table[column] == value]
        assert len(table) * (2 if "outcome_ba" in table else 1) == found.n
    assert len(verdicts_of(GPT4)) == next(f.n for f in shipped_recordings() if f.spec == GPT4)


@pytest.mark.parametrize(
    ("judge", "kind", "right", "agree"),
    [
        ("GPT-4", "Natural", 0.955, 0.95), ("GPT-4", "Neighbor", 105.5 / 134, 125 / 134),
        ("GPT-4", "Manual", 37 / 46, 38 / 46),
        ("ChatGPT", "Natural", 0.815, 0.71), ("ChatGPT", "Neighbor", 26 / 134, 96 / 134),
        ("ChatGPT", "Manual", 16 / 46, 24 / 46),
    ],
)  # fmt: skip
def test_accuracy_and_agreement_of_orders_are_those_that_the_authors_counted(judge, kind, right, agree):
    """Their statistics.json of each evaluator beside the data (correct_average, equal), prompt Vanilla."""
    verdicts = verdicts_of(f"recorded:{DEMO_LLMBAR}?judge={judge}&prompt=Vanilla")
    table = pd.read_parquet(get_settings().assets / "demo" / "llmbar" / "pairs.parquet").set_index("comparison_id")
    pair = verdicts["response_id"].str.removesuffix(":a")
    own = verdicts[(pair.map(table["type"]) == kind).to_numpy()]
    truth = own["response_id"].str.removesuffix(":a").map(table["human"])
    assert (own["outcome"].to_numpy() == truth.to_numpy()).mean() == pytest.approx(right, abs=1e-9)
    assert order_agreement(own).value == pytest.approx(agree, abs=1e-9)


def test_the_order_of_answers_moves_gemini_more_than_gpt_4():
    found = {
        j: make_recorded(f"recorded:demo-mtbench?judge={j}").recording.verdicts for j in ("gpt-4-0613", "gemini-pro")
    }
    rates = {judge: first_slot_rate(verdicts).value for judge, verdicts in found.items()}
    assert rates["gpt-4-0613"] == pytest.approx(0.492, abs=5e-4)  # docs/papers.md, from the public file itself
    assert rates["gemini-pro"] == pytest.approx(0.357, abs=5e-4)


def test_votes_of_people_name_systems_that_differ_and_questions_that_exist():
    votes, verdicts = (pd.read_parquet(MTBENCH / f"{name}.parquet") for name in ("votes", "verdicts"))
    assert len(votes) > 100
    assert (votes["system_a"] != votes["system_b"]).all()
    assert set(votes["item_id"]) <= set(verdicts["item_id"])


def test_packed_vectors_come_back_within_half_a_step():
    rng = np.random.default_rng(0)
    vectors = {str(i): rng.normal(size=16) * 10.0**i for i in range(-3, 4)}
    back = _unpacked(packed(vectors))
    assert list(back) == list(vectors)
    for name, vector in vectors.items():
        assert np.abs(back[name] - vector).max() <= np.abs(vector).max() / 127 / 2 * (1 + 1e-5)


def test_the_shipped_vectors_belong_to_these_pairs(pairs, tmp_path):
    vectors = load_embeddings(SPEC + DEMO_LLMBAR, tmp_path)
    assert set(vectors) <= set(pairs.responses["response_id"])
    assert {len(v) for v in vectors.values()} == {384}
    assert list(list_embeddings(tmp_path, DEMO_LLMBAR)) == [SPEC + DEMO_LLMBAR]
    assert list_embeddings(tmp_path, DEMO_PAIRS) == {}


def test_what_reads_texts_is_refused_with_the_way_out(pairs, settings, tmp_path):
    def audited(**changes):
        given = {"judge": GPT4, "data": DEMO_LLMBAR, "encoders": (SPEC + DEMO_LLMBAR,), "splits": 2} | changes
        config = AuditConfig(**given, bootstraps=0, umap=False, p_ratios=())
        run = create_run(tmp_path, "puaudit", config.model_dump(mode="json"))
        return run_transport_audit(config, pairs, make_judge(config.judge, settings), run, settings, no_checkpoint)

    for changes in ({"judge": "planted:position"}, {"encoders": ("words",)}, {"classify": "bundled:judge"}):
        with pytest.raises(InputError, match=r"ship without theirs.*given:demo-llmbar"):
            audited(**changes)
    with pytest.raises(InputError, match="ship without theirs"):
        load_material(DEMO_LLMBAR, settings)
    require_texts(load_comparisons(DEMO_PAIRS, tmp_path), "Anything")
