"""The full-size studies on a few hand-written lines in the layout of the public data."""

from __future__ import annotations

import csv
import dataclasses
import json

import pandas as pd
import pytest

from engine.attacks.format_rules import rule_met
from engine.bench.full_data import (
    cap_data,
    evaluation_side,
    ladder_judged,
    llmbar_judged,
    mtbench_judged,
    pandalm_audited,
    pandalm_judged,
    suffix_data,
)
from engine.bench.full_size import COLUMNS, STUDIES, Part, Work, _state, run_parts
from engine.cli import main as cli
from engine.core.errors import InputError
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons
from engine.judges.planted import make_planted
from engine.studies.running import OutOfBudget
from engine.training.config import read_config
from engine.training.heldout import Side, side_of_number, side_of_prompt
from engine.training.sources import read_dialogues, read_rule_prompts, read_summaries
from tests.engine.attacks.conftest import any_coverage, wordy, wordy_judge  # noqa: F401

RESULTS = get_settings().assets / "results"
JUDGE = "planted:assertiveness?noise=0"
PROMPTS = [f"Name {n} rivers." for n in range(40)]
TRAINED_ON = read_config(get_settings().assets / "training" / "judge.toml").sides
HELD_OUT = [p for p in PROMPTS if side_of_prompt(p) not in TRAINED_ON]
TRAINED = [next(p for p in PROMPTS if side_of_prompt(p) is side) for side in TRAINED_ON]
SYSTEMS = ("bloom-7b", "llama-7b", "opt-7b")


def dialogues():
    for context in range(10):
        for k, system in enumerate(("good", "fair", "poor")):
            reply = f"Reply {k} on topic {context} ."
            yield {"context_index": context, "system": system, "dialog_history": f"a: topic {context} ?\nb: yes .",
                   "response": reply, "overall": 5.0 - k}  # fmt: skip


def summaries():
    aspects = dict.fromkeys(("coherence", "consistency", "fluency", "relevance"))
    for document in range(10):
        for k in range(10):
            marks = dict.fromkeys(aspects, 1 + k % 5)
            yield {"doc_index": document, "system": f"M{k}", "summary": f"summary {k} of {document} .",
                   "summary_truecased": "x"} | marks  # fmt: skip


def pandalm():
    for prompt in (*HELD_OUT, *TRAINED):
        for a, b in ((0, 1), (1, 2), (2, 0)):
            texts = {f"response_{s}": f"{SYSTEMS[i]} says {prompt}" for s, i in (("a", a), ("b", b))}
            yield {"id": f"{prompt}-{a}", "prompt": prompt, "input": "", "model_a": SYSTEMS[a], "model_b": SYSTEMS[b],
                   "label": "a", "annotator1": "a", "annotator2": "a", "annotator3": "a"} | texts  # fmt: skip


def llmbar():
    for i in range(20):
        yield {"id": f"N-{i}", "subset": "Natural" if i % 2 else "Neighbor", "prompt": f"Add {i} and 1.",
               "response_a": f"The sum is {i + 1}.", "response_b": f"Perhaps {i} or more",
               "label": "a" if i % 3 else "b"}  # fmt: skip


