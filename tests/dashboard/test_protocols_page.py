"""The page Protocols and leaderboard on the recorded run and on one with rankings made here."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dashboard.pages.protocols import data as protocols_words
from engine.data.dataset import build_dataset
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.store import DEMO_INSTRUCTION, load_dataset, save_dataset
from engine.jobs.manager import JobManager
from engine.judges.api_spec import remember_model
from engine.judges.base import no_checkpoint
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.stats.arena import build_arena
from engine.studies.protocols.leaderboard import choice_sets, ranked_pairs
from engine.studies.protocols.metrics import compare_flips
from engine.studies.protocols.run import run_protocols
from engine.studies.protocols.study import ProtocolsConfig
from tests.dashboard.test_pages import go
from tests.dashboard.test_pages import html_of as html_with_meanings
from tests.engine.studies.scripted import serving

PAGE = "pages/protocols/page.py"


def html_of(at) -> str:
    """The page's text; a word with its meaning beside it is that word."""
    return re.sub(r"</?abbr[^>]*>", "", html_with_meanings(at))


def at_tab(app, tab, **query):
    app.session_state["protocols_tab"] = tab
    app.session_state["protocols_test"] = True  # the drawer with the numbers is open
    return go(app, PAGE, **{"data": DEMO_INSTRUCTION, "judge": "bundled:judge", **query})


def test_rewritings_show_what_the_checks_kept_and_what_changed(app):
    at = at_tab(app, "Rewritings")
    page = html_of(at)
    kept, n = re.search(r"(\d+) of (\d+) rewritings by rules changed the text", page).groups()
    table = at.dataframe[0].value
    assert (int(kept), int(n)) == (table["Kept"].sum(), table["Rewritings"].sum())
    assert set(table["By"]) == {"rules"}
    assert "js-added" in page or "js-removed" in page
    assert len(at.dataframe) == 2


def test_circles_are_listed_and_rankings_say_what_they_are_not(app):
    at = at_tab(app, "Circles")
    page = html_of(at)
    assert "Choice sets were not asked for" in page
    assert "put together from pairwise verdicts would be another thing" in page
    share = re.search(r"Intransitive triads</dt><dd>([\d.]+)", page).group(1)
    listed = next(d.value for d in at.dataframe if "What it is" in d.value.columns)
    assert len(listed) == round(float(share) / 100 * 240)  # 12 items, 20 triads of six systems
    assert set(listed["What it is"]) <= {"a circle", "broken by a tie"}


def as_shown(prompt):
    """Ranks the responses in the order in which they stand there."""
    if "Ranking:" in prompt:
        return " > ".join(re.findall(r"^Response ([A-D]):", prompt, re.MULTILINE))
    return {"A": 0.6, "B": 0.4} if "Response B" in prompt or "Assistant B" in prompt else {"3": 0.9, "4": 0.1}


@pytest.fixture
def ranked(settings, monkeypatch):
    """A run of a server whose ranking of A and B turns round with what else is shown."""
    config = ProtocolsConfig(
        judge="api:scripted", data=DEMO_INSTRUCTION, rankings=True, distractors=("assertiveness",), boards=(),
        placebo=False, copies=False, limit=2,
    )  # fmt: skip
    run = create_run(settings.runs, "protocols", config.model_dump(mode="json"))
    remember_model(config.judge, settings)
    dataset = load_dataset(DEMO_INSTRUCTION, settings.datasets)
    with serving(as_shown, monkeypatch):
        run_protocols(config, dataset, make_judge(config.judge, settings), run, settings, no_checkpoint)
    return run


def test_rankings_of_choice_sets_are_listed(app, ranked):
    arena = build_arena(ranked.table("verdicts"), ranked.table("variants"))
    assert len(ranked_pairs(arena)) == 2 * 2
    assert [one.averaged.n for one in choice_sets(arena)] == [0, 0]  # first place wins, so both orders cancel
    at = at_tab(app, "Circles", judge="api:scripted")
    listed = next(d.value for d in at.dataframe if "Turned round" in d.value.columns)
    assert set(listed["Beside C"]) == {"undecided"}
    assert set(listed["Turned round"]) == {"no"}


def test_a_rewriter_can_be_named_by_its_spec(app):
    app.session_state["protocols_setup"] = True
    at = go(app, PAGE, data=DEMO_INSTRUCTION)
    box = at.selectbox(key="protocols_rewriter")
    assert box.value == "rules"
    box.set_value("bundled:base").run()
    assert at.selectbox(key="protocols_rewriter").value == "bundled:base"
    assert not at.exception, at.exception


def test_the_sentence_says_first_whether_the_protocols_differ(app):
    page = html_of(at_tab(app, "Flips"))
    said = page[page.index('js-finding"') :]
    assert said.index("do not differ measurably (p =") < said.index("clean losers now win in")
    assert "beyond a neutral paraphrase, pairwise and pointwise do not differ measurably (p =" in said
    assert re.search(r"Before the paraphrase is taken off, pairwise minus pointwise is 0[^(]*\(p = 1\)", page)
    assert "Less the flips of a neutral paraphrase, assertiveness adds" in page
    assert re.search(r"adds −[\d.]+.points \[−[\d.]+, [\d.]+\] pairwise, not measurable", page)


