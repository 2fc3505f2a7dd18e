"""Replies as models write them, and what they chose."""

import pytest

from evals.suites.kidgym.decode import decode
from evals.suites.kidgym.prompts import LETTERS

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
    # --- as asked for
    ("<answer>C</answer>", "C", "tag, letter"),
    ("<ANSWER>C</ANSWER>", "C", "tag, letter"),
    ("<Answer> C </Answer>", "C", "tag, letter"),
    ("<answer>\nC\n</answer>", "C", "tag, letter"),
    ("< answer >B< / answer >", "B", "tag, letter"),
    ("<THINK>Maybe A? No.</THINK>\n\n<ANSWER>B</ANSWER>", "B", "tag, letter"),
    ("Sure! Here is my choice:\n<answer>D</answer>\nLet me know if you need more.", "D", "tag, letter"),
    ("[answer]D[/answer]", "D", "tag, letter"),
    ("&lt;answer&gt;A&lt;/answer&gt;", "A", "tag, letter"),
    # --- forms of a letter
    ("<answer>(C)</answer>", "C", "tag, letter"),
    ("<answer>C)</answer>", "C", "tag, letter"),
    ("<answer>C.</answer>", "C", "tag, letter"),
    ("<answer>[C]</answer>", "C", "tag, letter"),
    ("<answer>'C'</answer>", "C", "tag, letter"),
    ("<answer>**C**</answer>", "C", "tag, letter"),
    ("<answer>`C`</answer>", "C", "tag, letter"),
    ("<answer>Option C</answer>", "C", "tag, letter"),
    ("<answer>action C</answer>", "C", "tag, letter"),
    ("<answer>Action: C</answer>", "C", "tag, letter"),
    ("<answer>The answer is C.</answer>", "C", "tag, letter"),
    ("<answer>the best option is (c)</answer>", "C", "tag, letter"),
    ("<answer>c</answer>", "C", "tag, letter"),
    ("<answer>a</answer>", "A", "tag, letter"),
    ("<answer>b)</answer>", "B", "tag, letter"),
    ("<answer>Ｃ</answer>", "C", "tag, letter"),
    (r"<answer>\boxed{C}</answer>", "C", "tag, declared"),
    (r"<answer>$\boxed{\text{C}}$</answer>", "C", "tag, declared"),
    # --- the action's text
    ("<answer>pick up the item with label 0</answer>", "B", "tag, text"),
    ("<answer>'pick up the item with label 0'</answer>", "B", "tag, text"),
    ('<answer>"Pick up the item with label 0."</answer>', "B", "tag, text"),
    ("<answer>put the item from backpack A into the basket with label 2</answer>", "D", "tag, text"),
    ("<answer>D) put the item from backpack A into the basket with label 2</answer>", "D", "tag, letter and text"),
    ("<answer>D) 'put the item from backpack A into the basket with label 2'</answer>", "D", "tag, letter and text"),
    ("<answer>A pick up the item with label 3</answer>", "A", "tag, letter and text"),
    ("<answer>B: pick up the\nitem with label 0</answer>", "B", "tag, letter and text"),
    ("<answer>I pick up the item with label 0</answer>", "B", "tag, text"),
    ("<answer>I choose 'put the item from backpack A into the basket with label 1'</answer>", "C", "tag, declared"),
    ("<answer>C) because the basket is green</answer>", "C", "tag, alone"),
    # --- the paper's example, and prose like it
    ("Based on all the information given, I choose action C", "C", "no tag, declared"),
    ("<answer>Based on all the information given, I choose action C</answer>", "C", "tag, declared"),
    ("I would go with option B because the key is close.", "B", "no tag, declared"),
    ("The correct answer is **D**.", "D", "no tag, letter"),
    ("The next action should be (A).", "A", "no tag, declared"),
    ("A good choice is C", "C", "no tag, declared"),
    ("The action I would take is A, since it is near.", "A", "no tag, declared"),
    ('{"answer": "C"}', "C", "field, letter"),
    ("Answer: B", "B", "no tag, letter"),
    ("### Answer\n\nB", "B", "no tag, letter"),
    ("Final answer: **(D)**", "D", "no tag, letter"),
    ("My choice: d.", "D", "no tag, letter"),
    ("C", "C", "no tag, letter"),
    ("(C)", "C", "no tag, letter"),
    ("C) put the item from backpack A into the basket with label 1", "C", "no tag, letter and text"),
    ("pick up the item with label 3", "A", "no tag, text"),
    ("I will pick up the item with label 3.", "A", "no tag, mention"),
    ("Let me see. I don't choose A. I choose B.", "B", "no tag, declared"),
    ("Rather than choose A, I pick C.", "C", "no tag, declared"),
    ("The apple lies near the BLUE key, so: B", "B", "no tag, declared"),
    ("Option C seems to be right here.", "C", "no tag, declared"),
    ("Slots A and B are full, hence D.", "D", "no tag, declared"),
    ("Looking at it, the pig comes first.\n\nB", "B", "no tag, declared"),
    # --- tags that are broken, repeated or within the reasoning
    ("<answer>A</answer> Wait, that is wrong. <answer>B</answer>", "B", "tag, letter"),
    ("The form is <answer></answer>. <answer>D</answer>", "D", "tag, letter"),
    ("<answer>D</answer> <answer></answer>", "D", "tag, letter"),
    ("<answer>C", "C", "open tag, letter"),
    ("<answer>C<answer>", "C", "tag, letter"),
    ("The pig belongs there.\nC</answer>", "C", "closing tag, letter"),
    # --- lists, of which the paper takes the first
    ("<answer>A, B</answer>", "A", "tag, list"),
    ("<answer>B, then C</answer>", "B", "tag, list"),
    ("<answer>B C</answer>", "B", "tag, list"),
    ("<answer>B\nC</answer>", "B", "tag, list"),
    ("<answer>1. D\n2. C</answer>", "D", "tag, list"),
    ("<answer>(C), (A) and (D)</answer>", "C", "tag, list"),
    ("<answer>C -> A -> D</answer>", "C", "tag, list"),
    ("<answer>B) pick up the item with label 0\nA) pick up the item with label 3</answer>", "B", "tag, list"),
    ("B, then C", "B", "no tag, list"),
    ("I choose B and then C.", "B", "no tag, declared"),
    # --- the last of several choices counts, but not one for later
    ("The answer is A. Or no, the answer is B.", "B", "no tag, declared"),
    ("Actually, C is better. Final answer: C", "C", "no tag, declared"),
    ("use: pick up the item with label 3. Then pick up the item with label 0.", "A", "no tag, declared"),
    # --- what is rejected is not chosen
    ("The answer isn't A; it's B", "B", "no tag, declared"),
    ("<answer>not A but B</answer>", "B", "tag, declared"),
    ("<answer>Not A, B or C</answer>", "D", "tag, words, left over"),
    ("Option A can't work, so option B.", "B", "no tag, declared"),
    ("A and B are wrong, C is right.", "C", "no tag, declared"),
    ("Should I choose A? No, B.", "B", "no tag, declared"),
    ("If I choose A, the door stays shut. I choose B.", "B", "no tag, declared"),
    ("{'answer':'B','reason':'A is wrong'}", "B", "field, letter"),
]

