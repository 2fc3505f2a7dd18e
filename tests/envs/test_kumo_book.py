"""A knowledge book says all of a task's rules and no more, as a reader of its own finds."""

import dataclasses
import itertools
import random
import re

import pytest

from benchmarks import kumo_books
from envs.kumo import BOOK_STYLES, DIFFICULTIES, available_domains, generate_tasks, load_domain, write_book
from envs.kumo.book_check import book_problems
from envs.kumo.book_reader import BookError, read_book, table_of
from envs.kumo.domain import Action, Phrasings, State
from envs.kumo.domain_file import parse_domain
from envs.kumo.prose import NOTHING, RULES_OUT, _articles, _Writer
from tests.envs.kumo_games import made_domain, toy_yaml
from tests.golden import check_golden


def medical(index=0, size="easy"):
    domain = load_domain("medical")
    return generate_tasks(domain, *DIFFICULTIES[size], count=index + 1)[index], domain


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if rank % 10 == 0 else pytest.mark.slow)
        for rank, each in enumerate(available_domains())
    ],
)
def test_every_book_reads_back_as_its_tasks_table(name):
    domain = load_domain(name)
    tasks = [generate_tasks(domain, *size, count=1)[0] for size in DIFFICULTIES.values()]
    for task, style in itertools.product(tasks, BOOK_STYLES):
        assert read_book(write_book(task, domain, style), task, domain, style) == table_of(task), style


def game_of(*actions):
    """A task of made-up tests, and its domain."""
    task, domain = medical()
    definitions = {**domain.definitions, **{action.name: "A test." for action in actions}}
    truths = ("Gout", "Malaria", "Asthma", "Migraine")
    task = dataclasses.replace(task, truths=truths, actions=actions, valid_truth="Gout")
    return task, dataclasses.replace(domain, actions=actions, definitions=definitions)


def test_what_a_range_ends_with_is_not_read_as_another_range():
    states = State((1, 2), ("Gout",)), State((200, 300), ("Asthma",)), State((1200, 3000), ())
    task, domain = game_of(Action("Weight", "float", states, "kg"))
    book = write_book(task, domain)
    assert not changed(book, task, domain)
    for wrong in ("1 to 2,000", "1 to 2.5", "5,1 to 2", "5.1 to 2", "-1 to 2"):
        spoiled = book.replace(" 1 to 2 ", f" {wrong} ")
        assert spoiled != book and changed(spoiled, task, domain), wrong


def test_two_short_sentences_may_be_joined():
    task, domain = game_of(
        *(Action(f"Test {n}", "str", (State("x", ("Gout",)), State("y", ("Asthma",)))) for n in range(400))
    )
    book = write_book(task, domain)
    assert not changed(book, task, domain)
    assert re.search(r"A result of “x” [^.;]+; a result of “y” [^.;]+\.", book)


def test_no_form_of_sentence_comes_again_within_three():
    task, domain = medical()
    writer = _Writer(domain, task.truths, random.Random(1))
    forms = [writer.choose(writer.rules_out if place % 3 else writer.nothing) for place in range(200)]
    assert all(form not in forms[max(0, place - 2) : place] for place, form in enumerate(forms))
    assert set(forms) == {*RULES_OUT, *NOTHING, *domain.phrasings.rules_out, *domain.phrasings.nothing}
    assert len(set(writer.rules_out)) == len(writer.rules_out), "none is more likely than the others"


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


