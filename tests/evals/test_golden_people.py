"""What studies with people show, keep and count, as on record in ``tests/golden``."""

import asyncio
import base64
import dataclasses
import io
import json
import os
import stat

import httpx
from PIL import Image

from evals.chat_json import chat_to_json, png
from evals.conversation import Conversation, PlayedTurn, Record, cause_of
from evals.figures import Figure, Series, joined, middle
from evals.people import journal, study, tables
from evals.people.agreement import fleiss_kappa
from evals.people.games import Games, assign, participants_needed
from evals.people.journal import ENDED, Entry, Journal
from evals.people.records import Taken, taken_by
from evals.people.rendering import rendered
from evals.people.seat import items_of
from evals.people.server import StudyServer
from evals.people.study import Check, Criterion, Participant, Pay, Plan, Study, participants_text, read_study
from evals.stats.intervals import Estimate
from evals.types import Episode, Outcome, Reply, message
from tests.evals.test_records import Patch
from tests.golden import plain
from tests.said import Said
from tests.toy import OPTIONS, ToySuite


class Shown(ToySuite):
    """Shows a picture, asks people in other words, and has a game without options."""

    async def play(self, episode, conversation):
        chat = (message("system", "Rules"), message("user", f"Game {episode.index}", Patch((episode.index, 0, 0))))
        right = 0
        for number in range(1 + episode.index % 2):
            options = () if episode.index == 3 else OPTIONS[episode.index :]
            played = await conversation.ask(chat, options=options, oracle=lambda: "blue")
            played.action = played.reply.text
            right += played.action == "blue"
            chat = (*chat, message("assistant", played.action), message("user", f"Next {number}"))
        return Outcome(right > 0, episode.index + 1, extra={"right": right})

    def for_people(self, turn):
        told = message("user", "In other words\nred) a red one\nblue) a blue one")
        return turn.chat if turn.episode.index else (*turn.chat, told)


GAMES = Games.of(Shown(episodes=4))
CHECKS = tuple(Check(question=f"{name}?", options=("yes", "no"), answer="no") for name in "AB")
TEXTS = {"consent": "# May *we*?", "instructions": "Play\n\n| a | b |\n|---|---|\n| 1 | 2 |", "thanks": ""}


def a_study(folder, people=1, texts=TEXTS, **plan):
    given = {"title": "Colors", "settings": ("suite=toy",), "players_per_game": 1, "games_per_participant": 4, **plan}
    made = (
        Participant(f"person-{number}", f"token-of-number-{number:03}", f"CODE{number}", tuple(GAMES.by_id))
        for number in range(people)
    )
    return Study(folder, Plan(**given), tuple(made), texts)


