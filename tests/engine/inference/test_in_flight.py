"""Hundreds of calls under way: the cap is exact, a stop is prompt, order is kept, and every call has one outcome."""

from __future__ import annotations

import _thread
import asyncio
import json
import signal
import threading
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import Cancelled, ModelError, OutOfCalls
from engine.core.settings import ApiSettings
from engine.inference import addresses
from engine.inference.addresses import Window
from engine.inference.completions import Question, Way
from engine.inference.in_flight import Stopped, run_all, wait_for
from engine.inference.served import ApiClient, CallError, FieldError
from tests.engine.inference.test_api_client import Hands
from tests.engine.judges.api_server import CUT, completion, fault, serving

GOOD = completion("4", {"4": 0.6, "5": 0.4})


def nothing():
    pass


def client(*servers, hands=None, **given):
    hands = hands or Hands()
    found = ApiSettings(base_url=" ".join(s.url for s in servers), **({"retries": 0, "max_calls": 10_000} | given))
    return ApiClient(found, "", hands.sleep, hands.clock)


def jobs_for(one, count, outcome=None):
    """Calls told apart by their number; with `outcome` an error is a result too."""

    async def job(i, stop):
        question = Question("", f"number {i}", labels=True, max_tokens=1)
        try:
            return await one.ask("m", question, Way(), stop)
        except CallError as error:
            if outcome is None:
                raise
            return error

    return [partial(job, i) for i in range(count)]


def run(one, count, at_once=512, tick=nothing, outcome=True):
    """Results by place."""
    kept = []
    try:
        run_all(jobs_for(one, count, outcome), at_once, kept.extend, tick)
    finally:
        one.kept = kept
    assert sorted(place for place, _ in kept) == list(range(count))
    return [result for _, result in sorted(kept, key=lambda pair: pair[0])]


@pytest.fixture
def wide(monkeypatch):
    """All calls at once from the start."""
    monkeypatch.setattr(addresses, "FIRST_WINDOW", 512)


# the cap


def all_at_once(server, count, response=GOOD):
    """Answers nobody before so many have come."""

    def script(n, _):
        if n + 1 >= count:
            server().gate.set()
        assert server().gate.wait(60)
        return response

    return script


def test_the_cap_on_calls_is_exact_with_300_under_way_and_what_is_under_way_is_kept(wide):
    with serving(all_at_once(lambda: server, 300)) as server:
        one = client(server, max_calls=300, concurrency=400)
        with pytest.raises(OutOfCalls, match="cap of 300 API calls"):
            run(one, 400, 400)
    assert len(server.seen) == one.purse.spent.calls == len(one.kept) == 300


def test_the_cap_on_cost_holds_with_300_under_way(wide):
    """Each call is set aside at 11 prompt tokens and one of answer, and the server counts 50 and 1."""
    prices = {"price_prompt": 1000.0, "price_completion": 1000.0}
    with serving(all_at_once(lambda: server, 200)) as server:
        one = client(server, concurrency=400, max_cost=200 * 0.012, **prices)
        with pytest.raises(OutOfCalls, match="beyond the cap"):
            run(one, 400, 400)
    assert len(server.seen) == one.purse.spent.calls == 200


# the window


def test_a_window_doubles_with_each_round_until_it_is_refused_and_then_grows_by_one():
    window = Window(512)
    sizes = [window.size]
    for _ in range(3):
        for _ in range(window.size):
            window.answered(window.size)
        sizes.append(window.size)
    assert sizes == [16, 32, 64, 128]
    for _ in range(100):
        window.refused(0)  # a burst, all sent before the first refusal
    assert (window.size, window.halvings) == (64, 1)
    for _ in range(65):
        window.answered(window.size)
    assert window.size == 65
    for sent in range(1, 30):
        window.refused(sent)
    assert window.size == 1


@given(st.integers(1, 512), st.lists(st.tuples(st.booleans(), st.integers(0, 600)), max_size=300))
def test_a_window_stays_between_one_and_the_setting(most, events):
    window = Window(most)
    for good, number in events:
        window.answered(number) if good else window.refused(min(number, window.halvings))
        assert 1 <= window.size <= most


def test_an_idle_window_does_not_grow():
    window = Window(512)
    for _ in range(100):
        window.answered(1)
    assert window.size == 16


def test_a_burst_of_429_halves_the_window_once_and_all_wait_as_long_as_the_server_asks():
    hands = Hands()

    def script(n, _):
        if n < 16:  # the first window, refused as a whole
            if n == 15:
                server.gate.set()
            assert server.gate.wait(60)
            return fault(429, retry_after="7")
        return GOOD

    with serving(script) as server:
        one = client(server, hands=hands, retries=1, concurrency=64)
        found = run(one, 40)
    window = one._addresses.all[0].window
    assert all(reply.text == "4" for reply in found)
    assert window.halvings == 1
    assert len(server.seen) == one.purse.spent.calls == 40 + 16
    assert max(hands.waits) == pytest.approx(7.0)


