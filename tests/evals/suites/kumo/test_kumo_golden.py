"""One small run of KUMO, pinned: prompts, ids, replies' fate, every table and what the figures draw."""

import asyncio
import dataclasses

from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites.kumo import KumoSuite
from evals.tables import WRITERS
from tests.golden import Watched, check_golden, digest

SUITE = KumoSuite(domains=["medical", "music"], difficulties=["easy", "5x7"], tasks_per_domain=3, repeats=2)
PLAYERS = ("oracle", "random", "greedy", "one_test")


def played():
    players = built_in_players(SUITE)
    plan = plan_for(SUITE, dict.fromkeys(PLAYERS, ""))
    watching = [Watched(players[episode.player]) for episode in plan]
    records = [asyncio.run(play_episode(SUITE, *each)) for each in zip(plan, watching, strict=True)]
    return plan, records, [each.digests for each in watching]


def test_a_run_is_what_it_was():
    plan, records, told = played()
    run = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(SUITE))).of("kumo")
    parts = [
        "# Episodes: id, what, budget and expected calls and tokens, prompts, outcome, features, shortcuts, steps left, actions"
    ]
    for record, of_options in zip(records, told, strict=True):
        episode = record.episode
        chats = "\n\n".join(str(part) for turn in record.turns for message in turn.turn.chat for part in message.parts)
        actions = " > ".join(str(turn.action) for turn in record.turns)
        place = f"{episode.player} {episode.task} {episode.level} {episode.index}.{episode.repeat}"
        expected = f"{episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
        parts.append(
            f"{episode.id[:12]} {place} {expected} {digest(chats)} {digest(repr(record.outcome))} {of_options} {actions}"
        )
    first = records[0].turns[0].turn.chat
    parts += ["", "# The first prompt", *(f"[{message.role}]\n{message.parts[0]}" for message in first)]
    for section in ("paper", "scores", "diagnostics"):
        for table in SUITE.results(run, section):
            parts += ["", f"# Table {table.name}", WRITERS[".md"](table)]
    for figure in SUITE.figures(run):
        drawn = "; ".join(
            f"{each.panel}/{each.name} {len(each.x)} {digest(repr((each.x, each.y)))}" for each in figure.series
        )
        frame = dataclasses.replace(figure, series=())
        parts += ["", f"# Figure {figure.name}: {figure.title}", drawn, digest(repr(frame))]
    check_golden("kumo", "\n".join(parts))
