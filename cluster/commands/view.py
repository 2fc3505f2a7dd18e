"""``raycade view``: a local web app that shows the episodes of runs."""

from __future__ import annotations

import argparse
import functools
import math
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import uvicorn

from cluster import stop_signals
from cluster.commands.export import UNFINISHED, check_new, warn_of_lost_pictures, whole_or_nothing
from cluster.config.plan import make_suite
from cluster.console import say, warn
from cluster.errors import UserError
from cluster.listening import address_of, listen, names_of
from cluster.storage.lock import writer_of
from cluster.storage.stop_rule import RULE
from cluster.storage.stored_run import Run, damaged, read_sessions
from envs.files import shown_files
from evals.archive.export import export
from evals.ledger.parts import Damage, LedgerChangedError, LedgerDamagedError
from evals.notes import user_name
from evals.notes.web import ViewerNotes
from evals.serving import server_config
from evals.suite import Suite
from evals.viewer.index import EpisodeIndex
from evals.viewer.runs import PLAN, ViewedRun
from evals.viewer.server import Viewer, make_app
from evals.viewer.study import StudyPage

RUNS = Path("runs")
NO_NOTES = "notes are taken only by a viewer with a token: start it without --no-token"


def main(options: argparse.Namespace) -> int:
    """Serve until interrupted, or write the pages.

    Raises:
        UserError: a run directory holds no run, or the address cannot be listened on, or the folder not be written.
    """
    if not 0 < options.share <= 1:
        raise UserError(f"--share {options.share}: is above 0 and at most 1")
    chooses = options.failed or options.share < 1
    if chooses and options.export is None:
        raise UserError("--share and --failed choose what --export FOLDER writes")
    found = _Finder(options.run_dirs)
    index = EpisodeIndex(found())
    if not index.runs:
        raise UserError(f"there are no runs in {RUNS}/; name run directories, or start one: raycade run")
    if options.export is not None:
        write_pages(index, options.export, options.share, options.failed)
        return 0
    refusal = NO_NOTES if options.no_token else ""
    notes = ViewerNotes(index, user_name(), refusal)
    study = StudyPage(index)

    def also() -> None:
        notes.refresh()
        study.refresh()

    viewer = Viewer(index, found if not options.run_dirs else lambda: [], also)
    listener = listen(options.host, options.port)
    port = listener.getsockname()[1]
    token = "" if options.no_token else secrets.token_urlsafe(24)
    episode = options.episode
    # An id without its run is one of the first run.
    if episode and "/" not in episode:
        episode = f"{index.runs[0].name}/{episode}"
    chosen = {"episode": episode, "token": token}
    query = urlencode({name: value for name, value in chosen.items() if value})
    address = f"{address_of(options.host, port)}/"
    if query:
        address += f"?{query}"
    runs = f"{len(index.runs)} runs" if len(index.runs) > 1 else str(index.runs[0].path)
    say(f"showing {runs} at\n\n    {address}\n\nCtrl-C ends.")
    viewer.watch()
    app = make_app(viewer, token, f"raycade_{port}", names_of(options.host), [*notes.routes(), *study.routes()])
    config = server_config(app, log_level="warning", lifespan="off")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        with stop_signals.ignored_interrupts():
            viewer.close()
    return 0


def write_pages(index: EpisodeIndex, folder: Path, share: float, failed: bool) -> None:
    """Write the runs of a list as static pages, and say what they hold.

    Raises:
        UserError: the folder holds something, or the runs cannot be read, or the pages not be written.
    """
    check_new(folder, besides=UNFINISHED)
    with stop_signals.sure_interrupts():
        index.refresh()
    settings = [Run(run.path).config for run in index.runs]
    for run in index.runs:
        read_sessions(run.path)  # without them the pages would lack the run's results
        _check_read(run)
    try:
        with whole_or_nothing(folder) as unfinished, stop_signals.sure_interrupts():
            written = export(index, settings, unfinished, share, failed)
    except (OSError, ValueError, pa.ArrowException, LedgerChangedError) as error:
        raise UserError(f"--export {folder}: {error}") from error
    for run in index.runs:
        for name, reason in run.damage.items():
            warn(f"{run.name}: left out: {name}: {reason}")
    warn_of_lost_pictures(written.lost_pictures)
    say(
        f"{folder / 'index.html'}\n{written.files:,} files, {written.bytes / 1e6:,.1f} MB: {written.listed:,} episodes in "
        f"the list and all counts, {written.opened:,} to be opened\n"
        "in them: prompts, pictures, replies, errors without addresses; not: folders, hosts, settings of engines and keys"
    )


