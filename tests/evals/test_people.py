"""Studies with people: what is kept whatever happens, who plays what, how far people agree, what a page may be told."""

import asyncio
import contextlib
import dataclasses
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
from evals.human.page import Answer
from evals.people.agreement import fleiss_kappa
from evals.people.games import Games, assign, participants_needed
from evals.people.journal import ENDED, Entry, Journal
from evals.people.records import taken_by
from evals.people.rendering import rendered
from evals.people.seat import RefusedError, Seat, items_of
from evals.people.server import StudyServer
from evals.people.study import Check, Criterion, Participant, Pay, Plan, Study, participants_text, read_study
from evals.people.tables import participants_table, play_agreement_table, review_table
from evals.sessions.session import Session
from evals.suite import people_fingerprint
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
    return Answer(key, choices, **{"visible": 1.5, "hidden": 0.25, "ignored": 0, **given_times})


async def played_to_the_end(seat, pick=lambda state: 0):
    """All keys that were answered."""
    keys = []
    state = await seat.state()
    while state["phase"] != "over":
        keys.append(state["key"])
        state = await seat.answer(choice(state["key"], *[pick(state)] * len(state.get("asks", [0]))))
    return keys, state


# --- the journal -----------------------------------------------------------------------------------------------------

ENTRIES = [
    Entry("consent", 0, ("agreed",)),
    Entry("a", 0, ("x",), 1.5, 0.5, 2),
    Entry("a", ENDED),
    Entry("ä", 1, ("ö",)),
]


@pytest.mark.slow
@given(st.integers(0, 10_000), st.booleans())
@settings(deadline=None)
def test_a_journal_that_is_cut_anywhere_holds_its_whole_lines_and_goes_on(tmp_path_factory, cut, again):
    path = tmp_path_factory.mktemp("journal") / "person.jsonl"
    journal = Journal(path)
    for entry in ENTRIES:
        journal.add(entry)
    content = path.read_bytes()
    path.write_bytes(content[: cut % (len(content) + 1)])
    whole = path.read_bytes().count(b"\n")
    after = Journal.read(path)
    expected = ENTRIES[:whole]
    for entry in ENTRIES if again else ENTRIES[whole:]:  # what is written twice counts once
        after.add(entry)
    assert [one for steps in Journal.read(path).items.values() for one in steps.values()] == ENTRIES
    assert [*after.items] == ["consent", "a", "ä"] and expected == ENTRIES[:whole]
    assert path.read_bytes() == content and path.stat().st_mode & 0o077 == 0


def test_the_first_answer_to_a_question_stands(tmp_path):
    journal = Journal(tmp_path / "person.jsonl")
    journal.add(Entry("a", 0, ("x",)))
    journal.add(Entry("a", 0, ("y",)))
    assert Journal.read(journal.path).items["a"][0].choices == ("x",)


