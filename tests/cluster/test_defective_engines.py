"""Whatever an engine of others does wrong is told with its name: a bad reply is asked for again, a bad start ends the run."""

import asyncio
import dataclasses
import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config import registry
from cluster.driver.start_failures import StartFailures
from cluster.engines import checked
from cluster.engines.base import Account, Capabilities, Engine, EngineDefectError, EngineError, Request
from cluster.engines.checked import CheckedEngine, check_capabilities, check_facts, check_reply
from cluster.errors import UserError
from cluster.ray_backend.actors import Place
from cluster.runner.messages import Assignment, NewReplica
from cluster.runner.model_player import MAX_TRIES, ModelPlayer
from cluster.runner.router import Router
from cluster.runner.runner import Runner
from evals.conversation import PlayedTurn, Record
from evals.ledger.sound_rows import checked_rows
from evals.types import LabelScores, Outcome, Reply, Turn, message
from tests.cluster.conftest import EASY
from tests.cluster.test_cli import run_here
from tests.cluster.test_defective_suites import UnprintableError, raising
from tests.cluster.test_runner import episodes
from tests.toy import ToySuite

REQUEST = Request("one", (message("user", "?"),))


async def awaits_a_canceled_task():
    task = asyncio.create_task(asyncio.sleep(9))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancels_the_task_that_asks():
    asyncio.current_task().cancel()
    await asyncio.sleep(1)


class Loose(str):
    """A text whose look at it fails."""

    __slots__ = ()

    def isascii(self):
        raise ZeroDivisionError("oops")


def acts(error):
    return lambda: raising(error)(None, None)


def answers(reply):
    return lambda: reply


DEFECTS = {
    "raises": (acts(ZeroDivisionError("oops")), "complete raised ZeroDivisionError: oops"),
    "exits": (acts(SystemExit(5)), "complete raised SystemExit: 5"),
    "interrupts": (acts(KeyboardInterrupt()), "complete raised KeyboardInterrupt"),
    "closes": (acts(GeneratorExit()), "complete raised GeneratorExit"),
    "an error without a text": (acts(UnprintableError()), "UnprintableError: its text cannot be made"),
    "an error with half a sign": (acts(ValueError("\ud800")), r"ValueError: \ud800"),
    "awaits a canceled task": (awaits_a_canceled_task, "complete raised CancelledError"),
    "cancels the task that asks": (cancels_the_task_that_asks, "the engine canceled the task that asked it"),
    "none": (answers(None), "complete returned NoneType, not a Reply"),
    "a text": (answers("red"), "complete returned str, not a Reply"),
    "no text": (answers(Reply(None)), "a reply whose text is None; it must be a text of whole characters"),
    "bytes": (answers(Reply(b"red")), "text is b'red'"),
    "half a sign": (answers(Reply("\ud800")), r"text is '\ud800'"),
    "a text that fails": (answers(Reply(Loose("red"))), "cannot be looked at: ZeroDivisionError: oops"),
    "no reasoning": (answers(Reply("red", reasoning=None)), "reasoning is None"),
    "another end": (answers(Reply("red", finish="weird")), "finish is 'weird'; it must be one of stop, length"),
    "half a token": (answers(Reply("red", prompt_tokens=1.5)), "prompt_tokens is 1.5; it must be a whole number"),
    "tokens below 0": (answers(Reply("red", completion_tokens=-1)), "completion_tokens is -1"),
    "too many tokens": (answers(Reply("red", cached_tokens=2**31)), "cached_tokens is 2147483648"),
    "too many retries": (answers(Reply("red", retries=2**40)), "retries is 1099511627776"),
    "preemptions below 0": (answers(Reply("red", preemptions=-1)), "preemptions is -1"),
    "endless cost": (answers(Reply("red", cost=float("inf"))), "cost is inf; it must be a number from 0 to 2**53"),
    "cost nan": (answers(Reply("red", cost=float("nan"))), "cost is nan"),
    "seconds nan": (answers(Reply("red", seconds=float("nan"))), "seconds is nan"),
    "scores of another kind": (answers(Reply("red", label_scores=(0.5,))), "label_scores is tuple"),
    "scores nobody asked for": (
        answers(Reply("red", label_scores=LabelScores((0.0,), 1.0, True))),
        "scores of 1 labels",
    ),
}


