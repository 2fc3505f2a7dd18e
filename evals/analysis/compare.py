"""Two players, or two runs of one, on identical games: differences, what they could have shown, and what has flipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.run_data import RunData
from evals.stats.power import games_needed, smallest_difference
from evals.suite import Suite
from evals.suite_results import suite_measures
from evals.summary.paired import Effect, Measure, Observation, column_measure, holm, paired_effects
from evals.tables import Cell, Table

SHORT_ID = 12
"""Digits of an episode's id that tables show: enough for `raycade show`."""
LOOKED_AT = (
    "A run that stopped by looking at its games has intervals and p-values here as if their number had been fixed: too narrow, "
    "too small. The table of evidence holds all the same."
)
_GAME = ("task", "level", "mode", "index", "repeat", "seed")


@dataclass(frozen=True)
class Side:
    """One player of one run."""

    label: str
    """In tables: ``A``, ``B``."""
    player: str
    run: RunData
    suite: Suite
    name: str = ""
    """Where the run is, for the reader."""


@dataclass(frozen=True)
class Flip:
    """A game that one side won and the other did not."""

    suite: str
    game: tuple[str, str, str, int, int]
    """Task, level, mode, index and repeat."""
    won_by: str
    ids: tuple[str, str]
    """Of both episodes."""


def comparison_tables(first: Side, second: Side, detect: float | None = None, column: str | None = None) -> list[Table]:
    """The overall differences of each suite, then those of each cell.

    Args:
        first: What stands before the minus sign.
        second: What stands behind it.
        detect: A difference, to say how many games it takes to show it.
        column: Compare this column of the ledger instead of what the suites offer.

    Raises:
        ValueError: no game was played by both, or there is no such column, or it is not a number.
    """
    pairs = list(shared_measures(first, second, column))
    overall = []
    for suite, one, other in pairs:
        for effect in paired_effects(in_one_cell(one.observations), in_one_cell(other.observations)):
            overall.append((suite, one, effect))
    if not overall:
        if _games_of(first) & _games_of(second):
            raise ValueError(
                f"no game has a value of {column or 'any measure'} on both sides, {first.label} and {second.label}; a failed "
                "episode has success and score alone"
            )
        raise ValueError(
            f"no game of {first.label} and {second.label} is the same (suite, task, level, index and seed)"
        )
    cells = [_cell_table(suite, one, other, first, second) for suite, one, other in pairs]
    return [_overall_table(overall, first, second, detect), *(table for table in cells if len(table.rows) > 1)]


def _games_of(side: Side) -> set[tuple[Any, ...]]:
    """Suite, task, level, index and seed of each game that a side has finished."""
    rows = side.run.episodes(["player", "suite", "task", "level", "index", "seed"])
    mine = rows.filter(pc.equal(rows["player"], side.player)).drop_columns(["player"])
    return set(zip(*(column.to_pylist() for column in mine.columns), strict=True))


def shared_measures(first: Side, second: Side, column: str | None) -> Iterator[tuple[str, Measure, Measure]]:
    """The measures of both sides, with the suite's name."""
    others = {part.name: part for part in second.suite.parts}
    for part in first.suite.parts:
        if part.name not in others:
            continue
        ours, theirs = first.run.of(part.name), second.run.of(part.name)
        # A column of the ledger in place of what the suite offers.
        if column is not None:
            own = _own_column(column, part.name, first.suite)
            if own is None:
                continue
            _check_column(part.name, ours, own)
            _check_column(part.name, theirs, own)
            one = column_measure(ours, first.player, own)
            other = column_measure(theirs, second.player, own)
            yield part.name, one, other
            continue
        there = {other.name: other for other in suite_measures(others[part.name], theirs, second.player)}
        for one in suite_measures(part, ours, first.player):
            if one.name in there:
                yield part.name, one, there[one.name]


def _own_column(column: str, part: str, suite: Suite) -> str | None:
    """What a column, named as in docs/ledger.md, is called within one part of a suite; None for a column of another part."""
    owner, dot, name = column.partition(".")
    if not dot or owner not in {each.name for each in suite.parts}:
        return column
    return name if owner == part else None


def _check_column(suite: str, run: RunData, column: str) -> None:
    """See that a column of the ledger is one that can be compared."""
    table = run.episodes([column])
    if column not in table.column_names:
        raise ValueError(f"{suite}: the ledger has no column {column!r}; docs/ledger.md lists all")
    kind = table.schema.field(column).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ValueError(f"{suite}: column {column!r} holds {kind}, not numbers")


def in_one_cell(observations: Sequence[Observation]) -> list[Observation]:
    """The observations in one cell, as those of all games are compared."""
    return [one._replace(cell=(), unit=(one.cell, one.unit)) for one in observations]


