"""The report's page in a real browser: readable at any width, light and dark, by keyboard and screen reader."""

import re
import shutil
from collections.abc import Iterator

import pytest

from evals.archive.one_file import one_file
from evals.report.build import page_of
from evals.report.joint import Report, RunReport
from evals.suite_results import suite_results
from tests.small_runs import MODELS, SUITES, small_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
Axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed").Axe

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
expect = playwright.expect
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """A page of a hostile model's and a random player's KidGym games, on disk."""
    run = small_run("kidgym", ("hostile", MODELS[0], "oracle"))
    tables = [table for section in ("scores", "diagnostics") for table in suite_results(SUITES["kidgym"], run, section)]
    report = Report([RunReport("games", run, SUITES["kidgym"], tables, ["Partial run"])])
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(one_file(page_of(report)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser(request) -> Iterator:
    try:
        yield request.getfixturevalue("chromium")
    except pytest.FixtureLookupError:
        with playwright.sync_playwright() as driver:
            started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            yield started
            started.close()


@pytest.fixture
def open_page(browser, address):
    """Opens the page; whatever it asks for or complains of is collected in ``page.heard``."""
    contexts = []

    def open_(width: int = 1400, scheme: str = "light"):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.heard = []
        page.on("console", lambda message: page.heard.append(message.text))
        page.on("pageerror", lambda error: page.heard.append(str(error)))
        page.on("request", lambda request: page.heard.append(request.url) if request.url[:5] != "data:" else None)
        page.goto(address)
        page.wait_for_selector(".report h2")
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1400, "dark")])
def test_it_fits_and_axe_finds_no_violation(open_page, width, scheme, address):
    page = open_page(width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for text in ("more tables", "game 0", "first prompt", "Configuration"):
        page.locator("details.fold > summary", has_text=text).first.click()
    page.wait_for_selector("canvas[aria-busy=false]")
    found = Axe().run(page).response["violations"]
    assert not found, [(each["id"], each["nodes"][0]["html"]) for each in found]
    assert page.heard == [address], "it asks for nothing and has nothing to complain of"


def test_hostile_replies_stay_text(open_page):
    page = open_page()
    page.evaluate("document.querySelectorAll('details.fold').forEach(each => each.open = true)")
    reply = page.locator(".words.reply", has_text="<script>document.title='hit'</script>")
    reply.first.wait_for()
    assert "hit" not in page.title() and page.locator(".reply script, .reply pre").count() == 0


def test_pictures_and_figures_are_there(open_page):
    page = open_page()
    sizes = page.evaluate("[...document.images].map(each => each.naturalWidth)")
    assert len(sizes) > 1 and all(sizes)
    page.evaluate("document.querySelectorAll('details.fold').forEach(each => each.open = true)")
    page.wait_for_selector("canvas[aria-busy=false]")
    assert page.locator("canvas").count() > 3


def test_it_is_read_by_keyboard_alone(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    expect(page.locator("a:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#"))
    episode = page.locator("details.fold", has=page.locator(".ending.lost")).first
    episode.locator("summary").first.focus()
    page.keyboard.press("Enter")
    last = episode.locator(".steps button").last
    last.press("Enter")
    expect(episode.locator(".steps [aria-current=step]")).to_have_text(last.inner_text())
    expect(episode.locator(".decision")).to_contain_text("decoded")


def test_sections_are_linked(open_page):
    page = open_page()
    page.get_by_role("link", name="Episodes to look at").click()
    expect(page).to_have_url(re.compile("#episodes-to-look-at$"))
    expect(page.locator("#episodes-to-look-at")).to_be_visible()
