"""Two small runs of MultiStAR, pinned: ids, prompts, pixels, keys and replies, every table and what the figures draw."""

import asyncio
import dataclasses
import itertools

import pytest

from envs.picture import Picture
from envs.raven import CONFIGURATIONS, generate
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites.multistar import MultiStarSuite
from evals.suites.multistar.questions import chain_questions, direct_questions
from evals.tables import WRITERS
from tests.golden import Watched, check_golden, digest

SUITES = {
    "chain": MultiStarSuite(configurations=["center_single"], puzzles=1, priors=["none", "model"]),
    "direct": MultiStarSuite(
        subtask="direct", configurations=["in_distribute_four_out_center_single"], puzzles=1, render="official"
    ),
}


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
    for name, seed in itertools.product(CONFIGURATIONS, range(2)):
        problem = generate(name, seed)
        for kind, asked in (("chain", chain_questions(problem, seed)), ("direct", direct_questions(problem, seed))):
            said = [(each.node, each.text, each.options, each.picture.key, each.counts) for each in asked]
            keys = "".join(str(each.key) for each in asked)
            parts.append(f"{name} {seed} {kind} {len(asked)}: {digest(repr(said))} {keys}")
    check_golden("multistar_questions", "\n".join(parts))


@pytest.mark.parametrize("name", SUITES)
def test_a_run_is_what_it_was(name):
    suite = SUITES[name]
    players = built_in_players(suite)
    plan = plan_for(suite, dict.fromkeys(("oracle", "random"), ""))
    watching = [Watched(players[episode.player]) for episode in plan]
    records = [asyncio.run(play_episode(suite, *each)) for each in zip(plan, watching, strict=True)]
    parts = [
        "# Episodes: id, what, budget and expected calls and tokens, words, pixels, keys, replies, outcome, features, shortcuts"
    ]
    for record, told in zip(records, watching, strict=True):
        episode, nodes = record.episode, record.outcome.extra["nodes"]
        keys = "".join(str(node[6]) for node in nodes)
        replies = digest(" ".join(f"{turn.reply.text} {turn.action} {turn.rule}" for turn in record.turns))
        place = f"{episode.player} {episode.level} {episode.mode} {episode.index}"
        expected = f"{episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
        outcome = digest(repr(record.outcome))
        parts.append(
            f"{episode.id[:12]} {place} {expected} {' '.join(shown(record.turns))} {keys} {replies} {outcome} {told.digests}"
        )
    first = records[0].turns[0].turn.chat
    parts += ["", "# The first prompt"]
    for message in first:
        parts += [f"[{message.role}]", *(part if isinstance(part, str) else f"<{part.key}>" for part in message.parts)]
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(suite))).of(suite.name)
    for section in ("paper", "scores", "diagnostics"):
        for table in suite.results(run, section):
            parts += ["", f"# Table {table.name}", WRITERS[".md"](table)]
    for figure in suite.figures(run):
        drawn = "; ".join(
            f"{each.panel}/{each.name} {len(each.x)} {digest(repr((each.x, each.y)))}" for each in figure.series
        )
        frame = dataclasses.replace(figure, series=())
        parts += ["", f"# Figure {figure.name}: {figure.title}", drawn, digest(repr(frame))]
    check_golden(f"multistar_{name}", "\n".join(parts))
