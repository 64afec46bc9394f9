"""A report as one HTML file: plotly.js inside it once, a policy that lets nothing else run, no request to anywhere.

Everything a user or a model wrote is escaped where it stands in the markup, and JSON where it stands in a script
block; the policy then allows exactly the two scripts of this page by their digests, so that a slip would not run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import plotly

from engine.core.errors import EngineError
from engine.core.files import safe_csv
from engine.plots.export import render
from engine.report.basket import Report
from engine.report.content import Filled, strict_table
from engine.runs.folder import now, versions

MOST_ROWS = 200
"""Rows of a table that are shown; the download has all."""
_DRAW = """
for (const box of document.querySelectorAll(".plot")) {
  const spec = JSON.parse(document.getElementById(box.dataset.figure).textContent);
  const save = {format: "svg", filename: box.dataset.name};
  const config = {displaylogo: false, responsive: true, toImageButtonOptions: save};
  Plotly.newPlot(box, spec.data, spec.layout, config);
}
"""
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 "Source Sans 3", "Source Sans", system-ui, "Liberation Sans", Arial, sans-serif; color: #1b1e27;
  background: #fff; max-width: 52rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
.authors, .made, .where { color: #5a6170; margin: 0 0 .3rem; overflow-wrap: anywhere; }
.where, .made { font-size: .875rem; }
figure { margin: 2.2rem 0; border-top: 1px solid #d5dbe2; padding-top: .6rem; }
figcaption, .note { white-space: pre-wrap; overflow-wrap: anywhere; }
figcaption { margin: .4rem 0; }
.note { margin: 1.4rem 0; }
.problem { border-left: 4px solid #b3261e; padding-left: .8rem; overflow-wrap: anywhere; }
.summary { border: 1px solid #d5dbe2; border-radius: .4rem; padding: .2rem 1rem; overflow-wrap: anywhere; }
.summary h2 { font-size: 1.1rem; margin: .6rem 0 0; }
.summary p { margin: .5rem 0; }
.wide { overflow-x: auto; }
.plot { overflow: hidden; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .15rem .7rem .15rem 0; border-bottom: 1px solid #e8eaee; vertical-align: top; }
pre { overflow-x: auto; background: #f8fafb; border: 1px solid #d5dbe2; padding: .7rem; font-size: .8rem; }
summary { cursor: pointer; }
a { color: #2c5ac5; }
a:focus-visible, summary:focus-visible { outline: 2px solid #2c5ac5; outline-offset: 2px; }
@media print { details { display: none; } figure { break-inside: avoid; } body { max-width: none; } }
"""


