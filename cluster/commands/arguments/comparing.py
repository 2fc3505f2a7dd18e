"""The arguments of commands that compare runs, and check what was said of them."""

import argparse
from pathlib import Path

from cluster.completion import complete_overrides


def compare(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade compare``."""
    parser.description = (
        "Pairs the episodes of two sides by game (suite, task, level, mode, index, repeat and seed) and reports the "
        "difference of every measure with its interval and p-value, overall and by cell; the smallest difference that so many "
        "games could show; what differs in settings, versions, prompts and pictures; and the games that one side won and the "
        "other did not. Of several runs, the model of each is compared with that of the first; within one run, the model with "
        "every other player."
    )
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--players", metavar="A,B", help="compare these players, in every run that has them")
    parser.add_argument("--measure", metavar="COLUMN", help="compare this column of the ledger, such as steps or cost")
    parser.add_argument(
        "--detect", type=float, metavar="X", help="also say how many games would show a difference of X, such as 0.05"
    )
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write the differences as forest plots")
    parser.add_argument("--flips", type=int, default=5, metavar="N", help="games to list in each direction (default 5)")


STUDY_HELP = """\
A study plays the same games in several settings and tells what each changes. `run` plays the runs of a factorial design (every
combination of comma-separated values), or of one that changes one setting at a time. `report` reads runs that differ in
settings of the suite, history, sampling or decoding: paired effects, interactions, shares of variance; and, where
suite.modality is picture in one run and text in another, which games were lost by seeing, by planning and by form.
"""


def study(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade study``."""
    parser.description = STUDY_HELP
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|report")
    playing = actions.add_parser("run", help="play the runs of a study", description=STUDY_HELP)
    playing.add_argument("--one-at-a-time", action="store_true", help="the baseline, and each other value alone")
    complete_overrides(
        playing.add_argument(
            "overrides", nargs="+", metavar="KEY=VALUE[,VALUE...]", help="the first value is the baseline"
        )
    )
    telling = actions.add_parser("report", help="tables and a figure from the ledgers", description=STUDY_HELP)
    telling.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN", help="the baseline first")
    telling.add_argument("--player", metavar="NAME", help="whose games (default: the model of each run)")
    telling.add_argument("--out", type=Path, metavar="FOLDER", help="also write tables, LaTeX and the figure")


def rescore(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade rescore``."""
    parser.description = (
        "Plays the stored replies through the suite again, with its present decoder and the settings that are named, and "
        "shows old and new success side by side. The ledger stays as it is. Settings of one suite are named by "
        "suite.KEY=VALUE, those of a suite in a bundle by its place: suite.suites.0.decoder=strict. Programs that the suite "
        "starts must be named so."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("overrides", nargs="*", metavar="suite.KEY=VALUE")
    parser.add_argument(
        "--turns", type=int, default=10, metavar="N", help="turns read differently to list (default 10)"
    )
    parser.add_argument("--full", action="store_true", help="also the suite's tables of scores, computed anew")


def retest(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade retest``."""
    parser.description = (
        "Starts the run's engine on this machine, without Ray, asks a seeded sample of its turns again with the same prompts, "
        "sampling and seeds, and reports how many replies and decoded actions agree. Nothing is stored but what it costs."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="settings of suite and model.engine; an address other than the engine's own, keys, headers and programs of the "
        "run's configuration must be given again",
    )
    parser.add_argument("--share", type=float, default=0.05, help="share of the model's turns (default 0.05)")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws another sample")
    parser.add_argument("--turns", type=int, default=10, metavar="N", help="differing turns to list (default 10)")


def preregister(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade preregister``."""
    parser.description = (
        "Writes what a run with these overrides will be to FILE and prints its SHA-256, to be published. `raycade run` with "
        "the same overrides and preregistration=FILE keeps it with the run, and `raycade compare` says what was kept."
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="what to write; it must not exist")
    parser.add_argument("--hypothesis", required=True, metavar="TEXT", help="what is expected, in a sentence")
    parser.add_argument("--measure", default="success", help="what will be compared (default success)")
    parser.add_argument("--alpha", type=float, default=0.05, help="chance of a wrong claim (default .05)")
    complete_overrides(parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))


def challenge(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade challenge``."""
    parser.description = (
        "`new` draws a secret and prints its hash, to be published before anything is played; runs with "
        "suite.seeds=sealed:FILE then play games that only the secret tells. `open` shows the secret, so that everybody can "
        "play the same games and check the hash; `check` says whether a run played them."
    )
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    new = commands.add_parser("new", help="draw a secret, and print its hash to be published")
    new.add_argument("file", type=Path, metavar="FILE")
    opened = commands.add_parser("open", help="print the secret, and check it against the published hash")
    opened.add_argument("file", type=Path, metavar="FILE")
    opened.add_argument("--hash", required=True, metavar="SHA256", help="as it was published")
    check = commands.add_parser("check", help="see that a run played the games of an opened secret")
    check.add_argument("run_dir", type=Path, metavar="RUN")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--hash", required=True, metavar="SHA256", help="as it was published")


def trained_on(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade trained-on``."""
    parser.description = (
        "Compares the games of a run with a file that an environment for training wrote (trained_on=FILE), by their seeds "
        "and by what they show. What is found is kept with the run, and stands above the scores of its report."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("file", type=Path, metavar="FILE")
