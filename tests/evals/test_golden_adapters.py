"""Adapters of training, between stand-ins for their libraries: what these are told is on record in ``tests/golden``."""

import asyncio
import contextlib
import importlib
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import httpx
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.testclient import TestClient

from envs import plugins
from evals import serving
from evals.training import command, games, nemo_gym_files, play
from tests.evals.test_golden_evals import Drawing, Hunt, Shown, command_options, command_said, shown
from tests.golden import check_golden
from tests.stated import stated_in


class Made:
    """A class of a library: whatever it is made with is kept."""

    def __init__(self, *given, **named):
        self.given = given
        self.__dict__ |= named

    def __class_getitem__(cls, parameters):
        return cls


class Model(BaseModel):
    name: str = ""
    prompt: str = ""
    done: bool = False
    reward: float | None = None
    metadata: dict[str, Any] = {}
    episode_id: str | None = None
    step_count: int = 0
    task: str = "config of the task"
    runtime: Any = None


def create_app(environment, action, observation, **named):
    app = Starlette()
    app.made = environment, action.__name__, observation.__name__, named
    return app


VERIFIERS = dict.fromkeys(
    ("TaskData", "TasksetConfig", "HarnessConfig", "EnvConfig", "AgentConfig", "SubprocessConfig"), Model
)
VERIFIERS |= dict.fromkeys(("Task", "Taskset", "Harness", "Env", "ProgramResult"), Made)
LIBRARIES = {
    "verifiers": SimpleNamespace(v1=(v1 := SimpleNamespace(**VERIFIERS))),
    "verifiers.v1": v1,
    "openenv": SimpleNamespace(),
    "openenv.core": SimpleNamespace(),
    "openenv.core.env_server": SimpleNamespace(
        Action=Model, Observation=Model, State=Model, Environment=Made, create_app=create_app
    ),
    "nemo_gym": SimpleNamespace(),
    "nemo_gym.base_resources_server": SimpleNamespace(BaseResourcesServerConfig=Model),
    "nemo_gym.openai_utils": SimpleNamespace(NeMoGymResponse=str),
    "resources_servers": SimpleNamespace(),
    "resources_servers.gymnasium": SimpleNamespace(GymnasiumServer=Made, extract_text=lambda action: action),
}
with mock.patch.dict(sys.modules, LIBRARIES):
    verifiers_env, openenv_server, nemo_gym_server = (
        importlib.import_module(f"evals.training.{name}")
        for name in ("verifiers_env", "openenv_server", "nemo_gym_server")
    )


class Endpoint(httpx.AsyncBaseTransport):
    """Replies in turn, and notes what it is asked."""

    def __init__(self, said, *replies):
        self.said, self.replies = said, list(replies)

    async def handle_async_request(self, request):
        self.said.append(
            f"{request.method} {request.url} {request.headers['authorization']} {request.content.decode()}"
        )
        reply = self.replies.pop(0)
        if isinstance(reply, int):
            return httpx.Response(reply)
        return httpx.Response(200, json={"choices": [{"message": {"content": reply}}]})


def launched(said, data, *replies, stop=None):
    """What a harness records of a game with an endpoint that replies so."""
    recorded = []
    trace = SimpleNamespace(
        stop_condition=stop,
        info={},
        record_reward=lambda *given: recorded.append(given),
        record_metrics=recorded.append,
    )
    client = httpx.AsyncClient
    with mock.patch.object(httpx, "AsyncClient", lambda **more: client(transport=Endpoint(said, *replies), **more)):
        harness = verifiers_env.RaycadeHarness()

        async def launch():
            try:
                return await harness.launch(
                    SimpleNamespace(model="tiny"), trace, None, "http://api/v1", "key", {}, data
                )
            finally:
                said.extend(f"{each} goes on" for each in asyncio.all_tasks() - {asyncio.current_task()})

        try:
            found = asyncio.run(launch())
            said.append(shown([found.given, recorded, trace.info]))
        except Exception as error:
            said.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")


