"""`judgescope figures RUN`: the figures of a run as files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.cli import add_json
from engine.core.errors import InputError, RunError
from engine.core.plugins import absent
from engine.plots.export import COLUMNS, fitting, render, stop
from engine.report.basket import Piece, Report
from engine.report.content import Filled, fill
from engine.report.export import FORMATS, caption_file, data_files, report_html, script_files
from engine.runs.folder import PLUGINS
from engine.studies.figure import FigureSpec, Source
from engine.studies.registry import entries, entry_of, name_of, run_at, settings_given, study_of

HTML = "html"


def add(commands: Any) -> None:
    """Add the command."""
    figures = commands.add_parser("figures", help="save the figures of a run for a paper or as one HTML page")
    figures.add_argument(
        "name", metavar="RUN", help="a run folder, the id of a run, or recorded:PLACE of a shipped one"
    )
    figures.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR", help="where the files go")
    figures.add_argument("--format", choices=[*FORMATS, HTML], default=FORMATS[0])
    figures.add_argument("--figure", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    figures.add_argument("--columns", choices=COLUMNS, default=COLUMNS[0], help="85 or 170 mm wide")
    figures.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the figures")
    figures.add_argument("--list", action="store_true", help="only list the figures of the run with their settings")
    add_json(figures)
    figures.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Draw and save, or list."""
    try:
        folder = run_at(args.name)
    except RunError as error:
        raise InputError(str(error)) from None
    source = Source(folder)
    found = [entry_of(source, name) for name in args.figure] or entries(source)
    if not found:
        lacks = absent(source.manifest.get(PLUGINS)) if study_of(source) is None else ""
        why = f"has no figures: {lacks}" if lacks else "has no figures yet."
        raise InputError(f"The run {folder.run_id} (study {_study_name(source)!r}) {why}")
    if args.list:
        return _list(source, found)
    named = name_of(folder)
    given = _settings(source, found, settings_given(args.set))
    pieces = [
        Piece(kind="figure", title=entry.title, run=named, entry=entry.name, settings=given[entry.name])
        for entry in found
    ]
    report = Report(title=f"Run {folder.run_id}", pieces=tuple(pieces))
    made = fill(report, lambda _: source)
    for piece in made:
        if piece.problem:
            raise InputError(piece.problem)
    files = _save(report, made, args)
    print(f"{len(files)} files of {len(made)} figures in {args.out}.")
    return {"run_id": folder.run_id, "figures": [p.piece.entry for p in made], "files": files}


def _settings(source: Source, found: list[FigureSpec], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of each figure; one that no figure has is an error, one that some lack is theirs to ignore.

    Raises:
        InputError: see above, or a value is not allowed.
    """
    known = {setting.name for entry in found for setting in entry.settings}
    if unknown := sorted(given.keys() - known):
        have = ", ".join(sorted(known)) or "none"
        raise InputError(f"--set {unknown[0]}: none of these figures has this setting; they have: {have}.")
    return {
        entry.name: entry.values(source, {d.name: given[d.name] for d in entry.settings if d.name in given})
        for entry in found
    }


def _study_name(source: Source) -> str:
    study = study_of(source)
    return study.names[0] if study else str(source.manifest.get("study", ""))


def _list(source: Source, found: list[FigureSpec]) -> dict[str, Any]:
    out = []
    for entry in found:
        settings = entry.values(source)
        said = ", ".join(f"{k}={v}" for k, v in settings.items())
        print(f"{entry.name:<14} {entry.title}" + (f"  [{said}]" if said else ""))
        out.append({"name": entry.name, "title": entry.title, "settings": settings})
    return {"run_id": source.folder.run_id, "study": _study_name(source), "figures": out}


def _save(report: Report, made: list[Filled], args: argparse.Namespace) -> list[str]:
    """Write the files, each named after its figure; returns their names."""
    args.out.mkdir(parents=True, exist_ok=True)
    names: list[str] = []

    def write(name: str, content: bytes) -> None:
        (args.out / name).write_bytes(content)
        names.append(name)

    if args.format == HTML:
        write("figures.html", report_html(report, made).encode("utf-8"))
    else:
        try:
            for piece in made:
                _draw(piece, args, write)
        finally:
            stop()
    for name, content in (*data_files(made), *script_files(made), caption_file(made)):
        write(name, content)
    return names


def _draw(piece: Filled, args: argparse.Namespace, write: Any) -> None:
    assert piece.figure is not None
    write(f"{piece.name}.{args.format}", render(piece.figure, args.format, columns=args.columns))
    used = fitting(piece.figure, args.columns)
    note = "" if used == args.columns else ", too wide for one column, so over two"
    print(f"{piece.name}.{args.format}: {piece.title}{note}")
