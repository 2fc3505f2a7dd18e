"""What comparisons of two made-up runs say, as on record in ``tests/golden``."""

import dataclasses
from typing import ClassVar
from unittest.mock import AsyncMock

import pyarrow as pa

from evals.analysis import compare, forest, samples
from evals.analysis.compare import Side
from evals.analysis.differences import differences_table, flat_settings
from evals.analysis.evidence import evidence_table
from evals.analysis.forest import forest_figure
from evals.analysis.fresh import fresh_table, seeds_of, suites_of_both
from evals.analysis.labels import run_labels, run_names
from evals.analysis.recorded import RecordedPlayer, stored_reply
from evals.analysis.rescore import Rescored, changes_table, planned_anew, rescore, rescored_run, rescored_table
from evals.analysis.retest import Again, agreement_table, disagreement_table, label_shift, sample_turns_to_ask
from evals.analysis.samples import sample_turns
from evals.conversation import PlayedTurn, Record
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import Column, ledger_columns
from evals.suites.bundle import Bundle
from evals.summary.paired import column_measure
from evals.tables import Table
from evals.types import Episode, LabelScores, Outcome, PlayerError, Reply, Turn, message
from tests.golden import plain
from tests.said import Said
from tests.toy import OPTIONS, ToySuite


class Toy(ToySuite):
    """Two tasks of two levels, each game twice."""

    def plan(self):
        cells = [(task, level) for task in ("colors", "shapes") for level in ("easy", "hard")]
        return [
            Episode(self.name, task, level, "cot", index, repeat, 100 * place + index, "f", 9 + place)
            for place, (task, level) in enumerate(cells)
            for index in range(3)
            for repeat in range(2)
        ]


class Other(Toy):
    """Measures points, which have no bounds, besides."""

    name: ClassVar[str] = "other"
    columns: ClassVar = {
        "points": Column(pa.float64(), "Points.", better="lower"),
        "told": Column(pa.string(), "Said."),
    }

    def plan(self):
        return super().plan()[:4]

    def measures(self, run, player):
        yield column_measure(run, player, "points")
        yield dataclasses.replace(column_measure(run, player), name="won it")


TOY, BOTH = Toy(), Bundle("both", (Other(), Toy()))


def played(suite, shift, players=("m", "n", "oracle"), left_out=(), **settings):
    """A run in which every number follows from a game's number and ``shift``; each seventh game has failed."""
    plan, records = [], []
    for player in players:
        for number, episode in enumerate(suite.plan()):
            episode = episode.assigned(player, "f")
            plan.append(episode)
            if number in left_out and player != "oracle":
                continue
            at = number + shift + ord(player[0]) - ord("l")
            chat = (message("system", f"Rules {shift}"), message("user", f"Game {episode.index}", "A\nB"))
            then = (*chat, message("assistant", "red"), message("user", "Now?"))
            replies = [
                Reply("red", "stop", at, 2, 1, 0.5, reasoning="Hm."),
                Reply(f"green {at}", "length", 3, 4, 1, 0.25),
            ]
            turns = [PlayedTurn(Turn(episode, 0, chat, OPTIONS), replies[0], "red", "exact")]
            turns += [PlayedTurn(Turn(episode, 1, then, OPTIONS), replies[1], None, "unread")] * (at % 2)
            extra = {"points": at * 1.5 - 9, "told": "x"} if episode.suite == "other" else {"right": at % 3}
            outcome = Outcome(at % 3 > 0 or player == "oracle", at % 4 + 1, [0.25, 0.5, 1.0][at % 3], extra)
            if at % 7 == 0 and player != "oracle":
                records.append(Record(episode, None, f"PlayerError: no {at}", tuple(turns[:-1]), 0.5, "endpoint"))
            else:
                records.append(Record(episode, outcome, "", tuple(turns), 0.125 * at))
    rows = records_to_table(records, ledger_columns(suite))
    return RunData.of_tables(plan_to_table(plan), rows, settings)


