"""What a page costs when nothing on it has changed: figures of finished runs and lists are not made anew."""

from __future__ import annotations

from dashboard import measured
from dashboard.pages.start.glance import TILES
from engine.judges import registry
from engine.runs import folder as runs
from engine.studies.figure import FigureSpec
from tests.dashboard.test_pages import PAGES, go, html_of


def counted(monkeypatch, owner, name: str) -> list[object]:
    """Calls of a function from now on."""
    calls: list[object] = []
    plain = getattr(owner, name)

    def counting(*args, **kwargs):
        calls.append(args)
        return plain(*args, **kwargs)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_figures_of_a_finished_run_are_drawn_once_for_each_choice(app, monkeypatch):
    drawn = counted(monkeypatch, FigureSpec, "plot")
    at = go(app, PAGES[2], judge="bundled:judge", tab="Whole set")
    assert len(at.get("plotly_chart")) == len(drawn) == 2
    specs = [chart.proto.spec for chart in at.get("plotly_chart")]
    at.run()
    assert len(drawn) == 2
    assert [chart.proto.spec for chart in at.get("plotly_chart")] == specs
    at.selectbox(key="arm").select("bed|none").run()
    assert len(drawn) == 3  # the figure about one arm
    assert at.get("plotly_chart")[1].proto.spec != specs[1]


def test_the_start_page_lists_runs_once_and_the_rail_judges_once_for_each_protocol(app, monkeypatch):
    at = go(app, PAGES[0])
    listed, judges = counted(monkeypatch, runs, "list_runs"), counted(monkeypatch, registry, "list_recordings")
    at.run()
    assert html_of(at).count('class="js-tile"') == len(TILES)
    assert len(listed) == 1
    assert len(judges) <= 12
    assert measured.own_runs() == []
