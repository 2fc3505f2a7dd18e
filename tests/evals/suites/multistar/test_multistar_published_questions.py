"""The authors' questions: read as their generator writes them, doubted where known to be wrong."""

import asyncio
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from cluster.cli import main
from envs.file_picture import FilePicture
from evals.players import OraclePlayer
from evals.reference import published
from evals.suite import play_episode
from evals.suites.multistar.published_questions.doubts import Asked, doubts_of
from evals.suites.multistar.published_questions.kinds import attribute_of, first_panel, part_of
from evals.suites.multistar.published_questions.reader import _first_candidate, _subject
from evals.suites.multistar.published_questions.store import (
    Stored,
    folder_digest,
    published_puzzle,
    read_questions,
    write_questions,
)
from evals.suites.multistar.puzzles import asked_by, fingerprint, questions_of
from evals.suites.multistar.shortcuts import most_alike
from evals.suites.multistar.suite import DEFAULT_PUZZLES, MultiStarSuite
from evals.testing import check_suite
from tests.evals.suites.multistar.multistar_fakes import Refusing, rows_of, tables_of
from tests.evals.suites.multistar.multistar_fakes import played as played_by
from tests.golden import check_golden


def thing(position="center", shape="square", size=0.5, color=112):
    return {"position": position, "shape": shape, "size": size, "color": color}


def rules(*named):
    return [{"id": "0", "rules": [{"name": name, "attr": attr, "value": value} for name, attr, value in named]}]


PANELS = [[thing(shape=shape)] for shape in ("triangle", "square", "pentagon") * 3][:8]
CONFIG = "center_single"


def direct(text, choices, answer, template="basic.json", image="0/panel_1.png", config=CONFIG):
    return {
        "filename": "RAVEN_0_train.xml",
        "question": text,
        "answer": answer,
        "template_filename": template,
        "choices": [f"{letter}: {choice}" for letter, choice in zip("ABCDEFGH", choices, strict=False)],
        "config": config,
        "image_filename": image,
    }


DIRECT = [
    direct("Tell me the count.", ["3", "1", "4", "9"], "B"),
    direct("Name the shape at center.", ["Square", "Triangle", "Circle", "Hexagon"], "B"),
    direct("Where is the triangle?", ["Center", "Top-Left", "Not there."], "A"),
    direct("Edges of left panel against right panel?", ["More", "Fewer", "The same", "Not comparable"], "B",
           "advanced_two_panels.json", "0/panel_combination_1_2.png"),
    direct("The rule of shape?", ["It is the shape that stays as it is.", "The edges of the shape go up by one."], "B",
           "reasoning_first.json", "0/row_1.png"),
]  # fmt: skip


def chain_entries(config=CONFIG, folder="./dataset/center_single/0"):
    """A whole chain of the one-part configuration."""
    entries = []

    def add(stage, attribute, text, choices, key, image):
        entries.append(
            {
                "question": text,
                "choices": [f"{letter}: {choice}" for letter, choice in zip("ABCD", choices, strict=False)],
                "correct_answer": key,
                "config": config,
                "image_path": f"{folder}/{image}",
                "stage": stage,
                "attribute": attribute,
            }
        )

    shapes = ("triangle", "square", "pentagon")
    kinds = {
        "number": lambda k: ("How many?", ["2", "1"], "B"),
        "position": lambda k: (f"Where is the {shapes[k - 1]}?", ["center", "top-left"], "A"),
        "shape": lambda k: ("Which shape is at center?", [*shapes], "ABC"[k - 1]),
        "color": lambda k: ("One color?", ["Yes", "No", "Only one object"], "C"),
        "size": lambda k: ("One size?", ["Yes", "No", "Only one object"], "C"),
    }
    two = {
        "number": (["More", "The same", "Fewer"], "B"),
        "position": (["Yes", "No"], "A"),
        "shape": (["More", "The same", "Fewer", "Not comparable"], "C"),
        "color": (["Darker", "The same", "Brighter", "Not comparable"], "B"),
        "size": (["Smaller", "The same", "Larger", "Not comparable"], "B"),
    }
    for attribute in kinds:
        for k in (1, 2, 3):
            add(f"single_panel_{k}", attribute, *kinds[attribute](k), f"panel_{k}.png")
        for a, b in ((1, 2), (2, 3)):
            text = f"Is the {attribute} in the left panel that of the right panel?"
            add(f"two_panels_{a}_{b}", attribute, text, *two[attribute], f"panel_combination_{a}_{b}.png")
        for stage, image in (("one_row", "row_1.png"), ("two_rows", "first_two_rows.png")):
            add(stage, attribute, f"Rule of {attribute}?", [f"The {attribute} stays.", "None at all."], "A", image)
    entries.append(
        {
            "question": "Which panel is missing?",
            "correct_answer": 2,
            "config": config,
            "image_path": f"{folder}/combined.png",
            "stage": "final",
        }
    )
    return entries


def picture(path, value=0, size=(20, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0]), value, np.uint8)).save(path)


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "checkout"
    home = root / "dataset" / CONFIG / "0"
    names = [*(f"panel_{k}" for k in range(1, 9)), *(f"panel_combination_{a}" for a in ("1_2", "2_3"))]
    for number, name in enumerate([*names, "row_1", "first_two_rows", "combined"]):
        picture(home / f"{name}.png", number)
    write_direct(root, DIRECT)
    write_chain(root, [chain_entries()])
    return root


