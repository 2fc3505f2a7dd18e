"""A dry run: episodes, model calls, tokens and estimated time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.config.plan import label_suites
from cluster.config.registry import ask_class
from cluster.config.settings import Settings, check_pictures
from cluster.models.cached_share import cached_table
from cluster.models.hardware import check_parallel, hardware_table, picture_rule, unchecked_arguments
from cluster.storage.stored_run import TIMINGS, Run
from evals.suite import counting_pictures
from evals.summary.cost import highest_prompt_price, money
from evals.tables import Cell, Table
from evals.types import Episode


def describe_plan(settings: Settings, like: Path | None) -> list[Table]:
    """The totals, with a time estimate if a past run tells the speed, else a note; then cells, GPUs and the prefix cache.

    Raises:
        UserError: the first picture of a task and level cannot be rendered, or the timings of ``like`` cannot be read.
    """
    pictures = check_pictures(settings)
    cells: dict[tuple[str, ...], list[Episode]] = {}
    for episode in settings.plan:
        cell = (episode.player, episode.suite, episode.task, episode.level, episode.mode)
        cells.setdefault(cell, []).append(episode)
    model = settings.model.name if settings.model.engine else None
    rows: list[tuple[Cell, ...]] = []
    for place, members in cells.items():
        # Only the model's episodes take calls.
        asked = members if place[0] == model else ()
        rows.append((*place, len(members), *map(round, _load(asked))))
    columns = ("player", "suite", "task", "level", "mode", "episodes", "model calls", "prompt tokens")
    modeled = [episode for episode in settings.plan if episode.player == model]
    calls, prompt_tokens = _load(modeled)
    of_labels = label_suites(settings.suite)
    label_calls, _ = _load([episode for episode in modeled if episode.suite in of_labels])
    completion_tokens = label_calls + (calls - label_calls) * settings.model.sampling.max_tokens
    total: list[tuple[str, str | int]] = [
        ("episodes", len(settings.plan)),
        ("episodes played by the model", len(modeled)),
        ("expected model calls", round(calls)),
        ("expected prompt tokens", round(prompt_tokens)),
        ("completion tokens, full-length replies", round(completion_tokens)),
        *_prices(settings, calls, prompt_tokens, completion_tokens, like),
    ]
    if pictures:
        total.append(("pictures of first turns, rendered", pictures))
    speed_of_one = None if like is None else _speed(like)
    if speed_of_one is not None:
        replicas = 1 if settings.cluster.replicas == "fit" else settings.cluster.replicas
        speed = speed_of_one * replicas
        minutes = calls / speed / 60
        total.append((f"minutes on {replicas} replicas, at the {speed:.1f} calls/s of {like}", f"{minutes:.1f}"))
        needs = settings.model.replica
        price = settings.cluster.gpu_hour_price * needs.gpus * needs.nodes * replicas
        if price:
            total.append(("cost of GPUs", f"{price * minutes / 60:.2f}"))
    price_note = ""
    if settings.model.engine:
        price_note = ask_class(settings.model.engine_class, "price_note", settings.model.engine)
    replica = settings.model.replica
    wasted = check_parallel(settings.model.engine, replica.gpus * replica.nodes)
    warnings = (wasted, unchecked_arguments(settings.model.engine))
    notes = [f"run directory: {settings.run_dir}"]
    if price_note:
        notes.append(price_note)
    if like is not None and speed_of_one is None:
        notes.append(
            f"--like {like}: no model was called in a finished session there ({TIMINGS}), so it tells neither time nor "
            "length of replies."
        )
    notes += [f"Warning: {text}." for text in warnings if text]
    title = f"Plan: {settings.suite.name} with {settings.model.name}"
    hardware = hardware_table(settings.model.engine, prompt_tokens, completion_tokens, calls)
    with counting_pictures(picture_rule(settings.model.engine)):
        cached = cached_table(settings.model.engine, settings.suite, modeled)
    tables = [
        Table("plan_total", title, ("metric", "value"), tuple(total), tuple(notes)),
        Table("plan", "Episodes", columns, tuple(rows)),
    ]
    tables += [table for table in (hardware, cached) if table is not None]
    return tables


def _prices(
    settings: Settings, calls: float, prompt_tokens: float, completion_tokens: float, like: Path | None
) -> list[tuple[str, str]]:
    """What the tokens cost at the engine's prices; nothing where it has none.

    Args:
        settings: Of the run.
        calls: Expected, of the model.
        prompt_tokens: Of all calls.
        completion_tokens: Of all calls, if every reply is as long as it may be.
        like: A past run, whose replies tell how long they are.
    """
    engine = settings.model.engine or {}
    prompt_price = highest_prompt_price(engine)
    completion_price = float(engine.get("completion_price") or 0)
    if not prompt_price and not completion_price:
        return []
    prompts = prompt_tokens * prompt_price / 1e6
    longest = completion_tokens * completion_price / 1e6
    found = [("cost of the prompts", money(prompts)), ("cost, full-length replies", money(prompts + longest))]
    if like is None:
        return found
    sessions = Run(like).timings
    turns = _total(sessions, "turns")
    if not turns:
        return found
    length = _total(sessions, "completion_tokens") / turns
    expected = prompts + calls * length * completion_price / 1e6
    found.append((f"cost at the {length:.0f} tokens a reply of {like}", money(expected)))
    return found


def _load(episodes: Sequence[Episode]) -> tuple[float, float]:
    """Calls and prompt tokens, as they are expected: not whole numbers, so that costs are those of ``report``."""
    return sum(episode.calls for episode in episodes), sum(episode.prompt_tokens for episode in episodes)


def _speed(run_dir: Path) -> float | None:
    """Model calls per second and replica of a past run; None where no model was called in a finished session."""
    sessions = Run(run_dir).timings
    replica_seconds = sum(session.get("playing_seconds", 0) * session.get("replicas", 0) for session in sessions)
    turns = _total(sessions, "turns")
    if replica_seconds <= 0 or turns <= 0:
        return None
    return float(turns / replica_seconds)


def _total(sessions: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(sum(session.get(name, 0) for session in sessions))  # a line may lack what later versions wrote
