"""``raycade site``: a static leaderboard of runs, as a folder of pages."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.config.plan import make_suite
from cluster.console import raycade, say, warn
from cluster.errors import UserError, cannot_write
from cluster.storage.durable import is_unfinished, write_durably
from cluster.storage.lock import only_writer
from cluster.storage.stored_run import Run, read_runs
from envs.files import FileError, read_json, real_path
from evals.results.entries import Outline, RunPart, outline_of, player_labels
from evals.site.pages import Site

MANIFEST = "site.json"
"""Names the files of a site, so that those of an earlier one can be told from others."""


def main(options: argparse.Namespace) -> None:
    """Write the site."""
    made = datetime.datetime.now(datetime.UTC)
    files = write_site(options.run_dirs, options.out, Site(options.title, options.license, made))
    say(f"written: {options.out / 'index.html'} and {files - 1} other files")


def write_site(run_dirs: Sequence[Path], out: Path, site: Site) -> int:
    """Read one run after the other and write the pages; returns the number of files.

    Raises:
        UserError: there is no run, its ledger is damaged, the folder holds something else, or another command writes there.
    """
    paths = _named(_begun(run_dirs))
    _earlier_files(out)  # a folder of something else is told before the runs are read
    labels = player_labels([_outline(name, Run(path)) for name, path in paths.items()])
    out.mkdir(parents=True, exist_ok=True)
    with only_writer(out):
        return _write_pages(paths, out, site, labels)


def _write_pages(paths: Mapping[str, Path], out: Path, site: Site, labels: Mapping[str, Mapping[str, str]]) -> int:
    earlier = _earlier_files(out)
    for leftover in filter(is_unfinished, out.iterdir()):
        leftover.unlink(missing_ok=True)
    games: list[str] = []
    for name, path in paths.items():
        # Opened here and given up with the next one, so that one ledger at a time is in memory.
        part, pages = _read(name, Run(path), site, labels[name])
        site.add(part)
        games += pages
        # Before the pages: of a command that is killed, the next one knows which files are the site's.
        _note_files(out, [*games, *earlier])
        for file, text in pages.items():
            _write(out / file, text)
    shown = dict(site.pages(games))
    files = [*games, *shown]
    _note_files(out, [*files, *earlier])
    for file, text in shown.items():
        _write(out / file, text)
    for file in earlier - {*files}:
        (out / file).unlink(missing_ok=True)
    _note_files(out, files)
    return len(files)


def _note_files(out: Path, files: Iterable[str]) -> None:
    _write(out / MANIFEST, json.dumps({"files": list(dict.fromkeys(files))}, indent=1))


def _begun(run_dirs: Sequence[Path]) -> list[Path]:
    """These folders without those that hold no run themselves, as ``runs/*`` names them too: the shards of an array, say.

    Raises:
        UserError: none is a run, or one is not there.
    """
    # A path that is not there is kept, and named as an error later.
    begun = [path for path in run_dirs if Run(path).begun or not path.is_dir()]
    if not begun:
        return [*run_dirs]
    for path in run_dirs:
        if path not in begun:
            warn(f"{path}: left out: no run here; `{raycade('list', path)}` lists the runs below it")
    return begun


def _named(run_dirs: Sequence[Path]) -> dict[str, Path]:
    """Each run by its folder's name, or by its path where two have one name."""
    paths = list({real_path(path): path for path in run_dirs}.values())
    folders = [real_path(path).name for path in paths]
    named = {}
    for path, folder in zip(paths, folders, strict=True):
        name = folder if folders.count(folder) == 1 else str(path)
        named[name] = path
    return named


def _outline(name: str, run: Run) -> Outline:
    return outline_of(name, run.planned, run.config, make_suite(run.config["suite"]))


def _read(name: str, run: Run, site: Site, labels: Mapping[str, str]) -> tuple[RunPart, dict[str, str]]:
    suite = make_suite(run.config["suite"])
    return read_runs([run], lambda: site.read(name, run.data, suite, run.planned, labels))


def _earlier_files(out: Path) -> set[str]:
    """The files of the site that is there already.

    Raises:
        UserError: something else is there.
    """
    if not out.exists():
        return set()
    if out.is_dir() and all(map(is_unfinished, out.iterdir())):
        return set()
    try:
        found = read_json(out / MANIFEST)
    except (FileError, OSError) as error:
        raise UserError(f"--out {out}: is neither empty nor an earlier site ({error})") from error
    return _pages_named(found)


def _pages_named(manifest: Any) -> set[str]:
    """The pages that a manifest lists: only names that a site has, whatever the file says."""
    if not isinstance(manifest, dict):
        return set()
    pages = set()
    for name in manifest.get("files", []):
        if not isinstance(name, str):
            continue
        in_folder = Path(name).name == name
        if in_folder and name.endswith(".html"):
            pages.add(name)
    return pages


def _write(path: Path, text: str) -> None:
    try:
        write_durably(path, text.encode())
    except OSError as error:
        raise cannot_write(path, error) from error
