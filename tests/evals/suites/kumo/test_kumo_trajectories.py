"""Golden trajectories: perfect plays as chats that a run would show, in files, replayed."""

import argparse
import asyncio
import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

import envs.kumo
from cluster.cli import main
from envs.kumo import OptimalSearch, Task, domain_from, generate_tasks, structured_sources
from evals.suite import play_episode
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.lab.trajectories import commands
from evals.suites.kumo.lab.trajectories import file as trajectory_file
from evals.suites.kumo.lab.trajectories.check import check, check_row
from evals.suites.kumo.lab.trajectories.forms import FORMS, in_form
from evals.suites.kumo.lab.trajectories.plays import Recipe, optimal_plays, rows_of, trajectories
from evals.suites.kumo.lab.trajectories.reasons import reasons_to_test
from evals.suites.kumo.parallel import CHUNK, in_order
from evals.types import Reply
from examples.kumo_lora.verl_reward import compute_score
from tests.golden import check_golden, digest

PART = "reptiles@in"
DOMAINS = Path(envs.kumo.__file__).parent / "domains"
TIED = structured_sources({"truths": 12, "actions": 10, "states": 2, "density": 0.25, "domains": 1}, ())[0]
"""A drawn domain, in which equally good tests are common."""


def made(recipe, count=3):
    tasks = generate_tasks(domain_from(recipe.domain), count=count, seed=recipe.seed)
    return [row for task in tasks for row in rows_of(recipe, task)]


@pytest.fixture(scope="module")
def rows():
    """Of 60 tasks, in the form of the file."""
    recipe = Recipe(PART, reserve=0, count=60)
    return [row for batch in trajectories(recipe, processes=1) for row in batch]


@pytest.fixture(scope="module")
def several(rows):
    """The first two perfect plays of a task that has several."""
    for found in trajectories(Recipe(PART, reserve=0, count=60, plays=2), processes=1):
        for first, second in itertools.pairwise(found):
            if first["index"] == second["index"]:
                return [first, second]
    raise AssertionError("no task has two perfect plays")


class Replaying:
    """Replies what a trajectory holds, and checks that it is asked what the trajectory holds."""

    def __init__(self, row):
        self.messages = row["messages"]

    async def reply(self, turn):
        asked = [{"role": entry.role, "content": "".join(entry.parts)} for entry in turn.chat]
        assert asked == self.messages[: len(asked)]
        return Reply(self.messages[len(asked)]["content"])


# --- what a trajectory is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("book", "reasons"), [("symbolic", False), ("prose", False), ("symbolic", True)])
def test_a_run_asks_what_a_trajectory_holds_and_its_replies_win_at_the_optimum(book, reasons):
    suite = KumoSuite(domains=[PART], difficulties=["easy"], tasks_per_domain=3, repeats=1, book=book)
    for episode, row in zip(suite.plan(), made(Recipe(PART, book=book, reasons=reasons)), strict=True):
        record = asyncio.run(play_episode(suite, episode, Replaying(row)))
        outcome = record.outcome
        assert outcome.success and outcome.steps == outcome.extra["optimal_actions"] == len(row["actions"])
        assert len(row["messages"]) == 2 * outcome.steps + 1
        assert set(outcome.extra["regret"]) <= {0.0}


def test_the_loss_counts_replies_only(rows):
    for row in rows:
        roles = [entry["role"] for entry in row["messages"]]
        assert row["loss_mask"] == [int(role == "assistant") for role in roles]
        assert roles == ["system", *["user", "assistant"] * len(row["actions"])]
        replies = [entry["content"] for entry in row["messages"] if entry["role"] == "assistant"]
        assert replies == [f"<ANSWER> {name} </ANSWER>" for name in row["actions"]]


