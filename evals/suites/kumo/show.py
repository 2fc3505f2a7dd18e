"""One game of KUMO as text: what a player is told, what perfect play takes, and the tree of best tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from envs.kumo import OptimalSearch, Task, exact
from envs.kumo.domain import Observation, State
from envs.printable import printable
from evals.suites.kumo.searched_game import BookChoice, Puzzle
from evals.suites.kumo.wording import PromptStyle
from evals.types import Chat

_NAMED = 4
"""Truths that a line names; of more it says how many are left."""


def game_text(
    puzzle: Puzzle, prompt: PromptStyle, book: BookChoice, limit: int, depth: int
) -> Iterator[RenderableType]:
    """What to print of a game, part by part.

    Args:
        puzzle: The game.
        prompt: In whose words the player is told.
        book: Style of the knowledge book.
        limit: Rounds that the player has.
        depth: Tests that the tree shows, one after the other.
    """
    task = puzzle.task
    valid = ", ".join(task.valid_truths)
    facts = f"{len(task.truths)} truths, {len(task.action_names)} actions, seed {task.seed}, task {task.index}"
    yield _line(f"{puzzle.domain.title}: {facts}", "bold")
    yield from _chat(puzzle.wording(prompt, book, limit).opening().sent)
    yield _line("Perfect play", "bold")
    search = OptimalSearch(task)
    *tests, named = search.rollout()
    yield _line(f"E[S] {search.expected_steps:.3f} expected tests; on this game's outcomes {len(tests)}:")
    for number, test in enumerate(tests, 1):
        yield _line(f"  {number}. {test}: {task.observation_text(test)}")
    yield _line(f"  then it names {named} (right: {valid})")
    yield _line(f"{_by_guarantee(puzzle)}\n")
    yield _line("Tree of best tests", "bold")
    yield _line(
        "Each outcome with its probability, the truths that it leaves, and the next test with the number of tests still "
        "expected; *: what this game shows."
    )
    yield Group(Grower(task, search, depth).tree())


def _by_guarantee(puzzle: Puzzle) -> str:
    """Perfect play that uses all that players are told, in a line."""
    task = puzzle.task
    if not puzzle.guaranteed or len(task.truths) + len(task.actions) > exact.LARGEST:
        return f"By the guarantee (exact search): only for sound tasks of at most {exact.LARGEST} truths and tests together"
    *tests, named = exact.rollout(task)
    expected = min(exact.values(task, ()).values(), default=0.0)
    moves = ", ".join(tests) or "no test"
    return f"By the guarantee (exact search): {expected:.3f} expected tests; here {len(tests)} ({moves}), then {named}"


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def _chat(chat: Chat) -> Iterator[RenderableType]:
    for each in chat:
        yield _line(f"Prompt, {each.role}", "bold")
        yield Text(printable("\n".join(part for part in each.parts if isinstance(part, str))) + "\n")


@dataclass(frozen=True)
class Grower:
    """Grows the tree of best tests; where an outcome is a range, its low end stands for it."""

    task: Task
    search: OptimalSearch
    depth: int

    def tree(self) -> Tree:
        """The tree from the first test on."""
        root = Tree(_line(self.best({})), guide_style="dim")
        self.grow(root, {})
        return root

    def best(self, observed: Mapping[str, Observation]) -> str:
        """What perfect play does next, in words; a test with the tests that are still expected."""
        move, expected = self.search.best(observed), self.search.expected_after(observed)
        return f"{move} ({expected:.2f})" if expected else f"name {move}"

    def grow(self, tree: Tree, observed: Mapping[str, Observation]) -> None:
        """Add the outcomes of the next test below it, and what follows."""
        if self.search.expected_after(observed) == 0:
            return
        if len(observed) >= self.depth:
            return
        test = self.search.best(observed)
        place = self.task.position(test)
        shown = self.task.actions[place].state_of(self.task.observations[place])
        for survivors, states, share in leaves(self.task, self.task.survivors(observed), test):
            after = {**observed, test: example(states[0])}
            # The outcome that the test shows in this game is marked.
            mark, style = ("* ", "bold") if shown in states else ("", "")
            texts = " | ".join(state.text for state in states)
            told = f"{mark}{texts} ({share:.2f}): {_named(survivors)} → {self.best(after)}"
            self.grow(tree.add(_line(told, style)), after)


def _named(truths: tuple[str, ...]) -> str:
    return f"{len(truths)} left" if len(truths) > _NAMED else ", ".join(truths)


def leaves(task: Task, possible: Sequence[str], test: str) -> Iterator[tuple[tuple[str, ...], list[State], float]]:
    """What a test can leave of the truths that are possible: each set with its outcomes and its probability (Eq. 2)."""
    found: dict[tuple[str, ...], list[State]] = {}
    for state in task.actions[task.position(test)].states:
        left = tuple(truth for truth in possible if truth not in state.rules_out)
        if left:
            found.setdefault(left, []).append(state)
    total = sum(len(left) * len(states) for left, states in found.items())
    for left, states in found.items():
        yield left, states, len(left) * len(states) / total


def example(state: State) -> Observation:
    """What a test shows in this state; of a range its low end."""
    return state.value if isinstance(state.value, str) else state.value[0]
