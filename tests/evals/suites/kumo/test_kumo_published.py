"""Playing an imported benchmark: its words, its scoring, its transcripts."""

import asyncio
import csv
import dataclasses
import io
import itertools
import json
from functools import partial
from pathlib import Path

import pytest

from cluster.suite_commands.kumo.transcripts import _tasks_of
from envs.kumo.published import import_checkout, open_domain
from envs.kumo.published.importing import size_name
from evals.ledger.records import chat_of, plan_to_table, records_to_table
from evals.ledger.run_data import RunData
from evals.players import OraclePlayer
from evals.suite import built_in_players, ledger_columns, plan_for, play_episode
from evals.suites.kumo import KumoSuite, transcripts
from evals.suites.kumo.import_transcripts import (
    COLUMNS,
    Difference,
    Reread,
    reread,
    transcript_table,
    write_differences,
)
from evals.suites.kumo.repeats import Run, join_runs
from evals.suites.kumo.settings import MAIN_DOMAINS
from evals.suites.kumo.transcripts import lines_of_other_tasks, lines_without_a_task, stored_run, transcript_domains
from evals.tables import WRITERS
from evals.types import Episode, PlayerError, Reply, Turn
from tests.envs.kumo_checkout import FOUR, reply, write_checkout, write_transcripts
from tests.golden import check_golden, digest, plain

