"""KUMO with likelihoods: the search against all policies, books as promised, points and probabilities as they should be."""

import asyncio
import contextlib
import dataclasses
import itertools
import math
import re
from fractions import Fraction
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.kumo import GenerationError
from envs.kumo.likely import ENOUGH, BayesSearch, LikelyTask, LikelyTest, certainties, stream_likely
from envs.kumo.likely.search import entries
from evals.conversation import Conversation, Record
from evals.ledger.records import records_to_table
from evals.players import OraclePlayer, RandomPlayer, ShortcutPlayer
from evals.suite import ledger_columns
from evals.suites.kumo.likely import KumoLikelySuite
from evals.suites.kumo.likely.chances import read_chances, state_chances, without_chances
from evals.suites.kumo.likely.play import play_likely
from evals.suites.kumo.likely.prompts import book
from evals.suites.kumo.likely.view import view_likely
from evals.suites.kumo.searched_game import domain_of
from evals.testing import check_suite
from evals.types import Episode, Reply
from tests.envs.kumo_games import made_domain
from tests.golden import check_golden, digest, plain

TRUTHS = ("Fever", "Yellow Fever", "Gout")
ROWS = st.integers(1, 9).map(lambda first: (first, 10 - first))


@st.composite
def tiny_tasks(draw, tests=2):
    made = tuple(
        LikelyTest(f"Test {number}", ("high", "low"), tuple(draw(ROWS) for _ in TRUTHS)) for number in range(tests)
    )
    return LikelyTask("toy", TRUTHS, made, (0,) * tests, TRUTHS[0])


def worlds(task):
    """Each right truth with all that the tests may show, and its probability."""
    for right, shown in itertools.product(range(len(task.truths)), itertools.product((0, 1), repeat=len(task.tests))):
        chance = Fraction(1, len(task.truths))
        for test, outcome in zip(task.tests, shown, strict=True):
            chance *= Fraction(test.cases[right][outcome], 10)
        yield LikelyTask(task.domain, task.truths, task.tests, shown, task.truths[right]), chance


def policies(tests, truths):
    """Every way to play: a truth, or a test with a way to go on for each of its outcomes."""
    yield from truths
    for test in tests:
        rest = [other for other in tests if other != test]
        for high, low in itertools.product(list(policies(rest, truths)), repeat=2):
            yield test, high, low


def cost_of(policy, world, wrong):
    cost = 0
    while isinstance(policy, tuple):
        cost, policy = cost + 1, policy[1 + world.shown[policy[0]]]
    return cost + wrong * (world.truths[policy] != world.right)


@settings(max_examples=12, deadline=None)
@given(task=tiny_tasks(), wrong=st.sampled_from([1, 3, 10, 20]))
def test_the_search_costs_what_the_best_of_all_policies_costs(task, wrong):
    chances = list(worlds(task))
    ways = policies(range(2), range(3))
    best = min(sum(chance * cost_of(way, world, wrong) for world, chance in chances) for way in ways)
    assert BayesSearch(task, wrong).expected_cost == pytest.approx(float(best))


@settings(max_examples=30, deadline=None)
@given(task=tiny_tasks(), taken=st.lists(st.integers(0, 1), max_size=4))
def test_truths_are_as_likely_as_bayes_says_however_often_a_test_is_taken(task, taken):
    weights = [math.prod(task.tests[test].cases[truth][0] for test in set(taken)) for truth in range(len(TRUTHS))]
    expected = {truth: weight / sum(weights) for truth, weight in zip(TRUTHS, weights, strict=True)}
    assert task.posterior(f"Test {test}" for test in taken) == pytest.approx(expected)


def test_play_is_perfect_however_much_a_wrong_answer_costs():
    task = next(stream_likely(domain_of("medical"), 4, 6))
    assert BayesSearch(task, 1e300).best(()) in task.test_names


