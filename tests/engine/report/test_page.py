"""The one-file report: nothing in it calls out, no text of a user or a model acts, data come out whole."""

import base64
import csv
import hashlib
import io
import json
import re
import zipfile
from html.parser import HTMLParser

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.plots.export import RenderError
from engine.report import export as files
from engine.report.basket import Piece, Report, keep_drawn, table_piece
from engine.report.content import fill, strict_table
from engine.report.export import MOST_ROWS, report_html
from engine.report.summary import summary
from engine.runs.folder import RunFolder
from engine.studies.figure import Source
from engine.studies.registry import entry_of, find_run

MARKUP = "</script><script>window.hit=1</script><img src='http://x.example/p.png' onerror='window.hit=1'>=1+1"


class Seen(HTMLParser):
    """Tags with their attributes, and what each script block holds."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts, self.text = [], [], []
        self._kind = None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._kind = dict(attrs).get("type", "")
            self.scripts.append([self._kind, ""])

    def handle_endtag(self, tag):
        if tag == "script":
            self._kind = None

    def handle_data(self, data):
        if self._kind is None:
            self.text.append(data)
        else:
            self.scripts[-1][1] += data


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """A run whose responses, data and judge are called markup."""
    source = Source(find_run("recorded:dialogue/run"))
    folder = RunFolder(tmp_path_factory.mktemp("nasty"))
    verdicts = source.table("verdicts").assign(response_id=lambda v: v["response_id"] + MARKUP)
    folder.write_table("verdicts", verdicts)
    manifest = source.manifest
    named = {"data": {**manifest["data"], "name": MARKUP}, "judge": {**manifest["judge"], "spec": MARKUP}}
    folder.write_manifest({**manifest, **named})
    return Source(folder)


@pytest.fixture(scope="module")
def made(nasty):
    """A report of all kinds of pieces, full of markup, and its page."""
    pieces = (
        Piece(kind="note", text=MARKUP),
        Piece(kind="figure", title=MARKUP, run="r", entry="dumbbells", show="both", text=MARKUP),
        Piece(kind="figure", title="own caption", run="r", entry="forest"),
        Piece(kind="figure", title=MARKUP, run=MARKUP, entry="nothing"),
    )
    report = Report(title=MARKUP, authors=MARKUP, pieces=pieces)
    filled = fill(report, lambda _: nasty)
    return report, filled, report_html(report, filled)


@pytest.fixture(scope="module")
def seen(made):
    parser = Seen()
    parser.feed(made[2])
    return parser


def test_markup_stays_text(seen):
    names = {tag for tag, _ in seen.tags}
    assert not names & {"img", "iframe", "object", "embed", "form", "link", "base"}
    assert not [a for _, attrs in seen.tags for a in attrs if a.startswith("on")]
    assert "".join(seen.text).count(MARKUP) >= 6  # title (twice), authors, note, caption, refused figure


def test_only_our_two_scripts_may_run(seen):
    policy = next(a["content"] for t, a in seen.tags if t == "meta" and a.get("http-equiv"))
    parts = dict(p.strip().split(" ", 1) for p in policy.split(";"))
    assert parts["default-src"] == "'none'"
    digests = re.findall(r"'sha256-[^']+'", parts["script-src"])
    assert parts["script-src"].split() == digests
    running = [text for kind, text in seen.scripts if kind == ""]
    assert [f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in running] == digests
    assert len(running) == 2
    assert running[0].count("plotly.js v") == 1  # once, however many figures


def test_no_address_leaves_the_file(seen):
    for tag, attrs in seen.tags:
        for name in ("src", "href", "action", "srcset"):
            assert attrs.get(name, "data:").startswith("data:"), (tag, attrs)
    assert "@import" not in "".join(seen.text)


def test_the_figures_in_the_page_are_the_figures(made, seen):
    blocks = [json.loads(text) for kind, text in seen.scripts if kind == "application/json"]
    drawn = [json.loads(p.figure.to_json()) for p in made[1] if p.figure is not None]
    assert blocks == drawn
    assert len(drawn) == 2


def test_a_figure_that_cannot_be_made_says_why_and_the_others_stay(made):
    assert [bool(p.problem) for p in made[1]] == [False, False, False, True]
    assert "no figure" in made[1][3].problem


def test_the_downloads_hold_the_data_safely(made, seen):
    piece = made[1][1]
    links = {a["download"]: a["href"] for t, a in seen.tags if t == "a"}
    content = base64.b64decode(links[f"{piece.name}.csv"].partition("base64,")[2])
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [r["response_id"] for r in rows] == piece.table["response_id"].tolist()
    stored = json.loads(base64.b64decode(links[f"{piece.name}.json"].partition("base64,")[2]))
    assert stored["caption"] == MARKUP
    assert len(stored["rows"]) == len(piece.table)


def test_json_is_strict_and_a_missing_number_is_null():
    piece = Piece(kind="figure", run="recorded:refswap/judge", entry="max_p_cf")
    filled = fill(Report(pieces=(piece,)))[0]
    assert filled.table["max_p_cf"].isna().any()
    stored = json.loads(strict_table(filled), parse_constant=pytest.fail)
    at = stored["columns"].index("max_p_cf")
    assert [r[at] is None for r in stored["rows"]] == filled.table["max_p_cf"].isna().tolist()


def test_a_long_table_is_cut_on_the_page_and_whole_in_the_download(nasty):
    frame = pd.DataFrame({"x": range(MOST_ROWS + 50)})
    figure = entry_of(nasty, "forest").plot(entry_of(nasty, "forest").prepare(nasty))
    piece = Piece(kind="figure", title="t", drawn=keep_drawn(figure, frame), show="table")
    filled = fill(Report(pieces=(piece,)))
    page = report_html(Report(), filled)
    assert page.count("<tr>") == MOST_ROWS + 1
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 50} rows" in page
    assert 'class="plot"' not in page


def test_everything_without_chrome_says_what_is_missing(made, monkeypatch):
    def no_chrome(*_, **__):
        raise RenderError("needs Chrome. Install it, or save the figure as HTML.")

    monkeypatch.setattr(files, "render", no_chrome)
    archive = zipfile.ZipFile(io.BytesIO(files.zipped(files.everything(*made[:2], "svg", "single"))))
    names = archive.namelist()
    assert {"report.html", "captions.txt", "figures-missing.txt"} <= set(names)
    assert b"Install it" in archive.read("figures-missing.txt")
    assert sum(n.endswith(".py") for n in names) == 2
    assert not [n for n in names if "/" in n or "\\" in n or n.startswith(".")]


def test_a_wrong_format_is_refused(made):
    with pytest.raises(InputError):
        list(files.figure_files(made[1], "bmp", "single"))


def test_tables_are_counted_apart_from_figures_and_come_out_whole():
    frame = pd.DataFrame({"arm": ["dsi", MARKUP], "shift": [0.25, float("nan")]})
    pieces = (
        table_piece(f"Arms {MARKUP}", frame, f"Run {MARKUP}."),
        Piece(kind="figure", title="forest", run="recorded:dialogue/run", entry="forest"),
        table_piece("More", frame, ""),
    )
    report = Report(pieces=pieces)
    made = fill(report)
    assert [m.label for m in made] == ["Table 1", "Figure 1", "Table 2"]
    page = report_html(report, made)
    reader = Seen()
    reader.feed(page)
    ids = [attrs.get("id") for tag, attrs in reader.tags if tag == "figure"]
    assert ids == ["table-1", "figure-1", "table-2"]
    assert "img" not in [tag for tag, _ in reader.tags]
    assert sum(tag == "table" for tag, _ in reader.tags) == 3  # two are shown, the figure's is folded
    held = dict(files.data_files(made))
    assert held[f"{made[0].name}.csv"].decode("utf-8-sig").splitlines()[0] == '"arm","shift"'
    assert json.loads(held[f"{made[2].name}.json"])["table"] == 2
    assert json.loads(held[f"{made[2].name}.json"])["rows"][1][1] is None
    assert files.caption_file(made)[1].decode().startswith("Table 1. Arms ")
    assert len({m.name for m in made}) == 3


def test_a_table_is_held_once_and_a_large_one_is_refused():
    frame = pd.DataFrame({"a": [1, 2]})
    once = Report().added(table_piece("A", frame, "x")).added(table_piece("A", frame, "x"))
    assert len(once.pieces) == 1
    assert len(once.added(table_piece("A", frame + 1, "x")).pieces) == 2
    with pytest.raises(InputError, match=r"table takes 3\.\d MB.*CSV"):
        table_piece("A", pd.DataFrame({"a": ["x" * 1000] * 3100}), "")


def test_a_report_opens_with_what_was_tested_what_moved_and_what_to_do(nasty):
    naive = Source(find_run("recorded:dialogue/naive"))
    shift = naive.table("metrics").query("metric == 'shift' and defense == 'none'").dropna(subset=["value"])
    clear = shift[(shift["lower"] > 0) | (shift["upper"] < 0)]
    figures = tuple(Piece(kind="figure", run=run, entry="forest") for run in ("naive", "nasty"))
    report = Report(pieces=(*figures, Piece(kind="figure", run="naive", entry="dumbbells")))
    tested, moved, todo = summary(report, lambda run: naive if run == "naive" else nasty)
    assert tested.count("Attacks") == 2  # three figures of two runs
    assert f"{clear['value'].abs().max():.2f}"[:3] in moved  # the largest that is told from zero
    assert "defense" in todo
    assert summary(Report(), lambda _: naive) == []
    page = Seen()
    page.feed(report_html(report, [], (tested, moved, todo)))
    assert page.tags.count(("script", {})) == 2  # the data's name is markup and stays text
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert todo in " ".join(page.text)
