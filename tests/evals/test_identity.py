"""Rule: a setting changes an episode's id, or it changes nothing that its player is shown and nothing that is read."""

import asyncio
import functools
import random
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.settings import settings_of
from evals.conversation import Record
from evals.players import certain
from evals.suite import play_episode
from evals.suites.kidgym.suite import KidGymSuite
from evals.suites.kumo.likely.suite import KumoLikelySuite
from evals.suites.kumo.suite import KumoSuite
from evals.suites.multistar.suite import MultiStarSuite
from evals.types import Reply, Turn

SMALL: dict[type, dict[str, Any]] = {
    KumoSuite: {"domains": ("medical", "music"), "difficulties": ("easy",), "tasks_per_domain": 1, "repeats": 1},
    KumoLikelySuite: {"domains": ("medical", "music"), "tasks_per_domain": 1, "repeats": 1},
    KidGymSuite: {"tasks": ("SE", "MDE"), "levels": (1,), "episodes": 1, "resolution": 32},
    MultiStarSuite: {"configurations": ("center_single",), "attributes": ("number",), "puzzles": 1},
}
VALUES: dict[str, list[Any]] = {
    "domains": ["medical", ("music", "medical"), "reptiles@in"],
    "difficulties": ["easy", "4x7"],
    "truths": [None, 4, 5],
    "actions": [None, 6, 7],
    "tasks_per_domain": [2],
    "repeats": [2],
    "seed": [1],
    "valid_truths": [2],
    "structure": [None, {"names": "permuted"}],
    "max_steps": [1, 9],
    "wrong": [1.0, 7.5],
    "seeds": ["", "training:0", "training:1"],
    "tasks": ["SE", ("CL", "SE")],
    "levels": [1, (2, 1)],
    "modes": ["cot", ("icl", "zero_shot")],
    "episodes": [2],
    "puzzles": [None, 2],
    "configurations": ["center_single", ("distribute_four", "center_single")],
    "attributes": ["all", ("number", "position")],
    "priors": ["none", ("truth", "model")],
    "styles": ["structured", ("vanilla", "document")],
    "convention": ["decoded", "natural_logs"],
    "scale": [2],
    "numeric": [None, 0.5],
    "changing": [None, 1, 3],
    "values": [None, 4],
    "history": ["all", "none", 1],
    "feedback": ["legal", "changed", ("changed", "reward")],
}
"""Of settings that state no choices themselves."""
FROM_FILES = {
    KumoSuite: {"tasks", "source", "transcripts"},
    KidGymSuite: {"skin", "templates", "environments", "recording", "checkout", "python"},
    MultiStarSuite: {"problems", "source", "templates"},
    KumoLikelySuite: set(),
}
"""Settings that name files: that these count by content is tested where they are read."""


def values_of(suite: type, name: str) -> list[Any]:
    kind = settings_of(suite)[name].kind
    if kind is bool:
        return [False, True]
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    choices = [choice for member in members if get_origin(member) is Literal for choice in get_args(member)]
    return VALUES.get(name) or choices


class Wordy:
    """Answers in forms that readers of replies treat differently; always the same to the same question."""

    async def reply(self, turn: Turn) -> Reply:
        chance = random.Random(f"{turn.episode.task} {turn.number}")
        if turn.labels:
            label = chance.choice(turn.labels)
            return Reply(label, label_scores=certain(turn.labels, label))
        first, other = (chance.choice(turn.options or ("A",)) for _ in range(2))
        forms = [other, other, f"Well. {other}", f"{first}? No.\n{other}", "That is hard to tell.", f"**{other}**."]
        return Reply(chance.choice(forms))


def met(record: Record) -> list[Any]:
    """What a player was shown and what was read of its replies."""
    return [
        (played.turn.chat, played.turn.options, played.turn.labels, played.reply.text, played.action)
        for played in record.turns
    ]


@functools.cache
def plain(kind: type) -> dict[str, Record]:
    return played(kind(**SMALL[kind]))


def played(suite: Any) -> dict[str, Record]:
    async def play_all() -> dict[str, Record]:
        return {episode.id: await play_episode(suite, episode, Wordy()) for episode in suite.plan()}

    return asyncio.run(play_all())


def check(kind: type, *changes: Mapping[str, Any]) -> None:
    known = dict(plain(kind))
    for change in changes:
        try:
            other = played(kind(**SMALL[kind] | change))
        except ValueError:
            continue  # settings that do not go together
        for same in known.keys() & other.keys():
            assert met(known[same]) == met(other[same]), change
        known |= other


SETTINGS = {kind: sorted(set(settings_of(kind)) - FROM_FILES[kind]) for kind in SMALL}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in SMALL for name in SETTINGS[kind]],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_setting_changes_the_id_or_nothing_that_is_shown_and_read(kind, name):
    values = values_of(kind, name)
    assert values, "a setting of a new type: add values that it may have to VALUES"
    check(kind, *({name: value} for value in values))


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.name)
@given(data=st.data())
@settings(max_examples=15)
def test_two_settings_change_the_id_or_nothing_that_is_shown_and_read(kind, data):
    changed = data.draw(st.lists(st.sampled_from(SETTINGS[kind]), min_size=2, max_size=2, unique=True))
    one, other = (
        {name: data.draw(st.sampled_from(values_of(kind, name)), label=name) for name in changed} for _ in "12"
    )
    check(kind, one, one | {changed[0]: other[changed[0]]})
