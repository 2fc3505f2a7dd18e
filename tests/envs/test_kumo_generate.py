"""Generated tasks have one answer, give nothing away, never repeat and depend on their seed only."""

import argparse
import dataclasses
import functools
import itertools
import json
import operator
import random
import re
import shlex
from pathlib import Path

import pytest

from benchmarks.kumo_tasks import left_by, search
from envs.kumo import (
    DIFFICULTIES,
    GenerationError,
    generate_command,
    generate_tasks,
    load_domain,
    read_tasks,
    write_tasks,
)
from envs.kumo.domain_file import parse_domain
from envs.kumo.generate import _decide
from evals.suites.kumo import KumoSuite
from tests.envs.kumo_games import MAIN_DOMAINS, made_domain, toy_yaml
from tests.golden import check_golden, digest


def domains():
    return [made_domain(1), *(load_domain(name) for name in MAIN_DOMAINS)]


def command(*words):
    parser = argparse.ArgumentParser()
    generate_command.add_arguments(parser)
    return generate_command.main(parser.parse_args(words))


def everything_shown(task):
    return dict(zip(task.action_names, task.observations, strict=True))


def can_rule_out(task, truth):
    return any(truth in state.rules_out for action in task.actions for state in action.states)


def identity(task):
    states = frozenset((a.name, a.state_of(o)) for a, o in zip(task.actions, task.observations, strict=True))
    return frozenset(task.truths), states


@pytest.mark.parametrize("domain", domains(), ids=lambda domain: domain.name)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_exactly_the_valid_truth_survives_all_observations(domain, difficulty):
    truths, actions = DIFFICULTIES[difficulty]
    if difficulty == "hard" and domain.name == "made":
        actions = 12
    for index, task in enumerate(generate_tasks(domain, truths, actions, count=30)):
        assert (len(set(task.truths)), len(set(task.action_names)), task.index) == (truths, actions, index)
        assert task.survivors(everything_shown(task)) == (task.valid_truth,)
        assert all(can_rule_out(task, truth) for truth in task.truths)


@pytest.mark.parametrize("domain", domains(), ids=lambda domain: domain.name)
@pytest.mark.parametrize(("truths", "actions", "valid"), [(4, 6, 2), (6, 9, 3), (10, 12, 1), (16, 12, 4), (3, 1, 2)])
def test_exactly_so_many_truths_survive_as_are_asked_for(domain, truths, actions, valid):
    for task in generate_tasks(domain, truths, actions, count=15, valid_truths=valid):
        assert (len(set(task.truths)), len(set(task.action_names))) == (truths, actions)
        assert len(task.valid_truths) == valid and task.valid_truth in task.valid_truths
        assert task.survivors(everything_shown(task)) == task.valid_truths
        assert all(can_rule_out(task, truth) for truth in task.truths)


def test_no_more_tests_decide_than_may():
    rng = random.Random(5)
    none = 0
    for number in range(150):
        most, invalid = 1 + number % 4, 0b11111
        rules_out = {test: dict(enumerate(rng.choices(range(1, 32), k=3))) for test in range(5)}
        groups = {
            test: {gone: [state for state, other in states.items() if other == gone] for gone in states.values()}
            for test, states in rules_out.items()
        }
        shown = itertools.product(*([None, 0, 1, 2] for _ in rules_out))
        choices = [{test: state for test, state in enumerate(states) if state is not None} for states in shown]
        enough = [
            choice
            for choice in choices
            if len(choice) <= most
            and functools.reduce(operator.or_, [rules_out[test][state] for test, state in choice.items()], 0) == invalid
        ]
        found = _decide(groups, invalid, most, rng)
        assert found in enough if enough else found is None
        none += not enough
    assert 20 < none < 130


def test_tasks_with_several_valid_truths_survive_a_file(tmp_path):
    tasks = generate_tasks(made_domain(6), count=5, valid_truths=2)
    write_tasks(tmp_path / "tasks.jsonl", tasks)
    assert read_tasks(tmp_path / "tasks.jsonl", []) == tasks
    line = json.loads((tmp_path / "tasks.jsonl").read_text().splitlines()[0])
    assert sorted(line["valid_truth"]) == sorted(tasks[0].valid_truths)
    wrong = {**line, "valid_truth": line["valid_truth"][:1]}
    (tmp_path / "wrong.jsonl").write_text(json.dumps(wrong))
    with pytest.raises(ValueError, match="should be left"):
        read_tasks(tmp_path / "wrong.jsonl", [])


def test_tasks_carry_the_rules_of_their_domain():
    domain = made_domain(2)
    table = {action.name: action for action in domain.actions}
    for task in generate_tasks(domain, count=20):
        for action in task.actions:
            for ours, theirs in zip(action.states, table[action.name].states, strict=True):
                assert ours.value == theirs.value
                assert ours.rules_out == tuple(truth for truth in task.truths if truth in theirs.rules_out)


