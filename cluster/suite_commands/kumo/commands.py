"""``raycade kumo``: KUMO domains and tasks: validate, generate, show, play published ones; let models write them."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from cluster.cli import Parser

_CORE: Mapping[str, tuple[str, str]] = {
    "validate": ("check domains and measure their quality", "evals.suites.kumo.validate"),
    "show": ("one game: prompt and book, perfect play, the tree of best tests", "cluster.suite_commands.kumo.show"),
    "generate": ("write tasks as JSON lines", "envs.kumo.generate_command"),
    "import": ("import the published benchmark from a checkout of it", "envs.kumo.published.command"),
    "import-transcripts": (
        "play the published models' replies, beside their figures",
        "cluster.suite_commands.kumo.import_transcripts",
    ),
}
"""Commands with what they do and their modules, which have ``add_arguments(parser)`` and ``main(options)``."""

_PIPELINE = "cluster.suite_commands.kumo.pipeline"
_TRAJECTORIES = "evals.suites.kumo.lab.trajectories.commands"
_LAB: Mapping[str, tuple[str, str]] = {
    "propose": ("let a model propose new domains", _PIPELINE),
    "write": ("let a model write the domains that were proposed, and books for their tasks", _PIPELINE),
    "check": ("read books back, by our parser and by a model", _PIPELINE),
    "revise": ("let a model rewrite the books that the last check refused", _PIPELINE),
    "make": ("propose, write, check and revise domains and books, all in one", _PIPELINE),
    "analyze": (
        "domains, structure and correlations over the players of runs",
        "cluster.suite_commands.kumo.analyze",
    ),
    "trajectories": ("perfect plays as training data: chats with a loss mask", _TRAJECTORIES),
    "verify-trajectories": ("replay a file of trajectories", _TRAJECTORIES),
    "token-masks": (
        "trajectories as tokens of a model, with a mask for the loss",
        "cluster.suite_commands.kumo.token_masks",
    ),
    "split": ("domains whose truths and tests have a train/test split", _TRAJECTORIES),
}
_OLD_NAMES = {
    "replay-transcripts": "import-transcripts",
    "halves": "lab split",
    **{name: f"lab {name}" for name in _LAB if name not in ("split", "token-masks")},
}
"""Former names of commands, which still work, with what to type now."""


class _Parser(Parser):
    """Of one command; asks the command's module for its arguments only when a command line names it."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, with the arguments declared."""
        self.declare()
        return super().parse_known_args(args, namespace)

    def declare(self) -> None:
        """Import the module and let it declare its arguments, once."""
        module = self.get_default("kumo_module")
        if module and not self.get_default("kumo_declared"):
            self.set_defaults(kumo_declared=True)
            importlib.import_module(module).add_arguments(self)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands on ``raycade kumo``'s parser; their own arguments only once one is called."""
    parser.description = "KUMO's domains, tasks and published benchmark. `raycade run suite=kumo` plays it."
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for name, (what, module) in _CORE.items():
        _declare_with(commands.add_parser(name, help=what), name, module)
    lab = commands.add_parser("lab", help="let models write domains and books; analysis of runs; training data")
    lab.description = "KUMO's laboratory: domains and books written by models, analysis of runs, training data."
    lab_commands = lab.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for name, (what, module) in _LAB.items():
        _declare_with(lab_commands.add_parser(name, help=what), name, module)
    for old, now in _OLD_NAMES.items():
        name = now.split()[-1]
        # Without a help text argparse does not list them.
        module = (_CORE[name] if name in _CORE else _LAB[name])[1]
        _declare_with(commands.add_parser(old), name, module).set_defaults(kumo_old_name=old)


def main(options: argparse.Namespace) -> int:
    """Run a command; 2 for bad input."""
    old = getattr(options, "kumo_old_name", None)
    if old:
        print(f"note: `raycade kumo {old}` is called `raycade kumo {_OLD_NAMES[old]}` now", file=sys.stderr)
    return int(importlib.import_module(options.kumo_module).main(options))


def _declare_with(parser: _Parser, name: str, module: str) -> _Parser:
    """A command's parser that knows its module."""
    parser.set_defaults(kumo_command=name, kumo_module=module)
    # Completion looks at the arguments before a line is parsed, so those of a command that is typed are declared at once.
    if name in os.environ.get("COMP_LINE", "").split():
        parser.declare()
    return parser
