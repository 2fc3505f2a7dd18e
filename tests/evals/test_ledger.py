"""Which rows of a ledger count, and what is said of those that do not."""

import errno
import json
import math
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envs.files import shown_files
from evals.ledger import ledger as module
from evals.ledger import parts as of_parts
from evals.ledger.check import AMOUNTS, check_rows
from evals.ledger.columns import COLUMNS, SCHEMA_VERSION, VERSION_KEY, Column, check_version, columns_of
from evals.ledger.lease import LEASE_KEY, counted_parts, find_leases, part_files
from evals.ledger.ledger import open_ledger, retry_until_stable
from evals.ledger.parts import Damage, LedgerChangedError, LedgerDamagedError, describe_part, write_part
from evals.ledger.records import PARQUET_OPTIONS, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.types import Outcome
from tests.evals.test_records import EXTRA, a_record, an_episode, done
from tests.evals.test_records import write_part as write_records

PLAN = plan_to_table([an_episode(index) for index in range(6)])


def failed(index):
    return a_record(index, error="EngineKilled: four times")


def numbers(ledger):
    return ledger.table(["index"])["index"].to_pylist()


def change(path, name, values):
    table = pq.read_table(path)
    position = table.column_names.index(name)
    pq.write_table(table.set_column(position, name, pa.array(values, table.schema.field(name).type)), path)


def write_attempt(run_dir, name, records, attempt):
    path = write_records(run_dir, name, records)
    change(path, "attempt", [attempt] * len(records))
    return path


def test_rows_of_a_part_of_another_plan_are_named_and_do_not_count(tmp_path):
    write_records(tmp_path, "a", [done(0)])
    foreign = write_records(tmp_path, "b", [done(1), done(7), done(8)])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0, 1] and len(ledger) == 2
    [damage] = ledger.damage
    assert damage.path == foreign and an_episode(7).id in damage.reason and "1 more" in damage.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("suite", "go"), ("task", "music"), ("level", "hard"), ("mode", "cot"), ("player", "oracle")),
        *(("index", 3), ("repeat", 0), ("seed", 1), ("task", None)),
        *(("status", "won"), ("status", None), ("success", None), ("attempt", 0), ("attempt", None)),
        ("episode_id", None),
    ],
)
def test_a_row_that_was_tampered_with_is_named_and_does_not_count(tmp_path, name, value):
    path = write_records(tmp_path, "a", [done(0), done(1), done(2)])
    values = pq.read_table(path)[name].to_pylist()
    change(path, name, [values[0], value, values[2]])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0, 2]
    [damage] = ledger.damage
    assert damage.path == path and "more" not in damage.reason
    assert name in damage.reason or value is None or name == "attempt"


@pytest.mark.parametrize(
    ("name", "value"),
    [("cost", math.nan), ("cost", math.inf), ("seconds", -1.0), ("prompt_tokens", 2**63 - 1), ("cached_tokens", -1)],
)
def test_an_amount_that_is_no_measurement_is_named_and_its_row_does_not_count(tmp_path, name, value):
    part = write_records(tmp_path, "a", [done(0), done(1)])
    change(part, name, [None, value])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0] and [damage.path for damage in ledger.damage] == [part]
    assert f"has {name} {value}" in ledger.damage[0].reason


def test_a_text_that_is_no_utf_8_is_damage_where_it_is_read(tmp_path):
    """Parquet stores any bytes as a text."""
    parts = [write_records(tmp_path, name, [done(number)]) for number, name in enumerate("abc")]
    odd = pa.array([b"\xff"], pa.binary()).view(pa.string())
    for part, name in zip(parts, ("player", "kumo.predicted"), strict=False):
        table = pq.read_table(part)
        pq.write_table(table.set_column(table.column_names.index(name), name, odd), part)
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [1, 2], "names are read with the rest"
    assert [damage.path for damage in ledger.damage] == [parts[0]] and "UTF8" in ledger.damage[0].reason
    with pytest.raises(LedgerDamagedError, match=r"b\.parquet.*UTF8"):
        ledger.table(["kumo.predicted"])


LARGEST_STEPS = 2**31 - 1  # what the column holds


