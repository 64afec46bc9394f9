"""The import rules of the project, checked from the source text, and what importing a page must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = {"engine.core"}
MODELS = {"engine.core", "engine.inference"}
# What several studies share, below every study.
SHARED = {
    "engine.studies.study",
    "engine.studies.figure",
    "engine.studies.running",
    "engine.studies.anchors",
    "engine.studies.rewrites",
    "engine.studies.suffix_targets",
}
BELOW_STUDIES = MODELS | {
    "engine.stats", "engine.plots", "engine.data", "engine.runs", "engine.judges", "engine.attacks", "engine.defenses",
    "engine.steering", "engine.transport", "engine.catalog",
}  # fmt: skip
# What each room may import from the project besides itself; a room that is not listed may import nothing.
MAY_IMPORT: dict[str, set[str]] = {
    "engine.core": set(),
    "engine.stats": CORE,
    "engine.plots": CORE,
    "engine.data": CORE,
    # comparing two runs: their tests, their rows matched; the registry knows the tables of each study
    "engine.runs": CORE | {"engine.stats", "engine.data", "engine.studies.registry"},
    "engine.inference": CORE,
    "engine.judges": MODELS | {"engine.data"},  # data: recorded verdict files
    "engine.attacks": MODELS | {"engine.judges"},  # inference: a phrase is learned on a model
    "engine.defenses": MODELS | {"engine.judges"},
    "engine.steering": MODELS,
    "engine.transport": MODELS | {"engine.data"},  # data: vectors of the user's own
    # inference: which models and servers there are; test_light_modules sees to it that none is loaded
    "engine.catalog": MODELS | {"engine.attacks", "engine.defenses", "engine.judges", "engine.transport"},
    "engine.report": CORE | {"engine.runs", "engine.plots", "engine.studies.figure", "engine.studies.registry"},
    "engine.training": MODELS | {"engine.judges", "engine.data", "engine.attacks"},  # attacks: format rules
}
# The claims are decided from other studies' runs, which they know by name alone.
MAY_IMPORT_TOO = {"engine.studies.claims.run": {"engine.studies.registry"}}
# These put the rooms together.
COMPOSERS = {"engine.jobs", "engine.cli", "engine.bench", "engine.studies.registry", "engine.studies.retry"}
# Nothing but themselves and the command that starts a benchmark imports these.
OUTSIDE = {"engine.bench": {"engine.cli"}, "engine.training": {"engine.bench"}}
# Parts of a study that read stored tables: no model, so the dashboard may use them.
READING = {"study", "metrics", "figures", "steering_figures", "drawings", "scores", "leaderboard", "rows",
           "advice", "references"}  # fmt: skip
DASHBOARD_MAY = {
    "engine.core", "engine.stats", "engine.plots", "engine.data", "engine.runs", "engine.report", "engine.catalog",
    "engine.jobs.manager", "engine.studies.registry", "engine.studies.figure", "engine.studies.study",
}  # fmt: skip
WITHOUT_TORCH = (
    "engine.core", "engine.stats", "engine.plots", "engine.runs", "engine.jobs.manager", "engine.catalog",
    "engine.report", "engine.studies.figure", "engine.studies.study", "engine.studies.registry",
)  # fmt: skip
# Attacks and defenses know the Judge protocol, never a concrete judge.
ONLY_BASE = {"engine.attacks", "engine.defenses"}


def part_of(module: str) -> str:
    """The room of a module: a package of the engine, or one study."""
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[:2] == ["engine", "studies"] else 2])


def reads_only(module: str) -> bool:
    """Whether it is a part of a study that needs no model."""
    parts = module.split(".")
    return len(parts) > 3 and parts[:2] == ["engine", "studies"] and parts[3] in READING


@cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    """A file's text and its tree."""
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


@cache
def is_package(module: str) -> bool:
    return (ROOT.joinpath(*module.split(".")) / "__init__.py").is_file()


