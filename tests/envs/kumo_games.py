"""Made-up domains and games for the tests of KumO."""

import random
from collections.abc import Sequence
from typing import Any

from envs.kumo import Action, Domain, State, Task
from envs.kumo.domain import parse_domain


def toy_yaml() -> dict[str, Any]:
    """A small valid domain as its YAML file reads."""
    return {
        "name": "toy",
        "title": "Toy",
        "goal": "Find out which fruit is in the bag.",
        "truth": {"singular": "fruit", "plural": "fruits"},
        "action": {"singular": "check", "plural": "checks"},
        "truths": ["Apple", "Banana", "Cherry"],
        "actions": [
            {
                "name": "Colour",
                "outcome": "str",
                "states": [
                    {"state": "red", "rules_out": ["Banana"]},
                    {"state": "yellow", "rules_out": ["Cherry"]},
                ],
            },
            {
                "name": "Weight",
                "outcome": "float",
                "unit": "g",
                "states": [
                    {"state": [1, 20], "rules_out": ["Apple", "Banana"]},
                    {"state": [50, 99.5], "rules_out": []},
                    {"state": [100, 200], "rules_out": ["Cherry"]},
                ],
            },
        ],
    }


def made_domain(seed: int = 0, truths: int = 16, actions: int = 12) -> Domain:
    """A random domain of both outcome types that passes validation."""
    rng = random.Random(seed)
    names = [f"truth {number}" for number in range(truths)]
    entries = []
    for number in range(actions):
        numeric = number % 3 == 0
        count = rng.randint(2, 4)
        states = [
            {
                "state": [10 * place, 10 * place + 7.5] if numeric else f"outcome {place}",
                "rules_out": rng.sample(names, rng.randint(0, truths // 3)) if place else [],
            }
            for place in range(count)
        ]
        entries.append({"name": f"action {number}", "outcome": "float" if numeric else "str", "states": states})
    entries[0]["states"][1]["rules_out"] = names[::2]
    entries[1]["states"][1]["rules_out"] = names[1::2]
    return parse_domain({**toy_yaml(), "name": "made", "truths": names, "actions": entries}, "made")


def random_game(
    rng: random.Random, truths: int, actions: int, states: int, densities: Sequence[float] = (0.2, 0.4, 0.6)
) -> Task:
    """Any game at all: outcomes may rule out nothing, everything, or the same as others; what is shown is the first state.

    Each action draws from ``densities`` how likely an outcome of it rules a truth out.
    """
    names = tuple(f"t{number}" for number in range(truths))
    table = []
    for number in range(actions):
        density = rng.choice(densities)
        outcomes = tuple(
            State(f"s{place}", tuple(name for name in names if rng.random() < density))
            for place in range(rng.randint(2, states))
        )
        table.append(Action(f"a{number}", "str", outcomes))
    if actions > 1 and rng.random() < 0.3:
        table[-1] = Action(table[-1].name, "str", table[0].states)
    return Task("random", names, tuple(table), tuple("s0" for _ in table), names[0])
