"""How a game is told changes what its player reads, never the game."""

import asyncio
import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.twin_reader.panels import PanelReader
from benchmarks.twin_reader.worlds import TwinReader
from envs.picture import Picture
from evals.ledger.records import records_to_table
from evals.players import OraclePlayer, RandomPlayer
from evals.presentation import Presentation, check_fields, filled, windowed
from evals.presentation.history import note
from evals.suite import check_openings, ledger_columns, play_episode
from evals.suites.kidgym import KidGymSuite, rerender_episode
from evals.suites.kidgym.feedback import Acted
from evals.suites.kidgym.offer import NOT_OFFERED
from evals.suites.kumo import KumoSuite
from evals.suites.kumo import prompts as kumo_prompts
from evals.suites.multistar import MultiStarSuite
from evals.types import Message, Reply, message

KNOBS = [
    {"modality": "text"},
    {"modality": "both", "detail": "json"},
    {"modality": "text", "detail": "prose", "history": "all"},
    {"history": "none"},
    {"history": 1, "past_pictures": "text"},
    {"past_reasoning": "kept", "history": "all"},
    {"feedback": ["legal", "changed", "reward"]},
    {"option_order": "listed"},
    {"tell_budget": False},
    {"list_actions": False},
]

KUMO_KNOBS = [
    {"history": 1},
    {"history": "none"},
    {"past_reasoning": "dropped"},
    {"feedback": "changed"},
    {"option_order": "shuffled"},
    {"tell_budget": False},
    {"list_actions": False},
]


def kidgym(**settings):
    return KidGymSuite(**{"modes": ["zero_shot"], "levels": [2], "episodes": 1, "resolution": 32, **settings})


def kumo(**settings):
    return KumoSuite(domains=["medical"], difficulties=["easy"], tasks_per_domain=2, repeats=1, **settings)


def play(suite, player=None):
    async def play_all():
        return [await play_episode(suite, episode, player or OraclePlayer()) for episode in suite.plan()]

    return asyncio.run(play_all())


@given(st.from_type(Presentation), st.from_type(Presentation), st.sets(st.sampled_from([*vars(Presentation())])))
def test_games_that_are_told_in_different_ways_have_different_identities(default, other, changed):
    told = dataclasses.replace(default, **{name: getattr(other, name) for name in changed})
    assert (told.identity(default) == ()) == (told == default)
    assert (told.identity(Presentation()) == default.identity(Presentation())) == (told == default)


def texts(chat):
    return "\n".join(part for said in chat for part in said.parts if isinstance(part, str))


def pictures(chat):
    return [part for said in chat for part in said.parts if isinstance(part, Picture)]


class Writer:
    """Replies with given texts, one after the other."""

    def __init__(self, *replies):
        self.replies = replies

    async def reply(self, turn):
        return Reply(self.replies[min(turn.number, len(self.replies) - 1)], reasoning="I think so.")


@given(st.integers(0, 5), st.integers(0, 2), st.one_of(st.just("all"), st.just("none"), st.integers(0, 7)))
def test_a_window_keeps_the_rules_and_the_last_turns(turns, rules, history):
    asked = [message("user", str(number)) for number in range(turns + 1)]
    pairs = [(one, message("assistant", one.parts[0])) for one in asked[:-1]]
    system = [message("system", "rules")] * rules
    kept = len(pairs) if history == "all" else 0 if history == "none" else history
    shown = pairs[max(0, turns - kept) :]
    assert windowed((*system, *sum(pairs, ()), asked[-1]), history) == (*system, *sum(shown, ()), asked[-1])


@pytest.mark.slow
@pytest.mark.parametrize("knob", KNOBS, ids=str)
def test_kidgym_is_the_same_game_under_every_presentation(knob):
    plain, suite = (kidgym(tasks=["CL", "SE", "FI", "CO", "MMA"], **settings) for settings in ({}, knob))
    ids = {episode.id for episode in plain.plan()}
    for player in (OraclePlayer(), RandomPlayer()):
        records = play(suite, player)
        assert not ids & {record.episode.id for record in records} and not any(record.error for record in records)
        if isinstance(player, OraclePlayer):
            assert all(record.outcome.success for record in records)
            same = zip(records, play(plain), strict=True)
            assert all([t.action for t in one.turns] == [t.action for t in two.turns] for one, two in same)
        for row in records_to_table(records, ledger_columns(suite)).to_pylist():
            assert rerender_episode(row).success == row["success"]
    longest = max(len(pictures(turn.turn.chat)) for record in records for turn in record.turns)
    assert longest <= suite.needs.pictures and bool(check_openings(suite, suite.plan())) == bool(longest)


