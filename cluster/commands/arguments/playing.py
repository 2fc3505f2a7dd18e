"""The arguments of commands that play."""

import argparse
from pathlib import Path

from cluster.checkpoints import SETTLED
from cluster.completion import complete_overrides
from cluster.serve.limits import LIMITS, LOOPBACK

PLAY_HELP = """\
You play the games that a model plays, with the same pictures, through the same loop, into a run directory like any other.
The words are for people: the prompts without answer tags and other advice on how to write a reply. Stop whenever you like
(:quit, Ctrl-C): finished games are kept, and the same command goes on.

examples:
  raycade play suite=kidgym suite.tasks=[CL,SO] suite.levels=[1]
  raycade play --browser suite=kumo suite.domains=[medical] suite.difficulties=[easy] suite.tasks_per_domain=5
  raycade play --participant ann suite=multistar suite.configurations=[center_single] baselines=[random,oracle]

By default each game is played once: one episode for each KidGym task and level (zero-shot), one KUMO task for each domain and
difficulty, and the direct questions on one RAVEN problem of each configuration.
"""


def play(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade play``."""
    parser.description, parser.formatter_class = PLAY_HELP, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--browser", action="store_true", help="play on a page in the browser, served on this machine only"
    )
    parser.add_argument("--port", type=int, default=0, help="port of the page; any free one by default")
    parser.add_argument(
        "--participant", default="", metavar="NAME", help="who plays: the player is called human_NAME (default: human)"
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="as for `raycade run`; suite=NAME is required"
    )


PEOPLE_HELP = """\
Lets people play, or judge, the games of a suite on pages of their own, each behind a link that cannot be guessed. A study is
a folder: edit its study.yaml and its texts, serve it, send the links, export the results.

examples:
  raycade people new study suite=kidgym suite.tasks=[CL,SO] suite.levels=[1] --players 3 --games 2
  raycade people serve study --port 8700
  raycade people export study --against runs/kidgym-random-1a2b3c4d
"""


def people(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade people``."""
    parser.description, parser.formatter_class = PEOPLE_HELP, argparse.RawDescriptionHelpFormatter
    acts = parser.add_subparsers(dest="act", required=True, metavar="new|add|serve|export")
    new = acts.add_parser("new", help="write a study into a new folder, with a link for each participant")
    new.add_argument("folder", type=Path, metavar="FOLDER")
    new.add_argument(
        "--kind", choices=("play", "review"), default="play", help="play games (default), or judge questions"
    )
    new.add_argument("--players", type=int, default=3, metavar="N", help="people for each game (default 3)")
    new.add_argument(
        "--games", type=int, default=10, metavar="N", help="games for each participant, at most (default 10)"
    )
    new.add_argument("--title", default="Study", help="above each page (default: Study)")
    new.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as for `raycade run`; suite=NAME is required")
    add = acts.add_parser(
        "add", help="add participants, in place of some who left; they get the games that lack players"
    )
    add.add_argument("folder", type=Path, metavar="FOLDER")
    add.add_argument("count", type=int, metavar="N")
    serve = acts.add_parser("serve", help="serve the pages until interrupted, and write links.csv")
    serve.add_argument("folder", type=Path, metavar="FOLDER")
    serve.add_argument("--host", default=LOOPBACK, help="address to listen on (default: this machine only)")
    serve.add_argument("--port", type=int, default=8700, help="port to listen on (default 8700)")
    serve.add_argument(
        "--public",
        default="",
        metavar="URL",
        help="where participants reach the server, such as https://study.example.org",
    )
    out = acts.add_parser("export", help="ledger, participants, pay, agreement, people beside models")
    out.add_argument("folder", type=Path, metavar="FOLDER")
    out.add_argument(
        "--against", nargs="+", type=Path, default=[], metavar="RUN", help="runs whose players are compared"
    )


SERVE_HELP = """\
Offers the episodes of a plan to programs that play them: agents with memory and tools, harnesses, anything that speaks HTTP
with JSON or the Model Context Protocol. The run directory is like any other: report, view, compare, resume.

examples:
  raycade serve suite=kumo suite.domains=[medical] player=my_agent version=1
  raycade serve --port 8600 --token-file agent.token suite=kidgym suite.tasks=[CL] player=my_agent version=2
  raycade serve --stdio suite=kidgym suite.tasks=[CL] player=my_agent run_dir=runs/my-agent

player=NAME is who plays, and version=TEXT which version of it: another version is another player, with episodes of its own.
"""


def serve(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade serve``."""
    parser.description, parser.formatter_class = SERVE_HELP, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any that is free)")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="file of the token that clients send; made if it is not there"
    )
    parser.add_argument(
        "--stdio", action="store_true", help="MCP over standard input and output, for a client that starts this command"
    )
    parser.add_argument(
        "--turn-timeout",
        type=float,
        default=LIMITS.turn_seconds,
        metavar="SECONDS",
        help="a game whose client is silent for so long is played again (default: %(default)g)",
    )
    parser.add_argument(
        "--episode-timeout",
        type=float,
        default=LIMITS.episode_seconds,
        metavar="SECONDS",
        help="likewise a game that takes longer in all (default: %(default)g)",
    )
    parser.add_argument(
        "--attempts",
        type=int,
        default=LIMITS.attempts,
        metavar="N",
        help="an episode that was left so often has failed (default: %(default)s)",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="as for `raycade run`; suite=NAME and player=NAME are required",
    )


def watch_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade watch-checkpoints``."""
    parser.description = (
        "Plays every complete checkpoint of FOLDER (a Hugging Face folder whose name ends with its step) on the same balanced "
        "games, in the order of their steps, one run each, and then waits for more. The same command goes on where it was "
        "stopped. It ends with --once, with --until, with a file DONE in FOLDER, or with Ctrl-C."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--games", type=int, default=100, metavar="N", help="games of each checkpoint (default 100; 0: the whole plan)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the runs and the curve (default runs/FOLDER)")
    parser.add_argument("--once", action="store_true", help="play what is there, and end")
    parser.add_argument("--until", type=int, metavar="STEP", help="end when a checkpoint of this step is played")
    parser.add_argument(
        "--settled", type=float, default=SETTLED, metavar="S", help=f"seconds without a change (default {SETTLED:g})"
    )
    parser.add_argument("--restart", action="store_true", help="start a new engine for each checkpoint")
    complete_overrides(parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))
