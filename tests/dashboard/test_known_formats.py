"""Files of known formats on the Data page: recognised, shown, overridden, saved, written."""

import io

import openpyxl
import pytest

from engine.data.comparisons import list_comparisons
from engine.data.recordings import list_recordings
from engine.data.store import list_datasets, load_dataset
from tests.dashboard.helpers import MARKUP, PLANTED
from tests.dashboard.test_pages import PAGES, go, html_of
from tests.dashboard.test_upload import click, upload
from tests.engine.data.formats.examples import ANSWERS, FILES, MT_BENCH, REWARD, lines


def chooser(at):
    return next(s for s in at.selectbox if s.label == "What kind of file is it?")


@pytest.mark.parametrize("name", FILES)
def test_every_format_opens_with_what_was_understood(app, name):
    at = upload(app, *FILES[name])
    page = html_of(at)
    assert "is recognised as" in page
    assert f"({name})" in page
    assert "It is not saved yet." in page
    assert at.button(key="save_known")


def test_saving_keeps_data_pairs_and_verdicts(app, settings):
    at = upload(app, *FILES["mt-bench-human"])
    page = html_of(at)
    assert "4 responses, 2 items, 5 pairs, 3 with a human preference, 4 verdicts of 1 judge" in page
    assert "“tie (inconsistent)” is tie" in page
    assert "the pairs for the Transport audit and the verdicts as 1 recorded judge" in page
    click(at, "save_known")
    assert "In use: “human.jsonl” with 4 responses, 2 items" in html_of(at)
    [held] = list_datasets(settings.datasets)
    assert load_dataset(held["dataset_id"], settings.datasets).source["known_format"] == "mt-bench-human"
    assert list(list_comparisons(settings.comparisons).values()) == ["human.jsonl"]
    assert [r.title for r in list_recordings(settings.recordings)] == ["Recorded: gpt4_pair (human.jsonl)"]


def test_recorded_scores_are_in_the_rail_at_once(app, settings):
    at = upload(app, *FILES["promptfoo"])
    click(at, "save_known")
    judges = next(s for s in at.selectbox if s.label == "Judge").options
    assert "Recorded: promptfoo/llm-rubric (results.json)" in judges
    assert at.selectbox(key="judge").value == PLANTED


def test_verdicts_without_texts_take_further_files(app, settings):
    at = upload(app, *FILES["fastchat-single"])
    assert "verdicts without the texts they are about" in html_of(at)
    extra = next(u for u in at.get("file_uploader") if u.label.startswith("Files that belong to it"))
    extra.upload("a.jsonl", lines(ANSWERS), "application/json").run()
    assert not at.exception, at.exception
    page = html_of(at)
    assert "without the texts" not in page
    assert "the responses as data for every page" in page
    click(at, "save_known")
    assert len(list_datasets(settings.datasets)) == 1


def test_verdicts_alone_are_kept_as_a_judge(app, settings):
    at = upload(app, *FILES["fastchat-pair"])
    click(at, "save_known")
    assert not list_datasets(settings.datasets)
    assert [r.n for r in list_recordings(settings.recordings)] == [4]


def test_the_format_is_changed_and_a_plain_table_stays_possible(app):
    at = upload(app, *FILES["alpacaeval-outputs"])
    chooser(at).select("table").run()
    assert not at.exception, at.exception
    page = html_of(at)
    assert "Taken as a plain table, as you chose." in page
    assert "holds 2 responses" in page
    chooser(at).select("arena").run()
    page = html_of(at)
    assert "could not be read as Arena battles. Nothing was saved." in page
    assert "no model_a, model_b, winner" in page
    chooser(at).select("alpacaeval-outputs").run()
    assert "is read as AlpacaEval outputs" in html_of(at)


def test_an_aspect_is_chosen_like_a_format(app, settings):
    at = upload(app, *FILES["summeval"])
    chooser(at).select("summeval:coherence").run()
    assert "Taken as SummEval annotations, coherence (summeval:coherence), as you chose." in html_of(at)
    click(at, "save_known")
    [held] = list_datasets(settings.datasets)
    assert held["summary"]["human_high"] == 3.0


def test_two_possible_formats_are_asked_about(app):
    at = upload(app, "both.jsonl", lines([{**row, "language": "English"} for row in MT_BENCH]))
    page = html_of(at)
    assert "nothing tells them apart" in page
    assert "could be of two known formats" in page
    assert not [b for b in at.button if b.key == "save_known"]
    chooser(at).select("arena").run()
    assert not at.exception, at.exception
    assert "is read as Arena battles" in html_of(at)


