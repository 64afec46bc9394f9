"""The audit page on a run made here in a moment, and the numbers behind its slider."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from dashboard.pages.transport_audit.results import beats, flipped_table, helps
from engine.data.comparisons import DEMO_LLMBAR, read_comparisons, save_comparisons
from engine.jobs.manager import JobManager
from engine.jobs.worker import job_of
from engine.judges.base import no_checkpoint
from engine.judges.registry import make_judge
from engine.studies.transport_audit.run import run_transport_audit
from engine.studies.transport_audit.study import IN_DATA, STUDY, AuditConfig
from tests.dashboard.helpers import MARKUP

PAGE = "pages/transport_audit/page.py"


def pairs(text: str = "", always: str = ""):
    """Forty pairs; of the type `always` the judge is right throughout, else in two of three."""
    rows = []
    for i in range(40):
        good, bad = (
            f"measured evidence shows {i} because the data agree {text}",
            f"trust me {i} friend nobody doubts it",
        )
        first, right = i % 2 == 0, i % 3 > 0 or "AB"[i % 2] == always
        rows.append(
            {
                "id": f"p{i}",
                "prompt": f"question {i} {text}",
                "response_a": good if first else bad,
                "response_b": bad if first else good,
                "human": ("a" if first else "b") if i < 30 else "",
                "verdict": "a" if first == right else "b",
                "type": "AB"[i % 2],
            }
        )
    return read_comparisons("mine.csv", pd.DataFrame(rows).to_csv(index=False).encode())


@pytest.fixture
def audited(settings):
    """A set of pairs on disk with a finished audit of it."""
    found = pairs(MARKUP)
    save_comparisons(found, settings.comparisons)
    config = AuditConfig(
        judge=IN_DATA, data=found.set_id, encoders=("words",), splits=3, bootstraps=4, umap=False, p_ratios=(0.4,)
    )
    folder = STUDY.begin(config, settings.runs)
    run_transport_audit(config, found, None, folder, settings, no_checkpoint)
    return found


def open_page(app, **query):
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page(PAGE).run()
    assert not app.exception, app.exception
    return app


def test_it_opens_on_a_strong_judge_whose_texts_do_not_ship(app):
    at = open_page(app, judge=f"recorded:{DEMO_LLMBAR}?judge=GPT-4&prompt=Vanilla", data=DEMO_LLMBAR)
    assert VERDICT.search(html_of(at))
    assert mass_slider(at).value == pytest.approx(
        0.87, abs=0.03
    )  # GPT-4 agrees with the labels on 87 % of the positives


VERDICT = re.compile(r"measurably|with people (rises|falls) by|Transport is (better|worse|not)")


def mass_slider(at):
    """The slider under the hero figure."""
    return next(s for s in at.slider if s.label == "Mass m")


def html_of(at) -> str:
    """The page's text; a word with its meaning beside it is that word."""
    return re.sub(r"</?abbr[^>]*>", "", "\n".join(e.proto.body for e in at.get("html")))


def test_the_page_opens_without_a_run_and_says_what_to_do(app, settings):
    found = pairs()
    save_comparisons(found, settings.comparisons)
    at = open_page(app, data=found.set_id)
    assert "have not been audited yet" in html_of(at)
    assert at.get_by_key("quick_audit") is not None


def test_sentence_figures_and_slider_agree(app, audited):
    at = open_page(app, data=audited.set_id)
    text = html_of(at)
    assert re.search(r"At mass 0\.\d\d the audit flips \d+ of 10 verdicts", text)
    assert VERDICT.search(text)
    mass_slider(at).set_value(1.0).run()
    assert "flips 0 of 10 verdicts" in html_of(at)
    mass_slider(at).set_value(0.3).run()
    assert "flips 7 of 10 verdicts" in html_of(at)
    assert "Exploratory" in html_of(at)
    assert not VERDICT.search(html_of(at))  # only the mass that was chosen beforehand has a verdict
    assert not at.exception
    for chart in at.get("plotly_chart"):
        assert chart.proto.alt


def test_a_link_brings_attack_mass_type_and_map_colour(app):
    demo = {"data": "demo-pairs", "judge": "bundled:judge", "audit_attack": "length", "audit_type": "B reasoning"}
    at = open_page(app, mass="0.3", audit_colour="decision", **demo)
    assert "At mass 0.30 the audit flips" in html_of(at)
    assert at.selectbox(key="audit_attack").value == "length"
    assert at.selectbox(key="audit_type").value == "B reasoning"
    assert at.selectbox(key="audit_colour").value == "decision"
    mass_slider(at).set_value(0.4).run()
    assert at.query_params["mass"] in ("0.4", ["0.4"])
    assert "At mass 0.40 the audit flips" in html_of(at)


def gains(gain, over):
    rows = [{"metric": m, "value": sum(ends) / 2, "lower": ends[0], "upper": ends[1], "method": "bootstrap of items",
             "n_clusters": 20} for m, ends in (("gain", gain), ("gain_over_best", over))]  # fmt: skip
    return pd.DataFrame(rows).set_index("metric")


