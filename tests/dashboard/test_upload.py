"""The review of an uploaded file: encodings, rows left out, presets."""

import io

import openpyxl
import pytest

from engine.data.presets import Preset, list_presets, save_preset
from engine.data.store import list_datasets, load_dataset
from tests.dashboard.helpers import MARKUP, PLANTED, file_bytes, rows
from tests.dashboard.test_pages import PAGES, go, html_of

STRANGE = Preset("ours", {"response": "antwort", "context": "frage", "system": "modell"}, "question", ";")


def upload(app, name: str, content: bytes):
    at = go(app, PAGES[1], judge=PLANTED)
    at.get("file_uploader")[0].upload(name, content, "application/octet-stream").run()
    assert not at.exception, at.exception
    return at


def box(at, label: str):
    return next(s for s in at.selectbox if s.label.startswith(label))


def click(at, key: str):
    at.button(key=key).click().run()
    assert not at.exception, at.exception
    return at


def start(at, prefix: str):
    return next(b for b in at.button if str(b.key).startswith(prefix))


GUESS = "response;context\nIt’s résumés;Hi\n".encode("cp1252")


def test_a_guessed_encoding_blocks_saving_until_it_is_confirmed(app, settings):
    at = upload(app, "w.csv", GUESS)
    page = html_of(at)
    assert "byte 0x92 at offset" in page
    assert "It’s résumés" in page
    assert r"It\x92s" in page
    assert at.button(key="save_upload").disabled
    click(at, "confirm_cp1252")
    assert "chosen by you" in html_of(at)
    assert not [b for b in at.button if str(b.key).startswith("confirm_")]
    assert box(at, "Encoding of the text").value == "cp1252"
    box(at, "Encoding of the text").select("utf-8").run()
    assert "is not UTF-8: byte 0x92" in html_of(at)
    box(at, "Encoding of the text").select("latin-1").run()
    click(at, "save_upload")
    saved = load_dataset(list_datasets(settings.datasets)[0]["dataset_id"], settings.datasets)
    assert saved.source["encoding"] == "latin-1"
    assert saved.responses["text"].tolist() == ["It\x92s résumés"]


def test_an_empty_first_sheet_leaves_the_choice_of_another(app):
    book = openpyxl.Workbook()
    book.active.title = MARKUP[:20].translate({ord(c): "_" for c in r":\/?*[]"})
    sheet = book.create_sheet("answers")
    for row in (["response"], ["a"]):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    at = upload(app, "b.xlsx", out.getvalue())
    assert "is empty. Choose another sheet (answers)" in html_of(at)
    assert "<script" not in html_of(at)
    box(at, "Which sheet").select("answers").run()
    assert "the sheet “answers” (2 of 2)" in html_of(at)
    assert "holds 1 response" in html_of(at)


def test_rows_left_out_are_on_record_and_come_back(app, settings):
    table = [
        {"response_id": "a", "response": "one", "item_id": "q1"},
        {"response_id": "a", "response": "two", "item_id": "q1"},
        {"response_id": "b", "response": "   ", "item_id": "q2"},
    ]
    at = upload(app, "dup.csv", file_bytes(table, ","))
    start(at, "leave_error").click().run()
    assert "Left out by you: row 2, 1 of 3." in html_of(at)
    assert not at.button(key="save_upload").disabled
    click(at, "rows_undo")
    assert at.button(key="save_upload").disabled
    assert "You leave no row out." in html_of(at)
    click(at, "rows_redo")
    at.text_input(key="row_numbers").input("9").run()
    assert "numbers from 1 to 3" in html_of(at)
    at.text_input(key="row_numbers").input("2-3").run()
    click(at, "leave_numbers")
    assert "Left out by you: rows 2 and 3, 2 of 3." in html_of(at)
    assert at.text_input(key="row_numbers").value == ""
    click(at, "save_upload")
    manifest = list_datasets(settings.datasets)[0]
    assert [(e["row"], e["line"]) for e in manifest["source"]["left_out"]] == [(2, 3), (3, 4)]
    assert manifest["source"]["left_out"][1]["reason"] == "chosen by number"
    assert "2 rows left out" in html_of(at)


