"""Studies with people: what is kept whatever happens, who plays what, how far people agree, what a page may be told."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import math

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student_t
from statsmodels.stats.inter_rater import fleiss_kappa as their_kappa

from envs.files import FileError
from envs.kidgym import make
from evals.conversation import PlayedTurn, Record
from evals.human.page import Answer
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.people.agreement import fleiss_kappa
from evals.people.games import Games, assign, participants_needed
from evals.people.journal import ENDED, Entry, Journal
from evals.people.records import Taken, taken_by
from evals.people.rendering import rendered
from evals.people.seat import RefusedError, Seat, items_of
from evals.people.server import StudyServer
from evals.people.study import Check, Criterion, Participant, Pay, Plan, Study, participants_text, read_study
from evals.people.tables import against_table, participants_table, play_agreement_table, review_table
from evals.sessions.session import Session
from evals.suite import people_fingerprint
from evals.suites.bundle import Bundle
from evals.types import Episode, Outcome, Reply, message, stable_seed
from tests.toy import OPTIONS, ToySuite

GAMES = Games.of(ToySuite(episodes=3, turns=1))
CHECK = Check(question="Choose green.", options=("red", "green"), answer="green")
TEXTS = {"consent": "May we?", "instructions": "Play *well*.", "thanks": "Bye."}


def study_in(folder, people=1, **plan):
    given_plan = {
        "settings": ("suite=toy",),
        "players_per_game": 1,
        "games_per_participant": 3,
        "checks": (CHECK,),
        **plan,
    }
    participants = tuple(
        Participant(f"person-{number}", f"token-of-participant-{number}", f"CODE{number}", tuple(GAMES.by_id))
        for number in range(people)
    )
    return Study(folder, Plan(**given_plan), participants, TEXTS)


def seat_of(study, number=0, check_games=None):
    return Seat(study, study.participants[number], GAMES, check_games)


def choice(key, *choices, **given_times):
    return Answer(key, choices, **{"visible": 1.5, "hidden": 0.25, "ignored": 3, **given_times})


async def played_to_the_end(seat, pick=lambda state: 0):
    """All keys that were answered, and the states from the first to the last."""
    states = [await seat.state()]
    while states[-1]["phase"] != "over":
        state = states[-1]
        states.append(await seat.answer(choice(state["key"], *[pick(state)] * len(state.get("asks", [0])))))
    return [state["key"] for state in states[:-1]], states


# --- the journal -----------------------------------------------------------------------------------------------------

ENTRIES = [
    Entry("consent", 0, ("agreed",)),
    Entry("a", 0, ("x",), 1.5, 0.5, 2),
    Entry("a", ENDED),
    Entry("ä", 1, ("ö",)),
]


@pytest.mark.parametrize("again", [True, False])
def test_a_journal_that_is_cut_anywhere_holds_its_whole_lines_and_goes_on(tmp_path, monkeypatch, again):
    monkeypatch.setattr("evals.people.journal.os.fsync", lambda file: None)  # takes a while, and no machine dies here
    path = tmp_path / "person.jsonl"
    journal = Journal(path)
    for entry in ENTRIES:
        journal.add(entry)
    content = path.read_bytes()
    for cut in sorted({*range(0, len(content), 41), *range(len(content) - 3, len(content) + 1)}):
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        after = Journal.read(path)
        assert sum(map(len, after.items.values())) == whole
        for entry in ENTRIES if again else ENTRIES[whole:]:  # what is written twice counts once
            after.add(entry)
        found = Journal.read(path)
        assert [one for steps in found.items.values() for one in steps.values()] == ENTRIES and found == after
        assert [*after.items] == ["consent", "a", "ä"]
        assert path.read_bytes() == content and path.stat().st_mode & 0o077 == 0


def test_the_longest_option_of_a_check_is_read_again_and_a_longer_one_is_refused(tmp_path):
    for letter in ("x", "\N{GRINNING FACE}"):
        check = Check(question="Which?", options=(longest := 1000 * letter, "no"), answer="no")
        journal = Journal(tmp_path / f"{ord(letter)}.jsonl")
        journal.add(Entry("a", 0, (check.options[0],)))
        journal.add(Entry("a", ENDED))
        assert Journal.read(journal.path).items == journal.items
        with pytest.raises(ValueError, match="at most 1000 characters"):
            Check(question="Which?", options=(f"{longest}!", "no"), answer="no")


def test_half_a_line_that_is_longer_than_the_next_is_cut_off(tmp_path):
    journal = Journal(tmp_path / "person.jsonl")
    journal.add(ENTRIES[1])
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"item":"a' + b"a" * 500)
    journal.add(ENTRIES[2])
    content = journal.path.read_bytes()
    assert content.startswith(whole) and content.count(b"\n") == 2 and content.endswith(b"\n")
    assert Journal.read(journal.path) == journal


def test_a_long_journal_goes_on_after_its_last_whole_line(tmp_path):
    journal = Journal(tmp_path / "person.jsonl")
    for number in range(3):
        journal.add(Entry("a", number, (800_000 * "xyz"[number],)))
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"item":"a' + b"a" * 900_000)
    journal.add(Entry("b", 0, ("x",)))
    content = journal.path.read_bytes()
    assert content.startswith(whole) and content.count(b"\n") == 4 and content.endswith(b"\n")
    assert Journal.read(journal.path) == journal


def test_the_first_answer_to_a_question_stands(tmp_path):
    journal = Journal(tmp_path / "person.jsonl")
    journal.add(Entry("a", 0, ("x",)))
    journal.add(Entry("a", 0, ("y",)))
    assert Journal.read(journal.path).items["a"][0].choices == ("x",)


@pytest.mark.parametrize(
    "line",
    ["[]", "{}", '{"item": 1}', "x", json.dumps({"item": "a", "step": True, "choices": []})]
    + [
        json.dumps({**dataclasses.asdict(Entry("a", 0, ("x",))), name: time})
        for name in ("visible", "hidden")
        for time in (-1, "nan", "inf", 10**400)
    ],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "person.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(FileError, match="line 1"):
        Journal.read(path)


@pytest.mark.parametrize("answers", [[0], []])
async def test_a_game_that_ended_without_a_choice_is_a_failed_one(tmp_path, answers):
    study = study_in(tmp_path)
    journal, game = Journal(study.answers_of(study.participants[0])), study.participants[0].games[0]
    for step in (*answers, ENDED):
        journal.add(Entry(game, step))
    [record] = (await taken_by(study, study.participants[0], GAMES, None)).records
    assert "not offered" in record.error


def test_pay_is_a_number(tmp_path):
    (tmp_path / "study.yaml").write_text(
        "{settings: [suite=toy], players_per_game: 1, games_per_participant: 1, pay: {base: .nan}}"
    )
    with pytest.raises(FileError, match=r"pay\.base"):
        read_study(tmp_path)


# --- a participant ---------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["answer", "again", "other", "restart", "stale"]), max_size=30))
@settings(deadline=None, max_examples=40)
def test_answers_count_once_whatever_is_repeated_lost_or_restarted(tmp_path_factory, acts):
    study = study_in(tmp_path_factory.mktemp("study"))

    async def act():
        seat, last = seat_of(study), None
        answered = {}
        for kind in acts:
            state = await seat.state()
            if state["phase"] == "over":
                break
            if kind == "restart":
                seat = seat_of(study)
            elif kind == "answer":
                last = choice(state["key"], 1 if "asks" in state else 0)
                await seat.answer(last)
                answered[last.key] = last
            elif kind == "stale":
                with pytest.raises(RefusedError):
                    await seat.answer(choice("nonsense/7", 0))
            elif last is not None:
                assert await seat.answer(last if kind == "again" else choice(last.key, 0)) == state
        kept = Journal.read(study.answers_of(study.participants[0])).items
        assert {f"{item}/{step}" for item, steps in kept.items() for step in steps if step != ENDED} == answered.keys()
        assert (await seat.state()) == (await seat_of(study).state()), "a new server shows what the old one did"

    asyncio.run(act())


async def test_a_participant_goes_through_pages_games_and_checks_and_gets_a_code(tmp_path):
    study = study_in(tmp_path)
    keys, states = await played_to_the_end(seat_of(study))
    first, second, third = study.participants[0].games  # of two, one and two turns
    assert keys == [
        *("consent/0", "instructions/0", f"{first}/0", f"{first}/1", f"{second}/0", f"{CHECK.key}/0"),
        *(f"{third}/0", f"{third}/1"),
    ]
    at = [state.get("progress") and (state["progress"]["at"], state["progress"]["of"]) for state in states]
    assert at == [None, None, (1, 4), (1, 4), (2, 4), (3, 4), (4, 4), (4, 4), (4, 4)]
    assert [state.get("button") for state in states[:2]] == ["I agree and take part", "Begin"]
    assert states[2]["progress"]["word"] == "Game" and "<em>well</em>" in states[2]["help"] == states[5]["help"]
    assert states[5]["shown"] == [{"text": "Choose green."}] and states[5]["asks"][0]["options"] == ["red", "green"]
    assert states[-1]["code"] == "CODE0" and states[-1]["html"] == "<p>Bye.</p>\n"
    kept = Journal.read(study.answers_of(study.participants[0])).items
    assert kept[third] == {
        **{step: Entry(third, step, (OPTIONS[0],), 1.5, 0.25, 3) for step in range(2)},
        **{ENDED: Entry(third, ENDED)},
    }
    state = await seat_of(study_in(tmp_path / "other")).state()
    assert state["phase"] == "page" and "progress" not in state and "CODE0" not in json.dumps(state)


@pytest.mark.parametrize("choices", [(), (0, 0), (-1,), (1,)])
async def test_what_is_not_offered_is_refused_and_not_kept(tmp_path, choices):
    study = study_in(tmp_path)
    with pytest.raises(ValueError, match=r"option|each thing"):
        await seat_of(study).answer(choice("consent/0", *choices))
    assert not study.answers_of(study.participants[0]).exists()


@pytest.mark.parametrize("step", ["1", 9 * "9", 5_000 * "9", "-1", "\N{SUPERSCRIPT TWO}", ""])
async def test_an_answer_to_a_step_that_is_not_in_hand_is_refused(tmp_path, step):
    study = study_in(tmp_path)
    with pytest.raises(RefusedError):
        await seat_of(study).answer(choice(f"consent/{step}", 0))
    assert not study.answers_of(study.participants[0]).exists()


async def test_a_full_disk_loses_no_answer_that_was_confirmed(tmp_path, monkeypatch):
    study = study_in(tmp_path)
    seat = seat_of(study)
    await seat.answer(choice("consent/0", 0))
    before = study.answers_of(study.participants[0]).read_bytes()
    with monkeypatch.context() as full:
        full.setattr("evals.people.journal.os.fsync", lambda file: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            await seat.answer(choice("instructions/0", 0))
    assert study.answers_of(study.participants[0]).read_bytes() == before
    assert (await seat.state())["key"] == "instructions/0"
    assert (await seat.answer(choice("instructions/0", 0)))["phase"] == "question"


async def test_records_are_those_of_the_person_and_checks_are_apart(tmp_path):
    check_games = Games.of(ToySuite(episodes=1, turns=2))
    study = study_in(tmp_path, check_games=("suite.turns=2",), pay=Pay(base=5, success=2, step=-0.5))
    await played_to_the_end(seat_of(study, check_games=check_games))
    taken = await taken_by(study, study.participants[0], GAMES, check_games)
    assert taken.finished and taken.begun and (taken.checks_seen, len(taken.records)) == (2, 3)
    ids = {GAMES.for_person(game, "person-0").id for game in GAMES.by_id}
    assert {record.episode.id for record in taken.records} == ids and all(record.done for record in taken.records)
    assert all(turn.reply.seconds == 1.5 for record in taken.records for turn in record.turns)
    counted = taken.answers
    assert (taken.visible, taken.hidden) == (1.5 * counted, 0.25 * counted), "pages of text do not count"


def test_ids_of_people_depend_on_the_version_of_their_words(monkeypatch):
    suite = ToySuite()
    before = people_fingerprint(suite)
    monkeypatch.setattr(ToySuite, "people_version", 2)
    assert people_fingerprint(suite) != before


async def test_reviewers_of_a_question_without_a_known_answer_see_that_there_is_none(tmp_path):
    class Open(ToySuite):
        async def play(self, episode, conversation):
            await conversation.ask((message("user", "What do you see?"),), options=OPTIONS)
            return Outcome(True, 1)

    criteria = (Criterion(name="clear", question="Clear?"),)
    study = study_in(tmp_path, kind="review", checks=(), criteria=criteria)
    seat = Seat(study, study.participants[0], Games(Open(), GAMES.by_id), None)
    await seat.answer(choice("consent/0", 0))
    state = await seat.answer(choice("instructions/0", 0))
    assert state["given"] == "Answer given: none" and [each["name"] for each in state["asks"]] == ["clear"]


async def test_a_check_game_whose_answers_no_longer_fit_is_not_passed(tmp_path):
    check_games = Games.of(ToySuite(episodes=1, turns=1))
    study = study_in(tmp_path, checks=(), check_games=("suite.turns=1",))
    [checked], [person] = check_games.by_id, study.participants
    journal = Journal(study.answers_of(person))
    journal.add(Entry(f"check-{checked}", 0, ("a color of an older version",)))
    journal.add(Entry(f"check-{checked}", ENDED))
    taken = await taken_by(study, person, GAMES, check_games)
    assert (taken.checks_passed, taken.checks_seen, taken.answers) == (0, 1, 1)


async def test_a_reviewed_game_is_closed_before_its_answer_is_judged(tmp_path, monkeypatch):
    closed = []
    close = Session.close
    monkeypatch.setattr(Session, "close", lambda self: closed.append(self) or close(self))
    study = study_in(tmp_path, kind="review", checks=(), criteria=(Criterion(name="correct", question="Right?"),))
    seat = seat_of(study)
    await seat.answer(choice("consent/0", 0))
    state = await seat.answer(choice("instructions/0", 0))
    assert state["asks"] and len(closed) == 1


async def after_the_pages(seat) -> dict:
    """What is asked first, once consent is given and the instructions are read."""
    await seat.answer(choice("consent/0", 0))
    return await seat.answer(choice("instructions/0", 0))


async def test_reviewers_judge_the_answer_of_the_suite(tmp_path):
    criteria = (Criterion(name="correct", question="Right?"), Criterion(name="clear", question="Clear?"))
    study = study_in(tmp_path, people=2, kind="review", checks=(), criteria=criteria)
    for number in range(2):
        await played_to_the_end(seat_of(study, number))
    taken = [await taken_by(study, each, GAMES, None) for each in study.participants]
    assert [len(each.reviews) for each in taken] == [3, 3] and not taken[0].records
    table = review_table(taken, study.plan, GAMES)
    assert {row[0] for row in table.rows} == {"correct", "clear"} and all(row[2].mean == 1 for row in table.rows)
    seat = seat_of(study_in(tmp_path / "third", kind="review", checks=(), criteria=criteria))
    state = await after_the_pages(seat)
    assert [ask["name"] for ask in state["asks"]] == ["correct", "clear"] and state["progress"]["word"] == "Question"
    game = GAMES.by_id[study.participants[0].games[0]]
    assert state["given"] == f"Answer given: {OPTIONS[stable_seed(game.seed, 0) % 3]}"
    assert [part["text"] for part in state["shown"]] == [
        *("Kind of question: colors, easy", "Game 0, question 0?", "Choices:\nred\ngreen\nblue"),
    ]
    assert [(ask["text"], ask["options"]) for ask in state["asks"]] == [
        (f"{each}?", ["yes", "no"]) for each in ("Right", "Clear")
    ]


async def test_answers_of_reviewers_stay_with_their_criteria_when_these_are_edited(tmp_path):
    right, clear = Criterion(name="right", question="Right?"), Criterion(name="clear", question="Clear?")
    study = study_in(tmp_path, kind="review", checks=(), criteria=(right, clear))
    seat = seat_of(study)
    state = await after_the_pages(seat)
    while state["phase"] != "over":  # everything is right, nothing is clear
        state = await seat.answer(choice(state["key"], 0, 1))

    async def shares(*criteria):
        edited = dataclasses.replace(study, plan=study.plan.model_copy(update={"criteria": criteria}))
        table = review_table([await taken_by(edited, study.participants[0], GAMES, None)], edited.plan, GAMES)
        return {row[0]: row[2].mean for row in table.rows if row[1] == "all"}, table.notes[1:]

    reworded = Criterion(name="clear", question="Is it clear?")
    lacks = "left out: 3 answers to criteria that study.yaml no longer has, or not in these words"
    assert await shares(right, clear) == ({"right": 1, "clear": 0}, ())
    assert await shares(clear, right) == ({"clear": 0, "right": 1}, ())
    assert await shares(clear) == ({"clear": 0}, (lacks,))
    assert await shares(reworded, right) == ({"right": 1}, (lacks,))
    assert await shares(reworded, clear, right) == ({"clear": 0, "right": 1}, ())


async def test_a_page_that_shows_other_criteria_than_there_are_now_is_refused(tmp_path):
    """Choices are numbers: by the server's new order, a page that was left open would judge another criterion."""
    right, clear = Criterion(name="right", question="Right?"), Criterion(name="clear", question="Clear?")
    study = study_in(tmp_path, kind="review", checks=(), criteria=(right, clear))
    seat = seat_of(study)
    state = await after_the_pages(seat)
    edited = dataclasses.replace(study, plan=study.plan.model_copy(update={"criteria": (clear, right)}))
    again = seat_of(edited)
    with pytest.raises(RefusedError):
        await again.answer(choice(state["key"], 0, 1))
    shown = await again.state()
    assert [ask["name"] for ask in shown["asks"]] == ["clear", "right"] and shown["key"] != state["key"]
    following = await again.answer(choice(shown["key"], 0, 1))
    assert following["progress"]["at"] == 2
    # sent once more, the page has a lost answer's key and goes on
    assert await again.answer(choice(shown["key"], 0, 1)) == following
    assert (await seat_of(study).state())["progress"]["at"] == 2, "what was answered stays answered"


