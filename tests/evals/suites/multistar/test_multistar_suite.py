"""MultiStAR as a suite: what is planned, what is asked, and what is recorded of it."""

import asyncio
import dataclasses
import itertools
import json
import math
import shutil

import pytest

from envs.raven import CONFIGURATIONS, Difficulty, generate, load, official, write
from envs.raven.files import read_imported
from envs.raven.listing import read_files, write_index
from evals.ledger.records import records_to_table
from evals.players import BUILT_IN_PLAYERS, ShortcutPlayer
from evals.suite import ledger_columns, play_episode
from evals.suites.multistar import MultiStarSuite, puzzles
from evals.suites.multistar.published_questions.store import Stored, write_questions
from evals.suites.multistar.puzzles import Selection, generated, puzzle_of, questions_of, stand_ins
from evals.suites.multistar.questions import QUESTION_ATTRIBUTES
from evals.types import LabelScores, PlayerError, Reply
from tests.evals.suites.multistar.multistar_fakes import Refusing, Scripted, nodes_of, played, rows_of, tables_of
from tests.golden import check_golden, digest, plain

ONE_PART = {"center_single", "distribute_four", "distribute_nine"}
NUMBERS = {"configurations": ["center_single"], "attributes": ["number"], "puzzles": 1, "options": "uniform"}
"""Options drawn uniformly, so that all questions count."""


def questions(suite, episode):
    return suite._asked(episode)


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_chain_asks_3920_questions_over_70_puzzles_36_or_71_each():
    suite = MultiStarSuite(priors=["none"])
    plan = suite.plan()
    counts = {episode.task: len(questions(suite, episode)) for episode in plan}
    assert len(plan) == 70
    assert counts == {name: 36 if name in ONE_PART else 71 for name in CONFIGURATIONS}
    assert sum(episode.calls for episode in plan) == 3920


@pytest.mark.slow
def test_the_direct_set_is_as_large_as_the_published_one():
    plan = MultiStarSuite(subtask="direct", puzzles=10, options="uniform").plan()
    finals = sum(episode.level == "final" for episode in plan)
    assert finals == 70 and 10 * (len(plan) - finals) == pytest.approx(21_700, rel=0.02)  # 1 % over 100 puzzles
    assert len({episode.id for episode in plan}) == len(plan)
    assert len({(episode.task, episode.level, episode.mode, episode.index) for episode in plan}) == len(plan)


def test_the_balanced_variant_changes_rules_of_positions_in_grids_only():
    settings = {"subtask": "direct", "puzzles": 12, "configurations": ["distribute_four", "center_single"]}
    published, balanced = (MultiStarSuite(variant=variant, **settings) for variant in ("published", "balanced"))
    asked = [{episode.id: episode for episode in suite.plan()} for suite in (published, balanced)]
    changed = [asked[0][name] for name in asked[0].keys() - asked[1].keys()]
    assert changed and asked[1].keys() - asked[0].keys()
    for episode in changed:
        (question,) = questions(published, episode)
        assert (episode.task, question.attribute) == ("distribute_four", "position") and question.stage in ("1R", "2R")


def test_at_another_difficulty_the_final_question_alone_counts():
    harder = {"changing": 4, "values": 5, "puzzles": 1, "configurations": ["distribute_four"]}
    direct = MultiStarSuite(subtask="direct", **harder).plan()
    assert [episode.level for episode in direct] == ["final"]
    suite = MultiStarSuite(priors=["none"], **harder)
    (episode,) = suite.plan()
    assert [question.stage for question in questions(suite, episode) if question.counts] == ["final"]
    assert len(questions(suite, episode)) == len(suite._lost(episode)) == 36
    with pytest.raises(ValueError, match=r"suite\.changing and suite\.values have no meaning with suite\.problems"):
        MultiStarSuite(problems="there", **harder).plan()


def test_both_subtasks_ask_about_the_same_puzzles_and_one_puzzle_stays_together():
    chain = {(episode.task, puzzle_of(episode)): episode for episode in MultiStarSuite(puzzles=2).plan()}
    groups = {}
    for episode in MultiStarSuite(subtask="direct", puzzles=2).plan():
        place = episode.task, puzzle_of(episode)
        assert (episode.seed, episode.group) == (chain[place].seed, chain[place].group)
        groups.setdefault(episode.group, set()).add(place)
    assert len(groups) == 14 and all(len(places) == 1 for places in groups.values())


def test_an_episodes_id_tells_what_the_player_meets_and_nothing_else():
    def ids(**settings):
        return [episode.id for episode in MultiStarSuite(**{**NUMBERS, "priors": ["none", "model"], **settings}).plan()]

    bare, told = ids()
    assert ids(convention="natural_logs") == [bare, told], "how it is scored"
    assert ids(sweep=False)[0] == bare and ids(sweep=False)[1] != told
    assert ids(paper_literal=True)[0] == bare and ids(paper_literal=True)[1] != told
    assert ids(order="question_first")[0] == bare and ids(order="question_first")[1] != told
    for change in (
        {"answer_sets": "raven"},
        {"styles": ["structured"]},
        {"reply": "text"},
        {"attributes": "all"},
        {"options": "balanced"},
        {"scale": 2},
    ):
        assert not {bare, told} & set(ids(**change)), change
    assert ids(puzzles=3)[:2] == [bare, told], "more puzzles are added behind"


