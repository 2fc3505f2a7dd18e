"""From a ledger to tables and a summary: pure, at any time, on a partial ledger too."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cluster.commands.trained_on import training_lines
from cluster.config.plan import label_suites, make_suite
from cluster.console import say, say_status, show, show_summary, warn
from cluster.errors import RunFailedError, UserError, cannot_write
from cluster.observe.performance import performance_table, replica_table
from cluster.storage.durable import write_durably
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run, read_runs
from envs.files import real_path, shown_files
from evals.analysis.labels import run_names
from evals.ledger.run_data import RunData, count_rows
from evals.notes import NotesFile, notes_table
from evals.report.joint import Report, RunReport, relabeled
from evals.suite import Suite, built_in_names
from evals.suite_results import suite_results
from evals.summary.cost import cost_table, costs_of, total_usage
from evals.summary.failures import Cause, causes_of, failure_table, failures_to_json
from evals.summary.reliability import reliability_table
from evals.summary.reply_health import reply_health, reply_table, reply_warnings
from evals.summary.status import imported_lines, is_imported, status_lines
from evals.summary.usage import usage_table
from evals.tables import Cell, Table, table_files

ANYTIME_VALID = (
    "Intervals are anytime-valid, so they also hold where the run stopped (docs/stopping_mathematics.md); those of means "
    "without bounds are from about 50 games on."
)
COUNTS = ("planned", "done", "failed", "missing")


@dataclass(frozen=True)
class Results:
    """What scoring a run gives."""

    tables: list[Table]
    summary: dict[str, Any]
    """What ``summary.json`` holds: counts and tables of scores; no times, so that a resumed run's equals an undisturbed
    one's."""
    parts: frozenset[str]
    """The parts of the ledger that were scored."""
    warnings: tuple[str, ...] = ()
    """What makes scores doubtful: many replies that were cut off, filtered, refused, or empty."""
    status: Sequence[str] = ()
    """What must be known before the scores are read (``evals.summary.status``)."""
    written: bool = True
    """Whether tables and summary are files of the run directory."""

    def warn(self) -> None:
        """Print the warnings."""
        for text in self.warnings:
            warn(text)


@dataclass(frozen=True)
class Files:
    """What a report writes beside the run directories' own tables; None is not wanted."""

    html: Path | None = None
    """One file."""
    latex: Path | None = None
    """A folder."""
    figures: Path | None = None
    """A folder."""
    width: Literal["column", "text"] | None = None
    """Of figures; by default a column for one panel, the text for more."""
    radar: bool = False
    """Whether dots on one scale are drawn as radars."""

    @property
    def wanted(self) -> list[Path]:
        """Where something is written."""
        return [path for path in (self.html, self.latex, self.figures) if path is not None]


def report(run_dirs: Sequence[Path], full: bool = True, files: Files | None = None, names: Sequence[str] = ()) -> None:
    """Score runs, write their tables where that is possible and overwrites nothing newer, and show them.

    Tables of several runs are joined on the terminal and in ``files``. ``names`` are labels of the runs, in their order,
    for players that several of them have; by default what tells their settings apart.

    Raises:
        UserError: there is no run, or its ledger is damaged, or ``files`` cannot be written, or
            there are more or fewer names than runs, or equal ones.
    """
    files = files or Files()
    _check_asked(run_dirs, files, names)
    runs = [Run(path) for path in run_dirs]

    def read() -> tuple[list[Results], Report, dict[Path, bytes]]:
        suites = [make_suite(run.config["suite"]) for run in runs]
        results = [_score(run, run.data, suite) for run, suite in zip(runs, suites, strict=True)]
        joint = _joint(runs, suites, results, names)
        return results, joint, _contents(joint, files)

    # All is read before anything is shown or written: a driver may replace files meanwhile, and then it is read again.
    results, joint, contents = read_runs(runs, read)
    obstacles = [_write_if_current(run, each) for run, each in zip(runs, results, strict=True)]
    several = len(results) > 1
    for one, each in zip(joint.runs, results, strict=True):
        lines = each.status
        if several:
            lines = [f"{one.name}: {line}" for line in lines]
        say_status(lines)
    if full:
        show(joint.tables())
    else:
        show_summary(joint.tables(), written=not any(obstacles))
    for run, each, obstacle in zip(runs, results, obstacles, strict=True):
        each.warn()
        if obstacle:
            warn(f"{run.path}: the tables above are not written: {obstacle}")
    for path, content in contents.items():
        _write(path, content)
    for written in files.wanted:
        say(f"written: {written}")


def _check_asked(run_dirs: Sequence[Path], files: Files, names: Sequence[str]) -> None:
    """See that a report of these runs can be made.

    Raises:
        UserError: the page would replace a file of another kind, names are missing or equal, or a run is named twice.
    """
    if files.html and not files.html.is_dir() and files.html.suffix not in (".html", ".htm"):
        raise UserError(f"--html {files.html}: is replaced if it exists, so its name must end with .html")
    if names and (len(names) != len(run_dirs) or len(set(names)) < len(names)):
        raise UserError(f"--names: {len(run_dirs)} runs need as many different names, separated by commas")
    # Two paths of one run would count its games twice.
    resolved = [real_path(path) for path in run_dirs]
    for path, place in zip(run_dirs, resolved, strict=True):
        if resolved.count(place) > 1:
            raise UserError(f"{path}: is named twice")


