"""The tables that every report has, from plans and ledgers in memory, and the files they are written to."""

import dataclasses
import json

import pyarrow as pa

from cluster.commands.report import Results, coverage, sessions_table, summarize, write_results
from cluster.storage.stored_run import Run
from evals.ledger.run_data import RunData
from evals.summary.failures import causes_of
from evals.tables import Table


def run(plan: list[tuple], ledger: list[tuple], sessions=()) -> RunData:
    """``plan``: player, suite; ``ledger``: player, suite, status, error, session, success."""
    planned = pa.table(dict(zip(("player", "suite"), map(list, zip(*plan, strict=True)), strict=True)))
    names = ("player", "suite", "status", "error", "session", "success", "episode_id", "error_kind")
    kinds = [pa.bool_() if name == "success" else pa.string() for name in names]
    rows = [(*row, f"e{LEDGER.index(row)}", "engine" if row[3] else "") for row in ledger]
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)]
    table = pa.table(columns, names=list(names))
    for name, number in (("prompt_tokens", 100), ("completion_tokens", 10), ("reasoning_tokens", 0)):
        table = table.append_column(name, pa.array([number] * len(rows), pa.int64()))
    table = table.append_column("cost", pa.array([0.25] * len(rows), pa.float64()))
    made = RunData.of_tables(planned, table)
    return dataclasses.replace(made, sessions=sessions)


def done(player: str, suite: str = "kumo", session: str = "s1", success: bool = True) -> tuple:
    return player, suite, "done", "", session, success


def failed(player: str, error: str, suite: str = "kumo", session: str = "s1") -> tuple:
    return player, suite, "failed", error, session, None


def failure(cause: str, *episodes: str) -> dict:
    found = {"player": "zeta", "suite": "kumo", "cause": cause, "kind": "engine"}
    return {**found, "count": len(episodes), "episodes": list(episodes)}


PLAN = [("zeta", "kumo")] * 5 + [("alpha", "kumo")] * 4 + [("zeta", "kidgym")] * 3
LEDGER = [
    done("zeta"),
    failed("zeta", "PromptTooLong: by 3: or more"),
    done("alpha", success=False),
    failed("zeta", "EngineKilled: one"),
    failed("zeta", "EngineKilled: two"),
    done("alpha", session="s2"),
    done("zeta", "kidgym", session="s2", success=False),
]


def test_episodes_are_counted_by_player_and_suite():
    table = coverage(run(PLAN, LEDGER))
    assert table.rows == (
        ("zeta", "kumo", 5, 1, 3, 1),
        ("alpha", "kumo", 4, 2, 0, 2),
        ("zeta", "kidgym", 3, 1, 0, 2),
    )
    assert table.name == "coverage"
    assert table.columns == ("player", "suite", "planned", "done", "failed", "missing")


def test_players_keep_the_order_of_the_plan_however_large_it_is():
    players = [f"player {7 * number % 40}" for number in range(40)]
    plan = pa.concat_tables(
        pa.table({"player": pa.repeat(player, 40_000), "suite": pa.repeat("kumo", 40_000)}) for player in players
    )
    table = coverage(dataclasses.replace(run(PLAN, LEDGER), plan=plan))
    assert [row[:3] for row in table.rows] == [(player, "kumo", 40_000) for player in players]


def test_batches_add_up():
    whole = run(PLAN, LEDGER)
    halves = [run(PLAN, LEDGER[:4]), run(PLAN, LEDGER[4:])]

    def read(columns):
        assert columns, "only what is needed is read: a ledger may be larger than memory"
        return (batch for half in halves for batch in half._read(columns))

    split = dataclasses.replace(whole, _read=read)
    assert coverage(split) == coverage(whole)
    assert summarize(split, [], {}) == summarize(whole, [], {})
    assert causes_of(split) == causes_of(whole)
    sessions = ({"id": "s1"}, {"id": "s2"})
    both = [dataclasses.replace(each, sessions=sessions) for each in (split, whole)]
    assert sessions_table(both[0]) == sessions_table(both[1])
    assert len(sessions_table(both[0]).rows) == 2


def test_the_summary_counts_rows_and_holds_the_tables():
    table = Table("t", "T", ("a",), ((1,),))
    made = run(PLAN, LEDGER)
    assert summarize(made, [table], causes_of(made)) == {
        "planned": 12,
        "done": 4,
        "failed": 3,
        "missing": 5,
        "prompt_tokens": 700,
        "completion_tokens": 70,
        "cost": 1.75,
        "failures": [
            failure("EngineKilled: one", "e3"),
            failure("EngineKilled: two", "e4"),
            failure("PromptTooLong: by 3: or more", "e1"),
        ],
        "tables": [table.to_json()],
    }


def test_one_session_needs_no_table():
    assert sessions_table(run(PLAN, LEDGER)) is None
    assert sessions_table(run(PLAN, LEDGER, [{"id": "s1"}])) is None


def test_sessions_are_shown_with_what_they_played_and_with():
    sessions = [
        {"id": "s1", "began": "monday", "git_commit": "abc", "vllm": "1", "torch": "2"},
        {"id": "s2", "began": "tuesday"},
        {"id": "s3"},
    ]
    table = sessions_table(run(PLAN, LEDGER, sessions))
    assert table.rows == (
        ("s1", "monday", "abc", "1", "2", 5, 0.2),
        ("s2", "tuesday", None, None, None, 2, 0.5),
        ("s3", None, None, None, None, 0, None),
    )
    assert (table.name, table.section) == ("sessions", "performance") and table.title
    assert table.columns == ("session", "began", "git commit", "vllm", "torch", "episodes", "success")
    assert len(table.notes) == 1


def test_results_are_written_whole_and_again(tmp_path):
    table = Table("größe", "Größe", ("länge",), ((1,),))
    results = Results([table], {"planned": 1, "names": ["ü"]}, frozenset())
    for _ in range(2):
        write_results(Run(tmp_path), results)
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "tables").iterdir()}
    assert files.keys() == {"größe.csv", "größe.md", "größe.json"}
    assert files["größe.csv"] == table.to_csv() and files["größe.md"] == table.to_markdown()
    assert json.loads(files["größe.json"])
    summary = (tmp_path / "summary.json").read_text(encoding="utf-8")
    assert summary == '{\n  "planned": 1,\n  "names": [\n    "ü"\n  ]\n}\n'
