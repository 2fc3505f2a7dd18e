"""Shell completion: commands and options by argcomplete, overrides from the configuration, episodes from a run's plan.

Switched on in a shell by ``eval "$(register-python-argcomplete raycade)"``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster.config.keys import Key

MOST_EPISODES = 200
"""Ids that are offered at once."""


def completed_command() -> str:
    """The command in the line that a shell wants to have completed; empty where no shell does."""
    words = os.environ.get("COMP_LINE", "").split()
    return words[1] if len(words) > 1 else ""


def offer_completion(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and exit; in all other calls, do nothing."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, append_space=False)


def complete_overrides(argument: argparse.Action) -> None:
    """Have an argument completed as an override: a group with its options, or a key."""
    argument.completer = _overrides  # type: ignore[attr-defined]


def complete_episode(argument: argparse.Action) -> None:
    """Have an argument completed as an episode of the run that ``run_dir`` names."""
    argument.completer = _episodes  # type: ignore[attr-defined]


def _overrides(prefix: str, **_: Any) -> list[str]:
    from cluster.config.compose import ROOT_KINDS
    from cluster.config.keys import GROUPS

    key, equals, _value = prefix.partition("=")
    group, below, _rest = key.partition(".")
    # Settings below a group: ``suite.repeats=3``.
    keys: Mapping[str, Key] = {}
    if below and group in GROUPS:
        keys = _keys_below(group)
    # Before the equals sign names are offered: of these, or of the settings of the run itself.
    if not equals:
        names = keys if below else ROOT_KINDS
        return [f"{name}=" for name in names]
    # Behind it the values of what is named: a group's options (``suite=kumo``), or a setting's words.
    values: Iterable[str] = ()
    if key in GROUPS:
        values = sorted(_options(key))
    elif key in keys:
        values = keys[key].choices
    return [f"{key}={value}" for value in values]


def _options(group: str) -> set[str]:
    """What a group can select: files of ``conf``, and what has none, such as a plugin's classes."""
    from cluster.config.keys import options_of
    from cluster.config.registry import FOLDERS, names_without_file

    names = options_of(group)
    for section, folder in FOLDERS.items():
        if folder == group:
            names |= set(names_without_file(section))
    return names


def _keys_below(group: str) -> dict[str, Key]:
    from cluster.config.keys import keys_of

    found = {}
    for section, keys in keys_of(group, _selected(group)).items():
        for name, key in keys.items():
            found[f"{section}.{name}"] = key
    return found


def _selected(group: str) -> str:
    """What the line that is being completed selects for a group; without a word of it, the default."""
    defaults = {"suite": "demo", "model": "tiny", "tracker": "wandb", "cluster": "local"}
    named = [word.partition("=")[2] for word in os.environ.get("COMP_LINE", "").split() if word.startswith(f"{group}=")]
    return named[-1] if named else defaults[group]


def _episodes(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:

    from envs.files.parquet import read_parquet
    from evals.analysis.compare import SHORT_ID

    plan = Path(parsed_args.run_dir) / "plan.parquet"
    if not plan.exists():
        return []
    ids = read_parquet(plan, ("episode_id",))["episode_id"].to_pylist()
    return [name[:SHORT_ID] for name in ids if name.startswith(prefix)][:MOST_EPISODES]
