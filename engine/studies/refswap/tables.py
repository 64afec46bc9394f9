"""Tables of the study `refswap`: what was asked about, and every reference it was asked under."""

from __future__ import annotations

from engine.core.schema import Column, Table

SAMPLES = Table(
    "samples",
    (
        Column("item_id", "str", "the item asked about"),
        Column("response_id", "str", "the response, or the item's id with -key where a master key stands for it"),
        Column("attack", "str", "the master key, or none"),
        Column("right", "int", "1 where YES is the right verdict, 0 where it is not, -1 where nobody says"),
        Column("length", "int", "characters of the response"),
        Column("dev", "int", "1 in the part that thresholds are calibrated on, else 0"),
    ),
)

REFERENCES = Table(
    "references",
    (
        Column("item_id", "str", "the item whose reference is swapped"),
        Column("reference_id", "str", "arm and place in the nested draw, for example other-1"),
        Column("arm", "str", "answer type against the true reference's", allowed=("true", "other", "same")),
        Column("reference", "str", "the reference answer, verbatim", required=False),
        Column("answer_type", "str", "numeric, expression, multiple_choice or string"),
    ),
)
