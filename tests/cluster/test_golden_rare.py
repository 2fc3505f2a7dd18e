"""What commands say on ways that are rarely taken, as on record in ``tests/golden``."""

import asyncio
import contextlib
import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pyarrow as pa
import pytest
from huggingface_hub.errors import HFValidationError

from cluster import completion
from cluster.commands import (
    commits,
    compare,
    import_run,
    list_models,
    list_settings,
    merge,
    notes,
    plan,
    play,
    report,
    retest,
    run,
    serve,
    site,
    sweep,
    upload,
    view,
)
from cluster.config import compose, helps, keys, registry, settings, stored
from cluster.engines import (
    api_engine,
    api_limited,
    prompt_check,
    template_files,
    vllm,
    vllm_chat,
    vllm_fields,
    vllm_process,
)
from cluster.engines.api_answer import Usage
from cluster.engines.api_errors import EndpointError
from cluster.engines.base import Account, Engine, EngineError
from cluster.engines.batch import connection as batch_connection
from cluster.engines.providers import base as provider_base
from cluster.engines.providers.anthropic_client import AnthropicEngine
from cluster.errors import ResumableError, RunFailedError, UserError
from cluster.launch import start_nodes
from cluster.models import hub
from cluster.observe.performance import TIMINGS
from cluster.ray_backend import actors
from cluster.suite_commands.kumo import import_transcripts, pipeline
from evals.ledger.parts import LedgerDamagedError
from evals.notes import NoteError
from evals.tables import Table
from evals.types import PlayerError, message
from tests.cluster.openai_api.test_requests import Dot
from tests.cluster.test_golden_config import settings_of
from tests.cluster.test_golden_mains import options, runs_at
from tests.cluster.test_golden_mains import said as said  # a fixture
from tests.cluster.test_golden_steps import raising, stand_ins
from tests.said import Thing


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
        suite = SimpleNamespace(name="kumo", needs=SimpleNamespace(label_scores=labels))
        suite.parts = (suite,)
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
    suite.parts, suite.needs.label_scores = (SimpleNamespace(name="other", needs=suite.needs),) * 2, True
    said(plan.describe_plan(settings, None)[0].rows[4])
    model.engine = None
    said(*plan.describe_plan(settings, None)[0].rows)
    said(TIMINGS)
    said.check("rare_plans")


