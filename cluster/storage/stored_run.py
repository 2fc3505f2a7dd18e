"""Reads a run directory (configuration, plan, sessions, ledger), also while a driver writes to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from cluster.errors import RunFailedError, UserError
from cluster.storage.provenance import read_versions
from evals.ledger.ledger import Damage, Ledger, LedgerChangedError, LedgerDamagedError, open_ledger, until_unchanged
from evals.ledger.records import check_plan, plan_from_table
from evals.ledger.run_data import RunData
from evals.types import Episode

T = TypeVar("T")

DAMAGE_SHOWN = 20


def open_run(run_dir: Path) -> RunData:
    """A run as it is now, to be read lazily.

    Wrap reads in ``evals.ledger.ledger.until_unchanged``, which repeats a read that compaction disturbed.

    Raises:
        UserError: there is no run; or its plan is damaged; or its ledger is: a part cannot be read, or holds duplicate rows
            or rows that are not in the plan or differ from it. The message names each part.
    """
    plan = read_plan_table(run_dir)
    try:
        check_plan(plan)
    except ValueError as error:
        raise UserError(f"{run_dir / 'plan.parquet'}: damaged, cannot be read as a plan: {error}") from error
    return RunData.of_ledger(plan, sound_ledger(run_dir, plan), read_config(run_dir), read_versions(run_dir))


def reading(read: Callable[[], T], run_dirs: Sequence[Path] = ()) -> T:
    """What ``read`` finds in runs that it opens; it is repeated if parts of a ledger were merged meanwhile.

    Raises:
        UserError: a part of a ledger cannot be read after all; the message names ``run_dirs``.
        RunFailedError: parts were merged each time that it read.
    """
    try:
        return until_unchanged(read)
    except LedgerDamagedError as error:
        raise damaged(", ".join(map(str, run_dirs)), error.damage) from error
    except LedgerChangedError as error:
        raise RunFailedError(
            f"parts of the ledger were merged at each attempt to read it ({error}); try again"
        ) from error


def sound_ledger(run_dir: Path, plan: pa.Table) -> Ledger:
    """The run's ledger, checked against its plan.

    Raises:
        UserError: see ``open_run``.
    """
    ledger = open_ledger(run_dir, plan)
    if ledger.damage:
        raise damaged(run_dir, ledger.damage)
    return ledger


def damaged(run_dir: Path | str, damage: Sequence[Damage]) -> UserError:
    """The error for a ledger that cannot be read completely; the parts' own paths say where it is if ``run_dir`` is empty."""
    found = "\n".join(f"  {each.path}: {each.reason}" for each in damage[:DAMAGE_SHOWN])
    more = f"\n  and {len(damage) - DAMAGE_SHOWN} more" if len(damage) > DAMAGE_SHOWN else ""
    where = f"{run_dir}: " if run_dir else ""
    return UserError(
        f"{where}the ledger is damaged:\n{found}{more}\n"
        "To continue without these files, move them out of the episodes folder; `raycade run` replays their episodes."
    )


def read_episodes(run_dir: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """The run's ledger in one table; all columns but the bulky ``turns`` unless ``columns`` are named.

    Raises:
        UserError, RunFailedError: see ``open_run`` and ``reading``.
    """
    return reading(lambda: sound_ledger(run_dir, read_plan_table(run_dir)).table(columns), [run_dir])


def read_plan_table(run_dir: Path) -> pa.Table:
    """The plan of a run directory, as stored.

    Raises:
        UserError: there is none, or it is not a Parquet file.
    """
    path = run_dir / "plan.parquet"
    if not path.exists():
        raise UserError(f"{run_dir}: no run here (there is no plan.parquet)")
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: damaged, cannot be read as a plan: {error}") from error


def read_plan(run_dir: Path) -> list[Episode]:
    """The plan of a run directory.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    try:
        return plan_from_table(read_plan_table(run_dir))
    except ValueError as error:
        raise UserError(f"{run_dir / 'plan.parquet'}: damaged, cannot be read as a plan: {error}") from error


def read_config(run_dir: Path) -> dict[str, Any]:
    """The resolved configuration that a run started with.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    path = run_dir / "config.yaml"
    try:
        config = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        raise UserError(f"{run_dir}: no run here (there is no config.yaml)") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not YAML: {error}") from error
    if not isinstance(config, dict) or "suite" not in config:
        raise UserError(f"{path}: names no suite")
    return config