def test_a_plan_that_is_too_large_is_refused_before_it_is_made():
    large = {"puzzles": 5_000_000, "configurations": ["Center", "2x2Grid"]}
    with pytest.raises(ValueError, match=r"episodes \(10,000,000 puzzles x 4 chains\) are more than"):
        MultiStarSuite(**large, styles=["vanilla", "structured"], priors=["none", "truth"]).plan()
    with pytest.raises(ValueError, match=r"episodes \(10,000,000 puzzles x 1 chains\) are more than"):
        MultiStarSuite(**large, subtask="direct").plan()


@pytest.mark.parametrize("reply", ["labels", "text", "described"])
def test_people_are_asked_to_choose_and_not_how_to_write(reply):
    suite = MultiStarSuite(**NUMBERS, priors=["none"], reply=reply)
    [record] = played(suite, BUILT_IN_PLAYERS["oracle"])
    for each in record.turns:
        words = " ".join(part for said in suite.for_people(each.turn) for part in said.parts if isinstance(part, str))
        assert words.startswith("You answer multiple-choice questions") and "Reply with" not in words
        assert "First say" not in words and ("Choose the one that is right." in words) == (reply != "described")


def test_modes_are_styles_and_priors():
    suite = MultiStarSuite(**NUMBERS, styles=["vanilla", "document"], priors=["none", "truth"])
    modes = ["vanilla/none", "vanilla/truth", "document/none", "document/truth"]
    assert [episode.mode for episode in suite.plan()] == modes
    assert {e.mode for e in dataclasses.replace(suite, subtask="direct").plan()} == {"vanilla", "document"}


def test_configurations_go_by_folder_name_or_paper_title():
    by_title = MultiStarSuite(configurations=["Left-Right"], puzzles=1).plan()
    assert by_title == MultiStarSuite(configurations="left_center_single_right_center_single", puzzles=1).plan()


SETTINGS = [
    {},
    {"subtask": "direct", "puzzles": 1, "render": "official"},
    {"puzzles": 3, "priors": ["none", "model", "truth"], "styles": ["vanilla", "structured"]},
    {"variant": "balanced", "options": "balanced"},
    {"values": 4, "puzzles": 1},
    {"changing": 2, "puzzles": 1, "subtask": "direct"},
    {"reply": "described", "modality": "text"},
    {"reply": "text", "modality": "both", "detail": "prose", "order": "question_first"},
    {"templates": "TEMPLATES", "reply": "text", "option_order": "shuffled"},
    {"attributes": "number", "configurations": ["Left-Right", "Center"], "seeds": "training:3"},
    {"problems": "PROBLEMS", "configurations": ["Center"]},
    {"problems": "PROBLEMS", "configurations": ["Center"], "puzzles": 1, "reply": "text"},
    *(
        {"wording": "theirs"},
        {"doubtful": "maybe"},
        {"subtask": "chains"},
        {"configurations": ["4x4Grid"]},
        {"configurations": ["Center", "center_single"]},
    ),
    *({"attributes": ["colour"]}, {"convention": "bits"}, {"scale": 5}, {"puzzles": 0}, {"puzzles": 10_000_000}),
    *({"subtask": "direct", "puzzles": 10_000_000}, {"problems": "/nowhere"}, {"problems": "~no-one/x"}),
    *({"problems": "PROBLEMS"}, {"problems": "PROBLEMS", "seeds": "training:1"}, {"problems": "PROBLEMS", "values": 5}),
    *({"seeds": "sealed:~no-one/x"}, {"seeds": "x"}, {"variant": "balanced", "options": "uniform"}),
    *({"templates": "TEMPLATES", "order": "question_first"}, {"source": "here"}, {"wording": "published"}),
    {"templates": "TEMPLATES", "order": "question_first", "subtask": "direct", "puzzles": 1},
    *(
        {"wording": "published", name: value}
        for name, value in (
            *(("scale", 2), ("modality", "text"), ("problems", "x"), ("render", "official"), ("variant", "balanced")),
            *(("changing", 2), ("values", 5), ("source", "/nowhere"), ("source", "SOURCE")),
        )
    ),
    *(
        {"wording": "published", "source": "SOURCE", "attributes": "shape", **some}
        for some in (
            {"doubtful": "scored"},
            {"subtask": "direct"},
            {"configurations": "2x2Grid"},
            {"templates": "TEMPLATES"},
            {"seeds": "training:1"},
        )
    ),
    *(
        {"attributes": ["number", "shape"], **some}
        for some in (
            *(
                {name: value}
                for name, value in (
                    ("options", "uniform"),
                    ("option_order", "shuffled"),
                    ("answer_sets", "raven"),
                    ("sweep", False),
                    ("paper_literal", True),
                    ("order", "question_first"),
                    ("scale", 3),
                    ("render", "official"),
                    ("reply", "described"),
                    ("modality", "text"),
                    ("styles", ["structured", "document"]),
                    ("seeds", "training:2"),
                )
            ),
            {"render": "official", "scale": 2, "styles": "document"},
            {"paper_literal": True, "order": "question_first", "priors": "truth"},
            {"paper_literal": True, "sweep": False, "order": "question_first", "priors": "none"},
        )
    ),
]


