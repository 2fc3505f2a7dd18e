"""Joining the ledgers of runs that played parts of one plan (``shard=i/n``), without one big cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from cluster.errors import UserError
from cluster.ledger import RunDirectory, read_episodes, read_plan

OWN_AFFAIR = ("run_dir", "shard", "cluster", "tracker")
"""Sections in which runs that are joined may differ."""

TIMES = ("seconds", "cached_tokens", "turns")
"""Columns in which two runs of one episode may differ without being in conflict."""


def merge(target: Path, sources: Sequence[Path]) -> tuple[int, int]:
    """Join runs into a new run directory; returns the episodes planned and the rows joined.

    Raises:
        UserError: a run is missing or damaged, runs have different settings, or two say different things of one episode.
    """
    sources = list({source.resolve(): source for source in sources}.values())
    configs = [_config(source) for source in sources]
    for source, config in zip(sources[1:], configs[1:], strict=True):
        if differing := _differences(configs[0], config):
            raise UserError(
                f"{source} and {sources[0]} are not parts of one plan; they differ in {', '.join(differing)}"
            )
    plan = {episode.id: episode for source in sources for episode in read_plan(source)}
    owners = _check_conflicts(sources)
    directory = RunDirectory(target)
    directory.check_plan(list(plan.values()))
    directory.claim()
    try:
        there = set(read_episodes(target).table["episode_id"].to_pylist())
        config = {**configs[0], "shard": None, "run_dir": str(target)}
        directory.begin(list(plan.values()), {"config.yaml": yaml.safe_dump(config, sort_keys=False)})
        for source in sources:
            for part in sorted((source / "episodes").glob("*.parquet")):
                rows = pq.read_table(part)
                mine = [owners[name] == source and name not in there for name in rows["episode_id"].to_pylist()]
                if any(mine):
                    directory.commit(rows.filter(pa.array(mine)))
    finally:
        directory.release()
    return len(plan), len(owners)


def _config(run_dir: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load((run_dir / "config.yaml").read_text())
    except FileNotFoundError as error:
        raise UserError(f"{run_dir}: no run here (there is no config.yaml)") from error
    except yaml.YAMLError as error:
        raise UserError(f"{run_dir}/config.yaml: not YAML: {error}") from error
    return config if isinstance(config, dict) else {}


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(key for key in one.keys() | other.keys() if key not in OWN_AFFAIR and one.get(key) != other.get(key))


def _check_conflicts(sources: Sequence[Path]) -> dict[str, Path]:
    """Which run's row counts for each episode: the first one's."""
    owners: dict[str, Path] = {}
    ledgers = {source: read_episodes(source).table for source in sources}
    for source, ledger in ledgers.items():
        for episode_id in ledger["episode_id"].to_pylist():
            owner = owners.setdefault(episode_id, source)
            if owner != source and (found := _conflict(_row(ledgers[owner], episode_id), _row(ledger, episode_id))):
                raise UserError(f"{owner} and {source} disagree on episode {episode_id}: {found}")
    return owners


def _row(ledger: pa.Table, episode_id: str) -> dict[str, Any]:
    row: dict[str, Any] = ledger.filter(pc.equal(ledger["episode_id"], episode_id)).to_pylist()[0]
    return row


def _conflict(one: dict[str, Any], other: dict[str, Any]) -> str:
    names = [name for name in one.keys() | other.keys() if name not in TIMES and one.get(name) != other.get(name)]
    return ", ".join(f"{name} is {one.get(name)!r} and {other.get(name)!r}" for name in sorted(names))
