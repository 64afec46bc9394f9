"""Files of recorded verdicts, small and literal; and two published ones where the shared data are present."""

import io
from pathlib import Path

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import VERDICTS
from engine.data.recording import REPEATS, Selection, parse_recording, read_recording
from engine.data.recording_rules import LAYOUTS, NO_VERDICT, normalised
from engine.stats.agreement import first_slot_rate, order_agreement
from engine.stats.shifts import shift_metrics
from engine.studies.recorded.metrics import recorded_metrics

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def parse(text, selection=None, name="verdicts.csv"):
    got = parse_recording(name, text.strip().encode(), selection)
    assert got.n_read + got.n_unread + got.n_left_out == got.n_calls
    return got


POINTWISE = """
item_id,response_id,system,score,attack,defense,note
q1,r1,m1,2.0,,,x
q1,r1,m1,3.5,dsi,none,x
q2,r2,m1,4,none,,x
q2,r2,m1,N/A,dsi,,x
q3,r3,m1,,none,,x
q3,,,5,none,,x
,r4,m1,5,none,,x
"""


def test_pointwise_by_hand():
    got = parse(POINTWISE)
    assert list(got.verdicts.columns) == VERDICTS.names
    assert (got.layout.name, got.n_records, got.n_calls, got.n_read) == ("pointwise", 7, 7, 3)
    assert got.unread == {"score 'N/A' is no number": 1, NO_VERDICT: 1}
    assert got.left_out == {"does not say which response was judged": 1, "no item_id": 1}
    assert [p.where for p in got.problems] == ["row 6 (line 7)", "row 7 (line 8)"]
    assert set(got.verdicts["judge"]) == {"recorded:verdicts.csv"}
    assert got.verdicts["raw_text"].dropna().tolist() == ["N/A"]
    shift = shift_metrics(got.verdicts).set_index(["metric", "attack"]).loc[("shift", "dsi")]
    assert (shift["value"], shift["n"], shift["n_unread"]) == (1.5, 1, 1)


def test_response_named_by_item_and_system():
    got = parse("question_id,model,score\n7,alpaca,3\n7,vicuna,4")
    assert got.verdicts["response_id"].tolist() == ["7:alpaca", "7:vicuna"]
    assert got.verdicts["item_id"].tolist() == ["7", "7"]
    assert got.problems == []


def test_without_items_a_warning_says_what_the_intervals_assume():
    got = parse("response_id,score\nr1,3\nr2,4")
    assert got.verdicts["item_id"].tolist() == ["r1", "r2"]
    assert "counts as its own item" in got.problems[0].what


@pytest.mark.parametrize(
    ("order", "outcome", "expected"),
    [
        pytest.param("ab", "A", "a", id="letter"),
        pytest.param("BA", " [[B]] ", "b", id="brackets"),
        pytest.param("ab", "Model_A", "a", id="arena"),
        pytest.param("ab", "tie (bothbad)", "tie", id="both-bad"),
        pytest.param("ba", "C", "tie", id="c-is-tie"),
    ],
)
def test_pair_labels(order, outcome, expected):
    got = parse(f"response_a,response_b,order,winner\nx,y,{order},{outcome}")
    row = got.verdicts.iloc[0]
    assert (row["outcome"], row["order"], row["response_id"]) == (expected, order.lower(), "x")
    assert (row["p_a"], row["p_tie"]) == (float(expected == "a"), float(expected == "tie"))
    assert got.spellings == {outcome.strip(): expected}


@pytest.mark.parametrize("label", ["1", "left", "A or B", "ab", "none", "maybe a", "Ａ"])
def test_no_label_is_guessed(label):
    got = parse(f"response_a,response_b,order,outcome\nx,y,ab,{label}\nx,z,ab,a")
    assert got.unread == {f"label {label!r} is not in the rule": 1}
    assert got.spellings[label] == ""
    assert got.verdicts["outcome"].tolist()[1] == "a"


