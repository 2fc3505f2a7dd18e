"""What the ledger says of odd rows, parts, leases and plans, as on record in ``tests/golden``."""

import dataclasses
import errno
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq

from evals.conversation import PlayedTurn, Record, cause_of
from evals.ledger import parts
from evals.ledger.check import CHECKED, MOST, MOST_ATTEMPTS, check_rows
from evals.ledger.columns import COLUMNS, METADATA, VERSION_KEY, check_version, ledger_schema
from evals.ledger.lease import Fence, Lease, _number_of, counted_parts, find_leases, read_fence, read_mark
from evals.ledger.ledger import open_ledger
from evals.ledger.records import (
    PLAN_SCHEMA,
    chat_of,
    check_plan,
    plan_from_table,
    plan_to_table,
    records_to_table,
    shared,
)
from evals.ledger.run_data import RunData, count_rows, rows_by, stored_names
from evals.ledger.sound_rows import checked_rows, sound_rows
from evals.types import Episode, LabelScores, Outcome, Reply, Turn, message
from tests.evals.test_records import EXTRA, Patch, a_record, an_episode, done
from tests.golden import plain
from tests.said import Said


def in_short(table, names=None):
    """Rows of a table, each as its values by name."""
    for row in table.to_pylist():
        yield json.dumps({name: row[name] for name in names or row}, default=str)


def test_rows(capsys, caplog):
    said = Said(capsys)
    first = done(1)
    episode, turn = first.episode, first.turns[0]
    scored = PlayedTurn(
        Turn(episode, 0, (message("user", "A or B?", Patch((4, 5, 6))),), labels=("A", "B")),
        Reply("A", "refusal", label_scores=LabelScores((-0.5, -math.inf), 0.75, False, False)),
        "A",
        "label",
    )
    odd = {
        "failed": a_record(2, error="PlayerError: no"),
        "scored": dataclasses.replace(first, turns=(scored,)),
        "no turns": dataclasses.replace(first, turns=()),
        "another column": dataclasses.replace(first, outcome=Outcome(True, 1, extra={"none": 1, "more": 2})),
        "a column of text": dataclasses.replace(first, outcome=Outcome(True, 1, extra={"tests": "two"})),
        "seconds below 0": dataclasses.replace(first, seconds=-1.0),
        "a turn at fault": dataclasses.replace(first, turns=(dataclasses.replace(turn, action=5),)),
        "nan seconds": dataclasses.replace(first, seconds=math.nan),
        "an error of control characters": dataclasses.replace(first, outcome=Outcome(True, 1, extra={"\x1b[31m": 1})),
    }
    for name, record in odd.items():
        said(f"\n--- {name}")
        said.tried("checked", lambda record=record: len(checked_rows([record], EXTRA)))
        found = sound_rows([record], EXTRA)
        said(*in_short(found if name in ("failed", "scored") else found.drop_columns(["turns"])))
        said("turns", [len(turns) for turns in found["turns"].to_pylist()])
    found = sound_rows([odd["seconds below 0"], first, odd["failed"]], EXTRA)
    said("together", *in_short(found, ["index", "status", "error", "error_kind", "seconds"]))
    said("of none", sound_rows([], EXTRA).num_rows)
    said(*(f"{each.levelname} {each.getMessage()}\n" for each in caplog.records))
    [row] = records_to_table([first], EXTRA).to_pylist()
    for number in (0, 1, 2, -1, -3, -4, 9):
        said(number, [(each.role, plain(each.parts), each.reasoning) for each in chat_of(row["turns"], number)])
    one, two, three = (message("user", text) for text in "abc")
    for before, chat in (
        ((), (one,)),
        ((one,), (one, two)),
        ((one, two), (one, three, two)),
        ((one, two), (one,)),
        ((two,), (one,)),
    ):
        said(shared(before, chat))
    for error in (ValueError("x" * 2001), ValueError("\ud800"), KeyError("k"), Exception()):
        said(ascii(cause_of(error))[-60:], len(cause_of(error)))
    for columns in ({"kumo.x": pa.int8()}, {"seed": pa.int8(), "index": pa.int8(), "y": pa.int8()}):
        said.tried(columns, lambda columns=columns: ledger_schema(columns).names[-2:])
    for stated in (None, b"", b"1", b"2", b"01", b"-1", b"\xff", "²".encode()):
        said.tried(stated, check_version, stated and {VERSION_KEY: stated}, {1: 0, 3: 0})
    said.check("ledger_rows", "evals")


