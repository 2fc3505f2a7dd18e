"""``raycade kumo show``: the prompt, perfect play and the tree of best tests of one game."""

import io
import re

import pytest
from rich.console import Console

from cluster.cli import main
from envs.kumo import OptimalSearch
from evals.suites.kumo.searched_game import puzzles_of
from evals.suites.kumo.show import game_text
from tests.golden import check_golden

LINE = re.compile(
    r"^(?P<stem>[│├└─ ]*)(?P<mark>\* )?(?P<outcome>.*) \((?P<share>[\d.]+)\): (?P<left>.*) → (?P<next>.*)$"
)


def shown(puzzle, depth=9, width=1000):
    out = io.StringIO()
    console = Console(file=out, width=width)
    for part in game_text(puzzle, "own", "table", 50, depth):
        console.print(part)
    return out.getvalue()


def expected(text):
    """The tests still expected that a node states; naming takes none."""
    return 0.0 if text.startswith("name ") else float(re.search(r"\(([\d.]+)\)$", text)[1])


def tree_of(text):
    """The nodes below each line of the tree: depth, share, tests expected, the line's parts."""
    lines = text.split("Tree of best tests")[1].splitlines()
    start = next(place for place, line in enumerate(lines) if LINE.match(line)) - 1
    nodes = [(0, 1.0, expected(lines[start]), {"next": lines[start], "mark": None})]
    for line in lines[start + 1 :]:
        if match := LINE.match(line):
            nodes.append((len(match["stem"]) // 4, float(match["share"]), expected(match["next"]), match.groupdict()))
    return nodes


def children(nodes, place):
    depth = nodes[place][0]
    below = []
    for node in nodes[place + 1 :]:
        if node[0] <= depth:
            break
        below += [node] if node[0] == depth + 1 else []
    return below


@pytest.mark.parametrize(
    ("domain", "level", "index"), [("aircraft", "easy", 0), ("knots", "6x8", 1), ("medical", "easy", 2)]
)
def test_the_tree_is_perfect_play_with_its_expected_tests(domain, level, index):
    puzzle = puzzles_of(domain, level, index + 1)[index]
    nodes = tree_of(shown(puzzle))
    search = OptimalSearch(puzzle.task)
    assert nodes[0][2] == pytest.approx(search.expected_steps, abs=0.006)
    inner = 0
    for place, (_, _, steps, _) in enumerate(nodes):
        below = children(nodes, place)
        assert bool(below) == (steps > 0)
        if below:
            inner += 1
            assert sum(share for _, share, *_ in below) == pytest.approx(1, abs=0.005 * len(below))
            assert 1 + sum(share * rest for _, share, rest, _ in below) == pytest.approx(
                steps, abs=0.01 * len(below) + 0.01
            )
            assert sum(bool(each["mark"]) for *_, each in below) <= 1, (
                "the game shows one outcome, which may be ruled out off its path"
            )
    assert inner >= 1
    # Along the outcomes that the game shows stand the tests of perfect play, and at the end the truth.
    path, place = [nodes[0][3]["next"]], 0
    while below := children(nodes, place):
        node = next(each for each in below if each[3]["mark"])
        place = nodes.index(node, place)
        path.append(node[3]["next"])
    moves = search.rollout()
    assert [re.sub(r" \([\d.]+\)$", "", step).removeprefix("name ") for step in path] == list(moves)


def test_prompt_book_and_perfect_play_stand_in_it_and_eighty_columns_are_enough():
    puzzle = puzzles_of("medical", "hard", 1)[0]
    text = shown(puzzle, depth=1, width=80)
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    assert " ".join(puzzle.book("table").split())[:200] in flat
    assert "<ANSWER>" in text and f"E[S] {OptimalSearch(puzzle.task).expected_steps:.3f}" in text
    for test in puzzle.optimal_play[:-1]:
        assert f"{test}: {puzzle.task.observation_text(test)}" in flat
    wide = tree_of(shown(puzzle, depth=2))
    assert {depth for depth, *_ in wide} == {0, 1, 2} and all(" left" in node[3]["left"] for node in wide[1:2])


def command(*words):
    with pytest.raises(SystemExit) as end:
        main(["kumo", "show", *words])
    return end.value.code


COMMANDS = [
    "knots --book symbolic",
    "knots --size 5x7 --seed 3 --index 2 --valid-truths 2 --book table --depth 9",
    "knots --size 3x4 --depth 1",
    "knots --size 8x9 --depth 0 --book symbolic",
    *("knots --size large", "knots --size 4x", "nots", "knots --size 20x30", "knots --valid-truths 9", "knots 1f0c"),
    *(f"knots --index {index}" for index in (-1, 10_000)),
    *("knots --depth -1", "knots --seed -1", "knots --size 60x5"),
]


def test_the_command_shows_games_as_on_record(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    parts = []
    for line in COMMANDS:
        code = command(*line.split())
        out, err = capsys.readouterr()
        parts += [f"$ raycade kumo show {line}", f"{out}{err}exit code {code}", ""]
    check_golden("kumo_show", "\n".join(parts))


@pytest.mark.slow
def test_the_game_of_an_episode_is_shown_as_its_player_was_told(tmp_path, capsys):
    small = [
        "suite=kumo",
        "suite.domains=[knots]",
        "suite.difficulties=[easy]",
        "suite.tasks_per_domain=2",
        "suite.repeats=1",
    ]
    with pytest.raises(SystemExit):
        main(["run", *small, "suite.book=table", "suite.seed=5", "model=oracle", f"run_dir={tmp_path / 'run'}"])
    from evals.ledger.ledger import open_ledger

    rows = open_ledger(tmp_path / "run").table(["episode_id", "index"]).to_pylist()
    row = next(row for row in rows if row["index"] == 1)
    capsys.readouterr()
    assert command(str(tmp_path / "run"), row["episode_id"][:8]) == 0
    out = capsys.readouterr().out
    puzzle = puzzles_of("knots", "easy", 2, False, 5)[1]
    assert "seed 5, task 1" in out and " ".join(puzzle.book("table").split())[:80] in " ".join(out.split())
    assert command(str(tmp_path / "run")) == 2
    assert "name an episode" in capsys.readouterr().err
    assert command(str(tmp_path / "run"), "zzzz") == 2
