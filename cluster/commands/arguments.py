"""The arguments of the commands, apart from what they do: help and completion import nothing that computes or serves."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cluster.checkpoints import SETTLED
from cluster.completion import complete_episode, complete_overrides
from cluster.models.grades import GRADES
from cluster.serve.limits import LIMITS, LOOPBACK

COMPARE_HELP = """\
Pairs the episodes of two sides by game (suite, task, level, mode, index, repeat and seed) and reports the difference of
every measure with its interval and p-value, overall and by cell; the smallest difference that so many games could show;
what differs in settings, versions, prompts and pictures; and the games that one side won and the other did not.
Of several runs, the model of each is compared with that of the first; within one run, the model with every other player.
"""


def compare(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade compare``."""
    parser.description = COMPARE_HELP
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


def upload(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade upload``."""
    parser.description = (
        "Scores a run and sends scores, tables, sampled episodes and artifacts to its tracker, under the id that the run "
        "itself would use. It works for complete, stopped and failed runs; settings of the tracker that are not named are "
        "those of the run, else those of conf/tracker/wandb.yaml."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("overrides", nargs="*", metavar="tracker.KEY=VALUE")


def models(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade models``."""
    parser.description = (
        "Lists what model=NAME can name: parameters, GiB of the weights, GPUs of 48, 80 and 141 GB that a replica needs, "
        "pictures, thinking, cache, and how far it was tried. Any other model of the hub: model=hf "
        "model.engine.model=ORGANIZATION/NAME."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only models whose name, id, family or license has it")
    parser.add_argument("--fits", type=float, metavar="GB", help="only models that fit one GPU of so many GB")
    parser.add_argument("--vision", action="store_true", help="only models that read pictures")
    parser.add_argument("--grade", choices=GRADES, help="only models that came at least as far")
    parser.add_argument("--json", action="store_true", help="print all columns as JSON")
    parser.add_argument(
        "--prove",
        metavar="NAME",
        help="try a model without its weights: shrunken, random, on the real engine (a minute; needs vLLM)",
    )


def settings(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade settings``."""
    parser.description = (
        "Lists the keys of a suite, model, tracker or cluster: type and bounds, default, meaning. Suites and engines of "
        "other packages are included. All keys of raycade's own: docs/configuration.md."
    )
    parser.add_argument(
        "groups", nargs="+", metavar="GROUP=NAME", help="suite=kumo, model=tiny, tracker=wandb, cluster"
    )
    parser.add_argument(
        "--schema", action="store_true", help="print a JSON schema, by which editors check a file of your own in conf/"
    )


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


EXPORT_FORMATS: Final = {
    "every_eval_ever": "Every Eval Ever, schema 0.3: aggregate JSON and one line for each episode",
    "inspect": "inspect_ai's .eval, chats with pictures; `inspect view` opens it",
    "huggingface": "a dataset's folder to upload: Parquet with images, card, scores for model pages",
    "lm_eval": "results and samples as lm-evaluation-harness writes them",
}


def export(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade export``."""
    formats = "; ".join(f"{name}: {what}" for name, what in EXPORT_FORMATS.items())
    parser.description = (
        f"Writes a run, finished or not, in a format of others. {formats}. Each file says what is left out. Keys, hosts and "
        "paths of the configuration stay here; what models wrote is data and leaves. Nothing is uploaded."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("--to", required=True, choices=EXPORT_FORMATS, metavar="FORMAT", help=", ".join(EXPORT_FORMATS))
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="a new or empty folder")
    parser.add_argument(
        "--repo", default="", metavar="ORGANIZATION/NAME", help="of the dataset on the Hub, for scores on model pages"
    )


def import_(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade import``."""
    parser.description = (
        "Makes a run of files that `raycade export` wrote, row for row, or of another harness's log of our games: an .eval of "
        "inspect_ai, or an aggregate .json of Every Eval Ever with its samples beside it. Of a log from elsewhere, each "
        "sample's metadata must name suite, task, level, mode and index; the suite and its settings are given as for `raycade "
        "run`, and the replies are read by the suite's own rules. A sample whose prompts are not the suite's is refused. "
        "`raycade report` and `raycade compare` read the run; its session says where it is from."
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE|suite.KEY=VALUE", help="files, and for logs from elsewhere suite=..."
    )
    parser.add_argument("--out", required=True, type=Path, metavar="RUN", help="a new run directory")
    parser.set_defaults(overrides=[])  # those behind an option
    parser.add_argument(
        "--player", default="", metavar="NAME", help="what the player of a log from elsewhere is called"
    )


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
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    new = commands.add_parser("new", help="draw a secret, and print its hash to be published")
    new.add_argument("file", type=Path, metavar="FILE")
    new.set_defaults(action="new")
    opened = commands.add_parser("open", help="print the secret, and check it against the published hash")
    opened.add_argument("file", type=Path, metavar="FILE")
    opened.add_argument("--hash", required=True, metavar="SHA256", help="as it was published")
    opened.set_defaults(action="open")
    check = commands.add_parser("check", help="see that a run played the games of an opened secret")
    check.add_argument("run_dir", type=Path, metavar="RUN")
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--hash", required=True, metavar="SHA256", help="as it was published")
    check.set_defaults(action="check")


def trained_on(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade trained-on``."""
    parser.description = (
        "Compares the games of a run with a file that an environment for training wrote (trained_on=FILE), by their seeds "
        "and by what they show. What is found is kept with the run, and stands above the scores of its report."
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN")
    parser.add_argument("file", type=Path, metavar="FILE")


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


SITE_HELP = """\
Writes a leaderboard of finished and running runs as a folder of pages: an index, a page for each suite and each model, and
games to look at. The pages load nothing from elsewhere; open index.html, or put the folder on any static server.
"""


def site(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade site``."""
    parser.description = SITE_HELP
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder; must be empty, new, or an earlier site"
    )
    parser.add_argument("--title", default="Leaderboard", help="of the site (default: Leaderboard)")
    parser.add_argument("--license", default="", metavar="TEXT", help="license of the results, such as 'CC BY 4.0'")


WATCH_CHECKPOINTS_HELP = """\
Plays every complete checkpoint of FOLDER (a Hugging Face folder whose name ends with its step) on the same balanced games, in
the order of their steps, one run each, and then waits for more. The same command goes on where it was stopped. It ends with
--once, with --until, with a file DONE in FOLDER, or with Ctrl-C.
"""


def watch_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade watch-checkpoints``."""
    parser.description = WATCH_CHECKPOINTS_HELP
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


DOCTOR_HELP = """\
Tries what a run with these overrides needs: packages, keys, memory, limits, file systems, ports, the model's files, GPUs one by
one with a small engine, Ray and Slurm. With cluster.address=... it looks at every node of that Ray cluster, within a Slurm job
at every node of the job. Exit code 1 if a check fails.
"""


def doctor(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade doctor``."""
    parser.description = DOCTOR_HELP
    parser.add_argument("--quick", action="store_true", help="start neither an engine nor Ray (a few seconds)")
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")
    parser.add_argument(
        "--node", help=argparse.SUPPRESS
    )  # this call is a part of another one, which looks at many nodes
    complete_overrides(parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))


FETCH_HELP = """\
Downloads a model into the cache of Hugging Face (HF_HOME), checks the hash of every file and pins the commit. MODEL is a
name of `raycade models`, or ORGANIZATION/NAME of the hub. A stopped download goes on with the bytes that are there. What does
not fit the disk is refused before it starts.
"""


def fetch(parser: argparse.ArgumentParser) -> None:
    """Of ``raycade fetch``."""
    parser.description = FETCH_HELP
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--revision", default="main", metavar="R", help="branch, tag or commit (default main)")


ADD_ARGUMENTS: Final[Mapping[str, Callable[[argparse.ArgumentParser], None]]] = {
    "compare": compare,
    "study": study,
    "list": list_,
    "show": show,
    "notes": notes,
    "status": status,
    "rescore": rescore,
    "retest": retest,
    "upload": upload,
    "models": models,
    "settings": settings,
    "play": play,
    "people": people,
    "serve": serve,
    "export": export,
    "import": import_,
    "preregister": preregister,
    "challenge": challenge,
    "trained-on": trained_on,
    "view": view,
    "site": site,
    "watch-checkpoints": watch_checkpoints,
    "doctor": doctor,
    "fetch": fetch,
    "replay": retest,
}
"""Declares the arguments of each built-in command of ``cluster.cli``."""