def write_direct(root, questions, panels=PANELS, named=(("Progression", "Type", "1"),), number=0):
    path = root / "dataset" / CONFIG / str(number) / "question.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"question_num": 1, "rules": rules(*named), "panels": panels, "questions": questions}))
    return path


def write_chain(root, chains):
    puzzles = [
        {
            "file_path": "./dataset/center_single/0/question.json",
            "questions": entries,
            "original_filename": "RAVEN_0.xml",
        }
        for entries in chains
    ]
    (root / "logical_chain_questions.json").write_text(json.dumps(puzzles))


def imported(checkout, folder):
    for cached in (read_questions, published_puzzle, folder_digest, fingerprint, questions_of):
        cached.cache_clear()
    with pytest.raises(SystemExit) as end:
        main(["multistar", "import", str(checkout), str(folder)])
    return end.value.code


def suite_of(folder, **settings):
    settings = {
        "configurations": [CONFIG],
        "wording": "published",
        "source": str(folder),
        "priors": ["none"],
        **settings,
    }
    return MultiStarSuite(**settings)


def played(suite):
    episodes = suite.plan()
    return [asyncio.run(play_episode(suite, episode, OraclePlayer())) for episode in episodes]


def test_what_an_import_says_and_writes_is_as_on_record(checkout, tmp_path, capsys):
    wrong = [*DIRECT, direct("Tell me the count.", ["3", "1", "4"], "A"), direct("Which one?", ["It", "That"], "C")]
    write_direct(checkout, wrong)
    write_direct(checkout, [direct("Where is the triangle?", ["Center", "Left"], "A", image="0/panel_4.png")], number=7)
    assert imported(checkout, tmp_path / "out") == 1
    said = capsys.readouterr()
    parts = ["# Standard error", said.err, "# Standard output", said.out]
    for path in sorted((tmp_path / "out").rglob("*.*")):
        if path.suffix != ".png":
            parts += [f"# {path.relative_to(tmp_path)}", path.read_text()]
    text = "\n".join(parts).replace(str(tmp_path), "TMP")
    check_golden("multistar_import", re.sub(r"\b[0-9a-f]{32}\b", "DIGEST", text))


def test_direct_questions_are_asked_in_their_words_with_their_pictures_and_keys(checkout, tmp_path, capsys):
    assert imported(checkout, tmp_path / "out") == 0
    records = played(suite_of(tmp_path / "out", subtask="direct"))
    assert [(one.episode.level, one.outcome.success) for one in records] == [
        (stage, True) for stage in ("1P-B", "1P-B", "1P-B", "2P", "1R")
    ]
    for entry, record in zip(DIRECT, records, strict=True):
        (turn,) = record.turns
        shown, text = turn.turn.chat[-1].parts
        assert isinstance(shown, FilePicture) and shown.size == (20, 10) and shown.render().shape == (10, 20, 3)
        assert entry["question"] in text and "\n".join(entry["choices"]) in text
        assert turn.reply.text == entry["answer"]
        with Image.open(checkout / "dataset" / CONFIG / entry["image_filename"]) as original:
            assert (shown.render()[:, :, 0] == np.asarray(original)).all()
    assert "imported 41 questions on 2 puzzles" in capsys.readouterr().out


def test_a_chain_is_asked_in_order_and_tells_earlier_answers_in_sentences(checkout, tmp_path):
    imported(checkout, tmp_path / "out")
    (record,) = played(suite_of(tmp_path / "out", priors=["truth"], sweep=False))
    assert record.outcome.success and record.outcome.extra["n_questions"] == 36
    texts = [turn.turn.chat[-1].parts[1] for turn in record.turns]
    row = next(text for text in texts if "Rule of shape?" in text)
    for sentence in (
        "In the left panel, the object in the center position is a triangle.",
        "The objects in the left panel have fewer edges than those in the middle panel.",
    ):
        assert sentence in row
    assert any("In the left panel, the triangle is in the center position." in text for text in texts)
    assert any("In the left panel there is only one object." in text for text in texts)
    final = record.outcome.extra["nodes"][-1]
    assert (final[5], final[6]) == (tuple("12345678"), 2)  # key 2 counts from 0: the third candidate


@pytest.mark.parametrize(("subtask", "count"), [("direct", 5), ("chain", 36)])
def test_questions_of_failed_episodes_count_as_wrong(checkout, tmp_path, subtask, count):
    imported(checkout, tmp_path / "out")
    suite = suite_of(tmp_path / "out", subtask=subtask)
    table = tables_of(suite, played_by(suite, Refusing(OraclePlayer(), lambda turn: True)))["multistar_stages"]
    assert sum(row["failed"] for row in rows_of(table)) == sum(row["questions"] for row in rows_of(table)) == count


def test_final_keys_are_shown_from_one_and_the_shift_is_said(checkout, tmp_path, capsys):
    imported(checkout, tmp_path / "out")
    assert "1 is added" in capsys.readouterr().err
    assert played(suite_of(tmp_path / "out"))[0].turns[-1].reply.text == "3"
    shifted = chain_entries()
    shifted[-1]["correct_answer"] = 8
    write_chain(checkout, [shifted])
    imported(checkout, tmp_path / "out")
    assert "1 is added" not in capsys.readouterr().err
    assert played(suite_of(tmp_path / "out"))[0].turns[-1].reply.text == "8"