def mtbench():
    systems = ("gpt-4", "llama-13b", "not-among-the-six")
    return [
        {"question_id": q, "model": m, "answer1": f"{m} on {q}" if q or m == "gpt-4" else ""}
        for q in range(5)
        for m in systems
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder of the data sets."""
    folder = tmp_path_factory.mktemp("data")
    commas = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"num_words": None}]}
    files = {
        "topicalchat/responses.jsonl": dialogues(),
        "summeval/documents.jsonl": [{"doc_index": i, "source": f"Document {i}."} for i in range(10)],
        "summeval/summaries.jsonl": summaries(),
        "pandalm/pairs.jsonl": pandalm(),
        "llmbar/pairs.jsonl": llmbar(),
        "mtbench/questions.jsonl": [{"question_id": q, "category": "math", "turn1": f"Ask {q}?"} for q in range(5)],
        "mtbench/answers_31models.jsonl": mtbench(),
        "llmbar/processed_other_sets.jsonl": [],
        "ifeval/input_data.jsonl": [{"key": i, "prompt": p} | commas for i, p in enumerate(PROMPTS)],
    }
    (folder / "mtbench").mkdir()
    (folder / "mtbench/recorded_verdicts_both_orders.csv").write_text(
        "judge,question_id,model_shown_first,model_shown_second,verdict\n"
        + "".join(f"gpt-4-0613,{q},{a},{b},{v}\n" for q in (1, 2, 3) for a, b, v in (
            ("gpt-4", "llama-13b", "A"), ("llama-13b", "gpt-4", "B")))
    )  # fmt: skip
    for name, rows in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.fixture
def work(data, tmp_path, settings, tiny_folders):
    """A try with a planted judge."""
    settings = dataclasses.replace(settings, model_roots=())
    made = Work(data, tmp_path / "out", 2, settings, JUDGE, ("words",), f"path:{tiny_folders('llama')}")
    made.judge = make_planted(JUDGE)
    return made


def header(path):
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def number_of(item: str) -> int:
    return int(item.split(":")[1])


def test_the_columns_are_those_of_the_tables_that_are_committed():
    for table, names in COLUMNS.items():
        assert header(RESULTS / f"{table}.csv") == list(names)


def test_cap_judges_the_test_side_and_trains_on_contexts_that_the_judge_was_not_trained_on(data):
    made = cap_data("SummEval", Task.SUMMARY, read_summaries(data), 8, None)
    sides = {i: side_of_number(number_of(i)) for i in made.items["item_id"]}
    groups = made.items.set_index("item_id")["group"]
    assert {g: {sides[i] for i in groups[groups == g].index} for g in groups.unique()} == {
        "eval": {Side.TEST},
        "train": {Side.TUNE},
    }
    assert made.responses.groupby("item_id").size().groupby(groups).unique().map(list).to_dict() == {
        "eval": [8],
        "train": [1],
    }
    assert made.responses["human_score"].between(1, 5).all()


def test_a_phrase_is_learned_on_the_training_side_and_measured_on_the_test_side(data):
    made = suffix_data(read_dialogues(data), None)
    groups = made.items.set_index("item_id")["group"]
    assert {(side_of_number(number_of(i)), g) for i, g in groups.items()} == {
        (Side.TEST, "eval"),
        (Side.TRAIN, "train"),
    }
    assert len(made.responses) == 3 * len(made.items) == 3 * 8
    assert set(evaluation_side(made).responses["item_id"]) == {"topicalchat:0", "topicalchat:5"}
    few = suffix_data(read_dialogues(data), 2)
    assert few.items["group"].value_counts().to_dict() == {"train": 2, "eval": 2}
    assert len(few.responses) == 2 * 4


def test_pandalm_is_left_with_the_prompts_that_the_judge_was_not_trained_on(data):
    audited: Comparisons = pandalm_audited(data)
    assert set(audited.items["context"]) == set(HELD_OUT)
    judged = pandalm_judged(data, None)
    assert set(judged.items["context"]) == set(HELD_OUT)
    assert len(judged.responses) == len(HELD_OUT) * len(SYSTEMS)
    assert str(len(HELD_OUT)) in judged.name
    assert set(TRAINED).isdisjoint(judged.items["context"])


def test_mtbench_takes_its_six_systems_and_leaves_out_empty_answers(data):
    made = mtbench_judged(data, None)
    assert set(made.responses["system"]) == {"gpt-4", "llama-13b"}
    assert len(made.responses) == 5 * 2 - 1


def test_a_question_of_mtbench_is_clean_where_no_verdict_on_it_was_in_the_training(data):
    asked = {f"q{q}": f"Ask {q}?" for q in range(5)}  # no verdict on q0 and q4
    trained = {name for name, text in asked.items() if name not in ("q0", "q4") and side_of_prompt(text) in TRAINED_ON}
    made = mtbench_judged(data, None, clean=True)
    assert set(made.items["item_id"]) == set(asked) - trained
    assert 0 < len(trained) < 5
    assert str(len(made.items)) in made.name


def test_held_out_prompts_that_a_trained_one_resembles_are_left_out(data, monkeypatch):
    monkeypatch.setattr(
        "engine.bench.full_data.trained_prompts", lambda folder, sides: frozenset({HELD_OUT[0].upper()})
    )
    assert set(pandalm_audited(data).items["context"]) == set(HELD_OUT[1:])
    judged = pandalm_judged(data, None)
    assert set(judged.items["context"]) == set(HELD_OUT[1:])
    assert f"{len(HELD_OUT) - 1} held-out prompts of" in judged.name


def test_no_training_context_of_a_phrase_shares_its_conversation_with_a_judged_one(data):
    rated = read_dialogues(data)
    held = next(r for r in rated if r.side is Side.TEST)
    sibling = [
        dataclasses.replace(r, context=held.context + "\nb: and more .") for r in rated if r.cluster == "topicalchat:2"
    ]
    others = [r for r in rated if r.cluster != "topicalchat:2"]
    items = set(suffix_data([*others, *sibling], None).items["item_id"])
    assert "topicalchat:2" not in items
    assert items == set(suffix_data(others, None).items["item_id"])


def test_llmbar_knows_the_better_side_as_a_system(data):
    made = llmbar_judged(data, 6)
    better = made.responses[made.responses["system"] == "better"]["response_id"]
    labels = {row["id"]: row["label"] for row in llmbar()}
    assert len(better) == 6
    assert all(labels[i.rsplit("-", 1)[0]] == i[-1] for i in better)


def test_each_rung_of_the_ladder_fails_as_many_rules_as_it_says(data, tiny):
    made = ladder_judged(read_rule_prompts(data), tiny("llama"), 2)
    rules = made.items.set_index("item_id")["rules"].map(json.loads)
    assert len(made.items)
    assert all(PROMPTS[int(i.removeprefix("k"))] in HELD_OUT for i in made.items["item_id"])
    assert made.responses.groupby("item_id").size().unique().tolist() == [4]
    for row in made.responses.itertuples():
        met = [rule_met(one["rule"], one["arguments"], row.text) for one in rules[row.item_id]]
        assert row.system == f"fails {met.count(False)}"


@pytest.mark.slow
def test_audits_and_protocols_write_their_tables(work):
    found = run_parts(work, ("puaudit", "protocols"), None)
    assert set(found["parts"].values()) == {"done"}
    for table in ("puaudit_bundled", "protocols"):
        read = pd.read_csv(work.out / f"{table}.csv")
        assert list(read.columns) == list(COLUMNS[table])
        assert len(read) == found["rows"][table]
        assert set(read["judge"]) == {JUDGE}
        assert set(read["device"]) == {"no model"}
    audits = pd.read_csv(work.out / "puaudit_bundled.csv")
    assert audits["data"].nunique() == 3
    own = audits[(audits["metric"] == "cons_orig") & (audits["attack"] == "none") & audits["group"].isna()]
    assert own["value"].between(0, 1).all()
    shown = pd.read_csv(work.out / "protocols.csv")
    assert shown["data"].nunique() == 6
    assert (shown.loc[shown["metric"] == "flip_rate", "n"] > 0).any()


def test_a_phrase_is_found_measured_defended_and_detected(work, wordy_judge, any_coverage, monkeypatch):  # noqa: F811
    work.judge = wordy_judge
    monkeypatch.setattr("engine.bench.full_size.PHRASE_CANDIDATES", 4)
    parts = {part.name: part for part in STUDIES["suffix"](work)}
    assert _state(work, parts["suffix, defenses"], None) == "not run, since suffix, topicalchat did not end"
    assert [_state(work, parts[n], None) for n in ("suffix, topicalchat", "suffix, defenses")] == ["done", "done"]
    read = pd.read_csv(work.out / "suffix.csv")
    assert list(read.columns) == list(COLUMNS["suffix"])
    assert set(read["search"]) == {"topicalchat", "defenses"}
    clean = read[(read["metric"] == "mean") & (read["attack"] == "none") & (read["defense"] == "none")]
    assert clean["n"].tolist() == [4, 4]
    assert clean["value"].nunique() == 1  # the same responses, judged by two studies


def test_what_goes_wrong_with_one_run_does_not_keep_the_others_from_running(work, monkeypatch):
    ran = []

    def late(seconds):
        raise OutOfBudget

    parts = [Part("late", 1, late), Part("behind", 1, ran.append, "late"), Part("other", 1, ran.append)]
    monkeypatch.setitem(STUDIES, "cap", lambda _: parts)
    found = run_parts(work, ("cap",), None)
    assert list(found["parts"].values()) == [
        "stopped at its share of the time",
        "not run, since late did not end",
        "done",
    ]
    assert ran == [None]
    assert found["exit_code"] == 3
    assert run_parts(work, ("cap",), None, "behind")["parts"] == {"behind": "done"}  # alone it rests on an earlier call


def test_a_part_runs_alone_and_an_unknown_one_is_refused_with_the_names_there_are(work):
    found = run_parts(work, ("puaudit",), None, "PandaLM")
    assert found["parts"] == {"puaudit, PandaLM": "done"}
    held_out = pd.read_csv(work.out / "puaudit_bundled.csv")["data"].unique().tolist()
    assert held_out == [f"PandaLM, {3 * len(HELD_OUT)} pairs of {len(HELD_OUT)} held-out prompts"]
    with pytest.raises(InputError, match=r"'pandas' is in the name of no run.*puaudit, LLMBar; puaudit, PandaLM"):
        run_parts(work, ("puaudit",), None, "pandas")


@pytest.mark.parametrize("study", STUDIES)
def test_a_missing_data_file_is_named_before_anything_runs(study, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["bench", "full", "--data", str(tmp_path), "--out", str(out), "--only", study]) == 2
    assert "cannot be read" in (said := capsys.readouterr().err)
    assert "--data DIR" in said
    assert not out.exists()


def test_a_limit_of_one_item_is_refused(data, tmp_path, capsys):
    assert cli.main(["bench", "full", "--data", str(data), "--out", str(tmp_path), "--limit", "1"]) == 2
    assert "--limit is 1" in capsys.readouterr().err