@pytest.mark.parametrize(
    ("name", "sound", "not_sound"),
    [
        *((name, [0, 2**53], [-1, 2**53 + 2]) for name in AMOUNTS),
        *(("score", [0, 1], [-0.001, 1.001]), ("steps", [0, LARGEST_STEPS], [-1])),
        ("attempt", [1, 10**6], [0, 10**6 + 1]),
    ],
)
def test_a_number_counts_up_to_its_bounds_and_not_beyond(name, sound, not_sound):
    values = [*sound, *not_sound]
    rows = records_to_table([done(index) for index in range(len(values))], EXTRA)
    rows = rows.set_column(rows.column_names.index(name), name, pa.array(values).cast(COLUMNS[name].type, safe=False))
    assert check_rows([rows], ["a"], PLAN).sound.tolist() == [True] * len(sound) + [False] * len(not_sound)


@pytest.mark.parametrize("field", ["turns", "turns.prompt", "turns.prompt.parts", "turns.reply"])
def test_turns_that_are_null_are_damage_of_their_part(tmp_path, field):
    part = write_records(tmp_path, "a", [done(0)])
    row = pq.read_table(part).to_pylist()[0]
    place, (*way, last) = row, field.split(".")
    for name in way:
        place = place[name][0]
    place[last] = None
    change(part, "turns", [row["turns"]])
    ledger = open_ledger(tmp_path, PLAN)
    for read in (lambda: ledger.table(["turns"]), lambda: ledger.find([row["episode_id"]])):
        with pytest.raises(LedgerDamagedError, match=f"{part.name}: {field} is null"):
            read()
    assert len(ledger.table()) == 1


@pytest.mark.parametrize("values", [(None, None), ("a text", "a picture")])
def test_a_part_of_a_message_is_a_text_or_a_picture(tmp_path, values):
    part = write_records(tmp_path, "a", [done(0)])
    row = pq.read_table(part).to_pylist()[0]
    row["turns"][0]["prompt"][0]["parts"][0] |= dict(zip(("text", "picture"), values, strict=True))
    change(part, "turns", [row["turns"]])
    with pytest.raises(LedgerDamagedError, match=f"{part.name}: .* neither a text nor a picture, or both"):
        open_ledger(tmp_path, PLAN).find([row["episode_id"]])


@pytest.mark.parametrize("error", ["", None])
def test_a_failed_row_without_a_cause_is_named_and_does_not_count(tmp_path, error):
    path = write_records(tmp_path, "a", [done(0), failed(1)])
    change(path, "error", ["", error])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0] and [damage.path for damage in ledger.damage] == [path]


def test_the_latest_attempt_counts_wherever_it_stands(tmp_path):
    write_attempt(tmp_path, "a", [done(0)], 2)
    write_attempt(tmp_path, "b", [failed(0), failed(1)], 1)
    write_attempt(tmp_path, "c", [failed(1)], 3)
    write_attempt(tmp_path, "d", [done(1)], 2)
    ledger = open_ledger(tmp_path, PLAN)
    rows = {(row["index"], row["attempt"]): row["status"] for row in ledger.table().to_pylist()}
    assert rows == {(0, 2): "done", (1, 3): "failed"} and len(ledger) == 2 and ledger.damage == []
    every = [len(batch) for batch in ledger.batches(["index"], every_attempt=True)]
    assert sum(every) == 5


def test_an_attempt_that_occurs_many_times_stands_first_where_it_counts(tmp_path):
    for name in "abcd":
        write_records(tmp_path, name, [done(1), done(4)] if name != "a" else [done(2), done(3)])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [2, 3, 1, 4] and sum(ledger.checked.sound) == 4
    assert [damage.path.stem for damage in ledger.damage] == ["c", "d"]
    assert all("b.parquet" in damage.reason and "1 more" in damage.reason for damage in ledger.damage)


def test_a_file_that_another_system_lays_beside_a_part_is_no_part(tmp_path):
    part = write_records(tmp_path, "part-000001-x", [done(1)])
    part.with_name(f"._{part.name}").write_bytes(b"\0\5\26\7")
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [1] and ledger.damage == [] and ledger.names == {part.name}
    assert part_files(part.parent) == shown_files(part.parent, "*.parquet") == [part]


