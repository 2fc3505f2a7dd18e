"""`raycade retest`: a model that answers as it did agrees, one that does not is found out, turn by turn."""

import asyncio
import dataclasses
import functools
import gc
from types import SimpleNamespace

import pytest

from cluster.commands import retest as retest_module
from cluster.commands.retest import _ask_all, _Job, retest
from cluster.config.settings import load_settings
from cluster.engines.base import Account, EngineError
from cluster.engines.simulated import SimulatedEngine
from cluster.engines.spend import Spend
from cluster.errors import RunFailedError, UserError
from cluster.runner.model_player import request_for
from cluster.storage.spending import Spending
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.players import RandomPlayer
from evals.suite import play_episode
from evals.suites.kumo import KumoSuite
from evals.types import PlayerError, Turn, message
from tests.cluster.conftest import EASY, leave
from tests.cluster.test_cli import run_here

SMALL = [*EASY, "suite.tasks_per_domain=4", "suite.repeats=1"]
FAST = ["model=simulated", "model.engine.step_seconds=0.0001", "model.engine.median_tokens=2"]


class Direct:
    """A player that asks an engine without a cluster."""

    def __init__(self, engine, decoding):
        self.engine, self.decoding = engine, decoding

    async def reply(self, turn):
        return await self.engine.complete(request_for(turn, self.decoding))


@functools.cache
def played() -> tuple[Record, ...]:
    """The episodes of the run that most tests here look at; its folder has no part in them."""
    settings = load_settings([*SMALL, *FAST, "baselines=[random]"])

    async def play():
        engine = settings.model.make_engine()
        await engine.start()
        player = Direct(engine, settings.decoding)
        players = {"simulated": player, "random": RandomPlayer()}
        records = [await play_episode(settings.suite, each, players[each.player]) for each in settings.plan]
        await engine.close()
        return tuple(records)

    return asyncio.run(play())


@pytest.fixture
def run_dir(tmp_path):
    settings = load_settings([*SMALL, *FAST, "baselines=[random]", f"run_dir={tmp_path / 'run'}"])
    leave(settings, played())
    return settings.run_dir


def turns(run_dir):
    """Of the model, which alone is asked again."""
    rows = Run(run_dir).episodes(["player", "turns"]).to_pylist()
    return sum(len(row["turns"]) for row in rows if row["player"] == "simulated")


@pytest.mark.slow
def test_the_same_engine_agrees_with_itself(run_dir, capsys):
    asked, failed, _ = retest(Run(run_dir), 1.0)
    assert failed == 0 and len(asked) == turns(run_dir)
    assert all(one.same_text and one.same_action and one.old_action is not None for one in asked)
    code, out, err = run_here(capsys, "retest", str(run_dir), "--share", "0.5")
    assert code == 0 and "1.00 [" in out and "0 of 0 turns" in out and "asking" in err


def test_another_model_is_found_out(run_dir, monkeypatch):
    real = SimulatedEngine.complete

    async def complete(self, request):
        if request.id.endswith("-0"):
            return dataclasses.replace(await real(self, request), text=f"<ANSWER>{request.options[-1]}</ANSWER>")
        raise PlayerError("no")

    monkeypatch.setattr(SimulatedEngine, "complete", complete)
    asked, failed, _ = retest(Run(run_dir), 1.0)
    assert len(asked) == 4 and failed == turns(run_dir) - 4
    assert not any(one.same_text for one in asked)
    assert all(one.new_action and f"<ANSWER>{one.new_action}</ANSWER>" == one.new_text for one in asked)


@pytest.mark.parametrize("gone", [{0}, {0, 1, 2, 3}])
def test_of_games_that_cannot_be_played_nothing_is_asked_again(gone, run_dir, monkeypatch, capsys):
    """Their new replies could not be read, and would count as other actions of the model."""
    real, requests = KumoSuite.play, []

    async def play(self, episode, conversation):
        if episode.index in gone:
            raise PlayerError("its file is gone")
        return await real(self, episode, conversation)

    async def complete(self, request):
        requests.append(request.id)
        raise PlayerError("no")

    monkeypatch.setattr(KumoSuite, "play", play)
    monkeypatch.setattr(SimulatedEngine, "complete", complete)
    code, _, err = run_here(capsys, "retest", str(run_dir), "--share", "1")
    rows = Run(run_dir).episodes(["episode_id", "index", "player", "turns"]).to_pylist()
    lengths = {row["episode_id"]: len(row["turns"]) for row in rows if row["player"] == "simulated"}
    lost = {row["episode_id"] for row in rows if row["index"] in gone}
    assert len(requests) == sum(length for name, length in lengths.items() if name not in lost)
    assert not any(request.startswith(name) for request in requests for name in lost)
    assert "its file is gone" in err and code == (2 if len(gone) == 4 else 0)


def test_an_engine_that_does_not_start_is_named(run_dir, monkeypatch, capsys):
    async def start(self):
        raise EngineError("no GPU")

    monkeypatch.setattr(SimulatedEngine, "start", start)
    with pytest.raises(RunFailedError, match="no GPU"):
        retest(Run(run_dir), 0.1)
    code, _, err = run_here(capsys, "retest", str(run_dir))
    assert code == 1 and "no GPU" in err and "Traceback" not in err


