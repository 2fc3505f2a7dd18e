"""Perfect play that is kept beside the code is perfect play, and is there for all that everyone plays."""

import contextlib
import dataclasses
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from envs.kumo import OptimalSearch, generate_tasks, load_domain
from envs.kumo.search import VERSION
from evals.suites.kumo import KumoSuite, optima, parallel, searching
from evals.suites.kumo import disk_cache as cache
from evals.suites.kumo.searched_game import puzzles_of
from evals.types import stable_hash


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path / "cache"))


DEFAULT_DOMAINS = ("medical", "chemical", "music", "education", "fantasy")


@pytest.mark.slow
def test_the_default_suite_is_known_so_that_no_run_waits_for_a_search():
    unknown = [p.task for p in KumoSuite().puzzles() if optima.game_key(p.task) not in optima.known_optima()]
    assert not unknown, f"{len(unknown)} tasks are new: run python -m evals.suites.kumo"


@pytest.mark.slow
@pytest.mark.parametrize("domain", DEFAULT_DOMAINS)
def test_what_is_known_is_what_the_search_finds(domain):
    hard = puzzles_of(domain, "hard", 50)
    sample = [hard[place] for place in random.Random(1).sample(range(50), 3)]
    for puzzle in (*puzzles_of(domain, "easy", 50)[::5], *sample):
        assert searching.optimal_play(puzzle.task) == OptimalSearch(puzzle.task).rollout()


def test_a_game_is_known_by_what_it_rules_out_and_shows_not_by_its_words():
    task = puzzles_of("medical", "easy", 50)[0].task
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


def test_an_outcome_that_is_none_of_its_test_s_is_known_as_that_whatever_it_is():
    task = puzzles_of("medical", "easy", 50)[0].task
    actions = (dataclasses.replace(task.actions[0], outcome="other"), *task.actions[1:])
    other, same = (
        dataclasses.replace(task, actions=actions, observations=(shown, *task.observations[1:])) for shown in ("?", "!")
    )
    assert optima.game_key(other) == optima.game_key(same) != optima.game_key(task)


def use_file(monkeypatch, path: Path) -> None:
    """Read what is known from another file, anew each time, so that nothing of it stays for other tests."""
    unkept = optima.known_optima.__wrapped__
    monkeypatch.setattr(optima, "OPTIMA", path)
    monkeypatch.setattr(optima, "known_optima", unkept)
    monkeypatch.setattr(searching, "known_optima", unkept)


def test_the_file_is_brought_up_to_date_without_searching_again(tmp_path, monkeypatch, capsys):
    use_file(monkeypatch, tmp_path / "optima.json")
    tasks = [puzzle.task for puzzle in puzzles_of("music", "easy", 50)[:3]]
    tasks.sort(key=optima.game_key, reverse=True)
    optima.update(tasks[:2], processes=1)
    optima.update(tasks[1:], processes=1)
    counts = [len(OptimalSearch(task).rollout()) for task in tasks]
    told = [
        f"{place}: music, {count} actions" for place, count in zip(("1 of 2", "2 of 2", "1 of 1"), counts, strict=True)
    ]
    assert capsys.readouterr().err.splitlines() == told
    assert list(optima.known_optima()) == sorted(optima.known_optima())
    assert set(optima.known_optima()) == {optima.game_key(task) for task in tasks[1:]}
    assert searching.optimal_play(tasks[2]) == OptimalSearch(tasks[2]).rollout()


def test_what_was_found_stays_where_a_later_search_fails(tmp_path, monkeypatch):
    use_file(monkeypatch, tmp_path / "optima.json")
    tasks = [puzzle.task for puzzle in puzzles_of("music", "easy", 50)[:2]]

    def found(function, given):
        yield function(given[0])
        raise MemoryError

    monkeypatch.setattr(optima, "process_pool", lambda processes: contextlib.nullcontext(SimpleNamespace(map=found)))
    with pytest.raises(MemoryError):
        optima.update(tasks)
    assert [*optima.known_optima()] == [optima.game_key(tasks[0])] and [*tmp_path.iterdir()] == [optima.OPTIMA]