def test_doubtful_keys_are_named_stored_and_left_out_of_scores_or_scored_as_asked(checkout, tmp_path, capsys):
    wrong = [*DIRECT[:3], direct("Edges of left panel against right panel?", ["More", "Fewer"], "A",
             "advanced_two_panels.json", "0/panel_combination_1_2.png")]  # fmt: skip
    write_direct(checkout, wrong)
    assert imported(checkout, tmp_path / "out") == 0
    assert "the panels say: fewer" in (tmp_path / "out" / "warnings.txt").read_text()
    assert "1 with doubtful keys" in capsys.readouterr().out
    for doubtful, counted in (("left_out", False), ("scored", True)):
        records = played(suite_of(tmp_path / "out", subtask="direct", doubtful=doubtful))
        assert [node[7] for one in records for node in one.outcome.extra["nodes"]] == [True, True, True, counted]
    ids = {suite_of(tmp_path / "out", subtask="direct", doubtful=how).plan()[3].id for how in ("left_out", "scored")}
    assert len(ids) == 2


def asked(stage, attribute, text, options, key, panels=(0,), part=None):
    return Asked(stage, attribute, part, text, tuple(options), key, tuple(panels))


NINE = [[thing("middle-left", "circle"), thing("top-center", "square"), thing("bottom-right", "square", 0.9, 28)]]
SPLIT = [
    [thing("top", "circle", color=0), thing("bottom", "square", color=140)],
    [thing("top", "circle", color=56), thing("bottom", "square", color=28)],
]
NESTED = [[thing("outer-part", "circle", 0.4, 255), thing("top-left of the inner part", "square", 0.9, 112),
           thing("top-right of the inner part", "square", 0.4, 28)]] * 6  # fmt: skip


def row(attribute, *values):
    return [[thing("center", "circle", **{"size": 0.4, "color": 255, attribute: value})] for value in values]


