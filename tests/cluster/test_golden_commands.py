"""What the commands print of fixed runs, as on record in ``tests/golden``: a change of any figure, word or order shows."""

import argparse
import re

import pyarrow as pa
import pytest

from cluster.cli import BUILT_IN_COMMANDS, parser_for
from cluster.commands.arguments import ADD_ARGUMENTS
from cluster.storage.run_directory import RunDirectory
from cluster.suite_commands.kumo import commands as kumo
from evals.players import OraclePlayer, RandomPlayer
from tests.cluster.test_cli import run_here
from tests.golden import check_golden
from tests.viewer_runs import HostilePlayer, ShortSighted, rows_of, small_suite, study_runs, write_run

PLAYERS = {"random": RandomPlayer(), "oracle": OraclePlayer(), "short-sighted": ShortSighted()}


def fixed(rows: pa.Table) -> pa.Table:
    """Rows whose times are those of no clock."""
    for number, name in enumerate(rows.schema.names):
        if pa.types.is_floating(rows.schema.field(name).type) and "seconds" in name:
            rows = rows.set_column(number, name, pa.array([0.5 + index for index in range(len(rows))], pa.float64()))
    return rows


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    plan, rows = rows_of(small_suite(), PLAYERS)
    write_run(folder / "good", plan, fixed(rows))
    write_run(folder / "part", plan, fixed(rows.slice(0, len(rows) - 5)))
    directory = RunDirectory(folder / "part")
    directory.claim()  # by a driver that has stopped
    directory.release()
    plan, rows = rows_of(small_suite(), {"hostile": HostilePlayer()})
    write_run(folder / "hostile", plan, fixed(rows))
    study_runs(folder / "study")
    return folder


KUMO = "suite=kumo suite.domains=[medical] suite.difficulties=[easy] suite.tasks_per_domain=2 suite.repeats=2"
COMMANDS = {
    "report": ["report part --full", "report hostile"],
    "look": [
        "list .",
        "status part",
        "show good",
        "show hostile",
        "show good 9713b0471e1e",  # KUMO
        "show good 6d35a4617c6d",  # KidGym
        "show good 69f5833569cc",  # MultiStAR
        "show hostile 462cc841189f",
        "notes good",
        "notes good --export good/plan.parquet/notes.csv",
    ],
    "compare": [
        "compare good hostile --flips 2",
        "compare good --players random,short-sighted --detect .1",
        "compare good --players random,oracle --measure steps --detect .1",
        "study report study/0 study/1 study/2 study/3",
        "rescore good suite.suites.0.decoder=strict",
        "rescore hostile --turns 2 --full",
    ],
    "plan": [
        f"plan {KUMO} model=random",
        f"plan {KUMO} model=simulated --precision .05 --detect .1",
        "plan suite=kidgym suite.tasks=[CL,SO] suite.episodes=3 model=random baselines=[oracle]",
        "plan suite=multistar suite.configurations=[center_single] suite.puzzles=6 model=simulated shard=2/3",
        f"plan {KUMO} model=anthropic model.engine.model=claude-opus-5 model.engine.batch=true model.engine.spend_cap=5",
    ],
    "models": [
        "models qwen --vision --fits 80",
        "models KIMIK25FOR",
        "models qwen3_vl_8b",
        "models --grade played",
        "models kimi --fits 80",
        "models QWEN3_VL_8B_THINKING",
        "models qwen3_8c",
        "models --fits 0.5",
    ],
}


def arguments_of(parser, name) -> list[str]:
    """What a command says of itself and of each of its arguments; then its own commands."""
    getattr(parser, "declare", lambda: None)()
    lines, inner = [f"# {name}: {parser.description}"], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines.append(f"{action.metavar}: {'needed' if action.required else 'may be left out'}")
            summaries = {each.dest: each.help for each in action._choices_actions}
            for each, own in action.choices.items():
                if each in summaries:  # no old name
                    inner += [f"{name} {each}: {summaries[each]}", *arguments_of(own, f"{name} {each}")]
            continue
        told = {"type": getattr(action.type, "__name__", None)}
        told |= {key: getattr(action, key) for key in ("nargs", "const", "default", "metavar", "help")}
        told["choices"] = action.choices and [*action.choices]
        told["required"] = (action.required and bool(action.option_strings)) or None
        kind = type(action).__name__.strip("_")
        said = [f"{key} {value}" for key, value in told.items() if value is not None and value != "==SUPPRESS=="]
        lines.append(f"{'/'.join(action.option_strings)} {action.dest}: {', '.join([kind, *said])}")
    for group in parser._mutually_exclusive_groups:
        lines.append(f"one of {[each.dest for each in group._group_actions]}, needed {group.required}")
    return [*lines, *inner]


def test_commands_take_what_is_on_record(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    parser, adding = parser_for(""), {**ADD_ARGUMENTS, "kumo": kumo.add_arguments}
    summaries = parser._actions[-1]._choices_actions
    commands = parser._commands()
    lines = []
    for name in ("run", "plan", "report", "merge", *BUILT_IN_COMMANDS, "kumo"):
        adding.get(name, lambda command: None)(commands[name])
        lines += [f"{each.dest}: {each.help}" for each in summaries if each.dest == name]
        lines += arguments_of(commands[name], name)
    check_golden("commands_arguments", "\n".join(lines))


DRAWN = (re.compile(r"\b\w{8}\.tmp"), re.compile(r"\d+:\d\d ago"), re.compile(r"on \d{4}-\d\d-\d\d"))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_print_what_is_on_record(name, runs, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-this-test-0123456789")
    said = []
    for line in COMMANDS[name]:
        code, out, err = run_here(capsys, *line.split())
        text = f"$ raycade {line}\n{out}{err}exit code {code}\n"
        for drawn in DRAWN:
            text = drawn.sub("...", text)
        said.append(text)
    check_golden(f"commands_{name}", "\n".join(said))