def new_task(index=0):
    """A task that is not kept beside the code."""
    return generate_tasks(load_domain("music"), 5, 7, count=3, seed=77)[index]


def files(tmp_path):
    return sorted((tmp_path / "cache").rglob("*.json"))


def searches(monkeypatch):
    """The tasks that are searched from now on."""
    asked = []
    search = searching.OptimalSearch
    monkeypatch.setattr(searching, "OptimalSearch", lambda task: asked.append(task) or search(task))
    return asked


@pytest.mark.slow
def test_what_was_searched_once_is_not_searched_again(tmp_path, monkeypatch):
    task, asked = new_task(), searches(monkeypatch)
    first = searching.optimal_play(task)
    assert first == OptimalSearch(task).rollout()
    assert searching.optimal_play(task) == first and len(asked) == 1 and len(files(tmp_path)) == 1


def test_moves_off_the_path_are_kept_whatever_the_order_of_the_tests(tmp_path, monkeypatch):
    task, asked = new_task(), searches(monkeypatch)
    taken = task.action_names[-2:]
    observed = {name: task.observations[task.position(name)] for name in taken}
    assert searching.best_move(task, taken) == OptimalSearch(task).best(observed)
    assert searching.best_move(task, (*taken[::-1], *taken)) == searching.best_move(task, taken)
    assert len(asked) == 1
    searching.best_move(task, taken[:1])
    assert len(asked) == 2 and len(files(tmp_path)) == 2


def test_moves_off_the_path_are_those_of_the_game_not_of_its_number(tmp_path, monkeypatch):
    asked = []

    def search(task, taken, key):
        asked.append(key)
        return [0]

    monkeypatch.setattr(searching, "_recall_or_search", search)
    task = new_task()
    other = dataclasses.replace(new_task(1), index=task.index)
    same = dataclasses.replace(task, index=task.index + 1)
    for each in (task, other, same):
        searching.best_move(each, each.action_names[:1])
    assert asked[0] == asked[2] != asked[1]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"moves": [0]}', '{"moves": 3, "check": "0"}', "[" * 100_000])
def test_a_damaged_entry_is_searched_again_and_mended(tmp_path, monkeypatch, damage):
    task = new_task()
    moves = searching.optimal_play(task)
    (path,) = files(tmp_path)
    sound = path.read_text()
    path.write_text(damage)
    asked = searches(monkeypatch)
    assert searching.optimal_play(task) == moves and len(asked) == 1
    assert path.read_text() == sound


def test_an_entry_of_another_game_or_an_impossible_one_is_ignored(tmp_path, monkeypatch):
    one, two = new_task(0), new_task(1)
    moves = searching.optimal_play(one)
    searching.optimal_play(two)
    first, second = files(tmp_path)
    first.write_text(second.read_text())
    asked = searches(monkeypatch)
    searching.optimal_play(one), searching.optimal_play(two)
    assert len(asked) == 1
    last = one.truths.index(moves[-1]) + len(one.actions)
    for nonsense in ([999], [-1], [0, 0, last], [0, last, last], [last - 1, last]):
        cache.keep(optima.game_key(one), nonsense)
        assert searching.optimal_play(one) == moves
    assert len(asked) == 6


def test_an_impossible_next_move_is_searched_again_and_a_possible_one_is_not(monkeypatch):
    task = new_task()
    taken = task.action_names[-2:]
    move = searching.best_move(task, taken)
    names = (*task.action_names, *task.truths)
    asked = searches(monkeypatch)
    assert searching.best_move(task, taken) == move and not asked
    tests = [task.position(name) for name in taken]
    key = stable_hash(optima.game_key(task), tests)
    right, other = names.index(move), names.index(task.truths[0])
    for nonsense in ([tests[0]], [right, other], [right, right], [len(names)], [-1]):
        cache.keep(key, nonsense)
        assert searching.best_move(task, taken) == move, nonsense
    assert len(asked) == 5
    free = next(place for place in range(len(task.actions)) if place not in (*tests, right))
    cache.keep(key, [free])
    assert searching.best_move(task, taken) == names[free] and len(asked) == 5, "what is kept counts"


