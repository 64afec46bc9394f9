"""What an import is used as: data set, pairs, recorded judge."""

from dataclasses import replace

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import Order, Protocol
from engine.data.comparisons import load_comparisons, save_comparisons
from engine.data.formats.registry import read_known
from engine.data.formats.use import as_comparisons, as_dataset, as_recording
from engine.data.recordings import list_recordings, save_recording
from engine.data.store import load_dataset, save_dataset
from engine.judges.recorded import NO_ORDER, make_recorded
from engine.judges.registry import judges_for
from engine.studies.recorded.metrics import recorded_metrics
from engine.studies.running import build_requests
from engine.studies.transport_audit.verdicts import judged_in_data, requests_of
from tests.engine.data.formats import examples
from tests.engine.data.formats.examples import ANSWERS, FILES, OTHERS, QUESTIONS, lines, vote


def read(name: str, content: bytes | None = None, **options):
    filename, held = (FILES | OTHERS)[name]
    return read_known(filename, content or held, name.split(",")[0], **options)


COMPANIONS = [("a.jsonl", lines(ANSWERS)), ("q.jsonl", lines(QUESTIONS))]


@pytest.mark.parametrize("name", [n for n in FILES if n not in ("fastchat-single", "fastchat-pair")])
def test_a_saved_data_set_comes_back(name, settings):
    made = as_dataset(read(name), "mine")
    save_dataset(made, settings.datasets)
    back = load_dataset(made.dataset_id, settings.datasets)
    pd.testing.assert_frame_equal(back.responses, made.responses)
    assert back.source["known_format"] == name
    assert build_requests(back)


def test_verdicts_without_texts_are_no_data_set():
    with pytest.raises(InputError, match="verdicts without the texts"):
        as_dataset(read("fastchat-single"))
    made = as_dataset(read("fastchat-single", companions=COMPANIONS[:1]))
    assert "No item has a context" in made.problems[-1].what


def test_votes_on_a_pair_become_the_sign_of_their_mean_and_turned_pairs_meet():
    turned = vote("model_a", "expert_3")
    for a, b in (("model_a", "model_b"), ("conversation_a", "conversation_b")):
        turned[a], turned[b] = turned[b], turned[a]
    votes = [vote("model_a", "expert_1"), vote("tie", "expert_2"), turned]
    found = as_comparisons(read("mt-bench-human", lines(votes)))
    assert found.comparisons["human"].tolist() == ["tie"]  # one for, one against, one tie
    found = as_comparisons(read("mt-bench-human", lines(votes[:2])))
    assert found.comparisons["human"].tolist() == ["a"]


def test_a_set_of_pairs_is_saved_and_audited_with_its_own_verdicts(settings):
    found = as_comparisons(read("mt-bench-human"))
    assert found.comparisons["verdict"].tolist() == ["tie", "b"]
    save_comparisons(found, settings.comparisons)
    back = load_comparisons(found.set_id, settings.comparisons)
    pd.testing.assert_frame_equal(back.comparisons, found.comparisons)
    judged = judged_in_data(back, requests_of(back))
    assert list(judged.side.values()) == ["b"]
    assert dict(judged.left_out) == {"tie": 1}


def test_pairs_without_texts_or_with_equal_ones_are_counted():
    with pytest.raises(InputError, match=r"holds no pair that can be judged: \{'no text': 2\}"):
        as_comparisons(read("fastchat-pair"))
    same = [
        {**examples.REWARD[0], "rejected": "good"},
        examples.REWARD[1],
        {**examples.REWARD[1], "id": 5, "chosen": " "},
    ]
    found = as_comparisons(read("rewardbench", lines(same)))
    assert found.left_out == {"both responses are the same": 1, "a response is blank": 1}
    with pytest.raises(InputError, match="holds no pairs"):
        as_comparisons(read("alpacaeval-outputs"))


