"""The page of a study in a real browser: shares, the games behind them, the baseline; keyboard only; accessibility."""

import re

import pytest

from cluster.commands.view import _Finder
from evals.viewer.index import EpisodeIndex
from evals.viewer.server import Viewer
from evals.viewer.study import StudyPage
from tests.browser.conftest import serving
from tests.viewer_runs import study_runs

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed here").expect
expect.set_options(timeout=20_000)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def viewer_address(tmp_path_factory):
    """A viewer of a study's folder, in place of the two runs that other tests look at."""
    folder = tmp_path_factory.mktemp("study")
    study_runs(folder)
    index = EpisodeIndex(_Finder([folder])())
    study = StudyPage(index)
    viewer = Viewer(index, also=study.refresh)
    viewer.refresh()
    with serving(viewer, study.routes()) as address:
        yield address


def opened(page):
    page.click("nav.pages >> text=study")
    page.wait_for_selector(".study-page .cause")
    return page


def test_a_share_leads_to_the_games_behind_it(page):
    opened(page)
    link = page.get_by_role("link", name="all, seeing: 3 games").first
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".count")).to_contain_text("3 episodes")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Study: where the score comes from")


def test_another_run_becomes_the_baseline(page):
    opened(page)
    change = page.locator(".study-page section[aria-label='kidgym: success'] tbody tr").first
    expect(change).to_contain_text("modality text")
    page.get_by_role("button", name="make it the baseline 2").click()
    expect(change).to_contain_text("modality picture")
    expect(page).to_have_url(re.compile("baseline=2"))


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (900, "dark"), (1400, "light")])
def test_axe_finds_no_violation_and_nothing_is_wider_than_the_window(page, frontend, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    opened(page).evaluate((frontend / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate(
        "axe.run().then(result => result.violations.map(it => [it.id, it.nodes.map(n => n.html.slice(0, 200))]))"
    )
    assert not found
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
