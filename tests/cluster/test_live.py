"""Turns of running episodes: followed, noted within bounds, read while they come, and never counted."""

import asyncio
import contextlib
import dataclasses
import io
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from cluster.live import LiveWriter, terminal, writer
from cluster.live.listener import BURST_SECONDS, BYTES_PER_SECOND, EPISODES, Listener
from cluster.live.writer import GrowingLog
from cluster.runner.messages import Assignment, NewReplica
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from cluster.runner.runner import Runner
from cluster.storage.lock import RunLock
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.conversation import Conversation, PlayedTurn
from evals.ledger.lease import read_fence
from evals.live import FOLDER, Began, Ended, Gone, LiveLog, Numbers, PlayedLine
from evals.live.lines import MOST_PICTURES, PICTURE_CHARACTERS, read, shortened, written
from evals.types import Reply, Turn, message
from tests.cluster.conftest import EASY
from tests.cluster.test_cli import run_here
from tests.cluster.test_ledger import PLAN, rows
from tests.fakes import FakeReplica
from tests.toy import ToySuite
from tests.viewer_runs import HOSTILE, MEGABYTE

BEGAN = Began.of(PLAN[0], 1.0)


def played(episode: str, turn: int, text: str = "red", at: float = 2.0) -> PlayedLine:
    return PlayedLine(episode, turn, at, text, (), text, "", None, "", "stop", 1, 1, 0.1, 0.0)


def began(name: str) -> Began:
    return dataclasses.replace(BEGAN, episode=name)


def told(log: LiveLog):
    """What a reader knows of each episode: attempt, turns, whether it has ended."""
    return {
        name: (each.began.attempt, [(turn.turn, turn.reply) for turn in each.turns], each.ended)
        for name, each in log.running.episodes.items()
    }


@contextlib.contextmanager
def claimed(path: Path):
    """A folder with a driver's lease; its mark."""
    path.mkdir(exist_ok=True)
    lock = RunLock(path)
    lock.acquire()
    yield lock.mark
    lock.release()


NAMES = st.sampled_from("abc")
LINES = st.one_of(
    st.builds(began, NAMES),
    st.builds(played, NAMES, st.integers(0, 9), st.text(max_size=30)),
    st.builds(Ended, NAMES),
    st.builds(lambda names: Gone(tuple(names)), st.lists(NAMES, max_size=2)),
    st.builds(Numbers, st.just(3.0), st.just({"spent": 0.5})),
)


@pytest.mark.slow
@given(st.lists(LINES), st.integers(100, 3_000), st.data())
@settings(max_examples=60, deadline=None)
def test_whoever_reads_along_knows_what_one_knows_who_comes_later(lines, most, data):
    """Whatever is appended, however often the log begins anew, and wherever its writer is killed in the middle of a line."""
    with tempfile.TemporaryDirectory() as folder, claimed(Path(folder) / "run") as mark:
        log, along = GrowingLog(Path(folder) / "run", mark, {"a": 2}), LiveLog(Path(folder) / "run")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer, "LOG_BYTES", most)
            rest = list(lines)
            while rest:
                count = data.draw(st.integers(1, len(rest)))
                log.append(rest[:count])
                del rest[:count]
                along.refresh()
        later = LiveLog(Path(folder) / "run")
        later.refresh()
        assert told(along) == told(later)
        if lines and later.running.episodes:
            assert told(later).keys() == log.running.episodes.keys()
            assert all(attempt == (3 if name == "a" else 1) for name, (attempt, _, _) in told(later).items())
        for path in (Path(folder) / "run" / FOLDER).glob("*"):
            whole = path.read_bytes()
            path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
            killed = LiveLog(Path(folder) / "run")
            killed.refresh()
            assert not killed.trouble
            path.write_bytes(whole)
            killed.refresh()
            assert told(killed) == told(later)