def report_html(report: Report, pieces: Sequence[Filled], summary: Sequence[str] = ()) -> str:
    """The whole report in one file, about 5 MB for plotly.js and the figures on top.

    Args:
        report: title and authors.
        pieces: from `engine.report.content.fill`, in light colours.
        summary: the sentences it opens with, from `engine.report.summary`.
    """
    library, version = _library(), versions()["judgescope"]
    policy = (
        f"default-src 'none'; script-src {_digest(library)} {_digest(_DRAW)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )
    title = report.title.strip() or "Report"
    body = "\n".join(_piece(piece) for piece in pieces)
    authors = f'<p class="authors">{_safe(report.authors)}</p>' if report.authors.strip() else ""
    sentences = "\n".join(f'<p dir="auto">{_safe(sentence)}</p>' for sentence in summary)
    opening = f'<section class="summary"><h2>Summary</h2>\n{sentences}</section>' if summary else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="JudgeScope {version}">
<title>{_safe(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{_safe(title)}</h1>
{authors}
{opening}
{body}
<p class="made">Made with JudgeScope {version} on {now()[:10]}. Nothing in this file calls out.</p>
</main>
<script>{library}</script>
<script>{_DRAW}</script>
</body>
</html>
"""


def _library() -> str:
    """plotly.js of the installed package; it could close the script block only through a text, which is broken up."""
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    return script.read_text(encoding="utf-8").replace("</script", "<\\/script")


def _digest(script: str) -> str:
    held = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(held).decode()}'"


def _safe(text: str) -> str:
    return html.escape(text, quote=True)


def _json(text: str) -> str:
    """JSON that cannot end a script block or begin a comment in it."""
    for letter, code in (("<", "003c"), (">", "003e"), ("&", "0026"), ("\u2028", "2028"), ("\u2029", "2029")):
        text = text.replace(letter, f"\\u{code}")
    return text


def _piece(piece: Filled) -> str:
    if piece.piece.kind == "note":
        return f'<p class="note" dir="auto">{_safe(piece.piece.text)}</p>'
    name = piece.label
    if piece.problem:
        title = _safe(piece.title)
        return f'<figure><p class="problem">{name}, “{title}”, could not be made: {_safe(piece.problem)}</p></figure>'
    parts = [f'<figure id="{piece.piece.kind}-{piece.number}">']
    if piece.shows_figure:
        parts.append(_plot(piece))
    if piece.shows_table and piece.table is not None:
        parts.append(_table(piece.table))
    parts.append(f'<figcaption dir="auto"><strong>{name}.</strong> {_safe(piece.caption)}</figcaption>')
    parts.append(f'<p class="where">{_safe(piece.where)}</p>')
    parts.append(_downloads(piece))
    if piece.table is not None and not piece.shows_table:
        parts.append(f"<details><summary>Data</summary>{_table(piece.table)}</details>")
    if piece.script:
        parts.append(
            f"<details><summary>Script that makes it again</summary><pre>{_safe(piece.script)}</pre></details>"
        )
    return "\n".join([*parts, "</figure>"])


def _plot(piece: Filled) -> str:
    assert piece.figure is not None
    alt = str((piece.figure.layout.meta or {}).get("alt", piece.title))
    height = int(piece.figure.layout.height or 480)
    return (
        f'<div class="plot" role="img" aria-label="{_safe(html.unescape(alt))}" data-figure="data-{piece.number}" '
        f'data-name="{_safe(piece.name)}" style="height:{height}px"></div>\n'
        f'<script type="application/json" id="data-{piece.number}">{_json(str(piece.figure.to_json()))}</script>'
    )


def _table(table: pd.DataFrame) -> str:
    head = "".join(f"<th>{_safe(str(c))}</th>" for c in table.columns)
    shown = table.head(MOST_ROWS)
    rows = (
        "<tr>" + "".join(f'<td dir="auto">{_safe(_cell(v))}</td>' for v in row) + "</tr>"
        for row in shown.itertuples(index=False, name=None)
    )
    more = f"<p>The first {MOST_ROWS} of {len(table)} rows; the download has all.</p>" if len(table) > MOST_ROWS else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{more}'


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else ""
    if value is None or value is pd.NA:
        return ""
    return str(value)


def _downloads(piece: Filled) -> str:
    if piece.table is None:
        return ""
    files = [
        (f"{piece.name}.csv", "text/csv", safe_csv(piece.table)),
        (f"{piece.name}.json", "application/json", strict_table(piece).encode()),
    ]
    if piece.script:
        files.append((f"{piece.name}.py", "text/x-python", piece.script.encode()))
    links = " · ".join(
        f'<a download="{_safe(name)}" href="data:{kind};base64,{base64.b64encode(data).decode()}">{_safe(name)}</a>'
        for name, kind, data in files
    )
    return f'<p class="where">{links}</p>'


# A report as files: figures for paper, tables, scripts; in a folder or in one zip.

FORMATS = ("svg", "pdf", "png")
File = tuple[str, bytes]


def figure_files(pieces: Sequence[Filled], fmt: str, columns: str) -> Iterator[File]:
    """Every figure drawn for paper.

    Args:
        pieces: of a report.
        fmt: svg, pdf or png.
        columns: single or double.

    Raises:
        RenderError: Chrome is missing or failed.
        InputError: another format or width.
    """
    for piece in pieces:
        if piece.figure is not None:
            yield f"{piece.name}.{fmt}", render(piece.figure, fmt, columns=columns)


def data_files(pieces: Sequence[Filled]) -> Iterator[File]:
    """Every table as CSV that is safe for spreadsheets, and as strict JSON."""
    for piece in pieces:
        if piece.table is not None:
            yield f"{piece.name}.csv", safe_csv(piece.table)
            yield f"{piece.name}.json", strict_table(piece).encode("utf-8")


def script_files(pieces: Sequence[Filled]) -> Iterator[File]:
    """The script of every figure that can be made again."""
    for piece in pieces:
        if piece.script:
            yield f"{piece.name}.py", piece.script.encode("utf-8")


def caption_file(pieces: Sequence[Filled]) -> File:
    """Every caption as plain text."""
    said = [f"{p.label}. {p.caption}\n({p.where or p.problem})" for p in pieces if p.number]
    return "captions.txt", ("\n\n".join(said) + "\n").encode("utf-8")


def everything(
    report: Report, pieces: Sequence[Filled], fmt: str, columns: str, summary: Sequence[str] = ()
) -> Iterator[File]:
    """HTML, figures, tables, scripts and captions; without Chrome a text says what to do instead of the figures."""
    yield "report.html", report_html(report, pieces, summary).encode("utf-8")
    yield caption_file(pieces)
    yield from data_files(pieces)
    yield from script_files(pieces)
    try:
        yield from figure_files(pieces, fmt, columns)
    except EngineError as error:
        yield "figures-missing.txt", f"{error}\n".encode()


def zipped(files: Iterator[File]) -> bytes:
    """The files in one zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()
