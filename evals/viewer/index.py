"""The list of episodes: what it takes to filter, sort and count them, in memory; their turns stay in the ledger."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evals.ledger.parts import LedgerChangedError
from evals.ledger.run_data import count_rows
from evals.viewer.filters import CAUSE, CHOICES, GAME, PARTNER, TAG, Filter, order_of
from evals.viewer.runs import (
    LISTED,
    LISTED_SCHEMA,
    NO_FILE,
    PLAN,
    REPLACED,
    Arrivals,
    FileState,
    ViewedRun,
    arrivals,
    file_names,
    file_state,
    read_plan,
    unread_parts,
)

SHOWN = ("run", *LISTED)
PLANNED_CELL = ("suite", "task", "level", "mode", "player")
MEMORY = "512MB"
ORDERS_KEPT = 8
HOW = ("done", "failed")
AT_WORK = "at work"
"""What ``ViewedRun.writer`` says of a driver that lives."""
EXAMPLES = 20
"""Episodes that are named with each cause of failure."""

Ids = npt.NDArray[np.int32]


class EpisodeIndex:
    """Rows of all runs' ledgers without their turns; more come in with each ``refresh``."""

    def __init__(self, runs: Sequence[ViewedRun]) -> None:
        self.runs = list(runs)
        self.version = 0
        """Changes whenever an answer may."""
        self._parts: list[Path] = []
        self._size = 0
        overflow = str(Path(tempfile.gettempdir()) / f"raycade-view-{os.getpid()}")  # made when it is needed
        self._database = duckdb.connect(
            config={"memory_limit": MEMORY, "temp_directory": overflow, "preserve_insertion_order": False}
        )
        arriving = LISTED_SCHEMA.empty_table()
        columns = ", ".join(f'"{name}"' for name in LISTED)
        self._database.register("arriving", arriving)
        self._database.execute(
            "CREATE TABLE episodes AS SELECT 0::INTEGER AS id, 0::SMALLINT AS run, 0::INTEGER AS part, "
            f"0::INTEGER AS place, true AS latest, {columns} FROM arriving"
        )
        self._database.unregister("arriving")
        self._database.execute("CREATE TABLE hits (search INTEGER, id INTEGER)")
        self._database.execute(
            "CREATE TABLE planned (run SMALLINT, suite VARCHAR, task VARCHAR, level VARCHAR, mode VARCHAR, "
            "player VARCHAR, planned INTEGER)"
        )
        self._database.execute("CREATE TABLE tags (run SMALLINT, episode_id VARCHAR, tag VARCHAR, source VARCHAR)")
        self._is_tagged = False
        self._ordered = lru_cache(ORDERS_KEPT)(self._order)

    # --- what comes in ---

    def add_run(self, run: ViewedRun) -> None:
        """Show another run, too."""
        self.runs.append(run)
        self.version += 1

    def refresh(self) -> bool:
        """Read what the runs' ledgers hold that was not read yet; whether there was anything."""
        before = self.version
        for number in range(len(self.runs)):
            trouble = ""
            try:
                if not self._look(number):
                    # Its rows stay in the list, and opening one says so, too.
                    trouble = f"the run is no longer in {self.runs[number].path}"
            except Exception as error:  # one run, which may be anybody's, must not hide the others
                trouble = f"{type(error).__name__}: {error}"
                self.runs[number].waiting = 0
            self._note_trouble(self.runs[number], trouble)
        return self.version != before

    def _look(self, number: int) -> bool:
        """Read what is new of a run, and all of it anew if it is another run than before; whether it is still there."""
        run = self.runs[number]
        state = file_state(run.path / PLAN)
        if run.plan is not None and state == NO_FILE:
            return False
        if run.plan is not None and state != run.plan:
            run = self._begin_anew(number)
        # Before the parts are looked for: a merged part is there before those that it replaces are removed.
        there = file_names(run)
        gone = [name for name, part in run.parts.items() if part != REPLACED and name not in there]
        for name in run.unreadable.keys() - there:
            run.forget_damage(name)
        self._read_parts(number, state)
        lost = [name for name in gone if run.parts[name] != REPLACED]
        if lost:  # which of the other rows count may depend on theirs
            self._begin_anew(number)
            self._read_parts(number, state)
        return True

    def _read_parts(self, number: int, state: FileState) -> None:
        """Read the parts of a run that were not read yet, and its plan (of this state) the first time."""
        run = self.runs[number]
        paths = unread_parts(run)
        if run.plan is not None and not paths:
            return
        run.waiting = len(paths)
        plan = read_plan(run)
        if run.plan is None:
            self._note_plan(number, plan)
            run.plan = state
        for found in arrivals(run, paths, plan):
            self._insert(number, found)

    def _begin_anew(self, number: int) -> ViewedRun:
        """Drop all that was read of a run; the run that is in its folder now."""
        if not self.runs[number].is_emptied:
            self.runs[number] = self.runs[number].emptied()
            cursor = self._database.cursor()
            cursor.begin()
            for table in ("episodes", "planned", "tags"):
                cursor.execute(f"DELETE FROM {table} WHERE run = ?", [number])
            cursor.commit()
            self.version += 1
        self.runs[number] = self.runs[number].reopened()
        return self.runs[number]

    def _note_trouble(self, run: ViewedRun, trouble: str) -> None:
        """Say why a run cannot be read at the moment, in place of what was said before; empty where it can."""
        if trouble == run.damage.get(PLAN, ""):
            return
        run.damage.pop(PLAN, None)
        if trouble:
            run.damage[PLAN] = trouble
        self.version += 1

    def _note_plan(self, number: int, plan: pa.Table) -> None:
        run = self.runs[number]
        cells = [(number, *cell, count) for cell, count in count_rows(plan, PLANNED_CELL).items()]
        if cells:
            self._database.cursor().executemany("INSERT INTO planned VALUES (?, ?, ?, ?, ?, ?, ?)", cells)
        run.planned = len(plan)
        self.version += 1

    def _insert(self, number: int, found: Arrivals) -> None:
        """Add the rows of some parts in place of those that they replace; of each episode the latest attempt counts."""
        run, first, size = self.runs[number], len(self._parts), self._size
        cursor = self._database.cursor()
        self._parts += [run.path / "episodes" / name for name in found.parts]
        known = [name for name in found.replaced if run.parts.get(name, REPLACED) != REPLACED]
        gone = [run.parts[name] for name in known]
        ids = pa.array(np.arange(size, size + len(found.rows)), pa.int32())
        cursor.register("arriving", found.rows.append_column("id", ids))
        columns = ", ".join(f'"{name}"' for name in LISTED)
        cursor.begin()
        if gone:
            cursor.execute(f"DELETE FROM episodes WHERE part IN ({', '.join('?' * len(gone))})", gone)
        cursor.execute(
            f"INSERT INTO episodes SELECT id, ?, part + ?, place, true, {columns} FROM arriving", [number, first]
        )
        cursor.execute(
            "UPDATE episodes SET latest = false WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER "
            "(PARTITION BY episode_id ORDER BY attempt DESC, id) AS place FROM episodes WHERE run = ? AND episode_id IN "
            "(SELECT episode_id FROM arriving)) WHERE place > 1)",
            [number],
        )
        cursor.commit()
        cursor.unregister("arriving")
        run.parts.update({name: first + place for place, name in enumerate(found.parts)})
        for name in known:
            run.parts[name] = REPLACED
            run.forget_damage(name)
        self._size += len(found.rows)
        self.version += 1

    def set_tags(self, run: int, tags: Sequence[tuple[str, str]], source: str = "notes") -> None:
        """Note the tags of a run's episodes (ids), by the run's number, in place of those that this source gave before."""
        cursor = self._database.cursor()
        cursor.begin()
        cursor.execute("DELETE FROM tags WHERE run = ? AND source = ?", [run, source])
        if tags:
            given = pa.Table.from_pylist([{"episode_id": episode, "tag": tag} for episode, tag in dict.fromkeys(tags)])
            cursor.register("given", given)
            cursor.execute("INSERT INTO tags SELECT ?, episode_id, tag, ? FROM given", [run, source])
            cursor.unregister("given")
        cursor.commit()
        self._is_tagged = self._is_tagged or bool(tags)
        self.version += 1

    # --- searches for text, which fill the table of hits ---

    def add_hits(self, search: int, ids: Ids) -> None:
        """Note episodes that a search has found."""
        cursor = self._database.cursor()
        cursor.register("found", pa.table({"id": ids}))
        cursor.execute("INSERT INTO hits SELECT ?, id FROM found", [search])
        cursor.unregister("found")
        self.version += 1

    def drop_hits(self, search: int) -> None:
        """Forget what a search has found."""
        self._database.cursor().execute("DELETE FROM hits WHERE search = ?", [search])

    def ledger_parts(self) -> list[tuple[Path, int]]:
        """The parts whose rows are listed, with their numbers, in the order of the list."""
        with self._read("SELECT DISTINCT part FROM episodes ORDER BY part") as rows:
            return [(self._parts[part], part) for (part,) in rows.fetchall()]

    def ids_of(self, part: int, places: npt.NDArray[np.int64]) -> Ids:
        """The rows of the list for these rows of a part."""
        with self._read("SELECT id, place FROM episodes WHERE part = ?", [part]) as rows:
            found = rows.fetchnumpy()
        ids: Ids = np.asarray(found["id"])[np.isin(found["place"], places)]
        return ids

    def part_path(self, part: int) -> Path:
        """The file of a part by its number."""
        return self._parts[part]

    def table(self) -> pa.Table:
        """The whole list, of each episode the latest attempt, in the order of the ledger; runs and parts as numbers."""
        return self._database.cursor().sql("SELECT * FROM episodes WHERE latest ORDER BY id").to_arrow_table()

    # --- what is asked ---

    def run_number(self, name: str) -> int:
        """The number of the run of this name, -1 if there is none."""
        return next((number for number, run in enumerate(self.runs) if run.name == name), -1)

    def page(self, chosen: Filter, search: int | None, sort: str, start: int, count: int) -> dict[str, Any]:
        """Some rows of the filtered and sorted list, and how many there are.

        Raises:
            ValueError: ``sort`` names no column.
        """
        ids = self._ordered(chosen, search, order_of(sort), self.version)
        here = ids[start : start + count]
        rows = self._rows(here)
        return {"total": len(ids), "from": start, "rows": self._with_partners(rows, *chosen.versus)}

    def neighbors(self, chosen: Filter, search: int | None, sort: str, row: int) -> dict[str, Any]:
        """Where an episode stands in the list, and those before and after it."""
        ids = self._ordered(chosen, search, order_of(sort), self.version)
        places = np.flatnonzero(ids == row)
        if not len(places):
            return {"position": None, "total": len(ids), "before": None, "after": None}
        place = int(places[0])
        before = self._rows(ids[max(place - 1, 0) : place])
        after = self._rows(ids[place + 1 : place + 2])
        return {
            "position": place,
            "total": len(ids),
            "before": before[0] if before else None,
            "after": after[0] if after else None,
        }

    def cells(self, chosen: Filter, search: int | None) -> list[dict[str, Any]]:
        """For each suite, task, level, mode, player and run: episodes planned, played, won and failed."""
        where, values = chosen.clause(self.run_number, search)
        keys = "run, suite, task, level, mode, player"
        asked = (
            f"SELECT {keys}, played, won, failed, planned FROM (SELECT {keys}, count(*) AS played, "
            "count(*) FILTER (success) AS won, count(*) FILTER (status = 'failed') AS failed FROM episodes "
            f"WHERE {where} GROUP BY {keys}) LEFT JOIN planned USING ({keys}) ORDER BY {keys}"
        )
        return self._named(asked, values)

    def outcomes(self, first: tuple[str, str], second: tuple[str, str], suite: str) -> list[dict[str, Any]]:
        """The games of a suite that two players (run and name) have both played, by cell and by who won them."""
        asked = (
            "SELECT task, level, mode, count(*) FILTER (mine AND theirs) AS both, "
            "count(*) FILTER (mine AND NOT theirs) AS first, count(*) FILTER (theirs AND NOT mine) AS second, "
            "count(*) FILTER (NOT mine AND NOT theirs) AS neither FROM (SELECT episodes.task AS task, "
            "episodes.level AS level, episodes.mode AS mode, coalesce(episodes.success, false) AS mine, "
            f"coalesce(other.success, false) AS theirs FROM episodes JOIN episodes AS other ON {PARTNER} AND other.latest "
            "AND other.run = ? AND other.player = ? WHERE episodes.latest AND episodes.run = ? AND episodes.player = ? "
            "AND episodes.suite = ?) GROUP BY task, level, mode ORDER BY abs(count(*) FILTER (mine AND NOT theirs) - "
            "count(*) FILTER (theirs AND NOT mine)) DESC, task, level, mode"
        )
        values = [self.run_number(second[0]), second[1], self.run_number(first[0]), first[1], suite]
        return self._named(asked, values)

    def causes(self, chosen: Filter, search: int | None) -> list[dict[str, Any]]:
        """Failures by cause, the most frequent first, with some of their episodes."""
        where, values = chosen.clause(self.run_number, search)
        asked = (
            f"SELECT {CAUSE} AS cause, error_kind, count(*) AS count, min(error) AS example, "
            f"list(DISTINCT player ORDER BY player) AS players, list(id ORDER BY id)[1:{EXAMPLES}] AS ids FROM episodes "
            f"WHERE {where} AND status = 'failed' GROUP BY ALL ORDER BY count DESC, cause, error_kind"
        )
        found = self._named(asked, values)
        for cause in found:
            cause["episodes"] = self._rows(np.asarray(cause.pop("ids"), np.int32))
        return found

    def values(self) -> dict[str, dict[str, int]]:
        """What there is to choose from, with the number of episodes of each value."""
        keys = ", ".join(CHOICES)
        asked = f"SELECT {keys}, count(*) AS count FROM episodes WHERE latest GROUP BY {keys} ORDER BY {keys}"
        rows = self._named(asked, ())
        values = {name: _counted(rows, name) for name in CHOICES}
        tags = self.tags()
        if tags:
            values[TAG] = tags
        return values

    def tags(self) -> dict[str, int]:
        """The tags that episodes have, with the number of these."""
        asked = (
            "SELECT tag, count(*) AS count FROM tags WHERE (run, episode_id) IN "
            "(SELECT (run, episode_id) FROM episodes WHERE latest) GROUP BY tag ORDER BY tag"
        )
        return {row["tag"]: row["count"] for row in self._named(asked, ())}

    def find(self, run: str, episode_id: str, attempt: int | None = None) -> dict[str, Any] | None:
        """The row of an episode, of its latest attempt or of this one; ``attempts`` says which there are."""
        asked = "run = ? AND episode_id = ? AND (latest OR attempt = ?) ORDER BY attempt = ? DESC, latest DESC LIMIT 1"
        row = self._one(asked, [self.run_number(run), episode_id, attempt, attempt])
        if row is not None:
            with self._read(
                "SELECT DISTINCT attempt FROM episodes WHERE run = ? AND episode_id = ? ORDER BY attempt",
                [self.run_number(run), episode_id],
            ) as rows:
                row["attempts"] = [number for (number,) in rows.fetchall()]
        return row

    def place_of(self, row: int) -> tuple[Path, int]:
        """The part that holds a row of the list, and the row's number in it.

        Raises:
            LedgerChangedError: the row is no longer in the list.
        """
        with self._read("SELECT part, place FROM episodes WHERE id = ?", [row]) as rows:
            found = rows.fetchone()
        if found is None:
            raise LedgerChangedError(f"of row {row}")
        part, place = found
        return self._parts[part], place

    def same_game(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The other episodes of the same game, those of the same run first: of other players, modes, repeats, runs."""
        conditions = " AND ".join(f'"{name}" = ?' for name in GAME)
        values = [row[name] for name in GAME]
        asked = (
            f"SELECT id FROM episodes WHERE latest AND {conditions} AND id <> ? "
            "ORDER BY run <> ?, mode <> ?, repeat <> ?, run, id"
        )
        nearest = [self.run_number(row["run"]), row["mode"], row["repeat"]]
        with self._read(asked, [*values, row["id"], *nearest]) as rows:
            ids = rows.fetchnumpy()["id"]
        return self._rows(np.asarray(ids[:200], np.int32))

    def status(self) -> list[dict[str, Any]]:
        """Of each run: episodes planned, done, failed; what could not be read; parts that were not read yet."""
        asked = "SELECT run, status, count(*) FROM episodes WHERE latest GROUP BY 1, 2"
        with self._read(asked) as rows:
            counted = {(run, status): count for run, status, count in rows.fetchall()}
        players: dict[int, list[str]] = {}
        with self._read("SELECT run, player FROM planned GROUP BY run, player ORDER BY run, min(rowid)") as rows:
            for number, player in rows.fetchall():  # in the order of the plan: the model first, then baselines
                players.setdefault(number, []).append(player)
        return [
            {
                "name": run.name,
                "path": str(run.path),
                "planned": run.planned,
                "done": counted.get((number, "done"), 0),
                "failed": counted.get((number, "failed"), 0),
                "waiting": run.waiting,
                "players": players.get(number, []),
                "damage": [f"{name}: {reason}" for name, reason in run.damage.items()],
                "stopping": list(run.stopping()),
                "live": run.writer() == AT_WORK and sum(counted.get((number, how), 0) for how in HOW) < run.planned,
            }
            for number, run in enumerate(self.runs)
        ]

    def is_unfinished(self, run: ViewedRun) -> bool:
        """Whether a run has planned episodes that the list has not."""
        with self._read("SELECT count(*) FROM episodes WHERE latest AND run = ?", [self.run_number(run.name)]) as rows:
            (listed,) = rows.fetchone() or (0,)
        return bool(listed < run.planned)

    def progress(self) -> list[dict[str, Any]]:
        """For each planned cell of each run: episodes planned, done, failed and won, and their cost; as the plans have them."""
        keys = ", ".join(PLANNED_CELL)
        sums = {
            "done": "count(*) FILTER (status = 'done')",
            "failed": "count(*) FILTER (status = 'failed')",
            "won": "count(*) FILTER (success)",
            "cost": "sum(cost)",
        }
        played = ", ".join(f"{formula} AS {name}" for name, formula in sums.items())
        shown = ", ".join(f"coalesce({name}, 0) AS {name}" for name in sums)
        asked = (
            f"SELECT run, {keys}, planned, {shown} FROM (SELECT *, rowid AS place FROM planned) LEFT JOIN "
            f"(SELECT run, {keys}, {played} FROM episodes WHERE latest GROUP BY run, {keys}) USING (run, {keys}) "
            "ORDER BY run, place"
        )
        return self._named(asked, ())

    def attempts(self, run: ViewedRun, episodes: Sequence[str]) -> dict[str, int]:
        """The latest attempt that the list has of each of these episodes; those of which it has none are left out."""
        marks = ", ".join("?" * len(episodes))
        asked = f"SELECT episode_id, max(attempt) FROM episodes WHERE run = ? AND episode_id IN ({marks}) GROUP BY ALL"
        if not episodes:
            return {}
        with self._read(asked, [self.run_number(run.name), *episodes]) as rows:
            return dict(rows.fetchall())

    # --- reading ---

    def _order(self, chosen: Filter, search: int | None, order: str, version: int) -> Ids:
        where, values = chosen.clause(self.run_number, search)
        with self._read(f"SELECT id FROM episodes WHERE {where} ORDER BY {order}", values) as rows:
            ids: Ids = np.asarray(rows.fetchnumpy()["id"], np.int32)
        return ids

    def _rows(self, ids: Ids) -> list[dict[str, Any]]:
        if not len(ids):
            return []
        columns = ", ".join(f'"{name}"' for name in ("id", *SHOWN))
        marks = ", ".join("?" * len(ids))
        found = {
            row["id"]: row for row in self._named(f"SELECT {columns} FROM episodes WHERE id IN ({marks})", ids.tolist())
        }
        rows = [found[number] for number in ids.tolist() if number in found]
        if not self._is_tagged:
            return rows
        asked = (
            f"SELECT id, list(tag ORDER BY tag) AS tags FROM episodes JOIN tags USING (run, episode_id) WHERE id IN ({marks}) "
            "GROUP BY id"
        )
        for row in self._named(asked, ids.tolist()):
            found[row["id"]]["tags"] = row["tags"]
        return rows

    def _with_partners(self, rows: list[dict[str, Any]], run: str, player: str) -> list[dict[str, Any]]:
        """The rows, each with the same game of a run and player as ``other``."""
        if not player or not rows:
            return rows
        asked = (
            "SELECT episodes.id AS id, other.run AS run, other.episode_id AS episode_id, other.status AS status, "
            "other.success AS success, other.error AS error FROM episodes JOIN episodes AS other "
            f"ON {PARTNER} AND other.latest AND other.run = ? AND other.player = ? "
            f"WHERE episodes.id IN ({', '.join('?' * len(rows))})"
        )
        values = [self.run_number(run), player, *(row["id"] for row in rows)]
        partners = {each.pop("id"): each for each in self._named(asked, values)}
        return [{**row, "other": partners.get(row["id"])} for row in rows]

    def _one(self, condition: str, values: Sequence[Any]) -> dict[str, Any] | None:
        columns = ", ".join(f'"{name}"' for name in ("id", *SHOWN))
        return next(iter(self._named(f"SELECT {columns} FROM episodes WHERE {condition}", values)), None)

    def _named(self, asked: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        with self._read(asked, values) as rows:
            names = [each[0] for each in rows.description]
            found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
        for row in found:
            if "run" in row:
                row["run"] = self.runs[row["run"]].name
        return found

    @contextmanager
    def _read(self, asked: str, values: Sequence[Any] = ()) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._database.cursor()
        try:
            yield cursor.execute(asked, list(values))
        finally:
            cursor.close()


def _counted(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, int]:
    """The number of episodes of each value of a column, in the order of the values; empty ones are no choice."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row[name] != "":
            counts[row[name]] += row["count"]
    return dict(sorted(counts.items()))