class Defective(Engine):
    """Acts on some requests; answers all others."""

    starts_processes = False

    def __init__(self, act, is_hit):
        self.act, self.is_hit, self.hits = act, is_hit, 0

    async def complete(self, request):
        if not self.is_hit(request, self.hits):
            return Reply("red", completion_tokens=1)
        self.hits += 1
        done = self.act()
        return await done if asyncio.iscoroutine(done) else done


async def rows_by_index(engine, count):
    """The rows of a toy run's episodes with this engine."""
    suite = ToySuite(episodes=count)
    plan = episodes(suite, "model")
    runner = Runner(suite, ModelPlayer(Router(), "free"))
    replica = NewReplica("r", CheckedEngine(engine), 4)
    report, rows = await runner.exchange(Assignment(plan, (replica,))), {}
    while True:
        found = [] if report.finished is None else report.finished.to_pylist()
        rows |= {row["index"]: row for row in found}
        if len(rows) == count:
            runner.end()
            return rows, report.counts
        report = await runner.exchange(Assignment())


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_defect_is_tried_again_and_then_fails_its_episode_as_the_engine_s(name, caplog):
    act, cause = DEFECTS[name]
    first = episodes(ToySuite(episodes=3), "model")[0].id
    for most, status in ((MAX_TRIES - 1, "done"), (MAX_TRIES, "failed")):
        engine = Defective(act, lambda request, hits, most=most: hits < most and request.id.startswith(first))
        rows, counts = await asyncio.wait_for(rows_by_index(engine, 3), 20)
        assert {index: row["status"] for index, row in rows.items()} == {0: status, 1: "done", 2: "done"}
        assert (engine.hits, counts.retries) == (most, MAX_TRIES - 1)
        assert (rows[0]["error_kind"], cause in rows[0]["error"]) == (
            ("engine", True) if status == "failed" else ("", False)
        )
        if status == "failed" and "canceled the task" not in cause:
            assert "tests.cluster.test_defective_engines.Defective.complete" in rows[0]["error"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.sampled_from(["\ud800", 2**31, 2**63]),
)


@given(st.sampled_from(sorted(Reply.__dataclass_fields__.keys() - {"label_scores"})), ANY)
def test_a_reply_that_is_let_through_can_be_stored(field, value):
    reply = Reply(**{"text": "red", field: value})
    try:
        check_reply(reply, REQUEST)
    except ValueError as refusal:
        assert field in str(refusal)
        return
    [episode] = ToySuite(episodes=1).plan()
    turn = PlayedTurn(Turn(episode.assigned("model", ""), 0, REQUEST.chat), reply)
    record = Record(turn.turn.episode, Outcome(True, 1), "", (turn,), 0.0)
    [row] = checked_rows([record], {}).to_pylist()
    if field not in ("retries", "preemptions"):
        stored = row["turns"][0]["reply" if field == "text" else field]
        assert stored == pytest.approx(value, rel=1e-6) if isinstance(value, float) else stored == value


@pytest.mark.parametrize("scores", [(None, 1.0), (0.0, "1"), ("a", 1.0)])
def test_scores_of_labels_are_as_many_numbers_as_labels_were_asked_for(scores):
    asked = Request("one", (), labels=("A", "B"))
    check_reply(Reply("A", label_scores=LabelScores((-0.1, float("nan")), 0.9, True)), asked)
    with pytest.raises(ValueError, match="not all numbers"):
        check_reply(Reply("A", label_scores=LabelScores((0.0, scores[0]), scores[1], True)), asked)


async def test_an_engine_s_request_that_is_canceled_from_outside_is_canceled():
    class Waits(Engine):
        async def complete(self, request):
            await asyncio.sleep(60)

        check_health = start = lambda self: self.complete(None)

    engine = CheckedEngine(Waits())
    for ask in (lambda: engine.complete(REQUEST), engine.check_health, engine.start):
        asking = asyncio.create_task(ask())
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()


