"""The command line: ``raycade COMMAND`` or ``python -m cluster COMMAND``."""

from __future__ import annotations

import argparse
import contextlib
import errno
import functools
import importlib.metadata
import io
import re
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any, NoReturn

from cluster import stop_signals, streams
from cluster.commands.arguments import ADD_ARGUMENTS
from cluster.completion import complete_overrides, completed_command, offer_completion
from cluster.console import show, warn
from cluster.errors import BAD_INPUT, CONTINUE, INTERRUPTED, RUN_FAILED, ResumableError, RunFailedError, UserError
from envs import plugins
from envs.files import FileError
from envs.printable import printable
from envs.suggest import did_you_mean
from evals.errors import SuiteError

SUITE_COMMANDS = "raycade.commands"
"""Entry-point group of commands that suites add: modules with ``add_arguments(parser)`` and ``main(options)``."""

BUILT_IN_COMMANDS = {
    "compare": "cluster.commands.compare",
    "study": "cluster.commands.study",
    "list": "cluster.commands.list_runs",
    "show": "cluster.commands.show_episode",
    "notes": "cluster.commands.notes",
    "status": "cluster.commands.status",
    "rescore": "cluster.commands.rescore",
    "retest": "cluster.commands.retest",
    "replay": "cluster.commands.replay",
    "upload": "cluster.commands.upload",
    "models": "cluster.commands.list_models",
    "settings": "cluster.commands.list_settings",
    "play": "cluster.commands.play",
    "serve": "cluster.commands.serve",
    "export": "cluster.commands.export",
    "import": "cluster.commands.import_run",
    "preregister": "cluster.commands.preregister",
    "challenge": "cluster.commands.challenge",
    "trained-on": "cluster.commands.trained_on",
    "view": "cluster.commands.view",
    "site": "cluster.commands.site",
    "watch-checkpoints": "cluster.commands.watch_checkpoints",
    "new": "cluster.scaffold.new",
    "people": "cluster.people.command",
    "doctor": "cluster.doctor.command",
    "fetch": "cluster.doctor.fetch",
}
COMMAND_HELP = {
    "compare": "differences between runs, or players of one, on identical games",
    "study": "the same games in several settings: what each changes, and why games were lost",
    "list": "the runs in a folder: when, what, how far, score, cost",
    "show": "one episode, turn by turn, in the terminal",
    "notes": "tags and notes on episodes: write, count, export, import",
    "status": "progress of a run, from another shell",
    "rescore": "read the stored replies with other settings of the suite",
    "replay": "old name of retest",
    "retest": "ask a sample of turns again and report the agreement",
    "upload": "send a finished run to its tracker (W&B)",
    "models": "the model files, and which can be used here",
    "settings": "the keys of a suite, model, tracker or cluster: types, defaults, meaning",
    "preregister": "write down hypothesis, plan and stopping rule of a run before it begins",
    "challenge": "games that nobody has seen: commit to their seeds, open them later, check a run",
    "trained-on": "say of a run which of its games its model was trained on",
    "play": "play a suite yourself, in the terminal or the browser",
    "serve": "let a program play a suite: an agent, over HTTP or MCP",
    "export": "a run in the formats of others: Every Eval Ever, inspect_ai, Hugging Face, lm_eval",
    "import": "a run from Every Eval Ever or inspect_ai, played here or by another harness",
    "new": "a package of your own to start from: a suite, an engine, a KidGym task, a KUMO domain",
    "view": "episodes in the browser: filter, search, step through, compare",
    "watch-checkpoints": "play the checkpoints of a training as they come, and show the curve",
    "site": "a static leaderboard of runs: a folder of pages to be put on any server",
    "people": "studies with people: their links, pages, answers as a ledger, agreement, pay",
    "doctor": "try what a run needs on these machines; say what is broken, and how to mend it",
    "fetch": "download a model once, with its hashes checked, for runs without a network",
}

