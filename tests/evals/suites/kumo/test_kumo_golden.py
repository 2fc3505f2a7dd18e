"""One small run of KUMO, pinned: prompts, ids, replies' fate, every table and what the figures draw."""

import asyncio
import dataclasses
import io
import json

from rich.console import Console

from envs.kumo import generate_tasks, load_domain
from evals.ledger.records import plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.lab.analysis.analyze import OpenedRun, analyze
from evals.suites.kumo.lab.pipeline import book_prompts, prompts
from evals.suites.kumo.lab.pipeline.proposals import schema_of
from evals.suites.kumo.lab.pipeline.suite import KumoPipeline
from evals.suites.kumo.lab.trajectories.forms import FORMS
from evals.suites.kumo.lab.trajectories.plays import Recipe, rows_of
from evals.suites.kumo.likely import KumoLikelySuite
from evals.suites.kumo.show import game_text
from evals.tables import WRITERS
from evals.types import Reply
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
    whole = RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(SUITE)))
    for table in analyze([OpenedRun("run", whole, SUITE)]).tables:
        parts += ["", f"# Table {table.name}", WRITERS[".md"](table)]
    check_golden("kumo", "\n".join(parts))


TOLD = [
    {"domains": ["fantasy"], "book": "long", "feedback": "changed"},
    {"domains": ["education"], "book": "noisy", "history": 1, "past_reasoning": "dropped", "give_aways": True},
    {"domains": ["chemical"], "book": "table", "option_order": "shuffled", "tell_budget": False, "max_steps": 3},
    {"domains": ["reptiles@in"], "book": "symbolic", "list_actions": False, "history": "none"},
    {"domains": ["knots"], "difficulties": ["8x6", "9x6"], "prompt": "own"},
    {"domains": ["aircraft"], "difficulties": ["5x8"], "valid_truths": 2, "seed": 5},
    {"domains": ["medical"], "structure": {"names": "permuted"}},
    {"domains": ["medical"], "structure": {"density": 0.12, "overlap": 0.2, "domains": 1}, "decoder": "strict"},
    {"domains": ["rivers"], "world": "agree"},
    {"domains": ["chemical"], "numeric": 0.5},
    {"domains": ["languages"], "world": "contradict", "tell_world": False},
    {"domains": ["national_flags"], "world": "ignore"},
]


class Erring:
    """Perfect play with a thought; its second reply names the first test again, its third one nothing."""

    async def reply(self, turn):
        first, best = (turn.features()[0].action, turn.oracle())
        said = {1: f"<ANSWER> {first} </ANSWER>", 2: "I wonder."}.get(turn.number, f"<ANSWER> {best} </ANSWER>")
        return Reply(said, reasoning=f"Thought {turn.number}.", prompt_tokens=100 + turn.number, completion_tokens=7)


def test_games_told_in_other_ways_are_what_they_were():
    parts = [
        "# Settings; then: id, what, budget and expected calls and tokens, game, prompts, outcome, view, as shown, actions"
    ]
    for told in TOLD:
        suite = KumoSuite(**{"difficulties": ["easy"], "tasks_per_domain": 1, "repeats": 1, **told})
        parts.append(f"{told} {suite._conditions}")
        for episode in plan_for(suite, {"model": ""}):
            record = asyncio.run(play_episode(suite, episode, Erring()))
            row = records_to_table([record], ledger_columns(suite)).to_pylist()[0]
            view = suite.view({name.removeprefix("kumo."): value for name, value in row.items()})
            puzzle = suite.puzzle(episode.task, episode.level, episode.index)
            place = f"{episode.id[:12]} {episode.task} {episode.level} {episode.index} {episode.seed}"
            expected = f"{episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
            chats = repr([turn.turn.chat for turn in record.turns])
            console = Console(file=io.StringIO(), width=200)
            console.print(*game_text(puzzle, "own", "prose", 50, 1))
            shown = console.file.getvalue()
            kept = map(digest, (repr(puzzle.task), chats, repr(record.outcome), repr(view), shown))
            actions = " > ".join(str(turn.action) for turn in record.turns)
            parts.append(f"{place} {expected} {' '.join(kept)} {actions}")
    check_golden("kumo_told", "\n".join(parts))