@pytest.mark.parametrize(
    ("gain", "over", "best", "said"),
    [
        ((0.1, 0.3), (0.02, 0.1), "centroid", ("rises by ", "better than flipping by the cosine")),
        ((0.1, 0.3), (-0.1, 0.1), "all", ("rises by ", "not measurably better or worse than flipping everything")),
        ((-0.3, -0.1), (-0.4, -0.1), "random", ("falls by ", "worse than flipping at random")),
        ((-0.2, 0.1), (-0.2, 0.1), "nothing", ("not measurably better or worse", "No simpler way to flip did better")),
    ],
    ids=["helps", "not more than a control", "hurts", "unclear"],
)  # fmt: skip
def test_the_verdict_says_no_more_than_the_intervals(gain, over, best, said):
    text = helps(gains(gain, over)) + beats(gains(gain, over), best)
    assert all(part in text for part in said)


def test_a_gain_that_never_varies_is_no_measurable_one():
    same = gains((0.0, 0.0), (0.0, 0.0)).assign(lower=float("nan"), upper=float("nan"), method="no variation")
    text = helps(same)
    assert "not measurably better or worse" in text
    assert "0.00 (no variation in 20 items)" in text or "0 (no variation in 20 items)" in text


def test_types_with_a_mass_of_their_own_stand_at_them_until_the_slider_moves(app, settings):
    found = pairs(always="B")
    save_comparisons(found, settings.comparisons)
    config = AuditConfig(judge=IN_DATA, data=found.set_id, encoders=("words",), splits=3, bootstraps=2, umap=False,
                         p_ratios=(), within_type=True)  # fmt: skip
    folder = STUDY.begin(config, settings.runs)
    run_transport_audit(config, found, None, folder, settings, no_checkpoint)
    summary = folder.manifest()["summary"]
    at = open_page(app, data=found.set_id)
    text = html_of(at)
    assert re.search(r"At masses of 0\.\d\d to \d\.\d\d by question type the audit flips", text)
    assert f"the audit flips {summary['n_flipped']} of 10 verdicts" in text
    mass_slider(at).set_value(0.3).run()
    assert "At mass 0.30 the audit flips" in html_of(at)


def test_the_page_sorts_questions_by_a_model_when_one_is_named(app, settings, monkeypatch):
    found, asked = pairs(), []
    save_comparisons(found, settings.comparisons)
    monkeypatch.setattr(JobManager, "submit", lambda self, kind, params, **more: asked.append(params) or "0" * 12)
    app.session_state["audit_full"] = True
    at = open_page(app, data=found.set_id)
    box = next(s for s in at.selectbox if s.label.startswith("Sort the questions"))
    assert box.value == ""
    assert "bundled:judge" in box.options or any("judge" in option.lower() for option in box.options)
    box.set_value("bundled:judge").run()
    assert "40 questions" in html_of(at)
    at.get_by_key("run_audit").click().run()
    assert asked[0]["classify"] == "bundled:judge"


def test_text_of_the_user_reaches_no_parser(app, audited):
    text = html_of(open_page(app, data=audited.set_id))
    assert "<script" not in text
    assert "<img" not in text


def test_a_link_to_pairs_that_are_not_here_opens_on_the_demo(app, settings):
    at = open_page(app, data="0123456789abcdef")
    assert "0123456789abcdef" in html_of(at)


def test_a_quick_audit_starts_with_one_click(app, settings, monkeypatch):
    found, asked = pairs(), []
    save_comparisons(found, settings.comparisons)
    monkeypatch.setattr(JobManager, "submit", lambda self, kind, params, **more: asked.append(params) or "0" * 12)
    open_page(app, data=found.set_id).get_by_key("quick_audit").click().run()
    config = AuditConfig.model_validate(asked[0])
    assert (config.quick, config.umap, config.limit, len(config.encoders)) == (True, False, 60, 1)


def test_responses_of_the_users_own_are_said_not_to_be_pairs_and_become_some(app, saved):
    at = open_page(app, data=saved.dataset_id)
    assert "You see the demo" in html_of(at)
    use = next(b for b in at.button if b.label.startswith("Use my 4 pairs"))
    use.click().run()
    assert not at.exception, at.exception
    assert "You see the demo" not in html_of(at)
    assert "Missing: A person" in html_of(at)
    assert at.get_by_key("quick_audit") is not None


def test_pairs_that_nobody_decided_show_what_needs_no_label(app, settings):
    made = pairs()
    found = read_comparisons("mine.csv", nobody(made))
    save_comparisons(found, settings.comparisons)
    config = AuditConfig(judge=IN_DATA, data=found.set_id, encoders=("words",), quick=True)
    folder = STUDY.begin(config, settings.runs)
    run_transport_audit(config, found, None, folder, settings, no_checkpoint)
    at = open_page(app, data=found.set_id)
    text = html_of(at)
    assert "agreement, flips and types are left out; 40 verdicts" in text
    assert len(at.get("plotly_chart")) == 1
    assert not [s for s in at.slider if s.label == "Mass m"]


