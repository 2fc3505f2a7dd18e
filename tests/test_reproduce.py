"""docs/reproduce.md: each command is planned, and costs what the page says."""

import itertools
import re
import shlex

import pytest

from cluster.commands.plan import describe_plan
from cluster.config.settings import load_settings
from evals.reference import published
from tests.cluster.conftest import ROOT

PAGE = ROOT / "docs" / "reproduce.md"
COMMAND = r"^    raycade run (?P<command>.*)$"
COST = (
    r"Cost: (?P<episodes>[\d,]+) episodes, (?P<calls>[\d,]+) calls, (?P<tokens>[\d.]+) M prompt tokens, "
    r"(?P<least>[\d.]+) to (?P<most>[\d.]+) GPU-hours\."
)
SMALLER = {"kidgym": (["suite.episodes=5"], 20), "kumo": (["suite.tasks_per_domain=2", "suite.repeats=1"], 125)}
"""A smaller plan, and how many times as large the whole one is; MultiStAR's depends on the subtask."""


def costs():
    return [match.groupdict() for match in re.finditer(rf"{COMMAND}\n\n{COST}", PAGE.read_text(), re.MULTILINE)]


def planned(command, tmp_path):
    """Episodes, calls, prompt tokens and GPU-hours of a command, from a smaller plan of each of its runs."""
    words = shlex.split(command)
    words = words[1:] if words[0] == "-m" else words
    suite = next(word.removeprefix("suite=") for word in words if word.startswith("suite="))
    direct = "suite.subtask=direct" in words
    smaller, times = (
        SMALLER.get(suite) or (["suite.puzzles=5"], 20) if direct else SMALLER.get(suite, (["suite.puzzles=2"], 5))
    )
    choices = [
        [f"{word.partition('=')[0]}={value}" for value in word.partition("=")[2].split(",")]
        if "[" not in word
        else [word]
        for word in words
    ]
    total = [0.0] * 5
    for run in itertools.product(*choices):
        tables = {
            table.name: table for table in describe_plan(load_settings([*run, *smaller, f"run_dir={tmp_path}"]), None)
        }
        metrics = dict(tables["plan_total"].rows)
        hours = {row[0]: row[-1].split(" to ") for row in tables["hardware"].rows}["h100, 80 GB"]
        values = [metrics["episodes"], metrics["expected model calls"], metrics["expected prompt tokens"], *hours]
        total = [one + times * float(value) for one, value in zip(total, values, strict=True)]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("cost", costs(), ids=lambda cost: cost["command"][:60])
def test_a_command_costs_what_the_page_says(cost, tmp_path):
    episodes, calls, tokens, least, most = planned(cost["command"], tmp_path)
    assert episodes == pytest.approx(float(cost["episodes"].replace(",", "")), rel=0.03)
    assert calls == pytest.approx(float(cost["calls"].replace(",", "")), rel=0.05)
    assert tokens / 1e6 == pytest.approx(float(cost["tokens"]), rel=0.05)
    for hours, said in ((least, cost["least"]), (most, cost["most"])):
        assert hours == pytest.approx(float(said), rel=0.1, abs=0.005)


def test_every_command_of_a_model_has_its_cost():
    commands = re.findall(COMMAND, PAGE.read_text(), re.MULTILINE)
    assert len(costs()) == len([command for command in commands if "model=random" not in command]) == 10


@pytest.mark.parametrize("suite", ["kidgym", "multistar"])
def test_every_table_of_a_paper_is_on_the_page(suite):
    named = set()
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[["kidgym", "multistar"].index(suite) + 1]
    for first, last in re.findall(r"Tables? (\d+)(?: (?:to|and) (\d+))?", section):
        named |= {int(first), int(last or first)} | set(range(int(first), int(last or first) + 1))
    printed = {figure.table for figure in published(suite).figures}
    assert {int(table.split()[1]) for table in printed if re.fullmatch(r"Table \d+", table)} <= named
