"""The human player: what a person is shown, what is taken for an answer, and the page in the browser."""

import asyncio
import contextlib
import errno
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console
from starlette.testclient import TestClient

from envs.kidgym import make
from evals.conversation import Conversation
from evals.human import HumanPlayer, QuitError, human_name, is_human
from evals.human.browser import HOST, Browser, listen
from evals.human.page import all_parts
from evals.human.player import _known
from evals.human.terminal import Terminal, can_draw, option_index
from evals.suite import play_episode
from evals.types import PlayerError, Turn, message
from tests.asgi import hang_up
from tests.cluster.conftest import ROOT
from tests.evals.test_records import an_episode
from tests.toy import ToySuite

FRAME = make("CL", 1, 0).frame
CHOICES = "Actions:\n" + "\n".join(f"{letter}) go to {letter}" for letter in "ABCDEFGHIJ") + "\n\nWhich?"


class Scripted:
    """Chooses these options, one after the other, and remembers the questions."""

    def __init__(self, *choices):
        self.choices = list(choices)
        self.questions = []

    def begin(self, number, games):
        self.number = number

    async def ask(self, question):
        self.questions.append(question)
        await asyncio.sleep(0)
        if not self.choices:
            raise QuitError
        return self.choices.pop(0)


def turn(*chat, options=("A", "B"), number=0, labels=()):
    return Turn(an_episode(), number, chat, options, labels)


# --- names -----------------------------------------------------------------------------------------------------------


def test_participants_have_names_of_their_own():
    assert [human_name(), human_name("ann"), human_name("p-07")] == ["human", "human_ann", "human_p-07"]
    assert all(map(is_human, ("human", "human_ann", "human_p-07", "person-a2")))
    assert not any(
        map(is_human, ("humanoid", "random", "human_", "human_a_b", "Human", "human_../x", "person-", "person-A"))
    )


@pytest.mark.parametrize("name", ["a b", "../x", "-a", "ä", "x" * 33, "a_b", "a\n"])
def test_a_participant_s_name_is_plain(name):
    with pytest.raises(ValueError, match="letters, digits and hyphens"):
        human_name(name)


# --- the player ------------------------------------------------------------------------------------------------------


async def test_a_reply_is_the_chosen_option_with_the_time_it_took(monkeypatch):
    monkeypatch.setattr("evals.human.player.time", SimpleNamespace(monotonic=iter((50.0, 57.5)).__next__))
    reply = await HumanPlayer(Scripted(1)).reply(turn(message("user", "Which?")))
    assert reply.text == "B" and reply.seconds == 7.5 and reply.label_scores is None and reply.finish == "stop"


async def test_labels_are_chosen_with_certainty():
    reply = await HumanPlayer(Scripted(0)).reply(turn(message("user", "?"), options=(), labels=("A", "B")))
    assert reply.text == "A" and reply.label_scores.logprobs == (0.0, float("-inf"))


async def test_a_turn_without_options_cannot_be_played():
    with pytest.raises(PlayerError, match="no options"):
        await HumanPlayer(Scripted(0)).reply(turn(message("user", "Say something"), options=()))


async def test_only_what_is_new_is_shown_and_the_rules_apart():
    scripted = Scripted(0, 0, 0)
    player = HumanPlayer(scripted)
    rules, first = message("system", "Rules."), message("user", "One", FRAME)
    await player.reply(turn(rules, first))
    await player.reply(turn(rules, first, message("assistant", "A"), message("user", "Two"), number=1))
    await player.reply(Turn(an_episode(9), 0, (rules, first), ("A",)))
    shown = [(question.rules, question.shown) for question in scripted.questions]
    assert shown == [(("Rules.",), ("One", FRAME)), (("Rules.",), ("Two",)), (("Rules.",), ("One", FRAME))]
    assert [question.past for question in scripted.questions] == [(), (first, message("assistant", "A")), ()]


async def test_a_game_of_the_same_group_has_no_past_in_the_one_before():
    """Repeats of a game begin alike, and belong to one group."""
    scripted = Scripted(0, 0)
    player = HumanPlayer(scripted)
    for repeat in (0, 1):
        await player.reply(Turn(an_episode(repeat=repeat, group="game"), 0, (message("user", "One"),), ("A",)))
    one, other = scripted.questions
    assert one.episode.affinity == other.episode.affinity
    assert (one.past, one.shown) == (other.past, other.shown) == ((), ("One",))