def test_of_equals_perfect_play_names_a_truth_and_else_goes_by_the_task_s_order():
    made = tuple(LikelyTest(name, ("high", "low"), ((10, 0), (0, 10))) for name in ("Test 1", "Test 0"))
    task = LikelyTask("toy", TRUTHS[:2], made, (0, 0), "Fever")
    assert [BayesSearch(task, wrong).best(()) for wrong in (2.0, 2.1)] == ["Fever", "Test 1"]


def test_the_search_takes_games_up_to_its_size(monkeypatch):
    made = tuple(LikelyTest(f"Test {number}", ("high", "low"), ((9, 1), (1, 9), (5, 5))) for number in (1, 2))
    task = LikelyTask("toy", TRUTHS, made, (0, 0), "Fever")
    monkeypatch.setattr("envs.kumo.likely.search.MOST_ENTRIES", 27)
    assert BayesSearch(task, 6.0).expected_cost > 1
    monkeypatch.setattr("envs.kumo.likely.search.MOST_ENTRIES", 26)
    with pytest.raises(ValueError, match="at most 26 situations times truths, not 27"):
        BayesSearch(task, 6.0)


@pytest.mark.parametrize(("domain", "truths", "tests"), [("medical", 4, 6), ("music", 3, 4), ("chemical", 3, 5)])
def test_all_tests_tell_the_right_truth_of_every_book_well_enough(domain, truths, tests):
    made = list(itertools.islice(stream_likely(domain_of(domain), truths, tests), 5))
    assert made[:3] == list(itertools.islice(stream_likely(domain_of(domain), truths, tests), 3))
    assert made[0].tests != next(stream_likely(domain_of(domain), truths, tests, seed=1)).tests
    for number, task in enumerate(made):
        assert (task.index, len(task.truths), len(task.tests)) == (number, truths, tests)
        assert all(sum(row) == 10 and min(row) >= 1 for test in task.tests for row in test.cases)
        # By hand: every combination of outcomes, and by Bayes' rule how likely it leaves each truth.
        mean = [Fraction(0)] * truths
        for shown in itertools.product(*(range(len(test.outcomes)) for test in task.tests)):
            weights = [
                math.prod(test.cases[truth][outcome] for test, outcome in zip(task.tests, shown, strict=True))
                for truth in range(truths)
            ]
            mean = [before + Fraction(w * w, sum(weights) * 10**tests) for before, w in zip(mean, weights, strict=True)]
        assert certainties(task) == pytest.approx([float(each) for each in mean])
        assert min(mean) >= ENOUGH


def test_tests_of_four_outcomes_and_games_of_the_largest_size_are_drawn(monkeypatch):
    monkeypatch.setattr("envs.kumo.likely.generate.ENOUGH", 0.0)
    monkeypatch.setattr("envs.kumo.likely.generate.TRIES", 1)
    made = made_domain()
    made = dataclasses.replace(made, actions=made.actions[:6])
    assert {len(action.states) for action in made.actions} == {2, 3, 4}
    game = next(stream_likely(made, 4, 6))
    assert sorted(game.test_names) == sorted(action.name for action in made.actions)
    size = entries(4, game.tests)
    for most, refused in (
        (size, contextlib.nullcontext()),
        (size - 1, pytest.raises(GenerationError, match="too large")),
    ):
        monkeypatch.setattr("envs.kumo.likely.generate.MOST_ENTRIES", most)
        with refused:
            assert next(stream_likely(made, 4, 6)) == game


@pytest.mark.slow
def test_a_domain_without_solvable_games_is_refused():
    with pytest.raises(GenerationError, match="not solvable or too large"):
        next(stream_likely(domain_of("medical"), 5, 2))


def test_a_domain_is_given_up_after_so_many_books_in_a_row_only(monkeypatch):
    found = itertools.cycle([0.0, ENOUGH])
    monkeypatch.setattr("envs.kumo.likely.generate.TRIES", 2)
    monkeypatch.setattr("envs.kumo.likely.generate.least_certainty", lambda task: next(found))
    assert [task.index for task in itertools.islice(stream_likely(domain_of("medical"), 4, 6), 4)] == [0, 1, 2, 3]


