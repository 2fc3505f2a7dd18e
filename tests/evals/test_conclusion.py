"""What a reply in prose concludes with, rule by rule."""

import pytest

from evals.replies.conclusion import concluded

BUTTONS = ("press the red button", "press the blue button", "press the yellow button", "do nothing")
SHAPES = ("circle", "square", "triangle", "star")
TREES = ("Oak", "Red Oak", "Maple", "Birch", "Leaf Shape", "Bark Texture", "Complete Ring Count")
PLACES = ("It is inside the hexagon", "It lies outside the hexagon", "There is no hexagon")


def read(text, options, stated="only it"):
    option = concluded(text, options, "ABCDEFG"[: len(options)], stated).option
    return None if option is None else options[option]


@pytest.mark.parametrize(
    ("text", "option"),
    [
        # decisions, in several languages
        ("I'd press the blue one.", BUTTONS[1]),
        ("So the yellow button.", BUTTONS[2]),
        ("Appuyer sur le bouton bleu.", BUTTONS[1]),
        ("J'appuie sur le bouton bleu.", BUTTONS[1]),
        ("Ich wähle den roten Knopf.", BUTTONS[0]),
        ("红色和蓝色都按过了，现在按黄色按钮。", BUTTONS[2]),
        # the last decision counts, if nothing is left open behind it
        ("I choose red. Actually, I choose blue.", BUTTONS[1]),
        ("I choose red. Actually, blue.", BUTTONS[1]),
        ("I choose red. Wait, is that so?", None),
        ("I choose red. However, that one is blocked.", None),
        ("I choose red. Or maybe blue.", None),
        ("I choose red. I choose blue. I choose red. I choose blue. I choose red.", None),
        ("yellow? yellow. yes", BUTTONS[2]),
        # what is negated, supposed, past or only near is not chosen
        ("I choose blue, not red.", BUTTONS[1]),
        ("I do not choose red.", None),
        ("I would press red if it were lit.", None),
        ("I was going to choose red.", None),
        ("I should have pressed red.", None),
        ("I choose the button next to the red one.", None),
        ("I think the red button is a trap.", None),
        ("The red button is broken.", None),
        ("Red or blue.", None),
        ("red, blue, yellow", None),
        # what is left over
        ("Not red. Not blue. I will not do nothing either.", BUTTONS[2]),
        ("Not red. Not blue.", None),
        ("Not red, blue or yellow.", BUTTONS[3]),
        # in order
        ("First press red, then blue.", BUTTONS[0]),
        ("Press red, then blue.", None),
        ("Press red. Afterwards press blue.", None),
        ("I choose red, I choose blue.", None),
        ("I choose red not red.", None),
        ("The yellow one it is.", BUTTONS[2]),
        # a conclusion that points elsewhere
        ("I choose red. So the last one is what I'd pick.", None),
    ],
)
def test_actions(text, option):
    assert read(text, BUTTONS) == option


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("The missing shape is a star.", "star"),
        ("C'est une étoile.", "star"),
        ("I see a circle in the first panel.", None),
        ("There is a star somewhere.", None),
        ("The circle is small.", None),
        ("It isn't a star, a circle or a square.", "triangle"),
        ("Option A says one thing, option B another.", None),
    ],
)
def test_shapes(text, option):
    assert read(text, SHAPES, stated="anything") == option


def test_a_statement_answers_a_question_but_chooses_no_action():
    assert read("Therefore... the dot lies outside the hexagon.", PLACES, stated="anything") == PLACES[1]
    assert read("Well, the dot lies outside the hexagon.", PLACES) is None


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("I predict maple.", "Maple"),
        ("I predict mapple.", "Maple"),
        ("I predict oak.", "Oak"),
        ("I predict the red oak.", "Red Oak"),
        ("I predict the ring count.", "Complete Ring Count"),
        ("I predict CRC.", "Complete Ring Count"),
        ("It's an oak, but the Oak is excluded.", None),
        ("Das ist der Ahorn (Maple).", "Maple"),
        ("The next test will tell Maple from Birch.", None),
        ("I ruled out the oak after the first test, the maple too.", None),
        ("Maple is still possible.", None),
        ("Candidates: Maple", None),
        ("The leaf is red.", None),
    ],
)
def test_names(text, option):
    assert read(text, TREES) == option