async def test_what_a_page_shows_is_rules_past_and_what_is_new():
    scripted = Scripted(0, 0)
    player = HumanPlayer(scripted)
    chat = (message("system", "Rules."), message("user", "One", FRAME))
    await player.reply(turn(*chat))
    await player.reply(turn(*chat, message("assistant", "A"), message("user", "Two"), number=1))
    assert [all_parts(question) for question in scripted.questions] == [
        ("Rules.", "One", FRAME),
        ("Rules.", "One", FRAME, "A", "Two"),
    ]


async def test_a_chat_that_begins_anew_has_no_past():
    scripted = Scripted(0, 0)
    player = HumanPlayer(scripted)
    for number, text in enumerate(("One", "Two")):
        await player.reply(turn(message("system", "Rules."), message("user", text), number=number))
    assert [(question.past, question.shown) for question in scripted.questions] == [((), ("One",)), ((), ("Two",))]


def test_what_both_chats_begin_with_is_known_and_so_is_the_own_last_reply():
    one, two, said, more = (
        message("user", "One"),
        message("user", "Two"),
        message("assistant", "A"),
        message("user", "B"),
    )
    chats = [(), (one,), (one, two), (two, one), (one, said), (one, said, more), (one, said, more, said)]
    known = [[_known(before, chat) for chat in chats] for before in chats[:6]]
    assert known == [
        [0, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 2, 2, 2],
        [0, 1, 2, 0, 2, 2, 2],
        [0, 0, 0, 2, 0, 0, 0],
        [0, 1, 1, 0, 2, 2, 2],
        [0, 1, 1, 0, 2, 3, 4],
    ]


async def test_captions_say_what_an_option_stands_for():
    scripted = Scripted(0)
    text = "Example:\nA) wait\nB) go\n\nNow:\nA) open the door\nB: sing\nC)\nAB) no"
    await HumanPlayer(scripted).reply(turn(message("user", text), options=("A", "B", "C")))
    assert scripted.questions[0].captions == ("A) open the door", "B: sing", "C")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (CHOICES, ("Actions:\n\nWhich?",)),
        ("Then:\n" + CHOICES + "\n" + CHOICES, ("Then:\n" + CHOICES + "\nActions:\n\nWhich?",)),
        (CHOICES.removeprefix("Actions:\n").removesuffix("\n\nWhich?"), ()),
        (CHOICES.replace("\nD)", "\nSo:\nD)"), None),
    ],
)
async def test_what_is_shown_as_choices_does_not_stand_in_the_text_too(text, shown):
    scripted = Scripted(0)
    await HumanPlayer(scripted).reply(turn(message("user", text), options=tuple("ABCDEFGHIJ")))
    assert scripted.questions[0].shown == ((text,) if shown is None else shown)


async def test_questions_that_come_at_once_are_asked_one_at_a_time():
    asked = []

    class Slow(Scripted):
        async def ask(self, question):
            asked.append(("begin", question.number))
            await asyncio.sleep(0)
            asked.append(("end", question.number))
            return 0

    conversation = Conversation(an_episode(), HumanPlayer(Slow()))
    chats = [(message("user", text),) for text in "xyz"]
    await asyncio.gather(*(conversation.ask(chat, options=("A",)) for chat in chats))
    assert asked == [(what, number) for number in range(3) for what in ("begin", "end")]


async def test_a_game_that_is_left_has_no_record():
    suite = ToySuite(episodes=1)
    with pytest.raises(QuitError):
        await play_episode(suite, suite.plan()[0], HumanPlayer(Scripted(0, 0)))


# --- the terminal ----------------------------------------------------------------------------------------------------


TYPED = {"1": 0, "3": 2, "blood test": 1, "X-Ray": 0}
NO_OPTION = ["0", "4", "", "-1", "²", "9" * 5000, "blood", "1.0"]


