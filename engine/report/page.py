"""A report as one HTML file: plotly.js inside it once, a policy that lets nothing else run, no request to anywhere.

Everything a user or a model wrote is escaped where it stands in the markup, and JSON where it stands in a script
block; the policy then allows exactly the two scripts of this page by their digests, so that a slip would not run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import plotly

from engine.report.basket import Report
from engine.report.filled import Filled
from engine.report.tables import strict_table
from engine.runs import now, versions
from engine.spreadsheet import safe_csv

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


def report_html(report: Report, pieces: Sequence[Filled]) -> str:
    """The whole report in one file, about 5 MB for plotly.js and the figures on top.

    Args:
        report: title and authors.
        pieces: from `engine.report.filled.fill`, in light colours.
    """
    library, version = _library(), versions()["judgescope"]
    policy = (
        f"default-src 'none'; script-src {_digest(library)} {_digest(_DRAW)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )
    title = report.title.strip() or "Report"
    body = "\n".join(_piece(piece) for piece in pieces)
    authors = f'<p class="authors">{_safe(report.authors)}</p>' if report.authors.strip() else ""
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
<p class="made">Made with JudgeScope {version} on {now()[:10]}. Nothing in this file calls out.</p>
{body}
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
