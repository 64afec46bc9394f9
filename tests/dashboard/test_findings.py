"""Sentences say what the tables say, and never turn an unread verdict into a number."""

import pandas as pd
import pytest

from dashboard import findings
from dashboard.ui import marked_html
from engine.core.schema import METRICS


def metrics(*rows: tuple) -> pd.DataFrame:
    names = ["metric", "attack", "defense", "value", "lower", "upper", "n_unread"]
    frame = pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])
    return METRICS.conform(frame.assign(level=0.95, method="t, clustered by item", n=48, n_clusters=12))


RUN = metrics(
    ("mean", "none", "none", 2.9, 2.7, 3.1, 0),
    ("mean", "dsi", "none", 3.4, 3.2, 3.6, 0),
    ("shift", "dsi", "none", 0.5, 0.4, 0.6, 0),
    ("shift", "bed", "none", 0.03, -0.02, 0.08, 2),
    ("shift", "dsi", "sandwich", 0.2, 0.1, 0.3, 0),
    ("shift", "bed", "delimiters", 0.49, 0.42, 0.56, 0),
)


def test_the_headline_names_the_strongest_undefended_attack_with_interval_and_n():
    headline, rest = findings.run_sentences(RUN, "the bundled judge")
    assert headline == (
        "DSI raises the mean score of the bundled judge by 0.500 [0.400, 0.600], from 2.90 to 3.40, on 48 responses."
    )
    assert "BED: 0.030 [−0.020, 0.080]." in rest
    assert "Least of DSI is left behind sandwich: 0.200 [0.100, 0.300]." in rest
    assert "BED behind delimiters is stronger than undefended: 0.490 [0.420, 0.560]." in rest


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((0.03, -0.02, 0.08, 0), "does not measurably change the mean score (shift 0.030 [−0.020, 0.080])"),
        ((-0.4, -0.5, -0.3, 0), "lowers the mean score by 0.400 [0.300, 0.500]"),
        ((0.4, 0.3, 0.5, 3), "on 48 responses (3 left out as unread)"),
        ((float("nan"), float("nan"), float("nan"), 48), "no response has been read both ways yet"),
    ],
    ids=["unclear", "lowered", "unread", "nothing read"],
)
def test_an_arm_in_one_sentence(row, said):
    assert said in findings.arm_sentence(metrics(("shift", "dsi", "none", *row)), "dsi", "none")


def test_a_run_without_a_pair_says_so():
    assert "No response has been read" in findings.run_sentences(METRICS.empty(), "the judge")[0]
    assert findings.strongest_arm(METRICS.empty()) == ("none", "none")


def test_arms_that_lost_different_numbers_are_warned_about():
    assert "BED lost 2 responses" in findings.unread_warning(RUN)
    assert findings.unread_warning(RUN[RUN["n_unread"] == 0]) == ""


def verdict(score: float | None, reason: str = "") -> dict:
    return {"score": score, "unread_reason": reason}


@pytest.mark.parametrize(
    ("clean", "attacked", "attack", "defense", "said"),
    [
        (verdict(2.9), verdict(3.8), "dsi", "none", "DSI lifts this response from 2.90 to 3.80 of 5."),
        (
            verdict(3.8),
            verdict(2.9),
            "bed",
            "sandwich",
            "Behind sandwich: BED lowers this response from 3.80 to 2.90",
        ),
        (verdict(2.9), verdict(2.9), "dsi", "none", "DSI leaves this response at 2.90 of 5."),
        (verdict(2.9), verdict(2.9), "none", "none", "The judge gives this response 2.90 of 5."),
        (
            verdict(2.9),
            verdict(None, "coverage 0.31"),
            "dsi",
            "none",
            "No usable verdict with the attack: coverage 0.31.",
        ),
        (verdict(None, "too long"), verdict(3.0), "dsi", "none", "No usable verdict without the attack: too long."),
    ],
)
def test_one_response_in_one_sentence(clean, attacked, attack, defense, said):
    result = {"labels": list("12345"), "clean": clean, "attacked": attacked}
    assert findings.one_sentence(result, attack, defense).startswith(said)


@pytest.mark.parametrize(("seconds", "said"), [(0.2, "1 s"), (40, "40 s"), (170, "3 min"), (7500, "2 h 5 min")])
def test_durations(seconds, said):
    assert findings.duration(seconds) == said


def test_marked_text_is_escaped_piece_by_piece():
    shown = marked_html([("same", "<b>a</b> & "), ("added", '<script>"x"</script>'), ("removed", "</div>")], 'say "x"')
    assert "<b>" not in shown
    assert "<script" not in shown
    assert shown.count("</div>") == 1
    assert '<ins class="js-added">&lt;script&gt;' in shown


@pytest.mark.parametrize(("lower", "upper", "weak"), [(-1.0, -0.6, False), (-0.3, 0.3, True)])
def test_only_an_arm_that_shows_nothing_is_called_underpowered(lower, upper, weak):
    row = {"metric": "shift", "attack": "dsi", "defense": "none", "value": (lower + upper) / 2, "lower": lower}
    row |= {"upper": upper, "n": 9, "n_clusters": 9, "n_unread": 0, "method": "t", "q_value": 0.01, "detectable": 0.4}
    said = findings.arm_details(METRICS.conform(pd.DataFrame([row])), "dsi", "none")
    assert "could detect a shift of 0.400 (80 % power)" in said
    assert ("underpowered" in said) is weak