@pytest.mark.parametrize(
    "line",
    ["[]", "{}", '{"item": 1}', "x", json.dumps({"item": "a", "step": True, "choices": []})]
    + [json.dumps({**dataclasses.asdict(Entry("a", 0, ("x",))), "visible": time}) for time in (-1, "nan", "inf")],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "person.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(FileError, match="line 1"):
        Journal.read(path)


async def test_an_answer_that_chose_nothing_is_a_failed_game(tmp_path):
    study = study_in(tmp_path)
    journal, game = Journal(study.answers_of(study.participants[0])), study.participants[0].games[0]
    for entry in (Entry(game, 0), Entry(game, ENDED)):
        journal.add(entry)
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
    keys, over = await played_to_the_end(seat_of(study))
    assert keys[:3] == ["consent/0", "instructions/0", f"{study.participants[0].games[0]}/0"]
    assert f"{CHECK.key}/0" in keys and over["code"] == "CODE0" and "Bye." in over["html"]
    state = await seat_of(study_in(tmp_path / "other")).state()
    assert state["phase"] == "page" and "progress" not in state and "CODE0" not in json.dumps(state)


@pytest.mark.parametrize("choices", [(), (0, 0), (-1,), (1,)])
async def test_what_is_not_offered_is_refused_and_not_kept(tmp_path, choices):
    study = study_in(tmp_path)
    with pytest.raises(ValueError, match=r"option|each thing"):
        await seat_of(study).answer(choice("consent/0", *choices))
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
    table = participants_table([taken], study.plan)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    steps = sum(record.outcome.steps for record in taken.records)
    assert (row["minutes"], row["minutes_hidden"]) == (round(taken.visible / 60, 2), round(taken.hidden / 60, 2))
    assert row["pay"] == round(max(0, 5 + 2 * row["won"] / 3 - 0.5 * steps), 2) and row["code"] == "CODE0"


async def test_who_left_has_no_pay_and_no_code_in_the_table(tmp_path):
    study = study_in(tmp_path)
    seat = seat_of(study)
    await seat.answer(choice("consent/0", 0))
    taken = await taken_by(study, study.participants[0], GAMES, None)
    assert not taken.begun and not taken.finished
    table = participants_table([taken], study.plan)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["pay"] is None and row["code"] is None


def test_ids_of_people_depend_on_the_version_of_their_words(monkeypatch):
    suite = ToySuite()
    before = people_fingerprint(suite)
    monkeypatch.setattr(ToySuite, "people_version", 2)
    assert people_fingerprint(suite) != before


async def test_a_reviewed_game_is_closed_before_its_answer_is_judged(tmp_path, monkeypatch):
    closed = []
    close = Session.close
    monkeypatch.setattr(Session, "close", lambda self: closed.append(self) or close(self))
    study = study_in(tmp_path, kind="review", checks=(), criteria=(Criterion(name="correct", question="Right?"),))
    seat = seat_of(study)
    await seat.answer(choice("consent/0", 0))
    state = await seat.answer(choice("instructions/0", 0))
    assert state["asks"] and len(closed) == 1


async def test_reviewers_judge_the_answer_of_the_suite(tmp_path):
    criteria = (Criterion(name="correct", question="Right?"), Criterion(name="clear", question="Clear?"))
    study = study_in(tmp_path, people=2, kind="review", checks=(), criteria=criteria)
    for number in range(2):
        _, over = await played_to_the_end(seat_of(study, number), pick=lambda state: 0)
        assert over["phase"] == "over"
    state = await seat_of(study_in(tmp_path / "new", kind="review", checks=(), criteria=criteria)).answer(
        choice("consent/0", 0)
    )
    taken = [await taken_by(study, each, GAMES, None) for each in study.participants]
    assert [len(each.reviews) for each in taken] == [3, 3] and not taken[0].records
    table = review_table(taken, study.plan, GAMES)
    assert {row[0] for row in table.rows} == {"correct", "clear"} and all(row[2].mean == 1 for row in table.rows)
    seat = seat_of(study_in(tmp_path / "third", kind="review", checks=(), criteria=criteria))
    for key in ("consent/0", "instructions/0"):
        state = await seat.answer(choice(key, 0))
    assert [ask["name"] for ask in state["asks"]] == ["correct", "clear"] and state["progress"]["word"] == "Question"
    assert state["given"] in {f"Answer given: {color}" for color in OPTIONS}


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


def test_new_participants_play_what_lacks_players():
    assert assign(["a", "b", "c"], ["p"], 1, {"a": 2, "b": 2}) == {"p": ("c",)}


def test_checks_stand_between_the_games(tmp_path):
    study = study_in(tmp_path)
    kinds = [item.kind for item in items_of(study, study.participants[0], ["x"])]
    assert kinds == ["page", "page", "game", "check", "game", "check_game", "game"]


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


async def test_agreement_is_over_choices_in_games_of_one_turn_and_over_outcomes_in_longer_ones(tmp_path):
    study = study_in(tmp_path, people=2)
    for number in range(2):
        await played_to_the_end(
            seat_of(study, number), pick=lambda state, number=number: number if "asks" in state else 0
        )
    taken = [await taken_by(study, each, GAMES, None) for each in study.participants]
    table = play_agreement_table(taken)
    assert {row[2] for row in table.rows} == {"won or lost"} and sum(row[4] for row in table.rows) == 6


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


async def test_the_server_answers_with_what_comes_next_and_refuses_the_rest(tmp_path, monkeypatch):
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


def test_a_check_offers_its_answer():
    with pytest.raises(ValueError, match="one of the options"):
        Check(question="?", options=("a", "b"), answer="c")
