"""``raycade settings``: the keys that can be set, with type, default and meaning; for editors as a JSON schema."""

from __future__ import annotations

import argparse
import json

from cluster.config.keys import GROUPS, keys_of, schema
from cluster.config.registry import plain_default
from cluster.console import show
from cluster.errors import UserError
from envs.settings import Setting, describe, shown
from envs.suggest import did_you_mean
from evals.tables import Cell, Table


def main(options: argparse.Namespace) -> None:
    """Print tables or a schema.

    Raises:
        UserError: there is no such group or name.
    """
    chosen = [_read(text) for text in options.groups]
    if options.schema:
        if len(chosen) > 1:
            raise UserError("--schema: describes one group at a time")
        print(json.dumps(schema(*chosen[0]), indent=2))
        return
    show([table for group, name in chosen for table in _tables(group, name)])


def _read(text: str) -> tuple[str, str]:
    group, _, name = text.partition("=")
    if group not in GROUPS or (group != "cluster" and not name):
        near = "" if group in GROUPS else did_you_mean(group, GROUPS)
        raise UserError(f"{text}: must be suite=NAME, model=NAME, tracker=NAME or cluster{near}")
    return group, name


def _default(setting: Setting) -> str:
    if setting.required:
        return "required"
    return shown(plain_default(setting))


def _tables(group: str, name: str) -> list[Table]:
    title = f"{group}={name}" if name else group
    tables = []
    for section, keys in keys_of(group, name).items():
        rows: list[tuple[Cell, ...]] = []
        for key, declared in keys.items():
            setting = declared.setting
            rows.append((f"{section}.{key}", describe(setting.kind), _default(setting), declared.help))
        tables.append(Table(section, title, ("key", "type", "default", "meaning"), tuple(rows)))
    return tables
