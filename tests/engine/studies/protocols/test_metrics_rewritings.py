from __future__ import annotations

import pandas as pd

from engine.core.schema import NONE
from engine.studies.protocols.metrics import content_checks


def test_kept_and_left_out_are_counted_by_style_and_a_text_with_two_reasons_counts_in_both():
    rows = [
        (NONE, "rules", 1, None, 1.0),
        ("prolixity", "rules", 1, None, 1.5),
        ("prolixity", "rules", 0, "numbers: 3 lost; names: Ann lost", 1.2),
        ("prolixity", "rules", 0, "numbers: 4 added", 2.0),
        ("neutral", "bundled:base", 0, "the text did not change", 1.0),
    ]
    variants = pd.DataFrame(rows, columns=["style", "rewriter", "kept", "reasons", "length_ratio"])
    found = content_checks(variants).set_index("style")
    assert list(found.index) == ["prolixity", "neutral"]
    assert found.loc["prolixity", ["n", "kept"]].tolist() == [3, 1]
    assert found.loc["prolixity", "length_ratio"] == 1.5
    assert found.loc["prolixity", "left_out"] == "numbers: 2; names: 1"
    assert found.loc["neutral", "left_out"] == "the text did not change: 1"
    assert content_checks(variants[:1]).empty
