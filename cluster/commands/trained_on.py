"""``raycade trained-on``: mark a run whose model was trained on games of its plan; its report then says so first."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Final

from cluster.config.plan import make_suite
from cluster.console import say
from cluster.errors import UserError
from cluster.storage.durable import write_durably
from cluster.storage.stored_run import Run
from envs.files import MissingFileError, read_json
from evals.analysis.fresh import seeds_of
from evals.ledger.check import MOST
from evals.sealed import TRAINING

KEPT_AS: Final = "trained_on.json"


def main(options: argparse.Namespace) -> None:
    """Compare, keep and say it."""
    from evals.training.games import trained_games  # reports, which read what is kept, need nothing of it

    run = Run(options.run_dir)
    run.check_begun()
    trained, games = asyncio.run(trained_games(make_suite(run.config["suite"]), options.file))
    found = {"file": str(options.file), "trained": trained, "games": games}
    write_durably(run.path / KEPT_AS, json.dumps(found).encode())
    say("\n".join(training_lines(run)))


def training_lines(run: Run) -> list[str]:
    """What a reader must know of the games of a run: that they are for training, or how many were trained on."""
    lines = []
    for_training = {seeds for seeds in seeds_of(run.config["suite"]) if seeds.startswith(TRAINING)}
    if for_training:
        blocks = ", ".join(sorted(for_training))
        lines.append(f"Games to train on (suite.seeds={blocks}), not those of an evaluation.")
    try:
        found = read_json(run.path / KEPT_AS)
        trained, games, file = found["trained"], found["games"], found["file"]
        are_numbers = type(trained) is type(games) is int
        counted = are_numbers and 0 <= trained <= games <= MOST
        if not counted or not isinstance(file, str):
            raise ValueError("no numbers of games, or no file")
    except MissingFileError:
        return lines
    except (TypeError, KeyError, ValueError) as error:
        raise UserError(f"{run.path / KEPT_AS}: damaged: {error}") from error
    lines.append(f"Trained on: {trained:,} of {games:,} games are among those that {file} says were trained on.")
    return lines
