"""Trust: the recorded demo, the labels slider, own files and runs; truth by hand from the data that ship."""

from __future__ import annotations

import io
import math

import numpy as np
import pandas as pd
import pytest

from dashboard import linked_run
from dashboard.datasets import add_scores
from dashboard.linked_run import place_of
from dashboard.pages.trust.numbers import FEWEST, TrustRun
from dashboard.pages.trust.results import after_labels, headline, number_of, rows_to_people
from dashboard.pages.trust.setup import DEMO, candidates, labels_of
from dashboard.run_view import load, read
from engine.cli.main import main
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_PAIRS, load_comparisons
from engine.data.label_plan import Kind, Scale, make_plan
from engine.data.labels import save_plan
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.jobs import manager as jobs
from engine.runs.labelling import population
from engine.studies.trust.tables import CORRECTED, LABELS_ONLY, RAW
from tests.dashboard.helpers import MARKUP, file_bytes
from tests.dashboard.test_pages import go, html_of, wait_for

PAGE = "pages/trust/page.py"


def demo() -> TrustRun:
    found = load(TrustRun, DEMO)
    assert found
    return found


def by_hand() -> pd.DataFrame:
    """Pass and truth of LLMBar's responses, read from the files without the engine's reader."""
    folder = get_settings().assets / "demo" / "llmbar"
    grades = pd.read_parquet(folder / "ratings.parquet").query("judge == 'GPT-4' and prompt == 'Rating'")
    pairs = grades.merge(pd.read_parquet(folder / "pairs.parquet"), on="comparison_id")
    sides = [pd.DataFrame({"grade": pairs[f"score_{s}"], "right": pairs["human"] == s}) for s in ("a", "b")]
    return pd.concat(sides)


def test_it_opens_on_the_demo_and_says_raw_corrected_and_true_in_few_words(app):
    at = go(app, PAGE)
    read_rows = by_hand().dropna(subset="grade")
    assert f"The judge says {(read_rows['grade'] >= 5).mean():.0%}".replace("%", " %") in html_of(at)
    assert "the truth is 50 %." in html_of(at)
    run = demo()
    said = headline(run.table, share=run.is_share, truth=run.truth)
    assert said in html_of(at)
    assert len(said.split()) <= 25
    assert at.get("plotly_chart")[0].proto.alt


def test_with_every_label_the_labels_alone_are_the_truth_and_more_labels_are_surer():
    run = demo()
    stops = run.stock.stops
    assert (stops[0], run.n_labels in stops) == (FEWEST, True)
    whole = number_of(run.with_labels(stops[-1]).table("trust"), LABELS_ONLY)
    assert whole["value"] == pytest.approx(by_hand().dropna(subset="grade")["right"].mean())
    wide = [number_of(run.with_labels(k).table("trust"), CORRECTED) for k in (40, 200, 800)]
    widths = [row["upper"] - row["lower"] for row in wide]
    assert widths == sorted(widths, reverse=True)
    assert {row["n_labels"] for row in wide} == {40, 200, 800}
    assert len({number_of(run.with_labels(k).table("trust"), RAW)["value"] for k in (40, 800)}) == 1


def test_the_run_s_own_number_of_labels_gives_the_recorded_numbers():
    run = demo()
    again = run.with_labels(run.n_labels).table("trust")
    for estimate in (RAW, CORRECTED, LABELS_ONLY):
        kept, made = number_of(run.table, estimate), number_of(again, estimate)
        assert [made[e] for e in ("value", "lower", "upper")] == pytest.approx(
            [kept[e] for e in ("value", "lower", "upper")]
        )


