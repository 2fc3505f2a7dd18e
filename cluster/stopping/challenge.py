"""Sealed games: a secret that seeds are drawn from, the hash that commits to it, and the check of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.config.plan import make_suite
from cluster.console import raycade
from cluster.errors import UserError, cannot_write
from cluster.storage.durable import create_durably
from cluster.storage.stored_run import Run
from envs.files import real_path
from evals.sealed import PREFIX, commitment_of, new_secret, read_secret
from evals.tables import Cell, Table


def new_challenge(path: Path) -> str:
    """Draw a secret into a new file that only its owner may read; returns what to do with it.

    Raises:
        UserError: the file exists or cannot be written.
        RunFailedError: the disk takes no more.
    """
    try:
        create_durably(path, new_secret().encode("ascii"), rights=0o600)
    except FileExistsError as error:
        raise UserError(f"{path}: exists; a challenge is never written over") from error
    except OSError as error:
        raise cannot_write(path, error) from error
    return (
        f"{path}: keep it to yourself until all players have played\n"
        f"publish now: SHA-256 {commitment_of(_secret(path))}\n"
        f"play it: {raycade('run', f'suite.seeds={PREFIX}{path}')}"
    )


def open_challenge(path: Path, published: str) -> str:
    """The secret, for everybody.

    Raises:
        UserError: it is not what was committed to.
    """
    secret = _checked(path, published)
    return f"{path}: is what was committed to\nsecret: {secret}"


def check_run(run: Run, path: Path, published: str) -> tuple[Table, int]:
    """Whether a run played the games of a secret, and how many others: their seeds are drawn again and compared.

    Raises:
        UserError: the secret is not what was committed to, or the run's suite cannot be planned.
    """
    _checked(path, published)
    suite = make_suite(_with_seeds(run.config["suite"], f"{PREFIX}{real_path(path)}"))
    expected = {}
    for part in suite.parts:
        for episode in part.plan():
            game = (episode.suite, episode.task, episode.level, episode.index)
            expected[game] = episode.seed
    columns = (run.planned[name].to_pylist() for name in ("suite", "task", "level", "index", "seed"))
    counts: dict[str, list[int]] = {}
    for name, task, level, index, seed in zip(*columns, strict=True):
        same, other = counts.setdefault(name, [0, 0])
        is_same = expected.get((name, task, level, index)) == seed
        counts[name] = [same + is_same, other + (not is_same)]
    rows: list[tuple[Cell, ...]] = []
    for name, (same, other) in counts.items():
        rows.append((name, same, other, "yes" if not other else "NO"))
    columns_shown = ("suite", "sealed episodes", "others", "all sealed")
    table = Table("challenge", f"{run.path}: games of the challenge", columns_shown, tuple(rows))
    return table, sum(other for _, other in counts.values())


def _checked(path: Path, published: str) -> str:
    secret = _secret(path)
    if commitment_of(secret) != published.lower():
        raise UserError(f"{path}: its hash is {commitment_of(secret)}, not {published}: this is another secret")
    return secret


def _secret(path: Path) -> str:
    try:
        return read_secret(path)
    except ValueError as error:
        raise UserError(str(error)) from error


def _with_seeds(section: Mapping[str, Any], seeds: str) -> dict[str, Any]:
    """A suite's section with these seeds; a bundle's parts each."""
    if "suites" in section:
        return {**section, "suites": [_with_seeds(part, seeds) for part in section["suites"]]}
    return {**section, "seeds": seeds}
