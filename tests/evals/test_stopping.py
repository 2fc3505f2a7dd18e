import math
import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evals.stats.anytime import confidence_sequence, difference_capital, difference_sequence
from evals.stopping.order import games_in_order, ranks
from evals.stopping.outcomes import CELLS_STOP, PAIR_COLUMNS, Outcomes
from evals.stopping.rules import StopRule, decide, looks, measure_precisely
from evals.types import stable_hash, stable_seed


def plan_of(cells, players=("model", "rival"), modes=("plain",), repeats=1):
    """A plan as stored: ``cells`` is a mapping of (task, level) to a number of games."""
    rows = [
        {
            "episode_id": stable_hash(player, task, level, mode, index, repeat),
            **{"suite": "toy", "task": task, "level": level, "mode": mode, "index": index, "repeat": repeat},
            **{"seed": stable_seed(task, level, index), "player": player},
        }
        for player in players
        for (task, level), games in cells.items()
        for index in range(games)
        for mode in modes
        for repeat in range(repeats)
    ]
    return pa.Table.from_pylist(rows)


def finished(plan, win, only=None):
    """Ledger rows of the plan's episodes, with what ``win(row)`` says of each."""
    rows = [row for row in plan.to_pylist() if only is None or row["episode_id"] in only]
    return pa.Table.from_pylist(
        [{"episode_id": row["episode_id"], "status": "done", "success": win(row)} for row in rows],
        schema=pa.schema([("episode_id", pa.string()), ("status", pa.string()), ("success", pa.bool_())]),
    )


def fair(row):
    return stable_seed("coin", row["player"], row["seed"], row["mode"], row["repeat"]) % 2 == 0


# --- the order -------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from([("a", "1"), ("a", "2"), ("b", "1"), ("c", "3")]), st.integers(1, 30), min_size=1)
)
def test_every_prefix_is_balanced_over_the_cells(cells):
    games = games_in_order(plan_of(cells))
    total, seen = sum(cells.values()), Counter()
    for count, game in enumerate(games, start=1):
        seen[game.stratum[1:]] += 1
        for cell, size in cells.items():
            assert abs(seen[cell] - count * size / total) <= 2 + len(cells)
    assert seen == cells
    equal = games_in_order(plan_of(dict.fromkeys(cells, 5)))
    for start in range(0, len(equal), len(cells)):  # rounds of one game of each
        assert {game.stratum[1:] for game in equal[start : start + len(cells)]} == cells.keys()


def test_the_order_is_the_same_for_all_players_and_keeps_pairs_together():
    cells = {("a", "1"): 4, ("b", "1"): 6}
    both = games_in_order(plan_of(cells, modes=("plain", "cot"), repeats=2))
    alone = games_in_order(plan_of(cells, players=("somebody",)))
    assert [game.key for game in both] == [game.key for game in alone]
    place = ranks(both)
    for game in both:
        assert len(game.episodes) == 8
        assert sorted(place[one] for one in game.episodes) == list(
            range(place[game.episodes[0]], place[game.episodes[0]] + 8)
        )
    assert sorted(place.values()) == list(range(80))


def test_the_order_does_not_follow_the_plan_and_does_not_depend_on_its_rows_order():
    plan = plan_of({("a", "1"): 50})
    shuffled = plan.take(random.Random(1).sample(range(len(plan)), len(plan)))
    keys = [game.key for game in games_in_order(plan)]
    assert keys == [game.key for game in games_in_order(shuffled)]
    assert keys != list(
        dict.fromkeys(zip(*(plan[name].to_pylist() for name in ("suite", "task", "seed")), strict=True))
    )


# --- rules over outcomes ---------------------------------------------------------------------------------------------

differences = st.lists(st.sampled_from([-1.0, -1.0, 0.0, 0.5, 1.0, 1.0, 1.0]), max_size=60)


@settings(max_examples=4, deadline=None)
@given(differences, st.sampled_from([None, 0.3, 0.7]), st.sampled_from([None, 10, 30]))
@example([0.0] * 12, None, 10)
@example([1.0] * 20, None, None)
@example([0.5, 1.0, 0.0] * 20, 0.3, None)
def test_a_decision_falls_at_the_first_look_whose_interval_shows_it(values, delta, most):
    """Against looking after every game at the interval itself."""
    expected, games = "maximum" if most is not None and len(values) >= most else "open", len(values[:most])
    for count in range(1, len(values[:most]) + 1):
        interval = difference_sequence(values[:count], 0.1)
        if interval.low > 0 or interval.high < 0:
            expected, games = ("first" if interval.low > 0 else "second"), count
            break
        if delta is not None and -delta < interval.low and interval.high < delta:
            expected, games = "tie", count
            break
    found = decide(values, 0.1, delta, most)
    assert (found.verdict, found.games) == (expected, games)
    if games:
        assert found.estimate == difference_sequence(values[:games], 0.1)
        assert found.e_value == difference_capital(values[:games]).e_value


