"""What a run left, as scores, reports and viewers read it: settings, sessions, plan, and the ledger column by column.

A run is opened once (``cluster.storage.stored_run.Run``) and handed to all who read it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evals.ledger.ledger import OF_TURNS, Ledger
from evals.ledger.parts import ROWS_AT_ONCE
from evals.stats.anytime import at_every_look

ReadColumns = Callable[[Sequence[str] | None], Iterator[pa.Table]]
"""Reads the named columns of the ledger (all but ``turns`` for None), a part at a time, ``suite`` always among them."""


@dataclass(frozen=True)
class RunData:
    """A plan and its ledger, whole or one suite's part. Nothing is read before it is asked for."""

    plan: pa.Table
    """One row per planned episode (``evals.ledger.records.PLAN_SCHEMA``)."""
    _read: ReadColumns
    _suite: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The resolved configuration."""
    spent: float | None = None
    """Money that all sessions spent, whatever became of the answers; None where none was noted."""
    sessions: Sequence[Mapping[str, Any]] = ()
    """Which session played with which versions of everything; rows name theirs in ``session``."""
    find: Callable[[Collection[str]], list[dict[str, Any]]] = lambda ids: []
    """Reads the rows of some episodes with their ``turns``, stored column names."""
    parts: frozenset[str] = frozenset()
    """Names of the ledger's parts: as they never change, a ledger of the same names is the same."""
    stopping: tuple[str, ...] = ()
    """What the run's stopping rule says, a sentence for each decision; empty without a rule."""
    cells_stop: bool = False
    """Whether each cell stops by itself (``stop.by=cell``), after as many games as its outcomes ask for."""
    with_not_needed: pa.Table | None = None
    """The plan together with the games that a stopping rule did not need, which cost money too; None without a rule."""
    unlabeled: RunData | None = None
    """The run as it was before a report of several runs left players out: what its rows say of games still holds."""
    stored_names: Mapping[str, str] = field(default_factory=dict)
    """What the ledger calls the players that a report of several runs gave other names, by these."""

    def intervals(self) -> AbstractContextManager[None]:
        """Computes the intervals that hold for this run meanwhile: anytime-valid ones where a rule may stop it."""
        return at_every_look() if self.stopping else contextlib.nullcontext()

    def stored_name(self, player: str) -> str:
        """What the ledger calls a player: by this name a paper's models and built-in players are known."""
        return self.stored_names.get(player, player)

    def as_stored(self) -> RunData:
        """The same part of the run with all its players, under the names that the ledger has for them."""
        if self.unlabeled is None:
            return self
        return self.unlabeled.of(self._suite) if self._suite else self.unlabeled

    @classmethod
    def of_ledger(
        cls,
        plan: pa.Table,
        ledger: Ledger,
        settings: Mapping[str, Any],
        sessions: Sequence[Mapping[str, Any]],
        spent: float | None = None,
    ) -> RunData:
        """A run on disk, as it was when its ledger was opened."""
        read = _ReadOnce(ledger).read
        return cls(plan, read, "", settings, spent, sessions, ledger.find, ledger.names)

    @classmethod
    def of_tables(cls, plan: pa.Table, ledger: pa.Table, settings: Mapping[str, Any] | None = None) -> RunData:
        """A run whose ledger is in memory already (stored column names, ``turns`` included or not)."""

        def read(columns: Sequence[str] | None) -> Iterator[pa.Table]:
            # Turns are read only by who names them.
            wanted = {*ledger.column_names} - {"turns"}
            if columns is not None:
                wanted = stored_names(columns)
            names = [name for name in ledger.column_names if name in wanted]
            yield ledger.select(list(dict.fromkeys([*names, "suite"])))

        def find(ids: Collection[str]) -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = ledger.filter(
                pc.is_in(ledger["episode_id"], pa.array(list(ids), pa.string()))
            ).to_pylist()
            return rows

        return cls(plan, read, settings=settings or {}, find=find)

    def of(self, suite: str) -> RunData:
        """The part of one suite; its own columns go by their short names there."""
        plan = self.plan.filter(pc.equal(self.plan["suite"], suite))
        return dataclasses.replace(self, plan=plan, _suite=suite)

    def renamed(self, plan: pa.Table, rename: Callable[[pa.Table], pa.Table]) -> RunData:
        """The same run under another plan, whose rows are what ``rename`` makes of the stored ones (see their ids)."""

        def read(columns: Sequence[str] | None) -> Iterator[pa.Table]:
            for table in self._read(None if columns is None else [*columns, "episode_id"]):
                yield rename(table)

        return dataclasses.replace(self, plan=plan, _read=read)

    def without(self, episodes: Collection[str]) -> RunData:
        """The run as if these episodes (ids) had neither been planned nor played."""
        left_out = pa.array(list(episodes), pa.string())

        def kept(table: pa.Table) -> pa.Table:
            return table.filter(pc.invert(pc.is_in(table["episode_id"], left_out)))

        def read(columns: Sequence[str] | None) -> Iterator[pa.Table]:
            for table in self._read(None if columns is None else [*columns, "episode_id"]):
                yield kept(table)

        return dataclasses.replace(self, plan=kept(self.plan), _read=read)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The ledger a few thousand rows at a time: for ``turns``, which may not fit into memory at once.

        ``turns.finish`` gives ``turns`` with this field alone.
        """
        wanted = None
        if columns is not None:
            wanted = stored_names(columns)
        for table in self._read(self._read_for(columns)):
            part = self._own(table) if self._suite else table
            names = part.column_names
            if wanted is not None:
                names = [name for name in names if name in wanted]
            yield part.select(names)

    def _read_for(self, columns: Sequence[str] | None) -> list[str] | None:
        """The columns that are read where some are named: a suite's own are stored with its name."""
        if columns is None:
            return None
        stored = list(columns)
        if self._suite:
            stored += [f"{self._suite}.{name}" for name in columns]
        return stored

    def _own(self, table: pa.Table) -> pa.Table:
        """The suite's rows; of the columns that suites declare only its own, without its name."""
        prefix = f"{self._suite}."
        part = table.filter(pc.equal(table["suite"], self._suite))
        part = part.select([name for name in part.column_names if "." not in name or name.startswith(prefix)])
        return part.rename_columns([name.removeprefix(prefix) for name in part.column_names])

    def episodes(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The ledger in one table; all columns but ``turns`` unless ``columns`` are named."""
        return pa.concat_tables(self.batches(columns), promote_options="default")


class _ReadOnce:
    """A ledger of which each column is read once, however many tables need it; ``turns`` are not kept."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, pa.ChunkedArray] = {}

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """See ``ReadColumns``; without any row, a table with the columns all the same."""
        # Turns are read only by who names them.
        wanted = {*self._ledger.schema.names} - {"turns"}
        if columns is not None:
            wanted = {*columns, "suite"}
        names = [name for name in self._ledger.schema.names if name in wanted]
        if "turns" in stored_names(list(wanted)):
            yield self._ledger.empty(list(wanted))
            yield from self._ledger.batches(list(wanted))
            return
        table = pa.table(self._columns(names))
        for start in range(0, max(len(table), 1), ROWS_AT_ONCE):
            yield table.slice(start, ROWS_AT_ONCE)

    def _columns(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """The columns, of which those are read that were not read yet."""
        missing = [name for name in names if name not in self._known]
        if missing:
            table = self._ledger.table(missing).combine_chunks()
            self._known.update(zip(table.column_names, table.columns, strict=True))
        return {name: self._known[name] for name in names}


def stored_names(columns: Sequence[str]) -> set[str]:
    """The stored columns that hold these; ``turns.finish`` is part of ``turns``."""
    return {"turns" if name.startswith(OF_TURNS) else name for name in columns}


def rows_by(rows: pa.Table, names: Sequence[str]) -> dict[tuple[Any, ...], npt.NDArray[np.int64]]:
    """The places of the rows of each combination of values, in the order of first occurrence."""
    numbered = rows.select(list(names)).append_column("place", pa.array(np.arange(len(rows))))
    grouped = numbered.group_by(list(names), use_threads=False).aggregate([("place", "list")])
    keys = zip(*(grouped[name].to_pylist() for name in names), strict=True)
    found = [(key, np.sort(each.values.to_numpy())) for key, each in zip(keys, grouped["place_list"], strict=True)]
    found.sort(key=lambda pair: int(pair[1][0]))  # Arrow gives groups in any order, also with one thread
    return dict(found)


def count_rows(rows: pa.Table, names: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Rows of each combination of values, in the order of first occurrence: Arrow's own grouping keeps none."""
    numbered = rows.select(list(names)).append_column("place", pa.array(np.arange(len(rows))))
    counted = numbered.group_by(list(names)).aggregate([([], "count_all"), ("place", "min")]).sort_by("place_min")
    keys = zip(*(counted[name].to_pylist() for name in names), strict=True)
    return dict(zip(keys, counted["count_all"].to_pylist(), strict=True))