GRID = [[thing("middle-left", "circle"), thing("top-center", "triangle"), thing("bottom-center", "hexagon")]]
MIXED = [
    [thing("top", "circle", 0.4), thing("top", "square", 0.9)],
    [thing("top", "circle", 0.9)],
    [thing("top", "circle", 0.9)],
]
STILL = [[thing("top-left", "circle")]] * 3 + [[thing("top-right", "circle")]] * 3
MOVED = [[thing("top-left", "circle")]] * 5 + [[thing("top-right", "circle")]]
SUM, DIFFERENCE = "the sum of the levels", "the difference of the levels"
UP, DOWN = "gradually increases by a constant amount", "gradually decreases by a constant amount"
YES_NO = ["Yes", "No", "Only one object"]
QUESTIONS = [
    (asked("1R", "size", "rule?", ["up", "down"], 1, (0, 1, 2)), PANELS),
    (asked("2R", "shape", "rule?", ["up", "down"], 1, range(6)), PANELS),
    (asked("2R", "number", "rule?", ["up", "down"], 1, ()), PANELS),
    (asked("1R", "position", "?", ["it stays", "a union"], 0, (0, 1, 2)), PANELS),
    (asked("1R", "color", "?", ["it stays", "the sum"], 0, (0, 1, 2), "out"), NESTED),
    (asked("1R", "color", "?", ["it stays", "the sum"], 0, (0, 1, 2), "in"), NESTED),
    *(
        (asked("2P", attribute, text, options, 0, (0, 1), part), panels)
        for attribute, text, options, part, panels in (
            ("color", "left panel or right panel", ["Darker", "Brighter"], "bottom", SPLIT),
            ("color", "left panel or right panel", ["Darker", "Brighter"], "top", SPLIT),
            ("color", "right panel or left panel", ["Darker", "Brighter"], "bottom", SPLIT),
            ("number", "left panel", ["More", "Fewer", "Same"], None, MIXED),
            ("size", "left panel", ["Larger", "Smaller", "Not comparable"], None, MIXED),
            ("size", "right panel", ["Larger", "Smaller", "Same"], None, MIXED[1:]),
            ("shape", "left panel", ["More", "Fewer"], None, PANELS),
            ("position", "left panel", ["No", "Yes"], None, PANELS),
            ("position", "left panel", ["Yes", "No"], None, [*GRID, *NINE]),
        )
    ),
    *(
        (asked("1P-C", attribute, text, options, 0), panels)
        for attribute, text, options, panels in (
            ("size", "outer-part to top-left of the inner part", ["Smaller", "Larger"], NESTED),
            ("size", "top-right of the inner part to outer-part", ["Smaller", "Larger"], NESTED),
            ("size", "top-left of the inner part to top-right of the inner part", ["Smaller", "Larger"], NESTED),
            ("shape", "middle-left to top-center", ["More", "Fewer"], GRID),
            ("shape", "middle-left", ["More", "Fewer"], GRID),
            ("shape", "middle-left to center", ["More", "Fewer"], GRID),
            ("number", "same number of objects?", ["Yes", "No"], NINE),
            ("number", "middle-left to top-center", ["More", "Fewer"], NINE),
            ("size", "all?", ["Yes", "No"], NESTED),
            ("size", "all?", ["Yes", "No"], GRID),
            ("shape", "all?", ["Yes", "No"], GRID),
            *(
                ("position", text, ["Right and above", "Left"], panels)
                for text, panels in (
                    ("the circle to the pentagon", NINE),
                    ("the circle to the square", NINE),
                    *(
                        (f"the {one} to the {other}", GRID)
                        for one in ("circle", "hexagon")
                        for other in ("triangle", "circle")
                    ),
                    ("the triangle to the hexagon", GRID),
                    ("the circle to the square", [NESTED[0][:2]]),
                    ("the square to the circle", [NESTED[0][:2]]),
                    ("the circle to the square", [[thing("center", "circle"), thing("nowhere", "square")]]),
                )
            ),
        )
    ),
    *(
        (asked("1P", attribute, text, options, key, (0,), part), panels)
        for attribute, text, options, key, part, panels in (
            ("color", "all?", YES_NO, 0, "in", NESTED),
            ("color", "all?", YES_NO, 0, "out", NESTED),
            ("color", "all?", YES_NO[:2], 1, "out", NESTED),
            ("size", "all?", YES_NO, 0, None, [NESTED[0][1:2]]),
            ("size", "all?", YES_NO, 0, None, [[thing("outer-part", size=0.5), thing("left of the inner part")]]),
            ("size", "all?", YES_NO, 1, None, [[thing("left of the inner part"), thing("right of the inner part")]]),
            ("position", "the square?", ["top-center", "bottom-right"], 0, None, NINE),
            ("position", "the circle?", ["Outer-part", "The outer part"], 0, None, NESTED),
            ("position", "the square?", ["down", "bottom"], 1, "bottom", SPLIT),
            ("position", "the square?", ["down", "top"], 0, "bottom", SPLIT),
            ("position", "the pentagon?", ["down", "top"], 0, None, SPLIT),
            ("position", "where?", ["down", "top"], 0, None, SPLIT),
            ("number", "how many?", ["2", "3"], 0, None, NINE),
            ("number", "how many?", ["2", "3"], 0, "in", NESTED),
            ("shape", "at bottom-right?", ["Circle", "Square"], 1, None, NINE),
            ("shape", "at bottom-right?", ["Circle", "Square"], 0, None, NINE),
            ("shape", "at center?", ["Circle", "Square"], 0, None, NINE),
            ("shape", "which?", ["Circle", "Triangle"], 0, None, PANELS),
            ("shape", "which?", ["Circle", "Triangle"], 0, None, NINE),
        )
    ),
    # A color of x, 0, x is both the sum and the difference; sizes of 6, 4, 2 are a fall by two and the difference.
    *(
        (asked("1R" if len(panels) == 3 else "2R", attribute, "rule?", options, 0, range(len(panels))), panels)
        for attribute, options, panels in (
            ("color", [SUM, DIFFERENCE], row("color", 112, 255, 112)),
            ("color", [SUM, DIFFERENCE], row("color", 255, 112, 112)),
            ("color", [DIFFERENCE, "gradually brightens by a constant amount"], row("color", 168, 196, 224)),
            ("color", [SUM, "gradually darkens by a constant amount"], row("color", 224, 196, 168)),
            ("size", [DOWN, DIFFERENCE], row("size", 0.9, 0.7, 0.5)),
            ("size", [DIFFERENCE, UP], row("size", 0.9, 0.7, 0.5)),
            ("size", [DIFFERENCE, DOWN], row("size", 0.9, 0.7, 0.6)),
            ("size", [SUM, UP], row("size", 0.5, 0.5, 0.5)),
            ("size", [DIFFERENCE, SUM], row("size", 0.4, 0.5, 0.6)),
            ("size", [SUM, DIFFERENCE], row("size", 0.9, 0.7, 0.5) + row("size", 0.5, 0.4, 0.6)),
            ("size", [SUM, DIFFERENCE], MIXED),
            ("shape", [SUM, DIFFERENCE], row("size", 0.9, 0.7, 0.5)),
            ("position", ["they stay", "the union"], STILL),
            ("position", ["they stay", "the union"], MOVED),
            ("position", ["the union", "they stay"], STILL),
        )
    ),
    (asked("1P-B", "position", "the circle?", ["Center", "Left"], 0, ()), PANELS),
    (asked("1P-C", "size", "center to left", ["Larger", "Smaller"], 0, ()), PANELS),
    (asked("2P", "number", "left panel?", ["More", "Fewer"], 0, (0,)), PANELS),
    (asked("2P", "number", "left panel?", ["More", "Fewer"], 0, ()), PANELS),
    (asked("1R", "shape", "rule?", ["up", "down"], 0, (6, 7, 8)), PANELS),
]
STEPS = [("Progression", attribute, step) for attribute in ("Size", "Type", "Number") for step in ("2", "-2", "1")]
SUBJECTS = [
    *(("shape", "Which shape is it?", part) for part in (None, "in", "out", "bottom")),
    *(("shape", "What shape is at the left?", part) for part in (None, "left")),
    ("shape", "Which shape is at the bottom-right?", None),
    *(("shape", "Which shape is at the top-left of the inner part?", part) for part in ("in", None)),
    ("shape", "Which shape is at the inner part?", "in"),
    *(("position", f"Where is {what}?", None) for what in ("the square (not the circle)", "it")),
    ("number", "How many at the left?", "left"),
]
OPTIONS = [
    (["1", "2"], "?"),
    (["Circle", "Square"], "located at center"),
    *(
        (options, text)
        for options in (["More", "Fewer"], ["Fewer", "Same"])
        for text in ("edges of the shape", "objects")
    ),
    *((options, "?") for options in (["Bigger", "Smaller"], ["Lighter", "Darker"], ["Left and above", "Right"])),
    *(
        (["Yes", "No"], text)
        for text in ("the same size", "in one position", "one color", "one shape", "as many objects")
    ),
    (["Center", "Top-Left"], "the circle"),
    *(
        ([told, "No rule is to be found here."], "?")
        for told in ("The number of objects in it goes up.", "The edge number of the shape goes up.")
    ),
    (["It", "That"], "Which one?"),
]


def doubts(question, panels, of_rules=()):
    try:
        return doubts_of(question, panels, of_rules)
    except ValueError as error:
        return str(error)