@settings(max_examples=25, deadline=None)
@given(differences, st.sampled_from([None, 0.3]))
def test_exchanging_the_sides_exchanges_the_decision(values, delta):
    one, other = decide(values, 0.1, delta, None), decide([-each for each in values], 0.1, delta, None)
    assert other.verdict == {"first": "second", "second": "first"}.get(one.verdict, one.verdict)
    assert other.games == one.games


@pytest.mark.parametrize(("count", "precision"), [(60, 0.25), pytest.param(2000, 0.06, marks=pytest.mark.slow)])
def test_a_measure_is_precise_at_the_first_look_whose_interval_is_narrow(count, precision):
    generator = random.Random(3)
    values = [float(generator.random() < 0.8) for _ in range(count)]
    widths = {games: confidence_sequence(values[:games]) for games in looks(count)}
    first = min(games for games, each in widths.items() if each.high - each.low <= 2 * precision)
    before = max(games for games in widths if games < first)
    cases = [(count, None, "precise"), (count, first, "precise"), (count, before, "maximum"), (before, None, "open")]
    for games, most, verdict in cases:
        told = measure_precisely(values[:games], [1] * games, 1, 0.05, precision, most)
        at = first if verdict == "precise" else before
        assert (told.verdict, told.games, told.estimate) == (verdict, at, widths[at])


def test_looks_do_not_depend_on_how_far_a_run_is():
    assert looks(1000)[: len(looks(300))] == looks(300)
    assert looks(150)[:100] == list(range(1, 101))


# --- runs ------------------------------------------------------------------------------------------------------------

DECIDED = StopRule("decided", against="rival")


def won_by_model(row):
    return row["player"] == "model"


def test_a_run_is_decided_by_the_games_before_the_first_unfinished_one():
    plan = plan_of({("a", "1"): 40, ("b", "1"): 40})
    order = games_in_order(plan)
    hole = order[5].episodes[1]
    outcomes = Outcomes(DECIDED, plan, "model")
    outcomes.add(finished(plan, won_by_model, {one for game in order for one in game.episodes} - {hole}))
    state = outcomes.look()
    assert not state.ended
    assert state.groups[0].decision.games == 5
    assert outcomes.look().needed is state.needed  # nothing has changed, so a queue need not be looked through
    outcomes.add(finished(plan, won_by_model, {hole}))
    state = outcomes.look()
    assert state.ended and state.stopped
    decision = state.groups[0].decision
    assert decision.verdict == "first"
    assert decision == decide([1.0] * 80, 0.05, None, None)
    assert state.needed == {one for game in order[: decision.games] for one in game.episodes}
    assert state.lines()[0].startswith(
        f"stopped: decided after {decision.games} of 80 games: model is better than rival"
    )


@settings(max_examples=10, deadline=None)
@given(st.randoms())
def test_the_decision_depends_on_outcomes_not_on_their_arrival(generator):
    plan = plan_of({("a", "1"): 60, ("b", "1"): 30})

    def win(row):
        return row["player"] == "model" or fair(row)

    at_once = Outcomes(DECIDED, plan, "model")
    at_once.add(finished(plan, win))
    one_by_one = Outcomes(DECIDED, plan, "model")
    ids = plan["episode_id"].to_pylist()
    generator.shuffle(ids)
    states = []
    for start in range(0, len(ids), 20):
        one_by_one.add(finished(plan, win, set(ids[start : start + 20])))
        states.append(one_by_one.look())
    decision = at_once.look()
    assert states[-1] == decision
    first = next(state for state in states if state.ended)
    assert first == decision  # later games change nothing


def test_against_another_run_only_its_games_are_needed():
    plan = plan_of({("a", "1"): 30}, players=("model",))
    there = {tuple(row[name] for name in PAIR_COLUMNS): 0.0 for row in plan.to_pylist() if row["index"] < 20}
    outcomes = Outcomes(StopRule("decided", against="runs/other"), plan, "model", there)
    outcomes.add(finished(plan, lambda row: False))
    (group,) = outcomes.look().groups
    assert (group.planned, group.decision.games, group.ended) == (20, 20, True)
    decision, left_out = outcomes.look().lines()
    assert "not decided after 20 of 20 games" in decision
    assert left_out == (
        "10 more games of the plan have no counterpart at runs/other and are not played; stop=none plays them"
    )
    assert len(outcomes.look().needed) == 20