def test_rows_say_what_they_are_of(rows):
    task = generate_tasks(domain_from(PART), count=60)[41]
    row = rows[41]
    assert (row["domain"], row["level"], row["seed"], row["index"], row["play"]) == (PART, "easy", 0, 41, 0)
    assert (tuple(row["truths"]), tuple(row["tests"])) == (task.truths, task.action_names)
    assert row["expected_tests"] == OptimalSearch(task).expected_steps
    assert tuple(row["actions"]) == OptimalSearch(task).rollout()


def test_what_a_run_plays_is_left_out():
    found = [row for batch in trajectories(Recipe(PART, reserve=7, count=4, seed=3), processes=1) for row in batch]
    assert [(row["seed"], row["index"]) for row in found] == [(3, 7), (3, 8), (3, 9), (3, 10)]
    played = generate_tasks(domain_from(PART), count=11, seed=3)
    assert [json.loads(row["task"]) for row in found] == [task.to_json() for task in played[7:]]


def test_sizes_are_levels_too():
    row = next(trajectories(Recipe(PART, "5x7", reserve=0, count=1), processes=1))[0]
    assert (len(row["truths"]), len(row["tests"]), row["level"]) == (5, 7, "5x7")


OUTCOME = re.compile(
    r"If the outcome of (.*?) is (.*) \((.*)\): (.*), (?:(.*) more tests on average|(?:it|one of them) is certain)\."
)


def test_the_next_best_test_is_told_of_in_games_of_the_size_that_is_cheap_and_no_larger_ones(monkeypatch):
    row = next(row for row in made(Recipe(PART), 12) if len(row["actions"]) > 1)
    task = Task.from_json(json.loads(row["task"]))
    for size, told in ((len(task.truths), True), (len(task.truths) - 1, False)):
        monkeypatch.setattr("evals.suites.kumo.lab.trajectories.reasons.CHEAP", size)
        *_, last = reasons_to_test(task, OptimalSearch(task), (), row["actions"][0]).splitlines()
        assert (";" in last) == told


def test_reasons_say_what_the_search_finds():
    """Each number by the search of the game that is left, and what is left by the rules themselves."""
    for row in made(Recipe(PART, reasons=True), 12):
        task = Task.from_json(json.loads(row["task"]))
        replies = [entry["content"].splitlines() for entry in row["messages"] if entry["role"] == "assistant"]
        for number, (first, *outcomes, value, _) in enumerate(replies[:-1]):
            rest = task.after(row["actions"][:number])
            assert first == f"Still possible: {', '.join(rest.truths)}."
            expected, after = OptimalSearch(rest).action_values(), 1.0
            for told in map(OUTCOME.fullmatch, outcomes):
                test, shown, share, left, more = told.groups()
                assert test == row["actions"][number]
                states = rest.actions[rest.position(test)].states
                lefts = [", ".join(truth for truth in rest.truths if truth not in s.rules_out) for s in states]
                same = [f'"{state.text}"' for state, each in zip(states, lefts, strict=True) if f"{each} left" == left]
                assert shown == " or ".join(same)
                after += float(share) * float(more or 0)
            assert after == pytest.approx(expected[test], abs=0.05)
            best, *others = sorted(expected.values())
            assert value.startswith(f"So {test} first means {best:.2f} tests on average")
            if others:
                assert value.endswith("would be as good." if others[0] - best < 1e-6 else f", {others[0]:.2f}.")
        alone = len(task.after(row["actions"][:-1]).truths) == 1
        end = "Every other candidate has been ruled out." if alone else "can rule out {}, so it is right."
        assert replies[-1][0].endswith(end.format(row["actions"][-1])) and len(replies[-1]) == 2


