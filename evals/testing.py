"""Checks for suites, in the manner of Gymnasium's ``check_env``: run ``check_suite`` in your own tests."""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa

from evals.conversation import Record
from evals.errors import SuiteError
from evals.figures import Figure
from evals.ledger.columns import COLUMNS
from evals.ledger.records import chat_of, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.suite import Suite, built_in_players, ledger_columns, plan_for, play_episode
from evals.suite_results import suite_figures, suite_results
from evals.tables import Section, Table
from evals.types import Episode, Message, Player, PlayerError, Reply, Turn

SECTIONS: tuple[Section, ...] = get_args(Section)


class _Refusing:
    """A player that never answers."""

    async def reply(self, turn: Turn) -> Reply:
        raise PlayerError("this player refuses every turn")


@dataclass(frozen=True)
class _Saying:
    """A player that says the same to every turn."""

    text: str
    finish: str = "stop"

    async def reply(self, turn: Turn) -> Reply:
        return Reply(self.text, finish=self.finish)  # type: ignore[arg-type]


def check_suite(suite: Suite, *, episodes: int = 6, oracle: bool = True) -> None:
    """See that a suite keeps the contract of ``evals.suite``.

    It plans and plays a few episodes, with built-in players and with ones that refuse, talk nonsense or are cut off,
    stores them, scores them whole, in part and in another order, and shows each.

    Args:
        suite: With settings that make a small plan.
        episodes: How many of its episodes to play, spread over the plan.
        oracle: Whether the suite's turns say what perfect play would reply; it must then always succeed.

    Raises:
        AssertionError: it does not; the message says what is wrong.
    """
    try:
        plan = plan_for(suite, {"oracle": ""})
    except ValueError as error:
        raise AssertionError(str(error)) from error
    _check_plan(suite, plan)
    _check_other_process(suite, plan)
    chosen = list(plan[:: max(1, len(plan) // episodes)][:episodes])
    records = []
    if oracle:
        records += [_won_by_oracle(suite, episode) for episode in chosen]
    records += _played_by_others(suite, step=max(1, len(plan) // 2))
    failed = _play(suite, plan_for(suite, {"refusing": ""})[0], _Refusing())
    assert not failed.done, f"{_name(failed)}: the player refused every turn, and the episode was not failed"
    records.append(failed)
    _check_ledger(suite, records)


def _won_by_oracle(suite: Suite, episode: Episode) -> Record:
    record = _play(suite, episode, BUILT_IN_PLAYERS["oracle"])
    assert record.outcome is not None and record.outcome.success, f"the oracle failed {_name(record)}"
    assert _content(record) == _content(_play(suite, episode, BUILT_IN_PLAYERS["oracle"])), (
        f"{_name(record)} played twice gives two different records"
    )
    _check_remaining(record)
    return record


def _played_by_others(suite: Suite, step: int) -> Iterator[Record]:
    """Two episodes of each other built-in player, and of ones that say nothing of use."""
    others: dict[str, Player] = {
        "silent": _Saying(""),
        "nonsense": _Saying("\x1b[31m{'</answer>' <answer>"),
        "cut_off": _Saying("I think that the answer is", "length"),
        **built_in_players(suite),
    }
    others.pop("oracle")
    for name, player in others.items():
        for episode in plan_for(suite, {name: ""})[::step][:2]:
            if name == "random" and not _offers_options(suite, episode):
                continue  # nothing to draw from: open questions have no chance level
            record = _play(suite, episode, player)
            assert name in ("silent", "nonsense", "cut_off") or record.done, f"{name} cannot play: {record.error}"
            yield record


def _check_remaining(record: Record) -> None:
    """What perfect play still takes, where the suite says it, is what its next action takes, and never grows by it."""
    for played in record.turns:
        remaining = played.turn.remaining
        # The suite does not say it.
        if remaining is None:
            continue
        if played.action is None:
            continue
        left, chosen = remaining(None), remaining(played.action)
        where = f"{_name(record)}, turn {played.turn.number}"
        assert 0 < left < math.inf, f"{where}: perfect play has {left} steps left (Turn.remaining)"
        assert math.isclose(left, chosen), (
            f"{where}: {left} steps are left, but {chosen} with perfect play's own action"
        )


def _check_plan(suite: Suite, plan: Sequence[Episode]) -> None:
    assert plan, "the plan is empty"
    _check_ids(suite, plan)
    _check_seeds(plan)
    for part in suite.parts:
        _check_columns(part)


def _check_ids(suite: Suite, plan: Sequence[Episode]) -> None:
    ids = [episode.id for episode in plan]
    planned_again = plan_for(pickle.loads(pickle.dumps(suite)), {"oracle": ""})
    assert ids == [episode.id for episode in planned_again], "planned twice, the ids differ"
    assert len(set(ids)) == len(ids), "two episodes of the plan have one id"


def _check_seeds(plan: Sequence[Episode]) -> None:
    """Modes, repeats and players are compared on the same game, so its seed may depend on none of them."""
    seeds: dict[tuple[Any, ...], int] = {}
    for episode in plan:
        game = (episode.suite, episode.task, episode.level, episode.index)
        seed = seeds.setdefault(game, episode.seed)
        assert seed == episode.seed, (
            f"the seed of {game} depends on the mode or repeat; comparisons would not be paired"
        )


def _check_columns(suite: Suite) -> None:
    for name, column in suite.columns.items():
        assert name.isidentifier(), f"column {name!r} needs a plain name"
        # A suite's view gets its columns by these short names, beside those of every ledger.
        assert name not in COLUMNS, f"column {name!r} has the name of a column of every ledger; choose another"
        assert column.help, f"column {name!r} needs a line of help"


_PLAN_ELSEWHERE = (
    "import pickle, sys; from evals.suite import plan_for; suite = pickle.load(sys.stdin.buffer); "
    "print(*[episode.id for episode in plan_for(suite, {'oracle': ''})])"
)


def _check_other_process(suite: Suite, plan: Sequence[Episode]) -> None:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PLAN_ELSEWHERE], input=pickle.dumps(suite), capture_output=True, env=environment
    )
    assert done.returncode == 0, f"cannot be planned in another process: {done.stderr.decode()[-2000:]}"
    assert done.stdout.decode().split() == [episode.id for episode in plan], "another process plans other ids"


def _offers_options(suite: Suite, episode: Episode) -> bool:
    turn = asyncio.run(_part(suite, episode.suite).first_turn(episode))
    return turn is None or bool(turn.options or turn.labels)


def _part(suite: Suite, name: str) -> Suite:
    return next(part for part in suite.parts if part.name == name)


def _play(suite: Suite, episode: Episode, player: Player) -> Record:
    return asyncio.run(play_episode(suite, episode, player))


def _check_ledger(suite: Suite, records: Sequence[Record]) -> None:
    """What is stored comes back, is scored the same in any order, and can be shown."""
    try:
        ledger = records_to_table(records, ledger_columns(suite))
    except (ValueError, pa.ArrowException) as error:
        raise AssertionError(f"an outcome does not fit the suite's columns: {error}") from error
    planned = plan_to_table([record.episode for record in records])
    shown = _shown(suite, planned, ledger)
    order = list(range(ledger.num_rows))
    random.Random(0).shuffle(order)
    shuffled = _shown(suite, planned, ledger.take(order))
    for what in [*shown, *shuffled]:
        assert shown.get(what) == shuffled.get(what), f"the {what} depends on the order of the ledger's rows"
    for part in (ledger.slice(0, 1), ledger.slice(0, 0)):
        _shown(suite, planned, part)
    for record, row in zip(records, ledger.to_pylist(), strict=True):
        _check_row(_part(suite, row["suite"]), record, row)


def _check_row(suite: Suite, record: Record, row: Mapping[str, Any]) -> None:
    """What is stored of an episode comes back, and can be looked at."""
    for number, played in enumerate(record.turns):
        stored = chat_of(row["turns"], number)
        assert stored == played.turn.chat, f"{_name(record)}: turn {number} comes back from the ledger changed"
        _check_pictures(stored)
    short = {name.removeprefix(f"{suite.name}."): value for name, value in row.items()}
    view = suite.view(short)
    assert len(view.steps) == len(record.turns), f"{_name(record)}: the view has another number of steps"
    _plain(view.to_json(), f"the view of {_name(record)}")


def _shown(suite: Suite, plan: pa.Table, ledger: pa.Table) -> dict[str, str]:
    """Each table and figure as JSON, by kind and name."""
    run = RunData.of_tables(plan, ledger)
    try:
        made = _made(suite, run)
    except SuiteError as error:
        raise AssertionError(str(error)) from error
    shown: dict[str, str] = {}
    for what, item in made:
        assert what not in shown, f"there are two of the {what}"
        shown[what] = _plain(item.to_json(), f"the {what}")
    return shown


def _made(suite: Suite, run: RunData) -> list[tuple[str, Table | Figure]]:
    """All tables and figures, each with its kind and name."""
    made: list[tuple[str, Table | Figure]] = []
    for section in SECTIONS:
        made += [(f"table {table.name!r} ({section})", table) for table in suite_results(suite, run, section)]
    made += [(f"figure {figure.name!r}", figure) for figure in suite_figures(suite, run)]
    return made


def _plain(value: Any, what: str) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what}: not JSON ({error})") from error


def _check_pictures(chat: Sequence[Message]) -> None:
    for said in chat:
        for part in said.parts:
            if not isinstance(part, str):
                width, height = part.size
                assert part.render().shape == (height, width, 3), f"{part.kind}: pixels of another size than it says"


def _content(record: Record) -> Any:
    """What of a record must not depend on when it is played."""
    outcome = record.outcome
    turns = [(played.turn.chat, played.reply.text, played.action, played.rule) for played in record.turns]
    return outcome and (outcome.success, outcome.credit, outcome.steps, dict(outcome.extra)), turns


def _name(record: Record) -> str:
    episode = record.episode
    return f"{episode.suite} {episode.task} {episode.level} {episode.mode} {episode.index} ({episode.player})"