def test_against_another_run_both_sides_are_scaled_by_the_bounds():
    plan = plan_of({("a", "1"): 200}, players=("model",))
    there = {tuple(row[name] for name in PAIR_COLUMNS): 20.0 for row in plan.to_pylist()}
    rows = finished(plan, lambda row: True).append_column("steps", pa.array([30] * 200))
    rule = StopRule("decided", against="runs/other", measure="steps", bounds=(10, 50))
    outcomes = Outcomes(rule, plan, "model", there)
    outcomes.add(rows)
    (group,) = outcomes.look().groups
    assert group.decision.estimate.mean == pytest.approx(10)
    assert group.decision.e_value == decide([10 / 40] * 200, 0.05, None, None).e_value


def test_each_cell_stops_by_itself_and_shares_the_error():
    plan = plan_of({("easy", "1"): 300, ("even", "1"): 300}, players=("model",))
    rule = StopRule("precise", by="cell", precision=0.05)
    outcomes = Outcomes(rule, plan, "model")
    outcomes.add(finished(plan, lambda row: row["task"] == "easy" or fair(row)))
    easy, even = sorted(outcomes.look().groups, key=lambda group: group.name)
    assert easy.decision.verdict == "precise" and even.ended is not False
    assert easy.decision.games < even.decision.games == 300
    assert easy.decision.estimate == confidence_sequence([1.0] * easy.decision.games, 0.025)
    assert outcomes.look().stopped


def test_cells_that_stop_apart_say_that_joined_figures_are_none_of_the_plan():
    plan = plan_of({("a", "1"): 3, ("b", "1"): 3}, players=("model",))
    for by, told in (("run", False), ("cell", True), ("suite", False)):
        state = Outcomes(StopRule("precise", precision=0.1, by=by), plan, "model").look()
        assert (CELLS_STOP in state.lines()) == told and CELLS_STOP not in state.decisions()


@pytest.mark.parametrize(
    ("by", "names"), [("run", {""}), ("suite", {"toy"}), ("cell", {"toy a 1", "toy a 2", "toy b 1"})]
)
def test_what_decides_apart_is_the_run_each_suite_or_each_cell_and_mode(by, names):
    plan = plan_of({("a", "1"): 3, ("a", "2"): 3, ("b", "1"): 3}, players=("model",), modes=("plain", "cot"))
    found = {group.name for group in Outcomes(StopRule("precise", by=by, precision=0.1), plan, "model").look().groups}
    assert found == ({f"{name} {mode}" for name in names for mode in ("plain", "cot")} if by == "cell" else names)


def test_repeats_of_a_game_are_one_observation():
    plan = plan_of({("a", "1"): 100}, repeats=3)
    outcomes = Outcomes(DECIDED, plan, "model")
    outcomes.add(finished(plan, lambda row: row["player"] == "model" and row["repeat"] == 0))
    assert outcomes.look().groups[0].decision == decide([math.fsum([1.0]) / 3] * 100, 0.05, None, None)


def test_other_measures_are_scaled_by_their_bounds():
    plan = plan_of({("a", "1"): 50}, players=("model",))
    rows = finished(plan, lambda row: True).append_column("steps", pa.array([30] * 25 + [None] * 25))
    outcomes = Outcomes(
                        StopRule("precise", precision=0.9, measure="steps", bounds=(10, 50)), plan, "model")  # fmt: skip
    outcomes.add(rows)
    (group,) = outcomes.look().groups
    assert group.decision.estimate.mean == pytest.approx(30)
    assert 10 <= group.decision.estimate.low < 30 < group.decision.estimate.high <= 50
    assert group.decision.estimate.n == 25
    assert not any("beyond" in line for line in outcomes.look().lines())


def test_values_beyond_the_bounds_are_counted_where_the_decision_stands():
    plan = plan_of({("a", "1"): 50}, players=("model",))
    rows = finished(plan, lambda row: True).append_column(
        "steps", pa.array([9] * 30 + [10] * 10 + [51] * 5 + [None] * 5)
    )
    outcomes = Outcomes(StopRule("precise", precision=0.9, measure="steps", bounds=(10, 50)), plan, "model")
    outcomes.add(rows)
    assert outcomes.look().lines()[-1].startswith("warning: 35 values of steps lie beyond stop.bounds=[10, 50]")