def teller(said):
    """Says the tables that a function makes, or what it refuses with."""

    def tell(make, *given):
        try:
            found = make(*given)
        except ValueError as error:
            found = f"ValueError: {error}"
        for table in found if isinstance(found, list) else [found]:
            if not isinstance(table, Table):
                said(plain(table))
                continue
            said("##", table.name, "|", table.title, "|", table.section, table.headline, plain(table.columns))
            for row in table.rows:
                said(*(plain(cell) for cell in row))
            said(*(f"- {note}\n" for note in table.notes))

    return tell


def test_comparisons(capsys, monkeypatch):
    monkeypatch.setattr("evals.summary.paired.DRAWS", 99)
    monkeypatch.setattr("evals.summary.independent.DRAWS", 99)
    said = Said(capsys)
    tell = teller(said)
    both, toy = played(BOTH, 0, left_out=(1, 5)), played(TOY, 2, left_out=(23,))
    stopped = dataclasses.replace(toy, stopping=("It stopped", "So said a rule"))
    sides = {
        "bundle against one suite": (Side("A", "m", both, BOTH, "here"), Side("B", "n", toy, TOY)),
        "one suite against a bundle": (Side("A", "n", stopped, TOY), Side("B", "m", both, BOTH, "there")),
        "two of one run": (Side("A", "m", both, BOTH), Side("B", "n", both, BOTH)),
        "bundles of two runs": (Side("A", "m", both, BOTH), Side("B", "n", played(BOTH, 3, left_out=(2, 25)), BOTH)),
        "an equal one": (Side("A", "m", toy, TOY), Side("C", "m", toy, TOY)),
        "nobody": (Side("A", "m", toy, TOY), Side("B", "none", toy, TOY)),
    }
    for name, (first, second) in sides.items():
        said(f"\n=== {name}")
        asked = [(None, None)]
        if name == "bundle against one suite":
            asked += [(0.1, None), (None, "steps"), (None, "toy.right"), (None, "other.points"), (None, "points")]
            asked += [(None, "error"), (None, "toy.none"), (None, "seconds")]
        for detect, column in asked:
            said(f"--- {detect} {column}")
            tell(compare.comparison_tables, first, second, detect, column)
            if column in (None, "seconds", "points"):
                tell(evidence_table, first, [second, first], column)
        found = compare.flips(first, second)
        for most in (1, 3):
            tell(compare.flip_table, found, first, second, most)
        for most in (30, 4, 3)[: 3 if name == "bundle against one suite" else 1]:
            monkeypatch.setattr(forest, "MOST_CELLS", most)
            figure = forest_figure(first, second)
            for series in figure.series:
                said(most, series.panel, *(f"{x}: {plain(y)};" for x, y in zip(series.x, series.y, strict=True)))
            said(plain(dataclasses.replace(figure, series=())))
        tell(lambda first=first, second=second: [forest_figure(first, second, "points").series])
        if first.suite is not second.suite:
            tell(fresh_table, first, second, suites_of_both(first, second))
        tell(differences_table, first, second, ())
    alone = Toy()
    alone.plan = lambda: Toy().plan()[:1]
    lonely = Side("A", "m", played(alone, 0), alone)
    tell(compare.comparison_tables, lonely, dataclasses.replace(lonely, label="B", player="n"), 0.1)
    said(forest_figure(lonely, dataclasses.replace(lonely, player="n")).series)
    said([plain(compare._p(p)) for p in (0.001, 0.00099, 1.0)], compare._game_name(3, 0), compare._game_name(0, 2))
    said.check("comparisons", "evals")