@pytest.mark.parametrize("won", [True, False])
def test_a_chain_is_won_by_its_last_answer_and_by_no_other(won):
    suite = MultiStarSuite(**NUMBERS, priors=["none"], sweep=False)
    asked = questions(suite, suite.plan()[0])

    def choose(question, text):
        right = won if question.stage == "final" else not won
        return question.key if right else (question.key + 1) % len(question.options)

    [record] = played(suite, Scripted(asked, choose))
    assert record.outcome.success is won and record.outcome.steps == len(asked)


@pytest.mark.parametrize("reply", ["text", "described"])
def test_objects_that_are_not_there_are_told_of_every_written_reply(reply):
    class Dreamer:
        async def reply(self, turn):
            wrong = next(option for option in turn.options if option != turn.oracle())
            return Reply(f"There are two hearts. The answer is {wrong}.")

    suite = MultiStarSuite(**NUMBERS, priors=["none"], reply=reply)
    rows = rows_of(tables_of(suite, played(suite, Dreamer()))["multistar_errors"])
    assert sum(row["wrong"] for row in rows) == sum(row["hallucination"] for row in rows) > 0


@pytest.mark.parametrize(("render", "counts"), [("own", True), ("official", False)])
def test_at_another_difficulty_the_last_question_counts_if_its_picture_tells_the_answer_from_the_others(render, counts):
    """Of this problem the published drawing shows two candidates alike, one of them the answer."""
    name = "in_distribute_four_out_center_single"
    source = generated(name, 96, "iraven", "", render, Difficulty(values=10))
    asked = questions_of(source, Selection(name, "chain", (), only_final=True))
    assert [(question.stage, question.counts) for question in asked] == [("final", counts)]
    left = questions_of(source, Selection(name, "direct", (), only_final=True))
    assert [question.stage for question in left] == ["final"] * counts


STORED = [
    Stored(
        subtask, "center_single", 0, number, f"{stage}/shape/{number}", stage, "shape", None, "Which?", ("Square", "Circle"),
        number % 2, "0a", (20, 10), ("the panels say: no",) * (number == 1), "", "center", ("square", "circle"),
    )
    for subtask, stages in (("chain", ("1P", "1P")), ("direct", ("1P-B", "1P-B", "1P-C")))
    for number, stage in enumerate(stages)
]  # fmt: skip
"""Imported questions."""


def test_what_settings_mean_and_which_are_refused_is_as_on_record(tmp_path):
    (tmp_path / "TEMPLATES").mkdir()
    asked = "$question $choices The answer should be one of $labels."
    (tmp_path / "TEMPLATES/vanilla.txt").write_text(asked)
    (tmp_path / "SOURCE").mkdir()
    write_questions(tmp_path / "SOURCE", STORED)
    for seed in range(2):
        (tmp_path / "PROBLEMS").mkdir(exist_ok=True)
        write(official(generate("center_single", seed)), tmp_path / f"PROBLEMS/RAVEN_{seed}_train")
    parts = []
    for settings in SETTINGS:
        given = {name: str(tmp_path / value) if str(value).isupper() else value for name, value in settings.items()}
        try:
            suite = MultiStarSuite(**{"configurations": ["Center"], "puzzles": 1, **given})
            plan = suite.plan()
            counts = f"{len(plan)} {len({episode.id for episode in plan})} {sum(episode.calls for episode in plan):g}"
            place = f"{plan[-1].task} {plan[-1].level} {plan[-1].mode} {plan[-1].index} {plan[-1].seed}"
            asked = plain(suite._ask_settings(plan[0].mode)).partition(", templates")[0]
            tokens = " ".join(f"{episode.budget} {episode.prompt_tokens:.0f}" for episode in (plan[0], plan[-1]))
            # Files are told apart by their place, too.
            ids = "" if suite.problems or suite.source else digest(" ".join(episode.id for episode in plan))
            said = [counts, place, str(suite.needs), str(suite.conditions), f"{asked} {tokens} {ids}"]
        except ValueError as error:
            said = [str(error)]
        parts += [f"{settings}", *(f"    {each}".replace(str(tmp_path), "") for each in said)]
    check_golden("multistar_settings", "\n".join(parts))


