"""Many small parts become few large ones, and no death on the way shows an episode twice or never."""

import itertools
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.storage import compaction
from cluster.storage import run_directory as module
from cluster.storage.compaction import FAN, TARGET_BYTES, choose
from cluster.storage.durable import write_durably
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.ledger.ledger import open_ledger
from evals.ledger.parts import LedgerDamagedError
from tests.cluster.test_ledger import PLAN, rows

IDS = sorted(episode.id for episode in PLAN)


def opened(path: Path) -> RunDirectory:
    directory = RunDirectory(path)
    directory.claim()
    directory.begin(PLAN, {"config.yaml": "suite: {}\n"})
    return directory


@pytest.fixture
async def directory(tmp_path) -> RunDirectory:
    made = opened(tmp_path / "run")
    for episode in PLAN:
        made.commit(await rows([episode]))
    return made


def ids(directory):
    return sorted(Run(directory.path).episodes()["episode_id"].to_pylist())


def names(directory):
    return sorted(path.name for path in directory.parts.glob("*.parquet"))


async def test_a_merged_part_claims_no_more_than_it_was_merged_from(directory, monkeypatch):
    """Two groups are merged one after the other while their parts are still there: neither speaks for the other's."""
    monkeypatch.setattr(compaction, "choose", lambda sizes, everything: [[0, 1]])
    directory.compact(everything=True)
    monkeypatch.setattr(compaction, "choose", lambda sizes, everything: [[0, 1]])
    directory.compact(everything=True)
    ledger = open_ledger(directory.path, directory.planned)
    assert ledger.damage == [] and len(ledger) == len(PLAN)
    assert ids(directory) == IDS


def test_parts_of_about_one_size_are_merged_once_there_are_many():
    assert choose([1000] * (FAN - 1)) == []
    assert choose([1000] * FAN) == [list(range(FAN))]
    assert choose([100_000, *[1000] * FAN]) == [list(range(1, FAN + 1))], "a larger one is left"
    assert choose([10, *[1000] * FAN]) == [list(range(FAN + 1))], "smaller ones go with them"
    assert choose([TARGET_BYTES] * 2 * FAN) == [], "large ones are done with"


