"""Replies that choose nothing: they describe, compare, plan, suppose or break off. None is read as a choice."""

import pytest

from evals.suites.kidgym.decode import decode as read_action
from evals.suites.kumo.decode import decode as read_name
from evals.suites.multistar.read_answer import read_answer

BIRDS = ("Golden Eagle", "Bald Eagle", "Red Kite", "Northern Harrier", "Eurasian Goshawk")
BIRD_TESTS = ("Tail Shape", "Wing Tips", "Color of the Head", "Nest Site")
SHIPS = ("Trireme", "Longship", "Caravel", "Container Ship")
SHIP_TESTS = ("Hull Material", "Mast Count", "Oar Ports", "Note in the Log")


@pytest.mark.parametrize(
    "reply",
    [
        "Both birds are raptors.",
        "The bird is large.",
        "The bird is red.",
        "The head is golden.",
        "The bird is not the Red Kite.",
        "The bird is the Red Kite or the Golden Eagle.",
        "The bird is either a kite or a harrier.",
        "The bird is an eagle.",
        "The bird is like the Red Kite.",
        "The bird is bigger than a Red Kite.",
        "The bird is probably no Red Kite.",
        "Is the bird the Red Kite?",
        "The bird is the Red Kite if the tail is forked.",
        "If the tail is forked, the bird is the Red Kite.",
        "Assuming a forked tail, the bird is the Red Kite.",
        "In winter, the bird is the Red Kite.",
        "For most people, the bird is the Red Kite.",
        "Suppose the bird is the Red Kite.",
        "It is possible that the bird is the Red Kite.",
        "Some say the bird is the Red Kite.",
        "The book says the bird is the Red Kite.",
        "The alternative is the Red Kite.",
        "The opposite of the bird is the Red Kite.",
        "The first candidate is the Red Kite.",
        "The only other candidate is the Red Kite.",
        "The least likely bird is the Red Kite.",
        "The largest bird is the Golden Eagle.",
        "The most common bird is the Red Kite.",
        "The exception is the Red Kite.",
        "The bird is the Red Kite, but I would check the tail first.",
        "The bird is the Red Kite. However, the tail does not fit.",
        "The bird is the Red Kite. I would look at the Tail Shape.",
        "The bird is the Red Kite. The bird is the Golden Eagle.",
        "The bird is the Red Kite and",
        "The bird is the Red",
        "The bird was the Red Kite in the last game.",
        "The color of the head is golden.",
        "A Red Kite has a forked tail.",
        "The Red Kite has a forked tail and the Golden Eagle has not.",
        "The Tail Shape was forked.",
        "The prey is the Red Kite.",
        "The favorite is the Red Kite.",
        "The only bird left out is the Red Kite.",
        "The only bird eliminated is the Red Kite.",
        "The clue is the Nest Site.",
        "The most useful clue is the Nest Site.",
        "The bird is here with the Red Kite.",
    ],
)
def test_names_that_are_only_spoken_of_are_not_read(reply):
    assert read_name(reply, BIRD_TESTS, BIRDS).name is None


@pytest.mark.parametrize(
    "reply",
    [
        "I would first look at the hull.",
        "The hull is of wood, which ruled out what remained.",
        "It is worth noting what remained.",
        "There is nothing noted so far, so I cannot choose.",
        "The ships are all old, so the log would help.",
        "Let me count",
        "The ship was",
        "The last test was Hull Material.",
        "The problem is the Mast Count.",
        "The question is Hull Material?",
    ],
)
def test_plans_and_words_that_only_look_like_names_are_not_read(reply):
    assert read_name(reply, SHIP_TESTS, SHIPS).name is None


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("The circle is small.", ("more objects", "fewer objects", "the same number of objects")),
        ("The circle is small.", ("yes", "no")),
        ("Piece: B", ("circle B", "circle C", "circle A")),
        ("The circle is", ("circle", "square", "star")),
        ("The circle and the", ("circle", "square", "star")),
        ("Not sure about the sizes: B?", ("yes", "no")),
        ("The candidates differ: B or C", ("circle", "square", "star")),
        ("So, three objects on the left and four on the right", ("2", "3", "4")),
        ("So, three circles and two squares.", ("3", "4", "5")),
        ("I can see three", ("2", "3", "4", "three of four")),
        ("这个面板中有图形", ("2", "3", "4")),
        ("选A还是选B呢？", ("2", "3", "4")),
        ("不能选A，也不能选B。", ("2", "3", "4", "5")),
        ("图形在面板中", ("left", "center", "it is not in this panel")),
        ("There is a panel.", ("left", "center", "it is not in this panel")),
        ("The number of edges matters.", ("more edges", "fewer edges", "the same number of edges")),
        ("More edges or fewer edges.", ("more edges", "fewer edges", "the same number of edges")),
        ("More edges? Fewer edges?", ("more edges", "fewer edges", "the same number of edges")),
    ],
)
def test_descriptions_answer_no_question(reply, options):
    assert read_answer(reply, "ABCD"[: len(options)], options).option is None


def test_numbers_of_things_choose_no_panel():
    panels = tuple("12345678")
    for reply in ("第2个图形是圆形", "有5个", "第3行有4个", "第1个，第2个", "5个"):
        assert read_answer(reply, panels, panels).option is None, reply


@pytest.mark.parametrize(
    "reply",
    [
        "The cup was placed at grid VII.",
        "The cup should not be placed at grid VII.",
        "Should the cup be placed at grid VII?",
        "The cup should be placed at grid VII or VIII.",
        "The cup should be placed at a grid.",
        "The table is at grid VII.",
        "The cup should be placed at",
        "If it rains, the cup should be placed at grid VII.",
        "The cup is at grid VI and the table is at grid VII.",
    ],
)
def test_where_things_are_chooses_no_action(reply):
    actions = [f"place the cup from backpack A at grid {number}" for number in ("VI", "VII", "VIII")]
    assert read_action(reply, actions).option is None
