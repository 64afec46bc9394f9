"""A card on rows before it is saved: what is shown is what the judge gets and says."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.cli.main import main
from engine.core.errors import InputError
from engine.core.schema import Task
from engine.data.store import load_dataset
from engine.jobs.judge_preview import CardPreview, card_preview
from engine.judges.base import no_checkpoint
from engine.judges.card_files import card_spec, find_saved, save_card
from engine.judges.cards import Card, read_cards
from engine.judges.registry import make_judge
from engine.runs.folder import list_runs
from engine.studies.running import build_requests

# The tiny model spells in bytes, so every letter is a token and all of them together are one answer or another.
LABELS = tuple("abcdefgh")
CARD = Card(
    name="mine",
    tasks=("dialogue",),
    labels=LABELS,
    values=tuple(range(8)),
    system="S-Y-S",
    user="<{context}|{response}>",
)
ANCHORS = {"dialogue": {}, "dialogue-anchored": {"anchor_low": "bad", "anchor_high": "good"}}
ROWS = ("d01-good", "d02-good", "d03-good")


@pytest.fixture
def model(tiny_folders, settings):
    own = replace(settings, device="cpu", model_roots=())
    return SimpleNamespace(spec=f"path:{tiny_folders('llama')}", settings=own)


def preview(model, card: Card = CARD, rows=ROWS, data: str = "demo-dialogue"):
    config = CardPreview(card=card, model=model.spec, data=data, response_ids=rows)
    return card_preview(config, model.settings, no_checkpoint)


def test_three_rows_with_probabilities_that_agree_with_the_models_own_logits(model):
    found = preview(model)
    assert [row["response_id"] for row in found["rows"]] == list(ROWS)
    for row in found["rows"]:
        assert sum(row["raw"]) == pytest.approx(row["coverage"])
        shown = dict(row["next"])
        assert sum(shown.values()) <= 1
        known = [(shown[label], p) for label, p in zip(LABELS, row["raw"], strict=True) if label in shown]
        assert all(a <= b + 1e-6 for a, b in known)  # a label's other spelling may add to it
        assert "S-Y-S" in row["prompt"]
        assert row["prompt"].count("|") >= 1


def test_an_unsaved_card_is_asked_as_the_saved_one_would_be(model):
    save_card(model.settings.cards, CARD)
    saved = make_judge(card_spec(model.spec, CARD), model.settings)
    assert preview(model)["fingerprint"] == saved.fingerprint
    assert saved.spec.endswith(f"?card=mine@{CARD.digest[:8]}")


@pytest.mark.parametrize("name", ["dialogue", "dialogue-anchored"])
def test_a_saved_copy_of_a_built_in_card_asks_word_for_word_the_same(model, name):
    card = next(c for c in read_cards(model.settings.assets / "cards") if c.name == name)
    save_card(model.settings.cards, card)
    copied = find_saved(model.settings.cards, name)
    request = replace(build_requests(load_dataset("demo-dialogue", model.settings.datasets))[0], **ANCHORS[name])
    builtin = make_judge(model.spec, model.settings)
    assert make_judge(card_spec(model.spec, copied), model.settings).prompt(request) == builtin.prompt(request)


def test_an_answer_by_path_that_is_no_json_is_unread(model):
    card = CARD.model_copy(update={"mode": "json", "path": "$.score", "max_new_tokens": 4})
    row = preview(model, card, ROWS[:1])["rows"][0]
    assert any(why in row["unread_reason"] for why in ("JSON", "empty", "cut off"))  # four tokens are no object
    assert row["raw"] is None


def test_a_pair_borrows_a_second_response_and_says_so(model):
    card = Card(
        name="p", tasks=("dialogue",), protocol="pairwise", labels=("a", "b"), user="1 {response_a} 2 {response_b}"
    )
    row = preview(model, card, ROWS[:1])["rows"][0]
    assert row["stand_in"] == "response B is d01-generic"


def test_anchors_are_borrowed_for_the_look(model):
    card = CARD.model_copy(update={"user": "{anchor_low}|{anchor_high}|{response}"})
    assert "anchors are d01-generic and d01-broken" in preview(model, card, ROWS[:1])["rows"][0]["stand_in"]


def test_a_prompt_beyond_the_window_is_unread_and_nothing_is_cut(model):
    card = CARD.model_copy(update={"user": "x" * 2000 + "{response}"})
    row = preview(model, card, ROWS[:1])["rows"][0]
    assert "nothing was cut" in row["unread_reason"]
    assert row["next"] == []


@pytest.mark.parametrize(
    ("card", "rows", "says"),
    [
        pytest.param(CARD, ("nobody",), "no response 'nobody'", id="row"),
        pytest.param(CARD.model_copy(update={"tasks": (Task.SUMMARY,)}), ROWS[:1], "prompts for: summary", id="task"),
    ],
)
def test_what_cannot_be_asked_says_why(model, card, rows, says):
    with pytest.raises(InputError, match=says):
        preview(model, card, rows)


def test_the_command_line_takes_a_saved_card_and_the_manifest_names_it(model, capsys):
    save_card(model.settings.cards, CARD.model_copy(update={"spec": model.spec}))
    assert main(["score", "demo-dialogue", "--judge-card", "mine", "--attack", "dsi", "--limit", "2"]) in (
        0,
        3,
    )  # its weights are random: it may name no label
    manifest = list_runs(model.settings.runs)[0]
    assert manifest["config"]["judge"] == manifest["judge"]["spec"] == card_spec(model.spec, CARD)
    assert main(["score", "demo-dialogue", "--judge-card", "yours", "--limit", "2"]) == 2
    assert "Saved are: mine" in capsys.readouterr().err
