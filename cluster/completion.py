"""Shell completion: commands and options by argcomplete, overrides from the configuration, episodes from a run's plan.

Switched on in a shell by ``eval "$(register-python-argcomplete raycade)"``.
"""

from __future__ import annotations

import argparse
import os
from importlib import resources
from pathlib import Path
from typing import Any

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
    from cluster.config.registry import BUILT_IN, names_of
    from cluster.config.settings import SECTIONS

    key, equals, _rest = prefix.partition("=")
    groups = {"suite": "suite", "model": "model.engine", "tracker": "tracker", "cluster": ""}
    if not equals:
        return [f"{section}=" for section in SECTIONS]
    if key not in groups:
        return []
    folder = resources.files("conf").joinpath(key)
    names = {path.name.removesuffix(".yaml") for path in folder.iterdir() if path.name.endswith(".yaml")}
    if groups[key]:
        names |= names_of(groups[key]).keys() - BUILT_IN[groups[key]].keys()
    return [f"{key}={name}" for name in sorted(names)]


def _episodes(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    import pyarrow.parquet as pq

    from envs.files import regular
    from evals.analysis.compare import SHORT_ID

    plan = Path(parsed_args.run_dir) / "plan.parquet"
    if not plan.exists():
        return []
    ids = pq.read_table(regular(plan), columns=["episode_id"])["episode_id"].to_pylist()
    return [name[:SHORT_ID] for name in ids if name.startswith(prefix)][:MOST_EPISODES]
