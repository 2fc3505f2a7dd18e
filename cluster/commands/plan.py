"""A dry run: episodes, model calls, tokens and estimated time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cluster.config.settings import Settings
from cluster.errors import UserError
from cluster.observe.performance import TIMINGS, read_sessions
from evals.tables import Cell, Table
from evals.types import Episode


def describe_plan(settings: Settings, like: Path | None) -> list[Table]:
    """Episodes, model calls and tokens of each cell, and the totals, with a time estimate if a past run gives the speed.

    Raises:
        UserError: ``like`` holds no timings.
    """
    cells: dict[tuple[str, ...], list[Episode]] = {}
    for episode in settings.plan:
        cell = (episode.player, episode.suite, episode.task, episode.level, episode.mode)
        cells.setdefault(cell, []).append(episode)
    model = settings.model.name if settings.model.engine else None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (*cell, len(members), *_load(members if cell[0] == model else ())) for cell, members in cells.items()
    )
    columns = ("player", "suite", "task", "level", "mode", "episodes", "model calls", "prompt tokens")
    modeled = [episode for episode in settings.plan if episode.player == model]
    calls, prompt_tokens = _load(modeled)
    total: list[tuple[str, str | int]] = [
        ("episodes", len(settings.plan)),
        ("episodes played by the model", len(modeled)),
        ("expected model calls", calls),
        ("expected prompt tokens", prompt_tokens),
        ("completion tokens (upper bound)", calls * settings.model.sampling.max_tokens),
    ]
    if like is not None:
        replicas = 1 if settings.cluster.replicas == "fit" else settings.cluster.replicas
        speed = _speed(like) * replicas
        total.append(
            (f"minutes on {replicas} replicas, at the {speed:.1f} calls/s of {like}", f"{calls / speed / 60:.1f}")
        )
    return [
        Table("plan", f"Plan: {settings.suite.name} with {settings.model.name}", columns, rows),
        Table("plan_total", "Total", ("metric", "value"), tuple(total), (f"run directory: {settings.run_dir}",)),
    ]


def _load(episodes: Sequence[Episode]) -> tuple[int, int]:
    return round(sum(episode.calls for episode in episodes)), round(sum(episode.prompt_tokens for episode in episodes))


def _speed(run_dir: Path) -> float:
    """Model calls per second and replica of a past run."""
    sessions = read_sessions(run_dir)
    replica_seconds = sum(session["playing_seconds"] * session["replicas"] for session in sessions)
    if not replica_seconds:
        raise UserError(f"--like {run_dir}: no finished session found there (no {TIMINGS}, or nothing was played)")
    return float(sum(session["turns"] for session in sessions) / replica_seconds)
