"""Made-up domains and games for the tests of KUMO."""

import random
from collections.abc import Sequence
from typing import Any

from envs.kumo import Action, Domain, State, Task
from envs.kumo.domain_file import parse_domain

MAIN_DOMAINS = ("medical", "chemical", "music", "education", "fantasy")
"""Those that a run plays by default; tests that search play no others, for time."""


def toy_yaml() -> dict[str, Any]:
    """A small valid domain as its YAML file reads."""
    return {
        "name": "toy",
        "title": "Toy",
        "goal": "Find out which fruit is in the bag.",
        "truth": {"singular": "fruit", "plural": "fruits"},
        "action": {"singular": "check", "plural": "checks"},
        "truths": {
            "Apple": "The round fruit of an orchard tree, crisp and with a core of small pips.",
            "Banana": "A long, curved fruit that grows in hanging bunches and is peeled before eating.",
            "Cherry": "A small stone fruit that hangs from the tree on a long stalk.",
        },
        "actions": {
            "Color": {
                "definition": "The bag is opened and the skin of the fruit is looked at in daylight.",
                "outcomes": {"red": ["Banana"], "yellow": ["Cherry"]},
            },
            "Weight": {
                "definition": "The fruit is put on a kitchen scale.",
                "unit": "g",
                "outcomes": {"1 to 20": ["Apple", "Banana"], "50 to 99.5": [], "100 to 200": ["Cherry"]},
            },
        },
    }


def made_domain(seed: int = 0, truths: int = 16, actions: int = 12) -> Domain:
    """A random domain of both outcome types that passes validation."""
    rng = random.Random(seed)
    names = {f"truth {number}": f"An invented candidate, number {number} of its list." for number in range(truths)}
    entries: dict[str, Any] = {}
    for number in range(actions):
        numeric = number % 3 == 0
        outcomes = {
            f"{10 * place} to {10 * place + 7.5}" if numeric else f"outcome {place}": (
                rng.sample([*names], rng.randint(0, truths // 3)) if place else []
            )
            for place in range(rng.randint(2, 4))
        }
        entries[f"action {number}"] = {
            "definition": f"An invented test, number {number} of its list.",
            "outcomes": outcomes,
        }
    for number, places in enumerate((slice(None, None, 2), slice(1, None, 2))):
        outcomes = entries[f"action {number}"]["outcomes"]
        outcomes[list(outcomes)[1]] = [*names][places]
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
