"""One small run of KidGym, pinned: games, prompts, pixels, replies' fate, every table and what the figures draw."""

import argparse
import asyncio
import dataclasses
import itertools
import math
import sys
from collections import Counter

import numpy as np
import pytest

from envs.kidgym import TASKS, make, solve
from envs.kidgym.chance import BALANCED_CHANCE
from envs.picture import Picture
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites import kidgym
from evals.suites.kidgym import (
    KidGymSuite,
    commands,
    decode,
    estimates,
    feedback,
    learned_shortcuts,
    mistakes,
    offer,
    presentation,
    prompts,
    published,
    reading,
    score,
    shortcut_success,
    shortcuts,
    templates,
    variants,
)
from evals.suites.kidgym.example import worked_example
from evals.suites.kidgym.games import Games
from evals.suites.kidgym.reasons import reason
from evals.suites.kidgym.templates import load_templates
from evals.tables import WRITERS
from evals.types import Reply
from tests.golden import Watched, check_golden, check_said, digest, plain

SUITE = KidGymSuite(modes=["zero_shot"], episodes=1)
MODES = KidGymSuite(tasks=["CL"], levels=[1], modes=["cot", "icl"], episodes=1)
BALANCED = KidGymSuite(tasks=list(BALANCED_CHANCE), variant="balanced", modes=["zero_shot"], episodes=1)
MOST_ROWS = 40
"""Longer tables are pinned by their digest."""
PLAYERS = ("oracle", "random", "first_option")


def parts_of(record):
    return [part for turn in record.turns for message in turn.turn.chat for part in message.parts]


def line_of(record, told=""):
    """An episode with what it is expected to take, its words, its first and last picture, and what came of it."""
    words = "\n\n".join(part for part in parts_of(record) if isinstance(part, str))
    frames = [part for part in parts_of(record) if isinstance(part, Picture)]
    pixels = " ".join(digest(frame.render().tobytes()) for frame in (*frames[:1], *frames[-1:]))
    actions = " > ".join(str(turn.action) for turn in record.turns)
    episode = record.episode
    place = f"{episode.player} {episode.task} {episode.level} {episode.mode}"
    expected = f"{episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
    return (
        f"{episode.id[:12]} {place} {expected} {digest(words)} {pixels} {digest(repr(record.outcome))}{told} {actions}"
    )


def play(suite, names):
    players = built_in_players(suite)
    plan = plan_for(suite, dict.fromkeys(names, ""))
    return plan, [asyncio.run(play_episode(suite, episode, players[episode.player])) for episode in plan]


def watched(suite):
    """An episode of ``random`` in each cell, with what can be told of its options."""
    player = built_in_players(suite)["random"]
    for episode in plan_for(suite, {"random": ""}):
        watching = Watched(player)
        yield line_of(asyncio.run(play_episode(suite, episode, watching)), f" {watching.digests}")


def test_a_run_is_what_it_was():
    plan, records = play(SUITE, PLAYERS)
    _, of_modes = play(MODES, ["oracle"])
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(SUITE))).of("kidgym")
    parts = [
        "# Episodes: id, what, budget and expected calls and tokens, words, first and last picture, outcome, actions"
    ]
    parts += [line_of(record) for record in [*records, *of_modes]]
    parts += ["", "# The same of random play, with features, shortcuts and remaining steps behind the outcome"]
    parts += [*watched(SUITE), *watched(BALANCED)]
    for record in [records[0], *of_modes]:
        first = [str(part) if isinstance(part, str) else "[picture]" for part in parts_of(record)]
        parts += ["", f"# The prompt, {record.episode.mode}", *first]
    for section in ("paper", "scores", "diagnostics"):
        for table in SUITE.results(run, section):
            written = WRITERS[".md"](table)
            shown = written if len(table.rows) <= MOST_ROWS else f"{len(table.rows)} rows, {digest(written)}"
            parts += ["", f"# Table {table.name}", shown]
    for figure in SUITE.figures(run):
        drawn = "; ".join(
            f"{each.panel}/{each.name} {len(each.x)} {digest(repr((each.x, each.y)))}" for each in figure.series
        )
        frame = dataclasses.replace(figure, series=())
        parts += ["", f"# Figure {figure.name}: {figure.title}", drawn, digest(repr(frame))]
    check_golden("kidgym", "\n".join(parts))


TOLD = [
    {"modes": ["icl"], "history": "all", "feedback": ["legal", "changed", "reward"]},
    {"modes": ["cot"], "history": 2, "past_reasoning": "kept", "option_order": "listed"},
    {"modes": ["zero_shot"], "history": "all", "past_pictures": "text", "detail": "prose", "tell_budget": False},
    {"modes": ["cot"], "modality": "text", "detail": "json", "history": "none"},
    {"modes": ["zero_shot"], "modality": "both", "list_actions": False, "resolution": 96, "feedback": ["legal"]},
    {"modes": ["zero_shot"], "variant": "balanced"},
]


class Erring:
    """Perfect play with a thought, but for every third reply, which takes the last action of the list."""

    async def reply(self, turn):
        errs = turn.number % 3 == 1
        return Reply(turn.options[-1] if errs else turn.oracle(), reasoning=f"Thought {turn.number}.")