def test_forms_hold_the_chat_as_trainers_read_it():
    rows = made(Recipe(PART), 6)
    made_of = {name: next(iter(in_form(form, iter([rows])))) for name, form in FORMS.items()}
    assert made_of["raycade"] == rows
    for name in ("trl", "verl", "axolotl"):
        assert made_of[name] == [{"messages": row["messages"]} for row in rows]
    moves = [(row, number) for row in rows for number in range(len(row["actions"]))]
    for (row, number), step, rewarded in zip(moves, made_of["trl-steps"], made_of["verl-steps"], strict=True):
        assert step["prompt"] + step["completion"] == row["messages"][: 2 * number + 3]
        assert [entry["role"] for entry in step["completion"]] == ["assistant"]
        assert rewarded["prompt"] == step["prompt"] and rewarded["extra_info"]["step"] == number
        truth = rewarded["reward_model"]["ground_truth"]
        best = json.loads(truth)["best"]
        assert row["actions"][number] in best
        for name in (*row["tests"], *row["truths"]):
            assert compute_score("raycade/kumo", f"<ANSWER> {name} </ANSWER>", truth) == (name in best)
    assert max(len(json.loads(each["reward_model"]["ground_truth"])["best"]) for each in made_of["verl-steps"]) > 1


def test_recipes_are_the_paper_s():
    """Section Methods: rank 16, alpha 32, AdamW at 2e-4 without decay, 3 % warm-up, cosine, 8 a step, 100 epochs."""
    folder = Path(__file__).parents[4] / "examples/kumo_lora"
    trl, axolotl = (yaml.safe_load((folder / f"{name}.yaml").read_text()) for name in ("trl", "axolotl"))
    for recipe, warm, schedule, batch, epochs in (
        (trl, "warmup_steps", "lr_scheduler_type", "per_device_train_batch_size", "num_train_epochs"),
        (axolotl, "warmup_ratio", "lr_scheduler", "micro_batch_size", "num_epochs"),
    ):
        assert (recipe["lora_r"], recipe["lora_alpha"], recipe["learning_rate"]) == (16, 32, 2e-4)
        assert [recipe[f"adam_{name}"] for name in ("beta1", "beta2", "epsilon")] == [0.9, 0.999, 1e-8]
        assert (recipe["weight_decay"], recipe[warm], recipe[schedule], recipe[epochs]) == (0, 0.03, "cosine", 100)
        assert recipe[batch] * recipe["gradient_accumulation_steps"] == 8
    told = (folder / "verl.sh").read_text()
    for part in (
        "lora_rank=16 ",
        "lora_alpha=32 ",
        "lr=2e-4 ",
        "train_batch_size=8 ",
        "ratio=0.03 ",
        "total_epochs=100 ",
    ):
        assert part in told


# --- equally good plays ----------------------------------------------------------------------------------------------


def every_play(task, taken=()):
    """All plays in which each test has the least expected value, by brute force over the search's values."""
    observed = {name: task.observations[task.position(name)] for name in taken}
    search = OptimalSearch(task)
    tests = search.best_tests(observed)
    if not tests:
        return [(*taken, search.best(observed))]
    return [play for test in tests for play in every_play(task, (*taken, test))]


@pytest.mark.slow
def test_all_ties_are_found_once_and_the_first_is_the_search_s_own():
    ties = 0
    for task in generate_tasks(domain_from(TIED), count=20):
        plays = list(optimal_plays(OptimalSearch(task)))
        assert plays == every_play(task) and len(set(plays)) == len(plays)
        assert plays[0] == OptimalSearch(task).rollout()
        ties += len(plays) > 1
    assert ties > 2


@pytest.mark.slow
def test_no_more_plays_than_asked_for():
    counts = {}
    for most in (1, 2, 1000):
        found = made(dataclasses.replace(Recipe(TIED), plays=most), 20)
        counts[most] = [sum(row["index"] == index for row in found) for index in range(20)]
        assert [row["play"] for row in found if row["index"] == 3] == list(range(counts[most][3]))
    assert set(counts[1]) == {1} and max(counts[1000]) > 2
    assert counts[2] == [min(2, count) for count in counts[1000]]