GONE = ("Gout", "Malaria")
TESTS = (
    Action("Weight", "float", (State((0, 9), GONE), State((20, 5000), GONE), State((6000, 10000), ())), "kg"),
    Action("Weight (dry)", "float", (State((1, 2), ("Gout",)), State((2.5, 3), ("Asthma", "Migraine"))), "players"),
    Action("Color", "str", (State("red", GONE), State("blue", GONE), State("gray", GONE), State("none", ()))),
    Action("Smell", "str", (State("sweet", ("Gout", "Malaria", "Asthma")), State("sour", ("Migraine",)))),
    Action("Idle", "str", (State("one", ()), State("two", ()))),
    Action("Idler", "str", (State("one", ()), State("two", ()), State("three", ()))),
)
ARTICLES = "A apple, a European owl, a one-way street, a oval, a unit, a unclear hint, A ice floe, a hill, a once"
SPOILED = [
    (r"A result of [^.;]+ rules out [^.;]+\.", ""),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"\g<0> A result of \1 rules out \2."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"A result of \1 is typical of \2."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"\g<0> It rules out Migraine."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"\g<0> Somebody excludes something."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"\g<0> This is so."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"A result of \1 rules out nothing."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"A result of \1 is nothing."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"A result of \1 rules out all but \2."),
    (r"A result of ([^.;]+) rules out ([^.;]+)\.", r"A result of \1 rules out Tuberculosis."),
    ("“[^”]+”", "“something else”"),
    (r"\*\*Asthma\.\*\* [^\n]+\n\n", ""),
    (r"\*\*Asthma\.\*\* ", "**Asthma.** It eliminates. "),
    (r"\*\*Asthma\.\*\* ", "**Athsma.** "),
    (r"\*\*Weight\.\*\*[^\n]+", ""),
]
SPOILED_TABLE = [
    ("## Color", "## Colour"),
    ("- red: ", "- rot: "),
    ("Malaria", "Malraia"),
    ("- gray: .*\n", ""),
    ("–", "Gout"),
]
SPOILED_SYMBOLS = [
    ("Color", "Colour"),
    ('"red"', '"rot"'),
    ("Malaria", "Malraia"),
    (" -> not", " ->"),
    (r"\[0, 9\]", "[0, 8]"),
]


def test_books_are_written_and_read_as_on_record():
    task, domain = game_of(*TESTS)
    parts = [_articles(ARTICLES)]
    books = {style: write_book(task, domain, style) for style in BOOK_STYLES}
    for style, book in books.items():
        parts += ["", f"##### {style}", book]
        assert style in ("long", "noisy") or not changed(book, task, domain, style)
    for style, spoiled in (("prose", SPOILED), ("table", SPOILED_TABLE), ("symbolic", SPOILED_SYMBOLS)):
        for old, new in spoiled:
            book = re.sub(old, new, books[style], count=1)
            assert book != books[style], old
            try:
                told = read_book(book, task, domain, style)
                differing = {name: read for name, read in told.items() if read != table_of(task)[name]}
                said = {name: {place: sorted(gone) for place, gone in read.items()} for name, read in differing.items()}
            except BookError as error:
                said = f"refused: {error}"
            parts += ["", f"{style}: {old} -> {new}", f"    {said}"]
    check_golden("kumo_books", "\n".join(parts))


def test_a_truth_without_a_definition_and_words_in_place_of_a_range_are_noticed():
    actions = (Action("Smell", "str", (State("low to high", ("Gout",)), State("none", ()))),)
    task, domain = game_of(*actions)
    book = write_book(task, domain)
    with pytest.raises(BookError, match="Asthma, Migraine: no definition"):
        read_book(re.sub(r"\*\*(Asthma|Migraine)\.\*\* ", "", book), task, domain)
    symbols = write_book(task, domain, "symbolic")
    assert not changed(symbols, task, domain, "symbolic")
    with pytest.raises(BookError, match="is none of its outcomes"):
        read_book(symbols.replace('"low to high"', "[low, high]"), task, domain, "symbolic")