UNREAD = [
    ("", "no answer"),
    ("   \n", "no answer"),
    ("<answer></answer>", "no answer"),
    ("<answer>letter</answer>", "no answer"),
    ("<answer>your choice</answer>", "no answer"),
    ("I'm sorry, but I can't see the image.", "no answer"),
    ("As an AI, I cannot play games.", "no answer"),
    ("I choose to wait and see what happens.", "no answer"),
    ("A good idea would be to look around first.", "no answer"),
    ("The BLUE key opens the RED door.", "no answer"),
    ("The item in backpack B should go there.", "no answer"),
    ("None of the above.", "no answer"),
    ("<answer>3</answer>", "no answer"),
    ("<answer>pick up the item with label 7</answer>", "no answer"),
    ("<answer>not A</answer>", "no answer"),
    ("<answer>I would never choose B</answer>", "no answer"),
    ("It is not B.", "no answer"),
    ("Option B is wrong.", "no answer"),
    ('The letter "B" does not help.', "no answer"),
    ("Neither A nor B", "no answer"),
    ("I don't think B is right.", "no answer"),
    ("I don't know whether B is right", "no answer"),
    ("I will not pick up the item with label 3.", "no answer"),
    ("Vitamin C is what oranges hold.", "no answer"),
    ("Oranges hold vitamin C.", "no answer"),
    ("Is the answer B? I cannot tell.", "no answer"),
    ("Step A: look at the picture.", "no answer"),
    ("<answer>A or B</answer>", "two answers"),
    ("<answer>A, B or C</answer>", "two answers"),
    ("<answer>A) pick up the item with label 0</answer>", "two answers"),
    ("You could choose A or C.", "two answers"),
    ("<answer>I choose C: pick up the item with label 3</answer>", "two answers"),
    ("\n".join(f"{letter}) {text}" for letter, text in zip(LETTERS, CL, strict=False)), "no answer"),
    ("pick up the item with label 3 or pick up the item with label 0", "two answers"),
    ("<answer>E</answer>", "beyond the list"),
    ("<answer>Z)</answer>", "beyond the list"),
    ("I choose action K", "beyond the list"),
    ("I", "beyond the list"),
    ("Let me think about this for a long time. " * 10 + "Slot 2 holds a thing, and B is near.", "no answer"),
]