def test_own_labels_extend_the_rule_and_cannot_bend_it():
    text = "response_a,response_b,order,outcome\nx,y,ab,1\nx,y,ba,2"
    got = parse(text, Selection(labels={"1": "a", "2": "b"}))
    assert got.verdicts["outcome"].tolist() == ["a", "b"]
    with pytest.raises(InputError, match="contradicts the rule"):
        parse(text, Selection(labels={"A": "b"}))
    with pytest.raises(InputError, match="verdicts are a, response_a"):
        parse(text, Selection(labels={"1": "left"}))


def test_pairs_with_probabilities():
    got = parse(
        "response_a,response_b,order,p_a,p_tie,outcome\n"
        "a,b,ab,0.7,0.1,\n"
        "a,c,ab,0.1,0.2,b\n"
        "a,d,ab,0.5,,\n"
        "a,e,ab,1.2,,\n"
        "a,f,ab,0.8,0.4,\n"
        "a,g,ab,0.8,,b\n"
        "a,h,,0.8,,\n"
        "a,i,left,0.8,,\n"
        "a,a,ab,0.8,,"
    )
    assert got.verdicts["outcome"].tolist()[:3] == ["a", "b", "tie"]
    assert got.unread == {"p_a and p_tie are not probabilities": 2, "outcome and p_a disagree": 1}
    assert got.left_out == {
        "no order": 1,
        "order 'left' is neither ab nor ba": 1,
        "compares a response with itself": 1,
    }


def test_slots_are_turned_into_the_pairs_own_names():
    got = parse("item_id,system_first,system_second,slot_verdict\nq,zeta,alpha,A\nq,alpha,zeta,second\nq,b,alpha,C")
    assert got.layout.name == "pairwise-slots"
    rows = got.verdicts
    assert rows["response_id"].tolist() == ["q:alpha"] * 3
    assert rows["order"].tolist() == ["ba", "ab", "ba"]
    assert rows["outcome"].tolist() == ["b", "b", "tie"]
    assert rows["p_a"].tolist() == [0.0, 0.0, 0.0]
    assert got.spellings == {"A": "first slot", "second": "second slot", "C": "tie"}
    assert first_slot_rate(rows).value == pytest.approx((1 + 0 + 0.5) / 3)


def test_the_two_orders_of_a_pair_meet_under_one_name():
    """Some files call whatever was shown first response_a."""
    rows = parse("response_a,response_b,order,outcome\nx,y,ab,a\ny,x,ab,b\nz,x,ab,b\nx,z,ab,b").verdicts
    assert rows["response_id"].tolist() == ["x", "x", "z", "z"]
    assert rows["order"].tolist() == ["ab", "ba", "ab", "ba"]
    assert rows["outcome"].tolist() == ["a", "a", "b", "a"]
    assert order_agreement(rows).value == 0.5
    assert first_slot_rate(rows).value == 0.25


def test_both_orders_in_one_row():
    got = parse("comparison_id,outcome_ab,outcome_ba\np1,a,a\np2,a,b\np3,,b\n,a,a")
    assert (got.n_records, got.n_calls, got.n_read) == (4, 8, 5)
    assert (got.unread, sum(got.left_out.values())) == ({NO_VERDICT: 1}, 2)
    assert got.verdicts["response_b"].tolist()[:2] == ["p1:b", "p1:b"]
    assert order_agreement(got.verdicts).value == 0.5
    assert first_slot_rate(got.verdicts).value == pytest.approx((1 + 0 + 1 + 1 + 1) / 5)


def test_verifier():
    got = parse(
        "response_id,item_id,verdict,p_yes\na,q,Yes,\nb,q,INCORRECT,\nc,q,,0.5\nd,q,,0.2\ne,q,yes,0.1\n"
        "f,q,perhaps,\ng,q,,7\nh,q,,"
    )
    assert got.verdicts["outcome"].tolist()[:4] == ["yes", "no", "yes", "no"]
    assert got.verdicts["p_yes"].tolist()[:4] == [1.0, 0.0, 0.5, 0.2]
    assert list(got.unread) == [
        "verdict and p_yes disagree",
        "label 'perhaps' is not in the rule",
        "p_yes '7' is not in 0 to 1",
        NO_VERDICT,
    ]


