"""Parts of one plan joined: what may differ, what is missing, what contradicts."""

import contextlib
import dataclasses
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands import merge as merge_module
from cluster.commands.merge import _joined_spending, merge
from cluster.commands.report import score_run
from cluster.config.plan import whole_plan
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.stopping.registration import KEPT_AS, joined_registration
from cluster.storage.provenance import read_versions, write_versions
from cluster.storage.run_directory import RunDirectory
from cluster.storage.shard import part_of
from cluster.storage.spending import MergedPart, Spenders, Spending, SpendingJournal, read_spending, write_spending
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.ledger.ledger import open_ledger
from evals.ledger.records import records_to_table
from evals.notes import NotesFile, new_note
from evals.players import BUILT_IN_PLAYERS
from evals.suite import ledger_columns, play_episode
from evals.types import Episode
from tests.cluster.conftest import EASY, begin, settings_at
from tests.cluster.test_cli import run_here
from tests.evals.test_ledger import flip_a_byte
from tests.said import Said

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
async def test_the_target_may_be_named_as_a_source_too(play, tmp_path):
    one, two, target = await play("1", "shard=1/2"), await play("2", "shard=2/2"), tmp_path / "whole"
    merge(target, [one])
    (tmp_path / "link").symlink_to(target)
    write_spending(target, Spending(1.0))
    shutil.copytree(target, tmp_path / "copy")
    for _ in range(2):
        assert merge(target, [tmp_path / "link", tmp_path / "copy", two]).rows == 24
        assert read_spending(target).total == 1.0
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


