"""The Reference swap page and the Attack lab's verifier view, through the entry file."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from dashboard import state
from dashboard.pages.reference_swap.results import REGIMES
from dashboard.pages.reference_swap.setup import own_keys, usable
from engine.data.dataset import build_dataset
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.store import DEMO_VERIFICATION, save_dataset
from engine.jobs import manager as jobs
from tests.dashboard.helpers import MARKUP, file_bytes
from tests.dashboard.test_pages import go, html_of, wait_for

PAGE = "pages/reference_swap/page.py"
FOOLED, MATCHES, *_ = REGIMES


def run(judge: str, **changes) -> str:
    params = {"judge": judge, "data": DEMO_VERIFICATION, "k_max": 5, "arms": ["other", "same"], **changes}
    job = jobs.manager().submit("refswap", params)
    wait_for(job, ("done",))
    return job


def swap_page(app, judge: str, *opened: str, **query):
    """The page of a verifier on the demo questions, with some drawers open."""
    for key in opened:
        app.session_state[key] = True
    return go(app, PAGE, **({"data": DEMO_VERIFICATION, "judge": judge} | query))


def words_of(at) -> str:
    """The page's text without the marks of explained words."""
    return re.sub(r"</?abbr[^>]*>", "", html_of(at))


def facts_of(at) -> dict[str, str]:
    return dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", words_of(at)))


def counts(text: str) -> tuple[float, float]:
    before, after = text.replace(" %", "").split(" → ")
    return float(before), float(after)


def test_own_keys_keep_their_spaces():
    assert own_keys('As above.\n  x\n"  "\n\n"') == ["As above.", "  x", "  ", '"']
    assert own_keys("\n\n") == []


def test_the_page_opens_on_a_recorded_run(app):
    at = go(app, PAGE)
    assert "accepts master keys on" in words_of(at) or "accepts no master key" in words_of(at)
    assert at.session_state[state.DATA] == DEMO_VERIFICATION
    assert "recorded on 20" in str(json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]["title"])
    assert not jobs.manager().recent()
    headline = re.search(r"js-headline[^>]*>([^<]*)<", words_of(at))[1]
    assert len(headline.split()) <= 25


def test_a_run_is_started_from_the_page_and_read(app):
    at = swap_page(app, FOOLED, "swap_settings")
    assert "Which ones does your verifier accept?" in words_of(at)
    at.button(key="swap_run").click().run()
    assert not at.exception, at.exception
    job = next(j for j in jobs.manager().recent() if j.kind == "refswap")
    wait_for(job.job_id, ("done",))
    assert job.params["keys"][0] == " "
    at.session_state["measured_swap"] = True
    at.run()
    page = words_of(at)
    assert "accepts master keys on" in page
    assert "self-solving" in page
    assert len(at.get("plotly_chart")) == 2
    assert "γ" in str(json.loads(at.get("plotly_chart")[0].proto.spec)["layout"]["annotations"])