def test_games_that_failed_are_lost_but_took_no_known_number_of_steps():
    plan = plan_of({("a", "1"): 50}, players=("model",))
    rows = finished(plan, lambda row: True)
    failed = {"status": pa.array(["failed"] * 50), "success": pa.nulls(50, pa.bool_()), "steps": pa.nulls(50)}
    rows = pa.table({"episode_id": rows["episode_id"], **failed})
    for measure, bounds, observations in (("success", (0, 1), 50), ("steps", (0, 9), 0)):
        outcomes = Outcomes(StopRule("precise", precision=0.01, measure=measure, bounds=bounds), plan, "model")
        outcomes.add(rows)
        (group,) = outcomes.look().groups
        assert (group.decision.games, group.decision.estimate.n) == (50, observations)


def steps_of(plan, steps):
    """Ledger rows: episodes of which ``steps(row)`` is None have failed."""
    rows = plan.to_pylist()
    values = [steps(row) for row in rows]
    status = ["failed" if value is None else "done" for value in values]
    ids = [row["episode_id"] for row in rows]
    return pa.table({"episode_id": ids, "status": status, "steps": pa.array(values, pa.int64())})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([(3, 5), (9, 1), (None, 4), (4, None), (None, None)]), min_size=1, max_size=60),
    st.booleans(),
)
def test_a_game_without_a_value_of_both_is_no_tie(games, with_repeats):
    """Of games that cannot be compared nothing is concluded, and none of them is waited for."""
    count = len(games)
    plan = plan_of({("a", "1"): count}, repeats=2 if with_repeats else 1)
    rule = StopRule("decided", against="rival", measure="steps", bounds=(0, 10), delta=5)
    outcomes = Outcomes(rule, plan, "model")
    place = {row["episode_id"]: (row["index"], row["player"] == "rival") for row in plan.to_pylist()}
    outcomes.add(steps_of(plan, lambda row: games[row["index"]][row["player"] == "rival"]))
    order = [place[game.episodes[0]][0] for game in games_in_order(plan)]
    differences = [(games[number][0] - games[number][1]) / 10 for number in order if None not in games[number]]
    found = outcomes.look()
    [group] = found.groups
    assert group.decision.games == decide(differences, 0.05, 0.5, None).games
    assert group.decision.verdict == decide(differences, 0.05, 0.5, None).verdict
    assert found.ended and (group.planned, group.left_out) == (len(differences), count - len(differences))
    [line] = found.lines()
    assert ("more without steps of both" in line) == (group.left_out > 0)
    # Needed is what the decision took, games that could not be compared among them included.
    if group.decision.open:
        assert found.needed == set(place)
    else:
        taken = [number for number in order if None not in games[number]][: group.decision.games]
        last = order.index(taken[-1])
        assert found.needed == {one for one, (number, _) in place.items() if number in order[: last + 1]}


def test_episodes_of_other_players_do_not_widen_the_interval():
    plan = plan_of({("a", "1"): 40})
    outcomes = Outcomes(StopRule("precise", precision=0.01), plan, "model")
    outcomes.add(finished(plan, won_by_model))
    assert outcomes.look().groups[0].decision.estimate == confidence_sequence([1.0] * 40)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kind": "later"}, "stop.kind=later"),
        ({"kind": "decided"}, "needs against"),
        ({"kind": "precise"}, "needs precision"),
        ({"kind": "precise", "precision": 2.0}, "precision=2.0"),
        ({"kind": "decided", "against": "x", "alpha": 0.0}, "alpha=0.0"),
        ({"kind": "decided", "against": "x", "most": 0}, "most=0"),
        ({"kind": "decided", "against": "x", "by": "task"}, "by=task"),
        ({"kind": "precise", "precision": 0.1, "bounds": [1, 1]}, "the first must be less"),
        ({"kind": "precise", "precision": 0.1, "sudden": True}, "unknown key sudden"),
        ({"kind": "precise", "precision": 0.1, "measure": "steps"}, r"steps: needs stop.bounds=\[LEAST,LARGEST\]"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(values, said):
    with pytest.raises(ValueError, match=said):
        StopRule.of_json(values)


def test_a_rule_is_read_as_it_was_written():
    rule = StopRule("decided", "suite", delta=0.03, most=900, measure="score", against="runs/a")
    assert StopRule.of_json(rule.to_json()) == rule