def test_known_slips_of_the_generator_are_found_and_attributes_and_parts_told():
    parts = []
    for question, panels in QUESTIONS:
        parts.append(
            f"{question.stage} {question.attribute} {question.part} {question.text!r} {question.options} {question.key}"
        )
        parts.append(f"    {doubts(question, panels)}")
    for step in STEPS:
        of_step = [doubts(question, panels, rules(step)) for question, panels in QUESTIONS[:3]]
        parts.append(f"{step}: {of_step} {doubts(QUESTIONS[4][0], NESTED, rules(step))}")
    for attribute, text, part in SUBJECTS:
        told = [_subject(Asked(stage, attribute, part, text, ("a", "b"), 0, (0, 1)), part) for stage in ("1P", "2P")]
        parts.append(f"{attribute} {part} {text}: {told}")
    for options, text in OPTIONS:
        try:
            told = attribute_of(text, options)
        except ValueError as error:
            told = f"refused: {error}"
        parts.append(f"{options} {text}: {told}")
    sides = (("top", "bottom"), ("left", "right"), ("in", "out"))
    for text in ("the upper half", "no word", "the inner part", "the right panel of the bottom"):
        parts.append(f"{text}: {[part_of(text, both, number) for both in sides for number in range(3)]}")
    check_golden("multistar_doubts", "\n".join(parts))


def test_questions_about_panels_that_are_not_there_cost_no_others(checkout, tmp_path):
    place = direct("Where is the triangle?", ["Center", "Left"], "A", image="0/combined.png")
    write_direct(checkout, [place, DIRECT[0]], panels=PANELS[:2])
    assert imported(checkout, tmp_path / "out") == 1
    warnings = (tmp_path / "out" / "warnings.txt").read_text()
    assert "question.json, question 1: is about one panel" in warnings
    assert "puzzle 1, question 3: is about panel 3, where 2 are described" in warnings
    direct_ones = read_questions(str(tmp_path / "out"))["direct", CONFIG]
    assert [[question.text for question in puzzle] for puzzle in direct_ones] == [[DIRECT[0]["question"]]]


# --- what a folder may hold ------------------------------------------------------------------------------------------


def bad_file(checkout, name, content):
    path = checkout / "dataset" / CONFIG / name / "question.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def test_a_question_of_half_a_character_costs_itself_only(checkout, tmp_path, capsys):
    write_direct(
        checkout, [*DIRECT, direct("Which \ud800?", ["It", "That"], "A"), direct("Which?", ["\udfff", "That"], "A")]
    )
    assert imported(checkout, tmp_path / "all") == 1
    told = capsys.readouterr()
    assert "2 left out" in told.out and told.err.count("holds half a character") == 2


def test_files_of_others_are_not_written_over_nor_links_followed(checkout, tmp_path, capsys):
    for name in ("questions.jsonl", "warnings.txt"):
        mine = tmp_path / f"mine {name}"
        mine.mkdir()
        (mine / name).write_text("my own\n")
        assert imported(checkout, mine) == 2 and (mine / name).read_text() == "my own\n"
        assert f"its {name} was not written by this command" in capsys.readouterr().err
    for name in ("questions.jsonl", "warnings.txt", "pictures"):
        linked = tmp_path / f"linked {name}"
        linked.mkdir()
        (linked / name).symlink_to(tmp_path / "elsewhere")
        assert imported(checkout, linked) == 2 and not (tmp_path / "elsewhere").exists()
        assert "is a link" in capsys.readouterr().err
    assert [imported(checkout, tmp_path / "own") for _ in range(2)] == [0, 0], "an import may be made anew"


def test_one_bad_file_or_line_never_refuses_a_folder_and_each_is_named(checkout, tmp_path, capsys):
    outside = tmp_path / "secret.png"
    picture(outside)
    (checkout / "dataset" / "link.png").symlink_to(outside)
    picture(checkout / "dataset" / CONFIG / "0" / "huge.png", size=(9000, 2))
    (checkout / "dataset" / CONFIG / "0" / "text.png").write_text("no picture")
    bad_file(checkout, "1", b"\x00not json")
    bad_file(checkout, "2", b"[" * 2_000_000)
    bad_file(checkout, "3", b'{"questions": 7}')
    bad_file(checkout, "4", json.dumps({"questions": [{"config": "no_such"}]}).encode())
    linked = checkout / "dataset" / CONFIG / "5"
    linked.mkdir()
    (linked / "question.json").symlink_to(tmp_path / "elsewhere.json")
    (checkout / "dataset" / CONFIG / "6").mkdir()
    os.mkfifo(checkout / "dataset" / CONFIG / "6" / "question.json")
    good = DIRECT[0]
    write_direct(
        checkout,
        [
            good,
            {**good, "image_filename": "../../../../secret.png"},
            {**good, "image_filename": "../link.png"},
            {**good, "image_filename": "/etc/passwd"},
            {**good, "image_filename": "0/huge.png"},
            {**good, "image_filename": "0/text.png"},
            {**good, "image_filename": "0/absent.png"},
            {**good, "answer": "Z"},
            {**good, "answer": ["A"]},
            {**good, "choices": ["A: 1"]},
            {**good, "choices": "AB"},
            {**good, "question": ""},
            {**good, "template_filename": "\x1b[31mnew.json"},
            7,
            DIRECT[1],
        ],
    )
    assert imported(checkout, tmp_path / "out") == 1
    printed = capsys.readouterr()
    warnings = (tmp_path / "out" / "warnings.txt").read_text()
    assert "\x1b" not in printed.err + warnings
    direct_ones = read_questions(str(tmp_path / "out"))["direct", CONFIG]
    assert [[question.text for question in puzzle] for puzzle in direct_ones] == [
        [good["question"], DIRECT[1]["question"]]
    ]
    for number in range(2, 15):
        assert f"question {number}:" in warnings
    for named in (
        "1/question.json: is not JSON",
        "2/question.json: is nested deeper",
        "3/question.json: has no list of questions",
        "6/question.json: is not a regular file",
        "9000x2 pixels",
        "no PNG",
        "absent.png: there is no such file",
        "none of the choices' letters",
        "5/question.json: is a link",
    ):
        assert named in warnings, named
    assert warnings.count("lies outside of the checkout") == 3
    kept = {question.picture for puzzle in direct_ones for question in puzzle}
    assert {path.stem for path in (tmp_path / "out" / "pictures").iterdir()} >= kept and "19 left out" in printed.out


