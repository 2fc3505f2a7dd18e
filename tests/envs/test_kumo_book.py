"""A knowledge book says all of a task's rules and no more, as a reader of its own finds."""

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks import kumo_books
from envs.kumo import BOOK_STYLES, DIFFICULTIES, available_domains, generate_tasks, load_domain, write_book
from envs.kumo.book_reader import BookError, read_book, table_of
from envs.kumo.domain import Phrasings
from tests.envs.kumo_games import made_domain


def medical(index=0, size="easy"):
    domain = load_domain("medical")
    return generate_tasks(domain, *DIFFICULTIES[size], count=index + 1)[index], domain


@pytest.mark.parametrize("style", BOOK_STYLES)
@pytest.mark.parametrize("name", available_domains())
def test_every_book_reads_back_as_its_tasks_table(name, style):
    domain = load_domain(name)
    for size, count in (("easy", 6), ("hard", 2)):
        for task in generate_tasks(domain, *DIFFICULTIES[size], count=count):
            assert read_book(write_book(task, domain, style), task, domain, style) == table_of(task)


@pytest.mark.parametrize("style", BOOK_STYLES)
def test_a_book_depends_on_the_rules_only_not_on_the_answer_or_what_tests_show(style):
    task, domain = medical()
    shown = tuple(action.states[0].value for action in task.actions)
    shown = tuple(value if isinstance(value, str) else value[0] for value in shown)
    other = dataclasses.replace(task, valid_truth=task.truths[0], observations=shown, index=9, seed=9)
    assert write_book(task, domain, style) == write_book(other, domain, style) != ""
    assert len({write_book(task, domain, each) for each in BOOK_STYLES}) == len(BOOK_STYLES)


def test_prose_defines_everything_and_never_says_the_same_sentence_twice_in_a_paragraph():
    task, domain = medical(3, "hard")
    book = write_book(task, domain)
    for name in (*task.truths, *task.action_names):
        assert f"**{name}.** {domain.definitions[name]}" in book
    for paragraph in book.split("\n\n"):
        sentences = re.split(r"(?<=\.) ", paragraph)
        assert len(sentences) == len(set(sentences))
    assert len(set(re.findall(r"\. (\w+ \w+)", book))) > 8, "sentences begin in several ways"
    assert "  " not in book and "{" not in book and " a a" not in book.lower().replace("a acute", "")


def test_a_test_that_can_rule_out_nothing_says_so_in_plain_words():
    task, domain = medical()
    idle = [dataclasses.replace(a, states=tuple(s._replace(rules_out=()) for s in a.states)) for a in task.actions]
    book = write_book(dataclasses.replace(task, actions=tuple(idle)), domain)
    assert book.count("rules out a disease") == len(idle)
    assert not re.search(r"\bnone\b[^.]*\bnone\b", book)


def test_a_long_book_describes_twice_as_much_and_keeps_the_tasks_rules():
    task, domain = medical()
    book = write_book(task, domain, "long")
    heads = re.findall(r"\*\*(.+?)\.\*\*", book)
    assert len(heads) == 2 * (len(task.truths) + len(task.actions))
    assert {*task.truths, *task.action_names} < set(heads)
    assert "not in question" in book and "not in question" not in write_book(task, domain)


def test_a_noisy_book_is_prose_with_notes_in_between():
    task, domain = medical()
    book = write_book(task, domain, "noisy")
    assert sum(note in book for note in domain.notes) == 5, "one for every second of ten paragraphs"
    assert not any(note in write_book(task, domain) for note in domain.notes)
    bare = made_domain(8)
    with pytest.raises(ValueError, match="domain 'made' has no notes"):
        write_book(generate_tasks(bare, count=1)[0], bare, "noisy")


def test_a_domains_own_phrasings_are_used_and_read():
    task, domain = medical(1, "hard")
    domain = dataclasses.replace(
        domain, phrasings=Phrasings(("Upon {outcome}, exclude {truths}.",), ("Upon {outcome}, nothing is excluded.",))
    )
    book = write_book(task, domain)
    assert "Upon " in book and "nothing is excluded" in book
    assert read_book(book, task, domain) == table_of(task)


def changed(book, task, domain, style="prose"):
    """Whether the reader finds another table than the task's, or an error."""
    try:
        return read_book(book, task, domain, style) != table_of(task)
    except BookError:
        return True


@pytest.mark.parametrize("style", BOOK_STYLES)
def test_the_reader_notices_every_single_name_that_is_changed(style):
    task, domain = medical(2)
    book = write_book(task, domain, style)
    other = next(truth for truth in domain.truths if truth not in task.truths and f"**{truth}.**" not in book)
    start = (
        book.index(task.action_names[0]) if style in ("table", "symbolic") else book.index("## The diagnostic tests")
    )
    places = [match.start() for truth in task.truths for match in re.finditer(re.escape(truth), book[start:])]
    assert len(places) > 5
    for place in places:
        truth = next(truth for truth in task.truths if book[start + place :].startswith(truth))
        spoiled = book[: start + place] + other + book[start + place + len(truth) :]
        assert changed(spoiled, task, domain, style), spoiled[start + place - 60 : start + place + 60]


@pytest.mark.parametrize(
    ("sentence", "spoiled"),
    [
        (r"A result of [^.;]+ rules out [^.;]+\.", ""),
        (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"\g<0> A result of \1 rules out \2."),
        (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"A result of \1 is typical of \2."),
        (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"\g<0> It rules out Migraine."),
        ("“[^”]+”", "“something else”"),
        (r"\*\*Asthma\.\*\* [^\n]+\n\n", ""),
    ],
)
def test_the_reader_notices_sentences_that_are_lost_doubled_or_unclear(sentence, spoiled):
    task, domain = medical()
    book = write_book(task, domain)
    assert "Asthma" in task.truths
    assert not changed(book, task, domain)
    again = re.sub(sentence, spoiled, book, count=1)
    assert again != book and changed(again, task, domain)


def test_the_page_of_books_is_what_its_command_writes():
    page = Path(__file__).parents[2] / "docs" / "kumo_books.md"
    assert page.read_text(encoding="utf-8") == kumo_books.page(), "run python -m benchmarks.kumo_books --page"