# --- many of them ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_at_work_end_with_the_one_that_is_killed():
    code = (
        "import os, time; from evals.suites.kumo.parallel import process_pool\n"
        "def work(n): print(os.getpid(), flush=True); time.sleep(60)\n"
        "with process_pool(2) as pool: list(pool.map(work, range(9)))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as killed:
        pids = [int(killed.stdout.readline()) for _ in range(2)]
        killed.kill()
        try:
            assert killed.communicate(timeout=20) == (b"", None), "nobody holds its output any more"
        except subprocess.TimeoutExpired:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            raise


def test_results_come_in_order_and_few_items_are_taken_before_their_turn():
    taken = []

    def items():
        for number in range(20 * CHUNK + 1):
            taken.append(number)
            yield number

    results = in_order(sum, items(), processes=1)
    assert next(results) == sum(range(CHUNK)) and len(taken) <= 4 * CHUNK
    chunks = [range(CHUNK * number, CHUNK * (number + 1)) for number in range(1, 20)]
    assert list(results) == [*map(sum, chunks), 20 * CHUNK]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", trajectory_file.KINDS)
def test_what_is_written_is_read_back(kind, rows, tmp_path):
    path = tmp_path / f"t{kind}"
    trajectory_file.write(path, [rows[:50], rows[50:]])
    assert list(trajectory_file.read(path)) == rows
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", trajectory_file.KINDS)
def test_the_datasets_library_loads_them(kind, rows, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    trajectory_file.write(tmp_path / f"t{kind}", [rows])
    loader = "parquet" if kind == ".parquet" else "json"
    found = datasets.load_dataset(
        loader, data_files=str(tmp_path / f"t{kind}"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert found.column_names == list(rows[0]) and len(found) == len(rows)
    assert found[7] == rows[7]


def test_files_from_before_there_were_reasons_are_read(rows, tmp_path):
    older = {name: value for name, value in rows[0].items() if name != "reasons"}
    (tmp_path / "t.jsonl").write_text(json.dumps(older) + "\n")
    assert list(trajectory_file.read(tmp_path / "t.jsonl")) == rows[:1]


def test_rows_are_written_as_they_come(rows, tmp_path):
    seen = []

    def batches():
        for _ in range(3):
            (part,) = tmp_path.glob(".*.tmp")
            seen.append(part.stat().st_size)
            yield rows * 20
        assert not (tmp_path / "t.jsonl").exists()

    trajectory_file.write(tmp_path / "t.jsonl", batches())
    assert seen[0] == 0 and seen[1] > 0 and seen[2] > seen[1]


def test_a_file_is_never_overwritten_and_a_broken_one_never_named(rows, tmp_path):
    path = tmp_path / "t.parquet"
    path.write_text("mine")
    batches = iter([rows])
    with pytest.raises(ValueError, match="not overwritten"):
        trajectory_file.write(path, batches)
    assert path.read_text() == "mine" and next(batches), "refused before anything is searched"

    def failing():
        yield rows
        raise RuntimeError("search failed")

    with pytest.raises(RuntimeError):
        trajectory_file.write(tmp_path / "u.parquet", failing())
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]
    with pytest.raises(ValueError, match="parquet"):
        trajectory_file.write(tmp_path / "t.csv", [rows])
    with pytest.raises(ValueError, match="no folder"):
        trajectory_file.write(tmp_path / "none" / "t.parquet", [rows])


def test_a_file_that_appears_meanwhile_is_not_overwritten(rows, tmp_path):
    def batches():
        (tmp_path / "t.jsonl").write_text("mine")
        yield rows

    with pytest.raises(ValueError, match="not overwritten"):
        trajectory_file.write(tmp_path / "t.jsonl", batches())
    assert (tmp_path / "t.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{}", "row 1"), ("nothing", "line 1: is not JSON"), ("[]", "row 1"), ("\xff", "line 1: is not UTF-8")],
)
def test_a_damaged_file_is_refused_with_its_place(text, message, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        list(trajectory_file.read(path))
    (tmp_path / "t.parquet").write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        list(trajectory_file.read(tmp_path / "t.parquet"))


@pytest.mark.parametrize("name", trajectory_file.SCHEMA.names)
def test_a_column_of_another_type_is_refused_by_name(name, rows, tmp_path):
    """A file may hold anything: a number where a list should be must not end in a traceback further on."""
    other = {"no": "such type"} if name != "messages" else 7
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (rows[0], {**rows[1], name: other})))
    with pytest.raises(trajectory_file.TrajectoryFileError, match=f"row 2: not a trajectory: {name} must be "):
        list(trajectory_file.read(tmp_path / "t.jsonl"))


