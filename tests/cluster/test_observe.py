"""Running totals of a run, the lines and the panel that show them, and the timings of its sessions, as on record."""

import dataclasses
import io
import json
import os
from types import SimpleNamespace

import pyarrow as pa
from rich.console import Console

from cluster.observe import performance, progress, run_statistics
from cluster.observe.run_statistics import WINDOW, RunStatistics
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report
from cluster.storage.stored_run import Run
from evals.tables import format_cell
from evals.types import Episode
from tests.said import Said, rounded

USE = {"r.0": ReplicaUse(1, 10.0, 5.0, 2.0), "s.1": ReplicaUse(0, 30.0, 27.0, 2.0), "t.0": ReplicaUse()}


def episode(index: int, player: str = "model", calls: float = 1.0, prompt_tokens: float = 0.0) -> Episode:
    numbers = {"index": index, "repeat": 0, "seed": index, "budget": 5}
    words = {"suite": "toy", "task": "t", "level": "l", "mode": "m", "fingerprint": "i"}
    return Episode(**numbers, **words, player=player, calls=calls, prompt_tokens=prompt_tokens)


def rows(*episodes: Episode, success=True, error: str = "", cut_off: int = 0) -> pa.Table:
    """Ledger rows as far as the statistics read them; failed ones if there is an error."""
    count = len(episodes)
    return pa.table(
        {
            "episode_id": [each.id for each in episodes],
            "player": [each.player for each in episodes],
            "status": ["failed" if error else "done"] * count,
            "success": pa.array([None if error else success] * count, pa.bool_()),
            "error": [error] * count,
            "cut_off": [cut_off] * count,
        }
    )


def report(counts=None, **numbers) -> Report:
    return Report(None, **{"room": 0, "running": 0, **numbers}, counts=PlayerCounts(**counts or {}))


class Watched:
    """Statistics by a clock; tells what has changed with each step."""

    def __init__(self, said, monkeypatch, **given):
        self.clock, self.said, self.before = SimpleNamespace(now=0.0), said, {}
        monkeypatch.setattr(run_statistics, "time", SimpleNamespace(monotonic=lambda: self.clock.now))
        self.stats = RunStatistics(_started=-10.0, **given)
        self("begun")

    def __call__(self, name, *given, now=None, **named):
        self.clock.now = self.clock.now if now is None else now
        if hasattr(self.stats, name):
            getattr(self.stats, name)(*given, **named)
        names = "moves alive waiting replicas_busy replicas_up spent gpu_cost gpu_hours playing_seconds playing_since"
        found = {each: getattr(self.stats, each) for each in (*names.split(), "playing_until", "seconds", "cut_off")}
        found |= {f"to {each}": value for each, value in self.stats.to_json().items()} | {
            "left": self.stats.seconds_left(),
            "rates": self.stats.rates(),
        }
        found |= {f"of {player}": dataclasses.astuple(each) for player, each in self.stats.players.items()}
        found |= {f"use of {each}": dataclasses.astuple(use) for each, use in self.stats.use.items()}
        found["causes"] = [(cause.text, cause.count) for cause in self.stats.errors.most_common()]
        changed = {key: rounded(value) for key, value in found.items() if self.before.get(key) != value}
        gone = [key for key in self.before if key not in found]
        self.said(name, changed, *gone)
        self.before = found