@pytest.mark.parametrize(
    ("typed", "index"), [*TYPED.items(), *((typed, None) for typed in NO_OPTION)], ids=lambda v: str(v)[:9]
)
def test_an_option_is_typed_by_number_or_by_its_text(typed, index):
    assert option_index(typed, ("X-ray", "Blood test", "MRI")) == index


def test_the_text_of_an_option_comes_before_its_number():
    assert option_index("2", ("2", "1")) == 0


def terminal(tmp_path, monkeypatch, *typed, **settings):
    output = io.StringIO()
    console = Console(file=output, width=settings.pop("width", 100), highlight=False, **settings)
    answers = iter(typed)

    def read(prompt=""):
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    return Terminal(tmp_path, console), output


async def test_the_terminal_shows_texts_at_80_columns_pictures_as_files_and_options_as_numbers(tmp_path, monkeypatch):
    shown, output = terminal(tmp_path, monkeypatch, "yes", ":rules", "2")
    chat = (message("system", "The rules. " * 20), message("user", "Look:", FRAME, "A) go\nB) stay\n[red]x[/red]"))
    reply = await HumanPlayer(shown).reply(turn(*chat))
    text = output.getvalue()
    assert reply.text == "B" and max(len(line) for line in text.splitlines() if "picture" not in line) <= 80
    assert "   1  A) go\n   2  B) stay\n" in text and "[red]x[/red]" in text
    assert text.count("The rules. The rules.") > 1 and "number from 1 to 2" in text
    [path] = re.findall(r"\[picture: (.*)\]", text)
    assert Image.open(path).size == FRAME.size and Path(path).parent == tmp_path
    assert "▀" not in text


async def test_rules_are_shown_again_only_where_they_change(tmp_path, monkeypatch):
    shown, output = terminal(tmp_path, monkeypatch, "1", "1", "1")
    player = HumanPlayer(shown)
    for index, rules in enumerate(["Rules one.", "Rules one.", "Rules two."]):
        await player.reply(Turn(an_episode(index), 0, (message("system", rules), message("user", "?")), ("A", "B")))
    text = output.getvalue()
    assert text.count("Rules one.") == 1 and text.count("Rules two.") == 1


@pytest.mark.parametrize("typed", [[":quit"], [], ["nonsense", ":quit"]])
async def test_quit_and_the_end_of_input_stop(tmp_path, monkeypatch, typed):
    shown, _ = terminal(tmp_path, monkeypatch, *typed)
    with pytest.raises(QuitError):
        await HumanPlayer(shown).reply(turn(message("user", "?")))


@pytest.mark.parametrize("fails", ["output", "input"])
async def test_a_terminal_that_has_been_closed_is_left_and_fails_no_game(fails, tmp_path, monkeypatch):
    shown, _ = terminal(tmp_path, monkeypatch, "1")

    def closed(*given, **named):
        raise OSError(errno.EIO, "Input/output error")

    if fails == "output":
        monkeypatch.setattr(shown._console, "print", closed)
        with pytest.raises(QuitError):
            shown.begin(1, 2)
    else:
        monkeypatch.setattr("builtins.input", closed)
    with pytest.raises(QuitError):
        await HumanPlayer(shown).reply(turn(message("user", "?")))


async def test_a_picture_that_cannot_be_drawn_is_no_closed_terminal(tmp_path, monkeypatch):
    class Damaged:
        def render(self):
            raise OSError("the file is gone")

    shown, _ = terminal(tmp_path, monkeypatch, "1")
    with pytest.raises(OSError, match="the file is gone"):
        shown._picture(Damaged())


async def test_a_color_terminal_draws_the_picture(tmp_path, monkeypatch):
    shown, output = terminal(tmp_path, monkeypatch, "1", force_terminal=True, color_system="truecolor", width=60)
    monkeypatch.setattr(Console, "encoding", "utf-8")
    await HumanPlayer(shown).reply(turn(message("user", FRAME)))
    assert output.getvalue().count("▀") == 60 * 30