def test_a_request_that_is_left_when_its_loop_has_ended_raises_nothing():
    class Waits(Engine):
        async def complete(self, request):
            await asyncio.Event().wait()

    async def begins():
        asked.send(None)

    asked = CheckedEngine(Waits()).complete(REQUEST)
    asyncio.run(begins())
    asked.close()


@pytest.mark.parametrize(
    "error", [SystemExit(4), ZeroDivisionError("oops"), KeyboardInterrupt(), asyncio.CancelledError()]
)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *(("start", ()), ("close", ()), ("check_health", ()), ("load_weights", ("w",)), ("settle", (0, 0.0))),
        *(("add_spent_elsewhere", (1.0, 1.0)), ("keep_in", ("run",))),
    ],
)
async def test_whatever_a_method_raises_is_an_error_of_the_engine(name, arguments, error):
    class Odd(Defective):
        pass

    setattr(Odd, name, lambda self, *given: acts(error)())
    with pytest.raises(EngineError, match=rf"Odd\.{name} raised {type(error).__name__}"):
        done = getattr(CheckedEngine(Odd(None, None)), name)(*arguments)
        await done
    setattr(Odd, name, lambda self, *given: acts(EngineError("as it says"))())
    with pytest.raises(EngineError, match=r"^as it says$"):
        await getattr(CheckedEngine(Odd(None, None)), name)(*arguments)


async def test_an_account_is_one_and_an_engine_that_does_not_close_is_left(monkeypatch):
    class Endless(Defective):
        account = Account(1.0, 0.0, 0.5, 3)

        async def settle(self, covered, seconds):
            return self.account

        async def close(self):
            await asyncio.Event().wait()

    engine = CheckedEngine(Endless(None, None))
    assert await engine.settle(0, 0.0) is Endless.account
    monkeypatch.setattr(Endless, "account", None)
    with pytest.raises(EngineDefectError, match="settle returned NoneType, not an Account"):
        await engine.settle(0, 0.0)
    for amount in (math.nan, math.inf, -math.inf, -0.5, "0.5", None, 2.0**60):
        for field in ("spent", "in_flight", "highest", "number", "counted_before"):
            monkeypatch.setattr(Endless, "account", dataclasses.replace(Account(1.0, 0.0, 0.5, 3), **{field: amount}))
            with pytest.raises(EngineDefectError, match=f"settle returned an Account whose {field} is "):
                await engine.settle(0, 0.0)
    taken_back = Account(-0.5, 0.0, 0.0, 0, counted_before=0.5)
    monkeypatch.setattr(Endless, "account", taken_back)
    assert await engine.settle(0, 0.0) == taken_back
    monkeypatch.setattr(checked, "CLOSE_SECONDS", 0.0)
    with pytest.raises(EngineError, match="close raised TimeoutError"):
        await engine.close()


@pytest.mark.parametrize("slots", [0, -3, 2**31, float("nan"), 4.0, "4", True, None])
def test_batch_slots_are_a_number_from_1(slots):
    engine = type("Odd", (Defective,), {"max_num_seqs": slots})
    with pytest.raises(EngineDefectError, match=r"Odd\.max_num_seqs is .*; it must be a whole number from 1"):
        _ = CheckedEngine(engine(None, None)).max_num_seqs


@pytest.mark.parametrize("name", ["max_num_seqs", "facts"])
def test_a_property_that_raises_is_a_defect(name):
    engine = type("Odd", (Defective,), {name: property(lambda self: acts(SystemExit(3))())})
    with pytest.raises(EngineDefectError, match=rf"Odd\.{name} raised SystemExit: 3"):
        getattr(CheckedEngine(engine(None, None)), name)


@pytest.mark.parametrize(
    "facts",
    [None, [("a", 1)], {1: 2}, {"a": object()}, {"a": float("nan")}, {"a": "\ud800"}, {"\ud800": 1}, {"a": None}],
)
def test_facts_are_texts_and_finite_numbers(facts):
    check_facts({"cache_blocks": 7, "share": 0.5, "attention_backend": "NONE"})
    engine = type("Odd", (Defective,), {"facts": facts})
    with pytest.raises(EngineDefectError, match=r"Odd\.facts is "):
        _ = CheckedEngine(engine(None, None)).facts