UP_DOWN = "up_center_single_down_center_single"
RULES_OF_PARTS = ["The color of it stays as it is.", "The colors of it are all different here."]
OF_PARTS = [
    *(direct(text, RULES_OF_PARTS, "A", template, f"3/{image}.png", UP_DOWN)
      for template, image, text in (
          ("reasoning_first.json", "row_1", "The rule?"),
          ("reasoning_first.json", "row_1", "Its rule?"),
          ("reasoning_first.json", "row_1", "The rule above?"),
          ("reasoning_first.json", "row_1", "The rule in the lower half?"),
          ("reasoning_second.json", "first_two_rows", "The rule?"),
      )),
    *(direct("Left panel or right panel?", options, "A", "advanced_two_panels.json", "3/panel_combination_1_2.png", UP_DOWN)
      for options in (["Darker", "Brighter"], ["Larger", "Smaller"], ["More", "Fewer"], ["Yes", "No"])),
    direct("The same size?", ["Yes", "No"], "B", "advanced_one_panel_2.json", "3/panel_1.png", UP_DOWN),
]  # fmt: skip
SCENES = [
    *({"panels": panels} for panels in ("x", ["x"], [[1]], [[{"position": "center"}]], [[thing(size="0.4")]])),
    *({"rules": of} for of in ("x", [1], [{"rules": 1}], [{"rules": [1]}], [{}])),
    *({"questions": of} for of in (7, [], [DIRECT[0], OF_PARTS[0]], [7, DIRECT[0]])),
    *({"questions": [{**DIRECT[0], "config": config}]} for config in (1, "no_such")),
]
"""What files of direct questions hold in place of what they should."""
ENTRIES = [
    *({"answer": answer} for answer in ("Z", "", ["A"], None)),
    *({"choices": of} for of in ("AB", ["A: 1"], ["A: 1", 2], ["A: 1", "1"], ["A: 1", "B: "], ["1", "A: 2"])),
    *({"choices": [str(n) for n in range(many)]} for many in (26, 27)),
    *({"question": text} for text in (" ", "Count? " + "x" * 9_993, "Count? " + "x" * 9_994, 7)),
    *({"template_filename": name} for name in ("\x1b[31mnew.json", None, "reasoning_second_3.json")),
    *(
        {"image_filename": name}
        for name in ("0/panel_9.png", "0/panel_0.png", "0/panel_combination_2_3.x.png", "/etc/passwd")
    ),
]
"""What entries of direct questions hold in place of what the first one does."""
FINALS = [{"correct_answer": key} for key in (0, 7, 8, 9, -1, "2", True)] + [
    {"question": ""},
    {"image_path": "absent.png"},
]
EDITS = [
    *({name: ...} for name in ("subtask", "node", "text", "picture", "options", "key", "configuration", "file")),
    *(
        {"stage": "3P"},
        {"attribute": "hue"},
        {"attribute": None},
        {"key": 9},
        {"key": -1},
        {"key": True},
        {"picture": "../x"},
    ),
    *(
        {"options": ["1", 2]},
        {"doubts": [1]},
        {"configuration": "4x4"},
        {"more": 1},
        {"puzzle": 5},
        {"puzzle": "x"},
        {"number": None},
        {"size": [2.5, 1]},
    ),
]


