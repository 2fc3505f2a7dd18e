"""The commit of a model's files on the hub: told once by the driver, so that all replicas of a run load the same weights.

A branch such as ``main`` moves, and the caches of two nodes may be of different days. A commit is no part of an episode's id:
whoever names a branch gets the same ids tomorrow, and is told when the branch has moved.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.config.settings import Settings
from cluster.console import warn
from cluster.engines.hub_answers import hub_answer
from cluster.errors import UserError
from cluster.models.hub import TINY
from envs.settings import settings_of

COMMIT = re.compile(r"[0-9a-f]{40}")
SECONDS = 10.0
"""For the hub's answer."""
PATIENCE_SECONDS = 300.0
"""For so long a busy hub is retried: hubs count requests over some minutes, and their faults rarely last longer."""
LONGEST_PAUSE = 30.0
"""Seconds between two questions: 2, 4, 8 and so on until this, or as long as the hub asks for."""


def with_commit(settings: Settings, sessions: Sequence[Mapping[str, Any]]) -> Settings:
    """The settings with the commit of the model's files: that of the run's earlier sessions, else the one of now.

    Args:
        settings: Of the run.
        sessions: Of the run so far, as stored.

    Raises:
        UserError: the branch has moved since the run began, and ``strict`` is set.
    """
    named = _named_on_hub(settings)
    if named is None:
        return settings
    model, revision = named
    # A run that knows its commit can go on without the hub; a new one waits for it.
    before = _commit_before(sessions)
    patience = 0.0 if before else PATIENCE_SECONDS
    now = commit_of(model, revision, patience=patience)
    if not before:
        return _at_commit(settings, now)
    # Where the hub does not answer, nothing is known to have moved.
    if now and now != before:
        moved = f"{model}: {revision} is at {now} now, and was at {before} when this run began"
        if settings.strict:
            raise UserError(f"strict=true: {moved}")
        warn(f"{moved}; the run goes on with that one")
    return _at_commit(settings, before)


def _named_on_hub(settings: Settings) -> tuple[str, str] | None:
    """The model's name on the hub and its revision; None for others, which have no commits."""
    engine = settings.model.engine
    if engine is None:
        return None
    if "revision" not in settings_of(settings.model.engine_class):
        return None
    model = str(engine.get("model") or "")
    if not model or model == TINY or Path(model).is_dir():
        return None
    return model, str(engine.get("revision") or "main")


def _at_commit(settings: Settings, commit: str) -> Settings:
    return dataclasses.replace(settings, model=dataclasses.replace(settings.model, commit=commit))


def _commit_before(sessions: Sequence[Mapping[str, Any]]) -> str:
    """The commit that the latest session has noted; empty if none has."""
    for session in reversed(sessions):
        noted = session.get("surroundings")
        weights = noted.get("weights") if isinstance(noted, Mapping) else None
        if isinstance(weights, str) and COMMIT.fullmatch(weights):
            return weights
    return ""


def commit_of(model: str, revision: str, patience: float = 0.0) -> str:
    """The commit that a branch or tag names: on the hub, or without it in the cache; empty if neither tells.

    Args:
        model: ORGANIZATION/NAME on the hub.
        revision: A branch, a tag or a commit.
        patience: Seconds for which a busy hub is retried, if the cache does not know either. No replica could start
            meanwhile; after that, replicas load what the hub gives them, and their errors are shown.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi

    end, pause = time.monotonic() + patience, 2.0
    while True:
        try:
            found = HfApi().model_info(model, revision=revision, timeout=SECONDS).sha or ""
            return found if COMMIT.fullmatch(found) else ""
        except Exception as error:  # the hub is busy, unknown, or not to be asked: errors of several libraries
            answer, cached = hub_answer(error), _cached_commit(model, revision)
        if cached:
            return cached
        # What is wrong besides a busy hub, a replica's own error says.
        if answer is None or not answer.busy:
            return ""
        pause = max(pause, answer.retry_after)
        if time.monotonic() + pause > end:
            return ""
        warn(f"the hub is busy ({answer.text}): asking for {model} again in {pause:g} s")
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _cached_commit(model: str, revision: str) -> str:
    """The commit that a branch or tag had when the cache last saw it; empty if it has not."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:
        return ""
    found = Path(cached).parent.name if isinstance(cached, str) else ""
    return found if COMMIT.fullmatch(found) else ""
