"""All domains that come with raycade: large enough, and good for easy and hard tasks."""

import pytest

from envs.kumo import DIFFICULTIES, available_domains, generate_tasks, load_domain


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if rank % 10 == 0 else pytest.mark.slow)
        for rank, each in enumerate(available_domains())
    ],
)
def test_a_domain_is_large_enough_and_makes_tasks_of_both_difficulties(name):
    domain = load_domain(name)
    assert len(domain.truths) >= 50 and len(domain.actions) >= 30 and domain.category
    numeric = {any(not isinstance(state.value, str) for state in action.states) for action in domain.actions}
    assert numeric == {True, False}, "tests that show a number and tests that show words"
    for truths, actions in DIFFICULTIES.values():
        tasks = generate_tasks(domain, truths, actions, count=3)
        assert len({str(task.to_json()) for task in tasks}) == 3