RUN_HELP = """\
Plays a suite with a model and scores the episodes. Without overrides it runs the demo: a slice of all three suites with a
tiny model built on this machine. An interrupted run resumes when you run the same command again.

overrides (Hydra's syntax; a value with a comma needs brackets):
  suite=demo|kumo|kidgym|multistar   what is played; settings of a suite by path:
      suite=kumo      suite.domains=[medical] suite.difficulties=[easy] suite.tasks_per_domain=50 suite.repeats=5
      suite=kidgym    suite.tasks=[CL,SE] suite.levels=[1] suite.modes=[zero_shot,cot,icl] suite.episodes=100
      suite=multistar suite.subtask=chain|direct suite.puzzles=10 suite.priors=[none,model,truth]
  model=tiny|simulated|oracle|random|qwen2_5_vl_7b|...   who plays
  decoding=free|choice       free text, or replies constrained to the options of each turn
  baselines=[random,oracle]  built-in players that play the same episodes for comparison
  cluster=local|ray          Ray on this machine, or an existing cluster; cluster.replicas=2 cluster.runners=1
  cluster=inline             one engine in this process, without Ray: starts sooner
  tracker=none|wandb         tracker.mode=online needs WANDB_API_KEY in the environment
  stop=decided against=RUN   stop when the better of two is known (or against=PLAYER; near ties: delta=.05)
  stop=precise precision=.02 stop when the interval is ±.02 or narrower
  shard=2/8                  play one shard of the plan; `raycade merge` joins the shards
  run_dir=PATH               default runs/SUITE-MODEL-PLAN

examples:
  raycade run
  raycade run suite=kumo suite.domains=[medical,music] suite.difficulties=[easy] model=qwen2_5_vl_7b
  raycade run -m suite=kumo model=oracle,random          one run after the other (Hydra multirun)
  raycade run -m hydra/launcher=slurm model=a,b          each as a Slurm job; one run over several nodes: ./launch.sh slurm
"""

EPILOG = "Run `raycade COMMAND --help` for details. Exit codes: 2 for bad input, 75 for a run that was stopped early."


_OVERRIDE = re.compile(r"[+~]?[A-Za-z_][\w./@]*=")
"""A setting on the command line."""


_WRONG_PLACE = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR)
"""Errors of the system over a path that the command line names."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; user errors end with one message and exit code 2."""
    streams.open_closed_streams()
    streams.forget_sizes_of_nothing()
    streams.forget_windows()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ASCII-only terminals
    words = list(sys.argv[1:] if arguments is None else arguments)
    stderr = sys.stderr
    with contextlib.redirect_stderr(streams.Lasting(stderr)):  # type: ignore[type-var]
        try:
            code = _main(words)
        finally:
            streams.end(sys.stdout)
            streams.end(stderr)
    sys.exit(code)


def _main(words: list[str]) -> int:
    """Run a command; returns the exit code."""
    code = 0
    try:
        stop_signals.interruptible()
        parser = parser_for(words[0] if words else completed_command())
        offer_completion(parser)
        options, unknown = parser.parse_known_args(words)
        takes_overrides = hasattr(options, "overrides")
        if unknown and takes_overrides and all(_OVERRIDE.match(word) for word in unknown):
            options.overrides += unknown  # those behind an option, which argparse does not expect there
            unknown = []
        if unknown:
            parser.refuse(words[0], unknown)
        code = options.command(options)
        sys.stdout.flush()
    except (UserError, FileError, SuiteError) as error:
        _tell(str(error))
        code = BAD_INPUT
    except RunFailedError as error:
        _tell(str(error))
        code = CONTINUE if isinstance(error, ResumableError) else RUN_FAILED
    except ModuleNotFoundError as error:  # a suite's command without the suite's extra
        _tell(plugins.missing_package(SUITE_COMMANDS, words[0], error))
        code = BAD_INPUT
    except MemoryError as error:
        _tell(f"out of memory: {str(error) or 'this process may not have as much as it needs'}")
        code = RUN_FAILED
    except BrokenExecutor:
        _tell("a worker process ended suddenly: it was killed, perhaps for want of memory")
        code = RUN_FAILED
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        _tell(stop_signals.NO_PROCESSES)
        code = RUN_FAILED
    except BrokenPipeError:
        streams.give_up(sys.stdout)  # who read it has seen enough
    except OSError as error:  # a full disk, a path that is too long, a folder without write permission
        if error.errno == errno.ENOENT and _current_folder_is_gone():
            _tell("the current folder has been deleted or moved; change to one that is there (`cd`), and try again")
            return BAD_INPUT
        _tell(str(error))
        # The place that was named is wrong, or not this user's.
        code = BAD_INPUT if error.errno in _WRONG_PLACE else RUN_FAILED
    except KeyboardInterrupt:  # outside a run, which handles the signal itself
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    return code


