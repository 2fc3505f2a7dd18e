"""Paired differences between two entries of a board, as JSON values for the page of results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evals.results.entries import Entry, Score
from evals.stats.intervals import Estimate
from evals.stats.power import smallest_difference
from evals.summary.paired import Effect, Observation, holm, paired_effects


def overall_effect(one: Entry, other: Entry, measure: str = "") -> Effect | None:
    """The paired difference of a measure, by default the first; None where no game is shared."""
    mine, theirs = ([score for score in entry.scores if measure in ("", score.measure)] for entry in (one, other))
    if not mine or not theirs:
        return None
    effects = paired_effects(mine[0].observations(), theirs[0].observations())
    return effects[0] if effects else None


def differences_to(entries: Mapping[str, Entry], baseline: str) -> dict[str, dict[str, Any]]:
    """The overall difference of each other entry to the baseline's, p corrected for their number."""
    beside = entries.get(baseline)
    if beside is None:
        return {}
    known: dict[str, Effect] = {}
    for name, entry in entries.items():
        if entry is beside:
            continue
        effect = overall_effect(entry, beside)
        if effect is not None:
            known[name] = effect
    corrected = holm([effect.p for effect in known.values()])
    return {name: _effect(effect, p) for (name, effect), p in zip(known.items(), corrected, strict=True)}


def are_shares(values: Iterable[float]) -> bool:
    """Whether values read as points of a hundred: all lie from 0 to 1."""
    return all(0 <= value <= 1 for value in values)


def shared_effects(one: Entry, other: Entry) -> list[tuple[Score, Score, Effect]]:
    """The overall paired difference of each measure that both have, with their scores."""
    there = {score.measure: score for score in other.scores}
    found = []
    for score in one.scores:
        effect = overall_effect(one, other, score.measure) if score.measure in there else None
        if effect is not None:
            found.append((score, there[score.measure], effect))
    return found


def measure_values(one: Score, other: Score, overall: Effect) -> dict[str, Any]:
    """A measure of two entries: the difference overall, by task and by cell."""
    return {
        "measure": one.measure,
        "share": are_shares((*one.values, *other.values)),
        "better": one.better,
        "overall": _effect(overall, 1.0),
        "detects": _finite(smallest_difference(overall.error, overall.games)),
        "dimensions": list(one.dimensions),
        "tasks": _effects(one.observations(1), other.observations(1)),
        "cells": _effects(one.observations(len(one.dimensions)), other.observations(len(one.dimensions))),
    }


def _effects(one: Sequence[Observation], other: Sequence[Observation]) -> list[dict[str, Any]]:
    """The differences of all cells, the largest first, p corrected for their number."""
    effects = paired_effects(one, other)
    corrected = holm([effect.p for effect in effects])
    shown = [_effect(effect, p) for effect, p in zip(effects, corrected, strict=True)]
    return sorted(shown, key=lambda each: (-abs(each["difference"]["mean"]), each["cell"]))


def _effect(effect: Effect, corrected: float) -> dict[str, Any]:
    return {
        "cell": list(effect.cell),
        "first": effect.first,
        "second": effect.second,
        "difference": interval_values(effect.difference),
        "p": effect.p,
        "holm": corrected,
        "games": effect.games,
    }


def interval_values(estimate: Estimate) -> dict[str, Any]:
    """A mean with its interval; ends that there are not are null."""
    ends = {"low": _finite(estimate.low), "high": _finite(estimate.high)}
    return {"mean": estimate.mean, **ends, "n": estimate.n}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
