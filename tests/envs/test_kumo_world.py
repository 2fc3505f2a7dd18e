"""Games that agree with the real world, ignore or contradict it: the same but for what their tests show."""

import asyncio
import contextlib
import dataclasses
import itertools

import pytest

from benchmarks.kumo_world import cells
from envs.kumo import GenerationError, OptimalSearch, Task, available_domains, generate_tasks, load_domain
from envs.kumo import world as world_module
from envs.kumo.domain import Action, State
from envs.kumo.domain_file import domains_with_table, parse_domain
from envs.kumo.world import WORLDS, generate_world_tasks, share_false, true_states
from evals.conversation import Conversation
from evals.players import ShortcutPlayer
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.memory import MEMORY, memory_move
from evals.suites.kumo.play import play_puzzle
from tests.envs.kumo_games import toy_yaml
from tests.golden import check_golden, digest, plain

RIVERS = KumoSuite(domains=["rivers"], difficulties=["easy"], tasks_per_domain=6, repeats=1, world="agree")


def toy(**true_of):
    data = toy_yaml()
    data["truths"]["Apple"] = {"definition": data["truths"]["Apple"], "hue": ["r", "y"], "mass": "60 to 120"}
    data["truths"]["Banana"] = {"definition": data["truths"]["Banana"], "hue": "y", "mass": "110"}
    data["truths"]["Cherry"] = {"definition": data["truths"]["Cherry"], "hue": "r"}
    data["actions"]["Color"] |= {"observes": "hue"}
    for test, table in true_of.items():
        data["actions"][test]["true_of"] = table
    return parse_domain(data, "toy")


def told(suite):
    return suite.puzzle(*(getattr(suite.plan()[0], key) for key in ("task", "level", "index"))).opening("prose", 50)


# --- the table -------------------------------------------------------------------------------------------------------


def test_outcomes_are_true_of_named_truths_of_values_and_of_numbers():
    table = toy(Color={"red": ["r"], "yellow": ["y"]}, Weight="mass").true_of
    assert table["Color"] == ({"Apple", "Cherry"}, {"Apple", "Banana"})
    assert table["Weight"] == (set(), {"Apple"}, {"Apple", "Banana"})


@pytest.mark.slow
def test_domains_with_a_table_are_known_by_name():
    some = (*available_domains()[::9], *domains_with_table())
    assert all((name in domains_with_table()) == bool(load_domain(name).true_of) for name in some)


# --- games -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("size", [(4, 6), (12, 16)], ids=str)
def test_versions_differ_only_in_what_tests_show(size):
    domain = load_domain("rivers")
    versions = {world: generate_world_tasks(domain, world, *size, 4) for world in WORLDS}
    for games in zip(*versions.values(), strict=True):
        assert len({dataclasses.replace(game, observations=()) for game in games}) == 1
        assert len(set(games[0].action_names)) == size[1] and len(set(games[0].truths)) == size[0]
        for game in games:
            assert game.survivors(game.shown(game.action_names)) == (game.valid_truth,)
        if size == (4, 6):
            assert len({len(OptimalSearch(game).rollout()) for game in games}) == 1
    assert share_false(domain, versions["agree"]) == 0
    assert share_false(domain, versions["contradict"]) >= 2 / 3
    assert len({game.truths for game in versions["agree"]}) == 4, "no game stands twice"


def test_the_share_of_false_outcomes_counts_those_alone_of_which_the_table_knows():
    domain = load_domain("rivers")
    games = generate_tasks(domain, count=6)  # not drawn by the table
    true, unknown = [], 0
    for game in games:
        for action, shown in zip(game.actions, game.observations, strict=True):
            stated = domain.true_of.get(action.name, ())
            fitting = [
                state for state, truths in zip(action.states, stated, strict=False) if game.valid_truth in truths
            ]
            unknown += not fitting
            true += [action.state_of(shown) in fitting] if fitting else []
    assert unknown and share_false(domain, games) == pytest.approx(true.count(False) / len(true))
    assert share_false(dataclasses.replace(domain, true_of={}), games) is None


@pytest.mark.slow
def test_tests_that_contradict_nothing_are_a_third_at_most():
    domain = load_domain("historical_battles")
    for game in generate_world_tasks(domain, "contradict", count=10):
        shown = [
            action.states.index(action.state_of(game.observations[place])) for place, action in enumerate(game.actions)
        ]
        true = [true_states(domain, game.valid_truth, action) for action in game.actions]
        assert all(true) and sum(place in each for place, each in zip(shown, true, strict=True)) <= 2
        for place, action, each in zip(shown, game.actions, true, strict=True):
            left = {n for n, state in enumerate(action.states) if game.valid_truth not in state.rules_out}
            assert place not in each or left <= each, "false wherever the rules allow it"