@pytest.mark.parametrize(("batch", "said"), [(True, "played in batches"), (8, "has answered no turn yet")])
def test_a_run_in_batches_is_not_asked_again_and_other_settings_of_that_name_are_no_batches(
    tmp_path, plugins_in, batch, said
):
    (tmp_path / "plugins.toml").write_text('["raycade.engines"]\nslots = "slots_of_mine:Slots"\n')
    module = "from cluster.engines.simulated import SimulatedEngine\nclass Slots(SimulatedEngine):\n"
    (tmp_path / "slots_of_mine.py").write_text(
        f"{module}    def __init__(self, sampling, batch: bool | int = 8): ...\n"
    )
    plugins_in(tmp_path)
    settings = load_settings([*SMALL, "model=slots", f"model.engine.batch={batch}", f"run_dir={tmp_path / 'run'}"])
    leave(settings, ())
    with pytest.raises(UserError, match=said):
        retest(Run(settings.run_dir), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("with_journal", [False, True])
def test_requests_under_way_end_quietly_with_the_command(with_journal, caplog):
    class Silent(SimpleNamespace):
        max_num_seqs = 2

        async def nothing(self, *_):
            return Account(0.0, 0.0, 0.0, 0)

        start = close = nothing
        add_spent_elsewhere = lambda *_: None  # noqa: E731

        async def settle(self, covered, seconds):
            await asyncio.sleep(seconds)
            return await self.nothing()

        async def complete(self, request):
            asked.set()
            await asyncio.sleep(60)

    async def interrupted():
        model = SimpleNamespace(name="m", make_engine=Silent)
        episode = load_settings([*SMALL, "model=random"]).plan[0]
        jobs = [SimpleNamespace(turn=Turn(episode, 0, (message("user", "?"),)))] * 3
        journal = SimpleNamespace(before=Spending(0.0, 0.0, 0.0), note=lambda *_: None, write=lambda: None)
        asking = asyncio.create_task(_ask_all(model, "free", jobs, journal if with_journal else None))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asked = asyncio.Event()
    asyncio.run(interrupted())
    gc.collect()
    assert caplog.text == ""


async def test_what_was_never_sent_is_given_back_when_the_first_answer_ends_the_retest(monkeypatch):
    class Refused:
        max_num_seqs = 2

        def __init__(self):
            self.spend = Spend(1.0, 1.0)

        async def nothing(self, *_):
            pass

        start = close = nothing
        add_spent_elsewhere = lambda *_: None  # noqa: E731

        async def settle(self, covered, seconds):
            return await self.spend.settle(covered, seconds)

        async def complete(self, request):
            asked.append(request)
            async with self.spend.payment(5.0) as payment:
                payment.priced = False
                await asyncio.sleep(0.05 * len(asked))
                payment.price, payment.priced = 0.0, True
                raise EngineError("the key is refused")

    asked, noted = [], []
    journal = SimpleNamespace(before=Spending(), note=lambda name, account: noted.append(account), write=lambda: None)
    episode = load_settings([*SMALL, "model=random"]).plan[0]
    jobs = [SimpleNamespace(turn=Turn(episode, 0, (message("user", "?"),)))] * 6
    with pytest.raises(RunFailedError, match="the key is refused"):
        await _ask_all(SimpleNamespace(name="m", make_engine=Refused), "free", jobs, journal)
    assert max(account.in_flight for account in noted) >= 5.0, "it is written before it is sent"
    assert (noted[-1].spent, noted[-1].in_flight) == (0.0, 0.0)
    assert len(asked) == 2, "those under way are waited for, and no other is sent"


async def test_an_engine_that_refuses_its_settings_is_an_error_of_the_user():
    def make_engine():
        raise ValueError("a proxy cannot be used")

    with pytest.raises(UserError, match="model=m: a proxy cannot be used"):
        await _ask_all(SimpleNamespace(name="m", make_engine=make_engine), "free", [], None)


def test_only_a_model_can_be_asked_again(tmp_path, capsys):
    run = tmp_path / "built-in"
    assert run_here(capsys, "run", *SMALL, "model=random", f"run_dir={run}")[0] == 0
    with pytest.raises(UserError, match="built-in"):
        retest(Run(run), 0.1)
    code, _, err = run_here(capsys, "retest", str(run), "--share", "2")
    assert code == 2 and "--share 2" in err


def test_a_turn_is_asked_of_the_part_of_a_bundle_that_it_is_of():
    parts = [SimpleNamespace(name=name) for name in ("one", "two", "three")]
    job = _Job(SimpleNamespace(parts=parts), SimpleNamespace(suite="two"), {"turns": ["first", "second"]}, 1)
    assert (job.part, job.stored, job.number) == (parts[1], "second", 1)


@pytest.mark.parametrize(("labels", "asked"), [(None, ()), ([], ()), ([{"label": "A"}, {"label": "B"}], ("A", "B"))])
def test_a_turn_is_asked_with_the_options_and_labels_that_were_stored(labels, asked, monkeypatch):
    monkeypatch.setattr(
        retest_module, "RecordedPlayer", lambda row: SimpleNamespace(chat=lambda number: f"chat {number}")
    )
    episode, turns = SimpleNamespace(suite="one"), [None, {"labels": labels, "options": ["x", "y"]}]
    turn = _Job(SimpleNamespace(parts=[SimpleNamespace(name="one")]), episode, {"turns": turns}, 1).turn
    assert (turn.episode, turn.number, turn.chat) == (episode, 1, "chat 1")
    assert (turn.options, turn.labels) == (("x", "y"), asked)