class Stubborn:
    """Repeats a test, says twice something that cannot be read, and then always the same."""

    def __init__(self, last):
        self.last = last

    async def reply(self, turn):
        return Reply(["Test 0", "?", "Test 0", "?", self.last][min(turn.number, 4)])


PLAYERS = [
    OraclePlayer(),
    RandomPlayer(),
    *map(ShortcutPlayer, KumoLikelySuite.shortcuts),
    Stubborn("Fever"),
    Stubborn("<CHANCES> Fever: 5, Gout: 95 </CHANCES> <ANSWER> Fever </ANSWER>"),
    Stubborn("?"),
]


def play(task, player, wrong=6.0):
    episode = Episode("kumo_likely", "toy", "3x2", "zero_shot", 0, 0, 0, "", budget=20)
    conversation = Conversation(episode, player)
    return asyncio.run(play_likely(task, domain_of("medical"), conversation, wrong)), conversation


TOY = LikelyTask(
    "toy",
    TRUTHS,
    (
        LikelyTest("Test 0", ("high", "low"), ((9, 1), (2, 8), (3, 7))),
        LikelyTest("Test 1", ("high", "low"), ((5, 5), (9, 1), (1, 9))),
    ),
    (0, 0),
    "Fever",
)


@pytest.mark.parametrize("player", PLAYERS)
def test_points_lost_are_those_of_perfect_play_and_the_regret(player):
    """Over all worlds with their probabilities, whatever a player does."""
    played = [(play(world, player)[0], float(chance)) for world, chance in worlds(TOY)]

    def mean(*names):
        return sum(chance * outcome.extra[name] for outcome, chance in played for name in names)

    assert mean("points_lost") == pytest.approx(
        mean("optimal_points_lost") + mean("test_regret", "answer_regret", "unread_regret")
    )
    assert mean("log_loss") >= mean("posterior_log_loss") - 1e-9
    if isinstance(player, OraclePlayer):
        assert mean("test_regret", "answer_regret", "unread_regret") == pytest.approx(0)
        assert mean("log_loss") == pytest.approx(mean("posterior_log_loss"), abs=1e-6)
    else:
        assert mean("points_lost") > mean("optimal_points_lost") + 0.01


@pytest.mark.parametrize(
    ("player", "shown", "moves"),
    [
        ("one_test", (0, 0), ["Test 1", "Yellow Fever"]),
        ("all_tests", (0, 0), ["Test 0", "Test 1", "Fever"]),
        ("rule_outs", (0, 0), ["Test 0", "Test 1", "Fever"]),
        ("rule_outs", (1, 1), ["Test 0", "Test 1", "Gout"]),
    ],
)
def test_what_shortcuts_do(player, shown, moves):
    _, conversation = play(dataclasses.replace(TOY, shown=shown), ShortcutPlayer(player))
    assert [turn.action for turn in conversation.turns.values()] == moves


def test_right_answers_are_as_frequent_as_the_book_says():
    made = list(itertools.islice(stream_likely(domain_of("medical"), 3, 4), 150))
    given = [task.posterior(task.test_names)[task.right] for task in made]
    expected = [certainties(task).mean() for task in made]
    assert sum(given) / 150 == pytest.approx(sum(expected) / 150, abs=0.06)  # within two standard errors
    assert {task.truths.index(task.right) for task in made} == {0, 1, 2}