def test_whole_numbers_of_expected_tests_are_read(rows, tmp_path):
    (tmp_path / "t.jsonl").write_text(json.dumps({**rows[0], "expected_tests": 2}) + "\n")
    assert next(trajectory_file.read(tmp_path / "t.jsonl"))["expected_tests"] == 2


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (OSError(5, "Input/output error"), "cannot be read: Input/output error"),
        (OSError("odd"), "cannot be read: odd"),
        (pa.ArrowInvalid("a page is cut"), "damaged: a page is cut"),
    ],
)
def test_why_a_file_cannot_be_read_on_is_told(cause, said, monkeypatch):
    def fail(path):
        raise cause

    monkeypatch.setattr(trajectory_file, "_rows", fail)
    with pytest.raises(trajectory_file.TrajectoryFileError) as refused:
        list(trajectory_file.read(Path("t.parquet")))
    assert str(refused.value) == f"t.parquet: {said}"


# --- verification ----------------------------------------------------------------------------------------------------


def test_every_trajectory_replayed_wins_at_the_optimum(rows):
    found = check(rows, processes=1)
    assert (found.trajectories, found.tasks, found.won, found.problems) == (60, 60, 60, [])
    assert found.tests == sum(len(row["actions"]) - 1 for row in rows)
    assert found.expected == pytest.approx(sum(row["expected_tests"] for row in rows))
    assert found.domains == {(PART, "easy"): 60}


@pytest.mark.parametrize(("name", "value"), [("seed", 7), ("index", 2**70), ("truths", ["x"]), ("tests", [])])
def test_what_a_row_says_of_its_task_is_what_the_task_says(rows, name, value):
    assert check([other(rows[0], **{name: value})], processes=1).problems == [
        f"row 1: {name} differ from those of its task"
    ]


@pytest.mark.parametrize("level", ["hard", "4x7", "x", "", "easy\x1b[2J"])
def test_a_level_is_that_of_the_task_or_its_size(rows, level):
    assert check([other(rows[0], level="4x6")], processes=1).problems == []
    [problem] = check([other(rows[0], level=level)], processes=1).problems
    assert problem == f"row 1: level is {level!r}, and the task has 4 truths and 6 tests"


def test_a_play_has_its_number(several):
    first, second = several
    assert check(several, processes=1).problems == []
    exchanged = [other(first, play=1), other(second, play=0), other(first, play=-1), other(first, play=10**9)]
    assert check(exchanged, processes=1).problems == [
        f"row {row}: is not the perfect play number {play} of its task"
        for row, play in ((1, 1), (2, 0), (3, -1), (4, 10**9))
    ]


@pytest.mark.parametrize("column", ["domain", "level"])
def test_a_verified_file_commands_no_terminal(rows, column, tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(other(rows[0], **{column: "\x1b[2Jx"})) + "\n")
    assert run("verify-trajectories", path) == 2
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err and "\\x1b[2Jx" in captured.out


def test_a_trajectory_that_occurs_twice_is_named_and_counts_as_no_other_task(rows, several):
    found = check([*several, rows[1]], processes=1)
    assert (found.trajectories, found.tasks, found.problems) == (3, 2, [])
    found = check([rows[0], rows[1], rows[0]], processes=1)
    assert (found.trajectories, found.tasks, found.problems) == (3, 2, ["row 3: is row 1 once more"])


def test_a_domain_that_no_file_can_name_is_a_problem_of_its_row(rows):
    odd = other(rows[0], domain="\ud800")
    found = check([odd, rows[1], odd], processes=1)
    assert (found.tasks, [problem[:5] for problem in found.problems]) == (2, ["row 1", "row 3"])