def test_a_server_with_room_for_eight_is_found_out_and_every_call_is_answered():
    """It refuses whoever comes while eight are there."""
    there, lock, most = [], threading.Lock(), []

    def script(n, _):
        with lock:
            if len(there) >= 8:
                return fault(429)
            there.append(n)
            most.append(len(there))
        with lock:
            there.remove(n)
        return GOOD

    with serving(script) as server:
        one = client(server, retries=10, concurrency=256)
        found = run(one, 200)
    assert [reply.text for reply in found] == ["4"] * 200
    assert len(server.seen) == one.purse.spent.calls
    assert max(most) <= 8


# several addresses


def test_calls_are_spread_over_the_addresses_and_counted():
    with serving(lambda n, _: GOOD) as a, serving(lambda n, _: GOOD) as b:
        one = client(a, b, concurrency=8)
        run(one, 60, 8)
    assert one.answered == {a.host: len(a.seen), b.host: len(b.seen)}
    assert len(a.seen) + len(b.seen) == one.purse.spent.calls == 60
    assert min(len(a.seen), len(b.seen)) > 10
    assert a.looks == b.looks == ["/health", "/v1/models"]


def test_one_address_alone_is_not_looked_at():
    with serving(lambda n, _: GOOD) as server:
        run(client(server), 3)
    assert server.looks == []


def test_an_address_that_is_killed_mid_run_is_left_and_the_run_goes_on(wide):
    def script(n, _):
        if n == 5:
            a.kill()
        return GOOD

    with serving(script) as a, serving(lambda n, _: GOOD) as b:
        one = client(a, b, concurrency=8)
        found = run(one, 80, 8)
    assert [reply.text for reply in found] == ["4"] * 80
    assert one._addresses.all[0].left_until > 0
    assert len(b.seen) == one.answered[b.host] >= 70
    assert one.answered[a.host] + one.answered[b.host] == 80


def test_an_address_that_comes_back_is_asked_for_its_health_before_it_is_used_again():
    hands = Hands()
    with serving(lambda n, _: GOOD) as b:
        with serving(lambda n, _: GOOD) as a:
            one = client(a, b, hands=hands, concurrency=1)
            run(one, 4, 1)
            a.kill()
        run(one, 4, 1)
        port = int(a.host.rpartition(":")[2])
        with serving(lambda n, _: GOOD, port=port) as again:
            again.health = 503
            hands.now += 2
            run(one, 4, 1)
            settle(one)
            assert again.seen == []
            assert again.looks
            again.health = 200
            hands.now += 100
            run(one, 1, 1)
            settle(one)
            run(one, 6, 1)
            assert again.seen
    assert one.purse.spent.calls >= 19


def settle(one):
    """Wait for the looks that are going on."""

    async def looks():
        await asyncio.gather(*(a.looking for a in one._addresses.all if a.looking))

    wait_for(looks())


def test_an_address_that_only_fails_is_left_though_it_can_be_reached():
    with serving(lambda n, _: fault(500, "broken")) as a, serving(lambda n, _: GOOD) as b:
        one = client(a, b, concurrency=1, retries=2)
        found = run(one, 30, 1)
    assert all(reply.text == "4" for reply in found)
    assert len(a.seen) == 3


def test_an_address_that_asks_for_too_long_a_wait_is_left_and_the_others_go_on():
    with serving(lambda n, _: fault(429, retry_after="86400")) as a, serving(lambda n, _: GOOD) as b:
        one = client(a, b, concurrency=1, retries=1)
        found = run(one, 10, 1)
    assert [reply.text for reply in found] == ["4"] * 10
    assert len(a.seen) == 1


def test_all_addresses_gone_is_the_end_of_the_run():
    with serving(lambda n, _: GOOD) as a, serving(lambda n, _: GOOD) as b:
        one = client(a, b, concurrency=4)
        run(one, 4)
        a.kill()
        b.kill()
        with pytest.raises(ModelError, match=r"20 calls in a row had no answer from .* and 1 more"):
            run(one, 60)


def test_addresses_with_different_models_are_refused_by_name():
    with serving(lambda n, _: GOOD) as a, serving(lambda n, _: GOOD, models=("other",)) as b:
        one = client(a, b, concurrency=1)
        with pytest.raises(ModelError, match=f"same model: {a.host} has m, {b.host} has other"):
            run(one, 2)
        assert not a.seen
        assert not b.seen


def test_the_setting_bounds_the_calls_under_way_over_all_addresses(wide):
    most, there, lock = [], set(), threading.Lock()

    def script(n, body):
        with lock:
            there.add(body["messages"][0]["content"])
            most.append(len(there))
        with lock:
            there.discard(body["messages"][0]["content"])
        return GOOD

    with serving(script) as a, serving(script) as b, serving(script) as c:
        run(client(a, b, c, concurrency=5), 100)
    assert max(most) <= 5


# stop, order, outcomes


def held(server, first):
    """Answers the first calls and keeps the others waiting."""
    return lambda n, _: GOOD if n < first else (server().gate.wait(60) and GOOD)