def test_parts_that_a_merged_one_replaces_are_not_read(tmp_path):
    first, second = (write_records(tmp_path, f"part-00000{n}-x", [done(n), failed(n + 2)]) for n in (1, 2))
    tables = [pq.read_table(path) for path in (first, second)]
    merged = tmp_path / "episodes" / "part-000010-x.parquet"
    merged.write_bytes(write_part(tables, tables[0].schema, [first.name, second.name]))
    second.write_bytes(b"no longer looked at")
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [1, 3, 2, 4] and ledger.damage == []
    assert set(ledger.replaced) == {first, second}
    assert ledger.names == {first.name, second.name, merged.name}
    for path in (first, second):
        path.unlink()
    assert numbers(open_ledger(tmp_path, PLAN)) == [1, 3, 2, 4]


def test_a_reader_whose_part_was_merged_away_is_told_to_open_the_ledger_again(tmp_path):
    old = write_records(tmp_path, "part-000001-x", [done(1)])
    ledger = open_ledger(tmp_path, PLAN)
    table = pq.read_table(old)
    (tmp_path / "episodes" / "part-000002-x.parquet").write_bytes(write_part([table], table.schema, [old.name]))
    old.unlink()
    with pytest.raises(LedgerChangedError):
        ledger.table()
    opened = []

    def read():
        opened.append(open_ledger(tmp_path, PLAN) if opened else ledger)
        return len(opened[-1].table(["budget"]))

    assert retry_until_stable(read) == 1 and len(opened) == 2


def test_a_merge_between_listing_and_reading_loses_no_row(tmp_path, monkeypatch):
    """The merged part came after the listing, and the parts that it replaces went before."""
    old = write_records(tmp_path, "part-000001-x", [done(1)])
    write_records(tmp_path, "part-000002-x", [done(2)])
    table = pq.read_table(old)
    real = module.read_fingerprint

    def read(path):
        if old.exists():
            (tmp_path / "episodes" / "part-000003-x.parquet").write_bytes(write_part([table], table.schema, [old.name]))
            old.unlink()
        return real(path)

    listing = type(tmp_path).glob
    monkeypatch.setattr(module, "read_fingerprint", read)
    monkeypatch.setattr(
        type(tmp_path), "glob", lambda self, what: (path for path in listing(self, what) if path != old)
    )
    assert numbers(open_ledger(tmp_path, PLAN)) == [2, 1]


@pytest.mark.parametrize("stated", [SCHEMA_VERSION + 1, "x", None])
def test_a_part_of_an_unknown_schema_version_is_named(tmp_path, stated):
    path = write_records(tmp_path, "a", [done(0)])
    write_records(tmp_path, "b", [done(1)])
    metadata = {} if stated is None else {VERSION_KEY: str(stated)}
    pq.write_table(pq.read_table(path).replace_schema_metadata(metadata), path)
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [1]
    [damage] = ledger.damage
    assert damage.path == path and "version" in damage.reason


def test_a_part_of_an_older_version_is_read_by_the_reader_of_that_version(tmp_path, monkeypatch):
    path = write_records(tmp_path, "a", [done(0)])
    write_records(tmp_path, "b", [done(1)])
    old = pq.read_table(path)
    names = ["won" if name == "success" else name for name in old.column_names]
    pq.write_table(old.rename_columns(names).replace_schema_metadata({VERSION_KEY: "0"}), path)

    def read(table):
        return table.rename_columns(["success" if name == "won" else name for name in table.column_names])

    monkeypatch.setattr(of_parts, "READERS", {**of_parts.READERS, 0: read})
    ledger = open_ledger(tmp_path, PLAN)
    assert ledger.damage == [] and ledger.table(["success"])["success"].to_pylist() == [True, True]


def test_rows_come_in_batches_with_the_same_columns_from_every_part(tmp_path, monkeypatch):
    monkeypatch.setattr(of_parts, "ROWS_AT_ONCE", 2)
    write_records(tmp_path, "a", [done(0), done(1), done(2)])
    write_records(tmp_path, "b", [a_record(3, Outcome(True, 1))], extra={})
    batches = list(open_ledger(tmp_path, PLAN).batches())
    assert [len(batch) for batch in batches] == [2, 1, 1]
    assert len({tuple(batch.column_names) for batch in batches}) == 1
    assert batches[-1]["kumo.tests"].to_pylist() == [None]


