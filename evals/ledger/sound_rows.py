"""Rows that the ledger's own reader takes, whatever a suite or a player returned."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence

import pyarrow as pa

from envs.printable import printable
from evals.conversation import Record, cause_of
from evals.ledger.check import check_rows
from evals.ledger.records import records_to_table

logger = logging.getLogger(__name__)


def sound_rows(records: Sequence[Record], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Finished episodes as ledger rows; a record that cannot be stored becomes a failed row and affects no other.

    Args:
        records: Of suites and players that may be anybody's.
        columns: See ``records_to_table``.
    """
    try:
        return checked_rows(records, columns)
    except Exception as error:  # a value of a wrong type may raise anything
        if len(records) > 1:
            return pa.concat_tables([sound_rows([record], columns) for record in records])
        [record] = records
        cause = cause_of(error)
        logger.error("episode %s has a record that cannot be stored: %s", record.episode.id, printable(cause))
    failed = dataclasses.replace(record, outcome=None, error=cause, error_kind="suite")
    try:
        return checked_rows([failed], columns)
    except Exception:  # its turns are at fault
        return checked_rows([dataclasses.replace(failed, turns=(), seconds=0.0)], columns)


def checked_rows(records: Sequence[Record], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Finished episodes as ledger rows, if the ledger's reader will take every one.

    Args:
        records: Of suites and players that may be anybody's.
        columns: See ``records_to_table``.

    Raises:
        Exception: it will not; a value of a wrong type may raise anything.
    """
    table = records_to_table(records, columns)
    problems = check_rows([table], ["the record"], None).problems
    if problems:
        raise ValueError(problems[0][1])
    return table
