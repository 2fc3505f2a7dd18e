"""MultiStAR as a suite: what is planned, what is asked, and what is recorded of it."""

import asyncio
import dataclasses
import itertools
import math
import shutil

import pytest

from envs.raven import CONFIGURATIONS, generate, load, official, write
from envs.raven.files import read_imported
from envs.raven.listing import read_files, write_index
from evals.multistar import MultiStarSuite, puzzles
from evals.multistar.puzzles import generated, planned_calls, puzzle_of, questions_of, stand_ins
from evals.multistar.questions import QUESTION_ATTRIBUTES
from evals.multistar.read_answer import read_answer
from evals.players import BUILT_IN_PLAYERS
from evals.types import LabelScores, Reply
from tests.evals.multistar_fakes import Refusing, Scripted, nodes_of, played, rows_of, tables_of

ONE_PART = {"center_single", "distribute_four", "distribute_nine"}
NUMBERS = {"configurations": ["center_single"], "attributes": ["number"], "puzzles": 1}


def questions(suite, episode):
    return suite._asked(episode)


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_chain_asks_3920_questions_over_70_puzzles_36_or_71_each():
    suite = MultiStarSuite(priors=["none"])
    plan = suite.plan()
    counts = {episode.task: len(questions(suite, episode)) for episode in plan}
    assert len(plan) == 70
    assert counts == {name: 36 if name in ONE_PART else 71 for name in CONFIGURATIONS}
    assert sum(episode.calls for episode in plan) == 3920


def test_the_direct_set_is_as_large_as_the_published_one():
    plan = MultiStarSuite(subtask="direct", puzzles=10).plan()
    assert 10 * len(plan) == pytest.approx(21_700, rel=0.02)  # 1 % over 100 puzzles
    assert len({episode.id for episode in plan}) == len(plan)
    assert len({(episode.task, episode.level, episode.mode, episode.index) for episode in plan}) == len(plan)


def test_guessing_gets_the_published_shares_by_construction():
    suite = MultiStarSuite(priors=["none"], puzzles=2)
    chances = {}
    for episode in suite.plan():
        for question in questions(suite, episode):
            chances.setdefault(question.stage, []).append(1 / len(question.options))
    means = {stage: 100 * sum(values) / len(values) for stage, values in chances.items()}
    expected = {"1P": 31.06, "2P": 31.67, "1R": 25, "2R": 25, "final": 12.5}
    assert means == pytest.approx(expected, abs=0.005)


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
    for change in ({"answer_sets": "raven"}, {"styles": ["structured"]}, {"reply": "text"}, {"attributes": "all"}):
        assert not {bare, told} & set(ids(**change)), change
    assert ids(puzzles=3)[:2] == [bare, told], "more puzzles are added behind"


def test_modes_are_styles_and_priors():
    suite = MultiStarSuite(**NUMBERS, styles=["vanilla", "document"], priors=["none", "truth"])
    modes = ["vanilla/none", "vanilla/truth", "document/none", "document/truth"]
    assert [episode.mode for episode in suite.plan()] == modes
    assert {e.mode for e in dataclasses.replace(suite, subtask="direct").plan()} == {"vanilla", "document"}


def test_configurations_go_by_folder_name_or_paper_title():
    by_title = MultiStarSuite(configurations=["Left-Right"], puzzles=1).plan()
    assert by_title == MultiStarSuite(configurations="left_center_single_right_center_single", puzzles=1).plan()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"subtask": "chains"}, "suite.subtask: there is no 'chains'; there are chain, direct"),
        ({"configurations": ["4x4Grid"]}, "suite.configurations: unknown configuration '4x4Grid'"),
        ({"configurations": ["Center", "center_single"]}, "suite.configurations names center_single twice"),
        ({"configurations": []}, "suite.configurations is empty"),
        ({"attributes": ["colour"]}, "suite.attributes: there is no 'colour'; there are number, position, shape"),
        ({"priors": ["models"]}, "suite.priors: there is no 'models'; there are none, model, truth"),
        ({"styles": ["html"]}, "suite.styles: there is no 'html'; there are vanilla, structured, document"),
        ({"reply": "json"}, "suite.reply: there is no 'json'; there are labels, text"),
        ({"answer_sets": "iraven"}, "suite.answer_sets: there is no 'iraven'; there are i_raven, raven"),
        ({"convention": "bits"}, "suite.convention: no convention 'bits'; there are decoded, natural_logs"),
        ({"puzzles": 0}, "suite.puzzles must be a whole number of at least 1, not 0"),
        ({"sweep": "yes"}, "suite.sweep must be true or false"),
        ({"convention": None}, "suite.convention must be a text, not None"),
        ({"problems": None}, "suite.problems must be a text, not None"),
        ({"priors": None}, "suite.priors must be a name or a list of names, not None"),
        ({"styles": 1}, "suite.styles must be a name or a list of names, not 1"),
        ({"configurations": None}, "suite.configurations must be a name or a list of names, not None"),
        ({"attributes": None}, "suite.attributes must be a name or a list of names, not None"),
        ({"subtask": None}, "suite.subtask: there is no None; there are chain, direct"),
        ({"problems": "/nowhere"}, "suite.problems=/nowhere: no such folder"),
    ],
)
def test_a_setting_that_does_not_exist_is_named_with_those_that_do(settings, words):
    with pytest.raises(ValueError) as caught:
        MultiStarSuite(**settings).plan()
    assert words in str(caught.value)