def test_odd_and_wrong_files_are_read_or_named_as_on_record(checkout, tmp_path, capsys):
    for name in ("row_1", "first_two_rows", "panel_1", "panel_combination_1_2"):
        picture(checkout / "dataset" / CONFIG / "3" / f"{name}.png", 3)
    panels = [[thing("top", "circle", color=color), thing("bottom", "square", color=28)] for color in (0, 56, 140)]
    good = json.loads(write_direct(checkout, DIRECT, number=10).read_text())
    write_direct(checkout, [{**DIRECT[0], **entry} for entry in ENTRIES], number=2)
    write_direct(checkout, OF_PARTS, panels=panels * 2, number=3)
    write_direct(checkout, DIRECT[:1], panels=[], number=4)
    for number, scene in enumerate(SCENES, 20):
        path = checkout / "dataset" / CONFIG / str(number) / "question.json"
        path.parent.mkdir()
        path.write_text(json.dumps({**good, **scene}))
    chain = chain_entries()
    renamed = [{**chain[0], "stage": "single_panel_9"}, {**chain[1], "correct_answer": 5}, "x", *chain[2:], chain[-1]]
    puzzles = [{"questions": [*chain[:-1], {**chain[-1], **final}]} for final in FINALS]
    puzzles += [7, {}, {"questions": renamed}, {"questions": chain[-2:]}, {"questions": chain[:-1]}]
    for name, content in (("_2", puzzles), ("_10", {}), ("_3", puzzles[2:3])):
        (checkout / f"logical_chain_questions{name}.json").write_text(json.dumps(content))
    assert imported(checkout, tmp_path / "out") == 1
    said, out = capsys.readouterr(), tmp_path / "out"
    parts = [said.err, said.out, (out / "warnings.txt").read_text()]
    lines = [json.loads(line) for line in (out / "questions.jsonl").read_text().splitlines()]
    for line in lines:
        told = [
            line[name] for name in ("file", "node", "puzzle", "number", "stage", "attribute", "part", "key", "subject")
        ]
        parts.append(f"{told} {len(line['text'])} {len(line['options'])} {line['doubts']}")
    for (subtask, configuration), of_kind in read_questions(str(out)).items():
        parts.append(f"# {subtask} {configuration}: {[len(puzzle) for puzzle in of_kind]}")
        for one in published_puzzle(str(out), subtask, configuration, len(of_kind) - 1, False):
            rates = [round(rate, 6) for rate in one.rates]
            parts.append(
                f"{one.node} {one.stage} {one.part} {one.counts} {one.key} {rates} {one.parents} {one.setting} {one.said}"
            )
    parts.append("# A checkout of nothing that can be read")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "question.json").write_text('{"questions": "\x1b[1m"}')
    parts.append(f"{imported(tmp_path / 'bad', tmp_path / 'none')} {capsys.readouterr().err}")
    parts.append("# Edited by hand")
    for edit in EDITS:
        changed = {name: value for name, value in {**lines[0], **edit}.items() if value is not ...}
        (out / "questions.jsonl").write_text("\n".join(json.dumps(line) for line in (lines[1], changed)))
        read_questions.cache_clear()
        try:
            told = {
                kind: [[one.text for one in puzzle] for puzzle in of] for kind, of in read_questions(str(out)).items()
            }
        except ValueError as error:
            told = str(error)
        parts.append(f"{edit}: {told}")
    text = re.sub(r"x{40,}", "xx", "\n".join(parts).replace(str(tmp_path), "TMP"))
    check_golden("multistar_import_odd", re.sub(r"(\.\./)+etc/", "OUTSIDE/etc/", text))


def test_a_chain_without_some_questions_keeps_the_rest_and_one_without_its_end_is_left_out(checkout, tmp_path):
    entries = chain_entries()
    broken = [{**entries[0], "correct_answer": "nonsense"}, *entries[1:]]
    write_chain(checkout, [broken, entries[:-1], entries])
    assert imported(checkout, tmp_path / "out") == 1
    warnings = (tmp_path / "out" / "warnings.txt").read_text()
    assert "puzzle 1, question 1" in warnings and "puzzle 2: has no final question" in warnings
    records = played(suite_of(tmp_path / "out", priors=["none", "truth"], sweep=False))
    assert [one.outcome.extra["n_questions"] for one in records] == [35, 35, 36, 36]


@pytest.mark.parametrize(
    ("finals", "others", "first"),
    [((8, 3), (0, 8), 1), ((1, 7), (8, 8), 0), ((0, 8), (1, 1), 0), ((), (8, 8), 0), ((1, 2), (), 0)],
)
def test_keys_of_final_questions_alone_tell_from_where_they_count(finals, others, first):
    asked = [*({"stage": "final", "correct_answer": key} for key in finals)]
    asked += [{"stage": stage, "correct_answer": key} for stage, key in zip(("1P", "2R"), others, strict=False)]
    found = SimpleNamespace(notes=[], named=str)
    data = [{"questions": asked[::2]}, "odd", {"questions": "odd"}, {"questions": [*asked[1::2], "odd"]}]
    assert _first_candidate(found, "FILE", data) == first
    assert len(found.notes) == bool(finals and not first), "who reads the import is told what was added"


def test_a_folder_without_questions_is_refused(tmp_path, capsys):
    assert imported(tmp_path, tmp_path / "out") == 2
    assert imported(tmp_path / "absent", tmp_path / "out") == 2
    assert "no questions of MultiStAR" in capsys.readouterr().err


def test_a_folder_that_changes_after_the_plan_fails_and_a_damaged_line_is_refused(checkout, tmp_path):
    imported(checkout, tmp_path / "out")
    suite = suite_of(tmp_path / "out", subtask="direct")
    episode = suite.plan()[0]
    write_direct(checkout, [DIRECT[1]])
    imported(checkout, tmp_path / "out")
    error = asyncio.run(play_episode(suite, episode, OraclePlayer())).error
    assert f"suite.source={tmp_path / 'out'} has changed since the plan was made: problem 1 of" in error
    index = tmp_path / "out" / "questions.jsonl"
    index.write_text(index.read_text() + '{"subtask": "chain"}\n')
    read_questions.cache_clear()
    with pytest.raises(ValueError, match="line 38: no imported question"):
        suite_of(tmp_path / "out").plan()


@pytest.mark.slow
def test_imported_questions_keep_the_contract_and_stand_beside_the_paper(checkout, tmp_path):
    imported(checkout, tmp_path / "out")
    check_suite(suite_of(tmp_path / "out", subtask="direct"), episodes=3)
    left_out, scored = (suite_of(tmp_path / "out", doubtful=how).conditions for how in ("left_out", "scored"))
    theirs = published("multistar").conditions
    assert scored.games == theirs.games != left_out.games and scored.pictures == left_out.pictures == theirs.pictures


