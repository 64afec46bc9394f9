"""Installed as a wheel, without the libraries of local models, and from Python: what a user gets."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

import pytest

from engine.core.errors import INSTALL_LOCAL, MODELS, THRESHOLD_FAILED, UMAP, USER_INPUT, WEIGHTED

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_LOCAL = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(MODELS) | set(UMAP) | set(WEIGHTED)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
"""As if the extra `local` were not installed."""
HEAVY = {"numpy", "pandas", "plotly", "pydantic", "scipy", "streamlit", "torch", "transformers"}
PAGES = f"""
import streamlit as st
from streamlit.testing.v1 import AppTest
from dashboard.linked_run import PAGES
st.config.set_option("client.showErrorDetails", "full")
at = AppTest.from_file({str(ROOT / "dashboard" / "app.py")!r}, default_timeout=300).run()
said = []
for page in PAGES:
    at.switch_page(page).run()
    assert not at.exception, (page, at.exception)
    said += [element.proto.body for element in at.get("html")]
print("\\n".join(said))
"""


def python(code: str, *args: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Code in a fresh Python that has the repository, a home of its own, and no libraries of local models."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home), "JUDGESCOPE_CACHE": str(home / "cache")}
    command = [sys.executable, "-c", WITHOUT_LOCAL + code, *args]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)


COMMAND = "import sys; from engine.cli.main import main; sys.exit(main(sys.argv[1:]))"


def test_a_model_that_is_asked_for_in_the_light_installation_names_the_command(tmp_path):
    code = """
from engine.core.errors import InputError
from engine.core.settings import get_settings
from engine.inference.loading import load_model, pick_device
settings = get_settings()
assert pick_device("auto") == "cpu"
for asked in ("bundled:judge", "hf:some/model", "path:/no/such.gguf"):
    try:
        load_model(asked, settings)
    except InputError as error:
        print(error)
"""
    done = python(code, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(INSTALL_LOCAL) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "score demo-dialogue --limit 2",
        "study puaudit --judge planted:position --encoder words --limit 30 --set weights=items",
    ],
)
def test_the_command_line_ends_with_that_command_and_no_traceback(command, tmp_path):
    done = python(COMMAND, *command.split(), home=tmp_path)
    assert done.returncode == USER_INPUT, done.stderr
    assert INSTALL_LOCAL in done.stderr
    assert "Traceback" not in done.stderr


AUDIT = "--set bootstraps=5 --set splits=5"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "doctor",
        "study checkup --judge planted:injection",
        "study protocols --judge planted:injection --limit 6",
        "study puaudit --judge planted:position --encoder words --limit 30 " + AUDIT,
        "study puaudit --judge recorded:demo-llmbar?judge=GPT-4&prompt=Vanilla --data demo-llmbar "
        "--encoder given:demo-llmbar --attack none " + AUDIT,
        "figures recorded:dialogue/run --format html --out {home}/figures",
    ],
)
def test_the_light_installation_does_all_that_needs_no_model(command, tmp_path):
    done = python(COMMAND, *command.format(home=tmp_path).split(), home=tmp_path)
    assert done.returncode in (0, THRESHOLD_FAILED), done.stderr[-2000:]  # a check-up may find a weakness


@pytest.mark.slow
def test_every_page_opens_in_the_light_installation_and_one_names_the_command(tmp_path):
    done = python(PAGES, home=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert INSTALL_LOCAL.replace("'", "&#x27;") in done.stdout


def test_importing_the_api_loads_no_library_and_says_nothing(tmp_path):
    code = "import judgescope, sys; print(*sorted(sys.modules)); assert not sys.stdout.closed"
    done = python(code, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stdout.split())
    assert (done.stderr, done.stdout.count("\n")) == ("", 1)


def test_the_lines_of_the_readme(capsys):
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len([line for line in lines.splitlines() if line.strip()]) <= 10
    held: dict = {}
    exec(compile(lines, "README.md", "exec"), held)
    shifts = held["run"].shifts.dropna(subset=["shift"])
    assert len(shifts) == 2
    # the planted judge gives more to an answer that asks for it, and the interval holds the shift
    assert (shifts["shift"] > 0).all()
    assert shifts["shift"].between(shifts["shift_lower"], shifts["shift_upper"]).all()
    assert "shift_lower" in capsys.readouterr().out


def test_a_run_and_a_figure_show_themselves_in_a_notebook():
    import judgescope

    run = judgescope.open_run("recorded:dialogue/run")
    assert run.run_id in run._repr_html_()
    drawn = run.figure("grid")._repr_html_()
    assert "plotly" in drawn
    assert "src=" not in re.sub(r"<script[^>]*>.*?</script>", "", drawn, flags=re.S)  # nothing from outside
    with pytest.raises(judgescope.InputError, match="grid"):
        run.figure("no-such-figure")


def test_text_of_users_is_no_markup_in_a_notebook(tmp_path, monkeypatch):
    import pandas as pd

    import judgescope

    monkeypatch.setenv("JUDGESCOPE_HOME", str(tmp_path))
    hostile = "<img src=x onerror=alert(1)></script>"
    frame = pd.DataFrame({"item_id": list("aabb"), "response": [hostile, "one", "two", hostile]})
    run = judgescope.score(frame, judge="planted:injection", attacks=["dsi"], name=hostile)
    figures = [run.figure(name) for name in run.figures]
    assert figures
    for shown in (run, *figures):
        html = shown._repr_html_()
        without_scripts = re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.S)
        assert "<img" not in html
        assert "onerror" not in without_scripts or "&lt;img" in without_scripts


def test_a_notebook_shows_the_ends_of_a_long_table():
    import judgescope

    run = judgescope.open_run("recorded:refswap/judge")
    assert len(run.metrics) > judgescope.MOST_ROWS
    assert run._repr_html_().count("<tr") <= judgescope.MOST_ROWS + 2


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder of programs of an empty environment that holds the wheel, others' packages, and no local models."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], check=True, cwd=folder)
    venv.create(folder / "env", with_pip=False)
    (wheel,) = folder.glob("*.whl")
    programs = folder / "env" / "bin"
    subprocess.run(
        [*pip, "--python", programs / "python", "install", "--quiet", "--no-deps", "--no-compile", wheel],
        check=True, cwd=folder,
    )  # fmt: skip
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "others.pth").write_text("\n".join(others))  # a .pth in there is not read, so the repository stays away
    (site / "sitecustomize.py").write_text(WITHOUT_LOCAL)
    return programs


def light(home: Path) -> dict[str, str]:
    """An environment that knows nothing of the repository or of the user's data."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "JUDGESCOPE_DEVICE": "cpu"}


