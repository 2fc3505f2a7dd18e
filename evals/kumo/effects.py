"""KUMO's effects: what more truths and tests, or a book in prose, change."""

from __future__ import annotations

from evals.paired import effects_table, independent_effects, paired_effects, success_observations
from evals.run_data import RunData
from evals.tables import Table


def difficulty_table(run: RunData) -> Table | None:
    """Hard minus easy over the same domains, by player; None where a run has not both.

    Args:
        run: KUMO's part of a run.
    """
    cell = ("player", "mode")
    hard, easy = (success_observations(run, cell, {"level": level}) for level in ("hard", "easy"))
    return effects_table(
        "kumo_difficulty_effect",
        "KUMO: hard minus easy",
        cell,
        ("hard", "easy"),
        independent_effects(hard, easy),
        ("Hard and easy tasks are different games: the two sides are independent.",),
    )


def book_table(first: RunData, second: RunData, books: tuple[str, str] = ("prose", "table")) -> Table | None:
    """What another form of the book changes, from two runs on identical tasks; None where they share none.

    Args:
        first: KUMO's part of the run with the first book.
        second: That of the run with the second.
        books: What the two are called.
    """
    cell = ("player", "level")
    effects = paired_effects(success_observations(first, cell), success_observations(second, cell))
    title = f"KUMO: book in {books[0]} minus {books[1]}, same tasks"
    return effects_table("kumo_book_effect", title, cell, books, effects)
