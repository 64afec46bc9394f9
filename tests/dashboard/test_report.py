"""The Report page: what is picked is there, in order, saved, and comes back when it was taken out."""

import json

import pytest

from dashboard import report_picks
from engine.core.errors import InputError
from engine.report.basket import Piece, Report, load_report
from tests.dashboard.helpers import MARKUP, PLANTED

PAGE, LAB = "pages/report/page.py", "pages/attack_lab/page.py"


def html_of(at) -> str:
    return "\n".join(e.proto.body for e in at.get("html"))


def go(app, page: str = PAGE, **query: str):
    for key, value in {"judge": PLANTED, **query}.items():
        app.query_params[key] = value
    app.switch_page(page).run()
    assert not app.exception, app.exception
    return app


def figure(entry: str = "keys", **settings) -> Piece:
    return Piece(kind="figure", title=entry, run="recorded:refswap/judge", entry=entry, settings=settings)


@pytest.fixture
def three(settings):
    """A saved report of two figures with a note between them."""
    pieces = (figure("keys", k=3), Piece(kind="note", text=MARKUP), figure("max_p_cf"))
    report_picks.change(lambda _: Report(title="Three parts", pieces=pieces))
    return pieces


def test_an_empty_report_says_what_to_do(app):
    at = go(app)
    assert "The report is empty" in html_of(at)
    assert next(m for m in at.multiselect if m.key.startswith("report_figures_recorded:")).options


def test_a_figure_of_a_page_is_picked_with_its_run_and_is_there(app, settings):
    app.session_state["measured_set"] = True
    at = go(app, LAB, judge="bundled:judge", tab="Whole set")
    at.button(key="set_forest_add").click().run()
    assert not at.exception, at.exception
    assert at.button(key="set_forest_add").label == "In the report"
    assert at.button(key="set_forest_add").disabled
    piece = load_report(settings.data_dir).pieces[0]
    assert (piece.run, piece.entry, piece.settings["metric"]) == ("recorded:dialogue/run", "forest", "shift")
    at.switch_page(PAGE).run()
    assert "1 figure in this report" in html_of(at)
    assert "n = 48 responses of 12 items" in at.text_area[0].value


def test_a_live_figure_is_kept_as_it_is_drawn(app, settings):
    app.query_params["attack"] = "dsi"
    at = go(app, LAB)
    button = next(b for b in at.button if b.key.endswith("_add") and b.label == "Add to report")
    button.click().run()
    kept = load_report(settings.data_dir).pieces[0]
    assert kept.drawn is not None
    assert kept.run == ""
    at.switch_page(PAGE).run()
    assert "not made from a run folder" in html_of(at)


def test_parts_move_and_what_is_taken_out_comes_back(app, settings, three):
    at = go(app)
    at.button(key=f"report_up_{three[2].piece_id}").click().run()
    assert [p.piece_id for p in load_report(settings.data_dir).pieces] == [three[i].piece_id for i in (0, 2, 1)]
    at.button(key=f"report_remove_{three[0].piece_id}").click().run()
    assert len(load_report(settings.data_dir).pieces) == 2
    at.button(key="report_put_back").click().run()
    assert load_report(settings.data_dir).pieces[0] == three[0]
    assert not [b for b in at.button if b.key == "report_put_back"]
    assert at.button(key=f"report_up_{three[0].piece_id}").disabled


def test_a_caption_is_the_users_until_it_is_emptied(app, settings, three):
    at = go(app)
    own = at.text_area(key=f"report_text_{three[0].piece_id}").value
    assert "K: 3" in own
    at.text_area(key=f"report_text_{three[0].piece_id}").input(f"Mine. {MARKUP}").run()
    assert load_report(settings.data_dir).pieces[0].text == f"Mine. {MARKUP}"
    at.text_area(key=f"report_text_{three[0].piece_id}").input("").run()
    assert load_report(settings.data_dir).pieces[0].text == ""


def test_title_and_authors_are_saved(app, settings, three):
    at = go(app)
    at.text_input(key="report_authors").input("N. N.").run()
    report = load_report(settings.data_dir)
    assert (report.title, report.authors) == ("Three parts", "N. N.")


