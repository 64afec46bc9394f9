"""The page Label through the entry file: keys' buttons, blindness, undo after a reload, two people, use of labels."""

from __future__ import annotations

import html
import io
import re

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import state
from engine.data.comparisons import DEMO_PAIRS, load_comparisons
from engine.data.label_plan import Kind, Scale, make_plan
from engine.data.labels import export_table, list_plans, open_session, save_plan
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.runs.labelling import population
from tests.dashboard.helpers import MARKUP
from tests.dashboard.test_pages import go, html_of

PAGE = "pages/labelling/page.py"


def session_on(settings, data, data_id: str, n: int = 3, kind: Kind = Kind.PASS):
    rows = population(data, Scale(kind))
    return save_plan(make_plan(rows, data=data_id, scale=Scale(kind), n=n, question="Good?"), settings.labels)


@pytest.fixture
def three(settings, saved):
    """Three rows of the marked-up data set to pass or fail."""
    return session_on(settings, saved, saved.dataset_id)


def page(app, held, who: str = "Ann") -> AppTest:
    return go(app, PAGE, data=held.plan.data, labels=held.plan.plan_id, annotator=who)


def press(at: AppTest, label: str) -> AppTest:
    next(b for b in at.button if b.label == label).click().run()
    assert not at.exception, at.exception
    return at


def test_a_plan_is_made_and_labelled_without_showing_system_judge_or_verdict(app, settings):
    at = go(app, PAGE, data=DEMO_DIALOGUE)
    at.text_input(key="label_name").input("Ann").run()
    at.number_input(key=f"label_rows_{DEMO_DIALOGUE}").set_value(10).run()
    at.pills(key="label_by").set_value(["uncertainty"]).run()
    assert at.dataframe[0].value["drawn"].sum() == 10
    press(at, "Start labelling")
    [about] = list_plans(settings.labels, DEMO_DIALOGUE)
    held = open_session(about["plan_id"], settings.labels)
    assert held.plan.by == ("uncertainty",)
    assert held.plan.runs
    demo = load_dataset(DEMO_DIALOGUE, settings.datasets).responses.set_index("response_id")
    first = held.plan.order[0]
    shown = re.sub(r"(?s)<style>.*</style>", "", html_of(at)) + " ".join(b.label for b in at.button)
    assert demo.loc[first, "text"][:30] in shown
    for hidden in (first, str(demo.loc[first, "system"]), "verdict", "naive"):
        assert hidden not in shown
    assert not [s for s in at.sidebar.selectbox if s.label == "Judge"]
    shortcuts = {b.label: b.proto.shortcut for b in at.button if b.proto.shortcut}
    assert shortcuts == {"Pass": "y", "Fail": "n", "Undo": "backspace", "Skip": "s"}
    press(at, "Pass")
    assert [a.label for a in held.answers().of("Ann").values()] == ["pass"]


def test_undo_and_skip_also_after_a_reload(app, three):
    order = three.plan.order
    at = press(page(app, three), "Fail")
    press(press(at, "Skip"), "I cannot tell")
    assert [(a.row, a.label or a.skipped) for a in three.answers().of("Ann").values()] == [
        (order[0], "fail"), (order[1], "I cannot tell"),
    ]  # fmt: skip
    fresh = AppTest.from_file(app._script_path, default_timeout=300)
    fresh._registered_pages = app._registered_pages
    at = press(page(fresh, three), "Undo")
    assert three.next_row("Ann") == order[1]
    press(at, "Pass")
    press(at, "Pass")
    assert [a.label for a in three.answers().of("Ann").values()] == ["fail", "pass", "pass"]
    assert "All 3 rows are done" in html_of(at)


def test_an_answer_to_a_row_that_is_not_shown_any_more_is_dropped(app, three):
    at = page(app, three)
    three.answer("Ann", three.plan.order[0], "pass")  # in another window
    press(at, "Fail")
    assert [a.label for a in three.answers().of("Ann").values()] == ["pass"]


def test_the_users_text_reaches_no_parser_and_an_own_reason_is_kept(app, three):
    at = press(page(app, three, f"Ann {MARKUP}"[:60]), "Skip")
    assert "<script" not in html_of(at)
    assert "<img" not in html_of(at)
    at.text_input(key=f"label_skip_own_{three.plan.order[0]}").input("seen before").run()
    [who] = three.answers().annotators
    assert [a.skipped for a in three.answers().of(who).values()] == ["seen before"]


def test_two_people_are_blind_until_both_have_finished_and_settle_what_differs(app, three):
    order = three.plan.order
    for row in order:
        three.answer("Ann", row, "pass")
    at = page(app, three, "Ben")
    assert "Ann" not in html_of(at)
    press(at, "Fail")
    press(at, "Pass")
    assert "kappa" not in html_of(at)
    press(at, "Pass")
    text = html_of(at)
    assert "Cohen" in text
    assert "Ann: Pass; Ben: Fail" in text
    assert not [b for b in at.button if b.label == "Undo"]
    press(at, "Fail")
    assert export_table(three).set_index("id").loc[order[0], "label"] == "fail"
    assert "0 of them not settled" in html_of(at)


def test_labels_become_human_scores_of_the_data(app, three, settings):
    for row in three.plan.order:
        three.answer("Ann", row, "pass")
    at = press(page(app, three), "Use these labels")
    made = load_dataset(at.session_state[state.DATA], settings.datasets)
    assert made.responses.set_index("response_id")["human_score"].dropna().to_dict() == dict.fromkeys(
        three.plan.order, 1.0
    )


def test_pairs_are_shown_by_side_and_their_labels_become_choices(app, settings):
    pairs = load_comparisons(DEMO_PAIRS, settings.comparisons)
    held = session_on(settings, pairs, DEMO_PAIRS, n=4, kind=Kind.PAIRS)
    texts = pairs.responses.set_index("response_id")["text"]
    at = page(app, held)
    for row in held.plan.order:
        one = pairs.comparisons.set_index("comparison_id").loc[row]
        shown = html_of(at)
        sides = [shown.index(html.escape(texts[one[side]])[:25]) for side in ("response_a", "response_b")]
        assert (sides[0] > sides[1]) == held.plan.swapped(row)
        press(at, "First is better")
        assert held.answers().of("Ann")[row].label == ("b" if held.plan.swapped(row) else "a")
    press(at, "Use these labels")
    made = load_comparisons(at.session_state[state.DATA], settings.comparisons)
    human = made.comparisons.set_index("comparison_id")["human"]
    assert all(human[row] == ("b" if held.plan.swapped(row) else "a") for row in held.plan.order)


def test_labels_from_a_file_enter_whole_or_with_a_clear_error(app, three):
    at = page(app, three)
    at.session_state["label_import_box"] = True
    at.run()
    order = three.plan.order
    for rows, n in ((f"{order[0]},pass\nzz,pass\n", 0), (f"{order[0]},pass\n{order[1]},no\n", 2)):
        content = io.StringIO(f"id,label\n{rows}").getvalue().encode()
        at.get("file_uploader")[0].upload("labels.csv", content, "text/csv").run()
        assert not at.exception, at.exception
        assert len(three.answers().of("Ann")) == n
        assert ("no row of the data" in html_of(at)) == (n == 0)


def test_pages_that_miss_labels_lead_here(app, saved):
    at = go(app, "pages/checkup/page.py", judge="planted:injection", data=saved.dataset_id)
    press(at, "Label responses")
    assert at.session_state[state.DATA] == saved.dataset_id
    assert [h.value for h in at.title] == ["Label"]
    assert at.segmented_control(key="label_kind").value == Kind.RATING