@pytest.mark.parametrize(
    "can", [None, {}, Capabilities(pictures=None), Capabilities(context=0), Capabilities(without_labels=5)]
)
def test_capabilities_can_be_compared_with_needs(can):
    check_capabilities(Capabilities(pictures=3, context=100))
    with pytest.raises(ValueError, match=r"not Capabilities|must be"):
        check_capabilities(can)


@pytest.mark.parametrize("error", [SystemExit(3), ZeroDivisionError("oops"), ValueError("settings")])
@pytest.mark.parametrize("method", ["capabilities", "known_prices", "check_settings", "texts_of_files", "price_note"])
def test_a_class_method_that_fails_is_named_and_one_that_refuses_settings_speaks_for_itself(method, error):
    def fails(cls, *settings):
        raise error

    engine = type("Odd", (Defective,), {method: classmethod(fails)})
    refuses = isinstance(error, ValueError) and method in ("check_settings", "texts_of_files")
    with pytest.raises(UserError, match="^settings$" if refuses else rf"Odd\.{method} raised {type(error).__name__}"):
        registry.ask_class(engine, method, {})


@pytest.mark.parametrize("method", ["known_prices", "texts_of_files", "price_note"])
def test_a_class_method_that_returns_another_kind_is_named(method):
    engine = type("Odd", (Defective,), {method: classmethod(lambda cls, settings: 3)})
    with pytest.raises(UserError, match=rf"Odd\.{method} must return a (mapping|str), not 3"):
        registry.ask_class(engine, method, {})


def test_a_start_that_fails_by_a_defect_is_not_tried_again_unless_its_cause_may_pass():
    place = Place("node", "host", ("0",), ())
    assert StartFailures().failed("slot", place, EngineDefectError("Odd() raised KeyError: x")) == "fatal"
    assert StartFailures().failed("slot", place, EngineDefectError("Odd() raised OSError: out of memory")) == "retry"


ENGINE = """
import sys
from raycade.engine import Capabilities, Engine, Reply

class Odd(Engine):
    def __init__(self, sampling, mode: str = ""):
        self.mode = mode
        if mode == "exits":
            sys.exit(9)
        if mode == "raises":
            raise RuntimeError("\\x1b[31mred")

    @classmethod
    def capabilities(cls, settings):
        return None if settings.get("mode") == "can nothing" else Capabilities()

    @property
    def facts(self):
        return {"half": "\\ud800"} if self.mode == "facts" else {}

    @property
    def max_num_seqs(self):
        return -3 if self.mode == "negative" else 1

    async def complete(self, request):
        return Reply("x")
"""


@pytest.mark.parametrize(
    ("mode", "said"),
    {
        "exits": "odd_engine.Odd() raised SystemExit: 9",
        "raises": r"odd_engine.Odd() raised RuntimeError: \x1b[31mred",
        "can nothing": "odd_engine.Odd.capabilities returned NoneType, not Capabilities",
        "facts": r"odd_engine.Odd.facts is 'half': '\ud800'",
        "negative": "odd_engine.Odd.max_num_seqs is -3; it must be a whole number from 1",
    }.items(),
)
def test_a_run_whose_engine_cannot_be_had_ends_before_any_game(mode, said, tmp_path, plugins_in, capsys):
    (tmp_path / "plugins.toml").write_text('["raycade.engines"]\nodd = "odd_engine:Odd"\n')
    (tmp_path / "odd_engine.py").write_text(ENGINE)
    plugins_in(tmp_path)
    model = ["model=odd", f"model.engine.mode={mode}", "decoding=free", "cluster=inline"]
    code, _, err = run_here(capsys, "run", *EASY, *model, f"run_dir={tmp_path / 'run'}")
    assert code == 2 and err.count("error: ") == 1 and said in err
    assert "Traceback" not in err and "\x1b[31m" not in err
    assert not [*tmp_path.glob("run/ledger/*")]