async def test_reviews_of_older_versions_are_read_by_the_order_of_the_criteria(tmp_path):
    right, clear = Criterion(name="right", question="Right?"), Criterion(name="clear", question="Clear?")
    study = study_in(tmp_path, kind="review", checks=(), criteria=(right, clear))
    [one] = study.participants
    path = study.answers_of(one)
    path.parent.mkdir()
    old = {"step": 0, "choices": ["yes", "no"], "visible": 1, "hidden": 0, "ignored": 0}
    path.write_text(json.dumps({"item": one.games[0], **old}) + "\n")
    taken = await taken_by(study, one, GAMES, None)
    assert taken.reviews == {one.games[0]: {right.key: "yes", clear.key: "no"}}
    fewer = dataclasses.replace(study, plan=study.plan.model_copy(update={"criteria": (clear,)}))
    with pytest.raises(FileError, match=r"a review answers 2 criteria, where study\.yaml has 1: restore"):
        await taken_by(fewer, one, GAMES, None)
    more = dataclasses.replace(study, plan=study.plan.model_copy(update={"criteria": (right, clear, right)}))
    with pytest.raises(FileError, match=r"a review answers 2 criteria, where study\.yaml has 3: restore"):
        await taken_by(more, one, GAMES, None)
    for asked in ("right", ["right"], [1, 2]):
        path.write_text(json.dumps({"item": one.games[0], **old, "asked": asked}) + "\n")
        with pytest.raises(FileError, match="line 1 is no answer"):
            await taken_by(study, one, GAMES, None)


