"""KUMO's effects: what more truths and tests, or a book in prose, change."""

from __future__ import annotations

from collections.abc import Iterator

from evals.paired import effects_tables, independent_effects, paired_effects, success_observations
from evals.run_data import RunData
from evals.tables import Table


def effect_tables(run: RunData) -> Iterator[Table]:
    """Hard minus easy by domain, where a run has both.

    Args:
        run: KUMO's part of a run.
    """
    cell = ("player", "mode", "task")
    hard, easy = (success_observations(run, cell, {"level": level}) for level in ("hard", "easy"))
    return effects_tables(
        "kumo_difficulty_effect",
        "KUMO: hard minus easy",
        ("mode", "domain"),
        ("hard", "easy"),
        independent_effects(hard, easy),
        ("Hard and easy tasks are different games: the two sides are independent.",),
    )


def book_tables(first: RunData, second: RunData, books: tuple[str, str] = ("prose", "table")) -> Iterator[Table]:
    """What another form of the book changes, from two runs on identical tasks.

    Args:
        first: KUMO's part of the run with the first book.
        second: That of the run with the second.
        books: What the two are called.
    """
    cell = ("player", "level", "task")
    effects = paired_effects(success_observations(first, cell), success_observations(second, cell))
    title = f"KUMO: book in {books[0]} minus {books[1]} on the same tasks"
    return effects_tables("kumo_book_effect", title, ("level", "domain"), books, effects)
