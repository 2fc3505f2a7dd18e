"""``raycade serve``: programs play a suite, over HTTP or MCP, into a run directory like any other."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster import stop_signals
from cluster.commands.run import play_on_cluster, run_and_show
from cluster.config.settings import Settings, check_pictures, load_settings
from cluster.console import warn
from cluster.errors import UserError
from cluster.listening import address_of, listen, names_of
from cluster.observe.progress import Progress
from cluster.observe.run_statistics import RunStatistics
from cluster.observe.tracker import Watcher
from cluster.serve.commits import Commits
from cluster.serve.games import Games
from cluster.serve.host import offer, over_http, take_output, token_of
from cluster.serve.limits import Limits
from cluster.serve.web import Web
from cluster.stopping.watch import StopWatch
from cluster.storage.run_directory import RunDirectory
from evals.serving import THIS_MACHINE_ALONE
from evals.types import Episode

if TYPE_CHECKING:
    from cluster.serve.tools import Tools

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)


def main(options: argparse.Namespace) -> int:
    """Offer what the run directory lacks, then let the baselines play; show the tables.

    Raises:
        UserError: the settings name no suite or player, or another model; or the address cannot be used.
    """
    limits = _limits(options)
    options.output = take_output() if options.stdio else None
    settings = load_settings(serve_overrides(options.overrides))
    check_pictures(settings)
    return run_and_show(settings, functools.partial(_play, options, limits))


def serve_overrides(given: Sequence[str]) -> list[str]:
    """The overrides of a run that a program plays: player and version as settings of the model ``agent``.

    Raises:
        UserError: see ``main``.
    """
    chosen = dict(override.partition("=")[::2] for override in given)
    if "suite" not in chosen:
        raise UserError("suite: is missing; say what is played, such as suite=kidgym, suite=kumo or suite=multistar")
    if "model" in chosen:
        raise UserError(
            f"model={chosen['model']}: the player is the program that connects; player=NAME gives it a name"
        )
    player = _name_given(chosen, "player")
    version = _name_given(chosen, "version")
    if not player:
        raise UserError("player: is missing; player=NAME is who plays, as tables and ids will call it")
    others = [override for override in given if override.partition("=")[0] not in ("player", "version")]
    return [*others, "model=agent", f"model.name='{player}'", f"model.engine.version='{version}'"]


def _name_given(chosen: Mapping[str, str], key: str) -> str:
    """The name that an override KEY=NAME gives; empty where there is none.

    Raises:
        UserError: it is no name.
    """
    if key not in chosen:
        return ""
    name = chosen[key]
    if not _NAME.fullmatch(name):
        raise UserError(f"{key}={name}: must be up to 64 letters, digits or . _ + -, beginning with a letter or digit")
    return name


def _limits(options: argparse.Namespace) -> Limits:
    for name, value in (("turn", options.turn_timeout), ("episode", options.episode_timeout)):
        if not value > 0:
            raise UserError(f"--{name}-timeout={value}: must be above 0")
    if options.attempts < 1:
        raise UserError(f"--attempts={options.attempts}: must be 1 at least")
    return Limits(options.turn_timeout, options.episode_timeout, options.attempts)


def _play(
    options: argparse.Namespace,
    limits: Limits,
    settings: Settings,
    todo: list[Episode],
    directory: RunDirectory,
    stats: RunStatistics,
    progress: Progress,
    watcher: Watcher,
) -> bool:
    """The program's games first, then those of the built-in players; returns whether any are left.

    A rule that compares the two would not know when the program has played enough: then the built-in players come first.
    """
    player = settings.model.name
    games = [episode for episode in todo if episode.player == player]
    others = [episode for episode in todo if episode.player != player]
    stopping = StopWatch.of(directory, settings.balanced)
    local = dataclasses.replace(settings, model=dataclasses.replace(settings.model, engine=None))
    if others and stopping.waits_for_baseline:
        if play_on_cluster(local, others, directory, stats, progress, watcher, stopping):
            return True
        others = []
    games = stopping.in_order(stopping.needed_of(games))
    if games:
        commits = Commits(settings.suite, directory, stats, stopping, watcher)
        offered = Games(settings.suite, games, commits.add, limits)
        with progress, stop_signals.counted():
            asyncio.run(_serve(options, settings, offered, commits, stopping, progress))
        if not offered.over:
            return True
    others = stopping.needed_of(others)
    if others:
        return play_on_cluster(local, others, directory, stats, progress, watcher, stopping)
    return False


async def _serve(
    options: argparse.Namespace,
    settings: Settings,
    games: Games,
    commits: Commits,
    stopping: StopWatch,
    progress: Progress,
) -> None:
    """Open the way that was asked for, say what to copy, and serve."""
    player = settings.model.name
    feedback = bool((settings.model.engine or {}).get("feedback"))
    tools = _tools(games, player, feedback, needed=options.stdio)
    if tools is not None and options.stdio:
        progress.say(f"games offered over standard input and output: {games.left}")
        interface = tools.over_stdio(options.output)
    else:
        token = token_of(options.token_file)
        listener = listen(options.host, options.port)
        mcp = tools.over_http() if tools is not None else None
        app = Web(games, player, feedback).app(token, names_of(options.host), mcp)
        address = address_of(options.host, listener.getsockname()[1], of_all=socket.gethostname())
        progress.say(_invitation(address, token, options.token_file, games.left, tools is not None))
        if options.host not in THIS_MACHINE_ALONE:
            warn(f"--host={options.host}: the token and all games cross the network unencrypted")
        interface = over_http(app, listener)
    await offer(games, commits, stopping, progress, interface, settings.cluster.grace_seconds)


def _tools(games: Games, player: str, feedback: bool, needed: bool) -> Tools | None:
    """The MCP interface, where its package is installed.

    Raises:
        UserError: it is needed, and not installed.
    """
    try:
        from cluster.serve.tools import Tools
    except ModuleNotFoundError as error:
        if needed:
            raise UserError(f"--stdio needs the Python package {error.name!r}: pip install 'raycade[mcp]'") from error
        return None
    return Tools(games, player, feedback)


def _invitation(address: str, token: str, file: Path | None, left: int, mcp: bool) -> str:
    """What to copy; the token of a file is not repeated."""
    header = f"Authorization: Bearer {f'$(cat {shlex.quote(str(file))})' if file else token}"
    lines = [f"games offered at {address}: {left}", "", f'  curl -X POST -H "{header}" {address}/v1/sessions']
    if mcp:
        lines.append(f'  claude mcp add --transport http raycade {address}/mcp --header "{header}"')
    return "\n".join([*lines, ""])