def test_what_imported_files_say_of_a_run_is_planned_or_told_apart_from_a_suite():
    suite = {"type": "kumo", "domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 2, "repeats": 1}
    assert len(whole_plan({"suite": suite, "model": {"name": "random"}})[2]) == 2
    with pytest.raises(UserError, match=r"model\.name: is missing"):
        whole_plan({"suite": suite})


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


@pytest.mark.parametrize("twice", [False, True])
async def test_damage_that_only_reading_a_part_finds_is_named(play, tmp_path, twice):
    runs = [await play("one", "shard=1/2")] + [await play("other", "shard=1/2")] * twice
    [part] = (runs[-1] / "episodes").iterdir()
    flip_a_byte(part, "steps")
    with pytest.raises(UserError, match=str(part)):
        merge(tmp_path / "whole", runs)


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
    nothing = SimpleNamespace(spending=Spending(), sessions=[], path=Path("new"))
    joined = _joined_spending(nothing, sources)
    assert joined.total == sum(map(sum, runs)) and joined.own == 0
    assert joined.highest == max(map(sum, runs))
    # The target may itself be one of them, and others copies of it; and all may be merged into it once more.
    into = _joined_spending(sources[0], sources[1:])
    assert into.total == joined.total
    ids = [{"id": each} for part in into.merged for each in part.sessions]
    again = _joined_spending(SimpleNamespace(spending=into, sessions=ids, path=Path("played")), sources)
    assert again == into


@given(
    st.lists(
        st.tuples(st.sampled_from(["retest", "session", "merge", "copy", "change to the copy"]), AMOUNTS), max_size=9
    )
)
def test_money_of_retests_and_sessions_of_a_run_and_of_its_copies_is_kept(steps):
    """A run, a copy of it, and merges with a shard: each amount that was paid is in the sum, and none is lost."""

    def run(name, spending, sessions=()):
        return SimpleNamespace(spending=spending, sessions=[*sessions], path=Path(name))

    shard = run("shard", Spending(3.0, 0.0, 1.0), [{"id": "of the shard"}])
    mine, other = run("run", Spending(1.0), [{"id": "first"}]), run("other", Spending())
    paid = 1.0
    played_on = set()  # copies that are played on apart may count more than was paid
    for number, (step, amount) in enumerate(steps):
        if step == "merge":
            joined = _joined_spending(mine, [shard, other])
            sessions = [*mine.sessions, *shard.sessions, *other.sessions]
            mine = run(mine.path, joined, {session["id"]: session for session in sessions}.values())
        elif step == "copy":
            other = run(f"copy {number}", mine.spending, mine.sessions) if not other.sessions else other
        elif step == "change to the copy":
            mine, other = (other, mine) if other.sessions else (mine, other)
        else:
            paid += amount
            before, sessions = mine.spending, mine.sessions
            if step == "retest":
                before = before.before_retest(Spenders.of(mine.path, sessions))
            else:
                sessions = [*sessions, {"id": f"session {number}"}]
                played_on.add(str(mine.path))
            mine = run(mine.path, dataclasses.replace(before, spent=before.spent + amount), sessions)
    total = _joined_spending(mine, [shard, other]).total
    assert total == paid + 3.0 if len(played_on) < 2 else total >= paid + 3.0


def test_a_registration_that_all_parts_have_is_that_of_the_whole(tmp_path):
    runs = [SimpleNamespace(path=tmp_path / name) for name in "abc"]
    for run in runs:
        run.path.mkdir()
    assert joined_registration(runs) == (b"", [])
    for run in runs[:2]:
        (run.path / KEPT_AS).write_bytes(b"one")
    content, [warning] = joined_registration(runs)
    assert content == b"" and warning.endswith(f"so the merged run has none: {runs[2].path}")
    (runs[2].path / KEPT_AS).write_bytes(b"one")
    assert joined_registration(runs) == (b"one", [])
    (runs[1].path / KEPT_AS).write_bytes(b"other")
    with pytest.raises(UserError, match=f"{runs[1].path} and {runs[0].path} have different preregistrations"):
        joined_registration(runs)


async def test_the_registration_of_the_parts_comes_along(play, tmp_path):
    parts, target = [await play(str(part), f"shard={part}/2") for part in (1, 2)], tmp_path / "whole"
    for part in parts:
        (part / KEPT_AS).write_bytes(b"registered")
    assert merge(target, parts).warnings == () and (target / KEPT_AS).read_bytes() == b"registered"
    assert merge(target, parts).rows == 24


def test_notes_of_the_parts_come_along_and_the_parts_keep_theirs(tmp_path):
    runs = [SimpleNamespace(path=tmp_path / name) for name in ("part", "whole")]
    notes = [new_note("a" * 32, tag, "text", "ada") for tag in ("one", "two")]
    for run, note in zip(runs, notes, strict=True):
        run.path.mkdir()
        NotesFile(run.path).add([note])
    assert [merge_module._copy_notes(*runs) for _ in range(2)] == [[], []]
    assert [{note.tag for note in NotesFile(run.path).read().notes} for run in runs] == [{"one"}, {"one", "two"}]
    with NotesFile(runs[0].path).path.open("a") as file:
        file.write("no note\n")
    (told,) = merge_module._copy_notes(*runs)
    assert told.startswith("notes that are not merged: ") and "line 2" in told


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


def planned_games(fingerprint, indices=range(24), task="t"):
    games = (Episode("toy", task, "1", "m", i, 0, 7, fingerprint, 3) for i in indices)
    return [game.assigned("model", "sampling") for game in games]


def shard_of(plan, number, count):
    return SimpleNamespace(
        path=Path(f"{number}"), config={}, plan=[each for each in plan if part_of(each.id, count) == number]
    )


@given(st.integers(2, 4), st.data())
def test_shards_that_plan_one_game_under_two_ids_are_not_of_one_plan(count, data):
    plans = [planned_games("templates"), planned_games("changed templates")]
    chosen = [data.draw(st.sampled_from((0, 1))) for _ in range(count)]
    shards = [shard_of(plans[plan], number, count) for number, plan in enumerate(chosen, 1)]
    indices = [{episode.index for episode in shard.plan} for shard in shards]
    shared = any(
        chosen[one] != chosen[other] and indices[one] & indices[other]
        for one, other in itertools.combinations(range(count), 2)
    )
    with pytest.raises(UserError, match="are not parts of one plan") if shared else contextlib.nullcontext():
        merge_module._check_one_plan(shards)


def test_a_suite_that_plans_several_games_at_one_place_is_merged():
    twins = planned_games("a", [1, 2]) + planned_games("b", [1, 2])
    merge_module._check_one_plan([shard_of(twins, 1, 1), shard_of(twins[:2], 1, 1), shard_of(twins[2:], 1, 1)])
    with pytest.raises(UserError, match="toy t 1 m 1 0 is planned as"):
        merge_module._check_one_plan([shard_of(twins[:2], 1, 1), shard_of(twins[2:], 1, 1)])


def test_a_part_of_this_version_s_plan_is_not_merged_with_one_of_another_plan(monkeypatch):
    here, elsewhere = planned_games("now", range(4)), planned_games("before", range(4, 8))
    monkeypatch.setattr(merge_module, "whole_plan", lambda config: (1, 2, here))
    empty, ours, theirs = (shard_of(plan, 1, 1) for plan in ([], here[:2], elsewhere))
    mixed = shard_of([here[3], *elsewhere], 1, 1)
    for runs in ([ours, theirs], [theirs, ours], [ours, mixed]):
        with pytest.raises(UserError, match="not parts of one plan, though their settings read the same"):
            merge_module._whole_plan(runs)
    assert merge_module._whole_plan([empty, ours]) == (here, "")
    for runs in ([empty, theirs], [theirs, mixed]):
        planned, reason = merge_module._whole_plan(runs)
        assert {each.id for each in planned} == {each.id for run in runs for each in run.plan}
        assert reason == "their settings plan other episodes with this version of raycade"


def id_of(number):
    return f"{number:012x}{'0' * 20}"


class Part:
    """A run in memory; its path is a letter."""

    def __init__(self, path, shard=None, rows=(), plan=(), ids=(), **more):
        self.path, self.begun, self.ledger, self.stopping, self.ledger_cost = Path(path), True, self, None, 0.0
        self.plan = self.planned = [SimpleNamespace(id=id_of(number)) for number in plan]
        self.config, self.spending = {"suite": {"type": "s"}, "shard": shard, "run_dir": path}, Spending()
        self.sessions = [{"id": name} for name in ids]
        self.__dict__ |= more
        columns = ("episode_id", "attempt", "steps", "seconds", "extra")[: len(rows[0]) if rows else 4]
        self.table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(columns)})
        self.schema, self.replaced, self.names = self.table.schema, [f"old of {path}"], {"part-1.parquet"}

    def __repr__(self):
        return f"run {self.path}"

    def batches(self, columns=None, every_attempt=False):
        assert every_attempt
        return [self.table.slice(start, 2) for start in range(0, len(self.table), 2)]


