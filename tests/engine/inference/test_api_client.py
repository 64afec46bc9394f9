"""The client against a scripted server: what is tried again, for how long, what stops a run, and the cap."""

from __future__ import annotations

import asyncio
import email.utils
import json
from datetime import UTC, datetime, timedelta

import pytest

from engine.core.errors import InputError, ModelError, OutOfCalls
from engine.core.settings import ApiSettings
from engine.inference.completions import AnswerError, Question, Way, complaint_of, read_reply
from engine.inference.in_flight import Stopped, wait_for
from engine.inference.served import FAILURES_IN_A_ROW, ApiClient, CallError, FieldError
from tests.engine.judges.api_server import completion, fault, ok, serving

KEY = "sk-test-0123456789abcdef"
ASKED = Question("", "Rate this.", labels=True, max_tokens=1)
GOOD = {"4": 0.6, "5": 0.4}


class Hands:
    """A clock that moves when somebody waits, and what was waited for."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, []

    async def sleep(self, seconds, stop):
        self.waits.append(round(seconds, 6))
        self.now += seconds

    def clock(self):
        return self.now


def client(server, hands=None, key=KEY, **settings):
    hands = hands or Hands()
    return ApiClient(ApiSettings(base_url=server.url, **settings), key, hands.sleep, hands.clock)


def ask(one, question=ASKED, model="m"):
    return wait_for(one.ask(model, question, Way(), asyncio.Event()))


def script(*responses):
    """These responses one after the other, the last one for ever."""
    return lambda n, _: responses[min(n, len(responses) - 1)]


def test_an_answer_is_read_and_the_question_is_sent_as_it_is():
    with serving(script(completion("4", GOOD))) as server:
        reply = ask(client(server), Question("Be \ud800 fair", "Rate {x}", labels=True, max_tokens=1))
    assert (reply.text, dict(reply.top), reply.prompt_tokens) == ("4", pytest.approx(GOOD), 50)
    assert server.keys == [f"Bearer {KEY}"]
    assert server.seen[0] == {
        "model": "m", "max_tokens": 1, "temperature": 1.0, "logprobs": True, "top_logprobs": 20,
        "messages": [{"role": "system", "content": "Be \ud800 fair"}, {"role": "user", "content": "Rate {x}"}],
    }  # fmt: skip


TWICE = {"retries": 2}


@pytest.mark.parametrize(
    ("first", "waits"),
    [
        pytest.param(fault(500, "boom"), [0.5], id="500"),
        pytest.param(fault(503), [0.5], id="503"),
        pytest.param(fault(429, "slow down"), [0.5], id="429"),
        pytest.param(fault(429, "slow down", retry_after="7"), [7.0], id="429 with Retry-After"),
        pytest.param(fault(503, retry_after="3.5"), [3.5], id="503 with Retry-After"),
        pytest.param((200, {}, b'{"choices": [{"mess'), [0.5], id="truncated JSON"),
        pytest.param((200, {"content-length": "900"}, b'{"choices"'), [0.5], id="connection cut in the answer"),
        pytest.param(ok({"choices": []}), [0.5], id="no choice"),
        pytest.param(ok({"choices": [{"message": {"content": ["x"]}}]}), [0.5], id="content is no text"),
    ],
)
def test_a_fault_of_the_moment_is_tried_again_after_the_right_wait(first, waits):
    hands = Hands()
    with serving(script(first, completion("4", GOOD))) as server:
        assert ask(client(server, hands, **TWICE)).text == "4"
    assert len(server.seen) == 2
    assert hands.waits == waits


def test_retry_after_as_a_date_is_waited_for():
    hands = Hands()
    then = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=40))
    with serving(script(fault(429, retry_after=then), completion("4", GOOD))) as server:
        ask(client(server, hands))
    assert 10 < hands.waits[0] <= 40  # less what this machine took to ask


def test_a_fault_that_stays_leaves_the_call_unread_with_the_reason_and_doubling_waits():
    hands = Hands()
    with serving(script(fault(500, "no GPU left"))) as server, pytest.raises(CallError) as caught:
        ask(client(server, hands, retries=3))
    assert str(caught.value) == "the server answered 500: no GPU left; tried 4 times"
    assert hands.waits == [0.5, 1.0, 2.0]


def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for():
    hands = Hands()
    with (
        serving(script(fault(429, "quota", retry_after="86400"))) as server,
        pytest.raises(ModelError, match="86,400 s"),
    ):
        ask(client(server, hands))
    assert hands.waits == []
    assert len(server.seen) == 1


def test_a_wait_beyond_the_limit_stops_the_run_even_at_the_last_try():
    with (
        serving(script(fault(503, "overloaded", retry_after="90"))) as server,
        pytest.raises(ModelError, match=r"90 s, longer than the 60 s allowed.*finished calls are kept"),
    ):
        ask(client(server, Hands(), retries=0))


def test_while_one_call_waits_for_a_busy_server_the_others_wait_too():
    hands = Hands()
    with serving(script(fault(429, retry_after="9"), completion("4", GOOD))) as server:
        one = client(server, hands)

        async def sleep(seconds, stop):
            one._sleep = hands.sleep
            await one.ask("m", ASKED, Way(), stop)  # another call, while the first one waits
            assert hands.waits == [9.0]

        one._sleep = sleep
        ask(one)
    assert len(server.seen) == 3


def test_a_slow_server_is_given_up_and_the_try_counts_as_paid():
    with serving(lambda n, _: server.gate.wait(20) and completion("4", GOOD)) as server:
        one = ApiClient(ApiSettings(base_url=server.url, timeout_seconds=0.1, retries=0))
        with pytest.raises(CallError, match=r"no answer within 0\.1 s"):
            ask(one)
        assert one.purse.spent.prompt_tokens == ASKED.prompt_tokens


def test_nobody_there_says_so():
    with serving(script(fault(500))) as server:
        pass
    with pytest.raises(CallError, match=r"no connection to 127\.0\.0\.1:\d+ \(ConnectError\)"):
        ask(client(server, retries=0))


@pytest.mark.parametrize(
    ("response", "words"),
    [
        pytest.param(fault(404, "The model `m9` does not exist"), "has no model 'm9'.* It has: m, n", id="wrong model"),
        pytest.param(fault(400, "model m9 not found"), "has no model 'm9'", id="wrong model as 400"),
        pytest.param(fault(401, f"Incorrect API key {KEY}"), "does not take the key", id="wrong key"),
        pytest.param(fault(403), "does not allow this", id="forbidden"),
        pytest.param((302, {"location": "http://127.0.0.9/"}, b""), "redirects", id="redirect"),
    ],
)
def test_what_every_call_would_meet_stops_the_run_at_once(response, words):
    with serving(script(response), models=("n", "m")) as server, pytest.raises(ModelError, match=words) as caught:
        ask(client(server), model="m9")
    assert len(server.seen) == 1
    assert KEY not in str(caught.value)


def test_a_refused_prompt_is_not_sent_again_and_may_be_about_a_field():
    refused = pytest.raises(FieldError, match="maximum context length is 512")
    with serving(script(fault(400, "maximum context length is 512 tokens"))) as server, refused as caught:
        ask(client(server))
    assert len(server.seen) == 1
    assert Way().after(str(caught.value)) is None


def test_probabilities_that_are_none_are_not_asked_for_again():
    with serving(script(completion("4", GOOD | {"3": 0.7}))) as server, pytest.raises(CallError, match="more than 1"):
        ask(client(server))
    assert len(server.seen) == 1


def test_a_run_of_failures_stops_the_run():
    with serving(script(fault(500))) as server:
        one = client(server, retries=0)
        for _ in range(FAILURES_IN_A_ROW - 1):
            with pytest.raises(CallError):
                ask(one)
        with pytest.raises(ModelError, match="calls in a row had no answer"):
            ask(one)


def test_stop_ends_a_wait():
    async def sleep(seconds, event):
        event.set()

    with serving(script(fault(429, retry_after="30"))) as server, pytest.raises(Stopped):
        ask(ApiClient(ApiSettings(base_url=server.url), sleep=sleep))
    assert len(server.seen) == 1


def test_requests_keep_to_the_pace_that_is_set():
    hands = Hands()
    with serving(script(completion("4", GOOD))) as server:
        one = client(server, hands, requests_per_minute=30)
        for _ in range(4):
            ask(one)
    assert hands.waits == [2.0, 2.0, 2.0]


# the cap


def test_the_cap_on_calls_counts_further_tries():
    with serving(script(fault(500))) as server, pytest.raises(OutOfCalls, match="cap of 3 API calls"):
        ask(client(server, max_calls=3, retries=9))
    assert len(server.seen) == 3


def test_the_cap_on_cost_is_never_passed_by_the_next_call():
    with serving(script(completion("4", GOOD))) as server:
        one = client(server, price_prompt=1000.0, price_completion=1000.0, max_cost=0.2)
        for _ in range(3):
            ask(one)
        with pytest.raises(OutOfCalls, match=r"beyond the cap of 0\.2 USD"):
            ask(one)
    # 51 tokens a call at 0.001 each by the server's count: three calls cost 0.153, a fourth may reach 0.204
    assert one.purse.spent.money == pytest.approx(0.153)
    assert len(server.seen) == one.purse.spent.calls == 3


def test_a_cap_on_cost_without_prices_is_refused():
    with pytest.raises(InputError, match="no price is known"):
        ApiClient(ApiSettings(base_url="http://127.0.0.1:1/v1", max_cost=1.0))


def test_no_server_says_what_to_set():
    with pytest.raises(InputError, match="JUDGESCOPE_API_BASE_URL"):
        ApiClient(ApiSettings())


# the key is nowhere


def test_the_key_is_in_no_message_and_no_repr():
    echo = fault(400, f"Bad header Authorization: Bearer {KEY} in your request")
    with serving(script(echo)) as server:
        one = client(server)
        with pytest.raises(CallError) as caught:
            ask(one)
    shown = repr(one) + str(vars(one.settings)) + str(caught.value) + repr(caught.value.__cause__)
    assert "[key]" in str(caught.value)
    assert KEY not in shown


# reading answers


@pytest.mark.parametrize("mark", ["▁4", "Ġ4", " 4"])
def test_a_space_ahead_of_a_token_is_a_space_however_it_is_written(mark):
    assert dict(read_reply(completion("4", {mark: 0.5})[2]).top) == pytest.approx({" 4": 0.5})


def test_the_token_drawn_counts_where_it_is_not_among_the_likeliest():
    content = json.loads(completion("4", {"4": 0.6})[2])
    content["choices"][0]["logprobs"]["content"][0] |= {"token": "1", "logprob": -3.0}
    assert dict(read_reply(json.dumps(content).encode()).top) == pytest.approx({"4": 0.6, "1": 0.0498}, abs=1e-4)


@pytest.mark.parametrize("value", ["NaN", "0.7", '"x"', "null"])
def test_what_is_no_log_probability_is_refused(value):
    content = completion("4", {"4": 0.6})[2].decode().replace("-0.5108256237659907", value)
    with pytest.raises(AnswerError, match="no log-probabilities"):
        read_reply(content.encode())


def test_minus_infinity_is_no_probability_at_all():
    content = completion("4", {"4": 0.6, "5": 0.5})[2].decode().replace("-0.6931471805599453", "-Infinity")
    assert dict(read_reply(content.encode()).top) == pytest.approx({"4": 0.6, "5": 0.0})


@pytest.mark.parametrize(
    ("complaint", "changed"),
    [
        ("top_logprobs must be at most 5", {"top": 5}),
        ("logprobs are not supported", {"top": 0}),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'", {"limit": "max_completion_tokens"}),
        ("temperature does not support 0", {"temperature": False}),
        ("Extra inputs are not permitted: seed", {"seed": False}),
    ],
)
def test_a_field_that_is_refused_is_left_out_or_changed(complaint, changed):
    assert Way().after(complaint) == Way(**changed)
    assert Way.unpacked(Way(**changed).packed()) == Way(**changed)


def test_complaints_in_other_shapes_are_found_and_a_page_of_html_is_not():
    assert complaint_of(b'{"detail": "not here"}') == "not here"
    assert complaint_of(b'{"error": "plain"}') == "plain"
    assert complaint_of(b"<html>Bad gateway</html>") == ""


def test_a_byte_now_and_then_does_not_hold_a_call():
    """The time limit is for the whole answer, though each byte comes in time; the clock moves by a third a look."""
    ticks = iter(i / 3 for i in range(1000))
    content = completion("4", GOOD, pad="x" * 3_000_000)[2]
    with serving(lambda n, _: (200, {}, content)) as server:
        one = ApiClient(ApiSettings(base_url=server.url, timeout_seconds=2, retries=0), clock=lambda: next(ticks))
        with pytest.raises(CallError, match="no answer within 2 s"):
            ask(one)


def test_an_endless_answer_is_cut():
    content = completion("4", GOOD, pad="x" * 5_000_000)[2]
    with serving(lambda n, _: (200, {}, content)) as server, pytest.raises(CallError, match="longer than 4 MB"):
        ask(client(server, timeout_seconds=3000))
