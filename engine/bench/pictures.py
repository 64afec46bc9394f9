"""`judgescope bench pictures`: pictures of the README and of the documentation, made in a real browser.

The README has the Attack lab on the demo, and an animation from a csv of one's own to an attack and a defense. The
documentation has one picture of each page and those of the tutorial, which takes the same csv to a report.
"""

from __future__ import annotations

import argparse
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from engine.bench.page import READY, browser, chromium, free_port, own_home, start_server, stop_server
from engine.core.errors import InputError
from engine.core.files import write_atomically
from engine.core.settings import get_settings

SIZE = {"width": 1280, "height": 980}
WIDTH = 900
"""Width of the animation [px]."""
COLOURS = 255
SHOWN_MS = 2200
"""Time that each picture of the animation stands [ms]."""
LARGEST = 2_000_000
"""Bytes of the animation at most."""
WAIT_MS = 420_000
JOB_MS = 900_000
"""Longest wait for a page, and for the tutorial's run [ms]."""
EXAMPLE = Path("docs", "examples", "support.csv")
"""The uploaded file, in the repository."""
README, SITE = "readme", "site"
SITE_SIZE, SITE_SCALE = {"width": 1200, "height": 860}, 1.2
"""Window of the documentation's pictures [px], and device pixels in each: 1440 wide."""
RAIL = 301
"""Width of the menu, which stands in the tutorial's first picture alone [px]."""
QUALITY = 82
"""Of WebP, of 100."""
SITE_LARGEST = 2_500_000
"""Bytes of the documentation's pictures at most."""


def add_pictures(kinds: Any) -> None:
    """Add `bench pictures` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("pictures", help="pictures of the README and the documentation, in a real browser")
    one.add_argument("--only", choices=[README, SITE], help="of the README alone, or of the documentation alone")
    one.add_argument("--out", type=Path, metavar="DIR", help="where assets and docs lie; by default the project")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Make the pictures; returns file -> bytes.

    Raises:
        InputError: no browser, or pictures that are too large.
    """
    chromium()
    user = get_settings()
    out = args.out or user.assets.parent
    made: dict[str, bytes] = {}
    with own_home(user) as settings, browser() as found:
        port = free_port()
        server = start_server(settings, port)
        try:
            url, content = f"http://127.0.0.1:{port}", (user.assets.parent / EXAMPLE).read_bytes()
            if args.only != SITE:
                made |= {f"assets/{name}": picture for name, picture in take(found, url, content).items()}
            if args.only != README:
                taken = take_site(found, url, content)
                made |= {f"docs/pictures/{name}.webp": picture for name, picture in taken.items()}
        finally:
            stop_server(server)
    for part, largest in (("assets/demo.gif", LARGEST), ("docs/pictures/", SITE_LARGEST)):
        if (size := sum(len(picture) for name, picture in made.items() if name.startswith(part))) > largest:
            raise InputError(f"{part} has {size:,} bytes; at most {largest:,} are allowed.")
    for name, picture in made.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out / name, picture)
        print(f"{name}: {len(picture):,} bytes")
    return {name: len(picture) for name, picture in made.items()}


def take(found: Any, url: str, content: bytes) -> dict[str, bytes]:
    """The README's pictures by file name.

    Args:
        found: Playwright's browser.
        url: address of a dashboard.
        content: of the uploaded csv.
    """
    film = Film(found.new_context(viewport=SIZE, color_scheme="light").new_page())
    page = film.page
    page.set_default_timeout(WAIT_MS)
    film.open_lab(url)
    film.answered()
    film.press("Sandwich")
    film.answered("Behind sandwich")
    still = page.screenshot()
    page.goto(f"{url}/data")
    film.rest()
    film.keep()
    film.upload(content)
    film.keep()
    film.save()
    page.get_by_role("link", name="Attack lab").click()
    film.answered()
    page.get_by_role("button", name="Next").click()  # a weak reply
    for name, words in (("BED", "BED .* this response "), ("Sandwich", "Behind sandwich")):
        film.press(name)
        film.answered(words)
        film.keep()
    return {"screenshot.png": compact(still), "demo.gif": film.animation()}


# Pictures of the documentation.


def take_site(found: Any, url: str, content: bytes) -> dict[str, bytes]:
    """The documentation's pictures by name: the tutorial's steps, then each page by the end of its address.

    Args:
        found: Playwright's browser.
        url: address of a dashboard with an empty home.
        content: of the tutorial's csv.
    """
    context = found.new_context(viewport=SITE_SIZE, device_scale_factor=SITE_SCALE, color_scheme="light")
    film = Film(context.new_page())
    film.page.set_default_timeout(WAIT_MS)
    made = _tutorial(film, url, content)
    links = film.page.get_by_test_id("stSidebarNavLink").evaluate_all(
        "all => all.map(one => new URL(one.href).pathname)"
    )
    for address in links:
        if (name := address.strip("/") or "start") not in made:
            film.page.goto(f"{url}{address}")
            made[name] = film.shot()
    film.page.goto(f"{url}/label")
    film.rest()
    film.page.get_by_role("textbox", name="Your name").fill("Ann")
    film.page.get_by_role("button", name="Start labelling").click()
    film.page.get_by_text("0 of 24 done").wait_for()
    return {**made, "label": film.shot()}