def _current_folder_is_gone() -> bool:
    """Whether somebody has removed the folder that the shell stands in, also where a new one has its name."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def parser_for(command: str) -> Parser:
    """The parser of all commands; of those that suites add, only ``command`` is imported.

    Raises:
        UserError: a suite's command cannot be imported.
    """
    parser = Parser(
        prog="raycade",
        description="Evaluates language and vision-language models on reasoning games, on Ray and vLLM.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"raycade {importlib.metadata.version('raycade')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter

    run = commands.add_parser("run", help="play and score a suite", description=RUN_HELP, formatter_class=raw)
    run.add_argument(
        "-m", "--multirun", action="store_true", help="one run for each combination of comma-separated values"
    )
    run.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="RUN_DIR",
        help="repeat a run, in RUN_DIR-again unless run_dir=... is given, and say what differs this time",
    )
    complete_overrides(run.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))
    run.set_defaults(command=_run)

    plan = commands.add_parser(
        "plan",
        help="dry run: episodes, model calls, tokens, estimated time",
        description="Shows what `raycade run` would do with these overrides. Loads no model and uses no GPU.",
    )
    plan.add_argument(
        "--like", type=Path, metavar="RUN_DIR", help="estimate time, success and likeness of repeats from a past run"
    )
    plan.add_argument("--precision", type=float, metavar="X", help="say how many games an interval of ±X takes")
    plan.add_argument("--detect", type=float, metavar="X", help="say how many games it takes to find a difference of X")
    complete_overrides(plan.add_argument("overrides", nargs="*", metavar="KEY=VALUE"))
    plan.set_defaults(command=_plan)

    report = commands.add_parser(
        "report",
        help="tables, figures, HTML and LaTeX of finished or running runs, computed from their ledgers",
        description="Scores each run from its ledger, prints a summary and writes all tables to RUN_DIR/tables. Tables and "
        "figures of several runs are joined.",
    )
    report.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    report.add_argument("--full", action="store_true", help="print all tables with all columns and notes")
    report.add_argument(
        "--html", type=Path, metavar="FILE", help="write a self-contained page with figures and episodes"
    )
    report.add_argument("--latex", type=Path, metavar="FOLDER", help="write each table as LaTeX, for booktabs")
    report.add_argument(
        "--figures",
        type=Path,
        metavar="FOLDER",
        help="write each figure as SVG, PDF and PNG, and with its caption as LaTeX",
    )
    report.add_argument(
        "--width",
        choices=("column", "text"),
        help="width of figures in a two-column page (default: a column for one panel, the text for more)",
    )
    report.add_argument("--radar", action="store_true", help="draw scores on one scale as radars instead of dots")
    report.add_argument(
        "--names", default="", metavar="A,B", help="labels of the runs in joint tables and figures, separated by commas"
    )
    report.set_defaults(command=_report)

    merge = commands.add_parser(
        "merge",
        help="merge runs that played shards of one plan (shard=i/n)",
        description="Merges the ledgers of RUN_DIRs into TARGET and scores it; refuses runs that contradict each other. "
        "TARGET may hold an earlier merge, so shards can be added one by one.",
    )
    merge.add_argument("target", type=Path, metavar="TARGET")
    merge.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    merge.set_defaults(command=_merge)
    try:
        for name, source in plugins.registered(SUITE_COMMANDS, BUILT_IN_COMMANDS).items():
            if name in commands.choices:
                raise ValueError(f"{SUITE_COMMANDS}: {name} ({source}) is a command of raycade; give it another name")
            added = commands.add_parser(name, help=COMMAND_HELP.get(name) or _summary(name))
            if name == command and name in ADD_ARGUMENTS:
                ADD_ARGUMENTS[name](added)
                added.set_defaults(command=functools.partial(_run_built_in, name))
            elif name == command:
                module: Any = plugins.load(SUITE_COMMANDS, name, BUILT_IN_COMMANDS)
                for function in ("add_arguments", "main"):
                    if not callable(getattr(module, function, None)):
                        raise ValueError(f"the command {name} ({module.__file__}) has no function {function}")
                module.add_arguments(added)
                added.set_defaults(command=functools.partial(_run_module, module))
    except ValueError as error:
        raise UserError(str(error)) from error
    return parser


def _tell(error: str) -> None:
    print(f"error: {_without_keys(printable(error))}", file=sys.stderr)


def _without_keys(text: str) -> str:
    from cluster.engines.api_secrets import without_keys  # needed only where there is an error

    return without_keys(text)


def _summary(name: str) -> str:
    return printable(plugins.summary(SUITE_COMMANDS, name))


class Parser(argparse.ArgumentParser):
    """Whose errors suggest what a misspelled command or option was meant to be."""

    def error(self, message: str) -> NoReturn:
        """Print the message, with a suggestion where there is one, and exit with code 2."""
        if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            names = [name.strip("'") for name in found[2].split(", ")]
            message = f"{message}{did_you_mean(found[1], names)}"
        elif unknown := re.match(r"unrecognized arguments: (--?[\w-]+)", message):
            message = f"{message}{did_you_mean(unknown[1], self._options())}"
        super().error(_without_keys(message))

    def refuse(self, command: str, unknown: Sequence[str]) -> NoReturn:
        """Say which arguments a command does not know, with that command's usage."""
        parser = self._commands().get(command, self)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")

    def _options(self) -> list[str]:
        """Options of this parser and of its commands'."""
        parsers = [self, *self._commands().values()]
        return sorted({option for parser in parsers for option in parser._option_string_actions})

    def _commands(self) -> dict[str, argparse.ArgumentParser]:
        # Of its arguments only commands have parsers as choices.
        groups = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return {name: parser for group in groups for name, parser in group.choices.items()}


