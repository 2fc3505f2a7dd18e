"""The arguments of commands that show runs."""

import argparse
from pathlib import Path

from cluster.completion import complete_episode
from cluster.serve.limits import LOOPBACK


def list_(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade list``."""
    parser.description = "Lists all runs in a folder and the folders below it, the latest first. Reads only."
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs"), metavar="FOLDER", help="default: runs")


def show(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade show``."""
    parser.description = (
        "Shows one episode: what each turn added to the prompt, the reply, what was decoded from it and by which rule, and "
        "what the suite knows of the step. Without EPISODE it lists the model's episodes, failed, cut off and lost ones first."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    complete_episode(
        parser.add_argument("episode", nargs="?", metavar="EPISODE", help="an episode's id, or its first few digits")
    )
    parser.add_argument(
        "--pictures",
        choices=("auto", "blocks", "sixel", "kitty", "none"),
        default="auto",
        help="how pictures are drawn; auto: as well as the terminal can, and not at all on a pipe",
    )
    parser.add_argument("--full", action="store_true", help="whole texts, however long")
    parser.add_argument(
        "--tag", default="", metavar="TAG", help="list only episodes with this tag (see `raycade notes`)"
    )


def notes(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade notes``."""
    parser.description = (
        "Tags and notes on the episodes of a run, kept in its notes.jsonl with author and time. Without an option it counts "
        "the tags and lists the latest notes. `raycade view` writes notes, too."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    what = parser.add_mutually_exclusive_group()
    complete_episode(
        what.add_argument("--on", dest="episode", metavar="EPISODE", help="add --tag, --text or both to this episode")
    )
    what.add_argument("--remove", metavar="NOTE", help="remove a note by its id")
    what.add_argument(
        "--export", type=Path, metavar="FILE", help="write the notes, those with --tag only, as .csv or .jsonl"
    )
    what.add_argument(
        "--import",
        dest="import_",
        type=Path,
        metavar="FILE",
        help="add the notes of a .csv or .jsonl file with episode, tag, text, and perhaps author, time and id",
    )
    parser.add_argument("--tag", default="", metavar="TAG", help="a few words that notes are counted by")
    parser.add_argument("--text", default="", metavar="TEXT", help="anything else")
    parser.add_argument("--author", default="", metavar="NAME", help="who writes it (default: the user's name)")


def status(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade status``."""
    parser.description = (
        "Says whether a run is at work, complete, stopped or dead, how far each player is, how fast it goes and how long it "
        "will take. It reads plan, ledger and lease only, so it works from any machine that sees the folder."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument(
        "--live",
        action="store_true",
        help="show what running episodes say, too, and go on until the run is complete or you press Ctrl-C",
    )


def view(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade view``."""
    parser.description = (
        "Shows the episodes of runs in a browser: filter, search, step through one, put two side by side. "
        "Serves one page on this machine; finished and running runs alike."
    )
    parser.add_argument(
        "run_dirs", nargs="*", type=Path, metavar="RUN", help="run directories; by default all in runs/"
    )
    parser.add_argument(
        "--episode", metavar="ID", default="", help="open this episode (of the first run; of others RUN/ID)"
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FOLDER",
        help="write the pages as files into a new or empty folder, and end: they open from a disk and from any web server",
    )
    some = parser.add_mutually_exclusive_group()
    some.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="S",
        help="with --export: the share of the episodes of each cell that can be opened, the same games for all players "
        "(default: 1); all are listed and counted",
    )
    some.add_argument("--failed", action="store_true", help="with --export: only failed episodes can be opened")
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any that is free)")
    parser.add_argument("--no-token", action="store_true", help="let in whoever reaches the port")


def site(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade site``."""
    parser.description = (
        "Writes a leaderboard of finished and running runs as a folder of pages: an index, a page for each suite and each "
        "model, and games to look at. The pages load nothing from elsewhere; open index.html, or put the folder on any static "
        "server."
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder; must be empty, new, or an earlier site"
    )
    parser.add_argument("--title", default="Leaderboard", help="of the site (default: Leaderboard)")
    parser.add_argument("--license", default="", metavar="TEXT", help="license of the results, such as 'CC BY 4.0'")
