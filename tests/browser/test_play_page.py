"""The page on which people play: choices in sight at every size, a network that fails, double clicks, a study's pages."""

import asyncio
import contextlib
import random
import threading

import pytest
import uvicorn

from evals.human import HumanPlayer, QuitError
from evals.human.browser import Browser, listen
from evals.people.journal import ENDED, Journal
from evals.people.server import StudyServer
from evals.types import message
from tests.evals.test_human import CHOICES, FRAME, turn
from tests.evals.test_people import CHECK, GAMES, study_in

pytestmark = pytest.mark.browser

SIZES = {"wide": (1400, 900), "narrow": (400, 800), "200 %": (700, 450)}
OUT_OF_SIGHT = """() => [...document.querySelectorAll("#options button, #options label")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.bottom > innerHeight || box.right > innerWidth || box.top < 0;
}).length"""
SCROLLS = (
    "() => document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight"
)


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


def test_choices_are_in_sight_at_every_size(chromium, play_address):
    page = chromium.new_page()
    for name, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        page.goto(play_address)
        page.wait_for_selector("#options button")
        assert page.locator(".stage img").bounding_box()["height"] > 100
        assert page.evaluate(OUT_OF_SIGHT) == 0 and not page.evaluate(SCROLLS), name
        assert page.locator("section.rules").count() == (name == "wide"), "folded away where there is no room"
    assert page.locator(".told").inner_text().count("A) go") == 0
    page.click("#stop")
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
    sent = []
    page.on("request", lambda request: sent.append(request.post_data_json) if "/answer" in request.url else None)
    page.locator("#options button").nth(3).click()
    page.get_by_text("Thank you").wait_for()
    assert replies == ["B", "D"] and [each["ignored"] for each in sent] == [1]
    page.close()


def test_the_keyboard_answers_at_once_when_it_has_moved(chromium, play_address, replies):
    page = chromium.new_page()
    page.goto(play_address)
    page.wait_for_selector("#options button")
    for _ in range(2):
        before = page.locator("#options button").first.element_handle()
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            page.keyboard.press(key)
        page.wait_for_function("each => !each.isConnected", arg=before)
    page.get_by_text("Thank you").wait_for()
    assert replies == ["B", "B"]
    page.close()


@contextlib.contextmanager
def serving_study(study):
    """Serves a study on a thread; the addresses of its participants."""
    listener = listen()
    app = StudyServer(study, GAMES).app({"127.0.0.1"})
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield [f"{address}/{each.token}/" for each in study.participants]
    finally:
        server.should_exit = True
        thread.join(30)


def test_two_people_go_through_a_study_one_of_them_over_a_network_that_fails(chromium, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    study = study_in(tmp_path, people=2)
    draw = random.Random(0)

    def fails(route):
        if draw.random() < 0.3:
            if draw.random() < 0.5:
                route.fetch()  # it arrives, and its reply is lost
            route.abort()
        else:
            route.continue_()

    with serving_study(study) as links:
        for place, link in enumerate(links):
            page = chromium.new_page(viewport={"width": 1400, "height": 900})
            page.goto(link)
            if place:
                for path in ("**/answer", "**/state"):
                    page.route(path, fails)
            for button in ("I agree and take part", "Begin"):
                page.get_by_role("button", name=button).wait_for()
                assert not axe.run(page).response["violations"]
                page.get_by_role("button", name=button).click()
            answered = 0
            while True:
                page.wait_for_selector("#code, #options button:enabled")
                if page.locator("#code").count():
                    break
                if answered == 1:
                    assert not axe.run(page).response["violations"]
                    page.reload()
                    page.wait_for_selector("#options button:enabled")
                page.wait_for_timeout(410)
                question = page.locator("#options").element_handle()
                page.get_by_role("button", name="green").click()
                page.wait_for_function("each => !each.isConnected", arg=question, timeout=60_000)
                answered += 1
            assert page.locator("#code").inner_text() == f"CODE{place}"
            page.close()
            journal = Journal.read(study.answers_of(study.participants[place])).items
            kept = [entry for steps in journal.values() for entry in steps.values() if entry.step != ENDED]
            assert len(kept) == answered + 2 and journal[CHECK.key][0].choices == ("green",)
            assert all(entry.visible >= 0.4 and entry.hidden == 0 for entry in kept[2:])