def test_adapters_tell_their_libraries_what_is_on_record(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda group, name: {"hunt": Hunt, "shown": Shown}[name])
    stated = stated_in([verifiers_env, openenv_server, nemo_gym_server]).splitlines()
    said = ["# verifiers"]
    settings = {"highest": 9, "episodes": 3, "reward": "regret"}
    config = verifiers_env.GamesConfig(suite="hunt", settings=settings, first_block=4)
    tasks = verifiers_env.RaycadeTaskset(config=config).load()
    few = [next(tasks) for _ in range(7)]
    said += [shown([task.given[0].model_dump(exclude_defaults=True), task.given[1]]) for task in few]
    data = few[0].given[0]
    launched(said, data, "1", None, "8")
    launched(said, data, "1", stop="limit")
    launched(said, data, "1", 500)
    launched(said, data.model_copy(update={"settings": {**settings, "highest": 1}, "name": "known"}))
    agents = SimpleNamespace(agent=SimpleNamespace(run=mock.AsyncMock()))
    asyncio.run(verifiers_env.RaycadeEnv().run("task", agents))
    said += [
        str(agents.agent.run.await_args),
        str(verifiers_env.games_of("hunt", "{}") is verifiers_env.games_of("hunt", "{}")),
    ]

    said.append("# OpenEnv")
    ended = []
    of_openenv = games.TrainingGames("shown", highest=6, episodes=3)
    monkeypatch.setattr(openenv_server, "chat_to_json", lambda chat: [{each.role: len(each.parts)} for each in chat])
    app = openenv_server.app_of(of_openenv, 3, lambda record: ended.append(record.error or record.outcome), ["known"])
    make, *named = app.made
    first, second = make(), make()
    said += [
        shown(named),
        str([TestClient(app, base_url=f"http://{host}").get("/").status_code for host in ("known", "other")]),
    ]
    for environment, given in (
        (first, {}),
        (second, {}),
        (first, {"seed": 3}),
        (first, {"episode_id": "mine"}),
        *((first, {"seed": 0}),) * 2,
    ):
        said.append(
            shown(
                [
                    environment.reset(**given).model_dump(exclude_defaults=True),
                    environment.state.model_dump(exclude_defaults=True),
                ]
            )
        )
    for text in ("9", "0", "1"):
        found = first.step(openenv_server.TextAction(text=text))
        said.append(shown([found.model_dump(exclude_defaults=True), first.state.step_count, ended]))
    first.close()
    second.close()

    said.append("# NeMo Gym")
    server = nemo_gym_server.SuiteServer(
        config=nemo_gym_server.SuiteServerConfig(suite="hunt", settings=settings), session_state={}
    )

    async def played():
        for place in (0, 5):
            said.append(str(await server.reset({"game": {"block": 2, "place": place}}, f"s{place}")))
        for session, text in (("s0", "1"), ("s5", "x"), ("s0", "2"), ("s0", "3")):
            said.append(shown(await server.step(text, {}, session)))
        await server.close_session("s0")
        await server.close_session("none")
        said.append(str(list(server.session_state)))
        await server.close_session("s5")
        server.config = nemo_gym_server.SuiteServerConfig(suite="hunt", settings={"highest": 1})
        with pytest.raises(nemo_gym_server.TrainingError, match="this game is not to be trained on"):
            await server.reset({"game": {"block": 0, "place": 1}})

    asyncio.run(played())
    monkeypatch.setattr(nemo_gym_files, "chat_to_json", lambda chat: [{"role": "user", "content": [PICTURE]}])
    said += ["# the command", shown(nemo_gym_files._input(()))]
    ran = []
    monkeypatch.setitem(sys.modules, "evals.training.openenv_server", openenv_server)
    monkeypatch.setattr(openenv_server, "app_of", lambda games, *given, **named: (games.suite.name, given, named))
    monkeypatch.setattr(
        "uvicorn.Server", lambda config: SimpleNamespace(run=lambda sockets: ran.append((config, *sockets)))
    )
    monkeypatch.setattr(
        serving, "listen", lambda *place: contextlib.nullcontext(SimpleNamespace(getsockname=lambda: place))
    )
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        options = command_options("openenv", "--host", host, "--port", "7", "--sessions", "5", "hunt", "highest=4")
        command._serve_openenv(options)
        config, listener = ran.pop()
        said.append(shown([config.app, *listener.getsockname(), config.ws, config.log_level]))
    said.append("# what they state")
    said += [line for line in stated if "runtime=None" not in line and "model_config" not in line]
    said.append(str(verifiers_env.GamesConfig().model_dump(include={"suite", "settings", "first_block"})))
    said.append(str(nemo_gym_server.SuiteServerConfig(suite="hunt").settings))
    for kind in (openenv_server.TextAction, openenv_server.TurnObservation):
        said += [f"{name}: {each.description}" for name, each in kind.model_fields.items() if each.description]
    check_golden("evals_adapters", "\n".join(said))


