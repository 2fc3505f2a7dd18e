"""A thinking model on real vLLM: replies that are cut in a thought, end in one, or follow one, in all suites."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from cluster.engines.base import EngineClosedError, EngineError, Request, Sampling
from cluster.engines.vllm import VLLMEngine
from evals.conversation import PlayedTurn
from evals.suite import Suite, play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.multistar import MultiStarSuite
from evals.types import PlayerError, Reply, Turn, message

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]

MAX_TOKENS = 48
THOUGHT = "I look at the first one, <answer>and then"
CUT = THOUGHT + " at the next" * 40
TURNS = 3
"""Turns of an episode that are enough to see how replies are read."""
SUITES: dict[str, Suite] = {
    "kidgym": KidGymSuite(tasks=["SE"], levels=[1], modes=["zero_shot"], episodes=1),
    "kumo": KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=1, repeats=1),
    "multistar": MultiStarSuite(
        subtask="direct", configurations=["center_single"], puzzles=1, attributes=["color"], reply="text"
    ),
}


class Scripted(VLLMEngine):
    """The tiny model, made by a grammar to write what a test wants."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **{
                "sampling": Sampling(max_tokens=MAX_TOKENS),
                "model": "tiny",
                "dtype": "float32",
                "max_model_len": 16384,
                "max_num_seqs": 8,
                "kv_cache_gib": 0.5,
                "enforce_eager": True,
                "limit_mm_per_prompt": {"image": 32},
                "chat_template_kwargs": {"enable_thinking": True},
                **settings,
            }
        )
        self.scripts: dict[str, str] = {}

    def _parameters(self, request: Request, labels: list[int], room: int) -> Any:
        from vllm.sampling_params import StructuredOutputsParams

        parameters = super()._parameters(request, labels, room)
        if request.id in self.scripts:
            parameters.structured_outputs = StructuredOutputsParams(choice=[self.scripts[request.id]])
        return parameters


class Thinker:
    """Plays with the engine; what it writes depends on the test."""

    def __init__(self, engine: Scripted, ending: str) -> None:
        self.engine, self.ending = engine, ending
        self.answers: dict[int, str] = {}

    async def reply(self, turn: Turn) -> Reply:
        if turn.number >= TURNS:
            raise PlayerError("enough")
        request = Request(f"{self.ending}-{turn.episode.id}-{turn.number}", turn.chat, seed=turn.seed)
        assert turn.oracle
        self.answers[turn.number] = turn.oracle()
        answered = f"{THOUGHT}\n</think>\n\n{self.answers[turn.number]}"
        script = {"cut": CUT, "ended": THOUGHT, "answered": answered}[self.ending]
        self.engine.scripts[request.id] = script
        return await self.engine.complete(request)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Scripted]:
    engine = Scripted()
    await engine.start()
    yield engine
    await engine.close()


async def played(engine: Scripted, suite: str, ending: str) -> list[tuple[PlayedTurn, str]]:
    """The turns of one episode, each with the right answer."""
    thinker = Thinker(engine, ending)
    record = await play_episode(SUITES[suite], SUITES[suite].plan()[0], thinker)
    assert record.turns
    return [(turn, thinker.answers[turn.turn.number]) for turn in record.turns]


@pytest.mark.parametrize("suite", SUITES)
async def test_a_reply_that_is_cut_off_in_its_thought_answers_nothing(engine: Scripted, suite: str) -> None:
    for turn, _ in await played(engine, suite, "cut"):
        assert (turn.reply.text, turn.action, turn.reply.finish) == ("", None, "length")
        assert turn.reply.reasoning.startswith(THOUGHT)
        assert turn.reply.reasoning_tokens == turn.reply.completion_tokens == MAX_TOKENS


@pytest.mark.parametrize("suite", SUITES)
async def test_a_reply_that_ends_in_its_thought_answers_nothing(engine: Scripted, suite: str) -> None:
    for turn, _ in await played(engine, suite, "ended"):
        assert (turn.reply.text, turn.action, turn.reply.finish) == ("", None, "stop")
        assert turn.reply.reasoning == THOUGHT
        assert turn.reply.reasoning_tokens == turn.reply.completion_tokens < MAX_TOKENS


@pytest.mark.parametrize("suite", SUITES)
async def test_only_what_follows_the_thought_is_read(engine: Scripted, suite: str) -> None:
    for turn, answer in await played(engine, suite, "answered"):
        assert turn.reply.text == answer and turn.action is not None
        assert (turn.reply.reasoning, turn.reply.finish) == (THOUGHT, "stop")
        assert 0 < turn.reply.reasoning_tokens < turn.reply.completion_tokens


async def test_what_an_open_thought_makes_meaningless_stops_the_run(engine: Scripted) -> None:
    chat = (message("user", "A or B?"),)
    with pytest.raises(EngineClosedError, match=r"opens a thought.*enable_thinking: false"):
        await engine.complete(Request("labels", chat, labels=("A", "B")))
    with pytest.raises(EngineClosedError, match="reasoning_parser"):
        await engine.complete(Request("options", chat, options=("A", "B")))


async def test_a_reasoning_parser_lets_a_constrained_reply_think_within_a_budget() -> None:
    budget = 8
    sampling = Sampling(max_tokens=MAX_TOKENS, extra={"thinking_token_budget": budget})
    engine = Scripted(sampling=sampling, vllm={"reasoning_parser": "qwen3"})
    await engine.start()
    try:
        chat, options = (message("user", "Which way?"),), ("go left", "go right")
        replies = [await engine.complete(Request(f"{n}", chat, options=options)) for n in range(2)]
        assert all(reply.text in options and reply.reasoning and reply.finish == "stop" for reply in replies)
        assert all(budget <= reply.reasoning_tokens <= budget + 2 for reply in replies)
        free = await engine.complete(Request("free", chat))
        assert budget <= free.reasoning_tokens <= budget + 2 < free.completion_tokens == MAX_TOKENS
        assert free.finish == "length"
        (end,) = engine._tokens.encode("</think>")
        engine.sampling = Sampling(max_tokens=MAX_TOKENS, extra={"logit_bias": {end: -100.0}})
        cut = await engine.complete(Request("cut", chat))
        assert (cut.text, cut.finish) == ("", "length") and cut.reasoning
        assert cut.reasoning_tokens == MAX_TOKENS
    finally:
        await engine.close()


async def test_a_parser_that_does_not_exist_is_named() -> None:
    with pytest.raises(EngineError, match="qwen33"):
        await Scripted(vllm={"reasoning_parser": "qwen33"}).start()