# --- play ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_sweep_makes_exactly_the_planned_calls_and_no_prompt_twice(configuration):
    suite = MultiStarSuite(configurations=[configuration], puzzles=1, priors=["model"])
    (record,) = played(suite, BUILT_IN_PLAYERS["random"])
    nodes = nodes_of(record, suite)
    by_hand = sum(1 + sum(len(nodes[parent]["options"]) - 1 for parent in node["parents"]) for node in nodes.values())
    assert len(record.turns) == by_hand == record.outcome.extra["n_calls"] == record.outcome.extra["n_planned_calls"]
    assert by_hand == record.episode.calls == record.episode.budget
    assert len({turn.turn.chat for turn in record.turns}) == by_hand
    for node in nodes.values():
        asked = [(each["parent"], each["option"]) for each in node["sweep"]]
        wanted = [(p, option) for p in node["parents"] for option in range(len(nodes[p]["options"]))]
        assert asked == wanted, "every parent, every option"
        for each in node["sweep"]:
            if each["option"] == nodes[each["parent"]]["answer"]:
                assert each["turn"] == node["turn"], "the actual answer is not asked again"


def test_a_swept_prompt_changes_one_sentence_and_nothing_else():
    suite = MultiStarSuite(configurations=["Left-Right"], puzzles=1, priors=["model"])
    (record,) = played(suite, BUILT_IN_PLAYERS["random"])
    chats = {turn.turn.number: turn.turn.chat for turn in record.turns}
    nodes = nodes_of(record, suite)
    for node in nodes.values():
        system, (picture, base) = chats[node["turn"]][0], chats[node["turn"]][1].parts
        for each in node["sweep"]:
            other = chats[each["turn"]]
            assert other[0] == system and other[1].parts[0] == picture
            lines = list(zip(base.splitlines(), other[1].parts[1].splitlines(), strict=True))
            changed = sum(first != second for first, second in lines)
            assert changed == (each["option"] != nodes[each["parent"]]["answer"])


def test_the_papers_own_sentences_on_the_position_leave_nothing_to_ask_again():
    settings = {**NUMBERS, "configurations": ["3x3Grid"], "attributes": ["position"], "priors": ["model"]}
    suite = MultiStarSuite(**settings, paper_literal=True)
    (record,) = played(suite, BUILT_IN_PLAYERS["random"])
    nodes = nodes_of(record, suite)
    assert record.outcome.extra["n_calls"] == record.outcome.extra["n_planned_calls"] == len(record.turns)
    for each in nodes["position/two_panels_1_2"]["sweep"]:
        assert each["turn"] == nodes["position/two_panels_1_2"]["turn"]
    # Ours say it: two parents with four options each, one of which is the answer.
    (ours,) = played(MultiStarSuite(**settings), BUILT_IN_PLAYERS["random"])
    swept = {each["turn"] for each in nodes_of(ours, suite)["position/two_panels_1_2"]["sweep"]}
    assert len(swept) == 7


@pytest.mark.parametrize("prior", ["none", "model", "truth"])
def test_questions_are_told_nothing_or_the_models_answers_or_the_truth(prior):
    suite = MultiStarSuite(**NUMBERS, priors=[prior], sweep=False)
    (episode,) = suite.plan()
    asked = questions(suite, episode)
    wrong = Scripted(asked, lambda question, _: (question.key + 1) % len(question.options))
    (record,) = played(suite, wrong)
    first, *_ = asked
    (pair,) = [text for question, text in wrong.asked if question.node == "number/two_panels_1_2"]
    said = {option: f"{option} object{'s' if option != '1' else ''} in the left panel." for option in first.options}
    told = [option for option in first.options if said[option] in pair]
    answers = {"none": [], "model": [first.options[(first.key + 1) % 4]], "truth": [first.options[first.key]]}
    assert told == answers[prior]
    assert not record.outcome.success and record.outcome.extra["n_calls"] == 8


def test_a_question_is_asked_only_when_all_before_it_are_answered_and_others_at_once():
    suite = MultiStarSuite(configurations=["Up-Down"], puzzles=1, priors=["model"], sweep=False)
    (episode,) = suite.plan()
    asked = questions(suite, episode)
    inside, most, done = set(), [], set()
    player = Scripted(asked, lambda question, _: 0)

    class Watching:
        async def reply(self, turn):
            question, _ = player.question(turn)
            assert done.issuperset(question.parents)
            inside.add(question.node)
            most.append(len(inside))
            await asyncio.sleep(0.001)
            inside.remove(question.node)
            done.add(question.node)
            return await player.reply(turn)

    played(suite, Watching())
    assert max(most) == 30, "all questions on one panel"
    assert len(done) == 71


def test_turns_are_numbered_alike_whatever_the_answers_take():
    suite = MultiStarSuite(**NUMBERS, priors=["model"])
    (episode,) = suite.plan()
    asked = questions(suite, episode)

    class Hesitant(Scripted):
        delays = itertools.cycle([0.003, 0.0, 0.001])

        async def reply(self, turn):
            await asyncio.sleep(next(self.delays))
            return await super().reply(turn)

    def chats(player):
        (record,) = played(suite, player)
        return [turn.turn.chat for turn in record.turns]

    def choose(question, text):
        return len(text) % len(question.options)

    assert chats(Scripted(asked, choose)) == chats(Hesitant(asked, choose))