@given(LINES)
def test_a_line_is_read_as_it_was_written(line):
    assert read(written(line)) == line


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"kind":"ended"}', b'{"kind":"ended","episode":7}', b'{"kind":"other","episode":"a"}', b"\xff",
     b'{"kind":"numbers","at":1.0,"numbers":{"spent":NaN}}', b"[" * 100_000,
     b'{"kind":"numbers","at":1.0,"numbers":{' + b",".join(b'"%d":1.0' % n for n in range(33)) + b"}}"],
)  # fmt: skip
def test_lines_that_no_driver_wrote_are_passed_over(text, tmp_path):
    assert read(text) is None
    with claimed(tmp_path) as mark:
        GrowingLog(tmp_path, mark, {}).append([began("a")])
        [path] = (tmp_path / FOLDER).iterdir()
        path.write_bytes(path.read_bytes() + text + b"\n" + written(Ended("a")))
        log = LiveLog(tmp_path)
        log.refresh()
    assert told(log) == {"a": (1, [], True)}


def test_the_log_of_a_driver_that_lost_the_run_is_not_read(tmp_path):
    with claimed(tmp_path) as mark:
        former = GrowingLog(tmp_path, mark, {})
        former.append([began("a")])
    reader = LiveLog(tmp_path)
    reader.refresh()
    assert set(told(reader)) == {"a"}, "after a death it can still be seen what was running"
    with claimed(tmp_path) as mark:
        former.append([played("a", 0)])
        reader.refresh()
        assert told(reader) == {}
        GrowingLog(tmp_path, mark, {}).append([began("b")])
        former.append([began("c")])
        reader.refresh()
        assert set(told(reader)) == {"b"}


def test_a_log_keeps_its_size_and_the_newest_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "LOG_BYTES", 20_000)
    with claimed(tmp_path) as mark:
        log = GrowingLog(tmp_path, mark, {})
        log.append([began("long"), began("short")])
        for number in range(200):
            log.append([played("long", number, "x" * 300, at=float(number))])
            [path] = (tmp_path / FOLDER).iterdir()
            assert path.stat().st_size <= 20_000
        reader = LiveLog(tmp_path)
        reader.refresh()
        episode = reader.running.episodes["long"]
        assert episode.played == 200 and 5 < len(episode.turns) < 40
        assert [turn.turn for turn in episode.turns] == list(range(200 - len(episode.turns), 200))
        log.remove()
        assert not (tmp_path / FOLDER).exists()
        reader.refresh()
        assert told(reader) == {}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def conversation(number: int, *texts: str) -> Conversation:
    episode = dataclasses.replace(PLAN[0], index=number)
    made = Conversation(episode, None)
    for place, text in enumerate(texts):
        made.turns[place] = PlayedTurn(Turn(episode, place, (message("user", "?"),) * (place + 1)), Reply(text), "red")
    return made


def test_a_listener_tells_each_turn_once_and_what_it_added():
    heard, talk = Listener(), conversation(1, "one")
    heard.began(talk)
    first, turn = heard.news()
    assert (first.index, first.player, turn.turn, turn.reply, turn.action, turn.prompt) == (
        1,
        PLAN[0].player,
        0,
        "one",
        "red",
        "?",
    )
    assert heard.news() == ()
    talk.turns[1] = conversation(1, "one", "two").turns[1]
    heard.ended(talk.episode.id)
    turn, last = heard.news()
    assert (turn.turn, turn.reply, turn.prompt) == (1, "two", "?") and last == Ended(talk.episode.id)
    heard.ended("of somebody else")
    assert heard.news() == ()


@pytest.mark.parametrize("count", range(MOST_PICTURES + 3))
def test_a_line_has_the_last_pictures_that_a_turn_adds_and_none_that_takes_too_much(count):
    names = [*"abcdefg"[:count], "x" * PICTURE_CHARACTERS, "x" * (PICTURE_CHARACTERS + 1)]
    old, said, *shown = (SimpleNamespace(description=name) for name in ("old", "said", *names))
    chat = (message("user", old), message("assistant", said), message("user", *shown))
    first, second = (PlayedTurn(Turn(PLAN[0], 0, each), Reply(""), None) for each in (chat[:1], chat))
    assert PlayedLine.of(second, first, 2.0).pictures == tuple(names[-MOST_PICTURES:-1])
    assert PlayedLine.of(first, None, 2.0).pictures == ("old",)
    assert PlayedLine.of(first, None, 2.0, bare=True).pictures == ()


