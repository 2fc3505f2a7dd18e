"""Replies that name objects which are not in the picture."""

import pytest

from envs.raven import generate, load
from evals.suites.multistar import MultiStarSuite
from evals.suites.multistar.hallucination import absent, shapes_shown, shapes_told
from evals.suites.multistar.questions import chain_questions
from evals.suites.multistar.questions.scene import scene
from evals.suites.multistar.questions.singles import SHAPES
from evals.types import Reply
from tests.evals.suites.multistar.multistar_fakes import played, row_of, tables_of


@pytest.mark.parametrize(
    ("reply", "shapes"),
    [
        ("Two triangles at the top, a small black square below.\nC", ["triangle", "square"]),
        ("The one left completes the matrix: it has a star. Panel 6 has two circles.", []),
        ("The left part contains a star. It is a star.", ["star"]),
        ("There are 3 hexagons; one circle.", ["hexagon", "circle"]),
        ("The circle is on the left.", []),
        ("There is no square. It isn't a square. There isn\u2019t a square.", []),
        ("It would be a square. Is it a square? Option B says a square.", []),
        *(
            (f"{word} There is a square.", [])
            for word in ("Wait,", "Actually.", "Again:", "At first.", "Hmm.", "Sorry!")
        ),
        *((f"{word} There is a square.", []) for word in ("On closer look.", "A correction.", "My mistake.")),
        ("Awaiting. There is a square against a wall.", ["square"]),
        ("The objects form a circle. They are in a square grid. There is a square panel, and a triangle of dots.", []),
        ("A hexagon has six sides.", []),
        *(
            (reply, [])
            for reply in (
                "The panel is a square divided into four quadrants.",
                "I see a square, divided into a 2x2 layout, with objects in it.",
                "The image shows a large square. Inside it are four objects.",
                "A square that contains some objects. A square with objects in it.",
                "The outer border is a black square.",
                "The image has a square outline. A white square background.",
                "It is a triangle-free picture.",
            )
        ),
        ("The object is a square. It is black.", ["square"]),
        ("A square with a dark color, and a star inside.", ["square", "star"]),
        ("The panel is a star. I see a circle, divided in two.", ["star", "circle"]),
        ("SQUARES", []),
    ],
)
def test_only_what_is_plainly_said_to_be_seen_counts(reply, shapes):
    assert shapes_told(reply) == shapes


TELL_NOTHING = """
no not none neither nor without never missing absent lack lacks instead rather if would could might may maybe perhaps should
must suppose supposes assume assumes say says ask asks question option options choice choices choose answer answers candidate
candidates statement statements rule rules order edge edges sides corners tips vertices or whether which unless
except like expect expected form forms forming arranged need needs needed between from become becomes turn turns than same
complete completes isn't isn\u2019t can't
"""


def test_sentences_that_deny_weigh_or_speak_of_the_task_tell_nothing():
    plain = [word for word in TELL_NOTHING.split() if shapes_told(f"There {word} is a star. One circle.") != ["circle"]]
    parts = ("has to hold", "have to hold", "panel 3", "panel #3", "panels 3")
    assert not plain and all(shapes_told(f"There {each} a star. One circle.") == ["circle"] for each in parts)
    for word in ("note", "iffy", "orb", "fromage", "panel", "has", "formal", "cant", "side", "corner", "tip"):
        assert shapes_told(f"There {word} is a star.") == ["star"], word
    assert shapes_told("Is there a star? There is a circle. A star!") == ["circle", "star"]


def test_amounts_looks_and_shapes_are_those_that_pictures_have_and_some_that_none_has():
    amounts = [
        "a",
        "an",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "several",
        "some",
        "1",
        "9",
    ]
    looks = (
        "small large big tiny medium huge smaller larger black white gray grey dark light filled solid empty outlined"
    )
    shapes = [*SHAPES, "star", "heart", "crescent", "heptagon", "octagon", "trapezoid", "parallelogram"]
    assert all(shapes_told(f"I see {each} star") == ["star"] for each in amounts)
    assert all(
        shapes_told(f"I see a {each} star") == ["star"]
        for each in (*looks.split(), "shaded", "big, black", "dark-gray")
    )
    assert all(shapes_told(f"I see two {each}s and a {each}") == [each] for each in shapes)
    for told in ("the star", "0 stars", "a red star", "stars", "a starry sky", "ten stars", "a rectangle"):
        assert shapes_told(f"I see {told}") == [], told
    others = "shape panel grid box frame cell matrix border pattern arrangement area region part of"
    assert all(
        shapes_told(f"I see a star {each}") == shapes_told(f"I see a star-{each}") == [] for each in others.split()
    )


def test_the_shapes_of_the_panels_that_are_shown_are_those_of_the_scene():
    problem = generate("distribute_four", 3)
    for question in chain_questions(problem, 0):
        picture = question.picture
        if picture.arrangement == "panels":
            objects = [item for panel in picture.panels for item in scene(load(picture.source))[panel]]
            assert shapes_shown(question) == {item.shape_name for item in objects}
    candidates = [component for panel in problem.candidates for component in panel.components]
    final = chain_questions(problem, 0)[-1]
    assert {entity.type for component in candidates for entity in component.entities} <= {
        1 + ("triangle", "square", "pentagon", "hexagon", "circle").index(shape) for shape in shapes_shown(final)
    }


def shapes_of(panels):
    return {item.shape_name for panel in panels for item in panel}


def test_the_whole_puzzle_shows_its_candidates_too():
    only_in_candidates = set()
    for seed in range(12):
        problem = generate("center_single", seed)
        context, final = scene(problem), chain_questions(problem, 0)[-1]
        shown = shapes_of(context) | {
            SHAPES[entity.type - 1]
            for panel in problem.candidates
            for component in panel.components
            for entity in component.entities
        }
        assert shapes_shown(final) == shown
        only_in_candidates |= shown - shapes_of(context)
    assert only_in_candidates


def test_shapes_that_the_question_names_are_not_decided():
    number, *_ = chain_questions(generate("center_single", 1), 0)
    missing = sorted({"triangle", "square", "pentagon"} - shapes_shown(number))
    shown = min(shapes_shown(number))
    assert absent(f"There is a {missing[0]} here. There is a {shown}. There are 3 stars.", number) == [
        missing[0],
        "star",
    ]
    named = next(
        question for question in chain_questions(generate("center_single", 1), 0) if "square" in question.options
    )
    assert absent("There is a square.", named) == []


class Seer:
    """Says that it sees a star wherever it is asked on a single panel, and answers the first option."""

    async def reply(self, turn):
        return Reply(f"There is a star.\n{turn.options[0]}")


def test_wrong_answers_that_name_what_is_not_there_are_hallucinations():
    settings = {"configurations": ["center_single"], "attributes": ["number"], "puzzles": 2, "options": "uniform"}
    suite, written = (MultiStarSuite(priors=["none"], reply=reply, **settings) for reply in ("described", "text"))
    records = played(suite, Seer())
    system, user = records[0].turns[0].turn.chat
    assert "nothing else" not in system.parts[0] and "First say in a sentence or two" in user.parts[1]
    table = tables_of(suite, records)["multistar_errors"]
    row = row_of(table, stage="1P")
    assert row["wrong"] == row["hallucination"] > 0 and row["perception"] == 0
    assert {episode.id for episode in written.plan()}.isdisjoint(episode.id for episode in suite.plan())