def test_tasks_are_told_apart_by_what_they_hold(monkeypatch):
    module = "evals.suites.kumo.lab.trajectories.check"
    monkeypatch.setattr(f"{module}.in_order", lambda function, items, processes: [function(list(items))])
    monkeypatch.setattr(f"{module}.check_row", lambda row: (True, ""))
    told = (
        "d easy 0 1 0",
        "d easy 0 1 1",
        "d easy 1 1 0",
        "d easy 1 2 0",
        "d hard 1 2 0",
        "d hard 1 2 1",
        "e hard 1 2 1",
    )
    names = ("domain", "level", "seed", "index", "play")
    rows = []
    for line in told:
        task, _play = line.rsplit(maxsplit=1)
        facts = {"task": task, "actions": ["a"], "expected_tests": 0.5}
        rows.append(dict(zip(names, line.split(), strict=True)) | facts)
    found = check(rows)
    assert (found.trajectories, found.tasks, found.won, found.tests, found.expected) == (7, 5, 7, 0, 3.5)
    assert found.domains == {("d", "easy"): 4, ("d", "hard"): 2, ("e", "hard"): 1}


@pytest.mark.slow
def test_plays_of_one_task_count_as_one_task():
    found = check(made(Recipe(TIED, plays=1000), 20), processes=1)
    assert found.tasks == 20 < found.trajectories == found.won and not found.problems


def other(row, **changes):
    return {**row, **changes}


def changed_message(row, place, text):
    messages = [*row["messages"]]
    messages[place] = {**messages[place], "content": text}
    return other(row, messages=messages)


# --- the commands ----------------------------------------------------------------------------------------------------


def run(*words):
    with pytest.raises(SystemExit) as end:
        main(["kumo", "lab", *map(str, words)])
    return end.value.code


def test_a_domain_by_its_name_and_by_its_file_is_one(tmp_path, capsys):
    file = tmp_path / "medical.yaml"
    file.write_bytes((DOMAINS / "medical.yaml").read_bytes())
    assert run("trajectories", tmp_path / "new.jsonl", "medical", file, "--count", "2") == 2
    assert "has the truths and tests of medical" in capsys.readouterr().err
    assert not (tmp_path / "new.jsonl").exists()
    [row] = next(trajectories(Recipe("medical", count=1), processes=1))
    found = check([row, other(row, domain=str(file))], processes=1)
    assert (found.tasks, found.problems) == (1, ["row 2: is row 1 once more"])


def test_former_names_of_commands_work_with_a_notice(capsys):
    with pytest.raises(SystemExit) as end:
        main(["kumo", "halves", "reptiles"])
    told = capsys.readouterr()
    assert end.value.code == 0 and "reptiles" in told.out
    assert told.err == "note: `raycade kumo halves` is called `raycade kumo lab split` now\n"
    with pytest.raises(SystemExit):
        main(["kumo", "--help"])
    listed = capsys.readouterr().out
    assert "import-transcripts" in listed and "lab" in listed
    assert not any(name in listed for name in ("halves", "replay-transcripts", "analyze ", "propose"))


