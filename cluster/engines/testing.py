"""Checks for engines: run ``check_engine`` in your own tests."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from cluster.engines.base import Engine, EngineError, Request, Sampling
from cluster.engines.checked import SLOTS, check_capabilities, check_facts, check_reply
from evals.types import PlayerError, message


async def check_engine(make_engine: Callable[[], Engine], settings: Mapping[str, Any]) -> None:
    """Check that an engine keeps the contract of ``cluster.engines.base``, according to its capabilities.

    Args:
        make_engine: Builds the engine; called twice.
        settings: The ``model.engine`` section that it was built from.

    Raises:
        AssertionError: it does not; the message says what is wrong.
    """
    engine = make_engine()
    cls = type(engine)
    can = cls.capabilities(settings)
    _check(check_capabilities, can)
    names = {name.partition(".")[0] for name in cls.operational | cls.fixed_for_run}
    unknown = names - settings.keys() - _parameters(cls)
    assert not unknown, f"operational names no setting of the engine: {sorted(unknown)}"
    assert cls.fixed_for_run <= cls.operational, "fixed_for_run must be among operational"
    for name in ("keys_within", "sampling_keys"):
        _check_class_method(cls, name)
    try:
        await engine.start()
        assert SLOTS.holds(engine.max_num_seqs), f"max_num_seqs must be {SLOTS.wanted}, not {engine.max_num_seqs!r}"
        _check(check_facts, engine.facts)
        chat = (message("system", "Answer briefly."), message("user", "Which letter comes first, A or B?"))
        one = Request("one", chat, seed=1)
        reply = await engine.complete(one)
        _check(check_reply, reply, one)
        assert reply.finish in ("stop", "length"), f"not a reply: {reply}"
        many = [Request(f"many-{n}", chat, seed=n) for n in range(2 * engine.max_num_seqs + 1)]
        replies = await asyncio.gather(*(engine.complete(request) for request in many[:64]))
        assert all(isinstance(each.text, str) for each in replies), "concurrent requests are not all answered"
        if can.options:
            options = ("go left", "go right")
            chosen = await engine.complete(Request("options", chat, options=options, seed=2))
            assert chosen.text in options, f"the reply {chosen.text!r} is none of the options"
        if can.label_scores:
            scored = await engine.complete(Request("labels", chat, labels=("A", "B")))
            _check_scores(scored.text, scored.label_scores)
        await asyncio.wait_for(engine.check_health(), 60)
    finally:
        await engine.close()
    await engine.close()  # closing twice must be safe
    again = make_engine()
    await again.close()  # and so must closing an engine that was never started
    try:
        await asyncio.wait_for(again.complete(Request("closed", chat)), REFUSAL_SECONDS)
    except TimeoutError as error:
        raise AssertionError("an engine that was never started must refuse a request, not let it wait") from error
    except (EngineError, PlayerError):
        return


def _check(check: Callable[..., None], *values: Any) -> None:
    """Have a check of what hosts take speak as the others here do."""
    try:
        check(*values)
    except ValueError as error:
        raise AssertionError(f"{check.__name__}: {error}") from error


def _check_class_method(cls: type[Engine], name: str) -> None:
    """``keys_within`` and ``sampling_keys`` are called when a run is planned."""
    what = f"{name} must be a class method that returns a mapping from names to types"
    method = getattr(cls, name)
    assert callable(method), f"{what}, not {method!r}"
    try:
        keys = method()
    except TypeError as error:
        raise AssertionError(f"{what}: {error}") from error
    assert isinstance(keys, Mapping) and all(isinstance(key, str) for key in keys), f"{what}, not {keys!r}"


def _check_scores(text: str, scores: Any) -> None:
    assert scores is not None and len(scores.logprobs) == 2, "expected two scores for two labels"
    known = [value for value in scores.logprobs if not math.isnan(value)]
    assert all(value <= 1e-6 for value in known), f"log-probabilities above 0: {scores.logprobs}"
    assert text == ("A", "B")[scores.logprobs.index(max(known))], "the text is not the label with the highest score"
    if scores.exact:
        mass = sum(math.exp(value) for value in known)
        assert math.isclose(mass, scores.mass, rel_tol=1e-3, abs_tol=1e-6), "mass is not the sum of probabilities"


def _parameters(cls: type[Engine]) -> set[str]:
    return set(inspect.signature(cls).parameters)


REFUSAL_SECONDS = 60.0
"""How long an engine that was never started may take to refuse a request."""

DEFAULT_SAMPLING = Sampling(max_tokens=8)
"""Short replies, since only their form is checked."""