def test_turns_come_in_smaller_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(of_parts, "ROWS_WITH_TURNS_AT_ONCE", 1)
    write_records(tmp_path, "a", [done(0), done(1)])
    ledger = open_ledger(tmp_path, PLAN)
    assert [len(batch) for batch in ledger.batches(["turns"])] == [1, 1]
    assert [len(batch) for batch in ledger.batches(["index"])] == [2]


def test_a_run_gives_one_suite_s_rows_under_short_names(tmp_path):
    write_records(tmp_path, "a", [done(0), done(1)])
    ledger = open_ledger(tmp_path, PLAN)
    run = RunData.of_ledger(PLAN, ledger, {"suite": {}}, [{"id": "1"}])
    part = run.of("kumo")
    assert part.episodes(["index", "tests"]).to_pylist() == [{"index": 0, "tests": 2}, {"index": 1, "tests": 2}]
    assert run.of("go").episodes(["index"]).num_rows == 0 and run.of("go").plan.num_rows == 0
    assert (part.settings, part.sessions, part.parts) == (run.settings, run.sessions, ledger.names)
    assert "turns" not in part.episodes().column_names
    assert run.episodes(["kumo.tests"])["kumo.tests"].to_pylist() == [2, 2]


def test_a_run_whose_rows_were_all_not_played_has_the_columns_all_the_same(tmp_path):
    run = RunData.of_ledger(PLAN, open_ledger(tmp_path, PLAN), {}, [])
    assert run.of("kumo").episodes(["success", "cut_off"]).column_names == ["success", "cut_off"]


def test_every_column_is_described():
    def described(columns):
        for column in columns.values():
            assert isinstance(column, Column) and column.help.endswith(".")

    for row in ("PartRow", "MessageRow", "LabelRow", "TurnRow", "EpisodeRow"):
        described(columns_of(getattr(__import__("evals.ledger.columns", fromlist=[row]), row)))


def merged_part(run_dir, name, parts, replaces=None):
    """A part with the rows of ``parts`` that says it replaces ``replaces``."""
    tables = [pq.read_table(path) for path in parts]
    path = run_dir / "episodes" / f"{name}.parquet"
    path.write_bytes(write_part(tables, tables[0].schema, replaces or [part.name for part in parts]))
    return path


