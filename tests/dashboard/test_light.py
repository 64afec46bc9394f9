"""The Streamlit process never loads a model library."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "dashboard").rglob("*.py")
    if path.name != "__init__.py" and path.parent.name != "app_pages" and path.name != "app.py"
)
CHECK = """
import sys, ast, pathlib
{work}
heavy = sorted({{m.partition('.')[0] for m in sys.modules}} & {{'torch', 'transformers', 'peft'}})
assert not heavy, f'loaded {{heavy}}'
"""


def run(work: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(work=work)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_importing_every_module_of_the_dashboard():
    run("\n".join(f"import {m}" for m in MODULES))


@pytest.mark.parametrize("page", ["start", "data", "attack_lab"])
def test_running_a_page(page, settings):
    run(
        "from streamlit.testing.v1 import AppTest\n"
        "at = AppTest.from_file('dashboard/app.py', default_timeout=60)\n"
        "at.query_params['judge'] = 'planted:constant?value=3'\n"
        "at.run()\n"
        f"at.switch_page('app_pages/{page}.py').run()\n"
        "assert not at.exception, at.exception"
    )


def test_streamlit_and_plotly_share_one_palette():
    import tomllib

    from engine.figures.palette import PALETTE, ROLES

    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    for mode in ("light", "dark"):
        assert tuple(theme[mode]["chartCategoricalColors"]) == PALETTE[mode]
        assert theme[mode]["backgroundColor"] == ROLES[mode]["background"]
        assert theme[mode]["textColor"] == ROLES[mode]["ink"]