def test_every_slider_is_in_the_url_and_back(app):
    at = go(app, PAGE, data=DEMO_INSTRUCTION, judge="bundled:judge", protocols_strength="0.5", protocols_rule="margin",
            protocols_margin="0.25", protocols_k="2", protocols_elo="32", protocols_chosen="pairwise",
            protocols_tab="Advice")  # fmt: skip
    assert at.select_slider(key="protocols_strength_assertiveness").value == 0.5
    assert at.slider(key="protocols_margin").value == 0.25
    assert at.slider(key="protocols_k").value == 2
    assert len(at.get("plotly_chart")) == 2  # the slope charts stand above every tab
    at.slider(key="protocols_elo").set_value(16).run()
    assert "protocols_elo" not in at.query_params  # the default stays out
    at.slider(key="protocols_k").set_value(1).run()
    assert at.query_params["protocols_k"] in ("1", ["1"])


@pytest.mark.parametrize("bad", ["nan", "-3", "x", "1e999"])
def test_a_number_that_no_slider_has_is_taken_to_its_nearest(app, bad):
    at = go(app, PAGE, data=DEMO_INSTRUCTION, protocols_elo=bad, protocols_rule="margin", protocols_margin=bad,
            protocols_tab="Advice")  # fmt: skip
    assert 1 <= at.slider(key="protocols_elo").value <= 64
    assert 0 <= at.slider(key="protocols_margin").value <= 1


def test_advice_leads_to_its_figure(app):
    at = at_tab(app, "Advice")
    button = next(b for b in at.button if b.label == "Show in Severity")
    button.click().run()
    assert at.session_state["protocols_tab"] == "Severity"
    assert "protocols_ladder_add" in {b.key for b in at.button}


def own(settings, task="dialogue", systems=("weak", "strong")):
    """A file of the user's own that has only id, prompt, response and system."""
    rows = [
        {"id": f"r{i}{s}", "prompt": f"What grows in garden {i}?", "response": f"Tomatoes grow in {s} garden {i}.",
         "system": s} for i in range(4) for s in systems
    ]  # fmt: skip
    raw = read_table("mine.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    columns = {"response_id": "id", "context": "prompt", "response": "response", "system": "system"}
    found = build_dataset(raw, {**suggest_mapping(raw.frame), **columns}, task=task, name="mine")
    save_dataset(found, settings.datasets)
    return found


@pytest.mark.parametrize("task", ["dialogue", "question"])
def test_a_plain_file_of_ones_own_needs_no_more_than_two_systems(app, settings, monkeypatch, task):
    found, asked = own(settings, task), []
    monkeypatch.setattr(JobManager, "submit", lambda self, kind, params, **more: asked.append(params) or "0" * 12)
    at = go(app, PAGE, data=found.dataset_id, judge="planted:assertiveness")
    page = html_of(at)
    assert "You see the demo" not in page
    assert "Missing: People" in page
    assert "the order of the verdicts stands" in page
    at.get_by_key("protocols_quick").click().run()
    config = ProtocolsConfig.model_validate(asked[0])
    assert (config.quick, config.placebo, config.boards) == (True, False, config.distractors)
    assert config.task == ("instruction" if task == "dialogue" else "")


def test_data_of_one_system_say_so_under_a_banner(app, settings):
    page = html_of(go(app, PAGE, data=own(settings, systems=("alone",)).dataset_id))
    assert "You see the demo, not" in page
    assert "at least two systems" in page


def told(monkeypatch, pairwise, pointwise, placebo):
    """The page's sentence for 150 pairs of 50 items, of which so many flip; the placebo flips pairwise alone."""
    counts = [(np.arange(150) < k).astype(float) for k in (pairwise, pointwise, placebo or 0)]
    none = np.full(150, np.nan)
    found = compare_flips(
        counts[0], counts[1], np.ones(150, dtype=bool), none if placebo is None else counts[2],
        none if placebo is None else 0 * counts[2], np.arange(150) % 50,
    )  # fmt: skip
    monkeypatch.setattr(protocols_words, "flips_of", lambda *_: found)
    run = SimpleNamespace(judge="planted:x", arena=SimpleNamespace(has_pairwise=True, has_pointwise=True))
    setting = SimpleNamespace(arm="assertiveness", view=None)
    return protocols_words.headline(run, setting), protocols_words.net_sentence(run, setting)


def test_the_sentence_rests_on_flips_less_the_placebos(monkeypatch):
    plain, beside = told(monkeypatch, 45, 15, None)
    assert "pairwise verdicts give in more often than pointwise ones (p" in plain
    assert "paraphrase" not in plain
    assert beside == ""
    same, beside = told(monkeypatch, 45, 15, 30)  # 20 points more, as the paraphrase alone
    assert "beyond a neutral paraphrase, pairwise and pointwise do not differ measurably" in same
    assert re.search(r"Before the paraphrase is taken off, pairwise minus pointwise is \+20\.0.points", beside)
    turned, _ = told(monkeypatch, 45, 30, 45)
    assert "beyond a neutral paraphrase, pointwise verdicts give in more often than pairwise ones" in turned


def test_what_takes_no_part_is_counted_on_the_page(app):
    app.session_state["measured_protocols"] = True
    page = html_of(at_tab(app, "Flips", protocols_style="sycophancy"))
    assert "43 rewritings left out as they break or mend a format rule, by their number" in page
    assert re.search(r"Losers left out</dt><dd>75 pairwise, \d+ pointwise", page)
    assert "Difference less placebo</dt>" in page
    listed = at_tab(app, "Rewritings").dataframe[0].value
    assert listed["Break or mend a rule"].sum() == 43


def test_chance_stands_beside_the_circles(app):
    page = html_of(at_tab(app, "Circles"))
    assert re.search(r"Strict circles</dt><dd>[^<]*\(25 % by coin tosses\)", page)