def test_help_imports_no_suite():
    """So it is there at once: what takes a second to import is imported for the command that needs it."""
    code = (
        "import sys\nfrom cluster.cli import parser_for\nparser_for('kumo').format_help()\n"
        "heavy = {'numba', 'gymnasium', 'pyarrow', 'ray', 'envs.kumo', 'evals.suites.kumo'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_commands_say_sizes_seed_and_split(tmp_path, capsys):
    path = tmp_path / "t.parquet"
    assert run("trajectories", path, PART, "medical", "--count", 4, "--seed", 2, "--reserve", 9) == 0
    said = capsys.readouterr().out
    parts = [f"{len(domain_from(f'reptiles@{part}').truths)} truths" for part in ("in", "out")]
    for part in (*parts, "8 trajectories of 8 easy tasks", "seed 2", "numbers 9 to 12", "symbolic"):
        assert part in said
    assert [row["domain"] for row in trajectory_file.read(path)] == [PART] * 4 + ["medical"] * 4
    assert run("verify-trajectories", path) == 0
    assert "8 won (100.0%)" in capsys.readouterr().out
    assert run("trajectories", tmp_path / "t.jsonl", PART, "--format", "verl") == 2
    assert "written as .parquet" in capsys.readouterr().err
    assert run("trajectories", tmp_path / "trl.jsonl", PART, "--count", 2, "--reasons", "--format", "trl") == 0
    line = json.loads((tmp_path / "trl.jsonl").read_text().splitlines()[1])
    assert list(line) == ["messages"] and line["messages"][2]["content"].startswith("Still possible: ")
    assert run("trajectories", path, PART) == 2
    assert "not overwritten" in capsys.readouterr().err


@pytest.mark.slow
def test_means_are_over_trajectories(tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    assert run("trajectories", path, TIED, "--count", 20, "--plays", "all") == 0
    rows = list(trajectory_file.read(path))
    taken = sum(len(row["actions"]) - 1 for row in rows) / len(rows)
    expected = sum(row["expected_tests"] for row in rows) / len(rows)
    means = f"{taken:.2f} taken on average, {expected:.2f} expected"
    made = capsys.readouterr().out
    assert f"{len(rows)} trajectories of 20 easy tasks" in made and means in made and len(rows) > 20
    assert run("verify-trajectories", path) == 0
    verified = capsys.readouterr().out
    assert f"{len(rows)} trajectories of 20 tasks" in verified and means in verified


@pytest.mark.parametrize(("plays", "most"), [("1", 1), ("1000", 1000), ("all", 1000)])
def test_the_least_and_most_that_may_be_asked_for_are_taken(plays, most):
    asked = {"difficulty": "6x8", "book": "prose", "seed": 0, "reserve": 0, "count": 1, "reasons": True}
    given = argparse.Namespace(**asked, plays=plays)
    assert commands._recipe(given, PART) == Recipe(PART, "6x8", "prose", 0, 0, 1, most, True)


COMMANDS = [
    f"trajectories t.parquet {PART} knots {PART} --count 3 --seed 2 --reserve 9",
    "trajectories t.jsonl knots --count 2 --reasons --plays 2 --book prose --difficulty 5x7",
    "trajectories ties.jsonl knots --count 4 --plays all --reserve 0",
    "trajectories trl.jsonl reptiles@out --count 2 --reasons --format trl",
    f"trajectories v.jsonl {PART} --format verl",
    f"trajectories a.parquet {PART} --format axolotl",
    f"trajectories t.parquet {PART}",
    f"trajectories none/t.parquet {PART}",
    "trajectories t.csv knots",
    "trajectories u.jsonl nots",
    "trajectories u.jsonl medical@in",
    *(
        f"trajectories u.jsonl knots {wrong}"
        for wrong in (
            *("--difficulty medium", "--difficulty 20x30", "--difficulty 60x5", "--count 0", "--reserve -1"),
            *("--seed -1", "--plays 0", "--plays many", "--plays 1001", "--plays -1", "--plays ²"),
        )
    ),
    *(f"verify-trajectories {name}.jsonl" for name in ("t", "wrong", "ten", "empty", "none", "odd", "trl")),
    "verify-trajectories t.parquet",
    *("split reptiles medical", "split"),
]


def wrong_rows(row):
    """Each with another fault."""
    task = json.loads(row["task"])
    search = OptimalSearch(Task.from_json(task))
    truth = next(truth for truth in row["truths"] if truth != row["actions"][-1])
    bad = next(name for name in row["tests"] if name not in search.best_tests({}))
    told = [{**said, "content": said["content"] + "."} for said in row["messages"]]
    changes = [
        *({"actions": [*row["actions"][:-1], name]} for name in (truth, "Unicorn", bad)),
        *({"actions": actions} for actions in ([bad, *row["actions"]], row["actions"][-1:], [])),
        *({"expected_tests": row["expected_tests"] + more} for more in (1e-3, 1e-7)),
        *({"messages": told}, {"loss_mask": [1] * len(told)}, {"messages": told, "loss_mask": []}),
        *({"reasons": True}, {"book": "none"}, {"domain": "nothing"}, {"domain": "music"}, {"task": "{"}),
        *({"task": json.dumps({**task, "observations": {}})}, {"messages": told, "expected_tests": 9.0}),
    ]
    return [{**row, **change} for change in changes]


def test_the_commands_say_what_is_on_record(rows, tmp_path, monkeypatch, capsys):
    def at_once(function, items, processes=None):
        yield function(list(items))

    monkeypatch.setattr("evals.suites.kumo.lab.trajectories.plays.in_order", at_once)
    monkeypatch.setattr("evals.suites.kumo.lab.trajectories.check.in_order", at_once)
    monkeypatch.setattr(commands, "_SECONDS", -1)
    monkeypatch.setattr(commands, "available_domains", lambda: ("medical", "reptiles"))
    monkeypatch.chdir(tmp_path)
    row = next(row for row in rows if len(row["actions"]) == 3)
    wrong = wrong_rows(row)
    parts = [f"{won} {problem}" for won, problem in map(check_row, [row, *wrong])]
    trajectory_file.write(Path("wrong.jsonl"), [[row, *wrong[:13], rows[0], rows[0], rows[1]]])
    trajectory_file.write(Path("ten.jsonl"), [[row, *[wrong[0]] * 10]])
    Path("empty.jsonl").touch()
    Path("odd.jsonl").write_text(json.dumps({**row, "actions": None, "task": None}) + "\n")
    for line in COMMANDS:
        name, *words = line.split()
        parser = argparse.ArgumentParser()
        parser.set_defaults(kumo_command=name)
        commands.add_arguments(parser)
        code = commands.main(parser.parse_args(words))
        out, err = capsys.readouterr()
        parts += ["", f"$ raycade kumo lab {line}", f"{out}{err}exit code {code}"]
    for path in sorted(tmp_path.iterdir()):
        whole = path.suffix == ".parquet" or path.name in ("t.jsonl", "ties.jsonl", "wrong.jsonl")
        held = [json.dumps(each) for each in trajectory_file.read(path)] if whole else path.read_text().splitlines()
        parts += ["", f"# {path.name}: {len(held)} lines, {digest(chr(10).join(held))}"]
        if whole:
            fields = ("domain", "level", "seed", "index", "play", "book", "reasons", "actions")
            parts += [" ".join(str(json.loads(line)[name]) for name in fields) for line in held]
    check_golden("kumo_trajectories", "\n".join(parts))


# --- the evaluation matrix in one run --------------------------------------------------------------------------------


def test_splits_sizes_and_other_domains_are_played_in_one_run():
    suite = KumoSuite(
        domains=[PART, "reptiles@out", "medical"], difficulties=["easy", "6x8"], tasks_per_domain=2, repeats=1
    )
    plan = suite.plan()
    cells = {(episode.task, episode.level) for episode in plan}
    assert cells == {(name, level) for name in (PART, "reptiles@out", "medical") for level in ("easy", "6x8")}
    assert len({episode.id for episode in plan}) == len(plan) == 12
    whole = KumoSuite(domains=["reptiles"], difficulties=["easy"], tasks_per_domain=2, repeats=1).plan()
    assert not {episode.id for episode in plan} & {episode.id for episode in whole}
    assert {len(puzzle.task.truths) for puzzle in suite.puzzles()} == {4, 6}


@pytest.mark.parametrize("level", ["medium", "0x4", "6x", "6x8x2", "06x8", ""])
def test_what_is_no_level_is_refused(level):
    with pytest.raises(ValueError, match=r"suite\.difficulties"):
        KumoSuite(difficulties=[level]).plan()
