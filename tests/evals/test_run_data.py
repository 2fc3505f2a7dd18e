"""A run reads only the columns that it is asked for, one suite's under short names, and says where they come from."""

import pyarrow as pa

from evals.ledger.run_data import RunData, count_rows

PLAN = pa.table({"suite": ["a", "b", "a"], "index": [0, 0, 1]})
ROWS = pa.table(
    {
        "suite": ["a", "b", "a"],
        "index": [0, 5, 1],
        "turns": [["x"], ["y"], ["z"]],
        "a.points": [1, None, 2],
        "b.points": [None, 7, None],
        "b.index": [None, 8, None],
    }
)
PARTS = (ROWS.slice(0, 1), ROWS.slice(1))


class FakeLedger:
    """Rows in two parts; remembers which columns were read."""

    names = frozenset({"part-1", "part-2"})
    schema = ROWS.schema

    def __init__(self, parts=PARTS):
        self.parts, self.asked = parts, []

    def _wanted(self, columns):
        return [name for name in ROWS.column_names if (name != "turns" if columns is None else name in columns)]

    def find(self, ids):
        return [row for row in ROWS.to_pylist() if row["episode_id"] in ids]

    def empty(self, columns):
        return ROWS.select(self._wanted(columns)).slice(0, 0)

    def table(self, columns):
        return pa.concat_tables([self.empty(columns), *self.batches(columns)])

    def batches(self, columns):
        self.asked.append(columns)
        yield from (part.select(self._wanted(columns)) for part in self.parts)


def a_run(ledger):
    return RunData.of_ledger(PLAN, ledger, {"suite": "a and b"}, [{"id": "1"}])


def test_a_run_says_where_it_comes_from_and_so_do_its_suites_parts():
    run = a_run(FakeLedger())
    for part in (run, run.of("a")):
        assert (part.settings, part.sessions) == ({"suite": "a and b"}, [{"id": "1"}])
        assert part.parts == {"part-1", "part-2"}
    assert run.plan is PLAN and run.of("a").plan.to_pylist() == [{"suite": "a", "index": n} for n in (0, 1)]


def test_only_the_columns_asked_for_are_read_and_each_of_them_once():
    ledger = FakeLedger()
    run = a_run(ledger)
    for _ in range(3):
        assert run.of("a").episodes(["points"]).to_pylist() == [{"points": 1}, {"points": 2}]
        assert run.episodes(["index"])["index"].to_pylist() == [0, 5, 1]
    assert [set(columns) for columns in ledger.asked] == [{"a.points", "suite"}, {"index"}]
    run.episodes()
    assert ledger.asked[2:] == [["b.points", "b.index"]], "what is known is not read again"


def test_turns_come_a_part_at_a_time_and_are_not_kept():
    ledger = FakeLedger()
    run = a_run(ledger)
    for _ in range(2):
        batches = list(run.batches(["index", "turns"]))
        assert [len(batch) for batch in batches] == [0, 1, 2]
        assert {tuple(batch.column_names) for batch in batches} == {("index", "turns")}
    assert len(ledger.asked) == 2


def test_rows_come_some_at_a_time_and_columns_even_without_rows(monkeypatch):
    monkeypatch.setattr("evals.ledger.run_data.ROWS_AT_ONCE", 2)
    assert [len(batch) for batch in a_run(FakeLedger()).batches(["index"])] == [2, 1]
    assert a_run(FakeLedger(parts=())).of("a").episodes(["index", "points"]).column_names == ["index", "points"]


def test_a_suite_sees_common_columns_and_its_own_only():
    for run in (a_run(FakeLedger()), RunData.of_tables(PLAN, ROWS)):
        assert run.of("a").episodes().column_names == ["suite", "index", "points"]
        assert run.of("a").episodes().to_pylist() == [
            {"suite": "a", "index": 0, "points": 1},
            {"suite": "a", "index": 1, "points": 2},
        ]
        assert run.of("c").episodes(["index"]).num_rows == 0
        assert set(run.episodes().column_names) == set(ROWS.column_names) - {"turns"}


def test_turns_in_memory_come_only_when_asked_for():
    run = RunData.of_tables(PLAN, ROWS)
    assert run.episodes(["turns"]).to_pylist() == [{"turns": ["x"]}, {"turns": ["y"]}, {"turns": ["z"]}]
    assert run.of("b").episodes(["turns", "points"]).to_pylist() == [{"turns": ["y"], "points": 7}]
    assert run.episodes(["suite", "index"]).column_names == ["suite", "index"]
    assert [table.column_names for table in run._read(["index"])] == [["index", "suite"]]
    assert next(run._read([])).column_names == ["suite"]
    assert "turns" not in next(run._read(None)).column_names


def test_parts_of_different_columns_make_one_table():
    """A part written before a suite had a column, or by a run of another suite."""
    parts = (pa.table({"suite": ["a"], "a.points": [1]}), pa.table({"suite": ["a"], "a.rank": ["x"]}))
    run = RunData(PLAN, lambda columns: iter(parts)).of("a")
    assert run.episodes(["points", "rank"]).to_pylist() == [{"points": 1, "rank": None}, {"points": None, "rank": "x"}]


def test_rows_are_counted_by_their_values_in_the_order_of_first_occurrence():
    players = ["m", "oracle", "b", "m", "a", "oracle", "m"] * 700
    rows = pa.table({"player": players, "suite": ["toy"] * len(players), "other": [1] * len(players)})
    expected = [(("m", "toy"), 2100), (("oracle", "toy"), 1400), (("b", "toy"), 700), (("a", "toy"), 700)]
    assert list(count_rows(rows, ["player", "suite"]).items()) == expected
    parts = pa.concat_tables([rows.slice(0, 3), rows.slice(3)])
    assert list(count_rows(parts, ("player", "suite")).items()) == expected, "whatever its parts"
    assert count_rows(rows.slice(0, 0), ["player"]) == {}


def test_a_run_without_some_episodes_has_neither_planned_nor_played_them():
    table = pa.table({"episode_id": ["x", "y", "z"], "suite": ["a"] * 3, "steps": [1, 2, 3]})
    run = RunData(table.drop(["steps"]), lambda columns: iter([table])).without({"y"})
    assert run.plan["episode_id"].to_pylist() == ["x", "z"]
    assert run.of("a").episodes(["steps"])["steps"].to_pylist() == [1, 3]