def test_chances_to_be_labelled_shrink_with_the_labels():
    run = demo()
    weighted = run.labelled.assign(chance=np.where(run.labelled["label"].notna(), 0.4, np.nan))
    taken = run.stock.first(weighted, run.n_labels // 2)
    assert taken.loc[taken["label"].notna(), "chance"].unique() == pytest.approx([0.2])
    assert int(taken["label"].notna().sum()) == run.n_labels // 2


def test_the_slider_moves_headline_and_address(app):
    at = go(app, PAGE, labels="600")
    assert "corrected by 600 labels" in html_of(at)
    at.select_slider(key=f"trust_labels_{DEMO}").set_value(40).run()
    assert "corrected by 40 labels" in html_of(at)
    assert at.query_params["labels"] == ["40"] or at.query_params["labels"] == "40"


@pytest.mark.parametrize("tab", ["Systems and groups", "Calibration", "Keep or send", "Labels needed", "Under attack"])
def test_every_tab_opens(app, tab):
    at = go(app, PAGE, trust_tab=tab)
    assert len(at.get("plotly_chart")) >= 2


def test_an_attack_after_the_labels_is_said_with_its_numbers():
    table = demo().source.table("trust_attacked")
    row = table.query("case == 'after' and estimate == 'corrected' and share == 1").iloc[0]
    assert f"to {row['value']:.0%}".replace("%", " %") in after_labels(table, share=True)
    assert after_labels(table.head(0), share=True) == ""


def test_rows_kept_and_sent_are_all_rows_and_the_sent_ones_are_less_sure():
    rows = pd.DataFrame(
        {
            "row_id": list("abcd"), "item_id": list("abcd"), "system": None, "group": None, "label": math.nan,
            "verdict": [1.0, 0.0, math.nan, 1.0], "confidence": [0.9, 0.6, 0.95, math.nan],
        }
    )  # fmt: skip
    assert list(rows_to_people(rows, 0.7)["row_id"]) == ["d", "b", "c"]
    assert "label" not in rows_to_people(rows, 0.7)
    assert set(rows_to_people(rows, 0.0)["row_id"]) == {"c", "d"}


def test_a_score_is_said_as_a_score_and_too_few_labels_as_such():
    def table(ends: tuple[float, float, float]) -> pd.DataFrame:
        rows = {RAW: (3.5, 3.4, 3.6), CORRECTED: ends}
        return pd.DataFrame(
            [
                {"scope": "all", "estimate": e, "value": v, "lower": lo, "upper": hi, "n_labels": 12}
                for e, (v, lo, hi) in rows.items()
            ]
        )

    assert headline(table((3.1, 2.8, 3.4)), share=False).endswith("it is 3.10 [2.80, 3.40].")
    assert "too few" in headline(table((math.nan,) * 3), share=False)


def labels_file(verdicts: str = "pass", n: int = 40) -> bytes:
    rows = [
        {"verdict": verdicts if i % 4 else "fail", "label": ("pass" if i % 8 > 1 else "fail") if i % 2 else ""}
        for i in range(n)
    ]
    return file_bytes(rows, ",", bom=False)


def corrected(at) -> None:
    at.button(key="trust_run").click().run()
    wait_for(jobs.manager().recent()[0].job_id, ("done",))
    at.run()
    assert not at.exception, at.exception


def dropped(app, name: str, content: bytes):
    at = go(app, PAGE)
    next(box for box in at.get("file_uploader") if box.label.startswith("Verdicts")).upload(
        name, content, "text/csv"
    ).run()
    assert not at.exception, at.exception
    return at


def test_a_file_is_read_corrected_and_shown(app):
    at = dropped(app, f"{MARKUP.split()[0]}.csv", labels_file())
    assert "40 rows of 40 items, 20 with a label" in html_of(at)
    assert "<script>" not in html_of(at)
    corrected(at)
    assert "The judge says 75 %" in html_of(at)  # three rows of four
    made = at.session_state["trust"]
    place = place_of(read(made))
    assert (place.page, place.why) == (PAGE, "")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(labels_file().replace(b"pass,fail", b"pass,maybe", 1), "maybe", id="wrong label by its row"),
        pytest.param(b"verdict,label\npass,\nfail,\n", "Missing: labels of people", id="no labels"),
        pytest.param(b"verdict,label\n4,1\n2,0\n5,1\n", "3 with a label", id="scores beside pass and fail"),
    ],
)
def test_what_a_file_lacks_is_said_before_the_run(app, content, says):
    at = dropped(app, "mine.csv", content)
    assert says in html_of(at)
    assert ("scores" in says) or any(b.key == "trust_run" for b in at.button) == (says == "3 with a label")


def test_other_column_names_are_asked_for(app):
    at = dropped(app, "mine.csv", b"it,they\npass,pass\nfail,\npass,fail\n")
    next(box for box in at.selectbox if box.label.startswith("Column of people")).select("they").run()
    assert "3 rows of 3 items, 2 with a label" in html_of(at)


def test_runs_on_data_that_people_scored_are_offered(app):
    pairs = pd.read_parquet(get_settings().assets / "demo" / "llmbar" / "pairs.parquet")
    assert labels_of("demo-llmbar") == pairs["human"].notna().sum()
    assert labels_of("nowhere") == 0
    offered = {row.run_id for row in candidates()}
    assert "recorded:pairs/naive" in offered
    at = go(app, PAGE)
    at.segmented_control(key="trust_way").set_value("A run").run()
    at.selectbox(key="trust_of_run").set_value(
        next(o for o in at.selectbox(key="trust_of_run").options if o.startswith("naive judge"))
    ).run()
    corrected(at)
    assert f"corrected by {labels_of('demo-pairs')} labels" in html_of(at)