def test_totals_of_a_run(capsys, monkeypatch):
    said = Said(capsys)
    step = Watched(said, monkeypatch, replicas_wanted=3, gpus=2.0, gpu_hour_price=3.0)
    ours = [episode(number, prompt_tokens=500.0 * number) for number in range(12)]
    others = [episode(number, "random") for number in range(3)]
    step("plan", [*ours, *others], now=10.0)
    step("plan", [episode(20), episode(21)], left=[episode(21)])
    step("resume", rows(ours[0], cut_off=2))
    step("resume", rows(episode(0, "oracle"), episode(30)))
    step("finished", rows(ours[1], others[0]), by_model=True, now=20.0)
    step("replica_up", now=30.0)
    step("report", "a", report())
    step("replica_up", now=32.0)
    step("finished", rows(ours[2], success=False), by_model=True, now=40.0)
    step("finished", rows(*ours[3:5], error="Killed: it died\n twice", cut_off=1), by_model=True, now=44.0)
    step("finished", rows(ours[5], error="TooLong: by 3"), by_model=True)
    step("finished", rows(others[1], success=False), by_model=False, now=50.0)
    step("finished", rows(episode(40)), by_model=True)
    counts = {
        "turns": 10,
        "prompt_tokens": 200,
        "completion_tokens": 40,
        "cached_tokens": 50,
        "retries": 11,
        "hedges": 12,
    }
    counts |= {"cost": 1.5, "queueing_seconds": 5.0, "replica_seconds": 30.0, "engine_seconds": 20.0, "preemptions": 13}
    step("report", "a", report(counts, running=3, moves=4, waiting=9, use=USE), now=54.0)
    step(
        "report",
        "b",
        report(
            {"turns": 2, "reasoning_tokens": 3},
            running=1,
            moves=1,
            waiting=2,
            use={"r.0": ReplicaUse(2, 8.0, 1.0, 1.0)},
        ),
    )
    step(
        "report",
        "a",
        report({"turns": 14}, running=2, moves=5, waiting=0, use={"r.0": ReplicaUse(0, 20.0, 6.0, 2.0)}),
        now=58.0,
    )
    step("runner_ended", "a")
    step("runner_ended", "unheard")
    step("report", "a", report({"turns": 1}, moves=1, use={"r.0": ReplicaUse(1, 1.0, 1.0, 1.0)}), now=58.0 + WINDOW)
    step("runner_ended", "a", now=58.5 + WINDOW)
    step("report", "b", report({"turns": 3, "prompt_tokens": 50}), now=59.0 + WINDOW)
    step.stats.stopping = SimpleNamespace(to_numbers=lambda: {"stopping/games": 3})
    step("a rule")
    step("finished", rows(*ours[6:]), by_model=True, now=100.0)
    step("finished", rows(episode(21), others[2]), by_model=True)

    step = Watched(said, monkeypatch)
    step("plan", [episode(0, calls=0, prompt_tokens=1.0), episode(1, calls=0, prompt_tokens=2.0)])
    step("finished", rows(episode(0, calls=0, prompt_tokens=1.0)), by_model=True, now=1.0)
    for name in "ab":
        step("report", name, report({"turns": 1}))
    counts = PlayerCounts(turns=1)
    step("report", "c", Report(rows(episode(0)), 0, 0, counts=counts))
    counts.turns = 5
    step("report", "c", Report(None, 0, 0, counts=counts))
    said([each.finished for each in step.stats._reports.values()])

    step = Watched(said, monkeypatch, spent_before=2.0, gpus=0.0, gpu_hour_price=5.0, replicas_wanted=1)
    for name, spent, before in (
        ("r.0", 1.0, 0.0),
        ("r.0", 0.5, 0.0),
        ("s.0", 0.25, 0.0),
        ("t.0", 3.0, -2.5),
        ("s.0", -19.0, 27.0),
        ("s.0", 0.0, 0.0),
    ):
        step("replica_spent", name, spent, before, now=3600.0)
    for cost in (4.0, 36.0, 40.0):
        step("report", "a", report({"cost": cost}))
    said.check("statistics")


class Fixed(RunStatistics):
    """With times of its own."""

    took, left, speed = 75.4, None, (12.4, 34567.8)
    seconds = property(lambda self: self.took)

    def seconds_left(self):
        return self.left

    def rates(self):
        return self.speed