def test_two_criteria_of_one_name_are_refused():
    two = tuple(Criterion(name="right", question=each) for each in ("Right?", "Is it right?"))
    with pytest.raises(ValueError, match="the name 'right' stands twice"):
        Plan(settings=(), players_per_game=1, games_per_participant=1, criteria=two)


# --- who plays what --------------------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 8))
def test_every_game_gets_its_players_and_none_many_more(games, players, each):
    ids = [f"game-{number}" for number in range(games)]
    people = [f"person-{number}" for number in range(participants_needed(games, players, each))]
    assigned = assign(ids, people, each, {})
    counts = [sum(game in mine for mine in assigned.values()) for game in ids]
    assert min(counts) >= players and max(counts) - min(counts) <= 1
    assert all(len({*mine}) == len(mine) == min(each, games) for mine in assigned.values())
    assert assigned == assign(ids, people, each, {}), "by the names alone"
    fewer = assign(ids, people[:-1], each, {}).values()
    assert min(sum(game in mine for mine in fewer) for game in ids) < players, "nobody more is needed"


def test_each_game_belongs_to_its_part_of_a_bundle():
    @dataclasses.dataclass(frozen=True)
    class Other(ToySuite):
        name = "other"

        def plan(self):
            return [dataclasses.replace(game, suite="other") for game in super().plan()]

    bundle = Bundle("both", (ToySuite(episodes=2), Other(episodes=3)))
    games = Games.of(bundle)
    assert [games.part(game) for game in games.by_id.values()] == 2 * [bundle.suites[0]] + 3 * [bundle.suites[1]]
    assert {game.player for game in games.by_id.values()}.isdisjoint({"person-a"})
    [*_, last] = games.by_id
    assert (games.for_person(last, "person-a").player, games.for_person(last, "person-a").index) == ("person-a", 2)