def test_a_reason_of_the_files_own_wins():
    got = parse("response_id,score,unread_reason\nr1,3,refused\nr2,4,")
    assert got.unread == {"refused": 1}
    assert got.verdicts["score"].isna().tolist() == [True, False]


def test_repeats_are_dropped_and_contradictions_refused():
    got = parse("response_id,score\nr1,3\nr1,3.0\nr2,1")
    assert got.left_out == {REPEATS: 1}
    with pytest.raises(InputError, match=r"Rows 1 and 2 give different verdicts on one call .*r1.*Keep one verdict"):
        parse("response_id,score\nr1,3\nr1,4")
    # the same call spelled from the other side
    pairs = "response_a,response_b,order,outcome\nx,y,ab,a\ny,x,ba,{}"
    with pytest.raises(InputError, match="different verdicts"):
        parse(pairs.format("a"))
    assert parse(pairs.format("b")).left_out == {REPEATS: 1}
    text = "response_id,score,run\n" + "\n".join(f"r{i},{i % 5},{k}" for k in ("old", "new") for i in range(9))
    with pytest.raises(InputError, match=r"run=old or run=new; .*map.judge=run\.") as error:  # it names no judge
        parse(text.replace("r3,3,new", "r3,4,new"))
    for hint in ("run=old", "run=new"):  # what is offered can be chosen
        assert hint in str(error.value)
        assert parse(text.replace("r3,3,new", "r3,4,new"), Selection(where=dict([hint.split("=")]))).n_selected == 9
    assert parse(text, Selection(where={"run": "new"})).n_selected == 9