def test_a_part_of_the_attributes_leaves_the_others_out_as_parents_too():
    suite = MultiStarSuite(configurations=["Center"], attributes=["size", "shape"], puzzles=1, priors=["model"])
    (episode,) = suite.plan()
    asked = questions(suite, episode)
    assert len(asked) == 2 * 7 + 1
    assert asked[-1].parents == ("shape/two_rows", "size/two_rows")
    assert played(suite, BUILT_IN_PLAYERS["oracle"])[0].outcome.success


# --- engines that cannot ---------------------------------------------------------------------------------------------


def test_scores_that_are_not_exact_are_kept_and_not_swept():
    suite = MultiStarSuite(**NUMBERS, priors=["model"])
    asked = questions(suite, suite.plan()[0])
    (record,) = played(suite, Scripted(asked, lambda question, _: question.key, exact=False))
    assert record.outcome.success
    assert record.outcome.extra["n_calls"] == 8 < record.outcome.extra["n_planned_calls"]
    assert all(node["exact"] is False and not node["sweep"] for node in nodes_of(record, suite).values())


@pytest.mark.parametrize("guessed", ["1P", "2P", "1R", "2R", "final"])
def test_a_question_is_swept_where_its_own_scores_and_those_of_all_its_parents_are_exact(guessed):
    suite = MultiStarSuite(**NUMBERS, priors=["truth"])
    asked = {question.node: question for question in questions(suite, suite.plan()[0])}

    class Mixed(Scripted):
        async def reply(self, turn):
            self.exact = self.question(turn)[0].stage != guessed
            return await super().reply(turn)

    (record,) = played(suite, Mixed(asked.values(), lambda question, _: question.key))
    for name, node in nodes_of(record, suite).items():
        needed = {asked[each].stage for each in (name, *asked[name].parents)}
        assert bool(node["sweep"]) == (bool(asked[name].parents) and guessed not in needed)


def test_unknown_log_probabilities_stay_unknown_in_the_ledger():
    suite = MultiStarSuite(**NUMBERS, priors=["none"])

    class TopTokens:
        async def reply(self, turn):
            unknown = (math.nan,) * (len(turn.labels) - 1)
            return Reply("A" if "A" in turn.labels else "1", label_scores=LabelScores((-0.5, *unknown), 0.6, True))

    (record,) = played(suite, TopTokens())
    for node in nodes_of(record, suite).values():
        assert node["answer"] == 0 and node["exact"] is False
        assert all(math.isnan(value) for value in node["logprobs"][1:])


def test_an_engine_without_label_scores_fails_with_a_cause_that_says_what_helps():
    suite = MultiStarSuite(**NUMBERS, priors=["none"])

    class Writing:
        async def reply(self, turn):
            return Reply("The answer is A.")

    (record,) = played(suite, Writing())
    assert not record.done
    assert record.error.startswith("NoLabelScores: the engine gives no label scores; suite.reply=text")
    (written,) = played(dataclasses.replace(suite, reply="text"), Writing())
    nodes = nodes_of(written, suite)
    assert nodes["number/one_row"]["answer"] == 0 and nodes["number/one_row"]["rule"] == "no tag, label"
    assert nodes["number/one_row"]["logprobs"] is None and nodes["number/one_row"]["exact"] is False
    assert nodes["final"]["answer"] is None and nodes["final"]["rule"] == "no answer"


def test_one_question_that_cannot_be_answered_costs_its_episode_and_keeps_what_was_said():
    suite = MultiStarSuite(**{**NUMBERS, "puzzles": 2}, priors=["model"])
    first, second = suite.plan()
    refusing = Refusing(BUILT_IN_PLAYERS["random"], lambda turn: turn.episode.index == 0 and "1" in turn.labels)
    records = played(suite, refusing)
    assert [record.error for record in records] == ["PlayerError: cannot", ""]
    assert len(records[0].turns) == 7 and len(records[1].turns) == second.calls
    assert first.calls == second.calls


async def test_questions_beside_one_that_cannot_be_answered_are_given_up():
    class Failing:
        """Cannot answer the first question, and takes a while for the others."""

        answered = 0

        async def reply(self, turn):
            if turn.number == 0:
                raise PlayerError("gone")
            await asyncio.sleep(0.001)
            self.answered += 1
            return Reply("A")

    player, suite = Failing(), MultiStarSuite(**NUMBERS, priors=["none"])
    assert (await play_episode(suite, suite.plan()[0], player)).error == "PlayerError: gone"
    await asyncio.sleep(0.01)
    assert player.answered == 0


# --- what counts, and shortcuts --------------------------------------------------------------------------------------


def test_links_are_asked_and_recorded_and_left_out_of_accuracy():
    suite = MultiStarSuite(configurations=["Center"], puzzles=2, priors=["none"])
    asked = [question for episode in suite.plan() for question in questions(suite, episode)]
    links = [question for question in asked if not question.counts]
    assert {"number/single_panel_1", "position/two_rows"} <= {question.node for question in links}, (
        "one answer everywhere"
    )
    records = played(
        suite, Scripted(asked, lambda question, _: (question.key + (not question.counts)) % len(question.options))
    )
    rows = rows_of(tables_of(suite, records)["multistar_stages"])
    assert sum(row["links"] for row in rows) == len(links) > 0
    assert sum(row["questions"] for row in rows) == len(asked) - len(links)
    assert all(row["accuracy"].mean == 1 for row in rows), "only links were answered wrong"
    for record in records:
        by_node = {question.node: question for question in questions(suite, record.episode)}
        assert all(node["counts"] == by_node[name].counts for name, node in nodes_of(record, suite).items())


