"""A user's own goals, action texts, list format and chat: a folder of files decides all that a player of KidGym reads."""

import asyncio

import pytest

from envs.kidgym import TASKS, Frame, make, solve
from evals.players import OraclePlayer
from evals.suite import play_episode
from evals.suites.kidgym import KidGymSuite
from evals.suites.kidgym.templates import FIELDS, load_templates
from evals.suites.kidgym.wording import ACTION_FIELDS, BUILT_IN, GOAL_FIELDS, Wording, wording_of
from evals.types import Reply
from tests.golden import check_golden

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


@pytest.mark.parametrize(
    ("goals", "told"),
    [
        ({"MMA_L1_watching": "1", "MMA_watching": "2", "MMA_L1": "3", "MMA": "4"}, "1"),
        ({"MMA_watching": "2", "MMA_L1": "3", "MMA": "4"}, "2"),
        ({"MMA_L1": "3", "MMA": "4"}, "3"),
        ({"MMA": "4"}, "4"),
    ],
)
def test_while_something_is_shown_the_goal_for_watching_comes_before_that_of_the_level(goals, told):
    world = make("MMA", level=1, seed=3)
    assert world.watching and wording_of({"goals": goals}).goal(world) == told


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


WRONG_WORDS = [
    "goals: {XX: no}",
    "goals: {CL_L9: no}",
    "goals: {CL_watching: no}",
    'goals: {CL: "$nothing"}',
    "goals: {CL: [1]}",
    "actions: {CL: {eat: no}}",
    "actions: {CL: {pick: it}}",
    'list: {entry: "$letter"}',
    'list: {separator: "$"}',
    "names: {1: one}",
    "words: {}",
    "- a list",
    "!!python/object/apply:os.system [ls]",
    "[" * 5000,
    "names: {1: x}",
    "names: {x: 1}",
    "goals: {CL: 7}",
    "goals: {CL_L4: x}",
    "goals: {CL_watching: x}",
    "actions: [x]",
    "reasons: {CL: {pick: $color_3}}",
    'actions: {CL: {pick: "$label $color_1"}}',
    'reasons: {CL: {pick: "$slot"}}',
    "list: {separator: $x}",
    "goals:",
    "goals: {SE_L3_watching: x, SE_watching: $type, PL_L1: $turn}",
]
WRONG_CHATS = [
    "{}",
    '[{role: user, text: "$goal $frame"}]',
    '[{role: user, text: "$goal $actions"}]',
    '[{role: robot, text: "$goal $actions $frame"}]',
    '[{role: user, text: "$goal $actions $frame $number"}]',
    "[{role: user}]",
    "[{role: user, text: 1}]",
    "[]",
    '[{role: user, text: "$goal $actions $frame", each: all}]',
    '[{role: user, text: "$goal $actions $frame", to: you}]',
    '[{role: user, text: "$goal $actions 5 $"}]',
    '[{role: user, text: "$goal"}, {role: assistant, text: "$actions $frames"}]',
]
PRINTED = """*Rules: collect and save $5.*

**[If ICL is required]**
Look at this first.
<EXAMPLE>
**[If Memory capability is NOT required]**
One picture.
**[Else: Memory capability IS required]**
All pictures.

Reach this: <GOAL>. Go!

Choose from: <ACTIONS>.
**[If CoT is NOT required]**
A letter, please.
**[Else: CoT IS required]**
Think.

Then a letter.
"""
"""A prompt in the form of the paper's, headings and placeholders as printed."""
WRONG_PRINTED = [
    PRINTED,
    PRINTED.replace("<GOAL>", "it"),
    PRINTED.replace("<ACTIONS>", "these"),
    PRINTED.replace("CoT is NOT", "coat is not"),
    PRINTED.replace("If CoT is NOT", "if cot is not"),
    PRINTED.replace("<EXAMPLE>\n", ""),
    "<GOAL> <ACTIONS>",
]


def without_one_field(required):
    """Texts that each lack one field, one with a field too many, one with a lone dollar sign, and an empty one."""
    all_of_them = [f"${field}" for field in sorted(required)]
    for field in all_of_them:
        yield "Text. " + " ".join(other for other in all_of_them if other != field)
    yield from (" ".join([*all_of_them, "$nothing"]), " ".join(all_of_them) + "\nIt costs 5 $.", " \n")


def test_words_of_one_s_own_are_taken_or_refused_as_on_record(tmp_path):
    files = [("words.yaml", text) for text in WRONG_WORDS] + [("chat.yaml", text) for text in WRONG_CHATS]
    files += [("printed.txt", text) for text in WRONG_PRINTED] + [("rule.txt", "A slip."), ("note.md", "x")]
    files += [(f"{name}.txt", text) for name, (required, _) in FIELDS.items() for text in without_one_field(required)]
    plain, parts = dict(load_templates("").texts), []
    for number, (name, text) in enumerate(files):
        home = tmp_path / str(number)
        home.mkdir()
        (home / name).write_text(text)
        try:
            found = load_templates(str(home))
            own = {key: value for key, value in found.texts if value != plain[key]}
            said = f"{own} {found.wording if found.wording != BUILT_IN else ''} {found.chat or ''}"
        except ValueError as error:
            said = f"refused: {error}".replace(str(home), "")
        parts += [f"{name}: {text[:100]!r}", f"    {said}"]
    check_golden("kidgym_templates", "\n".join(parts))
