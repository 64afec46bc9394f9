"""The table of the study `perplexity_threshold`: one reading for each text."""

from __future__ import annotations

from engine.core.schema import Column, Table

READINGS = Table(
    "readings",
    (
        Column("screen", "str", "what was read: perplexity, with its window where it has one"),
        Column("response_id", "str", "the response"),
        Column("item_id", "str", "the item it answers"),
        Column("attack", "str", "attack on the response, or none"),
        Column("family", "str", "suffix or prompt; none for a clean response", allowed=("none", "suffix", "prompt")),
        Column("split", "str", "train fits the threshold, test measures it", allowed=("train", "test")),
        Column("value", "float", "the reading (NaN: the text has none)", required=False),
        Column("unread_reason", "str", "why there is no reading", required=False),
    ),
)
