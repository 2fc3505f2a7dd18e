"""Parts of one plan joined: what may differ, what is missing, what contradicts."""

import dataclasses
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands import merge as merge_module
from cluster.commands.merge import _joined_spending, merge
from cluster.commands.report import score_run
from cluster.config.settings import load_settings
from cluster.engines.batch.store import Store
from cluster.engines.simulated import SimulatedEngine
from cluster.errors import UserError
from cluster.storage.provenance import read_versions, write_versions
from cluster.storage.run_directory import RunDirectory
from cluster.storage.shard import part_of
from cluster.storage.spending import MergedPart, Spending, SpendingJournal, read_spending
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.ledger.ledger import open_ledger
from evals.ledger.records import records_to_table
from evals.notes import NotesFile, new_note
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, play_episode
from tests.cluster.conftest import EASY, begin, settings_at
from tests.cluster.test_cli import run_here
from tests.evals.test_ledger import flip_a_byte

SMALL = [*EASY, "suite.tasks_per_domain=12", "suite.repeats=2"]


async def leave_run(
    run_dir: Path,
    *overrides: str,
    player: str = "oracle",
    commit: str = "same",
    failing: Sequence[str] = (),
    most: int | None = None,
    cutting: int = 0,
) -> Path:
    """Leave a run as `raycade run` would, played by the oracle in the model's name.

    ``failing`` are the first episodes' causes of failure; at most so many episodes are played, and in the first ``cutting``
    all replies but one are cut off.
    """
    settings = settings_at(run_dir, *SMALL, "model=simulated", *overrides)
    directory = begin(settings)
    directory.session = run_dir.name
    write_versions(settings.run_dir, [{"id": run_dir.name, "git_commit": commit}])
    records = []
    for episode in settings.plan[:most]:
        asked = dataclasses.replace(episode, player=player)
        record = await play_episode(settings.suite, asked, BUILT_IN_PLAYERS[player])
        records.append(dataclasses.replace(record, episode=episode))
    for number in range(cutting):
        for played in records[number].turns[1:]:
            played.reply = dataclasses.replace(played.reply, finish="length")
    for number, cause in enumerate(failing):
        records[number] = Record(records[number].episode, None, cause, (), 1.0, "model")
    directory.commit(records_to_table(records, ledger_columns(settings.suite)))
    directory.release()
    return settings.run_dir


@pytest.fixture
def play(tmp_path):
    """Leaves a run below the test's folder; see ``leave_run``."""
    return lambda name, *overrides, **more: leave_run(tmp_path / name, *overrides, **more)


def counts(run_dir):
    summary = score_run(Run(run_dir)).summary
    return tuple(summary[name] for name in ("planned", "done", "missing"))


@pytest.mark.slow
async def test_missing_parts_are_named_and_counted_and_may_come_later(play, tmp_path):
    one, two, three = [await play(str(part), f"shard={part}/3") for part in (1, 2, 3)]
    target = tmp_path / "whole"
    joined = merge(target, [one, two])
    rows = joined.rows
    assert (joined.planned, rows < 24) == (24, True)
    assert joined.warnings == ("missing: shard=3/3; merge into the same target when there",)
    assert counts(target) == (24, rows, 24 - rows)
    assert merge(target, [three]).warnings == ()
    assert counts(target) == (24, 24, 0)
    assert merge(target, [one, two, three]).rows == 24
    assert len(Run(target).episodes()) == 24
    assert len(list((target / "episodes").iterdir())) == 1, "parts are merged"


@pytest.mark.slow
async def test_the_whole_is_the_run_directory_of_the_unsharded_command(play, tmp_path):
    target = tmp_path / "whole"
    merge(target, [await play("1", "shard=1/2")])
    settings = load_settings([*SMALL, "model=simulated", f"run_dir={target}"])
    RunDirectory(target).check_plan(settings.plan)
    config, whole = Run(target).config, yaml.safe_load(settings.config)
    assert config == whole and list(config) == list(whole)
    assert Run(target).plan == list(settings.plan)


@pytest.mark.slow
async def test_a_run_that_was_not_sharded_is_whole_by_itself(play, tmp_path):
    joined = merge(tmp_path / "whole", [await play("1")])
    assert (joined.planned, joined.rows, joined.warnings) == (24, 24, ())


@pytest.mark.slow
async def test_parts_played_without_an_engine_are_joined(play, tmp_path):
    parts = [await play(str(part), "model=oracle", f"shard={part}/2") for part in (1, 2)]
    assert merge(tmp_path / "whole", parts).warnings == ()
    assert counts(tmp_path / "whole") == (24, 24, 0)