def test_text_stands_in_place_of_pictures_or_after_them():
    modalities = [kidgym(tasks=["CL", "SE", "MDE"], modality=each) for each in ("picture", "text", "both")]
    for one, two, three in zip(*map(play, modalities), strict=True):
        for shown, told, both in zip(one.turns, two.turns, three.turns, strict=True):
            twins = [frame.twin("grid") for frame in pictures(shown.turn.chat)]
            assert not pictures(told.turn.chat) and pictures(both.turn.chat) == pictures(shown.turn.chat)
            for chat in (told.turn.chat, both.turn.chat):
                assert re.findall(r"<picture>\n(.*?)\n</picture>", texts(chat[1:]), re.DOTALL) == twins


def test_earlier_steps_are_shown_as_far_as_the_history_goes():
    for history, most in (("all", 9), (2, 2), ("none", 0)):
        for record in play(kidgym(tasks=["CL", "SE"], history=history)):
            for number, played in enumerate(record.turns):
                answers = [said for said in played.turn.chat if said.role == "assistant"]
                forced = record.episode.task == "SE" and number < most  # the step without choice is one of them
                assert len(answers) == min(number, most)
                assert len(pictures(played.turn.chat)) == len(answers) + 1 + forced
    for record in play(kidgym(tasks=["CL", "SE"], history="all", past_pictures="text")):
        assert all(len(pictures(played.turn.chat)) == 1 for played in record.turns)
        assert "Of earlier steps the pictures are not shown again" in texts(record.turns[0].turn.chat[:1])


def test_reasoning_of_earlier_steps_is_dropped_or_kept():
    (dropped,) = play(kidgym(tasks=["CL"], history="all"), Writer("So: <answer>A</answer>"))
    assert dropped.turns[-1].turn.chat[2] == Message("assistant", ("<answer>A</answer>",), "I think so.")
    (kept,) = play(kidgym(tasks=["CL"], history="all", past_reasoning="kept"), Writer("So: <answer>A</answer>"))
    assert kept.turns[-1].turn.chat[2] == message("assistant", "I think so.\n\nSo: <answer>A</answer>")


def test_feedback_tells_what_the_latest_action_did():
    (record,) = play(kidgym(tasks=["CL"], feedback=["legal", "changed", "reward"]))
    first, second = (texts(played.turn.chat[1:]) for played in record.turns[:2])
    assert "Your last action" not in first
    assert second.startswith(f"Your last action was: {record.turns[0].action}. It was carried out. What changed: ")
    assert "slot A of the backpack now holds" in second and "Its reward: 1." in second
    (record,) = play(kidgym(tasks=["MDE"], levels=[3], feedback="reward"), Writer("A"))
    assert "Its reward" in texts(record.turns[0].turn.chat), "of the step that shows the table"
    refused = play(kidgym(tasks=["MA"], episodes=8, feedback=["legal", "changed", "reward"]), RandomPlayer())
    said = "\n".join(texts(played.turn.chat[1:]) for record in refused for played in record.turns[1:])
    assert "It could not be carried out." in said and "Nothing changed. Its reward: -1." in said
    lost = float("inf")
    assert [Acted("", True, None, None, *left).reward for left in ((3, 2), (3, 3), (3, lost), (lost, lost))] == [
        *(1, 0, -1, 0)
    ]


def test_an_action_that_is_not_offered_uses_up_a_step():
    suite = kidgym(tasks=["CL"], list_actions=False)
    writer = Writer("<answer>pick up the item with label 11</answer>", "I pick up the item with label 0.", "Hm.")
    (record,) = play(suite, writer)
    first, second, last = record.turns
    assert (first.action, first.rule) == ("pick up the item with label 11", NOT_OFFERED)
    assert (second.action in first.turn.options) == (second.rule != NOT_OFFERED) and last.action is None
    assert record.outcome.steps == 2 and record.outcome.extra["invalid"]
    assert record.outcome.extra["refused_steps"] >= 1 and not re.search(r"\n[A-Z]\) ", texts(first.turn.chat))
    assert "- put the item from backpack (letter) into the basket with label (number)" in texts(first.turn.chat)
    (row,) = records_to_table([record], ledger_columns(suite)).to_pylist()
    assert not rerender_episode(row).steps[0].accepted
    (record,) = play(kidgym(tasks=["PL"], list_actions=False), Writer("<answer>place the doll at grid XI</answer>"))
    assert record.turns[0].action is None and record.outcome.extra["invalid"]


