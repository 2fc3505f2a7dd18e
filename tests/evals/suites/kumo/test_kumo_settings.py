"""KUMO's tasks of other sizes, seeds and numbers of valid truths, and of domains with a chosen structure."""

import asyncio
import dataclasses
import pickle

import pytest

from envs.kumo import domain_from, generate_tasks, load_domain, write_tasks
from envs.kumo.book_reader import read_book, table_of
from evals.conversation import Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import OraclePlayer
from evals.suite import ledger_columns, play_episode
from evals.suites.kumo import KumoSuite
from evals.testing import check_suite
from evals.types import Reply

EASY = KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=3, repeats=1)
DRAWN = dataclasses.replace(EASY, structure={"density": 0.15, "truths": 20, "actions": 12, "domains": 2})


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYCADE_CACHE", str(tmp_path / "cache"))


class Naming:
    """Names the same truth at once."""

    def __init__(self, name):
        self.name = name

    async def reply(self, turn):
        return Reply(f"<ANSWER> {self.name} </ANSWER>")


def play(suite, player, episode):
    return asyncio.run(play_episode(suite, episode, player))


def told(puzzle):
    return " ".join(part for entry in puzzle.opening("prose", 50) for part in entry.parts)


# --- sizes and seeds -------------------------------------------------------------------------------------------------


def test_tasks_of_a_chosen_size_are_a_level_of_their_own():
    suite = dataclasses.replace(EASY, truths=6, actions=9, difficulties=["easy", "hard"])
    plan = suite.plan()
    assert [(episode.level, episode.index) for episode in plan] == [("6x9", 0), ("6x9", 1), ("6x9", 2)]
    assert {(len(p.task.truths), len(p.task.actions)) for p in suite.puzzles()} == {(6, 9)}
    (easy, *_), (hard, *_) = EASY.plan(), dataclasses.replace(EASY, truths=12, actions=16).plan()
    assert easy.calls < plan[0].calls < hard.calls == 8.1
    for episode in plan:
        outcome = play(suite, OraclePlayer(), episode).outcome
        assert outcome.success and outcome.extra["n_actions"] == 9


def test_the_largest_games_that_the_search_ends_can_be_planned():
    assert len(dataclasses.replace(EASY, truths=13, actions=18).plan()) == 3


def test_runs_of_a_chosen_size_are_scored_without_published_figures_beside_them():
    suite = dataclasses.replace(EASY, truths=6, actions=9)
    plan = [episode.assigned("model", "") for episode in suite.plan()]
    puzzle = next(suite.puzzles())
    wrong = next(truth for truth in puzzle.task.truths if truth != puzzle.task.valid_truth)
    failed = Record(plan[1], None, "PlayerError: gone", (), 1.0)
    ledger = records_to_table([play(suite, Naming(wrong), plan[0]), failed], ledger_columns(suite))
    tables = list(suite.results(RunData.of_tables(plan_to_table(plan), ledger).of("kumo"), "scores"))
    row = dict(zip(tables[0].columns, tables[0].rows[0], strict=True))
    assert (row["difficulty"], row["planned"], row["done"], row["failed"]) == ("6x9", 3, 1, 1)
    assert row["actions"].mean == 10, "nine tests and one more, also where the ledger does not say how many there are"
    assert not any("published" in table.title for table in tables)
    assert not any(row[0] == "easy" for table in tables for row in table.rows)


# --- several valid truths --------------------------------------------------------------------------------------------


def test_any_of_several_valid_truths_wins_and_players_are_told_how_many_there_are():
    suite = dataclasses.replace(EASY, truths=6, actions=9, valid_truths=2)
    for episode, puzzle in zip(suite.plan(), suite.puzzles(), strict=True):
        assert len(puzzle.task.valid_truths) == 2
        for truth in puzzle.task.truths:
            assert play(suite, Naming(truth), episode).outcome.success == (truth in puzzle.task.valid_truths)
        record = play(suite, OraclePlayer(), episode)
        assert record.outcome.success and record.outcome.extra["ending"] == "certain"
        assert record.outcome.extra["regret"] == pytest.approx([0] * (record.outcome.steps - 1))
        rules = told(puzzle)
        assert "Exactly 2 diseases" in rules and "xactly one" not in rules and "the right disease " not in rules
        assert all("the right disease " not in part for turn in record.turns for part in turn.turn.chat[-1].parts)
    assert "xactly one disease" in told(next(EASY.puzzles()))