def test_a_preset_that_fits_is_applied_and_can_be_taken_back(app, settings):
    save_preset(settings.data_dir, STRANGE)
    at = upload(app, "antworten.csv", file_bytes(rows()))
    assert "The preset “ours” is applied" in html_of(at)
    assert box(at, "Response (needed)").value == "antwort"
    assert box(at, "Item id").value == "(not in the file)"  # the preset names none, and a guess would
    click(at, "preset_off")
    assert box(at, "Item id").value == "id"
    assert "fits these columns and is not applied" in html_of(at)
    click(at, "preset_on")
    assert box(at, "Response (needed)").value == "antwort"
    at.switch_page(PAGES[0]).run()
    at.switch_page(PAGES[1]).run()
    assert box(at, "Context").value == "frage"


def test_a_preset_brings_its_separator_and_encoding_and_says_so(app, settings):
    save_preset(settings.data_dir, Preset("old", {"response": "a,b", "context": "c"}, "dialogue", ";", "cp1252"))
    at = upload(app, "odd.csv", "c;a,b\nHi,x;It’s\nHo,y;me\n".encode("cp1252"))
    page = html_of(at)
    assert "Read as Windows-1252, a semicolon between the cells" in page
    assert "That is what the preset “old” says." in page
    assert "see whether these lines of it read right" in page
    assert "x;It’s" in page
    assert not at.button(key="save_upload").disabled


def test_choices_are_saved_as_a_preset(app, settings):
    at = upload(app, "antworten.csv", file_bytes(rows()))
    box(at, "Response (needed)").select("antwort").run()
    click(at, "save_preset")
    assert "has 1 to 80 characters" in html_of(at)
    at.text_input(key="preset_name").input(f" {MARKUP[:60]} ").run()
    click(at, "save_preset")
    [made] = list_presets(settings.data_dir)
    assert (made.mapping["response"], made.delimiter, made.encoding) == ("antwort", ";", "")
    assert "is applied" in html_of(at)
    assert "<script" not in html_of(at)
    for element in (*at.markdown, *at.caption):
        assert "window.hit" not in element.value


@pytest.mark.parametrize("held", [True, False])
def test_presets_are_renamed_deleted_and_put_back(app, settings, held):
    save_preset(settings.data_dir, STRANGE)
    save_preset(settings.data_dir, Preset("other", {"response": "x"}))
    app.session_state["presets"] = True
    at = upload(app, "antworten.csv", file_bytes(rows())) if held else go(app, PAGES[1], judge=PLANTED)
    at.text_input(key="new_ours").input("theirs").run()
    click(at, "do_rename_ours")
    assert [p.name for p in list_presets(settings.data_dir)] == ["theirs", "other"]
    at.text_input(key="new_other").input("theirs").run()
    click(at, "do_rename_other")
    assert "There is a preset &#x27;theirs&#x27; already" in html_of(at)
    click(at, "delete_theirs")
    assert [p.name for p in list_presets(settings.data_dir)] == ["other"]
    assert "is deleted" in html_of(at)
    click(at, "undo_delete")
    assert [p.name for p in list_presets(settings.data_dir)] == ["theirs", "other"]


def test_damaged_presets_are_named_and_hinder_nothing(app, settings):
    settings.data_dir.mkdir(parents=True)
    (settings.data_dir / "presets.json").write_text("{")
    at = upload(app, "a.csv", file_bytes([{"response": "a"}]))
    assert "presets.json" in html_of(at)
    assert "holds 1 response" in html_of(at)


SUPPORT = b"ticket,customer question,bot answer,agent rating (1-5)\n" + b"".join(
    f"T{i // 2},How do I do thing {i // 2}?,Press button {i}.,{1 + i % 5}\n".encode() for i in range(6)
)


