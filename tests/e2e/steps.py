"""Steps that several journeys share."""

import re
from urllib.parse import urlencode

from playwright.sync_api import Download, Locator, Page, TimeoutError, expect

from dashboard.linked_run import PAGES

PLANTED = "planted:injection"
SETTLED = 120_000
"""Longest wait for a page to come to rest on a busy machine [ms]."""
JOB_DONE = 600_000
"""Longest wait for a job that computes [ms]; the next journey finds the worker free only when it has ended."""


def open_page(page: Page, url: str, path: str = "", **query: str) -> None:
    page.goto(f"{url}/{path}?{urlencode(query)}")
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=SETTLED)
    settle(page)


def settle(page: Page) -> None:
    """Wait until no script run is going."""
    expect(page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]')).to_be_visible(timeout=SETTLED)


def downloaded(page: Page, button: Locator) -> Download:
    """The file behind a button, pressed at rest: a script run that ends meanwhile removes the file it offered."""
    settle(page)
    with page.expect_download(timeout=SETTLED) as got:
        button.click()
    got.value.path()  # waits until it is whole
    return got.value


def data_id(page: Page) -> str:
    """The id of the data in use, once the address has it."""
    expect(page).to_have_url(re.compile(r"data=[0-9a-f]{16}"))
    return re.search(r"data=([0-9a-f]{16})", page.url)[1]


STANDS = """async own => {
  const place = () => { const b = own.getBoundingClientRect(); return [b.x, b.y, b.width, b.height].join(); };
  const end = performance.now() + 30000;
  for (let before = '', same = 0; same < 10 && performance.now() < end; ) {
    await new Promise(requestAnimationFrame);
    const now = place();
    same = now === before ? same + 1 : 0;
    before = now;
  }
}"""


def still_box(piece: Locator) -> dict:
    """Where a piece of a figure is, once it has not moved for ten frames: for what only the mouse can reach [px]."""
    piece.scroll_into_view_if_needed()
    piece.evaluate(STANDS)
    return piece.bounding_box()


def finding(page: Page):
    return page.locator(".js-finding")


def semicolon_file(text: str = "") -> bytes:
    lines = ["frage;antwort;modell"]
    lines += [
        f'"What grows in garden {i}?";"{text or f"Tomatoes grow in garden {i}; beans, too."}";m{k}'
        for i in range(3)
        for k in range(2)
    ]
    return "\r\n".join(lines).encode("utf-8-sig")


def two_systems_file() -> bytes:
    """Three questions, each answered by two systems in words of their own."""
    lines = ["frage;antwort;modell"]
    lines += [
        f'"What grows in garden {i}?";"Garden {i} grows {plant} and beans. They need water.";m{k}'
        for i in range(3)
        for k, plant in enumerate(("tomatoes", "pears and plums"))
    ]
    return "\r\n".join(lines).encode("utf-8-sig")


def upload(page: Page, url: str, content: bytes, judge: str) -> None:
    open_page(page, url, "data", judge=judge)
    drop_file(page, "antworten.csv", content)
    expect(page.get_by_text("semicolon between the cells")).to_be_visible()
    for label, column in (("Response (needed)", "antwort"), ("Context", "frage"), ("System", "modell")):
        choose(page, label, column)
    expect(finding(page)).to_contain_text("6 responses, 3 items, 2 systems")
    page.get_by_role("button", name="Save and use this data").click()
    expect(finding(page)).to_contain_text("In use")


def drop_file(page: Page, name: str, content: bytes) -> None:
    """Give a file of responses to the Data page."""
    zone = page.get_by_role("region", name="Your responses, one row each")
    zone.locator("input").set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})


def choose(page: Page, label: str, option: str) -> None:
    """Pick an option of a selectbox by its label."""
    pick(page, re.compile(re.escape(label)), option)


def pick(page: Page, label: re.Pattern, option: str) -> None:
    """Pick an option by mouse unless it is the choice; a page that is drawn anew closes an open list."""
    box = page.get_by_role("combobox", name=label).first
    for _ in range(3):
        settle(page)
        if box.input_value() == option:
            return
        box.click()
        try:
            page.get_by_role("option", name=option, exact=True).click(timeout=20_000)
        except TimeoutError:
            page.keyboard.press("Escape")
        else:
            settle(page)
            return
    raise AssertionError(f"{label.pattern} offers no {option!r}")


def pick_by_keyboard(page: Page, label: str, words: str) -> None:
    """Type, and press Enter once the option is the active one; a page that is drawn anew forgets what was typed."""
    box = page.get_by_role("combobox", name=label, exact=True)
    for _ in range(3):
        settle(page)
        box.focus()
        box.fill(words)
        try:
            expect(box).to_have_attribute("aria-activedescendant", re.compile("."), timeout=20_000)
            active = page.locator(f'[id="{box.get_attribute("aria-activedescendant")}"]')
            expect(active).to_have_text(re.compile("^" + re.escape(words)), timeout=5_000)
            box.press("Enter")
            settle(page)
            expect(box).to_have_attribute("aria-expanded", "false", timeout=5_000)
            expect(box).to_have_value(re.compile("^" + re.escape(words)), timeout=5_000)
        except AssertionError:
            page.keyboard.press("Escape")
        else:
            return
    raise AssertionError(f"{label} offers no {words!r}")


def pages() -> list[str]:
    """The address of every page, so that a new one is looked at by itself."""
    return [url for _, _, url in PAGES.values()]
