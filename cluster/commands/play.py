"""``raycade play``: a person plays a suite, in the terminal or the browser, into a run directory like any other."""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cluster import stop_signals, streams
from cluster.commands.report import report
from cluster.commands.run import play_on_cluster, run_and_show
from cluster.config.settings import Settings, load_settings
from cluster.console import warn
from cluster.errors import CONTINUE, UserError
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.stopping.watch import StopWatch
from cluster.storage.run_directory import RunDirectory
from evals.conversation import Record
from evals.human import HumanPlayer, Interface, QuitError, human_name, is_human
from evals.human.browser import Browser, listen
from evals.human.terminal import Terminal
from evals.ledger.sound_rows import sound_rows
from evals.suite import ledger_columns, play_episode, words_for_people
from evals.types import Episode

SMALL: Final[Mapping[str, tuple[str, ...]]] = {
    "demo": ("suite.suites.0.repeats=1",),  # of KUMO, its first suite
    "kidgym": ("suite.modes=[zero_shot]", "suite.episodes=1"),
    "kumo": ("suite.tasks_per_domain=1", "suite.repeats=1"),
    "kumo_likely": ("suite.tasks_per_domain=1", "suite.repeats=1"),
    "multistar": ("suite.subtask=direct", "suite.puzzles=1", "suite.reply=text"),
}
"""What a person plays by default: each game once, as the human studies of the papers did. Own settings come after."""


def main(options: argparse.Namespace) -> int:
    """Let a person play what the run directory lacks, then the baselines; show the tables.

    Raises:
        UserError: the settings name no suite, another player, or a participant by a name that is none.
    """
    settings = load_settings(play_overrides(options.overrides, options.participant))
    code = run_and_show(settings, functools.partial(_play, options))
    if code == CONTINUE:  # no batch system waits for a person who quits, so the finished games are scored
        try:
            report([settings.run_dir], full=False)
            sys.stdout.flush()
        except OSError:  # the terminal has been closed
            streams.give_up(sys.stdout)
    return code


def play_overrides(given: Sequence[str], participant: str) -> list[str]:
    """The overrides of a run that a person plays: a small default for the suite, then those given.

    Raises:
        UserError: see ``main``.
    """
    chosen = dict(override.partition("=")[::2] for override in given)
    if "suite" not in chosen:
        raise UserError("suite: is missing; say what to play, such as suite=kidgym, suite=kumo or suite=multistar")
    for key in ("model", "model.name"):
        if key in chosen:
            raise UserError(f"{key}={chosen[key]}: you are the player; --participant NAME gives you a name")
    try:
        player = human_name(participant)
    except ValueError as error:
        raise UserError(f"--participant: {error}") from error
    suite = chosen["suite"]
    small = SMALL.get(suite, ())
    return [f"suite={suite}", *small, *given, "model=human", f"model.name={player}"]


def _play(
    options: argparse.Namespace,
    settings: Settings,
    todo: list[Episode],
    directory: RunDirectory,
    stats: RunStatistics,
    progress: Progress,
    watcher: Watcher,
) -> bool:
    """The person's games first, then those of the built-in players; returns whether any are left.

    A rule that compares the two would not know when the person has played enough: then the built-in players come first.
    """
    games: list[Episode] = []
    others: list[Episode] = []
    for episode in todo:
        if is_human(episode.player):
            games.append(episode)
        else:
            others.append(episode)
    stopping = StopWatch.of(directory, settings.balanced)
    if others and stopping.waits_for_baseline:
        if play_on_cluster(settings, others, directory, stats, progress, watcher, stopping):
            return True
        others = []
    left = False
    games = stopping.in_order(stopping.needed_of(games))
    if games:
        commit = functools.partial(_commit, settings, directory, stats, watcher, stopping)
        with stop_signals.raised():
            left = asyncio.run(_ask(options, settings, games, commit, stopping))
    others = stopping.needed_of(others)
    if not others:
        return left
    others_left = play_on_cluster(settings, others, directory, stats, progress, watcher, stopping)
    return others_left or left


Commit = Callable[[Record], None]


async def _ask(
    options: argparse.Namespace, settings: Settings, games: Sequence[Episode], commit: Commit, stopping: StopWatch
) -> bool:
    """Play in the interface that was asked for; returns whether games are left."""
    if not options.browser:
        with tempfile.TemporaryDirectory(prefix="raycade-") as folder:
            return await play_games(settings, games, Terminal(Path(folder)), commit, stopping)
    try:
        listener = listen(options.port)
    except (OSError, OverflowError) as error:
        raise UserError(f"--port={options.port}: {error}") from error
    browser = Browser()
    async with browser.serving(listener) as address:
        print(f"open this page in a browser: {address}", flush=True)
        try:
            return await stop_signals.unless_stopped(play_games(settings, games, browser, commit, stopping))
        except stop_signals.StoppedError:
            await browser.end()
            raise


async def play_games(
    settings: Settings, games: Sequence[Episode], interface: Interface, commit: Commit, stopping: StopWatch
) -> bool:
    """Play one game after the other, each committed as it ends; returns whether the person stopped before the last.

    Games that the stopping rule no longer needs are left out.
    """
    player = HumanPlayer(interface, functools.partial(words_for_people, settings.suite))
    for number, episode in enumerate(games, 1):
        if not stopping.needed_of([episode]):
            continue
        try:
            interface.begin(number, len(games))
            record = await play_episode(settings.suite, episode, player)
        except QuitError:
            return True
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if _is_being_cancelled():
                raise
            # a defect in a suite fails its game, never the run
            record = Record.of_defect(episode, error)
        commit(record)
        if record.error:
            warn(f"this game failed: {record.error}")
    return False


def _is_being_cancelled() -> bool:
    """Whether the games are to end; a suite may have raised ``CancelledError`` by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _commit(
    settings: Settings,
    directory: RunDirectory,
    stats: RunStatistics,
    watcher: Watcher,
    stopping: StopWatch,
    record: Record,
) -> None:
    rows = sound_rows([record], ledger_columns(settings.suite))
    directory.commit(rows)
    stats.finished(rows, by_model=False)
    stopping.add(rows)
    stats.stopping = stopping.look()
    watcher.log(stats.to_json())
