"""Static pages in real browsers: the same as from the server, from a disk and a plain web server, in Chromium and Firefox."""

import asyncio
import functools
import http.server
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from benchmarks.viewer_export import DIGESTS, digest
from envs.picture import render_description
from evals.archive.export import export
from evals.viewer.episode import show_episode
from evals.viewer.index import EpisodeIndex
from tests.browser.firefox import firefox, installed
from tests.viewer_runs import HOSTILE, calm_rows, hostile_rows, viewed, write_run

pytestmark = pytest.mark.browser

STATES = (
    "",
    "suite=kumo&sort=-steps",
    "suite=kidgym&won=1&sort=success",
    "lost=1&sort=-score&min_steps=1",
    "status=failed&panel=failures",
    "across=player",
    "run=calm&versus=hostile&versus_run=wild&flipped=1",
    "player=oracle&level=1&level=easy&sort=task",
    "cut_off=1",
    "text=let+me+think",
    "max_completion_tokens=100&sort=-run",
)
"""States of the address: filters, sorting, panels."""
PAGES = (
    "runs",
    "runs?baseline=hostile&order=-0:score",
    "compare?first=hostile&second=perfect+play+(oracle)",
)
SHOWN = (
    """() => ["count", "heat", "causes", "rows"].map((name) => document.querySelector("." + name)?.innerText ?? "")"""
)


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """The runs of ``viewer_address`` as pages."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [write_run(folder / "calm", *calm_rows()), write_run(folder / "wild", *hostile_rows())]
    index = EpisodeIndex([viewed(path) for path in paths])
    index.refresh()
    export(index, [{}, {}], folder / "pages")
    return folder / "pages"


@pytest.fixture(scope="session")
def plain_server(exported):
    """The address of a web server that only gives out files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *said):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=exported)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
        server.shutdown()


@pytest.fixture
def static_page(chromium):
    """A page without a network; whatever the browser complains of fails the test."""
    context = chromium.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    page = context.new_page()
    complaints = []

    def failed(request):
        # A test that moves on ends the requests of the page it leaves, for instance the one for its icon.
        if request.failure != "net::ERR_ABORTED":
            complaints.append(f"{request.url}: {request.failure}")

    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("requestfailed", failed)
    yield page
    context.close()
    assert not complaints


def settled(page):
    """What the list and its panel show once they no longer change."""
    page.wait_for_selector(".count")
    before = None
    while (now := page.evaluate(SHOWN)) != before or "searching" in now[0] or "reading" in now[0] or "…" in now[3]:
        before = now
        page.wait_for_timeout(150)
    return now


def test_every_state_shows_what_the_server_shows(page, static_page, exported):
    address = (exported / "index.html").as_uri()
    server = "http://" + urlsplit(page.url).netloc + "/"
    for path in PAGES:
        page.goto(f"{server}{path}")
        static_page.goto("about:blank")
        static_page.goto(f"{address}#/{path}")
        for each in (page, static_page):
            each.wait_for_selector(".sentence")
            each.wait_for_timeout(1500)
        assert static_page.locator("main").inner_text() == page.locator("main").inner_text(), path
    for state in STATES:
        page.goto(f"{server}episodes?{state}")
        static_page.goto("about:blank")
        static_page.goto(f"{address}#/episodes?{state}")
        shown = settled(static_page)
        for _ in range(50):  # the server's page asks for its cells again once it learns that a search has found more
            if (served := settled(page)) == shown:
                break
            page.wait_for_timeout(200)
        assert shown == served, state
        assert shown[0].split()[0] != "0", state


def pictures_of(rows, run):
    """Digests of the pictures at each step of the calm run's first KidGym and MultiStAR episodes."""
    found = {}
    for suite in ("kidgym", "multistar"):
        row = next(row for row in rows.to_pylist() if row["suite"] == suite)
        shown = show_episode(run, row)
        for number, step in enumerate(shown["steps"], 1):
            parts = [part for message in step["shown"] for part in message["parts"]]
            keys = [part["picture"] for part in parts if "picture" in part] + [step["after"]] * bool(step["after"])
            if keys:
                pictures = [render_description(shown["pictures"][key]["description"])[1] for key in keys]
                found[f"episode=calm/{row['episode_id']}&step={number}"] = [digest(each) for each in pictures]
    return found


def test_episodes_open_from_a_disk_and_a_plain_server_with_the_pixels_that_the_model_got(
    static_page, exported, plain_server
):
    expected = pictures_of(calm_rows()[1], viewed(exported.parent / "calm"))
    assert len(expected) > 4
    for address in ((exported / "index.html").as_uri(), plain_server):
        static_page.goto(address)
        static_page.wait_for_selector(".scores .dot")  # from now on the page follows its address
        assert static_page.evaluate(f"states => ({DIGESTS})(states)", list(expected)) == expected


def test_hostile_replies_stay_text_and_keys_lead_through_the_list(static_page, exported):
    static_page.goto((exported / "index.html").as_uri() + "#player=hostile&suite=kumo")
    static_page.wait_for_selector(".row .outcome")
    static_page.locator(".grid").press("Enter")
    static_page.wait_for_selector(".reply")
    start = HOSTILE.split("\x1b")[0].strip()
    assert start in static_page.locator(".reply").first.inner_text()
    assert static_page.evaluate("window.hacked") is None
    assert static_page.locator(".answered b, .answered img").count() == 0
    opened = static_page.url
    static_page.keyboard.press("j")
    static_page.wait_for_url(lambda address: address != opened)
    static_page.go_back()
    static_page.wait_for_selector(".row .outcome")


@pytest.mark.skipif(installed() is None, reason="Firefox is not installed here")
def test_firefox_opens_them_from_a_disk_and_a_plain_server(exported, plain_server):
    pytest.importorskip("websockets", reason="websockets is not installed here")
    expected = pictures_of(calm_rows()[1], viewed(exported.parent / "calm"))
    count = len(calm_rows()[1]) + len(hostile_rows()[1])

    async def look():
        async with firefox() as browser:
            for address in ((exported / "index.html").as_uri(), plain_server):
                await browser.open(address)
                await browser.until("document.querySelector('.scores .dot') !== null")
                await browser.open(f"{address}#/episodes")
                await browser.until("document.querySelector('.row .outcome') !== null")
                said = await browser.evaluate("document.querySelector('.count').textContent")
                assert said.startswith(f"{count} episodes")
                assert await browser.evaluate(f"({DIGESTS})({[*expected]})") == expected
            assert browser.complaints == []

    with ThreadPoolExecutor(1) as thread:  # playwright's event loop runs in this one
        thread.submit(asyncio.run, look()).result()