# --- play ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_perfect_play_answers_every_question_right(subtask):
    suite = MultiStarSuite(subtask=subtask, puzzles=1, priors=["none", "model", "truth"])
    for record in played(suite, BUILT_IN_PLAYERS["oracle"]):
        assert record.done and record.outcome.success
        assert all(node["answer"] == node["key"] for node in nodes_of(record, suite).values())
        assert all(turn.rule == "argmax" and turn.action == turn.reply.text for turn in record.turns)


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


def test_one_question_on_the_rule_of_a_row_takes_thirteen_more_calls():
    # Three parents with four options and two with three: 18 options, five of which were the answers themselves.
    suite = MultiStarSuite(**NUMBERS, priors=["model"])
    (record,) = played(suite, BUILT_IN_PLAYERS["random"])
    node = nodes_of(record, suite)["number/one_row"]
    assert len(node["sweep"]) == 18
    assert len({each["turn"] for each in node["sweep"]} - {node["turn"]}) == 13
    # And the whole chain of one attribute: 8 questions, 2 x (3 + 3), 13, 3 and 3.
    assert record.outcome.extra["n_calls"] == 8 + 12 + 13 + 3 + 3


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
    assert nodes["number/one_row"]["answer"] == 0 and nodes["number/one_row"]["rule"] == "answer"
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


@pytest.mark.parametrize(
    ("text", "option", "rule"),
    [
        ("B", 1, "label"),
        ("(b).", 1, "label"),
        ("**C**", 2, "label"),
        ("<think>It is A.</think> B", 1, "label"),
        ("B: fewer objects", 1, "label and option"),
        ("More objects.", 0, "option"),
        ("The left one has 3, so the answer is C.", 2, "answer"),
        ("Answer: A\nNo, answer: B", 1, "answer"),
        (r"\boxed{A}", 0, "boxed"),
        ("A: more objects\nB: fewer objects", None, "two answers"),
        ("A square is on the left.", None, "no answer"),
        ("Answer: a square", None, "no answer"),
        ("It is A or B", None, "no answer"),
        ("", None, "no answer"),
        # Options that are only talked about.
        ("Option A: more.\nOption B: fewer.\nOption C: as many.\nI cannot decide.", None, "no answer"),
        ("Looking at choice B, it is wrong, so it must be C", None, "no answer"),
        ("Looking at answer B, I doubt it.", None, "no answer"),
        ("The answer options: A, B and C", None, "no answer"),
        ("A - but wait, B is better", None, "no answer"),
        ("A-shaped", None, "no answer"),
        ("A: more objects. B: fewer objects. C: as many.", None, "two answers"),
        ("A. The left panel first.\nIt has three objects.", None, "no answer"),
        ("A: more or less, B) is what fits", None, "two answers"),
        # Answers.
        ("The answer is option B.", 1, "answer"),
        ("The correct answer is: choice (C)", 2, "answer"),
        ("Answer: **B**.", 1, "answer"),
        ("**Answer:** B", 1, "answer"),
        ("**Answer**: B", 1, "answer"),
        ("### Final answer\n\nB", 1, "answer"),
        ("Answer:\nB. fewer objects", 1, "answer"),
        ("The correct answer would be B since", 1, "answer"),
        ("B. fewer objects\n\nThe left one has two, the right one three. That rules out A.", 1, "label and option"),
        ("B: since there are two on the left", 1, "label and option"),
        ("A. more objects. However, the answer is B.", 1, "answer"),
    ],
)
def test_written_answers_are_read_as_meant_or_not_at_all(text, option, rule):
    assert read_answer(text, "ABC", ("more objects", "fewer objects", "as many objects")) == (option, rule)


@pytest.mark.parametrize(
    ("text", "option", "rule"),
    [
        ("5.", 4, "label"),
        ("Panel 5", 4, "label"),
        ("The answer is panel 5.", 4, "answer"),
        ("Answer: panel 5", 4, "answer"),
        ("The answer is number 5", 4, "answer"),
        (r"$\boxed{5}$", 4, "boxed"),
        ("1. Rows: they grow.\n2. Columns: they grow.\nAnswer: 5", 4, "answer"),
        ("1. Look at the first row: the number of objects grows by one.\nSo", None, "no answer"),
        ("1) In the first row there are 3 triangles", None, "no answer"),
        ("What the answer is:\n1. Look at the first row.\n2. Look at the next.", None, "no answer"),
        ("**Answer:**\n\n**5**\n", 4, "answer"),
        ("3 objects", None, "no answer"),
        ("The answer is 12", None, "no answer"),
        ("The answer is 3 or 4", None, "no answer"),
    ],
)
def test_written_numbers_are_answers_only_where_they_are_called_so(text, option, rule):
    labels = tuple("12345678")
    assert read_answer(text, labels, labels) == (option, rule)


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


