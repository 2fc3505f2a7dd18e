"""Parses KUMO's knowledge books with an independent reader. Run: python -m benchmarks.kumo_books [--count N] [--page].

For each of the five main domains, at both difficulties, N tasks (default 200) are generated and written as prose books, from
which the reader must recover the table of rule-outs. ``--page`` writes docs/kumo_books.md and its samples.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envs.kumo import (
    BOOK_STYLES,
    DIFFICULTIES,
    BookStyle,
    Domain,
    available_domains,
    generate_tasks,
    load_domain,
    write_book,
)
from envs.kumo.book_reader import BookError, read_book, table_of

DOMAINS = ("medical", "chemical", "music", "education", "fantasy")
PAGE = Path(__file__).parents[1] / "docs" / "kumo_books.md"
SAMPLES = PAGE.parent / "records" / "kumo_books_samples.md"


def check(domain: Domain, difficulty: str, count: int, style: BookStyle) -> tuple[int, list[str]]:
    """Words written and what the reader found wrong."""
    written, problems = 0, []
    for task in generate_tasks(domain, *DIFFICULTIES[difficulty], count=count):
        book = write_book(task, domain, style)
        written += len(book.split())
        try:
            if read_book(book, task, domain, style) != table_of(task):
                problems.append(f"{domain.name} {difficulty} {task.index}: another table")
        except BookError as error:
            problems.append(f"{domain.name} {difficulty} {task.index}: {error}")
    return written, problems


def page() -> str:
    """Two books as players read them, and how the other styles look."""
    medical, fantasy = load_domain("medical"), load_domain("fantasy")
    task = generate_tasks(medical, count=1)[0]
    other = generate_tasks(fantasy, *DIFFICULTIES["hard"], count=1)[0]
    parts = [
        "# Knowledge books",
        "Written by `python -m benchmarks.kumo_books --page`. What a player of KUMO is told besides the rules of the game "
        "is a book in one of five styles (`suite.book`): `prose` defines every truth and test and states the rule-outs in "
        "sentences; `long` also describes as many again that are not in the game; `noisy` has true but irrelevant sentences "
        "in between; `table` lists the rule-outs; `symbolic` is a terse notation. Every book reads back as the game's table "
        "of rule-outs. [Twenty more](records/kumo_books_samples.md).",
        f"## Prose: an easy game\n\nThe goal that is told before it: {medical.goal}\n\n{_quoted(write_book(task, medical))}",
        f"## Prose: a hard game\n\nThe goal: {fantasy.goal}\n\n{_quoted(write_book(other, fantasy))}",
        "## The first game as a table\n\n" + _quoted(write_book(task, medical, "table")),
        "## The first game in symbols\n\n```\n" + write_book(task, medical, "symbolic") + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def samples() -> str:
    """The first easy game of every fifth domain as a player reads its book."""
    parts = ["# Twenty knowledge books", "Written by `python -m benchmarks.kumo_books --page`."]
    for name in available_domains()[::5]:
        domain = load_domain(name)
        book = write_book(generate_tasks(domain, count=1)[0], domain)
        parts.append(f"## {domain.title}\n\nThe goal that is told before it: {domain.goal}\n\n{_quoted(book)}")
    return "\n\n".join(parts) + "\n"


def _quoted(book: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in book.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="tasks of each domain and difficulty")
    parser.add_argument("--style", choices=BOOK_STYLES, default="prose")
    parser.add_argument("--page", action="store_true", help="write the pages in docs")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(page(), encoding="utf-8")
        SAMPLES.write_text(samples(), encoding="utf-8")
        return 0
    print(f"{'domain':12}{'difficulty':12}{'books':>7}{'words per book':>16}{'errors':>8}")
    problems = []
    for name in DOMAINS:
        for difficulty in DIFFICULTIES:
            written, found = check(load_domain(name), difficulty, arguments.count, arguments.style)
            problems += found
            print(
                f"{name:12}{difficulty:12}{arguments.count:7}{written / arguments.count:16.0f}{len(found):8}",
                flush=True,
            )
    print(*problems[:20], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