def test_runs_that_are_begun_again(said, monkeypatch, tmp_path):
    engine = SimpleNamespace(fixed_for_run=("base_url", "model"))
    for name, begun, held, asked in (
        *(("new", False, {"engine": {"base_url": "a"}}, {"base_url": "b"}), ("no engine", True, {}, None)),
        ("same", True, {"engine": {"base_url": "a", "model": "m", "other": 1}}, {"base_url": "a", "model": "m"}),
        ("other", True, {"engine": {"base_url": "a", "model": "m"}}, {"base_url": "a", "model": "n"}),
        *(("gone", True, {"engine": {"base_url": "a"}}, {}), ("none stored", True, None, {"model": "n"})),
    ):
        found = SimpleNamespace(begun=begun, config={"model": held}, path="RUN")
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
        resume = SimpleNamespace(todo=range(left), attempts=attempts, needed=planned)
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
    for words in (["a=1,2", "suite=x,y"], ["=1"], ["x={a"], ["a=1"], ["a=glob(b*)", "c=1"]):
        said.tried(words[0][:9], lambda words=words: list(sweep._combinations(words)))
    deep = SimpleNamespace(parse_overrides=raising(said, "parses", RecursionError()))
    monkeypatch.setattr(sweep, "OverridesParser", SimpleNamespace(create=lambda: deep))
    said.tried("deep", lambda: list(sweep._combinations(["a=1"])))
    for words in (["tracker=wandb"], ["+tracker.project=a=b", "tracker.mode=offline"], ["tracker"], ["suite.a=1"]):
        said.tried(words, lambda words=words: sorted(upload._settings_named(words)))
    for held, words in (
        *((None, ["tracker=none"]), (None, ["suite=kumo"])),
        *(({"type": "other", "project": "own"}, ["tracker=wandb"]), ({"type": "other", "project": "own"}, [])),
    ):
        said.tried(words, upload.tracker_section, held, words)
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
        said.tried("export", notes._export, found, "", tmp_path / path)
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
    file.add, file.remove = said.calls("add", lambda given: min(len(given), 2)), said.calls("remove")
    ids = SimpleNamespace(to_pylist=lambda: ["e1"])
    held = Thing(said, "run", path=Path("RUN"), planned={"episode_id": ids}, check_begun=said.calls("begun"))
    with monkeypatch.context() as patch:
        patch.setattr(notes, "Run", lambda path: held)
        patch.setattr(notes, "NotesFile", lambda path: said("-> file of", path) or file)
        patch.setattr(notes, "user_name", lambda: "user")
        patch.setattr(notes, "whole_id", said.calls("whole_id", "e1"))
        patch.setattr(notes, "new_note", said.calls("new_note", SimpleNamespace(id="n1", episode="e1")))
        patch.setattr(notes, "read_notes", said.calls("read_notes", ["a", "b", "c"]))
        patch.setattr(notes, "_export", said.calls("_export"))
        patch.setattr(notes, "_show", said.calls("_show"))
        asked = {"episode": None, "remove": None, "import_": None, "export": None, "author": "", "tag": "odd"}
        for given in (
            *({"episode": "E1", "text": "T", "author": "ann"}, {"episode": "", "text": ""}, {"remove": "AB"}),
            *({"remove": "b", "author": "ann"}, {"import_": Path("i"), "author": "bob"}, {"export": Path("x")}, {}),
        ):
            notes.main(options(run_dir="RUN", **asked | given))
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
        def __init__(self, path, check, retest_of):
            said("-> journal", path, check(), retest_of.sessions)

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
    run_of = SimpleNamespace(path="RUN", ledger_cost=kept.total, sessions=[{"id": "first"}, {"id": "second"}])
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

    class Job(tuple):
        episode = property(lambda self: SimpleNamespace(id=self[1]))

    stand_ins(
        monkeypatch,
        said,
        retest,
        "",
        stored_sections=said.calls("stored_sections", {"suite": "S", "model": "M"}),
        make_suite=lambda section: f"suite of {section}",
        read_runs=lambda runs, read: read(),
        _turn_counts=said.calls("_turn_counts", "counts"),
        _Job=lambda suite, episode, row, number: Job((suite, episode.id, row["n"], number)),
        _readable=lambda run, jobs: jobs,
        _ask_all=said.calls("ask all", lambda *given: given),
        guard_of=said.calls("guard of", lambda engine: contextlib.nullcontext()),
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
        model = SimpleNamespace(
            name="m", engine=engine, engine_class=SimpleNamespace(metered=False, starts_processes=False)
        )
        monkeypatch.setattr(retest, "make_model", said.calls("make_model", model))
        monkeypatch.setattr(retest, "sample_turns_to_ask", said.calls("sample", chosen))
        found.config["decoding"] = decoding
        said.tried("retest", retest.retest, found, 0.5, 4, ["a=1"])
    said.check("rare_retests")


def test_what_is_not_there_or_cannot_be_written(said, monkeypatch, tmp_path):
    here, moved = "a" * 40, "b" * 40
    monkeypatch.setattr(commits, "_named_on_hub", lambda settings: ("org/m", "v1"))
    monkeypatch.setattr(commits, "_at_commit", lambda settings, commit: f"at {commit[:3]}")
    for now in (here, moved, ""):
        monkeypatch.setattr(commits, "commit_of", said.calls("commit_of", now))
        for sessions in ([], [{"surroundings": {"weights": here}}, {}], [{"surroundings": {"weights": "x"}}]):
            for strict in (False, True):
                said.tried("=", commits.with_commit, SimpleNamespace(strict=strict), sessions)
    for found in (f"/c/{here}/config.json", "/c/x/config.json", None, object()):
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", said.calls("cached", found))
        said(repr(commits._cached_commit("org/m", "v1")))
    monkeypatch.setattr(
        huggingface_hub, "try_to_load_from_cache", raising(said, "cached", HFValidationError("no name"))
    )
    said(repr(commits._cached_commit("org/m/n", "v1")))
    listed = SimpleNamespace(stdout="GPU 0: H100\n  MIG 1\nGPU 1: H100\nno GPU 2\n")
    monkeypatch.setattr(list_models.subprocess, "run", said.calls("run", listed))
    for there in (None, "/bin/nvidia-smi"):
        monkeypatch.setattr(list_models.shutil, "which", said.calls("which", there))
        said(list_models.count_gpus())
    said([list_settings._default(SimpleNamespace(required=needed, default=(1, 2))) for needed in (True, False)])
    said(merge._engine_keys({"model": {"name": "random", "engine": None}}), merge._engine_keys({}))
    runs_at(said, monkeypatch, notes)
    monkeypatch.setattr(
        notes, "NotesFile", lambda path: Thing(said, "file", read=raising(said, "read", NoteError("torn")))
    )
    asked = {"episode": None, "remove": None, "import_": None, "export": None, "author": "ann", "tag": ""}
    for chosen in ({}, {"remove": "a"}, {"export": tmp_path / "x"}):
        said.tried(chosen and [*chosen], notes.main, options(run_dir="RUN", **asked | chosen))
    (tmp_path / "file").touch()
    said.tried("report", report.write_files, tmp_path / "file", {"x": b""})
    said.tried("site", site._write, tmp_path / "gone" / "x", "text")
    for writer in (None, SimpleNamespace(state="at work"), OSError("unread")):
        found = raising(said, "lease", writer) if isinstance(writer, OSError) else lambda path, writer=writer: writer
        monkeypatch.setattr(view, "writer_of", found)
        said(repr(view._writer_of(Path("RUN"))()))
    monkeypatch.setitem(sys.modules, "argcomplete", Thing(said, "argcomplete"))
    for shell in ("", "_ARGCOMPLETE"):
        monkeypatch.setattr(completion.os, "environ", {shell: "1"})
        completion.offer_completion("the parser")
    monkeypatch.undo()
    said(helps._below_fields(int), keys._registered_name("suite", "mine"), keys._registered_name("suite", "kumo"))
    monkeypatch.setattr(registry.plugins, "registered", raising(said, "registered", ValueError("two of a name")))
    said.tried("names", registry.names_of, "suite")
    monkeypatch.undo()
    said.tried("stored", stored.stored_sections, Path("RUN"), {"suite": {"x": object()}}, ["suite"], [])
    (tmp_path / "model").mkdir()
    for text in ("{", "[]", '{"a": 1}'):
        (tmp_path / "model" / "config.json").write_text(text)
        said.tried("config", lambda: hub.files_of(str(tmp_path / "model")).config)
    (tmp_path / "model" / "config.json").unlink()
    said.tried("config", hub.files_of, str(tmp_path / "model"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    said(hub._from_hub("a/b", None, True), template_files._cached("a/b", "x", None))
    ray = SimpleNamespace(
        init=said.calls("init"),
        nodes=lambda: [
            {"Alive": alive, "Labels": labels}
            for alive, labels in ((True, {"slurm-node": "n1"}), (False, {"slurm-node": "n2"}), (True, {}))
        ],
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    said(sorted(start_nodes._joined("h:1")))
    for error in (ConnectionError("x"), RuntimeError("x"), ValueError("x")):
        ray.init = raising(said, "init", error)
        said(start_nodes._joined("h:1"))
    groups = SimpleNamespace(get_current_placement_group=lambda: group)
    ray.util = groups
    for begun, group, gpus in ((True, "group", 2), (True, None, 2), (False, "group", 1), (True, None, 1)):
        ray.is_initialized = lambda begun=begun: begun
        said(begun, group, gpus, vllm_process.executor(gpus))
    for name, module, kumo in (
        ("stages", "run_command", pipeline),
        ("transcripts", "import_transcripts", import_transcripts),
    ):
        whole = SimpleNamespace(**{module: said.calls(module, 7)})
        monkeypatch.setitem(sys.modules, f"cluster.suite_commands.kumo.{name}", whole)
        given = {"kumo_command": "check", "folder": "F", "overrides": ["a=1"], "estimate": True}
        said(kumo.main(options(**given)))
    said.check("rare_absences")


def test_settings_that_plan_nothing(said, monkeypatch, tmp_path):
    for change in ({"run_dir": "s3://bucket/x"}, {"run_dir": "http://h"}, {"run_dir": "a:b"}):
        said.tried(change, settings_of, change)
    whole = settings.whole_plan
    for left in (1, 0):
        monkeypatch.setattr(
            settings, "whole_plan", lambda plain, left=left: (*whole(plain)[:2], whole(plain)[2][:left])
        )
        for shard in (None, "2/2", "1/2"):
            said.tried(f"{left} {shard}", lambda shard=shard: settings_of({"shard": shard})[:40])
    for error in (None, ValueError("no font")):
        drawn = raising(said, "check_openings", error) if error else said.calls("check_openings", 3)
        monkeypatch.setattr(settings, "check_openings", drawn)
        said.tried("pictures", settings.check_pictures, SimpleNamespace(suite="S", plan="P"))
    for words in (
        *(["model.engine.api_key=[sk-12"], ["+model.engine.headers={a"]),
        ["sk-proj-1234567890abcdefghij"],
    ):
        said.tried(words, compose.compose_config, words)
    monkeypatch.setattr(compose, "compose", raising(said, "compose", RecursionError()))
    said.tried("deep", compose.compose_config, ["suite=kumo"])
    said.check("rare_settings")


class Least(Engine):
    """An engine with nothing but what is required."""

    async def complete(self, request):
        raise PlayerError("no")


def test_engines_on_rare_ways(said, monkeypatch):
    least = Least()
    said(Least.capabilities({}), least.max_num_seqs, least.facts, asyncio.run(least.load_weights("m")))
    said([method({}) for method in (Least.known_prices, Least.texts_of_files)], repr(Least.price_note({})))
    said(Least.keys_within(), Least.sampling_keys(), Least.check_settings({}), Least.check_environment({}))
    said([least.add_spent_elsewhere(1, 2), least.keep_in("RUN"), *map(asyncio.run, (least.start(), least.close()))])
    with pytest.raises(NotImplementedError):
        asyncio.run(least.settle(0, 0.0))
    for prompt in ("one two", "one two two", "two", ""):
        said.tried(repr(prompt), prompt_check._check_once, (message("user", "one", "two "),), prompt)
    for spec in (None, SimpleNamespace(submodule_search_locations=None)):
        monkeypatch.setattr(vllm_fields.importlib.util, "find_spec", lambda name, spec=spec: spec)
        said(vllm_fields._fields("x.py", ("X",)))
    monkeypatch.undo()
    engine = object.__new__(vllm.VLLMEngine)
    renderer = Thing(said, "renderer", stat_mm_cache=said.calls("stat_mm_cache", "stats"))
    engine._engine, engine._max_num_seqs = SimpleNamespace(renderer=renderer), 7
    engine._pictures = Thing(said, "pictures", take=said.calls("take", (3, 4)))
    said(engine.picture_cache(), engine.max_num_seqs)
    chat = object.__new__(vllm_chat.VLLMChat)
    chat.model, chat.multimodal, chat._arrangement, chat._marks, chat._picture_mark = "m", False, "A", "M", "P"
    chat._template = said.calls("template", {"prompt": "rendered"})
    monkeypatch.setattr(vllm_chat, "arranged", said.calls("arranged", "arranged"))
    for error in (None, prompt_check.WrongPromptError("words are missing")):
        checks = raising(said, "check", error) if error else said.calls("check")
        monkeypatch.setattr(vllm_chat, "check_prompt", checks)
        for parts in (("Hm.",), ("Look:", Dot(9))):
            try:
                said(chat.rendered((message("user", *parts),)))
            except PlayerError as refused:
                said(refused.kind, refused)
    engine = Thing(said, "engine", goes_on=False)
    engine._form = SimpleNamespace(parameter_names=lambda body: {"seed", "stop", *body})
    engine._accepted = {"stop"}
    engine._close = lambda cause, kind=EngineError: kind(f"closed: {cause}")
    for words, status, goes_on in (
        *(("busy", 503, True), ("key", 401, False), ("prompt is too long", 400, False), ("no", 400, False)),
        *(
            ("bad 'seed'", 400, False),
            ("'stop' and 'x'", 400, False),
            ("max_completion_tokens, not 'seed'", 400, False),
        ),
    ):
        error = EndpointError(words, status)
        error.goes_on = goes_on
        try:
            api_engine.ApiEngine._refuse(engine, error, {"x": 1})
        except (EngineError, PlayerError) as refused:
            said(type(refused).__name__, refused)

    async def probed(silent):
        asked = SimpleNamespace(_probing=asyncio.Lock(), _silent_since=silent, _form=Thing(said, "form"))
        asked._send = said.calls("send")
        return await api_engine.ApiEngine._answers_at_all(asked)

    said(asyncio.run(probed(float("inf"))))
    endpoint = object.__new__(api_limited.LimitedEndpoint)
    endpoint.spend = SimpleNamespace(price=lambda prompt, completion: f"{prompt} and {completion}")
    said([endpoint._price_without_cache(Usage(*tokens)) for tokens in ((), (5,), (None, 7), (5, 7, 3))])
    store = Thing(said, "store", counted={"t": 1}, answers={"t": 1, "u": 2})
    known = Thing(said, "connection", store=store)
    for turn in "tuv":
        known._turn_id = lambda name, body, turn=turn: turn
        for unreadable in (False, True):
            said(turn, unreadable)
            batch_connection.BatchConnection.note_price(known, {}, "e-0", 2.5, unreadable)

    async def stopped(error):
        waiting = [asyncio.get_running_loop().create_future() for _ in range(2)]
        waiting[1].set_result("answered")
        of = SimpleNamespace(_waiting=dict(enumerate(waiting)), _stopped=None)

        async def fails():
            raise error

        await batch_connection.BatchConnection._stop_all_on_error(of, fails())
        told = waiting[0].exception()
        return type(told).__name__, str(told), told is of._stopped, waiting[1].result(), of._waiting

    for error in (KeyError("x"), EndpointError("no", 400), EndpointError("key", 401), EndpointError("busy", 503)):
        said(asyncio.run(stopped(error)))
    monkeypatch.setattr(provider_base, "_is_installed", said.calls("installed", False))
    said.tried("package", AnthropicEngine.check_settings, {"model": "m"})
    monkeypatch.undo()
    said([provider_base._is_installed(name) for name in ("json", "json.tool", "no_such.thing", "no_such")])

    async def exchange(self, assignment):
        return f"report of {assignment}"

    monkeypatch.setattr(actors.Runner, "exchange", exchange)
    runner = object.__new__(actors._RunnerActor)
    runner._metrics = Thing(said, "metrics")
    said(asyncio.run(runner.exchange("games")))
    said.check("rare_engines")


def test_runs_of_one_report(said, monkeypatch, tmp_path):
    runs = []
    for place, player in (("a/run", "m"), ("b/run", "m"), ("b/other", "n")):
        (tmp_path / place).mkdir(parents=True)
        run_there = SimpleNamespace(path=tmp_path / place, data=f"data of {place}", config={"n": player}, sessions=[])
        runs.append(run_there)
    results = [report.Results([f"tables {n}"], {}, frozenset(), (f"warned {n}",), [f"said {n}"]) for n in range(3)]
    suites = ["S1", "S2", "S3"]

    def relabeled(stored, built_in, labels):
        said("-> relabeled", stored, sorted(built_in), labels)
        names = [*stored]
        return {**stored, names[1]: "other players"}

    monkeypatch.setattr(report, "relabeled", relabeled)
    monkeypatch.setattr(report, "built_in_names", lambda suite: {"random", f"oracle of {suite}"})
    scored = SimpleNamespace(tables=["scored again"])
    monkeypatch.setattr(report, "_score", lambda run, data, suite: said("-> score", run.path, data, suite) or scored)
    monkeypatch.setattr(
        report, "run_names", lambda configs: {name: f"{each['n']} of it" for name, each in configs.items()}
    )
    monkeypatch.setattr(report, "is_imported", lambda sessions: "imported" in sessions)
    for labels, imported in (((), False), (("x", "y", "z"), False), ((), True)):
        runs[2].sessions = ["imported"] * imported
        joint = report._joint(runs, suites, results, labels)
        for one in joint.runs:
            said("  ", *(getattr(one, field.name) for field in dataclasses.fields(one)))
    said.check("rare_reports")