def test_a_study(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    monkeypatch.setattr(journal.os, "fsync", lambda file: None)
    names = {game: f"G{number}" for number, game in enumerate(GAMES.by_id)}
    names |= {check.key: f"C{number}" for number, check in enumerate(CHECKS)}
    names |= {Patch((number, 0, 0)).key: f"P{number}" for number in range(4)}

    def told(value):
        text = value if isinstance(value, str) else json.dumps(value)
        for name, short in names.items():
            text = text.replace(name, short)
        return text

    async def played(made, check_games, choose):
        app = StudyServer(made, GAMES, check_games).app({"study"})
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://study") as client:
            token = made.participants[0].token
            for number in range(30):
                state = (await client.get(f"/{token}/state")).json()
                said(told(state))
                if state["phase"] == "over":
                    break
                asks = state.get("asks", [{}])
                answer = {
                    "key": state["key"],
                    "choices": [choose(number, ask) for ask in asks],
                    "visible": number,
                    "hidden": 2 * number,
                    "ignored": 3 * number,
                }
                found = await client.post(f"/{token}/answer", json=answer)
                if number == 3:
                    for wrong in (
                        {**answer, "key": "x/0"},
                        {**answer, "key": state["key"].replace("/0", "/9")},
                        {"key": 5},
                        answer,
                    ):
                        again = await client.post(f"/{token}/answer", json=wrong)
                        said(again.status_code, told(again.json()) == told(found.json()) if again.content else "")
                    keys = [part["picture"] for part in state.get("shown", []) if "picture" in part]
                    for key in [*keys, "none"]:
                        said((await client.get(f"/{token}/pictures/{key}.png")).status_code)
            said(
                (await client.get("/other/state")).status_code,
                (await client.post("/other/answer")).status_code,
                (await client.get("/other/pictures/x.png")).status_code,
            )
        kept = made.answers_of(made.participants[0])
        said(told(kept.read_text()))
        taken = await taken_by(made, made.participants[0], GAMES, check_games)
        for record in taken.records:
            said(
                told(
                    plain(
                        (
                            names[
                                next(
                                    game
                                    for game in names
                                    if game in GAMES.by_id
                                    and GAMES.for_person(game, "person-0").id == record.episode.id
                                )
                            ],
                            record.outcome,
                            record.error,
                            [turn.reply.text for turn in record.turns],
                        )
                    )
                )
            )
        said(told(plain(dataclasses.replace(taken, records=()))), taken.begun)

    checked = Games.of(Shown(episodes=1))
    names |= {f"check-{game}": f"check-K{number}" for number, game in enumerate(checked.by_id)}
    choices = {
        "play": lambda number, ask: len(ask.get("options", [0])) - 1,
        "review": lambda number, ask: number % len(ask.get("options", [0])),
    }
    criteria = (Criterion(name="right", question="Right?"), Criterion(name="clear", question="Clear?"))
    for what, check_games, made in (
        ("play", checked, a_study(tmp_path / "a", checks=CHECKS, pay=Pay(base=1))),
        ("play", None, a_study(tmp_path / "b", texts={"instructions": " ", "thanks": "Bye [x](http://a)."})),
        ("review", None, a_study(tmp_path / "c", kind="review", criteria=criteria)),
    ):
        said(f"\n=== {what}")
        asyncio.run(played(made, check_games, choices[what]))
    ids = [*GAMES.by_id][:2]
    begun = a_study(tmp_path / "d")
    kept = Journal(begun.answers_of(begun.participants[0]))
    for item, step, choice in (
        ("consent", 0, "agreed"),
        (ids[0], 0, "red"),
        (ids[0], ENDED, ""),
        (ids[1], 0, "no color"),
        (ids[1], ENDED, ""),
        (CHECKS[0].key, 0, "yes"),
        (CHECKS[1].key, 0, "no"),
        (f"check-{ids[0]}", 0, "red"),
        (f"check-{ids[0]}", ENDED, ""),
    ):
        kept.add(Entry(item, step, (choice,) if choice else (), 1.5, 2.5, 3))
    taken = asyncio.run(taken_by(begun, begun.participants[0], GAMES, None))
    said(
        [(record.outcome and record.outcome.success, record.error) for record in taken.records],
        taken.finished,
        taken.answers,
    )
    with_checks = dataclasses.replace(begun, plan=begun.plan.model_copy(update={"checks": CHECKS}))
    taken = asyncio.run(taken_by(with_checks, begun.participants[0], GAMES, Games.of(Shown(episodes=1))))
    said("checks", taken.checks_passed, taken.checks_seen, taken.answers)
    for games in (0, 1, 2, 3, 7):
        person = dataclasses.replace(begun.participants[0], games=tuple(f"g{number}" for number in range(games)))
        items = items_of(with_checks, person, ["x"])
        said(games, [told(item.key) for item in items], [item.kind for item in items])
    said.check("a_study", "evals")


def test_parts_of_a_study(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    folders = []
    monkeypatch.setattr(journal.os, "fsync", lambda file: folders.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    path = tmp_path / "new" / "person.jsonl"
    kept = Journal.read(path)
    for entry in (
        Entry("a", 0, ("x",), 1.0, 2.0, 3),
        Entry("a", 0, ("y",)),
        Entry("a", ENDED),
        Entry("b", 2, ("x", "y")),
    ):
        kept.add(entry)
    said(
        path.read_text(),
        oct(path.stat().st_mode),
        kept.items,
        [entry.choice for entry in (*kept.items["b"].values(), Entry("c", 0))],
    )
    said("on the disk", folders)
    line = {"item": "a", "step": 0, "choices": ["x"], "visible": 1, "hidden": 0, "ignored": 0}
    for change in (
        *({}, {"item": 5}, {"step": "0"}, {"step": 1.0}, {"choices": "xy"}, {"choices": [1]}, {"choices": None}),
        *({"visible": -0.5}, {"hidden": "x"}, {"hidden": None}, {"ignored": "2"}, {"ignored": "x"}, {"more": 1}),
    ):
        path.write_text(f"{json.dumps(line)}\n{json.dumps({**line, **change})}\n")
        said.tried(change, lambda: plain(list(Journal.read(path).items.items())))
    for text in ("", "half", "\n", "[]\n", f"{json.dumps(line)}\nhalf"):
        path.write_text(text)
        said.tried(repr(text)[-20:], lambda: [*Journal.read(path).items])
    monkeypatch.setattr(journal, "MOST_BYTES", 10)
    said.tried("too large", Journal.read, path)
    monkeypatch.setattr(journal.os, "pwrite", lambda file, text, at: 3)
    said.tried("a full disk", kept.add, Entry("z", 0))
    said(path.read_text())

    for games, players, each in ((4, 1, 4), (4, 1, 3), (4, 2, 9), (7, 3, 2), (1, 1, 1)):
        said(
            participants_needed(games, players, each),
            assign([f"g{number}" for number in range(games)], ["p", "q"], each, {"g0": 1, "x": 9}),
        )
    for text in ("<b>x</b>", "![a](http://x)", "[a](javascript:x)", "a\nb\n\n- c", "", "~~x~~ 'q'"):
        said(rendered(text))

    folder = tmp_path / "study"
    folder.mkdir()
    plan = {"settings": ["a=1"], "players_per_game": 1, "games_per_participant": 2}
    person = {"person": "person-a", "token": "t" * 16, "code": "C", "games": ["g"]}
    other = {"person": "person-b", "token": "u" * 16, "code": "D", "games": []}
    check = {"question": "q", "options": ["a", "b"], "answer": "a"}

    def look(what, plan, people):
        (folder / "study.yaml").write_text(plan if isinstance(plan, str) else json.dumps(plan))
        (folder / "participants.json").write_text(
            people if isinstance(people, str) else json.dumps({"participants": people})
        )
        said.tried(what, lambda: plain(dataclasses.astuple(dataclasses.replace(read_study(folder), folder=0))))

    look(
        "whole",
        {**plan, "checks": [check], "pay": {"base": 1.5}, "criteria": [{"name": "a_1", "question": "?"}]},
        [person, other],
    )
    for change in (
        *({"players_per_game": 0}, {"games_per_participant": "2"}, {"kind": "watch"}, {"more": 1}, {"settings": None}),
        *(
            {"pay": {"base": "1"}},
            {"checks": [{**check, "answer": "c"}]},
            {"checks": [{**check, "options": ["a", "a"]}]},
        ),
        *({"checks": [{**check, "options": ["a"]}]}, {"criteria": [{"name": "A", "question": "?"}]}, {"title": 5}),
    ):
        look(change, {**plan, **change}, [person])
    look("no mapping", "5", [person])
    look("no JSON", plan, "{")
    for change in ({"person": "person-A"}, {"token": "t" * 15}, {"games": None}, {"more": 1}):
        look(change, plan, [{**person, **change}])
    for name in ("person", "token", "code"):
        look(f"{name} twice", plan, [person, {**other, name: person[name]}])
    for name in study.TEXTS:
        (folder / f"{name}.md").write_text(f"{name}!")
    look("with texts", plan, [person])
    (folder / "study.yaml").unlink()
    said.tried("no file", read_study, folder)
    said(participants_text([Participant("person-a", "t", "c", ("g", "h"))]))
    for pay in (Pay(), Pay(base=1, success=2, step=-0.5), Pay(step=0.25)):
        said([pay.of(won, steps) for won, steps in ((0.0, 0), (0.5, 3), (1.0, 9))])

    for pairs in ([], [(1, "a")], [(1, "a"), (1, "b")], [(1, "a"), (1, "a"), (2, "a"), (2, "a")]):
        said(pairs, plain(fleiss_kappa(pairs)))
    spread = [(game, "ab"[(game * rater) % 3 % 2]) for game in range(9) for rater in range(2 + game % 2)]
    said(plain(fleiss_kappa(spread)), plain(fleiss_kappa([(game, "ab"[game % 2]) for game in range(6) for _ in "xx"])))

    def a_record(index, level, text, won=True, turns=1, done=True):
        game = Episode("toy", "colors", level, "m", index, 0, index, "", 9)
        replies = tuple(PlayedTurn(None, Reply(text)) for _ in range(turns))
        return Record(game, Outcome(won, 2 + index) if done else None, "" if done else "x", replies, 0.0)

    first = [a_record(number, "easy", "ab"[number % 2], number > 1) for number in range(6)] + [
        a_record(0, "hard", "a", True, 2)
    ]
    second = [a_record(number, "easy", "ab"[number == 3], number > 2, done=number != 5) for number in range(6)]
    second += [a_record(0, "hard", "b", False), a_record(1, "hard", "b")]
    by_id = {
        f"g{number}": Episode("s", "t", "hard" if number % 2 else "easy", "m", number, 0, 0, "", 1)
        for number in range(6)
    }
    criteria = (Criterion(name="right", question="?"), Criterion(name="clear", question="?"))
    right, clear = (criterion.key for criterion in criteria)
    reviews = [
        {game: {right: "yes", clear: "no"} for game in by_id},
        {"g0": {right: "no", clear: "no"}, "g5": {right: "yes", clear: "yes"}},
    ]
    people = [Participant(f"person-{name}", "t", name, ()) for name in "ab"]
    taken = [
        Taken(people[0], tuple(first), reviews[0], 1, 2, True, 61.0, 3.6, 4, 5),
        Taken(people[1], tuple(second), reviews[1], 0, 3, False, 0.3, 0.0, 6, 0),
    ]
    said(CHECKS[0].key, [dataclasses.replace(taken[0], answers=number).begun for number in (0, 1)])
    settings = {"settings": (), "players_per_game": 1, "games_per_participant": 1, "criteria": criteria}
    for made in (
        Plan(**settings, pay=Pay(currency="EUR", base=2, success=3, step=0.1)),
        Plan(**settings, kind="review"),
    ):
        said(plain(tables.participants_table(taken, made)))
    said(plain(tables.play_agreement_table(taken)), plain(tables.play_agreement_table([])))
    said(plain(tables.review_table(taken, made, Games(ToySuite(), by_id))))
    said.check("parts_of_a_study", "evals")


class Ask:
    """A player that tells what it was asked."""

    async def reply(self, turn):
        return Reply(f"<think>{turn.number}</think>said")


def test_small_modules(capsys):
    said = Said(capsys)
    dot = Patch((1, 2, 3))
    chat = (
        message("system", "S"),
        message("user", "U", dot),
        message("assistant"),
        message("user", dot),
        message("user", "a", "b"),
    )
    for each in chat_to_json(chat, lambda picture: f"at {picture.key[:4]}"):
        said(each)
    [whole] = chat_to_json(chat[3:4])
    url = whole["content"][0]["image_url"]["url"]
    image = Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))
    said(whole["content"][0]["type"], url[:22], image.size, image.getpixel((0, 0)), url.endswith(png(dot)))
    game = Episode("s", "t", "l", "m", 0, 0, 0, "", 1)
    conversation = Conversation(game, Ask())

    async def ask():
        one = await conversation.ask((message("user", "a"),), options=("x",), schema="{}", shortcuts={"s": str})
        two = await conversation.ask((message("user", "b"),), labels=("A",), oracle=str, remaining=len, features=list)
        return one, two

    for played in asyncio.run(ask()):
        turn = played.turn
        said(
            turn.number,
            turn.options,
            turn.labels,
            turn.schema,
            turn.shortcuts,
            turn.oracle,
            turn.remaining,
            turn.features,
        )
        said(plain(played.reply), played.action, repr(played.rule))
    said(
        [*conversation.turns],
        plain(Record.of_defect(game, ValueError("no"))),
        Record.of_defect(game, ValueError("no")).done,
    )

    class WordlessError(Exception):
        def __str__(self):
            raise RuntimeError

    said(cause_of(WordlessError()), len(cause_of(ValueError("x" * 3000))))

    rates = (
        Estimate(0.75, 0.5, 0.9, 20),
        Estimate(float("nan"), 0, 1, 99),
        0.5,
        None,
        float("inf"),
        Estimate(1.0, float("nan"), float("nan"), 1),
    )
    series = Series("m", ("a", 1.5, rates[0], None, "e", "f"), rates, "panel", True)
    figure = Figure(
        "f",
        "A title.",
        "dots",
        (series, Series("n", (), ())),
        "x",
        "y",
        (0, 1),
        ("Note.",),
        "95 %.",
        "games",
        True,
        0.0,
    )
    said(json.dumps(figure.to_json()))
    for each in (
        figure,
        dataclasses.replace(figure, intervals=""),
        dataclasses.replace(figure, series=(Series("m", (1,), (0.5,)),)),
    ):
        said(each.caption, {name: [one.name for one in found] for name, found in each.panels.items()})
    for counts in ((1, 1), (2, 1), (2, 2), (1000, 2), (1234, 1234)):
        both = tuple(Estimate(0.5, 0.4, 0.6, count) for count in counts)
        said(dataclasses.replace(figure, series=(Series("m", ("a", "b"), both),), notes=()).caption)
    said([middle(value) for value in (*rates, "text", 3, True)])
    said.tried("uneven", Series, "s", (1,), (1, 2))
    rows = [
        Series("r", ("a", "b"), (1, 2)),
        Series("r", ("b", "c"), (8, 3)),
        Series("r", ("z",), (4,), "other"),
        Series("r", ("a",), (9,)),
    ]
    for kind in ("heat_map", "dots"):
        made = [
            Figure("f", f"T{number}", kind, (row,), notes=(f"N{number % 2}",))
            for number, row in enumerate([*rows, rows[0]])
        ]
        said(*(plain(each) for each in joined([*made, Figure("g", "G", kind, ()), made[0]])))
    said.check("small_modules", "evals")
