"""Chain of thought: reasoning before the verdict, by the judge itself or by a writer for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.errors import InputError, ModelError
from engine.core.schema import Order, Protocol, Task
from engine.defenses.reasoning import ReasoningJudge, reasoning_prompt
from engine.defenses.registry import defend
from engine.defenses.writing import ModelWriter, Written
from engine.inference.chat import render_ids
from engine.inference.generation import generate
from engine.judges.base import Cost, Request, Verdict
from engine.judges.cards import CardBook, CardKey, read_cards
from engine.judges.kinds import PointwiseReader
from engine.judges.labelled import CardJudge
from tests.engine.defenses.seen import Seen

REQUEST = Request("i", "r", Task.DIALOGUE, "the context", "the response")


class Writer:
    def __init__(self, unread=""):
        self.asked, self.unread = [], unread

    def write(self, prompts, new_tokens, after_batch):
        self.asked += [(p, new_tokens) for p in prompts]
        return [Written("" if self.unread else "It is short.", 9, 4.0, 0.5, self.unread) for _ in prompts]

    def cost(self, prompts, new_tokens):
        return Cost(len(prompts), 7, 0)


def cot_card(settings, task=Task.DIALOGUE):
    return CardBook(read_cards(settings.assets / "cards")).find(CardKey(Protocol.POINTWISE, task, variant="cot"), "x")


def test_the_reasoning_is_read_between_the_response_and_the_score():
    judge, writer = Seen(), Writer()
    [verdict] = ReasoningJudge(judge, "cot", writer, 40).judge([REQUEST])
    [request] = judge.requests
    assert request.quoted("the response") == "the response\n\nAnalysis of the response:\nIt is short."
    assert (verdict.forward_passes, verdict.seconds) == (5.0, 0.75)
    [(prompt, tokens)] = writer.asked
    assert tokens == 40
    assert "the context" in prompt
    assert "the response" in prompt


def test_reasoning_sees_what_earlier_defenses_made_of_the_response():
    judge, writer = Seen(), Writer()
    ReasoningJudge(judge, "cot", writer).judge([defended_request()])
    assert "<<the response>>" in writer.asked[0][0]
    assert judge.requests[0].quoted("x").startswith("<<x>>\n\nAnalysis")


def defended_request():
    quote = replace(REQUEST.quote, opening="<<", closing=">>")
    return replace(REQUEST, quote=quote)


def test_reasoning_that_could_not_be_written_leaves_the_verdict_unread():
    judge = Seen()
    [verdict] = ReasoningJudge(judge, "cot", Writer("too long")).judge([REQUEST])
    assert verdict.unread_reason == "reasoning: too long"
    assert not judge.requests


def test_a_pair_is_refused():
    pair = replace(REQUEST, protocol=Protocol.PAIRWISE, order=Order.AB, response_b="b")
    with pytest.raises(InputError, match="one response at a time"):
        ReasoningJudge(Seen(), "cot", Writer()).judge([pair])


def test_the_last_rating_of_a_reply_counts_and_one_off_the_menu_is_unread(settings):
    card = cot_card(settings)
    read = PointwiseReader().from_text
    said = "The response claims Rating: 5. It is vague, though.\nRating: 2"
    assert read(REQUEST, card, said, Verdict()).score == 2.0
    assert read(REQUEST, card, "Clear and kind.\nRating: 3.5", Verdict()).score == 3.5
    assert read(REQUEST, card, "Rating: 4\nBut on second thought\nRating: 9", Verdict()).unread_reason
    assert "names no score" in read(REQUEST, card, "I like it.", Verdict()).unread_reason


def test_a_judge_with_a_model_of_its_own_reasons_itself(tiny, settings):
    judge = CardJudge(tiny("llama"), read_cards(settings.assets / "cards"), [PointwiseReader()])
    defended = defend(judge, "cot")
    assert "Think before you rate" in defended.prompt(REQUEST)
    short = cot_card(settings).model_copy(update={"max_new_tokens": 6})
    [verdict] = defend(CardJudge(tiny("llama"), [short], [PointwiseReader()]), "cot").judge(
        [replace(REQUEST, context="c")]
    )
    assert verdict.raw_text
    assert verdict.forward_passes >= 1
    assert verdict.read == (verdict.unread_reason == "")


def test_a_writer_writes_what_the_model_generates_once(tiny, tmp_path):
    from engine.core.cache import CallCache

    loaded, cache = tiny("llama"), CallCache(tmp_path / "c.sqlite")
    writer = ModelWriter(lambda: loaded, cache)
    first, second, other = writer.write(["hello", "hello", "you"], 5, lambda: None)
    [reply] = generate(loaded, [render_ids(loaded.tokenizer, "", "hello")], 5)
    assert first.text == second.text == reply.text.strip()
    assert first.passes == reply.tokens
    assert first.seconds > 0
    assert (second.passes, second.seconds, second.tokens) == (0, 0, 0)
    assert writer.cost(["hello", "new"], 5).calls == 1
    again = writer.write(["hello", "you"], 5, lambda: None)
    assert [w.text for w in again] == [first.text, other.text]
    assert all(w.seconds == 0 for w in again)


def test_a_prompt_longer_than_the_window_is_not_cut(tiny):
    [found] = ModelWriter(lambda: tiny("llama"), None).write(["x" * 600], 5, lambda: None)
    assert "nothing was cut" in found.unread


def test_a_writer_without_a_chat_template_is_named(save, tmp_path, settings):
    from engine.inference.loading import load_model

    folder = save(tmp_path / "plain", "llama", template="")
    writer = ModelWriter(lambda: load_model(f"path:{folder}", settings), None)
    with pytest.raises(ModelError, match="no chat template"):
        writer.write(["hello"], 3, lambda: None)


@pytest.mark.parametrize("task", [Task.DIALOGUE, Task.SUMMARY, Task.INSTRUCTION])
def test_no_grade_is_asked_for_before_the_verdict(task):
    prompt = reasoning_prompt(replace(REQUEST, task=task))
    assert "Do not give a grade" in prompt
    assert prompt.endswith("Analysis:")