@pytest.mark.parametrize(("width", "height", "cells"), [(4000, 1, 60), (60, 3, 120), (120, 130, 60 * 32)])
def test_a_drawn_picture_has_at_least_one_line(tmp_path, monkeypatch, width, height, cells):
    shown, output = terminal(tmp_path, monkeypatch, "1", force_terminal=True, color_system="truecolor", width=60)
    monkeypatch.setattr(Console, "encoding", "utf-8")
    shown._picture(SimpleNamespace(render=lambda: np.zeros((height, width, 3), np.uint8)))
    assert output.getvalue().count("▀") == cells


@pytest.mark.parametrize("lacking", [{"color_system": None}, {"color_system": "standard"}, {"force_terminal": False}])
def test_a_terminal_without_colors_draws_nothing(monkeypatch, lacking):
    monkeypatch.setattr(Console, "encoding", "utf-8")
    settings = {"file": io.StringIO(), "force_terminal": True, "color_system": "256"}
    assert can_draw(Console(**settings)) and not can_draw(Console(**{**settings, **lacking}))


# --- the browser -----------------------------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>\nA) <b>go</b>\nB) stay"


@pytest.fixture
async def asked():
    """A page with one question on it: (browser, client, the task that waits for the answer)."""
    browser = Browser("token")
    browser.begin(2, 5)
    chat = (message("system", "Rules."), message("user", HOSTILE, FRAME))
    waiting = asyncio.create_task(HumanPlayer(browser).reply(turn(*chat)))
    await asyncio.sleep(0)
    yield browser, TestClient(browser.app, base_url=f"http://{HOST}"), waiting
    waiting.cancel()


async def test_the_page_has_no_script_or_style_from_elsewhere(asked):
    _, client, _ = asked
    page = client.get("/token/")
    assert page.status_code == 200 and "text/html" in page.headers["content-type"]
    assert "default-src 'self'" in page.headers["content-security-policy"]
    links = set(re.findall(r'(?:src|href)="([^"]+)"', page.text)) - {"data:,"}
    assert links == {"play.js", "play-style.css"}
    assert all(client.get(f"/token/{link}").status_code == 200 for link in {*links, "licenses.txt"})


async def test_the_state_holds_texts_as_they_are_and_pictures_by_address(asked):
    _, client, _ = asked
    state = client.get("/token/state").json()
    assert state["progress"] == {"word": "Game", "at": 2, "of": 5} and state["phase"] == "question"
    assert state["rules"] == [{"text": "Rules."}] and state["shown"][0] == {"text": "<script>alert(1)</script>"}
    [asked] = state["asks"]
    assert asked["options"] == ["A", "B"] and asked["captions"] == ["A) <b>go</b>", "B) stay"]
    picture = client.get(f"/token/pictures/{state['shown'][1]['picture']}.png")
    assert picture.headers["content-type"] == "image/png"
    assert (np.asarray(Image.open(io.BytesIO(picture.content))) == FRAME.render()).all()
    assert client.get("/token/pictures/other.png").status_code == 404


def test_a_page_that_waits_for_its_first_game_counts_none():
    state = TestClient(Browser("token").app, base_url=f"http://{HOST}").get("/token/state").json()
    assert state["phase"] == "wait" and state["progress"] == {"word": "Game", "at": 0, "of": 0}


async def test_what_was_said_before_stays_on_the_page():
    browser = Browser("token")
    player, client = HumanPlayer(browser), TestClient(browser.app, base_url=f"http://{HOST}")
    chat = (message("user", FRAME),)
    for number in range(2):
        waiting = asyncio.create_task(player.reply(turn(*chat, number=number)))
        await asyncio.sleep(0)
        state = client.get("/token/state").json()
        client.post("/token/answer", json={"key": state["key"], "choices": [0]})
        chat = (*chat, message("assistant", (await waiting).text), message("user", "And now?"))
    before, answer = state["past"]
    assert answer == {"role": "assistant", "parts": [{"text": "A"}]} and before["role"] == "user"
    assert state["shown"] == [{"text": "And now?"}]


async def test_an_answer_reaches_the_game_once(asked):
    _, client, waiting = asked
    key = client.get("/token/state").json()["key"]
    assert client.post("/token/answer", json={"key": key, "choices": [1]}).json()["phase"] == "wait"
    assert client.post("/token/answer", json={"key": key, "choices": [0]}).status_code == 409
    assert (await waiting).text == "B"
    later = client.get("/token/state").json()
    assert later["key"] != key and later["phase"] == "wait"
    assert client.post("/token/answer", json={"key": later["key"], "choices": [0]}).status_code == 409


