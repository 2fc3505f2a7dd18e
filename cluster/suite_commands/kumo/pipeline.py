"""``raycade kumo propose | write | check | revise | make``: domains and books written by any model of the cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

COMMANDS = {
    "propose": "let a model propose new domains",
    "write": "let a model write the domains that were proposed, and books for their tasks",
    "check": "read books back, by our parser and by a model",
    "revise": "let a model rewrite the books that the last check refused",
    "make": "propose, write, check and revise domains and books, all in one",
}
_HELP = """\
{what}. FOLDER keeps the runs with every attempt, and
what was accepted: proposals.yaml, domains/*.yaml, books/*.md, books.jsonl. Nothing in it is overwritten. The same
command resumes; answered requests are not repeated.

overrides, as of raycade run:
  model=openai|qwen2_5_7b|...   who writes; model.engine.max_num_seqs bounds the calls in flight
  decoding=choice               hold replies that are data to their JSON schema
  suite.proposals=20            domains to propose; suite.truths=50 suite.actions=30: how large they are at least
  suite.tasks_per_domain=5      tasks that get a book; suite.difficulty=easy|hard
  suite.domains=[medical]       write books for these domains instead of those in FOLDER
  suite.repairs=2               how often a reply is sent back; suite.rounds=2: how often books are checked
"""


def add_arguments(name: str, parser: argparse.ArgumentParser) -> None:
    """Declare a command's arguments."""
    what = COMMANDS[name]
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = _HELP.format(what=what[0].upper() + what[1:])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--estimate", action="store_true", help="only say what it is expected to take")


def main(name: str, folder: Path, overrides: Sequence[str], estimate: bool = False) -> int:
    """Run a command; returns the exit code.

    Raises:
        UserError: an override is wrong, or the folder holds something else.
    """
    from cluster.suite_commands.kumo.stages import run_command  # only now: it takes Ray

    return run_command(name, folder, overrides, estimate)
