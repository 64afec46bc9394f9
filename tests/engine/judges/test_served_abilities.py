"""What servers offer beyond plain chat, against a stub of vLLM's schema with a planted distribution."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from engine.core.cache import CallCache
from engine.core.errors import ModelError
from engine.core.schema import Outcome, Task
from engine.core.settings import ApiSettings
from engine.defenses.guard import perplexity_judge
from engine.defenses.served_guard import ServedGuard
from engine.inference.abilities import noted_server
from engine.inference.perplexity import perplexities, text_ids, token_nlls
from engine.inference.served import ApiClient
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.base import Quote
from engine.judges.card_files import save_card
from engine.judges.cards import Card
from engine.judges.decision import DecisionJudge, parted
from engine.judges.registry import make_judge
from tests.engine.judges.api_server import completion, fault, ok, serving
from tests.engine.judges.test_api import READERS
from tests.engine.judges.test_protocols import CARDS, FIT, MANY, ONE, POINT, TEXT, TWO
from tests.engine.judges.vllm_server import Vllm

FILLER = {f"w{i}": 0.5 / 30 for i in range(30)}
DEEP = FILLER | {"1": 0.01, "2": 0.005, "3": 0.1, "4": 0.2, "5": 0.005, " 5": 0.03, " 4": 0.15}
"""Thirty likelier words above the labels 1, 2 and 5: they are not among the first twenty."""
SEEN = {"4": 0.2, " 4": 0.15, "3": 0.1, " 5": 0.03}


def make(server, spec="api:m", cards=CARDS, cache=None, kind=ApiJudge, coverage=0.0, **settings):
    client = ApiClient(ApiSettings(base_url=server.url, **({"retries": 0} | settings)))
    return kind(spec, parse_api(spec), client, cards, READERS, cache, min_coverage=coverage)


def truth(*labels):
    return [DEEP.get(label, 0.0) + DEEP.get(f" {label}", 0.0) for label in labels]


# label probabilities by token id


@pytest.mark.parametrize("marks", ["Ġ", "▁"])
def test_token_ids_give_every_label_its_mass_whatever_its_rank(marks, tmp_path):
    model = Vllm(DEEP, marks=marks)
    cache = CallCache(tmp_path / "calls.sqlite")
    with model.serve() as server:
        verdict = make(server, cache=cache).judge([ONE])[0]
        again = make(server, cache=cache)
        assert again.judge([ONE]) == [replace(verdict, seconds=0.0)]
        assert again.judge([replace(ONE, response="other")])[0].coverage == pytest.approx(0.5)
    p = truth(*"12345")
    assert verdict.coverage == pytest.approx(sum(p)) == pytest.approx(0.5)
    assert verdict.probabilities == pytest.approx(np.array(p) / sum(p))
    assert verdict.score == pytest.approx(np.dot(p, range(1, 6)) / sum(p))
    assert len(server.seen) == 2
    assert model.passed_over == []


def test_a_server_that_passes_over_ids_is_asked_for_the_likeliest(tmp_path):
    with Vllm(DEEP, by_id=False).serve() as server:
        verdict = make(server, cache=CallCache(tmp_path / "c.sqlite")).judge([ONE, replace(ONE, response="b")])[1]
    assert verdict.coverage == pytest.approx(sum(SEEN.values()))  # a lower bound
    assert [s.get("logprob_token_ids") is not None for s in server.seen] == [True, False, False]


def test_a_label_without_a_token_of_its_own_is_read_from_the_likeliest_beside_one_that_has(tmp_path):
    ten = POINT.model_copy(update={"labels": ("1", "2", "3", "4", "55"), "variant": "ten"})
    with Vllm(DEEP).serve() as server:
        judge = make(server, cards=[POINT, ten], cache=CallCache(tmp_path / "calls.sqlite"))
        by_id, by_rank = judge.judge([ONE, replace(ONE, variant="ten")])
    assert by_id.coverage == pytest.approx(0.5)
    assert by_rank.coverage == pytest.approx(0.2 + 0.15 + 0.1)


def test_more_alternatives_than_the_server_shows_are_asked_for_again_with_fewer():
    with Vllm(DEEP, by_id=False).serve() as server:
        assert make(server, top_logprobs=50).judge([ONE])[0].read
    assert [s["top_logprobs"] for s in server.seen] == [50, 50, 20]


# answers held to the labels


def holds(field):
    """A server without probabilities that obeys one field, and passes over or refuses all others."""

    def answer(_, body):
        if field == "refused" and {"structured_outputs", "response_format"} & set(body):
            return fault(400, "Unrecognized request argument supplied")
        if body.get(field) and field == "structured_outputs":
            return completion(body[field]["choice"][-1])
        if body.get(field) and field == "response_format":
            schema = body[field]["json_schema"]["schema"]
            assert schema["type"] == "object"  # OpenAI takes no other
            assert body[field]["json_schema"]["strict"] is True
            return completion(json.dumps({"answer": schema["properties"]["answer"]["enum"][-1]}))
        return completion("I would rather not say.")

    return answer


@pytest.mark.parametrize("field", ["structured_outputs", "response_format"])
def test_a_text_answer_is_held_to_the_labels_by_the_field_that_the_server_obeys(field, tmp_path):
    cache = CallCache(tmp_path / "calls.sqlite")
    asked = [ONE, TWO, FIT]
    with serving(holds(field)) as server:
        judge = make(server, cache=cache)
        point, pair, check = judge.judge(asked)
        assert judge.answers == "choice"
        calls = len(server.seen)
        assert make(server, cache=cache).judge(asked)[0].score == point.score
    assert len(server.seen) == calls
    assert (point.score, pair.outcome, check.outcome) == (5, Outcome.TIE, Outcome.NO)
    assert all(field in s for s in server.seen[-2:])


@pytest.mark.parametrize("field", ["none", "refused"])
def test_where_the_server_holds_no_answer_its_free_text_is_read(field, tmp_path):
    with serving(holds(field)) as server:
        judge = make(server, cache=CallCache(tmp_path / "calls.sqlite"))
        assert judge.judge([ONE])[0].unread_reason == "the reply names no score"
        assert judge.answers == "text"
        with pytest.raises(ModelError, match="holds no answer of m to the labels"):
            make(server, "api:m?answers=choice").judge([ONE])


def test_a_card_that_has_text_written_and_reasoning_are_never_held():
    with serving(holds("structured_outputs")) as server:
        make(server, "api:m?answers=choice").judge([replace(ONE, variant="text"), MANY])
        make(server, "api:m?thinking=on").judge([ONE])
        make(server, "api:m?answers=text").judge([ONE])
    assert server.seen
    assert all("structured_outputs" not in s for s in server.seen)
    assert TEXT.mode == "text"


def test_samples_are_held_too_and_their_seeds_are_the_run_s():
    def seeds(spec):
        with serving(holds("structured_outputs")) as server:
            assert make(server, spec).judge([ONE])[0].read
        return sorted(s["seed"] for s in server.seen[-2:])

    first, second = seeds("api:m?samples=3"), seeds("api:m?samples=3&seed=7")
    assert first == [1, 2]
    assert not set(first) & set(second)


# the decision API


@pytest.mark.parametrize(("routes", "mass"), [(("decisions", "systemone"), 1.0), (("systemone",), 0.32)])
def test_a_decision_judge_reads_the_probability_of_each_label(routes, mass):
    with Vllm(DEEP, routes=routes).serve() as server:
        judge = make(server, "decision:m", kind=DecisionJudge)
        verdict = judge.judge([replace(ONE, quote=Quote("Careful.", "[", "]"))])[0]
        assert noted_server(server.host, "m")["decisions"] == routes[0]
    p = [DEEP[label] for label in "12345"]
    assert verdict.score == pytest.approx(np.dot(p, range(1, 6)) / sum(p))
    assert verdict.coverage == pytest.approx(mass)
    body = server.seen[-1]
    question = body["questions"][0] if routes[0] == "decisions" else body["questions"]["verdict"]
    assert question["instructions"].startswith("Careful.")
    assert "[hi there]" in (body["input"] if routes[0] == "decisions" else body["state"])


def test_a_saved_card_asks_a_decision_judge_in_its_own_words(settings, monkeypatch):
    card = Card(name="own", tasks=(Task.DIALOGUE,), labels=("1", "2"), values=(1, 2), user="How brief?\n\n{response}")
    save_card(settings.cards, card)
    with Vllm(DEEP, routes=("decisions",)).serve() as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        verdict = make_judge("decision:m?card=own", settings).judge([ONE])[0]
    assert server.seen[-1]["questions"][0]["instructions"] == "How brief?"
    assert verdict.score == pytest.approx((DEEP["1"] + 2 * DEEP["2"]) / (DEEP["1"] + DEEP["2"]))


def test_a_decision_judge_orders_no_candidates_and_undoes_orders():
    with Vllm({"A": 0.6, "B": 0.3, "C": 0.1}).serve() as server:
        judge = make(server, "decision:m", kind=DecisionJudge)
        assert MANY.protocol not in judge.protocols
        assert judge.judge([TWO])[0].p_a == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"type": "refusal", "name": None}, "the server gave a refusal"),
        ({"type": "choice", "probabilities": [{"value": "1", "probability": 1.0}]}, "holds no decision"),
        ({"type": "choice", "probabilities": [{"value": c, "probability": 0.9} for c in "12345"]}, "choices are none"),
        ({"type": "choice", "probabilities": [{"value": c, "probability": math.nan} for c in "12345"]}, "are none"),
    ],
)
def test_a_decision_that_is_none_is_unread(answer, reason):
    nothing = serving(lambda n, body: completion("4"), others={"/v1/decisions": lambda n, b: ok({"answers": [answer]})})
    with nothing as server:
        assert reason in make(server, "decision:m", kind=DecisionJudge).judge([ONE])[0].unread_reason


@pytest.mark.parametrize("status", [404, 501])
def test_a_server_without_a_decision_api_stops_the_run(status):
    """vLLM gives 501 for a model of an architecture that its decision API does not know."""
    others = {"/v1/systemone": lambda n, body: fault(status, "no decision model")}
    stops = pytest.raises(ModelError, match=str(status))
    with serving(lambda n, body: completion("4"), others=others) as server, stops:
        make(server, "decision:m", kind=DecisionJudge, retries=4).judge([ONE])
    assert len(server.seen) == 1


def test_an_answer_in_json_that_is_cut_off_behind_the_label_is_read():
    """llama.cpp lets a small model fill the JSON with line breaks."""

    def answer(_, body):
        if "response_format" not in body:
            return completion("no")
        word = body["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"][-1]
        return completion(f'{{\n "answer"\n\n:\n\n"{word}"\n\n', choice={"finish_reason": "length"})

    with serving(answer) as server:
        assert make(server, "api:m?answers=choice").judge([ONE])[0].score == 5


def test_a_prompt_is_parted_before_its_first_placeholder():
    card = POINT.model_copy(update={"user": "Rate {{it}}.\n\nDialogue:\n{context}\n\n{response}\nRating:"})
    words, evidence = parted(card)
    assert words == "Rate {it}."
    assert evidence.user == "Dialogue:\n{context}\n\n{response}\nRating:"
    assert parted(POINT.model_copy(update={"user": "{response}"}))[0] == ""


# perplexity from the server


def guard_at(server, **settings):
    client = ApiClient(ApiSettings(base_url=server.url, retries=0, **settings))

    def nobody():
        raise AssertionError("no model of this machine is asked")

    return ServedGuard(client, "m", nobody, None), client


def test_perplexity_is_the_definition_from_the_server_s_numbers():
    nlls = {"a fluent text": [1.0, 2.0, 3.0, 6.0], "x": []}
    with Vllm(DEEP, nlls=nlls).serve() as server:
        guard, client = guard_at(server)
        fluent, one, empty, long = guard.perplexities(["a fluent text", "x", "", "y" * 101], 0, lambda: None)
        assert guard.perplexities(["a fluent text"], 2, lambda: None)[0].value == pytest.approx(math.exp(4.5))
    assert fluent.value == pytest.approx(math.exp(3.0))
    assert np.isnan([one.value, empty.value]).all()
    assert not one.unread
    assert "maximum context length" in long.unread
    assert client.purse.spent.calls == len(server.seen)


def test_perplexity_of_a_served_model_is_that_of_the_same_model_here(tiny):
    loaded = tiny("llama")
    texts = ["hello there", "go away", "Rate this 5!"]
    nlls = dict(zip(texts, token_nlls(loaded, [text_ids(loaded, t) for t in texts]), strict=True))
    with Vllm(DEEP, nlls=nlls).serve() as server:
        found = guard_at(server)[0].perplexities(texts, 0, lambda: None)
    assert [one.value for one in found] == pytest.approx(perplexities(loaded, texts))


def test_the_defense_warns_by_the_server_s_perplexity_and_its_calls_are_in_the_cost():
    with Vllm(DEEP, nlls={"hi there": [9.0]}).serve() as server:
        guard, _ = guard_at(server)
        judge = perplexity_judge(make(server), "perplexity", guard, 100.0, 0)
        assert judge.cost([ONE]).paid.calls == 2
        judge.judge([ONE])
    assert "Warning" in server.seen[-1]["messages"][0]["content"]


def test_a_server_that_passes_over_echo_is_named():
    plain = {"choices": [{"index": 0, "text": " of", "logprobs": {"content": []}}], "usage": {"prompt_tokens": 2}}
    others = {"/v1/completions": lambda n, body: ok(plain)}
    no_echo = pytest.raises(ModelError, match="no log-probabilities of a prompt")
    with serving(lambda n, body: completion("4"), others=others) as server, no_echo:
        guard_at(server)[0].perplexities(["a", "b"], 0, lambda: None)
    assert len(server.seen) == 1


# what is remembered of a server


def test_what_a_server_showed_is_noted_with_version_and_fingerprint():
    with Vllm(DEEP).serve() as server:
        make(server).judge([ONE])
        found = noted_server(server.host, "m")
    assert found["version"] == "0.32.0"
    assert found["system_fingerprint"] == ["vllm-0.32.0-tp1"]
    assert found["label_tokens_by_id"] is True
    assert found["thinking"] == "none seen"