def test_what_differs(capsys):
    said = Said(capsys)
    tell = teller(said)

    def side(label, settings, sessions, shift=0, **more):
        run = played(TOY, shift, **more)
        return Side(label, "m", dataclasses.replace(run, settings=settings, sessions=sessions), TOY)

    ones = [
        {"id": "1", "began": 1, "config": {}, "complete": True, "retry": 1, "vllm": "1", "gone": None},
        {
            "id": "2",
            "vllm": "0",
            "surroundings": {"packages": {"vllm": "1", "p": "1"}, "gpus": ["H100"], "variables": {"X": 1}},
        },
    ]
    ones += [{"id": version, "vllm": version} for version in ("0.9", "2", "0.10", "3", "0.8")]
    many = {f"p{number}": "1" for number in range(13)}
    others = [
        {"id": "3", "ray": 2, "surroundings": {"packages": {**many, "vllm": "2"}, "weights": "w", "variables": None}}
    ]
    settings = {"a": [1, {"name": "n", "b": 1}, {"type": "t", "b": None}, {"c": 0}], "d": {}, "e": {"f": 1}, "g": False}
    changed = {"a": [{"type": "t", "b": 2}, {"name": "n", "b": 2}], "e": {"f": 2, "h": 1}, "g": 0}
    for one, other in (
        (side("A", settings, ones), side("B", changed, others, 1)),
        (side("A", {}, []), side("B", {}, [])),
    ):
        for ignored in ((), ("a.n", "e", "e.f"), ("a",)):
            tell(differences_table, one, other, ignored)
    same = side("A", settings, ones)
    tell(differences_table, same, dataclasses.replace(same, label="C", player="n"), ())
    tell(differences_table, same, side("B", settings, ones, left_out=range(3, 24)), ())
    elsewhere = Toy()
    elsewhere.plan = lambda: [dataclasses.replace(each, seed=each.seed + 1) for each in Toy().plan()]
    tell(differences_table, side("A", {}, []), Side("B", "m", played(elsewhere, 1), elsewhere), ())
    for given in (settings, 5, None, [], [1], {"x": {"y": []}}, [{"a": 1}, 2]):
        said(given, "->", list(flat_settings(given)), list(flat_settings(given, ("a",), "a")))
    for section in (
        None,
        [],
        {},
        {"seeds": "s"},
        {"seeds": None, "suites": [{"seeds": "t"}, {}, {"suites": [{"seeds": "u"}]}]},
    ):
        said(section, list(seeds_of(section)))

    kumo, kidgym = (
        {"suite": {"name": name, "shots": 1}, "model": {"type": name, "name": "m"}} for name in ("kumo", "kidgym")
    )
    runs = {
        "told by one": {"r1": {"a": {"shots": 0}}, "r2": {"a": {"shots": 4}}},
        "switches": {"r1": {"enable_long_thought": True}, "r2": {"enable_long_thought": False}},
        "numbers": {"r1": {"top_k": 1, "classes": 1.5}, "r2": {"top_k": 2, "classes": 2}},
        "numbers of two words": {"r1": {"max_tokens": 5}, "r2": {"max_tokens": 7}},
        "lists": {"r1": {"x": ["a", 1], "y": ""}, "r2": {"x": [], "y": "z"}},
        "one is named": {"r1": {"x": 1, "name": "N"}, "r2": {"x": 2}},
        "alike": {"r1": {"x": 1}, "r2": {"x": 1}, "r3": {"x": 1, "name": "r1"}},
        "named alike": {"r1": {"name": "N"}, "r2": {"name": "N"}},
        "by two": {f"r{x}{y}": {"x": "ab"[x], "y": "cd"[y], "z": "e"} for x in (0, 1) for y in (0, 1)},
        "by three": {
            f"r{x}{y}{z}": {"x": "ab"[x], "y": "cd"[y], "z": "ef"[z]} for x in (0, 1) for y in (0, 1) for z in (0, 1)
        },
        "too long": {"r1": {"x": "l" * 32, "y": 1}, "r2": {"x": "l" * 33, "y": 2}},
        "just short": {"r1": {"x": "l" * 32}, "r2": {"x": "k"}},
        "of no account": {"r1": {"run_dir": 1, "suite": {"name": "a"}}, "r2": {"run_dir": 2, "suite": {"name": "b"}}},
        "suites": {"r1": kumo, "r2": kidgym},
        "one": {"r1": kumo},
        "two of a kind": {"r1": kumo, "r2": {**kumo, "suite": {"name": "kumo", "shots": 2}}, "r3": kidgym},
        "unnamed": {"r1": {"suite": {"type": "t"}, "model": "m"}, "r2": {"suite": None}, "r3": {}},
        "none": {},
    }
    for name, each in runs.items():
        said.tried(f"{name}: labels", run_labels, each)
        said.tried(f"{name}: names", run_names, each)
    said.check("what_differs", "evals")