@dataclasses.dataclass(frozen=True)
class Repeating(ToySuite):
    """Each game several times, in several modes."""

    repeats: int = 1
    modes: int = 1

    def plan(self):
        numbers = itertools.product(range(self.modes), range(self.repeats))
        return [
            dataclasses.replace(game, mode=f"mode-{mode}", repeat=repeat)
            for mode, repeat in numbers
            for game in super(Repeating, self).plan()
        ]


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_repeats_of_a_game_are_one_game_for_people(count, repeats, modes):
    games = Games.of(Repeating(count, repeats=repeats, modes=modes))
    chosen = [games.by_id[game] for game in games.different]
    assert len(games.by_id) == count * repeats * modes, "a study that has begun with repeats goes on"
    assert sorted((game.mode, game.index) for game in chosen) == [
        (f"mode-{mode}", index) for mode in range(modes) for index in range(count)
    ]
    assert {game.repeat for game in chosen} == {0}


@pytest.mark.parametrize("repeats", [1, 3])
async def test_each_check_game_is_played_once(tmp_path, repeats):
    checks = Games.of(Repeating(episodes=2, turns=1, repeats=repeats))
    study = study_in(tmp_path, checks=())
    seat = seat_of(study, check_games=checks)
    assert sum(item.kind == "check_game" for item in seat._items) == 2
    taken = await taken_by(study, study.participants[0], GAMES, checks)
    assert not taken.finished


