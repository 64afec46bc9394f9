"""The Reference swap page and the Attack lab's verifier view, through the entry file."""

from __future__ import annotations

import json

from dashboard import state
from dashboard.pages.reference_swap.results import REGIMES
from dashboard.pages.reference_swap.setup import own_keys
from engine.data.dataset import build_dataset
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.store import DEMO_VERIFICATION, save_dataset
from engine.jobs import manager as jobs
from tests.dashboard.helpers import MARKUP, file_bytes
from tests.dashboard.test_pages import go, html_of, wait_for

PAGE = "pages/reference_swap/page.py"
FOOLED, MATCHES, SOUND, _ = REGIMES


def run(judge: str, **changes) -> str:
    params = {"judge": judge, "data": DEMO_VERIFICATION, "k_max": 5, "arms": ["other", "same"], **changes}
    job = jobs.manager().submit("refswap", params)
    wait_for(job, ("done",))
    return job


def swap_page(app, first: str, second: str = "nobody", **query):
    return go(app, PAGE, data=DEMO_VERIFICATION, verifier=first, verifier_b=second, **query)


def test_own_keys_keep_their_spaces():
    assert own_keys('As above.\n  x\n"  "\n\n"') == ["As above.", "  x", "  ", '"']
    assert own_keys("\n\n") == []


def test_the_page_opens_on_the_recorded_runs(app):
    at = go(app, PAGE, data=DEMO_VERIFICATION)
    page = html_of(at)
    assert "The shortcut verifier accepts master keys on" in page
    assert "The careful judge accepts master keys on" in page
    assert sum("recorded on 20" in m.value for m in at.markdown) == 2
    assert len(at.get("plotly_chart")) == 2
    assert not jobs.manager().recent()
    at.segmented_control(key="swap_arm").set_value("same").run()
    assert not at.exception, at.exception
    assert "the same answer type" in html_of(at)


def test_a_run_is_started_from_the_page_and_read(app):
    at = swap_page(app, FOOLED)
    assert "has not been run on these data" in html_of(at)
    at.button(key="swap_run").click().run()
    assert not at.exception, at.exception
    job = next(j for j in jobs.manager().recent() if j.kind == "refswap")
    wait_for(job.job_id, ("done",))
    assert job.params["keys"][0] == " "
    at.run()
    page = html_of(at)
    assert "accepts master keys on" in page
    assert "self-solving" in page
    assert len(at.get("plotly_chart")) == 1
    assert "γ" in str(json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]["annotations"])


def test_sliders_reread_what_is_stored(app):
    run(FOOLED)
    at = swap_page(app, FOOLED, swap_mode="by hand", swap_gamma="0.4")
    before = html_of(at)
    assert "0.400" in before
    at.slider(key="swap_k").set_value(1).run()
    assert not at.exception, at.exception
    assert html_of(at) != before
    assert at.query_params["swap_k"] in ("1", ["1"])
    asked = [j for j in jobs.manager().recent() if j.kind == "refswap"]
    assert len(asked) == 1


def test_two_verifiers_side_by_side(app):
    run(FOOLED)
    run(SOUND)
    at = swap_page(app, FOOLED, SOUND)
    page = html_of(at)
    assert "is not fooled" in page
    assert "at most" in page
    assert len(at.get("plotly_chart")) == 2


def test_an_auc_below_one_half_is_said(app):
    run(MATCHES)
    assert "would remove correct answers first" in html_of(swap_page(app, MATCHES))


def test_every_tab_draws(app):
    run(FOOLED)
    for tab, charts, tables in (
        ("Keys", 1, 0),
        ("Operating points", 3, 0),
        ("Baselines", 0, 1),
        ("False positives", 0, 1),
    ):
        at = swap_page(app, FOOLED, swap_tab=tab)
        assert (len(at.get("plotly_chart")), len(at.dataframe)) == (charts, tables)
        for chart in at.get("plotly_chart"):
            assert chart.proto.alt
            assert json.loads(chart.proto.spec)["data"]


def test_the_gamma_line_moves_in_every_figure_that_has_one(app):
    run(FOOLED, k_max=2, limit=40)
    for tab, charts in (("Swapped references", 1), ("Operating points", 3)):
        seen = []
        for gamma in ("0.1", "0.4"):
            at = swap_page(app, FOOLED, swap_mode="by hand", swap_tab=tab)
            at.select_slider(key="swap_gamma").set_value(float(gamma)).run()
            figures = [chart.proto.spec for chart in at.get("plotly_chart")]
            assert len(figures) == charts
            assert all(f"{float(gamma):.3g}" in f or f"{float(gamma):.3f}" in f for f in figures)
            seen.append(figures)
        assert all(one != other for one, other in zip(*seen, strict=True))


