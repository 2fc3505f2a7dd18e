"""Leaderboards: players of the same games beside each other, with what can and cannot be told apart."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from evals.analysis.differences import flat_settings
from evals.analysis.labels import NOT_OF_A_LABEL
from evals.reference import Figure, Paper, published
from evals.results.entries import Entry, RunPart
from evals.stats.intervals import Estimate
from evals.summary.paired import paired_effects
from evals.tables import Cell, Table

ALPHA: Final = 0.05
Standing = Literal["highest", "not told apart from the highest", "below the highest", "not compared", ""]
"""``highest`` is the best by the first measure: where lower is better, the lowest. Empty where nobody can be compared."""


@dataclass(frozen=True)
class Row:
    """A model on a leaderboard."""

    entry: Entry
    standing: Standing
    difference: Estimate | None = None
    """To the highest, on the games that both have played."""
    notes: tuple[str, ...] = ()
    """What must be known before its scores are read, such as that it is partial."""


@dataclass(frozen=True)
class Board:
    """All players of the same games of one suite."""

    suite: str
    games: str
    about: str
    """The games in words."""
    measures: Sequence[str]
    rows: Sequence[Row]
    """The models, the best by the first measure first."""
    references: Sequence[Entry]
    """Chance, perfect play and the best shortcut: not ranked, never pooled, each once for games of the same rules."""


def boards_of(entries: Sequence[Entry]) -> list[Board]:
    """A board for each suite and set of games; of one suite that with the most models first."""
    found: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.suite, entry.games].append(entry)
    boards = [_board(suite, games, alike) for (suite, games), alike in found.items()]
    return sorted(boards, key=lambda board: (board.suite, -len(board.rows), board.games))


def _board(suite: str, games: str, entries: Sequence[Entry]) -> Board:
    models = [entry for entry in entries if not entry.reference]
    measures = dict.fromkeys(score.measure for entry in entries for score in entry.scores if score.estimate.n)
    planned = max(entry.planned for entry in entries)
    about = "; ".join([f"{planned:,} games", *(_in_words(name, values) for name, values in entries[0].about.items())])
    rows = sorted(_rows(models), key=lambda row: -_merit(row.entry))
    return Board(suite, games, about, [*measures], rows, _references(entries))


def _in_words(name: str, values: Sequence[str]) -> str:
    most = 12
    if len(values) > most:
        return f"{len(values)} {name}s"
    return f"{name}{'s' if len(values) > 1 else ''} {', '.join(values)}"


def _rows(models: Sequence[Entry]) -> Iterator[Row]:
    """Each model against the one with the best score.

    Which one is the best is known only after looking, so p counts as if all pairs had been compared (Bonferroni). Runs that
    are partial or were stopped by a rule are not compared: their games are no fixed sample.
    """
    comparable = [entry for entry in models if _is_comparable(entry)]
    best = max(comparable, key=_merit, default=None)
    pairs = len(comparable) * (len(comparable) - 1) // 2
    for entry in models:
        if entry not in comparable:
            yield Row(entry, "not compared", None, _notes(entry))
        elif best is None or not pairs:
            yield Row(entry, "")
        elif entry is best:
            yield Row(entry, "highest")
        else:
            yield _below(entry, best, pairs)


def _below(entry: Entry, best: Entry, pairs: int) -> Row:
    effects = paired_effects(entry.scores[0].observations(), best.scores[0].observations())
    if not effects:
        return Row(entry, "not told apart from the highest", None)
    effect = effects[0]
    standing: Standing = "not told apart from the highest"
    if effect.p * pairs < ALPHA:
        standing = "below the highest"
    return Row(entry, standing, effect.difference)


def _is_comparable(entry: Entry) -> bool:
    """Whether all of its planned games were played, none left out by a stopping rule, and there is a score."""
    return not _notes(entry) and _has_mean(entry)


def _has_mean(entry: Entry) -> bool:
    return bool(entry.scores) and entry.scores[0].estimate.n > 0


def _merit(entry: Entry) -> float:
    """The mean of the first measure, with its sign turned where lower is better; below all others where there is none."""
    if not _has_mean(entry):
        return -math.inf
    score = entry.scores[0]
    return score.estimate.mean if score.better == "higher" else -score.estimate.mean


def _notes(entry: Entry) -> tuple[str, ...]:
    partial = [f"partial: {entry.played:,} of {entry.planned:,} episodes played"] * bool(entry.missing)
    return (*partial, *(f"stopped by its rule: {line}" for line in entry.stopping))


def _references(entries: Sequence[Entry]) -> list[Entry]:
    """Chance, perfect play and the best shortcut, each once; where the runs have several rules, once for each of them."""
    different = _different_episodes([entry for entry in entries if entry.reference])
    names = [entry.reference for entry in different]
    if len(set(names)) == len(names):
        # The same rules in all runs, so each stands for all of them.
        different = [dataclasses.replace(entry, of_runs=()) for entry in different]
    by_rules: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in different:
        by_rules[entry.of_runs].append(entry)
    shown: list[Entry] = []
    for alike in by_rules.values():
        shown += _with_best_shortcut(alike)
    return sorted(shown, key=_merit)


def _different_episodes(built_in: Sequence[Entry]) -> list[Entry]:
    """Of entries of one player and the same episodes that with most games, of several the first; with the runs of all."""
    found: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in built_in:
        found[entry.reference, entry.episodes].append(entry)
    different = []
    for alike in found.values():
        most = max(alike, key=lambda entry: entry.played)
        different.append(dataclasses.replace(most, of_runs=tuple(entry.run for entry in alike)))
    return different


def _with_best_shortcut(entries: Sequence[Entry]) -> Iterator[Entry]:
    """All entries, but of the shortcuts the best only."""
    yield from (entry for entry in entries if not entry.shortcut)
    shortcuts = [entry for entry in entries if entry.shortcut]
    if shortcuts:
        best = max(shortcuts, key=_merit)
        yield dataclasses.replace(best, reference=f"best shortcut ({best.player})")


# --- beside the models -----------------------------------------------------------------------------------------------


def paper_table(board: Board) -> Table | None:
    """The paper's own rows: unweighted means of its figures, corrected where known, over its cells that this board has.

    None for a suite without a paper, or without such a cell.
    """
    try:
        paper = published(board.suite)
    except FileNotFoundError:
        return None
    about = board.rows[0].entry.about if board.rows else board.references[0].about
    figures = [figure for figure in _here(paper, about) if figure.measure in board.measures]
    # Printed tables cut the games in several ways; one way only is taken, that of most figures.
    shapes = Counter((figure.measure, tuple(figure.cell)) for figure in figures)
    shape = {measure: keys for (measure, keys), _ in reversed(shapes.most_common())}
    values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for figure in figures:
        if tuple(figure.cell) == shape[figure.measure]:
            values[figure.row, figure.measure].append(figure.value)
    if not values:
        return None
    rows: list[tuple[Cell, ...]] = []
    for (row, measure), found in sorted(values.items(), key=lambda item: -sum(item[1]) / len(item[1])):
        kind = "reference" if row in paper.baselines else "model"
        rows.append((row, kind, measure, len(found), sum(found) / len(found)))
    return Table(
        name=f"{board.suite}_paper_rows",
        title=f"Rows of the {paper.source}",
        columns=("paper's row", "kind", "measure", "cells", "mean"),
        rows=tuple(rows),
        notes=(
            "Unweighted means of the paper's figures over those of its cells whose task, level and mode are played here; only "
            "rows with equally many cells can be compared. The paper's games, prompts and pictures are not these: the table "
            "of differences, where a model of the paper has played here, says what differs.",
        ),
    )


def _here(paper: Paper, about: Mapping[str, Sequence[str]]) -> Iterator[Figure]:
    """The figures of cells of this board; of a cell that two printed tables have the first."""
    seen = set()
    for figure in paper.figures:
        key = (figure.row, figure.measure, frozenset(figure.cell.items()))
        played = all(value in about[name] for name, value in figure.cell.items() if name in about)
        if played and key not in seen:
            seen.add(key)
            yield figure


def settings_table(players: Mapping[str, Sequence[RunPart]]) -> Table | None:
    """Every setting that differs, with the players that have each value; None where none does.

    Args:
        players: Each with the runs that it played in.
    """
    rows: list[tuple[Cell, ...]] = []
    for key, values in differing_settings(players).items():
        names_of: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in values.items():
            names_of[value].append(name)
        rows += [(key, value, ", ".join(names)) for value, names in names_of.items()]
    if not rows:
        return None
    return Table("settings", "Settings that differ", ("setting", "value", "players"), tuple(rows))


def differing_settings(players: Mapping[str, Sequence[RunPart]]) -> dict[str, dict[str, str]]:
    """The value that each player has of every setting that differs between them.

    Args:
        players: Each with the runs that it played in.
    """
    of_player = {name: _settings(runs) for name, runs in players.items()}
    keys = dict.fromkeys(key for settings in of_player.values() for key in settings)
    values = {key: {name: settings.get(key, "not set") for name, settings in of_player.items()} for key in keys}
    return {key: of_key for key, of_key in values.items() if len({*of_key.values()}) > 1}


def _settings(runs: Sequence[RunPart]) -> dict[str, str]:
    flat: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for run in runs:
        for key, value in flat_settings(run.settings, NOT_OF_A_LABEL):
            flat[key][str(value)] = None
    return {key: " | ".join(values) for key, values in flat.items()}


def own_rows(table: Table, player: str, others: Any) -> Table | None:
    """The rows of one player and of the built-in ones; None where it has none; a table without players as it is."""
    if "player" not in table.columns:
        return table
    place = table.columns.index("player")
    rows = tuple(row for row in table.rows if row[place] == player or row[place] not in others)
    if not any(row[place] == player for row in rows):
        return None
    return dataclasses.replace(table, rows=rows)
