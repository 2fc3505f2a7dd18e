"""What the API engine sends."""

import base64
import dataclasses
import io
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from cluster.config.settings import load_settings
from cluster.engines.base import EngineClosedError, Sampling
from cluster.engines.openai_api import OpenAIEngine
from cluster.engines.providers.openai_clients import OpenRouterEngine
from cluster.errors import UserError
from cluster.runner.model_player import request_for
from envs.picture import Picture
from evals.chat_json import chat_to_json
from evals.types import Turn, message
from tests.cluster.openai_api.stub import engine, request
from tests.toy import ToySuite


@dataclass(frozen=True)
class Dot(Picture):
    kind: ClassVar[str] = "dot"
    gray: int

    @property
    def size(self):
        return (4, 3)

    def render(self):
        return np.full((3, 4, 3), self.gray, np.uint8)


def test_pictures_are_sent_as_png_with_the_very_pixels():
    (sent,) = chat_to_json((message("user", "look", Dot(77)),))
    url = sent["content"][1]["image_url"]["url"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,")))))
    assert (pixels == Dot(77).render()).all()


async def test_models_that_think_first_are_sent_what_they_take(stub):
    thinking = Sampling(max_tokens=50, temperature=1.0)
    await engine(stub, thinking, reasoning=True).complete(request())
    assert stub.bodies[0]["max_completion_tokens"] == 50
    assert not {"max_tokens", "temperature", "top_p"} & set(stub.bodies[0])
    with pytest.raises(ValueError, match=r"model\.sampling\.temperature=1"):
        engine(stub, reasoning=True)


async def test_constrained_replies_need_a_server_that_can(stub):
    with pytest.raises(EngineClosedError, match="decoding=free"):
        await engine(stub).complete(request(options=("a", "b")))
    await engine(stub, choices="vllm").complete(request(options=("a", "b")))
    assert stub.bodies[0]["structured_outputs"] == {"choice": ["a", "b"]}
    with pytest.raises(EngineClosedError, match="decoding=free"):
        await engine(stub).complete(request(schema='{"type": "array"}'))
    await engine(stub, choices="vllm").complete(request(schema='{"type": "array"}'))
    assert stub.bodies[1]["structured_outputs"] == {"json": {"type": "array"}}


SAMPLED = Sampling(
    max_tokens=7,
    temperature=0.5,
    top_p=0.9,
    top_k=20,
    min_p=0.1,
    presence_penalty=-0.5,
    frequency_penalty=0.25,
    repetition_penalty=1.1,
    stop=("END",),
)


async def test_every_sampling_parameter_is_sent(stub):
    await engine(stub, SAMPLED).complete(request(number=3))
    sent = stub.bodies[0]
    asked = dataclasses.asdict(SAMPLED) | {"stop": ["END"], "seed": 3}
    del asked["extra"]  # parameters of vLLM alone
    assert {name: sent[name] for name in asked} == asked


async def test_what_changes_nothing_is_not_sent_to_endpoints_that_may_not_know_it(stub):
    await engine(stub).complete(request())
    assert set(stub.bodies[0]) == {"model", "messages", "max_tokens", "temperature", "top_p"}


async def test_reasoning_effort_and_further_parameters_are_sent_as_they_are(stub):
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "provider": {"order": ["x"]}, "top_p": None}
    await engine(stub, reasoning_effort="low", extra_body=extra).complete(request())
    sent = stub.bodies[0]
    assert sent["reasoning_effort"] == "low" and "top_p" not in sent
    assert (sent["chat_template_kwargs"], sent["provider"]) == ({"enable_thinking": False}, {"order": ["x"]})


async def test_a_parameter_of_ones_own_that_is_refused_is_named(stub):
    stub.script = [(400, "Unrecognized request argument supplied: 'verbosity'", {})]
    with pytest.raises(EngineClosedError, match="does not take verbosity"):
        await engine(stub, extra_body={"verbosity": "low"}).complete(request())


@pytest.mark.parametrize("name", ["messages", "model", "n", "stream", "reasoning_effort", "temperature", "max_tokens"])
def test_every_setting_has_one_place(stub, name):
    with pytest.raises(ValueError, match=name):
        engine(stub, extra_body={name: 1})


async def test_models_that_reason_first_are_not_asked_for_label_probabilities(stub):
    made = engine(stub, Sampling(temperature=1.0), reasoning=True)
    with pytest.raises(EngineClosedError, match="probabilities"):
        await made.complete(request(labels=("A", "B")))
    assert not stub.bodies
    for settings, scores in (({"reasoning": True}, False), ({"reasoning_effort": "low"}, False), ({}, True)):
        assert OpenAIEngine.capabilities(settings).label_scores == scores
    assert OpenAIEngine.capabilities({"reasoning_effort": "none"}).label_scores
    with pytest.raises(EngineClosedError, match="probabilities"):
        await engine(stub, reasoning_effort="low").complete(request(labels=("A", "B")))


GAME = ["suite=kumo", "suite.domains=[medical]", "model=openai", "model.engine.model=stub"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "other"),
    [
        ("model.engine.extra_body={provider: {order: [x]}}", True),
        ("model.engine.reasoning_effort=high", True),
        ("model.sampling.min_p=0.1", True),
        ("model.sampling.presence_penalty=-0.5", True),
        ("model.engine.headers={X-Title: games}", False),
        ("model.engine.spend_cap=null", False),
        ("model.engine.timeout_seconds=5", False),
    ],
)
def test_what_decides_answers_is_part_of_an_episodes_id(override, other):
    plain, changed = (load_settings([*GAME, *more]) for more in ([], ["+" * (".sampling." in override) + override]))
    assert (plain.plan[0].id != changed.plan[0].id) == other


@pytest.mark.parametrize(
    "override", ["min_p=1.5", "min_p=-0.1", "repetition_penalty=0", "presence_penalty=high", "frequency_penalty=null"]
)
def test_sampling_parameters_have_bounds(override):
    with pytest.raises(UserError, match=override.partition("=")[0]):
        load_settings([*GAME, f"+model.sampling.{override}"])


def test_nested_settings_with_a_type_reach_the_endpoint_unchanged(stub):
    thinking = "model.engine.extra_body={thinking: {type: enabled}}"
    made = load_settings([*GAME, f"model.engine.base_url={stub.url}", thinking]).model.make_engine()
    assert made._form.extra_body == {"thinking": {"type": "enabled"}}


FIRST = ToySuite().plan()[0]


async def test_headers_tell_an_agent_with_a_memory_which_turn_it_is_asked(stub):
    headers = {"X-Session": "raycade:episode", "X-Turn": "raycade:turn", "X-Title": "games"}
    telling = engine(stub, headers=headers)
    await telling.start()
    turn = request_for(Turn(FIRST, 2, (message("user", "Go."),)), "free")
    await telling.complete(turn)
    asked, sent = stub.headers
    assert not {"x-session", "x-turn"} & set(asked) and asked["x-title"] == "games", "no turn, no name"
    assert (sent["x-session"], sent["x-turn"], sent["x-title"]) == (FIRST.id, "2", "games")
    await engine(stub).complete(turn)
    assert FIRST.id not in str(stub.headers[-1]), "off by default"
    with pytest.raises(UserError, match="raycade:episode or raycade:turn"):
        load_settings([*GAME, "model.engine.headers={X-Seed: 'raycade:seed'}"])
    with pytest.raises(ValueError, match="only model=openai"):
        OpenRouterEngine._read_secrets({"headers": headers})
