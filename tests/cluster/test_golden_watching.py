"""What those who watch a run or weigh its plan are shown, as on record in ``tests/golden``."""

import dataclasses
import datetime
import io
import itertools
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
from rich.console import Console

from cluster.live import listener, terminal, writer
from cluster.observe import episode_text, run_status
from cluster.observe.run_status import Pace, Status
from cluster.stopping import begin, precision, registration, watch
from cluster.storage.lock import Writer
from evals.live import Began, Ended, Gone, Numbers, PlayedLine
from evals.live.progress import CellProgress
from evals.live.running import RunningEpisodes
from evals.stopping.rules import StopRule
from evals.tables import Table
from evals.view import StepView
from tests.cluster.test_observe import episode
from tests.golden import plain
from tests.said import Said


def of_episode(name, at=0.0, player="m"):
    return Began(name, "kumo", f"task of {name}", "easy", "zero_shot", 3, 1, player, 9, at)


def played(name, turn, reply, reasoning="", action=None, at=0.0):
    return PlayedLine(name, turn, at, "asked", (), reply, reasoning, action, "exact", "stop", 10, 3, 0.5, 0.0)


def test_what_is_shown_live(capsys, monkeypatch):
    said = Said(capsys)
    table = Table("status", "Episodes", ("player",), (("m",),))
    cells = [
        CellProgress("m", "kumo", f"task {n}", "easy", "cot", 10, done=done, failed=failed, won=won)
        for n, (done, failed, won) in enumerate([(10, 0, 5), (0, 0, 0), (3, 1, 2), (0, 10, 0), (0, 1, 0), (9, 0, 9)])
    ]
    lines = [of_episode("a"), played("a", 0, "", "so I thought"), of_episode("b", 30.0), of_episode("c", 61.0, "é")]
    lines += [played("c", 0, "red"), played("c", 1, "I say\n red\x1b[2J" + " and so on" * 40, action="green\nor blue")]
    lines += [of_episode("d"), played("d", 4, "short", action=""), Ended("d")]
    lines += [of_episode("e"), played("e", 0, "w" * 124), of_episode("f"), played("f", 0, "w" * 125)]
    numbers = {"episodes/alive": 1234.4, "requests_per_second": 0.25, "tokens_per_second": 9876.5, "replicas/busy": 1.0}
    numbers |= {"replicas/up": 2.0, "spent": 0.125, "gpu_cost": 3.0}
    statuses = {
        "long": Status(
            "at work: \x1b", table, Pace(90.0, 3, 3700.0), "cost: spent 1.00", ("decided", "suite by suite")
        ),
        "short": Status("complete", table, None),
    }
    for name, height, some, trouble, told in (
        *(("long", None, lines, "", Numbers(60.0, numbers)), ("short", None, lines[:1], "", None)),
        *(("short", 20, lines, "it is a folder", None), ("short", 27, lines, "", Numbers(99.0, {}))),
        *(("short", 3, lines, "", None), ("short", 40, [], "", Numbers(75.0, {"spent": 1.0}))),
    ):
        running = RunningEpisodes()
        for line in [*some, *([told] if told else [])]:
            running.add(line)
        shown = terminal.Shown(statuses[name], cells, SimpleNamespace(running=running, trouble=trouble), 75.0)
        out = io.StringIO()
        Console(file=out, width=64, force_terminal=False).print(shown, height=height)
        said(f"--- {name} {height}\n" + "\n".join(line.rstrip() for line in out.getvalue().splitlines()))
    said([(cell.task, cell.done) for cell in terminal._unfinished(cells)])
    looks = iter([False, False, True])
    run = SimpleNamespace(shown=lambda: said("looks") or "shown", complete=False)

    class Live:
        def __init__(self, **given):
            said("live", {name: value for name, value in given.items() if name != "console"})

        def __enter__(self):
            return self

        def __exit__(self, *error):
            said("ends")

        def update(self, shown, refresh):
            said(shown, refresh)
            run.complete = next(looks)

    def sleep(seconds):
        said("sleep", seconds)
        if seconds < 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "Live", Live)
    monkeypatch.setattr(terminal, "_Looks", lambda of: said("of", of) or run)
    monkeypatch.setattr(terminal, "time", SimpleNamespace(sleep=sleep))
    terminal.show_live("RUN", SimpleNamespace(is_terminal=False, print=said.calls("print")))
    terminal.show_live("RUN", SimpleNamespace(is_terminal=True, show_cursor=said.calls("show_cursor")))
    looks = iter([False, True])
    monkeypatch.setattr(terminal, "REFRESH_SECONDS", -1.0)
    terminal.show_live("RUN", SimpleNamespace(is_terminal=True, show_cursor=said.calls("show_cursor")))
    looks = iter([False, True])

    def ended(seconds):
        os.kill(os.getpid(), signal.SIGTERM)
        said("not reached")

    monkeypatch.setattr(terminal, "time", SimpleNamespace(sleep=ended))
    terminal.show_live("RUN", SimpleNamespace(is_terminal=True, show_cursor=said.calls("show_cursor")))
    said.check("live_terminal")