SERVED = ["openenv", "--port", "0", "hunt", "highest=9"]


@pytest.fixture
def hunts(monkeypatch):
    """The suite, and a stand-in for the library that serves it."""
    monkeypatch.setattr(plugins, "load", lambda group, name: Hunt)
    monkeypatch.setitem(sys.modules, "evals.training.openenv_server", openenv_server)
    monkeypatch.setattr(play, "TRIES", 20)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "99999"], "cannot listen on 127.0.0.1:99999: "),
        (["--port", "-1"], "cannot listen on 127.0.0.1:-1: "),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1:0: "),
        (["--host", "a" * 70], f"cannot listen on {'a' * 70}:0: "),
        (["--sessions", "0"], "--sessions 0: must be 1 or more"),
        (["--sessions", "-3"], "--sessions -3: must be 1 or more"),
        (["highest=1"], "20 games in a row are games of the evaluation"),
        (["episodes=0"], "these settings plan no episodes"),
        (["broken=true"], "KeyError: 'broken'"),
        (["trained_on=/dev/null/file"], "trained_on=/dev/null/file: cannot be written: "),
    ],
)
def test_what_every_client_would_be_refused_is_refused_before_anything_is_served(hunts, words, message, monkeypatch):
    monkeypatch.setattr("uvicorn.Server", None)
    code, out, err = command_said(*SERVED, *words)
    assert (code, out) == (2, "") and err.startswith("error: ") and message in err
    assert "\n" not in err.strip()


def test_a_port_that_is_taken_is_bad_input_and_the_address_of_a_free_one_is_told(hunts, monkeypatch):
    served = []
    monkeypatch.setattr(
        "uvicorn.Server", lambda config: SimpleNamespace(run=lambda sockets: served.append(again(sockets)))
    )

    def again(sockets):
        port = str(sockets[0].getsockname()[1])
        return port, command_said(*SERVED, "--port", port)

    code, out, err = command_said(*SERVED)
    [(port, (refused, nothing, reason))] = served
    assert (code, out, err) == (0, f"serving hunt at 127.0.0.1, port {port}; Ctrl-C ends\n", "")
    assert (refused, nothing) == (2, "") and f"cannot listen on 127.0.0.1:{port}: " in reason


def test_a_server_that_starts_has_not_trained_on_any_game(hunts, monkeypatch, tmp_path):
    monkeypatch.setattr("uvicorn.Server", lambda config: SimpleNamespace(run=lambda sockets: None))
    file = tmp_path / "trained.txt"
    assert command_said(*SERVED, f"trained_on={file}", "evaluation_games=true")[0] == 0
    assert file.read_text() == ""


def test_tasks_of_verifiers_end_where_all_games_are_those_of_the_evaluation(hunts):
    config = verifiers_env.GamesConfig(suite="hunt", settings={"highest": 1})
    with pytest.raises(play.TrainingError, match="20 games in a row are games of the evaluation"):
        next(verifiers_env.RaycadeTaskset(config=config).load())


def test_a_thread_of_the_server_gives_up_a_session_s_game_in_the_loop_that_plays_it(monkeypatch):
    monkeypatch.setattr(plugins, "load", lambda group, name: Hunt)
    environment = openenv_server.SuiteEnvironment(games.TrainingGames("hunt", highest=9), 0)

    async def served():
        await environment.reset_async()
        playing = environment._play._session._play
        await asyncio.to_thread(environment.close)
        await asyncio.wait([playing], timeout=10)
        return playing.done()

    assert asyncio.run(served()) and environment._play.turn is None


PICTURE = {"type": "image_url", "image_url": {"url": f"data:{Drawing().description}"}}
