"""``raycade environment``: serve a suite to libraries for training (docs/training.md)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from envs.files import parse_yaml
from envs.printable import printable

if TYPE_CHECKING:
    from evals.training.games import TrainingGames

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
    from evals.training.play import TrainingError

    try:
        options.action(options)
    except (ValueError, TrainingError) as error:
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

    from evals.serving import THIS_MACHINE_ALONE, listen, server_config
    from evals.training.games import TrainingGames
    from evals.training.openenv_server import app_of

    if options.sessions < 1:
        raise ValueError(f"--sessions {options.sessions}: must be 1 or more")
    games = TrainingGames(options.suite, **settings_of(options.settings))
    asyncio.run(_try_out(games))
    # Where it listens to others, its name there is the user's affair.
    hosts = ["localhost"] if options.host in THIS_MACHINE_ALONE else None
    app = app_of(games, options.sessions, hosts=hosts)
    config = server_config(app, ws="auto", log_level="warning")
    with listen(options.host, options.port) as listener:
        port = listener.getsockname()[1]
        print(f"serving {options.suite} at {options.host}, port {port}; Ctrl-C ends", flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # the way to end it
            uvicorn.Server(config).run(sockets=[listener])


async def _try_out(games: TrainingGames) -> None:
    """Begin a game as clients do, so that what each of them would be refused is refused now; and play one.

    Raises:
        ValueError: no game can be planned, or none be rewarded like this, or the file of trained games not be written.
        TrainingError: there are no games to train on, or the suite has a defect.
    """
    from evals.players import RandomPlayer
    from evals.suite import play_episode
    from evals.training.play import TrainingPlay

    trained_on = games.options.trained_on
    try:
        if trained_on:
            Path(trained_on).open("ab").close()
    except OSError as error:
        raise ValueError(f"trained_on={trained_on}: cannot be written: {error}") from error
    play = TrainingPlay(games.unwritten())
    await play.begin()
    await play.close()
    # What is compiled or read at its first use takes longer than a client waits for a reply.
    await play_episode(games.suite, games.suite.plan()[0], RandomPlayer())


def _write_nemo_gym(options: argparse.Namespace) -> None:
    from evals.training.nemo_gym_files import write_server

    write_server(options.out, options.suite, settings_of(options.settings), options.games)
    print(f"written: {options.out}")