def test_new_participants_play_what_lacks_players():
    assigned = assign(["a", "b", "c", "d"], ["p", "q", "r"], 2, {"a": 2, "b": 3, "d": 0, "of another study": 0})
    assert {*assigned["p"]} == {*assigned["q"]} == {"c", "d"} and "b" not in assigned["r"]


def test_checks_stand_between_the_games(tmp_path):
    study = study_in(tmp_path)
    [person] = study.participants
    first, second, third = person.games
    keys = [item.key for item in items_of(study, person, ["x", "y"])]
    assert keys == ["consent", "instructions", first, CHECK.key, second, "check-x", "check-y", third]
    assert [item.kind for item in items_of(study, person, ["x"])[3:6]] == ["check", "game", "check_game"]
    review = study_in(tmp_path, kind="review", checks=())
    assert [item.kind for item in items_of(dataclasses.replace(review, texts={"consent": " "}), person)] == [
        "review"
    ] * 3


# --- agreement -------------------------------------------------------------------------------------------------------

TABLES = st.integers(2, 5).flatmap(
    lambda raters: st.lists(st.lists(st.integers(0, 3), min_size=raters, max_size=raters), min_size=2, max_size=12)
)


@given(TABLES)
def test_kappa_is_that_of_statsmodels(rows):
    ours = fleiss_kappa([(game, category) for game, row in enumerate(rows) for category in row])
    counts = np.array([[row.count(category) for category in range(4)] for row in rows])
    if (counts.sum(0) > 0).sum() == 1:
        assert math.isnan(ours.kappa.mean)
    else:
        assert ours.kappa.mean == pytest.approx(their_kappa(counts), abs=1e-9)
    assert ours.ratings == counts.sum() and ours.kappa.n == len(rows)
    low, high = ours.kappa.low, ours.kappa.high
    assert len(rows) > 4 or (math.isnan(low) and math.isnan(high)), "too few games for an interval"
    assert math.isnan(low) or -1 <= low <= ours.kappa.mean <= high <= 1
    pairs = [(game, category) for game, row in enumerate(rows) for category in row]
    without = [fleiss_kappa([pair for pair in pairs if pair[0] != game]).kappa.mean for game in range(len(rows))]
    error = math.sqrt(np.var(without) * (len(rows) - 1))  # the jackknife's
    if not math.isnan(low):
        margin = student_t.ppf(0.975, len(rows) - 1) * error
        assert (low, high) == (
            pytest.approx(max(-1, ours.kappa.mean - margin)),
            pytest.approx(min(1, ours.kappa.mean + margin)),
        )


def test_kappa_by_hand_and_with_unequal_numbers():
    # P = (1 + 1/3) / 2, categories 4/5 and 1/5: P_e = .68
    ours = fleiss_kappa([(1, "a"), (1, "a"), (2, "a"), (2, "a"), (2, "b"), (3, "b")])
    assert (ours.observed, ours.chance) == (pytest.approx(2 / 3), pytest.approx(0.68))
    assert ours.kappa.mean == pytest.approx((2 / 3 - 0.68) / 0.32) and math.isnan(ours.kappa.low)
    assert fleiss_kappa([(1, "a"), (2, "a")]) is None


def test_the_interval_of_kappa_covers_the_truth():
    """Two raters who agree with probability .8 on a fair coin: kappa .6."""
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        first = draw.integers(0, 2, 60)
        second = np.where(draw.random(60) < 0.8, first, 1 - first)
        kappa = fleiss_kappa([*enumerate(first.tolist()), *enumerate(second.tolist())]).kappa
        covered += kappa.low <= 0.6 <= kappa.high
    assert 0.91 <= covered / 300 <= 0.99


# --- what is told of participants ------------------------------------------------------------------------------------


async def test_everything_that_a_participant_did_is_counted_in_its_own_field(tmp_path):
    """One check of two passed, a check game won, two games of three ended, one begun; all amounts differ."""
    check_games = Games.of(ToySuite(episodes=1, turns=1))
    blue = Check(question="Choose blue.", options=("red", "blue"), answer="blue")
    study = study_in(tmp_path, checks=(CHECK, blue), check_games=("suite.turns=1",))
    [person] = study.participants
    first, second, third = person.games  # of two, one and two turns
    [checked] = check_games.by_id

    def right(game, step):
        return OPTIONS[stable_seed(game.seed, step) % len(OPTIONS)]

    answers = [("consent", 0, "agreed"), ("instructions", 0, "agreed")]
    answers += [(first, step, right(GAMES.by_id[first], step)) for step in range(2)] + [(first, ENDED, "")]
    answers += [(CHECK.key, 0, "green"), (blue.key, 0, "red")]
    answers += [(f"check-{checked}", step, right(check_games.by_id[checked], step)) for step in range(2)]
    wrong = next(color for color in OPTIONS if color != right(GAMES.by_id[second], 0))
    answers += [(f"check-{checked}", ENDED, ""), (second, 0, wrong), (second, ENDED, ""), (third, 0, "red")]
    journal = Journal(study.answers_of(person))
    counted = []
    for number, (item, step, chosen) in enumerate(answers):
        times = (2.0**number, 3.0**number, 5**number) if step != ENDED else ()
        entry = Entry(item, step, (chosen,) if chosen else (), *times)
        journal.add(entry)
        if times and number > 1:  # pages of text take no time that counts
            counted.append(entry)
    taken = await taken_by(study, person, GAMES, check_games)
    assert dataclasses.replace(taken, records=()) == Taken(
        *(person, (), {}, 2, 3, False, sum(each.visible for each in counted)),
        *(sum(each.hidden for each in counted), 8, sum(each.ignored for each in counted)),
    )
    assert taken.begun and [record.outcome.success for record in taken.records] == [True, False]
    assert [[turn.reply.seconds for turn in record.turns] for record in taken.records] == [[4.0, 8.0], [1024.0]]
    assert [record.seconds for record in taken.records] == [12.0, 1024.0], "those in sight, not those of the replay"


