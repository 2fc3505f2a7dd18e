"""Replies as models write them, and what they chose."""

import pytest

from evals.suites.kidgym.decode import decode
from evals.suites.kidgym.offer import form_of, read_written
from evals.suites.kidgym.prompts import LETTERS
from evals.suites.kidgym.published_decoders import decode_as_paper, decode_as_published
from tests.golden import check_golden

CL = (
    "pick up the item with label 3",  # A
    "pick up the item with label 0",  # B
    "put the item from backpack A into the basket with label 1",  # C
    "put the item from backpack A into the basket with label 2",  # D
)
SO = tuple(
    f"place animal from backpack {slot} at grid {roman}" for slot in "ABCD" for roman in ("I", "II", "III", "IV")
)
CO = ("pick up the apple with label 2", "I have already collected 2 apple(s)", "pick up the apple with label 0")

READ = [
    # --- ticked
    ("A ✅ (moves)\nB ❌ (wall)\nC ❌\nD ❌", "A"),
    ("Options:\n✗ A (wall)\n✓ B (free)\n✗ C\n✗ D", "B"),
    ("✅ B\nNo, wait: C.", "C"),
    ("Why not <answer>A</answer>", "A"),
    ("✅ A ✅ B\n\nBoth work, I choose B.", "B"),
    ("✅ The key is below.\n✅ The chest is shut.\nAnswer: C", "C"),
    # --- as asked for
    ("<Answer> C </Answer>", "C"),
    ("< answer >B< / answer >", "B"),
    ("<THINK>Maybe A? No.</THINK>\n\n<ANSWER>B</ANSWER>", "B"),
    ("Sure! Here is my choice:\n<answer>D</answer>\nLet me know if you need more.", "D"),
    ("&lt;answer&gt;A&lt;/answer&gt;", "A"),
    # --- forms of a letter
    ("<answer>C)</answer>", "C"),
    ("<answer>C.</answer>", "C"),
    ("<answer>'C'</answer>", "C"),
    ("<answer>Option C</answer>", "C"),
    ("<answer>action C</answer>", "C"),
    ("<answer>the best option is (c)</answer>", "C"),
    ("<answer>c</answer>", "C"),
    ("<answer>a</answer>", "A"),
    ("<answer>b)</answer>", "B"),
    ("<answer>Ｃ</answer>", "C"),
    (r"<answer>\boxed{C}</answer>", "C"),
    (r"<answer>$\boxed{\text{C}}$</answer>", "C"),
    # --- the action's text
    ("<answer>pick up the item with label 0</answer>", "B"),
    ("<answer>'pick up the item with label 0'</answer>", "B"),
    ('<answer>"Pick up the item with label 0."</answer>', "B"),
    ("<answer>put the item from backpack A into the basket with label 2</answer>", "D"),
    ("<answer>D) put the item from backpack A into the basket with label 2</answer>", "D"),
    ("<answer>D) 'put the item from backpack A into the basket with label 2'</answer>", "D"),
    ("<answer>A pick up the item with label 3</answer>", "A"),
    ("<answer>B: pick up the\nitem with label 0</answer>", "B"),
    ("<answer>I pick up the item with label 0</answer>", "B"),
    ("<answer>I choose 'put the item from backpack A into the basket with label 1'</answer>", "C"),
    # --- the paper's example, and prose like it
    ("<answer>Based on all the information given, I choose action C</answer>", "C"),
    ("The action I would take is A, since it is near.", "A"),
    ("My choice: d.", "D"),
    ("C) put the item from backpack A into the basket with label 1", "C"),
    ("pick up the item with label 3", "A"),
    ("I will pick up the item with label 3.", "A"),
    ("Let me see. I don't choose A. I choose B.", "B"),
    ("Rather than choose A, I pick C.", "C"),
    ("Slots A and B are full, hence D.", "D"),
    # --- tags that are broken, repeated or within the reasoning
    ("<answer>A</answer> Wait, that is wrong. <answer>B</answer>", "B"),
    ("The form is <answer></answer>. <answer>D</answer>", "D"),
    ("<answer>D</answer> <answer></answer>", "D"),
    # --- lists, of which the paper takes the first
    ("<answer>A, B</answer>", "A"),
    ("<answer>B, then C</answer>", "B"),
    ("<answer>B C</answer>", "B"),
    ("<answer>B\nC</answer>", "B"),
    ("<answer>1. D\n2. C</answer>", "D"),
    ("<answer>(C), (A) and (D)</answer>", "C"),
    ("<answer>C -> A -> D</answer>", "C"),
    ("<answer>B) pick up the item with label 0\nA) pick up the item with label 3</answer>", "B"),
    ("B, then C", "B"),
    ("I choose B and then C.", "B"),
    # --- the last of several choices counts, but not one for later
    ("The answer is A. Or no, the answer is B.", "B"),
    ("Actually, C is better. Final answer: C", "C"),
    # --- what is rejected is not chosen
    ("The answer isn't A; it's B", "B"),
    ("<answer>not A but B</answer>", "B"),
    ("<answer>Not A, B or C</answer>", "D"),
    ("Option A can't work, so option B.", "B"),
    ("A and B are wrong, C is right.", "C"),
    ("Should I choose A? No, B.", "B"),
    ("If I choose A, the door stays shut. I choose B.", "B"),
    ("{'answer':'B','reason':'A is wrong'}", "B"),
]