PUBLISHED = {"book": "published", "prompt": "published", "decoder": "strict"}
POND = ["Prints", "Scale", "Leftovers", "Call", "Feather", "Path"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    root = write_checkout(tmp_path_factory.mktemp("checkout"))
    right = [[reply("Prints"), reply("Path"), reply("Fox")]] * 3
    wrong = [[reply("Path"), reply("Otter")], [reply("Path"), None]]
    write_transcripts(root, "deepseek-v3", "PondEnv", {2: right + wrong, 1: [[reply("Heron")]] * 5})
    slips = [["Fox"], ["**Fox**"], [reply("`Fox`")], [reply("Gnu")], [reply("Path"), "I choose Fox."]]
    write_transcripts(root, "tiny-model", "PondEnv", {2: slips})
    return str(root)


@pytest.fixture(scope="module")
def source(checkout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported") / "kumo"
    import_checkout(Path(checkout), folder, lambda *_: None)
    return str(folder)


def suite_of(folder, **settings):
    return KumoSuite(
        **{"source": folder, "domains": "all", "difficulties": ["easy"], "repeats": 1, **PUBLISHED, **settings}
    )


class Scripted:
    """Gives scripted replies and keeps what it was asked."""

    def __init__(self, *texts):
        self.texts, self.chats = texts, []

    async def reply(self, turn):
        self.chats.append([(message.role, *message.parts) for message in turn.chat])
        return Reply(self.texts[turn.number])


def play(suite, player, episode):
    return asyncio.run(play_episode(suite, episode, player))


def run_of(suite, player_names):
    """The plan of these players, played, as a run."""
    players = built_in_players(suite)
    plan = plan_for(suite, dict.fromkeys(player_names, ""))
    records = [play(suite, players[episode.player], episode) for episode in plan]
    return RunData.of_tables(plan_to_table(plan), records_to_table(records, ledger_columns(suite))).of("kumo"), records


def episode_of(suite, task, index):
    return next(episode for episode in suite.plan() if (episode.task, episode.index) == (task, index))


# --- words -----------------------------------------------------------------------------------------------------------


def test_the_chat_is_the_published_one_message_by_message(source):
    suite, player = suite_of(source), Scripted("to <ANSWER> Scale </ANSWER>", reply("Prints"), reply("Fox"))
    record = play(suite, player, episode_of(suite, "pond", 2))
    book = open_domain(source, "pond").tasks[2].book
    system = f"\nWhich animal was it?\n\nAnimals: {FOUR!r}\n\nSearches: {POND!r}\n\n\nThe book:\n\n{book}"
    asked = f"Pick a test of {POND!r} or a truth of {FOUR!r}. \nSay '<ANSWER> ${{name}} </ANSWER>'."
    assert player.chats[0] == [("system", system), ("user", asked)]
    shown = "Seen last: {'action': 'Scale', 'observation': 3.25}"
    begun = [("system", system), ("user", "Start."), ("assistant", "to <ANSWER> Scale </ANSWER>")]
    assert player.chats[1] == [*begun, ("user", f"{shown}\n\n{asked}")]
    later = [("user", shown), ("assistant", reply("Prints"))]
    assert player.chats[2] == [
        *begun,
        *later,
        ("user", f"Seen last: {{'action': 'Prints', 'observation': 'pads'}}\n\n{asked}"),
    ]
    assert record.outcome.success and record.outcome.steps == 3
    row = records_to_table([record], ledger_columns(suite)).to_pylist()[0]
    for number, chat in enumerate(player.chats):  # the ledger gives back what was asked
        assert [(message.role, *message.parts) for message in chat_of(row["turns"], number)] == chat


def test_a_list_that_a_malformed_task_shows_stands_as_published(source):
    suite, player = suite_of(source), Scripted(reply("Count"), "?")
    play(suite, player, episode_of(suite, "marsh", 0))
    assert player.chats[1][-1][1].startswith("Seen last: {'action': 'Count', 'observation': [1, 2]}\n")


def test_our_words_can_be_used_with_the_published_book(source):
    suite, player = suite_of(source, prompt="own"), Scripted(reply("Fox"))
    play(suite, player, episode_of(suite, "pond", 2))
    system = player.chats[0][0][1]
    assert "Rules of PondEnv 2." in system and "Which animal" not in system and "- Mallard" in system
    table = Scripted(reply("Fox"))
    play(suite_of(source, prompt="own", book="table"), table, episode_of(suite, "pond", 2))
    assert "Rules of" not in table.chats[0][0][1] and "- toes: Otter; Fox" in table.chats[0][0][1]


def test_other_words_books_and_decoders_are_other_episodes(source):
    ids = [
        {episode.id for episode in suite_of(source, **settings).plan()}
        for settings in ({}, {"prompt": "own"}, {"book": "table"}, {"decoder": "lenient"})
    ]
    assert len(set.union(*ids)) == sum(map(len, ids)) == 28
    assert {e.id for e in suite_of(source).plan()} == {e.id for e in suite_of(source, malformed="left_out").plan()}


@pytest.mark.parametrize(
    ("player", "roles"),
    [
        ("gemma-2-9b-it", [["user"], ["user"]]),
        ("claude-3.5-sonnet", [["user", "user"], ["user", "user", "assistant", "user"]]),
        ("o1-mini", [["user", "user"], ["user", "user", "assistant", "user"]]),
        ("o1-preview", [["user", "user"], ["user", "user", "assistant", "user"]]),
        ("o1", [["system", "user"], ["system", "user", "assistant", "user"]]),
        ("gpt-4o", [["system", "user"], ["system", "user", "assistant", "user"]]),
    ],
)
def test_models_are_sent_the_roles_of_the_published_code(source, player, roles):
    """Its ``get_init_message`` and ``process_message``, which go by the model's name."""
    suite, scripted = suite_of(source), Scripted(reply("Prints"), reply("Fox"))
    episode = dataclasses.replace(episode_of(suite, "pond", 2), player=player)
    play(suite, scripted, episode)
    assert [[role for role, *_ in chat] for chat in scripted.chats] == roles
    plain = Scripted(reply("Prints"), reply("Fox"))
    play(suite, plain, episode_of(suite, "pond", 2))
    texts = [
        ["\n".join(text for _, text in chat)] if "gemma" in player else [text for _, text in chat]
        for chat in plain.chats
    ]
    assert [[text for _, text in chat] for chat in scripted.chats] == texts
    own = Scripted(reply("Prints"), reply("Fox"))
    play(suite_of(source, prompt="own"), own, episode)
    assert own.chats[0][0][0] == "system"


# --- plan and settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"source": None}, "suite.book=published needs suite.source"),
        ({"source": None, "book": "prose"}, "suite.prompt=published needs suite.source"),
        ({"book": "prose"}, "has no definitions"),
        ({"tasks": "x.jsonl"}, "cannot both"),
        ({"seed": 1}, "suite.seed cannot be chosen"),
        ({"domains": ["gnu"]}, "no domain 'gnu'"),
        ({"difficulties": ["hard"]}, "has no hard tasks"),
        ({"malformed": "maybe"}, "suite.malformed"),
        ({"source": "nowhere"}, "nowhere"),
        ({"transcripts": "nowhere", "decoder": "lenient"}, "suite.transcripts"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(source, settings, said):
    with pytest.raises(ValueError, match=said):
        suite_of(source, **settings).plan()


# --- play and scores -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["strict", "lenient"])
def test_every_task_malformed_or_not_can_be_played_by_every_built_in_player(source, decoder):
    suite = suite_of(source, decoder=decoder)
    _, records = run_of(suite, ["oracle", "random", *suite.shortcuts])
    assert all(record.done for record in records), [record.error for record in records if not record.done]
    for record in records:
        suite.view(records_to_table([record], ledger_columns(suite)).rename_columns(
            [name.removeprefix("kumo.") for name in records_to_table([record], ledger_columns(suite)).column_names]
        ).to_pylist()[0])  # fmt: skip


def test_the_oracle_wins_all_well_formed_tasks_in_the_searched_number_of_actions(source):
    suite = suite_of(source)
    for episode in suite.plan():
        published = next(t for t in open_domain(source, episode.task).tasks if t.task.index == episode.index)
        outcome = play(suite, OraclePlayer(), episode).outcome
        if not published.malformed:
            assert outcome.success and outcome.steps == outcome.extra["optimal_actions"] == len(published.optimal_play)
        assert outcome.extra["malformed"] == bool(published.malformed)
        assert outcome.extra["shipped_optimal_actions"] == 4
        assert outcome.extra["tied_optimal_actions"] == published.tied_actions


# --- transcripts -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replayed(source, checkout):
    suite = suite_of(source, transcripts=checkout, repeats=5)
    return suite, *run_of(suite, ["deepseek-v3", "tiny-model"])


def test_models_with_transcripts_are_players_of_the_tasks_that_they_played(replayed):
    suite, run, _ = replayed
    assert {"deepseek-v3", "tiny-model", "oracle"} <= set(
        built_in_players(suite)
    ) and "search_results" not in suite.players
    planned = [(row["player"], row["task"], row["index"]) for row in run.plan.to_pylist()]
    assert sorted(set(planned)) == [("deepseek-v3", "pond", 1), ("deepseek-v3", "pond", 2), ("tiny-model", "pond", 2)]
    assert len(planned) == 15


def test_replies_are_those_of_the_run_and_tokens_count_once(replayed):
    _, _, records = replayed
    by_run = {(r.episode.player, r.episode.index, r.episode.repeat): r for r in records}
    assert [t.reply.text for t in by_run["deepseek-v3", 2, 0].turns] == [reply("Prints"), reply("Path"), reply("Fox")]
    assert [by_run["deepseek-v3", 2, n].outcome.success for n in range(5)] == [True, True, True, False, False]
    assert by_run["deepseek-v3", 2, 4].outcome.extra["parse_failed"]  # the API gave no reply
    assert {sum(t.reply.prompt_tokens for t in r.turns) for r in records} == {100}
    assert [by_run["tiny-model", 2, n].outcome.success for n in range(5)] == [True, False, False, False, False]


def rows_of(run):
    return [row for batch in run.batches(COLUMNS) for row in batch.to_pylist()]


def tasks_of(source):
    return {(n, t.level, t.task.index): t.task for n in ("pond", "marsh") for t in open_domain(source, n).tasks}


def test_replies_that_our_decoder_reads_otherwise_are_listed(replayed, source, checkout):
    _, run, _ = replayed
    rereads = list(reread(rows_of(run), tasks_of(source), checkout))
    found = [each for one in rereads for each in one.differences]
    listed = [(each.player, each.repeat, each.turn, each.published, each.ours) for each in found]
    assert listed == [("tiny-model", 1, 0, "", "Fox"), ("tiny-model", 2, 0, "", "Fox"), ("tiny-model", 4, 1, "", "Fox")]
    assert [one.success for one in rereads if one.player == "tiny-model"] == [True, True, True, False, True]
    file = io.StringIO()
    assert write_differences(found, file) == 3
    lines = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [json.loads(f'"{line["end"]}"') for line in lines] == ["**Fox**", reply("`Fox`"), "I choose Fox."]


def test_what_follows_the_first_other_reply_does_not_count(source, checkout):
    turns = [{"reply": "**Path**", "action": None}, {"reply": "**Fox**", "action": None}]
    row = {"player": "m", "task": "pond", "level": "easy", "index": 2, "repeat": 0, "success": False, "turns": turns}
    row |= {"n_actions": 6, "shipped_optimal_actions": 4}
    (again,) = reread([row], tasks_of(source), checkout)
    assert [each.ours for each in again.differences] == ["Path", "Fox"] and not again.success
    assert again.recorded is None


def compared(run, source, checkout):
    """The rows of the comparison by model and tasks, and its notes."""
    runs = list(join_runs(run.plan, run.episodes()))
    rereads = list(reread(rows_of(run), tasks_of(source), checkout))
    table = transcript_table(runs, rereads, partial(transcript_domains, checkout))
    rows = {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    return rows, table.notes


def test_runs_of_some_domains_are_compared_with_the_record_of_the_same_runs(replayed, source, checkout):
    """Not with the figure over all 100 domains, which their label once claimed."""
    rows, notes = compared(replayed[1], source, checkout)
    assert set(rows) == {("deepseek-v3", "easy, 1 domain"), ("tiny-model", "easy, 1 domain")}
    known = rows["deepseek-v3", "easy, 1 domain"]
    assert (known["success"], known["recorded"], known["equal"], known["figure"]) == ("0.8000", "0.8000", "yes", None)
    # Task 1: one action against 4 of the published search; task 2: three runs of 2 tests, two failed ones of 6 + 1.
    relative = (5 * (2 / 5 - 1) + 3 * (4 / 5 - 1) + 2 * (7 / 5 - 1)) / 10
    assert known["relative actions"] == known["recorded relative actions"] == f"{relative:.4f}"
    tiny = rows["tiny-model", "easy, 1 domain"]
    assert (tiny["success"], tiny["our decoder"], tiny["other replies"]) == ("0.2000", "0.8000", 3)
    assert not any("otherwise than recorded" in note for note in notes)


def test_runs_that_end_otherwise_than_recorded_are_named_with_the_reason(source, tmp_path):
    """A test with the name of a truth: today's published code takes it as the truth, the result files as the test."""
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "older", "MarshEnv", {2: [[reply("Call"), reply("Heron")]] * 5})
    run, _ = run_of(suite_of(source, transcripts=str(root), repeats=5), ["older"])
    rows, notes = compared(run, source, str(root))
    row = rows["older", "easy, 1 domain"]
    assert (row["success"], row["recorded"], row["equal"]) == ("0.0000", "1.0000", "no")
    (note,) = [note for note in notes if "otherwise than recorded" in note]
    assert note.startswith("5 runs") and "marsh easy 2: a test there has the name of a truth" in note


def test_runs_that_the_files_do_not_hold_are_not_compared_with_those_that_they_do(source, tmp_path):
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "partial", "PondEnv", {2: [[reply("Fox")]] * 2})
    run, _ = run_of(suite_of(source, transcripts=str(root), repeats=5), ["partial"])
    rows, notes = compared(run, source, str(root))
    row = rows["partial", "easy, 1 domain"]
    assert (row["runs"], row["success"], row["recorded"], row["equal"]) == (5, "0.4000", "1.0000", "yes")
    assert "partial, easy: the result files hold 2 of 5 runs; the others count as lost in success." in notes


def test_lines_of_tasks_that_were_not_imported_are_told(source, tmp_path):
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "more", "PondEnv", {seed: [[reply("Path")]] * 5 for seed in (1, 2)})
    (path,) = root.glob("results/more/*/*/*/*.jsonl")
    line = next(line for line in path.read_text().splitlines() if line.endswith('"seed": 1}'))
    path.write_text(path.read_text() + "".join(f"{line[:-2]}{seed}}}\n" for seed in (900, 31)))
    known = partial(_tasks_of, str(source))
    assert lines_of_other_tasks(str(root), "more", known) == {str(path.relative_to(root)): (31, 900)}
    assert 2 in known("pond", "easy") and not known("nowhere", "easy") and not known("pond", "odd")


def test_lines_that_name_no_task_are_counted(tmp_path):
    root = write_checkout(tmp_path / "checkout")
    for model in ("whole", "cut", "empty"):
        write_transcripts(root, model, "PondEnv", {seed: [[reply("Path")]] * 5 for seed in (1, 2)})
    files = {path.parts[-5]: path for path in root.glob("results/*/*/*/*/*.jsonl")}
    files["whole"].write_bytes(files["whole"].read_bytes() + b"\n\n")
    files["cut"].write_bytes(files["cut"].read_bytes()[:-30])
    files["empty"].write_bytes(b"")
    found = {model: lines_without_a_task(str(root), model) for model in files if model in ("whole", "cut", "empty")}
    names = {model: str(files[model].relative_to(root)) for model in found}
    assert found == {"whole": {}, "cut": {names["cut"]: 1}, "empty": {names["empty"]: 1}}
    assert [transcript_domains(str(root), "cut", level) for level in ("easy", "hard")] == [{"pond"}, set()]


def test_a_folder_without_transcripts_and_a_file_that_is_too_large_are_refused(source, tmp_path, monkeypatch):
    root = write_checkout(tmp_path / "checkout")
    with pytest.raises(ValueError, match=r"^suite\.transcripts: .*/results holds no transcripts$"):
        list(suite_of(source, transcripts=str(root)).players)
    write_transcripts(root, "large", "PondEnv", {2: [[reply("Path")]] * 5})
    monkeypatch.setattr(transcripts, "_LARGEST", 100)
    with pytest.raises(PlayerError, match=r"results/large/.*eval_times=5\.jsonl") as refused:
        stored_run(str(root), "large", "pond", "easy", 2, 0)
    assert refused.value.kind == "suite"


def test_halves_of_surrogate_pairs_in_a_transcript_are_question_marks(tmp_path):
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "odd", "PondEnv", {2: [["so \ud800 be it"]] * 5})
    assert stored_run(str(root), "odd", "pond", "easy", 2, 0)["generated_text"] == ["so ? be it"]


