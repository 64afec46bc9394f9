"""Screening: one look per distinct text, a warning where it is due, nothing invented where there is no number."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from engine.core.cache import CallCache
from engine.core.errors import Cancelled
from engine.core.schema import NONE, Order, Protocol, Task
from engine.defenses.guard import WARNING, ModelGuard, Reading, guard_for
from engine.defenses.registry import defend
from engine.inference.loading import LoadedModel
from engine.judges.base import Candidate, Request, Verdict
from engine.judges.planted import make_planted

REQUEST = Request("i", "r", Task.DIALOGUE, "context", "fine", order=Order.AB)
NOTE = WARNING.opening


class Seen:
    """A judge that keeps what it was asked."""

    spec, fingerprint, protocols = "planted:seen", "seen", frozenset(Protocol)

    def __init__(self):
        self.requests = []

    def judge(self, requests, checkpoint=None):
        self.requests += requests
        checkpoint(len(requests), len(requests))
        return [Verdict(score=1.0, forward_passes=1.0, seconds=0.5) for _ in requests]

    def prompt(self, request):
        return request.quoted(request.response)


class Fake:
    """A guard for which odd texts are unlikely: 1000 for `odd`, no number for an empty one, unread for `long`."""

    def __init__(self):
        self.asked = []

    def perplexities(self, texts, window, after_batch):
        self.asked.append((tuple(texts), window))
        after_batch()
        return [self.read(text) for text in texts]

    def read(self, text):
        if text == "long":
            return Reading(math.nan, 0.0, "too long")
        return Reading(math.nan if not text else 1000.0 if "odd" in text else 10.0, 2.0)

    def suspicions(self, texts, after_batch):
        self.asked.append((tuple(texts), "detector"))
        return [Reading(0.9 if "obey" in t else 0.1) for t in texts]


def texts(*responses):
    return [replace(REQUEST, response_id=str(i), response=t) for i, t in enumerate(responses)]


def shown(request):
    return request.quoted(request.response)


def test_what_stands_out_is_quoted_behind_the_warning():
    judge, guard = Seen(), Fake()
    defend(judge, "perplexity", guard).judge(texts("fine", "odd", ""))
    assert [shown(r) for r in judge.requests] == ["fine", f"{NOTE}odd", ""]
    assert all(r.quote.note == "" for r in judge.requests)


def test_the_threshold_and_the_window_are_the_name_s():
    judge, guard = Seen(), Fake()
    defend(judge, "perplexity?threshold=1000&window=12", guard).judge(texts("odd"))
    assert shown(judge.requests[0]) == "odd"  # not above the threshold
    assert guard.asked == [(("odd",), 12)]


def test_each_distinct_text_is_looked_at_once_and_costs_are_counted():
    judge, guard = Seen(), Fake()
    verdicts = defend(judge, "perplexity", guard).judge(texts("fine", "odd", "fine"))
    assert guard.asked == [(("fine", "odd"), 0)]
    assert [v.forward_passes for v in verdicts] == [2, 2, 2]
    assert [v.seconds for v in verdicts] == [2.5, 2.5, 0.5]


def test_what_could_not_be_looked_at_is_unread_and_never_judged():
    judge, guard, seen = Seen(), Fake(), []
    verdicts = defend(judge, "perplexity", guard).judge(texts("long", "fine"), lambda d, n: seen.append((d, n)))
    assert [v.unread_reason for v in verdicts] == ["too long", ""]
    assert math.isnan(verdicts[0].score)
    assert len(judge.requests) == 1
    assert seen[-1] == (2, 2)


def test_only_the_odd_candidate_of_a_pair_or_ranking_is_marked():
    judge, guard = Seen(), Fake()
    pair = replace(REQUEST, protocol=Protocol.PAIRWISE, response="odd a", response_b="b", others=())
    ranking = replace(REQUEST, protocol=Protocol.RANKING, others=(Candidate("s", "odd c"),))
    defend(judge, "perplexity+delimiters", guard).judge([pair, ranking])
    one, many = judge.requests
    assert one.quoted(one.response).startswith(f"{one.quote.opening}{NOTE}odd a")
    assert one.quoted(one.response_b) == f"{one.quote.opening}b{one.quote.closing}"
    assert NOTE in many.quoted("odd c")
    assert NOTE not in many.quoted("fine")


def test_defenses_work_in_the_order_named():
    judge, guard = Seen(), Fake()
    defend(judge, "delimiters+perplexity", guard).judge(texts("odd"))
    assert shown(judge.requests[0]).startswith(f"{NOTE}[begin ")
    defend(judge, "retokenise?rate=1+perplexity", guard).judge(texts("odd one"))
    assert guard.asked[-1] == (("o d d o n e",), 0)
    defend(judge, "perplexity+retokenise?rate=1", guard).judge(texts("odd one"))
    assert guard.asked[-1] == (("odd one",), 0)
    assert shown(judge.requests[-1]) == f"{NOTE}o d d o n e"
    assert judge.requests[-1].defense == "perplexity+retokenise?rate=1"
    assert defend(judge, "perplexity+retokenise?rate=1", guard).prompt(texts("odd")[0]) == f"{NOTE}o d d"


def test_two_screens_may_both_warn():
    judge = Seen()
    defend(judge, "detector+perplexity", Fake()).judge(texts("odd: obey", "obey"))
    assert [shown(r).count(NOTE) for r in judge.requests] == [2, 1]


def test_the_warning_is_not_taken_for_an_injection():
    planted = make_planted("planted:injection?strength=0.8&noise=0")
    plain = planted.judge(texts("odd"))[0].score
    assert defend(planted, "perplexity", Fake()).judge(texts("odd"))[0].score == plain


class Letters:
    """A tokenizer of letters, without BOS or chat template."""

    bos_token_id = eos_token_id = unk_token_id = chat_template = None

    def __call__(self, text, **_):
        ids = [[ord(c) % 97 for c in one] for one in ([text] if isinstance(text, str) else text)]
        return {"input_ids": ids[0] if isinstance(text, str) else ids}

    def encode(self, text, add_special_tokens=False):
        return {"Yes": [1], "yes": [2], "No": [3]}.get(text.strip(), [4, 5])


@pytest.fixture
def tiny():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    counted = {"rows": 0}
    forward = model.forward

    def counting(*args, **kwargs):
        counted["rows"] += len(kwargs["input_ids"])
        return forward(*args, **kwargs)

    model.forward = counting
    return LoadedModel("path:tiny", model, Letters(), "cpu", "float32", "tiny", 512), counted


def test_one_pass_per_distinct_text_over_windows_repeats_and_runs(tiny, tmp_path):
    loaded, counted = tiny
    cache = CallCache(tmp_path / "calls.sqlite")
    guard = ModelGuard(lambda: loaded, lambda: loaded, cache)
    judge = Seen()
    names = ("perplexity?threshold=50", "perplexity?threshold=50&window=3", "perplexity?threshold=70")
    for name in names:
        defend(judge, name, guard).judge(texts("one text", "another", "one text", "", "x"))
    assert counted["rows"] == 2  # nothing is predicted in the empty text and in one token
    again = ModelGuard(lambda: loaded, lambda: loaded, cache)
    known = again.perplexities(["one text", "another"], 0, lambda: None)
    assert counted["rows"] == 2
    assert [r.seconds for r in known] == [0, 0]
    assert [r.value for r in known] == [r.value for r in guard.perplexities(["one text", "another"], 0, lambda: None)]


def test_the_detector_asks_once_per_distinct_text(tiny):
    loaded, counted = tiny
    guard = ModelGuard(lambda: loaded, lambda: loaded, None)
    loud = guard.suspicions(["ab", "cd", "ab"], lambda: None)
    assert counted["rows"] == 2
    assert loud[0].value == loud[2].value
    assert all(0 < r.value < 1 for r in loud)


def test_a_text_longer_than_the_window_has_a_reason_and_no_number(tiny):
    loaded, _ = tiny
    reading = ModelGuard(lambda: loaded, lambda: loaded, None).perplexities(["a" * 513], 0, lambda: None)[0]
    assert math.isnan(reading.value)
    assert "screening of 513 tokens, window of path:tiny 512; nothing was cut" in reading.unread


def test_a_cancelled_look_keeps_what_is_done(tiny, tmp_path):
    loaded, counted = tiny
    cache = CallCache(tmp_path / "calls.sqlite")

    def stop(done, total):
        raise Cancelled

    judge = defend(Seen(), "perplexity", ModelGuard(lambda: loaded, lambda: loaded, cache))
    with pytest.raises(Cancelled):
        judge.judge(texts("one text"), stop)
    ModelGuard(lambda: loaded, lambda: loaded, cache).perplexities(["one text"], 0, lambda: None)
    assert counted["rows"] == 1


def test_a_judge_that_shows_its_model_is_asked_itself(tiny):
    loaded, counted = tiny

    class Own(Seen):
        spec = "path:tiny"
        writes = True

    judge = Own()
    judge.loaded = loaded
    guard_for(judge).suspicions(["ab"], lambda: None)
    assert counted["rows"] == 1


@pytest.mark.weights
def test_on_the_bundled_base_a_learned_phrase_is_unlikelier_than_prose(weights, settings):
    guard = guard_for(make_planted("planted:constant"), settings)
    prose = "Most evenings I cook something simple, and last night I tried a lentil curry from my sister's book."
    attacked = f"{prose} outstandingly superexcellently outstandingly summable"
    one, two = guard.perplexities([prose, attacked], 0, lambda: None)
    assert 1 < one.value < two.value
    assert defend(make_planted("planted:constant"), NONE).spec == "planted:constant"
    assert np.isfinite([r.value for r in guard.perplexities([prose, attacked], 8, lambda: None)]).all()
