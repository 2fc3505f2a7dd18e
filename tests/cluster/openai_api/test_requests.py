"""What the API engine sends."""

import base64
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


@pytest.mark.slow
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
