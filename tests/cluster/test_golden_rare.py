"""What commands say on ways that are rarely taken, as on record in ``tests/golden``."""

import argparse
import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from cluster.commands import compare, import_run, list_settings, notes, plan, play, retest, run, serve, sweep, upload
from cluster.engines.base import Account
from cluster.errors import ResumableError, RunFailedError, UserError
from cluster.observe.performance import TIMINGS
from evals.ledger.parts import LedgerDamagedError
from evals.tables import Table
from tests.cluster.test_golden_mains import runs_at
from tests.cluster.test_golden_steps import raising, stand_ins
from tests.said import Said, Thing


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Said(capsys, tmp_path)


def options(**given):
    return argparse.Namespace(**given)


def an_episode(player, task="t", calls=2.25, tokens=1000.6, level="easy"):
    return SimpleNamespace(
        player=player, suite="kumo", task=task, level=level, mode="cot", calls=calls, prompt_tokens=tokens
    )


def test_plans_with_prices_gpus_and_a_past_run(said, monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "check_pictures", lambda settings: settings.pictures)
    hardware = said.calls("hardware_table", Table("hardware", "H", ("x",), ()))
    stand_ins(
        monkeypatch,
        said,
        plan,
        "",
        hardware_table=hardware,
        cached_table=lambda engine, suite, modeled: said("-> cached", len(modeled)),
        picture_rule=lambda engine: None,
        check_parallel=said.calls("check_parallel", lambda engine, gpus: "idle" if gpus > 12 else ""),
        unchecked_arguments=lambda engine: "arguments are unchecked" if "asked" in (engine or ()) else "",
    )
    lines = {
        "two": '{"playing_seconds": 40.0, "replicas": 2, "turns": 8, "completion_tokens": 90}\n'
        '{"playing_seconds": 20.0, "replicas": 1, "turns": 2}\n',
        "idle": '{"playing_seconds": 0.0, "replicas": 1, "turns": 3, "completion_tokens": 9}\n',
        "none": "",
    }
    monkeypatch.setattr(
        plan, "Run", lambda path: SimpleNamespace(timings=[eval(line) for line in lines[path.name].splitlines()])
    )
    plain = {"type": "t"}
    paid = plain | {"prompt_price": 2, "completion_price": 10.0, "cache_write_price": None}
    for name, engine, like, labels, replicas, needs, price, pictures in (
        ("plain", plain, None, False, 2, (4, 3), 2.5, 0),
        ("labels", plain | {"asked": 1}, "two", True, "fit", (1, 1), 0.0, 7),
        ("gpus", plain, "two", False, 2, (4, 3), 2.5, 0),
        ("idle", plain | {"note": "of a table"}, "idle", False, 1, (5, 3), 2.5, 0),
        ("paid", paid | {"cache_write_price": "2.5"}, "two", False, 1, (1, 1), 0.0, 0),
        ("free prompts", paid | {"prompt_price": None}, "none", False, 1, (1, 1), 0.0, 0),
        ("free replies", paid | {"completion_price": 0}, None, True, 1, (1, 1), 0.0, 0),
    ):
        cls = SimpleNamespace(price_note=lambda given: given.get("note", ""))
        model = SimpleNamespace(
            name="m",
            engine=engine,
            engine_class=cls,
            replica=SimpleNamespace(gpus=needs[0], nodes=needs[1]),
            sampling=SimpleNamespace(max_tokens=500),
        )
        suite = SimpleNamespace(name="kumo", needs=SimpleNamespace(label_scores=labels), parts=(1,))
        settings = SimpleNamespace(
            plan=[an_episode("m"), an_episode("random"), an_episode("m", "u"), an_episode("m", calls=1.0)],
            model=model,
            suite=suite,
            cluster=SimpleNamespace(replicas=replicas, gpu_hour_price=price),
            pictures=pictures,
            run_dir="RUNS/x",
        )
        said(f"--- {name}")
        tables = plan.describe_plan(settings, Path(like) if like else None)
        for table in tables:
            said(table.name, "|", table.title, "|", *(f"\n  {row}" for row in table.rows))
            said(*(f"  {note}\n" for note in table.notes))
    suite.parts, suite.needs.label_scores = (1, 2), True
    said(plan.describe_plan(settings, None)[0].rows[4])
    model.engine = None
    said(*plan.describe_plan(settings, None)[0].rows)
    said(TIMINGS)
    said.check("rare_plans")