@given(shares=st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda shares: sum(shares) > 0.1))
def test_stated_chances_are_read_back(shares):
    stated = {truth: share / sum(shares) for truth, share in zip(TRUTHS, shares, strict=True)}
    reply = f"I think Gout.\n{state_chances(stated)}\n<ANSWER> Fever </ANSWER>"
    assert read_chances(reply, TRUTHS) == pytest.approx(stated, abs=1e-7)
    assert without_chances(reply).count("Fever") == 1


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("fever: 20%, yellow fever: 70 %, Gout = 10", [0.2, 0.7, 0.1]),
        ("**Yellow Fever**: .25\n- Fever: 0.75", [0.75, 0.25, 0]),
        ("Fever: 49, Gout: 49", [0.5, 0, 0.5]),
        ("1. Fever: 60\n2) Gout: 40", [0.6, 0, 0.4]),
        ('{"Fever": 0.6, "Gout": 0.4}', [0.6, 0, 0.4]),
        ("Fever: **60** and Gout: 40.", [0.6, 0, 0.4]),
        ("| Fever: 60 | Gout: 40 |", [0.6, 0, 0.4]),
        ("Fever: 60% Gout: 40%", [0.6, 0, 0.4]),
        ("Fever: 60, Gout: 40, something else: 3", [0.6, 0, 0.4]),
        # A percent sign says that these are far from 100.
        ("Fever: 1%", None),
        ("Fever: 0.5 percent, Gout: 0.5", None),
        # What is said of a truth otherwise.
        ("not Fever: 90, Gout: 10", None),
        ("Hay Fever: 50, Gout: 50", None),
        ("Fever: 1 of 2, Gout: 1", None),
        ("Fever: 25/50, Gout: 75", None),
        ("Fever: 50 to 60, Gout: 50", None),
        ("Fever: 1,000, Gout: 0", None),
        ("Fever: 60, Gout: 40, no Yellow Fever", None),
        ("Fever: 50, Gout: 40", None),
        ("Fever: 50, Gout: 25, Gout: 25", None),
        ("Fever: 1e2", None),
        ("Unfever: 100", None),
        ("Fever: 20, Gout: 40, fever: 60", None),
        ("Fever: 100" + " " * 4000, None),
        ("", None),
    ],
)
def test_chances_as_players_write_them(said, read):
    found = read_chances(f"<CHANCES> Fever: 100 </CHANCES> or rather <CHANCES>{said}</CHANCES>", TRUTHS)
    assert found == (None if read is None else pytest.approx(dict(zip(TRUTHS, read, strict=True))))
    assert read_chances(f"<CHANCES> {said}", TRUTHS) is None


def test_chances_of_names_that_end_in_signs_need_no_comma():
    truths = ("Gout", "Gout (chronic)", "C++")
    said = "<CHANCES>Gout (chronic): 50 Gout: 30 C++: 20</CHANCES>"
    assert read_chances(said, truths) == pytest.approx({"Gout": 0.3, "Gout (chronic)": 0.5, "C++": 0.2})


def test_chances_and_games_of_the_size_allowed_are_taken_and_no_larger_ones(monkeypatch):
    said = "Fever: 40, Gout: 60"
    monkeypatch.setattr("evals.suites.kumo.likely.chances._LONGEST", len(said))
    assert read_chances(f"<CHANCES>{said}</CHANCES>", TRUTHS)["Gout"] == pytest.approx(0.6)
    assert read_chances(f"<CHANCES>{said} </CHANCES>", TRUTHS) is None
    assert KumoLikelySuite(domains="medical", difficulties="8x8", tasks_per_domain=1, repeats=1).plan()
    for level in ("9x8", "8x9"):
        with pytest.raises(ValueError, match=f"{level} is too large for the Bayesian search"):
            KumoLikelySuite(domains="medical", difficulties=level, tasks_per_domain=1, repeats=1).plan()


def test_the_book_tells_all_numbers():
    for task in itertools.islice(stream_likely(domain_of("education"), 4, 6), 5):
        for test, part in zip(task.tests, book(task).split("\n\n"), strict=True):
            name, *lines = part.splitlines()
            assert name == test.name
            told = {}
            for line in lines:
                subject, outcomes = re.fullmatch(r"- (?:If it is (.*?)|Whichever it is): (.*) of 10", line).groups()
                cases = [entry.rsplit(" in ", 1) for entry in outcomes.split("; ")]
                assert tuple(outcome for outcome, _ in cases) == test.outcomes
                for truth in subject.split(" or ") if subject else task.truths:
                    told[truth] = tuple(int(count) for _, count in cases)
            assert told == dict(zip(task.truths, test.cases, strict=True))