@pytest.mark.parametrize("option", [-1, 2, True, "1", None, 1.0])
async def test_what_is_no_option_is_refused(asked, option):
    _, client, waiting = asked
    key = client.get("/token/state").json()["key"]
    assert client.post("/token/answer", json={"key": key, "choices": [option]}).status_code == 400
    for body in (b"", b"[]", b"{}", b"\xff", b"[" * 900, b"[" * 100_000):
        assert client.post("/token/answer", content=body).status_code == 400
    for given in (
        {"choices": []},
        {"choices": [0, 0]},
        {"choices": [0], "visible": -1},
        {"choices": [0], "hidden": "1"},
    ):
        assert client.post("/token/answer", json={"key": key, **given}).status_code == 400
    assert client.post("/token/answer", json={"key": "0", "choices": [0]}).status_code == 409
    assert not waiting.done()


async def test_a_page_that_hangs_up_within_a_post_changes_nothing(asked):
    browser, _, waiting = asked
    await hang_up(browser.app, "/token/answer", HOST)
    assert not waiting.done()


async def test_a_stranger_sees_nothing(asked):
    browser, client, _ = asked
    for path in ("/", "/state", "/other/", "/other/state"):
        assert client.get(path).status_code == 404
    elsewhere = TestClient(browser.app, base_url="http://evil.example")
    assert elsewhere.get("/token/state").status_code == 400
    assert len({Browser().token for _ in range(10)}) == 10 and len(Browser().token) >= 32


async def test_the_button_to_stop_stops(asked):
    _, client, waiting = asked
    assert client.post("/token/quit").status_code == 204
    with pytest.raises(QuitError):
        await waiting


async def test_the_page_is_served_on_loopback_and_told_the_end():
    import httpx

    browser = Browser()
    async with httpx.AsyncClient() as client, browser.serving(listen()) as address:
        assert address.startswith(f"http://{HOST}:") and address.endswith(f"/{browser.token}/")
        state = (await client.get(f"{address}state")).json()
        assert state["phase"] == "wait"
        following = asyncio.create_task(client.get(f"{address}state", params={"known": state["key"]}))
        await asyncio.sleep(0.05)
        await browser.end()
        assert (await following).json()["phase"] == "over"


BETWEEN_PROMPT_AND_READ = """
import signal, sys, threading
from pathlib import Path
from evals.human.terminal import Terminal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
# caught by another thread, it does not interrupt the read, like one that comes just before it
threading.Timer(0.5, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
Terminal(Path())._read()
"""


@pytest.mark.slow
def test_a_signal_just_before_the_read_is_noticed_before_anything_is_typed():
    outside, inside = pty.openpty()
    command = [sys.executable, "-c", BETWEEN_PROMPT_AND_READ]
    with subprocess.Popen(command, cwd=ROOT, stdin=inside, stdout=inside, stderr=inside) as process:
        try:
            assert process.wait(60) == 75
        finally:
            process.kill()
            os.close(inside)
            os.close(outside)


DRAWING = """
from pathlib import Path
from rich.console import Console
from envs.kidgym import make
from evals.human.terminal import Terminal
console = Console(force_terminal=True, color_system="truecolor", width=80)
Terminal(Path(sys.argv[1]), console)._picture(make("CL", 1, 0).frame)
print("drawn")
"""


def test_a_terminal_that_does_not_tell_its_cell_size_shows_pictures_all_the_same(tmp_path):
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-c", f"import sys\n{DRAWING}", tmp_path]
    with subprocess.Popen(command, cwd=ROOT, stdin=inside, stdout=inside, stderr=inside) as drawing:
        os.close(inside)
        shown = b""
        with contextlib.suppress(OSError):  # at the end of a terminal
            while part := os.read(outside, 65_536):
                shown += part
    os.close(outside)
    assert drawing.returncode == 0 and b"drawn" in shown and "▀".encode() in shown, shown[-2_000:]
    assert b"Traceback" not in shown and b"cell size" not in shown
