"""The leaderboard's pages in a real browser: readable at any width, light and dark, sorted by keyboard; nothing else runs."""

import datetime

import pytest

from evals.site.pages import Site, games_file
from tests.browser.test_report import Axe
from tests.browser.test_report import browser as browser  # a fixture
from tests.browser.test_report import pytestmark as pytestmark
from tests.small_runs import MODELS, SUITES, small_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A site of a hostile model's, another model's and an oracle's KidGym games."""
    run = small_run("kidgym", ("hostile", MODELS[0], "oracle"))
    site = Site("Games", "CC BY 4.0", datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC))
    part, games = site.read("run", run, SUITES["kidgym"], run.plan, {})
    site.add(part)
    place = tmp_path_factory.mktemp("site")
    for name, text in {**games, **dict(site.pages(list(games)))}.items():
        (place / name).write_text(text)
    return place


def test_every_page_fits_axe_finds_nothing_and_columns_are_sorted_by_keyboard(browser, folder):
    heard = []
    files = ["index.html", "suite-kidgym.html", "player-hostile.html", games_file("hostile", "kidgym")]
    # What the pages are made of is looked at once by axe, in one of the schemes.
    looked_at = {400: [files[0], files[3]], 1400: [files[1]]}
    for width, scheme in ((400, "dark"), (1400, "light")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: heard.append(request.url) if request.url[:4] == "http" else None)
        for file in files:
            page.goto((folder / file).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, file
            if file in looked_at[width]:
                found = Axe().run(page).response["violations"]
                assert not found, (file, [(each["id"], each["nodes"][0]["html"]) for each in found])
        assert "hit" not in page.title() and all(page.evaluate("[...document.images].map(each => each.naturalWidth)"))
        context.close()
    page = browser.new_page()
    page.goto((folder / "suite-kidgym.html").as_uri())
    board = page.locator("table.board").first
    head = board.locator("th", has_text="success")

    def column() -> list[float]:
        return [
            float(text.split()[0]) for text in board.locator("tbody").first.locator("td:nth-child(2)").all_inner_texts()
        ]

    before = board.locator("tbody").nth(1).inner_text()
    head.locator("button").focus()
    for order in ("descending", "ascending"):
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == order
        assert column() == sorted(column(), reverse=order == "descending")
    assert len({*column()}) > 1 and board.locator("tbody").nth(1).inner_text() == before, "references stay below"
    board.locator("th button", has_text="player").click()
    assert head.get_attribute("aria-sort") is None
    names = board.locator("tbody").first.locator("th").all_inner_texts()
    assert names == sorted(names)
    page.close()
    assert not heard
