"""How the command line reads, passes on, completes and ends, as on record in ``tests/golden``."""

import argparse
import errno
import io
import re
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from cluster import cli, completion, console
from cluster.commands import merge, plan, repeat, report, run, sweep
from cluster.config import settings as settings_module
from cluster.errors import ResumableError, RunFailedError, UserError
from cluster.stopping import precision
from cluster.suite_commands.kumo import commands as kumo
from envs.files import FileError
from evals.errors import SuiteError
from evals.ledger.records import plan_to_table
from evals.tables import Table
from tests.cluster.test_observe import episode
from tests.said import Said


def test_ends_of_commands(capsys, monkeypatch):
    said = Said(capsys)
    monkeypatch.setattr(cli.streams, "give_up", lambda stream: said("give up", stream is sys.stdout))
    monkeypatch.setattr(cli, "offer_completion", lambda parser: None)

    class Parser:
        options, unknown = argparse.Namespace(), ()

        def parse_known_args(self, words):
            said("parse", words)
            return self.options, [*self.unknown]

        def refuse(self, command, unknown):
            raise UserError(f"{command} does not know {unknown}")

    parser = Parser()
    monkeypatch.setattr(cli, "parser_for", lambda command: said("parser for", repr(command)) or parser)
    monkeypatch.setenv("COMP_LINE", "raycade plan su")

    def fails(error):
        def command(options):
            said(f"{type(error).__name__} {error}", vars(options).get("overrides"))
            if isinstance(error, BaseException):
                raise error
            return error

        return command

    for error in (
        *(
            0,
            75,
            UserError("bad\x1b"),
            FileError(Path("file"), "is none"),
            SuiteError("kumo", "planning", ValueError("no")),
            RunFailedError("it fell"),
        ),
        *(ResumableError("spent"), ModuleNotFoundError("No module named 'mcp'", name="mcp"), BrokenPipeError("gone")),
        *(MemoryError(), MemoryError("malloc of size 99 failed"), BrokenProcessPool("terminated abruptly")),
        RuntimeError("can't start new thread"),
        *(
            OSError(errno.ENOSPC, "full"),
            OSError(errno.ENAMETOOLONG, "long", "x" * 9),
            OSError(errno.EACCES, "denied", "x"),
            FileExistsError(errno.EEXIST, "exists", "x"),
            KeyboardInterrupt(),
        ),
    ):
        parser.options = argparse.Namespace(command=fails(error))
        said("ends with", cli._main(["serve", "a=1"]))
    for overrides, unknown in (
        *(
            (["a=1"], ["b=2", "+c=3", "~d="]),
            (["a=1"], ["b=2", "--x"]),
            (None, ["b=2"]),
            ([], ["5=2"]),
            ([], ["a.b/c@d="]),
        ),
    ):
        parser.options = argparse.Namespace(command=fails(0))
        if overrides is not None:
            parser.options.overrides = overrides
        parser.unknown = unknown
        said("ends with", cli._main(["run"] if overrides != [] else ["plan", "x"]))
    parser.unknown = ()
    said("ends with", cli._main([]))
    said.check("cli_ends")


def test_the_command_line_as_a_whole(capsys, monkeypatch):
    said = Said(capsys)
    for name in ("open_closed_streams", "forget_sizes_of_nothing"):
        monkeypatch.setattr(cli.streams, name, said.calls(name))

    class Stream(io.TextIOWrapper):
        def __init__(self):
            super().__init__(io.BytesIO())

        def reconfigure(self, **given):
            said("reconfigure", given)

    monkeypatch.setattr(
        cli.streams, "end", lambda stream: said("end", "stdout" if isinstance(stream, Stream) else "stderr")
    )

    def played(words):
        said("main", words, type(sys.stderr).__name__)
        return len(words)

    monkeypatch.setattr(cli, "_main", played)
    monkeypatch.setattr(sys, "argv", ["raycade", "from", "argv", "!"])
    for given in (None, [], ("a", "b")):
        with monkeypatch.context() as streams, pytest.raises(SystemExit) as ended:
            streams.setattr(sys, "stdout", Stream())
            cli.main(given)
        said("ended", ended.value.code)
    said.check("cli_whole")


