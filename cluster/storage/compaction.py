"""Merging the many small parts of a ledger into few large ones.

A run that commits every two seconds writes 43,200 parts a day, and each costs a reader milliseconds. Parts are merged once
there are ``FAN`` of about one size, so that each row is rewritten a few times at most however long the run is, until parts
have half of ``TARGET_BYTES``. The merged part names those it replaces and readers ignore them from then on; they are
removed later. So it is safe to die at any moment: before the merged part is there nothing has changed, afterwards nothing
counts twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evals.ledger.parts import Damage, LedgerDamagedError, LedgerPart, read_batches, write_part

FAN = 32
"""Parts of about one size that are merged into one."""
TARGET_BYTES = 64 * 2**20
"""Merged parts have at most this size; those of half of it are merged once more only when all are."""
GROUP_ROWS = 2_000
"""Most rows in a row group of a merged part."""


def choose(sizes: Sequence[int], everything: bool = False) -> list[list[int]]:
    """Which parts to merge into one, by number.

    Args:
        sizes: Bytes of each part, in the order in which they were written.
        everything: Merge all that are below the target, however few.
    """
    # Two parts of more than half the target do not fit into one.
    done, fewest = TARGET_BYTES // 2, FAN
    if everything:
        done, fewest = TARGET_BYTES, 1
    tier_of = {number: _tier(size) for number, size in enumerate(sizes) if size < done}
    count_of = Counter(tier_of.values())
    full = [tier for tier, count in count_of.items() if count >= fewest]
    if not full:
        return []
    # Smaller parts are merged along with those of a full tier, so that rows stay in their order.
    highest = max(full)
    chosen = [number for number, tier in tier_of.items() if tier <= highest]
    groups = _within_target(chosen, sizes)
    return [group for group in groups if len(group) > 1]


def _within_target(parts: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Parts that follow one another, in groups that take no more than the target together."""
    groups: list[list[int]] = [[]]
    room = TARGET_BYTES
    for number in parts:
        size = sizes[number]
        if size > room:
            groups.append([])
            room = TARGET_BYTES
        groups[-1].append(number)
        room -= size
    return groups


def _tier(size: int) -> int:
    """Sizes of one tier differ by less than the factor ``FAN``."""
    return int(math.log(max(size, 1), FAN))


def merged(parts: Sequence[LedgerPart], replaces: Collection[str], lease: str = "") -> bytes:
    """The content of a part with all rows of others, in their order.

    Args:
        parts: What to merge.
        replaces: Names of all parts, long replaced ones included, whose rows it holds.
        lease: Of this driver.

    Raises:
        LedgerDamagedError: one of them cannot be read.
        LedgerChangedError: one of them is no longer there.
    """
    schema = pa.unify_schemas([part.schema for part in parts])
    paths = [part.path for part in parts]
    content = write_part(_groups(paths, schema), schema, replaces, lease)
    _check_copy(content, paths)
    return content


def _groups(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for path in paths:
        for table in read_batches(path, schema):
            waiting.append(table)
            if sum(map(len, waiting)) >= GROUP_ROWS:
                yield pa.concat_tables(waiting)
                waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _check_copy(content: bytes, paths: Sequence[Path]) -> None:
    """See that a copy holds the very attempts that it was made of, before anything is removed for it."""
    key = pa.schema({"episode_id": pa.string(), "attempt": pa.int32()})
    rows = pa.concat_tables([table for path in paths for table in read_batches(path, key)])
    copy = pq.read_table(pa.BufferReader(content), columns=key.names)
    if not copy.replace_schema_metadata(None).equals(rows):
        raise LedgerDamagedError([Damage(paths[0], "a copy of this part and others did not come out the same")])
