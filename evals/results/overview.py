"""The page of results as JSON values: runs by suites, what can be told apart, and paired differences to one of them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from evals.results.boards import ALPHA, Board, Row, Standing, boards_of, differing_settings
from evals.results.differences import (
    are_shares,
    differences_to,
    interval_values,
    measure_values,
    overall_effect,
    shared_effects,
)
from evals.results.entries import Entry, Outline, RunPart, player_labels
from evals.results.ticks import chance_of, ticks_of
from evals.stats.intervals import Estimate
from evals.summary.paired import Effect, holm


class Overview:
    """Some runs on boards: each row is a model, or what a built-in player stands for, each column a board."""

    def __init__(self, parts: Sequence[RunPart], outlines: Sequence[Outline], titles: Mapping[str, str]) -> None:
        """Make the boards.

        Args:
            parts: The runs, read.
            outlines: Of the same runs; their settings name runs of one model.
            titles: Of the suites.
        """
        labels = player_labels(outlines)
        entries = []
        for part in parts:
            for entry in part.entries:
                player = labels[part.name].get(entry.player, entry.player)
                entries.append(dataclasses.replace(entry, player=player))
        self.boards = boards_of(entries)
        self._titles = titles
        self._ledger_names: dict[tuple[str, str], str] = {}
        for run, known in labels.items():
            for name, label in known.items():
                self._ledger_names[run, label] = name
        self._parts: dict[str, RunPart] = {}
        for part, outline in zip(parts, outlines, strict=True):
            self._parts[part.name] = dataclasses.replace(part, settings=outline.settings)

    # --- the page of results ---------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The rows: models in the order of the boards, then what built-in players stand for."""
        models = dict.fromkeys(row.entry.player for board in self.boards for row in board.rows)
        return [*models, *dict.fromkeys(_row_name(entry) for board in self.boards for entry in board.references)]

    def results(self, baseline: str = "") -> dict[str, Any]:
        """Everything that the page shows.

        Args:
            baseline: The row that the others are paired with; empty for none.

        Raises:
            ValueError: there is no such row.
        """
        self._check(baseline)
        references = {_row_name(entry) for board in self.boards for entry in board.references}
        columns = [self._column(board, baseline) for board in self.boards]
        rows = []
        for name in self.names():
            cells = [column.get(name) for column in columns]
            rows.append({"name": name, "reference": name in references, "cells": cells})
        return {
            "sentence": self._sentence(),
            "baseline": baseline,
            "boards": [self._board(board) for board in self.boards],
            "rows": rows,
            "settings": self._settings(),
        }

    def _board(self, board: Board) -> dict[str, Any]:
        scores = [entry.scores[0] for entry in _entries(board).values() if entry.scores]
        measure, values = "", list[float]()
        for score in scores:
            values += score.values
        if scores:
            measure = scores[0].measure
        low, high, ticks = 0.0, 1.0, list[dict[str, Any]]()
        is_share = are_shares(values)
        if is_share:
            ticks += ticks_of(board)
        else:
            low, high = min(values), max(values)
        return {
            "suite": board.suite,
            "title": self._title(board),
            "about": board.about,
            "measure": measure,
            "share": is_share,
            "low": low,
            "high": high,
            "ticks": ticks,
        }

    def _column(self, board: Board, baseline: str) -> dict[str, dict[str, Any]]:
        """The cells of a board by the name of their row."""
        rows = {row.entry.player: row for row in board.rows}
        entries = _entries(board)
        differences = differences_to(entries, baseline)
        found = {}
        for name, entry in entries.items():
            cell = self._cell(entry, rows.get(name))
            if name in rows:
                cell["standing"] = self._standing(board, rows[name])
            if name in differences:
                cell["difference"] = differences[name]
            found[name] = cell
        return found

    def _cell(self, entry: Entry, row: Row | None) -> dict[str, Any]:
        score = entry.scores[0].estimate if entry.scores and entry.scores[0].estimate.n else None
        return {
            "run": entry.run,
            "player": self._ledger_name(entry),
            "score": interval_values(score) if score else None,
            "standing": "",
            "notes": list(row.notes) if row else [],
            "planned": entry.planned,
            "played": entry.played,
            "failed": entry.failed,
            "replies": entry.health.replies,
            "unread": entry.health.troubled.total(),
            "cut": entry.health.troubled["cut off"],
            "cost": entry.cost,
            "seconds": entry.seconds / entry.played if entry.played else None,
        }

    def _standing(self, board: Board, row: Row) -> Standing:
        """Where a model stands on a board, p corrected as in the sentence and on the page that compares two rows."""
        if row.standing != "below the highest":
            return row.standing
        highest = next(each.entry for each in board.rows if each.standing == "highest")
        p = self._corrected(highest.player, row.entry.player)[self._title(board)] * _pairs(board)
        return row.standing if p < ALPHA else "not told apart from the highest"

    def _settings(self) -> list[dict[str, Any]]:
        """Settings whose values differ between rows, with the value of each row of a model."""
        runs: defaultdict[str, dict[str, RunPart]] = defaultdict(dict)
        for board in self.boards:
            for row in board.rows:
                entry = row.entry
                runs[entry.player][entry.run] = self._parts[entry.run]
        of_player = {player: [*parts.values()] for player, parts in runs.items()}
        return [{"name": name, "values": values} for name, values in differing_settings(of_player).items()]

    # --- the sentence on top ---------------------------------------------------------------------------------------------

    def _sentence(self) -> str:
        """What the runs show, in one sentence: the two best models on the first board, else the model against chance."""
        # The two best models of the first board that compares some.
        for board in self.boards:
            ranked = [row.entry for row in board.rows if row.standing not in ("", "not compared")]
            if len(ranked) > 1:
                return self._versus(ranked[0].player, ranked[1].player)
        first_models = [(board, board.rows[0].entry) for board in self.boards if board.rows]
        # One model against chance, on the same games.
        for board, entry in first_models:
            chance = chance_of(board, entry)
            if chance is not None and overall_effect(entry, chance):
                return self._versus(entry.player, chance.title, looked=False)
        # One model that cannot be compared with anything.
        for board, entry in first_models:
            if entry.played:
                return (
                    f"{entry.player} has played {entry.played:,} of {entry.planned:,} episodes of {self._title(board)}."
                )
        return "No model has played an episode yet."

    def _versus(self, first: str, second: str, looked: bool = True) -> str:
        """The sentence on two rows.

        Args:
            first: One of them.
            second: The other.
            looked: They were picked by their scores, so p counts as if all pairs of models had been compared.
        """
        corrected = self._corrected(first, second)
        clauses: list[str] = []
        winner = ""
        for board, one, another in self._with_both(first, second):
            effect = overall_effect(one, another)
            if effect is None:
                continue
            pairs = _pairs(board) if looked else 1
            p = min(1.0, corrected[self._title(board)] * pairs)
            is_share = are_shares((*one.scores[0].values, *another.scores[0].values))
            if p >= ALPHA:
                amount = _amount(effect.difference, is_share, 1)
                clauses.append(f"on {self._title(board)} no difference is shown ({amount}, {_p(p)})")
                continue
            first_is_higher = effect.difference.mean > 0
            higher_is_better = one.scores[0].better == "higher"
            best, other = (first, second) if first_is_higher == higher_is_better else (second, first)
            sign = 1 if first_is_higher else -1
            who = "" if winner == best else f"{best} beats {other} "
            clauses.append(f"{who}on {self._title(board)} by {_amount(effect.difference, is_share, sign)}, {_p(p)}")
            winner = best
        text = "; ".join(clauses)
        if text.startswith((first, second)):
            return f"{text}."
        return f"{first} and {second}: {text}."

    def _corrected(self, first: str, second: str) -> dict[str, float]:
        """For each board by its title, p of the first measure after Holm over all measures and boards of the two rows."""
        titles, tested = list[str](), list[float]()
        for board, one, other in self._with_both(first, second):
            for _, _, effect in shared_effects(one, other):
                titles.append(self._title(board))
                tested.append(effect.p)
        corrected: dict[str, float] = {}
        for title, p in zip(titles, holm(tested), strict=True):
            # A board's first measure stands first.
            corrected.setdefault(title, p)
        return corrected

    def _with_both(self, first: str, second: str) -> Iterator[tuple[Board, Entry, Entry]]:
        """The boards that have both rows, each with the entries of these."""
        for board in self.boards:
            entries = _entries(board)
            if first in entries and second in entries:
                yield board, entries[first], entries[second]

    # --- two of them -----------------------------------------------------------------------------------------------------

    def compare(self, first: str, second: str) -> dict[str, Any]:
        """Two rows on their shared games: each measure overall, by the first dimension, and by cell.

        Raises:
            ValueError: there is no such row.
        """
        self._check(first)
        self._check(second)
        suites: list[dict[str, Any]] = []
        effects: list[Effect] = []
        for board, one, other in self._with_both(first, second):
            shared = shared_effects(one, other)
            effects += [effect for _, _, effect in shared]
            suites.append(
                {
                    "suite": board.suite,
                    "title": self._title(board),
                    "about": board.about,
                    "first": {"run": one.run, "player": self._ledger_name(one)},
                    "second": {"run": other.run, "player": self._ledger_name(other)},
                    "measures": [measure_values(mine, theirs, effect) for mine, theirs, effect in shared],
                    "outcomes": [],
                }
            )
        corrected = iter(holm([effect.p for effect in effects]))
        for suite in suites:
            for measure in suite["measures"]:
                measure["overall"]["holm"] = next(corrected)
        settings = [
            {"name": each["name"], "values": {name: each["values"].get(name, "not set") for name in (first, second)}}
            for each in self._settings()
            if each["values"].get(first) != each["values"].get(second) and {first, second} <= each["values"].keys()
        ]
        return {
            "first": first,
            "second": second,
            "sentence": self._versus(first, second, looked=False) if effects else "They have played no game in common.",
            "suites": suites,
            "settings": settings,
        }

    # --- helpers ---------------------------------------------------------------------------------------------------------

    def _check(self, name: str) -> None:
        if name and name not in self.names():
            raise ValueError(f"there is no row {name!r}; there are {', '.join(self.names())}")

    def _title(self, board: Board) -> str:
        """The suite; with its number where other games of it have a board, too."""
        alike = [each for each in self.boards if each.suite == board.suite]
        title = self._titles.get(board.suite, board.suite)
        return title if len(alike) == 1 else f"{title} ({alike.index(board) + 1})"

    def _ledger_name(self, entry: Entry) -> str:
        return self._ledger_names.get((entry.run, entry.player), entry.player)


