"""``raycade run --from RUN``: the same run once more, in a directory of its own, and what is different this time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cluster.commands.run import run_and_show
from cluster.config.compose import GROUPS, as_written, compose_config, plain_values
from cluster.config.settings import Settings, settings_from_config
from cluster.config.stored import stored_sections
from cluster.console import say_status
from cluster.errors import UserError
from cluster.storage.provenance import changes
from cluster.storage.stored_run import Run
from envs.files import parse_yaml, real_path

ACTED_ON = ("suite", "model")
"""Sections whose stored values are checked before they are acted on."""
NOT_REPEATED = {"run_dir": None, "name": None, "retry_failed": False, "preregistration": None}
"""What belongs to one run alone."""


def repeat(run_dir: Path, overrides: Sequence[str]) -> int:
    """Play a run again and say what differs; returns the exit code.

    Raises:
        UserError: there is no run, or its settings cannot be used here.
    """
    source = Run(run_dir)
    settings = repeated_settings(source, overrides)
    for line in what_differs(source, settings):
        say_status([line])
    return run_and_show(settings)


def repeated_settings(source: Run, overrides: Sequence[str]) -> Settings:
    """The settings of a stored run with the values that the command line gives, for another directory.

    Raises:
        UserError: see ``repeat``.
    """
    source.check_begun()
    # model=NAME replaces the whole section: its values, and those set beside it, are the user's own.
    chosen = {_section(each) for each in overrides if each.partition("=")[0] in GROUPS}
    of_chosen = [each for each in overrides if _section(each) in chosen]
    of_stored = [each for each in overrides if each not in of_chosen]
    composed = plain_values(compose_config(of_chosen)) if chosen else {}
    acted_on = [each for each in of_stored if _section(each) in ACTED_ON]
    sections = stored_sections(source.path, source.config, [each for each in ACTED_ON if each not in chosen], acted_on)
    sections |= {name: composed[name] for name in chosen}
    # what versions after the run's have added
    root = compose_config([]).items_ex(resolve=False)
    added = {str(name): value for name, value in root if name not in source.config}
    config = OmegaConf.create({**added, **as_written({**source.config, **sections}), **NOT_REPEATED})
    config.run_dir = f"{source.path}-again"
    for override in of_stored:
        if override in acted_on:
            continue
        key, equals, value = override.partition("=")
        try:
            if not equals:
                raise ValueError("name settings as KEY=VALUE")
            # A folder's name is text, as it stands; null and nothing ask for the usual one, as in other runs.
            if key == "run_dir" and value in ("", "null"):
                continue
            read = value if key == "run_dir" else parse_yaml(value, override)
            OmegaConf.update(config, key, as_written(read), force_add=False)
        except (OmegaConfBaseException, TypeError, ValueError) as error:
            raise UserError(f"{override}: {str(error).splitlines()[0]}") from error
    settings = settings_from_config(config)
    if real_path(settings.run_dir) == real_path(source.path):
        raise UserError(f"run_dir={settings.run_dir}: is the run that is repeated; give another one")
    return settings


def _section(override: str) -> str:
    """``model`` of ``model=NAME`` and of ``model.engine.model=NAME``."""
    return re.split(r"[.=]", override, maxsplit=1)[0]


def what_differs(source: Run, settings: Settings) -> list[str]:
    """One text for each thing that is not as it was; one that says so where nothing is."""
    planned = set(source.planned["episode_id"].to_pylist())
    same = planned & {episode.id for episode in settings.plan}
    found: list[str] = []
    if len(same) < max(len(planned), len(settings.plan)):
        text = f"episodes: {len(same)} of {len(planned)} have the same id"
        if len(same) < len(planned):
            text += " (settings or versions of prompts differ)"
        if len(settings.plan) != len(planned):
            text += f"; {len(settings.plan)} are planned now"
        found.append(text)
    ids: list[Any] = [session["id"] for session in source.sessions]
    found += changes(source.sessions, ids, parse_yaml(settings.config, "config"))
    if not found:
        return [f"repeats {source.path}; nothing differs"]
    return [f"differs from {source.path}: {each}" for each in found]
