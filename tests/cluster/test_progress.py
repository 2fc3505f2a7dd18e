"""The live display: what its plain lines and its panel say, and when."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console, Group

from cluster.observe import progress as module
from cluster.observe.progress import LINE_SECONDS, Progress
from cluster.observe.run_statistics import PlayerStatistics, RunStatistics
from cluster.runner.messages import PlayerCounts, ReplicaUse, Report


class Stats(RunStatistics):
    """With times of its own."""

    took: float = 75.4
    left: float | None = None
    speed: tuple[float, float] = (12.4, 34567.8)

    @property
    def seconds(self) -> float:
        return self.took

    def seconds_left(self) -> float | None:
        return self.left

    def rates(self) -> tuple[float, float]:
        return self.speed


def progress(stats: RunStatistics, terminal: bool = False) -> tuple[Progress, io.StringIO]:
    shown = io.StringIO()
    return Progress(stats, Console(file=shown, force_terminal=terminal, width=60, color_system=None)), shown


def players(**numbers: tuple[int, int, int, int]) -> dict[str, PlayerStatistics]:
    return {name: PlayerStatistics(*each) for name, each in numbers.items()}


def test_a_line_has_each_player_and_the_time():
    made, _ = progress(Stats(players=players(model=(10, 3, 1, 2), random=(5, 0, 0, 0))))
    assert made._line() == "model 4/10 success 0.500, random 0/5, 1 failed () | elapsed 1:15"


def test_causes_of_failure_are_named_the_commonest_first():
    stats = Stats(players=players(model=(20, 0, 10, 0)))
    for cause, count in {"Rare": 1, "Common": 5, "Some \x1b[2J": 3, "Few": 2}.items():
        for _ in range(count):
            stats.errors.add(cause)
    made, _ = progress(stats)
    assert made._line().startswith("model 10/20 success 0.000, 10 failed (5 × Common, 3 × Some \\x1b[2J, 2 × Few) | ")


def test_a_busy_run_shows_its_machine():
    stats = Stats(replicas_wanted=4, replicas_up=3, spent_before=1.25, cut_off=9)
    stats.left = 3725.0
    counts = PlayerCounts(prompt_tokens=200, cached_tokens=50, retries=6, hedges=7)
    use = {"r.0": ReplicaUse(1), "s.0": ReplicaUse(2), "t.0": ReplicaUse(0)}
    stats.report("runner", Report(None, 0, 0, counts=counts, waiting=5, moves=8, use=use))
    made, _ = progress(stats)
    made.stage = "draining"
    assert made._machine() == " · ".join(
        [
            "12 requests/s",
            "34,568 tokens/s",
            "replicas 2 busy, 3 up of 4",
            "prefix-cache hit rate 0.25",
            "5 queued, 6 retries, 7 hedged, 9 replies cut off",
            "spent 1.25",
            "8 episodes moved",
            "elapsed 1:15, ETA 1:02:05",
            "draining",
        ]
    )


def test_what_did_not_happen_is_not_shown():
    stats = Stats(replicas_wanted=1)
    stats.report("runner", Report(None, 0, 0, counts=PlayerCounts(retries=2)))
    made, _ = progress(stats)
    assert made._machine() == "12 requests/s · 34,568 tokens/s · replicas 0 busy, 0 up of 1 · 2 retries · elapsed 1:15"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599, "59:59"),
        (3600, "1:00:00"),
        (36062, "10:01:02"),
    ],
)
def test_times_read_as_on_a_clock(seconds, shown):
    stats = Stats()
    stats.took = seconds
    assert progress(stats)[0]._machine() == f"elapsed {shown}"


def test_time_left_of_zero_is_shown():
    stats = Stats()
    stats.left = 0.0
    assert progress(stats)[0]._machine() == "elapsed 1:15, ETA 0:00"


def test_a_plain_line_comes_now_and_then_and_at_the_end(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    made, shown = progress(Stats(players=players(model=(2, 0, 0, 0))))
    line = "model 0/2 | elapsed 1:15\n"
    with made:
        assert shown.getvalue() == ""
        made.update()
        made.update()
        assert shown.getvalue() == line
        clock.now += LINE_SECONDS - 0.1
        made.update()
        assert shown.getvalue() == line
        clock.now += 0.1
        made.update()
        made.update()
        assert shown.getvalue() == 2 * line
    assert shown.getvalue() == 3 * line


def test_the_first_line_comes_after_an_interval_of_the_clock(monkeypatch):
    clock = SimpleNamespace(now=LINE_SECONDS - 0.5)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    made, shown = progress(Stats())
    made.update()
    assert shown.getvalue() == ""


def test_a_stage_is_said_once_and_stays_in_the_lines():
    made, shown = progress(Stats())
    assert made.stage == ""
    made.at("starting replica-0")
    made.at("")
    assert shown.getvalue() == "starting replica-0\n" and made.stage == ""
    made.at("stopping")
    assert made._machine().endswith(" · stopping")


def test_what_is_said_is_neither_wrapped_nor_read_as_markup():
    made, shown = progress(Stats())
    text = "[red]" + "x" * 100
    made.say(text)
    assert shown.getvalue() == text + "\n"


def test_by_default_it_writes_to_standard_error(capsys):
    made = Progress(Stats())
    made.say("hello")
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "hello\n")


def test_a_terminal_has_a_panel_that_goes_and_a_line_that_stays():
    stats = Stats(players=players(model=(10, 3, 1, 2), random=(5, 0, 0, 0)))
    made, shown = progress(stats, terminal=True)
    with made:
        assert made._live is not None and made._live.is_started and made._live.transient
        before = shown.getvalue()
        made.update()
        made.at("starting")
        assert made.stage == "starting"
        assert shown.getvalue().count("starting\n") == before.count("starting\n"), "the panel shows it"
        assert isinstance(made._live.get_renderable(), Group)
        assert made._live.console is made.console and made._live.refresh_per_second == 4
        live = made._live
    assert not live.is_started
    assert shown.getvalue().endswith(made._line() + "\n")


def test_the_panel_has_a_row_for_each_player():
    stats = Stats(players=players(model=(10, 3, 1, 2), random=(5, 0, 0, 0)))
    made, _ = progress(stats)
    shown = io.StringIO()
    console = Console(file=shown, width=100)
    console.print(made._panel())
    first, second, machine = (line.rstrip() for line in shown.getvalue().splitlines())
    assert first.split()[0] == "model" and first.endswith("  4/10  1 failed  success 0.500")
    assert second.split()[0] == "random" and second.endswith("  0/5") and "failed" not in second
    assert machine == made._machine()
    grid = made._panel().renderables[0]
    bars = list(grid.columns[1].cells)
    assert [(bar.total, bar.completed, bar.width) for bar in bars] == [(10, 4, 30), (5, 0, 30)]
    assert [cell.style for cell in grid.columns[3].cells] == ["red", ""]