def test_references_of_ones_own_become_the_pool(app):
    at = swap_page(app, FOOLED)
    box = at.get("file_uploader")[0]
    box.upload("odd.txt", b"\xff\xfe", "text/plain").run()
    assert "cannot be read as UTF-8" in html_of(at)
    assert not [b for b in at.button if b.key == "use_pool"]
    lines = [MARKUP, *(f"word{i} {c}" for i, c in enumerate("abcdefgh")), *map(str, range(8)), "x+1", "(B)"]
    at.get("file_uploader")[0].upload(f"{MARKUP}.txt", "\n".join(lines).encode(), "text/plain").run()
    assert not at.exception, at.exception
    assert "8 numeric, 2 expression, 1 multiple choice, 8 string" in html_of(at)
    at.button(key="use_pool").click().run()
    assert not at.exception, at.exception
    pool = at.selectbox(key="swap_pool")
    assert pool.value.startswith("pool-")
    assert "(19 references)" in next(o for o in pool.options if o.startswith("Your file"))
    at.button(key="swap_run").click().run()
    job = next(j for j in jobs.manager().recent() if j.kind == "refswap")
    wait_for(job.job_id, ("done",))
    at.run()
    page = html_of(at)
    assert "accepts master keys on" in page
    assert "<script" not in page
    assert "Swapped references" in page


def test_items_and_references_that_are_missing_are_said(app, settings):
    rows = [
        {"response": f"It is {i}.", "item_id": f"q{i}", "context": "?", "reference": ref, "quality": str(i % 2)}
        for i, ref in enumerate(["12", "green", "x+1", "(B)", "red", "", " "])
    ]
    raw = read_table("mine.csv", file_bytes(rows))
    dataset = build_dataset(raw, suggest_mapping(raw.frame), task="verification", name="mine")
    save_dataset(dataset, settings.datasets)
    run(FOOLED, data=dataset.dataset_id, arms=["other", "same"], pool=DEMO_VERIFICATION, k_max=10)
    at = go(app, PAGE, data=dataset.dataset_id, verifier=FOOLED, verifier_b="nobody", swap_k="10", swap_arm="same")
    page = html_of(at)
    assert "Left out: 2 items without a reference." in page
    assert "had fewer than 10 references to swap in" in page  # the demo has four choices


def test_keys_that_are_mostly_unread_are_named(app):
    recorded = html_of(go(app, PAGE, data=DEMO_VERIFICATION))
    assert "most of “. (period)” 49 of 60, “, (comma)” 46 of 60, “: (colon)” 41 of 60" in recorded
    assert "178 of 600 verdicts on keys" in recorded


def test_k_one_stands_beside_the_s_score_and_the_mean_is_of_the_keys(app):
    at = go(app, PAGE, data=DEMO_VERIFICATION, swap_tab="Baselines")
    for frame in at.dataframe:
        names = frame.value["Defense"].tolist()
        assert names == ["Undefended", "RefSwap, K = 5", "max_p_cf, K = 1", "s-score, K = 1", "Length filter"]
    assert "1.08" in at.dataframe[1].value["Keys accepted, mean"].iloc[0]  # the mean of the keys' shares
    assert "the same one reference" in html_of(at)


def test_other_data_point_to_the_demo(app):
    at = go(app, PAGE, data="demo-dialogue", verifier=FOOLED, verifier_b="nobody")
    assert "You see the demo" in html_of(at)
    at.button(key="mend_demo_demo-verification_0").click().run()
    assert at.session_state[state.DATA] == DEMO_VERIFICATION


def test_the_verifier_view_checks_a_key(app):
    at = go(app, "pages/attack_lab/page.py", data=DEMO_VERIFICATION, judge="planted:verifier?leak=1&ref_sensitivity=1")
    assert "The verifier" in html_of(at)
    at.selectbox(key="verify_text").select(" ").run()
    assert "accepts the master key (space)" in html_of(at)
    at.toggle(key="verify_swap").set_value(True).run()
    assert not at.exception, at.exception
    page = html_of(at)
    assert "the YES falls" in page
    assert len(at.dataframe[0].value) == 6


def test_text_of_the_user_reaches_no_parser(app, settings):
    rows = [
        {
            "response": f"{MARKUP} The answer is {i}.",
            "item_id": f"q{i}",
            "context": MARKUP,
            "reference": f"{i} {MARKUP}",
        }
        for i in range(3)
    ]
    raw = read_table("mine.csv", file_bytes(rows))
    dataset = build_dataset(raw, suggest_mapping(raw.frame), task="verification", name=f"mine {MARKUP}")
    save_dataset(dataset, settings.datasets)
    at = go(app, "pages/attack_lab/page.py", data=dataset.dataset_id, judge=FOOLED)
    assert "<script" not in html_of(at)
    assert "&lt;script&gt;" in html_of(at)
    for element in (*at.markdown, *at.caption):
        assert "onerror" not in element.value