def test_games_told_in_other_ways_are_what_they_were():
    parts = ["# Settings; then: id, task, pictures needed, expected calls and tokens, words, outcome, view, actions"]
    for told in TOLD:
        suite = KidGymSuite(tasks=["MFI", "CO", "DMA"], levels=[2], episodes=1, **told)
        parts.append(f"{told} {suite._conditions}")
        for episode in plan_for(suite, {"model": ""}):
            record = asyncio.run(play_episode(suite, episode, Erring()))
            row = records_to_table([record], ledger_columns(suite)).to_pylist()[0]
            view = suite.view({name.removeprefix("kidgym."): value for name, value in row.items()})
            parts.append(line_of(record, f" {suite.needs.pictures} {digest(repr(view))}"))
    decoys = KidGymSuite(tasks=["MDE", "MMA", "CL"], levels=[3], mde_decoys="published", resolution=32, modes=["cot"])
    parts += ["", "# With published decoys", *watched(dataclasses.replace(decoys, episodes=3))]
    parts += ["", "# Worked examples: digests of their words"]
    for name in (*TASKS, *(f"{task}-balanced" for task in BALANCED_CHANCE)):
        words = [part for part in worked_example(name, load_templates("")) if isinstance(part, str)]
        parts.append(f"{name} {digest(''.join(words))}")
    check_golden("kidgym_told", "\n".join(parts))


@pytest.mark.parametrize("variant", ["published", "balanced"])
def test_what_can_be_told_of_options_along_perfect_play_and_with_slips_is_what_it_was(variant):
    tasks = list(TASKS if variant == "published" else BALANCED_CHANCE)
    suite = KidGymSuite(tasks=tasks, levels=[2], variant=variant, modes=["zero_shot"], episodes=1)
    parts = []
    for player, episode in itertools.product((built_in_players(suite)["oracle"], Erring()), suite.plan()):
        watching = Watched(player)
        record = asyncio.run(play_episode(suite, episode, watching))
        actions = " > ".join(str(turn.action) for turn in record.turns)
        parts.append(f"{episode.task} {watching.digests} {actions}")
    check_golden(f"kidgym_watched_{variant}", "\n".join(parts))


@pytest.mark.parametrize("variant", ["published", "balanced"])
def test_what_loses_games_is_what_it_was(variant):
    """Of ten games of random play at the second level: how often each mistake, at which step; refusals and miscounts."""
    suite = KidGymSuite(
        tasks=list(TASKS if variant == "published" else BALANCED_CHANCE), levels=[2], modes=["zero_shot"]
    )
    suite = dataclasses.replace(suite, variant=(variant,), episodes=10)
    _, records = play(suite, ["random"])
    parts = []
    for task, of_task in itertools.groupby(records, lambda record: record.episode.task):
        told = [record.outcome.extra for record in of_task]
        kinds = Counter(f"{extra['mistake']} at {extra['lost_step']}" for extra in told)
        refused = [sum(extra[f"refused_{why}"] for extra in told) for why in ("steps", "blocked", "misfit", "full")]
        parts.append(f"{task}: {dict(sorted(kinds.items()))} {refused} {[extra['miscount'] for extra in told]}")
    check_golden(f"kidgym_mistakes_{variant}", "\n".join(parts))


def games_of(marks):
    """Games by their marks: Won, Lost, Failed, Invalid, Cut off twice; - for one that has not been played."""
    told = [(each in "WLIC", each == "F", each == "W", each == "I", place + 1.0) for place, each in enumerate(marks)]
    return Games(*map(np.array, zip(*told, strict=True)), np.array([2 * (each == "C") for each in marks]))


def test_scores_of_games_told_by_their_marks_are_those_on_record():
    cells = {}
    names = [f"{task}{end}" for end in ("", "-balanced") for task in ("CL", "SE", "MMA", "MDE", "MFI")]
    for number, (task, level) in enumerate(itertools.product(names, "123")):
        if task != "SE-balanced":
            cells["m", "cot", task, level] = games_of(("WWLW", "WIC-", "LFWL", "WW")[number % 4])
    cells |= {("m", "zero_shot", "CL-published", level): games_of("WLLF"[: int(level) + 1]) for level in "123"}
    cells |= {("m", "zero_shot", "SE", "1"): games_of("FF-"), ("n", "cot", "CL", "4"): games_of("--")}
    for player, marks in (("first_option", "WLLL"), ("ignores_rule", "WWLF")):
        cells |= {(player, mode, "SO", "2"): games_of(marks[start:]) for start, mode in enumerate(("cot", "zero_shot"))}
    tables = (score._capability_table(cells), score._success_table(cells, cells), score._reference_table(cells))
    told = [WRITERS[".md"](table) for table in tables]
    told += [WRITERS[".md"](score._capability_table({}))]
    check_golden("kidgym_scores_of_marks", "\n".join(told))


MODULES = (
    commands,
    decode,
    estimates,
    feedback,
    learned_shortcuts,
    mistakes,
    offer,
    presentation,
    prompts,
    published,
    reading,
    score,
    shortcut_success,
    shortcuts,
    templates,
    variants,
)


def reasons(name, level, seed):
    """The goal of a game, and perfect play's actions with the reasons for them."""
    task, variant = variants.task_and_variant(name)
    world = make(task, level, seed, variant=variant)
    goals, told = [world.goal], []
    for action in solve(world):
        told.append(f"{action.text}: {reason(world, action)}")
        world.take(action)
        goals.append(world.goal)
    return [*dict.fromkeys(goals), *told]


def parsed(command, *words):
    """What a command line means to a suite's commands."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return vars(parser.parse_args(words))


def test_single_questions_are_answered_as_on_record():
    modules = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    names = {"kidgym": kidgym, "make": make, "solve": solve, "TASKS": TASKS, "Reply": Reply, "inf": math.inf}
    names |= {
        "reasons": reasons,
        "digest": digest,
        "parsed": parsed,
        "python": sys.executable,
        "load_templates": load_templates,
        "worked_example": worked_example,
        "replace": dataclasses.replace,
    }
    check_said("kidgym_said", modules | names, plain)
