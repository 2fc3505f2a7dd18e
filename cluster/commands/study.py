"""``raycade study``: the same games in several settings; what each setting changes, and why games were lost."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Sequence

from cluster.commands.compare import sides_of
from cluster.commands.report import write_files
from cluster.console import say, show
from cluster.errors import CONTINUE, UserError
from cluster.storage.stored_run import Run, read_runs
from evals.figures import Figure
from evals.report.latex import document
from evals.study.conditions import Condition, conditions_of
from evals.study.effects import (
    effects_figure,
    effects_table,
    interactions,
    interactions_table,
    main_effects,
    measured,
    shared_names,
)
from evals.study.split import pairs_of, split_table, text_twins
from evals.study.variance import variance_shares, variance_table
from evals.tables import Table, table_files


def main(options: argparse.Namespace) -> int:
    """Play a study's runs, or report on them; returns the exit code."""
    if options.action == "run":
        return _play(options.overrides, options.one_at_a_time)
    runs = [Run(path) for path in dict.fromkeys(options.run_dirs)]
    tables, figure = read_runs(runs, lambda: report(runs, options.player))
    show(tables)
    if options.out:
        from evals.report.build import figure_files  # matplotlib takes a second to import

        files = {**table_files(tables), "study.tex": document(tables, "Study").encode(), **figure_files([figure])}
        write_files(options.out, files)
    return 0


_STOPPED = (
    "Runs of this study stopped by looking at their games: intervals and p-values are as if the number of games had been "
    "fixed, too narrow and too small. raycade compare has evidence that holds."
)


def report(runs: Sequence[Run], player: str | None = None) -> tuple[list[Table], Figure]:
    """The tables and the figure of a study.

    Args:
        runs: The baseline first.
        player: Whose games; by default the model of each run.

    Raises:
        UserError: the runs are no study of one player (``conditions_of``), or no game was played in two of them.
    """
    players = [player] if player else None
    try:
        conditions = conditions_of(sides_of(runs, players))
    except ValueError as error:
        raise UserError(str(error)) from error
    tables = _splits(conditions)
    observations = measured(conditions)
    effects = {}
    for name in shared_names(observations):
        of_measure = main_effects(conditions, observations, name)
        if of_measure:
            effects[name] = of_measure
    if not effects:
        raise UserError("no game was played in two of these runs: their suites, tasks, levels or seeds differ")
    for name, found in effects.items():
        tables.append(effects_table(name, found))
        together = interactions(conditions, observations, name)
        if together:
            tables.append(interactions_table(name, together))
        shares = variance_shares(conditions, observations, name)
        if shares:
            tables.append(variance_table(name, shares))
    if any(condition.side.run.stopping for condition in conditions):
        tables = [dataclasses.replace(table, notes=(*table.notes, _STOPPED)) for table in tables]
    return tables, effects_figure(effects)


def _splits(conditions: Sequence[Condition]) -> list[Table]:
    """Why games were lost, for each condition with pictures that has a text twin."""
    tables = []
    for picture, text in text_twins(conditions):
        pairs = pairs_of(picture, text)
        if pairs:
            tables.append(split_table(picture, pairs))
    return tables


def _play(overrides: Sequence[str], one_at_a_time: bool) -> int:
    """Play all conditions: every combination, or the baseline and each other value alone."""
    from cluster.commands.sweep import play_all  # imports Hydra, which a report does without

    codes: list[int] = []
    for each in sweeps(overrides, one_at_a_time):
        outcomes = play_all(each)
        codes += [outcome.code for outcome in outcomes]
        # A stop signal is meant for the whole study.
        if any(outcome.stopped for outcome in outcomes):
            return CONTINUE
    say("report on the study: raycade study report RUN RUN ..., the baseline first")
    return max(codes)


def sweeps(overrides: Sequence[str], one_at_a_time: bool) -> list[list[str]]:
    """The multiruns that play a study.

    >>> sweeps(["suite=kumo", "suite.history=all,2", "suite.tell_budget=true,false"], one_at_a_time=True)
    [['suite=kumo', 'suite.history=all,2', 'suite.tell_budget=true'], \
['suite=kumo', 'suite.history=all', 'suite.tell_budget=false']]

    Raises:
        UserError: no override has several values.
    """
    values = [_values(override) for override in overrides]
    swept = [place for place, several in enumerate(values) if len(several) > 1]
    if not swept:
        raise UserError("a study needs a setting with several values, such as suite.modality=picture,text")
    if not one_at_a_time:
        return [list(overrides)]
    found = []
    for number, place in enumerate(swept):
        chosen = [several[0] for several in values]
        name, _, _ = overrides[place].partition("=")
        wanted = values[place]
        # The baseline is played with the first factor; the others leave it out.
        if number > 0:
            wanted = wanted[1:]
        texts = [each.partition("=")[2] for each in wanted]
        chosen[place] = f"{name}={','.join(texts)}"
        found.append(chosen)
    return found


def _values(override: str) -> list[str]:
    """Each value of a comma-separated override; commas within brackets separate nothing.

    >>> _values("suite.feedback=[],[legal,changed]")
    ['suite.feedback=[]', 'suite.feedback=[legal,changed]']
    """
    name, _, text = override.partition("=")
    depths = itertools.accumulate((character in "[{(") - (character in "]})") for character in text)
    cuts = []
    for place, (character, depth) in enumerate(zip(text, depths, strict=True)):
        if character == "," and depth == 0:
            cuts.append(place)
    pieces = [text[start + 1 : end] for start, end in itertools.pairwise([-1, *cuts, len(text)])]
    return [f"{name}={piece}" for piece in pieces]
