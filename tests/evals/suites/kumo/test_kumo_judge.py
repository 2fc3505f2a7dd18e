"""Error kinds, shortcuts and views of KUMO, against games small enough to work out by hand."""

import asyncio
import dataclasses
import itertools
import random

import pytest

from envs.kumo import Action, OptimalSearch, State, Task, exact
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.diagnose import diagnose_kumo
from evals.suites.kumo.judge import Errors, judge, situation, values_after
from evals.suites.kumo.searched_game import puzzles_of
from evals.suites.kumo.shortcuts import EXACT, odds_of, shortcuts_of
from evals.suites.kumo.show import game_text
from evals.types import PlayerError, Reply
from tests.envs.kumo_games import random_game

# Split rules out a and b, or c and d; each of the others only one truth. What shows is always the first outcome.
GAME = Task(
    "hand",
    ("a", "b", "c", "d"),
    (
        Action("split", "str", (State("s0", ("a", "b")), State("s1", ("c", "d")))),
        Action("only c", "str", (State("s0", ("c",)), State("s1", ()))),
        Action("only d", "str", (State("s0", ()), State("s1", ("d",)))),
        Action("nothing", "str", (State("s0", ()), State("s1", ()))),
    ),
    ("s0", "s0", "s0", "s0"),
    "d",
)


# The same tests, of which now two rule out nothing that is left: c and d are both valid.
TWO = dataclasses.replace(GAME, observations=("s0", "s1", "s0", "s0"), also_valid=("c",))


@pytest.mark.parametrize(
    ("taken", "named", "expected"),
    [
        (("split", "only c"), "d", Errors(0, 0, ending="certain")),
        (("split",), "d", Errors(0, 0, ending="early")),
        (("split",), "c", Errors(0, 0, ending="early")),
        (("split",), "a", Errors(0, 0, ending="excluded")),
        (("split", "only d"), "c", Errors(0, 0, ending="overlooked")),
        (("nothing", "split", "split", "only c"), "d", Errors(2, 0, ending="certain")),
        (("split", "only c", "only d", "nothing"), "d", Errors(0, 2, ending="certain")),
        ((), None, Errors()),
    ],
)
def test_errors_are_counted_by_what_was_known_before_each_move(taken, named, expected):
    found = judge(GAME, taken, named, search=False)
    assert (found.idle_tests, found.late_tests, found.ending) == (
        expected.idle_tests,
        expected.late_tests,
        expected.ending,
    )
    assert found.regret == (None,) * len(taken)


def test_regret_is_what_a_test_loses_against_the_best_one():
    values = values_after(GAME, ())
    assert set(values) == {"split", "only c", "only d"}
    best = min(values.values())
    assert best == pytest.approx(OptimalSearch(GAME).expected_steps)
    found = judge(GAME, ("nothing", "only c", "split", "only d", "only d"), "d", search=True)
    assert found.regret[0] == 1, "a test that can tell nothing loses its whole step"
    assert found.regret[1] == pytest.approx(values["only c"] - best)
    assert found.regret[3:] == (1, 1), "so do tests after the answer is certain"


def test_perfect_play_loses_nothing_and_values_of_a_rest_agree_with_the_search_of_the_whole():
    for puzzle in puzzles_of("medical", "easy", 6):
        play = puzzle.optimal_play
        found = judge(puzzle.task, play[:-1], play[-1], search=True)
        assert found == Errors(0, 0, (0,) * (len(play) - 1), "certain", len(play) - 1)
        whole = OptimalSearch(puzzle.task).action_values()
        assert values_after(puzzle.task, ()) == pytest.approx(
            {name: whole[name] for name in values_after(puzzle.task, ())}
        )


def test_with_several_valid_truths_all_that_are_left_are_certain():
    assert situation(TWO, ()).certain == situation(TWO, ("only c", "only d")).certain == ()
    assert situation(TWO, ("split",)).certain == ("c", "d")
    for named, ending in (("c", "certain"), ("d", "certain"), ("a", "excluded")):
        found = judge(TWO, ("split", "only c"), named, search=True)
        assert (found.late_tests, found.ending, found.regret) == (1, ending, (0, 1))
    assert judge(TWO, (), "c", search=False).ending == "early"


def test_with_several_valid_truths_values_of_a_rest_agree_with_the_search_of_the_whole():
    for taken in ((), ("only c",), ("only d", "only c")):
        whole = OptimalSearch(TWO)
        best = whole.best({name: TWO.observations[TWO.position(name)] for name in taken})
        values = values_after(TWO, taken)
        assert values[best] == pytest.approx(min(values.values()))
    assert values_after(TWO, ())["split"] == pytest.approx(OptimalSearch(TWO).expected_steps) == 1
    assert values_after(GAME, ())["split"] > 1


