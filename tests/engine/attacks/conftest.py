"""A tiny random judge behind the bundled tokenizer, so that words are tokens as they are in a real one."""

from __future__ import annotations

import pytest
import torch
import transformers

from engine.core.settings import get_settings
from engine.inference.loading import LoadedModel
from engine.judges.cards import read_cards
from engine.judges.kinds import PairwiseReader, PointwiseReader
from engine.judges.labelled import CardJudge


@pytest.fixture(scope="session")
def wordy() -> LoadedModel:
    """A random Llama of 32 dimensions with the bundled judge's tokenizer."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(get_settings().assets / "judge")
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=len(tokenizer),
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
        parameter.requires_grad_(False)
    return LoadedModel("path:wordy", model, tokenizer, "cpu", "float32", "wordy-float32", 1024)


@pytest.fixture(scope="session")
def wordy_judge(wordy):
    """The same as a judge, with the built-in cards; a random model's answers hold little probability."""
    cards = read_cards(get_settings().assets / "cards")
    return CardJudge(wordy, cards, [PointwiseReader(), PairwiseReader()], min_coverage=0.0)


@pytest.fixture
def any_coverage(monkeypatch):
    """The search reads answers however little probability they hold."""
    monkeypatch.setattr("engine.attacks.suffix_search.MIN_COVERAGE", 0.0)