def test_a_file_under_names_of_its_own_is_saved_with_one_press_and_leads_on(app):
    at = upload(app, "support.csv", SUPPORT)
    assert "6 responses, 3 items, 6 human scores from 1 to 5" in html_of(at)
    click(at, "save_upload")
    assert "In use: “support.csv”" in html_of(at)
    click(at, "next_set")
    assert at.title[0].value == "Attack lab"
    assert at.session_state["tab"] == "Whole set"
    assert at.query_params["tab"] in ("Whole set", ["Whole set"])  # so that a reload stays there
    assert "6 responses × 9 combinations = 54 judge calls" in html_of(at)


def test_a_file_that_cannot_be_read_offers_another_choice_first(app):
    at = upload(app, "empty.csv", b"")
    assert "is empty" in html_of(at)
    again = at.button(key="discard_upload")
    assert again.label == "Choose another file"
    assert again.proto.type == "primary"
    assert "In use" in html_of(click(at, "discard_upload"))


VERIFIED = "question,response,reference,quality\nWhat is 2+2?,4,4,1\nWhat is 2+3?,6,5,0\nWhat is 2+4?,6,6,1\n"


def test_which_responses_are_correct_can_be_mapped_and_is_suggested(app, settings):
    at = upload(app, "v.csv", VERIFIED.encode())
    assert box(at, "Quality").value == "quality"
    assert box(at, "Human score").value == "(not in the file)"
    assert box(at, "What were the responses asked to be?").value == "verification"
    click(at, "save_upload")
    saved = load_dataset(list_datasets(settings.datasets)[0]["dataset_id"], settings.datasets)
    assert saved.task == "verification"
    assert saved.responses["quality"].tolist() == ["1", "0", "1"]


def test_a_column_of_another_name_is_chosen_and_a_label_that_is_neither_is_shown_by_row(app):
    at = upload(app, "v.csv", VERIFIED.replace("quality", "checked").replace("6,5,0", "6,5,nearly").encode())
    assert box(at, "Quality").value == "(not in the file)"
    assert box(at, "What were the responses asked to be?").value == "question"
    box(at, "Quality").select("checked").run()
    box(at, "What were the responses asked to be?").select("dialogue").run()
    assert not at.button(key="save_upload").disabled  # of a dialogue it is a level
    box(at, "What were the responses asked to be?").select("verification").run()
    assert "says neither correct nor incorrect" in html_of(at)
    assert "row 2 (line 3), column checked" in html_of(at)
    assert at.button(key="save_upload").disabled


HELPDESK = b"ticket_id,customer_message,agent,agent_reply,csat\n" + b"".join(
    f'T{i // 2},"Where is my parcel {i // 2}, please?",a{i % 2},It is on its way since day {i},{1 + i}\n'.encode()
    for i in range(4)
)


def test_a_guess_says_how_sure_it_is_and_is_corrected_with_one_click(app, settings):
    at = upload(app, "helpdesk.csv", HELPDESK)
    held = {label: box(at, label).value for label in ("Response (needed)", "Context", "Item id", "System", "Human")}
    assert list(held.values()) == ["agent_reply", "customer_message", "ticket_id", "agent", "csat"]
    assert "Likely" in html_of(at)
    click(at, "map_swap")
    assert box(at, "Response (needed)").value == "customer_message"
    assert box(at, "Context").value == "agent_reply"
    click(at, "map_back")
    assert {label: box(at, label).value for label in held} == held
    click(at, "save_upload")
    assert "In use: “helpdesk.csv” with 4 responses, 2 items, 2 systems" in html_of(at)


def test_what_only_the_values_say_is_marked_and_cleared_with_one_click(app):
    at = upload(app, "n.csv", b"a,b\nA text that is the context here,first long reply\n" * 2)
    assert "A guess, please check" in html_of(at)
    click(at, "map_clear")
    assert box(at, "Response (needed)").value == "(not in the file)"
    assert "Now say which column holds the responses" in html_of(at)


def test_pairs_in_use_are_named_on_the_page(app):
    at = go(app, PAGES[1], data="demo-pairs")
    assert "cannot be opened" not in html_of(at)
    assert "In use" in html_of(at)