def test_a_stop_in_the_middle_is_prompt_and_finished_calls_are_kept():
    def tick():
        if len(server.seen) >= 26:
            raise Cancelled

    with serving(held(lambda: server, 10)) as server:
        one = client(server, concurrency=16)
        with pytest.raises(Cancelled):
            run(one, 100, 16, tick)
        sent = len(server.seen)
        assert len(one.kept) == 10
        assert sent == one.purse.spent.calls == 26
        server.gate.set()
        run(client(server), 1)  # whatever was still to come would have come before this
        assert len(server.seen) == sent + 1


def test_ctrl_c_ends_a_run_and_finished_calls_are_kept():
    def script(n, _):
        if n == 25:
            _thread.interrupt_main()
        return GOOD if n < 10 else (server.gate.wait(60) and GOOD)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C
    try:
        with serving(script) as server:
            one = client(server, concurrency=16)
            with pytest.raises(KeyboardInterrupt):
                run(one, 100, 16)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(one.kept) == 10


def test_an_error_of_one_call_waits_for_those_under_way_and_sends_nothing_more():
    def script(n, _):
        if n == 15:
            return fault(401)
        server.gate.wait(0.2) or server.gate.set()
        return GOOD

    with serving(script) as server:
        one = client(server, concurrency=16)
        with pytest.raises(ModelError, match="does not take the key"):
            run(one, 100, 16)
    assert len(server.seen) == one.purse.spent.calls
    assert len(one.kept) == len(server.seen) - 1


def test_results_have_the_order_of_the_requests(wide):
    """Answered in the reverse of their order: each waits for the one behind it."""
    count = 120
    turn = [threading.Event() for _ in range(count + 1)]
    turn[count].set()

    def script(_, body):
        i = int(body["messages"][0]["content"].split()[1])
        assert turn[i + 1].wait(60)
        turn[i].set()
        return completion(str(i))

    with serving(script) as server:
        found = run(client(server, concurrency=256), count, 256)
    assert [reply.text for reply in found] == [str(i) for i in range(count)]


def test_half_an_answer_and_then_silence_is_given_up():
    half = (200, {"content-length": "900", "x-hold": ""}, GOOD[2][:40])
    with serving(lambda n, _: half) as server:
        one = client(server, timeout_seconds=0.3)
        [found] = run(one, 1)
        server.gate.set()
    assert str(found) == "no answer within 0.3 s"
    assert one.purse.spent.prompt_tokens > 0  # the server may have worked for it


def test_jobs_that_are_told_to_stop_say_so():
    async def first(stop):
        raise ValueError("no")

    async def second(stop):
        await stop.wait()
        raise Stopped

    kept = []
    with pytest.raises(ValueError, match="no"):
        run_all([first, second, second], 3, kept.extend, nothing)
    assert kept == []


FAULTS = {
    "good": GOOD,
    "500": fault(500),
    "503": fault(503),
    "429": fault(429),
    "wait": fault(429, retry_after="3"),
    "broken": (200, {}, b'{"choices": [{"mess'),
    "cut": CUT,
    "half": (200, {"content-length": "900"}, b'{"choices"'),
    "refused": fault(400, "context length"),
}
ENDS = {"good", "refused"}


@pytest.fixture(scope="module")
def scripted():
    """Servers whose answers are set for each example: by the number in the prompt, one fault after the other."""
    plan, tries, lock = {}, {}, threading.Lock()

    def script(_, body):
        i = int(body["messages"][0]["content"].split()[1])
        with lock:
            tries[i] = tries.get(i, 0) + 1
            said = plan[i][min(tries[i], len(plan[i])) - 1]
        return FAULTS[said]

    with serving(script) as a, serving(script) as b:
        yield plan, tries, (a, b)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=4), min_size=1, max_size=12),
       st.integers(0, 3), st.integers(1, 2), st.integers(1, 40))  # fmt: skip
def test_every_call_has_one_outcome_and_the_server_has_seen_what_the_purse_counts(
    scripted, faults, retries, count, concurrency
):
    plan, tries, servers = scripted
    plan.clear()
    tries.clear()
    plan.update(enumerate(faults))
    before = sum(len(s.seen) for s in servers)
    one = client(*servers[:count], retries=retries, concurrency=concurrency)
    found = run(one, len(faults))
    assert sum(len(s.seen) for s in servers) - before == one.purse.spent.calls == sum(tries.values())
    if count == 2:  # a cut connection moves the call to the other address, without a failed try
        return
    for i, (script, outcome) in enumerate(zip(faults, found, strict=True)):
        met = [script[min(k, len(script) - 1)] for k in range(retries + 1)]
        end = next((said for said in met if said in ENDS), "")
        assert (end == "good") == (not isinstance(outcome, CallError)), json.dumps([script, str(outcome)])
        assert (end == "refused") == isinstance(outcome, FieldError)
        assert tries[i] == (met.index(end) + 1 if end else retries + 1)