def test_runs_that_are_begun_again(said, monkeypatch, tmp_path):
    engine = SimpleNamespace(fixed_for_run=("base_url", "model"))
    for name, begun, stored, asked in (
        *(("new", False, {"engine": {"base_url": "a"}}, {"base_url": "b"}), ("no engine", True, {}, None)),
        ("same", True, {"engine": {"base_url": "a", "model": "m", "other": 1}}, {"base_url": "a", "model": "m"}),
        ("other", True, {"engine": {"base_url": "a", "model": "m"}}, {"base_url": "a", "model": "n"}),
        *(("gone", True, {"engine": {"base_url": "a"}}, {}), ("none stored", True, None, {"model": "n"})),
    ):
        found = SimpleNamespace(begun=begun, config={"model": stored}, path="RUN")
        model = SimpleNamespace(engine=asked, engine_class=engine)
        said.tried(name, run._check_answering, model, found, {"model": {"engine": asked}})
    rule = lambda stopped: SimpleNamespace(stopped=stopped, lines=lambda: ["decided", "after 9"])  # noqa: E731
    progress = SimpleNamespace(say=said)
    for planned, left, attempts, stopping, tracked in (
        *((9, 9, {}, None, True), (9, 3, {}, None, True), (9, 3, {"a": 1, "b": 2}, rule(True), False)),
        *((9, 0, {}, rule(True), True), (9, 0, {}, rule(False), True), (9, 0, {}, None, False)),
    ):
        said("---", planned, left)
        found = SimpleNamespace(planned=range(planned), path="RUN", stopping=stopping)
        resume = SimpleNamespace(todo=range(left), attempts=attempts)
        run._print_resume_status(found, resume, progress, tracked=tracked)
    for written, missing, stopping in (
        *((False, 0, None), (True, 0, None), (True, 1234, None)),
        *((True, 2, rule(True)), (True, 2, rule(False)), (False, 2, rule(True))),
    ):
        results = SimpleNamespace(written=written, summary={"missing": missing, "planned": 5678})
        said("code", run._code(SimpleNamespace(path="RUN", stopping=stopping), results))
    for changes, strict in (((), True), (("torch 1, 2", "vllm 3, 4"), False), (("torch 1, 2",), True)):
        said.tried("versions", run._check_versions, SimpleNamespace(changes=changes), strict)
    for sent in (True, False):
        monkeypatch.setattr(run, "sent_by_another_process", said.calls("sent", sent))
        run._send_again(SimpleNamespace(path="RUN"), {"type": "t"}, "it\x1b fell")
    said([run.code_of(error) for error in (UserError("x"), RunFailedError("x"), ResumableError("x"))])
    for ray, local in ((True, True), (True, False), (False, True), (False, False)):
        monkeypatch.setattr(run, "plays_locally", lambda settings, local=local: local)
        said(ray, local, run._player(SimpleNamespace(cluster=SimpleNamespace(ray=ray))).__name__)
    said.check("rare_resumed_runs")


def test_words_that_make_no_game(said, monkeypatch, tmp_path):
    for words in (
        *(["a=1"], ["suite=kidgym"], ["suite=kumo", "suite.repeats=3", "suite.tasks_per_domain=2"]),
        *(["suite=multistar", "model=openai"], ["suite=own", "model.name=x"], ["suite=own", "a=b=c"]),
    ):
        said.tried(words, play.play_overrides, words, "ann")
    for participant in ("", "Ann Lee", "x" * 70, "é"):
        said.tried(repr(participant), play.play_overrides, ["suite=own"], participant)
    for words in (
        *(["player=p"], ["suite=s"], ["suite=s", "player="], ["suite=s", "player=p", "model=m"]),
        ["suite=s", "player=p.q+r-s_t", "version=2", "a=1", "players=2"],
        *(["suite=s", "player=-p"], ["suite=s", "player=p", "version=é"]),
        *(["suite=s", f"player={'p' * 64}"], ["suite=s", f"player={'p' * 65}"], ["suite=s", "player=9", "version="]),
    ):
        said.tried(words, serve.serve_overrides, words)
    for turn, episode, attempts in ((600.0, 9.0, 2), (0.0, 1.0, 1), (1.0, -1.0, 1), (1.0, 1.0, 0), (5e-324, 1, 1)):
        given = options(turn_timeout=turn, episode_timeout=episode, attempts=attempts)
        said.tried("limits", serve._limits, given)
    for token, file, mcp in (("T", None, True), ("T", Path("a b"), True), ("T", None, False)):
        said(serve._invitation("http://h:1", token, file, 7, mcp))
    monkeypatch.setitem(sys.modules, "cluster.serve.tools", None)
    for needed in (False, True):
        said.tried("tools", serve._tools, [], "p", True, needed)
    monkeypatch.setitem(sys.modules, "cluster.serve.tools", SimpleNamespace(Tools=said.calls("Tools", "tools")))
    said.tried("tools", serve._tools, ["g"], "p", True, True)
    for words in (["a=1,2", "suite=x,y"], ["=1"], ["x={a"], ["a=1"]):
        said.tried(words[0][:9], lambda words=words: list(sweep._combinations(words)))
    deep = SimpleNamespace(parse_overrides=raising(said, "parses", RecursionError()))
    monkeypatch.setattr(sweep, "OverridesParser", SimpleNamespace(create=lambda: deep))
    said.tried("deep", lambda: list(sweep._combinations(["a=1"])))
    for words in (["tracker=wandb"], ["+tracker.project=a=b", "tracker.mode=offline"], ["tracker"], ["suite.a=1"]):
        said.tried(words, lambda words=words: sorted(upload._settings_named(words)))
    for stored, words in (
        *((None, ["tracker=none"]), (None, ["suite=kumo"])),
        *(({"type": "other", "project": "own"}, ["tracker=wandb"]), ({"type": "other", "project": "own"}, [])),
    ):
        said.tried(words, upload.tracker_section, stored, words)
    for groups, schema in (*((["cluster", "cluster"], True), (["suit=kumo"], False), (["model"], False)),):
        said.tried(groups, list_settings.main, options(groups=groups, schema=schema))
    monkeypatch.setattr(list_settings, "schema", lambda group, name: {"é": [group, name]})
    monkeypatch.setattr(list_settings, "show", lambda tables: said(*(f"{each.name}: {each.title}" for each in tables)))
    list_settings.main(options(groups=["suite=kumo"], schema=True))
    list_settings.main(options(groups=["tracker=wandb", "cluster"], schema=False))
    said.check("rare_words")


