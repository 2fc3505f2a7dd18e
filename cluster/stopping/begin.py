"""Giving a run its stopping rule before a session plays, or taking it away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster.errors import UserError
from cluster.stopping.against import is_same_side
from cluster.storage.lock import LeaseLostError
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stop_rule import StoredRule, remove_rule, write_rule
from cluster.storage.stored_run import Run, read_runs
from envs.suggest import did_you_mean
from evals.stopping.outcomes import COUNTED_AS_LOST, PAIR_COLUMNS, Pair
from evals.stopping.rules import StopRule


def agreed_rule(run: Run, rule: StopRule | None, player: str) -> StoredRule | None:
    """The rule that a session is to play by; nothing is written yet.

    A run that is compared with another run keeps what it compared with at first, as long as the rule names that run: the
    decision stays the same when the other run goes on.

    Args:
        run: Claimed and begun.
        rule: What ends it early; None to play its plan to the end.
        player: The model.

    Raises:
        UserError: the rule compares with nobody, or with a run that has no game in common with this one.
    """
    if rule is None:
        return None
    before = run.rule
    other = None
    if rule.kind == "decided" and rule.against not in run.planned["player"].to_pylist():
        other = _compared_with(run, rule, before)
    if rule.against == player:
        raise UserError(f"against={player}: is the model itself; name another player of this run, or another run")
    stored = StoredRule(rule, player, other)
    if not stored.outcomes(run.planned).look().groups:
        raise UserError(
            f"against={rule.against}: has no game in common with this run (suite, task, level, mode and seed)"
        )
    return stored


@contextlib.contextmanager
def read_by(run: RunDirectory, rule: StoredRule | None, suite: Mapping[str, Any]) -> Iterator[None]:
    """Have a run's results read by a rule and settings of scoring while a session plays, and from then on.

    A session that is refused after all (``UserError``: its model cannot be loaded) leaves the ones that were there.

    Args:
        run: Claimed and begun.
        rule: Of this session, as ``agreed_rule`` gives it.
        suite: The suite's settings, of which those of scoring are part of no id.

    Raises:
        UserError: the rule that is there cannot be read, or the session is refused.
    """
    rule_before, suite_before = run.rule, run.config["suite"]
    _write(run, rule, suite)
    try:
        yield
    except UserError:
        with contextlib.suppress(OSError, LeaseLostError):  # the refusal is what is told
            run.check_claim()
            _write(run, rule_before, suite_before)
        raise


def _write(run: RunDirectory, rule: StoredRule | None, suite: Mapping[str, Any]) -> None:
    run.write_suite(suite)
    if rule is None:
        remove_rule(run.path)
    else:
        write_rule(run.path, rule)


def _compared_with(run: Run, rule: StopRule, before: StoredRule | None) -> Mapping[Pair, float] | None:
    """What the other run reached: as an earlier session of this run has noted it, else as it is now."""
    if before is not None:
        players = set(run.planned["player"].to_pylist())
        is_same_run = is_same_side(before.rule.against, rule.against, players)
        if is_same_run and before.rule.measure == rule.measure:
            return before.other
    return _reached(Path(rule.against), rule, run)


def _reached(path: Path, rule: StopRule, run: Run) -> dict[Pair, float]:
    """What the model of another run reached, by pair; games that its own stopping rule did not need do not count."""
    other = Run(path)
    if not other.begun:
        players = sorted(set(run.planned["player"].to_pylist()))
        near = did_you_mean(rule.against, players)
        raise UserError(f"against={rule.against}: is no run, and no player of this one ({', '.join(players)}){near}")
    player = other.planned["player"][0].as_py()  # the model is planned first
    columns = list(dict.fromkeys([*PAIR_COLUMNS, "player", "status", rule.measure]))
    lost_if_failed = rule.measure in COUNTED_AS_LOST
    try:
        rows = read_runs([other], lambda: other.data.episodes(columns)).to_pylist()
        reached = {}
        for row in rows:
            value = row[rule.measure]
            counts_as_lost = lost_if_failed and row["status"] == "failed"
            if value is None and counts_as_lost:
                value = 0.0
            if value is None or row["player"] != player:
                continue
            pair = tuple(row[name] for name in PAIR_COLUMNS)
            reached[pair] = float(value)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"stop.measure={rule.measure}: is no numeric column of {path}: {error}") from error
    return reached  # type: ignore[return-value]
