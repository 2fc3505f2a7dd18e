"""The commit of a model's files on the hub: told once by the driver, so that all replicas of a run load the same weights.

A branch such as ``main`` moves, and the caches of two nodes may be of different days. A commit is no part of an episode's id:
whoever names a branch gets the same ids tomorrow, and is told when the branch has moved.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.config.settings import Settings
from cluster.console import warn
from cluster.errors import UserError
from cluster.models.hub import TINY
from envs.settings import settings_of

COMMIT = re.compile(r"[0-9a-f]{40}")
SECONDS = 10.0
"""For the hub's answer."""


def with_commit(settings: Settings, sessions: Sequence[Mapping[str, Any]]) -> Settings:
    """The settings with the commit of the model's files: that of the run's earlier sessions, else the one of now.

    Args:
        settings: Of the run.
        sessions: Of the run so far, as stored.

    Raises:
        UserError: the branch has moved since the run began, and ``strict`` is set.
    """
    engine = settings.model.engine
    if engine is None or "revision" not in settings_of(settings.model.engine_class):
        return settings
    model, revision = str(engine.get("model") or ""), str(engine.get("revision") or "main")
    if not model or model == TINY or Path(model).is_dir():
        return settings
    now, before = commit_of(model, revision), _commit_before(sessions)
    if before and now and before != now:
        moved = f"{model}: {revision} is at {now} now, and was at {before} when this run began"
        if settings.strict:
            raise UserError(f"strict=true: {moved}")
        warn(f"{moved}; the run goes on with that one")
    commit = before or now
    return dataclasses.replace(settings, model=dataclasses.replace(settings.model, commit=commit))


def _commit_before(sessions: Sequence[Mapping[str, Any]]) -> str:
    """The commit that the latest session has noted; empty if none has."""
    for session in reversed(sessions):
        noted = session.get("surroundings")
        weights = noted.get("weights") if isinstance(noted, Mapping) else None
        if isinstance(weights, str) and COMMIT.fullmatch(weights):
            return weights
    return ""


def commit_of(model: str, revision: str) -> str:
    """The commit that a branch or tag names: on the hub, or without it in the cache; empty if neither tells.

    Args:
        model: ORGANIZATION/NAME on the hub.
        revision: A branch, a tag or a commit.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = HfApi().model_info(model, revision=revision, timeout=SECONDS).sha or ""
    except (
        Exception
    ):  # the hub is busy, unknown, or not to be asked: errors of several libraries; a replica's own is shown
        try:
            cached = try_to_load_from_cache(model, "config.json", revision=revision)
        except HFValidationError:
            cached = None
        found = Path(cached).parent.name if isinstance(cached, str) else ""
    return found if COMMIT.fullmatch(found) else ""
