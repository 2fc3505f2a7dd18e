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
def replies():
    """The options that the person has chosen."""
    return []


@pytest.fixture
def play_address(replies):
    """A page that asks two questions, with long rules, a picture and ten choices."""
    found, ready = [], threading.Event()

    async def serve():
        browser = Browser()
        browser.begin(1, 1)
        chat = (message("system", "One rule.\n" * 200), message("user", "Goal: win.", FRAME, CHOICES))
        async with browser.serving(listen()) as address:
            found.append(address)
            ready.set()
            player = HumanPlayer(browser)
            with contextlib.suppress(QuitError):
                for number in range(2):
                    reply = await player.reply(turn(*chat, options=tuple("ABCDEFGHIJ"), number=number))
                    replies.append(reply.text)

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


CLICK_TWICE = """async () => {
  const buttons = () => [...document.querySelectorAll("#options button")];
  const first = buttons()[1];
  first.click();
  while (buttons()[1] === first) {
    window.told = document.querySelector("#trouble").textContent || window.told;
    await new Promise((done) => setTimeout(done, 5));
  }
  buttons()[2].click();
}"""
"""Answers one question, and clicks again as soon as the next one is there."""


def test_a_lost_answer_is_sent_again_and_a_double_click_answers_one_question(chromium, play_address, replies):
    page = chromium.new_page()
    page.goto(play_address)
    page.wait_for_selector("#options button")
    lost = []

    def lose_the_first(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.request.url)
            route.abort()

    page.route("**/answer", lose_the_first)
    page.wait_for_timeout(500)
    page.evaluate(CLICK_TWICE)
    assert "sent again" in page.evaluate("window.told") and lost
    assert page.locator("#trouble").inner_text() == ""
    page.wait_for_timeout(500)
    assert replies == ["B"], "the second click came too soon after its question to be meant for it"
    page.locator("#options button").nth(3).click()
    page.get_by_text("Thank you").wait_for()
    assert replies == ["B", "D"]
    page.close()
