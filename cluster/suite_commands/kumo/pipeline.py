"""``raycade kumo lab propose | write | check | revise | make``: domains and books written by any model of the cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

_WHAT = {
    "propose": "Let a model propose new domains",
    "write": "Let a model write the domains that were proposed, and books for their tasks",
    "check": "Read books back, by our parser and by a model",
    "revise": "Let a model rewrite the books that the last check refused",
    "make": "Propose, write, check and revise domains and books, all in one",
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command that the parser's default ``kumo_command`` names."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = _HELP.format(what=_WHAT[parser.get_default("kumo_command")])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--estimate", action="store_true", help="only say what it is expected to take")


def main(options: argparse.Namespace) -> int:
    """Run a command; returns the exit code.

    Raises:
        UserError: an override is wrong, or the folder holds something else.
    """
    from cluster.suite_commands.kumo.stages import run_command  # only now: it takes Ray

    return run_command(options.kumo_command, options.folder, options.overrides, options.estimate)