def test_columns_can_be_named_and_joined():
    text = "uid,grade,who,how\n1,3,gpt,cot\n1,4,gpt,plain"
    named = Selection(columns={"response_id": "uid", "score": "grade", "judge": "who+how"})
    assert parse(text, named).verdicts["judge"].tolist() == ["gpt/cot", "gpt/plain"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tsv"])
def test_formats_agree(ending):
    frame = pd.DataFrame({"response_id": ["1", "2"], "item_id": ["q", "q"], "verdict": [True, False]})
    if ending == "parquet":
        out = io.BytesIO()
        frame.to_parquet(out)
        content = out.getvalue()
    elif ending == "jsonl":
        content = frame.to_json(orient="records", lines=True).encode()
    else:
        content = frame.to_csv(sep="\t", index=False).encode()
    got = parse_recording(f"v.{ending}", content)
    assert got.verdicts["outcome"].tolist() == ["yes", "no"]


def test_numbers_of_a_parquet_file_keep_their_value():
    out = io.BytesIO()
    pd.DataFrame({"response_id": [1, 2], "score": [2.5, float("nan")]}).to_parquet(out)
    got = parse_recording("v.parquet", out.getvalue())
    assert got.verdicts["response_id"].tolist() == ["1", "2"]
    assert got.verdicts["score"].tolist()[0] == 2.5
    assert got.n_unread == 1


def test_damaged_records_are_left_out():
    got = parse("response_id,score\nr1,3\nr2\nr3,4")
    assert got.left_out == {"record cannot be read": 1}
    assert got.n_read == 2


def test_digest_is_of_content_and_selection():
    a = parse("response_id,score\nr1,3")
    assert a.digest == parse("response_id,score\nr1,3", name="other.csv").digest
    assert a.digest != parse("response_id,score\nr1,4").digest
    assert a.digest != parse("response_id,score\nr1,3", Selection(where={"score": "3"})).digest


@pytest.mark.parametrize(
    ("text", "selection", "match"),
    [
        pytest.param("a,b\n1,2", None, r"(?s)no recording.*pointwise: lacks response_id or item_id\+system", id="none"),
        pytest.param("response_id,score,verdict\n1,2,yes", None, "fits pointwise and verifier", id="two"),
        pytest.param("response_id,score\n1,2", Selection(layout="verifier"), "verifier: lacks verdict", id="wanted"),
        pytest.param("response_id,score\n1,2", Selection(layout="x"), "Layouts: pointwise", id="layout"),
        pytest.param("response_id,score\n1,2", Selection(where={"judge": "x"}), "no column 'judge'", id="where-column"),
        pytest.param("response_id,score\n1,2", Selection(where={"score": "9"}), "holds 2", id="where-value"),
        pytest.param("response_id,score\n1,2", Selection(columns={"score": "x"}), "no column 'x'", id="map-column"),
        pytest.param("response_id,score\n1,2", Selection(columns={"x": "score"}), "no such field", id="map-field"),
        pytest.param("response_id,score\n,2", None, "no verdict that can be used: does not say", id="nothing-left"),
    ],
)
def test_refusals(text, selection, match):
    with pytest.raises(InputError, match=match):
        parse(text, selection)


def test_unreadable_files(tmp_path):
    with pytest.raises(InputError, match=r"'absent\.csv' cannot be read"):
        read_recording(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="no readable parquet"):
        parse_recording("v.parquet", b"PAR1 no")
    with pytest.raises(InputError, match="not end in"):
        parse_recording("v.doc", b"x")


def test_every_layout_and_label_is_plain():
    assert all(lay.about.endswith(".") for lay in LAYOUTS.values())
    assert normalised(" [[A]] ") == "a"
    assert normalised("Assistant  B") == "assistant_b"


@pytest.fixture(scope="module")
def llmbar():
    path = SHARED / "llmbar" / "recorded_verdicts.csv"
    if not path.is_file():
        pytest.skip("the shared data (llmbar) are not here")
    return path


def test_llmbar(llmbar):
    named = {"comparison_id": "id", "judge": "judge+prompt"}
    got = read_recording(llmbar, Selection(columns=named))
    assert (got.n_records, got.n_calls, got.n_left_out) == (27_235, 54_470, 0)
    assert got.n_read + got.n_unread == got.n_calls
    raw = pd.read_csv(llmbar, dtype=str)
    assert got.n_unread == raw[["winner_order_ab", "winner_order_ba"]].isna().sum().sum()
    rows = got.verdicts[got.verdicts["judge"] == "GPT-4/CoT"]
    assert len(rows) == 838
    own = raw[(raw["judge"] == "GPT-4") & (raw["prompt"] == "CoT")]
    wins = (own["winner_order_ab"] == "a").sum() + (own["winner_order_ba"] == "b").sum()
    rate = first_slot_rate(rows)
    assert (rate.value, rate.n, rate.n_clusters) == (pytest.approx(wins / 838), 838, 419)
    assert order_agreement(rows).value == pytest.approx((own["winner_order_ab"] == own["winner_order_ba"]).mean())


def test_llmbar_without_a_choice_says_how_to_choose(llmbar):
    with pytest.raises(InputError, match=r"Choose one recording: prompt=CoT"):
        read_recording(llmbar, Selection(columns={"comparison_id": "id"}))


def test_mtbench():
    path = SHARED / "mtbench" / "recorded_verdicts_both_orders.csv"
    if not path.is_file():
        pytest.skip("the shared data (mtbench) are not here")
    rows = read_recording(path, Selection(where={"judge": "gpt-3.5-turbo-1106"})).verdicts
    raw = pd.read_csv(path, dtype=str).query("judge == 'gpt-3.5-turbo-1106'")
    read = raw["verdict"].dropna()
    assert len(rows) == len(raw) == 4800
    assert rows["outcome"].notna().sum() == len(read)
    expected = (read == "A").mean() + (read == "C").mean() / 2
    rate = first_slot_rate(rows)
    assert (rate.value, rate.n_clusters) == (pytest.approx(expected), 80)


# Identity: an id counts within its item, and of several systems within its system.

ITEMS = ["q0", "q1", "q:1", "q", "q|2", "7", "7.0"]


def scores_of(name):
    """Clean and attacked scores of two responses an item; `name` makes the id of the k-th response of an item."""
    lines = ["item_id,response_id,attack,score"]
    for i, item in enumerate(ITEMS):
        for k in range(2):
            lines += [f"{item},{name(item, k)},none,{i + k}", f"{item},{name(item, k)},dsi,{2 * i + k + 1}"]
    return "\n".join(lines)


def pairs_of(name):
    lines = ["item_id,response_a,response_b,order,outcome"]
    for i, item in enumerate(ITEMS):
        for order in ("ab", "ba"):
            first, second = name(item, 0), name(item, 1)
            outcome = "ab"[i % 2] if order == "ab" else "ab"[i % 3 == 0]
            if i % 2:  # the same pair under its other name
                first, second, outcome, order = second, first, "ba"[outcome == "b"], order[::-1]
            lines.append(f"{item},{first},{second},{order},{outcome}")
    return "\n".join(lines)


def verdicts_of(name):
    lines = ["item_id,response_id,verdict"]
    lines += [
        f"{item},{name(item, k)},{('yes', 'no')[(i + k) % 3 == 0]}" for i, item in enumerate(ITEMS) for k in (0, 1)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("make", [scores_of, pairs_of, verdicts_of])
@pytest.mark.parametrize("ids", [("A", "B"), ("1", "01"), ("a:b", "a"), ("x|y", "x"), ("q1", "q:1")])
def test_ids_within_an_item_give_the_numbers_of_ids_of_their_own(make, ids):
    within = parse(make(lambda item, k: ids[k]))
    apart = parse(make(lambda item, k: f"{ITEMS.index(item)}-{k}"))
    assert within.n_read == apart.n_read == within.n_calls
    assert within.left_out == {}
    pd.testing.assert_frame_equal(recorded_metrics(within.verdicts), recorded_metrics(apart.verdicts))


def test_the_same_id_of_two_systems_is_two_responses():
    got = parse("item_id,response_id,system,score\nq,1,x,2\nq,1,y,4\nr,1,x,3\nr,2,y,5")
    assert got.verdicts["response_id"].tolist() == ["1:x", "1:y", "1", "2"]
    assert recorded_metrics(got.verdicts)["value"].tolist() == [3.5]
    assert any("several systems" in p.what for p in got.problems)
    rows = "item_id,response_a,response_b,system_a,system_b,order,outcome"
    got = parse(rows + "\nq,1,1,x,y,ab,a\nq,1,1,x,y,ba,b\nq,1,1,z,x,ab,a\nq,1,1,x,x,ab,a")
    assert got.left_out == {"compares a response with itself": 1}
    assert list(zip(got.verdicts["response_id"], got.verdicts["response_b"], strict=True)) == [
        ("1:x", "1:y"), ("1:x", "1:y"), ("1:z", "1:x")
    ]  # fmt: skip


def test_slots_follow_their_systems():
    head = "item_id,first,second,system_first,system_second,verdict"
    got = parse(head + "\nq,1,1,y,x,first\nq,1,1,x,y,first\nq,1,1,z,x,second")
    assert got.layout.name == "pairwise-slots"
    rows = got.verdicts[["response_id", "response_b", "order", "outcome"]]
    assert rows.to_numpy().tolist() == [["1:x", "1:y", "ba", "b"], ["1:x", "1:y", "ab", "a"], ["1:x", "1:z", "ba", "a"]]


def test_a_name_made_of_id_and_system_is_never_that_of_another_response():
    with pytest.raises(InputError, match="'1:x'"):
        parse("item_id,response_id,system,score\nq,1:x,,5\nq,1,x,2\nq,1,y,4")


def test_two_verdicts_on_one_id_of_an_item_are_an_error_that_names_the_call():
    with pytest.raises(InputError, match=r"Rows 1 and 3 .*q, 1"):
        parse("item_id,response_id,score\nq,1,2\nr,1,3\nq,1,4")
    with pytest.raises(InputError, match="Rows 1 and 2"):  # a number and a text are one id of the file
        parse('{"item_id": "q", "response_id": 1, "score": 2}\n{"item_id": "q", "response_id": "1", "score": 3}',
              name="v.jsonl")  # fmt: skip


def test_pairs_without_items_are_items_of_their_own():
    got = parse("response_a,response_b,outcome\na|b,c,a\na,b|c,a\na|,b,a\na,|b,b")
    assert got.verdicts["item_id"].nunique() == 4