def test_the_preview_shows_figures_and_tables_and_no_markup_acts(app, three):
    report_picks.change(lambda r: r.changed(three[2].piece_id, show="both", text=MARKUP))
    at = go(app, report_tab="Preview")
    assert len(at.get("plotly_chart")) == 2
    assert len(at.dataframe) == 1
    page = html_of(at)
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;window.hit=1&lt;/script&gt;") == 2
    for element in (*at.markdown, *at.caption):
        assert "onerror" not in element.value


def test_downloads_are_offered_and_a_lost_run_is_named(app, three):
    report_picks.change(lambda r: r.added(Piece(kind="figure", title="Gone", run="score-gone", entry="forest")))
    at = go(app, report_tab="Download")
    keys = {e.proto.id.rsplit("-", 1)[-1] for e in at.get("download_button")}
    assert {"report_html", "report_data", "report_scripts", "report_everything"} <= keys
    assert "“Gone”, is left out: There is no run" in html_of(at)


def test_figures_of_a_run_are_taken_together(app, settings):
    at = go(app)
    at.selectbox(key="report_run").select("recorded:refswap/judge").run()
    at.multiselect(key="report_figures_recorded:refswap/judge").select("keys").select("roc").run()
    at.button(key="report_take_add").click().run()
    assert not at.exception, at.exception
    assert [p.entry for p in load_report(settings.data_dir).pieces] == ["keys", "roc"]
    assert load_report(settings.data_dir).pieces[0].settings["k"] == 5


def test_a_damaged_report_is_explained_and_other_pages_stay(app, settings):
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    (settings.data_dir / "report.json").write_text("{")
    app.session_state["measured_set"] = True
    at = go(app, LAB, judge="bundled:judge", tab="Whole set")
    at.button(key="set_forest_add").click().run()
    assert not at.exception
    assert "report.json" in at.toast[0].value.replace("\\", "")
    at.switch_page(PAGE).run()
    assert "The report cannot be opened" in html_of(at)
    assert (settings.data_dir / "report.json").read_text() == "{"


def test_settings_travel_as_they_are(settings):
    piece = figure("max_p_cf", k=3, gamma=0.03, arm="same")
    report_picks.change(lambda r: r.added(piece))
    kept = load_report(settings.data_dir).pieces[0].settings
    assert kept == {"k": 3, "gamma": 0.03, "arm": "same"}
    assert isinstance(kept["k"], int)
    stored = json.loads((settings.data_dir / "report.json").read_text())
    assert stored["pieces"][0]["run"] == "recorded:refswap/judge"
    with pytest.raises(InputError):
        report_picks.change(lambda r: r.without("nothing"))


@pytest.mark.parametrize(
    ("page", "query", "key", "title", "about"),
    [
        (
            "pages/runs/page.py",
            {"selected": "recorded:dialogue/run"},
            "run_metrics",
            "Metrics of the run",
            "dialogue/run",
        ),
        ("pages/checkup/page.py", {}, "checkup_table", "Everything the check-up tried", "Demo: 90 pairs"),
        (
            LAB,
            {"judge": "bundled:judge", "tab": "Whole set"},
            "records",
            "Responses by size of shift",
            "recorded:dialogue/run",
        ),
    ],
)
def test_a_table_without_a_figure_is_taken_into_the_report_once(app, settings, page, query, key, title, about):
    app.session_state["measured_checkup"] = True  # its drawer holds the table
    at = go(app, page, **query)
    for _ in range(2):
        at.button(key=f"{key}_add").click().run()
        assert not at.exception, at.exception
    [piece] = load_report(settings.data_dir).pieces
    assert piece.kind == "table"
    assert piece.title.startswith(title)
    assert len(piece.drawn.rows) > 5
    at.switch_page(PAGE).run()
    assert "1 table in this report." in html_of(at)
    assert about in at.text_area[0].value
    assert not [c for c in at.get("button_group") if "report_show" in c.key]  # there is no figure to show instead
