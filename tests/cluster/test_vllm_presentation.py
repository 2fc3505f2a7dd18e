"""The tiny model on vLLM plays each suite under every presentation."""

from __future__ import annotations

import pytest

from cluster.engines.base import Request, Sampling
from cluster.engines.vllm import VLLMEngine
from evals.suite import Suite, play_episode
from evals.suites.multistar import MultiStarSuite
from evals.types import Reply, Turn
from tests.evals.test_presentation import KNOBS, KUMO_KNOBS, kidgym, kumo

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.asyncio]


class OnEngine:
    """Answers with an engine; replies are held to what is on offer, so that games go on."""

    def __init__(self, engine: VLLMEngine) -> None:
        self.engine = engine
        self.prompt_tokens = 0

    async def reply(self, turn: Turn) -> Reply:
        name = f"{turn.episode.id}-{turn.number}"
        reply = await self.engine.complete(Request(name, turn.chat, options=turn.options, labels=turn.labels))
        self.prompt_tokens += reply.prompt_tokens
        return reply


async def test_every_presentation_is_played() -> None:
    engine = VLLMEngine(
        model="tiny",
        sampling=Sampling(max_tokens=64),
        dtype="float32",
        max_model_len=16384,
        max_num_seqs=4,
        kv_cache_gib=0.5,
        enforce_eager=True,
        limit_mm_per_prompt={"image": 16},
    )
    await engine.start()
    suites: list[Suite] = [kidgym(tasks=["CL", "SE", "MMA"], **knob) for knob in [{}, *KNOBS]]
    suites += [kumo(**knob) for knob in KUMO_KNOBS]
    told: list[dict[str, str]] = [
        {"modality": "text"},
        {"modality": "both", "detail": "prose"},
        {"option_order": "shuffled"},
    ]
    suites += [
        MultiStarSuite(configurations=["distribute_four"], puzzles=1, subtask="direct", styles=["document"], **knob)
        for knob in told
    ]
    try:
        for suite in suites:
            player = OnEngine(engine)
            for episode in suite.plan()[:2]:
                record = await play_episode(suite, episode, player)
                assert not record.error, (suite, record.error)
                assert record.turns
            assert player.prompt_tokens > 100, suite
    finally:
        await engine.close()