def _row_name(entry: Entry) -> str:
    if entry.shortcut:
        return dataclasses.replace(entry, reference="best shortcut").title
    return entry.title


def _entries(board: Board) -> dict[str, Entry]:
    """The entries of a board by the names of their rows."""
    models = {row.entry.player: row.entry for row in board.rows}
    return {**models, **{_row_name(entry): entry for entry in board.references}}


def _pairs(board: Board) -> int:
    """Pairs of models that can be compared on a board; at least one."""
    models = sum(row.standing not in ("", "not compared") for row in board.rows)
    return max(1, models * (models - 1) // 2)


def _amount(difference: Estimate, is_share: bool, sign: int) -> str:
    """A difference and its interval in words, seen from the first side (``sign`` 1) or the second (-1)."""
    scale, unit, digits = (100 * sign, " points", 1) if is_share else (sign, "", 3)
    ends = sorted(scale * end for end in (difference.low, difference.high))
    interval = f" [{_fixed(ends[0], digits)}, {_fixed(ends[1], digits)}]" if difference.has_interval else ""
    return f"{_fixed(scale * difference.mean, digits)}{unit}{interval}"


def _fixed(value: float, digits: int) -> str:
    """A number as the page's own script rounds it: halves away from zero."""
    return str(Decimal(value).quantize(Decimal(10) ** -digits, ROUND_HALF_UP))


def _p(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)
