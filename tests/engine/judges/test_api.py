"""An API judge against a scripted server: every protocol, how answers are read, what is kept, what stays unread."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.core.cache import CallCache
from engine.core.errors import Cancelled, InputError, ModelError, OutOfCalls
from engine.core.schema import Outcome, Protocol
from engine.core.settings import ApiSettings
from engine.inference.loading import load_model
from engine.inference.served import ApiClient
from engine.inference.served_labels import label_forms, label_row
from engine.judges.api import ApiJudge
from engine.judges.api_spec import forget_model, known_models, parse_api, remember_model
from engine.judges.base import Paid, Quote
from engine.judges.cards import Card
from engine.judges.kinds import PairwiseReader, PointwiseReader, RankingReader, VerifierReader, both_orders
from engine.judges.registry import judges_for, make_judge
from tests.engine.judges.api_server import completion, fault, serving
from tests.engine.judges.test_protocols import ANCHORED, CARDS, FIT, MANY, ONE, POINT, TEXT, TWO

TOP = {"4": 0.5, " 5": 0.3, "5": 0.1, "hm": 0.05}
READERS = (PointwiseReader(), PairwiseReader(), VerifierReader(), RankingReader())


def make(server, spec="api:m", cards=CARDS, cache=None, **settings):
    found = ApiSettings(base_url=server.url, **({"retries": 0} | settings))
    return ApiJudge(spec, parse_api(spec), ApiClient(found), cards, READERS, cache)


def says(text, top=None):
    return lambda n, body: completion(text, top if body.get("logprobs") else None)


# every protocol, from probabilities


def test_a_score_is_the_expectation_over_the_merged_variants():
    with serving(says("4", TOP)) as server:
        verdict = make(server).judge([ONE])[0]
    assert verdict.coverage == pytest.approx(0.9)
    assert verdict.probabilities == pytest.approx((0, 0, 0, 5 / 9, 4 / 9))
    assert verdict.score == pytest.approx(4 + 4 / 9)
    assert (verdict.prompt_tokens, verdict.forward_passes) == (50, 1)
    assert server.seen[0]["messages"] == [{"role": "user", "content": "Rate hi there after hello:"}]


def test_both_orders_of_a_pair_are_undone():
    """A server that gives the first slot 0.6 whatever stands there: p_a is 0.6 in one order and 0.3 in the other."""
    with serving(says("A", {"A": 0.6, "B": 0.3, "C": 0.1})) as server:
        ab, ba = make(server).judge(both_orders([TWO]))
    assert (ab.p_a, ab.p_tie, ab.outcome) == (pytest.approx(0.6), pytest.approx(0.1), Outcome.A)
    assert (ba.p_a, ba.p_tie, ba.outcome) == (pytest.approx(0.3), pytest.approx(0.1), Outcome.B)
    assert {s["messages"][0]["content"] for s in server.seen} == {
        "hello A: hi there B: go away better:",
        "hello A: go away B: hi there better:",
    }


def test_a_verifier_reads_its_spellings_and_refuses_without_a_reference():
    with serving(says("Y", {"Yes": 0.5, "Y": 0.2, "N": 0.3})) as server:
        first, second = make(server).judge([FIT, replace(FIT, reference=" ")])
    assert (first.p_yes, first.outcome) == (pytest.approx(0.7), Outcome.YES)
    assert second.unread_reason == "no reference answer to check against"
    assert len(server.seen) == 1


def test_a_ranking_is_read_from_text_once():
    with serving(says("B > C > A")) as server:
        verdict = make(server, "api:m?samples=5").judge([MANY])[0]
    assert verdict.ranking == (3, 1, 2)
    assert len(server.seen) == 1
    assert server.seen[0]["temperature"] == 0
    assert "logprobs" not in server.seen[0]


def test_anchors_and_a_defense_stand_in_the_prompt():
    asked = replace(ONE, anchor_low="bad", anchor_high="good", quote=Quote("Careful.", "[", "]"))
    with serving(says("4", TOP)) as server:
        make(server, cards=[POINT, ANCHORED]).judge([asked])
    assert server.seen[0]["messages"][0]["content"] == "Careful.\n\nlow bad high good rate [hi there]:"


# probabilities, text, and which of the two


def test_where_no_probabilities_are_offered_the_text_is_read_and_that_is_found_out_once(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    several = [replace(ONE, response_id=str(i), response=f"text {i}") for i in range(3)]
    with serving(says("Score: 4")) as server:
        verdicts = make(server, cache=cache).judge(several)
        again = make(server, cache=cache)
        assert again.answers == "text"
        assert again.cost(several) == (0, 0, 3, Paid())
        assert [v.score for v in again.judge(several)] == [4.0] * 3
    assert [(v.score, v.raw_text) for v in verdicts] == [(4.0, "Score: 4")] * 3
    assert all(math.isnan(v.coverage) for v in verdicts)
    tries = ["structured_outputs", "response_format"]  # fields that this server passes over
    assert [bool(s.get("logprobs")) for s in server.seen] == [True, *[False] * (len(tries) + 3)]
    assert [next((t for t in tries if t in s), "") for s in server.seen] == ["", *tries, "", "", ""]


def test_a_server_that_refuses_the_field_is_asked_for_text():
    def script(n, body):
        return fault(400, "logprobs is not supported") if body.get("logprobs") else completion("5")

    with serving(script) as server:
        assert make(server).judge([ONE])[0].score == 5


def test_a_server_that_shows_five_alternatives_is_asked_for_five():
    def script(n, body):
        few = body["top_logprobs"] <= 5
        return completion("4", TOP) if few else fault(400, "top_logprobs must be <= 5")

    with serving(script) as server:
        assert make(server).judge([ONE, replace(ONE, response="other")])[1].read
    assert [s["top_logprobs"] for s in server.seen] == [20, 5, 5]


def test_a_reasoning_model_s_fields_are_found_out():
    def script(n, body):
        if "max_tokens" in body:
            return fault(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return fault(400, "temperature is not supported") if "temperature" in body else completion("4")

    with serving(script) as server:
        verdict = make(server, "api:m?answers=text").judge([ONE])[0]
    assert verdict.score == 4
    assert server.seen[-1].keys() == {"model", "messages", "max_completion_tokens"}


# models that reason before they answer


def reasoning_model(*, template, field="reasoning_content"):
    """Writes its reasoning first, in the message or in a field apart; `template` says if it can be told not to."""

    def answer(_, body):
        quiet = template and body.get("chat_template_kwargs") == {"enable_thinking": False}
        if body.get("chat_template_kwargs") and template is None:
            return fault(400, "Unrecognized request argument supplied: chat_template_kwargs")
        if quiet:
            return completion("4", TOP if body.get("logprobs") else None)
        if body["max_tokens"] < 60:  # cut off within the reasoning
            top = {"<think>": 0.98, "4": 0.01} if body.get("logprobs") else None
            return completion("<think>Hm, 2", top, choice={"finish_reason": "length"})
        if field:
            message = {"role": "assistant", "content": "Score: 2", field: "It might be a 5."}
            return completion(choice={"message": message})
        return completion("<think>It might be a 5.</think>\n\nScore: 2")

    return answer


def test_a_model_that_reasons_first_is_asked_not_to_where_its_template_can():
    with serving(reasoning_model(template=True)) as server:
        verdict = make(server).judge([ONE])[0]
    assert verdict.score == pytest.approx(4 + 4 / 9)
    assert [s.get("chat_template_kwargs") for s in server.seen] == [None, {"enable_thinking": False}]


@pytest.mark.parametrize("template", [False, None], ids=["ignored", "refused"])
@pytest.mark.parametrize("field", ["", "reasoning", "reasoning_content"])
def test_reasoning_that_cannot_be_left_out_gets_room_and_the_answer_after_it_counts(template, field, tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(reasoning_model(template=template, field=field)) as server:
        first = make(server, cache=cache).judge([ONE])[0]
        before = len(server.seen)
        again = make(server, cache=cache).judge([ONE, replace(ONE, response="other words")])
    assert first.read
    assert first.score == 2
    assert first.probabilities is None or max(first.probabilities) == 1
    assert again[0].score == again[1].score == 2
    assert len(server.seen) == before + 1  # the way is known, and the first answer too
    assert server.seen[-1]["max_tokens"] > 4096


def test_reasoning_can_be_asked_for_and_its_room_is_in_the_cost():
    with serving(reasoning_model(template=True)) as server:
        judge = make(server, "api:m?thinking=on&effort=low")
        cost = judge.cost([ONE])
        verdict = judge.judge([ONE])[0]
    assert verdict.score == 2
    assert server.seen[0]["reasoning_effort"] == "low"
    assert not any("chat_template_kwargs" in s or "logprobs" in s for s in server.seen)
    assert cost.paid.answer_tokens == server.seen[0]["max_tokens"] > 4096
    prints = {make(server, spec).fingerprint for spec in ("api:m", "api:m?thinking=off", "api:m?effort=low")}
    assert len(prints) == 3


def test_insisting_on_probabilities_stops_where_there_are_none():
    with serving(says("4")) as server, pytest.raises(ModelError, match="gives no token probabilities for m"):
        make(server, "api:m?answers=probabilities").judge([ONE])


def test_one_answer_without_probabilities_among_others_is_unread_and_not_kept(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    two = [ONE, replace(ONE, response="lost")]
    with serving(lambda n, body: completion("4", None if "lost" in str(body) and n < 3 else TOP)) as server:
        first = make(server, cache=cache).judge(two)
        assert [v.unread_reason for v in first] == ["", "the server gave no token probabilities with this answer"]
        make(server, cache=cache).judge(two)  # only the lost one is asked again, and lost again
        assert [v.read for v in make(server, cache=cache).judge(two)] == [True, True]
    assert len(server.seen) == 4


# unread, never invented


def test_no_label_among_the_alternatives_is_unread_with_its_coverage(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(says("I", {"I": 0.9, "The": 0.05})) as server:
        verdict = make(server, cache=cache).judge([ONE])[0]
    assert verdict.unread_reason == "score tokens hold 0.00 of the probability, below 0.5"
    assert (verdict.coverage, verdict.raw_text) == (0.0, "I")
    assert math.isnan(verdict.score)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I cannot rate this.", "the reply names no score"),
        ("", "the reply is empty"),
        ("Score: 9", "'9' is not one of 1, 2, 3, 4, 5"),
        ("Score: 3 or 4", "'3 or 4' is more than one score"),
    ],
)
def test_a_text_that_is_no_verdict_is_unread(text, reason):
    with serving(says(text)) as server:
        verdict = make(server, "api:m?answers=text").judge([ONE])[0]
    assert verdict.unread_reason == reason
    assert verdict.raw_text == text


@pytest.mark.parametrize(
    "response",
    [
        fault(500, "boom"),
        fault(429),
        (200, {}, b'{"cho'),
        completion("4", TOP, choice={"finish_reason": "content_filter"}),
        completion("4", TOP, choice={"message": {"content": None, "refusal": "No."}}),
        fault(400, "context length exceeded"),
    ],
    ids=["500", "429", "truncated", "content filter", "refusal", "too long"],
)
def test_a_fault_is_unread_with_a_reason_and_is_asked_again_next_time(response, tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(lambda n, _: response if n == 0 else completion("4", TOP)) as server:
        verdict = make(server, cache=cache).judge([ONE])[0]
        assert verdict.unread_reason
        assert not verdict.read
        assert math.isnan(verdict.score)
        assert make(server, cache=cache).cost([ONE]).calls == 1
        assert make(server, cache=cache).judge([ONE])[0].read


def test_a_server_that_answers_nobody_at_first_contact_stops_the_run_early():
    many = [replace(ONE, response=f"text {i}") for i in range(9)]
    with serving(lambda n, _: fault(500, "boom")) as server:
        with pytest.raises(ModelError, match="answered none of the first 3 calls; the last: the server answered 500"):
            make(server).judge(many)
        assert len(server.seen) == 3
        verdicts = make(server).judge(many[:2])
    assert [v.unread_reason for v in verdicts] == ["the server answered 500: boom"] * 2


def test_a_label_that_begins_another_is_only_read_where_the_server_shows_both():
    ten = Card(name="ten", tasks=POINT.tasks, user="Rate {response}", labels=("1", "10"), values=(1, 10))
    with serving(says("1", {"1": 0.7, "10": 0.2})) as server:
        assert make(server, cards=[ten]).judge([ONE])[0].score == pytest.approx((0.7 + 2) / 0.9)
    with serving(says("1", {"1": 0.7, "2": 0.2})) as server:
        verdict = make(server, cards=[ten]).judge([ONE])[0]
    assert verdict.unread_reason == "the token '1' may be the beginning of '10', for which the server shows no token"


def test_label_rows_against_sums_by_hand():
    rng = np.random.default_rng(0)
    forms = label_forms(("A", "B"), (("a",), ("b", "Bee")))
    tokens = ["A", " A", "a", "B", " B", "b", "Bee", "x", " "]
    for _ in range(20):
        p = rng.dirichlet(np.ones(len(tokens)))
        row, reason = label_row(list(zip(tokens, p, strict=True)), forms)
        assert not reason
        assert row == pytest.approx([p[:3].sum(), p[3:7].sum()])


# several samples


def test_several_samples_are_a_mean_over_the_readable_ones():
    texts = ["4", "Score: 5", "I cannot rate this", "4"]
    with serving(lambda n, body: completion(texts[body["seed"]])) as server:
        verdict = make(server, "api:m?answers=text&samples=4").judge([ONE])[0]
    assert verdict.score == pytest.approx(13 / 3)
    assert verdict.probabilities == pytest.approx((0, 0, 0, 2 / 3, 1 / 3))
    assert verdict.coverage == 0.75
    assert verdict.prompt_tokens == 200
    assert sorted(s["seed"] for s in server.seen) == [0, 1, 2, 3]
    assert {s["temperature"] for s in server.seen} == {1.0}


def test_samples_of_a_pair_are_shares_in_each_order():
    with serving(lambda n, body: completion("ABCA"[body["seed"]])) as server:
        ab, ba = make(server, "api:m?answers=text&samples=4").judge(both_orders([TWO]))
    assert (ab.p_a, ab.p_tie) == (0.5, 0.25)
    assert (ba.p_a, ba.p_tie) == (0.25, 0.25)


def test_too_few_readable_samples_leave_the_verdict_unread():
    with serving(lambda n, body: completion(["4", "no", "no"][body["seed"]])) as server:
        verdict = make(server, "api:m?answers=text&samples=3").judge([ONE])[0]
    assert verdict.unread_reason.startswith("1 of 3 answers could be read, below 0.5; the first: the reply names")
    assert math.isnan(verdict.score)


def test_scores_between_two_labels_are_averaged():
    card = TEXT.model_copy(update={"decimals": True, "variant": ""})
    with serving(lambda n, body: completion(["Score: 4.5", "Score: 3"][body["seed"]])) as server:
        verdict = make(server, "api:m?samples=2", cards=[card]).judge([ONE])[0]
    assert (verdict.score, verdict.probabilities) == (3.75, None)


# cache, identity, cost, cap, stop


def test_equal_questions_are_asked_once_and_known_ones_never(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(says("4", TOP)) as server:
        first = make(server, cache=cache).judge([ONE, ONE])
        second = make(server, cache=cache).judge([ONE])
    assert len(server.seen) == 1
    assert second[0] == replace(first[0], seconds=0.0)


def test_the_fingerprint_covers_server_model_cards_and_dials():
    one = ApiSettings(base_url="http://127.0.0.1:1/v1")

    def fingerprint(spec="api:m", settings=one, cards=CARDS):
        return ApiJudge(spec, parse_api(spec), ApiClient(settings, "key"), cards, READERS).fingerprint

    same = fingerprint()
    assert fingerprint(settings=replace(one, concurrency=9, timeout_seconds=5)) == same
    others = [
        fingerprint(settings=replace(one, base_url="http://127.0.0.1:2/v1")),
        fingerprint("api:n"),
        fingerprint("api:m?answers=text"),
        fingerprint("api:m?samples=3"),
        fingerprint(cards=CARDS[:1]),
        fingerprint(settings=replace(one, top_logprobs=5)),
    ]
    assert len({same, *others}) == 7


def test_cost_and_expense_are_known_before_anything_is_sent():
    asked = [replace(ONE, response="x" * 400), replace(ONE, response="é" * 400)]
    with serving(says("4", TOP)) as server:
        judge = make(server, price_prompt=2.0, price_completion=8.0, max_calls=1)
        cost = judge.cost(asked)
        sampled = make(server, "api:m?samples=5").cost(asked)
    assert server.seen == []
    # "Rate {response} after hello:" adds 18 bytes; bytes / 4 rounded up, and 8 for the format
    tokens = (math.ceil(418 / 4) + 8) + (math.ceil(818 / 4) + 8)
    assert cost == (2, tokens, 0, Paid(2, tokens, 2))
    assert sampled.calls == 10  # where it is not known whether text is read, the dearer way counts
    expense = judge.expense(cost.paid)
    assert expense.money == pytest.approx((2 * tokens + 8 * 2) / 1e6)
    assert expense.beyond
    assert "goes beyond the cap" in expense.sentence()


def test_the_cap_stops_a_run_and_what_is_done_is_kept(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    many = [replace(ONE, response=f"text {i}") for i in range(9)]
    with serving(says("4", TOP)) as server:
        with pytest.raises(OutOfCalls, match="cap of 4 API calls"):
            make(server, cache=cache, max_calls=4, concurrency=1).judge(many)
        assert len(server.seen) == 4
        left = make(server, cache=cache)
        assert left.cost(many).calls == 5
        assert all(v.read for v in left.judge(many))
    assert len(server.seen) == 9


def test_calls_run_side_by_side_and_answers_keep_their_order():
    """The server answers none before all four are there: one after the other they would never be."""
    many = [replace(ONE, response=f"text {i}") for i in range(5)]
    arrived = []

    def script(n, body):
        if n > 0:  # the first call finds out how to ask
            arrived.append(n)
            if len(arrived) == 4:
                server.gate.set()
            assert server.gate.wait(120)
        return completion("4", {str(1 + int(body["messages"][0]["content"][10])): 1.0})

    with serving(script) as server:
        verdicts = make(server, concurrency=4).judge(many)
    assert [v.score for v in verdicts] == [1, 2, 3, 4, 5]


def test_stop_is_heard_while_the_server_is_silent():
    looks = []

    def stop(done, total):
        looks.append(done)
        if len(looks) == 3:
            raise Cancelled

    with serving(lambda n, _: server.gate.wait(20) and completion("4", TOP)) as server, pytest.raises(Cancelled):
        make(server).judge([ONE], stop)


# specs and lists


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("api:", "names no API model"),
        ("api:a b", "names no API model"),
        ("api:m?top=3", "has no parameter 'top'"),
        ("api:m?seed=0.5", "cannot take seed"),
        ("api:m?thinking=on&answers=choice", "cannot be held to the answers"),
        ("decision:m?samples=3", "names no decision model"),
        ("api:m?samples=0", "cannot take samples"),
        ("api:m?samples=2.5", "cannot take samples"),
        ("api:m?thinking=maybe", "cannot take thinking"),
        ("api:m?effort=huge", "cannot take effort"),
        ("api:m?thinking=on&answers=probabilities", "no probabilities to read"),
        ("api:m?answers=maybe", "cannot take answers"),
        ("api:m?temperature=9", "cannot take temperature"),
        ("api:m?samples=3&temperature=0", "would all be alike"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(spec, words):
    with pytest.raises(InputError, match=words):
        parse_api(spec)


def test_names_of_models_as_servers_write_them():
    for name in ("gpt-4o-mini", "meta-llama/Llama-3.1-8B-Instruct", "llama3.2:3b", "m@2024", "ft:gpt-4o:org::abc"):
        assert parse_api(f"api:{name}").model == name
    assert parse_api("api:m?samples=5").temperature == 1.0


def test_a_model_that_was_chosen_is_offered_in_every_protocol_until_it_is_forgotten(settings, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_API_MODELS", "named, ")
    assert known_models(settings) == ("api:named",)
    remember_model("api:own?samples=3", settings)
    remember_model("api:own?samples=3", settings)
    assert known_models(settings) == ("api:named", "api:own?samples=3")
    for protocol in Protocol:
        assert "api:own?samples=3" in judges_for(protocol)
    forget_model("api:own?samples=3", settings)
    assert known_models(settings) == ("api:named",)


def test_without_a_server_the_judge_says_what_to_set(settings):
    with pytest.raises(InputError, match="No API server is set"):
        make_judge("api:m", settings)


def test_what_a_server_cannot_give_is_refused_by_name(settings):
    with pytest.raises(InputError, match="no hidden states, gradients or weights"):
        load_model("api:m", settings)


# answers that were cut off


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        pytest.param({"finish_reason": "length"}, {}, id="said"),
        pytest.param({"finish_reason": "MAX_TOKENS"}, {}, id="said in another way"),
        pytest.param({"finish_reason": None}, {"completion_tokens": 48}, id="counted"),
    ],
)
def test_a_reply_that_was_cut_off_is_unread_and_not_kept(tmp_path, reply, usage):
    cache = CallCache(tmp_path / "calls.sqlite")

    def script(n, body):
        more = {"usage": {"prompt_tokens": 5, **usage}} if usage else {}
        return completion("Score: 1", choice=reply if n == 0 else {}, **(more if n == 0 else {}))

    with serving(script) as server:
        first = make(server, "api:m?answers=text", cache=cache)
        assert first.judge([ONE])[0].unread_reason == "the reply was cut off"
        again = make(server, "api:m?answers=text", cache=cache)
        assert again.cost([ONE]).calls == 1
        assert again.judge([ONE])[0].score == 1
        assert again.cost([ONE]).calls == 0


def test_a_final_verdict_before_the_cut_is_read_and_kept_as_cut_off(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(lambda n, body: completion("Final score: 2.\nIt", choice={"finish_reason": "length"})) as server:
        assert make(server, "api:m?answers=text", cache=cache).judge([ONE])[0].score == 2
        again = make(server, "api:m?answers=text", cache=cache)
        assert again.cost([ONE]).calls == 0
        assert again.judge([ONE])[0].score == 2
    assert len(server.seen) == 1


@pytest.mark.parametrize("reply", ["I'm sorry", "<think>Score: 3", "Score: 2. Score: 3"])
def test_a_text_without_a_verdict_is_not_kept(tmp_path, reply):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(says(reply)) as server:
        assert make(server, "api:m?answers=text", cache=cache).judge([ONE])[0].unread_reason
        assert make(server, "api:m?answers=text", cache=cache).cost([ONE]).calls == 1


def test_an_answer_kept_by_an_older_version_counts_only_where_it_cannot_have_been_cut_off(tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    with serving(says("Score: 4")) as server:
        judge = make(server, "api:m?answers=text", cache=cache)
        judge.judge([ONE])
        for tokens, calls in ((47, 0), (48, 1)):
            cache._db.execute("UPDATE replies SET text = ? WHERE text LIKE '[%'", (f'["Score: 4", 50, {tokens}]',))
            assert make(server, "api:m?answers=text", cache=cache).cost([ONE]).calls == calls