def test_a_judge_that_answers_in_one_order_alone_shows_its_orders_and_no_map(app, settings):
    made = pairs()
    found = read_comparisons("mine.csv", nobody(made))
    save_comparisons(found, settings.comparisons)
    judge = "planted:position?strength=1"
    config = AuditConfig(judge=judge, data=found.set_id, encoders=("words",), quick=True)
    folder = STUDY.begin(config, settings.runs)
    run_transport_audit(config, found, make_judge(judge, settings), folder, settings, no_checkpoint)
    app.session_state["audit_judge"] = judge
    at = open_page(app, data=found.set_id, judge=judge)
    assert "swapping the order leaves 0 of 40 choices as they are" in html_of(at)
    assert len(at.get("plotly_chart")) == 1


def test_a_judge_of_single_responses_is_told_before_the_run(app, settings):
    found = read_comparisons("mine.csv", nobody(pairs()).replace(b",verdict", b",was"))
    save_comparisons(found, settings.comparisons)
    at = open_page(app, data=found.set_id, judge="planted:verbosity")
    assert "Missing: A judge that compares two responses" in html_of(at)
    assert at.get_by_key("quick_audit").disabled
    next(b for b in at.button if b.label == "Use the naive judge").click().run()
    assert not at.get_by_key("quick_audit").disabled


def test_a_run_that_cannot_be_read_is_said(app, audited, settings):
    [folder] = [path for path in settings.runs.iterdir() if (path / "audit.parquet").is_file()]
    (folder / "audit.parquet").write_bytes(b"no parquet")
    text = html_of(open_page(app, data=audited.set_id))
    assert f"The run {folder.name} cannot be read" in text
    assert "have not been audited yet" in text


def nobody(made) -> bytes:
    """The same pairs as a file without human preferences."""
    both = made.comparisons.merge(made.items[["item_id", "context"]], on="item_id")
    texts = made.responses.set_index("response_id")["text"]
    sides = {f"response_{s}": texts[both[f"response_{s}"]].to_numpy() for s in "ab"}
    frame = pd.DataFrame({"id": both["comparison_id"], "prompt": both["context"], **sides, "verdict": both["verdict"]})
    return frame.to_csv(index=False).encode()


def test_flipped_verdicts_are_turned_and_the_rest_is_as_it_was():
    rows = pd.DataFrame(
        {
            "role": ["unlabelled", "unlabelled", "positive"],
            "comparison_id": ["x", "y", "z"],
            "type": ["A"] * 3,
            "verdict": ["a", "b", "a"],
            "human": [None, "a", "b"],
            "entry_mass": [0.2, 0.7, float("nan")],
            "entry_price": [0.1, 0.2, float("nan")],
            "stability": [1.0, 0.25, float("nan")],
            "flip": [False, True, False],
        }
    )
    assert flipped_table(rows)["audited"].tolist() == ["a", "a", "a"]
    assert flipped_table(rows.assign(flip=True))["audited"].tolist() == ["b", "a", "b"]


def test_embeddings_are_matched_to_the_pairs_and_become_the_encoder(app, settings):
    found = pairs()
    save_comparisons(found, settings.comparisons)
    app.session_state["audit_full"] = True
    at = open_page(app, data=found.set_id)
    ids = found.responses["response_id"].tolist()
    rows = pd.DataFrame({"response_id": ids, "x": range(len(ids)), "y": 1.0})
    box = next(f for f in at.file_uploader if f.label == "A file of embeddings")
    box.upload("mine.csv", rows.assign(y=["nan"] * len(ids)).to_csv(index=False).encode(), "text/csv").run()
    assert "every entry must be a finite number" in html_of(at)
    box = next(f for f in at.file_uploader if f.label == "A file of embeddings")
    box.upload("mine.csv", rows.to_csv(index=False).encode(), "text/csv").run()
    assert "80 vectors of 2 dimensions, matched by response_id; 40 of 40 pairs have both" in html_of(at)
    at.get_by_key("use_embeddings").click().run()
    assert not at.exception, at.exception
    chosen = next(m for m in at.multiselect if m.label.startswith("Encoders"))
    assert len(chosen.value) == 1
    assert chosen.value[0].startswith("given:")
    assert any("BGE-M3" in option for option in chosen.options)


@pytest.mark.parametrize(("lesson", "sign"), [("good-judge", 1), ("another-kind", -1), ("wrong-labels", -1)])
def test_a_lesson_on_planted_directions_says_whether_auditing_helps(app, settings, monkeypatch, lesson, sign):
    def ask(self, kind, params, timeout_s=120.0):
        model, job = job_of(kind)
        return job(model.model_validate(params), settings, no_checkpoint)

    monkeypatch.setattr(JobManager, "ask", ask)
    at = open_page(app, planted=lesson)
    sentence = re.search(r"planted verdicts: agreement with the truth goes from 0\.9\d* to ([0-9.]+),", html_of(at))
    assert (float(sentence.group(1)) - 0.9) * sign > 0
    slider = next(s for s in at.slider if s.label == "Transported mass m in this lesson")
    slider.set_value(1.0).run()
    assert "At mass 1.00 the audit flips 0 of 300 planted verdicts" in html_of(at)