def test_a_view_of_a_game_with_several_valid_truths_names_them_all():
    suite = dataclasses.replace(EASY, truths=6, actions=9, valid_truths=2)
    puzzle, episode = next(suite.puzzles()), suite.plan()[0]
    for truth in puzzle.task.valid_truths:
        [row] = records_to_table([play(suite, Naming(truth), episode)], ledger_columns(suite)).to_pylist()
        view = suite.view({name.removeprefix("kumo."): value for name, value in row.items()})
        assert view.steps[-1].facts["named"] == "right"
        assert view.facts["right one"] == " or ".join(puzzle.task.valid_truths)


# --- structure -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_drawn_domains_are_played_in_prose_like_any_other():
    check_suite(DRAWN, episodes=1)
    domains = [domain_from(source) for source in DRAWN.sources]
    assert [len(domain.truths) for domain in domains] == [20, 20]
    plan = DRAWN.plan()
    assert [episode.task for episode in plan[::3]] == [domain.name for domain in domains]
    for puzzle in DRAWN.puzzles():
        book = told(puzzle).partition("Guidebook:")[2]
        assert read_book(book, puzzle.task, puzzle.domain) == table_of(puzzle.task)
    assert all(play(DRAWN, OraclePlayer(), episode).outcome.success for episode in plan)


def test_definitions_of_a_drawn_domain_differ_in_nothing_but_the_name():
    domain = domain_from(DRAWN.sources[0])
    for names in (domain.truths, [action.name for action in domain.actions]):
        assert len({domain.definitions[name].replace(name, "") for name in names}) == 1


@pytest.mark.slow
def test_permuted_domains_are_those_of_the_suite_whatever_else_is_changed():
    suite = dataclasses.replace(EASY, domains=["medical", "music"], structure={"names": "permuted"}, seed=2)
    assert suite.domains == ("medical", "music")
    for changed in (suite, dataclasses.replace(suite, repeats=2)):
        assert [domain_from(source).truths for source in changed.sources] == [
            load_domain(name).truths for name in ("medical", "music")
        ]
    assert not {e.id for e in suite.plan()} & {e.id for e in dataclasses.replace(suite, structure=None).plan()}
    assert not set(suite.sources) & set(dataclasses.replace(suite, seed=3).sources)


def test_a_suite_with_a_structure_can_be_pickled_and_compared():
    assert pickle.loads(pickle.dumps(DRAWN)) == DRAWN != EASY
    assert hash(DRAWN) == hash(pickle.loads(pickle.dumps(DRAWN)))


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"seed": 1}, {"valid_truths": 2}, {"structure": {"names": "permuted"}}], ids=str)
def test_what_a_task_file_fixes_cannot_be_chosen(tmp_path, settings):
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, generate_tasks(load_domain("medical"), 6, 9, count=2, valid_truths=2))
    suite = dataclasses.replace(EASY, tasks=str(path), truths=6, actions=9)
    assert [len(puzzle.task.valid_truths) for puzzle in suite.puzzles()] == [2, 2] and len(suite.plan()) == 2
    with pytest.raises(ValueError, match=f"suite.{next(iter(settings))}"):
        dataclasses.replace(suite, **settings).plan()


def test_a_game_of_a_domain_that_the_settings_lack_is_named():
    with pytest.raises(ValueError, match=r"suite\.domains: lacks knots"):
        dataclasses.replace(EASY, domains=("medical",)).puzzle("knots", "easy", 0)


@pytest.mark.parametrize("world", [None, "agree", "ignore", "contradict"])
def test_another_seed_draws_other_games(world):
    games = [
        dataclasses.replace(EASY, domains=("chemical_elements",), world=world, seed=seed).puzzle(
            "chemical_elements", "easy", 0
        )
        for seed in (0, 0, 7)
    ]
    same, again, other = (game.task.to_json() for game in games)
    assert same == again != other
