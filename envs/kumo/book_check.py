"""Whether books of a domain can be read back: every phrasing of its own is tried."""

from __future__ import annotations

import dataclasses

from envs.kumo.book import write_book
from envs.kumo.book_reader import BookError, read_book, table_of
from envs.kumo.domain import Domain, Phrasings
from envs.kumo.task import Task

_OFTEN = 50
"""How often a phrasing stands among the others where it is to be tried."""


def book_problems(domain: Domain) -> list[str]:
    """What a reader finds wrong with books of all truths and tests of a domain, each of its phrasings used often."""
    task = Task(domain.name, domain.truths, domain.actions, (), "")
    own = domain.phrasings
    variants = [own]
    variants += [Phrasings((each,) * _OFTEN) for each in own.rules_out]
    variants += [Phrasings(nothing=(each,) * _OFTEN) for each in own.nothing]
    problems = []
    for phrasings in variants:
        variant = dataclasses.replace(domain, phrasings=phrasings)
        try:
            read = read_book(write_book(task, variant), task, variant)
        except BookError as error:
            problems.append(f"domain {domain.name!r}: a book cannot be read back: {error}")
            continue
        if read != table_of(task):
            problems.append(f"domain {domain.name!r}: a book is read back as another table")
    return list(dict.fromkeys(problems))