def test_thoughts_are_asked_for_in_cot_alone_whether_or_not_actions_are_listed():
    for listed in (True, False):
        records = play(kidgym(tasks=["CL"], modes=["zero_shot", "icl", "cot"], list_actions=listed))
        asked = {record.episode.mode: texts(record.turns[0].turn.chat[-1:]) for record in records}
        assert {mode: "<think>" in said for mode, said in asked.items()} == {"zero_shot": 0, "icl": 0, "cot": 1}


def test_the_budget_is_told_or_not():
    for tell in (True, False):
        for record in play(kidgym(tell_budget=tell)):
            said = texts(record.turns[0].turn.chat)
            assert (" of at most " in said, "a single wasted step" in said) == (tell, tell)


def test_actions_in_the_order_of_their_texts():
    for record in play(kidgym(option_order="listed")):
        for played in record.turns:
            offered = re.findall(r"^[A-Z]\) (.*)$", texts(played.turn.chat[-1:]), re.MULTILINE)
            assert offered == sorted(offered) == [told.action for told in played.turn.features()]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"list_actions": False, "decoder": "paper"}, "suite.list_actions=false: suite.decoder=paper"),
        ({"tell_budget": False, "templates": "FOLDER"}, "suite.tell_budget=false changes words"),
        ({"history": 2, "templates": "CHAT"}, "suite.history has no meaning with a chat.yaml"),
        ({"environments": ["own", "published"], "modality": "text"}, "suite.modality is for games of our own"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, named, tmp_path):
    if "templates" in settings:
        (tmp_path / "answered.txt").write_text("$letter")
        if settings["templates"] == "CHAT":
            (tmp_path / "chat.yaml").write_text('- {role: user, text: "$goal $frame $actions"}')
        settings = settings | {"templates": str(tmp_path)}
    if "environments" in settings:
        settings = settings | {"recording": "a", "checkout": "b", "python": "c"}
    with pytest.raises(ValueError, match=re.escape(named)):
        kidgym(**settings).plan()


def test_what_is_told_of_a_history_and_which_fields_a_template_has():
    told = [note(history, "turn") for history in ("all", "none", 0, 1, 2)]
    nothing = "You are not shown the earlier turns."
    last_ones = [f"Of the earlier turns you are shown the last {each} only." for each in ("one", "2")]
    assert told == ["", nothing, nothing, *last_ones]
    needed, more = frozenset({"a"}), frozenset({"b"})
    check_fields("f", "$a ${b} $$c", needed, more)
    for text, wrong in {
        "": "is empty",
        "$b": "lacks the field $a; its fields are $a, $b",
        "$a $c": "has a field $c that nothing fills; its fields are $a, $b",
        "$a\n\n 5 $ ": "f, line 3: a lone '$'; a dollar sign is written '$$'",
    }.items():
        with pytest.raises(ValueError, match=re.escape(wrong)):
            check_fields("f", text, needed, more)
    assert filled("$a${b}c$$a", {"a": "1", "b": ("2", "3")}) == ("123c$a",)


def test_kidgym_says_beside_published_figures_how_it_was_told():
    assert kidgym()._conditions.prompts == "own"
    assert kidgym(modality="text", tell_budget=False)._conditions.prompts == "own, modality text, tell_budget false"
    assert kumo(history=2)._conditions.prompts == "own, book in prose, history 2"
    assert MultiStarSuite(modality="text").conditions.prompts == "own, modality text"


@pytest.mark.slow
@pytest.mark.parametrize("detail", ["grid", "prose", "json"])
def test_who_reads_twins_only_wins_every_game_that_perfect_play_wins(detail):
    suite = kidgym(levels=[1, 2, 3], episodes=2, modality="text", detail=detail)
    assert all(record.outcome.success for record in play(suite, TwinReader()))
    suite = MultiStarSuite(subtask="direct", attributes=["number"], puzzles=3, modality="text", detail=detail)
    final = [episode for episode in suite.plan() if episode.level == "final"]
    assert len(final) == 21
    for episode in final:
        assert asyncio.run(play_episode(suite, episode, PanelReader())).outcome.success