@cache
def imported(path: Path) -> list[tuple[str, str]]:
    """(place, absolute module) of every import, also inside functions."""
    found = []
    for node in ast.walk(parsed(path)[1]):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            head = node.module or ""
            deeper = {"engine", "dashboard", "engine.studies", "engine.jobs"}
            names = [f"{head}.{a.name}" if head in deeper or is_package(head) else head for a in node.names]
        else:
            continue
        found += [(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}", name) for name in names]
    return found


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


UNSAFE = ("unsafe_allow_html=True", "import pickle", "torch.load(", "trust_remote_code=True", "allow_pickle=True")
ENGINE = sorted((ROOT / "engine").rglob("*.py"))
DASHBOARD = sorted((ROOT / "dashboard").rglob("*.py"))
PAGES = sorted((ROOT / "dashboard" / "pages").glob("*/page.py"))


def test_every_file_is_looked_at():
    """The rules below hold for nothing at all where a folder has moved."""
    assert len(ENGINE) > 150
    assert len(DASHBOARD) > 50
    assert len(PAGES) > 10


def allowed(here: str, other: str) -> bool:
    """Whether one room may import another."""
    if here in COMPOSERS:
        return other not in OUTSIDE or here in OUTSIDE[other]
    if here.startswith("engine.studies."):
        return other in BELOW_STUDIES | SHARED
    return other in MAY_IMPORT.get(here, set())


def offences_of_the_engine(path: Path) -> Iterator[str]:
    here = part_of(name_of(path))
    for where, module in imported(path):
        if module.split(".")[0] in {"streamlit", "dashboard"}:
            yield where
        other = part_of(module)
        if module.split(".")[0] != "engine" or other == here or here == "engine" or module == "engine.__version__":
            continue
        if not allowed(here, other) and other not in MAY_IMPORT_TOO.get(name_of(path), set()):
            yield f"{where}; {here} may not import {other}"
        if here in ONLY_BASE and other == "engine.judges" and not module.startswith("engine.judges.base"):
            yield f"{where}: only the protocol"


def test_an_engine_part_imports_only_what_it_may():
    assert [offence for path in ENGINE for offence in offences_of_the_engine(path)] == []


def test_the_dashboard_imports_only_the_open_parts_of_the_engine():
    found = []
    for where, module in (one for path in DASHBOARD for one in imported(path)):
        heavy = module.split(".")[0] in {"torch", "transformers"}
        closed = not any(f"{module}.".startswith(f"{may}.") for may in DASHBOARD_MAY) and not reads_only(module)
        if heavy or (module.startswith("engine.") and closed):
            found.append(where)
    assert found == []


def test_house_sizes():
    found = []
    for path in (*ENGINE, *DASHBOARD):
        text, tree = parsed(path)
        if text.count("\n") > 700:
            found.append(f"{name_of(path)}: more than 700 lines")
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > 60:
                    found.append(f"{name_of(path)}:{node.lineno} {node.name}: {size} lines")
    assert found == []


def test_nothing_unsafe_is_called():
    assert [f"{name_of(p)}: {bad}" for p in (*ENGINE, *DASHBOARD) for bad in UNSAFE if bad in parsed(p)[0]] == []


def loaded(steps: list[str]) -> list[str]:
    """The first step, in a process of its own, after which a model library is loaded; empty if none is."""
    code = [
        "import sys",
        "def look(step):",
        "    heavy = [m for m in ('torch', 'transformers', 'peft') if m in sys.modules]",
        "    if heavy: print(f'{step} loads {heavy}'); raise SystemExit",
        *(line for step in steps for line in (step, f"look({step!r})")),
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_light_modules_load_no_model_library():
    names = [name_of(p) for p in ENGINE]
    parts = [n for n in names if reads_only(n) or any(f"{n}.".startswith(f"{m}.") for m in WITHOUT_TORCH)]
    worker = "from engine.jobs.worker import _device, get_settings; assert _device(get_settings()) == 'cpu'"
    assert loaded([*(f"import {p}" for p in parts), worker]) == []


def test_the_look_for_a_model_library_finds_one():
    assert loaded(["import json", "import torch"]) == ["import torch loads ['torch']"]


def test_the_dashboard_loads_no_model_library():
    """Every module of it imported, and every page opened."""
    own = [name_of(p) for p in DASHBOARD if p not in PAGES and p.name != "app.py"]
    app = f"""import streamlit as st
from streamlit.testing.v1 import AppTest
st.config.set_option("client.showErrorDetails", "full")
at = AppTest.from_file({str(ROOT / "dashboard" / "app.py")!r}, default_timeout=300)
at.query_params["judge"] = "planted:constant?value=3"
at.run()
assert not at.exception, at.exception
def opened(page):
    at.switch_page(page).run()
    assert not at.exception, (page, at.exception)"""
    assert (
        loaded([*(f"import {m}" for m in own), app, *(f"opened('pages/{p.parent.name}/page.py')" for p in PAGES)]) == []
    )