def test_looks_at_a_run(capsys, monkeypatch):
    said = Said(capsys)
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: clock.now, time=lambda: 5.0))
    monkeypatch.setattr(terminal, "LiveLog", lambda path: SimpleNamespace(refresh=said.calls(f"log of {path}")))
    monkeypatch.setattr(terminal, "run_status", said.calls("status", "a status"))
    monkeypatch.setattr(terminal, "progress_by_cell", said.calls("cells", "cells"))

    def read_runs(runs, look):
        clock.now += 2.0
        return look()

    monkeypatch.setattr(terminal, "read_runs", read_runs)
    rows = [[], [1], [1, 2]]
    ledger = SimpleNamespace(table=lambda names: said("read", names) or rows.pop(0))
    run = SimpleNamespace(path="RUN", ledger=ledger, planned=[1, 2], refresh=said.calls("refresh"))
    looks = terminal._Looks(run)
    for now in (100.0, 121.9, 122.0, 143.9, 144.0):
        clock.now = now
        shown = looks.shown()
        said(now, shown.status, shown.cells, shown.now, looks.complete)
    said.check("live_looks")


def test_live_logs(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    monkeypatch.setattr(writer, "LOG_BYTES", 900)
    log = writer.GrowingLog(tmp_path, "7-mark", {"b": 2})

    def look(*lines):
        log.append(lines)
        for path in sorted((tmp_path / "live").glob("*")):
            said(path.name, log._size, "\n" + path.read_text())

    look()
    look(Gone(("a",)), played("a", 0, "nobody follows"), Ended("a"))
    log.remove()
    look(of_episode("a"), of_episode("b"))
    look(played("a", 0, "one"), played("x", 0, "gone"), Ended("x"), Gone(("x", "y")), Numbers(3.0, {"spent": 0.5}))
    look(played("b", 0, "two", at=1.0), Ended("b"), Gone(("x", "b")), played("b", 1, "late"))
    look(*(played("a", number, f"{number}" * 99, at=float(number)) for number in (1, 2, 3)))
    log.remove()
    said(sorted(each.name for each in tmp_path.iterdir()))
    (tmp_path / "live").mkdir()
    (tmp_path / "live/other").touch()
    log.remove()

    def full(lines):
        said("append", lines)
        if "full" in lines:
            raise OSError("no space")

    def gone():
        said("remove")
        raise OSError("gone")

    for waits, remove in (([False, False, True], said.calls("remove")), ([False, False, False, True], gone)):
        live = writer.LiveWriter(None)
        live._log = SimpleNamespace(append=full, remove=remove)
        waits = itertools.chain(waits, itertools.repeat(False))
        live._ended = SimpleNamespace(
            wait=lambda seconds, waits=waits: said("wait", seconds) or next(waits), set=lambda: said("set")
        )
        live.add(["a", "b"])
        live.numbers(1.5, {"spent": 1.0, "slots/utilization": 2.0, "seconds_left": 3.0, "seconds": 4.0})
        live._write_forever()
        live.add(["full"])
        live.gone(iter(["x", "y"]))
        said(live.listener(4)._most)
        live._write_forever()
        live._thread = SimpleNamespace(join=said.calls("join"))
        live.close()
    none = writer.LiveWriter(None)
    none.add(["a"])
    none.gone(["b"])
    none.numbers(1.0, {})
    none.close()
    said(none.listener(1), none._waiting())
    monkeypatch.setattr(writer, "MOST_WAITING", 2)
    live = writer.LiveWriter(None)
    live._log = "a log"
    live.add(["a", "b", "c"])
    said(live._waiting())
    for wanted, mark in ((True, "mark"), (True, ""), (False, "mark")):
        for name in ("old.jsonl", "old.txt"):
            (tmp_path / "live" / name).touch()
        monkeypatch.setattr(writer, "read_fence", lambda path, mark=mark: SimpleNamespace(mark=mark))
        made = writer.LiveWriter.of(SimpleNamespace(path=tmp_path, attempts={"a": 1}), wanted)
        found = made._log and (made._log._mark, made._log._attempts, made._thread.daemon, made._thread.name)
        said(found, sorted(each.name for each in (tmp_path / "live").iterdir()))
        made.close()
    clock = SimpleNamespace(now=0.0)
    heard = listener.Listener(0.1, lambda: clock.now, lambda: 1000.0 + clock.now)
    talks = [SimpleNamespace(episode=episode(number), turns={}) for number in range(5)]
    said(heard._most, heard._left)
    for number, now in enumerate((0.0, 0.0, 1.0, 50.0)):
        clock.now = now
        heard.began(talks[number])
        if number == 1:
            heard._left = 100.0
        if number == 2:
            heard.ended(talks[0].episode.id)
            heard.ended("nobody")
        found = [(type(line).__name__, getattr(line, "index", ""), getattr(line, "at", "")) for line in heard.news()]
        said(now, found, round(heard._left, 6))
    heard._left = 0.0
    heard.began(talks[4])
    said(heard.news())
    said.check("live_logs")


def test_states_of_runs(capsys, monkeypatch):
    said = Said(capsys)
    for pace in (Pace(0.0, 0, None), Pace(30.0, 5, 0.0), Pace(7200.0, 12_345, 61.4)):
        said(pace)
    for state in ("at work", "silent", "gone", "done", "elsewhere"):
        for left, imported in ((0, False), (1234, False), (5, True)):
            said(state, left, imported, "|", run_status._state(Writer("process 7", state, 61.0), left, imported))
    said(run_status._state(None, 3, True))
    monkeypatch.setattr(run_status, "planned_cost", lambda data: None)
    for found in (
        None,
        {"scored": 1.0, "spent": None, "planned": None},
        {"scored": 0.5, "spent": 2.25, "planned": 1234.5},
    ):
        monkeypatch.setattr(run_status, "costs_of", lambda *given, found=found: found and SimpleNamespace(**found))
        said(found, "|", run_status._money(SimpleNamespace(data=None)))
    monkeypatch.setattr(run_status, "writer_of", said.calls("writer", Writer("process 7", "done", 5.0)))
    monkeypatch.setattr(run_status, "_pace", lambda run, rows, writer: ("pace", len(rows), writer.state))
    monkeypatch.setattr(run_status, "_money", lambda run: "money")
    plan = pa.table({"episode_id": ["a", "b", "c", "d"], "player": ["m", "m", "m", "oracle"]})
    rows = pa.table(
        {
            **{
                "episode_id": ["a", "d"],
                "player": ["m", "oracle"],
                "status": ["done", "failed"],
                "error": ["", "Odd: x"],
            },
            **{"session": ["s", "s"], "success": pa.array([True, None]), "prompt_tokens": [5, 0], "cost": [0.0, 0.0]},
            **{"completion_tokens": [7, 0], "reasoning_tokens": [0, 0]},
        }
    )
    rule = SimpleNamespace(needed={"a", "b"}, lines=lambda: ["open"])
    for stopping in (None, rule):
        ledger = SimpleNamespace(table=lambda names: said("read", names) or rows)
        run = SimpleNamespace(path="RUN", ledger=ledger, planned=plan, stopping=stopping, sessions=[{"id": "s"}])
        status = run_status.run_status(run)
        said(status.state, status.pace, status.money, status.stopping, status.players.title)
        said(status.players.columns, status.players.rows, status.players.notes)
    long = pa.array(["", "é" * 201])
    said(*run_status._causes(rows.set_column(rows.column_names.index("error"), "error", long)))
    paces = SimpleNamespace(path=Path("none"), plan=[], sessions=[{"id": "s"}], timings=[])
    monkeypatch.undo()
    said(run_status._pace(paces, rows, Writer("p", "done", 1.0)), run_status._pace(paces, rows, None))
    paces.sessions = [{"id": "s", "began": "2026-01-01T00:00:00+00:00"}]
    said(run_status._pace(paces, rows, Writer("p", "done", 1.0)))
    paces.sessions = []
    said(run_status._pace(paces, rows, Writer("p", "done", 1.0)))
    said.check("run_states")


KINDS = ("Image", "HalfcellImage", "SixelImage", "TGPImage")
"""Ways to draw on a terminal."""


def test_an_episode_as_text(capsys, monkeypatch):
    said = Said(capsys)
    monkeypatch.setattr(episode_text, "LONGEST", 20)
    system = {"role": "system", "parts": [{"picture": None, "text": "Be\x1b brief."}]}
    parts = [{"picture": "no picture", "text": None}, {"picture": None, "text": "x" * 1021}]
    steps = (
        StepView(({"role": "user", "parts": parts}, system), "red", "", "red", "exact", {"n": 1, "none": None, "": ""}),
        StepView((), "y" * 20, "z" * 21, None, "none\x07", {"list": [1, {"é": 2}], "long": "w" * 30, "empty": []}),
    )
    view = SimpleNamespace(facts={"won": True, "note": "é" * 20, "zero": 0, "gone": {}}, steps=steps)
    monkeypatch.setattr(episode_text, "suite_view", lambda suite, row: view)
    names = ("player", "suite", "task", "level", "mode", "index", "repeat", "session", "attempt")
    row = {name: f"its {name}" for name in names} | {"episode_id": "abc", "prompt_tokens": 12, "completion_tokens": 0}
    row |= {"reasoning_tokens": 3, "cached_tokens": None, "cost": 0.123456, "seconds": 12.0}
    drawing = SimpleNamespace(**{name: said.calls(name, name) for name in KINDS})
    monkeypatch.setitem(sys.modules, "textual_image", SimpleNamespace(renderable=drawing))
    for kind, columns in (("auto", 50), ("blocks", 64), ("sixel", 65), ("kitty", 9)):
        said(episode_text._drawn(f"{columns} columns", kind, columns))
    drawn = SimpleNamespace(size=(3, 2), kind="a kind", key="k" * 20)
    monkeypatch.setattr(episode_text, "render_description", lambda text: (drawn, np.zeros((2, 3, 3), np.uint8)))
    monkeypatch.setattr(episode_text, "_drawn", lambda image, *given: f"{image.size} as {given}")
    out = io.StringIO()
    episode_text._Printer(Console(file=out, width=50), "blocks", False).picture("a picture")
    said(out.getvalue())
    for full, terminal_like in ((False, False), (True, False), (False, True)):
        out = io.StringIO()
        console = Console(file=out, width=50, force_terminal=terminal_like, color_system=None)
        episode_text.print_episode(console, None, row, "auto" if not terminal_like else "none", full=full)
        said(f"--- full {full}, terminal {terminal_like}\n" + out.getvalue().replace("\x1b", "ESC"))
    said.check("episode_text")


def test_what_a_plan_buys(capsys, monkeypatch):
    said = Said(capsys)
    games = [episode(number % 6) for number in range(12)] + [episode(9, "oracle")]
    games[:2] = [dataclasses.replace(each, level="hard") for each in games[:2]]
    other = SimpleNamespace(**{**vars(episode(1)), "suite": "other", "task": "u"})
    settings = SimpleNamespace(plan=[*games, other], model=SimpleNamespace(name="model"))
    places = {"suite": "toy", "task": "t", "level": "l"}
    rows = [{**places, "player": "m", "seed": n // 2, "success": n not in (0, 1, 2)} for n in range(8)]
    rows += [{**places, "player": "oracle", "seed": 0, "success": False}]
    lost = [{**places, "suite": "other", "player": "m", "seed": n, "success": None} for n in range(3)]
    data = SimpleNamespace(episodes=lambda names: SimpleNamespace(to_pylist=lambda: rows + lost))
    monkeypatch.setattr(precision, "Run", lambda path: SimpleNamespace(planned=pa.table({"player": ["m"]}), data=data))
    for like in (None, Path("RUN")):
        for wanted in ({}, {"precision": 0.05}, {"detect": 0.0001}, {"precision": 0.1, "detect": 0.1}):
            table = precision.precision_table(settings, like, **wanted)
            said(table.name, table.title, table.columns, *table.notes)
            said("\n".join(plain(row) for row in table.rows))
    for wanted in ({"precision": 0.0009}, {"precision": 1}, {"detect": 0.00009}, {"detect": 1.0}, {"detect": -1}):
        said.tried(wanted, lambda wanted=wanted: precision.precision_table(settings, None, **wanted))
    said.check("plan_precision")


def test_preregistrations(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    clock = SimpleNamespace(now=lambda zone: now, datetime=SimpleNamespace(now=lambda zone: now), UTC=datetime.UTC)
    monkeypatch.setattr(registration, "datetime", clock)
    monkeypatch.setattr(registration, "versions", lambda: {"git_commit": "c" * 40, "vllm": None, "ray": "2"})
    rule = StopRule("precise", precision=0.1, measure="score", alpha=0.01, most=9)
    plan = [episode(0), episode(1), episode(0, "oracle")]
    made = []
    for stop in (None, rule):
        settings = SimpleNamespace(plan=plan, stop=stop)
        made.append(registration.register(settings, "é is better", "success", 0.05))
        said(made[-1].to_json())
        (tmp_path / "file").write_text(made[-1].to_json(), encoding="utf-8")
        assert registration.Registration.read(tmp_path / "file") == made[-1]
    for text in ("[", "{}", made[0].to_json().replace("0.05", '"x"'), made[0].to_json().replace('"plan"', '"plans"')):
        (tmp_path / "wrong").write_text(text, encoding="utf-8")
        said.tried("read", registration.Registration.read, tmp_path / "wrong")
    planned = pa.table({"player": [each.player for each in plan], "episode_id": [each.id for each in plan]})
    sessions = [{"began": "2026-01-02T03:04:06+00:00", "git_commit": "c" * 40, "vllm": "1"}, {"git_commit": "d" * 40}]
    run = SimpleNamespace(path=tmp_path / "run", planned=planned, rule=None, sessions=[])
    (tmp_path / "run").mkdir()
    said("none", registration.registration_table(run, "A"))
    said(
        registration.keep(run, tmp_path / "file"),
        (tmp_path / "run/preregistration.json").read_text() == made[1].to_json(),
    )
    said(registration.keep(run, tmp_path / "file"))
    (tmp_path / "other").write_text(made[0].to_json(), encoding="utf-8")
    said.tried("another", registration.keep, run, tmp_path / "other")
    said.tried("wrong", registration.keep, run, tmp_path / "wrong")
    late = SimpleNamespace(path=tmp_path, sessions=sessions)
    said.tried("late", registration.keep, late, tmp_path / "file")
    kept = SimpleNamespace(rule=rule)
    for measure, stored, some, players in (
        *((None, None, [], planned), ("score", kept, sessions, planned), ("success", kept, sessions[:1], planned[:2])),
        (None, kept, [{"began": "2026-01-02T03:04:04+00:00"}], planned.slice(2)),
    ):
        run.rule, run.sessions, run.planned = stored, some, players
        table = registration.registration_table(run, "A", measure)
        said(table.name, table.title, table.columns, table.notes, "\n" + "\n".join(map(str, table.rows)))
    said.check("registrations")


def test_rules_of_runs(capsys, monkeypatch, tmp_path):
    said = Said(capsys, tmp_path)
    for name in ("remove_rule", "write_rule"):
        monkeypatch.setattr(begin, name, said.calls(name))
    groups = [["a group"]]
    outcomes = lambda planned: SimpleNamespace(look=lambda: SimpleNamespace(groups=groups[0]))  # noqa: E731
    monkeypatch.setattr(
        begin, "StoredRule", lambda *given: said("stored", *given) or SimpleNamespace(outcomes=outcomes)
    )
    names = ("suite", "task", "level", "mode", "index", "repeat", "seed")
    rows = [
        {name: f"{name[0]}{number}" for name in names} | {"player": player, "status": status, **numbers}
        for number, (player, status, numbers) in enumerate(
            [
                ("a", "done", {"success": True, "steps": 3}),
                ("a", "failed", {"success": None, "steps": None}),
                ("oracle", "done", {"success": True, "steps": 1}),
                ("a", "done", {"success": None, "steps": 5}),
            ]
        )
    ]

    def read(columns):
        said("read", columns)
        return SimpleNamespace(to_pylist=lambda: [{name: row[name] for name in columns} for row in rows])

    there = SimpleNamespace(begun=True, planned=pa.table({"player": ["a", "oracle"]}))
    there.data = SimpleNamespace(episodes=read)
    monkeypatch.setattr(begin, "Run", lambda path: there if str(path) == "there" else SimpleNamespace(begun=False))
    run = SimpleNamespace(path="RUN", planned=pa.table({"player": ["m", "oracle", "m"]}), rule=None)
    kinds = {"bounds": (0, 9), "measure": "steps"}
    before = SimpleNamespace(rule=StopRule("decided", against="there"), other="as noted before")
    for rule, stored, player in (
        *(
            (None, None, "m"),
            (StopRule("precise", precision=0.1), None, "m"),
            (StopRule("decided", against="m"), None, "m"),
        ),
        *((StopRule("decided", against="oracle"), None, "m"), (StopRule("decided", against="oracel"), None, "m")),
        *((StopRule("decided", against="there"), None, "m"), (StopRule("decided", against="there"), before, "m")),
        *(
            (StopRule("decided", against="there", **kinds), before, "m"),
            (StopRule("decided", against="zzz"), before, "m"),
        ),
        (StopRule("decided", against="there", measure="wrong", bounds=(0, 1)), None, "m"),
    ):
        run.rule = stored
        said.tried(rule and (rule.kind, rule.against, rule.measure), begin.agreed_rule, run, rule, player)
    groups[0] = []
    said.tried("no game", begin.agreed_rule, run, StopRule("decided", against="oracle"), "m")
    told = SimpleNamespace(add=said.calls("add"), look=said.calls("look", "a state"), games="games")
    for outcomes in (told, None):
        seen = watch.StopWatch(outcomes, {"a": 1})
        for rows in ("first", "second"):
            seen.add(rows)
        said(seen.look(), seen.look(), seen.ranks, seen._arrived)
    for name in ("games_in_order", "ranks"):
        monkeypatch.setattr(watch, name, said.calls(name, name))
    for rule, balanced in itertools.product(
        (None, SimpleNamespace(outcomes_of=said.calls("outcomes", told), compares_within_run=True)), (False, True)
    ):
        run = SimpleNamespace(rule=rule, planned="plan", ledger="ledger", attempts="attempts")
        made = watch.StopWatch.of(run, balanced)
        said(balanced, made._outcomes is told, made.ranks, made.waits_for_baseline)
    said.check("run_rules")
