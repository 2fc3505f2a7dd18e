"""Stored episodes, played again."""

import asyncio
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from envs.kidgym import TASKS
from envs.picture import picture_from_description
from evals.ledger.columns import COLUMNS
from evals.ledger.ledger import open_ledger
from evals.ledger.records import PARQUET_OPTIONS, chat_of, records_to_table
from evals.players import RandomPlayer
from evals.suite import ledger_columns, play_episode
from evals.suites.kidgym import KidGymSuite, rerender_episode
from evals.suites.kidgym.offer import NOT_OFFERED
from evals.types import PlayerError, Reply
from tests.evals.suites.kidgym.test_kidgym_play import turned_task


class Slipping:
    """Plays at random, and after some turns says nothing that can be read, or fails."""

    def __init__(self, last, slip):
        self.last, self.slip = last, slip

    async def reply(self, turn):
        if turn.number < self.last:
            return await RandomPlayer().reply(turn)
        if isinstance(self.slip, Exception):
            raise self.slip
        return Reply(self.slip)


def ledger_rows(tmp_path, suite, *players):
    """What a run with these players leaves, read back from its Parquet part."""
    records = [
        asyncio.run(play_episode(suite, episode.assigned(str(number), ""), player))
        for number, player in enumerate(players)
        for episode in suite.plan()
    ]
    (tmp_path / "episodes").mkdir()
    pq.write_table(
        records_to_table(records, ledger_columns(suite)), tmp_path / "episodes" / "1.parquet", **PARQUET_OPTIONS
    )
    ledger = open_ledger(tmp_path)
    assert not ledger.damage
    rows = ledger.table([*COLUMNS, *ledger_columns(suite)]).to_pylist()
    return [{name.removeprefix("kidgym."): value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("settings", [{}, {"resolution": 32}, {"modes": ["icl"], "levels": [1]}])
def test_replay_renders_every_frame_as_it_was_shown(tmp_path, settings):
    suite = KidGymSuite(**{"levels": [1, 3], "modes": ["zero_shot"], "episodes": 1, **settings})
    for row in ledger_rows(tmp_path, suite, RandomPlayer()):
        played = rerender_episode(row)
        asked = [step for step in played.steps if not step.forced]
        assert len(asked) == len(row["turns"]) and len(played.steps) == row["steps"]
        assert played.success == row["success"]
        for number, step in enumerate(asked):
            shown = [
                part for message in chat_of(row["turns"], number) for part in message.parts if not isinstance(part, str)
            ]
            assert np.array_equal(step.frame.render(), shown[-1].render())
            assert step.chosen == row["turns"][number]["action"]
        assert sum(not step.accepted for step in played.steps) == row["refused_steps"]


def test_replay_follows_a_loop_of_refused_steps_and_an_unreadable_end(tmp_path):
    suite = KidGymSuite(tasks=["MA", "SE", "CL"], levels=[3], modes=["cot"], episodes=4)
    for row in ledger_rows(tmp_path, suite, Slipping(2, "I'm sorry.")):
        steps = rerender_episode(row).steps
        assert row["invalid"] and steps[-1].chosen is None and not steps[-1].accepted
        assert len(steps) == row["steps"] + 1


def test_replay_of_a_failed_episode_goes_as_far_as_it_got(tmp_path):
    suite = KidGymSuite(tasks=["CL", "MFI"], levels=[3], modes=["zero_shot"], episodes=1)
    for row in ledger_rows(tmp_path, suite, Slipping(2, PlayerError("gone"))):
        assert row["status"] == "failed" and row["steps"] is None
        assert sum(not step.forced for step in rerender_episode(row).steps) == 2


def test_an_episode_of_a_users_own_task_is_replayed_in_a_process_that_has_only_installed_it(
    tmp_path, monkeypatch, plugins_in
):
    turned_task(tmp_path, monkeypatch)
    plugins_in(tmp_path)
    suite = KidGymSuite(tasks=["PT"], levels=[1], modes=["zero_shot"], episodes=1)
    (row,) = ledger_rows(tmp_path, suite, RandomPlayer())
    del TASKS["PT"], sys.modules["turned_task"]
    assert rerender_episode(row).success == row["success"]
    del TASKS["PT"]


class Repeating:
    """Writes the first action of perfect play twice: the second time the game does not offer it."""

    said = ""

    async def reply(self, turn):
        self.said = self.said if turn.number == 1 else turn.oracle()
        return Reply(f"<answer>{self.said}</answer>")


def test_a_written_action_that_was_not_offered_is_replayed_as_a_step_that_was_lost(tmp_path):
    suite = KidGymSuite(tasks=["CL"], levels=[2], modes=["zero_shot"], episodes=1, list_actions=False)
    (row,) = ledger_rows(tmp_path, suite, Repeating())
    steps = rerender_episode(row).steps
    assert row["turns"][1]["rule"] == NOT_OFFERED and row["turns"][1]["action"] not in steps[1].actions
    assert [step.accepted for step in steps[:3]] == [True, False, True] and len(steps) == row["steps"]


def test_games_in_a_skin_are_replayed_in_it(tmp_path):
    folder = tmp_path / "skin"
    folder.mkdir()
    (folder / "wall.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><rect width="2" height="1"/></svg>'
    )
    suite = KidGymSuite(tasks=["MA"], levels=[1], modes=["zero_shot"], episodes=1, skin=str(folder))
    (row,) = ledger_rows(tmp_path, suite, RandomPlayer())
    assert {step.frame.skin for step in rerender_episode(row).steps} == {str(folder)}


def test_what_does_not_follow_from_the_seed_is_refused(tmp_path):
    suite = KidGymSuite(tasks=["CL"], levels=[2], modes=["zero_shot"], episodes=1)
    (row,) = ledger_rows(tmp_path, suite, RandomPlayer())
    edits = [
        ({"suite": "kumo"}, "is of suite 'kumo'"),
        ({"seed": row["seed"] + 1}, "turn 0 shows other pictures"),
        (
            {"success": not row["success"]},
            f"turn {len(row['turns']) - 1} ends with success {row['success']} after {row['steps']} steps",
        ),
        ({"steps": row["steps"] + 1}, f"ends with success {row['success']} after {row['steps']} steps"),
        ({"turns": [*row["turns"], row["turns"][-1]]}, f"turn {len(row['turns'])} was asked after the game had ended"),
        ({"turns": [{**row["turns"][0], "action": "jump"}]}, "turn 0 chose 'jump'"),
        ({"turns": [{**row["turns"][0], "options": ["A"]}]}, "turn 0 offers 1 actions"),
    ]
    for edit, message in edits:
        with pytest.raises(ValueError, match=message):
            rerender_episode({**row, **edit})


@pytest.mark.parametrize("decoys", ["table", "published"])
def test_both_kinds_of_decoys_are_replayed(tmp_path, decoys):
    suite = KidGymSuite(tasks=["MDE"], levels=[3], modes=["zero_shot"], episodes=3, mde_decoys=decoys)
    for row in ledger_rows(tmp_path, suite, RandomPlayer()):
        assert rerender_episode(row).success == row["success"]


def test_a_reply_without_an_action_loses_the_game_and_has_no_regret(tmp_path):
    suite = KidGymSuite(tasks=["DMA"], levels=[2], modes=["zero_shot"], episodes=4)
    for row in ledger_rows(tmp_path, suite, Slipping(1, "I do not know.")):
        first, second = suite.view(row).steps
        assert not first.lost, "this task can be won after any first step"
        assert (second.decoded, second.lost, second.regret) == (None, True, None)


def test_a_view_tells_of_each_step_what_came_of_it_and_what_perfect_play_would_have_done(tmp_path):
    suite = KidGymSuite(tasks=["DMA"], levels=[2], modes=["zero_shot"], episodes=3)
    for row in ledger_rows(tmp_path, suite, RandomPlayer()):
        view = suite.view(row)
        rerendered = rerender_episode(row)
        asked = [step for step in rerendered.steps if not step.forced]
        assert len(view.steps) == len(row["turns"]) == len(asked)
        for step, played in zip(view.steps, asked, strict=True):
            assert step.decoded == played.chosen and step.facts["accepted"] == played.accepted
            assert step.best in played.actions or (step.best is None and not step.facts["winnable"])
            assert picture_from_description(step.after).size == played.frame.size
            assert (step.regret is None) == (step.lost or step.best is None)
        pictures = [step.after for step in view.steps]
        # A last step that leaves no choice, such as taking the diamond, comes after the last one that was asked.
        assert pictures[-1] == rerendered.final.description or rerendered.steps[-1].forced
        assert sum(step.lost for step in view.steps) == (not row["success"])
        assert row["success"] or view.facts["mistake"] == row["mistake"]
    assert "other pictures" in suite.view({**row, "seed": row["seed"] + 1}).facts["rerendering"]