def test_a_longer_list_begins_with_the_shorter_one_and_another_seed_gives_others():
    domain = load_domain("rivers")
    games = generate_world_tasks(domain, "ignore", count=3)
    assert generate_world_tasks(domain, "ignore", count=2) == games[:2]
    assert generate_world_tasks(domain, "ignore", count=1, seed=1) != games[:1]


@pytest.mark.slow
def test_the_book_does_not_tell_the_right_answer_at_once():
    suite = dataclasses.replace(RIVERS, tasks_per_domain=40)
    games = zip(suite.plan(), suite.puzzles(), strict=True)
    player = ShortcutPlayer("names_at_once")
    won = [asyncio.run(play_puzzle(puzzle, Conversation(game, player), regret=False)).success for game, puzzle in games]
    assert 4 <= sum(won) <= 16, "a quarter, as by chance"


@pytest.mark.slow
@pytest.mark.parametrize("likeliest", [False, True])
def test_where_likely_answers_abound_they_are_still_right_by_chance_at_most(likeliest, monkeypatch):
    monkeypatch.setattr(world_module, "_is_likeliest", lambda game: likeliest)
    monkeypatch.setattr(world_module, "ATTEMPTS", 20)
    made = 0
    for seed in range(16):
        with contextlib.suppress(GenerationError):
            made += len(generate_world_tasks(load_domain("rivers"), "agree", count=1, seed=seed))
    assert made < 16 / 2 if likeliest else made == 16


def games_of(drawn, world, indices):
    """Those that a few tries find."""
    found = []
    for index in indices:
        with contextlib.suppress(GenerationError):
            found.append(drawn.task(world, index, 5))
    return found


def test_games_of_all_sizes_are_sound_and_as_on_record(monkeypatch):
    """None stands twice."""
    monkeypatch.setattr(world_module, "ATTEMPTS", 12)
    parts = []
    for name, truths, actions, give_aways, count in (
        ("chemical_elements", 2, 1, True, 5),
        ("chemical_elements", 2, 1, False, 5),
        ("historical_battles", 9, 8, False, 2),
        ("historical_battles", 3, 4, False, 2),
        ("historical_battles", 14, 14, False, 1),
    ):
        domain = load_domain(name)
        parts.append(f"# {name} {truths} {actions} {give_aways}")
        for world in WORLDS:
            games = games_of(world_module._Games(domain, truths, actions, give_aways), world, (*range(count), 1))
            assert all(game.survivors(game.shown(game.action_names)) == (game.valid_truth,) for game in games)
            assert all((len(game.truths), len(game.actions)) == (truths, actions) for game in games)
            assert len({(frozenset(game.truths), frozenset(game.action_names)) for game in games}) == len(games)
            parts.append(
                f"{world}: {plain(share_false(domain, games))} {[game.index for game in games]} {digest(repr(games))}"
            )
    monkeypatch.setattr(world_module, "_is_likeliest", lambda game: False)
    for attempts in (4, 5):
        monkeypatch.setattr(world_module, "ATTEMPTS", attempts)
        games = games_of(world_module._Games(domain, 3, 4, False), "agree", range(5))
        parts.append(
            f"asked for the likeliest {attempts} times: {[game.index for game in games]} {digest(repr(games))}"
        )
    check_golden("kumo_world_sizes", "\n".join(parts))


def test_the_likeliest_answer_is_the_one_of_most_worlds():
    actions = (
        Action("one", "str", (State("x", ("A", "B")), State("y", ("C",)), State("z", ("A",)))),
        Action("two", "str", (State("x", ("B",)), State("y", ("A", "C")))),
    )
    odds = dict.fromkeys("ABC", 0)
    for first, second in itertools.product(actions[0].states, actions[1].states):
        left = set(odds) - {*first.rules_out, *second.rules_out}
        for truth in left if len(left) == 1 else ():
            odds[truth] += 1
    assert odds == {"A": 1, "B": 2, "C": 2}, "of equals the first"
    found = [world_module._is_likeliest(Task("toy", (*"ABC",), actions, (), truth)) for truth in odds]
    assert found == [False, True, False]


def test_a_table_may_be_just_large_enough():
    domain = load_domain("chemical_elements")
    assert len(world_module._Games(domain, 16, 16, False).right) == 16
    with pytest.raises(GenerationError, match="too small for games of 17 truths and 16 tests"):
        world_module._Games(domain, 17, 16, False)


def test_a_table_that_is_too_small_is_told():
    with pytest.raises(GenerationError, match=r"'toy': its table .* too small for games of 2 truths and 2 tests"):
        generate_world_tasks(toy(Weight="mass"), "agree", 2, 2)


# --- the player that knows the world and not the book ----------------------------------------------------------------