def test_notes_and_sides_and_samples(said, monkeypatch, tmp_path):
    made = [
        SimpleNamespace(
            id=f"{start}{'0' * 12}",
            episode="e" * 20,
            tag=tag,
            text=f"of {start}",
            author="ann",
            time=f"2026-01-{day}T10",
        )
        for start, tag, day in (("ab", "odd", "02"), ("ac", "", "04"), ("b1", "odd", "03"))
    ]
    found = SimpleNamespace(notes=made, damage=("line 3",))
    file = Thing(said, "file", path=Path("RUN/notes.jsonl"), read=lambda: found)
    for start in ("a", "AB", "b", "", "zz", made[0].id):
        said.tried(f"start {start!r}", notes._the_note, file, start)
    monkeypatch.setattr(notes, "notes_as_text", lambda given, path: f"{len(given)} é of {path.name}")
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    for path in ("new.csv", "new.csv", "link.csv", "gone/new.csv"):
        said.tried("export", notes._export, made, tmp_path / path)
    said((tmp_path / "new.csv").read_text())
    monkeypatch.setattr(
        notes, "show", lambda tables: said(tables[0], *(f"\n  {row}" for row in tables[1].rows), tables[1])
    )
    table = said.calls("notes_table", lambda data, chosen: "counts" if chosen else None)
    runs_at(said, monkeypatch, notes, data="DATA")
    monkeypatch.setattr(notes, "notes_table", table)
    monkeypatch.setattr(notes, "LISTED", 2)
    for tag in ("", "odd", "none"):
        notes._show(SimpleNamespace(path="RUN", data="DATA"), found, tag)
    found.notes = []
    notes._show(SimpleNamespace(path="RUN", data="DATA"), found, "")
    known = {"oracle", "random", "model"}
    for names in (["random"], ["oracle", "modl", "none"], ["random", "zzz"]):
        said.tried(names, compare._check_there, names, {"oracle", "random"}, known)
    labels = compare._labels()
    said(*(label for _, label in zip(range(29), labels, strict=False)))
    for given, several in ((["m", "oracle"], True), (["m", "oracle"], False), ([], True)):
        said(compare._by_default(given, several))
    monkeypatch.setattr(compare, "class_of", lambda group, engine: SimpleNamespace(operational={f"{engine['type']}_n"}))
    sides = []
    for engine in ({"type": "a"}, {"type": "b"}, None):
        sides.append(SimpleNamespace(run=SimpleNamespace(settings={"model": {"engine": engine}})))
    sides.append(SimpleNamespace(run=SimpleNamespace(settings={})))
    said(
        [
            sorted(compare._unimportant(*pair) - set(compare.SHARD_SETTINGS))
            for pair in (sides[:2], sides[1:3], sides[2:])
        ]
    )
    single = [compare.Side("A", "m", None, None, "")]
    monkeypatch.setattr(compare, "sides_of", lambda runs, players: single)
    said.tried("one side", compare.compare, [SimpleNamespace(path="RUN")])
    for files in ([], ["suite=kumo"], ["suite.a=1", "suite"]):
        monkeypatch.setattr(import_run, "check_new", said.calls("check_new"))
        monkeypatch.setattr(import_run, "_import", raising(said, "_import", UserError("no")))
        given = options(files=files, overrides=["b=2"], out=tmp_path / "out", player="p")
        said.tried(files, import_run.main, given)
        said(sorted(path.name for path in tmp_path.iterdir()))
    for error in (None, UserError("bad"), LedgerDamagedError([SimpleNamespace(path="part", reason="torn")])):

        class Read:
            ledger, data = range(3), "data"

            def __init__(self, path, error=error):
                if error is not None:
                    raise error

        monkeypatch.setattr(import_run, "Run", Read)
        said.tried("read once", import_run._read_once, tmp_path)
    said.check("rare_notes")


