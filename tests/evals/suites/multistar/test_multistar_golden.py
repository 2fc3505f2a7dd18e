"""Two small runs of MultiStAR, pinned: ids, prompts, pixels, keys and replies, every table and what the figures draw."""

import asyncio
import dataclasses
import itertools
import math
from pathlib import Path

import pytest

from envs.picture import Picture
from envs.raven import CONFIGURATIONS, Generated, generate, load
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites.multistar import (
    MultiStarSuite,
    answers,
    commands,
    comparison,
    data_set,
    effects,
    figures,
    gains,
    hallucination,
    mseval,
    paper,
    play,
    prompts,
    puzzles,
    reformat,
    shortcuts,
    view,
)
from evals.suites.multistar.published_questions import kinds
from evals.suites.multistar.questions import chain_questions, direct_questions
from evals.tables import WRITERS
from evals.types import LabelScores, Reply
from tests.evals.suites.kidgym.test_kidgym_golden import parsed
from tests.golden import Watched, check_golden, check_said, digest, plain

SUITES = {
    "chain": MultiStarSuite(configurations=["center_single"], puzzles=1, priors=["none", "model"]),
    "direct": MultiStarSuite(
        subtask="direct", configurations=["in_distribute_four_out_center_single"], puzzles=1, render="official"
    ),
}


DRAWN = ((0, "balanced"), (1, "balanced"), (0, "uniform"), (2, "by_sets"), (3, "balanced"), (4, "uniform"))
"""Seeds, and how options are drawn; the last two as the published generator draws, whose pixels do not show everything."""


def shown(turns):
    """The words and the pixels of all chats, in order."""
    words, pixels = [], []
    for turn in turns:
        words += [message.role for message in turn.turn.chat]
        for part in (part for message in turn.turn.chat for part in message.parts):
            if isinstance(part, Picture):
                pixels.append(part)
            else:
                words.append(part)
    drawn = {picture.key: picture.render().tobytes() for picture in pixels}
    return digest("\n".join(words)), digest(b"".join(drawn[picture.key] for picture in pixels))


def test_questions_of_every_configuration_are_what_they_were():
    parts = ["# Configuration, seed, chain or direct, questions: their words and options, and their keys"]
    for name, (seed, drawing) in itertools.product(CONFIGURATIONS, DRAWN):
        render = "own" if seed < 3 else "official"
        problem = load(Generated(name, seed, render=render))
        for kind, ask in (("chain", chain_questions), ("direct", direct_questions)):
            asked = ask(problem, seed, drawing)
            said = [(each.node, each.text, each.options, each.picture.key, each.counts) for each in asked]
            more = [plain(dataclasses.replace(each, picture=None)) for each in asked]
            known = plain([each.rates for each in asked])
            keys = "".join(str(each.key) for each in asked)
            parts.append(
                f"{name} {seed} {kind} {len(asked)}: {digest(repr(said))} {keys} {digest(str(more))} {digest(known)}"
            )
    check_golden("multistar_questions", "\n".join(parts))


@pytest.mark.parametrize("name", SUITES)
def test_a_run_is_what_it_was(name):
    suite = SUITES[name]
    players = built_in_players(suite)
    plan = plan_for(suite, dict.fromkeys(("oracle", "random"), ""))
    watching = [Watched(players[episode.player]) for episode in plan]
    records = [asyncio.run(play_episode(suite, *each)) for each in zip(plan, watching, strict=True)]
    parts = [
        "# Episodes: id, what, budget, expected calls and tokens, words, pixels, keys, replies, outcome, view, what is known"
    ]
    rows = records_to_table(records, ledger_columns(suite)).to_pylist()
    for record, told, row in zip(records, watching, rows, strict=True):
        episode, nodes = record.episode, record.outcome.extra["nodes"]
        keys = "".join(str(node[6]) for node in nodes)
        replies = digest(" ".join(f"{turn.reply.text} {turn.action} {turn.rule}" for turn in record.turns))
        place = f"{episode.player} {episode.level} {episode.mode} {episode.index}"
        expected = f"{episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
        outcome = digest(repr(record.outcome))
        seen = digest(plain(suite.view({key.removeprefix("multistar."): value for key, value in row.items()})))
        asked = " ".join(shown(record.turns))
        parts.append(f"{episode.id[:12]} {place} {expected} {asked} {keys} {replies} {outcome} {seen} {told.digests}")
    first = records[0].turns[0].turn.chat
    parts += ["", "# The first prompt"]
    for message in first:
        parts += [f"[{message.role}]", *(part if isinstance(part, str) else f"<{part.key}>" for part in message.parts)]
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(suite))).of(suite.name)
    for measure in suite.measures(run, "random"):
        parts += ["", f"{measure.name} {measure.dimensions} {measure.bounded} {digest(plain(measure.observations))}"]
    for section in ("paper", "scores", "diagnostics", "performance"):
        for table in suite.results(run, section):
            parts += ["", f"# Table {table.name}", WRITERS[".md"](table)]
    for figure in suite.figures(run):
        drawn = "; ".join(
            f"{each.panel}/{each.name} {len(each.x)} {digest(repr((each.x, each.y)))}" for each in figure.series
        )
        frame = dataclasses.replace(figure, series=())
        parts += ["", f"# Figure {figure.name}: {figure.title}", drawn, digest(repr(frame))]
    check_golden(f"multistar_{name}", "\n".join(parts))


MODULES = (
    answers,
    comparison,
    data_set,
    effects,
    figures,
    gains,
    hallucination,
    kinds,
    mseval,
    paper,
    reformat,
    play,
    prompts,
    puzzles,
    shortcuts,
    view,
)


def test_single_questions_are_answered_as_on_record():
    names = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    names |= {"generate": generate, "chain_questions": chain_questions, "replace": dataclasses.replace, "nan": math.nan}
    names |= {
        "LabelScores": LabelScores,
        "Reply": Reply,
        "Path": Path,
        "CONFIGURATIONS": CONFIGURATIONS,
        "inf": math.inf,
    }
    names |= {"MultiStarSuite": MultiStarSuite, "parsed": parsed, "commands": commands}
    check_said("multistar_said", names, plain)
