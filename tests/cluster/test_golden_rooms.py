"""What rooms of the cluster say and pass on for tables of odd inputs, as on record in ``tests/golden``."""

import argparse
import contextlib
import itertools
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from cluster import streams
from cluster.commands import challenge, plan, repeat, replay, run, study, trained_on, watch_checkpoints
from cluster.errors import RunFailedError
from cluster.launch import start_nodes
from cluster.people import command, export, folder
from cluster.storage import provenance
from cluster.suite_commands.kumo import analyze, show, token_masks, transcripts
from evals.people.study import Participant, Plan, Study
from evals.tables import Table
from tests.said import Said, Thing


def options(**given):
    return argparse.Namespace(**given)


def test_small_commands(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    monkeypatch.setattr(provenance, "versions", lambda: {"git_commit": "now", "python": "3.11"})
    monkeypatch.setattr(provenance, "surroundings", lambda config, commit: {"template": config["name"] + commit})
    told = [
        {"id": "s1", "git_commit": "old", "python": "3.10", "surroundings": {"template": "a"}},
        {"id": "s2", "git_commit": "now", "python": "3.11", "surroundings": {"template": "b"}},
    ]
    for planned, ours, sessions in (
        ("ab", "ab", told[1:]),
        ("ab", "abc", []),
        ("abc", "ab", told),
        ("ab", "cd", told[:1]),
    ):
        source = SimpleNamespace(path="RUN", planned=pa.table({"episode_id": [*planned]}), sessions=sessions)
        settings = SimpleNamespace(plan=[SimpleNamespace(id=name) for name in ours], config="name: b")
        said(planned, ours, "\n".join(["", *repeat.what_differs(source, settings)]))
    monkeypatch.setattr(repeat, "repeated_settings", said.calls("settings", settings))
    monkeypatch.setattr(repeat, "run_and_show", said.calls("run", 7))
    monkeypatch.setattr(repeat, "what_differs", lambda *given: ["one", "two"])
    said("repeat", repeat.repeat(Path("RUN"), ["a=1"]))

    for timings in (
        *([], [{"playing_seconds": 10, "turns": 60, "replicas": 2}, {"playing_seconds": 5, "turns": 10}]),
        *([{"turns": 9, "replicas": 2}], [{"playing_seconds": 4, "replicas": 2}, {"turns": 6}]),
    ):
        monkeypatch.setattr(plan, "Run", lambda path, timings=timings: SimpleNamespace(timings=timings))
        said("speed", plan._speed("RUN"))
    monkeypatch.setattr(replay.retest, "main", said.calls("retest"))
    replay.main("options")
    for name in ("new_challenge", "open_challenge"):
        monkeypatch.setattr(challenge, name, said.calls(name, f"did {name}"))
    table = Table("t", "Games", ("suite", "others"), (("kumo", 1),))
    for action, others in (("new", 0), ("open", 0), ("check", 0), ("check", 1)):
        monkeypatch.setattr(challenge, "check_run", said.calls("check", lambda run, *given: (table, others)))
        monkeypatch.setattr(challenge, "Run", lambda path: f"run at {path}")
        said(challenge.main(options(action=action, file="FILE", hash="HASH", run_dir="RUN")))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(watch_checkpoints, "Folder", lambda *given: given)
    monkeypatch.setattr(watch_checkpoints, "run", "run")
    monkeypatch.setattr(
        watch_checkpoints, "Watch", lambda asked, run: SimpleNamespace(watch=lambda: (*vars(asked).values(), run))
    )
    plain = {"folder": Path("link"), "games": 0, "settled": 0.0, "overrides": ["a=1"], "out": None}
    plain |= {"once": "once", "until": "until", "restart": "restart"}
    for more in (
        *({}, {"games": -1}, {"games": 3, "out": Path("out")}, {"settled": -0.5}, {"settled": float("inf")}),
        *(
            {"settled": float("nan")},
            {"settled": 2.5},
            {"overrides": ["a=1", "run_dir=x"]},
            {"overrides": ["shard=1/2"]},
        ),
        *(
            {"overrides": ["model.name=x"]},
            {"overrides": ["model.engine.model=x"]},
            {"overrides": ["model.engine.models=x"]},
        ),
    ):
        said.tried(more, watch_checkpoints.main, options(**{**plain, **more}))

    kept = tmp_path / trained_on.KEPT_AS
    suite = {"type": "kumo", "seeds": "training:3"}
    runs = [SimpleNamespace(path=tmp_path, config={"suite": each}) for each in ({"type": "kumo"}, suite)]
    for content in (
        *(None, "[", "[]", "{}", '{"file": "f", "trained": 1}', '{"file": "f", "trained": 3, "games": 2}'),
        *('{"file": "f", "trained": 2000, "games": 2000}', '{"file": "f", "trained": 0, "games": 1}'),
        *('{"file": 1, "trained": 0, "games": 1}', '{"file": "f", "trained": true, "games": 1}'),
        *('{"file": "f", "trained": -1, "games": 1}', '{"file": "f", "trained": 1.0, "games": 1}'),
    ):
        if content is not None:
            kept.write_text(content)
        for each in runs:
            said.tried(content, trained_on.training_lines, each)

    monkeypatch.setattr(run, "sent_by_another_process", said.calls("send again", lambda *given: given[1]["good"]))
    for good in (True, False):
        run._send_again(SimpleNamespace(path="RUN"), {"good": good}, "it fell")
    for words in (["a=1"], ["a=1,2", "b=x", "c=[1,2],[3]"], ["a=1", "b=(1,2),{c:1,d:2},3"], ["c=[1,2]"]):
        for alone in (True, False):
            said.tried(words, study.sweeps, words, alone)
    said.check("small_commands")


class Probe:
    """A socket that connects to anything, and binds what is not taken."""

    taken = frozenset({20_000, 20_002, *range(20_016, 20_031)})

    def __init__(self, *kind):
        self.kind = kind

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def bind(self, where):
        if where[1] in self.taken:
            raise OSError("taken")

    def connect(self, where):
        self.where = where

    def getsockname(self):
        return (f"10.0.0.7 towards {self.where} by {self.kind[1].name}", 5)

    def close(self):
        pass


def test_starting_nodes(capsys, monkeypatch):
    said = Said(capsys)
    for job in (0, 1, 749, 750, 751, 10**6):
        block = start_nodes.ports_of_job(job)
        said("ports of", job, block[0], block[-1], len(block))

    def resolved(host, port, **more):
        if host == "nowhere":
            raise OSError("unknown name")
        return [(socket.AF_INET, more["type"], 17, "", (host, port)), "another"]

    late = iter([1] * 5)  # for so long nobody listens at the third port

    def connected(where, seconds):
        said("to", where, seconds)
        if where[1] == 1 or (where[1] == 3 and next(late, 0)):
            raise OSError("refused")
        return Probe()

    found = {**vars(socket), "socket": Probe, "getaddrinfo": resolved, "gethostname": lambda: "here"}
    monkeypatch.setattr(start_nodes, "socket", SimpleNamespace(**found | {"create_connection": connected}))
    for job, count in ((0, 2), (0, 14), (0, 15), (1, 1), (1, 2)):
        said.tried(f"free {job} {count}", start_nodes.free_ports, job, count)
    for address in ("a:2", "[::1]:2", "a:1"):
        said.tried(address, start_nodes.listens, address)
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(start_nodes, "time", clock)
    joined = iter([{"x"}, {"x", "y"}, {"", "y"}, {"x", "y", "z"}] + [{"y"}] * 99)
    monkeypatch.setattr(start_nodes, "_joined", lambda address: next(joined))
    for words in (
        *("choose 0 peer", "choose 1 peer", "choose 0 nowhere", "address peer", "listening a:2 3", "listening a:1 1"),
        *("wait a:2 5 x y", "wait a:2 5 y z", "wait a:2 1 y x w", "wait a:1 .5 x", "walk"),
        "wait a:3 4 x w",
    ):
        said(words, "->", start_nodes.main(words.split()), f"at {clock.now:g}")
    said.check("start_nodes")


def test_people(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    people = [Participant(f"person-{name}", name * 20, name.upper(), (name,)) for name in "abc"]
    plans = {
        kind: Plan(kind=kind, settings=("a=1",), players_per_game=1, games_per_participant=1)
        for kind in ("play", "review")
    }
    for name in ("participants_table", "review_table", "play_agreement_table", "against_table"):
        table = Table(name, name, ("n",), ((1,),))
        shown = lambda *given, table=table: table  # noqa: E731
        monkeypatch.setattr(export, name, said.calls(name, shown))
    monkeypatch.setattr(export, "write_run", said.calls("write_run"))
    monkeypatch.setattr(export, "Run", lambda path: SimpleNamespace(data=f"data of {path}"))

    class Answers(SimpleNamespace):
        def __repr__(self):
            return f"{self.participant.person} begun {self.begun}"

    class Open(SimpleNamespace):
        def __repr__(self):
            return "opened"

    async def taken(study, participant, games, check_games):
        return Answers(participant=participant, begun=participant.person[-1] in games + (check_games or ""))

    monkeypatch.setattr(export, "taken_by", taken)
    against = [Path("runs/one"), Path("/")]
    for kind, games, checks, others in (
        ("play", "ac", None, against),
        ("play", "a", "b", []),
        ("play", "", None, against),
        ("review", "b", None, against),
    ):
        study_folder = tmp_path / f"{kind}-{games}"
        study_folder.mkdir()
        opened = Open(study=Study(study_folder, plans[kind], tuple(people)), games=games, check_games=checks)
        opened.settings = SimpleNamespace(run_dir="RUN")
        said(
            [table.name for table in export.export(opened, others)],
            sorted(path.name for path in study_folder.rglob("*")),
        )
    texts = {
        "consent": "See `[this]` and [that](x)\n[a]",
        "instructions": "Fill [in\nthis]",
        "thanks": "Thank you, [name].",
    }
    study = Study(tmp_path, plans["play"], tuple(people), texts)
    for address in ("http://a:1", "https://b/c//"):
        path = folder.write_links(study, address)
        said(path, oct(path.stat().st_mode), "\n" + path.read_text())
    command._warn_of_placeholders(study)
    for text in ("", "https://a.b", "http://a", "ftp://a", "a.b", "https://", "http://[a"):
        said.tried(text, lambda text=text: command._address(text).geturl())

    class Short(Study):
        def __repr__(self):
            return "the study"

    some = Short(tmp_path / "x y", plans["play"], (*people[:2], Participant("person-d", "d" * 20, "D", ("a", "x"))))
    for name in ("new_study", "add_participants"):
        monkeypatch.setattr(command, name, said.calls(name, some))
    given = {
        "folder": "FOLDER",
        "overrides": ["a=1"],
        "kind": "play",
        "players": 3,
        "games": 2,
        "title": "T",
        "count": 4,
    }
    for act in ("new", "add"):
        said(command.main(options(act=act, **given)))
    opened = Open(study=some, games="GAMES", check_games="CHECKS", settings=SimpleNamespace(run_dir=tmp_path / "none"))
    monkeypatch.setattr(command, "open_study", said.calls("open", opened))
    monkeypatch.setattr(command, "export", said.calls("export", ["tables"]))
    for name in ("locked", "write_links", "show", "_warn_of_placeholders", "StudyServer", "server_config", "uvicorn"):
        monkeypatch.setattr(command, name, Thing(said, name))
    monkeypatch.setattr(command, "locked", lambda folder: contextlib.nullcontext(said("locked", folder)))
    for run_dir in ("none", "folder"):
        opened.settings.run_dir = tmp_path / run_dir
        (tmp_path / "folder").mkdir(exist_ok=True)
        said(command.main(options(act="export", folder=tmp_path / "s", against=["RUN"])))
    monkeypatch.setattr(command.socket, "gethostname", lambda: "Machine")
    monkeypatch.setattr(command, "listen", said.calls("listen", SimpleNamespace(getsockname=lambda: ("", 8701))))
    monkeypatch.setattr(command, "StudyServer", said.calls("StudyServer", Thing(said, "server", app=said.calls("app"))))
    for host, public in (
        *(("127.0.0.1", ""), ("localhost", "http://a.b/c"), ("0.0.0.0", ""), ("Here", "https://A.b")),
        *(("0.0.0.0", "http://a.b"), ("0.0.0.0", "a.b")),
    ):
        said.tried(f"{host} {public}", command.main, options(act="serve", folder="F", host=host, port=9, public=public))
    (some.folder / "answers").mkdir(parents=True)
    (some.folder / "answers" / "person-b.jsonl").write_text("{\n")
    command._warn_of_damage(some)
    said.check("people")


def test_studies_are_made_and_opened(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    numbers = {"settings": ("a=1",), "players_per_game": 2, "games_per_participant": 3}
    people = (Participant("person-a", "a" * 20, "A", ("g1", "g2")), Participant("person-b", "b" * 20, "B", ("g9",)))
    suites = lambda overrides: SimpleNamespace(suite=f"suite of {overrides}")  # noqa: E731
    by_id = {f"g{number}": number for number in range(3)}
    games = lambda suite: SimpleNamespace(by_id=by_id, different=[*by_id], suite=suite)  # noqa: E731
    monkeypatch.setattr(folder, "load_settings", said.calls("load", suites))
    monkeypatch.setattr(folder, "Games", SimpleNamespace(of=said.calls("games", games)))
    for some, checks in ((people[:1], ()), (people[:1], ("b=2",)), (people, ())):
        study = Study(tmp_path, Plan(**numbers, check_games=checks), some)
        monkeypatch.setattr(folder, "read_study", said.calls("read", study))
        said.tried("open", lambda: vars(folder.open_study(tmp_path)).values())
    letters = iter("aaaaaaaabbbbbbbbbbbbbbbbccccccccddddddddeeeeeeee")
    monkeypatch.setattr(folder.secrets, "choice", lambda alphabet: next(letters))
    said(folder._new_words(3, {"person-aaaaaaaa", "CCCCCCCC"}))
    monkeypatch.setattr(folder, "_new_words", said.calls("words", ["w1", "w2", "w3", "w4"]))
    monkeypatch.setattr(folder.secrets, "token_urlsafe", lambda count: f"token of {count}")
    assigned = {"person-w1": ("g2",), "person-w2": ("g1",)}
    monkeypatch.setattr(folder, "assign", said.calls("assign", assigned))
    said(folder._drawn(["g1", "g2"], 2, 1, "played", people))
    monkeypatch.setattr(folder, "_drawn", said.calls("drawn", people[1:]))
    monkeypatch.setattr(folder, "_finished", lambda study: "finished")
    study = Study(tmp_path, Plan(**numbers), people[:1])
    monkeypatch.setattr(folder, "open_study", lambda place: SimpleNamespace(study=study, games=games("s")))
    for count in (-1, 0, 1, 100_000, 100_001):
        found = said.tried(count, folder.add_participants, tmp_path, count)
        said(
            "folder holds",
            *((path.name, oct(path.stat().st_mode), path.read_text()) for path in tmp_path.glob("*.json")),
        )
        assert isinstance(found, str) or found.participants == people
    said.tried("no folder", folder.add_participants, tmp_path / "none", 1)
    with folder.locked(tmp_path):
        said.tried("twice", folder.add_participants, tmp_path, 1)
    monkeypatch.setattr(
        folder, "play_overrides", said.calls("play", ["suite=s", "a=1", "suite=s", "model=human", "model.name=x"])
    )
    for needed, kind, each, of in (
        (4, "play", 1, 1),
        (5, "review", 2, 3),
        (100_001, "play", 1, 1),
        (1, "play", 0, 1),
        (1, "play", 1, 0),
    ):
        monkeypatch.setattr(folder, "participants_needed", said.calls("needed", needed))
        place = tmp_path / f"new-{needed}-{kind}"
        said.tried("new", lambda: vars(folder.new_study(place, ["suite.given=1"], kind, each, of, "Title")).values())
        if place.exists():
            said(
                sorted(path.name for path in place.iterdir()),
                (place / "study.yaml").read_text(),
                (place / "instructions.md").read_text()[:40],
            )
            said.tried("again", folder.new_study, place, [], kind, each, of, "Title")
    said.check("studies")


def test_commands_of_kumo(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rows = [(number, f"d{number}", 1.5) for number in range(21)]
    tables = [Table("long", "Long", ("n", "name", "x"), tuple(rows), ("Note.",), brief=("name", "n"))]
    tables.append(Table("short", "Short", ("n", "name", "x"), tuple(rows[:20])))

    def analyzed(opened, scores):
        said("analyze", [(each.name, each.run, each.suite) for each in opened], scores)
        if scores == "wrong":
            raise ValueError("no run of KUMO")
        return SimpleNamespace(tables=tables, figures=[])

    opened = lambda name, run, suite: SimpleNamespace(name=name, run=run, suite=suite)  # noqa: E731
    whole = "evals.suites.kumo.lab.analysis.analyze"  # which imports much
    monkeypatch.setitem(sys.modules, whole, SimpleNamespace(analyze=analyzed, OpenedRun=opened))
    stored = lambda path: SimpleNamespace(path=path, data=f"data of {path}", config={"suite": path.name})  # noqa: E731
    for module in (analyze, show):
        monkeypatch.setattr(module, "Run", stored)
        monkeypatch.setattr(module, "read_runs", lambda runs, read: read())
    monkeypatch.setattr(analyze, "make_suite", lambda section: f"suite of {section}")
    monkeypatch.setitem(
        sys.modules, "evals.report.build", SimpleNamespace(figure_files=lambda figures: {"f.svg": b"f"})
    )
    for run_dirs, scores, out, full in (
        ("a/x b/x c/y", None, None, False),
        ("a/x", "S", tmp_path / "o/p", True),
        ("a", "wrong", None, True),
    ):
        given = options(run_dirs=[Path(each) for each in run_dirs.split()], scores=scores, out=out, full=full)
        said.tried(run_dirs, analyze.main, given)
    said(sorted(path.name for path in tmp_path.rglob("*")))
    said.tried("into it again", analyze._write, tmp_path / "o/p", tables, SimpleNamespace(figures=[]))
    (tmp_path / "file").write_text("")
    said.tried("onto a file", analyze._write, tmp_path / "file", tables, SimpleNamespace(figures=[]))

    class Suite(show.KumoSuite):
        def puzzle(self, *place):
            return place

    row = {"task": "t", "level": "l", "index": 3, "repeat": 4}
    monkeypatch.setattr(show, "game_text", said.calls("game", ["shown"]))
    for suite, episode in ((Suite(max_steps=9), "abc"), (SimpleNamespace(name="kidgym"), "abc"), (None, "")):
        monkeypatch.setattr(show, "read_episode", lambda run, name: (said("read", run.path, name), (suite, row))[1])
        said.tried(episode, show.main, options(what=str(tmp_path), episode=episode, depth=2))

    overrides = {"checkout": Path("it's"), "domains": ["a", "b\\c"], "run_dir": None}
    for more, models in (({}, ["m", "n", "o"]), ({"run_dir": Path("r")}, ["m"])):
        said("\n".join(transcripts._overrides(options(**overrides | more), Path("s"), models)))
    batches = [pa.table({"task": [name, name], "level": ["easy", "hard"], "index": [0, 1]}) for name in "abcdefgh"]
    tasks = [SimpleNamespace(level="easy", task=SimpleNamespace(index=index)) for index in (0, 5)]
    monkeypatch.setattr(transcripts, "open_domain", said.calls("open", SimpleNamespace(tasks=tasks)))
    reread = lambda rows, tasks, checkout: [(len(rows), [*tasks], checkout)]  # noqa: E731
    monkeypatch.setattr(transcripts, "reread", reread)

    class Pool:
        def __init__(self, processes):
            self.processes = processes

        def __enter__(self):
            return self

        def __exit__(self, *error):
            said("pool ended")

        def submit(self, function, *given):
            said("submitted", given[0]["task"][0])
            return SimpleNamespace(result=lambda: function(*given))

    monkeypatch.setattr(transcripts, "process_pool", Pool)
    for processes in (1, 2):
        data = SimpleNamespace(batches=lambda columns: iter(batches))
        for each in transcripts._reread(data, "checkout", "source", processes):
            said(each)
    data = SimpleNamespace(of=lambda name: data, plan="plan", episodes=lambda: "rows")
    monkeypatch.setattr(transcripts, "Run", lambda path: SimpleNamespace(data=data))
    found = [SimpleNamespace(differences=["one", "two"]), SimpleNamespace(differences=["three"])]
    monkeypatch.setattr(transcripts, "_reread", said.calls("reread", found))
    monkeypatch.setattr(transcripts, "join_runs", lambda *given: [given])
    monkeypatch.setattr(transcripts, "transcript_domains", lambda *given: given)
    made = lambda runs, rereads, domains: (said(runs, len(rereads), domains("m")), tables[1])[1]  # noqa: E731
    monkeypatch.setattr(transcripts, "transcript_table", made)
    monkeypatch.setattr(transcripts, "write_differences", lambda found, file: file.write("\n".join(found)) * 100)
    (tmp_path / "tables").mkdir()
    transcripts._compare(tmp_path, "checkout", "source", 3)
    said((tmp_path / "differences.csv").read_text(), (tmp_path / "tables/short.csv").read_text()[:20])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(transcripts, "import_checkout", said.calls("import", lambda *given: given[2](1, 2, "c")))
    said(transcripts._import(Path("checkout")))
    (tmp_path / "runs/kumo-published").mkdir()
    (tmp_path / "runs/kumo-published/benchmark.json").write_text("")
    said(transcripts._import(Path("checkout")))
    said.check("kumo_commands")


def test_games_and_transcripts_of_kumo(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "game_text", said.calls("game", ["shown"]))
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(show, "Output", lambda: SimpleNamespace(print=said))
    monkeypatch.setattr(show, "puzzles_of", said.calls("puzzles_of", lambda *given: [*range(given[2])]))
    usual = {"episode": None, "size": "easy", "valid_truths": 2, "index": 3, "seed": 5, "book": "table", "depth": 4}
    for what, more in (
        *(("medical", {}), ("medical", {"size": "6x8"}), ("medical", {"size": "odd"}), ("medical", {"index": -1})),
        *(("medical", {"index": show.MOST_TASKS}), ("medical", {"episode": "abc"}), ("run", {})),
    ):
        said.tried(f"{what} {more}", show.main, options(what=what, **usual | more))
    monkeypatch.setattr(show, "puzzles_of", lambda *given: (_ for _ in ()).throw(ValueError("no such domain")))
    said.tried("nowhere", show.main, options(what="nowhere", **usual))
    monkeypatch.setattr(transcripts, "transcript_players", said.calls("players", ["b", "a"]))
    monkeypatch.setattr(transcripts, "benchmark_domains", said.calls("domains"))
    lacking = {"b": {"f1": 1, "f2": 1200}, "a": {}}
    monkeypatch.setattr(transcripts, "lines_without_a_task", lambda checkout, name: lacking[name])
    others = {"b": {"f1": (7,), "f2": (*range(1000, 1009),)}, "a": {}}
    monkeypatch.setattr(transcripts, "lines_of_other_tasks", lambda checkout, name, tasks: others[name])
    monkeypatch.setattr(transcripts, "_overrides", said.calls("overrides", ["o=1"]))
    monkeypatch.setattr(transcripts, "_compare", said.calls("compare"))
    monkeypatch.setattr(transcripts, "_import", said.calls("import", Path("imported")))
    for models, source, games, processes, end in (
        *((None, None, 9, 1, 0), (["b"], Path("s"), transcripts._IN_PROCESS, 4, 5), (["a", "x", "y"], None, 1, 1, 0)),
        *((["a"], None, transcripts._IN_PROCESS + 1, 2, 0), (["a"], None, 10**6, 1, 0)),
        (["a"], None, 1, 1, RunFailedError("it died")),
    ):
        settings = SimpleNamespace(plan=range(games), run_dir="RUN")
        monkeypatch.setattr(transcripts, "load_settings", said.calls("load", lambda words, settings=settings: settings))

        def played(settings, end=end):
            if isinstance(end, Exception):
                raise end
            return end, None

        monkeypatch.setattr(transcripts, "play", played)
        given = options(checkout=Path("checkout"), source=source, models=models, processes=processes)
        try:
            said.tried("=", transcripts.import_transcripts, given)
        except RunFailedError as error:
            said("=", error)
    monkeypatch.setattr(transcripts, "benchmark_domains", lambda source: (_ for _ in ()).throw(ValueError("no import")))
    said.tried("wrong", transcripts.import_transcripts, given)
    monkeypatch.setattr(transcripts, "transcript_players", lambda checkout: ["oracle", "other", "random"])
    monkeypatch.setattr(transcripts, "benchmark_domains", said.calls("domains"))
    said.tried("named as built-in", transcripts.import_transcripts, given)
    given.models = ["other", "random"]
    said.tried("named as built-in", transcripts.import_transcripts, given)
    said.check("kumo_transcripts")


class Tokenizer:
    """A token for each character."""

    is_fast, chat_template, name_or_path = True, "template", "named"

    def __init__(self, forgets=False, asks="a:"):
        self.forgets, self.asks = forgets, asks

    def apply_chat_template(self, messages, tokenize, add_generation_prompt=False):
        assert not tokenize
        shown = [m["content"] if not self.forgets or m is messages[-1] else "-" for m in messages]
        text = "".join(f"{m['role'][0]}:{content};\n" for m, content in zip(messages, shown, strict=True))
        return text + self.asks * add_generation_prompt

    def __call__(self, text, add_special_tokens, return_offsets_mapping):
        assert not add_special_tokens and return_offsets_mapping
        return {"input_ids": [*map(ord, text)], "offset_mapping": [(place, place + 1) for place in range(len(text))]}


def test_token_masks(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    chats = [
        [("system", "S"), ("user", "U"), ("assistant", "yes "), ("user", ""), ("assistant", "")],
        [("user", "é")],
        [],
    ]
    chats = [[{"role": role, "content": text} for role, text in chat] for chat in chats]
    odd = [(Tokenizer(forgets=True), chats[0]), (Tokenizer(asks="<think>"), chats[0]), (Tokenizer(asks="?"), chats[1])]
    for tokenizer, chat in [*((Tokenizer(), chat) for chat in chats), *odd]:
        try:
            ids, mask = token_masks.token_mask(tokenizer, chat)
            said("".join(map(chr, ids)).replace("\n", "|"), "\n" + "".join(map(str, mask)))
        except ValueError as error:
            said(error)
    written = []
    monkeypatch.setattr(
        token_masks.trajectory_file, "read", lambda path: [{"messages": chats[1]}] * 201 + [{"messages": chats[0]}]
    )
    monkeypatch.setattr(
        token_masks.trajectory_file, "write", lambda out, batches, schema: written.extend(map(len, batches))
    )
    monkeypatch.setattr(token_masks.trajectory_file, "check_new", said.calls("check_new"))
    monkeypatch.setattr(token_masks, "ensure_tiny_model", lambda: "the tiny model")
    for name, made in (
        ("tiny", Tokenizer()),
        ("other", Tokenizer()),
        ("slow", SimpleNamespace(is_fast=False, chat_template="t")),
        ("bare", SimpleNamespace(is_fast=True, chat_template="")),
        ("wrong", None),
    ):

        def load(asked, made=made):
            said("load", asked)
            if made is None:
                raise RuntimeError("whatever")
            return made

        monkeypatch.setitem(
            sys.modules, "transformers", SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=load))
        )
        said.tried(name, token_masks.main, options(file="FILE", out="OUT", tokenizer=name))
    said(written)
    said.check("token_masks")


class Stream:
    """A stream that fails as its script says."""

    encoding = "utf-8"

    def __init__(self, said, *errors):
        self.said, self.errors = said, iter(errors)

    def _try(self, what):
        self.said(what)
        if error := next(self.errors, None):
            raise error

    def write(self, text):
        self._try(f"write {text}")

    def flush(self):
        self._try("flush")

    def fileno(self):
        self._try("fileno")
        return 77


def test_closed_and_broken_streams(capsys, monkeypatch):
    said = Said(capsys)
    taken = itertools.chain([0, 5, 2], itertools.repeat(9))
    noted = {"open": said.calls("open", lambda path, flags: next(taken)), "dup2": said.calls("dup2")}
    noted |= {"close": said.calls("close"), "fdopen": said.calls("fdopen", lambda number, *given, **named: number)}
    monkeypatch.setattr(streams, "os", SimpleNamespace(**{**vars(os), **noted}))
    for closed in ({}, {"stdin": None, "stdout": None, "stderr": None}):
        standard = SimpleNamespace(**{"stdin": "in", "stdout": "out", "stderr": "err", **closed})
        monkeypatch.setattr(streams, "sys", standard)
        streams.open_closed_streams()
        said(vars(standard))
    for columns, lines in (("0", "00"), ("", "24"), (None, "0"), ("80", None), ("10", "0.")):
        for name, value in (("COLUMNS", columns), ("LINES", lines)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)
        streams.forget_sizes_of_nothing()
        said((columns, lines), "->", os.environ.get("COLUMNS"), os.environ.get("LINES"))
    broken, full, closed = BrokenPipeError("gone"), OSError("full"), ValueError("closed")
    for errors in ((), (full,), (closed,)):
        said("give up", errors)
        streams.give_up(Stream(said, *errors))
    for errors in ((), (full,), (broken, closed)):
        said("end", errors)
        streams.end(Stream(said, *errors))
    for errors in ((), (full, full), (broken,), (None, broken, full), (ConnectionResetError("reset"),)):
        said("lasting", errors)
        lasting = streams.Lasting(Stream(said, *errors))
        said(lasting.write("text"), lasting.flush(), lasting.encoding)
    said.check("streams")