def test_games_of_evidence_are_what_they_were():
    suite = KumoLikelySuite(domains=["medical", "music"], difficulties=["easy", "3x4"], tasks_per_domain=2, repeats=2)
    players = built_in_players(suite)
    plan = plan_for(suite, dict.fromkeys(("oracle", "random", *suite.shortcuts), ""))
    records = [asyncio.run(play_episode(suite, episode, players[episode.player])) for episode in plan]
    table = records_to_table(records, ledger_columns(suite))
    parts = ["# Episodes: id, what, budget and expected calls and tokens, prompts, outcome, view, actions"]
    for record, row in zip(records, table.to_pylist(), strict=True):
        episode = record.episode
        view = suite.view({name.removeprefix("kumo_likely."): value for name, value in row.items()})
        place = f"{episode.player} {episode.task} {episode.level} {episode.index}.{episode.repeat} {episode.seed}"
        expected = f"{episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}"
        chats = "\n\n".join(str(part) for turn in record.turns for said in turn.turn.chat for part in said.parts)
        outcome = {
            name: round(value, 9) if isinstance(value, float) else value for name, value in record.outcome.extra.items()
        }
        kept = map(digest, (chats, repr((record.outcome.success, record.outcome.steps, outcome)), repr(view)))
        actions = " > ".join(str(turn.action) for turn in record.turns)
        parts.append(f"{episode.id[:12]} {place} {expected} {' '.join(kept)} {actions}")
    run = RunData.of_tables(plan_to_table(plan), table).of("kumo_likely")
    for section in ("scores", "diagnostics"):
        for each in suite.results(run, section):
            parts += ["", f"# Table {each.name}", WRITERS[".md"](each)]
    check_golden("kumo_likely", "\n".join(parts))


def test_what_the_lab_asks_and_writes_is_what_it_was(tmp_path):
    def text_of(chat):
        return "\n".join(f"[{said.role}] {' '.join(map(str, said.parts))}" for said in chat)

    domain = load_domain("knots")
    [task] = generate_tasks(domain, count=1, seed=3)
    body = {
        "title": "Knots",
        "goal": "Find it.",
        "truth": "knot",
        "action": "pull",
        "truths": "Bend, Hitch",
        "actions": "Tug",
    }
    asked = prompts.configure(body, 20, 30)
    chats = {
        "propose": prompts.propose("craft", 3, ["Knots", "Sails"]),
        "configure": asked,
        **{
            f"repair {patch}": prompts.repair(asked, "no", ["it is short", "it is wrong"], patch)
            for patch in (False, True)
        },
        "write": book_prompts.write(task, domain),
        "revise": book_prompts.revise(task, domain, "A book.", ["it lies"]),
        "extract": book_prompts.extract(task, domain, "A book."),
        "faults": book_prompts.find_faults(task, domain, "A book."),
    }
    parts = [f"{name}: {len(text_of(chat))} characters, {digest(text_of(chat))}" for name, chat in chats.items()]
    schemas = (schema_of(3), book_prompts.extraction_schema(task), book_prompts.faults_schema())
    parts += [
        f"schemas: {' '.join(map(digest, schemas))}",
        "",
        text_of(chats["repair True"][-1:]),
        "",
        text_of(chats["revise"]),
    ]
    for episode in KumoPipeline(str(tmp_path), proposals=7, per_reply=3).plan():
        place = f"{episode.task} {episode.level} {episode.mode} {episode.index} {episode.seed}"
        parts.append(f"{episode.id[:12]} {place} {episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}")
    for reasons, plays in ((True, 2), (False, 1)):
        rows = rows_of(Recipe("knots", book="table", seed=3, plays=plays, reasons=reasons), task)
        for name, form in FORMS.items():
            made = [row for each in rows for row in form.rows(each)]
            parts.append(f"{name} {reasons}: {len(made)} rows, {digest(json.dumps(made, sort_keys=True))}")
        parts += ["", *(said["content"] for said in rows[-1]["messages"][1:])]
    check_golden("kumo_lab", "\n".join(parts))