def test_replies_played_again(capsys, monkeypatch):
    said = Said(capsys)
    tell = teller(said)
    run = played(TOY, 0, ("m", "n"), left_out=range(8, 24))
    rows = run.find(run.episodes(["episode_id"])["episode_id"].to_pylist())

    class Reads(Toy):
        """Asks as the run was asked; reads every reply, and never wins twice."""

        budget: ClassVar = 2

        def plan(self):
            return [dataclasses.replace(each, budget=each.budget + self.budget) for each in super().plan()]

        async def play(self, episode, conversation):
            chat = (message("system", "Rules 0"), message("user", f"Game {episode.index}", "A\nB"))
            played = await conversation.ask(chat, options=OPTIONS)
            played.action, played.rule = played.reply.text, "anew"
            if episode.repeat:
                return Outcome(episode.index == 1, 1, extra={"right": 1})
            played = await conversation.ask(
                (*chat, message("assistant", "red"), message("user", "Now?")), options=OPTIONS
            )
            played.action, played.rule = played.reply.text, "anew"
            return Outcome(True, 2, extra={"right": 2})

    suite = Reads()
    episodes = {each.id: each for each in plan_from(run)}
    anew = planned_anew(suite, episodes)
    said([each.budget for each in episodes.values()], [each.budget for each in anew.values()])
    odd = next(iter(episodes.values()))
    for change in ({"seed": 7}, {"repeat": 2}, {"task": "none"}):
        said.tried(change, planned_anew, suite, {"x": dataclasses.replace(odd, **change)})
    for at_once in (1000, 2):
        monkeypatch.setattr("evals.analysis.rescore.AT_ONCE", at_once)
        found = rescore(suite, anew, rows)
        said([len(table) for table in found.rows], found.counts)
    tell(rescored_table, found)
    for most in (2, 99):
        tell(changes_table, found, most)
    names = [
        "index",
        "repeat",
        "status",
        "error",
        "error_kind",
        "success",
        "steps",
        "budget",
        "prompt_tokens",
        "cut_off",
    ]
    for row in rescored_run(found, run).episodes([*names, "toy.right"]).to_pylist():
        said(*row.values())
    assert not any(pa.concat_tables(found.rows)["turns"].to_pylist())
    long = "begins with this, " + "and goes on " * 9 + "until its end"
    tell(
        changes_table,
        Rescored(changes=[("e" * 13, 2, long, "old", "r", None, "s"), ("f", 0, " a ", None, "", "b", "t")]),
        9,
    )

    monkeypatch.setattr(Reads, "play", AsyncMock(side_effect=PlayerError("anew", "suite")))
    refused_then = [{**rows[0], "error": "PlayerError: anew", "error_kind": "suite", "turns": []}]
    unread = rescore(suite, anew, [*refused_then, *rows[1:9]])
    for row in pa.concat_tables(unread.rows).to_pylist():
        said("failed then and now", row["error"], row["error_kind"])
    tell(rescored_table, unread)
    monkeypatch.setattr(Reads, "play", lambda self, episode, conversation: 1 / 0)
    said.tried("a suite that fails", rescore, suite, anew, rows)

    row = {**rows[0], "turns": [{**turn, "labels": None} for turn in rows[0]["turns"]]}
    said(plain(stored_reply(row["turns"][0])))
    scored = {**row["turns"][0], "labels": [{"label": "A", "logprob": -0.5}, {"label": "B", "logprob": -2.0}]}
    scored |= {"label_mass": 0.75, "argmax_is_label": False, "exact": True}
    said(plain(stored_reply(scored)))
    said(RecordedPlayer({**row, "turns": []}).diverged)
    for logprobs in ((-0.5, -2.0), (-0.75, -2.0), (-0.25, -3.5), (-0.125, -2.0), None):
        scores = LabelScores(logprobs, 1.0, True) if logprobs else None
        said(
            label_shift(scored, Reply("A", label_scores=scores)),
            label_shift(row["turns"][0], Reply("A", label_scores=scores)),
        )

    for turns, share in (
        ({"b": 3, "a": 2, "c": 0}, 0.5),
        ({"a": 2}, 0.0),
        ({"a": 2}, 9.0),
        ({}, 0.5),
        ({"a": 5, "b": 6}, 0.318),
    ):
        said(turns, share, [sample_turns_to_ask(turns, share, seed) for seed in (0, 1)])
    asked = [
        Again("s", "e" * 13, 0, "abc", "abc", "x", "x"),
        Again("s", "e" * 13, 1, "abc", "abd", "x", "x", 0.25),
        Again("t", "f", 2, "abc", "ab", "x", "y"),
        Again("s", "g", 3, "ab", "abc", None, None, 0.125),
        Again("s", "h", 4, "ab", "ab", None, None),
        Again("t", "i", 5, "", "", "y", None),
    ]
    for some, failed in (
        (asked, 2),
        ([each for each in asked if each.largest_shift is None], 0),
        (asked[:1], 1),
        ([], 0),
    ):
        tell(agreement_table, some, failed)
        for most in (0, 2, 9):
            tell(disagreement_table, some, most)

    wide = played(BOTH, 0)
    for player, count in (("m", 4), ("n", 1), ("oracle", 3), ("none", 2), ("m", 0)):
        for turn in sample_turns(BOTH, wide, player, count):
            said(player, count, plain(turn))
    said(len({turn.episode for turn in sample_turns(BOTH, wide, "m", 99)}))
    said.check("replies_played_again", "evals")