def test_a_folder_without_a_configuration_is_refused(folder):
    with pytest.raises(ValueError, match="holds no problem of configuration distribute_four"):
        MultiStarSuite(configurations=["2x2Grid"], problems=str(folder)).plan()


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_a_damaged_file_fails_with_its_cause_and_the_others_are_played(folder, subtask):
    broken = folder / "center_single" / "RAVEN_3_train.npz"
    broken.write_bytes(broken.read_bytes()[:100])
    suite = MultiStarSuite(subtask, ["center_single"], priors=["none"], attributes=["number"], problems=str(folder))
    records = played(suite, BUILT_IN_PLAYERS["oracle"])
    failed = [record for record in records if not record.done]
    assert len(failed) == 1 and len(records) > 2
    assert failed[0].error.startswith("PuzzleUnreadable:") and "RAVEN_3_train.npz" in failed[0].error
    assert all(record.outcome.success for record in records if record.done)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_the_kinds_of_questions_are_known_without_the_puzzle(name, subtask):
    kinds = {question.node: kind(question) for question in stand_ins(name, subtask, QUESTION_ATTRIBUTES)}
    counts = {"chain": 36, "direct": 18 if name == "center_single" else 25}
    assert len(kinds) == (counts[subtask] if name in ONE_PART else {"chain": 71, "direct": 38}[subtask])
    for index in range(3):
        source = generated(name, index, "raven")
        for question in questions_of(source, name, subtask, QUESTION_ATTRIBUTES):
            assert kinds[question.node] == kind(question)


def kind(question):
    return question.stage, question.attribute, question.part, len(question.options)


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_questions_on_an_unreadable_puzzle_are_counted_as_far_as_they_are_known(folder, subtask):
    broken = folder / "center_single" / "RAVEN_3_train.npz"
    broken.write_bytes(broken.read_bytes()[:100])
    suite = MultiStarSuite(subtask, ["center_single"], priors=["none"], problems=str(folder))
    tables = tables_of(suite, played(suite, BUILT_IN_PLAYERS["oracle"]))
    rows, notes = rows_of(tables["multistar_stages"]), "\n".join(tables["multistar_stages"].notes)
    if subtask == "chain":
        assert sum(row["questions"] for row in rows) == 3 * 36 and sum(row["failed"] for row in rows) == 36
        assert all(row["accuracy"].mean == pytest.approx(2 / 3) for row in rows)
        assert "count nowhere" not in notes
    else:
        assert sum(row["questions"] for row in rows) == 2 * 18 and not any(row["failed"] for row in rows)
        assert "1 failed episodes whose questions are unknown" in notes


@pytest.mark.parametrize("subtask", ["chain", "direct"])
def test_tables_need_no_files_of_imported_problems(folder, subtask):
    suite = MultiStarSuite(subtask, ["center_single"], priors=["none"], problems=str(folder))
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
    assert f"RAVEN_3_train.{damaged}" in failed.error
    assert failed.episode.task == ("center_single" if damaged == "npz" else "unknown")
    assert all(record.outcome.success for record in records if record.done) and len(records) > 2
    notes = "\n".join(tables_of(suite, records)["multistar_stages"].notes)
    known = (damaged, subtask) == ("npz", "chain")
    assert ("1 failed episodes whose questions are unknown" in notes) == (not known)


def test_a_problem_in_the_folder_of_another_configuration_is_refused(folder):
    write(official(generate("distribute_nine", 4)), folder / "center_single" / "RAVEN_4_train")
    suite = MultiStarSuite(configurations=["Center"], priors=["none"], attributes=["number"], problems=str(folder))
    *others, record, last = played(suite, BUILT_IN_PLAYERS["oracle"])
    assert "RAVEN_4_train.npz: a problem of configuration distribute_nine, where center_single was" in record.error
    assert len(others) == 2 and all(other.done for other in (*others, last))


def test_an_index_holds_to_what_was_imported(folder):
    home, index = folder / "center_single", folder / "index.jsonl"
    (home / "RAVEN_3_train.xml").write_bytes(b"nothing")
    problems = [problem for problem in read_files(folder) if not isinstance(problem, ValueError)]
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
    with pytest.raises(ValueError, match=r"suite.problems: .*index.jsonl: line 1 is no line"):
        suite.plan()


def forget():
    """As in another process."""
    load.cache_clear()
    read_imported.cache_clear()
    for cached in (puzzles.imported, puzzles._files, puzzles._index, puzzles.fingerprint, questions_of, stand_ins):
        cached.cache_clear()


# --- counting --------------------------------------------------------------------------------------------------------


def test_calls_are_planned_without_playing():
    asked = questions_of(generated("center_single", 0, "iraven"), "center_single", "chain", QUESTION_ATTRIBUTES)
    assert planned_calls(asked, "none", True, False) == planned_calls(asked, "model", False, False) == 36