UNREAD = [
    "My picks:\n✅ A\n✅ B",
    "✅ A (free)\n✅ B (free)",
    "B?",
    "",
    "   \n",
    "<answer></answer>",
    "<answer>letter</answer>",
    "<answer>your choice</answer>",
    "I'm sorry, but I can't see the image.",
    "As an AI, I cannot play games.",
    "I choose to wait and see what happens.",
    "A good idea would be to look around first.",
    "The BLUE key opens the RED door.",
    "The item in backpack B should go there.",
    "None of the above.",
    "<answer>3</answer>",
    "<answer>pick up the item with label 7</answer>",
    "<answer>not A</answer>",
    "<answer>I would never choose B</answer>",
    "It is not B.",
    "Option B is wrong.",
    'The letter "B" does not help.',
    "Neither A nor B",
    "I don't think B is right.",
    "I don't know whether B is right",
    "I will not pick up the item with label 3.",
    "Vitamin C is what oranges hold.",
    "Oranges hold vitamin C.",
    "Is the answer B? I cannot tell.",
    "Step A: look at the picture.",
    "<answer>A or B</answer>",
    "<answer>A, B or C</answer>",
    "<answer>A) pick up the item with label 0</answer>",
    "You could choose A or C.",
    "<answer>I choose C: pick up the item with label 3</answer>",
    "\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, CL, strict=False)),
    "pick up the item with label 3 or pick up the item with label 0",
    "<answer>E</answer>",
    "<answer>Z)</answer>",
    "I choose action K",
    "I",
    "Let me think about this for a long time. " * 10 + "Slot 2 holds a thing, and B is near.",
]


LONG = [
    # With 16 actions the letters A and I are offered, and are words besides.
    ("I choose C", "C"),
    ("I'm sorry, I cannot help with that.", None),
    ("I think the horse comes first.", None),
    ("I", "I"),
    ("<answer>I</answer>", "I"),
    ("The answer is I.", "I"),
    ("I choose I", "I"),
    ("I choose action I, because the horse is fast.", "I"),
    ("The option I choose is P", "P"),
    ("<answer>place animal from backpack C at grid I</answer>", "I"),
    ("<answer>place animal from backpack C at grid II</answer>", "J"),
    ("I place animal from backpack A at grid IV", "D"),
    ("Grid I gets the horse, so the answer is M.", "M"),
    ("At position I belongs the horse.", None),
    ("<answer>p</answer>", "P"),
    ("<answer>Q</answer>", None),
]


NAMES = {CL: "", SO: "of 16", CO: "of counting"}
COUNTING = [
    *("I have already collected 2 apple(s)", "<answer>I have already collected 2 apple(s)</answer>"),
    *("<answer>B) I have already collected 2 apple(s).</answer>", "I have already collected 3 apple(s)"),
    *("The backpack is right, so: 'I have already collected 2 apple(s)'", "pick up the apple with label 1", "D", "C"),
]
OTHERS = [
    "'pick up the item with label 0'",
    "<answer>\nB\n</answer>",
    "aBc",
    "E",
    "<ANSWER>x B</ANSWER> A",
    "<answer>Wait: D",
]


def test_replies_are_read_as_a_person_would_and_by_the_published_rules_as_on_record():
    """The pronoun and positions are no letters however long the list; what names no single action is not read."""
    expected = {(CL, reply): letter for reply, letter in READ} | {(CL, reply): None for reply in UNREAD}
    expected |= {(SO, reply): letter for reply, letter in LONG}
    parts = []
    others = [(actions, reply) for actions, some in ((CO, COUNTING), (CL, OTHERS)) for reply in some]
    for actions, reply in [*expected, *others]:
        ours, cut_off = decode(reply, actions), decode(reply, actions, cut_off=True)
        letter = None if ours.option is None else LETTERS[ours.option]
        assert letter == expected.get((actions, reply), letter), reply
        written, text = read_written(reply, actions[1:], map(form_of, actions), cut_off=False)
        rules = [ours, cut_off, decode_as_paper(reply, actions), decode_as_published(reply, actions)]
        told = [f"{'-' if rule.option is None else LETTERS[rule.option]} {rule.rule}" for rule in rules]
        shown = reply if len(reply) < 200 else f"{reply[:40]}..."
        parts.append(f"{NAMES[actions]} {shown!r}: {'; '.join(told)}; {written.option} {written.rule} {text}")
    parts += [f"{text}: {form_of(text)}" for actions in NAMES for text in actions[:6]]
    check_golden("kidgym_replies", "\n".join(parts))


