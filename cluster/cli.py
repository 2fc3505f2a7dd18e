"""The command line: ``raycade COMMAND`` or ``python -m cluster COMMAND``."""

from __future__ import annotations

import argparse
import functools
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.console import show, show_summary
from cluster.errors import BAD_INPUT, CONTINUE, INTERRUPTED, RUN_FAILED, RunFailedError, UserError
from envs import plugins

SUITE_COMMANDS = "raycade.commands"
"""Entry-point group of commands that suites add: modules with ``add_arguments(parser)`` and ``main(options)``."""

BUILT_IN_COMMANDS = {"kumo": "envs.kumo.commands", "raven": "envs.raven.commands"}
COMMAND_HELP = {
    "kumo": "KUMO domains and tasks: check your own, generate",
    "raven": "RAVEN problems: generate, import, check, show",
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
  tracker=none|wandb         tracker.mode=online needs WANDB_API_KEY in the environment
  shard=2/8                  play one shard of the plan; `raycade merge` joins the shards
  run_dir=PATH               default runs/SUITE-MODEL-PLAN

examples:
  raycade run
  raycade run suite=kumo suite.domains=[medical,music] suite.difficulties=[easy] model=qwen2_5_vl_7b
  raycade run -m suite=kumo model=oracle,random          one run after the other (Hydra multirun)
  raycade run -m hydra/launcher=slurm model=a,b          each as a Slurm job; one run over several nodes: ./launch.sh slurm
"""

EPILOG = "Run `raycade COMMAND --help` for details. Exit codes: 2 for bad input, 75 for a run that was stopped early."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; user errors end with one message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ASCII-only terminals
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser_for(words[0] if words else "").parse_args(words)
        code = options.command(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a full disk, a path that is too long, a folder without write permission
        print(f"error: {error}", file=sys.stderr)
        code = RUN_FAILED
    except KeyboardInterrupt:  # outside a run, which handles the signal itself
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def parser_for(command: str) -> argparse.ArgumentParser:
    """The parser of all commands; of those that suites add, only ``command`` is imported.

    Raises:
        UserError: a suite's command cannot be imported.
    """
    parser = argparse.ArgumentParser(
        prog="raycade",
        description="Evaluates language and vision-language models on reasoning games, on Ray and vLLM.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter

    run = commands.add_parser("run", help="play and score a suite", description=RUN_HELP, formatter_class=raw)
    run.add_argument(
        "-m", "--multirun", action="store_true", help="one run for each combination of comma-separated values"
    )
    run.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    run.set_defaults(command=_run)

    plan = commands.add_parser(
        "plan",
        help="dry run: episodes, model calls, tokens, estimated time",
        description="Shows what `raycade run` would do with these overrides. Loads no model and uses no GPU.",
    )
    plan.add_argument("--like", type=Path, metavar="RUN_DIR", help="estimate the time from a past run's speed")
    plan.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    plan.set_defaults(command=_plan)

    report = commands.add_parser(
        "report",
        help="tables of a finished or running run, computed from its ledger",
        description="Rescores each run from its ledger, prints the tables and writes them to RUN_DIR/tables.",
    )
    report.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    report.add_argument("--full", action="store_true", help="print all tables, not only the headline ones")
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
        for name in plugins.registered(SUITE_COMMANDS, BUILT_IN_COMMANDS):
            added = commands.add_parser(name, help=COMMAND_HELP.get(name, f"commands of {name}"))
            if name == command:
                module: Any = plugins.load(SUITE_COMMANDS, name, BUILT_IN_COMMANDS)
                module.add_arguments(added)
                added.set_defaults(command=functools.partial(_run_module, module))
    except ValueError as error:
        raise UserError(str(error)) from error
    return parser


def _run_module(module: Any, options: argparse.Namespace) -> int:
    return int(module.main(options) or 0)


def _run(options: argparse.Namespace) -> int:
    from cluster.commands.run import run
    from cluster.config.settings import load_settings

    if options.multirun:
        from cluster.commands.sweep import multirun

        return multirun(options.overrides)
    settings = load_settings(options.overrides)
    try:
        code, tables = run(settings)
    except RunFailedError as error:
        print(
            f"error: {error}\nFinished episodes are saved in {settings.run_dir}; run the same command again to resume.",
            file=sys.stderr,
        )
        return RUN_FAILED
    show_summary(tables)
    print(f"\nledger, tables and summary: {settings.run_dir}")
    if code == CONTINUE:
        print("stopped early; run the same command again to resume", file=sys.stderr)
    return code


def _plan(options: argparse.Namespace) -> int:
    from cluster.commands.plan import describe_plan
    from cluster.config.settings import load_settings

    show(describe_plan(load_settings(options.overrides), options.like))
    return 0


def _report(options: argparse.Namespace) -> int:
    from cluster.commands.report import report

    for run_dir in options.run_dirs:
        if len(options.run_dirs) > 1:
            print(f"# {run_dir}\n")
        report(run_dir, full=options.full)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from cluster.commands.merge import merge

    joined = merge(options.target, options.run_dirs)
    print(f"{options.target}: {joined.rows} of {joined.planned} planned episodes merged\n")
    for warning in joined.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    options.run_dirs, options.full = [options.target], False
    return _report(options)