@pytest.mark.parametrize(("reply", "letter", "rule"), READ, ids=[reply[:50] for reply, *_ in READ])
def test_a_reply_is_read_as_a_person_would(reply, letter, rule):
    found = decode(reply, CL)
    assert (found.index, found.rule) == (LETTERS.index(letter), rule)


@pytest.mark.parametrize(("reply", "rule"), UNREAD, ids=[reply[:50] for reply, _ in UNREAD])
def test_what_names_no_single_action_is_not_read(reply, rule):
    found = decode(reply, CL)
    assert (found.index, found.rule) == (None, rule)


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


@pytest.mark.parametrize(("reply", "letter"), LONG, ids=[reply for reply, _ in LONG])
def test_the_pronoun_and_positions_are_no_letters_however_long_the_list(reply, letter):
    assert decode(reply, SO).index == (None if letter is None else LETTERS.index(letter))


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
    "Best action: {} - go",
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
    "action {} moves me nearer",
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
    "<answer>{}) pick up 0</answer>",
    "<answer>{}) because the basket is green</answer>",
    "<answer>Letter {}</answer>",
    "<answer>Action: {}</answer>",
    "<answer>The answer is {}.</answer>",
    "<answer>the best option is ({})</answer>",
    "<answer>Option {} is best</answer>",
    "<answer>{} is the best option</answer>",
    "<answer>I choose {} here</answer>",
    "<answer>action {} moves me nearer</answer>",
    "<answer>\nAction {} gets the key\n</answer>",
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
    read = {letter: decode(form.replace("{}", letter), SO).index for letter in LETTERS[: len(SO)]}
    assert read == {letter: index for index, letter in enumerate(LETTERS[: len(SO)])}


REJECTIONS = ["<answer>not {}</answer>", "It is not {}.", "Option {} is wrong.", "I don't know whether {} is right"]


@pytest.mark.parametrize("form", REJECTIONS)
def test_every_letter_can_be_rejected(form):
    assert {decode(form.replace("{}", letter), SO).index for letter in LETTERS[: len(SO)]} == {None}


@pytest.mark.parametrize(
    "reply",
    [
        "I have already collected 2 apple(s)",
        "<answer>I have already collected 2 apple(s)</answer>",
        "<answer>B) I have already collected 2 apple(s).</answer>",
        "The backpack is right, so: 'I have already collected 2 apple(s)'",
    ],
)
def test_a_declaration_is_read_although_it_begins_with_a_pronoun(reply):
    assert decode(reply, CO).index == 1


def test_the_bare_letters_of_constrained_decoding_are_read():
    for actions in (CL, SO, CO):
        for index in range(len(actions)):
            assert decode(LETTERS[index], actions).index == index


def test_every_action_is_read_by_letter_and_by_text_in_every_form():
    for actions in (CL, SO, CO):
        for index, text in enumerate(actions):
            for reply in (
                f"<answer>{LETTERS[index]}</answer>",
                f"<answer>{text}</answer>",
                f"{LETTERS[index]}) {text}",
                text,
            ):
                assert decode(reply, actions).index == index, reply


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


def test_the_table_is_large_enough():
    assert len(READ) + len(UNREAD) + len(LONG) >= 60
