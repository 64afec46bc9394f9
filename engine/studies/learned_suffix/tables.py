"""The table of the study `learned_suffix`: every word that was tried, step by step."""

from __future__ import annotations

from engine.core.schema import Column, Table

SUFFIX_SEARCH = Table(
    "suffix_search",
    (
        Column("step", "int", "which word of the phrase, from 1; 0 is the prompts without a phrase"),
        Column("word", "str", "the candidate", required=False),
        Column("value", "float", "mean objective on the training prompts (NaN: one was unread)", required=False),
        Column("n_unread", "int", "training prompts whose answer tokens held too little probability"),
        Column("queries", "int", "forward passes up to and with this round, a gradient counted as three"),
        Column("chosen", "int", "1 where the candidate became the word of its step, else 0"),
    ),
)