def row(number, attempt=1, steps=5, seconds=1.0, *extra):
    return (id_of(number), attempt, steps, seconds, *extra)


def bought(spent, *parts):
    return Spending(
        spent, spent / 4, spent / 10, tuple(MergedPart(tuple(names.split()), total) for names, total in parts)
    )


def test_what_may_be_merged_and_what_is_missing(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    stopped, engine = SimpleNamespace(stopped=True), {"model": {"engine": {"type": "x"}}}
    monkeypatch.setattr(merge_module, "check_journal", said.calls("journal"))
    for metered in (True, False):
        monkeypatch.setattr(merge_module, "class_of", lambda *_: SimpleNamespace(metered=metered))
        first = Part("a", config=engine, ledger_cost=2.5)
        for parts in ([first, Part("b")], [first, Part("b", stopping=stopped)]):
            said.tried(f"endings {metered}", merge_module._check_endings, parts)
    there = {"same": [1], "more": [1, 2], "gone": [], "begun": [], "new": [1]}
    for name, numbers in there.items():
        folder = tmp_path / name
        folder.mkdir()
        for number in numbers:
            (folder / f"part-{number}.parquet").touch()
        run = Part("t", parts=folder, begun=name != "new")
        said.tried(name, merge_module._check_unchanged, run, name not in ("begun", "new"))
    whole = [SimpleNamespace(id=name) for name in "abc"]
    for planned in ((1, 2, whole), (1, 2, whole[:2]), (1, 2, whole[:1]), UserError("no suite"), KeyError("suite")):
        monkeypatch.setattr(
            merge_module,
            "whole_plan",
            Mock(side_effect=[planned]),
        )
        part = Part("a")
        part.plan = whole[1::-1]
        found, reason = merge_module._whole_plan([part, Part("b")])
        said("whole", [each.id for each in found], reason)
    parts = [Part("a", "1/3"), Part("b", "3/3"), Part("c", "2/4"), Part("d")]
    for few, rows, planned, reason in (
        *((parts[:2], [], range(9), ""), (parts[:2], [1], range(9), "why"), (parts[:2], [], [0, 2, 3], "")),
        *((parts[:2], [], None, "why"), (parts, [0], range(8), ""), (parts[:2], [1], [0, 1, 2], "why")),
        *(
            (parts[:1], [], None, "why"),
            (parts[3:], [0], None, "why"),
            (parts[3:], [0], [0], ""),
            ([], [], None, "why"),
        ),
    ):
        ids = None if planned is None else {*map(id_of, planned)}
        missing = merge_module._missing_shards(few, {*map(id_of, rows)}, ids, reason)
        said("missing", few, rows, planned, reason, "".join(f"\n  {each}" for each in missing))
    for name in "ab":
        merge_module.journal_of(tmp_path / name).parent.mkdir(parents=True)
    merge_module.journal_of(tmp_path / "a").touch()
    behind = [Part(tmp_path / name, plan=plan) for name, plan in (("a", (1, 2, 3)), ("a", (1,)), ("b", (2,)))]
    said("behind", *merge_module._jobs_left_behind(behind, Path("target"), {id_of(1)}))
    said.check("merge_parts")


def test_rows_sessions_and_money_of_parts(tmp_path, capsys):
    said = Said(capsys, tmp_path)
    one = Part("a", rows=[row(3), row(1), row(2, 1), row(2, 2, 7)], ids=["s1", "s2"])
    for name, rows in (
        *(("same", [row(1, 1, 5, 9.0), row(4)]), ("other steps", [row(4), row(2, 2, 8), row(3, 1, 6)])),
        *(("other attempt", [row(1, 2, 8)]), ("more", [row(1, 1, 5, 1.0, "x")]), ("empty", [row(1, 1, 5, 1.0, None)])),
        *(("fewer", [row(1)[:2]]), ("other order", [row(2, 2, 7), row(2, 1)]), ("nothing", [])),
    ):
        other = Part("b", rows=rows)
        owners = said.tried(name, merge_module._check_conflicts, [one, other, Part("c", rows=[row(4), row(9)])])
        if isinstance(owners, dict):
            committed = said.calls("commit", lambda batch: said(batch["steps"].to_pylist()))
            merge_module._copy_rows(other, SimpleNamespace(commit_rows=committed), owners)
    said(merge_module._joined_sessions([one, Part("b", ids=["s2", "s3"]), Part("c", ids=["s1"])]))
    ended = SimpleNamespace(sessions=[{"id": "s1", "ended": "later"}, {"id": "s9"}])
    said(merge_module._joined_sessions([ended, one]), merge_module._joined_sessions([one, ended]))
    for commits in ("aa", "ab", ""):
        sessions = [{"id": n, "git_commit": commit} for n, commit in enumerate(commits)]
        said(merge_module._check_versions([Part("a", sessions=sessions[:1]), Part("b", sessions=sessions[1:])]))
    nested = bought(4.0, ("s1 s2", 2.0), ("s3", 1.0))
    target = Part(tmp_path / "t", spending=bought(10.0, ("s1", 3.0), ("s9", 2.0)))
    last = Part("z", ids=["s2", "s5"], spending=bought(1.5))
    for number, (ids, spending) in enumerate(
        (
            *(
                ("", Spending()),
                ("s1 s2", bought(2.0)),
                ("", bought(3.0)),
                ("s1 s2 s3 s4", nested),
                ("s1 s2 s3", nested),
            ),
            *(("s3", bought(1.0, ("s3", 1.25))), ("s2 s1", bought(2.0, ("s1", 1.0), ("s2 s1", 0.5)))),
        )
    ):
        part = Part(tmp_path / str(number), ids=ids.split(), spending=spending)
        said(part, part.spending.parts(Spenders.of(part.path, part.sessions)))
        for into in (Part("t"), target):
            said("joined", merge_module._joined_spending(into, [part, last]))
    said.check("merge_rows")


def test_the_steps_of_a_merge(tmp_path, capsys, monkeypatch):
    said = Said(capsys, tmp_path)
    of_module = (
        "_check_settings",
        "_check_one_plan",
        "_check_endings",
        "_check_versions",
        "_check_unchanged",
        "_copy_rows",
        "_copy_notes",
    )
    for name in (*of_module, "write_spending", "_jobs_left_behind", "_missing_shards"):
        monkeypatch.setattr(merge_module, name, said.calls(name, lambda *given, name=name: [f"of {name}"]))
    for begun, planned, spent in (
        *((False, None, 0.0), (False, 3, 2.0), (True, 3, 2.0), (True, None, 0.0), (True, 0, 0.0), (True, 1, 1.0)),
    ):
        made = Part("t", "1/2" if planned == 0 else None, [row(7)], [7], ["t"], begun=begun, spending=Spending(spent))
        made.begin = lambda plan, files: said("begin", len(plan), sorted(files), "\n" + files["config.yaml"])
        for name in ("check_plan", "claim", "release", "write_plan", "write_sessions", "remove", "compact"):
            setattr(made, name, said.calls(name))
        sources = {
            name: Part(name, f"{number}/2", [row(number)], [number], [name]) for number, name in enumerate("ab", 1)
        }
        sources["b"].spending = Spending(spent / 2)
        whole = lambda runs: ([each for run in runs for each in run.plan], "why")  # noqa: E731
        if planned:
            whole = lambda runs: ([SimpleNamespace(id=id_of(n)) for n in range(planned)], "")  # noqa: E731
        monkeypatch.setattr(merge_module, "Run", lambda path: sources[str(path)])
        monkeypatch.setattr(merge_module, "RunDirectory", lambda path: made)
        monkeypatch.setattr(merge_module, "_whole_plan", said.calls("whole plan", whole))
        said("---", begun, planned, spent)
        names = "t" if planned == 1 else "abat" if begun else "ab"
        said.tried("merged", merge_module._merge, Path("t"), [*map(Path, names)])
    said.check("merge_steps")