def test_at_most_as_many_searches_run_as_there_are_cores(monkeypatch):
    assert searching._cores._initial_value == (os.cpu_count() or 1)
    told = []

    @contextlib.contextmanager
    def core():
        told.append("a core")
        yield
        told.append("free")

    monkeypatch.setattr(searching, "_cores", core())
    monkeypatch.setattr(searching, "_recall_or_search", lambda *asked: told.append("search") or [0])
    searching.optimal_play(new_task())
    assert told == ["a core", "search", "free"]


@pytest.mark.parametrize("folder", ["a file", "\0"])
def test_a_cache_that_cannot_be_written_fails_nothing(tmp_path, monkeypatch, folder):
    (tmp_path / "a file").write_text("")
    if "\0" not in folder:
        monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path / folder))
    else:
        monkeypatch.setattr(cache, "cache_folder", lambda: None)
    task = new_task()
    assert searching.optimal_play(task) == OptimalSearch(task).rollout()


def test_the_cache_stands_where_the_user_says(tmp_path, monkeypatch):
    def folder():
        return str(cache.cache_folder()).replace(str(tmp_path), "HOME")

    name = f"kumo/search-{VERSION}"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert folder() == f"HOME/cache/{name}"
    monkeypatch.setenv("RAYCADE_CACHE", "")
    assert folder() == f"HOME/xdg/raycade/{name}"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert folder() == f"HOME/.cache/raycade/{name}"
    cache.keep("abc1", [4])
    assert (tmp_path / f".cache/raycade/{name}/ab/abc1.json").is_file() and cache.recall("abc1") == [4]

    def nobody():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    cache.keep("abc1", [5])
    assert cache.cache_folder() is None and cache.recall("abc1") is None


def test_an_entry_that_cannot_take_its_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "cache/kumo" / f"search-{VERSION}" / "ab" / "abc.json").mkdir(parents=True)
    cache.keep("abc", [1])
    assert cache.recall("abc") is None and [each.name for each in tmp_path.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize(("given", "processes"), [(2, 2), (None, 3)])
def test_long_streams_are_worked_on_by_the_hundred_in_order_and_few_ahead(monkeypatch, given, processes):
    taken, pools = [], []

    class Pool:
        def submit(self, function, chunk):
            future = Future()
            future.set_result(function(chunk))
            return future

    def pool(count):
        pools.append(count)
        return contextlib.nullcontext(Pool())

    monkeypatch.setattr(parallel, "process_pool", pool)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 3)
    items = (taken.append(number) or number for number in range(1_250))
    found = parallel.in_order(lambda chunk: chunk, items, given)
    first = next(found)
    assert (first, len(taken), pools) == ([*range(100)], 100 * (2 * processes + 1), [processes])
    rest = [*found]
    assert [*map(len, rest)] == [100] * 11 + [50] and sum(rest, first) == [*range(1_250)]
    assert list(parallel.in_order(len, iter(()), given)) == []


def test_the_oldest_entries_make_room(monkeypatch):
    assert cache.PER_FOLDER == 400, "of 256 folders"
    monkeypatch.setattr(cache, "PER_FOLDER", 3)
    keys = [f"ab{number}" for number in range(5)]
    for age, key in enumerate(keys):
        cache.keep(key, [age])
        if cache.recall(key):
            path = cache.cache_folder() / "ab" / f"{key}.json"
            os.utime(path, (age, age))
    assert [cache.recall(key) for key in keys] == [None, None, [2], [3], [4]]
    cache.keep("cd0", [7])
    assert cache.recall("ab2") == [2] and cache.recall("cd0") == [7]