def test_the_book_says_once_what_holds_whichever_truth_is_right():
    made = (
        LikelyTest("Test 1", ("high", "low"), ((3, 7),) * 3),
        LikelyTest("Test 0", ("high", "low"), ((1, 9), (2, 8), (1, 9))),
    )
    assert book(LikelyTask("toy", TRUTHS, made, (0, 0), "Gout")).splitlines() == [
        "Test 1",
        "- Whichever it is: high in 3; low in 7 of 10",
        "",
        "Test 0",
        "- If it is Fever or Gout: high in 1; low in 9 of 10",
        "- If it is Yellow Fever: high in 2; low in 8 of 10",
    ]


class Saying:
    """Says one thing after the other, the last one for ever."""

    def __init__(self, *said):
        self.said = said

    async def reply(self, turn):
        said = self.said[min(turn.number, len(self.said) - 1)]
        return said if isinstance(said, Reply) else Reply(said, reasoning=f"Thought {turn.number}.")


SURE = "<CHANCES> Fever: 0, Yellow Fever: 100 </CHANCES>"
SAID = [
    ["?", "??", "Fever"],
    ["?", "Test 1", "?", "Test 1", "Test 0", f"{SURE} <ANSWER> Yellow Fever </ANSWER>"],
    ["Test 0", f"{SURE} <ANSWER> Fever </ANSWER>"],
    ["<CHANCES> Fever: 30, Gout: 70.5 </CHANCES>\nMy answer is Gout.", "Gout"],
    ["<CHANCES> Fever: 30 </CHANCES> <ANSWER> Fever </ANSWER>"],
    [Reply("<ANSWER> Fever", finish="length"), "<ANSWER> test 1 </ANSWER>", "<ANSWER> Gout </ANSWER>"],
    ["Test 1"],
]


def test_games_of_evidence_are_judged_and_viewed_as_on_record():
    players = [(player, wrong) for player in (*PLAYERS, *(Saying(*said) for said in SAID)) for wrong in (0.75, 6.0)]
    played = [play(TOY, *each) for each in players]
    records = [Record(talk.episode, outcome, "", tuple(talk.turns.values()), 1.0) for outcome, talk in played]
    rows = records_to_table(records, ledger_columns(KumoLikelySuite())).to_pylist()
    parts = []
    for (player, wrong), record, row in zip(players, records, rows, strict=True):
        parts += ["", f"# {getattr(player, 'said', getattr(player, 'name', type(player).__name__))}, {wrong}"]
        parts.append(f"{record.outcome.success} {record.outcome.steps} {plain(record.outcome.extra)}")
        view = view_likely(row, TOY, BayesSearch(TOY, wrong))
        for step, turn in zip(view.steps, record.turns, strict=True):
            asked = digest(repr(turn.turn.chat))
            parts.append(f"  {turn.rule} {asked} {step.decoded} {step.best} {plain(step.regret)} {plain(step.facts)}")
        parts.append(plain(view.facts))
    check_golden("kumo_likely_hand", "\n".join(parts))


def test_a_domain_by_its_name_and_by_its_file_is_one(tmp_path):
    copy = tmp_path / "medical.yaml"
    copy.write_bytes((resources.files("envs.kumo") / "domains" / "medical.yaml").read_bytes())
    settings = {"difficulties": "3x4", "tasks_per_domain": 1, "repeats": 2}
    with pytest.raises(ValueError, match=r"suite\.domains names medical twice"):
        KumoLikelySuite(domains=["medical", str(copy)], **settings).plan()
    assert [game.repeat for game in KumoLikelySuite(domains=[str(copy)], **settings).plan()] == [0, 1]


@pytest.mark.slow
def test_the_suite_keeps_the_contract():
    check_suite(KumoLikelySuite(domains="medical", difficulties="3x4", tasks_per_domain=3, repeats=2), oracle=False)