def test_missing_and_damaged_transcripts_fail_their_episodes_only(source, tmp_path):
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "short", "PondEnv", {2: [[reply("Path")]] * 4})
    path = next((root / "results" / "short").rglob("*.jsonl"))
    path.write_text(path.read_text() + '{"trajectories": [1, 2], "seed": 1}\nnot a line\n')
    _, records = run_of(suite_of(source, transcripts=str(root), repeats=5), ["short"])
    errors = {(r.episode.index, r.episode.repeat): r.error for r in records}
    assert all("ended here" in errors[2, n] for n in range(4)) and "no more" in errors[2, 4]
    assert all("damaged" in errors[1, n] for n in range(5)) and len(errors) == 10


def test_of_a_task_that_a_file_holds_twice_the_first_line_counts(source, tmp_path):
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "twice", "PondEnv", {2: [[reply("Fox")]] * 5})
    path = next((root / "results" / "twice").rglob("*.jsonl"))
    path.write_text(path.read_text() + path.read_text().replace("Fox", "Otter"))
    _, records = run_of(suite_of(source, transcripts=str(root), repeats=5), ["twice"])
    assert [record.outcome.success for record in records] == [True] * 5


TOLD = [
    *({}, {"prompt": "own"}, {"prompt": "own", "book": "table", "feedback": "changed"}, {"decoder": "lenient"}),
    *({"malformed": "left_out", "history": 1}, {"domains": ["pond"], "tasks_per_domain": 2, "repeats": 2}),
    *({"difficulties": ["hard", "easy"], "max_steps": 3}, {"domains": ["marsh"], "difficulties": ["hard", "5x6"]}),
]
HELD = {"deepseek-v3": (*MAIN_DOMAINS, "knots", "rivers"), "gpt-4o": MAIN_DOMAINS, "new": ("music", "knots")}


