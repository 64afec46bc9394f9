"""Trust: the recorded demo, the labels slider, own files and runs, and the numbers of an independent computation."""

from __future__ import annotations

from tests.dashboard.test_pages import go, html_of

PAGE = "pages/trust/page.py"


def test_it_opens_on_the_demo(app):
    at = go(app, PAGE)
    print(html_of(at)[-3000:])
    for tab in ("Systems and groups", "Calibration", "Keep or send", "Labels needed"):
        at.query_params["trust_tab"] = tab
        at.run()
        assert not at.exception, at.exception
        print(tab, len(at.get("plotly_chart")), html_of(at)[-1500:])
