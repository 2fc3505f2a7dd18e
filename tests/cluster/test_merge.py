"""Parts of one plan joined: what may differ, what is missing, what contradicts."""

import dataclasses
import json
import shutil

import pytest
import yaml

from cluster.commands.merge import merge
from cluster.commands.report import score_run
from cluster.config.settings import load_settings
from cluster.errors import UserError
from cluster.storage.provenance import read_versions, write_versions
from cluster.storage.run_directory import RunDirectory, read_config, read_episodes, read_plan
from evals.players import BUILT_IN_PLAYERS
from evals.records import records_to_table
from evals.suite import ledger_columns, play_episode
from tests.cluster.test_cli import SMALL, run_here


@pytest.fixture
def play(tmp_path):
    """Leaves a run as `raycade run` would, played by the oracle in the model's name."""

    async def run(name: str, *overrides: str, player: str = "oracle"):
        settings = load_settings([*SMALL, "model=simulated", f"run_dir={tmp_path / name}", *overrides])
        directory = RunDirectory(settings.run_dir)
        directory.claim()
        directory.begin(settings.plan, {"config.yaml": settings.config})
        write_versions(settings.run_dir, [{"git_commit": name}])
        records = []
        for episode in settings.plan:
            asked = dataclasses.replace(episode, player=player)
            record = await play_episode(settings.suite, asked, BUILT_IN_PLAYERS[player])
            records.append(dataclasses.replace(record, episode=episode))
        directory.commit(records_to_table(records, ledger_columns(settings.suite)))
        directory.release()
        return settings.run_dir

    return run


def counts(run_dir):
    _, summary = score_run(run_dir)
    return tuple(summary[name] for name in ("planned", "done", "missing"))


async def test_missing_parts_are_named_and_counted_and_may_come_later(play, tmp_path):
    one, two, three = [await play(str(part), f"shard={part}/3") for part in (1, 2, 3)]
    target = tmp_path / "whole"
    joined = merge(target, [one, two])
    rows = joined.rows
    assert (joined.planned, rows < 8) == (8, True)
    assert joined.warnings == ("missing: shard=3/3; merge into the same target when there",)
    assert counts(target) == (8, rows, 8 - rows)
    parts = {path: path.read_bytes() for path in (target / "episodes").iterdir()}
    assert merge(target, [three]).warnings == ()
    assert counts(target) == (8, 8, 0)
    assert all(path.read_bytes() == content for path, content in parts.items())
    assert merge(target, [one, two, three]).rows == 8
    assert len(read_episodes(target).table) == 8


async def test_the_whole_is_the_run_directory_of_the_unsharded_command(play, tmp_path):
    target = tmp_path / "whole"
    merge(target, [await play("1", "shard=1/2")])
    settings = load_settings([*SMALL, "model=simulated", f"run_dir={target}"])
    RunDirectory(target).check_plan(settings.plan)
    assert read_config(target)["shard"] is None


async def test_parts_may_differ_in_what_decides_the_speed(play, tmp_path):
    one = await play("1", "shard=1/2")
    two = await play("2", "shard=2/2", "model.engine.max_num_seqs=32", "model.replica.cpus=2", "cluster.replicas=3")
    assert merge(tmp_path / "whole", [one, two]).warnings == ()
    assert counts(tmp_path / "whole") == (8, 8, 0)


@pytest.mark.parametrize("override", ["model.sampling.max_tokens=7", "model.engine.tail=2.0", "decoding=free"])
async def test_parts_that_differ_in_what_decides_the_answers_are_refused(play, tmp_path, override):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2", override)
    with pytest.raises(UserError, match=f"differ in {override.partition('=')[0]}$"):
        merge(tmp_path / "whole", [one, two])
    assert not (tmp_path / "whole").exists()


async def test_parts_from_two_endpoints_are_joined_with_a_warning(play, tmp_path):
    api = ["model=openai", "model.engine.model=m"]
    one = await play("1", *api, "shard=1/2")
    two = await play("2", *api, "shard=2/2", "model.engine.base_url=http://localhost:1/v1")
    [warning] = merge(tmp_path / "whole", [one, two]).warnings
    assert "base_url=http://localhost:1/v1" in warning and "is it the same model?" in warning


async def test_the_versions_of_all_parts_are_carried_over_each_once(play, tmp_path):
    one, two = await play("1", "shard=1/2"), await play("2", "shard=2/2")
    (two / "versions.json").write_text(json.dumps({"git_commit": "as written once"}))
    for sources in ([one], [two], [one, two]):
        merge(tmp_path / "whole", sources)
    assert read_versions(tmp_path / "whole") == [{"git_commit": "1"}, {"git_commit": "as written once"}]


async def test_where_the_whole_is_not_known_the_plan_grows_with_each_part(play, tmp_path):
    parts = [await play(str(part), f"shard={part}/3") for part in (1, 2, 3)]
    for part in parts:  # a folder that is not on this machine
        config = read_config(part)
        config["suite"]["domains"] = ["/nowhere/mine.yaml"]
        (part / "config.yaml").write_text(yaml.safe_dump(config))
    joined = merge(tmp_path / "whole", parts[:2])
    assert joined.planned == joined.rows < 8
    assert "missing: shard=3/3" in joined.warnings[0] and "cannot be planned here" in joined.warnings[1]
    assert merge(tmp_path / "whole", parts[2:]).warnings == ()
    assert len(read_plan(tmp_path / "whole")) == 8


async def test_contradicting_rows_are_refused_and_the_target_stays(play, tmp_path):
    one, other = await play("1", "shard=1/2"), await play("other", "shard=1/2", player="random")
    merge(tmp_path / "whole", [one])
    before = sorted(path.name for path in (tmp_path / "whole" / "episodes").iterdir())
    with pytest.raises(UserError, match="disagree on episode"):
        merge(tmp_path / "whole", [other])
    assert sorted(path.name for path in (tmp_path / "whole" / "episodes").iterdir()) == before


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
    assert code == 0 and "of 8 planned episodes" in out
    assert "warning: missing: shard=2/2" in err
