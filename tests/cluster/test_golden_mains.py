"""What commands do with their options, whom they ask and what they print, as on record in ``tests/golden``."""

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from cluster.commands import (
    compare,
    export,
    import_run,
    list_runs,
    list_settings,
    merge,
    play,
    preregister,
    rescore,
    retest,
    serve,
    show_episode,
    site,
    status,
    study,
    sweep,
    trained_on,
    upload,
)
from cluster.engines.base import Account, EngineError, SpendCapReachedError
from cluster.errors import ResumableError, RunFailedError, UserError
from cluster.scaffold import new
from evals.notes import NoteError
from evals.stats.intervals import Estimate
from evals.summary.overview import Line
from evals.tables import Table
from evals.types import PlayerError, Reply
from tests.cluster.test_golden_steps import raising, stand_ins
from tests.golden import digest
from tests.said import Said, Thing


@pytest.fixture
def said(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return Said(capsys, tmp_path)


def options(**given):
    return argparse.Namespace(**given)


def runs_at(said, monkeypatch, module, **more):
    """Runs by their paths, read at once; everything else that a module calls is a thing."""
    monkeypatch.setattr(module, "Run", lambda path: Thing(said, f"run {path}", path=path, **more))
    monkeypatch.setattr(module, "read_runs", lambda runs, read: said("-> read", runs) or read(), raising=False)


class Page:
    """A page in a browser that people play on."""

    def __init__(self, said):
        self.said = said

    def __repr__(self):
        return "page"

    @contextlib.asynccontextmanager
    async def serving(self, listener):
        self.said("serves at", listener)
        yield "an address"
        self.said("serves no more")

    async def end(self):
        self.said("tells that it is over")


def test_people_play(said, monkeypatch):
    stand_ins(
        monkeypatch,
        said,
        play,
        "load_settings report listen",
        play_overrides=lambda given, participant: [*given, f"of {participant}"],
        sound_rows=said.calls("rows of", "rows"),
        ledger_columns=lambda suite: f"columns of {suite}",
        Browser=lambda: Page(said),
        Terminal=lambda folder: said("terminal in a folder", folder.is_dir()) or "terminal",
    )
    for code in (0, 1, 75):
        monkeypatch.setattr(play, "run_and_show", lambda settings, how, code=code: said("run", how.args) or code)
        said("=", play.main(options(overrides=["suite=s"], participant="ann")))
    settings, never = SimpleNamespace(suite="suite"), play.StopWatch(None, None)
    directory, stats, watcher = (Thing(said, name) for name in ("directory", "stats", "watcher"))
    monkeypatch.setattr(play.StopWatch, "of", lambda directory, balanced: never)
    settings.balanced = False
    ends = []

    async def played(settings, games, interface, commit, stopping):
        said("plays", games, interface)
        commit("a record")
        if isinstance(ends[0], BaseException):
            raise ends[0]
        return ends[0]

    for ended, others, browser, players in (
        *((False, False, False, "human oracle human_ann"), (True, False, False, "human random")),
        *((False, True, True, "oracle human"), (True, None, True, "human"), (False, True, False, "oracle")),
        (play.stop_signals.StoppedError("SIGINT"), None, True, "human"),
    ):
        with monkeypatch.context() as patch:
            ends[:] = [ended]
            patch.setattr(play, "play_games", played)
            patch.setattr(play.stop_signals, "raised", contextlib.nullcontext)
            patch.setattr(
                play,
                "play_on_cluster",
                lambda settings, todo, *given, left=others: said("cluster", todo, *given) or left,
            )
            todo = [SimpleNamespace(player=player) for player in players.split()]
            given = (options(browser=browser, port=8), settings, todo, directory, stats, "progress", watcher)
            try:
                said("=", play._play(*given))
            except play.stop_signals.StoppedError as error:
                said(repr(error))

    def taken(port):
        raise OSError("is taken")

    monkeypatch.setattr(play, "listen", taken)
    said.tried("no port", lambda: asyncio.run(play._ask(options(browser=True, port=8), settings, [], None, never)))
    records = [SimpleNamespace(error=""), SimpleNamespace(error="it fell"), ValueError("a defect"), play.QuitError()]

    async def play_episode(suite, episode, player):
        said("plays", suite, episode, type(player).__name__)
        if isinstance(records[episode], Exception):
            raise records[episode]
        return records[episode]

    monkeypatch.setattr(play, "play_episode", play_episode)
    monkeypatch.setattr(play.Record, "of_defect", lambda episode, error: SimpleNamespace(error=f"{error!r}"))
    interface = SimpleNamespace(begin=said.calls("begin"))
    for games in (range(4), range(3), ()):
        commit = lambda record: said("commits", record.error)  # noqa: E731
        said("left", asyncio.run(play.play_games(settings, games, interface, commit, never)))
    said.check("mains_play")


def test_mains_of_comparisons(said, monkeypatch, tmp_path):
    figures = SimpleNamespace(figure_files=said.calls("figure_files", {"f.svg": b"f"}))
    monkeypatch.setitem(sys.modules, "evals.report.build", figures)
    runs_at(said, monkeypatch, study)
    stand_ins(
        monkeypatch, said, study, "show write_files document table_files", report=said.calls("report", (["T"], "F"))
    )
    monkeypatch.setattr(study, "document", lambda tables, title: f"{title} of {tables}")
    monkeypatch.setattr(study, "table_files", lambda tables: {"t.csv": b"t"})
    for out in (None, Path("out")):
        given = options(action="report", run_dirs=["b", "a", "b"], player="p", out=out)
        said("=", study.main(given))
    ended = said.calls("play_all", lambda words: [sweep.Outcome((), len(words[-1]) % 3)])
    monkeypatch.setattr(sweep, "play_all", ended)
    for one in (False, True):
        words = ["suite=s", "a=1,2", "b=[1,2],3,{4,5}"]
        said("=", study.main(options(action="run", overrides=words, one_at_a_time=one)))
    said.tried("no values", study.main, options(action="run", overrides=["a=[1,2]"], one_at_a_time=True))
    monkeypatch.undo()
    monkeypatch.setenv("COLUMNS", "100")
    conditions = [SimpleNamespace(side=SimpleNamespace(run=SimpleNamespace(stopping=())))]
    monkeypatch.setattr(study, "sides_of", said.calls("sides_of", "sides"))
    names = "effects_table interactions_table variance_table split_table effects_figure"
    stand_ins(monkeypatch, said, study, names, text_twins=lambda conditions: [("p", "t"), ("q", "u")])
    monkeypatch.setattr(study, "pairs_of", said.calls("pairs_of", lambda picture, text: ["pair"] * (picture == "q")))
    monkeypatch.setattr(study, "conditions_of", said.calls("conditions_of", conditions))
    monkeypatch.setattr(study, "measured", said.calls("measured", "observations"))
    for effects, together, shares in (({"a": 1, "b": 2}, ["i"], []), ({"b": 2}, [], ["v"]), ({}, [], [])):
        monkeypatch.setattr(study, "shared_names", lambda observations: ["a", "b", "c"])
        monkeypatch.setattr(study, "main_effects", lambda conditions, seen, name, effects=effects: effects.get(name))
        monkeypatch.setattr(study, "interactions", said.calls("interactions", together))
        monkeypatch.setattr(study, "variance_shares", said.calls("variance_shares", shares))
        said.tried("report", study.report, ["run"], "p" if effects else None)
    monkeypatch.setattr(study, "conditions_of", raising(said, "conditions_of", ValueError("of two players")))
    said.tried("report", study.report, ["run"])
    runs_at(said, monkeypatch, compare)
    monkeypatch.setitem(sys.modules, "evals.report.build", figures)
    stand_ins(monkeypatch, said, compare, "show write_files compare forests")
    for detect, flips, players, folder in (
        *((None, 5, None, None), (0.5, 0, "a,b", Path("figures")), (0.0, 5, None, None), (1.0, 5, "", None)),
        *((1.5, 5, None, None), (9e-5, 5, None, None), (1e-4, 5, None, None), (None, -1, None, None)),
    ):
        given = {"players": players, "detect": detect, "flips": flips, "figures": folder, "measure": "cost"}
        said.tried(f"{detect} {flips}", compare.main, options(run_dirs=["b", "a", "b"], **given))
    runs_at(said, monkeypatch, rescore, config="CONFIG", data="DATA", plan=[SimpleNamespace(id="e")])
    stand_ins(monkeypatch, said, rescore, "show make_suite rescored_table changes_table suite_results rescored_run")
    monkeypatch.setattr(rescore, "stored_sections", said.calls("stored_sections", {"suite": "SUITE"}))
    monkeypatch.setattr(rescore, "_rows", lambda data: f"rows of {data}")
    monkeypatch.setattr(rescore, "rescore", said.calls("rescore", "found"))
    monkeypatch.setattr(rescore, "suite_results", said.calls("suite_results", ["scores"]))
    for words, full, error in (([], False, None), (["a=1"], True, None), (["a=1", "b"], True, ValueError("no plan"))):
        planned = raising(said, "planned_anew", error) if error else said.calls("planned_anew", {"f": 1})
        monkeypatch.setattr(rescore, "planned_anew", planned)
        said.tried("rescore", rescore.main, options(run_dir="RUN", overrides=words, turns=7, full=full))
    said.check("mains_comparisons")


def test_mains_of_what_is_said_before_and_while_a_run_is_played(said, monkeypatch, tmp_path):
    runs_at(said, monkeypatch, status)
    stand_ins(monkeypatch, said, status, "show show_live Output")
    for live, stopping, pace, money in (
        *((True, (), None, ""), (False, (), None, "")),
        (False, ("open\x1b", "more"), "9 a minute", "2 dollars"),
    ):
        told = SimpleNamespace(state="at work", stopping=stopping, pace=pace, money=money, players="players")
        monkeypatch.setattr(status, "run_status", said.calls("run_status", told))
        status.main(options(run_dir="RUN", live=live))
    (tmp_path / "run").mkdir()

    async def trained_games(suite, file):
        said("-> trained_games", suite, file)
        return 3, 40

    monkeypatch.setitem(sys.modules, "evals.training.games", SimpleNamespace(trained_games=trained_games))
    monkeypatch.setattr(trained_on, "make_suite", lambda section: f"suite of {section}")
    for blocks in ((), ("training:b", "training:a", "0")):
        monkeypatch.setattr(trained_on, "seeds_of", lambda section, blocks=blocks: blocks)
        monkeypatch.setattr(trained_on, "TRAINING", "training:")
        run = Thing(said, "run", path=tmp_path / "run", config={"suite": "S"})
        monkeypatch.setattr(trained_on, "Run", lambda path, run=run: run)
        trained_on.main(options(run_dir="RUN", file=Path("of/t.json")))
    kept = tmp_path / "run" / "trained_on.json"
    said(kept.read_text())
    for text in (
        *('{"trained": 0, "games": 0, "file": "f"}', '{"trained": 2, "games": 1, "file": "f"}', "[]", "{}"),
        *('{"trained": true, "games": 1, "file": "f"}', '{"trained": 1, "games": 1, "file": 5}'),
        *('{"trained": -1, "games": 1, "file": "f"}', '{"trained": 1, "games": 1, "file": "f"}'),
    ):
        kept.write_text(text)
        said.tried(text, trained_on.training_lines, run)
    stand_ins(monkeypatch, said, preregister, "check_measure")
    registration = SimpleNamespace(to_json=lambda: '{"é": 1}')
    monkeypatch.setattr(preregister, "register", said.calls("register", registration))
    (tmp_path / "there").touch()
    for out, alpha, stop, text in (
        *(("new/p.json", 0.05, None, '{"é": 1}'), ("q.json", 0.5, SimpleNamespace(kind="decided"), "{}")),
        *(("there", 0.05, None, ""), ("r", 0.0, None, ""), ("r", 1.0, None, ""), ("s", 0.1, None, "\ud800")),
        ("there/x", 0.1, None, ""),
    ):
        registration.to_json = lambda text=text: text
        settings = Thing(said, "settings", plan=range(1200), stop=stop)
        monkeypatch.setattr(preregister, "load_settings", said.calls("load_settings", settings))
        given = {"hypothesis": "better", "measure": "success", "overrides": ["a=1", "b=2"]}
        found = said.tried(out, preregister.main, options(out=tmp_path / out, alpha=alpha, **given))
        if found is None:
            said((tmp_path / out).read_text())
    for stdio, turn, episode, attempts in (
        *((True, 0.5, 9.0, 1), (False, 600.0, 21600.0, 3), (False, 0.0, 1.0, 1), (False, 1.0, -1.0, 1)),
        *((False, float("nan"), 1.0, 1), (False, 1.0, 1.0, 0)),
    ):
        stand_ins(monkeypatch, said, serve, "load_settings serve_overrides check_pictures take_output")
        monkeypatch.setattr(serve, "run_and_show", lambda settings, play: said("run", settings, play.args[1:]) or 5)
        given = options(stdio=stdio, turn_timeout=turn, episode_timeout=episode, attempts=attempts, overrides=["a=1"])
        said.tried("serve", serve.main, given)
        said(getattr(given, "output", "none"))
    for error in (None, NoteError("two notes")):
        add = raising(said, "add_from", error) if error else said.calls("add_from")
        unread = SimpleNamespace(damage=("line 3",))
        monkeypatch.setattr(
            merge, "NotesFile", lambda path, add=add: Thing(said, f"notes {path}", add_from=add, read=lambda: unread)
        )
        said.tried("notes", merge._copy_notes, SimpleNamespace(path="SOURCE"), SimpleNamespace(path="TARGET"))
    stand_ins(monkeypatch, said, upload, "score_run make_suite final_results tracked_id check_section")
    tracker = Thing(said, "tracker")
    monkeypatch.setattr(upload, "make_tracker", said.calls("make_tracker", tracker))
    numbers = {"episodes/done": 1, "success/rate": 2, "seconds": 3, "successes": 4, "episodes": 5}
    stats = Thing(said, "stats", to_json=lambda: numbers)
    monkeypatch.setattr(upload, "RunStatistics", said.calls("RunStatistics", stats))
    run = Thing(said, "run", path="RUN", config={"suite": "S"}, plan="PLAN")
    upload.send(run, {"type": "t"})
    tracker.finish = raising(said, "finish", KeyError("x"))
    with pytest.raises(RunFailedError) as failed:
        upload.send(run, {"type": "t"})
    said(failed.value)
    for section, writer in (
        *(({"type": "t"}, None), ({"type": "t", "mode": "offline"}, SimpleNamespace(state="gone", name="h"))),
        ({"type": "t"}, SimpleNamespace(state="at work", name="host, 5")),
    ):
        monkeypatch.setattr(upload, "send", said.calls("send"))
        monkeypatch.setattr(upload, "tracker_section", said.calls("tracker_section", section))
        monkeypatch.setattr(upload, "writer_of", said.calls("writer_of", writer))
        monkeypatch.setattr(upload, "Run", lambda path: Thing(said, "run", path=path, config={"tracker": "stored"}))
        said.tried("upload", upload.main, options(run_dir="RUN", overrides=["a=1"]))
    for error in (None, UserError("x"), RunFailedError("x"), KeyError("x")):
        monkeypatch.setattr(upload, "send", raising(said, "send", error) if error else said.calls("send"))
        try:
            said(upload._send_or_exit(Path("RUN"), {}))
        except (SystemExit, KeyError) as end:
            said(repr(end))
    for alive in (False, True):
        process = Thing(said, "process", is_alive=lambda alive=alive: alive, exitcode=int(alive), pid=7)
        context = Thing(said, "context", Process=said.calls("Process", process))
        monkeypatch.setattr(upload, "multiprocessing", SimpleNamespace(get_context=said.calls("context", context)))
        gone = Thing(said, "gone", kill=raising(said, "kill", upload.psutil.NoSuchProcess(1)))
        children = Thing(said, "parent", children=lambda recursive: [Thing(said, "child"), gone][: 1 + recursive])
        ps = SimpleNamespace(Process=said.calls("of", children), NoSuchProcess=upload.psutil.NoSuchProcess)
        monkeypatch.setattr(upload, "psutil", ps)
        said("=", upload.sent_by_another_process(Path("RUN"), {"type": "t"}, 3.0))
    said.check("mains_around_a_run")


def planned_game(id, **fields):
    """A stand-in of a planned episode."""
    usual = {"player": "m", "suite": "kumo", "task": "t", "level": "l", "mode": "d", "index": 0, "repeat": 0}
    return SimpleNamespace(id=id, **{**usual, **fields})


def test_mains_of_exchange(said, monkeypatch, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    runs_at(said, monkeypatch, export, config={"suite": "S"}, data="DATA")
    monkeypatch.setattr(export, "make_suite", lambda section: f"suite of {section}")
    sources = [
        SimpleNamespace(name="a", withheld={"z\x1b", "b"}, lost_pictures={"1"}),
        SimpleNamespace(name="b", withheld={"a"}, lost_pictures={"1", "2"}),
    ]
    monkeypatch.setattr(export, "sources_of", said.calls("sources_of", sources))

    def write(source, folder):
        said("-> write", source.name, folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{source.name}.json").write_text("x" * 1234)
        return [Path(f"{source.name}.json")]

    def join(sources, folder, repository):
        for name in ("models/org__b__c", "models/org__a", "dataset"):
            (folder / name).mkdir(parents=True)
        said("-> join", len(sources), folder, repository)
        (folder / "dataset" / "README.md").write_text("x" * 2000)
        return [Path("dataset/README.md")]

    monkeypatch.setattr(
        export, "FORMATS", {"one": export.Format(write, ("a", "b")), "huggingface": export.Format(None, ("c",))}
    )
    monkeypatch.setattr(export.huggingface, "export_huggingface", join)
    for number, (to, repo, out) in enumerate(
        (
            *(("one", "", None), ("huggingface", "", None), ("huggingface", "me/data.set", None), ("one", "me", None)),
            *(("one", "", tmp_path / "full"), ("one", "", tmp_path / "full" / "file")),
        )
    ):
        given = options(run_dir="RUN", out=out or tmp_path / f"out{number}", to=to, repo=repo)
        said.tried(f"{to} {repo}", export.main, given)
    monkeypatch.setattr(export, "sources_of", lambda data, suite: [])
    said.tried("nothing", export.main, options(run_dir="RUN", out=tmp_path / "none", to="one", repo=""))
    folder = tmp_path / "again"
    (folder / ".unfinished" / "old").mkdir(parents=True)
    for error in (
        None,
        ValueError("bad"),
        OSError(28, "No space left on device"),
        OSError(2, "gone"),
        KeyboardInterrupt(),
    ):
        try:
            with export.whole_or_nothing(folder) as unfinished:
                said(unfinished.exists())
                (unfinished / "sub").mkdir(parents=True)
                (unfinished / "file").touch()
                if error is not None:
                    raise error
        except (Exception, KeyboardInterrupt) as caught:
            said(repr(caught))
        said(sorted(path.name for path in folder.iterdir()))
        for name in ("file", "sub") if error is None else ():
            (folder / name).rename(tmp_path / name)
    found = import_run._Imported(Thing(said, "directory"))
    one, same, again = (planned_game(id) for id in ("1", "1", "2"))
    found.add_episodes([one], Path("a"))
    others = [
        planned_game(name, **{name: "other"})
        for name in ("player", "suite", "task", "level", "mode", "index", "repeat")
    ]
    for what in (one, same, again, *others):
        said.tried("episode", found.add_episodes, [what], Path("b"))
    for section in ({"x": 1}, {"x": 1}, {"x": 2}):
        said.tried("suite", found.add_suite, "kumo", section, Path("c"))
    for suites, model, decoding, asked in (
        ({"s": {"type": "s"}}, {}, "", {}),
        ({"s": {"a": 1}, "t": {"b": 2}}, {"name": "é"}, "choice", {"deterministic": True}),
    ):
        found = import_run._Imported(Thing(said, "directory"), {}, suites, model, decoding, asked)
        said(import_run._config(found, Path("out")))
    sizes = [SimpleNamespace(size=size) for size in (5, 95, 99, 0, 0, 99, 1, 300, 1, *[0] * 4)]
    monkeypatch.setattr(import_run, "BYTES_AT_ONCE", 100)
    monkeypatch.setattr(import_run, "AT_ONCE", 3)
    said(
        [[each.size for each in batch] for batch in import_run._batches(iter(sizes))], [*import_run._batches(iter(()))]
    )
    beside = tmp_path / ".beside"
    import_run._clear(beside)
    for writer in (None, SimpleNamespace(state="gone", name="h"), SimpleNamespace(state="at work", name="h")):
        beside.mkdir(exist_ok=True)
        monkeypatch.setattr(import_run, "writer_of", said.calls("writer_of", writer))
        said.tried("clear", import_run._clear, beside)
        said(beside.exists())
    suite = SimpleNamespace(name="kumo")
    for names in ("kumo", "kumo b a"):
        episodes = [SimpleNamespace(suite=name) for name in names.split()]
        said.tried(names, import_run._of_suite, episodes, suite, Path("f"))
    monkeypatch.setattr(import_run, "planned_episode", said.calls("planned_episode", "planned"))
    for carried in (None, {"episode": 1}, {"episode": 1, "row": 2}):
        said.tried("carried", import_run._carried_parts, SimpleNamespace(carried=carried, place="f, sample 3"))
    said.check("mains_exchange")


def test_imports_step_by_step(said, monkeypatch, tmp_path):
    def transcript(name, **more):
        return SimpleNamespace(place=f"f, sample {name}", size=1, player="org/m", **more)

    def written(carried, *found):
        return lambda path: (carried, iter(found))

    names = "check_scores ledger_rows make_suite stored_sections planned_episode"
    facts = Thing(said, "facts", versions={"v": "1"}, began="today", suite={"s": 1}, suite_version=3, withheld=[])
    facts.model, facts.decoding = {"name": "m"}, "free"
    facts.model_dump = lambda include, **how: said("-> dump", sorted(include), how) or {"history": {"x": "y"}}
    rows = pa.table({"episode_id": ["a", "b"], "session": ["", ""]})
    suite = SimpleNamespace(name="kumo", version=3)
    suite.parts = (suite,)
    for name, case in {
        "other.txt": {},
        "foreign.eval": {"carried": None},
        "given.eval": {"carried": None, "overrides": ["suite=kumo"], "player": "p"},
        "own.json": {},
        "own.eval": {"overrides": ["a=1"], "player": "p"},
        "named.json": {"player": "p"},
        "older.json": {"version": 2, "withheld": [f"w{n}" for n in range(21)], "unplayed": ["u"], "began": ""},
        "torn.json": {"played": 3},
        "whole.json": {"played": 2, "unchecked": 2, "stopping": ["a: decided", "b: \x1b[2Jopen"]},
        "more.json": {"unplayed": ["u", "v"]},
        "fewer.json": {"played": 1},
        "second.json": {"before": {"name": "m"}},
        "another_model.json": {"before": {"name": "earlier"}},
    }.items():
        case = {
            "carried": "carried",
            "overrides": [],
            "player": "",
            "version": 3,
            "withheld": [],
            "unplayed": [],
        } | case
        case = {"played": None, "unchecked": 0, "began": "today", "before": None, "stopping": None} | case
        said(f"--- {name}")
        (tmp_path / name).write_text(name)
        stand_ins(monkeypatch, said, import_run, names, make_suite=said.calls("make_suite", suite))
        one, two = ({"episode": f"e{n}", "row": f"r{n}"} for n in range(2))
        reader = written(case["carried"], transcript(1, carried=one), transcript(2, carried=two))
        monkeypatch.setattr(import_run, "READERS", {".eval": ("inspect", reader), ".json": ("every", reader)})
        facts.suite_version, facts.withheld, facts.unplayed = case["version"], case["withheld"], case["unplayed"]
        facts.played, facts.began, facts.stopping = case["played"], case["began"], case["stopping"]
        monkeypatch.setattr(import_run, "read_as", said.calls("read_as", facts))
        monkeypatch.setattr(import_run, "stored_sections", said.calls("stored_sections", {"suite": {"type": "kumo"}}))
        planned = lambda each, place: planned_game(str(each), index=str(each))  # noqa: E731
        monkeypatch.setattr(import_run, "planned_episode", said.calls("planned_episode", planned))
        monkeypatch.setattr(
            import_run, "ledger_rows", lambda suite, parts, place, session: said("rows", parts[0][1], session) or rows
        )
        monkeypatch.setattr(
            import_run, "check_scores", lambda suite, *given: said("check", given[3]) or case["unchecked"]
        )
        monkeypatch.setattr(import_run, "_import_foreign", said.calls("foreign"))
        monkeypatch.setattr(import_run, "LEAST_CHECKED", 3)
        found = import_run._Imported(SimpleNamespace(commit_rows=lambda rows: said("-> commits", rows.to_pydict())))
        if case["before"]:
            found.model, found.decoding, found.asked = case["before"], "free", {"history": {"x": "y"}}
        given = (tmp_path / name, case["overrides"], case["player"], found)
        said.tried("=", import_run._import, *given)
        said(found.sessions, [*found.plan], found.suites, found.model, found.decoding, found.asked)
    monkeypatch.undo()
    monkeypatch.setenv("COLUMNS", "100")
    parts = (SimpleNamespace(name="kumo"), SimpleNamespace(name="kidgym"))
    sections = {"suite": {"type": "bundle", "suites": [{"type": "kumo"}, {"type": "kidgym"}]}}
    for title, player, samples, built_in, wrong, several in (
        *(("none", "", (), (), None, False), ("nameless", "", ("",), (), None, False)),
        *(("built-in", "oracle", ("org/m",), ("oracle",), None, False), ("no plan", "", ("org/m",), (), "plan", False)),
        *(
            ("one", "", ("hub/org/m", "hub/org/m"), (), None, False),
            ("bundle", "own", ("m", "m"), ("oracle",), None, True),
        ),
        *(("twice", "", ("a/m", "a/m"), (), "twice", False), ("unsound", "", ("m",), (), "rows", False)),
    ):
        said(f"--- {title}")
        whole = SimpleNamespace(parts=parts if several else parts[:1])
        stand_ins(
            monkeypatch,
            said,
            import_run,
            "compose_config",
            plain_values=lambda config, several=several: (
                sections if several else {"suite": sections["suite"]["suites"][0]}
            ),
            make_suite=said.calls("make_suite", whole),
            built_in_names=lambda suite, built_in=built_in: built_in,
            plan_for=raising(said, "plan_for", ValueError("no levels"))
            if wrong == "plan"
            else said.calls("plan_for", lambda suite, players: [*episodes]),
            plan_by_key=lambda plan: "keys",
            planned_for=lambda each, keys: each.episode,
            replay=said.calls("replay", lambda part, episode, each: f"record of {episode.id}"),
            ledger_columns=lambda suite: "columns",
            checked_rows=raising(said, "rows", KeyError("x"))
            if wrong == "rows"
            else lambda records, columns: said(records) or rows,
        )
        episodes = [planned_game(f"e{n}", suite=parts[n * several].name, index=n) for n in range(2)]
        order = (0, 0) if wrong == "twice" else (0, 1)
        found = import_run._Imported(SimpleNamespace(commit_rows=lambda rows: said("-> commits", rows.to_pydict())))
        given = [
            SimpleNamespace(player=name, place=f"sample {n}", size=1, episode=episodes[order[n]])
            for n, name in enumerate(samples)
        ]
        said.tried(
            "=", import_run._import_foreign, Path("f.eval"), ["suite=s"], player, iter(given), "imported-1", found
        )
        said([*found.plan], found.suites, found.model)
    said.check("mains_imports")


def test_new_packages_are_written_from_templates(said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for kind in ("suite", "engine", "task", "domain"):
        said.tried(kind, new.main, options(kind=kind, name="number_hunt_2", folder=tmp_path / kind))
        for path in sorted((tmp_path / kind).iterdir()):
            text = path.read_text()
            said(path.name, len(text.splitlines()), digest(text))
    names = ["a" * 40, "a" * 41, "class", "A", "a__b", "a_", "1a", "a1_2b", "", "json", "kumo", "simulated", "é"]
    for name in names:
        for kind in ("suite", "engine", "domain"):
            try:
                said(kind, name, new._check_name(kind, name))
            except UserError as error:
                said(kind, error)
    (tmp_path / "file").touch()
    for folder in ("suite", "file", "file/x"):
        said.tried(folder, new.main, options(kind="task", name="ab", folder=tmp_path / folder))
    (tmp_path / "ab").mkdir()
    said.tried("here", new.main, options(kind="task", name="ab", folder=None))
    said.check("mains_new")


class Asked:
    """An engine that is asked again; it says what it was told, and is paid."""

    max_num_seqs = 2

    def __init__(self, said, trouble=None):
        self.said, self.trouble, self.at_once, self.most_at_once, self.settled = said, trouble, 0, 0, 0

    def add_spent_elsewhere(self, total, highest):
        self.said("-> spent elsewhere", total, highest)

    async def settle(self, covered, seconds):
        self.said("-> settle", covered, seconds)
        self.settled += 1
        await asyncio.sleep(0)
        if self.trouble == "journal" and self.settled > 2:
            raise OSError("the disk is full")
        return Account(1.5, 0.5, 0.25, covered + 1)

    async def start(self):
        self.said("-> start")
        if self.trouble == "start":
            raise EngineError("no GPU")

    async def complete(self, request):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.said("-> complete", request)
        await asyncio.sleep(0.01 if self.trouble in (None, "cap") else 60)
        self.at_once -= 1
        if self.trouble == "cap" and request == "request of 2":
            raise SpendCapReachedError("10.00 of 10.00")
        if request == "request of 1":
            raise PlayerError("too long")
        return Reply(f"<think>Hm.</think>answer to {request}")

    async def close(self):
        self.said("-> close after", self.most_at_once, "at once")


def test_turns_are_asked_again_as_on_record(said, monkeypatch, tmp_path):
    for share in (-0.1, 0.0, 1.1):
        said.tried(share, retest.main, options(share=share))
    runs_at(said, monkeypatch, retest)
    stand_ins(monkeypatch, said, retest, "show agreement_table disagreement_table")
    for share, asked, stopped in (
        (0.001, ["again"], ""),
        (1.0, ["again"], "the cap is reached"),
        (1.0, [], "the cap is reached"),
    ):
        monkeypatch.setattr(retest, "retest", said.calls("retest", (asked, 3, stopped)))
        try:
            retest.main(options(run_dir="RUN", share=share, seed=4, overrides=["a=1"], turns=9))
        except ResumableError as error:
            said("ResumableError:", error)
    monkeypatch.setattr(retest, "request_for", lambda turn, decoding: f"request of {turn}")

    async def compared(reply):
        return f"compared {reply.text} after {reply.reasoning}"

    jobs = [SimpleNamespace(turn=number, compared=compared) for number in range(3)]
    for paid, trouble in ((False, None), (True, None), (True, "cap"), (False, "start"), (True, "journal")):
        engine = Asked(said, trouble)
        journal = Thing(said, "journal", before=SimpleNamespace(total=7.0, highest=2.0)) if paid else None
        model = SimpleNamespace(name="m", make_engine=lambda engine=engine: engine)
        before = len(said.lines)
        try:
            said("=", asyncio.run(retest._ask_all(model, "choice", jobs, journal)))
        except (RunFailedError, OSError) as error:
            said("=", repr(error))
        closing = next(
            place for place, line in enumerate(said.lines) if line.startswith("-> close") and place >= before
        )
        last = said.lines[closing - 3 : closing]
        kept = dict.fromkeys(said.lines[before:])  # how often the journal is written meanwhile depends on the clock
        said.lines[before:] = [line for line in kept if not line.startswith("-> settle") or line.endswith("0.0")]
        if paid and trouble != "journal":
            said("before the engine closed:", *last)
    with pytest.raises(OSError):
        asyncio.run(retest._keep_journal(Asked(said, "journal"), Thing(said, "journal")))
    said.check("mains_retest")


def test_lists_of_runs_and_settings(said, monkeypatch, tmp_path):
    def run(name, began="", spent=None, stopping=(), lines=()):
        sessions = [{"began": began}] if began else []
        data = SimpleNamespace(stopping=stopping, lines=lines)
        return SimpleNamespace(path=tmp_path / "runs" / name, sessions=sessions, spent=spent, data=data)

    def read_runs(runs, read):
        if runs[0].data.lines is None:
            raise UserError("damaged")
        return read()

    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(list_runs, "read_runs", read_runs)
    monkeypatch.setattr(list_runs, "overview", lambda data: iter(data.lines))
    half = Estimate(0.5, 0.25, 0.75, 40)
    one, two = Line("kumo", "m", 9, 4, 2, half, 0.0), Line("kidgym", "m", 7, 7, 0, half, 1.23456)
    free = run("a", "2026-01-02T03:04:05", lines=[one, one], stopping=("stopped: decided", "open"))
    paid = run("b/c", "2026-01-02T03:04:06", 2.5, lines=[one, two], stopping=("open",))
    for runs in (
        *([free], [run("none", lines=None), free], [paid, free]),
        *(
            [run("", spent=0.0, lines=[one])],
            [run("d", spent=0.001, lines=[two])],
            [run("d", lines=[two]), run("e", lines=None)],
        ),
    ):
        monkeypatch.setattr(list_runs, "find_runs", lambda folder, unread, runs=runs: runs)
        table = list_runs.list_runs(tmp_path / "runs")
        said(table.name, table.title, table.columns, *(f"\n  {row}" for row in table.rows))
        said(*(f"  {note}\n" for note in table.notes))
    for text in ("cluster", "model=simulated", "model", "suit=kumo", "cluster=x", ""):
        found = said.tried(text, list_settings._read, text)
        if isinstance(found, tuple) and text != "cluster=x":
            for table in list_settings._tables(*found):
                said(table.name, "|", table.title, "|", table.columns, len(table.rows), table.rows[0])
    said.check("mains_lists")


def test_mains_that_show(said, monkeypatch, tmp_path):
    monkeypatch.setattr(show_episode, "Output", said.calls("Output", "console"))
    row = {"episode_id": "abc", "player": "p"}
    note = SimpleNamespace(id="n1", author="ann", time="2026", tag="odd", text="look here", episode="abc")
    other = SimpleNamespace(id="n2", author="bob", time="2027", tag="", text="", episode="x")
    notes = SimpleNamespace(notes=[note, other], damage=(), by_episode=lambda: {"abc": [note, other]})
    runs_at(said, monkeypatch, show_episode, data="DATA")
    stand_ins(monkeypatch, said, show_episode, "show print_episode")
    monkeypatch.setattr(show_episode, "NotesFile", lambda path: SimpleNamespace(read=lambda: notes))
    monkeypatch.setattr(show_episode, "chosen", lambda found, tag: [each for each in found if each.tag == tag])
    monkeypatch.setattr(show_episode, "list_episodes", said.calls("list_episodes", "table"))
    monkeypatch.setattr(show_episode, "read_episode", said.calls("read_episode", ("SUITE", row)))
    for episode, tag in ((None, ""), (None, "odd"), (None, "none"), ("AB", "")):
        show_episode.main(options(run_dir="RUN", episode=episode, tag=tag, pictures="auto", full=True))
    ids = pa.table({"episode_id": ["abcd0", "abce1", "ffff2", "é", "aa3", "aa4", "aa5", "aa6"]})
    run = Thing(said, "run", path="RUN", planned=ids)
    for start in ("abcd", "abc", "aa", "ffff2", "fffe", "zz", "", "é"):
        said.tried(start, show_episode.whole_id, run, start)
    run.data = Thing(said, "data", find=lambda names: [])
    monkeypatch.undo()
    said.tried("not played", show_episode.read_episode, run, "FFF")
    monkeypatch.setattr(show_episode, "_SUGGESTED_FROM", 3)
    for start in ("aa9", "abd", "q"):
        said.tried(start, show_episode.whole_id, run, start)
    for many in (3, 4):  # of so many, those that begin otherwise are suggested, too, or not
        few = SimpleNamespace(path="RUN", planned=pa.table({"episode_id": ["abcd0", "abce1", "ffff2", "aa3"][:many]}))
        said.tried(many, show_episode.whole_id, few, "bbcd0")
    for many in (3, 4):
        alike = SimpleNamespace(path="RUN", planned=pa.table({"episode_id": ["a1", "a2", "a3", "a4"][:many]}))
        said.tried(f"alike {many}", show_episode.whole_id, alike, "a")
    row = {"episode_id": "ffff2", "suite": "toy", "toy.right": 1, "other.right": 2, "toy": 3}
    run.data, run.config = Thing(said, "data", find=said.calls("find", [row])), {"suite": "section"}
    parts = [SimpleNamespace(name=name) for name in ("other", "toy")]
    monkeypatch.setattr(show_episode, "make_suite", said.calls("make_suite", SimpleNamespace(parts=parts)))
    said(show_episode.read_episode(run, "FFF"), show_episode._what(None), "|", show_episode._what(()))
    for row in (
        *({"status": "failed", "error": "KeyError: it  broke " + "x " * 40}, {"status": "failed", "error": "Timeout"}),
        {"status": "failed", "error": "KeyError: "},
        *({"status": "done", "success": True, "cut_off": 0}, {"status": "done", "success": False, "cut_off": 2}),
    ):
        said(show_episode._outcome(row))
    for began, path in (("2026", "b"), ("2025", "a"), ("2026", "a")):
        said(list_runs._latest_first((began, SimpleNamespace(path=path))))
    for sessions in ([], [{"began": "2026-01-02T03:04:05Z"}, {"began": "2027"}], [{}]):
        said(repr(list_runs._began(SimpleNamespace(sessions=sessions))))
    tree = ("a/plan.parquet", "b/c/d/plan.parquet", "b/c/d/e/plan.parquet", ".x/plan.parquet", "f/g/h/i/plan.parquet")
    for name in tree:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    said([str(run.path.relative_to(tmp_path)) for run in list_runs.find_runs(tmp_path)])
    for name in ("none", "f"):
        said.tried(name, list_runs.list_runs, tmp_path / name)
    table = Table(
        "runs",
        "Runs\x1b",
        ("run", "began", "suite", "n"),
        (("é" * 3, "2026", "a", 1), ("", "", "long", 22)),
        ("Note.",),
    )
    monkeypatch.setattr(list_runs, "list_runs", lambda folder: table)
    list_runs.main(options(folder="F"))
    for place in ("one/r", "two/r", "s"):
        (tmp_path / "sites" / place).mkdir(parents=True)
    places = [tmp_path / "sites" / place for place in ("one/r", "two/r", "s", "s")]
    said(site._named(places))
    for manifest in ([], {}, {"files": ["a.html", "../b.html", "x/c.html", "d.txt", 5, "e.html"]}):
        said(sorted(site._pages_named(manifest)))
    monkeypatch.setattr(site, "Run", lambda path: SimpleNamespace(begun=path.name == "r"))
    for several in (places, places[2:3], [*places[2:], tmp_path / "none"]):
        said([path.name for path in site._begun(several)])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    for out in ("sites/s", "new", "other", "other/x"):
        said.tried(out, site._earlier_files, tmp_path / out)
    monkeypatch.setattr(site, "write_site", said.calls("write_site", 5))
    monkeypatch.setattr(site, "Site", lambda title, license, made: (title, license, made.tzinfo is not None))
    site.main(options(run_dirs=["r"], out=tmp_path, title="T", license="L"))
    said.check("mains_that_show")