def test_gamma_starts_calibrated_keeps_what_is_set_and_moves_every_count(app):
    run(FOOLED, k_max=2, limit=40)
    at = swap_page(app, FOOLED)
    slider = at.select_slider(key="swap_gamma")
    calibrated, seen = slider.value, []
    for gamma in sorted(slider.options, key=float)[:: len(slider.options) // 6]:
        at.select_slider(key="swap_gamma").set_value(float(gamma)).run()
        assert not at.exception, at.exception
        assert at.select_slider(key="swap_gamma").value == float(gamma)
        found = facts_of(at)
        seen.append([counts(found[name])[1] for name in ("Keys accepted", "Correct accepted", "Key rate")])
        first = json.loads(at.get("plotly_chart")[0].proto.spec)
        drawn = [t["marker"]["opacity"] for t in first["data"] if t.get("mode") == "markers"]
        kept = [sum(o > 0.5 for o in one) for one in drawn]
        assert kept == [seen[-1][1], seen[-1][0]]  # the points that are not dimmed are those that the counters count
    assert all(a >= b for one, two in pairwise(seen) for a, b in zip(one, two, strict=True))
    at.slider(key="swap_k").set_value(1).run()
    assert at.select_slider(key="swap_gamma").value == float(gamma)
    at.button(key="swap_back").click().run()
    assert at.select_slider(key="swap_gamma").value != float(gamma)
    at.slider(key="swap_k").set_value(2).run()
    assert at.select_slider(key="swap_gamma").value == calibrated
    assert len([j for j in jobs.manager().recent() if j.kind == "refswap"]) == 1


def test_a_link_brings_gamma_and_k(app):
    run(FOOLED)
    at = swap_page(app, FOOLED, swap_gamma="0.4", swap_k="1")
    assert at.select_slider(key="swap_gamma").value == 0.4
    assert at.slider(key="swap_k").value == 1
    assert at.query_params["swap_gamma"] in ("0.4", ["0.4"])


def test_one_click_leads_from_the_naive_to_the_careful_judge(app):
    at = swap_page(app, "bundled:naive")
    at.button(key="compare_swap").click().run()
    assert at.session_state[state.JUDGE] == "bundled:judge"
    assert at.get("plotly_chart")


def test_an_auc_below_one_half_is_said(app):
    run(MATCHES)
    assert "would remove correct answers first" in words_of(swap_page(app, MATCHES))


def test_every_tab_draws(app):
    run(FOOLED)
    for tab, opened, charts, tables in (
        ("By key", (), 2, 0),
        ("Trade-off", ("swap_more",), 4, 1),
        ("One sample", ("swap_all",), 1, 2),
    ):
        at = swap_page(app, FOOLED, *opened, swap_tab=tab)
        assert (len(at.get("plotly_chart")), len(at.dataframe)) == (charts, tables)
        for chart in at.get("plotly_chart"):
            assert chart.proto.alt
            assert json.loads(chart.proto.spec)["data"]


def own(settings, name: str = "mine", **columns) -> str:
    """Id of saved questions of the user's own, taken for dialogues, with references of several kinds."""
    answers = ["12", "green", "x+1", "(B)", "red", "7", "a cat", "y-3", "(C)", "blue"]
    rows = [
        {"item_id": f"q{i}", "context": f"Question {i}?", "response": f"It is {a}.", "reference": a}
        | {k: v[i] for k, v in columns.items()}
        for i, a in enumerate(answers)
    ]
    raw = read_table("mine.csv", file_bytes(rows))
    made = build_dataset(raw, suggest_mapping(raw.frame), task="dialogue", name=name)
    save_dataset(made, settings.datasets)
    return made.dataset_id


def test_own_data_without_correctness_run_and_show_keys_without_an_auc(app, settings):
    data = own(settings)
    at = swap_page(app, FOOLED, data=data)
    page = html_of(at)
    assert "Missing: Which responses are correct" in page
    assert "no AUC" in page
    at.button(key="swap_quick").click().run()
    assert not at.exception, at.exception
    job = next(j for j in jobs.manager().recent() if j.kind == "refswap")
    wait_for(job.job_id, ("done",))
    at.session_state["measured_swap"] = True
    at.run()
    assert not at.exception, at.exception
    assert len(at.get("plotly_chart")) == 2
    assert {"Keys accepted", "Responses accepted", "Key rate"} <= set(facts_of(at))
    assert "Accuracy" not in facts_of(at)
    assert "do not say which responses are correct" in words_of(at)
    assert at.select_slider(key="swap_gamma").value == 0.01


def test_a_full_run_follows_the_quick_one_by_one_click(app, settings):
    data = own(settings, quality=["correct", "incorrect"] * 5)
    run(FOOLED, data=data, quick=True, k=2, k_max=2, arms=["other"])
    at = swap_page(app, FOOLED, data=data)
    at.button(key="swap_full").click().run()
    assert not at.exception, at.exception
    job = next(j for j in jobs.manager().recent() if not j.params.get("quick"))
    wait_for(job.job_id, ("done",))
    assert not [b for b in swap_page(app, FOOLED, data=data).button if b.key == "swap_full"]


def test_no_control_offers_more_references_than_the_data_have(app, settings):
    most = usable(own(settings), "data", 10)
    at = swap_page(app, FOOLED, "swap_settings", data=own(settings))
    [slider] = [s for s in at.slider if str(s.key).startswith("swap_k_max")]
    assert (slider.max, slider.value) == (most, min(5, most))


def test_references_of_ones_own_become_the_pool(app):
    at = swap_page(app, FOOLED, "swap_settings")
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
    at.session_state["measured_swap"] = True
    at.run()
    page = words_of(at)
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
    at = swap_page(app, FOOLED, "measured_swap", data=dataset.dataset_id, swap_k="10", swap_arm="same")
    page = words_of(at)
    assert "Left out: 2 items without a reference." in page
    assert "had fewer than 10 references to swap in" in page  # the demo has four choices


def test_keys_that_are_mostly_unread_are_named(app):
    recorded = words_of(swap_page(app, "bundled:judge", "measured_swap"))
    assert "most of “. (period)” 49 of 60, “, (comma)” 46 of 60, “: (colon)” 41 of 60" in recorded
    assert "178 of 600 verdicts on keys" in recorded


def test_k_one_stands_beside_the_s_score_and_the_mean_is_of_the_keys(app):
    at = swap_page(app, "bundled:judge", "swap_more", swap_tab="Trade-off")
    frame = at.dataframe[0].value
    names = frame["Defense"].tolist()
    assert names == ["Undefended", "RefSwap, K = 5", "max_p_cf, K = 1", "s-score, K = 1", "Length filter"]
    assert "1.08" in frame["Keys accepted, mean"].iloc[0]  # the mean of the keys' shares
    assert "the same one reference" in html_of(at)


def test_data_without_references_show_the_demo_under_a_banner_that_leads_to_it(app, saved):
    at = swap_page(app, "bundled:judge", data=saved.dataset_id)
    assert "You see the demo" in html_of(at)
    assert "reference answers" in html_of(at)
    [use] = [b for b in at.button if b.label == "Use the demo"]
    use.click().run()
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