def test_who_is_asked_again(said, monkeypatch):
    counts = pa.table(
        {
            "episode_id": ["a", "b", "c", "d"],
            "player": ["m", "random", "m", "m"],
            "turns": pa.array([[{"n": 1}, {"n": 2}], [{"n": 1}], None, []]),
        }
    )
    data = SimpleNamespace(batches=lambda names: counts.select(names).to_batches(max_chunksize=3))
    said(retest._turn_counts(data, "m"))
    kept = SimpleNamespace(total=1.0)

    class Journal:
        def __init__(self, path, check):
            said("-> journal", path, check())

    class Directory:
        def __init__(self, path):
            self.path = path

        def claim(self):
            said("-> claims", self.path)

        def check_claim(self):
            return "claimed"

        def release(self):
            said("-> releases", self.path)

    monkeypatch.setattr(retest, "RunDirectory", Directory)
    monkeypatch.setattr(retest, "SpendingJournal", Journal)
    monkeypatch.setattr(retest, "check_journal", said.calls("check_journal"))
    run_of = SimpleNamespace(path="RUN", ledger_cost=kept.total)
    for metered, engine in ((False, {"spend_cap": 1}), (True, {"spend_cap": 0}), (True, {}), (True, None)):
        model = SimpleNamespace(engine_class=SimpleNamespace(metered=metered), engine=engine)
        with retest._journal(run_of, model) as journal:
            said("journal", type(journal).__name__)
    monkeypatch.setattr(retest, "check_journal", raising(said, "check", UserError("no journal")))

    def claims():
        with retest._journal(run_of, model):
            said("never")

    said.tried("claims", claims)

    class Kept:
        def __init__(self, sections):
            self.spendings = []

        def note(self, name, spending):
            said("-> note", name, spending)

        def write(self):
            said("-> write")

    class Settled:
        async def settle(self, covered, seconds):
            said("-> settle", covered, seconds)
            return Account(spent=3.0, in_flight=2.0, highest=1.0, number=covered + 4)

    said(asyncio.run(retest._note(Settled(), Kept(None), 5, 0.5)))
    said(asyncio.run(retest._note(Settled(), Kept(None), 0)))
    stand_ins(
        monkeypatch,
        said,
        retest,
        "",
        stored_sections=said.calls("stored_sections", {"suite": "S", "model": "M"}),
        make_suite=lambda section: f"suite of {section}",
        read_runs=lambda runs, read: read(),
        _turn_counts=said.calls("_turn_counts", "counts"),
        _Job=lambda suite, episode, row, number: (suite, episode.id, row["n"], number),
        _ask_all=said.calls("ask all", lambda *given: given),
        asyncio=SimpleNamespace(run=lambda given: ("asked", given[1:3])),
    )
    rows = [{"episode_id": name, "n": name * 2} for name in "ba"]
    data = Thing(said, "data", find=said.calls("find", rows))
    found = SimpleNamespace(
        path="RUN", config={"decoding": "choice"}, data=data, plan=[SimpleNamespace(id=name) for name in "abc"]
    )
    for engine, chosen, decoding in (
        *((None, {}, "choice"), ({"batch": True}, {}, "choice"), ({"batch": 1}, {}, "choice")),
        *(({}, {"b": [0, 2], "a": [1]}, "choice"), ({"batch": False}, {"a": [1]}, None)),
    ):
        model = SimpleNamespace(name="m", engine=engine, engine_class=SimpleNamespace(metered=False))
        monkeypatch.setattr(retest, "make_model", said.calls("make_model", model))
        monkeypatch.setattr(retest, "sample_turns_to_ask", said.calls("sample", chosen))
        found.config["decoding"] = decoding
        said.tried("retest", retest.retest, found, 0.5, 4, ["a=1"])
    said.check("rare_retests")