def _run_built_in(name: str, options: argparse.Namespace) -> int:
    return _run_module(plugins.load(SUITE_COMMANDS, name, BUILT_IN_COMMANDS), options)


def _run_module(module: Any, options: argparse.Namespace) -> int:
    return int(module.main(options) or 0)


def _run(options: argparse.Namespace) -> int:
    from cluster.commands.run import run_and_show
    from cluster.config.settings import check_pictures, load_settings

    if options.source is not None:
        from cluster.commands.repeat import repeat

        return repeat(options.source, options.overrides)
    if options.multirun:
        from cluster.commands.sweep import multirun

        return multirun(options.overrides)
    settings = load_settings(options.overrides)
    check_pictures(settings)
    return run_and_show(settings)


def _plan(options: argparse.Namespace) -> int:
    from cluster.commands.plan import describe_plan
    from cluster.config.settings import check_environment, load_settings
    from cluster.stopping.precision import precision_table

    settings = load_settings(options.overrides)
    try:
        check_environment(settings)
    except UserError as error:
        if not settings.model.metered:
            raise
        warn(str(error))  # a plan needs no key, but the run will
    bought = precision_table(settings, options.like, options.precision, options.detect)
    show([*describe_plan(settings, options.like), bought])
    return 0


def _report(options: argparse.Namespace) -> int:
    from cluster.commands.report import Files, report

    names: list[str] = []
    if options.names:
        names = [name.strip() for name in options.names.split(",")]
    files = Files(options.html, options.latex, options.figures, options.width, options.radar)
    report(options.run_dirs, options.full, files, names)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from cluster.commands.merge import merge
    from cluster.commands.report import report

    joined = merge(options.target, options.run_dirs)
    print(f"{options.target}: {joined.rows} of {joined.planned} planned episodes merged\n")
    for warning in joined.warnings:
        warn(warning)
    report([options.target], full=False)
    return 0