def test_what_commands_pass_on(capsys, monkeypatch):
    said = Said(capsys)
    for words in (
        *("run", "run suite=kumo -m", "run --from RUN a=1", "plan --like RUN --precision .1 --detect 1e-3 a=1 b=2"),
        *("plan", "report A B", "report A --full --html H --latex L --figures F --width text --radar --names a,b"),
        *("merge T A B", "report A --width column"),
    ):
        options = cli.parser_for(words.split()[0]).parse_args(words.split())
        said(words, {name: getattr(value, "__name__", value) for name, value in sorted(vars(options).items())})
    settings = SimpleNamespace(model=SimpleNamespace(metered=False))
    monkeypatch.setattr(settings_module, "load_settings", said.calls("load", settings))
    monkeypatch.setattr(settings_module, "check_pictures", said.calls("check pictures"))
    monkeypatch.setattr(run, "run_and_show", said.calls("run", 7))
    monkeypatch.setattr(repeat, "repeat", said.calls("repeat", 8))
    monkeypatch.setattr(sweep, "multirun", said.calls("multirun", 9))
    monkeypatch.setattr(plan, "describe_plan", said.calls("describe", ["plan's table"]))
    monkeypatch.setattr(precision, "precision_table", said.calls("buys", "what it buys"))
    monkeypatch.setattr(cli, "show", said.calls("show"))
    monkeypatch.setattr(report, "report", said.calls("report"))
    joined = SimpleNamespace(rows=3, planned=5, warnings=["one", "two"])
    monkeypatch.setattr(merge, "merge", said.calls("merge", joined))
    for source, multirun in ((None, False), ("RUN", True), (None, True)):
        said(cli._run(SimpleNamespace(overrides=["a=1"], source=source, multirun=multirun)))
    for refused, metered in ((False, False), (True, True), (True, False)):
        settings.model.metered = metered

        def check(given, refused=refused):
            if refused:
                raise UserError("no key")

        monkeypatch.setattr(settings_module, "check_environment", said.calls("environment", check))
        given = SimpleNamespace(overrides=["a=1"], like=Path("LIKE"), precision=0.1, detect=0.2)
        said.tried("plan", cli._plan, given)
    for names in ("", "a, b ,c", "a"):
        files = {"html": "H", "latex": "L", "figures": "F", "width": "text", "radar": True}
        said(cli._report(SimpleNamespace(run_dirs=["A", "B"], full=True, names=names, **files)))
    said(cli._merge(SimpleNamespace(target=Path("T"), run_dirs=[Path("A")])))
    for found in (None, 0, 3, True):
        said(repr(cli._run_module(SimpleNamespace(main=lambda options, found=found: found), None)))
    monkeypatch.setattr(cli.plugins, "load", said.calls("load", SimpleNamespace(main=said.calls("main", 4))))
    said(cli._run_built_in("compare", "options"))
    said.check("cli_passed_on")


def test_wrong_words(capsys):
    said = Said(capsys)
    parser = cli.parser_for("")
    for words in ("rum", "run --form x", "report", "merge T", "report A --width wide", "plan --precision x", "zzz"):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(words.split())
        told = capsys.readouterr().err.splitlines()
        wrong = " ".join(line for line in told if "error:" in line)
        wrong = re.sub(r"choose from '?run'?.*?\)", "choose from COMMANDS)", wrong).replace("'", "")
        said(words, ended.value.code, "|", told[0].split("[")[0], "|", wrong)
    with pytest.raises(SystemExit):
        cli.parser_for("study").parse_args(["study"])
    said(capsys.readouterr().err.splitlines()[-1])
    for command, unknown in (("report", ["--ful", "x"]), ("none", ["--versoin"]), ("run", ["x"])):
        with pytest.raises(SystemExit):
            parser.refuse(command, unknown)
        said(command, [line for line in capsys.readouterr().err.splitlines() if "error:" in line])
    said.check("cli_wrong_words")


@pytest.mark.parametrize(
    ("line", "declared"),
    [
        ("", []),
        ("raycade kumo lab showy", []),
        ("raycade kumo lab split ", ["halves", "split"]),
    ],
)
def test_arguments_of_a_kumo_command_are_declared_at_once_where_its_line_is_completed(line, declared, monkeypatch):
    monkeypatch.setenv("COMP_LINE", line)
    parser = argparse.ArgumentParser()
    kumo.add_arguments(parser)
    commands = parser._actions[-1].choices
    every = {**commands, **commands["lab"]._actions[-1].choices}
    del every["lab"]
    assert [name for name, each in every.items() if len(each._actions) > 1] == declared


def test_completions(capsys, monkeypatch, tmp_path):
    said = Said(capsys)
    monkeypatch.setattr("cluster.config.keys.helps_of", lambda cls: {})
    for line in (
        "",
        "raycade",
        "raycade plan",
        "raycade run suite=kumo suite.",
        "raycade run model=oracle model=simulated",
    ):
        monkeypatch.setenv("COMP_LINE", line)
        said(
            repr(line),
            repr(completion.completed_command()),
            *map(completion._selected, ("suite", "model", "tracker", "cluster")),
        )
        prefixes = ["suite.", "model."] if not line or "=" in line else []
        if not line:
            prefixes += ["", "su", "suite=", "cluster.policy=", "cluster.live=", "order=", "tracker.", "x."]
        for prefix in prefixes:
            found = completion._overrides(prefix)
            said(" ", repr(prefix), len(found) if len(found) > 30 else found)
    monkeypatch.delenv("COMP_LINE")
    said(repr(completion.completed_command()))
    monkeypatch.setattr(completion, "MOST_EPISODES", 2)
    games = [episode(number) for number in range(4)]
    given = SimpleNamespace(run_dir=tmp_path)
    said(completion._episodes("", given))
    pq.write_table(plan_to_table(games), tmp_path / "plan.parquet")
    assert completion._episodes("", given) == [each.id[:12] for each in games[:2]]
    assert completion._episodes(games[3].id[:5], given) == [games[3].id[:12]]
    argument = SimpleNamespace()
    completion.complete_overrides(argument)
    said(argument.completer.__name__)
    completion.complete_episode(argument)
    said(argument.completer.__name__)
    said.check("cli_completions")


def test_summaries(capsys, monkeypatch):
    said = Said(capsys)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(console, "LONGEST_SHOWN", 2)
    rows = tuple((f"m{number}", number / 4) for number in range(3))
    tables = [Table("a", "First", ("player", "score"), rows[:2], ("A note.",), headline=True, brief=("player",))]
    tables += [Table("b", "Long", ("player", "score"), rows, headline=True), Table("c", "Other", ("n",), ((1,),))]
    for some in (tables, tables[:1], tables[::2], []):
        for written in (True, False):
            console.show_summary(some, written)
            said("--- summary", len(some), written)
    console.show(tables[:1])
    console.say_status([])
    console.say_status(["it has \x1b failed", "twice"])
    console.say("said \u202e")
    console.warn("warned \x07")
    said.check("cli_summaries")