@pytest.mark.slow
def test_an_installed_wheel_checks_scores_and_draws(installed, tmp_path):
    (tmp_path / "engine").mkdir()  # of the user's own: not ours

    def judgescope(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [installed / "judgescope", *words], env=light(tmp_path), cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-2000:]
        return done.stdout + done.stderr

    assert INSTALL_LOCAL in judgescope("doctor")
    assert "dsi" in judgescope("score", "demo-dialogue", "--judge", "planted:injection", "--attack", "dsi")
    judgescope("figures", "recorded:dialogue/run", "--format", "html")
    assert (tmp_path / "figures" / "figures.html").stat().st_size > 1_000_000
    assert "repository" in judgescope("bench", "scoring", code=USER_INPUT)
    where = "import engine, judgescope; print(engine.__file__, judgescope.__file__)"
    command = [installed / "python", "-P", "-c", where]
    for path in subprocess.check_output(command, env=light(tmp_path), cwd=tmp_path, text=True).split():
        assert Path(path).is_relative_to(installed.parent)


@pytest.mark.slow
def test_an_installed_wheel_serves_the_dashboard(installed, tmp_path):
    for name in ("engine", "dashboard"):  # folders of the user's own that must not be taken for ours
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text("[server]\nscriptHealthCheckEnabled = true\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [installed / "judgescope", "dashboard", "--port", str(port)],
            env=light(tmp_path), cwd=tmp_path, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        assert fetched(port, "_stcore/health", server, log) == "ok"
        assert "<title>" in fetched(port, "", server, log)
        assert fetched(port, "_stcore/script-health-check", server, log) == "ok"  # the first page, run once
    finally:
        server.terminate()
        server.wait(timeout=60)


def fetched(port: int, path: str, server: subprocess.Popen[bytes], log: Path) -> str:
    """What the server answers, once it does."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=120) as answer:
                return answer.read().decode()
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-2000:])