async def test_a_part_without_an_episode_to_play_is_not_missing(play, tmp_path):
    few = ["suite.tasks_per_domain=3", "suite.repeats=1"]
    ids = [episode.id for episode in load_settings([*SMALL, *few, "model=simulated"]).plan]
    shards = sorted({part_of(name, 5) for name in ids})
    assert len(shards) < 5
    parts = [await play(str(part), *few, f"shard={part}/5") for part in shards]
    assert merge(tmp_path / "whole", parts).warnings == ()


@pytest.mark.slow
async def test_a_part_that_has_not_played_anything_yet_is_not_missing(play, tmp_path):
    begun, two = await play("1", "shard=1/3", most=0), await play("2", "shard=2/3")
    [warning] = merge(tmp_path / "whole", [begun, two]).warnings
    assert "shard=3/3" in warning and "shard=1/3" not in warning


@pytest.mark.slow
async def test_the_target_may_be_named_as_a_source_too(play, tmp_path):
    one, two, target = await play("1", "shard=1/2"), await play("2", "shard=2/2"), tmp_path / "whole"
    merge(target, [one])
    (tmp_path / "link").symlink_to(target)
    assert merge(target, [tmp_path / "link", two]).rows == 24
    assert counts(target) == (24, 24, 0)


@pytest.mark.slow
async def test_what_a_killed_merge_left_behind_is_removed(play, tmp_path, monkeypatch):
    one, two, target = await play("1", "shard=1/2"), await play("2", "shard=2/2"), tmp_path / "whole"
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "remove_replaced", lambda *_: None)
        merge(target, [one, two])
    assert len(list((target / "episodes").iterdir())) == 3
    assert merge(target, [two]).rows == 24
    assert len(list((target / "episodes").iterdir())) == 1
    assert counts(target) == (24, 24, 0)


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
async def test_two_merges_at_once_into_one_target_lose_and_double_nothing(play, tmp_path, monkeypatch, begun):
    one, two, target = await play("1", "shard=1/2"), await play("2", "shard=2/2"), tmp_path / "whole"
    if begun:
        merge(target, [one])
    claim = RunDirectory.claim

    def other_first(self):
        monkeypatch.setattr(RunDirectory, "claim", claim)
        merge(target, [two])  # ends when this one has read the target and not begun to write
        claim(self)

    monkeypatch.setattr(RunDirectory, "claim", other_first)
    assert merge(target, [one, two]).rows == 24
    assert counts(target) == (24, 24, 0)
    assert [session["id"] for session in read_versions(target)] == (["1", "2"] if begun else ["2", "1"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "override", ["model.sampling.max_tokens=7", "model.engine.tail=2.0", "decoding=free", "suite.repeats=1"]
)
async def test_parts_that_differ_in_what_decides_the_answers_are_refused(play, tmp_path, override):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2", override)
    with pytest.raises(UserError, match=f"differ in {override.partition('=')[0]}$"):
        merge(tmp_path / "whole", [one, two])
    assert not (tmp_path / "whole").exists()


@pytest.mark.slow
async def test_the_versions_of_all_parts_are_carried_over_each_once(play, tmp_path):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2")
    for sources in ([one], [two], [one, two]):
        merge(tmp_path / "whole", sources)
    assert [session["id"] for session in read_versions(tmp_path / "whole")] == ["1", "2"]
    rows = Run(tmp_path / "whole").episodes(["episode_id", "session"]).to_pylist()
    theirs = {name: {episode.id for episode in Run(run).plan} for name, run in (("1", one), ("2", two))}
    assert all(row["episode_id"] in theirs[row["session"]] for row in rows)


async def test_parts_that_were_played_with_different_versions_are_joined_with_a_warning(play, tmp_path):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2", commit="other")
    [warning] = merge(tmp_path / "whole", [one, two]).warnings
    assert "git_commit other, same" in warning


@pytest.mark.slow
async def test_where_the_whole_is_not_known_the_plan_grows_with_each_part(play, tmp_path):
    parts = [await play(str(part), f"shard={part}/3") for part in (1, 2, 3)]
    for part in parts:  # a folder that is not on this machine
        config = Run(part).config
        config["suite"]["domains"] = ["/nowhere/mine.yaml"]
        (part / "config.yaml").write_text(yaml.safe_dump(config))
    joined = merge(tmp_path / "whole", parts[1:])
    assert joined.planned == joined.rows < 24
    assert "missing: shard=1/3" in joined.warnings[0] and "cannot be planned here" in joined.warnings[1]
    assert merge(tmp_path / "whole", parts[:1]).warnings == ()
    assert len(Run(tmp_path / "whole").plan) == 24


async def test_where_the_settings_now_plan_other_episodes_the_plan_is_what_was_played(play, tmp_path):
    parts = [await play(str(part), f"shard={part}/3") for part in (1, 2)]
    for part in parts:
        config = Run(part).config
        config["suite"]["tasks_per_domain"] = 6  # as if this version of raycade understood it so
        (part / "config.yaml").write_text(yaml.safe_dump(config))
    joined = merge(tmp_path / "whole", parts)
    assert 12 < joined.planned == joined.rows < 24
    assert "shard=3/3" in joined.warnings[0] and len(joined.warnings) == 2
    assert {episode.id for run in parts for episode in Run(run).plan} == {
        episode.id for episode in Run(tmp_path / "whole").plan
    }


async def test_contradicting_rows_are_refused_and_the_target_stays(play, tmp_path):
    one, other = await play("1", "shard=1/2"), await play("other", "shard=1/2", player="random")
    merge(tmp_path / "whole", [one])
    before = sorted(path.name for path in (tmp_path / "whole" / "episodes").iterdir())
    with pytest.raises(UserError, match=rf"{tmp_path}/whole and {other} disagree on episode"):
        merge(tmp_path / "whole", [other])
    assert sorted(path.name for path in (tmp_path / "whole" / "episodes").iterdir()) == before


@pytest.mark.parametrize("without", ["one", "other"])
async def test_a_column_that_one_run_lacks_is_a_contradiction_where_the_other_says_something(play, tmp_path, without):
    runs = {name: await play(name, "shard=1/2") for name in ("one", "other")}
    [part] = (runs[without] / "episodes").iterdir()
    table = pq.read_table(part)
    extra = next(name for name in table.column_names if name.startswith("kumo."))
    pq.write_table(table.drop_columns(extra), part)
    with pytest.raises(UserError, match=rf"disagree on episode .*{extra} "):
        merge(tmp_path / "whole", list(runs.values()))
    for run in runs.values():  # nobody says anything: no contradiction
        [part] = (run / "episodes").iterdir()
        table = pq.read_table(part)
        if extra in table.column_names:
            place = table.column_names.index(extra)
            table = table.set_column(place, extra, pa.nulls(len(table), table[extra].type))
            pq.write_table(table, part)
    assert merge(tmp_path / "whole", list(runs.values())).rows == len(table)


@pytest.mark.parametrize("twice", [False, True])
async def test_damage_that_only_reading_a_part_finds_is_named(play, tmp_path, twice):
    runs = [await play("one", "shard=1/2")] + [await play("other", "shard=1/2")] * twice
    [part] = (runs[-1] / "episodes").iterdir()
    flip_a_byte(part, "steps")
    with pytest.raises(UserError, match=str(part)):
        merge(tmp_path / "whole", runs)


async def test_a_part_is_no_target(play, tmp_path):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2")
    with pytest.raises(UserError, match="is itself a part"):
        merge(one, [two])
    shutil.rmtree(two)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and holds no run"):
        merge(two, [one])


async def test_the_command_warns_of_what_is_missing(play, tmp_path, capsys):
    one = await play("1", "shard=1/2")
    code, out, err = run_here(capsys, "merge", str(tmp_path / "whole"), str(one))
    assert code == 0 and "of 24 planned episodes" in out
    assert "warning: missing: shard=2/2" in err


@pytest.mark.slow
async def test_attempts_are_joined_each_once_and_the_latest_counts(play, tmp_path):
    one = await play("1", "shard=1/2", failing=("EngineKilled: first",))
    two, target = await play("2", "shard=2/2"), tmp_path / "whole"
    merge(target, [one, two])
    assert score_run(Run(target)).summary["failed"] == 1
    settings = load_settings([*SMALL, "model=simulated", f"run_dir={one}", "shard=1/2"])
    episode = settings.plan[0]
    directory = RunDirectory(one)
    directory.attempts = {episode.id: 1}
    directory.claim()
    record = await play_episode(
        settings.suite, dataclasses.replace(episode, player="oracle"), BUILT_IN_PLAYERS["oracle"]
    )
    record = dataclasses.replace(record, episode=episode)
    directory.commit(records_to_table([record], ledger_columns(settings.suite)))
    directory.release()
    joined = merge(target, [one, two])
    assert (joined.planned, joined.rows) == (24, 24)
    assert [score_run(Run(target)).summary[name] for name in ("done", "failed", "missing")] == [24, 0, 0]
    assert sorted(Run(target).episodes(["attempt"])["attempt"].to_pylist()) == [1] * 23 + [2]
    anew = tmp_path / "anew"  # earlier attempts are carried over too
    assert merge(anew, [one, two]).rows == 24
    for run in (target, anew):
        every = pa.concat_tables(open_ledger(run).batches(["attempt", "status"], every_attempt=True))
        assert sorted(every["attempt"].to_pylist()) == [1] * 24 + [2]
        assert every["status"].to_pylist().count("failed") == 1


async def test_runs_with_rows_of_another_plan_are_refused(play, tmp_path):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2")
    [foreign] = (two / "episodes").iterdir()
    shutil.copy(foreign, one / "episodes")
    for lease in one.glob(".lease-*"):
        lease.unlink()  # else no part counts that was not written under it
    with pytest.raises(UserError, match=foreign.name):
        merge(tmp_path / "whole", [one])
    assert not (tmp_path / "whole").exists()


def spend(run_dir, amount):
    """Note spending of a further session."""
    journal = SpendingJournal(run_dir)
    journal.note("engine", Spending(amount, 0.0, 0.1))
    journal.write()


@pytest.mark.parametrize("steps", [["a b c"], ["a", "b", "c", "a b"], ["nested a", "b c"]], ids=str)
async def test_spending_of_all_parts_is_joined_each_once(play, tmp_path, steps):
    for number, name in enumerate("abc"):
        spend(await play(name, f"shard={number + 1}/3"), 2.0**number)
    merge(tmp_path / "nested", [tmp_path / "a", tmp_path / "b"])
    target = tmp_path / "whole"
    for step in steps:
        merge(target, [tmp_path / name for name in step.split()])
    assert read_spending(target).total == pytest.approx(7.0) and read_spending(target).highest == 0.1
    assert Run(target).spent == pytest.approx(7.0)  # what the cost table shows and a cap starts from
    # the target plays on, and so does a part
    spend(target, 10.0)
    write_versions(tmp_path / "a", [*read_versions(tmp_path / "a"), {"id": "later"}])
    spend(tmp_path / "a", 0.5)
    for _ in range(2):
        merge(target, [tmp_path / "a", tmp_path / "nested"])
        assert read_spending(target).total == pytest.approx(17.5)


@pytest.mark.parametrize("metered", [True, False])
async def test_a_part_whose_engine_forgot_what_it_spent_is_not_merged(play, tmp_path, monkeypatch, metered):
    monkeypatch.setattr(SimulatedEngine, "metered", metered)
    run_dir = await play("a")
    [part] = (run_dir / "episodes").glob("*.parquet")
    rows = pq.read_table(part)
    place = rows.column_names.index("cost")
    pq.write_table(rows.set_column(place, "cost", pa.array([0.5] * len(rows))), part)
    if metered:
        with pytest.raises(UserError, match=r"spending\.json: missing, though the ledger's episodes cost"):
            merge(tmp_path / "whole", [run_dir])
        assert not (tmp_path / "whole").exists()
    else:
        merge(tmp_path / "whole", [run_dir])
        assert Run(tmp_path / "whole").spent is None


async def test_a_merge_of_runs_that_cost_nothing_notes_no_spending(play, tmp_path):
    await play("a")
    merge(tmp_path / "whole", [tmp_path / "a"])
    assert Run(tmp_path / "whole").spent is None


async def test_batch_jobs_of_unfinished_parts_are_said_to_stay_behind(play, tmp_path):
    """What they answer belongs to a game that the merged run would begin anew."""
    parts = [await play("a", "shard=1/2", most=5), await play("b", "shard=2/2")]
    for part in parts:
        Store.open(part).announce({"turn-0": 1.0})
    [warning] = merge(tmp_path / "whole", parts).warnings
    left = len(Run(parts[0]).plan) - 5
    assert warning.startswith(f"{parts[0]}: {left} games are not over") and f"in {tmp_path / 'whole'}, " in warning
    assert merge(tmp_path / "other", [parts[1]]).warnings[0].startswith("missing: shard=1/2")
    await play("c", "shard=1/2")
    assert merge(tmp_path / "whole", [parts[0], tmp_path / "c"]).warnings == ()


async def test_merging_in_any_order_gives_the_same_run(play, tmp_path):
    one = await play("1", "shard=1/3", failing=("EngineKilled: first",))
    parts = [one, await play("2", "shard=2/3", cutting=2), await play("3", "shard=3/3", most=5)]
    for number, part in enumerate(parts):
        spend(part, 2.0**number)
    found = []
    for number, order in enumerate(itertools.permutations(parts)):
        target = tmp_path / f"whole-{number}"
        for step in [order] if number % 2 else [[part] for part in order]:
            merge(target, step)
        run = Run(target)
        rows = sorted(run.episodes().to_pylist(), key=lambda row: row["episode_id"])
        found.append((score_run(run).summary, repr(rows), read_spending(target).total, run.config["suite"]))
    assert all(each == found[0] for each in found)


AMOUNTS = st.integers(1, 8).map(float)


@pytest.mark.slow
@given(
    st.lists(st.lists(AMOUNTS, min_size=1, max_size=3), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_money_of_copies_of_a_run_counts_once_as_of_its_latest_state_in_any_order(runs, order, data):
    """Each run is given by what its sessions had spent in the end, one after the other; copies were made meanwhile."""
    states = []
    for number, sessions in enumerate(runs):
        ids = [f"{number}-{session}" for session in range(len(sessions))]
        for length in {len(ids), data.draw(st.integers(1, len(ids)))}:
            spent = sum(sessions[:length])
            # The last session of a copy may still have been at work.
            for unspent in {0.0, data.draw(st.sampled_from([0.0, 0.5]))}:
                part = MergedPart(tuple(ids[:length]), spent - unspent)
                states.append(Spending(part.total, 0.0, spent, (part,)) if data.draw(st.booleans()) else (part, spent))
    sources = [
        SimpleNamespace(
            spending=state, sessions=[{"id": each} for each in state.merged[0].sessions], path=Path("merged")
        )
        if isinstance(state, Spending)
        else SimpleNamespace(
            spending=Spending(state[0].total, 0.0, state[1]),
            path=Path("played"),
            sessions=[{"id": each} for each in state[0].sessions],
        )
        for state in states
    ]
    order.shuffle(sources)
    joined = _joined_spending(SimpleNamespace(spending=Spending()), sources)
    assert joined.total == sum(map(sum, runs)) and joined.own == 0
    assert joined.highest == max(map(sum, runs))


def test_notes_of_the_parts_come_along_and_the_parts_keep_theirs(tmp_path):
    runs = [SimpleNamespace(path=tmp_path / name) for name in ("part", "whole")]
    notes = [new_note("a" * 32, tag, "text", "ada") for tag in ("one", "two")]
    for run, note in zip(runs, notes, strict=True):
        run.path.mkdir()
        NotesFile(run.path).add([note])
    for _ in range(2):
        merge_module._copy_notes(*runs)
    assert [{note.tag for note in NotesFile(run.path).read().notes} for run in runs] == [{"one"}, {"one", "two"}]


def test_parts_may_differ_in_speed_alone_and_where_another_model_may_answer_is_asked():
    def part(path, **changes):
        engine = {"type": "openai", "model": "m", "base_url": "http://1", "timeout_seconds": 1.0}
        config = {"suite": {"type": "kumo"}, "model": {"name": "m", "engine": engine}, "cluster": {"replicas": 1}}
        for name, value in changes.items():
            section, _, key = name.rpartition("__")
            place = {"": config, "engine": engine, "suite": config["suite"], "cluster": config["cluster"]}[section]
            place[key] = value
        return SimpleNamespace(path=path, config=config)

    check = merge_module._check_settings
    fast = part("b", engine__timeout_seconds=2.0, cluster__replicas=4, shard="2/3", name="x", stop=None)
    assert check([part("a"), fast, part("c")]) == []
    moved = part("d", engine__base_url="http://2", engine__timeout_seconds=2.0)
    doubt = "has model.engine.base_url=http://2, a http://1: is it the same model?"
    assert check([part("a"), moved, fast, part("e", engine__base_url="http://2")]) == [f"d {doubt}", f"e {doubt}"]
    for changes, named in (
        (
            {"suite__type": "kidgym", "engine__model": "n", "engine__base_url": "http://2"},
            "model.engine.model, suite.type",
        ),
        ({"suite__decoder": "strict"}, "suite.decoder"),
        ({"baselines": ["oracle"]}, "baselines"),
    ):
        with pytest.raises(UserError, match=f"^b and a are not parts of one plan; they differ in {named}$"):
            check([part("a"), part("b", **changes)])