def a_record(game, *replies, won=True, steps=1, done=True):
    turns = tuple(PlayedTurn(None, Reply(text)) for text in replies)
    return Record(game, Outcome(won, steps) if done else None, "" if done else "PlayerError: no", turns, 0.0)


def an_episode(index, level="easy", suite="toy"):
    return Episode(suite, "colors", level, "plain", index, 0, index, "", 9)


def test_the_table_of_participants_has_each_amount_in_its_column():
    records = [a_record(an_episode(index), won=index != 1, steps=index + 2) for index in range(3)]
    records.append(a_record(an_episode(4), done=False))
    people = [Participant(f"person-{name}", f"token {name}", f"CODE {name}", ("g",)) for name in "abc"]
    taken = [
        Taken(people[0], tuple(records), {}, 5, 6, True, 66.0, 30.3, 7, 8),
        Taken(people[1], (), {"g": ("yes",), "h": ("no",)}, 0, 1, False, 0.0, 0.0, 2, 0),
        Taken(people[2], (), {}, 0, 0, True, 1.0, 0.0, 0, 0),
    ]
    plan = {"settings": ("suite=toy",), "players_per_game": 1, "games_per_participant": 3}
    paid = Plan(**plan, pay=Pay(currency="EUR", base=5, success=3, step=-0.25))
    table = participants_table(taken, paid)
    assert (table.name, table.title) == ("people_participants", "Participants")
    assert table.columns == (
        *("person", "code", "finished", "games", "won", "checks_passed", "checks_seen"),
        *("minutes", "minutes_hidden", "answers", "clicks_ignored", "pay"),
    )
    assert table.rows == (  # 5 + 3 * 2 / 3 - 9 / 4; a failed game is neither won nor lost
        ("person-a", "CODE a", "yes", 4, 2, 5, 6, 1.1, 0.51, 7, 8, 4.75),
        ("person-b", None, "no", 2, 0, 0, 1, 0.0, 0.0, 2, 0, None),
        ("person-c", "CODE c", "yes", 0, 0, 0, 0, 0.02, 0.0, 0, 0, 5.0),
    )
    assert "in EUR" in table.notes[0] and [each.begun for each in taken] == [True, True, False]
    assert {row[4] for row in participants_table(taken, Plan(**plan, kind="review")).rows} == {None}
    assert Pay(base=1, success=1, step=-1).of(0.5, 7) == 0, "nobody owes anything"


@given(st.integers(0, 10_000_000))
def test_pay_is_shown_to_the_cent(cents):
    plan = {"settings": ("suite=toy",), "players_per_game": 1, "games_per_participant": 1}
    person = Participant("person-a", "token a", "CODE a", ("g",))
    taken = Taken(person, (), {}, 0, 0, True, 1.0, 0.0, 1, 0)
    table = participants_table([taken], Plan(**plan, pay=Pay(base=cents / 100)))
    whole, rest = divmod(cents, 100)
    shown = table.to_markdown().splitlines()[4]
    assert shown.endswith(f"| {whole}.{rest:02d} |")
    assert float(table.to_csv().splitlines()[1].rpartition(",")[2]) == cents / 100


def test_agreement_is_over_choices_in_games_of_one_turn_and_over_outcomes_in_longer_ones():
    one = [a_record(an_episode(0), "red"), a_record(an_episode(1), "red", won=False)]
    one += [a_record(an_episode(0, "hard"), "red", "red"), a_record(an_episode(0, suite="other"), "red")]
    other = [a_record(an_episode(0), "red", won=False), a_record(an_episode(1), "blue"), a_record(an_episode(2), "x")]
    other += [a_record(an_episode(0, "hard"), "blue"), a_record(an_episode(3, "hard"), "a", "b", "c", done=False)]
    person = Participant("person-a", "token", "CODE", ())
    taken = [Taken(person, tuple(records), {}, 0, 0, True, 0.0, 0.0, 1, 0) for records in (one, other)]
    table = play_agreement_table(taken)
    assert (table.name, table.title) == ("people_agreement", "Agreement between people")
    easy, hard, alone = table.rows
    assert easy[:7] == ("toy", "easy", "choice", 2, 4, 0.5, 0.625) and easy[7].mean == pytest.approx(-1 / 3)
    assert hard[:7] == ("toy", "hard", "won or lost", 1, 2, 1.0, 1.0)
    assert alone == ("other", "easy", "choice", 0, 0, None, None, None), "nobody to agree with"


