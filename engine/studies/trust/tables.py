"""Tables of the study `trust`."""

from __future__ import annotations

from engine.core.schema import Column, Table

RAW, CORRECTED, LABELS_ONLY, ROGAN = "raw", "corrected", "labels_only", "rogan_gladen"
ESTIMATES = (RAW, CORRECTED, LABELS_ONLY, ROGAN)
AS_SAID = "as the judge says it"
"""Calibration before any recalibration."""
SCOPES = ("all", "system", "group", "difference")

TRUST = Table(
    "trust",
    (
        Column("estimate", "str", "which number", allowed=ESTIMATES),
        Column("scope", "str", "of all rows, of a system, of a group, or first less second system", allowed=SCOPES),
        Column("name", "str", "which system, group or two systems; missing for all rows", required=False),
        Column("value", "float", "share of passes or of wins, ties half, or mean score (NaN: undefined)"),
        Column("lower", "float", "lower end of the interval", required=False),
        Column("upper", "float", "upper end of the interval", required=False),
        Column("level", "float", "confidence level in (0, 1)"),
        Column("method", "str", "how the interval was made, or why there is no number"),
        Column("n", "int", "rows that entered"),
        Column("n_labels", "int", "labelled rows that entered"),
        Column("n_items", "int", "items that entered"),
        Column("error", "float", "standard error", required=False),
        Column("labels_saved", "float", "further labels that labels alone would need (corrected only)", required=False),
        Column("n_unread", "int", "rows of it without a verdict", required=False),
    ),
)

CONFUSION = Table(
    "trust_confusion",
    (
        Column("verdict", "str", "what the judge said"),
        Column("label", "str", "what people said"),
        Column("n", "int", "labelled rows"),
        Column("share", "float", "of all rows with this label, by their chances, in [0, 1]"),
    ),
)

CALIBRATION = Table(
    "trust_calibration",
    (
        Column("method", "str", "as the judge said it, or recalibrated on other items"),
        Column("bin", "int", "ascending"),
        Column("predicted", "float", "mean prediction of its labelled rows"),
        Column("observed", "float", "their mean label"),
        Column("lower", "float", "lower end of its interval", required=False),
        Column("upper", "float", "upper end", required=False),
        Column("n", "int", "labelled rows"),
    ),
)

SELECTION = Table(
    "trust_selection",
    (
        Column("threshold", "float", "least confidence of a verdict that is kept"),
        Column("kept", "float", "share of all rows that are kept, in [0, 1]"),
        Column("n_kept", "int", "rows kept"),
        Column("n_labels", "int", "labelled rows among them, one of each item"),
        Column("errors", "int", "of these, on which judge and people differ"),
        Column("error", "float", "their share (NaN: none is labelled)"),
        Column("upper", "float", "Clopper and Pearson's upper bound of it"),
        Column("passes", "int", "1 where the bound holds here and at every stricter threshold tested"),
        Column("tested", "int", "1 where it is in the fixed sequence"),
        Column("chosen", "int", "1 for the threshold that is chosen"),
    ),
)

NEEDED = Table(
    "trust_needed",
    (
        Column("half", "float", "half width of the interval, in the unit of the labels"),
        Column("before", "float", "labels in the worst case, before any row is labelled (shares only)", required=False),
        Column("assumed", "float", "the same with a judge that agrees with people as often as assumed", required=False),
        Column("labels_only", "float", "labels without the judge, by what the labels show", required=False),
        Column("with_judge", "float", "labels with it (NaN: these rows cannot do it)", required=False),
        Column("reason", "str", "why there is no number", required=False),
    ),
)

ATTACKED = Table(
    "trust_attacked",
    (
        Column(
            "case",
            "str",
            "rows without a label are attacked after the labels, or all alike",
            allowed=("after", "alike"),
        ),
        Column("share", "float", "of the rows that are attacked, in [0, 1]"),
        Column("estimate", "str", "which number", allowed=ESTIMATES),
        Column("value", "float", "as in the table trust (NaN: undefined)"),
        Column("lower", "float", "lower end of the interval", required=False),
        Column("upper", "float", "upper end", required=False),
        Column("level", "float", "confidence level in (0, 1)"),
        Column("method", "str", "how the interval was made, or why there is no number"),
        Column("n", "int", "rows that entered"),
        Column("n_labels", "int", "labelled rows that entered"),
        Column("moved", "float", "value less the one without attack", required=False),
        Column("expected", "float", "the same in a population with these rates", required=False),
    ),
)

NOTICED = Table(
    "trust_noticed",
    (
        Column("test", "str", "of verdicts, labelled against unlabelled rows, or of fresh labels"),
        Column("labels", "int", "labelled rows, or rows labelled afresh"),
        Column("share", "float", "of the rows that are attacked, in [0, 1]"),
        Column("power", "float", "chance that the test finds it, in [0, 1]", required=False),
    ),
)
