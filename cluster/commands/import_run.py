"""``raycade import``: a run directory from files of other formats, played here or by another harness."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from cluster.commands.export import UNFINISHED, check_new, remove
from cluster.config.compose import compose_config, plain_values
from cluster.config.plan import make_suite
from cluster.config.stored import stored_sections
from cluster.console import say, warn
from cluster.errors import UserError
from cluster.storage.lock import writer_of
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from envs.files import FileError, is_unicode, open_regular, real_path
from envs.files.archive import MOST_ARCHIVE_BYTES, MOST_MEMBER_BYTES
from envs.printable import printable
from evals.exchange.carried import check_of
from evals.imports.every_eval_ever import read_every_eval_ever
from evals.imports.inspect_log import read_inspect
from evals.imports.reading import Shape, read_as
from evals.imports.rows import ledger_rows, planned_episode
from evals.imports.scores import LEAST_CHECKED, check_scores
from evals.imports.transcripts import Key, Transcript, key_of, plan_by_key, planned_for, replay
from evals.ledger.parts import LedgerDamagedError
from evals.ledger.sound_rows import checked_rows
from evals.suite import Suite, built_in_names, ledger_columns, plan_for
from evals.summary.status import IMPORTED_STOPPING, unchecked_scores
from evals.types import Episode, stable_hash

Reader = Callable[[Path], tuple[object, Iterator[Transcript]]]
READERS: Mapping[str, tuple[str, Reader]] = {
    ".eval": ("inspect", read_inspect),
    ".json": ("every_eval_ever", read_every_eval_ever),
}
"""By the ending of a file's name: the format and what reads it."""
AT_ONCE = 200
"""Most episodes that become rows together."""
BYTES_AT_ONCE = MOST_MEMBER_BYTES
"""Of their samples: an episode that exceeds it is the last of its batch."""


class _Carried(Shape):
    """What ``evals.exchange.carried.carry_source`` has written."""

    suite: dict[str, Any]
    suite_version: int
    model: dict[str, Any]
    player: str
    decoding: str
    began: str
    versions: dict[str, str]
    unplayed: list[Any]
    withheld: list[str]
    played: int | None = None
    """How many episodes the file holds; earlier versions did not say it."""
    stopping: list[str] | None = None
    """What the run's stopping rule said, a sentence for each decision."""
    history: dict[str, str] | None = None
    deterministic: bool | None = None


