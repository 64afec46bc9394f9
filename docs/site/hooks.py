"""Pages that the documentation site makes from the code, and the files of the repository that its pages link to.

The README is the front page. Nothing here is a second copy: command line, glossary and formulas are read where the
program reads them, and a link that leaves docs/ brings the file it leads to into the site.
"""

from __future__ import annotations

import argparse
import html
import logging
import posixpath
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
FRONT = {"README.md": "index.md"}
"""Files of the repository that have another name in the site."""
BROUGHT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Files of the repository that are pages whether or not a page links to them, where they exist."""
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=[)\s])")


# Pages made from the code.


def made_pages() -> dict[str, str]:
    """Path in the site -> Markdown."""
    return {
        "reference/api.md": python_api(),
        "reference/cli.md": command_line(),
        "glossary.md": glossary(),
        "methods.md": methods(),
    }


def python_api() -> str:
    """The stable names of judgescope.py: functions, then what they return, then errors."""
    import judgescope

    def order(name: str) -> tuple[bool, bool, int]:
        own = getattr(judgescope, name)
        kind = isinstance(own, type)
        return kind and issubclass(own, Exception), kind, list(vars(judgescope)).index(name)

    names = sorted((name for name in judgescope.__all__ if not name.startswith("__")), key=order)
    parts = [f"::: {getattr(judgescope, name).__module__}.{name}" for name in names]
    return "\n\n".join(["# Python API", judgescope.__doc__ or "", *parts])


def command_line() -> str:
    """Every command with its options, from the parsers themselves."""
    from engine.cli.bench import BENCHES
    from engine.cli.main import COMMANDS, parser_of
    from engine.cli.main import __doc__ as about

    out = ["# Command line", *(part.strip() for part in (about or "").split("\n\n"))]
    for name, words in COMMANDS.items():
        whole = parser_of([name, *(BENCHES if name == "bench" else ())])
        for parser, told in _under(dict(_children(whole))[name][0], words):
            depth = min(len(parser.prog.split()), 4)
            out += [
                f"{'#' * depth} {parser.prog}",
                _sentence(parser.description or told),
                f"```text\n{_usage(parser)}\n```",
                _options(parser),
            ]
    return "\n\n".join(part for part in out if part)


def _children(parser: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[argparse.ArgumentParser, str]]]:
    """Name of each command under a parser -> its parser and what is said of it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}
            yield from ((name, (one, said.get(name, ""))) for name, one in action.choices.items())


def _under(parser: argparse.ArgumentParser, told: str) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """The parser and all below it, each with what is said of it."""
    yield parser, told
    for _, (child, about) in _children(parser):
        yield from _under(child, about)


def _usage(parser: argparse.ArgumentParser) -> str:
    """The command with its arguments and with the options that it needs."""
    words = [parser.prog]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words.append(action.metavar or "COMMAND")
        elif not action.option_strings:
            name = _value(action)
            words.append({"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [...]"}.get(str(action.nargs), name))
        elif action.required:
            words.append(f"{action.option_strings[0]} {_value(action)}")
    return " ".join([*words, "[options]"])


def _options(parser: argparse.ArgumentParser) -> str:
    """Arguments and options as an HTML table; empty where there are none but --help."""
    rows = []
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        named = ", ".join(action.option_strings) or _value(action)
        takes = "" if action.nargs == 0 or not action.option_strings else f" {_value(action)}"
        about = (action.help or "") % {**vars(action), "prog": parser.prog}
        rows.append(f"<tr><td><code>{_safe(named + takes)}</code></td><td>{_safe(about)}</td></tr>")
    return f"<table class='options'>\n{chr(10).join(rows)}\n</table>" if rows else ""


def _value(action: argparse.Action) -> str:
    """What an argument or an option takes, in capitals or as its choices."""
    if action.metavar:
        return " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def glossary() -> str:
    """The words that the dashboard explains."""
    from dashboard.glossary import TERMS

    told = "\n".join(f"<dt>{_safe(term)}</dt><dd>{_safe(about)}</dd>" for term, about in TERMS.items())
    return f"# Glossary\n\nThe words that the dashboard explains where they stand.\n\n<dl>\n{told}\n</dl>"


def methods() -> str:
    """The formulas of the page What holds, as MathML."""
    logging.disable(logging.WARNING)  # Streamlit warns, when it is imported, that no server runs
    from dashboard.linked_run import FILES, TITLES

    logging.disable(logging.NOTSET)
    from engine.report.methods import formulas

    out = ["# Methods", "Each number of the product: formula, meaning, source, limits."]
    for topic, group in groupby(formulas(ROOT / "assets"), key=lambda one: one.topic):
        out.append(f"## {topic}")
        for one in group:
            facts = {"Unit": one.unit, "Source": one.source, "Limits": one.limits}
            told = "".join(f"<dt>{name}</dt><dd>{_safe(words)}</dd>" for name, words in facts.items())
            page = f"how-to/{one.page}.md"
            out += [
                f"### {one.name}",
                f"<div class='equation'>{math(one.tex)}</div>",
                f"<p>{_safe(one.text)}</p>",
                f"<dl class='facts'>{told}</dl>",
                f"Page: [{TITLES[FILES[one.page]]}]({page})",
            ]
    return "\n\n".join(out)


def math(tex: str) -> str:
    """A formula as MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert

    return convert(tex, display="block")


def _sentence(words: str) -> str:
    said = _safe(words.strip())
    return said[:1].upper() + said[1:] + ("" if said.endswith((".", "?", "!")) else ".") if said else ""


def _safe(words: str) -> str:
    """Text that is neither HTML nor Markdown."""
    return re.sub(r"([\\`*_{}\[\]|])", lambda found: f"&#{ord(found[1])};", html.escape(words))


# Files of the repository.


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the made pages, and what pages link to outside docs/."""
    from mkdocs.structure.files import File

    for uri, text in made_pages().items():
        files.append(File.generated(config, uri, content=text))
    waiting = [name for name in BROUGHT if (ROOT / name).is_file()]
    for file in files.documentation_pages():
        waiting += _outside(DOCS + file.src_uri, file.content_string)
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        files.append(File.generated(config, FRONT.get(path, path), abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            waiting += _outside(path, (ROOT / path).read_text(encoding="utf-8"))
    return files


def _outside(path: str, text: str) -> list[str]:
    """Files of the repository outside docs/ that a page links to."""
    found = (_target(path, link[1]) for link in _LINK.finditer(text))
    return [target for target in found if not target.startswith((DOCS, "..")) and (ROOT / target).is_file()]


def _target(path: str, link: str) -> str:
    """The file of the repository that a link in one of its files leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Links as they are in the repository, turned into links of the site."""
    uri, source = page.file.src_uri, page.file.abs_src_path
    path = Path(source).relative_to(ROOT).as_posix() if source else DOCS + uri

    def moved(found: re.Match[str]) -> str:
        target = _target(path, found[1])
        inside = FRONT.get(target, target.removeprefix(DOCS))
        if files.get_file_from_path(inside) is None:
            return found[0]  # mkdocs says that it leads nowhere
        return posixpath.relpath(inside, posixpath.dirname(uri) or ".") + (found[2] or "")

    return _LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Pictures open at full size; only those on the screen are fetched."""
    return re.sub(r'<img ([^>]*?)src="([^"]+)"([^>]*?)/?>', r'<a href="\2"><img \1src="\2"\3 loading="lazy"></a>', html)