def _joint(runs: Sequence[Run], suites: Sequence[Suite], results: Sequence[Results], labels: Sequence[str]) -> Report:
    """The runs under names of their own, players too; runs whose players got other names are scored again."""
    names = _folder_names(runs)
    built_in: set[str] = set()
    for suite in suites:
        built_in.update(built_in_names(suite))
    own_labels = dict(zip(names, labels, strict=True)) if labels else None
    stored = {name: run.data for name, run in zip(names, runs, strict=True)}
    relabeled_data = relabeled(stored, built_in, own_labels)
    shown = own_labels or _shown_names(dict(zip(names, runs, strict=True)))
    reports = []
    for name, run, suite, scored in zip(names, runs, suites, results, strict=True):
        data = relabeled_data[name]
        tables = scored.tables
        if data is not run.data:
            tables = _score(run, data, suite).tables
        reports.append(RunReport(shown[name], data, suite, tables, (*scored.status, *scored.warnings)))
    return Report(reports)


def _folder_names(runs: Sequence[Run]) -> list[str]:
    """The last part of each run's path; the whole path where two end alike."""
    folders = [real_path(run.path).name for run in runs]
    names = []
    for run, folder in zip(runs, folders, strict=True):
        shared = folders.count(folder) > 1
        names.append(str(run.path) if shared else folder)
    return names


def _shown_names(runs: Mapping[str, Run]) -> Mapping[str, str]:
    """What readers are told each run is: what sets it apart from the others."""
    if any(is_imported(run.sessions) for run in runs.values()):
        # An import has only some of a run's settings: those that it lacks tell nothing.
        return {name: name for name in runs}
    return run_names({name: run.config for name, run in runs.items()})


