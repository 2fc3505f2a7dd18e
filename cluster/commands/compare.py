"""``raycade compare``: differences on identical games, between runs or between the players of one."""

from __future__ import annotations

import argparse
import itertools
import string
from collections.abc import Collection, Sequence

from cluster.commands.merge import SHARD_SETTINGS
from cluster.commands.report import write_files
from cluster.config.plan import make_suite
from cluster.config.registry import class_of
from cluster.console import show
from cluster.errors import UserError
from cluster.stopping.precision import SMALLEST
from cluster.stopping.registration import registration_table
from cluster.storage.stored_run import Run, read_runs
from envs.suggest import did_you_mean
from evals.analysis.compare import Side, comparison_tables, flip_table, flips
from evals.analysis.differences import differences_table
from evals.analysis.evidence import evidence_table
from evals.analysis.forest import forest_figure
from evals.analysis.fresh import fresh_table, suites_of_both, suites_of_other_games
from evals.figures import Figure
from evals.suite import Suite
from evals.tables import Table


def main(options: argparse.Namespace) -> None:
    """Compare, and print the tables."""
    _check(options)
    players = options.players.split(",") if options.players else None
    runs = [Run(path) for path in dict.fromkeys(options.run_dirs)]
    show(read_runs(runs, lambda: compare(runs, players, options.measure, options.detect, options.flips)))
    if options.figures:
        from evals.report.build import figure_files  # matplotlib takes a second to import

        figures = read_runs(runs, lambda: forests(runs, players, options.measure))
        write_files(options.figures, figure_files(figures))


def _check(options: argparse.Namespace) -> None:
    """See that the numbers are within their ranges.

    Raises:
        UserError: one of them is not.
    """
    smallest = SMALLEST["--detect"]
    if options.detect is not None and not smallest <= options.detect <= 1:
        raise UserError(f"--detect {options.detect:g}: must be from {smallest:g} to 1")
    if options.flips < 0:
        raise UserError(f"--flips {options.flips}: must be 0 or more")


def compare(
    runs: Sequence[Run],
    players: Sequence[str] | None = None,
    column: str | None = None,
    detect: float | None = None,
    most_flips: int = 5,
) -> list[Table]:
    """All tables of a comparison; the options are those of the command.

    Raises:
        UserError: there is no such run or player, only one side, or nothing that both have played.
    """
    first, *others = sides_of(runs, players)
    if not others and players:
        raise UserError(f"--players {first.player}: is one side only; name another player, or a second run")
    if not others:
        raise UserError(
            f"{runs[0].path}: has one player only, {first.player}; name a second run, or add baselines=[random,oracle]"
        )
    tables = []
    for other in others:
        other_games = suites_of_other_games(first, other) if column is None else set()
        if other_games:
            tables.append(fresh_table(first, other, other_games))
        if other_games and other_games == suites_of_both(first, other):
            continue
        try:
            tables += comparison_tables(first, other, detect, column)
        except ValueError as error:
            raise UserError(str(error)) from error
        tables.append(differences_table(first, other, _unimportant(first, other)))
        if most_flips:
            tables.append(flip_table(flips(first, other), first, other, most_flips))
    evidence = evidence_table(first, others, column)
    if evidence is not None:
        tables.append(evidence)
    for label, run in zip(_labels(), runs, strict=False):
        registered = registration_table(run, label, column)
        if registered is not None:
            tables.append(registered)
    return tables


def forests(runs: Sequence[Run], players: Sequence[str] | None, column: str | None) -> list[Figure]:
    """A forest plot of each side against the first, of those that have played the same games."""
    first, *others = sides_of(runs, players)
    same = []
    for other in others:
        other_games = suites_of_other_games(first, other) if column is None else set()
        if not other_games or other_games != suites_of_both(first, other):
            same.append(other)
    return [forest_figure(first, other, column) for other in same]


def _by_default(planned: Sequence[str], several: bool) -> Sequence[str]:
    """Of several runs their models, which are planned first, of a single one all players."""
    return planned[:1] if several else planned


def sides_of(runs: Sequence[Run], players: Sequence[str] | None = None) -> list[Side]:
    """Who is compared, the side that the others are compared with in front.

    Raises:
        UserError: there is no such run or player.
    """
    found: list[tuple[str, Run, Suite]] = []
    known: set[str] = set()
    several = len(runs) > 1
    for run in runs:
        here = list(dict.fromkeys(run.planned["player"].to_pylist()))
        known.update(here)
        suite = make_suite(run.config["suite"])
        chosen = players or _by_default(here, several)
        for player in here:
            if player in chosen:
                found.append((player, run, suite))
    if players:
        there = {player for player, _, _ in found}
        _check_there(players, there, known)
    # The players of one run come in the order in which they are named; those of several in the order of the runs.
    if players and len(runs) == 1:
        found.sort(key=lambda side: players.index(side[0]))
    sides = []
    for label, (player, run, suite) in zip(_labels(), found, strict=False):
        place = str(run.path) if several else ""
        sides.append(Side(label, player, run.data, suite, place))
    return sides


def _check_there(players: Sequence[str], there: Collection[str], known: Collection[str]) -> None:
    for name in players:
        if name not in there:
            raise UserError(f"no run has a player {name}{did_you_mean(name, known)}")


def _labels() -> itertools.chain[str]:
    return itertools.chain(string.ascii_uppercase, (f"R{number}" for number in itertools.count(27)))


def _unimportant(first: Side, second: Side) -> set[str]:
    """Settings that change no answer: where and how fast a run was played."""
    ignored = {*SHARD_SETTINGS, "baselines", "suite.name"}
    for side in (first, second):
        engine = (side.run.settings.get("model") or {}).get("engine")
        if engine:
            ignored |= {f"model.engine.{name}" for name in class_of("model.engine", engine).operational}
    return ignored
