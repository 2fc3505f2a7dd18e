"""A user's own goals, action texts, list format and chat: a folder of files decides all that a player of KidGym reads."""

import asyncio

import pytest

from envs.kidgym import TASKS, Frame, make, solve
from evals.players import OraclePlayer
from evals.suite import play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.templates import load_templates
from evals.suites.kidgym.wording import ACTION_FIELDS, GOAL_FIELDS, Wording, wording_of
from evals.types import Reply

WORDS = """
goals:
  SE_watching: "Blim the $type."
  SE: "Blam the $type!"
  SE_L2: "Blam both, $type."
actions:
  SE: {continue: "blim", choose: "grab no. $label"}
reasons:
  SE: {continue: "Blimmed.", choose: "No. $label was blimmed."}
names: {animal: beast, fruit: sweet, food: snack, toy: plaything}
list: {entry: "[$letter] <$text>", separator: " ", letters: "|"}
"""
CHAT = """
- {role: user, each: frame, text: "Look $number: $frame"}
- {role: user, text: "$example$goal\\nPick: $actions\\n($step/$budget) $answer "}
"""
KINDS = {"animal": "beast", "fruit": "sweet", "food": "snack", "toy": "plaything"}


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / (f"{name}.yaml" if name in ("words", "chat") else f"{name}.txt")
            path.write_text(text)
        load_templates.cache_clear()
        return str(tmp_path)

    return write


def chats(suite, player=None):
    record = asyncio.run(play_episode(suite, suite.plan()[0], player or OraclePlayer()))
    assert record.done, record.error
    return [played.turn.chat for played in record.turns], record


def read(chat):
    """Role and text of each message, a picture as its name."""
    return [(one.role, "".join("<PICTURE>" if isinstance(part, Frame) else part for part in one.parts)) for one in chat]


def test_a_whole_foreign_prompt_is_exactly_what_the_player_reads(folder):
    templates = folder(words=WORDS, chat=CHAT, answer="Say $letters.")
    suite = KidGymSuite(tasks="SE", levels=2, modes="zero_shot", episodes=1, templates=templates)
    seen, record = chats(suite)
    world = make("SE", 2, record.episode.seed)
    world.step(0)
    kind = KINDS[world.type]
    for number, chat in enumerate(seen, 1):
        listed = " ".join(
            f"[{letter}] <grab no. {world.scene[action.cell].label}>"
            for letter, action in zip("ABCDEFGH", world.ordered, strict=False)
        )
        letters = "|".join("ABCDEFGH"[: len(world.ordered)])
        assert read(chat) == [
            *(("user", f"Look {picture}: <PICTURE>") for picture in range(1, number + 2)),
            ("user", f"Blam both, {kind}.\nPick: {listed}\n({number + 1}/3) Say {letters}. "),
        ]
        assert chat[-2].parts[-1] == world.frame
        world.take(solve(world)[0])
    assert len(seen) == 2


def test_the_worked_example_speaks_the_users_words(folder):
    templates = folder(
        words=WORDS, chat=CHAT, example="$goal $steps $frame", example_step="$frame$actions $reason $letter "
    )
    suite = KidGymSuite(tasks="SE", levels=1, modes="icl", episodes=1, templates=templates)
    text = read(chats(suite)[0][0])[-1][1]
    assert text.startswith("Blim the ") and "<PICTURE>[A] <blim> Blimmed." in text and " was blimmed." in text
    assert "hint block" not in text and "continue" not in text


def test_a_reply_in_the_users_words_is_read(folder):
    templates = folder(words=WORDS)
    suite = KidGymSuite(tasks="SE", levels=1, modes="zero_shot", episodes=1, templates=templates, decoder="paper")
    world = make("SE", 1, suite.plan()[0].seed)
    world.step(0)
    label = world.scene[solve(world)[0].cell].label

    class Speaker:
        async def reply(self, turn):
            return Reply(f"grab no. {label}")

    _, record = chats(suite, Speaker())
    assert record.outcome.success


def test_words_and_chat_are_part_of_an_episode_s_identity(folder):
    plain = KidGymSuite(tasks="SE", levels=1, modes="zero_shot", episodes=1).plan()[0].id
    words = KidGymSuite(tasks="SE", levels=1, modes="zero_shot", episodes=1, templates=folder(words=WORDS)).plan()[0].id
    both = KidGymSuite(tasks="SE", levels=1, modes="zero_shot", episodes=1, templates=folder(chat=CHAT)).plan()[0].id
    assert len({plain, words, both}) == 3


