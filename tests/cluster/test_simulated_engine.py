import asyncio
import contextlib
import dataclasses
import functools
import math

import pytest

from cluster.engines.base import EngineDiedError, EngineError, Request, Sampling
from cluster.engines.simulated import PrefixCache, SimulatedEngine, prompt_length
from cluster.engines.testing import check_engine
from evals.types import LabelScores, message


def request(number=0, text="question " * 10, **fields) -> Request:
    return Request(f"r{number}", (message("user", text),), seed=number, **fields)


async def started(**settings) -> SimulatedEngine:
    engine = SimulatedEngine(Sampling(max_tokens=settings.pop("max_tokens", 1000)), **settings)
    await engine.start()
    return engine


@pytest.mark.slow
async def test_the_same_request_gets_the_same_answer_from_any_engine():
    answers = []
    for _ in range(2):
        engine = await started(step_seconds=0.0001)
        answers.append([(await engine.complete(request(n, options=("a", "b", "c")))).text for n in range(20)])
        await engine.close()
    assert answers[0] == answers[1] and set(answers[0]) == {"a", "b", "c"}


async def test_running_requests_share_steps_and_further_ones_wait():
    engine = await started(max_num_seqs=4, step_seconds=0.002, median_tokens=50, tail=0.0)
    replies = await asyncio.gather(*(engine.complete(request(n)) for n in range(8)))
    first, second = max(r.seconds for r in replies[:4]), min(r.seconds for r in replies[4:])
    assert 0.09 <= first < second
    assert second >= 0.19, "the second four begin after the first"
    assert engine.load.completed == 8


async def test_shorter_replies_end_first_whatever_was_canceled():
    engine, ended = await started(step_seconds=1e-6), []

    async def reply(tokens):
        await engine._generate(0, tokens)
        ended.append(tokens)

    engine._advance = lambda: None  # all begin at the same step, and one is canceled there
    tasks = [asyncio.create_task(reply(1000 * tokens)) for tokens in (7, 3, 4, 6, 5, 1, 2)]
    await asyncio.sleep(0)
    tasks[5].cancel()
    await asyncio.sleep(0)
    del engine._advance
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ended == [2000, 3000, 4000, 5000, 6000, 7000]


async def test_lengths_have_a_heavy_tail_and_stay_below_max_tokens():
    engine = await started(step_seconds=1e-7, median_tokens=100, tail=1.0, max_tokens=2000)
    replies = [await engine.complete(request(n)) for n in range(300)]
    lengths = sorted(reply.completion_tokens for reply in replies)
    assert 70 < lengths[150] < 140 and lengths[-1] > 5 * lengths[150] and lengths[-1] <= 2000
    assert all((reply.finish == "length") == (reply.completion_tokens == 2000) for reply in replies)


async def test_a_growing_chat_hits_the_prefix_cache():
    engine = await started(step_seconds=1e-6)
    chat = (message("user", "x" * 400),)
    assert (await engine.complete(Request("a", chat))).cached_tokens == 0
    longer = (*chat, message("assistant", "y" * 40), message("user", "z" * 40))
    reply = await engine.complete(Request("b", longer))
    assert (reply.prompt_tokens, reply.cached_tokens) == (120, 100)


def test_the_prefix_cache_forgets_what_was_not_used_for_longest():
    cache = PrefixCache(250)
    chats = {name: (message("user", name * 400),) for name in "abc"}  # 100 tokens each
    assert [cache.admit(chats[name]) for name in "abacab"] == [0, 0, 100, 0, 100, 0]


@pytest.mark.slow
async def test_a_fault_file_makes_one_engine_exit_hang_or_slow_down(tmp_path):
    fault = tmp_path / "fault"
    engines = [await started(step_seconds=0.001, median_tokens=20, tail=0.0, fault_file=str(fault)) for _ in range(2)]
    fault.write_text("exit")
    await asyncio.sleep(0.4)
    health = await asyncio.gather(*(engine.check_health() for engine in engines), return_exceptions=True)
    assert sorted(type(each).__name__ for each in health) == ["EngineDiedError", "NoneType"]
    living = engines[health.index(None)]
    fault.write_text("slow 5")
    await asyncio.sleep(0.4)
    assert (await living.complete(request())).seconds >= 0.095
    hanging = await started(fault_file=str(fault))
    fault.write_text("hang")
    await asyncio.sleep(0.4)
    task = asyncio.create_task(hanging.complete(request()))
    await asyncio.sleep(0.05)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hanging.check_health(), 0.2)
    task.cancel()


@pytest.mark.parametrize(
    ("text", "scores", "said"),
    [
        ("A", LabelScores((-0.2, -2.0), math.exp(-0.2) + math.exp(-2.0), True), ""),
        ("B", LabelScores((math.nan, -2.0), math.exp(-2.0), True), ""),
        ("A", LabelScores((-0.2, -2.0), 0.5, True, exact=False), ""),
        ("A", LabelScores((-0.2, -2.0), math.exp(-0.2), True), "mass is not the sum"),
        ("A", LabelScores((-0.2, -2.0), math.exp(-2.2), True), "mass is not the sum"),
        ("B", LabelScores((-0.2, -2.0), math.exp(-0.2) + math.exp(-2.0), True), "not the label with the highest score"),
        ("A", LabelScores((0.1, -2.0), math.exp(0.1) + math.exp(-2.0), True), "above 0"),
        ("A", LabelScores((-0.2,), math.exp(-0.2), True), "two scores"),
        ("A", None, "two scores"),
    ],
)
async def test_label_scores_that_contradict_themselves_are_refused(text, scores, said):
    class Scored(SimulatedEngine):
        async def complete(self, request):
            reply = await super().complete(request)
            return dataclasses.replace(reply, text=text, label_scores=scores) if request.labels else reply

    refused = pytest.raises(AssertionError, match=said) if said else contextlib.nullcontext()
    with refused:
        await check_engine(lambda: Scored(Sampling(), step_seconds=0.0, prefill_tokens_per_second=1e9), {})