FORMS = [
    "{}",
    "({})",
    "{}.",
    "Answer: {}",
    "Answer\n{}",
    "### Answer\n\n{}",
    "Answer: {} is right",
    "Final answer: **({})**",
    "The correct answer is **{}**.",
    "The answer is {} here.",
    "My answer is {} based on the picture",
    "The correct option is {} in this case.",
    "The next action should be ({}).",
    "The best action is {} at this step.",
    "A good choice is {}",
    "I choose {}",
    "I choose {} first.",
    "I choose option {} right now",
    "I would select option {} first.",
    "I would go with option {} because the key is close.",
    "I'd go with {} here",
    "I pick {}, of course",
    "Based on all the information given, I choose action {}",
    "Based on the picture, action {} would be the right one.",
    "The apple lies near the BLUE key, so: {}",
    "Slots 1 and 2 are full, hence {}.",
    "Option {} is best",
    "Option {} seems to be right here.",
    "{} is correct.",
    "{} is the best",
    "{} because the horse is fast",
    "({}) is the one",
    "Looking at it, the pig comes first.\n\n{}",
    '{"answer": "{}"}',
    '{"answer": "{}", "reason": "it is near"}',
    '{"reason": "it is near", "answer": "{}"}',
    "{'answer':'{}','reason':'near'}",
    "$\\boxed{{}}$",
    "<answer>{}</answer>",
    "<ANSWER>{}</ANSWER>",
    "<answer>\n{}\n</answer>",
    "<answer>({})</answer>",
    "<answer>[{}]</answer>",
    "<answer>**{}**</answer>",
    "<answer>`{}`</answer>",
    "<answer>{},</answer>",
    "<answer>{}!</answer>",
    "<answer>{}。</answer>",
    "<answer>{}<br></answer>",
    "<answer>{}) because the basket is green</answer>",
    "<answer>Letter {}</answer>",
    "<answer>Action: {}</answer>",
    "<answer>The answer is {}.</answer>",
    "<answer>the best option is ({})</answer>",
    "<answer>Option {} is best</answer>",
    "<answer>{} is the best option</answer>",
    "<answer>I choose {} here</answer>",
    "<answer>{}, then P</answer>",
    "<answer>{}",
    "<answer>{}<answer>",
    "The pig belongs there.\n{}</answer>",
    "[answer]{}[/answer]",
    "<think>because\n<answer>{}</answer>\nThat is it.",
    "<think>First the pig. <answer>{}</answer></think>",
    "<think>The pig has label 0.</think>\n<answer>{}</answer>",
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_alike_for_every_letter(form):
    """Not only for B or C: A is an article and I a pronoun, but not where they are chosen."""
    read = {letter: decode(form.replace("{}", letter), SO).option for letter in LETTERS[: len(SO)]}
    assert read == {letter: index for index, letter in enumerate(LETTERS[: len(SO)])}


REJECTIONS = ["<answer>not {}</answer>", "It is not {}.", "Option {} is wrong.", "I don't know whether {} is right"]


@pytest.mark.parametrize("form", REJECTIONS)
def test_every_letter_can_be_rejected(form):
    assert {decode(form.replace("{}", letter), SO).option for letter in LETTERS[: len(SO)]} == {None}


def test_every_action_is_read_by_letter_and_by_text_in_every_form():
    for actions in (CL, SO, CO):
        for index, text in enumerate(actions):
            for reply in (
                f"<answer>{LETTERS[index]}</answer>",
                f"<answer>{text}</answer>",
                f"{LETTERS[index]}) {text}",
                text,
            ):
                assert decode(reply, actions).option == index, reply


HOSTILE = [
    "<",
    " ",
    "answer is ",
    "A ",
    "<answer>",
    "answer:" + " " * 50,
    " \n",
    "(",
    "choose A or ",
    "\ue000",
    "A\n",
    "<think>",
    "A, ",
    "A and ",
    "not ",
    "<answer>A</answer>",
    "<think></think>",
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("frame", ["{}", "<answer>{}</answer>", "answer{}C", "choose {}"])
def test_hostile_replies_are_read_to_their_end(piece, frame):
    decode(frame.format(piece * (40_000 // len(piece))), SO)