def _tutorial(film: Film, url: str, content: bytes) -> dict[str, bytes]:
    """From a csv of one's own to a report."""
    page, made = film.page, {}
    film.open_lab(url)
    page.goto(url)
    made["tutorial-start"] = film.shot(whole=True)
    page.goto(f"{url}/data")
    film.rest()
    film.upload(content)
    made["data"] = film.shot()
    film.save()
    page.get_by_role("link", name="Attack lab").click()
    film.answered()
    page.get_by_role("button", name="Next").click()  # a weak reply
    film.press("BED")
    film.answered("BED .* this response ")
    made["tutorial-attack"] = film.shot()
    film.press("Sandwich")
    film.answered("Behind sandwich")
    made["tutorial-defense"] = film.shot()
    page.get_by_role("tab", name="Whole set").click()
    film.rest()
    page.get_by_role("button", name="Delimiters", exact=True).click()  # no defense and sandwich are left
    film.rest()
    made["tutorial-choices"] = film.shot()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("heading", name="Response by response").wait_for(timeout=JOB_MS)
    page.get_by_text("Select a row to open its record.").wait_for(timeout=JOB_MS)
    made["tutorial-set"] = film.shot(page.locator(".js-headline").first)
    page.get_by_role("button", name="Add to report").first.click()
    page.get_by_role("button", name="In the report").first.wait_for()
    page.goto(f"{url}/report")
    made["report"] = film.shot()
    return made


@dataclass
class Film:
    """A page and the pictures kept of it."""

    page: Any
    kept: list[Image.Image] = field(default_factory=list)

    def rest(self) -> None:
        """Wait until no script run is going, no part is still to come and no figure is being drawn."""
        self.page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
        self.page.wait_for_function(
            "() => !document.querySelector('[data-testid=\"stSkeleton\"]')"
            " && [...document.querySelectorAll('[data-testid=\"stPlotlyChart\"]')]"
            ".every(chart => chart.querySelector('.main-svg'))"
        )

    def open_lab(self, url: str) -> None:
        """Open the Attack lab and wait until its judge is loaded."""
        self.page.goto(f"{url}/attack-lab")
        self.page.wait_for_function(READY)

    def answered(self, words: str = "this response ") -> None:
        """Wait until the judge's live answer stands, in a sentence with these words."""
        self.page.get_by_text(re.compile(words)).first.wait_for()
        self.page.get_by_text("Waiting for the judge").wait_for(state="detached")
        self.rest()

    def press(self, chip: str) -> None:
        """Choose an attack or a defense by its chip, unless it is chosen."""
        button = self.page.locator("button").filter(has_text=re.compile(f"^{re.escape(chip)}$")).first
        if "Active" not in (button.get_attribute("data-testid") or ""):
            button.click()
        self.rest()

    def keep(self) -> None:
        """Keep what is on the screen."""
        self.kept.append(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))

    def upload(self, content: bytes) -> None:
        """Give a csv of responses to the page Data."""
        zone = self.page.get_by_role("region", name="Your responses, one row each")
        file = {"name": EXAMPLE.name, "mimeType": "text/csv", "buffer": content}
        zone.locator("input").set_input_files(file)
        self.page.get_by_role("button", name="Save and use this data").wait_for()
        self.rest()

    def save(self) -> None:
        """Save what was uploaded."""
        self.page.get_by_role("button", name="Save and use this data").click()
        self.page.get_by_text("In use").first.wait_for()
        self.rest()

    def shot(self, top: Any = None, *, whole: bool = False) -> bytes:
        """The page at rest as WebP, from its top or from this piece on; without the menu unless it is to be whole."""
        self.page.get_by_role("heading", level=1).first.wait_for()
        self.rest()
        if top is not None:
            top.evaluate("one => one.scrollIntoView({block: 'start'})")
        left = 0 if whole else RAIL
        clip = {"x": left, "y": 0, "width": SITE_SIZE["width"] - left, "height": SITE_SIZE["height"]}
        picture = Image.open(io.BytesIO(self.page.screenshot(clip=clip, animations="disabled"))).convert("RGB")
        out = io.BytesIO()
        picture.save(out, "WEBP", quality=QUALITY, method=6)
        return out.getvalue()

    def animation(self) -> bytes:
        """The pictures kept, as a GIF that repeats."""
        height = round(WIDTH * SIZE["height"] / SIZE["width"])
        small = [one.resize((WIDTH, height)).quantize(COLOURS, dither=Image.Dither.NONE) for one in self.kept]
        out = io.BytesIO()
        small[0].save(out, "GIF", save_all=True, append_images=small[1:], duration=SHOWN_MS, loop=0, optimize=True)
        return out.getvalue()


def compact(png: bytes) -> bytes:
    """A screenshot in few colours."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()