class SecondClose(SimulatedEngine):
    closed = 0

    async def close(self):
        self.closed += 1
        assert self.closed < 2, "closed twice"
        await super().close()


class Ill(SimulatedEngine):
    async def check_health(self):
        raise EngineError("ill")


@pytest.mark.parametrize(
    ("base", "attributes", "replies", "said"),
    [
        (SimulatedEngine, {"max_num_seqs": 0}, {}, "max_num_seqs must be a whole number from 1"),
        (SimulatedEngine, {"operational": frozenset({"wings"})}, {}, "names no setting of the engine: .'wings'"),
        (SimulatedEngine, {"fixed_for_run": frozenset({"tail"})}, {}, "must be among operational"),
        (SimulatedEngine, {"facts": {"a": None}}, {}, "check_facts: 'a': None; names must be texts"),
        (SimulatedEngine, {}, {"one": {"text": None}}, "check_reply: a reply whose text is None"),
        (SimulatedEngine, {}, {"one": {"finish": "content_filter"}}, "not a reply"),
        (SimulatedEngine, {}, {"one": {"prompt_tokens": -1}}, None),
        (SimulatedEngine, {}, {"one": {"cached_tokens": -1}}, None),
        (SimulatedEngine, {}, {"one": {"seconds": -1.0}}, None),
        (SimulatedEngine, {}, {"many-2": {"text": None}}, "concurrent requests are not all answered"),
        (SimulatedEngine, {}, {"options": {"text": "go up"}}, "'go up' is none of the options"),
        (SecondClose, {}, {}, "closed twice"),
        (Ill, {}, {}, "ill"),
    ],
)
async def test_an_engine_that_breaks_its_contract_is_told_so(base, attributes, replies, said):
    async def complete(self, request):
        return dataclasses.replace(await base.complete(self, request), **replies.get(request.id, {}))

    broken = type("Broken", (base,), {"complete": complete, **attributes})
    with pytest.raises((AssertionError, EngineError), match=said):
        await check_engine(lambda: broken(Sampling(), step_seconds=0.0, prefill_tokens_per_second=1e9), {})


@pytest.mark.parametrize("keys", [frozenset({"beams"}), classmethod(lambda cls: {"beams"})])
async def test_sampling_keys_that_are_no_class_method_with_types_are_refused(keys):
    engine = type("Wrong", (SimulatedEngine,), {"sampling_keys": keys})
    with pytest.raises(AssertionError, match="sampling_keys must be a class method that returns a mapping"):
        await check_engine(lambda: engine(Sampling()), {})


async def test_an_engine_that_was_never_started_refuses_a_request(monkeypatch):
    monkeypatch.setattr("cluster.engines.testing.REFUSAL_SECONDS", 0.01)
    quick = functools.partial(SimulatedEngine, Sampling(), step_seconds=0.0, prefill_tokens_per_second=1e9)
    await check_engine(quick, {})

    class Waits(SimulatedEngine):
        async def complete(self, request):
            if self._loop is None:
                await asyncio.Event().wait()
            return await super().complete(request)

    waits = functools.partial(Waits, Sampling(), step_seconds=0.0, prefill_tokens_per_second=1e9)
    with pytest.raises(AssertionError, match="never started must refuse a request"):
        await check_engine(waits, {})


async def test_a_reply_and_the_load_count_its_tokens_and_a_label_is_one():
    engine = await started(max_tokens=7, step_seconds=1e-6, median_tokens=50, tail=0.0)
    first = await engine.complete(request())
    again = await engine.complete(request(labels=("A", "B")))
    option = await engine.complete(request(text="another", options=("a", "b")))
    length = prompt_length(request().chat)
    assert [
        (each.prompt_tokens, each.completion_tokens, each.cached_tokens, each.finish) for each in (first, again, option)
    ] == [
        (length, 7, 0, "length"),
        (length, 1, length, "stop"),
        (prompt_length(request(text="another").chat), 7, 0, "stop"),
    ]
    assert (again.label_scores is not None, option.label_scores, option.text in ("a", "b")) == (True, None, True)
    load = engine.load
    assert (load.completed, load.prompt_tokens, load.cached_tokens, load.completion_tokens) == (
        *(3, 2 * length + option.prompt_tokens, length, 15),
    )
    await engine.close()
    with pytest.raises(EngineError, match="not started"):
        await engine.complete(request())


async def test_one_engine_takes_the_fault_that_a_file_names(tmp_path):
    file = tmp_path / "fault"
    for text, health, slower in (("slow 3.5", None, 3.5), ("exit", EngineDiedError, 1.0), ("hang", TimeoutError, 1.0)):
        engines = [SimulatedEngine(Sampling(), fault_file=str(file)) for _ in range(2)]
        file.write_text(f"{text}\n")
        for engine in engines:
            engine._check_fault_file()
        assert not file.exists() and [engine._slower for engine in engines] == [slower, 1.0]
        with pytest.raises(health) if health else contextlib.nullcontext():
            await asyncio.wait_for(engines[0].check_health(), 0.01)
        await asyncio.wait_for(engines[1].check_health(), 0.01)
