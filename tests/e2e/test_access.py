"""No serious accessibility finding, light and dark; nothing is cut off on a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e.steps import PLANTED, open_page

# The planted judge keeps a model out of these; the whole set shows the recorded run of the bundled one.
PAGES = {
    "start": ("", {}),
    "data": ("data", {}),
    "one response": ("attack-lab", {"tab": "One response"}),
    "whole set": ("attack-lab", {"tab": "Whole set", "judge": "bundled:judge"}),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(page, server, name, scheme):
    path, query = PAGES[name]
    page.emulate_media(color_scheme=scheme)
    open_page(page, server.url, path, **{"judge": PLANTED, **query})
    assert_accessible(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_an_open_drawer(page, server, scheme):
    path, query = PAGES["whole set"]
    page.emulate_media(color_scheme=scheme)
    open_page(page, server.url, path, **query)
    table = page.locator(".stDataFrameGlideDataEditor").first
    table.scroll_into_view_if_needed()
    table.click(position={"x": 12, "y": 55})
    expect(page.get_by_role("dialog").locator(".js-text").first).to_be_visible()
    assert_accessible(page)


def assert_accessible(page) -> None:
    found = [
        f"{v['id']} ({v['impact']}): {[n['html'][:160] for n in v['nodes'][:3]]}"
        for v in Axe().run(page).response["violations"]
        if v["impact"] in ("serious", "critical")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_the_page_without_sideways_scrolling(page, server, name):
    path, query = PAGES[name]
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, server.url, path, **{"judge": PLANTED, **query})
    expect(page.locator(".js-finding").first).to_be_visible()
    wide = page.evaluate(
        """() => {
            const main = document.querySelector('[data-testid="stMain"]');
            return [document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth];
        }"""
    )
    assert max(wide) <= 1, wide