def test_no_more_puzzles_are_planned_than_asked_for_or_imported(checkout, tmp_path):
    write_direct(checkout, DIRECT, number=1)
    for path in (checkout / "dataset" / CONFIG / "0").glob("*.png"):
        picture(path.parents[1] / "1" / path.name, 7)
    imported(checkout, tmp_path / "out")
    counts = [len(suite_of(tmp_path / "out", subtask="direct", puzzles=n).plan()) for n in (1, 2, 3, None)]
    assert counts == [len(DIRECT), *[2 * len(DIRECT)] * 3]


def test_rates_say_how_often_an_offered_option_is_the_key(checkout, tmp_path):
    imported(checkout, tmp_path / "out")
    folder = str(tmp_path / "out")
    questions = published_puzzle(folder, "direct", CONFIG, 0, True)
    for one in questions:
        alike = [
            other
            for other in questions
            if (other.stage, other.attribute, other.part) == (one.stage, one.attribute, one.part)
        ]
        for option, rate in zip(one.options, one.rates, strict=True):
            offered = [other for other in alike if option in other.options]
            assert rate == sum(other.options[other.key] == option for other in offered) / len(offered)
    assert {rate for one in questions for rate in one.rates} >= {0.0, 1.0}


def test_rates_of_each_part_are_its_own(tmp_path):
    config = "up_center_single_down_center_single"
    given = {"file": "", "doubts": (), "size": (2, 1), "picture": "ab", "text": "?", "options": ("square", "circle")}
    given |= {"subtask": "direct", "configuration": config, "puzzle": 0, "stage": "1P-B", "attribute": "shape"}
    parts = (("top", 0), ("bottom", 1), ("bottom", 0))
    stored = [
        Stored(number=n, node=f"published/{n}", part=part, key=key, **given) for n, (part, key) in enumerate(parts)
    ]
    more = {**given, "options": ("hexagon", "square")}
    stored.append(Stored(number=3, node="published/3", part="bottom", key=0, **more))
    write_questions(tmp_path, stored)
    found = published_puzzle(str(tmp_path), "direct", config, 0, True)
    assert [question.rates for question in found] == [(1, 0), (1 / 3, 0.5), (1 / 3, 0.5), (1, 1 / 3)], (
        "of the questions that offer it"
    )


def test_every_imported_puzzle_is_planned_unless_fewer_are_asked_for(checkout, tmp_path, monkeypatch):
    """Whatever the number of our own; configurations without any question plan nothing."""
    write_direct(checkout, DIRECT, number=1)
    for path in (checkout / "dataset" / CONFIG / "0").glob("*.png"):
        picture(path.parents[1] / "1" / path.name, 7)
    imported(checkout, tmp_path / "made" / "out")
    monkeypatch.setitem(DEFAULT_PUZZLES, "direct", 1)
    suite = suite_of(tmp_path / "made" / "out", subtask="direct", configurations="all")
    assert len(suite.configurations) == 7
    assert [(episode.task, episode.index) for episode in suite.plan()] == [
        (CONFIG, 100 * puzzle + place) for puzzle in (0, 1) for place in range(len(DIRECT))
    ]


def test_a_question_that_was_left_out_moves_no_other(checkout, tmp_path):
    write_direct(checkout, [*DIRECT[:1], {**DIRECT[1], "answer": "Z"}, *DIRECT[2:]])
    assert imported(checkout, tmp_path / "out") == 1
    suite = suite_of(tmp_path / "out", subtask="direct")
    plan = suite.plan()
    assert [episode.index for episode in plan] == [0, 2, 3, 4]
    asked = [suite._asked(episode) for episode in plan]
    assert [[question.text for question in each] for each in asked] == [
        [DIRECT[place]["question"]] for place in (0, 2, 3, 4)
    ]


def test_the_last_question_of_the_authors_is_asked_without_a_setting_and_guessed_by_its_rates(tmp_path):
    config = "up_center_single_down_center_single"
    given = {"file": "", "doubts": (), "size": (2, 1), "picture": "ab", "text": "?", "part": None, "subtask": "chain"}
    given |= {"configuration": config, "puzzle": 0}
    final = {"node": "final", "stage": "final", "attribute": None, "options": tuple("12345678"), "key": 4}
    before = {
        "node": "number/single_panel_1_top",
        "stage": "1P",
        "attribute": "number",
        "options": ("1", "2"),
        "key": 0,
    }
    write_questions(tmp_path, [Stored(number=n, **given, **each) for n, each in enumerate((before, final))])
    one, last = published_puzzle(str(tmp_path), "chain", config, 0, True)
    assert "horizontal line" in one.setting and last.setting == ""
    assert most_alike(last) == "5" and most_alike(one) == "A", "a file's pictures tell no candidates apart"


@pytest.mark.parametrize("word", ["right", "Right", "RIGHT", "left", "Left", ""])
def test_a_comparison_is_about_the_panel_that_it_names(word):
    for text in (f"{word} panel: more objects?", f"Has the {word}-hand panel more?"):
        assert first_panel(text, (3, 4)) == ((4, 3) if word.lower() == "right" else (3, 4))


def test_an_episode_asks_the_question_of_its_own_place():
    """Place 2 is neither 12 nor 102."""
    picture = FilePicture.__new__(FilePicture)
    questions = [SimpleNamespace(node=f"published/{place}", picture=picture) for place in (2, 12, 22)]
    for place in (2, 12):
        episode = SimpleNamespace(level="direct", index=300 + place, task="center_single")
        assert [question.node for question in asked_by(episode, questions)] == [f"published/{place}"]