def _overall_table(
    overall: Sequence[tuple[str, Measure, Effect]], first: Side, second: Side, detect: float | None
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for suite, one, effect in overall:
        row: tuple[Cell, ...] = (
            *(f"{suite}: {one.name}", effect.first, effect.second, effect.difference, _p(effect.p), effect.games),
            smallest_difference(effect.error, effect.games),
        )
        if detect is not None:
            games_differ = effect.games > 1 and effect.error > 0
            row += (games_needed(effect.error, effect.games, detect) if games_differ else None,)
        rows.append(row)
    columns = ["measure", first.label, second.label, f"{first.label} - {second.label}", "p", "games", "detects"]
    if detect is not None:
        columns.append(f"games for {detect:g}")
    left_out = sum(effect.left_out for *_, effect in overall)
    return Table(
        name=f"compare_{first.label}_{second.label}",
        title=f"{first.label} minus {second.label} on the same games",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(_overall_notes(first, second, detect, left_out)),
        headline=True,
    )


def _overall_notes(first: Side, second: Side, detect: float | None, left_out: int) -> Iterator[str]:
    for side in (first, second):
        name = f", {side.name}" if side.name else ""
        yield f"{side.label}: {side.player}{name}."
    yield (
        "Brackets: 95 % confidence, clustered by game. p: sign-flip test of the games' differences (McNemar's exact test "
        "with one episode a game). Failed episodes count as not successful."
    )
    detects = "detects: the smallest true difference that so many games show in 80 % of all cases, at p < 0.05."
    if detect:
        detects += f" games for {detect:g}: as many show {detect:g} as often, if they are like these."
    yield detects
    stopped = [f"{side.label}: {line}." for side in (first, second) for line in side.run.stopping]
    yield from stopped
    if stopped:
        yield LOOKED_AT
    if left_out:
        yield f"{left_out:,} observations have no twin on the other side and are left out."


def _cell_table(suite: str, one: Measure, other: Measure, first: Side, second: Side) -> Table:
    effects = paired_effects(one.observations, other.observations)
    varying = [place for place in range(len(one.dimensions)) if len({effect.cell[place] for effect in effects}) > 1]
    corrected = holm([effect.p for effect in effects])
    stem = one.name.replace(" ", "_")
    return Table(
        name=f"compare_{first.label}_{second.label}_{suite}_{stem}",
        title=f"{suite}: {one.name}, {first.label} minus {second.label}",
        columns=(
            *(one.dimensions[place] for place in varying),
            *(first.label, second.label, f"{first.label} - {second.label}", "p", "Holm p", "games"),
        ),
        rows=tuple(
            (
                *(effect.cell[place] for place in varying),
                *(effect.first, effect.second, effect.difference, _p(effect.p), _p(p), effect.games),
            )
            for effect, p in zip(effects, corrected, strict=True)
        ),
        notes=(f"Holm p: corrected for the table's {len(effects)} rows.",),
    )


def _p(p: float) -> Cell:
    return p if p >= 0.001 else "<0.001"


# --- episodes that flipped -------------------------------------------------------------------------------------------


def flips(first: Side, second: Side) -> list[Flip]:
    """Every game that one side won and the other did not, those that the first lost in front."""
    found = []
    for part in first.suite.parts:
        others = _outcomes(second.run.of(part.name), second.player)
        for game, (won, one) in _outcomes(first.run.of(part.name), first.player).items():
            if game not in others:
                continue
            there, other = others[game]
            if won == there:
                continue
            winner = first if won else second
            found.append(Flip(part.name, game[:5], winner.label, (one, other)))
    return sorted(found, key=lambda flip: (flip.won_by == first.label, flip.suite, flip.game))


def _game_name(index: object, repeat: object) -> str:
    """A game within its task, level and mode; numbers count from 0, as in the ledger."""
    return f"index {index}" + (f", repeat {repeat}" if repeat else "")


def flip_table(found: Sequence[Flip], first: Side, second: Side, most: int) -> Table:
    """The first ``most`` flips in either direction."""
    shown = [flip for side in (second, first) for flip in [one for one in found if one.won_by == side.label][:most]]
    gained = sum(flip.won_by == first.label for flip in found)
    return Table(
        name=f"flips_{first.label}_{second.label}",
        title="Games that one side won and the other did not",
        columns=("won by", "task", "level", "mode", "game", first.label, second.label),
        rows=tuple(
            (
                *(flip.won_by, flip.game[0], flip.game[1], flip.game[2], _game_name(*flip.game[3:5])),
                *(name[:SHORT_ID] for name in flip.ids),
            )
            for flip in shown
        ),
        notes=(
            f"{first.label} won {gained} that {second.label} did not, {second.label} won {len(found) - gained} that "
            f"{first.label} did not; {len(shown)} are shown (--flips).",
            f"{first.label}, {second.label}: the episodes, for `raycade show RUN EPISODE`.",
        ),
    )


def _outcomes(run: RunData, player: str) -> Mapping[tuple[str, str, str, int, int, int], tuple[bool, str]]:
    """Of each game (task, level, mode, index, repeat, seed): whether it was won, and the episode."""
    rows = run.episodes([*_GAME, "player", "success", "episode_id"]).to_pylist()
    return {
        (row["task"], row["level"], row["mode"], row["index"], row["repeat"], row["seed"]): (
            bool(row["success"]),
            row["episode_id"],
        )
        for row in rows
        if row["player"] == player
    }
