"""Shortcut players on all cells. Run: python -m benchmarks.kidgym_shortcuts [seeds].

Prints each shortcut's success on the tasks that it applies to, of either variant, next to chance, and then the table that
``evals.suites.kidgym.shortcut_success`` stores. MDE is also played with the published distractors.
"""

from __future__ import annotations

import sys

from benchmarks.arguments import whole_numbers
from envs.kidgym import make
from envs.kidgym.chance import BALANCED_CHANCE, CHANCE
from evals.suites.kidgym.shortcuts import APPLIES, shortcut_action
from evals.suites.kidgym.variants import chance_of, named, task_and_variant


def success(name: str, task: str, level: int, seeds: int, mde_decoys: str = "table") -> float:
    """Share of games that a shortcut wins; ``task`` may name a variant."""
    wins = 0
    drawn, variant = task_and_variant(task)
    for seed in range(seeds):
        world = make(drawn, level, seed, mde_decoys=mde_decoys, variant=variant)
        while not world.done:
            world.take(world.ordered[0] if len(world.ordered) == 1 else shortcut_action(name, world))
        wins += world.success
    return wins / seeds


def main(seeds: int = 1000) -> int:
    print(f"{'shortcut':22}{'task':14}{'L1':>8}{'L2':>8}{'L3':>8}   chance")
    games = [*CHANCE, *(named(task, "balanced") for task in BALANCED_CHANCE)]
    rows = {}
    for name, tasks in APPLIES.items():
        for task in games:
            # Of balanced mazes it plays every step as random does.
            idle = name == "walks_over_things" and task_and_variant(task)[1] == "balanced"
            if not idle and (not tasks or task_and_variant(task)[0] in tasks):
                rows[name, task] = tuple(success(name, task, level, seeds) for level in (1, 2, 3))
                _print(name, task, task, rows[name, task])
    for name in ("any_listed", "right_kind"):
        shares = tuple(success(name, "MDE", level, seeds, "published") for level in (1, 2, 3))
        _print(name, "MDE, published decoys", "MDE", shares)
    print()
    for name in APPLIES:
        print(f'    "{name}": {{')
        for task in games:
            if (name, task) in rows:
                print(f'        "{task}": {tuple(round(share, 3) for share in rows[name, task])},')
        print("    },")
    return 0


def _print(name: str, what: str, task: str, shares: tuple[float, ...]) -> None:
    chance = " ".join(f"{value:.3f}" for value in chance_of(task) or ())
    print(f"{name:22}{what:14}" + "".join(f"{share:8.3f}" for share in shares) + f"   {chance}", flush=True)


if __name__ == "__main__":
    sys.exit(main(*whole_numbers(__doc__, seeds=1000)))
