import math

import pytest

from engine.core.errors import InputError
from engine.core.schema import Order, Outcome, Protocol, Task
from engine.defenses.registry import defend
from engine.judges.base import Request, verdict_table
from engine.judges.recorded import NOT_RECORDED, make_recorded, read_spec
from engine.judges.registry import make_judge


@pytest.fixture
def file(tmp_path):
    def write(text, name="v.csv"):
        path = tmp_path / name
        path.write_text(text.strip() + "\n", encoding="utf-8")
        return path

    return write


def ask(response_id="r1", item_id="q", **more):
    return Request(item_id=item_id, response_id=response_id, task=Task.QUESTION, context="", response="", **more)


def pair(a, b, order, **more):
    return ask(a, protocol=Protocol.PAIRWISE, response_b_id=b, order=order, **more)


SCORES = """
response_id,item_id,attack,defense,score
r1,q,,,2
r1,q,dsi,,3.5
r1,q,dsi,sandwich,2.5
r2,q,,,N/A
"""


def test_answers_by_response_and_arm(file):
    judge = make_judge(f"recorded:{file(SCORES)}")
    seen = []
    got = judge.judge(
        [ask(), ask(attack="dsi"), ask(attack="dsi", defense="sandwich"), ask("r2"), ask("r9"), ask(attack="bed")],
        lambda done, total: seen.append((done, total)),
    )
    assert [v.score for v in got[:3]] == [2.0, 3.5, 2.5]
    assert all(math.isnan(v.score) for v in got[3:])
    assert [v.unread_reason for v in got] == ["", "", "", "score 'N/A' is no number", NOT_RECORDED, NOT_RECORDED]
    assert seen == [(6, 6)]
    assert (judge.labels(ask()), judge.prompt(ask())) == ((), "")
    assert verdict_table(judge, [ask("r9")], got[4:5])["unread_reason"].tolist() == [NOT_RECORDED]


def test_combined_defenses_are_found_in_either_order(file):
    judge = make_recorded(f"recorded:{file('response_id,defense,score' + chr(10) + 'r1,delimiters+sandwich,4')}")
    assert defend(judge, "delimiters+sandwich").judge([ask()])[0].score == 4.0
    assert defend(judge, "sandwich").judge([ask()])[0].unread_reason == NOT_RECORDED


def test_item_and_system_name_a_response(file):
    judge = make_recorded(f"recorded:{file('item_id,system,score' + chr(10) + 'q,m1,4')}")
    assert judge.judge([ask("row-17", system="m1")])[0].score == 4.0
    assert judge.judge([ask("row-18", system="m2")])[0].unread_reason == NOT_RECORDED


PAIRS = """
response_a,response_b,order,p_a,p_tie
x,y,ab,0.6,0.1
x,y,ba,0.2,0.1
"""


def test_a_pair_may_be_asked_for_from_either_side(file):
    judge = make_recorded(f"recorded:{file(PAIRS)}")
    x_first, y_first = (
        [pair("x", "y", Order.AB), pair("y", "x", Order.BA)],
        [
            pair("x", "y", Order.BA),
            pair("y", "x", Order.AB),
        ],
    )
    a, b = judge.judge(x_first)
    assert (a.p_a, a.p_tie, a.outcome) == (0.6, 0.1, Outcome.A)
    assert (b.p_a, b.p_tie, b.outcome) == (pytest.approx(0.3), 0.1, Outcome.B)
    a, b = judge.judge(y_first)
    assert (a.p_a, a.outcome) == (pytest.approx(0.2), Outcome.B)
    assert (b.p_a, b.outcome) == (pytest.approx(0.7), Outcome.A)
    assert judge.judge([pair("x", "z", Order.AB)])[0].unread_reason == NOT_RECORDED


def test_slots_answer_pairs_of_systems(file):
    judge = make_recorded(
        f"recorded:{file('question_id,model_shown_first,model_shown_second,verdict' + chr(10) + 'q,m2,m1,A')}"
    )
    asked = pair("r-m1", "r-m2", Order.BA, system="m1", system_b="m2")
    assert judge.judge([asked])[0].outcome is Outcome.B


def test_thresholds_decide_probabilities_and_not_verdicts(file):
    numbers = file("response_id,p_yes\nr1,0.6\nr2,", "n.csv")
    decided = file("response_id,verdict\nr1,yes", "d.csv")
    request = ask(protocol=Protocol.VERIFIER)

    def outcome(path, threshold):
        return make_recorded(f"recorded:{path}", threshold=threshold).judge([request])[0].outcome

    assert [outcome(numbers, t) for t in (0.5, 0.6, 0.7)] == [Outcome.YES, Outcome.YES, Outcome.NO]
    assert outcome(decided, 0.7) is Outcome.YES
    marks = {make_recorded(f"recorded:{numbers}", threshold=t).fingerprint for t in (0.5, 0.7)}
    assert len(marks) == 2