# --- KUMO ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knob", KUMO_KNOBS, ids=str)
def test_kumo_is_the_same_game_under_every_presentation(knob):
    plain, records = play(kumo()), play(kumo(**knob))
    for one, two in zip(plain, records, strict=True):
        assert two.outcome.success and one.episode.id != two.episode.id
        assert [turn.action for turn in one.turns] == [turn.action for turn in two.turns]
        last, known = two.turns[-1].turn.chat, one.turns[-1].turn.chat
        said = texts(last)
        history = knob.get("history", "all")
        if history != "all":
            assert last[1:] == (known[1:][-2 * history - 1 :] if history != "none" else known[-1:])
        assert ("You are not shown the earlier rounds." in said) == (history == "none")
        assert ("Still possible: " in said) == ("feedback" in knob and len(two.turns) > 1)
        assert ("50 rounds" in said) == ("tell_budget" not in knob)
        listed = re.findall(r"^- (.*)$", said, re.MULTILINE)
        names = re.findall(r"^- (.*)$", texts(known), re.MULTILINE)
        assert (listed == names) == (not {"option_order", "list_actions"} & knob.keys())
        assert set(listed) <= set(names) and len(listed) == (4 if "list_actions" in knob else 10)
    for record in records if "feedback" in knob else ():
        task = kumo().puzzle(record.episode.task, record.episode.level, record.episode.index).task
        taken = [played.action for played in record.turns[:-1]]
        said = re.findall(r"This rules out (.*)\. Still possible: (.*)\.", texts(record.turns[-1].turn.chat))
        for number, (gone, left) in enumerate(said):
            before, after = (task.survivors(task.shown(taken[:count])) for count in (number, number + 1))
            assert left == ", ".join(after) and len(said) == len(taken)
            assert gone == (
                ", ".join(each for each in before if each not in after) or "none of those that were possible"
            )


def test_kumos_earlier_replies_stand_with_their_reasoning_or_without():
    reply = "I think.\n<ANSWER> {} </ANSWER>"
    first = play(kumo())[0].turns[0].action
    writer = Writer("What?", reply.format(first), "What?")
    chat = play(kumo(), writer)[0].turns[2].turn.chat
    assert [said.parts[0] for said in chat if said.role == "assistant"] == ["What?", reply.format(first)]
    chat = play(kumo(past_reasoning="dropped"), writer)[0].turns[2].turn.chat
    assert [said.parts[0] for said in chat if said.role == "assistant"] == [
        "(no answer)",
        f"<ANSWER> {first} </ANSWER>",
    ]
    for words in (kumo_prompts._LIMIT, kumo_prompts._LIST):
        assert words in kumo_prompts.RULES


def test_kumos_published_words_have_a_history_only():
    with pytest.raises(ValueError, match=r"suite.tell_budget changes words of our prompts"):
        kumo(prompt="published", tell_budget=False).plan()


# --- MultiStAR -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["vanilla", "structured", "document"])
def test_multistar_asks_the_same_questions_in_words(style):
    settings = {"configurations": ["distribute_four"], "puzzles": 1, "styles": [style], "priors": ["truth"]}
    plain = play(MultiStarSuite(**settings))[0].turns
    told = play(MultiStarSuite(**settings, modality="text", detail="json"))[0].turns
    assert len(plain) == len(told)
    assert [MultiStarSuite(modality=each).needs.pictures for each in ("picture", "both", "text")] == [1, 1, 0]
    for one, two in zip(plain, told, strict=True):
        assert two.reply.text == one.reply.text and not pictures(two.turn.chat)
        assert pictures(one.turn.chat)[0].twin("json") in texts(two.turn.chat)
        if style != "document":
            assert two.turn.chat[-1].parts[-1].endswith(f"\n\n{one.turn.chat[-1].parts[-1]}")


def test_multistars_options_in_another_order_are_the_same_questions():
    settings = {"configurations": ["distribute_four"], "puzzles": 2, "subtask": "direct"}
    nodes = [
        [node for record in play(suite) for node in record.outcome.extra["nodes"]]
        for suite in (MultiStarSuite(**settings), MultiStarSuite(**settings, option_order="shuffled"))
    ]
    moved = 0
    for one, two in zip(*nodes, strict=True):
        (name, stage, *_, options, key), (*_, others, other) = one[:7], two[:7]
        assert sorted(options) == sorted(others) and options[key] == others[other], name
        moved += options != others
        assert stage != "final" or options == others
    assert moved > len(nodes[0]) / 2
    with pytest.raises(ValueError, match=r"suite\.modality has no meaning with suite\.wording=published"):
        MultiStarSuite(wording="published", modality="text").plan()