@pytest.mark.slow
def test_base_rates_beat_chance_where_options_are_drawn_uniformly_and_not_where_they_are_balanced():
    excess = {}
    for options in ("uniform", "balanced"):
        suite = MultiStarSuite(configurations=["2x2Grid", "Left-Right"], puzzles=12, priors=["none"], options=options)
        rows = rows_of(tables_of(suite, played(suite, ShortcutPlayer("base_rates"), "base_rates"))["multistar_stages"])
        excess[options] = {row["stage"]: row["accuracy"].mean - row["chance"] for row in rows}
    assert all(excess["uniform"][stage] > 0.15 for stage in ("1P", "2P", "1R", "2R"))
    assert all(abs(excess["balanced"][stage]) < 0.1 for stage in ("1P", "2P", "1R", "2R"))


@pytest.mark.parametrize(("answer_sets", "least", "most"), [("raven", 0.8, 1.0), ("i_raven", 0.0, 0.4)])
def test_the_most_alike_candidate_solves_ravens_own_answer_sets_only(answer_sets, least, most):
    suite = MultiStarSuite("direct", ["Left-Right", "Center"], puzzles=15, answer_sets=answer_sets)
    finals = [episode for episode in suite.plan() if episode.level == "final"]
    records = played(suite, ShortcutPlayer("most_alike"), "most_alike", finals)
    assert len(finals) == 30 and least <= sum(record.outcome.success for record in records) / 30 <= most


def test_the_best_shortcut_stands_beside_the_other_players():
    suite = MultiStarSuite("direct", ["Center"], puzzles=3, answer_sets="raven")
    records = [
        record
        for name, player in (
            ("oracle", BUILT_IN_PLAYERS["oracle"]),
            *((name, ShortcutPlayer(name)) for name in suite.shortcuts),
        )
        for record in played(suite, player, name)
    ]
    table = tables_of(suite, records)["multistar_stages"]
    finals = {row["player"]: row for row in rows_of(table) if row["stage"] == "final"}
    best = max(finals[name]["accuracy"].mean for name in suite.shortcuts)
    assert best == 1 and all(row["best shortcut"] == best for row in finals.values())


def test_cut_replies_count_and_are_read_only_where_they_had_answered():
    suite = MultiStarSuite(**NUMBERS, priors=["none"], reply="text")

    class Cut:
        async def reply(self, turn):
            done = turn.number % 2
            label = turn.oracle()
            return Reply(f"<answer>{label}</answer> since" if done else f"It must be {label}. Hold on", finish="length")

    (record,) = played(suite, Cut())
    nodes = nodes_of(record, suite).values()
    assert all(node["cut_off"] and (node["answer"] == node["key"]) == bool(node["turn"] % 2) for node in nodes)
    table = tables_of(suite, [record])["multistar_stages"]
    assert sum(row["cut off"] for row in rows_of(table)) == 8


def test_a_larger_scale_asks_the_same_on_larger_pictures():
    small, large = (MultiStarSuite(**NUMBERS, priors=["none"], scale=scale) for scale in (1, 2))
    for one, other in zip(questions(small, small.plan()[0]), questions(large, large.plan()[0]), strict=True):
        assert (one.text, one.options, one.key) == (other.text, other.options, other.key)
        assert other.picture.size == tuple(2 * edge for edge in one.picture.size)
        assert other.picture.render().shape == (*other.picture.size[::-1], 3)


def test_an_episode_is_shown_with_its_graph_and_the_probabilities_of_every_turn():
    suite = MultiStarSuite(**NUMBERS, priors=["model"])
    (record,) = played(suite, BUILT_IN_PLAYERS["random"])
    row = records_to_table([record], ledger_columns(suite)).to_pylist()[0]
    shown = suite.view({name.removeprefix("multistar."): value for name, value in row.items()})
    assert len(shown.steps) == len(record.turns)
    for step in shown.steps:
        assert sum(step.probabilities.values()) == pytest.approx(1)
        assert step.best == step.facts["key"] and step.best in step.probabilities
        assert math.exp(-step.regret) == pytest.approx(step.probabilities[step.best])
    stored, graph = nodes_of(record, suite), {node.name: node for node in shown.graph}
    rule = graph["number/one_row"]
    assert rule.parents == tuple(stored["number/one_row"]["parents"])
    assert len(rule.weights) == 5 and 0 < sum(rule.weights) < 1 and 0 < rule.score < 1
    for name, node in graph.items():
        assert (node.answer == node.key) == (stored[name]["answer"] == stored[name]["key"])
        assert (node.turn, node.counts) == (stored[name]["turn"], stored[name]["counts"])
        assert shown.steps[node.turn].best == node.key
    changed = [step.facts["instead"] for step in shown.steps if "instead" in step.facts]
    assert len(changed) == len(shown.steps) - 8
    json.dumps([shown.facts, *(step.facts for step in shown.steps)])