def flip_a_byte(path, column):
    """Damage the last page of a column."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    [chunk] = [each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == column]
    start = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[start + chunk.total_compressed_size - 2] ^= 255
    path.write_bytes(content)


def test_parts_are_ordered_by_number_not_by_name(tmp_path):
    late = write_records(tmp_path, "part-1000000-a", [done(0), done(9)])
    early = write_records(tmp_path, "part-999999-b", [done(1), done(8)])
    other = write_records(tmp_path, "part-x", [done(2), done(7)])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [2, 1, 0]
    assert [damage.path for damage in ledger.damage] == [other, early, late]


def test_several_merged_parts_each_hide_what_they_replace(tmp_path):
    one, two, five = (write_records(tmp_path, f"part-00000{n}-x", [done(n)]) for n in (1, 2, 5))
    merged_part(tmp_path, "part-000003-x", [two])
    write_records(tmp_path, "part-000004-x", [done(4)])
    merged_part(tmp_path, "part-000006-x", [one, five])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [2, 4, 1, 5] and ledger.damage == []
    assert set(ledger.replaced) == {one, two, five}


def test_a_ledger_is_opened_a_limited_number_of_times(tmp_path):
    calls = []

    def read():
        calls.append(1)
        raise LedgerChangedError("part-7")

    with pytest.raises(LedgerChangedError, match="part-7"):
        retry_until_stable(read)
    assert len(calls) == module.OPENINGS > 2

    def later():
        calls.append(1)
        if len(calls) < module.OPENINGS:
            raise LedgerChangedError
        return "read"

    calls.clear()
    assert retry_until_stable(later) == "read"


def test_a_part_that_is_damaged_is_described_with_its_path_and_cause(tmp_path):
    path = tmp_path / "part-000001-x.parquet"
    path.write_text("not Parquet")
    with pytest.raises(LedgerDamagedError) as raised:
        describe_part(path)
    [damage] = raised.value.damage
    assert damage.path == path and "Parquet" in damage.reason
    sound = write_records(tmp_path, "a", [done(0)])
    assert describe_part(sound).path == sound
    two = LedgerDamagedError([Damage(path, "torn"), Damage(sound, "flipped")])
    assert str(two).split("\n") == [f"  {path}: torn", f"  {sound}: flipped"]


def test_a_damaged_part_that_appears_meanwhile_is_left_to_the_next_reading(tmp_path, monkeypatch):
    write_records(tmp_path, "part-000001-x", [done(1)])
    real = module.read_fingerprint

    def read(path):
        (tmp_path / "episodes" / "part-000002-x.parquet").write_text("half")
        return real(path)

    monkeypatch.setattr(module, "read_fingerprint", read)
    assert numbers(open_ledger(tmp_path, PLAN)) == [1]


def test_a_column_that_is_not_asked_for_is_not_read(tmp_path):
    path = write_records(tmp_path, "a", [done(0), done(1)])
    flip_a_byte(path, "budget")
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0, 1]
    with pytest.raises(LedgerDamagedError) as raised:
        ledger.table(["budget"])
    assert [damage.path for damage in raised.value.damage] == [path] and "None" not in raised.value.damage[0].reason


def test_a_column_that_only_other_parts_have_is_null_for_each_row(tmp_path):
    write_records(tmp_path, "a", [a_record(index, Outcome(True, 1)) for index in (0, 1)], extra={})
    write_records(tmp_path, "b", [done(2)])
    table = open_ledger(tmp_path, PLAN).table(["kumo.tests"])
    assert table.to_pydict() == {"kumo.tests": [None, None, 2]} and table.schema.field(0).type == pa.int32()


def test_only_the_rows_that_count_are_given_of_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(of_parts, "ROWS_AT_ONCE", 1)
    write_attempt(tmp_path, "a", [done(0), done(1), failed(2), done(3), failed(4)], 1)
    write_attempt(tmp_path, "b", [done(2), done(4)], 2)
    assert numbers(open_ledger(tmp_path, PLAN)) == [0, 1, 3, 2, 4]


@pytest.mark.parametrize(
    ("number", "there", "changed"),
    [(errno.ESTALE, True, True), (errno.ENOENT, True, True), (errno.EIO, True, False), (errno.EIO, False, True)],
)
def test_a_part_that_was_removed_is_told_from_one_that_cannot_be_read(tmp_path, monkeypatch, number, there, changed):
    path = tmp_path / "part-000001-x.parquet"
    if there:
        path.write_text("x")

    def fail(*_, **__):
        raise OSError(number, "no luck")

    monkeypatch.setattr(pq, "ParquetFile", fail)
    with pytest.raises(LedgerChangedError if changed else LedgerDamagedError, match=path.name):
        describe_part(path)


def test_a_merged_part_is_compressed_and_keeps_checksums(tmp_path):
    path = merged_part(tmp_path, "part-000002-x", [write_records(tmp_path, "part-000001-x", [done(0)])])
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression.lower() == PARQUET_OPTIONS["compression"]
    flip_a_byte(path, "episode_id")
    assert [damage.path for damage in open_ledger(tmp_path, PLAN).damage] == [path]


def test_the_first_planned_episode_is_held_against_the_plan_too(tmp_path):
    path = write_records(tmp_path, "a", [done(0)])
    change(path, "seed", [5])
    [damage] = open_ledger(tmp_path, PLAN).damage
    assert an_episode(0).id in damage.reason and damage.reason.endswith("otherwise")


@pytest.mark.parametrize("metadata", [None, {}, {VERSION_KEY: b"\xff"}, {VERSION_KEY: b"-1"}])
def test_a_schema_without_a_readable_version_is_refused(metadata):
    with pytest.raises(ValueError, match="states no schema version"):
        check_version(metadata, {1: None})


def test_an_unknown_schema_version_is_named_with_those_that_can_be_read():
    with pytest.raises(ValueError, match=r"version 7.*reads 1, 2, 3"):
        check_version({VERSION_KEY: b"7"}, {2: None, 1: None, 3: None})


def test_episodes_are_found_by_id_with_their_turns_in_any_part_and_row_group(tmp_path):
    first = write_attempt(tmp_path, "part-000001-x", [failed(0), done(1)], 1)
    second = write_attempt(tmp_path, "part-000002-x", [done(0), done(4)], 2)
    third = write_attempt(tmp_path, "part-000003-x", [done(2), done(3)], 2)
    merged_part(tmp_path, "part-000004-x", [first, second, third])
    write_records(tmp_path, "part-000005-x", [a_record(5, Outcome(True, 1)), a_record(2, Outcome(True, 1))], extra={})
    ledger = open_ledger(tmp_path, PLAN)
    found = ledger.find([an_episode(index).id for index in (5, 0, 4, 3)])
    assert [(row["index"], row["attempt"], row["status"]) for row in found] == [
        (0, 2, "done"),
        (4, 2, "done"),
        (3, 2, "done"),
        (5, 1, "done"),
    ]
    assert [row["kumo.tests"] for row in found] == [2, 2, 2, None], "a column that a part lacks is null"
    assert [len(row["turns"]) for row in found] == [3, 3, 3, 3]
    assert {tuple(row) for row in found} == {tuple(ledger.schema.names)}
    assert ledger.find([]) == [] == ledger.find(["unknown"])


def test_a_part_that_is_damaged_where_an_episode_stands_is_named(tmp_path):
    path = write_records(tmp_path, "a", [done(0), done(1)])
    ledger = open_ledger(tmp_path, PLAN)
    flip_a_byte(path, "seconds")
    with pytest.raises(LedgerDamagedError) as raised:
        ledger.find([an_episode(1).id])
    assert [damage.path for damage in raised.value.damage] == [path]


# --- merged parts are believed only as far as they can be checked; parts of former drivers do not count ---


def with_metadata(path, **entries):
    """Forge a part's metadata, its rows left alone."""
    table = pq.read_table(path)
    forged = {f"raycade.{name}".encode(): text.encode() for name, text in entries.items()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **forged}), path)
    return path


