"""Effects at a glance: each row on its own axis, null and guess where they belong, unmeasured rows said to be so."""

from __future__ import annotations

import math

import pytest

from engine.plots.glance import NOT_RUN, GlanceRow, plot_glance, prepare_glance

NAN = math.nan
SHIFT = GlanceRow("Shift <b>", 0.5, 0.25, 0.75, "points", -1, 1, 0, "no change", method="t", n=48, n_clusters=12)
RATE = GlanceRow("First slot", 43.3, 34.1, 52.6, "%", 0, 100, 50, "half", n=240)
NONE = GlanceRow("Keys", 0.0, 0.0, 1.2, "%", 0, 100, 0, "none", n=319, n_unread=3)
UNRUN = GlanceRow("Flips", NAN, NAN, NAN, "%", 0, 100, 0, "none")


def test_rows_with_different_units_share_one_width():
    fig = plot_glance(prepare_glance([SHIFT, RATE]), title="?")
    assert [trace.x[0] for trace in fig.data] == pytest.approx([0.75, 0.433])
    ends = [(t.x[0] - t.error_x.arrayminus[0], t.x[0] + t.error_x.array[0]) for t in fig.data]
    assert ends[0] == pytest.approx((0.625, 0.875))
    assert ends[1] == pytest.approx((0.341, 0.526))
    nulls = [s.x0 for s in fig.layout.shapes if s.x0 == s.x1]
    assert nulls == [0.5, 0.5]


def test_no_event_is_said_with_its_bound_and_an_unrun_row_has_no_point():
    fig = plot_glance(prepare_glance([NONE, UNRUN]), title="?")
    words = [a.text for a in fig.layout.annotations]
    assert any("0 of 319, at most 1.2" in text for text in words)
    assert NOT_RUN in words
    assert len(fig.data) == 1
    assert "3 verdicts unread" in fig.layout.meta["notes"]


@pytest.mark.parametrize("guess", [-3.0, 0.2, 5.0])
def test_a_guess_outside_the_axis_widens_it(guess):
    fig = plot_glance(prepare_glance([GlanceRow(**{**SHIFT.__dict__, "guess": guess})]), title="?")
    effect, marked = (trace.x[0] for trace in fig.data)
    assert 0 <= marked <= 1
    assert (marked > effect) == (guess > 0.5)


def test_names_are_inert_and_the_alt_text_has_the_numbers():
    fig = plot_glance(prepare_glance([SHIFT]), title="What?", note="<i>")
    assert "&lt;b&gt;" in fig.layout.annotations[0].text
    assert fig.layout.meta["alt"].startswith("What? Shift <b>: +0.500 [0.250, 0.750]")
    assert "&lt;i&gt;" in fig.layout.title.subtitle.text


def test_nothing_measured_draws_a_sentence():
    assert "nothing has been measured" in plot_glance(prepare_glance([]), title="?").layout.annotations[0].text
