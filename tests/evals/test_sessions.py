"""Episodes played from outside have the same turns and the same record as episodes of a run."""

import asyncio
import inspect
from collections.abc import Sequence

import pytest

from evals.conversation import Conversation, Record
from evals.players import BUILT_IN_PLAYERS
from evals.sessions.session import BlockingLoop, BlockingSession, Session, SessionError, text_reply
from evals.suite import Suite, plan_for, play_episode
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kumo.suite import KumoSuite
from evals.suites.multistar.suite import MultiStarSuite
from evals.types import Episode, Outcome, PlayerError, Reply, message
from tests.toy import ToySuite

SUITES = {
    "kidgym": KidGymSuite(tasks=("CL", "SE"), levels=(1,), episodes=2),
    "kumo": KumoSuite(domains=("medical",), tasks_per_domain=1, repeats=2),
    "multistar": MultiStarSuite(configurations=("center_single",), puzzles=1),
    "toy": ToySuite(),
}


class Asking(Suite):
    """Asks three turns at once, and once more."""

    name = "asking"

    def plan(self) -> Sequence[Episode]:
        return [Episode("asking", "three", "1", "zero_shot", index=0, repeat=0, seed=1, fingerprint="", budget=4)]

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        asked = await asyncio.gather(*(conversation.ask((message("user", f"{number}?"),)) for number in range(3)))
        last = await conversation.ask((message("user", "all?"),))
        said = [played.reply.text for played in asked]
        return Outcome(success=said == ["0", "1", "2"] and last.reply.text == "all", steps=4)


def content(record: Record) -> object:
    turns = [(turn.turn.chat, turn.reply.text, turn.action, turn.rule) for turn in record.turns]
    return record.episode.id, record.outcome, record.error, record.error_kind, turns


@pytest.mark.slow
@pytest.mark.parametrize("player", ["random", "oracle"])
@pytest.mark.parametrize("name", SUITES)
def test_record_equals_that_of_a_run(name: str, player: str) -> None:
    suite = SUITES[name]
    for episode in plan_for(suite, {player: ""})[:6]:
        session = BlockingSession(suite, episode)
        turn = session.begin()
        while turn is not None:
            turn = session.answer(asyncio.run(BUILT_IN_PLAYERS[player].reply(turn)))
        session.close()
        assert session.record is not None and session.turn is None
        assert content(session.record) == content(asyncio.run(play_episode(suite, episode, BUILT_IN_PLAYERS[player])))


def test_turns_asked_at_once_are_answered_in_their_order() -> None:
    session = BlockingSession(Asking(), Asking().plan()[0])
    turn, said = session.begin(), list[str]()
    while turn is not None:
        said.append(str(turn.chat[0].parts[0]))
        turn = session.answer(Reply(said[-1].rstrip("?")))
    assert said == ["0?", "1?", "2?", "all?"]
    assert session.record is not None and session.record.outcome is not None and session.record.outcome.success


def test_a_player_that_fails_ends_the_episode_with_its_cause() -> None:
    async def failed() -> Session:
        session = Session(Asking(), Asking().plan()[0])
        await session.begin()
        assert await session.answer(Reply("0")) is not None
        await session.fail(PlayerError("no more money", "endpoint"))
        while session.record is None:
            await asyncio.sleep(0)
        if session.turn is not None:  # it was handed out before the failure was seen
            assert await session.answer(Reply("2")) is None, "asked at once, but the episode has ended"
        return session

    record = asyncio.run(failed()).record
    assert record is not None and not record.done
    assert (record.error, record.error_kind) == ("PlayerError: no more money", "endpoint")


def test_nothing_more_is_asked_once_the_episode_has_ended() -> None:
    """Of turns that were asked at once, those behind the failed one wait in vain."""

    async def ended() -> Session:
        session = Session(Asking(), Asking().plan()[0])
        await session.begin()
        await session.fail(PlayerError("no more money", "endpoint"))
        while session.record is None:
            await asyncio.sleep(0)
        if session.turn is not None:  # it was handed out before the failure was seen
            await session.answer(Reply("1"))
        return session

    assert asyncio.run(ended()).turn is None


def test_a_session_is_used_in_order() -> None:
    session = BlockingSession(Asking(), Asking().plan()[0])
    with pytest.raises(SessionError, match="has not begun"):
        session.answer(Reply("0"))
    session.begin()
    with pytest.raises(SessionError, match="begun already"):
        session.begin()
    session.close()
    assert session.record is None and session.turn is None


def test_it_also_blocks_where_an_event_loop_runs() -> None:
    async def in_a_notebook() -> int:
        session = BlockingSession(Asking(), Asking().plan()[0])
        turn = session.begin()
        assert turn is not None
        session.close()
        session.close()
        return turn.number

    loop, last = BlockingLoop(), asyncio.sleep(0)
    loop.close(asyncio.sleep(0))
    loop.close(last)
    assert inspect.getcoroutinestate(last) == inspect.CORO_CLOSED, "what is not waited for is closed"

    assert asyncio.run(in_a_notebook()) == 0


class Broken(Asking):
    """Raises what it should not."""

    async def play(self, episode: Episode, conversation: Conversation) -> Outcome:
        raise SystemExit("gone")


def test_a_defect_of_the_suite_ends_its_episode_only() -> None:
    session = BlockingSession(Broken(), Broken().plan()[0])
    assert session.begin() is None
    assert session.record is not None and session.record.error == "SystemExit: gone"


def test_a_label_is_answered_with_one_of_the_labels() -> None:
    suite = SUITES["multistar"]
    session = BlockingSession(suite, plan_for(suite, {"outside": ""})[0])
    turn = session.begin()
    while turn is not None and not turn.labels:
        turn = session.answer(text_reply(turn, "A"))
    assert turn is not None
    reply = text_reply(turn, f" {turn.labels[1]}\n")
    assert reply.text == turn.labels[1]
    assert reply.label_scores is not None and reply.label_scores.logprobs[1] == 0
    with pytest.raises(PlayerError, match="answered with one of"):
        text_reply(turn, "perhaps the third")
    session.close()
