"""``raycade environment``: serve a suite to libraries for training (docs/training.md)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from envs.files import parse_yaml
from envs.printable import printable

_SETTINGS: Final = "of the suite and of training, as KEY=VALUE: domains=[medical] reward=regret"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade environment``."""
    parser.description = (
        "Any suite as an environment for training. Gymnasium and verifiers need no command (docs/training.md)."
    )
    commands = parser.add_subparsers(metavar="LIBRARY", required=True)
    openenv = commands.add_parser("openenv", help="serve OpenEnv's protocol, on loopback by default")
    openenv.add_argument("--host", default="127.0.0.1", help="address to listen at (default %(default)s)")
    openenv.add_argument("--port", type=int, default=8000, help="port (default %(default)s)")
    openenv.add_argument("--sessions", type=int, default=64, help="most sessions at a time (default %(default)s)")
    openenv.set_defaults(action=_serve_openenv)
    nemo = commands.add_parser("nemo-gym", help="write a resources server, its configuration and games for NeMo Gym")
    nemo.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new folder in resources_servers")
    nemo.add_argument("--games", type=int, default=100, help="games to train on, as rows (default %(default)s)")
    nemo.set_defaults(action=_write_nemo_gym)
    for library in (openenv, nemo):
        library.add_argument("suite", metavar="SUITE", help="its registered name")
        library.add_argument("settings", nargs="*", metavar="KEY=VALUE", help=_SETTINGS)


def main(options: argparse.Namespace) -> int:
    """Serve or write it; 2 for bad input."""
    try:
        options.action(options)
    except ValueError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


def settings_of(words: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` words as settings, values read as YAML.

    Raises:
        ValueError: one is no such word, or no YAML.

    >>> settings_of(["domains=[medical]", "reward=regret"])
    {'domains': ['medical'], 'reward': 'regret'}
    """
    settings = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator:
            raise ValueError(f"{word}: must be KEY=VALUE")
        settings[key] = parse_yaml(value, key)
    return settings


def _serve_openenv(options: argparse.Namespace) -> None:
    import uvicorn

    from evals.players import RandomPlayer
    from evals.serving import THIS_MACHINE_ALONE, server_config
    from evals.suite import play_episode
    from evals.training.games import TrainingGames
    from evals.training.openenv_server import app_of

    games = TrainingGames(options.suite, **settings_of(options.settings))
    # What is compiled or read at its first use takes longer than a client waits for a reply.
    asyncio.run(play_episode(games.suite, games.suite.plan()[0], RandomPlayer()))
    # Where it listens to others, its name there is the user's affair.
    hosts = ["localhost"] if options.host in THIS_MACHINE_ALONE else None
    app = app_of(games, options.sessions, hosts=hosts)
    config = server_config(app, ws="auto", host=options.host, port=options.port, log_level="warning")
    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(config).run()


def _write_nemo_gym(options: argparse.Namespace) -> None:
    from evals.training.nemo_gym_files import write_server

    write_server(options.out, options.suite, settings_of(options.settings), options.games)
    print(f"written: {options.out}")