def test_chats_that_begin_anew_come_back_as_they_were_asked():
    game = Toy().plan()[0].assigned("m", "f")
    chats = [(message("system", "S"), message("user", each)) for each in "ab"]
    chats += [(*chats[1], message("assistant", "red"), message("user", "c")), chats[0][:1], (message("user", "a"),)]
    apart = [PlayedTurn(Turn(game, number, chat), Reply("red")) for number, chat in enumerate(chats)]
    stored = records_to_table(
        [Record(game, Outcome(True, 1, 1.0, {"right": 1}), "", tuple(apart), 1.0)], ledger_columns(TOY)
    )
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [2, 3]):
        again = RecordedPlayer(stored.to_pylist()[0])
        assert [again.chat(number) for number in order] == [chats[number] for number in order]
    parts = [{"text": "", "picture": None}, {"text": None, "picture": "drawn"}, {"text": "said", "picture": None}]
    shown = {**stored.to_pylist()[0], "status": "done"}
    shown["turns"] = [{**shown["turns"][0], "prompt": [{"role": "user", "parts": parts}]}]
    said = [(each.pictures, each.prompt) for each in samples._turns(TOY, shown)]
    assert said == [(("drawn",), "[user]\n\nsaid")]


def plan_from(run):
    names = [field.name for field in dataclasses.fields(Episode)]
    return [Episode(**{name: row[name] for name in names}) for row in run.plan.to_pylist()]