def test_reviews_are_told_by_criterion_and_level_and_over_all():
    by_id = {f"g{index}": an_episode(index, level) for index, level in enumerate(("hard", "easy", "easy"))}
    criteria = (Criterion(name="right", question="Right?"), Criterion(name="clear", question="Clear?"))
    plan = Plan(settings=(), players_per_game=1, games_per_participant=3, kind="review", criteria=criteria)
    reviews = [
        {"g1": ("yes", "no"), "g2": ("yes", "yes"), "g0": ("no", "yes")},
        {"g1": ("no", "no"), "g0": ("no", "yes")},
    ]
    person = Participant("person-a", "token", "CODE", ())
    right, clear = (criterion.key for criterion in criteria)
    keyed = [{game: dict(zip((right, clear), said, strict=True)) for game, said in each.items()} for each in reviews]
    taken = [Taken(person, (), each, 0, 0, True, 0.0, 0.0, 1, 0) for each in keyed]
    table = review_table(taken, plan, Games(ToySuite(), by_id))
    assert (table.name, table.title) == ("people_reviews", "Reviews of questions")
    assert [(*row[:2], round(row[2].mean, 3), *row[3:6]) for row in table.rows] == [
        ("right", "hard", 0.0, 1, 2, 1.0),
        ("right", "easy", 0.667, 1, 2, 0.0),
        ("right", "all", 0.4, 2, 4, 0.5),
        ("clear", "hard", 1.0, 1, 2, 1.0),
        ("clear", "easy", 0.333, 1, 2, 1.0),
        ("clear", "all", 0.6, 2, 4, 1.0),
    ]


def test_people_stand_beside_each_player_of_other_runs_on_the_games_that_both_have_played():
    def run(suite, **wins):
        """A run of games 0 to 3, of which each player has played those for which ``wins`` says how they ended."""
        games = {name: [an_episode(index, suite=suite).assigned(name, "") for index in range(4)] for name in wins}
        records = [
            a_record(games[name][index], won=won)
            for name, each in wins.items()
            for index, won in enumerate(each)
            if won is not None
        ]
        plan = plan_to_table([game for each in games.values() for game in each])
        return RunData.of_tables(plan, records_to_table(records, {}))

    people = run("toy", **{"person-a": [True, True, False, None], "person-b": [True, False, None, None]})
    models = {
        "one": run("toy", m=[True, False, False, True], oracle=[True, True, None, None]),
        "two": run("toy", m=[False, False, False, False]),
        "three": run("other", m=[True, True, True, True]),
    }
    table = against_table(people, ["person-a", "person-b"], models)
    assert (table.name, table.title) == ("people_against", "People and models on identical games")
    assert [(*row[:5], row[5].mean, row[6]) for row in table.rows] == [
        ("toy", "one: m", 3, 0.5, pytest.approx(1 / 3), pytest.approx(1 / 6), 1.0),
        ("toy", "one: oracle", 2, 0.75, 1.0, -0.25, 1.0),
        ("toy", "two: m", 3, 0.5, 0.0, 0.5, pytest.approx(0.5, abs=0.02)),
    ]
    assert table.notes[1:] == ("three: has finished none of the games that the people have finished",)
    assert against_table(people, ["person-b"], models).rows[0][2:5] == (2, 0.5, 0.5)


def test_games_of_each_suite_are_compared_with_games_of_that_suite():
    def run(name, wins):
        games = [an_episode(index, suite=suite).assigned(name, "") for suite in wins for index in range(3)]
        won = [each for outcomes in wins.values() for each in outcomes]
        records = [a_record(game, won=each) for game, each in zip(games, won, strict=True)]
        return RunData.of_tables(plan_to_table(games), records_to_table(records, {}))

    people = run("person-a", {"toy": [True, True, True], "other": [True, False, False]})
    model = run("m", {"other": [False, False, False], "toy": [True, False, True], "third": [True, True, True]})
    table = against_table(people, ["person-a"], {"run": model})
    assert [row[:5] for row in table.rows] == [
        ("other", "run: m", 3, pytest.approx(1 / 3), 0.0),
        ("toy", "run: m", 3, 1.0, pytest.approx(2 / 3)),
    ]


@pytest.mark.parametrize("differs", [{"task": "shapes"}, {"mode": "told"}, {"index": 1}, {"repeat": 1}, {"seed": 1}])
def test_choices_in_different_games_are_no_agreement(differs):
    game = an_episode(0)
    person = Participant("person-a", "token", "CODE", ())
    for other, games in ((game, 1), (dataclasses.replace(game, **differs), 0)):
        both = [(a_record(each, "red"),) for each in (game, other)]
        taken = [Taken(person, records, {}, 0, 0, True, 0.0, 0.0, 1, 0) for records in both]
        assert [row[:4] for row in play_agreement_table(taken).rows] == [("toy", "easy", "choice", games)]


# --- the server ------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def connected(study, host="study.example"):
    app = StudyServer(study, GAMES).app({"study.example"})
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
        yield client


async def test_only_links_open_anything_and_only_under_the_server_s_name(tmp_path):
    study = study_in(tmp_path)
    token = study.participants[0].token
    async with connected(study) as client:
        page = await client.get(f"/{token}/")
        assert page.status_code == 200 and "default-src 'self'" in page.headers["content-security-policy"]
        assert (await client.get(f"/{token}/state")).json()["key"] == "consent/0"
        for path in ("/", "/other/state", "/other/pictures/x.png"):
            assert (await client.get(path)).status_code == 404
        assert (await client.post("/other/answer", json={})).status_code == 404
    async with connected(study, "evil.example") as stranger:
        assert (await stranger.get(f"/{token}/state")).status_code == 400


async def test_a_picture_is_there_at_once_after_the_server_was_started_again(tmp_path, monkeypatch):
    frame = make("CL", 1, 1).frame

    class NewSeat(Seat):
        parts = ()

        async def state(self):
            self.parts = ("Which?", frame)
            return {}

    monkeypatch.setattr("evals.people.server.Seat", NewSeat)
    study = study_in(tmp_path)
    async with connected(study) as client:
        answer = await client.get(f"/{study.participants[0].token}/pictures/{frame.key}.png")
    assert answer.status_code == 200 and answer.content.startswith(b"\x89PNG")


