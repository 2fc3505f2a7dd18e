"""Hydra multirun: one run after another, or wherever the chosen launcher puts them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from unittest import mock

import hydra
from omegaconf import DictConfig

from cluster.errors import UserError


def multirun(overrides: Sequence[str]) -> int:
    """Run every combination of the overrides' comma-separated values; returns the worst exit code."""
    codes: list[int] = []

    def one(config: DictConfig) -> None:
        codes.append(_one(config))

    decorated = hydra.main(version_base="1.3", config_path="pkg://conf", config_name="config")(one)
    with mock.patch.object(sys, "argv", ["raycade", "--multirun", *overrides]):
        decorated()
    return max(codes, default=0)


def _one(config: DictConfig) -> int:
    from cluster.cli import BAD_INPUT, LONGEST_SHOWN, show
    from cluster.run import run
    from cluster.settings import settings_from_config

    try:
        settings = settings_from_config(config)
        code, tables = run(settings)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    show(tables, LONGEST_SHOWN)
    print(f"\nledger, tables and summary: {settings.run_dir}")
    return code
