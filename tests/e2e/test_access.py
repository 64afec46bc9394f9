"""Every page: no serious accessibility finding, light and dark; keyboard focus is seen; a phone shows it all."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e.steps import PLANTED, open_page, pages, settle

# The planted judge keeps a model out of these; the whole set shows the recorded run of the bundled one.
WHOLE_SET = ("attack-lab", {"tab": "Whole set", "judge": "bundled:judge"})
PAGES = {path or "start": (path, {}) for path in pages()} | {"whole set": WHOLE_SET}
TOAST = ["[data-testid=stToast]"]
"""Streamlit's passing message is a dialog without a name, which only Streamlit can mend."""
MENU_RULES = ("list", "listitem")
"""Streamlit draws a menu of several groups as one `ul` with a `div` a group, which only Streamlit can mend."""
IN_MENU = "target => document.querySelector(target).closest('[data-testid=stSidebarNavItems]') !== null"
STOPS = 14
"""Elements reached by the Tab key that are looked at on each page."""
FOCUS_SEEN = """() => {
  const own = document.activeElement;
  if (!own || own === document.body) return 'nothing';
  const near = [own]; while (near.length < 5 && near.at(-1).parentElement) near.push(near.at(-1).parentElement);
  const looks = () => near.map(e => { const s = getComputedStyle(e);
    return [s.outlineStyle, s.outlineWidth, s.boxShadow, s.borderColor, s.backgroundColor, s.color, s.clip].join(); });
  const focused = looks();
  own.blur();
  const left = looks();
  own.focus({focusVisible: true});
  return focused.some((look, i) => look !== left[i]) ? '' : own.outerHTML.slice(0, 160);
}"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_both_themes_by_keyboard_and_on_a_phone(page, server, name):
    path, query = PAGES[name]
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    open_page(page, server.url, path, **{"judge": PLANTED, **query})
    expect(page.locator(".js-finding, .js-note").first).to_be_visible()
    light = paper(page)
    assert_accessible(page)
    assert_focus_is_seen(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    expect(page.locator("body")).not_to_have_css("background-color", light)
    settle(page)
    assert_accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    assert_nothing_is_cut_off(page)


def paper(page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def assert_focus_is_seen(page) -> None:
    page.evaluate("document.activeElement.blur()")
    unseen = []
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        unseen.append(page.evaluate(FOCUS_SEEN))
    assert "nothing" not in unseen[: STOPS // 2], "the Tab key reaches nothing"
    assert not [u for u in unseen if u and u != "nothing"], unseen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_an_open_drawer(page, server, scheme):
    path, query = WHOLE_SET
    page.emulate_media(color_scheme=scheme)
    open_page(page, server.url, path, **query)
    table = page.locator(".stDataFrameGlideDataEditor").first
    table.scroll_into_view_if_needed()
    table.click(position={"x": 12, "y": 55})
    expect(page.get_by_role("dialog").locator(".js-text").first).to_be_visible()
    assert_accessible(page)


def assert_accessible(page) -> None:
    page.evaluate(STILL)  # what fades in has too little contrast on the way
    found = [
        f"{v['id']} ({v['impact']}): {[n['html'][:160] for n in nodes[:3]]}"
        for v in Axe().run(page, {"exclude": TOAST}).response["violations"]
        if v["impact"] in ("serious", "critical")
        and (nodes := [n for n in v["nodes"] if not in_menu(page, v["id"], n)])
    ]
    assert not found, "\n".join(found)


def in_menu(page, rule: str, node: dict) -> bool:
    return rule in MENU_RULES and page.evaluate(IN_MENU, node["target"][0])


# Evaluated in one go, since the page's policy forbids what Playwright's own waiting does; thirty seconds at most.
UNTIL = """async () => {
  const end = performance.now() + 30000;
  const seen = SEEN, done = DONE;
  while (!done(seen()) && performance.now() < end) await new Promise(requestAnimationFrame);
  return seen();
}"""
STILL = UNTIL.replace(
    "SEEN",
    "() => document.getAnimations().filter(a => a.playState === 'running'"
    " && a.effect.getComputedTiming().iterations !== Infinity).length",
).replace("DONE", "n => n === 0")
WIDE = UNTIL.replace(
    "SEEN",
    "() => { const main = document.querySelector('[data-testid=\"stMain\"]');"
    " return [document.documentElement.scrollWidth - innerWidth, main.scrollWidth - main.clientWidth]; }",
).replace("DONE", "wide => Math.max(...wide) <= 1")


def assert_nothing_is_cut_off(page) -> None:
    """Tables and figures take their new width some time after the window has."""
    wide = page.evaluate(WIDE)
    assert max(wide) <= 1, wide