def test_fingerprint_is_of_the_content(file, tmp_path):
    a, b = file(SCORES), file(SCORES, "copy.csv")
    c = file(SCORES.replace("3.5", "3.6"), "c.csv")
    one, same, other = (make_recorded(f"recorded:{p}").fingerprint for p in (a, b, c))
    assert one == same != other
    assert str(tmp_path) not in one


def test_one_judge_is_chosen_by_its_column(file):
    path = file("judge,response_id,score\ngpt 4,r1,2\nllama,r1,5")
    with pytest.raises(InputError, match=r"2 judges: gpt 4, llama.*recorded:v.csv\?judge=gpt 4"):
        make_recorded(f"recorded:{path}")
    assert make_recorded(f"recorded:{path}?judge=gpt%204").judge([ask()])[0].score == 2.0
    assert make_recorded(f"recorded:{path}?judge=gpt 4").judge([ask()])[0].score == 2.0


def test_specs():
    name, selection = read_spec("recorded:a b.csv?map.judge=judge+prompt&label.1=a&layout=pairwise&set=x%26y")
    assert name == "a b.csv"
    assert selection.columns == {"judge": "judge+prompt"}
    assert selection.labels == {"1": "a"}
    assert selection.layout == "pairwise"
    assert selection.where == {"set": "x&y"}


@pytest.mark.parametrize("bad", ["recorded:", "recorded:?judge=x", "recorded:f.csv?judge", "recorded:f.csv?a=1&a=2"])
def test_bad_specs(bad):
    with pytest.raises(InputError):
        make_recorded(bad)


def test_other_protocols_and_places_are_refused(file, tmp_path):
    path = file(SCORES)
    judge = make_recorded(f"recorded:{path}", roots=[tmp_path])
    assert judge.protocols == {Protocol.POINTWISE}
    with pytest.raises(InputError, match="holds pointwise verdicts"):
        judge.judge([pair("x", "y", Order.AB)])
    with pytest.raises(InputError, match="outside the folders"):
        make_recorded(f"recorded:{path}", roots=[tmp_path / "open"])
    with pytest.raises(InputError, match="outside the folders"):
        make_recorded(f"recorded:{tmp_path}/open/../v.csv", roots=[tmp_path / "open"])


def test_a_verdict_under_the_true_reference_is_none_under_another(file):
    path = file("response_id,p_yes\nr1,0.9\n")
    judge = make_recorded(f"recorded:{path}")
    true, swapped = judge.judge(
        [ask(protocol=Protocol.VERIFIER), ask(protocol=Protocol.VERIFIER, reference_id="other-1")]
    )
    assert true.p_yes == 0.9
    assert not swapped.read
    assert "true reference alone" in swapped.unread_reason


def test_an_id_counts_within_its_item(file):
    judge = make_recorded(f"recorded:{file('item_id,response_id,score' + chr(10) + 'q,1,4' + chr(10) + 'r,1,2')}")
    got = judge.judge([ask("1", "q"), ask("1", "r"), ask("1", "s")])
    assert [v.score for v in got[:2]] == [4.0, 2.0]
    assert got[2].unread_reason == NOT_RECORDED
    by_id = make_recorded(f"recorded:{file('item_id,response_id,score' + chr(10) + 'q,1,4' + chr(10) + 'r,2,2')}")
    got = by_id.judge([ask("1", "q"), ask("2", "q"), ask("2", "s")])
    assert [v.score for v in got] == [4.0, pytest.approx(math.nan, nan_ok=True), 2.0]


def test_systems_that_share_an_id_are_told_apart(file):
    judge = make_recorded(
        f"recorded:{file('item_id,response_id,system,score' + chr(10) + 'q,1,x,4' + chr(10) + 'q,1,y,2')}"
    )
    got = judge.judge([ask("1", system="x"), ask("1", system="y"), ask("1", system="z")])
    assert [v.score for v in got[:2]] == [4.0, 2.0]
    assert got[2].unread_reason == NOT_RECORDED


@pytest.mark.parametrize("names", [("promptfoo/llm-rubric", "promptfoo/g-eval"), ("a&b", "100%"), ("x=y", "z")])
def test_a_hint_to_choose_a_judge_can_be_followed(file, names):
    path = file("item_id,response_id,judge,score\n" + "\n".join(f"q,r,{name},{i}" for i, name in enumerate(names)))
    with pytest.raises(InputError) as error:
        make_recorded(f"recorded:{path}")
    hint = str(error.value).rpartition("?")[2].removesuffix(".")
    judge = make_recorded(f"recorded:{path}?{hint}")
    assert judge.recording.verdicts["judge"].unique().tolist() == [names[0]]
