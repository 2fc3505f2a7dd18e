"""``raycade kumo import-transcripts``: the published replies through our loop, decoder and scorer, into a ledger."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.commands.run import run as play
from cluster.config.settings import load_settings
from cluster.console import show, warn
from cluster.errors import RunFailedError, UserError
from cluster.storage.durable import write_durably
from cluster.storage.stored_run import Run
from envs.kumo.published import benchmark_domains, import_checkout, open_domain
from evals.ledger.run_data import RunData
from evals.players import BUILT_IN_PLAYERS
from evals.suites.kumo.import_transcripts import COLUMNS, Reread, reread, transcript_table, write_differences
from evals.suites.kumo.parallel import process_pool
from evals.suites.kumo.repeats import join_runs
from evals.suites.kumo.transcripts import (
    lines_of_other_tasks,
    lines_without_a_task,
    transcript_domains,
    transcript_players,
)

_LISTED = 6
"""Seeds that a warning names."""
_IN_PROCESS = 5_000
"""Episodes up to which one process is faster than starting Ray."""


def import_transcripts(options: argparse.Namespace) -> int:
    """Play the stored replies, and print the comparison.

    Raises:
        UserError: a folder or a model is missing.
        RunFailedError: the run cannot continue.
    """
    try:
        known = transcript_players(str(options.checkout))
        source = options.source or _import(options.checkout)
        benchmark_domains(str(source))
    except ValueError as error:
        raise UserError(str(error)) from error
    models = options.models or sorted(known)
    unknown = [name for name in models if name not in known]
    if unknown:
        raise UserError(f"--models: no transcripts of {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    taken = sorted(BUILT_IN_PLAYERS.keys() & set(models))
    if taken:
        names = ", ".join(taken)
        raise UserError(
            f"{options.checkout}/results/{names}: a built-in player has this name; rename the folder, or choose --models"
        )
    for name in models:
        for file, seeds in lines_of_other_tasks(str(options.checkout), name, partial(_tasks_of, str(source))).items():
            listed = ", ".join(map(str, seeds[:_LISTED])) + (", ..." if len(seeds) > _LISTED else "")
            lines = "line is" if len(seeds) == 1 else "lines are"
            warn(f"{file}: {source} has no task with seed {listed}: {len(seeds):,} {lines} not played")
        for file, count in lines_without_a_task(str(options.checkout), name).items():
            lines = "line names" if count == 1 else "lines name"
            warn(f"{file}: {count:,} {lines} no task, as if the file was cut; runs are missing from {name}'s figures")
    settings = load_settings(_overrides(options, source, models))
    worth_processes = len(settings.plan) > _IN_PROCESS
    if worth_processes and options.processes > 1:
        settings = load_settings([*_overrides(options, source, models), f"cluster.runners={options.processes}"])
    try:
        code, _ = play(settings)
    except RunFailedError as error:
        raise RunFailedError(f"{error}; run the same command again to resume") from error
    _compare(settings.run_dir, str(options.checkout), str(source), options.processes)
    return code


def _tasks_of(source: str, domain: str, level: str) -> frozenset[int]:
    """The indices of the imported tasks of a domain at a level; none of a domain that was not imported."""
    if domain not in benchmark_domains(source):
        return frozenset()
    return frozenset(each.task.index for each in open_domain(source, domain).tasks if each.level == level)


def _import(checkout: Path) -> Path:
    folder = Path("runs") / "kumo-published"
    if not (folder / "benchmark.json").is_file():
        folder.parent.mkdir(exist_ok=True)
        print(f"importing {checkout} into {folder}", file=sys.stderr)
        import_checkout(checkout, folder, lambda number, count, name: None)
    return folder


def _overrides(options: argparse.Namespace, source: Path, models: list[str]) -> list[str]:
    def quoted(value: object) -> str:
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"

    def listed(values: list[str]) -> str:
        return f"[{','.join(map(quoted, values))}]"

    overrides = [
        "suite=kumo",
        f"suite.source={quoted(source)}",
        f"suite.transcripts={quoted(options.checkout)}",
        f"suite.domains={listed(options.domains)}",
        *("suite.prompt=published", "suite.book=published", "suite.decoder=strict"),
        *("model=oracle", f"model.name={quoted(models[0])}", f"baselines={listed(models[1:])}"),
    ]
    return overrides + ([f"run_dir={quoted(options.run_dir)}"] if options.run_dir else [])


def _compare(run_dir: Path, checkout: str, source: str, processes: int) -> None:
    """Print the table, and write it and the list of differences."""
    data = Run(run_dir).data.of("kumo")
    rereads = list(_reread(data, checkout, source, processes))
    table = transcript_table(
        list(join_runs(data.plan, data.episodes())), rereads, partial(transcript_domains, checkout)
    )
    show([table])
    write_durably(run_dir / "tables" / f"{table.name}.csv", table.to_csv().encode())
    path = run_dir / "differences.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        count = write_differences((each for run in rereads for each in run.differences), file)
    print(f"{path}: {count:,} replies that our decoder reads otherwise")


def _reread(data: RunData, checkout: str, source: str, processes: int) -> Iterator[Reread]:
    batches = data.batches(COLUMNS)
    if processes == 1:
        for batch in batches:
            yield from _reread_batch(batch, checkout, source)
        return
    with process_pool(processes) as pool:
        pending = []
        for batch in batches:
            pending.append(pool.submit(_reread_batch, batch, checkout, source))
            if len(pending) > 2 * processes:
                yield from pending.pop(0).result()
        for future in pending:
            yield from future.result()


def _reread_batch(batch: pa.Table, checkout: str, source: str) -> list[Reread]:
    rows: list[Mapping[str, Any]] = batch.to_pylist()
    domains = {row["task"] for row in rows}
    tasks = {}
    for name in domains:
        for each in open_domain(source, name).tasks:
            tasks[name, each.level, each.task.index] = each.task
    return list(reread(rows, tasks, checkout))