def _check_read(run: ViewedRun) -> None:
    """See that a run was read: of what is damaged the pages tell, but nothing may lack that only cannot be opened here.

    Raises:
        UserError: its plan or some of its parts cannot be read.
    """
    if PLAN in run.damage:
        raise UserError(f"{run.path}: {run.damage[PLAN]}")
    if run.unopened:
        raise damaged(run.path, [Damage(run.path / "episodes" / name, run.damage[name], True) for name in run.unopened])


class _Finder:
    """Finds runs that were not found before."""

    def __init__(self, run_dirs: Sequence[Path]) -> None:
        self._given: list[Path] = []
        for path in run_dirs:
            self._given += _runs_in(path)
        self._known: set[Path] = set()
        self._names: set[str] = set()
        self._told: dict[Path, str] = {}
        """What was said of runs that cannot be read; they may still be on their way here."""

    def __call__(self) -> list[ViewedRun]:
        if self._given:
            paths = [*self._given]
        else:
            plans = [*RUNS.glob("*/plan.parquet"), *RUNS.glob("*/*/plan.parquet")]
            paths = sorted(path.parent for path in plans)
        new = [path for path in paths if path not in self._known]
        found = [self._view(path) for path in new]
        return [viewed for viewed in found if viewed is not None]

    def _view(self, path: Path) -> ViewedRun | None:
        """What the viewer needs of a run; None, with a warning, for one that cannot be read and was not named."""
        name = path.name
        if not name or name in self._names:
            name = str(path)
        try:
            viewed = _viewed(name, path)
        except UserError as error:
            if self._given:
                raise
            if self._told.get(path) != str(error):
                warn(str(error))
                self._told[path] = str(error)
            return None
        self._known.add(path)
        self._names.add(name)
        return viewed


def _viewed(name: str, path: Path) -> ViewedRun:
    """What the viewer needs of a run.

    Raises:
        UserError: it cannot be read.
    """
    run = Run(path)
    suite = _suite_of(run.config["suite"])
    run.check_begun()
    run.check_path()
    reopen = functools.partial(_viewed, name, path)
    return ViewedRun(name, path, suite, lambda: Run(path).data, _stopping_of(run), _writer_of(path), reopen)


def _runs_in(path: Path) -> list[Path]:
    """The path itself; for a folder of runs, such as a study's, these in the order of their numbers or names."""
    if (path / "plan.parquet").exists():
        return [path]
    inside = [each.parent for each in path.glob("*/plan.parquet")]
    ordered = sorted(inside, key=lambda run: (int(run.name) if run.name.isdecimal() else math.inf, run.name))
    return ordered or [path]


def _stopping_of(run: Run) -> Callable[[], Sequence[str]]:
    """What a run's stopping rule says, evaluated again only when the ledger has grown."""
    known: frozenset[str] = frozenset()
    said: tuple[str, ...] = ()

    def lines() -> Sequence[str]:
        nonlocal known, said
        parts = frozenset(part.name for part in shown_files(run.path / "episodes", "*.parquet"))
        if parts == known or not (run.path / RULE).exists():
            return said
        run.refresh()
        try:
            state = run.stopping
        except (UserError, LedgerChangedError, LedgerDamagedError):
            return said  # the list of episodes says what cannot be read
        said = tuple(state.lines()) if state is not None else ()
        known = parts
        return said

    return lines


def _writer_of(path: Path) -> Callable[[], str]:
    def state() -> str:
        try:
            writer = writer_of(path)
        except OSError:
            return ""  # a lease that cannot be read
        return writer.state if writer is not None else ""

    return state


def _suite_of(config: object) -> Callable[[], Suite]:
    return functools.cache(lambda: make_suite(config))