def _contents(joint: Report, files: Files) -> dict[Path, bytes]:
    """What goes into each file."""
    found: dict[Path, bytes] = {}
    if not files.wanted:
        return found
    from evals.archive.one_file import one_file
    from evals.report.build import figure_files, latex_files, page_of  # matplotlib takes a second to import
    from evals.report.panels import Look

    if files.html:
        found[files.html] = one_file(page_of(joint)).encode()
    if files.latex:
        for name, text in latex_files(joint).items():
            found[files.latex / name] = text.encode()
    if files.figures:
        look = Look(files.width, files.radar)
        for name, content in figure_files(joint.figures(), look).items():
            found[files.figures / name] = content
    return found


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their names into a folder, and say so.

    Raises:
        UserError: they cannot be written.
    """
    for name, content in files.items():
        _write(folder / name, content)
    say(f"written: {folder}")


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
    except OSError as error:
        raise cannot_write(path, error) from error


def score_run(run: Run) -> Results:
    """All tables of a run, and its summary.

    Raises:
        UserError: there is no run, or its ledger is damaged.
    """
    return read_runs([run], lambda: _score(run, run.data, make_suite(run.config["suite"])))


def _score(run: Run, data: RunData, suite: Suite) -> Results:
    """As ``score_run``; ``data`` may have other names of players than are stored."""
    with data.intervals():
        results = _scored(run, data, suite)
    return _with_stopping(results, run, data) if data.stopping else results


def _with_stopping(results: Results, run: Run, data: RunData) -> Results:
    """The results with what the stopping rule said, in the summary and under every table that has intervals."""
    state = run.stopping
    said = data.stopping if state is None else state.lines()
    sentences = [f"{each[:1].upper()}{each[1:]}." for each in said]
    # One sentence stands under each such table too; several stand in the status alone.
    notes: tuple[str, ...] = (ANYTIME_VALID,)
    if len(sentences) == 1:
        notes = (*sentences, ANYTIME_VALID)
    tables = []
    for table in results.tables:
        noted = dataclasses.replace(table, notes=(*table.notes, *notes)) if table.has_intervals else table
        tables.append(noted)
    scored = {each["name"] for each in results.summary["tables"]}
    stored = [table.to_json() for table in tables if table.name in scored]
    summary = {**results.summary, "tables": stored}
    lines = [*sentences]
    not_needed = len(run.planned) - results.summary["planned"]
    if state is not None:  # an imported run has the sentences alone
        summary |= {"not_needed": not_needed, "stopping": state.to_json()}
    if state is not None and state.stopped:
        lines.append(
            f"{not_needed:,} of {len(run.planned):,} planned episodes are not needed; scores cover the others."
        )
    return dataclasses.replace(results, tables=tables, summary=summary, status=[*lines, *results.status])


def _scored(run: Run, data: RunData, suite: Suite) -> Results:
    data.episodes()  # all columns but turns: one pass over the parts for all tables
    causes, health, costs = causes_of(data), reply_health(data), costs_of(data, label_suites(suite))
    warnings = reply_warnings(health)
    common = [coverage(data), failure_table(causes), reply_table(health)]
    # The results come first; how many episodes and replies they stand on follows.
    scores = suite_results(suite, data, "scores")
    scores += [table for table in common if table is not None]
    scores += suite_results(suite, data, "diagnostics")
    reliability = reliability_table(data)
    if reliability is not None:
        scores.append(reliability)
    summary = {**summarize(data, scores, causes), "warnings": warnings}
    if costs is not None:
        summary |= costs.to_json()
    notes = NotesFile(run.path).read()
    # What depends on times and routing stays out of the summary.
    times = [
        cost_table(costs) if costs is not None else None,
        usage_table(data),
        performance_table(run.timings, run.sessions),
        replica_table(run.timings),
        sessions_table(data),
        *suite_results(suite, data, "performance"),
        notes_table(data, notes.notes),  # may be written after the run, so not in the summary
    ]
    counts = {name: summary[name] for name in COUNTS}
    missing_or_failed = status_lines(counts, causes, is_imported(data.sessions), bool(data.stopping))
    unread = [f"notes that are not shown: {line}" for line in notes.damage]
    status = [*imported_lines(data.sessions), *training_lines(run), *missing_or_failed, *unread]
    tables = [*scores, *(table for table in times if table is not None)]
    return Results(tables, summary, data.parts, tuple(warnings), status)


def coverage(run: RunData) -> Table:
    """Planned, done, failed and missing episodes of each player and suite."""
    statuses: Counter[tuple[str, ...]] = Counter()
    for rows in run.batches(["player", "suite", "status"]):
        statuses.update(count_rows(rows, ["player", "suite", "status"]))
    table: list[tuple[Cell, ...]] = []
    for (player, suite), planned in count_rows(run.plan, ["player", "suite"]).items():
        done, failed = (statuses[player, suite, status] for status in ("done", "failed"))
        table.append((player, suite, planned, done, failed, planned - done - failed))
    return Table(
        name="coverage",
        title="Episodes",
        columns=("player", "suite", "planned", "done", "failed", "missing"),
        rows=tuple(table),
        headline=True,
    )


def summarize(
    run: RunData, tables: Sequence[Table], causes: Mapping[tuple[str, str], Sequence[Cause]]
) -> dict[str, Any]:
    """What ``summary.json`` holds."""
    statuses: Counter[tuple[str, ...]] = Counter()
    for rows in run.batches(["status"]):
        statuses.update(count_rows(rows, ["status"]))
    done, failed = statuses["done",], statuses["failed",]
    counts = (len(run.plan), done, failed, len(run.plan) - done - failed)
    return {
        **dict(zip(COUNTS, counts, strict=True)),
        "failures": failures_to_json(causes),
        **total_usage(run),
        "tables": [table.to_json() for table in tables],
    }


def sessions_table(run: RunData) -> Table | None:
    """What the sessions of a run played, and with what; None where there was one only."""
    episodes: Counter[tuple[str, ...]] = Counter()
    successes: Counter[tuple[str, ...]] = Counter()
    for batch in run.batches(["session", "success"]):
        episodes.update(count_rows(batch, ["session"]))
        successes.update(count_rows(batch.filter(batch["success"]), ["session"]))
    rows: list[tuple[Cell, ...]] = []
    for session in run.sessions:
        key = (str(session.get("id")),)
        versions = [session.get(name) for name in ("git_commit", "vllm", "torch")]
        share = successes[key] / episodes[key] if episodes[key] else None
        rows.append((*key, session.get("began"), *versions, episodes[key], share))
    if len(rows) < 2:
        return None
    columns = ("session", "began", "git commit", "vllm", "torch", "episodes", "success")
    notes = ("Episodes whose latest attempt the session played.",)
    return Table("sessions", "Sessions", columns, tuple(rows), notes, section="performance")


def _write_if_current(run: Run, results: Results) -> str:
    """Write results, or say why not: a driver at work writes its own, and newer ones must stay."""
    directory = RunDirectory(run.path)
    try:
        directory.claim()
    except (UserError, RunFailedError) as error:
        return str(error)
    try:
        if {part.name for part in shown_files(directory.parts, "*.parquet")} != results.parts:
            return "the run went on meanwhile; ask again"
        write_results(directory, results)
    except OSError as error:
        return str(error)
    finally:
        directory.release()
    return ""


def write_results(run: Run, results: Results) -> None:
    """``summary.json`` and each table as CSV, Markdown and JSON below ``tables/``.

    Raises:
        OSError: they cannot be written.
    """
    folder = run.path / "tables"
    folder.mkdir(exist_ok=True)
    for name, content in table_files(results.tables).items():
        write_durably(folder / name, content)
    summary = json.dumps(results.summary, indent=2, ensure_ascii=False) + "\n"
    write_durably(run.path / "summary.json", summary.encode())