@pytest.mark.parametrize("domain", domains(), ids=lambda domain: domain.name)
def test_a_reading_of_the_json_that_shares_no_code_finds_the_same_truths_left(domain):
    for valid in (1, 2):
        for task in generate_tasks(domain, 6, 9, count=10, valid_truths=valid):
            assert left_by(task.to_json()) == list(task.valid_truths)
    fields = task.to_json()
    assert left_by({**fields, "observations": {}}) == fields["truths"], "without outcomes every truth is left"
    action = fields["actions"][0]
    never = "never" if fields["action_types"][action] == "str" else -1e9
    with pytest.raises(ValueError, match="no outcome"):
        left_by({**fields, "observations": {action: never}})
    unit = search("easy", generate_tasks(domain, count=1)[0])
    assert unit.right and unit.left == 1 and unit.tests >= 1 and unit.expected >= 1


def test_numbers_lie_in_their_range_and_have_as_many_digits_as_its_ends():
    numbers = [
        (action.state_of(shown).value, shown)
        for task in generate_tasks(made_domain(3), count=100)
        for action, shown in zip(task.actions, task.observations, strict=True)
        if action.outcome == "float"
    ]
    assert len(numbers) > 50
    assert all(low <= shown <= high and shown == round(shown, 1) for (low, high), shown in numbers)
    assert any(shown != round(shown) for _, shown in numbers)


def test_give_aways_are_refused_unless_allowed():
    domain = made_domain(4, truths=30)

    def give_aways(tasks):
        return [task for task in tasks if not can_rule_out(task, task.valid_truth)]

    assert not give_aways(generate_tasks(domain, count=200))
    allowed = generate_tasks(domain, count=200, give_aways=True)
    assert give_aways(allowed)
    for task in allowed:
        assert all(can_rule_out(task, truth) for truth in task.truths if truth != task.valid_truth)


def test_a_longer_list_begins_with_the_shorter_one():
    domain = made_domain(5)
    assert generate_tasks(domain, count=40)[:10] == generate_tasks(domain, count=10)


def test_another_seed_or_size_gives_other_tasks():
    domain = made_domain(5)
    first = generate_tasks(domain, count=10)
    assert generate_tasks(domain, count=10, seed=1) != first
    assert {identity(task) for task in generate_tasks(domain, actions=7, count=10)}.isdisjoint(map(identity, first))


def test_duplicates_are_refused_until_no_task_is_left():
    toy = parse_domain(toy_yaml(), "toy")
    tasks = generate_tasks(toy, truths=3, actions=2, count=2)
    assert len({identity(task) for task in tasks}) == 2
    with pytest.raises(GenerationError, match=r"'toy' yields no task number \d+ of 3 truths and 2 actions"):
        generate_tasks(toy, truths=3, actions=2, count=20)


def test_the_command_takes_any_size_and_number_of_valid_truths(tmp_path, capsys):
    out = tmp_path / "tasks.jsonl"
    words = ("--truths", "7", "--actions", "9", "--valid-truths", "2", "--count", "3", "--seed", "4")
    assert command("medical", str(out), *words) == 0
    assert read_tasks(out, []) == generate_tasks(load_domain("medical"), 7, 9, count=3, seed=4, valid_truths=2)
    told = capsys.readouterr().out
    assert all(part in told for part in ("7 truths", "2 of them", "9 actions", "seed 4"))
    # What it says plays the file does: a run of the default difficulties finds no task in it.
    words = shlex.split(told.split("play them:")[1])
    settings = dict(re.findall(r"^suite\.(\w+)=\[?(.+?)\]?$", "\n".join(words), re.MULTILINE))
    settings = {"domains": settings["domains"], "difficulties": [settings["difficulties"]], "tasks": settings["tasks"]}
    assert len(KumoSuite(**settings, repeats=1).plan()) == 3


PUBLISHED = ("truths", "actions", "observations", "seed", "valid_truth")


def test_published_lines_take_their_outcome_tables_from_the_domain(tmp_path):
    domain = made_domain(6)
    tasks = [dataclasses.replace(task, seed=task.index) for task in generate_tasks(domain, count=3)]
    lines = [json.dumps({key: task.to_json()[key] for key in PUBLISHED}) for task in tasks]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(lines))
    assert read_tasks(path, [domain]) == tasks
    with pytest.raises(ValueError, match=r"tasks.jsonl, line 1: a line without outcome tables"):
        read_tasks(path, [domain, made_domain(7)])