def compared_with_the_record():
    """The table of made-up runs of all kinds, read again."""
    runs, again = [], []
    for (player, held), level, index in itertools.product(HELD.items(), ("easy", "hard"), range(2)):
        for domain in held:
            number = len(runs)
            won, status = number % 3 > 0, "" if number % 11 == 7 else ("done", "done", "failed")[number % 5 // 2]
            counts = {"shipped_optimal_actions": (None, 3, 4)[number % 3], "game": f"{domain} {index}"}
            runs.append(
                Run(str(number), player, level, domain, index, status, won, number % 4, 0, 0, 100, 6, 2, **counts)
            )
            differences = (Difference(player, domain, level, index, 0, 0, "", "x", "tag", "end"),) * (number % 3)
            record = {"recorded": (won, None, not won, won)[number % 4 if player == "gpt-4o" else 0]}
            relative = None if number % 7 == 3 else number / 70
            ends = {"otherwise": number % 4 > 1, "shared_name": number % 8 == 6}
            again.append(Reread(player, domain, level, index, number % 4 > 0, differences, **record, **ends))
            again[-1] = dataclasses.replace(again[-1], recorded_relative_actions=relative)
    return transcript_table(runs, again, lambda player, level: {*HELD[player], "easy" if level == "hard" else "knots"})


def planned(suite, episode):
    """An episode of an imported game, with what is known of the game."""
    place = f"{episode.id[:12]} {episode.task} {episode.level} {episode.index}.{episode.repeat} {episode.seed}"
    puzzle = suite.puzzle(episode.task, episode.level, episode.index)
    best = [puzzle.best(puzzle.task.action_names[:count]) for count in (0, 2, 6)]
    facts = [puzzle.guaranteed, puzzle.optimum_is_cheap, puzzle.optimal_play, best, puzzle.benchmark_columns]
    return f"{place} {episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f} {facts}"


def told(step):
    """A step of a view, without what any view tells."""
    return f"    {step.decoded} {step.best} {plain(step.regret)} {step.lost} {step.remaining} {plain(step.facts)}"


def test_imported_runs_and_their_record_are_told_as_on_record(replayed, source, checkout, tmp_path):
    parts = []
    for settings in TOLD:
        suite = suite_of(source, **settings)
        parts += ["", f"# {settings}: {suite._conditions}"]
        try:
            parts += map(partial(planned, suite), suite.plan())
        except ValueError as error:
            parts.append(str(error).replace(source, "SOURCE"))
    own, theirs = suite_of(source, prompt="own", decoder="lenient"), suite_of(source, transcripts=checkout)
    for settings, episode in itertools.product(({}, {"past_reasoning": "dropped", "feedback": "changed"}), own.plan()):
        suite = dataclasses.replace(own, **settings)
        tests = suite.puzzle(episode.task, episode.level, episode.index).task.action_names
        player = Scripted(reply(tests[0]), "?", reply(tests[0]), reply(tests[1]), reply(tests[5]), reply("Fox"))
        row = records_to_table([play(suite, player, episode)], ledger_columns(suite)).to_pylist()[0]
        row = {name.removeprefix("kumo."): value for name, value in row.items()}
        view = suite.view(row)
        parts += ["", f"# Played: {episode.task} {episode.index} {digest(repr(player.chats))} {plain(view.facts)}"]
        if not settings:
            parts += [plain({name: row[name] for name in KumoSuite.columns}), *map(told, view.steps)]
            parts += [plain([rule for rule in view.book if rule.used is not None])]
        for name in ("deepseek-v3", "tiny-model", "exact_oracle", "memory") if settings else ():
            places = [theirs.plays(name, dataclasses.replace(episode, repeat=repeat)) for repeat in (0, 4, 5)]
            parts.append(f"{name} plays: {places}")
    _, run, _ = replayed
    for section in ("paper", "scores", "diagnostics"):
        for table in theirs.results(run, section):
            parts += ["", f"# Table {table.name}", WRITERS[".md"](table)]
    finished, _ = run_of(suite_of(source), ["oracle", "random", *KumoSuite.shortcuts])
    for malformed, section in itertools.product(("scored", "left_out"), ("scores", "diagnostics")):
        for table in suite_of(source, malformed=malformed).results(finished, section):
            if table.name != "kumo_published":
                parts += ["", f"# Table {table.name}, {malformed}", WRITERS[".md"](table)]
    rereads = [*reread(rows_of(run), tasks_of(source), checkout)]
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "odd", "PondEnv", {seed: [[reply("Path"), reply("Fox")]] * 5 for seed in (0, 1, 2)})
    path = next((root / "results" / "odd").rglob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    wrong = [{"successful": 1}, {"successful": None}, {"actions": None}, {"actions": "x"}, {}]
    for run_of_line, change in zip(lines[2]["trajectories"], wrong, strict=True):
        run_of_line |= change
    lines[0]["trajectories"][3]["generated_text"], lines[1]["trajectories"][4]["consumed_tokens"] = [7], "many"
    path.write_text("\n".join(map(json.dumps, lines)))
    for index, repeat in itertools.product(range(4), range(6)):
        turns = [{"reply": reply("Path") + "é" * 160, "action": "Path"}, {"reply": "It is Fox.", "action": None}]
        row = {"player": "odd", "task": "pond", "level": "easy", "index": index % 3, "repeat": repeat, "turns": turns}
        row |= {"success": repeat % 2, "n_actions": 6, "shipped_optimal_actions": None if index == 3 else 4}
        rereads += reread([row | {"index": 2 if index == 3 else index}], tasks_of(source), str(root))
        try:
            parts.append(f"{index} {repeat}: {stored_run(str(root), 'odd', 'pond', 'easy', index, repeat)}")
        except PlayerError as error:
            parts.append(f"{index} {repeat}: {error.kind} {error}")
    parts += map(plain, rereads)
    for where in ("nowhere", source):
        with pytest.raises(ValueError, match=f"^suite.transcripts: {where}/results cannot be read: No such file"):
            list(suite_of(source, transcripts=where).players)
    parts += ["", WRITERS[".md"](compared_with_the_record())]
    check_golden("kumo_transcripts", "\n".join(parts))


def test_a_transcript_is_replied_in_turn_and_its_tokens_come_with_the_last_reply(tmp_path):
    run = {"generated_text": ["one", None, "three"], "consumed_tokens": "70", "seed": 9}
    folder = tmp_path / f"results/m/VanillaAgent/PondEnv/{size_name(4, 6)}"
    folder.mkdir(parents=True)
    (folder / "eval_times=5.jsonl").write_text(json.dumps({"trajectories": [run], "seed": 2}) + "\n")
    player, told = transcripts.TranscriptPlayer(str(tmp_path)), []
    for number in range(3):
        episode = Episode("kumo", "pond", "easy", "", 2, 0, 7, "f", 9, player="m")
        said = asyncio.run(player.reply(Turn(episode, number, ())))
        told.append((said.text, said.finish, said.prompt_tokens, said.completion_tokens))
    assert told == [("one", "stop", 0, 0), ("", "length", 0, 0), ("three", "stop", 70, 0)]
    with pytest.raises(PlayerError, match="ended here"):
        asyncio.run(player.reply(Turn(episode, 3, ())))
    with pytest.raises(PlayerError, match="no transcript of pond easy task 9"):
        stored_run(str(tmp_path), "m", "pond", "easy", 9, 0)


def test_replies_that_are_one_text_are_damage_and_not_read_letter_by_letter(tmp_path):
    root = write_checkout(tmp_path / "checkout")
    write_transcripts(root, "odd", "PondEnv", {0: [[reply("Path"), reply("Fox")]] * 5})
    path = next((root / "results" / "odd").rglob("*.jsonl"))
    line = json.loads(path.read_text())
    line["trajectories"][0]["generated_text"] = "Path"
    path.write_text(json.dumps(line))
    with pytest.raises(PlayerError, match="its replies are no list of texts"):
        stored_run(str(root), "odd", "pond", "easy", 0, 0)
