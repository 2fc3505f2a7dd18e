"""Perfect play that is kept beside the code is perfect play, and is there for all that everyone plays."""

import dataclasses
import random

import pytest

from envs.kumo import OptimalSearch
from evals.kumo import KumoSuite, optima
from evals.kumo.puzzle import puzzles_of

DEFAULT_DOMAINS = ("medical", "chemical", "music", "education", "fantasy")


def test_the_default_suite_is_known_so_that_no_run_waits_for_a_search():
    unknown = [p.task for p in KumoSuite().puzzles() if optima.game_key(p.task) not in optima.known_optima()]
    assert not unknown, f"{len(unknown)} tasks are new: run python -m evals.kumo"


@pytest.mark.parametrize("domain", DEFAULT_DOMAINS)
def test_what_is_known_is_what_the_search_finds(domain):
    hard = puzzles_of(domain, "hard", 50, False)
    sample = [hard[place] for place in random.Random(1).sample(range(50), 3)]
    for puzzle in (*puzzles_of(domain, "easy", 50, False)[::5], *sample):
        assert optima.optimal_play(puzzle.task) == OptimalSearch(puzzle.task).rollout()


def test_a_game_is_known_by_what_it_rules_out_and_shows_not_by_its_words():
    task = puzzles_of("medical", "easy", 50, False)[0].task
    renamed = dataclasses.replace(
        task, actions=tuple(dataclasses.replace(a, name=f"Test {a.name}") for a in task.actions), domain="other", seed=9
    )
    assert optima.game_key(renamed) == optima.game_key(task)
    first = task.actions[0]
    shown = first.states.index(first.state_of(task.observations[0]))
    other = first.states[(shown + 1) % len(first.states)].value
    observation = other if isinstance(other, str) else other[0]
    changed = dataclasses.replace(task, observations=(observation, *task.observations[1:]))
    assert optima.game_key(changed) != optima.game_key(task)


def test_the_file_is_brought_up_to_date_without_searching_again(tmp_path, monkeypatch):
    monkeypatch.setattr(optima, "OPTIMA", tmp_path / "optima.json")
    monkeypatch.setattr(optima, "known_optima", optima.known_optima.__wrapped__)
    tasks = [puzzle.task for puzzle in puzzles_of("music", "easy", 50, False)[:3]]
    optima.update(tasks[:2], processes=1)
    optima.update(tasks[1:], processes=1)
    assert set(optima.known_optima()) == {optima.game_key(task) for task in tasks[1:]}
    assert optima.optimal_play(tasks[2]) == OptimalSearch(tasks[2]).rollout()