MADE = made_domain(6)
DRAWN = [
    {"count": 3},
    {"count": 2, "truths": 2, "actions": 1},
    {"count": 2, "truths": 16, "actions": 12, "seed": 3},
    {"count": 2, "valid_truths": 3},
    {"count": 2, "truths": 3, "actions": 12, "valid_truths": 2, "give_aways": True},
    *({"count": 2, "numeric": share} for share in (0, 0.3, 0.5, 1)),
]
REFUSED = [
    *({"valid_truths": valid} for valid in (0, 4, 5)),
    *({"numeric": share} for share in (-0.1, 1.1)),
    *({"truths": 1}, {"truths": 17}, {"actions": 0}, {"actions": 13}, {"count": 0}),
]
TOY = parse_domain(toy_yaml(), "toy")
CHANGES = {
    "no truths": lambda one: one.pop("truths"),
    "observations that are none": lambda one: one.update(observations=3),
    "an unknown key": lambda one: one.update(valid_truths="Fig"),
    "another valid truth": lambda one: one.update(valid_truth="Fig"),
    "two valid truths": lambda one: one.update(valid_truth=[*one["truths"][:2]]),
    "a truth that stands twice": lambda one: one.update(truths=[*one["truths"], one["truths"][0]]),
    "an unknown outcome": lambda one: one["observations"].update({one["actions"][0]: "Fig"}),
    "a missing outcome": lambda one: one["observations"].pop(one["actions"][0]),
    "a missing table": lambda one: one["outcomes"].pop(one["actions"][0]),
    "a truth of another name": lambda one: one.update(json.loads(json.dumps(one).replace(one["truths"][0], "truht 1"))),
    "a test of another name": lambda one: one.update(json.loads(json.dumps(one).replace(one["actions"][0], "action"))),
    "no index": lambda one: one.pop("index"),
    "another domain": lambda one: one.update(domain="other"),
    "the first task, of another number": None,
}
COMMANDS = [
    "medical a.jsonl --count 2 --seed 4",
    "medical b.jsonl --count 1 --difficulty hard --overwrite",
    "medical c.jsonl --count 1 --truths 7 --actions 9 --valid-truths 2 --give-aways",
    "medical d.jsonl --count 1 --truths 12 --actions 16",
    "medical a.jsonl --count 1",
    "medical a.jsonl --count 1 --overwrite",
    "medical none/e.jsonl --count 1",
    "medicine e.jsonl",
    *(
        f"medical a.jsonl --overwrite {wrong}"
        for wrong in (
            *("--truths 0", "--actions -1", "--truths 14", "--actions 19", "--count 0", "--count -3"),
            *("--valid-truths 4", "--truths 13 --actions 18 --valid-truths 0"),
        )
    ),
]


def told(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except (ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


def test_tasks_are_drawn_read_and_refused_as_on_record(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    parts = []
    for settings in DRAWN:
        parts.append(f"# {settings}")
        for task in generate_tasks(MADE, **settings):
            shown = ", ".join(f"{name}: {task.observation_text(name)}" for name in task.action_names)
            parts += [f"{task.index} {task.seed} {', '.join(task.truths)} | {shown} | {task.valid_truths}"]
            parts += [f"    {digest(json.dumps(task.to_json()))}"]
    parts += [f"{settings}: {told(generate_tasks, MADE, **settings)}" for settings in REFUSED]
    for size in ((4, 2, 1), (3, 3, 1), (3, 2, 20)):
        parts.append(f"toy {size}: {told(generate_tasks, TOY, *size)}")
    first, second = (task.to_json() for task in generate_tasks(MADE, count=2))
    for name, change in CHANGES.items():
        changed = json.loads(json.dumps(second if change else {**first, "index": 7, "book": "x"}))
        if change:
            change(changed)
        Path("tasks.jsonl").write_text(f"{json.dumps(first)}\n\n{json.dumps(changed)}\n")
        for domains in ([], [TOY, MADE]):
            read = told(read_tasks, Path("tasks.jsonl"), domains)
            parts.append(f"{name}: {read if isinstance(read, str) else [(task.domain, task.index) for task in read]}")
    task = generate_tasks(MADE, count=1)[0]
    parts += [str(told(task.position, "none")), str(told(task.survivors, {task.action_names[0]: "none"}))]
    left = task.after(task.action_names[:2])
    parts.append(f"{left.truths} {left.action_names} {left.observations} {left.valid_truths}")
    for line in COMMANDS:
        code = command(*line.split())
        out, err = capsys.readouterr()
        parts += ["", f"$ raycade kumo generate {line}", f"{out}{err}exit code {code}"]
    parts += [f"{path.name} {len(read_tasks(path, []))}" for path in sorted(tmp_path.glob("?.jsonl"))]
    check_golden("kumo_tasks", "\n".join(parts))