def test_a_missing_label_leads_to_the_page_that_mends_it(app):
    at = go(app, PAGE)
    labels = [b for b in at.button if b.label in ("Label responses", "Use the demo")]
    assert len(labels) == 2
    assert "pages/labelling/page.py" in linked_run.TITLES


def test_own_data_are_told_that_the_demo_is_shown(app, saved):
    at = go(app, PAGE, data=saved.dataset_id)
    assert "You see the demo" in html_of(at)


def test_labels_of_an_uneven_draw_enter_by_their_chances(app, settings):
    """Rows on which the judge's two orders differ are drawn more often; people prefer b there, a elsewhere."""
    pairs = load_comparisons(DEMO_PAIRS, settings.comparisons)
    rows = population(pairs, Scale(Kind.PAIRS))
    rows = rows.assign(verdict="a", disagree=[float(i % 10 == 0) for i in range(len(rows))])
    plan = make_plan(rows, data=DEMO_PAIRS, scale=Scale(Kind.PAIRS), n=40, by=["disagreement"])
    held = save_plan(plan, settings.labels)
    apart = dict(zip(rows["id"], rows["disagree"] == 1, strict=True))
    for row in held.plan.order:
        held.answer("Ann", row, "b" if apart[row] else "a")
    at = go(app, "pages/labelling/page.py", data=DEMO_PAIRS, labels=held.plan.plan_id, annotator="Ann")
    at.button(key="label_trust").click().run()
    at.switch_page(PAGE).run()
    assert at.segmented_control(key="trust_way").value == "A labelling session"
    assert "40 of" in html_of(at)
    corrected(at)
    run = load(TrustRun, at.session_state["trust"])
    assert run
    only = number_of(run.table, LABELS_ONLY)
    share = sum(apart[row] for row in held.plan.order) / 40
    assert only["value"] == pytest.approx(1 - np.mean(list(apart.values())))  # b in a tenth of the rows
    assert abs(share - np.mean(list(apart.values()))) > 0.02  # the drawn rows alone say another number


def test_attacked_verdicts_come_from_a_second_file_of_the_same_rows(app):
    """All rows that failed pass under attack, so with every unlabelled row attacked the raw number is 1 on them."""
    plain = pd.read_csv(io.BytesIO(labels_file())).assign(id=lambda t: t.index)
    under = plain[["id"]].assign(verdict="pass", label="")
    at = dropped(app, "mine.csv", plain.to_csv(index=False).encode())
    next(box for box in at.get("file_uploader") if box.label.startswith("The same rows")).upload(
        "attacked.csv", under.to_csv(index=False).encode(), "text/csv"
    ).run()
    corrected(at)
    run = load(TrustRun, at.session_state["trust"])
    assert run
    config = run.source.manifest["config"]
    assert config["attacked"] not in ("", config["data"])
    rows = run.source.table("trust_attacked").query("estimate == 'raw' and case == 'alike'").set_index("share")["value"]
    assert (rows[0.0], rows[1.0]) == (0.75, 1.0)


def test_attacked_verdicts_of_a_run_are_chosen_by_its_attacks(app, settings):
    """The planted judge adds 0.8 to every attacked response, so with every row attacked the raw mean is 0.8 higher."""
    held = load_dataset(DEMO_DIALOGUE, settings.datasets)
    made = add_scores(held, {one: float(1 + i % 5) for i, one in enumerate(held.responses["response_id"])})
    assert main(["score", made, "--judge", "planted:injection", "--attack", "dsi", "--limit", "12"]) == 0
    at = go(app, PAGE)
    at.segmented_control(key="trust_way").set_value("A run").run()
    name = candidates()[0].run_id
    assert len(at.selectbox(key=f"trust_attack_{name}").options) == 2
    corrected(at)
    run = load(TrustRun, at.session_state["trust"])
    assert run
    config = run.source.manifest["config"]
    assert (config["attacked"], config["attack"]) == (name, "dsi")
    verdicts = read(name).folder.table("verdicts")
    means = verdicts.groupby("attack")["score"].mean()
    raw = run.source.table("trust_attacked").query("estimate == 'raw' and case == 'alike'").set_index("share")["value"]
    assert raw[0.0] == pytest.approx(means["none"])
    assert raw[1.0] == pytest.approx(means["dsi"])
    assert raw[1.0] > raw[0.0]