def test_a_listener_follows_no_more_than_its_share():
    heard = Listener(share=0.5)
    for number in range(100):
        heard.began(conversation(number))
    assert len(heard.news()) == EPISODES // 2
    heard.ended(conversation(3).episode.id)
    heard.began(conversation(200))
    assert [type(line) for line in heard.news()] == [Began, Ended]


def test_a_listener_notes_no_more_than_its_rate_whatever_is_said():
    clock = Clock()
    heard, noted = Listener(clock=clock), 0
    for number in range(600):
        clock.now += 0.5
        heard.began(conversation(number, MEGABYTE, HOSTILE * 30))
        noted += sum(len(written(line)) for line in heard.news())
        heard.ended(conversation(number).episode.id)
    assert 0.5 < noted / (BYTES_PER_SECOND * (300 + BURST_SECONDS)) < 1.2
    clock.now += 3600
    heard.began(conversation(1000, *["x" * 1000] * 1000))
    caught_up = sum(len(written(line)) for line in heard.news() if not getattr(line, "bare", False))
    assert caught_up < 1.2 * BYTES_PER_SECOND * BURST_SECONDS, "however long nothing was said before"


def test_what_is_beyond_the_rate_is_noted_without_its_texts():
    heard = Listener(clock=Clock())
    heard.began(conversation(1, *["x" * 10**6] * 100))
    turns = [line for line in heard.news() if isinstance(line, PlayedLine)]
    assert [turn.turn for turn in turns] == list(range(100)) and all(turn.bare == (turn.reply == "") for turn in turns)
    assert turns[-1].bare and not turns[0].bare
    heard.began(conversation(2))
    assert heard.news() == (), "and no further episode is followed meanwhile"