def test_by_the_guarantee_an_answer_may_be_certain_earlier():
    [task] = [puzzle.task for puzzle in puzzles_of("martial_arts", "6x8", 1, seed=7004)]
    first, second, named = OptimalSearch(task).rollout()
    stops = judge(task, (first,), named, search=True, guarantee=True)
    assert (stops.ending, stops.late_tests, stops.certain_after, stops.regret) == ("certain", 0, 1, (0.0,))
    goes_on = judge(task, (first, second), named, search=True, guarantee=True)
    assert (goes_on.ending, goes_on.late_tests, goes_on.certain_after, goes_on.regret) == ("certain", 1, 1, (0.0, 1.0))
    other = next(truth for truth in situation(task, (first,)).survivors if truth != named)
    assert judge(task, (first,), other, search=False, guarantee=True).ending == "overlooked"
    assert judge(task, (), named, search=False, guarantee=True).ending == "early"
    assert judge(task, (first,), named, search=False).ending == "early", "by the published search"


# --- shortcuts -------------------------------------------------------------------------------------------------------


def test_what_is_too_large_to_search_has_no_regret(monkeypatch):
    monkeypatch.setattr(exact, "values", lambda *_: None)
    assert judge(GAME, ["split", "nothing"], None, search=True, guarantee=True).regret[0] is None


@pytest.mark.parametrize("valid", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_odds_count_the_combinations_of_outcomes_that_leave_as_many_truths_as_are_valid(seed, valid):
    game = random_game(random.Random(seed), truths=4, actions=4, states=3) if seed else GAME
    others = [truth for truth in game.truths if truth != game.valid_truth]
    game = dataclasses.replace(game, also_valid=tuple(others[: valid - 1]))
    lonely, total = dict.fromkeys(game.truths, 0), 0
    for outcomes in itertools.product(*(action.states for action in game.actions)):
        left = [truth for truth in game.truths if not any(truth in state.rules_out for state in outcomes)]
        if len(left) == valid:
            total += 1
            lonely.update({truth: lonely[truth] + 1 for truth in left})
    assert total or seed == 2, "but for one game, there is such a combination"
    assert odds_of(game, ()) == {truth: count / max(1, total) for truth, count in lonely.items()}


def play_shortcut(name, task, seed="x"):
    taken = []
    while True:
        move = shortcuts_of(task, taken, seed)[name]()
        if move in task.truths:
            return taken, move
        taken.append(move)


def test_shortcuts_do_what_they_say():
    assert play_shortcut("names_at_once", GAME)[0] == []
    assert play_shortcut("one_test", GAME)[0] == ["split"]
    assert play_shortcut("greedy", GAME) == (["split", "only c"], "d")
    walks = {tuple(play_shortcut("random_tests", GAME, str(seed))[0]) for seed in range(30)}
    assert len(walks) > 3 and all(len(set(walk)) == len(walk) for walk in walks)
    assert {play_shortcut("random_tests", GAME, str(seed))[1] for seed in range(30)} == {"d"}


# --- diagnostics -----------------------------------------------------------------------------------------------------


def test_exact_play_is_a_player_and_stands_in_the_ledger_the_table_and_the_view():
    suite = KumoSuite(domains=["martial_arts"], difficulties=["6x8", "hard"], seed=7004, tasks_per_domain=2, repeats=1)
    plan = plan_for(suite, {EXACT: "", "oracle": ""})
    assert {(episode.player, episode.level) for episode in plan if episode.player == EXACT} == {(EXACT, "6x8")}
    plan = [episode for episode in plan if episode.level == "6x8"]
    players = built_in_players(suite)
    records = [asyncio.run(play_episode(suite, episode, players[episode.player])) for episode in plan]
    ledger = records_to_table(records, ledger_columns(suite))
    run = RunData.of_tables(plan_to_table(plan), ledger).of("kumo")
    table = diagnose_kumo(run.plan, run.episodes())[2]
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert (rows[EXACT]["regret"].mean, rows[EXACT]["late tests"].mean, rows[EXACT]["certain"].mean) == (0, 0, 1)
    assert rows["oracle"]["late tests"].mean == 0.5, "one test too many in the first of the two games"
    row = ledger.to_pylist()[[record.episode.player for record in records].index("oracle")]
    steps = suite.view({name.removeprefix("kumo."): value for name, value in row.items()}).steps
    assert steps[1].facts["follows from the guarantee"] == row["kumo.predicted"]
    worth = steps[0].facts["expected steps by the guarantee"]
    assert min(worth.values()) == pytest.approx(
        min(exact.values(suite.puzzle("martial_arts", "6x8", 0).task, ()).values()), abs=1e-3
    )
    assert "here 1 (" in "".join(map(str, game_text(suite.puzzle("martial_arts", "6x8", 0), "own", "table", 50, 1)))


SUITE = KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=4, repeats=1)