def the_damage(run_dir, path):
    [damage] = [each for each in open_ledger(run_dir, PLAN).damage if each.path == path]
    return damage.reason


@pytest.mark.parametrize("state_digest", [True, False])
def test_a_part_that_claims_to_replace_rows_that_it_lacks_hides_none_of_them(tmp_path, state_digest):
    first = write_records(tmp_path, "part-000001-x", [done(0), done(1)])
    second = write_records(tmp_path, "part-000002-x", [done(2)])
    forged = merged_part(tmp_path, "part-000003-x", [second], replaces=[first.name, second.name])
    if not state_digest:
        with_metadata(forged, merged="", replaces=f'["{first.name}"]')
        table = pq.read_table(forged)
        kept = {key: value for key, value in table.schema.metadata.items() if key != of_parts.MERGED_KEY}
        pq.write_table(table.replace_schema_metadata(kept), forged)
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0, 1, 2] and ledger.replaced == ()
    assert f"replaces {first.name}, but lacks 2 of its rows" in the_damage(tmp_path, forged)


def test_a_merged_part_that_lost_rows_is_damaged_even_when_what_it_replaced_is_gone(tmp_path):
    old = write_records(tmp_path, "part-000001-x", [done(0), done(1), done(2)])
    merged = merged_part(tmp_path, "part-000002-x", [old])
    old.unlink()
    assert numbers(open_ledger(tmp_path, PLAN)) == [0, 1, 2]
    metadata = pq.ParquetFile(merged).metadata.metadata
    stated = {key: metadata[key] for key in (VERSION_KEY, of_parts.REPLACES_KEY, of_parts.MERGED_KEY)}
    # Every part with a lease is of a version that states the digest, so one without it was tampered with.
    unstated = {**stated, LEASE_KEY: b"1-x"}
    del unstated[of_parts.MERGED_KEY]
    whole = pq.read_table(merged)
    for rows, said in ((whole.slice(1), stated), (whole.take([0, 1, 1]), stated), (whole, unstated)):
        pq.write_table(rows.replace_schema_metadata(said), merged)
        assert "not those that it says" in the_damage(tmp_path, merged)


@pytest.mark.parametrize("claimed", ["part-000001-x.parquet", "part-000009-x.parquet"])
def test_a_part_replaces_neither_itself_nor_a_later_one(tmp_path, claimed):
    part = write_records(tmp_path, "part-000001-x", [done(0)])
    later = write_records(tmp_path, "part-000009-x", [done(1)])
    with_metadata(part, replaces=f'["{claimed}"]')
    assert numbers(open_ledger(tmp_path, PLAN)) == [1] and later.exists()
    assert "not older" in the_damage(tmp_path, part)


