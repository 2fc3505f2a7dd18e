"""The pages of a site as HTML: no network, one script of our own, and nothing that a model wrote is markup."""

from __future__ import annotations

import base64
import datetime
import hashlib
import importlib.metadata
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from envs.printable import printable
from evals.ledger.run_data import RunData
from evals.report.joint import joined_tables, with_labels
from evals.report.page import table_parts
from evals.report.parts import settings_text, versions_table
from evals.results.boards import Board, boards_of, own_rows, paper_table, settings_table
from evals.results.entries import Entry, Reader, RunPart
from evals.site.games import games_of
from evals.stats.intervals import Estimate
from evals.suite import Suite, built_in_names
from evals.summary.cost import money_digits
from evals.summary.paired import file_stem
from evals.tables import Table, format_cell, rounded
from evals.types import stable_hash

_TEMPLATES: Final = Path(__file__).with_name("templates")
_MOST_ROWS: Final = 300
"""Rows of a suite's own table on its page; longer ones are on the models' pages."""


@dataclass
class Site:
    """Takes runs one by one, and makes the pages."""

    title: str
    license: str
    """Under which the results are given away, in words; may be empty."""
    made: datetime.datetime
    parts: list[RunPart] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    """Of the suites."""
    _reader: Reader = field(default_factory=Reader)

    def read(
        self, name: str, data: RunData, suite: Suite, planned: pa.Table, labels: Mapping[str, str]
    ) -> tuple[RunPart, dict[str, str]]:
        """What the site keeps of a run, and the pages of its games by the names of their files.

        Args:
            name: Of the run.
            data: Plan and ledger.
            suite: What was played.
            planned: The whole plan, with what a stopping rule did not need.
            labels: Other names for players that several runs have.
        """
        if labels:
            data = with_labels(data, dict(labels))
            names = [labels.get(player, player) for player in planned["player"].to_pylist()]
            planned = planned.set_column(planned.column_names.index("player"), "player", pa.array(names, pa.string()))
        built_in = built_in_names(suite)
        pages = {}
        for part in suite.parts:
            title = part.title or part.name
            for player, games in games_of(data, part, built_in).items():
                back = [(player_file(player), player), (suite_file(part.name), title)]
                page = self._page("games.html", f"Games of {player}: {title}", games=games, back=back)
                pages[games_file(player, part.name)] = page
            self.titles[part.name] = title
        return self._reader.read(name, data, suite, planned), pages

    def add(self, part: RunPart) -> None:
        """Show this run, too."""
        self.parts.append(part)

    def pages(self, games: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Every other page by the name of its file, the index last.

        Args:
            games: Names of the pages of games that there are.
        """
        entries = list[Entry]()
        for part in self.parts:
            entries += part.entries
        boards = boards_of(entries)
        of_suite: defaultdict[str, list[Board]] = defaultdict(list)
        for board in boards:
            of_suite[board.suite].append(board)
        runs = self._runs_of_players()
        models = sorted(_players_of(boards), key=str.lower)

        for suite, found in of_suite.items():
            yield suite_file(suite), self._suite_page(suite, found, runs)
        for player in models:
            yield player_file(player), self._player_page(player, boards, runs[player], games)
        yield "index.html", self._index_page(models, boards)

    def _runs_of_players(self) -> dict[str, list[RunPart]]:
        """For each player the runs that it played in, each once."""
        found: defaultdict[str, list[RunPart]] = defaultdict(list)
        for part in self.parts:
            for player in dict.fromkeys(entry.player for entry in part.entries):
                found[player].append(part)
        return dict(found)

    # --- one page each ---------------------------------------------------------------------------------------------------

    def _index_page(self, models: Sequence[str], boards: Sequence[Board]) -> str:
        cells, references, columns = {}, [], []
        for place, board in enumerate(boards):
            for row in board.rows:
                cells[row.entry.player, place] = row
            references.append(self._board_parts(board)["references"])
            file = f"{suite_file(board.suite)}#{_anchor(board)}"
            columns.append({"file": file, "name": self._name(board, boards)})
        rows = []
        for player in models:
            of_player = [cells.get((player, place)) for place in range(len(boards))]
            rows.append({"player": player, "file": player_file(player), "cells": of_player})
        played = [_run_facts(part) for part in self.parts]
        return self._page("index.html", self.title, rows=rows, columns=columns, runs=played, references=references)

    def _name(self, board: Board, boards: Sequence[Board]) -> str:
        alike = [each for each in boards if each.suite == board.suite]
        title = self.titles[board.suite]
        measure = next(iter(board.measures), "")
        number = f", games {alike.index(board) + 1}" if len(alike) > 1 else ""
        return f"{title}{number}: {measure}"

    def _suite_page(self, suite: str, boards: Sequence[Board], runs: Mapping[str, Sequence[RunPart]]) -> str:
        here = _players_of(boards)
        settings = settings_table({player: runs[player] for player in runs if player in here})
        # The paper's rows stand once, beside the board with the most models.
        paper = paper_table(boards[0])
        of_suite = {part.name: part.tables[suite] for part in self.parts if suite in part.tables}
        tables = []
        for table in joined_tables(of_suite):
            if table.headline and len(table.rows) <= _MOST_ROWS:
                tables.append(table_parts(table))
        return self._page(
            "suite.html",
            self.titles[suite],
            boards=[self._board_parts(board) for board in boards],
            papers=_as_list(paper),
            tables=tables,
            settings=_as_list(settings),
        )

    def _board_parts(self, board: Board) -> dict[str, Any]:
        # By the rules of some runs only, a reference is no mark beside all rows.
        of_all = [each for each in board.references if not each.of_runs]
        marks = {each.reference: each.scores[0].estimate.mean for each in of_all if each.scores}
        rows = [
            {
                **self._entry_parts(row.entry, marks),
                "standing": row.standing,
                "difference": row.difference,
                "notes": row.notes,
            }
            for row in board.rows
        ]
        return {
            "anchor": _anchor(board),
            "about": board.about,
            "measures": board.measures,
            "rows": rows,
            "references": [self._entry_parts(entry, marks) for entry in board.references],
            "ranked": any(row.standing == "highest" for row in board.rows),
            "cost": any(row.entry.cost for row in board.rows),
        }

    def _entry_parts(self, entry: Entry, marks: Mapping[str, float]) -> dict[str, Any]:
        played, health = entry.played, entry.health
        scores = {score.measure: score.estimate for score in entry.scores}
        first = next(iter(scores.values()), None)
        digits = money_digits([entry.cost / played]) if played else 2
        return {
            "name": entry.title,
            "file": player_file(entry.player),
            "scores": scores,
            "bar": _bar(first, marks),
            "played": played,
            "planned": entry.planned,
            "failed": entry.failed,
            "unread": health.replies - health.read,
            "replies": health.replies,
            "cost": rounded(entry.cost / played, digits) if entry.cost and played else None,
            "seconds": entry.seconds / played if played else None,
        }

    def _player_page(self, player: str, boards: Sequence[Board], runs: Sequence[RunPart], games: Sequence[str]) -> str:
        sections = []
        for board in boards:
            row = next((row for row in board.rows if row.entry.player == player), None)
            if row is None:
                continue
            part = next(part for part in runs if part.name == row.entry.run)
            tables = _own_tables(part, board.suite, player)
            file = games_file(player, board.suite)
            sections.append(
                {
                    "title": self.titles[board.suite],
                    "file": f"{suite_file(board.suite)}#{_anchor(board)}",
                    "board": self._board_parts(
                        Board(board.suite, board.games, board.about, board.measures, [row], board.references)
                    ),
                    "tables": [table_parts(table) for table in tables if table.headline],
                    "more": [table_parts(table) for table in tables if not table.headline],
                    "games": file if file in games else "",
                }
            )
        made = [
            {
                **_run_facts(part),
                "versions": _table(versions_table(part.sessions, part.name)),
                "settings": settings_text(part.settings),
            }
            for part in runs
        ]
        return self._page("player.html", player, sections=sections, runs=made)

    def _page(self, template: str, title: str, **values: Any) -> str:
        """A template with what all pages have."""
        script = (_TEMPLATES / "sort.js").read_text(encoding="utf-8")
        style = "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "style.css"))
        common = {
            "title": title,
            "site": self.title,
            "license": self.license,
            "made": self.made.strftime("%Y-%m-%d %H:%M %Z"),
            "version": importlib.metadata.version("raycade"),
            "style": Markup(style),
            "script": Markup(script),
            "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            "shown": format_cell,
        }
        environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_safe,
            trim_blocks=True,
        )
        return environment.get_template(template).render(**common, **values)


def _players_of(boards: Sequence[Board]) -> set[str]:
    """Who has a row in one of them."""
    players = set[str]()
    for board in boards:
        players.update(row.entry.player for row in board.rows)
    return players


def _safe(value: Any) -> Any:
    """Text without characters that command a terminal or reorder lines; markup is only ever the template's own."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _table(table: Table | None) -> dict[str, Any] | None:
    return None if table is None else table_parts(table)


def _own_tables(part: RunPart, suite: str, player: str) -> list[Table]:
    """The tables of a suite with the rows of one player and of the built-in ones, without those of other players alone."""
    players = {entry.player for entry in part.entries}
    tables = [table for table in part.tables[suite] if _named_after(table, players) in ("", player)]
    models = {entry.player for entry in part.entries if not entry.reference}
    own = [own_rows(table, player, models) for table in tables]
    return [table for table in own if table is not None and table.rows]


def _named_after(table: Table, players: Collection[str]) -> str:
    """The player that a table's name ends with, of several the longest (``not_random``, not ``random``); empty for none."""
    return max((player for player in players if table.name.endswith(f"_{file_stem(player)}")), key=len, default="")


def _as_list(table: Table | None) -> list[dict[str, Any]]:
    """The table in a list for the template; an empty one for none."""
    return [table_parts(table)] if table else []


def _run_facts(part: RunPart) -> dict[str, Any]:
    """A run in a line."""
    entries = part.entries
    models, suites = list[str](), list[str]()
    planned = played = failed = 0
    is_partial = False
    for entry in entries:
        if not entry.reference:
            models.append(entry.player)
        suites.append(entry.suite)
        planned += entry.planned
        played += entry.played
        failed += entry.failed
        if entry.missing:
            is_partial = True
    began = next((str(session["began"]) for session in part.sessions if session.get("began")), "")
    state = []
    if is_partial:
        state.append("partial")
    # What a rule said is the run's, so each entry has it.
    if entries and entries[0].stopping:
        state.append("stopped by its rule")
    return {
        "name": part.name,
        "began": began[:16].replace("T", " "),
        "players": ", ".join(dict.fromkeys(models)),
        "suites": ", ".join(dict.fromkeys(suites)),
        "planned": planned,
        "played": played,
        "failed": failed,
        "state": "; ".join(state) or "complete",
    }


def _bar(estimate: Estimate | None, marks: Mapping[str, float]) -> dict[str, Any] | None:
    """A score from 0 to 1 as a picture: per cent of the width; None for what has no such scale."""
    if estimate is None or not estimate.n or not 0 <= estimate.mean <= 1:
        return None
    low, high = (estimate.low, estimate.high) if estimate.has_interval else (estimate.mean, estimate.mean)
    ticks = [100 * mark for mark in marks.values() if 0 <= mark <= 1]
    return {"low": 100 * low, "width": 100 * (high - low), "mean": 100 * estimate.mean, "ticks": ticks}


# --- names of files --------------------------------------------------------------------------------------------------


def _anchor(board: Board) -> str:
    return f"games-{board.games[:8]}"


def suite_file(suite: str) -> str:
    """The page of a suite."""
    return f"suite-{_stem(suite)}.html"


def player_file(player: str) -> str:
    """The page of a model."""
    return f"player-{_stem(player)}.html"


def games_file(player: str, suite: str) -> str:
    """The page of a model's games in a suite."""
    return f"games-{_stem(player)}-{_stem(suite)}.html"


def _stem(name: str) -> str:
    """Part of a file's name, another one for each name, also where upper and lower case are the same."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", name.lower())[:60].strip("-")
    return stem if stem == name else f"{stem}-{stable_hash(name)[:8]}"
