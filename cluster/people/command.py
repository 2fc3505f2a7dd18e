"""``raycade people``: make a study, serve it, see what came of it."""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
from typing import Final
from urllib.parse import SplitResult, urlsplit

import uvicorn

from cluster.console import raycade, say, show, warn
from cluster.errors import UserError
from cluster.listening import address_of, listen, names_of
from cluster.people.export import RESULTS, export
from cluster.people.folder import add_participants, locked, new_study, open_study, write_links
from envs.files import FileError
from evals.people.journal import Journal
from evals.people.server import StudyServer
from evals.people.study import TEXTS, Study
from evals.serving import THIS_MACHINE_ALONE, server_config

_PLACEHOLDER: Final = re.compile(r"^[^`\n]*\[[^\]\n]+\](?!\()", re.MULTILINE)
"""Words in brackets that no link follows: what the texts of a new study leave to be filled in."""


def main(options: argparse.Namespace) -> int:
    """Do what was asked for.

    Raises:
        UserError: something given is wrong; the message says what.
    """
    act = {"new": _new, "add": _add, "serve": _serve, "export": _export}[options.act]
    act(options)
    return 0


def _new(options: argparse.Namespace) -> None:
    study = new_study(options.folder, options.overrides, options.kind, options.players, options.games, options.title)
    games = len({game for each in study.participants for game in each.games})
    say(
        f"{study.folder}: {games:,} games, {len(study.participants):,} participants\n"
        f"edit study.yaml, {', '.join(f'{name}.md' for name in TEXTS)}; then: {raycade('people', 'serve', study.folder)}"
    )


def _add(options: argparse.Namespace) -> None:
    study = add_participants(options.folder, options.count)
    say(f"{study.folder}: {len(study.participants):,} participants; `raycade people serve` writes their links")


def _serve(options: argparse.Namespace) -> None:
    public = _address(options.public)
    with locked(options.folder):
        opened = open_study(options.folder)
        _warn_of_placeholders(opened.study)
        _warn_of_damage(opened.study)
        listener = listen(options.host, options.port)
        port = listener.getsockname()[1]
        address = options.public or address_of(options.host, port, of_all=socket.gethostname())
        links = write_links(opened.study, address)
        say(
            f"serving {len(opened.study.participants):,} participants at {address}\n"
            f"their links, which are secret: {links}\nCtrl-C ends; whoever has begun goes on later with the same link"
        )
        if options.host not in THIS_MACHINE_ALONE and public.scheme != "https":
            warn(
                f"--host={options.host}: links and answers cross the network unencrypted; put a server with TLS before it"
            )
        hosts = names_of(options.host)
        if public.hostname:
            hosts.add(public.hostname)
        app = StudyServer(opened.study, opened.games, opened.check_games).app(hosts)
        # no log of requests: it would hold addresses of people and their links
        config = server_config(app, log_level="error", access_log=False, lifespan="off", server_header=False)
        with contextlib.suppress(KeyboardInterrupt):  # the way to end it
            uvicorn.Server(config).run(sockets=[listener])


def _address(text: str) -> SplitResult:
    """The parts of ``--public``, which may be empty.

    Raises:
        UserError: it is no address.
    """
    wrong = UserError(f"--public {text}: must be an address such as https://study.example.org")
    try:
        found = urlsplit(text)
    except ValueError as error:
        raise wrong from error
    if text and (found.scheme not in ("http", "https") or not found.hostname):
        raise wrong
    return found


def _export(options: argparse.Namespace) -> None:
    opened = open_study(options.folder)
    tables = export(opened, options.against)
    show(tables)
    say(f"\nwritten to {options.folder / RESULTS}")
    if opened.settings.run_dir.exists():
        say(f"as a run: {raycade('report', opened.settings.run_dir)}")


def _warn_of_placeholders(study: Study) -> None:
    for name, text in study.texts.items():
        if _PLACEHOLDER.search(text):
            warn(f"{study.folder / name}.md: has words in brackets that are still to be filled in")


def _warn_of_damage(study: Study) -> None:
    for participant in study.participants:
        try:
            Journal.read(study.answers_of(participant))
        except FileError as error:
            warn(f"{error}; {participant.person} cannot go on until this file is mended or restored")