@pytest.mark.slow
def test_many_writers_leave_whole_entries(tmp_path):
    script = (
        "import sys; from evals.suites.kumo import disk_cache as cache\n"
        "for turn in range(300):\n"
        "    cache.keep('abc', [int(sys.argv[1])] * 50)\n"
        "    assert cache.recall('abc') in ([1] * 50, [2] * 50), turn"
    )
    root = Path(__file__).resolve().parents[4]
    both = [subprocess.Popen([sys.executable, "-c", script, name], cwd=root) for name in "12"]
    assert [process.wait() for process in both] == [0, 0]
    assert not list((tmp_path / "cache").rglob("*.tmp"))


def test_threads_that_ask_the_same_share_one_search(monkeypatch):
    tasks, asked = [new_task(number % 3) for number in range(12)], searches(monkeypatch)
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(searching.optimal_play, tasks))
    assert found == [OptimalSearch(task).rollout() for task in tasks]
    assert len(asked) == 3


def test_a_search_that_fails_is_told_to_all_who_wait_and_tried_anew(monkeypatch):
    task, failing = new_task(), True

    def recall(*asked):
        time.sleep(0.05)
        if failing:
            raise MemoryError("too large")
        return [0]

    monkeypatch.setattr(searching, "_recall_or_search", recall)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(searching.optimal_play, task) for _ in range(4)]
    assert [str(each.exception()) for each in asked] == ["too large"] * 4
    failing = False
    assert searching.optimal_play(task) == task.action_names[:1]


def test_puzzles_are_searched_at_the_same_time_and_each_once(monkeypatch):
    both, searched = threading.Barrier(2, timeout=20), []

    def search(task):
        searched.append(task)
        both.wait()
        return ("a test", task.valid_truth)

    monkeypatch.setattr("evals.suites.kumo.searched_game.optimal_play", search)
    puzzles = puzzles_of("medical", "4x6", 2)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda puzzle: puzzle.optimal_play, puzzles))
    assert found == [puzzle.optimal_play for puzzle in puzzles] and len(searched) == 2


def test_a_search_runs_in_the_thread_that_asks_so_that_no_other_keeps_a_program_waiting(monkeypatch):
    threads = []
    monkeypatch.setattr(
        searching, "_recall_or_search", lambda *asked: threads.append(threading.current_thread()) or [0]
    )
    searching.optimal_play(new_task())
    assert threads == [threading.current_thread()]


def test_puzzles_of_any_size_seed_and_number_of_valid_truths():
    first = puzzles_of("medical", "7x9", 3, valid_truths=2)
    assert [(len(p.task.truths), len(p.task.actions), len(p.task.valid_truths)) for p in first] == [(7, 9, 2)] * 3
    assert all(p.optimal_play[-1] in p.task.valid_truths for p in first)
    assert [p.task for p in puzzles_of("medical", "7x9", 3, seed=1, valid_truths=2)] != [p.task for p in first]


def test_how_many_truths_are_valid_is_part_of_what_a_game_is_known_by():
    (puzzle,) = puzzles_of("medical", "7x9", 1, valid_truths=2)
    one = dataclasses.replace(puzzle.task, also_valid=())
    assert optima.game_key(one) != optima.game_key(puzzle.task)


def test_an_entry_under_another_key_is_not_recalled():
    cache.keep("ab1", [3, 5])
    assert cache.recall("ab1") == [3, 5]
    folder = cache.cache_folder() / "ab"
    (folder / "ab2.json").write_text((folder / "ab1.json").read_text())
    assert cache.recall("ab2") is None
    for number, moves in enumerate([[], [0.5], [True], ["3"]]):
        cache.keep(f"cd{number}", moves)
        assert (cache.cache_folder() / "cd" / f"cd{number}.json").is_file() and cache.recall(f"cd{number}") is None