def test_half_a_format_says_what_it_lacks_and_opens_as_a_table(app):
    rows = [{k: v for k, v in row.items() if k != "rejected"} for row in REWARD]
    page = html_of(upload(app, "half.jsonl", lines(rows)))
    assert "It looks like RewardBench (rewardbench), but no rejected." in page
    assert "Now say which column holds the responses" in page


def test_markup_in_every_place_of_a_known_file_is_inert(app):
    rows = [{**row, "prompt": MARKUP, "chosen": MARKUP, "chosen_model": MARKUP, "subset": MARKUP} for row in REWARD]
    rows.append({**REWARD[0], "rejected": None, "id": MARKUP})
    at = upload(app, f"{MARKUP[:20]}.jsonl".replace("/", ""), lines(rows))
    assert "<script" not in html_of(at)
    for element in (*at.markdown, *at.caption):
        assert "window.hit" not in element.value


def test_a_file_is_written_in_another_format(app):
    app.session_state["convert"] = True
    at = upload(app, *FILES["pandalm"])
    at.selectbox(key="convert_to").select("llm-comparator").run()
    assert not at.exception, at.exception
    assert at.get("download_button")
    assert "arena" not in at.selectbox(key="convert_to").options
    at.selectbox(key="convert_to").select("verdicts").run()
    assert "holds no verdicts" in html_of(at)


def test_the_hub_says_what_is_wrong_without_a_network(app, monkeypatch):
    from engine.core.errors import InputError

    def offline(name: str):
        raise InputError(f"{name}: the Hub cannot be reached from here (ConnectError), so nothing was read.")

    monkeypatch.setattr("dashboard.pages.data.upload.fetch", offline)
    app.session_state["hub"] = True
    at = go(app, PAGES[1], judge=PLANTED)
    at.selectbox(key="hub_set").select("allenai/reward-bench").run()
    click(at, "hub_fetch")
    assert "hub:allenai/reward-bench?split=filtered: the Hub cannot be reached" in html_of(at)


def test_a_fetched_file_is_reviewed_like_an_uploaded_one(app, monkeypatch):
    from engine.data.formats.hub import Fetched

    asked = []

    def fetched(name: str):
        asked.append(name)
        return Fetched("allenai-reward-bench-x.jsonl", lines(REWARD), "rewardbench", "0" * 40)

    monkeypatch.setattr("dashboard.pages.data.upload.fetch", fetched)
    app.session_state["hub"] = True
    at = go(app, PAGES[1], judge=PLANTED)
    at.selectbox(key="hub_set").select("allenai/reward-bench-2").run()
    click(at, "hub_fetch")
    assert asked == ["hub:allenai/reward-bench-2?split=test"]
    assert "is read as RewardBench" in html_of(at)


def test_the_panel_of_verdicts_reads_known_formats_and_can_be_told(app):
    at = go(app, PAGES[1], judge=PLANTED)
    at.get_by_key("verdict_file").upload(*FILES["fastchat-pair"], "application/json").run()
    assert not at.exception, at.exception
    assert "3 of 4 verdicts can be read; 1 unread, 0 left out." in html_of(at)
    at.selectbox(key="verdict_format").select("table").run()
    assert "cannot be read as they are" in html_of(at)


def test_a_guessed_encoding_is_asked_before_a_known_format_is_read(app):
    content = "id;prompt;chosen;rejected\n1;It’s résumés;a;b\n".encode("cp1252")
    at = upload(app, "w.csv", content)
    page = html_of(at)
    assert "Say which reads right first" in page
    assert not [b for b in at.button if b.key == "save_known"]
    click(at, "confirm_cp1252")
    assert "is read as RewardBench" in html_of(at)


def test_another_sheet_is_recognised_anew(app):
    book = openpyxl.Workbook()
    for name, row in (("plain", {"response": "a"}), ("pairs", REWARD[0])):
        sheet = book.create_sheet(name)
        sheet.append(list(row))
        sheet.append(list(row.values()))
    book.remove(book.worksheets[0])
    out = io.BytesIO()
    book.save(out)
    at = upload(app, "b.xlsx", out.getvalue())
    assert "as you chose" not in html_of(at)
    next(s for s in at.selectbox if s.label == "Which sheet").select("pairs").run()
    assert not at.exception, at.exception
    assert "is read as RewardBench" in html_of(at)
