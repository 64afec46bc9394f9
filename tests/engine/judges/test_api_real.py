"""API judges against servers with real weights: the verdicts are the local judge's, in every protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.cache import CallCache
from engine.core.schema import Protocol, Task
from engine.core.settings import ApiSettings, get_settings
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.defenses.registry import defend
from engine.inference.served import ApiClient
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.cards import read_cards
from engine.judges.kinds import both_orders
from engine.judges.labelled import CardJudge
from tests.engine.judges.api_server import model_script, serving
from tests.engine.judges.test_api import READERS
from tests.engine.judges.test_protocols import ANCHORED, CARDS, FIT, MANY, ONE, TWO

NUMBERS = ("score", "p_a", "p_tie", "p_yes", "coverage")


def pair_of(loaded, server, cards, spec="api:m", **settings):
    """The local judge and the API judge in front of the same model."""
    found = ApiSettings(base_url=server.url, **settings)
    remote = ApiJudge(spec, parse_api(spec), ApiClient(found), cards, READERS, min_coverage=0.0)
    return CardJudge(loaded, cards, READERS, min_coverage=0.0), remote


def agree(local, remote, requests, tolerance):
    for request, a, b in zip(requests, local.judge(requests), remote.judge(requests), strict=True):
        for name in NUMBERS:
            assert getattr(b, name) == pytest.approx(getattr(a, name), abs=tolerance, nan_ok=True), (request, name)
        assert (b.outcome, b.ranking, b.unread_reason) == (a.outcome, a.ranking, a.unread_reason)
        assert b.probabilities == pytest.approx(a.probabilities, abs=tolerance) if a.probabilities else True
        assert b.prompt_tokens == a.prompt_tokens


@pytest.mark.parametrize("shape", ["llama", "qwen2"])
def test_every_protocol_gives_the_local_judge_s_numbers_where_all_tokens_are_shown(tiny, shape):
    """A random model over bytes; the server shows its whole vocabulary, so nothing is left out."""
    one_token = [c for c in CARDS if all(len(label) == 1 for label in c.labels)]
    loaded = tiny(shape)
    asked = [ONE, replace(ONE, anchor_low="bad", anchor_high="good"), replace(ONE, variant="text"), MANY]
    asked += both_orders([TWO])
    with serving(model_script(loaded, most=1000)) as server:
        local, remote = pair_of(loaded, server, one_token, top_logprobs=300)
        agree(local, remote, asked, 1e-6)


def test_several_samples_of_a_greedy_server_are_its_one_answer(tiny):
    loaded = tiny("llama")
    with serving(model_script(loaded, most=1000)) as server:
        local, remote = pair_of(loaded, server, CARDS, "api:m?answers=text&samples=3")
        one = local.judge([replace(ONE, variant="text")])[0]
        three = remote.judge([replace(ONE, variant="text")])[0]
    assert three.read == one.read
    assert three.raw_text.startswith(f"[1 of 3] {one.raw_text}")


def test_an_anchored_defense_asks_the_server_through_the_anchored_card(tiny):
    loaded = tiny("llama")
    with serving(model_script(loaded, most=1000)) as server:
        local, remote = pair_of(loaded, server, [ANCHORED], top_logprobs=300)
        given = GivenAnchors("wcap", {ONE.item_id: Anchors("bad", "good")})
        a, b = (AnchoredJudge(judge, "wcap", given).judge([ONE])[0] for judge in (local, remote))
    assert "low bad high good" in server.seen[0]["messages"][0]["content"]
    assert b.score == pytest.approx(a.score, abs=1e-6)


def test_chain_of_thought_is_the_server_s_own(tiny):
    """A judge that can write reasons itself, through its card of the variant cot, not through a second model."""
    cot = CARDS[2].model_copy(update={"variant": "cot"})
    with serving(model_script(tiny("llama"), most=1000)) as server:
        _, remote = pair_of(tiny("llama"), server, [cot])
        defend(remote, "cot").judge([ONE])
    assert [s["messages"][0]["content"] for s in server.seen] == ["Rate hi there."]


@pytest.mark.slow
@pytest.mark.weights
def test_the_bundled_judge_behind_a_server_is_the_bundled_judge(bundled, tmp_path):
    """Twenty alternatives, as hosted servers show; the probabilities differ by what those leave out, at most 1e-4."""
    cards = read_cards(get_settings().assets / "cards")
    one = replace(ONE, context="What do bees make?", response="Bees make honey.")
    pairs = [
        replace(one, protocol=Protocol.PAIRWISE, task=Task.INSTRUCTION, response_b_id="s", response_b="They do not.")
    ]
    check = replace(FIT, context="What is 7 + 5?", response="7 + 5 = 12. The answer is 12.")
    anchored = replace(one, anchor_low="Bees are yellow.", anchor_high="Bees make honey from nectar.")
    asked = [one, anchored, *both_orders(pairs), check, replace(check, reference="13")]
    with serving(model_script(bundled, most=20)) as server:
        found = ApiSettings(base_url=server.url)
        local = CardJudge(bundled, cards, READERS)
        remote = ApiJudge(
            "api:m", parse_api("api:m"), ApiClient(found), cards, READERS, CallCache(tmp_path / "calls.sqlite")
        )
        agree(local, remote, asked, 1e-4)
        first = remote.judge(asked)  # from the cache: nothing is sent
    assert len(server.seen) == len(asked)
    assert [v.seconds for v in first] == [0.0] * len(asked)