SAID = [
    ("A result of “sweet” rules out {}.", GONE),
    ("A result of “sweet” will rule out {}.", GONE),
    ("RULED OUT by “sweet”: {}.", GONE),
    ("Ruling out {} takes “sweet”.", GONE),
    ("Excluding {} takes “sweet”.", GONE),
    ("Given “sweet”, {} are eliminated.", GONE),
    ("Strike off {} after “sweet”.", GONE),
    ("{} are struck off after “sweet”.", GONE),
    ("Cross off {} after “sweet”.", GONE),
    ("{} are crossed off after “sweet”.", GONE),
    ("It cannot be {} after “sweet”.", GONE),
    ("“sweet”, as of butter, excludes {}.", GONE),
    ("“sweet” excludes all but {}.", ("Asthma", "Migraine")),
    ("“sweet” excludes all except {}.", ("Asthma", "Migraine")),
    ("“sweet” excludes all save {}.", ("Asthma", "Migraine")),
    ("After “sweet” only {} are left.", ("Asthma", "Migraine")),
    ("“sweet” excludes no disease.", ()),
    ("Nothing is ruled out by “sweet”.", ()),
    ("Of the diseases “sweet” rules out none.", ()),
    ("Neither “sweet” nor anything else rules out a disease.", ()),
    ("“sweet” is typical of {}.", "unclear"),
    ("“sweet” crosses {}.", "unclear"),
    ("“sweet” can be {}.", "unclear"),
    ("“sweet” rules a disease.", "unclear"),
    ("“sweet” rules out another disease.", "unclear"),
    ("“sweet” is no disease.", "unclear"),
    ("“sweet” rules out nothing. It cannot be told.", ()),
    ("“sweet” rules out nothing. Gout is one.", "no outcome"),
    ("“sweet” rules out nothing. Excluding is hard.", "no outcome"),
    ("“sweet” rules out nothing. It eliminates.", "no outcome"),
    ("“sweet” rules out {}; nothing is excluded by “sweet”.", "told twice"),
]


@pytest.mark.parametrize(("said", "meant"), SAID)
def test_what_a_sentence_rules_out_is_read_from_its_words(said, meant):
    task, domain = game_of(Action("Smell", "str", (State("sweet", ()), State("sour", ("Asthma",)))))
    parts = [f"**{truth}.** A disease." for truth in task.truths]
    parts.append(f"**Smell.** A test. “sour” excludes Asthma. {said.format(' and '.join(GONE))}")
    try:
        read = read_book("\n\n".join(parts), task, domain)["Smell"]
    except BookError as error:
        assert meant in str(error)
    else:
        assert read == {"sweet": {*meant}, "sour": {"Asthma"}}


def test_each_phrasing_of_a_domain_is_tried_and_what_is_wrong_with_it_told_once():
    domain = parse_domain(toy_yaml(), "toy")
    assert book_problems(domain) == []
    telling = {**domain.definitions, "Color": "Somebody excludes something."}
    unread = "domain 'toy': a book cannot be read back: "
    assert book_problems(dataclasses.replace(domain, definitions=telling)) == [
        f"{unread}Color: no outcome in 'Somebody excludes something.'"
    ]
    phrasings = Phrasings(
        ("Given {outcome}, {truths} fail.", "With {outcome}, exclude {truths}.", "{outcome} is bad for {truths}."),
        ("Of {outcome} nobody learns.",),
    )
    assert book_problems(dataclasses.replace(domain, phrasings=phrasings)) == [
        f"{unread}Color: unclear: 'Given …, … fail.'",
        f"{unread}Color: unclear: '… is bad for ….'",
        f"{unread}Weight: unclear: 'Of … g nobody learns.'",
    ]
    misread = Phrasings(("After {outcome} only {truths} are excluded.",))
    told = book_problems(dataclasses.replace(domain, phrasings=misread))
    assert told == ["domain 'toy': a book is read back as another table"]


@pytest.mark.slow
def test_the_pages_of_books_are_what_their_command_writes():
    for path, made in ((kumo_books.PAGE, kumo_books.page()), (kumo_books.SAMPLES, kumo_books.samples())):
        assert path.read_text(encoding="utf-8") == made, "run python -m benchmarks.kumo_books --page"