def test_which_rows_count(capsys):
    said = Said(capsys)
    plan = [an_episode(number) for number in range(6)]
    [good] = records_to_table([done(0)], EXTRA).to_pylist()
    base = {name: good[name] for name in CHECKED}

    def row(number, **changes):
        return {**base, "index": number, "episode_id": an_episode(number).id, **changes}

    lots = [
        [row(0), row(1, attempt=2), row(1), row(2, status="failed", error="x", success=None, score=None, steps=None)],
        [row(1, attempt=2), row(1, attempt=3), row(0, seed=1), row(7), row(3, episode_id=None)],
        [],
        [
            *(row(3, attempt=attempt) for attempt in (None, 0, 1, MOST_ATTEMPTS, MOST_ATTEMPTS + 1)),
            *(row(4, status=status) for status in ("Done", None)),
            *(row(4, status="failed", error=error) for error in ("", None)),
            row(4, success=None),
            *(row(5, cost=value) for value in (-0.1, math.nan, math.inf, float(MOST + 2))),
            *(row(5, score=value) for value in (1.0, 1.1, None)),
            *(row(5, prompt_tokens=value, attempt=7) for value in (MOST, MOST + 1, -1, None)),
            *(row(4, attempt=9, **{name: value}) for name, value in (("suite", "x"), ("player", None), ("repeat", 0))),
        ],
    ]
    kinds = {name: column.type for name, column in COLUMNS.items() if name in base}
    tables = [
        pa.table({name: pa.array([each[name] for each in rows], kind) for name, kind in kinds.items()}) for rows in lots
    ]
    ids = {each.id: f"episode {number}" for number, each in enumerate([*plan, an_episode(6), an_episode(7)])}
    for known in (plan_to_table(plan), None):
        found = check_rows(tables, ["one", "two", "none", "three"], known)
        said(found.rows, "sound", found.sound.astype(int), "latest", found.latest.astype(int))
        for part, reason in found.problems:
            for name, short in ids.items():
                reason = reason.replace(f"episode {name}", short)
            said(part, reason)
    said(check_rows([], [], None).columns.num_rows)
    said.check("ledger_counts", "evals")


