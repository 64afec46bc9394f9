"""Files from figures; skipped where no Chrome is installed."""

import os
import signal
import struct
from concurrent.futures import ThreadPoolExecutor

import plotly.graph_objects as go
import pytest

from engine.core.errors import EngineError, InputError
from engine.plots import export
from engine.plots.text import label
from engine.plots.theme import MEANING, ROLES, frame

chrome = pytest.mark.skipif(not export.can_render(), reason="no Chrome or Chromium is installed")


@pytest.fixture(scope="module", autouse=True)
def _stopped():
    yield
    export.stop()


def figure(name="plain", mode="dark"):
    fig = go.Figure(go.Bar(x=[1, 2], y=[3, 1], marker={"color": MEANING[mode]["attacked"]}))
    fig.update_xaxes(tickvals=[1, 2], ticktext=[name, "other"])
    return frame(fig, mode, title="Drawn?", notes=(), alt="bars", body=120)


@chrome
def test_svg_goes_out_in_print_colours():
    svg = export.render(figure()).decode()
    assert svg.startswith("<svg")
    assert "Drawn?" in svg
    for mode, present in (("dark", False), ("print", True)):
        rgb = "rgb({}, {}, {})".format(*(int(MEANING[mode]["attacked"][i : i + 2], 16) for i in (1, 3, 5)))
        assert (rgb in svg) is present
    assert ROLES["dark"]["background"] not in svg
    assert "http" not in svg.replace("http://www.w3.org/", "")


@chrome
def test_png_has_the_asked_width_twice():
    png = export.render(figure(), "png", width=500)
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20])[0] == 1000


@pytest.mark.slow
@chrome
def test_escaped_labels_stay_text():
    svg = export.render(figure(label('<a href="//x">n</a>'))).decode()
    assert "<a " not in svg
    assert "&#60;a href=" in svg


@chrome
def test_threads_get_their_own_figure():
    names = [f"name-{i}" for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        svgs = list(pool.map(lambda n: export.render(figure(n)).decode(), names))
    for name, svg in zip(names, svgs, strict=True):
        assert name in svg
        assert sum(other in svg for other in names) == 1


@pytest.mark.slow
@chrome
def test_a_killed_chrome_is_replaced():
    export.render(figure())
    os.kill(export._chrome._kaleido.subprocess.pid, signal.SIGKILL)
    assert export.render(figure()).startswith(b"<svg")


@chrome
def test_a_failure_is_an_error_with_the_next_step(monkeypatch):
    def broken(self, spec, options):
        raise RuntimeError("no tab")

    monkeypatch.setattr(export._Chrome, "draw", broken)
    with pytest.raises(export.RenderError, match=r"no tab.*Try once more"):
        export.render(figure())


def test_without_chrome_the_error_has_a_remedy(monkeypatch):
    export.stop()
    monkeypatch.setattr(export, "can_render", lambda: False)
    with pytest.raises(EngineError, match="Install Chrome or Chromium"):
        export.render(figure())


def test_browser_path_that_is_not_there(monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/not/there")
    monkeypatch.setattr("choreographer.browsers.chromium.get_chrome_download_path", lambda mkdir=False: None)
    monkeypatch.setattr("choreographer.browsers.chromium.get_old_chrome_download_path", lambda: None)
    assert not export.can_render()


def test_other_formats_are_refused():
    with pytest.raises(InputError, match="svg, png or pdf"):
        export.render(figure(), "bmp")
