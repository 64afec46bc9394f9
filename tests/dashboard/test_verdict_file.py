"""A file of verdicts on the Data page: read, counted, measured."""

PAIRS = """prompt,comparison_id,order,outcome
X,c1,ab,a
X,c1,ba,b
X,c2,ab,a
X,c2,ba,a
X,c3,ab,a
X,c3,ba,maybe
Y,c1,ab,b
Y,c1,ba,b
"""


def html_of(at) -> str:
    return "\n".join(e.proto.body for e in at.get("html"))


def opened(app, text: str):
    at = app.switch_page("pages/data/page.py").run()
    at.get_by_key("verdict_file").upload("verdicts.csv", text.encode(), "text/csv").run()
    assert not at.exception, at.exception
    return at


def test_a_file_of_two_judges_asks_which_one_and_then_measures(app):
    at = opened(app, PAIRS)
    assert "cannot be read as they are" in html_of(at)  # two verdicts on one call
    at.get_by_key("verdict_columns").set_value(["prompt"]).run()
    at.get_by_key("verdict_value_prompt").set_value("X").run()
    assert not at.exception, at.exception
    said = html_of(at)
    assert "5 of 6 verdicts can be read; 1 unread, 0 left out." in said
    assert "Prefers the response shown first" in said
    assert "n = 5, 1 unread" in said


def test_scores_with_an_attack_give_a_shift_and_a_figure(app):
    rows = ["response_id,item_id,attack,score"]
    rows += [f"r{i},i{i},{a},{2 + i % 2 + (a == 'dsi')}" for i in range(6) for a in ("none", "dsi")]
    at = opened(app, "\n".join(rows))
    assert "Shift of the score (dsi, none): 1" in html_of(at)
    assert len(at.get("plotly_chart")) == 1


def test_a_file_that_is_no_verdicts_is_explained(app):
    at = opened(app, "name,colour\na,red\nb,blue\n")
    assert "cannot be read as they are" in html_of(at)