@given(st.text(max_size=50), st.integers(3, 60))
def test_a_shortened_text_keeps_both_ends(text, most):
    text = text.encode("utf-8", "replace").decode()
    short = shortened(text, most)
    assert (
        short == text
        if len(text) <= most
        else short.startswith(text[: most // 3]) and short.endswith(text[-(most - most // 3) :])
    )


async def test_a_runner_reports_what_is_said_and_the_driver_s_log_ends_with_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "WRITE_SECONDS", 0.01)
    suite = ToySuite(episodes=6, turns=3)
    plan = tuple(episode.assigned("fake", "") for episode in suite.plan())
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    live = LiveWriter.of(directory, wanted=True)
    runner = Runner(suite, ModelPlayer(Router(), "choice"), live.listener(1))
    orders, finished, reader = Assignment(plan, (NewReplica("r", FakeReplica(), 8),)), {}, LiveLog(directory.path)
    while len(finished) < 6:
        report = await runner.exchange(orders)
        orders = Assignment()
        live.add(report.heard)
        for row in report.finished.to_pylist() if report.finished is not None else ():
            finished[row["episode_id"]] = [turn["reply"] for turn in row["turns"]]
    await until(lambda: len(found := read_again(reader)) == 6 and all(ended for _, _, ended in found.values()))
    assert {name: [reply for _, reply in turns] for name, (_, turns, _) in told(reader).items()} == finished
    live.gone([plan[0].id, "not followed"])
    live.numbers(5.0, {"spent": 0.25, "slots/utilization": 1.0})
    await until(lambda: len(read_again(reader)) == 5 and reader.running.numbers)
    assert reader.running.numbers.numbers == {"spent": 0.25}
    live.close()
    assert not (directory.path / FOLDER).exists()
    directory.release()


def read_again(reader):
    reader.refresh()
    return told(reader)


async def until(look):
    end = time.monotonic() + 20
    while not look():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_a_run_notes_what_its_model_says_until_it_is_committed(wanted, tmp_path, capsys, monkeypatch):
    noted = []
    monkeypatch.setattr(LiveWriter, "add", lambda self, lines: noted.extend(lines))
    fast = [
        "model=simulated",
        "model.engine.step_seconds=.001",
        "cluster.commit_seconds=.05",
        "suite.tasks_per_domain=2",
    ]
    inline = [
        *EASY,
        *fast,
        "cluster=inline",
        "baselines=[random]",
        f"cluster.live={wanted}",
        f"run_dir={tmp_path / 'run'}",
    ]
    assert run_here(capsys, "run", *inline)[0] == 0
    ledger = {
        row["episode_id"]: row for row in Run(tmp_path / "run").episodes(["episode_id", "player", "turns"]).to_pylist()
    }
    followed = {name for name, row in ledger.items() if row["player"] == "simulated" and wanted}
    assert {line.episode for line in noted if isinstance(line, Began)} == followed
    assert {line.episode for line in noted if isinstance(line, Ended)} == followed
    said = [(line.episode, line.reply) for line in noted if isinstance(line, PlayedLine)]
    assert sorted(said) == sorted((name, turn["reply"]) for name in followed for turn in ledger[name]["turns"])
    gone = {episode for line in noted if isinstance(line, Gone) for episode in line.episodes}
    assert gone == (ledger.keys() if wanted else set())
    assert not (tmp_path / "run" / FOLDER).exists()


def test_nothing_is_written_where_nobody_wants_it_and_old_logs_go(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    GrowingLog(directory.path, "0-of-a-former-driver", {}).append([began("a")])
    live = LiveWriter.of(directory, wanted=False)
    live.add([began("b")])
    live.gone(["b"])
    assert live.listener(1) is None and not list((directory.path / FOLDER).iterdir())
    live.close()
    directory.release()


@pytest.mark.slow
async def test_a_log_that_cannot_be_written_ends_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(writer, "WRITE_SECONDS", 0.01)
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    (directory.path / FOLDER).write_text("a file in its place")
    live = LiveWriter.of(directory, wanted=True)
    live.add([began("a")] * (writer.MOST_WAITING + 5))
    await until(lambda: not live._thread.is_alive())
    live.close()
    assert "the live log is no longer written, the run goes on" in capsys.readouterr().err
    directory.release()


@pytest.fixture
async def run(tmp_path):
    """A run with four of its episodes in the ledger, and a log by which more are running."""
    directory = RunDirectory(tmp_path / "run")
    directory.claim()
    directory.begin(PLAN, {"config.yaml": "suite: {type: toy}\nmodel: {name: fake}\n"})
    directory.commit(await rows(PLAN[:4]))
    log = GrowingLog(directory.path, read_fence(directory.path).mark, {})
    yield directory, log
    directory.release()


async def test_no_score_depends_on_the_log(run):
    directory, log = run
    before = Run(directory.path).episodes().to_pylist()
    log.append(
        [
            Began.of(PLAN[5], 1.0),
            played(PLAN[5].id, 0),
            Began.of(PLAN[0], 1.0),
            played(PLAN[0].id, 0),
            Ended(PLAN[5].id),
        ]
    )
    assert Run(directory.path).episodes().to_pylist() == before and len(Run(directory.path).planned) == len(PLAN)


async def test_the_terminal_shows_in_eighty_columns_what_is_running(run):
    directory, log = run
    log.append(
        [Began.of(PLAN[5], time.time()), played(PLAN[5].id, 0, f"I see {HOSTILE} and " + "so on " * 500 + "the end")]
    )
    log.append([Numbers(time.time(), {"episodes/alive": 41.0, "tokens_per_second": 1234.0, "spent": 2.5})])
    out = io.StringIO()
    terminal.show_live(Run(directory.path), Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text
    for said in ("at work", "41 episodes running", "1,234 tokens/s", "2.50", "turn 2", "the end", "Progress by cell"):
        assert said in text


async def test_a_run_is_looked_at_until_all_is_played(run):
    directory, _ = run
    looks = terminal._Looks(Run(directory.path))
    for ids in ((), PLAN[4:-1], PLAN[-1:]):
        if ids:
            directory.commit(await rows(ids))
        looks._again = 0.0
        looks.shown()
        assert looks.complete is (ids == PLAN[-1:])


def test_cells_that_are_being_played_come_first():
    counts = [(0, 0), (5, 0), (0, 2), (3, 2), (1, 0)]
    cells = [SimpleNamespace(done=done, failed=failed, planned=5) for done, failed in counts]
    found = [(cell.done, cell.failed) for cell in terminal._unfinished(cells)]
    assert found == [(0, 2), (1, 0), (0, 0), (5, 0), (3, 2)]