def test_every_task_s_goal_and_actions_can_be_replaced():
    goals = {task: "".join(f"<${field}>" for field in fields) or "-" for task, fields in GOAL_FIELDS.items()}
    actions = {
        task: {verb: verb + "".join(f" ${field}" for field in fields.split()) for verb, fields in kinds.items()}
        for task, kinds in ACTION_FIELDS.items()
    }
    names = {"0": "1", "A": "B", "I": "II"}  # what tells actions apart stays as the pictures show it
    wording = wording_of({"goals": goals, "actions": actions, "reasons": actions, "names": names})
    for task in ACTION_FIELDS:
        for level in (1, 2, 3):
            world = make(task, level, level)
            while not world.done:
                texts, action = wording.texts(world), (solve(world) or [world.ordered[0]])[0]
                assert wording.goal(world).startswith(("<", "-")) and "$" not in wording.goal(world)
                assert len(set(texts)) == len(texts)
                assert all(text.partition(" ")[0] in ACTION_FIELDS[task] for text in texts)
                assert wording.reason(world, action) == wording.action(world, action)
                world.take(action)
    assert set(ACTION_FIELDS) <= set(TASKS)


def test_fields_say_what_the_built_in_texts_say():
    wording = wording_of(
        {
            "goals": {"PL": "$direction/$turn/$item/$center", "SO": "$premise $consequence $first $last $property"},
            "actions": {"PL": {"place": "$item->$position"}, "SO": {"place": "$slot->$position"}},
            "names": {"counterclockwise": "anticlockwise"},
        }
    )
    for seed in range(8):
        world = make("PL", 3, seed)
        direction, turn, item, center = wording.goal(world).split("/")
        built_in = world.goal.replace("counterclockwise", "anticlockwise")
        assert all(word in built_in for word in (f"is {direction}.", f"position {turn},", item, f"the {center}."))
        for own, text in zip(world.actions, wording.texts(world), strict=True):
            assert own.endswith(f"at grid {text.partition('->')[2]}") and f"the {item} from" in own
    world = make("SO", 2, 1)
    assert all(word in world.goal for word in wording.goal(world).split())
    for own, text in zip(world.actions, wording.texts(world), strict=True):
        slot, _, position = text.partition("->")
        assert own == f"place animal from backpack {slot} at grid {position}"


def test_what_is_left_out_keeps_the_built_in_words():
    world, wording = make("CL", 1, 0), wording_of({"actions": {"CL": {"put": "drop $slot on $label"}}})
    assert (wording.goal(world), wording.texts(world)) == (world.goal, world.actions)
    assert wording_of({}) == Wording()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("goals: {XX: no}", "no goal 'XX'"),
        ("goals: {CL_L9: no}", "no goal 'CL_L9'"),
        ("goals: {CL_watching: no}", "no goal 'CL_watching'"),
        ('goals: {CL: "$nothing"}', r"goals, CL has a field \$nothing"),
        ("goals: {CL: [1]}", "goals, CL: must be a text"),
        ("actions: {CL: {eat: no}}", "no 'eat'; there are pick, put"),
        ("actions: {CL: {pick: it}}", r"actions, CL, pick lacks the field \$label"),
        ('list: {entry: "$letter"}', r"list, entry lacks the field \$text"),
        ('list: {separator: "$"}', "list, separator: a lone"),
        ("names: {1: one}", "names: 1: 'one'"),
        ("words: {}", "no 'words'; there are goals"),
        ("- a list", "words.yaml: must be names"),
        ("a: [", "words.yaml, line 2: is not YAML"),
        ("!!python/object/apply:os.system [ls]", "words.yaml, line 1: is not YAML"),
        ("[" * 5000, "words.yaml, line 1: is nested deeper"),
    ],
)
def test_wrong_words_are_refused_by_place(folder, words, named):
    with pytest.raises(ValueError, match=rf"suite\.templates: .*{named}"):
        KidGymSuite(templates=folder(words=words)).plan()


@pytest.mark.parametrize(
    ("chat", "named"),
    [
        ("{}", "must be a list of messages"),
        ('[{role: user, text: "$goal $frame"}]', r"lacks the field \$actions"),
        ('[{role: user, text: "$goal $actions"}]', r"lacks the field \$frame or \$frames"),
        ('[{role: robot, text: "$goal $actions $frame"}]', "message 1: role is system"),
        ('[{role: user, text: "$goal $actions $frame $number"}]', r"a field \$number that nothing fills"),
        ("[{role: user}]", "message 1 must have role and text"),
        ("[{role: user, text: 1}]", "message 1: text must be a text"),
    ],
)
def test_a_wrong_chat_is_refused_by_message(folder, chat, named):
    with pytest.raises(ValueError, match=rf"suite\.templates: .*{named}"):
        KidGymSuite(templates=folder(chat=chat)).plan()