SHIPS = (
    "Trireme",
    "Longship",
    "Container Ship",
    "LNG Carrier",
    "Hull Material",
    "Cargo Temperature",
    "Note in the Log",
)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("The ship is a **Trireme**.", "Trireme"),
        ("The ship is the container ship.", "Container Ship"),
        ("The ship is the carrier.", "LNG Carrier"),
        ("So, the ship is the Longship.", "Longship"),
        ("After these results, the ship can only be a Longship.", "Longship"),
        ("The ship has to be a Longship.", "Longship"),
        ("The most useful test at this point is Hull Material.", "Hull Material"),
        ("The ship described by the log is a Trireme.", "Trireme"),
        ("The ship is the Trireme, because the Longship was excluded by its hull.", "Trireme"),
        ("因此，这只船是 Trireme。", "Trireme"),
        ("The ship is LNG.", None),
        ("The ship is a Trireme when the hull is of wood.", None),
        ("The hull is a Trireme.", None),
        ("The ship is a Trireme or so they say.", None),
        ("The ship of the neighbors is a Trireme.", None),
        ("The ship built by the neighbors of the other side is a Trireme.", None),
        ("The ship is a Trireme model.", None),
        ("In winter, the ship is the Trireme.", None),
        ("The ship is a Trireme. Not a Trireme.", None),
        ("The ship is a Trireme. However, the log says more.", None),
        ("Nothing is noted, which ruled out what remained.", None),
    ],
)
def test_a_sentence_names_what_is_looked_for(text, option):
    assert read(text, SHIPS, stated="names") == option


def test_a_name_of_what_is_seen_chooses_no_action():
    assert read("The ship is a Trireme.", SHIPS) is None


@pytest.mark.parametrize(
    ("text", "options", "option"),
    [
        ("The sizes differ: B", ("yes", "no"), "no"),
        ("Vitamin: B", ("yes", "no"), None),
        ("I choose option 3.", ("1", "2", "3"), "3"),
        ("I choose option 3.", ("2", "3", "4"), None),
        ("There are 3 objects in the first panel.", ("2", "3", "4"), None),
        ("The triangle lies in the center.", ("bottom-right", "center", "top-left"), "center"),
        ("The sizes do not differ: B", ("yes", "no"), None),
        ("面板中一共有4个图形，所以答案是B。", ("4", "5", "6"), "5"),
        ("I see two squares and a star. So, three objects in total.", ("2", "3", "4"), "3"),
        ("More edges. The circle comes last, so it counts as most.", ("fewer edges", "more edges"), "more edges"),
        ("The triangle is located in the center of the panel.", ("left", "center", "it is not in the panel"), "center"),
    ],
)
def test_what_reasons_come_to(text, options, option):
    assert read(text, options, stated="anything") == option


def test_a_word_that_any_sentence_may_have_is_no_misspelled_name():
    checks = ("Butter Check", "Paint Check")
    assert read("So it is better to run something.", checks) is None
    assert read("I run the buttr check.", checks) == "Butter Check"


def test_a_third_of_a_long_name_names_it():
    tests = ("Adding Silver Nitrate and Nitric Acid", "Flame Test", "Smell")
    assert read("I choose silver nitrate.", tests) == tests[0]
    assert read("I choose silver.", tests) is None


def test_an_ambiguous_name_is_narrowed_by_what_is_rejected():
    assert read("The eagle it is. Not the Golden Eagle.", ("Golden Eagle", "Bald Eagle", "Kite")) == "Bald Eagle"


def test_a_passive_that_urges_names_an_action():
    actions = ("place the cup at grid VI", "place the cup at grid VII")
    assert read("The cup should be placed at grid VII, west of it.", actions) == actions[1]
    assert read("The cup was placed at grid VII.", actions) is None


def test_a_part_of_a_name_that_another_name_has_too_names_neither():
    assert read("I choose dengue.", ("Dengue Fever", "Typhoid Fever")) == "Dengue Fever"
    assert read("I choose dengue.", ("Dengue Fever", "Dengue Antigen Test")) is None
    assert read("I choose fever.", ("Dengue Fever", "Malaria")) is None


def test_numbers_name_an_option_with_their_noun_only():
    doors = ("go through door 1", "go through door 2", "go through door 3")
    assert read("I choose door 2.", doors) == doors[1]
    assert read("Doors 1 and 3 are blue.", doors) is None
    assert read("Doors 1 and 2 are excluded.", doors) == doors[2]
    assert read("I choose option 4.", ("4", "3", "2", "1")) is None


def test_letters_of_other_things_are_no_labels():
    pieces = ("place piece A", "place piece B", "place piece C")
    assert read("Pieces A and B are wrong.", pieces) == "place piece C"
    assert read("I choose piece A, B is wrong.", pieces) == "place piece A"
    assert read("I choose pieces A and B.", pieces) is None
    assert read("I choose piece C", pieces[::-1]) == "place piece C"
    assert read("vitamin B", SHAPES) is None or read("vitamin B", SHAPES) == "square"
