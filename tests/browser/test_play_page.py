"""The page on which a person plays: the choices are in sight without scrolling, on a wide and on a narrow screen."""

import asyncio
import contextlib
import threading

import pytest

from evals.human import HumanPlayer, QuitError
from evals.human.browser import Browser, listen
from evals.types import message
from tests.evals.test_human import CHOICES, FRAME, turn

pytestmark = pytest.mark.browser


@pytest.fixture
def play_address():
    """A page that asks one question, with long rules, a picture and ten choices."""
    found, ready = [], threading.Event()

    async def serve():
        browser = Browser()
        browser.begin(1, 1)
        chat = (message("system", "One rule.\n" * 200), message("user", "Goal: win.", FRAME, CHOICES))
        async with browser.serving(listen()) as address:
            found.append(address)
            ready.set()
            with contextlib.suppress(QuitError):
                await HumanPlayer(browser).reply(turn(*chat, options=tuple("ABCDEFGHIJ")))

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    yield found[0]
    thread.join(30)


def test_choices_are_in_sight_at_any_width(chromium, play_address):
    page = chromium.new_page()
    for width, height in ((1400, 900), (400, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(play_address)
        page.wait_for_selector("#options button")
        page.wait_for_selector("#shown img")
        page.wait_for_load_state("load")
        place = page.locator("#answers").bounding_box()
        assert place["y"] >= 0 and place["y"] + place["height"] <= height
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#rules").evaluate("element => element.open") == (width == 1400)
    assert page.locator("#shown").inner_text().count("A) go") == 0
    page.click("#quit")
    page.close()
