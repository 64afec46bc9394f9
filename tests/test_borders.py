"""The import rules of the project, checked from the source text, and what importing a page must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLAIN = {
    "engine.schema",
    "engine.schema_audit",
    "engine.schema_cap",
    "engine.schema_checkup",
    "engine.schema_refswap",
    "engine.errors",
    "engine.settings",
    "engine.settings_api",
    "engine.strict_json",
    "engine.spreadsheet",
}
# What each part may import from the project besides itself; a part that is not listed may import nothing.
MAY_IMPORT: dict[str, set[str]] = {
    "engine.schema": {"engine.errors"},
    "engine.schema_cap": {"engine.schema"},
    "engine.schema_checkup": {"engine.schema"},
    "engine.schema_refswap": {"engine.schema"},
    "engine.errors": set(),
    "engine.settings": {"engine.errors"},
    "engine.settings_api": {"engine.errors", "engine.settings"},
    "engine.strict_json": set(),
    "engine.spreadsheet": set(),
    "engine.cache": {"engine.errors"},
    "engine.runs": PLAIN,
    "engine.runs_kept": PLAIN | {"engine.runs"},
    "engine.runs_facts": PLAIN | {"engine.runs"},
    "engine.runs_zip": PLAIN | {"engine.runs", "engine.runs_kept"},
    "engine.data": PLAIN,
    "engine.models": PLAIN,
    "engine.judges": PLAIN | {"engine.models", "engine.cache", "engine.data"},  # data: recorded verdict files
    "engine.attacks": PLAIN | {"engine.judges", "engine.models"},  # models: a phrase is learned on one
    "engine.defenses": PLAIN | {"engine.judges", "engine.models", "engine.cache"},
    "engine.steering": PLAIN | {"engine.models", "engine.cache"},
    "engine.schema_audit": {"engine.schema"},
    "engine.transport": PLAIN | {"engine.models", "engine.cache", "engine.data", "engine.readout"},  # data: vectors
    "engine.projection": {"engine.errors"},
    "engine.readout": PLAIN,
    "engine.metrics": PLAIN | {"engine.readout"},  # metrics put intervals around what a readout reduces
    "engine.figures": PLAIN,
    # what a run folder alone can show: tables through metrics and readouts into figures, with the catalog's names
    "engine.gallery": PLAIN
    | {"engine.runs", "engine.runs_kept", "engine.readout", "engine.metrics", "engine.figures", "engine.catalog"}
    | {"engine.data"},
    "engine.report": PLAIN | {"engine.runs", "engine.gallery", "engine.figures"},
    "engine.training": PLAIN | {"engine.models", "engine.judges"},
    "engine.catalog": {
        "engine.attacks",
        "engine.defenses",
        "engine.judges",
        "engine.schema",
        "engine.settings",  # where the user's saved judge cards lie
        "engine.transport",
    },
    "engine.methods": {"engine.errors"},
    "engine.doctor": PLAIN | {"engine.models", "engine.figures", "engine.transport"},  # transport: compiled ahead
    "engine.jobs": PLAIN | {"engine.runs"},
}
COMPOSERS = {"engine.studies", "engine.worker", "engine.cli", "engine.commands"}
DASHBOARD_MAY = PLAIN | {
    "engine.runs",
    "engine.runs_kept",  # torch-free: list, titles, tags, trash
    "engine.runs_facts",  # torch-free: what a run says of itself, and its problems
    "engine.runs_zip",  # torch-free: a run out and in
    "engine.jobs",
    "engine.readout",
    "engine.metrics",
    "engine.figures",
    "engine.projection",
    "engine.data",
    "engine.catalog",
    "engine.gallery",  # torch-free: reads run folders and draws
    "engine.methods",  # torch-free: committed words and result tables
    "engine.report",  # torch-free: the basket of figures and its exports
}
WITHOUT_TORCH = (
    "engine.methods",
    "engine.figures",
    "engine.metrics",
    "engine.schema",
    "engine.runs",
    "engine.jobs",
    "engine.catalog",
    "engine.gallery",
    "engine.report",
)
# Attacks and defenses know the Judge protocol, never a concrete judge.
ONLY_BASE = {"engine.attacks", "engine.defenses"}


def part_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


@cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    """A file's text and its tree."""
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


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
            names = [f"{head}.{a.name}" if head in {"engine", "dashboard"} else head for a in node.names]
        else:
            continue
        found += [(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}", name) for name in names]
    return found


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


UNSAFE = ("unsafe_allow_html=True", "import pickle", "torch.load(", "trust_remote_code=True", "allow_pickle=True")
ENGINE = sorted((ROOT / "engine").rglob("*.py"))
DASHBOARD = sorted((ROOT / "dashboard").rglob("*.py"))
PAGES = sorted((ROOT / "dashboard" / "app_pages").glob("[!_]*.py"))


def test_every_file_is_looked_at():
    """The rules below hold for nothing at all where a folder has moved."""
    assert len(ENGINE) > 200
    assert len(DASHBOARD) > 100
    assert len(PAGES) > 10


def offences_of_the_engine(path: Path) -> Iterator[str]:
    here = part_of(name_of(path))
    for where, module in imported(path):
        if module.split(".")[0] in {"streamlit", "dashboard"}:
            yield where
        if module.split(".")[0] != "engine" or here in COMPOSERS or here == "engine":
            continue
        other = part_of(module)
        if here not in MAY_IMPORT:
            yield f"{where}; {here} is not in the border table"
        elif other != here and other not in MAY_IMPORT[here]:
            yield f"{where}; allowed: {sorted(MAY_IMPORT[here])}"
        if here in ONLY_BASE and other == "engine.judges" and module != "engine.judges.base":
            yield f"{where}: only the protocol"


def test_an_engine_part_imports_only_what_it_may():
    assert [offence for path in ENGINE for offence in offences_of_the_engine(path)] == []


def test_the_dashboard_imports_only_the_open_parts_of_the_engine():
    found = []
    for where, module in (one for path in DASHBOARD for one in imported(path)):
        heavy = module.split(".")[0] in {"torch", "transformers"}
        if heavy or (module.startswith("engine.") and part_of(module) not in DASHBOARD_MAY):
            found.append(where)
    assert found == []


def test_house_sizes():
    found = []
    for path in (*ENGINE, *DASHBOARD):
        text, tree = parsed(path)
        limit = 80 if "app_pages" in path.parts else 400
        if text.count("\n") > limit:
            found.append(f"{name_of(path)}: more than {limit} lines")
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
    parts = [name_of(p) for p in ENGINE if any(f"{name_of(p)}.".startswith(f"{m}.") for m in WITHOUT_TORCH)]
    worker = "from engine.worker import _device, get_settings; assert _device(get_settings()) == 'cpu'"
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
    assert loaded([*(f"import {m}" for m in own), app, *(f"opened('app_pages/{p.name}')" for p in PAGES)]) == []