def test_lines_and_panel(capsys, monkeypatch):
    said = Said(capsys)
    lines = [f"{number} line" for number in range(3)]
    groups = [SimpleNamespace(ended=number < 2) for number in range(3)]
    decided = [
        SimpleNamespace(groups=groups[:count], decisions=lambda count=count: lines[: max(2, count)]) for count in (1, 3)
    ]
    counts = {
        "turns": 5,
        "prompt_tokens": 999,
        "cached_tokens": 250,
        "completion_tokens": 12_345,
        "retries": 6,
        "hedges": 7,
    }
    for more in (
        *(
            {},
            {"players": {"model": (10, 3, 1, 2), "random": (5, 0, 0, 0)}},
            {"replicas_wanted": 1, "speed": (0.0, 0.4)},
        ),
        {
            "players": {"m\x1b": (20, 0, 10, 0)},
            "causes": {"Rare": 1, "Common": 5, "Some \x1b[2J": 3, "Few": 2, "ab " * 20 + "a": 4},
        },
        {"counts": counts, "replicas_wanted": 4, "replicas_up": 3, "spent_before": 1.25, "cut_off": 9, "left": 3725.0},
        {
            "counts": {**counts, "prompt_tokens": 1_234_567, "reasoning_tokens": 2 * 10**9},
            "gpus": 2.0,
            "gpu_hour_price": 9.0,
        },
        *(
            {"counts": {"turns": 1}},
            {"counts": {"prompt_tokens": 1}},
            {"counts": {"retries": 2}, "stage": "draining"},
            {"left": 0.0},
        ),
        *({"stopping": decided[0]}, {"stopping": decided[1], "players": {"a": (1, 1, 0, 0)}}),
        *(
            {"gpus": 1.0, "gpu_hour_price": 9.0, "replicas_wanted": 2, "took": 1800.0},
            {"gpus": 1.0, "replicas_wanted": 2},
        ),
        *({"took": seconds} for seconds in (0, 59.4, 59.6, 61, 3599, 3600, 36062)),
    ):
        players = {name: run_statistics.PlayerStatistics(*each) for name, each in more.pop("players", {}).items()}
        causes, of_report, stage = more.pop("causes", {}), more.pop("counts", None), more.pop("stage", "")
        stats = Fixed(players=players)
        vars(stats).update(more)
        if of_report is not None:
            stats.report("runner", report(of_report, waiting=5, moves=8, use=USE))
        for cause, count in causes.items():
            for _ in range(count):
                stats.errors.add(cause)
        out = io.StringIO()
        shown = progress.Progress(stats, Console(file=out, width=110, color_system=None))
        shown.stage = stage
        said("line:", shown._line())
        shown.console.print(shown._panel())
        said(f"panel:\n{out.getvalue()}")
    for number in (0, 949.6, 999, 999.7, 1000, 12_345, 1e6, 1.25e6, 1e9):
        said(number, progress.short(number))
    out = io.StringIO()
    stats = Fixed(players={"model": run_statistics.PlayerStatistics(10, 3, 1, 2)})
    shown = progress.Progress(stats, Console(file=out, force_terminal=True, width=60, color_system=None))
    grid = shown._panel().renderables[0]
    said(
        [(bar.total, bar.completed, bar.width) for bar in grid.columns[1].cells],
        [each.style for each in grid.columns[3].cells],
    )
    with shown:
        live = shown._live
        before = out.getvalue()
        shown.at("starting")
        shown.update()
        said(live.is_started, live.transient, live.refresh_per_second, live.console is shown.console)
        said(repr(out.getvalue()[len(before) :]), shown.stage, type(live.get_renderable()).__name__)
    said(live.is_started, repr(out.getvalue().splitlines()[-1]))

    clock = SimpleNamespace(now=progress.LINE_SECONDS - 0.5)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with progress.Progress(stats) as shown:
        for seconds in (0, 0.5, 0, progress.LINE_SECONDS - 0.1, 0.1, 0):
            clock.now += seconds
            shown.update()
            said(f"at {clock.now:g}", shown.console.stderr)
        for stage in ("starting replica-0", "", "stopping"):
            shown.at(stage)
            said("stage", shown.stage)
        shown.say("[red]" + "x" * 100)
        said("said on standard error")
    said.check("progress")


def table_text(table):
    if table is None:
        return "none"
    about = (table.name, table.title, table.section, table.headline, table.brief, len(table.notes))
    return "\n".join(
        [f"{about}", *(" | ".join(map(format_cell, row)) for row in [table.columns, *table.rows]), *table.notes]
    )