def test_leases(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    (tmp_path / "episodes").mkdir()

    def look(what):
        found = said.tried(what, lambda: [(each.mark, sorted(each.inherited or "-")) for each in find_leases(tmp_path)])
        if isinstance(found, list):
            said("fence", read_fence(tmp_path).mark, counted_parts(tmp_path))

    def part(name, lease):
        content = parts.write_part([records_to_table([done(0)], EXTRA)], ledger_schema(EXTRA), lease=lease)
        (tmp_path / "episodes" / name).write_bytes(content)

    look("nothing")
    for name, lease in (
        ("part-000001-a.parquet", ""),
        ("part-000002-b.parquet", "2-n"),
        ("part-000003-c.parquet", "12-m"),
    ):
        part(name, lease)
        said(name, read_mark(tmp_path / "episodes" / name))
    (tmp_path / "episodes/part-000004-d.parquet").write_text("damaged")
    look("parts without a lease")
    for number, text in (
        (1, '{"nonce": "o"}'),
        (2, '{"nonce": "n", "parts": ["part-000001-a.parquet", "part-000003-c.parquet"]}'),
    ):
        (tmp_path / f".lease-{number}").write_text(text)
        look(f"lease {number}")
    for number, text in ((3, ""), (4, "[1]"), (5, '{"parts": "no list"}'), (10, '{"nonce": 7, "parts": []}')):
        (tmp_path / f".lease-{number}").write_text(text)
        look(f"lease {number}")
    (tmp_path / ".lease-x1").write_text("{}")
    (tmp_path / ".lease-11").mkdir()
    look("others")
    monkeypatch.setattr("evals.ledger.lease.MOST_BYTES", 10)
    look("too large")
    monkeypatch.undo()
    for digits in ("9" * 14, "9" * 15, "1" * 16):
        path = tmp_path / f".lease-{digits}"
        path.write_text("{}")
        said.tried(digits, lambda: find_leases(tmp_path)[-1].number)
        path.unlink()
    for mark in ("3-n", "-n", "", "x-3", "03", "1" * 15 + "-n", "1" * 16 + "-n", "²-n"):
        said(mark, _number_of(mark))
    for content in ({}, {"nonce": "n"}, {"nonce": "n", "parts": ["a", 1]}):
        fence = Fence(Lease(tmp_path, 2, content, 0.0))
        said(content, [fence.admits(name, mark) for name in ("a", "1", "b") for mark in ("", "2-n", "2-")])
    said(Fence(None).mark == "", Fence(None).admits("a", "b"))
    for name in (
        "part-000002-x",
        "part-2",
        "part-10-y",
        "part-",
        "other-3",
        "part-" + "1" * 15,
        "part-" + "1" * 16,
        "part-1x",
    ):
        said(parts.part_order(tmp_path / f"{name}.parquet"))
    said.check("leases", "evals")


def test_a_ledger_and_its_run(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    folder = tmp_path / "episodes"
    folder.mkdir()
    other = {**EXTRA, "other.x": pa.int64()}
    episodes = [an_episode(number) for number in range(5)] + [an_episode(9, suite="other", player="big")]
    ids = {each.id: f"E{each.index}" for each in episodes}

    def told(*words):
        text = " ".join(map(str, words))
        for name, short in ids.items():
            text = text.replace(name, short)
        said(text)

    def write(number, records, columns, attempt=1, **more):
        table = records_to_table(records, columns)
        place = table.column_names.index("attempt")
        table = table.set_column(place, table.schema.field(place), pa.array([attempt] * len(table), pa.int32()))
        (folder / f"part-{number:06}-x.parquet").write_bytes(
            parts.write_part([table.slice(0, 1), table.slice(1)], table.schema, **more)
        )

    failed = [dataclasses.replace(a_record(number, error="PlayerError: no"), turns=()) for number in (0, 1)]
    write(1, [*failed, done(2)], EXTRA)
    of_other = Record(episodes[-1], Outcome(False, 2, 0.5, {"x": 7}), "", (), 2.5)
    write(2, [done(1), of_other], other, 2)
    write(3, [done(3)], EXTRA)
    (folder / "part-000004-x.parquet").write_text("damaged")
    pq.write_table(pa.table({"a": [1]}), folder / "part-000005-x.parquet")
    short = pa.table({"episode_id": ["a"]}).replace_schema_metadata(METADATA)
    pq.write_table(short, folder / "part-000006-x.parquet")
    wrong = records_to_table([done(4)], EXTRA)
    place = wrong.column_names.index("seed")
    wrong = wrong.set_column(place, "seed", wrong["seed"].cast(pa.uint64()))
    pq.write_table(wrong.replace_schema_metadata(METADATA), folder / "part-000007-x.parquet")
    plan = plan_to_table(episodes[:3] + episodes[4:])
    ledger = open_ledger(tmp_path, plan)
    told(len(ledger), sorted(ledger.names), ledger.schema.names[-4:], [part.path.name for part in ledger.parts])
    for each in ledger.damage:
        told(each.path.name, each.reason)
    names = ["episode_id", "attempt", "status", "other.x", "kumo.tests"]
    for every in (False, True):
        for table in ledger.batches(names, every):
            told(*in_short(table))
    told(*in_short(ledger.table(["steps", "none", "turns.finish"])))
    told(ledger.empty(["turns.rule", "turns.action"]).schema, ledger.empty(["turns.rule", "turns"]).schema.names)
    told(
        [(row["episode_id"], row["attempt"], len(row["turns"]), row["other.x"]) for row in ledger.find([*ids, "none"])]
    )
    told(ledger.find([]))
    monkeypatch.setattr(parts, "ROWS_WITH_TURNS_AT_ONCE", 1)
    told([len(table) for table in ledger.batches(["turns"], True)])
    for path in sorted(folder.iterdir()):
        try:
            said(path.name, parts.describe_part(path).replaces, parts.is_merged(path))
        except parts.LedgerDamagedError as error:
            said(error, [each.path.name for each in error.damage], parts.is_merged(path))
    (folder / "link.parquet").symlink_to(folder / "nowhere")
    for error, path in (
        (OSError("no"), folder / "link.parquet"),
        (ValueError(" a \n b"), folder),
        (KeyError(), folder),
    ):
        told(parts.damage_of(path, error).reason)
    said.tried("gone", parts.damage_of, folder / "none", OSError("no"))
    numbers = (
        errno.EACCES,
        errno.EPERM,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.EIO,
        errno.EISDIR,
    )
    causes = [OSError(number, "x") for number in numbers]
    causes += [
        MemoryError(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
    ]
    causes += [pa.ArrowInvalid("thread: Resource temporarily unavailable"), ValueError("x")]
    said(
        "hindered",
        *(f"{type(each).__name__} {getattr(each, 'errno', '')}: {parts.hindered(each)}\n" for each in causes),
    )
    for stated in (b"[]", b'["part-000001-x.parquet"]', b'["a/b"]', b'"a"', b"[1]", b"{"):
        said.tried(stated, parts._listed_names, stated)
    digest = parts.RowDigest()
    said(digest.stated())
    for rows in ([("a", 1), ("b", None)], [], [(None, 3)]):
        digest.add(
            pa.table(
                {
                    "episode_id": pa.array([each[0] for each in rows], pa.string()),
                    "attempt": pa.array([each[1] for each in rows], pa.int32()),
                }
            )
        )
        said(digest.stated())

    run = RunData.of_ledger(plan, ledger, {"a": 1}, [{"id": "s"}], 1.5)
    memory = RunData.of_tables(plan, ledger.table([*names, "suite", "turns"]), {"b": 2})
    for data in (run, memory):
        told(data.settings, data.sessions, data.spent, sorted(data.parts), len(data.plan))
        for suite in ("", "kumo", "other", "none"):
            part = data.of(suite) if suite else data
            told(suite, len(part.plan), [(table.column_names, len(table)) for table in part.batches()])
            told(suite, *in_short(part.episodes(["attempt", "tests", "x", "other.x"])))
            told(suite, [(table.column_names, len(table)) for table in part.batches(["turns.finish", "suite"])])
        told([row["episode_id"] for row in data.find([episodes[1].id, "none"])])
        less = data.without([episodes[1].id, episodes[2].id])
        told(len(less.plan), *in_short(less.episodes(["attempt"])), less.episodes().num_rows)
        again = data.renamed(plan.slice(1), lambda table: table.slice(1))
        told(len(again.plan), *in_short(again.episodes(["attempt"])))
    table = pa.table({"a": ["y", "x", "y", None, "x"], "b": [1, 1, 1, 2, 3]})
    said({key: places.tolist() for key, places in rows_by(table, ["a"]).items()}, count_rows(table, ["a", "b"]))
    said(sorted(stored_names(["turns.a", "a.turns", "b"])))
    said.check("ledger", "evals")


def test_plans(capsys):
    said = Said(capsys)
    episodes = [Episode("s", "t", "l", "m", number, 1, 5, "f", 3, 1.5, 20.0, "g", "p") for number in range(3)]
    plan = plan_to_table(episodes)
    said(*in_short(plan))
    said(
        plan_from_table(plan) == episodes, [each.id for each in plan_from_table(plan)] == [each.id for each in episodes]
    )

    def changed(name, values):
        return plan.set_column(
            plan.column_names.index(name), PLAN_SCHEMA.field(name), pa.array(values, PLAN_SCHEMA.field(name).type)
        )

    own = pa.array([f"{number:032}" for number in range(3)])
    for what, table in {
        "as it was": plan,
        "none": plan.slice(0, 0),
        "another budget, of no account": changed("budget", [3, 4, 5]),
        "the last has another seed": changed("seed", [5, 5, 6]),
        "the first has another seed": changed("seed", [6, 5, 5]),
        "other ids": plan.set_column(0, "episode_id", own),
        "twice": pa.concat_tables([plan, plan.slice(2)]),
        "in another order": plan.take([2, 0, 1]),
        "no version": plan.replace_schema_metadata(None),
        "another version": plan.replace_schema_metadata({VERSION_KEY: b"2"}),
        "without columns": plan.drop_columns(["seed", "group"]),
        "with a column more": plan.append_column("more", own),
        "columns in another order": plan.select([*reversed(plan.column_names)]),
    }.items():
        said.tried(what, check_plan, table)
        said.tried(
            "read", lambda table=table: [(each.index, each.budget, each.seed) for each in plan_from_table(table)]
        )
    said.check("plans", "evals")
