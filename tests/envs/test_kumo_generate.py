"""Generated tasks have one answer, give nothing away, never repeat and depend on their seed only."""

import argparse
import dataclasses
import json
import re

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
from evals.suites.kumo import KumoSuite
from tests.envs.kumo_games import MAIN_DOMAINS, made_domain, toy_yaml


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


@pytest.mark.parametrize("valid", [0, 4, 5])
def test_a_number_of_valid_truths_that_makes_no_game_is_refused(valid):
    with pytest.raises(GenerationError, match=f"not {valid}"):
        generate_tasks(made_domain(6), valid_truths=valid)


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


def test_sizes_that_a_domain_cannot_fill_are_refused():
    with pytest.raises(GenerationError, match="'toy' has 3 truths and 2 actions"):
        generate_tasks(parse_domain(toy_yaml(), "toy"), truths=4, actions=2)


def test_the_command_takes_any_size_and_number_of_valid_truths(tmp_path, capsys):
    out = tmp_path / "tasks.jsonl"
    words = ("--truths", "7", "--actions", "9", "--valid-truths", "2", "--count", "3", "--seed", "4")
    assert command("medical", str(out), *words) == 0
    assert read_tasks(out, []) == generate_tasks(load_domain("medical"), 7, 9, count=3, seed=4, valid_truths=2)
    told = capsys.readouterr().out
    assert all(part in told for part in ("7 truths", "2 of them", "9 actions", "seed 4"))
    # What it says plays the file does: a run of the default difficulties finds no task in it.
    settings = dict(re.findall(r"suite\.(\w+)=\[?(.+?)\]?(?:\s|$)", told.split("play them:")[1]))
    settings = {"domains": settings["domains"], "difficulties": [settings["difficulties"]], "tasks": settings["tasks"]}
    assert len(KumoSuite(**settings, repeats=1).plan()) == 3


def test_sizes_that_no_run_plays_are_not_written(tmp_path, capsys):
    out = tmp_path / "tasks.jsonl"
    assert command("medical", str(out), "--truths", "16", "--actions", "20", "--count", "1") == 2
    assert "at most 13 truths and 18 actions" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("option", ["--truths=0", "--actions=0", "--truths=-1"])
def test_a_size_of_nothing_is_refused(tmp_path, capsys, option):
    assert command("medical", str(tmp_path / "tasks.jsonl"), option) == 2
    assert option.replace("=", " ") in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_replaced_only_when_that_is_asked_for(tmp_path, capsys):
    out = tmp_path / "tasks.jsonl"
    out.write_text("precious")
    assert command("medical", str(out), "--count", "1") == 2
    assert out.read_text() == "precious" and "--overwrite" in capsys.readouterr().err
    assert command("medical", str(out), "--count", "1", "--overwrite") == 0
    assert len(read_tasks(out, [])) == 1


@pytest.mark.parametrize("count", ["-3", "0"])
def test_no_tasks_are_refused_and_a_file_that_is_there_stays_as_it_was(count, tmp_path, capsys):
    out = tmp_path / "tasks.jsonl"
    out.write_text("precious")
    assert command("medical", str(out), "--count", count, "--overwrite") == 2
    assert f"at least 1, not {count}" in capsys.readouterr().err
    assert out.read_text() == "precious"


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda fields: fields.pop("truths"), "not a task (KeyError: 'truths')"),
        (lambda fields: fields.update(observations=3), "not a task"),
        (lambda fields: fields.update(valid_truths="Fig"), "unknown key valid_truths. Did you mean valid_truth"),
        (lambda fields: fields.update(valid_truth="Fig"), "where only Fig should be left"),
        (lambda fields: fields["observations"].update({fields["actions"][0]: "Fig"}), "has no outcome 'Fig'"),
        (lambda fields: fields["outcomes"].pop(fields["actions"][0]), "not a task"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path, change, words):
    first, second = (task.to_json() for task in generate_tasks(made_domain(6), count=2))
    change(second)
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(first)}\n\n{json.dumps(second)}\n")
    with pytest.raises(ValueError) as error:
        read_tasks(path, [])
    assert f"{path}, line 3: " in str(error.value) and words in str(error.value)


@pytest.mark.parametrize(("named", "kind"), [("truth ", "truth"), ("action ", "test")])
def test_a_name_that_the_domain_lacks_is_refused_with_its_line(tmp_path, named, kind):
    domain = made_domain(6)
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, generate_tasks(domain, count=1))
    path.write_text(path.read_text().replace(f'"{named}', '"other '))
    with pytest.raises(ValueError, match=rf"tasks\.jsonl, line 1: 'other \d+' is no {kind} of {domain.name}"):
        read_tasks(path, [made_domain(7), domain])
    assert len(read_tasks(path, [])) == 1


@pytest.mark.parametrize("index", [0, 7])
def test_a_task_that_stands_twice_is_refused_with_both_lines(tmp_path, index):
    first, second = (task.to_json() for task in generate_tasks(made_domain(6), count=2))
    path = tmp_path / "tasks.jsonl"
    again = {**first, "index": index, "book": "another"}
    path.write_text("\n".join(json.dumps(fields) for fields in (first, second, again)))
    with pytest.raises(ValueError, match=r"tasks\.jsonl, line 3: the same task as in line 1"):
        read_tasks(path, [])
