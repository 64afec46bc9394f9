"""`judgescope bench pictures`: the README's screenshot and animation, made in a real browser.

The screenshot is the Attack lab on the demo. The animation goes from a csv of one's own to an attack and a defense.
"""

from __future__ import annotations

import argparse
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from engine.bench.page import browser, chromium, free_port, own_home, start_server, stop_server
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
WAIT_MS = 120_000
REPLIES = (
    ("My parcel came without the cable.", "bot-a", "Sorry about that. A cable is on its way and arrives on Friday."),
    ("My parcel came without the cable.", "bot-b", "Cables are useful things."),
    ("Can I change my delivery address?", "bot-a", "Yes, until it ships: Orders, then Change address."),
    ("Can I change my delivery address?", "bot-b", "Please read the terms."),
    ("The app closes when I open it.", "bot-a", "Update to 4.2 first; if it still closes, send us the log."),
    ("The app closes when I open it.", "bot-b", "It works for me."),
)
"""Question, system and reply of the uploaded csv."""


def add_pictures(kinds: Any) -> None:
    """Add `bench pictures` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("pictures", help="the README's screenshot and animation, in a real browser")
    one.add_argument("--out", type=Path, metavar="DIR", help="where they go; by default the project's assets")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Make both pictures; returns file -> bytes.

    Raises:
        InputError: no browser, or an animation that is too large.
    """
    chromium()
    user = get_settings()
    out = args.out or user.assets
    with own_home(user) as settings, browser() as found:
        port = free_port()
        server = start_server(settings, port)
        try:
            made = take(found, f"http://127.0.0.1:{port}")
        finally:
            stop_server(server)
    if len(made["demo.gif"]) > LARGEST:
        raise InputError(f"The animation has {len(made['demo.gif']):,} bytes; at most {LARGEST:,} are allowed.")
    out.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        write_atomically(out / name, content)
        print(f"{name}: {len(content):,} bytes")
    return {name: len(content) for name, content in made.items()}


def take(found: Any, url: str) -> dict[str, bytes]:
    """Drive the pages; returns the pictures' contents by file name.

    Args:
        found: Playwright's browser.
        url: address of a dashboard.
    """
    film = Film(found.new_context(viewport=SIZE, color_scheme="light").new_page())
    page = film.page
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{url}/attack-lab")
    film.answered()
    film.press("Sandwich")
    film.answered("Behind sandwich")
    still = page.screenshot()
    page.goto(f"{url}/data")
    film.rest()
    film.keep()
    zone = page.get_by_role("region", name="Your responses, one row each")
    zone.locator("input").set_input_files(
        {"name": "support.csv", "mimeType": "text/csv", "buffer": csv_file().encode("utf-8")}
    )
    page.get_by_role("button", name="Save and use this data").wait_for()
    film.rest()
    film.keep()
    page.get_by_role("button", name="Save and use this data").click()
    page.get_by_text("In use").first.wait_for()
    film.rest()
    page.get_by_role("link", name="Attack lab").click()
    film.answered()
    page.get_by_role("button", name="Next").click()  # a weak reply
    for name, words in (("BED", "BED .* this response "), ("Sandwich", "Behind sandwich")):
        film.press(name)
        film.answered(words)
        film.keep()
    return {"screenshot.png": compact(still), "demo.gif": film.animation()}


def csv_file() -> str:
    """The uploaded file: question, system, reply."""
    return "\n".join(["question,system,reply", *(f'"{q}",{system},"{reply}"' for q, system, reply in REPLIES)])


@dataclass
class Film:
    """A page and the pictures kept of it."""

    page: Any
    kept: list[Image.Image] = field(default_factory=list)

    def rest(self) -> None:
        """Wait until no script run is going and no figure is being drawn."""
        self.page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('[data-testid=\"stPlotlyChart\"]')]"
            ".every(chart => chart.querySelector('.main-svg'))"
        )

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
