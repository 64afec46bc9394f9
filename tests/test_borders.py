"""The import rules of the project, checked from the source text, and what importing a page must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

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
    "engine.doctor": PLAIN | {"engine.models", "engine.figures"},
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


def imported(path: Path) -> list[tuple[int, str]]:
    """(line, absolute module) of every import, also inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            head = node.module or ""
            found += [
                (node.lineno, f"{head}.{a.name}" if head in {"engine", "dashboard"} else head) for a in node.names
            ]
    return found


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


UNSAFE = ("unsafe_allow_html=True", "import pickle", "torch.load(", "trust_remote_code=True", "allow_pickle=True")
ENGINE = sorted((ROOT / "engine").rglob("*.py"))
DASHBOARD = sorted((ROOT / "dashboard").rglob("*.py"))


@pytest.mark.parametrize("path", ENGINE, ids=name_of)
def test_engine_part_imports_only_what_it_may(path: Path):
    here = part_of(name_of(path))
    for line, module in imported(path):
        where = f"{path.relative_to(ROOT)}:{line} imports {module}"
        assert module.split(".")[0] not in {"streamlit", "dashboard"}, where
        if module.split(".")[0] != "engine" or here in COMPOSERS or here == "engine":
            continue
        other = part_of(module)
        assert here in MAY_IMPORT, f"{here} is not in the border table"
        assert other == here or other in MAY_IMPORT[here], f"{where}; allowed: {sorted(MAY_IMPORT[here])}"
        if here in ONLY_BASE and other == "engine.judges":
            assert module == "engine.judges.base", f"{where}: only the protocol"


@pytest.mark.parametrize("path", DASHBOARD, ids=name_of)
def test_dashboard_imports_only_the_open_parts_of_the_engine(path: Path):
    for line, module in imported(path):
        where = f"{path.relative_to(ROOT)}:{line} imports {module}"
        assert module.split(".")[0] not in {"torch", "transformers"}, where
        if module.startswith("engine."):
            assert part_of(module) in DASHBOARD_MAY, where


@pytest.mark.parametrize("path", [*ENGINE, *DASHBOARD], ids=name_of)
def test_house_sizes(path: Path):
    text = path.read_text(encoding="utf-8")
    limit = 80 if "app_pages" in path.parts else 400
    assert text.count("\n") <= limit, f"{path.name}: more than {limit} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= 60, f"{path.name}:{node.lineno} {node.name}: {size} lines"


@pytest.mark.parametrize("path", [*ENGINE, *DASHBOARD], ids=name_of)
def test_nothing_unsafe_is_called(path: Path):
    text = path.read_text(encoding="utf-8")
    for bad in (
        "unsafe_allow_html=True",
        "import pickle",
        "torch.load(",
        "trust_remote_code=True",
        "allow_pickle=True",
    ):
        assert bad not in text, f"{path.name} contains {bad}"


def loaded_after(imports: str) -> str:
    code = f"import sys\n{imports}\nprint([m for m in ('torch', 'transformers', 'peft') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_light_modules_do_not_load_torch(module: str):
    parts = [name_of(p) for p in ENGINE if name_of(p) == module or name_of(p).startswith(module + ".")]
    assert loaded_after("\n".join(f"import {p}" for p in parts)) == "[]"


@pytest.mark.parametrize("path", sorted((ROOT / "dashboard" / "app_pages").glob("[!_]*.py")), ids=name_of)
def test_opening_a_page_does_not_load_torch(path: Path):
    script = (
        "from streamlit.testing.v1 import AppTest\n"
        f"at = AppTest.from_file({str(ROOT / 'dashboard' / 'app.py')!r}, default_timeout=60).run()\n"
        f"at.switch_page('app_pages/{path.name}').run()\n"
        "assert not at.exception, at.exception"
    )
    assert loaded_after(script) == "[]"
