"""Sizes on paper, from the files themselves; skipped where no Chrome is installed."""

import re
import struct
import zlib

import pytest

from engine.core.errors import InputError
from engine.plots import export
from engine.plots.export import LEAST_PT, WIDTH_MM, with_density
from engine.studies.figure import Source
from engine.studies.registry import entry_of, find_run

chrome = pytest.mark.skipif(not export.can_render(), reason="no Chrome or Chromium is installed")


@pytest.fixture(scope="module", autouse=True)
def _stopped():
    yield
    export.stop()


@pytest.fixture(scope="module")
def grid():
    run = Source(find_run("recorded:dialogue/run"))
    entry = entry_of(run, "grid")
    return entry.plot(entry.prepare(run), "dark")


@chrome
@pytest.mark.parametrize("columns", ["single", "double"])
def test_an_svg_has_its_width_in_millimetres_and_type_of_seven_points(grid, columns):
    svg = export.render(grid, "svg", columns=columns).decode()
    width, inner = re.search(r'width="([\d.]+)mm".*?viewBox="0 0 (\d+) ', svg).groups()
    assert float(width) == WIDTH_MM[columns]
    points = [
        float(size) * float(width) / float(inner) * 72 / 25.4 for size in re.findall(r"font-size: ([\d.]+)px", svg)
    ]
    assert len(points) > 10
    assert min(points) >= LEAST_PT
    fonts = {f.replace("&quot;", "'") for f in re.findall(r"font-family: ([^;]*);", svg)}
    assert fonts == {"'Liberation Sans', Arial, Helvetica, sans-serif"}


@chrome
@pytest.mark.parametrize("columns", ["single", "double"])
def test_a_pdf_is_as_wide_as_the_columns_and_carries_its_fonts(grid, columns):
    pdf = export.render(grid, "pdf", columns=columns)
    assert pdf.startswith(b"%PDF")
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert len(boxes) == 1  # one page
    assert float(boxes[0][0]) == pytest.approx(WIDTH_MM[columns] / 25.4 * 72, abs=0.5)
    named = set(re.findall(rb"/FontName /([A-Za-z+-]+)", pdf))
    assert named
    assert len(re.findall(rb"/FontFile[23]? ", pdf)) >= len(named)


@chrome
def test_a_png_has_six_hundred_dots_an_inch(grid):
    png = export.render(grid, "png", columns="single")
    width = struct.unpack(">I", png[16:20])[0]
    assert width == pytest.approx(85 / 25.4 * 600, abs=2)
    at = png.index(b"pHYs")
    across, down, unit = struct.unpack(">IIB", png[at + 4 : at + 13])
    assert (across, down, unit) == (23622, 23622, 1)
    assert struct.unpack(">I", png[at + 13 : at + 17])[0] == zlib.crc32(png[at : at + 13])


def test_the_density_leaves_the_image_as_it_is():
    image = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + bytes(13) + b"crc!" + b"rest"
    dense = with_density(image)
    assert dense[:33] == image[:33]
    assert dense[33 + 21 :] == b"rest"


def test_another_width_is_refused(grid):
    with pytest.raises(InputError, match="single or double"):
        export.render(grid, "svg", columns="triple")