@pytest.mark.parametrize("text", ['{"a": 1}', "7", '["../plan.parquet"]', "[1]", "[" * 100_000, "x"])
def test_nonsense_in_the_list_of_replaced_parts_is_damage_of_that_part(tmp_path, text):
    part = with_metadata(write_records(tmp_path, "part-000001-x", [done(0)]), replaces=text)
    write_records(tmp_path, "part-000002-x", [done(1)])
    assert numbers(open_ledger(tmp_path, PLAN)) == [1] and the_damage(tmp_path, part)


def lease(run_dir, number, nonce="n", **content):
    (run_dir / f".lease-{number:06d}").write_text(json.dumps({"nonce": nonce, **content}))


def test_only_parts_that_the_newest_lease_lists_or_that_carry_it_count(tmp_path):
    names = [f"part-{number:06d}-x" for number in range(4)]
    marks = ["", "1-a", "1-a", "2-b"]  # of an older version, of the former holder in time and too late, of the holder
    parts = [
        with_metadata(write_records(tmp_path, name, [done(number)]), **({"lease": mark} if mark else {}))
        for number, (name, mark) in enumerate(zip(names, marks, strict=True))
    ]
    assert numbers(open_ledger(tmp_path, PLAN)) == [0, 1, 2, 3], "no lease: nobody has claimed the run"
    lease(tmp_path, 2, "b")
    assert numbers(open_ledger(tmp_path, PLAN)) == [0, 1, 2, 3], "a lease of an older version lists nothing"
    lease(tmp_path, 2, "b", parts=[path.name for path in parts[:2]])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0, 1, 3] and ledger.fenced == (parts[2],) and not ledger.damage
    assert ledger.names == {path.name for path in parts}
    (tmp_path / ".lease-000003").write_text("")  # being written: its holder has written nothing yet
    assert numbers(open_ledger(tmp_path, PLAN)) == [0, 1, 3]


def test_parts_that_count_are_listed_or_the_holder_s_or_damaged_and_the_highest_number_is_of_those_not_listed(tmp_path):
    """A damaged one, else, would be none of the new holder's, and no reader would speak of it."""
    marks = {1: "99-z", 2: "10-b", 3: "12-a", 4: "x-y", 5: f"{'9' * 16}-q", 6: "2-b"}
    for number, mark in marks.items():
        with_metadata(write_records(tmp_path, f"part-00000{number}-x", [done(number - 1)]), lease=mark)
    (tmp_path / "episodes" / "part-000007-x.parquet").write_bytes(b"no parquet")
    names = [f"part-00000{number}-x.parquet" for number in range(1, 8)]
    assert counted_parts(tmp_path) == (names, 99), "nobody has claimed the run"
    lease(tmp_path, 2, "b", parts=names)
    lease(tmp_path, 10, "b", parts=names[:1])
    (tmp_path / ".lease-000011").mkdir()
    (tmp_path / ".lease-x").write_text("{}")
    os.utime(tmp_path / ".lease-000002", (2e9, 2e9))  # number, not time: clocks of hosts differ
    assert [(each.number, each.mark) for each in find_leases(tmp_path)] == [(2, "2-b"), (10, "10-b")]
    assert counted_parts(tmp_path) == ([names[0], names[1], names[6]], 12)
    assert open_ledger(tmp_path, PLAN).fenced == tuple(tmp_path / "episodes" / name for name in names[2:6])


def test_a_late_merged_part_of_a_former_driver_hides_nothing(tmp_path):
    old = write_records(tmp_path, "part-000001-x", [done(0)])
    late = with_metadata(merged_part(tmp_path, "part-000002-x", [old]), lease="1-a")
    lease(tmp_path, 2, "b", parts=[old.name])
    ledger = open_ledger(tmp_path, PLAN)
    assert numbers(ledger) == [0] and ledger.fenced == (late,) and ledger.replaced == ()


def test_a_ledger_that_another_driver_claims_while_it_is_opened_is_opened_again(tmp_path, monkeypatch):
    part = with_metadata(write_records(tmp_path, "part-000001-x", [done(0)]), lease="1-a")
    lease(tmp_path, 1, "a", parts=[])
    real = module.read_fingerprint

    def read(path):
        lease(tmp_path, 2, "b", parts=[])
        return real(path)

    monkeypatch.setattr(module, "read_fingerprint", read)
    assert open_ledger(tmp_path, PLAN).fenced == (part,)