async def test_the_server_answers_with_what_comes_next_and_refuses_the_rest(tmp_path, monkeypatch, caplog):
    study = study_in(tmp_path, people=2)
    one, other = (each.token for each in study.participants)
    async with connected(study) as client:
        given_answer = {"key": "consent/0", "choices": [0]}
        both = [client.post(f"/{one}/answer", json=given_answer) for _ in range(5)]
        assert {(await each).json()["key"] for each in both} == {"instructions/0"}
        assert (await client.get(f"/{other}/state")).json()["key"] == "consent/0", "participants do not meet"
        assert (await client.post(f"/{one}/answer", json={"key": "x/0", "choices": [0]})).status_code == 409
        assert (await client.post(f"/{one}/answer", content=b"[")).status_code == 400
        monkeypatch.setattr(Journal, "add", lambda *_: (_ for _ in ()).throw(OSError("full")))
        answer = {"key": "instructions/0", "choices": [0]}
        assert (await client.post(f"/{one}/answer", json=answer)).status_code == 503, "the page sends it again"
        assert [each.getMessage() for each in caplog.records] == ["an answer cannot be written: full"]


async def test_a_damaged_file_of_answers_keeps_its_own_participant_waiting_until_it_is_mended(tmp_path, caplog):
    study = study_in(tmp_path, people=2)
    one, other = (each.token for each in study.participants)
    path = study.answers_of(study.participants[0])
    path.parent.mkdir()
    path.write_text("{\n")
    async with connected(study) as client:
        for _ in range(2):
            assert (await client.get(f"/{one}/state")).status_code == 503, "the page asks again"
            assert (await client.post(f"/{one}/answer", json={})).status_code == 503
            assert (await client.get(f"/{other}/state")).status_code == 200
        [told] = caplog.records
        assert f"{path}: line 1 is no answer" in told.getMessage() and not told.exc_info
        path.unlink()
        assert (await client.get(f"/{one}/state")).json()["key"] == "consent/0"


async def test_each_damaged_file_is_told_once(tmp_path, caplog):
    study = study_in(tmp_path, people=2)
    paths = [study.answers_of(each) for each in study.participants]
    paths[0].parent.mkdir()
    async with connected(study) as client:
        for path, each in [*zip(paths, study.participants, strict=True)] * 2:
            path.write_text("{\n")
            assert (await client.get(f"/{each.token}/state")).status_code == 503
    assert [path.name in told.getMessage() for path, told in zip(paths, caplog.records, strict=True)] == [True, True]


async def test_times_and_early_clicks_are_kept_as_posted_up_to_a_bound(tmp_path):
    study = study_in(tmp_path)
    [person] = study.participants
    posted = [
        ("consent", {"visible": 2.5, "hidden": 7, "ignored": 9}),
        ("instructions", {"visible": 1e9, "ignored": 1e9}),
    ]
    posted += [(f"{person.games[0]}", {"hidden": 2e6})]
    async with connected(study) as client:
        for item, times in posted:
            answer = {"key": f"{item}/0", "choices": [0], **times}
            assert (await client.post(f"/{person.token}/answer", json=answer)).status_code == 200
    entries = [steps[0] for steps in Journal.read(study.answers_of(person)).items.values()]
    assert [(entry.visible, entry.hidden, entry.ignored) for entry in entries] == [
        (2.5, 7, 9),
        (1e6, 0, 10_000),
        (0, 1e6, 0),
    ]


def test_markdown_of_a_study_brings_no_html_and_no_script():
    html = rendered("# Hi\n<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![p](http://x/y.png) <http://a.b>")
    assert (
        "<h1>Hi</h1>" in html and "<img" not in html and 'href="javascript' not in html and 'href="http://a.b"' in html
    )


# --- the folder ------------------------------------------------------------------------------------------------------


def test_a_study_is_read_as_it_was_written_and_errors_name_the_place(tmp_path):
    study = study_in(tmp_path, people=2)
    (tmp_path / "study.yaml").write_text(json.dumps(study.plan.model_dump(mode="json")))
    (tmp_path / "participants.json").write_text(participants_text(study.participants))
    (tmp_path / "consent.md").write_text("May we?")
    found = read_study(tmp_path)
    assert (found.plan, found.participants) == (study.plan, study.participants)
    assert found.texts == {"consent": "May we?", "instructions": "", "thanks": ""}
    twice = [study.participants[0], study.participants[0]]
    (tmp_path / "participants.json").write_text(participants_text(twice))
    with pytest.raises(FileError, match=r"participants.json: names a person twice"):
        read_study(tmp_path)
    (tmp_path / "study.yaml").write_text("settings: [suite=toy]\nplayers_per_game: 0\ngames_per_participant: 1\n")
    with pytest.raises(FileError, match=r"study.yaml: players_per_game"):
        read_study(tmp_path)


def test_a_study_may_have_thousands_of_participants_and_long_texts(tmp_path):
    study = study_in(tmp_path)
    games = tuple(f"{number:032x}" for number in range(40))
    people = [Participant(f"person-{n}", f"token-of-participant-{n}", f"CODE{n}", games) for n in range(2_000)]
    (tmp_path / "study.yaml").write_text(json.dumps(study.plan.model_dump(mode="json")))
    (tmp_path / "participants.json").write_text(participants_text(people))
    (tmp_path / "consent.md").write_text(900_000 * "x")
    found = read_study(tmp_path)
    assert found.participants == tuple(people) and len(found.texts["consent"]) == 900_000
    assert found.by_token["token-of-participant-7"].person == "person-7"
    (tmp_path / "consent.md").write_text(1_000_001 * "x")
    with pytest.raises(FileError, match=r"consent\.md"):
        read_study(tmp_path)


def test_a_check_offers_its_answer():
    with pytest.raises(ValueError, match="one of the options"):
        Check(question="?", options=("a", "b"), answer="c")