@dataclass
class _Imported:
    """What has been read so far."""

    directory: RunDirectory
    plan: dict[str, Episode] = field(default_factory=dict)
    suites: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The section of each suite by its name."""
    model: dict[str, Any] = field(default_factory=dict)
    decoding: str = ""
    asked: dict[str, Any] = field(default_factory=dict)
    """``history`` and ``deterministic``, where a file says them."""
    sessions: list[dict[str, Any]] = field(default_factory=list)
    logged: str | None = None
    """Of logs of other harnesses: the whole name of the model; None before the first."""
    replied: set[str] = field(default_factory=set)
    """Ids of the episodes that these logs have replies of."""
    _games: set[tuple[str, Key]] = field(default_factory=set)
    """Players with the games that they play."""

    def add_episodes(self, episodes: Sequence[Episode], path: Path) -> None:
        """Note planned episodes.

        Raises:
            FileError: one is there already, or its player plays the same game with other settings.
        """
        for episode in episodes:
            if self.plan.setdefault(episode.id, episode) is not episode:
                raise FileError(path, f"holds episode {episode.id}, which was imported already")
            game = (episode.player, key_of(episode))
            if game in self._games:
                raise FileError(
                    path,
                    f"holds games that {episode.player} has played in a file before, with other settings or as another "
                    "model; import it into a run of its own",
                )
            self._games.add(game)

    def add_model(self, model: str, path: Path) -> bool:
        """Note whose log is imported; returns whether it is the first.

        Raises:
            FileError: a log before is of another model.
        """
        is_first = self.logged is None
        if not is_first and self.logged != model:
            raise FileError(
                path, f"is a log of {model}, and the files before are of {self.logged}; import it into a run of its own"
            )
        self.logged = model
        return is_first

    def add_asked(self, facts: _Carried, path: Path) -> None:
        """Note the model of a run and how it was asked; files of built-in players name no model.

        Raises:
            FileError: a file before has another model, or the same one with other settings.
        """
        how = facts.model_dump(include={"history", "deterministic"}, exclude_none=True)
        known = (self.model, self.decoding, self.asked)
        if facts.model and self.model and (facts.model, facts.decoding, how) != known:
            raise FileError(
                path,
                f"its model {facts.player} is not the one of the files before, or has other settings of model, decoding or "
                "history; import it into a run of its own",
            )
        if facts.model or not self.model:
            self.model, self.decoding, self.asked = facts.model, facts.decoding, how

    def add_suite(self, name: str, section: dict[str, Any], path: Path) -> None:
        """Note a suite's settings.

        Raises:
            FileError: another file has other ones.
        """
        if self.suites.setdefault(name, section) != section:
            raise FileError(
                path, f"has other settings of {name} than the files before; import it into a run of its own"
            )


def main(options: argparse.Namespace) -> None:
    """Import the files and say what has been imported.

    Raises:
        UserError: a file cannot be imported without loss; the message says why.
    """
    settings = [word for word in options.files if word.startswith(("suite=", "suite."))]
    paths = [Path(word) for word in options.files if word not in settings]
    overrides = [*settings, *options.overrides]
    check_new(options.out, besides=UNFINISHED)
    if not paths:
        raise UserError("name at least one FILE")
    place = real_path(options.out)
    # An import that fails leaves no run. An empty folder may be the current one or a disk of its own: it is filled.
    is_filled = place.exists()
    unfinished = place / UNFINISHED if is_filled else place.with_name(f".{place.name}.import.tmp")
    _clear(unfinished)
    directory = RunDirectory(unfinished)
    directory.claim()
    try:
        found = _Imported(directory)
        for path in paths:
            _import(path, overrides, options.player, found)
        model = found.model.get("name")
        # tables take the player that is planned first for the model
        plan = sorted(found.plan.values(), key=lambda episode: episode.player != model)
        directory.begin(plan, {"config.yaml": _config(found, options.out)})
        directory.write_sessions(found.sessions)
        rows = _read_once(unfinished)
        directory.release()
        if is_filled:
            _move_up(unfinished)
        else:
            unfinished.rename(place)
    except BaseException:
        directory.release()
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    say(f"{options.out}: {rows:,} of {len(found.plan):,} planned episodes imported from {len(paths)} files")


def _move_up(unfinished: Path) -> None:
    """Move a run into the folder around it; the plan comes last, since a folder with a plan is a run."""
    entries = sorted(unfinished.iterdir(), key=lambda entry: entry.name == "plan.parquet")
    with contextlib.ExitStack() as after_an_error:
        for entry in entries:
            after_an_error.callback(remove, entry.rename(unfinished.parent / entry.name))
        unfinished.rmdir()
        after_an_error.pop_all()  # all is there


def _clear(unfinished: Path) -> None:
    """Remove what an import has left that was killed.

    Raises:
        UserError: it is not dead, or something else is there.
    """
    if not os.path.lexists(unfinished):
        return
    if unfinished.is_symlink() or not unfinished.is_dir():  # a link would be written through
        raise UserError(f"{unfinished}: is no folder that an import has left; move it away")
    writer = writer_of(unfinished)
    if writer is not None and writer.state == "at work":
        raise UserError(f"{unfinished}: another import is at work there ({writer.name})")
    shutil.rmtree(unfinished, ignore_errors=True)
    say(f"{unfinished}: removed, left by an import that was killed")


def _read_once(folder: Path) -> int:
    """Read what was imported as every command will read it; returns the number of rows.

    Raises:
        UserError: it cannot be read: the files may be anybody's.
    """
    try:
        written = Run(folder)
        rows = len(written.ledger)
        _ = written.data
    except (UserError, LedgerDamagedError) as error:
        raise UserError(f"the files cannot be imported, since no command could read the run: {error}") from error
    return rows


def _config(found: _Imported, out: Path) -> str:
    sections = list(found.suites.values())
    suite = sections[0] if len(sections) == 1 else {"type": "bundle", "name": "imported", "suites": sections}
    config: dict[str, Any] = {"suite": suite, "run_dir": str(out)}
    if found.model:
        config["model"] = found.model
    if found.decoding:
        config["decoding"] = found.decoding
    config |= found.asked
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def _import(path: Path, overrides: Sequence[str], player: str, found: _Imported) -> None:
    if path.suffix not in READERS:
        formats = " and ".join(f"{ending} of {name}" for ending, (name, _) in READERS.items())
        raise UserError(f"{path}: no file that can be imported; only {formats} can be")
    name, read = READERS[path.suffix]
    carried, transcripts = read(path)
    digest = _digest(path)
    session = {
        "id": f"imported-{digest[:12]}",
        "imported_format": name,
        "imported_file": printable(path.name),
        "imported_sha256": digest,
    }
    if carried is not None:
        facts = read_as(_Carried, carried, path)
        if not is_unicode(carried):
            raise FileError(path, "holds lone surrogates in what it says of the run, which are no text")
        given = [*overrides, *(["--player"] if player else [])]
        if given:
            raise UserError(f"{path}: was written by raycade and says its own settings; leave out {' '.join(given)}")
        # what this machine's raycade is has nothing to do with these rows
        found.sessions.append({**facts.versions, **({"began": facts.began} if facts.began else {}), **session})
        if facts.stopping:
            found.sessions[-1][IMPORTED_STOPPING] = printable("\n".join(facts.stopping))
        unchecked = _import_own(path, facts, transcripts, str(session["id"]), found)
        if unchecked:
            found.sessions[-1]["imported_unchecked"] = unchecked
        return
    if not overrides:
        raise UserError(
            f"{path}: was not written by raycade. Give the suite and its settings as for `raycade run`, such as suite=kumo "
            "suite.domains=[medical], so that its games can be planned"
        )
    found.sessions.append(session)
    _import_foreign(path, overrides, player, transcripts, str(session["id"]), found)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path, MOST_ARCHIVE_BYTES) as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


# --- files that raycade wrote ----------------------------------------------------------------------------------------


def _import_own(path: Path, facts: _Carried, transcripts: Iterator[Transcript], session: str, found: _Imported) -> int:
    """Row for row; returns the number of episodes whose scores could not be checked against their replies."""
    section = stored_sections(path, {"suite": facts.suite}, ["suite"], [])["suite"]
    suite = make_suite(section)
    same_version = suite.version == facts.suite_version
    if not same_version:
        warn(f"{path}: was played with version {facts.suite_version} of {suite.name}; here is {suite.version}")
    if facts.withheld:
        warn(f"{path}: some settings did not leave the machine that played it: {', '.join(facts.withheld[:20])}")
    found.add_suite(suite.name, section, path)
    found.add_asked(facts, path)
    unplayed = [planned_episode(each, f"{path}, unplayed episodes") for each in facts.unplayed]
    found.add_episodes(_of_suite(unplayed, suite, path), path)
    played = sum(1 for _ in READERS[path.suffix][1](path)[1])
    if facts.played not in (None, played):
        raise FileError(
            path, f"episodes that were written: {facts.played:,}, found: {played:,}; copy or export it again"
        )
    # by the episodes that are there: settings may claim any number of games, and to draw so many may take hours
    games = max(LEAST_CHECKED, played + len(unplayed))
    unchecked = 0
    for batch in _batches(transcripts):
        parts = [_carried_parts(each) for each in batch]
        episodes = _of_suite([episode for episode, _ in parts], suite, path)
        found.add_episodes(episodes, path)
        rows = ledger_rows(suite, parts, str(path), session)
        # another version may score the same replies otherwise
        if same_version:
            unchecked += check_scores(suite, episodes, rows, str(path), games)
        else:
            unchecked += len(rows)
        found.directory.commit_rows(rows)
    if unchecked:
        warn(f"{path}: {unchecked_scores(unchecked)}")
    return unchecked


def _carried_parts(transcript: Transcript) -> tuple[Episode, object]:
    carried = transcript.carried
    if not isinstance(carried, dict) or not {"episode", "row"} <= carried.keys():
        raise FileError(transcript.place, "does not carry its ledger row: changed since raycade wrote it")
    episode, row = planned_episode(carried["episode"], transcript.place), carried["row"]
    # Exports of older versions have none.
    if "check" in carried and isinstance(row, dict) and carried["check"] != check_of(episode, row):
        raise FileError(
            transcript.place, "is another game or player, or ended otherwise: changed since raycade wrote it"
        )
    return episode, row


def _of_suite(episodes: list[Episode], suite: Suite, path: Path) -> list[Episode]:
    others = {episode.suite for episode in episodes} - {suite.name}
    if others:
        raise FileError(path, f"says that it is of {suite.name}, and holds episodes of {', '.join(sorted(others))}")
    return episodes


# --- logs of other harnesses -----------------------------------------------------------------------------------------


def _import_foreign(
    path: Path, overrides: Sequence[str], name: str, transcripts: Iterator[Transcript], session: str, found: _Imported
) -> None:
    """Replies through the suite's own rules."""
    section = plain_values(compose_config([*overrides, "model=random"]))["suite"]
    suite = make_suite(section)
    first = next(transcripts, None)
    if first is None:
        raise FileError(path, "holds no samples")
    player = name or first.player.rsplit("/", 1)[-1]
    if not player:
        raise UserError(f"{path}: does not say which model played; give its name with --player")
    if player in built_in_names(suite):
        raise UserError(
            f"{path}: its model is called {player}, as a built-in player is; give another name with --player"
        )
    try:
        plan = plan_for(suite, {player: stable_hash("imported", first.player)})
    except (ValueError, OSError) as error:
        raise UserError(f"suite: {error}") from error
    for part in suite.parts:
        own = section["suites"][suite.parts.index(part)] if len(suite.parts) > 1 else section
        found.add_suite(part.name, own, path)
    # One model's samples may come in several files.
    if found.add_model(first.player, path):
        found.model = {"name": player}
        found.add_episodes(plan, path)
    keys, parts = plan_by_key(plan), {part.name: part for part in suite.parts}
    for batch in _batches(itertools.chain([first], transcripts)):
        records = []
        for transcript in batch:
            episode = planned_for(transcript, keys)
            if episode.id in found.replied:
                raise FileError(transcript.place, "is of a game that a sample before it is of, too")
            found.replied.add(episode.id)
            records.append(replay(parts[episode.suite], episode, transcript))
        try:
            table = checked_rows(records, ledger_columns(suite))
        except Exception as error:  # a sample may hold any value
            raise FileError(path, f"a sample cannot be stored: {error}") from error
        place = table.column_names.index("session")
        table = table.set_column(place, "session", pa.array([session] * len(table), pa.string()))
        found.directory.commit_rows(table)


def _batches(transcripts: Iterator[Transcript]) -> Iterator[list[Transcript]]:
    batch: list[Transcript] = []
    size = 0
    for transcript in transcripts:
        batch.append(transcript)
        size += transcript.size
        if len(batch) == AT_ONCE or size >= BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