# --- the view --------------------------------------------------------------------------------------------------------


class Following:
    """Replies with given names in turn."""

    def __init__(self, *names):
        self.names = list(names)

    async def reply(self, turn):
        if not self.names:
            raise PlayerError("no more names")
        return Reply(f"<ANSWER> {self.names.pop(0)} </ANSWER>")


def test_a_view_says_which_step_first_needed_a_rule():
    episode = SUITE.plan()[0]
    test, other = SUITE.puzzle("medical", "easy", episode.index).task.action_names[:2]
    record = asyncio.run(play_episode(SUITE, episode, Following(test, other, test)))
    row = records_to_table([record], ledger_columns(SUITE)).to_pylist()[0]
    view = SUITE.view({name.removeprefix("kumo."): value for name, value in row.items()})
    used = {rule.test: rule.used for rule in view.book if rule.used is not None}
    assert used == {test: 0, other: 1}


def test_a_view_shows_what_remains_after_each_step_and_what_perfect_play_would_do():
    episode = SUITE.plan()[0]
    puzzle = puzzles_of("medical", "easy", 4)[0]
    test, truth = puzzle.task.action_names[0], puzzle.task.valid_truth
    record = asyncio.run(play_episode(SUITE, episode, Following(test, "gibberish", truth)))
    row = records_to_table([record], ledger_columns(SUITE)).to_pylist()[0]
    row = {name.removeprefix("kumo."): value for name, value in row.items()}
    view = SUITE.view(row)
    first, unread, last = view.steps
    state = puzzle.task.actions[0].state_of(puzzle.task.observations[0])
    assert first.best == puzzle.optimal_play[0]
    assert first.facts["outcome"] == puzzle.task.observation_text(test) and first.facts["rules out"] == list(
        state.rules_out
    )
    assert view.candidates == puzzle.task.truths
    assert first.remaining == tuple(name for name in view.candidates if name not in state.rules_out)
    worth = first.facts["expected steps"]
    assert view.regret_unit == "expected steps"
    assert first.regret == pytest.approx(worth[test] - min(worth.values()), abs=1e-3)
    used = [rule for rule in view.book if rule.used is not None]
    assert [(rule.test, rule.outcome, rule.rules_out, rule.used) for rule in used] == [
        (test, state.text, state.rules_out, 0)
    ]
    assert len(view.book) == sum(len(action.states) for action in puzzle.task.actions)
    assert min(first.facts["expected steps"].values()) == pytest.approx(
        OptimalSearch(puzzle.task).expected_steps, abs=1e-3
    )
    assert unread.remaining is None and unread.regret is None and last.facts["named"] == "right"
    assert view.facts["right one"] == truth and view.facts["perfect play"] == list(puzzle.optimal_play)
    assert view.facts["ending"] == row["ending"]


def test_hard_games_are_viewed_without_a_search_and_judged_with_one_only_on_request(monkeypatch):
    suite = KumoSuite(domains=["medical"], difficulties=["hard"], tasks_per_domain=1, repeats=1)
    puzzle = puzzles_of("medical", "hard", 1)[0]
    moves = puzzle.optimal_play
    record = asyncio.run(play_episode(suite, suite.plan()[0], Following(*moves)))
    assert record.outcome.extra["regret"] == [None] * (len(moves) - 1)
    row = records_to_table([record], ledger_columns(suite)).to_pylist()[0]
    view = suite.view({name.removeprefix("kumo."): value for name, value in row.items()})
    assert [step.best for step in view.steps] == list(moves)
    assert [step.regret for step in view.steps] == [0] * len(moves)
    strayed = {**row, "kumo.regret": [0.25, *row["kumo.regret"][1:]], "turns": row["turns"][1:]}
    view = suite.view({name.removeprefix("kumo."): value for name, value in strayed.items()})
    assert (
        view.steps[0].best == moves[0] and view.steps[0].regret == 0.25
    )  # another test than perfect play's: as stored
    assert not any("expected steps" in step.facts for step in view.steps)
    other = dataclasses.replace(suite, seed=9)
    monkeypatch.setattr("evals.suites.kumo.searched_game.optimal_play", lambda task: pytest.fail("searched"))
    step = other.view({name.removeprefix("kumo."): value for name, value in row.items()}).steps[0]
    assert (step.best, step.regret) == (None, None), "what is not on record"
    monkeypatch.undo()
    searching = KumoSuite(domains=["medical"], difficulties=["hard"], tasks_per_domain=1, repeats=1, hard_regret=True)
    record = asyncio.run(play_episode(searching, searching.plan()[0], Following(*moves)))
    assert record.outcome.extra["regret"] == [0] * (len(moves) - 1)