def test_timings_of_sessions(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    counts = {
        "turns": 50,
        "shared": 9,
        "prompt_tokens": 1000,
        "completion_tokens": 200,
        "cached_tokens": 250,
        "retries": 3,
    }
    counts |= {"preemptions": 1, "hedges": 4, "hedges_won": 2, "queueing_seconds": 25.0, "replica_seconds": 200.0}
    counts |= {"engine_seconds": 150.0, "engine_deaths": 5, "cost": 0.25, "reasoning_tokens": 7}
    use = {f"replica-{number}.{number % 2}": ReplicaUse(number, 10.0, number / 2, 1.0) for number in (10, 9, 1, 2)}
    use |= {"replica-1.3": ReplicaUse(0, 20.0, 2.0, 3.0), "replica-3.0": ReplicaUse()}
    for given, more in ((counts, {"gpus": 2.0, "gpu_hour_price": 3.0}), ({"turns": 1}, {}), ({}, {})):
        stats = Fixed(replicas_wanted=2, replicas_lost=1, playing_since=100.0, playing_until=120.0, **more)
        stats.took = 1800.0
        stats.report("runner", report(given, moves=7, use=use if given else {}))
        performance.note_session(Run(tmp_path), stats)
    lines = (tmp_path / performance.TIMINGS).read_text().splitlines()
    said("\n".join(lines))
    first, second, third = map(json.loads, lines)
    older = {"turns": 3, "playing_seconds": 2.0, "use": {"replica-1.0": {"slot_seconds": 4.0, "later": 1.0}}}
    told = {
        "cache_blocks": 70,
        "cache_tokens": 1120,
        "largest_concurrency": 10.0,
        "model_runner": "V2",
        "batch_slots": 8,
    }
    engines = [{"engines": {"a": told, "b": {"cache_tokens": 1440, "model_runner": "V1", "batch_slots": "many"}}}, {}]
    engines.append({"engines": {"a": {"largest_concurrency": 1234.567, "compile_seconds": 12.5, "unknown": 1}}})
    for sessions, versions in (
        *(([], []), ([first], []), ([first, second, older], engines), ([older], engines[:1]), ([third], [])),
        *(
            ([{**second, "playing_seconds": 0.0}], []),
            ([{"turns": 1, "prompt_tokens": 1, "cached_tokens": 1}, older], []),
            ([{**second, "gpu_hours": 0}], engines[1:]),
        ),
    ):
        said(table_text(performance.performance_table(sessions, versions)))
        said(table_text(performance.replica_table(sessions)))
    for turns, preempted, tokens, versions in (
        *(
            (0, 5, 0, []),
            (1000, 9, 10_000, []),
            (1000, 10, 10_000, []),
            (1000, 10, 10_000, engines),
            (10, 10, 9, engines),
        ),
        *((1000, 2000, 9_999_000, engines), (1000, 10, 0, engines), (10, 1, 5000, engines), (11, 11, 10, engines)),
    ):
        counted = {"turns": turns, "preemptions": preempted, "prompt_tokens": tokens, "completion_tokens": tokens // 10}
        said(turns, preempted, tokens, performance.cache_hint(counted, versions))
    for counted in ({"preemptions": 5}, {"turns": 50}, {"turns": 10, "preemptions": 10, "prompt_tokens": 9}):
        said(counted, performance.cache_hint(counted, engines))
    performance.note_session(Run(tmp_path / "gone"), stats)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / performance.TIMINGS)
    reader = os.open(
        tmp_path / "pipe" / performance.TIMINGS, os.O_RDONLY | os.O_NONBLOCK
    )  # else a writer waits forever
    performance.note_session(Run(tmp_path / "pipe"), stats)
    said(os.read(reader, 1))
    os.close(reader)
    said.check("performance")


def test_timings_after_a_snapshot_by_hard_links_are_of_one_folder_alone(tmp_path):
    original, snapshot = tmp_path / "run", tmp_path / "snapshot"
    original.mkdir()
    snapshot.mkdir()
    performance.note_session(Run(original), Fixed())
    (snapshot / performance.TIMINGS).hardlink_to(original / performance.TIMINGS)
    performance.note_session(Run(snapshot), Fixed())
    assert [len(Run(folder).timings) for folder in (original, snapshot)] == [1, 2]