def test_imported_scores_are_a_judge_that_answers_for_the_data(settings):
    found = read("fastchat-single", companions=COMPANIONS)
    [saved] = save_recording(found, settings.recordings)
    assert list_recordings(settings.recordings) == [saved]
    assert saved.spec in judges_for(Protocol.POINTWISE)
    assert saved.spec not in judges_for(Protocol.PAIRWISE)
    judge = make_recorded(saved.spec)
    requests = build_requests(as_dataset(found))
    scores = {r.response_id: v.score for r, v in zip(requests, judge.judge(requests), strict=True) if v.read}
    assert scores == {"81:ant": 8.0, "81:2:ant": 7.5, "81:2:bee": 3.0}


def test_imported_games_are_a_judge_of_pairs_in_both_orders(settings):
    found = read("fastchat-pair", companions=COMPANIONS)
    [saved] = save_recording(found, settings.recordings)
    judge = make_recorded(saved.spec)
    asked = [replace(r, order=o) for r in requests_of(as_comparisons(found)).values() for o in Order]
    verdicts = judge.judge(asked)
    assert [str(v.outcome or v.unread_reason) for v in verdicts] == [
        "a",
        "b",
        "tie",
        "FastChat could not read the reply",
    ]


def test_several_judges_of_a_file_are_listed_one_by_one(settings):
    saved = save_recording(read("promptfoo"), settings.recordings)
    assert [s.title for s in saved] == [
        "Recorded: promptfoo (results.json)",
        "Recorded: promptfoo/llm-rubric (results.json)",
    ]
    judges = [make_recorded(s.spec) for s in saved]
    assert [j.recording.n_calls for j in judges] == [3, 2]
    assert len({j.fingerprint for j in judges}) == 2


def test_the_file_itself_is_a_recorded_judge(tmp_path):
    path = tmp_path / "gpt-4_pair.jsonl"
    path.write_bytes(FILES["fastchat-pair"][1])
    for spec in (f"recorded:{path}", f"recorded:{path}?format=fastchat-pair"):
        assert make_recorded(spec).recording.layout.name == "pairwise"
    metrics = recorded_metrics(make_recorded(f"recorded:{path}").recording.verdicts).set_index("metric")
    assert metrics.loc["first_slot", "n"] == 3
    assert metrics.loc["first_slot", "value"] == pytest.approx((1 + 1 + 0.5) / 3)
    with pytest.raises(InputError, match="is no recording"):
        make_recorded(f"recorded:{path}?format=table")
    with pytest.raises(InputError, match="cannot be read as FastChat single"):
        make_recorded(f"recorded:{path}?format=fastchat-single")


def test_verdicts_without_an_order_answer_no_question_about_one(tmp_path):
    path = tmp_path / "annotations.json"
    path.write_bytes(FILES["alpacaeval-annotations"][1])
    judge = make_recorded(f"recorded:{path}")
    assert judge.recording.layout.name == "pairwise-unordered"
    asked = list(requests_of(as_comparisons(read("alpacaeval-annotations"))).values())
    assert {v.unread_reason for v in judge.judge([replace(r, order=o) for r in asked for o in Order])} == {NO_ORDER}
    metrics = recorded_metrics(judge.recording.verdicts)
    assert set(metrics["metric"]) == {"win_rate"}
    won = metrics.set_index("group")["value"]
    # a, b, tie, tie, unread, b: the new system wins 2, ties 2 of 5
    assert won["ant"] == pytest.approx(3 / 5)
    assert won["base"] == pytest.approx(2 / 5)
    assert metrics["n_unread"].tolist() == [1, 1]


def test_an_id_that_was_not_imported_is_no_file():
    with pytest.raises(InputError, match="cannot be read"):
        make_recorded("recorded:import-0123456789abcdef")


def test_a_format_without_verdicts_is_no_recording():
    with pytest.raises(InputError, match="holds no verdicts"):
        as_recording(read("rewardbench"))
