"""From the answers of a study to a run directory and tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import yaml

from cluster.config.settings import load_settings
from cluster.errors import UserError, cannot_write
from cluster.people.folder import Opened
from cluster.storage.durable import write_durably
from cluster.storage.run_directory import RunDirectory
from cluster.storage.stored_run import Run
from evals.conversation import Record
from evals.ledger.sound_rows import sound_rows
from evals.people.records import Taken, taken_by
from evals.people.tables import against_table, participants_table, play_agreement_table, review_table
from evals.suite import ledger_columns
from evals.tables import Table, table_files
from evals.types import Episode

RESULTS = "results"


def export(opened: Opened, against: Sequence[Path]) -> list[Table]:
    """Write what the participants have done so far; called again, it adds what has come since.

    Args:
        opened: The study.
        against: Run directories whose players are set beside the people.

    Raises:
        UserError: a run cannot be read, another process writes this study's run, or something is in the way of the results.
        RunFailedError: the disk takes no more.
        FileError: a participant's file is damaged.
    """
    study = opened.study
    taken = asyncio.run(_all_taken(opened))
    begun = [each for each in taken if each.begun]
    tables = [participants_table(begun, study.plan)]
    if study.plan.kind == "review":
        tables.append(review_table(begun, study.plan, opened.games))
    else:
        tables += _of_play(opened, begun, against)
    folder = study.folder / RESULTS
    if folder.is_symlink():  # the study may be somebody else's
        raise UserError(f"{folder}: is a link out of the study; replace it by a folder, or remove it")
    place = folder
    try:
        folder.mkdir(exist_ok=True)
        for name, content in table_files(tables).items():
            place = folder / name
            write_durably(place, content)
    except OSError as error:
        raise cannot_write(place, error) from error
    return tables


def _of_play(opened: Opened, begun: Sequence[Taken], against: Sequence[Path]) -> list[Table]:
    """How the people agree, and how they compare with players of runs; what they did becomes the study's run."""
    tables = [play_agreement_table(begun)]
    if not begun:
        return tables
    write_run(opened, begun)
    persons = [each.participant.person for each in begun]
    if against:
        models = {path.name or str(path): Run(path).data for path in against}
        tables.append(against_table(Run(opened.settings.run_dir).data, persons, models))
    return tables


async def _all_taken(opened: Opened) -> list[Taken]:
    return [
        await taken_by(opened.study, participant, opened.games, opened.check_games)
        for participant in opened.study.participants
    ]


def write_run(opened: Opened, begun: Sequence[Taken]) -> None:
    """The games of those who have begun as a run like any other; each person is a player."""
    study, games = opened.study, opened.games
    plan: list[Episode] = []
    for each in begun:
        person = each.participant
        plan += [games.for_person(game, person.person) for game in person.games]
    directory = RunDirectory(opened.settings.run_dir)
    first = begun[0].participant.person
    settings = load_settings([*study.plan.settings, "model=human", f"model.name={first}", f"run_dir={directory.path}"])
    directory.claim()
    try:
        config = yaml.safe_load(settings.config)
        if directory.begun:
            directory.write_plan(plan)
        else:
            directory.begin(plan, {"config.yaml": settings.config})
        directory.refresh()
        there = set(directory.episodes(["episode_id"])["episode_id"].to_pylist())
        new: list[Record] = []
        for each in begun:
            new += [record for record in each.records if record.episode.id not in there]
        if new:
            directory.begin_session(config)
            directory.commit(sound_rows(new, ledger_columns(settings.suite)))
            directory.complete_session(directory.session)
    finally:
        directory.release()