def test_all_small_parts_are_merged_when_asked_for():
    assert choose([100_000, 1000, 10], everything=True) == [[0, 1, 2]]
    assert choose([1000], everything=True) == [] == choose([], everything=True)
    assert choose([1000, TARGET_BYTES, 1000], everything=True) == [[0, 2]]
    assert choose([TARGET_BYTES // 2, TARGET_BYTES, TARGET_BYTES // 2], everything=True) == [[0, 2]]


def test_merged_parts_keep_to_the_target_size():
    third = TARGET_BYTES // 3
    assert choose([third] * 7, everything=True) == [[0, 1, 2], [3, 4, 5]], "a single one left over is left"


def test_sizes_of_one_tier_differ_by_less_than_the_fan():
    smallest, largest = [1] * (FAN // 2), [FAN - 1] * (FAN // 2)
    assert choose(smallest + largest) == [list(range(FAN))]
    assert choose([0] * FAN) == [list(range(FAN))], "an empty part counts as the smallest"
    assert choose(smallest + [FAN] * (FAN // 2)) == [], "the next tier begins here"
    assert choose([FAN] * (FAN // 2) + [FAN**2 - 1] * (FAN // 2)) == [list(range(FAN))]


def test_the_largest_full_tier_takes_all_smaller_ones_along():
    assert choose([100_000, *[10] * FAN, 100_000, *[1000] * FAN, 1]) == [
        [*range(1, FAN + 1), *range(FAN + 2, 2 * FAN + 3)]
    ]


def test_groups_are_filled_to_the_byte():
    half = TARGET_BYTES // 2
    assert choose([half, half, 1, 1], everything=True) == [[0, 1], [2, 3]]
    assert choose([half, half + 1, 1], everything=True) == [[1, 2]]
    assert choose([half, half - 1, 1], everything=True) == [[0, 1, 2]]
    assert choose([1, 1, TARGET_BYTES - 1], everything=True) == [[0, 1]]
    assert choose([1, TARGET_BYTES - 1], everything=True) == [[0, 1]]


def test_parts_of_half_the_target_wait_for_the_end_of_the_run():
    half = TARGET_BYTES // 2
    assert choose([half] * 2 * FAN + [1000] * (FAN - 1)) == [], "nor do they make smaller ones be merged early"
    assert choose([half] * FAN + [half - 1] + [TARGET_BYTES] * FAN + [1000] * 2) == []
    assert choose([half, *[half - 1] * FAN]) == [[number, number + 1] for number in range(1, FAN, 2)]
    assert choose([half, half], everything=True) == [[0, 1]]


def test_each_byte_is_rewritten_a_few_times_however_long_the_run_is(monkeypatch):
    monkeypatch.setattr(compaction, "FAN", 8)
    monkeypatch.setattr(compaction, "TARGET_BYTES", 1024)  # of 4 bytes come 32, 256 and then about 1000: three merges
    rewritten, sizes = 0, []
    for commit in range(1, 8001):
        sizes.append(3 + commit % 3)
        if commit % 8 == 0:
            groups = choose(sizes)
            merged = [sum(sizes[number] for number in group) for group in groups]
            assert all(size <= 1024 for size in merged)
            rewritten += sum(merged)
            sizes = [size for number, size in enumerate(sizes) if number not in itertools.chain(*groups)] + merged
    assert sum(sizes) > 30 * 1024
    assert rewritten < 3 * sum(sizes)
    assert len(sizes) < 3 * sum(sizes) / 1024


@pytest.mark.parametrize(("rows_wanted", "groups"), [(2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (7, [6]), (1, [1] * 6)])
async def test_rows_are_written_in_groups(directory, monkeypatch, rows_wanted, groups):
    monkeypatch.setattr(compaction, "GROUP_ROWS", rows_wanted)
    parts = open_ledger(directory.path).parts
    file = pq.ParquetFile(pa.BufferReader(compaction.merged(parts, ())))
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == groups
    assert file.read(["episode_id"]).column(0).to_pylist() == [episode.id for episode in PLAN]


async def test_a_merged_ledger_has_the_same_rows_with_their_turns(directory):
    before = Run(directory.path).episodes(["episode_id", "turns", "session", "attempt"])
    directory.compact(everything=True)
    assert Run(directory.path).episodes(["episode_id", "turns", "session", "attempt"]).equals(before)
    directory.release()
    assert len(names(directory)) == 1 and ids(directory) == IDS


async def test_a_driver_merges_only_after_many_commits(directory, monkeypatch):
    monkeypatch.setattr(compaction, "FAN", 7)
    directory.compact()
    assert len(names(directory)) == 6
    monkeypatch.setattr(compaction, "FAN", 6)
    directory.compact()
    assert len(open_ledger(directory.path).parts) == 1
    with monkeypatch.context() as patch:
        patch.setattr(module, "describe_part", lambda path: pytest.fail("looked through again"))
        directory.compact()
        for _ in range(4):
            directory.commit(await rows([]))
        directory.compact()
    assert len(names(directory)) == 11, "looked through again only after as many new parts"
    directory.commit(await rows([]))
    directory.compact()
    assert len(open_ledger(directory.path).parts) == 1


@pytest.mark.slow
async def test_merging_leaves_a_part_that_a_commit_is_writing(tmp_path, monkeypatch):
    directory = opened(tmp_path / "run")
    for episode in PLAN[:-1]:
        directory.commit(await rows([episode]))
    merging = threading.Thread(target=directory.compact, kwargs={"everything": True})

    def written(path, content):
        write_durably(path, content)
        if merging.ident is None:  # the commit's part is there, and the commit does not know it yet
            merging.start()
            merging.join(0.3)

    monkeypatch.setattr(module, "write_durably", written)
    directory.commit(await rows([PLAN[-1]]))
    merging.join()
    assert ids(directory) == IDS


async def test_replaced_parts_stay_for_readers_for_a_while(directory, monkeypatch):
    reader = open_ledger(directory.path, Run(directory.path).planned)
    directory.compact(everything=True)
    assert sorted(reader.table(["episode_id"])["episode_id"].to_pylist()) == IDS
    assert len(names(directory)) == 7
    monkeypatch.setattr(module, "KEEP_REPLACED_SECONDS", 0.0)
    directory.compact()
    assert len(names(directory)) == 1 and ids(directory) == IDS


async def test_a_replaced_part_goes_when_its_time_has_come(directory, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    directory.compact(everything=True)
    now += 100
    for _ in range(2):
        directory.commit(await rows([]))
        directory.compact(everything=True)
    later, last = names(directory)[6:], names(directory)[-1:]
    now += module.KEEP_REPLACED_SECONDS - 100.5
    directory.compact()
    assert len(names(directory)) == 6 + len(later)
    now += 0.5
    directory.compact()
    assert names(directory) == later, "those that were replaced later stay longer"
    now += 100
    directory.compact()
    assert names(directory) == last and ids(directory) == IDS


async def test_parts_are_merged_in_the_order_of_their_numbers(directory):
    directory.release()
    for number, name in zip((999_999, 1_000_000), names(directory)[-2:], strict=True):
        (directory.parts / name).rename(directory.parts / f"part-{number}-x.parquet")
    again = opened(directory.path)
    again.compact(everything=True)
    again.release()
    assert [name[:13] for name in names(again)] == ["part-1000001-"], "numbers go on from the highest"
    assert Run(again.path).episodes()["episode_id"].to_pylist() == [episode.id for episode in PLAN]


async def test_what_was_merged_before_is_merged_again_without_what_it_replaced(directory):
    directory.compact(everything=True)
    directory.commit(await rows([]))
    directory.compact(everything=True)
    assert len(names(directory)) == 9, "six parts, two merged ones and one without a row"
    assert ids(directory) == IDS
    for name in names(directory)[:6]:  # the first merged part is gone, not all that it replaced
        assert name in open_ledger(directory.path).parts[-1].replaces


class DeathError(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", range(12))
async def test_a_death_at_any_step_loses_and_doubles_nothing(directory, monkeypatch, step):
    count = 0

    def deadly(real):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count > step:
                raise DeathError
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", deadly(os.rename))
        patch.setattr(Path, "unlink", deadly(Path.unlink))
        patch.setattr(os, "fsync", deadly(os.fsync))
        patch.setattr(module, "KEEP_REPLACED_SECONDS", 0.0)
        try:
            directory.compact(everything=True)
            directory.compact(everything=True)
        except DeathError:
            pass
        survived = count <= step
    assert ids(directory) == IDS
    directory._lock.release()
    again = opened(directory.path)
    again.remove(open_ledger(again.path).replaced)
    again.compact(everything=True)
    again.release()
    assert ids(again) == IDS and len(names(again)) == 1
    assert survived == (step >= 10), "the steps are three to write, six to remove and one to sync"


async def test_a_copy_that_differs_from_its_parts_is_not_taken(directory, monkeypatch):
    def forgetful(tables, schema, replaces=(), lease=""):
        return module.write_part([next(iter(tables)).slice(1)], schema, replaces, lease)

    monkeypatch.setattr(compaction, "write_part", forgetful)
    with pytest.raises(LedgerDamagedError) as raised:
        directory.compact(everything=True)
    assert [damage.path.name for damage in raised.value.damage] == names(directory)[:1]
    assert ids(directory) == IDS and len(names(directory)) == 6


async def test_a_damaged_part_is_not_merged(directory):
    part = sorted(directory.parts.iterdir())[2]
    part.write_bytes(part.read_bytes()[:-10])
    with pytest.raises(LedgerDamagedError) as raised:
        directory.compact(everything=True)
    assert raised.value.damage[0].path == part and len(names(directory)) == 6


async def test_parts_with_other_columns_are_merged_with_nulls(directory):
    directory.commit_rows((await rows(PLAN[:1])).slice(0, 0).append_column("go.area", pa.array([], pa.float64())))
    directory.compact(everything=True)
    assert Run(directory.path).episodes(["go.area"])["go.area"].to_pylist() == [None] * 6
