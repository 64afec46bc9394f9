"""The documentation against the code: every name, page, command and link of it."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import judgescope
from dashboard.glossary import TERMS
from dashboard.linked_run import PAGES
from engine.catalog import ATTACKS, DEFENSES
from engine.cli.bench import BENCHES
from engine.cli.main import COMMANDS, parser_of
from engine.core.schema import NONE
from engine.report.methods import formulas

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
GUIDES = sorted([*(DOCS / "how-to").glob("*.md"), DOCS / "tutorial.md"])
TOLD = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PARTS = ["## You need", "## Steps", "## Read the picture", "## Command"]


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site" / "hooks.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("names", [ATTACKS, DEFENSES], ids=["attacks", "defenses"])
def test_every_attack_and_defense_is_documented(names):
    text = (DOCS / "attacks-and-defenses.md").read_text(encoding="utf-8")
    told = {re.split(r"[?:]", name)[0] for name in re.findall(r"`([a-z-]+[^`]*)`", text)}
    assert sorted({name.partition("?")[0] for name in names} - told - {NONE}) == []


def test_every_page_has_a_guide_with_all_parts_and_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    titles = {end or "start": title for title, _, end in PAGES.values()}
    assert {path.stem for path in GUIDES} == {*titles, "tutorial"}
    for end, title in titles.items():
        text = (DOCS / "how-to" / f"{end}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {title}\n"), end
        assert [line for line in text.splitlines() if line.startswith("## ")] == PARTS, end
        assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) == 3, end
        assert f"how-to/{end}.md" in menu, end


def test_pictures_are_shown_and_small():
    shown = {name for path in GUIDES for name in re.findall(r"pictures/([a-z-]+)\.webp", path.read_text("utf-8"))}
    assert {path.stem for path in PICTURES.glob("*")} == shown
    assert sum(path.stat().st_size for path in PICTURES.glob("*")) < 2_500_000


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_every_command_of_a_guide_is_one(path):
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("judgescope ")]
    assert lines
    for line in lines:
        argv = shlex.split(line)[1:]
        parser_of(argv).parse_args(argv)  # an unknown option ends the test


def test_every_link_leads_to_a_file_of_the_repository():
    for path in TOLD:
        for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.relative_to(ROOT)}: {link}"


def test_the_reference_of_the_command_line_has_every_command_and_option(hooks):
    text = hooks.command_line()
    headings = {line.lstrip("# ") for line in text.splitlines() if line.startswith("#")}
    assert {f"judgescope {name}" for name in COMMANDS} <= headings
    assert {f"judgescope bench {name}" for name in BENCHES} <= headings
    assert {"judgescope runs compare", "judgescope label import"} <= headings
    assert "--budget-seconds" in text


def test_glossary_and_methods_have_every_entry(hooks):
    glossary = hooks.glossary()
    assert [term for term in TERMS if f"<dt>{hooks._safe(term)}</dt>" not in glossary] == []
    pytest.importorskip("latex2mathml", reason="`make docs` installs it")
    methods = hooks.methods()
    assert [one.name for one in formulas(ROOT / "assets") if f"### {one.name}\n" not in methods] == []
    assert methods.count("</math>") == len(formulas(ROOT / "assets"))


def test_links_of_the_repository_are_found_from_where_they_stand(hooks):
    assert hooks._target("docs/trust.md", "../assets/judge/README.md") == "assets/judge/README.md"
    assert hooks._target("README.md", "docs/trust.md") == "docs/trust.md"
    found = hooks._outside("docs/a.md", "[x](../LICENSE) [y](b.md) [z](../../etc) [w](https://a.b/c)")
    assert found == ["LICENSE"]


@pytest.mark.slow
def test_the_site_builds_strictly_has_every_stable_name_and_asks_no_other_host(tmp_path):
    pytest.importorskip("mkdocs", reason="`make docs` installs it")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    api = (tmp_path / "reference" / "api.html").read_text(encoding="utf-8")
    names = [name for name in judgescope.__all__ if not name.startswith("__")]
    assert [name for name in names if not re.search(rf'id="[a-z.]*\.{name}"', api)] == []
    for page in tmp_path.rglob("*.html"):
        loads = re.findall(
            r"<(?:script|img|iframe|source)[^>]*\bsrc=\"?(?:https?:)?//[^\s>]*", text := page.read_text()
        )
        loads += re.findall(r"<link[^>]*\bhref=\"?(?:https?:)?//[^\s>]*", text)
        assert loads == [], page.name
