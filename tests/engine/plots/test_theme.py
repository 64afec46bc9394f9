"""Colours that stay apart for every eye, numbers as they should read, labels that cannot act."""

import itertools
import math
import subprocess
import sys

import numpy as np
import plotly.graph_objects as go
import pytest

from engine.plots import text
from engine.plots.theme import MEANING, MODES, PALETTE, ROLES, frame, restyle, swap_table, template, with_note
from engine.stats import intervals

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
APART = 0.07  # OKLab; about three times a just noticeable difference (0.02)
READABLE = 3.0  # WCAG 1.4.11 for graphical objects


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def oklab(rgb):
    lms = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(lab) @ np.cbrt(np.array(lms) @ np.clip(rgb, 0, 1))


def contrast(a, b):
    high, low = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_ten_colours_stay_apart(mode, vision):
    seen = [oklab(np.array(VISIONS[vision]) @ linear(c)) for c in PALETTE[mode]]
    closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert len(seen) == 10
    assert closest >= APART


def test_the_colour_check_can_fail():
    """Plotly's own ten do not pass it, so the threshold is no formality."""
    default = ["#636efa", "#ef553b", "#00cc96", "#ab63fa", "#ffa15a", "#19d3f3", "#ff6692", "#b6e880", "#ff97ff"]
    seen = [oklab(np.array(VISIONS["deuteranopia"]) @ linear(c)) for c in default]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) < APART


@pytest.mark.parametrize("mode", MODES)
def test_colours_show_on_the_page(mode):
    page = ROLES[mode]["background"]
    assert min(contrast(c, page) for c in PALETTE[mode]) >= READABLE
    for role in ("ink", "muted"):
        assert contrast(ROLES[mode][role], page) >= 4.5
    for fill in ("below", "zero", "above", "blank"):  # numbers stand on these
        assert contrast(ROLES[mode]["ink"], ROLES[mode][fill]) >= 4.5
    if mode == "light":
        assert min(contrast(c, "#fafafa") for c in PALETTE[mode]) >= 2.9


def test_meanings_are_distinct_and_named():
    assert list(MEANING["light"]) == ["clean", "attacked", "defended", "human", "unread", "high", "low"]
    assert len(set(MEANING["dark"].values())) == 7


def test_each_colour_has_one_role_in_all_modes():
    """Otherwise restyling would have to guess."""
    role_of = {}
    for mode in MODES:
        named = {f"c{i}": c for i, c in enumerate(PALETTE[mode])} | ROLES[mode]
        assert len(set(named.values())) == len(named)
        for role, colour in named.items():
            assert role_of.setdefault(colour, role) == role
    assert set(swap_table("print").values()) <= set(PALETTE["print"]) | set(ROLES["print"].values())


def test_restyle_exchanges_colours_and_leaves_data():
    dark = MEANING["dark"]["attacked"]
    fig = go.Figure(go.Scatter(x=[dark], y=[1], name=dark, marker={"color": dark, "line": {"color": [dark, "red"]}}))
    fig.update_layout(template=template("dark"), title="kept")
    out = restyle(fig, "print")
    assert out.data[0].marker.color == MEANING["print"]["attacked"]
    assert list(out.data[0].marker.line.color) == [MEANING["print"]["attacked"], "red"]
    assert out.data[0].name == dark
    assert out.data[0].x[0] == dark
    assert out.layout.template.layout.paper_bgcolor == "#ffffff"
    assert out.layout.title.text == "kept"
    assert fig.data[0].marker.color == dark


def test_importing_changes_no_global_state_and_stays_light():
    code = (
        "import plotly.io as pio, sys; before = pio.templates.default, list(pio.templates);"
        "import engine.plots.shifts, engine.plots.export, engine.stats.shifts, engine.judges.planted;"
        "assert (pio.templates.default, list(pio.templates)) == before;"
        "assert not {'torch', 'transformers', 'streamlit', 'kaleido'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


N = text.THIN


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.51234, "0.512"),
        (2.9, "2.90"),
        (-0.5, "−0.500"),
        (0, "0"),
        (-0.0, "0"),
        (0.99951, "1.00"),
        (12.345, "12.3"),
        (1234, f"1{N}230"),
        (0.00012345, "0.000123"),
        (0.0000123, f"1.23{N}×{N}10⁻⁵"),
        (-2.5e9, f"−2.50{N}×{N}10⁹"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_three_digits(x, expected):
    assert text.three_digits(x) == expected


def test_signs():
    assert text.three_digits(0.5, signed=True) == "+0.500"
    assert text.three_digits(0, signed=True) == "0"
    assert text.fixed(-0.0004, 3, signed=True) == "0.000"  # no sign on what rounds to nothing
    assert text.count(12345) == f"12{N}345"


@pytest.mark.parametrize(
    ("args", "options", "expected"),
    [
        ((0.512, 0.382, 0.661), {"signed": True}, "+0.512 [0.382, 0.661]"),
        ((0.0823, -0.00123, 0.166), {}, "0.082 [−0.001, 0.166]"),
        ((17.24, 12.08, 22.3), {"signed": True, "unit": "%"}, f"+17.2{N}% [12.1, 22.3]"),
        ((0.0, math.nan, math.nan), {"method": "no variation", "n_clusters": 12}, "0 (no variation in 12 items)"),
        ((0.4, math.nan, math.nan), {"method": "no interval: one item"}, "0.400 (one item, no interval)"),
        ((math.nan, math.nan, math.nan), {"method": "no data"}, "–"),
    ],
)
def test_interval_text(args, options, expected):
    assert text.interval_text(*args, **options) == expected


def test_reasons_are_those_of_the_metrics():
    assert (text.NO_VARIATION, text.ONE_CLUSTER) == (intervals.NO_VARIATION, intervals.ONE_CLUSTER)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param('<a href="x">b</a>', '&lt;a href="x"&gt;b&lt;/a&gt;', id="tags"),
        pytest.param("&lt;b&gt;", "&amp;lt;b&amp;gt;", id="entities"),
        pytest.param("a\n\tb\u202ec\x00", "a b c", id="control-and-bidi"),
        pytest.param("x" * 40, "x" * 23 + "…", id="long"),
        pytest.param("<" * 30, "&lt;" * 23 + "…", id="cut-before-escaping"),
        pytest.param(None, "–", id="none"),
        pytest.param(math.nan, "–", id="nan"),
        pytest.param("  ", "–", id="blank"),
    ],
)
def test_labels_are_inert_and_short(raw, expected):
    assert text.label(raw) == expected


def test_small_print_fits_a_phone_and_breaks_between_parts():
    lines = text.small_print("95 % intervals (t, clustered by item)", "", "n = 48 responses of 12 items", "recorded")
    assert lines == ["95 % intervals (t, clustered by item)", "n = 48 responses of 12 items · recorded"]


@pytest.mark.parametrize(
    "note", ["", "recorded", "a note of its own, so long that the small print needs a line more for it"]
)
def test_a_note_added_later_stands_where_one_given_at_once_would(note):
    parts = ("95 % intervals", "n = 12 responses of 4 items")
    later, at_once = (
        frame(go.Figure(), "light", title="Which?", notes=given, alt="none", body=200)
        for given in (parts, (*parts, note))
    )
    assert with_note(later, note).to_plotly_json() == at_once.to_plotly_json()