@pytest.mark.slow
def test_memory_wins_where_the_world_is_shown_and_loses_where_it_is_contradicted():
    won = {}
    for world in WORLDS:
        suite = dataclasses.replace(RIVERS, world=world, tasks_per_domain=12)
        games = zip(suite.plan(), suite.puzzles(), strict=True)
        player = suite.players[MEMORY]
        outcomes = [
            asyncio.run(play_puzzle(puzzle, Conversation(game, player), regret=False)) for game, puzzle in games
        ]
        won[world] = sum(outcome.success for outcome in outcomes)
    assert won["agree"] >= 11 and won["contradict"] <= 3, "of twelve"


def test_memory_names_what_fits_best_and_takes_the_test_that_parts_best():
    domain = toy(Color={"red": ["r"], "yellow": ["y"]})
    game = Task("toy", ("Cherry", "Banana", "Apple"), domain.actions, ("yellow", 60.0), "Apple")
    assert memory_move(domain, game, ()) == "Color", "the table says nothing of weights"
    assert memory_move(domain, game, ("Color",)) == "Banana", "nothing known parts it from the apple"
    alone = dataclasses.replace(game, truths=("Cherry",))
    assert memory_move(domain, alone, ("Color",)) == "Cherry", "of nothing else less was false"


def test_a_test_that_was_taken_again_tells_memory_nothing_more():
    domain = load_domain("rivers")
    games = generate_world_tasks(domain, "contradict", count=3)
    for game in games:
        for taken in itertools.permutations(game.action_names, 2):
            again = memory_move(domain, game, (*taken, *taken[1:], *taken[1:]))
            assert again == memory_move(domain, game, taken) == memory_move(domain, game, taken[::-1])


def test_games_of_worlds_and_what_memory_makes_of_them_are_as_on_record():
    domain, parts = load_domain("rivers"), []
    for world in WORLDS:
        games = generate_world_tasks(domain, world, count=2)
        parts += [
            f"# {world}: {share_false(domain, games):.6f} {digest(str(told(dataclasses.replace(RIVERS, world=world))))}"
        ]
        for game in games:
            parts.append(f"{game.index} {game.seed} {', '.join(game.truths)}: {game.valid_truth}")
            for place, action in enumerate(game.actions):
                shown = action.states.index(action.state_of(game.observations[place]))
                true = [sorted(true_states(domain, truth, action)) for truth in game.truths]
                taken = game.action_names[:place]
                parts.append(
                    f"    after {place}: {memory_move(domain, game, taken)}; {action.name} shows {shown}; {true}"
                )
            taken = []
            while (move := memory_move(domain, game, taken)) not in game.truths:
                taken.append(move)
            parts.append(f"    memory: {taken} {move}; after all: {memory_move(domain, game, game.action_names)}")
    check_golden("kumo_world", "\n".join(parts))


def test_memory_plays_only_where_there_is_a_table():
    plain = KumoSuite(domains=["medical", "rivers"], difficulties=["easy"], tasks_per_domain=1, repeats=1)
    assert [episode.task for episode in plain.plan() if plain.plays(MEMORY, episode)] == ["rivers"]


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_prompt_says_how_outcomes_relate_to_the_world():
    said = {world: str(told(dataclasses.replace(RIVERS, world=world))[0].parts) for world in WORLDS}
    assert "what the surveys show is what they would show in the real world" in said["agree"]
    assert said["ignore"] == said["contradict"] and "need not be what they would show" in said["ignore"]
    untold = {str(told(dataclasses.replace(RIVERS, world=world, tell_world=False))[0].parts) for world in WORLDS}
    assert len(untold) == 1 and "real world" not in untold.pop()


@pytest.mark.slow
def test_versions_are_other_episodes_with_the_same_seeds():
    suites = [dataclasses.replace(RIVERS, truths=3, actions=2, world=world, tell_world=False) for world in WORLDS]
    plans = [suite.plan() for suite in suites]
    assert len({episode.fingerprint for plan in plans for episode in plan}) == 18
    assert len({tuple(episode.seed for episode in plan) for plan in plans}) == 1
    assert len({puzzle.task for suite in suites for puzzle in suite.puzzles()}) < 18, "even where they show the same"


def test_more_tests_show_numbers_when_asked_for():
    domain = load_domain("medical")

    def shares(numeric):
        tasks = generate_tasks(domain, count=40, numeric=numeric)
        assert all(task.survivors(task.shown(task.action_names)) == (task.valid_truth,) for task in tasks)
        return sum(action.outcome == "float" for task in tasks for action in task.actions) / 240

    assert shares(0) < shares(0.25) < shares(1)
    assert shares(0.5) == pytest.approx(0.5, abs=0.1)


def test_cells_to_be_checked_say_what_is_true():
    assert all(" | " in cell and "[x]" in cell for cell in cells(5))
