"""``raycade export``: a run in the formats of others."""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cluster.config.plan import make_suite
from cluster.console import say, warn
from cluster.errors import UserError, cannot_write
from cluster.storage.lock import only_writer
from cluster.storage.stored_run import Run, read_runs
from envs.disk import disk_refuses
from envs.printable import printable
from evals.exchange import every_eval_ever, huggingface, inspect_log, lm_eval
from evals.exchange.source import Source, sources_of
from evals.suite import Suite


class Format(NamedTuple):
    """How a run is written in a format."""

    write: Callable[[Source, Path], list[Path]] | None
    """Writes one suite as one player played it; None for `huggingface`, which joins them."""
    loss: Sequence[str]


FORMATS = {
    "every_eval_ever": Format(every_eval_ever.export_every_eval_ever, every_eval_ever.LOSS),
    "inspect": Format(inspect_log.export_inspect, inspect_log.LOSS),
    "huggingface": Format(None, huggingface.LOSS),
    "lm_eval": Format(lm_eval.export_lm_eval, lm_eval.LOSS),
}
"""Those that ``cluster.commands.arguments.exchanging`` describes."""
UNFINISHED = ".unfinished"
"""Folder within that of an export: what is being written, or what a killed command has left."""


def main(options: argparse.Namespace) -> None:
    """Write the files and list them."""
    run, folder = Run(options.run_dir), options.out
    if options.repo and not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", options.repo):
        raise UserError(f"--repo {options.repo}: name a dataset as ORGANIZATION/NAME")
    run.check_begun()
    check_new(folder, besides=UNFINISHED)
    suite = make_suite(run.config["suite"])
    with whole_or_nothing(folder) as unfinished:
        written, sources = read_runs([run], lambda: _export(run, suite, options.to, unfinished, options.repo))
    if not written:
        raise UserError(f"{run.path}: no episode has been played yet")
    for path in written:
        say(f"{folder / path}  {(folder / path).stat().st_size:,} bytes")
    for text in FORMATS[options.to].loss:
        say(f"left out: {text}")
    withheld: set[str] = set()
    lost_pictures: set[str] = set()
    for source in sources:
        withheld.update(source.withheld)
        lost_pictures |= source.lost_pictures
    warn_of_lost_pictures(len(lost_pictures))
    if withheld:
        names = printable(", ".join(sorted(withheld)))
        warn(f"settings that did not leave, since they name a place or a program: {names}")
    if options.to == "huggingface":
        _print_uploads(folder, options.repo)


def warn_of_lost_pictures(count: int) -> None:
    """Warn where pictures are not in what was written."""
    if count:
        warn(
            f"pictures that could not be rendered and are not in it: {count:,}; files that they are drawn from "
            "(suite.skin, suite.problems) are gone or have changed, or this version draws them otherwise"
        )


def check_new(folder: Path, besides: str = "") -> None:
    """See that nothing is written over.

    Args:
        folder: Where something will be written.
        besides: Name of an entry that may be there.

    Raises:
        UserError: the folder holds something, or is none.
    """
    if folder.exists() and (not folder.is_dir() or any(each.name != besides for each in folder.iterdir())):
        raise UserError(f"--out {folder}: is there already and not an empty folder; name another one")


@contextlib.contextmanager
def whole_or_nothing(folder: Path) -> Iterator[Path]:
    """A folder within a folder, to be written to; what was written is moved up at the end, unless there was an error.

    After an error nothing of it is left, so that the same command can write again. A command that is killed leaves
    ``UNFINISHED``, which the next one removes.

    Raises:
        UserError: another command writes there, or has just done so.
        RunFailedError: the disk is full, or cannot be written to.
    """
    unfinished = folder / UNFINISHED
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder), contextlib.ExitStack() as after_an_error:
            check_new(folder, besides=UNFINISHED)
            after_an_error.callback(remove, unfinished)
            if unfinished.exists():
                shutil.rmtree(unfinished)
            yield unfinished
            if unfinished.exists():
                for each in list(unfinished.iterdir()):
                    after_an_error.callback(remove, each.rename(folder / each.name))
                unfinished.rmdir()
            after_an_error.pop_all()  # all is there
    except BaseException as error:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError) and disk_refuses(error):
            raise cannot_write(folder, error) from error
        raise


def remove(path: Path) -> None:
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _export(run: Run, suite: Suite, name: str, folder: Path, repository: str) -> tuple[list[Path], list[Source]]:
    """Write a run; the files, and the sources, which know what could not be written."""
    sources = sources_of(run.data, suite)
    return _write(sources, name, folder, repository), sources


def _write(sources: Sequence[Source], name: str, folder: Path, repository: str) -> list[Path]:
    write = FORMATS[name].write
    if write is None:
        return huggingface.export_huggingface(sources, folder, repository)
    written: list[Path] = []
    for source in sources:
        written += write(source, folder)
    return written


def _print_uploads(folder: Path, repository: str) -> None:
    """The commands that upload, for the user to run."""
    print("\nNothing has been uploaded. To do so:")
    say(f"    hf upload {repository or 'ORGANIZATION/NAME'} {folder / 'dataset'} --repo-type dataset")
    for model in sorted((folder / "models").glob("*")) if repository else []:
        say(f"    hf upload {model.name.replace('__', '/', 1)} {model} --create-pr")
    if not repository:
        print("With --repo ORGANIZATION/NAME, scores for the pages of models are written, too.")