# --- imported problems -----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "center_single"
    home.mkdir()
    for number in (10, 2, 3):
        write(official(generate("center_single", number)), home / f"RAVEN_{number}_train")
    return tmp_path


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_imported_problems_take_the_place_of_generated_ones_in_the_order_of_their_numbers(folder, subtask, flat):
    home = folder / "center_single" if flat else folder
    suite = MultiStarSuite(
        subtask, ["center_single"], puzzles=2, priors=["none"], attributes=["number"], problems=str(home)
    )
    sources = {questions(suite, episode)[0].picture.source.path for episode in suite.plan()}
    assert sources == {str(folder / "center_single" / f"RAVEN_{number}_train.npz") for number in (2, 3)}
    assert all(record.outcome.success for record in played(suite, BUILT_IN_PLAYERS["oracle"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_the_kinds_of_questions_are_known_without_the_puzzle(name, subtask):
    for options in ("uniform", "balanced"):
        selection = Selection(name, subtask, QUESTION_ATTRIBUTES, options)
        kinds = {question.node: kind(question) for question in stand_ins(selection)}
        if subtask == "chain" or options == "uniform":
            counts = {"chain": 36, "direct": 19 if name == "center_single" else 26}
            assert len(kinds) == (counts[subtask] if name in ONE_PART else {"chain": 71, "direct": 39}[subtask])
        for question in questions_of(generated(name, 0, "raven"), selection):
            if question.counts:
                assert kinds[question.node] == kind(question)


def test_a_kind_of_question_counts_if_it_does_on_any_puzzle():
    selection = MultiStarSuite(configurations=["center_single"], puzzles=1)._selection("center_single")
    counted = {}
    for index in range(32):
        for question in questions_of(generated("center_single", index, "iraven"), selection):
            counted.setdefault(question.node, []).append(question.counts)
    assert {question.node: question.counts for question in stand_ins(selection)} == {
        node: any(counts) for node, counts in counted.items()
    }
    assert any(any(counts) and not counts[0] for counts in counted.values()), "not on the first puzzle already"


def kind(question):
    return question.stage, question.attribute, question.part, len(question.options)


@pytest.mark.parametrize("name", ["center_single", "distribute_four", "in_center_single_out_center_single"])
def test_a_failed_episode_counts_with_the_questions_of_its_own_puzzle(name):
    """What counts in a chain depends on the puzzle."""
    suite = MultiStarSuite("chain", [name], puzzles=3, priors=["none"])
    answered = tables_of(suite, played(suite, BUILT_IN_PLAYERS["oracle"]))
    failed = tables_of(suite, played(suite, Refusing(BUILT_IN_PLAYERS["oracle"], lambda turn: True)))
    for table in ("multistar_stages", "multistar_attributes"):
        for row, lost in zip(rows_of(answered[table]), rows_of(failed[table]), strict=True):
            assert (row["questions"], row["links"]) == (lost["questions"], lost["links"]) and lost["failed"] == lost[
                "questions"
            ]
    questions = sum(row["questions"] for row in rows_of(failed["multistar_stages"]))
    assert f"{questions} questions of failed episodes count as" in "\n".join(failed["multistar_stages"].notes)


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_questions_on_an_unreadable_puzzle_are_counted_as_far_as_they_are_known(folder, subtask):
    broken = folder / "center_single" / "RAVEN_3_train.npz"
    broken.write_bytes(broken.read_bytes()[:100])
    suite = MultiStarSuite(subtask, ["center_single"], priors=["none"], problems=str(folder), options="uniform")
    tables = tables_of(suite, played(suite, BUILT_IN_PLAYERS["oracle"]))
    rows, notes = rows_of(tables["multistar_stages"]), "\n".join(tables["multistar_stages"].notes)
    if subtask == "chain":
        assert sum(row["questions"] for row in rows) == 3 * 36 and sum(row["failed"] for row in rows) == 36
        assert all(row["accuracy"].mean == pytest.approx(2 / 3) for row in rows)
        assert "count nowhere" not in notes
    else:
        assert sum(row["questions"] for row in rows) == 2 * 19 and not any(row["failed"] for row in rows)
        assert "1 failed episodes whose questions are unknown" in notes


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_tables_need_no_files_of_imported_problems(folder, subtask):
    suite = MultiStarSuite(subtask, ["center_single"], priors=["none"], problems=str(folder), options="uniform")
    records = played(suite, Refusing(BUILT_IN_PLAYERS["oracle"], lambda turn: turn.episode.index % 100 == 1))
    before = tables_of(suite, records)
    failed = {row["attribute"]: row["failed"] for row in rows_of(before["multistar_attributes"]) if row["failed"]}
    assert failed == ({"shape": 3} if subtask == "direct" else dict.fromkeys(QUESTION_ATTRIBUTES, 1) | {"puzzle": 1})
    shutil.rmtree(folder)
    forget()
    assert tables_of(suite, records) == before


@pytest.mark.parametrize("change", ["one more", "other content", "fewer", "none"])
def test_no_other_puzzle_is_played_than_the_planned_one(folder, change):
    suite = MultiStarSuite(configurations=["Center"], priors=["none"], attributes=["number"], problems=str(folder))
    plan, home = suite.plan(), folder / "center_single"
    if change == "one more":
        write(official(generate("center_single", 1)), home / "RAVEN_1_train")
    elif change == "other content":
        write(official(generate("center_single", 1)), home / "RAVEN_2_train")
    elif change == "fewer":
        (home / "RAVEN_2_train.npz").unlink()
    else:
        shutil.rmtree(folder)
    forget()
    records = played(suite, BUILT_IN_PLAYERS["oracle"], episodes=plan)
    assert [record.done for record in records] == ([False, True, True] if change == "other content" else [False] * 3)
    assert records[0].error.startswith(f"PuzzleUnreadable: suite.problems={folder} has changed since the plan was made")


@pytest.mark.parametrize("subtask", ["chain", "direct"])
@pytest.mark.parametrize("damaged", ["npz", "xml"])
def test_a_damaged_file_beside_others_costs_that_file_only(folder, damaged, subtask):
    home = folder / "center_single"
    (home / f"RAVEN_3_train.{damaged}").write_bytes(b"nothing")
    suite = MultiStarSuite(subtask, ["center_single"], priors=["none"], attributes=["number"], problems=str(home))
    records = played(suite, BUILT_IN_PLAYERS["oracle"])
    (failed,) = [record for record in records if not record.done]
    assert f"RAVEN_3_train.{damaged}" in failed.error and failed.error_kind == "suite"
    assert failed.episode.task == ("center_single" if damaged == "npz" else "unknown")
    assert all(record.outcome.success for record in records if record.done) and len(records) > 2
    notes = "\n".join(tables_of(suite, records)["multistar_stages"].notes)
    known = (damaged, subtask) == ("npz", "chain")
    assert ("1 failed episodes whose questions are unknown" in notes) == (not known)


@pytest.mark.parametrize("damaged", [False, True])
def test_games_over_problems_that_did_not_come_along_fail_with_their_cause(folder, damaged):
    """An imported run lacks the setting that names its problems; the generated ones in their place bear other questions."""
    if damaged:
        (folder / "center_single" / "RAVEN_3_train.npz").write_bytes(b"nothing")
    settings = {"subtask": "direct", "configurations": ["center_single"], "puzzles": 3, "styles": ["vanilla"]}
    plan = MultiStarSuite(**settings, problems=str(folder)).plan()
    suite = MultiStarSuite(**settings)
    borne = {(episode.task, episode.index) for episode in suite.plan()}
    records = played(suite, BUILT_IN_PLAYERS["oracle"], episodes=plan)
    lost = [record for record in records if (record.episode.task, record.episode.index) not in borne]
    assert lost and all("the setting that names its file (suite.problems) is not here" in each.error for each in lost)
    assert all(record.done for record in records if record not in lost)


def test_a_problem_in_the_folder_of_another_configuration_is_refused(folder):
    write(official(generate("distribute_nine", 4)), folder / "center_single" / "RAVEN_4_train")
    suite = MultiStarSuite(configurations=["Center"], priors=["none"], attributes=["number"], problems=str(folder))
    *others, record, last = played(suite, BUILT_IN_PLAYERS["oracle"])
    assert "RAVEN_4_train.npz: a problem of configuration distribute_nine, where center_single was" in record.error
    assert len(others) == 2 and all(other.done for other in (*others, last))


def test_an_index_holds_to_what_was_imported(folder):
    home, index = folder / "center_single", folder / "index.jsonl"
    (home / "RAVEN_3_train.xml").write_bytes(b"nothing")
    problems = [file.problem for file in read_files(folder) if not isinstance(file, ValueError)]
    write_index(problems, index)
    suite = MultiStarSuite(configurations=["Center"], priors=["none"], attributes=["number"], problems=str(index))
    assert all(record.outcome.success for record in played(suite, BUILT_IN_PLAYERS["oracle"]))
    plan = suite.plan()
    assert len(plan) == 2, "what was damaged is not listed"
    write(official(generate("center_single", 1)), home / "RAVEN_1_train")
    write(official(generate("center_single", 1)), home / "RAVEN_10_train")
    forget()
    first, second = played(suite, BUILT_IN_PLAYERS["oracle"], episodes=plan)
    assert first.done and "RAVEN_10_train.npz: content has changed" in second.error
    with pytest.raises(ValueError, match="holds no problem of configuration distribute_four"):
        dataclasses.replace(suite, configurations=["2x2Grid"]).plan()
    index.write_text("{}\n")
    forget()
    with pytest.raises(ValueError, match=r"suite.problems: .*index.jsonl, line 1: is no line"):
        suite.plan()


def forget():
    """As in another process."""
    load.cache_clear()
    read_imported.cache_clear()
    for cached in (puzzles.imported, puzzles._files, puzzles._index, puzzles.fingerprint, questions_of, stand_ins):
        cached.cache_clear()
